//! Connections: resolve once, check every address, connect to a checked one, speak HTTP over it, keep it for the next.
//!
//! Written on hyper's connection types and not on a ready-made client, because the address that is checked must be the
//! address that is connected to. A client that takes a URL resolves by itself, and some never ask their resolver about
//! literal addresses at all. Here a `SocketAddr` goes through the guard and into `TcpStream::connect`, with no name in
//! between that could resolve differently a second time (DNS rebinding).
//!
//! Invariants:
//! - a connection in the pool remembers its peer's address and is checked again before it is reused;
//! - a connection goes back to the pool only when its answer has been read to the end; any other way of letting go of a
//!   [`Lease`], dropping the future among them, closes it;
//! - at most [`IDLE_PER_ORIGIN_MAX`] idle connections an origin and [`IDLE_MAX`] in all, none older than [`IDLE_TIMEOUT`]
//!   when it is used.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use url::Host;

use super::FetchError;
use super::guard::{AddressGuard, Refused};
use crate::base::web::{UrlError, WebUrl};
use crate::engine::tls::client_config;

/// Idle connections kept to one origin.
const IDLE_PER_ORIGIN_MAX: usize = 4;
/// Idle connections kept in all: each holds a file descriptor and some 10 kB.
const IDLE_MAX: usize = 256;
/// The age at which an idle connection is not trusted any more. Common servers close theirs after 5 to 75 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// How many addresses of one name are tried.
const ADDRESSES_MAX: usize = 8;
/// The head of an answer: bytes, and header fields.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 128;

/// Turns names into addresses: `network.hosts` first, then the system's resolver.
#[derive(Debug, Clone, Default)]
pub struct Resolver {
    hosts: HashMap<String, Vec<IpAddr>>,
}

impl Resolver {
    /// `hosts` maps names to their addresses, as a hosts file does.
    pub fn new(hosts: &HashMap<String, Vec<IpAddr>>) -> Self {
        let bare = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        Self { hosts: hosts.iter().map(|(name, addresses)| (bare(name), addresses.clone())).collect() }
    }

    /// The addresses of `name`, in the order in which they should be tried. An unknown name is an empty list or an
    /// error, as the system has it. `name` is in a URL's normal form: lower case, ASCII.
    pub async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let bare = name.strip_suffix('.').unwrap_or(name);
        if let Some(addresses) = self.hosts.get(bare) {
            return Ok(addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect());
        }
        Ok(tokio::net::lookup_host((name, port)).await?.take(ADDRESSES_MAX).collect())
    }
}

/// What connections are told apart by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Origin {
    https: bool,
    host: Box<str>,
    port: u16,
}

impl Origin {
    fn of(url: &WebUrl) -> Self {
        Self { https: url.is_https(), host: url.host().into(), port: url.port() }
    }
}

/// One request, before it is known over which connection it goes.
#[derive(Debug, Clone)]
pub struct Outgoing<'a> {
    /// Names the place that is connected to.
    pub place: &'a WebUrl,
    /// Path and query at that place. Not always `place`'s own: the query of a hosted provider's request carries another
    /// URL, and may be longer than a [`WebUrl`] can be.
    pub path: &'a str,
    pub method: Method,
    /// Without `Host`, which is written here.
    pub headers: &'a HeaderMap,
    pub body: Bytes,
}

impl<'a> Outgoing<'a> {
    /// A GET for `url`.
    pub fn get(url: &'a WebUrl, headers: &'a HeaderMap) -> Self {
        Self { place: url, path: url.path_and_query(), method: Method::GET, headers, body: Bytes::new() }
    }
}

/// A request in the forms in which it goes over the wire.
struct Target {
    absolute_form: Uri,
    origin_form: Uri,
    host: HeaderValue,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Target {
    /// Fails for a URL that the WHATWG allows and `http` does not; none is known, and none is worth a wrong page.
    fn of(outgoing: &Outgoing<'_>) -> Result<Self, FetchError> {
        let bad = |_| FetchError::BadTarget { source: UrlError::Malformed };
        let place = outgoing.place;
        Ok(Self {
            absolute_form: format!("{}{}", place.origin(), outgoing.path).parse().map_err(bad)?,
            origin_form: outgoing.path.parse().map_err(bad)?,
            host: HeaderValue::from_str(&place.authority())
                .map_err(|_| FetchError::BadTarget { source: UrlError::BadHost })?,
            method: outgoing.method.clone(),
            headers: outgoing.headers.clone(),
            body: outgoing.body.clone(),
        })
    }

    /// Whether sending it twice is as good as once (RFC 9110, section 9.2.2). A POST to a provider costs credits.
    fn is_repeatable(&self) -> bool {
        self.method == Method::GET
    }
}

/// Makes and keeps connections.
pub struct Connector {
    guard: AddressGuard,
    resolver: Resolver,
    tls: TlsConnector,
    connect_timeout: Duration,
    pool: Arc<Pool>,
}

impl Connector {
    /// Reads the machine's trusted certificates, which takes some ten milliseconds and reads files.
    pub fn new(
        guard: AddressGuard,
        resolver: Resolver,
        extra_roots: &[CertificateDer<'static>],
        connect_timeout: Duration,
    ) -> Self {
        let tls = TlsConnector::from(Arc::new(client_config(extra_roots, &[b"h2", b"http/1.1"])));
        Self { guard, resolver, tls, connect_timeout, pool: Arc::default() }
    }

    /// Sends a request and gives the head of the answer, its body still to be read. The connection is the lease's: call
    /// [`Lease::finish`] once the body has been read to its end.
    pub async fn send(&self, outgoing: &Outgoing<'_>) -> Result<(Response<Incoming>, Lease), FetchError> {
        let url = outgoing.place;
        let origin = Origin::of(url);
        let target = Target::of(outgoing)?;
        while let Some(mut lease) = Pool::checkout(&self.pool, &origin) {
            if self.guard.check(lease.peer).is_err() || !lease.is_ready().await {
                continue;
            }
            match lease.send(&target).await {
                Ok(response) => return Ok((response, lease)),
                // The server may have closed the idle connection just now. What was not sent at all, and a GET in any
                // case, is safe to send again (RFC 9112, section 9.3.1), but an answer that is malformed would only be
                // malformed again.
                Err(Unsent { error, was_sent })
                    if error.is_parse() || (was_sent && !target.is_repeatable()) =>
                {
                    return Err(exchange_error(url, error));
                }
                Err(_) => {}
            }
        }
        let mut lease = self.connect(url, origin).await?;
        match lease.send(&target).await {
            Ok(response) => Ok((response, lease)),
            Err(Unsent { error, .. }) => Err(exchange_error(url, error)),
        }
    }

    /// The addresses of the URL's host that may be connected to.
    async fn addresses(&self, url: &WebUrl) -> Result<Vec<SocketAddr>, FetchError> {
        let (host, port) = (url.host(), url.port());
        let resolve_error = |source| FetchError::Resolve { host: host.to_owned(), source };
        let (all, literal) = match url.host_kind() {
            Host::Ipv4(ip) => (vec![SocketAddr::new(ip.into(), port)], true),
            Host::Ipv6(ip) => (vec![SocketAddr::new(ip.into(), port)], true),
            Host::Domain(name) => {
                (self.resolver.resolve(name, port).await.map_err(|e| resolve_error(Some(e)))?, false)
            }
        };
        let mut refusal = None;
        let mut checked = Vec::with_capacity(all.len());
        for addr in all {
            match self.guard.check(addr) {
                Ok(()) => checked.push(addr),
                Err(refused) => refusal = refusal.or(Some(refused)),
            }
        }
        match refusal {
            _ if !checked.is_empty() => Ok(checked),
            Some(refused) => Err(refused_error(url, literal, refused)),
            None => Err(resolve_error(None)),
        }
    }

    /// Judges what a URL's text tells, before anything is connected to.
    pub fn guard(&self) -> &AddressGuard {
        &self.guard
    }

    /// Connects to the first of the host's addresses that accepts.
    async fn connect(&self, url: &WebUrl, origin: Origin) -> Result<Lease, FetchError> {
        let authority = || format!("{}:{}", url.host(), url.port());
        let mut failure = FetchError::ConnectTimeout { authority: authority() };
        for addr in self.addresses(url).await? {
            match timeout(self.connect_timeout, self.connect_to(addr, url, &origin)).await {
                Ok(Ok(lease)) => return Ok(lease),
                // Another address of the same name would be the same server with the same certificate, or the same
                // box; only a connection that was not made is worth another try.
                Ok(Err(error @ FetchError::Connect { .. })) => failure = error,
                Ok(Err(error)) => return Err(error),
                Err(_elapsed) => failure = FetchError::ConnectTimeout { authority: authority() },
            }
        }
        Err(failure)
    }

    async fn connect_to(&self, addr: SocketAddr, url: &WebUrl, origin: &Origin) -> Result<Lease, FetchError> {
        let connect_error =
            |source| FetchError::Connect { authority: format!("{}:{}", url.host(), url.port()), source };
        let stream = TcpStream::connect(addr).await.map_err(connect_error)?;
        let local = stream.local_addr().map_err(connect_error)?;
        self.guard
            .check_connected(local, addr)
            .map_err(|refused| refused_error(url, !matches!(url.host_kind(), Host::Domain(_)), refused))?;
        // Requests are single small writes; waiting to coalesce them gains nothing. A failure here costs speed only.
        stream.set_nodelay(true).ok();
        if !origin.https {
            return self.handshake(Box::new(stream), false, addr, url, origin).await;
        }
        let tls_error = |source| FetchError::Tls { host: url.host().to_owned(), source };
        let name = match url.host_kind() {
            Host::Ipv4(ip) => ServerName::from(IpAddr::from(ip)),
            Host::Ipv6(ip) => ServerName::from(IpAddr::from(ip)),
            Host::Domain(name) => ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned())
                .map_err(|e| tls_error(io::Error::new(io::ErrorKind::InvalidInput, e)))?,
        };
        let stream = self.tls.connect(name, stream).await.map_err(tls_error)?;
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        self.handshake(Box::new(stream), h2, addr, url, origin).await
    }

    async fn handshake(
        &self,
        io: Box<dyn Io>,
        h2: bool,
        peer: SocketAddr,
        url: &WebUrl,
        origin: &Origin,
    ) -> Result<Lease, FetchError> {
        let io = TokioIo::new(io);
        let sender = if h2 {
            let (sender, driver) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_header_list_size(HEAD_BYTES_MAX as u32)
                .handshake(io)
                .await
                .map_err(|e| exchange_error(url, e))?;
            // The driver ends by itself when the last sender is dropped and its streams are done.
            tokio::spawn(driver);
            let sender = H2 { sender, id: self.pool.next_id(), peer };
            self.pool.share(origin.clone(), sender.clone());
            Sender::H2(sender)
        } else {
            let (sender, driver) = http1::Builder::new()
                .max_headers(HEADERS_MAX)
                .max_header_size(HEAD_BYTES_MAX)
                .handshake(io)
                .await
                .map_err(|e| exchange_error(url, e))?;
            let driver = AbortOnDrop(tokio::spawn(async move {
                // The sender's side sees the same error, with the request it belongs to.
                driver.await.ok();
            }));
            Sender::H1(H1 { sender, _driver: driver })
        };
        Ok(Lease { origin: origin.clone(), sender: Some(sender), peer, pool: Arc::clone(&self.pool) })
    }
}

/// A byte stream, plain or under TLS. Boxed, so that hyper's machinery is compiled once.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

fn refused_error(url: &WebUrl, literal: bool, refused: Refused) -> FetchError {
    FetchError::Refused { host: url.host().to_owned(), literal, refused }
}

fn exchange_error(url: &WebUrl, source: hyper::Error) -> FetchError {
    let host = url.host().to_owned();
    match source.is_parse_too_large() {
        true => FetchError::HeadTooLarge { host, source },
        false => FetchError::Exchange { host, source },
    }
}

/// Ends a connection's task with the connection's owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct H1 {
    sender: http1::SendRequest<Full<Bytes>>,
    _driver: AbortOnDrop,
}

#[derive(Clone)]
struct H2 {
    sender: http2::SendRequest<Full<Bytes>>,
    id: u64,
    peer: SocketAddr,
}

enum Sender {
    H1(H1),
    H2(H2),
}

/// A connection in use by one request.
pub struct Lease {
    origin: Origin,
    sender: Option<Sender>,
    peer: SocketAddr,
    pool: Arc<Pool>,
}

impl Lease {
    /// The address at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Gives the connection back, to be used again. Only after the body was read to its end.
    pub fn finish(mut self) {
        if let Some(Sender::H1(connection)) = self.sender.take() {
            self.pool.keep(self.origin.clone(), connection, self.peer);
        }
    }

    /// Whether a pooled connection is still alive.
    async fn is_ready(&mut self) -> bool {
        match &mut self.sender {
            Some(Sender::H1(H1 { sender, .. })) => sender.ready().await.is_ok(),
            Some(Sender::H2(H2 { sender, .. })) => sender.ready().await.is_ok(),
            None => false,
        }
    }

    async fn send(&mut self, target: &Target) -> Result<Response<Incoming>, Unsent> {
        let mut request = Request::new(Full::new(target.body.clone()));
        *request.method_mut() = target.method.clone();
        *request.headers_mut() = target.headers.clone();
        let answered = match self.sender.as_mut().expect("a lease holds its connection until it is finished")
        {
            Sender::H1(H1 { sender, .. }) => {
                *request.uri_mut() = target.origin_form.clone();
                request.headers_mut().insert(HOST, target.host.clone());
                sender.try_send_request(request).await
            }
            // HTTP/2 carries the host in the URI's authority and wants no Host header (RFC 9113, section 8.3.1).
            Sender::H2(H2 { sender, .. }) => {
                *request.version_mut() = Version::HTTP_2;
                *request.uri_mut() = target.absolute_form.clone();
                sender.try_send_request(request).await
            }
        };
        answered.map_err(|mut error| Unsent {
            was_sent: error.take_message().is_none(),
            error: error.into_error(),
        })
    }
}

/// A request without an answer. hyper gives the request back as long as none of it can have reached the server.
struct Unsent {
    error: hyper::Error,
    was_sent: bool,
}

impl Drop for Lease {
    /// A lease that was not finished failed, ran out of time or was not read to its end. An HTTP/1 connection closes by
    /// being dropped; a shared one is forgotten, because whatever stalled this stream may stall the next.
    fn drop(&mut self) {
        if let Some(Sender::H2(connection)) = self.sender.take() {
            self.pool.forget(&self.origin, connection.id);
        }
    }
}

/// Idle HTTP/1 connections, and the HTTP/2 connection that an origin's requests share.
#[derive(Default)]
pub(super) struct Pool {
    inner: Mutex<PoolInner>,
}

#[derive(Default)]
struct PoolInner {
    idle: HashMap<Origin, Vec<Idle>>,
    idle_count: usize,
    shared: HashMap<Origin, (H2, Instant)>,
    last_id: u64,
}

struct Idle {
    connection: H1,
    peer: SocketAddr,
    since: Instant,
}

impl Pool {
    fn next_id(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.last_id += 1;
        inner.last_id
    }

    /// A connection to `origin` that was alive when last seen: the shared one, or the one that was used last.
    fn checkout(self: &Arc<Self>, origin: &Origin) -> Option<Lease> {
        let mut inner = self.inner.lock();
        let lease = |sender, peer| Lease {
            origin: origin.clone(),
            sender: Some(sender),
            peer,
            pool: Arc::clone(self),
        };
        if let Some((shared, last_used)) = inner.shared.get_mut(origin) {
            if !shared.sender.is_closed() && last_used.elapsed() < IDLE_TIMEOUT {
                *last_used = Instant::now();
                return Some(lease(Sender::H2(shared.clone()), shared.peer));
            }
            inner.shared.remove(origin);
        }
        let stack = inner.idle.get_mut(origin)?;
        // The stack's top is its youngest: when that is too old, all are.
        let found = stack.pop().filter(|idle| idle.since.elapsed() < IDLE_TIMEOUT);
        if found.is_none() || stack.is_empty() {
            inner.idle.remove(origin);
        }
        inner.recount();
        found.map(|idle| lease(Sender::H1(idle.connection), idle.peer))
    }

    fn keep(&self, origin: Origin, connection: H1, peer: SocketAddr) {
        if connection.sender.is_closed() {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.idle_count >= IDLE_MAX {
            inner.sweep();
        }
        let stack = inner.idle.entry(origin).or_default();
        if stack.len() >= IDLE_PER_ORIGIN_MAX {
            stack.remove(0);
        }
        stack.push(Idle { connection, peer, since: Instant::now() });
        inner.recount();
    }

    fn share(&self, origin: Origin, connection: H2) {
        let mut inner = self.inner.lock();
        if inner.shared.len() >= IDLE_MAX {
            inner.sweep();
        }
        inner.shared.insert(origin, (connection, Instant::now()));
    }

    fn forget(&self, origin: &Origin, id: u64) {
        let mut inner = self.inner.lock();
        if inner.shared.get(origin).is_some_and(|(shared, _)| shared.id == id) {
            inner.shared.remove(origin);
        }
    }

    #[cfg(test)]
    pub(super) fn idle_count(&self) -> usize {
        self.inner.lock().idle_count
    }
}

impl PoolInner {
    /// At most [`IDLE_MAX`] stacks, so counting afresh is cheaper than being wrong.
    fn recount(&mut self) {
        self.idle_count = self.idle.values().map(Vec::len).sum();
    }

    /// Lets go of what is too old or dead, and of the older half where that frees nothing.
    fn sweep(&mut self) {
        self.idle.retain(|_, stack| {
            stack.retain(|idle| idle.since.elapsed() < IDLE_TIMEOUT && !idle.connection.sender.is_closed());
            !stack.is_empty()
        });
        self.shared.retain(|_, (shared, last_used)| {
            last_used.elapsed() < IDLE_TIMEOUT && !shared.sender.is_closed()
        });
        if self.idle.values().map(Vec::len).sum::<usize>() >= IDLE_MAX {
            let mut ages: Vec<Instant> = self.idle.values().flatten().map(|idle| idle.since).collect();
            ages.sort_unstable();
            let median = ages[ages.len() / 2];
            self.idle.retain(|_, stack| {
                stack.retain(|idle| idle.since > median);
                !stack.is_empty()
            });
        }
        if self.shared.len() >= IDLE_MAX {
            let mut ages: Vec<Instant> = self.shared.values().map(|(_, last_used)| *last_used).collect();
            ages.sort_unstable();
            let median = ages[ages.len() / 2];
            self.shared.retain(|_, (_, last_used)| *last_used > median);
        }
        self.recount();
    }
}

#[cfg(test)]
impl Connector {
    pub(super) fn idle_count(&self) -> usize {
        self.pool.idle_count()
    }
}
