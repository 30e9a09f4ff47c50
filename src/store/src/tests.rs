//! The store against itself: indexes, tenancy, groups, faults.

mod faults;

use super::fault::FaultyDisk;
use super::*;
use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{JobId, UserId};
use base::page::PageRequest;
use base::permission::{Permissions, Role};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct NoteV1 {
    id: JobId,
    title: String,
    rank: u64,
}

impl Record for NoteV1 {}

static BY_TITLE: Index<String, NoteV1> = Index::unique("notes.by_title", |note, keys| keys.add(&note.title));
static BY_RANK: Index<u64, NoteV1> = Index::new("notes.by_rank", |note, keys| {
    keys.add(note.rank);
});
static DUE: Index<u64, NoteV1> = Index::global("notes.due", |note, keys| {
    if note.rank > 100 {
        keys.add(note.rank);
    }
});
static NOTES: OrgTable<JobId, NoteV1> =
    OrgTable::new("notes", "Note").indexed(&[&BY_TITLE, &BY_RANK, &DUE]).fed();

fn note(title: &str, rank: u64) -> NoteV1 {
    NoteV1 { id: JobId::new(), title: title.to_owned(), rank }
}

fn store_on(disk: &FaultyDisk) -> Store {
    let disk = disk.clone();
    Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap()
}

fn member(store: &Store, org: OrgId) -> Principal {
    store.system().principal(Identity {
        user: UserId::new(),
        name: "Ada".into(),
        membership: Some((org, Role::Owner)),
        allowed: Role::Owner.permissions(),
        email_verified: true,
        method: AuthMethod::Jwt,
    })
}

/// Waits until a write goes through.
async fn takes_writes(org: &OrgStore, note: NoteV1) {
    let begun = Instant::now();
    while put(org, note.clone()).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the store did not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A small generator with a seed, so that a failing case can be run again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

async fn put(store: &OrgStore, note: NoteV1) -> Result<NoteV1> {
    store
        .write(move |tx| {
            tx.put(&NOTES, &note.id, &note)?;
            Ok(note)
        })
        .await
}

#[tokio::test]
async fn a_foreign_row_is_a_missing_row() {
    let store = store_on(&FaultyDisk::new());
    let mine = store.org(&member(&store, OrgId::new())).unwrap();
    let theirs = store.org(&member(&store, OrgId::new())).unwrap();
    let kept = put(&mine, note("a", 1)).await.unwrap();
    // The same unique title in another organization is no conflict.
    put(&theirs, note("a", 2)).await.unwrap();

    assert_eq!(mine.read(|tx| tx.require(&NOTES, &kept.id)).unwrap(), kept);
    let foreign = theirs.read(|tx| tx.require(&NOTES, &kept.id)).unwrap_err();
    let missing = theirs.read(|tx| tx.require(&NOTES, &JobId::new())).unwrap_err();
    assert_eq!(foreign.to_string(), missing.to_string());
    assert_eq!(theirs.read(|tx| tx.count(&NOTES, 10)).unwrap(), 1);
    let nobody = store.system().principal(Identity {
        user: UserId::new(),
        name: "Nobody".into(),
        membership: None,
        allowed: Permissions::NONE,
        email_verified: false,
        method: AuthMethod::Jwt,
    });
    assert_eq!(store.org(&nobody).err().map(|e| e.code()), Some(Code::OrgNotFound));
}

#[tokio::test]
async fn indexes_follow_the_row() {
    let store = store_on(&FaultyDisk::new());
    let org = store.system().org(OrgId::new());
    let mut first = put(&org, note("first", 5)).await.unwrap();
    put(&org, note("second", 5)).await.unwrap();
    assert_eq!(put(&org, note("first", 9)).await.unwrap_err().code(), Code::AlreadyExists);

    let ranked = |rank| org.read(|tx| tx.scan_index(&NOTES, &BY_RANK, rank, Order::Ascending, 10)).unwrap();
    assert_eq!(ranked(5).len(), 2);
    first.rank = 500;
    first.title = "renamed".to_owned();
    put(&org, first.clone()).await.unwrap();
    assert_eq!(ranked(5).len(), 1);
    assert_eq!(ranked(500), vec![first.clone()]);
    let by_title = |title: &'static str| org.read(|tx| tx.lookup(&NOTES, &BY_TITLE, title)).unwrap();
    assert_eq!(by_title("first"), None);
    assert_eq!(by_title("renamed"), Some(first.clone()));

    let due =
        store.system().read(|tx| tx.scan_global(&NOTES, &DUE, &Seek::start(), None, 10)).unwrap().entries;
    assert_eq!(due.iter().map(|entry| (entry.org, entry.key)).collect::<Vec<_>>(), [(org.id(), first.id)]);
    let gone = first.clone();
    assert!(org.write(move |tx| tx.delete(&NOTES, &gone.id)).await.unwrap());
    assert_eq!(by_title("renamed"), None);
    let due = store.system().read(|tx| tx.scan_global(&NOTES, &DUE, &Seek::start(), None, 10)).unwrap();
    assert!(due.entries.is_empty() && due.is_last);
}

#[tokio::test]
async fn an_operation_sees_its_own_changes_and_leaves_nothing_when_refused() {
    let store = store_on(&FaultyDisk::new());
    let org = store.system().org(OrgId::new());
    put(&org, note("kept", 1)).await.unwrap();
    let refused = org
        .write(|tx| {
            let (a, b) = (note("a", 2), note("b", 3));
            tx.put(&NOTES, &a.id, &a)?;
            tx.put(&NOTES, &b.id, &b)?;
            tx.delete(&NOTES, &a.id)?;
            let seen = tx.scan(&NOTES, None, Order::Ascending, 10)?;
            assert_eq!(seen.iter().map(|(_, note)| note.title.as_str()).collect::<Vec<_>>(), ["kept", "b"]);
            let newest = tx.scan(&NOTES, None, Order::Descending, 1)?;
            assert_eq!(newest[0].1.title, "b");
            Err::<(), _>(Error::conflict("changed my mind"))
        })
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::Conflict);
    let panicked = org.write(|_| -> Result<()> { panic!("on purpose") }).await;
    assert_eq!(panicked.unwrap_err().code(), Code::InternalError);
    assert_eq!(org.read(|tx| tx.count(&NOTES, 10)).unwrap(), 1);
}

#[tokio::test]
async fn a_refused_put_changes_no_index_even_when_the_operation_goes_on() {
    let store = store_on(&FaultyDisk::new());
    let org = store.system().org(OrgId::new());
    put(&org, note("taken", 1)).await.unwrap();
    let mut mine = put(&org, note("mine", 2)).await.unwrap();
    mine.title = "taken".to_owned();
    let refused = org.write(move |tx| Ok(tx.put(&NOTES, &mine.id, &mine).is_err())).await.unwrap();
    assert!(refused);
    let found = org.read(|tx| tx.lookup(&NOTES, &BY_TITLE, "mine")).unwrap();
    assert_eq!(found.map(|note| note.title).as_deref(), Some("mine"));
}

#[tokio::test]
async fn a_scan_sees_exactly_what_a_map_would() {
    let store = store_on(&FaultyDisk::new());
    let org = store.system().org(OrgId::new());
    let committed: Vec<_> = (0..40).map(|rank| note(&format!("n{rank}"), rank)).collect();
    for note in &committed {
        put(&org, note.clone()).await.unwrap();
    }
    org.write(move |tx| {
        let mut dice = Dice(0xD1CE);
        let mut expected: std::collections::BTreeMap<_, _> =
            committed.into_iter().map(|note| (note.id, note)).collect();
        for round in 0..300 {
            let rank = dice.roll() % 40;
            let known: Vec<_> = expected.keys().copied().collect();
            let pick = known[(dice.roll() % known.len() as u64) as usize];
            if dice.roll().is_multiple_of(3) {
                expected.remove(&pick);
                tx.delete(&NOTES, &pick)?;
            } else {
                let row = NoteV1 { id: pick, title: format!("r{round}"), rank };
                tx.put(&NOTES, &row.id, &row)?;
                expected.insert(row.id, row);
                let row = note(&format!("new{round}"), rank);
                tx.put(&NOTES, &row.id, &row)?;
                expected.insert(row.id, row);
            }
            let limit = (dice.roll() % 7) as usize + 1;
            let ids = |rows: Vec<(JobId, NoteV1)>| rows.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
            let up: Vec<_> = expected.keys().copied().filter(|id| *id > pick).take(limit).collect();
            assert_eq!(ids(tx.scan(&NOTES, Some(&pick), Order::Ascending, limit)?), up);
            let down: Vec<_> = expected.keys().rev().copied().filter(|id| *id < pick).take(limit).collect();
            assert_eq!(ids(tx.scan(&NOTES, Some(&pick), Order::Descending, limit)?), down);
            let ranked: Vec<_> =
                expected.values().rev().filter(|note| note.rank == rank).take(limit).cloned().collect();
            let found = tx.scan_index(&NOTES, &BY_RANK, rank, Order::Descending, limit)?;
            assert_eq!(found, ranked);
        }
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn pages_are_stable_while_rows_arrive() {
    let store = store_on(&FaultyDisk::new());
    let org = store.system().org(OrgId::new());
    for i in 0..25 {
        put(&org, note(&format!("n{i}"), i % 2)).await.unwrap();
    }
    let mut request = PageRequest { limit: 4, cursor: None };
    let mut titles = Vec::new();
    loop {
        let page =
            org.read(|tx| tx.page_by(&NOTES, &BY_RANK, 0, &request, |note| note.title != "n4")).unwrap();
        titles.extend(page.items.into_iter().map(|note| note.title));
        put(&org, note(&format!("late{}", titles.len()), 0)).await.unwrap();
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(cursor),
            None => break,
        }
    }
    let expected: Vec<_> = (0..25).rev().filter(|i| i % 2 == 0 && *i != 4).map(|i| format!("n{i}")).collect();
    assert_eq!(titles, expected);
    let foreign = PageRequest { limit: 4, cursor: request.cursor };
    assert!(org.read(|tx| tx.page(&NOTES, &foreign, |_| true)).is_err(), "a cursor of another list");
}

#[tokio::test]
async fn change_records_are_numbered_without_gaps_and_can_be_forgotten() {
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.system().org(OrgId::new());
    let first = org
        .write(|tx| {
            let (a, b) = (note("a", 1), note("b", 1));
            assert_eq!(tx.next_sequence(), 1);
            tx.put(&NOTES, &a.id, &a)?;
            assert_eq!(tx.next_sequence(), 2);
            tx.put(&NOTES, &b.id, &b)?;
            Ok(a.id)
        })
        .await
        .unwrap();
    org.write(|_| Err::<(), _>(Error::conflict("no"))).await.unwrap_err();
    org.write(move |tx| tx.delete(&NOTES, &first)).await.unwrap();
    let system = store.system();
    let changes = system.read(|tx| tx.changes(0, 10)).unwrap();
    assert_eq!(
        changes.iter().map(|c| (c.sequence, c.deleted)).collect::<Vec<_>>(),
        [(1, false), (2, false), (3, true)]
    );
    assert!(changes.iter().all(|c| c.org == org.id() && c.table == "notes"));
    assert_eq!(JobId::decode(&changes[2].key), Some(first));
    assert_eq!(*store.sequence().borrow(), 3);

    assert_eq!(system.write(|tx| tx.forget_changes(3, 100)).await.unwrap(), 3);
    store.close();
    let store = store_on(&disk);
    assert_eq!(store.system().read(|tx| tx.changes_begin()).unwrap(), 4);
    let org = store.system().org(org.id());
    put(&org, note("later", 1)).await.unwrap();
    assert_eq!(
        store.system().read(|tx| tx.changes(0, 10)).unwrap()[0].sequence,
        4,
        "numbers are never used twice"
    );
}

#[test]
fn a_newer_layout_is_refused() {
    static NEWER: &[Migration] = &[
        Migration { name: "one", run: |_| Ok(()) },
        Migration { name: "two", run: |_| Ok(()) },
        Migration { name: "three", run: |_| Ok(()) },
        Migration { name: "four", run: |_| Ok(()) },
    ];
    let disk = FaultyDisk::new();
    let newer = disk.clone();
    Store::open_backend(move || newer.backend(), Clock::system(), NEWER).unwrap().close();
    let older = disk.clone();
    let refused = Store::open_backend(move || older.backend(), Clock::system(), MIGRATIONS);
    assert!(refused.err().unwrap().to_string().contains("newer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_share_commits() {
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.system().org(OrgId::new());
    let before = disk.syncs();
    let tasks: Vec<_> = (0..500)
        .map(|i| {
            let org = org.clone();
            tokio::spawn(async move { put(&org, note(&format!("n{i}"), i)).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(org.read(|tx| tx.count(&NOTES, 1_000)).unwrap(), 500);
    assert!(disk.syncs() - before < 800, "500 writes took {} syncs", disk.syncs() - before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_read_sees_what_was_answered_before_it_began() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.org(&member(&store, OrgId::new())).unwrap();
    let first = put(&org, note("counter", 0)).await.unwrap();
    let answered = Arc::new(AtomicU64::new(0));
    let readers = (0..3).map(|_| {
        let (org, answered, id) = (org.clone(), answered.clone(), first.id);
        tokio::task::spawn_blocking(move || {
            while answered.load(Ordering::SeqCst) < 200 {
                let before = answered.load(Ordering::SeqCst);
                let seen = org.read(|tx| tx.require(&NOTES, &id)).unwrap().rank;
                assert!(seen >= before, "{seen} was read after {before} was answered");
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for rank in 1..=200 {
        put(&org, NoteV1 { rank, ..first.clone() }).await.unwrap();
        answered.store(rank, Ordering::SeqCst);
    }
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(org.read(|tx| tx.require(&NOTES, &first.id)).unwrap().rank, 200);
    // A store that closes does not wait for snapshots that nobody reads.
    store.close();
    let again = store_on(&disk);
    let org = again.org(&member(&again, org.id())).unwrap();
    assert_eq!(org.read(|tx| tx.require(&NOTES, &first.id)).unwrap().rank, 200);
}

#[tokio::test]
async fn slow_operations_do_not_make_each_other_wait_for_one_commit() {
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.system().org(OrgId::new());
    // While this one decides, the others queue up behind it.
    let slow = |i: u64| {
        let org = org.clone();
        async move {
            let write = org.write(move |tx| {
                std::thread::sleep(Duration::from_millis(40));
                let note = note(&format!("slow{i}"), i);
                tx.put(&NOTES, &note.id, &note)
            });
            write.await
        }
    };
    let ended = futures::future::join_all((0..12).map(slow)).await;
    assert!(ended.iter().all(|ended| ended.is_ok()));
    let commits = store.stats().commits.load(Ordering::Relaxed);
    assert!((4..=12).contains(&commits), "{commits} commits for 12 operations of 40 ms");
    assert_eq!(store.stats().operations.load(Ordering::Relaxed), 12);
}

#[tokio::test]
async fn neither_time_nor_ids_go_back_over_a_restart() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    let disk = FaultyDisk::new();
    let open = |clock: &Clock| {
        let (disk, clock) = (disk.clone(), clock.clone());
        Store::open_backend(move || disk.backend(), clock, MIGRATIONS).unwrap()
    };
    let org = OrgId::new();
    let (mut newest, mut moment) = (JobId::new(), Timestamp(0).millis());
    for by_ms in [0, 2 * YEAR_MS, -3 * YEAR_MS, -60_000, 4 * YEAR_MS] {
        // As another process finds it: nothing is known but what the store keeps.
        let clock = Clock::system();
        clock.set_wall(by_ms);
        let store = open(&clock);
        assert!(clock.moment().millis() >= moment, "by {by_ms}");
        let off_by = clock.now().millis() - Timestamp::by_machine().millis() - by_ms;
        assert!(off_by.abs() < 20_000, "dates are the machine's: {off_by}");
        let row = put(&store.system().org(org), note(&format!("by {by_ms}"), 1)).await.unwrap();
        assert!(row.id > newest, "by {by_ms}");
        (newest, moment) = (row.id, clock.moment().millis());
        store.close();
    }
}

/// A write after which `tell` hears of the commit.
async fn put_and_tell(
    org: OrgStore,
    note: NoteV1,
    tell: std::sync::mpsc::Sender<Committed>,
    refused: bool,
) -> Result<()> {
    org.write(move |tx| {
        tx.after_commit(move |committed| tell.send(committed).expect("somebody listens"));
        tx.put(&NOTES, &note.id, &note)?;
        if refused { Err(Error::conflict("no")) } else { Ok(()) }
    })
    .await
}

#[tokio::test]
async fn what_follows_a_commit_is_done_though_nobody_waits_for_it() {
    use futures::FutureExt;
    const PATIENCE: Duration = Duration::from_secs(60);
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.system().org(OrgId::new());
    let (tell, told) = std::sync::mpsc::channel();
    // Whoever asked is gone as soon as the operation is on its way.
    let one = note("nobody's", 1);
    drop(put_and_tell(org.clone(), one.clone(), tell, false).now_or_never());
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Committed::Stands));
    assert_eq!(org.read(|tx| tx.get(&NOTES, &one.id)).unwrap(), Some(one));
    // Who is answered finds it done; and a panic in it is nobody else's.
    let (tell, told) = std::sync::mpsc::channel();
    let panics = org.write(|tx| {
        tx.after_commit(|_| panic!("a test"));
        tx.put(&NOTES, &JobId::new(), &note("beside it", 2))
    });
    let (panics, answered) = futures::join!(panics, put_and_tell(org.clone(), note("two", 2), tell, false));
    panics.unwrap();
    answered.unwrap();
    assert_eq!(told.try_recv(), Ok(Committed::Stands));
    // Nothing follows what was refused. What a full disk did not keep may stand as far as is known, for the file cannot be
    // looked at before there is room.
    let (tell, told) = std::sync::mpsc::channel();
    put_and_tell(org.clone(), note("refused", 3), tell, true).await.unwrap_err();
    assert!(told.try_recv().is_err());
    let (tell, told) = std::sync::mpsc::channel();
    disk.fill_after(Some(0));
    put_and_tell(org.clone(), note("lost", 4), tell, false).await.unwrap_err();
    assert_ne!(told.try_recv(), Ok(Committed::Stands));
    disk.fill_after(None);
    takes_writes(&org, note("after", 5)).await;
    // Of a commit that failed at its end it is done where that stands.
    for (sound, stands) in [(0, false), (1, true)] {
        let (tell, told) = std::sync::mpsc::channel();
        disk.fail_syncs_once_after(sound);
        let answered = put_and_tell(org.clone(), note(&format!("in doubt {sound}"), 6), tell, false).await;
        assert_eq!((answered.is_ok(), told.try_recv().is_ok()), (stands, stands));
        takes_writes(&org, note(&format!("then {sound}"), 7)).await;
    }
}

#[tokio::test]
#[should_panic(expected = "a unique index is looked up by its keys")]
async fn a_unique_index_of_all_organizations_is_not_scanned() {
    static BY_TEXT: Index<String, NoteV1> = Index::global_unique("notes.by_text", |note, keys| {
        keys.add(&note.title);
    });
    let store = Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS).unwrap();
    let _ = store.system().read(|tx| tx.scan_global(&NOTES, &BY_TEXT, &Seek::start(), None, 10));
}
