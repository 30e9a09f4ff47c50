//! Hostile expressions through the whole kernel: each ends in time, and what ran dry is told.

use std::time::Duration;

use page::extract::{Attribute, AttributeType, Extraction, Schema};
use page::html::Document;
use page::xpath::Fuel;

use page_oracle::clock::least_time;

/// What the issue allows in a release build, in time computed; debug builds are some twenty times
/// slower.
const HOSTILE_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20_000 } else { 500 });
const OUT_OF_FUEL: &str = "xpaths[0]: the expression takes more work on this page than is allowed (20 million units, 100 million for the page)";

/// Parsing, compiling and extracting, as a job would do it.
fn extract(page: &str, xpath: &str) -> Extraction {
    let attribute = Attribute {
        name: "a".to_owned(),
        json_paths: None,
        xpaths: vec![xpath.to_owned()],
        kind: AttributeType::TextList,
        description: None,
        anti_patterns: None,
        semantic_type: None,
        validation: None,
    };
    let schema = Schema::compile(&[attribute]).unwrap_or_else(|error| panic!("{xpath}: {error}"));
    let base = url::Url::parse("https://site.example/").expect("an address");
    schema.extract(&Document::parse(page.to_owned()), &base, &mut Fuel::for_page())
}

/// Extracts within the time, and either finds or says that the budget ended; says which.
fn survives(name: &str, page: &str, xpath: &str) -> bool {
    let (took, found) = least_time(HOSTILE_MAX, || extract(page, xpath));
    let reason = found.errors.first().map_or("", |error| error.detail.as_str());
    let shown: String = xpath.chars().take(80).collect();
    println!("{name}: {shown}: {took:?} {reason}");
    assert!(took < HOSTILE_MAX, "{name}: {shown} took {took:?}");
    let ended = reason == OUT_OF_FUEL;
    let room_ended = reason == "xpaths[0]: the values of the page are longer than 8 MB in all";
    assert!(ended || room_ended || reason.is_empty(), "{reason}");
    assert!(reason.is_empty() || found.values.is_empty(), "no value beside an ended budget");
    ended
}

#[test]
fn hostile_expressions_end_in_time_and_are_told() {
    let nested = format!("{}q", "<div>".repeat(3_000));
    let wide = "<p class=c>q<b id=i>r</b></p>".repeat(8_000);
    let tables = "<table><tr><td>1<td>2</table>".repeat(3_000);
    // Those of the issue first.
    let expressions = [
        "//*//*//*[count(//*)>1]",
        "count(//*[//*[//*[.='q']]])",
        "//*[.//*[.//*[.//*[.//zz]]]]",
        "//*[count(preceding::*)>5]",
        "//*[count(following::*)>5]",
        "//*[count(ancestor::*//*)>5]",
        "//*[following::*[following::*[following::zz]]]",
        "//*[preceding::*[preceding::*[preceding::zz]]]",
        "//*/ancestor::*/descendant::*/ancestor::*/descendant::*[last()]",
        "//node()[count(following::node()/preceding::node()/following::node())>5]",
        "//*[count(.//*[count(.//*[count(.//*)>9])>9])>9]",
        "//*[. = //*[. != //*]]",
        "//*[contains(., string(//*[last()]))]",
        "//*[translate(., 'q', 'r') = translate(string(/), 'q', 'r')]",
        "//*[string-length(normalize-space(.)) > 1][string-length(concat(., ., ., .)) > 4]",
        "//*[re:test(., '(q|r|qr)*z')]",
        "//*[re:test(string(/), '(q+r*)+z$')]",
        "re:replace(string(/), '', 'g', string(/))",
        "re:match(string(/), '.', 'g')",
        "//*[set:difference(//*, .)]",
        "//*[id('i')][lang('x')][name(//*[last()]) = 'b']",
        "//*[position() = count(//*[position() = last()])]",
        "((//*)[position() mod 2 = 1] | //*)[last()]",
        "//*[sum(//*) > 1]",
        "//*[substring(string(/), position(), 9) = substring(string(/), 1, 9)]",
        "//*[@*[. = //@*]]",
        "//text()[. = preceding::text()]",
        "//tr[td[. = //td]]/../tr[count(//tr) > 1]",
    ];
    let mut ended = 0;
    for xpath in expressions {
        for (name, page) in [("nested", &nested), ("wide", &wide), ("tables", &tables)] {
            ended += usize::from(survives(name, page, xpath));
        }
    }
    assert!(ended > 0, "some of these cannot be done within the budget");
}

#[test]
fn long_and_deep_expressions_end_in_time() {
    let page = "<p>q<b>r</b>".repeat(5_000);
    survives("unions", &page, &format!("{}//p", "//p | ".repeat(2_000)));
    survives("steps", &page, &format!("//p{}", "/../*".repeat(3_000)));
    survives("descents", &page, &format!("/{}", "/*/".repeat(3_000) + "/b"));
    survives("predicates", &page, &format!("//p{}", "[b]".repeat(4_000)));
    survives("ors", &page, &format!("//p[{}b]", "zz or ".repeat(2_000)));
    survives("nested", &page, &format!("//p{}{}", "[.//*".repeat(190), "]".repeat(190)));
    survives("absolute", &page, &format!("//p{}{}", "[//*[.='q']".repeat(90), "]".repeat(90)));
}
