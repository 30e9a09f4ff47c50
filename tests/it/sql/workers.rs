//! Worker processes: how they end, who gets them, how many there are, and the switch that stops them.

use super::{Box_, OURS, THEIRS};
use serde_json::json;
use sql::{ErrorCode, Fingerprint, KillSwitches, QueryBackend};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn cancelling_and_dropping_end_the_worker() {
    let it = Box_::new(|settings| settings.concurrency_box = 1);
    let endless = "SELECT count(*) FROM readings a, readings b, readings c, readings d WHERE a.url <> d.data";
    let (_, running) = it.workers.start(it.statement(OURS, endless)).await.expect("it starts");
    let cancel = running.cancel_handle();
    let waiting = tokio::spawn(running.wait());
    tokio::time::sleep(Duration::from_millis(100)).await;
    cancel.cancel();
    assert_eq!(waiting.await.expect("it ends").expect_err("canceled").code, ErrorCode::Canceled);
    it.assert_clean().await;
    let (_, running) = it.workers.start(it.statement(OURS, endless)).await.expect("it starts");
    drop(running);
    // The only slot is free again, so the process is gone or about to be.
    assert_eq!(it.first("SELECT 1 AS one").await, json!({"one": 1}));
    it.assert_clean().await;
}

#[tokio::test]
async fn the_line_for_a_worker_is_bounded() {
    let it = Arc::new(Box_::new(|settings| settings.concurrency_box = 1));
    let endless = "SELECT count(*) FROM readings a, readings b, readings c, readings d WHERE a.url <> d.data";
    let (_, running) = it.workers.start(it.statement(OURS, endless)).await.expect("it starts");
    let ask = |it: Arc<Box_>| async move { it.rows("SELECT 1 AS one").await.len() };
    let waiting: Vec<_> = (0..8).map(|_| tokio::spawn(ask(Arc::clone(&it)))).collect();
    until("eight wait", || it.workers.waiting() == 8).await;
    let error = it.run("SELECT 1").await.expect_err("the line is full");
    assert_eq!((error.code, error.retriable), (ErrorCode::TooManyQueries, true));
    running.cancel_handle().cancel();
    running.wait().await.expect_err("canceled");
    for each in waiting {
        assert_eq!(each.await.expect("it runs"), 1);
    }
}

/// The worker processes of this test program that run in `folder`.
pub(super) fn workers_in(folder: &std::path::Path) -> Vec<PathBuf> {
    let own = |path: &PathBuf| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        parent == Some(std::process::id())
            && argument(path, 2).is_some_and(|home| std::path::Path::new(&home).starts_with(folder))
    };
    let all = std::fs::read_dir("/proc").expect("proc").flatten().map(|entry| entry.path());
    all.filter(own).collect()
}

/// An argument of a process. (Its working folder, which would say the same, is hidden from everybody but root.)
fn argument(process: &std::path::Path, index: usize) -> Option<String> {
    let line = std::fs::read_to_string(process.join("cmdline")).ok()?;
    line.split('\0').nth(index).map(str::to_owned)
}

/// Those of them that have been bound to an organization: only then their limits are set.
fn bound_in(folder: &std::path::Path) -> Vec<PathBuf> {
    let is_bound = |process: &PathBuf| limit(process, "Max open files").as_deref() == Some("512");
    workers_in(folder).into_iter().filter(is_bound).collect()
}

/// A soft limit of a process.
fn limit(process: &std::path::Path, name: &str) -> Option<String> {
    let limits = std::fs::read_to_string(process.join("limits")).ok()?;
    let line = limits.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next().map(str::to_owned)
}

#[tokio::test]
async fn a_worker_is_bare_and_dies_with_its_statement() {
    let it = Box_::new(|settings| settings.query_timeout = Duration::from_secs(5));
    let endless = "SELECT count(*) FROM readings a, readings b, readings c, readings d WHERE a.url <> d.data";
    let (_, running) = it.workers.start(it.statement(OURS, endless)).await.expect("it starts");
    let found = bound_in(it.folder.path());
    let [process] = found.as_slice() else { panic!("{found:?}") };
    match std::fs::read(process.join("environ")) {
        Ok(environment) => assert_eq!(environment, b"", "the environment is empty"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "only root may look"),
    }
    let name = std::fs::read_to_string(process.join("comm")).expect("a name");
    assert_eq!((name.trim(), argument(process, 0).as_deref()), ("gleaner-sql", Some("gleaner")));
    assert_eq!(limit(process, "Max data size").as_deref(), Some("536870912"));
    assert_eq!(limit(process, "Max core file size").as_deref(), Some("0"));
    // Nobody polls, and still the limit holds.
    until("the time limit ends it", || bound_in(it.folder.path()).is_empty()).await;
    assert_eq!(running.wait().await.expect_err("too slow").code, ErrorCode::StatementTimeout);
    let (_, running) = it.workers.start(it.statement(OURS, endless)).await.expect("it starts");
    assert_eq!(bound_in(it.folder.path()).len(), 1);
    drop(running);
    until("it is dropped", || bound_in(it.folder.path()).is_empty()).await;
    it.assert_clean().await;
}

#[tokio::test]
async fn an_unknown_program_is_no_panic() {
    let it = Box_::new(|settings| settings.exe = PathBuf::from("/bin/false"));
    let error = it.run("SELECT 1").await.expect_err("no worker");
    assert_eq!(error.code, ErrorCode::Internal);
    let it = Box_::new(|settings| settings.exe = PathBuf::from("/nonexistent"));
    assert_eq!(it.run("SELECT 1").await.expect_err("no worker").code, ErrorCode::Internal);
}

/// The numbers of the processes that serve, rest or wait in `folder`.
fn process_ids(folder: &std::path::Path) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut ids: Vec<String> = workers_in(folder).iter().filter_map(name).collect();
    ids.sort();
    ids
}

/// Waits until `done`; a test that would wait for ever fails.
pub(super) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}");
}

#[tokio::test]
async fn a_worker_serves_its_organization_again_and_no_other() {
    let it = Box_::new(|settings| settings.concurrency_box = 1);
    it.first("SELECT 1 AS one").await;
    it.assert_clean().await;
    until("a fresh worker waits", || it.workers.counts().fresh == 1).await;
    let first = process_ids(it.folder.path());
    assert_eq!((first.len(), it.workers.counts().resting), (2, 1), "one rests, one is fresh");
    for _ in 0..3 {
        it.first("SELECT count(*) FROM readings").await;
        it.assert_clean().await;
    }
    assert_eq!(process_ids(it.folder.path()), first, "nobody was started");
    // A statement that is refused costs no worker.
    it.run("SELECT nothing FROM readings").await.expect_err("refused");
    it.assert_clean().await;
    assert_eq!(process_ids(it.folder.path()), first);
    // Another organization's statement gets the fresh one, and ours has to go.
    it.run_as(THEIRS, "SELECT url FROM readings").await.expect("it runs");
    it.assert_clean().await;
    until("two are left", || process_ids(it.folder.path()).len() == 2).await;
    until("a fresh worker waits", || it.workers.counts().fresh == 1).await;
    let second = process_ids(it.folder.path());
    let kept: Vec<_> = second.iter().filter(|id| first.contains(id)).collect();
    assert_eq!(kept.len(), 1, "the fresh one became theirs, ours is gone: {first:?} {second:?}");
    assert_eq!(it.first("SELECT count(*) FROM readings").await, json!({"count": 2500}));
}

#[tokio::test]
async fn a_worker_whose_folder_was_made_anew_is_not_used_again() {
    let it = Box_::new(|settings| settings.concurrency_box = 1);
    assert_eq!(it.first("SELECT count(*) FROM readings").await, json!({"count": 2500}));
    it.assert_clean().await;
    it.snapshots.remove(OURS).expect("remove");
    assert_eq!(it.first("SELECT count(*) FROM readings").await, json!({"count": 0}));
    it.assert_clean().await;
    it.apply(OURS, 1, vec![super::reading(1, "https://shop.example/1")]);
    assert_eq!(it.first("SELECT count(url) FROM readings").await, json!({"count": 1}));
    it.assert_clean().await;
}

#[tokio::test]
async fn a_dead_worker_is_replaced() {
    let it = Box_::new(|settings| settings.concurrency_box = 1);
    it.first("SELECT 1 AS one").await;
    it.assert_clean().await;
    until("a fresh worker waits", || it.workers.counts().fresh == 1).await;
    for id in process_ids(it.folder.path()) {
        let pid = rustix::process::Pid::from_raw(id.parse().expect("a number")).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it dies");
    }
    until("they are dead", || process_ids(it.folder.path()).is_empty()).await;
    assert_eq!(it.first("SELECT count(*) FROM readings").await, json!({"count": 2500}));
    it.assert_clean().await;
}

#[tokio::test]
async fn the_box_share_of_memory_bounds_the_workers() {
    let it = Box_::new(|settings| {
        settings.concurrency_box = 8;
        settings.memory_box_bytes = 130 << 20;
    });
    let endless = "SELECT count(*) FROM readings a, readings b, readings c, readings d WHERE a.url <> d.data";
    let mut running = Vec::new();
    for _ in 0..2 {
        running.push(it.workers.start(it.statement(OURS, endless)).await.expect("it starts").1);
    }
    let third = it.workers.start(it.statement(OURS, endless));
    tokio::pin!(third);
    tokio::select! {
        _ = &mut third => panic!("two pools of 64 MiB are the share"),
        () = until("it waits", || it.workers.waiting() == 1) => {}
    }
    assert_eq!(it.workers.counts().running, 2);
    drop(running);
    drop(third.await.expect("its turn"));
}

#[tokio::test]
async fn kill_switches_refuse_and_end() {
    let it = Box_::new(|_| {});
    let endless = |n: u32| {
        format!("SELECT count(*) FROM readings a, readings b, readings c, readings d WHERE a.stock <> {n}")
    };
    let (_, running) = it.workers.start(it.statement(OURS, &endless(1))).await.expect("it starts");
    let [seen] = it.workers.running().try_into().expect("one runs");
    assert_eq!((seen.organization, seen.fingerprint), (OURS, Fingerprint::of(&endless(2))));
    let mut switches = KillSwitches::default();
    switches.fingerprints.insert(seen.fingerprint);
    it.workers.switch(switches.clone());
    assert_eq!(running.wait().await.expect_err("ended").code, ErrorCode::StatementSwitchedOff);
    assert_eq!(it.run(&endless(3)).await.expect_err("refused").code, ErrorCode::StatementSwitchedOff);
    assert_eq!(it.first("SELECT 1 AS one").await, json!({"one": 1}));
    switches.organizations.insert(OURS);
    it.workers.switch(switches);
    assert_eq!(it.run("SELECT 1").await.expect_err("refused").code, ErrorCode::KillSwitched);
    it.run_as(THEIRS, "SELECT 1").await.expect("another organization");
    it.workers.switch(KillSwitches { whole_box: true, ..KillSwitches::default() });
    assert_eq!(it.run_as(THEIRS, "SELECT 1").await.expect_err("refused").code, ErrorCode::KillSwitched);
    it.workers.switch(KillSwitches::default());
    it.run("SELECT 1").await.expect("all is on again");
    it.assert_clean().await;
}

#[tokio::test]
async fn nobody_who_waits_for_a_plan_frees_the_slot_before_the_process_is_gone() {
    let it = Box_::new(|settings| settings.concurrency_box = 1);
    // Constants are folded while planning: this one takes minutes.
    let slow = "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))";
    for _ in 0..3 {
        {
            let planning = it.workers.start(it.statement(OURS, slow));
            tokio::pin!(planning);
            tokio::select! {
                ended = &mut planning => panic!("it was planned: {:?}", ended.map(drop)),
                () = until("it is planned", || !bound_in(it.folder.path()).is_empty()) => {}
            }
        }
        until("its slot is free", || it.workers.counts().running == 0).await;
        assert!(bound_in(it.folder.path()).is_empty(), "the process is gone before its slot is");
    }
    it.assert_clean().await;
    assert_eq!(it.first("SELECT 1 AS one").await, json!({"one": 1}));
}

#[tokio::test]
async fn an_erased_organization_leaves_no_worker_behind() {
    let it = Box_::new(|_| {});
    it.first("SELECT count(*) FROM readings").await;
    it.run_as(THEIRS, "SELECT count(*) FROM readings").await.expect("it runs");
    it.assert_clean().await;
    assert_eq!((it.workers.counts().resting, it.workers.serves(OURS)), (2, false));
    it.workers.forget(OURS).await;
    assert_eq!(it.workers.counts().resting, 1);
    until("one is left", || bound_in(it.folder.path()).len() == 1).await;
    it.workers.forget(OURS).await;
    assert_eq!(it.workers.counts().resting, 1, "the other organization's stays");
}

/// More than any disk has, so that it is short from the beginning; a quarter of it would do.
const NO_DISK: u64 = 1 << 60;

#[tokio::test]
async fn a_statement_that_spills_ends_when_the_disk_is_short() {
    let it = Arc::new(Box_::new(|settings| settings.reserve_bytes = NO_DISK));
    // Six million rows do not fit into 64 MiB.
    let spills = "SELECT a.url, b.data FROM readings a, readings b ORDER BY a.data || b.url || a.url";
    let large = "SELECT a.url || b.data || a.data AS text FROM readings a, readings b";
    for sql in [spills, large] {
        let error = it.run(sql).await.expect_err("there is no disk");
        assert_eq!((error.code, error.retriable), (ErrorCode::Transient, true), "{error:?}");
        assert!(error.message.contains("disk space"), "{error:?}");
        // Others run beside it and after it.
        assert_eq!(it.first("SELECT count(*) FROM readings").await, json!({"count": 2500}));
    }
    it.assert_clean().await;
}

#[tokio::test]
async fn results_may_lie_on_another_disk_than_what_is_spilled() {
    use std::os::unix::fs::MetadataExt;
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: there is no second file system");
        return;
    };
    let it = Box_::new(|settings| settings.spill_dir = other.path().join("spill"));
    let device = |path: &std::path::Path| std::fs::metadata(path).expect("a folder").dev();
    if device(other.path()) == device(it.folder.path()) {
        println!("skipped: there is no second file system");
        return;
    }
    assert_eq!(it.first("SELECT count(*) FROM readings").await, json!({"count": 2500}));
    assert_eq!(it.rows("SELECT url FROM readings LIMIT 700").await.len(), 700);
    it.assert_clean().await;
}

#[tokio::test]
async fn a_box_may_insist_on_isolation() {
    let it = Box_::new(|settings| settings.require_sandbox = true);
    let ran = it.run("SELECT 1").await;
    if sql::sandbox::support().isolates() {
        ran.expect("the kernel can hold it");
        return;
    }
    println!("the kernel cannot isolate");
    let error = ran.expect_err("refused");
    assert_eq!((error.code, error.retriable), (ErrorCode::KillSwitched, false));
    assert!(
        process_ids(it.folder.path())
            .iter()
            .all(|id| !bound_in(it.folder.path()).iter().any(|b| b.ends_with(id)))
    );
}
