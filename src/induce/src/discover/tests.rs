use super::*;
use page::html::Document;
use url::Url;

fn product(name: &str, price: &str, stock: &str) -> String {
    format!(
        r#"<head><script type="application/ld+json">{{"@type":"Product","name":"{name}","sku":"S-{price}",
        "offers":{{"price":"{price}","priceCurrency":"EUR","availability":"https://schema.org/{stock}"}}}}</script></head>
        <body><h1>{name}</h1><dl><dt>Our price</dt><dd>{} €</dd></dl><p class=stock>{}</p><p class=price>1 €</p></body>"#,
        price.replace('.', ","),
        if stock == "InStock" { "In stock" } else { "Sold out" },
    )
}

fn found(pages: &[String], kind: Option<Kind>) -> Discovery {
    let base = Url::parse("https://shop.example/").unwrap();
    let documents: Vec<Document> = pages.iter().map(|page| Document::parse(page.clone())).collect();
    let pages: Vec<Page<'_>> = documents.iter().map(|document| Page { document, base: &base }).collect();
    discover(&pages, kind, &mut Fuel::new(crate::LESSON_FUEL_MAX))
}

#[test]
fn a_site_teaches_itself() {
    let pages = [
        product("Plane No. 4", "189.50", "InStock"),
        product("Chisel", "24.90", "OutOfStock"),
        product("Fine saw", "61.20", "InStock"),
    ];
    let discovery = found(&pages, None);
    assert_eq!((discovery.kind, discovery.page_count), (Some(Kind::Product), 3));
    let first = |name: &str| {
        let learned = discovery.attributes.iter().find(|learned| learned.name == name);
        let first = learned.and_then(|learned| Some((learned, learned.paths.first()?)));
        first.map(|(learned, path)| (path.xpath.as_str(), learned.held_out_right))
    };
    assert_eq!(first("name"), Some(("//h1", 3.0)));
    assert_eq!(first("price"), Some(("//dt[normalize-space()='Our price']/following-sibling::dd[1]", 3.0)));
    assert!(first("availability").is_some_and(|(xpath, _)| xpath.contains("' stock '")));
    // The pages do not show it.
    assert_eq!(first("sku"), None);
    assert_eq!(first("currency"), None);
    let data = |name: &str| {
        let learned = discovery.attributes.iter().find(|learned| learned.name == name).unwrap();
        learned.json_paths.first().map(String::as_str)
    };
    assert_eq!(data("sku"), Some("ld+json$.sku"));
    assert_eq!(data("currency"), Some("ld+json$.offers.priceCurrency"));
}

/// A page of a shop that says nothing of itself.
fn silent(name: &str, code: &str, price: &str) -> String {
    format!(
        "<title>{name} | Shop</title><body><nav><a href=/>Home</a></nav><div class=product><h1>{name}</h1>\
         <p class=was><s>99.00 €</s></p><p class=price>{price} €</p><p>Item no: <b>{code}</b></p>\
         <button>Add to cart</button></div><div class=related><i class=price>5.00 €</i></div></body>"
    )
}

#[test]
fn annotators_teach_where_pages_say_nothing() {
    let pages = [
        silent("Plane No. 4", "PL-1004", "189.50"),
        silent("Chisel", "CH-2211", "24.90"),
        silent("Fine saw", "SW-3377", "61.20"),
    ];
    let discovery = found(&pages, None);
    assert_eq!((discovery.kind, discovery.page_count), (Some(Kind::Product), 3));
    let first = |name: &str| {
        let learned = discovery.attributes.iter().find(|learned| learned.name == name);
        learned.map(|learned| learned.paths[0].xpath.as_str())
    };
    assert_eq!(first("name"), Some("//h1"));
    assert!(first("price").is_some_and(|xpath| xpath.contains("' price '")));
    assert!(first("sku").is_some_and(|xpath| xpath.contains("Item no:")));
    assert!(discovery.attributes.iter().all(|learned| learned.confidence < 0.6));
    // What is the same on all pages may be anything.
    let same = [silent("Plane", "PL-1004", "9.50"), silent("Saw", "PL-1004", "9.50")];
    assert!(found(&same, None).attributes.iter().all(|learned| !["price", "sku"].contains(&&*learned.name)));
}

#[test]
fn pages_of_another_kind_teach_nothing() {
    let pages = [
        product("Plane", "1.50", "InStock"),
        product("Saw", "2.50", "InStock"),
        "<h1>About us</h1>".to_owned(),
    ];
    let discovery = found(&pages, None);
    assert_eq!((discovery.kind, discovery.page_count), (Some(Kind::Product), 2));
    assert_eq!(found(&pages, Some(Kind::Recipe)).attributes, []);
    assert_eq!(found(&["<p>x</p>".to_owned()], None).kind, None);
    assert_eq!(found(&[], None).kind, None);
}

/// Structured data that is made to cost much, and pages that show each label thousands of times.
#[test]
fn hostile_answer_keys_end() {
    let many: String =
        (0..30_000).map(|n| format!(r#"{{"@type":"Product","name":"n{n}","sku":"{n}"}},"#)).collect();
    let chain: String = (0..3_000)
        .map(|n| format!(r#"{{"@id":"{n}","@type":"Offer","offers":{{"@id":"{}"}}}},"#, n + 1))
        .collect();
    let scopes = "<div itemscope itemtype=Product itemprop=offers>".repeat(100_000);
    let texts = format!(
        "{}{}",
        "<div itemscope itemtype=Product><div itemprop=name>".repeat(2_000),
        "long ".repeat(100_000)
    );
    let shown =
        format!("{}{}", product("needle", "5.00", "InStock"), "<p>needle</p><i>5,00 €</i>".repeat(20_000));
    let pages = [
        format!("<script type='application/ld+json'>[{many}1]</script>"),
        format!("<script type='application/ld+json'>[{chain}1]</script>"),
        scopes,
        texts,
        shown,
    ];
    for page in pages {
        let discovery = found(&[page.clone(), page], None);
        assert!(discovery.attributes.len() < 12);
    }
}

#[test]
fn hostile_pages_end_and_still_teach() {
    let attributes: String = (0..140_000).map(|n| format!("data-a{n}='needle{n}' ")).collect();
    for hostile in [
        "<div class=a>".repeat(400_000),
        format!("<p {attributes}>x</p>"),
        format!("<p>{}</p>", "&amp;&#8364;12&euro;".repeat(100_000)),
    ] {
        let page =
            |n: usize| format!("{}{hostile}", product(&format!("Plane {n}"), &format!("{n}.50"), "InStock"));
        let discovery = found(&[page(1), page(2), page(3)], None);
        let names: Vec<&str> = discovery.attributes.iter().map(|learned| learned.name.as_str()).collect();
        assert!(names.contains(&"name") && names.contains(&"price"), "{names:?}");
    }
}

/// What the issue of hostile pages names: a million nested elements, and five megabytes of attributes on one element and on many.
#[test]
fn pages_at_the_limits_end_and_say_which_limit_it_was() {
    let attribute = |n: usize| format!("title='some words {n:06}' ");
    let on_one: String = (0..200_000).map(|n| format!("data-a{n}='needle {n:08}' ")).collect();
    let on_many: String =
        (0..100_000).map(|n| format!("<i {}data-b='{n} more of it, and more'>", attribute(n))).collect();
    assert!(on_one.len() > 5_000_000 && on_many.len() > 5_000_000);
    for (hostile, bounds) in [
        ("<div>".repeat(1_000_000), Vec::new()),
        (format!("<p {on_one}>x</p>"), Vec::new()),
        (on_many, vec![Bound::Page]),
    ] {
        let page =
            |n: usize| format!("{}{hostile}", product(&format!("Plane {n}"), &format!("{n}.50"), "InStock"));
        let discovery = found(&[page(1), page(2)], None);
        let names: Vec<&str> = discovery.attributes.iter().map(|learned| learned.name.as_str()).collect();
        assert!(names.contains(&"name") && names.contains(&"price"), "{names:?}");
        assert_eq!(discovery.bounds, bounds, "{}", &hostile[..40]);
    }
    assert!(Bound::Page.to_string().contains("150000 texts and attributes"), "{}", Bound::Page);
}

#[test]
fn what_has_no_fuel_ends_with_what_was_found() {
    let pages = [1, 2, 3].map(|n| product(&format!("Plane {n}"), &format!("{n}.50"), "InStock"));
    let documents: Vec<Document> = pages.iter().map(|page| Document::parse(page.clone())).collect();
    let base = Url::parse("https://shop.example/").unwrap();
    let pages: Vec<Page<'_>> = documents.iter().map(|document| Page { document, base: &base }).collect();
    let mut fuel = Fuel::new(10);
    let discovery = discover(&pages, None, &mut fuel);
    assert_eq!(
        (discovery.kind, discovery.page_count, discovery.attributes),
        (Some(Kind::Product), 3, Vec::new())
    );
    assert_eq!(discovery.bounds, [Bound::Work]);
    assert!(Bound::Work.to_string().contains("250000000 units"), "{}", Bound::Work);
}

#[test]
fn what_stands_in_json_alone_is_found_there() {
    let page = |n: usize| {
        format!(
            r#"<script type="application/ld+json">{{"@graph":[{{"@type":"WebSite","name":"Shop","sku":"none"}},
            {{"@type":"Product","name":"Plane {n}","sku":"PL-{n}77","offers":[{{"price":"{n}.50","priceCurrency":"EUR"}}]}}]}}</script>
            <script id="__DATA__" type="application/json">{{"page":{{"product":{{"code":"PL-{n}77","other":"PL-{}77"}}}}}}</script>
            <h1>Plane {n}</h1>"#,
            n + 1
        )
    };
    let discovery = found(&[page(1), page(2), page(3)], None);
    let data = |name: &str| {
        let learned = discovery.attributes.iter().find(|learned| learned.name == name).unwrap();
        learned.json_paths.clone()
    };
    assert_eq!(
        data("sku"),
        ["__DATA__$.page.product.code", "ld+json$['@graph'][?@['@type']=='Product'].sku"]
    );
    assert_eq!(data("price"), ["ld+json$['@graph'][?@['@type']=='Product'].offers[*].price"]);
    let sku = discovery.attributes.iter().find(|learned| learned.name == "sku").unwrap();
    assert!(sku.paths.is_empty() && sku.is_firm && sku.confidence == 0.8, "{sku:?}");
    let attribute = sku.attribute().unwrap();
    let schema = page::extract::Schema::compile(&[attribute]).unwrap();
    let base = Url::parse("https://shop.example/").unwrap();
    let read = schema.extract(&Document::parse(page(8)), &base, &mut Fuel::for_page());
    assert_eq!(read.values["sku"], "PL-877");
}

/// A page with its code in three places, of which the first, which has an id, says something else on a page that says no code of itself.
fn with_code(name: &str, said: Option<&str>, by_id: &str, code: &str) -> String {
    let said = said.map(|code| format!(r#","sku":"{code}""#)).unwrap_or_default();
    format!(
        r#"<script type="application/ld+json">{{"@type":"Product","name":"{name}","brand":"Maker"{said}}}</script>
        <h1>{name}</h1><b id=code>{by_id}</b><ul><li class=item-code>{code}</ul><dl><dt>Item no.</dt><dd>{code}</dd></dl>"#
    )
}

#[test]
fn expressions_vote_on_pages_that_do_not_say_the_value() {
    let first = |last: String| {
        let mut pages = vec![
            with_code("Plane", Some("PL-1004"), "PL-1004", "PL-1004"),
            with_code("Chisel", Some("CH-2211"), "CH-2211", "CH-2211"),
            with_code("Fine saw", Some("SW-3377"), "SW-3377", "SW-3377"),
        ];
        pages.push(last);
        let discovery = found(&pages, None);
        let learned = discovery.attributes.into_iter().find(|learned| learned.name == "sku").unwrap();
        learned.paths.into_iter().map(|path| path.xpath).collect::<Vec<_>>()
    };
    let agreed = first(with_code("Gauge", None, "GA-1188", "GA-1188"));
    assert_eq!(agreed[0], "//b[@id='code']", "{agreed:?}");
    let outvoted = first(with_code("Gauge", None, "Out of print", "GA-1188"));
    assert!(outvoted.len() > 1 && outvoted.iter().all(|xpath| !xpath.contains("@id")), "{outvoted:?}");
}

/// A page of a recipe that says how many it serves and how long it takes to prepare, and shows it as `shown` has it.
fn recipe(name: &str, serves: u32, prep: Option<u32>, shown: &str) -> String {
    let prep = prep.map(|minutes| format!(r#","prepTime":"PT{minutes}M""#)).unwrap_or_default();
    format!(
        r#"<script type="application/ld+json">{{"@type":"Recipe","name":"{name}","recipeYield":"{serves}"{prep}}}</script>
        <h1>{name}</h1>{shown}"#
    )
}

#[test]
fn a_caption_behind_a_value_leads_to_it() {
    let boxes = |first: Option<u32>, serves: u32| {
        let first = first.map(|minutes| format!("<div><b>{minutes}</b><i>Cook time</i></div>"));
        format!(
            "{}<div><b>{serves}</b><i>Servings</i></div><div><b>3</b><i>Likes</i></div>",
            first.unwrap_or_default()
        )
    };
    let pages = [
        recipe("Soup", 6, None, &boxes(Some(35), 6)),
        recipe("Stew", 20, None, &boxes(None, 20)),
        recipe("Bread", 12, None, &boxes(Some(50), 12)),
    ];
    let discovery = found(&pages, None);
    let learned = discovery.attributes.iter().find(|learned| learned.name == "yield").unwrap();
    assert_eq!(learned.paths[0].xpath, "//i[normalize-space()='Servings']/preceding-sibling::b[1]");
}

#[test]
fn a_label_that_speaks_of_the_attribute_is_one_where_a_single_page_has_it() {
    let prep = "<p>Prep <b>25 min</b> Rest <b>40 min</b></p>";
    let of = |shown: &str| {
        let pages = [recipe("Soup", 6, Some(25), shown), recipe("Stew", 20, None, "<p>It takes time</p>")];
        let discovery = found(&pages, None);
        let learned = discovery.attributes.into_iter().find(|learned| learned.name == "prep_time");
        learned.map(|learned| learned.paths[0].xpath.clone())
    };
    assert_eq!(of(prep).as_deref(), Some("//text()[normalize-space()='Prep']/following-sibling::b[1]"));
    assert_eq!(of(&prep.replace("Prep", "Wait")), None);
}

#[test]
fn what_one_page_of_four_tells_wrongly_counts_once() {
    let page = |name: &str, told: &str, shown: &str| {
        format!(
            r#"<script type="application/ld+json">{{"@type":"Article","headline":"{name}","articleSection":"{told}"}}</script>
            <h1>{name}</h1><ul><li class=topic>{shown}</ul><p>More of Bread and Soup and Fish</p>"#
        )
    };
    let pages = |wrong: &[&str]| {
        let told = [("One", "Bread"), ("Two", "Soup"), ("Three", "Fish"), ("Four", "Cake")];
        told.map(|(name, told)| {
            page(name, told, if wrong.contains(&name) { "Bread</li><li class=topic>Cake" } else { told })
        })
    };
    let has_section = |pages: &[String]| {
        found(pages, None)
            .attributes
            .iter()
            .any(|learned| learned.name == "section" && !learned.paths.is_empty())
    };
    assert!(has_section(&pages(&["Four"])));
    assert!(!has_section(&pages(&["Two", "Three", "Four"])));
}
