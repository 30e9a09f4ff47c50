//! EXISTS and IN over a subquery where their truth is a value: in SELECT, GROUP BY and ORDER BY, anywhere inside.
//!
//! DataFusion joins by them in WHERE, HAVING and ON, and cannot run them elsewhere. Elsewhere they are counted: how many rows
//! there are is a value, which it can run, also for each row outside.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Distinct, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, LimitClause, OrderByKind, Query, Select,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, UnaryOperator, Value, ValueWithSpan,
    Visit, Visitor,
};

use super::written::{binary, call, nested, number, taken, template};
use super::{forms, joins, level, sets};

/// Makes counts of them in what is selected and grouped by.
pub(super) fn in_select(select: &mut Select) {
    values_mut(select, counted);
}

/// Gives `change` what of a SELECT is a value ([`values_of`]).
fn values_mut(select: &mut Select, change: fn(&mut Expr)) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            change(expr);
        }
    }
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
        exprs.iter_mut().for_each(change);
    }
    if let Some(Distinct::On(exprs)) = &mut select.distinct {
        exprs.iter_mut().for_each(change);
    }
    select.qualify.iter_mut().for_each(change);
}

/// What of a SELECT is a value: its truth may be NULL there, which in WHERE, HAVING and ON is the same as false.
pub(crate) fn values_of(select: &Select) -> impl Iterator<Item = &Expr> {
    let selected = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let groups: &[Expr] = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => exprs,
        GroupByExpr::All(_) => &[],
    };
    let on: &[Expr] = match &select.distinct {
        Some(Distinct::On(exprs)) => exprs,
        _ => &[],
    };
    selected.chain(groups).chain(on).chain(&select.qualify)
}

/// `x = ANY (query)` and its like in what is selected and grouped by, with NULL where that cannot be said.
pub(super) fn open_in_select(select: &mut Select) {
    values_mut(select, opened);
}

/// The same in an order.
pub(super) fn open_in_order(query: &mut Query) {
    order_mut(query, opened);
}

fn order_mut(query: &mut Query, change: fn(&mut Expr)) {
    if let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        order.iter_mut().for_each(|by| change(&mut by.expr));
    }
}

fn opened(value: &mut Expr) {
    level::each(value, |expr| {
        if let Some(open) = Open::of(expr).and_then(|open| open.value()) {
            *expr = open;
        }
    });
}

/// Whether it is one of those whose truth as a value is not worked out here.
pub(super) fn has_no_value(expr: &Expr) -> bool {
    Open::of(expr).is_some_and(|open| open.value().is_none())
}

/// A comparison of one or several values with the rows of a query.
struct Open {
    members: Vec<Expr>,
    op: BinaryOperator,
    query: Query,
    /// With all rows, and not with any.
    is_all: bool,
    /// NOT stands before it.
    negated: bool,
}

impl Open {
    /// None of what is none, or is right as it stands: a single value IN a query.
    fn of(expr: &Expr) -> Option<Open> {
        let (left, op, right, is_all) = match expr {
            Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
            Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
            Expr::InSubquery { expr: left, subquery, negated } => {
                let members = forms::members(left)?;
                let query = subquery.as_ref().clone();
                return Some(Open {
                    members,
                    op: BinaryOperator::Eq,
                    query,
                    is_all: false,
                    negated: *negated,
                });
            }
            _ => return None,
        };
        let Expr::Subquery(query) = forms::innermost(right) else { return None };
        let members = forms::members(left).unwrap_or_else(|| vec![left.as_ref().clone()]);
        Some(Open { members, op: op.clone(), query: query.as_ref().clone(), is_all, negated: false })
    }

    /// Its truth as a value, where that can be had.
    fn value(self) -> Option<Expr> {
        let Open { mut members, op, query, is_all, negated } = self;
        if let ([_], BinaryOperator::Eq, false) | ([_], BinaryOperator::NotEq, true) =
            (members.as_slice(), &op, is_all)
        {
            let expr = Box::new(members.pop()?);
            return Some(Expr::InSubquery { expr, subquery: Box::new(query), negated: is_all });
        }
        let (is_all, negated) = match (members.len(), &op) {
            (1, _) | (_, BinaryOperator::Eq) if !is_all || members.len() == 1 => (is_all, negated),
            // Unlike all of them is not like any.
            (_, BinaryOperator::NotEq) if is_all => (false, !negated),
            _ => return None,
        };
        let op = if members.len() > 1 { BinaryOperator::Eq } else { op };
        // By a column from outside the planner joins where it is equal, and cannot tell what is open.
        let may_be_copied = members.iter().all(forms::is_small) && forms::is_small(&query);
        if sets::names_columns(&members) || !may_be_copied || nested_in(&query) > NESTED_MAX {
            return None;
        }
        let width = members.len();
        let compared = members.into_iter().enumerate();
        let compared = compared.map(|(place, member)| binary(nested(member), op.clone(), column(place)));
        let all = compared.reduce(|all, one| binary(all, BinaryOperator::And, one))?;
        let any = |condition: Expr| {
            let counted = Expr::Subquery(Box::new(counting(query.clone(), width, Some(condition))));
            nested(binary(counted, BinaryOperator::Gt, number("0")))
        };
        let decides = match is_all {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(all.clone())) },
            false => all.clone(),
        };
        let decided = any(decides);
        let truth = nested(or_unknown(decided, any(Expr::IsNull(Box::new(nested(all))))));
        Some(match is_all != negated {
            true => nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(truth) }),
            false => truth,
        })
    }
}

/// Most levels of such comparisons in the query of another one. Each is written twice, and all that is in it with it.
const NESTED_MAX: usize = 2;

/// How many levels of comparisons with all or any rows there are in a query.
fn nested_in(query: &Query) -> usize {
    struct Levels {
        depth: usize,
        most: usize,
    }
    fn compares(expr: &Expr) -> bool {
        match expr {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                matches!(forms::innermost(right), Expr::Subquery(_))
            }
            Expr::InSubquery { expr: left, .. } => forms::members(left).is_some(),
            _ => false,
        }
    }
    impl Visitor for Levels {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.depth += usize::from(compares(expr));
            self.most = self.most.max(self.depth);
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.depth -= usize::from(compares(expr));
            ControlFlow::Continue(())
        }
    }
    let mut levels = Levels { depth: 0, most: 0 };
    let _ = query.visit(&mut levels);
    levels.most
}

/// Makes counts in an order.
pub(super) fn in_order(query: &mut Query) {
    order_mut(query, counted);
}

fn counted(value: &mut Expr) {
    level::each(value, |expr| {
        let other = match expr {
            Expr::Exists { subquery, negated } => Some((has_rows((**subquery).clone()), *negated)),
            Expr::InSubquery { expr: left, subquery, negated } if forms::is_small(subquery.as_ref()) => {
                Some((is_in(taken(left), subquery), *negated))
            }
            _ => None,
        };
        if let Some((truth, negated)) = other {
            let truth = nested(truth);
            *expr = match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(truth) },
                false => truth,
            };
        }
    });
}

/// Whether a query has rows, as `(SELECT count(*) …) > 0`.
fn has_rows(query: Query) -> Expr {
    binary(Expr::Subquery(Box::new(count(query))), BinaryOperator::Gt, number("0"))
}

/// How many rows a query has; of one without groups and the like by its own SELECT, so that a condition which names a
/// column from outside stays where the planner looks for it.
fn count(mut query: Query) -> Query {
    let cuts = match &query.limit_clause {
        None => false,
        // As many as there are, or at least one of them, which is all that is asked.
        Some(LimitClause::LimitOffset { limit, offset: None, limit_by }) if limit_by.is_empty() => {
            !limit.as_ref().is_none_or(is_positive)
        }
        Some(_) => true,
    };
    let plain = query.with.is_none() && query.fetch.is_none() && !cuts;
    if let SetExpr::Select(select) = query.body.as_mut()
        && plain
        && is_ungrouped(select)
    {
        select.projection = vec![SelectItem::UnnamedExpr(all_counted())];
        select.distinct = None;
        query.order_by = None;
        query.limit_clause = None;
        return query;
    }
    counting(query, 0, None)
}

/// `SELECT count(*) FROM (query) AS "__q" WHERE condition`; in the condition the query's columns, of which there are so many,
/// are `"__1"`, `"__2"` and so on.
fn counting(query: Query, width: usize, condition: Option<Expr>) -> Query {
    let width = if condition.is_some() { width } else { 0 };
    over(query, width, SelectItem::UnnamedExpr(all_counted()), condition)
}

/// `SELECT item FROM (query) AS "__q" WHERE condition`.
fn over(query: Query, width: usize, item: SelectItem, condition: Option<Expr>) -> Query {
    let mut counting = template();
    if let SetExpr::Select(select) = counting.body.as_mut() {
        select.projection = vec![item];
        let column = |place| TableAliasColumnDef { name: column_name(place), data_type: None };
        let columns = (0..width).map(column).collect();
        select.selection = condition;
        let name = Ident::with_quote('"', "__q");
        let own = TableAlias { explicit: true, name, columns, at: None };
        if let Some(TableFactor::Derived { subquery, alias, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            (**subquery, *alias) = (query, Some(own));
        }
    }
    counting
}

/// A column of a query that is asked about, by its place.
fn column(place: usize) -> Expr {
    Expr::Identifier(column_name(place))
}

fn column_name(place: usize) -> Ident {
    Ident::with_quote('"', format!("__{}", place + 1))
}

/// `left IN (query)`: true when a row is equal; else NULL when that cannot be said, because a row is NULL, or the value is
/// and there are rows.
fn is_in(left: Expr, query: &Query) -> Expr {
    let column = || column(0);
    let any = |condition: Option<Expr>| {
        let counted = Expr::Subquery(Box::new(counting(query.clone(), 1, condition)));
        nested(binary(counted, BinaryOperator::Gt, number("0")))
    };
    let equal = any(Some(binary(column(), BinaryOperator::Eq, nested(left.clone()))));
    let no_value = binary(Expr::IsNull(Box::new(nested(left))), BinaryOperator::And, any(None));
    let no_row = any(Some(Expr::IsNull(Box::new(column()))));
    or_unknown(equal, binary(nested(no_value), BinaryOperator::Or, no_row))
}

/// True where the one is, else NULL where the other is true, else false.
fn or_unknown(truth: Expr, unknown: Expr) -> Expr {
    // `truth OR NULL` is true or NULL; `truth OR false` true or false.
    let null = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::Null)),
        data_type: DataType::Boolean,
        array: false,
        format: None,
    };
    let otherwise = nested(binary(nested(unknown), BinaryOperator::And, null));
    binary(truth, BinaryOperator::Or, otherwise)
}

/// `ARRAY(SELECT x FROM … ORDER BY y)` as an aggregate.
pub(super) fn array_of(query: &Query) -> Option<Expr> {
    let gathered = array_of_rows(query).or_else(|| array_over(query.clone()))?;
    // There is none of no rows.
    Some(call("coalesce", vec![Expr::Subquery(Box::new(gathered)), call("make_array", Vec::new())]))
}

/// The aggregate over the query, whatever it is: `SELECT array_agg("__1" ORDER BY "__2") FROM (query) AS "__q"`, where what it is
/// ordered by is selected too. None where that is not to be had.
fn array_over(mut query: Query) -> Option<Query> {
    let mut order = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(order)) => order.clone(),
        Some(OrderByKind::All(_)) => return None,
        None => Vec::new(),
    };
    let mut width = 1;
    for by in &mut order {
        let own = match query.body.as_mut() {
            SetExpr::Select(select) => match select.projection.as_slice() {
                [SelectItem::UnnamedExpr(value)] => by.expr == *value,
                [SelectItem::ExprWithAlias { expr, alias }] => {
                    by.expr == *expr || joins::is_column(&by.expr, alias)
                }
                [_, ..] if width > 1 => false,
                _ => return None,
            },
            // By the name or the number of its one column.
            _ => true,
        };
        if own || is_number_one(&by.expr) {
            by.expr = column(0);
            continue;
        }
        let SetExpr::Select(select) = query.body.as_mut() else { return None };
        if select.distinct.is_some() {
            return None;
        }
        let key = std::mem::replace(&mut by.expr, column(width));
        width += 1;
        select.projection.push(SelectItem::UnnamedExpr(key));
    }
    let mut members = call("array_agg", vec![column(0)]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut members
        && !order.is_empty()
    {
        list.clauses = vec![FunctionArgumentClause::OrderBy(order)];
    }
    Some(over(query, width, SelectItem::UnnamedExpr(members), None))
}

fn is_number_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(one, _), .. }) if one == "1")
}

/// The aggregate in the query's own SELECT; none of a query whose rows are not those of its FROM.
fn array_of_rows(query: &Query) -> Option<Query> {
    let mut query = query.clone();
    let mut order = match query.order_by.take().map(|order| order.kind) {
        Some(OrderByKind::Expressions(order)) => order,
        Some(OrderByKind::All(_)) => return None,
        None => Vec::new(),
    };
    let plain = query.with.is_none() && query.fetch.is_none() && query.limit_clause.is_none();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    if !plain || select.distinct.is_some() || !is_ungrouped(select) {
        return None;
    }
    let alias = match select.projection.as_slice() {
        [SelectItem::ExprWithAlias { alias, .. }] => Some(alias.clone()),
        _ => None,
    };
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_mut_slice()
    else {
        return None;
    };
    for by in &mut order {
        // By what comes out, under its number or its name.
        if is_number_one(&by.expr) || alias.as_ref().is_some_and(|alias| joins::is_column(&by.expr, alias)) {
            by.expr = value.clone();
        }
    }
    let mut members = call("array_agg", vec![taken(value)]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut members
        && !order.is_empty()
    {
        list.clauses = vec![FunctionArgumentClause::OrderBy(order)];
    }
    *value = members;
    Some(query)
}

fn is_positive(limit: &Expr) -> bool {
    matches!(limit, Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. })
        if digits.parse::<u64>().is_ok_and(|rows| rows > 0))
}

/// Whether a SELECT gives a row for each of its FROM that its WHERE leaves.
fn is_ungrouped(select: &Select) -> bool {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(exprs, more) => !exprs.is_empty() || !more.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let aggregates = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => forms::aggregates(expr),
        _ => false,
    });
    let cuts = select.having.is_some() || select.qualify.is_some();
    !groups && !aggregates && !cuts && !select.from.is_empty() && !sets::has_sets(select)
}

/// `count(*)`.
fn all_counted() -> Expr {
    let mut count = call("count", Vec::new());
    if let Expr::Function(function) = &mut count
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
    }
    count
}

/// Whether a value asks, anywhere in it but in subqueries, what has no value here ([`has_no_value`]).
pub(crate) fn asks_without_value(expr: &impl Visit) -> bool {
    level::any(expr, has_no_value)
}
