//! What is written into a conversation, a turn in one transaction: its messages and cards, what they resolve, and what is
//! saved. A turn that was not written has not happened, so a box that dies in one leaves nothing half done.

use super::actions::{self, Action, Effect};
use super::rows::{
    AGENTS, AgentV1, CARDS, CARDS_BY_AGENT, CONFLICTS, CardKindV1, CardV1, ConflictV1, MESSAGES, MessageRole,
    MessageV1, RECEIPTS, RESOLUTIONS, ReceiptV1, ResolutionSource, ResolutionV1,
};
use crate::features::bi::{AgentSave, is_name_taken, save_for_agent};
use base::audit;
use base::codec::Json;
use base::ids::{AgentId, CardId, MessageId, QueryId, UserId};
use base::limits::NAME_CHARS_MAX;
use base::{Error, Result};
use store::{Event, Order, OrgRead, OrgWrite};

/// Messages of a conversation, the assistant's too: its history is answered whole.
pub(super) const MESSAGES_PER_AGENT_MAX: u64 = 1_000;
/// Messages that one turn writes at most.
pub(super) const TURN_MESSAGES_MAX: u64 = 4;
/// Cards that it is looked back for one that can be answered by words.
const LOOK_BACK: usize = 20;
/// How many names are tried beside one that is taken.
const NAMES_TRIED_MAX: u32 = 50;

/// What the assistant says.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) card: Option<CardKindV1>,
    pub(super) query: Option<QueryId>,
}

impl Reply {
    pub(super) fn text(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), card: None, query: None }
    }
}

/// The answer to a card.
#[derive(Clone, Debug)]
pub(super) struct Resolves {
    pub(super) card: CardV1,
    pub(super) action: Action,
    pub(super) source: ResolutionSource,
}

/// A turn that is to be written.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) agent: AgentId,
    pub(super) by: UserId,
    pub(super) text: String,
    pub(super) resolves: Option<Resolves>,
    pub(super) replies: Vec<Reply>,
    /// How the question was understood, where it was.
    pub(super) plan: Option<Json>,
}

/// A turn that was written.
pub(super) struct Written {
    pub(super) message: MessageV1,
    pub(super) replies: Vec<MessageV1>,
}

/// Refuses where a conversation has no room for a turn.
pub(super) fn check_room(agent: &AgentV1) -> Result<()> {
    if agent.messages + TURN_MESSAGES_MAX < MESSAGES_PER_AGENT_MAX {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "The conversation is full: it has {} of at most {MESSAGES_PER_AGENT_MAX} messages. Begin another one.",
        agent.messages
    )))
}

/// A card of the conversation. One of another conversation, or of nobody's, is a wrong request.
pub(super) fn card_of(tx: &OrgRead<'_>, agent: AgentId, id: CardId) -> Result<CardV1> {
    let card = tx.get(&CARDS, &id)?.filter(|card| card.agent == agent);
    card.ok_or_else(|| Error::invalid("cardId", "there is no such card in this conversation"))
}

/// Refuses where the card was answered already: the first resolution stands.
pub(super) fn check_open(tx: &OrgRead<'_>, card: CardId) -> Result<()> {
    match tx.get(&RESOLUTIONS, &card)? {
        None => Ok(()),
        Some(earlier) => Err(Error::conflict(format!(
            "The card was answered already: {}. The first answer stands.",
            earlier.action
        ))),
    }
}

/// The newest card that can be answered, if a text names one of its actions.
pub(super) fn typed(tx: &OrgRead<'_>, agent: AgentId, text: &str) -> Result<Option<Resolves>> {
    for card in tx.scan_index(&CARDS, &CARDS_BY_AGENT, agent, Order::Descending, LOOK_BACK)? {
        let offered = actions::of(&card.kind);
        if offered.is_empty() {
            continue;
        }
        if tx.get(&RESOLUTIONS, &card.id)?.is_some() {
            return Ok(None);
        }
        let action = actions::named(&offered, text);
        return Ok(action.map(|action| Resolves { card, action, source: ResolutionSource::Typed }));
    }
    Ok(None)
}

/// Writes a turn. The card that it resolves must be open still: of two answers at once one wins.
pub(super) fn write_turn(tx: &OrgWrite<'_>, turn: Turn) -> Result<Written> {
    let mut agent = tx.require(&AGENTS, &turn.agent)?;
    check_room(&agent)?;
    if let Some(resolves) = &turn.resolves {
        check_open(tx, resolves.card.id)?;
    }
    if turn.plan.is_some() {
        agent.plan = turn.plan;
    }
    let asked = Asked { by: turn.by, text: turn.text, card: turn.resolves.as_ref().map(|to| to.card.id) };
    let message = ask(tx, &mut agent, asked)?;
    if let Some(resolves) = &turn.resolves {
        resolve(tx, &message, resolves)?;
    }
    let replies = turn.replies.into_iter().map(|reply| say(tx, &mut agent, message.id, reply));
    let replies = replies.collect::<Result<_>>()?;
    tx.put(&AGENTS, &agent.id, &agent)?;
    tx.audit(Event::new(audit::Action::AgentAsked).of(agent.id))?;
    Ok(Written { message, replies })
}

/// What an offer offers.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) source: QueryId,
    pub(super) name: String,
    pub(super) description: Option<String>,
}

/// Saves what an offer offers, for a click on its Save: the resolution, the saved query and the receipt, or where the name is
/// taken none of them and the outcome.
pub(super) fn write_save(
    tx: &OrgWrite<'_>,
    by: UserId,
    resolves: &Resolves,
    offer: Offer,
) -> Result<Written> {
    debug_assert!(resolves.source == ResolutionSource::Click && resolves.action.effect == Effect::Save);
    let mut agent = tx.require(&AGENTS, &resolves.card.agent)?;
    check_room(&agent)?;
    check_open(tx, resolves.card.id)?;
    let label = resolves.action.label.clone();
    let message = ask(tx, &mut agent, Asked { by, text: label, card: Some(resolves.card.id) })?;
    let tool_call = format!("call_{}", message.id.0.simple());
    let save = AgentSave {
        agent: agent.id,
        source: offer.source,
        name: offer.name.clone(),
        description: offer.description.clone(),
        by,
    };
    let reply = match save_for_agent(tx, save)? {
        Some(saved) => {
            resolve(tx, &message, resolves)?;
            let receipt = ReceiptV1 {
                card: resolves.card.id,
                agent: agent.id,
                seq: message.seq,
                source: offer.source,
                saved,
                tool_call,
            };
            tx.insert(&RECEIPTS, &receipt.card, &receipt)?;
            Reply::text(format!("Saved as \"{}\".", offer.name))
        }
        None => {
            let conflict = ConflictV1 {
                message: message.id,
                card: resolves.card.id,
                agent: agent.id,
                seq: message.seq,
                name: offer.name.clone(),
                tool_call,
            };
            tx.insert(&CONFLICTS, &conflict.message, &conflict)?;
            other_name(tx, agent.id, offer)?
        }
    };
    let replies = vec![say(tx, &mut agent, message.id, reply)?];
    tx.put(&AGENTS, &agent.id, &agent)?;
    tx.audit(Event::new(audit::Action::AgentAsked).of(agent.id))?;
    Ok(Written { message, replies })
}

/// The same offer under a name that is free.
fn other_name(tx: &OrgRead<'_>, agent: AgentId, offer: Offer) -> Result<Reply> {
    let taken = format!("Nothing was saved: another saved query of this agent is called \"{}\".", offer.name);
    for number in 2..=NAMES_TRIED_MAX {
        let end = format!(" ({number})");
        let kept: String = offer.name.chars().take(NAME_CHARS_MAX - end.len()).collect();
        let name = format!("{}{end}", kept.trim_end());
        if !is_name_taken(tx, agent, &name)? {
            let text = format!("{taken} It can be saved as \"{name}\", or as before once that name is free.");
            let Offer { source, description, .. } = offer;
            let card = CardKindV1::SaveQueryOffer { source, name, description };
            return Ok(Reply { text, card: Some(card), query: Some(source) });
        }
    }
    Ok(Reply::text(format!("{taken} Save it again once that name is free.")))
}

struct Asked {
    by: UserId,
    text: String,
    card: Option<CardId>,
}

/// Writes what a person says.
fn ask(tx: &OrgWrite<'_>, agent: &mut AgentV1, asked: Asked) -> Result<MessageV1> {
    agent.messages += 1;
    let id = MessageId::new();
    let message = MessageV1 {
        id,
        agent: agent.id,
        seq: agent.messages,
        turn: id,
        role: MessageRole::User,
        text: asked.text,
        card: asked.card,
        query: None,
        author: Some(asked.by),
        created_at: tx.now(),
    };
    tx.insert(&MESSAGES, &id, &message)?;
    Ok(message)
}

/// Writes what the assistant says, with its card.
fn say(tx: &OrgWrite<'_>, agent: &mut AgentV1, turn: MessageId, reply: Reply) -> Result<MessageV1> {
    agent.messages += 1;
    let card =
        reply.card.map(|kind| CardV1 { id: CardId::new(), agent: agent.id, seq: agent.messages, turn, kind });
    if let Some(card) = &card {
        tx.insert(&CARDS, &card.id, card)?;
    }
    let message = MessageV1 {
        id: MessageId::new(),
        agent: agent.id,
        seq: agent.messages,
        turn,
        role: MessageRole::Assistant,
        text: reply.text,
        card: card.map(|card| card.id),
        query: reply.query,
        author: None,
        created_at: tx.now(),
    };
    tx.insert(&MESSAGES, &message.id, &message)?;
    Ok(message)
}

fn resolve(tx: &OrgWrite<'_>, message: &MessageV1, resolves: &Resolves) -> Result<()> {
    let resolution = ResolutionV1 {
        card: resolves.card.id,
        agent: message.agent,
        seq: message.seq,
        action: resolves.action.id.clone(),
        value: Json(resolves.action.value.clone()),
        source: resolves.source,
        message: message.id,
        resolved_at: tx.now(),
    };
    tx.insert(&RESOLUTIONS, &resolution.card, &resolution)?;
    let event = Event::new(audit::Action::AgentCardResolved).of(message.agent);
    tx.audit(event.with("actionId", resolution.action).with("source", resolution.source.name()))
}
