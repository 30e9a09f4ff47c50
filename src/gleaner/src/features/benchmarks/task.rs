//! Follows open benchmarks: writes down how far their probes have come, and ends those whose probes have ended.

use super::results::{follow, probes};
use super::rows::{BENCHMARKS, FOLLOWED};
use crate::features::events::{EventKind, NewEvent};
use base::Result;
use base::ids::{BenchmarkId, OrgId};
use base::permission::Permission;
use serde_json::json;
use server::task::TaskContext;
use store::{OrgStore, Seek};

pub(super) static COMPLETED: EventKind = EventKind::new(
    "benchmark.completed",
    Permission::WorkflowsRead,
    "All probes of a benchmark have ended (`status`, `completedProbes`, `failedProbes`).",
);

/// Benchmarks looked at in one activation; an organization has one at a time.
const FOLLOWED_MAX: usize = 1_000;

pub(super) async fn follow_all(context: TaskContext) -> Result<()> {
    let open: Vec<(OrgId, BenchmarkId)> = context.system().read(|tx| {
        let found = tx.scan_global(&BENCHMARKS, &FOLLOWED, &Seek::start(), None, FOLLOWED_MAX)?;
        // Of an organization that is being erased the entries go by themselves.
        let open = found.entries.into_iter().filter(|entry| !tx.is_fenced(entry.org));
        Ok(open.map(|entry| (entry.org, entry.key)).collect())
    })?;
    for (org, id) in open {
        if context.stopping() {
            break;
        }
        if let Err(error) = follow_one(&context.system().org(org), id).await {
            tracing::warn!(benchmark = %id, %error, "a benchmark could not be followed");
        }
    }
    Ok(())
}

async fn follow_one(org: &OrgStore, id: BenchmarkId) -> Result<()> {
    // Looked at outside of the writer first: mostly nothing has changed.
    let changed = org.read(|tx| {
        let Some(row) = tx.get(&BENCHMARKS, &id)? else { return Ok(false) };
        let mut next = row.clone();
        follow(&mut next, &probes(tx, id)?);
        Ok(next != row)
    })?;
    if !changed {
        return Ok(());
    }
    org.write(move |tx| {
        let Some(mut row) = tx.get(&BENCHMARKS, &id)?.filter(|row| row.status.is_open()) else {
            return Ok(());
        };
        follow(&mut row, &probes(tx, id)?);
        if !row.status.is_open() {
            let data = json!({
                "status": row.status.name(),
                "completedProbes": row.completed_probes,
                "failedProbes": row.failed_probes,
            });
            NewEvent::of(&COMPLETED, id).data(data).write(tx)?;
        }
        tx.put(&BENCHMARKS, &id, &row)
    })
    .await
}
