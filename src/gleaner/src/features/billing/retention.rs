//! How long things are kept: the box's `[retention]`, shortened by an organization's plan; and what went so far.

use super::plan_of;
use super::plans::Plans;
use super::rows::ACCOUNTS;
use super::terms::Terms;
use base::Result;
use base::clock::Moment;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::{OrgRead, readable};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The moment before which something goes that is kept so many days; none when it is kept for good.
pub fn cutoff(now: Moment, days: u32) -> Option<Moment> {
    (days > 0).then(|| now.before(DAY * days))
}

/// What was removed since the box started.
#[derive(Debug, Default)]
pub struct Removed {
    pub pages: AtomicU64,
    pub page_bytes: AtomicU64,
    pub jobs: AtomicU64,
    pub results: AtomicU64,
    pub workflow_versions: AtomicU64,
}

impl Removed {
    /// Names and numbers, for the status and the metrics.
    pub fn all(&self) -> [(&'static str, u64); 5] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("pages", of(&self.pages)),
            ("pageBytes", of(&self.page_bytes)),
            ("jobs", of(&self.jobs)),
            ("results", of(&self.results)),
            ("workflowVersions", of(&self.workflow_versions)),
        ]
    }
}

/// The terms, and what went by them. Hung up in the services.
pub struct Retention {
    of_box: Terms,
    plans: Arc<Plans>,
    pub removed: Removed,
}

impl Retention {
    pub fn new(of_box: Terms, plans: Arc<Plans>) -> Retention {
        Retention { of_box, plans, removed: Removed::default() }
    }

    /// An organization's terms.
    pub fn of(&self, tx: &OrgRead<'_>) -> Result<Terms> {
        // One that is being erased loses everything anyway.
        let account = readable("the account of an organization", tx.org_id(), tx.get(&ACCOUNTS, &()))?;
        // Where it cannot be read, the box's own terms hold.
        let Some(account) = account else { return Ok(self.of_box) };
        let Some(account) = account else { return Ok(Terms::default()) };
        Ok(self.of_box.within(plan_of(&self.plans, &account)?.retention))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_shortens_and_never_lengthens() {
        let of_box =
            Terms { pages_days: 30, versions_per_url: 0, jobs_days: 10, results_days: 0, pages_mb: 9 };
        let of_plan =
            Terms { pages_days: 7, versions_per_url: 5, jobs_days: 90, results_days: 0, pages_mb: 0 };
        let both = Terms { pages_days: 7, versions_per_url: 5, jobs_days: 10, results_days: 0, pages_mb: 9 };
        assert_eq!(of_box.within(of_plan), both);
        assert_eq!(of_plan.within(of_box), both);
        assert_eq!(cutoff(Moment(0), 0), None);
        assert_eq!(cutoff(Moment(86_400_000), 1), Some(Moment(0)));
    }
}
