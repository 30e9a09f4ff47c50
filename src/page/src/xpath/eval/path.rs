//! Location paths: a step takes a node-set to a node-set.
//!
//! What a step finds from all its context nodes together is computed without finding anything twice: ranges of descendants
//! that lie within one another are merged, ancestors stop where an earlier climb went, only the first sibling (or the last)
//! of a family is asked for its following (preceding) ones, and of all `following` sets the largest contains the others.
//! A step whose predicates look at the position goes context by context, or, for `//x[n]`, parent by parent.

use super::super::plan::*;
use super::super::value::NodeRef;
use super::axes::{AxisRoute, NodeMatch, each};
use super::{Context, Evaluator, MEMO_BYTES_MAX, MEMO_STARTS_AT, Outcome};
use crate::html::{Document, NameId, NodeId};

/// Subtrees up to this size are scanned even where an index might be shorter.
const SCAN_NODES_MAX: u32 = 48;

/// Makes a list a node-set. Most lists are one already, and looking is cheaper than sorting.
pub(super) fn sort_unique(nodes: &mut Vec<NodeRef>) {
    if !nodes.is_sorted_by(|before, after| before < after) {
        nodes.sort_unstable();
        nodes.dedup();
    }
}

impl<'a> Evaluator<'a> {
    pub(super) fn path(&mut self, path: &'a Path, context: Context, limit: usize) -> Outcome<Vec<NodeRef>> {
        let mut current = match &path.start {
            PathStart::Context => vec![context.node],
            PathStart::Root => vec![NodeRef::of(Document::ROOT)],
            PathStart::Expr(expr) => self.nodes(expr, context, usize::MAX)?,
        };
        let last = path.steps.len().saturating_sub(1);
        for (at, step) in path.steps.iter().enumerate() {
            if current.is_empty() {
                break;
            }
            let limit = if at == last { limit.max(1) } else { usize::MAX };
            current = self.step(step, &current, limit)?;
        }
        Ok(current)
    }

    /// The route of a step, with its name looked up.
    fn route(&self, step: &'a Step) -> AxisRoute<'a> {
        let found = match &step.test {
            NodeTest::Node => NodeMatch::Node,
            NodeTest::Any => NodeMatch::Any,
            NodeTest::Text => NodeMatch::Text,
            NodeTest::Comment => NodeMatch::Comment,
            NodeTest::Pi(target) => NodeMatch::Pi(target.as_deref()),
            NodeTest::Name(name) if self.names[*name] == NameId::NONE => NodeMatch::Never,
            NodeTest::Name(name) => NodeMatch::Name(self.names[*name]),
        };
        AxisRoute { axis: step.axis, found, through_tbody: step.through_tbody }
    }

    fn step(&mut self, step: &'a Step, from: &[NodeRef], limit: usize) -> Outcome<Vec<NodeRef>> {
        let route = self.route(step);
        if let NodeMatch::Never = route.found {
            return Ok(Vec::new());
        }
        if from.last().is_some_and(|node| node.made().is_some()) {
            return Ok(from_made(step, from));
        }
        if step.by_parent {
            return self.step_by_parent(step, route, from);
        }
        if step.positional {
            return self.step_by_context(step, route, from);
        }
        let mut nodes = Vec::new();
        self.candidates(step, route, from, &mut nodes)?;
        if !step.predicates.is_empty() {
            self.keep_passing(&step.predicates, &mut nodes, limit)?;
        }
        Ok(nodes)
    }

    /// What axis and node test find from all of `from`, in document order, once each.
    fn candidates(
        &mut self,
        step: &'a Step,
        route: AxisRoute<'a>,
        from: &[NodeRef],
        out: &mut Vec<NodeRef>,
    ) -> Outcome<()> {
        match route.axis {
            Axis::Descendant | Axis::DescendantOrSelf => self.below(step, route, from, out)?,
            Axis::Ancestor | Axis::AncestorOrSelf if from.len() > 1 => self.climb(route, from, out)?,
            Axis::Following => {
                let ends = from.iter().map(|node| (self.document.subtree_end(node.node()), *node));
                self.collect(route, ends.min().map(|(_, node)| node), out)?;
            }
            Axis::Preceding => self.collect(route, from.last().copied(), out)?,
            Axis::FollowingSibling | Axis::PrecedingSibling if from.len() > 1 => {
                let firsts = self.one_a_family(route.axis, from)?;
                self.collect(route, firsts, out)?;
            }
            _ => self.collect(route, from.iter().copied(), out)?,
        }
        if route.axis.is_reverse() && from.len() == 1 {
            out.reverse();
        }
        sort_unique(out);
        Ok(())
    }

    /// Appends what the route finds from each node in turn.
    fn collect(
        &mut self,
        route: AxisRoute<'a>,
        from: impl IntoIterator<Item = NodeRef>,
        out: &mut Vec<NodeRef>,
    ) -> Outcome<()> {
        for node in from {
            let mut looked = 1;
            each(self.document, route, node, &mut looked, |found| {
                out.push(found);
                Ok(true)
            })?;
            self.spend(looked)?;
        }
        Ok(())
    }

    /// Descendants (or self) of all of `from`: subtrees within subtrees are skipped, and the shortest index is used.
    fn below(
        &mut self,
        step: &'a Step,
        route: AxisRoute<'a>,
        from: &[NodeRef],
        out: &mut Vec<NodeRef>,
    ) -> Outcome<()> {
        let or_self = route.axis == Axis::DescendantOrSelf;
        let mut list = None;
        let mut covered = 0;
        for node in from {
            if node.is_attribute() {
                if or_self && matches!(route.found, NodeMatch::Node) {
                    out.push(*node);
                }
                continue;
            }
            let start = (node.node().0 + u32::from(!or_self)).max(covered);
            let end = self.document.subtree_end(node.node()).0;
            if start >= end {
                continue;
            }
            covered = end;
            if end - start <= SCAN_NODES_MAX {
                self.spend(u64::from(end - start))?;
                let nodes = (start..end).map(NodeId).filter(|node| route.found.accepts(self.document, *node));
                out.extend(nodes.map(NodeRef::of));
                continue;
            }
            if list.is_none() {
                list = Some(self.shortest(step, route.found)?);
            }
            match &list {
                Some(Some(list)) => self.below_by_list(list, route.found, start..end, out)?,
                _ => {
                    self.spend(u64::from(end - start))?;
                    let all = (start..end).map(NodeId);
                    let nodes = all.filter(|node| route.found.accepts(self.document, *node));
                    out.extend(nodes.map(NodeRef::of));
                }
            }
        }
        Ok(())
    }

    /// Ancestors of all of `from`: a climb ends where the climb from the node before it has been.
    fn climb(&mut self, route: AxisRoute<'a>, from: &[NodeRef], out: &mut Vec<NodeRef>) -> Outcome<()> {
        let document = self.document;
        let or_self = route.axis == Axis::AncestorOrSelf;
        let mut before = NodeId(0);
        for node in from {
            let own = node.node();
            if node.is_attribute() && or_self && matches!(route.found, NodeMatch::Node) {
                out.push(*node);
            }
            let mut next = if or_self || node.is_attribute() { Some(own) } else { document.parent(own) };
            let mut looked = 1;
            // An ancestor that stands before the previous node contains that node too.
            while let Some(current) = next.filter(|current| *current >= before) {
                looked += 1;
                if route.found.accepts(document, current) {
                    out.push(NodeRef::of(current));
                }
                next = document.parent(current);
            }
            self.spend(looked)?;
            before = own;
        }
        Ok(())
    }

    /// Of siblings among the context nodes, the one whose following (preceding) siblings include those of the others.
    fn one_a_family(&mut self, axis: Axis, from: &[NodeRef]) -> Outcome<Vec<NodeRef>> {
        self.spend(from.len() as u64)?;
        let tree = from.iter().filter(|node| !node.is_attribute());
        let mut families: Vec<(NodeId, NodeRef)> =
            tree.filter_map(|node| self.document.parent(node.node()).map(|parent| (parent, *node))).collect();
        families.sort_unstable();
        if axis == Axis::PrecedingSibling {
            families.reverse();
        }
        families.dedup_by_key(|(parent, _)| *parent);
        Ok(families.into_iter().map(|(_, node)| node).collect())
    }

    /// A step whose predicates look at the position among what one context node finds, in the order of the axis.
    fn step_by_context(
        &mut self,
        step: &'a Step,
        route: AxisRoute<'a>,
        from: &[NodeRef],
    ) -> Outcome<Vec<NodeRef>> {
        // Predicates before the one that counts are asked on the way, so that `[@class][1]` ends at the first one found.
        let is_plain = |predicate: &&Predicate| predicate.kind == PredicateKind::Node;
        let (plain, rest) = step.predicates.split_at(step.predicates.iter().take_while(is_plain).count());
        let wanted = match rest.first().map(|predicate| predicate.kind) {
            Some(PredicateKind::Nth(position)) => position as usize,
            _ => usize::MAX,
        };
        let mut out = Vec::new();
        let mut group = Vec::new();
        for node in from {
            group.clear();
            let mut looked = 1;
            let finished = each(self.document, route, *node, &mut looked, |found| {
                if self.passes(plain, found)? {
                    group.push(found);
                }
                Ok(group.len() < wanted)
            });
            self.spend(looked)?;
            finished?;
            self.filter(rest, &mut group, usize::MAX)?;
            out.append(&mut group);
        }
        sort_unique(&mut out);
        Ok(out)
    }

    /// `//x[n]`: what a scan finds, grouped by parent.
    fn step_by_parent(
        &mut self,
        step: &'a Step,
        route: AxisRoute<'a>,
        from: &[NodeRef],
    ) -> Outcome<Vec<NodeRef>> {
        let mut nodes = Vec::new();
        self.candidates(step, route, from, &mut nodes)?;
        let leading =
            step.predicates.iter().take_while(|predicate| predicate.kind == PredicateKind::Node).count();
        let (before, rest) = step.predicates.split_at(leading);
        self.keep_passing(before, &mut nodes, usize::MAX)?;
        if let Some((Predicate { kind: PredicateKind::Nth(position), .. }, rest)) = rest.split_first() {
            self.nth_of_parent(*position, &mut nodes)?;
            // Each is alone in its group now.
            self.keep_passing(rest, &mut nodes, usize::MAX)?;
            return Ok(nodes);
        }
        self.spend(nodes.len() as u64)?;
        let mut pairs: Vec<(NodeId, NodeRef)> = nodes
            .iter()
            .filter_map(|node| self.document.parent(node.node()).map(|parent| (parent, *node)))
            .collect();
        pairs.sort_unstable();
        let mut out = Vec::new();
        let mut group = Vec::new();
        for family in pairs.chunk_by(|left, right| left.0 == right.0) {
            group.clear();
            group.extend(family.iter().map(|(_, node)| *node));
            self.filter(rest, &mut group, usize::MAX)?;
            out.append(&mut group);
        }
        sort_unique(&mut out);
        Ok(out)
    }

    /// Keeps the nodes that are the `position`th of their parent, in one pass: the open parents lie on a stack.
    fn nth_of_parent(&mut self, position: u32, nodes: &mut Vec<NodeRef>) -> Outcome<()> {
        self.spend(nodes.len() as u64)?;
        let document = self.document;
        let mut open: Vec<(NodeId, u32)> = Vec::new();
        nodes.retain(|node| {
            let node = node.node();
            while open.last().is_some_and(|(parent, _)| document.subtree_end(*parent) <= node) {
                open.pop();
            }
            let parent = document.parent(node).unwrap_or(Document::ROOT);
            // What is left on the stack contains the node, so its parent can only be the top.
            match open.last_mut() {
                Some((top, seen)) if *top == parent => {
                    *seen += 1;
                    *seen == position
                }
                _ => {
                    open.push((parent, 1));
                    position == 1
                }
            }
        });
        Ok(())
    }

    /// Keeps the nodes that pass all predicates, each looked at alone; stops after `limit`.
    fn keep_passing(
        &mut self,
        predicates: &'a [Predicate],
        nodes: &mut Vec<NodeRef>,
        limit: usize,
    ) -> Outcome<()> {
        if predicates.is_empty() {
            return Ok(());
        }
        let mut kept = 0;
        for at in 0..nodes.len() {
            let node = nodes[at];
            if self.passes(predicates, node)? {
                nodes[kept] = node;
                kept += 1;
                if kept == limit {
                    break;
                }
            }
        }
        nodes.truncate(kept);
        Ok(())
    }

    fn passes(&mut self, predicates: &'a [Predicate], node: NodeRef) -> Outcome<bool> {
        for predicate in predicates {
            if !self.holds(predicate, Context::of(node))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies predicates to one group, one after another, each with positions counted anew.
    pub(super) fn filter(
        &mut self,
        predicates: &'a [Predicate],
        nodes: &mut Vec<NodeRef>,
        limit: usize,
    ) -> Outcome<()> {
        for (number, predicate) in predicates.iter().enumerate() {
            let limit = if number + 1 == predicates.len() { limit.max(1) } else { usize::MAX };
            let single = match predicate.kind {
                PredicateKind::Nth(position) => Some((position as usize).wrapping_sub(1)),
                PredicateKind::Last => Some(nodes.len().wrapping_sub(1)),
                _ => None,
            };
            if let Some(place) = single {
                let chosen = nodes.get(place).copied();
                nodes.clear();
                nodes.extend(chosen);
                continue;
            }
            let size = nodes.len();
            // One that speaks of positions is asked of every node anew, and takes twice as long as looking at the node.
            if predicate.kind == PredicateKind::Position {
                self.spend(size as u64)?;
            }
            let mut kept = 0;
            for at in 0..size {
                let node = nodes[at];
                if self.holds(predicate, Context { node, position: at + 1, size })? {
                    nodes[kept] = node;
                    kept += 1;
                    if kept == limit {
                        break;
                    }
                }
            }
            nodes.truncate(kept);
        }
        Ok(())
    }

    fn holds(&mut self, predicate: &'a Predicate, context: Context) -> Outcome<bool> {
        match predicate.kind {
            PredicateKind::Nth(position) => Ok(context.position == position as usize),
            PredicateKind::Last => Ok(context.position == context.size),
            PredicateKind::Position if predicate.expr.kind() == Type::Number => {
                Ok(self.number(&predicate.expr, context)? == context.position as f64)
            }
            PredicateKind::Node => match predicate.memo {
                Some(slot) if !context.node.is_attribute() => self.remembered(slot, &predicate.expr, context),
                _ => self.boolean(&predicate.expr, context),
            },
            PredicateKind::Position => self.boolean(&predicate.expr, context),
        }
    }

    /// Asks a predicate, or finds the answer that it gave for this node before.
    fn remembered(&mut self, slot: usize, expr: &'a Expr, context: Context) -> Outcome<bool> {
        let row = context.node.node().0 as usize;
        let (byte, shift) = (row / 4, row % 4 * 2);
        if let Some(answers) = self.memos[slot].answers.get(byte) {
            match answers >> shift & 0b11 {
                0 => {}
                answer => return Ok(answer == 2),
            }
        }
        let answer = self.boolean(expr, context)?;
        let size = self.document.node_count() / 4 + 1;
        let memo = &mut self.memos[slot];
        memo.asked += 1;
        if memo.asked == MEMO_STARTS_AT && self.memo_bytes + size <= MEMO_BYTES_MAX {
            self.memo_bytes += size;
            memo.answers = vec![0; size];
        }
        if let Some(answers) = memo.answers.get_mut(byte) {
            *answers |= (1 + u8::from(answer)) << shift;
        }
        Ok(answer)
    }

    /// Shows `test` what the steps find from one node, depth first, until it answers true. The steps must be walkable.
    pub(super) fn walk(
        &mut self,
        steps: &'a [Step],
        node: NodeRef,
        test: &mut dyn FnMut(&mut Self, NodeRef) -> Outcome<bool>,
    ) -> Outcome<bool> {
        let Some((step, rest)) = steps.split_first() else { return test(self, node) };
        let route = self.route(step);
        if step.axis == Axis::SelfNode && !node.is_attribute() {
            self.spend(1)?;
            return Ok(route.found.accepts(self.document, node.node())
                && self.passes(&step.predicates, node)?
                && self.walk(rest, node, test)?);
        }
        if matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf) && !step.seeds.is_empty() {
            // Few nodes carry what the predicates ask for.
            let mut nodes = Vec::new();
            self.below(step, route, &[node], &mut nodes)?;
            for found in nodes {
                if self.passes(&step.predicates, found)? && self.walk(rest, found, test)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let mut looked = 0;
        let finished = each(self.document, route, node, &mut looked, |found| {
            Ok(!(self.passes(&step.predicates, found)? && self.walk(rest, found, test)?))
        });
        self.spend(looked)?;
        Ok(!finished?)
    }
}

/// Steps from texts that `re:match` made: they have one text child, as lxml's `match` elements do, and nothing around them.
fn from_made(step: &Step, from: &[NodeRef]) -> Vec<NodeRef> {
    let stays = match step.axis {
        Axis::Child | Axis::Descendant => matches!(step.test, NodeTest::Text | NodeTest::Node),
        Axis::SelfNode | Axis::DescendantOrSelf => step.test == NodeTest::Node,
        _ => false,
    };
    let made = from.iter().filter(|node| node.made().is_some()).copied();
    if stays && step.predicates.is_empty() { made.collect() } else { Vec::new() }
}
