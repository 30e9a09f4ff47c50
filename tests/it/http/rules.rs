//! Gates, inputs, outputs and envelopes.

use super::shop::Running;
use base::Code;
use base::ids::JobId;
use http::Method;
use serde_json::{Value, json};
use server::client::Reply;

const STRUCTURED: &str = "application/vnd.service.v1+json";

/// The flat envelope's two members.
fn flat(reply: &Reply) -> (u16, &str, &str) {
    (
        reply.status.as_u16(),
        reply.json["error"].as_str().unwrap_or("?"),
        reply.json["message"].as_str().unwrap_or(""),
    )
}

/// The structured envelope's status and code, after its shape is checked.
fn code(reply: &Reply) -> (u16, String) {
    let error = &reply.json["error"];
    let code =
        error["code"].as_str().unwrap_or_else(|| panic!("not structured: {}", reply.text())).to_owned();
    assert_eq!(error["docs_url"], format!("http://box/docs/errors/{code}"));
    assert_eq!(error["request_id"], reply.header("x-request-id"));
    assert!(!error["message"].as_str().unwrap().is_empty());
    (reply.status.as_u16(), code)
}

#[tokio::test]
async fn a_401_is_flat_everywhere() {
    let app = Running::start().await;
    for path in ["/api/v1/widgets", "/api/v1/bi/things", "/api/v1/me"] {
        let client = app.anonymous().header("accept", STRUCTURED);
        let reply = client.get(path).await.unwrap();
        assert_eq!(flat(&reply).0, 401, "{path}");
        assert_eq!(flat(&reply).1, "Authentication required");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        let reply = client.bearer("wrong").get(path).await.unwrap();
        assert_eq!((flat(&reply).0, flat(&reply).1), (401, "Invalid authentication token"));
        for odd in ["Basic abc", "Bearer", "Bearer  ", "bearer"] {
            let reply = client.header("authorization", odd).get(path).await.unwrap();
            assert_eq!((flat(&reply).0, flat(&reply).1), (401, "Authentication required"), "{odd}");
        }
    }
    let reply = app.anonymous().header("authorization", "bEARER editor").get("/api/v1/me").await.unwrap();
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn gates_ask_in_their_order() {
    let app = Running::start().await;
    let body = json!({"name": "w"});
    let post = async |who: &str| app.as_(who).post("/api/v1/widgets", &body).await.unwrap();
    assert_eq!(flat(&post("nobody").await).1, "No organization exists for this user");
    assert_eq!(
        flat(&post("viewer-2").await),
        (403, "Insufficient permissions", "This needs the permission jobs:write.")
    );
    let quota = post("editor-2").await;
    assert_eq!(
        quota.json,
        json!({"error": "QUOTA_EXCEEDED", "message": "No credits are left.", "plan": "trial",
               "remainingCredits": 0, "isTrialExpired": false})
    );
    assert_eq!(quota.status, 402);
    let made = post("editor").await;
    assert_eq!(made.status, 201);
    let path = format!("/api/v1/widgets/{}/polish", made.json["id"].as_str().unwrap());
    let reply = app.as_("viewer-unverified").post(&path, &json!({})).await.unwrap();
    assert_eq!(flat(&reply).1, "Email address is not verified");
    assert_eq!(app.as_("editor").post(&path, &json!({})).await.unwrap().status, 200);
    let reply = app.as_("owner-2").get("/api/v1/robots").await.unwrap();
    assert_eq!(flat(&reply), (403, "Not included in the plan", "The plan has no agents."));
    assert_eq!(app.as_("viewer").get("/api/v1/robots").await.unwrap().status, 204);
}

#[tokio::test]
async fn the_console_has_its_mount_guard_and_envelope() {
    let app = Running::start().await;
    let get = async |who: &str, path: &str| code(&app.as_(who).get(path).await.unwrap());
    let things = "/api/v1/bi/things";
    assert_eq!(get("nobody-unverified", things).await, (403, "no_org".into()));
    assert_eq!(get("viewer-2-unverified", things).await, (403, "feature_disabled".into()));
    assert_eq!(get("viewer-unverified", things).await, (403, "email_not_verified".into()));
    let post = |who: &str| {
        let client = app.as_(who);
        async move { client.post(things, &json!({})).await.unwrap() }
    };
    assert_eq!(code(&post("viewer").await), (403, "insufficient_permissions".into()));
    assert_eq!(code(&post("editor").await), (400, "invalid_input".into()));
    assert_eq!(app.as_("viewer").get(things).await.unwrap().status, 200);
    assert_eq!(get("viewer", "/api/v1/bi/nothing").await, (404, "not_found".into()));
    assert_eq!(get("viewer", "/api/v1/bi/things/7").await, (404, "not_found".into()));
    let reply = app.as_("viewer").get(&format!("/api/v1/bi/things/{}", JobId::new())).await.unwrap();
    assert_eq!(code(&reply), (409, "not_ready".into()));
    assert_eq!(reply.json["status"], "running");
    let reply = app.as_("viewer").delete(things).await.unwrap();
    assert_eq!(code(&reply), (405, "method_not_allowed".into()));
}

#[tokio::test]
async fn users_keys_and_browsers() {
    let app = Running::start().await;
    let me = app.as_("nobody").get("/api/v1/me").await.unwrap();
    assert_eq!(me.json, json!({"name": "nobody", "has_org": false}));
    assert_eq!(app.as_("editor-key").get("/api/v1/me").await.unwrap().json["has_org"], true);
    let reply = app.as_("editor-key").post("/api/v1/session", &json!({})).await.unwrap();
    assert_eq!(flat(&reply).0, 403);
    assert!(flat(&reply).2.contains("API key"));
    assert_eq!(app.as_("editor").post("/api/v1/session", &json!({})).await.unwrap().status, 200);
    let reply = app.as_("nobody").post("/api/v1/session", &json!({})).await.unwrap();
    assert_eq!(flat(&reply).1, "No organization exists for this user");
}

#[tokio::test]
async fn a_structured_envelope_comes_when_it_is_asked_for() {
    let app = Running::start().await;
    let client = app.as_("viewer").header("accept", &format!("text/plain, {STRUCTURED}"));
    let reply = client.get("/api/v1/nothing").await.unwrap();
    assert_eq!(code(&reply), (404, "not_found".into()));
    assert_eq!(reply.header("content-type"), STRUCTURED);
    assert_eq!(
        code(&client.post("/api/v1/widgets", &json!({})).await.unwrap()),
        (403, "auth_forbidden".into())
    );
    assert_eq!(code(&client.get("/api/v1/widgets?limit=0").await.unwrap()), (400, "invalid_input".into()));
    let reply =
        app.as_("editor-2").header("accept", STRUCTURED).post("/api/v1/widgets", &json!({})).await.unwrap();
    assert_eq!(code(&reply), (402, "quota_exceeded".into()));
    assert_eq!(reply.json["plan"], "trial");
}

#[tokio::test]
async fn missing_malformed_and_foreign_ids_answer_alike() {
    let app = Running::start().await;
    let made = app.as_("editor").post("/api/v1/widgets", &json!({"name": "w"})).await.unwrap();
    let id = made.json["id"].as_str().unwrap();
    let read = async |who: &str, id: &str| {
        let reply =
            app.as_(who).header("x-request-id", "r").get(&format!("/api/v1/widgets/{id}")).await.unwrap();
        (reply.status.as_u16(), reply.text())
    };
    assert_eq!(read("viewer", id).await.0, 200);
    let missing = read("viewer", &JobId::new().to_string()).await;
    assert_eq!(missing, (404, r#"{"error":"Job not found"}"#.into()));
    assert_eq!(read("viewer-2", id).await, missing);
    for bad in ["7", "x".repeat(36).as_str(), "%00", "..%2f..", &id.replace('-', "")] {
        assert_eq!(read("viewer", bad).await, missing, "{bad}");
    }
    assert_eq!(read("viewer", &id.to_uppercase()).await.0, 200);
    let reply = app.as_("viewer").get(&format!("/api/v1/widgets/{id}/parts/a%2Fb%20c")).await.unwrap();
    assert_eq!(reply.json, format!("a/b c of {id}"));
}

#[tokio::test]
async fn bodies_are_checked_before_the_handler() {
    let app = Running::start().await;
    let client = app.as_("editor");
    let send = async |media: Option<&str>, body: &str| {
        let reply = client.send_bytes(Method::POST, "/api/v1/widgets", media, body.to_owned()).await.unwrap();
        (reply.status.as_u16(), reply.json["message"].as_str().unwrap_or("").to_owned())
    };
    let json = Some("application/json");
    assert_eq!(
        send(json, "{\n \"name\": }").await,
        (400, "The body is not JSON: expected value at line 2, column 10.".into())
    );
    assert_eq!(send(json, "").await.0, 400);
    assert_eq!(send(json, r#"{"sizeMm": 1}"#).await, (400, "name: is required".into()));
    assert_eq!(
        send(json, r#"{"name":"a","tags":["x",3]}"#).await,
        (400, "tags[1]: must be a string, not integer 3".into())
    );
    assert_eq!(send(json, r#"{"name":""}"#).await, (400, "name: must not be empty".into()));
    assert_eq!(send(Some("text/plain"), r#"{"name":"a"}"#).await.0, 415);
    assert_eq!(send(Some("application/x-www-form-urlencoded"), "name=a").await.0, 415);
    assert_eq!(
        send(Some("application/JSON; charset=utf-8"), r#"{"name":"a","tags":null,"more":1}"#).await.0,
        201
    );
    assert_eq!(send(Some("application/merge-patch+json"), r#"{"name":"b"}"#).await.0, 201);
    assert_eq!(send(None, r#"{"name":"c"}"#).await.0, 201);
    assert_eq!(send(json, r#"{"name":"c"}"#).await.0, 409);
    let reply =
        client.header("content-encoding", "gzip").post("/api/v1/widgets", &json!({"name": "z"})).await;
    assert_eq!(reply.unwrap().status, 415);
    for (body, given) in [("", false), (r#"{"name":"a"}"#, true)] {
        let reply = client.send_bytes(Method::POST, "/api/v1/maybe", json, body).await.unwrap();
        assert_eq!(reply.json, given);
    }
}

#[tokio::test]
async fn too_large_is_413_however_it_is_framed() {
    let app = Running::start().await;
    let client = app.as_("editor");
    let big = format!("{{\"name\":\"{}\"}}", "x".repeat(2 << 20));
    let reply = client.send_bytes(Method::POST, "/api/v1/widgets", Some("application/json"), big.clone());
    let reply = reply.await.unwrap();
    assert_eq!(flat(&reply), (413, "Body too large", "The body is larger than 1 MiB."));
    let reply =
        client.send_bytes(Method::POST, "/api/v1/widgets/upload", Some("Text/CSV; header=present"), big);
    let reply = reply.await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (202, "5"));
    assert_eq!(reply.json, json!({"bytes": (2 << 20) + 11, "contentType": "text/csv"}));
    let huge = "x".repeat(9 << 20);
    let reply = client.send_bytes(Method::POST, "/api/v1/widgets/upload", None, huge).await.unwrap();
    assert_eq!(reply.status, 413);
}

#[tokio::test]
async fn lists_are_walked_page_by_page() {
    let app = Running::start().await;
    let client = app.as_("editor");
    for n in 0..7 {
        let body = json!({"name": format!("w{n}"), "sizeMm": n, "tags": ["all", format!("t{}", n % 2)]});
        assert_eq!(client.post("/api/v1/widgets", &body).await.unwrap().status, 201);
    }
    let mut names = Vec::new();
    let mut path = "/api/v1/widgets?limit=3&tag=all&sizeMmMin=1&unknown=x".to_owned();
    loop {
        let page = client.get(&path).await.unwrap();
        assert_eq!(page.status, 200, "{}", page.text());
        names.extend(
            page.json["items"].as_array().unwrap().iter().map(|w| w["name"].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = page.json["nextCursor"].as_str() else { break };
        path = format!("/api/v1/widgets?limit=3&tag=all&sizeMmMin=1&cursor={cursor}");
    }
    assert_eq!(names, ["w1", "w2", "w3", "w4", "w5", "w6"]);
    let page = client.get("/api/v1/widgets?tag=t1&tag=all&limit=1000&cursor=").await.unwrap();
    assert_eq!(page.json["items"].as_array().unwrap().len(), 3);
    assert_eq!(page.json["nextCursor"], Value::Null);
    for (query, says) in [
        ("limit=0", "limit: must be at least 1"),
        ("limit=x", "limit: must be a whole number from 1 to 200"),
        ("cursor=AAAA", "cursor: is damaged or belongs to another list"),
        ("sizeMmMin=big", "sizeMmMin: must be a whole number, 0 or more, not \"big\""),
    ] {
        let reply = client.get(&format!("/api/v1/widgets?{query}")).await.unwrap();
        assert_eq!(flat(&reply), (400, "Validation failed", says));
    }
}

#[tokio::test]
async fn entity_tags_save_reading_and_guard_changes() {
    let app = Running::start().await;
    let client = app.as_("editor");
    let made = client.post("/api/v1/widgets", &json!({"name": "w"})).await.unwrap();
    let path = format!("/api/v1/widgets/{}", made.json["id"].as_str().unwrap());
    let read = client.get(&path).await.unwrap();
    let tag = read.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.len() == 26, "{tag}");
    assert_eq!(made.header("etag"), "");
    let again = client.header("if-none-match", &tag).get(&path).await.unwrap();
    assert_eq!((again.status.as_u16(), again.bytes.len(), again.header("etag")), (304, 0, tag.as_str()));
    let zstd = format!("{}-zstd\"", tag.trim_end_matches('"'));
    assert_eq!(
        client.header("if-none-match", &format!("\"a\", {zstd}")).get(&path).await.unwrap().status,
        304
    );
    let change = json!({"name": "v"});
    let changed = client.header("if-match", &tag).put(&path, &change).await.unwrap();
    assert_eq!(changed.json["name"], "v");
    let stale = client.header("if-match", &tag).put(&path, &change).await.unwrap();
    assert_eq!(flat(&stale).0, 412);
    assert_eq!(client.put(&path, &change).await.unwrap().status, 200);
    assert_eq!(client.header("if-none-match", &tag).get(&path).await.unwrap().status, 200);
    assert_eq!(client.delete(&path).await.unwrap().status, 204);
}

#[tokio::test]
async fn methods_that_no_handler_has() {
    let app = Running::start().await;
    let client = app.as_("viewer");
    let reply = client.send(Method::OPTIONS, "/api/v1/widgets/7", None).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.header("allow")), (204, "GET, PUT, DELETE, HEAD, OPTIONS"));
    let reply = client.send(Method::PATCH, "/api/v1/widgets/7", None).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.header("allow")), (405, "GET, PUT, DELETE, HEAD, OPTIONS"));
    assert_eq!(flat(&reply).1, "Method not allowed");
    assert_eq!(client.send(Method::HEAD, "/api/v1/session", None).await.unwrap().status, 405);
    assert_eq!(client.send(Method::OPTIONS, "/api/v1/nothing", None).await.unwrap().status, 404);
    let odd = Method::from_bytes(b"BREW").unwrap();
    assert_eq!(client.send(odd, "/api/v1/widgets", None).await.unwrap().status, 405);
    let get = client.get("/api/v1/widgets").await.unwrap();
    let head = client.send(Method::HEAD, "/api/v1/widgets", None).await.unwrap();
    assert_eq!(head.status, 200);
    assert_eq!(head.bytes.len(), 0);
    assert_eq!(head.header("content-length"), get.bytes.len().to_string());
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(client.get("/api/v1/widgets/latest").await.unwrap().status, 204);
}

#[tokio::test]
async fn request_ids_are_on_every_response() {
    let app = Running::start().await;
    for path in ["/api/v1/widgets", "/nothing", "/healthz", "/api/v1/panic", "/api/v1/bi/things"] {
        let reply = app.anonymous().header("x-request-id", "my-id_1.2").get(path).await.unwrap();
        assert_eq!(reply.header("x-request-id"), "my-id_1.2", "{path}");
        let reply = app.anonymous().header("x-request-id", "no spaces").get(path).await.unwrap();
        assert_eq!(reply.header("x-request-id").len(), 36);
    }
    let seen = app.anonymous().get("/api/v1/whoami").await.unwrap();
    assert_eq!(seen.json["request_id"], seen.header("x-request-id"));
}

#[tokio::test]
async fn what_fails_inside_stays_inside() {
    let app = Running::start().await;
    let client = app.anonymous();
    for path in ["/api/v1/panic", "/api/v1/fails"] {
        for _ in 0..3 {
            let reply = client.get(path).await.unwrap();
            assert_eq!(
                (reply.status.as_u16(), reply.text().as_str()),
                (500, r#"{"error":"Internal server error"}"#)
            );
        }
    }
    let reply = client.get("/api/v1/slow").await.unwrap();
    assert_eq!((flat(&reply).0, flat(&reply).1), (503, "Service unavailable"));
    assert_eq!(client.get("/healthz").await.unwrap().status, 200);
}

#[tokio::test]
async fn forwarded_addresses_are_believed_only_from_trusted_proxies() {
    let app = Running::start().await;
    let seen = app.anonymous().header("x-forwarded-for", "198.51.100.7").get("/api/v1/whoami").await.unwrap();
    assert_eq!(seen.json["ip"], "127.0.0.1");
    let app = Running::with(|_, api| api.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    let seen = app
        .anonymous()
        .header("x-forwarded-for", "6.6.6.6, 198.51.100.7")
        .get("/api/v1/whoami")
        .await
        .unwrap();
    assert_eq!(seen.json["ip"], "198.51.100.7");
}

#[tokio::test]
async fn the_document_says_what_the_routes_do() {
    let app = Running::start().await;
    let reply = app.anonymous().get("/api/v1/openapi.json").await.unwrap();
    let document = &reply.json;
    assert_eq!(document["openapi"], "3.1.0");
    let list = &document["paths"]["/api/v1/widgets"]["get"];
    assert_eq!(list["operationId"], "listWidgets");
    assert_eq!(list["x-permission"], "jobs:read");
    let names: Vec<_> =
        list["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["limit", "cursor", "sizeMmMin", "tag", "If-None-Match"]);
    assert_eq!(list["parameters"][2]["schema"], json!({"type": "integer", "format": "uint32", "minimum": 0}));
    let create = &document["paths"]["/api/v1/widgets"]["post"];
    let statuses: Vec<_> = create["responses"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        statuses,
        ["201", "400", "401", "402", "403", "408", "409", "413", "415", "429", "500", "503"]
    );
    assert_eq!(document["paths"]["/api/v1/whoami"]["get"]["security"], json!([]));
    assert_eq!(
        document["paths"]["/api/v1/widgets/{id}/parts/{part}"]["get"]["parameters"][1]["name"],
        "part"
    );
    let things = &document["paths"]["/api/v1/bi/things"]["get"]["responses"]["403"];
    assert!(things["description"].as_str().unwrap().contains("`email_not_verified`"));
    assert!(document["paths"]["/healthz"].is_null());
    // Every reference leads somewhere.
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let text = reply.text();
    for reference in text.split("\"$ref\":\"").skip(1) {
        let name = reference.split('"').next().unwrap().strip_prefix("#/components/schemas/").unwrap();
        assert!(schemas.contains_key(name), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)), "{name}");
    }
    assert_eq!(app.anonymous().get("/api/v1/openapi.json").await.unwrap().text(), text);
}

#[tokio::test]
async fn pages_for_people() {
    let app = Running::start().await;
    let client = app.anonymous();
    let docs = client.get("/docs").await.unwrap();
    assert_eq!((docs.status.as_u16(), docs.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(docs.text().contains("/api/v1/widgets/{id}") && docs.text().contains("Lists widgets."));
    for code in Code::ALL {
        let page = client.get(&format!("/docs/errors/{}", code.name())).await.unwrap();
        assert_eq!(page.status, 200, "{}", code.name());
        assert!(page.text().contains(&format!("<h1>{}</h1>", code.name())));
    }
    assert_eq!(client.get("/docs/errors/nope").await.unwrap().status, 404);
    assert!(client.get("/docs/errors").await.unwrap().text().contains("job_terminal"));
}

#[tokio::test]
async fn health_readiness_and_metrics() {
    let app = Running::start().await;
    let client = app.as_("viewer");
    assert_eq!(client.get("/healthz").await.unwrap().text(), "ok\n");
    let ready = client.get("/readyz").await.unwrap();
    assert_eq!(
        (ready.status.as_u16(), &ready.json),
        (200, &json!({"status": "ready", "checks": {"store": "ok"}}))
    );
    client.get("/api/v1/widgets").await.unwrap();
    client.get("/api/v1/widgets?limit=0").await.unwrap();
    let page = client.get("/metrics").await.unwrap().text();
    for line in [
        r#"gleaner_http_requests_total{method="GET",route="/api/v1/widgets",status="2xx"} 1"#,
        r#"gleaner_http_requests_total{method="GET",route="/api/v1/widgets",status="4xx"} 1"#,
        r#"gleaner_http_request_seconds_count{method="GET",route="/api/v1/widgets"} 2"#,
        "gleaner_http_connections 1",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
}
