//! What a page has where, counted once: a range of nodes is then weighed by two look-ups.

use std::collections::HashMap;

use page::html::{AttrId, Document, NodeId};

use crate::annotate::{has_sign, says_beside};
use crate::places::Page;

/// Nodes of a page that are looked at; what stands behind them is no part of any list.
const NODES_MAX: usize = 300_000;
/// Letters that one text counts at most: an essay does not weigh as much as a list of forty.
const TEXT_CHARS_MAX: u32 = 2_000;
/// Bytes of the longest text that is an amount of money.
pub const AMOUNT_BYTES_MAX: usize = 40;
/// Names of one element that can tell it from others of its path.
const NAMES_MAX: usize = 6;
/// Bytes of one such name.
const NAME_BYTES_MAX: usize = 64;

/// A run of sibling nodes with all that is below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

/// What stands in a span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub chars: u32,
    pub link_chars: u32,
    pub links: u32,
    pub images: u32,
    pub amounts: u32,
}

/// A page, surveyed.
pub struct Survey<'a> {
    pub page: Page<'a>,
    /// Nodes that are looked at have smaller numbers.
    pub end: u32,
    /// Of each element the tags from the root to it, as one number; 0 where it is hidden.
    paths: Vec<u64>,
    /// Before each node, from the start of the page.
    before: Vec<Counts>,
    /// Whether an element stands in what surrounds the content: navigation, footers, columns beside it.
    beside: Vec<bool>,
}

/// One number out of two.
pub fn mixed(a: u64, b: u64) -> u64 {
    let x = (a.rotate_left(5) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 29
}

/// A number for a text.
pub fn number_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| mixed(sum, u64::from(byte)))
}

impl<'a> Survey<'a> {
    pub fn new(page: Page<'a>) -> Survey<'a> {
        let document = page.document;
        let count = document.node_count().min(NODES_MAX);
        let mut paths = vec![0_u64; count];
        let mut beside = vec![false; count];
        let mut before = Vec::with_capacity(count + 1);
        let mut sum = Counts::default();
        let (mut hidden_end, mut link_end) = (0_u32, 0_u32);
        for at in 0..count as u32 {
            before.push(sum);
            let node = NodeId(at);
            if at < hidden_end {
                continue;
            }
            if document.is_text(node) {
                let text = document.text(node);
                let chars = text.chars().filter(|c| c.is_alphanumeric()).take(TEXT_CHARS_MAX as usize);
                let chars = chars.count() as u32;
                sum.chars += chars;
                sum.link_chars += if at < link_end { chars } else { 0 };
                sum.amounts += u32::from(is_amount(text));
                continue;
            }
            let parent = document.parent(node).map_or(0, |parent| parent.0 as usize);
            if !document.is_element(node) {
                continue;
            }
            if is_unseen(document, node) {
                hidden_end = document.subtree_end(node).0;
                continue;
            }
            paths[at as usize] = mixed(paths[parent].max(1), number_of(document.name(node)));
            beside[at as usize] = beside[parent] || says_beside(document, node);
            match document.name(node) {
                "a" if href(document, node).is_some() => {
                    sum.links += 1;
                    link_end = document.subtree_end(node).0;
                }
                "img" | "picture" => sum.images += 1,
                _ => {}
            }
        }
        before.push(sum);
        Survey { page, end: count as u32, paths, before, beside }
    }

    /// What stands in a span.
    pub fn counts(&self, span: Span) -> Counts {
        let at = |node: u32| self.before[node.min(self.end) as usize];
        let (from, to) = (at(span.start), at(span.end));
        Counts {
            chars: to.chars - from.chars,
            link_chars: to.link_chars - from.link_chars,
            links: to.links - from.links,
            images: to.images - from.images,
            amounts: to.amounts - from.amounts,
        }
    }

    /// What stands on the whole page.
    pub fn whole(&self) -> Counts {
        self.counts(Span { start: 0, end: self.end })
    }

    /// The span of one node.
    pub fn span(&self, node: u32) -> Span {
        Span { start: node, end: self.page.document.subtree_end(NodeId(node)).0.min(self.end) }
    }

    /// The tags that lead to an element; none for what is no element that can be seen.
    pub fn path(&self, node: u32) -> Option<u64> {
        self.paths.get(node as usize).copied().filter(|path| *path != 0)
    }

    pub fn is_beside(&self, node: u32) -> bool {
        self.beside.get(node as usize).copied().unwrap_or(false)
    }

    /// The elements of a span that can be seen, in order.
    pub fn elements(&self, span: Span) -> impl Iterator<Item = u32> + '_ {
        (span.start..span.end.min(self.end)).filter(|node| self.paths[*node as usize] != 0)
    }
}

/// Whether an element shows nothing to a reader.
fn is_unseen(document: &Document, node: NodeId) -> bool {
    let by_style = || {
        document.attribute_named(node, "hidden").is_some()
            || document.attribute_named(node, "style").is_some_and(|style| {
                style.len() < 400 && style.to_ascii_lowercase().replace(' ', "").contains("display:none")
            })
    };
    document.is_hidden_element(node)
        || matches!(document.name(node), "head" | "svg" | "select" | "textarea" | "iframe")
        || by_style()
}

/// Where a link leads, if it leads somewhere.
pub fn href(document: &Document, node: NodeId) -> Option<&str> {
    let href = document.attribute_named(node, "href")?.trim();
    let leads = !href.is_empty()
        && !href.starts_with('#')
        && !href.get(..11).is_some_and(|front| front.eq_ignore_ascii_case("javascript:"));
    leads.then_some(href)
}

/// Whether a text is a number beside a sign of currency and hardly more.
pub fn is_amount(text: &str) -> bool {
    text.len() <= AMOUNT_BYTES_MAX && text.bytes().any(|byte| byte.is_ascii_digit()) && has_sign(text)
}

/// What an element is called by: classes, `itemprop`, roles and names for tests.
pub fn names_of(document: &Document, node: NodeId) -> Vec<&str> {
    let mut found = Vec::new();
    for attribute in document.attributes(node).take(24).map(AttrId) {
        let value = document.attr_value(attribute);
        let takes = match document.attr_name(attribute) {
            "class" | "itemprop" => value,
            "role" | "itemtype" | "data-component-type" | "data-testid" | "data-test" | "data-qa" => {
                value.trim()
            }
            _ => continue,
        };
        let tokens = takes.split_ascii_whitespace().take(NAMES_MAX);
        found.extend(tokens.filter(|token| (2..=NAME_BYTES_MAX).contains(&token.len())));
    }
    found.truncate(NAMES_MAX);
    found
}

/// Groups numbers by key, in the order of the keys' first numbers, so that nothing depends on hashing.
pub fn grouped(pairs: impl Iterator<Item = (u64, u32)>) -> Vec<Vec<u32>> {
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (key, number) in pairs {
        let next = groups.len();
        let at = *places.entry(key).or_insert(next);
        if at == next {
            groups.push(Vec::new());
        }
        groups[at].push(number);
    }
    groups
}
