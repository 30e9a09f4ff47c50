//! Statements that look for the newest row of each value, over the table that keeps exactly those.
//!
//! `readings` has a table beside it that keeps the newest row of each URL (`snapshot/newest`). A statement that numbers
//! the readings of each URL by their time and takes the first, or says `DISTINCT ON (url) … ORDER BY url, scraped_at
//! DESC`, or asks for `max(scraped_at)` by URL, gives the same over that table, a hundredth of the rows. The plan stays
//! as it is; only what it reads is exchanged, and only where it reads all rows of each URL: under it there may be
//! names, and conditions on the URL itself, and nothing else.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, LogicalPlan, Operator, Projection, TableScan, Window,
};

use super::catalog::NewestOf;
use super::scan::SegmentTable;

/// The function that gives 1 to one newest row. (`rank` gives it to all rows of the newest time.)
const NUMBERING: &str = "row_number";

/// Exchanges what is read, wherever that changes nothing.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|node| {
        let input = match &node {
            LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate)
                .into_iter()
                .any(|condition| takes_newest(condition, &filter.input))
                .then(|| exchanged(&node))
                .flatten(),
            LogicalPlan::Aggregate(aggregate) => {
                asks_newest_time(&aggregate.group_expr, &aggregate.aggr_expr, &aggregate.input)
                    .then(|| exchanged(&node))
                    .flatten()
            }
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let order = on.sort_expr.as_deref().unwrap_or_default();
                takes_first(&on.on_expr, order, &on.input).then(|| exchanged(&node)).flatten()
            }
            _ => None,
        };
        Ok(match input {
            Some(exchanged) => Transformed::yes(exchanged),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// `number = 1` where the number counts the rows of each value from the newest on.
fn takes_newest(condition: &Expr, input: &LogicalPlan) -> bool {
    let Some(column) = is_first(condition) else { return false };
    let Some(Expr::WindowFunction(window)) = window_behind(input, &column) else { return false };
    let Some((numbered, only)) = window_input(input) else { return false };
    let WindowFunction { fun, params } = window.as_ref();
    only && fun.name() == NUMBERING
        && params.filter.is_none()
        && !params.distinct
        && takes_first(&params.partition_by, &params.order_by, numbered)
}

/// The column of `column = 1`, `column <= 1` or `column < 2`.
fn is_first(condition: &Expr) -> Option<Column> {
    let Expr::BinaryExpr(binary) = condition else { return None };
    let number = |expr: &Expr| match expr {
        // `number < 1.5` is another question.
        Expr::Literal(value, _) if value.data_type().is_integer() => value.cast_to(&DataType::Int64).ok(),
        _ => None,
    };
    let (column, operator, value) = match (signed(&binary.left), signed(&binary.right)) {
        (Expr::Column(column), value) => (column, binary.op, number(value)?),
        (value, Expr::Column(column)) => (column, binary.op.swap()?, number(value)?),
        _ => return None,
    };
    let first = matches!(
        (operator, value),
        (Operator::Eq | Operator::LtEq, ScalarValue::Int64(Some(1)))
            | (Operator::Lt, ScalarValue::Int64(Some(2)))
    );
    first.then(|| column.clone())
}

/// What stands in a cast to a number with a sign, which a comparison puts around what counts.
fn signed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Int64 => &cast.expr,
        other => other,
    }
}

/// The window function that a column is, looked for through names and projections.
fn window_behind<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<&'a Expr> {
    let index = plan.schema().index_of_column(column).ok()?;
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            window_behind(&alias.input, &Column::from(alias.input.schema().qualified_field(index)))
        }
        LogicalPlan::Projection(projection) => match unaliased(projection.expr.get(index)?) {
            Expr::Column(inner) => window_behind(&projection.input, inner),
            _ => None,
        },
        LogicalPlan::Window(window) => {
            let first = window.input.schema().fields().len();
            window.window_expr.get(index.checked_sub(first)?).map(unaliased)
        }
        _ => None,
    }
}

/// What the window below names and projections reads, and whether it computes nothing else.
fn window_input(plan: &LogicalPlan) -> Option<(&LogicalPlan, bool)> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => window_input(&alias.input),
        LogicalPlan::Projection(projection) => window_input(&projection.input),
        LogicalPlan::Window(window) => Some((&window.input, window.window_expr.len() == 1)),
        _ => None,
    }
}

/// Whether the first row of each `partition` in this order is the one that is kept.
fn takes_first(partition: &[Expr], order: &[Sort], input: &LogicalPlan) -> bool {
    let [Expr::Column(by)] = partition else { return false };
    let Some((newest, by_name)) = kept_for(input, by) else { return false };
    let mut order = order.iter().filter(|sort| !is_column(&sort.expr, input, &newest.by));
    match (order.next(), order.next()) {
        (Some(time), None) => by_name == newest.by && !time.asc && is_column(&time.expr, input, &newest.at),
        _ => false,
    }
}

/// `max(time)` by value, and nothing else.
fn asks_newest_time(groups: &[Expr], aggregates: &[Expr], input: &LogicalPlan) -> bool {
    let [Expr::Column(by)] = groups else { return false };
    let Some((newest, by_name)) = kept_for(input, by) else { return false };
    let is_newest = |aggregate: &Expr| match unaliased(aggregate) {
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let [argument] = params.args.as_slice() else { return false };
            func.name() == "max" && params.filter.is_none() && is_column(argument, input, &newest.at)
        }
        _ => false,
    };
    by_name == newest.by && !aggregates.is_empty() && aggregates.iter().all(is_newest)
}

/// Which rows are kept of the one table that is read below, if every row of each value is read, and the table's name
/// of `by`.
fn kept_for(plan: &LogicalPlan, by: &Column) -> Option<(NewestOf, String)> {
    let (scan, name) = origin(plan, by)?;
    let provider = segment_table(scan)?;
    let table = provider.downcast_ref::<SegmentTable>()?;
    table.kept.get()?;
    let newest = table.newest.clone()?;
    reads_all(plan, &newest.by).then_some((newest, name))
}

fn segment_table(scan: &TableScan) -> Option<Arc<dyn datafusion::catalog::TableProvider>> {
    source_as_provider(&scan.source).ok()
}

/// Whether everything between here and the table leaves all rows of a value, or none.
fn reads_all(plan: &LogicalPlan, by: &str) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => scan.filters.is_empty() && scan.fetch.is_none(),
        LogicalPlan::SubqueryAlias(alias) => reads_all(&alias.input, by),
        LogicalPlan::Projection(projection) => reads_all(&projection.input, by),
        LogicalPlan::Filter(filter) => {
            let named = filter.predicate.column_refs();
            let on_value =
                named.iter().all(|column| origin(&filter.input, column).is_some_and(|(_, name)| name == by));
            on_value
                && !named.is_empty()
                && !filter.predicate.is_volatile()
                && !has_subquery(&filter.predicate)
                && reads_all(&filter.input, by)
        }
        _ => false,
    }
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
        ))
    })
    .unwrap_or(true)
}

/// The table's column that a column is, through names, plain projections and conditions.
fn origin<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<(&'a TableScan, String)> {
    let index = plan.schema().index_of_column(column).ok()?;
    match plan {
        LogicalPlan::TableScan(scan) => Some((scan, scan.projected_schema.field(index).name().clone())),
        LogicalPlan::SubqueryAlias(alias) => {
            origin(&alias.input, &Column::from(alias.input.schema().qualified_field(index)))
        }
        LogicalPlan::Projection(projection) => match unaliased(projection.expr.get(index)?) {
            Expr::Column(inner) => origin(&projection.input, inner),
            _ => None,
        },
        LogicalPlan::Filter(filter) => origin(&filter.input, column),
        _ => None,
    }
}

fn is_column(expr: &Expr, input: &LogicalPlan, name: &str) -> bool {
    match expr {
        Expr::Column(column) => origin(input, column).is_some_and(|(_, own)| own == name),
        _ => false,
    }
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// The rows of `input`, of which each is the only one of its value, with their number: 1. It saves sorting them.
fn all_first(window: &Window, input: LogicalPlan) -> Option<LogicalPlan> {
    let own = input.schema().columns().into_iter().map(Expr::Column);
    let numbers = window.window_expr.iter().zip(window.schema.iter().skip(input.schema().fields().len()));
    let first = |(_, (qualifier, field)): (&Expr, (Option<&TableReference>, &FieldRef))| {
        let one = Expr::Literal(ScalarValue::UInt64(Some(1)), None);
        one.alias_qualified(qualifier.cloned(), field.name())
    };
    let exprs = own.chain(numbers.map(first)).collect();
    // As the window has it; a window of several functions never comes here.
    let projection = Projection::try_new_with_schema(exprs, Arc::new(input), Arc::clone(&window.schema));
    projection.ok().map(LogicalPlan::Projection)
}

/// The same plan over the table that keeps the newest rows. What numbers them is in its own plan only under the condition
/// that takes the first.
fn exchanged(plan: &LogicalPlan) -> Option<LogicalPlan> {
    if let LogicalPlan::TableScan(scan) = plan {
        let provider = segment_table(scan)?;
        let kept = provider.downcast_ref::<SegmentTable>()?.kept.get()?;
        let source = provider_as_source(Arc::clone(kept) as _);
        return Some(LogicalPlan::TableScan(TableScan { source, ..scan.clone() }));
    }
    let inputs = plan.inputs();
    let [input] = inputs.as_slice() else { return None };
    let input = exchanged(input)?;
    if let LogicalPlan::Window(window) = plan {
        return all_first(window, input);
    }
    // `with_new_exprs` panics at an order here.
    if let LogicalPlan::Distinct(Distinct::On(on)) = plan {
        let (on_expr, select_expr) = (on.on_expr.clone(), on.select_expr.clone());
        let on = DistinctOn::try_new(on_expr, select_expr, on.sort_expr.clone(), Arc::new(input)).ok()?;
        return Some(LogicalPlan::Distinct(Distinct::On(on)));
    }
    plan.with_new_exprs(plan.expressions(), vec![input]).ok()
}
