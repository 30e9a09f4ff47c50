//! `> ANY (SELECT …)`, `> ALL (SELECT …)`, and IN where DataFusion forgets a NULL, by EXISTS.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, UnaryOperator,
};

use super::forms::members;
use super::sets;
use super::written::{binary, taken, template};

/// `x > ANY (subquery)` and `x > ALL (subquery)` by EXISTS; DataFusion's own answer is wrong.
pub(super) fn quantified(expr: &mut Expr) -> Option<Expr> {
    let (left, op, right, is_all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return None,
    };
    let Expr::Subquery(query) = right.as_mut() else { return None };
    let (query, op) = ((**query).clone(), op.clone());
    Some(exists(query, vec![taken(left)], is_all, |left, right| {
        let compared = binary(left, op.clone(), right);
        match is_all {
            true => Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(compared)))),
            false => compared,
        }
    }))
}

/// `[NOT] EXISTS (SELECT 1 FROM (query) AS "__q"("__1", …) WHERE condition(members[0], "__1") AND …)`.
pub(super) fn exists(
    query: Query,
    members: Vec<Expr>,
    negated: bool,
    condition: impl Fn(Expr, Expr) -> Expr,
) -> Expr {
    let columns: Vec<Ident> = (1..=members.len()).map(|n| Ident::with_quote('"', format!("__{n}"))).collect();
    let compared = members.into_iter().zip(&columns);
    let compared = compared.map(|(member, column)| condition(member, Expr::Identifier(column.clone())));
    let all = compared.reduce(|all, one| binary(all, BinaryOperator::And, one));
    let mut template = template();
    if let SetExpr::Select(select) = template.body.as_mut() {
        select.selection = all;
        let alias = TableAlias {
            explicit: true,
            name: Ident::with_quote('"', "__q"),
            columns: columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect(),
            at: None,
        };
        if let Some(TableFactor::Derived { subquery, alias: own, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            (**subquery, *own) = (query, Some(alias));
        }
    }
    let exists = Expr::Exists { subquery: Box::new(template), negated: false };
    match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(exists) },
        false => exists,
    }
}

/// `NOT ((a, b) IN (SELECT …))` as `(a, b) NOT IN (SELECT …)`: what is not known of a row is not false.
pub(super) fn not_in(expr: &mut Expr) {
    let Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } = expr else { return };
    let mut asks = inner.as_mut();
    while let Expr::Nested(inner) = asks {
        asks = inner;
    }
    if let Expr::InSubquery { expr: left, negated, .. } = asks
        && members(left).is_some()
    {
        *negated = !*negated;
        *expr = taken(asks);
    }
}

/// `'a' NOT IN (SELECT …)` among what a condition is made of by AND and OR: without a column DataFusion forgets the NULLs among
/// what is looked through.
pub(super) fn without_columns(condition: &mut Expr) {
    match condition {
        Expr::Nested(inner) => without_columns(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            without_columns(left);
            without_columns(right);
        }
        Expr::InSubquery { expr: left, subquery, negated: true } => {
            if let Some(other) = not_among(left, subquery) {
                *condition = other;
            }
        }
        _ => {}
    }
}

/// `left NOT IN (subquery)` by NOT EXISTS, where `left` names no column.
fn not_among(left: &mut Expr, subquery: &Query) -> Option<Expr> {
    if sets::names_columns(std::slice::from_ref(left)) {
        return None;
    }
    let members = match left {
        Expr::Tuple(members) => std::mem::take(members),
        single => vec![taken(single)],
    };
    Some(no_row(subquery, members))
}

/// Whether no row of a subquery is these members, or may be by a NULL among them.
pub(super) fn no_row(subquery: &Query, members: Vec<Expr>) -> Expr {
    exists(subquery.clone(), members, true, |left, right| {
        let compared = Expr::Nested(Box::new(binary(left, BinaryOperator::Eq, right)));
        Expr::IsNotFalse(Box::new(compared))
    })
}
