//! What this slice holds on a person, and of an organization in memory.

use super::KEYS_PER_ORG_MAX;
use super::rows::API_KEYS;
use super::usage::KeyUsage;
use crate::features::{Erased, Holding, Personal, Shown};
use serde_json::json;
use store::Order;

pub(super) static KINDS: &[Personal] = &[Personal {
    name: "api-keys",
    about: "The API keys that you made in your organization; a key itself is kept as a hash.",
    show: |tx, person, _| {
        let Some(org) = person.org else { return Ok(Shown::default()) };
        let keys = tx.org(org).scan(&API_KEYS, None, Order::Ascending, KEYS_PER_ORG_MAX)?;
        let own = keys.iter().filter(|(_, key)| key.maker == person.id);
        Ok(Shown::all(own.map(|(id, key)| {
            json!({
                "id": id,
                "name": key.name,
                "kind": key.kind,
                "prefix": key.prefix,
                "permissions": key.permissions.names(),
                "createdAt": key.created_at,
                "expiresAt": key.expires_at,
                "lastUsedAt": key.last_used_at,
            })
        })))
    },
    // They end with the membership; a key that was being made meanwhile goes here.
    erase: |tx, person, _| {
        let Some(org) = person.org else { return Ok(Erased::default()) };
        let rows = tx.org(org);
        let keys = rows.readable(&API_KEYS, None, KEYS_PER_ORG_MAX)?;
        let mut erased = Erased { left: keys.passed_over, ..Erased::default() };
        for (id, key) in keys.rows {
            if key.maker == person.id {
                erased.removed += u64::from(rows.delete(&API_KEYS, &id)?);
            }
        }
        Ok(erased)
    },
}];

pub(super) static HOLDINGS: &[Holding] = &[Holding {
    name: "times of use in memory",
    remove: |context, org| Box::pin(async move { Ok(context.service::<KeyUsage>().forget(org)) }),
}];
