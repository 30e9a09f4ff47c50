//! What results tell in the organization's log of events: that a page was read for the first time, and what has changed.

use super::rows::{RESULTS, RESULTS_BY_URL, ResultV4, url_digest};
use crate::features::events::{EventKind, NewEvent};
use base::Result;
use base::codec::Record;
use base::digest::{Digest, sha256};
use base::ids::{JobId, ResultId};
use base::permission::Permission;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use store::{Order, OrgTable, OrgWrite, readable};

static NEW: EventKind = EventKind::new(
    "result.new",
    Permission::WorkflowsRead,
    "A page was read of which there is no earlier result (`jobId`, `url`, `pageType`).",
);
static CHANGED: EventKind = EventKind::new(
    "result.changed",
    Permission::WorkflowsRead,
    "Values differ from those of the page's previous result (`jobId`, `url`, `pageType`, `changes` of `name`, `from`, `to`).",
);

pub(super) static EXPIRED: EventKind = EventKind::new(
    "retention.removed",
    Permission::WorkflowsRead,
    "What went because its time was over or there were too many of it (`results` with their pages, `pages` alone), in one round.",
);

static GONE: EventKind = EventKind::new(
    "result.gone",
    Permission::WorkflowsRead,
    "A page of which there are values is not there any more: its site answered 404 or 410 (`jobId`, `url`, `pageType`, `status`); the \
     result that it is of is the last one. Once, until the page is read again.",
);

pub(super) static EVENTS: &[&EventKind] = &[&NEW, &CHANGED, &GONE, &EXPIRED];

/// Which result a page had when it was said that it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GonePageV1 {
    pub result: ResultId,
}

impl Record for GonePageV1 {}

/// Pages that are gone, by the digest of their URL.
pub static GONE_PAGES: OrgTable<Digest, GonePageV1> = OrgTable::new("results_gone", "Result");

/// Says that a page is gone, unless that was said of its last result, or there is none.
pub fn tell_gone(tx: &OrgWrite<'_>, job: JobId, url: &str, status: u16) -> Result<()> {
    let digest = sha256(url.as_bytes());
    let last = tx.scan_index(&RESULTS, &RESULTS_BY_URL, url_digest(url), Order::Descending, LAST_ROWS_MAX);
    let last = readable("the last result of a page", url, last)?;
    let last = last.and_then(|rows| rows.into_iter().find(|row| !row.is_unreadable()));
    let Some(last) = last.filter(|row| row.values.0.as_object().is_some_and(|values| !values.is_empty()))
    else {
        return Ok(());
    };
    let told = readable("whether a page is gone", url, tx.get(&GONE_PAGES, &digest))?.flatten();
    if told.is_some_and(|told| told.result == last.id) {
        return Ok(());
    }
    tx.put_over(&GONE_PAGES, &digest, &GonePageV1 { result: last.id })?;
    let page_type = last.page_type.map(|page_type| page_type.to_string());
    let data = json!({ "jobId": job, "url": url, "pageType": page_type, "status": status });
    NewEvent::of(&GONE, last.id).about(&last.domain, &last.tags).data(data).write(tx)
}

/// Forgets that a page is gone, with its last result.
pub(super) fn forget_gone(tx: &OrgWrite<'_>, row: &ResultV4) -> Result<()> {
    let digest = sha256(row.url.as_bytes());
    let told = readable("whether a page is gone", &row.url, tx.get(&GONE_PAGES, &digest))?.flatten();
    if told.is_some_and(|told| told.result == row.id) {
        tx.delete(&GONE_PAGES, &digest)?;
    }
    Ok(())
}

/// Newest results of a page among which the last that could be read is looked for.
const LAST_ROWS_MAX: usize = 8;
/// Attributes that one event tells of; `more` counts those beyond.
const CHANGES_MAX: usize = 50;
/// Bytes of the values of one event. One that has no room is left out and marked `omitted`; the result has it.
const VALUES_BYTES_MAX: usize = 12 << 10;

/// Writes the event of a result that was just stored.
pub(super) fn tell(tx: &OrgWrite<'_>, previous: Option<&ResultV4>, row: &ResultV4) -> Result<()> {
    let mut data = Map::new();
    data.insert("jobId".to_owned(), row.job.to_string().into());
    data.insert("url".to_owned(), row.url.as_str().into());
    data.insert("pageType".to_owned(), row.page_type.map(|page_type| page_type.to_string()).into());
    let kind = match previous {
        None => &NEW,
        Some(_) if row.changed.is_empty() => return Ok(()),
        Some(previous) => {
            let changes = changes(&previous.values.0, &row.values.0, &row.changed);
            data.insert("changes".to_owned(), changes.into());
            if let Some(more @ 1..) = row.changed.len().checked_sub(CHANGES_MAX) {
                data.insert("more".to_owned(), more.into());
            }
            &CHANGED
        }
    };
    NewEvent::of(kind, row.id).about(&row.domain, &row.tags).data(Value::Object(data)).write(tx)
}

fn changes(before: &Value, after: &Value, names: &[String]) -> Vec<Value> {
    let mut room = VALUES_BYTES_MAX;
    let change = |name: &String| {
        let (from, to) = (&before[name.as_str()], &after[name.as_str()]);
        let bytes = from.to_string().len() + to.to_string().len();
        match room.checked_sub(bytes) {
            Some(left) => {
                room = left;
                json!({ "name": name, "from": from, "to": to })
            }
            None => json!({ "name": name, "omitted": true }),
        }
    };
    names.iter().take(CHANGES_MAX).map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_named_without_its_values() {
        let long = "x".repeat(VALUES_BYTES_MAX);
        let before = json!({ "a": 1, "b": "y", "gone": true });
        let after = json!({ "a": 2, "b": long, "new": ["z"] });
        let names = ["a", "b", "new", "gone"].map(str::to_owned);
        assert_eq!(
            changes(&before, &after, &names),
            [
                json!({ "name": "a", "from": 1, "to": 2 }),
                json!({ "name": "b", "omitted": true }),
                json!({ "name": "new", "from": null, "to": ["z"] }),
                json!({ "name": "gone", "from": true, "to": null }),
            ]
        );
    }
}
