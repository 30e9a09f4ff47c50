//! The feed over a real store and real snapshots: what is missed, what is doubled, what a crash does.

mod damage;

use super::*;
use crate::features::{ViewRows, column, console_table};
use base::clock::Clock;
use base::codec::Record;
use base::ids::JobId;
use serde::{Deserialize, Serialize};
use sql::{Cell, ColumnKind, ColumnSpec};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use store::{Key, OrgRead, OrgTable, Store};
use tempfile::TempDir;

/// A thing with as many parts as `parts` says; `odd` makes its row not fit its table, `wide` brings a column.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ThingV1 {
    parts: u32,
    odd: bool,
    wide: bool,
}

impl Record for ThingV1 {}

/// A thing with so many parts cannot be shown: its view fails, or panics.
const FAILS: u32 = 1_000_001;
const PANICS: u32 = 1_000_002;

static THINGS: OrgTable<JobId, ThingV1> = OrgTable::new("test_things", "Thing").fed();

static TABLE: LazyLock<Arc<TableSpec>> =
    LazyLock::new(|| console_table("things", "Things.", vec![column("id", ColumnKind::Text, "The thing")]));
static WIDE_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    let mut spec = TABLE.as_ref().clone();
    spec.columns.push(ColumnSpec::new("width", ColumnKind::Int64));
    spec.catalog_version = 2;
    Arc::new(spec)
});
static PART_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    console_table("parts", "Parts of things.", vec![column("n", ColumnKind::Int64, "Which")])
});

static VIEW: View = View {
    source: "test_things",
    tables: || vec![TABLE.as_ref().clone(), PART_TABLE.as_ref().clone()],
    rows: thing_rows,
};

fn thing_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = JobId::decode(key) else { return Ok(Vec::new()) };
    let thing = tx.get(&THINGS, &id)?;
    match thing.as_ref().map(|thing| thing.parts) {
        Some(FAILS) => return Err(Error::internal("view a thing", "a test")),
        Some(PANICS) => panic!("a view of a test"),
        _ => {}
    }
    let own = |thing: &ThingV1| {
        let id = if thing.odd { Cell::Int(1) } else { Cell::from(id.to_string()) };
        if thing.wide { vec![id, Cell::Int(7)] } else { vec![id] }
    };
    let table = if thing.as_ref().is_some_and(|thing| thing.wide) { &WIDE_TABLE } else { &TABLE };
    let parts = thing.as_ref().map_or(0, |thing| thing.parts);
    Ok(vec![
        ViewRows { table: (*table).clone(), rows: thing.iter().map(own).collect() },
        ViewRows { table: PART_TABLE.clone(), rows: (0..parts).map(|n| vec![Cell::Int(n.into())]).collect() },
    ])
}

/// One note a thing, written in the same operation, so that there are always as many of both.
static NOTES: OrgTable<JobId, ThingV1> = OrgTable::new("test_notes", "Note").fed();

static NOTE_TABLE: LazyLock<Arc<TableSpec>> =
    LazyLock::new(|| console_table("notes", "Notes.", vec![column("id", ColumnKind::Text, "The thing")]));

static NOTE_VIEW: View =
    View { source: "test_notes", tables: || vec![NOTE_TABLE.as_ref().clone()], rows: note_rows };

fn note_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = JobId::decode(key) else { return Ok(Vec::new()) };
    let note = tx.get(&NOTES, &id)?.map(|_| vec![Cell::from(id.to_string())]);
    Ok(vec![ViewRows { table: NOTE_TABLE.clone(), rows: note.into_iter().collect() }])
}

/// A store, the snapshots' folder, and what each organization should show.
struct World {
    folder: TempDir,
    store: Store,
    things: BTreeMap<OrgId, BTreeMap<JobId, ThingV1>>,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        let store = Store::open(&folder.path().join("store.redb"), 16 << 20, Clock::system()).unwrap();
        World { folder, store, things: BTreeMap::new() }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("snapshots")
    }

    /// A feed as a new process has it.
    fn feed(&self) -> SnapshotFeed {
        let snapshots = Snapshots::open(self.root()).unwrap();
        SnapshotFeed::new(self.store.system(), Arc::new(snapshots), vec![&VIEW, &NOTE_VIEW], vec![]).unwrap()
    }

    fn put(&mut self, org: OrgId, id: JobId, thing: ThingV1) {
        self.things.entry(org).or_default().insert(id, thing.clone());
        self.store.system().write_blocking(move |tx| tx.org(org).put(&THINGS, &id, &thing)).unwrap();
    }

    fn put_many(&mut self, org: OrgId, things: Vec<(JobId, ThingV1)>) {
        self.things.entry(org).or_default().extend(things.iter().cloned());
        let put = move |tx: &store::SysWrite<'_>| {
            let tx = tx.org(org);
            things.iter().try_for_each(|(id, thing)| tx.put(&THINGS, id, thing))
        };
        self.store.system().write_blocking(put).unwrap();
    }

    fn delete(&mut self, org: OrgId, id: JobId) {
        self.things.entry(org).or_default().remove(&id);
        self.store.system().write_blocking(move |tx| tx.org(org).delete(&THINGS, &id)).unwrap();
    }

    fn newest(&self) -> u64 {
        *self.store.sequence().borrow()
    }

    /// Every organization shows what it should, and its position is that of the feed.
    fn assert_shown(&self, feed: &SnapshotFeed) {
        assert_eq!(feed.applied(), self.newest());
        assert!(feed.is_consistent());
        for (org, things) in &self.things {
            let fitting = things.values().filter(|thing| !thing.odd).count() as u64;
            let parts = things.values().map(|thing| u64::from(thing.parts)).sum();
            assert_eq!(counts(feed, &self.store, *org), (fitting, parts), "things and parts of {org}");
        }
    }
}

fn counts(feed: &SnapshotFeed, store: &Store, org: OrgId) -> (u64, u64) {
    let (tables, _) = feed.tables(&store.system().org(org)).unwrap();
    let rows = |name: &str| tables.iter().find(|table| table.spec.name.as_str() == name).unwrap().row_count;
    (rows("things"), rows("parts"))
}

fn catch_up(feed: &SnapshotFeed) {
    feed.begin().unwrap();
    while feed.pass().unwrap() {}
}

fn plain(parts: u32) -> ThingV1 {
    ThingV1 { parts, odd: false, wide: false }
}

#[test]
fn changes_reach_the_snapshots_of_their_organization() {
    let mut world = World::new();
    let (ours, theirs, id) = (OrgId::new(), OrgId::new(), JobId::new());
    world.put(ours, id, plain(3));
    world.put(ours, id, plain(2));
    world.put(theirs, JobId::new(), plain(5));
    let feed = world.feed();
    assert!(feed.pin(ours, Vec::new()).is_err(), "nothing is answered before the feed has begun");
    catch_up(&feed);
    world.assert_shown(&feed);
    assert_eq!(counts(&feed, &world.store, ours), (1, 2));
    let (pin, freshness_sec) = feed.pin(ours, Vec::new()).unwrap();
    assert!(freshness_sec <= 1);
    world.delete(ours, id);
    world.put(ours, JobId::new(), plain(1));
    catch_up(&feed);
    world.assert_shown(&feed);
    assert!(pin.position() < feed.applied());
    assert_eq!(counts(&feed, &world.store, theirs), (1, 5));
}

/// Things and notes of one snapshot.
fn things_and_notes(feed: &SnapshotFeed, org: OrgId) -> (u64, u64) {
    let tables = feed.snapshots.tables(org.0, &[TABLE.clone(), NOTE_TABLE.clone()]).unwrap();
    (tables[0].row_count, tables[1].row_count)
}

#[test]
fn a_snapshot_is_always_a_state_that_the_store_has_had() {
    let world = World::new();
    let (org, feed) = (OrgId::new(), world.feed());
    feed.begin().unwrap();
    let system = world.store.system();
    let writing = std::thread::spawn(move || {
        for n in 0..150 {
            let id = JobId::new();
            let write = move |tx: &store::SysWrite<'_>| {
                let tx = tx.org(org);
                tx.put(&NOTES, &id, &plain(0))?;
                tx.put(&THINGS, &id, &plain(1))
            };
            system.write_blocking(write).unwrap();
            if n % 3 == 0 {
                let write = move |tx: &store::SysWrite<'_>| {
                    tx.org(org).delete(&THINGS, &id)?;
                    tx.org(org).delete(&NOTES, &id)
                };
                system.write_blocking(write).unwrap();
            }
        }
    });
    let mut seen = std::collections::BTreeSet::new();
    while !writing.is_finished() {
        feed.pass().unwrap();
        let (things, notes) = things_and_notes(&feed, org);
        assert_eq!(things, notes);
        seen.insert(things);
    }
    writing.join().unwrap();
    catch_up(&feed);
    assert_eq!(things_and_notes(&feed, org), (100, 100));
    assert!(seen.len() > 1, "there was something to see: {seen:?}");
}

#[test]
fn nothing_is_answered_in_the_middle_of_a_large_backlog() {
    let mut world = World::new();
    let (org, other) = (OrgId::new(), OrgId::new());
    world.put(org, JobId::new(), plain(1));
    world.put(other, JobId::new(), plain(2));
    let feed = world.feed();
    catch_up(&feed);
    world.put_many(org, (0..25).map(|n| (JobId::new(), plain(n % 3))).collect());
    world.put(other, JobId::new(), plain(1));
    assert!(feed.pin(org, Vec::new()).is_ok());
    for _ in 0..2 {
        assert!(feed.take_in(10).unwrap(), "there is more");
        assert!(feed.pin(org, Vec::new()).is_err());
        // Others see what they saw, which is a state of theirs.
        assert_eq!(counts(&feed, &world.store, other), (1, 2));
    }
    assert!(!feed.take_in(10).unwrap());
    world.assert_shown(&feed);
}

#[test]
fn a_rebuild_that_ended_half_way_begins_again() {
    let mut world = World::new();
    let org = OrgId::new();
    world.put_many(org, (0..5).map(|_| (JobId::new(), plain(2))).collect());
    let feed = world.feed();
    catch_up(&feed);
    // As a disk leaves it that was full when the first rows should have been written.
    feed.reset(org).unwrap();
    feed.progress.lock().unmade.insert(org);
    world.put(org, JobId::new(), plain(1));
    catch_up(&feed);
    world.assert_shown(&feed);
    assert!(feed.progress.lock().unmade.is_empty());
}

#[test]
fn a_row_that_does_not_fit_is_left_out_alone() {
    let mut world = World::new();
    let org = OrgId::new();
    world.put(org, JobId::new(), ThingV1 { odd: true, ..plain(2) });
    world.put(org, JobId::new(), plain(1));
    let feed = world.feed();
    catch_up(&feed);
    world.assert_shown(&feed);
    assert_eq!(counts(&feed, &world.store, org), (1, 3));
}

#[test]
fn a_view_that_fails_stops_nothing_else() {
    let mut world = World::new();
    let (ours, theirs) = (OrgId::new(), OrgId::new());
    let (failing, panicking) = (JobId::new(), JobId::new());
    world.put(ours, failing, plain(1));
    world.put(ours, panicking, plain(2));
    let feed = world.feed();
    catch_up(&feed);
    world.assert_shown(&feed);
    world.put(ours, failing, plain(FAILS));
    world.put(ours, panicking, plain(PANICS));
    world.put(ours, JobId::new(), plain(3));
    world.put(theirs, JobId::new(), plain(4));
    catch_up(&feed);
    // What such a row showed before does not stand there any more.
    assert_eq!((feed.applied(), feed.is_consistent()), (world.newest(), true));
    assert_eq!(counts(&feed, &world.store, ours), (1, 3));
    assert_eq!(counts(&feed, &world.store, theirs), (1, 4));
    assert_eq!(feed.quarantined(), 2);
    // Once it can be shown, it is.
    world.put(ours, failing, plain(5));
    world.delete(ours, panicking);
    catch_up(&feed);
    world.assert_shown(&feed);
}

#[test]
fn a_wider_table_is_known_before_its_rows_and_after_a_restart() {
    let mut world = World::new();
    let (ours, theirs) = (OrgId::new(), OrgId::new());
    world.put(ours, JobId::new(), ThingV1 { wide: true, ..plain(1) });
    world.put(theirs, JobId::new(), plain(1));
    let feed = world.feed();
    catch_up(&feed);
    world.put(ours, JobId::new(), plain(1));
    catch_up(&feed);
    for feed in [feed, world.feed()] {
        catch_up(&feed);
        let columns = |org: OrgId| {
            let tables = feed.tables(&world.store.system().org(org)).unwrap().0;
            let things = tables.into_iter().find(|table| table.spec.name.as_str() == "things").unwrap();
            (things.spec.catalog_version, things.spec.columns.len(), things.row_count)
        };
        assert_eq!(columns(ours), (2, 2, 2));
        assert_eq!(columns(theirs), (1, 1, 1));
    }
}

#[test]
fn what_cannot_be_followed_is_rebuilt() {
    let mut world = World::new();
    let (ours, theirs) = (OrgId::new(), OrgId::new());
    for org in [ours, theirs] {
        world.put_many(org, (0..1_300).map(|n| (JobId::new(), plain(n % 3))).collect());
    }
    let feed = world.feed();
    catch_up(&feed);
    world.assert_shown(&feed);
    drop(feed);
    let manifest = |root: &Path| root.join(ours.to_string()).join("manifest.json");
    type Spoil = fn(&Path, &Path);
    let spoil: [(&str, Spoil); 4] = [
        ("the folder is gone", |root, _| std::fs::remove_dir_all(root).unwrap()),
        ("one organization is gone", |_, manifest| {
            std::fs::remove_dir_all(manifest.parent().unwrap()).unwrap()
        }),
        ("a manifest is damaged", |_, manifest| std::fs::write(manifest, "{").unwrap()),
        ("the position is gone", |root, _| std::fs::remove_file(root.join("feed.json")).unwrap()),
    ];
    for (what, spoil) in spoil {
        spoil(&world.root(), &manifest(&world.root()));
        let feed = world.feed();
        assert!(!feed.is_consistent(), "{what}");
        catch_up(&feed);
        world.assert_shown(&feed);
    }
    // Changes that were forgotten before the feed saw them, and one after those.
    world.put(ours, JobId::new(), plain(4));
    let forgotten = world.newest();
    let forget = move |tx: &store::SysWrite<'_>| tx.forget_changes(forgotten, 100_000);
    world.store.system().write_blocking(forget).unwrap();
    world.put(theirs, JobId::new(), plain(4));
    let feed = world.feed();
    catch_up(&feed);
    world.assert_shown(&feed);
}

#[test]
fn a_store_older_than_the_snapshots_wins() {
    let mut world = World::new();
    let (org, id) = (OrgId::new(), JobId::new());
    world.put(org, id, plain(2));
    let feed = world.feed();
    catch_up(&feed);
    drop(feed);
    // The same organization in a store that has had fewer changes: a backup was brought back.
    let mut older = World::new();
    older.put(org, id, plain(9));
    for _ in 0..3 {
        world.put(org, JobId::new(), plain(1));
    }
    catch_up(&world.feed());
    std::fs::rename(world.root(), older.root()).unwrap();
    let feed = older.feed();
    catch_up(&feed);
    older.assert_shown(&feed);
}

/// Random changes, passes, and processes that die at any point: in the end all is there, once.
#[test]
fn a_process_that_dies_loses_and_doubles_nothing() {
    let mut world = World::new();
    let orgs: Vec<OrgId> = (0..3).map(|_| OrgId::new()).collect();
    let mut ids: Vec<(OrgId, JobId)> = Vec::new();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    let mut feed = world.feed();
    feed.begin().unwrap();
    for _ in 0..400 {
        match random(10) {
            0..4 => {
                ids.push((orgs[random(3)], JobId::new()));
                let (org, id) = ids[ids.len() - 1];
                world.put(org, id, plain(random(4) as u32));
            }
            4 | 5 if !ids.is_empty() => {
                let (org, id) = ids[random(ids.len())];
                world.put(org, id, plain(random(4) as u32));
            }
            6 if !ids.is_empty() => {
                let (org, id) = ids.swap_remove(random(ids.len()));
                world.delete(org, id);
            }
            7 | 8 => {
                feed.pass().unwrap();
            }
            _ => {
                // It dies: after a pass, after storing its position, or between the snapshots of two organizations.
                match random(3) {
                    0 => feed.store_position().unwrap(),
                    1 => publish_one(&feed),
                    _ => {}
                }
                feed = world.feed();
                feed.begin().unwrap();
            }
        }
    }
    catch_up(&feed);
    world.assert_shown(&feed);
}

/// What a pass that dies after its first organization leaves.
fn publish_one(feed: &SnapshotFeed) {
    let batch = feed.system.read(|tx| batch::read(tx, &feed.reader(), feed.applied(), 100)).unwrap();
    if let Some((org, rows)) = batch.orgs.into_iter().next() {
        let changes =
            Changes { position: batch.end, committed_at_ms: rows.committed_at_ms, changes: rows.changes };
        feed.snapshots.apply(org.0, changes).unwrap();
    }
}

#[test]
fn snapshots_of_another_form_are_made_anew() {
    let mut world = World::new();
    let (ours, theirs) = (OrgId::new(), OrgId::new());
    for org in [ours, theirs] {
        for parts in 0..5 {
            world.put(org, JobId::new(), plain(parts));
        }
    }
    catch_up(&world.feed());
    let manifest = world.root().join(ours.to_string()).join("manifest.json");
    let written = std::fs::read_to_string(&manifest).unwrap();
    assert!(written.starts_with("{\"format\":2,"), "{written}");
    // What an older or newer release, a half-written disk or a crash of an upgrade could have left.
    for found in [
        written.replacen("\"format\":2", "\"format\":0", 1),
        written.replacen("\"format\":2", "\"format\":99", 1),
        "{\"format\":3,\"segments\":{}}".to_owned(),
        "no JSON".to_owned(),
        // The release before this one: no checksum behind the text.
        written.lines().next().unwrap().replacen("\"format\":2", "\"format\":1", 1),
        String::new(),
    ] {
        std::fs::write(&manifest, &found).unwrap();
        // The others' folder stays as it is.
        let kept = std::fs::metadata(world.root().join(theirs.to_string()).join("manifest.json")).unwrap();
        let feed = world.feed();
        catch_up(&feed);
        world.assert_shown(&feed);
        let now = std::fs::metadata(world.root().join(theirs.to_string()).join("manifest.json")).unwrap();
        assert_eq!(kept.modified().unwrap(), now.modified().unwrap());
        assert!(std::fs::read_to_string(&manifest).unwrap().starts_with("{\"format\":2,"));
        drop(feed);
    }
    // A release that writes segments in another form says so in the shape: everything is made anew.
    let position = world.root().join("feed.json");
    let stored = std::fs::read_to_string(&position).unwrap();
    std::fs::write(&position, stored.replacen("\"shape\":\"", "\"shape\":\"0", 1)).unwrap();
    let feed = world.feed();
    catch_up(&feed);
    world.assert_shown(&feed);
    assert_eq!(std::fs::read_to_string(&position).unwrap(), stored);
}
