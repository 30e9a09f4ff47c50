//! Outputs and their deliveries on the wire: what a caller asks for, checked, and what is shown.

use super::batches;
use super::filter::Selector;
use super::kinds::email::EmailTerms;
use super::kinds::files::{FilesTerms, FilesView};
use super::kinds::postgres::{PostgresTerms, PostgresView};
use super::kinds::{self, Terms, Within};
use super::letters::{self, EmailView};
use super::rows::{
    AttemptV1, ChatProduct, DeliveryState, DeliveryV1, DisabledReason, OutputKind, OutputStateV1, OutputV2,
    SignatureScheme, TargetV1,
};
use super::send::message_id;
use crate::features::events::kinds_named;
use base::clock::{Now, Timestamp};
use base::ids::{DeliveryId, EventId, OutputId};
use base::limits::{NAME_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX};
use base::name::Name;
use base::permission::Permissions;
use base::terms::PageType;
use base::web::{Domain, URL_BYTES_MAX};
use base::{Error, Result, labels};
use outputs::Condition;
use outputs::condition::TEXT_CHARS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kinds of events that an output names.
const EVENTS_MAX: usize = 100;
/// Page types that an output names.
const PAGE_TYPES_MAX: usize = 50;
/// Characters of a signing secret.
const SECRET_CHARS_MAX: usize = 200;

/// An output as a caller asks for it. It has no `Debug`: its secret is for nobody's eyes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewOutput {
    pub kind: OutputKind,
    /// What people call it; the host of `url`, or `Feed`, unless said otherwise.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    #[serde(default)]
    name: Option<String>,
    /// A webhook's, and a chat's: the endpoint, which they must have. A chat's is never shown again.
    #[schemars(length(min = 1, max = URL_BYTES_MAX))]
    #[serde(default)]
    url: Option<String>,
    /// Kinds of events; `job.*` is every one of its subject.
    #[schemars(length(min = 1, max = EVENTS_MAX))]
    events: Vec<String>,
    /// Only what has all of these tags.
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    #[serde(default)]
    tags: Option<Vec<String>>,
    /// Only what is of this registrable domain.
    #[serde(default)]
    domain: Option<String>,
    /// Only results of these page types, and what tells of them.
    #[schemars(length(max = PAGE_TYPES_MAX))]
    #[serde(default)]
    page_types: Option<Vec<PageType>>,
    /// Only what this holds for, such as `price < 100 and changed(price)`.
    #[schemars(length(min = 1, max = TEXT_CHARS_MAX))]
    #[serde(default)]
    condition: Option<String>,
    /// True unless said otherwise.
    #[serde(default)]
    is_enabled: Option<bool>,
    /// A chat's: whose messages it takes. It must say so.
    #[serde(default)]
    product: Option<ChatProduct>,
    /// A webhook's: how messages are signed; `v1` unless said otherwise.
    #[schemars(length(min = 1, max = 2))]
    #[serde(default)]
    signatures: Option<Vec<SignatureScheme>>,
    /// A webhook's: the key of `v1`, where it is known already: `whsec_` and 24 to 64 bytes in base64. Else the box makes one.
    #[schemars(length(max = SECRET_CHARS_MAX))]
    #[serde(default)]
    secret: Option<String>,
    /// Of the kind `postgres`: the server and the table.
    #[serde(default)]
    postgres: Option<PostgresTerms>,
    /// Of the kind `files`: which, and where.
    #[serde(default)]
    files: Option<FilesTerms>,
    /// Of the kind `email`: to whom letters go, and when.
    #[serde(default)]
    email: Option<EmailTerms>,
}

/// What an output that is not saved yet is to let through.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputPreviewRequest {
    /// Kinds of events; `job.*` is every one of its subject.
    #[schemars(length(min = 1, max = EVENTS_MAX))]
    events: Vec<String>,
    /// Only what has all of these tags.
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    #[serde(default)]
    tags: Option<Vec<String>>,
    /// Only what is of this registrable domain.
    #[serde(default)]
    domain: Option<String>,
    /// Only results of these page types, and what tells of them.
    #[schemars(length(max = PAGE_TYPES_MAX))]
    #[serde(default)]
    page_types: Option<Vec<PageType>>,
    /// Only what this holds for.
    #[schemars(length(min = 1, max = TEXT_CHARS_MAX))]
    #[serde(default)]
    condition: Option<String>,
}

impl OutputPreviewRequest {
    /// The filter that an output of these terms would have; they are checked as if it were saved.
    pub fn selector(self, permissions: Permissions) -> Result<Selector> {
        let events = events(self.events, permissions)?;
        let tags = labels::tags("tags", self.tags.unwrap_or_default())?;
        let domain = self.domain.as_deref().map(domain).transpose()?;
        let page_types = page_types(self.page_types.unwrap_or_default())?;
        let condition = self.condition.map(condition).transpose()?;
        Ok(Selector::new(&events, &tags, domain.as_deref(), &page_types, condition.as_deref()))
    }
}

/// What is to be different. What is left out, or null, stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputUpdate {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    #[serde(default)]
    name: Option<String>,
    #[schemars(length(min = 1, max = URL_BYTES_MAX))]
    #[serde(default)]
    url: Option<String>,
    #[schemars(length(min = 1, max = EVENTS_MAX))]
    #[serde(default)]
    events: Option<Vec<String>>,
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    domain: Option<String>,
    #[schemars(length(max = PAGE_TYPES_MAX))]
    #[serde(default)]
    page_types: Option<Vec<PageType>>,
    #[schemars(length(min = 1, max = TEXT_CHARS_MAX))]
    #[serde(default)]
    condition: Option<String>,
    /// One that is switched on again goes on with what happens from then on; what happened meanwhile can be recovered.
    #[serde(default)]
    is_enabled: Option<bool>,
    /// A chat's.
    #[serde(default)]
    product: Option<ChatProduct>,
    /// A webhook's, true: new keys, which the answer has. The old ones sign beside them for another 24 hours. A feed's: a
    /// new address, and the old one leads nowhere from now on.
    #[serde(default)]
    rotate_secret: Option<bool>,
    /// Of the kind `postgres`: what is to be different about the server and the table.
    #[serde(default)]
    postgres: Option<PostgresTerms>,
    /// Of the kind `files`: what is to be different about them.
    #[serde(default)]
    files: Option<FilesTerms>,
    /// Of the kind `email`: what is to be different about letters. `recipients` are all of them.
    #[serde(default)]
    email: Option<EmailTerms>,
    /// What the output is to have none of from now on.
    #[serde(default)]
    clear: Option<Vec<Clearable>>,
}

/// What null would mean if it did not mean that it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClearableOfOutput")]
pub(super) enum Clearable {
    Domain,
    Condition,
}

/// The addresses that a request names.
fn recipients(terms: Option<&EmailTerms>) -> Result<Option<Vec<String>>> {
    let given = terms.and_then(|terms| terms.recipients.as_deref());
    given.map(|given| letters::addresses("email.recipients", given)).transpose()
}

impl NewOutput {
    pub fn recipients(&self) -> Result<Option<Vec<String>>> {
        recipients(self.email.as_ref())
    }

    /// The row, but for what the present says, and what is shown once.
    pub fn checked(self, within: &Within<'_>) -> Result<(OutputV2, Vec<String>)> {
        let id = OutputId::new();
        let terms = Terms {
            url: self.url,
            signatures: self.signatures,
            secret: self.secret,
            postgres: self.postgres,
            files: self.files,
            product: self.product,
            email: self.email,
            ..Terms::default()
        };
        let made = kinds::made(self.kind, id, terms, within)?;
        let name = match &self.name {
            Some(name) => Name::parse("name", name)?.into_string(),
            None => made.name,
        };
        let row = OutputV2 {
            id,
            name,
            target: made.target,
            events: events(self.events, within.permissions)?,
            tags: labels::tags("tags", self.tags.unwrap_or_default())?,
            domain: self.domain.as_deref().map(domain).transpose()?,
            page_types: page_types(self.page_types.unwrap_or_default())?,
            condition: self.condition.map(condition).transpose()?,
            is_enabled: self.is_enabled.unwrap_or(true),
            disabled_reason: None,
            disabled_at: None,
            revision: 0,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        batches::check(&row)?;
        Ok((row, made.secrets))
    }
}

impl OutputUpdate {
    pub fn recipients(&self) -> Result<Option<Vec<String>>> {
        recipients(self.email.as_ref())
    }

    /// A row as it is to be, and the secrets that were made for it.
    pub fn applied(self, mut row: OutputV2, within: &Within<'_>) -> Result<(OutputV2, Option<Vec<String>>)> {
        let clears = |field| self.clear.iter().flatten().any(|clear| *clear == field);
        for (field, name, is_given) in [
            (Clearable::Domain, "domain", self.domain.is_some()),
            (Clearable::Condition, "condition", self.condition.is_some()),
        ] {
            if is_given && clears(field) {
                return Err(Error::invalid("clear", format!("names {name}, which is given as well")));
            }
        }
        row.domain = row.domain.filter(|_| !clears(Clearable::Domain));
        row.condition = row.condition.filter(|_| !clears(Clearable::Condition));
        let terms = Terms {
            url: self.url,
            rotate_secret: self.rotate_secret == Some(true),
            postgres: self.postgres,
            files: self.files,
            product: self.product,
            email: self.email,
            ..Terms::default()
        };
        if terms.is_redirecting() {
            events(row.events.clone(), within.permissions)?;
        }
        let secrets;
        (row.target, secrets) = kinds::changed(&row, terms, within)?;
        if let Some(name) = &self.name {
            row.name = Name::parse("name", name)?.into_string();
        }
        set(&mut row.events, self.events.map(|given| events(given, within.permissions)).transpose()?);
        set(&mut row.tags, self.tags.map(|given| labels::tags("tags", given)).transpose()?);
        set(&mut row.page_types, self.page_types.map(page_types).transpose()?);
        row.domain = self.domain.as_deref().map(domain).transpose()?.or(row.domain);
        row.condition = self.condition.map(condition).transpose()?.or(row.condition);
        if let Some(is_enabled) = self.is_enabled {
            if is_enabled {
                (row.disabled_reason, row.disabled_at) = (None, None);
            }
            row.is_enabled = is_enabled;
        }
        batches::check(&row)?;
        Ok((row, secrets))
    }
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

/// Kinds of events that who asks may be told of.
fn events(given: Vec<String>, permissions: Permissions) -> Result<Vec<String>> {
    if given.is_empty() || given.len() > EVENTS_MAX {
        return Err(Error::invalid("events", format!("names 1 to {EVENTS_MAX} kinds of events")));
    }
    kinds_named("events", &given, permissions)?;
    let mut names = Vec::new();
    for name in given {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn domain(given: &str) -> Result<String> {
    let domain = Domain::parse(given).map_err(|e| Error::invalid("domain", e))?;
    Ok(domain.as_str().to_owned())
}

fn page_types(given: Vec<PageType>) -> Result<Vec<PageType>> {
    if given.len() > PAGE_TYPES_MAX {
        return Err(Error::invalid("pageTypes", format!("names {PAGE_TYPES_MAX} page types at most")));
    }
    let mut kinds = Vec::new();
    for kind in given {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

pub(super) fn condition(given: String) -> Result<String> {
    match Condition::parse(&given) {
        Ok(_) => Ok(given),
        Err(fault) => Err(Error::invalid("condition", fault.to_string())),
    }
}

base::words! {
    /// How an output stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub(super) enum OutputHealth {
        /// Nothing is wrong with it, as far as is known.
        Ok "ok",
        /// The last tries have failed.
        Failing "failing",
        /// Its endpoint asked for a pause.
        Throttled "throttled",
        /// It is switched off.
        Disabled "disabled",
    }
}

/// A key with which messages are signed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OutputKeyView {
    scheme: SignatureScheme,
    /// The last characters of a secret; null of `v1a`.
    ending: Option<String>,
    /// What verifies signatures of `v1a`; null of `v1`, which is verified with the secret.
    public_key: Option<String>,
    /// Until when one that was replaced signs beside the new one.
    until: Option<Timestamp>,
}

/// Where events leave by themselves.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputView {
    id: OutputId,
    kind: OutputKind,
    name: String,
    /// A webhook's endpoint; null of other kinds.
    url: Option<String>,
    /// The host of a webhook's or a chat's endpoint.
    host: Option<String>,
    /// A chat's.
    product: Option<ChatProduct>,
    /// The first characters of a feed's token.
    token_prefix: Option<String>,
    events: Vec<String>,
    tags: Vec<String>,
    domain: Option<String>,
    page_types: Vec<PageType>,
    condition: Option<String>,
    is_enabled: bool,
    state: OutputHealth,
    /// Why the box switched it off.
    disabled_reason: Option<DisabledReason>,
    disabled_at: Option<Timestamp>,
    keys: Vec<OutputKeyView>,
    /// The keys in whole, in the answer that makes them and in no other: a `whsec_` to verify with, or a `whpk_`. Of a feed
    /// its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<Vec<String>>,
    /// Of the kind `postgres`.
    #[serde(skip_serializing_if = "Option::is_none")]
    postgres: Option<PostgresView>,
    /// Of the kind `files`.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<FilesView>,
    /// Of the kind `email`.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<EmailView>,
    /// Events up to this place of the log were looked at.
    position: u64,
    /// Deliveries that wait for a try; 1,000 are counted at most.
    pending: usize,
    delivered: u64,
    /// Deliveries of which every try has failed.
    failed: u64,
    /// Events that were gone from the log before they were looked at.
    missed: u64,
    /// Since when every try has failed.
    failing_since: Option<Timestamp>,
    last_delivered_at: Option<Timestamp>,
    last_error: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl OutputView {
    pub fn new(row: OutputV2, state: OutputStateV1, pending: usize, now: &Now) -> OutputView {
        let health = match () {
            () if !row.is_enabled => OutputHealth::Disabled,
            () if state.not_before.is_some_and(|at| at > now.moment) => OutputHealth::Throttled,
            () if state.failing_since.is_some() => OutputHealth::Failing,
            () => OutputHealth::Ok,
        };
        let (kind, url) = (row.target.kind(), row.target.url().map(str::to_owned));
        let host = row.target.host().map(str::to_owned);
        let (mut product, mut token_prefix, mut keys) = (None, None, Vec::new());
        let (mut postgres, mut files) = (None, None);
        match row.target {
            TargetV1::Webhook(webhook) => keys = webhook.keys,
            TargetV1::Chat(chat) => product = Some(chat.product),
            TargetV1::Feed(feed) => token_prefix = Some(feed.shown),
            TargetV1::Postgres(target) => postgres = Some(PostgresView::from(target)),
            TargetV1::Files(target) => files = Some(FilesView::from(target)),
            TargetV1::Email(_) => {}
            TargetV1::FilesAway(target) => files = Some(FilesView::away(target)),
        }
        let keys = keys.into_iter().filter(|key| key.until.is_none_or(|end| end > now.moment));
        let key = |info: super::rows::KeyInfoV1| {
            let is_secret = info.scheme == SignatureScheme::V1;
            OutputKeyView {
                scheme: info.scheme,
                ending: is_secret.then(|| info.shown.clone()),
                public_key: (!is_secret).then_some(info.shown),
                until: info.until.map(|end| now.date_of(end)),
            }
        };
        OutputView {
            id: row.id,
            kind,
            name: row.name,
            url,
            host,
            product,
            token_prefix,
            events: row.events,
            tags: row.tags,
            domain: row.domain,
            page_types: row.page_types,
            condition: row.condition,
            is_enabled: row.is_enabled,
            state: health,
            disabled_reason: row.disabled_reason,
            disabled_at: row.disabled_at,
            keys: keys.map(key).collect(),
            secrets: None,
            postgres,
            files,
            email: None,
            position: state.place,
            pending,
            delivered: state.delivered,
            failed: state.failed,
            missed: state.missed,
            failing_since: state.failing_since.map(|since| now.date_of(since)),
            last_delivered_at: state.last_delivered_at,
            last_error: state.last_error,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }

    /// With what is to be said of letters.
    pub fn with_email(self, email: Option<EmailView>) -> OutputView {
        OutputView { email, ..self }
    }

    /// With the keys that were just made.
    pub fn with_secrets(self, secrets: Option<Vec<String>>) -> OutputView {
        OutputView { secrets, ..self }
    }
}

/// One try.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeliveryAttemptView {
    at: Timestamp,
    duration_ms: u64,
    /// What the endpoint answered; null where it did not.
    status: Option<u16>,
    /// The beginning of its answer, or why there was none.
    told: String,
}

impl From<AttemptV1> for DeliveryAttemptView {
    fn from(row: AttemptV1) -> DeliveryAttemptView {
        DeliveryAttemptView { at: row.at, duration_ms: row.duration_ms, status: row.status, told: row.told }
    }
}

/// An event on its way to an output.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeliveryView {
    id: DeliveryId,
    output_id: OutputId,
    /// `webhook-id`, the same at every try.
    webhook_id: String,
    /// Its number among the output's deliveries.
    sequence: u64,
    state: DeliveryState,
    event_id: EventId,
    /// The event's place in the log.
    event_seq: u64,
    event_kind: String,
    event_at: Timestamp,
    /// Tries since it was made, or was last to be tried anew.
    tries: u32,
    /// The newest of all tries, 16 at most.
    attempts: Vec<DeliveryAttemptView>,
    next_try_at: Option<Timestamp>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl DeliveryView {
    pub fn new(row: DeliveryV1, now: &Now) -> DeliveryView {
        DeliveryView {
            id: row.id,
            output_id: row.output,
            webhook_id: message_id(row.id),
            sequence: row.sequence,
            state: row.state,
            event_id: row.event,
            event_seq: row.event_seq,
            event_kind: row.event_kind,
            event_at: row.event_at,
            tries: row.tries,
            attempts: row.attempts.into_iter().map(DeliveryAttemptView::from).collect(),
            next_try_at: row.next_try_at.map(|at| now.date_of(at)),
            created_at: row.created_at,
            ended_at: row.ended_at,
        }
    }
}
