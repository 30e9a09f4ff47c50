//! Pages through a real Chromium; skipped, and said so, on a machine without one.

mod shared;

use std::time::Duration;

use super::*;
use crate::Page;
use crate::tests::site::{Reply, Site, answer, direct_to, page, path, redirect, request, sent, settings};

/// Generous, because a cold start on a loaded machine takes its time. No test asserts how long anything took.
const PATIENCE: Duration = Duration::from_secs(180);

/// A wait that ends when the page has settled, and not when a loaded machine has not got there yet.
fn patient() -> PageSettings {
    PageSettings { wait_ms: 120_000, ..PageSettings::default() }
}

struct Lab {
    provider: BrowserProvider,
    browsers: Arc<Browsers>,
    folder: tempfile::TempDir,
}

impl Lab {
    /// A box that may reach these sites; none where there is no Chromium.
    fn open(sites: &[&Site], page: PageSettings) -> Option<Lab> {
        Lab::open_with(sites, page, BrowserSettings::default())
    }

    /// The same with bounds of the test's own.
    fn open_with(sites: &[&Site], page: PageSettings, bounds: BrowserSettings) -> Option<Lab> {
        let folder = tempfile::tempdir().unwrap();
        let browsers = Browsers::new(BrowserSettings {
            // Tests may run as root, where Chromium has no sandbox.
            sandbox: !rustix::process::geteuid().is_root(),
            pages: 2,
            profiles: folder.path().join("browser"),
            ..bounds
        });
        if let Some(lack) = browsers.lack() {
            println!("skipped: {lack}");
            return None;
        }
        let addrs: Vec<_> = sites.iter().map(|site| site.addr).collect();
        let direct = Arc::new(direct_to(&addrs, settings()));
        let provider = BrowserProvider::new(browsers.clone(), direct, page, CreditMatrix::flat(5, 5));
        Some(Lab { provider, browsers, folder })
    }

    async fn fetch(&self, url: base::web::WebUrl) -> Attempt {
        self.fetch_for(None, url).await
    }

    async fn fetch_for(&self, owner: pool::Owner, url: base::web::WebUrl) -> Attempt {
        let asked = FetchRequest { owner, timeout: PATIENCE, ..request(url) };
        Provider::fetch(&self.provider, &asked).await
    }

    async fn turn(&self, owner: pool::Owner) -> PageLease {
        let place = self.browsers.place(owner).await.unwrap();
        self.browsers.open(owner, place, false).await.unwrap()
    }

    async fn close(self) {
        self.browsers.close().await;
        let left = std::fs::read_dir(self.profiles()).map(|entries| entries.count()).unwrap_or(0);
        assert_eq!(left, 0, "a profile is left behind");
    }

    fn profiles(&self) -> PathBuf {
        self.folder.path().join("browser")
    }
}

fn html(attempt: &Attempt) -> String {
    let Page { body, .. } = attempt.page.as_ref().unwrap_or_else(|| panic!("no page: {attempt:?}"));
    String::from_utf8(body.to_vec()).unwrap()
}

#[track_caller]
fn failed_with(attempt: &Attempt, outcome: Outcome, error: &str) {
    let said = attempt.error.as_deref().unwrap_or_default();
    assert!(attempt.outcome == outcome && said.contains(error), "{:?}: {said}", attempt.outcome);
    assert!(attempt.page.is_none() && attempt.charge == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_what_its_scripts_make_of_it() {
    let site = Site::start(|head| match path(head) {
        "/" => answer(
            200,
            &[("content-type", "text/html; charset=windows-1252"), ("etag", "\"v1\"")],
            b"<!doctype html><title>caf\xe9</title><div id=list></div><script>\
              fetch('/data.json').then(r => r.json()).then(d => {\
                document.getElementById('list').innerHTML = d.map(x => `<p class=made>${x}</p>`).join('');\
                alert('a page that asks must not hang');\
              });</script>",
        ),
        "/data.json" => answer(200, &[("content-type", "application/json")], "[\"one\",\"two\"]"),
        "/missing" => answer(404, &[("content-type", "text/html")], "<h1>gone</h1>"),
        "/wall" => answer(403, &[("content-type", "text/html")], "<h1>no</h1>"),
        "/moved" => redirect("/hop"),
        "/hop" => redirect("/"),
        "/loop" => redirect("/loop"),
        "/scripted" => page("<script>location.replace('/')</script>"),
        "/feed" => answer(200, &[("content-type", "application/json")], "{\"a\": 1}"),
        "/empty" => Reply::Raw(b"HTTP/1.1 204 X\r\n\r\n".to_vec()),
        _ => answer(404, &[], "none"),
    })
    .await;
    let Some(lab) = Lab::open(&[&site], patient()) else { return };
    for start in ["/", "/moved", "/scripted"] {
        let attempt = lab.fetch(site.named("shop.test", start)).await;
        let text = html(&attempt);
        assert!(text.starts_with("<!DOCTYPE html><html>") && text.contains("café"), "{text}");
        assert!(text.contains("<p class=\"made\">one</p><p class=\"made\">two</p>"), "{start}: {text}");
        assert_eq!((attempt.outcome, attempt.http_status, attempt.charge), (Outcome::Success, Some(200), 5));
        let page = attempt.page.as_ref().unwrap();
        assert_eq!(page.url, site.named("shop.test", "/"), "{start}");
        assert_eq!(page.headers.content_type.as_deref(), Some("text/html; charset=utf-8"));
        assert_eq!(page.headers.etag.as_deref(), Some("\"v1\""));
        assert!(attempt.bytes > 0);
    }
    let attempt = lab.fetch(site.named("shop.test", "/missing")).await;
    assert_eq!((attempt.outcome, attempt.http_status, attempt.charge), (Outcome::TargetError, Some(404), 5));
    let attempt = lab.fetch(site.named("shop.test", "/wall")).await;
    assert_eq!((attempt.outcome, attempt.http_status, attempt.charge), (Outcome::Blocked, Some(403), 0));
    failed_with(
        &lab.fetch(site.named("shop.test", "/loop")).await,
        Outcome::TargetError,
        "redirects more than 10",
    );
    let attempt = lab.fetch(site.named("shop.test", "/feed")).await;
    assert_eq!(html(&attempt), "{\"a\": 1}", "what is no page comes as it is");
    let attempt = lab.fetch(site.named("shop.test", "/empty")).await;
    assert_eq!((attempt.http_status, html(&attempt).as_str()), (Some(204), ""));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_in_a_page_reaches_a_forbidden_address() {
    let secret = Site::start(|_| page("secret")).await;
    let port = secret.addr.port();
    let outside = secret.addr;
    let site = Site::start(move |head| match path(head) {
        "/" => page(format!(
            "<!doctype html><body><iframe src='http://{outside}/frame'></iframe><img src='http://{outside}/pixel'>\
             <link rel=stylesheet href='http://localhost:{port}/css'><link rel=preconnect href='http://{outside}'>\
             <link rel=dns-prefetch href='//inner.test'><script src='http://shop.test:{port}/js'></script><script>\
             const done = [];\
             const hold = new AbortController();\
             fetch('/hold', {{signal: hold.signal}}).catch(() => 0);\
             const note = (what, promise) => promise.then(() => done.push(what + ' passed'), () => done.push(what + ' stopped'))\
               .then(() => {{ document.body.dataset.done = done.join(); if (done.length == 5) hold.abort(); }});\
             note('fetch', fetch('http://{outside}/', {{mode: 'no-cors'}}));\
             note('name', fetch('http://other.test:{port}/', {{mode: 'no-cors'}}));\
             note('moved', fetch('/to-secret', {{mode: 'no-cors'}}));\
             note('metadata', fetch('http://169.254.169.254/latest/', {{mode: 'no-cors'}}));\
             note('socket', new Promise((yes, no) => {{ const s = new WebSocket('ws://{outside}/'); s.onopen = yes; s.onerror = no; }}));\
             try {{ const rtc = new RTCPeerConnection({{iceServers: [{{urls: 'turn:{outside}?transport=tcp', username: 'u', credential: 'c'}}]}});\
               rtc.createDataChannel('x'); rtc.createOffer().then(o => rtc.setLocalDescription(o)); }} catch (e) {{}}\
             </script>"
        )),
        // Until everything is told, the page does not come to rest.
        "/hold" => Reply::Silence,
        "/to-secret" => redirect(format!("http://{outside}/moved")),
        "/away" => redirect(format!("http://{outside}/")),
        "/away-later" => page(format!("<script>location = 'http://{outside}/'</script>")),
        "/away-by-name" => redirect(format!("http://inner.test:{port}/")),
        _ => answer(404, &[], "none"),
    })
    .await;
    let Some(lab) = Lab::open(&[&site], PageSettings { load_media: true, ..patient() }) else {
        return;
    };
    let attempt = lab.fetch(site.named("shop.test", "/")).await;
    let text = html(&attempt);
    let done = text.split("data-done=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let mut done: Vec<_> = done.split(',').collect();
    done.sort_unstable();
    assert_eq!(
        done,
        ["fetch stopped", "metadata stopped", "moved stopped", "name stopped", "socket stopped"],
        "{text}"
    );
    for way in ["/away", "/away-later"] {
        failed_with(&lab.fetch(site.named("shop.test", way)).await, Outcome::TargetError, "(loopback)");
    }
    let attempt = lab.fetch(site.named("shop.test", "/away-by-name")).await;
    failed_with(&attempt, Outcome::NetworkError, "the name inner.test has no address to fetch from");
    failed_with(&lab.fetch(secret.url("/")).await, Outcome::TargetError, "(loopback) is not allowed");
    assert_eq!(secret.connections(), 0, "not even a connection");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_without_end_takes_no_more_than_its_time_and_harms_no_other() {
    let site = Site::start(|head| match path(head) {
        "/endless" => Reply::Drip(b"HTTP/1.1 200 X\r\ncontent-type: text/html\r\n\r\n<p>".to_vec()),
        "/silent" => Reply::Silence,
        "/busy" => page("<script>for (;;) {}</script>"),
        "/slow-part" => {
            page("<p>text</p><img src='/silent'><script>setInterval(() => fetch('/tick'), 100)</script>")
        }
        _ => page("<p>fine</p>"),
    })
    .await;
    let settings = PageSettings { wait_ms: 300, load_media: true, ..PageSettings::default() };
    let Some(lab) = Lab::open(&[&site], settings) else { return };
    assert!(html(&lab.fetch(site.url("/fine")).await).contains("fine"));
    for endless in ["/endless", "/silent", "/busy"] {
        let short = FetchRequest { timeout: Duration::from_secs(4), ..request(site.url(endless)) };
        let attempt = Provider::fetch(&lab.provider, &short).await;
        failed_with(&attempt, Outcome::Timeout, "took longer than 4000 ms");
        assert!(html(&lab.fetch(site.url("/fine")).await).contains("fine"), "after {endless}");
    }
    // What never comes to rest is taken as it is when its wait is over.
    assert!(html(&lab.fetch(site.url("/slow-part")).await).contains("text"));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_starts_fresh_and_the_callers_headers_stay_with_the_callers_host() {
    let seen = Arc::<parking_lot::Mutex<Vec<String>>>::default();
    let heads = seen.clone();
    let other = Site::start({
        let heads = seen.clone();
        move |head| {
            heads.lock().push(head.to_owned());
            page("other")
        }
    })
    .await;
    let elsewhere = other.named("other.test", "/");
    let away = elsewhere.clone();
    let site = Site::start(move |head| {
        heads.lock().push(head.to_owned());
        match path(head) {
            "/robots.txt" => answer(200, &[], "User-agent: *\nDisallow: /private\n"),
            "/away" => redirect(away.as_str()),
            "/to-private" => redirect("/private"),
            _ => answer(200, &[("content-type", "text/html"), ("set-cookie", "visited=1")], "<p>hello</p>"),
        }
    })
    .await;
    let Some(lab) = Lab::open(&[&site, &other], PageSettings::default()) else { return };
    let mut asked = FetchRequest { timeout: PATIENCE, ..request(site.named("shop.test", "/away")) };
    asked.headers.insert(http::header::AUTHORIZATION, http::HeaderValue::from_static("Bearer token"));
    asked.headers.insert(http::header::ACCEPT_LANGUAGE, http::HeaderValue::from_static("de"));
    let attempt = Provider::fetch(&lab.provider, &asked).await;
    assert_eq!(attempt.page.as_ref().map(|page| &page.url), Some(&elsewhere), "{attempt:?}");
    {
        let heads = seen.lock();
        let of = |start: &str| {
            heads.iter().find(|head| head.starts_with(start)).unwrap_or_else(|| panic!("no {start}"))
        };
        assert_eq!(sent(of("GET /away "), "authorization"), Some("Bearer token"));
        assert_eq!(sent(of("GET / "), "authorization"), None, "not to another host");
        assert_eq!(sent(of("GET / "), "accept-language"), Some("de"));
        let agent = sent(of("GET / "), "user-agent").unwrap();
        assert!(agent.contains("Chrome/") && agent.contains("Gleaner/"), "{agent}");
    }
    for _ in 0..2 {
        let attempt = lab.fetch(site.named("shop.test", "/cookie")).await;
        assert_eq!(attempt.outcome, Outcome::Success, "{attempt:?}");
    }
    // Its icon, which the browser asks for by itself, may have the page's own cookie.
    let pages: Vec<String> =
        seen.lock().iter().filter(|head| head.starts_with("GET /cookie ")).cloned().collect();
    assert_eq!(pages.len(), 2);
    assert!(pages.iter().all(|head| sent(head, "cookie").is_none()), "a context sees nothing of another");
    asked =
        FetchRequest { robots: true, timeout: PATIENCE, ..request(site.named("shop.test", "/to-private")) };
    let attempt = Provider::fetch(&lab.provider, &asked).await;
    failed_with(&attempt, Outcome::TargetError, "robots.txt of shop.test disallows");
    assert!(!seen.lock().iter().any(|head| head.starts_with("GET /private")), "it was not even asked for");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_that_dies_is_replaced_and_one_that_hangs_in_the_air_is_ended() {
    let site = Site::start(|_| page("<p>fine</p>")).await;
    let Some(lab) = Lab::open(&[&site], PageSettings::default()) else { return };
    assert!(html(&lab.fetch(site.url("/")).await).contains("fine"));
    let turn = lab.turn(None).await;
    // As a crash would: the browser's process is gone, with its helpers.
    let gone = turn.browser.client.call(None, "Browser.crash", serde_json::json!({})).await;
    assert_eq!(gone, Err(protocol::CallError::Gone));
    drop(turn);
    assert!(html(&lab.fetch(site.url("/")).await).contains("fine"));
    // Whoever gives up while a page is loading leaves nothing open.
    let silent = Site::start(|_| Reply::Silence).await;
    let abandoned = lab.fetch(silent.url("/"));
    let _ = tokio::time::timeout(Duration::from_millis(200), abandoned).await;
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_session_stays_in_its_domain() {
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::<String>::new()));
    let (heads, others) = (seen.clone(), seen.clone());
    let other = Site::start(move |head| {
        others.lock().push(head.to_owned());
        page("<p>elsewhere</p>")
    })
    .await;
    let away = other.named("other.test", "/elsewhere");
    let site = Site::start(move |head| {
        heads.lock().push(head.to_owned());
        match path(head) {
            "/away" => redirect(away.as_str()),
            _ => page("<p>inside</p>"),
        }
    })
    .await;
    let Some(lab) = Lab::open(&[&site, &other], PageSettings::default()) else { return };
    let cookie = |name: &str, secure| crate::SessionCookie {
        name: name.to_owned(),
        value: "opensesame".to_owned(),
        host: None,
        path: "/".to_owned(),
        secure,
        http_only: true,
    };
    let cookies = crate::SessionValues::Cookies(vec![cookie("sid", None), cookie("safe", Some(true))]);
    let headers = [("x-token", "opensesame")]
        .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value)));
    let headers = crate::SessionValues::Headers(http::HeaderMap::from_iter(headers));
    for (values, name, value) in [(cookies, "cookie", "sid=opensesame"), (headers, "x-token", "opensesame")] {
        seen.lock().clear();
        let domain = base::web::Domain::parse("shop.test").unwrap();
        let session = Some(std::sync::Arc::new(crate::SiteSession::new(domain, values)));
        let url = site.named("shop.test", "/away");
        let asked = FetchRequest { timeout: PATIENCE, session: session.clone(), ..request(url) };
        let attempt = Provider::fetch(&lab.provider, &asked).await;
        assert!(html(&attempt).contains("elsewhere"));
        let heads = seen.lock().clone();
        let of = |start: &str| heads.iter().find(|head| head.starts_with(start)).unwrap().clone();
        assert_eq!(
            sent(&of("GET /away "), name),
            Some(value),
            "the name of a Secure cookie is not told over http"
        );
        assert!(!of("GET /elsewhere ").contains("opensesame"), "{}", of("GET /elsewhere "));
        // On an address, too, and the next page is a stranger's again.
        let url = site.url("/inside");
        let session = session.map(|_| {
            let domain = url.domain();
            let values = crate::SessionValues::Cookies(vec![cookie("sid", None)]);
            std::sync::Arc::new(crate::SiteSession::new(domain, values))
        });
        let asked = FetchRequest { timeout: PATIENCE, session, ..request(url.clone()) };
        assert!(html(&Provider::fetch(&lab.provider, &asked).await).contains("inside"));
        assert!(html(&lab.fetch(url).await).contains("inside"));
        let inside: Vec<_> =
            seen.lock().iter().filter(|head| head.starts_with("GET /inside ")).cloned().collect();
        let told: Vec<_> = inside.iter().map(|head| sent(head, "cookie")).collect();
        assert_eq!(told, [Some("sid=opensesame"), None]);
    }
    lab.close().await;
}

/// Waits until a browser's process has ended.
async fn until_gone(browser: &pool::RunningBrowser) {
    let begun = Instant::now();
    while !browser.client.is_gone() {
        assert!(begun.elapsed() < PATIENCE, "the browser runs for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_that_takes_too_much_memory_is_ended_with_its_pages() {
    let site = Site::start(|_| Reply::Silence).await;
    // No browser is as small as this.
    let bounds = BrowserSettings { memory_bytes_max: 1 << 20, ..BrowserSettings::default() };
    let Some(lab) = Lab::open_with(&[&site], patient(), bounds) else { return };
    let attempt = lab.fetch(site.url("/")).await;
    // Where the box looks at each of them before the page has got in, they are gone already.
    if attempt.fault != Some(Fault::Down) {
        failed_with(&attempt, Outcome::ProviderError, "more memory than the browser may have");
        assert_eq!(attempt.fault, Some(Fault::Unsupported), "it was alone: {attempt:?}");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_is_replaced_after_so_many_pages() {
    let site = Site::start(|_| page("<p>fine</p>")).await;
    let bounds = BrowserSettings { pages_served_max: 3, ..BrowserSettings::default() };
    let Some(lab) = Lab::open_with(&[&site], PageSettings::default(), bounds) else { return };
    let first = lab.turn(None).await;
    let second = lab.turn(None).await;
    assert!(Arc::ptr_eq(&first.browser, &second.browser), "pages share a browser");
    let old = first.browser.clone();
    drop((first, second));
    let third = lab.turn(None).await;
    assert!(Arc::ptr_eq(&old, &third.browser));
    // The last page that it has keeps it; who comes now has another one.
    let fourth = lab.turn(None).await;
    assert!(!Arc::ptr_eq(&old, &fourth.browser) && !old.client.is_gone());
    drop(third);
    until_gone(&old).await;
    drop(fourth);
    assert!(html(&lab.fetch(site.url("/")).await).contains("fine"));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_that_nobody_uses_is_ended() {
    let site = Site::start(|_| page("<p>fine</p>")).await;
    let bounds = BrowserSettings { idle_timeout: Duration::from_secs(3), ..BrowserSettings::default() };
    let Some(lab) = Lab::open_with(&[&site], PageSettings::default(), bounds) else { return };
    let turn = lab.turn(None).await;
    let browser = turn.browser.clone();
    drop(turn);
    until_gone(&browser).await;
    // The next page finds another one.
    let turn = lab.turn(None).await;
    assert!(!Arc::ptr_eq(&browser, &turn.browser));
    drop(turn);
    lab.close().await;
}

#[tokio::test]
async fn a_box_without_a_browser_says_what_to_do() {
    let none = Browsers::new(BrowserSettings::default());
    assert!(none.lack().unwrap().contains("browser.pages = 0"));
    let wrong = Browsers::new(BrowserSettings {
        executable: "/nonexistent/chromium".into(),
        sandbox: false,
        pages: 1,
        profiles: tempfile::tempdir().unwrap().path().join("browser"),
        ..BrowserSettings::default()
    });
    assert_eq!(wrong.lack(), None);
    let place = wrong.place(None).await.unwrap();
    let refused = wrong.open(None, place, false).await.err().unwrap();
    assert!(refused.contains("/nonexistent/chromium cannot be started"), "{refused}");
}
