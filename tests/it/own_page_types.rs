//! Page types of organizations' own: from their first attribute to their last one, in jobs, URLs, inputs and the SQL console.

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, ended, eventually, expect, get, post, refused, text};
use http::Method;
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const SITE: &str = "/api/v1/extraction/attributes/127.0.0.1";
const OWN: &str = "/api/v1/extraction/attributes";
const TABLES: &str = "/api/v1/bi/tables";
const QUERIES: &str = "/api/v1/bi/queries";
const WAIT: Duration = Duration::from_secs(30);

/// `/house/<n>` has so many rooms and costs as much.
async fn town() -> Web {
    Web::open(|path| {
        let number = path.strip_prefix("/house/")?;
        let page = format!("<h1>House {number}</h1><b>{number}</b><i>{number}50000</i><em>yes</em>");
        Some(Answer::html(page))
    })
    .await
}

fn attribute(name: &str, xpath: &str, kind: &str) -> Value {
    json!({ "name": name, "xpaths": [xpath], "type": kind, "pageType": "real_estate" })
}

async fn put(client: &Client, attributes: Value) -> Value {
    expect(client.put(SITE, &json!({ "attributes": attributes })).await.unwrap(), 200)
}

/// The result of a page of that type; or of no named type.
async fn visit(client: &Client, url: &str, page_type: Option<&str>) -> Value {
    let job = json!({ "url": url, "pageType": page_type });
    let job = expect(post(client, "/api/v1/jobs", &job).await, 201);
    let job = ended(client, text(&job, "id")).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let path = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
    expect(get(client, &path).await, 200)
}

async fn answer(client: &Client, sql: &str) -> Value {
    let asked = json!({ "sql": sql, "waitMs": 10_000 });
    let reply = post(client, QUERIES, &asked).await;
    if reply.status == 200 {
        reply.json["results"]["rows"].clone()
    } else {
        reply.json["error"]["code"].clone()
    }
}

/// Waits until a statement gives these rows, or is refused with this code.
async fn gives(client: &Client, sql: &str, expected: Value) {
    eventually(&format!("{sql} gives {expected}"), WAIT, || async {
        (answer(client, sql).await == expected).then_some(())
    })
    .await;
}

async fn tables(client: &Client) -> Vec<String> {
    let listed = expect(get(client, TABLES).await, 200);
    let items = listed["items"].as_array().unwrap();
    let own = items.iter().map(|item| text(item, "name")).filter(|name| name.contains("real_estate"));
    own.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_organizations_have_a_page_type_of_one_name_and_their_own_columns() {
    let web = town().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (ada, eve, bob) = (at.member("ada").await, at.member("eve").await, at.member("bob").await);
    let saved =
        put(&ada.api, json!([attribute("rooms", "//b", "number"), attribute("balcony", "//em", "boolean")]))
            .await;
    assert_eq!(saved["attributes"][0]["pageType"], "real_estate");
    put(&eve.api, json!([attribute("asking_price", "//i", "number")])).await;
    let of_ada = "SELECT rooms, balcony FROM real_estate ORDER BY 1";
    gives(&ada.api, of_ada, json!([])).await;

    // A page of this type by name, and one of which nobody says what it is.
    let named = visit(&ada.api, &web.url("/house/3"), Some("real_estate")).await;
    assert_eq!(named["values"], json!({ "rooms": 3, "balcony": true }));
    let found = visit(&ada.api, &web.url("/house/4"), None).await;
    assert_eq!((&named["pageType"], &found["pageType"]), (&json!("real_estate"), &json!("real_estate")));
    visit(&ada.api, &web.url("/house/4"), None).await;
    visit(&eve.api, &web.url("/house/7"), Some("real_estate")).await;
    let row = |rooms: f64| json!({ "rooms": rooms, "balcony": true });
    gives(&ada.api, of_ada, json!([row(3.0), row(4.0), row(4.0)])).await;
    gives(&ada.api, "SELECT rooms, balcony FROM latest_real_estate ORDER BY 1", json!([row(3.0), row(4.0)]))
        .await;
    let of_eve = "SELECT asking_price, page_type FROM real_estate";
    gives(&eve.api, of_eve, json!([{ "asking_price": 750_000.0, "page_type": "real_estate" }])).await;

    // Neither sees the other's columns, and who has no such page type sees nothing of it.
    assert_eq!(answer(&ada.api, of_eve).await, "invalid_sql");
    assert_eq!(answer(&eve.api, of_ada).await, "invalid_sql");
    assert_eq!((tables(&ada.api).await.len(), tables(&eve.api).await.len()), (2, 2));
    assert_eq!(tables(&bob.api).await, Vec::<String>::new());
    let foreign = get(&bob.api, &format!("{TABLES}/real_estate")).await;
    let missing = get(&bob.api, &format!("{TABLES}/real_estates")).await;
    assert_eq!((foreign.status, missing.status.as_u16()), (missing.status, 404));
    let nowhere = answer(&bob.api, "SELECT 1 FROM real_estate").await;
    assert_eq!(nowhere, answer(&bob.api, "SELECT 1 FROM real_estates").await);
    let described = expect(get(&ada.api, &format!("{TABLES}/real_estate")).await, 200);
    let columns: Vec<_> =
        described["columns"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
    assert!(columns.contains(&"rooms") && !columns.contains(&"asking_price"), "{columns:?}");
    // In lists, and by the long form.
    let filtered = "/api/v1/extraction/results?pageType=real_estate";
    eventually("the results are found", WAIT, || async {
        (expect(get(&ada.api, filtered).await, 200)["total"] == 3).then_some(())
    })
    .await;
    gives(
        &eve.api,
        "SELECT count(*) AS n FROM reading_values WHERE page_type = 'real_estate'",
        json!([{ "n": 1 }]),
    )
    .await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_page_types_that_there_are_can_be_named() {
    let web = town().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    put(&eve.api, json!([attribute("rooms", "//b", "number")])).await;
    let url = web.url("/house/1");
    let rule = json!({ "keep": { "pageType": "real_estate" } });
    let bodies = [
        ("/api/v1/jobs", json!({ "url": url, "pageType": "real_estate" }), "pageType: "),
        (
            "/api/v1/jobs/batch",
            json!({ "jobs": [{ "url": url }, { "url": url, "pageType": "real_estate" }] }),
            "jobs[1].pageType: ",
        ),
        ("/api/v1/urls/delete", json!({ "filter": { "pageType": "real_estate" } }), "filter.pageType: "),
        (
            "/api/v1/extraction/results/delete",
            json!({ "filter": { "pageType": "real_estate" } }),
            "filter.pageType: ",
        ),
        (
            "/api/v1/extraction/backfill",
            json!({ "domain": "127.0.0.1", "pageType": "real_estate" }),
            "pageType: ",
        ),
        (
            "/api/v1/inputs",
            json!({ "kind": "webhook", "name": "a", "pageType": "real_estate" }),
            "pageType: ",
        ),
        (
            "/api/v1/inputs",
            json!({ "kind": "crawl", "name": "b", "startUrls": [url], "rules": [{}, rule] }),
            "rules[1].keep.pageType: ",
        ),
    ];
    let lists = [
        "/api/v1/urls?pageType=real_estate",
        "/api/v1/extraction/results?pageType=real_estate",
        "/api/v1/extraction/schemas?pageType=real_estate",
    ];
    for (path, body, field) in &bodies {
        refused(&post(&ada.api, path, body).await, 400, "Validation failed", field);
        // No other name is refused otherwise: nothing tells that somebody else has it.
        let other: Value =
            serde_json::from_str(&body.to_string().replace("real_estate", "unreal_estate")).unwrap();
        let (one, two) = (post(&ada.api, path, body).await, post(&ada.api, path, &other).await);
        assert_eq!(one.text().replace("real_estate", ""), two.text().replace("unreal_estate", ""), "{path}");
    }
    for list in lists {
        refused(&get(&ada.api, list).await, 400, "Validation failed", "pageType: ");
    }
    let entry = |page_type: &str| json!({ "urls": [{ "url": url, "pageType": page_type }] });
    let wrong = post(&ada.api, "/api/v1/urls", &entry("real_estate")).await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("urls[0].pageType: "), "{}", wrong.text());

    // Once there is one, all of them take it.
    put(&ada.api, json!([attribute("rooms", "//b", "number")])).await;
    for list in lists {
        expect(get(&ada.api, list).await, 200);
    }
    assert_eq!(expect(post(&ada.api, "/api/v1/urls", &entry("real_estate")).await, 200)["created"], 1);
    for (path, body, _) in &bodies {
        let reply = post(&ada.api, path, body).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text());
    }
    let file = format!("url,page type\n{url}?2,Real Estate\n{url}?3,unreal\n").into_bytes();
    let told = ada.api.send_bytes(Method::POST, "/api/v1/urls/upload", Some("text/csv"), file).await;
    let told = expect(told.unwrap(), 200);
    assert_eq!((&told["created"], &told["invalid"][0]["line"]), (&json!(1), &json!(3)), "{told}");
    assert!(text(&told["invalid"][0], "reason").starts_with("pageType: `unreal` is neither"), "{told}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_type_ends_with_its_last_attribute_and_begins_again() {
    let web = town().await;
    let mut at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let ada = at.member("ada").await;
    put(&ada.api, json!([attribute("rooms", "//b", "number")])).await;
    let other = format!("{OWN}/b.example");
    expect(post(&ada.api, &other, &attribute("rooms", "//b", "number")).await, 201);
    visit(&ada.api, &web.url("/house/5"), Some("real_estate")).await;
    let rooms = "SELECT rooms FROM real_estate";
    gives(&ada.api, rooms, json!([{ "rooms": 5.0 }])).await;

    // That of another domain keeps it.
    assert_eq!(ada.api.delete(&format!("{SITE}/rooms")).await.unwrap().status, 204);
    gives(&ada.api, rooms, json!([{ "rooms": 5.0 }])).await;
    assert_eq!(ada.api.delete(&format!("{other}/rooms")).await.unwrap().status, 204);
    assert_eq!(tables(&ada.api).await, Vec::<String>::new());
    gives(&ada.api, rooms, json!("rls_denied")).await;
    let job = json!({ "url": web.url("/house/5"), "pageType": "real_estate" });
    refused(&post(&ada.api, "/api/v1/jobs", &job).await, 400, "Validation failed", "pageType: ");
    // The readings stay what they were.
    gives(
        &ada.api,
        "SELECT page_type, count(*) AS n FROM readings GROUP BY 1",
        json!([{ "page_type": "real_estate", "n": 1 }]),
    )
    .await;

    put(&ada.api, json!([attribute("rooms", "//b", "number"), attribute("price", "//i", "number")])).await;
    let both = "SELECT rooms, price FROM real_estate ORDER BY 2 DESC";
    gives(&ada.api, both, json!([{ "rooms": 5.0, "price": null }])).await;
    // Older rows are filled by reading them again, as those of the platform's page types.
    let again = json!({ "domain": "127.0.0.1", "pageType": "real_estate" });
    let done = expect(post(&ada.api, "/api/v1/extraction/backfill", &again).await, 200);
    assert_eq!((&done["isComplete"], &done["results"][0]["status"]), (&json!(true), &json!("updated")));
    gives(&ada.api, both, json!([{ "rooms": 5.0, "price": 550_000.0 }])).await;

    // Also where the snapshots are made anew.
    at.pause().await;
    std::fs::remove_dir_all(at.data_dir().join("snapshots")).unwrap();
    at.restart().await;
    let api = at.client().bearer(&ada.key);
    gives(&api, both, json!([{ "rooms": 5.0, "price": 550_000.0 }])).await;
    // A deleted result goes from the table.
    let gone = json!({ "filter": { "pageType": "real_estate" } });
    assert_eq!(expect(post(&api, "/api/v1/extraction/results/delete", &gone).await, 200)["deleted"], 1);
    gives(&api, both, json!([])).await;
    at.stop().await;
}

/// Somebody who makes up as many names as possible comes to an end, keeps nobody waiting, and leaves nothing behind when erased.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_up_page_types_are_bounded() {
    let web = town().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (busy, mine) = (at.member("busy").await, at.member("mine").await);
    let of = |number: usize| {
        let mut one = attribute(&format!("a{number}"), "//b", "number");
        one["pageType"] = json!(format!("made_up_{number}"));
        one
    };
    // Names that ended count as well, so that taking them back and forth makes no more of them.
    for step in 0..2 {
        let some: Vec<_> = (step * 25..(step + 1) * 25).map(of).collect();
        put(&busy.api, json!(some)).await;
    }
    let more = busy.api.put(SITE, &json!({ "attributes": [of(50)] })).await.unwrap();
    refused(&more, 400, "Validation failed", "pageType: `made_up_50` would be one more than the 50");
    put(&busy.api, json!((0..50).map(of).collect::<Vec<_>>())).await;
    for name in ["x".repeat(41), "X".to_owned(), "a-b".to_owned(), "é".repeat(300_000)] {
        let mut wrong = attribute("a", "//b", "number");
        wrong["pageType"] = json!(name);
        refused(&post(&busy.api, SITE, &wrong).await, 400, "Validation failed", "pageType: ");
    }
    // A page of no named type is tried as each of them, within the page's budget.
    let found = visit(&busy.api, &web.url("/house/2"), None).await;
    assert!(text(&found, "pageType").starts_with("made_up_"), "{found}");
    let one = format!("SELECT count(*) AS n FROM {}", text(&found, "pageType"));
    gives(&busy.api, &one, json!([{ "n": 1 }])).await;
    let counted = "SELECT count(*) AS n FROM information_schema.tables WHERE table_name LIKE '%made_up%'";
    gives(&busy.api, counted, json!([{ "n": 100 }])).await;
    assert_eq!(answer(&mine.api, counted).await, json!([{ "n": 0 }]));
    put(&mine.api, json!([attribute("rooms", "//b", "number")])).await;
    visit(&mine.api, &web.url("/house/2"), Some("real_estate")).await;
    gives(&mine.api, "SELECT rooms FROM real_estate", json!([{ "rooms": 2.0 }])).await;
    at.stop().await;
}
