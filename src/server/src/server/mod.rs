//! The accept loop: sockets, TLS, the cap on connections, and the drain.
//!
//! HTTP/1.1 and HTTP/2 share each socket: in the clear the first bytes tell them apart (RFC 9113, 3.3, prior knowledge),
//! under TLS the protocol is negotiated. At the cap a silent connection makes room for a newcomer (see `limiter.rs`); where all
//! are at work, nothing is accepted and the kernel's queue holds newcomers.
//!
//! Drain: stop accepting, let requests in flight finish (idle connections close at once), and after the time given name
//! what still runs and end it.

mod connection;
mod listeners;

pub use listeners::{Inherited, Listeners};

use crate::api::Api;
use crate::metrics::Gauge;
use crate::settings::{ListenAddress, ServerSettings};
use crate::wire::limiter::{ClientConnection, ConnectionLimiter, ConnectionPermit};
use crate::wire::refusal;
use crate::wire::tls::Certificates;
use connection::ServingPhase;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;
use listeners::{Accepted, Listener};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::server::TlsStream;

/// Why the server cannot start; names the address or the file.
#[derive(Debug)]
pub struct BindError {
    what: String,
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.cause)
    }
}

/// How a drain went.
#[derive(Debug)]
pub struct Drained {
    /// Routes that still had requests when the time was up, with how many; empty after a clean drain.
    pub unfinished: Vec<(String, i64)>,
}

/// Listening sockets, before and while they serve.
pub struct Server {
    listeners: Listeners,
    context: AcceptContext,
}

/// What every connection gets a copy of.
#[derive(Clone)]
struct AcceptContext {
    api: Arc<Api>,
    settings: Arc<ServerSettings>,
    builder: Arc<auto::Builder<TokioExecutor>>,
    proxy_builder: Arc<auto::Builder<TokioExecutor>>,
    limiter: Arc<ConnectionLimiter>,
    tls: Option<Certificates>,
    slots: Arc<Semaphore>,
    open: Gauge,
}

impl Server {
    /// Opens the sockets and reads the TLS files; nothing is accepted yet.
    pub async fn bind(settings: ServerSettings, api: Arc<Api>) -> Result<Server, BindError> {
        let listeners = Listeners::open(&settings.listen, settings.socket_mode).await?;
        let tls = settings.tls.as_ref().map(Certificates::read).transpose();
        let tls = tls.map_err(|e| BindError { what: "TLS".to_owned(), cause: Box::new(e) })?;
        Ok(Server::on(listeners, tls, settings, api))
    }

    /// The same on sockets that are open already, with certificates that were read already.
    pub fn on(
        listeners: Listeners,
        tls: Option<Certificates>,
        settings: ServerSettings,
        api: Arc<Api>,
    ) -> Server {
        let slots = Arc::new(Semaphore::new(settings.connections_max));
        let open = api.metrics().gauge("gleaner_http_connections", "Connections open.", &[]);
        let ended = "Connections ended because others took their place, or not taken because their address had enough.";
        let counter =
            |why| api.metrics().counter("gleaner_http_connections_ended_total", ended, &[("why", why)]);
        let (dismissed, refused) = (counter("silent"), counter("too_many_of_address"));
        let limiter =
            ConnectionLimiter::new(settings.connections_max, settings.per_address_max, dismissed, refused);
        let [builder, proxy_builder] =
            [false, true].map(|is_proxy| Arc::new(connection::builder(&settings, is_proxy)));
        let context = AcceptContext {
            api,
            settings: Arc::new(settings),
            builder,
            proxy_builder,
            limiter,
            tls,
            slots,
            open,
        };
        Server { listeners, context }
    }

    /// The address of the first socket of TCP, with the port that the system chose.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let first = self.listeners.addresses()?.into_iter().find_map(|address| match address {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix(_) => None,
        });
        first.ok_or_else(|| io::Error::other("no address to listen on"))
    }

    /// Serves until `shutdown` ends, then drains.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Drained {
        let (phase, watching) = watch::channel(ServingPhase::Serving);
        let accepting: Vec<_> = self
            .listeners
            .into_all()
            .into_iter()
            .map(|listener| tokio::spawn(accept(listener, self.context.clone(), watching.clone())))
            .collect();
        drop(watching);
        shutdown.await;
        self.context.api.start_draining();
        phase.send_replace(ServingPhase::Draining);
        for task in accepting {
            let _ = task.await;
        }
        let all = u32::try_from(self.context.settings.connections_max).unwrap_or(u32::MAX);
        let finished =
            tokio::time::timeout(self.context.settings.drain_max, self.context.slots.acquire_many(all)).await;
        let unfinished =
            if finished.is_ok() { Vec::new() } else { self.context.api.metrics().running_routes() };
        for (route, count) in &unfinished {
            tracing::warn!(target: "gleaner::server", route, count, "still running after the time to drain");
        }
        phase.send_replace(ServingPhase::Ended);
        Drained { unfinished }
    }
}

/// How often one that waits to be accepted looks whether somebody has fallen silent.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Accepts until the server drains.
async fn accept(listener: Listener, context: AcceptContext, mut phase: watch::Receiver<ServingPhase>) {
    loop {
        let next = async {
            let accepted = listener.accept().await;
            (accepted, slot(&context).await)
        };
        let (accepted, slot) = tokio::select! {
            next = next => next,
            _ = phase.wait_for(|phase| *phase != ServingPhase::Serving) => return,
        };
        let Some(slot) = slot else { return };
        match accepted {
            Ok(accepted) => {
                let ip = accepted.ip();
                let is_proxy = accepted.is_local() || context.api.settings().trusts(ip);
                let Some(permit) = context.limiter.admit(ip, is_proxy) else {
                    refuse(&accepted, &context);
                    continue;
                };
                let (context, phase) = (context.clone(), phase.clone());
                tokio::spawn(async move {
                    context.open.add(1);
                    let open_connection = OpenConnection(context.open.clone(), slot);
                    connect(accepted, permit, is_proxy, context, phase).await;
                    drop(open_connection);
                });
            }
            Err(error) => {
                // Out of file descriptors, mostly: a silent connection gives its own, and the pause keeps this from spinning.
                tracing::warn!(target: "gleaner::server", %error, "cannot accept");
                context.limiter.make_room(Instant::now());
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// One of the connections that are served at once; where there is none, a silent one is sent away. None when the server has
/// ended.
async fn slot(context: &AcceptContext) -> Option<OwnedSemaphorePermit> {
    loop {
        let waiting = Arc::clone(&context.slots).acquire_owned();
        if let Ok(slot) = Arc::clone(&context.slots).try_acquire_owned() {
            return Some(slot);
        }
        context.limiter.make_room(Instant::now());
        if let Ok(slot) = tokio::time::timeout(LOOK_AGAIN, waiting).await {
            return slot.ok();
        }
    }
}

/// Tells one of too many connections of an address so, where it can be told in the clear, and lets it go.
fn refuse(accepted: &Accepted, context: &AcceptContext) {
    // Whoever may open a Unix socket is a trusted proxy, and those are not counted.
    let Accepted::Tcp(stream, peer) = accepted else { return };
    tracing::debug!(target: "gleaner::server", %peer, "turned away: its address has as many connections as it may");
    if context.tls.is_none() {
        // What does not fit into an empty buffer is not written: nobody waits for a stranger to read.
        let _ = stream.try_write(refusal::too_many_connections().as_bytes());
    }
}

/// Gives a connection's slot back, however it ends.
struct OpenConnection(Gauge, #[allow(dead_code, reason = "held until dropped")] OwnedSemaphorePermit);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

/// Serves a connection, after the handshake where TLS is spoken.
async fn connect(
    accepted: Accepted,
    permit: ConnectionPermit,
    is_proxy: bool,
    context: AcceptContext,
    phase: watch::Receiver<ServingPhase>,
) {
    let client = Arc::clone(&permit.0);
    let AcceptContext { api, settings, builder, proxy_builder, tls, .. } = context;
    let builder = if is_proxy { proxy_builder } else { builder };
    match (accepted, tls) {
        (Accepted::Unix(stream), _) => {
            connection::serve(stream, client, api, builder, settings, phase).await;
        }
        (Accepted::Tcp(stream, _), None) => {
            no_delay(&stream);
            connection::serve(stream, client, api, builder, settings, phase).await;
        }
        (Accepted::Tcp(stream, _), Some(certificates)) => {
            no_delay(&stream);
            if let Some(stream) = handshake(stream, &certificates, &client, &settings).await {
                connection::serve(stream, client, api, builder, settings, phase).await;
            }
        }
    }
}

/// Answers are written whole; waiting to fill a packet only adds delay.
fn no_delay(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
}

/// Shakes hands; none when that fails, takes too long, or somebody else is let in instead.
async fn handshake(
    stream: TcpStream,
    certificates: &Certificates,
    client: &ClientConnection,
    settings: &ServerSettings,
) -> Option<TlsStream<TcpStream>> {
    let shaking = tokio::time::timeout(settings.head_time_max, certificates.acceptor().accept(stream));
    let shaken = tokio::select! {
        shaken = shaking => shaken,
        () = client.is_dismissed() => return None,
    };
    match shaken {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(target: "gleaner::server", peer = %client.ip(), %error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!(target: "gleaner::server", peer = %client.ip(), "TLS handshake took too long");
            None
        }
    }
}
