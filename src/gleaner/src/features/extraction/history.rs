//! What a URL's results said one after the other.

use super::rows::{RESULTS, RESULTS_BY_URL, ResultV4, url_digest};
use base::Result;
use base::page::{Page, PageRequest, encode_cursor};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use store::{KeyPart, OrgRead};

/// An attribute that differs from the URL's result before.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangedValue {
    pub(super) name: String,
    /// Null where it had none, and where no result before is left.
    pub(super) from: Value,
    /// Null where it has none any more.
    pub(super) to: Value,
}

/// What cursors of a URL's results belong to.
pub fn results_of_url_list() -> &'static str {
    RESULTS_BY_URL.name()
}

/// The cursor behind a result of a URL.
pub fn result_place(row: &ResultV4) -> String {
    let mut place = Vec::new();
    url_digest(&row.url).write_part(&mut place);
    row.place.write_part(&mut place);
    row.job.write_part(&mut place);
    encode_cursor(RESULTS_BY_URL.name(), &place)
}

/// A page of the results of a normalized URL, oldest first, of those that `keep` accepts.
pub fn results_of_url(
    tx: &OrgRead<'_>,
    url: &str,
    page: &PageRequest,
    keep: impl FnMut(&ResultV4) -> bool,
) -> Result<Page<ResultV4>> {
    tx.page_by_oldest(&RESULTS, &RESULTS_BY_URL, url_digest(url), page, keep)
}

/// The result of the same URL in front of a stored one whose page could be read.
pub(super) fn result_before(tx: &OrgRead<'_>, row: &ResultV4) -> Result<Option<ResultV4>> {
    let before = PageRequest { limit: 1, cursor: Some(result_place(row)) };
    Ok(tx
        .page_by(&RESULTS, &RESULTS_BY_URL, url_digest(&row.url), &before, |earlier| {
            !earlier.is_unreadable()
        })?
        .items
        .pop())
}

/// The values of a result that differ from those of the URL's result before it. What it differed in from one that was deleted since may
/// be as it was before that.
pub fn changed_values(tx: &OrgRead<'_>, row: &ResultV4) -> Result<Vec<ChangedValue>> {
    if row.changed.is_empty() {
        return Ok(Vec::new());
    }
    let before = result_before(tx, row)?;
    let value = |of: Option<&ResultV4>, name: &String| {
        of.and_then(|row| row.values.0.get(name)).cloned().unwrap_or_default()
    };
    let changed = row.changed.iter().map(|name| ChangedValue {
        from: value(before.as_ref(), name),
        to: value(Some(row), name),
        name: name.clone(),
    });
    Ok(changed.filter(|one: &ChangedValue| one.from != one.to).collect())
}
