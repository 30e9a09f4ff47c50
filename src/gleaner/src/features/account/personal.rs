//! What this slice itself holds on a person, their exports, and what the store's audit log says of them.

use super::export;
use super::rows::{AccountExportV2, EXPORTS, EXPORTS_BY_USER};
use crate::features::{Erased, Holding, Person, Personal, Shown};
use base::Result;
use base::ids::OrgId;
use base::limits::PAGE_ROWS_MAX;
use base::page::PageRequest;
use serde_json::{Value, json};
use store::{AuditEntry, AuditFilter, Key, Order, SysRead, SysWrite};
use uuid::Uuid;

/// More than a person can have.
const EXPORTS_MAX: usize = 64;
/// Audit chains that one step looks into when there is nothing in them.
const CHAINS_PER_STEP: usize = 200;

pub(super) static KINDS: &[Personal] = &[
    Personal {
        name: "activity",
        about: "What the audit log says that you did, in which organization, from which address; also of failed logins to \
                your account.",
        show: activity,
        // Their personal parts go with `System::erase_personal`; the rows stay, under a pseudonym.
        erase: |_, _, _| Ok(Erased::default()),
    },
    Personal {
        name: "exports",
        about: "The exports like this one that you asked for and that are still kept.",
        show: |tx, person, _| {
            let rows = own(tx, person)?.into_iter().map(|export| {
                json!({
                    "id": export.id,
                    "requestedAt": export.requested_at,
                    "finishedAt": export.finished_at,
                    "expiresAt": export.expires_at,
                    "byteSize": export.byte_size,
                })
            });
            Ok(Shown { rows: rows.collect(), next: None })
        },
        erase: |tx: &SysWrite<'_>, person, _| {
            let of = person.id;
            let own = tx.readable_by(&EXPORTS, &EXPORTS_BY_USER, of, None, None, EXPORTS_MAX)?;
            let mut erased = Erased { left: own.passed_over, ..Erased::default() };
            for (id, _) in &own.rows {
                erased.removed += u64::from(tx.delete(&EXPORTS, id)?);
            }
            Ok(erased)
        },
    },
];

pub(super) static HOLDINGS: &[Holding] = &[Holding {
    name: "personal exports",
    remove: |context, org| Box::pin(export::remove_of_org(context, org)),
}];

/// One page of audit rows of the box's chain or of an organization's. A place is the organization (nil: the box) and the
/// cursor of its next page, or none for its first.
fn activity(tx: &SysRead<'_>, person: &Person, place: &[u8]) -> Result<Shown> {
    let (org, cursor) = place.split_at_checked(16).unwrap_or((&[0; 16], &[]));
    let mut org = OrgId::decode(org).filter(|org| !org.0.is_nil());
    let mut cursor = std::str::from_utf8(cursor).ok().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
    let filter = AuditFilter { actor: Some(person.id.0), ..AuditFilter::default() };
    for _ in 0..CHAINS_PER_STEP {
        let request = PageRequest { limit: PAGE_ROWS_MAX, cursor: cursor.take() };
        let page = match org {
            Some(org) => tx.org(org).audit_page(&filter, &request)?,
            None => tx.audit_page(&filter, &request)?,
        };
        let rows: Vec<_> = page.items.iter().map(|entry| action(org, entry)).collect();
        let (next_org, next_cursor) = match page.next_cursor {
            Some(cursor) => (org, cursor),
            None => match tx.next_audited_org(org)? {
                Some(next) => (Some(next), String::new()),
                None => return Ok(Shown { rows, next: None }),
            },
        };
        if !rows.is_empty() {
            let org = next_org.map_or(Uuid::nil(), |org| org.0);
            let next = [org.as_bytes().as_slice(), next_cursor.as_bytes()].concat();
            return Ok(Shown { rows, next: Some(next) });
        }
        (org, cursor) = (next_org, Some(next_cursor).filter(|cursor| !cursor.is_empty()));
    }
    let org = org.map_or(Uuid::nil(), |org| org.0);
    let next = [org.as_bytes().as_slice(), cursor.unwrap_or_default().as_bytes()].concat();
    Ok(Shown { rows: Vec::new(), next: Some(next) })
}

fn action(org: Option<OrgId>, entry: &AuditEntry) -> Value {
    json!({
        "at": entry.at,
        "organizationId": org,
        "action": entry.action,
        "resourceType": entry.resource_type,
        "resourceId": entry.resource_id,
        "ip": entry.ip,
        "requestId": entry.request_id,
    })
}

fn own(tx: &SysRead<'_>, person: &Person) -> Result<Vec<AccountExportV2>> {
    tx.scan_index(&EXPORTS, &EXPORTS_BY_USER, person.id, Order::Ascending, EXPORTS_MAX)
}
