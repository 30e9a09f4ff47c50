//! What is taken out of the audit log again: rows that are older than they are kept, and what tells of a person.
//!
//! Rows go at the old end only, and the head row keeps the hash of the last one that went: what is left still proves that
//! nothing else is missing. Of an erased person the personal parts go; the rows stay, under the person's id, which by then
//! leads nowhere. Both work in bounded operations.

use super::list::number;
use super::row::{Framed, frame};
use super::{ChainOf, Event};
use crate::System;
use crate::tx::{Scope, Writes};
use crate::view::{View, WriteView};
use base::Result;
use base::audit::Action;
use base::clock::Moment;
use base::ids::{OrgId, UserId};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Rows of one operation: some 10 ms of the writer.
const ROWS_PER_WRITE: usize = 500;

impl<S: Scope> Writes<'_, S> {
    /// Removes up to `limit` of the oldest rows that are from before `before`; returns how many.
    pub fn prune_audit(&self, before: Moment, limit: usize) -> Result<usize> {
        // What erases an organization takes its chain with it, and must not get a head row back.
        if self.is_behind_fence() {
            return Ok(0);
        }
        let (view, chain) = (self.raw(), self.chain());
        let Some(mut head) = chain.head(view)? else { return Ok(0) };
        let (low, high) = (chain.row_key(head.first), chain.row_key(head.next));
        let rows = view.scan(chain.tables.rows, Included(&low), Excluded(&high), false, limit)?;
        let mut gone = 0;
        for (key, bytes) in rows {
            let (framed, body) = Framed::open(&bytes)?;
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
            chain.put_head(view, head)?;
        }
        Ok(gone)
    }
}

/// Removes the personal parts of up to `limit` rows that name `user`, from number `from` on. Returns the number to go on
/// with, if there may be more, and how many parts went.
fn erase_some(
    view: &WriteView<'_>,
    chain: &ChainOf,
    user: UserId,
    from: u64,
    limit: usize,
) -> Result<(Option<u64>, u64)> {
    let prefix = chain.actor_prefix(user.0);
    let key = |number: u64| [prefix.as_slice(), &number.to_be_bytes()].concat();
    let (low, high) = (key(from), key(u64::MAX));
    let entries = view.scan(chain.tables.by_actor, Included(&low), Included(&high), false, limit)?;
    let full = entries.len() == limit;
    let (mut last, mut erased) = (from, 0);
    for (entry, _) in entries {
        last = number(&entry[prefix.len()..])?;
        let key = chain.row_key(last);
        let Some(bytes) = view.get(chain.tables.rows, &key)? else { continue };
        let (framed, _) = Framed::open(&bytes)?;
        if !framed.personal.is_empty() {
            view.set(chain.tables.rows, key, Some(frame(&framed.hash, framed.body, &[])));
            erased += 1;
        }
    }
    Ok((full.then_some(last + 1), erased))
}

impl System {
    /// Removes what audit rows tell of a person beyond their id: addresses, request ids and what else stands in the
    /// personal parts of rows by them, by their keys, or of failed logins to their account, in every chain. Returns how
    /// many rows it was. Goes on where it was broken off when it is called again, because what is erased stays so.
    pub async fn erase_personal(&self, user: UserId) -> Result<u64> {
        let mut erased = self.erase_in(None, user).await?;
        let mut org = None;
        while let Some(next) = self.read(|tx| tx.next_org(super::OF_ORG.heads, org))? {
            erased += self.erase_in(Some(next), user).await?;
            org = Some(next);
        }
        Ok(erased)
    }

    async fn erase_in(&self, org: Option<OrgId>, user: UserId) -> Result<u64> {
        let (mut from, mut erased) = (Some(0), 0);
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
            return Ok(0);
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

    /// Removes the rows of every chain that are from before `before`, and writes into each chain that it shortened how
    /// many went. Returns how many went in all. Ends early when `stopping` says so.
    pub async fn prune_audit(&self, before: Moment, stopping: impl Fn() -> bool) -> Result<u64> {
        let mut gone = self.prune_chain(None, before, &stopping).await?;
        let mut org = None;
        while let Some(next) = self.read(|tx| tx.next_org(super::OF_ORG.heads, org))? {
            gone += self.prune_chain(Some(next), before, &stopping).await?;
            org = Some(next);
        }
        Ok(gone)
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
                Some((_, bytes)) => Ok(tx.clock().moment_of(Framed::open(bytes)?.1.at) < before),
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
