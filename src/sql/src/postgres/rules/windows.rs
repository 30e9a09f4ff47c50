//! Named windows: `OVER w`, `OVER (w ORDER BY x)`, and windows that are made of others.
//!
//! DataFusion looks a name up in `OVER w` of the selected columns only: in `OVER (w)` and `OVER (w ORDER BY x)` it leaves the
//! name out, and the function runs over all rows. So every window is written out where it is used, by PostgreSQL's rules.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, Statement, VisitMut,
    VisitorMut, WindowSpec, WindowType,
};

use super::joins::same;
use super::{forms, level};
use crate::errors::{QueryError, quoted};

/// Writes the windows out in the whole statement, subqueries included.
pub(super) fn rewrite(statement: &mut Statement) -> Result<(), QueryError> {
    match statement.visit(&mut Queries) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Queries;

impl VisitorMut for Queries {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        // Its order may have functions over windows of the SELECT.
        if let SetExpr::Select(select) = query.body.as_ref()
            && let Some(order) = &mut query.order_by
        {
            let windows = defined(&select.named_window)?;
            write_uses(order, &windows)?;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        let windows = defined(&select.named_window)?;
        write_uses(&mut select.projection, &windows)?;
        write_uses(&mut select.distinct, &windows)?;
        write_uses(&mut select.qualify, &windows)?;
        select.named_window.clear();
        ControlFlow::Continue(())
    }
}

type Windows = Vec<(Ident, WindowSpec)>;

fn refused<T>(text: String) -> ControlFlow<QueryError, T> {
    ControlFlow::Break(QueryError::invalid(text))
}

/// The windows of a SELECT, each written out by those before it.
fn defined(definitions: &[NamedWindowDefinition]) -> ControlFlow<QueryError, Windows> {
    let mut windows = Windows::new();
    for NamedWindowDefinition(name, definition) in definitions {
        if windows.iter().any(|(known, _)| same(known, name)) {
            return refused(format!("The window \"{}\" is defined twice.", quoted(&name.value)));
        }
        let spec = match definition {
            NamedWindowExpr::NamedWindow(other) => find(&windows, other)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => written_out(&windows, spec)?,
        };
        if !forms::is_small(&spec) {
            return refused(format!("The window \"{}\" is too large to be named.", quoted(&name.value)));
        }
        windows.push((name.clone(), spec));
    }
    ControlFlow::Continue(windows)
}

fn find<'a>(windows: &'a Windows, name: &Ident) -> ControlFlow<QueryError, &'a WindowSpec> {
    match windows.iter().find(|(known, _)| same(known, name)) {
        Some((_, spec)) => ControlFlow::Continue(spec),
        None => refused(format!("There is no window \"{}\".", quoted(&name.value))),
    }
}

/// `(w ORDER BY x)` with what `w` says. What begins with a window has its parts, may add an order if that has none, and its own
/// frame if that has none.
fn written_out(windows: &Windows, spec: &WindowSpec) -> ControlFlow<QueryError, WindowSpec> {
    let Some(name) = &spec.window_name else { return ControlFlow::Continue(spec.clone()) };
    let base = find(windows, name)?;
    let shown = quoted(&name.value);
    if !spec.partition_by.is_empty() {
        return refused(format!("A window made of \"{shown}\" cannot have a PARTITION BY of its own."));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refused(format!(
            "The window \"{shown}\" has an ORDER BY: one made of it cannot have another."
        ));
    }
    if base.window_frame.is_some() {
        return refused(format!(
            "The window \"{shown}\" has a frame: write OVER {shown} without parentheses."
        ));
    }
    let order_by = if spec.order_by.is_empty() { base.order_by.clone() } else { spec.order_by.clone() };
    ControlFlow::Continue(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.clone(),
        order_by,
        window_frame: spec.window_frame.clone(),
    })
}

/// Writes the windows out where functions run over them. A subquery has windows of its own.
fn write_uses(part: &mut impl VisitMut, windows: &Windows) -> ControlFlow<QueryError> {
    level::try_each(part, |expr| {
        if let Expr::Function(function) = expr
            && let Some(over) = &mut function.over
        {
            let spec = match over {
                WindowType::NamedWindow(name) => find(windows, name)?.clone(),
                WindowType::WindowSpec(spec) => written_out(windows, spec)?,
            };
            *over = WindowType::WindowSpec(spec);
        }
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::written::parsed;
    use super::*;

    fn written(sql: &str) -> Result<String, QueryError> {
        let mut statement = parsed(sql);
        rewrite(&mut statement).map(|()| statement.to_string())
    }

    #[test]
    fn windows_are_written_out_where_they_are_used() {
        for (sql, expected) in [
            (
                "SELECT sum(a) OVER (w), rank() OVER (W ORDER BY b) FROM t WINDOW w AS (PARTITION BY c)",
                "SELECT sum(a) OVER (PARTITION BY c), rank() OVER (PARTITION BY c ORDER BY b) FROM t",
            ),
            (
                "SELECT sum(a) OVER v FROM t WINDOW w AS (PARTITION BY c), v AS (w ORDER BY d ROWS 1 PRECEDING)",
                "SELECT sum(a) OVER (PARTITION BY c ORDER BY d ROWS 1 PRECEDING) FROM t",
            ),
            (
                "SELECT a FROM t WINDOW w AS (ORDER BY c) ORDER BY sum(a) OVER (w ROWS 2 PRECEDING)",
                "SELECT a FROM t ORDER BY sum(a) OVER (ORDER BY c ROWS 2 PRECEDING)",
            ),
            (
                "SELECT sum(a) OVER w, (SELECT max(b) OVER w FROM s WINDOW w AS (ORDER BY e)) FROM t WINDOW w AS (ORDER BY c)",
                "SELECT sum(a) OVER (ORDER BY c), (SELECT max(b) OVER (ORDER BY e) FROM s) FROM t",
            ),
        ] {
            assert_eq!(written(sql).expect("it is written out"), expected);
        }
        for (sql, part) in [
            ("SELECT sum(a) OVER (v) FROM t WINDOW w AS (ORDER BY c)", "no window \"v\""),
            ("SELECT sum(a) OVER (w ORDER BY d) FROM t WINDOW w AS (ORDER BY c)", "cannot have another"),
            ("SELECT sum(a) OVER (w PARTITION BY d) FROM t WINDOW w AS (ORDER BY c)", "PARTITION BY"),
            ("SELECT sum(a) OVER (w) FROM t WINDOW w AS (ORDER BY c ROWS 1 PRECEDING)", "has a frame"),
            ("SELECT 1 FROM t WINDOW w AS (ORDER BY c), w AS (ORDER BY d)", "twice"),
        ] {
            assert!(written(sql).expect_err("refused").message.contains(part), "{sql}");
        }
    }
}
