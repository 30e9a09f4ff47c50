//! What monitors tell in the organization's log of events: each change of a state, in the operation that stores it.

use super::rows::{BoundV1, MonitorState, MonitorV1};
use crate::features::events::{EventKind, NewEvent};
use base::Result;
use base::permission::Permission;
use serde_json::json;
use store::OrgWrite;

const fn kind(name: &'static str, about: &'static str) -> EventKind {
    EventKind::new(name, Permission::BiRead, about)
}

static FIRING: EventKind = kind(
    "monitor.firing",
    "The condition of a monitor has begun to hold (`name`, `before`: the state before, `value`, `op`, `threshold` or \
     `changePercent` and `comparedWith`).",
);
static OK: EventKind = kind("monitor.ok", "It holds no more; data as of `monitor.firing`.");
static NO_DATA: EventKind = kind(
    "monitor.no_data",
    "The statement of a monitor has begun to give no value (`reason`, and the rest as of `monitor.firing`).",
);
static ERROR: EventKind = kind(
    "monitor.error",
    "A monitor cannot be run any more (`reason`, and the rest as of `monitor.firing`).",
);

pub(super) static EVENTS: &[&EventKind] = &[&FIRING, &OK, &NO_DATA, &ERROR];

/// Writes the event of a monitor whose state is another than it was.
pub(super) fn tell(tx: &OrgWrite<'_>, row: &MonitorV1, before: MonitorState) -> Result<()> {
    let kind = match row.state {
        MonitorState::Ok => &OK,
        MonitorState::Firing => &FIRING,
        MonitorState::NoData => &NO_DATA,
        MonitorState::Error => &ERROR,
    };
    let mut data = json!({
        "name": row.name,
        "state": row.state.name(),
        "before": before.name(),
        "value": row.last_value,
        "op": row.condition.operator.name(),
    });
    match row.condition.bound {
        BoundV1::Threshold(threshold) => data["threshold"] = threshold.into(),
        BoundV1::Change { percent, .. } => {
            data["changePercent"] = percent.into();
            data["comparedWith"] = row.compared_with.into();
        }
    }
    if let Some(reason) = &row.reason {
        data["reason"] = reason.as_str().into();
    }
    NewEvent::of(kind, row.id).data(data).write(tx)
}
