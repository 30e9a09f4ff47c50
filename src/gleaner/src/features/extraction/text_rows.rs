//! The main texts of pages as they are stored: see [`super::texts`], which makes them.

use base::Result;
use base::codec::Record;
use base::ids::JobId;
use serde::{Deserialize, Serialize};
use store::{OrgRead, OrgTable, OrgWrite, readable};

/// The main text of a result's page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultTextV1 {
    /// None where the page could not be read.
    pub text: Option<String>,
}

impl Record for ResultTextV1 {}

/// By the result's job. What is derived is not the organization's to pay for.
pub static TEXTS: OrgTable<JobId, ResultTextV1> = OrgTable::new("result_texts", "Text").fed().uncounted();

/// How much the texts of an organization take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSumV1 {
    pub(super) bytes: u64,
}

impl Record for TextSumV1 {}

pub static TEXT_SUMS: OrgTable<(), TextSumV1> = OrgTable::new("result_text_sums", "Text").uncounted();

/// The text of a job's result, as far as there is one.
pub(super) fn text_of(tx: &OrgRead<'_>, job: JobId) -> Result<Option<String>> {
    Ok(readable("the text of a page", job, tx.get(&TEXTS, &job))?.flatten().and_then(|row| row.text))
}

/// Removes the text of a job's result with its page.
pub(super) fn forget(tx: &OrgWrite<'_>, job: JobId) -> Result<()> {
    let Some(row) = readable("the text of a page", job, tx.get(&TEXTS, &job))? else {
        // How long it was cannot be told; the sum is the larger for it.
        return tx.delete(&TEXTS, &job).map(drop);
    };
    let Some(row) = row else { return Ok(()) };
    tx.delete(&TEXTS, &job)?;
    let mut sum = sum(tx)?;
    sum.bytes = sum.bytes.saturating_sub(weight(&row));
    tx.put(&TEXT_SUMS, &(), &sum)
}

pub(super) fn sum(tx: &OrgRead<'_>) -> Result<TextSumV1> {
    Ok(readable("the size of texts", "", tx.get(&TEXT_SUMS, &()))?.flatten().unwrap_or_default())
}

/// Also one that is not there takes a little.
pub(super) fn weight(row: &ResultTextV1) -> u64 {
    64 + row.text.as_ref().map_or(0, String::len) as u64
}
