//! What came of a look: into the row, the log of events and the audit log, in one operation.

use super::lesson::Found;
use super::rows::{AttributeRepairV1, DRIFT, DriftState, DriftV1, RepairResult, RepairV1, RereadingV1};
use crate::features::discovery::begin_anew;
use crate::features::events::{EventKind, NewEvent};
use crate::features::extraction::{ReadBy, SchemaPair, SchemaRefV1};
use base::Result;
use base::audit::Action;
use base::permission::Permission;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Event, OrgWrite};

/// How long it is before what could not be mended is tried again; doubles each time, up to the most.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(3_600);
const TRY_AGAIN_DOUBLINGS: u32 = 7;
/// Attributes that one event names.
const NAMED_MAX: usize = 50;

static DRIFTED: EventKind = EventKind::new(
    "schema.drifted",
    Permission::WorkflowsRead,
    "A site has changed so that attributes are not found any more (`domain`, `pageType`, `attributes` of `name`, `result`, `reason`, `fromVersion`, `toVersion`). Once for each drift.",
);

pub(super) static EVENTS: &[&EventKind] = &[&DRIFTED];

/// By what pages were read when they lacked something, and by what they are read since.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    pub from: Option<SchemaRefV1>,
    pub to: Option<SchemaRefV1>,
    pub own_from: Option<u32>,
    pub own_to: Option<u32>,
}

impl Change {
    /// `row` says by what the results were read, `read_by` what holds now.
    pub fn of(row: &DriftV1, read_by: &ReadBy) -> Change {
        let holds = read_by.platform.as_ref().map(|row| SchemaRefV1 { id: row.id, version: row.version });
        let own = read_by.own.as_ref().map(|(_, version, _)| *version).filter(|_| row.own_version.is_some());
        Change { from: row.schema, to: holds, own_from: row.own_version, own_to: own }
    }

    fn is_any(&self) -> bool {
        (self.from, self.own_from) != (self.to, self.own_to)
    }
}

/// What came of a look.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    pub found: BTreeMap<String, Found>,
    pub change: Change,
    pub pages: usize,
    /// Something that the platform's schema asks for is broken, and could not be mended.
    pub is_beyond_repair: bool,
}

impl RepairV1 {
    /// The attributes that have new expressions.
    pub fn repaired(&self) -> impl Iterator<Item = &String> {
        let is_repaired = |one: &&AttributeRepairV1| one.result == RepairResult::Repaired;
        self.attributes.iter().filter(is_repaired).map(|one| &one.name)
    }
}

/// What became of an attribute. What is right by another version than the results lack it in was mended by somebody else, or by
/// this box before it was cut off.
fn result(found: &Found, change: &Change) -> (RepairResult, DriftState, Option<String>) {
    match found {
        Found::Mended(_) => (RepairResult::Repaired, DriftState::Repaired, None),
        Found::Right if change.is_any() => (RepairResult::Repaired, DriftState::Repaired, None),
        Found::Right => (RepairResult::Right, DriftState::Drifting, None),
        Found::Absent => (RepairResult::Absent, DriftState::Absent, None),
        Found::OtherPage => (RepairResult::OtherPage, DriftState::Blocked, None),
        Found::Refused(reason) => (RepairResult::Refused, DriftState::Broken, Some((*reason).to_owned())),
    }
}

pub fn write_outcome(tx: &OrgWrite<'_>, pair: &SchemaPair, looked: Looked) -> Result<()> {
    tx.unaudited("that a row went meanwhile");
    let Some(mut row) = tx.get(&DRIFT, pair)? else { return Ok(()) };
    let now = tx.now();
    let mut attributes = Vec::new();
    for (name, found) in &looked.found {
        let (result, state, reason) = result(found, &looked.change);
        if let Some(own) = row.attributes.iter_mut().find(|own| own.name == *name) {
            own.is_tried = true;
            own.enter(state, now);
            if state == DriftState::Repaired {
                (own.recent, own.recent_count) = (0, 0);
            }
        }
        attributes.push(AttributeRepairV1 { name: name.clone(), result, reason });
    }
    // Whatever was begun is over, also for an attribute that nobody looked at.
    for own in row.attributes.iter_mut().filter(|own| own.state == DriftState::Repairing) {
        own.is_tried = true;
        own.enter(DriftState::Drifting, now);
    }
    let change = looked.change;
    let last = RepairV1 {
        at: now,
        attributes,
        from: change.from,
        to: change.to,
        own_from: change.own_from,
        own_to: change.own_to,
        pages: u32::try_from(looked.pages).unwrap_or(u32::MAX),
        reread: 0,
    };
    let has_repaired = last.repaired().next().is_some();
    (row.is_due, row.runs) = (false, 0);
    if has_repaired {
        row.rereading = Some(RereadingV1 { cursor: None, looked: 0 });
    }
    let is_all = last.attributes.iter().all(|one| one.result == RepairResult::Repaired);
    row.refusals = if is_all { 0 } else { row.refusals.saturating_add(1) };
    let doublings = row.refusals.saturating_sub(1).min(TRY_AGAIN_DOUBLINGS);
    row.not_before = (!is_all).then(|| tx.moment().after(TRY_AGAIN_AFTER * 2_u32.pow(doublings)));
    let is_break =
        |one: &AttributeRepairV1| matches!(one.result, RepairResult::Repaired | RepairResult::Refused);
    if last.attributes.iter().any(is_break) {
        tell(tx, &mut row, &last)?;
    }
    if looked.is_beyond_repair {
        begin_anew(tx, &pair.domain, pair.page_type)?;
    }
    row.last = Some(last);
    tx.put(&DRIFT, pair, &row)
}

/// Writes the event of a drift once, and the audit row each time.
fn tell(tx: &OrgWrite<'_>, row: &mut DriftV1, last: &RepairV1) -> Result<()> {
    let repaired = last.repaired().count();
    let event = Event::new(Action::DriftFound).of(row.id).with("domain", row.domain.as_str());
    let event = event.with("pageType", row.page_type.name()).with("repaired", repaired);
    tx.audit(event.with("refused", last.attributes.len() - repaired))?;
    if row.is_told {
        return Ok(());
    }
    row.is_told = true;
    let named: Vec<_> = last
        .attributes
        .iter()
        .take(NAMED_MAX)
        .map(|one| json!({ "name": one.name, "result": one.result.name(), "reason": one.reason }))
        .collect();
    let data = json!({
        "domain": row.domain,
        "pageType": row.page_type.name(),
        "attributes": named,
        "fromVersion": last.from.map(|schema| schema.version),
        "toVersion": last.to.map(|schema| schema.version),
    });
    NewEvent::of(&DRIFTED, row.id).about(&row.registrable(), &[]).data(data).write(tx)
}
