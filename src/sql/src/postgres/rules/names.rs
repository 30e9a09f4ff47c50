//! Result columns named as PostgreSQL names them, and no name twice.
//!
//! PostgreSQL says `count` and `avg` where DataFusion says `count(*)` and `avg(readings.price)`; the rule is that of
//! `FigureColname` in PostgreSQL's parser: a function's name, the column below a cast, `case`, else `?column?`. A row
//! is a JSON object here, so of two columns with one name the second becomes `name_2`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Distinct, Expr, Ident, LimitClause, OrderBy, OrderByKind, Query, Select,
    SelectItem, SetExpr, Statement, TrimWhereField, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use super::ordering;
use crate::names::unique;

/// What PostgreSQL calls a column that has no name.
const UNNAMED: &str = "?column?";

/// Rewrites every SELECT of the statement, and FETCH FIRST into LIMIT.
pub(super) fn rewrite(statement: &mut Statement) {
    // The visitor never breaks.
    let _ = statement.visit(&mut Names);
}

struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let offset = match &mut query.limit_clause {
            None => None,
            Some(LimitClause::LimitOffset { limit: None, offset, .. }) => offset.take(),
            Some(_) => return ControlFlow::Continue(()),
        };
        if let Some(fetch) = query.fetch.take() {
            let one = || Expr::value(datafusion::sql::sqlparser::ast::Value::Number("1".to_owned(), false));
            let limit = Some(fetch.quantity.unwrap_or_else(one));
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by: Vec::new() });
        } else if let Some(LimitClause::LimitOffset { offset: place, .. }) = &mut query.limit_clause {
            *place = offset;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        order_by_names(query);
        ordering::settle(query);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut used = HashSet::new();
        for item in &mut select.projection {
            name_item(item, &mut used);
        }
        distinct_on(select);
        ControlFlow::Continue(())
    }
}

/// An order without what is ordered by already, which decides nothing, and for which DISTINCT ON fails. With DISTINCT ON it is that
/// of the rows of FROM, of which DataFusion keeps the first.
fn order_by_names(query: &mut Query) {
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else { return };
    let mut seen: Vec<Expr> = Vec::new();
    order.retain(|by| {
        let is_new = !seen.contains(&by.expr);
        seen.push(by.expr.clone());
        is_new
    });
    if let SetExpr::Select(select) = query.body.as_ref()
        && let Some(Distinct::On(_)) = &select.distinct
    {
        order.iter_mut().for_each(|by| by_its_expression(&mut by.expr, &select.projection));
    }
}

/// `DISTINCT ON (url) url, price AS p … ORDER BY url, p, 1`: what a result column's name or number stands for.
fn by_its_expression(by: &mut Expr, projection: &[SelectItem]) {
    let of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let meant = match by {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            let place = digits.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
            place.and_then(|place| projection.get(place)).and_then(of)
        }
        Expr::Identifier(name) => {
            let wanted = ident_name(name);
            projection.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if ident_name(alias) == wanted => {
                    Some(expr.clone())
                }
                _ => None,
            })
        }
        _ => None,
    };
    if let Some(meant) = meant {
        *by = meant;
    }
}

/// The same for what DISTINCT ON names.
fn distinct_on(select: &mut Select) {
    if let Some(Distinct::On(on)) = &mut select.distinct {
        on.iter_mut().for_each(|by| by_its_expression(by, &select.projection));
    }
}

fn name_item(item: &mut SelectItem, used: &mut HashSet<String>) {
    match item {
        SelectItem::UnnamedExpr(Expr::Wildcard(_) | Expr::QualifiedWildcard(..)) => {}
        SelectItem::UnnamedExpr(expr) => {
            let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            let wanted = figure(expr).unwrap_or_else(|| UNNAMED.to_owned());
            let name = unique(&wanted, used);
            if !plain || name != wanted {
                let expr = std::mem::replace(expr, Expr::value(datafusion::sql::sqlparser::ast::Value::Null));
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
            }
        }
        SelectItem::ExprWithAlias { alias, .. } => {
            let wanted = ident_name(alias);
            let name = unique(&wanted, used);
            if name != wanted {
                *alias = Ident::with_quote('"', name);
            }
        }
        _ => {}
    }
}

/// An identifier without quotes means its lower case.
fn ident_name(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// PostgreSQL's name for an expression, if it has one.
fn figure(expr: &Expr) -> Option<String> {
    named(expr).map(|found| found.name)
}

/// A name, and whether it is only that of a type, or `case`: such a one gives way to that of the type it is cast to, and to what
/// it stands in.
struct Named {
    name: String,
    is_weak: bool,
}

impl Named {
    fn strong(name: impl Into<String>) -> Option<Self> {
        Some(Self { name: name.into(), is_weak: false })
    }

    fn weak(name: impl Into<String>) -> Option<Self> {
        Some(Self { name: name.into(), is_weak: true })
    }
}

/// Looks at every part once: a chain of casts may be as long as a statement.
fn named(expr: &Expr) -> Option<Named> {
    let strong = |inner: Option<&Expr>| inner.and_then(named).filter(|found| !found.is_weak);
    match expr {
        Expr::Identifier(ident) => Named::strong(ident_name(ident)),
        Expr::CompoundIdentifier(parts) => Named::strong(ident_name(parts.last()?)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => named(inner),
        Expr::CompoundFieldAccess { root, .. } => named(root),
        Expr::Cast { expr, data_type, .. } => {
            strong(Some(expr)).or_else(|| Named::weak(type_name(data_type)))
        }
        Expr::TypedString(typed) => Named::weak(type_name(&typed.data_type)),
        Expr::Interval(_) => Named::weak("interval"),
        Expr::Function(function) => Named::strong(ident_name(function.name.0.last()?.as_ident()?)),
        Expr::Case { else_result, .. } => strong(else_result.as_deref()).or_else(|| Named::weak("case")),
        Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => Named::strong("overlaps"),
        Expr::Exists { negated: false, .. } => Named::strong("exists"),
        Expr::Subquery(query) => Named::strong(first_column(&query.body)?),
        Expr::Array(_) => Named::strong("array"),
        Expr::Extract { .. } => Named::strong("extract"),
        Expr::Substring { shorthand, .. } => Named::strong(if *shorthand { "substr" } else { "substring" }),
        Expr::Position { .. } => Named::strong("position"),
        Expr::Trim { trim_where, .. } => Named::strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        Expr::Overlay { .. } => Named::strong("overlay"),
        Expr::Ceil { .. } => Named::strong("ceil"),
        Expr::Floor { .. } => Named::strong("floor"),
        Expr::AtTimeZone { .. } => Named::strong("timezone"),
        _ => None,
    }
}

fn first_column(body: &SetExpr) -> Option<String> {
    let SetExpr::Select(select) = body else { return None };
    match select.projection.first()? {
        SelectItem::UnnamedExpr(expr) => figure(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(ident_name(alias)),
        _ => None,
    }
}

fn type_name(data_type: &DataType) -> String {
    let text = data_type.to_string().to_ascii_lowercase();
    // A list is named after what is in it.
    let text = text.trim_end_matches("[]").to_owned();
    let name = match text.split('(').next().unwrap_or_default().trim() {
        "int" | "integer" | "int4" => "int4",
        "bigint" | "int8" => "int8",
        "smallint" | "int2" => "int2",
        "double precision" | "float" | "float8" | "double" => "float8",
        "real" | "float4" => "float4",
        "boolean" | "bool" => "bool",
        "character varying" | "varchar" => "varchar",
        "decimal" | "numeric" | "dec" => "numeric",
        "timestamp with time zone" | "timestamptz" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        other => other,
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::written::parsed;
    use super::*;

    fn rewritten(sql: &str) -> String {
        let mut statement = parsed(sql);
        rewrite(&mut statement);
        statement.to_string()
    }

    #[test]
    fn columns_are_named_as_postgresql_names_them() {
        for (sql, expected) in [
            ("SELECT count(*), AVG(p) FROM t", r#"SELECT count(*) AS "count", AVG(p) AS "avg" FROM t"#),
            ("SELECT a, t.b FROM t", "SELECT a, t.b FROM t"),
            ("SELECT a, a FROM t", r#"SELECT a, a AS "a_2" FROM t"#),
            ("SELECT a::int, '1'::int", r#"SELECT a::INT AS "a", '1'::INT AS "int4""#),
            ("SELECT 1, 2 + 3", r#"SELECT 1 AS "?column?", 2 + 3 AS "?column?_2""#),
            (
                "SELECT CASE WHEN a THEN 1 END, CASE WHEN a THEN 1 ELSE b END",
                r#"SELECT CASE WHEN a THEN 1 END AS "case", CASE WHEN a THEN 1 ELSE b END AS "b""#,
            ),
            ("SELECT max(a) AS A, a FROM t", r#"SELECT max(a) AS A, a AS "a_2" FROM t"#),
            ("SELECT a FROM t OFFSET 5 FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3 OFFSET 5"),
            ("SELECT a FROM t LIMIT 2 OFFSET 1", "SELECT a FROM t LIMIT 2 OFFSET 1"),
            (
                "SELECT DISTINCT lower(a) FROM t ORDER BY lower(a), b",
                r#"SELECT DISTINCT lower(a) AS "lower" FROM t ORDER BY "lower", b"#,
            ),
            (
                "SELECT (1::int)::text, CASE WHEN a THEN b ELSE 1::int END::text, (a::int)::text",
                r#"SELECT (1::INT)::TEXT AS "text", CASE WHEN a THEN b ELSE 1::INT END::TEXT AS "text_2", (a::INT)::TEXT AS "a""#,
            ),
            ("SELECT a FROM t OFFSET 1", "SELECT a FROM t OFFSET 1"),
            (
                "SELECT DISTINCT ON (1, c) lower(a), b AS c FROM t ORDER BY 1, c, b DESC, 9",
                r#"SELECT DISTINCT ON (lower(a), b) lower(a) AS "lower", b AS c FROM t ORDER BY lower(a), b, b DESC, 9"#,
            ),
        ] {
            assert_eq!(rewritten(sql), expected);
        }
    }
}
