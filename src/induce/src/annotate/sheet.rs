//! What an annotator looks at: a page's short visible texts in order, with what stands around them.

use page::extract::collapse_space;
use page::html::{AttrId, Document, NodeId};

use crate::forms::fold;
use crate::places::Page;

/// Texts of one page that are looked at.
const TEXTS_MAX: usize = 20_000;
/// Bytes of the longest text that can be a value or a label.
pub const TEXT_BYTES_MAX: usize = 160;
/// Bytes of an element's names that are looked at.
const NAMES_BYTES_MAX: usize = 240;

/// Beside what the page is about.
const BESIDE: u8 = 1;
/// Struck through, or said to be what was asked before.
const STRUCK: u8 = 2;

/// Parts of names of what stands beside the content, and of what it is about.
const BESIDE_WORDS: &[&str] = &[
    "footer",
    "navbar",
    "navigation",
    "menu",
    "related",
    "recommend",
    "similar",
    "crosssell",
    "cross-sell",
    "upsell",
    "up-sell",
    "recently",
    "also-",
    "sponsor",
    "cookie",
    "consent",
    "minicart",
    "mini-cart",
    "minibasket",
    "comments",
    "sidebar",
    "newsletter",
    "bundle",
    "accessor",
    "advert",
    "suggest",
];
/// Parts of names of prices that are no longer asked, and of other amounts.
const STRUCK_WORDS: &[&str] = &[
    "old",
    "was",
    "strike",
    "struck",
    "crossed",
    "line-through",
    "list-price",
    "listprice",
    "rrp",
    "msrp",
    "regular",
    "before",
    "compare",
    "original",
    "saving",
    "save",
    "discount",
    "shipping",
    "delivery",
    "unit",
    "per-",
    "install",
    "month",
    "loyalty",
    "points",
    "basis",
    "prev",
];

/// A visible text.
#[derive(Debug)]
pub struct Shown {
    pub node: NodeId,
    /// The element that it stands in.
    pub holder: NodeId,
    pub text: String,
}

/// A page as annotators read it.
pub struct Sheet<'a> {
    pub page: Page<'a>,
    /// Texts of at most [`TEXT_BYTES_MAX`], in order.
    pub texts: Vec<Shown>,
    /// The element that names what the page is about.
    pub heading: Option<NodeId>,
    /// Letters of longer texts.
    pub prose: usize,
    flags: Vec<u8>,
}

/// An element's class, id and the like in lower case, with spaces between.
pub fn names(document: &Document, element: NodeId) -> String {
    let mut found = String::new();
    for attribute in document.attributes(element).take(24).map(AttrId) {
        let name = document.attr_name(attribute);
        let is_name = matches!(name, "class" | "id" | "rel" | "role" | "itemprop" | "aria-label")
            || name.starts_with("data-") && (name.contains("test") || name.contains("qa"));
        let value = document.attr_value(attribute);
        if is_name && value.len() <= NAMES_BYTES_MAX && found.len() < NAMES_BYTES_MAX {
            found.push_str(&value.to_lowercase());
            found.push(' ');
        }
    }
    found
}

pub fn says_one_of(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Whether an element is named or tagged as what surrounds the content. What holds most of the page surrounds nothing.
pub fn says_beside(document: &Document, element: NodeId) -> bool {
    let tag = document.name(element);
    if matches!(tag, "html" | "body" | "main" | "td" | "table" | "a") {
        return false;
    }
    let is_named = || says_one_of(&names(document, element), BESIDE_WORDS);
    let nodes = (document.subtree_end(element).0 - element.0) as usize;
    (matches!(tag, "nav" | "footer" | "aside" | "header") || is_named()) && 2 * nodes < document.node_count()
}

/// Whether an element shows what is no longer asked, or another amount than the price.
pub fn says_struck(document: &Document, element: NodeId) -> bool {
    matches!(document.name(element), "del" | "s" | "strike")
        || says_one_of(&names(document, element), STRUCK_WORDS)
}

impl<'a> Sheet<'a> {
    pub fn new(page: Page<'a>) -> Sheet<'a> {
        let document = page.document;
        let heading = heading(document);
        let mut sheet =
            Sheet { page, texts: Vec::new(), heading, prose: 0, flags: vec![0; document.node_count()] };
        let end = document.subtree_end(Document::ROOT);
        let mut at = NodeId(1);
        while at < end {
            if document.is_hidden_element(at) {
                at = document.subtree_end(at);
                continue;
            }
            let above = document.parent(at).map_or(0, |parent| sheet.flags[parent.0 as usize]);
            sheet.flags[at.0 as usize] = above;
            if document.is_element(at) {
                sheet.flags[at.0 as usize] |= sheet.own_flags(at);
            } else if document.is_text(at) {
                sheet.take(at);
            }
            at = NodeId(at.0 + 1);
        }
        sheet
    }

    fn own_flags(&self, element: NodeId) -> u8 {
        let document = self.page.document;
        let has_heading =
            self.heading.is_some_and(|heading| element <= heading && heading < document.subtree_end(element));
        let tag = document.name(element);
        let mut flags = if matches!(tag, "del" | "s" | "strike") { STRUCK } else { 0 };
        if matches!(tag, "nav" | "footer" | "aside" | "select") && !has_heading {
            flags |= BESIDE;
        }
        let names = names(document, element);
        if !names.is_empty() && !has_heading {
            flags |= if says_one_of(&names, BESIDE_WORDS) { BESIDE } else { 0 };
            flags |= if says_one_of(&names, STRUCK_WORDS) { STRUCK } else { 0 };
        }
        flags
    }

    fn take(&mut self, node: NodeId) {
        let document = self.page.document;
        let raw = document.text(node).trim();
        if raw.is_empty() || self.texts.len() == TEXTS_MAX {
            return;
        }
        if raw.len() > TEXT_BYTES_MAX {
            self.prose += raw.len();
            return;
        }
        let holder = document.parent(node).unwrap_or(Document::ROOT);
        self.texts.push(Shown { node, holder, text: collapse_space(raw).into_owned() });
    }

    pub fn is_beside(&self, node: NodeId) -> bool {
        self.flags[node.0 as usize] & BESIDE != 0
    }

    pub fn is_struck(&self, node: NodeId) -> bool {
        self.flags[node.0 as usize] & STRUCK != 0
    }

    /// How many texts stand between the heading and a node, and whether the node is behind it.
    pub fn distance(&self, node: NodeId) -> (usize, bool) {
        let place = |node: NodeId| self.texts.partition_point(|shown| shown.node < node);
        let heading = self.heading.map_or(0, place);
        let at = place(node);
        (at.abs_diff(heading), at >= heading)
    }

    /// The names of an element and of the two around it.
    pub fn names_around(&self, element: NodeId) -> String {
        let document = self.page.document;
        let around = std::iter::successors(Some(element), |node| document.parent(*node));
        around.take(3).filter(|node| document.is_element(*node)).map(|node| names(document, node)).collect()
    }

    /// The heading's text.
    pub fn title(&self) -> Option<String> {
        let text = collapse_space(self.page.document.string_value(self.heading?)).trim().to_owned();
        (!text.is_empty() && text.len() <= 400).then_some(text)
    }
}

/// The first heading whose text the page's `<title>` has; else the first `h1`.
fn heading(document: &Document) -> Option<NodeId> {
    let title = document.title().and_then(|title| fold(&title)).unwrap_or_default();
    let all = |name: &str| -> Vec<NodeId> {
        let named = document.lookup_name(name);
        named.map(|name| document.elements_named(name).take(12).collect()).unwrap_or_default()
    };
    let text = |node: &NodeId| document.string_value(*node).trim();
    let first: Vec<NodeId> = all("h1").into_iter().filter(|node| !text(node).is_empty()).collect();
    let is_titled = |node: &&NodeId| {
        let own = text(node);
        own.len() <= 400
            && fold(own).is_some_and(|own| {
                own.len() > 3 && (title.contains(&own) || title.len() > 9 && own.contains(&title))
            })
    };
    let others = || all("h2").into_iter().find(|node| is_titled(&node));
    first.iter().find(is_titled).copied().or_else(|| first.first().copied()).or_else(others)
}
