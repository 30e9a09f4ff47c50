//! What was read from the JSON of pages, and booleans.

use super::*;

/// What a page says, and what it said: attribute, and text as a reader gives it.
type Said<'s> = &'s [(&'s str, &'s str)];

fn by_json(name: &str, path: &str, kind: AttributeType) -> Attribute {
    Attribute { xpaths: Vec::new(), json_paths: Some(vec![path.to_owned()]), ..attribute(name, "", kind) }
}

/// Repairs from pages before and now, and what was known of them; the last of the pages now is one of which nothing is known.
fn mended(known: &[Attribute], before: &[Option<String>], now: &[String], said: &[Said<'_>]) -> Vec<Repair> {
    let base = base();
    let parse = |page: &String| Document::parse(page.clone());
    let old: Vec<Option<Document>> = before.iter().map(|page| page.as_ref().map(parse)).collect();
    let new: Vec<Document> = now.iter().map(parse).collect();
    let values = |said: &Said<'_>| -> Vec<(String, Vec<String>)> {
        said.iter().map(|(name, text)| ((*name).to_owned(), vec![(*text).to_owned()])).collect()
    };
    let visits: Vec<Visit<'_>> = said
        .iter()
        .enumerate()
        .map(|(at, said)| Visit {
            page: Page { document: &new[at], base: &base },
            before: old.get(at).and_then(Option::as_ref).map(|document| Page { document, base: &base }),
            values: values(said),
        })
        .collect();
    let others: Vec<Page<'_>> =
        new[said.len()..].iter().map(|document| Page { document, base: &base }).collect();
    repair(known, &visits, &others, &mut Fuel::new(crate::LESSON_FUEL_MAX))
}

/// What a repaired attribute gives on a page.
fn given(attribute: &Attribute, repair: &Repair, page: &str) -> Option<String> {
    let paths = repair.outcome.as_ref()?.as_ref().ok()?;
    let own = Attribute {
        xpaths: paths.iter().map(|path| path.xpath.clone()).collect(),
        json_paths: Some(repair.json_paths.clone()),
        ..attribute.clone()
    };
    let found = Schema::compile(&[own]).ok()?.extract(
        &Document::parse(page.to_owned()),
        &base(),
        &mut Fuel::for_page(),
    );
    found.values.get(&repair.name).map(|value| value.to_string())
}

fn goods() -> Vec<Attribute> {
    vec![
        by_json("name", "__NEXT_DATA__$.props.product.name", AttributeType::Text),
        by_json("price", "__NEXT_DATA__$.props.product.price", AttributeType::Number),
        by_json("maker", "ld+json$.brand.name", AttributeType::Text),
    ]
}

fn data_before(name: &str, price: &str, maker: &str) -> String {
    format!(
        r#"<script type="application/ld+json">{{"@type":"Product","brand":{{"name":"{maker}"}}}}</script>
        <script type="application/json" id="__NEXT_DATA__">{{"props":{{"product":{{"name":"{name}","price":{price}}}}}}}</script>"#
    )
}

/// Keys that were renamed, JSON that was moved to another script, and a page around it that says none of it.
fn data_now(name: &str, price: &str, maker: &str) -> String {
    format!(
        r#"<h1>Shop</h1><script type="application/ld+json">{{"@graph":[{{"@type":"WebSite","name":"The shop"}},
        {{"@type":"Product","manufacturer":{{"name":"{maker}"}}}}]}}</script>
        <script>window.__STATE__ = {{"shop":{{"name":"The shop"}},"item":{{"title":"{name}","related":[{{"price":9.99}}],
        "offer":{{"price":"{price}","was":300.5}}}}}};</script>"#
    )
}

fn known_goods() -> Vec<[(&'static str, &'static str); 3]> {
    GOODS.iter().map(|(name, price, maker)| [("name", *name), ("price", *price), ("maker", *maker)]).collect()
}

fn mended_goods(visits: usize, now: fn(&str, &str, &str) -> String) -> Vec<Repair> {
    let known = known_goods();
    let said: Vec<Said<'_>> = known[..visits].iter().map(<[_; 3]>::as_slice).collect();
    let now: Vec<String> = GOODS.iter().map(|(n, p, m)| now(n, p, m)).collect();
    mended(&goods(), &[], &now, &said)
}

#[test]
fn json_with_other_keys_is_read_by_other_json_paths() {
    for visits in [2, 4] {
        let repairs = mended_goods(visits, data_now);
        assert!(repairs.iter().all(|repair| repair.verdict == Verdict::Broken), "{repairs:?}");
        let page = data_now("Spokeshave", "77.70", "Clifton");
        let given: Vec<_> =
            goods().iter().zip(&repairs).map(|(own, repair)| given(own, repair, &page)).collect();
        let right = ["\"Spokeshave\"", "77.7", "\"Clifton\""].map(|text| Some(text.to_owned()));
        assert_eq!(given, right, "{visits} visits: {repairs:?}");
        assert!(repairs.iter().all(|repair| repair.outcome == Some(Ok(Vec::new()))), "{repairs:?}");
    }
}

#[test]
fn json_that_still_answers_is_left_alone_and_another_value_is_no_break() {
    let repairs = mended_goods(4, data_before);
    assert!(repairs.iter().all(|repair| repair.verdict == Verdict::Right && repair.json_paths.is_empty()));
    // The old price stands on the page of another thing, too.
    let dearer = mended_goods(4, |name, price, maker| {
        format!("{}<p>was {price}</p>", data_before(name, "250.25", maker))
    });
    assert!(dearer.iter().all(|repair| repair.verdict == Verdict::Right), "{dearer:?}");
}

#[test]
fn where_json_is_gone_what_the_page_shows_is_read() {
    let repairs = mended_goods(4, after);
    let page = after("Spokeshave", "77.70", "Clifton");
    let given: Vec<_> = goods().iter().zip(&repairs).map(|(own, repair)| given(own, repair, &page)).collect();
    assert_eq!(given, ["\"Spokeshave\"", "77.7", "\"Clifton\""].map(|text| Some(text.to_owned())));
    assert!(repairs.iter().all(|repair| repair.json_paths.is_empty()), "{repairs:?}");
}

#[test]
fn what_has_both_is_mended_by_what_there_is() {
    let both: Vec<Attribute> = attributes()
        .into_iter()
        .zip(goods())
        .map(|(own, by)| Attribute { xpaths: own.xpaths, ..by })
        .collect();
    let known = known_goods();
    let said: Vec<Said<'_>> = known[..4].iter().map(<[_; 3]>::as_slice).collect();
    let pages = |now: fn(&str, &str, &str) -> String| -> Vec<String> {
        GOODS.iter().map(|(n, p, m)| now(n, p, m)).collect()
    };
    // The page shows it elsewhere, and its JSON is another.
    let repairs = mended(&both, &[], &pages(|n, p, m| after(n, p, m) + &data_now(n, p, m)), &said);
    let is_both = |repair: &Repair| {
        matches!(&repair.outcome, Some(Ok(paths)) if !paths.is_empty()) && !repair.json_paths.is_empty()
    };
    assert!(repairs.iter().all(is_both), "{repairs:?}");
    // What the JSON still says is right, whatever the page shows.
    let repairs = mended(
        &both,
        &[],
        &pages(|n, p, m| after(n, p, m).replace("<h1>The shop</h1>", "") + &data_before(n, p, m)),
        &said,
    );
    assert!(repairs.iter().all(|repair| repair.verdict == Verdict::Right), "{repairs:?}");
}

#[test]
fn lists_are_found_in_json() {
    let known = [by_json("steps", "ld+json$.recipeInstructions[*]", AttributeType::TextList)];
    let page = |steps: [&str; 3]| {
        let members: Vec<String> = steps.iter().map(|step| format!(r#"{{"text":"{step}"}}"#)).collect();
        format!(
            r#"<script type="application/ld+json">{{"name":"x","instructions":[{}]}}</script>"#,
            members.join(",")
        )
    };
    let steps = [
        ["Peel them", "Boil for an hour", "Serve with cream"],
        ["Chop the onions", "Fry in butter", "Add the stock"],
        ["Soak the beans", "Drain the beans", "Bake until brown"],
    ];
    let base = base();
    let new: Vec<Document> = steps.iter().map(|steps| Document::parse(page(*steps))).collect();
    let visits: Vec<Visit<'_>> = new
        .iter()
        .zip(steps)
        .map(|(document, steps)| Visit {
            page: Page { document, base: &base },
            before: None,
            values: vec![("steps".to_owned(), steps.map(str::to_owned).to_vec())],
        })
        .collect();
    let repairs = repair(&known, &visits, &[], &mut Fuel::new(crate::LESSON_FUEL_MAX));
    assert_eq!(repairs[0].json_paths, ["ld+json$.instructions[*].text"], "{repairs:?}");
}

#[test]
fn what_could_be_anybodys_in_json_is_refused() {
    let known = [by_json("size", "__S__$.a.size", AttributeType::Number)];
    let page = r#"<script>var __S__ = {"b":[4,2,4],"c":{"d":4,"e":4}}</script>"#.to_owned();
    let repairs = mended(&known, &[], &[page], &[&[("size", "4")]]);
    assert_eq!(repairs[0].outcome, Some(Err(Refusal::TooLittleEvidence)));
    assert!(repairs[0].json_paths.is_empty());
}

#[test]
fn json_paths_that_do_not_hold_on_other_visits_are_refused() {
    let known = [by_json("name", "__S__$.old", AttributeType::Text)];
    // Each page has it by a name of its own.
    let page = |key: &str, name: &str| format!(r#"<script>var __S__ = {{"{key}":"{name}"}}</script>"#);
    let now: Vec<String> =
        GOODS.iter().zip(["a", "b", "c", "d"]).map(|((name, ..), key)| page(key, name)).collect();
    let said: Vec<[(&str, &str); 1]> = GOODS[..4].iter().map(|(name, ..)| [("name", *name)]).collect();
    let said: Vec<Said<'_>> = said.iter().map(<[_; 1]>::as_slice).collect();
    let repairs = mended(&known, &[], &now, &said);
    assert_eq!(repairs[0].outcome, Some(Err(Refusal::NoAgreement)));
}

#[test]
fn two_attributes_do_not_end_at_one_place_of_json() {
    let known = ["prep", "cook"].map(|name| by_json(name, &format!("ld+json$.{name}"), AttributeType::Text));
    let times = ["20 minutes", "35 minutes", "15 minutes"];
    let now: Vec<String> = times
        .iter()
        .map(|time| format!(r#"<script type="application/ld+json">{{"total":"{time}"}}</script>"#))
        .collect();
    let said: Vec<[(&str, &str); 2]> = times.iter().map(|time| [("prep", *time), ("cook", *time)]).collect();
    let said: Vec<Said<'_>> = said.iter().map(<[_; 2]>::as_slice).collect();
    let repairs = mended(&known, &[], &now, &said);
    assert!(repairs.iter().all(|repair| repair.outcome == Some(Err(Refusal::Ambiguous))), "{repairs:?}");
    assert!(repairs.iter().all(|repair| repair.json_paths.is_empty()), "{repairs:?}");
}

/// Whether four things can be had: two can and two cannot.
const STOCK: [&str; 4] = ["true", "false", "true", "false"];

fn shown(stock: &str) -> &'static str {
    if stock == "true" { "In stock" } else { "Sold out" }
}

fn stock_before(stock: &str) -> String {
    format!("<p class=availability>{}</p>", shown(stock))
}

fn stock_now(at: usize, stock: &str) -> String {
    format!(
        "<h1>Thing {at}</h1><div class=buy><i class='stock-line'>{}</i><p>In the shop</p></div>",
        shown(stock)
    )
}

fn mended_stock(stock: [&str; 4], is_kept: bool) -> Repair {
    let known = [attribute("in_stock", "//p[@class='availability']", AttributeType::Boolean)];
    let before = stock.map(|stock| is_kept.then(|| stock_before(stock)));
    let mut now: Vec<String> = stock.iter().enumerate().map(|(at, stock)| stock_now(at, stock)).collect();
    now.push(stock_now(9, "false"));
    let said = stock.map(|stock| [("in_stock", stock)]);
    let said: Vec<Said<'_>> = said.iter().map(<[_; 1]>::as_slice).collect();
    mended(&known, &before, &now, &said).remove(0)
}

#[test]
fn a_boolean_is_found_by_the_texts_that_said_it() {
    let repair = mended_stock(STOCK, true);
    assert_eq!(repair.verdict, Verdict::Broken);
    let own = attribute("in_stock", "//x", AttributeType::Boolean);
    for stock in ["true", "false"] {
        assert_eq!(given(&own, &repair, &stock_now(7, stock)).as_deref(), Some(stock), "{repair:?}");
    }
}

#[test]
fn a_boolean_of_which_too_little_is_known_is_refused() {
    let refused = Some(Err(Refusal::TooLittleEvidence));
    assert_eq!(mended_stock(STOCK, false).outcome, refused);
    assert_eq!(mended_stock(["true"; 4], true).outcome, refused);
}

#[test]
fn a_boolean_that_still_answers_is_left_alone() {
    let known = [attribute("in_stock", "//p[@class='availability']", AttributeType::Boolean)];
    let before = STOCK.map(|stock| Some(stock_before(stock)));
    let said = STOCK.map(|stock| [("in_stock", stock)]);
    let said: Vec<Said<'_>> = said.iter().map(<[_; 1]>::as_slice).collect();
    // In other words, and sold out meanwhile.
    for texts in [["Available", "Unavailable"], ["Sold out", "Sold out"]] {
        let page =
            |stock: &str| stock_before(stock).replace(shown(stock), texts[usize::from(stock == "false")]);
        let now = STOCK.map(page);
        let repairs = mended(&known, &before, &now, &said);
        assert_eq!((repairs[0].verdict, &repairs[0].outcome), (Verdict::Right, &None), "{texts:?}");
    }
}

#[test]
fn a_boolean_of_json_is_found_under_its_old_name() {
    let known = [by_json("in_stock", "__S__$.product.inStock", AttributeType::Boolean)];
    let page = |key: &str, stock: &str| {
        format!(r#"<script>var __S__ = {{"{key}":{{"inStock":{stock},"isNew":{stock}}}}}</script>"#)
    };
    let before = STOCK.map(|stock| Some(page("product", stock)));
    let now = STOCK.map(|stock| page("item", stock));
    let said = STOCK.map(|stock| [("in_stock", stock)]);
    let said: Vec<Said<'_>> = said.iter().map(<[_; 1]>::as_slice).collect();
    let repairs = mended(&known, &before, &now, &said);
    assert_eq!(repairs[0].json_paths, ["__S__$.item.inStock"], "{repairs:?}");
    // Under another name it may be anything that is true or false.
    let now = STOCK.map(|stock| page("item", stock).replace("inStock", "flag"));
    let repairs = mended(&known, &before, &now, &said);
    assert!(matches!(repairs[0].outcome, Some(Err(_))), "{repairs:?}");
}

#[test]
fn hostile_json_ends_within_the_budget() {
    let known = [by_json("name", "__S__$.old", AttributeType::Text)];
    let wide = format!("<script>__S__ = [{}1]</script>", r#"{"a":"Smoothing plane"},"#.repeat(60_000));
    let deep = format!("<script>__S__ = {}1</script>", r#"{"a":"#.repeat(200_000));
    let assigned = format!("<script>{}</script>", "__S__={\n'x\n".repeat(100_000));
    for page in [wide, deep, assigned] {
        let pages = [page.clone(), page];
        let start = std::time::Instant::now();
        let repairs = mended(&known, &[], &pages, &[&[("name", "Smoothing plane")]]);
        assert_eq!(repairs.len(), 1);
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
    }
}
