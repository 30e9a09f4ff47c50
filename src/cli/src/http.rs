//! The box over HTTP: requests one after another over a connection that is kept, errors as [`Failure`]s.

use crate::failure::{Exit, Failure, Outcome};
use base::web::WebUrl;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use url::Host;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the box may be silent: before its answer, and between two parts of it. Streams of events beat every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How long a connection may take to see that its last answer has ended.
const READY_MAX: Duration = Duration::from_millis(20);
/// Bytes of an answer that is held in memory: no page of a list comes near.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How often a request is made again that the box asked to make later, and how long it is waited for that at most.
const LATER_MAX: u32 = 5;
const LATER_WAIT_MAX: Duration = Duration::from_secs(30);
/// Bytes of a file that are sent at once.
const PART_BYTES: usize = 64 << 10;

type Sent = UnsyncBoxBody<Bytes, io::Error>;
type Connection = SendRequest<Sent>;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A box, or another address that is spoken to over HTTP.
pub struct Remote {
    place: WebUrl,
    key: Option<HeaderValue>,
    /// Certificate authorities beside the machine's.
    roots: Vec<CertificateDer<'static>>,
    tls: RefCell<Option<TlsConnector>>,
    /// The connection that was used last.
    kept: RefCell<Option<Connection>>,
    /// Bytes of files that went out so far.
    uploaded: Arc<AtomicU64>,
}

/// An answer whose body is still to be read.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
}

impl Answer {
    /// The next part of the body; none at its end.
    pub async fn part(&mut self) -> Outcome<Option<Bytes>> {
        loop {
            let frame = tokio::time::timeout(SILENCE_MAX, self.body.frame()).await;
            match frame.map_err(|_| away("the answer broke off: nothing came any more"))? {
                None => return Ok(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_trailers) => continue,
                },
                Some(Err(error)) => return Err(away(format!("the answer broke off: {}", told(&error)))),
            }
        }
    }

    /// The whole body.
    pub async fn bytes(mut self) -> Outcome<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(part) = self.part().await? {
            if all.len() + part.len() > ANSWER_BYTES_MAX {
                return Err(Failure::failed(format!(
                    "the answer has more than {} MiB",
                    ANSWER_BYTES_MAX >> 20
                )));
            }
            all.extend_from_slice(&part);
        }
        Ok(all)
    }

    /// The same answer if it is a good one; else why not.
    pub async fn good(self) -> Outcome<Answer> {
        if self.status.is_success() {
            return Ok(self);
        }
        let (status, headers) = (self.status, self.headers.clone());
        Err(Failure::of_answer(status, &headers, &self.bytes().await.unwrap_or_default()))
    }

    pub async fn json(self) -> Outcome<Value> {
        let bytes = self.bytes().await?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|e| Failure::failed(format!("the answer is no JSON: {e}")))
    }
}

/// What is sent with a request.
pub enum Payload {
    None,
    Bytes(&'static str, Bytes),
    /// A file or standard input, sent as it is read; it cannot be sent again.
    Stream(String, Box<dyn AsyncRead + Send + Unpin>),
}

impl Payload {
    pub fn json(value: &Value) -> Payload {
        Payload::Bytes("application/json", value.to_string().into())
    }
}

impl Remote {
    /// The box at `place`, with an API key, trusting the certificates of the file `ca` too.
    pub fn new(place: &str, key: Option<&str>, ca: Option<&Path>) -> Outcome<Remote> {
        let place = WebUrl::parse(place)
            .map_err(|e| Failure::usage(place, format!("is no address such as https://box.example: {e}")))?;
        let key = key.map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
                .map_err(|_| Failure::usage("the API key", "has characters that no key has"))?;
            value.set_sensitive(true);
            Ok::<_, Failure>(value)
        });
        let roots = ca.map(authorities).transpose()?.unwrap_or_default();
        Ok(Remote {
            place,
            key: key.transpose()?,
            roots,
            tls: RefCell::default(),
            kept: RefCell::default(),
            uploaded: Arc::default(),
        })
    }

    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// The address as it was understood.
    pub fn place(&self) -> &str {
        self.place.as_str().trim_end_matches('/')
    }

    pub async fn get(&self, path: &str) -> Outcome<Value> {
        self.ask(Method::GET, path, Payload::None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Outcome<Value> {
        self.ask(Method::POST, path, Payload::json(body)).await
    }

    /// A good answer's JSON.
    pub async fn ask(&self, method: Method, path: &str, payload: Payload) -> Outcome<Value> {
        self.send(method, path, &[], payload).await?.good().await?.json().await
    }

    /// The answer to a request, whatever its status. What the box wants later (429) is made again when it wants it; so is a
    /// read while it says that it cannot answer at the moment (503).
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        payload: Payload,
    ) -> Outcome<Answer> {
        let mut payload = Some(payload);
        let mut later = 0;
        loop {
            let (this, again) = match payload.take() {
                Some(Payload::Bytes(media, bytes)) => {
                    (Payload::Bytes(media, bytes.clone()), Some(Payload::Bytes(media, bytes)))
                }
                Some(Payload::None) => (Payload::None, Some(Payload::None)),
                Some(stream) => (stream, None),
                None => return Err(Failure::failed("what was read from a stream cannot be sent again")),
            };
            let answer = self.exchange(&method, path, headers, this).await?;
            let is_later = answer.status == StatusCode::TOO_MANY_REQUESTS
                || (answer.status == StatusCode::SERVICE_UNAVAILABLE && method == Method::GET);
            let wait = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            let wait = wait.map(Duration::from_secs).filter(|wait| *wait <= LATER_WAIT_MAX);
            match (again, wait) {
                (Some(again), Some(wait)) if is_later && later < LATER_MAX => {
                    payload = Some(again);
                    later += 1;
                    tokio::time::sleep(wait).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&'static str, String)],
        payload: Payload,
    ) -> Outcome<Answer> {
        let is_repeatable = matches!(payload, Payload::None);
        let request = self.request(method, path, headers, payload)?;
        let (mut connection, is_kept) = match self.usable().await {
            Some(kept) => (kept, true),
            None => (self.connect().await?, false),
        };
        let sent = self.answered(connection.send_request(request)).await?;
        let response = match sent {
            Ok(response) => response,
            // A server may close what it has kept open, at any moment.
            Err(_) if is_kept && is_repeatable && *method == Method::GET => {
                let request = self.request(method, path, headers, Payload::None)?;
                connection = self.connect().await?;
                let sent = self.answered(connection.send_request(request)).await?;
                sent.map_err(|e| away(format!("{} ended the connection: {}", self.place(), told(&e))))?
            }
            Err(error) => {
                return Err(away(format!("{} ended the connection: {}", self.place(), told(&error))));
            }
        };
        self.kept.replace(Some(connection));
        let (parts, body): (_, Incoming) = Response::into_parts(response);
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }

    /// Waits for the answer to a request: while a file goes out, and then as long as the box may be silent.
    async fn answered<T>(&self, answer: impl Future<Output = T>) -> Outcome<T> {
        let mut answer = std::pin::pin!(answer);
        loop {
            let before = self.uploaded.load(Ordering::Relaxed);
            match tokio::time::timeout(SILENCE_MAX, answer.as_mut()).await {
                Ok(answer) => return Ok(answer),
                Err(_) if self.uploaded.load(Ordering::Relaxed) > before => {}
                Err(_) => return Err(away(format!("{} does not answer", self.place()))),
            }
        }
    }

    /// The connection that was used last, if it can take another request: one that still brings an answer cannot.
    async fn usable(&self) -> Option<Connection> {
        let mut kept = self.kept.take()?;
        // Its driver has not run while a prompt waited for keys, and has to see first that the box closed it.
        tokio::task::yield_now().await;
        let is_ready = tokio::time::timeout(READY_MAX, kept.ready()).await;
        matches!(is_ready, Ok(Ok(()))).then_some(kept)
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&'static str, String)],
        payload: Payload,
    ) -> Outcome<Request<Sent>> {
        let prefix = self.place.as_url().path().trim_end_matches('/');
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{prefix}{path}"))
            .header(HOST, self.place.authority().as_ref())
            .header(USER_AGENT, concat!("gleaner-cli/", env!("CARGO_PKG_VERSION")))
            // A misspelt name is refused and not ignored.
            .header("prefer", "handling=strict");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
            request = request.header(ACCEPT, "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let body: Sent = match payload {
            Payload::None => Full::default().map_err(|never| match never {}).boxed_unsync(),
            Payload::Bytes(media, bytes) => {
                request = request.header(CONTENT_TYPE, media);
                Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
            }
            Payload::Stream(media, reader) => {
                request = request.header(CONTENT_TYPE, media);
                let uploaded = Arc::clone(&self.uploaded);
                ReaderBody { reader, part: vec![0; PART_BYTES].into(), uploaded }.boxed_unsync()
            }
        };
        request.body(body).map_err(|e| Failure::usage(path, format!("cannot be asked for: {e}")))
    }

    async fn connect(&self) -> Outcome<Connection> {
        let name = self.place.authority().into_owned();
        let opened = tokio::time::timeout(CONNECT_MAX, self.open()).await;
        let stream = opened
            .map_err(|_| away(format!("{name} does not take connections")))?
            .map_err(|e| away(format!("{name} cannot be reached: {e}")))?;
        let (sender, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|e| away(format!("{name}: {}", told(&e))))?;
        tokio::spawn(async move {
            // What ends it is told by the request that is under way.
            let _ = driver.await;
        });
        Ok(sender)
    }

    async fn open(&self) -> io::Result<Box<dyn Stream>> {
        let port = self.place.port();
        let stream = match self.place.host_kind() {
            Host::Domain(name) => TcpStream::connect((name, port)).await?,
            Host::Ipv4(address) => TcpStream::connect((address, port)).await?,
            Host::Ipv6(address) => TcpStream::connect((address, port)).await?,
        };
        stream.set_nodelay(true)?;
        if !self.place.is_https() {
            return Ok(Box::new(stream));
        }
        let connector = self.tls.borrow().clone();
        let connector = connector.unwrap_or_else(|| {
            TlsConnector::from(Arc::new(fetch::tls::client_config(&self.roots, &[b"http/1.1"])))
        });
        self.tls.replace(Some(connector.clone()));
        let name = self.place.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

/// The certificates of a PEM file.
fn authorities(file: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    let wrong = |reason: String| Failure::usage("--ca", format!("{}: {reason}", file.display()));
    let text = std::fs::read(file).map_err(|e| wrong(e.to_string()))?;
    let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    match read.map_err(|e| wrong(e.to_string()))? {
        none if none.is_empty() => Err(wrong("has no certificate (PEM)".to_owned())),
        some => Ok(some),
    }
}

fn away(title: impl Into<String>) -> Failure {
    Failure::new(Exit::Away, title)
}

/// An error of the connection with what is behind it.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// A body that is read while it is sent.
struct ReaderBody {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    part: Box<[u8]>,
    uploaded: Arc<AtomicU64>,
}

impl Body for ReaderBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let mut part = ReadBuf::new(&mut this.part);
        if let Err(error) = ready!(Pin::new(&mut this.reader).poll_read(context, &mut part)) {
            return Poll::Ready(Some(Err(error)));
        }
        match part.filled() {
            [] => Poll::Ready(None),
            filled => {
                this.uploaded.fetch_add(filled.len() as u64, Ordering::Relaxed);
                Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(filled)))))
            }
        }
    }
}

/// A part of a path or a query, with what has a meaning there escaped.
pub fn escaped(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

/// A path with the parameters that are given.
pub fn with_query(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let query: Vec<_> = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    match query.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", query.join("&")),
    }
}

/// The part of a link of the box that is the API's: its own address may be another than the one that it is reached by.
pub fn path_of_link(link: &str) -> Option<&str> {
    link.find("/api/v1/").map(|at| &link[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_hold_what_is_given_and_escaped() {
        let path = with_query("/api/v1/urls", &[("tag", Some("a b&c".into())), ("q", None)]);
        assert_eq!(path, "/api/v1/urls?tag=a%20b%26c");
        assert_eq!(with_query("/x", &[("q", None)]), "/x");
        assert_eq!(path_of_link("https://box/under/api/v1/raw/abc"), Some("/api/v1/raw/abc"));
        assert_eq!(path_of_link("https://box/x"), None);
    }

    #[test]
    fn what_is_no_address_is_wrong_usage() {
        for (place, key) in [("box", None), ("ftp://box", None), ("http://box", Some("a\nb"))] {
            let failure = Remote::new(place, key, None).err().unwrap();
            assert_eq!(failure.exit(), Exit::Usage, "{place}: {failure}");
        }
        let failure = Remote::new("http://box", None, Some(Path::new("/nonexistent.pem"))).err().unwrap();
        assert!(failure.to_string().starts_with("--ca: /nonexistent.pem: "), "{failure}");
    }
}
