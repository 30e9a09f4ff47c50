//! What the operator of the box does with organizations: plans, credits, and requests for more.
//!
//! An organization is named by its id or by its name; a name that several have is refused with their ids.

use crate::features::auth::{
    Auth, NewAccount, ORGS, OrgEntryV1, ResetLink, USERS, USERS_BY_ORG, UserV1, find_org as find, list_orgs,
};
use crate::features::billing::{self, Plans, RechargeStatus, RechargeV1};
use crate::features::mail::{Letter, NewMail};
use base::audit::Action;
use base::clock::{Moment, Now, Timestamp};
use base::ids::{OrgId, RechargeId, UserId};
use base::name::Name;
use base::permission::Role;
use base::similar::nearest;
use base::{Code, Error, Result};
use serde::Serialize;
use std::sync::Arc;
use store::{Event, Order, SysRead, SysWrite, System};

use super::{MEMBERS_PER_ORG_MAX, NewOrg, OrgSeed, Orgs};

/// Requests that one list shows.
const RECHARGES_LISTED_MAX: usize = 1_000;

/// An organization as the operator reads of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrgSummary {
    pub id: OrgId,
    pub name: String,
    pub created_at: Timestamp,
    pub plan: String,
    pub remaining_credits: u64,
    pub recharged_credits: u64,
    pub period_ends_at: Timestamp,
    pub trial_ends_at: Option<Timestamp>,
    pub members: usize,
}

/// The organizations, oldest first (`gleaner admin org list`).
pub fn summaries(tx: &SysRead<'_>, plans: &Plans) -> Result<Vec<OrgSummary>> {
    list_orgs(tx)?.into_iter().map(|entry| summary(tx, plans, entry)).collect()
}

fn summary(tx: &SysRead<'_>, plans: &Plans, entry: OrgEntryV1) -> Result<OrgSummary> {
    let account = billing::account(&tx.org(entry.id))?;
    // A plan that is gone from the file is what this command is needed for; so it is shown and no error.
    let remaining_credits = plans
        .get(&account.plan)
        .map_or(account.balance, |plan| billing::effective_balance(&account, plan, tx.moment()));
    Ok(OrgSummary {
        id: entry.id,
        name: entry.name,
        created_at: entry.created_at,
        remaining_credits,
        recharged_credits: account.recharged,
        plan: account.plan,
        period_ends_at: tx.date_of(account.period_ends_at),
        trial_ends_at: account.trial_ends_at.map(|ends| tx.date_of(ends)),
        members: tx.count_index(&USERS_BY_ORG, entry.id, MEMBERS_PER_ORG_MAX)?,
    })
}

/// A person whom the operator lets in (`gleaner admin user create`).
#[derive(Debug)]
pub struct NewPerson {
    pub email: String,
    pub name: Option<String>,
    /// The organization to make them a member of, by its id or name; one that does not exist is founded.
    pub org: Option<String>,
    pub role: Option<Role>,
}

/// What came of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonMade {
    pub id: UserId,
    pub name: String,
    pub org_id: Option<OrgId>,
    pub org_name: Option<String>,
    /// Whether the organization was founded with them.
    pub org_founded: bool,
    pub role: Option<Role>,
    /// The address and the link with which the person chooses a password.
    #[serde(flatten)]
    pub link: ResetLink,
}

/// Makes an account, and a member of an organization, whatever `auth.registration` says, in one operation. The way into a
/// new box that nobody may register at.
pub async fn create_user(auth: &Auth, orgs: &Orgs, new: NewPerson) -> Result<PersonMade> {
    if new.org.is_none() && new.role.is_some() {
        return Err(Error::invalid("--role", "is a role in an organization; name it with --org"));
    }
    let newcomer = NewAccount::prepare(auth, &new.email, new.name.as_deref()).await?;
    let seeds = Arc::clone(&orgs.seeds);
    auth.system()
        .write(move |tx| {
            let (user, link) = newcomer.create(tx)?;
            let entry = match &new.org {
                None => None,
                Some(org) => Some(enroll(tx, &user, org, new.role, &seeds)?),
            };
            let org_founded = entry.as_ref().is_some_and(|(_, founded)| *founded);
            let role = tx.require(&USERS, &user.id)?.membership.map(|(_, role)| role);
            let (org_id, org_name) = entry.map(|(entry, _)| (entry.id, entry.name)).unzip();
            Ok(PersonMade { id: user.id, name: user.name, org_id, org_name, org_founded, role, link })
        })
        .await
}

/// Makes the person a member of an organization, or the owner of one that is founded. A name that is like that of one that
/// exists founds nothing unless the role says so.
fn enroll(
    tx: &SysWrite<'_>,
    user: &UserV1,
    org: &str,
    role: Option<Role>,
    seeds: &[OrgSeed],
) -> Result<(OrgEntryV1, bool)> {
    let missing = match find(tx, org) {
        Ok(entry) => {
            let role = role.unwrap_or(Role::Viewer);
            if tx.count_index(&USERS_BY_ORG, entry.id, MEMBERS_PER_ORG_MAX)? >= MEMBERS_PER_ORG_MAX {
                let reason = format!("An organization has at most {MEMBERS_PER_ORG_MAX} members.");
                return Err(Error::conflict(reason));
            }
            let member = UserV1 { membership: Some((entry.id, role)), ..user.clone() };
            tx.put(&USERS, &user.id, &member)?;
            let event = Event::new(Action::MemberJoined).of(user.id).with("role", role.name());
            tx.org(entry.id).audit(event.with("by", "operator"))?;
            return Ok((entry, false));
        }
        Err(error) if error.code() == Code::NotFound => error,
        Err(error) => return Err(error),
    };
    let is_like_another =
        !nearest(org.trim(), list_orgs(tx)?.into_iter().map(|entry| entry.name), 1).is_empty();
    let founds = match role {
        Some(role) => role == Role::Owner,
        None => !is_like_another,
    };
    if !founds {
        let about = missing.detail().unwrap_or_default();
        return Err(Error::not_found("Organization")
            .message(format!("{about} (to found a new organization of this name, say --role owner)")));
    }
    let name = Name::parse("--org", org)?.into_string();
    let new = NewOrg { id: OrgId::new(), name, owner: user.id, created_at: tx.now() };
    super::found(tx, &new, seeds)?;
    Ok((OrgEntryV1 { id: new.id, name: new.name, created_at: new.created_at }, true))
}

/// What a change of plan did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanChanged {
    pub org_id: OrgId,
    pub name: String,
    pub from: String,
    pub to: String,
    /// Credits of the old plan's period that are gone.
    pub lapsed_credits: u64,
    pub remaining_credits: u64,
    pub period_ends_at: Timestamp,
    pub trial_ends_at: Option<Timestamp>,
}

/// Puts an organization on another plan, from now on (`gleaner admin org plan`).
pub async fn set_plan(system: &System, plans: Arc<Plans>, org: String, plan: String) -> Result<PlanChanged> {
    system
        .write(move |tx| {
            let entry = find(tx, &org)?;
            let wanted = plans.get(plan.trim()).ok_or_else(|| {
                let ids: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
                Error::invalid("plan", format!("there is no plan \"{plan}\"; there are {}", ids.join(", ")))
            })?;
            let own = tx.org(entry.id);
            let from = billing::account(&own)?.plan;
            if from == wanted.id {
                return Err(Error::conflict(format!("{} is on the plan {from} already", entry.name)));
            }
            let lapsed_credits = billing::change_plan(&own, wanted)?;
            let account = billing::account(&own)?;
            let event = Event::new(Action::OrgPlanChanged).of(entry.id).with("from", from.clone());
            own.audit(event.with("to", account.plan.clone()).with("lapsedCredits", lapsed_credits))?;
            Ok(PlanChanged {
                org_id: entry.id,
                name: entry.name,
                from,
                to: account.plan,
                lapsed_credits,
                remaining_credits: account.balance,
                period_ends_at: tx.date_of(account.period_ends_at),
                trial_ends_at: account.trial_ends_at.map(|ends| tx.date_of(ends)),
            })
        })
        .await
}

/// What a grant did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreditsGranted {
    pub org_id: OrgId,
    pub name: String,
    pub credits: u64,
    pub remaining_credits: u64,
    /// What the operator should know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Adds credits that do not lapse (`gleaner admin credits grant`).
pub async fn grant_credits(
    system: &System,
    plans: Arc<Plans>,
    org: String,
    amount: i64,
    note: Option<String>,
) -> Result<CreditsGranted> {
    let credits = billing::recharge_credits("amount", u64::try_from(amount).unwrap_or(0))?;
    let note = billing::recharge_note("note", note.as_deref())?;
    system
        .write(move |tx| {
            let entry = find(tx, &org)?;
            let own = tx.org(entry.id);
            let account = billing::account(&own)?;
            let account = billing::recharge(&own, billing::plan_of(&plans, &account)?, credits, note)?;
            own.audit(Event::new(Action::CreditsGranted).of(entry.id).with("credits", credits))?;
            Ok(CreditsGranted {
                org_id: entry.id,
                name: entry.name,
                credits,
                remaining_credits: account.balance,
                warning: trial_warning(account.trial_ends_at, tx.clock()),
            })
        })
        .await
}

fn trial_warning(trial_ends_at: Option<Moment>, now: &Now) -> Option<String> {
    let ended = now.date_of(trial_ends_at.filter(|ends| now.moment >= *ends)?);
    Some(format!("the trial has ended at {ended}, so nothing can be spent: see gleaner admin org plan"))
}

/// A request for more credits as the operator reads of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RechargeEntry {
    pub id: RechargeId,
    pub org_id: OrgId,
    pub org_name: String,
    pub credits: u64,
    pub note: Option<String>,
    pub status: RechargeStatus,
    /// The address of who asks; none when they have no account any more.
    pub requested_by: Option<String>,
    pub created_at: Timestamp,
    pub answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl RechargeEntry {
    fn new(tx: &SysRead<'_>, org: OrgId, row: RechargeV1) -> Result<RechargeEntry> {
        Ok(RechargeEntry {
            id: row.id,
            org_id: org,
            org_name: org_name(tx, org)?,
            credits: row.credits,
            note: row.note,
            status: row.status,
            requested_by: tx.get(&USERS, &row.requested_by)?.map(|user| user.email),
            created_at: row.created_at,
            answer: row.answer,
            warning: None,
        })
    }
}

fn org_name(tx: &SysRead<'_>, org: OrgId) -> Result<String> {
    Ok(tx.get(&ORGS, &org)?.map(|entry| entry.name).unwrap_or_default())
}

/// The requests that wait, oldest first (`gleaner admin recharge list`).
pub fn recharges(tx: &SysRead<'_>) -> Result<Vec<RechargeEntry>> {
    let waiting = billing::pending_recharges(tx, RECHARGES_LISTED_MAX)?;
    waiting.into_iter().map(|(org, row)| RechargeEntry::new(tx, org, row)).collect()
}

/// Decides a request, and tells the organization's owners (`gleaner admin recharge approve`, `… deny`). `public_url` is
/// the box's address without a slash at the end.
pub async fn decide_recharge(
    system: &System,
    plans: Arc<Plans>,
    public_url: String,
    id: RechargeId,
    approve: bool,
    answer: Option<String>,
) -> Result<RechargeEntry> {
    let answer = billing::recharge_note("note", answer.as_deref())?;
    system
        .write(move |tx| {
            let (org, row) = billing::decide_recharge(tx, &plans, id, approve, answer)?;
            let action = if approve { Action::RechargeApproved } else { Action::RechargeDenied };
            tx.org(org).audit(Event::new(action).of(id).with("credits", row.credits))?;
            tell_owners(tx, org, &row, &public_url)?;
            let account = billing::account(&tx.org(org))?;
            let warning = if approve { trial_warning(account.trial_ends_at, tx.clock()) } else { None };
            Ok(RechargeEntry { warning, ..RechargeEntry::new(tx, org, row)? })
        })
        .await
}

fn tell_owners(tx: &SysWrite<'_>, org: OrgId, row: &RechargeV1, url: &str) -> Result<()> {
    let name = org_name(tx, org)?;
    let members = tx.scan_index(&USERS, &USERS_BY_ORG, org, Order::Ascending, MEMBERS_PER_ORG_MAX)?;
    let owners = members.iter().filter(|user| matches!(user.membership, Some((_, Role::Owner))));
    for owner in owners {
        let about: UserId = owner.id;
        let letter = Letter::RechargeDecided {
            name: &owner.name,
            org: &name,
            credits: row.credits,
            decision: row.status.name(),
            answer: row.answer.as_deref(),
            url,
        };
        NewMail {
            about: about.into(),
            org: Some(org),
            to: &owner.email,
            letter,
            token: None,
            good_until: None,
        }
        .send(tx)?;
    }
    Ok(())
}
