//! Results that are not results yet: the page at hand of a job that goes on (an extract node found too little, a wait node
//! follows). Kept beside the job, so that the job holds no memory and loses nothing in a crash.

use super::columns::TypedAttribute;
use super::rows::{ColumnKindV1, RESULTS, ResultV1, ResultV2};
use super::service::ResultDraft;
use base::Result;
use base::clock::Timestamp;
use base::codec::{CodecError, Record, decode_body};
use base::ids::JobId;
use serde::{Deserialize, Serialize};
use store::{OrgRead, OrgTable, OrgWrite};

/// The same as it was kept before redirects were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldV1 {
    pub row: ResultV1,
    pub attributes: Vec<(String, ColumnKindV1, Timestamp)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldV2 {
    pub row: ResultV2,
    /// Name and kind of what the schema asked for, and since when it does.
    pub attributes: Vec<(String, ColumnKindV1, Timestamp)>,
}

impl Record for HeldV1 {}

impl From<HeldV1> for HeldV2 {
    fn from(old: HeldV1) -> HeldV2 {
        HeldV2 { row: old.row.into(), attributes: old.attributes }
    }
}

impl Record for HeldV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> std::result::Result<Self, CodecError> {
        match version {
            1 => decode_body::<HeldV1>(body).map(HeldV2::from),
            _ => Err(CodecError(format!("a draft of version {version} is unknown to this release"))),
        }
    }
}

pub static HELD: OrgTable<JobId, HeldV2> = OrgTable::new("held_results", "Result");

/// Keeps a draft with its job, in the place of an earlier one.
pub fn hold(tx: &OrgWrite<'_>, draft: ResultDraft) -> Result<()> {
    let (row, attributes) = draft.into_parts();
    let job = row.job;
    let attributes = attributes.iter().map(|asked| (asked.name.clone(), asked.kind, asked.since)).collect();
    super::pages::name(tx, job, &row.page)?;
    tx.put(&HELD, &job, &HeldV2 { row, attributes })
}

/// The draft that is kept with a job.
pub fn held(tx: &OrgRead<'_>, job: JobId) -> Result<Option<ResultDraft>> {
    Ok(tx.get(&HELD, &job)?.map(|held| {
        let attributes = held.attributes.into_iter().map(|(name, kind, since)| TypedAttribute {
            name,
            kind,
            since,
            description: None,
        });
        ResultDraft::from_parts(held.row, attributes.collect())
    }))
}

/// Takes away what is kept with a job.
pub fn drop_held(tx: &OrgWrite<'_>, job: JobId) -> Result<()> {
    // What became the job's result goes on naming its page.
    if tx.delete(&HELD, &job)? && tx.get(&RESULTS, &job)?.is_none() {
        super::pages::release(tx, job)?;
    }
    Ok(())
}
