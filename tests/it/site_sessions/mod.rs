//! Pages behind a login: listSiteSessions, createSiteSession, deleteSiteSession, and jobs, URLs and schedules that name one.

mod secrets;

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, ended, eventually, expect, get, post, refused, text};
use http::{Method, Request};
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Value, json};
use server::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uuid::Uuid;

const SESSIONS: &str = "/api/v1/site-sessions";
const WAIT: Duration = Duration::from_secs(60);
/// What lets somebody in.
const COOKIE: &str = "kuchen-7f3a9e";
const TOKEN: &str = "strudel-51bd02";
/// What a job is sent with itself.
const OWN: &str = "torte-c0ffee";

/// A request that the site has seen.
#[derive(Clone, Debug, Default)]
struct Visit {
    host: String,
    path: String,
    cookie: String,
    authorization: String,
    own: String,
}

impl Visit {
    fn of(request: &Request<Incoming>) -> Visit {
        let header = |name: &str| {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        Visit {
            host: header("host").split(':').next().unwrap_or_default().to_owned(),
            path: request.uri().path().to_owned(),
            cookie: header("cookie"),
            authorization: header("authorization"),
            own: header("x-own"),
        }
    }

    fn is_known(&self) -> bool {
        let cookie = format!("sid={COOKIE}");
        self.cookie.split("; ").any(|pair| pair == cookie) || self.authorization == format!("Bearer {TOKEN}")
    }
}

/// A site that wants a login, on several hosts.
struct Site {
    web: Web,
    visits: Arc<Mutex<Vec<Visit>>>,
    /// Whether it accepts its visitors' sessions.
    is_open: Arc<AtomicBool>,
}

const FORM: &str = "<title>Log in</title><form><input name=user><input type=password name=word></form>";
const ORDERS: &str = "<title>Your orders</title><h1>Order 17</h1><a href='/logout'>Log out</a>";

impl Site {
    async fn open() -> Site {
        let visits = Arc::new(Mutex::new(Vec::new()));
        let is_open = Arc::new(AtomicBool::new(true));
        let (seen, open, port) = (visits.clone(), is_open.clone(), Arc::new(Mutex::new(0_u16)));
        let own_port = port.clone();
        let web = Web::asked(move |request| {
            let visit = Visit::of(request);
            seen.lock().push(visit.clone());
            let is_known = visit.is_known() && open.load(Ordering::Relaxed);
            Some(match visit.path.as_str() {
                "/login" => Answer::html(FORM),
                "/away" => Answer::redirect(&format!("http://other.test:{}/elsewhere", own_port.lock())),
                "/elsewhere" | "/public" => Answer::html("<title>Public</title>"),
                "/api" if !is_known => Answer::status(401),
                "/wall" if !is_known => Answer::status(403),
                "/here" if !is_known => Answer::html(FORM),
                "/slow" => Answer::html(ORDERS).held("slow"),
                "/robots.txt" => return None,
                _ if !is_known => Answer::redirect("/login"),
                _ => Answer::html(ORDERS),
            })
        })
        .await;
        *port.lock() = web.address.port();
        Site { web, visits, is_open }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.web.address.port())
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let hosts = "{ \"shop.test\" = [\"127.0.0.1\"], \"www.shop.test\" = [\"127.0.0.1\"], \"other.test\" = [\"127.0.0.1\"] }";
        vec![("NETWORK__ALLOW", self.web.allow()), ("NETWORK__HOSTS", hosts.to_owned())]
    }

    async fn appliance(&self) -> Appliance {
        let settings = self.settings();
        let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        Appliance::start_with(&settings).await
    }

    /// The visits of a path, without those for robots.txt.
    fn visits(&self, path: &str) -> Vec<Visit> {
        self.visits.lock().iter().filter(|visit| visit.path == path).cloned().collect()
    }
}

fn cookies() -> Value {
    json!({ "domain": "www.shop.test", "kind": "cookies", "values": format!("sid={COOKIE}; theme=dark") })
}

async fn keep(api: &Client, session: &Value) -> String {
    text(&expect(post(api, SESSIONS, session).await, 201), "id").to_owned()
}

/// The session as the list shows it.
async fn shown(api: &Client, id: &str) -> Value {
    let listed = expect(get(api, &format!("{SESSIONS}?domain=WWW.shop.test")).await, 200);
    listed["items"].as_array().unwrap().iter().find(|item| item["id"] == id).unwrap().clone()
}

/// A job for a page, in a session if one is named, when it has ended.
async fn job(api: &Client, url: &str, session: Option<&str>) -> Value {
    let new = json!({ "url": url, "options": { "siteSessionId": session } });
    let made = expect(post(api, "/api/v1/jobs", &new).await, 201);
    ended(api, text(&made, "id")).await
}

async fn events(api: &Client) -> Vec<Value> {
    let listed = expect(get(api, "/api/v1/events?kind=site_session.expired&limit=200").await, 200);
    listed["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_behind_a_login_comes_and_an_end_is_told_once() {
    let site = Site::open().await;
    let at = site.appliance().await;
    let member = at.member("orders").await;
    let api = &member.api;
    let made = expect(post(api, SESSIONS, &cookies()).await, 201);
    let id = text(&made, "id").to_owned();
    assert_eq!((&made["domain"], &made["name"]), (&json!("shop.test"), &json!("shop.test")), "{made}");
    assert_eq!((&made["names"], &made["state"]), (&json!(["sid", "theme"]), &json!("unknown")), "{made}");
    assert_eq!(
        (&made["leftOut"], &made["expiresAt"], &made["lastUsedAt"]),
        (&json!(0), &Value::Null, &Value::Null)
    );

    let page = site.url("www.shop.test", "/orders");
    let signed_in = job(api, &page, Some(&id)).await;
    assert_eq!(
        (&signed_in["status"], &signed_in["options"]["siteSessionId"]),
        (&json!("succeeded"), &json!(id))
    );
    let after = shown(api, &id).await;
    assert_eq!((&after["state"], after["lastUsedAt"].is_string()), (&json!("ok"), true), "{after}");
    assert!(after.get("leftOut").is_none(), "{after}");
    let stranger = job(api, &page, None).await;
    assert_eq!(
        (&stranger["status"], &stranger["options"]["siteSessionId"]),
        (&json!("succeeded"), &Value::Null)
    );
    assert_eq!(shown(api, &id).await["state"], "ok", "who was not sent says nothing");

    site.is_open.store(false, Ordering::Relaxed);
    for (path, outcome, status, rule) in [
        ("/orders", "target_error", 200, json!("login_page")),
        ("/here", "target_error", 200, json!("login_page")),
        ("/api", "target_error", 401, Value::Null),
        ("/wall", "blocked", 403, json!("http_403")),
    ] {
        let out = job(api, &site.url("shop.test", path), Some(&id)).await;
        let attempt = &out["attempts"][0];
        assert_eq!((&out["status"], &out["resultId"]), (&json!("failed"), &Value::Null), "{out}");
        assert_eq!(
            (&attempt["outcome"], &attempt["httpStatus"], &attempt["rule"]),
            (&json!(outcome), &json!(status), &rule),
            "{out}"
        );
        assert!(text(&out, "error").contains("does not accept the site session"), "{out}");
        assert_eq!(out["creditsCharged"], i32::from(status == 401), "a login page costs nothing: {out}");
    }
    assert_eq!(shown(api, &id).await["state"], "expired");
    let told = events(api).await;
    assert_eq!(told.len(), 1, "once a change: {told:?}");
    assert_eq!(
        (&told[0]["subject"]["id"], &told[0]["domain"], &told[0]["data"]["name"]),
        (&json!(id), &json!("shop.test"), &json!("shop.test"))
    );
    site.is_open.store(true, Ordering::Relaxed);
    assert_eq!(job(api, &page, Some(&id)).await["status"], "succeeded");
    assert_eq!(shown(api, &id).await["state"], "ok");
    site.is_open.store(false, Ordering::Relaxed);
    assert_eq!(job(api, &page, Some(&id)).await["status"], "failed");
    assert_eq!(events(api).await.len(), 2);
    // A page that anybody gets says that the session does no harm.
    assert_eq!(job(api, &site.url("shop.test", "/public"), Some(&id)).await["status"], "succeeded");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_domain_is_never_told() {
    let site = Site::open().await;
    let at = site.appliance().await;
    let member = at.member("away").await;
    let api = &member.api;
    let header = json!({ "domain": "shop.test", "kind": "headers", "values": { "Authorization": format!("Bearer {TOKEN}") } });
    let mut robots = Vec::new();
    for session in [cookies(), header] {
        site.visits.lock().clear();
        let id = keep(api, &session).await;
        let headers = json!({ "X-Own": OWN, "Cookie": format!("own={OWN}") });
        let options = json!({ "siteSessionId": id, "headers": headers });
        let new = json!({ "url": site.url("shop.test", "/away"), "options": options });
        let made = expect(post(api, "/api/v1/jobs", &new).await, 201);
        let gone = ended(api, text(&made, "id")).await;
        assert_eq!(gone["status"], "succeeded", "{gone}");
        assert_eq!(gone["options"]["headers"], json!({ "Cookie": "***", "X-Own": "***" }), "{gone}");
        let (first, second) = (site.visits("/away"), site.visits("/elsewhere"));
        assert!(first[0].is_known() && first[0].own == OWN, "{first:?}");
        assert_eq!(second[0].host, "other.test");
        let nothing = [&second[0].cookie, &second[0].authorization, &second[0].own];
        assert!(nothing.iter().all(|value| value.is_empty()), "{second:?}");
        robots.extend(site.visits("/robots.txt"));
        // A job for another domain cannot name it.
        let foreign = json!({ "url": site.url("other.test", "/"), "options": { "siteSessionId": id } });
        let reply = post(api, "/api/v1/jobs", &foreign).await;
        let reason = "options.siteSessionId: is for shop.test, and the URL is of other.test";
        refused(&reply, 400, "Validation failed", reason);
        let batch = json!({ "jobs": [{ "url": site.url("shop.test", "/") }, foreign] });
        let reply = post(api, "/api/v1/jobs/batch", &batch).await;
        refused(&reply, 400, "Validation failed", "jobs[1].options.siteSessionId: is for shop.test");
    }
    assert!(!robots.is_empty() && !robots.iter().any(Visit::is_known), "{robots:?}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_batches_schedules_and_retries_carry_it() {
    let site = Site::open().await;
    let at = site.appliance().await;
    let member = at.member("carried").await;
    let api = &member.api;
    let id = keep(api, &cookies()).await;
    let (shop, other) = (site.url("shop.test", "/orders"), site.url("other.test", "/public"));
    expect(post(api, "/api/v1/urls", &json!({ "urls": [shop, other] })).await, 200);
    let urls = expect(get(api, "/api/v1/urls").await, 200)["items"].clone();
    let of = |url: &str| {
        let items = urls.as_array().unwrap();
        text(items.iter().find(|item| item["url"] == *url).unwrap(), "id").to_owned()
    };
    let (shop_id, other_id) = (of(&shop), of(&other));
    let change = async |id: &str, body: Value| {
        api.send(Method::PATCH, &format!("/api/v1/urls/{id}"), Some(&body)).await.unwrap()
    };
    let reply = change(&other_id, json!({ "siteSessionId": id })).await;
    refused(
        &reply,
        400,
        "Validation failed",
        "siteSessionId: is for shop.test, and the URL is of other.test",
    );
    let named = expect(change(&shop_id, json!({ "siteSessionId": id })).await, 200);
    assert_eq!(named["siteSessionId"], json!(id));
    assert_eq!(expect(change(&shop_id, json!({ "tags": ["mine"] })).await, 200)["siteSessionId"], json!(id));
    let listed = expect(get(api, "/api/v1/urls?tag=mine").await, 200);
    assert_eq!(listed["items"][0]["siteSessionId"], json!(id));

    let by_url = expect(post(api, "/api/v1/jobs", &json!({ "urlId": shop_id })).await, 201);
    let by_url = ended(api, text(&by_url, "id")).await;
    assert_eq!(
        (&by_url["status"], &by_url["options"]["siteSessionId"]),
        (&json!("succeeded"), &json!(id)),
        "{by_url}"
    );
    let batch = expect(post(api, "/api/v1/jobs/batch", &json!({ "jobs": [{ "url": shop }] })).await, 201);
    let again = ended(api, text(&batch["jobs"][0], "id")).await;
    assert_eq!(again["options"]["siteSessionId"], json!(id), "{again}");
    let retry =
        expect(post(api, &format!("/api/v1/jobs/{}/retry", text(&again, "id")), &json!({})).await, 201);
    assert_eq!(ended(api, text(&retry, "id")).await["options"]["siteSessionId"], json!(id));

    let schedule = json!({ "name": "both", "cron": "@yearly", "options": { "siteSessionId": id } });
    let schedule = expect(post(api, "/api/v1/schedules", &schedule).await, 201);
    assert_eq!(schedule["options"]["siteSessionId"], json!(id));
    let one = format!("/api/v1/schedules/{}", text(&schedule, "id"));
    let run = expect(post(api, &format!("{one}/trigger"), &json!({})).await, 200);
    assert_eq!(run["jobsCreated"], 1, "the URL of another domain is none for it: {run}");
    let run_id = text(&run, "scheduleRunId").to_owned();
    eventually("the run ends", WAIT, || async {
        let runs = expect(get(api, "/api/v1/schedules/runs").await, 200);
        let run = runs["items"].as_array().unwrap().iter().find(|run| run["id"] == run_id.as_str())?.clone();
        (run["status"] == "completed" || run["status"] == "failed").then_some(run)
    })
    .await;
    let jobs = expect(get(api, &format!("/api/v1/jobs?scheduleRunId={run_id}")).await, 200);
    assert_eq!(jobs["items"][0]["options"]["siteSessionId"], json!(id), "{jobs}");
    // Replaced whole: without the option there is none.
    let plain = json!({ "name": "both", "cron": "@yearly" });
    let replaced = expect(api.send(Method::PUT, &one, Some(&plain)).await.unwrap(), 200);
    assert_eq!(replaced["options"]["siteSessionId"], Value::Null);

    expect(api.delete(&format!("{SESSIONS}/{id}")).await.unwrap(), 204);
    let reply = post(api, "/api/v1/jobs", &json!({ "urlId": shop_id })).await;
    refused(&reply, 409, "Conflict", "The site session of the URL was deleted");
    let reply = post(api, &format!("/api/v1/jobs/{}/retry", text(&again, "id")), &json!({})).await;
    refused(&reply, 409, "Conflict", "The site session of the job was deleted");
    let cleared = expect(change(&shop_id, json!({ "clear": ["siteSessionId"] })).await, 200);
    assert_eq!(cleared["siteSessionId"], Value::Null);
    expect(post(api, "/api/v1/jobs", &json!({ "urlId": shop_id })).await, 201);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_session_a_job_asks_nobody() {
    let site = Site::open().await;
    let at = site.appliance().await;
    let member = at.member("waiting").await;
    let api = &member.api;
    let id = keep(api, &cookies()).await;
    // Those that run take the places of the domain, so that the others wait.
    let running: Vec<_> = (0..2).map(|_| json!({ "url": site.url("shop.test", "/slow") })).collect();
    let waiting = json!({ "url": site.url("shop.test", "/later"), "options": { "siteSessionId": id } });
    expect(post(api, "/api/v1/jobs/batch", &json!({ "jobs": running })).await, 201);
    eventually("both run", WAIT, || async { (site.visits("/slow").len() == 2).then_some(()) }).await;
    let waits = expect(post(api, "/api/v1/jobs", &waiting).await, 201);
    expect(api.delete(&format!("{SESSIONS}/{id}")).await.unwrap(), 204);
    assert_eq!(api.delete(&format!("{SESSIONS}/{id}")).await.unwrap().status, 404);
    site.web.release("slow");
    let failed = ended(api, text(&waits, "id")).await;
    assert_eq!((&failed["status"], &failed["attempts"]), (&json!("failed"), &json!([])), "{failed}");
    assert!(text(&failed, "error").contains("its site session was deleted"), "{failed}");
    assert_eq!((site.visits("/later").len(), &failed["creditsCharged"]), (0, &json!(0)));

    // Cookies that are over, by the box's clock.
    let end = at.clock.now().after(Duration::from_secs(3_600)).to_string();
    let cookie = json!({ "name": "sid", "value": COOKIE, "expires": end });
    let session = json!({ "domain": "shop.test", "kind": "cookies", "values": [cookie] });
    let id = keep(api, &session).await;
    assert_eq!(shown(api, &id).await["expiresAt"], json!(end));
    assert_eq!(job(api, &site.url("shop.test", "/orders"), Some(&id)).await["status"], "succeeded");
    at.clock.advance(Duration::from_secs(3_601));
    site.visits.lock().clear();
    let over = job(api, &site.url("shop.test", "/orders"), Some(&id)).await;
    assert!(text(&over, "error").contains("the cookies of its site session are over since"), "{over}");
    assert!(site.visits("/orders").is_empty());
    assert_eq!(shown(api, &id).await["state"], "expired");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hosted_service_is_not_sent_it() {
    let site = Site::open().await;
    let at = site.appliance().await;
    let member = at.member("hosted").await;
    let api = &member.api;
    let id = keep(api, &cookies()).await;
    let direct = crate::workflows::direct(&member).await;
    // Nothing listens there: what is asked of it fails.
    let vendor = json!({ "adapter": "scraperapi", "credentials": { "apiKey": "k" }, "baseUrl": site.web.url("/vendor") });
    let vendor = text(&expect(post(api, "/api/v1/providers", &vendor).await, 201), "id").to_owned();
    let workflow = async |chain: &[&str]| {
        let new = json!({ "name": "signed in", "dag": crate::workflows::chain(chain) });
        let made = expect(post(api, "/api/v1/workflows", &new).await, 201);
        let id = text(&made, "workflowId").to_owned();
        expect(post(api, &format!("/api/v1/workflows/{id}/publish"), &json!({})).await, 200);
        id
    };
    let (hosted, both) = (workflow(&[&vendor]).await, workflow(&[&vendor, &direct]).await);
    let new = |workflow: &str| {
        let options = json!({ "siteSessionId": id });
        json!({ "url": site.url("shop.test", "/orders"), "workflowId": workflow, "options": options })
    };
    let reply = post(api, "/api/v1/jobs", &new(&hosted)).await;
    refused(&reply, 409, "Conflict", "direct, proxy and browser alone");
    let made = expect(post(api, "/api/v1/jobs", &new(&both)).await, 201);
    let done = ended(api, text(&made, "id")).await;
    assert_eq!(done["status"], "succeeded", "{done}");
    let (first, second) = (&done["attempts"][0], &done["attempts"][1]);
    assert_eq!((&first["rule"], &second["providerId"]), (&json!("not_asked"), &json!(direct)), "{done}");
    assert!(text(first, "error").contains("is not sent site sessions"), "{done}");
    assert!(site.visits("/vendor").is_empty());
    // What the job fails for is what the one that was asked has met.
    let last = workflow(&[&direct, &vendor]).await;
    site.is_open.store(false, Ordering::Relaxed);
    let wall = json!({ "url": site.url("shop.test", "/wall"), "workflowId": last, "options": { "siteSessionId": id } });
    let made = expect(post(api, "/api/v1/jobs", &wall).await, 201);
    let out = ended(api, text(&made, "id")).await;
    assert_eq!((out["attempts"].as_array().unwrap().len(), &out["status"]), (2, &json!("failed")), "{out}");
    assert!(text(&out, "error").contains("does not accept the site session"), "{out}");
    site.is_open.store(true, Ordering::Relaxed);
    // Without a workflow only those are asked that may be.
    let alone = job(api, &site.url("shop.test", "/orders"), Some(&id)).await;
    assert_eq!(alone["attempts"][0]["providerId"], json!(direct), "{alone}");
    let path = format!("/api/v1/providers/{direct}?force=true");
    expect(api.delete(&path).await.unwrap(), 204);
    let new = json!({ "url": site.url("shop.test", "/orders"), "options": { "siteSessionId": id } });
    refused(&post(api, "/api/v1/jobs", &new).await, 409, "Conflict", "direct, proxy and browser alone");
    at.stop().await;
}

/// Another organization's session is none, in the same words as one that nobody has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbour_learns_nothing() {
    let site = Site::open().await;
    let at = site.appliance().await;
    let (mine, curious) = (at.member("mine").await, at.member("curious").await);
    let id = keep(&mine.api, &cookies()).await;
    let api = &curious.api;
    let shop = site.url("shop.test", "/orders");
    expect(post(api, "/api/v1/urls", &json!({ "urls": [shop] })).await, 200);
    let urls = expect(get(api, "/api/v1/urls").await, 200);
    let url = format!("/api/v1/urls/{}", text(&urls["items"][0], "id"));
    let nobodys = Uuid::now_v7().to_string();
    let options = |id: &str| json!({ "siteSessionId": id });
    let tried = async |id: &str| {
        let schedule = json!({ "name": "s", "cron": "@daily", "options": options(id) });
        let replies = [
            post(api, "/api/v1/jobs", &json!({ "url": shop, "options": options(id) })).await,
            post(api, "/api/v1/schedules", &schedule).await,
            api.send(Method::PATCH, &url, Some(&json!({ "siteSessionId": id }))).await.unwrap(),
            api.delete(&format!("{SESSIONS}/{id}")).await.unwrap(),
        ];
        replies.map(|reply| {
            assert_eq!(
                (reply.status.as_u16(), &reply.json["error"]),
                (404, &json!("Site session not found"))
            );
            reply.text().replace(id, "ID").replace(reply.header("x-request-id"), "REQUEST")
        })
    };
    assert_eq!(tried(&id).await, tried(&nobodys).await);
    let listed = expect(get(api, SESSIONS).await, 200);
    assert_eq!(listed["items"], json!([]));
    assert!(events(api).await.is_empty());
    assert_eq!(shown(&mine.api, &id).await["lastUsedAt"], Value::Null, "nobody has used it");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_handed_over_is_read_or_refused_by_its_place() {
    let at = Appliance::start().await;
    let member: Member = at.member("given").await;
    let api = &member.api;
    let exported = json!([
        { "name": "sid", "value": "1", "domain": ".shop.example", "expirationDate": 4_102_444_800.5, "sameSite": "lax" },
        { "name": "ad", "value": "2", "domain": "ads.example.net" },
        { "name": "old", "value": "3", "domain": ".shop.example", "expirationDate": 1 },
    ]);
    let new = json!({ "domain": "https://Shop.Example/account", "name": " Shop ", "kind": "cookies", "values": exported.to_string() });
    let made = expect(post(api, SESSIONS, &new).await, 201);
    assert_eq!(
        (&made["domain"], &made["name"], &made["names"]),
        (&json!("shop.example"), &json!("Shop"), &json!(["sid"]))
    );
    assert_eq!((&made["leftOut"], &made["expiresAt"]), (&json!(2), &json!("2100-01-01T00:00:00.500Z")));
    for (change, field) in [
        (json!({ "domain": "com" }), "domain: com is shared by many sites"),
        (json!({ "domain": "co.uk" }), "domain: "),
        (json!({ "domain": "" }), "domain: "),
        (json!({ "domain": "http://" }), "domain: "),
        (json!({ "domain": "a b" }), "domain: "),
        (json!({ "name": "" }), "name: "),
        (json!({ "name": "x".repeat(201) }), "name: "),
        (json!({ "kind": "basic" }), "kind: "),
        (json!({ "values": null }), "values: "),
        (json!({ "values": { "a": 1 } }), "values.a: "),
        (
            json!({ "kind": "headers", "values": { "Host": "x" } }),
            "values.Host: is written by the box itself",
        ),
    ] {
        let mut body = new.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        refused(&post(api, SESSIONS, &body).await, 400, "Validation failed", field);
    }
    for local in ["localhost", "10.1.2.3", "[fd00::1]", "intranet"] {
        let own = json!({ "domain": local, "kind": "cookies", "values": "a=1" });
        let made = expect(post(api, SESSIONS, &own).await, 201);
        assert_eq!(made["domain"], local, "an address, and a name that nobody registers, is its own");
    }
    // 32 KiB of values, 100 cookies, 100 sessions; and one more of each.
    let large = |bytes: usize| json!({ "domain": "a.example", "kind": "cookies", "values": { "c": "x".repeat(bytes) } });
    expect(post(api, SESSIONS, &large((32 << 10) - 2)).await, 201);
    refused(&post(api, SESSIONS, &large((32 << 10) - 1)).await, 400, "Validation failed", "at most 32768");
    let many = |count: usize| {
        let cookies: Vec<_> = (0..count).map(|n| json!({ "name": format!("c{n}"), "value": "1" })).collect();
        json!({ "domain": "a.example", "kind": "cookies", "values": cookies })
    };
    expect(post(api, SESSIONS, &many(100)).await, 201);
    refused(&post(api, SESSIONS, &many(101)).await, 400, "Validation failed", "at most 100");
    refused(&post(api, SESSIONS, &many(15_000)).await, 400, "Validation failed", "at most 100");
    let mut count =
        expect(get(api, &format!("{SESSIONS}?limit=200")).await, 200)["items"].as_array().unwrap().len();
    while count < 100 {
        expect(post(api, SESSIONS, &new).await, 201);
        count += 1;
    }
    refused(&post(api, SESSIONS, &new).await, 409, "Conflict", "at most 100 site sessions");
    let first = expect(get(api, &format!("{SESSIONS}?limit=60")).await, 200);
    let cursor = text(&first, "nextCursor");
    let rest = expect(get(api, &format!("{SESSIONS}?limit=60&cursor={cursor}")).await, 200);
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["nextCursor"]), (40, &Value::Null));
    at.stop().await;
}
