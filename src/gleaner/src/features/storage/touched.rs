//! Which remote pages were kept again lately: none of them is removed under a result that is on its way.
//!
//! A local page's file has a time; a remote one has none, so it is remembered here. The memory may be lost with the process:
//! what was on its way then begins anew, and keeps its page anew.

use base::ids::OrgId;
use blob::BlobHash;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Pages that are remembered; with more, nothing remote is removed until the older ones are forgotten.
const REMEMBERED_MAX: usize = 500_000;
/// How long.
const REMEMBERED_FOR: Duration = Duration::from_secs(2 * 3_600);
/// How often all of them are looked through for older ones, where there are too many: everybody's pages wait meanwhile.
const LOOKED_THROUGH_EVERY: Duration = Duration::from_secs(30);

/// The memory.
#[derive(Default)]
pub(super) struct Touched {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    at: HashMap<(OrgId, BlobHash), Instant>,
    /// Those that are being removed: they are not there for whoever asks now.
    removing: HashSet<(OrgId, BlobHash)>,
    /// Removals that have ended: what was found while one ended may be what it has removed.
    removed: u64,
    /// When something could not be remembered.
    overflowed: Option<Instant>,
    looked_through: Option<Instant>,
}

impl Inner {
    fn note(&mut self, page: (OrgId, BlobHash)) {
        if self.at.len() >= REMEMBERED_MAX && !self.at.contains_key(&page) {
            if self.looked_through.is_none_or(|at| at.elapsed() >= LOOKED_THROUGH_EVERY) {
                self.at.retain(|_, at| at.elapsed() < REMEMBERED_FOR);
                self.looked_through = Some(Instant::now());
            }
            if self.at.len() >= REMEMBERED_MAX {
                self.overflowed = Some(Instant::now());
                return;
            }
        }
        self.at.insert(page, Instant::now());
    }
}

impl Touched {
    /// The page is kept again, if `find` finds it and nobody removes it at this moment.
    pub fn keep<T>(&self, org: OrgId, hash: BlobHash, find: impl FnOnce() -> Option<T>) -> Option<T> {
        let page = (org, hash);
        let before = {
            let mut inner = self.inner.lock();
            if inner.removing.contains(&page) {
                return None;
            }
            // Whoever removes it from now on sees that it was kept, or is seen here.
            inner.note(page);
            inner.removed
        };
        let found = find()?;
        let inner = self.inner.lock();
        (inner.removed == before && !inner.removing.contains(&page)).then_some(found)
    }

    pub fn note(&self, org: OrgId, hash: BlobHash) {
        self.inner.lock().note((org, hash));
    }

    /// Begins to remove a page, unless it was kept again within `age`. Nobody keeps it until the answer is dropped.
    pub fn remove(&self, org: OrgId, hash: BlobHash, age: Duration) -> Option<Removing<'_>> {
        let mut inner = self.inner.lock();
        let is_lately = |at: &Instant| at.elapsed() < age;
        let page = (org, hash);
        if inner.overflowed.as_ref().is_some_and(is_lately) || inner.at.get(&page).is_some_and(is_lately) {
            return None;
        }
        inner.at.remove(&page);
        // Made only where it is given: one that is dropped here would wait for the lock that is held here.
        inner.removing.insert(page).then(|| Removing { touched: self, page })
    }

    pub fn forget(&self, org: OrgId) {
        self.inner.lock().at.retain(|(own, _), _| *own != org);
    }
}

/// A page that is being removed.
pub(super) struct Removing<'a> {
    touched: &'a Touched,
    page: (OrgId, BlobHash),
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        let mut inner = self.touched.inner.lock();
        inner.removing.remove(&self.page);
        inner.removed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_not_removed_and_what_is_removed_is_not_kept() {
        let (touched, org) = (Touched::default(), OrgId::new());
        let (one, two) = (BlobHash::of(b"1"), BlobHash::of(b"2"));
        let hour = Duration::from_secs(3_600);
        assert_eq!(touched.keep(org, one, || Some(7)), Some(7));
        assert!(touched.remove(org, one, hour).is_none(), "it was kept just now");
        let removing = touched.remove(org, two, hour).unwrap();
        assert!(touched.remove(org, two, hour).is_none(), "somebody is at it");
        assert_eq!(touched.keep(org, two, || Some(7)), None);
        drop(removing);
        assert_eq!(touched.keep(org, two, || None::<u8>), None);
        let three = BlobHash::of(b"3");
        let removing = touched.remove(org, three, hour);
        // It was found just before it went.
        drop(removing);
        let found = touched.keep(org, BlobHash::of(b"4"), || {
            drop(touched.remove(org, three, hour));
            Some(7)
        });
        assert_eq!(found, None, "something went while it was looked for");
        assert!(touched.remove(OrgId::new(), one, hour).is_some(), "another organization's is another page");
        assert!(touched.remove(org, one, Duration::ZERO).is_some());
        touched.forget(org);
        assert!(touched.remove(org, two, hour).is_some());
    }
}
