//! JSON as a type of the engine.
//!
//! To DataFusion JSON is text like any other. Which of a statement's values are JSON is worked out here from below, once the
//! statement is planned: a column of a table is when the table declares it so, and whatever hands values on (subqueries, CASE,
//! `coalesce`, UNION, windows, lists …) hands this on with them. It is not kept as metadata of fields, which steps of DataFusion
//! lose (CASE, casts, the two sides of a UNION) or compare with that of files.
//!
//! Where JSON is put into JSON (`json_build_object('tags', tags)`, `json_agg(j)`) it is marked, so that it comes in as it is and
//! not as a text in quotes, and `||` of two of them is that of JSON. The columns of the result that are JSON are told with it.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchemaRef, JoinType, Result, ScalarValue};
use datafusion::logical_expr::expr::{ScalarFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Cast, Distinct, Expr, LogicalPlan, Operator, TableScan,
};

use crate::catalog::ColumnKind;
use crate::postgres::table::{self, Json};
use crate::postgres::{json_concatenation, json_marked};
use crate::scan::SegmentTable;

/// What a value is as far as JSON goes; of a list, what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    /// Anything that is no JSON.
    Other,
    /// NULL, or a text that is written out without a type: beside JSON it is JSON.
    Open,
}

/// What the result of a function is as far as JSON goes.
fn json_of(name: &str) -> Json {
    table::of(name).map_or(Json::Never, |row| row.json)
}

/// Marks what is put into JSON in the plan and its subqueries; for each column of the result whether it is JSON.
pub(crate) fn rewrite(plan: LogicalPlan) -> Result<(LogicalPlan, Vec<bool>)> {
    let (plan, kinds) = Kinds::default().plan(plan)?;
    Ok((plan, kinds.into_iter().map(|kind| kind == Kind::Json).collect()))
}

/// What several values are together: one that is no JSON makes texts of all.
fn united(kinds: impl IntoIterator<Item = Kind>) -> Kind {
    kinds.into_iter().fold(Kind::Open, |all, own| match (all, own) {
        (Kind::Other, _) | (_, Kind::Other) => Kind::Other,
        (Kind::Json, _) | (_, Kind::Json) => Kind::Json,
        (Kind::Open, Kind::Open) => Kind::Open,
    })
}

/// Whether it is a text without a type that JSON could be read from.
fn is_written_json(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => {
            serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
        }
        _ => false,
    }
}

/// The columns of a step's inputs, with their kinds.
type Scope = Vec<(DFSchemaRef, Vec<Kind>)>;

fn of_column(column: &Column, scope: &[(DFSchemaRef, Vec<Kind>)]) -> Option<Kind> {
    scope.iter().find_map(|(schema, kinds)| kinds.get(schema.maybe_index_of_column(column)?).copied())
}

/// What is known on the way through a plan.
#[derive(Default)]
struct Kinds {
    /// What a subquery can name outside, the innermost last.
    outside: Vec<Scope>,
    /// The columns of the recursive queries that the way leads through.
    recursive: HashMap<String, Vec<Kind>>,
    /// Subqueries that are values, once they have been looked at.
    values: Vec<(Arc<LogicalPlan>, Kind)>,
}

impl Kinds {
    /// The plan with what is put into JSON marked, and the kinds of its columns.
    fn plan(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Kind>)> {
        let schemas: Vec<DFSchemaRef> =
            plan.inputs().into_iter().map(|input| Arc::clone(input.schema())).collect();
        let (plan, below) = self.inputs(plan)?;
        let scope: Scope = schemas.into_iter().zip(below).collect();
        let plan = self.subqueries(plan, &scope)?;
        let names = NamePreserver::new(&plan);
        let marked = plan.map_expressions(|expr| {
            // One that is changed would be given its former name, and is no grouping set under a name; its keys are columns.
            if matches!(expr, Expr::GroupingSet(_)) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let marked = expr.transform_up(|part| Ok(self.marked(part, &scope)))?;
            Ok(if marked.transformed { marked.update_data(|expr| name.restore(expr)) } else { marked })
        })?;
        let plan = if marked.transformed { marked.data.recompute_schema()? } else { marked.data };
        let kinds = self.columns(&plan, &scope)?;
        Ok((plan, kinds))
    }

    /// The same of the inputs of a step.
    fn inputs(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Vec<Kind>>)> {
        let mut below: Vec<Vec<Kind>> = Vec::new();
        // The right side of a join may name columns of the left one (LATERAL).
        let left = match &plan {
            LogicalPlan::Join(join) => Some(Arc::clone(join.left.schema())),
            _ => None,
        };
        let recursive = match &plan {
            LogicalPlan::RecursiveQuery(query) => Some(query.name.clone()),
            _ => None,
        };
        let mut shadowed = None;
        let plan = plan.map_children(|child| {
            let before = below.first().cloned();
            if let (Some(left), Some(kinds)) = (&left, &before) {
                self.outside.push(vec![(Arc::clone(left), kinds.clone())]);
            }
            if let (Some(name), Some(kinds)) = (&recursive, &before) {
                shadowed = self.recursive.insert(name.clone(), kinds.clone());
            }
            let (child, kinds) = self.plan(child)?;
            if left.is_some() && before.is_some() {
                self.outside.pop();
            }
            below.push(kinds);
            Ok(Transformed::yes(child))
        })?;
        if let Some(name) = recursive {
            match shadowed {
                Some(kinds) => self.recursive.insert(name, kinds),
                None => self.recursive.remove(&name),
            };
        }
        Ok((plan.data, below))
    }

    /// The same of the subqueries in the expressions of a step.
    fn subqueries(&mut self, plan: LogicalPlan, scope: &Scope) -> Result<LogicalPlan> {
        let looked = plan.map_subqueries(|subquery| {
            self.outside.push(scope.clone());
            let (subquery, kinds) = self.plan(subquery)?;
            self.outside.pop();
            if let (LogicalPlan::Subquery(own), Some(kind)) = (&subquery, kinds.first()) {
                self.values.push((Arc::clone(&own.subquery), *kind));
            }
            Ok(Transformed::yes(subquery))
        });
        looked.data()
    }

    /// A call that puts its arguments into JSON, with those marked that are JSON.
    fn marked(&self, expr: Expr, scope: &Scope) -> Transformed<Expr> {
        match expr {
            Expr::ScalarFunction(mut call) if table::of(call.name()).is_some_and(|row| row.takes_json) => {
                let mut changed = false;
                for argument in &mut call.args {
                    let is_marked =
                        matches!(argument, Expr::ScalarFunction(own) if own.name() == "json_value");
                    if !is_marked && self.kind(argument, scope) == Kind::Json {
                        *argument = json_marked().call(vec![std::mem::take(argument)]);
                        changed = true;
                    }
                }
                Transformed::new_transformed(Expr::ScalarFunction(call), changed)
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
                if self.are_json([&left, &right], scope) =>
            {
                Transformed::yes(json_concatenation(*left, *right))
            }
            other => Transformed::no(other),
        }
    }

    /// Whether the sides of `||` are JSON: one of them is, and the other is too or is written so.
    fn are_json(&self, sides: [&Expr; 2], scope: &Scope) -> bool {
        let kinds = sides.map(|side| (side, self.kind(side, scope)));
        let may_be = |(side, kind): &(&Expr, Kind)| match kind {
            Kind::Json => true,
            Kind::Open => is_written_json(side),
            Kind::Other => false,
        };
        kinds.iter().any(|(_, kind)| *kind == Kind::Json) && kinds.iter().all(may_be)
    }

    fn kind(&self, expr: &Expr, scope: &Scope) -> Kind {
        let of = |expr: &Expr| self.kind(expr, scope);
        let first = |arguments: &[Expr]| arguments.first().map_or(Kind::Other, of);
        match expr {
            Expr::Alias(alias) => of(&alias.expr),
            Expr::Column(column) => of_column(column, scope).unwrap_or(Kind::Other),
            Expr::OuterReferenceColumn(_, column) => {
                self.outside.iter().rev().find_map(|scope| of_column(column, scope)).unwrap_or(Kind::Other)
            }
            Expr::Literal(value, _) if value.is_null() || matches!(value, ScalarValue::Utf8(_)) => Kind::Open,
            Expr::Cast(cast) => self.of_cast(cast, scope),
            Expr::Case(case) => {
                let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
                united(results.map(|result| of(result)))
            }
            Expr::ScalarFunction(call) => self.of_function(call, scope),
            Expr::AggregateFunction(call) if json_of(call.func.name()) == Json::OfFirst => {
                first(&call.params.args)
            }
            Expr::WindowFunction(call) => self.of_window(call, scope),
            Expr::ScalarSubquery(subquery) => {
                let own = self.values.iter().find(|(plan, _)| Arc::ptr_eq(plan, &subquery.subquery));
                own.map_or(Kind::Other, |(_, kind)| *kind)
            }
            _ => Kind::Other,
        }
    }

    fn of_function(&self, call: &ScalarFunction, scope: &Scope) -> Kind {
        let mut kinds = call.args.iter().map(|argument| self.kind(argument, scope));
        match json_of(call.name()) {
            Json::Always => Kind::Json,
            Json::OfFirst => kinds.next().unwrap_or(Kind::Other),
            Json::OfAny => united(kinds),
            Json::Never | Json::OfNeighbour => Kind::Other,
        }
    }

    fn of_window(&self, call: &WindowFunction, scope: &Scope) -> Kind {
        let mut kinds = call.params.args.iter().map(|argument| self.kind(argument, scope));
        match json_of(call.fun.name()) {
            Json::OfFirst => kinds.next().unwrap_or(Kind::Other),
            Json::OfNeighbour => {
                let default = call.params.args.get(2).map_or(Kind::Open, |default| self.kind(default, scope));
                united(kinds.next().into_iter().chain([default]))
            }
            _ => Kind::Other,
        }
    }

    /// A cast that is written in the statement has `to_text` in it or is of a literal; others are the planner's, which makes the
    /// texts of one column alike.
    fn of_cast(&self, cast: &Cast, scope: &Scope) -> Kind {
        let mut kind = cast.field.data_type();
        while let DataType::List(item) = kind {
            kind = item.data_type();
        }
        match &*cast.expr {
            _ if !kind.is_string() => Kind::Other,
            Expr::Literal(value, _) if !value.is_null() => Kind::Other,
            inner => self.kind(inner, scope),
        }
    }

    /// The kinds of a step's columns; `scope` is its inputs.
    fn columns(&self, plan: &LogicalPlan, scope: &Scope) -> Result<Vec<Kind>> {
        let count = plan.schema().fields().len();
        let of_input = |place: usize| scope.get(place).map(|(_, kinds)| kinds.clone()).unwrap_or_default();
        let of_inputs = || scope.iter().flat_map(|(_, kinds)| kinds.iter().copied());
        let of_exprs = |exprs: &[Expr]| exprs.iter().map(|expr| self.kind(expr, scope)).collect::<Vec<_>>();
        let mut kinds: Vec<Kind> = match plan {
            LogicalPlan::TableScan(scan) => self.of_table(scan),
            LogicalPlan::Values(values) => {
                let column = |place: usize| values.values.iter().filter_map(move |row| row.get(place));
                (0..count).map(|place| united(column(place).map(|expr| self.kind(expr, scope)))).collect()
            }
            LogicalPlan::Projection(projection) => of_exprs(&projection.expr),
            LogicalPlan::Distinct(Distinct::On(on)) => of_exprs(&on.select_expr),
            LogicalPlan::Aggregate(aggregate) => self.of_aggregate(aggregate, scope)?,
            LogicalPlan::Window(window) => of_inputs().chain(of_exprs(&window.window_expr)).collect(),
            LogicalPlan::Join(join) => match join.join_type {
                JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => of_input(0),
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => of_input(1),
                _ => of_inputs().collect(),
            },
            LogicalPlan::Union(_) => {
                let column =
                    |place: usize| scope.iter().filter_map(move |(_, kinds)| kinds.get(place).copied());
                (0..count).map(|place| united(column(place))).collect()
            }
            // What is added in later rounds has the types of the first.
            LogicalPlan::RecursiveQuery(_) => of_input(0),
            LogicalPlan::Unnest(unnest) => {
                let below: Vec<Kind> = of_inputs().collect();
                let own = |place: &usize| below.get(*place).copied().unwrap_or(Kind::Other);
                unnest.dependency_indices.iter().map(own).collect()
            }
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => of_inputs().collect(),
            _ => Vec::new(),
        };
        kinds.resize(count, Kind::Other);
        Ok(kinds)
    }

    fn of_table(&self, scan: &TableScan) -> Vec<Kind> {
        let Ok(provider) = source_as_provider(&scan.source) else { return Vec::new() };
        // The rows of the last round of a recursive query.
        if let Some(round) = provider.downcast_ref::<CteWorkTable>() {
            return self.recursive.get(round.name()).cloned().unwrap_or_default();
        }
        let Some(table) = provider.downcast_ref::<SegmentTable>() else { return Vec::new() };
        let of_field = |name: &str| {
            let own = table.spec.columns.iter().find(|column| column.name == name);
            if own.is_some_and(|own| own.kind == ColumnKind::Json) { Kind::Json } else { Kind::Other }
        };
        scan.projected_schema.fields().iter().map(|field| of_field(field.name())).collect()
    }

    fn of_aggregate(&self, aggregate: &Aggregate, scope: &Scope) -> Result<Vec<Kind>> {
        let mut kinds: Vec<Kind> = grouping_set_to_exprlist(&aggregate.group_expr)?
            .into_iter()
            .map(|key| self.kind(key, scope))
            .collect();
        // Behind the keys comes which of them a row has, where that is told.
        let own = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        kinds.resize(own, Kind::Other);
        kinds.extend(aggregate.aggr_expr.iter().map(|expr| self.kind(expr, scope)));
        Ok(kinds)
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::world::{World, admitted};

    #[tokio::test]
    async fn what_is_json_is_told_from_below() {
        let world = World::new();
        for (sql, json) in [
            ("SELECT id, tags, tags -> 0, tags ->> 0, tags::text FROM jobs", vec![1, 2]),
            (
                "SELECT coalesce(tags, '[]'), coalesce(id, '[]'), coalesce(tags, id), nullif(tags, '1') FROM jobs",
                vec![0, 3],
            ),
            ("SELECT CASE WHEN true THEN tags END, CASE WHEN true THEN tags ELSE id END FROM jobs", vec![0]),
            ("SELECT NULL, '[]', '[]'::json, '[]'::text, 1", vec![2]),
            ("SELECT id, tags, metadata FROM jobs UNION ALL SELECT tags, NULL, id FROM urls", vec![1]),
            ("SELECT column1, column2 FROM (VALUES ('[]', '{}'), ('{}'::json, '{}'::text)) v", vec![0]),
            (
                "SELECT array_agg(tags), array_agg(id), (array_agg(tags))[1], count(tags), max(id) FROM jobs",
                vec![0, 2],
            ),
            (
                "SELECT lag(tags) OVER w, lag(id, 1, '{}') OVER w, rank() OVER w FROM jobs WINDOW w AS (ORDER BY id)",
                vec![0],
            ),
            (
                "SELECT u.tags, j.id FROM urls u LEFT JOIN jobs j ON j.url_id = u.id WHERE u.id IN (SELECT id FROM jobs)",
                vec![0],
            ),
            (
                "SELECT (SELECT u.metadata FROM urls u ORDER BY 1 LIMIT 1), (SELECT max(id) FROM urls) FROM jobs",
                vec![0],
            ),
            ("SELECT e.key, e.value FROM jobs, json_each(metadata) AS e", vec![1]),
            (r#"SELECT tags || '["x"]', '["x"]' || tags, tags || 'x', id || '["x"]' FROM jobs"#, vec![0, 1]),
            ("SELECT x.m, x.id FROM jobs j, LATERAL (SELECT j.metadata AS m, j.id AS id) x", vec![0]),
            (
                "WITH RECURSIVE r(n, j) AS (SELECT 1, tags FROM jobs UNION ALL SELECT n + 1, j -> 0 FROM r) SELECT j, n FROM r",
                vec![0],
            ),
            (
                "WITH RECURSIVE r(n, j) AS (SELECT id, tags FROM jobs UNION ALL SELECT n, j FROM r WHERE false) SELECT to_json(n) || to_json(j), n FROM r",
                vec![0],
            ),
        ] {
            let admitted = admitted(&world.state, sql).await;
            let found: Vec<usize> =
                admitted.json.iter().enumerate().filter(|(_, json)| **json).map(|(place, _)| place).collect();
            assert_eq!(found, json, "{sql}");
        }
    }

    #[tokio::test]
    async fn only_json_is_put_into_json_as_it_is() {
        let world = World::new();
        for (sql, marked, others) in [
            (
                "SELECT to_json(tags), to_json(id) FROM jobs",
                vec!["to_json(json_value(jobs.tags))"],
                vec!["to_json(jobs.id)"],
            ),
            (
                "SELECT json_build_object('a', m, 'b', m::text) FROM (SELECT metadata AS m FROM urls) q",
                vec!["Utf8(\"a\"), json_value(q.m)"],
                vec!["to_text(q.m)"],
            ),
            (
                "SELECT json_agg(metadata) FROM urls",
                vec!["to_json(json_value(array_agg(urls.metadata)))"],
                vec![],
            ),
            (
                "SELECT to_json(\"values\") FROM (SELECT id AS \"values\" FROM urls) q",
                vec![],
                vec!["to_json(q.values)"],
            ),
            (
                "SELECT tags || metadata, id || tags FROM jobs",
                vec!["||(jobs.tags, jobs.metadata)"],
                vec!["jobs.id || jobs.tags"],
            ),
            (
                "SELECT to_json(json_build_array(tags)) FROM jobs",
                vec!["to_json(json_value(json_build_array(json_value(jobs.tags))))"],
                vec![],
            ),
            (
                "SELECT 1 FROM jobs j WHERE EXISTS (SELECT 1 FROM urls u WHERE u.id = to_json(j.tags)::text)",
                vec!["to_json(json_value(outer_ref(j.tags)))"],
                vec![],
            ),
        ] {
            let plan = admitted(&world.state, sql).await.plan.display_indent().to_string();
            for part in marked.iter().chain(&others) {
                assert!(plan.contains(part), "{sql}: no {part} in\n{plan}");
            }
            assert_eq!(
                plan.contains("json_value"),
                marked.iter().any(|part| part.contains("json_value")),
                "{sql}"
            );
        }
    }

    #[tokio::test]
    async fn an_agents_columns_are_those_of_the_tables() {
        let state = World::new().of_agent().await;
        let admitted = admitted(&state, "SELECT id, tags, json_build_array(metadata) FROM jobs").await;
        assert_eq!(admitted.json, [false, true, true]);
        assert!(admitted.plan.display_indent().to_string().contains("json_value(jobs.metadata)"));
    }

    /// Each level names the one below more than once: looked at anew for each, the lowest would be so 3^40 times.
    #[test]
    fn deep_statements_are_walked_once() {
        let sql = (0..40).fold("SELECT tags AS a FROM jobs".to_owned(), |inner, n| {
            format!("SELECT CASE WHEN {n} = 7 THEN a ELSE coalesce(a, a) END AS a FROM ({inner}) q{n}")
        });
        let planning = move || {
            let world = World::new();
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(admitted(&world.state, &sql)).json
        };
        let planning =
            std::thread::Builder::new().stack_size(crate::worker::PLAN_STACK_BYTES).spawn(planning);
        assert_eq!(planning.expect("a thread").join().expect("it is planned"), [true]);
    }
}
