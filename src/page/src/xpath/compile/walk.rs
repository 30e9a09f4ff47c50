//! Which paths can be walked depth-first from one node, without a node-set.
//!
//! A predicate such as `[.//a/@href]` asks whether there is a node; a walk answers at the first one and allocates nothing.
//! It must not meet a node twice, though, or its time would multiply with every step (`.//*//*//*`). So the shape of what
//! each step reaches is followed: one node, nodes with disjoint subtrees, or nodes that may lie within one another.

use super::super::plan::*;

/// Steps up to which a path is walked; the walk is recursive by step.
const WALK_STEPS_MAX: usize = 8;

/// What a walk over a path is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathTraits {
    /// It meets no node twice.
    pub walkable: bool,
    /// It meets the nodes in document order.
    pub ordered: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    Disjoint,
    Nested,
    Attributes,
}

const NO_WALK: PathTraits = PathTraits { walkable: false, ordered: false };

/// Looks at the steps of a path that starts at the context node or the root.
pub(super) fn of_path(start: &PathStart, steps: &[Step]) -> PathTraits {
    if matches!(start, PathStart::Expr(_)) || steps.len() > WALK_STEPS_MAX {
        return NO_WALK;
    }
    let mut shape = Shape::One;
    let mut ordered = true;
    for step in steps {
        if step.positional {
            return NO_WALK;
        }
        let turns_back = step.axis.is_reverse() || step.axis == Axis::Child && shape == Shape::Nested;
        ordered &= !turns_back;
        shape = match (step.axis, shape) {
            (Axis::SelfNode | Axis::Namespace, same) => same,
            (Axis::Attribute, Shape::One | Shape::Disjoint | Shape::Nested) => Shape::Attributes,
            (Axis::Child, Shape::One | Shape::Disjoint) => Shape::Disjoint,
            // A table and its implied body would both find the body's rows.
            (Axis::Child, Shape::Nested) if !step.through_tbody => Shape::Nested,
            (Axis::Descendant | Axis::DescendantOrSelf, Shape::One | Shape::Disjoint) => Shape::Nested,
            (Axis::Parent, Shape::One) => Shape::One,
            (Axis::FollowingSibling | Axis::PrecedingSibling, Shape::One) => Shape::Disjoint,
            (Axis::Ancestor | Axis::AncestorOrSelf | Axis::Following | Axis::Preceding, Shape::One) => {
                Shape::Nested
            }
            _ => return NO_WALK,
        };
    }
    PathTraits { walkable: true, ordered }
}
