//! A feature of widgets and the box that serves it.

use crate::harness::eventually;
use base::clock::Clock;
use base::ids::{ApiKeyId, JobId, OrgId, RequestId, UserId};
use base::page::{Page, PageRequest, encode_cursor};
use base::permission::{Permission, Permissions, Role};
use base::{Code, Error, Result};
use http_body::Frame;
use http_body_util::StreamBody;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use server::client::Client;
use server::permit::{BiRead, BiWrite, JobsRead, JobsWrite, Member, Quota, Verified};
use server::{
    Accepted, Anonymous, Api, ApiSettings, Authenticator, Body, Browser, Call, ClientIp, Created, Download,
    Drained, Either, Entitlement, Etag, Gatekeeper, Handler, IfMatch, Input, ListenAddress, Metrics, Need,
    NoContent, Operation, Org, Path, Query, RawBody, Readiness, Route, RouteGroup, ServedRoutes, Server,
    ServerSettings, Services, User,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::fault::FaultyDisk;
use store::{AuthMethod, Identity, MIGRATIONS, OrgStore, Principal, Store, System};
use tokio::sync::oneshot;

/// The rows of the widgets.
#[derive(Default)]
pub struct Shelf {
    widgets: Mutex<BTreeMap<(OrgId, JobId), Widget>>,
    /// Waits that have begun and not ended, the most there were of them, and those that have begun and ended.
    pub slow_running: AtomicU32,
    pub slow_most: AtomicU32,
    pub slow_begun: AtomicU32,
    pub slow_ended: AtomicU32,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Widget {
    id: JobId,
    name: String,
    size_mm: u32,
    tags: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewWidget {
    name: String,
    #[serde(default)]
    size_mm: u32,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct WidgetFilter {
    /// Only widgets of at least this size.
    size_mm_min: Option<u32>,
    tag: Vec<String>,
}

pub static ROUTES: &[Route] = &[
    Route::get("/api/v1/widgets", "listWidgets", &Handler::new(list)).about("Lists widgets."),
    Route::post("/api/v1/widgets", "createWidget", &Handler::new(create)).fails(&[Code::AlreadyExists]),
    Route::get("/api/v1/widgets/latest", "getLatestWidget", &Handler::new(latest)),
    Route::post("/api/v1/widgets/upload", "uploadWidgets", &Handler::new(upload)).large_body(),
    Route::get("/api/v1/widgets/{id}", "getWidget", &Handler::new(get)),
    Route::put("/api/v1/widgets/{id}", "updateWidget", &Handler::new(update)),
    Route::delete("/api/v1/widgets/{id}", "deleteWidget", &Handler::new(delete)),
    Route::post("/api/v1/widgets/{id}/polish", "polishWidget", &Handler::new(polish)),
    Route::get("/api/v1/widgets/{id}/parts/{part}", "getWidgetPart", &Handler::new(part)),
    Route::get("/api/v1/files/{name}", "getFile", &Handler::new(file)),
    Route::get("/api/v1/me", "me", &Handler::new(me)),
    Route::post("/api/v1/session", "session", &Handler::new(session)),
    Route::get("/api/v1/whoami", "whoami", &Handler::new(whoami)),
    Route::post("/api/v1/maybe", "maybe", &Handler::new(maybe)),
    Route::get("/api/v1/panic", "panic", &Handler::new(panics)),
    Route::get("/api/v1/fails", "fails", &Handler::new(fails)),
    Route::get("/api/v1/slow", "slow", &Handler::new(slow)).time_max_secs(1),
    Route::get("/api/v1/wait", "wait", &Handler::new(wait)),
    Route::get("/api/v1/robots", "robots", &Handler::new(member)).plan(Entitlement("agents")),
    Route::get("/api/v1/bi/things", "listThings", &Handler::new(things)),
    Route::post("/api/v1/bi/things", "createThing", &Handler::new(create_thing)),
    Route::get("/api/v1/bi/things/{id}", "getThing", &Handler::new(thing)),
];

pub static NEEDS: &[Need] = &[Need::of::<Shelf>()];

fn find(shelf: &Shelf, org: OrgId, id: JobId) -> Result<Widget> {
    shelf.widgets.lock().unwrap().get(&(org, id)).cloned().ok_or_else(|| Error::not_found("Job"))
}

async fn list(
    org: Org<JobsRead>,
    page: PageRequest,
    Query(filter): Query<WidgetFilter>,
) -> Result<Body<Page<Widget>>> {
    let after = page.position("widgets")?;
    let shelf = org.service::<Shelf>();
    let widgets = shelf.widgets.lock().unwrap();
    let mine = widgets.iter().filter(|((owner, id), widget)| {
        *owner == org.id()
            && after.as_deref().is_none_or(|after| id.0.as_bytes().as_slice() > after)
            && filter.size_mm_min.is_none_or(|min| widget.size_mm >= min)
            && filter.tag.iter().all(|tag| widget.tags.contains(tag))
    });
    let items: Vec<Widget> = mine.map(|(_, widget)| widget.clone()).take(page.limit).collect();
    let next_cursor = items
        .last()
        .filter(|_| items.len() == page.limit)
        .map(|w| encode_cursor("widgets", w.id.0.as_bytes()));
    Ok(Body(Page { items, next_cursor }))
}

async fn create(org: Org<Quota<JobsWrite>>, Body(new): Body<NewWidget>) -> Result<Created<Widget>> {
    let shelf = org.service::<Shelf>();
    let mut widgets = shelf.widgets.lock().unwrap();
    if new.name.is_empty() {
        return Err(Error::invalid("name", "must not be empty"));
    }
    if widgets.iter().any(|((owner, _), widget)| *owner == org.id() && widget.name == new.name) {
        return Err(Error::new(Code::AlreadyExists).title("Widget already exists"));
    }
    let widget = Widget { id: JobId::new(), name: new.name, size_mm: new.size_mm, tags: new.tags };
    widgets.insert((org.id(), widget.id), widget.clone());
    Ok(Created(widget))
}

async fn latest(_: Org<JobsRead>) -> Result<NoContent> {
    Ok(NoContent)
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Upload {
    bytes: usize,
    content_type: Option<String>,
}

async fn upload(_: Org<JobsWrite>, raw: RawBody) -> Result<Accepted<Upload>> {
    Ok(Accepted::new(Upload { bytes: raw.bytes.len(), content_type: raw.content_type }).retry_after(5))
}

async fn get(org: Org<JobsRead>, Path(id): Path<JobId>) -> Result<Body<Widget>> {
    find(&org.service::<Shelf>(), org.id(), id).map(Body)
}

async fn update(
    org: Org<JobsWrite>,
    Path(id): Path<JobId>,
    condition: IfMatch,
    Body(new): Body<NewWidget>,
) -> Result<Body<Widget>> {
    let shelf = org.service::<Shelf>();
    let mut widget = find(&shelf, org.id(), id)?;
    condition.check(&Etag::of(&widget)?)?;
    widget.name = new.name;
    shelf.widgets.lock().unwrap().insert((org.id(), id), widget.clone());
    Ok(Body(widget))
}

async fn delete(org: Org<JobsWrite>, Path(id): Path<JobId>) -> Result<NoContent> {
    let removed = org.service::<Shelf>().widgets.lock().unwrap().remove(&(org.id(), id));
    removed.map(|_| NoContent).ok_or_else(|| Error::not_found("Job"))
}

async fn polish(
    org: Org<Verified<JobsWrite>>,
    Path(id): Path<JobId>,
) -> Result<Either<Body<Widget>, Accepted<Upload>>> {
    let widget = find(&org.service::<Shelf>(), org.id(), id)?;
    Ok(if widget.size_mm > 100 {
        Either::Right(Accepted::new(Upload { bytes: 0, content_type: None }))
    } else {
        Either::Left(Body(widget))
    })
}

async fn part(_: Org<JobsRead>, Path((id, part)): Path<(JobId, String)>) -> Result<Body<String>> {
    Ok(Body(format!("{part} of {id}")))
}

async fn file(_: Anonymous, Path(name): Path<String>) -> Result<Download> {
    let lines = || (0..2000).map(|n| format!("line {n}\n")).collect::<String>();
    match name.as_str() {
        "text" => Ok(Download::bytes("text/plain; charset=utf-8", lines()).file_name("li\"nes\n.txt")),
        "zip" => Ok(Download::bytes("application/zip", lines())),
        "stream" => {
            let parts = futures::stream::iter(
                (0..10).map(|n| Ok::<_, std::io::Error>(Frame::data(format!("{n},").into()))),
            );
            Ok(Download::stream("text/csv", StreamBody::new(parts)))
        }
        "broken" => {
            let parts =
                futures::stream::iter([Ok(Frame::data("half".into())), Err(std::io::Error::other("disk"))]);
            Ok(Download::stream("text/csv", StreamBody::new(parts)))
        }
        _ => Err(Error::not_found("File")),
    }
}

#[derive(Serialize, JsonSchema)]
struct Me {
    name: String,
    has_org: bool,
}

async fn me(user: User) -> Result<Body<Me>> {
    let name = user.principal().name().to_owned();
    Ok(Body(Me { name, has_org: user.org().is_ok() }))
}

async fn session(browser: Browser) -> Result<Body<OrgId>> {
    Ok(Body(browser.org()?.id()))
}

#[derive(Serialize, JsonSchema)]
struct Seen {
    ip: String,
    agent: String,
    request_id: RequestId,
}

/// What the caller calls itself: a header is read by a type of its own.
struct UserAgent(String);

impl Input for UserAgent {
    async fn extract(call: &mut Call) -> Result<Self> {
        let agent = call.headers().get("user-agent").and_then(|value| value.to_str().ok());
        Ok(UserAgent(agent.unwrap_or_default().to_owned()))
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.header_parameter("User-Agent", "What the caller is.", json!({ "type": "string" }));
    }
}

async fn whoami(gate: Anonymous, ClientIp(ip): ClientIp, UserAgent(agent): UserAgent) -> Result<Body<Seen>> {
    Ok(Body(Seen { ip: ip.to_string(), agent, request_id: gate.request_id().clone() }))
}

async fn maybe(_: Anonymous, body: Option<Body<NewWidget>>) -> Result<Body<bool>> {
    Ok(Body(body.is_some()))
}

async fn panics(_: Anonymous) -> Result<NoContent> {
    panic!("the secret inside")
}

async fn fails(_: Anonymous) -> Result<NoContent> {
    Err(Error::internal("read the drawer", std::io::Error::other("the secret inside")))
}

async fn slow(_: Anonymous) -> Result<NoContent> {
    tokio::time::sleep(Duration::from_secs(30)).await;
    Ok(NoContent)
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    ms: u64,
}

async fn wait(gate: Anonymous, Query(wait): Query<Wait>) -> Result<Body<u64>> {
    let shelf = gate.service::<Shelf>();
    let running = shelf.slow_running.fetch_add(1, Ordering::SeqCst) + 1;
    shelf.slow_most.fetch_max(running, Ordering::SeqCst);
    shelf.slow_begun.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(wait.ms)).await;
    shelf.slow_running.fetch_sub(1, Ordering::SeqCst);
    shelf.slow_ended.fetch_add(1, Ordering::SeqCst);
    Ok(Body(wait.ms))
}

async fn member(_: Org<Member>) -> Result<NoContent> {
    Ok(NoContent)
}

async fn things(_: Org<BiRead>) -> Result<Body<Vec<u8>>> {
    Ok(Body(vec![1]))
}

async fn create_thing(_: Org<BiWrite>, Body(new): Body<NewWidget>) -> Result<Created<String>> {
    Ok(Created(new.name))
}

async fn thing(_: Org<BiRead>, Path(_): Path<base::ids::QueryId>) -> Result<NoContent> {
    Err(Error::new(Code::NotReady).message("The query is still running.").field("status", "running"))
}

/// Credentials are words: `editor`, `viewer`, `owner`, `nobody` (no organization), with `-key`, `-unverified`, `-2` (the
/// second organization).
struct Words {
    system: System,
    orgs: [OrgId; 2],
}

impl Authenticator for Words {
    fn authenticate(&self, bearer: &str) -> Result<Principal> {
        let mut words = bearer.split('-');
        let role = match words.next() {
            Some("owner") => Some(Role::Owner),
            Some("editor") => Some(Role::Editor),
            Some("viewer") => Some(Role::Viewer),
            Some("nobody") => None,
            _ => return Err(Error::new(Code::AuthInvalid)),
        };
        let words: Vec<_> = words.collect();
        let org = self.orgs[usize::from(words.contains(&"2"))];
        Ok(self.system.principal(Identity {
            user: UserId::new(),
            name: bearer.to_owned(),
            membership: role.map(|role| (org, role)),
            allowed: Permissions::of(Permission::ALL.iter().copied()),
            email_verified: !words.contains(&"unverified"),
            method: if words.contains(&"key") {
                AuthMethod::ApiKey(ApiKeyId::new())
            } else {
                AuthMethod::Jwt
            },
        }))
    }
}

/// The second organization has no SQL console, no agents and no credits.
struct SecondIsPoor(OrgId);

impl Gatekeeper for SecondIsPoor {
    fn entitled(&self, org: &OrgStore, feature: Entitlement) -> Result<()> {
        if org.id() == self.0 {
            let words = format!("The plan has no {}.", feature.name());
            return Err(Error::new(Code::PlanRequired).message(words));
        }
        Ok(())
    }

    fn trial(&self, org: &OrgStore) -> Result<()> {
        self.quota(org)
    }

    fn quota(&self, org: &OrgStore) -> Result<()> {
        if org.id() == self.0 {
            return Err(Error::new(Code::QuotaExceeded)
                .message("No credits are left.")
                .field("plan", "trial")
                .field("remainingCredits", 0)
                .field("isTrialExpired", false));
        }
        Ok(())
    }
}

/// A box that serves on a port of its own.
pub struct Running {
    pub base: String,
    pub address: std::net::SocketAddr,
    pub shelf: Arc<Shelf>,
    pub stop: Option<oneshot::Sender<()>>,
    pub drained: tokio::task::JoinHandle<Drained>,
}

impl Running {
    pub async fn start() -> Running {
        Running::with(|_, _| {}).await
    }

    /// With other settings than the tests' own.
    pub async fn with(change: impl FnOnce(&mut ServerSettings, &mut ApiSettings)) -> Running {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .try_init();
        let store = Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS).unwrap();
        let orgs = [OrgId::new(), OrgId::new()];
        let shelf = Arc::new(Shelf::default());
        let words = Words { system: store.system(), orgs };
        let services = Arc::new(Services::new(store).with(Arc::clone(&shelf)));
        services.check(NEEDS).unwrap();
        let mut server = ServerSettings {
            listen: vec![ListenAddress::Tcp(([127, 0, 0, 1], 0).into())],
            ..ServerSettings::default()
        };
        let mut settings = ApiSettings { docs_base: "http://box/docs".into(), ..ApiSettings::default() };
        change(&mut server, &mut settings);
        let readiness = Readiness::default().with("store", || Ok(()));
        let mount = Some(&gleaner::features::bi::MOUNT);
        let served = ServedRoutes::new(vec![RouteGroup { name: "widgets", routes: ROUTES, mount }]);
        let api =
            Api::new(services, &served, words, SecondIsPoor(orgs[1]), settings, Metrics::new(), readiness);
        let server = Server::bind(server, api).await.unwrap();
        let address = server.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let drained = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Running { base: format!("http://{address}"), address, shelf, stop: Some(stop), drained }
    }

    /// A caller by word.
    pub fn as_(&self, word: &str) -> Client {
        Client::new(&self.base).bearer(word)
    }

    /// Waits until so many requests for `/api/v1/wait` are at work.
    pub async fn until_waiting(&self, count: u32) {
        let begun = || async { (self.shelf.slow_begun.load(Ordering::SeqCst) >= count).then_some(()) };
        eventually("the requests are at work", Duration::from_secs(60), begun).await;
    }

    pub fn anonymous(&self) -> Client {
        Client::new(&self.base)
    }
}

/// Why a box with these settings does not start.
pub async fn bind_error(settings: ServerSettings) -> String {
    let store = Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS).unwrap();
    let orgs = [OrgId::new(), OrgId::new()];
    let words = Words { system: store.system(), orgs };
    let services = Arc::new(Services::new(store));
    let (settings_api, metrics) = (ApiSettings::default(), Metrics::new());
    let none = ServedRoutes::new(Vec::new());
    let api =
        Api::new(services, &none, words, SecondIsPoor(orgs[1]), settings_api, metrics, Readiness::default());
    Server::bind(settings, api).await.err().map(|e| e.to_string()).unwrap_or_default()
}
