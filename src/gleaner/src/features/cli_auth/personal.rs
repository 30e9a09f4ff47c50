//! What this slice holds on a person and of an organization: codes that were approved.
//!
//! A code names neither; the key that its approval made does. Codes end by themselves within some seventy minutes, but an
//! erasure does not wait for that.

use super::rows::{ApprovalV1, DEVICE_CODES, DeviceCodeV1};
use crate::features::api_keys::API_KEYS;
use crate::features::{Erased, Holding, Personal, Shown};
use base::Result;
use serde_json::json;
use store::{SysRead, SysWrite, readable};

/// Codes that one step of a walk looks at.
const CODES_PER_STEP: usize = 500;

pub(super) static KINDS: &[Personal] = &[Personal {
    name: "command-lines",
    about: "Command lines that you approved in the last hour: the machine's name and when.",
    show: |tx, person, place| {
        let (codes, next, _) = approved(tx, place)?;
        let mut rows = Vec::new();
        for (code, approval) in codes {
            let key = tx.org(approval.org).get(&API_KEYS, &approval.key)?;
            if key.is_some_and(|key| key.maker == person.id) {
                rows.push(json!({ "hostname": code.hostname, "createdAt": code.created_at }));
            }
        }
        Ok(Shown { rows, next })
    },
    // The person's keys are gone, and with them whatever said whose these codes were.
    erase: |tx, _, place| {
        remove(tx, place, |tx, approval| {
            let key = tx.org(approval.org).get(&API_KEYS, &approval.key);
            // Whose one is that cannot be read is not known; the code ends by itself.
            Ok(readable("an API key", approval.key, key)?.is_some_and(|key| key.is_none()))
        })
    },
}];

pub(super) static HOLDINGS: &[Holding] = &[Holding {
    name: "device codes",
    remove: |context, org| {
        Box::pin(async move {
            let (mut place, mut total) = (Vec::new(), 0);
            loop {
                let removed = context
                    .system()
                    .write_freeing(move |tx| remove(tx, &place, |_, approval| Ok(approval.org == org)))
                    .await?;
                total += removed.removed;
                match removed.next {
                    Some(next) => place = next,
                    None => return Ok(total),
                }
            }
        })
    },
}];

/// Also how many could not be read.
type Approved = (Vec<(DeviceCodeV1, ApprovalV1)>, Option<Vec<u8>>, u64);

/// Approved codes among the next ones.
fn approved(tx: &SysRead<'_>, place: &[u8]) -> Result<Approved> {
    let step = tx.readable(&DEVICE_CODES, Some(place).filter(|place| !place.is_empty()), CODES_PER_STEP)?;
    let (next, left) = (step.more(), step.passed_over);
    let codes = step.rows.into_iter();
    let approved = codes.filter_map(|(_, mut code)| code.approval.take().map(|it| (code, it)));
    Ok((approved.collect(), next, left))
}

fn remove(
    tx: &SysWrite<'_>,
    place: &[u8],
    mut goes: impl FnMut(&SysWrite<'_>, &ApprovalV1) -> Result<bool>,
) -> Result<Erased> {
    let (codes, next, left) = approved(tx, place)?;
    let mut removed = 0;
    for (code, approval) in codes {
        if goes(tx, &approval)? {
            removed += u64::from(tx.delete(&DEVICE_CODES, &code.device)?);
        }
    }
    Ok(Erased { removed, left, next })
}
