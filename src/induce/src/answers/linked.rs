//! JSON-LD: the objects of `<script type="application/ld+json">` as items.

use page::html::{Document, NodeId, names};
use serde_json::{Map, Value as Json};

use super::items::{Items, Said};

/// How deep objects are followed.
const DEPTH_MAX: usize = 24;
/// Bytes of all blocks of a page.
const BLOCK_BYTES_MAX: usize = 2 << 20;

/// Adds what a page's linked data says.
pub fn read(document: &Document, items: &mut Items) {
    let mut room = BLOCK_BYTES_MAX;
    for script in document.elements_named(names::SCRIPT) {
        if !is_linked_data(document, script) {
            continue;
        }
        let text = document.string_value(script);
        let Some(left) = room.checked_sub(text.len()) else { continue };
        room = left;
        if let Some(json) = parse(text) {
            Reader { items }.read(&json, 0);
        }
    }
}

/// Whether a script holds linked data.
pub fn is_linked_data(document: &Document, script: NodeId) -> bool {
    let kind = document.attribute_named(script, "type").unwrap_or_default();
    kind.get(..19).is_some_and(|kind| kind.eq_ignore_ascii_case("application/ld+json"))
}

/// The JSON of a block. Pages have line breaks inside their strings, comments around the whole and a semicolon behind it.
pub fn parse(text: &str) -> Option<Json> {
    let text = text.trim();
    let bare = ["<!--", "//<![CDATA[", "/*<![CDATA[*/", "<![CDATA["];
    let text = bare.iter().find_map(|front| text.strip_prefix(front)).unwrap_or(text);
    let back = ["-->", "//]]>", "/*]]>*/", "]]>", ";"];
    let text = back.iter().find_map(|back| text.trim_end().strip_suffix(back)).unwrap_or(text);
    let text = text.trim();
    serde_json::from_str(text).ok().or_else(|| {
        let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        serde_json::from_str(&plain).ok()
    })
}

struct Reader<'a> {
    items: &'a mut Items,
}

impl Reader<'_> {
    /// Reads a value that no property says.
    fn read(&mut self, json: &Json, depth: usize) {
        match json {
            Json::Array(members) if depth < DEPTH_MAX => {
                members.iter().for_each(|member| self.read(member, depth + 1));
            }
            Json::Object(object) => {
                self.object(object, depth);
            }
            _ => {}
        }
    }

    fn object(&mut self, object: &Map<String, Json>, depth: usize) -> Option<usize> {
        if let Some(graph) = object.get("@graph") {
            self.read(graph, depth + 1);
        }
        let item = self.items.add(&types(object))?;
        self.items.items[item].id = object.get("@id").and_then(Json::as_str).map(str::to_owned);
        for (name, value) in object {
            if !name.starts_with('@') {
                self.say(item, name, value, depth + 1);
            }
        }
        Some(item)
    }

    fn say(&mut self, item: usize, name: &str, value: &Json, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Json::String(text) => self.items.say(item, name, Said::Text(text.clone())),
            Json::Number(number) => self.items.say(item, name, Said::Text(number.to_string())),
            Json::Array(members) => {
                members.iter().for_each(|member| self.say(item, name, member, depth + 1));
            }
            Json::Object(object) => match object.get("@value") {
                Some(value) => self.say(item, name, value, depth + 1),
                None => {
                    if let Some(inner) = self.object(object, depth) {
                        self.items.say(item, name, Said::Item(inner));
                    }
                }
            },
            Json::Bool(_) | Json::Null => {}
        }
    }
}

fn types(object: &Map<String, Json>) -> String {
    match object.get("@type") {
        Some(Json::String(kind)) => kind.clone(),
        Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}
