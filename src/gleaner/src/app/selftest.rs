//! What the box tries at each start before it calls itself ready: that a row can be written and read, that the search
//! index takes and gives back a document, and that a SQL worker answers a statement. A box on which one of these is dead
//! answers all the same, so without this nobody would hear of it before a user does.
//!
//! A part that fails is tried again until it passes; `/readyz`, `gleaner admin status` and a metric say where each stands.
//! Nothing of it stays but one row.

use crate::features::wiring::{self, StartTest};
use crate::trunk::{SELF_TEST, SelfTestV1};
use base::{Code, Error, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};
use server::{Metrics, ReadinessIssue, Services};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::System;
use tokio::sync::Notify;
use uuid::Uuid;

/// How long after a failure a part is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// The same for a part that only waits for others, such as a line of statements.
const WAIT_AFTER: Duration = Duration::from_secs(1);

/// The trunk's own part: a row is written and read.
const STORE: StartTest = StartTest {
    name: "store",
    run: |services| Box::pin(async move { try_store(services.system()).await.map(|()| true) }),
    partly: |_| None,
};

/// What is tried, in the order in which it is shown.
fn parts() -> Vec<&'static StartTest> {
    std::iter::once(&STORE)
        .chain(wiring::in_order().into_iter().filter_map(|slice| slice.start_test.as_ref()))
        .collect()
}

/// How long a start waits for the first try of every part; what takes longer goes on beside the box.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Where a part stands.
#[derive(Clone, Debug, Default, PartialEq)]
enum PartState {
    /// Not tried yet, or waiting for something that comes by itself.
    #[default]
    Running,
    /// It works, as far as can be told, and not as well as it will.
    Partly(String),
    Passed(Duration),
    /// Somebody has switched it off, which is no fault: why.
    Off(String),
    Failed(String),
}

/// The self-test of this start.
pub struct SelfTest {
    parts: Vec<&'static StartTest>,
    /// Where each part stands, in the order of `parts`.
    states: Mutex<Vec<PartState>>,
    changed: Notify,
}

impl SelfTest {
    /// One that has not begun, with its metric.
    pub fn new(metrics: &Metrics) -> Arc<SelfTest> {
        let test = Arc::new(SelfTest::of(parts()));
        for (at, part) in test.parts.iter().enumerate() {
            let of = Arc::clone(&test);
            let help = "Whether the self-test of this part has passed since the start (1), or not (0).";
            let passed = move || f64::from(u8::from(of.is_done(at)));
            metrics.gauge_of("gleaner_self_test_passed", help, &[("part", part.name)], passed);
        }
        test
    }

    fn of(parts: Vec<&'static StartTest>) -> SelfTest {
        let states = Mutex::new(vec![PartState::default(); parts.len()]);
        SelfTest { parts, states, changed: Notify::new() }
    }

    /// Tries every part until it has passed.
    pub async fn run(self: Arc<Self>, services: Arc<Services>) {
        let tries = (0..self.parts.len()).map(|at| self.pass(at, &services));
        futures::future::join_all(tries).await;
        tracing::info!(parts = %self.status(), "the self-test has passed");
    }

    async fn pass(&self, at: usize, services: &Arc<Services>) {
        let part = self.parts[at];
        loop {
            let begun = Instant::now();
            let state = match (part.run)(services.clone()).await {
                Ok(true) => PartState::Passed(begun.elapsed()),
                Ok(false) => (part.partly)(services).map_or(PartState::Running, PartState::Partly),
                Err(error) if error.code() == Code::KillSwitched => PartState::Off(error.for_operator()),
                Err(error) => PartState::Failed(error.for_operator()),
            };
            let before = std::mem::replace(&mut self.states.lock()[at], state.clone());
            self.changed.notify_waiters();
            match &state {
                PartState::Passed(_) | PartState::Off(_) => return,
                PartState::Running | PartState::Partly(_) => tokio::time::sleep(WAIT_AFTER).await,
                PartState::Failed(reason) => {
                    if before != state {
                        tracing::error!(part = part.name, reason, "the self-test fails and is tried again");
                    }
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Waits until every part has passed or failed, but not long: so that a box which says that it listens is ready, as a
    /// rule.
    pub async fn first_round(&self) {
        let tried = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                // From here on no change is missed.
                changed.as_mut().enable();
                if !matches!(self.check(), Err(ReadinessIssue::Starting(_))) {
                    return;
                }
                changed.await;
            }
        };
        // What is not done by then is shown by `/readyz`.
        let _ = tokio::time::timeout(FIRST_WAIT, tried).await;
    }

    fn is_done(&self, at: usize) -> bool {
        matches!(self.states.lock()[at], PartState::Passed(_) | PartState::Off(_))
    }

    /// What keeps the box from being ready.
    pub fn check(&self) -> Result<(), ReadinessIssue> {
        let states = self.states.lock();
        let named = |wanted: fn(&PartState) -> Option<String>| {
            let lacks = self.parts.iter().zip(states.iter());
            let lacks = lacks.filter_map(|(part, state)| Some(format!("{}: {}", part.name, wanted(state)?)));
            lacks.collect::<Vec<_>>().join("; ")
        };
        let failed = named(|state| match state {
            PartState::Failed(reason) => Some(reason.clone()),
            _ => None,
        });
        if !failed.is_empty() {
            return Err(ReadinessIssue::Failing(failed));
        }
        let running = named(|state| (*state == PartState::Running).then(|| "is being tried".to_owned()));
        if !running.is_empty() {
            return Err(ReadinessIssue::Starting(running));
        }
        let partly = named(|state| match state {
            PartState::Partly(how) => Some(how.clone()),
            _ => None,
        });
        if partly.is_empty() { Ok(()) } else { Err(ReadinessIssue::Partly(partly)) }
    }

    /// Every part with where it stands, for the operator.
    pub fn status(&self) -> Value {
        let states = self.states.lock();
        let of = |state: &PartState| match state {
            PartState::Running => json!({ "state": "running" }),
            PartState::Partly(how) => json!({ "state": "partly", "reason": how }),
            PartState::Passed(took) => json!({ "state": "passed", "ms": took.as_millis() as u64 }),
            PartState::Off(reason) => json!({ "state": "off", "reason": reason }),
            PartState::Failed(reason) => json!({ "state": "failed", "reason": reason }),
        };
        self.parts.iter().zip(states.iter()).map(|(part, state)| (part.name.to_owned(), of(state))).collect()
    }
}

/// Writes a row through the writer, with its flush, and reads it.
async fn try_store(system: &System) -> Result<()> {
    let nonce = Uuid::new_v4().into_bytes();
    let written = system.write(move |tx| {
        tx.unaudited("the box tries itself");
        tx.put(&SELF_TEST, &(), &SelfTestV1 { nonce })
    });
    written.await?;
    let read = system.read(|tx| tx.get(&SELF_TEST, &()))?;
    if read.is_some_and(|row| row.nonce == nonce) {
        return Ok(());
    }
    Err(Error::internal("try the store", "what was written is not what is read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_fails_is_told_before_one_that_is_not_tried_yet() {
        let test = SelfTest::of(parts());
        let set = |part: &str, state: PartState| {
            let at = test.parts.iter().position(|known| known.name == part).unwrap();
            test.states.lock()[at] = state;
        };
        assert!(
            matches!(test.check(), Err(ReadinessIssue::Starting(text)) if text.starts_with("store: is being tried; "))
        );
        set("store", PartState::Passed(Duration::ZERO));
        set("search", PartState::Failed("no room".into()));
        assert!(matches!(test.check(), Err(ReadinessIssue::Failing(text)) if text == "search: no room"));
        set("search", PartState::Passed(Duration::ZERO));
        set("sql", PartState::Off("switched off".into()));
        assert!(test.check().is_ok());
        assert_eq!(test.status()["sql"], json!({ "state": "off", "reason": "switched off" }));
        // What works in part keeps nobody waiting, and is told.
        set("search", PartState::Partly("70 results so far".into()));
        assert!(
            matches!(test.check(), Err(ReadinessIssue::Partly(text)) if text == "search: 70 results so far")
        );
        set("store", PartState::Running);
        assert!(matches!(test.check(), Err(ReadinessIssue::Starting(_))));
    }
}
