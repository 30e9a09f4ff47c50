//! What conversations hold on a person: what they have said, and what of it the assistant has said again.
//!
//! The answers' rows are the organization's, as results of the console's statements are, and stay. Words of the person stand in the
//! answers beside them: in how a question was understood, in what is said of a word that nobody knows, in the statement, in names
//! that are proposed. They go with the message, also out of cards, which nothing else changes.

use super::conversation::TURN_MESSAGES_MAX;
use super::rows::{
    AGENTS, CARDS, CONFLICTS, CardKindV1, MESSAGES, MESSAGES_BY_AGENT, MESSAGES_BY_AUTHOR, MessageV1,
};
use crate::features::{Erased, Person, Personal, Shown};
use base::Result;
use serde_json::json;
use store::{Order, OrgWrite, SysWrite};

/// Messages that one step looks at.
const MESSAGES_PER_STEP: usize = 200;
/// What stands in their place.
const ERASED: &str = "(This message was erased with its author.)";
const ERASED_REPLY: &str = "(What was said to an erased message was erased with it.)";
const ERASED_NAME: &str = "Query of an agent";

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
        forget_replies(&own, &message)?;
        message.text = ERASED.to_owned();
        message.author = None;
        own.put(&MESSAGES, &message.id, &message)?;
    }
    let next = (removed == MESSAGES_PER_STEP).then(|| vec![1]);
    Ok(Erased { removed: removed as u64, left: 0, next })
}

/// Takes the person's words out of what was said to a message of theirs.
fn forget_replies(tx: &OrgWrite<'_>, message: &MessageV1) -> Result<()> {
    if let Some(mut agent) = tx.get(&AGENTS, &message.agent)?.filter(|agent| agent.plan.is_some()) {
        // What the next question would change may be theirs.
        agent.plan = None;
        tx.put(&AGENTS, &agent.id, &agent)?;
    }
    if let Some(mut conflict) = tx.get(&CONFLICTS, &message.id)? {
        conflict.name = ERASED_NAME.to_owned();
        tx.put(&CONFLICTS, &message.id, &conflict)?;
    }
    for seq in message.seq + 1..=message.seq + TURN_MESSAGES_MAX {
        let place = (message.agent, seq);
        let reply = tx.scan_index(&MESSAGES, &MESSAGES_BY_AGENT, place, Order::Ascending, 1)?.pop();
        let Some(mut reply) = reply.filter(|reply| reply.turn == message.id) else { return Ok(()) };
        reply.text = ERASED_REPLY.to_owned();
        tx.put(&MESSAGES, &reply.id, &reply)?;
        let Some(mut card) = reply.card.map(|card| tx.get(&CARDS, &card)).transpose()?.flatten() else {
            continue;
        };
        match &mut card.kind {
            CardKindV1::SaveQueryOffer { name, description, .. } => {
                (*name, *description) = (ERASED_NAME.to_owned(), None);
            }
            CardKindV1::Question { choices, .. } => {
                for (at, choice) in choices.iter_mut().enumerate() {
                    choice.label = format!("Reading {}", at + 1);
                }
            }
            CardKindV1::Table { .. } | CardKindV1::Chart { .. } => continue,
        }
        tx.put(&CARDS, &card.id, &card)?;
    }
    Ok(())
}
