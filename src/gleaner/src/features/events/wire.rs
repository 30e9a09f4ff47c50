//! Events on the wire, and which of them a caller wants.

use super::kind::{KINDS, subject_of};
use super::rows::EventV1;
use base::clock::Timestamp;
use base::ids::EventId;
use base::permission::Permissions;
use base::web::Domain;
use base::{Code, Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Something that happened in the organization.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventView {
    id: EventId,
    /// Its place in the organization's log: one more than that of the event before. What `Last-Event-ID` and `after` name.
    seq: u64,
    at: Timestamp,
    #[schemars(schema_with = "kind_schema")]
    kind: String,
    subject: SubjectView,
    /// The registrable domain that it concerns; null where it concerns none.
    domain: Option<String>,
    tags: Vec<String>,
    /// More about it; which members there are its kind says.
    #[schemars(with = "Map<String, Value>")]
    data: Value,
}

/// What it happened to.
#[derive(Debug, Serialize, JsonSchema)]
struct SubjectView {
    /// `job`, `result`, `schedule` …: the part of the kind before the point.
    #[serde(rename = "type")]
    sort: String,
    #[schemars(with = "EventId")]
    id: Uuid,
}

impl From<EventV1> for EventView {
    fn from(row: EventV1) -> EventView {
        EventView {
            id: row.id,
            seq: row.seq,
            at: row.at,
            subject: SubjectView { sort: subject_of(&row.kind).to_owned(), id: row.subject },
            kind: row.kind,
            domain: row.domain,
            tags: row.tags,
            data: row.data.0,
        }
    }
}

/// Every kind with what it means: made from what the slices declare.
fn kind_schema(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<_> = KINDS.keys().copied().collect();
    let lines: Vec<_> = KINDS.values().map(|kind| format!("`{}`: {}", kind.name, kind.about)).collect();
    json_schema!({ "type": "string", "enum": names, "description": lines.join(" ") })
}

/// What may be asked for: a kind, or all of one subject.
fn wanted_schema(_: &mut SchemaGenerator) -> Schema {
    let subjects: BTreeSet<_> = KINDS.keys().map(|name| format!("{}.*", subject_of(name))).collect();
    let names: Vec<_> = KINDS.keys().map(|name| (*name).to_owned()).chain(subjects).collect();
    json_schema!({ "type": "array", "items": { "type": "string", "enum": names } })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EventQuery {
    /// Of these kinds; `job.*` is every kind of events of jobs. Given several times, or as a list with commas.
    #[schemars(schema_with = "wanted_schema")]
    kind: Vec<String>,
    /// With all of these tags.
    tag: Vec<String>,
    /// Of this registrable domain.
    domain: Option<String>,
    /// What happened to this one thing: the id of a job, a result, a schedule …
    #[schemars(with = "Option<EventId>")]
    subject: Option<String>,
    /// Behind this place in the log. A stream begins there, with 0 at the oldest event that is kept; without it, at the
    /// present.
    after: Option<u64>,
}

/// Which events a caller is told of.
#[derive(Clone, Debug)]
pub(super) struct EventFilter {
    kinds: BTreeSet<&'static str>,
    tags: Vec<String>,
    domain: Option<String>,
    subject: Option<Uuid>,
    pub after: Option<u64>,
}

impl EventFilter {
    /// What was asked for, as far as a caller with these permissions is told of it.
    pub fn of(query: EventQuery, permissions: Permissions) -> Result<EventFilter> {
        let mut wanted = BTreeSet::<&'static str>::new();
        let given = query.kind.iter().flat_map(|given| given.split(',')).map(str::trim);
        for name in given.filter(|name| !name.is_empty()) {
            let before = wanted.len();
            match name.strip_suffix(".*") {
                Some(subject) => {
                    wanted.extend(KINDS.keys().copied().filter(|kind| subject_of(kind) == subject));
                    if wanted.len() == before && !KINDS.keys().any(|kind| subject_of(kind) == subject) {
                        return Err(unknown(name));
                    }
                }
                None => {
                    let (&kind, _) = KINDS.get_key_value(name).ok_or_else(|| unknown(name))?;
                    wanted.insert(kind);
                }
            }
        }
        let is_all = wanted.is_empty();
        if is_all {
            wanted = KINDS.keys().copied().collect();
        }
        let lacking = |name: &&'static str| {
            KINDS.get(*name).map(|kind| kind.permission).filter(|needed| !permissions.contains(*needed))
        };
        // What was named must be allowed; of everything one is told what is.
        if let Some(needed) = wanted.iter().filter_map(lacking).next()
            && !is_all
        {
            let message = format!("This needs the permission {}.", needed.name());
            return Err(Error::new(Code::AuthForbidden).message(message));
        }
        wanted.retain(|name| lacking(name).is_none());
        let subject = query.subject.map(|text| Uuid::parse_str(&text)).transpose();
        Ok(EventFilter {
            kinds: wanted,
            tags: query.tag,
            domain: query.domain.map(Domain::of_filter),
            subject: subject.map_err(|_| Error::invalid("subject", "is not an id"))?,
            after: query.after,
        })
    }

    pub fn accepts(&self, event: &EventV1) -> bool {
        self.kinds.contains(event.kind.as_str())
            && self.subject.is_none_or(|subject| event.subject == subject)
            && self.domain.as_ref().is_none_or(|domain| event.domain.as_ref() == Some(domain))
            && self.tags.iter().all(|tag| event.tags.contains(tag))
    }
}

fn unknown(name: &str) -> Error {
    let name: String = name.chars().take(64).collect();
    let known: Vec<_> = KINDS.keys().copied().collect();
    Error::invalid("kind", format!("\"{name}\" is no kind of events; known are {}", known.join(", ")))
}
