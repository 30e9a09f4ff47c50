//! Which ways to a page an organization does not control, so that what came by them was said by the site.

use super::adapters::{PROXY, visits_itself};
use super::rows::PROVIDERS;
use base::Result;
use base::clock::Timestamp;
use store::{OrgRead, readable};

/// Whether a page came by such a way: the box's own, or a vendor at the vendor's own address, which was not changed since. `adapter` is
/// what brought the page, `delivering` the provider of the attempt that did, by its id, and when that began.
pub fn is_vouched_for(
    tx: &OrgRead<'_>,
    adapter: &str,
    delivering: Option<(&str, Timestamp)>,
) -> Result<bool> {
    if visits_itself(adapter) {
        return Ok(true);
    }
    if adapter == PROXY {
        return Ok(false);
    }
    let Some((provider_id, began)) = delivering else { return Ok(false) };
    let Ok(id) = provider_id.parse() else { return Ok(false) };
    let provider = readable("a provider", provider_id, tx.get(&PROVIDERS, &id))?.flatten();
    Ok(provider.is_some_and(|provider| {
        let is_unchanged = provider.updated_at <= began;
        provider.adapter == adapter && provider.base_url.is_none() && is_unchanged
    }))
}
