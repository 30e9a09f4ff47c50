//! Schedules on the wire (data/docs/schedules.md).

use super::cron::CRON_BYTES_MAX;
use super::rows::{Misfire, Overlap, RunStatus, ScheduleRunV1, ScheduleV1, Trigger};
use super::times::{Times, Unreadable, zone_name};
use crate::features::jobs::{self, NewOptions, OptionsV1, OptionsView, RunCounts};
use crate::features::site_sessions::{self, SCHEDULE_SESSIONS};
use base::clock::Timestamp;
use base::ids::{ScheduleId, ScheduleRunId, SiteSessionId, UrlId, WorkflowId};
use base::limits::{NAME_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX, URLS_PER_SCHEDULE_MAX};
use base::name::Name;
use base::{Error, Result, labels};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use store::OrgRead;

/// A missed tick may be made up for that long.
const CATCH_UP_SEC_MAX: u64 = 10 * 31_536_000;
const CATCH_UP_SEC_DEFAULT: u64 = 31_536_000;
const JITTER_SEC_MAX: u32 = 3_600;
/// In place of a header's value.
const HIDDEN: &str = "***";
const TIMEZONE_DEFAULT: &str = "UTC";

/// A schedule as a caller asks for it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSchedule {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
    /// 5 fields, or 6 with seconds in front, or a short form such as `@hourly`; names, `L`, `W` and `#` may be used.
    #[schemars(length(min = 1, max = CRON_BYTES_MAX))]
    cron: String,
    /// An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
    #[serde(default)]
    timezone: Option<String>,
    /// The workflow of its jobs; else the URL's own, or the one that is routed there.
    #[serde(default)]
    workflow_id: Option<WorkflowId>,
    /// URLs with any of these tags; empty is every URL.
    #[serde(default)]
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    tag_filters: Option<Vec<String>>,
    /// These URLs alone; with `tagFilters` those of them that match.
    #[serde(default)]
    #[schemars(length(min = 1, max = URLS_PER_SCHEDULE_MAX))]
    url_ids: Option<Vec<UrlId>>,
    /// How the pages are to be fetched, as in submitJob.
    #[serde(default)]
    options: Option<NewOptions>,
    /// When the run before has not ended: `skip` unless said otherwise.
    #[serde(default)]
    overlap: Option<Overlap>,
    /// When ticks were missed: `run_once` unless said otherwise.
    #[serde(default)]
    misfire: Option<Misfire>,
    /// How old a missed tick may be to be made up for; a year unless said otherwise.
    #[serde(default)]
    #[schemars(range(max = CATCH_UP_SEC_MAX))]
    catch_up_seconds: Option<u64>,
    /// Each tick is put off by up to so many seconds, by chance; 0 unless said otherwise.
    #[serde(default)]
    #[schemars(range(max = JITTER_SEC_MAX))]
    jitter_seconds: Option<u32>,
    /// True unless said otherwise. Of one that is there it is changed by toggleSchedule.
    #[serde(default)]
    is_enabled: Option<bool>,
}

/// What a caller asks for, checked; what it refers to is checked when it is written.
pub(super) struct CheckedSchedule {
    pub row: ScheduleV1,
    pub session: Option<SiteSessionId>,
    /// As it was given.
    pub is_enabled: Option<bool>,
    pub times: Times,
}

fn invalid(unreadable: Unreadable) -> Error {
    Error::invalid(unreadable.field, unreadable.reason)
}

impl NewSchedule {
    pub fn checked(self, now: Timestamp) -> Result<CheckedSchedule> {
        let catch_up_sec = self.catch_up_seconds.unwrap_or(CATCH_UP_SEC_DEFAULT);
        if catch_up_sec > CATCH_UP_SEC_MAX {
            return Err(Error::invalid("catchUpSeconds", format!("must be at most {CATCH_UP_SEC_MAX}")));
        }
        let jitter_sec = self.jitter_seconds.unwrap_or(0);
        if jitter_sec > JITTER_SEC_MAX {
            return Err(Error::invalid("jitterSeconds", format!("must be at most {JITTER_SEC_MAX}")));
        }
        let timezone = self.timezone.as_deref().unwrap_or(TIMEZONE_DEFAULT);
        let timezone = zone_name(timezone).map_err(|reason| Error::invalid("timezone", reason))?;
        let times = Times::parse(&self.cron, timezone, now).map_err(invalid)?;
        let options = self.options.unwrap_or_default();
        let session = options.site_session_id;
        let row = ScheduleV1 {
            id: ScheduleId::new(),
            name: Name::parse("name", &self.name)?.into_string(),
            cron: self.cron.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
            timezone: timezone.to_owned(),
            workflow_id: self.workflow_id,
            tag_filters: labels::tags("tagFilters", self.tag_filters.unwrap_or_default())?,
            url_ids: self.url_ids.map(url_ids).transpose()?,
            options: jobs::options("options", options)?,
            is_enabled: self.is_enabled.unwrap_or(true),
            disabled_reason: None,
            overlap: self.overlap.unwrap_or_default(),
            misfire: self.misfire.unwrap_or_default(),
            catch_up_sec,
            jitter_sec,
            decided_until: now,
            next_at: None,
            due_at: None,
            last_run_at: None,
            runs: 0,
            created_at: now,
        };
        Ok(CheckedSchedule { row, session, is_enabled: self.is_enabled, times })
    }
}

/// Header values that were shown as `***` and came back are those that are there.
pub(super) fn keep_headers(new: &mut OptionsV1, old: &OptionsV1) -> Result<()> {
    for (name, value) in new.headers.iter_mut().filter(|(_, value)| value == HIDDEN) {
        let known = old.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            Some((_, known)) => value.clone_from(known),
            None => {
                let reason = "is ***, which stands for a value that is there, and there is none";
                return Err(Error::invalid(&format!("options.headers.{name}"), reason));
            }
        }
    }
    Ok(())
}

fn url_ids(given: Vec<UrlId>) -> Result<Vec<UrlId>> {
    if !(1..=URLS_PER_SCHEDULE_MAX).contains(&given.len()) {
        let reason = format!("must have 1 to {URLS_PER_SCHEDULE_MAX} entries, not {}", given.len());
        return Err(Error::invalid("urlIds", reason));
    }
    let mut known = HashSet::new();
    Ok(given.into_iter().filter(|id| known.insert(*id)).collect())
}

/// A standing order.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScheduleView {
    id: ScheduleId,
    name: String,
    cron: String,
    timezone: String,
    workflow_id: Option<WorkflowId>,
    tag_filters: Vec<String>,
    url_ids: Option<Vec<UrlId>>,
    options: OptionsView,
    is_enabled: bool,
    /// Why the box switched it off: it could not be read any more.
    disabled_reason: Option<String>,
    overlap: Overlap,
    misfire: Misfire,
    catch_up_seconds: u64,
    jitter_seconds: u32,
    /// The next tick, without jitter; null while it is switched off.
    next_fire_at: Option<Timestamp>,
    /// When a run last began.
    last_run_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl ScheduleView {
    pub fn new(tx: &OrgRead<'_>, row: ScheduleV1) -> Result<ScheduleView> {
        let session = site_sessions::shown(tx, &SCHEDULE_SESSIONS, &row.id)?;
        Ok(ScheduleView {
            id: row.id,
            name: row.name,
            cron: row.cron,
            timezone: row.timezone,
            workflow_id: row.workflow_id,
            tag_filters: row.tag_filters,
            url_ids: row.url_ids,
            options: OptionsView::new(row.options, session),
            is_enabled: row.is_enabled,
            disabled_reason: row.disabled_reason,
            overlap: row.overlap,
            misfire: row.misfire,
            catch_up_seconds: row.catch_up_sec,
            jitter_seconds: row.jitter_sec,
            next_fire_at: row.next_at.filter(|_| row.is_enabled),
            last_run_at: row.last_run_at,
            created_at: row.created_at,
        })
    }
}

/// What became of a tick.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunView {
    id: ScheduleRunId,
    schedule_id: ScheduleId,
    trigger: Trigger,
    /// The tick's own time, without jitter.
    scheduled_for: Timestamp,
    status: RunStatus,
    /// When it really began; null where it did not.
    fired_at: Option<Timestamp>,
    /// When its last job had ended, or it was left out.
    finished_at: Option<Timestamp>,
    jobs_created: u32,
    /// Of those, so far.
    succeeded: u32,
    failed: u32,
    canceled: u32,
    /// Whether more URLs matched than a run may have (`schedules.max_urls_per_run`): the first of them were submitted.
    truncated: bool,
    /// Why it was left out, failed, or submitted less.
    message: Option<String>,
}

impl RunView {
    /// The run, with what its jobs have come to where it has not ended.
    pub fn new(run: ScheduleRunV1, counts: Option<RunCounts>) -> RunView {
        let ended = RunCounts { succeeded: run.succeeded, failed: run.failed, canceled: run.canceled };
        let counts = counts.unwrap_or(ended);
        RunView {
            id: run.id,
            schedule_id: run.schedule_id,
            trigger: run.trigger,
            scheduled_for: run.scheduled_for,
            status: run.status,
            fired_at: run.fired_at,
            finished_at: run.finished_at,
            jobs_created: run.jobs_created,
            succeeded: counts.succeeded,
            failed: counts.failed,
            canceled: counts.canceled,
            truncated: run.truncated,
            message: run.message,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TriggerView {
    pub jobs_created: u32,
    /// Left out when no URL matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_run_id: Option<ScheduleRunId>,
    /// Only when no job was made: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PreviewView {
    /// The next ticks from now on, without jitter, also of a schedule that is switched off.
    pub fires: Vec<Timestamp>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToggleRequest {
    pub is_enabled: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToggleView {
    pub id: ScheduleId,
    pub is_enabled: bool,
}
