//! The accept loop: sockets, TLS, the cap on connections, and the drain.
//!
//! HTTP/1.1 and HTTP/2 share each socket: in the clear the first bytes tell them apart (RFC 9113, 3.3, prior knowledge),
//! under TLS the protocol is negotiated. At the cap a silent connection makes room for a newcomer (see `door.rs`); where all
//! are at work, nothing is accepted and the kernel's queue holds newcomers.
//!
//! Drain: stop accepting, let requests in flight finish (idle connections close at once), and after the time given name
//! what still runs and end it.

mod connection;

use crate::api::Api;
use crate::metrics::Gauge;
use crate::settings::ServerSettings;
use crate::wire::door::{Door, Place};
use crate::wire::refusal;
use crate::wire::tls::Certificates;
use connection::Phase;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

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
    listeners: Vec<TcpListener>,
    shared: Shared,
}

/// What every connection gets a copy of.
#[derive(Clone)]
struct Shared {
    api: Arc<Api>,
    settings: Arc<ServerSettings>,
    builder: Arc<auto::Builder<TokioExecutor>>,
    proxy_builder: Arc<auto::Builder<TokioExecutor>>,
    door: Arc<Door>,
    tls: Option<Certificates>,
    slots: Arc<Semaphore>,
    open: Gauge,
}

/// Sockets that are open and not yet served: who needs to know the port before there is an [`Api`] listens first.
pub struct Listeners(Vec<TcpListener>);

impl Listeners {
    /// Opens the sockets; connections wait in the kernel until [`Server::on`] serves them.
    pub async fn open(addresses: &[SocketAddr]) -> Result<Listeners, BindError> {
        let mut listeners = Vec::new();
        for address in addresses {
            let failed = |e| BindError { what: format!("cannot listen on {address}"), cause: Box::new(e) };
            listeners.push(TcpListener::bind(address).await.map_err(failed)?);
        }
        Ok(Listeners(listeners))
    }

    /// The first socket's address, with the port that the system chose.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.first().ok_or_else(|| io::Error::other("no address to listen on"))?.local_addr()
    }
}

impl Server {
    /// Opens the sockets and reads the TLS files; nothing is accepted yet.
    pub async fn bind(settings: ServerSettings, api: Arc<Api>) -> Result<Server, BindError> {
        let listeners = Listeners::open(&settings.listen).await?;
        Server::on(listeners, settings, api)
    }

    /// The same on sockets that are open already.
    pub fn on(listeners: Listeners, settings: ServerSettings, api: Arc<Api>) -> Result<Server, BindError> {
        let tls = settings.tls.as_ref().map(Certificates::read).transpose();
        let tls = tls.map_err(|e| BindError { what: "TLS".to_owned(), cause: Box::new(e) })?;
        let slots = Arc::new(Semaphore::new(settings.connections_max));
        let open = api.metrics().gauge("gleaner_http_connections", "Connections open.", &[]);
        let ended = "Connections ended because others took their place, or not taken because their address had enough.";
        let counter =
            |why| api.metrics().counter("gleaner_http_connections_ended_total", ended, &[("why", why)]);
        let (dismissed, refused) = (counter("silent"), counter("too_many_of_address"));
        let door = Door::new(settings.connections_max, settings.per_address_max, dismissed, refused);
        let [builder, proxy_builder] =
            [false, true].map(|is_proxy| Arc::new(connection::builder(&settings, is_proxy)));
        let shared =
            Shared { api, settings: Arc::new(settings), builder, proxy_builder, door, tls, slots, open };
        Ok(Server { listeners: listeners.0, shared })
    }

    /// The certificates that it shows, to renew them while it serves; none without TLS.
    pub fn certificates(&self) -> Option<Certificates> {
        self.shared.tls.clone()
    }

    /// The first socket's address, with the port that the system chose.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listeners.first().ok_or_else(|| io::Error::other("no address to listen on"))?.local_addr()
    }

    /// Serves until `shutdown` ends, then drains.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Drained {
        let (phase, watching) = watch::channel(Phase::Serving);
        let accepting: Vec<_> = self
            .listeners
            .into_iter()
            .map(|listener| tokio::spawn(accept(listener, self.shared.clone(), watching.clone())))
            .collect();
        drop(watching);
        shutdown.await;
        self.shared.api.start_draining();
        phase.send_replace(Phase::Draining);
        for task in accepting {
            let _ = task.await;
        }
        let all = u32::try_from(self.shared.settings.connections_max).unwrap_or(u32::MAX);
        let finished =
            tokio::time::timeout(self.shared.settings.drain_max, self.shared.slots.acquire_many(all)).await;
        let unfinished =
            if finished.is_ok() { Vec::new() } else { self.shared.api.metrics().running_routes() };
        for (route, count) in &unfinished {
            tracing::warn!(target: "gleaner::server", route, count, "still running after the time to drain");
        }
        phase.send_replace(Phase::Ended);
        Drained { unfinished }
    }
}

/// How often one that waits at the door looks whether somebody has fallen silent.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Accepts until the server drains.
async fn accept(listener: TcpListener, shared: Shared, mut phase: watch::Receiver<Phase>) {
    loop {
        let next = async {
            let accepted = listener.accept().await;
            (accepted, slot(&shared).await)
        };
        let (accepted, slot) = tokio::select! {
            next = next => next,
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
        };
        let Some(slot) = slot else { return };
        match accepted {
            Ok((stream, peer)) => {
                let is_proxy = shared.api.settings().trusts(peer.ip());
                let Some(place) = shared.door.admit(peer.ip(), is_proxy) else {
                    turn_away(&stream, peer, &shared);
                    continue;
                };
                let (shared, phase) = (shared.clone(), phase.clone());
                tokio::spawn(async move {
                    shared.open.add(1);
                    let closed = Closed(shared.open.clone(), slot);
                    greet(stream, place, is_proxy, shared, phase).await;
                    drop(closed);
                });
            }
            Err(error) => {
                // Out of file descriptors, mostly: a silent connection gives its own, and the pause keeps this from spinning.
                tracing::warn!(target: "gleaner::server", %error, "cannot accept");
                shared.door.make_room(Instant::now());
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// One of the connections that are served at once; where there is none, a silent one is sent away. None when the server has
/// ended.
async fn slot(shared: &Shared) -> Option<OwnedSemaphorePermit> {
    loop {
        let waiting = Arc::clone(&shared.slots).acquire_owned();
        if let Ok(slot) = Arc::clone(&shared.slots).try_acquire_owned() {
            return Some(slot);
        }
        shared.door.make_room(Instant::now());
        if let Ok(slot) = tokio::time::timeout(LOOK_AGAIN, waiting).await {
            return slot.ok();
        }
    }
}

/// Tells one of too many connections of an address so, where it can be told in the clear, and lets it go.
fn turn_away(stream: &TcpStream, peer: SocketAddr, shared: &Shared) {
    tracing::debug!(target: "gleaner::server", %peer, "turned away: its address has as many connections as it may");
    if shared.tls.is_none() {
        // What does not fit into an empty buffer is not written: nobody waits for a stranger to read.
        let _ = stream.try_write(refusal::too_many_connections().as_bytes());
    }
}

/// Gives a connection's slot back, however it ends.
struct Closed(Gauge, #[allow(dead_code, reason = "held until dropped")] OwnedSemaphorePermit);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

/// Shakes hands where TLS is spoken, then serves.
async fn greet(
    stream: TcpStream,
    place: Place,
    is_proxy: bool,
    shared: Shared,
    phase: watch::Receiver<Phase>,
) {
    // Answers are written whole; waiting to fill a packet only adds delay.
    let _ = stream.set_nodelay(true);
    let Shared { api, settings, builder, proxy_builder, tls, .. } = shared;
    let builder = if is_proxy { proxy_builder } else { builder };
    let guest = Arc::clone(&place.0);
    let Some(certificates) = tls else {
        return connection::serve(stream, guest, api, builder, settings, phase).await;
    };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(settings.head_time_max, certificates.acceptor().accept(stream)) => shaken,
        () = guest.is_dismissed() => return,
    };
    match shaken {
        Ok(Ok(stream)) => connection::serve(stream, guest, api, builder, settings, phase).await,
        Ok(Err(error)) => {
            tracing::debug!(target: "gleaner::server", peer = %guest.ip(), %error, "TLS handshake failed")
        }
        Err(_) => {
            tracing::debug!(target: "gleaner::server", peer = %guest.ip(), "TLS handshake took too long")
        }
    }
}
