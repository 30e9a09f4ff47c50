//! Conditions: which events an output lets through, by the values of a result.
//!
//! ```text
//! price < 100 and changed(price)
//! availability == "in_stock" and was("out_of_stock")
//! drop(price) > 10% or (brand in ["Acme", "Umbrella"] and not contains(title, "refurbished"))
//! ```
//!
//! A condition is read once, when it is saved, and everything that can be known then is refused then, with the place of the
//! fault: syntax, unknown functions, operands that can never be compared. Names are attributes of the result, whose values
//! come with the event; what sort of value an attribute has is known only there.
//!
//! **Three answers.** A value that is missing, or of a sort that the operator does not take, makes the comparison
//! [`Answer::Unknown`]. `and`, `or` and `not` follow Kleene's logic: `false and unknown` is false, `true or unknown` is true,
//! `not unknown` is unknown. What is unknown in the end lets nothing through. Only `missing(x)`, `has(x)` and `changed(x)`
//! always have an answer.
//!
//! **Bounds.** The text has at most [`TEXT_CHARS_MAX`] characters, its parentheses and operators a depth of at most
//! [`DEPTH_MAX`], a pattern a bounded automaton, and an evaluation a bounded number of steps ([`FUEL`]); one that needs more is
//! unknown. Patterns are of the `regex` crate, whose time is linear in the text.

mod check;
mod eval;
mod lex;
mod parse;
#[cfg(test)]
mod tests;
mod units;

use regex::Regex;
use serde_json::{Map, Value};
use std::fmt;
use units::Dimension;

/// Characters of a condition.
pub const TEXT_CHARS_MAX: usize = 2_000;
/// How deep parentheses, lists, calls and negations may nest.
pub const DEPTH_MAX: usize = 32;
/// Elements of a list that is written out.
pub const LIST_MAX: usize = 100;
/// Patterns of a condition.
pub const PATTERNS_MAX: usize = 8;
/// Bytes that a pattern may take when it is compiled.
pub const PATTERN_BYTES_MAX: usize = 256 << 10;
/// Steps of an evaluation: one for each operation, and one for every 64 bytes of text or element of a list that it reads.
pub const FUEL: u64 = 100_000;

/// Why a condition is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The character at which it is wrong, 1 for the first; one past the last where something is missing at the end.
    pub position: usize,
    pub message: String,
}

impl Fault {
    fn new(position: usize, message: impl Into<String>) -> Fault {
        Fault { position, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.position, self.message)
    }
}

impl std::error::Error for Fault {}

/// What a condition says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// A value that it needs is missing, or of another sort.
    Unknown,
}

impl Answer {
    fn of(held: bool) -> Answer {
        if held { Answer::Yes } else { Answer::No }
    }
}

/// A value that is another one than it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub name: String,
    /// What it was; none where that is not known.
    pub from: Option<Value>,
    pub to: Option<Value>,
}

/// What a condition is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The values of the result, by attribute.
    pub values: &'a Map<String, Value>,
    /// What is said of the event itself: names with a `$`.
    pub event: &'a Map<String, Value>,
    /// What differs from the page's previous result.
    pub changes: &'a [Change],
    /// Whether there is a previous result, in which everything else was as it is now.
    pub has_previous: bool,
}

/// A condition that was checked.
#[derive(Clone, Debug)]
pub struct Condition {
    root: Node,
}

impl Condition {
    /// Reads and checks a condition.
    pub fn parse(text: &str) -> Result<Condition, Fault> {
        if let Some((at, _)) = text.chars().enumerate().nth(TEXT_CHARS_MAX) {
            return Err(Fault::new(at + 1, format!("a condition has at most {TEXT_CHARS_MAX} characters")));
        }
        let root = parse::parse(&lex::tokens(text)?)?;
        check::check(&root)?;
        Ok(Condition { root })
    }

    /// What it says of an event.
    pub fn ask(&self, facts: &Facts<'_>) -> Answer {
        eval::ask(&self.root, facts, FUEL)
    }
}

/// A part of a condition, and where it begins.
#[derive(Clone, Debug)]
struct Node {
    at: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Bool(bool),
    Number(f64),
    /// A share: `10%` is 0.1.
    Percent(f64),
    /// A number with a unit, in its dimension's base unit.
    Quantity(f64, Dimension),
    Text(String),
    List(Vec<Node>),
    /// A value of the result.
    Attribute(String),
    /// Something of the event itself.
    Event(String),
    Not(Box<Node>),
    Negate(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    /// Whether the left is in the list on the right.
    In(Box<Node>, Box<Node>),
    Arithmetic(Operator, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    Matches(Box<Node>, Box<Regex>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    /// Whether the attribute's value is another one than it was; without one, whether any is.
    Changed,
    /// By how much it is less than before.
    Drop,
    /// By how much it is more than before.
    Rise,
    /// By how much it differs, either way.
    Change,
    /// Whether the attribute had this value; without one, whether any that changed had it.
    Was,
    /// The value that it had.
    Before,
    Contains,
    StartsWith,
    EndsWith,
    Missing,
    Has,
    /// Elements of a list, or characters of a text.
    Count,
    Lower,
    Abs,
    Round,
    Min,
    Max,
}
