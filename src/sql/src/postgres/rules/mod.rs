//! What is rewritten in a statement that is let through, in order: its text's tree, and then its plan, where the types are known.
//! Each rule is in the file of its name, and rests on what those before it have made.
//!
//! In front of them all `tokens` gives the parser what it wants said and `logic` puts the tree as PostgreSQL reads it, for what is
//! refused is looked for in that; behind them `jsons` tells which values are JSON.

mod calls;
mod casts;
mod dates;
mod dialect;
mod floats;
pub(crate) mod forms;
mod group_keys;
mod guards;
mod in_lists;
mod intervals;
pub(crate) mod joins;
mod jsons;
mod lateral;
mod level;
mod lifted;
mod literals;
mod logic;
pub(crate) mod multisets;
mod names;
mod ordering;
mod patterns;
pub(crate) mod predicates;
mod quantified;
pub(crate) mod refusals;
mod regular;
pub(crate) mod sets;
mod tokens;
pub(crate) mod tuples;
mod typed;
mod window_keys;
mod windows;
mod written;

use datafusion::common::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Statement;

use crate::errors::QueryError;
use crate::newest;

pub(crate) use self::jsons::rewrite as json_columns;
pub(crate) use self::lateral::names_outside;
pub(crate) use self::logic::regroup;
pub(crate) use self::tokens::of as tokens;

struct StatementRule {
    name: &'static str,
    rewrite: fn(&mut Statement) -> Result<(), QueryError>,
}

struct PlanRule {
    name: &'static str,
    rewrite: fn(LogicalPlan) -> Result<LogicalPlan, DataFusionError>,
}

const OF_STATEMENTS: &[StatementRule] = &[
    // Named windows written out.
    StatementRule { name: "windows", rewrite: windows::rewrite },
    // Columns named as PostgreSQL names them, before anything is written otherwise.
    StatementRule {
        name: "names",
        rewrite: |statement| {
            names::rewrite(statement);
            Ok(())
        },
    },
    StatementRule {
        name: "multisets",
        rewrite: |statement| {
            multisets::rewrite(statement);
            Ok(())
        },
    },
    StatementRule {
        name: "dialect",
        rewrite: |statement| {
            dialect::rewrite(statement);
            Ok(())
        },
    },
];

const OF_PLANS: &[PlanRule] = &[
    PlanRule { name: "lateral", rewrite: lateral::rewrite },
    PlanRule { name: "lifted", rewrite: lifted::rewrite },
    // By how the keys are written, which `typed` changes.
    PlanRule { name: "group_keys", rewrite: group_keys::rewrite },
    PlanRule { name: "typed", rewrite: typed::rewrite },
    PlanRule { name: "window_keys", rewrite: window_keys::rewrite },
    PlanRule { name: "newest", rewrite: newest::rewrite },
];

/// A statement in DataFusion's terms.
pub(crate) fn statement(statement: &mut Statement) -> Result<(), QueryError> {
    for rule in OF_STATEMENTS {
        tracing::trace!(rule = rule.name, "a statement is rewritten");
        (rule.rewrite)(statement)?;
    }
    Ok(())
}

/// A plan that means what PostgreSQL means.
pub(crate) fn plan(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    OF_PLANS.iter().try_fold(plan, |plan, rule| {
        tracing::trace!(rule = rule.name, "a plan is rewritten");
        (rule.rewrite)(plan)
    })
}

#[cfg(test)]
mod tests {
    use super::written::parsed;
    use super::*;
    use crate::gate::tests::world::World;
    use crate::scan::SegmentTable;
    use datafusion::catalog::default_table_source::source_as_provider;
    use datafusion::common::tree_node::TreeNodeRecursion;
    use datafusion::sql::parser::Statement as ParsedStatement;

    /// The plan's text, and what it reads.
    fn shown(plan: &LogicalPlan) -> String {
        let mut text = plan.display_indent().to_string();
        let walked = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                let provider = source_as_provider(&scan.source)?;
                let table = provider.downcast_ref::<SegmentTable>().expect("a table over segments");
                text.push_str(&format!("\nreads {}", table.spec.name));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.expect("a plan");
        text
    }

    #[test]
    fn every_rule_of_statements_makes_what_it_is_there_for() {
        let cases = [
            (
                "windows",
                "SELECT sum(a) OVER (w) FROM t WINDOW w AS (PARTITION BY c)",
                "SELECT sum(a) OVER (PARTITION BY c) FROM t",
            ),
            ("names", "SELECT a, a FROM t", "SELECT a, a AS \"a_2\" FROM t"),
            (
                "multisets",
                "SELECT a FROM t EXCEPT ALL SELECT b FROM u",
                "row_number() OVER (PARTITION BY \"__1\")",
            ),
            ("dialect", "SELECT sign(a) FROM t", "SELECT signum(a) FROM t"),
        ];
        assert_eq!(
            cases.map(|(name, ..)| name).as_slice(),
            OF_STATEMENTS.iter().map(|rule| rule.name).collect::<Vec<_>>()
        );
        for ((_, sql, made), rule) in cases.iter().zip(OF_STATEMENTS) {
            let mut statement = parsed(sql);
            assert!(!statement.to_string().contains(made), "{}: {statement}", rule.name);
            (rule.rewrite)(&mut statement).expect("it is rewritten");
            assert!(statement.to_string().contains(made), "{}: {statement}", rule.name);
        }
    }

    #[tokio::test]
    async fn every_rule_of_plans_makes_what_it_is_there_for() {
        let world = World::new();
        let cases = [
            ("lateral", "SELECT u.id, e FROM urls u, jsonb_array_elements(u.tags) AS e", "__outside_1_0"),
            (
                "lifted",
                "SELECT max((SELECT max(j.id) FROM jobs j WHERE j.url_id = u.id)) FROM urls u",
                "__value_1",
            ),
            ("group_keys", "SELECT count(*) FROM urls GROUP BY ROLLUP (upper(id))", "__group_key_1"),
            ("typed", "SELECT '2026-2-1'::date", "2026-02-01"),
            ("window_keys", "SELECT rank() OVER (ORDER BY upper(id)) FROM urls", "__window_key_1"),
            (
                "newest",
                "SELECT DISTINCT ON (url) url FROM readings ORDER BY url, at DESC",
                "reads latest_readings",
            ),
        ];
        assert_eq!(
            cases.map(|(name, ..)| name).as_slice(),
            OF_PLANS.iter().map(|rule| rule.name).collect::<Vec<_>>()
        );
        for (place, (name, sql, made)) in cases.into_iter().enumerate() {
            let mut parsed = parsed(sql);
            statement(&mut parsed).expect("it is rewritten");
            let parsed = ParsedStatement::Statement(Box::new(parsed));
            let mut plan = world.state.statement_to_plan(parsed).await.expect("a plan");
            for rule in &OF_PLANS[..place] {
                plan = (rule.rewrite)(plan).expect("it is rewritten");
            }
            assert!(!shown(&plan).contains(made), "{name}:\n{}", shown(&plan));
            plan = (OF_PLANS[place].rewrite)(plan).expect("it is rewritten");
            assert!(shown(&plan).contains(made), "{name}:\n{}", shown(&plan));
        }
    }
}
