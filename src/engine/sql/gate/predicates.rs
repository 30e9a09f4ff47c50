//! EXISTS and IN over a subquery where their truth is a value: in SELECT, GROUP BY and ORDER BY, anywhere inside.
//!
//! DataFusion joins by them in WHERE, HAVING and ON, and cannot run them elsewhere. Elsewhere they are counted: how many rows
//! there are is a value, which it can run, also for each row outside.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Distinct, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, LimitClause, OrderByKind, Query, Select,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, UnaryOperator, Value, ValueWithSpan,
    VisitMut, VisitorMut,
};

use super::dialect::{binary, call, nested, number, taken, template};
use super::{forms, joins};

/// Makes counts of them in what is selected and grouped by.
pub(super) fn in_select(select: &mut Select) {
    for item in &mut select.projection {
        counted(item);
    }
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
        exprs.iter_mut().for_each(counted);
    }
    if let Some(Distinct::On(exprs)) = &mut select.distinct {
        exprs.iter_mut().for_each(counted);
    }
}

/// The same in an order.
pub(super) fn in_order(query: &mut Query) {
    if let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        order.iter_mut().for_each(|by| counted(&mut by.expr));
    }
}

fn counted(part: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = part.visit(&mut Counted { depth: 0 });
}

struct Counted {
    depth: usize,
}

impl VisitorMut for Counted {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
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
        ControlFlow::Continue(())
    }
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
    counting(query, None)
}

/// `SELECT count(*) FROM (query) AS "__q" WHERE condition`; in the condition the query's one column is `"__1"`.
fn counting(query: Query, condition: Option<Expr>) -> Query {
    let mut counting = template();
    if let SetExpr::Select(select) = counting.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(all_counted())];
        let column = TableAliasColumnDef { name: Ident::with_quote('"', COLUMN), data_type: None };
        let columns = condition.iter().map(|_| column.clone()).collect();
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

/// The one column of a query that is asked about.
const COLUMN: &str = "__1";

/// `left IN (query)`: true when a row is equal; else NULL when that cannot be said, because a row is NULL, or the value is
/// and there are rows.
fn is_in(left: Expr, query: &Query) -> Expr {
    let column = || Expr::Identifier(Ident::with_quote('"', COLUMN));
    let any = |condition: Option<Expr>| {
        let counted = Expr::Subquery(Box::new(counting(query.clone(), condition)));
        nested(binary(counted, BinaryOperator::Gt, number("0")))
    };
    let equal = any(Some(binary(column(), BinaryOperator::Eq, nested(left.clone()))));
    let no_value = binary(Expr::IsNull(Box::new(nested(left))), BinaryOperator::And, any(None));
    let no_row = any(Some(Expr::IsNull(Box::new(column()))));
    let unknown = binary(nested(no_value), BinaryOperator::Or, no_row);
    // `equal OR NULL` is true or NULL; `equal OR false` true or false.
    let null = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::Null)),
        data_type: DataType::Boolean,
        array: false,
        format: None,
    };
    let otherwise = nested(binary(nested(unknown), BinaryOperator::And, null));
    binary(equal, BinaryOperator::Or, otherwise)
}

/// `ARRAY(SELECT x FROM … ORDER BY y)` as an aggregate; none of a query whose rows are not those of its FROM.
pub(super) fn array_of(query: &Query) -> Option<Expr> {
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
        let by_number =
            matches!(&by.expr, Expr::Value(ValueWithSpan { value: Value::Number(one, _), .. }) if one == "1");
        if by_number || alias.as_ref().is_some_and(|alias| joins::is_column(&by.expr, alias)) {
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
    // There is none of no rows.
    Some(call("coalesce", vec![Expr::Subquery(Box::new(query)), call("make_array", Vec::new())]))
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
    !groups && !aggregates && select.having.is_none() && !select.from.is_empty()
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
