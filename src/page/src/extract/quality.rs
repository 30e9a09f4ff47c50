//! Quality scores (data/docs/api.md, "Extraction").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Share of the composite score that completeness makes up; validation makes up the rest.
const COMPLETENESS_WEIGHT: f64 = 0.6;

/// How good an extraction is; each score is between 0 and 1, rounded to four decimals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quality {
    /// Share of the attributes that have a value.
    pub completeness: f64,
    /// Share of what was found that passes its type and its validation; 0 where nothing was found.
    pub validation: f64,
    /// 0.6 · completeness + 0.4 · validation.
    pub composite: f64,
}

/// Counts while an extraction runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    attributes: usize,
    values: usize,
    refused: usize,
    passing: usize,
}

impl Tally {
    pub(super) fn new(attributes: usize) -> Tally {
        Tally { attributes, values: 0, refused: 0, passing: 0 }
    }

    /// An attribute has a value, which does or does not pass its validation.
    pub(super) fn found(&mut self, passes: bool) {
        self.values += 1;
        self.passing += usize::from(passes);
    }

    /// Something was found for an attribute, but not of its type.
    pub(super) fn refused(&mut self) {
        self.refused += 1;
    }

    pub(super) fn quality(self) -> Quality {
        let share = |part: usize, whole: usize| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let completeness = share(self.values, self.attributes);
        let validation = share(self.passing, self.values + self.refused);
        let composite = COMPLETENESS_WEIGHT * completeness + (1.0 - COMPLETENESS_WEIGHT) * validation;
        Quality {
            completeness: rounded(completeness),
            validation: rounded(validation),
            composite: rounded(composite),
        }
    }
}

fn rounded(score: f64) -> f64 {
    (score * 10_000.0).round() / 10_000.0
}
