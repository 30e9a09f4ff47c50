//! Comparisons of rows, `(a, b) = (c, d)` and `(a, b) IN ((1, 2), (3, 4))`, member by member.
//!
//! DataFusion compares them as values of one type, where a NULL is a value like any other. In PostgreSQL a comparison with it is
//! open, unless another member decides.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::forms::{is_small, members};
use super::written::{binary, nested};

/// Most rows of a list that are compared one by one.
pub(crate) const ROWS_MAX: usize = 1_000;

/// What a comparison of rows is, written out; none of anything else, and of rows of unlike length.
pub(super) fn compared(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (members(left)?, members(right)?);
            compare(&left, op, &right).map(nested)
        }
        Expr::InList { expr, list, negated } => {
            let left = members(expr)?;
            if list.len() > ROWS_MAX || !is_small(&left) {
                return None;
            }
            let equal = |right: &Expr| compare(&left, &BinaryOperator::Eq, &members(right)?);
            let rows: Vec<Expr> = list.iter().map(equal).collect::<Option<_>>()?;
            let any = nested(together(rows, &BinaryOperator::Or)?);
            Some(match negated {
                true => nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(any) }),
                false => any,
            })
        }
        Expr::IsNull(row) => {
            let all = members(row)?.into_iter().map(|one| Expr::IsNull(Box::new(nested(one)))).collect();
            together(all, &BinaryOperator::And).map(nested)
        }
        Expr::IsNotNull(row) => {
            let all = members(row)?.into_iter().map(|one| Expr::IsNotNull(Box::new(nested(one)))).collect();
            together(all, &BinaryOperator::And).map(nested)
        }
        _ => None,
    }
}

/// Whether a list has more rows than are compared.
pub(crate) fn is_too_long(expr: &Expr) -> bool {
    matches!(expr, Expr::InList { expr: left, list, .. }
        if members(left).is_some_and(|left| list.len() > ROWS_MAX || !is_small(&left)))
}

fn compare(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    if left.len() != right.len() || left.is_empty() {
        return None;
    }
    let pair = |place: usize, op: &BinaryOperator| {
        nested(binary(nested(left[place].clone()), op.clone(), nested(right[place].clone())))
    };
    match op {
        Eq => together((0..left.len()).map(|place| pair(place, &Eq)).collect(), &And),
        NotEq => together((0..left.len()).map(|place| pair(place, &NotEq)).collect(), &Or),
        // The first pair that is unlike decides.
        Lt | LtEq | Gt | GtEq if left.iter().chain(right).all(is_small) => {
            let strict = if matches!(op, Lt | LtEq) { Lt } else { Gt };
            let last = pair(left.len() - 1, op);
            Some((0..left.len() - 1).rev().fold(last, |rest, place| {
                let tied = nested(binary(pair(place, &Eq), And, rest));
                nested(binary(pair(place, &strict), Or, tied))
            }))
        }
        _ => None,
    }
}

/// All of them by AND or OR, as a tree that is not as deep as there are many.
fn together(mut parts: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    while parts.len() > 1 {
        let mut rest = parts.into_iter();
        parts = Vec::new();
        while let Some(part) = rest.next() {
            parts.push(match rest.next() {
                Some(other) => nested(binary(part, op.clone(), other)),
                None => part,
            });
        }
    }
    parts.pop()
}
