//! Pages as they were fetched, what a URL said over time, and how two results differ: getResultHtml, getExtractionHistory,
//! diffResults.

use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, ended, expect, get, join, post, refused, text};
use http::Method;
use serde_json::{Value, json};
use server::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use uuid::Uuid;

const RESULTS: &str = "/api/v1/extraction/results/by-id";
const HISTORY: &str = "/api/v1/extraction/history";

/// `/plane` costs one more with each visit, and has a maker from the third one on; `/saw` costs 2 at its second visit and else 1.
async fn shop() -> Web {
    let (visits, saws) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    Web::open(move |path| match path {
        "/plane" => {
            let visit = visits.fetch_add(1, Ordering::Relaxed);
            let maker = if visit > 1 { "<em>Veritas</em>" } else { "" };
            let script = "<script>alert(document.domain)</script>";
            Some(Answer::html(format!("<h1>Plane</h1><b>{}</b>{maker}{script}", 100 + visit)))
        }
        "/saw" => {
            let price = if saws.fetch_add(1, Ordering::Relaxed) == 1 { 2 } else { 1 };
            Some(Answer::html(format!("<h1>Saw</h1><b>{price}</b>")))
        }
        "/other" => Some(Answer::html("<h1>Chisel</h1><b>7</b>")),
        "/story/old" => Some(story("costs 12 guilders, and is not sharp", "It was made in Ghent.")),
        "/story/new" => Some(story("costs 14 guilders, and is sharp", "It was made in Bruges, they say.")),
        "/same" => Some(Answer::html(format!("<p>{}</p>", "same ".repeat(200_000)))),
        "/different" => Some(Answer::html((0..30).map(many_words).collect::<String>())),
        "/shuffled" => Some(Answer::html((0..30).rev().map(many_words).collect::<String>())),
        _ => None,
    })
    .await
}

/// Prose of some words, of which two places differ.
fn story(price: &str, maker: &str) -> Answer {
    let middle = "There are many like it, but this one has been in use for a hundred years. ".repeat(8);
    Answer::html(format!("<article><p>The plane {price}. {middle}</p><p>{maker}</p></article>"))
}

/// A paragraph of 4,000 words of which none stands anywhere else.
fn many_words(paragraph: usize) -> String {
    let words = (0..4_000).map(|word| format!("w{:x} ", (paragraph * 4_000 + word) * 7_919));
    format!("<p>{}</p>", words.collect::<String>())
}

async fn appliance(web: &Web) -> Appliance {
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let attribute =
        |name: &str, xpath: &str, kind: &str| json!({ "name": name, "xpaths": [xpath], "type": kind });
    let attributes = [
        attribute("name", "//h1", "text"),
        attribute("price", "//b", "number"),
        attribute("maker", "//em", "text"),
    ];
    let json = json!({ "schemas": [{ "pageType": "product", "attributes": attributes }] }).to_string();
    at.operator(Request::SchemaImport { json, domain: Some("127.0.0.1".to_owned()) }).await;
    at
}

/// The id of the result of a new job.
async fn visit(client: &Client, url: &str) -> String {
    let job = json!({ "url": url, "pageType": "product" });
    let job = expect(post(client, "/api/v1/jobs", &job).await, 201);
    let job = ended(client, text(&job, "id")).await;
    text(&job, "resultId").to_owned()
}

fn on_the_box(at: &Appliance, url: &str) -> String {
    url.strip_prefix(at.app().url()).expect("a link to this box").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_saved_as_it_was_fetched() {
    let web = shop().await;
    let at = appliance(&web).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let id = visit(api, &web.url("/plane")).await;
    let path = format!("{RESULTS}/{id}/html");
    let reply = get(api, &path).await;
    assert_eq!(reply.header("cache-control"), "no-store");
    let told = expect(reply, 200);
    let page = "<h1>Plane</h1><b>100</b><script>alert(document.domain)</script>";
    assert_eq!(told["byteSize"], page.len());
    assert!(text(&told, "contentType").starts_with("text/html"), "{told}");
    let minutes = at.clock.now().after(Duration::from_secs(5 * 60)).to_string();
    assert!(text(&told, "expiresAt") <= minutes.as_str(), "{told}");

    // Without a credential; as a file, which no browser shows or runs as the box's.
    let link = on_the_box(&at, text(&told, "url"));
    let saved = get(&at.client(), &link).await;
    assert_eq!((saved.status.as_u16(), saved.text().as_str()), (200, page));
    assert_eq!(saved.header("content-type"), "text/html");
    assert!(saved.header("content-security-policy").starts_with("sandbox;"), "{:?}", saved.headers);
    assert_eq!(saved.header("content-disposition"), format!("attachment; filename=\"page-{id}.html\""));
    assert_eq!(saved.header("x-content-type-options"), "nosniff");

    // Another's, a missing and a malformed one.
    let foreign = get(&stranger.api, &path).await;
    refused(&foreign, 404, "Result not found", "");
    for other in [Uuid::now_v7().to_string(), "not-an-id".to_owned()] {
        assert_eq!(get(&stranger.api, &format!("{RESULTS}/{other}/html")).await.text(), foreign.text());
    }
    // A link is not another one's, and is over in time.
    let mut forged = link.clone();
    forged.replace_range(forged.len() - 1.., if link.ends_with('A') { "B" } else { "A" });
    refused(&get(&at.client(), &forged).await, 404, "File not found", "");
    at.clock.advance(Duration::from_secs(5 * 60 + 1));
    refused(&get(&at.client(), &link).await, 404, "File not found", "");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_ends_with_the_page_and_with_who_asked_for_it() {
    let web = shop().await;
    let at = appliance(&web).await;
    let member = at.member("ada").await;
    let id = visit(&member.api, &web.url("/plane")).await;
    let viewer = join(&at, &member.browser, "walt", "viewer").await;
    let linked = async |client: &Client| {
        let told = expect(get(client, &format!("{RESULTS}/{id}/html")).await, 200);
        on_the_box(&at, text(&told, "url"))
    };
    let (of_viewer, of_owner) = (linked(&viewer.browser).await, linked(&member.api).await);
    assert_eq!(get(&at.client(), &of_viewer).await.status, 200);
    let membership = format!("/api/v1/orgs/current/members/{}", viewer.id);
    assert_eq!(member.browser.send(Method::DELETE, &membership, None).await.unwrap().status, 204);
    refused(&get(&at.client(), &of_viewer).await, 404, "File not found", "");
    assert_eq!(get(&at.client(), &of_owner).await.status, 200);
    assert_eq!(member.api.delete(&format!("{RESULTS}/{id}")).await.unwrap().status, 204);
    refused(&get(&at.client(), &of_owner).await, 404, "File not found", "");
    at.stop().await;
}

async fn three_visits(web: &Web, member: &Member) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(visit(&member.api, &web.url("/plane")).await);
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_url_said_is_listed_oldest_first() {
    let web = shop().await;
    let at = appliance(&web).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let urls = json!({ "urls": [web.url("/plane")] });
    expect(post(api, "/api/v1/urls", &urls).await, 200);
    let registered = expect(get(api, "/api/v1/urls").await, 200)["items"][0]["id"].clone();
    let ids = three_visits(&web, &member).await;
    visit(api, &web.url("/other")).await;
    // The fragment is not a part of a URL.
    let of_url = format!("{HISTORY}?url={}%23top", web.url("/plane"));
    let listed = expect(get(api, &of_url).await, 200);
    let items = listed["items"].as_array().unwrap();
    let listed_ids: Vec<_> = items.iter().map(|item| text(item, "resultId")).collect();
    assert_eq!(listed_ids, ids);
    let price = |from: i32, to: i32| json!({ "name": "price", "from": from, "to": to });
    let maker = json!({ "name": "maker", "from": null, "to": "Veritas" });
    assert_eq!(items[0]["changed"], json!([]));
    assert_eq!(items[1]["changed"], json!([price(100, 101)]));
    assert_eq!(items[2]["changed"], json!([price(101, 102), maker]));
    assert_eq!((&items[2]["schemaVersion"], &items[2]["attributesVersion"]), (&json!(1), &Value::Null));
    let of_id = format!("{HISTORY}?urlId={}", registered.as_str().unwrap());
    assert_eq!(expect(get(api, &of_id).await, 200), listed);

    let mut paged = Vec::new();
    let mut next = format!("{of_url}&limit=1");
    loop {
        let page = expect(get(api, &next).await, 200);
        paged.extend(page["items"].as_array().unwrap().clone());
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        let of_other = format!("{HISTORY}?url={}&cursor={cursor}", web.url("/other"));
        refused(&get(api, &of_other).await, 400, "Validation failed", "cursor: belongs to");
        next = format!("{of_url}&limit=1&cursor={cursor}");
    }
    assert_eq!(json!(paged), listed["items"]);

    // Others have no history of it; and nobody's URL is missing.
    assert_eq!(expect(get(&stranger.api, &of_url).await, 200)["items"], json!([]));
    let foreign = get(&stranger.api, &of_id).await;
    refused(&foreign, 404, "URL not found", "");
    let missing = get(&stranger.api, &format!("{HISTORY}?urlId={}", Uuid::now_v7())).await;
    assert_eq!(missing.text(), foreign.text());
    for (query, part) in [
        ("", "url: is missing"),
        ("?url=nonsense", "url: "),
        ("?urlId=7", "urlId: "),
        (&format!("?url=http://a.example/&urlId={}", Uuid::now_v7()), "urlId: give either"),
        ("?cursor=abc", "cursor: "),
    ] {
        refused(&get(api, &format!("{HISTORY}{query}")).await, 400, "Validation failed", part);
    }
    at.stop().await;
}

/// What was different in a result that is deleted is no difference of what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_goes_with_the_result_that_had_it() {
    let web = shop().await;
    let at = appliance(&web).await;
    let member = at.member("ada").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(visit(&member.api, &web.url("/saw")).await);
    }
    let listed = async || {
        let path = format!("{HISTORY}?url={}", web.url("/saw"));
        let listed = expect(get(&member.api, &path).await, 200);
        let items = listed["items"].as_array().unwrap();
        items.iter().map(|item| item["changed"].clone()).collect::<Vec<_>>()
    };
    let price = |from: i32, to: i32| json!([{ "name": "price", "from": from, "to": to }]);
    assert_eq!(listed().await, [json!([]), price(1, 2), price(2, 1)]);
    assert_eq!(member.api.delete(&format!("{RESULTS}/{}", ids[1])).await.unwrap().status, 204);
    assert_eq!(listed().await, [json!([]), json!([])]);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_results_are_compared() {
    let web = shop().await;
    let at = appliance(&web).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let ids = three_visits(&web, &member).await;
    let diff = async |client: &Client, one: &str, other: &str| {
        get(client, &format!("{RESULTS}/{one}/diff?with={other}")).await
    };
    let forwards = expect(diff(api, &ids[0], &ids[2]).await, 200);
    let changes = json!([
        { "name": "price", "from": 100, "to": 102 }, { "name": "maker", "from": null, "to": "Veritas" },
    ]);
    assert_eq!(forwards["attributes"], changes);
    let backwards = expect(diff(api, &ids[2], &ids[0]).await, 200);
    assert_eq!(backwards["attributes"][1], json!({ "name": "maker", "from": "Veritas", "to": null }));
    assert_eq!(expect(diff(api, &ids[1], &ids[1]).await, 200)["attributes"], json!([]));
    // Also of two URLs.
    let other = visit(api, &web.url("/other")).await;
    let across = expect(diff(api, &ids[0], &other).await, 200);
    assert_eq!(across["attributes"][0], json!({ "name": "name", "from": "Plane", "to": "Chisel" }));

    let missing = Uuid::now_v7().to_string();
    let own = visit(&stranger.api, &web.url("/other")).await;
    let unknown = diff(&stranger.api, &own, &missing).await;
    refused(&unknown, 404, "Result not found", "");
    for (one, with) in [(&own, &ids[0]), (&ids[0], &own), (&ids[0], &ids[1]), (&missing, &own)] {
        assert_eq!(diff(&stranger.api, one, with).await.text(), unknown.text(), "{one} {with}");
    }
    let path = format!("{RESULTS}/{}/diff", ids[0]);
    refused(&get(api, &path).await, 400, "Validation failed", "with: is missing");
    refused(&get(api, &format!("{path}?with=7")).await, 400, "Validation failed", "with: ");
    at.stop().await;
}

/// The old and the new text that changes tell of, where nothing was left out.
fn both_texts(diff: &Value) -> (String, String) {
    let side = |without: &str| {
        let all = diff["text"].as_array().unwrap().iter();
        all.filter(|change| change["op"] != without).map(|change| text(change, "text")).collect()
    };
    (side("insert"), side("delete"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_words_of_two_pages_are_compared() {
    let web = shop().await;
    let at = appliance(&web).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let (old, new) = (visit(api, &web.url("/story/old")).await, visit(api, &web.url("/story/new")).await);
    let path = format!("{RESULTS}/{old}/diff?with={new}");

    let told = expect(get(api, &format!("{path}&context=3")).await, 200);
    let change = |op: &str, text: &str, left: usize| json!({ "op": op, "text": text, "wordsLeftOut": left });
    let expected = json!([
        change("equal", "The plane costs ", 0),
        change("delete", "12", 0),
        change("insert", "14", 0),
        change("equal", " guilders, and is ", 0),
        change("delete", "not ", 0),
        change("equal", "sharp. There are ", 127),
        change("equal", "was made in ", 0),
        change("delete", "Ghent", 0),
        change("insert", "Bruges, they say", 0),
        change("equal", ".\n", 0),
    ]);
    assert_eq!((&told["text"], &told["textNote"]), (&expected, &Value::Null));

    // With as much around them as there is, the changes are both texts.
    let whole = expect(get(api, &format!("{path}&context=100000")).await, 200);
    let mut texts = Vec::new();
    for id in [&old, &new] {
        let read = expect(get(api, &format!("{RESULTS}/{id}/content?format=text")).await, 200);
        texts.push(text(&read, "content").to_owned());
    }
    assert_eq!(both_texts(&whole), (texts[0].clone(), texts[1].clone()));
    let itself = expect(get(api, &format!("{RESULTS}/{old}/diff?with={old}")).await, 200);
    assert_eq!((itself["text"].as_array().unwrap().len(), &itself["text"][0]["op"]), (1, &json!("equal")));
    for context in ["100001", "-1", "some"] {
        refused(&get(api, &format!("{path}&context={context}")).await, 400, "Validation failed", "context: ");
    }
    // Nobody else's pages: not as the one, and not as the other.
    let own = visit(&stranger.api, &web.url("/story/new")).await;
    for (one, with) in [(&old, &new), (&own, &old), (&old, &own)] {
        let reply = get(&stranger.api, &format!("{RESULTS}/{one}/diff?with={with}")).await;
        refused(&reply, 404, "Result not found", "");
    }
    at.stop().await;
}

/// However little two pages have in common, an answer comes, is bounded, and others do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_texts_are_compared_within_bounds() {
    let web = shop().await;
    let at = appliance(&web).await;
    let (busy, mine) = (at.member("busy").await, at.member("mine").await);
    let mut ids = Vec::new();
    for page in ["/same", "/different", "/shuffled"] {
        ids.push(visit(&busy.api, &web.url(page)).await);
    }
    let own = visit(&mine.api, &web.url("/story/old")).await;
    let pairs = [(0, 1), (1, 2), (2, 0), (1, 0)];
    let theirs: Vec<_> = pairs
        .map(|(one, other)| format!("{RESULTS}/{}/diff?with={}", ids[one], ids[other]))
        .into_iter()
        .map(|path| {
            let api = busy.api.clone();
            tokio::spawn(async move { get(&api, &path).await })
        })
        .collect();
    let compared = expect(get(&mine.api, &format!("{RESULTS}/{own}/diff?with={own}")).await, 200);
    assert_eq!(compared["textNote"], Value::Null);
    for reply in theirs {
        let told = expect(reply.await.unwrap(), 200);
        assert!(
            told["text"].as_array().unwrap().len() <= 5_010,
            "{}",
            told["text"].as_array().unwrap().len()
        );
        assert!(
            told["textNote"].is_null() || text(&told, "textNote").contains("text"),
            "{}",
            told["textNote"]
        );
    }
    at.stop().await;
}
