//! Inputs, their runs and what they remember, as they are stored.

use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{BatchId, InputId, WorkflowId};
use base::terms::PageType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// Where an input's URLs come from.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum InputKind {
        /// Somebody sends them.
        Webhook "webhook",
        /// A site's sitemap, or an index of several.
        Sitemap "sitemap",
        /// An RSS, Atom or JSON feed.
        Feed "feed",
        /// A CSV file behind a URL.
        Csv "csv",
        /// The links of a site.
        Crawl "crawl",
    }
}

/// A source of URLs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputV1 {
    pub id: InputId,
    pub kind: InputKind,
    pub name: String,
    /// What its URLs are registered with.
    pub tags: Vec<String>,
    pub page_type: Option<PageType>,
    pub workflow_id: Option<WorkflowId>,
    pub submit_jobs: bool,
    pub is_enabled: bool,
    /// Why the box switched it off.
    pub disabled_reason: Option<String>,
    /// SHA-256 of a webhook's token.
    pub token: Option<[u8; 32]>,
    /// The token's first characters, by which people tell it from another.
    pub token_shown: Option<String>,
    /// Sealed.
    pub signing_secret: Option<Vec<u8>>,
    /// The document that is asked for.
    pub url: Option<String>,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub any_domain: bool,
    pub cron: Option<String>,
    pub timezone: String,
    /// Every tick up to here has its row, or was before the input's time.
    pub decided_until: Timestamp,
    pub next_at: Option<Timestamp>,
    pub last_run_at: Option<Timestamp>,
    /// Rows of runs that are kept.
    pub runs: u32,
    /// Runs in a row that have failed.
    pub failures: u32,
    /// Grows with each change of what a document's validators were got under.
    pub terms: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Record for InputV1 {}

/// Whose a token is.
pub static BY_TOKEN: Index<[u8; 32], InputV1> = Index::global_unique("inputs.by_token", |row, keys| {
    if let Some(token) = row.token {
        keys.add(token);
    }
});

/// When inputs of all organizations are due.
pub static DUE: Index<Timestamp, InputV1> = Index::global("inputs.due", |row, keys| {
    if let Some(due) = row.next_at.filter(|_| row.is_enabled) {
        keys.add(due);
    }
});

pub static INPUTS: OrgTable<InputId, InputV1> =
    OrgTable::new("inputs", "Input").indexed(&[&BY_TOKEN, &DUE]).fed();

/// URLs that webhooks of an organization have taken on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookDayV1 {
    /// Days since 1970 (UTC).
    pub day: i64,
    pub urls: u64,
}

impl Record for WebhookDayV1 {}

pub static WEBHOOK_DAY: OrgTable<(), WebhookDayV1> =
    OrgTable::new("webhook_days", "Count of URLs").uncounted();

/// A message that a webhook was sent, and how far it was taken in: one that breaks off goes on where it was when it is sent
/// again, and one that is done is not done again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookMessageV1 {
    pub input_id: InputId,
    pub body: [u8; 32],
    /// The batch of its jobs.
    pub batch_id: BatchId,
    /// Entries that have had their turn.
    pub position: u32,
    pub is_done: bool,
    pub at: Timestamp,
}

impl Record for WebhookMessageV1 {}

/// Messages of all organizations, oldest first.
pub static MESSAGES_BY_TIME: Index<Timestamp, WebhookMessageV1> =
    Index::global("webhook_messages.by_time", |row, keys| keys.add(row.at));

/// By the SHA-256 of input and message id.
pub static MESSAGES: OrgTable<[u8; 32], WebhookMessageV1> =
    OrgTable::new("webhook_messages", "Message").indexed(&[&MESSAGES_BY_TIME]).uncounted();
