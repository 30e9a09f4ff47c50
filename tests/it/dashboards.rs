//! Dashboards through HTTP: createDashboard, listDashboards, getDashboard, updateDashboard, deleteDashboard.

use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::{Appliance, eventually, expect, get, join, member, post, text};
use base::limits::{DASHBOARD_TILES_MAX, DASHBOARDS_PER_ORG_MAX, TILE_ROWS_MAX};
use serde_json::{Value, json};
use server::client::Client;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DASHBOARDS: &str = "/api/v1/bi/dashboards";
const WAIT: Duration = Duration::from_secs(90);
const HOUR: Duration = Duration::from_secs(3_600);

/// Saves a query under its own text.
async fn save(api: &Client, sql: &str) -> String {
    let saved = json!({ "name": sql.chars().take(100).collect::<String>(), "sql": sql, "scopeKind": "org" });
    text(&expect(post(api, "/api/v1/bi/saved-queries", &saved).await, 201), "id").to_owned()
}

async fn make(api: &Client, new: &Value) -> String {
    text(&expect(post(api, DASHBOARDS, new).await, 201), "id").to_owned()
}

async fn read(api: &Client, id: &str) -> Value {
    expect(get(api, &format!("{DASHBOARDS}/{id}")).await, 200)
}

/// The dashboard once it is made anew, behind a time.
async fn fresh(api: &Client, id: &str, behind: &Value) -> Value {
    eventually("it is made anew", WAIT, || async {
        let read = read(api, id).await;
        (read["isRefreshing"] == false && read["refreshedAt"].is_string() && read["refreshedAt"] != *behind)
            .then_some(read)
    })
    .await
}

async fn register(api: &Client, name: &str, count: usize) {
    let urls: Vec<_> = (0..count).map(|n| format!("https://{name}.example/{n}")).collect();
    expect(post(api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dashboard_shows_what_its_saved_queries_give() {
    let at = Appliance::start().await;
    let owner = at.member("shows").await;
    let api = &owner.api;
    register(api, "a", 3).await;
    let (count, named) =
        (save(api, "SELECT count(*) AS n FROM urls").await, save(api, "SELECT $1 AS a, $2 AS b").await);
    let new = json!({
        "name": " Daily ", "description": "what came in",
        "tiles": [
            { "savedQueryId": count, "title": "URLs", "chart": { "type": "number", "y": ["n"] },
              "position": { "x": 0, "y": 0, "w": 3, "h": 2 } },
            { "savedQueryId": named, "params": [{ "parameter": "shop" }, 7] },
        ],
        "parameters": [{ "name": "shop", "value": "Acme" }],
        "refresh": { "cron": " 0  6 * * * ", "timezone": "europe/berlin" },
    });
    let made = expect(post(api, DASHBOARDS, &new).await, 201);
    let id = text(&made, "id").to_owned();
    assert_eq!((text(&made, "name"), &made["isRefreshing"]), ("Daily", &json!(true)));
    assert_eq!(made["refresh"], json!({ "cron": "0 6 * * *", "timezone": "Europe/Berlin" }));
    assert_eq!(made["tiles"][1]["position"], json!({ "x": 0, "y": 2, "w": 6, "h": 4 }));
    let shown = fresh(api, &id, &Value::Null).await;
    let (first, second) = (&shown["tiles"][0]["result"], &shown["tiles"][1]["result"]);
    assert_eq!(
        (&first["rows"], &first["columns"]),
        (&json!([{ "n": 3 }]), &json!([{ "name": "n", "type": "bigint" }]))
    );
    assert_eq!(
        (&first["totalRows"], &first["isTruncated"], &first["error"]),
        (&json!(1), &json!(false), &Value::Null)
    );
    assert_eq!(second["rows"], json!([{ "a": "Acme", "b": 7 }]));
    // Another value for the parameter; a tile that stays keeps its number.
    let change = json!({ "parameters": [{ "name": "shop", "value": "Umbrella" }] });
    expect(patch(api, &format!("{DASHBOARDS}/{id}"), &change).await, 200);
    let again = fresh(api, &id, &shown["refreshedAt"]).await;
    assert_eq!(again["tiles"][1]["result"]["rows"], json!([{ "a": "Umbrella", "b": 7 }]));
    let kept = &again["tiles"][1];
    let change = json!({ "tiles": [{ "id": kept["id"], "savedQueryId": named, "params": [1, 2] }, { "savedQueryId": count }] });
    let changed = expect(patch(api, &format!("{DASHBOARDS}/{id}"), &change).await, 200);
    assert_eq!((&changed["tiles"][0]["id"], &changed["tiles"][1]["id"]), (&json!(2), &json!(3)));
    assert_eq!(changed["tiles"][0]["result"], Value::Null, "what it showed was of other values");
    fresh(api, &id, &again["refreshedAt"]).await;
    // In a list it has no results; a viewer sees all of it, and changes nothing.
    let listed = expect(get(api, DASHBOARDS).await, 200);
    assert_eq!(
        (&listed["items"][0]["id"], &listed["items"][0]["tiles"][0]["result"]),
        (&json!(id), &Value::Null)
    );
    let viewer = join(&at, &owner.browser, "viewer", "viewer").await;
    let seen = expect(get(&viewer.browser, &format!("{DASHBOARDS}/{id}")).await, 200);
    assert_eq!(seen["tiles"][1]["result"]["rows"], json!([{ "n": 3 }]));
    assert_eq!(
        patch(&viewer.browser, &format!("{DASHBOARDS}/{id}"), &json!({ "name": "x" })).await.status,
        403
    );
    assert_eq!(post(api, DASHBOARDS, &json!({ "name": "Daily" })).await.status, 409);
    let clear = json!({ "clear": ["refresh"] });
    assert_eq!(expect(patch(api, &format!("{DASHBOARDS}/{id}"), &clear).await, 200)["refresh"], Value::Null);
    assert_eq!(api.delete(&format!("{DASHBOARDS}/{id}")).await.unwrap().status, 204);
    assert_eq!(get(api, &format!("{DASHBOARDS}/{id}")).await.status, 404);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dashboard_is_made_anew_by_cron_and_by_who_looks() {
    let at = Appliance::start().await;
    // Ten past the hour: no hour begins but where the clock is moved by one.
    let into_hour = at.clock.now().millis().rem_euclid(3_600_000);
    let to_ten_past = (600_000 - into_hour).rem_euclid(3_600_000);
    at.clock.advance(Duration::from_millis(to_ten_past.unsigned_abs()));
    let owner = at.member("anew").await;
    let api = &owner.api;
    let count = save(api, "SELECT count(*) AS n FROM urls").await;
    let new =
        json!({ "name": "hourly", "tiles": [{ "savedQueryId": count }], "refresh": { "cron": "0 * * * *" } });
    let id = make(api, &new).await;
    let first = fresh(api, &id, &Value::Null).await;
    assert_eq!(first["tiles"][0]["result"]["rows"], json!([{ "n": 0 }]));
    register(api, "a", 2).await;
    at.clock.advance(HOUR);
    let second = fresh(api, &id, &first["refreshedAt"]).await;
    assert_eq!(second["tiles"][0]["result"]["rows"], json!([{ "n": 2 }]));
    // Somebody looks: what is young enough stays, what is not is made anew.
    let asked = |age: u64| format!("{DASHBOARDS}/{id}?maxAgeSec={age}");
    assert_eq!(expect(get(api, &asked(600)).await, 200)["isRefreshing"], false);
    register(api, "b", 2).await;
    at.clock.advance(Duration::from_secs(1_200));
    assert_eq!(expect(get(api, &asked(600)).await, 200)["isRefreshing"], true);
    let third = fresh(api, &id, &second["refreshedAt"]).await;
    assert_eq!(third["tiles"][0]["result"]["rows"], json!([{ "n": 4 }]));
    let young = get(api, &asked(1)).await;
    assert_eq!(young.status, 400, "{}", young.text());
    assert!(text(&young.json["error"], "message").starts_with("maxAgeSec: "), "{}", young.text());
    // A saved query that is broken says so in its tile, beside what was there before; one that is gone too.
    let one = format!("/api/v1/bi/saved-queries/{count}");
    expect(patch(api, &one, &json!({ "sql": "SELECT nothing FROM urls" })).await, 200);
    at.clock.advance(HOUR);
    let broken = fresh(api, &id, &third["refreshedAt"]).await;
    let tile = &broken["tiles"][0]["result"];
    assert!(text(tile, "error").contains("nothing"), "{tile}");
    assert_eq!(
        (&tile["rows"], &tile["refreshedAt"]),
        (&json!([{ "n": 4 }]), &third["tiles"][0]["result"]["refreshedAt"])
    );
    assert_eq!(api.delete(&one).await.unwrap().status, 204);
    at.clock.advance(HOUR);
    let gone = fresh(api, &id, &broken["refreshedAt"]).await;
    assert_eq!(gone["tiles"][0]["result"]["error"], "its saved query was deleted");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_shown_is_refused_and_what_is_large_is_cut() {
    let at = Appliance::start().await;
    let (owner, other) = (at.member("picky").await, at.member("other").await);
    let api = &owner.api;
    let (mine, theirs) = (save(api, "SELECT 1 AS n").await, save(&other.api, "SELECT 1 AS n").await);
    let tile = |more: Value| {
        let mut tile = json!({ "savedQueryId": mine });
        tile.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "name": "x", "tiles": [tile] })
    };
    let many: Vec<_> = (0..=DASHBOARD_TILES_MAX).map(|_| json!({ "savedQueryId": mine })).collect();
    for (new, part) in [
        (json!({ "name": "" }), "name: "),
        (json!({ "name": "x", "tiles": many }), "tiles: has 25 entries"),
        (tile(json!({ "id": 7 })), "tiles[0].id: is no tile"),
        (tile(json!({ "title": "" })), "tiles[0].title: "),
        (tile(json!({ "params": [[1]] })), "tiles[0].params[0]: "),
        (tile(json!({ "params": ["x".repeat(5_000)] })), "tiles[0].params[0]: "),
        (tile(json!({ "params": [{ "parameter": "from" }] })), "tiles[0].params: refers to \"from\""),
        (tile(json!({ "chart": { "type": "bar", "x": "" } })), "tiles[0].chart: "),
        (tile(json!({ "position": { "x": 9, "y": 0, "w": 6, "h": 1 } })), "tiles[0].position: must lie"),
        (json!({ "name": "x", "parameters": [{ "name": "a b" }] }), "parameters[0].name: "),
        (
            json!({ "name": "x", "parameters": [{ "name": "a" }, { "name": "a" }] }),
            "parameters[1].name: is given twice",
        ),
        (json!({ "name": "x", "parameters": [{ "name": "a", "value": {} }] }), "parameters[0].value: "),
        (json!({ "name": "x", "refresh": { "cron": "* * * * * *" } }), "refresh.cron: is too often"),
        (json!({ "name": "x", "refresh": { "cron": "nonsense" } }), "refresh.cron: "),
        (json!({ "name": "x", "refresh": { "cron": "@daily", "timezone": "Mars" } }), "refresh.timezone: "),
    ] {
        let reply = post(api, DASHBOARDS, &new).await;
        assert_eq!(reply.status, 400, "{part}: {}", reply.text());
        assert!(reply.json["error"]["message"].as_str().unwrap().contains(part), "{part}: {}", reply.text());
    }
    let masked =
        |reply: &server::client::Reply| (reply.status.as_u16(), reply.json["error"]["message"].clone());
    let of = |id: &str| json!({ "name": "x", "tiles": [{ "savedQueryId": id }] });
    let foreign = post(api, DASHBOARDS, &of(&theirs)).await;
    let missing = post(api, DASHBOARDS, &of(&uuid::Uuid::now_v7().to_string())).await;
    assert_eq!((foreign.status.as_u16(), masked(&foreign)), (404, masked(&missing)));
    // Rows beyond what a tile keeps, and rows that are too large.
    let long = save(api, "SELECT unnest(generate_series(1, 5000)) AS n").await;
    let wide =
        save(api, "SELECT repeat('x', 20000) AS t FROM unnest(generate_series(1, 100)) AS g (n)").await;
    let tiles = json!({ "name": "large", "tiles": [{ "savedQueryId": long }, { "savedQueryId": wide }] });
    let large = fresh(api, &make(api, &tiles).await, &Value::Null).await;
    let (long, wide) = (&large["tiles"][0]["result"], &large["tiles"][1]["result"]);
    assert_eq!(
        (long["rows"].as_array().unwrap().len() as u64, &long["totalRows"]),
        (TILE_ROWS_MAX, &json!(5_000))
    );
    assert!(
        wide["rows"].as_array().unwrap().len() < 10 && wide["isTruncated"] == true,
        "{}",
        wide["totalRows"]
    );
    for n in 1..DASHBOARDS_PER_ORG_MAX {
        make(api, &json!({ "name": format!("n{n}") })).await;
    }
    assert_eq!(post(api, DASHBOARDS, &json!({ "name": "one more" })).await.status, 409);
    at.stop().await;
}

/// Every list and every text as large as a body may be: refused soon, and named shortly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_texts_as_large_as_a_body_are_refused() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let query = save(&ada.api, "SELECT 1 AS n").await;
    let one = format!(
        "{DASHBOARDS}/{}",
        make(&ada.api, &json!({ "name": "one", "tiles": [{ "savedQueryId": query }] })).await
    );
    let text = "x".repeat(1_000_000);
    let many = |one: Value, count: usize| Value::Array(vec![one; count]);
    let tile = |member: &str, value: Value| {
        let mut tile = json!({ "savedQueryId": query });
        tile[member] = value;
        json!({ "tiles": [tile] })
    };
    for (terms, named) in [
        (json!({ "name": text }), "name"),
        (json!({ "description": text }), "description"),
        (json!({ "tiles": many(json!({ "savedQueryId": query }), 18_000) }), "tiles"),
        (json!({ "tiles": many(json!({}), 100_000) }), "tiles"),
        (json!({ "parameters": many(json!({ "name": "a" }), 70_000) }), "parameters"),
        (json!({ "parameters": [{ "name": text }] }), "parameters[0].name"),
        (json!({ "parameters": [{ "name": "a", "value": text }] }), "parameters[0].value"),
        (json!({ "refresh": { "cron": text } }), "refresh.cron"),
        (json!({ "refresh": { "cron": "@daily", "timezone": text } }), "refresh.timezone"),
        (tile("savedQueryId", json!(text)), "savedQueryId"),
        (tile("title", json!(text)), "tiles[0].title"),
        (tile("params", many(json!(1), 200_000)), "tiles[0].params"),
        (tile("params", json!([text])), "tiles[0].params[0]"),
        (tile("params", json!([{ "parameter": text }])), "tiles[0].params"),
        (tile("chart", json!({ "type": text })), "tiles[0].chart"),
        (tile("chart", json!({ "type": "line", "x": text })), "tiles[0].chart"),
        (
            tile("chart", json!({ "type": "line", "x": "n", "y": many(json!("n"), 200_000) })),
            "tiles[0].chart",
        ),
        (tile("chart", json!({ "type": "line", "x": "n", "y": [text] })), "tiles[0].chart"),
    ] {
        let mut new = json!({ "name": "new" });
        new.as_object_mut().unwrap().extend(terms.as_object().unwrap().clone());
        let begun = std::time::Instant::now();
        for reply in [post(&ada.api, DASHBOARDS, &new).await, patch(&ada.api, &one, &terms).await] {
            let said: String = reply.text().chars().take(300).collect();
            assert_eq!(reply.status, 400, "{named}: {said}");
            assert!(reply.text().contains(named) && reply.text().len() < 4_000, "{named}: {said}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{named}: {:?}", begun.elapsed());
    }
    let clears = json!({ "clear": many(json!("refresh"), 90_000) });
    let reply = patch(&ada.api, &one, &clears).await;
    assert!(matches!(reply.status.as_u16(), 200 | 400), "{}", reply.status);
    assert_eq!(post(&ada.api, DASHBOARDS, &json!({ "name": "x".repeat(1 << 20) })).await.status, 413);
    let kept = expect(get(&ada.api, &one).await, 200);
    assert_eq!((&kept["name"], kept["tiles"].as_array().unwrap().len()), (&json!("one"), 1));
    make(&eve.api, &json!({ "name": "hers" })).await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_organizations_slow_dashboard_keeps_nobody_waiting() {
    let at = Appliance::start_with(&[("BI__MAX_QUERY_SEC", "10"), ("BI__CONCURRENCY", "2")]).await;
    let (slow, quick) = (at.member("slow").await, at.member("quick").await);
    register(&slow.api, "many", 300).await;
    let sql =
        "SELECT count(*) AS n FROM urls a, urls b, urls c, urls d WHERE a.url || b.url < c.url || d.url";
    let saved = save(&slow.api, sql).await;
    let tiles: Vec<_> = (0..DASHBOARD_TILES_MAX).map(|_| json!({ "savedQueryId": saved })).collect();
    let id = make(&slow.api, &json!({ "name": "slow", "tiles": tiles })).await;
    let begun = Instant::now();
    let count = save(&quick.api, "SELECT count(*) AS n FROM urls").await;
    let own = make(&quick.api, &json!({ "name": "quick", "tiles": [{ "savedQueryId": count }] })).await;
    fresh(&quick.api, &own, &Value::Null).await;
    let busy = read(&slow.api, &id).await;
    assert_eq!(busy["isRefreshing"], true, "the other one's was done, after {:?}", begun.elapsed());
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_box_makes_anew_what_was_due() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let mut process = Process::start(&data, &[]);
    let owner = member(&process.client(), &process.socket(), "kills").await;
    let api = process.client().bearer(&owner.key);
    let saved = save(&api, "SELECT $1 AS n").await;
    let tiles =
        |n: u64| json!([{ "savedQueryId": saved, "params": [n] }, { "savedQueryId": saved, "params": [n] }]);
    let id = make(&api, &json!({ "name": "kills", "tiles": tiles(0) })).await;
    for n in 1..=6 {
        let api = process.client().bearer(&owner.key);
        expect(patch(&api, &format!("{DASHBOARDS}/{id}"), &json!({ "tiles": tiles(n) })).await, 200);
        tokio::time::sleep(Duration::from_millis(17 * n)).await;
        process.kill();
        process = Process::start(&data, &[]);
    }
    let api = process.client().bearer(&owner.key);
    eventually("both tiles show the last value", WAIT, || async {
        let read = read(&api, &id).await;
        let shows = |at: usize| read["tiles"][at]["result"]["rows"] == json!([{ "n": 6 }]);
        (read["isRefreshing"] == false && shows(0) && shows(1)).then_some(())
    })
    .await;
    assert_eq!(process.terminate(), Some(0));
}
