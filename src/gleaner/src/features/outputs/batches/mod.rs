//! Rows of results that leave in batches, into tables and files.
//!
//! [`gather()`]: what an output lets through becomes rows of a batch, in the operation that moves the output's place, and a batch
//! that is whole becomes a delivery in the ledger; [`read`]: the rows of a batch as the SQL console has them; [`send()`]: a try of
//! a delivery, [`mod@files`] where it becomes files; [`rows`]: what is stored.
//!
//! **Once.** An event is in one batch: its place in the log is moved over by the operation that puts it there. A batch has a
//! name made of its places, and its target takes the same batch twice without having anything twice. So whatever is killed
//! whenever, each result is there once.

mod files;
mod gather;
mod read;
mod rows;
mod send;

pub(super) use gather::{Row, end, ends_at, forget, forget_all, gather};
pub(super) use rows::{CHUNKS, OPEN};
pub(super) use send::{send, test};

use super::rows::OutputV2;
use crate::features::extraction::table_of;
use base::{Error, Result};

/// Kinds of events that are of a result that is new, or is another one than before.
const NEW_RESULTS: &[&str] = &["result.new", "result.changed", "result.*"];
/// The kind of events of every result.
const EVERY_RESULT: &str = "job.succeeded";

/// Refuses what makes no sense of an output that takes batches.
pub(super) fn check(row: &OutputV2) -> Result<()> {
    if row.target.batches().is_none() {
        return Ok(());
    }
    let is_new = row.events.iter().all(|name| NEW_RESULTS.contains(&name.as_str()));
    if !is_new && row.events != [EVERY_RESULT] {
        return Err(Error::invalid(
            "events",
            format!(
                "of this kind is {EVERY_RESULT} alone (every result), or some of {}",
                NEW_RESULTS.join(", ")
            ),
        ));
    }
    let mut tables: Vec<_> = row.page_types.iter().map(|page_type| table_of(*page_type)).collect();
    tables.dedup();
    if row.target.is_one_table() && tables.len() > 1 {
        let message = "names page types of one table of the SQL console, or none: then the values are one column of JSON";
        return Err(Error::invalid("pageTypes", message));
    }
    Ok(())
}
