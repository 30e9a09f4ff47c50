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

/// Goods from this number on are no goods.
const NOTES: usize = 500;
/// What alone is not to be had.
const SOLD_OUT: usize = 2;

/// What pages say in their JSON alone is found again under other keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_were_renamed_in_a_pages_json_are_mended() {
    let page = |name: &str, state: &Value| {
        Answer::html(format!(
            "<h1>{name}</h1><script id=state type=application/json>{state}</script><p>Made by hand.</p>"
        ))
    };
    renamed_keys_are_mended(page, "state ", &["//h1"], &[]).await;
}

/// And so it is in answers that are JSON and no pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_were_renamed_in_json_answers_are_mended() {
    let answer = |name: &str, state: &Value| {
        let mut state = state.clone();
        state["title"] = json!(name);
        state["legal"] = json!("</script><p>None of this is a page.</p>");
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Answer { headers, ..Answer::html(state.to_string()) }
    };
    renamed_keys_are_mended(answer, "", &[], &["$.title"]).await;
}

/// A shop whose answers have a state, which has other keys after a while. `source` is what stands before the `$` of its JSONPaths, and
/// the names of its goods stay where they are.
async fn renamed_keys_are_mended(
    answer: fn(&str, &Value) -> Answer,
    source: &str,
    name_xpaths: &[&str],
    name_json_paths: &[&str],
) {
    let mode = Arc::new(AtomicU8::new(OLD));
    let shown = Arc::clone(&mode);
    let web = Web::asked(move |request| {
        let number: usize = request.uri().path().strip_prefix("/goods/")?.parse().ok()?;
        let (name, price, maker) = GOODS[number % GOODS.len()];
        let state = match shown.load(Ordering::Relaxed) {
            OLD => json!({ "item": { "cost": price, "maker": maker }, "seen": 12 }),
            _ => json!({ "product": { "offer": { "cost": price }, "maker": { "name": maker } }, "seen": 12 }),
        };
        Some(answer(name, &state))
    })
    .await;
    let at = appliance(&web).await;
    let json = json!({ "schemas": [{ "pageType": "product", "attributes": [
        { "name": "name", "xpaths": name_xpaths, "jsonPaths": name_json_paths, "type": "text" },
        { "name": "price", "jsonPaths": [format!("{source}$.item.cost")], "type": "number" },
        { "name": "maker", "jsonPaths": [format!("{source}$.item.maker")], "type": "text" },
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
    let (price, old) = (&schema["attributes"][1], json!(format!("{source}$.item.cost")));
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

/// What says yes and no shows on pages of both answers only, and the newest of a shop may all be in stock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_or_no_is_mended_by_the_last_page_that_said_no() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let shown = Arc::clone(&mode);
    let web = Web::asked(move |request| {
        let number: usize = request.uri().path().strip_prefix("/goods/")?.parse().ok()?;
        let (name, ..) = GOODS[number % GOODS.len()];
        let stock = if number == SOLD_OUT { "Sold out" } else { "In stock" };
        Some(Answer::html(match shown.load(Ordering::Relaxed) {
            OLD => format!("<h1>{name} {number}</h1><p class=stock>{stock}</p><p>Made by hand.</p>"),
            _ => format!(
                "<h1>{name} {number}</h1><p>Made by hand.</p><dl><dt>Availability</dt><dd class=is>{stock}</dd></dl>"
            ),
        }))
    })
    .await;
    let at = appliance(&web).await;
    let json = json!({ "schemas": [{ "pageType": "product", "attributes": [
        { "name": "name", "xpaths": ["//h1"], "type": "text" },
        { "name": "in_stock", "xpaths": ["//p[@class='stock']"], "type": "boolean" },
    ]}]});
    at.operator(Request::SchemaImport { json: json.to_string(), domain: Some("127.0.0.1".to_owned()) }).await;
    let ada = at.member("ada").await;
    let visit = async |numbers: std::ops::Range<usize>| {
        let mut ids = Vec::new();
        for number in numbers {
            let job = json!({ "url": web.url(&format!("/goods/{number}")), "pageType": "product" });
            ids.push(text(&expect(post(&ada.api, "/api/v1/jobs", &job).await, 201), "id").to_owned());
        }
        for id in ids {
            crate::harness::ended(&ada.api, &id).await;
        }
    };
    visit(0..16).await;
    counted(&ada.api, "in_stock", 16).await;
    mode.store(NEW, Ordering::Relaxed);
    visit(SOLD_OUT..SOLD_OUT + 1).await;
    // Of so many that are as they were, a look is due when more are in stock behind it than a look takes of any.
    mode.store(OLD, Ordering::Relaxed);
    visit(16..19).await;
    mode.store(NEW, Ordering::Relaxed);
    visit(SOLD_OUT + 1..16).await;
    in_state(&ada.api, "in_stock", "repaired").await;
    let schema = expect(get(&ada.api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200);
    let paths = schema["attributes"][1]["xpaths"].as_array().unwrap();
    assert!(
        paths[0] != "//p[@class='stock']" && paths.last() == Some(&json!("//p[@class='stock']")),
        "{schema}"
    );
    at.stop().await;
}

/// Each page of a site is read once and no job says of which type it is, so nothing says what a redesigned page was: that it lies
/// where the others lay does. Pages that lie elsewhere are others, and so are those that lay among them before: no change of the site.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redesign_shows_where_no_url_is_read_twice() {
    let mode = Arc::new(AtomicU8::new(OLD));
    let shown = Arc::clone(&mode);
    let web = Web::asked(move |request| {
        let path = request.uri().path();
        let number = path.strip_prefix("/goods/").and_then(|number| number.parse().ok());
        match path.starts_with("/about/") || number >= Some(NOTES) {
            true => Some(Answer::html("<h2>About us</h2><p>We have made tools since 1921.</p>")),
            false => page(path, shown.load(Ordering::Relaxed)),
        }
    })
    .await;
    let at = appliance(&web).await;
    let (ada, eve, cyd) = (at.member("ada").await, at.member("eve").await, at.member("cyd").await);
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
    for number in 0..12 {
        let (first, second) = (NOTES + 2 * number, NOTES + 2 * number + 1);
        visit(&cyd.api, [number, first, second].map(|number| format!("/goods/{number}")).to_vec()).await;
    }
    visit(&cyd.api, numbered("goods", 2 * NOTES..2 * NOTES + 10)).await;
    visit(&cyd.api, numbered("goods", 12..13)).await;
    counted(&cyd.api, "price", 13).await;
    for who in [&eve, &cyd] {
        assert_eq!((drift(&who.api).await["state"].clone(), told(&who.api).await), (json!("ok"), Vec::new()));
    }
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
