//! Conversations as they are stored. Nothing of a card is ever changed: what became of it stands in rows of its own.

use base::clock::Timestamp;
use base::codec::{Json, Record};
use base::ids::{AgentId, CardId, MessageId, QueryId, SavedQueryId, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

/// A conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentV1 {
    pub id: AgentId,
    pub name: String,
    pub created_by: UserId,
    pub created_at: Timestamp,
    /// Messages so far: the number of the newest.
    pub messages: u64,
    /// The newest question as it was understood (`ask::Plan`), for follow-ups.
    pub plan: Option<Json>,
}

impl Record for AgentV1 {}

pub static AGENTS: OrgTable<AgentId, AgentV1> = OrgTable::new("agents", "Agent");

base::words! {
    /// Who says something.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum MessageRole {
        User "user",
        Assistant "assistant",
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageV1 {
    pub id: MessageId,
    pub agent: AgentId,
    /// From 1, in the order of the conversation.
    pub seq: u64,
    /// The message of the user that the turn began with.
    pub turn: MessageId,
    pub role: MessageRole,
    pub text: String,
    pub card: Option<CardId>,
    pub query: Option<QueryId>,
    /// None of the assistant's, and where the author has been erased.
    pub author: Option<UserId>,
    pub created_at: Timestamp,
}

impl Record for MessageV1 {}

/// A conversation's messages in their order.
pub static MESSAGES_BY_AGENT: Index<(AgentId, u64), MessageV1> =
    Index::new("agent_messages.by_agent", |row, keys| keys.add((row.agent, row.seq)));

/// What a person has said.
pub static MESSAGES_BY_AUTHOR: Index<UserId, MessageV1> =
    Index::new("agent_messages.by_author", |row, keys| {
        if let Some(author) = row.author {
            keys.add(author);
        }
    });

pub static MESSAGES: OrgTable<MessageId, MessageV1> =
    OrgTable::new("agent_messages", "Message").indexed(&[&MESSAGES_BY_AGENT, &MESSAGES_BY_AUTHOR]);

/// A column of a table that is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownColumnV1 {
    pub name: String,
    pub kind: String,
}

/// What a choice of a question stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChoiceV1 {
    pub label: String,
    /// The reading (`ask::Plan`).
    pub plan: Json,
}

/// What a card shows.
// Stored: variants are never reordered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CardKindV1 {
    SaveQueryOffer { source: QueryId, name: String, description: Option<String> },
    Table { query: QueryId, columns: Vec<ShownColumnV1>, rows: Vec<Vec<Json>>, total_rows: Option<u64> },
    Chart { query: QueryId, is_line: bool, x: String, y: String, points: Vec<(Json, f64)> },
    Question { question: String, choices: Vec<ChoiceV1> },
}

/// Something that the server shows. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardV1 {
    pub id: CardId,
    pub agent: AgentId,
    /// That of the message that shows it.
    pub seq: u64,
    pub turn: MessageId,
    pub kind: CardKindV1,
}

impl Record for CardV1 {}

pub static CARDS_BY_AGENT: Index<(AgentId, u64), CardV1> =
    Index::new("agent_cards.by_agent", |row, keys| keys.add((row.agent, row.seq)));

pub static CARDS: OrgTable<CardId, CardV1> = OrgTable::new("agent_cards", "Card").indexed(&[&CARDS_BY_AGENT]);

base::words! {
    /// How a card was answered.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum ResolutionSource {
        /// One of its actions was clicked; nothing else authorizes a save.
        Click "click",
        /// A text named one of its actions.
        Typed "typed",
        /// By a release that did not tell the two apart.
        Legacy "legacy",
    }
}

/// The answer to a card; there is one at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResolutionV1 {
    pub card: CardId,
    pub agent: AgentId,
    /// Of the message that answered.
    pub seq: u64,
    pub action: String,
    pub value: Json,
    pub source: ResolutionSource,
    pub message: MessageId,
    pub resolved_at: Timestamp,
}

impl Record for ResolutionV1 {}

pub static RESOLUTIONS_BY_AGENT: Index<(AgentId, u64), ResolutionV1> =
    Index::new("agent_resolutions.by_agent", |row, keys| keys.add((row.agent, row.seq)));

pub static RESOLUTIONS: OrgTable<CardId, ResolutionV1> =
    OrgTable::new("agent_resolutions", "Resolution").indexed(&[&RESOLUTIONS_BY_AGENT]);

/// That a card's query was saved. Stays when what was saved goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiptV1 {
    pub card: CardId,
    pub agent: AgentId,
    /// Of the message that asked for it.
    pub seq: u64,
    pub source: QueryId,
    pub saved: SavedQueryId,
    pub tool_call: String,
}

impl Record for ReceiptV1 {}

pub static RECEIPTS_BY_AGENT: Index<(AgentId, u64), ReceiptV1> =
    Index::new("agent_receipts.by_agent", |row, keys| keys.add((row.agent, row.seq)));

pub static RECEIPTS: OrgTable<CardId, ReceiptV1> =
    OrgTable::new("agent_receipts", "Receipt").indexed(&[&RECEIPTS_BY_AGENT]);

/// That a save met a name that was taken, and wrote nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConflictV1 {
    pub message: MessageId,
    pub card: CardId,
    pub agent: AgentId,
    pub seq: u64,
    pub name: String,
    pub tool_call: String,
}

impl Record for ConflictV1 {}

pub static CONFLICTS_BY_AGENT: Index<(AgentId, u64), ConflictV1> =
    Index::new("agent_conflicts.by_agent", |row, keys| keys.add((row.agent, row.seq)));

/// By the message that asked for the save.
pub static CONFLICTS: OrgTable<MessageId, ConflictV1> =
    OrgTable::new("agent_conflicts", "Save outcome").indexed(&[&CONFLICTS_BY_AGENT]);
