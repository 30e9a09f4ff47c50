//! The reference of metrics is what the box prints, and nobody sees it but the operator.

use super::root;
use crate::harness::{Appliance, Member, expect, get, post, ready, refused};
use http::Method;
use serde_json::json;
use server::Metrics;
use server::client::Client;
use std::collections::{BTreeMap, BTreeSet};

/// A metric as the page has it, or as the box prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Described {
    kind: String,
    labels: BTreeSet<String>,
    help: String,
}

/// The rows of the page.
fn rows(page: &str) -> BTreeMap<String, Described> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let described = rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, unit, labels, help] = cells[..] else { panic!("{line}") };
        let bare = |text: &str| text.trim_matches('`').to_owned();
        for unit_word in ["seconds", "bytes"] {
            assert_eq!(name.trim_matches('`').split('_').any(|part| part == unit_word), unit == unit_word);
        }
        assert!(help.len() > 5 && help.ends_with('.'), "{line}");
        let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (bare(name), Described { kind: kind.to_owned(), labels, help: help.to_owned() })
    });
    described.collect()
}

/// What the box prints.
fn printed(text: &str) -> BTreeMap<String, Described> {
    let mut all = BTreeMap::<String, Described>::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            all.entry(name.to_owned()).or_default().help = help.to_owned();
            continue;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            all.entry(name.to_owned()).or_default().kind = kind.to_owned();
            continue;
        }
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let of = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
            let family = name.strip_suffix(end)?;
            all.get(family).is_some_and(|known| known.kind == "histogram").then(|| family.to_owned())
        });
        let family = all.get_mut(&of.unwrap_or_else(|| name.to_owned())).expect("a series has a family");
        let labels = labels.split("\",").filter_map(|label| label.split_once("=\""));
        family.labels.extend(labels.map(|(name, _)| name.to_owned()).filter(|name| name != "le"));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_stands_in_the_reference_and_the_other_way_round() {
    let at = Appliance::start().await;
    ready(&at.client()).await;
    let made = at.app().services().service::<Metrics>().reference();
    let file = root().join("data/docs/metrics.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        made, kept,
        "metrics have changed: UPDATE_GOLDEN=1 cargo test -p gleaner --test it -- watching:: writes data/docs/metrics.md anew"
    );
    let (rows, printed) = (rows(&kept), printed(&get(&at.client(), "/metrics").await.text()));
    assert!(rows.len() > 50, "{}", rows.len());
    let names = |all: &BTreeMap<String, Described>| all.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&rows), names(&printed));
    for (name, is) in &printed {
        assert_eq!(rows[name], *is, "{name}");
    }
    // guidePage
    let served = get(&at.client(), "/docs/metrics").await;
    assert!(served.status == 200 && served.text().contains("gleaner_trace_spans_dropped_total"));
    at.stop().await;
}

/// What tells an organization from others must not stand in what the operator's monitoring keeps.
fn names_nobody(text: &str, members: &[&Member]) {
    for member in members {
        for told in [&member.org_id, &member.user_id, &member.email, &member.key] {
            assert!(!text.contains(told.as_str()), "{told} is in the metrics");
        }
    }
    assert!(!text.contains("zz-nobody-asked"), "a path of a caller's is a label");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_are_curious_or_hostile_see_no_number_and_leave_no_label() {
    let token = "0123456789abcdef-of-the-operator";
    // Nobody's network, and a proxy on this machine whose word counts.
    let settings = [
        ("SERVER__METRICS_FROM", "[\"192.0.2.0/24\"]"),
        ("SERVER__METRICS_TOKEN", token),
        ("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]"),
    ];
    let at = Appliance::start_with(&settings).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let asked = json!({ "sql": "SELECT 'zz-nobody-asked'", "waitMs": 10_000 });
    for member in [&ada, &eve] {
        expect(post(&member.api, "/api/v1/bi/queries", &asked).await, 200);
        get(&member.api, "/api/v1/zz-nobody-asked?zz-nobody-asked=1").await;
        get(&member.api, "/zz-nobody-asked").await;
    }
    let nobody = at.client();
    let long = "x".repeat(8_000);
    let as_token = |text: &str| nobody.header("authorization", text);
    let hostile: Vec<(&str, Client)> = vec![
        ("no credential", nobody.clone()),
        ("a member's key", eve.api.clone()),
        ("a member's session", eve.browser.clone()),
        ("a part of the token", as_token(&format!("Bearer {}", &token[..31]))),
        ("more than the token", as_token(&format!("Bearer {token}0"))),
        ("another scheme", as_token(&format!("Basic {token}"))),
        ("no scheme", as_token(token)),
        ("an empty one", as_token("Bearer ")),
        ("a long one", as_token(&format!("Bearer {long}"))),
        ("an address of nobody's", nobody.header("x-forwarded-for", "203.0.113.9")),
        ("a claim in front of the proxy's", nobody.header("x-forwarded-for", "192.0.2.1, 203.0.113.9")),
        ("this machine's address", nobody.header("x-forwarded-for", "127.0.0.1")),
        ("no address", nobody.header("x-forwarded-for", "'; DROP TABLE")),
    ];
    for (what, client) in &hostile {
        let reply = get(client, "/metrics").await;
        assert_eq!(reply.status, 403, "{what}");
        refused(&reply, 403, "Insufficient permissions", "server.metrics_token");
        assert!(!reply.text().contains("gleaner_"), "{what}");
        assert!(!reply.text().contains(token), "{what}");
    }
    let in_query = get(&nobody, &format!("/metrics?token={token}&access_token={token}")).await;
    assert_eq!(in_query.status, 403);
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let reply = nobody.bearer(token).send(method.clone(), "/metrics", None).await.unwrap();
        assert_eq!(reply.status, 405, "{method}");
    }
    // Whom the proxy vouches for, and who has the token.
    let near = get(&nobody.header("x-forwarded-for", "192.0.2.7"), "/metrics").await;
    let known = get(&nobody.bearer(token), "/metrics").await;
    for reply in [near, known] {
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
        assert_eq!(reply.header("cache-control"), "no-store");
        names_nobody(&reply.text(), &[&ada, &eve]);
    }
    at.stop().await;
}
