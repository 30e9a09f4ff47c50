//! Drafts that are kept with their jobs, as they are stored.

use super::rows::{ColumnKindV1, ResultV1, ResultV2};
use base::clock::Timestamp;
use base::codec::{CodecError, Record, decode_body};
use base::ids::JobId;
use serde::{Deserialize, Serialize};
use store::OrgTable;

/// [`HeldV2`] as it was kept before redirects were.
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
