//! What the box tries at each start before it calls itself ready: that a row can be written and read, that the search
//! index takes and gives back a document, and that a SQL worker answers a statement. A box on which one of these is dead
//! answers all the same, so without this nobody would hear of it before a user does.
//!
//! A part that fails is tried again until it passes; `/readyz`, `gleaner admin status` and a metric say where each stands.
//! Nothing of it stays but one row.

use crate::features::bi::Queries;
use crate::features::extraction::SearchFeed;
use base::codec::Record;
use base::{Code, Error, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::{Lack, Metrics, Services};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{AnyTable, SysTable, System};
use tokio::sync::Notify;
use uuid::Uuid;

/// How long after a failure a part is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// The same for a part that only waits for others, such as a line of statements.
const WAIT_AFTER: Duration = Duration::from_secs(1);

/// What the write of the newest start left.
#[derive(Clone, Serialize, Deserialize)]
struct SelfTestV1 {
    nonce: [u8; 16],
}

impl Record for SelfTestV1 {}

/// One row, written by each start.
static SELF_TEST: SysTable<(), SelfTestV1> = SysTable::new("self_test", "Self-test");

/// The tables of the trunk's own, for what goes through all of them.
pub static TABLES: &[&dyn AnyTable] = &[&SELF_TEST];

/// What is tried, in the order in which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Store,
    Search,
    Sql,
}

impl Part {
    const ALL: [Part; 3] = [Part::Store, Part::Search, Part::Sql];

    const fn name(self) -> &'static str {
        match self {
            Part::Store => "store",
            Part::Search => "search",
            Part::Sql => "sql",
        }
    }
}

/// How long a start waits for the first try of every part; what takes longer goes on beside the box.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Where a part stands.
#[derive(Clone, Debug, Default, PartialEq)]
enum State {
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
#[derive(Debug, Default)]
pub struct SelfTest {
    states: Mutex<[State; Part::ALL.len()]>,
    changed: Notify,
}

impl SelfTest {
    /// One that has not begun, with its metric.
    pub fn new(metrics: &Metrics) -> Arc<SelfTest> {
        let test = Arc::new(SelfTest::default());
        for part in Part::ALL {
            let of = Arc::clone(&test);
            let help = "Whether the self-test of this part has passed since the start (1), or not (0).";
            let passed = move || f64::from(u8::from(of.is_done(part)));
            metrics.gauge_of("gleaner_self_test_passed", help, &[("part", part.name())], Box::new(passed));
        }
        test
    }

    /// Tries every part until it has passed.
    pub async fn run(self: Arc<Self>, services: Arc<Services>) {
        let tries = Part::ALL.map(|part| self.pass(part, &services));
        futures::future::join_all(tries).await;
        tracing::info!(parts = %self.status(), "the self-test has passed");
    }

    async fn pass(&self, part: Part, services: &Services) {
        loop {
            let begun = Instant::now();
            let state = match try_part(part, services).await {
                Ok(true) => State::Passed(begun.elapsed()),
                Ok(false) => waiting(part, services),
                Err(error) if error.code() == Code::KillSwitched => State::Off(error.for_operator()),
                Err(error) => State::Failed(error.for_operator()),
            };
            let before = std::mem::replace(&mut self.states.lock()[part as usize], state.clone());
            self.changed.notify_waiters();
            match &state {
                State::Passed(_) | State::Off(_) => return,
                State::Running | State::Partly(_) => tokio::time::sleep(WAIT_AFTER).await,
                State::Failed(reason) => {
                    if before != state {
                        tracing::error!(part = part.name(), reason, "the self-test fails and is tried again");
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
                if !matches!(self.check(), Err(Lack::Starting(_))) {
                    return;
                }
                changed.await;
            }
        };
        // What is not done by then is shown by `/readyz`.
        let _ = tokio::time::timeout(FIRST_WAIT, tried).await;
    }

    fn is_done(&self, part: Part) -> bool {
        matches!(self.states.lock()[part as usize], State::Passed(_) | State::Off(_))
    }

    /// What keeps the box from being ready.
    pub fn check(&self) -> Result<(), Lack> {
        let states = self.states.lock();
        let named = |wanted: fn(&State) -> Option<String>| {
            let lacks = Part::ALL.iter().zip(states.iter());
            let lacks =
                lacks.filter_map(|(part, state)| Some(format!("{}: {}", part.name(), wanted(state)?)));
            lacks.collect::<Vec<_>>().join("; ")
        };
        let failed = named(|state| match state {
            State::Failed(reason) => Some(reason.clone()),
            _ => None,
        });
        if !failed.is_empty() {
            return Err(Lack::Failing(failed));
        }
        let running = named(|state| (*state == State::Running).then(|| "is being tried".to_owned()));
        if !running.is_empty() {
            return Err(Lack::Starting(running));
        }
        let partly = named(|state| match state {
            State::Partly(how) => Some(how.clone()),
            _ => None,
        });
        if partly.is_empty() { Ok(()) } else { Err(Lack::Partly(partly)) }
    }

    /// Every part with where it stands, for the operator.
    pub fn status(&self) -> Value {
        let states = self.states.lock();
        let of = |state: &State| match state {
            State::Running => json!({ "state": "running" }),
            State::Partly(how) => json!({ "state": "partly", "reason": how }),
            State::Passed(took) => json!({ "state": "passed", "ms": took.as_millis() as u64 }),
            State::Off(reason) => json!({ "state": "off", "reason": reason }),
            State::Failed(reason) => json!({ "state": "failed", "reason": reason }),
        };
        Part::ALL.iter().zip(states.iter()).map(|(part, state)| (part.name().to_owned(), of(state))).collect()
    }
}

/// Whether the part works; false when it cannot be tried yet, because of others' work.
async fn try_part(part: Part, services: &Services) -> Result<bool> {
    match part {
        Part::Store => store(services.system()).await.map(|()| true),
        Part::Search => {
            let feed = services.service::<SearchFeed>();
            let tried = tokio::task::spawn_blocking(move || feed.self_test()).await;
            tried.map_err(|e| Error::internal("try the search index", e))?
        }
        Part::Sql => services.service::<Queries>().self_test().await,
    }
}

/// Where a part stands that cannot be tried yet. Searches of an index that is being filled anew find what is in it, so
/// nobody is kept waiting for that.
fn waiting(part: Part, services: &Services) -> State {
    match (part, services.service::<SearchFeed>().filled()) {
        (Part::Search, rows @ 1..) => State::Partly(format!(
            "the index is being filled anew, {rows} results so far; searches find those only"
        )),
        _ => State::Running,
    }
}

/// Writes a row through the writer, with its flush, and reads it.
async fn store(system: &System) -> Result<()> {
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
        let test = SelfTest::default();
        let set = |part: Part, state: State| test.states.lock()[part as usize] = state;
        assert!(
            matches!(test.check(), Err(Lack::Starting(text)) if text.starts_with("store: is being tried; "))
        );
        set(Part::Store, State::Passed(Duration::ZERO));
        set(Part::Search, State::Failed("no room".into()));
        assert!(matches!(test.check(), Err(Lack::Failing(text)) if text == "search: no room"));
        set(Part::Search, State::Passed(Duration::ZERO));
        set(Part::Sql, State::Off("switched off".into()));
        assert!(test.check().is_ok());
        assert_eq!(test.status()["sql"], json!({ "state": "off", "reason": "switched off" }));
        // What works in part keeps nobody waiting, and is told.
        set(Part::Search, State::Partly("70 results so far".into()));
        assert!(matches!(test.check(), Err(Lack::Partly(text)) if text == "search: 70 results so far"));
        set(Part::Store, State::Running);
        assert!(matches!(test.check(), Err(Lack::Starting(_))));
    }
}
