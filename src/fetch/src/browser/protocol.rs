//! The DevTools protocol over Chromium's pipe (`--remote-debugging-pipe`): JSON messages, each ended by a zero byte.
//!
//! A pipe and not a socket: nobody else can connect to it, and the browser ends when it closes. Calls are answered by
//! their number, in any order; events go to the session (the page) that they tell of. What a page can make the browser
//! say is bounded: a message beyond [`MESSAGE_BYTES_MAX`] is skipped as it comes, and a page that says more than its
//! reader takes loses its session. Of what it loads a busy page says thousands of things, of which one is wanted: that
//! its document is larger than it may be. That is counted here ([`Client::watch`]), and the rest is left out.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

/// A page of [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX) bytes, each written as `\u00xx`.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// Events of one page that wait for their reader.
const EVENTS_MAX: usize = 2_048;
/// Messages to the browser that wait to be written.
const OUTBOX_MAX: usize = 256;
/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The event that tells of a watched document, once, when it is larger than it may be.
pub const TOLD_WHEN_OVER: &str = "Network.dataReceived";
/// Events that are heard here and not in the page.
const COUNTED: &str = "Network.";

/// Something that happened in a page.
#[derive(Debug)]
pub struct Event {
    pub method: String,
    pub params: Value,
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The browser has ended.
    Gone,
    /// The browser's own words.
    Refused(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the browser has ended"),
            Self::Refused(message) => write!(f, "the browser refused a command: {message}"),
        }
    }
}

#[derive(Deserialize)]
struct ProtocolMessage {
    id: Option<u64>,
    result: Option<Value>,
    error: Option<ProtocolError>,
    method: Option<String>,
    params: Option<Value>,
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

#[derive(Deserialize)]
struct ProtocolError {
    message: String,
}

type Answer = Result<Value, CallError>;

#[derive(Default)]
struct ClientState {
    last_id: u64,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    sessions: HashMap<String, Session>,
    is_gone: bool,
}

struct Session {
    events: mpsc::Sender<Event>,
    watched: Option<WatchedDocument>,
}

/// A document under way, and how much more of it may come.
struct WatchedDocument {
    request: String,
    bytes_left: u64,
}

impl Session {
    /// Whether an event is for the page.
    fn is_wanted(&mut self, method: &str, params: &Value) -> bool {
        if !method.starts_with(COUNTED) {
            return true;
        }
        let Some(watched) = &mut self.watched else { return false };
        if method != TOLD_WHEN_OVER || params["requestId"] != watched.request.as_str() {
            return false;
        }
        // Decompressed, and as it came where that is more.
        let bytes = ["dataLength", "encodedDataLength"].map(|count| params[count].as_u64().unwrap_or(0));
        let left = watched.bytes_left.checked_sub(bytes[0].max(bytes[1]));
        match left {
            Some(left) => watched.bytes_left = left,
            None => self.watched = None,
        }
        left.is_none()
    }
}

/// One browser's protocol.
#[derive(Clone)]
pub struct Client {
    outbox: mpsc::Sender<Vec<u8>>,
    state: Arc<Mutex<ClientState>>,
}

/// Forgets a call that nobody waits for any more.
struct PendingCall<'a>(&'a Mutex<ClientState>, u64);

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting.remove(&self.1);
    }
}

impl Client {
    /// Speaks over the browser's pipe: what it reads, and what it writes.
    pub fn new(its_input: pipe::Sender, its_output: pipe::Receiver) -> Self {
        let (outbox, messages) = mpsc::channel(OUTBOX_MAX);
        let client = Self { outbox, state: Arc::default() };
        tokio::spawn(write(its_input, messages));
        tokio::spawn(read(its_output, client.state.clone()));
        client
    }

    pub fn is_gone(&self) -> bool {
        self.state.lock().is_gone
    }

    /// Calls a method of the browser, or of a page.
    pub async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Answer {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = self.state.lock();
            if state.is_gone {
                return Err(CallError::Gone);
            }
            state.last_id += 1;
            let id = state.last_id;
            state.waiting.insert(id, answer);
            id
        };
        let _waiting = PendingCall(&self.state, id);
        let message = encode(id, session, method, params);
        self.outbox.send(message).await.map_err(|_| CallError::Gone)?;
        answered.await.unwrap_or(Err(CallError::Gone))
    }

    /// The same without waiting for what the browser says.
    pub async fn tell(&self, session: &str, method: &str, params: Value) {
        let id = {
            let mut state = self.state.lock();
            state.last_id += 1;
            state.last_id
        };
        // A browser that is gone says so at the next call.
        let _ = self.outbox.send(encode(id, Some(session), method, params)).await;
    }

    /// The events of a page, from now on. They end when the page does.
    pub fn listen(&self, session: &str) -> mpsc::Receiver<Event> {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let mut state = self.state.lock();
        if !state.is_gone {
            state.sessions.insert(session.to_owned(), Session { events: sender, watched: None });
        }
        events
    }

    /// Tells a page ([`TOLD_WHEN_OVER`]) when this request, in the place of any other, has brought more than so many bytes.
    pub fn watch(&self, session: &str, request: &str, bytes_max: usize) {
        if let Some(session) = self.state.lock().sessions.get_mut(session) {
            session.watched =
                Some(WatchedDocument { request: request.to_owned(), bytes_left: bytes_max as u64 });
        }
    }

    pub fn forget(&self, session: &str) {
        self.state.lock().sessions.remove(session);
    }
}

fn encode(id: u64, session: Option<&str>, method: &str, params: Value) -> Vec<u8> {
    let mut message = json!({ "id": id, "method": method, "params": params });
    if let Some(session) = session {
        message["sessionId"] = session.into();
    }
    let mut bytes = message.to_string().into_bytes();
    bytes.push(0);
    bytes
}

async fn write(mut pipe: pipe::Sender, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = messages.recv().await {
        if pipe.write_all(&message).await.is_err() {
            return;
        }
    }
}

async fn read(mut pipe: pipe::Receiver, state: Arc<Mutex<ClientState>>) {
    let mut splitter = Splitter::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        splitter.feed(&chunk[..count], |message| take(&state, message));
    }
    let mut state = state.lock();
    state.is_gone = true;
    state.waiting.clear();
    state.sessions.clear();
}

/// Cuts the stream into messages.
#[derive(Default)]
struct Splitter {
    message: Vec<u8>,
    is_skipping: bool,
}

impl Splitter {
    fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(0, bytes) {
            self.add(&bytes[..end]);
            if !self.is_skipping {
                take(&self.message);
            }
            self.message.clear();
            // One long message is no reason to keep its room for good.
            self.message.shrink_to(CHUNK_BYTES);
            self.is_skipping = false;
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.message.len() + bytes.len() > MESSAGE_BYTES_MAX {
            self.is_skipping = true;
            self.message = Vec::new();
        }
        if !self.is_skipping {
            self.message.extend_from_slice(bytes);
        }
    }
}

fn take(state: &Mutex<ClientState>, message: &[u8]) {
    let Ok(message) = serde_json::from_slice::<ProtocolMessage>(message) else {
        tracing::debug!(bytes = message.len(), "the browser said something that cannot be read");
        return;
    };
    let mut state = state.lock();
    if let Some(id) = message.id {
        let answer = match message.error {
            Some(refusal) => Err(CallError::Refused(refusal.message)),
            None => Ok(message.result.unwrap_or_default()),
        };
        if let Some(waiting) = state.waiting.remove(&id) {
            // Whoever asked may have gone.
            let _ = waiting.send(answer);
        }
        return;
    }
    let (Some(method), params) = (message.method, message.params.unwrap_or_default()) else { return };
    match message.session {
        Some(session) => {
            let Some(known) = state.sessions.get_mut(&session) else { return };
            if known.is_wanted(&method, &params) && known.events.try_send(Event { method, params }).is_err() {
                state.sessions.remove(&session);
            }
        }
        None if method == "Target.detachedFromTarget" => {
            if let Some(session) = params["sessionId"].as_str() {
                state.sessions.remove(session);
            }
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_zero_bytes_however_they_come() {
        let whole = b"{\"id\":1}\0{}\0\0{\"id\":2}\0rest";
        for size in 1..whole.len() {
            let (mut splitter, mut got) = (Splitter::default(), Vec::new());
            for chunk in whole.chunks(size) {
                splitter.feed(chunk, |message| got.push(String::from_utf8_lossy(message).into_owned()));
            }
            assert_eq!(got, ["{\"id\":1}", "{}", "", "{\"id\":2}"], "{size}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_skipped_and_the_next_one_read() {
        let (mut splitter, mut got) = (Splitter::default(), Vec::new());
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            splitter.feed(&chunk, |_| unreachable!("it has no end yet"));
            assert!(splitter.message.len() <= MESSAGE_BYTES_MAX);
        }
        splitter.feed(b"x\0{}\0", |message| got.push(message.to_vec()));
        assert_eq!(got, [b"{}"]);
    }

    /// A client, and the other ends of its pipes.
    fn pair() -> (Client, pipe::Receiver, pipe::Sender) {
        let (ours_in, ours_out) = (pipe::pipe().unwrap(), pipe::pipe().unwrap());
        (Client::new(ours_in.0, ours_out.1), ours_in.1, ours_out.0)
    }

    async fn heard(pipe: &mut pipe::Receiver) -> Value {
        let mut message = Vec::new();
        loop {
            match pipe.read_u8().await.unwrap() {
                0 => return serde_json::from_slice(&message).unwrap(),
                byte => message.push(byte),
            }
        }
    }

    #[tokio::test]
    async fn a_document_tells_once_that_it_is_too_large_and_nothing_else_of_the_network() {
        let (client, _its_in, mut its_out) = pair();
        let mut events = client.listen("S1");
        let data = |request: &str, bytes: u64, encoded: u64| {
            json!({ "method": TOLD_WHEN_OVER, "sessionId": "S1", "params": {
                "requestId": request, "dataLength": bytes, "encodedDataLength": encoded,
            } })
        };
        client.watch("S1", "old", 1);
        client.watch("S1", "page", 100);
        let mut told = vec![
            json!({ "method": "Network.responseReceived", "sessionId": "S1", "params": {} }),
            data("old", 1_000, 0),
            data("picture", 1_000, 1_000),
            data("page", 60, 10),
            data("page", 1, 40),
            json!({ "method": "Page.x", "sessionId": "S1", "params": {} }),
            data("page", 1, 1),
            data("page", 1_000, 1),
        ];
        told.push(json!({ "method": "Page.y", "sessionId": "S1", "params": {} }));
        for message in told {
            its_out.write_all(format!("{message}\0").as_bytes()).await.unwrap();
        }
        for method in ["Page.x", TOLD_WHEN_OVER, "Page.y"] {
            assert_eq!(events.recv().await.unwrap().method, method);
        }
    }

    #[tokio::test]
    async fn answers_find_their_calls_and_events_their_page() {
        let (client, mut its_in, mut its_out) = pair();
        let mut events = client.listen("S1");
        let browser = tokio::spawn(async move {
            let first = heard(&mut its_in).await;
            let second = heard(&mut its_in).await;
            for message in [
                json!({ "method": "Page.x", "params": { "a": 1 }, "sessionId": "S1" }),
                json!({ "method": "Page.y", "params": {}, "sessionId": "S2" }),
                json!({ "id": second["id"], "result": { "of": second["method"] } }),
                json!({ "id": first["id"], "error": { "code": 1, "message": "no" } }),
            ] {
                its_out.write_all(format!("{message}\0").as_bytes()).await.unwrap();
            }
            (first, its_in, its_out)
        });
        let (first, second) = tokio::join!(
            client.call(Some("S1"), "A.a", json!({ "p": 1 })),
            client.call(None, "B.b", json!({}))
        );
        assert_eq!(first, Err(CallError::Refused("no".to_owned())));
        assert_eq!(second, Ok(json!({ "of": "B.b" })));
        let event = events.recv().await.unwrap();
        assert_eq!((event.method.as_str(), &event.params["a"]), ("Page.x", &json!(1)));
        let (sent, its_in, its_out) = browser.await.unwrap();
        assert_eq!((&sent["sessionId"], &sent["params"]["p"]), (&json!("S1"), &json!(1)));
        drop((its_in, its_out));
        assert!(events.recv().await.is_none(), "the browser's end is the page's");
        assert_eq!(client.call(None, "C.c", json!({})).await, Err(CallError::Gone));
        assert!(client.state.lock().waiting.is_empty());
    }
}
