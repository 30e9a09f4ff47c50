//! E-mail addresses in rows of other people: whom somebody invited, say. They go when the address's owner is erased.
//!
//! A row's personal part belongs to whoever acted, and that is how `keep.rs` finds it. An address in the details may be
//! somebody else's, and no index tells whose, so every row that could hold one is looked at: those of bulk actions hold
//! none. It is a walk for background work: page by page, and a write only where something was found.

use super::ScopedChain;
use super::keep::{ErasedParts, blank, tag};
use super::list::number;
use super::row::AuditFrame;
use crate::System;
use crate::event::shortened;
use crate::key::after_prefix;
use crate::passed::readable;
use crate::raw::View;
use base::Result;
use base::clock::Timestamp;
use base::ids::OrgId;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Rows of one look: some 10 ms.
const ROWS_PER_READ: usize = 500;

/// Numbers of rows, and the index entry to go on behind.
type Found = (Vec<u64>, Option<Vec<u8>>);

impl System {
    /// Removes the personal parts of all rows until `until`, in every chain, whose details have `address` in its one
    /// spelling. Returns how many rows it was.
    pub async fn erase_address(&self, address: &str, until: Timestamp) -> Result<ErasedParts> {
        // As rows keep it: a very long one is cut.
        let address = &shortened(address.to_owned());
        let mut erased = self.erase_address_in(None, address, until).await?;
        let mut org = None;
        while let Some(next) = self.read(|tx| tx.next_org(super::OF_ORG.heads, org))? {
            erased += self.erase_address_in(Some(next), address, until).await?;
            org = Some(next);
        }
        Ok(erased)
    }

    async fn erase_address_in(
        &self,
        org: Option<OrgId>,
        address: &str,
        until: Timestamp,
    ) -> Result<ErasedParts> {
        let (mut after, mut erased) = (None::<Vec<u8>>, ErasedParts::default());
        loop {
            let (found, next) = self.read(|tx| {
                if org.is_some_and(|org| tx.is_fenced(org)) {
                    return Ok(Found::default());
                }
                let (view, chain) = tx.audit_chain(org);
                holding(view, &chain, (address, until), after.as_deref())
            })?;
            if !found.is_empty() {
                erased += self
                    .write_freeing(move |tx| {
                        tx.unaudited("the slice that erases the account writes the row");
                        let (_, chain) = tx.audit_chain(org);
                        let mut erased = ErasedParts::default();
                        for number in found {
                            erased += blank(tx.raw(), &chain, number)?;
                        }
                        Ok(erased)
                    })
                    .await?;
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(erased),
            }
            // A long log must not hold up what else this thread has to do.
            tokio::task::yield_now().await;
        }
    }
}

/// Rows among the next ones that hold the address and are from before the moment; and damaged ones of which nobody can say
/// whose address they hold.
fn holding(
    view: &dyn View,
    chain: &ScopedChain,
    (address, until): (&str, Timestamp),
    after: Option<&[u8]>,
) -> Result<Found> {
    let end = after_prefix(&chain.prefix);
    let low = after.map_or(Included(chain.prefix.as_slice()), Excluded);
    let high = end.as_deref().map_or(Unbounded, Excluded);
    let entries = view.scan(chain.tables.by_resource, low, high, false, ROWS_PER_READ)?;
    let next = entries.last().filter(|_| entries.len() == ROWS_PER_READ).map(|(key, _)| key.clone());
    let mut found = Vec::new();
    for (key, _) in entries {
        let number = number(key.last_chunk::<8>().map_or(&[], |bytes| bytes.as_slice()))?;
        let Some(bytes) = view.get(chain.tables.rows, &chain.row_key(number))? else { continue };
        let Some(framed) = AuditFrame::read(&bytes) else {
            found.push(number);
            continue;
        };
        let which = || tag(chain, number);
        let body = readable("an audit row", which(), framed.opened())?;
        if body.is_some_and(|body| body.at > until) {
            continue;
        }
        // What cannot be read serves nobody, and may be the person's.
        let holds = match readable("the personal part of an audit row", which(), framed.personal())? {
            Some(personal) => {
                personal.is_some_and(|part| part.details.iter().any(|(_, text)| text == address))
            }
            None => true,
        };
        if holds {
            found.push(number);
        }
    }
    Ok((found, next))
}

#[cfg(test)]
mod tests {
    use crate::audit::tests::chain_findings;
    use crate::fault::FaultyDisk;
    use crate::{AuditFilter, Event, MIGRATIONS, Origin, Store};
    use base::audit::Action;
    use base::clock::{Clock, Timestamp};
    use base::ids::{OrgId, RequestId, UserId};
    use base::page::PageRequest;

    #[tokio::test]
    async fn an_address_goes_from_rows_of_others_and_the_chains_still_prove_the_rest() {
        let disk = FaultyDisk::new();
        let store = Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap();
        let system = store.system();
        let (one, other) = (OrgId::new(), OrgId::new());
        let invite =
            |address: &str| Event::new(Action::InviteCreated).of(UserId::new()).personal("email", address);
        for org in [None, Some(one), Some(other)] {
            // More than one look.
            for n in 0..super::ROWS_PER_READ + 20 {
                let address = if n % 50 == 7 { "ada@example.com" } else { "eve@example.com" };
                let event = invite(address);
                let origin = Origin::request("192.0.2.7".parse().unwrap(), RequestId::accept(Some("r")));
                origin.scope(system.write(move |tx| tx.audit_in(org, event))).await.unwrap();
            }
        }
        let each = (0..super::ROWS_PER_READ + 20).filter(|n| n % 50 == 7).count() as u64;
        let erased = async |until| system.erase_address("ada@example.com", until).await.unwrap().erased;
        assert_eq!(erased(Timestamp(0)).await, 0);
        let now = store.clock().now();
        assert_eq!(erased(now).await, 3 * each);
        assert_eq!(erased(now).await, 0);
        for org in [None, Some(one), Some(other)] {
            assert_eq!(chain_findings(&store, org), Vec::<String>::new());
            let request = PageRequest { limit: 200, cursor: None };
            let page = system
                .read(|tx| match org {
                    Some(org) => tx.org(org).audit_page(&AuditFilter::default(), &request),
                    None => tx.audit_page(&AuditFilter::default(), &request),
                })
                .unwrap();
            let bare = page.items.iter().filter(|entry| entry.ip.is_none()).count();
            assert_eq!(bare, page.items.iter().filter(|entry| entry.details.is_empty()).count());
            assert!(bare > 0 && bare < 10, "the rows stay, and the others' parts too: {bare}");
        }
    }
}
