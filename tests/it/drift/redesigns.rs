//! Redesigns that the pages alone do not tell of: keys of their JSON, and sites of which no URL is read twice.

use super::{
    GOODS, NEW, OLD, WAIT, appliance, counted, discoveries, drift, fetch, in_state, page, priced, told,
};
use crate::harness::web::{Answer, Web};
use crate::harness::{Request, eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What pages say in their JSON alone is found again under other keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_were_renamed_in_a_pages_json_are_mended() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let shown = Arc::clone(&mode);
    let web = Web::asked(move |request| {
        let number: usize = request.uri().path().strip_prefix("/goods/")?.parse().ok()?;
        let (name, price, maker) = GOODS[number % GOODS.len()];
        let state = match shown.load(Ordering::Relaxed) {
            OLD => json!({ "item": { "cost": price, "maker": maker }, "seen": 12 }),
            _ => json!({ "product": { "offer": { "cost": price }, "maker": { "name": maker } }, "seen": 12 }),
        };
        Some(Answer::html(format!(
            "<h1>{name}</h1><script id=state type=application/json>{state}</script><p>Made by hand.</p>"
        )))
    })
    .await;
    let at = appliance(&web).await;
    let json = json!({ "schemas": [{ "pageType": "product", "attributes": [
        { "name": "name", "xpaths": ["//h1"], "type": "text" },
        { "name": "price", "jsonPaths": ["state $.item.cost"], "type": "number" },
        { "name": "maker", "jsonPaths": ["state $.item.maker"], "type": "text" },
    ]}]});
    let domain = Some("127.0.0.1".to_owned());
    at.operator(Request::SchemaImport { json: json.to_string(), domain }).await;
    let ada = at.member("ada").await;
    let product = json!({ "pageType": "product" });
    fetch(&ada.api, &web, 0..16, &product).await;
    counted(&ada.api, "price", 16).await;
    let before = expect(get(&ada.api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200);
    mode.store(NEW, Ordering::Relaxed);
    fetch(&ada.api, &web, 0..10, &product).await;
    in_state(&ada.api, "price", "repaired").await;
    in_state(&ada.api, "maker", "repaired").await;
    let schema = expect(get(&ada.api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200);
    let (price, old) = (&schema["attributes"][1], json!("state $.item.cost"));
    assert_eq!(price["xpaths"], json!([]), "{schema}");
    let paths = price["jsonPaths"].as_array().unwrap();
    // What reads the pages of before stays behind what reads those of now.
    assert!(paths.len() > 1 && paths[0] != old && paths.last() == Some(&old), "{schema}");
    // How far it is trusted is what pages gave that were held back.
    assert_ne!(schema["confidence"], before["confidence"], "{schema}");
    eventually("the results are read again", WAIT, || async {
        (priced(&ada.api).await == (26, 26)).then_some(())
    })
    .await;
    at.stop().await;
}

/// Each page of a site is read once and no job says of which type it is, so nothing says what a redesigned page was: that it lies
/// where the others lay does. Pages that lie elsewhere are others, and no change of the site.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redesign_shows_where_no_url_is_read_twice() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let shown = Arc::clone(&mode);
    let web = Web::asked(move |request| {
        let path = request.uri().path();
        match path.strip_prefix("/about/") {
            Some(_) => Some(Answer::html("<h2>About us</h2><p>We have made tools since 1921.</p>")),
            None => page(path, shown.load(Ordering::Relaxed)),
        }
    })
    .await;
    let at = appliance(&web).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let visit = async |api: &Client, paths: Vec<String>| {
        let jobs: Vec<Value> = paths.iter().map(|path| json!({ "url": web.url(path) })).collect();
        for job in jobs {
            let made = expect(post(api, "/api/v1/jobs", &job).await, 201);
            crate::harness::ended(api, text(&made, "id")).await;
        }
    };
    let numbered = |folder: &str, numbers: std::ops::Range<usize>| -> Vec<String> {
        numbers.map(|number| format!("/{folder}/{number}")).collect()
    };
    for who in [&ada, &eve] {
        visit(&who.api, numbered("goods", 0..16)).await;
        counted(&who.api, "price", 16).await;
    }
    visit(&eve.api, numbered("about", 0..10)).await;
    // What comes behind them is counted, so they were looked at.
    visit(&eve.api, numbered("goods", 16..17)).await;
    counted(&eve.api, "price", 17).await;
    assert_eq!((drift(&eve.api).await["state"].clone(), told(&eve.api).await), (json!("ok"), Vec::new()));
    mode.store(NEW, Ordering::Relaxed);
    visit(&ada.api, numbered("goods", 100..110)).await;
    let broken = in_state(&ada.api, "price", "broken").await;
    assert_eq!(broken["lastRepair"]["attributes"][0]["reason"], "too_few_pages", "{broken}");
    eventually("the organization is told", WAIT, || async {
        (told(&ada.api).await.len() == 1).then_some(())
    })
    .await;
    eventually("a discovery begins", WAIT, || async { (discoveries(&ada.browser).await == 1).then_some(()) })
        .await;
    assert_eq!(told(&eve.api).await, Vec::<Value>::new());
    at.stop().await;
}
