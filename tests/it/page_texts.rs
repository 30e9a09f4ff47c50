//! The main text of pages as a column of the SQL console.

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const QUERIES: &str = "/api/v1/bi/queries";
const WAIT: Duration = Duration::from_secs(60);

fn article(about: &str) -> Answer {
    let prose =
        format!("{about} There was nobody in the village who had seen such a thing, they said. ").repeat(6);
    Answer::html(format!(
        "<nav><a href=/>Home of all</a></nav><article><h1>News</h1><p>{prose}</p></article>"
    ))
}

async fn news() -> Web {
    Web::open(|path| match path {
        "/river" => Some(article("The river rose by two metres.")),
        "/fire" => Some(article("The mill burned down.")),
        "/long" => Some(Answer::html(format!("<p>{}</p>", "long words of many, ".repeat(5_000)))),
        "/deep" => Some(Answer::html("<div>".repeat(200_000))),
        "/tables" => Some(Answer::html("<table><tr><td><ul><li>a, b.".repeat(20_000))),
        _ => None,
    })
    .await
}

async fn rows(client: &Client, sql: &str) -> Vec<Value> {
    let asked = json!({ "sql": sql, "waitMs": 10_000 });
    let answer = expect(post(client, QUERIES, &asked).await, 200);
    answer["results"]["rows"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

async fn gives(client: &Client, sql: &str, expected: Value) {
    eventually(&format!("{sql} gives {expected}"), WAIT, || async {
        let answer = post(client, QUERIES, &json!({ "sql": sql, "waitMs": 10_000 })).await;
        // 202 of a busy machine, 503 while tables are made anew: asked again.
        assert!(matches!(answer.status.as_u16(), 200 | 202 | 503), "{}", answer.text());
        (answer.json["results"]["rows"] == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_pages_say_is_searched_by_patterns() {
    let web = news().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let river = collect(&ada.api, &web.url("/river")).await;
    collect(&ada.api, &web.url("/fire")).await;
    collect(&eve.api, &web.url("/fire")).await;

    let texts = "SELECT count(text) AS n FROM readings";
    gives(&ada.api, texts, json!([{ "n": 2 }])).await;
    let found = rows(&ada.api, "SELECT result_id, text FROM readings WHERE text LIKE '%rose by two%'").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["result_id"], river["resultId"]);
    // The same as the content of the page.
    let content =
        format!("/api/v1/extraction/results/by-id/{}/content?format=text", text(&river, "resultId"));
    assert_eq!(found[0]["text"], expect(get(&ada.api, &content).await, 200)["content"]);
    assert!(!text(&found[0], "text").contains("Home of all"), "{}", found[0]);
    let by_pattern = "SELECT url FROM readings WHERE regexp_like(text, 'mill\\s+burn', 'i')";
    gives(&ada.api, by_pattern, json!([{ "url": web.url("/fire") }])).await;
    // So has the table of the newest rows, and nobody sees another's.
    let newest = "SELECT count(*) AS n FROM latest_readings WHERE text LIKE '%rose%'";
    gives(&ada.api, newest, json!([{ "n": 1 }])).await;
    gives(&eve.api, texts, json!([{ "n": 1 }])).await;
    assert_eq!(rows(&eve.api, "SELECT 1 FROM readings WHERE text LIKE '%rose%'").await, Vec::<Value>::new());

    // A text goes with its row.
    let path = format!("/api/v1/extraction/results/by-id/{}", text(&river, "resultId"));
    assert_eq!(ada.api.delete(&path).await.unwrap().status, 204);
    gives(&ada.api, "SELECT count(*) AS n, count(text) AS t FROM readings", json!([{ "n": 1, "t": 1 }]))
        .await;
    at.stop().await;
}

/// Pages that take long, of one organization, and those of another one beside them: all get what they have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_pages_get_short_texts_and_keep_nobody_waiting() {
    let web = news().await;
    let mut at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (busy, mine) = (at.member("busy").await, at.member("mine").await);
    for page in ["/long", "/deep", "/tables", "/missing"] {
        let job = expect(post(&busy.api, "/api/v1/jobs", &json!({ "url": web.url(page) })).await, 201);
        crate::harness::ended(&busy.api, text(&job, "id")).await;
    }
    collect(&mine.api, &web.url("/river")).await;
    gives(&mine.api, "SELECT count(*) AS n FROM readings WHERE text LIKE '%river%'", json!([{ "n": 1 }]))
        .await;
    let cut = "SELECT octet_length(text) AS n FROM readings WHERE url LIKE '%/long'";
    gives(&busy.api, cut, json!([{ "n": 16_384 }])).await;
    let all = "SELECT count(text) AS n FROM readings WHERE url NOT LIKE '%/missing'";
    gives(&busy.api, all, json!([{ "n": 3 }])).await;

    // What was made stays over a restart, also where the snapshots are made anew.
    at.pause().await;
    std::fs::remove_dir_all(at.data_dir().join("snapshots")).unwrap();
    at.restart().await;
    gives(&at.client().bearer(&busy.key), all, json!([{ "n": 3 }])).await;
    at.stop().await;
}
