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
    pub(crate) windows: Vec<(Window, Option<Unit>)>,
    pub(crate) versus: bool,
    pub(crate) limit: Option<u64>,
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
    pub(crate) has_table: bool,
    /// One thing is asked for, and not several.
    pub(crate) singular: bool,
    pub(crate) follows: bool,
    /// The columns that a word could be which was taken for the first of them.
    pub(crate) unsure: Vec<usize>,
    pub(crate) unknown: Vec<String>,
    pub(crate) score: i32,
}
