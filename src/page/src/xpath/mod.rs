//! XPath 1.0 over the document arena: compile once, evaluate many times, never more than a budget.
//!
//! [`XPath::compile`] goes `lexer` → `parse` (`ast`) → `compile` (`plan`); [`XPath::evaluate`] runs the plan (`eval`). The
//! rules are those of the W3C recommendation of 16 November 1999; where it leaves room, lxml (libxml2) decides, because that
//! is where our users' expressions come from. Beside the recommendation stand what parsel adds for Scrapy (`re:test`,
//! `re:match`, `re:replace`, `has-class`, the `set:` functions) and a tolerated `///`.
//!
//! What holds:
//! - A step works on a whole node-set, in document order and without duplicates, so time is polynomial in the page. A
//!   predicate inside a predicate is remembered by node, so that nesting does not multiply.
//! - No recursion depends on the document, and recursion over the expression ends at [`NESTING_MAX`].
//! - Work is paid from [`Fuel`]; an expression that runs dry is an error, never a wrong answer.
//! - A compiled expression is immutable and shared between threads; it knows no document.
//!
//! Where we differ from lxml on the same tree, on purpose:
//! - libxml2 reads `1e3` as a number and prints large or small numbers with an exponent and at most 15 digits; we follow the
//!   recommendation.
//! - libxml2 finds the wrong number or kind of arguments only when it gets there; we refuse such an expression when it is
//!   compiled.
//! - libxml2 lets `self::name` match an attribute; the recommendation does not.
//! - `id()` looks at `id` attributes (the first element in document order that has the id); libxml2 needs a DTD for that.
//! - A child step `tr` looks through a `<tbody>` that only the HTML parser put there, so that `table/tr` (what Scrapy users
//!   write) and `table/tbody/tr` (what browsers copy) both work. [`XPath::compile_strict`] switches that off.
//! - Regular expressions are Rust's `regex` (linear time): no look-around, no back-references.

mod ast;
mod compile;
mod eval;
mod explain;
mod fuel;
mod lexer;
mod parse;
mod pattern;
mod plan;
mod value;

use std::fmt;

use crate::html::{Document, NodeId};
pub use fuel::{EXPRESSION_FUEL_MAX, Fuel, PAGE_FUEL_MAX};
pub use pattern::Pattern;
use plan::Plan;
pub use value::{NodeRef, Value, number_to_text, text_to_number};

/// Longest expression that is compiled, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 16 * 1024;

/// How deep parentheses, predicates and calls may stand within one another.
pub const NESTING_MAX: usize = 200;

/// Regular expressions that one expression may hold: each takes up to half a megabyte compiled.
pub const PATTERNS_MAX: usize = 32;

/// A compiled expression.
#[derive(Debug)]
pub struct XPath {
    source: Box<str>,
    plan: Plan,
}

impl XPath {
    /// Compiles an expression, or says what is wrong with it and where.
    pub fn compile(source: &str) -> Result<XPath, CompileError> {
        XPath::compile_as(source, false)
    }

    /// As [`XPath::compile`], but a `tr` step does not look through an implied `<tbody>`: the recommendation to the letter.
    pub fn compile_strict(source: &str) -> Result<XPath, CompileError> {
        XPath::compile_as(source, true)
    }

    fn compile_as(source: &str, strict: bool) -> Result<XPath, CompileError> {
        let ast = parse::parse(source)?;
        let plan = compile::compile(source, &ast, strict)?;
        Ok(XPath { source: source.into(), plan })
    }

    /// The expression as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// How many compiled regular expressions it holds.
    pub fn pattern_count(&self) -> usize {
        self.plan.pattern_count
    }

    /// Evaluates with `context` as the context node, position and size 1.
    ///
    /// Takes at most [`EXPRESSION_FUEL_MAX`] units from `fuel`, whatever it holds.
    pub fn evaluate(
        &self,
        document: &Document,
        context: NodeId,
        fuel: &mut Fuel,
    ) -> Result<Value, EvalError> {
        fuel.expression(|units| eval::evaluate(&self.plan, document, context, units))
    }

    /// What the expression became, one operation a line.
    pub fn explain(&self) -> String {
        explain::explain(&self.plan)
    }
}

/// Why an expression was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// What is wrong, without the place.
    pub message: String,
    /// Where: the first character is 1.
    pub character: usize,
}

impl CompileError {
    fn new(source: &str, byte: usize, message: impl Into<String>) -> CompileError {
        let character = source[..byte.min(source.len())].chars().count() + 1;
        CompileError { message: message.into(), character }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.message, self.character)
    }
}

impl std::error::Error for CompileError {}

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalError {
    /// The expression, or the page, used up its fuel.
    BudgetExceeded,
    /// A regular expression that was computed from the page is not one.
    Pattern(String),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvalError::BudgetExceeded => write!(
                f,
                "the expression takes more work on this page than is allowed ({} million units, {} million for the page)",
                EXPRESSION_FUEL_MAX / 1_000_000,
                PAGE_FUEL_MAX / 1_000_000
            ),
            EvalError::Pattern(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for EvalError {}

#[cfg(test)]
mod tests;
