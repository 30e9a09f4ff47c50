//! What each XPath of a schema finds on a page, and why it gives no value: for people who mend a selector.
//!
//! A trace comes after the extraction and has fuel of its own, so that looking changes nothing of what is found.

use serde_json::Value as Json;
use url::Url;

use super::coerce::{ByteBudget, ValueRefusal, collapse_space};
use super::json::{PageJson, PlacedPath};
use super::schema::{Compiled, Schema};
use super::{ExtractionRun, Reason, ValueCandidate, root_context};
use crate::html::{Document, NodeId};
use crate::xpath::{Fuel, NodeRef, Value, XPath, number_to_text};

/// Characters of an element's text that its outline shows.
const TEXT_CHARACTERS_MAX: usize = 200;
/// Bytes of the text that are looked at for those: white space is collapsed first.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Classes that an outline shows.
const CLASSES_MAX: usize = 20;
/// Characters of an id, of a class and of a name that it shows.
const NAME_CHARACTERS_MAX: usize = 100;

/// What the XPaths of one attribute came to.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeTrace {
    pub name: String,
    /// The first XPath that gives a value: from it the attribute has its own.
    pub matched: Option<usize>,
    /// In the attribute's order, also those behind the one that matched.
    pub xpaths: Vec<XPathTrace>,
    /// The first JSONPath that gives a value, where no XPath does.
    pub matched_json_path: Option<usize>,
    pub json_paths: Vec<XPathTrace>,
}

/// What one XPath came to.
#[derive(Debug, Clone, PartialEq)]
pub struct XPathTrace {
    /// Why it gives no value; none where it gives one.
    pub reason: Option<Reason>,
    /// What is to be said beside the reason; may be empty.
    pub detail: String,
    /// How many nodes it selects; none where it came to a text, a number or a truth value, or to nothing for want of fuel.
    pub nodes: Option<usize>,
    /// The first thing that it selects.
    pub first: Option<Outline>,
}

/// An element in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The element's name; of an attribute or a text, that of the element in which it stands. None for what stands nowhere.
    pub tag: Option<String>,
    pub id: Option<String>,
    pub classes: Vec<String>,
    /// The attribute that was selected, if one was.
    pub attribute: Option<String>,
    /// The beginning of its text, without surplus white space.
    pub text: String,
}

impl Schema {
    /// What each XPath and JSONPath finds on a page, by itself.
    pub fn trace(&self, document: &Document, base: &Url, fuel: &mut Fuel) -> Vec<AttributeTrace> {
        self.trace_all(document, PageJson::new(document, None), base, fuel)
    }

    /// The same for a page that is JSON.
    pub fn trace_json(&self, page: &Json, base: &Url, fuel: &mut Fuel) -> Vec<AttributeTrace> {
        let none = Document::parse(String::new());
        self.trace_all(&none, PageJson::new(&none, Some(page)), base, fuel)
    }

    fn trace_all(
        &self,
        document: &Document,
        json: PageJson<'_>,
        base: &Url,
        fuel: &mut Fuel,
    ) -> Vec<AttributeTrace> {
        let context = root_context(document);
        let mut run = ExtractionRun { document, json, base, fuel, context, room: ByteBudget::for_page() };
        let first_value = |traces: &[XPathTrace]| traces.iter().position(|trace| trace.reason.is_none());
        let trace = |attribute: &Compiled| {
            let xpaths: Vec<_> = attribute.xpaths.iter().map(|xpath| run.trace(attribute, xpath)).collect();
            let json_paths: Vec<_> =
                attribute.json_paths.iter().map(|path| run.trace_path(attribute, path)).collect();
            let matched = first_value(&xpaths);
            AttributeTrace {
                name: attribute.name.clone(),
                matched,
                matched_json_path: first_value(&json_paths).filter(|_| matched.is_none()),
                xpaths,
                json_paths,
            }
        };
        self.attributes().iter().map(trace).collect()
    }
}

impl ExtractionRun<'_> {
    fn trace(&mut self, attribute: &Compiled, xpath: &XPath) -> XPathTrace {
        let value = match xpath.evaluate(self.document, self.context, self.fuel) {
            Ok(value) => value,
            Err(error) => {
                let (reason, detail) = (Some(Reason::Budget), error.to_string());
                return XPathTrace { reason, detail, nodes: None, first: None };
            }
        };
        let nodes = match &value {
            Value::Nodes(nodes) => Some(nodes.len()),
            Value::Texts(texts) => Some(texts.len()),
            _ => None,
        };
        let (reason, detail) = told(self.judge(attribute, &value), nodes);
        XPathTrace { reason, detail, nodes, first: outline(self.document, &value) }
    }

    fn trace_path(&mut self, attribute: &Compiled, path: &PlacedPath) -> XPathTrace {
        let selected = self.json.select(path, self.fuel);
        let selected = selected.map(|nodes| (nodes.len(), nodes.first().map(|node| said_by(node))));
        let (nodes, first) = match selected {
            Ok((count, first)) => (Some(count), first.map(|text| alone(&text))),
            Err(error) => {
                let (reason, detail) = (Some(Reason::Budget), error.to_string());
                return XPathTrace { reason, detail, nodes: None, first: None };
            }
        };
        let (reason, detail) = told(self.evaluate_json(attribute, path), nodes);
        XPathTrace { reason, detail, nodes, first }
    }
}

/// Why there is no value, if there is none.
fn told(found: Result<ValueCandidate, ValueRefusal>, nodes: Option<usize>) -> (Option<Reason>, String) {
    match found {
        Ok(ValueCandidate::Value(_)) => (None, String::new()),
        Ok(ValueCandidate::Blank) => (Some(Reason::NotFound), blank(nodes).to_owned()),
        Ok(ValueCandidate::Unwanted) => {
            (Some(Reason::AntiPattern), "what it selects matches an antiPattern".to_owned())
        }
        Err(ValueRefusal::Type(reason, detail)) => (Some(reason), detail),
        Err(ValueRefusal::Budget(detail)) => (Some(Reason::Budget), detail),
    }
}

/// What a node of JSON is, in a few words.
fn said_by(node: &Json) -> String {
    match node {
        Json::String(text) => beginning(text),
        Json::Array(members) => format!("a list of {}", members.len()),
        Json::Object(members) => format!("an object of {}", members.len()),
        scalar => scalar.to_string(),
    }
}

/// What stands nowhere.
fn alone(text: &str) -> Outline {
    Outline { tag: None, id: None, classes: Vec::new(), attribute: None, text: beginning(text) }
}

/// Why there is no value although nothing was refused.
fn blank(nodes: Option<usize>) -> &'static str {
    match nodes {
        Some(0) => "it selects nothing",
        Some(_) => "what it selects has no text",
        None => "it comes to an empty text, or to no number",
    }
}

fn outline(document: &Document, value: &Value) -> Option<Outline> {
    match value {
        Value::Nodes(nodes) => nodes.first().map(|node| of_node(document, *node)),
        Value::Texts(texts) => texts.first().map(|text| alone(text)),
        Value::Text(text) => Some(alone(text)),
        Value::Number(number) => Some(alone(&number_to_text(*number))),
        Value::Bool(boolean) => Some(alone(if *boolean { "true" } else { "false" })),
    }
}

fn of_node(document: &Document, node: NodeRef) -> Outline {
    let element = element_of(document, node.node());
    let named = |name: &str| element.and_then(|element| document.attribute_named(element, name));
    let classes = named("class").unwrap_or_default().split_ascii_whitespace();
    Outline {
        tag: element.map(|element| name(document.name(element))),
        id: named("id").map(name),
        classes: classes.take(CLASSES_MAX).map(name).collect(),
        attribute: node.attribute().map(|attribute| name(document.attr_name(attribute))),
        text: beginning(node.string_value(document)),
    }
}

/// The node itself, if it is an element, else the one in which it stands.
fn element_of(document: &Document, node: NodeId) -> Option<NodeId> {
    let here = document.is_element(node).then_some(node);
    here.or_else(|| document.parent(node).filter(|parent| document.is_element(*parent)))
}

fn name(text: &str) -> String {
    text.chars().take(NAME_CHARACTERS_MAX).collect()
}

fn beginning(text: &str) -> String {
    let text = text.trim_start();
    let text = collapse_space(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)]);
    text.chars().take(TEXT_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Attribute, page_base};
    use super::*;

    fn trace(source: &str, attributes: &str) -> Vec<AttributeTrace> {
        let attributes: Vec<Attribute> = serde_json::from_str(attributes).unwrap();
        let document = Document::parse(source.to_owned());
        let page = Url::parse("https://shop.example/p/1.html").unwrap();
        let schema = Schema::compile(&attributes).unwrap();
        schema.trace(&document, &page_base(&document, &page), &mut Fuel::for_page())
    }

    #[test]
    fn each_xpath_says_what_it_selects_and_why_that_is_no_value() {
        let html = "<main id=m><p class='price  now'>\n from <b>$ 12</b></p><p class=price>sold out</p><i> </i>\
                    <a href='/next'>next</a></main>";
        let traced = trace(
            html,
            r#"[{"name":"price","type":"number","antiPatterns":["^from"],
                 "xpaths":["//u","//i","//p[2]","//p","//b","//b/text()","count(//u)"]},
                {"name":"next","type":"url","xpaths":["//a/@href"]},
                {"name":"none","type":"text","xpaths":["string(//u)"]}]"#,
        );
        let price = &traced[0];
        assert_eq!((price.name.as_str(), price.matched), ("price", Some(4)));
        let reasons: Vec<_> = price.xpaths.iter().map(|xpath| xpath.reason).collect();
        assert_eq!(
            reasons,
            [
                Some(Reason::NotFound),
                Some(Reason::NotFound),
                Some(Reason::NotANumber),
                Some(Reason::AntiPattern),
                None,
                None,
                None
            ]
        );
        let nodes: Vec<_> = price.xpaths.iter().map(|xpath| xpath.nodes).collect();
        assert_eq!(nodes, [Some(0), Some(1), Some(1), Some(2), Some(1), Some(1), None]);
        assert_eq!((price.xpaths[0].detail.as_str(), &price.xpaths[0].first), ("it selects nothing", &None));
        assert_eq!(price.xpaths[1].detail, "what it selects has no text");
        let first = price.xpaths[3].first.as_ref().unwrap();
        assert_eq!((first.tag.as_deref(), first.text.as_str()), (Some("p"), "from $ 12"));
        assert_eq!(first.classes, ["price", "now"]);
        // A text stands in its element, and a number nowhere.
        assert_eq!(price.xpaths[5].first.as_ref().unwrap().tag.as_deref(), Some("b"));
        assert_eq!(price.xpaths[6].first.as_ref().unwrap().tag, None);
        let link = traced[1].xpaths[0].first.as_ref().unwrap();
        assert_eq!((link.tag.as_deref(), link.attribute.as_deref()), (Some("a"), Some("href")));
        assert_eq!((traced[2].matched, traced[2].xpaths[0].reason), (None, Some(Reason::NotFound)));
    }

    #[test]
    fn a_json_path_says_the_same() {
        let html = r#"<h1>Plane</h1><script type="application/ld+json">{"offers":{"price":"12.50","x":[]}}</script>"#;
        let traced = trace(
            html,
            r#"[{"name":"price","type":"number","xpaths":["//b"],"jsonPaths":["ld+json$.offers.x","ld+json$.offers","ld+json$.offers.price"]},
                {"name":"name","type":"text","xpaths":["//h1"],"jsonPaths":["ld+json$.offers.price"]}]"#,
        );
        let price = &traced[0];
        assert_eq!((price.matched, price.matched_json_path), (None, Some(2)));
        let texts: Vec<_> =
            price.json_paths.iter().map(|path| path.first.as_ref().unwrap().text.as_str()).collect();
        assert_eq!(texts, ["a list of 0", "an object of 2", "12.50"]);
        assert_eq!(price.json_paths[1].reason, Some(Reason::NotFound));
        assert_eq!((traced[1].matched, traced[1].matched_json_path), (Some(0), None));
    }

    #[test]
    fn an_outline_is_short_whatever_the_page_has() {
        let many = "c".repeat(500);
        let classes = vec![many.as_str(); 1_000].join(" ");
        let html =
            format!("<p id={many} class='{classes}'>{}{}</p>", " ".repeat(10_000), "é ".repeat(100_000));
        let traced = trace(&html, r#"[{"name":"p","type":"text","xpaths":["//p"]}]"#);
        let first = traced[0].xpaths[0].first.as_ref().unwrap();
        assert_eq!(first.text.chars().count(), TEXT_CHARACTERS_MAX);
        assert_eq!((first.classes.len(), first.classes[0].len()), (CLASSES_MAX, NAME_CHARACTERS_MAX));
        assert_eq!(first.id.as_ref().unwrap().len(), NAME_CHARACTERS_MAX);
    }

    #[test]
    fn a_trace_ends_with_its_fuel() {
        let attributes: Vec<Attribute> =
            serde_json::from_str(r#"[{"name":"a","type":"text","xpaths":["//b","//b"]}]"#).unwrap();
        let document = Document::parse("<b>1</b>".repeat(1_000));
        let page = Url::parse("https://shop.example/").unwrap();
        let traced = Schema::compile(&attributes).unwrap().trace(&document, &page, &mut Fuel::new(100));
        assert_eq!(traced[0].matched, None);
        assert!(traced[0].xpaths.iter().all(|xpath| xpath.reason == Some(Reason::Budget)), "{traced:?}");
    }
}
