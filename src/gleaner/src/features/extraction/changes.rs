//! What results tell in the organization's log of events: that a page was read for the first time, and what has changed.

use super::rows::ResultV4;
use crate::features::events::{EventKind, NewEvent};
use base::Result;
use base::permission::Permission;
use serde_json::{Map, Value, json};
use store::OrgWrite;

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

pub(super) static EVENTS: &[&EventKind] = &[&NEW, &CHANGED];

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
