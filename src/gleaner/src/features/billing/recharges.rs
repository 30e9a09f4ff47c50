//! Requests for more credits: a member asks, the operator decides, and approving adds the credits in the same operation.

use super::ledger;
use super::plans::Plans;
use super::rows::{
    RECHARGES, RECHARGES_BY_ID, RECHARGES_BY_STATUS, RECHARGES_PENDING, RechargeStatus, RechargeV1,
};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{OrgId, RechargeId, UserId};
use base::page::{Page, PageRequest};
use base::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{BillingRead, BillingWrite};
use server::{Body, Created, Org, Query};
use store::{Event, Seek, SysRead, SysWrite};

/// Credits of one request or one grant.
pub const RECHARGE_CREDITS_MAX: u64 = 1_000_000_000;
/// Characters of a note.
const NOTE_CHARS_MAX: usize = 500;
/// Requests of one organization that wait for the operator.
const PENDING_PER_ORG_MAX: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewRechargeRequest {
    #[schemars(range(min = 1, max = RECHARGE_CREDITS_MAX))]
    credits: u64,
    /// What the operator should know.
    #[schemars(length(max = NOTE_CHARS_MAX))]
    note: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RechargeFilter {
    status: Option<RechargeStatus>,
}

/// A request for more credits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RechargeView {
    id: RechargeId,
    credits: u64,
    note: Option<String>,
    status: RechargeStatus,
    requested_by: UserId,
    created_at: Timestamp,
    decided_at: Option<Timestamp>,
    /// What the operator wrote.
    answer: Option<String>,
}

impl From<RechargeV1> for RechargeView {
    fn from(row: RechargeV1) -> RechargeView {
        RechargeView {
            id: row.id,
            credits: row.credits,
            note: row.note,
            status: row.status,
            requested_by: row.requested_by,
            created_at: row.created_at,
            decided_at: row.decided_at,
            answer: row.answer,
        }
    }
}

pub(super) async fn list(
    org: Org<BillingRead>,
    Query(filter): Query<RechargeFilter>,
    page: PageRequest,
) -> Result<Body<Page<RechargeView>>> {
    let wanted = |row: &RechargeV1| filter.status.is_none_or(|status| row.status == status);
    Ok(Body(org.read(|tx| tx.page(&RECHARGES, &page, wanted))?.map(RechargeView::from)))
}

pub(super) async fn create(
    org: Org<BillingWrite>,
    Body(request): Body<NewRechargeRequest>,
) -> Result<Created<RechargeView>> {
    let credits = credits("credits", request.credits)?;
    let note = note("note", request.note.as_deref())?;
    let requested_by = org.principal().user();
    let row = org
        .write(move |tx| {
            let status = RechargeStatus::Pending;
            let waiting = tx.count_index(&RECHARGES_BY_STATUS, status as u8, PENDING_PER_ORG_MAX)?;
            if waiting >= PENDING_PER_ORG_MAX {
                return Err(Error::conflict(format!(
                    "{PENDING_PER_ORG_MAX} requests wait for the operator of this box already."
                )));
            }
            let row = RechargeV1 {
                id: RechargeId::new(),
                credits,
                note,
                requested_by,
                created_at: tx.now(),
                status,
                decided_at: None,
                answer: None,
            };
            tx.insert(&RECHARGES, &row.id, &row)?;
            tx.audit(Event::new(Action::RechargeRequested).of(row.id).with("credits", credits))?;
            Ok(row)
        })
        .await?;
    Ok(Created(row.into()))
}

/// An amount that can be added to an account.
pub fn credits(field: &str, given: u64) -> Result<u64> {
    if (1..=RECHARGE_CREDITS_MAX).contains(&given) {
        return Ok(given);
    }
    Err(Error::invalid(field, format!("must be 1 to {RECHARGE_CREDITS_MAX}")))
}

/// A note as it is kept: trimmed; none when nothing is left of it.
pub fn note(field: &str, given: Option<&str>) -> Result<Option<String>> {
    let Some(text) = given.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    let chars = text.chars().count();
    if chars > NOTE_CHARS_MAX {
        let reason = format!("has {chars} characters; at most {NOTE_CHARS_MAX} are allowed");
        return Err(Error::invalid(field, reason));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(field, "must not contain control characters"));
    }
    Ok(Some(text.to_owned()))
}

/// The requests that wait for the operator, oldest first, with their organizations.
pub fn pending_recharges(tx: &SysRead<'_>, limit: usize) -> Result<Vec<(OrgId, RechargeV1)>> {
    let found = tx.scan_global(&RECHARGES, &RECHARGES_PENDING, &Seek::start(), None, limit)?;
    found
        .entries
        .into_iter()
        .filter(|entry| !tx.is_fenced(entry.org))
        .map(|entry| Ok((entry.org, tx.org(entry.org).require(&RECHARGES, &entry.key)?)))
        .collect()
}

/// The operator's decision on a request. Approving adds the credits to the account in the same operation.
pub fn decide_recharge(
    tx: &SysWrite<'_>,
    plans: &Plans,
    id: RechargeId,
    approve: bool,
    answer: Option<String>,
) -> Result<(OrgId, RechargeV1)> {
    let found = tx.lookup_global(&RECHARGES, &RECHARGES_BY_ID, id)?;
    let missing = || {
        let message = format!("no recharge request has the id {id}; see gleaner admin recharge list");
        Error::not_found(RECHARGES.noun()).message(message)
    };
    let (org, mut row) = found.ok_or_else(missing)?;
    if row.status != RechargeStatus::Pending {
        let decided = row.decided_at.map(|at| format!(" at {at}")).unwrap_or_default();
        return Err(Error::conflict(format!("this request was {}{decided}", row.status.name())));
    }
    let own = tx.org(org);
    row.status = if approve { RechargeStatus::Approved } else { RechargeStatus::Denied };
    row.decided_at = Some(tx.now());
    row.answer = answer;
    own.put(&RECHARGES, &id, &row)?;
    if approve {
        let account = ledger::account(&own)?;
        let plan = super::plan_of(plans, &account)?;
        ledger::recharge(&own, plan, row.credits, Some(format!("recharge request {id}")))?;
    }
    Ok((org, row))
}
