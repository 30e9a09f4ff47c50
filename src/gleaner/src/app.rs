//! Wires the parts together, serves, drains.
//!
//! Order of a start: folders, secrets, store, engines, listening socket (so that the address guard knows the box's own
//! addresses), services, supervisor, operator's socket. Order of an end: stop accepting, finish requests, finish or hand
//! back jobs, let index and snapshots catch up, close the store. What does not end within `server.shutdown_sec` is
//! named in the log.

use crate::admin::{AdminSocket, StatusFn, Views};
use crate::config::Config;
use crate::doctor::Checkup;
use crate::features;
use crate::features::wiring::{Wiring, in_order, tasks};
use crate::trunk::check_seal;
use base::clock::Clock;
use base::health::Health;
use base::ids;
use base::trace::Tracer;
use base::{Error, Result};
use secrets::keyring::{Keyring, Purpose};
use secrets::link::Links;
use serde_json::json;
use server::task::{Signals, Supervisor};
use server::{
    Api, ApiSettings, Certificates, ListenAddress, Listeners, Metrics, Readiness, RouteGroup, ServedRoutes,
    Server, ServerSettings, Services, SlowLines, TlsSettings,
};
use sql::own_program;
use std::error::Error as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use store::Store;
use tokio::sync::watch as channel;
use tokio::task::JoinHandle;
use watch::Watch;

mod certificates;
mod descriptors;
mod files;
mod founding;
mod limits;
mod look;
mod process;
mod selftest;
mod upkeep;
mod watch;

pub use certificates::Renewed;
use selftest::SelfTest;

/// A running appliance.
pub struct App {
    url: String,
    local_urls: Vec<String>,
    config: Config,
    certificates: Option<Certificates>,
    store: Store,
    services: Arc<Services>,
    supervisor: Supervisor,
    upkeep: JoinHandle<()>,
    renewing: Option<JoinHandle<()>>,
    testing: JoinHandle<()>,
    serving: JoinHandle<()>,
    stop: channel::Sender<bool>,
    _socket: AdminSocket,
}

impl App {
    /// Starts everything; when this returns, requests are answered.
    pub async fn start(config: Config) -> Result<App> {
        App::start_on(config, None).await
    }

    /// The same on sockets that are open already, if there are any: they take the place of `server.listen`.
    pub async fn start_on(config: Config, sockets: Option<Listeners>) -> Result<App> {
        limits::check_address_space()?;
        let exe = own_program().map_err(|e| Error::internal("find the own binary", e))?;
        let clock = Clock::system();
        // Before anything is made: of several boxes in one process, as in tests, none could lead.
        ids::follow(&clock);
        App::begin(config, clock, exe, sockets).await
    }

    /// The same under a clock that the caller can move, with SQL workers that run `exe sql-worker`.
    pub async fn start_with(config: Config, clock: Clock, exe: PathBuf) -> Result<App> {
        App::begin(config, clock, exe, None).await
    }

    async fn begin(config: Config, clock: Clock, exe: PathBuf, sockets: Option<Listeners>) -> Result<App> {
        descriptors::raise_limit();
        files::keep_private();
        // A box that is new makes neither store nor key while it cannot be reached. One that is not is asked for its store
        // first: where that is taken, so is the port.
        let early = match config.store_file().exists() {
            _ if sockets.is_some() => sockets,
            true => None,
            false => Some(listen(&config).await?),
        };
        let certificates = certificates::read(&config)?;
        founding::prepare(&config)?;
        files::tighten(config.storage.data_dir.clone());
        let store = open_store(&config, clock).await?;
        // The store is this process's alone from here on, and so is the socket. What keeps it from opening is said before
        // anybody is served.
        let mut socket = AdminSocket::bind(config.socket())?;
        let keyring = Arc::new(founding::keyring(&config, &store)?);
        let (sealing, checking) = (keyring.clone(), keyring.clone());
        store.seal_audit(
            move |head| sealing.stamp(Purpose::AuditHead, head),
            move |head, seal| check_seal(&checking, head, seal),
        );
        founding::renew_seals(&store).await;
        let listeners = match early {
            Some(listeners) => listeners,
            None => listen(&config).await?,
        };
        let listening = Listening::of(&config, &listeners)?;
        let url = listening.url.clone();
        let metrics = Metrics::new();
        let trunk = trunk(&config, &store, &metrics, keyring);
        let services = wired(Wiring::new(&config, &url, &listening.tcp, &exe, trunk)).await?;
        let self_test = SelfTest::new(&metrics);
        let watch = Arc::new(Watch::over(&config.storage.data_dir));
        upkeep::measure(&metrics, &services, &watch, certificates.as_ref());
        let look = look::look(&config, url.clone(), &services, metrics.clone(), Arc::clone(&watch));
        let ready = upkeep::readiness(&services, &watch, &self_test, certificates.as_ref());
        let api = api(&config, &url, &services, metrics, ready);
        let server = Server::on(listeners, certificates.clone(), server_settings(&config), api.clone());
        let (stop, stopping) = channel::channel(false);
        let serving = tokio::spawn(serve(server, stopping));
        let supervisor = Supervisor::start(tasks(), &services, api.metrics());
        let upkeep = tokio::spawn(upkeep::run(services.clone(), config.clone(), watch));
        let renewing = certificates.clone().map(|followed| tokio::spawn(certificates::follow(followed)));
        let status = status(&services, &listening, certificates.clone(), &self_test);
        let checkup = Checkup::of(&config);
        socket.serve(services.clone(), Views { status, look, checkup });
        let testing = tokio::spawn(Arc::clone(&self_test).run(services.clone()));
        self_test.first_round().await;
        tracing::info!(%url, data = %config.storage.data_dir.display(), "the appliance is ready");
        Ok(App {
            url,
            local_urls: listening.local_urls,
            config,
            certificates,
            store,
            services,
            supervisor,
            upkeep,
            renewing,
            testing,
            serving,
            stop,
            _socket: socket,
        })
    }

    /// How people reach it, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it listens, each without a slash at the end; a Unix socket as `unix:` and its path.
    pub fn local_urls(&self) -> &[String] {
        &self.local_urls
    }

    /// Reads the certificates of `fresh` again, for connections to come; on an error those that were there stay. Whether
    /// there is TLS at all is decided at the start.
    pub fn renew_certificates(&self, fresh: &Config) -> Result<Renewed> {
        certificates::renew(self.certificates.as_ref(), fresh)
    }

    /// The operator's socket.
    pub fn socket(&self) -> PathBuf {
        self.config.socket()
    }

    pub fn data_dir(&self) -> &Path {
        &self.config.storage.data_dir
    }

    pub fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Drains and closes everything.
    pub async fn stop(self) {
        // Requests and background work share one time to end, which is what the operator's service manager waits for.
        let deadline = Instant::now() + self.config.shutdown_grace();
        self.stop.send_replace(true);
        self.testing.abort();
        if let Some(renewing) = self.renewing {
            renewing.abort();
        }
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the server ended badly");
        }
        let unfinished = self.supervisor.drain(deadline.saturating_duration_since(Instant::now())).await;
        if !unfinished.is_empty() {
            tracing::warn!(tasks = unfinished.join(", "), "still running when the time to drain was over");
        }
        self.upkeep.abort();
        // Who uses others ends before them.
        for close in in_order().into_iter().rev().filter_map(|feature| feature.close) {
            close(self.services.clone()).await;
        }
        let store = self.store.clone();
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::error!("the store could not be closed");
        }
        tracing::info!("the appliance has stopped");
    }
}

/// The parts of all slices, each with what it needs.
async fn wired(wiring: Wiring<'_>) -> Result<Arc<Services>> {
    let services = Arc::new(wiring.open_all().await?);
    let needs = features::ALL.iter().flat_map(|feature| feature.needs);
    services.check(needs).map_err(|missing| Error::internal("wire the appliance", missing.join(", ")))?;
    Ok(services)
}

/// What answers requests, as the configuration wants it.
fn api(
    config: &Config,
    url: &str,
    services: &Arc<Services>,
    metrics: Metrics,
    readiness: Readiness,
) -> Arc<Api> {
    let (callers, gate) = features::doors(services);
    let settings = ApiSettings {
        docs_base: format!("{url}/docs"),
        prefix: config.public_path(),
        start: features::start_page(),
        sends_mail: features::sends_mail(config),
        trusted_proxies: config.server.trusted_proxies.iter().map(|network| network.0).collect(),
        bodies_bytes_max: config.server.bodies_mb << 20,
        metrics_from: config.server.metrics_from.iter().map(|network| network.0).collect(),
        metrics_token: Some(config.server.metrics_token.clone()).filter(|token| !token.is_empty()),
    };
    Api::new(services.clone(), &SERVED, callers, gate, settings, metrics, readiness)
}

/// The trunk's own parts, as slices find them.
fn trunk(config: &Config, store: &Store, metrics: &Metrics, keyring: Arc<Keyring>) -> Services {
    Services::new(store.clone())
        .with(Arc::<Health>::default())
        .with(Arc::<Tracer>::default())
        .with(Arc::new(metrics.clone()))
        .with(Arc::new(slow_requests(config, metrics)))
        .with(Arc::new(Links::new(keyring.clone())))
        .with(keyring)
        .with(Arc::new(Signals::of(tasks())))
}

/// Which requests are told of as slow.
fn slow_requests(config: &Config, metrics: &Metrics) -> SlowLines {
    let help = "Requests that took as long as log.slow_request_ms, but for those that wait because their callers want it.";
    let over = Duration::from_millis(config.log.slow_request_ms);
    SlowLines::new(metrics, "gleaner_slow_requests_total", help, over)
}

/// The slices' routes, in the order of the slices.
pub fn routes() -> Vec<RouteGroup> {
    let with_routes = features::ALL.iter().filter(|feature| !feature.routes.is_empty());
    with_routes
        .map(|feature| RouteGroup { name: feature.name, routes: feature.routes, mount: feature.mount })
        .collect()
}

/// Everything of the slices that answers: their routes and their pages.
static SERVED: LazyLock<ServedRoutes> = LazyLock::new(|| {
    let with_pages = features::ALL.iter().filter(|feature| !feature.pages.is_empty());
    let pages = with_pages.map(|feature| RouteGroup::new(feature.name, feature.pages));
    ServedRoutes::new(routes().into_iter().chain(pages).collect())
});

async fn open_store(config: &Config, clock: Clock) -> Result<Store> {
    let path = config.store_file();
    let cache_bytes = config.storage.cache_mb << 20;
    let store = tokio::task::spawn_blocking(move || Store::open(&path, cache_bytes, clock))
        .await
        .map_err(|e| Error::internal("open the store", e))??;
    store.keep_free(config.storage.reserve_mb << 20);
    Ok(store)
}

/// Where a box is that has begun to listen.
struct Listening {
    /// How people reach it, without a slash at the end.
    url: String,
    local_urls: Vec<String>,
    tcp: Vec<SocketAddr>,
}

impl Listening {
    fn of(config: &Config, listeners: &Listeners) -> Result<Listening> {
        let addresses = listeners.addresses().map_err(|e| Error::internal("listen", e))?;
        let url = config.public_url(&addresses).ok_or_else(|| {
            let reason = "must be set where the service manager's sockets are Unix sockets only";
            Error::invalid("server.public_url", reason)
        })?;
        let local_urls = addresses.iter().map(|address| config.local_url(address)).collect();
        let tcp = addresses.into_iter().filter_map(|address| match address {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix(_) => None,
        });
        Ok(Listening { url, local_urls, tcp: tcp.collect() })
    }
}

async fn listen(config: &Config) -> Result<Listeners> {
    Listeners::open(&config.server.listen, config.server.socket_mode).await.map_err(|error| {
        let advice = match error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>()) {
            Some(cause) if cause.kind() == std::io::ErrorKind::AddrInUse => {
                ". Another program has it: stop that one, or set server.listen (GLEANER_SERVER__LISTEN) to another port"
            }
            _ if config.server.listen.iter().any(|address| matches!(address, ListenAddress::Unix(_))) => {
                ". server.listen names addresses of this machine, and files in folders that the box may write to"
            }
            _ => ". server.listen names an address of this machine, or 0.0.0.0 for all of them",
        };
        Error::unavailable(format!("{error}{advice}"))
    })
}

fn tls_settings(config: &Config) -> Option<TlsSettings> {
    config.tls().map(|tls| TlsSettings { cert: tls.cert.clone(), key: tls.key.clone() })
}

fn server_settings(config: &Config) -> ServerSettings {
    ServerSettings {
        listen: config.server.listen.clone(),
        socket_mode: config.server.socket_mode,
        tls: tls_settings(config),
        connections_max: descriptors::connections_max(config),
        per_address_max: config.server.connections_per_address,
        // What hangs must not take the time that jobs, what follows them and the store have to end in.
        drain_max: config.shutdown_grace() / 2,
        ..ServerSettings::default()
    }
}

async fn serve(server: Server, mut stopping: channel::Receiver<bool>) {
    let drained = server
        .serve(async move {
            // An error means that the app is gone, which is a stop too.
            let _ = stopping.wait_for(|stop| *stop).await;
        })
        .await;
    for (route, requests) in drained.unfinished {
        tracing::warn!(route, requests, "requests were cut off when the time to drain was over");
    }
}

fn status(
    services: &Arc<Services>,
    listening: &Listening,
    certificates: Option<Certificates>,
    self_test: &Arc<SelfTest>,
) -> StatusFn {
    let (url, places) = (listening.url.clone(), listening.local_urls.clone());
    let (store, services, begun) = (services.store().clone(), services.clone(), std::time::Instant::now());
    let self_test = Arc::clone(self_test);
    Arc::new(move || {
        let stats = store.stats();
        let mut status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "url": url,
            "listening": places,
            "certificates": certificates.as_ref().map(|shown| json!({ "trouble": shown.trouble() })),
            "uptimeSec": begun.elapsed().as_secs(),
            "selfTest": self_test.status(),
            "clock": clock_status(store.clock()),
            "store": {
                "fileBytes": store.file_bytes(),
                "operations": stats.operations.load(Ordering::Relaxed),
                "commits": stats.commits.load(Ordering::Relaxed),
                "failedCommits": stats.failed_commits.load(Ordering::Relaxed),
                "diskFull": store.disk_full(),
            },
            "sequence": *store.sequence().borrow(),
        });
        for (name, value) in
            features::ALL.iter().filter_map(|feature| feature.status).flat_map(|of| of(&services))
        {
            status[name] = value;
        }
        status
    })
}

/// What the machine's clock did.
fn clock_status(clock: &Clock) -> serde_json::Value {
    let report = clock.report();
    json!({
        "now": report.now,
        "jumps": report.jumps,
        "lastJump": report.last_jump.map(|jump| json!({
            "from": jump.from,
            "to": jump.to,
            "bySec": jump.millis() as f64 / 1e3,
        })),
        "aheadOfBoxTimeSec": report.ahead_ms as f64 / 1e3,
        "offTimeInDoubtSec": report.doubted.map(|off| off.as_secs()),
    })
}
