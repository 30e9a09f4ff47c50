//! Credits: reserve the most a job could cost, settle what it did cost, give back the rest.
//!
//! Every function runs inside the write transaction of the job it speaks of, so job and ledger cannot disagree; the
//! writer runs one operation at a time, so a balance that was looked at is the balance that is changed. Invariants:
//! the balance never goes below zero (it is unsigned, and a reserve that does not fit is refused), and it is the sum
//! of the organization's transactions.
//!
//! What lapses and what stays (the terms stand in `data/plans.toml`):
//! - a period's credits lapse with it, recharged ones never do; so they are spent last and come back first;
//! - what was reserved in an earlier period comes back to that period: it is returned, and lapses;
//! - another plan begins a period of its own at once.
//!
//! Periods and trials are moments of the box's own time: setting the machine's clock begins none, ends none, and makes none
//! longer. Whether a reserve is of this period is told by the moment at which its job was made.

use super::plans::{Plan, Plans};
use super::rows::{ACCOUNTS, AccountV2, TOLD_LOW, TRANSACTIONS, ToldLowV1, TransactionKind, TransactionV1};
use crate::features::events::{EventKind, NewEvent};
use base::clock::{Moment, Now};
use base::ids::{JobId, TransactionId};
use base::permission::Permission;
use base::{Code, Error, Result};
use serde_json::json;
use std::time::Duration;
use store::{OrgRead, OrgWrite, readable};

/// A month of a plan.
const PERIOD: Duration = Duration::from_secs(30 * 24 * 3600);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Opens the account of a new organization on `plan`, with its first period's credits.
pub fn open_account(tx: &OrgWrite<'_>, plan: &Plan) -> Result<()> {
    open_within(tx, plan, None).map(drop)
}

/// The same within a period that has begun elsewhere: so many credits of it were used, and it ends then.
pub(super) fn open_within(tx: &OrgWrite<'_>, plan: &Plan, past: Option<(u64, Moment)>) -> Result<AccountV2> {
    let now = tx.moment();
    let account = AccountV2 {
        plan: plan.id.clone(),
        balance: 0,
        recharged: 0,
        held: 0,
        held_recharged: 0,
        period_starts_at: now,
        period_ends_at: now,
        trial_ends_at: None,
        used: 0,
    };
    let mut entry = Entry { tx, account };
    entry.begin_plan(plan)?;
    if let Some((used, ends_at)) = past {
        entry.account.period_ends_at = ends_at.min(entry.account.period_ends_at);
        entry
            .lapse(used.min(entry.account.balance), "used before in this period, in another organization")?;
    }
    let account = entry.account.clone();
    entry.close()?;
    Ok(account)
}

/// Reserves credits for jobs, for all of them or none. 402 when the trial is over or the balance does not cover them
/// together.
pub fn reserve(tx: &OrgWrite<'_>, plan: &Plan, jobs: &[(JobId, u64)]) -> Result<()> {
    let mut entry = Entry::open(tx, plan)?;
    check_trial(&entry.account, plan, tx.clock())?;
    check(&entry.account, plan, tx.clock(), Some(jobs.iter().map(|(_, credits)| credits).sum()))?;
    for &(job, credits) in jobs.iter().filter(|(_, credits)| *credits > 0) {
        let account = &mut entry.account;
        let recharged = credits.saturating_sub(account.balance - account.recharged);
        account.recharged -= recharged;
        account.held += credits;
        account.held_recharged += recharged;
        entry.change(TransactionKind::Reserve, -signed(credits), Some(job), None)?;
    }
    entry.close()
}

/// Ends the reserve of a job that was made at that moment: `charged` of the `reserved` credits stay spent, the rest returns to
/// the period that it was taken from.
pub fn settle(tx: &OrgWrite<'_>, job: JobId, made: Moment, reserved: u64, charged: u64) -> Result<()> {
    let mut entry = Entry { tx, account: account(tx)? };
    let account = &mut entry.account;
    let charged = charged.min(reserved);
    let returned = reserved - charged;
    account.held = account.held.saturating_sub(reserved);
    let recharged = returned.min(account.held_recharged);
    account.held_recharged = (account.held_recharged - recharged).min(account.held);
    account.recharged += recharged;
    // A period that has ended and that nothing has renewed yet is still the one: all of it lapses when it is renewed.
    let is_of_this_period = made >= account.period_starts_at;
    if is_of_this_period {
        account.used += charged;
    }
    let kind = if charged == 0 { TransactionKind::Refund } else { TransactionKind::Settle };
    if reserved > 0 {
        entry.change(kind, signed(returned), Some(job), None)?;
    }
    if !is_of_this_period {
        entry.lapse(returned - recharged, "lapsed with its period")?;
    }
    entry.close()
}

/// Adds credits that do not lapse.
pub fn recharge(tx: &OrgWrite<'_>, plan: &Plan, credits: u64, note: Option<String>) -> Result<AccountV2> {
    let mut entry = Entry::open(tx, plan)?;
    entry.account.recharged += credits;
    entry.change(TransactionKind::Recharge, signed(credits), None, note)?;
    let account = entry.account.clone();
    entry.close()?;
    Ok(account)
}

/// Begins `plan` now: the credits of the present period lapse, recharged ones stay. Gives what lapsed.
pub fn change_plan(tx: &OrgWrite<'_>, plan: &Plan) -> Result<u64> {
    let mut entry = Entry { tx, account: account(tx)? };
    let lapsed = entry.account.balance - entry.account.recharged;
    let note = format!("lapsed with the plan {}", entry.account.plan);
    entry.lapse(lapsed, &note)?;
    entry.begin_plan(plan)?;
    entry.close()?;
    Ok(lapsed)
}

/// Starts the period that now is in, if the last one has ended; whether it had.
pub fn renew(tx: &OrgWrite<'_>, plans: &Plans) -> Result<bool> {
    let before = account(tx)?;
    if tx.moment() < before.period_ends_at {
        return Ok(false);
    }
    Entry::open(tx, super::plan_of(plans, &before)?)?.close()?;
    Ok(true)
}

/// The first half of the quota gate (data/docs/api.md, "Credits"): whether the trial is over.
pub fn check_trial(account: &AccountV2, plan: &Plan, now: &Now) -> Result<()> {
    let Some(ended) = account.trial_ends_at.filter(|ends| now.moment >= *ends) else { return Ok(()) };
    let ended = now.date_of(ended);
    let message = format!("The trial has ended at {ended}. Ask the operator of this box for another plan.");
    let left = effective_balance(account, plan, now.moment);
    Err(quota_error(Code::PaymentRequired, &message, account, left, true))
}

/// The second half: whether there are credits, and `needed` of them where that is known.
pub fn check(account: &AccountV2, plan: &Plan, now: &Now, needed: Option<u64>) -> Result<()> {
    let left = effective_balance(account, plan, now.moment);
    // Nothing is taken from who has nothing, whatever it costs.
    if left >= needed.unwrap_or(0).max(1) {
        return Ok(());
    }
    let renewal = now.date_of(period_at(account, now.moment).1);
    let message = match needed {
        Some(needed) => {
            format!("{left} credits are left; this needs {needed}. The next period begins at {renewal}.")
        }
        None => format!("{left} credits are left. The next period begins at {renewal}."),
    };
    let error = quota_error(Code::QuotaExceeded, &message, account, left, false);
    Err(match needed {
        Some(needed) => error.field("requiredCredits", needed),
        None => error,
    })
}

pub(super) fn quota_error(code: Code, message: &str, account: &AccountV2, left: u64, expired: bool) -> Error {
    Error::new(code)
        .message(message)
        .field("plan", account.plan.clone())
        .field("remainingCredits", left)
        .field("isTrialExpired", expired)
}

/// What can be reserved now: a period that has ended is as good as renewed.
pub fn effective_balance(account: &AccountV2, plan: &Plan, now: Moment) -> u64 {
    if now < account.period_ends_at {
        return account.balance;
    }
    account.recharged.saturating_add(grant(account, plan, period_at(account, now).0))
}

/// What a period that starts at `start` grants: nothing when the trial is over by then.
fn grant(account: &AccountV2, plan: &Plan, start: Moment) -> u64 {
    if account.trial_ends_at.is_some_and(|ends| start >= ends) { 0 } else { plan.monthly_credits }
}

/// Start and end of the period that `now` is in.
pub fn period_at(account: &AccountV2, now: Moment) -> (Moment, Moment) {
    let (mut start, mut end) = (account.period_starts_at, account.period_ends_at);
    while now >= end {
        (start, end) = (end, end.after(PERIOD));
    }
    (start, end)
}

/// The organization's account; every organization has one from its first moment. `org_not_found` when it is being erased:
/// a request that was let in before may find itself behind the fence.
pub fn account(tx: &OrgRead<'_>) -> Result<AccountV2> {
    tx.get(&ACCOUNTS, &())?.ok_or_else(|| match tx.is_behind_fence() {
        true => Error::new(Code::OrgNotFound),
        false => Error::internal("read the account", "the organization has none"),
    })
}

fn signed(credits: u64) -> i64 {
    i64::try_from(credits).unwrap_or(i64::MAX)
}

/// Credits are low when less than this part of all of a period's is left.
const LOW_SHARE: u64 = 10;

pub(super) static LOW: EventKind = EventKind::new(
    "quota.low",
    Permission::BillingRead,
    "Less than a tenth of the period's credits is left (`plan`, `remainingCredits`, `usedThisPeriod`).",
);

/// An account being changed.
struct Entry<'a, 'v> {
    tx: &'a OrgWrite<'v>,
    account: AccountV2,
}

impl<'a, 'v> Entry<'a, 'v> {
    /// Reads the account and starts the period that now is in: what is left of the old one lapses.
    fn open(tx: &'a OrgWrite<'v>, plan: &Plan) -> Result<Self> {
        let mut entry = Entry { tx, account: account(tx)? };
        let now = tx.moment();
        if now >= entry.account.period_ends_at {
            entry.lapse(entry.account.balance - entry.account.recharged, "lapsed with its period")?;
            entry.begin_period(plan, period_at(&entry.account, now))?;
        }
        Ok(entry)
    }

    fn begin_plan(&mut self, plan: &Plan) -> Result<()> {
        let now = self.tx.moment();
        self.account.plan.clone_from(&plan.id);
        self.account.trial_ends_at = plan.trial_days.map(|days| now.after(DAY * days));
        self.begin_period(plan, (now, now.after(PERIOD)))
    }

    fn begin_period(&mut self, plan: &Plan, (start, end): (Moment, Moment)) -> Result<()> {
        self.account.period_starts_at = start;
        self.account.period_ends_at = end;
        self.account.used = 0;
        match grant(&self.account, plan, start) {
            0 => Ok(()),
            credits => {
                let note = Some(format!("plan {}", plan.id));
                self.change(TransactionKind::Grant, signed(credits), None, note)
            }
        }
    }

    fn lapse(&mut self, credits: u64, note: &str) -> Result<()> {
        match credits {
            0 => Ok(()),
            credits => self.change(TransactionKind::Adjust, -signed(credits), None, Some(note.to_owned())),
        }
    }

    fn change(
        &mut self,
        kind: TransactionKind,
        amount: i64,
        job: Option<JobId>,
        note: Option<String>,
    ) -> Result<()> {
        self.account.balance = self
            .account
            .balance
            .checked_add_signed(amount)
            .ok_or_else(|| Error::internal("change the balance", "it would leave its range"))?;
        let row = TransactionV1 {
            id: TransactionId::new(),
            at: self.tx.now(),
            kind,
            amount,
            balance_after: self.account.balance,
            job_id: job,
            note,
        };
        self.tx.put(&TRANSACTIONS, &row.id, &row)?;
        match kind {
            TransactionKind::Reserve => self.tell_low(amount.unsigned_abs()),
            TransactionKind::Recharge => self.tx.delete(&TOLD_LOW, &()).map(drop),
            _ => Ok(()),
        }
    }

    /// Says once a period, and once after each recharge, that a tenth of all its credits is left.
    fn tell_low(&self, taken: u64) -> Result<()> {
        let account = &self.account;
        let all = account.balance.saturating_add(account.held).saturating_add(account.used);
        let is_low = |left: u64| left < all / LOW_SHARE;
        if !is_low(account.balance) || is_low(account.balance.saturating_add(taken)) {
            return Ok(());
        }
        let told = TOLD_LOW.name();
        let told = readable("whether low credits were told", told, self.tx.get(&TOLD_LOW, &()))?.flatten();
        if told.is_some_and(|told| told.period == account.period_starts_at) {
            return Ok(());
        }
        self.tx.put_over(&TOLD_LOW, &(), &ToldLowV1 { period: account.period_starts_at })?;
        let data = json!({ "plan": account.plan, "remainingCredits": account.balance, "usedThisPeriod": account.used });
        NewEvent::of(&LOW, self.tx.org_id()).data(data).write(self.tx)
    }

    fn close(self) -> Result<()> {
        self.tx.put(&ACCOUNTS, &(), &self.account)
    }
}
