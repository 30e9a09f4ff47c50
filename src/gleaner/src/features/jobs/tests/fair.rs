//! Between organizations: turns at a domain, slots, and what many waiting domains cost.

use super::*;
use crate::features::jobs::queue::{FairQueue, Inbox};
use crate::features::jobs::rows::{BY_BENCHMARK, BY_EXTERNAL_ID, BY_STATUS, BY_URL, QUEUE_BEFORE};
use store::{Index, OrgTable, Seek};

impl Lab {
    async fn submit_many(&self, org: &OrgStore, count: usize, place: &str, more: Value) -> Vec<JobId> {
        let mut jobs = Vec::with_capacity(count);
        for i in 0..count {
            jobs.push(self.submit_for(org, &format!("{place}/{i}"), more.clone()).await);
        }
        jobs
    }

    pub(super) async fn until_ended(&self, org: &OrgStore, jobs: &[JobId]) {
        self.until("the neighbour's jobs end", |_| {
            jobs.iter().all(|id| org.read(|tx| tx.require(&JOBS, id)).unwrap().status.has_ended())
        })
        .await;
    }

    /// Jobs of an organization that run now.
    fn running_of(&self, org: &OrgStore) -> usize {
        org.read(|tx| tx.count_index(&BY_STATUS, JobStatus::Running as u8, 1_000)).unwrap()
    }

    /// How often a queue that knows nothing asks the store until it takes this job.
    fn looks_until_taken(&self, job: JobId) -> u64 {
        let inbox = Arc::new(Inbox::default());
        let mut queue = FairQueue::new(16, inbox);
        let polite = Politeness::new(VisitLimits::new(4, Duration::ZERO));
        let system = self.store.system();
        for _ in 0..1_000 {
            queue.listen(self.store.clock().moment());
            let round = system.read(|tx| queue.round(tx, &polite, Instant::now())).unwrap();
            if round.due.iter().any(|due| due.job == job) {
                return queue.looks();
            }
        }
        panic!("it is not taken");
    }

    /// Writes queued jobs of the organization at so many domains, which nobody tells the dispatcher of.
    pub(super) async fn fill_domains(&self, org: &OrgStore, domains: usize, run_at: Moment) -> Vec<JobV2> {
        let mut jobs = Vec::with_capacity(domains);
        let id = self.submit_for(org, "a.test/pattern", json!({})).await;
        let pattern = org.write(move |tx| submit::cancel(tx, id)).await.unwrap();
        for chunk in 0..domains.div_ceil(1_000) {
            let pattern = pattern.clone();
            let written = org.write(move |tx| {
                let mut jobs = Vec::new();
                for n in chunk * 1_000..domains.min((chunk + 1) * 1_000) {
                    // A name without an address: whoever is sent there fails at once.
                    let (domain, url) = (format!("d{n}.test"), "http://nowhere.test/".to_owned());
                    let (id, status) = (JobId::new(), JobStatus::Queued);
                    let job = JobV2 { id, status, domain, url, run_at, finished_at: None, ..pattern.clone() };
                    tx.insert(&JOBS, &id, &job)?;
                    jobs.push(job);
                }
                Ok(jobs)
            });
            jobs.extend(written.await.unwrap());
        }
        jobs
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_one_organization_holds_no_others_job_back_at_its_domain() {
    let mut lab = Lab::new(8, 2, Duration::ZERO).await;
    let neighbour = lab.neighbour().await;
    let own = lab.org.clone();
    let first = json!({ "priority": 9, "options": { "timeoutMs": 120_000 } });
    lab.submit_many(&own, 120, "a.test/held", first).await;
    lab.start();
    lab.until("its pages are under way", |lab| lab.web.log().len() == 2).await;
    let theirs = lab.submit_for(&neighbour, "a.test/theirs", json!({ "priority": 0 })).await;
    // The visits end one by one, and each end lets one more begin.
    let mut ended = 0;
    while lab.web.count("a.test/theirs") == 0 {
        let log = lab.web.log();
        let oldest = &log[ended];
        lab.web.release(oldest.strip_prefix("a.test/held/").unwrap());
        ended += 1;
        // A call that the machine was too slow to follow costs a turn.
        assert!(ended <= 8, "it came behind {ended} of the other's pages: {log:?}");
        lab.until("another visit begins", |lab| lab.web.log().len() > log.len()).await;
    }
    lab.until_ended(&neighbour, &[theirs]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_organizations_take_turns_at_a_domain() {
    let mut lab = Lab::new(16, 1, Duration::ZERO).await;
    let (second, third) = (lab.neighbour().await, lab.neighbour().await);
    let own = lab.org.clone();
    lab.submit_many(&own, 40, "a.test/slow/20/one", json!({})).await;
    // Another host of the domain is no other place in the line.
    lab.submit_many(&second, 40, "a.test/slow/20/two", json!({})).await;
    let theirs = lab.submit_many(&third, 5, "a.test/slow/20/three", json!({})).await;
    lab.start();
    lab.until_ended(&third, &theirs).await;
    let log = lab.web.log();
    let place = log.iter().rposition(|visit| visit.contains("three")).unwrap();
    // Without turns it came behind 80 others. A second in which the machine does nothing costs whoever is called his turn,
    // so there is room for some of those.
    assert!(place <= 3 * 5 + 12, "{log:?}");
    let of = |who: &str| log[..place].iter().filter(|visit| visit.contains(who)).count();
    assert!(of("one").abs_diff(of("two")) <= 12, "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_shrink_as_others_come_and_newcomers_begin_at_once() {
    let mut lab = Lab::new(16, 100, Duration::ZERO).await;
    let (second, third) = (lab.neighbour().await, lab.neighbour().await);
    let own = lab.org.clone();
    let silent = lab.submit_many(&own, 40, "a.test/held/never", patient()).await;
    lab.start();
    lab.until("the first has all it may", |lab| lab.running_of(&own) == 16).await;
    // A slot is taken a moment before the job's row says so.
    let is_begun = |lab: &Lab, id: &JobId| lab.job(*id).status == JobStatus::Running;
    lab.until("their rows say so", |lab| silent.iter().filter(|id| is_begun(lab, id)).count() == 16).await;
    let begun: Vec<_> = silent.iter().filter(|id| is_begun(&lab, id)).copied().collect();
    let theirs = lab.submit_many(&second, 20, "b.test/held/never", patient()).await;
    lab.until("the second has its share at once", |lab| lab.running_of(&second) == 8).await;
    // The first's runs end one by one; who has a share begins no other while all slots are in use.
    for id in begun.iter().take(8) {
        let id = *id;
        own.write(move |tx| submit::cancel(tx, id)).await.unwrap();
        lab.dispatcher.abandon(own.id(), id);
    }
    lab.until("the shares are equal", |lab| lab.running_of(&own) == 8).await;
    assert_eq!(lab.running_of(&second), 8, "runs that have begun go on");
    let quick = lab.submit_for(&third, "c.test/quick", json!({})).await;
    lab.until_ended(&third, &[quick]).await;
    assert_eq!((lab.running_of(&own), lab.running_of(&second)), (8, 8), "the third waited for none of them");
    for (org, jobs) in [(&own, silent), (&second, theirs)] {
        for id in jobs {
            // Some were canceled above.
            let _ = org.write(move |tx| submit::cancel(tx, id).map(drop)).await;
            lab.dispatcher.abandon(org.id(), id);
        }
    }
    lab.until("every run is over", |lab| lab.dispatcher.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_costs_by_what_can_run_and_not_by_what_waits() {
    const DOMAINS: usize = 40_000;
    let mut lab = Lab::new(16, 4, Duration::ZERO).await;
    let neighbour = lab.neighbour().await;
    let own = lab.org.clone();
    let later = lab.org.clock().moment().after(Duration::from_secs(3_600));
    lab.fill_domains(&own, DOMAINS, later).await;
    // Each of them is looked at once after a start, which costs nobody his turn.
    let early = lab.submit_for(&neighbour, "b.test/early", json!({})).await;
    let looks = lab.looks_until_taken(early);
    // A round ends after some 500 looks, and its first or second one takes it.
    assert!(looks <= 1_200, "it waited for {looks} looks");
    lab.start();
    lab.until_ended(&neighbour, &[early]).await;
    lab.until("everything was looked at", |lab| lab.dispatcher.looks() >= DOMAINS as u64).await;
    // A round has hundreds of looks while there is anything left to look at.
    let begun = Instant::now();
    for probe in 0.. {
        let before = lab.dispatcher.looks();
        let job = lab.submit_for(&neighbour, &format!("b.test/probe-{probe}"), json!({})).await;
        lab.until_ended(&neighbour, &[job]).await;
        if lab.dispatcher.looks() - before <= 40 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the rounds do not come to rest");
    }
    for round in 0..5 {
        let before = lab.dispatcher.looks();
        let theirs = lab.submit_many(&neighbour, 4, &format!("b.test/{round}"), json!({})).await;
        lab.until_ended(&neighbour, &theirs).await;
        let cost = lab.dispatcher.looks() - before;
        assert!(cost <= 40, "four jobs beside {DOMAINS} waiting domains took {cost} looks");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn domains_that_are_due_and_have_no_slot_cost_their_neighbours_nothing() {
    const DOMAINS: usize = 2_000;
    let mut lab = Lab::new(8, 100, Duration::ZERO).await;
    let neighbour = lab.neighbour().await;
    let own = lab.org.clone();
    let silent = lab.submit_many(&own, 8, "a.test/held/never", patient()).await;
    lab.start();
    lab.until("it has all it may", |lab| lab.running_of(&own) == 8).await;
    lab.fill_domains(&own, DOMAINS, Moment(0)).await;
    for round in 0..5 {
        let before = lab.dispatcher.looks();
        let theirs = lab.submit_for(&neighbour, &format!("b.test/{round}"), json!({})).await;
        lab.until_ended(&neighbour, &[theirs]).await;
        let cost = lab.dispatcher.looks() - before;
        assert!(cost <= 10, "a job beside {DOMAINS} domains took {cost} looks");
    }
    // What nobody told of was not lost: a start finds it.
    let (web, disk, id) = (lab.web.clone(), lab.disk.clone(), own.id());
    for job in silent {
        own.write(move |tx| submit::cancel(tx, job)).await.unwrap();
        lab.dispatcher.abandon(id, job);
    }
    assert!(lab.drain().await.is_empty());
    lab.store.close();
    let mut lab = Lab::over(web, disk, id, (64, 100, Duration::ZERO));
    lab.start();
    lab.until("every one of them was taken", |lab| {
        lab.org.read(|tx| tx.count_index(&BY_STATUS, JobStatus::Queued as u8, 1)).unwrap() == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_of_an_older_release_is_taken_over() {
    static BEFORE: Index<(String, u8, Moment), JobV2> = Index::global(QUEUE_BEFORE, |job, keys| {
        if job.status == JobStatus::Queued {
            keys.add((&job.domain, 9 - job.priority.min(9), job.run_at));
        }
    });
    static JOBS_BEFORE: OrgTable<JobId, JobV2> = OrgTable::new("jobs", "Job")
        .indexed(&[&BY_STATUS, &BY_URL, &BY_EXTERNAL_ID, &BY_BENCHMARK, &BEFORE, &LEASE])
        .fed();
    let mut lab = Lab::new(4, 2, Duration::ZERO).await;
    let mut kept = Vec::new();
    for i in 0..300 {
        let id = lab.submit(&format!("a.test/{i}")).await;
        let moved = lab.org.write(move |tx| {
            let job = tx.require(&JOBS, &id)?;
            // As that release would have written it: under its own index alone.
            tx.delete(&JOBS, &id)?;
            tx.insert(&JOBS_BEFORE, &id, &job)
        });
        moved.await.unwrap();
        kept.push(id);
    }
    let canceled = kept.pop().unwrap();
    lab.org.write(move |tx| submit::cancel(tx, canceled)).await.unwrap();
    assert_eq!(lab.queued_and_leased().0, 0);
    lab.start();
    for id in kept {
        assert_eq!(lab.ended(id).await.status, JobStatus::Succeeded);
    }
    assert_eq!(lab.job(canceled).status, JobStatus::Canceled);
    assert_eq!((lab.web.log().len(), lab.queued_and_leased()), (299, (0, 0)));
    let left = lab.store.system();
    let left = left.read(|tx| tx.scan_global(&JOBS_BEFORE, &BEFORE, &Seek::start(), None, 1)).unwrap();
    assert!(left.entries.is_empty(), "nothing is left there");
}

/// The second attempt of a job is a visit like another: who has waited for the domain meanwhile goes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_further_attempt_takes_its_turn_at_the_domain() {
    let mut lab = Lab::new(4, 1, Duration::ZERO).await;
    let neighbour = lab.neighbour().await;
    let direct = lab.edit_direct(|_| ()).await;
    let node = |id: &str| json!({ "id": id, "type": "provider", "config": { "providerId": direct } });
    let edge =
        |source: &str, target: &str, kind: &str| json!({ "source": source, "target": target, "type": kind });
    let end = |id: &str, status: &str| json!({ "id": id, "type": "end", "config": { "status": status } });
    let flow = lab
        .publish(json!({
            "nodes": [{ "id": "start", "type": "start" }, node("one"), node("two"), end("ok", "succeeded"), end("bad", "failed")],
            "edges": [
                edge("start", "one", "always"), edge("one", "ok", "success"), edge("one", "two", "failure"),
                edge("two", "ok", "success"), edge("two", "bad", "failure"),
            ],
        }))
        .await;
    lab.start();
    let long = json!({ "workflowId": flow, "options": { "timeoutMs": 120_000 } });
    let own = lab.submit_as("a.test/refuse/once/x", long).await;
    lab.until("its page is asked for", |lab| lab.web.log().len() == 1).await;
    let domain = base::web::Domain::parse("a.test").unwrap();
    let theirs = lab.submit_for(&neighbour, "a.test/theirs", json!({})).await;
    lab.until("the neighbour waits", |lab| lab.dispatcher.is_waiting(neighbour.id(), &domain)).await;
    lab.web.release("once");
    let own = lab.ended(own).await;
    assert_eq!(lab.web.log(), ["a.test/refuse/once/x", "a.test/theirs", "a.test/refuse/once/x"]);
    assert_eq!(own.status, JobStatus::Succeeded, "{own:?}");
    let outcomes: Vec<_> = own.attempts.iter().map(|attempt| (attempt.n, attempt.outcome)).collect();
    assert_eq!(outcomes, [(1, Outcome::TargetError), (2, Outcome::Success)]);
    assert!(neighbour.read(|tx| tx.require(&JOBS, &theirs)).unwrap().started_at.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visits_that_never_end_keep_no_other_organization_out_of_a_domain() {
    let mut lab = Lab::new(16, 2, Duration::ZERO).await;
    let neighbour = lab.neighbour().await;
    let own = lab.org.clone();
    let patient = json!({ "options": { "timeoutMs": 120_000 } });
    let silent = lab.submit_many(&own, 10, "a.test/slow/600000", patient).await;
    lab.start();
    lab.until("it has the whole domain", |lab| lab.running_of(&own) == 2).await;
    let theirs = lab.submit_many(&neighbour, 3, "a.test/quick", json!({})).await;
    lab.until_ended(&neighbour, &theirs).await;
    assert_eq!(lab.running_of(&own), 2, "they began beside the others");
    assert_eq!(lab.web.visits.lock().at_once_max["a.test"], 3, "one at a time");
    for id in silent {
        own.write(move |tx| submit::cancel(tx, id).map(drop)).await.unwrap();
        lab.dispatcher.abandon(own.id(), id);
    }
    lab.until("every run is over", |lab| lab.dispatcher.running() == 0).await;
}
