//! `gleaner admin top`: what the box is at, again and again, in the terminal. Off a terminal it is one look as text.
//!
//! [`view`] makes lines of two looks; [`terminal`] shows them, and gives the terminal back as it was.

mod terminal;
mod view;

use crate::admin::commands::TopArguments;
use crate::admin::{self, LOOK};
use crate::log;
use base::{Error, Result};
use serde_json::{Map, Value, json};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;
use terminal::{Event, Screen};
use view::{Look, Size};

/// Between the two looks of which one is made that is shown once: what happens in a second is seen in no single one.
const ONCE_AFTER: Duration = Duration::from_secs(1);
/// Between the first look of a live view and the second: nobody waits long for the first numbers by the second.
const FIRST_AFTER: Duration = Duration::from_millis(300);
/// How long the box may take for a look.
const LOOK_TIME_MAX: Duration = Duration::from_secs(10);
/// Lines and columns of what is shown once.
const ONCE_SIZE: Size = Size { lines: usize::MAX, columns: usize::MAX };

/// Shows the box whose socket is at `socket` until somebody has seen enough.
pub async fn run(socket: &Path, shown: &TopArguments) -> Result<()> {
    if shown.once || shown.json || !io::stdout().is_terminal() {
        let first = look(socket).await?;
        tokio::time::sleep(ONCE_AFTER).await;
        let second = look(socket).await?;
        let text = if shown.json { as_json(&first, second)? } else { as_text(&first, &second)? };
        return log::print(&text).map_err(|e| Error::internal("print the answer", e));
    }
    watch(socket, Duration::from_secs(shown.every)).await
}

/// One look, as the box says it.
async fn look(socket: &Path) -> Result<Value> {
    let request = admin::Request { command: LOOK.to_owned(), given: Map::new() };
    tokio::time::timeout(LOOK_TIME_MAX, admin::call(socket, &request))
        .await
        .unwrap_or_else(|_| Err(Error::unavailable("the appliance does not answer")))
}

fn as_text(first: &Value, second: &Value) -> Result<String> {
    let lines = view::lines(Some(&Look::read(first)?), &Look::read(second)?, ONCE_SIZE);
    Ok(lines.into_iter().map(|line| format!("{}\n", line.text.trim_end())).collect())
}

fn as_json(first: &Value, mut second: Value) -> Result<String> {
    let rates = view::rates(Some(&Look::read(first)?), &Look::read(&second)?);
    second["perSec"] = json!({
        "answered": rates.answered,
        "failed": rates.failed,
        "operations": rates.operations,
        "commits": rates.commits,
    });
    let text = serde_json::to_string_pretty(&second).map_err(|e| Error::internal("print the answer", e))?;
    Ok(format!("{text}\n"))
}

/// The live view. A box that is away for a moment is waited for.
async fn watch(socket: &Path, every: Duration) -> Result<()> {
    // A box that was never there is a mistake at the command line.
    let mut newest = Ok::<_, String>(Look::read(&look(socket).await?)?);
    let (mut before, mut screen) = (None, Screen::open()?);
    let after = async |pause: Duration| {
        tokio::time::sleep(pause).await;
        look(socket).await.and_then(|look| Look::read(&look)).map_err(|error| error.for_operator())
    };
    let mut looking = Box::pin(after(FIRST_AFTER.min(every)));
    loop {
        let lines = match &newest {
            Ok(look) => view::lines(before.as_ref(), look, screen.size()),
            Err(reason) => view::away(reason, screen.size()),
        };
        screen.draw(&lines)?;
        tokio::select! {
            event = screen.event() => match event {
                Event::Quit => return Ok(()),
                Event::Resized => {}
            },
            looked = &mut looking => {
                if let Ok(look) = std::mem::replace(&mut newest, looked) {
                    before = Some(look);
                }
                looking.set(after(every));
            }
        }
    }
}
