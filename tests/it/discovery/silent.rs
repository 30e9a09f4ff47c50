//! Pages without structured data: what they look like teaches, and the schema says how little that is to be trusted.

use super::{GOODS, collect_all, discovered, names};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, expect, get, text};
use serde_json::json;

/// A page of something for sale that says nothing of itself: an old price, and that of something else, stand beside its own.
fn silent(number: usize) -> String {
    let (name, price, _) = GOODS[number % GOODS.len()];
    format!(
        "<html lang=de><title>{name} | Shop</title><body><nav><a href=/>Home</a></nav><div class=product><h1>{name}</h1>\
         <p class=was><s>99,00 €</s></p><p class=price>{} €</p><p>Item no: <b>PL-{}</b></p><button>Add to cart</button></div>\
         <div class=related><i class=price>5,00 €</i></div></body></html>",
        price.replace('.', ","),
        1_000 + 37 * number
    )
}

async fn shop() -> Web {
    Web::open(|path| match path.strip_prefix("/q/") {
        Some(number) => Some(Answer::html(silent(number.parse().ok()?))),
        None if path.starts_with("/about/") => {
            Some(Answer::html(format!("<title>About</title><h1>About us, {path}</h1>")))
        }
        None => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_pages_look_like_teaches_where_they_say_nothing() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (api, other) = (at.member("ada").await.api, at.member("eve").await.api);
    collect_all(&api, &web, "/q/", 0..6).await;
    collect_all(&api, &web, "/about/", 0..2).await;
    let found = discovered(&api, &json!({ "domain": "127.0.0.1" })).await;
    assert_eq!((text(&found, "status"), text(&found, "pageType")), ("succeeded", "product"), "{found:#}");
    let reasons =
        found["sample"].as_array().unwrap().iter().filter(|page| page["url"].to_string().contains("/about/"));
    assert!(reasons.into_iter().all(|page| page["reason"] == "no_answers"), "{found:#}");
    let schema = expect(get(&api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200);
    let learned = names(&schema["attributes"]);
    assert!(["name", "price", "sku"].iter().all(|name| learned.contains(name)), "{schema:#}");
    assert_eq!(schema["discoveredBy"], "reverse_engineered");
    assert!(schema["confidence"].as_f64().is_some_and(|share| share <= 0.6), "{schema:#}");
    // It reads pages that it has not seen, for whoever collects them.
    let job = collect(&other, &web.url("/q/7")).await;
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
    let values = expect(get(&other, &result).await, 200)["values"].clone();
    assert_eq!(
        (&values["name"], &values["price"], &values["sku"]),
        (&json!(GOODS[7].0), &json!(55.6), &json!("PL-1259")),
        "{values:#}"
    );
    at.stop().await;
}
