//! Which page attributes are tried on.

use super::*;
use crate::features::extraction::remove::DeleteFilter;
use crate::features::extraction::rows::RESULTS_BY_DOMAIN;
use crate::features::extraction::site::{DOMAINS_FILLED, Site, fill_domains};
use crate::features::extraction::trial::page_to_try;
use base::limits::HTML_BYTES_MAX;
use base::page::PageRequest;

#[tokio::test]
async fn the_newest_kept_page_of_the_site_is_tried() {
    let bench = Bench::new();
    let site = |name: &str| Site::named(name).unwrap();
    let tried = |name: &str, job: Option<JobId>| {
        bench.org.read(|tx| page_to_try(tx, &site(name), job, true)).map(|row| row.job)
    };
    assert_eq!(tried("shop.example", None).unwrap_err().status(), 404);
    let old = bench.collect(page("http://www.shop.example/1", "<p>1</p>")).await.job;
    let new = bench.collect(page("http://shop.example/2", "<p>2</p>")).await.job;
    let mut image = page("http://shop.example/3", "no page");
    image.content_type = Some("image/png".to_owned());
    let image = bench.collect(image).await.job;
    bench.collect(page("http://other.example/4", "<p>4</p>")).await;
    assert_eq!(tried("Shop.Example.", None).unwrap(), new);
    assert_eq!(tried("www.shop.example", None).unwrap(), old);
    assert_eq!(tried("www.shop.example", Some(new)).unwrap_err().status(), 400);
    assert_eq!(tried("shop.example", Some(image)).unwrap_err().status(), 400);
    bench.org.write(move |tx| super::super::pages::release(tx, new).map(drop)).await.unwrap();
    assert_eq!(tried("shop.example", None).unwrap(), old);
    assert_eq!(tried("shop.example", Some(new)).unwrap_err().status(), 404);
    // What is too large is the newest page all the same.
    let large = page("http://shop.example/5", &"x".repeat(HTML_BYTES_MAX + 1));
    let large = bench.collect(large).await.job;
    assert_eq!(tried("shop.example", None).unwrap_err().status(), 413);
    assert_eq!(tried("shop.example", Some(large)).unwrap_err().status(), 413);
}

/// What is deleted is gone: of a host that is named none of another host of its domain.
#[tokio::test]
async fn a_deletion_by_host_means_that_host() {
    let bench = Bench::new();
    for url in ["http://www.shop.example/1", "http://shop.example/2", "http://other.example/3"] {
        bench.collect(page(url, "<p>1</p>")).await;
    }
    let meant = |domain: &str| {
        let filter: DeleteFilter = serde_json::from_value(json!({ "domain": domain })).unwrap();
        let newest = PageRequest { limit: 9, cursor: None };
        bench.org.read(|tx| tx.page(&RESULTS, &newest, filter.accepts())).unwrap().items.len()
    };
    assert_eq!(
        ["WWW.Shop.Example.", "shop.example", "blog.shop.example", "no host"].map(meant),
        [1, 2, 0, 0]
    );
}

#[tokio::test]
async fn results_of_an_older_release_are_filed_by_domain_once() {
    let bench = Bench::new();
    let job = bench.collect(page(SHOP, "<p>1</p>")).await.job;
    let count = || bench.org.read(|tx| tx.count_index(&RESULTS_BY_DOMAIN, (), 9)).unwrap();
    // Filling what is filled changes nothing.
    fill_domains(&bench.system()).await.unwrap();
    assert_eq!(count(), 1);
    assert!(bench.system().read(|tx| tx.get(&DOMAINS_FILLED, &())).unwrap().is_some());
    bench.org.write(move |tx| super::super::service::delete(tx, job).map(drop)).await.unwrap();
    assert_eq!(count(), 0);
}
