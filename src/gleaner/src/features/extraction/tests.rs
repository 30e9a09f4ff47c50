//! The slice without HTTP: pages in, results, index and console tables out.

mod follow;

mod again;
mod main_content;
mod schemas;
mod texts;
mod trials;

use super::feed::{INDEXED, SearchFeed};
use super::held_rows::{HeldV1, HeldV2, HeldV3};
use super::rows::{COLUMNS, RESULTS, RESULTS_BY_ID, RedirectV1, ResultV1, ResultV2, ResultV3, ResultV4};
use super::service::{DeliveredPage, Extractor, record};
use super::*;
use base::clock::{Clock, Timestamp};
use base::codec::{self, Json};
use base::health::Health;
use base::ids::OrgId;
use base::terms::PageType;
use base::web::WebUrl;
use blob::{BlobHash, BlobStore};
use search::ResultQuery;
use serde_json::{Value, json};
use sql::{Cell, TableSpec};
use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;
use store::{Key, Order, OrgStore, Store, SysWrite, System};
use tempfile::TempDir;

mod damage;

const SHOP: &str = "http://shop.example/plane";

/// A box of this slice in a folder of its own.
struct Bench {
    folder: TempDir,
    store: Store,
    blobs: Arc<BlobStore>,
    extractor: Extractor,
    org: OrgStore,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store.redb"), 16 << 20, Clock::system()).unwrap();
        let blobs = Arc::new(BlobStore::open_local(folder.path().join("pages")).unwrap());
        let extractor = Extractor::new(store.clone(), Arc::clone(&blobs), Health::default());
        let org = store.system().org(OrgId::new());
        Bench { folder, store, blobs, extractor, org }
    }

    fn system(&self) -> System {
        self.store.system()
    }

    async fn import(&self, schemas: Value) -> Result<ImportSummary> {
        import_schemas(&self.system(), &json!({ "schemas": schemas }).to_string(), Some("shop.example")).await
    }

    /// Extracts a page and stores its result.
    async fn collect(&self, page: DeliveredPage) -> ResultV4 {
        let job = page.job;
        let draft = self.extractor.process(&self.org, page).await.unwrap();
        self.org.write(move |tx| record(tx, draft)).await.unwrap();
        self.org.read(|tx| tx.require(&RESULTS, &job)).unwrap()
    }

    fn feed(&self) -> SearchFeed {
        SearchFeed::open(self.folder.path().join("search"), self.system()).unwrap()
    }

    /// One activation of the feed, on a thread as it has one.
    fn follow(&self, feed: &SearchFeed, stop: bool) {
        std::thread::scope(|scope| scope.spawn(|| feed.catch_up(&|| stop)).join().unwrap()).unwrap();
    }

    fn found(&self, feed: &SearchFeed, q: &str) -> Vec<JobId> {
        let query = ResultQuery { q: Some(q.to_owned()), limit: 100, ..ResultQuery::default() };
        let page = feed.index().org(self.org.id().0).search(&query).unwrap();
        page.hits.iter().map(|hit| JobId(hit.id)).collect()
    }
}

fn page(url: &str, html: &str) -> DeliveredPage {
    let url = WebUrl::parse(url).unwrap();
    DeliveredPage {
        job: JobId::new(),
        url_id: None,
        domain: url.domain(),
        final_url: url.clone(),
        redirects: Vec::new(),
        url,
        page_type: None,
        provider: "direct".to_owned(),
        http_status: 200,
        content_type: Some("text/html; charset=utf-8".to_owned()),
        body: html.to_owned().into(),
        tags: Vec::new(),
        scraped_at: Clock::system().now(),
    }
}

fn product(name: &str, price: &str) -> String {
    format!("<!doctype html><title>{name} | Shop</title><h1>{name}</h1><b class=price>{price}</b>")
}

fn product_schema() -> Value {
    json!({ "pageType": "product", "attributes": [
        { "name": "name", "xpaths": ["//h1"], "type": "text" },
        { "name": "price", "xpaths": ["//b[@class='price']"], "type": "number", "validation": { "min": 1 } },
        { "name": "imageUrls", "xpaths": ["//img/@src"], "type": "url[]" },
    ]})
}

#[tokio::test]
async fn a_page_becomes_a_result_and_a_second_visit_says_what_changed() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let mut first = page(SHOP, &product("Plane No. 4", "$189.00"));
    first.page_type = Some(PageType::Product);
    let html = first.body.clone();
    let first = bench.collect(first).await;
    assert_eq!(first.values, Json(json!({ "name": "Plane No. 4", "price": 189 })));
    assert_eq!(
        (first.title.as_deref(), first.page_type),
        (Some("Plane No. 4 | Shop"), Some(PageType::Product))
    );
    let quality = first.quality.unwrap();
    assert!((quality.completeness - 2.0 / 3.0).abs() < 0.001 && quality.validation == 1.0, "{quality:?}");
    assert!(first.changed.is_empty());
    let blobs = bench.blobs.org(bench.org.id().0);
    let hash: BlobHash = super::views::hex(&first.page.hash).parse().unwrap();
    assert_eq!(blobs.get_page(&hash).await.unwrap().unwrap(), html);
    let by_id = bench.org.read(|tx| tx.lookup(&RESULTS, &RESULTS_BY_ID, first.id)).unwrap();
    assert_eq!(by_id.as_ref(), Some(&first));

    // Another layout with the same values is the same content.
    let same = format!("{}<!-- served by node 7 -->", product("Plane No. 4", "$ 189"));
    let same = bench.collect(page(SHOP, &same)).await;
    assert_eq!((same.changed.len(), same.content_hash), (0, first.content_hash));
    assert_ne!(same.page.hash, first.page.hash);

    let dearer = format!("{}<img src=/4.jpg>", product("Plane No. 4", "199"));
    let dearer = bench.collect(page(SHOP, &dearer)).await;
    assert_eq!(dearer.changed, ["price", "imageUrls"]);
    assert_eq!(dearer.values.0["imageUrls"], json!(["http://shop.example/4.jpg"]));
    assert_ne!(dearer.content_hash, first.content_hash);
    let gone = bench.collect(page(SHOP, &product("Plane No. 4", "199"))).await;
    assert_eq!(gone.changed, ["imageUrls"]);
}

#[tokio::test]
async fn a_job_that_runs_twice_keeps_its_first_result() {
    let bench = Bench::new();
    let scraped = page(SHOP, "one");
    let mut again = scraped.clone();
    again.body = "two".to_owned().into();
    let first = bench.collect(scraped).await;
    let draft = bench.extractor.process(&bench.org, again).await.unwrap();
    let (id, _) = bench.org.write(move |tx| record(tx, draft)).await.unwrap();
    assert_eq!(id, first.id);
    assert_eq!(bench.org.read(|tx| tx.count(&RESULTS, 10)).unwrap(), 1);
    assert_eq!(bench.org.read(|tx| tx.require(&RESULTS, &first.job)).unwrap(), first);
}

#[tokio::test]
async fn a_late_job_is_compared_with_what_was_scraped_before_it() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let at = |ms: i64, price: &str| {
        let mut page = page(SHOP, &product("Plane", price));
        page.scraped_at = Timestamp(ms);
        page
    };
    bench.collect(at(1_000, "10")).await;
    let third = bench.collect(at(3_000, "30")).await;
    assert_eq!(third.changed, ["price"]);
    let second = bench.collect(at(2_000, "10")).await;
    assert!(second.changed.is_empty(), "compared with the third: {:?}", second.changed);
    let other = bench.collect(page("http://shop.example/chisel", &product("Chisel", "5"))).await;
    assert!(other.changed.is_empty(), "compared with another URL");
}

#[tokio::test]
async fn what_is_read_after_a_wrong_year_is_the_newest() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let clock = bench.store.clock().clone();
    let visit = async |name: &str| {
        let mut visit = page(SHOP, &product(name, "1"));
        visit.scraped_at = clock.now();
        bench.collect(visit).await
    };
    let mut rows = vec![visit("before").await];
    clock.set_wall(YEAR_MS);
    rows.push(visit("ahead").await);
    clock.set_wall(-YEAR_MS);
    rows.push(visit("after").await);
    // As an earlier release left one that was read ahead: it stands where its date is.
    let old = page(SHOP, &product("Plane", "1"));
    let year_ahead = clock.now().after(std::time::Duration::from_millis(YEAR_MS as u64));
    let old = ResultV4 {
        id: ResultId::new(),
        job: old.job,
        scraped_at: year_ahead,
        place: base::clock::Moment(year_ahead.millis()),
        ..rows[2].clone()
    };
    let stored = old.clone();
    bench.org.write(move |tx| tx.put(&RESULTS, &stored.job, &stored)).await.unwrap();
    rows.push(old);
    rows.push(visit("after").await);
    rows.push(visit("last").await);
    let changed: Vec<_> = rows.iter().map(|row| !row.changed.is_empty()).collect();
    assert_eq!(changed, [false, true, true, true, false, true], "each is compared with the one before it");
    let days = |row: &ResultV4| row.scraped_at.since(rows[0].scraped_at).as_secs() / 86_400;
    assert_eq!(rows.iter().map(days).collect::<Vec<_>>(), [0, 365, 0, 365, 0, 0], "a date is what it is");
    let of_url = bench.org.read(|tx| {
        let newest = super::rows::url_digest(SHOP);
        tx.scan_index(&RESULTS, &super::rows::RESULTS_BY_URL, newest, Order::Descending, 10)
    });
    let ids: Vec<_> = of_url.unwrap().iter().map(|row| row.id).collect();
    let in_order: Vec<_> = rows.iter().rev().map(|row| row.id).collect();
    assert_eq!(ids, in_order, "the newest is in front");
    // What the URL's own row says is of its newest reading.
    let draft = |name: &str| bench.extractor.process(&bench.org, page(SHOP, &product(name, "1")));
    let draft = draft("noted").await.unwrap();
    let scraped_at = bench.org.write(move |tx| record(tx, draft)).await.unwrap().1;
    assert!(scraped_at.is_some_and(|at| at < year_ahead), "{scraped_at:?}");
}

#[tokio::test]
async fn values_that_do_not_fit_leave_an_error_and_not_a_failure() {
    let bench = Bench::new();
    let schema = json!({ "pageType": "product_list", "attributes": [
        { "name": "links", "xpaths": ["//a"], "type": "text[]" },
        { "name": "all", "xpaths": ["//body"], "type": "text" },
        { "name": "title", "xpaths": ["//h1"], "type": "text" },
    ]});
    bench.import(json!([schema])).await.unwrap();
    let html = format!(
        "<h1>Much</h1>{}",
        "<a>a link with a text of some length, a hundred bytes long or so</a>\n".repeat(9_000)
    );
    let mut scraped = page(SHOP, &html);
    scraped.page_type = Some(PageType::ProductList);
    let row = bench.collect(scraped).await;
    assert_eq!(row.values, Json(json!({ "title": "Much" })));
    let names: Vec<_> = row.attribute_errors.iter().map(|error| error.name.as_str()).collect();
    assert_eq!(names, ["links", "all"]);
    assert!((row.quality.unwrap().completeness - 1.0 / 3.0).abs() < 0.001);
}

#[tokio::test]
async fn a_result_can_be_found_once_the_feed_has_passed_it() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let feed = bench.feed();
    let row = bench.collect(page(SHOP, &product("Smoothing plane", "189"))).await;
    assert!(row.sequence > feed.committed());
    assert_eq!(feed.indexed_at(&row).unwrap(), None);
    assert!(bench.found(&feed, "smoothing").is_empty());
    bench.follow(&feed, false);
    assert_eq!(feed.committed(), row.sequence);
    assert!(feed.indexed_at(&row).unwrap().unwrap() >= row.extracted_at);
    assert_eq!(bench.found(&feed, "smoothing"), [row.job]);
    assert_eq!(bench.found(&feed, "189"), [row.job]);
    let theirs = feed.index().org(OrgId::new().0);
    let query = ResultQuery { q: Some("smoothing".into()), limit: 9, ..ResultQuery::default() };
    assert_eq!(theirs.search(&query).unwrap().total, 0);

    let gone = row.job;
    bench.org.write(move |tx| tx.delete(&RESULTS, &gone)).await.unwrap();
    bench.follow(&feed, false);
    assert!(bench.found(&feed, "smoothing").is_empty());
}

#[tokio::test]
async fn when_a_result_was_indexed_is_said_once_and_for_good() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let feed = bench.feed();
    let mut rows = Vec::new();
    for n in 0..3 {
        rows.push(bench.collect(page(&format!("{SHOP}/{n}"), &product("Plane", "1"))).await);
        std::thread::sleep(std::time::Duration::from_millis(5));
        bench.follow(&feed, false);
    }
    let said = |feed: &SearchFeed| rows.iter().map(|row| feed.indexed_at(row).unwrap()).collect::<Vec<_>>();
    let first = said(&feed);
    assert!(
        first.iter().is_sorted() && rows.iter().zip(&first).all(|(row, at)| *at > Some(row.extracted_at))
    );
    assert_eq!(
        feed.with_times(rows.clone()).unwrap().into_iter().map(|(_, at)| at).collect::<Vec<_>>(),
        first
    );
    // Restarted, filled anew, and once more: nothing that was said changes.
    drop(feed);
    let feed = bench.feed();
    assert_eq!(said(&feed), first, "before the feed has run");
    bench.follow(&feed, false);
    assert_eq!(said(&feed), first);
    feed.index().clear().unwrap();
    drop(feed);
    let feed = bench.feed();
    bench.follow(&feed, false);
    assert_eq!(said(&feed), first, "of an index that was filled anew");
    // A process that died between a commit and its note has shown nobody what the commit took in.
    let late = bench.collect(page(&format!("{SHOP}/late"), &product("Plane", "1"))).await;
    bench.follow(&feed, false);
    let position = feed.committed();
    drop(feed);
    bench.system().write(move |tx| tx.delete(&INDEXED, &position)).await.unwrap();
    let feed = bench.feed();
    assert_eq!(feed.indexed_at(&late).unwrap(), None);
    bench.follow(&feed, false);
    let noted = feed.indexed_at(&late).unwrap();
    assert!(noted > Some(late.extracted_at));
    // What an older release indexed: nobody knows when, and it stays so.
    let all = bench.system().read(|tx| tx.scan(&INDEXED, None, Order::Ascending, 100)).unwrap();
    drop(feed);
    let forget =
        move |tx: &SysWrite<'_>| all.iter().try_for_each(|(key, _)| tx.delete(&INDEXED, key).map(drop));
    bench.system().write(forget).await.unwrap();
    for _ in 0..2 {
        let feed = bench.feed();
        let extracted: Vec<_> = rows.iter().map(|row| Some(row.extracted_at)).collect();
        assert_eq!(said(&feed), extracted);
        bench.follow(&feed, false);
        assert_eq!(said(&feed), extracted);
    }
}

#[tokio::test]
async fn a_search_that_is_being_filled_is_not_waited_for() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    for n in 0..3 {
        bench.collect(page(&format!("{SHOP}/{n}"), &product("Plane", "1"))).await;
    }
    let newest = *bench.store.sequence().borrow();
    bench.system().write(move |tx| tx.forget_changes(newest, 10_000)).await.unwrap();
    let feed = bench.feed();
    assert!(feed.self_test().unwrap());
    // Asked in the middle of a filling, by whether that is to stop.
    let asked = parking_lot::Mutex::new(Vec::new());
    let ask = || {
        let tried = std::thread::scope(|scope| scope.spawn(|| feed.self_test().unwrap()).join().unwrap());
        asked.lock().push((tried, feed.filled()));
        false
    };
    std::thread::scope(|scope| scope.spawn(|| feed.catch_up(&ask)).join().unwrap()).unwrap();
    assert_eq!(asked.lock()[0], (false, 3), "it cannot be tried, and says how far it is");
    assert_eq!((feed.self_test().unwrap(), feed.filled()), (true, 0));
}

/// What the first releases stored.
#[tokio::test]
async fn a_result_and_a_draft_of_before_redirects_are_read() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let hop = RedirectV1 { url: "http://shop.example/old".to_owned(), http_status: 301 };
    let row =
        bench.collect(DeliveredPage { redirects: vec![hop], ..page(SHOP, &product("Plane", "1")) }).await;
    assert_eq!(row.redirects.len(), 1);
    let kept = row.clone();
    let old = ResultV1 {
        id: row.id,
        job: row.job,
        url_id: row.url_id,
        url: row.url,
        final_url: row.final_url,
        domain: row.domain,
        page_type: row.page_type,
        schema: row.schema,
        values: row.values,
        quality: row.quality,
        attribute_errors: row.attribute_errors,
        provider: row.provider,
        http_status: row.http_status,
        content_type: row.content_type,
        page: row.page,
        content_hash: row.content_hash,
        changed: row.changed,
        title: row.title,
        tags: row.tags,
        scraped_at: row.scraped_at,
        extracted_at: row.extracted_at,
        sequence: row.sequence,
    };
    // An old row is the new one without what stands at its end, under its own version byte.
    let bare = ResultV2::from(old.clone());
    let mut now = ResultV4 { redirects: Vec::new(), ..kept };
    assert_eq!(codec::decode::<ResultV4>(&codec::encode(&now).unwrap()).unwrap(), now);
    now.place = base::clock::Moment(now.scraped_at.millis());
    assert_eq!(codec::decode::<ResultV4>(&codec::encode(&bare).unwrap()).unwrap(), now);
    assert_eq!(codec::decode::<ResultV4>(&codec::encode(&old).unwrap()).unwrap(), now);
    let draft = HeldV1 { row: old, attributes: Vec::new() };
    let read: HeldV3 = codec::decode(&codec::encode(&draft).unwrap()).unwrap();
    let held = HeldV3 { row: bare.clone(), attributes: Vec::new(), attributes_version: None };
    assert_eq!(read, held);
    // And what was stored before there were own attributes.
    let third = ResultV3::from(bare.clone());
    assert_eq!(codec::decode::<ResultV4>(&codec::encode(&third).unwrap()).unwrap(), now);
    let draft = HeldV2 { row: bare, attributes: Vec::new() };
    assert_eq!(codec::decode::<HeldV3>(&codec::encode(&draft).unwrap()).unwrap(), held);
}

#[tokio::test]
async fn the_index_is_filled_again_when_it_is_lost_or_does_not_fit() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let mut jobs = Vec::new();
    for n in 0..150 {
        let url = format!("http://shop.example/{n}");
        jobs.push(bench.collect(page(&url, &product("Spokeshave", &n.to_string()))).await.job);
    }
    let newest_first: Vec<_> = jobs.iter().rev().copied().collect();
    let feed = bench.feed();
    bench.follow(&feed, false);
    let found = || {
        let feed = bench.feed();
        let opened_at = feed.committed();
        bench.follow(&feed, false);
        let mut found = bench.found(&feed, "spokeshave");
        found.sort_unstable();
        (opened_at, feed.committed(), found)
    };
    let newest = *bench.store.sequence().borrow();
    let mut expected = newest_first[..100].to_vec();
    expected.sort_unstable();
    drop(feed);
    assert_eq!(found(), (newest, newest, expected.clone()), "reopened");

    // Lost, and the change records are gone too: only the rows can fill it.
    bench.system().write(move |tx| tx.forget_changes(newest, 10_000)).await.unwrap();
    std::fs::remove_dir_all(bench.folder.path().join("search")).unwrap();
    let stopped = bench.feed();
    bench.follow(&stopped, true);
    assert_eq!(
        (stopped.committed(), stopped.durable_position()),
        (0, 0),
        "a refill that was cut off is none"
    );
    drop(stopped);
    assert_eq!(found(), (0, newest, expected.clone()));

    // An index that is ahead of the store: it holds what the store does not know.
    let ahead = SearchFeed::open(bench.folder.path().join("search"), bench.system()).unwrap();
    ahead.index().apply(&[], newest + 1_000).unwrap();
    drop(ahead);
    assert_eq!(found(), (0, newest, expected));
}

/// The console tables as they stand for a row, and a check that every cell fits its column.
fn tables_of(bench: &Bench, job: JobId) -> BTreeMap<String, (Arc<TableSpec>, Vec<Vec<Cell>>)> {
    let mut key = Vec::new();
    job.encode(&mut key);
    let view = &FEATURE.views[0];
    assert_eq!(view.source, "results");
    let all = bench.org.read(|tx| (view.rows)(tx, &key)).unwrap();
    let named: Vec<_> = (view.tables)().iter().map(|table| table.name.as_str().to_owned()).collect();
    assert_eq!(named, all.iter().map(|rows| rows.table.name.as_str()).collect::<Vec<_>>());
    for rows in &all {
        for row in &rows.rows {
            assert_eq!(row.len(), rows.table.columns.len(), "{}", rows.table.name);
            for (cell, column) in row.iter().zip(&rows.table.columns) {
                assert!(cell.fits(column.kind), "{}.{}: {cell:?}", rows.table.name, column.name);
                assert!(
                    column.nullable || *cell != Cell::Null,
                    "{}.{} is null",
                    rows.table.name,
                    column.name
                );
            }
        }
    }
    all.into_iter().map(|rows| (rows.table.name.as_str().to_owned(), (rows.table, rows.rows))).collect()
}

fn cell(table: &(Arc<TableSpec>, Vec<Vec<Cell>>), column: &str) -> Cell {
    let at = table.0.columns.iter().position(|known| known.name == column).expect(column);
    table.1[0][at].clone()
}

#[tokio::test]
async fn the_console_sees_typed_columns_that_grow() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let html = format!("{}<img src=/4.jpg><img src=/5.jpg>", product("Plane", "189.5"));
    let first = bench.collect(page(SHOP, &html)).await;
    let tables = tables_of(&bench, first.job);
    let products = &tables["products"];
    assert_eq!(cell(products, "price"), Cell::Float(189.5));
    assert_eq!(cell(products, "name"), Cell::from("Plane"));
    assert_eq!(
        cell(products, "image_urls"),
        Cell::from(r#"["http://shop.example/4.jpg","http://shop.example/5.jpg"]"#)
    );
    assert_eq!(tables["reading_values"].1.len(), 4);
    assert_eq!(tables["readings"].1.len(), 1);
    assert!(tables["articles"].1.is_empty());

    // Elsewhere the price is a text and there is something new: the old columns stay as they are.
    let other = json!({ "domain": "other.example", "pageType": "product", "attributes": [
        { "name": "price", "xpaths": ["//b"], "type": "text" },
        { "name": "in_stock", "xpaths": ["//i"], "type": "boolean", "description": "Whether it can be had." },
    ]});
    bench.import(json!([other])).await.unwrap();
    let second = bench.collect(page("http://other.example/", "<b>about ten</b><i>yes</i>")).await;
    let tables = tables_of(&bench, second.job);
    let grown = &tables["products"];
    assert_eq!(grown.0.catalog_version, products.0.catalog_version + 2);
    assert_eq!(grown.0.columns[..products.0.columns.len()], products.0.columns[..]);
    assert_eq!((cell(grown, "price"), cell(grown, "price_text")), (Cell::Null, Cell::from("about ten")));
    assert_eq!(cell(grown, "in_stock"), Cell::Bool(true));
    let described = |name: &str| {
        let column = grown.0.columns.iter().find(|column| column.name == name).expect(name);
        column.description.clone().expect("a description")
    };
    assert_eq!(described("in_stock"), "Whether it can be had.");
    assert_eq!(described("price_text"), "The attribute price.");
    assert_eq!(cell(&tables["reading_values"], "job_id"), Cell::from(second.job.to_string()));
    let columns = bench.org.read(|tx| tx.get(&COLUMNS, &"products".to_owned())).unwrap().unwrap();
    assert_eq!(columns.columns.len(), 5);

    let gone = first.job;
    bench.org.write(move |tx| tx.delete(&RESULTS, &gone)).await.unwrap();
    assert!(tables_of(&bench, gone).values().all(|(_, rows)| rows.is_empty()));
    let none = bench.collect(page(SHOP, "<p>nothing")).await;
    let tables = tables_of(&bench, none.job);
    assert_eq!(cell(&tables["readings"], "quality_composite"), Cell::Null);
    assert_eq!(tables.values().map(|(_, rows)| rows.len()).sum::<usize>(), 1);
}

#[test]
fn a_cursor_comes_back() {
    let key = SortKey { sort: Sort::Relevance, rank: -7, id: Uuid::now_v7() };
    assert_eq!(cursor_key(&cursor_bytes(&key)), Some(key));
    assert_eq!(cursor_key(b"short"), None);
}

/// How much of the demo's truth the demo's schemas find on the demo's pages.
#[tokio::test]
async fn the_demo_shop_is_read_as_its_truth_says() {
    let demo = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("data/demo");
    let read = |name: &str| std::fs::read_to_string(demo.join(name)).unwrap();
    let bench = Bench::new();
    import_schemas(&bench.system(), &read("schemas.json"), Some("127.0.0.1")).await.unwrap();
    let base = "http://127.0.0.1:8099";
    let truth: Value = serde_json::from_str(&read("truth.json").replace("{base}", base)).unwrap();
    let site: Value = serde_json::from_str(&read("site.json")).unwrap();
    let (mut right, mut expected) = (0, 0);
    for entry in site["pages"].as_array().unwrap() {
        let path = entry["path"].as_str().unwrap();
        let mut scraped = page(&format!("{base}{path}"), "");
        scraped.content_type = entry["contentType"].as_str().map(str::to_owned);
        scraped.body =
            std::fs::read(demo.join("pages").join(entry["file"].as_str().unwrap())).unwrap().into();
        let row = bench.collect(scraped).await;
        assert_eq!(row.page_type.as_ref().map(PageType::name), entry["pageType"].as_str(), "{path}");
        for (name, value) in truth["visit1"][path].as_object().into_iter().flatten() {
            expected += 1;
            let found = &row.values.0[name];
            let same = match (found.as_f64(), value.as_f64()) {
                (Some(found), Some(value)) => found == value,
                _ => found == value,
            };
            right += usize::from(same);
            if !same {
                println!("{path} {name}: {found} instead of {value}");
            }
        }
    }
    assert!(expected > 400, "the truth has {expected} attributes");
    assert!(right * 100 >= expected * 98, "{right} of {expected}");
}
