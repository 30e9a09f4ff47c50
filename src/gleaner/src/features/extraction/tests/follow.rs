//! What follows the rows of results: the index, its notes, and the files of pages.

use super::*;
use crate::features::billing::Removed;
use crate::features::extraction::retention::oldest_result;
use crate::features::extraction::{feed, pages};
use search::SearchError;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};
use store::fault::damage_row;

impl Bench {
    /// The files of all pages.
    fn page_files(&self) -> Vec<std::path::PathBuf> {
        files_in(&self.folder.path().join("pages").join(self.org.id().to_string()))
    }

    async fn sweep(&self) {
        let (blobs, removed) = (&self.blobs, Removed::default());
        pages::sweep(&self.system(), blobs, self.org.id(), &removed, &|| false).await.unwrap();
    }
}

fn files_in(folder: &FilePath) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn an_index_is_made_anew_for_damage_and_for_nothing_else() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let feed = bench.feed();
    let mut rows = Vec::new();
    for n in 0..3 {
        rows.push(bench.collect(page(&format!("{SHOP}/{n}"), &product("Plane", "1"))).await);
    }
    bench.follow(&feed, false);
    // One row is damaged that is in the index, and one before it could come into it.
    rows.push(bench.collect(page(&format!("{SHOP}/never"), &product("Plane", "1"))).await);
    for job in [rows[0].job, rows[3].job] {
        bench.org.write(move |tx| damage_row(tx, &RESULTS, &job)).await.unwrap();
    }
    // An organization is being erased, and has left the index already.
    let other = bench.system().org(OrgId::new());
    let draft = bench.extractor.process(&other, page(SHOP, &product("Plane", "1"))).await.unwrap();
    other.write(move |tx| record(tx, draft)).await.unwrap();
    bench.follow(&feed, false);
    let gone = other.id();
    bench
        .system()
        .write(move |tx| {
            tx.fence(gone);
            Ok(())
        })
        .await
        .unwrap();
    let removed = std::thread::scope(|scope| scope.spawn(|| feed.remove_org(gone)).join().unwrap());
    assert_eq!((removed.unwrap(), feed.index().documents()), (1, 3));
    let said = || rows.iter().map(|row| feed.indexed_at(row).unwrap()).collect::<Vec<_>>();
    let (first, stands_at) = (said(), feed.index().position());
    assert!(first.iter().all(Option::is_some) && stands_at > 0);
    // A disk at its reserve refuses the note of a commit, which says nothing of the index.
    bench.collect(page(&format!("{SHOP}/late"), &product("Plane", "1"))).await;
    bench.store.set_disk_full(true);
    let refused = std::thread::scope(|scope| scope.spawn(|| feed.catch_up(&|| false)).join().unwrap());
    assert_eq!(refused.unwrap_err().code(), Code::ServiceUnavailable);
    bench.store.set_disk_full(false);
    let looks = || {
        for _ in 0..3 {
            bench.follow(&feed, false);
            assert!(feed.index().position() >= stands_at, "it was emptied");
        }
    };
    looks();
    // Nor is it damaged because a search has failed.
    feed.failed_search(SearchError::Failed("a test".into()));
    looks();
    assert_eq!((said(), feed.index().documents()), (first.clone(), 4));
    // A file that is damaged is one; what was finished stays so while the index is filled anew.
    let files = files_in(&bench.folder.path().join("search/index"));
    let file = files.iter().find(|file| file.extension().is_some_and(|kind| kind == "term")).unwrap();
    let byte = std::fs::read(file).unwrap()[10];
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[byte ^ 1], 10).unwrap();
    feed.failed_search(SearchError::Failed("a test".into()));
    bench.follow(&feed, false);
    assert_eq!((feed.index().position(), said()), (0, first.clone()));
    bench.follow(&feed, false);
    // Without the two that cannot be read.
    assert_eq!((feed.index().documents(), said()), (3, first));
}

#[tokio::test]
async fn the_look_at_a_start_keeps_nobody_waiting_and_ends_when_the_box_does() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    bench.collect(page(SHOP, &product("Plane", "1"))).await;
    let feed = bench.feed();
    bench.follow(&feed, false);
    drop(feed);
    let feed = bench.feed();
    let asked = |stop_at: usize| {
        let (asked, all_tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let stop = || {
            // The box tries itself meanwhile.
            let tried = std::thread::scope(|scope| scope.spawn(|| feed.self_test().unwrap()).join().unwrap());
            all_tried.fetch_add(usize::from(tried), Relaxed);
            asked.fetch_add(1, Relaxed) + 1 >= stop_at
        };
        std::thread::scope(|scope| scope.spawn(|| feed.catch_up(&stop)).join().unwrap()).unwrap();
        assert_eq!(all_tried.into_inner(), asked.load(Relaxed), "nobody waits for the look");
        asked.into_inner()
    };
    assert_eq!(asked(2), 2, "asked before the look, and in it");
    assert!(asked(usize::MAX) > 2, "what was cut off is looked at again");
    assert_eq!(asked(usize::MAX), 1, "and once");
}

#[tokio::test]
async fn notes_of_results_that_are_gone_go() {
    let bench = Bench::new();
    let feed = bench.feed();
    // Of an older release, whose time nobody knows.
    bench.system().write(|tx| tx.put(&feed::INDEXED, &0, &feed::IndexedV1 { at: None })).await.unwrap();
    let mut rows = Vec::new();
    for n in 0..3 {
        rows.push(bench.collect(page(&format!("{SHOP}/{n}"), "<title>x</title>")).await);
        bench.follow(&feed, false);
        std::thread::sleep(Duration::from_millis(20));
    }
    let notes = || bench.system().read(|tx| tx.count(&INDEXED, 100)).unwrap();
    let forget = async || feed.forget_times(oldest_result(&bench.system()).unwrap(), 100).await.unwrap();
    assert_eq!((notes(), forget().await), (4, 0), "each speaks of a result");
    for job in [rows[0].job, rows[1].job] {
        bench.org.write(move |tx| super::super::service::delete(tx, job)).await.unwrap();
    }
    bench.follow(&feed, false);
    let last = feed.indexed_at(&rows[2]).unwrap();
    assert_eq!((forget().await, notes(), feed.indexed_at(&rows[2]).unwrap()), (3, 1, last));
    let job = rows[2].job;
    bench.org.write(move |tx| super::super::service::delete(tx, job)).await.unwrap();
    assert_eq!((forget().await, notes()), (0, 1), "the newest says how far the index was shown");
}

#[tokio::test]
async fn pages_that_nobody_names_go_although_the_clock_was_just_set() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let bench = Bench::new();
    let result = bench.collect(page(SHOP, "<title>named once</title>")).await.job;
    bench.org.write(move |tx| super::super::service::delete(tx, result)).await.unwrap();
    // What a job kept that was canceled.
    bench.blobs.org(bench.org.id().0).put_page("<title>never named</title>".into()).await.unwrap();
    // The host woke the machine up in the morning.
    bench.store.clock().set_wall(8 * 3_600_000);
    let date = |at: SystemTime| {
        bench
            .page_files()
            .iter()
            .for_each(|file| std::fs::File::open(file).unwrap().set_modified(at).unwrap());
    };
    let rounds = async || {
        pages::find_orphans(&bench.system(), &bench.blobs, bench.org.id(), &|| false).await.unwrap();
        bench.sweep().await;
        bench.page_files().len()
    };
    date(SystemTime::now() - 5 * HOUR);
    assert_eq!(rounds().await, 2, "they may have been kept within the hour, before the night");
    date(SystemTime::now() - 31 * HOUR);
    assert_eq!(rounds().await, 1, "nor is it known that somebody has not kept one today");
    date(SystemTime::now() + 3 * 24 * HOUR);
    assert_eq!(rounds().await, 0, "kept in a year that was wrong");
}
