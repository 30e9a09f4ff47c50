//! One contract for every hosted provider, run against a simulator of its vendor: a page, the target's 404 and 429, a
//! block page, a captcha, a dead target, a wrong key, a spent plan, too many at once, silence, and a vendor that is gone;
//! and what each of them costs, plain, rendered, better, and from a country.

use super::{direct_id, patch};
use crate::harness::vendors::{
    BRIGHTDATA, FIRECRAWL, OXYLABS, PAGE, SCRAPEDO, SCRAPEOPS, SCRAPERAPI, SCRAPFLY, SCRAPINGBEE, Simulator,
    Vendor, ZENROWS, ZYTE,
};
use crate::harness::{Appliance, Member, ended, eventually, expect, get, post, text};
use secrets::sha256;
use serde_json::{Value, json};
use std::time::Duration;

/// What a vendor's documents say, where they differ.
struct Contract {
    vendor: Vendor,
    settings: Value,
    /// Which credential holds the key that says who asks.
    key: &'static str,
    /// Charges of plain, rendered, premium, both.
    prices: [u64; 4],
    /// Whether it says what a page cost.
    reports: bool,
    /// The status that can be known of a target's 429 and 403, and what a billed one is said to have cost.
    busy: Known,
    walled: Known,
    /// Whether premium is needed for a country.
    country_is_premium: bool,
    /// What a dead target is said to have cost.
    dead_reported: Option<u64>,
}

/// What is known of a target that refused.
#[derive(Clone, Copy)]
struct Known {
    status: Option<u16>,
    reported: Option<u64>,
    rule: &'static str,
}

const fn known(status: u16, reported: Option<u64>, rule: &'static str) -> Known {
    Known { status: Some(status), reported, rule }
}

fn contract(vendor: Vendor, prices: [u64; 4]) -> Contract {
    Contract {
        vendor,
        settings: json!({}),
        key: "apiKey",
        prices,
        reports: true,
        busy: known(429, None, "http_429"),
        walled: known(403, None, "http_403"),
        country_is_premium: false,
        dead_reported: None,
    }
}

struct Lab {
    appliance: Appliance,
    member: Member,
    simulator: Simulator,
    contract: Contract,
    id: String,
}

impl Lab {
    async fn open(contract: Contract) -> Lab {
        let simulator = Simulator::open(contract.vendor).await;
        let allow = format!("[\"127.0.0.1/32:{}\"]", simulator.address.port());
        let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &allow)]).await;
        let member = appliance.member(contract.vendor.id).await;
        let direct = direct_id(&member).await;
        expect(patch(&member, &direct, &json!({ "isEnabled": false })).await, 200);
        let mut credentials = json!({ contract.key: "good-key" });
        if contract.vendor.id == "oxylabs" {
            credentials["username"] = json!("me");
        }
        let new = json!({
            "adapter": contract.vendor.id, "credentials": credentials, "settings": contract.settings,
            "baseUrl": simulator.url(),
        });
        let made = expect(post(&member.api, "/api/v1/providers", &new).await, 201);
        Lab { appliance, member, id: text(&made, "id").to_owned(), simulator, contract }
    }

    /// A job for the target of this name, ended; every job finds the provider in good standing.
    async fn job(&self, target: &str, options: Value) -> Value {
        // A change of the provider forgives it whatever went wrong before.
        expect(patch(&self.member, &self.id, &json!({ "isEnabled": true })).await, 200);
        let job = json!({ "url": format!("http://{target}.test/"), "options": options });
        let job = expect(post(&self.member.api, "/api/v1/jobs", &job).await, 201);
        let job = ended(&self.member.api, text(&job, "id")).await;
        assert_eq!(job["attempts"].as_array().unwrap().len(), 1, "{}: {job}", self.contract.vendor.id);
        assert_eq!(job["attempts"][0]["providerId"], self.id.as_str());
        job
    }

    async fn key(&self, key: &str) {
        let credentials = json!({ "credentials": { self.contract.key: key } });
        expect(patch(&self.member, &self.id, &credentials).await, 200);
    }

    /// Checks how a job's only attempt went, and what was charged.
    #[track_caller]
    fn check(&self, what: &str, job: &Value, outcome: &str, status: Option<u16>, charged: u64) {
        let attempt = &job["attempts"][0];
        let place = format!("{} {what}: {job}", self.contract.vendor.id);
        assert_eq!(attempt["outcome"], outcome, "{place}");
        assert_eq!(attempt["httpStatus"], json!(status), "{place}");
        assert_eq!(job["creditsCharged"], charged, "{place}");
        assert_eq!(job["status"], if outcome == "success" { "succeeded" } else { "failed" }, "{place}");
        assert_eq!(attempt["error"].is_null(), outcome == "success", "{place}");
        assert!(!job.to_string().contains("-key"), "a credential is shown: {place}");
    }

    #[track_caller]
    fn costs(&self, what: &str, job: &Value, reported: Option<u64>, table: u64) {
        let attempt = &job["attempts"][0];
        let (credits, source) = reported.map_or((table, "table"), |credits| (credits, "reported"));
        let place = format!("{} {what}: {job}", self.contract.vendor.id);
        assert_eq!(
            (&attempt["credits"], &attempt["costSource"]),
            (&json!(credits), &json!(source)),
            "{place}"
        );
    }
}

async fn run(contract: Contract) {
    let lab = Lab::open(contract).await;
    pages(&lab).await;
    refusals(&lab).await;
    accounts(&lab).await;
    silence(&lab).await;
    lab.simulator.assert_understood();
    gone(lab).await;
}

/// Pages and their prices; the target's own 404 is billed like one.
async fn pages(lab: &Lab) {
    let [plain, render, premium, both] = lab.contract.prices;
    let country = json!({ "country": "DE", "premium": lab.contract.country_is_premium });
    let country_price = if lab.contract.country_is_premium { premium } else { plain };
    for (what, options, price) in [
        ("page", json!({}), plain),
        ("rendered page", json!({ "render": true }), render),
        ("premium page", json!({ "premium": true }), premium),
        ("rendered premium page", json!({ "render": true, "premium": true }), both),
        ("page from a country", country, country_price),
    ] {
        let job = lab.job("page", options).await;
        lab.check(what, &job, "success", Some(200), price);
        lab.costs(what, &job, lab.contract.reports.then_some(price), price);
        let path = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
        let result = expect(get(&lab.member.api, &path).await, 200);
        assert_eq!(result["contentHash"], hash_of_page(), "{what}: not the page: {result}");
        assert_eq!(
            (&result["provider"], &result["httpStatus"]),
            (&json!(lab.contract.vendor.id), &json!(200))
        );
    }
    if lab.contract.vendor.id != "brightdata" {
        let headers = json!({ "headers": { "accept-language": "de" } });
        lab.check("page with headers", &lab.job("page", headers).await, "success", Some(200), plain);
    }
    let missing = lab.job("missing", json!({})).await;
    lab.check("404", &missing, "target_error", Some(404), plain);
    lab.costs("404", &missing, lab.contract.reports.then_some(plain), plain);
}

/// A target that refuses, whatever the vendor makes of it, is a block; it costs the organization nothing.
async fn refusals(lab: &Lab) {
    for (target, known) in [("busy", lab.contract.busy), ("walled", lab.contract.walled)] {
        let job = lab.job(target, json!({})).await;
        lab.check(target, &job, "blocked", known.status, 0);
        lab.costs(target, &job, known.reported, 0);
        assert_eq!(job["attempts"][0]["rule"], known.rule, "{job}");
    }
    let captcha = lab.job("captcha", json!({})).await;
    lab.check("captcha", &captcha, "blocked", Some(200), 0);
    lab.costs("captcha", &captcha, lab.contract.reports.then_some(lab.contract.prices[0]), 0);
    assert_eq!(captcha["attempts"][0]["rule"], "captcha_page", "{captcha}");
    let dead = lab.job("dead", json!({})).await;
    lab.check("dead target", &dead, "network_error", None, 0);
    lab.costs("dead target", &dead, lab.contract.dead_reported, 0);
}

/// What is wrong with the account is told apart, and leaves it alone for a while.
async fn accounts(lab: &Lab) {
    let provider = format!("/api/v1/providers/{}", lab.id);
    for (key, fault) in [("bad-key", "bad_key"), ("spent-key", "no_credits")] {
        lab.key(key).await;
        let job = lab.job("page", json!({})).await;
        lab.check(key, &job, "provider_error", None, 0);
        let row = expect(get(&lab.member.api, &provider).await, 200);
        assert_eq!(row["trouble"]["fault"], fault, "{row}");
        let asked = lab.simulator.asked();
        let url = json!({ "url": "http://page.test/" });
        let next = expect(post(&lab.member.api, "/api/v1/jobs", &url).await, 201);
        let next = ended(&lab.member.api, text(&next, "id")).await;
        assert_eq!((&next["status"], &next["attempts"]), (&json!("failed"), &json!([])), "{next}");
        assert!(text(&next, "error").contains("left alone for a while"), "{next}");
        assert_eq!(lab.simulator.asked(), asked, "a broken account is not asked again");
    }
    throttled(lab, &provider).await;
    lab.key("good-key").await;
    lab.check("forgiven", &lab.job("page", json!({})).await, "success", Some(200), lab.contract.prices[0]);
}

/// More at once than the plan allows: the job waits, for there is nobody else, and asks again.
async fn throttled(lab: &Lab, provider: &str) {
    lab.key("busy-key").await;
    let api = &lab.member.api;
    let job = expect(post(api, "/api/v1/jobs", &json!({ "url": "http://page.test/" })).await, 201);
    let path = format!("/api/v1/jobs/{}", text(&job, "id"));
    let waiting = eventually("it waits", Duration::from_secs(60), || async {
        let job = expect(get(api, &path).await, 200);
        (job["status"] == "queued" && job["attempts"] != json!([])).then_some(job)
    })
    .await;
    let place = format!("{} throttled: {waiting}", lab.contract.vendor.id);
    let attempt = &waiting["attempts"][0];
    assert_eq!(
        (&attempt["outcome"], &attempt["httpStatus"]),
        (&json!("provider_error"), &Value::Null),
        "{place}"
    );
    assert!(!attempt["error"].is_null() && !waiting.to_string().contains("-key"), "{place}");
    let row = expect(get(api, provider).await, 200);
    // Between two pauses there is no trouble to be seen.
    assert!(row["trouble"].is_null() || row["trouble"]["fault"] == "throttled", "{row}");
    lab.key("good-key").await;
    let job = ended(api, text(&job, "id")).await;
    let attempts = job["attempts"].as_array().unwrap();
    assert_eq!(
        (&job["status"], &job["creditsCharged"]),
        (&json!("succeeded"), &json!(lab.contract.prices[0])),
        "{job}"
    );
    assert!((2..=6).contains(&attempts.len()), "{place}");
}

async fn silence(lab: &Lab) {
    let job = lab.job("hang", json!({ "timeoutMs": 300 })).await;
    lab.check("hang", &job, "timeout", None, 0);
}

/// Nobody listens at the vendor's address any more.
async fn gone(lab: Lab) {
    let Lab { appliance, member, simulator, contract, id } = lab;
    drop(simulator);
    expect(patch(&member, &id, &json!({ "isEnabled": true })).await, 200);
    let path = format!("/api/v1/providers/{id}/test");
    let tried = expect(post(&member.api, &path, &json!({ "url": "http://page.test/" })).await, 200);
    let place = format!("{}: {tried}", contract.vendor.id);
    assert_eq!((&tried["outcome"], &tried["fault"]), (&json!("provider_error"), &json!("down")), "{place}");
    assert_eq!((&tried["credits"], &tried["httpStatus"]), (&json!(0), &Value::Null), "{place}");
    appliance.stop().await;
}

/// What a result without a schema says of its page: the SHA-256 of its bytes.
fn hash_of_page() -> String {
    sha256(PAGE.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scraperapi() {
    // "500 over a target's 429": sa-statuscode tells, and nothing was billed.
    run(contract(SCRAPERAPI, [1, 10, 10, 25])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scraperapis_strongest_tier() {
    let ultra =
        Contract { settings: json!({ "premiumTier": "ultra" }), ..contract(SCRAPERAPI, [1, 10, 30, 75]) };
    let lab = Lab::open(ultra).await;
    pages(&lab).await;
    lab.simulator.assert_understood();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapingbee() {
    // With the target's own status it bills what the target refused.
    let bee = contract(SCRAPINGBEE, [1, 5, 10, 25]);
    let (busy, walled) = (known(429, Some(1), "http_429"), known(403, Some(1), "http_403"));
    run(Contract { busy, walled, country_is_premium: true, dead_reported: Some(0), ..bee }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapfly() {
    let (busy, walled) = (known(429, Some(0), "http_429"), known(403, Some(0), "http_403"));
    // A name that does not resolve is billed.
    run(Contract { busy, walled, dead_reported: Some(1), ..contract(SCRAPFLY, [1, 6, 25, 30]) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zenrows() {
    let zen = contract(ZENROWS, [1, 5, 10, 25]);
    run(Contract { country_is_premium: true, ..zen }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapeops() {
    // Only 200 and 404 come through; that a target refused cannot be told from other failures.
    let ops = contract(SCRAPEOPS, [1, 10, 10, 25]);
    let lab = Lab::open(Contract { reports: false, ..ops }).await;
    pages(&lab).await;
    for target in ["busy", "walled", "dead"] {
        lab.check(target, &lab.job(target, json!({})).await, "network_error", None, 0);
    }
    let captcha = lab.job("captcha", json!({})).await;
    lab.check("a captcha that it missed", &captcha, "blocked", Some(200), 0);
    accounts(&lab).await;
    silence(&lab).await;
    lab.simulator.assert_understood();
    gone(lab).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapedo() {
    let (busy, walled) = (known(429, Some(0), "http_429"), known(403, Some(0), "http_403"));
    run(Contract { key: "token", busy, walled, ..contract(SCRAPEDO, [1, 5, 10, 25]) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brightdata() {
    let (busy, walled) =
        (known(429, None, "brightdata_rejected_429"), known(403, None, "brightdata_rejected_403"));
    let unlocker = contract(BRIGHTDATA, [1, 1, 1, 1]);
    run(Contract { settings: json!({ "zone": "unlocker1" }), reports: false, busy, walled, ..unlocker })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zyte() {
    let ban = Known { status: None, reported: None, rule: "zyte_banned" };
    run(Contract { reports: false, busy: ban, walled: ban, ..contract(ZYTE, [1, 8, 1, 8]) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oxylabs() {
    run(Contract { key: "password", reports: false, ..contract(OXYLABS, [1, 1, 1, 1]) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn firecrawl() {
    let busy = known(429, Some(1), "http_429");
    let walled = Known { status: None, reported: None, rule: "firecrawl_blocked" };
    run(Contract { busy, walled, ..contract(FIRECRAWL, [1, 1, 5, 5]) }).await;
}
