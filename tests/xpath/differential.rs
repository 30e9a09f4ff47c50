//! The Rust half of `differential.py` and `served.py`: dumps trees, runs expressions, extracts.
//!
//! Run by them, not by hand: `trees PAGE...` prints one JSON document a page, the tree as events with node numbers;
//! `run CASES` reads `[{"page": path, "xpaths": [..]}]` and prints what each expression came to, node by node;
//! `extract SCHEMA PAGE...` prints each page's values as the product would have them; `text PAGE` prints its characters.

use page::extract::{Attribute, Schema, page_base, root_context};
use page::html::{AttrId, Document, NodeId, NodeKind};
use page::xpath::{Fuel, NodeRef, Value, XPath};
use serde_json::{Value as Json, json};

type Failure = Box<dyn std::error::Error>;

/// lxml cannot hold control characters, so both sides get the page without them.
fn page(path: &str) -> Result<Document, Failure> {
    let text = page::html::decode(&std::fs::read(path)?, None).text;
    let bad = |c: char| (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}');
    Ok(Document::parse(text.replace(bad, " ")))
}

fn tree(document: &Document) -> Json {
    let mut events = Vec::new();
    let mut open: Vec<NodeId> = Vec::new();
    for node in document.descendants(Document::ROOT) {
        while open.last().is_some_and(|last| document.subtree_end(*last) <= node) {
            open.pop();
            events.push(json!(["end"]));
        }
        match document.kind(node) {
            NodeKind::Element => {
                let attributes: Vec<Json> = document
                    .attributes(node)
                    .map(|row| json!([document.attr_name(AttrId(row)), document.attr_value(AttrId(row))]))
                    .collect();
                events.push(json!(["element", node.0, document.name(node), attributes]));
                open.push(node);
            }
            NodeKind::Text => events.push(json!(["text", node.0, document.text(node)])),
            NodeKind::Comment => events.push(json!(["comment", node.0, document.text(node)])),
            NodeKind::Pi => events.push(json!(["pi", node.0, document.name(node), document.text(node)])),
            NodeKind::Document | NodeKind::Doctype => {}
        }
    }
    Json::Array(events)
}

fn shown(document: &Document, value: Result<Value, String>) -> Json {
    let node = |node: &NodeRef| match node.attribute() {
        Some(attribute) => json!([node.node().0, document.attr_name(attribute)]),
        None => json!(node.node().0),
    };
    match value {
        Err(error) => json!({ "error": error }),
        Ok(Value::Nodes(nodes)) => json!({ "nodes": nodes.iter().map(node).collect::<Vec<_>>() }),
        Ok(Value::Texts(texts)) => json!({ "texts": texts }),
        Ok(Value::Number(number)) => json!({ "number": format!("{number}") }),
        Ok(Value::Text(text)) => json!({ "text": text }),
        Ok(Value::Bool(boolean)) => json!({ "bool": boolean }),
    }
}

fn evaluated(document: &Document, xpath: &str) -> Result<Value, String> {
    // Strict: on the same tree there is no implied `<tbody>` to look through.
    let compiled = XPath::compile_strict(xpath).map_err(|error| format!("compile: {error}"))?;
    compiled
        .evaluate(document, root_context(document), &mut Fuel::for_page())
        .map_err(|error| format!("evaluate: {error}"))
}

fn run(cases: &str) -> Result<(), Failure> {
    let cases: Vec<Json> = serde_json::from_str(&std::fs::read_to_string(cases)?)?;
    for case in &cases {
        let document = page(case["page"].as_str().unwrap_or_default())?;
        let xpaths = case["xpaths"].as_array().map(Vec::as_slice).unwrap_or_default();
        let value = |xpath: &Json| shown(&document, evaluated(&document, xpath.as_str().unwrap_or_default()));
        println!("{}", Json::Array(xpaths.iter().map(value).collect()));
    }
    Ok(())
}

fn extract(schema: &str, pages: &[String]) -> Result<(), Failure> {
    let schema: Json = serde_json::from_str(&std::fs::read_to_string(schema)?)?;
    let attributes: Vec<Attribute> = serde_json::from_value(schema["attributes"].clone())?;
    let schema = Schema::compile(&attributes)?;
    let address = url::Url::parse("https://site.example/section/page.html")?;
    for path in pages {
        let document = Document::parse_bytes(&std::fs::read(path)?, None);
        let base = page_base(&document, &address);
        let found = schema.extract(&document, &base, &mut Fuel::for_page());
        let errors: Vec<Json> = found.errors.iter().map(|error| json!([error.name, error.reason])).collect();
        println!("{}", json!({ "values": found.values, "errors": errors, "base": base.as_str() }));
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["trees", ..] => {
            for path in &arguments[1..] {
                println!("{}", tree(&page(path)?));
            }
            Ok(())
        }
        ["run", cases] => run(cases),
        ["extract", schema, ..] => extract(schema, &arguments[2..]),
        ["text", path] => {
            print!("{}", page::html::decode(&std::fs::read(path)?, None).text);
            Ok(())
        }
        _ => Err("trees PAGE..., run CASES, extract SCHEMA PAGE... or text PAGE".into()),
    }
}
