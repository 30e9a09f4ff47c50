//! What all operations of a store share of the audit log.

use super::refusals::Refusals;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::OnceLock;

/// The counted refusals, and what seals the ends of chains.
#[derive(Default)]
pub(super) struct AuditShared {
    pub(super) refusals: Refusals,
    seal: OnceLock<AuditSeal>,
    /// Chains of which the log has been told that their seals do not fit: each row of theirs would tell it again.
    told: Mutex<HashSet<Vec<u8>>>,
}

/// So many chains are told of; the doctor knows them all.
const TOLD_MAX: usize = 1_000;

/// What the holder of the keys says of a seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealCheck {
    /// It is of the key that seals now.
    Current,
    /// It is of another key that is held.
    Older,
    /// The key that it names is not held (any more): nothing is known.
    UnknownKey(String),
    /// It is none of these bytes.
    Wrong,
}

impl SealCheck {
    /// Whether it is a seal of those bytes.
    pub fn fits(&self) -> bool {
        matches!(self, SealCheck::Current | SealCheck::Older)
    }
}

type MakeSeal = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;
type JudgeSeal = dyn Fn(&[u8], &[u8]) -> SealCheck + Send + Sync;

/// A seal that only the holder of a key can make.
struct AuditSeal {
    make: Box<MakeSeal>,
    /// What the second bytes are as a seal of the first.
    check: Box<JudgeSeal>,
}

impl AuditShared {
    pub(super) fn seal_with(
        &self,
        make: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
        check: impl Fn(&[u8], &[u8]) -> SealCheck + Send + Sync + 'static,
    ) {
        if self.seal.set(AuditSeal { make: Box::new(make), check: Box::new(check) }).is_err() {
            tracing::error!("the audit log has its seal already; the second one is not used");
        }
    }

    /// The seal of these bytes, where there is one.
    pub(super) fn sealed(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.seal.get().map(|seal| (seal.make)(bytes))
    }

    /// What `given` is as a seal of these bytes; current where nothing is sealed.
    pub(super) fn check(&self, bytes: &[u8], given: Option<&[u8]>) -> SealCheck {
        let Some(seal) = self.seal.get() else { return SealCheck::Current };
        given.map_or(SealCheck::Wrong, |given| (seal.check)(bytes, given))
    }

    /// Whether the log has not been told yet of this chain.
    pub(super) fn is_news(&self, chain: &[u8]) -> bool {
        let mut told = self.told.lock();
        told.len() < TOLD_MAX && told.insert(chain.to_owned())
    }
}
