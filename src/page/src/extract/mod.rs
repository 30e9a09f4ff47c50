//! Schema + document → typed values and their quality.
//!
//! [`Schema::compile`] checks and compiles a list of [`Attribute`]s once; [`Schema::extract`] runs it over a page. The same
//! page and schema give the same bytes: nothing here depends on time, hashing order or the machine.
//!
//! How an attribute finds its value (data/docs/api.md, "Extraction"):
//! 1. Its XPaths are tried in order. The context node is the page's root element, as in lxml and parsel.
//! 2. A single value is the first node (in document order) whose text is not blank; a list is all such nodes of the first
//!    XPath that yields any, duplicates kept. An element's text is its string value, whatever the type: an XPath for a link
//!    ends in `/@href`.
//!    Behind the XPaths its JSONPaths are tried in the same way, over the JSON that the page is or carries: texts, numbers
//!    and booleans are the texts of a node, and of a list its members are.
//! 3. A text that matches an antiPattern (case-insensitive, anywhere in the text) is treated as not found; so is one that
//!    its type refuses. Then the next XPath is tried. If the last one was refused as well, that is an error entry.
//! 4. A value that fails its validation is kept, lowers the validation score and leaves an error entry.
//! 5. An attribute without a value has no key in `values` (and no `null`), and an error entry that says why.

mod coerce;
mod json;
mod language;
mod number;
mod quality;
mod reason;
mod scalars;
mod schema;
mod trace;

pub use coerce::{VALUE_BYTES_MAX, collapse_space};
pub use language::DecimalMark;
pub use number::parse_number;
pub use quality::Quality;
pub use reason::Reason;
pub use schema::{
    ANTI_PATTERNS_MAX, ATTRIBUTES_MAX, Attribute, AttributeType, JSON_PATHS_MAX, NAME_CHARACTERS_MAX,
    PATTERN_BYTES_MAX, PATTERNS_MAX, Schema, SchemaError, SemanticType, Validation, XPATHS_MAX,
};
pub use trace::{AttributeTrace, Outline, XPathTrace};

use serde_json::{Map, Value as Json};
use url::Url;

use crate::html::{Document, NodeId};
use crate::xpath::{EvalError, Fuel, NodeRef, Value, XPath, number_to_text};
use coerce::{ByteBudget, ValueRefusal, is_joinable};
use json::{PageJson, PlacedPath};
use quality::Tally;
use schema::Compiled;

/// The longest address that counts: what every web address of the box may have (`base::web` has the same number, and the
/// box does not compile where they differ; this crate stands alone).
pub const URL_BYTES_MAX: usize = 2048;

/// What a schema found on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// By attribute name, in the schema's order; attributes without a value are absent.
    pub values: Map<String, Json>,
    /// One entry for each attribute without a value or with one that is not trusted, in the schema's order.
    pub errors: Vec<AttributeError>,
    pub quality: Quality,
}

/// Why an attribute has no value, or one that is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeError {
    pub name: String,
    pub reason: Reason,
    /// What happened at which XPath, or which limit a value misses; empty where the reason says it all.
    pub detail: String,
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
        self.run(document, PageJson::new(document, None), base, fuel)
    }

    /// The same for a page that is JSON, of which only JSONPaths find anything. `base` is its address.
    pub fn extract_json(&self, page: &Json, base: &Url, fuel: &mut Fuel) -> Extraction {
        let none = Document::parse(String::new());
        self.run(&none, PageJson::new(&none, Some(page)), base, fuel)
    }

    /// What a body gives that cannot be read at all: every attribute has the same reason.
    pub fn extract_nothing(&self, reason: Reason, detail: &str) -> Extraction {
        let error = |attribute: &schema::Compiled| AttributeError {
            name: attribute.name.clone(),
            reason,
            detail: detail.to_owned(),
        };
        let errors = self.attributes().iter().map(error).collect();
        Extraction { values: Map::new(), errors, quality: Tally::new(self.attributes().len()).quality() }
    }

    fn run(&self, document: &Document, json: PageJson<'_>, base: &Url, fuel: &mut Fuel) -> Extraction {
        let context = root_context(document);
        let mut run = ExtractionRun { document, json, base, fuel, context, room: ByteBudget::for_page() };
        let mut values = Map::new();
        let mut errors = Vec::new();
        let mut tally = Tally::new(self.attributes().len());
        for attribute in self.attributes() {
            // What ran dry might have been the better value: the reader is told even if a later XPath finds one.
            let mut details = Vec::new();
            let found = run.find(attribute, &mut details);
            let dry = (!details.is_empty()).then_some(Reason::Budget);
            let reason = match found {
                AttributeOutcome::Value(value) => {
                    let failures = attribute.validate(&value, run.fuel);
                    tally.found(failures.is_empty());
                    let invalid = (!failures.is_empty()).then_some(Reason::Invalid);
                    details.extend(failures);
                    values.insert(attribute.name.clone(), value);
                    invalid.or(dry)
                }
                AttributeOutcome::Refused(reason, detail) => {
                    tally.refused();
                    details.push(detail);
                    Some(reason)
                }
                AttributeOutcome::Unwanted => dry.or(Some(Reason::AntiPattern)),
                AttributeOutcome::Nothing => dry.or(Some(Reason::NotFound)),
            };
            errors.extend(reason.map(|reason| AttributeError {
                name: attribute.name.clone(),
                reason,
                detail: details.join("; "),
            }));
        }
        Extraction { values, errors, quality: tally.quality() }
    }
}

/// What all XPaths of an attribute together came to.
enum AttributeOutcome {
    Value(Json),
    /// There was something, but not of the attribute's type: what it is not, and where.
    Refused(Reason, String),
    /// There was something, and an antiPattern matches it.
    Unwanted,
    Nothing,
}

/// Where an attribute is looked for.
enum Place<'s> {
    XPath(&'s XPath),
    JsonPath(&'s PlacedPath),
}

/// One extraction under way.
struct ExtractionRun<'a> {
    document: &'a Document,
    json: PageJson<'a>,
    base: &'a Url,
    fuel: &'a mut Fuel,
    context: NodeId,
    room: ByteBudget,
}

impl ExtractionRun<'_> {
    /// `dry` gets the XPaths and JSONPaths for which there was no fuel.
    fn find(&mut self, attribute: &Compiled, dry: &mut Vec<String>) -> AttributeOutcome {
        let mut found = AttributeOutcome::Nothing;
        let xpaths = attribute.xpaths.iter().map(Place::XPath).enumerate();
        let json_paths = attribute.json_paths.iter().map(Place::JsonPath).enumerate();
        for (number, place) in xpaths.chain(json_paths) {
            let (field, tried) = match place {
                Place::XPath(xpath) => ("xpaths", self.evaluate(attribute, xpath)),
                Place::JsonPath(path) => ("jsonPaths", self.evaluate_json(attribute, path)),
            };
            match tried {
                Ok(ValueCandidate::Value(value)) => return AttributeOutcome::Value(value),
                Ok(ValueCandidate::Unwanted) if matches!(found, AttributeOutcome::Nothing) => {
                    found = AttributeOutcome::Unwanted
                }
                Ok(_) => {}
                Err(ValueRefusal::Budget(error)) => dry.push(format!("{field}[{number}]: {error}")),
                Err(ValueRefusal::Type(reason, detail)) => {
                    found = AttributeOutcome::Refused(reason, format!("{field}[{number}]: {detail}"));
                }
            }
        }
        found
    }

    fn evaluate(&mut self, attribute: &Compiled, xpath: &XPath) -> Result<ValueCandidate, ValueRefusal> {
        let value = xpath.evaluate(self.document, self.context, self.fuel)?;
        self.judge(attribute, &value)
    }

    /// What the outcome of an XPath comes to as a value of the attribute.
    fn judge(&mut self, attribute: &Compiled, value: &Value) -> Result<ValueCandidate, ValueRefusal> {
        if attribute.kind.is_list() {
            return self.list(attribute, value);
        }
        match (attribute.kind, value) {
            (AttributeType::Boolean, Value::Bool(boolean)) => self.scalar(attribute, Json::Bool(*boolean)),
            (AttributeType::Number, Value::Number(number)) if number.is_finite() => {
                self.scalar(attribute, coerce::json_number(*number))
            }
            // No number (`number(//absent)`) is nothing found.
            (_, Value::Number(number)) if !number.is_finite() => Ok(ValueCandidate::Blank),
            (AttributeType::Boolean, Value::Nodes(nodes)) => match nodes.first() {
                Some(first) => self.presence(attribute, *first),
                None => Ok(ValueCandidate::Blank),
            },
            _ => self.single(attribute, value),
        }
    }

    fn evaluate_json(
        &mut self,
        attribute: &Compiled,
        path: &PlacedPath,
    ) -> Result<ValueCandidate, ValueRefusal> {
        let nodes = self.json.select(path, self.fuel)?;
        let found = scalars::of_nodes(nodes, attribute.kind.is_list())?;
        match (attribute.kind, found.first()) {
            (AttributeType::Boolean, Some(said @ Json::Bool(_))) => {
                return self.scalar(attribute, said.clone());
            }
            (AttributeType::Number, Some(Json::Number(said))) => {
                // 10.0 is 10, as it is in a text.
                let said = said
                    .as_f64()
                    .filter(|_| said.is_f64())
                    .map(coerce::json_number)
                    .unwrap_or_else(|| Json::Number(said.clone()));
                return self.scalar(attribute, said);
            }
            _ => {}
        }
        // Others are read as the texts of a page are.
        let value = Value::Texts(found.into_iter().map(scalars::text).collect());
        if attribute.kind.is_list() { self.list(attribute, &value) } else { self.single(attribute, &value) }
    }

    /// A number or truth value that was found as one, unless an antiPattern matches what it reads as.
    fn scalar(&mut self, attribute: &Compiled, said: Json) -> Result<ValueCandidate, ValueRefusal> {
        Ok(match self.is_unwanted(attribute, &said.to_string())? {
            true => ValueCandidate::Unwanted,
            false => ValueCandidate::Value(said),
        })
    }

    /// Whether an antiPattern matches a text.
    fn is_unwanted(&mut self, attribute: &Compiled, text: &str) -> Result<bool, ValueRefusal> {
        for pattern in &attribute.anti_patterns {
            self.fuel.spend(pattern.cost(text.len()))?;
            if pattern.is_match(text) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first text that is not blank.
    fn single(&mut self, attribute: &Compiled, value: &Value) -> Result<ValueCandidate, ValueRefusal> {
        let mut result = Ok(ValueCandidate::Blank);
        texts(self.document, value, &mut |node, text| {
            result = self.accept(attribute, node, text);
            // A blank text is no value; look at the next.
            matches!(result, Ok(ValueCandidate::Blank))
        });
        result
    }

    fn list(&mut self, attribute: &Compiled, value: &Value) -> Result<ValueCandidate, ValueRefusal> {
        let mut members = Vec::new();
        let mut refusal = None;
        let mut none = ValueCandidate::Blank;
        texts(self.document, value, &mut |node, text| match self.accept(attribute, node, text) {
            Ok(ValueCandidate::Value(value)) => {
                members.push(value);
                true
            }
            Ok(ValueCandidate::Unwanted) => {
                none = ValueCandidate::Unwanted;
                true
            }
            Ok(ValueCandidate::Blank) => true,
            Err(refused @ ValueRefusal::Type(..)) => {
                refusal.get_or_insert(refused);
                true
            }
            Err(budget) => {
                refusal = Some(budget);
                false
            }
        });
        match refusal {
            // A list that was cut off is no list.
            Some(budget @ ValueRefusal::Budget(_)) => Err(budget),
            _ if !members.is_empty() => Ok(ValueCandidate::Value(Json::Array(members))),
            Some(refusal) => Err(refusal),
            None => Ok(none),
        }
    }

    /// A boolean from a node: what its text says, and true where the text says nothing.
    fn presence(&mut self, attribute: &Compiled, node: NodeRef) -> Result<ValueCandidate, ValueRefusal> {
        match self.accept(attribute, Some(node.node()), node.string_value(self.document))? {
            ValueCandidate::Blank => self.scalar(attribute, Json::Bool(true)),
            said => Ok(said),
        }
    }

    /// What a text comes to; `node` is where it stands, if it stands anywhere.
    fn accept(
        &mut self,
        attribute: &Compiled,
        node: Option<NodeId>,
        raw: &str,
    ) -> Result<ValueCandidate, ValueRefusal> {
        self.fuel.spend(1 + raw.len() as u64 / 8)?;
        let text = collapse_space(raw);
        if text.is_empty() {
            return Ok(ValueCandidate::Blank);
        }
        if self.is_unwanted(attribute, &text)? {
            return Ok(ValueCandidate::Unwanted);
        }
        self.fuel.spend(coerce::cost(attribute.kind, &text, self.base))?;
        let value = match attribute.kind {
            // A line end within an address is no space: browsers drop it (URL Standard, "basic URL parser").
            AttributeType::Url | AttributeType::UrlList => {
                coerce::coerce(attribute.kind, raw.trim(), self.base, None)?
            }
            AttributeType::Number => {
                let host = self.base.host_str();
                let mark = DecimalMark::at(self.document, node, self.context, host, self.fuel)?;
                coerce::coerce(attribute.kind, &text, self.base, mark)?
            }
            kind => coerce::coerce(kind, &text, self.base, None)?,
        };
        self.room.take(&value)?;
        Ok(ValueCandidate::Value(value))
    }
}

/// What one text came to.
enum ValueCandidate {
    Value(Json),
    Blank,
    /// An antiPattern matched.
    Unwanted,
}

impl From<EvalError> for ValueRefusal {
    fn from(error: EvalError) -> ValueRefusal {
        ValueRefusal::Budget(error.to_string())
    }
}

/// Shows `visit` the texts of a value one by one, with the nodes in which they stand, until it answers false.
fn texts(document: &Document, value: &Value, visit: &mut dyn FnMut(Option<NodeId>, &str) -> bool) {
    match value {
        Value::Nodes(nodes) => {
            let _ = nodes.iter().all(|node| visit(Some(node.node()), node.string_value(document)));
        }
        Value::Texts(texts) => {
            let _ = texts.iter().all(|text| visit(None, text));
        }
        Value::Text(text) => {
            visit(None, text);
        }
        Value::Number(number) => {
            visit(None, &number_to_text(*number));
        }
        Value::Bool(boolean) => {
            visit(None, if *boolean { "true" } else { "false" });
        }
    }
}

#[cfg(test)]
mod json_tests;
#[cfg(test)]
mod tests;
