//! Evaluation: from the nodes that one segment names to those that the next one does.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{Comparison, Condition, Operand, PatternOperand, Query, Segment, Selector, pattern};
use crate::xpath::{EvalError, Fuel};

/// Nodes that one segment may name: what is held of them stays some megabytes.
const NODES_MAX: usize = 1_000_000;
/// Fuel for compiling a regular expression that stands in the document.
const COMPILED_PATTERN_COST: u64 = 20_000;

pub(super) fn select<'v>(
    segments: &[Segment],
    document: &'v Value,
    fuel: &mut Fuel,
) -> Result<Vec<&'v Value>, EvalError> {
    fuel.expression(|units| {
        let mut evaluation = Evaluation { document, units };
        evaluation.segments(segments, document)
    })
}

struct Evaluation<'v, 'f> {
    document: &'v Value,
    units: &'f mut u64,
}

/// What an operand has: the value of a node or of a literal, a computed one, or nothing.
enum Found<'v> {
    Known(&'v Value),
    Made(Value),
    Nothing,
}

impl Found<'_> {
    fn value(&self) -> Option<&Value> {
        match self {
            Found::Known(value) => Some(value),
            Found::Made(value) => Some(value),
            Found::Nothing => None,
        }
    }
}

impl<'v> Evaluation<'v, '_> {
    fn spend(&mut self, units: u64) -> Result<(), EvalError> {
        match self.units.checked_sub(units) {
            Some(left) => {
                *self.units = left;
                Ok(())
            }
            None => {
                *self.units = 0;
                Err(EvalError::BudgetExceeded)
            }
        }
    }

    fn segments(&mut self, segments: &[Segment], from: &'v Value) -> Result<Vec<&'v Value>, EvalError> {
        let mut nodes = vec![from];
        for segment in segments {
            let mut found = Vec::new();
            for node in nodes {
                self.segment(segment, node, &mut found)?;
            }
            nodes = found;
        }
        Ok(nodes)
    }

    fn segment(
        &mut self,
        segment: &Segment,
        node: &'v Value,
        found: &mut Vec<&'v Value>,
    ) -> Result<(), EvalError> {
        if !segment.is_descendant {
            return segment.selectors.iter().try_for_each(|selector| self.selector(selector, node, found));
        }
        // Each before what is in it (RFC 9535, section 2.5.2.2); a list of what is left instead of calls in each other.
        let mut left = vec![node];
        while let Some(node) = left.pop() {
            self.spend(1)?;
            segment.selectors.iter().try_for_each(|selector| self.selector(selector, node, found))?;
            match node {
                Value::Array(members) => left.extend(members.iter().rev()),
                Value::Object(members) => left.extend(members.values().rev()),
                _ => {}
            }
            if left.len() > NODES_MAX {
                return Err(EvalError::BudgetExceeded);
            }
        }
        Ok(())
    }

    fn keep(&mut self, node: &'v Value, found: &mut Vec<&'v Value>) -> Result<(), EvalError> {
        self.spend(1)?;
        if found.len() >= NODES_MAX {
            return Err(EvalError::BudgetExceeded);
        }
        found.push(node);
        Ok(())
    }

    fn selector(
        &mut self,
        selector: &Selector,
        node: &'v Value,
        found: &mut Vec<&'v Value>,
    ) -> Result<(), EvalError> {
        self.spend(1)?;
        match (selector, node) {
            (Selector::Name(name), Value::Object(members)) => match members.get(name) {
                Some(member) => self.keep(member, found),
                None => Ok(()),
            },
            (Selector::Index(index), Value::Array(members)) => match at(members, *index) {
                Some(member) => self.keep(member, found),
                None => Ok(()),
            },
            (Selector::Slice { start, end, step }, Value::Array(members)) => {
                let indexes = slice(members.len(), *start, *end, *step);
                indexes.into_iter().flatten().try_for_each(|index| self.keep(&members[index], found))
            }
            (Selector::Wildcard, Value::Array(members)) => {
                members.iter().try_for_each(|member| self.keep(member, found))
            }
            (Selector::Wildcard, Value::Object(members)) => {
                members.values().try_for_each(|member| self.keep(member, found))
            }
            (Selector::Filter(condition), Value::Array(members)) => {
                members.iter().try_for_each(|member| self.judge(condition, member, found))
            }
            (Selector::Filter(condition), Value::Object(members)) => {
                members.values().try_for_each(|member| self.judge(condition, member, found))
            }
            _ => Ok(()),
        }
    }

    fn judge(
        &mut self,
        condition: &Condition,
        member: &'v Value,
        found: &mut Vec<&'v Value>,
    ) -> Result<(), EvalError> {
        if self.holds(condition, member)? { self.keep(member, found) } else { Ok(()) }
    }

    fn holds(&mut self, condition: &Condition, node: &'v Value) -> Result<bool, EvalError> {
        self.spend(1)?;
        match condition {
            Condition::Or(all) => {
                for one in all {
                    if self.holds(one, node)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Condition::And(all) => {
                for one in all {
                    if !self.holds(one, node)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Not(inner) => Ok(!self.holds(inner, node)?),
            Condition::Exists(query) => Ok(!self.query(query, node)?.is_empty()),
            Condition::Compare(left, comparison, right) => {
                let (left, right) = (self.operand(left, node)?, self.operand(right, node)?);
                self.compare(left.value(), *comparison, right.value())
            }
            Condition::Matches { text, pattern, is_whole } => {
                let text = self.operand(text, node)?;
                match text.value() {
                    Some(Value::String(text)) => self.matches(text, pattern, *is_whole, node),
                    _ => Ok(false),
                }
            }
        }
    }

    fn matches(
        &mut self,
        text: &str,
        given: &PatternOperand,
        is_whole: bool,
        node: &'v Value,
    ) -> Result<bool, EvalError> {
        let computed;
        let compiled = match given {
            PatternOperand::Fixed(compiled) => compiled.as_ref(),
            PatternOperand::Computed(operand) => {
                let source = self.operand(operand, node)?;
                let Some(Value::String(source)) = source.value() else { return Ok(false) };
                self.spend(COMPILED_PATTERN_COST)?;
                computed = pattern(source, is_whole);
                computed.as_ref()
            }
        };
        let Some(compiled) = compiled else { return Ok(false) };
        self.spend(compiled.cost(text.len()))?;
        Ok(compiled.regex().is_match(text))
    }

    fn query(&mut self, query: &Query, node: &'v Value) -> Result<Vec<&'v Value>, EvalError> {
        let from = if query.is_absolute { self.document } else { node };
        self.segments(&query.segments, from)
    }

    fn operand<'o>(&mut self, operand: &'o Operand, node: &'v Value) -> Result<Found<'o>, EvalError>
    where
        'v: 'o,
    {
        self.spend(1)?;
        let only = |nodes: Vec<&'v Value>| match nodes[..] {
            [one] => Found::Known(one),
            _ => Found::Nothing,
        };
        Ok(match operand {
            // Not copied: of a long text that is written in the path there would be one for each node.
            Operand::Literal(value) => Found::Known(value),
            Operand::Node(query) | Operand::Value(query) => only(self.query(query, node)?),
            Operand::Count(query) => Found::Made(Value::from(self.query(query, node)?.len())),
            Operand::Length(of) => {
                let of = self.operand(of, node)?;
                let length = match of.value() {
                    Some(Value::String(text)) => {
                        self.spend(text.len() as u64 / 8)?;
                        Some(text.chars().count())
                    }
                    Some(Value::Array(members)) => Some(members.len()),
                    Some(Value::Object(members)) => Some(members.len()),
                    _ => None,
                };
                length.map_or(Found::Nothing, |length| Found::Made(Value::from(length)))
            }
        })
    }

    /// RFC 9535, section 2.3.5.2.2: only numbers and texts have an order; whatever is equal is also not more and not less.
    fn compare(
        &mut self,
        left: Option<&Value>,
        comparison: Comparison,
        right: Option<&Value>,
    ) -> Result<bool, EvalError> {
        let is_less = |order: Option<Ordering>| order == Some(Ordering::Less);
        Ok(match comparison {
            Comparison::Equal => self.equal(left, right)?,
            Comparison::NotEqual => !self.equal(left, right)?,
            Comparison::Less => is_less(self.order(left, right)?),
            Comparison::Greater => is_less(self.order(right, left)?),
            Comparison::LessOrEqual => is_less(self.order(left, right)?) || self.equal(left, right)?,
            Comparison::GreaterOrEqual => is_less(self.order(right, left)?) || self.equal(left, right)?,
        })
    }

    fn order(&mut self, left: Option<&Value>, right: Option<&Value>) -> Result<Option<Ordering>, EvalError> {
        match (left, right) {
            (Some(Value::Number(left)), Some(Value::Number(right))) => Ok(numbers(left, right)),
            (Some(Value::String(left)), Some(Value::String(right))) => {
                self.spend(left.len().min(right.len()) as u64 / 8)?;
                Ok(Some(left.cmp(right)))
            }
            _ => Ok(None),
        }
    }

    fn equal(&mut self, left: Option<&Value>, right: Option<&Value>) -> Result<bool, EvalError> {
        let (Some(left), Some(right)) = (left, right) else { return Ok(left.is_none() && right.is_none()) };
        self.spend(1)?;
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => Ok(numbers(left, right) == Some(Ordering::Equal)),
            (Value::String(left), Value::String(right)) => {
                self.spend(left.len().min(right.len()) as u64 / 8)?;
                Ok(left == right)
            }
            (Value::Array(left), Value::Array(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (left, right) in left.iter().zip(right) {
                    if !self.equal(Some(left), Some(right))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(left), Value::Object(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (name, left) in left {
                    let Some(right) = right.get(name) else { return Ok(false) };
                    if !self.equal(Some(left), Some(right))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (left, right) => Ok(left == right),
        }
    }
}

/// By value: 1 is 1.0.
fn numbers(left: &Number, right: &Number) -> Option<Ordering> {
    let integers = left.as_i128().zip(right.as_i128());
    match integers {
        Some((left, right)) => Some(left.cmp(&right)),
        None => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn at(members: &[Value], index: i64) -> Option<&Value> {
    let length = i64::try_from(members.len()).ok()?;
    let index = if index < 0 { length + index } else { index };
    members.get(usize::try_from(index).ok()?)
}

/// The indexes of a slice in the order of its steps (RFC 9535, section 2.3.4.2.2); a step of 0 names nothing.
fn slice(
    length: usize,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Option<impl Iterator<Item = usize>> {
    let length = i64::try_from(length).ok()?;
    if step == 0 {
        return None;
    }
    let from_end = |index: i64| if index < 0 { length + index } else { index };
    let (lower, upper) = if step > 0 {
        let start = from_end(start.unwrap_or(0)).clamp(0, length);
        (start, from_end(end.unwrap_or(length)).clamp(0, length))
    } else {
        let upper = from_end(start.unwrap_or(length - 1)).clamp(-1, length - 1);
        (end.map_or(-1, |end| from_end(end).clamp(-1, length - 1)), upper)
    };
    let (mut next, is_up) = (if step > 0 { lower } else { upper }, step > 0);
    Some(std::iter::from_fn(move || {
        let is_inside = if is_up { next < upper } else { next > lower };
        let index = usize::try_from(next).ok().filter(|_| is_inside)?;
        next = next.saturating_add(step);
        Some(index)
    }))
}
