//! A page as it would be if it said nothing about itself.

use induce::is_linked_data;
use page::html::{AttrId, Document, NodeId, NodeKind};

/// The page as HTML without its structured data: linked data, `<meta>`, and the attributes of microdata and RDFa.
pub fn without_answer_key(document: &Document) -> String {
    let mut out = String::from("<!DOCTYPE html>");
    let mut open: Vec<(NodeId, String)> = Vec::new();
    let mut at = NodeId(1);
    let end = document.subtree_end(Document::ROOT);
    while at < end {
        while open.last().is_some_and(|(end, _)| *end <= at) {
            let (_, name) = open.pop().expect("there is one");
            out.push_str(&format!("</{name}>"));
        }
        let name = document.name(at);
        let next = NodeId(at.0 + 1);
        match document.kind(at) {
            NodeKind::Element if name == "meta" || name == "script" && is_linked_data(document, at) => {
                at = document.subtree_end(at);
                continue;
            }
            NodeKind::Element => {
                out.push_str(&format!("<{name}"));
                for attribute in document.attributes(at).map(AttrId) {
                    let own = document.attr_name(attribute);
                    let is_key =
                        own.starts_with("item") || matches!(own, "property" | "typeof" | "vocab" | "content");
                    if !is_key {
                        let value =
                            document.attr_value(attribute).replace('&', "&amp;").replace('"', "&quot;");
                        out.push_str(&format!(" {own}=\"{value}\""));
                    }
                }
                out.push('>');
                let is_void = matches!(
                    name,
                    "img"
                        | "br"
                        | "hr"
                        | "input"
                        | "link"
                        | "source"
                        | "area"
                        | "base"
                        | "wbr"
                        | "col"
                        | "embed"
                        | "track"
                        | "param"
                );
                if !is_void {
                    open.push((document.subtree_end(at), name.to_owned()));
                }
            }
            NodeKind::Text => {
                let is_raw = document.parent(at).is_some_and(|node| {
                    matches!(
                        document.name(node),
                        "script" | "style" | "iframe" | "noembed" | "noframes" | "xmp"
                    )
                });
                let text = document.text(at);
                out.push_str(&if is_raw {
                    text.to_owned()
                } else {
                    text.replace('&', "&amp;").replace('<', "&lt;")
                });
            }
            _ => {}
        }
        at = next;
    }
    while let Some((_, name)) = open.pop() {
        out.push_str(&format!("</{name}>"));
    }
    out
}
