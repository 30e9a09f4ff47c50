//! Monitors through HTTP: createMonitor, listMonitors, getMonitor, updateMonitor, deleteMonitor; and the events
//! monitor.firing, monitor.ok, monitor.no_data and monitor.error.

mod edges;
mod kills;
mod limits;

use crate::audit::patch;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Request, eventually, expect, get, looks_anew, post, refused, text};
use crate::outputs::{OUTPUTS, Receiver, Said};
use serde_json::{Value, json};
use server::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MONITORS: &str = "/api/v1/monitors";
const WAIT: Duration = Duration::from_secs(90);
const HOUR: Duration = Duration::from_secs(3_600);

async fn make(api: &Client, new: &Value) -> String {
    text(&expect(post(api, MONITORS, new).await, 201), "id").to_owned()
}

async fn read(api: &Client, id: &str) -> Value {
    expect(get(api, &format!("{MONITORS}/{id}")).await, 200)
}

/// The monitor once `holds` says so of it.
async fn once(api: &Client, id: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually(what, WAIT, || async {
        let monitor = read(api, id).await;
        holds(&monitor).then_some(monitor)
    })
    .await
}

async fn in_state(api: &Client, id: &str, state: &str) -> Value {
    once(api, id, &format!("it is {state}"), |monitor| monitor["state"] == state).await
}

/// The monitor after a run that began behind `before`.
async fn ran_after(api: &Client, id: &str, before: &Value) -> Value {
    once(api, id, "it runs again", |monitor| {
        monitor["lastRunAt"].is_string() && monitor["lastRunAt"] != before["lastRunAt"]
    })
    .await
}

/// The kinds of what was told of a monitor, oldest first.
async fn told(api: &Client, id: &str) -> Vec<String> {
    let events =
        expect(get(api, &format!("/api/v1/events?kind=monitor.*&subject={id}&limit=200")).await, 200);
    let kinds = events["items"].as_array().unwrap().iter().map(|event| text(event, "kind").to_owned());
    let mut kinds: Vec<_> = kinds.collect();
    kinds.reverse();
    kinds
}

async fn register(api: &Client, urls: &[String]) {
    expect(post(api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
}

fn count_of_urls(name: &str) -> Value {
    json!({
        "name": name, "sql": "SELECT count(*) AS n FROM urls",
        "condition": { "value": "n", "op": "lt", "threshold": 3 }, "on": { "cron": "0 * * * *" },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_monitor_is_kept_listed_changed_and_removed() {
    let at = Appliance::start().await;
    let owner = at.member("keeper").await;
    let api = &owner.api;
    let new = json!({
        "name": " Too few ", "sql": "SELECT count(*) AS n FROM urls",
        "condition": { "value": "n", "op": "lte", "changePercent": -30, "over": "90m", "for": 2 },
        "on": { "cron": " 0  6 * * mon-FRI ", "timezone": "europe/berlin" },
    });
    let made = expect(post(api, MONITORS, &new).await, 201);
    let id = text(&made, "id").to_owned();
    assert_eq!(
        (text(&made, "name"), &made["state"], &made["lastRunAt"]),
        ("Too few", &json!("ok"), &Value::Null)
    );
    let condition = json!({ "value": "n", "op": "lte", "threshold": null, "changePercent": -30.0, "over": "1h 30m", "for": 2 });
    assert_eq!(made["condition"], condition);
    assert_eq!(
        made["on"],
        json!({ "cron": "0 6 * * mon-FRI", "timezone": "Europe/Berlin", "scheduleId": null })
    );
    assert_eq!((&made["createdBy"], &made["runsAs"]), (&json!(owner.user_id), &json!(owner.user_id)));
    // It runs once when it is made, and has nothing yet to compare with.
    let ran = ran_after(api, &id, &made).await;
    assert_eq!((&ran["lastValue"], &ran["state"], &ran["missed"]), (&json!(0.0), &json!("ok"), &json!(0)));
    assert!(text(&ran, "reason").contains("no earlier value"), "{ran}");
    // What was shown goes back as it is.
    let same = json!({ "condition": made["condition"], "on": made["on"], "sql": made["sql"] });
    assert_eq!(expect(patch(api, &format!("{MONITORS}/{id}"), &same).await, 200)["condition"], condition);
    let change = json!({ "name": "Any", "condition": { "value": "rows", "op": "gte", "threshold": 1 } });
    let changed = expect(patch(api, &format!("{MONITORS}/{id}"), &change).await, 200);
    assert_eq!((text(&changed, "name"), &changed["on"]), ("Any", &made["on"]));
    assert_eq!(in_state(api, &id, "firing").await["lastValue"], 1.0);
    for (query, count) in [("", 1), ("?state=firing", 1), ("?state=ok", 0), ("?isEnabled=false", 0)] {
        let listed = expect(get(api, &format!("{MONITORS}{query}")).await, 200);
        assert_eq!(listed["items"].as_array().unwrap().len(), count, "{query}");
    }
    let off = expect(patch(api, &format!("{MONITORS}/{id}"), &json!({ "isEnabled": false })).await, 200);
    assert_eq!((&off["isEnabled"], &off["nextRunAt"]), (&json!(false), &Value::Null));
    eventually("SQL has it", WAIT, || async {
        let sql = "SELECT name, state, last_value, is_enabled FROM monitors";
        let asked = post(api, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
        // 202 of a busy machine, 503 of tables that are behind: asked again.
        assert!(matches!(asked.status.as_u16(), 200 | 202 | 503), "{}", asked.text());
        let row = json!({ "name": "Any", "state": "firing", "last_value": 1.0, "is_enabled": false });
        (asked.json["results"]["rows"] == json!([row])).then_some(())
    })
    .await;
    assert_eq!(api.delete(&format!("{MONITORS}/{id}")).await.unwrap().status, 204);
    assert_eq!(get(api, &format!("{MONITORS}/{id}")).await.status, 404);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_state_are_told_once_and_delivered() {
    let receiver = Receiver::open(|_| Said::status(200)).await;
    let allow = json!([format!("127.0.0.1/32:{}", receiver.address.port())]).to_string();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow)]).await;
    let owner = at.member("told").await;
    let api = &owner.api;
    let output = json!({ "kind": "webhook", "url": receiver.url("/"), "events": ["monitor.*"] });
    expect(post(api, OUTPUTS, &output).await, 201);
    let id = make(api, &count_of_urls("few")).await;
    let firing = in_state(api, &id, "firing").await;
    assert_eq!((&firing["lastValue"], &firing["reason"]), (&json!(0.0), &Value::Null));
    at.clock.advance(HOUR);
    let still = ran_after(api, &id, &firing).await;
    assert_eq!(still["since"], firing["since"], "it fires since then");
    register(api, &(0..3).map(|n| format!("https://a.example/{n}")).collect::<Vec<_>>()).await;
    at.clock.advance(HOUR);
    in_state(api, &id, "ok").await;
    let nothing = json!({ "sql": "SELECT NULL::float8 AS n" });
    expect(patch(api, &format!("{MONITORS}/{id}"), &nothing).await, 200);
    let empty = in_state(api, &id, "no_data").await;
    assert_eq!((&empty["lastValue"], text(&empty, "reason")), (&Value::Null, "n is null"));
    assert_eq!(told(api, &id).await, ["monitor.firing", "monitor.ok", "monitor.no_data"]);
    let messages = eventually("all of it is delivered", WAIT, || async {
        let all = receiver.received();
        (all.len() == 3).then_some(all)
    })
    .await;
    let first = messages.iter().map(|message| message.json()).find(|body| body["type"] == "monitor.firing");
    let data = &first.unwrap()["data"];
    for (field, value) in [
        ("name", json!("few")),
        ("before", json!("ok")),
        ("value", json!(0.0)),
        ("op", json!("lt")),
        ("threshold", json!(3.0)),
    ] {
        assert_eq!(data[field], value, "{data}");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_new_for_six_hours_is_noticed_by_the_boxs_clock() {
    let web = Web::open(|_| Some(Answer::html("<title>news</title>"))).await;
    let mut at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let owner = at.member("silence").await;
    let api = owner.api.clone();
    // An hour that ends while the box is off would be one more.
    let into_hour = at.clock.now().millis().rem_euclid(3_600_000);
    at.clock.advance(HOUR + Duration::from_secs(300) - Duration::from_millis(into_hour.unsigned_abs()));
    crate::harness::collect(&api, &web.url("/news")).await;
    let new = json!({
        "name": "silence",
        "sql": "SELECT (extract(epoch FROM now()) - extract(epoch FROM max(scraped_at))) / 3600 AS hours FROM readings",
        "condition": { "value": "hours", "op": "gte", "threshold": 6 }, "on": { "cron": "0 * * * *" },
    });
    let id = make(&api, &new).await;
    let first = once(&api, &id, "it ran", |monitor| monitor["lastRunAt"].is_string()).await;
    assert_eq!(first["state"], "ok", "{first}");
    assert!(first["lastValue"].as_f64().unwrap() < 1.0, "{first}");
    // The box is off for seven hours: one run makes up for all of them, and says so.
    at.pause().await;
    at.clock.advance(7 * HOUR);
    at.restart().await;
    let api = at.client().bearer(&owner.key);
    let late = in_state(&api, &id, "firing").await;
    assert_eq!(late["missed"], 6, "{late}");
    assert!(late["lastValue"].as_f64().unwrap() >= 6.9, "{late}");
    crate::harness::collect(&api, &web.url("/newer")).await;
    at.clock.advance(HOUR);
    let again = in_state(&api, &id, "ok").await;
    assert_eq!(again["missed"], 0, "{again}");
    // The clock goes back by a day: its ticks come again from there, and none is waited for that was decided ahead.
    at.clock.set_wall(-24 * 3_600_000);
    eventually("it ticks from the date that it is", WAIT, || async {
        let monitor = read(&api, &id).await;
        let next: base::clock::Timestamp = text(&monitor, "nextRunAt").parse().unwrap();
        (next.since(at.clock.now()) <= HOUR).then_some(())
    })
    .await;
    let before = read(&api, &id).await;
    at.clock.advance(HOUR);
    ran_after(&api, &id, &before).await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drop_by_a_third_is_noticed_when_the_schedules_run_has_ended() {
    let web = Web::open(|_| Some(Answer::html("<title>a page</title>"))).await;
    let at = Appliance::start_with(&[
        ("NETWORK__ALLOW", &web.allow()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64"),
        ("DISPATCH__ROBOTS", "false"),
    ])
    .await;
    let owner = at.member("drops").await;
    let api = &owner.api;
    register(api, &(0..10).map(|n| web.url(&format!("/{n}"))).collect::<Vec<_>>()).await;
    let schedule = json!({ "name": "seldom", "cron": "0 0 1 1 *" });
    let schedule = text(&expect(post(api, "/api/v1/schedules", &schedule).await, 201), "id").to_owned();
    let sql = "SELECT count(*) AS n FROM jobs WHERE status = 'succeeded' AND schedule_run_id = \
               (SELECT id FROM schedule_runs ORDER BY scheduled_for DESC LIMIT 1)";
    let new = json!({
        "name": "drop", "sql": sql, "on": { "scheduleId": schedule },
        "condition": { "value": "n", "op": "lte", "changePercent": -30 },
    });
    let trigger = format!("/api/v1/schedules/{schedule}/trigger");
    let id = make(api, &new).await;
    let made = once(api, &id, "it ran", |monitor| monitor["lastRunAt"].is_string()).await;
    assert_eq!(made["lastValue"], 0.0, "{made}");
    for (left, state, compared) in [(10, "ok", 0.0), (8, "ok", 10.0), (5, "firing", 8.0), (5, "ok", 5.0)] {
        let urls = expect(get(api, "/api/v1/urls?limit=200").await, 200);
        let urls = urls["items"].as_array().unwrap();
        let gone: Vec<_> = urls.iter().skip(left).map(|url| url["id"].clone()).collect();
        if !gone.is_empty() {
            expect(post(api, "/api/v1/urls/delete", &json!({ "ids": gone })).await, 200);
        }
        let before = read(api, &id).await;
        expect(post(api, &trigger, &json!({})).await, 200);
        let after = ran_after(api, &id, &before).await;
        // What the run collected is in the tables that it was asked of.
        assert_eq!(
            (after["lastValue"].as_f64(), after["state"].as_str()),
            (Some(left as f64), Some(state)),
            "{after}"
        );
        assert_eq!(after["comparedWith"], compared, "{after}");
    }
    assert_eq!(told(api, &id).await, ["monitor.firing", "monitor.ok"]);
    assert_eq!(api.delete(&format!("/api/v1/schedules/{schedule}")).await.unwrap().status, 204);
    looks_anew(&at, "monitors.find").await;
    assert_eq!(read(api, &id).await["reason"], "its schedule was deleted");
    assert_eq!(told(api, &id).await.last().unwrap(), "monitor.error");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coverage_under_95_percent_is_noticed_through_a_saved_query() {
    let is_whole = Arc::new(AtomicBool::new(true));
    let shown = Arc::clone(&is_whole);
    let web = Web::open(move |path| {
        let price = if shown.load(Ordering::Relaxed) { "<span class=price>$ 12.50</span>" } else { "" };
        Some(Answer::html(format!("<h1>Vise {path}</h1>{price}")))
    })
    .await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow()), ("DISPATCH__ROBOTS", "false")]).await;
    let attribute =
        |name: &str, xpath: &str, kind: &str| json!({ "name": name, "xpaths": [xpath], "type": kind });
    let schema = json!({ "schemas": [{ "pageType": "product", "attributes": [
        attribute("name", "//h1", "text"), attribute("price", "//span[@class='price']", "number"),
    ]}]});
    let json = schema.to_string();
    at.operator(Request::SchemaImport { json, domain: Some("127.0.0.1".to_owned()) }).await;
    let owner = at.member("coverage").await;
    let api = &owner.api;
    let product = |path: &str| json!({ "url": web.url(path), "pageType": "product" });
    for path in ["/1", "/2", "/3"] {
        let job = expect(post(api, "/api/v1/jobs", &product(path)).await, 201);
        crate::harness::ended(api, text(&job, "id")).await;
    }
    let saved = json!({
        "name": "coverage of prices", "scopeKind": "org",
        "sql": "SELECT 100.0::float8 * count(price) / count(*) AS coverage FROM products",
    });
    let saved = text(&expect(post(api, "/api/v1/bi/saved-queries", &saved).await, 201), "id").to_owned();
    let new = json!({
        "name": "prices", "savedQueryId": saved, "on": { "cron": "0 * * * *" },
        "condition": { "value": "coverage", "op": "lt", "threshold": 95 },
    });
    let id = make(api, &new).await;
    let whole = once(api, &id, "it ran", |monitor| monitor["lastRunAt"].is_string()).await;
    assert_eq!((&whole["state"], &whole["lastValue"]), (&json!("ok"), &json!(100.0)), "{whole}");
    is_whole.store(false, Ordering::Relaxed);
    let job = expect(post(api, "/api/v1/jobs", &product("/4")).await, 201);
    crate::harness::ended(api, text(&job, "id")).await;
    at.clock.advance(HOUR);
    assert_eq!(in_state(api, &id, "firing").await["lastValue"], 75.0);
    // A saved query that another text was given is what runs; one that is gone is no silence.
    let one = format!("/api/v1/bi/saved-queries/{saved}");
    expect(patch(api, &one, &json!({ "sql": "SELECT 99 AS coverage" })).await, 200);
    at.clock.advance(HOUR);
    assert_eq!(in_state(api, &id, "ok").await["lastValue"], 99.0);
    expect(patch(api, &one, &json!({ "sql": "SELECT 1 AS another" })).await, 200);
    at.clock.advance(HOUR);
    let other = in_state(api, &id, "error").await;
    assert!(text(&other, "reason").contains("no column coverage"), "{other}");
    assert_eq!(api.delete(&one).await.unwrap().status, 204);
    at.clock.advance(HOUR);
    once(api, &id, "it says why", |monitor| monitor["reason"] == "its saved query was deleted").await;
    assert_eq!(told(api, &id).await, ["monitor.firing", "monitor.ok", "monitor.error"]);
    // Another one makes it well again.
    expect(patch(api, &format!("{MONITORS}/{id}"), &json!({ "sql": "SELECT 97 AS coverage" })).await, 200);
    in_state(api, &id, "ok").await;
    let gone = post(api, MONITORS, &new).await;
    refused(&gone, 404, "Saved query not found", "savedQueryId");
    at.stop().await;
}
