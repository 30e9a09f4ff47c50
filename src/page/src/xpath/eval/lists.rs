//! Lists from the document's side indexes that a scan may start from: the shortest one that a step's seeds name.
//!
//! `//*[@id='main']` looks at one node and not at all of them, `//*[self::h1 or self::h2]` at the headings: the lists of
//! alternatives are merged, if together they are a good deal shorter than what would be looked at otherwise.

use std::rc::Rc;

use super::super::plan::*;
use super::super::value::NodeRef;
use super::axes::NodeMatch;
use super::{Evaluator, Outcome};
use crate::html::{AttrId, Document, NameId, NodeId};

/// How many times longer the list must be that a merged one replaces.
const MERGE_GAIN_MIN: usize = 2;

/// Nodes that have something in common, in document order, as the index at hand gives them.
#[derive(Clone)]
pub(super) enum NodeList<'a> {
    Rows(&'a [u32]),
    Nodes(&'a [NodeId]),
    /// Attributes, which stand for their owners.
    Owners(&'a [u32]),
    /// Nodes that are in one of several lists.
    Merged(Rc<[NodeId]>),
    /// Not merged yet.
    OneOf(Vec<NodeList<'a>>),
}

impl<'a> NodeList<'a> {
    /// How many nodes it holds at most.
    fn len(&self) -> usize {
        match self {
            NodeList::Rows(rows) | NodeList::Owners(rows) => rows.len(),
            NodeList::Nodes(nodes) => nodes.len(),
            NodeList::Merged(nodes) => nodes.len(),
            NodeList::OneOf(lists) => lists.iter().map(NodeList::len).sum(),
        }
    }

    fn append_to(&self, document: &Document, out: &mut Vec<NodeId>) {
        match self {
            NodeList::Rows(rows) => out.extend(rows.iter().map(|row| NodeId(*row))),
            NodeList::Nodes(nodes) => out.extend_from_slice(nodes),
            NodeList::Owners(rows) => out.extend(rows.iter().map(|row| document.attr_owner(AttrId(*row)))),
            NodeList::Merged(nodes) => out.extend_from_slice(nodes),
            NodeList::OneOf(lists) => lists.iter().for_each(|list| list.append_to(document, out)),
        }
    }

    /// The same nodes as one list in document order.
    fn merge(self, document: &Document) -> NodeList<'a> {
        let NodeList::OneOf(_) = &self else { return self };
        let mut nodes = Vec::with_capacity(self.len());
        self.append_to(document, &mut nodes);
        nodes.sort_unstable();
        nodes.dedup();
        NodeList::Merged(nodes.into())
    }
}

impl<'a> Evaluator<'a> {
    /// Appends what a list holds within a range of document order and the node test lets pass.
    pub(super) fn below_by_list(
        &mut self,
        list: &NodeList<'a>,
        found: NodeMatch<'_>,
        range: std::ops::Range<u32>,
        out: &mut Vec<NodeRef>,
    ) -> Outcome<()> {
        let document = self.document;
        let owner = |row: u32| document.attr_owner(AttrId(row)).0;
        match list {
            NodeList::Rows(rows) => {
                let first = rows.partition_point(|row| *row < range.start);
                let end = first + rows[first..].partition_point(|row| *row < range.end);
                self.spend((end - first) as u64 + 1)?;
                // The list may be that of a name the predicate asks for, which need not be the step's own.
                let nodes = rows[first..end].iter().map(|row| NodeId(*row));
                out.extend(nodes.filter(|node| found.accepts(document, *node)).map(NodeRef::of));
            }
            NodeList::Nodes(nodes) => self.below_by_nodes(nodes, found, range, out)?,
            NodeList::Merged(nodes) => self.below_by_nodes(nodes, found, range, out)?,
            NodeList::Owners(rows) => {
                let first = rows.partition_point(|row| owner(*row) < range.start);
                let end = first + rows[first..].partition_point(|row| owner(*row) < range.end);
                self.spend((end - first) as u64 + 1)?;
                let owners = rows[first..end].iter().map(|row| NodeId(owner(*row)));
                out.extend(owners.filter(|node| found.accepts(document, *node)).map(NodeRef::of));
            }
            // Merged when it was chosen.
            NodeList::OneOf(_) => {}
        }
        Ok(())
    }

    fn below_by_nodes(
        &mut self,
        nodes: &[NodeId],
        found: NodeMatch<'_>,
        range: std::ops::Range<u32>,
        out: &mut Vec<NodeRef>,
    ) -> Outcome<()> {
        let document = self.document;
        let first = nodes.partition_point(|node| node.0 < range.start);
        let end = first + nodes[first..].partition_point(|node| node.0 < range.end);
        self.spend((end - first) as u64 + 1)?;
        let passing = nodes[first..end].iter().filter(|node| found.accepts(document, **node));
        out.extend(passing.map(|node| NodeRef::of(*node)));
        Ok(())
    }

    /// The shortest list that contains whatever the step can find; `None` where only a scan finds it.
    pub(super) fn shortest(&mut self, step: &'a Step, found: NodeMatch<'_>) -> Outcome<Option<NodeList<'a>>> {
        let document = self.document;
        let by_name = match found {
            NodeMatch::Name(name) => Some(NodeList::Rows(document.element_postings(name))),
            NodeMatch::Any | NodeMatch::Node => None,
            _ => return Ok(None),
        };
        // Merging sorts, so a choice must be a good deal shorter than what it replaces.
        let all = by_name.as_ref().map_or(document.node_count(), NodeList::len);
        let lists = step.seeds.iter().filter_map(|seed| self.list_of(seed));
        let chosen =
            lists.filter(|list| !matches!(list, NodeList::OneOf(_)) || list.len() < all / MERGE_GAIN_MIN);
        let Some(shortest) = by_name.into_iter().chain(chosen).min_by_key(NodeList::len) else {
            return Ok(None);
        };
        if let NodeList::OneOf(_) = shortest {
            self.spend(shortest.len() as u64)?;
        }
        Ok(Some(shortest.merge(document)))
    }

    /// The nodes for which a fact holds; `None` where no index tells.
    fn list_of(&self, seed: &'a Seed) -> Option<NodeList<'a>> {
        let document = self.document;
        Some(match seed {
            Seed::Attribute(name) if self.names[*name] == NameId::NONE => NodeList::Owners(&[]),
            Seed::Attribute(name) => NodeList::Owners(document.attribute_postings(self.names[*name])),
            Seed::Id(id) => NodeList::Nodes(document.elements_with_id(id)),
            Seed::Class(token) => NodeList::Nodes(document.elements_with_class(token)),
            Seed::Element(name) => NodeList::Rows(document.element_postings(self.names[*name])),
            Seed::OneOf(alternatives) => {
                let shortest = |facts: &'a Vec<Seed>| {
                    facts.iter().filter_map(|fact| self.list_of(fact)).min_by_key(NodeList::len)
                };
                NodeList::OneOf(alternatives.iter().map(shortest).collect::<Option<_>>()?)
            }
        })
    }
}
