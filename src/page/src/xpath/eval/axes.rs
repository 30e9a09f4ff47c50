//! The thirteen axes from one node, in the order in which `position()` counts.

use crate::html::{AttrId, Document, NameId, NodeId, NodeKind};

use super::super::ast::Axis;
use super::super::value::NodeRef;
use super::Outcome;

/// Subtrees up to this size are scanned; larger ones are looked up in the postings of the name.
const SCAN_NODES_MAX: u32 = 48;

/// A node test with its name looked up in the document.
#[derive(Clone, Copy, Debug)]
pub(super) enum NodeMatch<'a> {
    /// The document has no such name.
    Never,
    Node,
    Any,
    Name(NameId),
    Text,
    Comment,
    Pi(Option<&'a str>),
}

impl NodeMatch<'_> {
    /// Whether a node of the tree passes.
    #[inline]
    pub(super) fn accepts(self, document: &Document, node: NodeId) -> bool {
        match self {
            NodeMatch::Never => false,
            NodeMatch::Node => document.kind(node) != NodeKind::Doctype,
            NodeMatch::Any => document.is_element(node),
            NodeMatch::Name(name) => document.name_id(node) == name && document.is_element(node),
            NodeMatch::Text => document.is_text(node),
            NodeMatch::Comment => document.kind(node) == NodeKind::Comment,
            NodeMatch::Pi(target) => {
                document.kind(node) == NodeKind::Pi
                    && target.is_none_or(|target| document.name(node) == target)
            }
        }
    }
}

/// Where to go from a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisRoute<'a> {
    pub axis: Axis,
    pub found: NodeMatch<'a>,
    /// See [`super::super::plan::Step::through_tbody`].
    pub through_tbody: bool,
}

/// Shows `visit` every node on the route until it answers false; tells whether it never did.
///
/// Adds the nodes looked at to `looked`.
pub(super) fn each<V>(
    document: &Document,
    route: AxisRoute<'_>,
    from: NodeRef,
    looked: &mut u64,
    mut visit: V,
) -> Outcome<bool>
where
    V: FnMut(NodeRef) -> Outcome<bool>,
{
    if from.is_attribute() {
        return from_attribute(document, route, from, looked, visit);
    }
    let node = from.node();
    *looked += 1;
    let found = route.found;
    // Links of the chain axes: where to go next from a node.
    let link = |node: NodeId| match route.axis {
        Axis::Ancestor | Axis::AncestorOrSelf | Axis::Parent => document.parent(node),
        Axis::PrecedingSibling => document.prev_sibling(node),
        _ => document.next_sibling(node),
    };
    let mut next = match route.axis {
        Axis::SelfNode => return offer(document, found, node, &mut visit),
        Axis::Namespace => return Ok(true),
        Axis::Attribute => return attributes(document, found, node, looked, visit),
        Axis::Child => return children(document, route, node, looked, visit),
        Axis::Descendant => {
            let range = node.0 + 1..document.subtree_end(node).0;
            return scan(document, found, range, looked, visit);
        }
        Axis::DescendantOrSelf => {
            let range = node.0..document.subtree_end(node).0;
            return scan(document, found, range, looked, visit);
        }
        Axis::Following => {
            let range = document.subtree_end(node).0..document.node_count() as u32;
            return scan(document, found, range, looked, visit);
        }
        Axis::Preceding => return preceding(document, found, node, looked, visit),
        Axis::Parent => {
            let parent = document.parent(node);
            return parent.map_or(Ok(true), |parent| offer(document, found, parent, &mut visit));
        }
        Axis::AncestorOrSelf => Some(node),
        Axis::Ancestor | Axis::FollowingSibling | Axis::PrecedingSibling => link(node),
    };
    while let Some(current) = next {
        *looked += 1;
        if !offer(document, found, current, &mut visit)? {
            return Ok(false);
        }
        next = link(current);
    }
    Ok(true)
}

#[inline]
fn offer<V>(document: &Document, found: NodeMatch<'_>, node: NodeId, visit: &mut V) -> Outcome<bool>
where
    V: FnMut(NodeRef) -> Outcome<bool>,
{
    if found.accepts(document, node) { visit(NodeRef::of(node)) } else { Ok(true) }
}

/// From an attribute the tree is entered through its owner. What follows it is what follows the owner, as in libxml2 (the
/// recommendation would count the owner's children too).
fn from_attribute<V>(
    document: &Document,
    route: AxisRoute<'_>,
    from: NodeRef,
    looked: &mut u64,
    mut visit: V,
) -> Outcome<bool>
where
    V: FnMut(NodeRef) -> Outcome<bool>,
{
    if from.made().is_some() {
        return if route.axis == Axis::SelfNode { visit(from) } else { Ok(true) };
    }
    let owner = NodeRef::of(from.node());
    let or_self = |visit: &mut V| match route.found {
        NodeMatch::Node => visit(from),
        _ => Ok(true),
    };
    match route.axis {
        Axis::SelfNode | Axis::DescendantOrSelf => or_self(&mut visit),
        Axis::Parent => each(document, AxisRoute { axis: Axis::SelfNode, ..route }, owner, looked, visit),
        Axis::Ancestor => {
            each(document, AxisRoute { axis: Axis::AncestorOrSelf, ..route }, owner, looked, visit)
        }
        Axis::AncestorOrSelf => Ok(or_self(&mut visit)?
            && each(document, AxisRoute { axis: Axis::AncestorOrSelf, ..route }, owner, looked, visit)?),
        Axis::Following | Axis::Preceding => each(document, route, owner, looked, visit),
        _ => Ok(true),
    }
}

fn attributes<V>(
    document: &Document,
    found: NodeMatch<'_>,
    node: NodeId,
    looked: &mut u64,
    mut visit: V,
) -> Outcome<bool>
where
    V: FnMut(NodeRef) -> Outcome<bool>,
{
    for row in document.attributes(node) {
        *looked += 1;
        let attribute = AttrId(row);
        let passes = match found {
            NodeMatch::Name(name) => document.attr_name_id(attribute) == name,
            NodeMatch::Any | NodeMatch::Node => true,
            _ => false,
        };
        if passes && !visit(NodeRef::of_attribute(node, attribute))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn children<V>(
    document: &Document,
    route: AxisRoute<'_>,
    node: NodeId,
    looked: &mut u64,
    mut visit: V,
) -> Outcome<bool>
where
    V: FnMut(NodeRef) -> Outcome<bool>,
{
    if let NodeMatch::Never = route.found {
        return Ok(true);
    }
    let end = document.subtree_end(node).0;
    let mut at = node.0 + 1;
    while at < end {
        *looked += 1;
        let child = NodeId(at);
        at = document.subtree_end(child).0;
        if !offer(document, route.found, child, &mut visit)? {
            return Ok(false);
        }
        if route.through_tbody && document.is_implied_tbody(child) {
            for row in document.children(child) {
                *looked += 1;
                if !offer(document, route.found, row, &mut visit)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Nodes of a range of document order.
fn scan<V>(
    document: &Document,
    found: NodeMatch<'_>,
    range: std::ops::Range<u32>,
    looked: &mut u64,
    mut visit: V,
) -> Outcome<bool>
where
    V: FnMut(NodeRef) -> Outcome<bool>,
{
    match found {
        NodeMatch::Never => {}
        NodeMatch::Name(name) if range.end.saturating_sub(range.start) > SCAN_NODES_MAX => {
            let rows = document.element_postings(name);
            let first = rows.partition_point(|row| *row < range.start);
            for row in rows[first..].iter().take_while(|row| **row < range.end) {
                *looked += 1;
                if !visit(NodeRef::of(NodeId(*row)))? {
                    return Ok(false);
                }
            }
        }
        _ => {
            for row in range {
                *looked += 1;
                if !offer(document, found, NodeId(row), &mut visit)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Nodes before `node` that do not contain it, nearest first.
fn preceding<V>(
    document: &Document,
    found: NodeMatch<'_>,
    node: NodeId,
    looked: &mut u64,
    mut visit: V,
) -> Outcome<bool>
where
    V: FnMut(NodeRef) -> Outcome<bool>,
{
    let is_before = |row: u32| document.subtree_end(NodeId(row)).0 <= node.0;
    match found {
        NodeMatch::Never => {}
        NodeMatch::Name(name) => {
            let rows = document.element_postings(name);
            let end = rows.partition_point(|row| *row < node.0);
            for row in rows[..end].iter().rev() {
                *looked += 1;
                if is_before(*row) && !visit(NodeRef::of(NodeId(*row)))? {
                    return Ok(false);
                }
            }
        }
        _ => {
            for row in (1..node.0).rev() {
                *looked += 1;
                if is_before(row) && !offer(document, found, NodeId(row), &mut visit)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}
