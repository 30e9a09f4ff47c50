//! Races at a domain that has fewer places than they have runners.

use super::*;
use crate::features::jobs::AttemptV1;
use crate::features::providers::PROVIDERS;
use base::ids::{ProviderId, WorkflowId};

impl Lab {
    /// A workflow that has so many providers race, each the built-in one.
    async fn race_of(&self, runners: usize) -> WorkflowId {
        let added = self.org.write(move |tx| {
            let (first, row) = tx.scan(&PROVIDERS, None, Order::Ascending, 1)?.pop().unwrap();
            let mut ids = vec![first];
            for _ in 1..runners {
                let id = ProviderId::new();
                tx.put(&PROVIDERS, &id, &row)?;
                ids.push(id);
            }
            Ok(ids)
        });
        let ids = added.await.unwrap();
        let end = |id: &str| json!({ "id": id, "type": "end", "config": { "status": id } });
        let edge = |source: &str, target: &str, kind: &str| json!({ "source": source, "target": target, "type": kind });
        self.publish(json!({
            "nodes": [
                { "id": "start", "type": "start" },
                { "id": "race", "type": "race", "config": { "providerIds": ids } },
                end("succeeded"), end("failed"),
            ],
            "edges": [
                edge("start", "race", "always"),
                edge("race", "succeeded", "success"), edge("race", "failed", "failure"),
            ],
        }))
        .await
    }
}

/// Each began after the end of the one before it, and so long after its start.
fn one_after_the_other(attempts: &[AttemptV1], pause: Duration) {
    for pair in attempts.windows(2) {
        let between = u64::try_from(pair[1].started_at.0 - pair[0].started_at.0).unwrap();
        // A start is written some time after its place was given, on a busy machine by a good part of the pause.
        let least = pair[0].duration_ms.max(u64::try_from(pause.as_millis()).unwrap());
        assert!(between >= least * 3 / 4, "{pair:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_visits_its_domain_as_often_at_once_as_allowed() {
    let mut lab = Lab::new(8, 2, Duration::ZERO).await;
    let flow = lab.race_of(8).await;
    lab.start();
    let race = json!({ "workflowId": flow, "options": { "timeoutMs": 120_000 } });
    let id = lab.submit_as("a.test/held/page/x", race).await;
    lab.until("two runners are there", |lab| lab.web.log().len() >= 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(lab.web.log().len(), 2, "the others wait for their places");
    lab.web.release("page");
    let job = lab.ended(id).await;
    let outcomes: Vec<_> = job.attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Outcome::Success, Outcome::Canceled], "{job:?}");
    assert_eq!((job.status, lab.spent()), (JobStatus::Succeeded, 1));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(lab.web.log().len(), 2, "who waited never visits");
    let domain = base::web::Domain::parse("a.test").unwrap();
    assert_eq!(lab.dispatcher.parts.politeness.free(&domain), 2, "no place is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_keeps_the_pause_between_visits_and_needs_one_place() {
    let pause = Duration::from_millis(400);
    let mut lab = Lab::new(8, 1, pause).await;
    let flow = lab.race_of(4).await;
    lab.start();
    // Once with pages that fail sooner than the next visit may begin, once with ones that fail later.
    for timeout in [100, 600] {
        let page = format!("a.test/slow/60000/{timeout}");
        let race = json!({ "workflowId": flow, "options": { "timeoutMs": timeout } });
        let job = lab.ended(lab.submit_as(&page, race).await).await;
        assert_eq!((job.status, lab.web.count(&page)), (JobStatus::Failed, 4), "{job:?}");
        one_after_the_other(&job.attempts, pause);
        let mut asked: Vec<_> = job.attempts.iter().map(|attempt| attempt.provider_id.clone()).collect();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!((asked.len(), job.attempts[3].n), (4, 4), "{job:?}");
        assert!(job.attempts.iter().all(|attempt| attempt.outcome == Outcome::Timeout), "{job:?}");
        assert_eq!(job.credits_charged, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn races_of_one_domain_do_not_wait_for_each_other() {
    let mut lab = Lab::new(8, 2, Duration::ZERO).await;
    let flow = lab.race_of(8).await;
    let mut races = Vec::new();
    for i in 0..4 {
        let race = json!({ "workflowId": flow, "options": { "timeoutMs": 100 } });
        races.push(lab.submit_as(&format!("a.test/slow/60000/{i}"), race).await);
    }
    lab.start();
    for id in races {
        let job = lab.ended(id).await;
        assert_eq!((job.status, job.attempts.len()), (JobStatus::Failed, 8), "{job:?}");
    }
    assert_eq!(lab.spent(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_waits_for_its_place_takes_its_turn_at_the_domain() {
    let mut lab = Lab::new(4, 1, Duration::ZERO).await;
    let (neighbour, flow) = (lab.neighbour().await, lab.race_of(2).await);
    lab.start();
    let race = json!({ "workflowId": flow, "options": { "timeoutMs": 120_000 } });
    let own = lab.submit_as("a.test/refuse/once/x", race).await;
    lab.until("its page is asked for", |lab| lab.web.log().len() == 1).await;
    let domain = base::web::Domain::parse("a.test").unwrap();
    let theirs = lab.submit_for(&neighbour, "a.test/theirs", json!({})).await;
    lab.until("the neighbour waits", |lab| lab.dispatcher.is_waiting(neighbour.id(), &domain)).await;
    lab.web.release("once");
    let own = lab.ended(own).await;
    assert_eq!(lab.web.log(), ["a.test/refuse/once/x", "a.test/theirs", "a.test/refuse/once/x"]);
    let outcomes: Vec<_> = own.attempts.iter().map(|attempt| (attempt.n, attempt.outcome)).collect();
    assert_eq!(outcomes, [(1, Outcome::TargetError), (2, Outcome::Success)]);
    assert_eq!(own.status, JobStatus::Succeeded, "{own:?}");
    assert!(neighbour.read(|tx| tx.require(&JOBS, &theirs)).unwrap().started_at.is_some());
}
