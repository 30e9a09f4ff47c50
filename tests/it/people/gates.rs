//! Every route's gate is the design's: a walk over the route table with callers who each lack one thing.
//!
//! `gates.txt` is the column of permissions of the design's list of operations, and the only place in the tests where
//! they stand; a route without a line there fails the walk. A gate asks before anything of the request is read, so that
//! bodies and ids of the walk need not be sound.

use crate::harness::Request;
use crate::harness::{Appliance, PASSWORD, expect, post, text};
use base::permission::Permission;
use http::Method;
use serde_json::json;
use server::Route;
use server::client::{Client, Reply};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// What an operation asks of a member of an organization.
struct Asks {
    permission: Option<&'static str>,
    quota: bool,
    verified: bool,
}

/// The operations of the design and what they ask; none for those that ask for nothing that is walked here.
fn table() -> BTreeMap<&'static str, Option<Asks>> {
    let line = |line: &'static str| {
        let (id, gate) = line.split_once(' ').unwrap();
        let mut words = gate.split('+');
        let who = words.next().unwrap();
        let mut asks = Asks { permission: None, quota: false, verified: false };
        match who {
            "-" | "jwt" | "browser" => return (id, None),
            "member" => {}
            permission => asks.permission = Some(permission),
        }
        for word in words {
            match word {
                "quota" => asks.quota = true,
                "verified" => asks.verified = true,
                other => panic!("{id} asks for {other}"),
            }
        }
        (id, Some(asks))
    };
    include_str!("gates.txt").lines().map(line).collect()
}

/// The routes of the box that ask for something, with what the design says of each.
fn asking() -> Vec<(&'static Route, Asks)> {
    let mut table = table();
    let routes = gleaner::app::routes().into_iter().flat_map(|group| group.routes);
    let asks = |route: &'static Route| {
        let known = table.remove(route.id());
        known.unwrap_or_else(|| panic!("{} has no line in gates.txt", route.id())).map(|asks| (route, asks))
    };
    routes.filter_map(asks).collect()
}

async fn call(client: &Client, route: &Route) -> Reply {
    let path = route.variables().fold(route.path().to_owned(), |path, variable| {
        path.replace(&format!("{{{variable}}}"), &Uuid::now_v7().to_string())
    });
    let method: Method = route.method().parse().unwrap();
    let has_body = matches!(method, Method::POST | Method::PUT | Method::PATCH);
    client.send(method, &path, has_body.then_some(&json!({}))).await.unwrap()
}

fn is_bi(route: &Route) -> bool {
    route.path().starts_with("/api/v1/bi/")
}

/// The code, or outside the console the sentence, of a refusal.
fn refusal(reply: &Reply) -> &str {
    reply.json["error"]["code"].as_str().or(reply.json["error"].as_str()).unwrap_or_default()
}

fn message(reply: &Reply) -> &str {
    reply.json["error"]["message"].as_str().or(reply.json["message"].as_str()).unwrap_or_default()
}

async fn key(maker: &Client, permissions: Vec<&'static str>) -> String {
    let made = post(maker, "/api/v1/api-keys", &json!({ "name": "walk", "permissions": permissions })).await;
    text(&expect(made, 201), "secret").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_asks_for_its_permission_and_for_no_other() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let all: Vec<_> = Permission::ALL.iter().map(|permission| permission.name()).collect();
    let mut keys = BTreeMap::new();
    for name in &all {
        let others = all.iter().copied().filter(|other| other != name).collect();
        keys.insert(*name, (key(&owner.browser, vec![name]).await, key(&owner.browser, others).await));
    }
    for (route, asks) in asking() {
        let place = format!("{} {}", route.method(), route.path());
        let needs = |reply: &Reply| message(reply).contains("This needs the permission");
        let Some(permission) = asks.permission else {
            let reply = call(&at.client().bearer(&keys["audit:read"].0), route).await;
            assert!(!needs(&reply), "{place} asks for a permission: {}", reply.text());
            continue;
        };
        let (with, without) = &keys[permission];
        let refused = call(&at.client().bearer(without), route).await;
        let sentence = if is_bi(route) { "insufficient_permissions" } else { "Insufficient permissions" };
        assert_eq!(
            (refused.status.as_u16(), refusal(&refused)),
            (403, sentence),
            "{place}: {}",
            refused.text()
        );
        assert!(message(&refused).contains(permission), "{place}: {}", refused.text());
        let reply = call(&at.client().bearer(with), route).await;
        assert!(!needs(&reply), "{place} asks for more than {permission}: {}", reply.text());
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_no_organization_is_told_so_everywhere() {
    let at = Appliance::start().await;
    let person = json!({ "email": "eve@example.com", "password": PASSWORD, "name": "Eve" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let eve = at.client().bearer(text(&login, "accessToken"));
    for (route, asks) in asking() {
        let reply = call(&eve, route).await;
        let sentence = if is_bi(route) { "no_org" } else { "No organization exists for this user" };
        let place = format!("{} {} ({:?})", route.method(), route.path(), asks.permission);
        assert_eq!((reply.status.as_u16(), refusal(&reply)), (403, sentence), "{place}: {}", reply.text());
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verified_address_is_asked_for_where_the_design_says_so() {
    let at = Appliance::start().await;
    let person = json!({ "email": "eve@example.com", "password": PASSWORD, "name": "Eve" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let eve = at.client().bearer(text(&login, "accessToken"));
    expect(post(&eve, "/api/v1/orgs", &json!({ "name": "Eve's" })).await, 201);
    for (route, asks) in asking() {
        let reply = call(&eve, route).await;
        let place = format!("{} {}: {}", route.method(), route.path(), reply.text());
        let sentence = if is_bi(route) { "email_not_verified" } else { "Email address is not verified" };
        let is_refused = reply.status == 403 && refusal(&reply) == sentence;
        assert_eq!(is_refused, asks.verified || is_bi(route), "{place}");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_has_ended_stops_what_costs_credits_and_nothing_else() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    at.operator(Request::OrgPlan { org: owner.org_id.clone(), plan: "trial".to_owned() }).await;
    at.clock.advance(Duration::from_secs(15 * 24 * 3600));
    for (route, asks) in asking() {
        let reply = call(&owner.api, route).await;
        let place = format!("{} {}: {}", route.method(), route.path(), reply.text());
        assert_eq!(reply.status == 402, asks.quota, "{place}");
        if asks.quota {
            assert_eq!(refusal(&reply), "QUOTA_EXCEEDED", "{place}");
            assert_eq!(
                (&reply.json["plan"], &reply.json["isTrialExpired"]),
                (&json!("trial"), &json!(true)),
                "{place}"
            );
            assert!(reply.json["remainingCredits"].is_u64() && !message(&reply).is_empty(), "{place}");
        }
        if is_bi(route) {
            assert_eq!((reply.status.as_u16(), refusal(&reply)), (403, "feature_disabled"), "{place}");
        }
    }
    at.stop().await;
}
