//! What the store knows of itself beside its rows: which organizations stand behind a fence, which indexes are global.
//!
//! Both are tables that only grow (but for an organization that a backup brings back), read whole when the file is opened and
//! added to by commits, so that asking costs a look into a set. A name in the register of global indexes is written with the
//! first entry of the index: an erasure finds every one of them, also those of slices that this release does not have.

use super::raw::View;
use base::ids::OrgId;
use base::{Error, Result};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use uuid::Uuid;

/// Keys are the ids of organizations that were erased or are being erased.
pub(super) const FENCES: &str = "fences";
/// Keys are the names of indexes that reach across organizations.
pub(super) const GLOBALS: &str = "global_indexes";

#[derive(Clone, Default)]
pub(super) struct Registry {
    pub(super) fences: HashSet<OrgId>,
    /// Fences that an operation took away; empty in what is known.
    pub(super) opened: HashSet<OrgId>,
    pub(super) globals: BTreeSet<&'static str>,
}

impl Registry {
    pub(super) fn load(view: &dyn View) -> Result<Registry> {
        let all = |table| view.scan(table, Bound::Unbounded, Bound::Unbounded, false, usize::MAX);
        let damaged = |what: &'static str| move || Error::internal("open the store", what);
        let mut known = Registry::default();
        for (key, _) in all(FENCES)? {
            let org = Uuid::from_slice(&key).ok().ok_or_else(damaged("a fence is damaged"))?;
            known.fences.insert(OrgId(org));
        }
        for (key, _) in all(GLOBALS)? {
            let name = std::str::from_utf8(&key).ok();
            known.globals.insert(interned(name.ok_or_else(damaged("the name of an index is damaged"))?));
        }
        Ok(known)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fences.is_empty() && self.opened.is_empty() && self.globals.is_empty()
    }

    /// Adds what an operation says; of one organization it says one thing only.
    pub(super) fn add(&mut self, more: Registry) {
        for org in more.opened {
            self.fences.remove(&org);
            self.opened.insert(org);
        }
        for org in more.fences {
            self.opened.remove(&org);
            self.fences.insert(org);
        }
        self.globals.extend(more.globals);
    }

    /// Whether an organization stands behind a fence, as far as this says anything of it.
    pub(super) fn says_fenced(&self, org: OrgId) -> Option<bool> {
        let (fenced, opened) = (self.fences.contains(&org), self.opened.contains(&org));
        (fenced || opened).then_some(fenced)
    }

    /// Says whether it does.
    pub(super) fn say(&mut self, org: OrgId, fenced: bool) {
        let (to, from) = match fenced {
            true => (&mut self.fences, &mut self.opened),
            false => (&mut self.opened, &mut self.fences),
        };
        from.remove(&org);
        to.insert(org);
    }
}

/// The name of a table as the store's own code has it, for names that were read from the file. They are as few as the
/// tables, and live as long as the process.
pub(super) fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    match names.get(name) {
        Some(known) => known,
        None => {
            let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
            names.insert(name);
            name
        }
    }
}
