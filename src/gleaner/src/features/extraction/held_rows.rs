//! Drafts that are kept with their jobs, as they are stored.

use super::rows::{ColumnKindV1, ResultV1, ResultV2};
use base::clock::Timestamp;
use base::codec::{CodecError, Record, decode_body};
use base::ids::JobId;
use serde::{Deserialize, Serialize};
use store::OrgTable;

/// [`HeldV3`] as it was kept before redirects were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldV1 {
    pub row: ResultV1,
    pub attributes: Vec<(String, ColumnKindV1, Timestamp)>,
}

/// [`HeldV3`] as it was kept before organizations had attributes of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldV2 {
    pub row: ResultV2,
    pub attributes: Vec<(String, ColumnKindV1, Timestamp)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldV3 {
    pub row: ResultV2,
    /// Name and kind of what the schema asked for, and since when it does.
    pub attributes: Vec<(String, ColumnKindV1, Timestamp)>,
    /// As [`ResultV4`](super::rows::ResultV4) has it.
    pub attributes_version: Option<u32>,
}

impl Record for HeldV1 {}

impl From<HeldV1> for HeldV2 {
    fn from(old: HeldV1) -> HeldV2 {
        HeldV2 { row: old.row.into(), attributes: old.attributes }
    }
}

impl Record for HeldV2 {
    const VERSION: u8 = 2;
}

impl From<HeldV2> for HeldV3 {
    fn from(old: HeldV2) -> HeldV3 {
        HeldV3 { row: old.row, attributes: old.attributes, attributes_version: None }
    }
}

impl Record for HeldV3 {
    const VERSION: u8 = 3;

    fn upgrade(version: u8, body: &[u8]) -> std::result::Result<Self, CodecError> {
        match version {
            1 => decode_body::<HeldV1>(body).map(HeldV2::from).map(HeldV3::from),
            2 => decode_body::<HeldV2>(body).map(HeldV3::from),
            _ => Err(CodecError(format!("a draft of version {version} is unknown to this release"))),
        }
    }
}

pub static HELD: OrgTable<JobId, HeldV3> = OrgTable::new("held_results", "Result");
