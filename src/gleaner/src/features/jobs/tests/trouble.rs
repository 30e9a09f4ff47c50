//! The box's own trouble: no job pays for it, none is taken while it lasts, and it is over without a restart.

use super::*;
use crate::features::jobs::finish::{Interruption, RUNS_MAX, RequeueOutcome, claim, put_back_run};
use crate::features::jobs::walks::{self, PLANNED_STOP, PlannedStopV1};
use base::health::Part;
use std::sync::atomic::Ordering;
use store::fault::{broken_entry, damage_row, stray_entry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_cannot_be_stored_for_a_while_cost_no_job_and_no_second_visit() {
    let mut lab = Lab::new(4, 4, Duration::ZERO).await;
    lab.start();
    let (pages, aside) = (lab.dir.path().join("pages"), lab.dir.path().join("aside"));
    let mut held = Vec::new();
    for i in 0..3 {
        held.push(lab.submit_as(&format!("a.test/held/pages/{i}"), patient()).await);
    }
    lab.until("the pages are asked for", |lab| lab.web.log().len() == 3).await;
    // A file in the place of the folder: everything in it fails, also for root.
    std::fs::rename(&pages, &aside).unwrap();
    std::fs::write(&pages, "").unwrap();
    lab.web.release("pages");
    lab.until("the box knows", |lab| lab.health.lacks(Part::Pages)).await;
    let later = lab.submit("b.test/later").await;
    let tries = || lab.dispatcher.tries.load(Ordering::Relaxed);
    let before = tries();
    lab.until("the dispatcher has tried twice whether it is over", |_| tries() >= before + 2).await;
    assert_eq!(lab.web.log().len(), 3, "a box in trouble takes no jobs");
    assert!(lab.health.describe().is_some_and(|text| text.contains("a page")), "{:?}", lab.health);
    assert!(held.iter().all(|id| lab.job(*id).status == JobStatus::Running));
    std::fs::remove_file(&pages).unwrap();
    std::fs::rename(&aside, &pages).unwrap();
    for id in held {
        let job = lab.ended(id).await;
        assert_eq!((job.status, job.run, job.attempts.len()), (JobStatus::Succeeded, 1, 1));
    }
    assert_eq!(lab.ended(later).await.status, JobStatus::Succeeded);
    assert_eq!(lab.web.log().len(), 4, "what was fetched was kept: {:?}", lab.web.log());
    assert!(lab.health.is_well());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_does_not_wait_for_the_end_of_the_trouble() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    lab.start();
    let pages = lab.dir.path().join("pages");
    let id = lab.submit_as("a.test/held/page/x", patient()).await;
    lab.until("the page is asked for", |lab| lab.web.log().len() == 1).await;
    std::fs::rename(&pages, lab.dir.path().join("aside")).unwrap();
    std::fs::write(&pages, "").unwrap();
    lab.web.release("page");
    lab.until("the box knows", |lab| lab.health.lacks(Part::Pages)).await;
    assert!(lab.drain().await.is_empty());
    let job = lab.job(id);
    assert_eq!((job.status, job.run, job.lease_until), (JobStatus::Queued, 1, None), "it runs again, later");
}

#[tokio::test]
async fn runs_that_the_box_cut_off_do_not_count() {
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let id = lab.submit("a.test/x").await;
    let cut_off = async |cut: Interruption| {
        let put_back = lab.org.write(move |tx| {
            let job = claim(tx, id)?.job().expect("it is queued");
            put_back_run(tx, id, job.run, tx.moment(), cut)
        });
        matches!(put_back.await.unwrap(), RequeueOutcome::Queued(_))
    };
    for _ in 0..20 {
        assert!(cut_off(Interruption::ByTheBox).await);
    }
    for _ in 1..RUNS_MAX {
        assert!(cut_off(Interruption::Unknown).await);
    }
    assert!(!cut_off(Interruption::Unknown).await);
    let job = lab.job(id);
    assert_eq!((job.status, job.run), (JobStatus::Failed, 20 + RUNS_MAX));
    assert!(job.error.unwrap().contains("5 interrupted runs"));
    assert_eq!((lab.spent(), lab.queued_and_leased()), (0, (0, 0)));
}

/// A page that hangs for ten minutes: the box does not wait for it, and its job was interrupted by nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_hangs_does_not_hold_up_a_stop() {
    let mut lab = Lab::new(4, 2, Duration::ZERO).await;
    lab.start();
    let (hangs, quick) = (lab.submit("a.test/slow/600000/x").await, lab.submit("b.test/slow/300/y").await);
    lab.until("both pages are asked for", |lab| lab.web.log().len() == 2).await;
    assert!(lab.drain().await.is_empty(), "the dispatcher ended before it was cut off");
    let job = lab.job(hangs);
    assert_eq!((job.status, job.run, job.lease_until), (JobStatus::Queued, 1, None));
    let row = lab.org.read(|tx| walks::load(tx, hangs)).unwrap();
    assert_eq!(walks::interruptions(&row, &job), 0, "it may be cut off again and again");
    assert_eq!(lab.job(quick).status, JobStatus::Succeeded, "what could end has ended");
    assert_eq!((lab.dispatcher.running(), lab.dispatcher.given_up()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_are_given_up_are_counted() {
    let mut lab = Lab::new(4, 2, Duration::ZERO).await;
    let lease = lab.org.clock().moment().after(Duration::from_secs(600));
    let mut ids = Vec::new();
    for run in [RUNS_MAX, RUNS_MAX - 1, RUNS_MAX] {
        let id = lab.submit(&format!("a.test/{run}")).await;
        // As a process leaves it that dies.
        lab.edit(id, move |job| {
            (job.status, job.run, job.lease_until) = (JobStatus::Running, run, Some(lease));
        })
        .await;
        ids.push(id);
    }
    lab.start();
    for (id, status) in ids.into_iter().zip([JobStatus::Failed, JobStatus::Succeeded, JobStatus::Failed]) {
        assert_eq!(lab.ended(id).await.status, status);
    }
    assert_eq!(lab.dispatcher.given_up(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_restart_interrupts_nobody() {
    let mut lab = Lab::new(4, 2, Duration::ZERO).await;
    let lease = lab.org.clock().moment().after(Duration::from_secs(600));
    let id = lab.submit("a.test/cut-off").await;
    // As the drain leaves it that cut its last run off.
    lab.edit(id, move |job| {
        job.status = JobStatus::Running;
        job.run = RUNS_MAX;
        job.lease_until = Some(lease);
    })
    .await;
    let planned = |tx: &store::SysWrite<'_>| tx.put(&PLANNED_STOP, &(), &PlannedStopV1 { at: tx.now() });
    lab.store.system().write(planned).await.unwrap();
    lab.start();
    let job = lab.ended(id).await;
    assert_eq!((job.status, job.run), (JobStatus::Succeeded, RUNS_MAX + 1));
    assert!(lab.store.system().read(|tx| tx.get(&PLANNED_STOP, &())).unwrap().is_none(), "it counts once");
    assert!(lab.drain().await.is_empty());
    assert!(lab.store.system().read(|tx| tx.get(&PLANNED_STOP, &())).unwrap().is_some());
}

/// A process that dies between two commits would leave the mark beside jobs that were put back, and what is cut off by that
/// would count as planned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mark_of_a_planned_stop_goes_with_the_jobs_that_it_is_of() {
    let lab = Lab::new(4, 2, Duration::ZERO).await;
    let lease = lab.org.clock().moment().after(Duration::from_secs(600));
    let id = lab.submit("a.test/cut-off").await;
    let planned = |tx: &store::SysWrite<'_>| tx.put(&PLANNED_STOP, &(), &PlannedStopV1 { at: tx.now() });
    let operations = || lab.store.stats().operations.load(std::sync::atomic::Ordering::Relaxed);
    let mut counts = Vec::new();
    for is_planned in [false, true] {
        lab.edit(id, move |job| (job.status, job.lease_until) = (JobStatus::Running, Some(lease))).await;
        if is_planned {
            lab.store.system().write(planned).await.unwrap();
        }
        let before = operations();
        assert_eq!(lab.dispatcher.recover().await.unwrap(), 1);
        counts.push(operations() - before);
        assert_eq!(lab.job(id).status, JobStatus::Queued);
        assert!(lab.store.system().read(|tx| tx.get(&PLANNED_STOP, &())).unwrap().is_none());
    }
    assert_eq!(counts[0], counts[1], "as many operations with the mark as without");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_for_a_while_leaves_no_job_to_its_lease() {
    let mut lab = Lab::new(4, 4, Duration::ZERO).await;
    lab.start();
    let mut jobs = Vec::new();
    for i in 0..8 {
        jobs.push(lab.submit_as(&format!("a.test/held/pages/{i}"), patient()).await);
    }
    lab.until("the pages are asked for", |lab| lab.web.log().len() == 4).await;
    // What is written arrives and may stand, though every commit is said to have failed: ends of runs, and new claims.
    let before = lab.store.writer().reopened();
    lab.disk.fail_syncs_after(Some(0));
    lab.web.release("pages");
    lab.until("a commit has failed", |lab| lab.store.writer().reopened() > before).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    lab.disk.fail_syncs_after(None);
    // It opens its file anew, and answers nobody meanwhile.
    let first = jobs[0];
    lab.until("the store answers", |lab| lab.org.read(|tx| tx.require(&JOBS, &first)).is_ok()).await;
    for id in jobs {
        // Sooner than a lease ends, which is what `ended` waits for at most.
        let job = lab.ended(id).await;
        assert_eq!((job.status, job.attempts.len()), (JobStatus::Succeeded, 1), "{job:?}");
    }
    assert_eq!(lab.web.log().len(), 8, "no page was fetched twice: {:?}", lab.web.log());
    lab.until("every run is over", |lab| lab.dispatcher.running() == 0).await;
    lab.check_books();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_cannot_be_written_stop_nothing() {
    let mut lab = Lab::new(4, 4, Duration::ZERO).await;
    let soon = lab.org.clock().moment().after(Duration::from_secs(8));
    let mut jobs = Vec::new();
    for i in 0..3 {
        let id = lab.submit(&format!("a.test/{i}")).await;
        lab.edit(id, move |job| job.run_at = soon).await;
        jobs.push(id);
    }
    lab.start();
    let first = lab.submit("b.test/first").await;
    assert_eq!(lab.ended(first).await.status, JobStatus::Succeeded);
    lab.store.set_disk_full(true);
    lab.until("a claim has failed", |lab| !lab.dispatcher.doubtful.lock().is_empty()).await;
    assert_eq!(lab.web.log(), ["b.test/first"]);
    lab.store.set_disk_full(false);
    jobs.push(lab.submit("b.test/later").await);
    for id in jobs {
        assert_eq!(lab.ended(id).await.status, JobStatus::Succeeded);
    }
    lab.check_books();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_whose_rows_cannot_be_read_stop_nobody_else() {
    let mut lab = Lab::new(4, 4, Duration::ZERO).await;
    let neighbour = lab.neighbour().await;
    let lease = lab.org.clock().moment().after(Duration::from_secs(600));
    let queued = lab.submit_as("a.test/queued", json!({ "priority": 9 })).await;
    let running = lab.submit("a.test/running").await;
    lab.edit(running, move |job| {
        job.status = JobStatus::Running;
        job.run = 1;
        job.lease_until = Some(lease);
    })
    .await;
    for id in [queued, running] {
        lab.org.write(move |tx| damage_row(tx, &JOBS, &id)).await.unwrap();
    }
    lab.start();
    let own = lab.submit("a.test/behind").await;
    let theirs = lab.submit_for(&neighbour, "b.test/theirs", json!({})).await;
    assert_eq!(lab.ended(own).await.status, JobStatus::Succeeded);
    lab.until_ended(&neighbour, &[theirs]).await;
    assert_eq!(lab.web.log().len(), 2, "{:?}", lab.web.log());
}

/// What a flipped bit in the key of an entry leaves: an entry that leads to no job, or to one that is not queued.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_lead_to_no_job_are_passed_over() {
    let mut lab = Lab::new(4, 4, Duration::ZERO).await;
    let (nobody, over) = (JobId::new(), lab.submit("a.test/over").await);
    lab.edit(over, |job| job.status = JobStatus::Canceled).await;
    lab.org
        .write(move |tx| {
            for id in [nobody, over] {
                stray_entry(tx, &QUEUE, ("a.test", "a.test", 0_u8, Moment(0)), &id);
            }
            stray_entry(tx, &LEASE, Moment(0), &nobody);
            // Keys that are none: of no host, and within one.
            for key in [&b"\x00\x00"[..], &b"a.test\x00\x01a.test\x00\x01\x00"[..]] {
                broken_entry(tx, &QUEUE, key, &nobody);
            }
            Ok(())
        })
        .await
        .unwrap();
    let own = lab.submit("a.test/behind").await;
    lab.start();
    assert_eq!(lab.ended(own).await.status, JobStatus::Succeeded);
    let passed_over = |lab: &Lab, id: JobId| lab.dispatcher.unreadable.lock().contains(&id);
    lab.until("they are passed over", |lab| passed_over(lab, nobody) && passed_over(lab, over)).await;
    // One that is put into the queue after all is looked at again.
    lab.edit(over, |job| job.status = JobStatus::Queued).await;
    assert_eq!(lab.ended(over).await.status, JobStatus::Succeeded);
    assert!(lab.drain().await.is_empty(), "no round goes on for ever");
}
