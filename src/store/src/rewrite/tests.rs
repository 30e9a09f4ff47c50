//! The file written anew under writes, readers and crashes.

use super::*;
use crate::{Index, OrgStore, OrgTable, Store};
use base::clock::Clock;
use base::codec::Record;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LineV1 {
    text: String,
    rank: u64,
}

impl Record for LineV1 {}

static BY_RANK: Index<u64, LineV1> = Index::new("lines.by_rank", |line, keys| {
    keys.add(line.rank);
});
static LINES: OrgTable<u64, LineV1> = OrgTable::new("lines", "Line").indexed(&[&BY_RANK]).fed();

const MARKER: &str = "the-marker-of-what-was-deleted";

fn open(folder: &Path) -> Store {
    Store::open(&folder.join("store.redb"), 4 << 20, Clock::system()).unwrap()
}

/// Whether any file of the folder has the marker, as `grep` would find it.
fn has_marker(folder: &Path) -> bool {
    let needle = Finder::new(MARKER);
    let files = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files.into_iter().any(|bytes| needle.find(&bytes).is_some())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Every row of every table, but for the store's own bookkeeping.
fn dump(store: &Store) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let handle = &store.inner.handle;
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut rows = Vec::new();
    for table in tables(handle).unwrap().into_iter().filter(|table| *table != META) {
        use crate::raw::View;
        let found = handle.read(|view| view.scan(table, all.0, all.1, false, usize::MAX)).unwrap();
        rows.extend(found.into_iter().map(|(key, value)| (table, key, value)));
    }
    rows
}

async fn write(org: &OrgStore, lines: impl IntoIterator<Item = (u64, String)> + Send + 'static) {
    org.write(move |tx| {
        let mut lines = lines.into_iter();
        lines.try_for_each(|(key, text)| tx.put(&LINES, &key, &LineV1 { text, rank: key % 7 }))
    })
    .await
    .unwrap();
}

async fn delete(org: &OrgStore, keys: std::ops::Range<u64>) {
    org.write(move |tx| keys.into_iter().try_for_each(|key| tx.delete(&LINES, &key).map(drop)))
        .await
        .unwrap();
}

async fn rewrite(store: &Store, looked_for: &'static [OrgId]) -> Result<Rewritten> {
    let store = store.clone();
    tokio::task::spawn_blocking(move || store.rewrite(looked_for, &|| false)).await.unwrap()
}

/// The data folder is moved away, and a copy of it is put under its name.
#[tokio::test]
async fn a_store_that_was_moved_takes_nothing_and_writes_over_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
    fs::create_dir(&data).unwrap();
    let store = open(&data);
    let org = store.system().org(OrgId::new());
    write(&org, (0..100).map(|key| (key, format!("line {key}")))).await;
    let before = dump(&store);
    let copy = fs::read(data.join("store.redb")).unwrap();
    for has_copy in [false, true] {
        fs::rename(&data, &aside).unwrap();
        fs::create_dir(&data).unwrap();
        if has_copy {
            fs::write(data.join("store.redb"), &copy).unwrap();
        }
        // At once, before anybody has looked after the folder.
        let added = org.write(|tx| tx.put(&LINES, &200, &LineV1 { text: String::new(), rank: 0 })).await;
        let deleted = org.write_freeing(|tx| tx.delete(&LINES, &1).map(drop)).await;
        for refused in [added, deleted, store.probe().await, store.check_place()] {
            let error = refused.unwrap_err();
            assert_eq!(error.code(), base::Code::ServiceUnavailable);
            assert!(error.detail().unwrap_or_default().contains("moved or unmounted"), "{error:?}");
        }
        rewrite(&store, &[]).await.unwrap_err();
        store.inner.handle.reopen().unwrap_err();
        assert_eq!(dump(&store), before, "reads go on");
        if has_copy {
            assert_eq!(names(&data), ["store.redb"]);
            assert_eq!(fs::read(data.join("store.redb")).unwrap(), copy);
            fs::remove_file(data.join("store.redb")).unwrap();
        }
        fs::remove_dir(&data).expect("nothing was made there");
        fs::rename(&aside, &data).unwrap();
    }
    // Who has looked after the folder refuses them before they come to the writer.
    store.set_folder_gone(true);
    assert!(org.write_freeing(|tx| tx.delete(&LINES, &1).map(drop)).await.is_err());
    store.set_folder_gone(false);
    org.write_freeing(|tx| tx.delete(&LINES, &1).map(drop)).await.unwrap();
    rewrite(&store, &[]).await.unwrap();
    org.write_freeing(|tx| tx.delete(&LINES, &2).map(drop)).await.unwrap();
    store.inner.handle.reopen().unwrap();
    assert_eq!(dump(&store).iter().filter(|(table, ..)| *table == "lines").count(), 98);
}

#[tokio::test]
async fn what_was_deleted_or_changed_is_in_no_file_and_the_rest_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let org = store.system().org(OrgId::new());
    for part in 0..20 {
        let line = move |i: u64| (part * 100 + i, format!("{MARKER} {part} {i} {}", "x".repeat(300)));
        write(&org, (0..100).map(line)).await;
    }
    delete(&org, 0..1_500).await;
    write(&org, (1_500..2_000).map(|key| (key, format!("changed {key}")))).await;
    // Large values have pages of their own.
    write(&org, [(5_000, MARKER.repeat(5_000))]).await;
    delete(&org, 5_000..5_001).await;
    assert!(has_marker(folder.path()), "the test can fail: redb keeps what was freed");
    let before = dump(&store);
    let done = rewrite(&store, &[]).await.unwrap();
    assert!(!has_marker(folder.path()));
    assert_eq!(names(folder.path()), ["store.redb"]);
    assert_eq!(dump(&store), before);
    assert!(done.rows >= before.len() as u64 && done.bytes_after < done.bytes_before, "{done:?}");
    // The store goes on, also after a restart.
    write(&org, [(9_000, "later".to_owned())]).await;
    rewrite(&store, &[]).await.unwrap();
    let before = dump(&store);
    store.close();
    let store = open(folder.path());
    assert_eq!(dump(&store), before);
    let later = store.system().org(org.id()).read(|tx| tx.require(&LINES, &9_000)).unwrap();
    assert_eq!(later.text, "later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_go_on_meanwhile_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let org = store.system().org(OrgId::new());
    for part in 0..40 {
        write(&org, (0..250).map(move |i| (part * 250 + i, format!("first {} {i}", "y".repeat(500))))).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (writing, stopping) = (org.clone(), stop.clone());
    let changes = tokio::spawn(async move {
        let mut n = 0;
        while !stopping.load(Ordering::Relaxed) {
            // Behind, at and before the place of the copy, new rows, changed rows, rows that go.
            let keys = [n * 37 % 10_000, 10_000 + n, 9_999 - n * 13 % 9_999];
            write(&writing, keys.map(|key| (key, format!("change {n}")))).await;
            delete(&writing, n * 91 % 10_000..n * 91 % 10_000 + 3).await;
            n += 1;
        }
        n
    });
    for _ in 0..5 {
        rewrite(&store, &[]).await.unwrap();
        // A change that is lost shows in the indexes or in the rows: both are compared with what a reader sees.
    }
    stop.store(true, Ordering::Relaxed);
    assert!(changes.await.unwrap() > 0);
    rewrite(&store, &[]).await.unwrap();
    let before = dump(&store);
    let rows = org.read(|tx| tx.scan(&LINES, None, crate::Order::Ascending, 100_000)).unwrap();
    for rank in 0..7 {
        let of_rank = org
            .read(|tx| {
                let order = crate::Order::Ascending;
                tx.scan_index(&LINES, &BY_RANK, rank, order, 100_000)
            })
            .unwrap();
        assert_eq!(of_rank.len(), rows.iter().filter(|(_, line)| line.rank == rank).count());
    }
    let told = store.system().read(|tx| tx.changes(0, 1_000_000)).unwrap();
    let last = told.last().unwrap().sequence;
    assert_eq!(told.len() as u64, last, "every change record is there");
    assert_eq!(*store.sequence().borrow(), last);
    store.close();
    assert_eq!(dump(&open(folder.path())), before);
}

/// The rows that a writer leaves under a file that is written anew again and again are those it leaves without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_written_anew_ends_like_one_that_is_not() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let stores = folders.each_ref().map(|folder| open(folder.path()));
    let id = OrgId::new();
    let orgs = stores.each_ref().map(|store| store.system().org(id));
    let again = stores[0].clone();
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    let rewriting = tokio::task::spawn_blocking(move || {
        let mut times = 0;
        while !stopping.load(Ordering::Relaxed) {
            again.rewrite(&[], &|| false).unwrap();
            times += 1;
        }
        times
    });
    for n in 0..100_u64 {
        for org in &orgs {
            write(org, (0..20).map(move |i| ((n * 7 + i * 131) % 3_000, format!("{n} {i}")))).await;
            delete(org, n * 17 % 3_000..n * 17 % 3_000 + 5).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(rewriting.await.unwrap() > 1);
    let [one, other] =
        orgs.map(|org| org.read(|tx| tx.scan(&LINES, None, crate::Order::Ascending, 10_000)).unwrap());
    assert_eq!(one, other);
}

#[tokio::test]
async fn what_a_crash_left_is_cleared_up_and_the_file_itself_never() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let store = open(folder.path());
    let org = store.system().org(OrgId::new());
    write(&org, [(1, "kept".to_owned())]).await;
    let before = dump(&store);
    store.close();
    // Cut off while copying, and between the second name and the renaming.
    fs::write(folder.path().join("store.redb.new"), MARKER).unwrap();
    fs::hard_link(&file, folder.path().join("store.redb.old")).unwrap();
    let store = open(folder.path());
    assert_eq!(names(folder.path()), ["store.redb"]);
    assert_eq!(dump(&store), before);
    store.close();
    // Cut off after the renaming.
    fs::write(folder.path().join("store.redb.old"), MARKER.repeat(100_000)).unwrap();
    let store = open(folder.path());
    assert_eq!(names(folder.path()), ["store.redb"]);
    assert_eq!(dump(&store), before);
}

/// redb makes its file longer than it is full; what a crash leaves of such a one must not ask for a disk that has room for
/// all of its length, nor keep the box from starting.
#[tokio::test]
async fn what_is_left_of_a_long_copy_needs_no_room() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).close();
    for name in ["store.redb.new", "store.redb.old"] {
        fs::write(folder.path().join(name), MARKER).unwrap();
        fs::File::options().write(true).open(folder.path().join(name)).unwrap().set_len(1 << 42).unwrap();
    }
    let store = open(folder.path());
    assert_eq!(names(folder.path()), ["store.redb"]);
    store.close();
    // What cannot be removed is no reason not to start.
    fs::create_dir(folder.path().join("store.redb.new")).unwrap();
    open(folder.path()).close();
}

#[tokio::test]
async fn a_copy_that_does_not_fit_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let org = store.system().org(OrgId::new());
    write(&org, [(1, "kept".to_owned())]).await;
    store.keep_free(u64::MAX / 2);
    let refused = rewrite(&store, &[]).await.unwrap_err();
    assert_eq!(refused.code(), base::Code::ServiceUnavailable);
    assert!(refused.for_operator().contains("room for a second copy"), "{}", refused.for_operator());
    assert_eq!(names(folder.path()), ["store.redb"]);
    write(&org, [(2, "goes on".to_owned())]).await;
    store.keep_free(0);
    rewrite(&store, &[]).await.unwrap();
}

#[tokio::test]
async fn one_that_is_stopped_leaves_the_store_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let org = store.system().org(OrgId::new());
    write(&org, (0..100).map(|key| (key, "kept".to_owned()))).await;
    let before = dump(&store);
    let stopped = store.clone();
    let error = tokio::task::spawn_blocking(move || stopped.rewrite(&[], &|| true)).await.unwrap();
    assert_eq!(error.unwrap_err().code(), base::Code::ServiceUnavailable);
    assert_eq!(names(folder.path()), ["store.redb"]);
    store.set_disk_full(true);
    assert!(rewrite(&store, &[]).await.is_err(), "a copy does not fill a disk that is full");
    store.set_disk_full(false);
    assert_eq!(dump(&store), before);
    assert_eq!(store.inner.handle.tracker.count(), 0);
    write(&org, [(100, "later".to_owned())]).await;
    rewrite(&store, &[]).await.unwrap();
}

#[tokio::test]
async fn rows_that_name_what_was_erased_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let named: &'static OrgId = Box::leak(Box::new(OrgId::new()));
    let org = store.system().org(OrgId::new());
    write(&org, [(1, format!("text that names {named}")), (2, "text that does not".to_owned())]).await;
    let done = rewrite(&store, std::slice::from_ref(named)).await.unwrap();
    assert_eq!(done.naming, [("lines".to_owned(), 1)]);
}
