use super::*;
use serde_json::json;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A page whose price fell from 100 to 90, which is in stock again, and more.
fn page() -> (Map<String, Value>, Map<String, Value>, Vec<Change>) {
    let values = object(json!({
        "price": 90, "title": "Blue running shoe", "brand": "Acme", "availability": "in_stock",
        "stock": 0, "rating": "4.5", "weight": "1500 g", "disk": "2 TB", "sizes": [41, 42, 43],
        "colors": ["red", "blue"], "sale": true, "used": false, "note": null, "empty": "", "reviews": 12,
        "list price": 120, "date": "2026-11-23", "offer": {"price": 1}, "discount": 10, "views": 30,
        "größe": "XL", "debt": -50, "long": "x".repeat(100_000),
    }));
    let event = object(json!({
        "kind": "result.changed", "domain": "shop.example", "pageType": "product", "tags": ["shoes", "de"],
    }));
    let change =
        |name: &str, from: Option<Value>, to: Value| Change { name: name.to_owned(), from, to: Some(to) };
    let changes = vec![
        change("price", Some(json!(100)), json!(90)),
        change("availability", Some(json!("out_of_stock")), json!("in_stock")),
        change("sizes", Some(json!([41])), json!([41, 42, 43])),
        change("discount", Some(Value::Null), json!(10)),
        change("views", Some(json!(0)), json!(30)),
        change("debt", Some(json!(-100)), json!(-50)),
        change("long", None, json!("omitted")),
    ];
    (values, event, changes)
}

fn ask(text: &str) -> Answer {
    let (values, event, changes) = page();
    let facts = Facts { values: &values, event: &event, changes: &changes, has_previous: true };
    Condition::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}")).ask(&facts)
}

const YES: &[&str] = &[
    // What people ask for.
    "price < 100 and changed(price)",
    r#"availability == "in_stock" and was("out_of_stock")"#,
    r#"availability == "in_stock" and was(availability, "out_of_stock")"#,
    "drop(price) > 9%",
    "drop(price) >= 10%",
    "drop(price) == 10",
    "price < before(price)",
    "price <= 90% * before(price)",
    r#"matches(title, "(?i)RUNNING\s+shoe")"#,
    r#"contains(title, "running")"#,
    r#"title contains "Blue" and title not contains "blue""#,
    // Numbers.
    "price == 90",
    "price == 90.0",
    "price != 91",
    "price > 89.99",
    "price >= 90 and price <= 90",
    "90 == price",
    "price == 9e1",
    "price * 2 == 180",
    "price + 10 == 100",
    "price - 100 == -10",
    "price / 3 == 30",
    "2 + 3 * 4 == 14",
    "(2 + 3) * 4 == 20",
    "10 - 4 - 3 == 3",
    "-price == -90",
    "- -price == 90",
    "abs(price - 100) == 10",
    "min(price, 5) == 5",
    "max(price, 5) == 90",
    "round(4.5) == 5",
    "`list price` - price > 25",
    "stock == 0",
    "not stock > 0",
    "price in [80, 90]",
    "price not in [1, 2]",
    ".5 < 1",
    // A text that is a number.
    "rating == 4.5",
    "rating > 4",
    "4 < rating",
    "rating * 2 == 9",
    r#"rating == "4.5""#,
    // Percentages.
    "price < 100%*100",
    "50% * price == 45",
    "price / 50% == 180",
    "drop(price) < 11%",
    "10% <= drop(price)",
    "rise(price) < 0",
    "rise(price) < 0%",
    "change(price) == 10",
    "change(price) == 10%",
    "drop(debt) < 0%",
    "rise(debt) == 50%",
    "rise(reviews) == 0",
    "drop(reviews) == 0%",
    "rise(views) == 30",
    "-5% < drop(price)",
    // Units.
    "weight < 2 kg",
    "weight == 1.5kg",
    "weight == 1500 g",
    "2 kg > weight",
    "weight > 3 lb",
    "disk >= 1.5 TB",
    "disk > 1 TiB",
    "1 km == 1000 m",
    "1 h + 30 min == 90 min",
    "2 * 500 ml == 1 l",
    "1 kg / 250 g == 4",
    "1 kg != 1 lb",
    "-1 m < 1 cm",
    // Texts.
    r#"brand == "Acme""#,
    "brand == 'Acme'",
    r#"brand != "acme""#,
    r#"lower(brand) == "acme""#,
    r#"starts_with(title, "Blue")"#,
    r#"ends_with(title, "shoe")"#,
    "count(title) == 17",
    r#"date > "2026-01-01""#,
    r#"empty == "" and count(empty) == 0"#,
    r#"`größe` == "XL" and größe == "XL""#,
    r#"brand in ["Acme", "Umbrella"]"#,
    r#"title contains "running" and not (title contains "refurbished")"#,
    r#"matches(title, "^Blue") and not matches(title, "^Red")"#,
    r#"brand == "A\cme" or brand == "Acme""#,
    // Lists.
    r#"colors contains "red""#,
    r#"contains(colors, "blue")"#,
    r#""red" in colors"#,
    "sizes contains 42",
    r#"colors == ["red", "blue"]"#,
    r#"colors != ["blue", "red"]"#,
    "count(sizes) == 3",
    "count(sizes) > count(colors)",
    "44 not in sizes",
    r#"colors not contains "green""#,
    "count([]) == 0",
    "before(sizes) == [41]",
    // Truth.
    "sale",
    "not used",
    "sale == true",
    "used == false",
    "sale != used",
    "true",
    "sale and not used or false",
    "false or true and true",
    "not (used or used)",
    "(price < 1) == false",
    // Missing values.
    "missing(note)",
    "missing(nothing)",
    "has(price)",
    "has(empty)",
    "not has(note)",
    "has(offer)",
    "nothing == 1 or sale",
    "sale or nothing == 1",
    "missing(nothing) and price < 100",
    "has(discount) and changed(discount)",
    "not (nothing == 1 and used)",
    // Changes.
    "changed()",
    "changed(price)",
    "not changed(title)",
    "changed(long)",
    "changed(`availability`)",
    "was(100)",
    "was(price, 100)",
    r#"was(brand, "Acme")"#,
    "before(price) == 100",
    r#"before(brand) == brand"#,
    "before(price) - price == 10",
    "not was(price, 90)",
    // The event itself.
    r#"$kind == "result.changed""#,
    r#"$domain == "shop.example""#,
    r#"$tags contains "shoes""#,
    r#"$pageType == "product" and price < 100"#,
    "missing($error)",
];

const NO: &[&str] = &[
    "price > 100",
    "price < 90",
    "not sale",
    "drop(price) > 10%",
    "drop(price) > 10",
    "rise(price) > 0%",
    "changed(title)",
    "changed(nothing)",
    "was(price, 90)",
    "brand == \"acme\"",
    "price in []",
    "price in [1, 2, 3]",
    "sizes contains 44",
    "nothing == 1 and used",
    "used and nothing == 1",
    "missing(price)",
    "has(nothing)",
    "weight > 2 kg",
    "disk < 1 TB",
    "matches(title, \"^shoe\")",
    "colors == [\"red\"]",
    "false",
    "1 == 2",
    "title contains \"Running\"",
];

const UNKNOWN: &[&str] = &[
    "nothing == 1",
    "nothing != 1",
    "not nothing == 1",
    "nothing",
    "note == \"\"",
    "nothing < 1 or used",
    "nothing == 1 and sale",
    "title > 5",
    "title == 5",
    "brand",
    "price",
    "sale > 0",
    "sale == 1",
    "colors == \"red\"",
    "offer == 1",
    "price / 0 == 1",
    "price / (price - 90) > 1",
    "price < 1 kg",
    "weight < 5",
    "weight < 1 m",
    "drop(nothing) > 1%",
    "drop(title) > 1%",
    "drop(discount) > 1%",
    "rise(views) > 10%",
    "before(discount) == 1",
    "before(long) == \"x\"",
    "was(long, \"x\")",
    "was(\"never\")",
    "nothing in [1, 2]",
    "1 in [nothing]",
    "count(price) == 2",
    "lower(price) == \"90\"",
    "matches(price, \"9\")",
    "price in brand",
    "nothing contains 1",
    "min(price, nothing) == 1",
    "abs(title) == 1",
    "-title == 1",
    "$error == \"blocked\"",
    "sizes contains nothing",
    "[nothing] == [1]",
];

#[test]
fn conditions_say_yes_no_or_that_they_do_not_know() {
    assert!(YES.len() + NO.len() + UNKNOWN.len() >= 120);
    for (texts, answer) in [(YES, Answer::Yes), (NO, Answer::No), (UNKNOWN, Answer::Unknown)] {
        for text in texts {
            assert_eq!(ask(text), answer, "{text}");
        }
    }
}

/// Each with the place of its fault, and a part of what is said of it.
const REFUSED: &[(&str, usize, &str)] = &[
    ("", 1, "empty"),
    ("   ", 1, "empty"),
    ("price <", 8, "missing"),
    ("price < < 3", 9, "< is none"),
    ("price = 3", 7, "=="),
    ("price === 3", 9, "=="),
    ("price << 3", 8, "< is none"),
    ("price < 3 4", 11, "expected"),
    ("price 3", 7, "expected"),
    ("price < 1 < 2", 11, "chain"),
    ("price < 3 &&", 11, "and"),
    ("a || b", 3, "or"),
    ("!sale", 1, "not"),
    ("sale and", 9, "missing"),
    ("and sale", 1, "and is none"),
    ("sale or or used", 9, "or is none"),
    ("not", 4, "missing"),
    ("(sale", 6, ")"),
    ("sale)", 5, "expected"),
    ("()", 2, ") is none"),
    ("price in [1, 2", 15, "]"),
    ("price in [1 2]", 13, "]"),
    ("price in [1,]", 13, "] is none"),
    ("price in 5", 10, "a list"),
    ("price in \"abc\"", 10, "a list"),
    ("title == \"abc", 10, "closed"),
    ("title == 'abc\"", 10, "closed"),
    ("`title == 1", 1, "closed"),
    ("`` == 1", 1, "character"),
    ("$ == 1", 1, "$kind"),
    ("price == null", 10, "missing(x)"),
    ("price # 3", 7, "no meaning"),
    ("price < 1.2.3", 12, "point"),
    ("price < 1e999", 9, "no number"),
    ("price < .", 9, "no number"),
    ("weight < 2 stone", 12, "no unit"),
    ("price < 100 EUR", 13, "no unit"),
    ("5", 1, "a number"),
    ("\"text\"", 1, "a text"),
    ("price + 1", 7, "a number"),
    ("drop(price)", 1, "a change"),
    ("10%", 1, "a percentage"),
    ("[1, 2]", 1, "a list"),
    ("not 5", 5, "a number"),
    ("sale and 5", 10, "a number"),
    ("sale and \"yes\"", 10, "a text"),
    ("\"a\" < 1", 5, "never compared"),
    ("1 == true", 3, "never compared"),
    ("[1] == 1", 5, "never compared"),
    ("1 kg < 1 m", 6, "never compared"),
    ("1 kg < 5", 6, "never compared"),
    ("price < 10%", 7, "percentage"),
    ("10% < 20%", 5, "percentage"),
    ("drop(price) > \"a\"", 13, "never compared"),
    ("drop(price) > rise(price)", 13, "two changes"),
    ("sale > true", 6, "no order"),
    ("sizes < [1]", 7, "no order"),
    ("\"a\" + 1 == 2", 5, "+ takes numbers"),
    ("1 kg + 1 == 2 kg", 6, "+ takes numbers"),
    ("1 kg * 1 kg == 1", 6, "* takes numbers"),
    ("true - 1 == 0", 6, "- takes numbers"),
    ("1 / 1 kg == 1", 3, "/ takes numbers"),
    ("-\"a\" == 1", 2, "a number"),
    ("fell(price) > 1", 1, "no function"),
    ("Changed(price)", 1, "no function"),
    ("changed(1)", 9, "attribute"),
    ("changed(\"price\")", 9, "attribute"),
    ("changed(a, b)", 1, "0 or 1"),
    ("changed($kind)", 9, "no before"),
    ("drop() > 1", 1, "takes 1"),
    ("drop(price + 1) > 1", 12, "attribute"),
    ("drop(a, b, c) > 1", 12, "at most 2"),
    ("was()", 1, "1 or 2"),
    ("was(1, 2)", 5, "attribute"),
    ("was([1])", 5, "list"),
    ("before(5) == 5", 8, "attribute"),
    ("missing(price < 1)", 15, "a name"),
    ("has(\"price\")", 5, "a name"),
    ("contains(title)", 1, "takes 2"),
    ("contains(5, 5)", 10, "a text or a list"),
    ("contains(\"abc\", 5)", 17, "a text"),
    ("starts_with(5, \"a\")", 13, "a text"),
    ("count(5) == 1", 7, "a text or a list"),
    ("lower(true) == \"a\"", 7, "a text"),
    ("abs(\"a\") == 1", 5, "a number"),
    ("matches(title)", 14, ","),
    ("matches(title, brand)", 16, "written out"),
    ("matches(title, \"(\")", 16, "pattern"),
    ("matches(title, \"(?=a)\")", 16, "pattern"),
    ("matches(title, \"a\\1\")", 16, "pattern"),
    ("matches(title, \"(a{1000}){1000}\")", 16, "too large"),
    ("matches(5, \"a\")", 9, "a text"),
    ("price in [[1]]", 11, "list"),
    ("price in [10%]", 11, "percentage"),
    ("drop(price) in [1]", 1, "change"),
];

#[test]
fn what_is_refused_says_where() {
    assert!(REFUSED.len() >= 60);
    for (text, position, part) in REFUSED {
        let fault = Condition::parse(text).map(drop).expect_err(text);
        assert_eq!(fault.position, *position, "{text}: {fault}");
        assert!(fault.message.contains(part), "{text}: {fault}");
    }
}

#[test]
fn every_limit_is_told_where_it_is_passed() {
    let deep = |depth: usize, open: &str, close: &str| {
        Condition::parse(&format!("{}sale{}", open.repeat(depth), close.repeat(depth)))
    };
    assert!(deep(DEPTH_MAX - 1, "(", ")").is_ok());
    assert_eq!(deep(DEPTH_MAX, "(", ")").unwrap_err().position, DEPTH_MAX + 1);
    assert!(deep(DEPTH_MAX, "not ", "").unwrap_err().message.contains("deep"));
    assert!(deep(500, "[", "]").is_err() && deep(400, "abs(", ")").is_err());
    let sum = |terms: usize| Condition::parse(&format!("1{} == 1", " + 1".repeat(terms)));
    assert!(sum(DEPTH_MAX).is_ok() && sum(DEPTH_MAX + 1).is_err());
    let list = |items: usize| Condition::parse(&format!("price in [1{}]", ",1".repeat(items - 1)));
    assert!(list(LIST_MAX).is_ok() && list(LIST_MAX + 1).is_err());
    let patterns = |count: usize| Condition::parse(&vec!["matches(title, 'a')"; count].join(" or "));
    assert!(patterns(PATTERNS_MAX).is_ok() && patterns(PATTERNS_MAX + 1).is_err());
    let text = format!("title == '{}'", "ä".repeat(TEXT_CHARS_MAX - 11));
    assert!(Condition::parse(&text).is_ok());
    assert_eq!(Condition::parse(&format!("{text} ")).unwrap_err().position, TEXT_CHARS_MAX + 1);
}

#[test]
fn an_evaluation_that_takes_too_long_does_not_know() {
    let long = format!("({})", ["matches(long, 'y$')"; PATTERNS_MAX].join(" or "));
    assert_eq!(ask(&long), Answer::No, "eight times 100,000 bytes are well within the fuel");
    let many = ["long contains 'y'"; 80].join(" or ");
    assert_eq!(ask(&many), Answer::Unknown);
    let (mut values, event, changes) = page();
    values.insert("many".to_owned(), Value::Array(vec![json!(1); 200_000]));
    let facts = Facts { values: &values, event: &event, changes: &changes, has_previous: true };
    assert_eq!(Condition::parse("many contains 2").unwrap().ask(&facts), Answer::Unknown);
    assert_eq!(Condition::parse("many contains 1").unwrap().ask(&facts), Answer::Yes);
}

#[test]
fn without_a_previous_result_nothing_was() {
    let (values, event, _) = page();
    let facts = Facts { values: &values, event: &event, changes: &[], has_previous: false };
    let ask = |text: &str| Condition::parse(text).unwrap().ask(&facts);
    assert_eq!((ask("changed()"), ask("changed(price)")), (Answer::No, Answer::No));
    assert_eq!((ask("before(price) == 90"), ask("drop(price) > 1%")), (Answer::Unknown, Answer::Unknown));
    assert_eq!((ask("was(90)"), ask("was(price, 90)")), (Answer::No, Answer::Unknown));
}

/// A generator of its own, so that every run asks the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn no_text_panics_and_every_fault_is_within_it() {
    let all: Vec<&str> =
        [YES, NO, UNKNOWN].concat().into_iter().chain(REFUSED.iter().map(|(t, ..)| *t)).collect();
    let parts = [
        "(",
        ")",
        "[",
        "]",
        ",",
        "not ",
        " and ",
        " or ",
        " in ",
        "==",
        "<",
        "%",
        "-",
        "*",
        "/",
        "\"",
        "'",
        "`",
        "\\",
        "$",
        "price",
        "drop(",
        "was(",
        "matches(title, \"",
        "1e9",
        " kg",
        "0",
        "ä",
        "\u{0}",
        "😀",
        "\u{202e}",
    ];
    let (values, event, changes) = page();
    let facts = Facts { values: &values, event: &event, changes: &changes, has_previous: true };
    let (mut dice, mut parsed) = (Dice(0x9e37_79b9_7f4a_7c15), 0);
    for _ in 0..20_000 {
        let mut chars: Vec<char> = all[dice.below(all.len())].chars().collect();
        for _ in 0..=dice.below(4) {
            let at = dice.below(chars.len() + 1);
            match dice.below(3) {
                0 => drop(chars.drain(at.min(chars.len())..(at + dice.below(4)).min(chars.len()))),
                1 => drop(chars.splice(at..at, parts[dice.below(parts.len())].chars())),
                _ => {
                    let other: Vec<char> = all[dice.below(all.len())].chars().collect();
                    let from = dice.below(other.len() + 1);
                    drop(chars.splice(at..at, other[from..].iter().copied()));
                }
            }
        }
        let text: String = chars.iter().collect();
        match Condition::parse(&text) {
            Ok(condition) => {
                parsed += 1;
                let answer = condition.ask(&facts);
                assert_eq!(answer, condition.ask(&facts), "{text}: twice the same");
            }
            Err(fault) => {
                assert!((1..=chars.len() + 1).contains(&fault.position), "{text}: {fault}");
                assert!(fault.message.len() < 700, "{text}: {fault}");
            }
        }
    }
    assert!(parsed > 1_000, "{parsed} were conditions");
}
