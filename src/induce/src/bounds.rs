//! Limits that kept a lesson from seeing everything, for whoever asks why so little was learned.

use page::xpath::Fuel;

use crate::places::{FORM_BYTES_MAX, LOOKS_MAX};

/// Work of one lesson: about four seconds where pages are hostile, and a small part of it where they are not.
pub const LESSON_FUEL_MAX: u64 = 250_000_000;

/// A limit that a lesson has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// The work of one lesson is used up: attributes that come later were not looked for, or with fewer expressions.
    Work,
    /// A page has more texts and attributes than are looked at: what stands behind them was not seen.
    Page,
}

impl Bound {
    /// The limit of work, where this lesson has used it up.
    pub fn of_work(fuel: &Fuel) -> Option<Bound> {
        (fuel.left() == 0).then_some(Bound::Work)
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Work => write!(
                f,
                "The pages ask for more work than one lesson is allowed ({LESSON_FUEL_MAX} units): what came later was left out."
            ),
            Bound::Page => write!(
                f,
                "A page has more than is looked at ({LOOKS_MAX} texts and attributes, {} MiB): what stands behind was not seen.",
                FORM_BYTES_MAX >> 20
            ),
        }
    }
}
