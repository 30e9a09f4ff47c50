//! Submitting a run: its URLs are found once, and their jobs made in parts, each in one operation with how far the run came.
//! So a box that is killed between two parts goes on with the next one, and no job is made twice.

use super::rows::{PLANS, RUNS, RunPlanV1, RunStage, RunStatus, SCHEDULES, ScheduleRunV1};
use super::service;
use crate::features::jobs::{self, RunJobs, RunPart, SubmitContext, submit_part};
use crate::features::site_sessions::{self, SCHEDULE_SESSIONS};
use crate::features::urls::{self, URLS};
use base::ids::{ScheduleRunId, UrlId};
use base::{Code, Error, Result};
use std::sync::Arc;
use store::{OrgRead, OrgStore, OrgWrite, is_unreadable, readable};

/// Jobs of one operation: others' writes do not wait for a large run.
const PART_URLS: usize = 100;

/// What a step came to.
#[derive(Debug)]
pub(super) enum Step {
    /// There is more to submit.
    More,
    /// Nothing is left to submit; with what stopped it before its end, and whether another run begins.
    Over { stopped: Option<Error>, began: bool },
}

const OVER: Step = Step::Over { stopped: None, began: false };

/// One part of a run.
pub(super) async fn step(
    org: &OrgStore,
    context: &Arc<SubmitContext>,
    max_urls: usize,
    id: ScheduleRunId,
) -> Result<Step> {
    let stepped = try_step(org, context, max_urls, id).await;
    match stepped {
        Err(error) if is_unreadable(&error) => {
            tracing::error!(org = %org.id(), run = %id, %error, "a schedule's run could not be submitted");
            org.write(move |tx| give_up(tx, id)).await?;
            Ok(Step::Over { stopped: Some(error), began: false })
        }
        stepped => stepped,
    }
}

async fn try_step(
    org: &OrgStore,
    context: &Arc<SubmitContext>,
    max_urls: usize,
    id: ScheduleRunId,
) -> Result<Step> {
    let Some(run) = org.read(|tx| tx.get(&RUNS, &id))? else { return Ok(OVER) };
    let plan = match run.stage {
        RunStage::Resolve => {
            let own = org.clone();
            // Many rows may be looked at.
            let found = tokio::task::spawn_blocking(move || own.read(|tx| resolve(tx, &run, max_urls))).await;
            found.map_err(|e| Error::internal("find a schedule's URLs", e))??
        }
        RunStage::Submit => None,
        RunStage::Follow | RunStage::Rest => return Ok(OVER),
    };
    let context = Arc::clone(context);
    org.write(move |tx| submit(tx, &context, id, plan)).await
}

/// What a run is to submit, and whether more URLs matched; none where its schedule is gone.
fn resolve(tx: &OrgRead<'_>, run: &ScheduleRunV1, max: usize) -> Result<Option<(RunPlanV1, bool)>> {
    let Some(schedule) = tx.get(&SCHEDULES, &run.schedule_id)? else { return Ok(None) };
    let (urls, truncated) = match schedule.url_ids {
        None => urls::select(tx, &schedule.tag_filters, max)?,
        Some(ids) => {
            let mut matching = Vec::new();
            for id in ids {
                if is_wanted(tx, id, &schedule.tag_filters)? {
                    matching.push(id);
                }
            }
            let truncated = matching.len() > max;
            matching.truncate(max);
            (matching, truncated)
        }
    };
    let plan = RunPlanV1 { workflow_id: schedule.workflow_id, options: schedule.options, urls };
    Ok(Some((plan, truncated)))
}

fn is_wanted(tx: &OrgRead<'_>, id: UrlId, tags: &[String]) -> Result<bool> {
    let row = readable("a URL", id, tx.get(&URLS, &id))?.flatten();
    Ok(row.is_some_and(|row| tags.is_empty() || tags.iter().any(|tag| row.tags.contains(tag))))
}

/// Makes the jobs of the next part. `found` is what the run is to submit, where that was not written down yet.
fn submit(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    id: ScheduleRunId,
    found: Option<(RunPlanV1, bool)>,
) -> Result<Step> {
    let Some(mut run) = tx.get(&RUNS, &id)? else { return Ok(OVER) };
    let plan = match (run.stage, found) {
        (RunStage::Resolve, Some((plan, truncated))) => {
            run.urls = u32::try_from(plan.urls.len()).unwrap_or(u32::MAX);
            (run.stage, run.truncated) = (RunStage::Submit, truncated);
            if plan.urls.len() > PART_URLS {
                tx.put(&PLANS, &id, &plan)?;
            }
            Some(plan)
        }
        (RunStage::Submit, _) => tx.get(&PLANS, &id)?,
        (RunStage::Resolve, None) => None,
        (RunStage::Follow | RunStage::Rest, _) => return Ok(OVER),
    };
    let plan = match plan {
        Some(plan) if tx.get(&SCHEDULES, &run.schedule_id)?.is_some() => plan,
        _ => return stop(tx, run, Error::conflict("the schedule was deleted")),
    };
    if plan.urls.is_empty() {
        let began = service::end(tx, run, RunStatus::NoUrls, Some("no registered URL matched".to_owned()))?;
        return Ok(Step::Over { stopped: None, began });
    }
    let from = run.position as usize;
    let until = plan.urls.len().min(from + PART_URLS);
    let jobs = RunJobs {
        session: site_sessions::named(tx, &SCHEDULE_SESSIONS, &run.schedule_id)?,
        ..RunJobs::of_schedule(run.schedule_id, id, plan.workflow_id, plan.options)
    };
    let part = submit_part(tx, context, &jobs, plan.urls.get(from..until).unwrap_or_default())?;
    note(tx, run, part)
}

/// Writes how far the run came.
fn note(tx: &OrgWrite<'_>, mut run: ScheduleRunV1, part: RunPart) -> Result<Step> {
    run.position += part.made + part.refused;
    run.jobs_created += part.made;
    if let Some(reason) = part.refusal {
        run.message.get_or_insert(service::shortened(reason));
    }
    if let Some(stopped) = part.stopped {
        return stop(tx, run, stopped);
    }
    if run.position < run.urls {
        tx.put(&RUNS, &run.id, &run)?;
        return Ok(Step::More);
    }
    let refused = run.position - run.jobs_created;
    if refused > 0 {
        let first = run.message.take().unwrap_or_default();
        run.message = Some(format!("{refused} of {} URLs could not be submitted; {first}", run.urls));
    }
    leave(tx, run, None)
}

/// Ends the submission before its end.
fn stop(tx: &OrgWrite<'_>, mut run: ScheduleRunV1, why: Error) -> Result<Step> {
    let reason = why.detail().unwrap_or("it could not go on").to_owned();
    run.message = Some(service::shortened(format!(
        "stopped after {} of {} jobs: {reason}",
        run.jobs_created, run.urls
    )));
    // A run that was stopped before it knew its URLs did not come to its end either.
    run.urls = run.urls.max(run.position + 1);
    leave(tx, run, Some(why))
}

/// Nothing more is submitted: what was made is followed.
fn leave(tx: &OrgWrite<'_>, mut run: ScheduleRunV1, stopped: Option<Error>) -> Result<Step> {
    tx.delete(&PLANS, &run.id)?;
    jobs::close_run(tx, jobs::of_run(run.id))?;
    if run.jobs_created == 0 {
        let began = service::end(tx, run, RunStatus::Failed, None)?;
        return Ok(Step::Over { stopped, began });
    }
    run.stage = RunStage::Follow;
    tx.put(&RUNS, &run.id, &run)?;
    Ok(Step::Over { stopped, began: false })
}

/// Ends a run that cannot be submitted because of the box: something that it needs is damaged.
fn give_up(tx: &OrgWrite<'_>, id: ScheduleRunId) -> Result<()> {
    let Some(run) = tx.get(&RUNS, &id)?.filter(|run| run.status.is_open()) else { return Ok(()) };
    let why = Error::new(Code::InternalError).message("the box could not read what the run needs");
    stop(tx, run, why).map(drop)
}
