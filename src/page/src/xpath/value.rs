//! Values: what an evaluation gives, and the conversions between numbers and texts.

use crate::html::{AttrId, Document, NodeId};

/// A node of the XPath data model: a node of the tree, or an attribute.
///
/// The number orders as the document does: an element, then its attributes, then its children.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeRef(u64);

/// The upper half of references to texts that `re:match` made.
const MADE: u32 = u32::MAX;

impl NodeRef {
    /// A node of the tree.
    pub fn of(node: NodeId) -> NodeRef {
        NodeRef(u64::from(node.0) << 32)
    }

    /// An attribute and the element that carries it.
    pub fn of_attribute(owner: NodeId, attribute: AttrId) -> NodeRef {
        NodeRef(u64::from(owner.0) << 32 | (u64::from(attribute.0) + 1))
    }

    pub(super) fn of_made(index: usize) -> NodeRef {
        NodeRef(u64::from(MADE) << 32 | index as u64)
    }

    /// The index of a made text, if it is one.
    pub(super) fn made(self) -> Option<usize> {
        ((self.0 >> 32) as u32 == MADE).then_some(self.0 as u32 as usize)
    }

    /// The node of the tree; for an attribute, the element that carries it.
    pub fn node(self) -> NodeId {
        NodeId((self.0 >> 32) as u32)
    }

    /// The attribute, if it is one.
    pub fn attribute(self) -> Option<AttrId> {
        (self.0 as u32).checked_sub(1).map(AttrId)
    }

    /// True for an attribute.
    pub fn is_attribute(self) -> bool {
        self.0 as u32 != 0
    }

    /// XPath's string value: an attribute's value, all text of an element, the data of any other node.
    pub fn string_value(self, document: &Document) -> &str {
        match self.attribute() {
            Some(attribute) => document.attr_value(attribute),
            None => document.string_value(self.node()),
        }
    }
}

/// What an expression came to.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// In document order, without duplicates.
    Nodes(Vec<NodeRef>),
    /// What `re:match` found: lxml would give elements that no document has.
    Texts(Vec<String>),
    Number(f64),
    Text(String),
    Bool(bool),
}

/// XPath's string form of a number (section 4.2): decimal, no exponent, as many digits as tell it from its neighbours.
pub fn number_to_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else if number == 0.0 {
        "0".to_owned()
    } else {
        number.to_string()
    }
}

/// XPath's number for a text (section 4.4): `-`, digits and one point between white space; anything else is NaN.
pub fn text_to_number(text: &str) -> f64 {
    let body = text.trim_matches([' ', '\t', '\r', '\n']);
    let digits = body.strip_prefix('-').unwrap_or(body);
    let well_formed = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().filter(|byte| *byte == b'.').count() <= 1;
    if well_formed { body.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}
