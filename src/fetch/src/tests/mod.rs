//! Fetching for real, from servers on loopback: one test a rule.

mod proxy;
mod robots;
mod session;
pub(crate) mod site;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::header::{AUTHORIZATION, COOKIE, HeaderName};
use tokio::net::TcpListener;

use super::*;
use site::{
    Reply, Site, answer, assert_fails, direct, direct_to, gzip, page, path, redirect, request, sent, settings,
};

#[tokio::test]
async fn brings_a_page_as_it_is() {
    let site = Site::start(|head| {
        assert!(head.starts_with("GET /a?b=1 HTTP/1.1\r\n"), "{head}");
        assert_eq!(sent(head, "user-agent"), Some(concat!("Gleaner/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(sent(head, "accept-encoding"), Some("gzip, br, zstd, deflate"));
        assert!(sent(head, "host").unwrap().starts_with("127.0.0.1:"));
        let headers =
            [("content-type", "text/html; charset=windows-1252"), ("etag", "\"x\""), ("server", "s")];
        answer(200, &headers, b"<p>caf\xe9")
    })
    .await;
    let report = direct(&site).fetch(request(site.url("/a?b=1#part"))).await;
    assert_eq!((report.outcome, report.status, report.error), (Outcome::Success, Some(200), None));
    assert_eq!(report.body, &b"<p>caf\xe9"[..], "the bytes are the target's, whatever their charset");
    assert_eq!(report.headers.content_type.as_deref(), Some("text/html; charset=windows-1252"));
    assert_eq!(report.headers.etag.as_deref(), Some("\"x\""));
    assert_eq!((report.bytes_received, report.redirects.len()), (7, 0));
    assert_eq!(report.final_url, site.url("/a?b=1"));
}

#[tokio::test]
async fn refuses_inner_addresses_however_they_are_written() {
    let site = Site::start(|_| page("secret")).await;
    let port = site.addr.port();
    let closed = Direct::new(settings(), AddressGuard::default());
    for (url, error) in [
        (
            format!("http://127.0.0.1:{port}/"),
            "the address 127.0.0.1 (loopback) is not allowed by network.allow",
        ),
        (format!("http://2130706433:{port}/"), "the address 127.0.0.1 (loopback)"),
        (format!("http://0x7f.1:{port}/"), "the address 127.0.0.1 (loopback)"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "the address 127.0.0.1 (loopback)"),
        (format!("http://[::1]:{port}/"), "(loopback)"),
        (format!("http://0:{port}/"), "is never allowed"),
        ("http://169.254.169.254/latest/meta-data/".into(), "(cloud metadata) is never allowed"),
        ("http://[::ffff:169.254.169.254]/".into(), "(cloud metadata) is never allowed"),
        ("http://[64:ff9b::a9fe:a9fe]/".into(), "(cloud metadata) is never allowed"),
        ("http://metadata.test/".into(), "the name metadata.test has no address to fetch from"),
        ("http://mapped.test./".into(), "the name mapped.test. has no address to fetch from"),
        ("http://inner.test/".into(), "the name inner.test has no address to fetch from"),
        (format!("http://shop.test:{port}/"), "the name shop.test has no address to fetch from"),
        (format!("http://localhost:{port}/"), "the name localhost has no address to fetch from"),
        ("https://inner.test/".into(), "the name inner.test has no address to fetch from"),
    ] {
        for robots in [false, true] {
            let report = closed.fetch(FetchRequest { robots, ..request(WebUrl::parse(&url).unwrap()) }).await;
            // A name gets the answer of one that does not resolve: who asks learns nothing of the names inside.
            let is_name = error.contains(" the name ") || error.starts_with("the name ");
            let outcome = if is_name { Outcome::NetworkError } else { Outcome::TargetError };
            assert_fails(&report, outcome, error);
            let error = report.error.unwrap();
            assert!(!error.contains("10.1.2.3"), "{error}");
            assert!(!is_name || !error.contains("private"), "{error}");
            assert_eq!(report.status, None);
        }
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn refuses_redirects_to_inner_addresses() {
    let secret = Site::start(|_| page("secret")).await;
    let targets: Vec<String> = [
        format!("http://127.0.0.1:{}/", secret.addr.port()),
        format!("http://shop.test:{}/", secret.addr.port()),
        "http://169.254.169.254/".into(),
        "http://[::ffff:169.254.169.254]/".into(),
        "http://metadata.test/".into(),
        "http://mapped.test/".into(),
        "//inner.test/".into(),
    ]
    .into();
    let to = targets.clone();
    let site = Site::start(move |head| redirect(&to[path(head)[1..].parse::<usize>().unwrap()])).await;
    let direct = direct(&site);
    for (n, target) in targets.iter().enumerate() {
        let report = direct.fetch(request(site.url(&format!("/{n}")))).await;
        let is_name = target.contains(".test");
        let outcome = if is_name { Outcome::NetworkError } else { Outcome::TargetError };
        assert_fails(&report, outcome, "after a redirect to http://");
        assert_fails(&report, outcome, "allow");
        assert_eq!((report.status, report.redirects.len()), (Some(302), 1), "{target}");
        assert_eq!(report.final_url, site.url(&format!("/{n}")));
    }
    assert_eq!(secret.connections(), 0);
}

#[tokio::test]
async fn never_visits_the_box_itself() {
    let own = Site::start(|_| page("admin")).await;
    let allow = ["127.0.0.0/8".parse().unwrap()];
    for listener in [own.addr, SocketAddr::new("0.0.0.0".parse().unwrap(), own.addr.port())] {
        let direct = Direct::new(settings(), AddressGuard::new(&allow, &[listener]));
        let report = direct.fetch(request(own.named("shop.test", "/"))).await;
        assert_fails(&report, Outcome::NetworkError, "has no address to fetch from");
    }
    assert_eq!(own.connections(), 0);
}

#[tokio::test]
async fn connects_to_the_addresses_that_passed() {
    let site = Site::start(|_| page("ok")).await;
    let report = direct(&site).fetch(request(site.named("mixed.test", "/"))).await;
    assert_eq!(report.outcome, Outcome::Success, "{:?}", report.error);
}

#[tokio::test]
async fn follows_redirects_with_a_limit() {
    let site = Site::start(|head| match path(head) {
        "/relative/start" => answer(301, &[("location", "../next?q=ä#f")], ""),
        "/next?q=%C3%A4" => answer(307, &[("location", "/end")], "see there"),
        "/end" => page("arrived"),
        "/nowhere" => answer(302, &[], "a redirect without a place"),
        "/file" => redirect("file:///etc/passwd"),
        "/user" => redirect("http://user:pass@shop.test/"),
        _ => redirect("/loop"),
    })
    .await;
    let direct = direct(&site);
    let report = direct.fetch(request(site.url("/relative/start"))).await;
    assert_eq!((report.outcome, report.redirects.len()), (Outcome::Success, 2), "{:?}", report.error);
    assert_eq!((&report.body[..], report.final_url), (&b"arrived"[..], site.url("/end")));
    assert_eq!(site.connections(), 1, "one connection served all hops");

    let report = direct.fetch(request(site.url("/loop"))).await;
    assert_fails(&report, Outcome::TargetError, "redirects more than 10 times");
    assert_eq!(report.redirects.len(), 10);
    assert_eq!(site.requests(), 3 + 11);

    let report = direct.fetch(request(site.url("/nowhere"))).await;
    assert_eq!((report.outcome, report.status), (Outcome::TargetError, Some(302)));
    let report = direct.fetch(request(site.url("/file"))).await;
    assert_fails(&report, Outcome::TargetError, "cannot be fetched: the URL scheme must be http or https");
    let report = direct.fetch(request(site.url("/user"))).await;
    assert_fails(&report, Outcome::TargetError, "must not contain a user name");
}

#[tokio::test]
async fn carries_cookies_through_the_chain_and_forgets_them() {
    let site = Site::start(|head| match (path(head), sent(head, "cookie")) {
        ("/", None) => answer(302, &[("set-cookie", "visit=1; Path=/"), ("location", "/")], ""),
        ("/", Some("visit=1")) => page("welcome"),
        ("/away", None) => {
            let to =
                format!("http://other.test:{}/seen", sent(head, "host").unwrap().split_once(':').unwrap().1);
            answer(302, &[("set-cookie", "visit=1; Path=/"), ("location", &to)], "")
        }
        ("/seen", None) => page("a stranger"),
        ("/mine", Some("own=2")) => {
            answer(302, &[("set-cookie", "visit=1; Path=/"), ("location", "/both")], "")
        }
        ("/both", Some("own=2; visit=1")) => page("both"),
        (path, cookie) => answer(404, &[], format!("{path} {cookie:?}")),
    })
    .await;
    let direct = direct(&site);
    for _ in 0..2 {
        let report = direct.fetch(request(site.named("shop.test", "/"))).await;
        assert_eq!(report.body, "welcome", "{:?}", report.error);
    }
    assert_eq!(direct.fetch(request(site.named("shop.test", "/away"))).await.body, "a stranger");
    let mut with_cookie = request(site.named("shop.test", "/mine"));
    with_cookie.headers.insert(COOKIE, HeaderValue::from_static("own=2"));
    assert_eq!(direct.fetch(with_cookie).await.body, "both");
}

#[tokio::test]
async fn gives_credentials_to_nobody_else() {
    let site = Site::start(|head| {
        let port = sent(head, "host").unwrap().split_once(':').unwrap().1;
        match path(head) {
            "/start" => redirect(format!("http://shop.test:{port}/here")),
            "/here" => {
                assert_eq!(sent(head, "authorization"), Some("Bearer t"));
                assert_eq!(sent(head, "x-api-key"), Some("k"));
                redirect(format!("http://www.shop.test:{port}/there"))
            }
            _ => {
                assert!(
                    ["authorization", "cookie", "x-api-key"].iter().all(|name| sent(head, name).is_none()),
                    "{head}"
                );
                assert_eq!(sent(head, "accept-language"), Some("de"));
                page("clean")
            }
        }
    })
    .await;
    let mut request = request(site.named("shop.test", "/start"));
    for (name, value) in [
        (AUTHORIZATION, "Bearer t"),
        (COOKIE, "s=1"),
        (HeaderName::from_static("x-api-key"), "k"),
        (http::header::ACCEPT_LANGUAGE, "de"),
        (http::header::HOST, "evil.test"),
    ] {
        request.headers.insert(name, HeaderValue::from_static(value));
    }
    let report = direct(&site).fetch(request).await;
    assert_eq!(report.body, "clean", "{:?}", report.error);
}

#[tokio::test]
async fn inflates_and_refuses_bombs() {
    let noise: Vec<u8> =
        (0u64..).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).take(40_000).collect();
    let (noise_gzip, bomb, small_bomb) =
        (gzip(&noise), gzip(&vec![0; 20_000_000]), gzip(&vec![0; 4_000_000]));
    let bomb = [bomb.clone(), bomb.clone(), bomb].concat();
    assert!(bomb.len() < 100_000 && bomb.len() > 50_000);
    let site = Site::start(move |head| match path(head) {
        "/gzip" => answer(200, &[("content-encoding", "gzip")], &noise_gzip),
        "/bomb" => answer(200, &[("content-encoding", "gzip")], &bomb),
        "/ratio" => answer(200, &[("content-encoding", "gzip")], &small_bomb),
        "/unknown" => answer(200, &[("content-encoding", "compress")], "x"),
        "/three" => answer(200, &[("content-encoding", "gzip, gzip"), ("content-encoding", "gzip")], "x"),
        "/torn" => answer(200, &[("content-encoding", "gzip")], &noise_gzip[..1000]),
        _ => answer(404, &[("content-encoding", "gzip")], "this is not gzip"),
    })
    .await;
    let direct = direct(&site);
    let report = direct.fetch(request(site.url("/gzip"))).await;
    assert_eq!(report.body, noise);
    assert!(report.bytes_received > 0 && report.error.is_none());
    for (path, outcome, error) in [
        ("/bomb", Outcome::ProviderError, "body larger than 5 MB once decompressed, which is the limit"),
        ("/ratio", Outcome::TargetError, "body grows more than 100 times when decompressed"),
        ("/unknown", Outcome::TargetError, "answered with an unknown content encoding (compress)"),
        ("/three", Outcome::TargetError, "answered with more than 2 content encodings in a row"),
        ("/torn", Outcome::NetworkError, "body is not valid gzip"),
        ("/missing", Outcome::TargetError, "answered 404"),
    ] {
        assert_fails(&direct.fetch(request(site.url(path))).await, outcome, error);
    }
}

#[tokio::test]
async fn counts_bytes_and_not_promises() {
    let site = Site::start(|head| match path(head) {
        "/announced" => Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 6000000\r\n\r\n".to_vec()),
        "/endless" => {
            let mut raw = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
            raw.resize(6_000_000, b'x');
            Reply::Drip(raw)
        }
        "/until-close" => Reply::Close(b"HTTP/1.1 200 OK\r\n\r\nwhole".to_vec()),
        "/chunked" => Reply::Raw(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n".to_vec(),
        ),
        _ => Reply::Close(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()),
    })
    .await;
    let direct = direct(&site);
    let report = direct.fetch(request(site.url("/announced"))).await;
    assert_fails(&report, Outcome::ProviderError, "body larger than 5 MB, which is the limit");
    let report = direct.fetch(request(site.url("/endless"))).await;
    assert_fails(&report, Outcome::ProviderError, "body larger than 5 MB, which is the limit");
    assert!((5_000_000..5_600_000).contains(&report.bytes_received), "{}", report.bytes_received);
    assert_eq!(direct.fetch(request(site.url("/until-close"))).await.body, "whole");
    assert_eq!(direct.fetch(request(site.url("/chunked"))).await.body, "abcde");
    let report = direct.fetch(request(site.url("/half"))).await;
    assert_fails(&report, Outcome::NetworkError, "the connection ended before the body was complete");
}

#[tokio::test]
async fn the_time_limit_is_over_everything() {
    let site = Site::start(|head| match path(head) {
        "/drip" => Reply::Drip(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec()),
        "/head" => Reply::Drip(b"HTTP/1.1 200 OK\r\nx: ".to_vec()),
        "/hops" => redirect("/hops"),
        _ => Reply::Silence,
    })
    .await;
    let direct = direct(&site);
    for path in ["/drip", "/head", "/silence"] {
        let started = Instant::now();
        let report =
            direct.fetch(FetchRequest { timeout: Duration::from_secs(1), ..request(site.url(path)) }).await;
        assert_fails(&report, Outcome::Timeout, "took longer than 1000 ms");
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!(report.status, (path == "/drip").then_some(200));
        assert_eq!(report.bytes_received > 0, path == "/drip");
    }
}

#[tokio::test]
async fn tells_failures_apart() {
    let site = Site::start(|head| match path(head) {
        "/close" => Reply::Close(Vec::new()),
        "/garbage" => Reply::Close(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        "/headers" => {
            let many: String = (0..500).map(|n| format!("x-{n}: y\r\n")).collect();
            Reply::Raw(format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n").into_bytes())
        }
        "/head" => Reply::Raw(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100_000)).into_bytes()),
        "/429" => answer(429, &[("retry-after", "17")], "slow down"),
        "/503" => answer(503, &[("retry-after", "2")], "back soon"),
        "/captcha" => page("<title>Robot Check</title>"),
        "/gone" => answer(410, &[], "gone"),
        _ => answer(204, &[], ""),
    })
    .await;
    let direct = direct(&site);
    for (path, outcome, error) in [
        ("/close", Outcome::NetworkError, "closed the connection before answering"),
        ("/garbage", Outcome::NetworkError, "answered with something that is not HTTP"),
        ("/headers", Outcome::ProviderError, "too many or too large headers"),
        ("/head", Outcome::ProviderError, "too many or too large headers"),
    ] {
        assert_fails(&direct.fetch(request(site.url(path))).await, outcome, error);
    }
    for (path, outcome, rule, wait) in [
        ("/429", Outcome::Blocked, Some("http_429"), Some(17)),
        ("/503", Outcome::TargetError, None, Some(2)),
        ("/captcha", Outcome::Blocked, Some("captcha_page"), None),
        ("/gone", Outcome::TargetError, None, None),
        ("/empty", Outcome::Success, None, None),
    ] {
        let report = direct.fetch(request(site.url(path))).await;
        assert_eq!((report.outcome, report.rule.as_deref()), (outcome, rule), "{path}");
        assert_eq!(report.retry_after, wait.map(Duration::from_secs));
        assert_eq!(report.error.is_none(), outcome == Outcome::Success);
    }
    // A port at which nobody listens any more, and a name that nobody has.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = direct_to(&[gone], settings());
    let report = nobody.fetch(request(WebUrl::parse(&format!("http://{gone}/")).unwrap())).await;
    assert_fails(&report, Outcome::NetworkError, "refused the connection");
    let report = nobody.fetch(request(WebUrl::parse("http://no-such-name.invalid/").unwrap())).await;
    assert_fails(
        &report,
        Outcome::NetworkError,
        "the name no-such-name.invalid has no address to fetch from",
    );
}

#[tokio::test]
async fn reuses_connections_and_survives_their_end() {
    // Closes each connection after its second answer, without a word.
    let served = AtomicU32::new(0);
    let site = Site::start(move |_| {
        let Reply::Raw(raw) = page("ok") else { unreachable!() };
        match served.fetch_add(1, Ordering::SeqCst) % 2 {
            0 => Reply::Raw(raw),
            _ => Reply::Close(raw),
        }
    })
    .await;
    let direct = direct(&site);
    for _ in 0..6 {
        let report = direct.fetch(request(site.url("/"))).await;
        assert_eq!(report.outcome, Outcome::Success, "{:?}", report.error);
        assert!(direct.idle_count() <= 1);
    }
    assert_eq!((site.connections(), site.requests()), (3, 6));

    // Many at once: every one its own connection, and only a few are kept.
    let all = (0..100).map(|_| direct.fetch(request(site.url("/"))));
    assert!(futures::future::join_all(all).await.iter().all(|report| report.outcome == Outcome::Success));
    assert!(direct.idle_count() <= 64, "{}", direct.idle_count());
}

#[tokio::test]
async fn every_url_that_parses_can_be_asked_for() {
    let site = Site::start(|head| page(path(head))).await;
    let direct = direct(&site);
    let printable: String = (' '..='~').filter(|c| !matches!(c, '#' | '?')).collect();
    for tail in
        [format!("/{printable}ü\u{1F600}"), format!("/?{printable}ü\u{1F600}"), "/a?b?c=[]{}|^`".into()]
    {
        let url = site.url(&tail);
        let report = direct.fetch(request(url.clone())).await;
        assert_eq!(report.body, url.path_and_query(), "{:?}", report.error);
    }
}

#[tokio::test]
async fn a_dropped_fetch_closes_its_connection() {
    let site =
        Site::start(|_| Reply::Drip(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec())).await;
    let direct = Arc::new(direct(&site));
    let fetcher = direct.clone();
    let url = site.url("/");
    let fetch = tokio::spawn(async move { fetcher.fetch(request(url)).await });
    while site.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(site.open(), 1);
    fetch.abort();
    assert!(fetch.await.unwrap_err().is_cancelled());
    let started = Instant::now();
    while site.open() > 0 {
        assert!(started.elapsed() < Duration::from_secs(5), "the connection is still open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(direct.idle_count(), 0);
}

#[tokio::test]
async fn connections_are_used_again_by_the_same_organization_only() {
    let site = Site::start(|_| page("ok")).await;
    let direct = direct(&site);
    let (one, other) = (Some(OrgId::new()), Some(OrgId::new()));
    for (owner, opened) in [(one, 1), (one, 1), (other, 2), (None, 3), (one, 3), (other, 3), (None, 3)] {
        let report = direct.fetch(FetchRequest { owner, ..request(site.url("/")) }).await;
        assert_eq!((report.outcome, site.connections()), (Outcome::Success, opened), "{owner:?}");
    }
}
