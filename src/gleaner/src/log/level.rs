//! What the log shows, and how that is changed while the box runs: by the configuration (SIGHUP) or by the operator, for a while.
//!
//! There is one log a process. What the operator sets counts until they take it back, its time is over or the configuration is read
//! again.

use base::{Error, Result};
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;

/// Characters of a filter.
const FILTER_CHARS_MAX: usize = 1_000;
/// How long the operator's level may count at most, where it has a time.
pub const LEVEL_MINUTES_MAX: u64 = 7 * 24 * 60;

/// Sets what the log shows.
pub type ApplyFilter = Box<dyn Fn(EnvFilter) -> Result<()> + Send + Sync>;

static LEVEL: OnceLock<LogLevel> = OnceLock::new();

struct LogLevel {
    apply: ApplyFilter,
    state: Mutex<LevelState>,
}

struct LevelState {
    /// What the configuration says.
    configured: String,
    /// What the operator said, and until when, if that ends by itself.
    set: Option<(String, Option<Instant>)>,
    /// Counts what was set, so that the end of an earlier one is not that of a later one.
    turn: u64,
}

/// What the log shows now.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LevelReport {
    pub level: String,
    /// What the configuration says, and what counts again when the operator's ends.
    pub configured: String,
    /// Seconds until then, where that comes by itself.
    pub ends_in_sec: Option<u64>,
}

/// The process's log shows `configured`, and `apply` changes that. Only the first log counts.
pub fn install(configured: &str, apply: ApplyFilter) {
    let state = LevelState { configured: configured.to_owned(), set: None, turn: 0 };
    LEVEL.get_or_init(|| LogLevel { apply, state: Mutex::new(state) });
}

fn installed() -> Result<&'static LogLevel> {
    LEVEL.get().ok_or_else(|| Error::conflict("this process has no log of the box's"))
}

/// The configuration says this now. What the operator had set ends.
pub fn configure(level: &str) -> Result<()> {
    let (log, filter) = (installed()?, filter(level)?);
    let mut state = log.state.lock();
    (log.apply)(filter)?;
    state.configured = level.to_owned();
    state.set = None;
    state.turn += 1;
    Ok(())
}

/// What the log shows.
pub fn report() -> Result<LevelReport> {
    Ok(installed()?.state.lock().report())
}

/// Has the log show this, for a time or until it is reset.
pub fn set(level: &str, within: Option<Duration>) -> Result<LevelReport> {
    let (log, filter) = (installed()?, filter(level)?);
    let within = within.map(|within| within.min(Duration::from_secs(LEVEL_MINUTES_MAX * 60)));
    let mut state = log.state.lock();
    (log.apply)(filter)?;
    state.set = Some((level.to_owned(), within.map(|within| Instant::now() + within)));
    state.turn += 1;
    if let Some(within) = within {
        let turn = state.turn;
        tokio::spawn(async move {
            tokio::time::sleep(within).await;
            match reset_if(|state| state.turn == turn) {
                Ok(true) => tracing::info!("the log's level is again what the configuration says"),
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "the log's level could not be set back"),
            }
        });
    }
    Ok(state.report())
}

/// Has the log show again what the configuration says.
pub fn reset() -> Result<LevelReport> {
    reset_if(|_| true)?;
    report()
}

/// Whether it was set back.
fn reset_if(may: impl FnOnce(&LevelState) -> bool) -> Result<bool> {
    let log = installed()?;
    let mut state = log.state.lock();
    if !may(&state) {
        return Ok(false);
    }
    (log.apply)(filter(&state.configured)?)?;
    state.set = None;
    state.turn += 1;
    Ok(true)
}

impl LevelState {
    fn report(&self) -> LevelReport {
        let (level, until) = match &self.set {
            Some((level, until)) => (level, *until),
            None => (&self.configured, None),
        };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        LevelReport {
            level: level.clone(),
            configured: self.configured.clone(),
            ends_in_sec: left.map(|left| left.as_secs_f64().ceil() as u64),
        }
    }
}

/// What the log shows. A single word that is no level would be read as the name of a part of the program, and nothing
/// else would be shown.
pub fn filter(level: &str) -> Result<EnvFilter> {
    if level.chars().count() > FILTER_CHARS_MAX {
        let reason = format!("must have at most {FILTER_CHARS_MAX} characters");
        return Err(Error::invalid("log.level", reason));
    }
    for part in level.split(',').map(str::trim) {
        let is_word = !part.is_empty() && part.chars().all(|c| c.is_ascii_alphabetic());
        let is_part =
            ["gleaner", "redb", "tantivy", "datafusion", "hyper", "tokio", "rustls"].contains(&part);
        if is_word && !is_part && part.parse::<tracing::level_filters::LevelFilter>().is_err() {
            let reason = format!("\"{part}\" is no level (off, error, warn, info, debug, trace)");
            return Err(Error::invalid("log.level", reason));
        }
    }
    EnvFilter::try_new(level).map_err(|e| Error::invalid("log.level", e))
}
