//! `IN`, `EXISTS` and their opposites over values that repeat.
//!
//! They become semi, anti and mark joins, which in DataFusion look at every pair of equal rows: of 40,000 rows of one domain
//! `domain IN (SELECT domain FROM urls)` looks at 1.6 billion. Only whether there is a row matters, so the side that does not
//! come out is grouped by what the join looks at, once each; it is as it is where that is known to be so. Where one comparison
//! stands beside the equality (`b.id <> a.id`, `b.at > a.at`) the least and the greatest value of each group decide.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, Result};
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator, binary_expr, or,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug)]
pub(super) struct OnceEach;

impl OptimizerRule for OnceEach {
    fn name(&self) -> &str {
        "once_each"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) => grouped(join),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn grouped(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    use JoinType::{LeftAnti, LeftMark, LeftSemi, RightAnti, RightMark, RightSemi};
    let of_right = match join.join_type {
        LeftSemi | LeftAnti | LeftMark => true,
        RightSemi | RightAnti | RightMark => false,
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let looked = if of_right { Arc::clone(&join.right) } else { Arc::clone(&join.left) };
    let keys = join.on.iter().map(|(left, right)| if of_right { right } else { left });
    let mut columns: Vec<Column> = Vec::new();
    let own = |expr: &Expr| {
        let mut own: Vec<Column> = expr.column_refs().into_iter().cloned().collect();
        own.retain(|column| looked.schema().has_column(column));
        own.sort();
        own
    };
    for column in keys.flat_map(own) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    if columns.is_empty() || looked.max_rows().is_some_and(|rows| rows <= 1) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let (mut values, mut filter) = (Vec::new(), join.filter.clone());
    if let Some((extremes, decided)) = filter.as_ref().and_then(|filter| by_extremes(filter, &looked)) {
        (values, filter) = (extremes, Some(decided));
    } else {
        for column in filter.iter().flat_map(own) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    if values.is_empty() && is_unique(&looked, &columns) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let keys = columns.into_iter().map(Expr::Column).collect();
    let once = Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(looked, keys, values)?));
    let side = if of_right { &mut join.right } else { &mut join.left };
    *side = once;
    join.filter = filter;
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// What of each group decides a comparison with the other side, and the comparison with that instead.
fn by_extremes(filter: &Expr, looked: &LogicalPlan) -> Option<(Vec<Expr>, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    let schema = looked.schema();
    let is_own = |expr: &Expr| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.iter().all(|column| schema.has_column(column))
    };
    let is_other = |expr: &Expr| expr.column_refs().iter().all(|column| !schema.has_column(column));
    let (own, op, other) = match (is_own(left), is_own(right)) {
        (true, false) if is_other(right) => (left, *op, right),
        (false, true) if is_other(left) => (right, op.swap()?, left),
        _ => return None,
    };
    // NaN is greater than every number in a comparison, and may be none to an aggregate; a list has no greatest.
    let kind = own.get_type(schema).ok()?;
    let is_ordered = kind.is_integer() || kind.is_string() || kind.is_temporal() && !is_span(&kind);
    if !is_ordered || own.is_volatile() || contains_aggregate(own) {
        return None;
    }
    let (least, greatest) = (min(own.as_ref().clone()), max(own.as_ref().clone()));
    let column = |value: &Expr| Expr::Column(Column::from_name(value.schema_name().to_string()));
    let compared = |value: &Expr| binary_expr(column(value), op, other.as_ref().clone());
    match op {
        Operator::Lt | Operator::LtEq => Some((vec![least.clone()], compared(&least))),
        Operator::Gt | Operator::GtEq => Some((vec![greatest.clone()], compared(&greatest))),
        Operator::NotEq => {
            let either = or(compared(&least), compared(&greatest));
            Some((vec![least, greatest], either))
        }
        _ => None,
    }
}

fn is_span(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(_) | DataType::Duration(_))
}

/// Whether it is what this rule made before: the rules run several times.
fn contains_aggregate(expr: &Expr) -> bool {
    expr.column_refs().iter().any(|column| {
        column.relation.is_none() && (column.name.starts_with("min(") || column.name.starts_with("max("))
    })
}

/// Whether no two rows of a plan are alike in these columns.
fn is_unique(plan: &LogicalPlan, columns: &[Column]) -> bool {
    let holds_all = |keys: &[Expr]| {
        let is_wanted = |key: &Expr| match unalias(key.clone()) {
            Expr::Column(column) => columns.contains(&column),
            _ => false,
        };
        keys.iter().all(is_wanted)
    };
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let keys = aggregate.group_expr.len();
            let fields = aggregate.schema.columns();
            let grouping = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
            !grouping && fields.iter().take(keys).all(|key| columns.contains(key))
        }
        LogicalPlan::Distinct(Distinct::All(_)) => {
            plan.schema().columns().iter().all(|column| columns.contains(column))
        }
        LogicalPlan::Distinct(Distinct::On(distinct)) => holds_all(&distinct.on_expr),
        LogicalPlan::Filter(filter) => is_unique(&filter.input, columns),
        LogicalPlan::Sort(sort) => is_unique(&sort.input, columns),
        LogicalPlan::Limit(limit) => is_unique(&limit.input, columns),
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = alias.input.schema().columns();
            let of = alias.schema.columns().into_iter().zip(inner);
            let below: Vec<Column> =
                of.filter(|(outer, _)| columns.contains(outer)).map(|(_, inner)| inner).collect();
            is_unique(&alias.input, &below)
        }
        LogicalPlan::Projection(projection) => {
            let of = projection.schema.columns().into_iter().zip(&projection.expr);
            let wanted = of.filter(|(outer, _)| columns.contains(outer));
            let below: Vec<Column> = wanted
                .filter_map(|(_, expr)| match unalias(expr.clone()) {
                    Expr::Column(column) => Some(column),
                    _ => None,
                })
                .collect();
            is_unique(&projection.input, &below)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, table_scan};
    use datafusion::optimizer::OptimizerContext;
    use datafusion::prelude::col;

    use super::*;

    fn scanned(name: &str) -> LogicalPlanBuilder {
        let fields = [("domain", DataType::Utf8), ("id", DataType::Int64), ("price", DataType::Float64)];
        let fields = fields.map(|(name, kind)| Field::new(name, kind, true));
        table_scan(Some(name), &Schema::new(fields.to_vec()), None).expect("a scan")
    }

    fn semi(filter: Option<Expr>) -> LogicalPlan {
        let other = scanned("b").build().expect("a plan");
        let keys = (vec!["domain"], vec!["domain"]);
        let joined = scanned("a").join(other, JoinType::LeftSemi, keys, filter);
        joined.and_then(LogicalPlanBuilder::build).expect("a plan")
    }

    fn rewritten(plan: LogicalPlan) -> Transformed<LogicalPlan> {
        OnceEach.rewrite(plan, &OptimizerContext::new()).expect("a plan")
    }

    #[test]
    fn what_is_looked_through_is_there_once_each() {
        for (filter, groups) in [
            (None, "groupBy=[[b.domain]], aggr=[[]]"),
            (Some(col("b.id").not_eq(col("a.id"))), "groupBy=[[b.domain]], aggr=[[min(b.id), max(b.id)]]"),
            (Some(col("a.id").lt(col("b.id"))), "groupBy=[[b.domain]], aggr=[[max(b.id)]]"),
            // Doubles have NaN.
            (Some(col("a.price").lt(col("b.price"))), "groupBy=[[b.domain, b.price]], aggr=[[]]"),
        ] {
            let once = rewritten(semi(filter));
            let shown = once.data.display_indent().to_string();
            assert!(once.transformed && shown.contains(groups), "{shown}");
            assert!(!rewritten(once.data).transformed, "{shown}");
        }
    }
}
