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
        learned.map(|learned| (learned.paths[0].xpath.as_str(), learned.held_out_right))
    };
    assert_eq!(first("name"), Some(("//h1", 3.0)));
    assert_eq!(first("price"), Some(("//dt[normalize-space()='Our price']/following-sibling::dd[1]", 3.0)));
    assert!(first("availability").is_some_and(|(xpath, _)| xpath.contains("' stock '")));
    // The pages do not show it.
    assert_eq!(first("sku"), None);
    assert_eq!(first("currency"), None);
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
