//! What the console keeps of an organization outside of the store, and what it holds on a person.

use super::export_rows::EXPORTS;
use super::exports::Exports;
use super::quiesce::ended;
use super::rows::{QUERIES, SAVED_QUERIES};
use super::service::Queries;
use crate::features::{Erased, Holding, Person, Personal, Shown};
use base::codec::Record;
use base::ids::{OrgId, UserId};
use base::{Error, Result};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use server::Services;
use server::task::TaskContext;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use store::{Key, OrgTable, SysRead, SysWrite};

/// Rows that one step of a walk looks at.
const ROWS_PER_STEP: usize = 200;

pub(super) static HOLDINGS: &[Holding] = &[
    Holding { name: "result files", remove: remove_results },
    Holding { name: "export files", remove: remove_exports },
];

/// Counts the files of an organization that a backup has brought back.
pub(super) fn recount(services: &Services, org: OrgId) {
    services.service::<Queries>().kept.recount(org);
}

/// Ends the statements that run and the workers that have served the organization, then removes all results.
fn remove_results(context: TaskContext, org: OrgId) -> BoxFuture<'static, Result<u64>> {
    Box::pin(async move {
        let queries = context.service::<Queries>();
        ended(|| queries.end_all(org) || queries.workers.serves(org.0)).await?;
        // Those that rest have its segments mapped, which would stay on the disk with them.
        queries.workers.forget(org.0).await;
        let removed = remove_folder(queries.workers.results_dir().join(org.to_string())).await;
        queries.kept.recount(org);
        removed
    })
}

/// Ends the exports that are being made, then removes all files. After the results, which a request for an export could
/// otherwise still be made of.
fn remove_exports(context: TaskContext, org: OrgId) -> BoxFuture<'static, Result<u64>> {
    Box::pin(async move {
        let exports = context.service::<Exports>();
        ended(|| exports.end_all(org)).await?;
        let removed = remove_folder(exports.folder_of(org)).await;
        exports.kept().recount(org);
        removed
    })
}

/// Removes a folder of files, and gives how many those were.
async fn remove_folder(folder: PathBuf) -> Result<u64> {
    let removed = tokio::task::spawn_blocking(move || remove_files(&folder)).await;
    removed.map_err(|e| Error::internal("remove an organization's files", e))?
}

fn remove_files(folder: &Path) -> Result<u64> {
    let files = match fs::read_dir(folder) {
        Ok(files) => files.count() as u64,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(Error::internal("list an organization's files", error)),
    };
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::internal("remove an organization's files", error))
        }
        _ => Ok(files),
    }
}

pub(super) static KINDS: &[Personal] = &[
    Personal {
        name: "statements",
        about: "SQL statements that you submitted. They belong to your organization and stay in it without your name.",
        show: |tx, person, place| {
            shown(tx, person, place, &QUERIES, |query| {
                let status = query.status.name();
                let row = json!({ "id": query.id, "sql": query.sql, "status": status, "createdAt": query.created_at });
                (query.submitted_by, row)
            })
        },
        erase: nothing,
    },
    Personal {
        name: "saved-queries",
        about: "Queries that you saved. They belong to your organization and stay in it without your name.",
        show: |tx, person, place| {
            shown(tx, person, place, &SAVED_QUERIES, |saved| {
                let row = json!({ "id": saved.id, "name": saved.name, "createdAt": saved.created_at });
                (saved.created_by, row)
            })
        },
        erase: nothing,
    },
    Personal {
        name: "query-exports",
        about: "Files of results that you asked for. They belong to your organization and go after a day.",
        show: |tx, person, place| {
            shown(tx, person, place, &EXPORTS, |export| {
                let format = export.format.name();
                let row = json!({
                    "id": export.id, "queryId": export.query, "format": format, "createdAt": export.created_at,
                });
                (export.requested_by, row)
            })
        },
        erase: nothing,
    },
];

/// An id stays as a pseudonym.
fn nothing(_: &SysWrite<'_>, _: &Person, _: &[u8]) -> Result<Erased> {
    Ok(Erased::default())
}

/// The rows of one step that are the person's own. `told` says whose a row is and what to show of it.
fn shown<K: Key, V: Record>(
    tx: &SysRead<'_>,
    person: &Person,
    place: &[u8],
    table: &OrgTable<K, V>,
    told: fn(&V) -> (UserId, Value),
) -> Result<Shown> {
    let Some(org) = person.org else { return Ok(Shown::default()) };
    let after = Some(place).filter(|place| !place.is_empty());
    let step = tx.org(org).readable(table, after, ROWS_PER_STEP)?;
    let next = step.more();
    let own = step.rows.iter().map(|(_, row)| told(row)).filter(|(whose, _)| *whose == person.id);
    Ok(Shown { rows: own.map(|(_, row)| row).collect(), next })
}
