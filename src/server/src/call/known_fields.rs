//! What an operation knows of a request: the parameters and members that the reference has.
//!
//! What a caller sends beyond that is ignored, as it must be for clients of other releases, and most often it is a name
//! that was typed wrong. So every answer names what was ignored in `X-Ignored-Fields`, nested members by their path, and
//! with `Prefer: handling=strict` (RFC 7240, 4.4) it is a 400 that names the known ones instead (data/docs/api.md,
//! "Unknown names").
//!
//! The names are read off the OpenAPI document, for every operation at once: there is no route that could forget to say
//! them, and what is told to be ignored is what the reference does not have.

use base::{Code, Error, Result};
use http::HeaderMap;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

/// The header that names what was ignored.
pub const IGNORED_FIELDS: &str = "x-ignored-fields";
/// The header of a response that says which of the caller's preferences it was made by.
pub const PREFERENCE_APPLIED: &str = "preference-applied";
/// What it says then.
pub const STRICT: &str = "handling=strict";

/// Names that an answer lists.
const NAMES_MAX: usize = 20;
/// Bytes of a caller's name, as it is repeated.
const NAME_BYTES_MAX: usize = 64;
/// The end of a list that has more.
const MORE: &str = "...";

/// Every operation's names.
pub struct KnownFields {
    operations: HashMap<String, OperationFields>,
    shapes: Vec<FieldShape>,
}

struct OperationFields {
    query: BTreeMap<String, ()>,
    body: Option<usize>,
}

/// What a JSON value may be, as far as its members are known by name; places are in [`KnownFields::shapes`].
enum FieldShape {
    /// Anything: nothing in it is known, and so nothing unknown.
    Any,
    Object {
        members: BTreeMap<String, usize>,
        /// What other members may be, where there may be others.
        others: Option<usize>,
    },
    Array(usize),
    Choice(Vec<usize>),
    /// One of several objects, by what this member says.
    Tagged {
        tag: String,
        variants: BTreeMap<String, usize>,
    },
}

/// What was sent and is not known.
#[derive(Debug, Default)]
pub struct IgnoredFields {
    names: Vec<String>,
    has_more: bool,
    /// Paths without their positions: of a thousand elements with one wrong name the first says it.
    seen: HashSet<String>,
    /// The known names in the place of the first.
    known: Vec<String>,
}

impl IgnoredFields {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The header's value.
    pub fn header(&self) -> String {
        let more = self.has_more.then_some(MORE);
        self.names.iter().map(String::as_str).chain(more).collect::<Vec<_>>().join(", ")
    }

    fn add<'k>(&mut self, path: &FieldPath<'_>, known: impl Iterator<Item = &'k String>) {
        // What is sent may have thousands of names that nobody knows.
        if self.has_more {
            return;
        }
        if !self.seen.insert(path.text(false)) {
            return;
        }
        if self.names.len() == NAMES_MAX {
            self.has_more = true;
            return;
        }
        if self.names.is_empty() {
            self.known = known.cloned().collect();
        }
        self.names.push(path.text(true));
    }

    /// The refusal of a caller who wants no name to be ignored.
    fn refusal(&self) -> Error {
        let known = match self.known.is_empty() {
            true => "there are none here".to_owned(),
            false => format!("known are {}", self.known.join(", ")),
        };
        let first = self.names.first().map_or("", String::as_str);
        let others = match self.names.get(1..).unwrap_or_default() {
            [] => String::new(),
            others => format!(" Nor is any of {}.", others.join(", ")),
        };
        Error::new(Code::InvalidInput).message(format!("{first}: is not known; {known}.{others}"))
    }
}

/// Where in a body something stands.
enum FieldPath<'p> {
    Root,
    Member(&'p FieldPath<'p>, &'p str),
    Element(&'p FieldPath<'p>, usize),
}

impl FieldPath<'_> {
    /// As errors write it: `jobs[3].options.headers`.
    fn text(&self, with_positions: bool) -> String {
        match self {
            FieldPath::Root => String::new(),
            FieldPath::Member(FieldPath::Root, name) => plain(name),
            FieldPath::Member(parent, name) => format!("{}.{}", parent.text(with_positions), plain(name)),
            FieldPath::Element(parent, at) if with_positions => format!("{}[{at}]", parent.text(true)),
            FieldPath::Element(parent, _) => format!("{}[]", parent.text(false)),
        }
    }
}

/// A caller's name as a header can carry it: what is not plain is percent-encoded, and a long one is cut.
fn plain(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if text.len() >= NAME_BYTES_MAX {
            text.push_str(MORE);
            break;
        }
        match byte {
            b',' | b'%' => {
                let _ = write!(text, "%{byte:02X}");
            }
            _ if byte.is_ascii_graphic() => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

impl KnownFields {
    /// What every operation of an OpenAPI document knows.
    pub fn of(document: &Value) -> KnownFields {
        let mut reader = SchemaReader { document, shapes: vec![FieldShape::Any], named: HashMap::new() };
        let mut operations = HashMap::new();
        let paths = document["paths"].as_object().into_iter().flatten();
        for operation in paths.flat_map(|(_, path)| path.as_object().into_iter().flatten()).map(|(_, o)| o) {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let query = parameters.filter(|parameter| parameter["in"] == "query");
            let query = query.filter_map(|parameter| Some((parameter["name"].as_str()?.to_owned(), ())));
            let schema = operation.pointer("/requestBody/content/application~1json/schema");
            let known =
                OperationFields { query: query.collect(), body: schema.map(|schema| reader.read(schema)) };
            operations.insert(operation["operationId"].as_str().unwrap_or_default().to_owned(), known);
        }
        KnownFields { operations, shapes: reader.shapes }
    }

    /// Notes the parameters of a query string that the operation does not have.
    pub fn check_query(&self, operation: &str, query: &str, ignored: &mut IgnoredFields) {
        let Some(known) = self.operations.get(operation) else { return };
        for (name, _) in url::form_urlencoded::parse(query.as_bytes()) {
            if !known.query.contains_key(&*name) {
                ignored.add(&FieldPath::Member(&FieldPath::Root, &name), known.query.keys());
            }
        }
    }

    /// Notes the members of a body that the operation does not have.
    pub fn check_body(&self, operation: &str, body: &Value, ignored: &mut IgnoredFields) {
        if let Some(shape) = self.operations.get(operation).and_then(|known| known.body) {
            self.walk(shape, body, &FieldPath::Root, ignored);
        }
    }

    fn walk(&self, shape: usize, value: &Value, path: &FieldPath<'_>, ignored: &mut IgnoredFields) {
        match (&self.shapes[shape], value) {
            (FieldShape::Object { members, others }, Value::Object(given)) => {
                for (name, value) in given {
                    let path = FieldPath::Member(path, name);
                    match members.get(name).or(others.as_ref()) {
                        Some(shape) => self.walk(*shape, value, &path, ignored),
                        None => ignored.add(&path, members.keys()),
                    }
                }
            }
            (FieldShape::Array(element), Value::Array(given)) => {
                for (at, value) in given.iter().enumerate() {
                    self.walk(*element, value, &FieldPath::Element(path, at), ignored);
                }
            }
            (FieldShape::Tagged { tag, variants }, Value::Object(given)) => {
                let variant = given.get(tag).and_then(Value::as_str).and_then(|tag| variants.get(tag));
                // What is none of them is refused by whoever reads it.
                if let Some(shape) = variant {
                    self.walk(*shape, value, path, ignored);
                }
            }
            (FieldShape::Choice(choices), _) => {
                // The one that it fits; of several the one that knows it best.
                let fitting = choices.iter().filter(|choice| self.fits(**choice, value));
                let best = fitting.min_by_key(|choice| {
                    let mut ignored = IgnoredFields::default();
                    self.walk(**choice, value, path, &mut ignored);
                    ignored.seen.len()
                });
                if let Some(shape) = best {
                    self.walk(*shape, value, path, ignored);
                }
            }
            _ => {}
        }
    }

    fn fits(&self, shape: usize, value: &Value) -> bool {
        match (&self.shapes[shape], value) {
            (FieldShape::Object { .. } | FieldShape::Tagged { .. }, Value::Object(_)) => true,
            (FieldShape::Array(_), Value::Array(_)) => true,
            (FieldShape::Choice(choices), _) => choices.iter().any(|choice| self.fits(*choice, value)),
            _ => false,
        }
    }
}

/// Schemas while they are read; each named one once, so that one may contain itself.
struct SchemaReader<'d> {
    document: &'d Value,
    shapes: Vec<FieldShape>,
    named: HashMap<&'d str, usize>,
}

/// The place of [`FieldShape::Any`].
const ANY: usize = 0;

impl<'d> SchemaReader<'d> {
    fn read(&mut self, schema: &'d Value) -> usize {
        if let Some(reference) = schema["$ref"].as_str() {
            if let Some(known) = self.named.get(reference) {
                return *known;
            }
            let place = self.add(FieldShape::Any);
            self.named.insert(reference, place);
            let target = self.document.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
            let shape = self.shape(target);
            self.shapes[place] = shape;
            return place;
        }
        match self.shape(schema) {
            FieldShape::Any => ANY,
            shape => self.add(shape),
        }
    }

    fn add(&mut self, shape: FieldShape) -> usize {
        self.shapes.push(shape);
        self.shapes.len() - 1
    }

    fn shape(&mut self, schema: &'d Value) -> FieldShape {
        if let (Some(tag), Some(mapping)) = (
            schema.pointer("/discriminator/propertyName").and_then(Value::as_str),
            schema.pointer("/discriminator/mapping").and_then(Value::as_object),
        ) {
            let choices = schema["oneOf"].as_array().into_iter().flatten();
            let of_name = |name: &Value| choices.clone().find(|choice| choice["$ref"] == *name);
            let variants = mapping.iter().filter_map(|(tag, name)| Some((tag.clone(), of_name(name)?)));
            let variants: Vec<_> = variants.collect();
            let variants = variants.into_iter().map(|(tag, choice)| (tag, self.read(choice))).collect();
            return FieldShape::Tagged { tag: tag.to_owned(), variants };
        }
        for several in ["anyOf", "oneOf", "allOf"] {
            if let Some(choices) = schema[several].as_array() {
                return FieldShape::Choice(choices.iter().map(|choice| self.read(choice)).collect());
            }
        }
        if schema["items"].is_object() {
            return FieldShape::Array(self.read(&schema["items"]));
        }
        let others = match &schema["additionalProperties"] {
            Value::Null | Value::Bool(false) => None,
            others => Some(self.read(others)),
        };
        match (schema["properties"].as_object(), others) {
            (None, None) => FieldShape::Any,
            (members, others) => {
                let members = members.into_iter().flatten();
                let members = members.map(|(name, schema)| (name.clone(), self.read(schema))).collect();
                FieldShape::Object { members, others }
            }
        }
    }
}

/// Whether the caller wants unknown names to be refused. Of several handlings the first counts (RFC 7240, 2).
pub fn is_strict(headers: &HeaderMap) -> bool {
    let lines = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let handling = lines.flat_map(|line| line.split(',')).find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("handling").then(|| value.trim().trim_matches('"'))
    });
    handling.is_some_and(|handling| handling.eq_ignore_ascii_case("strict"))
}

/// Refuses what was noted, if the caller wants that.
pub fn refuse(ignored: &IgnoredFields, strict: bool) -> Result<()> {
    if strict && !ignored.is_empty() { Err(ignored.refusal()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use serde_json::json;

    fn document() -> Value {
        let node = |kind: &str, config: Value| {
            json!({ "type": "object", "properties": {
                "type": { "type": "string", "enum": [kind] }, "config": config, "next": { "$ref": "#/s/Node" },
            }})
        };
        json!({
            "paths": { "/a": { "post": {
                "operationId": "a",
                "parameters": [{ "name": "limit", "in": "query" }, { "name": "X-A", "in": "header" }],
                "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/s/New" } } } },
            }}},
            "s": {
                "New": { "type": "object", "properties": {
                    "name": { "type": "string" },
                    "free": { "type": "object", "additionalProperties": {} },
                    "map": { "type": "object", "additionalProperties": { "$ref": "#/s/Price" } },
                    "price": { "anyOf": [{ "$ref": "#/s/Price" }, { "type": "null" }] },
                    "entries": { "type": "array", "items": { "anyOf": [{ "type": "string" }, { "$ref": "#/s/Price" }] } },
                    "nodes": { "type": ["array", "null"], "items": { "$ref": "#/s/Node" } },
                }},
                "Price": { "type": "object", "properties": { "plain": { "type": "integer" } } },
                "Node": {
                    "oneOf": [{ "$ref": "#/s/A" }, { "$ref": "#/s/B" }],
                    "discriminator": { "propertyName": "type", "mapping": { "a": "#/s/A", "b": "#/s/B" } },
                },
                "A": node("a", json!({ "type": "object", "properties": { "ms": {} } })),
                "B": node("b", json!({ "type": "object", "properties": { "retries": {} } })),
            },
        })
    }

    fn ignored(body: Value) -> String {
        let mut ignored = IgnoredFields::default();
        KnownFields::of(&document()).check_body("a", &body, &mut ignored);
        ignored.header()
    }

    #[test]
    fn members_are_named_by_their_path() {
        assert_eq!(ignored(json!({ "name": "x", "free": { "a": { "b": 1 } }, "price": null })), "");
        assert_eq!(ignored(json!({ "nmae": null, "name": "x" })), "nmae");
        assert_eq!(
            ignored(json!({ "price": { "plan": 1 }, "map": { "gold": { "plian": 1 } } })),
            "price.plan, map.gold.plian"
        );
        assert_eq!(
            ignored(json!({ "entries": ["x", { "plain": 1 }, { "tag": 1 }, { "tag": 1, "t": 2 }] })),
            "entries[2].tag, entries[3].t"
        );
        let nodes = json!({ "nodes": [
            { "type": "a", "config": { "ms": 1, "retries": 1 } },
            { "type": "b", "config": { "retires": 1 }, "next": { "type": "a", "x": 1 } },
            { "type": "c", "y": 1 },
        ] });
        assert_eq!(ignored(nodes), "nodes[0].config.retries, nodes[1].config.retires, nodes[1].next.x");
        assert_eq!(ignored(json!([1])), "");
    }

    #[test]
    fn what_a_caller_calls_things_is_bounded_and_plain() {
        assert_eq!(ignored(json!({ "a,b\r\nc: ü": 1 })), "a%2Cb%0D%0Ac:%20%C3%BC");
        let long = ignored(json!({ ("x".repeat(5_000)): 1 }));
        assert_eq!(long, format!("{}...", "x".repeat(64)));
        let many: Value =
            (0..500).map(|n| (format!("n{n:03}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
        let many = ignored(many);
        assert!(many.starts_with("n000, n001, ") && many.ends_with(", n019, ..."), "{many}");
        let same = json!({ "entries": vec![json!({ "tag": 1 }); 10_000] });
        assert_eq!(ignored(same), "entries[0].tag");
    }

    #[test]
    fn a_strict_caller_is_told_the_known_ones() {
        let known = KnownFields::of(&document());
        let mut ignored = IgnoredFields::default();
        known.check_query("a", "limit=1&limt=2&x=&limt=3", &mut ignored);
        assert_eq!(ignored.header(), "limt, x");
        assert!(refuse(&ignored, false).is_ok());
        let refused = refuse(&ignored, true).unwrap_err();
        assert_eq!(refused.detail(), Some("limt: is not known; known are limit. Nor is any of x."));
        let mut ignored = IgnoredFields::default();
        known.check_query("of no document", "x=1", &mut ignored);
        assert!(ignored.is_empty() && refuse(&ignored, true).is_ok());
    }

    #[test]
    fn preferences_are_read_as_the_rfc_writes_them() {
        let strict = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("prefer", HeaderValue::from_static(line));
            }
            is_strict(&headers)
        };
        for yes in [&["handling=strict"][..], &["respond-async, wait=10", "Handling = \"strict\"; x=y"]] {
            assert!(strict(yes), "{yes:?}");
        }
        for no in [&[][..], &["handling=lenient, handling=strict"], &["strict"], &["handling"]] {
            assert!(!strict(no), "{no:?}");
        }
    }
}
