//! The list of migrations, and the number of the last one that a data folder has had.
//!
//! A row's own shape is upgraded when it is read (`base/src/codec.rs`). A migration is for what that cannot do: filling a
//! new index, moving rows to another table. Each runs once, in order, in a transaction of its own, before anything is
//! served; a folder that a newer release has written is refused rather than misread.

use super::engine::DatabaseHandle;
use super::raw::View;
use super::scope::SystemScope;
use super::tx::SysWrite;
use super::{META, changes, usage, writer};
use base::clock::Clock;
use base::{Error, Result};

/// One step from one release's layout to the next's.
pub struct Migration {
    /// What it does, for the log.
    pub name: &'static str,
    pub run: fn(&SysWrite<'_>) -> Result<()>,
}

/// Every migration there ever was, oldest first. Steps are appended, never edited or removed.
pub static MIGRATIONS: &[Migration] = &[
    Migration { name: "first layout", run: |_| Ok(()) },
    Migration {
        name: "a register of the indexes that reach across organizations",
        run: |tx| {
            tx.register_globals(GLOBALS_OF_2);
            Ok(())
        },
    },
    Migration { name: usage::FIRST_COUNT, run: |tx| tx.count_first(COUNTED_OF_3) },
];

/// The tables whose rows counted as an organization's when counting began; frozen. Tables that came later begin empty.
const COUNTED_OF_3: &[&str] = &[
    "api_keys",
    "benchmarks",
    "bi_queries",
    "bi_saved_queries",
    "board_uses",
    "extraction_columns",
    "extraction_domain_columns",
    "extraction_late_columns",
    "held_results",
    "invites",
    "job_outputs",
    "job_walks",
    "jobs",
    "lessons",
    "provider_boards",
    "providers",
    "recharges",
    "results",
    "smart_plans",
    "suggestions",
    "urls",
    "workflow_version_uses",
    "workflow_versions",
    "workflows",
];

/// The global indexes there were when their register began; frozen, as every migration.
const GLOBALS_OF_2: &[&str] = &[
    "api_keys.by_secret",
    "bi_queries.kept",
    "bi_queries.live",
    "invites.by_end",
    "invites.by_token",
    "jobs.lease",
    "jobs.ready",
];

/// Where the number of the layout stands.
pub(super) const APPLIED: &[u8] = b"migrations_applied";

/// The number of the newest layout that this release knows.
pub(super) fn known() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// The number of the layout that the file has.
pub(super) fn applied(view: &dyn View) -> Result<u32> {
    number(view.get(META, APPLIED)?.as_deref())
}

/// The number of the layout, as it is written.
pub(super) fn number(row: Option<&[u8]>) -> Result<u32> {
    match row {
        None => Ok(0),
        Some(bytes) => bytes
            .try_into()
            .map(u32::from_be_bytes)
            .map_err(|_| Error::internal("read the layout's version", "it is damaged")),
    }
}

/// Whether the file has had the migration of this name.
pub(super) fn is_done(view: &dyn View, name: &str) -> Result<bool> {
    let number = MIGRATIONS.iter().position(|step| step.name == name);
    Ok(number.is_some_and(|number| applied(view).is_ok_and(|done| done as usize > number)))
}

/// The steps that this release has yet to run over the file, with the rows that each reads and their bytes.
pub(super) fn due(view: &dyn View) -> Result<Vec<(&'static str, u64, u64)>> {
    let done = applied(view)? as usize;
    let mut steps = Vec::new();
    for step in MIGRATIONS.iter().skip(done) {
        let (mut rows, mut bytes) = (0, 0);
        // The only step so far whose work grows with the folder.
        if step.name == usage::FIRST_COUNT {
            for table in COUNTED_OF_3 {
                let (of_table, their_bytes) = usage::weigh(view, table)?;
                rows += of_table;
                bytes += their_bytes;
            }
        }
        steps.push((step.name, rows, bytes));
    }
    Ok(steps)
}

pub(super) fn run(handle: &DatabaseHandle, clock: &Clock, steps: &[Migration]) -> Result<()> {
    let done = handle.read(|view| applied(view))?;
    let known = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    if done > known {
        return Err(Error::unavailable(format!(
            "the data folder has layout {done}, this release knows up to {known}: it was written by a newer one"
        )));
    }
    for (number, step) in (1u32..).zip(steps).skip(done as usize) {
        if done > 0 {
            tracing::info!(number, step = step.name, "migrating the store");
        }
        let next_sequence = handle.read(|view| changes::last(view))? + 1;
        writer::commit_one(handle, next_sequence, |view| {
            (step.run)(&SysWrite::new(view, SystemScope, clock.look()))?;
            view.set(META, APPLIED.to_vec(), Some(number.to_be_bytes().to_vec()));
            Ok(())
        })?;
    }
    Ok(())
}
