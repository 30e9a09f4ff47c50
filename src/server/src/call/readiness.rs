//! What must hold before the box calls itself ready.

use base::Result;

type ReadinessCheck = Box<dyn Fn() -> Result<(), ReadinessIssue> + Send + Sync>;

/// Why a check of readiness does not hold, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadinessIssue {
    /// It comes by itself: the box is still starting.
    Starting(String),
    /// It works, and not as well as it will: the box is ready all the same.
    Partly(String),
    /// Something is wrong.
    Failing(String),
}

/// What must hold before the box calls itself ready: named checks that app plugs in.
#[derive(Default)]
pub struct Readiness {
    checks: Vec<(&'static str, ReadinessCheck)>,
}

impl Readiness {
    /// Adds a check; its error says in words what is missing.
    #[must_use]
    pub fn with(
        self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Readiness {
        self.with_start(name, move || check().map_err(ReadinessIssue::Failing))
    }

    /// The same for a check that can tell a start from a failure.
    #[must_use]
    pub fn with_start(
        mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), ReadinessIssue> + Send + Sync + 'static,
    ) -> Readiness {
        self.checks.push((name, Box::new(check)));
        self
    }

    pub(crate) fn results(&self) -> impl Iterator<Item = (&'static str, Result<(), ReadinessIssue>)> {
        self.checks.iter().map(|(name, check)| (*name, check()))
    }
}
