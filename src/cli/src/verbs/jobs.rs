//! Jobs: seeing them, taking them up again, ending them.

use crate::commands::JobsCommand;
use crate::failure::{Failure, Outcome};
use crate::http::{Payload, escaped};
use crate::output::{Column, say};
use crate::session::Session;
use serde_json::Value;

const JOBS: [Column; 6] = [
    ("ID", "/id"),
    ("STATUS", "/status"),
    ("TYPE", "/pageType"),
    ("CREATED", "/createdAt"),
    ("URL", "/url"),
    ("ERROR", "/error"),
];
const JOB: [Column; 12] = [
    ("ID", "/id"),
    ("URL", "/url"),
    ("STATUS", "/status"),
    ("ERROR", "/error"),
    ("RESULT", "/resultId"),
    ("TYPE", "/pageType"),
    ("TAGS", "/tags"),
    ("CREDITS", "/creditsCharged"),
    ("CREATED", "/createdAt"),
    ("STARTED", "/startedAt"),
    ("FINISHED", "/finishedAt"),
    ("WAITING", "/waiting/reason"),
];

pub async fn carry_out(session: &Session, command: JobsCommand) -> Outcome<()> {
    match command {
        JobsCommand::List { status, domain, tag, error, rows } => {
            let query = [("status", status), ("domain", domain), ("tag", tag), ("error", error)];
            session.list("/api/v1/jobs", &query, &rows, &JOBS).await
        }
        JobsCommand::Get { id } => {
            let job = session.remote.get(&format!("/api/v1/jobs/{}", escaped(&id))).await?;
            session.show(&job, &JOB)
        }
        JobsCommand::Retry { ids } => each(session, &ids, "retry").await,
        JobsCommand::Cancel { ids } => each(session, &ids, "cancel").await,
    }
}

/// Does the same to several jobs, one after another. What cannot be done to one is said and does not hold up the others.
async fn each(session: &Session, ids: &[String], what: &str) -> Outcome<()> {
    let mut done: Vec<Value> = Vec::new();
    let mut first_failure = None;
    for id in ids {
        let path = format!("/api/v1/jobs/{}/{what}", escaped(id));
        match session.remote.ask(http::Method::POST, &path, Payload::None).await {
            Ok(job) => done.push(job),
            Err(failure) if ids.len() == 1 => return Err(failure),
            Err(failure) => {
                match session.json {
                    true => say(&failure.json().to_string()),
                    false => say(&format!("gleaner: {id}: {failure}")),
                }
                first_failure = first_failure.or(Some(failure));
            }
        }
    }
    session.rows(&done, &JOBS)?;
    match first_failure {
        None => Ok(()),
        Some(failure) => {
            let failed = ids.len() - done.len();
            Err(Failure::new(failure.exit(), format!("{failed} of {} could not be done", ids.len())))
        }
    }
}
