//! The dispatcher over a real store, a real fetcher and a web server on loopback.

mod browser;
mod fair;
mod full;
mod history;
mod races;
mod runs;
mod shares;
mod signed_in;
mod trouble;
mod turns;
mod waits;

use super::FEATURE;
use super::dispatch::{DispatchSettings, Dispatcher};
use super::rows::{JOBS, JobV1, JobV2, LEASE, QUEUE};
use super::run::DispatchParts;
use super::submit::{self, NewJob, SubmitContext};
use crate::features::billing::{self, Plans, Retention, TRANSACTIONS, Terms};
use crate::features::extraction::{Extractor, RESULTS};
use crate::features::providers::{self, ProviderParts, Providers};
use crate::features::urls::{URLS, UrlV1};
use crate::features::workflows::{Graphs, ProviderDirectory};
use base::clock::{Clock, Moment, Timestamp};
use base::codec::Json;
use base::health::Health;
use base::ids::{JobId, OrgId, UrlId};
use base::terms::JobStatus;
use base::{Code, Error};
use blob::BlobStore;
use bytes::Bytes;
use fetch::{
    AddressGuard, BrowserSettings, Browsers, Direct, FetchSettings, Outcome, Politeness, Templates,
    VisitLimits,
};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use secrets::keyring::Keyring;
use serde_json::{Value, json};
use server::task::{Signals, Supervisor};
use server::{Metrics, Services};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::fault::FaultyDisk;
use store::{MIGRATIONS, Order, OrgStore, Seek, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The names under which the web server is known; each is a registrable domain of its own.
const NAMES: [&str; 3] = ["a.test", "b.test", "c.test"];
/// What runs get to end in when the box drains; as the box has it.
const DRAIN: Duration = Duration::from_secs(5);
/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the web server has seen.
#[derive(Default)]
struct Visits {
    /// `host/path`, in the order of arrival, without robots.txt.
    log: Vec<String>,
    at_once: HashMap<String, usize>,
    at_once_max: HashMap<String, usize>,
}

/// A web server on loopback: `/slow/200/x` answers after 200 ms, `/held/KEY/x` when the test lets go of KEY, and so do
/// `/stumble/KEY/x` the first time and `/refuse/KEY/x`, the first time with 503; `/to/b.test/x` leads to another host.
struct Web {
    port: u16,
    visits: Arc<Mutex<Visits>>,
    /// The keys that were let go of.
    released: Arc<watch::Sender<HashSet<String>>>,
    accepting: JoinHandle<()>,
}

impl Web {
    async fn open() -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let visits = Arc::new(Mutex::new(Visits::default()));
        let released = Arc::new(watch::Sender::new(HashSet::new()));
        let (seen, freed) = (visits.clone(), released.clone());
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, freed) = (seen.clone(), freed.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(request, seen.clone(), freed.subscribe()));
                    let http = hyper::server::conn::http1::Builder::new();
                    // The fetcher may close a connection as it likes.
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Web { port, visits, released, accepting }
    }

    /// Lets go of what is held under the key, now and from now on.
    fn release(&self, key: impl Into<String>) {
        self.released.send_modify(|keys| keys.extend([key.into()]));
    }

    fn log(&self) -> Vec<String> {
        self.visits.lock().log.clone()
    }

    fn count(&self, visit: &str) -> usize {
        self.visits.lock().log.iter().filter(|seen| *seen == visit).count()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(
    request: Request<Incoming>,
    visits: Arc<Mutex<Visits>>,
    mut released: watch::Receiver<HashSet<String>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    if path == "/robots.txt" {
        return Ok(Response::builder().status(404).body(Full::default()).unwrap());
    }
    let host = request.headers()["host"].to_str().unwrap().split(':').next().unwrap().to_owned();
    let visit = format!("{host}{path}");
    let is_first = {
        let mut visits = visits.lock();
        let is_first = !visits.log.contains(&visit);
        visits.log.push(visit);
        let now = visits.at_once.entry(host.clone()).or_default();
        *now += 1;
        let now = *now;
        let most = visits.at_once_max.entry(host.clone()).or_default();
        *most = now.max(*most);
        is_first
    };
    let mut parts = path.split('/').skip(1);
    let (what, how) = (parts.next(), parts.next().unwrap_or_default());
    match what {
        Some("slow") => tokio::time::sleep(Duration::from_millis(how.parse().unwrap())).await,
        Some("stumble") if !is_first => {}
        Some("held" | "stumble" | "refuse") => drop(released.wait_for(|keys| keys.contains(how)).await),
        _ => {}
    }
    *visits.lock().at_once.get_mut(&host).unwrap() -= 1;
    if let Some((to, rest)) = path.strip_prefix("/to/").and_then(|to| to.split_once('/')) {
        let port = request.headers()["host"].to_str().unwrap().rsplit(':').next().unwrap().to_owned();
        let location = format!("http://{to}:{port}/{rest}");
        return Ok(Response::builder()
            .status(302)
            .header("location", location)
            .body(Full::default())
            .unwrap());
    }
    let status = match (path.contains("gone"), what == Some("refuse") && is_first) {
        (true, _) => 404,
        (_, true) => 503,
        _ => 200,
    };
    let response = Response::builder().status(status).header("content-type", "text/html");
    Ok(response.body(Full::from(format!("<title>{path}</title>"))).unwrap())
}

/// Options of a job whose page is held: longer than a test waits for anything.
fn patient() -> Value {
    json!({ "options": { "timeoutMs": 120_000 } })
}

/// A store, a web and a dispatcher between them.
struct Lab {
    web: Arc<Web>,
    disk: FaultyDisk,
    store: Store,
    org: OrgStore,
    plans: Arc<Plans>,
    context: Arc<SubmitContext>,
    guard: AddressGuard,
    browsers: Arc<Browsers>,
    dispatcher: Arc<Dispatcher>,
    health: Health,
    supervisor: Option<Supervisor>,
    dir: tempfile::TempDir,
}

impl Lab {
    /// A lab whose dispatcher does not run yet.
    async fn new(concurrency: usize, per_domain: u32, min_delay: Duration) -> Lab {
        let lab = Lab::over(
            Arc::new(Web::open().await),
            FaultyDisk::new(),
            OrgId::new(),
            (concurrency, per_domain, min_delay),
        );
        let plans = lab.plans.clone();
        let seeds = lab.org.write(move |tx| {
            billing::open_account(tx, plans.default_plan())?;
            providers::seed(tx)
        });
        seeds.await.unwrap();
        lab
    }

    /// A lab over a disk that may have been used before.
    fn over(
        web: Arc<Web>,
        disk: FaultyDisk,
        org: OrgId,
        (concurrency, per_domain, min_delay): (usize, u32, Duration),
    ) -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let opened = disk.clone();
        let store = Store::open_backend(move || opened.backend(), Clock::system(), MIGRATIONS).unwrap();
        let org = store.system().org(org);
        let plans = Arc::new(Plans::built_in().unwrap());
        let guard = AddressGuard::new(&[format!("127.0.0.1/32:{}", web.port).parse().unwrap()], &[]);
        let mut hosts =
            HashMap::from(NAMES.map(|name| (name.to_owned(), vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])));
        // A name that nobody has, whatever the machine's resolver says.
        hosts.insert("nowhere.test".to_owned(), Vec::new());
        let settings = FetchSettings { hosts, ..FetchSettings::default() };
        let blobs = Arc::new(BlobStore::open_local(dir.path().join("pages")).unwrap());
        let politeness = Politeness::new(VisitLimits::new(per_domain, min_delay));
        let health = Health::default();
        // It can be waited for, and cannot be started.
        let browsers = Browsers::new(BrowserSettings {
            executable: "/nonexistent/chromium".into(),
            sandbox: false,
            pages: 1,
            profiles: dir.path().join("browser"),
            ..BrowserSettings::default()
        });
        let keyring = Arc::new(Keyring::load_or_create(&dir.path().join("keys.toml")).unwrap());
        let providers = Arc::new(Providers::new(ProviderParts {
            politeness: politeness.clone(),
            lower_prices: true,
            templates: Templates::load(None).unwrap(),
            direct: Arc::new(Direct::new(settings, guard.clone()).asking(politeness.clone())),
            browsers: browsers.clone(),
            keyring: keyring.clone(),
            robots: true,
            clock: Clock::system(),
        }));
        let graphs = Arc::new(Graphs::default());
        let directory = Arc::new(ProviderDirectory::new(providers.clone(), |_, _| Ok(false)));
        let parts = DispatchParts {
            providers,
            graphs: graphs.clone(),
            politeness,
            extractor: Arc::new(Extractor::new(store.clone(), blobs, health.clone())),
            health: health.clone(),
            keyring,
            tracer: base::trace::Tracer::default(),
        };
        let settings = DispatchSettings { concurrency, drain: DRAIN };
        let dispatcher = Arc::new(Dispatcher::new(store.system(), parts, settings));
        let context = Arc::new(SubmitContext {
            plans: plans.clone(),
            directory,
            graphs,
            dispatcher: dispatcher.clone(),
        });
        let supervisor = None;
        Lab { web, disk, store, org, plans, context, guard, browsers, dispatcher, health, supervisor, dir }
    }

    /// Runs the dispatcher as the appliance does.
    fn start(&mut self) {
        let signals = Arc::new(Signals::of(FEATURE.tasks));
        let retention = Arc::new(Retention::new(Terms::default(), self.plans.clone()));
        let services = Services::new(self.store.clone()).with(signals).with(self.dispatcher.clone());
        let services = services.with(retention);
        let metrics = Metrics::new();
        self.supervisor = Some(Supervisor::start(FEATURE.tasks, &Arc::new(services), &metrics));
    }

    /// Another organization on the same box.
    async fn neighbour(&self) -> OrgStore {
        let (org, plans) = (self.store.system().org(OrgId::new()), self.plans.clone());
        let seeds = org.write(move |tx| {
            billing::open_account(tx, plans.default_plan())?;
            providers::seed(tx)
        });
        seeds.await.unwrap();
        org
    }

    async fn submit_as(&self, place: &str, more: Value) -> JobId {
        self.submit_for(&self.org, place, more).await
    }

    async fn submit_for(&self, org: &OrgStore, place: &str, more: Value) -> JobId {
        let (host, path) = place.split_once('/').unwrap();
        let mut request = json!({ "url": format!("http://{host}:{}/{path}", self.web.port) });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request: NewJob = serde_json::from_value(request).unwrap();
        let checked = submit::check("", request, &self.guard).unwrap();
        let context = self.context.clone();
        let made = org.write(move |tx| submit::submit(tx, &context, vec![checked], None)).await.unwrap();
        made[0].job.id
    }

    async fn submit(&self, place: &str) -> JobId {
        self.submit_as(place, json!({})).await
    }

    /// Changes a job's row behind the dispatcher's back.
    async fn edit(&self, id: JobId, change: impl FnOnce(&mut JobV2) + Send + 'static) {
        let edit = self.org.write(move |tx| {
            let mut job = tx.require(&JOBS, &id)?;
            change(&mut job);
            tx.put(&JOBS, &id, &job)?;
            Ok(job)
        });
        let job = edit.await.unwrap();
        self.dispatcher.queued(self.org.id(), [&job]);
    }

    fn job(&self, id: JobId) -> JobV2 {
        self.org.read(|tx| tx.require(&JOBS, &id)).unwrap()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Lab) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: visits so far {:?}", self.web.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn ended(&self, id: JobId) -> JobV2 {
        self.until("the job ends", |lab| lab.job(id).status.has_ended()).await;
        self.job(id)
    }

    fn results(&self) -> usize {
        self.org.read(|tx| tx.count(&RESULTS, 1_000)).unwrap()
    }

    /// What was spent by the ledger: checks that the balance is its sum.
    fn spent(&self) -> i64 {
        let (balance, amounts) = self
            .org
            .read(|tx| {
                let rows = tx.scan(&TRANSACTIONS, None, Order::Ascending, 10_000)?;
                let amounts: Vec<_> = rows.into_iter().map(|(_, row)| row.amount).collect();
                Ok((billing::account(tx)?.balance, amounts))
            })
            .unwrap();
        assert_eq!(i64::try_from(balance).unwrap(), amounts.iter().sum::<i64>());
        i64::try_from(self.plans.default_plan().monthly_credits - balance).unwrap()
    }

    /// Every job of the organization, oldest first.
    fn jobs(&self) -> Vec<JobV2> {
        let rows = self.org.read(|tx| tx.scan(&JOBS, None, Order::Ascending, 1_000)).unwrap();
        rows.into_iter().map(|(_, job)| job).collect()
    }

    /// Entries of the queue and of the leases.
    fn queued_and_leased(&self) -> (usize, usize) {
        let queued = self.org.read(|tx| tx.index_entries(&JOBS, &QUEUE, (), &Seek::start(), 1_000)).unwrap();
        let leased = self.store.system();
        let leased = leased.read(|tx| tx.scan_global(&JOBS, &LEASE, &Seek::start(), None, 1_000)).unwrap();
        (queued.entries.len(), leased.entries.len())
    }

    /// What must hold when every job has ended, whatever happened on the way.
    fn check_books(&self) {
        let jobs = self.jobs();
        let rows = self.org.read(|tx| tx.scan(&TRANSACTIONS, None, Order::Ascending, 10_000)).unwrap();
        for job in &jobs {
            let entries: Vec<_> = rows.iter().filter(|(_, row)| row.job_id == Some(job.id)).collect();
            let amount: i64 = entries.iter().map(|(_, row)| row.amount).sum();
            assert_eq!(entries.len(), 2, "a job has one reserve and one settlement: {job:?}");
            assert_eq!(-amount, i64::try_from(job.credits_charged).unwrap(), "{job:?}");
            let result = self.org.read(|tx| tx.get(&RESULTS, &job.id)).unwrap().map(|row| row.id);
            assert_eq!(result, job.result_id, "{job:?}");
            assert_eq!(result.is_some(), job.status == JobStatus::Succeeded, "{job:?}");
            assert!(job.attempts.len() <= 1 && job.lease_until.is_none(), "{job:?}");
        }
        let charged: u64 = jobs.iter().map(|job| job.credits_charged).sum();
        assert_eq!(self.spent(), i64::try_from(charged).unwrap());
        assert_eq!(self.queued_and_leased(), (0, 0));
    }

    async fn drain(&mut self) -> Vec<&'static str> {
        self.supervisor.take().unwrap().drain(PATIENCE).await
    }
}

/// A small generator with a seed, so that a failing case can be run again.
fn roll(dice: &mut u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_books_agree_after_cancels_and_power_losses() {
    let settings = (6, 2, Duration::ZERO);
    let mut lab = Lab::new(settings.0, settings.1, settings.2).await;
    let mut dice = 0x0DD5_EED5_u64;
    let mut answered = Vec::new();
    for life in 0..6 {
        lab.start();
        for i in 0..30 {
            let name = NAMES[(roll(&mut dice) % 3) as usize];
            let what = ["slow/20", "slow/60", "gone"][(roll(&mut dice) % 3) as usize];
            answered.push(lab.submit(&format!("{name}/{what}/{life}-{i}")).await);
            let pick = answered[(roll(&mut dice) % answered.len() as u64) as usize];
            if roll(&mut dice).is_multiple_of(3) {
                // It may have ended already, which is an answer too.
                let _ = lab.org.write(move |tx| submit::cancel(tx, pick).map(drop)).await;
            }
            tokio::time::sleep(Duration::from_millis(roll(&mut dice) % 4)).await;
        }
        let image = lab.disk.power_loss(|| roll(&mut dice).is_multiple_of(2));
        let (web, org) = (lab.web.clone(), lab.org.id());
        // The old life goes on over its own disk until it is told to end; the new one knows nothing of it.
        lab.drain().await;
        lab = Lab::over(web, image, org, settings);
    }
    lab.start();
    for id in answered {
        lab.ended(id).await;
    }
    lab.until("every run is over", |lab| lab.dispatcher.running() == 0).await;
    lab.check_books();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_target_lacks_is_charged_and_what_was_never_sent_is_not() {
    let mut lab = Lab::new(2, 2, Duration::ZERO).await;
    lab.start();
    let gone = lab.submit("a.test/gone").await;
    let gone = lab.ended(gone).await;
    assert_eq!((gone.status, gone.attempts[0].outcome), (JobStatus::Failed, Outcome::TargetError));
    assert_eq!((gone.credits_charged, lab.spent(), lab.results()), (1, 1, 0));
    let unknown = lab.submit("nowhere.test/x").await;
    let unknown = lab.ended(unknown).await;
    assert_eq!((unknown.status, unknown.credits_charged, lab.spent()), (JobStatus::Failed, 0, 1));
    assert!(unknown.error.is_some());

    let context = lab.context.clone();
    let id = gone.id;
    let retried = lab.org.write(move |tx| submit::retry(tx, &context, id)).await.unwrap();
    assert_eq!((retried.status, retried.run, &retried.url), (JobStatus::Queued, 0, &gone.url));
    assert_ne!(retried.id, gone.id);
}

/// A URL of the site `a.test` that is not stored yet.
fn a_url(lab: &Lab, path: &str) -> UrlV1 {
    UrlV1 {
        id: UrlId::new(),
        url: format!("http://a.test:{}{path}", lab.web.port),
        domain: "a.test".to_owned(),
        tags: Vec::new(),
        metadata: Json::default(),
        page_type: None,
        workflow_id: None,
        last_job_id: None,
        last_scraped_at: None,
        last_status: None,
        created_at: Timestamp(0),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_tells_of_its_newest_job_whichever_ends_last() {
    let mut lab = Lab::new(2, 2, Duration::ZERO).await;
    let row = a_url(&lab, "/stumble/older/x");
    let id = row.id;
    lab.org.write(move |tx| tx.insert(&URLS, &id, &row)).await.unwrap();
    lab.start();
    let older = lab.submit_as("a.test/stumble/older/x", patient()).await;
    lab.until("the page is asked for", |lab| lab.web.log().len() == 1).await;
    let newer = lab.submit("a.test/stumble/older/x").await;
    let newer = lab.ended(newer).await;
    assert_eq!(lab.job(older).status, JobStatus::Running);
    lab.web.release("older");
    assert_eq!(lab.ended(older).await.url_id, Some(id));
    let row = lab.org.read(|tx| tx.require(&URLS, &id)).unwrap();
    assert_eq!((row.last_job_id, row.last_status), (Some(newer.id), Some(JobStatus::Succeeded)));
    let read_at = |job| lab.org.read(|tx| tx.require(&RESULTS, &job)).unwrap().scraped_at;
    assert_eq!(row.last_scraped_at, Some(read_at(newer.id)));
    assert!(read_at(newer.id) > read_at(older));
    assert!(Some(read_at(newer.id)) >= newer.started_at);
}

#[tokio::test]
async fn an_external_id_makes_one_job() {
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let first = lab.submit_as("a.test/x", json!({ "externalId": "order-7" })).await;
    assert_eq!(lab.submit_as("a.test/x", json!({ "externalId": "order-7" })).await, first);
    assert_eq!(lab.spent(), 1);
    let other = json!({ "url": "http://a.test/other", "externalId": "order-7" });
    let checked = submit::check("jobs[3].", serde_json::from_value(other).unwrap(), &lab.guard).unwrap();
    let context = lab.context.clone();
    let refused = lab
        .org
        .write(move |tx| submit::submit(tx, &context, vec![checked], None).map(drop))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Conflict);
    assert!(refused.detail().unwrap().starts_with("jobs[3].externalId"));
    for bad in ["", "a\0b", "a\nb", "\u{202e}7-redro", "x\u{2066}y"] {
        let named = json!({ "url": "http://a.test/x", "externalId": bad });
        let refused = submit::check("jobs[0].", serde_json::from_value(named).unwrap(), &lab.guard);
        let refused = refused.err().expect("it is refused");
        assert!(refused.detail().unwrap().starts_with("jobs[0].externalId: must be 1 to"), "{bad:?}");
    }
}

#[tokio::test]
async fn a_refusal_in_a_batch_names_the_entry() {
    let lab = Lab::new(1, 1, Duration::ZERO).await;
    let missing = json!({ "urlId": UrlId::new() });
    let checked = submit::check("jobs[3].", serde_json::from_value(missing).unwrap(), &lab.guard).unwrap();
    let context = lab.context.clone();
    let refused = lab
        .org
        .write(move |tx| submit::submit(tx, &context, vec![checked], None).map(drop))
        .await
        .unwrap_err();
    assert_eq!(refused.sentence(), Error::not_found(URLS.noun()).sentence());
    assert!(refused.detail().is_some_and(|detail| detail.starts_with("jobs[3].urlId")), "{refused}");
}

#[test]
fn a_job_of_before_there_were_batches_is_read() {
    let text = |n: u8| format!("{n}");
    let old = JobV1 {
        id: JobId::new(),
        url: text(1),
        domain: text(2),
        url_id: None,
        workflow_id: None,
        workflow_version_id: None,
        schedule_id: None,
        schedule_run_id: None,
        benchmark_id: None,
        status: JobStatus::Running,
        priority: 3,
        page_type: None,
        options: submit::options("options", submit::NewOptions::default()).unwrap(),
        tags: vec![text(4)],
        metadata: Json(json!({ "a": 1 })),
        external_id: Some(text(5)),
        request_hash: Some([6; 32]),
        attempts: Vec::new(),
        result_id: None,
        credits_reserved: 7,
        credits_charged: 8,
        error: Some(text(9)),
        created_at: Timestamp(10),
        started_at: None,
        finished_at: None,
        run_at: Moment(11),
        run: 12,
        lease_until: Some(Moment(13)),
    };
    let read: JobV2 = base::codec::decode(&base::codec::encode(&old).unwrap()).unwrap();
    assert_eq!((read.batch_id, read.retried_as, read.lease_until), (None, None, old.lease_until));
    assert_eq!(read, JobV2::from(old));
    assert_eq!(base::codec::decode::<JobV2>(&base::codec::encode(&read).unwrap()).unwrap(), read);
}
