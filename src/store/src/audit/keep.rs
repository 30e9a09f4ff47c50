//! What is taken out of the audit log again: rows that are older than they are kept, and what tells of a person.
//!
//! Rows go at the old end only, and the head row keeps the hash of the last one that went: what is left still proves that
//! nothing else is missing. Of an erased person the personal parts go; the rows stay, under the person's id, which by then
//! leads nowhere. Both work in bounded operations.

use super::ScopedChain;
use super::list::number;
use super::row::{AuditFrame, frame};
use crate::System;
use crate::event::Event;
use crate::passed::{pass_over, readable};
use crate::raw::View;
use crate::scope::Scope;
use crate::shared::SealCheck;
use crate::tx::{SysRead, SysWrite, WriteTx};
use crate::view::WriteView;
use base::audit::Action;
use base::clock::Moment;
use base::ids::{OrgId, UserId};
use base::{Error, Result};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Chains whose seals one step looks at.
const CHAINS_PER_STEP: usize = 500;

/// Rows of one operation: some 10 ms of the writer.
const ROWS_PER_WRITE: usize = 500;

impl<S: Scope> WriteTx<'_, S> {
    /// Removes up to `limit` of the oldest rows that are from before `before`; returns how many.
    pub fn prune_audit(&self, before: Moment, limit: usize) -> Result<usize> {
        // What erases an organization takes its chain with it, and must not get a head row back.
        if self.is_behind_fence() {
            return Ok(0);
        }
        let (view, chain) = (self.raw(), self.audit_parts().1);
        let Some(mut head) = chain.head(view)? else { return Ok(0) };
        let (low, high) = (chain.row_key(head.first), chain.row_key(head.next));
        let rows = view.scan(chain.tables.rows, Included(&low), Excluded(&high), false, limit)?;
        let mut gone = 0;
        for (key, bytes) in rows {
            // The chain proves what is left only if rows go one behind the other: this one stays, and those behind it.
            let opened = readable("an audit row", tag(&chain, head.first), AuditFrame::open(&bytes))?;
            let Some((framed, body)) = opened else { break };
            if self.clock().moment_of(body.at) >= before {
                break;
            }
            for (table, entry) in chain.entries(head.first, &body) {
                view.set(table, entry, None);
            }
            view.set(chain.tables.rows, key, None);
            head.before = framed.hash;
            head.first += 1;
            gone += 1;
        }
        if gone > 0 {
            chain.put_head(view, head, false)?;
        }
        Ok(gone)
    }
}

/// What an erasure of personal parts came to, in rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasedParts {
    /// Rows that told of the person and do no more.
    pub erased: u64,
    /// Damaged rows that may tell of the person still: not even their parts can be told apart.
    pub left: u64,
}

impl std::ops::AddAssign for ErasedParts {
    fn add_assign(&mut self, more: ErasedParts) {
        self.erased += more.erased;
        self.left += more.left;
    }
}

/// A row in the log.
pub(super) fn tag(chain: &ScopedChain, number: u64) -> String {
    let chain: String = chain.prefix.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{chain}:{number}")
}

/// Leaves a row without its personal part, which needs no look into the rest of it: what of a row cannot be read goes, too.
pub(super) fn blank(view: &WriteView<'_>, chain: &ScopedChain, number: u64) -> Result<ErasedParts> {
    let key = chain.row_key(number);
    let Some(bytes) = view.get(chain.tables.rows, &key)? else { return Ok(ErasedParts::default()) };
    let Some(framed) = AuditFrame::read(&bytes) else {
        let damaged = Error::internal("read an audit row", "its frame is damaged");
        pass_over("an audit row of an erased person", tag(chain, number), &damaged);
        return Ok(ErasedParts { erased: 0, left: 1 });
    };
    if framed.personal.is_empty() {
        return Ok(ErasedParts::default());
    }
    view.set(chain.tables.rows, key, Some(frame(&framed.hash, framed.body, &[])));
    Ok(ErasedParts { erased: 1, left: 0 })
}

/// Removes the personal parts of up to `limit` rows that name `user`, from number `from` on. Returns the number to go on
/// with, if there may be more, and how many parts went.
fn erase_some(
    view: &WriteView<'_>,
    chain: &ScopedChain,
    user: UserId,
    from: u64,
    limit: usize,
) -> Result<(Option<u64>, ErasedParts)> {
    let prefix = chain.actor_prefix(user.0);
    let key = |number: u64| [prefix.as_slice(), &number.to_be_bytes()].concat();
    let (low, high) = (key(from), key(u64::MAX));
    let entries = view.scan(chain.tables.by_actor, Included(&low), Included(&high), false, limit)?;
    let full = entries.len() == limit;
    let (mut last, mut erased) = (from, ErasedParts::default());
    for (entry, _) in entries {
        last = number(&entry[prefix.len()..])?;
        erased += blank(view, chain, last)?;
    }
    Ok((full.then_some(last + 1), erased))
}

impl System {
    /// Removes what audit rows tell of a person beyond their id: addresses, request ids and what else stands in the
    /// personal parts of rows by them, by their keys, or of failed logins to their account, in every chain. Returns how
    /// many rows it was. Goes on where it was broken off when it is called again, because what is erased stays so.
    pub async fn erase_personal(&self, user: UserId) -> Result<ErasedParts> {
        let mut erased = self.erase_in(None, user).await?;
        let mut org = None;
        while let Some(next) = self.read(|tx| tx.next_org(super::OF_ORG.heads, org))? {
            erased += self.erase_in(Some(next), user).await?;
            org = Some(next);
        }
        Ok(erased)
    }

    async fn erase_in(&self, org: Option<OrgId>, user: UserId) -> Result<ErasedParts> {
        let (mut from, mut erased) = (Some(0), ErasedParts::default());
        // A chain that never heard of the person costs one look and no commit.
        if !self.read(|tx| {
            if org.is_some_and(|org| tx.is_fenced(org)) {
                return Ok(false);
            }
            let (view, chain) = tx.audit_chain(org);
            let low = chain.actor_prefix(user.0);
            let high = [low.as_slice(), &[0xFF; 8]].concat();
            Ok(!view.scan(chain.tables.by_actor, Included(&low), Included(&high), false, 1)?.is_empty())
        })? {
            return Ok(erased);
        }
        while let Some(number) = from {
            let (next, gone) = self
                .write_freeing(move |tx| {
                    tx.unaudited("the slice that erases the account writes the row");
                    let (_, chain) = tx.audit_chain(org);
                    erase_some(tx.raw(), &chain, user, number, ROWS_PER_WRITE)
                })
                .await?;
            from = next;
            erased += gone;
            tokio::task::yield_now().await;
        }
        Ok(erased)
    }

    /// Seals the ends of all chains anew that an older key has sealed, so that this key can go: a chain to which nobody
    /// writes would be sealed with it for ever. Gives how many.
    pub async fn renew_audit_seals(&self) -> Result<u64> {
        let (mut renewed, mut next) = (0, Some(None));
        while let Some(first) = next {
            let (older, behind) = self.read(|tx| self.sealed_by_older(tx, first))?;
            next = behind.map(Some);
            if older.is_empty() {
                continue;
            }
            let renew = move |tx: &SysWrite<'_>| {
                tx.unaudited("a seal is no change of what the chain says");
                let sealed = older.iter().map(|org| tx.audit_chain(*org).1.seal_anew(tx.raw()));
                sealed.map(|sealed| sealed.map(u64::from)).sum::<Result<u64>>()
            };
            renewed += self.write_freeing(renew).await?;
        }
        Ok(renewed)
    }

    /// Of some chains from this one on, those whose ends an older key has sealed; and the chain behind these.
    fn sealed_by_older(
        &self,
        tx: &SysRead<'_>,
        first: Option<OrgId>,
    ) -> Result<(Vec<Option<OrgId>>, Option<OrgId>)> {
        let (mut older, mut org) = (Vec::new(), first);
        for _ in 0..CHAINS_PER_STEP {
            let (view, chain) = tx.audit_chain(org);
            let is_fenced = org.is_some_and(|org| tx.is_fenced(org));
            // One that cannot be read is the finding of a walk.
            if let Some(head) = chain.head(view).ok().flatten().filter(|_| !is_fenced)
                && chain.check(&self.store.inner.audit, &head) == SealCheck::Older
            {
                older.push(org);
            }
            match tx.next_org(super::OF_ORG.heads, org)? {
                Some(next) => org = Some(next),
                None => return Ok((older, None)),
            }
        }
        Ok((older, org))
    }

    /// Removes the rows of every chain that are from before `before`, and writes into each chain that it shortened how
    /// many went. Returns how many went in all. Ends early when `stopping` says so.
    pub async fn prune_audit(&self, before: Moment, stopping: impl Fn() -> bool) -> Result<u64> {
        let (mut gone, mut org) = (0, None);
        loop {
            let pruned = self.prune_chain(org, before, &stopping).await;
            let whose = || org.map_or_else(|| "the box".to_owned(), |org| org.to_string());
            // A chain whose head is damaged keeps all of its rows, and no other's.
            gone += readable("the audit chain", whose(), pruned)?.unwrap_or_default();
            match self.read(|tx| tx.next_org(super::OF_ORG.heads, org))? {
                Some(next) => org = Some(next),
                None => return Ok(gone),
            }
        }
    }

    async fn prune_chain(
        &self,
        org: Option<OrgId>,
        before: Moment,
        stopping: &impl Fn() -> bool,
    ) -> Result<u64> {
        // Most chains have nothing that old most of the time: no commit for those.
        let is_due = self.read(|tx| {
            let (view, chain) = tx.audit_chain(org);
            let low = chain.row_key(0);
            let first = view.scan(chain.tables.rows, Included(&low), Unbounded, false, 1)?;
            match first.first().filter(|(key, _)| key.starts_with(&chain.prefix)) {
                Some((key, bytes)) => {
                    let number = number(&key[chain.prefix.len()..])?;
                    let opened = readable("an audit row", tag(&chain, number), AuditFrame::open(bytes))?;
                    Ok(opened.is_some_and(|(_, body)| tx.clock().moment_of(body.at) < before))
                }
                None => Ok(false),
            }
        })?;
        let mut total = 0u64;
        while is_due && !stopping() {
            let gone = self
                .write_freeing(move |tx| match org {
                    Some(org) => tx.org(org).prune_audit(before, ROWS_PER_WRITE),
                    None => tx.prune_audit(before, ROWS_PER_WRITE),
                })
                .await?;
            total += gone as u64;
            if gone < ROWS_PER_WRITE {
                break;
            }
        }
        if total > 0 {
            let before = self.store.clock().look().date_of(before);
            let event =
                Event::new(Action::AuditPruned).with("count", total).with("before", before.to_string());
            self.write_freeing(move |tx| tx.audit_in(org, event)).await?;
        }
        Ok(total)
    }
}
