//! A disk that is full, fails or loses its power, and code that panics.

use super::*;

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
