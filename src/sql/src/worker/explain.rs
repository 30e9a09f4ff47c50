//! `EXPLAIN SELECT …`: how a statement would be run, in words, a line a step and the last step first.
//!
//! What is shown is DataFusion's plan after its rules have been applied: which tables are read and which of their columns, where
//! rows are left out, joined, grouped, sorted. No file, no path, and nothing of what the box is made of.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{JoinType, Result};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Distinct, Expr, FetchType, Limit, LogicalPlan, SkipType, TableScan};

use crate::reasons::written;
use crate::scan::SegmentTable;

/// The one column, as PostgreSQL calls it.
const COLUMN: &str = "QUERY PLAN";
/// Deepest step that is shown further in than the one above it.
const INDENT_MAX: usize = 30;
/// Names of columns that a line shows.
const NAMES_MAX: usize = 20;

/// The lines of a plan as a table; `counts` says whether how many rows a table has is told.
pub(super) fn table(plan: &LogicalPlan, counts: bool) -> Result<Arc<dyn TableProvider>> {
    let lines = lines(plan, counts);
    let schema = Arc::new(Schema::new(vec![Field::new(COLUMN, DataType::Utf8, false)]));
    let array = Arc::new(lines.into_iter().map(Some).collect::<StringArray>());
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array])?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// A line a step; what a step takes its rows from stands below it and further in.
fn lines(plan: &LogicalPlan, counts: bool) -> Vec<String> {
    let mut lines = Vec::new();
    // By an own stack: a plan may be as deep as a statement is long.
    let mut steps = vec![(plan, 0)];
    while let Some((step, depth)) = steps.pop() {
        let text = words(step, counts);
        let below = depth + usize::from(text.is_some());
        if let Some(text) = text {
            lines.push(format!("{}{text}", "  ".repeat(depth.min(INDENT_MAX))));
        }
        let subqueries =
            step.expressions().iter().flat_map(|expr| subqueries(expr, counts)).collect::<Vec<_>>();
        for subquery in subqueries {
            lines.push(format!("{}Look up: {subquery}", "  ".repeat(below.min(INDENT_MAX))));
        }
        steps.extend(step.inputs().into_iter().rev().map(|input| (input, below)));
    }
    lines
}

/// The tables of the subqueries that stand in an expression.
fn subqueries(expr: &Expr, counts: bool) -> Vec<String> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut found = Vec::new();
    let _ = expr.apply(|part| {
        let subquery = match part {
            Expr::ScalarSubquery(subquery) => Some(subquery),
            Expr::Exists(exists) => Some(&exists.subquery),
            Expr::InSubquery(within) => Some(&within.subquery),
            _ => None,
        };
        if let Some(subquery) = subquery {
            found.push(
                lines(&subquery.subquery, counts)
                    .iter()
                    .map(|line| line.trim())
                    .collect::<Vec<_>>()
                    .join(" ← "),
            );
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// What a step does; none for one that only gives names.
fn words(step: &LogicalPlan, counts: bool) -> Option<String> {
    Some(match step {
        LogicalPlan::TableScan(scan) => read(scan, counts),
        LogicalPlan::Filter(filter) => format!("Keep rows where {}", shown(&filter.predicate)),
        LogicalPlan::Projection(projection) => {
            let made: Vec<&Expr> = projection.expr.iter().filter(|expr| !is_name(expr)).collect();
            if made.is_empty() {
                return None;
            }
            format!("Work out {}", list(made.into_iter()))
        }
        LogicalPlan::Aggregate(aggregate) => {
            match (aggregate.group_expr.as_slice(), aggregate.aggr_expr.as_slice()) {
                (groups, []) => format!("Keep one row for each {}", list(groups.iter())),
                ([], sums) => format!("Over all rows: {}", list(sums.iter())),
                (groups, sums) => format!("For each {}: {}", list(groups.iter()), list(sums.iter())),
            }
        }
        LogicalPlan::Window(window) => format!("Over windows: {}", list(window.window_expr.iter())),
        LogicalPlan::Sort(sort) => match sort.fetch {
            Some(rows) => format!("Sort by {}, and keep the first {rows}", order(&sort.expr)),
            None => format!("Sort by {}", order(&sort.expr)),
        },
        LogicalPlan::Join(join) => {
            let on = join.on.iter().map(|(left, right)| format!("{} = {}", shown(left), shown(right)));
            let conditions: Vec<String> = on.chain(join.filter.iter().map(shown)).collect();
            match (join.join_type, conditions.is_empty()) {
                (JoinType::Inner, true) => "Every row with every row of".to_owned(),
                (kind, true) => join_name(kind).to_owned(),
                (kind, false) => format!("{} where {}", join_name(kind), conditions.join(" AND ")),
            }
        }
        LogicalPlan::Union(union) => format!("Put the rows of {} parts together", union.inputs.len()),
        LogicalPlan::Distinct(Distinct::All(_)) => "Leave out rows that are there already".to_owned(),
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let order = on.sort_expr.as_deref().unwrap_or_default();
            format!(
                "Keep the first row of each {}, in the order of {}",
                list(on.on_expr.iter()),
                self::order(order)
            )
        }
        LogicalPlan::Limit(limit) => kept(limit),
        LogicalPlan::Values(values) => format!("{} rows as they are written", values.values.len()),
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => "One row without columns".to_owned(),
        LogicalPlan::EmptyRelation(_) => "No rows".to_owned(),
        LogicalPlan::Unnest(_) => "A row for each member of a list".to_owned(),
        LogicalPlan::RecursiveQuery(query) => {
            format!("Again and again, until nothing new comes: {}", written(&query.name))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            // The name of a table that is its own says nothing.
            match alias.input.as_ref() {
                LogicalPlan::TableScan(scan) if scan.table_name.table() == alias.alias.table() => {
                    return None;
                }
                _ => format!("As {}", written(alias.alias.table())),
            }
        }
        LogicalPlan::Subquery(_) | LogicalPlan::Repartition(_) => return None,
        _ => "One more step".to_owned(),
    })
}

fn kept(limit: &Limit) -> String {
    let rows = match limit.get_fetch_type() {
        Ok(FetchType::Literal(Some(rows))) => format!("Keep {rows} rows"),
        _ => "Keep the rows".to_owned(),
    };
    match limit.get_skip_type() {
        Ok(SkipType::Literal(0)) => rows,
        Ok(SkipType::Literal(skipped)) => format!("{rows} after the first {skipped}"),
        _ => rows,
    }
}

fn read(scan: &TableScan, counts: bool) -> String {
    let columns: Vec<String> =
        scan.projected_schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut text = format!("Read {}", scan.table_name.table());
    if counts
        && let Ok(provider) = source_as_provider(&scan.source)
        && let Some(table) = provider.downcast_ref::<SegmentTable>()
    {
        text.push_str(&format!(" ({} rows)", table.rows()));
    }
    match columns.as_slice() {
        [] => text.push_str(", only to count its rows"),
        few if few.len() <= NAMES_MAX => text.push_str(&format!(": {}", columns.join(", "))),
        many => text.push_str(&format!(": {} columns", many.len())),
    }
    if !scan.filters.is_empty() {
        let conditions: Vec<String> = scan.filters.iter().map(shown).collect();
        text.push_str(&format!(", where {}", conditions.join(" AND ")));
    }
    if let Some(rows) = scan.fetch {
        text.push_str(&format!(", {rows} rows at most"));
    }
    text
}

fn join_name(kind: JoinType) -> &'static str {
    match kind {
        JoinType::Inner => "Join",
        JoinType::Left => "Join, keeping every row of the first",
        JoinType::Right => "Join, keeping every row of the second",
        JoinType::Full => "Join, keeping every row of both",
        JoinType::LeftSemi => "Keep rows of the first that the second has a row for",
        JoinType::RightSemi => "Keep rows of the second that the first has a row for",
        JoinType::LeftAnti => "Keep rows of the first that the second has no row for",
        JoinType::RightAnti => "Keep rows of the second that the first has no row for",
        JoinType::LeftMark | JoinType::RightMark => "Mark the rows that the other has a row for",
    }
}

/// Whether an expression only hands a column on.
fn is_name(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Alias(alias) => is_name(&alias.expr),
        _ => false,
    }
}

fn list<'a>(exprs: impl Iterator<Item = &'a Expr>) -> String {
    let all: Vec<String> = exprs.map(shown).collect();
    match all.len() {
        0..=NAMES_MAX => all.join(", "),
        more => format!("{} and {} more", all[..NAMES_MAX].join(", "), more - NAMES_MAX),
    }
}

fn order(by: &[Sort]) -> String {
    let one = |sort: &Sort| {
        let direction = if sort.asc { "" } else { " DESC" };
        let nulls = match (sort.asc, sort.nulls_first) {
            (true, true) => " NULLS FIRST",
            (false, false) => " NULLS LAST",
            _ => "",
        };
        format!("{}{direction}{nulls}", shown(&sort.expr))
    };
    by.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// An expression as it was written, nearly.
fn shown(expr: &Expr) -> String {
    match expr {
        Expr::Alias(alias) => shown(&alias.expr),
        other => written(&other.to_string()),
    }
}
