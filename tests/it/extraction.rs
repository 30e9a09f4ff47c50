//! Results and schemas over HTTP: pages of a loopback shop, collected by jobs, read back, found and filtered.

use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, collect, ended, eventually, expect, get, post, refused, text};
use gleaner::admin;
use serde_json::{Value, json};
use server::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const RESULTS: &str = "/api/v1/extraction/results";
const SCHEMAS: &str = "/api/v1/extraction/schemas";
const NOBODY: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80912a3b";

/// A shop of planes whose prices go up with each visit of `/plane/…`, and one article.
async fn shop() -> Web {
    let visits = Arc::new(AtomicUsize::new(0));
    Web::open(move |path| match path {
        "/news" => Some(Answer::html("<title>News</title><h1>Planes & prices</h1><p class=by>Ada</p>")),
        "/moved" => Some(Answer::redirect("/moved/again")),
        "/moved/again" => Some(Answer::redirect("/plane/moved")),
        _ => {
            let name = path.strip_prefix("/plane/")?;
            let price = 100 + visits.fetch_add(1, Ordering::Relaxed);
            let page = format!("<title>{name}</title><h1>Smoothing plane {name}</h1><b>$ {price}.00</b>");
            Some(Answer::html(page))
        }
    })
    .await
}

fn schemas() -> Value {
    json!({ "schemas": [
        { "pageType": "product", "attributes": [
            { "name": "name", "xpaths": ["//h1"], "type": "text" },
            { "name": "price", "xpaths": ["//b"], "type": "number", "validation": { "max": 10_000 } },
            { "name": "brand", "xpaths": ["//i"], "type": "text" },
        ]},
        { "pageType": "article", "attributes": [
            { "name": "headline", "xpaths": ["//h1"], "type": "text" },
            { "name": "author", "xpaths": ["//p[@class='by']"], "type": "text" },
        ]},
    ]})
}

async fn appliance(web: &Web) -> (Appliance, Member) {
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let import = Request::SchemaImport { json: schemas().to_string(), domain: Some("127.0.0.1".to_owned()) };
    let summary = appliance.operator(import).await;
    assert_eq!(summary["created"], 2, "{summary}");
    let member = appliance.member("ada").await;
    (appliance, member)
}

/// The result of a job, once it is indexed.
async fn result_of(client: &Client, job: &Value) -> Value {
    let path = format!("{RESULTS}/{}", text(job, "id"));
    eventually("the result is indexed", Duration::from_secs(10), || async {
        let reply = get(client, &path).await;
        match reply.status.as_u16() {
            202 => None,
            _ => Some(expect(reply, 200)),
        }
    })
    .await
}

async fn list(client: &Client, query: &str) -> Value {
    expect(get(client, &format!("{RESULTS}?{query}")).await, 200)
}

fn items(list: &Value) -> &Vec<Value> {
    list["items"].as_array().expect("a list has items")
}

/// getResultByJob, getResult, listResults.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_collected_extracted_and_found() {
    let web = shop().await;
    let (appliance, member) = appliance(&web).await;
    let api = &member.api;
    let job = collect(api, &web.url("/plane/No.4")).await;
    let result = result_of(api, &job).await;
    assert_eq!(result["values"], json!({ "name": "Smoothing plane No.4", "price": 100 }));
    assert_eq!((&result["pageType"], &result["schemaVersion"]), (&json!("product"), &json!(1)));
    assert_eq!((&result["jobId"], &result["domain"]), (&job["id"], &json!("127.0.0.1")));
    assert_eq!(result["quality"], json!({ "completeness": 0.6667, "validation": 1.0, "composite": 0.8 }));
    assert_eq!((&result["changed"], &result["httpStatus"]), (&json!([]), &json!(200)));
    assert_eq!(text(&result, "contentHash").len(), 64);
    for time in ["scrapedAt", "extractedAt", "indexedAt"] {
        assert!(text(&result, time).ends_with('Z'), "{time}");
    }
    let by_id = expect(get(api, &format!("{RESULTS}/by-id/{}", text(&result, "id"))).await, 200);
    assert_eq!(by_id, result);

    let again = result_of(api, &collect(api, &web.url("/plane/No.4")).await).await;
    assert_eq!(again["changed"], json!(["price"]));
    assert_ne!(again["contentHash"], result["contentHash"]);
    let article = result_of(api, &collect(api, &web.url("/news")).await).await;
    assert_eq!(article["values"], json!({ "headline": "Planes & prices", "author": "Ada" }));

    let found = list(api, "q=smoothing&sort=relevance").await;
    assert_eq!((&found["total"], &found["nextCursor"]), (&json!(2), &Value::Null));
    assert_eq!(
        found["facets"],
        json!({
        "domain": [{ "value": "127.0.0.1", "count": 2 }], "pageType": [{ "value": "product", "count": 2 }] })
    );
    assert_eq!(items(&found)[0]["highlights"][0], "<em>Smoothing</em> plane No.4");
    let escaped = list(api, "q=prices").await;
    assert_eq!(items(&escaped)[0]["highlights"][0], "Planes &amp; <em>prices</em>");
    appliance.stop().await;
}

/// listResults: filters, facets, both orders, cursors.
#[tokio::test(flavor = "multi_thread")]
async fn filters_and_cursors_select() {
    let web = shop().await;
    let (appliance, member) = appliance(&web).await;
    let api = &member.api;
    let urls =
        json!({ "urls": [{ "url": web.url("/plane/a"), "tags": ["wood", "hand"], "pageType": "product" }] });
    expect(post(api, "/api/v1/urls", &urls).await, 200);
    let url = expect(get(api, "/api/v1/urls").await, 200)["items"][0]["id"].as_str().unwrap().to_owned();
    let tagged =
        expect(post(api, "/api/v1/jobs", &json!({ "urlId": url, "tags": ["wood", "rush"] })).await, 201);
    let tagged = ended(api, text(&tagged, "id")).await;
    let mut jobs = vec![tagged["id"].clone()];
    for path in ["/plane/b", "/plane/c", "/plane/b", "/news"] {
        jobs.push(collect(api, &web.url(path)).await["id"].clone());
    }
    let last = json!({ "id": jobs[4] });
    result_of(api, &last).await;
    let found = async |query: &str| -> Vec<usize> {
        let found = list(api, query).await;
        let place = |item: &Value| jobs.iter().position(|job| *job == item["jobId"]).unwrap();
        items(&found).iter().map(place).collect()
    };
    assert_eq!(found("").await, [4, 3, 2, 1, 0]);
    assert_eq!(found("pageType=article").await, [4]);
    assert_eq!(found("changed=true").await, [3]);
    assert_eq!(found(&format!("urlId={url}")).await, [0]);
    assert_eq!(found("tag=wood").await, [0]);
    assert_eq!(found("tag=wood&tag=stone").await, [0usize; 0]);
    // A result carries its job's tags and those of its URL.
    assert_eq!(found("tag=hand").await, [0]);
    assert_eq!(found("tag=rush&tag=hand").await, [0]);
    assert_eq!(found("minQuality=0.9").await, [4]);
    assert_eq!(found("domain=127.0.0.1&q=plane%20c").await, [2]);
    assert_eq!(found("domain=other.example").await, [0usize; 0]);
    assert_eq!(found("to=2020-01-01").await, [0usize; 0]);
    assert_eq!(found("from=2020-01-01&limit=2").await, [4, 3]);
    // What people type is never an error.
    for q in ["%22", "-", "%28%5B%7B%2A", "AND%20OR", "%00"] {
        list(api, &format!("q={q}&sort=relevance")).await;
    }

    for sort in ["newest", "relevance"] {
        let query = format!("q=plane*&sort={sort}&limit=2");
        let first = list(api, &query).await;
        let mut seen: Vec<_> = items(&first).iter().map(|item| item["jobId"].clone()).collect();
        // What comes meanwhile neither repeats nor hides what was there.
        result_of(api, &collect(api, &web.url("/plane/new")).await).await;
        let mut next = first["nextCursor"].clone();
        while let Some(cursor) = next.as_str() {
            let page = list(api, &format!("{query}&cursor={cursor}")).await;
            seen.extend(items(&page).iter().map(|item| item["jobId"].clone()));
            next = page["nextCursor"].clone();
        }
        for job in &jobs {
            assert_eq!(seen.iter().filter(|other| *other == job).count(), 1, "{sort}: {seen:?}");
        }
        let other = if sort == "newest" { "relevance" } else { "newest" };
        let cursor = text(&first, "nextCursor");
        let reply = get(api, &format!("{RESULTS}?q=plane*&sort={other}&cursor={cursor}")).await;
        refused(&reply, 400, "Validation failed", "cursor: ");
    }
    appliance.stop().await;
}

/// getResult, listResults, getUrl: where a page was found, by whose tags, and when.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_says_its_tags_and_redirects_and_its_url_when_it_was_read() {
    let web = shop().await;
    let (appliance, member) = appliance(&web).await;
    let api = &member.api;
    let urls = json!({ "urls": [{ "url": web.url("/moved"), "tags": ["wood", "hand"] }] });
    expect(post(api, "/api/v1/urls", &urls).await, 200);
    let url = expect(get(api, "/api/v1/urls").await, 200)["items"][0]["id"].as_str().unwrap().to_owned();
    let job = json!({ "urlId": url, "tags": ["rush", "wood"] });
    let job = ended(api, text(&expect(post(api, "/api/v1/jobs", &job).await, 201), "id")).await;
    let result = result_of(api, &job).await;
    assert_eq!(result["tags"], json!(["rush", "wood", "hand"]));
    let hop = |path| json!({ "url": web.url(path), "httpStatus": 302 });
    assert_eq!(result["redirects"], json!([hop("/moved"), hop("/moved/again")]));
    assert_eq!(
        (&result["url"], &result["finalUrl"]),
        (&json!(web.url("/moved")), &json!(web.url("/plane/moved")))
    );
    let listed = list(api, "tag=hand&tag=rush").await;
    assert_eq!(items(&listed)[0]["tags"], result["tags"]);
    let plain = result_of(api, &collect(api, &web.url("/plane/plain")).await).await;
    assert_eq!((&plain["tags"], &plain["redirects"]), (&json!([]), &json!([])));
    // A URL was read when its newest reading was, to the millisecond.
    let url = expect(get(api, &format!("/api/v1/urls/{url}")).await, 200);
    assert_eq!(url["lastScrapedAt"], result["scrapedAt"]);
    assert_eq!(job["attempts"][0]["startedAt"], result["scrapedAt"]);
    appliance.stop().await;
}

/// getResultByJob: the pending answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_not_indexed_yet_is_a_202() {
    let web = shop().await;
    let (appliance, member) = appliance(&web).await;
    let api = &member.api;
    let mut pending = None;
    for n in 0..40 {
        let job = collect(api, &web.url(&format!("/plane/{n}"))).await;
        let reply = get(api, &format!("{RESULTS}/{}", text(&job, "id"))).await;
        if reply.status.as_u16() == 202 {
            pending = Some((job, reply));
            break;
        }
        expect(reply, 200);
    }
    let (job, reply) = pending.expect("one of forty results is asked for before the index has it");
    assert_eq!(reply.headers["retry-after"], "5");
    assert_eq!(reply.json["indexingPending"], true);
    assert_eq!((&reply.json["retryAfterSeconds"], &reply.json["jobId"]), (&json!(5), &job["id"]));
    assert_eq!(
        reply.json["values"],
        Value::Null,
        "a pending answer has no result fields to be mistaken for them"
    );
    let result = result_of(api, &job).await;
    assert_eq!(result["id"], reply.json["id"]);
    assert_eq!(result["indexingPending"], Value::Null);
    appliance.stop().await;
}

/// listResults, getResultByJob, getResult, listSchemas, getSchema: what they refuse.
#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_named_and_strangers_see_nothing() {
    let web = shop().await;
    let (appliance, member) = appliance(&web).await;
    let api = &member.api;
    for (query, part) in [
        ("minQuality=2", "minQuality: "),
        ("minQuality=NaN", "minQuality: "),
        ("minQuality=good", "minQuality: "),
        ("limit=0", "limit: "),
        ("limit=ten", "limit: "),
        ("cursor=abc", "cursor: "),
        ("pageType=shop", "pageType: "),
        ("urlId=7", "urlId: "),
        ("changed=maybe", "changed: "),
        ("from=yesterday", "from: "),
        ("sort=oldest", "sort: "),
    ] {
        refused(&get(api, &format!("{RESULTS}?{query}")).await, 400, "Validation failed", part);
    }
    for query in ["limit=0", "pageType=shop"] {
        refused(&get(api, &format!("{SCHEMAS}?{query}")).await, 400, "Validation failed", ": ");
    }

    let job = collect(api, &web.url("/plane/mine")).await;
    let result = result_of(api, &job).await;
    let stranger = appliance.member("eve").await;
    let pairs = [
        (format!("{RESULTS}/{}", text(&job, "id")), format!("{RESULTS}/{NOBODY}")),
        (format!("{RESULTS}/by-id/{}", text(&result, "id")), format!("{RESULTS}/by-id/{NOBODY}")),
    ];
    for (foreign, missing) in pairs {
        let foreign = get(&stranger.api, &foreign).await;
        refused(&foreign, 404, "Result not found", "");
        let malformed = missing.replace(NOBODY, "not-an-id");
        for other in [missing, malformed] {
            assert_eq!(get(&stranger.api, &other).await.text(), foreign.text(), "{other}");
        }
    }
    assert_eq!(list(&stranger.api, "q=smoothing").await["total"], 0);
    for path in [
        RESULTS.to_owned(),
        format!("{RESULTS}/{NOBODY}"),
        format!("{RESULTS}/by-id/{NOBODY}"),
        SCHEMAS.to_owned(),
        format!("{SCHEMAS}/127.0.0.1/product"),
    ] {
        let reply = get(&appliance.client(), &path).await;
        assert_eq!(reply.status.as_u16(), 401, "{path}");
        assert!(reply.json["error"].is_string(), "{path}");
    }
    // The job's id is no result's id, and the other way round.
    refused(&get(api, &format!("{RESULTS}/{}", text(&result, "id"))).await, 404, "Result not found", "");
    refused(&get(api, &format!("{RESULTS}/by-id/{}", text(&job, "id"))).await, 404, "Result not found", "");
    // A failed job has no result.
    let failed = collect(api, &web.url("/absent")).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    refused(&get(api, &format!("{RESULTS}/{}", text(&failed, "id"))).await, 404, "Result not found", "");
    appliance.stop().await;
}

/// listSchemas, getSchema.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_are_listed_and_the_newest_is_given() {
    let web = shop().await;
    let (appliance, member) = appliance(&web).await;
    let api = &member.api;
    let list = expect(get(api, SCHEMAS).await, 200);
    assert_eq!((items(&list).len(), list.as_object().unwrap().len()), (2, 1), "{list}");
    let one = expect(get(api, &format!("{SCHEMAS}/127.0.0.1/product")).await, 200);
    assert_eq!(
        (&one["version"], &one["discoveredBy"], &one["confidence"]),
        (&json!(1), &json!("manual"), &json!(1.0))
    );
    assert_eq!(one["attributes"][1]["type"], "number");
    assert_eq!(one["attributes"][1]["validation"], json!({ "max": 10_000.0 }));

    let mut changed = schemas();
    changed["schemas"][0]["attributes"][0]["xpaths"] = json!(["//title"]);
    let import = Request::SchemaImport { json: changed.to_string(), domain: Some("127.0.0.1".to_owned()) };
    let summary = appliance.operator(import).await;
    assert_eq!((&summary["created"], &summary["unchanged"]), (&json!(1), &json!(1)));
    let one = expect(get(api, &format!("{SCHEMAS}/127.0.0.1/product")).await, 200);
    assert_eq!(one["version"], 2);
    // Pages are read by it from now on.
    let result = result_of(api, &collect(api, &web.url("/plane/x")).await).await;
    assert_eq!((&result["values"]["name"], &result["schemaVersion"]), (&json!("x"), &json!(2)));

    let versions = |list: &Value| items(list).iter().map(|item| item["version"].clone()).collect::<Vec<_>>();
    let products = expect(get(api, &format!("{SCHEMAS}?domain=127.0.0.1&pageType=product")).await, 200);
    assert_eq!(versions(&products), [2, 1]);
    assert_eq!(versions(&expect(get(api, &format!("{SCHEMAS}?limit=1")).await, 200)).len(), 1);
    assert!(
        items(&expect(get(api, &format!("{SCHEMAS}?domain=other.example&limit=1000")).await, 200)).is_empty()
    );
    for path in ["127.0.0.1/serp", "other.example/product", "127.0.0.1/shop", "a%20b/product"] {
        refused(&get(api, &format!("{SCHEMAS}/{path}")).await, 404, "Schema not found", "");
    }
    appliance.stop().await;
}

/// getResultByJob, listResults: the index is a cache.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_is_found_after_a_restart_and_after_the_index_is_lost() {
    let web = shop().await;
    let (mut appliance, member) = appliance(&web).await;
    let job = collect(&member.api, &web.url("/plane/kept")).await;
    let path = format!("{RESULTS}/{}", text(&job, "id"));
    let said = result_of(&member.api, &job).await;
    assert!(said["indexedAt"].as_str() > said["extractedAt"].as_str(), "{said}");
    let tag = get(&member.api, &path).await.header("etag").to_owned();
    let late = collect(&member.api, &web.url("/plane/late")).await;
    appliance.restart().await;
    let api = appliance.client().bearer(&member.key);
    // What was said of it, to the letter: who asks with the old tag is told that nothing has changed.
    assert_eq!(expect(get(&api, &path).await, 200), said);
    let again = api.header("if-none-match", &tag);
    assert_eq!(get(&again, &path).await.status, 304);
    // The drain has indexed it, so nobody has to wait.
    let result = expect(get(&api, &format!("{RESULTS}/{}", text(&late, "id"))).await, 200);
    assert!(result["indexedAt"].is_string());
    assert_eq!(list(&api, "q=kept").await["total"], 1);

    std::fs::remove_dir_all(appliance.data_dir().join("search")).expect("the index is there");
    appliance.restart().await;
    let api = appliance.client().bearer(&member.key);
    assert_eq!(result_of(&api, &job).await, said, "an index that was filled anew knows when, too");
    assert_eq!(result_of(&api, &late).await, result);
    // What was said of a result stands while the index is still filled; it is found when its turn has come.
    eventually("the index is filled anew", Duration::from_secs(10), || async {
        (list(&api, "q=kept").await["total"] == 1).then_some(())
    })
    .await;
    appliance.stop().await;
}

/// JSON that a page is or carries is read by JSONPaths, in jobs as anywhere; the schema says so when it is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn json_is_read_where_a_page_is_or_carries_it() {
    let web = Web::open(|path| match path {
        "/api/plane" => {
            let body = r#"{"name":"Block plane","offers":[{"price":"1,250.50"}],"stock":true}"#;
            let mut answer = Answer::html(body);
            answer.headers = vec![("content-type".into(), "application/json; charset=utf-8".into())];
            Some(answer)
        }
        "/page" => Some(Answer::html(
            r#"<html lang=en><h1>Jack plane</h1><script type="application/ld+json">{"@type":"Product","name":"no",
               "offers":{"price":99}}</script><script>window.__STATE__={"offers":[{"price":7}],"stock":false}</script>"#,
        )),
        "/wrong" => {
            let mut answer = Answer::html("{\"name\": ");
            answer.headers = vec![("content-type".into(), "application/vnd.api+json".into())];
            Some(answer)
        }
        _ => None,
    })
    .await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let schema = json!({ "schemas": [{ "pageType": "product", "attributes": [
        { "name": "name", "xpaths": ["//h1"], "jsonPaths": ["$.name"], "type": "text" },
        { "name": "price", "jsonPaths": ["$.offers[0].price"], "type": "number" },
        { "name": "listed", "jsonPaths": ["ld+json $..price"], "type": "number" },
        { "name": "stock", "jsonPaths": ["__STATE__ $.stock", "$.stock"], "type": "boolean" },
    ]}]});
    let domain = Some("127.0.0.1".to_owned());
    appliance.operator(Request::SchemaImport { json: schema.to_string(), domain: domain.clone() }).await;
    let member = appliance.member("json").await;
    let api = &member.api;
    let shown = expect(get(api, &format!("{SCHEMAS}/127.0.0.1/product")).await, 200);
    assert_eq!(shown["attributes"][3]["jsonPaths"], json!(["__STATE__ $.stock", "$.stock"]), "{shown}");
    assert_eq!(shown["attributes"][1]["xpaths"], json!([]), "{shown}");
    let read = async |path: &str| {
        let new = json!({ "url": web.url(path), "pageType": "product" });
        let job = expect(post(api, "/api/v1/jobs", &new).await, 201);
        let job = ended(api, text(&job, "id")).await;
        result_of(api, &job).await
    };
    let json = read("/api/plane").await;
    assert_eq!(json["values"], json!({ "name": "Block plane", "price": 1250.5, "stock": true }), "{json}");
    assert_eq!(
        json["attributeErrors"],
        json!([{ "name": "listed", "reason": "not_found", "detail": null }]),
        "{json}"
    );
    let page = read("/page").await;
    let expected = json!({ "name": "Jack plane", "price": 7, "listed": 99, "stock": false });
    assert_eq!(page["values"], expected, "{page}");
    let wrong = read("/wrong").await;
    assert_eq!((&wrong["values"], &wrong["quality"]), (&json!({}), &Value::Null), "{wrong}");
    let errors = wrong["attributeErrors"].as_array().unwrap();
    assert_eq!(errors.len(), 4, "{wrong}");
    for error in errors {
        assert_eq!(error["reason"], "unreadable", "{wrong}");
        assert!(text(error, "detail").contains("EOF while parsing a value at line 1 column"), "{wrong}");
    }
    let untyped = expect(post(api, "/api/v1/jobs", &json!({ "url": web.url("/wrong") })).await, 201);
    let untyped = result_of(api, &ended(api, text(&untyped, "id")).await).await;
    assert_eq!(untyped["attributeErrors"], wrong["attributeErrors"], "{untyped}");
    // They say nothing of how the site is read: of what came before and after them each is counted.
    read("/page").await;
    eventually("pages are counted", Duration::from_secs(30), || async {
        let drift = expect(get(api, "/api/v1/extraction/drift").await, 200);
        let recent = &drift["items"][0]["attributes"][0]["recent"];
        let pages = recent["pages"].as_u64()?;
        assert!(pages <= 3, "{drift}");
        (pages == 3).then_some(())
    })
    .await;
    let sql = json!({ "sql": "SELECT count(*) AS n FROM products", "waitMs": 10_000 });
    let rows = expect(post(api, "/api/v1/bi/queries", &sql).await, 200);
    assert_eq!(rows["results"]["rows"][0]["n"], 3, "{rows}");
    // Where the newest answer is JSON, XPaths are tried on the newest page before it.
    read("/api/plane").await;
    let tried = async |attribute: Value| {
        let asked = json!({ "domain": "127.0.0.1", "pageType": "product", "attributes": [attribute] });
        expect(post(api, "/api/v1/extraction/test-xpath", &asked).await, 200)["values"]["name"].clone()
    };
    let by_page = json!({ "name": "name", "xpaths": ["//h1"], "jsonPaths": ["$.name"], "type": "text" });
    assert_eq!(tried(by_page).await, "Jack plane");
    assert_eq!(
        tried(json!({ "name": "name", "jsonPaths": ["$.name"], "type": "text" })).await,
        "Block plane"
    );
    let broken = json!({ "schemas": [{ "pageType": "product", "attributes": [
        { "name": "name", "jsonPaths": ["$.a["], "type": "text" }]}]});
    let import = Request::SchemaImport { json: broken.to_string(), domain };
    let refused = admin::call(&appliance.app().socket(), &import).await.unwrap_err().to_string();
    assert!(refused.contains("jsonPaths[0]"), "{refused}");
    appliance.stop().await;
}
