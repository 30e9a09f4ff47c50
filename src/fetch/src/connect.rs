//! Connections: resolve once, check every address, connect to a checked one, speak HTTP over it, keep it for the next.
//!
//! Written on hyper's connection types and not on a ready-made client, because the address that is checked must be the
//! address that is connected to. A client that takes a URL resolves by itself, and some never ask their resolver about
//! literal addresses at all. Here a `SocketAddr` goes through the guard and into `TcpStream::connect`, with no name in
//! between that could resolve differently a second time (DNS rebinding). Through a proxy it is the proxy's address that
//! is connected to; what it is told of the target is decided in [`super::proxy`] and done here.
//!
//! Invariants:
//! - a connection in the pool remembers its peer's address and is checked again before it is reused;
//! - a connection goes back to the pool only when its answer has been read to the end; any other way of letting go of a
//!   [`Lease`], dropping the future among them, closes it;
//! - idle connections are bounded, an origin's and all, and none is used that has waited for long ([`pool`]).

mod connection;
mod lease;
mod pool;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use url::Host;

use self::connection::{AbortOnDrop, H1, H2, Sender};
pub use self::lease::{Lease, Outgoing};
use self::lease::{Target, Unsent};
use self::pool::Pool;
use super::guard::{AddressGuard, AllowRule, Refused};
use super::proxy::address::Scheme;
use super::proxy::tunnel::{self, Destination, Refusal};
use super::proxy::{Proxy, ProxyFailure};
use super::{FetchError, FetchSettings};
use crate::tls::client_config;
use base::ids::OrgId;
use base::web::WebUrl;

/// How many addresses of one name are tried.
const ADDRESSES_MAX: usize = 8;
/// How long a proxy may take to connect to a target.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the box looks for what a name means here, where a proxy's own answer counts anyway.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);
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
    /// The proxy on the way, its login included.
    via: Option<Arc<Proxy>>,
    /// The organization whose requests go over it.
    owner: Option<OrgId>,
}

impl Origin {
    fn of(outgoing: &Outgoing<'_>) -> Self {
        let url = outgoing.place;
        Self {
            https: url.is_https(),
            host: url.host().into(),
            port: url.port(),
            via: outgoing.via.cloned(),
            owner: outgoing.owner,
        }
    }
}

/// Makes and keeps connections.
pub struct Connector {
    guard: AddressGuard,
    resolver: Resolver,
    tls: TlsConnector,
    /// For proxies, to whom only HTTP/1.1 is spoken.
    proxy_tls: TlsConnector,
    resolving_proxies: Vec<AllowRule>,
    connect_timeout: Duration,
    pool: Arc<Pool>,
}

impl Connector {
    /// Reads the machine's trusted certificates, which takes some ten milliseconds and reads files.
    pub fn new(guard: AddressGuard, resolver: Resolver, settings: &FetchSettings) -> Self {
        let config = client_config(&settings.extra_roots, &[b"h2", b"http/1.1"]);
        let mut proxy_config = config.clone();
        proxy_config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self {
            guard,
            resolver,
            tls: TlsConnector::from(Arc::new(config)),
            proxy_tls: TlsConnector::from(Arc::new(proxy_config)),
            resolving_proxies: settings.resolving_proxies.clone(),
            connect_timeout: settings.connect_timeout,
            pool: Arc::default(),
        }
    }

    /// Sends a request and gives the head of the answer, its body still to be read. The connection is the lease's: call
    /// [`Lease::finish`] once the body has been read to its end.
    pub async fn send(&self, outgoing: &Outgoing<'_>) -> Result<(Response<Incoming>, Lease), FetchError> {
        let url = outgoing.place;
        let origin = Origin::of(outgoing);
        let target = Target::of(outgoing)?;
        while let Some(mut lease) = Lease::of_pool(&self.pool, &origin) {
            if self.guard.check(lease.peer).is_err() || !lease.is_ready().await {
                continue;
            }
            match lease.send(&target).await {
                Ok(response) => return by_relay(response, lease),
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
            Ok(response) => by_relay(response, lease),
            Err(Unsent { error, .. }) => Err(exchange_error(url, error)),
        }
    }

    /// The addresses of the URL's host that may be connected to.
    async fn addresses(&self, url: &WebUrl) -> Result<Vec<SocketAddr>, FetchError> {
        let (checked, refusal) = self.judged(url).await?;
        match refusal {
            Some(refused) if checked.is_empty() => Err(refused),
            _ => Ok(checked),
        }
    }

    /// The addresses of the URL's host that may be connected to, and why another one may not. At least one of both.
    async fn judged(&self, url: &WebUrl) -> Result<(Vec<SocketAddr>, Option<FetchError>), FetchError> {
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
            None if checked.is_empty() => Err(resolve_error(None)),
            refusal => Ok((checked, refusal.map(|refused| refused_error(url, literal, refused)))),
        }
    }

    /// Judges what a URL's text tells, before anything is connected to.
    pub fn guard(&self) -> &AddressGuard {
        &self.guard
    }

    /// Connects to the first of the host's addresses that accepts.
    async fn connect(&self, url: &WebUrl, origin: Origin) -> Result<Lease, FetchError> {
        if let Some(proxy) = origin.via.clone() {
            return self.connect_through(&proxy, url, &origin).await;
        }
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
        let stream = self.open(addr, url).await?;
        self.speak(Box::new(stream), addr, url, origin).await
    }

    /// A connection to a checked address of the URL's host.
    async fn open(&self, addr: SocketAddr, url: &WebUrl) -> Result<TcpStream, FetchError> {
        let connect_error =
            |source| FetchError::Connect { authority: format!("{}:{}", url.host(), url.port()), source };
        let stream = TcpStream::connect(addr).await.map_err(connect_error)?;
        let local = stream.local_addr().map_err(connect_error)?;
        self.guard
            .check_connected(local, addr)
            .map_err(|refused| refused_error(url, !matches!(url.host_kind(), Host::Domain(_)), refused))?;
        // Requests are single small writes; waiting to coalesce them gains nothing. A failure here costs speed only.
        stream.set_nodelay(true).ok();
        Ok(stream)
    }

    /// A connection for another protocol than HTTP to the host and port of a URL, which is a place here and nothing more: the
    /// first of its addresses that may be connected to and accepts.
    pub async fn tcp(&self, place: &WebUrl) -> Result<TcpStream, FetchError> {
        self.stream_to(place).await.map(|(stream, _)| stream)
    }

    /// A connection to the first address of the URL's host that may be connected to and accepts.
    pub(super) async fn stream_to(&self, url: &WebUrl) -> Result<(TcpStream, SocketAddr), FetchError> {
        let authority = || format!("{}:{}", url.host(), url.port());
        let mut failure = FetchError::ConnectTimeout { authority: authority() };
        for addr in self.addresses(url).await? {
            match timeout(self.connect_timeout, self.open(addr, url)).await {
                Ok(Ok(stream)) => return Ok((stream, addr)),
                Ok(Err(error @ FetchError::Connect { .. })) => failure = error,
                Ok(Err(error)) => return Err(error),
                Err(_elapsed) => failure = FetchError::ConnectTimeout { authority: authority() },
            }
        }
        Err(failure)
    }

    /// Connects to a proxy, and through it to the URL's host.
    async fn connect_through(
        &self,
        proxy: &Arc<Proxy>,
        url: &WebUrl,
        origin: &Origin,
    ) -> Result<Lease, FetchError> {
        let down = |reason: String| proxy_error(proxy, Refusal::new(ProxyFailure::Down, reason));
        let unreached = |error: FetchError| down(format!("cannot be used: {error}"));
        let (stream, peer) = self.stream_to(proxy.place()).await.map_err(unreached)?;
        let inner = !AddressGuard::is_public(peer.ip());
        let resolves = self.resolving_proxies.iter().any(|rule| rule.opens(peer));
        let to = self.destination(proxy, url, inner && !resolves, inner && resolves).await?;
        let mut stream: Box<dyn Io> = match proxy.scheme {
            Scheme::Https => {
                let secured = timeout(
                    self.connect_timeout,
                    self.proxy_tls.connect(server_name(proxy.place())?, stream),
                );
                match secured.await {
                    Ok(Ok(stream)) => Box::new(stream),
                    Ok(Err(error)) => return Err(down(format!("failed in its TLS handshake: {error}"))),
                    Err(_elapsed) => return Err(down("did not finish its TLS handshake in time".to_owned())),
                }
            }
            _ => Box::new(stream),
        };
        if proxy.is_http() && !origin.https && to == Destination::named(url) {
            let lease = self.handshake(stream, false, peer, url, origin).await?;
            return Ok(lease.relayed(proxy));
        }
        match timeout(TUNNEL_TIMEOUT, tunnel::open(&mut stream, proxy, &to)).await {
            Ok(Ok(())) => self.speak(stream, peer, url, origin).await,
            Ok(Err(refusal)) => Err(proxy_error(proxy, refusal)),
            Err(_elapsed) => {
                let reason = "did not connect to the target in time";
                Err(proxy_error(proxy, Refusal::new(ProxyFailure::Silent, reason)))
            }
        }
    }

    /// What a proxy is told to connect to. `by_address`: it must not resolve the name itself; `trusted`: it may, whatever
    /// the name means here.
    async fn destination(
        &self,
        proxy: &Proxy,
        url: &WebUrl,
        by_address: bool,
        trusted: bool,
    ) -> Result<Destination, FetchError> {
        let named = Destination::named(url);
        let by_address = by_address || (proxy.scheme == Scheme::Socks5 && !trusted);
        if trusted && matches!(named, Destination::Name(..)) {
            return Ok(named);
        }
        let judged = match by_address {
            true => self.judged(url).await,
            false => timeout(LOOK_TIMEOUT, self.judged(url)).await.unwrap_or_else(|_elapsed| {
                Err(FetchError::Resolve { host: url.host().to_owned(), source: None })
            }),
        };
        match judged {
            // Which of a name's addresses a proxy would take nobody knows, so all of them must be open.
            Ok((_, Some(refused))) => Err(refused),
            // IPv4 first: a proxy without IPv6 is common, one without IPv4 is not.
            Ok((checked, None)) if by_address => {
                let first = checked.iter().find(|addr| addr.is_ipv4()).or(checked.first());
                Ok(first.map_or(named, |addr| Destination::Address(*addr)))
            }
            // The proxy may know names that the box does not.
            Err(FetchError::Resolve { .. }) if !by_address => Ok(named),
            Ok(_) => Ok(named),
            Err(error) => Err(error),
        }
    }

    /// TLS where the URL wants it, and HTTP inside.
    async fn speak(
        &self,
        stream: Box<dyn Io>,
        addr: SocketAddr,
        url: &WebUrl,
        origin: &Origin,
    ) -> Result<Lease, FetchError> {
        if !origin.https {
            return self.handshake(stream, false, addr, url, origin).await;
        }
        let tls_error = |source| FetchError::Tls { host: url.host().to_owned(), source };
        let stream = self.tls.connect(server_name(url)?, stream).await.map_err(tls_error)?;
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
            Sender::H1(H1 { sender, relay: None, _driver: driver })
        };
        Ok(Lease { origin: origin.clone(), sender: Some(sender), peer, pool: Arc::clone(&self.pool) })
    }
}

/// A byte stream, plain or under TLS. Boxed, so that hyper's machinery is compiled once.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// The name that a server proves by its certificate.
fn server_name(url: &WebUrl) -> Result<ServerName<'static>, FetchError> {
    let bad = |e| FetchError::Tls {
        host: url.host().to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, e),
    };
    Ok(match url.host_kind() {
        Host::Ipv4(ip) => ServerName::from(IpAddr::from(ip)),
        Host::Ipv6(ip) => ServerName::from(IpAddr::from(ip)),
        Host::Domain(name) => {
            ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned()).map_err(bad)?
        }
    })
}

/// An answer over a proxy that makes the requests itself: most are the target's, some its own.
fn by_relay(response: Response<Incoming>, lease: Lease) -> Result<(Response<Incoming>, Lease), FetchError> {
    match lease.relay() {
        // No target may say it (RFC 9110, section 15.5.8).
        Some(relay) if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            let reason = "does not accept its user name and password (407)";
            Err(proxy_error(&relay.proxy, Refusal::new(ProxyFailure::BadLogin, reason)))
        }
        _ => Ok((response, lease)),
    }
}

fn proxy_error(proxy: &Proxy, refusal: Refusal) -> FetchError {
    let Refusal { trouble, reason, retry_after } = refusal;
    FetchError::Proxy { proxy: proxy.to_string(), trouble, reason, retry_after }
}

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

#[cfg(test)]
impl Connector {
    pub(super) fn idle_count(&self) -> usize {
        self.pool.idle_count()
    }
}
