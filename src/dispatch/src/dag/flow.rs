//! What holds for a drawing as a whole: cycles, what can be reached, where a page is at hand, how many attempts.
//!
//! Everything here runs over adjacency lists of at most [`super::EDGES_MAX`] edges, without recursion.

use super::shape::EdgeType;
use super::{NodeIndex, NodeKind};

/// The edges that leave each node.
pub(super) type OutEdges = Vec<Vec<(EdgeType, NodeIndex)>>;

/// The nodes in an order in which every edge leads forward, or the nodes of one cycle in the order of its edges.
pub(super) fn topological(out: &OutEdges) -> Result<Vec<NodeIndex>, Vec<NodeIndex>> {
    let mut incoming = vec![0usize; out.len()];
    for (_, target) in out.iter().flatten() {
        incoming[*target] += 1;
    }
    let mut order: Vec<NodeIndex> = (0..out.len()).filter(|place| incoming[*place] == 0).collect();
    let mut at = 0;
    while let Some(&place) = order.get(at) {
        at += 1;
        for (_, target) in &out[place] {
            incoming[*target] -= 1;
            if incoming[*target] == 0 {
                order.push(*target);
            }
        }
    }
    if order.len() == out.len() { Ok(order) } else { Err(cycle(out, &incoming)) }
}

/// A cycle among the nodes that still have incoming edges: each of them has a predecessor that does too, so going
/// backwards comes to a node for the second time.
fn cycle(out: &OutEdges, incoming: &[usize]) -> Vec<NodeIndex> {
    let stuck = |place: &NodeIndex| incoming[*place] > 0;
    let before = |place: NodeIndex| {
        (0..out.len()).filter(stuck).find(|from| out[*from].iter().any(|(_, target)| *target == place))
    };
    let mut way = Vec::new();
    let mut next = (0..out.len()).find(stuck);
    while let Some(place) = next {
        if let Some(begin) = way.iter().position(|seen| *seen == place) {
            let mut cycle = way.split_off(begin);
            cycle.reverse();
            return cycle;
        }
        way.push(place);
        next = before(place);
    }
    way
}

/// Which nodes a walk can come to.
pub(super) fn reachable(out: &OutEdges, start: NodeIndex) -> Vec<bool> {
    let mut reached = vec![false; out.len()];
    let mut open = vec![start];
    while let Some(place) = open.pop() {
        if !std::mem::replace(&mut reached[place], true) {
            open.extend(out[place].iter().map(|(_, target)| *target));
        }
    }
    reached
}

/// For each node whether every way to it has had a page delivered. `order` is [`topological`]'s.
pub(super) fn page_at_hand(
    out: &OutEdges,
    works: &[NodeKind],
    order: &[NodeIndex],
    reached: &[bool],
) -> Vec<bool> {
    let mut page = vec![true; out.len()];
    for &place in order.iter().filter(|place| reached[**place]) {
        if matches!(works[place], NodeKind::Start { .. }) {
            page[place] = false;
        }
        let delivers = matches!(works[place], NodeKind::Provider { .. } | NodeKind::Race { .. });
        for &(kind, target) in &out[place] {
            page[target] &= page[place] || (delivers && kind == EdgeType::Success);
        }
    }
    page
}

/// The most attempts on any way from `start`. `order` is [`topological`]'s.
pub(super) fn attempts_max(out: &OutEdges, works: &[NodeKind], order: &[NodeIndex], reached: &[bool]) -> u32 {
    let mut most = vec![0u32; out.len()];
    for &place in order.iter().filter(|place| reached[**place]) {
        most[place] = most[place].saturating_add(works[place].attempts_max());
        for &(_, target) in &out[place] {
            most[target] = most[target].max(most[place]);
        }
    }
    most.into_iter().max().unwrap_or(0)
}
