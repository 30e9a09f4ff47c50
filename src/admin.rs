//! The operator's way in: a Unix socket in the data folder that only its owner can open, and the commands on it.
//!
//! One request and one answer a connection, each one line of JSON. There is no password: who can open the socket can
//! read the data folder anyway (mode 0600, in a folder of mode 0700).

use crate::base::ids::MailId;
use crate::base::{Error, Result};
use crate::features::mail::Mailer;
use crate::features::{auth, extraction, mail};
use crate::http::Services;
use crate::store::Origin;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// A request line, bytes: schemas are imported through it.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// How long one connection may take.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);
/// Time before the next connection is accepted after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What an operator asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// Where the box stands.
    Status,
    /// Marks a user's e-mail address as verified.
    UserVerify { email: String },
    /// Messages, newest first: what waits, what was sent, what failed and why.
    Outbox { limit: usize },
    /// Tries to send again what failed or waits: the message of this id, or all.
    OutboxRetry { id: Option<MailId> },
    /// Adds the schemas of a JSON document; `domain` for those that name none.
    SchemaImport { json: String, domain: Option<String> },
    /// All platform schemas as such a document.
    SchemaExport,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ok(Value),
    Refused(String),
}

/// Numbers of the box for `status`; app knows them.
pub type StatusFn = Arc<dyn Fn() -> Value + Send + Sync>;

/// The listening socket; it is removed when this is dropped.
pub struct AdminSocket {
    path: PathBuf,
    accepting: JoinHandle<()>,
}

impl AdminSocket {
    /// Opens the socket, replacing one that a dead process left.
    pub fn open(path: PathBuf, services: Arc<Services>, status: StatusFn) -> Result<AdminSocket> {
        let failed = |e: std::io::Error| Error::internal("open the operator's socket", e);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        let accepting = tokio::spawn(async move {
            loop {
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, most likely: the next try would fail at once, too.
                        tracing::warn!(%error, "an operator's connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                let (services, status) = (services.clone(), status.clone());
                tokio::spawn(async move {
                    let served = tokio::time::timeout(CONNECTION_TIME_MAX, serve(stream, &services, &status));
                    if let Ok(Err(error)) = served.await {
                        tracing::warn!(%error, "an operator's connection failed");
                    }
                });
            }
        });
        Ok(AdminSocket { path, accepting })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.accepting.abort();
        // It may be gone with its folder already.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(stream: UnixStream, services: &Services, status: &StatusFn) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(LINE_BYTES_MAX)).read_line(&mut line).await?;
    let answer = match serde_json::from_str(&line) {
        Ok(request) => match Origin::operator().scope(answer(request, services, status)).await {
            Ok(value) => Answer::Ok(value),
            Err(error) => {
                tracing::warn!(%error, "an operator's command was refused");
                Answer::Refused(error.for_operator())
            }
        },
        Err(error) => Answer::Refused(format!("not a command: {error}")),
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    write.write_all(text.as_bytes()).await
}

async fn answer(request: Request, services: &Services, status: &StatusFn) -> Result<Value> {
    let system = services.system();
    match request {
        Request::Status => Ok(status()),
        Request::UserVerify { email } => {
            let user = auth::verify_by_operator(system, &email).await?;
            Ok(json!({ "verified": user }))
        }
        Request::Outbox { limit } => {
            let mails = system.read(|tx| mail::outbox(tx, limit))?;
            Ok(serde_json::to_value(mails).map_err(|e| Error::internal("write the outbox", e))?)
        }
        Request::OutboxRetry { id } => {
            let retried = mail::retry(system, &services.service::<Mailer>(), id).await?;
            Ok(serde_json::to_value(retried).map_err(|e| Error::internal("write what is tried again", e))?)
        }
        Request::SchemaImport { json, domain } => {
            let summary = extraction::import_schemas(system, &json, domain.as_deref()).await?;
            Ok(serde_json::to_value(summary).map_err(|e| Error::internal("write the import's summary", e))?)
        }
        Request::SchemaExport => extraction::export_schemas(system),
    }
}

/// Sends one command to the box whose socket is at `path`.
pub async fn call(path: &Path, request: &Request) -> Result<Value> {
    let doing = "speak to the appliance";
    let mut stream = UnixStream::connect(path).await.map_err(|e| {
        Error::unavailable(format!(
            "no appliance answers at {}: {e}. Is `gleaner serve` running?",
            path.display()
        ))
    })?;
    let mut line = serde_json::to_string(request).map_err(|e| Error::internal(doing, e))?;
    line.push('\n');
    stream.write_all(line.as_bytes()).await.map_err(|e| Error::internal(doing, e))?;
    let mut text = String::new();
    BufReader::new(stream).read_to_string(&mut text).await.map_err(|e| Error::internal(doing, e))?;
    match serde_json::from_str(&text) {
        Ok(Answer::Ok(value)) => Ok(value),
        Ok(Answer::Refused(reason)) => Err(Error::conflict(reason)),
        Err(error) => Err(Error::internal(doing, error)),
    }
}
