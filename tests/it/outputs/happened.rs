//! Events that few others tell of, and events that come again: a page that is gone, credits that are low, and what the ledger
//! has forgotten.

use super::{OUTPUTS, Receiver, Said, cause, deliveries, output, received, visit};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Request, eventually, expect, get, post, text};
use http::Method;
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

async fn told(api: &Client, kind: &str) -> Vec<Value> {
    let all = expect(get(api, &format!("/api/v1/events?kind={kind}&limit=200")).await, 200);
    all["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_gone_is_told_once() {
    let is_there = Arc::new(AtomicBool::new(true));
    let shown = Arc::clone(&is_there);
    let web = Web::open(move |path| {
        let is_page = path != "/robots.txt" && shown.load(Ordering::Relaxed);
        is_page.then(|| Answer::html("<title>A kettle</title><b id=price>9</b>"))
    })
    .await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let schemas = json!({ "schemas": [{
        "pageType": "product",
        "attributes": [{ "name": "price", "type": "number", "xpaths": ["//b[@id='price']"] }],
    }] });
    at.operator(Request::SchemaImport { json: schemas.to_string(), domain: Some("127.0.0.1".to_owned()) })
        .await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let url = web.url("/kettle");
    visit(&ada, &url).await;
    is_there.store(false, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(visit(&ada, &url).await["status"], "failed");
    }
    // Of a page that nobody has read nothing is gone.
    visit(&ada, &web.url("/never")).await;
    visit(&eve, &url).await;
    let gone = told(&ada.api, "result.gone").await;
    assert_eq!((gone.len(), told(&eve.api, "result.gone").await.len()), (1, 0), "{gone:?}");
    assert_eq!((&gone[0]["data"]["status"], &gone[0]["data"]["url"]), (&json!(404), &json!(url)));
    is_there.store(true, Ordering::Relaxed);
    visit(&ada, &url).await;
    is_there.store(false, Ordering::Relaxed);
    visit(&ada, &url).await;
    assert_eq!(told(&ada.api, "result.gone").await.len(), 2, "it was there in between");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn low_credits_are_told_once_a_period() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    at.operator(Request::OrgPlan { org: ada.org_id.clone(), plan: "trial".to_owned() }).await;
    let providers = expect(get(&ada.api, "/api/v1/providers").await, 200);
    let direct = text(&providers["items"][0], "id").to_owned();
    let price = json!({ "credits": { "standard": { "plain": 95 } } });
    let path = format!("/api/v1/providers/{direct}");
    expect(ada.api.send(Method::PATCH, &path, Some(&price)).await.unwrap(), 200);
    cause(&ada.api, 5).await;
    assert_eq!(told(&ada.api, "quota.low").await.len(), 0);
    for _ in 0..2 {
        // What fails is given back, so it can be taken again.
        eventually("all credits are back", Duration::from_secs(30), || async {
            let plan = expect(get(&ada.api, "/api/v1/plans/current").await, 200);
            (plan["remainingCredits"] == 1_000).then_some(())
        })
        .await;
        cause(&ada.api, 10).await;
    }
    let low = told(&ada.api, "quota.low").await;
    assert_eq!(low.len(), 1, "{low:?}");
    assert!(low[0]["data"]["remainingCredits"].as_u64().is_some_and(|left| left < 100), "{low:?}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_ledger_has_forgotten_comes_again_under_its_id() {
    let receiver = Receiver::open(|_| Said::status(200)).await;
    let allow = json!([format!("127.0.0.1/32:{}", receiver.address.port())]).to_string();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow), ("OUTPUTS__RETENTION_DAYS", "1")]).await;
    let ada = at.member("ada").await;
    let since = at.clock.now();
    let (one, other) = (
        output(&ada.api, &receiver.url("/1"), json!({})).await,
        output(&ada.api, &receiver.url("/2"), json!({})).await,
    );
    cause(&ada.api, 3).await;
    received(&receiver, 6).await;
    let ids = |path: &str| -> BTreeSet<String> {
        let all = receiver.received().into_iter().filter(|message| message.path == path);
        all.map(|message| message.header("webhook-id").to_owned()).collect()
    };
    let (first, second) = (ids("/1"), ids("/2"));
    assert!(first.len() == 3 && second.len() == 3 && first.is_disjoint(&second));
    // What is written down only after that would be kept for a day more.
    eventually("the ledger has them", Duration::from_secs(60), || async {
        let rows = deliveries(&ada.api, &one).await;
        (rows.len() == 3 && rows.iter().all(|row| row["state"] == "delivered")).then_some(())
    })
    .await;
    at.clock.advance(Duration::from_secs(2 * 86_400));
    eventually("the ledger has forgotten", Duration::from_secs(120), || async {
        deliveries(&ada.api, &one).await.is_empty().then_some(())
    })
    .await;
    let path = format!("{OUTPUTS}/{}/recover", text(&one, "id"));
    expect(post(&ada.api, &path, &json!({ "since": since.to_string() })).await, 202);
    received(&receiver, 9).await;
    assert_eq!(
        (ids("/1"), ids("/2")),
        (first, second),
        "no new ids, and none of the other output's: {other}"
    );
    at.stop().await;
}
