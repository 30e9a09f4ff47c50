//! Site sessions on their way: who is sent what of them, along redirects.

use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE, HeaderName};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

use super::site::{Site, answer, direct_to, page, path, redirect, request, sent, settings};
use crate::*;
use base::web::Domain;

const VALUE: &str = "opensesame";

fn cookie(name: &str, host: Option<(&str, bool)>, path: &str, secure: Option<bool>) -> SessionCookie {
    SessionCookie {
        name: name.to_owned(),
        value: VALUE.to_owned(),
        host: host.map(|(host, alone)| (host.to_owned(), alone)),
        path: path.to_owned(),
        secure,
        http_only: false,
    }
}

fn session(values: SessionValues) -> Option<Arc<SiteSession>> {
    Some(Arc::new(SiteSession::new(Domain::parse("shop.test").unwrap(), values)))
}

/// A site that leads from `/start` over its other host to another domain and back, and the heads that it has seen.
async fn sites() -> (Site, Site, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (heads, others) = (seen.clone(), seen.clone());
    let back = Arc::new(Mutex::new(String::new()));
    let way_back = back.clone();
    let other = Site::start(move |head| {
        others.lock().push(head.to_owned());
        redirect(way_back.lock().as_str())
    })
    .await;
    let away = other.named("other.test", "/away");
    let www = Arc::new(Mutex::new(String::new()));
    let to_www = www.clone();
    let site = Site::start(move |head| {
        heads.lock().push(head.to_owned());
        match path(head) {
            "/start" => redirect(to_www.lock().as_str()),
            "/www" => redirect(away.as_str()),
            "/fresh" => answer(302, &[("set-cookie", "sid=fresh; Path=/"), ("location", "/done")], ""),
            _ => page("done"),
        }
    })
    .await;
    *www.lock() = site.named("www.shop.test", "/www").to_string();
    *back.lock() = site.named("shop.test", "/done").to_string();
    (site, other, seen)
}

fn head_of(seen: &Mutex<Vec<String>>, start: &str) -> String {
    let heads = seen.lock();
    heads
        .iter()
        .find(|head| head.starts_with(start))
        .unwrap_or_else(|| panic!("no {start}: {heads:?}"))
        .clone()
}

#[tokio::test]
async fn cookies_go_where_they_belong_and_nowhere_else() {
    let (site, other, seen) = sites().await;
    let direct = direct_to(&[site.addr, other.addr], settings());
    let cookies = vec![
        cookie("sid", None, "/", None),
        cookie("alone", Some(("shop.test", true)), "/", Some(false)),
        cookie("deep", Some(("shop.test", false)), "/www", None),
        cookie("safe", None, "/", Some(true)),
    ];
    let mut asked = request(site.named("shop.test", "/start"));
    asked.session = session(SessionValues::Cookies(cookies));
    asked.headers.insert(COOKIE, HeaderValue::from_static("own=1"));
    asked.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer own"));
    asked.headers.insert(HeaderName::from_static("x-api-key"), HeaderValue::from_static("own"));
    let report = direct.fetch(asked.clone()).await;
    assert_eq!((report.outcome, report.redirects.len()), (Outcome::Success, 3), "{:?}", report.error);
    let all = "own=1; sid=opensesame; alone=opensesame";
    assert_eq!(sent(&head_of(&seen, "GET /start"), "cookie"), Some(all));
    assert_eq!(sent(&head_of(&seen, "GET /www"), "cookie"), Some("deep=opensesame; sid=opensesame"));
    let away = head_of(&seen, "GET /away");
    for name in ["cookie", "authorization", "x-api-key"] {
        assert_eq!(sent(&away, name), None, "another registrable domain gets nothing: {away}");
    }
    assert!(!away.contains(VALUE) && !away.contains("own"), "{away}");
    assert_eq!(sent(&head_of(&seen, "GET /done"), "cookie"), Some(all), "back home");

    // What the site sets anew takes the place of what nobody said a host of, on this chain and no other.
    asked.url = site.named("shop.test", "/fresh");
    seen.lock().clear();
    for _ in 0..2 {
        assert_eq!(direct.fetch(asked.clone()).await.outcome, Outcome::Success);
    }
    let heads = seen.lock().clone();
    let cookies: Vec<_> = heads.iter().map(|head| sent(head, "cookie").unwrap()).collect();
    let renewed = "own=1; alone=opensesame; sid=fresh";
    assert_eq!(cookies, [all, renewed, all, renewed]);
}

#[tokio::test]
async fn headers_go_to_the_hosts_of_the_domain() {
    let (site, other, seen) = sites().await;
    // One port for both hosts of the domain, as a session's headers want it.
    let direct = direct_to(&[site.addr, other.addr], settings());
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer opensesame"));
    headers.insert("x-token", HeaderValue::from_static(VALUE));
    let mut asked = request(site.named("shop.test", "/start"));
    asked.session = session(SessionValues::Headers(headers));
    asked.headers.insert("x-token", HeaderValue::from_static("own"));
    let report = direct.fetch(asked.clone()).await;
    assert_eq!(report.outcome, Outcome::Success, "{:?}", report.error);
    for (start, token) in [("GET /start", "own"), ("GET /www", VALUE), ("GET /done", "own")] {
        let head = head_of(&seen, start);
        assert_eq!(sent(&head, "authorization"), Some("Bearer opensesame"), "{head}");
        assert_eq!(
            sent(&head, "x-token"),
            Some(token),
            "what the job says itself is for its own host: {head}"
        );
    }
    let away = head_of(&seen, "GET /away");
    assert!(sent(&away, "authorization").is_none() && sent(&away, "x-token").is_none(), "{away}");
    // robots.txt is asked for as nobody: what it says is kept for all.
    asked.robots = true;
    assert_eq!(direct.fetch(asked).await.outcome, Outcome::Success);
    let robots = head_of(&seen, "GET /robots.txt");
    assert!(!robots.contains(VALUE), "{robots}");
}
