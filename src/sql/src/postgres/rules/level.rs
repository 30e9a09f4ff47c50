//! The expressions of one query: all that stand in a part of it, and none of those in its subqueries, whose names, windows and
//! aggregates are their own.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, VisitMut, Visitor, VisitorMut};

/// Whether an expression is found there of which it is true; from the outermost inwards.
pub(super) fn any(part: &impl Visit, is: impl FnMut(&Expr) -> bool) -> bool {
    part.visit(&mut Level { depth: 0, act: is }).is_break()
}

/// Gives each expression there to `change`, from the innermost outwards.
pub(super) fn each(part: &mut impl VisitMut, mut change: impl FnMut(&mut Expr)) {
    let _never_ends: ControlFlow<()> = try_each(part, |expr| {
        change(expr);
        ControlFlow::Continue(())
    });
}

/// The same, until one breaks off.
pub(super) fn try_each<B>(
    part: &mut impl VisitMut,
    change: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    part.visit(&mut LevelMut { depth: 0, act: change })
}

struct Level<F> {
    /// Queries that are open around what is looked at.
    depth: usize,
    act: F,
}

impl<F: FnMut(&Expr) -> bool> Visitor for Level<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.depth == 0 && (self.act)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A visitor of what is changed is another trait than one of what is read.
struct LevelMut<F> {
    depth: usize,
    act: F,
}

impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for LevelMut<F> {
    type Break = B;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<B> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<B> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        if self.depth == 0 { (self.act)(expr) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{Ident, SetExpr, Statement};

    use super::super::written::parsed;
    use super::*;

    #[test]
    fn what_is_in_a_subquery_is_not_of_the_level() {
        let Statement::Query(mut query) = parsed("SELECT a + (SELECT b FROM t WHERE c IN (SELECT d)) + e")
        else {
            panic!("a query")
        };
        let SetExpr::Select(select) = query.body.as_mut() else { panic!("a SELECT") };
        let item = &mut select.projection[0];
        let named = |item: &_, name: &str| {
            any(item, |expr| matches!(expr, Expr::Identifier(own) if own.value == name))
        };
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|name| named(item, name)),
            [true, false, false, false, true]
        );
        each(item, |expr| {
            if let Expr::Identifier(name) = expr {
                *name = Ident::new("x");
            }
        });
        assert_eq!(item.to_string(), "x + (SELECT b FROM t WHERE c IN (SELECT d)) + x");
        let mut seen = Vec::new();
        let ended = try_each(item, |expr| {
            seen.push(expr.to_string());
            if seen.len() < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(seen.len()) }
        });
        assert_eq!((ended, seen[0].as_str()), (ControlFlow::Break(2), "x"));
    }
}
