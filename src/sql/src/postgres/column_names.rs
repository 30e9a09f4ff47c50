//! `FROM jobs AS t(a)`: names for the first columns of what stands in FROM; the others keep theirs. DataFusion wants one for each.

use datafusion::common::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{Ident, TableAlias, TableAliasColumnDef, TableFactor};

#[derive(Debug)]
pub(crate) struct ColumnNames;

fn alias_of(factor: &mut TableFactor) -> Option<&mut Option<TableAlias>> {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => Some(alias),
        _ => None,
    }
}

impl RelationPlanner for ColumnNames {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let names = |alias: &mut TableAlias| !alias.columns.is_empty();
        let Some(mut alias) = alias_of(&mut relation).and_then(|alias| alias.take_if(names)) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = context.plan(relation)?;
        let unnamed = plan.schema().fields().iter().skip(alias.columns.len());
        alias.columns.extend(unnamed.map(|field| TableAliasColumnDef {
            name: Ident::with_quote('"', field.name()),
            data_type: None,
        }));
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::world::{World, admitted};

    #[tokio::test]
    async fn names_are_those_of_the_first_columns() {
        let world = World::new();
        for (sql, names) in [
            ("SELECT * FROM jobs AS t(a)", "a url_id tags metadata"),
            ("SELECT * FROM jobs AS t(a, b, c, d)", "a b c d"),
            ("SELECT * FROM (SELECT id, url_id AS u FROM jobs) AS t(a)", "a u"),
            ("SELECT t.* FROM urls, LATERAL (SELECT urls.id AS x, urls.tags AS tags) AS t(a)", "a tags"),
            ("WITH w AS (SELECT id, tags FROM jobs) SELECT * FROM w AS t(a)", "a tags"),
            (
                "SELECT t.* FROM jobs AS t(a) JOIN urls u ON t.a = u.id WHERE t.url_id = 'x'",
                "a url_id tags metadata",
            ),
        ] {
            let columns = admitted(&world.state, sql).await.plan.schema().columns();
            let found: Vec<&str> = columns.iter().map(|column| column.name()).collect();
            assert_eq!(found.join(" "), names, "{sql}");
        }
    }
}
