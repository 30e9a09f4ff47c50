//! The vendors that are asked by POST with a JSON object.

use super::{Asked, Reply, Target, Told};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

fn is_post(asked: &Asked, path: &str) {
    assert_eq!((&asked.method, asked.path.as_str()), (&Method::POST, path));
    assert!(asked.header("content-type").is_some_and(|kind| kind.starts_with("application/json")));
    assert!(asked.body.is_object(), "the body is no JSON object");
}

fn url(asked: &Asked) -> &str {
    asked.body["url"].as_str().expect("url")
}

/// docs.brightdata.com, Web Unlocker. Everything behind the API's own door is 200 outside, the status in x-brd-status-code.
/// What the Unlocker rejected says so in x-brd-error-code, with the real status in the text; what the proxies below it
/// refuse, the account's troubles among them, in x-brd-err-code. Other statuses of a target are passed on.
pub fn brightdata(asked: &Asked) -> Told {
    is_post(asked, "/request");
    let refused = |status: u16, code: &str, text: &str| {
        Reply::new(200, "")
            .with("x-brd-err-code", code)
            .with("x-brd-err-msg", text)
            .with("x-brd-error", text)
            .with("x-brd-status-code", status)
    };
    match asked.bearer() {
        "bad-key" => return Some(Reply::new(401, "Auth method is not supported")),
        "spent-key" => return Some(refused(407, "client_10020", "Account is suspended")),
        "busy-key" => {
            return Some(refused(429, "client_10110", "Account exceeded the allowed rate limits"));
        }
        key => assert_eq!(key, "good-key"),
    }
    assert_eq!(asked.body["zone"], "unlocker1", "zone");
    assert_eq!(asked.body["format"], "raw", "format is required");
    assert!(asked.body.get("country").is_none_or(|c| c.as_str().is_some_and(|c| c.len() == 2)), "country");
    assert!(matches!(asked.body["render"].as_str(), None | Some("true" | "false")), "render is a word");
    let rejected = |code: &str, text: &str| {
        Reply::new(200, "")
            .with("x-brd-error-code", code)
            .with("x-brd-error", text)
            .with("x-brd-status-code", 502)
    };
    let target = Target::of(url(asked));
    Some(match target.answer() {
        Some((status @ (403 | 429), _)) => {
            rejected("http_status", &format!("response status was rejected: {status} status code"))
        }
        Some((status, body)) => Reply::html(200, body).with("x-brd-status-code", status),
        None if target == Target::Hang => return None,
        None => rejected("proxy_error", "Could not resolve host dead.test."),
    })
}

/// docs.zyte.com/zyte-api. 200 with the target's status inside unless it was a ban; the body of an HTTP request in Base64,
/// that of a browser as text; bans are 520, names that do not resolve 421; 429 and 503 are rate limits and may carry
/// Retry-After; no costs anywhere.
pub fn zyte(asked: &Asked) -> Told {
    is_post(asked, "/v1/extract");
    let problem = |status: u16, kind: &str, title: &str| {
        Reply::json(status, json!({ "type": kind, "title": title, "status": status, "detail": title }))
    };
    match asked.basic() {
        (key, password) if key == "good-key" => assert_eq!(password, ""),
        (key, _) if key == "bad-key" => {
            return Some(problem(401, "/auth/key-not-found", "Authentication Key Not Found"));
        }
        (key, _) if key == "spent-key" => {
            return Some(problem(403, "/auth/account-suspended", "Account Suspended"));
        }
        (key, _) if key == "busy-key" => {
            return Some(problem(429, "/limits/over-user-limit", "Too Many Requests").with("retry-after", 1));
        }
        (key, _) => panic!("key {key}"),
    }
    let body = &asked.body;
    let (http, browser) = (body["httpResponseBody"] == true, body["browserHtml"] == true);
    assert!(http != browser, "httpResponseBody and browserHtml exclude each other");
    assert!(!browser || body.get("customHttpRequestHeaders").is_none(), "a browser takes no custom headers");
    assert!(body.get("geolocation").is_none_or(|c| c.as_str().is_some_and(|c| c == c.to_uppercase())));
    assert!(matches!(body["ipType"].as_str(), None | Some("datacenter" | "residential")), "ipType");
    let target = Target::of(url(asked));
    let Some((status, page)) = target.answer() else {
        return (target != Target::Hang)
            .then(|| problem(421, "/website/domain-unreachable", "Domain Unreachable"));
    };
    if matches!(status, 403 | 429) {
        return Some(problem(520, "/download/temporary-error", "Temporary Downloading Error"));
    }
    let mut answer = json!({ "url": url(asked), "statusCode": status });
    if http {
        answer["httpResponseBody"] = STANDARD.encode(page).into();
        answer["httpResponseHeaders"] =
            json!([{ "name": "Content-Type", "value": "text/html; charset=utf-8" }]);
    } else {
        answer["browserHtml"] = page.into();
    }
    Some(Reply::json(200, answer))
}

/// developers.oxylabs.io, Web Scraper API in real time. results[] with content and status_code; its own 6xx codes stand in
/// the target's place when it gave up (not billed); a target's 404 is tried again unless it is named as successful.
pub fn oxylabs(asked: &Asked) -> Told {
    is_post(asked, "/v1/queries");
    let (user, password) = asked.basic();
    match password.as_str() {
        "good-key" => assert_eq!(user, "me"),
        "bad-key" => return Some(Reply::json(401, json!({ "message": "Client not found" }))),
        "spent-key" => {
            return Some(Reply::json(429, json!({ "message": "Monthly results limit is reached" })));
        }
        "busy-key" => return Some(Reply::json(429, json!({ "message": "Too many requests" }))),
        other => panic!("password {other}"),
    }
    let body = &asked.body;
    assert_eq!(body["source"], "universal");
    assert!(matches!(body["render"].as_str(), None | Some("html")), "render");
    assert!(
        body.get("geo_location").is_none_or(|place| place == "Germany"),
        "a country is given by its name"
    );
    let context = body["context"].as_array().cloned().unwrap_or_default();
    let named =
        |key: &str| context.iter().find(|entry| entry["key"] == key).map(|entry| entry["value"].clone());
    let successful = named("successful_status_codes").unwrap_or_default();
    let result = |status: u64, content: &str| {
        let result = json!({ "content": content, "status_code": status, "url": url(asked), "page": 1, "job_id": "7213505428280329217" });
        Reply::json(200, json!({ "results": [result] }))
    };
    let target = Target::of(url(asked));
    Some(match target.answer() {
        Some((status, page))
            if status == 200 || successful.as_array().is_some_and(|s| s.contains(&Value::from(status))) =>
        {
            result(status.into(), page)
        }
        Some((status @ (403 | 429), page)) => result(status.into(), page),
        Some(_) => result(613, "Faulted After Too Many Retries"),
        None if target == Target::Hang => return None,
        None => result(613, "Faulted After Too Many Retries"),
    })
}

/// docs.firecrawl.dev, v2. 200 with the target's status in the metadata; errors with success false and a code, a dead name
/// among them as 200; pages of up to two days ago unless maxAge is 0; "auto" proxies may cost five credits, basic one,
/// enhanced five.
pub fn firecrawl(asked: &Asked) -> Told {
    is_post(asked, "/v2/scrape");
    let failed = |status: u16, code: &str, error: &str| {
        Reply::json(status, json!({ "success": false, "code": code, "error": error }))
    };
    match asked.bearer() {
        "bad-key" => {
            return Some(Reply::json(
                401,
                json!({ "success": false, "error": "Unauthorized: Invalid token" }),
            ));
        }
        "spent-key" => {
            return Some(Reply::json(402, json!({ "success": false, "error": "Insufficient credits" })));
        }
        "busy-key" => {
            return Some(
                Reply::json(429, json!({ "success": false, "error": "Rate limit exceeded" }))
                    .with("retry-after", 1),
            );
        }
        key => assert_eq!(key, "good-key"),
    }
    let body = &asked.body;
    assert_eq!(body["formats"], json!(["rawHtml"]));
    assert_eq!(body["maxAge"], 0, "an old page would be handed over");
    assert!(body["timeout"].as_u64().is_some_and(|ms| (1_000..=300_000).contains(&ms)), "timeout");
    let credits = match body["proxy"].as_str() {
        Some("basic") => 1,
        Some("enhanced" | "stealth") => 5,
        other => panic!("proxy {other:?}"),
    };
    assert!(body.get("location").is_none_or(|place| place["country"].is_string()), "location");
    let target = Target::of(url(asked));
    Some(match target.answer() {
        Some((403, _)) => failed(500, "SCRAPE_ALL_ENGINES_FAILED", "All scraping engines failed!"),
        Some((status, page)) => {
            let metadata = json!({
                "statusCode": status, "url": url(asked), "sourceURL": url(asked), "creditsUsed": credits,
                "contentType": "text/html; charset=utf-8", "proxyUsed": "basic",
            });
            Reply::json(200, json!({ "success": true, "data": { "rawHtml": page, "metadata": metadata } }))
        }
        None if target == Target::Hang => return None,
        None => failed(200, "SCRAPE_DNS_RESOLUTION_ERROR", "DNS resolution failed for hostname"),
    })
}
