//! What can be known of a condition before there is a value: whether its operands can ever be compared, and whether it says
//! yes or no in the end.

use super::{Fault, Function, Kind, Node, Operator};
use crate::condition::units::Dimension;

/// What sort of value a part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// An attribute's: known when there is a value.
    Any,
    Bool,
    Number,
    Percent,
    Quantity(Dimension),
    Text,
    List,
    /// How much something has changed: in numbers, and as a share of what it was.
    Change,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Any => "a value",
            Sort::Bool => "true or false",
            Sort::Number => "a number",
            Sort::Percent => "a percentage",
            Sort::Quantity(dimension) => dimension.name(),
            Sort::Text => "a text",
            Sort::List => "a list",
            Sort::Change => "a change",
        }
    }
}

/// Refuses what can never hold.
pub(super) fn check(root: &Node) -> Result<(), Fault> {
    wants_bool(root)
}

fn wants_bool(node: &Node) -> Result<(), Fault> {
    match sort(node)? {
        Sort::Bool | Sort::Any => Ok(()),
        other => {
            let message = format!("a comparison is expected here, and this is {}", other.name());
            Err(Fault::new(node.at, message))
        }
    }
}

/// That a part is of this sort, or may turn out to be.
fn wants(node: &Node, wanted: Sort) -> Result<(), Fault> {
    match sort(node)? {
        Sort::Any => Ok(()),
        found if found == wanted => Ok(()),
        found => {
            let message = format!("{} is expected here, and this is {}", wanted.name(), found.name());
            Err(Fault::new(node.at, message))
        }
    }
}

fn sort(node: &Node) -> Result<Sort, Fault> {
    Ok(match &node.kind {
        Kind::Bool(_) => Sort::Bool,
        Kind::Number(_) => Sort::Number,
        Kind::Percent(_) => Sort::Percent,
        Kind::Quantity(_, dimension) => Sort::Quantity(*dimension),
        Kind::Text(_) => Sort::Text,
        Kind::Attribute(_) | Kind::Event(_) => Sort::Any,
        Kind::List(items) => {
            items.iter().try_for_each(in_list)?;
            Sort::List
        }
        Kind::Not(inner) => {
            wants_bool(inner)?;
            Sort::Bool
        }
        Kind::All(parts) | Kind::Any(parts) => {
            parts.iter().try_for_each(wants_bool)?;
            Sort::Bool
        }
        Kind::Negate(inner) => match sort(inner)? {
            found @ (Sort::Number | Sort::Percent | Sort::Quantity(_)) => found,
            _ => {
                wants(inner, Sort::Number)?;
                Sort::Number
            }
        },
        Kind::Compare(comparison, left, right) => {
            let (one, other) = (sort(left)?, sort(right)?);
            comparable(one, other).map_err(|message| Fault::new(node.at, message))?;
            let is_order = !matches!(comparison, super::Comparison::Equal | super::Comparison::Unequal);
            if is_order && [one, other].iter().any(|sort| matches!(sort, Sort::Bool | Sort::List)) {
                let message = "true, false and lists have no order; compare them with == or !=";
                return Err(Fault::new(node.at, message));
            }
            Sort::Bool
        }
        Kind::In(item, list) => {
            wants(list, Sort::List)?;
            in_list(item)?;
            Sort::Bool
        }
        Kind::Arithmetic(operator, left, right) => arithmetic(node.at, *operator, left, right)?,
        Kind::Call(function, arguments) => call(*function, arguments)?,
        Kind::Matches(subject, _) => {
            wants(subject, Sort::Text)?;
            Sort::Bool
        }
    })
}

/// What can stand in a list.
fn in_list(node: &Node) -> Result<(), Fault> {
    match sort(node)? {
        found @ (Sort::List | Sort::Percent | Sort::Change) => {
            Err(Fault::new(node.at, format!("{} does not stand in a list", found.name())))
        }
        _ => Ok(()),
    }
}

fn comparable(one: Sort, other: Sort) -> Result<(), String> {
    match (one, other) {
        (Sort::Change, Sort::Percent | Sort::Number | Sort::Any)
        | (Sort::Percent | Sort::Number | Sort::Any, Sort::Change) => Ok(()),
        (Sort::Percent, _) | (_, Sort::Percent) => {
            Err("a percentage is compared with drop(x), rise(x) or change(x), or multiplied: price < 90% * before(price)"
                .to_owned())
        }
        (Sort::Any, _) | (_, Sort::Any) => Ok(()),
        (Sort::Change, Sort::Change) => Err("two changes are not compared with each other".to_owned()),
        (one, other) if one == other => Ok(()),
        (one, other) => Err(format!("{} is never compared with {}", one.name(), other.name())),
    }
}

fn arithmetic(at: usize, operator: Operator, left: &Node, right: &Node) -> Result<Sort, Fault> {
    let (one, other) = (sort(left)?, sort(right)?);
    let is_product = matches!(operator, Operator::Times | Operator::Over);
    match (one, other) {
        (Sort::Number | Sort::Any, Sort::Number | Sort::Any) => Ok(Sort::Number),
        (Sort::Percent, Sort::Number | Sort::Any) if operator == Operator::Times => Ok(Sort::Number),
        (Sort::Number | Sort::Any, Sort::Percent) if is_product => Ok(Sort::Number),
        (Sort::Quantity(one), Sort::Quantity(other)) if one == other && !is_product => {
            Ok(Sort::Quantity(one))
        }
        (Sort::Quantity(one), Sort::Quantity(other)) if one == other && operator == Operator::Over => {
            Ok(Sort::Number)
        }
        (Sort::Quantity(one), Sort::Number) if is_product => Ok(Sort::Quantity(one)),
        (Sort::Number, Sort::Quantity(other)) if operator == Operator::Times => Ok(Sort::Quantity(other)),
        (one, other) => {
            let sign = match operator {
                Operator::Plus => "+",
                Operator::Minus => "-",
                Operator::Times => "*",
                Operator::Over => "/",
            };
            let message = format!("{sign} takes numbers, and these are {} and {}", one.name(), other.name());
            Err(Fault::new(at, message))
        }
    }
}

/// That an argument is an attribute by its name.
fn wants_attribute(node: &Node) -> Result<(), Fault> {
    match node.kind {
        Kind::Attribute(_) => Ok(()),
        Kind::Event(_) => {
            Err(Fault::new(node.at, "an attribute of the result is expected here; an event has no before"))
        }
        _ => Err(Fault::new(node.at, "the name of an attribute is expected here")),
    }
}

fn call(function: Function, arguments: &[Node]) -> Result<Sort, Fault> {
    let is_name = |node: &Node| match node.kind {
        Kind::Attribute(_) | Kind::Event(_) => Ok(()),
        _ => Err(Fault::new(node.at, "a name is expected here")),
    };
    match (function, arguments) {
        (Function::Changed, names) => {
            names.iter().try_for_each(wants_attribute)?;
            Ok(Sort::Bool)
        }
        (Function::Drop | Function::Rise | Function::Change, names) => {
            names.iter().try_for_each(wants_attribute)?;
            Ok(Sort::Change)
        }
        (Function::Before, names) => {
            names.iter().try_for_each(wants_attribute)?;
            Ok(Sort::Any)
        }
        (Function::Was, [value]) => in_list(value).map(|()| Sort::Bool),
        (Function::Was, [name, rest @ ..]) => {
            wants_attribute(name)?;
            rest.iter().try_for_each(in_list)?;
            Ok(Sort::Bool)
        }
        (Function::Missing | Function::Has, names) => {
            names.iter().try_for_each(is_name)?;
            Ok(Sort::Bool)
        }
        (Function::Contains, [all, part]) => {
            match sort(all)? {
                Sort::Text => wants(part, Sort::Text)?,
                Sort::List | Sort::Any => in_list(part)?,
                other => {
                    let message = format!("a text or a list is expected here, and this is {}", other.name());
                    return Err(Fault::new(all.at, message));
                }
            }
            Ok(Sort::Bool)
        }
        (Function::StartsWith | Function::EndsWith, texts) => {
            texts.iter().try_for_each(|text| wants(text, Sort::Text))?;
            Ok(Sort::Bool)
        }
        (Function::Count, [counted, ..]) => match sort(counted)? {
            Sort::Any | Sort::Text | Sort::List => Ok(Sort::Number),
            other => {
                let message = format!("a text or a list is expected here, and this is {}", other.name());
                Err(Fault::new(counted.at, message))
            }
        },
        (Function::Lower, texts) => {
            texts.iter().try_for_each(|text| wants(text, Sort::Text))?;
            Ok(Sort::Text)
        }
        (_, numbers) => {
            numbers.iter().try_for_each(|number| wants(number, Sort::Number))?;
            Ok(Sort::Number)
        }
    }
}
