//! What all operations of a store share of the audit log.

use super::refusals::Refusals;
use std::sync::OnceLock;

/// The counted refusals, and what seals the ends of chains.
#[derive(Default)]
pub(super) struct AuditShared {
    pub(super) refusals: Refusals,
    seal: OnceLock<AuditSeal>,
}

type MakeSeal = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;
type FitsSeal = dyn Fn(&[u8], &[u8]) -> bool + Send + Sync;

/// A seal that only the holder of a key can make.
struct AuditSeal {
    make: Box<MakeSeal>,
    /// Whether the second bytes are a seal of the first.
    fits: Box<FitsSeal>,
}

impl AuditShared {
    pub(super) fn seal_with(
        &self,
        make: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
        fits: impl Fn(&[u8], &[u8]) -> bool + Send + Sync + 'static,
    ) {
        if self.seal.set(AuditSeal { make: Box::new(make), fits: Box::new(fits) }).is_err() {
            tracing::error!("the audit log has its seal already; the second one is not used");
        }
    }

    /// The seal of these bytes, where there is one.
    pub(super) fn sealed(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.seal.get().map(|seal| (seal.make)(bytes))
    }

    /// Whether `given` is a seal of these bytes; also where nothing is sealed.
    pub(super) fn fits(&self, bytes: &[u8], given: Option<&[u8]>) -> bool {
        self.seal.get().is_none_or(|seal| given.is_some_and(|given| (seal.fits)(bytes, given)))
    }
}
