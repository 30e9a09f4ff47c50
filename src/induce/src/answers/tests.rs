use super::*;

fn read(html: &str) -> Answers {
    answers(&Document::parse(html.to_owned()), None)
}

fn values(answers: &Answers, name: &str) -> Vec<String> {
    let label = answers.labels.iter().find(|label| label.name == name);
    label.map(|label| label.values.clone()).unwrap_or_default()
}

#[test]
fn linked_data_is_read() {
    let page = r#"<script type="application/ld+json; charset=utf-8">
        {"@context":"https://schema.org","@graph":[
          {"@type":"WebSite","name":"Shop"},
          {"@type":["Product","Thing"],"name":"Plane
 No. 4","brand":{"@type":"Brand","name":"Ostrander"},
           "image":[{"@type":"ImageObject","url":"https://a.example/1.jpg"}],
           "offers":[{"@type":"Offer","price":189.5,"priceCurrency":"EUR","availability":"https://schema.org/InStock"}],
           "aggregateRating":{"@id":"r:1"}},
          {"@id":"r:1","@type":"AggregateRating","ratingValue":"4.5","reviewCount":12}
        ]};</script>"#;
    let found = read(page);
    assert_eq!(found.kind, Some(Kind::Product));
    for (name, value) in [
        ("price", "189.5"),
        ("currency", "EUR"),
        ("availability", "InStock"),
        ("brand", "Ostrander"),
        ("rating", "4.5"),
        ("review_count", "12"),
        ("image_url", "https://a.example/1.jpg"),
    ] {
        assert_eq!(values(&found, name), [value], "{name}");
    }
}

#[test]
fn marked_elements_are_read() {
    let page = |scope: &str, of: &str| {
        format!(
            "<div {scope}><h1 {of}='name'>Plane</h1><div {of}='offers' {}><b {of}='price'>9.90</b>\
             <meta {of}='priceCurrency' content=USD></div><img {of}='image' src=/p.jpg></div>",
            scope.replace("Product", "Offer")
        )
    };
    for (scope, of) in [
        ("itemscope itemtype='https://schema.org/Product'", "itemprop"),
        ("typeof='schema:Product'", "property"),
    ] {
        let found = read(&page(scope, of));
        assert_eq!(found.kind, Some(Kind::Product), "{scope}");
        assert_eq!(values(&found, "name"), ["Plane"]);
        assert_eq!(values(&found, "price"), ["9.90"]);
        assert_eq!(values(&found, "currency"), ["USD"]);
        assert_eq!(values(&found, "image_url"), ["/p.jpg"]);
    }
}

#[test]
fn metas_say_what_is_left_out() {
    let found = read(
        "<meta property='og:type' content='article'><meta property='og:title' content='News'>\
         <meta property='article:tag' content='a'><meta property='article:tag' content='b'>\
         <meta name='author' content='Ann'>",
    );
    assert_eq!(found.kind, Some(Kind::Article));
    assert_eq!(values(&found, "headline"), ["News"]);
    assert_eq!(values(&found, "tags"), ["a", "b"]);
    assert_eq!(values(&found, "author"), ["Ann"]);
    assert_eq!(read("<meta property='og:type' content='website'>"), Answers::default());
}

#[test]
fn a_page_that_lists_products_is_about_none_of_them() {
    let product = |name: &str| format!(r#"{{"@type":"Product","name":"{name}","sku":"{name}1"}}"#);
    let page = |title: &str| {
        format!(
            "<title>{title}</title><script type='application/ld+json'>[{},{}]</script>",
            product("Plane"),
            product("Chisel")
        )
    };
    assert_eq!(read(&page("All tools")).kind, None);
    let named = read(&page("Chisel | Shop"));
    assert_eq!((named.kind, values(&named, "name")), (Some(Kind::Product), vec!["Chisel".to_owned()]));
    // What another item says is no page's subject where one stands alone.
    let related = r#"<script type="application/ld+json">{"@type":"Recipe","name":"Soup","recipeYield":4,
        "review":{"@type":"Review","itemReviewed":{"@type":"Recipe","name":"Other","recipeYield":1}}}</script>"#;
    assert_eq!(values(&read(related), "yield"), ["4"]);
}

#[test]
fn broken_and_deep_blocks_are_no_answers() {
    let deep = format!("<script type='application/ld+json'>{}</script>", "[".repeat(200_000));
    let chain = format!(
        "<script type='application/ld+json'>{}1{}</script>",
        r#"{"@type":"Product","name":"#.repeat(100),
        "}".repeat(100)
    );
    for page in [deep.as_str(), chain.as_str(), "<script type='application/ld+json'>{\"@type\":</script>", ""]
    {
        assert_eq!(values(&read(page), "price"), Vec::<String>::new());
    }
}
