//! What pages of several organizations are to each other in one browser, and what a page may weigh there.

use super::*;
use crate::tests::site::gzip;
use crate::{DirectProvider, PATIENCE as LONG};
use base::ids::OrgId;
use base::web::WebUrl;
use std::collections::HashMap;

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A site whose page `/held…` does not answer the first time that it is asked for.
async fn site() -> Site {
    let asked = parking_lot::Mutex::new(HashMap::<String, u32>::new());
    Site::start(move |head| {
        let path = path(head).to_owned();
        let mut asked = asked.lock();
        let count = asked.entry(path.clone()).or_default();
        *count += 1;
        match path.as_str() {
            "/endless" => Reply::Silence,
            // It does not come to rest before it has been seen.
            "/hog" => page(
                "<script>fetch('/endless'); const kept = [];\
                 setInterval(() => { if (kept.length < 40) kept.push(new Uint8Array(64 << 20).fill(1)); }, 1)</script>",
            ),
            held if held.starts_with("/held") && *count == 1 => Reply::Silence,
            _ => page("<p>fine</p>"),
        }
    })
    .await
}

/// A box that has a browser which cannot be started, with one place and one beside it; and its provider.
async fn without_browser() -> (Arc<Browsers>, BrowserProvider, Site) {
    let browsers = Browsers::new(BrowserSettings {
        executable: "/nonexistent/chromium".into(),
        pages: 1,
        profiles: PathBuf::from("/nonexistent"),
        ..BrowserSettings::default()
    });
    let site = Site::start(|_| page("fine")).await;
    let direct = Arc::new(direct_to(&[site.addr], settings()));
    let provider = BrowserProvider::new(browsers.clone(), direct, patient(), CreditMatrix::flat(5, 5));
    (browsers, provider, site)
}

#[tokio::test]
async fn the_wait_for_a_place_is_bounded_and_leaves_nothing_when_it_is_given_up() {
    let (browsers, provider, site) = without_browser().await;
    let [one, other, third] = [(); 3].map(|()| Some(OrgId::new()));
    let taken = (browsers.place(one).await.unwrap(), browsers.place(other).await.unwrap());
    let asked = FetchRequest { owner: third, timeout: Duration::from_millis(1), ..request(site.url("/")) };
    let brief = FetchRequest { patience: Duration::from_millis(20), ..asked.clone() };
    let attempt = Provider::fetch(&provider, &brief).await;
    failed_with(&attempt, Outcome::ProviderError, "no place in the box's browser");
    assert_eq!((attempt.fault, attempt.rule.as_deref()), (Some(Fault::Throttled), Some(NOT_ASKED)));
    assert!(brief.stage.has_only_waited() && !brief.stage.is_waiting());
    // Its own time is long over, and it waits on: until it is given up, which takes no time.
    let patient = FetchRequest { patience: LONG, stage: Default::default(), ..asked };
    let mut waiting = Box::pin(Provider::fetch(&provider, &patient));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err());
    assert!(patient.stage.is_waiting() && browsers.counts() == (2, 1));
    drop(waiting);
    assert!(!patient.stage.is_waiting() && browsers.counts() == (2, 0));
    drop(taken);
    browsers.close().await;
    let attempt = Provider::fetch(&provider, &patient).await;
    failed_with(&attempt, Outcome::ProviderError, "the box is stopping");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_pages_of_one_organization_keep_no_other_out() {
    let site = site().await;
    let Some(lab) = Lab::open(&[&site], PageSettings::default()) else { return };
    let lab = Arc::new(lab);
    let [one, other] = [(); 2].map(|()| Some(OrgId::new()));
    let endless: Vec<_> = (0..12)
        .map(|_| {
            let (lab, url) = (lab.clone(), site.url("/endless"));
            tokio::spawn(async move { lab.fetch_for(one, url).await })
        })
        .collect();
    until("two are open and the others wait", || lab.browsers.counts() == (2, 10)).await;
    let since = Instant::now();
    let asked = FetchRequest { owner: other, timeout: PATIENCE, patience: LONG, ..request(site.url("/")) };
    let attempt = Provider::fetch(&lab.provider, &asked).await;
    assert!(html(&attempt).contains("fine"));
    let waited = asked.stage.waited(since);
    assert!(
        waited > Duration::ZERO && attempt.duration + waited <= since.elapsed(),
        "its time began with its place"
    );
    assert!(endless.iter().all(|page| !page.is_finished()) && lab.browsers.counts() == (2, 10));
    for page in endless {
        page.abort();
        drop(page.await);
    }
    until("nothing of them is left", || lab.browsers.counts() == (0, 0)).await;
    Arc::into_inner(lab).expect("nobody else has it").close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_whose_browser_is_lost_are_tried_again_apart() {
    let site = site().await;
    let Some(lab) = Lab::open(&[&site], PageSettings::default()) else { return };
    let [one, other, third] = [(); 3].map(|()| Some(OrgId::new()));
    let lost = async {
        until("both are open", || site.requests() >= 2).await;
        let turn = lab.turn(third).await;
        let gone = turn.browser.client.call(None, "Browser.crash", serde_json::json!({})).await;
        assert_eq!(gone, Err(protocol::CallError::Gone));
    };
    let (first, second, ()) = tokio::join!(
        lab.fetch_for(one, site.url("/held/1")),
        lab.fetch_for(other, site.url("/held/2")),
        lost
    );
    for attempt in [first, second] {
        assert!(html(&attempt).contains("fine"));
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_brings_its_browser_down_fails_alone() {
    let site = site().await;
    let bounds = BrowserSettings { memory_bytes_max: 1 << 30, ..BrowserSettings::default() };
    let Some(lab) = Lab::open_with(&[&site], patient(), bounds) else { return };
    let [one, other] = [(); 2].map(|()| Some(OrgId::new()));
    let hog = async {
        until("the other's page is open", || site.requests() >= 1).await;
        lab.fetch_for(one, site.url("/hog")).await
    };
    let (hog, held) = tokio::join!(hog, lab.fetch_for(other, site.url("/held")));
    assert!(html(&held).contains("fine"));
    failed_with(&hog, Outcome::ProviderError, "ended it");
    assert_eq!(hog.fault, Some(Fault::Unsupported), "it says nothing about the account: {hog:?}");
    // Both had a page in a browser that was lost, so neither shares one with others for now.
    let (of_one, of_other) = (lab.turn(one).await, lab.turn(other).await);
    let shared = lab.turn(Some(OrgId::new())).await;
    assert!(!Arc::ptr_eq(&of_one.browser, &of_other.browser));
    assert!(
        !Arc::ptr_eq(&of_one.browser, &shared.browser) && !Arc::ptr_eq(&of_other.browser, &shared.browser)
    );
    drop((of_one, of_other, shared));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_is_too_large_is_given_up_while_it_comes() {
    const HEAD: &str = "HTTP/1.1 200 X\r\ncontent-type: ";
    let large = "<p>word</p>".repeat(BODY_BYTES_MAX / 10);
    let fits = format!("<p>{}</p>", "слово ".repeat(BODY_BYTES_MAX / 12));
    let site = Site::start(move |head| match path(head) {
        // None of these ever ends.
        "/announced" => Reply::Raw(format!("{HEAD}text/html\r\ncontent-length: {}\r\n\r\n", large.len()).into()),
        "/streamed" => Reply::Raw(format!("{HEAD}text/html\r\n\r\n{large}").into()),
        "/feed" => Reply::Raw(format!("{HEAD}application/json\r\n\r\n\"{large}").into()),
        "/inflated" => {
            let zipped = gzip(large.as_bytes());
            answer(200, &[("content-type", "text/html"), ("content-encoding", "gzip")], zipped)
        }
        "/made" => page("<script>document.write('<p>' + 'word'.repeat(2_000_000) + '</p>')</script>"),
        "/wide" => page("<meta charset=utf-8><script>document.write('<p>' + '\u{44f}'.repeat(4_000_000) + '</p>')</script>"),
        "/fits" => answer(200, &[("content-type", "text/html; charset=utf-8")], &fits),
        _ => answer(404, &[], "none"),
    })
    .await;
    let Some(lab) = Lab::open(&[&site], patient()) else { return };
    let direct = Arc::new(direct_to(&[site.addr], settings()));
    let direct = DirectProvider::new(direct, CreditMatrix::flat(1, 1));
    let asked = |url: WebUrl| FetchRequest { timeout: PATIENCE, ..request(url) };
    for way in ["/announced", "/streamed", "/feed", "/inflated", "/made", "/wide"] {
        let attempt = lab.fetch(site.url(way)).await;
        failed_with(&attempt, Outcome::ProviderError, "body larger than 5 MB");
        assert_eq!(attempt.fault, Some(Fault::Unsupported), "{way}: {attempt:?}");
        if !matches!(way, "/inflated" | "/made" | "/wide") {
            let straight = Provider::fetch(&direct, &asked(site.url(way))).await;
            let told = |attempt: &Attempt| (attempt.outcome, attempt.fault, attempt.error.clone());
            assert_eq!(told(&attempt), told(&straight), "{way}");
        }
    }
    let attempt = lab.fetch(site.url("/fits")).await;
    assert!(html(&attempt).len() > BODY_BYTES_MAX / 12 * "слово ".len());
    lab.close().await;
}
