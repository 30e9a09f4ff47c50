//! Connections to the mail server for letters of outputs: some at once, each of another organization.

use base::ids::OrgId;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// Connections at once.
pub const CONNECTIONS_MAX: usize = 4;

/// Who sends letters just now.
#[derive(Default)]
pub struct LetterPlaces(Mutex<HashSet<OrgId>>);

impl LetterPlaces {
    /// A place for an organization; none where it has one, or all are taken.
    pub fn take(self: &Arc<LetterPlaces>, org: OrgId) -> Option<LetterPlace> {
        let mut orgs = self.0.lock();
        let is_free = orgs.len() < CONNECTIONS_MAX && orgs.insert(org);
        is_free.then(|| LetterPlace { places: Arc::clone(self), org })
    }
}

/// Dropping it gives the place back.
pub struct LetterPlace {
    places: Arc<LetterPlaces>,
    org: OrgId,
}

impl Drop for LetterPlace {
    fn drop(&mut self) {
        self.places.0.lock().remove(&self.org);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organization_has_one_place_and_gives_it_back() {
        let places = Arc::new(LetterPlaces::default());
        let orgs: Vec<_> = (0..CONNECTIONS_MAX).map(|_| OrgId::new()).collect();
        let mut held: Vec<_> = orgs.iter().map(|org| places.take(*org).unwrap()).collect();
        assert!(places.take(orgs[0]).is_none() && places.take(OrgId::new()).is_none());
        held.pop();
        assert!(places.take(orgs[0]).is_none(), "it has one");
        assert!(places.take(OrgId::new()).is_some());
    }
}
