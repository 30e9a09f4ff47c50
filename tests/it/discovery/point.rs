//! XPaths for an element that somebody points at.

use super::{collect_all, number, product};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, expect, get, post, refused, text};
use serde_json::{Value, json};
use uuid::Uuid;

const PROPOSE: &str = "/api/v1/extraction/propose-xpath";

/// Pages that say nothing of themselves, and one address that is no page.
async fn shop() -> Web {
    Web::open(|path| {
        if path == "/p/file" {
            let headers = vec![("content-type".to_owned(), "application/pdf".to_owned())];
            return Some(Answer { headers, ..Answer::html("%PDF-1.7") });
        }
        let number = number(path, "/p/")?;
        let bare = product(number, "").split("</script>").nth(1)?.to_owned();
        Some(Answer::html(format!(
            "<html lang=de>{bare}<p class=by>By Acme</p><ul class=tags><li>new {number}</li><li>oak</li></ul>\
             <a class=more href=/more/{number}>More</a>"
        )))
    })
    .await
}

fn xpaths(proposed: &Value) -> Vec<&str> {
    proposed["proposals"].as_array().unwrap().iter().map(|one| text(one, "xpath")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_becomes_an_attribute() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, other) = (at.member("ada").await, at.member("bob").await);
    let api = &member.api;
    let jobs = collect_all(api, &web, "/p/", 0..4).await;
    let asked = |more: Value| {
        let mut body = json!({ "domain": "127.0.0.1", "pageType": "product", "jobId": jobs[0]["id"] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let price = asked(json!({ "element": "/html/body/dl/dd", "text": " 48,50  € " }));
    let price = expect(post(api, PROPOSE, &price).await, 200);
    assert_eq!((&price["type"], &price["text"]), (&json!("number"), &json!("48,50 €")), "{price:#}");
    assert!(xpaths(&price).iter().any(|xpath| xpath.contains("Our price")), "{price:#}");
    assert_eq!(
        (&price["proposals"][0]["nodes"], &price["proposals"][0]["coverage"]),
        (&json!(1), &json!(1.0))
    );
    let pages = price["pages"].as_array().unwrap();
    assert_eq!((pages.len(), &pages[0]["jobId"], &pages[1]["jobId"]), (4, &jobs[0]["id"], &jobs[3]["id"]));
    let first: Vec<f64> = pages.iter().map(|page| page["values"][0].as_f64().unwrap()).collect();
    assert_eq!(first, [48.5, 24.0, 189.9, 61.2]);
    // A path that leads elsewhere is put right by the text.
    let moved = asked(json!({ "element": "/html/body/div[9]/p", "text": "By Acme" }));
    let moved = expect(post(api, PROPOSE, &moved).await, 200);
    assert!(xpaths(&moved)[0].contains("by"), "{moved:#}");
    let link = asked(json!({ "element": "//a[@class='more']", "attribute": "HREF" }));
    let link = expect(post(api, PROPOSE, &link).await, 200);
    assert_eq!((&link["type"], &link["pages"][0]["values"][0]), (&json!("url"), &json!(web.url("/more/0"))));
    let tags = asked(json!({ "element": "//li[1]", "list": true }));
    let tags = expect(post(api, PROPOSE, &tags).await, 200);
    assert_eq!((&tags["type"], &tags["pages"][0]["values"][0]), (&json!("text[]"), &json!(["new 0", "oak"])));
    let alone = expect(post(api, PROPOSE, &asked(json!({ "element": "//h1", "list": true }))).await, 200);
    assert_eq!(alone["proposals"], json!([]));

    // What is proposed can be kept as it is; the looking kept nothing.
    let attributes = "/api/v1/extraction/attributes/127.0.0.1";
    assert_eq!(get(api, attributes).await.status, 404);
    let kept =
        json!({ "name": "amount", "type": price["type"], "xpaths": xpaths(&price), "pageType": "product" });
    expect(post(api, attributes, &kept).await, 201);
    let read = json!({ "domain": "127.0.0.1", "pageType": "product" });
    expect(post(api, "/api/v1/extraction/backfill", &read).await, 200);
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&jobs[1], "resultId"));
    assert_eq!(expect(get(api, &result).await, 200)["values"]["amount"], 61.2);

    // Another organization has no such page, and this one no such element.
    let foreign = post(&other.api, PROPOSE, &asked(json!({ "element": "//h1" }))).await;
    let missing =
        post(&other.api, PROPOSE, &asked(json!({ "element": "//h1", "jobId": Uuid::now_v7() }))).await;
    assert_eq!((foreign.status.as_u16(), missing.status.as_u16()), (404, 404));
    assert_eq!(
        (&foreign.json["error"], &foreign.json["message"]),
        (&missing.json["error"], &missing.json["message"])
    );
    let file = crate::harness::collect(api, &web.url("/p/file")).await;
    for (more, part) in [
        (json!({ "element": "//h1", "text": "Moon saw" }), "element: leads to no element"),
        (json!({ "element": "//moon" }), "element: leads to no element"),
        (json!({ "element": "count(//h1)" }), "element: selects no element"),
        (json!({ "element": "//h1[" }), "element: "),
        (json!({ "element": "x".repeat(5_000) }), "element: has more than"),
        (json!({ "element": "//h1", "text": "x".repeat(20_000) }), "text: has more than"),
        (json!({ "element": "//h1", "attribute": "href" }), "attribute: is none"),
        (json!({ "element": "//h1", "domain": "shop.example" }), "jobId: its page is of 127.0.0.1"),
        (json!({ "element": "//h1", "jobId": file["id"] }), "jobId: what was fetched is no page"),
    ] {
        refused(&post(api, PROPOSE, &asked(more)).await, 400, "Validation failed", part);
    }
    at.stop().await;
}
