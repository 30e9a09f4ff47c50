//! An audit row on the wire, with the names of who acted.

use crate::features::api_keys::API_KEYS;
use crate::features::auth::USERS;
use base::Result;
use base::clock::Timestamp;
use base::ids::{ApiKeyId, AuditId, OrgId, UserId};
use base::page::{Page, PageRequest};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt::Write;
use store::{Actor, AuditEntry, AuditFilter, Detail, SysRead, System};
use uuid::Uuid;

/// Who acted.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ActorType {
    User,
    ApiKey,
    Operator,
    /// The box itself.
    System,
    /// Somebody without a credential.
    Anonymous,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ActorView {
    #[serde(rename = "type")]
    kind: ActorType,
    /// Of the user or the key.
    #[schemars(with = "Option<String>")]
    id: Option<Uuid>,
    /// What they are called now; null for a user who was erased and a key that was deleted.
    name: Option<String>,
    /// Of a key: whose it is.
    user_id: Option<UserId>,
}

/// A row of the audit log.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditLogView {
    id: AuditId,
    at: Timestamp,
    actor: ActorView,
    action: String,
    resource_type: String,
    resource_id: Option<String>,
    /// Null for what had no request, and once the person was erased.
    ip: Option<String>,
    request_id: Option<String>,
    details: Map<String, Value>,
    /// Its place in the organization's chain, from 1 and without gaps.
    number: u64,
    /// SHA-256 over this row and the hash before it: whoever keeps one can later prove that no row up to it was touched.
    hash: String,
}

/// Reads one organization's log, or the box's own.
pub struct Reader {
    system: System,
    org: Option<OrgId>,
}

impl Reader {
    pub fn new(system: System, org: Option<OrgId>) -> Reader {
        Reader { system, org }
    }

    /// One page with its names, from one moment.
    pub fn page(&self, filter: &AuditFilter, request: &PageRequest) -> Result<Page<AuditLogView>> {
        self.system.read(|tx| {
            let mut names = Names { tx, org: self.org, known: HashMap::new() };
            let page = match self.org {
                Some(org) => tx.org(org).audit_page(filter, request)?,
                None => tx.audit_page(filter, request)?,
            };
            let items = page.items.into_iter().map(|entry| names.view(entry)).collect::<Result<_>>()?;
            Ok(Page { items, next_cursor: page.next_cursor })
        })
    }
}

struct Names<'a, 'v> {
    tx: &'a SysRead<'v>,
    org: Option<OrgId>,
    /// One look-up for each actor of a page.
    known: HashMap<Uuid, Option<String>>,
}

impl Names<'_, '_> {
    fn view(&mut self, entry: AuditEntry) -> Result<AuditLogView> {
        let mut hash = String::with_capacity(64);
        for byte in entry.hash {
            // Writing to a string does not fail.
            let _ = write!(hash, "{byte:02x}");
        }
        Ok(AuditLogView {
            id: entry.id,
            at: entry.at,
            actor: self.actor(entry.actor)?,
            action: entry.action,
            resource_type: entry.resource_type,
            resource_id: entry.resource_id,
            ip: entry.ip.map(|ip| ip.to_string()),
            request_id: entry.request_id,
            details: entry.details.into_iter().map(|(name, value)| (name, json(value))).collect(),
            number: entry.number,
            hash,
        })
    }

    fn actor(&mut self, actor: Actor) -> Result<ActorView> {
        let nobody = |kind| ActorView { kind, id: None, name: None, user_id: None };
        Ok(match actor {
            Actor::System => nobody(ActorType::System),
            Actor::Operator => nobody(ActorType::Operator),
            Actor::Anonymous => nobody(ActorType::Anonymous),
            Actor::User(user) => {
                ActorView { id: Some(user.0), name: self.user(user)?, ..nobody(ActorType::User) }
            }
            Actor::ApiKey { key, maker } => ActorView {
                kind: ActorType::ApiKey,
                id: Some(key.0),
                name: self.key(key)?,
                user_id: Some(maker),
            },
        })
    }

    fn user(&mut self, id: UserId) -> Result<Option<String>> {
        if let Some(name) = self.known.get(&id.0) {
            return Ok(name.clone());
        }
        let name = self.tx.get(&USERS, &id)?.map(|user| user.name);
        self.known.insert(id.0, name.clone());
        Ok(name)
    }

    fn key(&mut self, id: ApiKeyId) -> Result<Option<String>> {
        if let Some(name) = self.known.get(&id.0) {
            return Ok(name.clone());
        }
        let Some(org) = self.org else { return Ok(None) };
        let name = self.tx.org(org).get(&API_KEYS, &id)?.map(|key| key.name);
        self.known.insert(id.0, name.clone());
        Ok(name)
    }
}

fn json(value: Detail) -> Value {
    match value {
        Detail::Text(text) => Value::from(text),
        Detail::Number(number) => Value::from(number),
        Detail::Flag(flag) => Value::from(flag),
        Detail::Id(id) => Value::from(id.to_string()),
        Detail::Ids(ids) => ids.iter().map(Uuid::to_string).collect(),
    }
}
