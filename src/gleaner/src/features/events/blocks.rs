//! The log as a table of the SQL console, without a cost on the way of what happens.
//!
//! A table of the console is filled from change records, one of each row that changed. If events were told so, each would be
//! written twice more: a record in the operation that it is part of, and its row in the snapshots. A job writes about four
//! events, so it would have four records more to write, to read and to remove. The log needs none of that: its rows are
//! numbered, never change, and go from the front alone. So every [`BLOCKS_EVERY`] those that have come since are put
//! together: a **block** is one small row that names the first and the last of up to [`EVENTS_PER_BLOCK`], and it is the block
//! that is told. An operation that writes events writes not a byte more than before; a busy organization has one row and one
//! record for every 200 events, an idle one none at all, and looking whether there is something new are two look-ups of an
//! organization. What is left is the row in the snapshots, which any table has.
//!
//! A block goes when its last event has gone from the log, so the console may know up to a block more than the log.

use super::log;
use super::rows::{BLOCKS, EVENTS, EventBlockV1, EventV1};
use crate::console::{Column, ConsoleTable, View, ViewRows, int, optional_text, text, time};
use base::Result;
use server::task::TaskContext;
use sql::ColumnKind as Kind;
use std::sync::LazyLock;
use std::time::Duration;
use store::{Key, OrgRead, OrgWrite, readable};

/// How soon events are in the console, beside what any table takes.
pub(super) const BLOCKS_EVERY: Duration = Duration::from_secs(2);
/// Events of a block.
const EVENTS_PER_BLOCK: u64 = 200;
/// Blocks that one operation makes.
const BLOCKS_PER_WRITE: usize = 50;
/// Blocks that one operation removes: no fewer than the events that one removes.
const REMOVED_PER_WRITE: usize = 512;

pub(super) const VIEW: View = View { source: "event_blocks", tables: || vec![TABLE.spec()], rows };

static TABLE: LazyLock<ConsoleTable<EventV1>> = LazyLock::new(|| {
    ConsoleTable::<EventV1>::new(
        "events",
        "What happened, one row an event; it is here some seconds after it happened, for as long as the log is kept.",
        [
            Column::required("seq", Kind::Int64, "Its place in the organization's log", |row| int(row.seq)),
            Column::required("id", Kind::Text, "The event's id", |row| text(row.id)),
            Column::required("kind", Kind::Text, "What it happened to, a point, and what happened", |row| {
                text(&row.kind)
            }),
            Column::required("at", Kind::Timestamp, "When it happened", |row| time(row.at)),
            Column::required(
                "subject_type",
                Kind::Text,
                "What it happened to: job, result, schedule …",
                |row| text(super::kind::subject_of(&row.kind)),
            ),
            Column::required("subject_id", Kind::Text, "The id of that", |row| text(row.subject)),
            Column::nullable("domain", Kind::Text, "The domain that it concerns", |row| {
                optional_text(row.domain.as_ref())
            }),
            Column::required("tags", Kind::Text, "Tags, with commas", |row| text(row.tags.join(","))),
            Column::required("data", Kind::Json, "What it says beside that", |row| text(&row.data.0)),
        ],
    )
});

/// The events of a block.
fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(first) = u64::decode(key) else { return Ok(Vec::new()) };
    let Some(block) = tx.get(&BLOCKS, &first)? else { return Ok(vec![TABLE.rows([])]) };
    let place = tx.place(&first.saturating_sub(1));
    let found = tx.readable(&EVENTS, Some(&place), EVENTS_PER_BLOCK as usize)?.rows;
    let own = found.iter().map(|(_, event)| event).filter(|event| event.seq <= block.last);
    Ok(vec![TABLE.rows(own)])
}

/// Puts together what has come into the logs.
pub(super) async fn gather_all(context: TaskContext) -> Result<()> {
    let (system, mut last) = (context.system(), None);
    while let Some(org) = system.read(|tx| tx.next_org(super::rows::LOGS.name(), last))? {
        last = Some(org);
        let own = system.org(org);
        while !context.stopping() && own.read(is_behind).unwrap_or(false) {
            // What fails of one organization keeps no other's.
            if let Err(error) = own.write(gather).await {
                tracing::warn!(%org, %error, "events could not be put together for the SQL console");
                break;
            }
        }
        if context.stopping() {
            break;
        }
    }
    Ok(())
}

/// Behind which place events are in no block yet.
fn ended(tx: &OrgRead<'_>) -> Result<u64> {
    let newest = tx.last_key(&BLOCKS)?;
    let last = newest.map(|first| -> Result<u64> {
        let block = readable("a block of events", first, tx.get(&BLOCKS, &first))?.flatten();
        // One that cannot be read is made anew.
        Ok(block.map_or(first.saturating_sub(1), |block| block.last))
    });
    Ok(last.transpose()?.unwrap_or(0).max(log::log(tx)?.trimmed))
}

fn is_behind(tx: &OrgRead<'_>) -> Result<bool> {
    Ok(log::log(tx)?.last > ended(tx)?)
}

/// Makes some blocks of what has come.
pub(super) fn gather(tx: &OrgWrite<'_>) -> Result<()> {
    let (last, mut first) = (log::log(tx)?.last, ended(tx)? + 1);
    for _ in 0..BLOCKS_PER_WRITE {
        if first > last {
            break;
        }
        let block = EventBlockV1 { last: last.min(first + EVENTS_PER_BLOCK - 1) };
        tx.put(&BLOCKS, &first, &block)?;
        first = block.last + 1;
    }
    Ok(())
}

/// Removes blocks of which no event is kept; some of them, where there are many.
pub(super) fn trim(tx: &OrgWrite<'_>, trimmed: u64) -> Result<()> {
    for first in tx.keys(BLOCKS.name(), None, REMOVED_PER_WRITE)?.iter().filter_map(|key| u64::decode(key)) {
        let block = readable("a block of events", first, tx.get(&BLOCKS, &first))?.flatten();
        if block.map_or(first, |block| block.last) > trimmed {
            break;
        }
        tx.delete(&BLOCKS, &first)?;
    }
    Ok(())
}
