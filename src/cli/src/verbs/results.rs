//! Results: finding them, their values and their pages.

use crate::commands::{ResultForm, ResultsCommand};
use crate::failure::{Exit, Failure, Outcome};
use crate::http::{Payload, escaped, path_of_link, with_query};
use crate::output::{Column, Sink, Table, cell, say, width};
use crate::session::{Session, pretty};
use http::{Method, StatusCode};
use serde_json::Value;
use std::path::Path;

const RESULTS: [Column; 6] = [
    ("ID", "/id"),
    ("TYPE", "/pageType"),
    ("QUALITY", "/quality/composite"),
    ("COLLECTED", "/scrapedAt"),
    ("URL", "/url"),
    ("VALUES", "/values"),
];

pub async fn carry_out(session: &Session, command: ResultsCommand) -> Outcome<()> {
    match command {
        ResultsCommand::List { search, domain, page_type, tag, rows } => {
            let query = [("q", search), ("domain", domain), ("pageType", page_type), ("tag", tag)];
            session.list("/api/v1/extraction/results", &query, &rows, &RESULTS).await
        }
        ResultsCommand::Get { id, form, output } => {
            let result = find(session, &id).await?;
            match form {
                ResultForm::Values => values(session, &result, output.as_deref()),
                ResultForm::Markdown => content(session, &result, "markdown", output.as_deref()).await,
                ResultForm::Text => content(session, &result, "text", output.as_deref()).await,
                ResultForm::Html => page(session, &result, output.as_deref()).await,
            }
        }
    }
}

fn path_of(id: &str) -> String {
    format!("/api/v1/extraction/results/by-id/{}", escaped(id))
}

/// The result with this id, or the one of the job with this id. One that search does not know yet is there all the same.
async fn find(session: &Session, id: &str) -> Outcome<Value> {
    let not_found = match session.remote.get(&path_of(id)).await {
        Err(failure) if failure.exit() == Exit::NotFound => failure,
        found => return found,
    };
    let path = format!("/api/v1/extraction/results/{}", escaped(id));
    let answer = session.remote.send(Method::GET, &path, &[], Payload::None).await?;
    let is_pending = answer.status == StatusCode::ACCEPTED;
    let found = match answer.good().await {
        Err(failure) if failure.exit() == Exit::NotFound => return Err(not_found),
        answer => answer?.json().await?,
    };
    match (is_pending, found["id"].as_str()) {
        (true, Some(id)) => session.remote.get(&path_of(id)).await,
        _ => Ok(found),
    }
}

fn values(session: &Session, result: &Value, output: Option<&Path>) -> Outcome<()> {
    let mut sink = Sink::open(output)?;
    if session.json {
        sink.line(&pretty(result))?;
        return sink.end();
    }
    let limit = width().filter(|_| output.is_none());
    let mut table = Table::new(["NAME", "VALUE"].map(str::to_owned), limit);
    for (name, value) in result["values"].as_object().into_iter().flatten() {
        table.row(vec![crate::output::visible(name), cell(Some(value))], &mut sink)?;
    }
    table.end(&mut sink)?;
    for wrong in result["attributeErrors"].as_array().into_iter().flatten() {
        say(&format!("gleaner: {}: {}", cell(wrong.get("name")), cell(wrong.get("reason"))));
    }
    sink.end()
}

fn id_of(result: &Value) -> Outcome<String> {
    let id = result["id"].as_str().map(path_of);
    id.ok_or_else(|| Failure::failed("the answer is no result: is this a box?"))
}

async fn content(session: &Session, result: &Value, format: &str, output: Option<&Path>) -> Outcome<()> {
    let path = format!("{}/content", id_of(result)?);
    let told = session.remote.get(&with_query(&path, &[("format", Some(format.to_owned()))])).await?;
    let mut sink = Sink::open(output)?;
    match session.json {
        true => sink.line(&pretty(&told))?,
        false => {
            let text = told["content"].as_str().unwrap_or_default();
            sink.write(text.as_bytes())?;
            if !text.ends_with('\n') {
                sink.write(b"\n")?;
            }
        }
    }
    sink.end()?;
    if told["isTruncated"] == true {
        say("gleaner: the content was cut; --as html has all of the page");
    }
    Ok(())
}

/// The page as it was fetched, byte by byte.
async fn page(session: &Session, result: &Value, output: Option<&Path>) -> Outcome<()> {
    let told = session.remote.get(&format!("{}/html", id_of(result)?)).await?;
    if session.json && output.is_none() {
        let mut sink = Sink::open(None)?;
        sink.line(&pretty(&told))?;
        return sink.end();
    }
    let link = told["url"].as_str().and_then(path_of_link);
    let link = link.ok_or_else(|| Failure::failed("the box gives no link to the page"))?;
    save(session, link, output).await
}

/// Writes what a path of the box leads to, as it comes.
pub async fn save(session: &Session, path: &str, output: Option<&Path>) -> Outcome<()> {
    let accept = [("accept", "*/*".to_owned())];
    let mut answer = session.remote.send(Method::GET, path, &accept, Payload::None).await?.good().await?;
    let mut sink = Sink::open(output)?;
    while let Some(part) = answer.part().await? {
        sink.write(&part)?;
    }
    sink.end()
}
