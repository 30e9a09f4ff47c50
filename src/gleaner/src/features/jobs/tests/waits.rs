//! Who waits for what, and holds nothing meanwhile: slots of the box, room at a provider, leave to visit a domain.

use super::*;
use crate::features::jobs::ask::AttemptLog;
use crate::features::jobs::cancel_job;
use crate::features::jobs::finish::{PARKS_MAX, claim, postpone};
use crate::features::jobs::run::{Run, RunStart};
use crate::features::jobs::walks::{self, WALKS, WalkV3};
use crate::features::providers::{PROVIDERS, ProviderV1};
use crate::features::workflows::{WorkflowStatus, WorkflowV1, write_version};
use base::ids::{ProviderId, UserId, WorkflowId, WorkflowVersionId};
use dispatch::dag::Dag;

impl Lab {
    /// Changes the built-in provider, and gives its id.
    pub(super) async fn edit_direct(
        &self,
        change: impl FnOnce(&mut ProviderV1) + Send + 'static,
    ) -> ProviderId {
        let edit = self.org.write(move |tx| {
            let (id, mut row) = tx.scan(&PROVIDERS, None, Order::Ascending, 1)?.pop().unwrap();
            change(&mut row);
            row.revision += 1;
            tx.put(&PROVIDERS, &id, &row)?;
            Ok(id)
        });
        edit.await.unwrap()
    }

    /// A published workflow.
    pub(super) async fn publish(&self, dag: Value) -> WorkflowId {
        let dag: Dag = serde_json::from_value(dag).unwrap();
        let now = self.org.clock().now();
        let workflow = WorkflowV1 {
            workflow_id: WorkflowId::new(),
            version: 0,
            version_id: WorkflowVersionId::new(),
            name: "tested".to_owned(),
            status: WorkflowStatus::Published,
            route: None,
            smart: None,
            created_at: now,
            updated_at: now,
            created_by: UserId::new(),
            published_at: Some(now),
        };
        let written = self.org.write(move |tx| write_version(tx, workflow, &dag, None)).await.unwrap();
        written.workflow.workflow_id
    }

    /// Cancels jobs as the API does.
    async fn cancel(&self, jobs: impl IntoIterator<Item = JobId>) {
        for id in jobs {
            let context = self.context.clone();
            self.org.write(move |tx| cancel_job(tx, &context, id)).await.unwrap();
        }
    }

    /// Takes a job from the queue and runs it, as the dispatcher would; `between` comes after it was taken.
    async fn run_by_hand(&self, id: JobId, between: impl FnOnce(&Lab)) {
        let job = self.org.write(move |tx| claim(tx, id)).await.unwrap().job().expect("it is queued");
        let domain = base::web::Domain::parse(&job.domain).unwrap();
        let permit =
            self.dispatcher.parts.politeness.try_acquire(&domain, domain.as_str(), Instant::now()).unwrap();
        between(self);
        match Run::load(&*self.dispatcher, &self.org, job, (permit, &AttemptLog::default())).unwrap() {
            RunStart::Run(run) => run.go().await.unwrap(),
            RunStart::Postponed(_, reason) => panic!("{reason}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_organization_that_has_all_slots_of_the_box_keeps_nobody_out() {
    let mut lab = Lab::new(8, 100, Duration::ZERO).await;
    let neighbour = lab.neighbour().await;
    let mut own = Vec::new();
    for i in 0..12 {
        own.push(lab.submit_as(&format!("a.test/held/never/{i}"), patient()).await);
    }
    lab.start();
    lab.until("its pages are under way", |lab| lab.web.log().len() >= 8).await;
    let theirs = lab.submit_for(&neighbour, "b.test/theirs", json!({})).await;
    lab.until("the neighbour's job ends", |_| {
        let job = neighbour.read(|tx| tx.require(&JOBS, &theirs)).unwrap();
        job.status == JobStatus::Succeeded
    })
    .await;
    assert_eq!(lab.web.visits.lock().at_once_max["a.test"], 8, "what is beside the slots is the others'");
    lab.cancel(own).await;
    lab.until("every run is over", |lab| lab.dispatcher.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_in_the_queue_for_a_provider_that_has_no_room() {
    let mut lab = Lab::new(8, 100, Duration::ZERO).await;
    lab.edit_direct(|row| row.max_concurrency = Some(1)).await;
    lab.start();
    let slow = lab.submit_as("a.test/held/never/x", patient()).await;
    lab.until("the page is asked for", |lab| lab.web.log().len() == 1).await;
    let next = lab.submit("b.test/next").await;
    // Who waited within the request would be taken from the queue once.
    lab.until("it is looked at again and again", |lab| lab.job(next).run >= 3).await;
    assert_eq!(lab.web.log().len(), 1);
    lab.cancel([slow]).await;
    let next = lab.ended(next).await;
    assert_eq!((next.status, next.attempts.len()), (JobStatus::Succeeded, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_ends_what_is_under_way_at_once() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    lab.start();
    // By itself it ends later than anything in this test is waited for.
    let slow = lab.submit_as("a.test/held/never/x", patient()).await;
    lab.until("the page is asked for", |lab| lab.web.log().len() == 1).await;
    let next = lab.submit("a.test/next").await;
    lab.cancel([slow]).await;
    assert_eq!(lab.ended(next).await.status, JobStatus::Succeeded, "slot and visit are free");
    // What was asked for the canceled one is told: of whom, since when, for how long, and that it cost nothing.
    lab.until("the attempt is noted", |lab| !lab.job(slow).attempts.is_empty()).await;
    let job = lab.job(slow);
    let [attempt] = job.attempts.as_slice() else { panic!("{job:?}") };
    assert_eq!((attempt.n, attempt.outcome, attempt.credits), (1, Outcome::Canceled, 0));
    assert!(attempt.error.as_deref().unwrap().contains("the job was canceled"), "{attempt:?}");
    assert!(Some(attempt.started_at) >= job.started_at && Some(attempt.started_at) <= job.finished_at);
    assert_eq!((job.status, lab.spent()), (JobStatus::Canceled, 1), "the other one's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canceled_job_tells_every_attempt_of_its_run_once() {
    let mut lab = Lab::new(2, 2, Duration::ZERO).await;
    let direct = lab.edit_direct(|_| ()).await;
    // A first provider whose answer is not final, then one that never answers.
    let node = |id: &str, url_ms: u32| json!({ "id": id, "type": "provider", "config": { "providerId": direct, "timeoutMs": url_ms } });
    let flow = lab
        .publish(json!({
            "nodes": [
                { "id": "start", "type": "start" }, node("hasty", 1_000), node("patient", 120_000),
                { "id": "ok", "type": "end", "config": { "status": "succeeded" } },
                { "id": "bad", "type": "end", "config": { "status": "failed" } },
            ],
            "edges": [
                { "source": "start", "target": "hasty", "type": "always" },
                { "source": "hasty", "target": "ok", "type": "success" },
                { "source": "hasty", "target": "patient", "type": "failure" },
                { "source": "patient", "target": "ok", "type": "success" },
                { "source": "patient", "target": "bad", "type": "failure" },
            ],
        }))
        .await;
    lab.start();
    let job = lab.submit_as("a.test/slow/600000/x", json!({ "workflowId": flow })).await;
    lab.until("the second attempt is under way", |lab| lab.web.log().len() == 2).await;
    lab.cancel([job]).await;
    lab.until("both are noted", |lab| lab.job(job).attempts.len() == 2).await;
    let told: Vec<_> = lab
        .job(job)
        .attempts
        .into_iter()
        .map(|attempt| (attempt.n, attempt.node_id, attempt.outcome))
        .collect();
    let node = |id: &str| Some(id.to_owned());
    assert_eq!(told, [(1, node("hasty"), Outcome::Timeout), (2, node("patient"), Outcome::Canceled)]);
    assert_eq!(lab.spent(), 0);
}

/// Where a redirect leads to a host that wants a pause, that pause is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_leads_to_no_host_that_is_left_alone() {
    let mut lab = Lab::new(2, 1, Duration::ZERO).await;
    lab.start();
    let polite = lab.dispatcher.parts.politeness.clone();
    // A short pause is waited for on the way.
    let begun = Instant::now();
    polite.hold("b.test", begun, begun + Duration::from_millis(500));
    let short = lab.submit("a.test/to/b.test/short").await;
    assert_eq!(lab.ended(short).await.status, JobStatus::Succeeded);
    assert!(begun.elapsed() >= Duration::from_millis(500));
    assert_eq!(lab.job(short).attempts.len(), 1);
    // For a long one the job waits in the queue, and holds neither a slot nor its own domain.
    polite.set_crawl_delay("b.test", Instant::now(), Duration::from_secs(600));
    let long = lab.submit("a.test/to/b.test/long").await;
    lab.until("it was turned away", |lab| lab.job(long).attempts.len() == 1).await;
    let next = lab.submit("a.test/next").await;
    assert_eq!(lab.ended(next).await.status, JobStatus::Succeeded);
    assert!(!lab.web.log().contains(&"b.test/long".to_owned()));
    let now = lab.org.clock().moment();
    assert!(
        lab.job(long).status == JobStatus::Queued
            && lab.job(long).run_at > now.after(Duration::from_secs(300))
    );
    polite.set_crawl_delay("b.test", Instant::now(), Duration::ZERO);
    lab.edit(long, move |job| job.run_at = now).await;
    let long = lab.ended(long).await;
    assert_eq!((long.status, long.attempts.len(), long.credits_charged), (JobStatus::Succeeded, 2, 1));
    assert_eq!(long.attempts[0].rule.as_deref(), Some("left_alone"));
    assert!(long.attempts[0].error.as_deref().unwrap().contains("b.test is left alone"), "{long:?}");
    // As many as may visit a domain at once, by whichever way they came there.
    let mut jobs = Vec::new();
    for i in 0..3 {
        jobs.push(lab.submit(&format!("b.test/slow/300/{i}")).await);
        jobs.push(lab.submit(&format!("a.test/to/b.test/slow/300/{}", i + 10)).await);
        jobs.push(lab.submit(&format!("c.test/to/b.test/slow/300/{}", i + 20)).await);
    }
    for job in jobs {
        assert_eq!(lab.ended(job).await.status, JobStatus::Succeeded);
    }
    assert_eq!(lab.web.visits.lock().at_once_max["b.test"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_is_heard_from_the_moment_the_row_says_running() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    lab.start();
    for round in 0..40 {
        let id = lab.submit_as(&format!("a.test/held/never/{round}"), patient()).await;
        let (org, begun) = (lab.org.clone(), Instant::now());
        // Looked at without a pause, so that the cancel comes between the claim's commit and the run.
        let is_running = move || {
            let status = || org.read(|tx| tx.require(&JOBS, &id)).unwrap().status;
            while status() != JobStatus::Running && begun.elapsed() < PATIENCE {}
            status()
        };
        assert_eq!(tokio::task::spawn_blocking(is_running).await.unwrap(), JobStatus::Running);
        lab.cancel([id]).await;
        lab.until("its run is over", |lab| lab.dispatcher.running() == 0).await;
    }
}

#[tokio::test]
async fn a_job_that_nobody_can_be_asked_for_fails_in_the_end() {
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let id = lab.submit("a.test/x").await;
    for parks in 0..=PARKS_MAX {
        assert_eq!(lab.job(id).status, JobStatus::Queued, "after waiting {parks} times");
        let put_back = lab.org.write(move |tx| {
            let job = claim(tx, id)?.job().expect("it is queued");
            let later = tx.moment().after(Duration::from_secs(300));
            postpone(tx, id, job.run, later, "Bee is left alone for a while")
        });
        put_back.await.unwrap();
    }
    let job = lab.job(id);
    assert_eq!(
        (job.status, job.error.as_deref()),
        (JobStatus::Failed, Some("Bee is left alone for a while"))
    );
    assert_eq!((job.attempts.len(), lab.spent(), lab.queued_and_leased()), (0, 0, (0, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_waiting_for_a_provider_in_trouble_is_bounded() {
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let direct = lab.edit_direct(|_| ()).await;
    let id = lab.submit("a.test/x").await;
    // It has waited for room and for turns, as often as jobs wait for who may never come back.
    let waited = WalkV3 { chain: Some(vec![direct]), parks: PARKS_MAX, crowded: 7, ..WalkV3::default() };
    lab.org.write(move |tx| tx.put(&WALKS, &id, &waited)).await.unwrap();
    let row = lab.org.read(|tx| tx.require(&PROVIDERS, &direct)).unwrap();
    let account = lab.dispatcher.parts.providers.account(lab.org.id(), &row).unwrap();
    let busy = fetch::Attempt::faulty(fetch::Fault::Throttled, "429");
    lab.dispatcher.parts.providers.hear(&account, base::web::Domain::parse("a.test").unwrap(), &busy);
    lab.run_by_hand(id, |_| ()).await;
    let (job, row) = (lab.job(id), lab.org.read(|tx| walks::load(tx, id)).unwrap());
    assert_eq!((job.status, job.attempts.len(), lab.web.log().len()), (JobStatus::Queued, 0, 0), "{job:?}");
    assert_eq!((row.parks, row.cooled, walks::interruptions(&row, &job)), (PARKS_MAX + 1, 1, 0));
    let put_back = lab.org.write(move |tx| {
        let job = claim(tx, id)?.job().expect("it is queued");
        postpone(tx, id, job.run, tx.moment(), "Bee is left alone for a while")
    });
    assert!(put_back.await.unwrap().is_some(), "nor does it fail before it begins");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_work_of_the_boxs_own_the_domain_is_asked_for_leave_again() {
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let direct = lab.edit_direct(|_| ()).await;
    let provider = |id: &str| json!({ "id": id, "type": "provider", "config": { "providerId": direct } });
    let edge =
        |source: &str, target: &str, kind: &str| json!({ "source": source, "target": target, "type": kind });
    let end = |id: &str, status: &str| json!({ "id": id, "type": "end", "config": { "status": status } });
    let workflow = lab.publish(json!({
        "nodes": [
            { "id": "start", "type": "start" }, provider("first"),
            { "id": "wait", "type": "wait", "config": { "ms": 0 } },
            { "id": "judge", "type": "extract" },
            provider("second"), end("ok", "succeeded"), end("bad", "failed"),
        ],
        "edges": [
            edge("start", "first", "always"), edge("first", "wait", "success"), edge("first", "bad", "failure"),
            edge("wait", "judge", "always"), edge("judge", "second", "success"),
            edge("judge", "second", "low_quality"), edge("second", "ok", "success"),
            edge("second", "bad", "failure"),
        ],
    }));
    let id = lab.submit_as("a.test/x", json!({ "workflowId": workflow.await })).await;
    lab.run_by_hand(id, |_| ()).await;
    assert_eq!((lab.job(id).status, lab.job(id).attempts.len()), (JobStatus::Queued, 1), "at its wait node");
    // The page is judged before the second visit; meanwhile the target asks to be left alone.
    let now = Instant::now();
    let hold =
        |lab: &Lab| lab.dispatcher.parts.politeness.hold("a.test", now, now + Duration::from_secs(600));
    lab.run_by_hand(id, hold).await;
    let job = lab.job(id);
    assert_eq!((job.status, job.attempts.len(), lab.web.log().len()), (JobStatus::Queued, 1, 1));
    assert!(job.run_at > lab.org.clock().moment().after(Duration::from_secs(300)), "for as long as it asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drawn_graph_leaves_a_provider_alone_that_keeps_failing_at_a_domain() {
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let first = lab.edit_direct(|_| ()).await;
    let second = lab.org.write(move |tx| {
        let mut row = tx.require(&PROVIDERS, &first)?;
        row.id = ProviderId::new();
        tx.insert(&PROVIDERS, &row.id, &row).map(|()| row.id)
    });
    let second = second.await.unwrap();
    let row = lab.org.read(|tx| tx.require(&PROVIDERS, &first)).unwrap();
    let account = lab.dispatcher.parts.providers.account(lab.org.id(), &row).unwrap();
    let url = format!("http://a.test:{}/slow/60000/x", lab.web.port);
    let request = fetch::FetchRequest {
        timeout: Duration::from_millis(50),
        ..fetch::FetchRequest::new(base::web::WebUrl::parse(&url).unwrap())
    };
    for _ in 0..fetch::breaker::FAILURES_MAX {
        let attempt = lab.dispatcher.parts.providers.fetch(&account, request.clone()).await;
        assert_eq!(attempt.outcome, Outcome::Timeout);
    }
    let node = |id: &str, provider: ProviderId| json!({ "id": id, "type": "provider", "config": { "providerId": provider } });
    let edge =
        |source: &str, target: &str, kind: &str| json!({ "source": source, "target": target, "type": kind });
    let end = |id: &str, status: &str| json!({ "id": id, "type": "end", "config": { "status": status } });
    let graph = |nodes: Vec<Value>, edges: Vec<Value>| {
        let mut all =
            vec![json!({ "id": "start", "type": "start" }), end("ok", "succeeded"), end("bad", "failed")];
        all.extend(nodes);
        json!({ "nodes": all, "edges": edges })
    };
    let both = graph(
        vec![node("one", first), node("two", second)],
        vec![
            edge("start", "one", "always"),
            edge("one", "ok", "success"),
            edge("one", "two", "failure"),
            edge("two", "ok", "success"),
            edge("two", "bad", "failure"),
        ],
    );
    let alone = graph(
        vec![node("one", first)],
        vec![edge("start", "one", "always"), edge("one", "ok", "success"), edge("one", "bad", "failure")],
    );
    let (both, alone) = (lab.publish(both).await, lab.publish(alone).await);
    let outcomes = |id: JobId| {
        let job = lab.job(id);
        assert_eq!(job.status, JobStatus::Succeeded, "{job:?}");
        job.attempts.into_iter().map(|attempt| (attempt.outcome, attempt.provider_id)).collect::<Vec<_>>()
    };
    let id = lab.submit_as("a.test/x", json!({ "workflowId": both })).await;
    lab.run_by_hand(id, |_| ()).await;
    assert_eq!(
        outcomes(id),
        [(Outcome::ProviderError, first.to_string()), (Outcome::Success, second.to_string())]
    );
    assert!(lab.job(id).attempts[0].error.as_ref().is_some_and(|error| error.contains("rests for a while")));
    assert_eq!(lab.web.count("a.test/x"), 1, "it was not asked");
    // Elsewhere it does not rest, and where there is nobody else it is better than nobody.
    let id = lab.submit_as("b.test/x", json!({ "workflowId": both })).await;
    lab.run_by_hand(id, |_| ()).await;
    assert_eq!(outcomes(id), [(Outcome::Success, first.to_string())]);
    let id = lab.submit_as("a.test/alone", json!({ "workflowId": alone })).await;
    lab.run_by_hand(id, |_| ()).await;
    assert_eq!(outcomes(id), [(Outcome::Success, first.to_string())]);
}
