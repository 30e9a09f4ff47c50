//! Microdata and RDFa: items that a page's own elements are marked with. The two differ in the names of their attributes.

use page::extract::collapse_space;
use page::html::{Document, NameId, NodeId};

use super::items::{Items, Said};

/// The attributes of a syntax: what begins an item and what names a property.
pub struct Syntax {
    scope: &'static str,
    kind: &'static str,
    property: &'static str,
}

pub const MICRODATA: Syntax = Syntax { scope: "itemscope", kind: "itemtype", property: "itemprop" };
pub const RDFA: Syntax = Syntax { scope: "typeof", kind: "typeof", property: "property" };

/// Bytes of one property's text.
const TEXT_BYTES_MAX: usize = 32 << 10;
/// Bytes of all properties' texts of a page: items within items repeat what they hold.
const TEXTS_BYTES_MAX: usize = 4 << 20;

/// Adds what the elements of a page are marked with.
pub fn read(document: &Document, syntax: &Syntax, items: &mut Items) {
    let look = |name: &str| document.lookup_name(name);
    let Some(scope) = look(syntax.scope) else { return };
    let (kind, property) = (look(syntax.kind), look(syntax.property));
    let mut room = TEXTS_BYTES_MAX;
    // Items that are open where the walk stands, with the end of their elements.
    let mut open: Vec<(NodeId, usize)> = Vec::new();
    for node in document.descendants(Document::ROOT) {
        while open.last().is_some_and(|(end, _)| *end <= node) {
            open.pop();
        }
        if document.attributes(node).is_empty() {
            continue;
        }
        let attribute = |name: Option<NameId>| name.and_then(|name| document.attribute(node, name));
        let names = attribute(property).unwrap_or_default();
        let owner = open.last().map(|(_, item)| *item);
        let inner = match document.attribute(node, scope) {
            Some(_) => items.add(attribute(kind).unwrap_or_default()),
            None => None,
        };
        for name in names.split_ascii_whitespace().take(4) {
            let Some(owner) = owner else { break };
            match inner {
                Some(inner) => items.say(owner, name, Said::Item(inner)),
                None => {
                    let text = text_of(document, node);
                    let Some(left) = room.checked_sub(text.len()) else { return };
                    room = left;
                    items.say(owner, name, Said::Text(text));
                }
            }
        }
        if let Some(inner) = inner {
            open.push((document.subtree_end(node), inner));
        }
    }
}

/// What a marked element says (HTML, "values"): `content`, the address or machine form that its kind of element has, else its text.
fn text_of(document: &Document, node: NodeId) -> String {
    let value = |name: &str| document.attribute_named(node, name);
    let own = match document.name(node) {
        "a" | "area" | "link" => value("href"),
        "img" | "source" | "video" | "audio" | "embed" | "iframe" => {
            value("src").or_else(|| value("data-src"))
        }
        "object" => value("data"),
        "data" | "meter" => value("value"),
        "time" => value("datetime"),
        _ => None,
    };
    if let Some(said) = value("content").or(own) {
        return said.trim().to_owned();
    }
    let text = document.string_value(node);
    if text.len() > TEXT_BYTES_MAX { String::new() } else { collapse_space(text).into_owned() }
}
