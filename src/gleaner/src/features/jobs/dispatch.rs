//! The dispatcher: takes due jobs from the queue, runs each, and writes how it ended.
//!
//! A run walks the job's graph ([`super::run`]); whose turn it is says the fair queue ([`super::queue`]); here is how a job
//! is taken, run and put back.
//!
//! One claim is one write operation for as many jobs as a round found; each claimed job gets a lease and the number of its
//! run. A job that was running when the process died stands in `jobs.lease` and is put back at the next start; its second
//! run writes over the first one's result, because a result is keyed by its job.
//!
//! What the box cannot do for a moment is nobody's fault and costs a pause and no work: while something of its own is in
//! trouble (`Health`) it takes no jobs, and tries from time to time whether that is over. A run that meets such a thing
//! keeps its page and waits; one that has to end all the same is put back and does not count as interrupted, and neither
//! does one that a planned restart cuts off.

use super::ask::AttemptLog;
use super::finish::{
    ClaimOutcome, Interruption, RequeueOutcome, add_canceled, claim, postpone, put_back_run,
};
use super::queue::{DueJob, FairQueue, Inbox, QueuedJob, RoundResult, RunSlot};
use super::rows::JobV2;
use super::run::{DispatchParts, Run, RunHost, RunStart};
use super::running::{RunHandle, RunRegistry};
use super::walks::{PLANNED_STOP, PlannedStopV1};
use base::clock::{Now, Timestamp};
use base::health::Part;
use base::ids::{JobId, OrgId};
use base::web::Domain;
use base::{Code, Error, Result};
use fetch::{PauseReason, Permit};
use futures::FutureExt;
use parking_lot::Mutex;
use server::panic_text;
use server::task::TaskContext;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Committed, OrgStore, OrgWrite, System, pass_over};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How long a job waits after the box itself could not finish it.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How soon it is looked again whether an organization that was full has room for its jobs.
const ROOM_LOOKED_EVERY: Duration = Duration::from_secs(2);
/// Time to the next round after one that ended at its bound.
const CUT_ROUND_PAUSE: Duration = Duration::from_millis(5);
/// Longest time between two rounds without a signal.
const ROUND_EVERY: Duration = Duration::from_millis(250);
/// Time from a round that failed to the next, whatever signals come.
const FAILED_ROUND_PAUSE: Duration = Duration::from_secs(1);
/// How often ended leases are looked for.
const LEASES_EVERY: Duration = Duration::from_secs(1);
/// How often a box in trouble tries whether it is over.
const TRIED_EVERY: Duration = Duration::from_millis(500);
/// Files that must be open at once before descriptors are there again: with one, the next socket would fail.
const DESCRIPTORS_NEEDED: usize = 32;
/// The first and the longest pause between two tries to put a job back.
const PUT_BACK_PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How long an erasure waits for runs to end: a page that is being read is read to its end.
const ABANDON_WITHIN: Duration = Duration::from_secs(30);
const ABANDON_POLL: Duration = Duration::from_millis(20);
/// Jobs that are remembered because an entry led to them in vain.
const NOWHERE_MAX: usize = 10_000;

/// How jobs are run.
#[derive(Clone, Debug)]
pub struct DispatchSettings {
    /// Jobs that run at once; as many again may begin beside them, of organizations that these keep out.
    pub concurrency: usize,
    /// How long runs may go on once the box drains. What runs still then (a page that hangs) is let go and its job put
    /// back, so that it takes nothing of the time that others have to end in.
    pub drain: Duration,
}

/// Runs jobs.
pub struct Dispatcher {
    pub(super) system: System,
    pub(super) parts: DispatchParts,
    inbox: Arc<Inbox>,
    queue: Mutex<FairQueue>,
    /// The jobs that run here, and how to tell each that it was canceled.
    running: Arc<RunRegistry>,
    /// Jobs that may have been marked running by a claim that failed.
    pub(super) doubtful: Mutex<Vec<(OrgId, JobId)>>,
    /// Organizations without room for what their jobs would bring, as far as one was to begin.
    full: Mutex<HashSet<OrgId>>,
    /// Jobs that are passed over: their rows cannot be read, or entries lead to them that are not theirs.
    pub(super) unreadable: Mutex<HashSet<JobId>>,
    /// Jobs to which an entry led although they neither wait nor run, and that have not been told of since.
    nowhere: Mutex<HashSet<JobId>>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
    stopping: AtomicBool,
    drain: Duration,
    looks: AtomicU64,
    /// How often it was tried whether the box's trouble is over.
    pub(super) tries: AtomicU64,
    given_up: AtomicU64,
}

/// A job that was taken.
struct ClaimedJob {
    job: JobV2,
    org: OrgStore,
    permit: Permit,
    slot: RunSlot,
    underway: Arc<RunHandle>,
}

impl Dispatcher {
    pub fn new(system: System, parts: DispatchParts, settings: DispatchSettings) -> Dispatcher {
        let inbox = Arc::new(Inbox::default());
        Dispatcher {
            system,
            parts,
            queue: Mutex::new(FairQueue::new(settings.concurrency, inbox.clone())),
            inbox,
            running: Arc::default(),
            doubtful: Mutex::default(),
            full: Mutex::default(),
            unreadable: Mutex::default(),
            nowhere: Mutex::default(),
            tasks: tokio::sync::Mutex::new(JoinSet::new()),
            stopping: AtomicBool::new(false),
            drain: settings.drain,
            looks: AtomicU64::new(0),
            tries: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        }
    }

    /// Says that there may be something to do.
    pub fn wake(&self) {
        self.inbox.wake();
    }

    /// Says that jobs stand in the queue. After the commit that put them there; what is told of by nobody is found in a
    /// few minutes.
    pub fn queued<'j>(&self, org: OrgId, jobs: impl IntoIterator<Item = &'j JobV2>) {
        let jobs: Vec<&JobV2> = jobs.into_iter().collect();
        let mut nowhere = self.nowhere.lock();
        if !nowhere.is_empty() {
            // It waits again: what led to it before is not what leads to it now.
            for job in jobs.iter().filter(|job| nowhere.remove(&job.id)) {
                self.unreadable.lock().remove(&job.id);
                self.inbox.readable(job.id);
            }
        }
        drop(nowhere);
        self.inbox.queued(jobs.into_iter().map(|job| QueuedJob::of(org, job)));
    }

    /// Has it be told of jobs as soon as the operation that queues them is committed.
    pub(super) fn queued_after<'j>(&self, tx: &OrgWrite<'_>, jobs: impl IntoIterator<Item = &'j JobV2>) {
        let jobs: Vec<_> = jobs.into_iter().map(|job| QueuedJob::of(tx.org_id(), job)).collect();
        let inbox = Arc::clone(&self.inbox);
        tx.after_commit(move |committed| match committed {
            Committed::Stands => inbox.queued(jobs),
            Committed::Perhaps => inbox.look_again(),
        });
    }

    /// Ends the run of a job, if it runs here, as soon as the operation that cancels it is committed.
    pub(super) fn abandon_after(&self, tx: &OrgWrite<'_>, job: JobId) {
        let (running, key) = (Arc::clone(&self.running), (tx.org_id(), job));
        // Where that is not known the run goes on, and finds out at its end.
        tx.after_commit(move |committed| {
            if committed == Committed::Stands {
                running.abandon(key);
            }
        });
    }

    /// Says that jobs may stand in the queue that nobody could tell of, because their commit was said to have failed.
    pub fn look_again(&self) {
        self.inbox.look_again();
    }

    /// How often the queue asked the store since the start: what the rounds cost.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Whether somebody of the organization waits at a domain's gate.
    #[cfg(test)]
    pub(super) fn is_waiting(&self, org: OrgId, domain: &Domain) -> bool {
        self.queue.lock().is_waiting(org, domain)
    }

    /// How many jobs are running.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// How many jobs have failed since the start because their runs were cut off again and again.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Notes what has become of jobs that were put back; after the commit.
    pub(super) fn note_put_back(&self, org: OrgId, put_back: &RequeueOutcome) {
        match put_back {
            RequeueOutcome::Queued(job) => self.queued(org, [job.as_ref()]),
            RequeueOutcome::GivenUp => drop(self.given_up.fetch_add(1, Ordering::Relaxed)),
            RequeueOutcome::Untouched => {}
        }
    }

    pub(super) fn running_ids(&self) -> HashSet<(OrgId, JobId)> {
        self.running.ids()
    }

    /// Ends the run of a job, if it runs here.
    pub(super) fn abandon(&self, org: OrgId, job: JobId) {
        self.running.abandon((org, job));
    }

    /// Whether a job that runs here only waits for a place in the browser.
    pub(super) fn waits_for_place(&self, org: OrgId, job: JobId) -> bool {
        self.running.waits_for_place((org, job))
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

    /// The activation of the dispatcher's task: puts back what a dead process left, then runs rounds until the box
    /// drains, then waits for the jobs that are running. What the supervisor cuts off is put back at the next start.
    pub async fn run(self: Arc<Self>, context: TaskContext) -> Result<()> {
        // The activation goes on through troubles: the supervisor's pause after a failure doubles, and this one ends with
        // the box.
        while !context.stopping() {
            match self.recover().await {
                Ok(0) => break,
                Ok(lost) => {
                    tracing::info!(jobs = lost, "jobs that were running when the box went down run again");
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "what runs when the box went down cannot be looked for");
                    self.pause_after_failure(&context).await;
                }
            }
        }
        let mut looked = Instant::now();
        while !context.stopping() {
            if !self.parts.health.is_well() {
                self.try_again().await;
                tokio::select! {
                    () = context.stopped() => {}
                    () = self.parts.health.well() => {}
                    () = tokio::time::sleep(TRIED_EVERY) => {}
                }
                continue;
            }
            let pause = match self.round(&mut looked).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "jobs could not be taken from the queue");
                    // What it had found by then is forgotten.
                    self.look_again();
                    self.pause_after_failure(&context).await;
                    continue;
                }
            };
            tokio::select! {
                () = context.stopped() => {}
                () = self.inbox.woken() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.drain().await
    }

    async fn pause_after_failure(&self, context: &TaskContext) {
        tokio::select! {
            () = context.stopped() => {}
            () = tokio::time::sleep(FAILED_ROUND_PAUSE) => {}
        }
    }

    /// Waits for the runs that are under way, but not for long: one page that hangs would take all the time that the box has
    /// to end in. That they were cut off on purpose is noted first.
    async fn drain(&self) -> Result<()> {
        self.stopping.store(true, Ordering::Relaxed);
        let planned =
            self.system.write(|tx| tx.put(&PLANNED_STOP, &(), &PlannedStopV1 { at: tx.now() })).await;
        if let Err(error) = planned {
            tracing::warn!(%error, "a planned restart could not be noted");
        }
        let mut tasks = self.tasks.lock().await;
        if tokio::time::timeout(self.drain, all_ended(&mut tasks)).await.is_ok() {
            return Ok(());
        }
        let cut: Vec<_> = self.running_ids().into_iter().collect();
        cut.iter().for_each(|(org, job)| self.abandon(*org, *job));
        all_ended(&mut tasks).await;
        tracing::info!(
            jobs = cut.len(),
            "jobs that did not end in time are let go; they run again at the next start"
        );
        // What a run wrote at its end stands before this in the writer's queue, and a job that has ended stays so.
        self.put_back_all(cut, Interruption::ByTheBox).await.map(drop)
    }

    /// Tries whether what was wrong works again.
    async fn try_again(&self) {
        self.tries.fetch_add(1, Ordering::Relaxed);
        for trouble in self.parts.health.troubles() {
            let works = match trouble.part {
                Part::Pages => self.parts.extractor.try_pages().await.map_err(|error| error.for_operator()),
                Part::Descriptors | Part::Memory => {
                    try_descriptors().await.map_err(|error| error.to_string())
                }
            };
            match works {
                Ok(()) => self.parts.health.clear(trouble.part),
                Err(reason) => self.parts.health.report(trouble.part, reason),
            }
        }
    }

    /// Takes what is due and starts it, and gives the longest time to the next round. `looked` is when ended leases were
    /// last looked for.
    async fn round(self: &Arc<Self>, looked: &mut Instant) -> Result<Duration> {
        if looked.elapsed() >= LEASES_EVERY {
            *looked = Instant::now();
            self.put_back_expired().await?;
        }
        self.put_back_doubtful().await?;
        let mut tasks = self.tasks.lock().await;
        while tasks.try_join_next().is_some() {}
        loop {
            let RoundResult { due, is_cut, next_in } = self.look()?;
            let pause =
                if is_cut { CUT_ROUND_PAUSE } else { ROUND_EVERY.min(next_in.unwrap_or(ROUND_EVERY)) };
            if due.is_empty() {
                return Ok(pause.max(CUT_ROUND_PAUSE));
            }
            for claimed in self.claim(due).await? {
                tasks.spawn(self.clone().run_job(claimed));
            }
        }
    }

    /// One look of the fair queue.
    fn look(&self) -> Result<RoundResult> {
        let mut queue = self.queue.lock();
        queue.listen(self.system.clock().moment());
        if queue.free() == 0 {
            return Ok(RoundResult::default());
        }
        let round = self.system.read(|tx| queue.round(tx, &self.parts.politeness, Instant::now()));
        self.looks.store(queue.looks(), Ordering::Relaxed);
        round
    }

    /// Marks the jobs running, each with a lease; those that somebody canceled meanwhile are left out.
    ///
    /// Each can be abandoned from before its row says that it runs: who cancels it in between is heard.
    async fn claim(&self, due: Vec<DueJob>) -> Result<Vec<ClaimedJob>> {
        let wanted: Vec<_> = due.iter().map(|due| (due.queued.org, due.job)).collect();
        let told: Vec<_> = wanted.iter().map(|key| (*key, self.running.begin(*key))).collect();
        let claimed = match self.claim_all(wanted).await {
            Ok(claimed) => claimed,
            Err(error) => {
                told.iter().for_each(|(key, run)| self.running.end(*key, run));
                due.into_iter().for_each(|due| due.permit.unused());
                // They stand in the queue still, unless the commit stands although its sync failed.
                self.doubtful.lock().extend(told.into_iter().map(|(key, _)| key));
                return Err(error);
            }
        };
        let mut jobs = Vec::with_capacity(due.len());
        for ((due, (key, underway)), job) in due.into_iter().zip(told).zip(claimed) {
            match job {
                ClaimOutcome::Job(job) => {
                    self.full.lock().remove(&key.0);
                    let org = self.system.org(due.queued.org);
                    jobs.push(ClaimedJob { job: *job, org, permit: due.permit, slot: due.slot, underway });
                }
                ClaimOutcome::Gone => {
                    self.running.end(key, &underway);
                    due.permit.unused();
                    self.led_nowhere(key.0, key.1);
                }
                ClaimOutcome::NoRoom => {
                    self.running.end(key, &underway);
                    due.permit.unused();
                    self.full.lock().insert(key.0);
                    self.queue.lock().pause(key.0, Instant::now() + ROOM_LOOKED_EVERY);
                    self.inbox.queued([due.queued]);
                }
            }
        }
        Ok(jobs)
    }

    /// Whether the jobs of an organization wait because it stores as much as it may.
    pub(super) fn is_full(&self, org: OrgId) -> bool {
        self.full.lock().contains(&org)
    }

    /// Claims in one operation; where a row cannot be read, in one each, so that it keeps nobody else waiting.
    async fn claim_all(&self, wanted: Vec<(OrgId, JobId)>) -> Result<Vec<ClaimOutcome>> {
        let claiming =
            self.system.write_each("a job", wanted.clone(), |tx, (org, id)| match tx.is_fenced(*org) {
                true => Ok(ClaimOutcome::Gone),
                false => claim(&tx.org(*org), *id),
            });
        let claimed = claiming.await?.into_iter().zip(wanted).map(|(taken, (_, id))| {
            taken.unwrap_or_else(|| {
                self.pass_over(id);
                ClaimOutcome::Gone
            })
        });
        Ok(claimed.collect())
    }

    /// Leaves a job alone whose row cannot be read.
    pub(super) fn pass_over(&self, job: JobId) {
        self.unreadable.lock().insert(job);
        self.inbox.unreadable(job);
    }

    /// Notes that an entry of the queue, or of leases, led to no such job. Somebody may have ended it in between; an entry
    /// that does it again is damaged, and would be found first for ever.
    pub(super) fn led_nowhere(&self, org: OrgId, job: JobId) {
        {
            let mut nowhere = self.nowhere.lock();
            if nowhere.len() >= NOWHERE_MAX {
                nowhere.clear();
            }
            if nowhere.insert(job) {
                return;
            }
        }
        let damaged =
            Error::internal("follow an entry of the queue", "it leads to no job that waits or runs");
        pass_over("a job's place in the queue", format_args!("{org} {job}"), &damaged);
        self.pass_over(job);
    }

    async fn run_job(self: Arc<Self>, claimed: ClaimedJob) {
        let ClaimedJob { job, org, permit, slot, underway } = claimed;
        let (id, run, before) = (job.id, job.run, job.attempts.len());
        let RunHandle { canceled, trail } = &*underway;
        let span = self.parts.span(org.id(), &job);
        let going = span.scope(async {
            tokio::select! {
                biased;
                // Its row says so already. What is being fetched is let go with the run, and the slot is free at once.
                () = canceled.notified() => Ok(true),
                ended = self.run_on(&org, job, (permit, trail)) => ended.map(|()| false),
            }
        });
        let ended = AssertUnwindSafe(going).catch_unwind().await;
        let ended =
            ended.unwrap_or_else(|panic| Err(Error::internal("run a job", panic_text(&*panic).to_owned())));
        drop(span);
        let was_canceled = match ended {
            Ok(was_canceled) => was_canceled,
            Err(error) => {
                self.put_back_failed(&org, id, run, &error, canceled).await;
                false
            }
        };
        self.running.end((org.id(), id), &underway);
        // Who gives its slot back wakes the next round.
        drop(slot);
        if was_canceled {
            let attempts = trail.canceled(before);
            if let Err(error) = org.write(move |tx| add_canceled(tx, id, run, attempts)).await {
                tracing::warn!(job = %id, %error, "what was asked for a job that was canceled could not be noted");
            }
        }
    }

    /// Puts a job back that could not be finished, as often as it takes until that is written: otherwise it would stand
    /// there until its lease ends.
    async fn put_back_failed(&self, org: &OrgStore, id: JobId, run: u32, error: &Error, canceled: &Notify) {
        tracing::warn!(job = %id, %error, "a job could not be finished; it will run again");
        let cut = match error.code() {
            // What the box lacked: its store, its disk, a descriptor.
            Code::ServiceUnavailable => Interruption::ByTheBox,
            _ => Interruption::Unknown,
        };
        let mut pause = PUT_BACK_PAUSE.0;
        loop {
            let again =
                org.write(move |tx| put_back_run(tx, id, run, tx.moment().after(RETRY_AFTER), cut)).await;
            match again {
                // It was given up or canceled; or an earlier try stands although it was said to have failed.
                Ok(RequeueOutcome::Untouched) => return self.look_again(),
                Ok(put_back) => return self.note_put_back(org.id(), &put_back),
                Err(error) if self.stopping() || error.code() != Code::ServiceUnavailable => {
                    tracing::warn!(job = %id, %error, "a job could not be put back; its lease will end");
                    return;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = canceled.notified() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PUT_BACK_PAUSE.1);
        }
    }

    async fn run_on(&self, org: &OrgStore, job: JobV2, visit: (Permit, &AttemptLog)) -> Result<()> {
        let (id, run) = (job.id, job.run);
        match Run::load(self, org, job, visit)? {
            RunStart::Run(going) => going.go().await,
            RunStart::Postponed(run_at, reason) => {
                let job = org.write(move |tx| postpone(tx, id, run, run_at, &reason)).await?;
                self.queued(org.id(), &job);
                Ok(())
            }
        }
    }

    /// One look at the box's clock.
    pub(super) fn look_at_clock(&self) -> Now {
        self.system.clock().look()
    }

    /// Whether the organization's own runs take all visits that a domain may have at once. What others run there is not
    /// told.
    pub(super) fn fills(&self, org: OrgId, domain: &str) -> bool {
        let Ok(domain) = Domain::parse(domain) else { return false };
        self.queue.lock().running_at(org, &domain) >= self.parts.politeness.at_once()
    }

    /// Until when the host of a job wants to be left alone, and by what word of it.
    pub(super) fn asked_pause(&self, host: &str) -> Option<(Timestamp, PauseReason)> {
        let now = Instant::now();
        let (until, why) = self.parts.politeness.asked_pause(host, now)?;
        Some((self.system.clock().now().after(until.saturating_duration_since(now)), why))
    }
}

impl RunHost for Dispatcher {
    fn parts(&self) -> &DispatchParts {
        &self.parts
    }

    fn wake(&self) {
        Dispatcher::wake(self);
    }

    fn queued(&self, org: OrgId, job: &JobV2) {
        Dispatcher::queued(self, org, [job]);
    }

    fn gives_way(&self, org: OrgId, domain: &Domain, keeps: bool) -> bool {
        self.queue.lock().gives_way(org, domain, &self.parts.politeness, keeps)
    }

    fn others_go_first(&self, org: OrgId, domain: &Domain) -> bool {
        self.queue.lock().others_go_first(org, domain, &self.parts.politeness, false)
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

async fn all_ended(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Tries whether files can be opened, as many as the next few jobs need.
async fn try_descriptors() -> std::io::Result<()> {
    let open = || -> std::io::Result<()> {
        let files = (0..DESCRIPTORS_NEEDED).map(|_| std::fs::File::open("/dev/null"));
        files.collect::<std::io::Result<Vec<_>>>().map(drop)
    };
    tokio::task::spawn_blocking(open).await.unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
}
