//! What a condition says, given the values.

use super::units::{self, Dimension};
use super::{Answer, Comparison, Facts, Function, Kind, Node, Operator};
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Bytes of a text that are looked at for one step.
const BYTES_PER_STEP: usize = 64;

/// A value while it is worked with.
#[derive(Clone, Debug)]
enum Worth<'a> {
    /// There is none, or none that is known.
    Missing,
    Bool(bool),
    Number(f64),
    Percent(f64),
    Quantity(f64, Dimension),
    Text(Cow<'a, str>),
    List(&'a [Value]),
    Written(Vec<Worth<'a>>),
    /// How much something has changed, and as a share of what it was.
    Change(f64, Option<f64>),
    /// An object: nothing is said of it but that it is there.
    Object,
}

/// There is no fuel left.
struct Empty;

pub(super) fn ask(root: &Node, facts: &Facts<'_>, fuel: u64) -> Answer {
    let mut asking = Asking { facts, fuel };
    match asking.truth(root) {
        Ok(Some(held)) => Answer::of(held),
        Ok(None) | Err(Empty) => Answer::Unknown,
    }
}

struct Asking<'f, 'a> {
    facts: &'f Facts<'a>,
    fuel: u64,
}

impl<'f, 'a: 'f> Asking<'f, 'a> {
    fn burn(&mut self, steps: usize) -> Result<(), Empty> {
        self.fuel = self.fuel.checked_sub(steps as u64).ok_or(Empty)?;
        Ok(())
    }

    /// What a part says as a condition; none where it is unknown.
    fn truth(&mut self, node: &'f Node) -> Result<Option<bool>, Empty> {
        self.burn(1)?;
        match &node.kind {
            Kind::Not(inner) => Ok(self.truth(inner)?.map(|held| !held)),
            Kind::All(parts) => self.joined(parts, false),
            Kind::Any(parts) => self.joined(parts, true),
            Kind::Compare(comparison, left, right) => {
                let (left, right) = (self.worth(left)?, self.worth(right)?);
                self.compare(*comparison, &left, &right)
            }
            Kind::In(item, list) => {
                let (item, list) = (self.worth(item)?, self.worth(list)?);
                self.holds(&list, &item)
            }
            Kind::Matches(subject, regex) => match self.worth(subject)? {
                Worth::Text(text) => {
                    // A pattern takes more of a byte than a comparison does.
                    self.burn(1 + text.len() / (BYTES_PER_STEP / 4))?;
                    Ok(Some(regex.is_match(&text)))
                }
                _ => Ok(None),
            },
            Kind::Call(function, arguments) => self.asked(*function, arguments, node),
            _ => Ok(match self.worth(node)? {
                Worth::Bool(held) => Some(held),
                _ => None,
            }),
        }
    }

    /// The first part that decides, else whether all are known.
    fn joined(&mut self, parts: &'f [Node], decides: bool) -> Result<Option<bool>, Empty> {
        let mut answer = Some(!decides);
        for part in parts {
            match self.truth(part)? {
                Some(held) if held == decides => return Ok(Some(decides)),
                Some(_) => {}
                None => answer = None,
            }
        }
        Ok(answer)
    }

    /// Functions that say yes or no.
    fn asked(
        &mut self,
        function: Function,
        arguments: &'f [Node],
        node: &'f Node,
    ) -> Result<Option<bool>, Empty> {
        match (function, arguments) {
            (Function::Changed, []) => Ok(Some(!self.facts.changes.is_empty())),
            (Function::Changed, [name, ..]) => {
                self.burn(self.facts.changes.len())?;
                Ok(Some(self.change_of(name).is_some()))
            }
            (Function::Was, [value]) => {
                let wanted = self.worth(value)?;
                let facts = self.facts;
                let mut answer = Some(false);
                for change in facts.changes {
                    let Some(from) = &change.from else {
                        answer = None;
                        continue;
                    };
                    let from = worth_of(from);
                    // What is of another sort was not this one.
                    if self.compare(Comparison::Equal, &from, &wanted)? == Some(true) {
                        return Ok(Some(true));
                    }
                }
                Ok(answer)
            }
            (Function::Was, [name, value]) => {
                let wanted = self.worth(value)?;
                let before = self.before(name);
                self.compare(Comparison::Equal, &before, &wanted)
            }
            (Function::Missing, [name]) => Ok(Some(self.is_missing(name))),
            (Function::Has, [name]) => Ok(Some(!self.is_missing(name))),
            (Function::Contains, [all, part]) => {
                let (all, part) = (self.worth(all)?, self.worth(part)?);
                match (&all, &part) {
                    (Worth::Text(all), Worth::Text(part)) => {
                        self.burn(1 + (all.len() + part.len()) / BYTES_PER_STEP)?;
                        Ok(Some(all.contains(part.as_ref())))
                    }
                    _ => self.holds(&all, &part),
                }
            }
            (Function::StartsWith | Function::EndsWith, [text, part]) => {
                match (self.worth(text)?, self.worth(part)?) {
                    (Worth::Text(text), Worth::Text(part)) => Ok(Some(match function {
                        Function::StartsWith => text.starts_with(part.as_ref()),
                        _ => text.ends_with(part.as_ref()),
                    })),
                    _ => Ok(None),
                }
            }
            _ => Ok(match self.worth(node)? {
                Worth::Bool(held) => Some(held),
                _ => None,
            }),
        }
    }

    fn named(&self, node: &Node) -> Option<&'a Value> {
        match &node.kind {
            Kind::Attribute(name) => self.facts.values.get(name),
            Kind::Event(name) => self.facts.event.get(name),
            _ => None,
        }
    }

    fn is_missing(&self, node: &Node) -> bool {
        self.named(node).is_none_or(Value::is_null)
    }

    fn change_of(&self, node: &Node) -> Option<&'a super::Change> {
        let Kind::Attribute(name) = &node.kind else { return None };
        self.facts.changes.iter().find(|change| change.name == *name)
    }

    /// What an attribute was.
    fn before(&self, node: &Node) -> Worth<'a> {
        match self.change_of(node) {
            Some(change) => change.from.as_ref().map_or(Worth::Missing, worth_of),
            None if self.facts.has_previous => self.named(node).map_or(Worth::Missing, worth_of),
            None => Worth::Missing,
        }
    }

    fn worth(&mut self, node: &'f Node) -> Result<Worth<'f>, Empty> {
        self.burn(1)?;
        Ok(match &node.kind {
            Kind::Bool(held) => Worth::Bool(*held),
            Kind::Number(number) => Worth::Number(*number),
            Kind::Percent(share) => Worth::Percent(*share),
            Kind::Quantity(amount, dimension) => Worth::Quantity(*amount, *dimension),
            Kind::Text(text) => Worth::Text(Cow::Borrowed(text)),
            Kind::List(items) => {
                Worth::Written(items.iter().map(|item| self.worth(item)).collect::<Result<_, _>>()?)
            }
            Kind::Attribute(_) | Kind::Event(_) => self.named(node).map_or(Worth::Missing, worth_of),
            Kind::Negate(inner) => match self.worth(inner)? {
                Worth::Number(number) => Worth::Number(-number),
                Worth::Percent(share) => Worth::Percent(-share),
                Worth::Quantity(amount, dimension) => Worth::Quantity(-amount, dimension),
                other => number_of(&other).map_or(Worth::Missing, |number| Worth::Number(-number)),
            },
            Kind::Arithmetic(operator, left, right) => {
                let (left, right) = (self.worth(left)?, self.worth(right)?);
                arithmetic(*operator, &left, &right)
            }
            Kind::Call(function, arguments) if !is_asked(*function) => self.call(*function, arguments)?,
            _ => self.truth(node)?.map_or(Worth::Missing, Worth::Bool),
        })
    }

    /// Functions that give a value.
    fn call(&mut self, function: Function, arguments: &'f [Node]) -> Result<Worth<'f>, Empty> {
        let [first, rest @ ..] = arguments else { return Ok(Worth::Missing) };
        Ok(match function {
            Function::Before => {
                self.burn(self.facts.changes.len())?;
                self.before(first)
            }
            Function::Drop | Function::Rise | Function::Change => {
                self.burn(self.facts.changes.len())?;
                let now = self.named(first).map_or(Worth::Missing, worth_of);
                match (number_of(&self.before(first)), number_of(&now)) {
                    (Some(before), Some(now)) => change(function, before, now),
                    _ => Worth::Missing,
                }
            }
            Function::Count => match self.worth(first)? {
                Worth::Text(text) => {
                    self.burn(text.len() / BYTES_PER_STEP)?;
                    Worth::Number(text.chars().count() as f64)
                }
                Worth::List(items) => Worth::Number(items.len() as f64),
                Worth::Written(items) => Worth::Number(items.len() as f64),
                _ => Worth::Missing,
            },
            Function::Lower => match self.worth(first)? {
                Worth::Text(text) => {
                    self.burn(text.len() / BYTES_PER_STEP)?;
                    Worth::Text(text.to_lowercase().into())
                }
                _ => Worth::Missing,
            },
            _ => {
                let one = number_of(&self.worth(first)?);
                let other = match rest {
                    [other, ..] => number_of(&self.worth(other)?),
                    [] => None,
                };
                let number = match (function, one, other) {
                    (Function::Abs, Some(one), _) => Some(one.abs()),
                    (Function::Round, Some(one), _) => Some(one.round()),
                    (Function::Min, Some(one), Some(other)) => Some(one.min(other)),
                    (Function::Max, Some(one), Some(other)) => Some(one.max(other)),
                    _ => None,
                };
                number.map_or(Worth::Missing, Worth::Number)
            }
        })
    }

    /// Whether something is in a list.
    fn holds(&mut self, list: &Worth<'_>, item: &Worth<'_>) -> Result<Option<bool>, Empty> {
        if matches!(item, Worth::Missing) {
            return Ok(None);
        }
        let mut found = Some(false);
        match list {
            Worth::List(items) => {
                for one in *items {
                    if self.compare(Comparison::Equal, &worth_of(one), item)? == Some(true) {
                        return Ok(Some(true));
                    }
                }
            }
            Worth::Written(items) => {
                for one in items {
                    match self.compare(Comparison::Equal, one, item)? {
                        Some(true) => return Ok(Some(true)),
                        // A name in the list whose value is missing could have been it.
                        None if matches!(one, Worth::Missing) => found = None,
                        _ => {}
                    }
                }
            }
            _ => return Ok(None),
        }
        Ok(found)
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        one: &Worth<'_>,
        other: &Worth<'_>,
    ) -> Result<Option<bool>, Empty> {
        self.burn(1)?;
        if let (Worth::Text(one), Worth::Text(other)) = (one, other) {
            self.burn(one.len().min(other.len()) / BYTES_PER_STEP)?;
        }
        let is_equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
        let order = match (one, other) {
            (Worth::Bool(one), Worth::Bool(other)) if is_equality => Some(one.cmp(other)),
            (Worth::List(_) | Worth::Written(_), Worth::List(_) | Worth::Written(_)) if is_equality => {
                self.same_lists(one, other)?.map(|same| if same { Ordering::Equal } else { Ordering::Less })
            }
            _ => order(one, other),
        };
        Ok(order.map(|order| match comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::Unequal => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }))
    }

    fn same_lists(&mut self, one: &Worth<'_>, other: &Worth<'_>) -> Result<Option<bool>, Empty> {
        let (one, other) = (elements(one), elements(other));
        if one.len() != other.len() {
            return Ok(Some(false));
        }
        for (one, other) in one.iter().zip(&other) {
            match self.compare(Comparison::Equal, one, other)? {
                Some(true) => {}
                other => return Ok(other),
            }
        }
        Ok(Some(true))
    }
}

fn elements<'a>(list: &Worth<'a>) -> Vec<Worth<'a>> {
    match list {
        Worth::List(items) => items.iter().map(worth_of).collect(),
        Worth::Written(items) => items.clone(),
        _ => Vec::new(),
    }
}

/// Whether a function says yes or no.
fn is_asked(function: Function) -> bool {
    matches!(
        function,
        Function::Changed
            | Function::Was
            | Function::Missing
            | Function::Has
            | Function::Contains
            | Function::StartsWith
            | Function::EndsWith
    )
}

fn worth_of(value: &Value) -> Worth<'_> {
    match value {
        Value::Null => Worth::Missing,
        Value::Bool(held) => Worth::Bool(*held),
        Value::Number(number) => number.as_f64().map_or(Worth::Missing, Worth::Number),
        Value::String(text) => Worth::Text(Cow::Borrowed(text)),
        Value::Array(items) => Worth::List(items),
        Value::Object(_) => Worth::Object,
    }
}

/// A number, also one that stands in a text.
fn number_of(worth: &Worth<'_>) -> Option<f64> {
    match worth {
        Worth::Number(number) => Some(*number),
        Worth::Text(text) => units::number(text),
        _ => None,
    }
}

/// How two values stand to each other; none where they cannot be compared.
fn order(one: &Worth<'_>, other: &Worth<'_>) -> Option<Ordering> {
    match (one, other) {
        (Worth::Number(one), Worth::Number(other)) => one.partial_cmp(other),
        (Worth::Text(one), Worth::Text(other)) => Some(one.cmp(other)),
        (Worth::Number(one), Worth::Text(text)) => one.partial_cmp(&units::number(text)?),
        (Worth::Text(text), Worth::Number(other)) => units::number(text)?.partial_cmp(other),
        (Worth::Quantity(one, a), Worth::Quantity(other, b)) if a == b => one.partial_cmp(other),
        (Worth::Quantity(one, a), Worth::Text(text)) => {
            units::quantity(text).filter(|(_, b)| a == b).and_then(|(other, _)| one.partial_cmp(&other))
        }
        (Worth::Text(_), Worth::Quantity(..)) => order(other, one).map(Ordering::reverse),
        (Worth::Change(_, share), Worth::Percent(other)) => share.as_ref()?.partial_cmp(other),
        (Worth::Percent(one), Worth::Change(_, share)) => one.partial_cmp(share.as_ref()?),
        (Worth::Change(amount, _), other) => amount.partial_cmp(&number_of(other)?),
        (one, Worth::Change(amount, _)) => number_of(one)?.partial_cmp(amount),
        _ => None,
    }
}

fn change(function: Function, before: f64, now: f64) -> Worth<'static> {
    let amount = match function {
        Function::Drop => before - now,
        Function::Rise => now - before,
        _ => (now - before).abs(),
    };
    // Of nothing there is no share.
    let share = (before != 0.0).then(|| amount / before.abs());
    Worth::Change(amount, share.filter(|share| share.is_finite()))
}

fn arithmetic<'a>(operator: Operator, left: &Worth<'a>, right: &Worth<'a>) -> Worth<'a> {
    let apply = |one: f64, other: f64| match operator {
        Operator::Plus => one + other,
        Operator::Minus => one - other,
        Operator::Times => one * other,
        Operator::Over => one / other,
    };
    let is_product = matches!(operator, Operator::Times | Operator::Over);
    let made = match (left, right) {
        (Worth::Quantity(one, a), Worth::Quantity(other, b)) if a == b && operator == Operator::Over => {
            Worth::Number(one / other)
        }
        (Worth::Quantity(one, a), Worth::Quantity(other, b)) if a == b => {
            Worth::Quantity(apply(*one, *other), *a)
        }
        (Worth::Quantity(one, a), other) if is_product => match number_of(other) {
            Some(other) => Worth::Quantity(apply(*one, other), *a),
            None => Worth::Missing,
        },
        (one, Worth::Quantity(other, b)) if operator == Operator::Times => match number_of(one) {
            Some(one) => Worth::Quantity(one * other, *b),
            None => Worth::Missing,
        },
        (one, other) => {
            let plain = |worth: &Worth<'_>| match worth {
                Worth::Percent(share) => Some(*share),
                worth => number_of(worth),
            };
            match (plain(one), plain(other)) {
                (Some(one), Some(other)) => Worth::Number(apply(one, other)),
                _ => Worth::Missing,
            }
        }
    };
    match made {
        Worth::Number(number) | Worth::Quantity(number, _) if !number.is_finite() => Worth::Missing,
        made => made,
    }
}
