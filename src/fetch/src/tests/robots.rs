//! robots.txt, asked for over the wire.

use std::time::Duration;

use super::site::{Site, answer, assert_fails, direct, gzip, page, path, redirect, request};
use crate::*;

#[tokio::test]
async fn obeys_robots_txt() {
    let site = Site::start(|head| match path(head) {
        "/robots.txt" => answer(200, &[], "User-agent: gleaner\nDisallow: /private\nCrawl-delay: 3\n"),
        "/open" => redirect("/private/x"),
        _ => page("ok"),
    })
    .await;
    let direct = direct(&site);
    let obeying = |path| FetchRequest { robots: true, ..request(site.named("shop.test", path)) };
    let report = direct.fetch(obeying("/page")).await;
    let asked = vec![("shop.test".to_owned(), Duration::from_secs(3))];
    assert_eq!((report.outcome, report.crawl_delays), (Outcome::Success, asked));
    let report = direct.fetch(obeying("/private/a")).await;
    assert_fails(&report, Outcome::TargetError, "robots.txt of shop.test disallows this path");
    let report = direct.fetch(obeying("/open")).await;
    assert_fails(&report, Outcome::TargetError, "robots.txt of shop.test disallows this path");
    assert_eq!(direct.fetch(request(site.named("shop.test", "/private/a"))).await.outcome, Outcome::Success);
    assert_eq!(site.requests(), 4, "robots.txt was asked once, and what it forbids never");
}

#[tokio::test]
async fn knows_what_a_missing_robots_txt_means() {
    for (status, outcome) in [
        (404, Outcome::Success),
        (403, Outcome::Success),
        (302, Outcome::Success),
        (429, Outcome::NetworkError),
        (500, Outcome::NetworkError),
    ] {
        let site = Site::start(move |head| match path(head) {
            "/robots.txt" => answer(status, &[("location", "/robots.txt")], "User-agent: *\nDisallow: /"),
            _ => page("ok"),
        })
        .await;
        let direct = direct(&site);
        let report = direct.fetch(FetchRequest { robots: true, ..request(site.url("/")) }).await;
        assert_eq!(report.outcome, outcome, "{status}");
        if outcome != Outcome::Success {
            assert_fails(&report, outcome, "robots.txt of 127.0.0.1 could not be read");
            let asked = site.requests();
            direct.fetch(FetchRequest { robots: true, ..request(site.url("/")) }).await;
            assert_eq!(site.requests(), asked, "an unreachable robots.txt is not asked again at once");
        }
    }
    // Redirected to a robots.txt elsewhere, compressed and longer than anybody reads.
    let long = gzip(format!("User-agent: *\nDisallow: /private\n{}", "# noise\n".repeat(200_000)).as_bytes());
    let site = Site::start(move |head| match path(head) {
        "/robots.txt" => redirect("/elsewhere"),
        "/elsewhere" => answer(200, &[("content-encoding", "gzip")], &long),
        _ => page("ok"),
    })
    .await;
    let direct = direct(&site);
    let obeying = |path| FetchRequest { robots: true, ..request(site.url(path)) };
    assert_fails(&direct.fetch(obeying("/private")).await, Outcome::TargetError, "disallows this path");
    assert_eq!(direct.fetch(obeying("/page")).await.outcome, Outcome::Success);
}
