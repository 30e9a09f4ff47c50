//! Whose turn it is: politeness towards a domain, priorities, and jobs that are not due.

use super::*;
use crate::features::jobs::view::JobView;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_domain_is_visited_as_often_at_once_as_allowed() {
    let mut lab = Lab::new(8, 2, Duration::ZERO).await;
    let mut jobs = Vec::new();
    for i in 0..10 {
        jobs.push(lab.submit_as(&format!("a.test/held/first/{i}"), patient()).await);
        jobs.push(lab.submit_as(&format!("b.test/held/first/{i}"), patient()).await);
    }
    lab.start();
    // Two of each are there at once; a third would have to come later, and show.
    lab.until("both domains are visited", |lab| lab.web.log().len() == 4).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    lab.web.release("first");
    for job in jobs {
        assert_eq!(lab.ended(job).await.status, JobStatus::Succeeded);
    }
    let most = lab.web.visits.lock().at_once_max.clone();
    assert_eq!((most["a.test"], most["b.test"]), (2, 2));
    assert_eq!((lab.results(), lab.spent()), (20, 20));
    assert!(lab.drain().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_says_that_others_of_its_organization_are_at_its_domain() {
    let mut lab = Lab::new(8, 2, Duration::ZERO).await;
    let neighbour = lab.neighbour().await;
    let mut own = Vec::new();
    for i in 0..3 {
        own.push(lab.submit_as(&format!("a.test/held/own/{i}"), patient()).await);
    }
    let elsewhere = lab.submit_as("b.test/held/own/0", patient()).await;
    lab.start();
    lab.until("the domain is full", |lab| lab.web.log().len() == 3).await;
    let waiting = |org: &OrgStore, id: JobId| {
        let view = org.read(|tx| JobView::new(tx.require(&JOBS, &id)?, tx, &lab.dispatcher)).unwrap();
        serde_json::to_value(view).unwrap()["waiting"].clone()
    };
    let busy = json!({ "until": null, "reason": "domain_busy", "askedBy": null });
    let of_own: Vec<_> = own.iter().map(|id| waiting(&lab.org, *id)).collect();
    assert_eq!(of_own.iter().filter(|waits| **waits == busy).count(), 1, "{of_own:?}");
    assert_eq!(of_own.iter().filter(|waits| waits.is_null()).count(), 2, "{of_own:?}");
    assert_eq!(waiting(&lab.org, elsewhere), Value::Null);
    // Nobody learns of others from it.
    let others = lab.submit_for(&neighbour, "a.test/theirs", patient()).await;
    assert_eq!(waiting(&neighbour, others), Value::Null);
    lab.web.release("own");
    for id in own.into_iter().chain([elsewhere]) {
        assert_eq!(lab.ended(id).await.status, JobStatus::Succeeded);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn domains_take_turns() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    for i in 0..12 {
        lab.submit(&format!("a.test/{i}")).await;
    }
    let late = [lab.submit("b.test/0").await, lab.submit("c.test/0").await, lab.submit("b.test/1").await];
    lab.start();
    for job in late {
        lab.ended(job).await;
    }
    let log = lab.web.log();
    let mut first: Vec<_> = log[..3].iter().map(|visit| &visit[..1]).collect();
    first.sort_unstable();
    assert_eq!(first, ["a", "b", "c"], "{log:?}");
    let place = log.iter().position(|visit| visit == "b.test/1").unwrap();
    assert!(place <= 5, "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_domain_priority_goes_before_age() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    let mut jobs = Vec::new();
    for (path, priority) in [("low", 1), ("first", 9), ("middle", 5), ("second", 9)] {
        jobs.push(lab.submit_as(&format!("a.test/{path}"), json!({ "priority": priority })).await);
    }
    lab.start();
    for job in jobs {
        lab.ended(job).await;
    }
    assert_eq!(lab.web.log(), ["a.test/first", "a.test/second", "a.test/middle", "a.test/low"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_are_not_due_hide_no_job_that_is() {
    let mut lab = Lab::new(2, 2, Duration::ZERO).await;
    let later = lab.org.clock().moment().after(Duration::from_secs(3_600));
    for i in 0..50 {
        let id = lab.submit_as(&format!("a.test/later/{i}"), json!({ "priority": 9 })).await;
        lab.edit(id, move |job| job.run_at = later).await;
    }
    let due = lab.submit("a.test/due").await;
    lab.start();
    assert_eq!(lab.ended(due).await.status, JobStatus::Succeeded);
    assert_eq!(lab.web.log(), ["a.test/due"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_not_due_does_not_use_up_its_domains_next_visit() {
    let mut lab = Lab::new(2, 2, Duration::from_secs(60)).await;
    let id = lab.submit("a.test/soon").await;
    let soon = lab.org.clock().moment().after(Duration::from_millis(600));
    lab.edit(id, move |job| job.run_at = soon).await;
    lab.start();
    assert_eq!(lab.ended(id).await.status, JobStatus::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_with_a_damaged_domain_stops_nobody_else() {
    let mut lab = Lab::new(2, 2, Duration::ZERO).await;
    let damaged = lab.submit("a.test/damaged").await;
    lab.edit(damaged, |job| job.domain = "a..test".to_owned()).await;
    let sound = lab.submit("b.test/sound").await;
    lab.start();
    assert_eq!(lab.ended(sound).await.status, JobStatus::Succeeded);
}
