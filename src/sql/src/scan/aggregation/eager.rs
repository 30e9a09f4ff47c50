//! Aggregations over a join, begun below it.
//!
//! `SELECT t.tag, count(*), avg(r.price) FROM readings r JOIN url_tags t ON r.url_id = t.url_id GROUP BY t.tag` looks up a tag
//! for each reading, to put the readings of each tag together. It gives the same to put the readings of each URL together
//! first, which is cheap by their codes, and to look up a tag for each URL (Yan and Larson, "Eager Aggregation and Lazy
//! Aggregation", 1995). A state that finds several partners in the join counts several times, as each of its rows would have.
//!
//! It is done where all arguments come from one side, that side is a scan, and what it is grouped by below (its keys of the
//! join and of the groups) is dictionary-encoded, so that there are at most a quarter as many groups as rows.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::super::filter::columns_of;
use super::{AggregateInput, exprs, substituted};

/// Aggregates whose state is of one small size, whatever the number of rows, and fails for none: of a URL that finds no
/// partner in the join a state is made, too. A sum of whole numbers is added up in 128 bits, which no rows fill, and is cut
/// to 64 only where it is given out (`sum.rs`).
#[rustfmt::skip]
const SMALL: &[&str] = &[
    "avg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "corr", "count", "covar_pop", "covar_samp", "max", "min",
    "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "stddev", "stddev_pop", "sum", "var", "var_pop",
];
/// Rows for each group below the join, at least, where several keys make the groups.
const ROWS_PER_GROUP_MIN: usize = 4;

/// Finds those aggregations. It comes before all other rules, so that they see to distribution, conditions and sides.
#[derive(Debug)]
pub(crate) struct EagerAggregations;

impl PhysicalOptimizerRule for EagerAggregations {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match begun_below(&node)? {
            Some(replaced) => Ok(Transformed::yes(replaced)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "eager_aggregations"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An aggregation over a join, with its expressions in terms of the join's columns.
struct Joined<'a> {
    aggregate: &'a AggregateExec,
    join: &'a HashJoinExec,
    groups: Vec<Arc<dyn PhysicalExpr>>,
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
}

impl<'a> Joined<'a> {
    fn of(node: &'a Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
        let groups = aggregate.group_expr();
        let is_simple = *aggregate.mode() == AggregateMode::Partial
            && groups.is_single()
            && !groups.is_empty()
            && aggregate.limit_options().is_none()
            && aggregate.filter_expr().iter().all(Option::is_none)
            && aggregate.aggr_expr().iter().all(|expr| {
                SMALL.contains(&expr.fun().name()) && expr.order_bys().is_empty() && !expr.is_distinct()
            });
        if !is_simple {
            return Ok(None);
        }
        let mut projections = Vec::new();
        let mut input = aggregate.input();
        while let Some(projection) = input.downcast_ref::<ProjectionExec>() {
            projections.push(exprs(projection));
            input = projection.input();
        }
        let Some(join) = input.downcast_ref::<HashJoinExec>() else { return Ok(None) };
        let plain = *join.join_type() == JoinType::Inner
            && join.filter().is_none()
            && !join.contains_projection()
            && join.fetch().is_none();
        if !plain {
            return Ok(None);
        }
        let over = |expr: &Arc<dyn PhysicalExpr>| {
            let over = |expr: Arc<dyn PhysicalExpr>, projection: &Vec<_>| substituted(&expr, projection);
            projections.iter().try_fold(Arc::clone(expr), over)
        };
        let groups: Vec<_> = groups.expr().iter().map(|(expr, _)| over(expr)).collect::<Result<_>>()?;
        let mut arguments = Vec::with_capacity(aggregate.aggr_expr().len());
        for expr in aggregate.aggr_expr() {
            arguments.push(expr.expressions().iter().map(over).collect::<Result<Vec<_>>>()?);
        }
        // Arguments are worked out for rows that the join leaves out, too, at which the statement must not fail.
        let schema = join.schema();
        for argument in arguments.iter().flatten() {
            if !cannot_fail(argument, &schema)? {
                return Ok(None);
            }
        }
        // What is drawn for each row is not drawn for rows put together.
        if groups.iter().any(is_volatile) {
            return Ok(None);
        }
        Ok(Some(Self { aggregate, join, groups, arguments }))
    }

    /// Where a side's columns begin and end in the join's.
    fn range(&self, side: JoinSide) -> std::ops::Range<usize> {
        let left = self.join.left().schema().fields().len();
        match side {
            JoinSide::Left => 0..left,
            _ => left..left + self.join.right().schema().fields().len(),
        }
    }
}

/// Whether an argument is a column, a constant, or a number as a double. Of text a number may not be made.
fn cannot_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let inner = match expr.downcast_ref::<CastExpr>() {
        Some(cast) => {
            let widens = *cast.cast_type() == DataType::Float64;
            if !widens || !cast.expr().data_type(schema)?.is_numeric() {
                return Ok(false);
            }
            cast.expr()
        }
        None => expr,
    };
    Ok(inner.is::<Column>() || inner.is::<Literal>())
}

/// The node with its aggregation begun below the join, if that is worth it.
fn begun_below(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(joined) = Joined::of(node)? else { return Ok(None) };
    for side in [JoinSide::Right, JoinSide::Left] {
        if let Some(keys) = keys(&joined, side)? {
            return rebuilt(&joined, side, &keys).map(Some);
        }
    }
    Ok(None)
}

/// The columns of a side by which its rows are to be put together; none when it cannot be done, or is not worth it.
fn keys(joined: &Joined<'_>, side: JoinSide) -> Result<Option<Vec<usize>>> {
    let range = joined.range(side);
    let own = |expr: &Arc<dyn PhysicalExpr>| columns_of([expr]).iter().all(|column| range.contains(column));
    if !joined.arguments.iter().flatten().all(own) {
        return Ok(None);
    }
    let mut keys: Vec<usize> = Vec::new();
    for (left, right) in joined.join.on() {
        let expr = if side == JoinSide::Left { left } else { right };
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(None) };
        keys.push(column.index());
    }
    for expr in &joined.groups {
        let columns = columns_of([expr]);
        let on_side = columns.iter().filter(|column| range.contains(column)).count();
        // A key that looks at both sides could be worked out above, but is rare.
        if on_side > 0 && on_side < columns.len() {
            return Ok(None);
        }
        keys.extend(
            columns.iter().filter(|column| range.contains(column)).map(|column| column - range.start),
        );
    }
    keys.sort_unstable();
    keys.dedup();
    let input = if side == JoinSide::Left { joined.join.left() } else { joined.join.right() };
    let Some(below) = AggregateInput::under(input, true) else { return Ok(None) };
    let rows: usize = below.scan.sources.iter().map(|source| source.live_rows()).sum();
    let mut groups = 1_usize;
    for key in &keys {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(input.schema().field(*key).name(), *key));
        if below.key(&column)?.is_none() {
            return Ok(None);
        }
        let column = columns_of([&below.over_table(&column)?]);
        let distinct = column.first().map(|column| below.scan.column_statistics(*column).distinct_count);
        let distinct = distinct.and_then(|distinct| distinct.get_value().copied()).unwrap_or(rows);
        groups = groups.saturating_mul(distinct.max(1));
    }
    Ok((groups <= rows / ROWS_PER_GROUP_MIN).then_some(keys))
}

/// The aggregation in two halves: one below the join on a side, by the keys, and one above, of what that gives.
fn rebuilt(joined: &Joined<'_>, side: JoinSide, keys: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
    let Joined { aggregate, join, .. } = joined;
    let range = joined.range(side);
    let is_left = side == JoinSide::Left;
    let below = partial(joined, side, keys)?;
    // Where a column of the join was, and where it is.
    let other = if is_left { joined.range(JoinSide::Right) } else { joined.range(JoinSide::Left) };
    let width = below.schema().fields().len();
    let place = |column: usize| match keys
        .iter()
        .position(|key| range.contains(&column) && *key == column - range.start)
    {
        Some(key) if is_left => key,
        Some(key) => other.len() + key,
        None if is_left => column - other.start + width,
        None => column,
    };
    let on = join.on().iter().map(|(left, right)| {
        let own = |expr: &Arc<dyn PhysicalExpr>| {
            moved(expr, |column| keys.iter().position(|key| *key == column).unwrap_or(column))
        };
        Ok(if is_left { (own(left)?, Arc::clone(right)) } else { (Arc::clone(left), own(right)?) })
    });
    let (left, right) =
        if is_left { (below, Arc::clone(join.right())) } else { (Arc::clone(join.left()), below) };
    let on = on.collect::<Result<Vec<_>>>()?;
    let again = HashJoinExec::try_new(
        left,
        right,
        on,
        None,
        &JoinType::Inner,
        None,
        *join.partition_mode(),
        join.null_equality(),
        false,
    )?;
    let again: Arc<dyn ExecutionPlan> = Arc::new(again);
    let mut columns: Vec<ProjectionExpr> = Vec::new();
    for (expr, (_, name)) in joined.groups.iter().zip(aggregate.group_expr().expr()) {
        columns.push(ProjectionExpr { expr: moved(expr, place)?, alias: name.clone() });
    }
    let states = if is_left { keys.len()..width } else { other.len() + keys.len()..other.len() + width };
    for state in states {
        let name = again.schema().field(state).name().clone();
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&name, state));
        columns.push(ProjectionExpr { expr, alias: name });
    }
    let projected: Arc<dyn ExecutionPlan> = Arc::new(ProjectionExec::try_new(columns, again)?);
    let above = AggregateExec::try_new(
        AggregateMode::PartialReduce,
        aggregate.group_expr().as_final(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        projected,
        aggregate.input_schema(),
    )?;
    Ok(Arc::new(above))
}

/// The half below the join, on a side, by the keys.
fn partial(joined: &Joined<'_>, side: JoinSide, keys: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
    let Joined { aggregate, join, .. } = joined;
    let range = joined.range(side);
    let input = if side == JoinSide::Left { join.left() } else { join.right() };
    let schema = input.schema();
    let mut functions = Vec::with_capacity(joined.arguments.len());
    for (function, arguments) in aggregate.aggr_expr().iter().zip(&joined.arguments) {
        let moved = arguments.iter().map(|argument| moved(argument, |column| column - range.start));
        functions.push(Arc::new(rewritten(function, moved.collect::<Result<_>>()?, &schema)?));
    }
    let key = |key: &usize| {
        let name = schema.field(*key).name();
        (Arc::new(Column::new(name, *key)) as Arc<dyn PhysicalExpr>, name.clone())
    };
    let by = PhysicalGroupBy::new_single(keys.iter().map(key).collect());
    let filters = vec![None; functions.len()];
    let below =
        AggregateExec::try_new(AggregateMode::Partial, by, functions, filters, Arc::clone(input), schema)?;
    Ok(Arc::new(below))
}

/// An expression with its columns at other places.
fn moved(expr: &Arc<dyn PhysicalExpr>, to: impl Fn(usize) -> usize) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(expr).transform(|node| match node.downcast_ref::<Column>() {
        None => Ok(Transformed::no(node)),
        Some(column) => {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), to(column.index())));
            Ok(Transformed::yes(column))
        }
    });
    moved.data()
}

/// The same function of arguments over another schema.
fn rewritten(
    function: &AggregateFunctionExpr,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    schema: &datafusion::arrow::datatypes::SchemaRef,
) -> Result<AggregateFunctionExpr> {
    AggregateExprBuilder::new(Arc::new(function.fun().clone()), arguments)
        .schema(Arc::clone(schema))
        .alias(function.name())
        .with_ignore_nulls(function.ignore_nulls())
        .build()
}
