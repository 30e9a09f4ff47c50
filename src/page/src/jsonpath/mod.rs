//! JSONPath (RFC 9535) over values of JSON, with a budget.
//!
//! [`JsonPath::compile`] checks a query once, its types included (RFC 9535, section 2.4.3); [`JsonPath::select`] gives the nodes
//! that it names, in the RFC's order, members of objects in the document's. The compliance suite of the JSONPath working
//! group passes (`jsonpath::tests`, which says where it comes from).
//!
//! Why no crate: those that there are evaluate without a bound, and `$..*..*..*` over a page that somebody else wrote is a way
//! to hold a thread. Here each node that is looked at, and each text that is compared, takes [`Fuel`], as in XPath.

mod evaluate;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::xpath::{EvalError, Fuel, Pattern};

/// Bytes of one query.
pub const QUERY_BYTES_MAX: usize = 16 * 1024;

/// Filters, parentheses and functions in each other.
pub const NESTING_MAX: usize = 32;

/// A checked query; immutable, and shared between threads.
#[derive(Debug, Clone)]
pub struct JsonPath {
    segments: Vec<Segment>,
}

/// Why a query was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPathError {
    /// The character at which it is wrong, 1 for the first.
    pub position: usize,
    pub message: String,
}

impl fmt::Display for JsonPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.message, self.position)
    }
}

impl std::error::Error for JsonPathError {}

impl JsonPath {
    /// Reads a query, or says where it is wrong.
    pub fn compile(text: &str) -> Result<JsonPath, JsonPathError> {
        parse::parse(text).map(|segments| JsonPath { segments })
    }

    /// The nodes that the query names in a document.
    pub fn select<'v>(&self, document: &'v Value, fuel: &mut Fuel) -> Result<Vec<&'v Value>, EvalError> {
        evaluate::select(&self.segments, document, fuel)
    }
}

#[derive(Debug, Clone)]
struct Segment {
    /// `..`: of the node and everything in it.
    is_descendant: bool,
    selectors: Vec<Selector>,
}

#[derive(Debug, Clone)]
enum Selector {
    Name(String),
    Wildcard,
    /// From the end where it is negative.
    Index(i64),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    Filter(Condition),
}

/// A query within a filter.
#[derive(Debug, Clone)]
struct Query {
    /// `$`: from the document, else (`@`) from the node that is judged.
    is_absolute: bool,
    segments: Vec<Segment>,
}

impl Query {
    /// Whether it names one node at most (RFC 9535, section 2.3.5.1).
    fn is_singular(&self) -> bool {
        let is_one = |selectors: &[Selector]| matches!(selectors, [Selector::Name(_) | Selector::Index(_)]);
        self.segments.iter().all(|segment| !segment.is_descendant && is_one(&segment.selectors))
    }
}

/// What a filter asks of a node.
#[derive(Debug, Clone)]
enum Condition {
    Or(Vec<Condition>),
    And(Vec<Condition>),
    Not(Box<Condition>),
    /// The query names something.
    Exists(Query),
    Compare(Operand, Comparison, Operand),
    /// `match` (the whole text) and `search` (somewhere in it).
    Matches {
        text: Operand,
        pattern: PatternOperand,
        is_whole: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What has a value, or none.
#[derive(Debug, Clone)]
enum Operand {
    Literal(Value),
    /// A singular query.
    Node(Query),
    Length(Box<Operand>),
    Count(Query),
    /// The value of the only node that the query names.
    Value(Query),
}

/// A regular expression: compiled with the query where it stands there, else computed from the document.
#[derive(Debug, Clone)]
enum PatternOperand {
    /// None where it is no regular expression: it matches nothing (RFC 9535, section 2.4.6).
    Fixed(Option<Pattern>),
    Computed(Box<Operand>),
}

/// An I-Regexp (RFC 9485) as a pattern: a dot is no line end, and the whole text is meant unless it is searched.
fn pattern(source: &str, is_whole: bool) -> Option<Pattern> {
    let mut out = String::with_capacity(source.len() + 16);
    let (mut is_escaped, mut in_class) = (false, false);
    for character in source.chars() {
        match character {
            '.' if !is_escaped && !in_class => out.push_str("[^\\n\\r]"),
            other => out.push(other),
        }
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
    }
    let spelled = if is_whole { format!("\\A(?:{out})\\z") } else { out };
    Pattern::build(&spelled, "", false).ok()
}
