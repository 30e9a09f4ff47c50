//! Recipients, digests that wait, and who has which letter, as they are stored.

use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::{DeliveryId, EventId, OutputId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};
use uuid::Uuid;

base::words! {
    /// How a recipient stands.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum RecipientState {
        /// Was asked, and has not agreed yet: nothing is sent.
        Pending "pending",
        /// Gets letters.
        Active "active",
        /// Wants no more.
        Unsubscribed "unsubscribed",
        /// The mail server refused letters to this address again and again.
        Bounced "bounced",
    }
}

/// Somebody whom an output writes to, or has written to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecipientV1 {
    pub id: Uuid,
    pub output: OutputId,
    /// In its one spelling.
    pub address: String,
    pub state: RecipientState,
    /// Since when it stands so.
    pub since: Timestamp,
    /// Whether the output names it. One that it names no more is remembered where it wanted no more, or bounced.
    pub is_listed: bool,
    /// Gets letters for being a member, and only while it is one; else because it has agreed.
    pub is_member: bool,
    /// Stands in the one link that confirms it, until that is used.
    pub nonce: Option<Uuid>,
    /// When it was last asked.
    pub asked: Option<Moment>,
    /// Letters in a row that the mail server refused.
    pub refused: u32,
    pub last_error: Option<String>,
    pub last_sent_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl Record for RecipientV1 {}

pub static BY_OUTPUT: Index<(OutputId, String), RecipientV1> =
    Index::unique("output_recipients.by_output", |row, keys| keys.add((row.output, row.address.clone())));

/// Whom a link is of.
pub static BY_ID: Index<Uuid, RecipientV1> =
    Index::global_unique("output_recipients.by_id", |row, keys| keys.add(row.id));

pub static RECIPIENTS: OrgTable<Uuid, RecipientV1> =
    OrgTable::new("output_recipients", "Recipient").indexed(&[&BY_OUTPUT, &BY_ID]);

/// A letter that is not whole yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenDigestV1 {
    /// Its delivery, once it is whole.
    pub delivery: DeliveryId,
    /// Events in it, and of those how many it shows.
    pub events: u64,
    pub shown: u64,
    /// The place of the newest of those that it only counts, as long as no other row may come in between.
    pub counted_from: Option<u64>,
    /// The newest one.
    pub last_seq: u64,
    pub last_event: EventId,
    pub last_kind: String,
    pub last_at: Timestamp,
    /// When its first event came, as a date and as a moment.
    pub begun_at: Timestamp,
    pub begun: Moment,
}

/// What waits to become a letter of an output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DigestV1 {
    /// The log was looked at up to here.
    pub until: u64,
    /// When the last letter became whole.
    pub ended: Option<Moment>,
    pub open: Option<OpenDigestV1>,
}

impl Record for DigestV1 {}

pub static DIGESTS: OrgTable<OutputId, DigestV1> = OrgTable::new("output_digests", "Digest");

/// An event of a letter, or some that follow each other and are only counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DigestItemV1 {
    pub delivery: DeliveryId,
    /// The last one's place; the first one's is the key.
    pub last_seq: u64,
    /// What it tells, as JSON; none of those that are only counted.
    pub told: Option<String>,
}

impl Record for DigestItemV1 {}

pub static BY_LETTER: Index<DeliveryId, DigestItemV1> =
    Index::new("output_digest_items.by_letter", |row, keys| keys.add(row.delivery));

/// By output and the place of the (first) event.
pub static ITEMS: OrgTable<(OutputId, u64), DigestItemV1> =
    OrgTable::new("output_digest_items", "Digest item").indexed(&[&BY_LETTER]);

/// What became of a letter to one recipient, while others wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenV1 {
    /// The mail server has taken it; else it refused it for good.
    pub is_taken: bool,
}

impl Record for TakenV1 {}

/// By letter and recipient.
pub static TAKEN: OrgTable<(DeliveryId, Uuid), TakenV1> = OrgTable::new("output_letters", "Letter");

/// What an organization sent lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HourV1 {
    /// When the hour began in which letters are counted.
    pub begun: Moment,
    pub letters: u32,
    /// When the day began in which people are asked.
    pub day_begun: Moment,
    pub asked: u32,
}

impl Record for HourV1 {}

pub static HOURS: OrgTable<(), HourV1> = OrgTable::new("output_letter_hours", "Count of letters").uncounted();
