//! What a language model is shown of a page: its elements with what XPaths can hang on, and the beginnings of their texts.

use page::extract::collapse_space;
use page::html::{AttrId, Document, NodeId};

/// Bytes of one outline, of one text and of one attribute.
const OUTLINE_BYTES_MAX: usize = 20 << 10;
const TEXT_BYTES_MAX: usize = 100;
const ATTRIBUTE_BYTES_MAX: usize = 80;
/// Levels that are shown as such: pages nest wrappers within wrappers.
const LEVELS_MAX: usize = 20;
/// Attributes that are worth their bytes.
const SHOWN: [&str; 10] =
    ["id", "class", "itemprop", "property", "rel", "href", "src", "datetime", "data-testid", "content"];

/// An outline within its bytes; the same of the same page.
pub fn outline(document: &Document) -> String {
    let mut lines = String::new();
    let end = document.subtree_end(Document::ROOT);
    let (mut at, mut open) = (NodeId(1), Vec::<NodeId>::new());
    while at < end && lines.len() < OUTLINE_BYTES_MAX {
        if document.is_hidden_element(at) || is_drawing(document, at) {
            at = document.subtree_end(at);
            continue;
        }
        while open.last().is_some_and(|last| document.subtree_end(*last) <= at) {
            open.pop();
        }
        let indent = " ".repeat(open.len().min(LEVELS_MAX));
        if document.is_text(at) {
            let text = collapse_space(document.text(at).trim()).into_owned();
            if !text.is_empty() {
                lines.push_str(&format!("{indent}{}\n", cut(&text, TEXT_BYTES_MAX)));
            }
        } else if document.is_element(at) {
            let line = element(document, at);
            // What has neither a name to hang on nor a text of its own only nests.
            if line.contains(' ') || has_text(document, at) {
                lines.push_str(&format!("{indent}<{line}>\n"));
                open.push(at);
            }
        }
        at = NodeId(at.0 + 1);
    }
    cut(&lines, OUTLINE_BYTES_MAX).to_owned()
}

fn is_drawing(document: &Document, node: NodeId) -> bool {
    document.is_element(node) && matches!(document.name(node), "svg" | "link" | "iframe")
}

fn has_text(document: &Document, node: NodeId) -> bool {
    document.children(node).any(|child| document.is_text(child) && !document.text(child).trim().is_empty())
}

fn element(document: &Document, node: NodeId) -> String {
    let mut line = document.name(node).to_owned();
    for attribute in document.attributes(node).take(40).map(AttrId) {
        let name = document.attr_name(attribute);
        let value = document.attr_value(attribute).trim();
        if SHOWN.contains(&name) && !value.is_empty() {
            line.push_str(&format!(" {name}={:?}", cut(value, ATTRIBUTE_BYTES_MAX)));
        }
    }
    line
}

/// The beginning of a text.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_shows_what_xpaths_hang_on() {
        let document = Document::parse(
            "<title>T</title><style>p{}</style><div><div class=price>12,90 €<b>net</b></div></div><script>x()</script>"
                .to_owned(),
        );
        let shown = outline(&document);
        assert!(shown.contains("<div class=\"price\">\n 12,90 €\n <b>\n  net\n"), "{shown}");
        assert!(!shown.contains("x()") && !shown.contains("p{}"));
    }

    #[test]
    fn a_large_page_has_a_small_outline() {
        for page in ["<p>ä</p>".repeat(300_000), "<div class=a>".repeat(300_000), "ü".repeat(3_000_000)] {
            assert!(outline(&Document::parse(page)).len() <= OUTLINE_BYTES_MAX);
        }
    }
}
