//! Agents: conversations over an organization's data, with cards that only a click can authorize.
//!
//! [`assistant`] reads what is said and has it answered, [`conversation`] writes a turn whole or not at all, [`actions`] says
//! what can be clicked on a card. Whatever proposes a query (the grammar of the crate `ask`, or a language model), its
//! statement runs in the scope of the agent, and nothing but the click on an offer's Save ever saves one.

mod actions;
mod assistant;
mod conversation;
mod erase;
mod proposal;
mod rows;
mod show;
mod wire;

use super::Feature;
use actions::Effect;
use assistant::{Assistant, check_verified};
use base::audit::Action;
use base::ids::{AgentId, CardId};
use base::name::Name;
use base::page::{Page, PageRequest};
use base::permission::Permission;
use base::{Code, Error, Result};
use conversation::{
    Offer, Reply, Resolves, Turn, Written, card_of, check_open, check_room, typed, write_save, write_turn,
};
use rows::{
    AGENTS, AgentV1, CARDS, CARDS_BY_AGENT, CONFLICTS, CONFLICTS_BY_AGENT, CardKindV1, CardV1, MESSAGES,
    MESSAGES_BY_AGENT, RECEIPTS, RECEIPTS_BY_AGENT, RESOLUTIONS, RESOLUTIONS_BY_AGENT, ResolutionSource,
};
use serde_json::Value;
use server::permit::{AgentsRead, AgentsWrite};
use server::{
    Body, Created, Entitlement, Handler, Mount, NoContent, Org, OrgContext, Path, RefusalCodes, Route,
    apart_if,
};
use std::collections::HashMap;
use store::{Event, Order, OrgRead};
use wire::{
    AgentMessageView, AgentView, CardEntryView, HistoryView, MESSAGE_CHARS_MAX, NewAgentView, NewMessageView,
    OutcomeView, ReceiptView, ResolutionView, TurnView,
};

/// Conversations of one organization.
const AGENTS_PER_ORG_MAX: usize = 1_000;
/// From so many messages on a history is put together apart from the threads that answer.
const LARGE_HISTORY: u64 = 100;
/// More rows than a conversation has of any kind.
const ALL: usize = 2 * conversation::MESSAGES_PER_AGENT_MAX as usize;
/// A turn may wait for a model and for a statement.
const TURN_SECS_MAX: u64 = 180;

/// Everything of agents wants its entitlement.
static MOUNT: Mount = Mount {
    path: "/api/v1/agents",
    plan: Some(Entitlement("agents")),
    verified: false,
    structured: false,
    refusals: RefusalCodes {
        org: Code::OrgNotFound,
        plan: Code::PlanRequired,
        unverified: Code::AuthForbidden,
        permission: Code::AuthForbidden,
    },
};

pub static FEATURE: Feature = Feature {
    name: "agents",
    uses: &["bi", "llm"],
    tables: &[&AGENTS, &MESSAGES, &CARDS, &RESOLUTIONS, &RECEIPTS, &CONFLICTS],
    routes: &[
        Route::get("/api/v1/agents", "listAgents", &Handler::new(list))
            .about("The organization's conversations, newest first."),
        Route::post("/api/v1/agents", "createAgent", &Handler::new(create))
            .about("Begins a conversation over the data that belong to it.")
            .fails(&[Code::InvalidInput, Code::Conflict]),
        Route::get("/api/v1/agents/{id}", "getAgent", &Handler::new(get)).about("One conversation."),
        Route::delete("/api/v1/agents/{id}", "deleteAgent", &Handler::new(delete)).about(
            "Removes a conversation with its cards; queries that it saved stay, and cannot be run any more.",
        ),
        Route::get("/api/v1/agents/{id}/messages", "listMessages", &Handler::new(messages))
            .about("What was said, oldest first."),
        Route::post("/api/v1/agents/{id}/messages", "sendMessage", &Handler::new(send))
            .about("Asks something, or answers a card. Only a click on an offer's Save saves a query.")
            .time_max_secs(TURN_SECS_MAX)
            .fails(&[Code::InvalidInput, Code::Conflict, Code::TooManyQueries, Code::ServiceUnavailable]),
        Route::get("/api/v1/agents/{id}/cards", "getAgentCards", &Handler::new(cards))
            .about("Every card that was shown and what became of it, in order and in one piece."),
    ],
    mount: Some(&MOUNT),
    agents: Some(|tx, id| Ok(tx.get(&AGENTS, &id)?.is_some())),
    personal: erase::KINDS,
    ..Feature::NONE
};

async fn list(org: Org<AgentsRead>, page: PageRequest) -> Result<Body<Page<AgentView>>> {
    let rows = org.read(|tx| tx.page(&AGENTS, &page, |_| true))?;
    Ok(Body(rows.map(AgentView::from)))
}

async fn create(org: Org<AgentsWrite>, body: Option<Body<NewAgentView>>) -> Result<Created<AgentView>> {
    let given = body.map(|Body(body)| body).unwrap_or_default().name;
    let name = given.map(|name| Name::parse("name", &name)).transpose()?.map(Name::into_string);
    let by = org.principal().user();
    let written = org.write(move |tx| {
        if tx.count(&AGENTS, AGENTS_PER_ORG_MAX)? >= AGENTS_PER_ORG_MAX {
            let reason =
                format!("An organization has at most {AGENTS_PER_ORG_MAX} agents; delete one first.");
            return Err(Error::conflict(reason));
        }
        let created_at = tx.now();
        let date: String = created_at.to_string().chars().take(16).collect();
        let row = AgentV1 {
            id: AgentId::new(),
            name: name.unwrap_or_else(|| format!("Agent of {}", date.replace('T', " "))),
            created_by: by,
            created_at,
            messages: 0,
            plan: None,
        };
        tx.insert(&AGENTS, &row.id, &row)?;
        tx.audit(Event::new(Action::AgentCreated).of(row.id))?;
        Ok(row)
    });
    Ok(Created(written.await?.into()))
}

async fn get(org: Org<AgentsRead>, Path(id): Path<AgentId>) -> Result<Body<AgentView>> {
    Ok(Body(org.read(|tx| tx.require(&AGENTS, &id))?.into()))
}

async fn delete(org: Org<AgentsWrite>, Path(id): Path<AgentId>) -> Result<NoContent> {
    let removed = org.write_freeing(move |tx| {
        tx.require(&AGENTS, &id)?;
        for row in tx.scan_index(&MESSAGES, &MESSAGES_BY_AGENT, id, Order::Ascending, ALL)? {
            tx.delete(&MESSAGES, &row.id)?;
        }
        for row in tx.scan_index(&CARDS, &CARDS_BY_AGENT, id, Order::Ascending, ALL)? {
            tx.delete(&RESOLUTIONS, &row.id)?;
            tx.delete(&RECEIPTS, &row.id)?;
            tx.delete(&CARDS, &row.id)?;
        }
        for row in tx.scan_index(&CONFLICTS, &CONFLICTS_BY_AGENT, id, Order::Ascending, ALL)? {
            tx.delete(&CONFLICTS, &row.message)?;
        }
        tx.delete(&AGENTS, &id)?;
        tx.audit(Event::new(Action::AgentDeleted).of(id))
    });
    removed.await?;
    Ok(NoContent)
}

async fn messages(
    org: Org<AgentsRead>,
    Path(id): Path<AgentId>,
    page: PageRequest,
) -> Result<Body<Page<AgentMessageView>>> {
    let rows = org.read(|tx| {
        tx.require(&AGENTS, &id)?;
        tx.page_by_oldest(&MESSAGES, &MESSAGES_BY_AGENT, id, &page, |_| true)
    })?;
    Ok(Body(rows.map(AgentMessageView::from)))
}

async fn cards(org: Org<AgentsRead>, Path(id): Path<AgentId>) -> Result<Body<HistoryView>> {
    let agent = org.read(|tx| tx.require(&AGENTS, &id))?;
    let store = org.store().clone();
    let history = apart_if(agent.messages > LARGE_HISTORY, move || store.read(|tx| history(tx, id)));
    Ok(Body(history.await??))
}

fn history(tx: &OrgRead<'_>, id: AgentId) -> Result<HistoryView> {
    let cards = tx.scan_index(&CARDS, &CARDS_BY_AGENT, id, Order::Ascending, ALL)?;
    let types: HashMap<CardId, &'static str> =
        cards.iter().map(|card| (card.id, actions::type_of(&card.kind))).collect();
    let resolutions = tx.scan_index(&RESOLUTIONS, &RESOLUTIONS_BY_AGENT, id, Order::Ascending, ALL)?;
    let resolutions = resolutions.into_iter().filter_map(|row| {
        let card_type = types.get(&row.card).copied()?;
        Some(ResolutionView::of(row, card_type))
    });
    let receipts = tx.scan_index(&RECEIPTS, &RECEIPTS_BY_AGENT, id, Order::Ascending, ALL)?;
    let receipts = receipts.into_iter().map(|row| {
        let is_there = super::bi::is_saved(tx, row.saved)?;
        Ok(ReceiptView::of(row, is_there))
    });
    let conflicts = tx.scan_index(&CONFLICTS, &CONFLICTS_BY_AGENT, id, Order::Ascending, ALL)?;
    Ok(HistoryView {
        cards: cards.into_iter().map(CardEntryView::from).collect(),
        resolutions: resolutions.collect(),
        save_receipts: receipts.collect::<Result<_>>()?,
        save_outcomes: conflicts.into_iter().map(OutcomeView::from).collect(),
    })
}

/// What a request says.
enum Said {
    Text(String),
    Click { card: CardId, action: String, value: Option<Value> },
}

impl Said {
    fn of(body: NewMessageView) -> Result<Said> {
        match (body.text, body.card_id, body.action_id) {
            (Some(text), None, None) => {
                if body.value.is_some() {
                    return Err(Error::invalid("value", "only goes with cardId and actionId"));
                }
                let (text, chars) = (text.trim(), text.chars().count());
                if text.is_empty() {
                    return Err(Error::invalid("text", "must not be empty"));
                }
                if chars > MESSAGE_CHARS_MAX {
                    let reason = format!("has {chars} characters; at most {MESSAGE_CHARS_MAX} are allowed");
                    return Err(Error::invalid("text", reason));
                }
                if text.contains('\0') {
                    return Err(Error::invalid("text", "must not contain a zero byte"));
                }
                Ok(Said::Text(text.to_owned()))
            }
            (None, Some(card), Some(action)) => Ok(Said::Click { card, action, value: body.value }),
            (None, Some(_), None) => Err(Error::invalid("actionId", "is needed with cardId")),
            (None, None, Some(_)) => Err(Error::invalid("cardId", "is needed with actionId")),
            (None, None, None) => Err(Error::invalid("text", "is needed, or cardId with actionId")),
            (Some(_), _, _) => Err(Error::invalid("text", "does not go with cardId and actionId")),
        }
    }
}

async fn send(
    org: Org<AgentsWrite>,
    Path(id): Path<AgentId>,
    Body(body): Body<NewMessageView>,
) -> Result<Created<TurnView>> {
    let said = Said::of(body)?;
    let agent = org.read(|tx| tx.require(&AGENTS, &id))?;
    check_room(&agent)?;
    let org = org.into_inner();
    let written = match said {
        Said::Text(text) => match org.read(|tx| typed(tx, id, &text))? {
            Some(resolves) => answer_card(&org, &agent, resolves, text).await?,
            None => {
                let replies = Assistant::new(&org, &agent)?.answer(&text).await?;
                write(&org, &agent, text, None, replies).await?
            }
        },
        Said::Click { card, action, value } => {
            let card = org.read(|tx| card_of(tx, id, card))?;
            let resolves = clicked(card, &action, value.as_ref())?;
            org.read(|tx| check_open(tx, resolves.card.id))?;
            let label = resolves.action.label.clone();
            answer_card(&org, &agent, resolves, label).await?
        }
    };
    let replies = written.replies.into_iter().map(AgentMessageView::from).collect();
    Ok(Created(TurnView { message: written.message.into(), replies }))
}

/// The action that was clicked: one of the card's own, with its own value.
fn clicked(card: CardV1, id: &str, value: Option<&Value>) -> Result<Resolves> {
    let offered = actions::of(&card.kind);
    let action = offered.into_iter().find(|action| action.id == id);
    let action = action.ok_or_else(|| Error::invalid("actionId", "is no action of this card"))?;
    if value.is_some_and(|value| *value != action.value) {
        return Err(Error::invalid("value", "is not the value that the action has"));
    }
    Ok(Resolves { card, action, source: ResolutionSource::Click })
}

/// Does what the action of a card says.
async fn answer_card(org: &OrgContext, agent: &AgentV1, resolves: Resolves, text: String) -> Result<Written> {
    match (resolves.action.effect, resolves.card.kind.clone()) {
        (Effect::Save, CardKindV1::SaveQueryOffer { source, name, description }) => {
            let offer = Offer { source, name, description };
            match resolves.source {
                ResolutionSource::Click => save(org, resolves, offer).await,
                _ => {
                    // Words authorize nothing: the same is offered again, to be clicked.
                    let Offer { source, name, description } = offer;
                    let card = CardKindV1::SaveQueryOffer { source, name, description };
                    let text_back = "Nothing was saved: only a click on Save does that.".to_owned();
                    let reply = Reply { text: text_back, card: Some(card), query: Some(source) };
                    write(org, agent, text, Some(resolves), (vec![reply], None)).await
                }
            }
        }
        (Effect::Choose(at), CardKindV1::Question { choices, .. }) => {
            let missing = || Error::invalid("actionId", "is no action of this card");
            let choice = choices.into_iter().nth(at).ok_or_else(missing)?;
            let replies = Assistant::new(org, agent)?.answer_plan(choice.plan).await?;
            write(org, agent, text, Some(resolves), replies).await
        }
        _ => write(org, agent, text, Some(resolves), (vec![Reply::text("Nothing was saved.")], None)).await,
    }
}

async fn save(org: &OrgContext, resolves: Resolves, offer: Offer) -> Result<Written> {
    if !org.may(Permission::BiWrite) {
        return Err(
            Error::new(Code::AuthForbidden).message("Saving a query also needs the permission bi:write.")
        );
    }
    check_verified(org, "Saving a query")?;
    let by = org.principal().user();
    org.write(move |tx| write_save(tx, by, &resolves, offer)).await
}

async fn write(
    org: &OrgContext,
    agent: &AgentV1,
    text: String,
    resolves: Option<Resolves>,
    (replies, plan): assistant::Replies,
) -> Result<Written> {
    let turn = Turn { agent: agent.id, by: org.principal().user(), text, resolves, replies, plan };
    org.write(move |tx| write_turn(tx, turn)).await
}
