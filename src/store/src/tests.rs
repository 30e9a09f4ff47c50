//! The store against itself: indexes, tenancy, groups, faults.

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

#[tokio::test]
async fn a_full_disk_is_a_503_and_passes_without_a_restart() {
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.system().org(OrgId::new());
    put(&org, note("before", 1)).await.unwrap();
    disk.fill_after(Some(0));
    let refused = put(&org, note("lost", 2)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ServiceUnavailable);
    disk.fill_after(None);
    let mut tries = 0;
    while put(&org, note("after", 3)).await.is_err() {
        tries += 1;
        assert!(tries < 100, "the store did not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let titles: Vec<_> = org
        .read(|tx| tx.scan(&NOTES, None, Order::Ascending, 10))
        .unwrap()
        .into_iter()
        .map(|(_, note)| note.title)
        .collect();
    assert_eq!(titles, ["before", "after"]);
}

/// Waits until a write goes through.
async fn takes_writes(org: &OrgStore, note: NoteV1) {
    let begun = Instant::now();
    while put(org, note.clone()).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the store did not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A commit is two syncs: one of its pages, one of the header that makes them count. What is answered is what is there.
#[tokio::test]
async fn a_commit_that_failed_at_its_end_is_answered_by_what_stands() {
    for (sound, stands) in [(0, false), (1, true)] {
        let disk = FaultyDisk::new();
        let store = store_on(&disk);
        let org = store.system().org(OrgId::new());
        put(&org, note("before", 1)).await.unwrap();
        disk.fail_syncs_once_after(sound);
        let answered = put(&org, note("in doubt", 2)).await;
        assert_eq!(answered.is_ok(), stands, "after {sound} good syncs: {answered:?}");
        takes_writes(&org, note("after", 3)).await;
        let titles: Vec<_> = org
            .read(|tx| tx.scan(&NOTES, None, Order::Ascending, 10))
            .unwrap()
            .into_iter()
            .map(|(_, note)| note.title)
            .collect();
        assert_eq!(titles.contains(&"in doubt".to_owned()), stands);
        // What was answered outlives a power cut a moment later.
        let revived = store_on(&disk.power_loss(|| false));
        let kept = revived.system().org(org.id());
        assert_eq!(kept.read(|tx| tx.count(&NOTES, 10)).unwrap(), titles.len());
        assert_eq!(*revived.sequence().borrow(), titles.len() as u64);
    }
}

#[tokio::test]
async fn a_disk_that_stays_broken_is_tried_again_now_and_then() {
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.system().org(OrgId::new());
    put(&org, note("before", 1)).await.unwrap();
    disk.fill_after(Some(0));
    let begun = Instant::now();
    let mut refused = 0u64;
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(put(&org, note("lost", 2)).await.unwrap_err().code(), Code::ServiceUnavailable);
        refused += 1;
        // redb writes when it opens a file, so on a disk that takes no byte at all reads have to wait too.
        let read = org.read(|tx| tx.count(&NOTES, 10)).map_err(|e| e.code());
        assert!(matches!(read, Ok(1) | Err(Code::ServiceUnavailable)), "{read:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(store.writer().trouble().is_some_and(|why| why.contains("nothing was stored")));
    assert!(store.writer().refused() >= refused);
    // 0.25, 0.5, 1 and 2 s lie between the tries.
    assert!(store.writer().reopened() <= 6, "{} times in 3 s", store.writer().reopened());
    disk.fill_after(None);
    takes_writes(&org, note("after", 3)).await;
    assert_eq!(store.writer().trouble(), None);
    assert_eq!(org.read(|tx| tx.count(&NOTES, 10)).unwrap(), 2);
}

#[tokio::test]
async fn a_read_that_fails_is_a_503_and_passes_without_a_write() {
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.system().org(OrgId::new());
    for n in 0..2_000 {
        org.write(move |tx| {
            for m in 0..10 {
                let note = note(&format!("{n} {m} {}", "x".repeat(900)), n);
                tx.put(&NOTES, &note.id, &note)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    }
    store.close();
    // Nothing is in the page cache of a store that was just opened.
    let store = store_on(&disk);
    let org = store.system().org(org.id());
    disk.fail_reads(true);
    let failed = org.read(|tx| tx.count(&NOTES, 100_000)).unwrap_err();
    assert_eq!(failed.code(), Code::ServiceUnavailable, "{failed}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    disk.fail_reads(false);
    let begun = Instant::now();
    while org.read(|tx| tx.count(&NOTES, 100_000)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "reads did not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(store.writer().reopened() <= 8, "{} times", store.writer().reopened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_writer_ends_neither_the_writer_nor_later_writes() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            // In the writer's hands: the caller had gone away.
            if std::thread::current().name() == Some("store-writer") {
                panic!("on purpose");
            }
        }
    }
    let store = store_on(&FaultyDisk::new());
    let org = store.system().org(OrgId::new());
    put(&org, note("before", 1)).await.unwrap();
    for round in 0..3 {
        let (begun, deciding) = tokio::sync::oneshot::channel();
        let (go_on, told) = std::sync::mpsc::channel::<()>();
        let write = org.write(move |tx| {
            let note = note("gone away", 9);
            tx.put(&NOTES, &note.id, &note)?;
            let _ = begun.send(());
            // Until the caller is gone.
            let _ = told.recv();
            tx.delete(&NOTES, &note.id)?;
            Ok(Bomb)
        });
        // Dropped while the writer decides.
        tokio::select! {
            _ = write => panic!("it cannot be decided yet"),
            begun = deciding => begun.unwrap(),
        }
        drop(go_on);
        takes_writes(&org, note(&format!("after {round}"), 2)).await;
    }
    let begun = Instant::now();
    while store.writer().restarted() < 3 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the writer did not panic: the test shows nothing"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.writer().trouble(), None);
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

#[tokio::test]
async fn after_a_power_loss_everything_answered_is_there() {
    let disk = FaultyDisk::new();
    let store = store_on(&disk);
    let org = store.system().org(OrgId::new());
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut answered = Vec::new();
    for round in 0..60 {
        answered.push(put(&org, note(&format!("n{round}"), dice.roll() % 9)).await.unwrap());
        let after = disk.power_loss(|| dice.roll().is_multiple_of(2));
        let revived = store_on(&after);
        let kept = revived.system().org(org.id());
        for note in &answered {
            assert_eq!(kept.read(|tx| tx.require(&NOTES, &note.id)).unwrap(), *note);
            let found = kept.read(|tx| tx.lookup(&NOTES, &BY_TITLE, &note.title)).unwrap();
            assert_eq!(found.as_ref(), Some(note));
        }
        assert_eq!(*revived.sequence().borrow(), answered.len() as u64);
        revived.close();
    }
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
