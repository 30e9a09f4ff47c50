//! Conversations on the wire. Every card's shape is the contract's or stands in the reference; clients send nothing of them
//! back but an action's id and its value.

use super::actions::{self, Action};
use super::rows::{
    AgentV1, CardKindV1, CardV1, ConflictV1, MessageRole, MessageV1, ReceiptV1, ResolutionSource,
    ResolutionV1,
};
use base::clock::Timestamp;
use base::ids::{AgentId, CardId, MessageId, QueryId, SavedQueryId};
use base::limits::NAME_CHARS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Characters of a message.
pub(super) const MESSAGE_CHARS_MAX: usize = 16_000;

/// A conversation to begin.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NewAgentView {
    /// "Agent" and when it was made, unless given.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    pub(super) name: Option<String>,
}

/// A conversation over the data.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentView {
    id: AgentId,
    name: String,
    created_at: Timestamp,
}

impl From<AgentV1> for AgentView {
    fn from(row: AgentV1) -> AgentView {
        AgentView { id: row.id, name: row.name, created_at: row.created_at }
    }
}

/// A message, or the answer to a card: `text`, or `cardId` with `actionId`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NewMessageView {
    /// A question in plain words, one SELECT, or the words of an action.
    #[schemars(length(min = 1, max = MESSAGE_CHARS_MAX))]
    pub(super) text: Option<String>,
    pub(super) card_id: Option<CardId>,
    /// One of the card's actions.
    #[schemars(length(min = 1, max = 100))]
    pub(super) action_id: Option<String>,
    /// The action's own value, as the card has it; may be left out.
    pub(super) value: Option<Value>,
}

/// One message of a conversation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentMessageView {
    id: MessageId,
    /// From 1, without gaps.
    seq: u64,
    /// The message of the user that the turn began with.
    turn_id: MessageId,
    role: MessageRole,
    text: String,
    /// The card that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    card_id: Option<CardId>,
    /// The statement that it tells of.
    #[serde(skip_serializing_if = "Option::is_none")]
    query_id: Option<QueryId>,
    created_at: Timestamp,
}

impl From<MessageV1> for AgentMessageView {
    fn from(row: MessageV1) -> AgentMessageView {
        AgentMessageView {
            id: row.id,
            seq: row.seq,
            turn_id: row.turn,
            role: row.role,
            text: row.text,
            card_id: row.card,
            query_id: row.query,
            created_at: row.created_at,
        }
    }
}

/// A message that was taken, and what the assistant says to it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TurnView {
    pub(super) message: AgentMessageView,
    pub(super) replies: Vec<AgentMessageView>,
}

/// What a conversation has shown and what became of it: complete and in order.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryView {
    pub(super) cards: Vec<CardEntryView>,
    pub(super) resolutions: Vec<ResolutionView>,
    pub(super) save_receipts: Vec<ReceiptView>,
    pub(super) save_outcomes: Vec<OutcomeView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CardEntryView {
    /// That of the message that shows it.
    seq: u64,
    turn_id: Option<MessageId>,
    card: CardView,
}

impl From<CardV1> for CardEntryView {
    fn from(row: CardV1) -> CardEntryView {
        CardEntryView { seq: row.seq, turn_id: Some(row.turn), card: card(row) }
    }
}

/// A card, by its type. Written by the server alone; never changes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum CardView {
    SaveQueryOffer(SaveOfferView),
    Table(TableCardView),
    Chart(ChartCardView),
    Question(QuestionCardView),
}

/// An offer to keep a query. Only a click on its Save does.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SaveOfferView {
    id: CardId,
    #[schemars(extend("const" = 1))]
    version: u32,
    payload: SaveOfferPayload,
    /// Save, and dismiss.
    #[schemars(length(min = 2, max = 2))]
    actions: Vec<ActionView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SaveOfferPayload {
    source_query_id: QueryId,
    proposed_name: String,
    proposed_description: Option<String>,
    #[schemars(extend("const" = "agent"))]
    scope_kind: &'static str,
    scope_agent_id: AgentId,
}

/// Something that can be clicked.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ActionView {
    id: String,
    label: String,
    /// Whether it can be clicked again; no unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    repeatable: Option<bool>,
    /// What a client echoes with the id, or nothing.
    value: Value,
}

impl From<Action> for ActionView {
    fn from(action: Action) -> ActionView {
        ActionView { id: action.id, label: action.label, repeatable: None, value: action.value }
    }
}

/// The first rows of an answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TableCardView {
    id: CardId,
    #[schemars(extend("const" = 1))]
    version: u32,
    payload: TablePayload,
    #[schemars(length(max = 0))]
    actions: Vec<ActionView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TablePayload {
    /// All rows: `GET /api/v1/bi/queries/{id}/results`.
    query_id: QueryId,
    columns: Vec<ShownColumnView>,
    /// As many values as columns in each; long texts are cut and end in "…".
    rows: Vec<Vec<Value>>,
    /// Rows of the whole answer, or null where nobody knows.
    total_rows: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownColumnView {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

/// An answer drawn.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChartCardView {
    id: CardId,
    #[schemars(extend("const" = 1))]
    version: u32,
    payload: ChartPayload,
    #[schemars(length(max = 0))]
    actions: Vec<ActionView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChartPayload {
    query_id: QueryId,
    kind: AgentChartKind,
    /// The column of the places.
    x: String,
    /// The column of the values.
    y: String,
    points: Vec<AgentPointView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AgentChartKind {
    /// Over time.
    Line,
    Bar,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgentPointView {
    x: Value,
    y: f64,
}

/// A question back: which of several readings is meant. Answered once, by a click or by its words.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct QuestionCardView {
    id: CardId,
    #[schemars(extend("const" = 1))]
    version: u32,
    payload: QuestionPayload,
    #[schemars(length(min = 2, max = 3))]
    actions: Vec<ActionView>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct QuestionPayload {
    question: String,
}

fn card(row: CardV1) -> CardView {
    let actions = actions::of(&row.kind).into_iter().map(ActionView::from).collect();
    let (id, version) = (row.id, 1);
    match row.kind {
        CardKindV1::SaveQueryOffer { source, name, description } => {
            let payload = SaveOfferPayload {
                source_query_id: source,
                proposed_name: name,
                proposed_description: description,
                scope_kind: "agent",
                scope_agent_id: row.agent,
            };
            CardView::SaveQueryOffer(SaveOfferView { id, version, payload, actions })
        }
        CardKindV1::Table { query, columns, rows, total_rows } => {
            let columns =
                columns.into_iter().map(|column| ShownColumnView { name: column.name, kind: column.kind });
            let rows = rows.into_iter().map(|row| row.into_iter().map(|value| value.0).collect());
            let payload = TablePayload {
                query_id: query,
                columns: columns.collect(),
                rows: rows.collect(),
                total_rows,
            };
            CardView::Table(TableCardView { id, version, payload, actions })
        }
        CardKindV1::Chart { query, is_line, x, y, points } => {
            let kind = if is_line { AgentChartKind::Line } else { AgentChartKind::Bar };
            let points = points.into_iter().map(|(x, y)| AgentPointView { x: x.0, y }).collect();
            let payload = ChartPayload { query_id: query, kind, x, y, points };
            CardView::Chart(ChartCardView { id, version, payload, actions })
        }
        CardKindV1::Question { question, .. } => CardView::Question(QuestionCardView {
            id,
            version,
            payload: QuestionPayload { question },
            actions,
        }),
    }
}

/// How a card was answered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResolutionView {
    card_id: CardId,
    card_type: &'static str,
    action_id: String,
    value: Value,
    source: ResolutionSource,
    source_message_id: MessageId,
    resolved_at: Timestamp,
}

impl ResolutionView {
    pub(super) fn of(row: ResolutionV1, card_type: &'static str) -> ResolutionView {
        ResolutionView {
            card_id: row.card,
            card_type,
            action_id: row.action,
            value: row.value.0,
            source: row.source,
            source_message_id: row.message,
            resolved_at: row.resolved_at,
        }
    }
}

/// That a query was saved.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReceiptView {
    card_id: CardId,
    source_query_id: QueryId,
    /// Null since the saved query was deleted.
    saved_query_id: Option<SavedQueryId>,
    tool_call_id: String,
}

impl ReceiptView {
    pub(super) fn of(row: ReceiptV1, is_there: bool) -> ReceiptView {
        ReceiptView {
            card_id: row.card,
            source_query_id: row.source,
            saved_query_id: Some(row.saved).filter(|_| is_there),
            tool_call_id: row.tool_call,
        }
    }
}

/// A save that wrote nothing, and can be tried again.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutcomeView {
    card_id: CardId,
    #[schemars(extend("const" = "name_conflict"))]
    status: &'static str,
    proposed_name: Option<String>,
    tool_call_id: String,
}

impl From<ConflictV1> for OutcomeView {
    fn from(row: ConflictV1) -> OutcomeView {
        OutcomeView {
            card_id: row.card,
            status: "name_conflict",
            proposed_name: Some(row.name),
            tool_call_id: row.tool_call,
        }
    }
}
