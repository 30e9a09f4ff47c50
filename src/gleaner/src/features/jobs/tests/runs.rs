//! Runs that end otherwise than planned: canceled, left by a dead process, cut off by a full disk or a drain.

use super::*;
use crate::features::jobs::cancel_job;
use crate::features::jobs::run::RunHost;

/// A row as a process leaves it that dies in its `run`th run.
fn left_running(run: u32, lease_until: Moment) -> impl FnOnce(&mut JobV2) {
    move |job| {
        job.status = JobStatus::Running;
        job.run = run;
        job.lease_until = Some(lease_until);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canceled_run_leaves_no_result_and_gives_its_credits_back() {
    let mut lab = Lab::new(4, 2, Duration::ZERO).await;
    lab.start();
    let id = lab.submit_as("a.test/held/page/x", patient()).await;
    lab.until("the page is asked for", |lab| lab.web.count("a.test/held/page/x") == 1).await;
    assert_eq!(lab.spent(), 1);
    lab.org.write(move |tx| submit::cancel(tx, id)).await.unwrap();
    assert_eq!(lab.spent(), 0);
    let again = lab.org.write(move |tx| submit::cancel(tx, id)).await.unwrap_err();
    assert_eq!(again.code(), Code::JobTerminal);
    // Nobody told the run: its page comes, and counts for nothing.
    lab.web.release("page");
    lab.until("the run is over", |lab| lab.dispatcher.running() == 0).await;
    let job = lab.job(id);
    assert_eq!((job.status, job.attempts.len(), job.result_id), (JobStatus::Canceled, 1, None));
    assert_eq!((lab.results(), lab.spent()), (0, 0), "what was asked is told, and charged to nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canceled_job_that_waits_is_never_run() {
    let mut lab = Lab::new(4, 2, Duration::ZERO).await;
    let (id, other) = (lab.submit("a.test/canceled").await, lab.submit("a.test/kept").await);
    lab.org.write(move |tx| submit::cancel(tx, id)).await.unwrap();
    lab.start();
    lab.ended(other).await;
    assert_eq!(lab.web.log(), ["a.test/kept"]);
    assert_eq!(lab.spent(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_given_up_does_not_finish_the_job_again() {
    let mut lab = Lab::new(4, 2, Duration::ZERO).await;
    lab.start();
    let visit = "a.test/stumble/first/x";
    let id = lab.submit_as(visit, patient()).await;
    lab.until("the page is asked for", |lab| lab.web.count(visit) == 1).await;
    lab.edit(id, |job| {
        job.status = JobStatus::Queued;
        job.lease_until = None;
    })
    .await;
    lab.dispatcher.wake();
    let second = lab.ended(id).await;
    assert_eq!((second.status, second.run, lab.web.count(visit)), (JobStatus::Succeeded, 2, 2));
    // The first run ends after the second: a drain waits for both.
    lab.web.release("first");
    assert!(lab.drain().await.is_empty());
    assert_eq!(lab.job(id), second);
    assert_eq!((second.attempts.len(), lab.results(), lab.spent()), (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_process_left_running_runs_again_and_is_given_up_in_the_end() {
    let mut lab = Lab::new(4, 2, Duration::ZERO).await;
    let lease = lab.org.clock().moment().after(Duration::from_secs(600));
    let (left, hopeless) = (lab.submit("a.test/left").await, lab.submit("a.test/hopeless").await);
    lab.edit(left, left_running(1, lease)).await;
    lab.edit(hopeless, left_running(5, lease)).await;
    lab.start();
    let left = lab.ended(left).await;
    assert_eq!((left.status, left.run, left.attempts.len()), (JobStatus::Succeeded, 2, 1));
    let hopeless = lab.ended(hopeless).await;
    assert_eq!((hopeless.status, hopeless.credits_charged), (JobStatus::Failed, 0));
    assert!(hopeless.error.unwrap().contains("5 interrupted runs"));
    assert_eq!(lab.web.log(), ["a.test/left"]);
    assert_eq!((lab.results(), lab.spent()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_lease_is_noticed_while_the_queue_is_full() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    lab.submit_as("a.test/held/first/x", patient()).await;
    lab.start();
    // What is lost before it runs its rounds is found by the start.
    lab.until("the page is asked for", |lab| lab.web.log().len() == 1).await;
    let mut jobs = Vec::new();
    for i in 0..120 {
        jobs.push(lab.submit(&format!("a.test/slow/50/{i}")).await);
    }
    let last = jobs[119];
    let lost = lab.submit("b.test/lost").await;
    lab.edit(lost, left_running(1, Moment(0))).await;
    lab.web.release("first");
    assert_eq!(lab.ended(lost).await.status, JobStatus::Succeeded);
    assert_eq!(lab.job(last).status, JobStatus::Queued, "the lost job had to wait for all others");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_arrives_while_nothing_can_be_written_is_kept() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    lab.start();
    let id = lab.submit_as("a.test/held/page/x", patient()).await;
    let next = lab.submit("b.test/next").await;
    lab.until("the page is asked for", |lab| lab.web.count("a.test/held/page/x") == 1).await;
    lab.store.set_disk_full(true);
    lab.web.release("page");
    tokio::time::sleep(Duration::from_millis(500)).await;
    lab.store.set_disk_full(false);
    assert_eq!(lab.ended(id).await.status, JobStatus::Succeeded);
    assert_eq!(lab.ended(next).await.status, JobStatus::Succeeded);
    assert_eq!(lab.web.count("a.test/held/page/x"), 1, "the page was fetched again");
    assert_eq!((lab.results(), lab.spent()), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_finishes_what_runs_and_takes_nothing_new() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    lab.start();
    let running = lab.submit_as("a.test/held/page/x", patient()).await;
    lab.until("the page is asked for", |lab| lab.web.log().len() == 1).await;
    let waiting = lab.submit("b.test/waiting").await;
    let (web, dispatcher) = (lab.web.clone(), lab.dispatcher.clone());
    let release = async move {
        while !dispatcher.stopping() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        web.release("page");
    };
    let (unfinished, ()) = tokio::join!(lab.drain(), release);
    assert!(unfinished.is_empty());
    assert_eq!(lab.job(running).status, JobStatus::Succeeded);
    assert_eq!(lab.job(waiting).status, JobStatus::Queued);
    assert_eq!((lab.dispatcher.running(), lab.web.log().len()), (0, 1));
}

#[tokio::test]
async fn a_targets_trouble_counts_against_a_provider_only_where_another_got_an_answer() {
    use crate::features::jobs::AttemptV1;
    use crate::features::jobs::finish::samples;
    use base::ids::ProviderId;
    use fetch::CostSource;
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let job = lab.job(lab.submit("a.test/x").await);
    let (one, two) = (ProviderId::new(), ProviderId::new());
    let learned = |attempts: &[(ProviderId, Outcome, Option<u16>)]| {
        let attempt =
            |(n, (provider, outcome, http_status)): (u32, &(ProviderId, Outcome, Option<u16>))| AttemptV1 {
                n,
                node_id: None,
                provider_id: provider.to_string(),
                started_at: Timestamp(0),
                duration_ms: 1,
                outcome: *outcome,
                http_status: *http_status,
                bytes: 0,
                credits: 0,
                cost_source: CostSource::Table,
                rule: None,
                error: None,
            };
        let attempts = (1..).zip(attempts).map(attempt).collect();
        let job = JobV2 { attempts, ..job.clone() };
        samples(&job, &[]).into_iter().map(|sample| (sample.provider, sample.good)).collect::<Vec<_>>()
    };
    let trouble = |provider| (provider, Outcome::TargetError, Some(503));
    let page = |provider| (provider, Outcome::Success, Some(200));
    assert_eq!(learned(&[trouble(one), trouble(two)]), [], "the target is down");
    assert_eq!(learned(&[trouble(one), page(two)]), [(one, false), (two, true)], "for that visitor only");
    let gone = (two, Outcome::TargetError, Some(404));
    assert_eq!(learned(&[trouble(one), gone]), [(one, false), (two, true)]);
    assert_eq!(learned(&[trouble(one), page(one)]), [(one, true)], "it passed by itself");
    assert_eq!(learned(&[(one, Outcome::NetworkError, None)]), [(one, false)]);
}

/// As a request is whose client has gone, or whose time is over: the handler is no more, and its write is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asked_may_be_gone_before_the_commit() {
    use futures::FutureExt;
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    lab.start();
    // From here on the queue is looked through for what nobody told of in minutes only.
    let first = lab.submit("a.test/first").await;
    lab.ended(first).await;
    let url = format!("http://a.test:{}/held/never/x", lab.web.port);
    let request = json!({ "url": url, "options": { "timeoutMs": 120_000 } });
    let checked = submit::check("", serde_json::from_value(request).unwrap(), &lab.guard).unwrap();
    let context = lab.context.clone();
    let write = lab.org.write(move |tx| submit::submit(tx, &context, vec![checked], None).map(drop));
    drop(write.now_or_never());
    lab.until("the page is asked for", |lab| lab.web.count("a.test/held/never/x") == 1).await;
    let newest = lab.org.read(|tx| tx.scan(&JOBS, None, Order::Descending, 1)).unwrap();
    let (id, context) = (newest[0].0, lab.context.clone());
    drop(lab.org.write(move |tx| cancel_job(tx, &context, id)).now_or_never());
    // By itself the run ends later than anything is waited for; a retry needs its slot.
    lab.until("the run is over", |lab| lab.dispatcher.running() == 0).await;
    assert_eq!(lab.job(id).status, JobStatus::Canceled);
    let (first, context) = (first, lab.context.clone());
    drop(lab.org.write(move |tx| submit::retry(tx, &context, first)).now_or_never());
    lab.until("it is visited again", |lab| lab.web.count("a.test/first") == 2).await;
}

/// A clock that is corrected a little after its start, or by a time server now and then.
#[tokio::test]
async fn a_small_correction_of_the_clock_moves_no_job_into_the_period_before() {
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let left = || lab.org.read(billing::account).unwrap().balance;
    let before = left();
    // Made in the first seconds of the account's period.
    let id = lab.submit("a.test/x").await;
    assert_eq!(left(), before - 1);
    lab.store.clock().set_wall(9_000);
    lab.org.write(move |tx| submit::cancel(tx, id)).await.unwrap();
    assert_eq!(left(), before, "its credit returns to the period that it was taken from, and does not lapse");
}
