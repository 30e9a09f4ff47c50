use super::*;
use page::extract::{AttributeType, Schema};
use page::html::Document;
use url::Url;

fn base() -> Url {
    Url::parse("https://shop.example/p/1").unwrap()
}

fn attribute(name: &str, xpath: &str, kind: AttributeType) -> Attribute {
    Attribute {
        name: name.to_owned(),
        xpaths: vec![xpath.to_owned()],
        json_paths: None,
        kind,
        description: None,
        anti_patterns: None,
        semantic_type: None,
        validation: None,
    }
}

fn attributes() -> Vec<Attribute> {
    vec![
        attribute("name", "//h1", AttributeType::Text),
        attribute("price", "//span[@class='price']", AttributeType::Number),
        attribute("maker", "//p[@class='maker']/a", AttributeType::Text),
    ]
}

const GOODS: [(&str, &str, &str); 5] = [
    ("Smoothing plane", "189.50", "Veritas Tools"),
    ("Dovetail saw", "61.20", "Lynx Garlick"),
    ("Bench vice", "212.90", "Record Power"),
    ("Marking gauge", "44.10", "Veritas Tools"),
    ("Paring chisel", "38.75", "Two Cherries"),
];

fn before(name: &str, price: &str, maker: &str) -> String {
    format!(
        "<body><h1>{name}</h1><span class=price>$ {price}</span><p class=maker>by <a href=/m>{maker}</a></p></body>"
    )
}

fn after(name: &str, price: &str, maker: &str) -> String {
    format!(
        "<body><h1>The shop</h1><main><h2 class=product-title>{name}</h2><dl class=facts><dt>Maker</dt><dd>{maker}</dd>\
         <dt>Price</dt><dd><b class=amount>$ {price}</b></dd></dl></main><aside><b>$ 9.99</b></aside></body>"
    )
}

/// Repairs from the first `visits` goods; the others are pages of which nothing is known.
fn repaired(visits: usize, after: impl Fn(&str, &str, &str) -> String) -> Vec<Repair> {
    let base = base();
    let old: Vec<Document> = GOODS.iter().map(|(n, p, m)| Document::parse(before(n, p, m))).collect();
    let new: Vec<Document> = GOODS.iter().map(|(n, p, m)| Document::parse(after(n, p, m))).collect();
    let told: Vec<Visit<'_>> = (0..visits)
        .map(|at| Visit {
            page: Page { document: &new[at], base: &base },
            before: Some(Page { document: &old[at], base: &base }),
            values: [("name", GOODS[at].0), ("price", GOODS[at].1), ("maker", GOODS[at].2)]
                .map(|(name, text)| (name.to_owned(), vec![text.to_owned()]))
                .to_vec(),
        })
        .collect();
    let others: Vec<Page<'_>> = new[visits..].iter().map(|document| Page { document, base: &base }).collect();
    repair(&attributes(), &told, &others, &mut Fuel::new(crate::LESSON_FUEL_MAX))
}

fn values(repair: &Repair, page: &str) -> Option<String> {
    let paths = repair.outcome.as_ref()?.as_ref().ok()?;
    let mut own = attributes().into_iter().find(|own| own.name == repair.name)?;
    own.xpaths = paths.iter().map(|path| path.xpath.clone()).collect();
    let found = Schema::compile(&[own]).ok()?.extract(
        &Document::parse(page.to_owned()),
        &base(),
        &mut Fuel::for_page(),
    );
    found.values.get(&repair.name).map(|value| value.to_string())
}

#[test]
fn what_moved_is_found_again_and_holds_on_pages_that_nothing_was_known_of() {
    for visits in [2, 3, 4] {
        let repairs = repaired(visits, after);
        assert!(repairs.iter().all(|repair| repair.verdict == Verdict::Broken), "{repairs:?}");
        let page = after("Spokeshave", "77.70", "Clifton");
        let given: Vec<_> = repairs.iter().map(|repair| values(repair, &page)).collect();
        let right = ["\"Spokeshave\"", "77.7", "\"Clifton\""].map(|text| Some(text.to_owned()));
        assert_eq!(given, right, "{visits} visits: {repairs:?}");
    }
}

#[test]
fn what_still_answers_is_left_alone() {
    let repairs = repaired(4, before);
    assert!(repairs.iter().all(|repair| repair.verdict == Verdict::Right && repair.outcome.is_none()));
    // A value that changed is no break.
    let dearer = repaired(4, |name, _, maker| before(name, "11.00", maker));
    assert!(dearer.iter().all(|repair| repair.verdict == Verdict::Right), "{dearer:?}");
}

#[test]
fn a_value_that_is_gone_is_absent_and_another_page_is_another_page() {
    let gone = repaired(4, |name, price, _| before(name, price, "").replace("<a href=/m></a>", ""));
    assert_eq!((gone[0].verdict, gone[2].verdict), (Verdict::Right, Verdict::Absent));
    let notice = repaired(4, |_, _, _| "<h1>Please verify that you are human</h1>".to_owned());
    assert!(notice.iter().all(|repair| repair.verdict == Verdict::OtherPage), "{notice:?}");
    assert!(notice.iter().all(|repair| repair.outcome.is_none()));
}

#[test]
fn what_could_be_anybodys_is_refused() {
    let base = base();
    // One URL, whose only known value is a digit that stands everywhere.
    let new = Document::parse("<ul><li>4<li>2<li>4</ul><p>4</p><i>4</i>".to_owned());
    let visit = Visit {
        page: Page { document: &new, base: &base },
        before: None,
        values: vec![("price".to_owned(), vec!["4".to_owned()])],
    };
    let known = [attribute("price", "//span", AttributeType::Number)];
    let repairs = repair(&known, &[visit], &[], &mut Fuel::new(crate::LESSON_FUEL_MAX));
    assert_eq!(repairs[0].outcome, Some(Err(Refusal::TooLittleEvidence)));
}

#[test]
fn two_attributes_do_not_end_at_one_place() {
    let base = base();
    let pages: Vec<Document> = ["20 minutes", "35 minutes", "15 minutes"]
        .iter()
        .map(|time| Document::parse(format!("<h1>Soup</h1><div class=total>{time}</div>")))
        .collect();
    let visits: Vec<Visit<'_>> = pages
        .iter()
        .zip(["20 minutes", "35 minutes", "15 minutes"])
        .map(|(document, time)| Visit {
            page: Page { document, base: &base },
            before: None,
            values: ["prep", "cook"].map(|name| (name.to_owned(), vec![time.to_owned()])).to_vec(),
        })
        .collect();
    let known =
        ["prep", "cook"].map(|name| attribute(name, &format!("//i[@class='{name}']"), AttributeType::Text));
    let repairs = repair(&known, &visits, &[], &mut Fuel::new(crate::LESSON_FUEL_MAX));
    assert!(repairs.iter().all(|repair| repair.outcome == Some(Err(Refusal::Ambiguous))), "{repairs:?}");
}

#[test]
fn what_is_unsupported_is_said_to_be() {
    let base = base();
    let new = Document::parse("<p>Smoothing plane</p>".to_owned());
    let visit = Visit {
        page: Page { document: &new, base: &base },
        before: None,
        values: vec![("name".to_owned(), vec!["Smoothing plane".to_owned()])],
    };
    // A schema of before may have what does not compile any more, and then nothing reads the attribute.
    let known = [attribute("name", "//h1[", AttributeType::Text)];
    let repairs = repair(&known, &[visit], &[], &mut Fuel::new(crate::LESSON_FUEL_MAX));
    assert!(matches!(repairs[0].outcome, Some(Err(Refusal::Unsupported))), "{repairs:?}");
}

#[test]
fn hostile_pages_end_within_the_budget() {
    let base = base();
    let deep = Document::parse("<div class='a b'>".repeat(200_000) + "Smoothing plane");
    let wide = Document::parse("<p class=x>Smoothing plane</p>".repeat(100_000));
    for document in [&deep, &wide] {
        let visit = |before| Visit {
            page: Page { document, base: &base },
            before,
            values: vec![("name".to_owned(), vec!["Smoothing plane".to_owned()])],
        };
        let visits = [visit(None), visit(Some(Page { document, base: &base }))];
        let mut fuel = Fuel::new(50_000_000);
        let known = [attribute("name", "//h1", AttributeType::Text)];
        let repairs = repair(&known, &visits, &[Page { document, base: &base }], &mut fuel);
        assert_eq!(repairs.len(), 1);
    }
}

mod data;
