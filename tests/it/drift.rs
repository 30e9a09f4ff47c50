//! Drift and repair, through HTTP: listDrift, and the event `schema.drifted`.

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Request, eventually, expect, get, member, post, refused, text};
use gleaner::admin;
use serde_json::{Value, json};
use server::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tempfile::TempDir;

mod redesigns;

const DRIFT: &str = "/api/v1/extraction/drift";
const WAIT: Duration = Duration::from_secs(60);
/// What the shop shows.
const OLD: u8 = 0;
const NEW: u8 = 1;
const PRICELESS: u8 = 2;
const NOTICE: u8 = 3;
const GONE: u8 = 4;
const FORBIDDEN: u8 = 5;

const GOODS: [(&str, &str, &str); 8] = [
    ("Smoothing plane", "189.50", "Veritas Tools"),
    ("Dovetail saw", "61.20", "Lynx Garlick"),
    ("Bench vice", "212.90", "Record Power"),
    ("Marking gauge", "44.10", "Juuma Werkzeug"),
    ("Paring chisel", "38.75", "Two Cherries"),
    ("Spokeshave", "77.70", "Clifton Works"),
    ("Card scraper", "12.30", "Bahco Sweden"),
    ("Holdfast", "55.60", "Gramercy Tools"),
];

/// A page of the shop: `/goods/<n>`.
fn page(path: &str, mode: u8) -> Option<Answer> {
    let number: usize = path.strip_prefix("/goods/")?.parse().ok()?;
    let (name, price, maker) = GOODS[number % GOODS.len()];
    Some(match mode {
        OLD => Answer::html(format!(
            "<h1>{name}</h1><span class=price>$ {price}</span><p class=maker>by <a href=/m>{maker}</a></p>"
        )),
        PRICELESS => {
            Answer::html(format!("<h1>{name}</h1><p class=maker>by <a href=/m>{maker}</a></p><p>Ask us.</p>"))
        }
        NOTICE => Answer::html("<h1>One moment</h1><p>We look at your visit before you go on.</p>"),
        GONE => Answer::status(404),
        FORBIDDEN => Answer::status(403),
        _ => Answer::html(format!(
            "<main><h2 class=product-title>{name}</h2><dl class=facts><dt>Maker</dt><dd>{maker}</dd>\
             <dt>Price</dt><dd><b class=amount>$ {price}</b></dd></dl></main><aside><b>$ 9.99</b></aside>"
        )),
    })
}

/// A shop that shows what `mode` says; to who asks for it by a header, its new template.
async fn shop(mode: &Arc<AtomicU8>) -> Web {
    let mode = Arc::clone(mode);
    Web::asked(move |request| {
        let forged = request.headers().contains_key("x-forged");
        page(request.uri().path(), if forged { NEW } else { mode.load(Ordering::Relaxed) })
    })
    .await
}

fn schema() -> String {
    let attribute =
        |name: &str, xpath: &str, kind: &str| json!({ "name": name, "xpaths": [xpath], "type": kind });
    json!({ "schemas": [{ "pageType": "product", "attributes": [
        attribute("name", "//h1", "text"),
        attribute("price", "//span[@class='price']", "number"),
        attribute("maker", "//p[@class='maker']/a", "text"),
    ]}]})
    .to_string()
}

async fn appliance(web: &Web) -> Appliance {
    let allow = web.allow();
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8"),
        ("DISPATCH__ROBOTS", "false"),
    ];
    let at = Appliance::start_with(&settings).await;
    at.operator(Request::SchemaImport { json: schema(), domain: Some("127.0.0.1".to_owned()) }).await;
    at
}

/// Fetches the goods of these numbers, each as a job with these fields more, and waits until all have ended.
async fn fetch(api: &Client, web: &Web, numbers: std::ops::Range<usize>, more: &Value) {
    let mut ids = Vec::new();
    for number in numbers {
        let mut job = json!({ "url": web.url(&format!("/goods/{}", number % GOODS.len())) });
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ids.push(text(&expect(post(api, "/api/v1/jobs", &job).await, 201), "id").to_owned());
    }
    for id in ids {
        crate::harness::ended(api, &id).await;
    }
}

/// What is told of the shop's products; null while nothing is known.
async fn drift(api: &Client) -> Value {
    let listed = expect(get(api, &format!("{DRIFT}?domain=127.0.0.1&pageType=product")).await, 200);
    listed["items"][0].clone()
}

fn attribute<'a>(drift: &'a Value, name: &str) -> &'a Value {
    let all = drift["attributes"].as_array().into_iter().flatten();
    all.into_iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

/// Waits until so many results of an attribute were counted.
async fn counted(api: &Client, name: &str, count: u64) {
    eventually("results are counted", WAIT, || async {
        let drift = drift(api).await;
        let own = attribute(&drift, name);
        let pages = own["recent"]["pages"].as_u64()? + own["baseline"]["pages"].as_u64()?;
        (pages >= count).then_some(())
    })
    .await;
}

async fn in_state(api: &Client, name: &str, state: &str) -> Value {
    eventually(&format!("{name} is {state}"), WAIT, || async {
        let drift = drift(api).await;
        (attribute(&drift, name)["state"] == state).then_some(drift)
    })
    .await
}

async fn told(api: &Client) -> Vec<Value> {
    let events = expect(get(api, "/api/v1/events?kind=schema.drifted").await, 200);
    events["items"].as_array().unwrap().clone()
}

async fn version(api: &Client) -> Value {
    expect(get(api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200)["version"].clone()
}

/// Results that have the price, of all.
async fn priced(api: &Client) -> (usize, usize) {
    let found = expect(get(api, "/api/v1/extraction/results?limit=200").await, 200);
    let items = found["items"].as_array().unwrap();
    (items.iter().filter(|item| item["values"]["price"].is_number()).count(), items.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_changes_is_told_of_once_and_mended_with_its_history() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let web = shop(&mode).await;
    let at = appliance(&web).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let own =
        json!({ "attributes": [{ "name": "label", "xpaths": ["//p[@class='maker']/a"], "type": "text" }] });
    let path = "/api/v1/extraction/attributes/127.0.0.1";
    expect(ada.api.put(path, &own).await.unwrap(), 200);
    fetch(&ada.api, &web, 0..16, &json!({})).await;
    counted(&ada.api, "price", 16).await;
    let well = drift(&ada.api).await;
    assert_eq!(
        (&well["state"], &well["since"], &well["lastRepair"]),
        (&json!("ok"), &Value::Null, &Value::Null)
    );
    assert_eq!(attribute(&well, "price")["recent"], json!({ "pages": 10, "found": 1.0 }));

    mode.store(NEW, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &json!({})).await;
    let mended = in_state(&ada.api, "price", "repaired").await;
    for name in ["name", "price", "maker", "label"] {
        let last = mended["lastRepair"]["attributes"].as_array().unwrap();
        let result = last.iter().find(|one| one["name"] == name);
        assert_eq!(result.unwrap()["result"], "repaired", "{name}: {mended}");
    }
    let last = &mended["lastRepair"];
    assert_eq!((&last["fromVersion"], &last["toVersion"]), (&json!(1), &json!(2)), "{mended}");
    assert_eq!(
        (&last["attributesFromVersion"], &last["attributesToVersion"]),
        (&json!(1), &json!(2)),
        "{mended}"
    );
    assert_eq!(version(&ada.api).await, 2);

    // What was read in between is read again, and SQL sees it.
    eventually("the results are read again", WAIT, || async {
        (priced(&ada.api).await == (26, 26)).then_some(())
    })
    .await;
    let sql = "SELECT count(*) AS n, count(price) AS priced, count(label) AS labelled FROM products";
    eventually("SQL sees the prices", WAIT, || async {
        let answer = post(&ada.api, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
        let row = answer.json["results"]["rows"][0].clone();
        (row == json!({ "n": 26, "priced": 26, "labelled": 26 })).then_some(())
    })
    .await;
    // Both templates are read from now on, and nothing is told again.
    fetch(&ada.api, &web, 0..10, &json!({})).await;
    in_state(&ada.api, "price", "ok").await;
    mode.store(OLD, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &json!({})).await;
    eventually("every result has a price", WAIT, || async {
        (priced(&ada.api).await == (46, 46)).then_some(())
    })
    .await;
    in_state(&ada.api, "price", "ok").await;
    let events = told(&ada.api).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["data"]["fromVersion"], &events[0]["data"]["toVersion"]), (&json!(1), &json!(2)));
    let audit = expect(get(&ada.browser, "/api/v1/audit-logs?action=schema.drifted").await, 200);
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");

    // Another organization hears nothing of it, and reads by what was mended.
    assert_eq!((told(&eve.api).await, drift(&eve.api).await), (Vec::new(), Value::Null));
    mode.store(NEW, Ordering::Relaxed);
    fetch(&eve.api, &web, 0..3, &json!({})).await;
    counted(&eve.api, "price", 3).await;
    assert_eq!(attribute(&drift(&eve.api).await, "label"), &Value::Null);
    eventually("her results have prices", WAIT, || async {
        (priced(&eve.api).await == (3, 3)).then_some(())
    })
    .await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outages_blocks_and_values_that_are_gone_are_no_drift() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let web = shop(&mode).await;
    let at = appliance(&web).await;
    let ada = at.member("ada").await;
    let typed = json!({ "pageType": "product" });
    fetch(&ada.api, &web, 0..16, &typed).await;
    counted(&ada.api, "price", 16).await;
    mode.store(GONE, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &typed).await;
    let out = in_state(&ada.api, "price", "outage").await;
    assert_eq!(
        (&out["state"], &attribute(&out, "price")["recent"]["found"]),
        (&json!("outage"), &json!(1.0))
    );
    mode.store(FORBIDDEN, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &typed).await;
    in_state(&ada.api, "price", "blocked").await;

    // A notice in the place of every page.
    mode.store(NOTICE, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &typed).await;
    let blocked = eventually("the notice is seen through", WAIT, || async {
        let drift = drift(&ada.api).await;
        drift["lastRepair"].is_object().then_some(drift)
    })
    .await;
    assert_eq!(attribute(&blocked, "price")["state"], "blocked", "{blocked}");
    mode.store(OLD, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &typed).await;
    in_state(&ada.api, "price", "ok").await;

    // Everything but the price is there.
    mode.store(PRICELESS, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &typed).await;
    let absent = in_state(&ada.api, "price", "absent").await;
    assert_eq!(attribute(&absent, "name")["state"], "ok", "{absent}");
    assert_eq!((told(&ada.api).await, version(&ada.api).await), (Vec::new(), json!(1)));
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_one_organization_could_see_changes_nobodys_schema() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let web = shop(&mode).await;
    let at = appliance(&web).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    fetch(&ada.api, &web, 0..16, &json!({})).await;
    fetch(&eve.api, &web, 0..16, &json!({})).await;
    counted(&eve.api, "price", 16).await;
    // To Eve's own header the site shows something else.
    let forged = json!({ "pageType": "product", "options": { "headers": { "x-forged": "yes" } } });
    fetch(&eve.api, &web, 0..10, &forged).await;
    let refusal = in_state(&eve.api, "price", "broken").await;
    let last = refusal["lastRepair"]["attributes"].as_array().unwrap();
    assert!(last.iter().all(|one| one["reason"] == "too_few_pages"), "{refusal}");
    assert_eq!((version(&ada.api).await, told(&eve.api).await.len()), (json!(1), 1));
    assert_eq!((told(&ada.api).await, drift(&ada.api).await["state"].clone()), (Vec::new(), json!("ok")));
    // What could not be mended is found out anew, from pages that anybody could have fetched, by who has seen it.
    assert_eq!((discoveries(&eve.browser).await, discoveries(&ada.browser).await), (1, 0));

    // The list takes what other lists take.
    expect(
        post(&eve.api, "/api/v1/jobs", &json!({ "url": web.url("/goods/1"), "pageType": "article" })).await,
        201,
    );
    for (query, part) in [("pageType=soup", "pageType"), ("limit=0", "limit"), ("cursor=x", "cursor")] {
        refused(&get(&eve.api, &format!("{DRIFT}?{query}")).await, 400, "Validation failed", part);
    }
    for query in ["domain=nobody.example", "domain=%00", "pageType=serp"] {
        assert_eq!(
            expect(get(&eve.api, &format!("{DRIFT}?{query}")).await, 200)["items"],
            json!([]),
            "{query}"
        );
    }
    let one = expect(get(&eve.api, &format!("{DRIFT}?limit=1")).await, 200);
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    at.stop().await;
}

/// How many discoveries an organization has begun.
async fn discoveries(browser: &Client) -> usize {
    let log = expect(get(browser, "/api/v1/audit-logs?action=discovery.started").await, 200);
    log["items"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_badly_for_twenty_pages_is_discovered_anew() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let web = shop(&mode).await;
    let at = appliance(&web).await;
    let never = |number: u8| json!({ "name": format!("n{number}"), "xpaths": ["//never"], "type": "text" });
    let mut attributes: Vec<Value> = (0..7).map(never).collect();
    attributes.push(json!({ "name": "name", "xpaths": ["//h1"], "type": "text" }));
    let json = json!({ "schemas": [{ "pageType": "product", "attributes": attributes }] }).to_string();
    at.operator(Request::SchemaImport { json, domain: Some("127.0.0.1".to_owned()) }).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let product = json!({ "pageType": "product" });
    fetch(&ada.api, &web, 0..19, &product).await;
    fetch(&eve.api, &web, 0..19, &product).await;
    counted(&ada.api, "name", 19).await;
    counted(&eve.api, "name", 19).await;
    assert_eq!((discoveries(&ada.browser).await, discoveries(&eve.browser).await), (0, 0));
    fetch(&ada.api, &web, 0..6, &product).await;
    counted(&ada.api, "name", 20).await;
    eventually("a discovery begins", WAIT, || async { (discoveries(&ada.browser).await == 1).then_some(()) })
        .await;
    // It takes twenty more, and another organization's pages count for nobody.
    assert_eq!((discoveries(&ada.browser).await, discoveries(&eve.browser).await), (1, 0));
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_that_is_killed_comes_to_one_end() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let web = shop(&mode).await;
    let folder = TempDir::new().unwrap();
    let allow = web.allow();
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8"),
        ("DISPATCH__ROBOTS", "false"),
    ];
    let mut process = Process::start(folder.path(), &settings);
    let owner = member(&process.client(), &process.socket(), "killed").await;
    let import = Request::SchemaImport { json: schema(), domain: Some("127.0.0.1".to_owned()) };
    admin::call(&process.socket(), &import).await.expect("the schema is imported");
    let mut api = process.client().bearer(&owner.key);
    fetch(&api, &web, 0..16, &json!({})).await;
    counted(&api, "price", 16).await;
    mode.store(NEW, Ordering::Relaxed);
    fetch(&api, &web, 0..10, &json!({})).await;
    for pause_ms in [300, 900, 2_100, 2_600] {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        process.kill();
        process = Process::start(folder.path(), &settings);
        api = process.client().bearer(&owner.key);
    }
    eventually("the results are read again", WAIT, || async {
        (priced(&api).await == (26, 26)).then_some(())
    })
    .await;
    let mended = drift(&api).await;
    assert_eq!(
        (&mended["lastRepair"]["fromVersion"], &mended["lastRepair"]["toVersion"]),
        (&json!(1), &json!(2))
    );
    assert_eq!((version(&api).await, told(&api).await.len()), (json!(2), 1), "{mended}");
    process.terminate();
}

async fn rows(api: &Client, sql: &str) -> Value {
    let asked = json!({ "sql": sql, "waitMs": 10_000 });
    expect(post(api, "/api/v1/bi/queries", &asked).await, 200)["results"]["rows"].clone()
}

/// Waits until a statement gives these rows.
async fn gives(api: &Client, sql: &str, expected: &Value) {
    eventually(&format!("{sql} gives {expected}"), WAIT, || async {
        (rows(api, sql).await == *expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_tells_of_drift_what_the_list_tells_and_only_ones_own() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let web = shop(&mode).await;
    let mut at = appliance(&web).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    fetch(&ada.api, &web, 0..16, &json!({})).await;
    counted(&ada.api, "price", 16).await;
    let states = "SELECT domain, page_type, attribute, state, recent_pages, recent_found, schema_version, result FROM drift \
                  WHERE attribute IS NOT NULL ORDER BY attribute";
    let row = |name: &str, state: &str, version: u32, result: Value| {
        json!({ "domain": "127.0.0.1", "page_type": "product", "attribute": name, "state": state, "recent_pages": 10,
                "recent_found": 1.0, "schema_version": version, "result": result })
    };
    let well: Vec<Value> =
        ["maker", "name", "price"].iter().map(|name| row(name, "ok", 1, Value::Null)).collect();
    gives(&ada.api, states, &json!(well)).await;
    assert_eq!(rows(&eve.api, "SELECT count(*) AS n FROM drift").await, json!([{ "n": 0 }]));
    // Beside the schema that everybody has stands what one's own results say of it.
    let schemas = "SELECT version, is_current, drift, drifting_count FROM public.Schemas ORDER BY version";
    let schema = |version: u32, is_current: bool, drift: Value, count: Value| {
        json!({ "version": version, "is_current": is_current, "drift": drift,
                "drifting_count": count })
    };
    gives(&ada.api, schemas, &json!([schema(1, true, json!("ok"), json!(0))])).await;
    gives(&eve.api, schemas, &json!([schema(1, true, Value::Null, Value::Null)])).await;

    // Nothing comes: the domain has a row of its own, and loses it when pages come again.
    let domain = "SELECT domain, page_type, attribute, state FROM drift WHERE attribute IS NULL";
    mode.store(GONE, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &json!({ "pageType": "product" })).await;
    let outage = json!([{ "domain": "127.0.0.1", "page_type": null, "attribute": null, "state": "outage" }]);
    gives(&ada.api, domain, &outage).await;
    // Nothing that was well can be said to be, here as in the list.
    assert_eq!(drift(&ada.api).await["state"], "outage");
    gives(&ada.api, schemas, &json!([schema(1, true, json!("outage"), json!(0))])).await;
    // Another organization's own troubles are its own.
    mode.store(FORBIDDEN, Ordering::Relaxed);
    fetch(&eve.api, &web, 0..10, &json!({ "pageType": "product" })).await;
    gives(
        &eve.api,
        domain,
        &json!([{ "domain": "127.0.0.1", "page_type": null, "attribute": null, "state": "blocked" }]),
    )
    .await;
    assert_eq!(rows(&ada.api, domain).await, outage);

    mode.store(NEW, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &json!({})).await;
    gives(&ada.api, domain, &json!([])).await;
    in_state(&ada.api, "price", "repaired").await;
    let mended = "SELECT attribute, state, result, reason, from_version, to_version, looked_at IS NOT NULL AS looked, \
                  since IS NOT NULL AS since, baseline_found FROM drift WHERE attribute = 'price'";
    let price = json!([{ "attribute": "price", "state": "repaired", "result": "repaired", "reason": null, "from_version": 1,
                         "to_version": 2, "looked": true, "since": true, "baseline_found": 1.0 }]);
    gives(&ada.api, mended, &price).await;
    // What reads the pages now is the second version.
    let both = [schema(1, false, Value::Null, Value::Null), schema(2, true, json!("repaired"), json!(0))];
    gives(&ada.api, schemas, &json!(both)).await;
    let worst = "SELECT s.version, attributes ->> 0 AS first FROM schemas AS s JOIN drift AS d USING (domain, page_type) \
                 WHERE s.drift = d.state AND d.attribute = 'price'";
    assert_eq!(rows(&ada.api, worst).await, json!([{ "version": 2, "first": "name" }]));
    assert_eq!(
        rows(&eve.api, "SELECT count(*) AS n, count(drift) AS known FROM schemas").await,
        json!([{ "n": 2, "known": 0 }])
    );
    let listed = drift(&ada.api).await;
    let told =
        rows(&ada.api, "SELECT since, looked_at, backfilled FROM drift WHERE attribute = 'price'").await;
    assert_eq!(
        (&told[0]["since"], &told[0]["looked_at"]),
        (&attribute(&listed, "price")["since"], &listed["lastRepair"]["at"])
    );
    // It outlives a restart, and is described.
    at.restart().await;
    let api = at.client().bearer(&ada.key);
    gives(&api, mended, &price).await;
    let table = expect(get(&api, "/api/v1/bi/tables/drift").await, 200);
    assert_eq!((&table["name"], &table["rowCount"]), (&json!("drift"), &json!(3)));
    at.stop().await;
}

/// More domains than one page of the list has, with names as long as names may be, and what is asked with texts that are longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_holds_at_its_limits() {
    const DOMAINS: usize = 203;
    let web = Web::open_hosts(|_, target| page(&format!("/goods/{}", target.len() % 8), OLD)).await;
    let long = "x".repeat(59);
    let domains: Vec<String> = (0..DOMAINS).map(|n| format!("{long}{n:04}.test")).collect();
    let hosts: Vec<String> = domains.iter().map(|domain| format!("\"{domain}\" = [\"127.0.0.1\"]")).collect();
    let (hosts, allow) = (format!("{{ {} }}", hosts.join(", ")), web.allow());
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("NETWORK__HOSTS", hosts.as_str()),
        ("DISPATCH__ROBOTS", "false"),
    ];
    let at = Appliance::start_with(&settings).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    let of_domain = |domain: &String| {
        let mut own = schema["schemas"][0].clone();
        own["domain"] = json!(domain);
        own
    };
    let file = json!({ "schemas": domains.iter().map(of_domain).collect::<Vec<_>>() });
    at.operator(Request::SchemaImport { json: file.to_string(), domain: None }).await;
    let port = url::Url::parse(&web.url("/")).unwrap().port().unwrap();
    let mut ids = Vec::new();
    for domain in &domains {
        let job = json!({ "url": format!("http://{domain}:{port}/goods/1"), "pageType": "product" });
        ids.push(text(&expect(post(&ada.api, "/api/v1/jobs", &job).await, 201), "id").to_owned());
    }
    for id in ids {
        crate::harness::ended(&ada.api, &id).await;
    }
    gives(&ada.api, "SELECT count(*) AS n FROM drift", &json!([{ "n": 3 * DOMAINS }])).await;
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let listed = expect(get(&ada.api, &format!("{DRIFT}?limit=200{cursor}")).await, 200);
        names.extend(listed["items"].as_array().unwrap().iter().map(|row| text(row, "domain").to_owned()));
        match listed["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(names, domains);
    for asked in [domains[7].clone(), domains[7].to_uppercase(), format!("www.{}", domains[7])] {
        let listed = expect(get(&ada.api, &format!("{DRIFT}?domain={asked}")).await, 200);
        assert_eq!(
            (listed["items"].as_array().unwrap().len(), &listed["items"][0]["domain"]),
            (1, &json!(domains[7]))
        );
    }
    for asked in
        ["x".repeat(64) + ".test", "y.".repeat(126) + "test", "z".repeat(8_000), "%C3%A4".repeat(1_000)]
    {
        let listed = expect(get(&ada.api, &format!("{DRIFT}?domain={asked}")).await, 200);
        assert_eq!(listed["items"], json!([]), "{}", &asked[..20]);
    }
    // A page of the list has 200 at most, whatever is asked for.
    let most = expect(get(&ada.api, &format!("{DRIFT}?limit=100000")).await, 200);
    assert_eq!(most["items"].as_array().unwrap().len(), 200);
    refused(
        &get(&ada.api, &format!("{DRIFT}?cursor={}", "A".repeat(4_000))).await,
        400,
        "Validation failed",
        "cursor",
    );
    refused(
        &get(&ada.api, &format!("{DRIFT}?pageType={}", "a".repeat(4_000))).await,
        400,
        "Validation failed",
        "pageType",
    );
    // None of it is another organization's.
    assert_eq!(expect(get(&eve.api, DRIFT).await, 200)["items"], json!([]));
    assert_eq!(rows(&eve.api, "SELECT count(*) AS n FROM drift").await, json!([{ "n": 0 }]));
    at.stop().await;
}
