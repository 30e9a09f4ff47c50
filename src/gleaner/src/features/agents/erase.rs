//! What conversations hold on a person: what they have said.

use super::rows::{MESSAGES, MESSAGES_BY_AUTHOR};
use crate::features::{Erased, Person, Personal, Shown};
use base::Result;
use serde_json::json;
use store::{Order, SysWrite};

/// Messages that one step looks at.
const MESSAGES_PER_STEP: usize = 200;
/// What stands in their place.
const ERASED: &str = "(This message was erased with its author.)";

pub(super) static KINDS: &[Personal] = &[Personal {
    name: "agent-messages",
    about: "What you have said to agents. The conversations belong to your organization and stay in it without your words.",
    show: |tx, person, place| {
        let Some(org) = person.org else { return Ok(Shown::default()) };
        let after = Some(place).filter(|place| !place.is_empty());
        let step = tx.org(org).readable(&MESSAGES, after, MESSAGES_PER_STEP)?;
        let next = step.more();
        let own = step.rows.into_iter().filter(|(_, message)| message.author == Some(person.id));
        let rows = own.map(|(_, message)| {
            json!({
                "id": message.id, "agentId": message.agent, "text": message.text, "createdAt": message.created_at,
            })
        });
        Ok(Shown { rows: rows.collect(), next })
    },
    erase,
}];

/// Their words go; that something was asked stays. What is erased leaves the index, so each step begins anew.
fn erase(tx: &SysWrite<'_>, person: &Person, _: &[u8]) -> Result<Erased> {
    let Some(org) = person.org else { return Ok(Erased::default()) };
    let own = tx.org(org);
    let found =
        own.scan_index(&MESSAGES, &MESSAGES_BY_AUTHOR, person.id, Order::Ascending, MESSAGES_PER_STEP)?;
    let removed = found.len();
    for mut message in found {
        message.text = ERASED.to_owned();
        message.author = None;
        own.put(&MESSAGES, &message.id, &message)?;
    }
    let next = (removed == MESSAGES_PER_STEP).then(|| vec![1]);
    Ok(Erased { removed: removed as u64, left: 0, next })
}
