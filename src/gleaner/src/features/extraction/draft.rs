//! A result on its way: read from a page, and not stored yet.

use super::columns::TypedAttribute;
use super::rows::ResultV2;
use base::ids::{JobId, ResultId};
use base::terms::PageType;
use std::sync::Arc;

/// A result that is not yet stored.
#[derive(Clone, Debug)]
pub struct ResultDraft {
    pub(super) row: ResultV2,
    /// What the schema asked for, found or not: each gets its column in the console.
    pub(super) attributes: Arc<[TypedAttribute]>,
    /// As [`ResultV4`](super::rows::ResultV4) has it.
    pub(super) attributes_version: Option<u32>,
}

impl ResultDraft {
    pub(super) fn from_parts(
        row: ResultV2,
        attributes: Arc<[TypedAttribute]>,
        attributes_version: Option<u32>,
    ) -> ResultDraft {
        ResultDraft { row, attributes, attributes_version }
    }

    pub(super) fn into_parts(self) -> (ResultV2, Arc<[TypedAttribute]>, Option<u32>) {
        (self.row, self.attributes, self.attributes_version)
    }

    pub fn id(&self) -> ResultId {
        self.row.id
    }

    pub fn job(&self) -> JobId {
        self.row.job
    }

    /// Hangs further tags on the result, behind those that it has.
    pub fn add_tags(&mut self, tags: Vec<String>) {
        let new: Vec<_> = tags.into_iter().filter(|tag| !self.row.tags.contains(tag)).collect();
        self.row.tags.extend(new);
    }

    pub fn page_type(&self) -> Option<PageType> {
        self.row.page_type
    }

    /// The composite quality; none when no schema applied, and 0 of a body that could not be read: another provider may do better.
    pub fn quality(&self) -> Option<f64> {
        let of_unreadable = (!self.row.attribute_errors.is_empty()).then_some(0.0);
        self.row.quality.map(|quality| quality.composite).or(of_unreadable)
    }
}
