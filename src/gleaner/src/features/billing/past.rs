//! What a person has used of a period follows them when their organization goes.
//!
//! The plan's credits are a period's, and an organization that is erased takes its ledger with it: whoever founded another
//! one the next minute would have all of them again. So a person who founds an organization leaves a mark for as long as
//! that period lasts: a keyed hash of their address (the key is in the box's key file and not in its data), when the
//! period ends, and, when the organization is erased, how much of it was used. Nothing in it tells who it was to anybody
//! without both the key and the address. It goes with the period at the latest.

use super::ledger;
use super::plans::Plan;
use super::rows::ACCOUNTS;
use base::Result;
use base::clock::Moment;
use base::codec::Record;
use base::ids::OrgId;
use serde::{Deserialize, Serialize};
use store::{Index, SysRead, SysTable, SysWrite, System, readable};

/// A keyed hash of a person's address.
pub type PersonMark = [u8; 32];

/// What a person has used of a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastUseV1 {
    /// In organizations that are gone.
    pub used: u64,
    /// Organizations that they founded in the period and that are there.
    pub orgs: Vec<OrgId>,
    pub ends_at: Moment,
}

impl Record for PastUseV1 {}

static PAST_USES_BY_ORG: Index<OrgId, PastUseV1> = Index::new("past_uses.by_org", |row, keys| {
    for org in &row.orgs {
        keys.add(*org);
    }
});
static PAST_USES_BY_END: Index<Moment, PastUseV1> =
    Index::new("past_uses.by_end", |row, keys| keys.add(row.ends_at));
pub static PAST_USES: SysTable<PersonMark, PastUseV1> =
    SysTable::new("past_uses", "Past use").indexed(&[&PAST_USES_BY_ORG, &PAST_USES_BY_END]);

/// Credits that an organization has used of its period, or may still use by what runs.
fn used_by(tx: &SysRead<'_>, org: OrgId) -> Result<u64> {
    let account = tx.org(org).get(&ACCOUNTS, &())?;
    Ok(account.map_or(0, |account| account.used.saturating_add(account.held)))
}

/// Opens the account of an organization that a person founds. What they have used of a period that goes on is not granted
/// again, and their next period begins when it would have begun.
pub fn open_account_of(tx: &SysWrite<'_>, org: OrgId, plan: &Plan, person: &PersonMark) -> Result<()> {
    let past = tx.get(&PAST_USES, person)?.filter(|past| tx.moment() < past.ends_at);
    let mut used = 0;
    if let Some(past) = &past {
        used = past.used;
        for other in &past.orgs {
            used = used.saturating_add(used_by(tx, *other)?);
        }
    }
    let account = ledger::open_within(&tx.org(org), plan, past.as_ref().map(|past| (used, past.ends_at)))?;
    let mut past = past.unwrap_or(PastUseV1 { used: 0, orgs: Vec::new(), ends_at: account.period_ends_at });
    past.orgs.push(org);
    tx.put(&PAST_USES, person, &past)
}

/// Keeps what was used in an organization that goes, with the person who founded it; before it stands behind a fence.
pub fn leave_account(tx: &SysWrite<'_>, org: OrgId) -> Result<()> {
    for (person, mut past) in marks_of(tx, org)? {
        past.used = past.used.saturating_add(used_by(tx, org)?);
        past.orgs.retain(|other| *other != org);
        tx.put(&PAST_USES, &person, &past)?;
    }
    Ok(())
}

fn marks_of(tx: &SysRead<'_>, org: OrgId) -> Result<Vec<(PersonMark, PastUseV1)>> {
    let found = tx.lookup_keys(&PAST_USES, &PAST_USES_BY_ORG, org, 16)?;
    let mark = |person| {
        let mark = readable("what a person used before", org, tx.require(&PAST_USES, &person))?;
        Ok(mark.map(|mark| (person, mark)))
    };
    Ok(found.into_iter().map(mark).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Removes the marks of periods that have ended.
pub(super) async fn sweep(system: &System) -> Result<()> {
    let now = system.clock().moment();
    system.sweep(&PAST_USES, &PAST_USES_BY_END, |mark| mark.ends_at, now, || false).await.map(drop)
}
