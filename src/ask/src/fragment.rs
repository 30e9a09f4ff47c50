//! What a question says of one table, before it is made whole.

use crate::dates::{Unit, Window};
use crate::plan::{Condition, Function, Group, Measure};

/// By what the rows are put in order, and whether the largest come first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranking {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

/// What a question says of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragment {
    pub(crate) measures: Vec<Measure>,
    /// A function whose column was not said.
    pub(crate) bare_function: Option<Function>,
    pub(crate) counted: bool,
    pub(crate) groups: Vec<Group>,
    pub(crate) bucket: Option<Unit>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) time: Option<usize>,
    /// The time of what is said to have happened.
    pub(crate) happened: Option<usize>,
    pub(crate) windows: Vec<(Window, Option<Unit>)>,
    pub(crate) versus: bool,
    pub(crate) limit: Option<u64>,
    /// It was said, and is not only what is usual.
    pub(crate) limit_said: bool,
    pub(crate) top: bool,
    pub(crate) ranking: Option<Ranking>,
    /// Ranked by how many there are.
    pub(crate) most: Option<bool>,
    pub(crate) direction: Option<bool>,
    /// The column of "which".
    pub(crate) which: Option<usize>,
    /// The extreme of what follows: "the highest average".
    pub(crate) extreme: Option<bool>,
    pub(crate) when: bool,
    pub(crate) newest: Option<bool>,
    /// Columns that are spoken of.
    pub(crate) mentioned: Vec<usize>,
    /// Those of them that were named as one: "the brand", and not "brands".
    pub(crate) single: Vec<usize>,
    pub(crate) has_table: bool,
    /// One thing is asked for, and not several.
    pub(crate) singular: bool,
    pub(crate) follows: bool,
    /// The columns that a word could be which was taken for the first of them.
    pub(crate) unsure: Vec<usize>,
    pub(crate) unknown: Vec<String>,
    pub(crate) score: i32,
}

impl Fragment {
    /// Whether it says only which rows: of nothing that is computed, and of no table. Such a question belongs to the one before.
    pub(crate) fn only_narrows(&self) -> bool {
        let says = !self.conditions.is_empty() || !self.windows.is_empty();
        let computes = !self.measures.is_empty() || self.counted || self.bare_function.is_some();
        let groups = !self.groups.is_empty() || self.bucket.is_some() || self.which.is_some();
        let orders = self.ranking.is_some() || self.most.is_some() || self.newest.is_some() || self.when;
        says && !computes && !groups && !orders
    }
}
