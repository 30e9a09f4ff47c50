//! Jobs that wait for a place in the browser, which takes none of their time.

use super::*;
use crate::features::jobs::view::JobView;
use fetch::browser::pool::PagePermit;

impl Lab {
    /// A lab whose first provider is the browser, with every place of it taken by others.
    async fn with_full_browser(per_domain: u32) -> (Lab, Vec<PagePermit>) {
        let mut lab = Lab::new(8, per_domain, Duration::ZERO).await;
        lab.edit_direct(|row| row.adapter = "browser".to_owned()).await;
        let mut taken = Vec::new();
        for _ in 0..2 {
            taken.push(lab.browsers.place(Some(OrgId::new())).await.unwrap());
        }
        lab.start();
        (lab, taken)
    }

    async fn until_it_waits(&self, id: JobId) {
        self.until("it waits for its place", |lab| lab.dispatcher.waits_for_place(lab.org.id(), id)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_says_that_it_waits_for_the_browser_and_is_gone_at_once_when_it_is_canceled() {
    let (lab, taken) = Lab::with_full_browser(1).await;
    let id = lab.submit_as("a.test/x", patient()).await;
    lab.until_it_waits(id).await;
    let view = |job| lab.org.read(|tx| JobView::new(job, tx, &lab.dispatcher)).unwrap();
    let view = serde_json::to_value(view(lab.job(id))).unwrap();
    let waiting = json!({ "until": null, "reason": "browser_place", "askedBy": null });
    assert_eq!((&view["status"], &view["waiting"]), (&json!("running"), &waiting));
    lab.org.write(move |tx| submit::cancel(tx, id)).await.unwrap();
    lab.dispatcher.abandon(lab.org.id(), id);
    lab.until("its run is over", |lab| lab.dispatcher.running() == 0).await;
    assert_eq!(lab.browsers.counts(), (2, 0), "it stands in no line");
    let job = lab.job(id);
    assert_eq!(
        (job.status, job.attempts.len(), lab.spent()),
        (JobStatus::Canceled, 0, 0),
        "nobody was asked"
    );
    drop(taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_a_job_begins_with_its_place_in_the_browser() {
    let (lab, taken) = Lab::with_full_browser(1).await;
    let id = lab.submit_as("a.test/x", json!({ "options": { "timeoutMs": 100 } })).await;
    lab.until_it_waits(id).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let freed_at = lab.org.clock().now();
    drop(taken);
    let job = lab.ended(id).await;
    let [attempt] = job.attempts.as_slice() else { panic!("{job:?}") };
    assert_eq!(attempt.outcome, Outcome::ProviderError, "{attempt:?}");
    let error = attempt.error.as_deref().unwrap_or_default();
    assert!(error.contains("/nonexistent/chromium cannot be started"), "{error}");
    assert!(job.started_at.unwrap() < freed_at, "{job:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_waits_for_the_browser_gives_its_visit_to_who_can_use_it() {
    let (lab, taken) = Lab::with_full_browser(1).await;
    let (second, third) = (lab.neighbour().await, lab.neighbour().await);
    let id = lab.submit_as("a.test/x", patient()).await;
    lab.until_it_waits(id).await;
    // The visit is the one that waits; a page that never answers is beside it, and no more may be there.
    lab.submit_for(&second, "a.test/held/never", patient()).await;
    lab.until("the page beside it is asked for", |lab| lab.web.log().len() == 1).await;
    let theirs = lab.submit_for(&third, "a.test/theirs", json!({})).await;
    lab.until_ended(&third, &[theirs]).await;
    assert_eq!(third.read(|tx| tx.require(&JOBS, &theirs)).unwrap().status, JobStatus::Succeeded);
    lab.until_it_waits(id).await;
    let job = lab.job(id);
    assert!(job.attempts.is_empty() && job.run > 1, "{job:?}");
    drop(taken);
}
