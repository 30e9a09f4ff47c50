//! `a IS DISTINCT FROM b AND c`: the parser takes all that stands behind FROM for its operand, `b AND c` and what follows.
//!
//! In PostgreSQL IS binds tighter than NOT, AND and OR do. So an expression with such an operand is put together anew, of its
//! parts in the order in which they are written.
//!
//! `NOT (x IN (SELECT …))` is `x NOT IN (SELECT …)`, which is looked through with its NULLs further on; so is NOT before ANY and
//! ALL the opposite comparison with the other.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, UnaryOperator, VisitMut, VisitorMut};

use super::forms::innermost;
use super::written::{binary, taken};

/// Regroups the whole statement, subqueries included.
pub(crate) fn regroup(statement: &mut Statement) {
    // The visitor never breaks.
    let _ = statement.visit(&mut Logic);
}

struct Logic;

impl VisitorMut for Logic {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_misread(expr) {
            let mut parts = Vec::new();
            flatten(taken(expr), &mut parts);
            *expr = grouped(parts);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } = expr
            && let Some(opposite) = opposite(inner)
        {
            *expr = opposite;
        }
        ControlFlow::Continue(())
    }
}

/// The opposite of a question about the rows of a subquery, as one itself.
fn opposite(question: &mut Expr) -> Option<Expr> {
    let is_query = |right: &Expr| matches!(innermost(right), Expr::Subquery(_));
    match question {
        Expr::Nested(inner) => opposite(inner),
        Expr::InSubquery { negated, .. } => {
            *negated = !*negated;
            Some(taken(question))
        }
        Expr::AnyOp { left, compare_op, right, .. } if is_query(right) => {
            let compare_op = negated(compare_op)?;
            Some(Expr::AllOp { left: Box::new(taken(left)), compare_op, right: Box::new(taken(right)) })
        }
        Expr::AllOp { left, compare_op, right } if is_query(right) => {
            let compare_op = negated(compare_op)?;
            let (left, right) = (Box::new(taken(left)), Box::new(taken(right)));
            Some(Expr::AnyOp { left, compare_op, right, is_some: false })
        }
        _ => None,
    }
}

fn negated(op: &BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    Some(match op {
        Eq => NotEq,
        NotEq => Eq,
        Lt => GtEq,
        LtEq => Gt,
        Gt => LtEq,
        GtEq => Lt,
        _ => return None,
    })
}

fn is_logical(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or)
}

/// Whether an operand that is too long stands in an expression, before the next parentheses.
fn is_misread(expr: &Expr) -> bool {
    let mut stack = vec![expr];
    while let Some(part) = stack.pop() {
        match part {
            Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) if reaches_further(right) => {
                return true;
            }
            Expr::BinaryOp { left, op, right } if is_logical(op) => stack.extend([&**left, &**right]),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => stack.push(expr),
            _ => {}
        }
    }
    false
}

/// Whether an operand is more than one.
fn reaches_further(operand: &Expr) -> bool {
    match operand {
        Expr::BinaryOp { op, .. } => is_logical(op),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => reaches_further(expr),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => reaches_further(right),
        _ => false,
    }
}

/// What stands between AND and OR, each with the operator behind it.
fn flatten(expr: Expr, into: &mut Vec<(Expr, Option<BinaryOperator>)>) {
    let begin = into.len();
    match expr {
        Expr::BinaryOp { left, op, right } if is_logical(&op) => {
            flatten(*left, into);
            if let Some((_, behind)) = into.last_mut() {
                *behind = Some(op);
            }
            flatten(*right, into);
        }
        Expr::IsDistinctFrom(left, right) => {
            flatten(*right, into);
            if let Some((first, _)) = into.get_mut(begin) {
                *first = Expr::IsDistinctFrom(left, Box::new(taken(first)));
            }
        }
        Expr::IsNotDistinctFrom(left, right) => {
            flatten(*right, into);
            if let Some((first, _)) = into.get_mut(begin) {
                *first = Expr::IsNotDistinctFrom(left, Box::new(taken(first)));
            }
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            flatten(*expr, into);
            if let Some((first, _)) = into.get_mut(begin) {
                *first = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(taken(first)) };
            }
        }
        other => into.push((other, None)),
    }
}

/// The parts together: AND binds tighter than OR.
fn grouped(parts: Vec<(Expr, Option<BinaryOperator>)>) -> Expr {
    let (mut any, mut all): (Option<Expr>, Option<Expr>) = (None, None);
    let joined = |left: Option<Expr>, op, right| match left {
        Some(left) => binary(left, op, right),
        None => right,
    };
    for (part, behind) in parts {
        let group = joined(all.take(), BinaryOperator::And, part);
        match behind {
            Some(BinaryOperator::And) => all = Some(group),
            _ => any = Some(joined(any.take(), BinaryOperator::Or, group)),
        }
    }
    any.unwrap_or_else(|| Expr::value(datafusion::sql::sqlparser::ast::Value::Null))
}

#[cfg(test)]
mod tests {
    use super::super::written::parsed;
    use super::*;

    /// With every operation in parentheses.
    fn shown(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", shown(left), shown(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", shown(expr)),
            Expr::IsDistinctFrom(left, right) => format!("({} ID {})", shown(left), shown(right)),
            Expr::IsNotDistinctFrom(left, right) => format!("({} IND {})", shown(left), shown(right)),
            Expr::Nested(inner) => shown(inner),
            other => other.to_string(),
        }
    }

    #[test]
    fn is_distinct_from_ends_before_and() {
        for (written, expected) in [
            ("a IS DISTINCT FROM 1 AND b > 2", "((a ID 1) AND (b > 2))"),
            ("p AND a IS DISTINCT FROM 1 AND q OR r", "(((p AND (a ID 1)) AND q) OR r)"),
            ("NOT a IS NOT DISTINCT FROM 1 OR b", "((NOT (a IND 1)) OR b)"),
            ("NOT (a IS DISTINCT FROM 1 AND b)", "(NOT ((a ID 1) AND b))"),
            ("a IS DISTINCT FROM b IS DISTINCT FROM c AND d", "((a ID (b ID c)) AND d)"),
            ("a IS DISTINCT FROM (b AND c) OR d AND e", "((a ID (b AND c)) OR (d AND e))"),
            ("a IS DISTINCT FROM 1 OR b AND NOT c", "((a ID 1) OR (b AND (NOT c)))"),
            ("a IS DISTINCT FROM b + 1", "(a ID (b + 1))"),
            ("a OR b AND c", "(a OR (b AND c))"),
            ("NOT (a IN (SELECT 1))", "a NOT IN (SELECT 1)"),
            ("NOT NOT ((a IN (SELECT 1)))", "a IN (SELECT 1)"),
            ("NOT (a >= ANY (SELECT 1))", "a < ALL(SELECT 1)"),
            ("NOT ((a <> ALL (SELECT 1)))", "a = ANY(SELECT 1)"),
            ("NOT (a IN (1, 2))", "(NOT a IN (1, 2))"),
        ] {
            let sql = format!("SELECT 1 WHERE {written}");
            let mut statement = parsed(&sql);
            regroup(&mut statement);
            let Statement::Query(query) = statement else { panic!("a query") };
            let select = query.body.as_select().expect("a SELECT");
            assert_eq!(shown(select.selection.as_ref().expect("a condition")), expected, "{written}");
        }
    }
}
