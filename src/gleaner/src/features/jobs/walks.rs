//! Where a job stands in its graph, as it is stored between two steps; and what it teaches when it has ended.
//!
//! Most jobs never have a row here: they are claimed, their first attempt delivers, and they end. A row is written when an
//! attempt has failed and another one follows, when a job waits, and for jobs that may ask only certain providers (a
//! benchmark's probes). So a job that runs again after a crash goes on behind the attempts that were made.

use super::rows::JobV2;
use base::Result;
use base::clock::Timestamp;
use base::codec::{CodecError, Record, decode_body};
use base::ids::{JobId, OutputId, ProviderId};
use dispatch::dag::{JobFacts, Walk};
use serde::{Deserialize, Serialize};
use store::{OrgRead, OrgTable, OrgWrite, SysTable};

/// A walk as it was kept before runs were told apart that the box itself cut off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WalkV1 {
    /// The built-in path's providers: what is connected may change while the job waits. None when a workflow is walked.
    pub chain: Option<Vec<ProviderId>>,
    /// None before the first step.
    pub position: Option<PositionV1>,
    /// How often the job was put back because it had to wait; those runs were not interrupted.
    pub parks: u32,
    /// What the page at hand costs when it is delivered.
    pub page_charge: u64,
}

impl Record for WalkV1 {}

/// A walk as it was kept before waits were counted by what they were for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WalkV2 {
    /// The built-in path's providers: what is connected may change while the job waits. None when a workflow is walked.
    pub chain: Option<Vec<ProviderId>>,
    /// None before the first step.
    pub position: Option<PositionV1>,
    /// How often the job was put back because it had to wait; those runs were not interrupted.
    pub parks: u32,
    /// What the page at hand costs when it is delivered.
    pub page_charge: u64,
    /// How often the box's own trouble, or a planned restart, cut a run off; those do not count against the job.
    pub excused: u32,
}

impl Record for WalkV2 {
    const VERSION: u8 = 2;
}

/// A walk that has begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WalkV3 {
    /// The built-in path's providers: what is connected may change while the job waits. None when a workflow is walked.
    pub chain: Option<Vec<ProviderId>>,
    /// None before the first step.
    pub position: Option<PositionV1>,
    /// How often the job was put back because it had to wait, for whatever; those runs were not interrupted.
    pub parks: u32,
    /// What the page at hand costs when it is delivered.
    pub page_charge: u64,
    /// How often the box's own trouble, or a planned restart, cut a run off; those do not count against the job.
    pub excused: u32,
    /// How often it has waited for providers that are left alone.
    pub cooled: u32,
    /// How often it has waited in a row for room at its providers.
    pub crowded: u32,
}

impl Record for WalkV3 {
    const VERSION: u8 = 3;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<WalkV1>(body).map(WalkV2::from).map(WalkV3::from),
            2 => decode_body::<WalkV2>(body).map(WalkV3::from),
            _ => Err(CodecError(format!("row version {version} is unknown to this release"))),
        }
    }
}

impl From<WalkV1> for WalkV2 {
    fn from(old: WalkV1) -> WalkV2 {
        let WalkV1 { chain, position, parks, page_charge } = old;
        WalkV2 { chain, position, parks, page_charge, excused: 0 }
    }
}

impl From<WalkV2> for WalkV3 {
    /// Nobody knows what those waits were for, so none of them counts against the job.
    fn from(old: WalkV2) -> WalkV3 {
        let WalkV2 { chain, position, parks, page_charge, excused } = old;
        WalkV3 { chain, position, parks, page_charge, excused, cooled: 0, crowded: 0 }
    }
}

/// That the box was told to stop: what it cuts off then was interrupted by nobody. Written when a drain begins, read and
/// removed by the next start.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PlannedStopV1 {
    pub at: Timestamp,
}

impl Record for PlannedStopV1 {}

pub static PLANNED_STOP: SysTable<(), PlannedStopV1> = SysTable::new("jobs.planned_stop", "Planned stop");

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PositionV1 {
    pub at: u32,
    pub tries: u32,
    pub attempts: u32,
    pub http_status: Option<u16>,
    pub page: Option<u32>,
    pub answered: Option<u32>,
    pub outputs: Vec<OutputId>,
}

impl From<&Walk> for PositionV1 {
    fn from(walk: &Walk) -> PositionV1 {
        PositionV1 {
            at: u32::try_from(walk.at).unwrap_or(u32::MAX),
            tries: walk.tries,
            attempts: walk.attempts,
            http_status: walk.http_status,
            page: walk.page,
            answered: walk.answered,
            outputs: walk.outputs.clone(),
        }
    }
}

impl From<PositionV1> for Walk {
    fn from(row: PositionV1) -> Walk {
        Walk {
            at: row.at as usize,
            tries: row.tries,
            attempts: row.attempts,
            http_status: row.http_status,
            page: row.page,
            answered: row.answered,
            outputs: row.outputs,
        }
    }
}

pub static WALKS: OrgTable<JobId, WalkV3> = OrgTable::new("job_walks", "Job");

/// The outputs that a job is to be delivered to beyond those that follow every job: written when it ends, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobOutputsV1 {
    pub outputs: Vec<OutputId>,
}

impl Record for JobOutputsV1 {}

/// Change records of this table tell that a job has ended which its graph sends somewhere.
pub static JOB_OUTPUTS: OrgTable<JobId, JobOutputsV1> = OrgTable::new("job_outputs", "Job").fed();

/// What a graph may ask of a job.
pub fn facts(job: &JobV2) -> JobFacts<'_> {
    JobFacts {
        url: &job.url,
        domain: &job.domain,
        page_type: job.page_type,
        tags: &job.tags,
        job: *job.id.0.as_bytes(),
    }
}

pub fn load(tx: &OrgRead<'_>, job: JobId) -> Result<WalkV3> {
    Ok(tx.get(&WALKS, &job)?.unwrap_or_default())
}

/// How many runs of the job were cut off, as far as that may be its own doing.
pub fn interruptions(row: &WalkV3, job: &JobV2) -> u32 {
    job.run.saturating_sub(row.parks).saturating_sub(row.excused)
}

/// Takes away what only a job under way needs.
pub fn forget(tx: &OrgWrite<'_>, job: JobId) -> Result<()> {
    tx.delete(&WALKS, &job)?;
    crate::features::extraction::drop_held(tx, job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec;

    #[test]
    fn a_position_survives_its_row() {
        let walk = Walk {
            at: 7,
            tries: 1,
            attempts: 4,
            http_status: Some(503),
            page: Some(2),
            answered: None,
            outputs: vec![OutputId::new()],
        };
        let old = WalkV1 { position: Some(PositionV1::from(&walk)), parks: 2, ..WalkV1::default() };
        let before = WalkV2 { excused: 3, ..WalkV2::from(old.clone()) };
        let row = WalkV3 { cooled: 4, crowded: 5, ..WalkV3::from(before.clone()) };
        let read: WalkV3 = codec::decode(&codec::encode(&row).unwrap()).unwrap();
        assert_eq!(read, row);
        let read: WalkV3 = codec::decode(&codec::encode(&before).unwrap()).unwrap();
        assert_eq!(read, WalkV3 { cooled: 0, crowded: 0, ..row.clone() }, "what an older release kept");
        let read: WalkV3 = codec::decode(&codec::encode(&old).unwrap()).unwrap();
        assert_eq!(read, WalkV3 { excused: 0, cooled: 0, crowded: 0, ..row }, "and the one before it");
        assert_eq!(Walk::from(read.position.unwrap()), walk);
    }
}
