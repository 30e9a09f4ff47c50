//! Which columns of a result are JSON. It is text to the engine; people want to be told of what type a column is.

use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, TableScan};

use crate::catalog::ColumnKind;
use crate::scan::SegmentTable;

/// Functions that give JSON, or lists of it.
const MAKERS: &[&str] = &[
    "#>",
    "->",
    "as_json",
    "json_build_array",
    "json_build_object",
    "json_elements",
    "json_extract_path",
    "json_members",
    "json_object",
    "json_strip_nulls",
    "json_value",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_extract_path",
    "jsonb_strip_nulls",
    "to_json",
    "to_jsonb",
];
/// Functions whose result is what they are given.
const KEEPING: &[&str] = &["array_element", "coalesce", "nullif"];
/// The same of several rows.
const PICKING: &[&str] = &["any_value", "first_value", "lag", "last_value", "lead", "nth_value"];

/// For each column of a plan whether it is JSON.
pub(crate) fn of_result(plan: &LogicalPlan) -> Vec<bool> {
    (0..plan.schema().fields().len()).map(|place| of_plan(plan, place)).collect()
}

fn of_plan(plan: &LogicalPlan, place: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => of_table(scan, place),
        LogicalPlan::Projection(projection) => of_one(projection.expr.get(place), &projection.input),
        LogicalPlan::Distinct(Distinct::On(on)) => of_one(on.select_expr.get(place), &on.input),
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, place),
        LogicalPlan::Window(window) => match place.checked_sub(window.input.schema().fields().len()) {
            None => of_plan(&window.input, place),
            Some(own) => of_one(window.window_expr.get(own), &window.input),
        },
        LogicalPlan::Join(join) => {
            let left = join.left.schema();
            // A join that only looks whether there is a row on one side has the columns of the other.
            let of_left = join.schema.fields().len() > left.fields().len() || is_of(&join.schema, left);
            match place.checked_sub(left.fields().len()) {
                None if of_left => of_plan(&join.left, place),
                None => of_plan(&join.right, place),
                Some(place) if place < join.right.schema().fields().len() => of_plan(&join.right, place),
                Some(_) => false,
            }
        }
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| of_plan(input, place)),
        LogicalPlan::RecursiveQuery(query) => of_plan(&query.static_term, place),
        LogicalPlan::Unnest(unnest) => {
            unnest.dependency_indices.get(place).is_some_and(|place| of_plan(&unnest.input, *place))
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => {
            plan.inputs().first().is_some_and(|input| of_plan(input, place))
        }
        LogicalPlan::Subquery(subquery) => of_plan(&subquery.subquery, place),
        _ => false,
    }
}

fn is_of(schema: &DFSchema, side: &DFSchema) -> bool {
    schema.columns() == side.columns()
}

fn of_table(scan: &TableScan, place: usize) -> bool {
    let Ok(provider) = source_as_provider(&scan.source) else { return false };
    let Some(table) = provider.downcast_ref::<SegmentTable>() else { return false };
    let name = scan.projected_schema.field(place).name();
    table.spec.columns.iter().any(|column| column.name == *name && column.kind == ColumnKind::Json)
}

fn of_aggregate(aggregate: &Aggregate, place: usize) -> bool {
    let keys = grouping_set_to_exprlist(&aggregate.group_expr).unwrap_or_default();
    if let Some(key) = keys.get(place) {
        return of_expr(key, &aggregate.input);
    }
    // Behind the keys comes which of them a row has, where that is told.
    let own = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    of_one(place.checked_sub(own).and_then(|own| aggregate.aggr_expr.get(own)), &aggregate.input)
}

fn of_one(expr: Option<&Expr>, input: &Arc<LogicalPlan>) -> bool {
    expr.is_some_and(|expr| of_expr(expr, input))
}

fn of_expr(expr: &Expr, input: &LogicalPlan) -> bool {
    let named = |column: &Column| input.schema().maybe_index_of_column(column);
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, input),
        Expr::Column(column) => named(column).is_some_and(|place| of_plan(input, place)),
        Expr::ScalarFunction(call) if MAKERS.contains(&call.name()) => true,
        Expr::ScalarFunction(call) if call.name() == "||" => {
            call.args.iter().all(|argument| of_expr(argument, input))
        }
        Expr::ScalarFunction(call) if KEEPING.contains(&call.name()) => {
            call.args.first().is_some_and(|argument| of_expr(argument, input))
        }
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            results.into_iter().any(|result| of_expr(result, input))
        }
        Expr::AggregateFunction(call) if PICKING.contains(&call.func.name()) => {
            call.params.args.first().is_some_and(|argument| of_expr(argument, input))
        }
        Expr::WindowFunction(call) if PICKING.contains(&call.fun.name()) => {
            call.params.args.first().is_some_and(|argument| of_expr(argument, input))
        }
        Expr::ScalarSubquery(subquery) => of_plan(&subquery.subquery, 0),
        _ => false,
    }
}
