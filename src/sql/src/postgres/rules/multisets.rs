//! `INTERSECT ALL` and `EXCEPT ALL`, which DataFusion answers as if each row were there once: by numbering the rows that are alike.
//!
//! The second of three rows that are alike is then another than the first, and `INTERSECT` and `EXCEPT` tell them apart:
//! `a EXCEPT ALL b` is `numbered a EXCEPT numbered b`, without the numbers.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, TableFactor, VisitMut,
    VisitorMut,
};
use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

/// Whether it is such an operation.
pub(crate) fn is_one(op: SetOperator, quantifier: SetQuantifier) -> bool {
    quantifier == SetQuantifier::All && matches!(op, SetOperator::Intersect | SetOperator::Except)
}

/// Whether it can be told how many columns it has, and of what names: `*` is not looked up.
pub(crate) fn is_counted(left: &SetExpr) -> bool {
    names(left).is_some()
}

/// Rewrites the whole statement, subqueries included; names of columns are settled before.
pub(super) fn rewrite(statement: &mut Statement) {
    // The visitor never breaks.
    let _ = statement.visit(&mut Multisets);
}

struct Multisets;

impl VisitorMut for Multisets {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut stack = vec![query.body.as_mut()];
        while let Some(part) = stack.pop() {
            if let Some(numbered) = numbered(part) {
                *part = numbered;
            }
            match part {
                SetExpr::SetOperation { left, right, .. } => stack.extend([left.as_mut(), right.as_mut()]),
                // What was made of one; its sides may hold others.
                SetExpr::Select(_) => stack.extend(sides(part).into_iter().flatten()),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names of the columns that come out of a query, in quotes.
fn names(body: &SetExpr) -> Option<Vec<Ident>> {
    match body {
        SetExpr::Query(query) => names(&query.body),
        SetExpr::SetOperation { left, .. } => names(left),
        SetExpr::Select(select) => {
            let own = |name: &Ident| match name.quote_style {
                Some(_) => name.clone(),
                None => Ident::with_quote('"', name.value.to_ascii_lowercase()),
            };
            let name = |item: &SelectItem| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(own(alias)),
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(own(name)),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(own),
                SelectItem::UnnamedExpr(Expr::Wildcard(_) | Expr::QualifiedWildcard(..)) => None,
                // Before the names are settled, when it is only asked how many there are.
                SelectItem::UnnamedExpr(_) => Some(Ident::with_quote('"', "?column?")),
                _ => None,
            };
            select.projection.iter().map(name).collect()
        }
        _ => None,
    }
}

fn numbered(operation: &mut SetExpr) -> Option<SetExpr> {
    let SetExpr::SetOperation { left, op, set_quantifier, right } = operation else { return None };
    if !is_one(*op, *set_quantifier) {
        return None;
    }
    let names = names(left)?;
    let columns: Vec<String> = (1..=names.len()).map(|n| format!("\"__{n}\"")).collect();
    let columns = columns.join(", ");
    let shown = names.iter().enumerate().map(|(n, name)| format!("\"__{}\" AS {name}", n + 1));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let side = format!(
        "SELECT {columns}, row_number() OVER (PARTITION BY {columns}) FROM (SELECT 1) AS \"__q\" ({columns})"
    );
    let sql = format!("SELECT {shown} FROM (({side}) {op} ({side})) AS \"__s\" ({columns}, \"__n\")");
    let statement = Parser::parse_sql(&PostgreSqlDialect {}, &sql).ok()?.pop()?;
    let Statement::Query(query) = statement else { return None };
    let mut whole = *query.body;
    for (place, own) in sides(&mut whole)?.into_iter().zip([left, right]) {
        std::mem::swap(place, own.as_mut());
    }
    Some(whole)
}

/// The two places in what is made of an operation where its own sides stand; none in any other query.
fn sides(whole: &mut SetExpr) -> Option<[&mut SetExpr; 2]> {
    let SetExpr::SetOperation { left, right, .. } = below(whole, "__s")? else { return None };
    let (SetExpr::Query(left), SetExpr::Query(right)) = (left.as_mut(), right.as_mut()) else { return None };
    Some([below(&mut left.body, "__q")?, below(&mut right.body, "__q")?])
}

/// The query in FROM, if that is all that stands there, under this name.
fn below<'a>(select: &'a mut SetExpr, name: &str) -> Option<&'a mut SetExpr> {
    let SetExpr::Select(select) = select else { return None };
    let [from] = select.from.as_mut_slice() else { return None };
    match &mut from.relation {
        TableFactor::Derived { subquery, alias: Some(alias), .. } if alias.name.value == name => {
            Some(subquery.body.as_mut())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::written::parsed;
    use super::*;

    #[test]
    fn rows_that_are_alike_are_numbered() {
        let sql = "SELECT a, lower(b) AS c FROM t EXCEPT ALL SELECT d, e FROM u ORDER BY 1";
        let mut statement = parsed(sql);
        rewrite(&mut statement);
        let side = |query: &str| {
            format!(
                "(SELECT \"__1\", \"__2\", row_number() OVER (PARTITION BY \"__1\", \"__2\") FROM ({query}) AS \"__q\" (\"__1\", \"__2\"))"
            )
        };
        let expected = format!(
            "SELECT \"__1\" AS \"a\", \"__2\" AS \"c\" FROM ({} EXCEPT {}) AS \"__s\" (\"__1\", \"__2\", \"__n\") ORDER BY 1",
            side("SELECT a, lower(b) AS c FROM t"),
            side("SELECT d, e FROM u")
        );
        assert_eq!(statement.to_string(), expected);
        for (sql, counted) in [("SELECT a, count(*) FROM t", true), ("SELECT * FROM t", false)] {
            let statement = parsed(sql);
            let Statement::Query(query) = statement else { panic!("a query") };
            assert_eq!(is_counted(&query.body), counted, "{sql}");
        }
    }
}
