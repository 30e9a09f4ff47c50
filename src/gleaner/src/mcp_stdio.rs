//! `gleaner mcp`: the Model Context Protocol over standard input and output, for clients that only start programs. Each line is sent
//! to a box's `/mcp`, and what it answers is a line again; nothing else is printed there.
//!
//! What the protocol says of itself in headers over HTTP ("Standard headers" of its transport) is read out of the messages here.

use base::web::WebUrl;
use base::{Error, Result};
use bytes::Bytes;
use fetch::connect::{Outgoing, Resolver};
use fetch::{AddressGuard, AllowRule, Connector, FetchSettings};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{HeaderName, Method};
use http_body_util::{BodyExt, Limited};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Bytes of a message, and of an answer.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Messages that are under way at a time; more wait on standard input.
const UNDER_WAY_MAX: usize = 8;
/// The box gives up before this.
const TIME_MAX: Duration = Duration::from_secs(90);

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const VERSION_OF_REQUEST: &str = "io.modelcontextprotocol/protocolVersion";

/// Which box, and as whom.
pub struct Settings {
    /// Its address, as in a browser.
    pub url: String,
    /// A file with the API key; else it is in `GLEANER_API_KEY`, so that it stands in no list of processes.
    pub key_file: Option<PathBuf>,
}

/// Passes messages on until standard input ends.
pub async fn run(settings: Settings) -> Result<()> {
    let remote = Arc::new(Remote::new(&settings)?);
    let (lines, mut incoming) = mpsc::channel(1);
    std::thread::spawn(move || read_lines(&mut io::stdin().lock(), &lines));
    let under_way = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    while let Some(line) = incoming.recv().await {
        let place = Arc::clone(&under_way).acquire_owned().await;
        let place = place.map_err(|e| Error::internal("wait for a place", e))?;
        let remote = Arc::clone(&remote);
        // The greeting decides what the messages behind it say, so nothing overtakes it.
        let is_greeting = line.contains("\"initialize\"");
        let passed = tokio::spawn(async move {
            for answer in remote.pass_on(&line).await {
                print(&answer);
            }
            drop(place);
        });
        if is_greeting {
            let _ = passed.await;
        }
    }
    let all = under_way.acquire_many(UNDER_WAY_MAX as u32).await;
    all.map(drop).map_err(|e| Error::internal("wait for the last answers", e))
}

/// One message a line. The thread ends with standard input, or with the program.
fn read_lines(input: &mut impl BufRead, lines: &mpsc::Sender<String>) {
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(MESSAGE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) || line.len() > MESSAGE_BYTES_MAX {
            return;
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if !line.is_empty() && lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// A client that has gone reads no more, and is no reason to fail.
fn print(answer: &Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
}

/// The box on the other side.
struct Remote {
    connector: Connector,
    place: WebUrl,
    path: String,
    key: HeaderValue,
    /// The revision that the greeting came to; later ones say theirs in every message.
    version: Mutex<Option<String>>,
}

impl Remote {
    fn new(settings: &Settings) -> Result<Remote> {
        let place =
            WebUrl::parse(&settings.url).map_err(|e| Error::invalid("--url (GLEANER_URL)", e.to_string()))?;
        let key = match &settings.key_file {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|e| Error::invalid("--key-file", format!("{}: {e}", file.display())))?,
            None => std::env::var("GLEANER_API_KEY").map_err(|_| {
                Error::invalid(
                    "GLEANER_API_KEY",
                    "is not set: give it an API key of the box, or use --key-file",
                )
            })?,
        };
        let mut key = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
            .map_err(|_| Error::invalid("GLEANER_API_KEY", "has characters that no key has"))?;
        key.set_sensitive(true);
        // The person at this machine says where the box is, so every address is theirs to choose.
        let everywhere = ["0.0.0.0/0", "::/0"].map(|network| network.parse::<AllowRule>());
        let everywhere = everywhere.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        let everywhere = everywhere.map_err(|e| Error::internal("allow every address", e))?;
        let guard = AddressGuard::new(&everywhere, &[]);
        let connector = Connector::new(guard, Resolver::default(), &FetchSettings::default());
        let path = format!("{}/mcp", place.as_url().path().trim_end_matches('/'));
        Ok(Remote { connector, place, path, key, version: Mutex::new(None) })
    }

    /// What is answered to a message; nothing to a notification.
    async fn pass_on(&self, line: &str) -> Vec<Value> {
        let message: Value = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) => {
                return vec![failure(Value::Null, -32_700, &format!("The message is not JSON: {error}"))];
            }
        };
        let answered = tokio::time::timeout(TIME_MAX, self.ask(&message, line)).await;
        let answered = answered
            .unwrap_or_else(|_| Err(format!("The box did not answer within {} s.", TIME_MAX.as_secs())));
        match (answered, message.get("id")) {
            (Ok(answers), _) => {
                if message["method"] == "initialize" {
                    let agreed =
                        answers.first().and_then(|answer| answer["result"]["protocolVersion"].as_str());
                    *self.version.lock() = agreed.map(str::to_owned);
                }
                answers
            }
            (Err(told), Some(id)) => vec![failure(id.clone(), -32_000, &told)],
            (Err(told), None) => {
                eprintln_line(&told);
                Vec::new()
            }
        }
    }

    async fn ask(&self, message: &Value, line: &str) -> std::result::Result<Vec<Value>, String> {
        let headers = self.headers(message);
        let outgoing = Outgoing {
            place: &self.place,
            path: &self.path,
            method: Method::POST,
            headers: &headers,
            body: Bytes::copy_from_slice(line.as_bytes()),
            via: None,
            owner: None,
        };
        let (response, lease) = self.connector.send(&outgoing).await.map_err(|e| e.to_string())?;
        let (parts, body) = response.into_parts();
        let bytes = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let bytes = bytes.map_err(|e| format!("The box's answer broke off: {e}"))?.to_bytes();
        lease.finish();
        let is_stream =
            parts.headers.get(CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
        let text = String::from_utf8_lossy(&bytes);
        let answers: Vec<Value> = match is_stream {
            true => text
                .lines()
                .filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok())
                .collect(),
            false => serde_json::from_str(&text).ok().into_iter().collect(),
        };
        // The protocol's own errors come with other statuses as well.
        if parts.status.is_success() || answers.iter().any(|answer| answer.get("jsonrpc").is_some()) {
            return Ok(answers);
        }
        let told = answers.first().map(|answer| {
            let part = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", part("error"), part("message"))
        });
        Err(format!("The box answers {}. {}", parts.status.as_u16(), told.unwrap_or_default())
            .trim_end()
            .to_owned())
    }

    fn headers(&self, message: &Value) -> HeaderMap {
        let params = &message["params"];
        let own_version = params["_meta"][VERSION_OF_REQUEST].as_str().map(str::to_owned);
        let version = own_version.or_else(|| self.version.lock().clone());
        let name = params["name"].as_str().or_else(|| params["uri"].as_str());
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, self.key.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let told =
            [(PROTOCOL_VERSION, version.as_deref()), (METHOD, message["method"].as_str()), (NAME, name)];
        for (header, text) in told {
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(&header_text(text)).ok()) {
                headers.insert(header, value);
            }
        }
        headers
    }
}

/// A text as the protocol writes it into a header: in base64 where it is no plain one.
fn header_text(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text.trim() == text;
    match is_plain && !(text.starts_with("=?base64?") && text.ends_with("?=")) {
        true => text.to_owned(),
        false => {
            use base64::Engine;
            format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
        }
    }
}

fn failure(id: Value, code: i64, told: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": told } })
}

fn eprintln_line(told: &str) {
    crate::log::say(&mut io::stderr(), &format!("gleaner: {told}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_header_text_are_coded() {
        assert_eq!(header_text("run_sql"), "run_sql");
        assert_eq!(header_text("größe"), "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(header_text(" a"), "=?base64?IGE=?=");
        assert_eq!(header_text("=?base64?YQ==?="), "=?base64?PT9iYXNlNjQ/WVE9PT89?=");
    }

    #[test]
    fn lines_come_one_by_one_and_a_huge_one_ends_it() {
        let (lines, mut incoming) = mpsc::channel(8);
        read_lines(&mut &b"{\"a\":1}\r\n\n  {}\n"[..], &lines);
        let huge = vec![b'x'; MESSAGE_BYTES_MAX + 2];
        read_lines(&mut &huge[..], &lines);
        drop(lines);
        assert_eq!(incoming.try_recv().unwrap(), "{\"a\":1}");
        assert_eq!(incoming.try_recv().unwrap(), "{}");
        assert!(incoming.try_recv().is_err());
    }
}
