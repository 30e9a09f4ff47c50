//! Which schema reads a page, and how schemas come and go.

use super::super::attributes::{OWN_HEADS, OwnAttributeV1, OwnHeadV1};
use super::super::schemas::good_until;
use super::*;

#[tokio::test]
async fn the_schema_that_fits_best_is_chosen() {
    let bench = Bench::new();
    let article = json!({ "pageType": "article", "attributes": [
        { "name": "headline", "xpaths": ["//h1"], "type": "text" },
        { "name": "author", "xpaths": ["//*[@rel='author']"], "type": "text" },
    ]});
    bench.import(json!([product_schema(), article])).await.unwrap();
    let read = async |html: &str| bench.collect(page(SHOP, html)).await;
    // Two of three attributes against one of two.
    assert_eq!(read(&product("Plane", "5")).await.page_type, Some(PageType::Product));
    assert_eq!(read("<h1>News</h1><a rel=author>Ada</a>").await.page_type, Some(PageType::Article));
    // A third of one and none of the other: neither.
    let none = read("<img src=x.png>").await;
    assert_eq!((none.page_type, none.schema, none.quality), (None, None, None));
    assert_eq!((none.values.clone(), none.content_hash), (Json(json!({})), none.page.hash));

    let mut said = page(SHOP, &product("Plane", "5"));
    said.page_type = Some(PageType::Article);
    let said = bench.collect(said).await;
    assert_eq!(said.page_type, Some(PageType::Article));
    assert_eq!(said.quality.unwrap().completeness, 0.5);
    let mut unknown = page(SHOP, &product("Plane", "5"));
    unknown.page_type = Some(PageType::Serp);
    let unknown = bench.collect(unknown).await;
    assert_eq!((unknown.page_type, unknown.schema), (Some(PageType::Serp), None));
    let mut image = page(SHOP, &product("Plane", "5"));
    image.content_type = Some("image/png".to_owned());
    assert_eq!(bench.collect(image).await.schema, None);
}

#[tokio::test]
async fn a_hosts_own_schema_goes_before_its_domains() {
    let bench = Bench::new();
    let named = |attribute: &str, domain: &str| {
        json!({ "domain": domain, "pageType": "product", "attributes": [
            { "name": attribute, "xpaths": ["//h1"], "type": "text" } ]})
    };
    bench.import(json!([named("wide", "Shop.Example"), named("own", "de.shop.example.")])).await.unwrap();
    let read = async |url: &str| bench.collect(page(url, "<h1>Hobel</h1>")).await.values;
    assert_eq!(read("http://de.shop.example/a").await, Json(json!({ "own": "Hobel" })));
    assert_eq!(read("http://fr.shop.example/a").await, Json(json!({ "wide": "Hobel" })));
    let find = |domain| bench.extractor.find_schema(domain, PageType::Product).map(|(row, _)| row.domain);
    assert_eq!(find("de.shop.example").unwrap(), "de.shop.example");
    assert_eq!(find("www.shop.example").unwrap(), "shop.example");
    for missing in ["other.example", "not a host", ""] {
        assert_eq!(find(missing).unwrap_err().code(), Code::NotFound, "{missing}");
    }
}

#[tokio::test]
async fn imports_make_versions_and_exports_bring_them_back() {
    let bench = Bench::new();
    let first = bench.import(json!([product_schema()])).await.unwrap();
    assert_eq!((first.created, first.schemas[0].version), (1, 1));
    let again = bench.import(json!([product_schema()])).await.unwrap();
    assert_eq!((again.created, again.unchanged, again.schemas[0].version), (0, 1, 1));
    let mut other = product_schema();
    other["attributes"][0]["xpaths"] = json!(["//h2"]);
    assert_eq!(bench.import(json!([other])).await.unwrap().schemas[0].version, 2);
    let (newest, _) = bench.extractor.find_schema("shop.example", PageType::Product).unwrap();
    assert_eq!(newest.version, 2);
    let listed = bench.extractor.list_schemas(Some("shop.example"), None, 10).unwrap();
    assert_eq!(listed.iter().map(|(row, _)| row.version).collect::<Vec<_>>(), [2, 1]);
    assert!(bench.extractor.list_schemas(None, Some(PageType::Serp), 10).unwrap().is_empty());
    assert!(bench.extractor.list_schemas(Some("//"), None, 10).unwrap().is_empty());
    assert_eq!(bench.extractor.list_schemas(None, None, 1).unwrap().len(), 1);

    let exported = export_schemas(&bench.system()).unwrap();
    assert_eq!(exported["schemas"][0]["attributes"][0]["xpaths"], json!(["//h2"]));
    let back = import_schemas(&bench.system(), &exported.to_string(), None).await.unwrap();
    assert_eq!((back.created, back.unchanged), (0, 1));
}

fn proposed(xpath: &str, beaten: Option<SchemaRefV1>) -> ProposedSchema {
    let attributes = json!([{ "name": "title", "xpaths": [xpath], "type": "text" }]);
    ProposedSchema {
        domain: "shop.example".to_owned(),
        page_type: PageType::Product,
        attributes: serde_json::from_value(attributes).unwrap(),
        confidence: 0.9,
        discovered_by: DiscoveredBy::ReverseEngineered,
        sample_count: 5,
        beaten,
    }
}

#[tokio::test]
async fn a_proposed_schema_holds_only_where_it_beats_the_one_that_holds() {
    let bench = Bench::new();
    let adopt =
        async |xpath: &str, beaten| adopt_schema(&bench.system(), proposed(xpath, beaten)).await.unwrap();
    let Adoption::Current(first) = adopt("//h1", None).await else { panic!("there was none") };
    let (row, at) = bench.extractor.find_schema("shop.example", PageType::Product).unwrap();
    assert_eq!((row.version, row.discovered_by, row.sample_count), (1, DiscoveredBy::ReverseEngineered, 5));
    assert_eq!((at, row.last_validated_at, first.id), (Some(row.created_at), Some(row.created_at), row.id));
    assert_eq!(adopt("//h1", None).await, Adoption::Same(first));
    assert_eq!(adopt("//h2", None).await, Adoption::Overtaken, "it has beaten none");
    let Adoption::Current(second) = adopt("//h2", Some(first)).await else {
        panic!("it has beaten the first")
    };
    assert_eq!(second.version, 2);
    assert_eq!(adopt("//h3", Some(first)).await, Adoption::Overtaken);

    // The operator's stays, also where it is the domain's and the proposed one is for a host.
    bench.import(json!([product_schema()])).await.unwrap();
    let holds =
        bench.system().read(|tx| schema_to_beat(tx, "de.shop.example", PageType::Product)).unwrap().unwrap();
    let held = SchemaRefV1 { id: holds.id, version: 3 };
    assert_eq!(adopt("//h4", Some(held)).await, Adoption::Manual(held));
    let of_host = ProposedSchema { domain: "de.shop.example".to_owned(), ..proposed("//h4", Some(held)) };
    assert_eq!(adopt_schema(&bench.system(), of_host).await.unwrap(), Adoption::Manual(held));
}

#[tokio::test]
async fn a_pair_of_schemas_cannot_take_turns_for_ever() {
    let bench = Bench::new();
    let mut beaten = None;
    for number in 1.. {
        match adopt_schema(&bench.system(), proposed(&format!("//h{number}"), beaten)).await.unwrap() {
            Adoption::Current(next) => beaten = Some(next),
            Adoption::TooOften => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(beaten.unwrap().version, 20);
}

#[tokio::test]
async fn a_page_that_fits_confirms_its_schema() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let confirmed = || bench.extractor.find_schema("shop.example", PageType::Product).unwrap();
    let (row, at) = confirmed();
    let days = |at: Timestamp, days: u64| at.after(std::time::Duration::from_secs(days * 24 * 3_600));
    assert_eq!((at, good_until(&row, at)), (None, days(row.created_at, 90)), "no page has been read");
    // A page that lacks everything says nothing good of it.
    let wanted = |html: &str| DeliveredPage { page_type: Some(PageType::Product), ..page(SHOP, html) };
    bench.collect(wanted("<p>We have moved.</p>")).await;
    bench.extractor.keep_confirmed().await.unwrap();
    assert_eq!(confirmed().1, None);
    bench.collect(wanted(&product("Plane", "189"))).await;
    bench.extractor.keep_confirmed().await.unwrap();
    let (_, at) = confirmed();
    let at = at.expect("a page fits");
    let now = Clock::system().now();
    // To the hour, and not before there was the schema.
    assert!(at >= row.created_at && at <= now, "{at:?}");
    assert!(at == row.created_at || at.millis() % 3_600_000 == 0);
    assert_eq!(good_until(&row, Some(at)), days(at, 90));
    assert_eq!(bench.extractor.list_schemas(None, None, 1).unwrap()[0].1, Some(at));
    // Another version begins anew.
    let mut other = product_schema();
    other["attributes"][0]["description"] = json!("What it is called.");
    bench.import(json!([other])).await.unwrap();
    let (row, at) = confirmed();
    assert_eq!((row.version, at), (2, None));
}

#[tokio::test]
async fn a_bad_import_names_the_place_and_leaves_nothing() {
    let bench = Bench::new();
    let refused =
        async |schemas: Value| bench.import(schemas).await.unwrap_err().detail().unwrap().to_owned();
    let mut bad = product_schema();
    bad["pageType"] = json!("article");
    bad["attributes"][1]["xpaths"] = json!(["//a", "//b["]);
    let reason = refused(json!([product_schema(), bad])).await;
    assert!(reason.starts_with("schemas[1].attributes[1].xpaths[1]: "), "{reason}");
    assert!(bench.extractor.list_schemas(None, None, 10).unwrap().is_empty(), "all or none");
    bad["attributes"][1]["type"] = json!("date");
    let reason = refused(json!([bad])).await;
    assert!(reason.starts_with("schemas[0].attributes[1].type: "), "{reason}");
    let reason = refused(json!([product_schema(), product_schema()])).await;
    assert!(reason.starts_with("schemas[1]: "), "{reason}");
    let mut nowhere = product_schema();
    nowhere["domain"] = json!("a b");
    assert!(refused(json!([nowhere])).await.starts_with("schemas[0].domain: "));
    let system = bench.system();
    for json in ["", "[]", "{\"schemas\": [}", "{\"schemas\": []} x", "{\"schemas\": 7}"] {
        let error = import_schemas(&system, json, None).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidInput, "{json}");
    }
}

/// Otherwise a site that changes would be looked at by attributes that do not read it, and given up.
#[tokio::test]
async fn pages_are_counted_where_the_attributes_are_that_read_them() {
    let bench = Bench::new();
    bench.import(json!([product_schema()])).await.unwrap();
    let place = |host: &str, page_type| {
        let own = bench
            .org
            .read(|org| bench.system().read(|tx| place_read_by(tx, org, (host, "shop.example"), page_type)));
        own.unwrap()
    };
    assert_eq!(place("www.shop.example", PageType::Product), "shop.example");
    let attribute = json!({ "name": "label", "xpaths": ["//p"], "type": "text" });
    let row = OwnAttributeV1 {
        attribute: Json(attribute),
        page_type: Some(PageType::Product),
        since: Timestamp::default(),
        patterns: 0,
    };
    let head = OwnHeadV1::of(1, &[row]);
    let stored = bench.org.write(move |tx| {
        tx.unaudited("a test's attributes");
        tx.put(&OWN_HEADS, &"www.shop.example".to_owned(), &head)
    });
    stored.await.unwrap();
    assert_eq!(place("www.shop.example", PageType::Product), "www.shop.example");
    // Of other hosts and of other types the domain's schema still is the nearest.
    assert_eq!(place("de.shop.example", PageType::Product), "shop.example");
    assert_eq!(place("www.shop.example", PageType::Article), "shop.example");
}
