//! The dispatcher: takes due jobs from the queue, runs each, and writes how it ended.
//!
//! A run walks the job's graph ([`super::run`]); here is who may run, and when.
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

use super::finish::{claim, postpone, put_back, put_back_run};
use super::rows::{JOBS, JobV1, LEASE, READY};
use super::run::{Begin, Run};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, OrgId};
use crate::base::web::Domain;
use crate::base::{Error, Result};
use crate::engine::fetch::{Attempt, Permit, Politeness};
use crate::features::extraction::Extractor;
use crate::features::providers::Providers;
use crate::features::workflows::Graphs;
use crate::http::panic_text;
use crate::store::{GlobalEntry, OrgStore, SysRead, System};
use crate::task::TaskContext;
use futures::FutureExt;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How long a job waits after the box itself could not finish it (a full disk, say).
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// One in so many slots is for other organizations than the one that has all the others.
const SLOTS_KEPT_PART: usize = 8;
/// Domains that one round looks at.
const DOMAINS_PER_ROUND: usize = 2_048;
/// Jobs of organizations without a free slot that one round passes over; the next round goes on behind them. Without this
/// bound, each round of a box whose only organization has all its slots walked through the whole queue (19 % of its
/// time at 4,800 jobs a second, by `perf`).
const PASSED_PER_ROUND: usize = 128;
/// Time to the next round after one that ended at that bound: somebody else's jobs may stand behind.
const CUT_ROUND_PAUSE: Duration = Duration::from_millis(5);
/// Entries of a domain that are read at once: about as many as may visit it.
const ENTRIES_AT_ONCE: usize = 4;
/// Jobs put back by one write operation.
const RECOVERED_PER_WRITE: usize = 256;
/// Longest time between two rounds without a signal.
const ROUND_EVERY: Duration = Duration::from_millis(250);
/// Time from a round that failed to the next, whatever signals come.
const FAILED_ROUND_PAUSE: Duration = Duration::from_secs(1);
/// How often ended leases are looked for.
const LEASES_EVERY: Duration = Duration::from_secs(1);
/// How long an erasure waits for runs to end: a page that is being read is read to its end.
const ABANDON_WITHIN: Duration = Duration::from_secs(30);
const ABANDON_POLL: Duration = Duration::from_millis(20);

/// How jobs are run.
#[derive(Clone, Debug)]
pub struct DispatchSettings {
    /// Jobs that run at once.
    pub concurrency: usize,
}

/// What the dispatcher works with.
pub struct DispatchParts {
    pub providers: Arc<Providers>,
    pub graphs: Arc<Graphs>,
    pub politeness: Politeness,
    pub extractor: Arc<Extractor>,
}

/// Runs jobs.
pub struct Dispatcher {
    system: System,
    pub(super) providers: Arc<Providers>,
    pub(super) graphs: Arc<Graphs>,
    pub(super) politeness: Politeness,
    pub(super) extractor: Arc<Extractor>,
    pub(super) settings: DispatchSettings,
    wake: Notify,
    /// The jobs that run here, and how to tell each that it was canceled.
    running: Mutex<HashMap<(OrgId, JobId), Arc<Notify>>>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
    /// The domain after which the next round begins.
    turn: Mutex<Vec<u8>>,
}

/// The slots that organizations have. None may have all of them: slow pages of one would hold up everybody's jobs.
struct Shares {
    of: HashMap<OrgId, usize>,
    each_max: usize,
    /// Jobs of organizations without room that this round has met.
    passed: usize,
}

impl Shares {
    fn has_room(&self, org: OrgId) -> bool {
        self.of.get(&org).is_none_or(|count| *count < self.each_max)
    }

    fn take(&mut self, org: OrgId) {
        *self.of.entry(org).or_default() += 1;
    }
}

/// A job that a round may take.
struct Due {
    org: OrgId,
    job: JobId,
    permit: Permit,
}

impl Dispatcher {
    pub fn new(system: System, parts: DispatchParts, settings: DispatchSettings) -> Dispatcher {
        Dispatcher {
            system,
            providers: parts.providers,
            graphs: parts.graphs,
            politeness: parts.politeness,
            extractor: parts.extractor,
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
            let pause = match self.round(&mut looked).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "jobs could not be taken from the queue");
                    tokio::select! {
                        () = context.stopped() => {}
                        () = tokio::time::sleep(FAILED_ROUND_PAUSE) => {}
                    }
                    continue;
                }
            };
            tokio::select! {
                () = context.stopped() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    /// Takes what is due and starts it, and gives the longest time to the next round. `looked` is when ended leases were
    /// last looked for.
    async fn round(self: &Arc<Self>, looked: &mut Instant) -> Result<Duration> {
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
                return Ok(ROUND_EVERY);
            }
            let (due, is_cut) = self.system.read(|tx| self.due(tx, free))?;
            let pause = if is_cut { CUT_ROUND_PAUSE } else { ROUND_EVERY };
            if due.is_empty() {
                return Ok(pause);
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
                return Ok(pause);
            }
        }
    }

    /// Who has how many of the slots now.
    fn shares(&self) -> Shares {
        let mut of = HashMap::new();
        for (org, _) in self.running.lock().keys() {
            *of.entry(*org).or_default() += 1;
        }
        let each_max = self.settings.concurrency - self.settings.concurrency / SLOTS_KEPT_PART;
        Shares { of, each_max, passed: 0 }
    }

    /// Up to `free` due jobs, a permit to visit its domain with each; and whether there may be more behind those of
    /// organizations without room.
    fn due(&self, tx: &SysRead<'_>, free: usize) -> Result<(Vec<Due>, bool)> {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut shares = self.shares();
        let begin = self.turn.lock().clone();
        let (mut from, mut wrapped) = (begin.clone(), begin.is_empty());
        for _ in 0..DOMAINS_PER_ROUND {
            if due.len() == free || shares.passed >= PASSED_PER_ROUND {
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
            due.extend(self.due_of_domain(tx, first, (&next, now), free - due.len(), &mut shares)?);
            from.clone_from(&next);
            *self.turn.lock() = next;
        }
        Ok((due, shares.passed >= PASSED_PER_ROUND))
    }

    /// Up to `room` due jobs of the domain whose first entry is `first` and whose keys end below `end`. A permit is
    /// asked for only when there is a job for it, because a visit that is begun puts off the next.
    fn due_of_domain(
        &self,
        tx: &SysRead<'_>,
        first: GlobalEntry<JobId>,
        (end, now): (&[u8], Instant),
        room: usize,
        shares: &mut Shares,
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
                let below = [priority, &time_key(tx.now().after(Duration::from_millis(1)))].concat();
                let wanted = room - due.len();
                let keys = (first.index_key.as_slice(), below.as_slice());
                let has_leave = self.take(tx, keys, (&domain, now), wanted, shares, &mut due)?;
                if !has_leave || due.len() == room {
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

    /// Takes jobs of one domain and priority between two keys; looks at no more than `wanted`. False when nothing more may
    /// be taken of this domain now.
    fn take(
        &self,
        tx: &SysRead<'_>,
        (from, below): (&[u8], &[u8]),
        (domain, now): (&Domain, Instant),
        mut wanted: usize,
        shares: &mut Shares,
        due: &mut Vec<Due>,
    ) -> Result<bool> {
        let mut from = from.to_vec();
        while wanted > 0 {
            let at_once = ENTRIES_AT_ONCE.min(wanted);
            let entries = tx.scan_global(&JOBS, &READY, &from, Some(below), at_once)?;
            let is_last = entries.len() < at_once;
            for entry in entries {
                from = [entry.index_key.as_slice(), &[0]].concat();
                wanted -= 1;
                // Nobody claims it any more, and its domain's visits are others'.
                if tx.is_fenced(entry.org) || !shares.has_room(entry.org) {
                    shares.passed += 1;
                    continue;
                }
                let Ok(permit) = self.politeness.try_acquire(domain, now) else { return Ok(false) };
                shares.take(entry.org);
                due.push(Due { org: entry.org, job: entry.key, permit });
            }
            if is_last || shares.passed >= PASSED_PER_ROUND {
                break;
            }
        }
        Ok(shares.passed < PASSED_PER_ROUND)
    }

    /// Marks the jobs running, each with a lease; those that somebody canceled meanwhile are left out.
    async fn claim(&self, due: Vec<Due>) -> Result<Vec<(JobV1, OrgStore, Permit)>> {
        let wanted: Vec<_> = due.iter().map(|due| (due.org, due.job)).collect();
        let claimed = self
            .system
            .write(move |tx| {
                wanted
                    .into_iter()
                    .map(|(org, id)| claim(&tx.org(org), id, tx.now()))
                    .collect::<Result<Vec<_>>>()
            })
            .await?;
        let jobs = due.into_iter().zip(claimed);
        Ok(jobs.filter_map(|(due, job)| Some((job?, self.system.org(due.org), due.permit))).collect())
    }

    async fn run_job(self: Arc<Self>, job: JobV1, org: OrgStore, permit: Permit, canceled: Arc<Notify>) {
        let (id, run) = (job.id, job.run);
        let going = async {
            tokio::select! {
                ended = self.run_on(&org, job, permit) => ended,
                // Its row says so already. What is being fetched is let go with the run, and the slot is free at once.
                () = canceled.notified() => Ok(()),
            }
        };
        let ended = AssertUnwindSafe(going).catch_unwind().await;
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
        {
            // A job that was put back may run again already, under the same key.
            let mut running = self.running.lock();
            let key = (org.id(), id);
            if running.get(&key).is_some_and(|now| Arc::ptr_eq(now, &canceled)) {
                running.remove(&key);
            }
        }
        self.wake();
    }

    async fn run_on(&self, org: &OrgStore, job: JobV1, permit: Permit) -> Result<()> {
        let (id, run) = (job.id, job.run);
        match Run::load(self, org, job, permit)? {
            Begin::Run(going) => going.go().await,
            Begin::Postponed(run_at, reason) => {
                org.write(move |tx| postpone(tx, id, run, run_at, &reason)).await
            }
        }
    }

    /// What the target said about the pace. What a provider asks for itself is its own breaker's.
    pub(super) fn heed(&self, domain: &Domain, attempt: &Attempt) {
        let now = Instant::now();
        if let Some(pause) = attempt.retry_after.filter(|_| attempt.fault.is_none()) {
            self.politeness.hold(domain, now, now + pause);
        }
        if let Some(delay) = attempt.crawl_delay {
            self.politeness.set_crawl_delay(domain, now, delay);
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
