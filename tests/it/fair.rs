//! One organization beside others: turns at a domain, pauses that belong to who asked for them, credits that cannot be had
//! twice, and trouble of the box's own that no job pays for.

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{
    Appliance, Member, PASSWORD, collect, ended, eventually, expect, get, member, post, ready, refused, text,
};
use crate::workflows::{at, chain, direct, draft};
use http::Method;
use serde_json::{Value, json};
use server::client::Client;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A web that writes down its visits: `/held/KEY` answers when the test lets go of KEY, `/silent…` never, `/jump/x` leads to the host `evil.test`, where
/// everything wants to be left alone for an hour; `/huge` is larger than the box takes.
struct Town {
    web: Web,
    visits: Arc<Mutex<Vec<String>>>,
}

impl Town {
    async fn open() -> Town {
        let visits: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = visits.clone();
        let port = Arc::new(Mutex::new(0));
        let own = port.clone();
        let web = Web::open(move |path| {
            if path == "/robots.txt" {
                return None;
            }
            seen.lock().unwrap().push(path.to_owned());
            Some(match path.split('/').nth(1).unwrap_or_default() {
                "held" => Answer::html("late").held(path.split('/').nth(2).unwrap_or_default()),
                "silent" => Answer::html("never").held("never"),
                "jump" => Answer::redirect(&format!("http://evil.test:{}/busy", own.lock().unwrap())),
                "busy" => {
                    let mut answer = Answer::status(429);
                    answer.headers.push(("retry-after".to_owned(), "86400".to_owned()));
                    answer
                }
                "huge" => Answer::html("x".repeat(6_000_000)),
                _ => Answer::html(format!("<title>{path}</title>")),
            })
        })
        .await;
        *port.lock().unwrap() = web.address.port();
        Town { web, visits }
    }

    fn settings(&self) -> [(&'static str, String); 2] {
        let hosts = ["a.test", "b.test", "evil.test"].map(|name| format!("\"{name}\" = [\"127.0.0.1\"]"));
        [("NETWORK__ALLOW", self.web.allow()), ("NETWORK__HOSTS", format!("{{ {} }}", hosts.join(", ")))]
    }

    async fn appliance(&self, more: &[(&str, &str)]) -> Appliance {
        let own = self.settings();
        let own = own.iter().map(|(key, value)| (*key, value.as_str()));
        Appliance::start_with(&own.chain(more.iter().copied()).collect::<Vec<_>>()).await
    }

    fn url(&self, place: &str) -> String {
        let (host, path) = place.split_once('/').unwrap();
        format!("http://{host}:{}/{path}", self.web.address.port())
    }

    async fn until_visited(&self, times: usize) {
        eventually("its pages are asked for", Duration::from_secs(60), || async {
            (self.visits.lock().unwrap().len() >= times).then_some(())
        })
        .await;
    }

    fn visits(&self, path: &str) -> usize {
        self.visits.lock().unwrap().iter().filter(|seen| *seen == path).count()
    }
}

/// Options of a job whose page is held: longer than a test waits for anything.
fn patient() -> Value {
    json!({ "timeoutMs": 120_000 })
}

async fn submit(member: &Member, url: &str, more: Value) -> String {
    let mut job = json!({ "url": url });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    text(&expect(post(&member.api, "/api/v1/jobs", &job).await, 201), "id").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbours_job_takes_its_turn_at_a_domain_whatever_priorities_say() {
    let town = Town::open().await;
    let appliance = town.appliance(&[]).await;
    let (busy, neighbour) = (appliance.member("busy").await, appliance.member("neighbour").await);
    let job =
        |i| json!({ "url": town.url(&format!("a.test/held/{i}")), "priority": 9, "options": patient() });
    let jobs: Vec<_> = (0..120).map(job).collect();
    expect(post(&busy.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    town.until_visited(2).await;
    let id = submit(&neighbour, &town.url("a.test/theirs"), json!({ "priority": 0 })).await;
    // The visits end one by one, and each end lets one more begin.
    let mut ends = 0;
    while town.visits("/theirs") == 0 {
        let visits = town.visits.lock().unwrap().clone();
        town.web.release(visits[ends].strip_prefix("/held/").unwrap());
        ends += 1;
        // A call that the machine was too slow to follow costs a turn.
        assert!(ends <= 10, "it came behind {ends} of the other's pages: {visits:?}");
        town.until_visited(visits.len() + 1).await;
    }
    assert_eq!(ended(&neighbour.api, &id).await["status"], "succeeded");
    town.web.release_all();
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_targets_of_one_organization_leave_others_their_slots() {
    let town = Town::open().await;
    let appliance = town.appliance(&[("DISPATCH__PER_DOMAIN_CONCURRENCY", "100")]).await;
    let (hoarder, neighbour) = (appliance.member("hoarder").await, appliance.member("neighbour").await);
    let third = appliance.member("third").await;
    let job = |i| json!({ "url": town.url(&format!("a.test/silent/{i}")), "options": patient() });
    let jobs: Vec<_> = (0..60).map(job).collect();
    let made = expect(post(&hoarder.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    town.until_visited(32).await;
    for i in 0..10 {
        let id = submit(&neighbour, &town.url(&format!("b.test/{i}")), json!({})).await;
        // Not even a priority of theirs would help against pages that never answer, and nobody needs one.
        let other = submit(&third, &town.url(&format!("a.test/{i}")), json!({ "priority": 0 })).await;
        assert_eq!(ended(&neighbour.api, &id).await["status"], "succeeded");
        assert_eq!(ended(&third.api, &other).await["status"], "succeeded");
    }
    let silent = town.visits.lock().unwrap().iter().filter(|path| path.starts_with("/silent")).count();
    assert_eq!(silent, 32, "all slots, and none beside them");
    for job in made["jobs"].as_array().unwrap() {
        let path = format!("/api/v1/jobs/{}/cancel", text(job, "id"));
        expect(post(&hoarder.api, &path, &json!({})).await, 200);
    }
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_less_than_a_share_begins_beside_silent_pages_of_others() {
    let town = Town::open().await;
    let appliance =
        town.appliance(&[("DISPATCH__CONCURRENCY", "16"), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "100")]).await;
    let mut visits = 0;
    // Of 16 slots all; then a whole share; then less than one, so that there is as much for the next.
    for (name, begun) in [("hoarder", 16), ("second", 8), ("third", 4)] {
        let member = appliance.member(name).await;
        let job = |i| json!({ "url": town.url(&format!("a.test/silent/{name}/{i}")), "options": patient() });
        let jobs: Vec<_> = (0..30).map(job).collect();
        expect(post(&member.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
        town.until_visited(visits + begun).await;
        // Somebody else's job comes and ends meanwhile: whatever may begin has begun by then.
        let passer = appliance.member(&format!("passer-{name}")).await;
        let passing = submit(&passer, &town.url("b.test/passing"), json!({})).await;
        assert_eq!(ended(&passer.api, &passing).await["status"], "succeeded");
        visits += begun + 1;
        assert_eq!(town.visits.lock().unwrap().len(), visits, "of {name} {begun} begin");
    }
    // Once they end, everybody's turn comes.
    town.web.release("never");
    town.until_visited(3 * 30 + 3).await;
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_is_charged_to_the_host_that_asked_for_it_and_told() {
    let town = Town::open().await;
    let appliance = town.appliance(&[("DISPATCH__PAUSE_MAX_SEC", "600")]).await;
    let (hostile, victim) = (appliance.member("hostile").await, appliance.member("victim").await);
    let job = collect(&hostile.api, &town.url("a.test/jump")).await;
    assert_eq!(job["attempts"][0]["httpStatus"], 429, "{job}");
    let job = collect(&victim.api, &town.url("a.test/theirs")).await;
    assert_eq!((&job["status"], &job["waiting"]), (&json!("succeeded"), &Value::Null), "{job}");
    // The host that asked is left alone, by everybody, for no longer than is granted.
    let id = submit(&victim, &town.url("evil.test/other"), json!({})).await;
    let path = format!("/api/v1/jobs/{id}");
    let job = expect(get(&victim.api, &path).await, 200);
    assert_eq!(job["status"], "queued", "{job}");
    let waiting = &job["waiting"];
    assert_eq!(
        (&waiting["reason"], &waiting["askedBy"]),
        (&json!("retry_after"), &json!("evil.test")),
        "{job}"
    );
    let until: base::clock::Timestamp = text(waiting, "until").parse().unwrap();
    let now = appliance.clock.now();
    assert!(until > now && until.since(now) <= Duration::from_secs(600), "{job}");
    assert_eq!(town.visits("/other"), 0);
    expect(post(&victim.api, &format!("{path}/cancel"), &json!({})).await, 200);
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_too_large_goes_to_the_next_provider() {
    let town = Town::open().await;
    let appliance = town.appliance(&[]).await;
    let member = appliance.member("huge").await;
    let first = direct(&member).await;
    let second = json!({ "adapter": "direct", "name": "Second" });
    let second = expect(post(&member.api, "/api/v1/providers", &second).await, 201);
    let job = collect(&member.api, &town.url("a.test/huge")).await;
    let outcomes: Vec<_> = job["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| (text(a, "outcome"), text(a, "providerId")))
        .collect();
    let expected = [("provider_error", first.as_str()), ("provider_error", text(&second, "id"))];
    assert_eq!(outcomes, expected, "{job}");
    assert!(text(&job, "error").contains("larger than 5 MB"), "{job}");
    assert_eq!(job["creditsCharged"], 0);
    // Neither account is left alone for that.
    assert_eq!(collect(&member.api, &town.url("a.test/x")).await["status"], "succeeded");
    let flow = draft(&member, "both", &chain(&[&first, text(&second, "id")])).await;
    expect(post(&member.api, &at(&flow, "/publish"), &json!({})).await, 200);
    let id = submit(&member, &town.url("b.test/huge"), json!({ "workflowId": flow })).await;
    let job = ended(&member.api, &id).await;
    assert_eq!(job["attempts"].as_array().unwrap().len(), 2, "{job}");
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prices_below_the_adapters_need_the_operators_leave() {
    let town = Town::open().await;
    let mut appliance = town.appliance(&[("PROVIDERS__LOWER_PRICES", "true")]).await;
    let owner = appliance.member("cheap").await;
    let path = format!("/api/v1/providers/{}", direct(&owner).await);
    let free = json!({ "credits": { "standard": { "plain": 0, "render": 0 } } });
    let send = async |body: &Value| owner.api.send(Method::PATCH, &path, Some(body)).await.unwrap();
    expect(send(&free).await, 200);
    assert_eq!(collect(&owner.api, &town.url("a.test/free")).await["creditsCharged"], 0);
    appliance.set("PROVIDERS__LOWER_PRICES", "false");
    appliance.restart().await;
    let owner = Member { api: appliance.client().bearer(&owner.key), ..owner };
    let send = async |body: &Value| owner.api.send(Method::PATCH, &path, Some(body)).await.unwrap();
    // What was set before is the adapter's own again.
    assert_eq!(collect(&owner.api, &town.url("a.test/paid")).await["creditsCharged"], 1);
    assert_eq!(expect(get(&owner.api, &path).await, 200)["credits"]["standard"]["plain"], 1);
    refused(&send(&free).await, 400, "Validation failed", "credits.standard.plain: must be at least 1");
    let connect = json!({ "adapter": "direct", "name": "free", "credits": { "standard": { "render": 0 } } });
    let refusal = post(&owner.api, "/api/v1/providers", &connect).await;
    refused(&refusal, 400, "Validation failed", "credits.standard.render: must be at least 1");
    expect(send(&json!({ "credits": { "standard": { "plain": 9 } } })).await, 200);
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_of_providers_are_few_and_polite() {
    let town = Town::open().await;
    let appliance = town.appliance(&[("DISPATCH__PER_DOMAIN_CONCURRENCY", "1")]).await;
    let (eager, other) = (appliance.member("eager").await, appliance.member("other").await);
    // A job is at the domain, where one visit at once is allowed: the test has to wait, and not for ever.
    let silent = submit(&other, &town.url("a.test/silent/x"), json!({ "options": patient() })).await;
    town.until_visited(1).await;
    let path = format!("/api/v1/providers/{}/test", direct(&eager).await);
    let place = json!({ "url": town.url("a.test/tested") });
    let reply = post(&eager.api, &path, &place).await;
    assert_eq!((reply.status.as_u16(), town.visits("/tested")), (429, 0), "{}", reply.text());
    expect(post(&other.api, &format!("/api/v1/jobs/{silent}/cancel"), &json!({})).await, 200);
    // Ten in a minute, however slow the machine is: those that are refused before may still wait for the visit to end.
    let (begun, mut tested) = (Instant::now(), 0);
    loop {
        let reply = post(&eager.api, &path, &place).await;
        tested += usize::from(reply.status == 200);
        assert!(reply.status == 200 || reply.status == 429, "{}", reply.text());
        if reply.text().contains("10 times a minute") {
            break;
        }
        assert!(tested < 60, "nobody stops it");
    }
    let minutes = usize::try_from(begun.elapsed().as_secs() / 60).unwrap() + 1;
    assert_eq!(tested, town.visits("/tested"));
    assert!((1..=10 * minutes).contains(&tested), "{tested} tests within {minutes} minutes");
    let theirs = format!("/api/v1/providers/{}/test", direct(&other).await);
    expect(post(&other.api, &theirs, &json!({ "url": town.url("b.test/fine") })).await, 200);
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_has_used_of_a_period_follows_them_to_another_organization() {
    let town = Town::open().await;
    let appliance = town.appliance(&[]).await;
    let member = appliance.member("founder").await;
    for i in 0..3 {
        collect(&member.api, &town.url(&format!("a.test/{i}"))).await;
    }
    let plan = expect(get(&member.api, "/api/v1/plans/current").await, 200);
    assert_eq!(plan["remainingCredits"], 999_997);
    appliance.clock.advance(Duration::from_secs(24 * 3600));
    let login = async || {
        let login = json!({ "email": member.email, "password": PASSWORD });
        let login = expect(post(&appliance.client(), "/api/v1/auth/login", &login).await, 200);
        appliance.client().bearer(text(&login, "accessToken"))
    };
    let refound = async |name: &str| {
        let browser = login().await;
        let body = json!({ "confirmName": name });
        let erased = browser.send(Method::DELETE, "/api/v1/orgs/current", Some(&body)).await.unwrap();
        assert_eq!(erased.status, 202, "{}", erased.text());
        let org = expect(post(&login().await, "/api/v1/orgs", &json!({ "name": "again" })).await, 201);
        appliance.client().bearer(text(&org, "accessToken"))
    };
    let again = refound("founder").await;
    let after = expect(get(&again, "/api/v1/plans/current").await, 200);
    assert_eq!(after["remainingCredits"], 999_997, "{after}");
    assert_eq!(after["periodEndsAt"], plan["periodEndsAt"], "no period of its own");
    let rows = expect(get(&again, "/api/v1/plans/transactions").await, 200);
    let amounts: i64 =
        rows["items"].as_array().unwrap().iter().map(|row| row["amount"].as_i64().unwrap()).sum();
    assert_eq!(amounts, 999_997, "{rows}");
    assert!(rows.to_string().contains("used before in this period"), "{rows}");
    // A third one changes nothing, and the next period is whole.
    let third = refound("again").await;
    assert_eq!(expect(get(&third, "/api/v1/plans/current").await, 200)["remainingCredits"], 999_997);
    appliance.clock.advance(Duration::from_secs(30 * 24 * 3600));
    let browser = login().await;
    let plan = expect(get(&browser, "/api/v1/plans/current").await, 200);
    assert_eq!(plan["remainingCredits"], 1_000_000, "{plan}");
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_without_descriptors_loses_no_job() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let town = Town::open().await;
    let folder = tempfile::tempdir().unwrap();
    let own = town.settings();
    let mut settings: Vec<_> = own.iter().map(|(key, value)| (*key, value.as_str())).collect();
    settings.extend([("STORAGE__RESERVE_MB", "0"), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "4")]);
    let process = Process::start(&folder.path().join("data"), &settings);
    let member = member(&process.client(), &process.socket(), "poor").await;
    let job = |i| json!({ "url": town.url(&format!("a.test/held/page?{i}")), "options": patient() });
    let jobs: Vec<_> = (0..40).map(job).collect();
    let made = expect(post(&member.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    town.until_visited(4).await;
    // One connection that is open already, for as many requests as there will be.
    let open = Client::new_h2c(process.url.clone());
    ready(&open).await;
    // From here on nothing new can be opened: no socket, no page's file. What is open stays so.
    let pid = Pid::from_raw(process.id() as i32).unwrap();
    let usual = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(3), maximum: usual.maximum };
    prlimit(Some(pid), Resource::Nofile, none).unwrap();
    town.web.release("page");
    eventually("the box has met it", Duration::from_secs(60), || async {
        (get(&open, "/readyz").await.status == 503).then_some(())
    })
    .await;
    let visited = || town.visits.lock().unwrap().len();
    eventually("a box in trouble visits nobody", Duration::from_secs(60), || async {
        let before = visited();
        tokio::time::sleep(Duration::from_secs(2)).await;
        (visited() == before).then_some(())
    })
    .await;
    assert!(visited() < 40, "it went on until there was nothing left");
    prlimit(Some(pid), Resource::Nofile, usual).unwrap();
    for job in made["jobs"].as_array().unwrap() {
        let job = ended(&member.api, text(job, "id")).await;
        assert_eq!(
            (&job["status"], job["attempts"].as_array().unwrap().len()),
            (&json!("succeeded"), 1),
            "{job}"
        );
    }
    let visits = town.visits.lock().unwrap().len();
    assert_eq!(visits, 40, "no page was fetched twice");
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_cannot_store_pages_says_so_and_goes_on_when_it_can() {
    let town = Town::open().await;
    let appliance = town.appliance(&[]).await;
    let member = appliance.member("unwritable").await;
    let (pages, aside) = (appliance.data_dir().join("pages"), appliance.data_dir().join("aside"));
    ready(&appliance.client()).await;
    let id = submit(&member, &town.url("a.test/held/x"), json!({ "options": patient() })).await;
    town.until_visited(1).await;
    // A file in the place of the folder: everything in it fails, also for root.
    std::fs::rename(&pages, &aside).unwrap();
    std::fs::write(&pages, "").unwrap();
    town.web.release("x");
    eventually("readiness says so", Duration::from_secs(10), || async {
        let ready = get(&appliance.client(), "/readyz").await;
        (ready.status == 503 && ready.text().contains("a page")).then_some(())
    })
    .await;
    std::fs::remove_file(&pages).unwrap();
    std::fs::rename(&aside, &pages).unwrap();
    assert_eq!(ended(&member.api, &id).await["status"], "succeeded");
    assert_eq!(town.visits("/held/x"), 1, "it was fetched once");
    ready(&appliance.client()).await;
    appliance.stop().await;
}
