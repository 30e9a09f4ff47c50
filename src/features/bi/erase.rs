//! What the console keeps of an organization outside of the store, and what it holds on a person.

use super::feed::SnapshotFeed;
use super::rows::QUERIES;
use super::service::Queries;
use crate::base::ids::{OrgId, QueryId};
use crate::base::{Error, Result};
use crate::features::{Erased, Holding, Personal, Shown};
use crate::store::{Key, Order};
use crate::task::TaskContext;
use futures::future::BoxFuture;
use serde_json::json;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// How long an erasure waits for statements to end; a worker is killed within a fraction of that.
const END_WAIT: Duration = Duration::from_secs(20);
const END_POLL: Duration = Duration::from_millis(20);
/// Statements that one step of a walk looks at.
const QUERIES_PER_STEP: usize = 200;

pub(super) static HOLDINGS: &[Holding] = &[
    Holding { name: "result files", remove: remove_results },
    Holding {
        name: "snapshot files",
        remove: |context, org| {
            Box::pin(async move {
                let feed = context.service::<SnapshotFeed>();
                let removed = tokio::task::spawn_blocking(move || feed.remove_org(org)).await;
                removed.map_err(|e| Error::internal("remove a snapshot", e)).and_then(Result::from)
            })
        },
    },
];

/// Ends the statements that run, then removes all results.
fn remove_results(context: TaskContext, org: OrgId) -> BoxFuture<'static, Result<u64>> {
    Box::pin(async move {
        let queries = context.service::<Queries>();
        let deadline = Instant::now() + END_WAIT;
        while queries.end_all(org) {
            if Instant::now() > deadline {
                return Err(Error::unavailable("statements of the organization have not ended yet"));
            }
            tokio::time::sleep(END_POLL).await;
        }
        let folder = queries.workers.results_dir().join(org.to_string());
        let files = match fs::read_dir(&folder) {
            Ok(files) => files.count() as u64,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(Error::internal("list results", error)),
        };
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::internal("remove results", error))
            }
            _ => Ok(files),
        }
    })
}

pub(super) static KINDS: &[Personal] = &[Personal {
    name: "statements",
    about: "SQL statements that you submitted. They belong to your organization and stay in it without your name.",
    show: |tx, person, place| {
        let Some(org) = person.org else { return Ok(Shown::default()) };
        let after = QueryId::decode(place);
        let rows = tx.org(org).scan(&QUERIES, after.as_ref(), Order::Ascending, QUERIES_PER_STEP)?;
        let next =
            rows.last().filter(|_| rows.len() == QUERIES_PER_STEP).map(|(id, _)| id.0.as_bytes().to_vec());
        let own = rows.iter().filter(|(_, query)| query.submitted_by == person.id).map(|(id, query)| {
            json!({ "id": id, "sql": query.sql, "status": query.status.name(), "createdAt": query.created_at })
        });
        Ok(Shown { rows: own.collect(), next })
    },
    erase: |_, _, _| Ok(Erased::default()),
}];
