//! The budget of an evaluation, counted in work and not in time, so that the same page always ends the same way.
//!
//! One unit is a node looked at, or eight bytes of text compared, searched or made. Twenty million units are about 0.3 s on
//! one core of 2024.

use super::EvalError;

/// Most units that one evaluation of one expression may take.
pub const EXPRESSION_FUEL_MAX: u64 = 20_000_000;

/// What a whole page is given by its callers.
pub const PAGE_FUEL_MAX: u64 = 100_000_000;

/// Units of work that may still be done.
#[derive(Debug, Clone)]
pub struct Fuel {
    left: u64,
}

impl Fuel {
    pub fn new(units: u64) -> Fuel {
        Fuel { left: units }
    }

    /// Fuel for one page: [`PAGE_FUEL_MAX`].
    pub fn for_page() -> Fuel {
        Fuel::new(PAGE_FUEL_MAX)
    }

    /// Units not yet taken.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Pays for work outside an expression (coercing a value, matching an anti-pattern).
    pub fn spend(&mut self, units: u64) -> Result<(), EvalError> {
        let left = self.left.checked_sub(units);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(EvalError::BudgetExceeded)
    }

    /// Lends `run` what one expression may take and books what it used.
    pub(crate) fn expression<T>(
        &mut self,
        run: impl FnOnce(&mut u64) -> Result<T, EvalError>,
    ) -> Result<T, EvalError> {
        let lent = self.left.min(EXPRESSION_FUEL_MAX);
        let mut units = lent;
        let result = run(&mut units);
        self.left -= lent - units;
        result
    }
}
