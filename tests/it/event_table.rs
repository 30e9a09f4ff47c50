//! The log of events as a table of the SQL console.

use crate::events::{listed, shop, visit};
use crate::harness::{ended, eventually, expect, looks_anew, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_a_table_of_the_console() {
    let (web, mut at) = shop(&[("EVENTS__ROWS_PER_ORG", "1000")]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    visit(&ada, &web.url("/shoe")).await;
    visit(&eve, &web.url("/hers")).await;
    let urls: Vec<_> = (0..300).map(|n| json!({ "url": format!("http://nobody.invalid/{n}") })).collect();
    let jobs = expect(post(&ada.api, "/api/v1/jobs/batch", &json!({ "jobs": urls })).await, 201);
    ended(&ada.api, text(&jobs["jobs"][299], "id")).await;
    let asked = async |api: &Client, sql: &str| {
        let answer = post(api, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
        expect(answer, 200)["results"]["rows"].clone()
    };
    // Every event once, as the list has it.
    eventually("the console has all of the log", PATIENCE, || async {
        let log = listed(&ada.api, "").await;
        let sums = asked(
            &ada.api,
            "SELECT count(*) AS a, count(DISTINCT seq) AS b, min(seq) AS c, max(seq) AS d FROM events",
        )
        .await;
        let first = asked(
            &ada.api,
            "SELECT seq, kind, subject_type, subject_id, domain FROM events ORDER BY seq LIMIT 50",
        )
        .await;
        let is_same = |(event, row): (&Value, &Value)| {
            [
                &event["seq"],
                &event["kind"],
                &event["subject"]["type"],
                &event["subject"]["id"],
                &event["domain"],
            ] == ["seq", "kind", "subject_type", "subject_id", "domain"].map(|name| &row[name])
        };
        let first = first.as_array().unwrap();
        let seqs =
            json!([{ "a": log.len(), "b": log.len(), "c": log[0]["seq"], "d": log.last().unwrap()["seq"] }]);
        (sums == seqs && first.len() == 50 && log.iter().zip(first).all(is_same)).then_some(())
    })
    .await;
    let data = asked(&ada.api, "SELECT data ->> 'url' AS url FROM events WHERE kind = 'job.succeeded'").await;
    assert_eq!(data, json!([{ "url": web.url("/shoe") }]), "{data}");
    let foreign =
        asked(&eve.api, "SELECT count(*) AS n FROM events WHERE data ->> 'url' LIKE '%nobody%'").await;
    assert_eq!(foreign, json!([{ "n": 0 }]));
    // What goes from the log goes from the console, but for a block of 200.
    let urls: Vec<_> =
        (0..500).map(|n| json!({ "url": format!("http://nobody.invalid/more/{n}") })).collect();
    expect(post(&ada.api, "/api/v1/jobs/batch", &json!({ "jobs": urls })).await, 201);
    eventually("old ones are gone", PATIENCE, || async {
        looks_anew(&at, "events.trim").await;
        let first = listed(&ada.api, "").await[0]["seq"].as_u64().unwrap();
        let known =
            asked(&ada.api, "SELECT min(seq) AS low, count(*) = count(DISTINCT seq) AS once FROM events")
                .await;
        (first > 300 && known[0]["low"].as_u64().unwrap() + 200 >= first && known[0]["once"] == true)
            .then_some(())
    })
    .await;
    at.restart().await;
    let api = at.client().bearer(&ada.key);
    let newest = listed(&api, "").await.last().unwrap()["seq"].clone();
    eventually("the console goes on", PATIENCE, || async {
        (asked(&api, "SELECT max(seq) AS high FROM events").await[0]["high"].as_u64() >= newest.as_u64())
            .then_some(())
    })
    .await;
    at.stop().await;
}
