//! What all operations of a store share of the audit log.

use super::refusals::Refusals;
use std::sync::OnceLock;

/// The counted refusals, and what seals the ends of chains.
#[derive(Default)]
pub(super) struct AuditShared {
    pub(super) refusals: Refusals,
    seal: OnceLock<Seal>,
}

type Seal = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

impl AuditShared {
    pub(super) fn seal_with(&self, seal: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) {
        if self.seal.set(Box::new(seal)).is_err() {
            tracing::error!("the audit log has its seal already; the second one is not used");
        }
    }

    /// The seal of these bytes, where there is one.
    pub(super) fn sealed(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.seal.get().map(|seal| seal(bytes))
    }
}
