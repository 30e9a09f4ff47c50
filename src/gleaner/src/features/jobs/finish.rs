//! What runs write about their job: that they took it, how far they came, how it ended. A run that was given up or
//! canceled meanwhile changes nothing: every one of these looks whether the job is still that run's.

use super::changes::put;
use super::rows::{AttemptV1, JOBS, JobV2};
use super::walks::{self, JOB_OUTPUTS, JobOutputsV1, WALKS, WalkV3};
use crate::features::extraction::{self, ResultDraft};
use crate::features::providers::NOT_ASKED;
use crate::features::site_sessions::{self, SessionUse};
use crate::features::{billing, urls, workflows};
use base::clock::{Moment, Timestamp};
use base::ids::{JobId, OutputId};
use base::terms::JobStatus;
use base::{Code, Error, Result};
use dispatch::dag::TIMEOUT_MS_MAX;
use dispatch::rank::Sample;
use fetch::{LEFT_ALONE, Outcome};
use std::time::Duration;
use store::{OrgWrite, readable};

/// How often a job waits for providers that are left alone.
pub(super) const PARKS_MAX: u32 = 50;
/// How long past its time limit a run is trusted to be alive.
const LEASE_MARGIN: Duration = Duration::from_secs(60);
/// How often a job is taken from the queue before it is given up: one that ends the process each time must not do so
/// forever.
pub(super) const RUNS_MAX: u32 = 5;
/// How often the box's own trouble may cut a job's runs off. A box that takes no jobs while it is in trouble comes nowhere
/// near; a job that brings the trouble with it ends.
const EXCUSED_MAX: u32 = 500;

/// What cut a run off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interruption {
    /// The box's own trouble, or a planned restart: it does not count.
    ByTheBox,
    /// Perhaps the job itself.
    Unknown,
}

/// What became of a job that was to be put back.
#[derive(Clone, Debug)]
pub(super) enum RequeueOutcome {
    /// It stands in the queue again.
    Queued(Box<JobV2>),
    /// It was cut off too often: it has failed.
    GivenUp,
    /// It does not run, or another run has it.
    Untouched,
}

/// How far a run came.
#[derive(Clone)]
pub(super) struct RunProgress {
    pub row: WalkV3,
    /// All attempts of the job.
    pub attempts: Vec<AttemptV1>,
    /// The page at hand.
    pub held: Option<ResultDraft>,
}

/// How a job ended.
#[derive(Clone)]
pub(super) struct JobEnd {
    /// All attempts of the job.
    pub attempts: Vec<AttemptV1>,
    pub outputs: Vec<OutputId>,
    pub status: JobStatus,
    pub charged: u64,
    /// What attempts that brought an answer cost the organization; by their number, as far as it is known.
    pub charges: Vec<(u32, u64)>,
    pub error: Option<String>,
    pub draft: Option<ResultDraft>,
    /// The last request that a site session was sent with.
    pub session: Option<SessionUse>,
}

/// Until when a run is trusted that begins its next attempt now. A graph may give an attempt more time than the job does.
fn lease(job: &JobV2, now: Moment) -> Moment {
    let most_ms = if job.workflow_id.is_some() { TIMEOUT_MS_MAX } else { 0 };
    now.after(Duration::from_millis(job.options.timeout_ms.max(most_ms).into()) + LEASE_MARGIN)
}

/// What came of an attempt to take a job from the queue.
pub(super) enum ClaimOutcome {
    Job(Box<JobV2>),
    /// It does not stand there any more.
    Gone,
    /// Its organization stores as much as it may: what the job would bring has no place to go, so nobody is asked for it
    /// and it stays in the queue.
    NoRoom,
}

#[cfg(test)]
impl ClaimOutcome {
    pub fn job(self) -> Option<JobV2> {
        match self {
            ClaimOutcome::Job(job) => Some(*job),
            ClaimOutcome::Gone | ClaimOutcome::NoRoom => None,
        }
    }
}

/// Takes a job from the queue.
pub(super) fn claim(tx: &OrgWrite<'_>, id: JobId) -> Result<ClaimOutcome> {
    let Some(mut job) = tx.get(&JOBS, &id)? else { return Ok(ClaimOutcome::Gone) };
    if job.status != JobStatus::Queued {
        return Ok(ClaimOutcome::Gone);
    }
    match tx.ask_room() {
        Err(full) if full.code() == Code::QuotaExceeded => return Ok(ClaimOutcome::NoRoom),
        asked => asked?,
    }
    job.status = JobStatus::Running;
    job.run += 1;
    job.started_at = Some(tx.now());
    job.lease_until = Some(lease(&job, tx.moment()));
    put(tx, &job, Some(JobStatus::Queued))?;
    Ok(ClaimOutcome::Job(Box::new(job)))
}

/// The job, when `run` is still the one that has it.
fn of_run(tx: &OrgWrite<'_>, id: JobId, run: u32) -> Result<Option<JobV2>> {
    Ok(tx.get(&JOBS, &id)?.filter(|job| job.status == JobStatus::Running && job.run == run))
}

/// Puts a running job back into the queue, or gives it up after too many runs.
pub(super) fn put_back(
    tx: &OrgWrite<'_>,
    id: JobId,
    run_at: Moment,
    cut: Interruption,
) -> Result<RequeueOutcome> {
    let Some(mut job) = tx.get(&JOBS, &id)? else { return Ok(RequeueOutcome::Untouched) };
    if job.status != JobStatus::Running {
        return Ok(RequeueOutcome::Untouched);
    }
    job.lease_until = None;
    let mut row = walks::load(tx, id)?;
    if cut == Interruption::ByTheBox && row.excused < EXCUSED_MAX {
        row.excused += 1;
        tx.put(&WALKS, &id, &row)?;
    } else if walks::interruptions(&row, &job) >= RUNS_MAX || cut == Interruption::ByTheBox {
        job.error = Some(match cut {
            Interruption::ByTheBox => "given up: the box could not finish it in many runs".to_owned(),
            Interruption::Unknown => format!("given up after {RUNS_MAX} interrupted runs"),
        });
        end(tx, job, JobStatus::Failed, (0, &[]), None)?;
        return Ok(RequeueOutcome::GivenUp);
    }
    job.status = JobStatus::Queued;
    job.run_at = run_at;
    put(tx, &job, Some(JobStatus::Running))?;
    Ok(RequeueOutcome::Queued(Box::new(job)))
}

pub(super) fn put_back_run(
    tx: &OrgWrite<'_>,
    id: JobId,
    run: u32,
    run_at: Moment,
    cut: Interruption,
) -> Result<RequeueOutcome> {
    match of_run(tx, id, run)? {
        Some(_) => put_back(tx, id, run_at, cut),
        None => Ok(RequeueOutcome::Untouched),
    }
}

/// Puts a job back that nobody can be asked for before `run_at`. One that has waited so too often fails with the reason.
/// Gives the job where it is queued again.
pub(super) fn postpone(
    tx: &OrgWrite<'_>,
    id: JobId,
    run: u32,
    run_at: Moment,
    reason: &str,
) -> Result<Option<JobV2>> {
    let Some(mut job) = of_run(tx, id, run)? else { return Ok(None) };
    let mut row = walks::load(tx, id)?;
    if row.cooled >= PARKS_MAX {
        job.error = Some(reason.to_owned());
        end(tx, job, JobStatus::Failed, (0, &[]), None)?;
        return Ok(None);
    }
    row.parks += 1;
    row.cooled += 1;
    tx.put(&WALKS, &id, &row)?;
    job.status = JobStatus::Queued;
    job.lease_until = None;
    job.run_at = run_at;
    put(tx, &job, Some(JobStatus::Running))?;
    Ok(Some(job))
}

/// Writes how far a run came that goes on.
pub(super) fn keep(tx: &OrgWrite<'_>, id: JobId, run: u32, progress: RunProgress) -> Result<()> {
    let Some(mut job) = of_run(tx, id, run)? else { return Ok(()) };
    job.lease_until = Some(lease(&job, tx.moment()));
    write_progress(tx, job, progress)
}

/// Writes how far a run came, and puts the job back into the queue for `run_at`.
pub(super) fn park(
    tx: &OrgWrite<'_>,
    id: JobId,
    run: u32,
    progress: RunProgress,
    run_at: Moment,
) -> Result<()> {
    let Some(mut job) = of_run(tx, id, run)? else { return Ok(()) };
    job.status = JobStatus::Queued;
    job.lease_until = None;
    job.run_at = run_at;
    write_progress(tx, job, progress)
}

fn write_progress(tx: &OrgWrite<'_>, mut job: JobV2, progress: RunProgress) -> Result<()> {
    job.attempts = progress.attempts;
    match progress.held {
        Some(draft) => extraction::hold(tx, draft)?,
        None => extraction::drop_held(tx, job.id)?,
    }
    tx.put(&WALKS, &job.id, &progress.row)?;
    put(tx, &job, Some(JobStatus::Running))
}

/// Writes how a job ended: result, credits, URL, job and what it teaches, in one operation.
pub(super) fn finish(tx: &OrgWrite<'_>, id: JobId, run: u32, ended: JobEnd) -> Result<()> {
    let Some(mut job) = of_run(tx, id, run)? else {
        // Canceled just now, it may be: what was asked for it is true all the same.
        return add_canceled(tx, id, run, ended.attempts);
    };
    job.attempts = ended.attempts;
    job.error = ended.error;
    let mut scraped_at = None;
    if let Some(mut draft) = ended.draft {
        // The job brought its own; its URL's are those of this moment.
        let of_url = |id| Ok::<_, Error>(readable("a URL", id, tx.get(&urls::URLS, &id))?.flatten());
        let url = job.url_id.map(of_url).transpose()?.flatten();
        draft.add_tags(url.map(|row| row.tags).unwrap_or_default());
        let (result, at) = extraction::record(tx, draft)?;
        (job.result_id, scraped_at) = (Some(result), at);
    }
    // A benchmark looks at providers, not at the page.
    let last = job.attempts.last().filter(|_| job.benchmark_id.is_none());
    let status = last.filter(|attempt| attempt.outcome == Outcome::TargetError);
    if let Some(status @ (404 | 410)) = status.and_then(|attempt| attempt.http_status) {
        extraction::tell_gone(tx, id, &job.url, status)?;
    }
    if let Some(used) = ended.session {
        site_sessions::note(tx, used, &job.url)?;
    }
    if !ended.outputs.is_empty() {
        tx.put(&JOB_OUTPUTS, &id, &JobOutputsV1 { outputs: ended.outputs })?;
    }
    end(tx, job, ended.status, (ended.charged, &ended.charges), scraped_at)
}

/// `scraped_at`: when the page of its result was fetched, if that is its URL's newest.
fn end(
    tx: &OrgWrite<'_>,
    mut job: JobV2,
    status: JobStatus,
    (charged, charges): (u64, &[(u32, u64)]),
    scraped_at: Option<Timestamp>,
) -> Result<()> {
    let was = std::mem::replace(&mut job.status, status);
    job.finished_at = Some(tx.now());
    job.lease_until = None;
    job.credits_charged = charged.min(job.credits_reserved);
    walks::forget(tx, job.id)?;
    teach(tx, &job, charges)?;
    billing::settle(tx, job.id, job.made(tx.clock()), job.credits_reserved, job.credits_charged)?;
    // A benchmark looks at providers, not at the URL.
    if let Some(url) = job.url_id.filter(|_| job.benchmark_id.is_none()) {
        let noted = urls::note_job(tx, url, job.id, status, scraped_at);
        readable("a URL", url, noted)?;
    }
    put(tx, &job, Some(was))
}

/// Writes the attempts of a run whose job was canceled under way; those that the row has already are in it under their
/// numbers.
pub(super) fn add_canceled(tx: &OrgWrite<'_>, id: JobId, run: u32, attempts: Vec<AttemptV1>) -> Result<()> {
    let job = tx.get(&JOBS, &id)?.filter(|job| job.status == JobStatus::Canceled && job.run == run);
    let Some(mut job) = job else { return Ok(()) };
    let known = job.attempts.iter().map(|attempt| attempt.n).max().unwrap_or(0);
    let new: Vec<_> = attempts.into_iter().filter(|attempt| attempt.n > known).collect();
    if new.is_empty() {
        return Ok(());
    }
    // What was learned before the end is worth what it is.
    job.attempts.extend(new);
    teach(tx, &job, &[])?;
    tx.put(&JOBS, &id, &job)
}

/// Hands the job's attempts to the learning, in the transaction that makes them final, so that each counts once. What
/// providers say that they billed is in units of their own, so providers are compared by what the organization is charged.
fn teach(tx: &OrgWrite<'_>, job: &JobV2, charges: &[(u32, u64)]) -> Result<()> {
    let samples = samples(job, charges);
    if samples.is_empty() {
        return Ok(());
    }
    workflows::teach(tx, job.id, &job.domain, &samples)
}

/// What the job's attempts say about the providers that made them.
pub(super) fn samples(job: &JobV2, charges: &[(u32, u64)]) -> Vec<Sample> {
    // A target in trouble says something about who asked only where somebody else got an answer.
    let passed = |attempt: &AttemptV1, other: &AttemptV1| {
        other.provider_id != attempt.provider_id
            && (other.outcome == Outcome::LowQuality || other.outcome.is_final(other.http_status))
    };
    let sample = |attempt: &AttemptV1| {
        if matches!(attempt.rule.as_deref(), Some(NOT_ASKED | LEFT_ALONE)) {
            return None;
        }
        let good = match attempt.outcome {
            Outcome::Success => true,
            outcome if outcome.is_targets_trouble(attempt.http_status) => {
                let others_passed = job.attempts.iter().any(|other| passed(attempt, other));
                others_passed.then_some(false)?
            }
            // The target answered, so the provider did its work; a refusal of ours says nothing about a provider.
            Outcome::TargetError => attempt.http_status.map(|_| true)?,
            Outcome::Canceled => return None,
            _ => false,
        };
        let provider = attempt.provider_id.parse().ok()?;
        let charge = charges.iter().find(|(n, _)| *n == attempt.n).map(|(_, charge)| *charge);
        let credits = charge.unwrap_or(attempt.credits);
        Some(Sample { provider, good, duration_ms: attempt.duration_ms, credits })
    };
    job.attempts.iter().filter_map(sample).collect()
}
