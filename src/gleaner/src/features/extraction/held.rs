//! Results that are not results yet: the page at hand of a job that goes on (an extract node found too little, a wait node
//! follows). Kept beside the job, so that the job holds no memory and loses nothing in a crash.

use super::columns::TypedAttribute;
use super::draft::ResultDraft;
use super::held_rows::{HELD, HeldV3};
use super::rows::RESULTS;
use base::Result;
use base::ids::JobId;
use store::{OrgRead, OrgWrite};

/// Keeps a draft with its job, in the place of an earlier one.
pub fn hold(tx: &OrgWrite<'_>, draft: ResultDraft) -> Result<()> {
    let (row, attributes, attributes_version) = draft.into_parts();
    let job = row.job;
    let attributes = attributes.iter().map(|asked| (asked.name.clone(), asked.kind, asked.since)).collect();
    super::pages::name(tx, job, &row.page)?;
    tx.put(&HELD, &job, &HeldV3 { row, attributes, attributes_version })
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
        ResultDraft::from_parts(held.row, attributes.collect(), held.attributes_version)
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
