//! The ledger as it is stored.

use crate::base::clock::Timestamp;
use crate::base::codec::Record;
use crate::base::ids::{JobId, TransactionId};
use crate::store::OrgTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an organization stands. One row each; the sum of its transactions is always its balance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccountV1 {
    /// A plan of `data/plans.toml`.
    pub plan: String,
    /// Credits that can still be reserved.
    pub balance: u64,
    pub period_starts_at: Timestamp,
    pub period_ends_at: Timestamp,
    /// When the trial ends, or ended; none on a plan without one.
    pub trial_ends_at: Option<Timestamp>,
    /// Credits charged in this period.
    pub used: u64,
}

impl Record for AccountV1 {}

/// Why the balance changed (API page, section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransactionKind {
    /// The plan's credits of a period.
    Grant,
    /// The most that a submitted job could charge.
    Reserve,
    /// What a delivered job did not use of its reserve.
    Settle,
    /// The whole reserve of a job that charged nothing.
    Refund,
    /// Credits an operator added.
    Recharge,
    /// Credits that lapsed with their period, and an operator's corrections.
    Adjust,
}

impl TransactionKind {
    pub fn name(self) -> &'static str {
        match self {
            TransactionKind::Grant => "grant",
            TransactionKind::Reserve => "reserve",
            TransactionKind::Settle => "settle",
            TransactionKind::Refund => "refund",
            TransactionKind::Recharge => "recharge",
            TransactionKind::Adjust => "adjust",
        }
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

pub static ACCOUNTS: OrgTable<(), AccountV1> = OrgTable::new("accounts", "Plan");

pub static TRANSACTIONS: OrgTable<TransactionId, TransactionV1> =
    OrgTable::new("transactions", "Transaction").fed();
