//! Schemas that the box finds out by itself, and attributes that are taught by examples: discoverSchema, getDiscovery,
//! learnFromExamples, proposeXpath.

mod fair;
mod learn;
mod limits;
mod lists;
mod model;
mod point;
mod real;
mod silent;

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Request, collect, ended, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use server::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uuid::Uuid;

pub const DISCOVER: &str = "/api/v1/extraction/discover";
pub const LEARN: &str = "/api/v1/extraction/learn";
/// What stands on a private page alone.
const SECRET: &str = "Alpenrose-Konditionen";

pub const GOODS: [(&str, &str, &str); 9] = [
    ("Block plane", "48.50", "InStock"),
    ("Fine saw", "61.20", "OutOfStock"),
    ("Bench vice", "189.90", "InStock"),
    ("Oak mallet", "24.00", "InStock"),
    ("Paring chisel", "33.75", "OutOfStock"),
    ("Marking gauge", "19.10", "InStock"),
    ("Spokeshave", "72.40", "OutOfStock"),
    ("Drawknife", "55.60", "InStock"),
    ("Dovetail jig", "140.30", "InStock"),
];

/// A page that says in JSON-LD what it shows.
pub fn product(number: usize, before: &str) -> String {
    let (name, price, stock) = GOODS[number % GOODS.len()];
    let shown = if stock == "InStock" { "In stock" } else { "Sold out" };
    format!(
        r#"<html lang=de><head><title>{name} | Shop</title><script type="application/ld+json">{{"@type":"Product",
        "name":"{name}","sku":"hidden-{number}","offers":{{"price":"{price}","priceCurrency":"EUR","availability":
        "https://schema.org/{stock}"}}}}</script></head><body><nav><a href=/>Shop</a></nav>{before}<h1>{name}</h1><dl><dt>Our
        price</dt><dd>{} €</dd></dl><p class=stock>{shown}</p><p class=old>999,00 €</p></body></html>"#,
        price.replace('.', ",")
    )
}

/// The number behind a front.
pub fn number(path: &str, front: &str) -> Option<usize> {
    path.strip_prefix(front)?.parse().ok()
}

async fn shop() -> Web {
    Web::asked(|request| {
        let path = request.uri().path();
        if let Some(number) = number(path, "/p/") {
            return Some(Answer::html(product(number, "")));
        }
        if let Some(number) = number(path, "/account/") {
            let private = format!("<p class=terms>{SECRET}</p>");
            return Some(Answer::html(product(number, &private)));
        }
        let number = number(path, "/plain/")?;
        Some(Answer::html(format!("<title>{number}</title><h1>Nothing said, {number}</h1>")))
    })
    .await
}

pub async fn over(api: &Client, started: &Value) -> Value {
    let path = format!("/api/v1/extraction/discoveries/{}", text(started, "id"));
    eventually("the discovery ends", Duration::from_secs(120), || async {
        let found = expect(get(api, &path).await, 200);
        (!matches!(text(&found, "status"), "pending" | "running")).then_some(found)
    })
    .await
}

pub async fn discovered(api: &Client, asked: &Value) -> Value {
    let started = expect(post(api, DISCOVER, asked).await, 202);
    assert_eq!(started["status"], "pending");
    over(api, &started).await
}

pub async fn collect_all(
    api: &Client,
    web: &Web,
    front: &str,
    numbers: std::ops::Range<usize>,
) -> Vec<Value> {
    let mut jobs = Vec::new();
    for number in numbers {
        let job = collect(api, &web.url(&format!("{front}{number}"))).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        jobs.push(job);
    }
    jobs
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| text(one, "name")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_teaches_its_own_schema() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, other) = (at.member("ada").await, at.member("bob").await);
    let api = &member.api;
    let asked = json!({ "domain": "127.0.0.1" });
    refused(&post(api, DISCOVER, &asked).await, 404, "Page not found", "collect one");
    collect_all(api, &web, "/p/", 0..8).await;
    // Pages of an organization are nobody else's, also where they would only teach.
    refused(&post(&other.api, DISCOVER, &asked).await, 404, "Page not found", "collect one");

    let found = discovered(api, &asked).await;
    assert_eq!((&found["status"], &found["pageType"]), (&json!("succeeded"), &json!("product")), "{found:#}");
    let expected = ["name", "price", "currency", "availability", "sku"];
    assert_eq!(names(&found["attributes"]), expected, "{found:#}");
    let price = &found["attributes"][1];
    assert_eq!(price["xpaths"][0], "//dt[normalize-space()='Our price']/following-sibling::dd[1]");
    assert_eq!(
        (&price["type"], &price["confidence"], &price["coverage"]),
        (&json!("number"), &json!(1.0), &json!(1.0))
    );
    // What the pages do not show stands in their JSON.
    let sku = &found["attributes"][4];
    assert_eq!((&sku["xpaths"], &sku["jsonPaths"][0]), (&json!([]), &json!("ld+json$.sku")));
    assert_eq!(names(&found["leftOut"]), [""; 0]);
    let uses =
        |what: &str| found["sample"].as_array().unwrap().iter().filter(|page| page["use"] == what).count();
    assert_eq!((uses("taught"), uses("held_back"), uses("left_out")), (5, 3, 0));

    let schema = expect(get(api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200);
    assert_eq!((&schema["id"], &schema["version"]), (&found["schema"]["id"], &json!(1)));
    assert_eq!((&schema["discoveredBy"], &schema["sampleCount"]), (&json!("reverse_engineered"), &json!(8)));
    assert_eq!((&schema["confidence"], &found["notSaved"]), (&json!(1.0), &Value::Null));
    assert_eq!(schema["lastValidatedAt"], schema["createdAt"]);
    assert!(text(&schema, "expiresAt") > text(&schema, "createdAt"));

    // It is everybody's: what the other one collects is read by it.
    let job = collect(&other.api, &web.url("/p/8")).await;
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
    let values = json!({
        "name": "Dovetail jig", "price": 140.3, "currency": "EUR", "availability": "In stock", "sku": "hidden-8",
    });
    assert_eq!(expect(get(&other.api, &result).await, 200)["values"], values);

    // The same pages say the same, and are no reason for another version.
    let again = discovered(api, &json!({ "domain": "127.0.0.1", "pageType": "product" })).await;
    assert_eq!((&again["notSaved"], &again["schema"]), (&json!("not_better"), &found["schema"]));
    assert_eq!(again["attributes"], found["attributes"]);
    let listed = expect(get(api, "/api/v1/extraction/schemas?domain=127.0.0.1").await, 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_fetched_as_somebody_teaches_nobody() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let api = &member.api;
    let session = json!({ "domain": "127.0.0.1", "name": "mine", "kind": "cookies", "values": "sid=1" });
    let session = expect(post(api, "/api/v1/site-sessions", &session).await, 201);
    let mut named = Vec::new();
    for number in 0..4 {
        let options = match number % 2 {
            0 => json!({ "siteSessionId": session["id"] }),
            _ => json!({ "headers": { "Authorization": "Bearer abc" } }),
        };
        let job = json!({ "url": web.url(&format!("/account/{number}")), "options": options });
        let job = expect(post(api, "/api/v1/jobs", &job).await, 201);
        let job = ended(api, text(&job, "id")).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        named.push(job["id"].clone());
    }
    for asked in [json!({ "domain": "127.0.0.1" }), json!({ "domain": "127.0.0.1", "jobIds": named })] {
        let found = discovered(api, &asked).await;
        assert_eq!((&found["status"], &found["schema"]), (&json!("failed"), &Value::Null), "{found:#}");
        assert!(text(&found, "error").contains("may teach"), "{found:#}");
        let reasons: Vec<&str> =
            found["sample"].as_array().unwrap().iter().map(|page| text(page, "reason")).collect();
        assert_eq!(reasons.iter().filter(|reason| **reason == "signed_in").count(), 2, "{reasons:?}");
        assert_eq!(reasons.iter().filter(|reason| **reason == "own_headers").count(), 2, "{reasons:?}");
    }
    // Beside public pages they are passed over, and nothing of them stands in what is shared.
    collect_all(api, &web, "/p/", 0..3).await;
    let found = discovered(api, &json!({ "domain": "127.0.0.1" })).await;
    assert_eq!(
        (&found["status"], &found["schema"]["version"]),
        (&json!("succeeded"), &json!(1)),
        "{found:#}"
    );
    let schema = get(api, "/api/v1/extraction/schemas/127.0.0.1/product").await;
    assert!(!schema.text().contains(SECRET) && !schema.text().contains("terms"), "{}", schema.text());
    at.stop().await;
}

/// A vendor whose address an organization has replaced says of any site what the organization likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_teaches_about_sites_of_others() {
    let web = Web::open_hosts(|_, target| {
        let number: String =
            target.split("%2Fp%2F").nth(1)?.chars().take_while(char::is_ascii_digit).collect();
        Some(Answer::html(product(number.parse().ok()?, "<p>forged</p>")))
    })
    .await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("eve").await;
    let api = &member.api;
    let direct = expect(get(api, "/api/v1/providers").await, 200)["items"][0].clone();
    let vendor =
        json!({ "adapter": "scraperapi", "credentials": { "apiKey": "k" }, "baseUrl": web.url("/vendor") });
    let vendor = expect(post(api, "/api/v1/providers", &vendor).await, 201);
    let direct = format!("/api/v1/providers/{}", text(&direct, "id"));
    assert_eq!(api.delete(&direct).await.unwrap().status, 204);
    for number in 0..3 {
        let job = collect(api, &format!("http://bank.example.com/p/{number}")).await;
        assert_eq!(job["status"], "succeeded", "{job}");
    }
    let asked = json!({ "domain": "example.com" });
    for _ in 0..2 {
        let found = discovered(api, &asked).await;
        assert_eq!((&found["status"], &found["schema"]), (&json!("failed"), &Value::Null), "{found:#}");
        assert!(
            found["sample"].as_array().unwrap().iter().all(|page| page["reason"] == "own_way"),
            "{found:#}"
        );
        // To put the address back does not make what came before honest.
        let path = format!("/api/v1/providers/{}", text(&vendor, "id"));
        expect(api.send(http::Method::PATCH, &path, Some(&json!({ "baseUrl": "" }))).await.unwrap(), 200);
    }
    assert_eq!(get(api, "/api/v1/extraction/schemas/example.com/product").await.status, 404);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_the_operator_imported_stays() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let api = &member.api;
    collect_all(api, &web, "/p/", 0..7).await;
    let attribute = |name: &str, xpath: &str| json!({ "name": name, "xpaths": [xpath], "type": "text" });
    let file = json!({ "schemas": [{ "domain": "127.0.0.1", "pageType": "product",
        "attributes": [attribute("name", "//h9"), attribute("nav", "//nav")] }] });
    at.operator(Request::SchemaImport { json: file.to_string(), domain: None }).await;
    let found = discovered(api, &json!({ "domain": "127.0.0.1" })).await;
    assert_eq!((&found["status"], &found["notSaved"]), (&json!("succeeded"), &json!("manual")), "{found:#}");
    assert_eq!(found["schema"]["version"], 1);
    let schema = expect(get(api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200);
    assert_eq!(schema["discoveredBy"], "manual", "an operator's word stays");
    at.stop().await;
}

/// A site that has changed: what was found out of its old pages is wrong on the new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_replaced_by_a_better_one_alone() {
    let is_new = Arc::new(AtomicBool::new(false));
    let look = Arc::clone(&is_new);
    let web = Web::open(move |path| {
        let page = product(number(path, "/p/")?, "");
        Some(Answer::html(match look.load(Ordering::SeqCst) {
            true => page
                .replace("h1>", "h2>")
                .replace("<h2>", "<h1>Our shop</h1><h2>")
                .replace("Our\n        price", "Now"),
            false => page,
        }))
    })
    .await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let api = &member.api;
    let asked = json!({ "domain": "127.0.0.1" });
    collect_all(api, &web, "/p/", 0..6).await;
    assert_eq!(discovered(api, &asked).await["schema"]["version"], 1);
    is_new.store(true, Ordering::SeqCst);
    let new = collect_all(api, &web, "/p/", 0..6).await;
    let few = json!({ "domain": "127.0.0.1", "urls": [web.url("/p/0"), web.url("/p/1")], "sampleSize": 2 });
    assert_eq!(
        discovered(api, &few).await["schema"]["version"],
        2,
        "the newest pages check what two have taught"
    );
    let again = discovered(api, &asked).await;
    assert_eq!(
        (&again["notSaved"], &again["schema"]["version"]),
        (&json!("not_better"), &json!(2)),
        "{again:#}"
    );
    let schema = expect(get(api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200);
    assert_eq!(names(&schema["attributes"]), ["name", "price", "currency", "availability", "sku"]);
    assert!(!schema["attributes"][0]["xpaths"].to_string().contains("//h1\""), "{schema:#}");
    let job = collect(api, text(&new[0], "url")).await;
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
    assert_eq!(expect(get(api, &result).await, 200)["values"]["name"], "Block plane");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_discovered_says_why() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let jobs = collect_all(api, &web, "/plain/", 0..2).await;
    let found = discovered(api, &json!({ "domain": "127.0.0.1" })).await;
    assert_eq!(found["status"], "failed");
    assert!(text(&found, "error").contains("do not say what they are"), "{found:#}");
    assert!(found["sample"].as_array().unwrap().iter().all(|page| page["reason"] == "no_answers"));
    let list = discovered(api, &json!({ "domain": "127.0.0.1", "pageType": "serp" })).await;
    assert!(text(&list, "error").contains("at least two pages of the type serp"), "{list:#}");
    assert!(list["sample"].as_array().unwrap().iter().all(|page| page["reason"] == "no_answers"));

    let with = |name: &str, value: Value| {
        let mut body = json!({ "domain": "127.0.0.1" });
        body[name] = value;
        body
    };
    let many: Vec<_> = (0..21).map(|_| Uuid::now_v7()).collect();
    for (body, part) in [
        (json!({ "domain": "a b" }), "domain: "),
        (json!({}), "domain"),
        (with("pageType", json!("recipe")), "pageType"),
        (with("sampleSize", json!(0)), "sampleSize: "),
        (with("sampleSize", json!(21)), "sampleSize: "),
        (with("jobIds", json!([])), "jobIds: "),
        (with("jobIds", json!(many)), "jobIds: "),
        (with("jobIds", json!(["x"])), "jobIds"),
        (with("urls", json!(["ftp://x/"])), "urls[0]: "),
        (
            json!({ "domain": "127.0.0.1", "urls": [web.url("/plain/0")], "jobIds": [jobs[0]["id"]] }),
            "urls: ",
        ),
        (
            json!({ "domain": "other.example", "jobIds": [jobs[0]["id"]] }),
            "jobIds[0]: its page is of 127.0.0.1",
        ),
    ] {
        refused(&post(api, DISCOVER, &body).await, 400, "Validation failed", part);
    }
    refused(
        &post(api, DISCOVER, &with("urls", json!([web.url("/none")]))).await,
        404,
        "Page not found",
        "urls[0]",
    );

    // A page, a discovery and a domain of somebody else are ones that there are not.
    let foreign = post(&stranger.api, DISCOVER, &with("jobIds", json!([jobs[0]["id"]]))).await;
    let missing = post(&stranger.api, DISCOVER, &with("jobIds", json!([Uuid::now_v7()]))).await;
    assert_eq!((foreign.status.as_u16(), foreign.text()), (404, missing.text()));
    let path = |id: &str| format!("/api/v1/extraction/discoveries/{id}");
    let foreign = get(&stranger.api, &path(text(&found, "id"))).await;
    let missing = get(&stranger.api, &path(&Uuid::now_v7().to_string())).await;
    assert_eq!((foreign.status.as_u16(), foreign.text()), (404, missing.text()));
    at.stop().await;
}
