//! How much an organization may store: the caps of its plan, held to at the end of every operation of a request.
//!
//! The store counts rows and bytes (`store/src/usage.rs`) and asks here. What ends or removes something goes through at any
//! fill; what changes rows without adding one may use a sixteenth beyond the cap, so that people can put things in order
//! in a full organization. The box's own work (a job that ends) is not refused in the middle: the jobs of a full
//! organization wait in the queue, and go on when there is room.

use super::ledger::quota_error;
use super::plans::{Plan, PlanLimits, Plans};
use super::rows::ACCOUNTS;
use super::{ledger, plan_of};
use base::{Code, Error, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use store::{OrgRead, PendingGrowth, QuotaCheck};

/// The part of a cap on bytes that is kept for changes of what is there.
const RESERVE_PART: u64 = 16;

/// A table whose rows have a cap of their own: its name, what its rows are called, and the cap's name and value.
struct TableCap {
    table: &'static str,
    noun: &'static str,
    name: &'static str,
    most: fn(&PlanLimits) -> u64,
}

const TABLE_CAPS: &[TableCap] = &[
    TableCap { table: "urls", noun: "registered URLs", name: "urls", most: |limits| limits.urls },
    TableCap {
        table: "workflow_versions",
        noun: "workflow versions",
        name: "workflowVersions",
        most: |limits| limits.workflow_versions,
    },
    TableCap { table: "schedules", noun: "schedules", name: "schedules", most: |limits| limits.schedules },
];

/// What holds every organization to its plan's caps, for the store.
pub fn room(plans: Arc<Plans>) -> Box<QuotaCheck> {
    Box::new(move |tx, adding| {
        // An organization that is being made or erased has no account; nobody stores anything in it.
        let Some(account) = tx.get(&ACCOUNTS, &())? else { return Ok(()) };
        let plan = plan_of(&plans, &account)?;
        match over(&plan.limits, adding) {
            None => Ok(()),
            Some(message) => {
                let left = ledger::effective_balance(&account, plan, tx.moment());
                let expired = account.trial_ends_at.is_some_and(|ends| tx.moment() >= ends);
                Err(quota_error(Code::QuotaExceeded, &message, &account, left, expired))
            }
        }
    })
}

/// Which cap the operation goes beyond, in words.
fn over(limits: &PlanLimits, adding: &PendingGrowth) -> Option<String> {
    let (total, growth) = (adding.total, adding.growth);
    let bytes_max = limits.storage_bytes();
    let reserve = if growth.rows > 0 { 0 } else { bytes_max / RESERVE_PART };
    if growth.bytes > 0 && total.bytes > bytes_max.saturating_add(reserve) {
        return Some(format!(
            "The organization may store {bytes_max} bytes (storageBytes) and would store {}. Delete URLs or results, or ask \
             the operator of this box for another plan.",
            total.bytes
        ));
    }
    if growth.rows > 0 && total.rows > limits.rows {
        return Some(format!(
            "The organization may store {} rows (rows) and would store {}. Delete URLs or results, or ask the operator of \
             this box for another plan.",
            limits.rows, total.rows
        ));
    }
    let grown = |cap: &&TableCap| {
        let of = adding.tables.iter().find(|(table, ..)| *table == cap.table);
        of.is_some_and(|(_, used, growth)| growth.rows > 0 && used.rows > (cap.most)(limits))
    };
    TABLE_CAPS.iter().find(grown).map(|cap| {
        let most = (cap.most)(limits);
        format!(
            "The organization may have {most} {} ({}) and would have more. Delete some, or ask the operator of this box for \
             another plan.",
            cap.noun, cap.name
        )
    })
}

/// The caps of a plan.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LimitsView {
    /// URLs that an ingest webhook takes a day (UTC).
    webhook_urls_per_day: u64,
    /// Bytes of all rows, and of pages as they lie compressed on the disk.
    storage_bytes: u64,
    /// Rows of all kinds: URLs, jobs, results, what belongs to them.
    rows: u64,
    /// Registered URLs.
    urls: u64,
    /// Versions of all workflows.
    workflow_versions: u64,
    /// Schedules, also those that are switched off.
    schedules: u64,
}

impl From<&Plan> for LimitsView {
    fn from(plan: &Plan) -> LimitsView {
        let limits = &plan.limits;
        LimitsView {
            webhook_urls_per_day: limits.webhook_urls_per_day,
            storage_bytes: limits.storage_bytes(),
            rows: limits.rows,
            urls: limits.urls,
            workflow_versions: limits.workflow_versions,
            schedules: limits.schedules,
        }
    }
}

/// What an organization stores, in the units of its plan's limits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredView {
    storage_bytes: u64,
    /// Of those, bytes of pages on the disk.
    page_bytes: u64,
    rows: u64,
    urls: u64,
    workflow_versions: u64,
    schedules: u64,
}

/// What the organization stores now.
pub(super) fn stored(tx: &OrgRead<'_>) -> Result<StoredView> {
    let all = tx.used_in_all()?;
    let rows_of = |table| Ok::<_, Error>(tx.used(table)?.rows);
    Ok(StoredView {
        storage_bytes: all.bytes,
        page_bytes: tx.used("kept_pages")?.bytes,
        rows: all.rows,
        urls: rows_of("urls")?,
        workflow_versions: rows_of("workflow_versions")?,
        schedules: rows_of("schedules")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Growth, Used};

    fn limits() -> PlanLimits {
        PlanLimits {
            webhook_urls_per_day: 1,
            storage_mb: 1,
            rows: 10,
            urls: 3,
            workflow_versions: 2,
            schedules: 2,
        }
    }

    fn adding(total: (u64, u64), growth: (i64, i64)) -> PendingGrowth {
        PendingGrowth {
            total: Used { rows: total.0, bytes: total.1 },
            growth: Growth { rows: growth.0, bytes: growth.1 },
            tables: Vec::new(),
        }
    }

    #[test]
    fn each_cap_is_named_and_none_stops_what_shrinks() {
        let names = |adding: &PendingGrowth| over(&limits(), adding).unwrap_or_default();
        assert_eq!(names(&adding((10, 1_000_000), (1, 10))), "");
        assert!(names(&adding((10, 1_000_001), (1, 10))).contains("1000000 bytes (storageBytes)"));
        assert!(names(&adding((11, 10), (1, 10))).contains("10 rows (rows)"));
        assert_eq!(names(&adding((99, 99_000_000), (-1, -10))), "");
        // A change of what is there may use the reserve, and no more.
        assert_eq!(names(&adding((10, 1_062_500), (0, 10))), "");
        assert!(names(&adding((10, 1_062_501), (0, 10))).contains("storageBytes"));
        let urls = |rows, growth| PendingGrowth {
            tables: vec![("urls", Used { rows, bytes: 0 }, Growth { rows: growth, bytes: 0 })],
            ..adding((4, 4), (growth, 1))
        };
        assert_eq!(names(&urls(3, 1)), "");
        assert!(names(&urls(4, 1)).contains("3 registered URLs (urls)"));
        assert_eq!(names(&urls(4, 0)), "");
    }
}
