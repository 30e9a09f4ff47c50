//! Outputs and their deliveries on the wire: what a caller asks for, checked, and what is shown.

use super::rows::{
    AttemptV1, DeliveryState, DeliveryV1, DisabledReason, OutputKind, OutputStateV1, OutputV1,
    SignatureScheme,
};
use super::send::message_id;
use crate::features::events::kinds_named;
use base::clock::{Now, Timestamp};
use base::ids::{DeliveryId, EventId, OutputId};
use base::limits::{NAME_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX};
use base::name::Name;
use base::permission::Permissions;
use base::terms::PageType;
use base::web::{Domain, URL_BYTES_MAX, WebUrl};
use base::{Code, Error, Result, labels};
use fetch::AddressGuard;
use outputs::Condition;
use outputs::condition::TEXT_CHARS_MAX;
use outputs::webhook::Key;
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
    /// What people call it; the host of `url` unless said otherwise.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    #[serde(default)]
    name: Option<String>,
    /// The endpoint.
    #[schemars(length(min = 1, max = URL_BYTES_MAX))]
    url: String,
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
    /// How messages are signed; `v1` unless said otherwise.
    #[schemars(length(min = 1, max = 2))]
    #[serde(default)]
    signatures: Option<Vec<SignatureScheme>>,
    /// The key of `v1`, where it is known already: `whsec_` and 24 to 64 bytes in base64. Else the box makes one.
    #[schemars(length(max = SECRET_CHARS_MAX))]
    #[serde(default)]
    secret: Option<String>,
}

/// What is to be different. What is left out, or null, stays as it is.
#[derive(Debug, Deserialize, JsonSchema)]
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
    /// True: new keys, which the answer has. The old ones sign beside them for another 24 hours.
    #[serde(default)]
    pub rotate_secret: Option<bool>,
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

/// What an output is made or changed within.
pub(super) struct Within<'w> {
    pub guard: &'w AddressGuard,
    pub permissions: Permissions,
}

impl NewOutput {
    /// The row, but for its keys and what the present says; the schemes of its keys, and the key that was given.
    pub fn checked(self, within: &Within<'_>) -> Result<(OutputV1, Vec<SignatureScheme>, Option<Key>)> {
        let url = endpoint(&self.url, within.guard)?;
        let name = match &self.name {
            Some(name) => Name::parse("name", name)?.into_string(),
            None => url.host().chars().take(NAME_CHARS_MAX).collect(),
        };
        let schemes = self.signatures.unwrap_or_else(|| vec![SignatureScheme::V1]);
        if schemes.is_empty() || schemes.len() > 2 || schemes.first() == schemes.get(1) {
            return Err(Error::invalid("signatures", "names v1, v1a, or both"));
        }
        let secret = self.secret.map(|secret| {
            let key = Key::parse_secret(&secret).map_err(|e| Error::invalid("secret", e.to_string()))?;
            match schemes.contains(&SignatureScheme::V1) {
                true => Ok(key),
                false => Err(Error::invalid("secret", "is the key of v1, which is not among signatures")),
            }
        });
        let row = OutputV1 {
            id: OutputId::new(),
            name,
            kind: self.kind,
            url: url.into_string(),
            events: events(self.events, within.permissions)?,
            tags: labels::tags("tags", self.tags.unwrap_or_default())?,
            domain: self.domain.as_deref().map(domain).transpose()?,
            page_types: page_types(self.page_types.unwrap_or_default())?,
            condition: self.condition.map(condition).transpose()?,
            is_enabled: self.is_enabled.unwrap_or(true),
            disabled_reason: None,
            disabled_at: None,
            keys: Vec::new(),
            sealed_keys: Vec::new(),
            revision: 0,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        Ok((row, schemes, secret.transpose()?))
    }
}

impl OutputUpdate {
    /// The same, checked and in its normal form.
    pub fn checked(self, within: &Within<'_>) -> Result<OutputUpdate> {
        let clears = |field| self.clear.iter().flatten().any(|clear| *clear == field);
        for (field, name, is_given) in [
            (Clearable::Domain, "domain", self.domain.is_some()),
            (Clearable::Condition, "condition", self.condition.is_some()),
        ] {
            if is_given && clears(field) {
                return Err(Error::invalid("clear", format!("names {name}, which is given as well")));
            }
        }
        let url = self.url.map(|url| endpoint(&url, within.guard).map(WebUrl::into_string));
        Ok(OutputUpdate {
            name: self.name.map(|name| Name::parse("name", &name)).transpose()?.map(Name::into_string),
            url: url.transpose()?,
            events: self.events.map(|given| events(given, within.permissions)).transpose()?,
            tags: self.tags.map(|given| labels::tags("tags", given)).transpose()?,
            domain: self.domain.as_deref().map(domain).transpose()?,
            page_types: self.page_types.map(page_types).transpose()?,
            condition: self.condition.map(condition).transpose()?,
            ..self
        })
    }

    /// Whether it would send what the output sends elsewhere: who asks must be allowed to see all of it.
    pub fn is_redirecting(&self) -> bool {
        self.url.is_some() || self.rotate_secret == Some(true)
    }

    /// Gives a row these terms.
    pub fn apply(self, row: &mut OutputV1) {
        let clears = |field| self.clear.iter().flatten().any(|clear| *clear == field);
        if clears(Clearable::Domain) {
            row.domain = None;
        }
        if clears(Clearable::Condition) {
            row.condition = None;
        }
        set(&mut row.name, self.name);
        set(&mut row.url, self.url);
        set(&mut row.events, self.events);
        set(&mut row.tags, self.tags);
        set(&mut row.page_types, self.page_types);
        row.domain = self.domain.or(row.domain.take());
        row.condition = self.condition.or(row.condition.take());
        if let Some(is_enabled) = self.is_enabled {
            if is_enabled {
                (row.disabled_reason, row.disabled_at) = (None, None);
            }
            row.is_enabled = is_enabled;
        }
    }
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

fn endpoint(text: &str, guard: &AddressGuard) -> Result<WebUrl> {
    let refuse = |reason: String| Error::new(Code::InvalidUrl).message(format!("url: {reason}"));
    let url = WebUrl::parse(text).map_err(|e| refuse(e.to_string()))?;
    guard.check_literal(&url).map_err(|refused| refuse(refused.to_string()))?;
    Ok(url)
}

/// Kinds of events that who asks may be told of.
pub(super) fn events(given: Vec<String>, permissions: Permissions) -> Result<Vec<String>> {
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
    url: String,
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
    /// The keys in whole, in the answer that makes them and in no other: a `whsec_` to verify with, or a `whpk_`.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<Vec<String>>,
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
    pub fn new(row: OutputV1, state: OutputStateV1, pending: usize, now: &Now) -> OutputView {
        let health = match () {
            () if !row.is_enabled => OutputHealth::Disabled,
            () if state.not_before.is_some_and(|at| at > now.moment) => OutputHealth::Throttled,
            () if state.failing_since.is_some() => OutputHealth::Failing,
            () => OutputHealth::Ok,
        };
        let keys = row.keys.into_iter().filter(|key| key.until.is_none_or(|end| end > now.moment));
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
            kind: row.kind,
            name: row.name,
            url: row.url,
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
