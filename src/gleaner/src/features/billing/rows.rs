//! The ledger as it is stored.

use base::clock::{Moment, Timestamp};
use base::codec::{CodecError, Record, decode_body};
use base::ids::{JobId, RechargeId, TransactionId, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

/// Where an organization stood before recharged credits were told apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccountV1 {
    /// A plan of `data/plans.toml`.
    pub plan: String,
    /// Credits that can still be reserved.
    pub balance: u64,
    pub period_starts_at: Moment,
    pub period_ends_at: Moment,
    /// When the trial ends, or ended; none on a plan without one.
    pub trial_ends_at: Option<Moment>,
    /// Credits charged in this period.
    pub used: u64,
}

impl Record for AccountV1 {}

/// Where an organization stands. One row each; the sum of its transactions is always its balance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccountV2 {
    /// A plan of `data/plans.toml`.
    pub plan: String,
    /// Credits that can still be reserved.
    pub balance: u64,
    /// Of the balance, credits that were recharged: they are spent last and do not lapse.
    pub recharged: u64,
    /// Credits that are reserved and not settled.
    pub held: u64,
    /// Of those, credits that were recharged.
    pub held_recharged: u64,
    pub period_starts_at: Moment,
    pub period_ends_at: Moment,
    /// When the trial ends, or ended; none on a plan without one.
    pub trial_ends_at: Option<Moment>,
    /// Credits charged in this period.
    pub used: u64,
}

impl Record for AccountV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<AccountV1>(body).map(AccountV2::from),
            _ => Err(CodecError(format!("row version {version} is unknown to this release"))),
        }
    }
}

impl From<AccountV1> for AccountV2 {
    /// What was reserved then was not counted; settling it takes no more than there is.
    fn from(old: AccountV1) -> AccountV2 {
        AccountV2 {
            plan: old.plan,
            balance: old.balance,
            recharged: 0,
            held: 0,
            held_recharged: 0,
            period_starts_at: old.period_starts_at,
            period_ends_at: old.period_ends_at,
            trial_ends_at: old.trial_ends_at,
            used: old.used,
        }
    }
}

base::words! {
    /// Why the balance changed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum TransactionKind {
        /// The plan's credits of a period.
        Grant "grant",
        /// The most that a submitted job could charge.
        Reserve "reserve",
        /// What a delivered job did not use of its reserve.
        Settle "settle",
        /// The whole reserve of a job that charged nothing.
        Refund "refund",
        /// Credits an operator added.
        Recharge "recharge",
        /// Credits that lapsed with their period, and an operator's corrections.
        Adjust "adjust",
    }
}

/// One change of the balance. Never edited, never removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransactionV1 {
    pub id: TransactionId,
    pub at: Timestamp,
    pub kind: TransactionKind,
    /// Positive into the balance, negative out of it.
    pub amount: i64,
    pub balance_after: u64,
    pub job_id: Option<JobId>,
    pub note: Option<String>,
}

impl Record for TransactionV1 {}

pub static ACCOUNTS: OrgTable<(), AccountV2> = OrgTable::new("accounts", "Plan").uncounted();

pub static TRANSACTIONS: OrgTable<TransactionId, TransactionV1> =
    OrgTable::new("transactions", "Transaction").uncounted().fed();

base::words! {
    /// Where a request for credits stands.
    // Stored by position: add at the end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum RechargeStatus {
        /// The operator has not decided.
        Pending "pending",
        Approved "approved",
        Denied "denied",
    }
}

/// A request for more credits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RechargeV1 {
    pub id: RechargeId,
    pub credits: u64,
    /// From the person who asks.
    pub note: Option<String>,
    pub requested_by: UserId,
    pub created_at: Timestamp,
    pub status: RechargeStatus,
    pub decided_at: Option<Timestamp>,
    /// From the operator.
    pub answer: Option<String>,
}

impl Record for RechargeV1 {}

/// The operator names a request by its id alone.
pub static RECHARGES_BY_ID: Index<RechargeId, RechargeV1> =
    Index::global_unique("recharges.by_id", |row, keys| keys.add(row.id));
/// What waits for the operator, oldest first.
pub static RECHARGES_PENDING: Index<Timestamp, RechargeV1> =
    Index::global("recharges.pending", |row, keys| {
        if row.status == RechargeStatus::Pending {
            keys.add(row.created_at);
        }
    });
/// What an organization waits for.
pub static RECHARGES_BY_STATUS: Index<(u8, Timestamp), RechargeV1> =
    Index::new("recharges.by_status", |row, keys| keys.add((row.status as u8, row.created_at)));
pub static RECHARGES: OrgTable<RechargeId, RechargeV1> = OrgTable::new("recharges", "Recharge request")
    .indexed(&[&RECHARGES_BY_ID, &RECHARGES_PENDING, &RECHARGES_BY_STATUS]);

/// The period in which it was said that credits are low.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToldLowV1 {
    pub period: Moment,
}

impl Record for ToldLowV1 {}

pub static TOLD_LOW: OrgTable<(), ToldLowV1> = OrgTable::new("accounts_told_low", "Account").uncounted();
