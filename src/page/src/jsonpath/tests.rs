use serde_json::{Value, json};

use super::{JsonPath, NESTING_MAX, QUERY_BYTES_MAX};
use crate::xpath::{EvalError, Fuel};

fn select(query: &str, document: &Value) -> Vec<Value> {
    let path = JsonPath::compile(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let found = path.select(document, &mut Fuel::for_page()).unwrap();
    found.into_iter().cloned().collect()
}

#[test]
fn queries_name_nodes() {
    let shop = json!({
        "name": "Shoe", "offers": [
            { "price": 10, "currency": "EUR", "sizes": [40, 41, 42] },
            { "price": "12.50", "currency": "USD" },
            { "price": 9.0, "currency": "EUR", "old": { "price": 11 } },
        ],
        "it's": true, "\u{263a}": null,
    });
    let cases: &[(&str, Value)] = &[
        ("$.name", json!(["Shoe"])),
        ("$['name']", json!(["Shoe"])),
        ("$ [ \"name\" , 'name' ]", json!(["Shoe", "Shoe"])),
        ("$['it\\'s']", json!([true])),
        ("$.☺", json!([null])),
        ("$[\"\\u263A\"]", json!([null])),
        ("$.offers[0].price", json!([10])),
        ("$.offers[-1].currency", json!(["EUR"])),
        ("$.offers[3]", json!([])),
        ("$.offers[*].currency", json!(["EUR", "USD", "EUR"])),
        ("$..price", json!([10, "12.50", 9.0, 11])),
        ("$.offers[0].sizes[::2]", json!([40, 42])),
        ("$.offers[0].sizes[::-1]", json!([42, 41, 40])),
        ("$.offers[0].sizes[1:]", json!([41, 42])),
        ("$.offers[0].sizes[-2:-1]", json!([41])),
        ("$.offers[0].sizes[5:0:-2]", json!([42])),
        ("$.offers[0].sizes[::0]", json!([])),
        ("$.offers[?@.price < 10].currency", json!(["EUR"])),
        ("$.offers[?@.price == 10.0].price", json!([10])),
        ("$.offers[?@.currency == 'EUR' && @.old].price", json!([9.0])),
        ("$.offers[?@.currency == 'USD' || !@.sizes && @.old].price", json!(["12.50", 9.0])),
        ("$.offers[?!(@.currency == 'EUR')].price", json!(["12.50"])),
        ("$.offers[?@.old.price > $.offers[0].price].price", json!([9.0])),
        ("$.offers[?match(@.currency, 'E.R')].price", json!([10, 9.0])),
        ("$.offers[?search(@.price, '[.]5')].currency", json!(["USD"])),
        ("$.offers[?length(@.sizes) == 3].price", json!([10])),
        ("$.offers[?count(@.*) > 2].price", json!([10, 9.0])),
        ("$.offers[?value(@..price) == '12.50'].currency", json!(["USD"])),
        ("$.offers[?@.none == @.other].price", json!([10, "12.50", 9.0])),
        ("$.offers[?@.sizes == $.offers[0].sizes].price", json!([10])),
        ("$", json!([shop.clone()])),
    ];
    for (query, expected) in cases {
        assert_eq!(Value::from(select(query, &shop)), *expected, "{query}");
    }
}

#[test]
fn wrong_queries_are_refused_at_their_character() {
    let cases = [
        ("", 1, "a query begins with `$`"),
        ("name", 1, "a query begins with `$`"),
        ("$.", 3, "a name or `*` is expected"),
        ("$.1", 3, "a name or `*` is expected"),
        ("$ ", 2, "white space behind"),
        ("$x", 2, "`x` is not expected here"),
        ("$[", 3, "a name in quotes"),
        ("$[01]", 3, "no zero in front"),
        ("$[-0]", 3, "no `-0`"),
        ("$[9007199254740992]", 3, "2^53 - 1"),
        ("$['a]", 3, "not closed"),
        ("$['\\x']", 5, "no such escape"),
        ("$['\\ud800']", 5, "half of a surrogate pair"),
        ("$[?1]", 4, "must be compared"),
        ("$[?@.a == ]", 11, "a query, a literal or a function"),
        ("$[?@..a == 1]", 4, "several nodes"),
        ("$[?!@.a == 1]", 5, "in parentheses"),
        ("$[?length(@.a)]", 4, "must be compared"),
        ("$[?match(@.a, 'x') == true]", 4, "cannot be compared"),
        ("$[?size(@.a) == 1]", 4, "there is no function `size`; there are length"),
        ("$[?count('a') == 1]", 10, "a query is expected"),
        ("$[?@.a == True]", 11, "a query, a literal or a function"),
        ("$.ä['ö", 5, "not closed"),
    ];
    for (query, position, message) in cases {
        let error = JsonPath::compile(query).expect_err(query);
        assert!(error.position == position && error.message.contains(message), "{query}: {error}");
    }
    let deep = format!("$[?{}@.a{}]", "(".repeat(NESTING_MAX), ")".repeat(NESTING_MAX));
    assert!(JsonPath::compile(&deep).unwrap_err().message.contains("levels"));
    let deep = format!("${}", "[?@".repeat(5_000));
    assert!(JsonPath::compile(&deep).unwrap_err().message.contains("levels"));
    assert!(JsonPath::compile(&"$".repeat(QUERY_BYTES_MAX + 1)).unwrap_err().message.contains("bytes"));
}

/// Documents and queries that are made to cost much end within the budget.
#[test]
fn hostile_documents_end_within_the_budget() {
    let ended = |query: &str, document: &Value| {
        JsonPath::compile(query).unwrap().select(document, &mut Fuel::for_page()).map(|nodes| nodes.len())
    };
    let wide = json!({ "a": vec![json!({ "b": [1, 2, 3], "p": "(a*)*b" }); 20_000] });
    for query in ["$.a[?$..b]", "$.a[?match(@.p, @.p)]", "$.a[?$.a == $.a]"] {
        assert_eq!(ended(query, &wide), Err(EvalError::BudgetExceeded), "{query}");
    }
    let mut deep = json!(1);
    for _ in 0..100_000 {
        deep = Value::Array(vec![deep]);
    }
    assert_eq!(ended("$..*", &deep), Ok(100_000));
    assert_eq!(ended("$..*..*", &deep), Err(EvalError::BudgetExceeded));
    // Values in each other are dropped in each other, too: this one is taken apart level by level.
    while let Value::Array(mut members) = deep {
        deep = members.pop().unwrap_or_default();
    }
}

/// The compliance suite of the JSONPath working group (github.com/jsonpath-standard/jsonpath-compliance-test-suite), which
/// is not ours to keep: `GLEANER_JSONPATH_CTS` names its `cts.json`.
#[test]
fn the_compliance_suite_passes() {
    let Some(file) = std::env::var_os("GLEANER_JSONPATH_CTS") else {
        println!("skipped: GLEANER_JSONPATH_CTS does not name cts.json");
        return;
    };
    let suite: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let cases = suite["tests"].as_array().unwrap();
    let mut failed = Vec::new();
    for case in cases {
        let (name, query) = (&case["name"], case["selector"].as_str().unwrap());
        let compiled = JsonPath::compile(query);
        if case["invalid_selector"] == true {
            if compiled.is_ok() {
                failed.push(format!("{name}: {query} is taken"));
            }
            continue;
        }
        let Ok(path) = compiled else {
            failed.push(format!("{name}: {query} is refused: {}", compiled.unwrap_err()));
            continue;
        };
        let found = path.select(&case["document"], &mut Fuel::for_page()).unwrap();
        let found = Value::from(found.into_iter().cloned().collect::<Vec<_>>());
        let is_expected = match &case["results"] {
            Value::Array(several) => several.contains(&found),
            _ => case["result"] == found,
        };
        if !is_expected {
            failed.push(format!("{name}: {query} gives {found}"));
        }
    }
    assert!(failed.is_empty(), "{} of {} fail:\n{}", failed.len(), cases.len(), failed.join("\n"));
    println!("{} cases of the compliance suite pass", cases.len());
}
