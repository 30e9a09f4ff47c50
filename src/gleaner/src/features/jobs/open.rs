//! What the slice opens at a start: the dispatcher, and what submitting asks.

use super::rows;
use super::{DispatchParts, DispatchSettings, Dispatcher, SubmitContext, runs_max};
use crate::config::Config;
use crate::features::providers::DispatchConfig;
use crate::features::wiring::Wiring;
use base::Result;
use base::ids::OrgId;
use base::trace::Tracer;
use fetch::Politeness;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use server::{Metrics, Services};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;
use store::System;

/// How long jobs may go on at most once the box drains: most pages come within that.
const RUNS_DRAIN_MAX: Duration = Duration::from_secs(5);

/// The index of jobs that wait.
const QUEUE: &str = rows::QUEUE_TABLE;

/// Opens the slice's parts.
pub(super) fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let parts = DispatchParts {
            providers: wiring.part(),
            graphs: wiring.part(),
            politeness: wiring.part::<Politeness>().as_ref().clone(),
            extractor: wiring.part(),
            health: wiring.part::<base::health::Health>().as_ref().clone(),
            keyring: wiring.part(),
            tracer: wiring.part::<Tracer>().as_ref().clone(),
        };
        let dispatcher = Dispatcher::new(wiring.system(), parts, dispatch_settings(wiring.config));
        let dispatcher = wiring.hang::<Dispatcher>(dispatcher);
        let context = SubmitContext {
            plans: wiring.part(),
            directory: wiring.part(),
            graphs: wiring.part(),
            dispatcher,
        };
        wiring.hang::<SubmitContext>(context);
        Ok(())
    })
}

fn dispatch_settings(config: &Config) -> DispatchSettings {
    // The rest of the time is that of what follows the jobs: index, snapshots, the store.
    let drain = (config.shutdown_grace() / 4).min(RUNS_DRAIN_MAX);
    DispatchSettings { concurrency: config.section::<DispatchConfig>().concurrency, drain }
}

/// Of a job that runs: sockets to the target by its own and by a proxy's way, a name that is looked up, a page written.
const OF_JOB: u64 = 4;

/// What jobs that run take of the open files.
pub(super) fn descriptors(config: &Config) -> u64 {
    runs_max(config.section::<DispatchConfig>().concurrency) as u64 * OF_JOB
}

pub(super) fn status(services: &Services) -> Vec<(&'static str, Value)> {
    vec![("jobsRunning", json!(services.service::<Dispatcher>().running()))]
}

/// Organizations whose queues a look counts, and entries that it counts of each.
const LOOKED_AT_MAX: usize = 200;
const COUNTED_MAX: usize = 1_000;
/// Organizations that a look shows: those with the most to do.
const SHOWN_MAX: usize = 50;

/// Jobs by organization.
pub(super) fn look(services: &Services) -> Vec<(&'static str, Value)> {
    let dispatcher = services.service::<Dispatcher>();
    let mut counts = HashMap::<OrgId, (usize, usize)>::new();
    for (org, _) in dispatcher.running_ids() {
        counts.entry(org).or_default().0 += 1;
    }
    let (queues, is_all) = queues(services.system());
    for (org, queued) in queues {
        counts.entry(org).or_default().1 = queued;
    }
    let mut orgs: Vec<_> = counts.into_iter().collect();
    orgs.sort_by_key(|(org, (running, queued))| (Reverse((*queued, *running)), *org));
    let is_all = is_all && orgs.len() <= SHOWN_MAX;
    let shown = orgs.into_iter().take(SHOWN_MAX).map(|(org, (running, queued))| {
        json!({ "org": org, "running": running, "queued": queued, "isMore": queued == COUNTED_MAX })
    });
    let jobs = json!({
        "running": dispatcher.running(),
        "queued": services.store().entries(QUEUE).ok(),
        "organizations": shown.collect::<Vec<_>>(),
        "isAll": is_all,
    });
    vec![("jobs", jobs)]
}

/// How many jobs wait of each organization, and whether those are all organizations. Each is read by itself, so that no read is
/// long.
fn queues(system: &System) -> (Vec<(OrgId, usize)>, bool) {
    let (mut found, mut after) = (Vec::new(), None);
    while found.len() < LOOKED_AT_MAX {
        let counted = system.read(|tx| {
            let Some(org) = tx.next_org(QUEUE, after)? else { return Ok(None) };
            Ok(Some((org, tx.org(org).count_index(&rows::QUEUE, (), COUNTED_MAX)?)))
        });
        match counted {
            Ok(Some((org, queued))) => {
                found.push((org, queued));
                after = Some(org);
            }
            Ok(None) => return (found, true),
            Err(error) => {
                tracing::debug!(%error, "the queue could not be looked at");
                break;
            }
        }
    }
    (found, false)
}

pub(super) fn gauges(metrics: &Metrics, services: &Services) {
    let dispatcher = services.service::<Dispatcher>();
    let running = dispatcher.clone();
    metrics.gauge_of("gleaner_jobs_running", "Jobs running now.", &[], move || running.running() as f64);
    metrics.gauge_of(
        "gleaner_jobs_given_up",
        "Jobs that failed since the start because their runs were cut off again and again.",
        &[],
        move || dispatcher.given_up() as f64,
    );
    let store = services.store().clone();
    metrics.gauge_of("gleaner_jobs_queued", "Jobs that wait for their turn or their time.", &[], move || {
        store.entries(QUEUE).map_or(f64::NAN, |jobs| jobs as f64)
    });
}
