//! The operator's way in: a Unix socket in the data folder that only its owner can open, and the commands on it.
//!
//! One request and one answer a connection, each one line of JSON. There is no password: who can open the socket can
//! read the data folder anyway (mode 0600, in a folder of mode 0700).

use crate::config::Config;
use crate::doctor::Checkup;
use crate::features::wiring;
use base::audit::Action;
use base::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Services;
use std::fs::{File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::{Event, Origin};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

pub mod commands;

pub use wiring::commands::Request;

/// The box's own commands, by their names on the socket: where it stands, and to believe at once that the machine was off for
/// as long as its clock says.
const STATUS: &str = "status";
const CLOCK_ACCEPT: &str = "clock_accept";
/// To look after the box's data, and how far that is.
const DOCTOR: &str = "doctor";
const DOCTOR_ASK: &str = "doctor_ask";
/// How often it is asked how far a look is.
const ASKED_EVERY: Duration = Duration::from_millis(300);

/// A request line, bytes: schemas are imported through it.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// The longest path of a socket that the kernel takes: 108 bytes with a zero at the end (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// How long one connection may take.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);
/// Time before the next connection is accepted after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ok(Value),
    Refused(String),
}

/// Numbers of the box for `status`; app knows them.
pub type StatusFn = Arc<dyn Fn() -> Value + Send + Sync>;

/// The operator's socket; it is removed when this is dropped.
pub struct AdminSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
    accepting: Option<JoinHandle<()>>,
}

impl AdminSocket {
    /// Opens the socket, replacing one that a dead process left: whoever calls has the data folder to itself. Nobody is
    /// answered yet.
    pub fn bind(path: PathBuf) -> Result<AdminSocket> {
        let failed = |e: std::io::Error| {
            let reason = format!("the operator's socket {} cannot be opened: {e}", path.display());
            Error::invalid("storage.data_dir", reason)
        };
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let way = Way::to(&path).map_err(failed)?;
        let listener = UnixListener::bind(&way.path).map_err(failed)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(AdminSocket { path, listener: Some(listener), accepting: None })
    }

    /// Answers from now on.
    pub fn serve(&mut self, services: Arc<Services>, status: StatusFn, config: &Config) {
        let checkup = Checkup::of(config);
        let Some(listener) = self.listener.take() else { return };
        self.accepting = Some(tokio::spawn(async move {
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
                let (services, status, checkup) = (services.clone(), status.clone(), checkup.clone());
                tokio::spawn(async move {
                    let served = serve(stream, services, &status, &checkup);
                    let served = tokio::time::timeout(CONNECTION_TIME_MAX, served);
                    if let Ok(Err(error)) = served.await {
                        tracing::warn!(%error, "an operator's connection failed");
                    }
                });
            }
        }));
    }
}

/// How the kernel is told of a socket: by its path, or, where that is longer than it takes, through its open folder.
struct Way {
    path: PathBuf,
    _folder: Option<File>,
}

impl Way {
    fn to(path: &Path) -> std::io::Result<Way> {
        let is_short = path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX;
        let (Some(folder), Some(name), false) = (path.parent(), path.file_name(), is_short) else {
            return Ok(Way { path: path.to_owned(), _folder: None });
        };
        let folder = File::open(folder)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Way { path, _folder: Some(folder) })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
        // It may be gone with its folder already.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(
    stream: UnixStream,
    services: Arc<Services>,
    status: &StatusFn,
    checkup: &Arc<Checkup>,
) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(LINE_BYTES_MAX)).read_line(&mut line).await?;
    let answer = match serde_json::from_str(&line) {
        Ok(request) => match Origin::operator().scope(answer(request, services, status, checkup)).await {
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

async fn answer(
    request: Request,
    services: Arc<Services>,
    status: &StatusFn,
    checkup: &Arc<Checkup>,
) -> Result<Value> {
    match request.command.as_str() {
        STATUS => Ok(status()),
        DOCTOR => Ok(checkup.begin(&services)),
        DOCTOR_ASK => Ok(checkup.ask()),
        CLOCK_ACCEPT => {
            let accepted = services.clock().accept();
            if let Some(off) = accepted {
                let event = Event::new(Action::ClockAccepted).with("offSec", off.as_secs());
                services.system().write(move |tx| tx.audit(event)).await?;
            }
            Ok(json!({ "acceptedOffSec": accepted.map(|off| off.as_secs()) }))
        }
        _ => wiring::commands::run(request, services).await,
    }
}

/// Why nobody could be spoken to: a box of another user is not one that is off.
fn silent(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display();
    Error::unavailable(match error.kind() {
        std::io::ErrorKind::PermissionDenied => format!(
            "the appliance's socket {path} may not be opened: {error}. Speak to it as the user that it runs as."
        ),
        _ => format!(
            "no appliance answers at {path}: {error}. Is `gleaner serve` running? A box with a configuration of its own is \
             found by --config FILE or --socket FILE."
        ),
    })
}

/// Sends one command to the box whose socket is at `path`.
pub async fn call(path: &Path, request: &impl Serialize) -> Result<Value> {
    let doing = "speak to the appliance";
    let silent = |e: std::io::Error| silent(path, &e);
    let way = Way::to(path).map_err(silent)?;
    let mut stream = UnixStream::connect(&way.path).await.map_err(silent)?;
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

/// Whether a box answers at `path`.
pub async fn is_answering(path: &Path) -> bool {
    match Way::to(path) {
        Ok(way) => UnixStream::connect(&way.path).await.is_ok(),
        Err(_) => false,
    }
}

/// Has the box whose socket is at `path` look after its data, and waits for what it finds.
pub async fn checkup(path: &Path) -> Result<Value> {
    let command = |name: &str| Request { command: name.to_owned(), given: serde_json::Map::new() };
    call(path, &command(DOCTOR)).await?;
    loop {
        let mut answer = call(path, &command(DOCTOR_ASK)).await?;
        match answer["state"].as_str() {
            Some("done") => return Ok(answer.take()),
            // Somebody else has taken what it found.
            Some("idle") => drop(call(path, &command(DOCTOR)).await?),
            _ => tokio::time::sleep(ASKED_EVERY).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_box_of_another_user_is_not_said_to_be_off() {
        let closed = std::io::Error::from_raw_os_error(libc::EACCES);
        let said = silent(Path::new("/srv/gleaner/admin.sock"), &closed).for_operator();
        assert!(
            said.starts_with("the appliance's socket /srv/gleaner/admin.sock may not be opened"),
            "{said}"
        );
        assert!(said.contains("as the user that it runs as") && !said.contains("serve"), "{said}");
        let folder = tempfile::tempdir().unwrap();
        let said = call(
            &folder.path().join("admin.sock"),
            &Request { command: STATUS.to_owned(), given: serde_json::Map::new() },
        )
        .await
        .unwrap_err()
        .for_operator();
        assert!(said.contains("Is `gleaner serve` running?"), "{said}");
    }
}
