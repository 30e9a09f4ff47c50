//! The supervisor of background work.
//!
//! A task takes no input: it looks what is due and does it, so a lost signal costs a delay and never work. The
//! supervisor runs one activation of each at a time: at start, on its period, and when it is signalled (signals that
//! come during an activation cause one more). An activation that fails or panics is logged, counted and tried again
//! after a pause that doubles, for what looks often up to a quarter of a minute; a signal does not shorten that pause, or a
//! broken task would spin.
//!
//! Drain goes in stages, so that what is fed by others ends after them: [`Stage::Work`] stops first and is waited for,
//! then [`Stage::Derive`] runs once more over what the work left behind.

mod follow;

pub use follow::{Consumer, follow};

use crate::metrics::Metrics;
use crate::panics::panic_text;
use crate::services::Services;
use base::clock::{Moment, Now, Timestamp};
use base::{Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::System;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// The pause after the first failure; it doubles with each more.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest pause between failures.
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// The same for what looks every minute or sooner: somebody waits for it, and what kept it may be over any moment.
const SOON_BACKOFF_MAX: Duration = Duration::from_secs(15);
/// The longest period of such a task.
const SOON_SECS_MAX: u64 = 60;

/// An activation that failed after so long begins a new row of failures.
const WENT_WELL_MIN: Duration = Duration::from_secs(60);

/// When a task ends in a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Does what users asked for (jobs, schedules, deliveries). Ends first, with its activation.
    Work,
    /// Follows what others wrote (index, snapshots). Ends last, with one more activation.
    Derive,
}

impl Stage {
    const ALL: [Stage; 2] = [Stage::Work, Stage::Derive];
}

/// One kind of background work.
pub struct TaskSpec {
    /// Names it in signals, logs and metrics: `jobs.dispatch`.
    pub name: &'static str,
    /// The time from the end of an activation to the next, unless it is signalled.
    pub every: Duration,
    /// Looks what is due and does it. A long activation watches [`TaskContext::stopping`].
    pub run: fn(TaskContext) -> BoxFuture<'static, Result<()>>,
    pub stage: Stage,
    /// The longest pause between failures.
    pub pause_max: Duration,
}

impl TaskSpec {
    /// A task of [`Stage::Work`].
    pub const fn new(
        name: &'static str,
        every: Duration,
        run: fn(TaskContext) -> BoxFuture<'static, Result<()>>,
    ) -> TaskSpec {
        let pause_max = if every.as_secs() <= SOON_SECS_MAX { SOON_BACKOFF_MAX } else { BACKOFF_MAX };
        TaskSpec { name, every, run, stage: Stage::Work, pause_max }
    }

    #[must_use]
    pub const fn stage(mut self, stage: Stage) -> TaskSpec {
        self.stage = stage;
        self
    }

    /// Once it can be done again, it is within this time.
    #[must_use]
    pub const fn tried_again_within(mut self, time_max: Duration) -> TaskSpec {
        self.pause_max = time_max;
        self
    }
}

/// What an activation works with.
#[derive(Clone)]
pub struct TaskContext {
    services: Arc<Services>,
    stop: watch::Receiver<bool>,
}

impl TaskContext {
    /// Rows without an organization, and the way into each organization.
    pub fn system(&self) -> &System {
        self.services.system()
    }

    pub fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// The slice's own part.
    pub fn service<T: Any + Send + Sync>(&self) -> Arc<T> {
        self.services.service::<T>()
    }

    pub fn now(&self) -> Timestamp {
        self.services.clock().now()
    }

    pub fn moment(&self) -> Moment {
        self.services.clock().moment()
    }

    pub fn look(&self) -> Now {
        self.services.clock().look()
    }

    /// Whether the box drains: take on nothing new, and return soon.
    pub fn stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the box drains.
    pub async fn stopped(&self) {
        // An error means that the supervisor is gone, which is a stop too.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}

/// Wakes tasks by name; hung up in [`Services`], so that a handler can say "look now".
#[derive(Clone, Default)]
pub struct Signals(BTreeMap<&'static str, Arc<Notify>>);

impl Signals {
    /// A signal for each task.
    ///
    /// # Panics
    /// When two tasks have one name, which is an error of the program.
    pub fn of<'a>(specs: impl IntoIterator<Item = &'a TaskSpec>) -> Signals {
        let mut all = BTreeMap::new();
        for spec in specs {
            let twice = all.insert(spec.name, Arc::new(Notify::new()));
            assert!(twice.is_none(), "two tasks are named {}", spec.name);
        }
        Signals(all)
    }

    /// Makes the task look now, or once more when it is looking. An unknown name does nothing but a line in the log.
    pub fn wake(&self, name: &str) {
        match self.0.get(name) {
            Some(notify) => notify.notify_one(),
            None => tracing::error!(target: "gleaner::task", name, "no task has this name"),
        }
    }
}

struct RunningTask {
    name: &'static str,
    stage: Stage,
    stop: watch::Sender<bool>,
    handle: JoinHandle<()>,
}

/// The tasks that run.
pub struct Supervisor {
    running: Vec<RunningTask>,
}

impl Supervisor {
    /// Starts every task. `services` holds the [`Signals`] of these specs.
    pub fn start(
        specs: impl IntoIterator<Item = &'static TaskSpec>,
        services: &Arc<Services>,
        metrics: &Metrics,
    ) -> Supervisor {
        let signals = services.service::<Signals>();
        let start = |spec: &'static TaskSpec| {
            let (stop, stopping) = watch::channel(false);
            let wake = signals.0.get(spec.name).map_or_else(|| Arc::new(Notify::new()), Arc::clone);
            let context = TaskContext { services: Arc::clone(services), stop: stopping };
            let handle = tokio::spawn(supervise(spec, context, wake, TaskCounters::new(metrics, spec.name)));
            RunningTask { name: spec.name, stage: spec.stage, stop, handle }
        };
        Supervisor { running: specs.into_iter().map(start).collect() }
    }

    /// Ends all tasks, stage by stage, within `time_max` together. Gives the names of those that did not end; they are
    /// cut off.
    pub async fn drain(mut self, time_max: Duration) -> Vec<&'static str> {
        let deadline = Instant::now() + time_max;
        let mut unfinished = Vec::new();
        for stage in Stage::ALL {
            let (ending, rest): (Vec<_>, Vec<_>) =
                self.running.into_iter().partition(|task| task.stage == stage);
            self.running = rest;
            for task in &ending {
                task.stop.send_replace(true);
            }
            for mut task in ending {
                let left = deadline.saturating_duration_since(Instant::now());
                if tokio::time::timeout(left, &mut task.handle).await.is_err() {
                    tracing::warn!(target: "gleaner::task", task = task.name, "still running after the time to drain");
                    task.handle.abort();
                    unfinished.push(task.name);
                }
            }
        }
        unfinished
    }
}

/// What is counted of one task.
struct TaskCounters {
    runs: crate::metrics::Counter,
    failures: crate::metrics::Counter,
    running: crate::metrics::Gauge,
    seconds: crate::metrics::Histogram,
}

impl TaskCounters {
    fn new(metrics: &Metrics, name: &'static str) -> TaskCounters {
        let labels = &[("task", name)];
        TaskCounters {
            runs: metrics.counter("gleaner_task_runs_total", "Activations that ended.", labels),
            failures: metrics.counter("gleaner_task_failures_total", "Activations that failed.", labels),
            running: metrics.gauge("gleaner_task_running", "1 while an activation runs.", labels),
            seconds: metrics.histogram("gleaner_task_seconds", "Time of an activation.", labels),
        }
    }
}

/// One task's life.
async fn supervise(spec: &'static TaskSpec, context: TaskContext, wake: Arc<Notify>, counts: TaskCounters) {
    let mut failures_in_row = 0;
    loop {
        let begun = Instant::now();
        let failed = activate(spec, &context, &counts).await.is_err();
        // What went well for long before it failed does not fail in a row: some activations end with the process only.
        let went_well = !failed || begun.elapsed() >= WENT_WELL_MIN;
        failures_in_row = if went_well { 0 } else { failures_in_row } + u32::from(failed);
        if context.stopping() {
            break;
        }
        tokio::select! {
            () = context.stopped() => break,
            () = pause(spec, failures_in_row, &wake) => {}
        }
    }
    if spec.stage == Stage::Derive {
        let _ = activate(spec, &context, &counts).await;
    }
}

/// Waits for the period or a signal; after failures only for the pause.
async fn pause(spec: &TaskSpec, failures_in_row: u32, wake: &Notify) {
    if failures_in_row > 0 {
        tokio::time::sleep(backoff(failures_in_row).min(spec.pause_max)).await;
    } else {
        let _ = tokio::time::timeout(spec.every, wake.notified()).await;
    }
}

fn backoff(failures_in_row: u32) -> Duration {
    BACKOFF_MIN.saturating_mul(1 << (failures_in_row - 1).min(16)).min(BACKOFF_MAX)
}

/// One activation, logged and counted.
async fn activate(spec: &TaskSpec, context: &TaskContext, counts: &TaskCounters) -> Result<()> {
    let begun = Instant::now();
    counts.running.set(1);
    let context = context.clone();
    // The call itself is inside, so a panic before the first await is caught as well.
    let guarded = AssertUnwindSafe(async move { (spec.run)(context).await }).catch_unwind();
    let result = guarded.await.unwrap_or_else(|panic| {
        Err(Error::internal("run a task", format!("panicked: {}", panic_text(&*panic))))
    });
    counts.running.set(0);
    counts.runs.inc();
    counts.seconds.observe(begun.elapsed());
    if let Err(error) = &result {
        counts.failures.inc();
        tracing::error!(target: "gleaner::task", task = spec.name, %error, "background work failed");
    }
    result
}

#[cfg(test)]
mod tests;
