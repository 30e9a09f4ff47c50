//! Rows that a disk has altered, and pages that come all the same.

use super::super::pages::{self, NAMINGS, PAGES, PageKey, UNNAMED};
use super::super::rows::{PLATFORM_SCHEMAS, SCHEMA_HEADS, SCHEMAS_CONFIRMED, SchemaKey, SchemaPair};
use super::super::service::delete;
use super::*;
use store::fault::{damage_first, damage_row};

fn pair() -> SchemaPair {
    SchemaPair::new("shop.example", PageType::Product)
}

async fn damage(bench: &Bench, table: &'static str) {
    assert!(bench.system().write(move |tx| damage_first(tx, table)).await.unwrap(), "{table}");
}

#[tokio::test]
async fn a_page_without_a_readable_schema_is_kept_without_values_and_an_import_heals_it() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let mut first = page(SHOP, &product("Plane", "1"));
    first.page_type = Some(PageType::Product);
    damage(&bench, PLATFORM_SCHEMAS.name()).await;
    let read = bench.collect(first.clone()).await;
    assert_eq!((read.schema, read.title.as_deref()), (None, Some("Plane | Shop")));
    // The next version comes in its place.
    assert_eq!(bench.import(json!([product_schema()])).await.unwrap().schemas[0].version, 2);
    first.job = JobId::new();
    assert_eq!(bench.collect(first.clone()).await.schema.map(|schema| schema.version), Some(2));
    bench.extractor.keep_confirmed().await.unwrap();

    damage(&bench, SCHEMAS_CONFIRMED.name()).await;
    first.job = JobId::new();
    bench.collect(first.clone()).await;
    bench.extractor.keep_confirmed().await.unwrap();
    let key = SchemaKey { pair: pair(), version: 2 };
    assert!(bench.system().read(|tx| tx.get(&SCHEMAS_CONFIRMED, &key)).unwrap().is_some(), "written anew");

    damage(&bench, SCHEMA_HEADS.name()).await;
    first.job = JobId::new();
    assert_eq!(bench.collect(first).await.schema, None);
}

#[tokio::test]
async fn a_result_whose_earlier_one_cannot_be_read_is_a_first_one() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let earlier = bench.collect(page(SHOP, &product("Plane", "1"))).await;
    let job = earlier.job;
    bench.org.write(move |tx| damage_row(tx, &RESULTS, &job)).await.unwrap();
    let second = bench.collect(page(SHOP, &product("Plane", "2"))).await;
    assert_eq!((second.changed.len(), second.values.0["price"].clone()), (0, json!(2)));
    let third = bench.collect(page(SHOP, &product("Plane", "3"))).await;
    assert_eq!(third.changed, ["price"]);
}

#[tokio::test]
async fn a_page_whose_row_cannot_be_read_is_named_by_others_and_stays() {
    let bench = Bench::new();
    let first = bench.collect(page(SHOP, &product("Plane", "1"))).await;
    damage(&bench, PAGES.name()).await;
    let again = bench.collect(page(SHOP, &product("Plane", "1"))).await;
    assert_eq!(again.page.hash, first.page.hash);
    for job in [first.job, again.job] {
        assert!(bench.org.write(move |tx| delete(tx, job)).await.unwrap());
    }
    let key = PageKey(first.page.hash);
    assert!(bench.org.read(|tx| tx.get(&UNNAMED, &key)).unwrap().is_none(), "its file stays");
}

/// An upgrade names the pages of what is there: before anything is served, for all organizations.
#[tokio::test]
async fn naming_the_pages_of_earlier_results_passes_over_what_is_damaged() {
    let bench = Bench::new();
    let mut jobs = Vec::new();
    for n in 0..3 {
        jobs.push(bench.collect(page(&format!("{SHOP}/{n}"), &product("Plane", &n.to_string()))).await.job);
    }
    let (damaged, gone) = (jobs[1], jobs[2]);
    bench
        .org
        .write(move |tx| {
            damage_row(tx, &NAMINGS, &damaged)?;
            tx.delete(&NAMINGS, &gone).map(drop)
        })
        .await
        .unwrap();
    pages::adopt(&bench.system()).await.unwrap();
    assert!(bench.org.read(|tx| tx.get(&NAMINGS, &gone)).unwrap().is_some(), "those behind it are named");
    pages::adopt(&bench.system()).await.unwrap();
}
