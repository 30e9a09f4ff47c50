//! Kinds of events: each is declared by the slice that writes it, and this is where all of them are found.

use crate::features::ALL;
use base::permission::Permission;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A kind of events.
#[derive(Debug)]
pub struct EventKind {
    /// What it happens to, a point, and what happened: `job.failed`. It stands in rows: never change one.
    pub name: &'static str,
    /// What a caller must hold to be told of it.
    pub permission: Permission,
    /// When it is written, and what its data are.
    pub about: &'static str,
}

impl EventKind {
    pub const fn new(name: &'static str, permission: Permission, about: &'static str) -> EventKind {
        EventKind { name, permission, about }
    }
}

/// Every kind of this release, by its name.
pub(super) static KINDS: LazyLock<BTreeMap<&'static str, &'static EventKind>> =
    LazyLock::new(|| ALL.iter().flat_map(|slice| slice.events).map(|kind| (kind.name, *kind)).collect());

/// What a kind's events happen to: the part of its name before the point.
pub(super) fn subject_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(subject, _)| subject)
}
