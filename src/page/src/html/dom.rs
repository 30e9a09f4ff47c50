//! The arena that a parsed page lives in.
//!
//! A document is a set of columns in document order: a node's number *is* its position, the descendants of `n` are
//! `n+1..subtree_end(n)`, and comparing two numbers compares document order. The parser makes the tree with links in a
//! [`Builder`]; [`Builder::finish`] walks it once in preorder and writes the columns.
//!
//! Text and attribute values are ranges over the page's own source; only what character references or replacement
//! changed lies in a side buffer. Both share one address space: the source first, then (one address apart, so that two
//! ranges never seem adjacent across the border) the side buffer.
//!
//! Absences: no recursion over the tree, no reference counting, no interior mutability but the side indexes, which are
//! built once when first asked for. A document can be shared between threads.

mod builder;
mod finish;
mod index;
pub mod names;

use std::ops::Range;
use std::sync::OnceLock;

pub use builder::{AttributeRow, Builder};
use index::{Postings, TokenIndex};
pub use names::NameId;
use names::NameTable;

/// "No such node" inside the columns.
const NONE: u32 = u32::MAX;

/// A node. Its number is its place in document order; 0 is the document node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// An attribute. Attributes of one element follow one another; numbers grow in document order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttrId(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeKind {
    Document,
    Element,
    Text,
    Comment,
    /// A processing instruction; `name` is its target, `text` its data.
    Pi,
    /// XPath knows no such node; `name` is its name.
    Doctype,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Namespace {
    #[default]
    Html,
    Svg,
    MathMl,
}

/// A limit that ended the parsing of a page before its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Budget {
    /// The source was longer than the caller allows; the rest was not read.
    SourceBytes,
    /// The tree grew beyond the nodes allowed for a source of this length.
    Nodes,
    /// Copied formatting elements carried more attributes than allowed for a source of this length.
    Attributes,
    /// Formatting elements were reopened more often than allowed for a source of this length; from there on the page was
    /// read to its end without reopening any.
    Formatting,
}

/// The public and system identifiers of a `<!DOCTYPE>`, where given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DoctypeIds {
    pub public: Option<String>,
    pub system: Option<String>,
}

/// What the tree construction rules call the document's mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum QuirksMode {
    #[default]
    NoQuirks,
    LimitedQuirks,
    Quirks,
}

/// Kind in bits 0-2, namespace in bits 3-4, flags above.
const KIND_MASK: u8 = 0b111;
const NAMESPACE_SHIFT: u8 = 3;
const FLAG_IMPLIED_TBODY: u8 = 1 << 5;

fn pack(kind: NodeKind, namespace: Namespace) -> u8 {
    kind as u8 | (namespace as u8) << NAMESPACE_SHIFT
}

fn unpack_kind(tag: u8) -> NodeKind {
    match tag & KIND_MASK {
        0 => NodeKind::Document,
        1 => NodeKind::Element,
        2 => NodeKind::Text,
        3 => NodeKind::Comment,
        4 => NodeKind::Pi,
        _ => NodeKind::Doctype,
    }
}

/// A range over source and side buffer; for elements, over attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

/// All descendant text, one after another: what lies before node `n` ends at `offsets[n]`.
#[derive(Debug)]
struct FlatText {
    text: String,
    offsets: Vec<u32>,
}

/// A parsed page. See the module page for what its numbers mean.
#[derive(Debug, Default)]
pub struct Document {
    source: String,
    side: String,
    names: NameTable,
    tags: Vec<u8>,
    node_names: Vec<NameId>,
    parents: Vec<u32>,
    ends: Vec<u32>,
    previous: Vec<u32>,
    lasts: Vec<u32>,
    spans: Vec<Span>,
    attribute_names: Vec<NameId>,
    attribute_spans: Vec<Span>,
    attribute_owners: Vec<u32>,
    doctype: Option<DoctypeIds>,
    quirks: QuirksMode,
    truncated: Option<Budget>,
    base: Option<AttrId>,
    flat: OnceLock<FlatText>,
    elements_by_name: OnceLock<Postings>,
    attributes_by_name: OnceLock<Postings>,
    nodes_by_id: OnceLock<TokenIndex>,
    nodes_by_class: OnceLock<TokenIndex>,
}

fn link(raw: u32) -> Option<NodeId> {
    (raw != NONE).then_some(NodeId(raw))
}

/// Structure: where a node stands.
impl Document {
    /// The document node.
    pub const ROOT: NodeId = NodeId(0);

    /// How many nodes there are; every number below it is a node.
    #[inline]
    pub fn node_count(&self) -> usize {
        self.tags.len()
    }

    #[inline]
    pub fn kind(&self, node: NodeId) -> NodeKind {
        unpack_kind(self.tags[node.0 as usize])
    }

    #[inline]
    pub fn is_element(&self, node: NodeId) -> bool {
        self.tags[node.0 as usize] & KIND_MASK == NodeKind::Element as u8
    }

    #[inline]
    pub fn is_text(&self, node: NodeId) -> bool {
        self.tags[node.0 as usize] & KIND_MASK == NodeKind::Text as u8
    }

    /// The parent; `None` for the document node only.
    #[inline]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        link(self.parents[node.0 as usize])
    }

    /// The first number after the subtree: descendants of `n` are `n+1..subtree_end(n)`.
    #[inline]
    pub fn subtree_end(&self, node: NodeId) -> NodeId {
        NodeId(self.ends[node.0 as usize])
    }

    #[inline]
    pub fn first_child(&self, node: NodeId) -> Option<NodeId> {
        let next = node.0 + 1;
        (next < self.ends[node.0 as usize]).then_some(NodeId(next))
    }

    #[inline]
    pub fn last_child(&self, node: NodeId) -> Option<NodeId> {
        link(self.lasts[node.0 as usize])
    }

    #[inline]
    pub fn next_sibling(&self, node: NodeId) -> Option<NodeId> {
        let parent = self.parents[node.0 as usize];
        let next = self.ends[node.0 as usize];
        (parent != NONE && next < self.ends[parent as usize]).then_some(NodeId(next))
    }

    #[inline]
    pub fn prev_sibling(&self, node: NodeId) -> Option<NodeId> {
        link(self.previous[node.0 as usize])
    }

    /// The children in document order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(self.first_child(node), |child| self.next_sibling(*child))
    }

    /// Every node below `node`, in document order.
    pub fn descendants(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        (node.0 + 1..self.ends[node.0 as usize]).map(NodeId)
    }
}

/// Names and attributes.
impl Document {
    /// Local name of an element, target of a processing instruction, name of a doctype; otherwise empty.
    #[inline]
    pub fn name(&self, node: NodeId) -> &str {
        self.names.text(self.node_names[node.0 as usize])
    }

    /// As [`Document::name`]; [`NameId::NONE`] for nodes without a name.
    #[inline]
    pub fn name_id(&self, node: NodeId) -> NameId {
        self.node_names[node.0 as usize]
    }

    /// The text of an interned name.
    #[inline]
    pub fn name_text(&self, name: NameId) -> &str {
        self.names.text(name)
    }

    /// The number of a name, compared exactly; `None` means that no element and no attribute of this page has it.
    pub fn lookup_name(&self, name: &str) -> Option<NameId> {
        self.names.find(name)
    }

    /// How many interned names there are (an upper bound of `NameId`s, for tables by name).
    pub fn name_count(&self) -> usize {
        self.names.count()
    }

    /// The namespace of an element; HTML for all other nodes.
    #[inline]
    pub fn namespace(&self, node: NodeId) -> Namespace {
        match self.tags[node.0 as usize] >> NAMESPACE_SHIFT & 0b11 {
            0 => Namespace::Html,
            1 => Namespace::Svg,
            _ => Namespace::MathMl,
        }
    }

    /// True for a `<tbody>` that the parser inserted and the source did not have.
    #[inline]
    pub fn is_implied_tbody(&self, node: NodeId) -> bool {
        self.tags[node.0 as usize] & FLAG_IMPLIED_TBODY != 0
    }

    /// How many attributes the document has in all; every number below it is an attribute.
    pub fn attribute_count(&self) -> usize {
        self.attribute_names.len()
    }

    /// The numbers of an element's attributes, in source order; wrap each in [`AttrId`].
    #[inline]
    pub fn attributes(&self, node: NodeId) -> Range<u32> {
        if !self.is_element(node) {
            return 0..0;
        }
        let span = self.spans[node.0 as usize];
        span.start..span.end
    }

    #[inline]
    pub fn attr_name(&self, attribute: AttrId) -> &str {
        self.names.text(self.attribute_names[attribute.0 as usize])
    }

    #[inline]
    pub fn attr_name_id(&self, attribute: AttrId) -> NameId {
        self.attribute_names[attribute.0 as usize]
    }

    #[inline]
    pub fn attr_value(&self, attribute: AttrId) -> &str {
        self.resolve(self.attribute_spans[attribute.0 as usize])
    }

    /// The element that carries the attribute.
    #[inline]
    pub fn attr_owner(&self, attribute: AttrId) -> NodeId {
        NodeId(self.attribute_owners[attribute.0 as usize])
    }

    /// The element's attribute of this name.
    #[inline]
    pub fn attribute_id(&self, node: NodeId, name: NameId) -> Option<AttrId> {
        self.attributes(node).find(|row| self.attribute_names[*row as usize] == name).map(AttrId)
    }

    /// The value of the element's attribute of this name.
    #[inline]
    pub fn attribute(&self, node: NodeId, name: NameId) -> Option<&str> {
        self.attribute_id(node, name).map(|attribute| self.attr_value(attribute))
    }

    /// As [`Document::attribute`], by text. Names in HTML elements are lower case.
    pub fn attribute_named(&self, node: NodeId, name: &str) -> Option<&str> {
        self.attribute(node, self.lookup_name(name)?)
    }
}

/// Text.
impl Document {
    #[inline]
    fn resolve(&self, span: Span) -> &str {
        resolve(&self.source, &self.side, span)
    }

    /// The data of a text node, comment or processing instruction; empty for other nodes.
    #[inline]
    pub fn text(&self, node: NodeId) -> &str {
        match self.kind(node) {
            NodeKind::Text | NodeKind::Comment | NodeKind::Pi => self.resolve(self.spans[node.0 as usize]),
            _ => "",
        }
    }

    /// XPath's string value: for the document and elements all descendant text (scripts included), else the data.
    ///
    /// Borrowed: from the node's only text where it has one, otherwise from a flat text buffer that is built once.
    pub fn string_value(&self, node: NodeId) -> &str {
        let end = self.ends[node.0 as usize];
        match self.kind(node) {
            NodeKind::Element | NodeKind::Document => {}
            _ => return self.text(node),
        }
        if end == node.0 + 1 {
            return "";
        }
        if end == node.0 + 2 {
            let only = NodeId(node.0 + 1);
            return if self.is_text(only) { self.text(only) } else { "" };
        }
        let flat = self.flat.get_or_init(|| self.build_flat());
        &flat.text[flat.offsets[node.0 as usize] as usize..flat.offsets[end as usize] as usize]
    }

    fn build_flat(&self) -> FlatText {
        let mut offsets = Vec::with_capacity(self.node_count() + 1);
        let texts = (0..self.node_count()).filter(|node| self.is_text(NodeId(*node as u32)));
        let bytes = texts.map(|node| (self.spans[node].end - self.spans[node].start) as usize).sum();
        let mut text = String::with_capacity(bytes);
        for node in 0..self.node_count() as u32 {
            offsets.push(text.len() as u32);
            if self.is_text(NodeId(node)) {
                text.push_str(self.text(NodeId(node)));
            }
        }
        offsets.push(text.len() as u32);
        FlatText { text, offsets }
    }

    /// The text a reader may see below (or in) `node`: without scripts, styles, templates and noscript.
    pub fn visible_text(&self, node: NodeId) -> String {
        let mut visible = String::new();
        let end = self.ends[node.0 as usize];
        let mut at = node.0;
        while at < end {
            let current = NodeId(at);
            if self.is_text(current) {
                visible.push_str(self.text(current));
            } else if self.is_hidden_element(current) {
                at = self.ends[at as usize];
                continue;
            }
            at += 1;
        }
        visible
    }

    /// True for elements whose text is never shown: script, style, template, noscript.
    pub fn is_hidden_element(&self, node: NodeId) -> bool {
        let name = self.node_names[node.0 as usize];
        self.is_element(node)
            && matches!(name, names::SCRIPT | names::STYLE | names::TEMPLATE | names::NOSCRIPT)
    }

    /// The page's title with its white space collapsed; `None` where there is none or it is empty.
    pub fn title(&self) -> Option<String> {
        let is_title = |node: &NodeId| {
            self.name_id(*node) == names::TITLE
                && self.is_element(*node)
                && self.namespace(*node) == Namespace::Html
        };
        let title = (0..self.node_count() as u32).map(NodeId).find(is_title)?;
        let mut words = self.string_value(title).split_ascii_whitespace();
        let mut collapsed = words.next()?.to_owned();
        for word in words {
            collapsed.push(' ');
            collapsed.push_str(word);
        }
        Some(collapsed)
    }

    /// The `href` of the first `<base>` that has one, as written.
    pub fn base_href(&self) -> Option<&str> {
        self.base.map(|attribute| self.attr_value(attribute))
    }

    /// The page's source after decoding and newline normalization.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Public and system identifier of the doctype, where there is one.
    pub fn doctype_ids(&self) -> Option<&DoctypeIds> {
        self.doctype.as_ref()
    }

    pub fn quirks_mode(&self) -> QuirksMode {
        self.quirks
    }

    /// The limit that ended parsing early, if one did. What was read up to then is a whole tree.
    pub fn truncated(&self) -> Option<Budget> {
        self.truncated
    }

    /// Notes that the caller cut the page before it was parsed.
    pub fn mark_truncated(&mut self, budget: Budget) {
        self.truncated = self.truncated.or(Some(budget));
    }

    /// Bytes held by the tree's columns and texts, side indexes not counted.
    pub fn memory_bytes(&self) -> usize {
        let per_node = 1 + 4 * 5 + size_of::<Span>();
        let per_attribute = 4 + 4 + size_of::<Span>();
        self.source.capacity()
            + self.side.capacity()
            + self.tags.capacity() * per_node
            + self.attribute_names.capacity() * per_attribute
    }
}

/// Side indexes. Each is built on first use, in time linear in the document.
impl Document {
    /// Elements of this name, in document order.
    pub fn elements_named(&self, name: NameId) -> impl ExactSizeIterator<Item = NodeId> + Clone + '_ {
        self.element_postings(name).iter().map(|row| NodeId(*row))
    }

    /// The numbers of the elements of this name, sorted.
    pub fn element_postings(&self, name: NameId) -> &[u32] {
        let postings = self.elements_by_name.get_or_init(|| {
            let elements = (0..self.node_count()).filter(|row| self.is_element(NodeId(*row as u32)));
            Postings::new(
                self.names.count(),
                elements.map(|row| (self.node_names[row].0 as usize, row as u32)),
            )
        });
        postings.get(name)
    }

    /// The numbers ([`AttrId`]) of the attributes of this name, sorted; see [`Document::attr_owner`].
    pub fn attribute_postings(&self, name: NameId) -> &[u32] {
        let postings = self.attributes_by_name.get_or_init(|| {
            let rows = self.attribute_names.iter().enumerate();
            Postings::new(self.names.count(), rows.map(|(row, name)| (name.0 as usize, row as u32)))
        });
        postings.get(name)
    }

    /// Elements whose `id` is exactly `id`, in document order.
    pub fn elements_with_id(&self, id: &str) -> &[NodeId] {
        let index = self.nodes_by_id.get_or_init(|| {
            let rows = self.attribute_postings(names::ID).iter();
            let occurrences: Vec<(u32, u32, NodeId)> = rows
                .map(|row| {
                    let span = self.attribute_spans[*row as usize];
                    (span.start, span.end, self.attr_owner(AttrId(*row)))
                })
                .collect();
            TokenIndex::new(&occurrences, |start, end| self.resolve(Span { start, end }))
        });
        index.get(id, |start, end| self.resolve(Span { start, end }))
    }

    /// Elements with `token` among the white-space-separated tokens of their `class`, in document order.
    pub fn elements_with_class(&self, token: &str) -> &[NodeId] {
        let index = self.nodes_by_class.get_or_init(|| {
            let mut occurrences = Vec::new();
            for row in self.attribute_postings(names::CLASS) {
                let span = self.attribute_spans[*row as usize];
                let owner = self.attr_owner(AttrId(*row));
                let value = self.resolve(span);
                for (start, end) in token_ranges(value) {
                    occurrences.push((span.start + start, span.start + end, owner));
                }
            }
            TokenIndex::new(&occurrences, |start, end| self.resolve(Span { start, end }))
        });
        index.get(token, |start, end| self.resolve(Span { start, end }))
    }
}

/// The white-space-separated tokens of a value, as byte ranges.
fn token_ranges(value: &str) -> impl Iterator<Item = (u32, u32)> + '_ {
    let bytes = value.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| !byte.is_ascii_whitespace()) {
            at += 1;
        }
        (at > start).then_some((start as u32, at as u32))
    })
}

#[inline]
fn resolve<'a>(source: &'a str, side: &'a str, span: Span) -> &'a str {
    let (start, end) = (span.start as usize, span.end as usize);
    if start <= source.len() {
        &source[start..end]
    } else {
        let base = source.len() + 1;
        &side[start - base..end - base]
    }
}

#[cfg(test)]
mod tests;
