//! The audit log: who did what, written in the transaction that did it, each row chained to the one before.
//!
//! Every organization has a chain, and the box has one for what belongs to none (registrations, logins of unknown
//! addresses, what the operator does). A slice writes one line, `tx.audit(Event::new(Action::UrlCreated).of(id))`; who,
//! from where and in which request come from the [`Origin`] that the trunk put around the request.
//!
//! Invariants:
//! - an operation of a person, a key or the operator that changes rows writes an audit row, or says why it need not
//!   with [`WriteTx::unaudited`]; a debug build refuses one that does neither, a release build logs it;
//! - an organization behind a fence takes no audit rows; what erases it writes into the box's chain;
//! - numbers are contiguous and times never fall within a chain;
//! - a row's hash covers the one before it; the head row holds the last number and hash, and what was pruned at the
//!   other end, so that no row can go, change or move unnoticed, also not the last;
//! - the head is sealed with a key that is not in the data folder, so that who can write there cannot make it anew;
//! - bodies hold ids and never names, addresses or e-mails: those are in the personal part, which can be erased.

mod address;
mod check;
mod keep;
mod list;
mod refusals;
mod row;

pub(super) use check::chain as check_chain;
pub use check::{ChainReport, CheckSeal};
pub use keep::ErasedParts;
pub use list::{AuditEntry, AuditFilter};

use super::event::Event;
use super::key::AsPart;
use super::origin::{Actor, Origin};
use super::raw::View;
use super::scope::Scope;
use super::shared::{AuditShared, SealCheck};
use super::tx::{ReadTx, SysRead, SysWrite, WriteTx};
use super::view::WriteView;
use base::audit::Action;
use base::clock::Timestamp;
use base::codec;
use base::digest::sha256;
use base::ids::OrgId;
use base::{Code, Error, Result};
use row::{AuditBodyV1, AuditPersonalV1, ChainHeadV1, encode, frame, link};
use uuid::Uuid;

/// The tables of one kind of chain.
pub struct Chain {
    rows: &'static str,
    heads: &'static str,
    /// By the person or the key: id (16) | number (8).
    by_actor: &'static str,
    /// By the kind of thing, without bulk actions: kind | number (8).
    by_resource: &'static str,
}

/// Tables in which every organization with a chain has a row.
pub(super) const ORG_TABLES: &[&str] = &["audit_heads", "audit"];

/// The tables of organizations' chains: rows, ends, and what both are found by.
pub const AUDIT_TABLES: [&str; 4] = ["audit", "audit_heads", "audit.by_actor", "audit.by_resource"];

/// An organization's chain.
pub(super) static OF_ORG: Chain = Chain {
    rows: "audit",
    heads: "audit_heads",
    by_actor: "audit.by_actor",
    by_resource: "audit.by_resource",
};
/// The box's own chain.
pub(super) static OF_SYSTEM: Chain = Chain {
    rows: "audit_system",
    heads: "audit_system_heads",
    by_actor: "audit_system.by_actor",
    by_resource: "audit_system.by_resource",
};

/// Holds an operation that changes rows to saying something to the audit log.
pub(super) fn check_operation(view: &WriteView<'_>, actor: Actor) -> Result<()> {
    if actor == Actor::System || !view.lacks_audit() {
        return Ok(());
    }
    let reason = "it changes rows for somebody and neither writes an audit row nor says why not";
    if cfg!(debug_assertions) {
        return Err(Error::internal("end a write operation", reason));
    }
    // A box in service goes on; what is missing is a line of ours, not the caller's fault.
    tracing::error!(?actor, reason, "an operation without an audit row");
    Ok(())
}

impl<'v, S: Scope> ReadTx<'v, S> {
    /// The scope's audit chain and the view to read it with.
    pub(super) fn audit_parts(&self) -> (&'v dyn View, ScopedChain) {
        let tables = if self.scope.org().is_some() { &OF_ORG } else { &OF_SYSTEM };
        (self.view(), ScopedChain::new(tables, self.scope.prefix()))
    }
}

impl SysRead<'_> {
    /// The audit chain of an organization, or the box's own.
    pub(super) fn audit_chain(&self, org: Option<OrgId>) -> (&dyn View, ScopedChain) {
        match org {
            Some(org) => self.org(org).audit_parts(),
            None => self.audit_parts(),
        }
    }
}

impl<S: Scope> WriteTx<'_, S> {
    /// Writes an audit row that becomes true together with this operation.
    pub fn audit(&self, event: Event) -> Result<()> {
        if self.is_behind_fence() {
            return Err(Error::new(Code::OrgNotFound));
        }
        append(self.raw(), &self.audit_parts().1, &self.raw().origin(), event, self.now())?;
        self.raw().mark_audited();
        Ok(())
    }

    /// This operation of a person needs no audit row, because of `reason`: what it writes is bookkeeping, or another row
    /// tells it.
    pub fn unaudited(&self, reason: &'static str) {
        debug_assert!(!reason.is_empty());
        self.raw().mark_audited();
    }
}

impl SysWrite<'_> {
    /// Writes an audit row into the chain of the organization that it concerns, or into the box's.
    pub fn audit_in(&self, org: Option<OrgId>, event: Event) -> Result<()> {
        match org {
            Some(org) => self.org(org).audit(event),
            None => self.audit(event),
        }
    }
}

/// A chain of one scope: its tables, and what stands in front of its keys.
pub(super) struct ScopedChain {
    tables: &'static Chain,
    prefix: Vec<u8>,
}

impl ScopedChain {
    pub(super) fn new(tables: &'static Chain, prefix: Vec<u8>) -> ScopedChain {
        ScopedChain { tables, prefix }
    }

    fn row_key(&self, number: u64) -> Vec<u8> {
        [self.prefix.as_slice(), &number.to_be_bytes()].concat()
    }

    /// A byte of its own, because the box's prefix is empty.
    fn head_key(&self) -> Vec<u8> {
        [self.prefix.as_slice(), b"h"].concat()
    }

    fn head(&self, view: &dyn View) -> Result<Option<ChainHeadV1>> {
        let bytes = view.get(self.tables.heads, &self.head_key())?;
        bytes
            .map(|bytes| codec::decode(&bytes))
            .transpose()
            .map_err(|e| Error::internal("read the head of an audit chain", e))
    }

    /// Writes the head in the place of the one before it. Where the seal of that did not fit, somebody has changed it beside
    /// the box, and the proof of that stays: a new seal would say that all is well. One of a key that is not held proves
    /// nothing in either way: a row that says so (`is_said`, see [`append`]) goes on under a new seal, and nothing else does.
    fn put_head(&self, view: &WriteView<'_>, mut head: ChainHeadV1, is_said: bool) -> Result<()> {
        if let Some(shared) = view.shared() {
            let before = self.head(view)?;
            let worth = before.as_ref().map(|before| self.check(shared, before));
            let stays = match worth {
                Some(SealCheck::Wrong) => {
                    if shared.is_news(&self.prefix) {
                        tracing::error!(
                            "the head of an audit chain was changed beside the box; `gleaner doctor` says which"
                        );
                    }
                    true
                }
                Some(SealCheck::UnknownKey(_)) => !is_said,
                _ => false,
            };
            head.seal = match before.filter(|_| stays) {
                Some(before) => before.seal,
                None => shared.sealed(&head.sealed_bytes(&self.prefix)),
            };
        }
        let head = &head;
        view.set(self.tables.heads, self.head_key(), Some(encode(head)?));
        Ok(())
    }

    /// What the seal of a head is worth.
    fn check(&self, shared: &AuditShared, head: &ChainHeadV1) -> SealCheck {
        shared.check(&head.sealed_bytes(&self.prefix), head.seal.as_deref())
    }

    /// Seals the head anew if it is of an older key; whether it was.
    fn seal_anew(&self, view: &WriteView<'_>) -> Result<bool> {
        let (Some(shared), Some(head)) = (view.shared(), self.head(view)?) else { return Ok(false) };
        if self.check(shared, &head) != SealCheck::Older {
            return Ok(false);
        }
        self.put_head(view, head, false)?;
        Ok(true)
    }

    /// Every index entry of a row: table and key.
    fn entries(&self, number: u64, body: &AuditBodyV1) -> Vec<(&'static str, Vec<u8>)> {
        let number = number.to_be_bytes();
        let key = match body.actor {
            row::ActorV1::ApiKey(key, _) => Some(key.0),
            _ => None,
        };
        let person = body.person.map(|user| user.0);
        let mut entries: Vec<_> = key
            .into_iter()
            .chain(person)
            .map(|id| (self.tables.by_actor, [self.actor_prefix(id).as_slice(), &number].concat()))
            .collect();
        if !Action::named(&body.action).is_some_and(Action::is_bulk) {
            let kind = self.resource_prefix(&body.resource_type);
            entries.push((self.tables.by_resource, [kind.as_slice(), &number].concat()));
        }
        entries
    }

    fn actor_prefix(&self, id: Uuid) -> Vec<u8> {
        [self.prefix.as_slice(), id.as_bytes()].concat()
    }

    fn resource_prefix(&self, kind: &str) -> Vec<u8> {
        let mut key = self.prefix.clone();
        kind.write_as(&mut key);
        key
    }
}

/// In the details of a row: the key that the end before it was sealed with and that nobody had when the row was written, so
/// that what went before is as whole as its links, and no more is known.
const UNPROVEN: &str = "endBeforeSealedWithUnknownKey";

/// Adds a row at the end of a chain.
fn append(
    view: &WriteView<'_>,
    chain: &ScopedChain,
    origin: &Origin,
    event: Event,
    now: Timestamp,
) -> Result<()> {
    let before = chain.head(view)?;
    let unproven = before.as_ref().zip(view.shared()).map(|(head, shared)| chain.check(shared, head));
    let mut head = before.unwrap_or_else(ChainHeadV1::new);
    let actor = event.actor.unwrap_or_else(|| origin.actor());
    let personal = personal_part(origin, event.personal)?;
    let mut body = AuditBodyV1 {
        at: now,
        actor: actor.into(),
        action: event.action.name().to_owned(),
        resource_type: event.action.resource().to_owned(),
        resource: event.resource,
        person: actor.person().or(event.person),
        details: event.details.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        personal: (!personal.is_empty()).then(|| sha256(&personal)),
    };
    if let Some(SealCheck::UnknownKey(key)) = unproven {
        tracing::warn!(
            key,
            "an audit chain goes on whose end was sealed with a key that is not in the key file"
        );
        body.details.push((UNPROVEN.to_owned(), key.into()));
    }
    let bytes = encode(&body)?;
    let number = head.next;
    head.hash = link(&chain.prefix, number, &head.hash, &bytes);
    head.next += 1;
    head.last_at = body.at.max(head.last_at);
    view.set(chain.tables.rows, chain.row_key(number), Some(frame(&head.hash, &bytes, &personal)));
    for (table, key) in chain.entries(number, &body) {
        view.set(table, key, Some(Vec::new()));
    }
    chain.put_head(view, head, true)
}

/// The part that can be erased; empty when there is nothing in it.
fn personal_part(origin: &Origin, details: Vec<(&'static str, String)>) -> Result<Vec<u8>> {
    if origin.ip().is_none() && origin.request_id().is_none() && details.is_empty() {
        return Ok(Vec::new());
    }
    encode(&AuditPersonalV1 {
        salt: Uuid::new_v4(),
        ip: origin.ip(),
        request_id: origin.request_id().map(|id| id.as_str().to_owned()),
        details: details.into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
    })
}

#[cfg(test)]
mod tests;
