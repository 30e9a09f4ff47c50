//! Bounds that hold on more than one step of a statement's way.

/// How deeply a statement may nest; a level costs some 100 KB of the planning stack.
pub(super) const NESTING_MAX: usize = 100;
