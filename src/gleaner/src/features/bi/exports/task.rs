//! Making exports, and removing them.
//!
//! One activation makes what waits, a few at a time, until nothing does. An export that was being made when the process
//! ended is made anew: it is still waiting. One that fails has failed; who wants it asks again.

use super::{Exports, INVALID, KEPT, TRANSIENT};
use crate::features::bi::export_rows::{EXPIRING, EXPORTS, ExportStatus, ExportV2, WAITING, sum_of};
use crate::features::bi::rows::QueryFailureV1;
use crate::features::bi::service::Queries;
use base::clock::Now;
use base::ids::{BiExportId, OrgId};
use base::{Error, Result};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use server::task::TaskContext;
use sql::{ExportError, Exported, Halt, export};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use store::{System, readable};

/// Exports that are made at once: each keeps a core and a disk busy.
const AT_ONCE: usize = 2;
/// Exports of one look.
const CHUNK_ROWS: usize = 64;
/// How often an export is begun before it has failed.
const ATTEMPTS_MAX: u32 = 3;

/// Makes what waits.
pub(in crate::features::bi) fn make(context: TaskContext) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        // What is asked for meanwhile stands behind what is there, or the task looks once more.
        let mut after = None::<Vec<u8>>;
        loop {
            let due = context
                .system()
                .read(|tx| tx.readable_global(&EXPORTS, &WAITING, None, after.as_deref(), CHUNK_ROWS))?;
            after = due.more();
            let made = stream::iter(due.rows)
                .map(|(org, id, _)| make_or_say(&context, org, id))
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<_>>()
                .await;
            made.into_iter().collect::<Result<()>>()?;
            if after.is_none() || context.stopping() {
                return Ok(());
            }
        }
    })
}

/// Makes one. What is damaged keeps no other from being made.
async fn make_or_say(context: &TaskContext, org: OrgId, id: BiExportId) -> Result<()> {
    let made = make_one(context, org, id).await;
    readable("an export", id, made).map(drop)
}

/// Makes one, if it is there to be made.
async fn make_one(context: &TaskContext, org: OrgId, id: BiExportId) -> Result<()> {
    if context.stopping() {
        return Ok(());
    }
    let Some(writing) = context.service::<Exports>().begin(org) else { return Ok(()) };
    let store = context.system().org(org);
    let begun = store
        .write(move |tx| {
            let Some(mut export) = tx.get(&EXPORTS, &id)?.filter(|export| !export.status.has_ended()) else {
                return Ok(None);
            };
            export.attempts += 1;
            export.status = ExportStatus::Running;
            tx.put(&EXPORTS, &id, &export)?;
            Ok(Some(export))
        })
        .await?;
    let Some(row) = begun else { return Ok(()) };
    context.system().store().check_place()?;
    let made = if row.attempts > ATTEMPTS_MAX {
        Err(Unmade::GivenUp)
    } else {
        write(context, org, &row).await?.map_err(Unmade::Failed)
    };
    if made.is_ok() {
        let exports = context.service::<Exports>();
        exports.kept.add_file(org, &exports.path(org, &row));
    }
    // The file is whole or gone.
    drop(writing);
    if matches!(made, Err(Unmade::Failed(ExportError::Halted(Halt::Draining)))) {
        return give_back(context, org, id).await;
    }
    store
        .write(move |tx| {
            // An organization that was erased meanwhile must not get a row back.
            let Some(mut export) = tx.get(&EXPORTS, &id)? else { return Ok(()) };
            end(&mut export, made, tx.clock());
            tx.put(&EXPORTS, &id, &export)
        })
        .await?;
    context.service::<Exports>().kept.make_room(org).await;
    Ok(())
}

/// The box stops: the export is made at the next start, and this attempt does not count.
async fn give_back(context: &TaskContext, org: OrgId, id: BiExportId) -> Result<()> {
    let store = context.system().org(org);
    store
        .write(move |tx| {
            let Some(mut export) = tx.get(&EXPORTS, &id)? else { return Ok(()) };
            export.attempts = export.attempts.saturating_sub(1);
            export.status = ExportStatus::Queued;
            tx.put(&EXPORTS, &id, &export)
        })
        .await
}

/// Writes the file.
async fn write(context: &TaskContext, org: OrgId, row: &ExportV2) -> Result<Result<Made, ExportError>> {
    let exports = context.service::<Exports>();
    let result = context.service::<Queries>().workers.result_path(org.0, row.query.0);
    let (target, format, bytes_max) = (exports.path(org, row), row.format, exports.bytes_max);
    let context = context.clone();
    let written = tokio::task::spawn_blocking(move || {
        if let Some(folder) = target.parent() {
            disk::make_folder(folder)?;
        }
        let store = context.system().store().clone();
        let halt = || match () {
            () if context.stopping() => Some(Halt::Draining),
            () if exports.is_erased(org) => Some(Halt::Erased),
            () => store.disk_full().then_some(Halt::DiskFull),
        };
        let exported = export(&result, &target, format, bytes_max, &halt)?;
        Ok(Made { sum: sum_of(&target)?, exported })
    });
    written.await.map_err(|e| Error::internal("make an export", e))
}

/// A file that was written, and its checksum.
struct Made {
    exported: Exported,
    sum: u32,
}

/// Why an export was not made.
enum Unmade {
    Failed(ExportError),
    /// It was begun too often.
    GivenUp,
}

impl Unmade {
    /// For whoever asked for it, in words of which the log gets the cause, too.
    fn failure(&self, export: BiExportId) -> QueryFailureV1 {
        let (code, message, retriable) = match self {
            Unmade::GivenUp => {
                (TRANSIENT, "The export could not be made in several attempts.".to_owned(), false)
            }
            Unmade::Failed(error) => {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                tracing::warn!(%export, %error, cause, "an export could not be made");
                let (code, retriable) = match error {
                    // It is what was asked for, and another format or fewer rows would do.
                    ExportError::TooLarge { .. } | ExportError::Unsupported(_) => (INVALID, false),
                    ExportError::Io(_) | ExportError::Halted(_) => (TRANSIENT, true),
                    ExportError::Result(_) => (TRANSIENT, false),
                };
                (code, error.to_string(), retriable)
            }
        };
        QueryFailureV1 { code: code.to_owned(), message, retriable }
    }
}

fn end(export: &mut ExportV2, made: Result<Made, Unmade>, now: &Now) {
    export.finished_at = Some(now.date);
    export.expires_at = Some(now.moment.after(KEPT));
    match made {
        Ok(Made { exported, sum }) => {
            export.status = ExportStatus::Success;
            (export.rows, export.bytes) = (exported.rows, Some(exported.bytes));
            export.sum = Some(sum);
        }
        Err(why) => {
            export.status = ExportStatus::Failed;
            export.failure = Some(why.failure(export.id));
        }
    }
}

/// Removes what has expired, and files that no row speaks of.
pub(in crate::features::bi) async fn tidy(context: &TaskContext) -> Result<()> {
    let (exports, system) = (context.service::<Exports>(), context.system());
    let (now, mut after) = (context.moment(), None::<Vec<u8>>);
    loop {
        let old = system
            .read(|tx| tx.readable_global(&EXPORTS, &EXPIRING, Some(now), after.as_deref(), CHUNK_ROWS))?;
        after = old.more();
        let is_over = |export: &ExportV2| export.expires_at.is_some_and(|at| at <= now);
        // What cannot be removed stays with its row, and must not keep the others.
        let stays = |(org, _, export): &(OrgId, BiExportId, ExportV2)| {
            let removed = exports.kept.remove_file(*org, &exports.path(*org, export));
            removed
                .inspect_err(
                    |error| tracing::error!(export = %export.id, %error, "an export cannot be removed"),
                )
                .is_err()
        };
        let gone = old.rows.into_iter().filter(|each| is_over(&each.2) && !stays(each));
        let gone: Vec<_> = gone.map(|(org, id, _)| (org, id)).collect();
        let removed = system.write_each("an export", gone, |tx, (org, id)| tx.org(*org).delete(&EXPORTS, id));
        removed.await?;
        if after.is_none() {
            return remove_strays(&exports, system);
        }
    }
}

fn remove_strays(exports: &Arc<Exports>, system: &System) -> Result<()> {
    for folder in entries(&exports.folder)? {
        let Ok(org) = folder.file_name().to_string_lossy().parse::<OrgId>() else { continue };
        for file in entries(&folder.path())? {
            let path = file.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()?.parse::<BiExportId>().ok());
            let Some(id) = id else { continue };
            let row = system.org(org).read(|tx| tx.get(&EXPORTS, &id));
            // The file of a row that cannot be read stays.
            if readable("an export", id, row)?.is_some_and(|row| row.is_none())
                && let Err(error) = exports.kept.remove_file(org, &path)
            {
                tracing::error!(path = %path.display(), %error, "a stray export cannot be removed");
            }
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect);
    listed.map_err(|e: io::Error| Error::internal("list the exports", e))
}
