//! Limits, budgets, hostile and broken expressions.

use super::*;

#[test]
fn limits_of_length_and_depth() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(XPath::compile(&nested(NESTING_MAX - 1)).is_ok());
    assert!(
        XPath::compile(&nested(NESTING_MAX)).unwrap_err().message.starts_with("nested more than 200 deep")
    );
    assert!(XPath::compile(&"1=".repeat(300)).is_err());
    assert!(XPath::compile(&format!("{}1", "1=".repeat(150))).is_ok());
    assert_eq!(
        XPath::compile(&"a".repeat(EXPRESSION_BYTES_MAX + 1)).unwrap_err().message,
        "expression longer than 16 KB"
    );
    let document = page("<p>1");
    let long = |unit: &str, end: &str| {
        let text = format!("{}{end}", unit.repeat((EXPRESSION_BYTES_MAX - 8) / unit.len()));
        evaluate(&document, &text)
    };
    assert_eq!(long("1+", "1"), Value::Number(((EXPRESSION_BYTES_MAX - 8) / 2) as f64 + 1.0));
    assert_eq!(long("-", "1"), Value::Number(1.0));
    assert_eq!(long("a/", "a"), Value::Nodes(Vec::new()));
    assert_eq!(long("//*/..", ""), evaluate(&document, "//*/.."));
    assert_eq!(long("1 or ", "1"), Value::Bool(true));
    assert_eq!(long("a|", "a"), Value::Nodes(Vec::new()));
    assert_eq!(long("a[b]/", "a"), Value::Nodes(Vec::new()));
    // As deep as it may be, and it really runs, on the stack of a test thread.
    let deep = format!("//p{}{}", "[../*".repeat(NESTING_MAX - 2), "]".repeat(NESTING_MAX - 2));
    assert!(matches!(evaluate(&document, &deep), Value::Nodes(_)));
    let deep = format!("{}//p{}", "string(concat('',".repeat(90), "))".repeat(90));
    assert_eq!(evaluate(&document, &deep), Value::Text("1".to_owned()));
}

#[test]
fn fuel_ends_as_an_error() {
    let document = page(&"<p>text</p>".repeat(1000));
    let xpath = XPath::compile("//p[contains(., 'x')]").unwrap();
    let mut fuel = Fuel::new(500);
    assert_eq!(xpath.evaluate(&document, Document::ROOT, &mut fuel), Err(EvalError::BudgetExceeded));
    assert_eq!(fuel.left(), 0);
    let mut fuel = Fuel::new(1_000_000);
    assert!(xpath.evaluate(&document, Document::ROOT, &mut fuel).is_ok());
    assert!(fuel.left() > 980_000 && fuel.left() < 999_000, "{}", fuel.left());
}

#[test]
fn hostile_expressions_end() {
    let nested = page(&format!("{}x", "<div>".repeat(1500)));
    let wide = page(&"<p><b>q</b> text <i>r</i></p>".repeat(2000));
    let cases = [
        "//*//*//*[count(//*)>1]",
        "count(//*[//*[//*[.='q']]])",
        "//*[.//*[.//*[.//*[.//zz]]]]",
        "//*[count(preceding::*)>5]",
        "//*[count(following::node()/preceding::node())>5]",
        "//*/ancestor::*/descendant::*/ancestor::*[last()]",
        "//*[string-length(.) > 5][contains(., //p[3])]",
        "//*[. = //*]",
        "//*[translate(., 'q', 'r') = string(//*)]",
        "//*[../*/../*/../*/../*]",
    ];
    for xpath in cases {
        for document in [&nested, &wide] {
            let mut fuel = Fuel::for_page();
            let compiled = XPath::compile(xpath).unwrap();
            let result = compiled.evaluate(document, Document::ROOT, &mut fuel);
            assert!(result.is_ok() || result == Err(EvalError::BudgetExceeded), "{xpath}");
        }
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[test]
fn broken_expressions_neither_panic_nor_run_away() {
    let seeds = [
        "//div[contains(concat(' ', normalize-space(@class), ' '), ' y ')]/p[2]//text()",
        "count(//p[position() < last() - 1] | //li/@*) * -2 div 3 = string-length('ä')",
        "re:replace(string(//b/ancestor-or-self::*[last()]), '[a-z]{2,}', 'gi', '\\1')",
        "set:difference(//*[.//b = //li], id('a b')/..)[not(self::p)][1]",
        "substring(translate(., 'abc', 'xé'), 2, 1 div 0) != lang('de') or //comment()",
    ];
    let pieces = [
        "(",
        ")",
        "[",
        "]",
        "//",
        "/",
        "@",
        "*",
        "::",
        "..",
        ".",
        "'",
        "\"",
        "|",
        "and",
        " or ",
        "-",
        "=",
        "<",
        "1e9",
        "$",
        "ä",
        "\u{0}",
        "node()",
        "self::",
        "following::",
        "preceding::*",
        "[1]",
        "[last()]",
        ",",
        "9999999999999999999999",
        "has-class('x')",
        "re:test(., '(')",
        "{2}",
    ];
    let document = page(TREE);
    let mut dice = Dice(42);
    let mut compiled = 0;
    for _ in 0..4000 {
        let mut text: Vec<char> = seeds[dice.roll(seeds.len())].chars().collect();
        for _ in 0..1 + dice.roll(3) {
            let at = dice.roll(text.len() + 1);
            match dice.roll(3) {
                0 => drop(text.drain(at..(at + dice.roll(6)).min(text.len()))),
                1 => drop(text.splice(at..at, pieces[dice.roll(pieces.len())].chars())),
                _ => {
                    let from = dice.roll(text.len() + 1).min(at);
                    let copy: Vec<char> = text[from..at].iter().copied().take(20).collect();
                    drop(text.splice(at..at, copy));
                }
            }
        }
        let text: String = text.into_iter().collect();
        match XPath::compile(&text) {
            Ok(xpath) => {
                compiled += 1;
                let _ = xpath.evaluate(&document, Document::ROOT, &mut Fuel::new(50_000));
                assert!(!xpath.explain().is_empty());
            }
            Err(error) => {
                assert!((1..=text.chars().count() + 1).contains(&error.character), "{text}: {error}")
            }
        }
    }
    assert!(compiled > 400, "{compiled} of the mutants were expressions");
}

/// What the differential test found: each element paid for all numbers of the page, whatever stood on the other side.
#[test]
fn ordered_comparison_with_a_kept_set_is_paid_once() {
    let document = page(&"<p><b>7</b><i>x</i></p>".repeat(3000));
    for (xpath, expected) in [
        ("count(//*[zz >= //node()])", 0.0),
        ("count(//*[//node() <= zz])", 0.0),
        ("count(//p[b >= //b])", 3000.0),
        ("count(//p[//b < b])", 0.0),
        ("count(//p[i > //b])", 0.0),
    ] {
        let compiled = XPath::compile(xpath).unwrap();
        let mut fuel = Fuel::new(2_000_000);
        let value = compiled.evaluate(&document, Document::ROOT, &mut fuel);
        assert_eq!(value, Ok(Value::Number(expected)), "{xpath}");
    }
}
