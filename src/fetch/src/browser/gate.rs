//! The only way out of the browser: a proxy of our own on loopback, one for each page.
//!
//! Chromium resolves and connects by itself, so a page's scripts could reach whatever the box reaches: a subresource, a
//! redirect of one, a WebSocket, a name that answers differently the second time. Instead it is told to send everything
//! through a proxy, literal and loopback addresses included, and not to look up any name. That proxy is this gate: it
//! names each host to the box's own connector, which resolves once, has the guard judge every address, and connects to a
//! judged one. What is not TCP (QUIC, WebRTC's UDP) is turned off.
//!
//! A gate belongs to one page: it counts the bytes that come in and ends everything at its limit, it remembers why a host
//! could not be reached (the browser itself only hears "no"), it opens when the page's own first request is due, so that
//! nothing that the browser does on its own account gets out before, and all its connections end when it is dropped.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::connect::{Connector, Lease, Outgoing};
use crate::{FetchError, Outcome};
use base::ids::OrgId;
use base::web::WebUrl;

/// Connections of one page at once. Browsers open six to a host.
const CONNECTIONS_MAX: usize = 64;
/// What a page may send in one plain request.
const SENT_BYTES_MAX: usize = 2 << 20;
/// Hosts whose failures are remembered.
const FAILURES_MAX: usize = 256;
/// How long a connection may wait for a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const CHUNK_BYTES: usize = 16 << 10;

/// Headers that belong to one connection (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Why a host could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectFailure {
    pub outcome: Outcome,
    pub error: String,
}

/// One page's way out.
pub struct EgressProxy {
    pub address: SocketAddr,
    shared: Arc<EgressShared>,
    accepting: JoinHandle<()>,
}

struct EgressShared {
    connector: Arc<Connector>,
    owner: Option<OrgId>,
    bytes: AtomicU64,
    bytes_max: u64,
    is_open: AtomicBool,
    failures: Mutex<HashMap<String, ConnectFailure>>,
    closed: watch::Sender<bool>,
    connections: Arc<Semaphore>,
}

type Answer = Response<Either<Full<Bytes>, CountedBody>>;

impl EgressProxy {
    /// A closed gate that lets `bytes_max` in once it is open.
    pub async fn new(
        connector: Arc<Connector>,
        owner: Option<OrgId>,
        bytes_max: u64,
    ) -> std::io::Result<EgressProxy> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(EgressShared {
            connector,
            owner,
            bytes: AtomicU64::new(0),
            bytes_max,
            is_open: AtomicBool::new(false),
            failures: Mutex::default(),
            closed: watch::Sender::new(false),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(EgressProxy { address, shared, accepting })
    }

    /// Lets requests out from now on.
    pub fn open(&self) {
        self.shared.is_open.store(true, Ordering::Relaxed);
    }

    /// Bytes that have come in.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    pub fn bytes_max(&self) -> u64 {
        self.shared.bytes_max
    }

    /// Whether the page has been cut off for its weight.
    pub fn is_over(&self) -> bool {
        self.bytes() > self.shared.bytes_max
    }

    /// Why the URL's host could not be reached, the last time it was asked for.
    pub fn failure(&self, url: &WebUrl) -> Option<ConnectFailure> {
        self.shared.failures.lock().get(&place_of(url)).cloned()
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.closed.send_replace(true);
    }
}

fn place_of(url: &WebUrl) -> String {
    format!("{}:{}", url.host(), url.port())
}

impl EgressShared {
    /// Counts bytes that came in; an error when they are too many.
    fn count(&self, bytes: usize) -> std::io::Result<()> {
        let bytes = bytes as u64;
        let sum = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if sum > self.bytes_max { Err(std::io::Error::other("the page is too heavy")) } else { Ok(()) }
    }

    fn note(&self, place: &WebUrl, error: &FetchError) {
        tracing::debug!(%place, error = error as &dyn std::error::Error, "a page could not reach a host");
        let mut failures = self.failures.lock();
        if failures.len() < FAILURES_MAX {
            let failure = ConnectFailure { outcome: Outcome::of_error(error), error: error.to_string() };
            failures.insert(place_of(place), failure);
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<EgressShared>) {
    loop {
        let Ok(permit) = shared.connections.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (shared, mut closed) = (shared.clone(), shared.closed.subscribe());
        tokio::spawn(async move {
            let _permit = permit;
            let service = service_fn(|request| serve(request, shared.clone()));
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
            tokio::select! {
                // What goes wrong here the page sees as a failed request.
                _ = connection => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        });
    }
}

/// An error closes the connection without an answer, which the browser cannot take for one of the target.
async fn serve(request: Request<Incoming>, shared: Arc<EgressShared>) -> Result<Answer, &'static str> {
    if !shared.is_open.load(Ordering::Relaxed) {
        return Ok(plain(StatusCode::FORBIDDEN));
    }
    if request.method() == Method::CONNECT {
        tunnel(request, shared).await
    } else {
        relay(request, shared).await
    }
}

fn plain(status: StatusCode) -> Answer {
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.status_mut() = status;
    answer
}

/// Where a request goes, as far as the connector needs to know.
fn place(scheme: &str, uri: &Uri) -> Option<WebUrl> {
    WebUrl::parse(&format!("{scheme}://{}/", uri.authority()?)).ok()
}

async fn tunnel(request: Request<Incoming>, shared: Arc<EgressShared>) -> Result<Answer, &'static str> {
    let Some(place) = place("http", request.uri()) else { return Ok(plain(StatusCode::BAD_REQUEST)) };
    let stream = match shared.connector.stream_to(&place).await {
        Ok((stream, _)) => stream,
        Err(error) => {
            shared.note(&place, &error);
            return Ok(plain(StatusCode::BAD_GATEWAY));
        }
    };
    let mut closed = shared.closed.subscribe();
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let (from_page, to_page) = tokio::io::split(TokioIo::new(upgraded));
        let (from_target, to_target) = stream.into_split();
        let both = async {
            tokio::try_join!(
                copy(from_page, to_target, |_| Ok(())),
                copy(from_target, to_page, |n| shared.count(n))
            )
        };
        tokio::select! {
            _ = both => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
    });
    Ok(plain(StatusCode::OK))
}

async fn copy<R, W>(
    mut from: R,
    mut to: W,
    count: impl Fn(usize) -> std::io::Result<()>,
) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk).await? {
            0 => return to.shutdown().await,
            bytes => {
                count(bytes)?;
                to.write_all(&chunk[..bytes]).await?;
            }
        }
    }
}

async fn relay(request: Request<Incoming>, shared: Arc<EgressShared>) -> Result<Answer, &'static str> {
    let (head, body) = request.into_parts();
    let place =
        head.uri.scheme_str().filter(|scheme| *scheme == "http").and_then(|_| place("http", &head.uri));
    let (Some(place), Some(path)) = (place, head.uri.path_and_query()) else {
        return Ok(plain(StatusCode::BAD_REQUEST));
    };
    let Ok(body) = Limited::new(body, SENT_BYTES_MAX).collect().await else {
        return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE));
    };
    let headers = end_to_end(head.headers);
    let outgoing = Outgoing {
        place: &place,
        path: path.as_str(),
        method: head.method,
        headers: &headers,
        body: body.to_bytes(),
        via: None,
        owner: shared.owner,
    };
    match shared.connector.send(&outgoing).await {
        Ok((response, lease)) => {
            let (head, body) = response.into_parts();
            let mut answer = Response::new(Either::Right(CountedBody { body, lease: Some(lease), shared }));
            *answer.status_mut() = head.status;
            *answer.headers_mut() = end_to_end(head.headers);
            Ok(answer)
        }
        Err(error) => {
            shared.note(&place, &error);
            Err("the host cannot be reached")
        }
    }
}

/// The headers that are for the other end.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    for name in HOP_BY_HOP.iter().chain([&HOST]) {
        headers.remove(name);
    }
    headers
}

/// A target's body on its way in.
struct CountedBody {
    body: Incoming,
    lease: Option<Lease>,
    shared: Arc<EgressShared>,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame,
        };
        Poll::Ready(match frame {
            None => {
                if let Some(lease) = self.lease.take() {
                    lease.finish();
                }
                None
            }
            Some(Err(error)) => Some(Err(std::io::Error::other(error))),
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Some(self.shared.count(bytes).map(|()| frame))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        // Asked before the end is seen, it would keep the connection from going back.
        self.lease.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::site::{Reply, Site, direct, page, sent};
    use tokio::net::TcpStream;

    async fn open_gate(site: &Site, bytes_max: u64) -> EgressProxy {
        let gate = EgressProxy::new(direct(site).connector().clone(), None, bytes_max).await.unwrap();
        gate.open();
        gate
    }

    /// Everything that the gate answers to `request` until it closes the connection.
    async fn ask(gate: &EgressProxy, request: &str) -> String {
        let mut stream = TcpStream::connect(gate.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A connection that is reset has nothing more to say either.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn what_the_guard_refuses_is_not_reached_in_any_way() {
        let site = Site::start(|_| page("secret")).await;
        let gate = open_gate(&site, 1 << 20).await;
        for host in [
            "127.0.0.1:1",
            "10.0.0.1:80",
            "metadata.test:80",
            "[::ffff:169.254.169.254]:80",
            "inner.test:443",
        ] {
            let connected =
                ask(&gate, &format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
                    .await;
            assert!(connected.starts_with("HTTP/1.1 502"), "{host}: {connected}");
            let got =
                ask(&gate, &format!("GET http://{host}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
                    .await;
            assert_eq!(got, "", "{host}");
            let failure = gate.failure(&WebUrl::parse(&format!("http://{host}/")).unwrap()).expect(host);
            // A name that leads inside gets the answer of one that does not resolve.
            let is_name = host.contains(".test");
            let outcome = if is_name { Outcome::NetworkError } else { Outcome::TargetError };
            assert_eq!(failure.outcome, outcome, "{host}: {}", failure.error);
        }
        assert_eq!(site.connections(), 0);
    }

    #[tokio::test]
    async fn plain_requests_and_tunnels_go_through_and_are_counted() {
        let site = Site::start(|head| {
            assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
            assert_eq!(sent(head, "proxy-connection"), None);
            assert_eq!(sent(head, "x-own"), Some("1"));
            page("hello")
        })
        .await;
        let gate = open_gate(&site, 1 << 20).await;
        let host = format!("shop.test:{}", site.addr.port());
        let request = format!(
            "GET http://{host}/a?b HTTP/1.1\r\nHost: {host}\r\nProxy-Connection: keep-alive\r\nX-Own: 1\r\nConnection: close\r\n\r\n"
        );
        let answer = ask(&gate, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
        assert_eq!(gate.bytes(), 5);
        let mut stream = TcpStream::connect(gate.address).await.unwrap();
        stream
            .write_all(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        let inside = format!("GET /a?b HTTP/1.1\r\nhost: {host}\r\nx-own: 1\r\n\r\n");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut answer).await.unwrap();
        }
        answer.clear();
        stream.write_all(inside.as_bytes()).await.unwrap();
        while !answer.ends_with(b"hello") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
        }
        assert_eq!(gate.bytes(), 5 + answer.len() as u64);
        drop(gate);
        answer.clear();
        assert_eq!(stream.read_to_end(&mut answer).await.unwrap_or(0), 0, "a tunnel ends with its gate");
    }

    #[tokio::test]
    async fn a_closed_gate_lets_nothing_out_and_a_heavy_page_is_cut_off() {
        let site = Site::start(|_| Reply::Drip(b"HTTP/1.1 200 X\r\n\r\n".to_vec())).await;
        let request = format!("GET http://{}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", site.addr);
        let gate = EgressProxy::new(direct(&site).connector().clone(), None, 10).await.unwrap();
        assert!(ask(&gate, &request).await.starts_with("HTTP/1.1 403"));
        assert_eq!(site.connections(), 0);
        gate.open();
        ask(&gate, &request).await;
        assert!(gate.is_over(), "{} bytes", gate.bytes());
    }
}
