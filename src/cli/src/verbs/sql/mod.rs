//! Statements over the organization's tables: one, or one after another at a prompt.

mod prompt;
mod rows;

use crate::commands::{RowFormat, Sql};
use crate::failure::{Exit, Failure, Outcome};
use crate::http::{Payload, escaped};
use crate::output::{Sink, say};
use crate::session::{Session, ends_after, read_text};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub use prompt::is_at_prompt;

/// Bytes of a statement, as the box takes it.
const STATEMENT_BYTES_MAX: u64 = 64 << 10;
/// How long the box holds the answer back while a statement runs, in milliseconds.
const HELD_MS: u64 = 5_000;
const LOOK_FIRST: Duration = Duration::from_millis(100);
const LOOK_MOST: Duration = Duration::from_secs(2);
const PAGE_ROWS: usize = 1_000;

pub async fn sql(session: &Session, given: &Sql) -> Outcome<()> {
    let format = match given.format {
        None if session.json => RowFormat::Jsonl,
        format => format.unwrap_or(RowFormat::Table),
    };
    let statement = match (&given.statement, &given.file) {
        (Some(statement), _) => statement.clone(),
        (None, Some(file)) => read_text("--file", file, STATEMENT_BYTES_MAX).await?,
        (None, None) if !std::io::stdin().is_terminal() => {
            read_text("standard input", Path::new("-"), STATEMENT_BYTES_MAX).await?
        }
        (None, None) if !std::io::stdout().is_terminal() || given.output.is_some() => {
            return Err(Failure::usage("STATEMENT", "is missing, and this is no terminal to ask for it"));
        }
        (None, None) => return prompt::run(session, format).await,
    };
    let statement = statement.trim().trim_end_matches(';');
    if statement.trim().is_empty() {
        return Err(Failure::usage("STATEMENT", "is empty"));
    }
    let is_binary = matches!(format, RowFormat::Parquet | RowFormat::Arrow | RowFormat::Xlsx);
    if is_binary && given.output.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::usage("--format", "is no text for a terminal; name a file with --output"));
    }
    let ends = ends_after(given.timeout);
    let params = given.params.iter().map(|text| parameter(text)).collect();
    let query = submit(session, statement, params, HELD_MS).await?;
    let query = finish(session, query, ends).await?;
    print(session, &query, format, given.output.as_deref(), ends).await
}

/// A value as it is typed: JSON where it is a number, a truth value, null or a text in quotes.
fn parameter(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Array(_) | Value::Object(_)) | Err(_) => text.into(),
        Ok(value) => value,
    }
}

/// Hands a statement in; gives what the box knows of it by then.
async fn submit(session: &Session, statement: &str, params: Vec<Value>, held_ms: u64) -> Outcome<Value> {
    let mut body = json!({ "sql": statement, "waitMs": held_ms });
    if !params.is_empty() {
        body["params"] = params.into();
    }
    session.remote.post("/api/v1/bi/queries", &body).await
}

fn id_of(query: &Value) -> Outcome<&str> {
    query["jobId"].as_str().ok_or_else(|| Failure::failed("the answer is no statement's: is this a box?"))
}

/// Waits for a statement's end; gives the id of one that went well.
async fn finish(session: &Session, mut query: Value, ends: Option<Instant>) -> Outcome<String> {
    let id = id_of(&query)?.to_owned();
    let mut pause = LOOK_FIRST;
    loop {
        match query["status"].as_str() {
            Some("success") => return Ok(id),
            Some("queued" | "running") => {}
            other => {
                let text = |name: &str| query["error"][name].as_str().map(str::to_owned);
                let title = text("code").or(other.map(str::to_owned)).unwrap_or_default();
                let failure = Failure::failed(title);
                return Err(match text("message") {
                    Some(message) => failure.message(message),
                    None => failure,
                });
            }
        }
        wait(session, &id, &mut pause, ends).await?;
        query = session.remote.get(&format!("/api/v1/bi/queries/{id}")).await?;
    }
}

/// Waits a little longer each time; a statement that nobody waits for any more is ended.
async fn wait(session: &Session, id: &str, pause: &mut Duration, ends: Option<Instant>) -> Outcome<()> {
    let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) {
        cancel(session, id).await;
        return Err(Failure::new(Exit::InVain, "the time is over; the statement was canceled"));
    }
    sleep(left.map_or(*pause, |left| left.min(*pause))).await;
    *pause = (*pause * 3 / 2).min(LOOK_MOST);
    Ok(())
}

/// Ends a statement, if the box can be asked.
async fn cancel(session: &Session, id: &str) {
    let path = format!("/api/v1/bi/queries/{}/cancel", escaped(id));
    let _ = session.remote.ask(http::Method::POST, &path, Payload::None).await;
}

/// Writes the rows of a statement that went well.
async fn print(
    session: &Session,
    id: &str,
    format: RowFormat,
    output: Option<&Path>,
    ends: Option<Instant>,
) -> Outcome<()> {
    let written = match format {
        RowFormat::Parquet => export(session, id, "parquet", output, ends).await,
        RowFormat::Arrow => export(session, id, "arrow", output, ends).await,
        RowFormat::Xlsx => export(session, id, "xlsx", output, ends).await,
        RowFormat::Table | RowFormat::Csv | RowFormat::Json | RowFormat::Jsonl => {
            pages(session, id, format, output).await
        }
    };
    written?;
    let manifest = session.remote.get(&format!("/api/v1/bi/queries/{id}/result-manifest")).await?;
    if manifest["manifest"]["truncated"] == true {
        say("gleaner: the result has more rows than are kept; those beyond were left out");
    }
    Ok(())
}

async fn pages(session: &Session, id: &str, format: RowFormat, output: Option<&Path>) -> Outcome<()> {
    let mut sink = Sink::open(output)?;
    let mut writer = rows::Writer::new(format, output.is_some());
    for page in 0.. {
        let path = format!("/api/v1/bi/queries/{id}/results?page={page}&pageSize={PAGE_ROWS}");
        let told = session.remote.get(&path).await?;
        for row in told["rows"].as_array().into_iter().flatten() {
            writer.row(row, &mut sink)?;
        }
        if told["hasMore"] != true {
            break;
        }
    }
    writer.end(&mut sink)?;
    sink.end()
}

/// A file that the box makes of the rows.
async fn export(
    session: &Session,
    id: &str,
    format: &str,
    output: Option<&Path>,
    ends: Option<Instant>,
) -> Outcome<()> {
    let path = format!("/api/v1/bi/queries/{id}/exports");
    let mut told = session.remote.post(&path, &json!({ "format": format })).await?;
    let mut pause = LOOK_FIRST;
    loop {
        let export = &told["export"];
        let made =
            export["id"].as_str().ok_or_else(|| Failure::failed("the answer is no export's"))?.to_owned();
        match export["status"].as_str() {
            Some("success") => {
                let path = format!("/api/v1/bi/exports/{}/download", escaped(&made));
                return super::results::save(session, &path, output).await;
            }
            Some("queued" | "running") => wait(session, id, &mut pause, ends).await?,
            _ => {
                let reason = export["error"]["message"].as_str().unwrap_or("no reason is given");
                return Err(Failure::failed("the file could not be made").message(reason));
            }
        }
        told = session.remote.get(&format!("/api/v1/bi/exports/{}", escaped(&made))).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_are_typed() {
        for (text, value) in [
            ("7", json!(7)),
            ("true", json!(true)),
            ("null", json!(null)),
            ("\"7\"", json!("7")),
            ("shop", json!("shop")),
            ("", json!("")),
            ("[1]", json!("[1]")),
        ] {
            assert_eq!(parameter(text), value, "{text}");
        }
    }
}
