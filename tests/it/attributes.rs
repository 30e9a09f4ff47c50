//! An organization's own attributes and reading stored pages again, through HTTP.

use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, ended, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use server::client::Client;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

const OWN: &str = "/api/v1/extraction/attributes";
const SITE: &str = "/api/v1/extraction/attributes/127.0.0.1";
const BACKFILL: &str = "/api/v1/extraction/backfill";
const QUERIES: &str = "/api/v1/bi/queries";
const WAIT: Duration = Duration::from_secs(30);

/// `/plane/<n>` is a plane of that number, which has a maker and a price.
async fn shop() -> Web {
    Web::open(|path| {
        let name = path.strip_prefix("/plane/")?;
        let page = format!("<h1>Plane {name}</h1><b>$ {name}.50</b><em>Maker {name}</em><i>in stock</i>");
        Some(Answer::html(page))
    })
    .await
}

/// A box whose platform knows the names and prices of planes.
async fn appliance(web: &Web) -> Appliance {
    let settings = [("NETWORK__ALLOW", web.allow()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8".to_owned())];
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let at = Appliance::start_with(&settings).await;
    let json = json!({ "schemas": [{ "pageType": "product", "attributes": [
        attribute("name", "//h1", "text"), attribute("price", "//b", "number"),
    ]}]})
    .to_string();
    at.operator(Request::SchemaImport { json, domain: Some("127.0.0.1".to_owned()) }).await;
    at
}

fn attribute(name: &str, xpath: &str, kind: &str) -> Value {
    json!({ "name": name, "xpaths": [xpath], "type": kind })
}

async fn put(client: &Client, attributes: Value) -> Value {
    expect(client.put(SITE, &json!({ "attributes": attributes })).await.unwrap(), 200)
}

/// The result of a new job, by its id and thus indexed or not.
async fn read(client: &Client, job: Value) -> Value {
    let job = expect(post(client, "/api/v1/jobs", &job).await, 201);
    let job = ended(client, text(&job, "id")).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    result(client, text(&job, "resultId")).await
}

async fn result(client: &Client, id: &str) -> Value {
    expect(get(client, &format!("/api/v1/extraction/results/by-id/{id}")).await, 200)
}

fn plane(web: &Web, number: usize) -> Value {
    json!({ "url": web.url(&format!("/plane/{number}")), "pageType": "product" })
}

async fn planes(web: &Web, client: &Client, numbers: std::ops::Range<usize>) -> Vec<Value> {
    let mut results = Vec::new();
    for number in numbers {
        results.push(read(client, plane(web, number)).await);
    }
    results
}

fn ids(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| text(result, "id")).collect()
}

async fn backfill(client: &Client, more: Value) -> Value {
    let mut body = json!({ "domain": "127.0.0.1", "pageType": "product" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    expect(post(client, BACKFILL, &body).await, 200)
}

/// listAttributes, getDomainAttributes, putDomainAttributes, addDomainAttribute, deleteDomainAttribute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_attributes_are_saved_listed_and_removed() {
    let at = Appliance::start().await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    refused(&get(api, SITE).await, 404, "Attributes not found", "");
    let price = json!({
        "name": "price", "xpaths": ["//b", "//i"], "type": "number", "description": "What it costs",
        "antiPatterns": ["sold"], "semanticType": null, "validation": { "min": 1.0 }, "pageType": "product",
    });
    let saved = put(api, json!([price, attribute("maker", "//em", "text")])).await;
    assert_eq!((&saved["domain"], &saved["version"]), (&json!("127.0.0.1"), &json!(1)));
    assert_eq!(
        (&saved["attributes"][0]["pageType"], &saved["attributes"][1]["pageType"]),
        (&json!("product"), &Value::Null)
    );
    assert_eq!(expect(get(api, SITE).await, 200), saved);
    // The same again changes nothing.
    assert_eq!(put(api, saved["attributes"].clone()).await, saved);
    let added = expect(post(api, SITE, &attribute("stock", "//u", "boolean")).await, 201);
    assert_eq!((&added["version"], &added["attributes"][2]["name"]), (&json!(2), &json!("stock")));
    refused(&post(api, SITE, &attribute("stock", "//u", "text")).await, 409, "Conflict", "`stock`");
    // A host of a domain, and another form of a name.
    let host = format!("{OWN}/WWW.Shop.Example.");
    expect(post(api, &host, &attribute("sku", "//i", "text")).await, 201);
    let listed = expect(get(api, &format!("{OWN}?limit=1")).await, 200);
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]), (1, &added));
    let next = format!("{OWN}?limit=1&cursor={}", text(&listed, "nextCursor"));
    let next = expect(get(api, &next).await, 200);
    assert_eq!(
        (&next["items"][0]["domain"], &next["nextCursor"]),
        (&json!("www.shop.example"), &Value::Null)
    );

    // Nobody else has them, and what they have is as missing as what nobody has.
    assert_eq!(expect(get(&stranger.api, OWN).await, 200)["items"], json!([]));
    let (foreign, missing) =
        (get(&stranger.api, SITE).await, get(&stranger.api, &format!("{OWN}/nobody.example")).await);
    assert_eq!((foreign.status.as_u16(), foreign.text()), (404, missing.text()));
    assert_eq!(get(&stranger.api, &format!("{OWN}/a%20b")).await.text(), missing.text());
    let foreign = stranger.api.delete(&format!("{SITE}/price")).await.unwrap();
    refused(&foreign, 404, "Attribute not found", "");
    expect(post(&stranger.api, SITE, &attribute("price", "//p", "text")).await, 201);
    assert_eq!(expect(get(api, SITE).await, 200), added);

    assert_eq!(api.delete(&format!("{SITE}/maker")).await.unwrap().status, 204);
    refused(&api.delete(&format!("{SITE}/maker")).await.unwrap(), 404, "Attribute not found", "");
    assert_eq!(expect(get(api, SITE).await, 200)["version"], 3);
    let none = put(api, json!([])).await;
    assert_eq!((&none["version"], &none["attributes"]), (&json!(4), &json!([])));
    refused(&get(api, SITE).await, 404, "Attributes not found", "");
    // Versions go on where they were.
    assert_eq!(put(api, json!([attribute("maker", "//em", "text")])).await["version"], 5);
    at.stop().await;
}

/// putDomainAttributes, addDomainAttribute: what they refuse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_are_checked_when_they_are_saved() {
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    let api = &member.api;
    let many = |count: usize| -> Vec<Value> {
        (0..count).map(|n| attribute(&format!("a{n}"), "//b", "text")).collect()
    };
    let mut patterned = attribute("b", "//b", "text");
    patterned["antiPatterns"] = json!((0..50).map(|n| format!("a{n}")).collect::<Vec<_>>());
    let mut others = vec![patterned.clone(), patterned.clone(), patterned.clone()];
    for (n, other) in others.iter_mut().enumerate() {
        other["name"] = json!(format!("b{n}"));
    }
    let mut long = many(60);
    for attribute in &mut long {
        attribute["description"] = json!("x".repeat(6_000));
    }
    for (attributes, part) in [
        (json!([attribute("a", "//b[", "text")]), "attributes[0].xpaths[0]: "),
        (json!([attribute("a", "//b", "text"), attribute("1", "//b", "text")]), "attributes[1].name: "),
        (json!([attribute("a", "//b", "text"), attribute("a", "//i", "text")]), "attributes[1].name: "),
        (json!(many(101)), "attributes: has more than 100"),
        (json!(others), "attributes[2]: more than 100 regular expressions"),
        (json!(long), "attributes: take "),
    ] {
        let reply = api.put(SITE, &json!({ "attributes": attributes })).await.unwrap();
        refused(&reply, 400, "Validation failed", part);
    }
    for (field, value, part) in [
        ("xpaths", json!(["//b", "//b["]), "xpaths[1]: "),
        ("xpaths", json!([]), "xpaths: "),
        ("name", json!("a b"), "name: "),
        ("type", json!("date"), "type: "),
        ("pageType", json!("Shop"), "pageType: "),
        ("pageType", json!("readings"), "pageType: `readings` is the name of another table"),
        ("pageType", json!("select"), "pageType: `select` is a word of SQL"),
        ("pageType", json!("latest_x"), "pageType: "),
        ("antiPatterns", json!(["("]), "antiPatterns[0]: "),
        ("validation", json!({ "min": 2, "max": 1 }), "validation.min: "),
    ] {
        let mut new = attribute("a", "//b", "text");
        new[field] = value;
        refused(&post(api, SITE, &new).await, 400, "Validation failed", part);
    }
    refused(&get(api, SITE).await, 404, "Attributes not found", "");
    // As many as may be, and then one more.
    put(api, json!(many(100))).await;
    let one_more = post(api, SITE, &attribute("one_more", "//b", "text")).await;
    refused(&one_more, 400, "Validation failed", "at most 100");
    put(api, json!(others[..2])).await;
    let mut one_more = attribute("one_more", "//b", "text");
    one_more["antiPatterns"] = json!(["a"]);
    refused(&post(api, SITE, &one_more).await, 400, "Validation failed", "more than 100 regular");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_read_by_the_platforms_and_the_own_attributes() {
    let web = shop().await;
    let at = appliance(&web).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let plain = read(api, plane(&web, 4)).await;
    assert_eq!(plain["values"], json!({ "name": "Plane 4", "price": 4.5 }));
    assert_eq!((&plain["schemaVersion"], &plain["attributesVersion"]), (&json!(1), &Value::Null));
    let mut of_articles = attribute("author", "//em", "text");
    of_articles["pageType"] = json!("article");
    let maker = attribute("maker", "//em", "text");
    put(api, json!([maker, attribute("price", "//i", "text"), of_articles])).await;

    // In the place of the platform's of its name, or behind all; those of another page type are left out.
    let merged = read(api, plane(&web, 4)).await;
    assert_eq!(merged["values"].to_string(), r#"{"name":"Plane 4","price":"in stock","maker":"Maker 4"}"#);
    assert_eq!((&merged["schemaVersion"], &merged["attributesVersion"]), (&json!(1), &json!(1)));
    assert_eq!(merged["changed"], json!(["price", "maker"]));
    let listed = format!("/api/v1/extraction/results/{}", text(&merged, "jobId"));
    let listed = eventually("it is indexed", WAIT, || async {
        let reply = get(api, &listed).await;
        (reply.status == 200).then_some(reply.json)
    })
    .await;
    assert_eq!(listed["attributesVersion"], 1);

    // They never leave the organization: neither into the platform's schema nor into others' results.
    let schema = "/api/v1/extraction/schemas/127.0.0.1/product";
    let schema = expect(get(&stranger.api, schema).await, 200);
    assert!(!schema.to_string().contains("maker"), "{schema}");
    let theirs = read(&stranger.api, plane(&web, 4)).await;
    assert_eq!((&theirs["values"], &theirs["attributesVersion"]), (&plain["values"], &Value::Null));
    let table = expect(get(&stranger.api, "/api/v1/bi/tables/products").await, 200);
    assert!(!table.to_string().contains("maker"), "{table}");

    // A page type for which the platform has nothing, and pages of which nobody says what they are.
    let article = read(api, json!({ "url": web.url("/plane/5"), "pageType": "article" })).await;
    assert_eq!(article["values"], json!({ "maker": "Maker 5", "price": "in stock", "author": "Maker 5" }));
    assert_eq!((&article["schemaVersion"], &article["attributesVersion"]), (&Value::Null, &json!(1)));
    put(&stranger.api, json!([attribute("h", "//h1", "text")])).await;
    assert_eq!(api.delete(&format!("{SITE}/price")).await.unwrap().status, 204);
    let typed = read(api, json!({ "url": web.url("/plane/6") })).await;
    assert_eq!((&typed["pageType"], &typed["values"]["price"]), (&json!("product"), &json!(6.5)));
    at.stop().await;

    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    put(&member.api, json!([attribute("maker", "//em", "text"), attribute("none", "//u", "text")])).await;
    let untyped = read(&member.api, json!({ "url": web.url("/plane/7") })).await;
    assert_eq!((&untyped["pageType"], &untyped["values"]), (&Value::Null, &json!({ "maker": "Maker 7" })));
    at.stop().await;
}

async fn sql(client: &Client, statement: &str) -> Value {
    let body = json!({ "sql": statement, "waitMs": 10_000 });
    expect(post(client, QUERIES, &body).await, 200)["results"]["rows"].clone()
}

async fn average(client: &Client) -> Value {
    average_of(client, "products").await
}

async fn average_of(client: &Client, table: &str) -> Value {
    let structured = json!({ "table": table, "measures": [{ "fn": "count", "column": "maker" }] });
    let body = json!({ "structured": structured, "waitMs": 10_000 });
    expect(post(client, QUERIES, &body).await, 200)["results"].clone()
}

async fn in_products(client: &Client, rows: usize) {
    eventually("SQL has the rows", WAIT, || async {
        let count = sql(client, "SELECT count(*) AS n FROM products").await;
        (count[0]["n"] == rows).then_some(())
    })
    .await;
}

/// backfillResults: the console's column begins when its attribute is saved, and older rows get it by a walk from the newest to
/// the oldest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_begins_at_once_and_older_rows_are_filled() {
    let web = shop().await;
    let at = appliance(&web).await;
    let member = at.member("ada").await;
    let api = &member.api;
    let old = planes(&web, api, 0..5).await;
    in_products(api, 5).await;
    put(api, json!([attribute("maker", "//em", "text")])).await;
    eventually("the column is there", WAIT, || async {
        let table = expect(get(api, "/api/v1/bi/tables/products").await, 200);
        table["columns"].to_string().contains("\"maker\"").then_some(())
    })
    .await;
    assert_eq!(sql(api, "SELECT count(maker) AS n FROM products").await, json!([{ "n": 0 }]));
    let new = planes(&web, api, 5..6).await;
    in_products(api, 6).await;
    assert_eq!(
        sql(api, "SELECT maker FROM products WHERE maker IS NOT NULL").await,
        json!([{ "maker": "Maker 5" }])
    );
    let before = average(api).await["historyCoverage"].clone();
    assert_eq!(before["preHorizonRows"], 5);

    let first = backfill(api, json!({ "limit": 2 })).await;
    assert_eq!((&first["processed"], &first["skipped"], &first["failed"]), (&json!(2), &json!(0), &json!(0)));
    let updated = |id: &str| json!({ "id": id, "status": "updated", "newFields": 1, "message": null });
    let ids = ids(&old);
    assert_eq!(first["results"], json!([updated(ids[4]), updated(ids[3])]));
    assert_eq!(first["isComplete"], false);
    let half = eventually("SQL follows", WAIT, || async {
        let coverage = average(api).await["historyCoverage"].clone();
        (coverage["preHorizonRows"] == 3).then_some(coverage)
    })
    .await;
    assert!(text(&half, "backfillHorizon") < text(&before, "backfillHorizon"), "{half} {before}");
    let rest = backfill(api, json!({})).await;
    assert_eq!((&rest["processed"], &rest["isComplete"]), (&json!(3), &json!(true)));
    eventually("nothing is left out", WAIT, || async {
        let results = average(api).await;
        (results.get("historyCoverage").is_none() && results["rows"] == json!([{ "count_maker": 6 }]))
            .then_some(())
    })
    .await;
    let done = backfill(api, json!({ "limit": 50 })).await;
    assert_eq!(
        (&done["processed"], &done["results"], &done["isComplete"]),
        (&json!(0), &json!([]), &json!(true))
    );

    // What a row says is what a new result says, and nothing else of it has changed.
    let mut again = result(api, ids[0]).await;
    assert_eq!(again["values"], json!({ "name": "Plane 0", "price": 0.5, "maker": "Maker 0" }));
    assert!(text(&again, "extractedAt") > text(&old[0], "extractedAt"));
    assert_eq!(again["attributesVersion"], 1);
    let mut was = old[0].clone();
    for field in ["values", "quality", "contentHash", "extractedAt", "indexedAt", "attributesVersion"] {
        again.as_object_mut().unwrap().remove(field);
        was.as_object_mut().unwrap().remove(field);
    }
    assert_eq!(again, was);
    // The same page by the same schema gives the same bytes, however it is asked for.
    let fresh = result(api, text(&new[0], "id")).await;
    let named = backfill(api, json!({ "resultIds": [new[0]["id"], new[0]["id"]] })).await;
    assert_eq!(named["results"].as_array().unwrap().len(), 1, "{named}");
    let mut read_again = result(api, text(&new[0], "id")).await;
    read_again["extractedAt"] = fresh["extractedAt"].clone();
    assert_eq!(read_again.to_string(), fresh.to_string());
    at.stop().await;
}

/// historyCoverage: rows that were read while an attribute was away, or belonged to another page type, lack it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_made_while_an_attribute_was_away_are_told() {
    let web = shop().await;
    let at = appliance(&web).await;
    let member = at.member("ada").await;
    let api = &member.api;
    // Beside one that is always there, so that every page has a row.
    let heading = || attribute("heading", "//h1", "text");
    let maker = |page_type: &str| {
        let mut maker = attribute("maker", "//em", "text");
        maker["pageType"] = json!(page_type);
        json!([heading(), maker])
    };
    let any = || json!([heading(), attribute("maker", "//em", "text")]);
    // What is told of either table while the attribute fills it; when it does not, that is nobody's business.
    let rounds = [
        (maker("product"), Some(json!(null)), None),
        (json!([heading()]), None, None),
        (maker("article"), None, Some(json!(2))),
        (maker("product"), Some(json!(2)), None),
        // One of every page type goes on in products, and is back in articles.
        (any(), Some(json!(2)), Some(json!(3))),
        (maker("product"), Some(json!(2)), None),
        (any(), Some(json!(2)), Some(json!(4))),
    ];
    let mut horizon = Value::Null;
    for (rows, (attributes, products, articles)) in rounds.into_iter().enumerate() {
        put(api, attributes).await;
        planes(&web, api, rows..rows + 1).await;
        read(api, json!({ "url": web.url("/plane/5"), "pageType": "article" })).await;
        for (table, left_out) in [("products", products), ("articles", articles)] {
            let count = format!("SELECT count(*) AS n FROM {table}");
            eventually("SQL has the rows", WAIT, || async {
                (sql(api, &count).await[0]["n"] == rows + 1).then_some(())
            })
            .await;
            let Some(left_out) = left_out else { continue };
            let told = average_of(api, table).await;
            let coverage = &told["historyCoverage"];
            assert_eq!(coverage["preHorizonRows"], left_out, "{table}, {rows}: {told}");
            if table == "products" && rows > 3 {
                assert_eq!(coverage["backfillHorizon"], horizon, "it went on in products, {rows}: {told}");
            }
            if table == "products" {
                horizon = coverage["backfillHorizon"].clone();
            }
        }
    }
    at.stop().await;
}

/// backfillResults: what becomes of rows one by one, and what is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_one_row_ends_nothing() {
    let web = shop().await;
    let at = appliance(&web).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let mut own = planes(&web, api, 0..1).await;
    let known = pages(&at, &member);
    own.extend(planes(&web, api, 1..2).await);
    let lost: Vec<_> = pages(&at, &member).into_iter().filter(|page| !known.contains(page)).collect();
    own.extend(planes(&web, api, 2..3).await);
    let theirs = planes(&web, &stranger.api, 0..2).await;
    let article = read(api, json!({ "url": web.url("/plane/9"), "pageType": "article" })).await;
    let missing = Uuid::now_v7().to_string();
    put(api, json!([attribute("maker", "//em", "text")])).await;
    assert_eq!(lost.len(), 1, "{lost:?}");
    std::fs::remove_file(&lost[0]).unwrap();

    let asked = [
        text(&own[0], "id"),
        text(&theirs[0], "id"),
        text(&own[1], "id"),
        missing.as_str(),
        text(&article, "id"),
        text(&own[2], "id"),
    ];
    let summary = backfill(api, json!({ "resultIds": asked })).await;
    assert_eq!(
        (&summary["processed"], &summary["skipped"], &summary["failed"]),
        (&json!(2), &json!(1), &json!(3))
    );
    // In the order asked, whatever became of each.
    let told: Vec<&str> = summary["results"].as_array().unwrap().iter().map(|row| text(row, "id")).collect();
    assert_eq!(told, asked);
    let status = |id: &str| {
        let rows = summary["results"].as_array().unwrap();
        let row = rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id} in {summary}"));
        (row["status"].clone(), row["message"].clone())
    };
    let (updated, error) = ((json!("updated"), Value::Null), json!("error"));
    assert_eq!((status(asked[0]), status(asked[5])), (updated.clone(), updated));
    assert_eq!(status(asked[2]), (json!("skipped_no_blob"), Value::Null));
    // Somebody else's is one that there is not.
    assert_eq!(status(asked[1]), status(asked[3]));
    assert_eq!(status(asked[3]), (error.clone(), json!("Result not found")));
    assert_eq!(status(asked[4]), (error, json!("It is of page type article.")));
    assert_eq!(result(&stranger.api, asked[1]).await["values"], theirs[0]["values"]);

    for (more, part) in [
        (json!({ "limit": 0 }), "limit: "),
        (json!({ "limit": 51 }), "limit: "),
        (json!({ "resultIds": [] }), "resultIds: "),
        (json!({ "resultIds": vec![missing.clone(); 51] }), "resultIds: "),
        (json!({ "resultIds": vec![missing.clone(); 3], "limit": 2 }), "resultIds: "),
        (json!({ "domain": "a b" }), "domain: "),
        (json!({ "pageType": "shop" }), "pageType: "),
    ] {
        let mut body = json!({ "domain": "127.0.0.1", "pageType": "product" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(&post(api, BACKFILL, &body).await, 400, "Validation failed", part);
    }
    let nothing = json!({ "domain": "127.0.0.1", "pageType": "serp" });
    refused(&post(&stranger.api, BACKFILL, &nothing).await, 404, "Schema not found", "");
    at.stop().await;
}

/// backfillResults: a row whose page is gone stays without the column, and whoever counts is told of it although the walk has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_filled_is_left_out_of_the_coverage() {
    let web = shop().await;
    let at = appliance(&web).await;
    let member = at.member("ada").await;
    let api = &member.api;
    planes(&web, api, 0..1).await;
    let lost = pages(&at, &member);
    planes(&web, api, 1..3).await;
    in_products(api, 3).await;
    put(api, json!([attribute("maker", "//em", "text")])).await;
    // The columns come with the rows.
    planes(&web, api, 3..4).await;
    in_products(api, 4).await;
    assert_eq!(lost.len(), 1, "{lost:?}");
    std::fs::remove_file(&lost[0]).unwrap();
    let whole = backfill(api, json!({ "limit": 50 })).await;
    assert_eq!(
        (&whole["processed"], &whole["skipped"], &whole["isComplete"]),
        (&json!(2), &json!(1), &json!(true)),
        "{whole}"
    );
    eventually("SQL has what could be filled", WAIT, || async {
        let counted = sql(api, "SELECT count(maker) AS n FROM products").await;
        (counted == json!([{ "n": 3 }])).then_some(())
    })
    .await;
    let told = average(api).await;
    assert!(told["historyCoverage"]["preHorizonRows"].as_u64() >= Some(1), "{told}");
    at.stop().await;
}

/// The files of an organization's stored pages.
fn pages(at: &Appliance, member: &Member) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let folder = at.data_dir().join("pages").join(&member.org_id);
    below(&folder).iter().flat_map(|shard| below(shard)).collect()
}

/// backfillResults, busy: fifty rows while new results stream in, beside an organization that does the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_filled_while_results_stream_in() {
    let web = shop().await;
    let at = appliance(&web).await;
    let (mine, theirs) = (at.member("mine").await, at.member("theirs").await);
    for member in [&mine, &theirs] {
        let jobs: Vec<_> = (0..50).map(|number| plane(&web, number)).collect();
        expect(post(&member.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
        in_products(&member.api, 50).await;
        put(&member.api, json!([attribute("maker", "//em", "text")])).await;
    }
    let stream = async |api: &Client| {
        let jobs: Vec<_> = (25..75).map(|number| plane(&web, number)).collect();
        expect(post(api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    };
    let fill = async |api: &Client| {
        let summary = backfill(api, json!({ "limit": 50 })).await;
        assert_eq!((&summary["processed"], &summary["failed"]), (&json!(50), &json!(0)), "{summary}");
    };
    tokio::join!(stream(&mine.api), stream(&theirs.api), fill(&mine.api), fill(&theirs.api));
    for member in [&mine, &theirs] {
        in_products(&member.api, 100).await;
        let wrong = "SELECT count(*) AS n FROM products WHERE name <> replace(maker, 'Maker', 'Plane') OR maker IS NULL";
        eventually("every row has its maker", WAIT, || async {
            (sql(&member.api, wrong).await[0]["n"] == 0).then_some(())
        })
        .await;
        let urls = sql(&member.api, "SELECT count(DISTINCT url) AS urls, count(*) AS n FROM products").await;
        assert_eq!(urls, json!([{ "urls": 75, "n": 100 }]));
        // The second visit of a page says that nothing has changed, once the first one has been read again.
        let changed = sql(&member.api, "SELECT count(*) AS n FROM reading_values WHERE is_changed").await;
        assert_eq!(changed, json!([{ "n": 0 }]));
        let found = eventually("search has them", WAIT, || async {
            let found = expect(get(&member.api, "/api/v1/extraction/results?q=maker").await, 200);
            (found["total"] == 100).then_some(found)
        })
        .await;
        assert_eq!(found["facets"]["pageType"], json!([{ "value": "product", "count": 100 }]));
    }
    at.stop().await;
}
