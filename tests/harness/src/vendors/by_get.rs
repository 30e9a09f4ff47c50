//! The vendors that are asked by GET with everything in the query.

use super::{Asked, Reply, Target, Told};
use http::Method;
use serde_json::json;

/// The price of tier × rendering, in the order plain, rendered, better, better and rendered.
fn price(render: bool, better: bool, table: [u64; 4]) -> u64 {
    table[usize::from(render) + 2 * usize::from(better)]
}

fn is_get(asked: &Asked, path: &str) {
    assert_eq!((&asked.method, asked.path.as_str()), (&Method::GET, path));
    assert!(asked.body.is_null(), "a GET with a body");
}

/// docs.scraperapi.com. Retries for up to 70 s and then says 500 whatever the target said; only 200 and 404 are billed.
/// The headers sa-statuscode, sa-credit-cost and sa-final-url stand in answers that come from a target; a target that gave
/// no answer is a sa-statuscode of 504 (recorded).
pub fn scraperapi(asked: &Asked) -> Told {
    is_get(asked, "/");
    match asked.param("api_key").expect("api_key") {
        "bad-key" => {
            return Some(Reply::json(
                401,
                json!({ "error": "Unauthorized request, please make sure your API key is valid: bad-key" }),
            ));
        }
        "spent-key" => {
            return Some(Reply::new(
                403,
                "You have exhausted the API Credits available in this monthly cycle.",
            ));
        }
        "busy-key" => {
            return Some(Reply::new(429, "You've hit your concurrency limit.").with("retry-after", 1));
        }
        key => assert_eq!(key, "good-key"),
    }
    let url = asked.param("url").expect("url");
    let (premium, ultra) = (asked.is("premium"), asked.is("ultra_premium"));
    assert!(!(premium && ultra), "premium and ultra_premium exclude each other");
    if asked.header("accept-language").is_some() {
        assert!(asked.is("keep_headers"), "headers are only kept with keep_headers");
    }
    let cost = if ultra {
        price(asked.is("render"), false, [30, 75, 0, 0])
    } else {
        price(asked.is("render"), premium, [1, 10, 10, 25])
    };
    let target = Target::of(url);
    Some(match target.answer() {
        Some((status @ (200 | 404), body)) => Reply::html(status, body)
            .with("sa-statuscode", status)
            .with("sa-credit-cost", cost)
            .with("sa-final-url", url),
        Some((status, _)) => Reply::new(500, "Request failed. You will not be charged for this request.")
            .with("sa-statuscode", status),
        None if target == Target::Hang => return None,
        None => Reply::new(500, "Request failed. You will not be charged for this request.")
            .with("sa-statuscode", 504),
    })
}

/// www.scrapingbee.com/documentation. Renders unless told not to; every target status but 2xx and 404 comes as 500 unless it
/// is to be transparent, and then what the target refused is billed too; headers of the target begin with Spb-. 401 for a wrong
/// key and for a spent plan alike. A dead name is 503 with an initial status of the vendor's own (recorded).
pub fn scrapingbee(asked: &Asked) -> Told {
    is_get(asked, "/api/v1/");
    assert!(asked.param("api_key").is_none(), "api_key is deprecated");
    match asked.bearer() {
        "bad-key" => return Some(Reply::json(401, json!({ "message": "Invalid api key: bad-key" }))),
        "spent-key" => {
            return Some(Reply::json(401, json!({ "message": "Monthly API calls limit reached: 1000" })));
        }
        "busy-key" => return Some(Reply::json(429, json!({ "message": "Too many concurrent requests" }))),
        key => assert_eq!(key, "good-key"),
    }
    let url = asked.param("url").expect("url");
    let render = asked.param("render_js").is_none_or(|value| value == "true");
    let (premium, stealth) = (asked.is("premium_proxy"), asked.is("stealth_proxy"));
    if asked.param("country_code").is_some() {
        assert!(premium || stealth, "country_code works with premium or stealth proxies");
    }
    if asked.header("spb-accept-language").is_some() {
        assert!(asked.is("forward_headers"), "headers are only passed on with forward_headers");
        assert!(!stealth, "stealth proxies take no headers");
    }
    assert!(!stealth || asked.param("timeout").is_none(), "stealth proxies take no time limit");
    let timeout: u64 = asked.param("timeout").map_or(Ok(140_000), str::parse).expect("timeout");
    assert!((1_000..=140_000).contains(&timeout), "timeout={timeout}");
    let cost = if stealth { 75 } else { price(render, premium, [1, 5, 10, 25]) };
    let target = Target::of(url);
    Some(match target.answer() {
        Some((status, body)) => {
            let is_clear = asked.is("transparent_status_code") || matches!(status, 200 | 404);
            let reply = Reply::html(if is_clear { status } else { 500 }, body)
                .with("Spb-initial-status-code", status)
                .with("Spb-resolved-url", url)
                .with("Spb-content-type", "text/html; charset=utf-8")
                .with("Spb-cost", if is_clear && status < 500 { cost } else { 0 });
            if status == 429 { reply.with("Spb-retry-after", 1) } else { reply }
        }
        None if target == Target::Hang => return None,
        None => Reply::new(503, "Proxy connection error")
            .with("Spb-initial-status-code", 503)
            .with("Spb-resolved-url", url)
            .with("Spb-content-type", "text/plain; charset=utf-8")
            .with("Spb-cost", 0),
    })
}

/// scrapfly.io/docs/scrape-api. JSON around everything; a target's 4xx and 5xx is 200 outside with a reject code; text is
/// UTF-8; a custom timeout is only taken without retries, and within bounds. X-Scrapfly-Reject-Code beside
/// result.error.code; an error that is no scrape's has its code at the top, and a number in that header (recorded).
pub fn scrapfly(asked: &Asked) -> Told {
    is_get(asked, "/scrape");
    let rejected = |status: u16, code: &str, message: &str| {
        let error = json!({ "code": code, "http_code": status, "message": message, "retryable": false });
        Reply::json(status, json!({ "config": {}, "context": {}, "result": { "success": false, "status": "DONE", "error": error } }))
            .with("X-Scrapfly-Reject-Code", code)
    };
    match asked.param("key").expect("key") {
        "bad-key" => {
            let body = json!({ "status": "error", "http_code": 401, "reason": "Unauthorized", "message": "Invalid API key" });
            return Some(Reply::json(401, body));
        }
        "spent-key" => {
            let body = json!({
                "code": "ERR::SCRAPE::QUOTA_LIMIT_REACHED", "error_id": "d118ae6b", "http_code": 429,
                "links": null, "message": "Your scrape quota is reached", "reason": "Too Many Requests",
            });
            return Some(Reply::json(429, body).with("X-Scrapfly-Reject-Code", 429));
        }
        "busy-key" => {
            let code = "ERR::THROTTLE::MAX_CONCURRENT_REQUEST_EXCEEDED";
            return Some(rejected(429, code, "Too many concurrent access").with("retry-after", 1));
        }
        key => assert_eq!(key, "good-key"),
    }
    let url = asked.param("url").expect("url");
    let (render, bypass) = (asked.is("render_js"), asked.is("asp"));
    if let Some(timeout) = asked.param("timeout") {
        assert_eq!(asked.param("retry"), Some("false"), "a timeout is only taken with retry=false");
        let bounds: std::ops::RangeInclusive<u64> = match (bypass, render) {
            (true, _) => 30_000..=150_000,
            (false, true) => 30_000..=60_000,
            (false, false) => 15_000..=30_000,
        };
        assert!(bounds.contains(&timeout.parse::<u64>().expect("timeout")), "timeout={timeout}");
    }
    let residential = match asked.param("proxy_pool").unwrap_or("public_datacenter_pool") {
        "public_datacenter_pool" => false,
        "public_residential_pool" => true,
        other => panic!("proxy_pool={other}"),
    };
    let cost = price(render, residential, [1, 6, 25, 30]);
    let target = Target::of(url);
    let Some((status, body)) = target.answer() else {
        return (target != Target::Hang).then(|| {
            let message = "The DNS of upstream website is not resolving";
            // One of the few failures that are billed.
            rejected(422, "ERR::SCRAPE::DNS_NAME_NOT_RESOLVED", message).with("X-Scrapfly-Api-Cost", cost)
        });
    };
    let mut result = json!({
        "content": body, "format": "text", "status_code": status, "url": url, "success": status < 400,
        "content_type": "text/html; charset=iso-8859-1", "status": "DONE", "error": null,
        "response_headers": { "content-type": "text/html; charset=iso-8859-1" },
    });
    let bad = status >= 400;
    if bad {
        let code = "ERR::SCRAPE::BAD_UPSTREAM_RESPONSE";
        result["error"] = json!({ "code": code, "message": format!("The website responded with {status}") });
    }
    if status == 429 {
        result["response_headers"]["retry-after"] = json!("1");
    }
    let cost = if status == 200 || status == 404 { cost } else { 0 };
    let body =
        json!({ "config": { "url": url }, "context": { "cost": { "total": cost } }, "result": result });
    let reply = Reply::json(200, body).with("X-Scrapfly-Api-Cost", cost);
    Some(if bad { reply.with("X-Scrapfly-Reject-Code", "ERR::SCRAPE::BAD_UPSTREAM_RESPONSE") } else { reply })
}

/// docs.zenrows.com. Its own errors are problem documents with a code, and so is its description of a target that failed
/// (RESP...): with original_status under the target's status, else under 404 or 422. X-Request-Cost is an amount of money,
/// X-Request-Credits the credits. The target's headers begin with Zr-.
pub fn zenrows(asked: &Asked) -> Told {
    is_get(asked, "/v1/");
    let problem = |status: u16, code: &str, title: &str| {
        let body = json!({ "code": code, "title": title, "detail": title, "status": status, "type": format!("https://docs.zenrows.com/api-error-codes#{code}") });
        Reply::new(status, body.to_string()).with("content-type", "application/problem+json")
    };
    match asked.param("apikey").expect("apikey") {
        "bad-key" => return Some(problem(401, "AUTH002", "Invalid API key")),
        "spent-key" => return Some(problem(402, "AUTH004", "Usage exceeded")),
        "busy-key" => return Some(problem(429, "AUTH006", "Concurrency limit exceeded")),
        key => assert_eq!(key, "good-key"),
    }
    let url = asked.param("url").expect("url");
    let premium = asked.is("premium_proxy");
    if asked.param("proxy_country").is_some() {
        assert!(premium, "proxy_country needs premium_proxy");
    }
    if asked.header("accept-language").is_some() {
        assert!(asked.is("custom_headers"), "headers are only passed on with custom_headers");
    }
    let credits = price(asked.is("js_render"), premium, [1, 5, 10, 25]);
    let billed = |reply: Reply| {
        reply.with("X-Request-Credits", credits).with("X-Request-Cost", 0.00028 * credits as f64)
    };
    let target = Target::of(url);
    let is_original = asked.is("original_status");
    Some(match target.answer() {
        Some((200, body)) => billed(Reply::html(200, body))
            .with("Zr-Content-Type", "text/html; charset=utf-8")
            .with("Zr-Final-Url", url),
        Some((404, _)) => billed(problem(404, "RESP002", "Page not found (RESP002)")),
        Some((403, body)) if is_original => {
            Reply::html(403, body).with("Zr-Content-Type", "text/html; charset=utf-8")
        }
        Some((status, _)) => {
            problem(if is_original { status } else { 422 }, "RESP001", "Could not get content (RESP001)")
        }
        None if target == Target::Hang => return None,
        None => problem(422, "RESP007", "Could not resolve domain (RESP007)"),
    })
}

/// scrapeops.io/docs/proxy-aggregator. 401 is a spent plan and 403 a wrong key; only 200 and 404 come through and are
/// billed; it checks pages for bans and may miss one; nothing says what a request cost.
pub fn scrapeops(asked: &Asked) -> Told {
    is_get(asked, "/v1/");
    match asked.param("api_key").expect("api_key") {
        "bad-key" => {
            return Some(Reply::json(403, json!({ "message": "Forbidden: invalid api_key bad-key" })));
        }
        "spent-key" => {
            return Some(Reply::json(401, json!({ "message": "You have consumed all your credits" })));
        }
        "busy-key" => return Some(Reply::json(429, json!({ "message": "Exceeded your concurrency limit" }))),
        key => assert_eq!(key, "good-key"),
    }
    let url = asked.param("url").expect("url");
    for name in ["render_js", "residential", "keep_headers"] {
        asked.is(name);
    }
    let target = Target::of(url);
    Some(match target.answer() {
        Some((status @ (200 | 404), body)) => Reply::html(status, body),
        Some(_) => Reply::json(500, json!({ "message": "Failed to get successful response from website" })),
        None if target == Target::Hang => return None,
        None => Reply::json(500, json!({ "message": "Failed to get successful response from website" })),
    })
}

/// scrape.do/documentation. With transparentResponse every status of the target comes as it is; 401 means no credits, and a
/// wrong token too; 502 that the request failed. Costs stand in a header of every answer that came from a target.
pub fn scrapedo(asked: &Asked) -> Told {
    is_get(asked, "/");
    let own = |status: u16, message: &str| {
        Reply::json(status, json!({ "StatusCode": status, "Message": [message], "PossibleCauses": [] }))
    };
    match asked.param("token").expect("token") {
        "bad-key" => return Some(own(401, "Invalid token bad-key")),
        "spent-key" => return Some(own(401, "You have no credits or your subscription has been suspended")),
        "busy-key" => {
            return Some(own(429, "You are sending requests too quickly (concurrency limit exceeded)"));
        }
        key => assert_eq!(key, "good-key"),
    }
    let url = asked.param("url").expect("url");
    if asked.header("sd-accept-language").is_some() {
        assert!(asked.is("extraHeaders"), "sd- headers are only added with extraHeaders");
    }
    assert!(asked.is("disableRetry"), "its own retries are on");
    let cost = price(asked.is("render"), asked.is("super"), [1, 5, 10, 25]);
    let target = Target::of(url);
    Some(match target.answer() {
        Some((status, body)) => {
            let billed = matches!(status, 200..=299 | 400 | 404 | 410);
            let shown = if asked.is("transparentResponse") || billed { status } else { 502 };
            let reply = Reply::html(shown, body)
                .with("Scrape.do-Request-Cost", if billed { cost } else { 0 })
                .with("Scrape.do-Initial-Status-Code", status)
                .with("Scrape.do-Resolved-Url", url);
            if status == 429 { reply.with("retry-after", 1) } else { reply }
        }
        None if target == Target::Hang => return None,
        None => own(502, "Request has failed. Please try again"),
    })
}
