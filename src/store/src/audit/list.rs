//! Reading the audit log: pages of it, newest first, by who, what, kind of thing and time.
//!
//! Times never fall within a chain, so a time is found by halving, and a page reads only rows between its two times. An
//! actor and a kind of thing have indexes; what no index answers is looked through a bounded number of rows a page.

use super::ScopedChain;
use super::row::AuditFrame;
use crate::event::{Detail, ResourceV1};
use crate::origin::Actor;
use crate::raw::View;
use crate::scope::Scope;
use crate::tx::{ReadTx, SysRead};
use base::audit::Action;
use base::clock::Timestamp;
use base::digest::Digest;
use base::ids::{AuditId, OrgId, UserId};
use base::limits::PAGE_SCAN_ROWS_MAX;
use base::page::{Page, PageRequest, encode_cursor};
use base::{Error, Result};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Included};
use uuid::{Builder, Uuid};

/// The list's name in its cursors.
const LIST: &str = "audit_logs";
/// Rows of one look into the store.
const CHUNK_ROWS: usize = 64;

/// Which rows are wanted.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// By this person (also through their keys, or by somebody unknown about their account: a refused login), or by this
    /// key.
    pub actor: Option<Uuid>,
    pub action: Option<Action>,
    /// As [`Action::resource`] has it.
    pub resource_type: Option<String>,
    /// At this moment or later.
    pub from: Option<Timestamp>,
    /// Before this moment.
    pub to: Option<Timestamp>,
}

/// A row as it is shown.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    pub id: AuditId,
    /// Its place in the chain, from 1.
    pub number: u64,
    pub at: Timestamp,
    pub actor: Actor,
    /// Whose personal part the row may have; a person's id.
    pub person: Option<UserId>,
    pub action: String,
    pub resource_type: String,
    pub resource_id: Option<String>,
    pub ip: Option<IpAddr>,
    pub request_id: Option<String>,
    pub details: Vec<(String, Detail)>,
    /// Covers this row and every one before it.
    pub hash: Digest,
}

impl AuditEntry {
    fn read(number: u64, bytes: &[u8]) -> Result<AuditEntry> {
        let (framed, body) = AuditFrame::open(bytes)?;
        let personal = framed.personal()?;
        let mut details = body.details;
        let mut entry = AuditEntry {
            id: id_of(body.at, number, &framed.hash),
            number,
            at: body.at,
            actor: body.actor.into(),
            person: body.person,
            action: body.action,
            resource_type: body.resource_type,
            resource_id: match body.resource {
                ResourceV1::None => None,
                ResourceV1::Id(id) => Some(id.to_string()),
                ResourceV1::Name(name) => Some(name),
            },
            ip: None,
            request_id: None,
            details: Vec::new(),
            hash: framed.hash,
        };
        if let Some(personal) = personal {
            entry.ip = personal.ip;
            entry.request_id = personal.request_id;
            details.extend(personal.details.into_iter().map(|(name, text)| (name, Detail::Text(text))));
        }
        entry.details = details;
        Ok(entry)
    }
}

/// A row's id is made from its time, its number and its hash, so it need not be kept and cannot be given to another row.
/// The number stands where RFC 9562 (6.2, method 1) has a counter: ids of one chain are ordered as its rows are.
fn id_of(at: Timestamp, number: u64, hash: &Digest) -> AuditId {
    let mut bytes = [0; 10];
    // The version takes the first four bits and the variant two of the third byte: twelve, six and sixteen are left.
    bytes[..2].copy_from_slice(&((number >> 22) as u16 & 0x0FFF).to_be_bytes());
    bytes[2] = (number >> 16) as u8 & 0x3F;
    bytes[3..5].copy_from_slice(&(number as u16).to_be_bytes());
    bytes[5..].copy_from_slice(&hash[..5]);
    AuditId(Builder::from_unix_timestamp_millis(u64::try_from(at.0).unwrap_or(0), &bytes).into_uuid())
}

impl SysRead<'_> {
    /// The first organization after `after` that has a chain.
    pub fn next_audited_org(&self, after: Option<OrgId>) -> Result<Option<OrgId>> {
        self.next_org(super::OF_ORG.heads, after)
    }
}

impl<S: Scope> ReadTx<'_, S> {
    /// One page of the chain, newest first.
    pub fn audit_page(&self, filter: &AuditFilter, request: &PageRequest) -> Result<Page<AuditEntry>> {
        let (view, chain) = self.audit_parts();
        let cursor = request.position(LIST)?.map(|bytes| number(&bytes)).transpose()?;
        let head = if self.is_behind_fence() { None } else { chain.head(view)? };
        let Some(head) = head else { return Ok(Page { items: Vec::new(), next_cursor: None }) };
        // Rows stand in their order, and so do their dates, unless the clock was set back in between.
        let in_order = !self.clock().went_back();
        let seek = |time: Timestamp| seek(view, &chain, head.first, head.next, time);
        let low = filter.from.filter(|_| in_order).map_or(Ok(head.first), seek)?;
        let high = filter.to.filter(|_| in_order).map_or(Ok(head.next), seek)?;
        let mut high = high.min(cursor.unwrap_or(u64::MAX));
        let (table, prefix) = way(&chain, filter);
        let (mut items, mut seen) = (Vec::new(), 0);
        let end = |items, high: u64| {
            Ok(Page { items, next_cursor: Some(encode_cursor(LIST, &high.to_be_bytes())) })
        };
        loop {
            let chunk = (request.limit - items.len() + 1).max(CHUNK_ROWS);
            let key = |number: u64| [prefix.as_slice(), &number.to_be_bytes()].concat();
            let entries = view.scan(table, Included(&key(low)), Excluded(&key(high)), true, chunk)?;
            let ended = entries.len() < chunk;
            for (key, _) in entries {
                if items.len() == request.limit {
                    return end(items, high);
                }
                seen += 1;
                high = number(&key[prefix.len()..])?;
                // An entry of an index whose row was pruned is nothing.
                let Some(bytes) = view.get(chain.tables.rows, &chain.row_key(high))? else { continue };
                let entry = AuditEntry::read(high, &bytes)?;
                if is_wanted(filter, &entry) {
                    items.push(entry);
                }
            }
            if ended {
                return Ok(Page { items, next_cursor: None });
            }
            if seen >= PAGE_SCAN_ROWS_MAX {
                return end(items, high);
            }
        }
    }
}

/// The table whose keys end with row numbers, and the prefix under which the wanted ones are.
fn way(chain: &ScopedChain, filter: &AuditFilter) -> (&'static str, Vec<u8>) {
    if let Some(actor) = filter.actor {
        return (chain.tables.by_actor, chain.actor_prefix(actor));
    }
    let kind = filter.action.map(Action::resource).or(filter.resource_type.as_deref());
    let indexed = match filter.action {
        Some(action) => !action.is_bulk(),
        None => !Action::ALL.iter().any(|action| action.is_bulk() && Some(action.resource()) == kind),
    };
    match kind.filter(|_| indexed) {
        Some(kind) => (chain.tables.by_resource, chain.resource_prefix(kind)),
        None => (chain.tables.rows, chain.prefix.clone()),
    }
}

fn is_wanted(filter: &AuditFilter, entry: &AuditEntry) -> bool {
    let acted = |id: Uuid| match entry.actor {
        Actor::User(user) => user.0 == id,
        Actor::ApiKey { key, maker } => key.0 == id || maker.0 == id,
        Actor::Anonymous => entry.person == Some(UserId(id)),
        // What the operator did about a person was not that person's doing.
        Actor::Operator | Actor::System => false,
    };
    filter.from.is_none_or(|from| entry.at >= from)
        && filter.to.is_none_or(|to| entry.at < to)
        && filter.actor.is_none_or(acted)
        && filter.action.is_none_or(|action| entry.action == action.name())
        && filter.resource_type.as_ref().is_none_or(|kind| entry.resource_type == *kind)
}

/// The first number in `low..high` whose row is of `time` or later.
fn seek(view: &dyn View, chain: &ScopedChain, mut low: u64, mut high: u64, time: Timestamp) -> Result<u64> {
    while low < high {
        let middle = low + (high - low) / 2;
        let missing = || Error::internal("read the audit log", format!("row {middle} is missing"));
        let bytes = view.get(chain.tables.rows, &chain.row_key(middle))?.ok_or_else(missing)?;
        let (_, body) = AuditFrame::open(&bytes)?;
        if body.at < time {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

pub(super) fn number(bytes: &[u8]) -> Result<u64> {
    bytes
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| Error::invalid("cursor", "is damaged or belongs to another list"))
}
