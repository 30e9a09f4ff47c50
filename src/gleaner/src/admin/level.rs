//! `gleaner admin log level`: what the log shows, changed while the box runs.

use crate::features::wiring::commands::Request;
use crate::log::level::{self, LEVEL_MINUTES_MAX};
use base::audit::Action;
use base::{Error, Result};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::Services;
use std::time::Duration;
use store::Event;

/// The command on the socket.
pub(super) const NAME: &str = "log_level";

#[derive(Subcommand)]
pub(super) enum LogCommand {
    /// Say what the log shows, or change it until it is reset, the configuration is read again or the box ends.
    #[command(
        after_help = "Examples:\n  gleaner admin log level\n  gleaner admin log level debug --minutes 10\n  \
                      gleaner admin log level info,gleaner::features::jobs=debug\n  gleaner admin log level --reset"
    )]
    Level(LevelArguments),
}

#[derive(Args)]
pub(super) struct LevelArguments {
    /// "error", "warn", "info", "debug", "trace", or a filter such as "info,gleaner::features::jobs=debug".
    #[arg(conflicts_with = "reset")]
    level: Option<String>,
    /// For so many minutes; then what the configuration says counts again.
    #[arg(long, requires = "level", value_parser = clap::value_parser!(u64).range(1..=LEVEL_MINUTES_MAX))]
    minutes: Option<u64>,
    /// What the configuration says counts again.
    #[arg(long)]
    reset: bool,
}

/// What the box is asked for.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LevelOrder {
    #[serde(default)]
    level: Option<String>,
    #[serde(default)]
    seconds: Option<u64>,
    #[serde(default)]
    reset: bool,
}

impl LogCommand {
    pub(super) fn request(self) -> Result<Request> {
        let LogCommand::Level(LevelArguments { level, minutes, reset }) = self;
        let order = LevelOrder { level, seconds: minutes.map(|minutes| minutes * 60), reset };
        match serde_json::to_value(order).map_err(|e| Error::internal("write the operator's command", e))? {
            Value::Object(given) => Ok(Request { command: NAME.to_owned(), given }),
            _ => Err(Error::internal("write the operator's command", "it is no object")),
        }
    }
}

/// Does it, and says what the log shows then.
pub(super) async fn run(given: Map<String, Value>, services: &Services) -> Result<Value> {
    let order: LevelOrder = serde_json::from_value(Value::Object(given))
        .map_err(|e| Error::conflict(format!("not a command: {e}")))?;
    let report = match (&order.level, order.reset) {
        (None, false) => level::report()?,
        (None, true) => level::reset()?,
        (Some(level), _) => level::set(level, order.seconds.map(Duration::from_secs))?,
    };
    if order.level.is_some() || order.reset {
        let text = "the operator set the log's level";
        tracing::info!(level = report.level, ends_in_sec = report.ends_in_sec, "{text}");
        let event = Event::new(Action::LogLevelSet).with("level", report.level.clone());
        services.system().write(move |tx| tx.audit(event)).await?;
    }
    serde_json::to_value(report).map_err(|e| Error::internal("write the answer to the operator", e))
}
