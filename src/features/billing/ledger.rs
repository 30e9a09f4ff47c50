//! Credits: reserve the most a job could cost, settle what it did cost, give back the rest.
//!
//! Every function runs inside the write transaction of the job it speaks of, so job and ledger cannot disagree; the
//! writer runs one operation at a time, so a balance that was looked at is the balance that is changed. Invariants:
//! the balance never goes below zero (it is unsigned, and a reserve that does not fit is refused), and it is the sum
//! of the organization's transactions.

use super::plans::Plan;
use super::rows::{ACCOUNTS, AccountV1, TRANSACTIONS, TransactionKind, TransactionV1};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, TransactionId};
use crate::base::{Code, Error, Result};
use crate::store::{OrgRead, OrgWrite};
use std::time::Duration;

/// A month of a plan.
const PERIOD: Duration = Duration::from_secs(30 * 24 * 3600);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Opens the account of a new organization on `plan`, with its first period's credits.
pub fn open_account(tx: &OrgWrite<'_>, plan: &Plan) -> Result<()> {
    let now = tx.now();
    let account = AccountV1 {
        plan: plan.id.clone(),
        balance: 0,
        period_starts_at: now,
        period_ends_at: now.after(PERIOD),
        trial_ends_at: plan.trial_days.map(|days| now.after(DAY * days)),
        used: 0,
    };
    let mut entry = Entry { tx, account };
    entry.change(
        TransactionKind::Grant,
        signed(plan.monthly_credits),
        None,
        Some(format!("plan {}", plan.id)),
    )?;
    entry.close()
}

/// Reserves `credits` for a job. 402 when the trial is over or the balance does not cover it.
pub fn reserve(tx: &OrgWrite<'_>, plan: &Plan, job: JobId, credits: u64) -> Result<()> {
    let mut entry = Entry::open(tx, plan)?;
    check(&entry.account, plan, tx.now(), credits)?;
    if credits > 0 {
        entry.change(TransactionKind::Reserve, -signed(credits), Some(job), None)?;
    }
    entry.close()
}

/// Ends a job's reserve: `charged` of the `reserved` credits stay spent, the rest returns.
pub fn settle(tx: &OrgWrite<'_>, job: JobId, reserved: u64, charged: u64) -> Result<()> {
    let account = account(tx)?;
    let mut entry = Entry { tx, account };
    let charged = charged.min(reserved);
    entry.account.used += charged;
    let kind = if charged == 0 { TransactionKind::Refund } else { TransactionKind::Settle };
    if reserved > 0 {
        entry.change(kind, signed(reserved - charged), Some(job), None)?;
    }
    entry.close()
}

/// The quota gate: trial first, then credits (interface spec, "Limits").
pub fn check(account: &AccountV1, plan: &Plan, now: Timestamp, credits: u64) -> Result<()> {
    let expired = account.trial_ends_at.is_some_and(|ends| now >= ends);
    let left = effective_balance(account, plan, now);
    if expired {
        return Err(quota_error(Code::PaymentRequired, "The trial has ended.", account, left, true));
    }
    if left < credits.max(1) {
        let message = format!("{left} credits are left; this needs {}.", credits.max(1));
        return Err(quota_error(Code::QuotaExceeded, &message, account, left, false));
    }
    Ok(())
}

fn quota_error(code: Code, message: &str, account: &AccountV1, left: u64, expired: bool) -> Error {
    Error::new(code)
        .message(message)
        .field("plan", account.plan.clone())
        .field("remainingCredits", left)
        .field("isTrialExpired", expired)
}

/// What can be reserved now: a period that has ended is as good as renewed.
pub fn effective_balance(account: &AccountV1, plan: &Plan, now: Timestamp) -> u64 {
    if now < account.period_ends_at { account.balance } else { plan.monthly_credits }
}

/// The organization's account; every organization has one from its first moment.
pub fn account(tx: &OrgRead<'_>) -> Result<AccountV1> {
    tx.get(&ACCOUNTS, &())?.ok_or_else(|| Error::internal("read the account", "the organization has none"))
}

fn signed(credits: u64) -> i64 {
    i64::try_from(credits).unwrap_or(i64::MAX)
}

/// An account being changed.
struct Entry<'a, 'v> {
    tx: &'a OrgWrite<'v>,
    account: AccountV1,
}

impl<'a, 'v> Entry<'a, 'v> {
    /// Reads the account and starts the period that now is in: what is left of the old one lapses.
    fn open(tx: &'a OrgWrite<'v>, plan: &Plan) -> Result<Self> {
        let mut entry = Entry { tx, account: account(tx)? };
        let now = tx.now();
        if now >= entry.account.period_ends_at {
            let lapsed = entry.account.balance;
            if lapsed > 0 {
                let note = Some("lapsed with its period".to_owned());
                entry.change(TransactionKind::Adjust, -signed(lapsed), None, note)?;
            }
            entry.account.used = 0;
            while now >= entry.account.period_ends_at {
                entry.account.period_starts_at = entry.account.period_ends_at;
                entry.account.period_ends_at = entry.account.period_starts_at.after(PERIOD);
            }
            let note = Some(format!("plan {}", plan.id));
            entry.change(TransactionKind::Grant, signed(plan.monthly_credits), None, note)?;
        }
        Ok(entry)
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
        self.tx.put(&TRANSACTIONS, &row.id, &row)
    }

    fn close(self) -> Result<()> {
        self.tx.put(&ACCOUNTS, &(), &self.account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::base::ids::OrgId;
    use crate::features::billing::plans::Plans;
    use crate::store::fault::FaultyDisk;
    use crate::store::{MIGRATIONS, Order, OrgStore, Store};

    async fn org_on(plan: &str) -> (OrgStore, Plan, Clock) {
        let (disk, clock) = (FaultyDisk::new(), Clock::system());
        let store = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap();
        let org = store.system().org(OrgId::new());
        let plan = Plans::built_in().unwrap().get(plan).unwrap().clone();
        let given = plan.clone();
        org.write(move |tx| open_account(tx, &given)).await.unwrap();
        (org, plan, clock)
    }

    fn audit(org: &OrgStore) -> (u64, i64) {
        org.read(|tx| {
            let rows = tx.scan(&TRANSACTIONS, None, Order::Ascending, 10_000)?;
            Ok((account(tx)?.balance, rows.iter().map(|(_, row)| row.amount).sum()))
        })
        .unwrap()
    }

    #[tokio::test]
    async fn the_balance_is_the_sum_of_its_transactions() {
        let (org, plan, _) = org_on("trial").await;
        let job = JobId::new();
        let given = plan.clone();
        org.write(move |tx| reserve(tx, &given, job, 75)).await.unwrap();
        assert_eq!(audit(&org), (925, 925));
        org.write(move |tx| settle(tx, job, 75, 10)).await.unwrap();
        assert_eq!(audit(&org), (990, 990));
        let given = plan.clone();
        let refused = org.write(move |tx| reserve(tx, &given, JobId::new(), 991)).await.unwrap_err();
        assert_eq!(refused.code(), Code::QuotaExceeded);
        assert_eq!(refused.status(), 402);
        assert_eq!(audit(&org), (990, 990));
    }

    #[tokio::test]
    async fn a_trial_ends_and_a_period_renews() {
        let (org, plan, clock) = org_on("trial").await;
        clock.advance(DAY * 14);
        let given = plan.clone();
        let refused = org.write(move |tx| reserve(tx, &given, JobId::new(), 1)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PaymentRequired);
        assert!(refused.fields().contains(&("isTrialExpired", true.into())));

        let (org, plan, clock) = org_on("team").await;
        let given = plan.clone();
        org.write(move |tx| reserve(tx, &given, JobId::new(), 100_000)).await.unwrap();
        let given = plan.clone();
        assert!(org.write(move |tx| reserve(tx, &given, JobId::new(), 1)).await.is_err());
        clock.advance(PERIOD * 2);
        org.write(move |tx| reserve(tx, &plan, JobId::new(), 1)).await.unwrap();
        assert_eq!(audit(&org), (99_999, 99_999));
        let ends = org.read(|tx| Ok(account(tx)?.period_ends_at)).unwrap();
        assert!(ends > org.clock().now());
    }
}
