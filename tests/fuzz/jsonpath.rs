//! JSONPath: queries of a grammar and broken ones over random documents, by laws that hold between queries.

use std::cell::Cell;

use page::extract::{Attribute, AttributeType, Schema};
use page::html::Document;
use page::jsonpath::JsonPath;
use page::xpath::{EvalError, Fuel};
use page_oracle::soup::Random;
use serde_json::Value;

use crate::Target;

/// Between the query and its document.
const BREAK: char = '\u{1}';
const NAMES: &[&str] = &["a", "b", "_c", "名", "length", "price"];
const LITERALS: &[&str] =
    &["1", "-1", "0", "1.0", "1e2", "null", "true", "'a'", "\"b\"", "'\\u00e4'", "'\\ud83d\\ude00'"];
const PATTERNS: &[&str] = &["'a.*'", "'(a*)*b'", "'[^.]'", "'('", "@.b", "'\\\\d'"];
const SCRAPS: &[&str] = &[
    "$", "@", "..", ".", "[", "]", "?", "(", ")", "'", "\\u", "!", "&&", "==", ":", ",", " ", "*", "-0",
    "01", "é",
];

pub struct JsonPathTarget {
    compiled: Cell<u64>,
    found: Cell<u64>,
}

impl JsonPathTarget {
    pub fn new() -> JsonPathTarget {
        JsonPathTarget { compiled: Cell::new(0), found: Cell::new(0) }
    }
}

fn document(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => "null".to_owned(),
        1 => random.pick(&["1", "1.0", "-0", "100", "1e2", "9007199254740993", "0.1"]).to_owned(),
        2 => random.pick(&["true", "false"]).to_owned(),
        3..6 => format!("\"{}\"", random.pick(&["a", "b", "aab", "\\u00e4", "\\n", "\\ud83d\\ude00", ""])),
        6 | 7 => {
            let members: Vec<_> = (0..random.below(5)).map(|_| document(random, depth - 1)).collect();
            format!("[{}]", members.join(","))
        }
        _ => {
            let names: Vec<_> = (0..random.below(5)).map(|_| random.pick(NAMES)).collect();
            let members: Vec<_> =
                names.iter().map(|name| format!("\"{name}\":{}", document(random, depth - 1))).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

fn segments(random: &mut Random, depth: usize) -> String {
    (0..random.below(4)).map(|_| segment(random, depth)).collect()
}

fn segment(random: &mut Random, depth: usize) -> String {
    let name = random.pick(NAMES);
    match random.below(6) {
        0 => format!(".{name}"),
        1 => format!("..{name}"),
        2 => random.pick(&[".*", "..*", "[*]"]).to_owned(),
        _ => {
            let selectors: Vec<_> = (0..1 + random.below(2)).map(|_| selector(random, depth)).collect();
            let begin = random.pick(&["", "", ".."]);
            format!("{begin}[{}]", selectors.join(random.pick(&[",", " , "])))
        }
    }
}

fn selector(random: &mut Random, depth: usize) -> String {
    let number = random.below(7) as i64 - 3;
    match random.below(if depth == 0 { 4 } else { 6 }) {
        0 => format!("'{}'", random.pick(NAMES)),
        1 => number.to_string(),
        2 => "*".to_owned(),
        3 => random.pick(&[":", "::2", "::-1", "1:", ":-1", "-2:9:1", "3:0:-2", "::0"]).to_owned(),
        _ => format!("?{}", condition(random, depth - 1)),
    }
}

fn condition(random: &mut Random, depth: usize) -> String {
    let singular = |random: &mut Random| format!("@.{}", random.pick(NAMES));
    match random.below(if depth == 0 { 4 } else { 8 }) {
        0 => format!("@{}", segments(random, depth)),
        1 => format!(
            "{} {} {}",
            singular(random),
            random.pick(&["==", "!=", "<", "<=", ">", ">="]),
            random.pick(LITERALS)
        ),
        2 => format!("match({},{})", singular(random), random.pick(PATTERNS)),
        3 => format!("length({}) >= 1", singular(random)),
        4 => format!("count(@{}) == {}", segments(random, depth - 1), random.below(4)),
        5 => format!("!({})", condition(random, depth - 1)),
        6 => format!("{} && {}", condition(random, depth - 1), condition(random, depth - 1)),
        _ => format!("({} || {})", condition(random, depth - 1), condition(random, depth - 1)),
    }
}

fn select<'v>(query: &str, document: &'v Value) -> Result<Vec<&'v Value>, String> {
    let path = JsonPath::compile(query).map_err(|error| format!("{query} is refused: {error}"))?;
    match path.select(document, &mut Fuel::for_page()) {
        Ok(nodes) => Ok(nodes),
        Err(EvalError::BudgetExceeded) => Err("budget".to_owned()),
        Err(other) => Err(format!("{query}: {other}")),
    }
}

/// What a query that ends in another segment must find.
fn laws(query: &str, document: &Value, nodes: &[&Value]) -> Result<(), String> {
    let same = |query: &str, expected: Vec<&Value>| match select(query, document) {
        Err(budget) if budget == "budget" => Ok(()),
        Err(error) => Err(error),
        Ok(found)
            if found.len() == expected.len()
                && found.iter().zip(&expected).all(|(a, b)| std::ptr::eq(*a, *b)) =>
        {
            Ok(())
        }
        Ok(found) => Err(format!("{query} finds {} and not {} nodes", found.len(), expected.len())),
    };
    let children = |node: &'_ &Value| -> Vec<Value> {
        match node {
            Value::Array(members) => members.clone(),
            Value::Object(members) => members.values().cloned().collect(),
            _ => Vec::new(),
        }
    };
    same(query, nodes.to_vec())?;
    let members: usize = nodes.iter().map(|node| children(node).len()).sum();
    for star in [
        format!("{query}[*]"),
        format!("{query}.*"),
        format!("{query}[?@ == @]"),
        format!("{query}[?count(@) == 1]"),
    ] {
        match select(&star, document) {
            Ok(found) if found.len() != members => {
                return Err(format!("{star} finds {} and not the {members} children", found.len()));
            }
            Err(error) if error != "budget" => return Err(error),
            _ => {}
        }
    }
    let twice = nodes.iter().flat_map(|node| {
        let found = node.get("a");
        [found, found].into_iter().flatten()
    });
    same(&format!("{query}['a',\"a\"]"), twice.collect())?;
    let last = nodes.iter().filter_map(|node| node.as_array()?.last());
    same(&format!("{query}[-1]"), last.collect())?;
    let none = format!("{query}[?@ != @ || @ < @]");
    same(&none, Vec::new())
}

impl Target for JsonPathTarget {
    type How = ();

    fn generate(&self, random: &mut Random) -> ((), String) {
        let mut query = format!("${}", segments(random, 3));
        if random.below(4) == 0 {
            for _ in 0..1 + random.below(3) {
                let at = random.below(query.len() + 1);
                let at = query.floor_char_boundary(at);
                query.insert_str(at, random.pick(SCRAPS));
            }
        }
        let document = document(random, 4);
        ((), format!("{query}{BREAK}{document}"))
    }

    fn check(&self, (): (), text: &str) -> Result<(), String> {
        let (query, document) = text.split_once(BREAK).unwrap_or((text, "null"));
        let path = JsonPath::compile(query);
        let attribute = Attribute {
            name: "a".to_owned(),
            xpaths: Vec::new(),
            json_paths: Some(vec![query.to_owned()]),
            kind: AttributeType::TextList,
            description: None,
            anti_patterns: None,
            semantic_type: None,
            validation: None,
        };
        let schema = Schema::compile(&[attribute]);
        let path = match path {
            Ok(path) => path,
            Err(error) if (1..=query.chars().count() + 1).contains(&error.position) => return Ok(()),
            Err(error) => return Err(format!("no such character: {error}")),
        };
        let schema = schema.map_err(|error| format!("compiles in one place and not in another: {error}"))?;
        self.compiled.set(self.compiled.get() + 1);
        let Ok(document) = serde_json::from_str::<Value>(document) else { return Ok(()) };
        let Ok(nodes) = path.select(&document, &mut Fuel::for_page()) else { return Ok(()) };
        self.found.set(self.found.get() + nodes.len() as u64);
        laws(query, &document, &nodes)?;
        // The same JSON as a page and in a page gives the same values.
        let base = url::Url::parse("https://site.example/").expect("an address");
        let whole = schema.extract_json(&document, &base, &mut Fuel::for_page());
        let page = format!("<script type='application/json'>{document}</script>").replace("</s", "<\\/s");
        let page = page.replacen("<\\/script>", "</script>", 1);
        let carried = schema.extract(&Document::parse(page), &base, &mut Fuel::for_page());
        if whole != carried {
            return Err(format!("as a page {:?}, in a page {:?}", whole.values, carried.values));
        }
        Ok(())
    }

    fn covered(&self) -> String {
        format!("{} queries were right, {} nodes were found", self.compiled.get(), self.found.get())
    }
}
