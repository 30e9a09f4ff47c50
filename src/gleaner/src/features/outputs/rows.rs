//! Outputs, how far each is, and the ledger of what they delivered, as they are stored.

use super::places::{FilesAwayV1, FilesV1, PlaceV1};
use base::clock::{Moment, Timestamp};
use base::codec::{CodecError, Record, decode_body};
use base::ids::{DeliveryId, EventId, OutputId};
use base::terms::PageType;
use base::web::host_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sinks::postgres::{SslMode, WriteMode};
use std::time::Duration;
use store::{Index, OrgTable};

base::words! {
    /// By which way events leave.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum OutputKind {
        /// A signed request to an endpoint (Standard Webhooks).
        Webhook "webhook",
        /// Rows of results, in batches, into a table of a PostgreSQL server.
        Postgres "postgres",
        /// Rows of results, in batches, as files: in a folder of the box, in S3-compatible storage, or over SFTP.
        Files "files",
        /// A message to a channel of a chat.
        Chat "chat",
        /// A private address at which the newest events are read, as RSS or Atom.
        Feed "feed",
        /// Letters to people, at once or as digests.
        Email "email",
    }
}

base::words! {
    /// How a key signs.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum SignatureScheme {
        /// HMAC-SHA256 with a key that both sides hold.
        V1 "v1",
        /// ed25519; who verifies holds the public key alone.
        V1a "v1a",
    }
}

base::words! {
    /// Why the box switched an output off.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum DisabledReason {
        /// The endpoint answered 410.
        Gone "gone",
        /// Nothing was delivered for five days.
        Failing "failing",
        /// Everybody whom it wrote to has unsubscribed, or their addresses bounce.
        NoRecipients "no_recipients",
        /// The organization came back from a backup: what was sent since would be sent again.
        Restored "restored",
    }
}

/// What may be said of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfoV1 {
    pub scheme: SignatureScheme,
    /// The last characters of a secret, or the whole public key.
    pub shown: String,
    /// Until when one that was replaced signs too.
    pub until: Option<Moment>,
}

/// Where a webhook's messages go, and with what they are signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookV1 {
    pub url: String,
    /// The keys, the newest of each scheme first; sealed in the same order.
    pub keys: Vec<KeyInfoV1>,
    pub sealed_keys: Vec<u8>,
}

/// Which table of which PostgreSQL server rows go into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostgresV1 {
    pub host: String,
    pub port: u16,
    pub database: String,
    pub user: String,
    pub sealed_password: Option<Vec<u8>>,
    pub ssl: SslMode,
    /// Certificates in PEM.
    pub authorities: Option<String>,
    pub schema: String,
    pub table: String,
    pub mode: WriteMode,
    pub adds_columns: bool,
    /// How long a row waits for others.
    pub every_seconds: u32,
}

/// Bytes of values of a batch that becomes files.
const FILES_BYTES_MAX: u64 = 16 << 20;

/// When rows that wait for each other leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTerms {
    pub rows_max: u32,
    pub bytes_max: u64,
    pub every: Duration,
}

/// Rows of a batch that a PostgreSQL server takes in at once, and bytes of their values.
const POSTGRES_ROWS_MAX: u32 = 1_000;
const POSTGRES_BYTES_MAX: u64 = 8 << 20;

base::words! {
    /// Whose messages a chat takes; a file of `data/outputs` each.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum ChatProduct: ALL {
        /// Slack, and what takes the same messages.
        Slack "slack",
        Mattermost "mattermost",
        /// Microsoft Teams (Workflows).
        Teams "teams",
        Discord "discord",
    }
}

/// A channel of a chat. Who knows its address can write there, so it is kept sealed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatV1 {
    pub product: ChatProduct,
    pub host: String,
    pub sealed_url: Vec<u8>,
}

/// An address at which events are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedV1 {
    /// The SHA-256 of its token.
    pub token: [u8; 32],
    /// The token's first characters.
    pub shown: String,
}

base::words! {
    /// When letters go out.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum EmailWhen {
        /// At once; what happens within a minute of a letter comes together in the next one.
        Immediately "immediately",
        /// An hour after the first event that waits.
        Hourly "hourly",
        /// At an hour of the day.
        Daily "daily",
    }
}

/// When letters go out. To whom they go, see `letters`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmailV1 {
    pub when: EmailWhen,
    /// Of those that go out daily.
    pub hour: u8,
    pub timezone: String,
}

/// Where an output delivers to: what is of one kind alone.
// Stored: variants are never reordered, and each struct is frozen with the row's version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TargetV1 {
    Webhook(WebhookV1),
    Postgres(PostgresV1),
    Files(FilesV1),
    Chat(ChatV1),
    Feed(FeedV1),
    Email(EmailV1),
    FilesAway(FilesAwayV1),
}

impl TargetV1 {
    pub fn kind(&self) -> OutputKind {
        match self {
            TargetV1::Webhook(_) => OutputKind::Webhook,
            TargetV1::Chat(_) => OutputKind::Chat,
            TargetV1::Feed(_) => OutputKind::Feed,
            TargetV1::Postgres(_) => OutputKind::Postgres,
            TargetV1::Files(_) | TargetV1::FilesAway(_) => OutputKind::Files,
            TargetV1::Email(_) => OutputKind::Email,
        }
    }

    /// Whether `follow.rs` hands it each event that is let through: as a delivery, as an item of a feed, or for a batch. A kind
    /// to which it does not goes through the log by itself, in a task of its own, from a place of its own.
    pub fn takes_deliveries(&self) -> bool {
        match self {
            TargetV1::Webhook(_)
            | TargetV1::Chat(_)
            | TargetV1::Feed(_)
            | TargetV1::Postgres(_)
            | TargetV1::Files(_)
            | TargetV1::FilesAway(_)
            | TargetV1::Email(_) => true,
        }
    }

    /// Of a kind that takes rows of results in batches: when a batch is whole. A delivery is a batch, see `batches`.
    pub fn batches(&self) -> Option<BatchTerms> {
        match self {
            TargetV1::Webhook(_) | TargetV1::Chat(_) | TargetV1::Feed(_) | TargetV1::Email(_) => None,
            TargetV1::Postgres(target) => Some(BatchTerms {
                rows_max: POSTGRES_ROWS_MAX,
                bytes_max: POSTGRES_BYTES_MAX,
                every: Duration::from_secs(target.every_seconds.into()),
            }),
            TargetV1::Files(target) | TargetV1::FilesAway(FilesAwayV1 { files: target, .. }) => {
                Some(BatchTerms {
                    rows_max: target.rows_max,
                    bytes_max: FILES_BYTES_MAX,
                    every: Duration::from_secs(60 * u64::from(target.every_minutes)),
                })
            }
        }
    }

    /// Of a kind that takes batches: whether all of them go into one table, with the columns of one.
    pub fn is_one_table(&self) -> bool {
        match self {
            TargetV1::Webhook(_) | TargetV1::Chat(_) | TargetV1::Feed(_) | TargetV1::Email(_) => false,
            TargetV1::Files(_) | TargetV1::FilesAway(_) => false,
            TargetV1::Postgres(_) => true,
        }
    }

    /// Its address as text, where it is one that people are shown.
    pub fn url(&self) -> Option<&str> {
        match self {
            TargetV1::Webhook(target) => Some(&target.url),
            TargetV1::Postgres(_) | TargetV1::Files(_) | TargetV1::FilesAway(_) => None,
            TargetV1::Chat(_) | TargetV1::Feed(_) | TargetV1::Email(_) => None,
        }
    }

    /// The name of the place where things go.
    pub fn host(&self) -> Option<&str> {
        match self {
            TargetV1::Webhook(target) => Some(host_of(&target.url)),
            TargetV1::Postgres(target) => Some(&target.host),
            TargetV1::Files(_) => None,
            TargetV1::FilesAway(target) => match &target.place {
                // Amazon's own has none that anybody chose.
                PlaceV1::S3(place) => place.endpoint.as_deref().map(host_of),
                PlaceV1::Sftp(place) => Some(&place.host),
            },
            TargetV1::Chat(target) => Some(&target.host),
            TargetV1::Feed(_) | TargetV1::Email(_) => None,
        }
    }

    /// Whether things go elsewhere than to the other: what is known of that place says nothing of this one.
    pub fn is_elsewhere(&self, other: &TargetV1) -> bool {
        match (self, other) {
            (TargetV1::Webhook(this), TargetV1::Webhook(other)) => this.url != other.url,
            (TargetV1::Email(_), TargetV1::Email(_)) => false,
            _ => self != other,
        }
    }
}

/// Where events leave by themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputV2 {
    pub id: OutputId,
    pub name: String,
    pub target: TargetV1,
    /// Kinds of events; `job.*` is every one of its subject.
    pub events: Vec<String>,
    /// All of them.
    pub tags: Vec<String>,
    /// The registrable domain.
    pub domain: Option<String>,
    /// Any of them; empty is every one, and what has none.
    pub page_types: Vec<PageType>,
    pub condition: Option<String>,
    pub is_enabled: bool,
    pub disabled_reason: Option<DisabledReason>,
    pub disabled_at: Option<Timestamp>,
    /// Grows with each change, so that what was made of the row is known to be old.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Record for OutputV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<OutputV2, CodecError> {
        match version {
            1 => decode_body::<OutputV1>(body).map(OutputV2::from),
            _ => Err(CodecError(format!("output version {version} is unknown to this release"))),
        }
    }
}

/// As outputs were stored when all of them were webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputV1 {
    pub id: OutputId,
    pub name: String,
    pub kind: OutputKind,
    pub url: String,
    /// Kinds of events; `job.*` is every one of its subject.
    pub events: Vec<String>,
    /// All of them.
    pub tags: Vec<String>,
    /// The registrable domain.
    pub domain: Option<String>,
    /// Any of them; empty is every one, and what has none.
    pub page_types: Vec<PageType>,
    pub condition: Option<String>,
    pub is_enabled: bool,
    pub disabled_reason: Option<DisabledReason>,
    pub disabled_at: Option<Timestamp>,
    /// The keys, the newest of each scheme first; sealed in the same order.
    pub keys: Vec<KeyInfoV1>,
    pub sealed_keys: Vec<u8>,
    /// Grows with each change, so that what was made of the row is known to be old.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<OutputV1> for OutputV2 {
    fn from(old: OutputV1) -> OutputV2 {
        let webhook = WebhookV1 { url: old.url, keys: old.keys, sealed_keys: old.sealed_keys };
        OutputV2 {
            id: old.id,
            name: old.name,
            target: TargetV1::Webhook(webhook),
            events: old.events,
            tags: old.tags,
            domain: old.domain,
            page_types: old.page_types,
            condition: old.condition,
            is_enabled: old.is_enabled,
            disabled_reason: old.disabled_reason,
            disabled_at: old.disabled_at,
            revision: old.revision,
            created_at: old.created_at,
            updated_at: old.updated_at,
        }
    }
}

/// Whose feed a token is.
pub static BY_FEED_TOKEN: Index<[u8; 32], OutputV2> =
    Index::global_unique("outputs.by_feed_token", |row, keys| {
        if let TargetV1::Feed(feed) = &row.target {
            keys.add(feed.token);
        }
    });

pub static OUTPUTS: OrgTable<OutputId, OutputV2> =
    OrgTable::new("outputs", "Output").indexed(&[&BY_FEED_TOKEN]).fed();

/// How far an output is. Apart from its terms, because it changes with every delivery.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputStateV1 {
    /// Events up to this place of the log were looked at.
    pub place: u64,
    /// Up to here they were looked at before: what was delivered then is not delivered again.
    pub recover_until: u64,
    /// The number of the newest delivery.
    pub sequence: u64,
    pub delivered: u64,
    pub failed: u64,
    /// Events that were gone from the log before they were looked at.
    pub missed: u64,
    /// Since when every try has failed.
    pub failing_since: Option<Moment>,
    /// Before this nothing is sent: the endpoint asked for it.
    pub not_before: Option<Moment>,
    pub last_delivered_at: Option<Timestamp>,
    pub last_error: Option<String>,
}

impl Record for OutputStateV1 {}

pub static STATES: OrgTable<OutputId, OutputStateV1> = OrgTable::new("output_states", "Output").uncounted();

base::words! {
    /// What became of a delivery.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum DeliveryState {
        /// It is tried, or tried again.
        Pending "pending",
        /// The endpoint has taken it.
        Delivered "delivered",
        /// The last try has failed.
        Failed "failed",
    }
}

/// One try of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptV1 {
    pub at: Timestamp,
    pub duration_ms: u64,
    /// What the endpoint answered; none where it did not.
    pub status: Option<u16>,
    /// The beginning of its answer, or why there was none.
    pub told: String,
}

/// An event on its way to an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliveryV1 {
    pub id: DeliveryId,
    pub output: OutputId,
    /// Its number among the output's deliveries.
    pub sequence: u64,
    /// The event's place in the log.
    pub event_seq: u64,
    pub event: EventId,
    pub event_kind: String,
    pub event_at: Timestamp,
    /// What is sent, the same at every try.
    pub body: String,
    pub state: DeliveryState,
    /// Tries since it was made, or was last to be tried anew.
    pub tries: u32,
    /// The newest of all tries.
    pub attempts: Vec<AttemptV1>,
    pub next_try_at: Option<Moment>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// When it ended, for the time it is kept.
    pub ended: Option<Moment>,
}

impl Record for DeliveryV1 {}

/// The deliveries of an output.
pub static BY_OUTPUT: Index<OutputId, DeliveryV1> =
    Index::new("deliveries.by_output", |row, keys| keys.add(row.output));

/// Those that wait for a try, by its time.
pub static TO_SEND: Index<(OutputId, Moment), DeliveryV1> = Index::new("deliveries.to_send", |row, keys| {
    if let Some(at) = row.next_try_at.filter(|_| row.state == DeliveryState::Pending) {
        keys.add((row.output, at));
    }
});

/// The delivery of an event to an output.
pub static BY_EVENT: Index<(OutputId, u64), DeliveryV1> =
    Index::unique("deliveries.by_event", |row, keys| keys.add((row.output, row.event_seq)));

/// Those that have ended, by their end.
pub static ENDED: Index<Moment, DeliveryV1> = Index::global("deliveries.ended", |row, keys| {
    if let Some(ended) = row.ended {
        keys.add(ended);
    }
});

pub static DELIVERIES: OrgTable<DeliveryId, DeliveryV1> =
    OrgTable::new("deliveries", "Delivery").indexed(&[&BY_OUTPUT, &TO_SEND, &BY_EVENT, &ENDED]).fed();

/// An event as a feed shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedItemV1 {
    pub sequence: u64,
    pub event: EventId,
    pub at: Timestamp,
    /// The event as a webhook would send it.
    pub body: String,
}

impl Record for FeedItemV1 {}

/// Items of a feed.
pub const FEED_ITEMS_MAX: u64 = 100;

/// The newest items of feeds, each in the place that its number has in a round of [`FEED_ITEMS_MAX`]: a new one takes the
/// place of the oldest.
pub static FEED_ITEMS: OrgTable<(OutputId, u64), FeedItemV1> =
    OrgTable::new("output_feed_items", "Feed item");

/// An output that was removed and whose deliveries are to go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoneOutputV1 {
    pub at: Timestamp,
}

impl Record for GoneOutputV1 {}

pub static GONE: OrgTable<OutputId, GoneOutputV1> = OrgTable::new("outputs_gone", "Output").uncounted();

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec::{decode, encode};

    impl Record for OutputV1 {}

    #[test]
    fn an_output_of_the_first_release_is_a_webhook() {
        let key = KeyInfoV1 { scheme: SignatureScheme::V1a, shown: "whpk_".into(), until: Some(Moment(7)) };
        let old = OutputV1 {
            id: OutputId::new(),
            name: "shop".into(),
            kind: OutputKind::Webhook,
            url: "https://a.example/in".into(),
            events: vec!["job.*".into()],
            tags: vec!["t".into()],
            domain: Some("a.example".into()),
            page_types: Vec::new(),
            condition: Some("sale".into()),
            is_enabled: false,
            disabled_reason: Some(DisabledReason::Failing),
            disabled_at: Some(Timestamp(3)),
            keys: vec![key.clone()],
            sealed_keys: vec![1, 2, 3],
            revision: 9,
            created_at: Timestamp(1),
            updated_at: Timestamp(2),
        };
        let read: OutputV2 = decode(&encode(&old).unwrap()).unwrap();
        assert_eq!(read, OutputV2::from(old.clone()));
        let webhook = WebhookV1 { url: old.url, keys: vec![key], sealed_keys: vec![1, 2, 3] };
        assert_eq!(
            (read.target, read.revision, read.condition),
            (TargetV1::Webhook(webhook), 9, old.condition)
        );
        assert_eq!((read.is_enabled, read.updated_at), (false, Timestamp(2)));
    }
}
