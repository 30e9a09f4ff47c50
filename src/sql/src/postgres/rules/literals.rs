//! Values that PostgreSQL reads from a text, and operators that bind otherwise.
//!
//! - `'{1,2}'::int[]` is a list, where DataFusion makes a list of the one text.
//! - `'\x00ff'::bytea` is two bytes, where DataFusion takes the six letters.
//! - A minus sign binds tighter than `^`: `-2 ^ 2` is 4.
//! - `x = ANY (ARRAY[2, NULL])` is NULL where `x` is not 2, where DataFusion looks the list through and says false.

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, DataType, Expr, UnaryOperator, Value,
};

use super::written::{call, literal, taken, text};
use crate::postgres::bytes_of;

/// Digits of the widest decimal.
const DIGITS_MAX: i64 = 76;

/// A cast of a written text to a list or to bytes as what the text means; none where there is nothing to do.
pub(super) fn cast(inner: &mut Expr, data_type: &DataType) -> Option<Expr> {
    match data_type {
        DataType::Bytea => match literal(inner) {
            // Of a text that means none the function says so.
            Some(text) => bytes_of(text).map(bytes).or_else(|| Some(call("to_bytea", vec![taken(inner)]))),
            None => Some(call("to_bytea", vec![taken(inner)])),
        },
        DataType::Array(ArrayElemTypeDef::SquareBracket(..)) => {
            *inner = list(literal(inner)?)?;
            None
        }
        _ => None,
    }
}

/// Whether a written number has more digits, before or behind the point, than a decimal can: it is a double then.
pub(super) fn is_beyond_decimals(digits: &str) -> bool {
    let Some((mantissa, exponent)) = digits.split_once(['e', 'E']) else { return false };
    let Ok(exponent) = exponent.parse::<i64>() else { return true };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (whole, fraction) = (whole.len() as i64, fraction.len() as i64);
    exponent.saturating_add(whole) > DIGITS_MAX || fraction.saturating_sub(exponent) > DIGITS_MAX
}

/// Bytes as they are written in a statement.
pub(super) fn bytes(bytes: Vec<u8>) -> Expr {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Expr::value(Value::HexStringLiteral(digits))
}

/// The list that `{a,"b c",NULL}` means, of one dimension; none when it is no such text.
fn list(whole: &str) -> Option<Expr> {
    let inner = whole.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    let (mut item, mut was_quoted, mut quoted) = (String::new(), false, false);
    let mut end = |item: &mut String, was_quoted: &mut bool| {
        let own = std::mem::take(item);
        let own = if std::mem::take(was_quoted) {
            own
        } else {
            let own = own.trim();
            if own.eq_ignore_ascii_case("null") {
                items.push(Expr::value(Value::Null));
                return Some(());
            }
            if own.is_empty() {
                return None;
            }
            own.to_owned()
        };
        items.push(text(&own));
        Some(())
    };
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => {
                // Blanks before the quotes are none of the item.
                if !was_quoted && item.trim().is_empty() {
                    item.clear();
                }
                (quoted, was_quoted) = (!quoted, true);
            }
            '\\' => item.push(chars.next()?),
            ',' if !quoted => end(&mut item, &mut was_quoted)?,
            '{' | '}' if !quoted => return None,
            blank if !quoted && was_quoted && blank.is_whitespace() => {}
            other => item.push(other),
        }
    }
    if !inner.trim().is_empty() {
        end(&mut item, &mut was_quoted)?;
    }
    (!quoted).then_some(Expr::Array(Array { elem: items, named: true }))
}

/// `x op ANY (list)` and `x op ALL (list)`; subqueries are not for here.
pub(super) fn of_list(expr: &mut Expr) -> Option<Expr> {
    let (left, op, right, is_all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return None,
    };
    while let Expr::Nested(inner) = right.as_mut() {
        **right = taken(inner);
    }
    if matches!(right.as_ref(), Expr::Subquery(_)) {
        return None;
    }
    if let Some(items) = literal(right).and_then(list) {
        **right = items;
    }
    let negated = match op {
        BinaryOperator::Eq if !is_all => Some(false),
        BinaryOperator::NotEq if is_all => Some(true),
        _ => None,
    };
    if let (Some(negated), Expr::Array(array)) = (negated, right.as_mut())
        && !array.elem.is_empty()
        && !array.elem.iter().any(|item| matches!(item, Expr::Array(_)))
    {
        let list = std::mem::take(&mut array.elem);
        return Some(Expr::InList { expr: Box::new(taken(left)), list, negated });
    }
    let name = match (is_all, &*op) {
        (false, BinaryOperator::Eq) => "any_eq",
        (false, BinaryOperator::NotEq) => "any_ne",
        (false, BinaryOperator::Lt) => "any_lt",
        (false, BinaryOperator::LtEq) => "any_le",
        (false, BinaryOperator::Gt) => "any_gt",
        (false, BinaryOperator::GtEq) => "any_ge",
        (true, BinaryOperator::Eq) => "all_eq",
        (true, BinaryOperator::NotEq) => "all_ne",
        (true, BinaryOperator::Lt) => "all_lt",
        (true, BinaryOperator::LtEq) => "all_le",
        (true, BinaryOperator::Gt) => "all_gt",
        (true, BinaryOperator::GtEq) => "all_ge",
        _ => return None,
    };
    Some(call(name, vec![taken(left), taken(right)]))
}

/// `-a ^ b`, of which the parser makes `-(a ^ b)`, as `(-a) ^ b`; and `a ^ -b ^ c` as `(a ^ -b) ^ c`.
pub(super) fn power(expr: &mut Expr) {
    match expr {
        // What numbers rows has no sign in DataFusion, and so no opposite.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } if matches!(&**inner, Expr::Function(function) if function.over.is_some()) =>
        {
            **inner = call("to_signed", vec![taken(inner)]);
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } if is_power(inner) => {
            let first = first_of(inner);
            *first = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(taken(first)) };
            *expr = taken(inner);
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } if is_power(right) => {
            let first = first_of(right);
            *first = Expr::BinaryOp {
                left: Box::new(taken(left)),
                op: BinaryOperator::PGExp,
                right: Box::new(taken(first)),
            };
            *expr = taken(right);
        }
        _ => {}
    }
}

fn is_power(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::PGExp, .. })
}

/// What stands first in a chain of powers.
fn first_of(mut expr: &mut Expr) -> &mut Expr {
    while is_power(expr) {
        let Expr::BinaryOp { left, .. } = expr else { unreachable!("a power is a binary operator") };
        expr = left;
    }
    expr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_postgresql_writes_them() {
        for (whole, expected) in [
            ("{1,2}", Some("ARRAY['1', '2']")),
            ("{}", Some("ARRAY[]")),
            (r#"{a b, "c,d" ,NULL,"null","e\"f"}"#, Some(r#"ARRAY['a b', 'c,d', NULL, 'null', 'e"f']"#)),
            ("1,2", None),
            ("{1,,2}", None),
            ("{{1},{2}}", None),
            ("{\"a}", None),
        ] {
            assert_eq!(list(whole).map(|list| list.to_string()).as_deref(), expected, "{whole}");
        }
    }
}
