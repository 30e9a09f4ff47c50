//! How often the platform's schemas have changed: what is made of all of them asks whether it must be made again.

use base::Result;
use base::clock::Moment;
use base::codec::Record;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{SysRead, SysTable, SysWrite, readable};

/// How soon it counts that pages have confirmed schemas: pages come all the time, and all rows are read again.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(600);

/// How often the schemas have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaChangesV1 {
    count: u64,
    /// When pages have confirmed some that are not counted yet.
    confirmed_at: Option<Moment>,
}

impl Record for SchemaChangesV1 {}

pub static SCHEMA_CHANGES: SysTable<(), SchemaChangesV1> =
    SysTable::new("platform_schemas_changes", "Schema changes");

/// How many changes there were.
pub(super) fn count(tx: &SysRead<'_>) -> Result<u64> {
    let known = changes(tx)?;
    Ok(known.count + u64::from(known.is_due(tx.moment())))
}

fn changes(tx: &SysRead<'_>) -> Result<SchemaChangesV1> {
    Ok(readable("how often schemas have changed", "", tx.get(&SCHEMA_CHANGES, &()))?
        .flatten()
        .unwrap_or_default())
}

impl SchemaChangesV1 {
    fn is_due(self, now: Moment) -> bool {
        self.confirmed_at.is_some_and(|at| at.after(CONFIRMED_WITHIN) <= now)
    }
}

/// Must be called wherever schemas, or which of them is the newest, are changed: the table follows.
pub(super) fn note_change(tx: &SysWrite<'_>) -> Result<()> {
    let known = changes(tx)?;
    let count = known.count + 1 + u64::from(known.is_due(tx.moment()));
    tx.put(&SCHEMA_CHANGES, &(), &SchemaChangesV1 { count, confirmed_at: None })
}

/// The same where pages have only confirmed what there is.
pub(super) fn note_confirmed(tx: &SysWrite<'_>) -> Result<()> {
    let known = changes(tx)?;
    let is_due = known.is_due(tx.moment());
    if known.confirmed_at.is_some() && !is_due {
        return Ok(());
    }
    let count = known.count + u64::from(is_due);
    tx.put(&SCHEMA_CHANGES, &(), &SchemaChangesV1 { count, confirmed_at: Some(tx.moment()) })
}
