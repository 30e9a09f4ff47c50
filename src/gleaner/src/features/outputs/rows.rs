//! Outputs, how far each is, and the ledger of what they delivered, as they are stored.

use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::{DeliveryId, EventId, OutputId};
use base::terms::PageType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// By which way events leave.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum OutputKind {
        /// A signed request to an endpoint (Standard Webhooks).
        Webhook "webhook",
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

/// Where events leave by themselves.
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

impl Record for OutputV1 {}

pub static OUTPUTS: OrgTable<OutputId, OutputV1> = OrgTable::new("outputs", "Output").fed();

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

/// An output that was removed and whose deliveries are to go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoneOutputV1 {
    pub at: Timestamp,
}

impl Record for GoneOutputV1 {}

pub static GONE: OrgTable<OutputId, GoneOutputV1> = OrgTable::new("outputs_gone", "Output").uncounted();
