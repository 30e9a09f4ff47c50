//! Structured queries: a table, measures, dimensions, filters and an order, compiled to SQL (data/docs/api.md,
//! "The SQL console").
//!
//! One text serves both the console's own dialect and PostgreSQL: only forms are used that mean the same in both, each
//! value is a literal of its column's type, and every name is quoted. A caller's text therefore stands in the
//! statement in two places only: inside `'…'` with every quote doubled, and inside `"…"` likewise.
//!
//! An error names the field that is wrong and, for a column, the nearest one that there is.

mod compile;
mod coverage;
mod literal;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use compile::{Compiled, compile};
pub use coverage::Horizon;

/// A query without SQL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Structured {
    /// One of the console's tables.
    pub table: String,
    /// What is computed; may be empty when there are dimensions.
    #[serde(default)]
    #[schemars(length(max = compile::MEASURES_MAX))]
    pub measures: Vec<Measure>,
    /// What it is computed for: one row for each combination.
    #[serde(default)]
    #[schemars(length(max = compile::DIMENSIONS_MAX))]
    pub dimensions: Vec<Dimension>,
    /// Which rows count: those that pass all of them.
    #[serde(default)]
    #[schemars(length(max = compile::FILTERS_MAX))]
    pub filters: Vec<Filter>,
    /// The order of the rows; by the dimensions unless given.
    #[serde(default)]
    #[schemars(length(max = compile::MEASURES_MAX + compile::DIMENSIONS_MAX))]
    pub order_by: Vec<OrderBy>,
    /// Most rows of the result.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// One computed column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    #[serde(rename = "fn")]
    pub function: MeasureFn,
    /// Needed by every function but `count`, which counts rows without it.
    #[serde(default)]
    pub column: Option<String>,
    /// The result's name; the function and the column's name unless given.
    #[serde(default, rename = "as")]
    pub alias: Option<String>,
}

/// What is computed of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasureFn {
    Count,
    CountDistinct,
    Sum,
    Avg,
    Min,
    Max,
    Median,
    P90,
    P95,
}

/// A column by which rows are grouped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dimension {
    pub column: String,
    /// Groups times by the span they lie in; for columns of the type timestamp.
    #[serde(default)]
    pub bucket: Option<Bucket>,
    /// The result's name; the column's and the bucket's unless given.
    #[serde(default, rename = "as")]
    pub alias: Option<String>,
}

/// A span of time, in UTC; a week begins on Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// A condition on one column. A row whose value is NULL passes none but `is_null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Filter {
    pub column: String,
    pub op: FilterOp,
    /// A value of the column's type; a list of them for `in` and `not_in`, of two for `between`, none for `is_null` and
    /// `not_null`. Times as RFC 3339, integers beyond 2^53 as text.
    #[serde(default)]
    pub value: Option<Value>,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FilterOp {
    Eq,
    Ne,
    Lt,
    Lte,
    Gt,
    Gte,
    In,
    NotIn,
    Contains,
    StartsWith,
    Between,
    IsNull,
    NotNull,
}

/// One column of the order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderBy {
    /// The name of a measure or dimension in the result.
    #[serde(rename = "ref")]
    pub reference: String,
    /// `asc` unless given. NULLs come last either way.
    #[serde(default)]
    pub dir: Option<Direction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Asc,
    Desc,
}
