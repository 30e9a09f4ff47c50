//! The dispatcher: takes due jobs from the queue, runs each, and writes how it ended.
//!
//! One claim is one write operation for as many jobs as there are free slots; each claimed job gets a lease and the
//! number of its run. A job that was running when the process died stands in `jobs.lease` and is put back at the next
//! start; its second run writes over the first one's result, because a result is keyed by its job.
//!
//! Domains take turns: a round walks the ready index domain by domain from where the last round stopped, and passes
//! over one that politeness holds back by a single seek. Nothing waits in memory but the jobs that are running.
//!
//! What the box cannot do for a moment (a full disk, a full queue of writes) costs a pause and no work: a round that
//! fails is tried again, and a page that has arrived is written when there is room.

use super::rows::{AttemptV1, CostSource, JOBS, JobV1, LEASE, READY};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, OrgId};
use crate::base::limits::DIRECT_CREDITS;
use crate::base::terms::JobStatus;
use crate::base::web::{Domain, WebUrl};
use crate::base::{Code, Error, Result};
use crate::engine::fetch::{Direct, FetchReport, FetchRequest, Outcome, Permit, Politeness};
use crate::features::extraction::{self, Extractor, ResultDraft, Scraped};
use crate::features::{billing, urls};
use crate::http::panic_text;
use crate::store::{GlobalEntry, OrgStore, OrgWrite, SysRead, System};
use crate::task::TaskContext;
use futures::FutureExt;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How long past its time limit a run is trusted to be alive.
const LEASE_MARGIN: Duration = Duration::from_secs(60);
/// How often a job is taken from the queue before it is given up: one that ends the process each time must not do so
/// forever.
const RUNS_MAX: u32 = 5;
/// How long a job waits after the box itself could not finish it (a full disk, say).
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Domains that one round looks at.
const DOMAINS_PER_ROUND: usize = 2_048;
/// Jobs put back by one write operation.
const RECOVERED_PER_WRITE: usize = 256;
/// Longest time between two rounds without a signal.
const ROUND_EVERY: Duration = Duration::from_millis(250);
/// Time from a round that failed to the next, whatever signals come.
const FAILED_ROUND_PAUSE: Duration = Duration::from_secs(1);
/// How often ended leases are looked for.
const LEASES_EVERY: Duration = Duration::from_secs(1);
/// How long the end of a run is tried to be written; within the lease, or another run would begin meanwhile.
const FINISH_WITHIN: Duration = Duration::from_secs(30);
/// How long an erasure waits for runs to end: a page that is being read is read to its end.
const ABANDON_WITHIN: Duration = Duration::from_secs(30);
const ABANDON_POLL: Duration = Duration::from_millis(20);
/// Time between two such tries.
const FINISH_EVERY: Duration = Duration::from_millis(200);

/// How jobs are run.
#[derive(Clone, Debug)]
pub struct DispatchSettings {
    /// Jobs that run at once.
    pub concurrency: usize,
    /// Whether the built-in provider obeys robots.txt.
    pub robots: bool,
}

/// Runs jobs.
pub struct Dispatcher {
    system: System,
    direct: Arc<Direct>,
    politeness: Politeness,
    extractor: Arc<Extractor>,
    settings: DispatchSettings,
    wake: Notify,
    /// The jobs that run here, and how to tell each that it was canceled.
    running: Mutex<HashMap<(OrgId, JobId), Arc<Notify>>>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
    /// The domain after which the next round begins.
    turn: Mutex<Vec<u8>>,
}

/// A job that a round may take.
struct Due {
    org: OrgId,
    job: JobId,
    permit: Permit,
}

impl Dispatcher {
    pub fn new(
        system: System,
        direct: Arc<Direct>,
        politeness: Politeness,
        extractor: Arc<Extractor>,
        settings: DispatchSettings,
    ) -> Dispatcher {
        Dispatcher {
            system,
            direct,
            politeness,
            extractor,
            settings,
            wake: Notify::new(),
            running: Mutex::default(),
            tasks: tokio::sync::Mutex::new(JoinSet::new()),
            turn: Mutex::default(),
        }
    }

    /// Says that there may be something to do.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// How many jobs are running.
    pub fn running(&self) -> usize {
        self.running.lock().len()
    }

    fn running_ids(&self) -> HashSet<(OrgId, JobId)> {
        self.running.lock().keys().copied().collect()
    }

    /// Ends the run of a job that was canceled, if it runs here; its row has said so already.
    pub fn abandon(&self, org: OrgId, job: JobId) {
        if let Some(canceled) = self.running.lock().get(&(org, job)) {
            canceled.notify_one();
        }
    }

    /// Ends every run of an organization that is being erased, and waits until none is left; gives how many there were.
    pub async fn abandon_all(&self, org: OrgId) -> Result<u64> {
        let deadline = Instant::now() + ABANDON_WITHIN;
        let mut ended = HashSet::new();
        loop {
            let own: Vec<_> = self.running_ids().into_iter().filter(|(owner, _)| *owner == org).collect();
            if own.is_empty() {
                return Ok(ended.len() as u64);
            }
            if Instant::now() > deadline {
                return Err(Error::unavailable("jobs of the organization have not ended yet"));
            }
            for (org, job) in own {
                self.abandon(org, job);
                ended.insert(job);
            }
            tokio::time::sleep(ABANDON_POLL).await;
        }
    }

    /// Puts back the jobs that a dead process left running.
    async fn recover(&self) -> Result<usize> {
        let mut total = 0;
        loop {
            let running = self.running_ids();
            let put_back = self
                .system
                .write(move |tx| {
                    let entries =
                        tx.scan_global(&JOBS, &LEASE, &[], None, RECOVERED_PER_WRITE + running.len())?;
                    // Of an organization that is being erased the entries go by themselves.
                    let lost = entries.iter().filter(|entry| {
                        !running.contains(&(entry.org, entry.key)) && !tx.is_fenced(entry.org)
                    });
                    let mut count = 0;
                    for entry in lost.take(RECOVERED_PER_WRITE) {
                        put_back(&tx.org(entry.org), entry.key, tx.now())?;
                        count += 1;
                    }
                    Ok(count)
                })
                .await?;
            total += put_back;
            if put_back < RECOVERED_PER_WRITE {
                return Ok(total);
            }
        }
    }

    /// The activation of the dispatcher's task: puts back what a dead process left, then runs rounds until the box
    /// drains, then waits for the jobs that are running. What the supervisor cuts off is put back at the next start.
    pub async fn run(self: Arc<Self>, context: TaskContext) -> Result<()> {
        let lost = self.recover().await?;
        if lost > 0 {
            tracing::info!(jobs = lost, "jobs that were running when the box went down run again");
        }
        let mut looked = Instant::now();
        while !context.stopping() {
            // The activation goes on: the supervisor's pause after a failure doubles, and this one ends with the box.
            if let Err(error) = self.round(&mut looked).await {
                tracing::warn!(%error, "jobs could not be taken from the queue");
                tokio::select! {
                    () = context.stopped() => {}
                    () = tokio::time::sleep(FAILED_ROUND_PAUSE) => {}
                }
                continue;
            }
            tokio::select! {
                () = context.stopped() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(ROUND_EVERY) => {}
            }
        }
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    /// Takes what is due and starts it. `looked` is when ended leases were last looked for.
    async fn round(self: &Arc<Self>, looked: &mut Instant) -> Result<()> {
        if looked.elapsed() >= LEASES_EVERY {
            *looked = Instant::now();
            self.put_back_expired().await?;
        }
        let mut tasks = self.tasks.lock().await;
        while tasks.try_join_next().is_some() {}
        loop {
            // A run leaves this count before it signals that there is room; its task ends a moment later.
            let free = self.settings.concurrency.saturating_sub(self.running());
            if free == 0 {
                return Ok(());
            }
            let due = self.system.read(|tx| self.due(tx, free))?;
            if due.is_empty() {
                return Ok(());
            }
            let took = due.len();
            let claimed = self.claim(due).await?;
            let is_last = took < free || claimed.is_empty();
            for (job, org, permit) in claimed {
                let canceled = Arc::new(Notify::new());
                self.running.lock().insert((org.id(), job.id), canceled.clone());
                tasks.spawn(self.clone().run_job(job, org, permit, canceled));
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Up to `free` due jobs, a permit to visit its domain with each.
    fn due(&self, tx: &SysRead<'_>, free: usize) -> Result<Vec<Due>> {
        let now = Instant::now();
        let mut due = Vec::new();
        let begin = self.turn.lock().clone();
        let (mut from, mut wrapped) = (begin.clone(), begin.is_empty());
        for _ in 0..DOMAINS_PER_ROUND {
            if due.len() == free {
                break;
            }
            let Some(first) = tx.scan_global(&JOBS, &READY, &from, None, 1)?.pop() else {
                if wrapped {
                    break;
                }
                wrapped = true;
                from.clear();
                continue;
            };
            if wrapped && !begin.is_empty() && first.index_key >= begin {
                break;
            }
            // The end of a domain's keys: its terminator (0x00 0x01) raised by one.
            let next = [domain_bytes(&first.index_key), &[0, 2]].concat();
            due.extend(self.due_of_domain(tx, first, &next, now, free - due.len())?);
            from.clone_from(&next);
            *self.turn.lock() = next;
        }
        Ok(due)
    }

    /// Up to `room` due jobs of the domain whose first entry is `first` and whose keys end below `end`. A permit is
    /// asked for only when there is a job for it, because a visit that is begun puts off the next.
    fn due_of_domain(
        &self,
        tx: &SysRead<'_>,
        first: GlobalEntry<JobId>,
        end: &[u8],
        now: Instant,
        room: usize,
    ) -> Result<Vec<Due>> {
        let mut due = Vec::new();
        let name = std::str::from_utf8(domain_bytes(&first.index_key)).unwrap_or_default();
        let Ok(domain) = Domain::parse(name) else {
            // One damaged row must not keep everybody else waiting.
            tracing::error!(job = %first.key, "a job in the queue has no domain; it is passed over");
            return Ok(due);
        };
        let mut next = Some(first);
        while let Some(first) = next {
            let (priority, run_at) = split_ready(&first.index_key)?;
            if run_at <= tx.now() {
                let Ok(permit) = self.politeness.try_acquire(&domain, now) else { break };
                let mut permit = Some(permit);
                let below = [priority, &time_key(tx.now().after(Duration::from_millis(1)))].concat();
                for entry in
                    tx.scan_global(&JOBS, &READY, &first.index_key, Some(&below), room - due.len())?
                {
                    // Nobody claims it any more, and its domain's visits are others'.
                    if tx.is_fenced(entry.org) {
                        continue;
                    }
                    let another = || self.politeness.try_acquire(&domain, now).ok();
                    let Some(permit) = permit.take().or_else(another) else { return Ok(due) };
                    due.push(Due { org: entry.org, job: entry.key, permit });
                }
                if due.len() == room {
                    break;
                }
            }
            // Times grow within a priority, so nothing more of this one is due: on to the next.
            let Some((last, head)) = priority.split_last() else { break };
            let lower = [head, &[last.saturating_add(1)]].concat();
            next = tx.scan_global(&JOBS, &READY, &lower, Some(end), 1)?.pop();
        }
        Ok(due)
    }

    /// Marks the jobs running, each with a lease; those that somebody canceled meanwhile are left out.
    async fn claim(&self, due: Vec<Due>) -> Result<Vec<(JobV1, OrgStore, Permit)>> {
        let wanted: Vec<_> = due.iter().map(|due| (due.org, due.job)).collect();
        let claimed = self
            .system
            .write(move |tx| {
                wanted
                    .into_iter()
                    .map(|(org, id)| claim_one(&tx.org(org), id, tx.now()))
                    .collect::<Result<Vec<_>>>()
            })
            .await?;
        let jobs = due.into_iter().zip(claimed);
        Ok(jobs.filter_map(|(due, job)| Some((job?, self.system.org(due.org), due.permit))).collect())
    }

    async fn run_job(self: Arc<Self>, job: JobV1, org: OrgStore, permit: Permit, canceled: Arc<Notify>) {
        let (id, run) = (job.id, job.run);
        let ended =
            AssertUnwindSafe(self.fetch_and_finish(job, &org, permit, &canceled)).catch_unwind().await;
        let ended =
            ended.unwrap_or_else(|panic| Err(Error::internal("run a job", panic_text(&*panic).to_owned())));
        if let Err(error) = ended {
            // What could not be written stands in the lease index: it is put back when the lease ends, or sooner here.
            tracing::warn!(job = %id, %error, "a job could not be finished; it will run again");
            let again = org.write(move |tx| put_back_run(tx, id, run, tx.now().after(RETRY_AFTER))).await;
            if let Err(error) = again {
                tracing::warn!(job = %id, %error, "a job could not be put back; its lease will end");
            }
        }
        self.running.lock().remove(&(org.id(), id));
        self.wake();
    }

    async fn fetch_and_finish(
        &self,
        job: JobV1,
        org: &OrgStore,
        permit: Permit,
        canceled: &Notify,
    ) -> Result<()> {
        let url = WebUrl::parse(&job.url).map_err(|e| Error::internal("read a job's URL", e))?;
        let domain = url.domain();
        let started_at = org.clock().now();
        let mut report = tokio::select! {
            report = self.direct.fetch(request(&job, url.clone(), self.settings.robots)) => report,
            // The connection closes with the fetch, and the slot is free at once.
            () = canceled.notified() => return Ok(()),
        };
        self.heed(&domain, &report);
        drop(permit);
        self.wake();
        let attempt = attempt(&job, started_at, &report);
        let draft = match report.outcome {
            Outcome::Success => {
                let page = Scraped {
                    job: job.id,
                    url_id: job.url_id,
                    url,
                    final_url: report.final_url.clone(),
                    domain,
                    page_type: job.page_type,
                    provider: attempt.provider_id.clone(),
                    http_status: report.status.unwrap_or_default(),
                    content_type: report.headers.content_type.take(),
                    body: std::mem::take(&mut report.body),
                    tags: job.tags.clone(),
                    scraped_at: started_at,
                };
                Some(self.extractor.process(org, page).await?)
            }
            _ => None,
        };
        self.write_end(org, job.id, job.run, attempt, draft).await
    }

    /// Writes how a run ended. While the store refuses writes this waits: the page is here, and a second run would
    /// visit the target again.
    async fn write_end(
        &self,
        org: &OrgStore,
        id: JobId,
        run: u32,
        attempt: AttemptV1,
        draft: Option<ResultDraft>,
    ) -> Result<()> {
        let deadline = Instant::now() + FINISH_WITHIN;
        loop {
            let (attempt, draft) = (attempt.clone(), draft.clone());
            match org.write(move |tx| finish(tx, id, run, attempt, draft)).await {
                Err(error) if error.code() == Code::ServiceUnavailable && Instant::now() < deadline => {
                    tokio::time::sleep(FINISH_EVERY).await;
                }
                ended => return ended,
            }
        }
    }

    /// What the target said about the pace.
    fn heed(&self, domain: &Domain, report: &FetchReport) {
        let now = Instant::now();
        if let Some(pause) = report.retry_after {
            self.politeness.hold(domain, now, now + pause);
        }
        // Without an answer nobody knows what robots.txt asks for, and what it asked for before still holds.
        if self.settings.robots && (report.crawl_delay.is_some() || report.status.is_some()) {
            self.politeness.set_crawl_delay(domain, now, report.crawl_delay.unwrap_or_default());
        }
    }

    /// Puts back jobs whose lease has ended although nobody here runs them.
    async fn put_back_expired(&self) -> Result<()> {
        let running = self.running_ids();
        let expired = self.system.read(|tx| {
            let end = time_key(tx.now());
            let mut expired =
                tx.scan_global(&JOBS, &LEASE, &[], Some(&end), RECOVERED_PER_WRITE + running.len())?;
            expired.retain(|entry| !tx.is_fenced(entry.org));
            Ok(expired)
        })?;
        let lost: Vec<_> =
            expired.into_iter().filter(|entry| !running.contains(&(entry.org, entry.key))).collect();
        if lost.is_empty() {
            return Ok(());
        }
        tracing::warn!(jobs = lost.len(), "leases ended without a result; the jobs run again");
        self.system
            .write(move |tx| {
                lost.iter().try_for_each(|entry| put_back(&tx.org(entry.org), entry.key, tx.now()))
            })
            .await
    }
}

/// The domain in a ready key: everything before its terminator (a domain has no NUL).
fn domain_bytes(key: &[u8]) -> &[u8] {
    let end = key.iter().position(|&byte| byte == 0).unwrap_or(key.len());
    &key[..end]
}

/// A ready key's beginning, which ends with the priority, and its time.
fn split_ready(key: &[u8]) -> Result<(&[u8], Timestamp)> {
    let (priority, time) =
        key.split_last_chunk::<8>().ok_or_else(|| Error::internal("read the queue", "a key is too short"))?;
    Ok((priority, Timestamp((u64::from_be_bytes(*time) ^ (1 << 63)) as i64)))
}

/// A time as it stands in a key.
fn time_key(time: Timestamp) -> [u8; 8] {
    ((time.0 as u64) ^ (1 << 63)).to_be_bytes()
}

fn request(job: &JobV1, url: WebUrl, robots: bool) -> FetchRequest {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &job.options.headers {
        // Both were checked when the job was submitted.
        if let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), value.parse()) {
            headers.insert(name, value);
        }
    }
    FetchRequest { url, headers, timeout: Duration::from_millis(job.options.timeout_ms.into()), robots }
}

fn attempt(job: &JobV1, started_at: Timestamp, report: &FetchReport) -> AttemptV1 {
    AttemptV1 {
        n: u32::try_from(job.attempts.len()).unwrap_or(u32::MAX).saturating_add(1),
        node_id: None,
        provider_id: "direct".to_owned(),
        started_at,
        duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        outcome: report.outcome,
        http_status: report.status,
        bytes: report.bytes_received,
        credits: credits(report),
        cost_source: CostSource::Table,
        rule: report.rule.clone(),
        error: report.error.clone(),
    }
}

/// A delivery is charged, and so is the target's own answer, its 404 say; a block or an endless redirect never is
/// (API page, section 9).
fn credits(report: &FetchReport) -> u64 {
    let answered = report.status.is_some_and(|status| status >= 400);
    match report.outcome {
        Outcome::Success => DIRECT_CREDITS,
        Outcome::TargetError if answered => DIRECT_CREDITS,
        _ => 0,
    }
}

fn claim_one(tx: &OrgWrite<'_>, id: JobId, now: Timestamp) -> Result<Option<JobV1>> {
    let Some(mut job) = tx.get(&JOBS, &id)? else { return Ok(None) };
    if job.status != JobStatus::Queued {
        return Ok(None);
    }
    job.status = JobStatus::Running;
    job.run += 1;
    job.started_at = Some(now);
    let time_max = Duration::from_millis(job.options.timeout_ms.into());
    job.lease_until = Some(now.after(time_max + LEASE_MARGIN));
    tx.put(&JOBS, &id, &job)?;
    Ok(Some(job))
}

/// Puts a running job back into the queue, or gives it up after too many runs.
fn put_back(tx: &OrgWrite<'_>, id: JobId, run_at: Timestamp) -> Result<()> {
    let Some(mut job) = tx.get(&JOBS, &id)? else { return Ok(()) };
    if job.status != JobStatus::Running {
        return Ok(());
    }
    job.lease_until = None;
    if job.run >= RUNS_MAX {
        job.error = Some(format!("given up after {RUNS_MAX} interrupted runs"));
        return end(tx, job, JobStatus::Failed, 0);
    }
    job.status = JobStatus::Queued;
    job.run_at = run_at;
    tx.put(&JOBS, &id, &job)
}

fn put_back_run(tx: &OrgWrite<'_>, id: JobId, run: u32, run_at: Timestamp) -> Result<()> {
    match tx.get(&JOBS, &id)? {
        Some(job) if job.run == run => put_back(tx, id, run_at),
        _ => Ok(()),
    }
}

/// Writes how a run ended: result, credits, URL and job in one operation. A run that was given up or canceled
/// meanwhile changes nothing.
fn finish(
    tx: &OrgWrite<'_>,
    id: JobId,
    run: u32,
    attempt: AttemptV1,
    draft: Option<ResultDraft>,
) -> Result<()> {
    let Some(mut job) = tx.get(&JOBS, &id)? else { return Ok(()) };
    if job.status != JobStatus::Running || job.run != run {
        return Ok(());
    }
    let charged = attempt.credits;
    job.error = attempt.error.clone();
    let status = match draft {
        Some(draft) => {
            job.result_id = Some(extraction::record(tx, draft)?);
            JobStatus::Succeeded
        }
        None => {
            job.error = job.error.or_else(|| Some(attempt.outcome.as_str().replace('_', " ")));
            JobStatus::Failed
        }
    };
    job.attempts.push(attempt);
    end(tx, job, status, charged)
}

fn end(tx: &OrgWrite<'_>, mut job: JobV1, status: JobStatus, charged: u64) -> Result<()> {
    job.status = status;
    job.finished_at = Some(tx.now());
    job.lease_until = None;
    job.credits_charged = charged;
    billing::settle(tx, job.id, job.created_at, job.credits_reserved, charged)?;
    if let Some(url) = job.url_id {
        urls::note_job(tx, url, job.id, status, job.started_at.unwrap_or(tx.now()))?;
    }
    tx.put(&JOBS, &job.id, &job)
}
