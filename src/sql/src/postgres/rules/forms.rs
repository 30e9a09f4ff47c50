//! Forms of PostgreSQL that are others in DataFusion's terms: several patterns of one LIKE, OVERLAPS, the first value of a
//! subquery; and what is asked of forms before they are rewritten or refused.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    GroupByExpr, LimitClause, ObjectName, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, TableFactor,
    UnaryOperator, Value, ValueWithSpan, Visit, Visitor,
};

use super::written::{binary, call, nested, taken};
use super::{joins, level};
use crate::postgres::table::{self, Kind};

/// Most expressions of a part that is written more than once.
const COPIED_NODES_MAX: usize = 200;

/// `url LIKE ANY (ARRAY['a%', 'b%'])`, or with the patterns in parentheses, as one LIKE after the other.
pub(super) fn like_any(expr: &Expr) -> Option<Expr> {
    let (Expr::Like { pattern, negated, .. } | Expr::ILike { pattern, negated, .. }) = expr else {
        return None;
    };
    let patterns: &[Expr] = match pattern.as_ref() {
        Expr::Array(array) => &array.elem,
        Expr::Tuple(patterns) => patterns,
        Expr::Nested(only) => match only.as_ref() {
            Expr::Array(array) => &array.elem,
            only => std::slice::from_ref(only),
        },
        _ => return None,
    };
    if *negated || !is_small(expr) {
        return None;
    }
    let each = patterns.iter().map(|own| {
        let mut one = expr.clone();
        if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut one {
            (*any, **pattern) = (false, own.clone());
        }
        one
    });
    each.reduce(|any, one| binary(any, BinaryOperator::Or, one)).map(nested)
}

/// `(a, b) OVERLAPS (c, d)`: both begin at once, or each begins before the other ends. The end may stand in front, and be a span
/// behind the beginning; with a NULL among them it is known only where it is true.
pub(super) fn overlaps(left: &Expr, right: &Expr) -> Option<Expr> {
    let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) else { return None };
    let (Ok([a, b]), Ok([c, d])) = (<&[Expr; 2]>::try_from(&left[..]), <&[Expr; 2]>::try_from(&right[..]))
    else {
        return None;
    };
    if ![a, b, c, d].into_iter().all(is_small) {
        return None;
    }
    let end = |begin: &Expr, end: &Expr| match end {
        Expr::Interval(_) => nested(binary(nested(begin.clone()), BinaryOperator::Plus, end.clone())),
        other => nested(other.clone()),
    };
    let (b, d) = (end(a, b), end(c, d));
    let of = |name: &str, one: &Expr, other: &Expr| call(name, vec![one.clone(), other.clone()]);
    let (first, second) = (of("least", a, &b), of("least", c, &d));
    // Only of two that end somewhere.
    let ends = [a, &b, c, &d].map(|end| Expr::IsNotNull(Box::new(nested(end.clone()))));
    let together = binary(first.clone(), BinaryOperator::Eq, second.clone());
    let together = ends.into_iter().fold(together, |all, end| binary(all, BinaryOperator::And, end));
    let together = nested(together);
    let before = binary(first, BinaryOperator::Lt, of("greatest", c, &d));
    let behind = binary(second, BinaryOperator::Lt, of("greatest", a, &b));
    let meets = nested(binary(before, BinaryOperator::And, behind));
    let missing = [a, &b, c, &d].map(|end| Expr::IsNull(Box::new(nested(end.clone()))));
    let missing = missing.into_iter().reduce(|any, one| binary(any, BinaryOperator::Or, one))?;
    let open = call("nullif", vec![missing, Expr::value(Value::Boolean(true))]);
    let known = nested(binary(together, BinaryOperator::Or, meets));
    Some(nested(binary(known, BinaryOperator::Or, open)))
}

/// Whether texts are ordered by a collation as they are here, by their bytes.
pub(super) fn is_by_bytes(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| matches!(name.value.as_str(), "C" | "POSIX" | "ucs_basic" | "default"))
}

/// `(SELECT x FROM t WHERE t.a = outside.a ORDER BY y LIMIT 1)`: the first value in that order, as an aggregate, which the
/// planner can join by. A subquery that names nothing outside is left alone: it needs no joining, and is faster as it is.
pub(super) fn first_value(query: &mut Query) {
    let is_one = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by }) => {
            limit_by.is_empty()
                && matches!(limit, Expr::Value(ValueWithSpan { value: Value::Number(one, _), .. }) if one == "1")
        }
        _ => false,
    };
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return;
    };
    let order = order.clone();
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let groups = match &select.group_by {
        GroupByExpr::Expressions(exprs, more) => !exprs.is_empty() || !more.is_empty(),
        GroupByExpr::All(_) => true,
    };
    // The order may be by what comes out, under a name that a column of the table has too.
    if let [SelectItem::ExprWithAlias { expr, alias }] = select.projection.as_slice()
        && order.iter().any(|by| joins::is_column(&by.expr, alias) && !joins::is_column(expr, alias))
    {
        return;
    }
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    let plain = query.with.is_none() && select.distinct.is_none() && select.having.is_none() && !groups;
    let by_table = |by: &OrderByExpr| matches!(by.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let mut inside: Vec<String> = Vec::new();
    for factor in select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
    {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => {
                inside.push(alias.name.value.to_ascii_lowercase());
            }
            TableFactor::Table { name, .. } => {
                inside.extend(
                    name.0.last().and_then(|part| part.as_ident()).map(|n| n.value.to_ascii_lowercase()),
                );
            }
            _ => return,
        }
    }
    let mut outside = Outside { inside, found: false };
    let _ = select.selection.visit(&mut outside);
    if !is_one || !plain || !outside.found || !order.iter().all(by_table) || aggregates(value) {
        return;
    }
    let mut first = call("first_value", vec![taken(value)]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut first {
        list.clauses = vec![FunctionArgumentClause::OrderBy(order)];
    }
    *value = first;
    query.order_by = None;
    query.limit_clause = None;
}

/// Looks for a name of a table that is not inside.
struct Outside {
    inside: Vec<String>,
    found: bool,
}

impl Visitor for Outside {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = parts.as_slice()
        {
            self.found |= !self.inside.contains(&table.value.to_ascii_lowercase());
        }
        ControlFlow::Continue(())
    }
}

/// Whether a part of a statement is small enough to be written more than once. Without that bound forms within forms would
/// double with every level.
pub(super) fn is_small(part: &impl Visit) -> bool {
    part.visit(&mut Nodes { left: COPIED_NODES_MAX }).is_continue()
}

struct Nodes {
    left: usize,
}

impl Visitor for Nodes {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

/// The members of a row: `(a, b)` or `ROW(a, b)`.
pub(super) fn members(expr: &Expr) -> Option<Vec<Expr>> {
    match innermost(expr) {
        Expr::Tuple(members) => Some(members.clone()),
        Expr::Function(function) => {
            let [name] = function.name.0.as_slice() else { return None };
            let FunctionArguments::List(list) = &function.args else { return None };
            if !super::written::is(name.as_ident()?, "row") {
                return None;
            }
            let members = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            });
            members.collect()
        }
        _ => None,
    }
}

/// Whether a condition asks whether something is among the rows of a subquery where NULL is not the same as false: below NOT,
/// IS, CASE or a comparison, or the opposite of it below OR. The engine's answer to it is true or false only.
pub(crate) fn asks_openly(condition: &Expr) -> bool {
    fn of(condition: &Expr, below_or: bool) -> bool {
        match condition {
            Expr::Nested(inner) => of(inner, below_or),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                of(left, below_or) || of(right, below_or)
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => of(left, true) || of(right, true),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => match innermost(expr) {
                Expr::InSubquery { expr, negated, .. } => below_or && !negated || asks(expr),
                other => asks(other),
            },
            Expr::InSubquery { expr, negated, .. } => below_or && *negated || asks(expr),
            Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => asks(left),
            other => asks(other),
        }
    }
    of(condition, false)
}

pub(super) fn innermost(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// Whether an expression asks that anywhere in it, subqueries not looked into.
fn asks(expr: &Expr) -> bool {
    level::any(expr, |expr| match expr {
        Expr::InSubquery { .. } => true,
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            matches!(innermost(right), Expr::Subquery(_))
        }
        _ => false,
    })
}

/// Whether an expression calls an aggregate or a function of a window, outside of subqueries.
pub(crate) fn aggregates(expr: &Expr) -> bool {
    level::any(expr, |expr| is_windowed(expr) || is_aggregate(expr))
}

/// Whether it calls a function of a window.
pub(crate) fn windows(expr: &Expr) -> bool {
    level::any(expr, is_windowed)
}

fn is_windowed(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_some())
}

fn is_aggregate(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let name = function.name.0.last().and_then(|part| part.as_ident());
    let row = name.and_then(|name| table::of(&name.value.to_ascii_lowercase()));
    row.is_some_and(|row| row.kind == Kind::Aggregate)
}
