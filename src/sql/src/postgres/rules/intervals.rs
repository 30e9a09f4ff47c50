//! Comparing spans of time.
//!
//! `ended_at - started_at > INTERVAL '1 day'` is false in DataFusion even for 31 days: the difference is a number of
//! nanoseconds and the literal one day, and it compares field by field. PostgreSQL compares with 24 hours a day and 30
//! days a month. So where spans are compared, and one of them has months or days of its own, their lengths are.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    AggregateUDF, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Union,
    WindowFunctionDefinition, cast,
};

use crate::errors::{QueryError, told};
use crate::postgres::table::{self, Spans};
use crate::postgres::{of_spans, span_length, span_of, span_picked};

/// A comparison of spans.
pub(super) fn comparison(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(binary) if compares(binary.op) => vec![&mut binary.left, &mut binary.right],
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::InList(list) => std::iter::once(list.expr.as_mut()).chain(&mut list.list).collect(),
        _ => return Ok(Transformed::no(expr)),
    };
    let kind = |side: &Expr| side.get_type(schema).ok();
    if !sides.iter().any(|side| matches!(kind(side), Some(DataType::Interval(_)))) {
        return Ok(Transformed::no(expr));
    }
    // Only sides that are themselves spans: in `at + INTERVAL '1 month' > now()` a month must stay a month.
    for side in sides {
        length_of(side, schema);
    }
    Ok(Transformed::yes(expr))
}

/// Where the difference of two times and another span stand in each other's stead, both are spans: of days and the clock, as
/// PostgreSQL's difference is. DataFusion makes nanoseconds of it, which are 292 years at most.
pub(super) fn alike(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::ScalarFunction(call) if table::is_uniform(call.name()) => call.args.iter_mut().collect(),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            results.chain(case.else_expr.as_deref_mut()).collect()
        }
        _ => return Transformed::no(expr),
    };
    let is =
        |side: &Expr, wanted: fn(&DataType) -> bool| side.get_type(schema).is_ok_and(|kind| wanted(&kind));
    if !sides.iter().any(|side| is(side, |kind| matches!(kind, DataType::Interval(_)))) {
        return Transformed::no(expr);
    }
    let mut changed = false;
    for side in sides {
        if is(side, |kind| matches!(kind, DataType::Duration(_))) {
            *side = span_of(std::mem::take(side));
            changed = true;
        }
    }
    Transformed::new_transformed(expr, changed)
}

/// The difference of two times where more is done with it than to compare it or to take it apart: a span of days and the clock, for
/// each of the two is added and multiplied by itself.
pub(super) fn spelled_out(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::Negative(inner) => vec![inner.as_mut()],
        Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::Interval(_)) => {
            vec![cast.expr.as_mut()]
        }
        Expr::ScalarFunction(call)
            if !table::is_uniform(call.name())
                && table::of(call.name()).is_none_or(|row| !row.takes_differences) =>
        {
            call.args.iter_mut().collect()
        }
        _ => return Transformed::no(expr),
    };
    let mut changed = false;
    for side in sides {
        if matches!(side.get_type(schema), Ok(DataType::Duration(_))) {
            *side = span_of(std::mem::take(side));
            changed = true;
        }
    }
    Transformed::new_transformed(expr, changed)
}

/// The sides of a UNION, of which one gives spans where another gives differences of two times.
pub(super) fn united(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(union) = &node else { return Ok(node) };
    let kinds = |place: usize| {
        union
            .inputs
            .iter()
            .filter_map(move |input| input.schema().fields().get(place).map(|field| field.data_type()))
    };
    let is_mixed = |place: usize| {
        kinds(place).any(|kind| matches!(kind, DataType::Interval(_)))
            && kinds(place).any(|kind| matches!(kind, DataType::Duration(_)))
    };
    let width = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    let mixed: Vec<usize> = (0..width).filter(|place| is_mixed(*place)).collect();
    if mixed.is_empty() {
        return Ok(node);
    }
    let inputs = union.inputs.iter().map(|input| -> Result<Arc<LogicalPlan>> {
        let columns = input.schema().columns().into_iter().enumerate();
        let columns = columns.map(|(place, column)| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            match mixed.contains(&place) {
                true => span_of(Expr::Column(column)).alias_qualified(relation, name),
                false => Expr::Column(column),
            }
        });
        let spans = Projection::try_new(columns.collect(), Arc::clone(input))?;
        Ok(Arc::new(LogicalPlan::Projection(spans)))
    });
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?))
}

/// Where spans are ordered, or taken for one, by something else than a comparison: by their lengths; refused where what comes out
/// would be one of several spans of one length.
pub(super) fn ordered(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_span = |side: &Expr| is_span(side, schema);
    let mut changed = false;
    match &mut expr {
        Expr::ScalarFunction(call) if call.args.iter().any(is_span) => {
            let picked = span_picked(call.name(), call.args.clone());
            return Ok(picked.map_or_else(|| Transformed::no(expr), Transformed::yes));
        }
        Expr::Case(case) => {
            let Some(of) = case.expr.as_deref_mut() else { return Ok(Transformed::no(expr)) };
            let mut sides: Vec<&mut Expr> = std::iter::once(of)
                .chain(case.when_then_expr.iter_mut().map(|(when, _)| &mut **when))
                .collect();
            if sides.iter().any(|side| is_span(side)) {
                sides.iter_mut().for_each(|side| length_of(side, schema));
                changed = true;
            }
        }
        Expr::InSubquery(within) => {
            let columns = within.subquery.subquery.schema();
            let [column] = columns.columns().try_into().unwrap_or([Column::from_name("")]);
            let column = Expr::Column(column);
            if is_span(&within.expr) || matches!(column.get_type(columns), Ok(DataType::Interval(_))) {
                length_of(&mut within.expr, schema);
                let plan = Arc::clone(&within.subquery.subquery);
                let lengths = Projection::try_new(vec![span_length(column)], plan)?;
                within.subquery.subquery = Arc::new(LogicalPlan::Projection(lengths));
                changed = true;
            }
        }
        Expr::AggregateFunction(call) => changed = aggregated(call, schema)?,
        Expr::WindowFunction(call) => changed = windowed(call, schema)?,
        _ => {}
    }
    Ok(Transformed::new_transformed(expr, changed))
}

fn is_span(side: &Expr, schema: &DFSchema) -> bool {
    matches!(side.get_type(schema), Ok(DataType::Interval(_)))
}

/// Puts a span's length in its place; whether it was one.
fn by_length(side: &mut Expr, schema: &DFSchema) -> bool {
    let found = is_span(side, schema);
    if found {
        *side = span_length(std::mem::take(side));
    }
    found
}

/// An aggregate of spans, or in the order of some; whether it was changed.
fn aggregated(call: &mut AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    let (name, params) = (call.func.name().to_owned(), &mut call.params);
    let does = spans_of(&name);
    if let Some(function) = total(does, params.distinct, &mut params.args, schema)? {
        call.func = function;
        changed = true;
    }
    for by in &mut params.order_by {
        changed |= by_length(&mut by.expr, schema);
    }
    if !params.args.iter().any(|arg| is_span(arg, schema)) {
        return Ok(changed);
    }
    match does {
        Some(Spans::Least | Spans::Greatest) => {
            // NULL comes last: it is none of them while there are others.
            let length = span_length(params.args[0].clone());
            params.order_by = vec![length.sort(does == Some(Spans::Least), false)];
            params.distinct = false;
            call.func = first_value_udaf();
            changed = true;
        }
        Some(Spans::Counted) if params.distinct => {
            params.args.iter_mut().for_each(|arg| {
                by_length(arg, schema);
            });
            changed = true;
        }
        Some(Spans::Refused) => return refused(&format!("{name} of intervals")),
        _ if params.distinct => return refused("DISTINCT of intervals"),
        _ => {}
    }
    Ok(changed)
}

/// A function over a window, likewise.
fn windowed(call: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    let name = call.fun.name().to_owned();
    let params = &mut call.params;
    let does = spans_of(&name);
    let is_picked = matches!(does, Some(Spans::Least | Spans::Greatest | Spans::Refused));
    if is_picked && params.args.iter().any(|arg| is_span(arg, schema)) {
        return refused(&format!("{name} of intervals over a window"));
    }
    if let Some(function) = total(does, params.distinct, &mut params.args, schema)? {
        call.fun = WindowFunctionDefinition::AggregateUDF(function);
        changed = true;
    }
    for key in &mut params.partition_by {
        changed |= by_length(key, schema);
    }
    for by in &mut params.order_by {
        changed |= by_length(&mut by.expr, schema);
    }
    Ok(changed)
}

/// What an aggregate does with spans.
fn spans_of(name: &str) -> Option<Spans> {
    table::of(name)?.spans
}

/// The function of ours that a sum or an average of spans is.
fn total(
    does: Option<Spans>,
    distinct: bool,
    args: &mut [Expr],
    schema: &DFSchema,
) -> Result<Option<Arc<AggregateUDF>>> {
    let (Some(Spans::Summed | Spans::Averaged), [arg]) = (does, args) else { return Ok(None) };
    let is_span =
        |arg: &Expr| matches!(arg.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)));
    if !is_span(arg) {
        return Ok(None);
    }
    if distinct {
        return refused("DISTINCT of intervals");
    }
    // What was put around it for other types.
    if let Expr::ScalarFunction(around) = arg
        && around.name() == "to_averaged"
        && let Some(inner) = around.args.pop()
    {
        *arg = inner;
    }
    Ok(Some(of_spans(does == Some(Spans::Averaged))))
}

/// The length of a span that is compared with others; one that is written as a text is one too.
fn length_of(side: &mut Expr, schema: &DFSchema) {
    match side.get_type(schema).ok() {
        Some(DataType::Interval(_) | DataType::Duration(_)) => *side = span_length(std::mem::take(side)),
        Some(text) if text.is_string() => {
            let span = cast(std::mem::take(side), DataType::Interval(IntervalUnit::MonthDayNano));
            *side = span_length(span);
        }
        _ => {}
    }
}

/// Whether a step puts rows into an order, or together, by expressions of its own.
pub(super) fn has_keys(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Sort(_) | LogicalPlan::Join(_))
}

/// A key of such a step.
pub(super) fn key(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr.get_type(schema) {
        Ok(DataType::Interval(_)) => Transformed::yes(span_length(expr)),
        _ => Transformed::no(expr),
    }
}

/// DISTINCT ON, whose order may be one of spans.
pub(super) fn first_of_each(mut node: LogicalPlan) -> LogicalPlan {
    if let LogicalPlan::Distinct(Distinct::On(on)) = &mut node {
        let schema = Arc::clone(on.input.schema());
        for by in on.sort_expr.iter_mut().flatten() {
            by.expr = key(std::mem::take(&mut by.expr), &schema).data;
        }
    }
    node
}

/// Refuses a step that makes one row of those that are alike, where spans are among what they are compared by: of 24 hours and one
/// day, which are alike in PostgreSQL, DataFusion makes two.
pub(super) fn check(node: &LogicalPlan) -> Result<()> {
    let is_span = |schema: &DFSchema, expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
    let found = match node {
        LogicalPlan::Aggregate(aggregate) => {
            let schema = aggregate.input.schema();
            aggregate.group_expr.iter().any(|key| match key {
                Expr::GroupingSet(sets) => sets.distinct_expr().into_iter().any(|key| is_span(schema, key)),
                key => is_span(schema, key),
            })
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            input.schema().fields().iter().any(|field| matches!(field.data_type(), DataType::Interval(_)))
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            on.on_expr.iter().any(|key| is_span(on.input.schema(), key))
        }
        _ => false,
    };
    if found { refused("GROUP BY, DISTINCT or UNION of intervals") } else { Ok(()) }
}

fn refused<T>(what: &str) -> Result<T> {
    let text =
        format!("{what} is not available here: use extract(epoch FROM …), which is a number of seconds.");
    Err(told(QueryError::invalid(text)))
}

pub(super) fn compares(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
