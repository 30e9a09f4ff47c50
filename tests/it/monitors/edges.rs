//! What monitors refuse, how many there may be, whose permissions they run with, and who waits for whom.

use super::{HOUR, MONITORS, WAIT, count_of_urls, in_state, make, once, read, told};
use crate::audit::patch;
use crate::harness::{Appliance, eventually, expect, get, join, post, refused, text};
use base::limits::MONITORS_PER_ORG_MAX;
use serde_json::{Value, json};
use std::time::Instant;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_refused_and_named() {
    let at = Appliance::start().await;
    let (owner, other) = (at.member("picky").await, at.member("other").await);
    let api = &owner.api;
    let with = |path: &str, value: Value| {
        let mut new = count_of_urls("x");
        *new.pointer_mut(path).unwrap() = value;
        new
    };
    let on = |value: Value| with("/on", value);
    let condition = |value: Value| with("/condition", value);
    let invalid = "Validation failed";
    let cases = [
        (with("/name", json!("")), 400, invalid, "name: "),
        (with("/sql", json!(" ")), 400, invalid, "sql: must not be empty"),
        (with("/sql", json!("SELECT 1; SELECT 2")), 400, "The statement cannot be run", ""),
        (with("/sql", json!("SELECT nothing FROM urls")), 400, "The statement cannot be run", "nothing"),
        (with("/sql", json!("SELEC 1")), 400, "Syntax error in the statement", ""),
        (
            with("/sql", json!("SELECT url AS n FROM urls")),
            400,
            invalid,
            "condition.value: is a column of the type text",
        ),
        (
            with("/condition/value", json!("m")),
            400,
            invalid,
            "condition.value: is no column of the statement, which has n",
        ),
        (with("/condition/value", json!("")), 400, invalid, "condition.value: "),
        (
            condition(json!({ "value": "n", "op": "lt" })),
            400,
            invalid,
            "condition: needs threshold or changePercent",
        ),
        (
            condition(json!({ "value": "n", "op": "lt", "threshold": 1, "changePercent": 1 })),
            400,
            invalid,
            "condition: ",
        ),
        (
            condition(json!({ "value": "n", "op": "lt", "threshold": 1, "over": "6h" })),
            400,
            invalid,
            "condition.over: ",
        ),
        (
            condition(json!({ "value": "n", "op": "lt", "changePercent": 1, "over": "soon" })),
            400,
            invalid,
            "condition.over: is",
        ),
        (
            condition(json!({ "value": "n", "op": "lt", "changePercent": 1, "over": "1s" })),
            400,
            invalid,
            "condition.over: must be",
        ),
        (
            condition(json!({ "value": "n", "op": "lt", "changePercent": 1, "over": "40d" })),
            400,
            invalid,
            "condition.over: must be",
        ),
        (
            condition(json!({ "value": "n", "op": "lt", "threshold": 1, "for": 0 })),
            400,
            invalid,
            "condition.for: ",
        ),
        (
            condition(json!({ "value": "n", "op": "lt", "threshold": 1, "for": 101 })),
            400,
            invalid,
            "condition.for: ",
        ),
        (on(json!({})), 400, invalid, "on: needs cron or scheduleId"),
        (on(json!({ "cron": "61 * * * *" })), 400, invalid, "on.cron: "),
        (on(json!({ "cron": "*/20 * * * * *" })), 400, invalid, "on.cron: is too often"),
        (on(json!({ "cron": "0 6 * * *", "timezone": "Mars/Base" })), 400, invalid, "on.timezone: "),
    ];
    for (new, status, sentence, part) in cases {
        let reply = post(api, MONITORS, &new).await;
        assert_eq!(reply.status.as_u16(), status, "{new}: {}", reply.text());
        if sentence == invalid {
            refused(&reply, status, sentence, part);
        } else {
            assert!(reply.text().contains(part), "{new}: {}", reply.text());
        }
    }
    // What is another organization's is as what there is not.
    let saved = json!({ "name": "theirs", "sql": "SELECT 1 AS n", "scopeKind": "org" });
    let saved = expect(post(&other.api, "/api/v1/bi/saved-queries", &saved).await, 201);
    let schedule = json!({ "name": "theirs", "cron": "@daily" });
    let schedule = expect(post(&other.api, "/api/v1/schedules", &schedule).await, 201);
    let mut of_saved = count_of_urls("x");
    of_saved.as_object_mut().unwrap().remove("sql");
    for (field, theirs) in [("/savedQueryId", text(&saved, "id")), ("/on/scheduleId", text(&schedule, "id"))]
    {
        let named = |id: &str| match field {
            "/savedQueryId" => {
                let mut new = of_saved.clone();
                new["savedQueryId"] = json!(id);
                new
            }
            _ => on(json!({ "scheduleId": id })),
        };
        let foreign = post(api, MONITORS, &named(theirs)).await;
        let missing = post(api, MONITORS, &named(&uuid::Uuid::now_v7().to_string())).await;
        assert_eq!((foreign.status.as_u16(), foreign.text()), (404, missing.text()));
    }
    assert!(expect(get(api, MONITORS).await, 200)["items"].as_array().unwrap().is_empty());
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_monitor_runs_with_the_permissions_of_who_changed_it_last() {
    let at = Appliance::start().await;
    let owner = at.member("boss").await;
    let analyst = join(&at, &owner.browser, "analyst", "analyst").await;
    let new = json!({
        "name": "any", "sql": "SELECT 1 AS n", "on": { "cron": "0 * * * *" },
        "condition": { "value": "n", "op": "gt", "threshold": 5 },
    });
    let id = make(&analyst.browser, &new).await;
    once(&owner.api, &id, "it ran", |monitor| monitor["lastRunAt"].is_string()).await;
    // Who may only read makes and changes none.
    let viewer = join(&at, &owner.browser, "viewer", "viewer").await;
    assert_eq!(post(&viewer.browser, MONITORS, &new).await.status, 403);
    assert_eq!(patch(&viewer.browser, &format!("{MONITORS}/{id}"), &json!({})).await.status, 403);
    assert_eq!(get(&viewer.browser, &format!("{MONITORS}/{id}")).await.status, 200);
    let member = format!("/api/v1/orgs/current/members/{}", analyst.id);
    assert_eq!(owner.browser.delete(&member).await.unwrap().status, 204);
    at.clock.advance(HOUR);
    let orphan = in_state(&owner.api, &id, "error").await;
    assert!(text(&orphan, "reason").contains("no member of the organization any more"), "{orphan}");
    assert_eq!(told(&owner.api, &id).await, ["monitor.error"]);
    let taken = expect(patch(&owner.api, &format!("{MONITORS}/{id}"), &json!({ "name": "mine" })).await, 200);
    assert_eq!((&taken["runsAs"], &taken["createdBy"]), (&json!(owner.user_id), &json!(analyst.id)));
    in_state(&owner.api, &id, "ok").await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_organizations_slow_monitors_keep_nobody_waiting() {
    let at = Appliance::start_with(&[("BI__MAX_QUERY_SEC", "10"), ("BI__CONCURRENCY", "2")]).await;
    let (slow, quick) = (at.member("slow").await, at.member("quick").await);
    register_many(&slow.api).await;
    // Each takes its ten seconds, and there are eight of them.
    let sql =
        "SELECT count(*) AS n FROM urls a, urls b, urls c, urls d WHERE a.url || b.url < c.url || d.url";
    let new = json!({
        "name": "slow", "sql": sql, "on": { "cron": "0 * * * *" },
        "condition": { "value": "n", "op": "gt", "threshold": 5 },
    });
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(make(&slow.api, &new).await);
    }
    let begun = Instant::now();
    let id = make(&quick.api, &count_of_urls("quick")).await;
    in_state(&quick.api, &id, "firing").await;
    let waited = begun.elapsed();
    let mut ended = 0;
    for id in &ids {
        ended += usize::from(read(&slow.api, id).await["lastRunAt"].is_string());
    }
    assert!(ended < ids.len() / 2, "the other one's were not done yet: {ended}, after {waited:?}");
    let first = eventually("one of them has run into its bound", WAIT, || async {
        let listed = expect(get(&slow.api, &format!("{MONITORS}?state=error")).await, 200);
        listed["items"].get(0).cloned()
    })
    .await;
    assert!(text(&first, "reason").contains("10"), "{first}");
    at.stop().await;
}

async fn register_many(api: &server::client::Client) {
    let urls: Vec<_> = (0..300).map(|n| format!("https://many.example/{n}")).collect();
    expect(post(api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_organization_has_so_many_and_no_more() {
    let at = Appliance::start().await;
    let owner = at.member("many").await;
    let mut new = count_of_urls("one");
    new["isEnabled"] = json!(false);
    for _ in 0..MONITORS_PER_ORG_MAX {
        make(&owner.api, &new).await;
    }
    let reply = post(&owner.api, MONITORS, &new).await;
    assert_eq!(reply.status, 409, "{}", reply.text());
    assert!(reply.text().contains(&MONITORS_PER_ORG_MAX.to_string()));
    let listed = expect(get(&owner.api, &format!("{MONITORS}?limit=200")).await, 200);
    let all = listed["items"].as_array().unwrap();
    assert_eq!(all.len(), MONITORS_PER_ORG_MAX);
    assert!(all.iter().all(|one| one["lastRunAt"].is_null()), "what is off does not run");
    at.stop().await;
}
