//! Random workflows on a box at work: what a job did, by the API, is what a plain reading of its drawing says. The same
//! attempts with the same outcomes, the same page, the same credits. Drawings that are not valid never reach a provider.
//!
//! Drawings and the plain interpreter are those of the graph engine's own tests (tests/dispatch). The providers are simulated
//! vendors; a script, made from the seed, says what each of them meets for a job, node and try. One thing is the world's to
//! decide and not the script's: in which order the answers of a race come in. That is taken from the job as it was, and
//! everything else must follow from it.
//!
//! The seed is always the same, so that a failure is one everywhere; `GRAPHS_SEED=7` tries another.

use crate::harness::Request;
use crate::harness::vendors::{SCRAPEDO, SCRAPFLY, SCRAPINGBEE, Script, Simulator, Target, Vendor, ZYTE};
use crate::harness::{Appliance, Member, ended, expect, get, post, refused, text};
use crate::workflows::{at, chain, put};
use base::ids::ProviderId;
use dispatch::dag::{Dag, Fault};
use dispatch_oracle::generate::{self, Dice, Palette, spoil, valid};
use dispatch_oracle::reference::{self, Asked, Story, World};
use fetch::Outcome;
use serde_json::{Value, json};
use server::client::Client;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// Drawings that are walked, and jobs along each.
const WALKED: usize = 30;
const JOBS_EACH: usize = 3;
/// Drawings that are spoilt.
const SPOILT: usize = 60;
/// The domain of pages that no drawing is walked for. Each job of a drawing has one of its own: a provider rests at a domain
/// where it has failed in a row, and one job's failures are not to be another's.
const DOMAIN: &str = "world.test";
const BOX: Palette = Palette { outputs: false, wait_ms_max: 20, draws: 4 };
/// The vendors that drawings ask, and what their names on this box are.
const VENDORS: [Vendor; generate::PROVIDERS as usize] =
    [SCRAPINGBEE, SCRAPFLY, SCRAPEDO, ZYTE, SCRAPFLY, SCRAPEDO];
/// What jobs say of their pages; there is a schema of products.
const PAGE_TYPES: [Option<&str>; 3] = [None, Some("product"), Some("article")];
/// What a request can meet, the good more often than the rest.
const TARGETS: [Target; 12] = [
    Target::Page,
    Target::Page,
    Target::Page,
    Target::Walled,
    Target::Walled,
    Target::Captcha,
    Target::Busy,
    Target::Late,
    Target::Late,
    Target::Broken,
    Target::Dead,
    Target::Missing,
];

/// The provider of this number, as the generator draws it; a box gives its own ids.
fn dag(value: Value) -> Dag {
    serde_json::from_value(value).unwrap()
}

/// What providers meet for one job.
#[derive(Clone)]
struct Play {
    seed: u64,
    /// For races: who meets what, by the provider's place in [`VENDORS`].
    races: HashMap<usize, Target>,
}

impl Play {
    /// What the request meets that `node` makes through `vendor` after so many others. A race has one each.
    fn target(&self, vendor: usize, node: Option<&str>, tries: usize) -> Target {
        let Some(node) = node else { return self.races.get(&vendor).copied().unwrap_or(Target::Page) };
        let word = node.bytes().fold(vendor as u64, |sum, byte| sum * 257 + u64::from(byte));
        let mut dice = Dice(self.seed ^ (word << 16) ^ tries as u64);
        // A target's own answer ends a job, so it must not come all the time.
        match *dice.pick(&TARGETS) {
            Target::Missing if !dice.one_in(4) => Target::Walled,
            target => target,
        }
    }
}

/// The key that a node's requests carry as their country; a race has none.
fn key_of(node: &str) -> Option<String> {
    let number: u8 = node.strip_prefix('n')?.parse().ok()?;
    Some([b'A' + number / 26, b'A' + number % 26].map(char::from).iter().collect())
}

/// Brings a drawing to this box: its own ids, requests that can be told apart, and no provider in two races.
fn settle(dag: &mut Dag, ids: &[ProviderId]) {
    let own = |value: &Value| {
        let drawn: ProviderId = value.as_str().unwrap().parse().unwrap();
        json!(ids[usize::from(drawn.0.as_bytes()[0])])
    };
    let mut raced: Vec<Value> = Vec::new();
    for node in &mut dag.nodes {
        let Some(config) = &mut node.config else { continue };
        if let Some(all) = config.get("providerIds").and_then(Value::as_array) {
            let mut fresh: Vec<_> = all.iter().map(own).collect();
            fresh.retain(|id| !raced.contains(id));
            raced.extend(fresh.iter().cloned());
            if fresh.is_empty() {
                node.kind = "provider".to_owned();
                let first = own(&all[0]);
                config.clear();
                config.insert("providerId".to_owned(), first);
            } else {
                config.insert("providerIds".to_owned(), json!(fresh));
            }
        } else if let Some(id) = config.get("providerId") {
            let id = own(id);
            config.insert("providerId".to_owned(), id);
        }
        if node.kind == "provider" {
            config.insert("country".to_owned(), json!(key_of(&node.id)));
        }
    }
}

/// What a race's providers meet: when one of them has an answer, the others may be silent for ever.
fn script_races(dag: &Dag, ids: &[ProviderId], dice: &mut Dice) -> HashMap<usize, Target> {
    let mut all = HashMap::new();
    for node in dag.nodes.iter().filter(|node| node.kind == "race") {
        let racers = node.config.as_ref().unwrap()["providerIds"].as_array().unwrap();
        let place = |id: &Value| ids.iter().position(|own| json!(own) == *id).unwrap();
        let racers: Vec<usize> = racers.iter().map(place).collect();
        let winner = dice.below(racers.len() + 2);
        for (i, vendor) in racers.iter().enumerate() {
            let target = match winner.checked_sub(i) {
                Some(0) if dice.one_in(6) => Target::Missing,
                Some(0) => Target::Page,
                _ if winner < racers.len() && dice.one_in(2) => Target::Hang,
                _ => {
                    *dice.pick(&[Target::Walled, Target::Late, Target::Broken, Target::Dead, Target::Captcha])
                }
            };
            all.insert(*vendor, target);
        }
    }
    all
}

/// A job, its play, and what it came to.
struct Walked<'a> {
    dag: &'a Dag,
    ids: &'a [ProviderId],
    prices: &'a [[[u64; 2]; 2]],
    play: Play,
    url: String,
    id: [u8; 16],
    tags: Vec<String>,
    page_type: Option<&'static str>,
    render: bool,
    premium: bool,
    /// What the vendors' page is worth by the one schema that there is.
    quality: f64,
    /// The job by the API.
    seen: Value,
}

impl Walked<'_> {
    fn vendor(&self, provider: ProviderId) -> usize {
        self.ids.iter().position(|id| *id == provider).unwrap()
    }

    /// The attempts that the job shows for a node, as ids of their providers.
    fn shown(&self, node: &str, is_canceled: bool) -> Vec<&str> {
        let attempts = self.seen["attempts"].as_array().unwrap().iter();
        let of_node = attempts.filter(|attempt| attempt["nodeId"] == node);
        let chosen = of_node.filter(|attempt| (attempt["outcome"] == "canceled") == is_canceled);
        chosen.map(|attempt| text(attempt, "providerId")).collect()
    }
}

impl World for Walked<'_> {
    fn attempt(&self, asked: &Asked<'_>) -> (Outcome, Option<u16>) {
        let vendor = self.vendor(asked.provider);
        let node = self.dag.nodes.iter().find(|node| node.id == asked.node).unwrap();
        let config = Value::Object(node.config.clone().unwrap_or_default());
        let key = if node.kind == "race" { None } else { Some(asked.node) };
        let premium = config["premium"].as_bool().unwrap_or(self.premium);
        // This vendor takes a country with premium only, and is not even asked.
        if VENDORS[vendor].id == SCRAPINGBEE.id && key.is_some() && !premium {
            return (Outcome::ProviderError, None);
        }
        let (outcome, status) = match self.play.target(vendor, key, asked.tries) {
            Target::Page => (Outcome::Success, Some(200)),
            Target::Missing => (Outcome::TargetError, Some(404)),
            Target::Walled => (Outcome::Blocked, Some(403)),
            Target::Busy => (Outcome::Blocked, Some(429)),
            Target::Captcha => (Outcome::Blocked, Some(200)),
            Target::Late => (Outcome::Timeout, Some(408)),
            Target::Broken => (Outcome::TargetError, Some(500)),
            Target::Dead => (Outcome::NetworkError, None),
            Target::Hang => (Outcome::Timeout, None),
        };
        // It tells of a ban, and not by which status.
        let hides = VENDORS[vendor].id == ZYTE.id && matches!(status, Some(403 | 429));
        (outcome, status.filter(|_| !hides))
    }

    /// As they came in: what the job shows of the race, then those that were slower.
    fn order(&self, _: usize, node: &str, count: usize) -> Vec<usize> {
        let race = self.dag.nodes.iter().find(|other| other.id == node).unwrap();
        let drawn = race.config.as_ref().unwrap()["providerIds"].as_array().unwrap();
        let place = |id: &str| drawn.iter().position(|other| *other == id);
        let mut order: Vec<usize> = self.shown(node, false).into_iter().filter_map(place).collect();
        order.extend((0..count).filter(|at| !order.contains(at)).collect::<Vec<_>>());
        order
    }

    fn quality(&self, _: usize) -> Option<f64> {
        // The box looks for itself which schema fits a page whose type nobody has named; it has one.
        self.page_type.is_none_or(|page_type| page_type == "product").then_some(self.quality)
    }

    fn price(&self, provider: ProviderId, render: bool, premium: bool) -> u64 {
        self.prices[self.vendor(provider)][usize::from(premium)][usize::from(render)]
    }

    fn job(&self) -> (&str, [u8; 16], &[String], Option<&str>, bool, bool) {
        (&self.url, self.id, &self.tags, self.page_type, self.render, self.premium)
    }
}

/// A box whose providers are simulated vendors that play their scripts.
struct Lab {
    appliance: Appliance,
    member: Member,
    simulators: Vec<Simulator>,
    plays: Arc<Mutex<HashMap<String, Play>>>,
    ids: Vec<ProviderId>,
    /// What a delivery costs: by premium, then by render.
    prices: Vec<[[u64; 2]; 2]>,
}

/// Lets a vendor meet what the play of its job says.
fn script(vendor: usize, plays: Arc<Mutex<HashMap<String, Play>>>) -> Script {
    let asked_before: Mutex<HashMap<(String, String), usize>> = Mutex::default();
    Box::new(move |url, country| {
        let Some(play) = plays.lock().unwrap().get(url).cloned() else { return Target::of(url) };
        let country = country.unwrap_or_default().to_ascii_uppercase();
        let mut asked_before = asked_before.lock().unwrap();
        let count = asked_before.entry((url.to_owned(), country.clone())).or_default();
        let tries = std::mem::replace(count, *count + 1);
        let node = (0..64).map(|n| format!("n{n}")).find(|node| key_of(node).as_ref() == Some(&country));
        play.target(vendor, node.as_deref(), tries)
    })
}

impl Lab {
    async fn open() -> Lab {
        let plays: Arc<Mutex<HashMap<String, Play>>> = Arc::default();
        let mut simulators = Vec::new();
        for (i, vendor) in VENDORS.into_iter().enumerate() {
            simulators.push(Simulator::playing(vendor, script(i, plays.clone())).await);
        }
        let allow: Vec<_> = simulators
            .iter()
            .map(|simulator| format!("\"127.0.0.1/32:{}\"", simulator.address.port()))
            .collect();
        let appliance = Appliance::start_with(&[
            ("PROVIDERS__LOWER_PRICES", "true"),
            ("NETWORK__ALLOW", &format!("[{}]", allow.join(","))),
            ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64"),
        ])
        .await;
        let member = appliance.member("graphs").await;
        let (mut ids, mut prices) = (Vec::new(), Vec::new());
        for (i, (vendor, simulator)) in VENDORS.iter().zip(&simulators).enumerate() {
            let key = if vendor.id == SCRAPEDO.id { "token" } else { "apiKey" };
            let new = json!({
                "adapter": vendor.id, "name": format!("Vendor {i}"), "baseUrl": simulator.url(),
                "credentials": { key: "good-key" },
            });
            let made = expect(post(&member.api, "/api/v1/providers", &new).await, 201);
            let id = text(&made, "id").to_owned();
            // Prices of this organization's own, no two alike.
            let own = |tier: u64| json!({ "plain": 3 + 16 * i as u64 + 4 * tier, "render": 5 + 16 * i as u64 + 4 * tier });
            let has_premium = made["credits"].get("premium").is_some();
            let mut credits = json!({ "standard": own(0) });
            if has_premium {
                credits["premium"] = own(1);
            }
            let patch = json!({ "credits": credits });
            let path = format!("/api/v1/providers/{id}");
            let patched = member.api.send(http::Method::PATCH, &path, Some(&patch)).await.unwrap();
            expect(patched, 200);
            let of = |tier: u64| [3 + 16 * i as u64 + 4 * tier, 5 + 16 * i as u64 + 4 * tier];
            prices.push([of(0), of(u64::from(has_premium))]);
            ids.push(id.parse().unwrap());
        }
        Lab { appliance, member, simulators, plays, ids, prices }
    }

    fn asked(&self) -> usize {
        self.simulators.iter().map(Simulator::asked).sum()
    }

    async fn publish(&self, dag: &Dag) -> String {
        let api = &self.member.api;
        let made = expect(post(api, "/api/v1/workflows", &json!({ "name": "drawn", "dag": dag })).await, 201);
        let id = text(&made, "workflowId").to_owned();
        expect(post(api, &at(&id, "/publish"), &json!({})).await, 200);
        id
    }

    /// A schema of products for each of these domains.
    async fn import_schemas(&self, domains: &[String]) {
        let schema = |domain: &String| {
            json!({ "domain": domain, "pageType": "product", "attributes": [
                { "name": "title", "xpaths": ["//title"], "type": "text" },
                { "name": "heading", "xpaths": ["//h1"], "type": "text" },
                { "name": "price", "xpaths": ["//i"], "type": "text" },
            ]})
        };
        let schemas = json!({ "schemas": domains.iter().map(schema).collect::<Vec<_>>() });
        let import = Request::SchemaImport { json: schemas.to_string(), domain: None };
        assert_eq!(self.appliance.operator(import).await["created"], domains.len());
    }

    /// What the vendors' page is worth by the schema of its type.
    async fn quality(&self) -> f64 {
        self.import_schemas(&[DOMAIN.to_owned()]).await;
        let flow = self.publish(&dag(chain(&[&self.ids[1].to_string()]))).await;
        let url = format!("http://page.{DOMAIN}/");
        let job = json!({ "url": url, "pageType": "product", "workflowId": flow });
        let job = expect(post(&self.member.api, "/api/v1/jobs", &job).await, 201);
        let job = ended(&self.member.api, text(&job, "id")).await;
        let path = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
        let result = expect(get(&self.member.api, &path).await, 200);
        result["quality"]["composite"].as_f64().unwrap_or_else(|| panic!("no quality in {result}"))
    }

    /// Every change of the balance, by its job.
    async fn ledger(&self) -> BTreeMap<String, Vec<(String, i64)>> {
        let (mut all, mut cursor) = (BTreeMap::<String, Vec<_>>::new(), String::new());
        loop {
            let path = format!("/api/v1/plans/transactions?limit=200{cursor}");
            let page = expect(get(&self.member.api, &path).await, 200);
            for row in page["items"].as_array().unwrap() {
                let job = row["jobId"].as_str().unwrap_or_default().to_owned();
                let entry = (text(row, "kind").to_owned(), row["amount"].as_i64().unwrap());
                all.entry(job).or_default().insert(0, entry);
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }
}

/// The attempts, as the API shows them: node, provider, outcome, status.
fn attempts(job: &Value) -> Vec<(String, String, String, Option<u64>)> {
    let all = job["attempts"].as_array().unwrap().iter();
    let numbers: Vec<_> = all.clone().map(|attempt| attempt["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "{job}");
    let of = |name: &str, attempt: &Value| text(attempt, name).to_owned();
    all.map(|a| (of("nodeId", a), of("providerId", a), of("outcome", a), a["httpStatus"].as_u64())).collect()
}

fn told(story: &Story) -> Vec<(String, String, String, Option<u64>)> {
    let attempt = |(n, made): (usize, &reference::Made)| {
        let outcome = if story.poor.contains(&n) { Outcome::LowQuality } else { made.outcome };
        let outcome = outcome.as_str().to_owned();
        (made.node.clone(), made.provider.to_string(), outcome, made.status.map(u64::from))
    };
    (1..).zip(&story.attempts).map(attempt).collect()
}

/// Spoilt drawings are refused, whatever is asked for with them; drawings that only want a provider stay drafts.
async fn the_spoilt_are_refused(lab: &Lab, seed: u64) {
    let api = &lab.member.api;
    let mut dice = Dice(seed ^ 0xBAD);
    let flow = lab.publish(&dag(chain(&[&lab.ids[1].to_string()]))).await;
    let before = expect(get(api, &at(&flow, "")).await, 200);
    let (mut spoilt, mut faults) = (0, std::collections::BTreeSet::new());
    while spoilt < SPOILT {
        let mut drawing = valid(&mut dice, 12, BOX);
        settle(&mut drawing, &lab.ids);
        let Some(fault) = spoil(&mut dice, &mut drawing) else { continue };
        spoilt += 1;
        faults.insert(fault.name());
        let body = json!({ "name": "spoilt", "dag": drawing });
        let refusal = match spoilt % 2 {
            0 => put(api, &at(&flow, ""), &body).await,
            _ => post(api, "/api/v1/workflows", &body).await,
        };
        let sentence = if fault == Fault::NodeTypeUnknown { "Unknown node type" } else { "Invalid workflow" };
        assert_eq!(refusal.status, 400, "seed {seed}, spoilt {spoilt}: {drawing:?}");
        // Which of several faults is named first is the drawing's order.
        let named = refusal.json["error"].as_str().unwrap();
        assert!(named == sentence || named == "Invalid workflow", "{}", refusal.text());
    }
    assert!(faults.len() >= 7, "{faults:?}");
    assert_eq!(expect(get(api, &at(&flow, "")).await, 200), before, "no refused edit left anything");
    // A draft may name a provider that is not connected; nothing is dispatched along it.
    let stranger = dag(chain(&[&Uuid::now_v7().to_string()]));
    let made =
        expect(post(api, "/api/v1/workflows", &json!({ "name": "draft", "dag": stranger })).await, 201);
    let id = text(&made, "workflowId");
    refused(
        &post(api, &at(id, "/publish"), &json!({})).await,
        400,
        "Invalid workflow",
        "provider_not_connected",
    );
    let job = json!({ "url": format!("http://page.{DOMAIN}/"), "workflowId": id });
    refused(&post(api, "/api/v1/jobs", &job).await, 409, "Workflow is not published", "workflowId: ");
    let batch = json!({ "jobs": [{ "url": format!("http://page.{DOMAIN}/") }, job] });
    refused(
        &post(api, "/api/v1/jobs/batch", &batch).await,
        409,
        "Workflow is not published",
        "jobs[1].workflowId: ",
    );
    assert_eq!(lab.asked(), 0, "something reached a provider");
}

/// A job as it was submitted, and what it plays.
struct Submitted {
    id: String,
    dag: usize,
    url: String,
    play: Play,
    body: Value,
}

async fn submit(lab: &Lab, flow: &str, (i, dag): (usize, &Dag), dice: &mut Dice) -> Vec<Submitted> {
    let mut all = Vec::new();
    let domain = |turn: usize| format!("j{i}x{turn}-{DOMAIN}");
    lab.import_schemas(&(0..JOBS_EACH).map(domain).collect::<Vec<_>>()).await;
    for turn in 0..JOBS_EACH {
        let url = format!("http://{}/{}", domain(turn), dice.below(1_000));
        let play = Play { seed: dice.number(), races: script_races(dag, &lab.ids, dice) };
        lab.plays.lock().unwrap().insert(url.clone(), play.clone());
        let page_type = *dice.pick(&PAGE_TYPES);
        let tags = ["daily", "other"][..dice.below(3)].to_vec();
        let body = json!({
            "url": url, "workflowId": flow, "tags": tags, "pageType": page_type,
            "options": { "render": dice.one_in(2), "premium": dice.one_in(2), "timeoutMs": 120_000 },
        });
        all.push(Submitted { id: String::new(), dag: i, url, play, body });
    }
    let jobs: Vec<_> = all.iter().map(|job| job.body.clone()).collect();
    let batch = expect(post(&lab.member.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    for (job, made) in all.iter_mut().zip(batch["jobs"].as_array().unwrap()) {
        job.id = text(made, "id").to_owned();
    }
    all
}

/// What a job was charged of which a provider rested after it had failed in a row in this very job; none of others.
fn rested(job: &Value) -> Option<u64> {
    let attempts = job["attempts"].as_array().unwrap();
    let rests = |a: &Value| a["error"].as_str().is_some_and(|error| error.contains("rests for a while"));
    let at = attempts.iter().position(rests)?;
    let failed = ["blocked", "timeout", "network_error", "target_error"];
    let own = attempts[..at].iter().filter(|a| a["providerId"] == attempts[at]["providerId"]);
    let failures = own.filter(|a| failed.contains(&text(a, "outcome"))).count();
    assert!(failures >= 5, "it rests after {failures} failures: {job}");
    Some(job["creditsCharged"].as_u64().unwrap())
}

/// Checks one job against the plain reading of its drawing; gives what it was charged, and how it ended.
async fn check(api: &Client, walked: &Walked<'_>, ledger: &[(String, i64)], context: &str) -> (u64, usize) {
    let job = &walked.seen;
    if let Some(charged) = rested(job) {
        // Who rests, and when, the plain reading does not know.
        let kind = if job["status"] == "succeeded" { 0 } else { 1 + usize::from(charged > 0) };
        return (charged, kind);
    }
    let story = reference::walk(walked.dag, walked);
    let drawing = || format!("{context}: {} of {}", job, serde_json::to_string(walked.dag).unwrap());
    assert_eq!(attempts(job), told(&story), "{}", drawing());
    let status = if story.succeeded { "succeeded" } else { "failed" };
    assert_eq!(
        (text(job, "status"), &job["creditsCharged"]),
        (status, &json!(story.credits)),
        "{}",
        drawing()
    );
    assert_eq!(job["error"].is_null(), story.succeeded, "{}", drawing());
    for (shown, made) in job["attempts"].as_array().unwrap().iter().zip(&story.attempts) {
        // Of those that say nothing themselves the table does, and it is what would be charged.
        if shown["costSource"] == "table" {
            assert_eq!(shown["credits"], made.credits, "{}", drawing());
        }
    }
    let most = reference::dearest(walked.dag, walked);
    let returned = i64::try_from(most - story.credits).unwrap();
    let end = if story.credits == 0 { "refund" } else { "settle" };
    let expected = match most {
        0 => vec![],
        most => vec![("reserve".to_owned(), -i64::try_from(most).unwrap()), (end.to_owned(), returned)],
    };
    assert_eq!(ledger, expected, "{}", drawing());
    match story.settled.filter(|_| story.succeeded) {
        None => assert!(job["resultId"].is_null(), "{}", drawing()),
        Some(n) => {
            let path = format!("/api/v1/extraction/results/by-id/{}", text(job, "resultId"));
            let result = expect(get(api, &path).await, 200);
            let vendor = VENDORS[walked.vendor(story.attempts[n - 1].provider)].id;
            assert_eq!(
                (&result["provider"], &result["jobId"]),
                (&json!(vendor), &job["id"]),
                "{}",
                drawing()
            );
        }
    }
    (story.credits, if story.succeeded { 0 } else { 1 + usize::from(story.settled.is_some()) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_walks_random_graphs_as_a_plain_reading_of_them_says() {
    let seed = std::env::var("GRAPHS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_121);
    println!("GRAPHS_SEED={seed}");
    let lab = Lab::open().await;
    let api = &lab.member.api;
    the_spoilt_are_refused(&lab, seed).await;
    let quality = lab.quality().await;
    let mut dice = Dice(seed);
    let (mut drawings, mut jobs) = (Vec::new(), Vec::new());
    for i in 0..WALKED {
        let mut drawing = valid(&mut dice, 24, BOX);
        settle(&mut drawing, &lab.ids);
        let flow = lab.publish(&drawing).await;
        jobs.extend(submit(&lab, &flow, (i, &drawing), &mut dice).await);
        drawings.push(drawing);
    }
    let mut seen = Vec::new();
    for job in &jobs {
        seen.push(ended(api, &job.id).await);
    }
    for simulator in &lab.simulators {
        simulator.assert_understood();
    }
    let ledger = lab.ledger().await;
    let (mut charged, mut endings, mut made, mut lost) = (0, [0usize; 3], 0, 0);
    for (job, seen) in jobs.iter().zip(seen) {
        let options = &job.body["options"];
        let walked = Walked {
            dag: &drawings[job.dag],
            ids: &lab.ids,
            prices: &lab.prices,
            play: job.play.clone(),
            url: job.url.clone(),
            id: *Uuid::parse_str(&job.id).unwrap().as_bytes(),
            tags: serde_json::from_value(job.body["tags"].clone()).unwrap(),
            page_type: PAGE_TYPES.into_iter().flatten().find(|known| job.body["pageType"] == *known),
            render: options["render"] == true,
            premium: options["premium"] == true,
            quality,
            seen,
        };
        made += attempts(&walked.seen).len();
        lost += attempts(&walked.seen).iter().filter(|attempt| attempt.2 == "canceled").count();
        let entries = ledger.get(&job.id).map_or(&[][..], Vec::as_slice);
        let (credits, ending) = check(api, &walked, entries, &format!("GRAPHS_SEED={seed}")).await;
        charged += credits;
        endings[ending] += 1;
    }
    // The one job that found out about quality was charged too.
    let plan = expect(get(api, "/api/v1/plans/current").await, 200);
    let spent = charged + lab.prices[1][0][0];
    assert_eq!(
        (&plan["usedThisPeriod"], &plan["remainingCredits"]),
        (&json!(spent), &json!(1_000_000 - spent))
    );
    println!("{} jobs: ended {endings:?}, {made} attempts, {lost} of them lost a race", jobs.len());
    assert!(
        endings.iter().all(|count| *count > 0) && made > jobs.len() && lost > 0,
        "{endings:?} {made} {lost}"
    );
}
