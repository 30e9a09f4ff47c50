//! ORDER BY as PostgreSQL reads it: a name alone is a result column before it is one of the tables; within an expression it is one
//! of the tables only.
//!
//! `SELECT round(p) AS p … ORDER BY abs(p - 10)` is ordered by the table's `p`. DataFusion takes the result column there too, and
//! cannot order by both. So an expression that is selected as it stands is given its name; and where another one names a column
//! that a result column hides, all is selected with what it is ordered by in a subquery, where names are those of the tables.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, ExceptSelectItem, Expr, Ident, OrderBy, OrderByKind, Query, SelectItem, SetExpr, TableAlias,
    TableFactor, Value, ValueWithSpan, Visit, Visitor, WildcardAdditionalOptions,
};

use super::forms::innermost;
use super::joins::{is_column, same};
use super::written::template;

/// Settles what the names in the order of a query mean.
pub(super) fn settle(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else { return };
    let is_first_of_each = matches!(select.distinct, Some(Distinct::On(_)));
    let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
    for by in order.iter_mut() {
        let own = innermost(&by.expr);
        if is_name(own) || is_number(own) {
            by.expr = own.clone();
        }
        let may_be_shown = match &by.expr {
            // There DataFusion looks for a column under its name outside.
            Expr::Identifier(name) => is_distinct && !is_shown(name, &select.projection),
            Expr::CompoundIdentifier(_) => is_distinct,
            expr => !is_first_of_each && !is_number(expr),
        };
        if may_be_shown && let Some(name) = shown_as(&by.expr, &select.projection) {
            by.expr = Expr::Identifier(name);
        }
    }
    let hides = |expr: &Expr| hides(&select.projection, expr);
    let is_hidden = match &select.distinct {
        None | Some(Distinct::All) => {
            order.iter().any(|by| !is_name(&by.expr) && !is_number(&by.expr) && hides(&by.expr))
        }
        Some(Distinct::On(on)) => on.iter().chain(order.iter().map(|by| &by.expr)).any(hides),
        // Only what is selected can be ordered by there.
        Some(Distinct::Distinct) => false,
    };
    if is_hidden {
        in_subquery(query);
    }
}

fn is_name(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_))
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(..), .. }))
}

/// The result column that is this expression.
fn shown_as(expr: &Expr, projection: &[SelectItem]) -> Option<Ident> {
    projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr: shown, alias } if shown == expr => Some(alias.clone()),
        _ => None,
    })
}

fn is_shown(name: &Ident, projection: &[SelectItem]) -> bool {
    projection.iter().any(|item| name_of(item).is_some_and(|own| same(own, name)))
}

/// Whether an expression names a column by a name that a result column has which is something else.
fn hides(projection: &[SelectItem], expr: &Expr) -> bool {
    expr.visit(&mut Hidden { projection }).is_break()
}

struct Hidden<'a> {
    projection: &'a [SelectItem],
}

impl Visitor for Hidden<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let name = match expr {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => match parts.last() {
                Some(name) => name,
                None => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        let is_other = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { expr: shown, alias } => {
                let is_same = match shown {
                    Expr::CompoundIdentifier(parts) => {
                        shown == expr || is_name(expr) && parts.last().is_some_and(|own| same(own, name))
                    }
                    shown => is_column(shown, name),
                };
                same(alias, name) && !is_same
            }
            _ => false,
        };
        if self.projection.iter().any(is_other) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// What is selected beside the result columns.
struct Keys<'a> {
    projection: &'a [SelectItem],
    exprs: Vec<Expr>,
}

impl Keys<'_> {
    /// What an expression over the tables is called outside of the subquery.
    fn outside(&mut self, expr: &Expr) -> Expr {
        let name = shown_as(expr, self.projection).unwrap_or_else(|| {
            let place = self.exprs.iter().position(|key| key == expr).unwrap_or_else(|| {
                self.exprs.push(expr.clone());
                self.exprs.len() - 1
            });
            key_name(place)
        });
        Expr::Identifier(name)
    }
}

fn key_name(place: usize) -> Ident {
    Ident::with_quote('"', format!("__k{}", place + 1))
}

/// `SELECT names FROM (SELECT …, keys) AS "__q" ORDER BY keys`.
fn in_subquery(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else { return };
    let shown = std::mem::take(&mut select.projection);
    let mut keys = Keys { projection: &shown, exprs: Vec::new() };
    let distinct = match select.distinct.take() {
        Some(Distinct::On(on)) => Some(Distinct::On(on.iter().map(|expr| keys.outside(expr)).collect())),
        _ => None,
    };
    for by in order.iter_mut() {
        let is_shown = match &by.expr {
            Expr::Identifier(name) => is_shown(name, &shown),
            expr => is_number(expr),
        };
        // A name or a number of DISTINCT ON was made the expression that it stands for.
        if distinct.is_some() || !is_shown {
            by.expr = keys.outside(&by.expr);
        }
    }
    let keys = keys.exprs;
    let names: Option<Vec<SelectItem>> = shown
        .iter()
        .map(|item| name_of(item).map(|name| SelectItem::UnnamedExpr(Expr::Identifier(name.clone()))))
        .collect();
    let names = names.unwrap_or_else(|| vec![all_but(keys.len())]);
    select.projection = shown;
    let keys = keys.into_iter().enumerate();
    select
        .projection
        .extend(keys.map(|(place, expr)| SelectItem::ExprWithAlias { expr, alias: key_name(place) }));
    let mut outer = template();
    if let SetExpr::Select(around) = outer.body.as_mut()
        && let Some(TableFactor::Derived { subquery, alias, .. }) =
            around.from.first_mut().map(|from| &mut from.relation)
    {
        std::mem::swap(&mut subquery.body, &mut query.body);
        let name = Ident::with_quote('"', "__q");
        *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        around.projection = names;
        around.distinct = distinct;
    }
    query.body = outer.body;
}

/// The name of a result column; none of `*`.
fn name_of(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last(),
        _ => None,
    }
}

/// `*` without the keys.
fn all_but(keys: usize) -> SelectItem {
    let opt_except = (keys > 0).then(|| ExceptSelectItem {
        first_element: key_name(0),
        additional_elements: (1..keys).map(key_name).collect(),
    });
    SelectItem::Wildcard(WildcardAdditionalOptions { opt_except, ..WildcardAdditionalOptions::default() })
}

#[cfg(test)]
mod tests {
    use super::super::written::parsed;

    #[test]
    fn names_in_an_order_are_those_that_postgresql_means() {
        for (sql, expected) in [
            ("SELECT a AS b FROM t ORDER BY b, (b), c, 1", "SELECT a AS b FROM t ORDER BY b, b, c, 1"),
            (
                "SELECT g, sum(v) AS v FROM t GROUP BY g ORDER BY sum(v) DESC",
                "SELECT g, sum(v) AS v FROM t GROUP BY g ORDER BY v DESC",
            ),
            ("SELECT v FROM t ORDER BY -v, t.v", "SELECT v FROM t ORDER BY -v, t.v"),
            ("SELECT t.v AS v FROM t ORDER BY t.v", "SELECT t.v AS v FROM t ORDER BY t.v"),
            (
                "SELECT g, -v AS v FROM t ORDER BY abs(v) DESC, g, v, h LIMIT 1",
                r#"SELECT g, v FROM (SELECT g, -v AS v, abs(v) AS "__k1", h AS "__k2" FROM t) AS "__q" ORDER BY "__k1" DESC, g, v, "__k2" LIMIT 1"#,
            ),
            (
                "SELECT *, lower(s) AS s FROM t ORDER BY s COLLATE \"C\"",
                r#"SELECT * EXCEPT ("__k1") FROM (SELECT *, lower(s) AS s, s COLLATE "C" AS "__k1" FROM t) AS "__q" ORDER BY "__k1""#,
            ),
            (
                "SELECT DISTINCT ON (g) g, -v AS v FROM t ORDER BY g, v, v + 1",
                r#"SELECT DISTINCT ON ("__k1") g, v FROM (SELECT g, -v AS v, g AS "__k1", v + 1 AS "__k2" FROM t) AS "__q" ORDER BY "__k1", v, "__k2""#,
            ),
            ("SELECT DISTINCT -v AS v FROM t ORDER BY -v", "SELECT DISTINCT -v AS v FROM t ORDER BY v"),
        ] {
            let mut statement = parsed(sql);
            super::super::names::rewrite(&mut statement);
            assert_eq!(statement.to_string(), expected);
        }
    }
}
