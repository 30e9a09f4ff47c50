//! Schema + document → typed values and their quality.
//!
//! [`Schema::compile`] checks and compiles a list of [`Attribute`]s once; [`Schema::extract`] runs it over a page. The same
//! page and schema give the same bytes: nothing here depends on time, hashing order or the machine.
//!
//! How an attribute finds its value (interface specification, "Extraction schema"; api.md, section 6):
//! 1. Its XPaths are tried in order. The context node is the page's root element, as in lxml and parsel.
//! 2. A single value is the first node (in document order) whose text is not blank; a list is all such nodes of the first
//!    XPath that yields any, duplicates kept. An element's text is its string value, whatever the type: an XPath for a link
//!    ends in `/@href`.
//! 3. A text that matches an antiPattern (case-insensitive, anywhere in the text) is treated as not found; so is one that
//!    its type refuses. Then the next XPath is tried. If the last one was refused as well, that is an error entry.
//! 4. A value that fails its validation is kept, lowers the validation score and leaves an error entry.
//! 5. An attribute without a value has no key in `values` (and no `null`).

mod coerce;
mod number;
mod quality;
mod schema;

pub use coerce::{VALUE_BYTES_MAX, collapse_space};
pub use number::parse_number;
pub use quality::Quality;
pub use schema::{
    ANTI_PATTERNS_MAX, ATTRIBUTES_MAX, Attribute, AttributeType, NAME_CHARACTERS_MAX, PATTERN_BYTES_MAX,
    PATTERNS_MAX, Schema, SchemaError, SemanticType, Validation, XPATHS_MAX,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use url::Url;

use crate::base::web::URL_BYTES_MAX;
use crate::engine::html::{Document, NodeId};
use crate::engine::xpath::{EvalError, Fuel, NodeRef, Value, XPath, number_to_text};
use coerce::{Refusal, Room, is_joinable};
use quality::Tally;
use schema::Compiled;

/// What a schema found on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// By attribute name, in the schema's order; attributes without a value are absent.
    pub values: Map<String, Json>,
    /// At most one entry an attribute, in the schema's order.
    pub errors: Vec<AttributeError>,
    pub quality: Quality,
}

/// Why an attribute has no value, or one that is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AttributeError {
    pub name: String,
    pub reason: String,
}

/// The base of a page's relative links: its `<base href>`, resolved against the page's own address; else that address. Every
/// link copies it, so a base that is longer than a web address can be is none.
pub fn page_base(document: &Document, page: &Url) -> Url {
    let href = document.base_href().map(str::trim).filter(|href| is_joinable(href, URL_BYTES_MAX));
    let base = href.and_then(|href| page.join(href).ok());
    let fits = |base: &Url| matches!(base.scheme(), "http" | "https") && base.as_str().len() <= URL_BYTES_MAX;
    base.filter(fits).unwrap_or_else(|| page.clone())
}

/// The node that expressions start from: the root element, or the document node of a page without elements.
pub fn root_context(document: &Document) -> NodeId {
    document.children(Document::ROOT).find(|node| document.is_element(*node)).unwrap_or(Document::ROOT)
}

impl Schema {
    /// Extracts every attribute from a page. `base` is what relative links are resolved against (see [`page_base`]).
    ///
    /// Never fails: what goes wrong, the end of the fuel included, is an entry in [`Extraction::errors`].
    pub fn extract(&self, document: &Document, base: &Url, fuel: &mut Fuel) -> Extraction {
        let mut run = Run { document, base, fuel, context: root_context(document), room: Room::for_page() };
        let mut values = Map::new();
        let mut errors = Vec::new();
        let mut tally = Tally::new(self.attributes().len());
        for attribute in self.attributes() {
            let mut reasons = Vec::new();
            match run.find(attribute, &mut reasons) {
                Found::Value(value) => {
                    let failures = attribute.validate(&value, run.fuel);
                    tally.found(failures.is_empty());
                    reasons.extend(failures);
                    values.insert(attribute.name.clone(), value);
                }
                Found::Refused => tally.refused(),
                Found::Nothing => {}
            }
            if !reasons.is_empty() {
                errors.push(AttributeError { name: attribute.name.clone(), reason: reasons.join("; ") });
            }
        }
        Extraction { values, errors, quality: tally.quality() }
    }
}

/// What all XPaths of an attribute together came to.
enum Found {
    Value(Json),
    /// There was something, but not of the attribute's type.
    Refused,
    Nothing,
}

/// One extraction under way.
struct Run<'a> {
    document: &'a Document,
    base: &'a Url,
    fuel: &'a mut Fuel,
    context: NodeId,
    room: Room,
}

impl Run<'_> {
    fn find(&mut self, attribute: &Compiled, reasons: &mut Vec<String>) -> Found {
        let mut refusal = None;
        for (number, xpath) in attribute.xpaths.iter().enumerate() {
            match self.evaluate(attribute, xpath) {
                Ok(Some(value)) => return Found::Value(value),
                Ok(None) => {}
                // What ran dry might have been the better value: the reader is told even if a later XPath finds one.
                Err(Refusal::Budget(error)) => reasons.push(format!("xpaths[{number}]: {error}")),
                Err(Refusal::Type(reason)) => refusal = Some(format!("xpaths[{number}]: {reason}")),
            }
        }
        match refusal {
            Some(reason) => {
                reasons.push(reason);
                Found::Refused
            }
            None => Found::Nothing,
        }
    }

    fn evaluate(&mut self, attribute: &Compiled, xpath: &XPath) -> Result<Option<Json>, Refusal> {
        let value = xpath.evaluate(self.document, self.context, self.fuel)?;
        if attribute.kind.is_list() {
            return self.list(attribute, &value);
        }
        match (attribute.kind, &value) {
            (AttributeType::Boolean, Value::Bool(boolean)) => Ok(Some(Json::Bool(*boolean))),
            (AttributeType::Number, Value::Number(number)) if number.is_finite() => {
                Ok(Some(coerce::json_number(*number)))
            }
            // No number (`number(//absent)`) is nothing found.
            (_, Value::Number(number)) if !number.is_finite() => Ok(None),
            (AttributeType::Boolean, Value::Nodes(nodes)) => match nodes.first() {
                Some(first) => self.presence(attribute, *first),
                None => Ok(None),
            },
            _ => self.single(attribute, &value),
        }
    }

    /// The first text that is not blank.
    fn single(&mut self, attribute: &Compiled, value: &Value) -> Result<Option<Json>, Refusal> {
        let mut result = Ok(Candidate::Blank);
        texts(self.document, value, &mut |text| {
            result = self.accept(attribute, text);
            // A blank text is no value; look at the next.
            matches!(result, Ok(Candidate::Blank))
        });
        match result? {
            Candidate::Value(value) => Ok(Some(value)),
            Candidate::Blank | Candidate::Unwanted => Ok(None),
        }
    }

    fn list(&mut self, attribute: &Compiled, value: &Value) -> Result<Option<Json>, Refusal> {
        let mut members = Vec::new();
        let mut refusal = None;
        texts(self.document, value, &mut |text| match self.accept(attribute, text) {
            Ok(Candidate::Value(value)) => {
                members.push(value);
                true
            }
            Ok(_) => true,
            Err(Refusal::Type(reason)) => {
                refusal.get_or_insert(Refusal::Type(reason));
                true
            }
            Err(budget) => {
                refusal = Some(budget);
                false
            }
        });
        match refusal {
            // A list that was cut off is no list.
            Some(budget @ Refusal::Budget(_)) => Err(budget),
            _ if !members.is_empty() => Ok(Some(Json::Array(members))),
            Some(refusal) => Err(refusal),
            None => Ok(None),
        }
    }

    /// A boolean from a node: what its text says, and true where the text says nothing.
    fn presence(&mut self, attribute: &Compiled, node: NodeRef) -> Result<Option<Json>, Refusal> {
        match self.accept(attribute, node.string_value(self.document))? {
            Candidate::Value(value) => Ok(Some(value)),
            Candidate::Unwanted => Ok(None),
            Candidate::Blank => Ok(Some(Json::Bool(true))),
        }
    }

    fn accept(&mut self, attribute: &Compiled, raw: &str) -> Result<Candidate, Refusal> {
        self.fuel.spend(1 + raw.len() as u64 / 8)?;
        let text = collapse_space(raw);
        if text.is_empty() {
            return Ok(Candidate::Blank);
        }
        for pattern in &attribute.anti_patterns {
            self.fuel.spend(pattern.cost(text.len()))?;
            if pattern.is_match(&text) {
                return Ok(Candidate::Unwanted);
            }
        }
        self.fuel.spend(coerce::cost(attribute.kind, &text, self.base))?;
        let value = coerce::coerce(attribute.kind, &text, self.base)?;
        self.room.take(&value)?;
        Ok(Candidate::Value(value))
    }
}

/// What one text came to.
enum Candidate {
    Value(Json),
    Blank,
    /// An antiPattern matched.
    Unwanted,
}

impl From<EvalError> for Refusal {
    fn from(error: EvalError) -> Refusal {
        Refusal::Budget(error.to_string())
    }
}

/// Shows `visit` the texts of a value one by one, until it answers false.
fn texts(document: &Document, value: &Value, visit: &mut dyn FnMut(&str) -> bool) {
    match value {
        Value::Nodes(nodes) => {
            let _ = nodes.iter().all(|node| visit(node.string_value(document)));
        }
        Value::Texts(texts) => {
            let _ = texts.iter().all(|text| visit(text));
        }
        Value::Text(text) => {
            visit(text);
        }
        Value::Number(number) => {
            visit(&number_to_text(*number));
        }
        Value::Bool(boolean) => {
            visit(if *boolean { "true" } else { "false" });
        }
    }
}

#[cfg(test)]
mod tests;
