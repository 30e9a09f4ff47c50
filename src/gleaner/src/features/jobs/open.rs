//! What the slice opens at a start: the dispatcher, and what submitting asks.

use super::{DispatchParts, DispatchSettings, Dispatcher, SubmitContext, runs_max};
use crate::config::Config;
use crate::features::providers::DispatchConfig;
use crate::features::wiring::Wiring;
use base::Result;
use fetch::Politeness;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use server::{Metrics, Services};
use std::time::Duration;

/// How long jobs may go on at most once the box drains: most pages come within that.
const RUNS_DRAIN_MAX: Duration = Duration::from_secs(5);

/// The index of jobs that wait.
const QUEUE: &str = "jobs.queue";

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
