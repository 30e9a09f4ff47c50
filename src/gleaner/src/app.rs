//! Wires the parts together, serves, drains.
//!
//! Order of a start: folders, secrets, store, engines, listening socket (so that the address guard knows the box's own
//! addresses), services, supervisor, operator's socket. Order of an end: stop accepting, finish requests, finish or hand
//! back jobs, let index and snapshots catch up, close the store. What does not end within `server.shutdown_sec` is
//! named in the log.

use crate::admin::{AdminSocket, StatusFn};
use crate::config::{BrowserConfig, Config, DispatchConfig};
use crate::features::account::Accounts;
use crate::features::api_keys::{Callers, KeyUsage};
use crate::features::audit::AuditSettings;
use crate::features::auth::{Auth, AuthSettings};
use crate::features::billing::{self, PlanGate, Plans, Retention};
use crate::features::extraction::{Extractor, SearchFeed, adopt_pages};
use crate::features::jobs::{Desk, DispatchParts, DispatchSettings, Dispatcher};
use crate::features::mail::{self, MailState, Mailer};
use crate::features::orgs::{OrgSeed, Orgs, list_orgs};
use crate::features::providers::{self, ProviderParts, ProviderUsers, Providers};
use crate::features::workflows::{self, Book, Graphs};
use crate::features::{self, bi};
use base::clock::Clock;
use base::health::Health;
use base::ids;
use base::{Error, Result};
use blob::BlobStore;
use fetch::{
    AddressGuard, BrowserSettings, Browsers, Direct, FetchSettings, Pace, Politeness, Templates, user_agent,
};
use secrets::keyring::{Keyring, Purpose};
use secrets::link::Links;
use serde_json::json;
use server::task::{Signals, Supervisor};
use server::{
    Api, ApiSettings, Certificates, Listeners, Metrics, RouteGroup, Server, ServerSettings, Services,
    TlsSettings,
};
use smtp::Smtp;
use sql::{Snapshots, WorkerSettings, Workers, box_memory_bytes, own_program, sandbox};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use store::{Store, System};
use tokio::sync::watch as channel;
use tokio::task::JoinHandle;
use watch::Watch;

mod descriptors;
mod files;
mod founding;
mod limits;
mod selftest;
mod upkeep;
mod watch;

use selftest::SelfTest;
pub use selftest::TABLES;

/// What came of reading the certificates again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    Yes,
    /// The box speaks without TLS, then as now.
    NoneUsed,
    /// TLS is switched on or off by a start only; `is_on` says which it stays.
    NeedsRestart {
        is_on: bool,
    },
}

/// A running appliance.
pub struct App {
    url: String,
    local_url: String,
    config: Config,
    certificates: Option<Certificates>,
    store: Store,
    services: Arc<Services>,
    supervisor: Supervisor,
    upkeep: JoinHandle<()>,
    testing: JoinHandle<()>,
    serving: JoinHandle<()>,
    stop: channel::Sender<bool>,
    _socket: AdminSocket,
}

impl App {
    /// Starts everything; when this returns, requests are answered.
    pub async fn start(config: Config) -> Result<App> {
        limits::check_address_space()?;
        let exe = own_program().map_err(|e| Error::internal("find the own binary", e))?;
        let clock = Clock::system();
        // Before anything is made: of several boxes in one process, as in tests, none could lead.
        ids::follow(&clock);
        App::start_with(config, clock, exe).await
    }

    /// The same under a clock that the caller can move, with SQL workers that run `exe sql-worker`.
    pub async fn start_with(config: Config, clock: Clock, exe: PathBuf) -> Result<App> {
        descriptors::raise_limit();
        files::keep_private();
        founding::prepare(&config)?;
        files::tighten(config.storage.data_dir.clone());
        let store = open_store(&config, clock).await?;
        // The store is this process's alone from here on, and so is the socket. What keeps it from opening is said before
        // anybody is served.
        let mut socket = AdminSocket::bind(config.socket())?;
        let keyring = Arc::new(founding::keyring(&config, &store)?);
        let sealing = keyring.clone();
        store.seal_audit(move |head| sealing.stamp(Purpose::AuditHead, head));
        let listeners =
            Listeners::open(&[config.server.listen]).await.map_err(|e| Error::unavailable(e.to_string()))?;
        let local = listeners.local_addr().map_err(|e| Error::internal("listen", e))?;
        let url = config.public_url(local);
        let metrics = Metrics::new();
        let parts = Parts::open(&config, &store, keyring, Place { url: &url, local, exe }).await?;
        let self_test = SelfTest::new(&metrics);
        let watch = Arc::<Watch>::default();
        upkeep::measure(&metrics, &store, &parts, &watch);
        let callers = Callers::new(parts.auth.clone(), parts.key_usage.clone());
        let gate = PlanGate(parts.plans.clone());
        let services = parts.services(&store);
        let tasks = || features::ALL.iter().flat_map(|feature| feature.tasks);
        let services = Arc::new(services.with(Arc::new(Signals::of(tasks()))));
        let needs = features::ALL.iter().flat_map(|feature| feature.needs);
        services.check(needs).map_err(|missing| Error::internal("wire the appliance", missing.join(", ")))?;

        let api = Api::new(
            services.clone(),
            &routes(),
            callers,
            gate,
            ApiSettings {
                docs_base: format!("{url}/docs"),
                prefix: config.public_path(),
                sends_mail: config.mail.is_on(),
                trusted_proxies: config.server.trusted_proxies.iter().map(|network| network.0).collect(),
                bodies_bytes_max: config.server.bodies_mb << 20,
                metrics_from: config.server.metrics_from.iter().map(|network| network.0).collect(),
                metrics_token: Some(config.server.metrics_token.clone()).filter(|token| !token.is_empty()),
            },
            metrics,
            upkeep::readiness(&store, &watch, &self_test, &services.service::<Health>()),
        );
        let server = Server::on(listeners, server_settings(&config), api.clone())
            .map_err(|e| Error::unavailable(e.to_string()))?;
        let certificates = server.certificates();
        let (stop, stopping) = channel::channel(false);
        let serving = tokio::spawn(serve(server, stopping));
        let supervisor = Supervisor::start(tasks(), &services, api.metrics());
        let upkeep = tokio::spawn(upkeep::run(services.clone(), config.clone(), watch));
        let status = status(&store, &services, url.clone(), &self_test);
        socket.serve(services.clone(), status);
        let testing = tokio::spawn(Arc::clone(&self_test).run(services.clone()));
        self_test.first_round().await;
        tracing::info!(%url, data = %config.storage.data_dir.display(), "the appliance is ready");
        let local_url = config.local_url(local);
        Ok(App {
            url,
            local_url,
            config,
            certificates,
            store,
            services,
            supervisor,
            upkeep,
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

    /// Where it listens, without a slash at the end.
    pub fn local_url(&self) -> &str {
        &self.local_url
    }

    /// Reads the certificates of `fresh` again, for connections to come; on an error those that were there stay. Whether
    /// there is TLS at all is decided at the start.
    pub fn renew_certificates(&self, fresh: &Config) -> Result<Renewed> {
        match (&self.certificates, tls_settings(fresh)) {
            (Some(certificates), Some(tls)) => {
                certificates.renew(&tls).map_err(|e| Error::invalid("server.tls", e))?;
                Ok(Renewed::Yes)
            }
            (None, None) => Ok(Renewed::NoneUsed),
            (used, _) => Ok(Renewed::NeedsRestart { is_on: used.is_some() }),
        }
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
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the server ended badly");
        }
        let unfinished = self.supervisor.drain(deadline.saturating_duration_since(Instant::now())).await;
        if !unfinished.is_empty() {
            tracing::warn!(tasks = unfinished.join(", "), "still running when the time to drain was over");
        }
        self.upkeep.abort();
        self.services.service::<Browsers>().close().await;
        let store = self.store.clone();
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::error!("the store could not be closed");
        }
        tracing::info!("the appliance has stopped");
    }
}

/// How long jobs may go on at most once the box drains: most pages come within that.
const RUNS_DRAIN_MAX: Duration = Duration::from_secs(5);

/// A file may be so many times larger than the largest result that it is made of: text takes more room than columns.
const EXPORT_FACTOR: u64 = 4;

/// The engines and what the slices hang beside them.
pub(crate) struct Parts {
    keyring: Arc<Keyring>,
    health: Arc<Health>,
    auth: Arc<Auth>,
    key_usage: Arc<KeyUsage>,
    orgs: Arc<Orgs>,
    mailer: Arc<Mailer>,
    plans: Arc<Plans>,
    retention: Arc<Retention>,
    guard: Arc<AddressGuard>,
    blobs: Arc<BlobStore>,
    extractor: Arc<Extractor>,
    search: Arc<SearchFeed>,
    providers: Arc<Providers>,
    browsers: Arc<Browsers>,
    book: Arc<Book>,
    graphs: Arc<Graphs>,
    desk: Arc<Desk>,
    dispatcher: Arc<Dispatcher>,
    snapshots: Arc<bi::SnapshotFeed>,
    queries: Arc<bi::Queries>,
    links: Arc<Links>,
    exports: Arc<bi::Exports>,
    audit: Arc<AuditSettings>,
    accounts: Arc<Accounts>,
}

/// Where this process stands.
struct Place<'a> {
    url: &'a str,
    local: SocketAddr,
    exe: PathBuf,
}

impl Parts {
    async fn open(config: &Config, store: &Store, keyring: Arc<Keyring>, place: Place<'_>) -> Result<Parts> {
        let data = &config.storage.data_dir;
        let system = store.system();
        let plans = Arc::new(Plans::built_in()?);
        let retention = hold_to_plans(config, store, &plans).await?;
        let guard = AddressGuard::new(&config.network.allow, &[place.local])
            .answering(config.network.hosts.keys().map(String::as_str));
        let blobs = Arc::new(open_pages(data)?);
        let health = Health::default();
        let extractor = Arc::new(Extractor::new(store.clone(), blobs.clone(), health.clone()));
        let search = Arc::new(SearchFeed::open(data.join("search"), system.clone())?);
        let politeness = Politeness::new(pace(config));
        let direct = Direct::new(fetch_settings(config), guard.clone());
        let browsers = Browsers::new(browser_settings(config));
        let providers = Arc::new(Providers::new(ProviderParts {
            templates: templates(config)?,
            direct: Arc::new(direct.asking(politeness.clone())),
            browsers: browsers.clone(),
            keyring: keyring.clone(),
            politeness: politeness.clone(),
            robots: config.dispatch.robots,
            lower_prices: config.providers.lower_prices,
            clock: store.clock().clone(),
        }));
        let orgs = system.read(list_orgs)?;
        providers::seed_all(&system, orgs.iter().map(|org| org.id).collect()).await?;
        // No slice keeps outputs yet, so no graph can name one.
        let book = Arc::new(Book::new(providers.clone(), |_, _| Ok(false)));
        let graphs = Arc::new(Graphs::default());
        let dispatch = DispatchParts {
            providers: providers.clone(),
            graphs: graphs.clone(),
            politeness,
            extractor: extractor.clone(),
            health: health.clone(),
        };
        let dispatcher = Arc::new(Dispatcher::new(system.clone(), dispatch, dispatch_settings(config)));
        let desk = Arc::new(Desk {
            plans: plans.clone(),
            book: book.clone(),
            graphs: graphs.clone(),
            dispatcher: dispatcher.clone(),
        });
        let views = features::ALL.iter().flat_map(|feature| feature.views).collect();
        let snapshots =
            Snapshots::open(data.join("snapshots")).map_err(|e| Error::internal("open the snapshots", e))?;
        let snapshots = Arc::new(bi::SnapshotFeed::new(system.clone(), Arc::new(snapshots), views)?);
        let workers = Workers::new(worker_settings(config, place.exe))
            .map_err(|e| Error::internal("prepare SQL workers", e))?;
        warn_of_weak_walls(config);
        workers.warm();
        let horizons = features::ALL.iter().filter_map(|feature| feature.horizons).collect();
        let agents = features::ALL.iter().filter_map(|feature| feature.agents).collect();
        let (settings, workers) = (bi_settings(config), Arc::new(workers));
        let kept = open_kept(config, system.clone(), Arc::clone(&workers)).await?;
        let queries =
            bi::Queries::new(settings, workers, snapshots.clone(), Arc::clone(&kept), horizons, agents);
        let queries = Arc::new(queries);
        let links = Arc::new(Links::new(keyring.clone()));
        let room = config.bi.results_org_mb.min(config.bi.results_box_mb) << 20;
        let bytes_max = config.bi.result_bytes_max().saturating_mul(EXPORT_FACTOR).min(room);
        let (folder, url) = (exports_folder(config), place.url.to_owned());
        let exports = bi::Exports::open(folder, kept, links.clone(), url, bytes_max)
            .map_err(|e| Error::internal("prepare exports", e))?;
        bi::recover(&system).await?;
        bi::load_kill_switches(&system, &queries)?;
        let auth = Arc::new(Auth::new(system, keyring.clone(), auth_settings(config, place.url))?);
        let (seeded, marking) = (plans.clone(), keyring.clone());
        let seeds: Vec<OrgSeed> = vec![
            Box::new(move |tx, new, email| {
                let (_, person) = marking.sign(Purpose::PastUse, email.as_bytes());
                billing::open_account_of(tx, new.id, seeded.default_plan(), &person)
            }),
            Box::new(|tx, new, _| providers::seed(&tx.org(new.id))),
        ];
        let orgs = Arc::new(Orgs::new(seeds, config.auth.invites_per_day));
        mail::seal_old(&store.system(), &keyring).await?;
        let mailer = Arc::new(Mailer::new(config.mail.smtp(place.url)?.map(Smtp::new), keyring.clone()));
        Ok(Parts {
            keyring,
            health: Arc::new(health),
            auth,
            key_usage: Arc::default(),
            orgs,
            mailer,
            plans,
            retention,
            guard: Arc::new(guard),
            blobs,
            extractor,
            search,
            providers,
            browsers,
            book,
            graphs,
            desk,
            dispatcher,
            snapshots,
            queries,
            links,
            exports: Arc::new(exports),
            audit: Arc::new(AuditSettings { retention_days: config.audit.retention_days }),
            accounts: Arc::new(Accounts::open(data.join("account-exports"))?),
        })
    }

    fn services(self, store: &Store) -> Services {
        let graphs = self.graphs.clone();
        let users = ProviderUsers::new(move |org, provider| workflows::asking(org, &graphs, provider));
        Services::new(store.clone())
            .with(self.keyring)
            .with(self.health)
            .with(self.auth)
            .with(self.key_usage)
            .with(self.orgs)
            .with(self.mailer)
            .with(self.plans)
            .with(self.retention)
            .with(self.guard)
            .with(self.blobs)
            .with(self.extractor)
            .with(self.search)
            .with(self.providers)
            .with(Arc::new(users))
            .with(self.browsers)
            .with(self.book)
            .with(self.graphs)
            .with(self.desk)
            .with(self.dispatcher)
            .with(self.snapshots)
            .with(self.queries)
            .with(self.links)
            .with(self.exports)
            .with(self.audit)
            .with(self.accounts)
    }
}

fn open_pages(data: &Path) -> Result<BlobStore> {
    BlobStore::open_local(data.join("pages")).map_err(|e| Error::internal("open the page store", e))
}

/// Holds organizations to what their plans let them store, for as long as it is kept.
async fn hold_to_plans(config: &Config, store: &Store, plans: &Arc<Plans>) -> Result<Arc<Retention>> {
    store.limit_room(billing::room(plans.clone()));
    adopt_pages(&store.system()).await?;
    Ok(Arc::new(Retention::new(config.retention, plans.clone())))
}

fn dispatch_settings(config: &Config) -> DispatchSettings {
    // The rest of the time is that of what follows the jobs: index, snapshots, the store.
    let drain = (config.shutdown_grace() / 4).min(RUNS_DRAIN_MAX);
    DispatchSettings { concurrency: config.dispatch.concurrency, drain }
}

/// The slices' routes, in the order of the slices.
pub fn routes() -> Vec<RouteGroup> {
    let with_routes = features::ALL.iter().filter(|feature| !feature.routes.is_empty());
    with_routes.map(|feature| (feature.name, feature.routes)).collect()
}

async fn open_store(config: &Config, clock: Clock) -> Result<Store> {
    let path = config.store_file();
    let cache_bytes = config.storage.cache_mb << 20;
    let store = tokio::task::spawn_blocking(move || Store::open(&path, cache_bytes, clock))
        .await
        .map_err(|e| Error::internal("open the store", e))??;
    store.keep_free(config.storage.reserve_mb << 20);
    Ok(store)
}

/// The hosted providers' templates. A wrong one keeps the box from starting: it would fail every job, one by one.
fn templates(config: &Config) -> Result<Templates> {
    let folder = Some(config.providers.dir.as_path()).filter(|folder| !folder.as_os_str().is_empty());
    Templates::load(folder).map_err(|e| Error::invalid("providers.dir", e))
}

fn pace(config: &Config) -> Pace {
    let DispatchConfig { per_domain_concurrency, min_delay_ms, pause_max_sec, .. } = config.dispatch;
    Pace {
        per_domain_concurrency,
        min_delay: Duration::from_millis(min_delay_ms),
        pause_max: Duration::from_secs(pause_max_sec),
    }
}

fn fetch_settings(config: &Config) -> FetchSettings {
    let contact = Some(config.network.contact.as_str()).filter(|contact| !contact.is_empty());
    FetchSettings {
        user_agent: user_agent(contact),
        hosts: config.network.hosts.clone(),
        resolving_proxies: config.network.resolving_proxies.clone(),
        ..FetchSettings::default()
    }
}

fn browser_settings(config: &Config) -> BrowserSettings {
    let BrowserConfig { executable, sandbox, pages, memory_mb } = &config.browser;
    BrowserSettings {
        executable: executable.clone(),
        sandbox: *sandbox,
        pages: *pages,
        memory_bytes_max: memory_mb << 20,
        profiles: config.storage.data_dir.join("browser"),
        ..BrowserSettings::default()
    }
}

fn worker_settings(config: &Config, exe: PathBuf) -> WorkerSettings {
    let data = &config.storage.data_dir;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    WorkerSettings {
        exe,
        query_timeout: Duration::from_secs(config.bi.max_query_sec),
        memory_bytes: config.bi.memory_mb << 20,
        memory_box_bytes: memory_box_bytes(config),
        spill_bytes_max: config.bi.spill_mb << 20,
        rows_max: config.bi.max_rows,
        bytes_max: config.bi.result_bytes_max(),
        spill_dir: data.join("spill"),
        results_dir: data.join("results"),
        reserve_bytes: config.storage.reserve_mb << 20,
        require_sandbox: config.bi.require_sandbox,
        concurrency_box: if config.bi.concurrency == 0 { cores } else { config.bi.concurrency },
    }
}

/// What all SQL workers together may take: what the configuration says, or two fifths of the box.
fn memory_box_bytes(config: &Config) -> u64 {
    match config.bi.memory_box_mb {
        0 => box_memory_bytes() / 5 * 2,
        mb => mb << 20,
    }
}

fn bi_settings(config: &Config) -> bi::BiSettings {
    bi::BiSettings {
        max_query_sec: config.bi.max_query_sec,
        concurrency_per_org: config.bi.concurrency_per_org,
        queue_per_org: config.bi.queue_per_org,
        results_days: config.bi.results_days,
        freshness: Duration::from_millis(config.bi.freshness_ms),
    }
}

/// Says what the kernel lacks to hold a SQL worker.
fn warn_of_weak_walls(config: &Config) {
    let sandbox = sandbox::support();
    if let Some(warning) = sandbox.warning() {
        tracing::warn!("{warning}");
    }
    if config.bi.require_sandbox && !sandbox.isolates() {
        tracing::error!(
            "bi.require_sandbox is set and the kernel cannot isolate: every SQL statement is refused"
        );
    }
}

fn exports_folder(config: &Config) -> PathBuf {
    config.storage.data_dir.join("exports")
}

/// Counts the files of results and exports.
async fn open_kept(config: &Config, system: System, workers: Arc<Workers>) -> Result<Arc<bi::Kept>> {
    let bounds = bi::KeptBounds {
        org_bytes_max: config.bi.results_org_mb << 20,
        box_bytes_max: config.bi.results_box_mb << 20,
    };
    let folder = exports_folder(config);
    let opened = tokio::task::spawn_blocking(move || bi::Kept::open(system, workers, folder, bounds)).await;
    let kept = opened.map_err(|e| Error::internal("count results", e))?;
    kept.map(Arc::new).map_err(|e| Error::internal("count results", e))
}

fn auth_settings(config: &Config, url: &str) -> AuthSettings {
    AuthSettings {
        registration: config.auth.registration,
        registrations_per_hour: config.auth.registrations_per_hour,
        public_url: url.to_owned(),
    }
}

fn tls_settings(config: &Config) -> Option<TlsSettings> {
    config.tls().map(|tls| TlsSettings { cert: tls.cert.clone(), key: tls.key.clone() })
}

fn server_settings(config: &Config) -> ServerSettings {
    ServerSettings {
        listen: vec![config.server.listen],
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

fn status(store: &Store, services: &Arc<Services>, url: String, self_test: &Arc<SelfTest>) -> StatusFn {
    let (store, services, begun) = (store.clone(), services.clone(), std::time::Instant::now());
    let self_test = Arc::clone(self_test);
    Arc::new(move || {
        let stats = store.stats();
        let mails = |state| store.system().read(|tx| mail::waiting(tx, state)).unwrap_or(0);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "url": url,
            "uptimeSec": begun.elapsed().as_secs(),
            "selfTest": self_test.status(),
            "clock": clock_status(store.clock()),
            "mail": {
                "server": services.service::<Mailer>().server(),
                "waiting": mails(MailState::Queued),
                "failed": mails(MailState::Failed),
            },
            "jobsRunning": services.service::<Dispatcher>().running(),
            "store": {
                "fileBytes": store.file_bytes(),
                "operations": stats.operations.load(Ordering::Relaxed),
                "commits": stats.commits.load(Ordering::Relaxed),
                "failedCommits": stats.failed_commits.load(Ordering::Relaxed),
                "diskFull": store.disk_full(),
            },
            "retention": retention_status(&services),
            "sequence": *store.sequence().borrow(),
            "searchPosition": services.service::<SearchFeed>().committed(),
            "sql": sql_status(&services),
            "snapshotPosition": services.service::<bi::SnapshotFeed>().applied(),
        })
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

/// What was removed because its time was over, since the box started.
fn retention_status(services: &Services) -> serde_json::Value {
    let removed = services.service::<Retention>().removed.all();
    removed
        .into_iter()
        .map(|(what, count)| (what.to_owned(), json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The SQL workers, and what the kernel holds them with.
fn sql_status(services: &Services) -> serde_json::Value {
    let workers = services.service::<bi::Queries>().worker_counts();
    let feed = services.service::<bi::SnapshotFeed>();
    let (publishing, merging) = feed.spent();
    let sandbox = sandbox::support();
    json!({
        "running": workers.running,
        "waiting": workers.waiting,
        "workersFresh": workers.fresh,
        "workersResting": workers.resting,
        "rowsLeftOut": feed.quarantined(),
        "publishingCpuMs": publishing.as_millis() as u64,
        "mergingCpuMs": merging.as_millis() as u64,
        "keptBytes": services.service::<bi::Queries>().kept_bytes(),
        "sandbox": sandbox,
        "sandboxWarning": sandbox.warning(),
    })
}
