//! Own attributes in what reads a page, and stored pages read again.

use super::*;
use crate::features::extraction::attributes::{
    OWN_ATTRIBUTES, OWN_HEADS, OwnAttributeV1, OwnAttributesV1, OwnHeadV1,
};
use crate::features::extraction::backfill::{Found, unreadable};
use crate::features::extraction::service::read_again;
use crate::features::extraction::site::Site;
use crate::features::extraction::trial::page_to_try;
use base::limits::HTML_BYTES_MAX;
use bytes::Bytes;

/// Saves own attributes as they are, without the checks of the interface.
async fn own(bench: &Bench, domain: &str, version: u32, names: &[(&str, Option<PageType>)]) {
    let attribute = |(name, page_type): &(&str, Option<PageType>)| OwnAttributeV1 {
        attribute: Json(json!({ "name": name, "xpaths": ["//b"], "type": "text" })),
        page_type: *page_type,
        since: Timestamp(7),
        patterns: 0,
    };
    let row = OwnAttributesV1 {
        domain: domain.to_owned(),
        version,
        attributes: names.iter().map(attribute).collect(),
        updated_at: Timestamp(7),
    };
    let put = bench.org.write(move |tx| {
        tx.put(&OWN_HEADS, &row.domain, &OwnHeadV1::of(row.version, &row.attributes))?;
        tx.put(&OWN_ATTRIBUTES, &row.domain, &row)
    });
    put.await.unwrap();
}

#[tokio::test]
async fn a_hosts_own_attributes_hold_in_the_place_of_its_domains() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    own(&bench, "shop.example", 3, &[("of_domain", None)]).await;
    own(&bench, "www.shop.example", 5, &[("of_host", Some(PageType::Article))]).await;
    let read = |url: &str, page_type: Option<PageType>| {
        let asked = page(url, &product("Plane", "$ 1"));
        bench.collect(DeliveredPage { page_type, ..asked })
    };
    let names = |row: &ResultV4| {
        let names: Vec<_> = row.values.0.as_object().unwrap().keys().cloned().collect();
        (names.join(" "), row.schema.map(|schema| schema.version), row.attributes_version)
    };
    let product = read("http://shop.example/1", Some(PageType::Product)).await;
    assert_eq!(names(&product), ("name price of_domain".to_owned(), Some(1), Some(3)));
    // The host has some, if none for this page type: then the platform's are all.
    let product = read("http://www.shop.example/1", Some(PageType::Product)).await;
    assert_eq!(names(&product), ("name price".to_owned(), Some(1), None));
    let article = read("http://www.shop.example/1", Some(PageType::Article)).await;
    assert_eq!(names(&article), ("of_host".to_owned(), None, Some(5)));
    // They make no page of a type of which there is nothing else, and read what is of no type.
    let serp = read("http://shop.example/1", Some(PageType::Serp)).await;
    assert_eq!((names(&serp).0.as_str(), serp.page_type), ("of_domain", Some(PageType::Serp)));
    let other = DeliveredPage { ..page("http://shop.example/2", "<b>1</b>") };
    let other = bench.collect(other).await;
    assert_eq!((names(&other), other.page_type), (("of_domain".to_owned(), None, Some(3)), None));
    // Changed attributes hold for the next page.
    own(&bench, "shop.example", 4, &[("renamed", None)]).await;
    let product = read("http://shop.example/1", Some(PageType::Product)).await;
    assert_eq!(names(&product), ("name price renamed".to_owned(), Some(1), Some(4)));
}

#[tokio::test]
async fn a_stored_page_says_the_same_again() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let html = product("Plane", "$ 1,234.50");
    let row = bench.collect(DeliveredPage { page_type: Some(PageType::Product), ..page(SHOP, &html) }).await;
    let host = "shop.example";
    let schema = bench.extractor.schemas().of_type(&bench.org, host, host, PageType::Product);
    let schema = schema.unwrap().unwrap();
    let mut again = row.clone();
    read_again(schema, &row, &Bytes::from(html)).unwrap().unwrap().put_into(&mut again, row.extracted_at);
    assert_eq!(codec::encode(&again).unwrap(), codec::encode(&row).unwrap());
}

#[tokio::test]
async fn rows_without_a_page_that_can_be_read_are_told_apart() {
    let bench = Bench::new();
    let row = bench.collect(page(SHOP, "<p>1</p>")).await;
    assert!(unreadable(&row, true).is_none());
    assert!(matches!(unreadable(&row, false), Some(Found::NoPage)));
    let large = bench.collect(page(SHOP, &"x".repeat(HTML_BYTES_MAX + 1))).await;
    assert!(matches!(unreadable(&large, true), Some(Found::TooLarge)));
    let image = DeliveredPage { content_type: Some("image/png".to_owned()), ..page(SHOP, "no page") };
    assert!(matches!(unreadable(&bench.collect(image).await, true), Some(Found::Refused(_))));
}

#[tokio::test]
async fn json_is_tried_and_read_again_as_pages_are() {
    let bench = Bench::new();
    let price = json!({ "name": "price", "jsonPaths": ["$.offer.price"], "type": "number" });
    bench.import(json!([{ "pageType": "product", "attributes": [price] }])).await.unwrap();
    let asked = DeliveredPage {
        page_type: Some(PageType::Product),
        content_type: Some("application/json".to_owned()),
        ..page(SHOP, r#"{"offer":{"price":"12.50"}}"#)
    };
    let body = asked.body.clone();
    let row = bench.collect(asked).await;
    assert_eq!(row.values, Json(json!({ "price": 12.5 })));
    let site = Site::named("shop.example").unwrap();
    assert_eq!(bench.org.read(|tx| page_to_try(tx, &site, None, true)).unwrap().job, row.job);
    assert!(unreadable(&row, true).is_none());
    let schema = bench.extractor.schemas().of_type(&bench.org, &site.host, &site.domain, PageType::Product);
    let mut again = row.clone();
    let reading = read_again(schema.unwrap().unwrap(), &row, &body).unwrap().unwrap();
    reading.put_into(&mut again, row.extracted_at);
    assert_eq!(codec::encode(&again).unwrap(), codec::encode(&row).unwrap());
}

/// A body that breaks off is asked for elsewhere, and stands between two others as if it had not come.
#[tokio::test]
async fn a_body_that_breaks_off_changes_nothing() {
    let bench = Bench::new();
    let price = json!({ "name": "price", "jsonPaths": ["$.price"], "type": "number" });
    bench.import(json!([{ "pageType": "product", "attributes": [price] }])).await.unwrap();
    let asked = |body: &str, page_type| DeliveredPage {
        page_type,
        content_type: Some("application/json".to_owned()),
        ..page(SHOP, body)
    };
    let events = || bench.org.read(crate::features::events::log_ends).unwrap().last;
    let product = Some(PageType::Product);
    let early = bench.collect(asked(r#"{"price"#, product)).await;
    assert!(early.is_unreadable() && events() == 0);
    bench.collect(asked(r#"{"price":12.5}"#, product)).await;
    assert_eq!(events(), 1, "that the page was read for the first time");
    for page_type in [product, None] {
        let draft = bench.extractor.process(&bench.org, asked(r#"{"price":12"#, page_type)).await.unwrap();
        assert_eq!(draft.quality(), Some(0.0));
        let broken = bench.collect(asked(r#"{"price":12"#, page_type)).await;
        assert_eq!((broken.changed.len(), broken.quality, broken.was_read()), (0, None, false));
        assert!(broken.attribute_errors[0].reason.starts_with("unreadable: "), "{broken:?}");
    }
    let same = bench.collect(asked(r#"{"price":12.5}"#, product)).await;
    assert_eq!((same.changed.len(), events()), (0, 1));
    let other = bench.collect(asked(r#"{"price":13}"#, product)).await;
    assert_eq!((other.changed, events()), (vec!["price".to_owned()], 2));
}
