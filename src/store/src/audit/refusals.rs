//! Refusals as they are written: the first of a kind at once, the others as one row; see `store/src/refusals.rs`.

use crate::System;
use crate::event::Event;
use crate::origin::Origin;
use crate::passed::{is_unreadable, pass_over};
use crate::tx::SysWrite;
use base::Result;
use base::ids::OrgId;
use std::sync::Arc;

impl SysWrite<'_> {
    /// Writes that somebody was refused, in this transaction, or counts it when the same was refused a moment ago.
    pub fn audit_refusal(&self, org: Option<OrgId>, event: Event) -> Result<()> {
        if org.is_some_and(|org| self.is_fenced(org)) {
            self.unaudited("the organization is being erased, and its log with it");
            return Ok(());
        }
        let origin = self.raw().origin();
        if self
            .raw()
            .shared()
            .is_none_or(|shared| shared.refusals.is_first(org, &event, &origin, self.clock()))
        {
            return self.audit_in(org, event);
        }
        self.unaudited("the refusal is counted and becomes a row within a minute");
        Ok(())
    }
}

/// Writes the row of a refusal, unless the organization is being erased, and its log with it.
fn written(tx: &SysWrite<'_>, org: Option<OrgId>, event: Event) -> Result<()> {
    if org.is_some_and(|org| tx.is_fenced(org)) { Ok(()) } else { tx.audit_in(org, event) }
}

impl System {
    /// Writes that somebody was refused where nothing else is written. A failure to write is logged: the refusal stands
    /// whether or not it could be noted.
    pub async fn refused(&self, org: Option<OrgId>, event: Event) {
        let first = self.store.inner.audit.refusals.is_first(
            org,
            &event,
            &Origin::current(),
            &self.store.clock().look(),
        );
        if first && let Err(error) = self.write(move |tx| written(tx, org, event)).await {
            tracing::warn!(%error, "a refusal could not be written to the audit log");
        }
    }

    /// Writes what was counted of refusals whose minute is over, or of all.
    pub async fn flush_refusals(&self, all: bool) -> Result<()> {
        let refusals = &self.store.inner.audit.refusals;
        let mut failed = None;
        for (kind, counted) in refusals.take(self.store.clock().moment(), all) {
            let (org, event) = (kind.org, counted.event.clone());
            let event = event.with("repeated", counted.more).with("since", counted.since.date.to_string());
            if let Err(error) =
                Arc::clone(&counted.origin).scope(self.write(move |tx| written(tx, org, event))).await
            {
                // A chain whose end is damaged takes no rows; the others do.
                if is_unreadable(&error) {
                    pass_over("the audit chain that counts refusals", format_args!("{org:?}"), &error);
                    continue;
                }
                refusals.put_back(kind, counted);
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
