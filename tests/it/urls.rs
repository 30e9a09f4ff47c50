//! Registered URLs through HTTP: createUrls, listUrls, getUrl.

use crate::harness::{Appliance, expect, get, post, refused, text};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_are_normalized_merged_and_judged_one_by_one() {
    let appliance = Appliance::start().await;
    let member = appliance.member("urls").await;
    let upload = json!({ "urls": [
        "HTTP://Example.com:80/a#part",
        { "url": "http://example.com/a", "tags": ["x"] },
        { "url": "https://www.example.co.uk/b", "tags": ["x", "y"], "pageType": "product", "metadata": { "k": [1] } },
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "http://[::ffff:169.254.169.254]/latest",
        "not a url",
        { "url": "https://example.org/", "tags": [" "] },
    ] });
    let answer = expect(post(&member.api, "/api/v1/urls", &upload).await, 200);
    assert_eq!((answer["created"].as_u64(), answer["updated"].as_u64()), (Some(2), Some(1)), "{answer}");
    let invalid = answer["invalid"].as_array().unwrap();
    let reasons: Vec<_> =
        invalid.iter().map(|entry| (entry["index"].as_u64().unwrap(), text(entry, "reason"))).collect();
    assert_eq!(reasons.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
    for ((_, reason), part) in
        reasons.iter().zip(["http or https", "loopback", "metadata", "absolute", "tags[0]"])
    {
        assert!(reason.contains(part), "\"{part}\" is not in \"{reason}\"");
    }
    let again = expect(post(&member.api, "/api/v1/urls", &upload).await, 200);
    assert_eq!((again["created"].as_u64(), again["duplicates"].as_u64()), (Some(0), Some(3)), "{again}");

    let listed = expect(get(&member.api, "/api/v1/urls").await, 200);
    let rows = listed["items"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|row| text(row, "url")).collect::<Vec<_>>(),
        ["https://www.example.co.uk/b", "http://example.com/a"]
    );
    assert_eq!(rows[0]["domain"], "example.co.uk");
    assert_eq!(rows[0]["metadata"], json!({ "k": [1] }));
    assert_eq!(rows[1]["tags"], json!(["x"]));
    let one = expect(get(&member.api, &format!("/api/v1/urls/{}", text(&rows[0], "id"))).await, 200);
    assert_eq!(one, rows[0]);

    for (query, count) in [
        ("tag=x", 2),
        ("tag=x&tag=y", 1),
        ("domain=example.com", 1),
        ("pageType=product", 1),
        ("q=.co.uk", 1),
        ("lastStatus=failed", 0),
        ("tag=unknown", 0),
    ] {
        let found = expect(get(&member.api, &format!("/api/v1/urls?{query}")).await, 200);
        assert_eq!(found["items"].as_array().unwrap().len(), count, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_uploads_are_refused_with_the_field() {
    let appliance = Appliance::start().await;
    let member = appliance.member("badurls").await;
    let bad = |body: Value| {
        let client = member.api.clone();
        async move { post(&client, "/api/v1/urls", &body).await }
    };
    refused(&bad(json!({})).await, 400, "Validation failed", "urls");
    refused(&bad(json!({ "urls": [] })).await, 400, "Validation failed", "1 to 10000");
    refused(&bad(json!({ "urls": "http://a.example" })).await, 400, "Validation failed", "urls");
    refused(&bad(json!({ "urls": [{ "tags": [] }] })).await, 400, "Validation failed", "urls[0]");
    refused(&bad(json!({ "urls": ["ftp://a.example/"] })).await, 400, "Invalid URL", "http or https");
    let many: Vec<_> = (0..10_001).map(|i| format!("https://a.example/{i}")).collect();
    refused(&bad(json!({ "urls": many })).await, 400, "Validation failed", "not 10001");
    let raw = member
        .api
        .send_bytes(http::Method::POST, "/api/v1/urls", Some("application/json"), "{\n\"urls\": [,]}")
        .await;
    refused(&raw.unwrap(), 400, "Validation failed", "line 2");
    refused(&get(&member.api, "/api/v1/urls?limit=0").await, 400, "Validation failed", "limit");
    refused(&get(&member.api, "/api/v1/urls?cursor=AAAA").await, 400, "Validation failed", "cursor");
    refused(&get(&member.api, "/api/v1/urls?pageType=poem").await, 400, "Validation failed", "pageType");
}

/// A tag is never dropped in silence: an entry whose tags do not fit beside those that the URL has is invalid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_that_do_not_fit_are_refused_with_their_entry() {
    let appliance = Appliance::start().await;
    let member = appliance.member("tags").await;
    let tags = |from: usize, to: usize| (from..to).map(|n| format!("t{n}")).collect::<Vec<_>>();
    let add = async |urls: Value| post(&member.api, "/api/v1/urls", &json!({ "urls": urls })).await;
    let page = "https://a.example/page";
    expect(add(json!([{ "url": page, "tags": tags(0, 30) }])).await, 200);
    let mixed = json!([
        { "url": page, "tags": tags(30, 32) },
        { "url": page, "tags": tags(31, 33) },
        "nonsense",
        { "url": "https://a.example/other", "tags": tags(0, 33) },
        { "url": page, "tags": tags(0, 32) },
    ]);
    let answer = expect(add(mixed).await, 200);
    let counts = [&answer["created"], &answer["updated"], &answer["duplicates"]].map(|n| n.as_u64().unwrap());
    assert_eq!(counts, [0, 1, 1], "{answer}");
    let invalid = answer["invalid"].as_array().unwrap();
    assert_eq!(invalid.iter().map(|entry| entry["index"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(text(&invalid[0], "url"), page);
    for (entry, part) in
        invalid.iter().zip(["has 32 already and would have 33", "absolute", "at most 32 tags"])
    {
        assert!(text(entry, "reason").contains(part), "{entry}");
    }
    let alone = add(json!([{ "url": page, "tags": ["one more"] }])).await;
    refused(&alone, 400, "Invalid URL", "urls[0]: tags: the URL has 32 already");
    let row = expect(get(&member.api, "/api/v1/urls").await, 200);
    assert_eq!(row["items"][0]["tags"], json!(tags(0, 32)), "nothing was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_urls_are_listed_page_by_page() {
    let appliance = Appliance::start().await;
    let member = appliance.member("manyurls").await;
    let all: Vec<_> = (0..10_000).map(|i| format!("https://shop{}.example/{i}", i % 7)).collect();
    let answer = expect(post(&member.api, "/api/v1/urls", &json!({ "urls": all })).await, 200);
    assert_eq!(answer["created"], 10_000);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(
            get(&member.api, &format!("/api/v1/urls?domain=shop3.example&limit=1000{cursor}")).await,
            200,
        );
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 200, "a larger limit is clamped");
        seen.extend(items.iter().map(|row| text(row, "url").to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let expected: Vec<_> = all.into_iter().filter(|url| url.contains("shop3.")).rev().collect();
    assert_eq!(seen, expected);
}

/// updateUrls: by ids and by a filter; each URL for itself, and nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_urls_are_changed_at_once() {
    const UPDATE: &str = "/api/v1/urls/update";
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await.api, at.member("eve").await.api);
    let full: Vec<_> = (0..32).map(|n| format!("t{n}")).collect();
    let mut urls: Vec<_> = (0..450)
        .map(|n| json!({ "url": format!("https://shop.example/{n}"), "tags": ["old"], "pageType": "serp" }))
        .collect();
    urls.extend((0..120).map(|n| json!({ "url": format!("https://full.example/{n}"), "tags": full })));
    for api in [&ada, &eve] {
        expect(post(api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    }
    let theirs = expect(get(&eve, "/api/v1/urls?limit=200&tag=old").await, 200);
    let first = expect(get(&ada, "/api/v1/urls?limit=3&tag=old").await, 200);
    let ids: Vec<_> =
        first["items"].as_array().unwrap().iter().map(|url| text(url, "id").to_owned()).collect();
    let by_ids =
        json!({ "ids": ids, "addTags": ["new", " new"], "removeTags": ["old"], "pageType": "product" });
    let counts = |told: &Value| ["updated", "unchanged", "refused"].map(|name| told[name].as_u64().unwrap());
    let told = expect(post(&ada, UPDATE, &by_ids).await, 200);
    assert_eq!((counts(&told), &told["missing"], &told["nextCursor"]), ([3, 0, 0], &json!([]), &json!(null)));
    let changed = expect(get(&ada, &format!("/api/v1/urls/{}", ids[1])).await, 200);
    assert_eq!((&changed["tags"], &changed["pageType"]), (&json!(["new"]), &json!("product")));
    assert_eq!(counts(&expect(post(&ada, UPDATE, &by_ids).await, 200)), [0, 3, 0]);
    let foreign = expect(post(&eve, UPDATE, &by_ids).await, 200);
    assert_eq!((counts(&foreign), foreign["missing"].as_array().unwrap().len()), ([0, 0, 0], 3));

    // All that a filter finds, though the change takes them out of it.
    let by_filter = |more: Value| {
        let mut change = json!({ "filter": { "tag": ["old"] }, "addTags": ["kept"] });
        change.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        change
    };
    let (mut updated, mut cursor) = (0, Value::Null);
    for _ in 0..1_000 {
        let change = by_filter(json!({ "removeTags": ["old"], "clear": ["pageType"], "cursor": cursor }));
        let told = expect(post(&ada, UPDATE, &change).await, 200);
        updated += told["updated"].as_u64().unwrap();
        cursor = told["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(updated, 447);
    let kept = expect(get(&ada, "/api/v1/urls?tag=kept&limit=1").await, 200);
    assert_eq!((&kept["items"][0]["tags"], &kept["items"][0]["pageType"]), (&json!(["kept"]), &Value::Null));
    let mut tags = expect(get(&ada, "/api/v1/urls/tags").await, 200);
    let counted = tags["items"].as_array_mut().unwrap();
    counted.retain(|one| !text(one, "tag").starts_with('t'));
    assert_eq!(json!(counted), json!([{ "tag": "kept", "count": 447 }, { "tag": "new", "count": 3 }]));
    assert_eq!(expect(get(&eve, "/api/v1/urls?limit=200&tag=old").await, 200), theirs, "nothing of theirs");

    // One that cannot be changed is told, and the others are changed all the same.
    let all = json!({ "filter": { "q": "example" }, "addTags": ["one more"] });
    let told = expect(post(&ada, UPDATE, &all).await, 200);
    assert_eq!(counts(&told), [450, 0, 120], "{told}");
    assert_eq!(told["refusals"].as_array().unwrap().len(), 100);
    let refusal = &told["refusals"][0];
    assert!(text(refusal, "url").starts_with("https://full.example/"));
    assert!(text(refusal, "reason").contains("33 tags"), "{refusal}");

    // What else hangs on them is given and taken.
    let workflow = expect(post(&ada, "/api/v1/workflows/smart", &json!({})).await, 201)["workflowId"].clone();
    let session = json!({ "domain": "shop.example", "kind": "cookies", "values": "sid=1" });
    let session = expect(post(&ada, "/api/v1/site-sessions", &session).await, 201)["id"].clone();
    let given = json!({ "ids": ids, "workflowId": workflow });
    assert_eq!(counts(&expect(post(&ada, UPDATE, &given).await, 200)), [3, 0, 0]);
    let one = format!("/api/v1/urls/{}", ids[0]);
    let with_session = json!({ "siteSessionId": session });
    let had = expect(ada.patch(&one, &with_session).await.unwrap(), 200);
    assert_eq!((&had["workflowId"], &had["siteSessionId"]), (&workflow, &session));
    let taken = json!({ "ids": ids, "clear": ["workflowId", "siteSessionId"] });
    assert_eq!(counts(&expect(post(&ada, UPDATE, &taken).await, 200)), [3, 0, 0]);
    let has = expect(get(&ada, &one).await, 200);
    assert_eq!((&has["workflowId"], &has["siteSessionId"]), (&Value::Null, &Value::Null));
    assert_eq!(counts(&expect(post(&ada, UPDATE, &taken).await, 200)), [0, 3, 0]);

    let nobody = uuid::Uuid::now_v7();
    for (body, part) in [
        (json!({ "addTags": ["x"] }), "ids: is missing"),
        (json!({ "ids": [] , "addTags": ["x"] }), "1 to 10000"),
        (json!({ "ids": ids }), "addTags: is missing"),
        (json!({ "ids": ids, "addTags": [] }), "addTags: is missing"),
        (json!({ "ids": ids, "addTags": ["x"], "removeTags": ["x"] }), "removeTags: names"),
        (json!({ "ids": ids, "pageType": "product", "clear": ["pageType"] }), "clear: names pageType"),
        (json!({ "ids": ids, "workflowId": nobody }), "workflowId: there is no"),
        (json!({ "ids": ids, "pageType": "unheard_of" }), "pageType: "),
        (json!({ "ids": ids, "addTags": ["fine", " "] }), "addTags[1]: "),
        (json!({ "filter": {}, "addTags": ["x"] }), "filter: must have"),
        (json!({ "filter": { "tga": ["x"] }, "addTags": ["x"] }), "tga"),
        (json!({ "filter": { "q": "x" }, "cursor": "damaged", "addTags": ["x"] }), "cursor"),
    ] {
        refused(&post(&ada, UPDATE, &body).await, 400, "Validation failed", part);
    }
    at.stop().await;
}
