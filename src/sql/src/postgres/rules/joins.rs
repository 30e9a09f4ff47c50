//! `a RIGHT JOIN b USING (x)` and `FULL JOIN … USING`: the one column `x` that comes out.
//!
//! In PostgreSQL it is the right side's, or whichever side has one; in DataFusion it is always the left side's, which is NULL
//! for the rows that only the right side has. So what names it is given what it means: `b.x`, or `coalesce(a.x, b.x)`.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, VisitMut,
};

use super::level;
use super::written::call;

/// Whether `SELECT` is over a join of these kinds that is not rewritten here: of more than two tables, of tables without
/// names, or with `*`.
pub(crate) fn is_unclear(select: &Select) -> bool {
    let mut joins = select.from.iter().flat_map(|from| &from.joins);
    joins.any(|join| merges(&join.join_operator)) && merged(select).is_none()
}

/// Whether a join makes one column of two, of which the left one may be missing.
pub(crate) fn merges(operator: &JoinOperator) -> bool {
    match operator {
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) | JoinOperator::FullOuter(on) => {
            matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural)
        }
        _ => false,
    }
}

/// The same, to be changed.
pub(super) fn condition_mut(operator: &mut JoinOperator) -> Option<&mut Expr> {
    match operator {
        JoinOperator::Join(JoinConstraint::On(on))
        | JoinOperator::Inner(JoinConstraint::On(on))
        | JoinOperator::Left(JoinConstraint::On(on))
        | JoinOperator::LeftOuter(JoinConstraint::On(on))
        | JoinOperator::Right(JoinConstraint::On(on))
        | JoinOperator::RightOuter(JoinConstraint::On(on))
        | JoinOperator::FullOuter(JoinConstraint::On(on)) => Some(on),
        _ => None,
    }
}

/// The condition of a join, where it has one.
pub(crate) fn condition(operator: &JoinOperator) -> Option<&Expr> {
    match operator {
        JoinOperator::Join(JoinConstraint::On(on))
        | JoinOperator::Inner(JoinConstraint::On(on))
        | JoinOperator::Left(JoinConstraint::On(on))
        | JoinOperator::LeftOuter(JoinConstraint::On(on))
        | JoinOperator::Right(JoinConstraint::On(on))
        | JoinOperator::RightOuter(JoinConstraint::On(on))
        | JoinOperator::FullOuter(JoinConstraint::On(on)) => Some(on),
        _ => None,
    }
}

/// Whether a join says nothing of what it joins by: DataFusion takes it for a cross join.
pub(crate) fn is_unbound(operator: &JoinOperator) -> bool {
    match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on) => *on == JoinConstraint::None,
        _ => false,
    }
}

/// The columns that such a join makes one of two, each with what it means.
fn merged(select: &Select) -> Option<Vec<(Ident, Expr)>> {
    let [from] = select.from.as_slice() else { return None };
    let [join] = from.joins.as_slice() else { return None };
    let (columns, is_full) = match &join.join_operator {
        JoinOperator::Right(JoinConstraint::Using(columns))
        | JoinOperator::RightOuter(JoinConstraint::Using(columns)) => (columns, false),
        JoinOperator::FullOuter(JoinConstraint::Using(columns)) => (columns, true),
        _ => return None,
    };
    if select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_))) {
        return None;
    }
    let (left, right) = (name(&from.relation)?, name(&join.relation)?);
    let meant = |column: &Ident| {
        let of = |table: &Ident| Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
        if is_full { call("coalesce", vec![of(&left), of(&right)]) } else { of(&right) }
    };
    let columns = columns.iter().map(|column| {
        let column = column.0.last()?.as_ident()?;
        Some((column.clone(), meant(column)))
    });
    columns.collect()
}

fn name(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, alias: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// Whether an expression is a column by its bare name.
pub(super) fn is_column(expr: &Expr, name: &Ident) -> bool {
    matches!(expr, Expr::Identifier(column) if same(column, name))
}

/// Whether two identifiers are one name.
pub(super) fn same(left: &Ident, right: &Ident) -> bool {
    let folded = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    };
    folded(left) == folded(right)
}

/// Gives the merged columns what they mean, wherever the query names them.
pub(super) fn merge(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        let mut parts = vec![query.body.as_mut()];
        while let Some(part) = parts.pop() {
            match part {
                SetExpr::SetOperation { left, right, .. } => parts.extend([left.as_mut(), right.as_mut()]),
                SetExpr::Select(select) => drop(merge_select(select)),
                // A query in parentheses is one of its own.
                _ => {}
            }
        }
        return;
    };
    let Some(meaning) = merge_select(select) else { return };
    let shown = |column: &Ident| {
        let own = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => same(alias, column),
            _ => false,
        };
        select.projection.iter().any(own)
    };
    if let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        for by in order {
            // A result column goes before one of the tables.
            if !matches!(&by.expr, Expr::Identifier(column) if shown(column)) {
                meaning.give(&mut by.expr);
            }
        }
    }
}

/// The same for everything but the order, and what the columns mean; none when nothing is merged.
fn merge_select(select: &mut Select) -> Option<Meaning> {
    let meaning = Meaning(merged(select)?);
    meaning.give(&mut select.distinct);
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(column)) = item {
            let alias = column.clone();
            *item = SelectItem::ExprWithAlias { expr: Expr::Identifier(alias.clone()), alias };
        }
        meaning.give(item);
    }
    meaning.give(&mut select.selection);
    meaning.give(&mut select.having);
    meaning.give(&mut select.named_window);
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
        meaning.give(exprs);
    }
    Some(meaning)
}

/// What columns are that stand under one name.
struct Meaning(Vec<(Ident, Expr)>);

impl Meaning {
    /// In a subquery the name may be one of its own.
    fn give(&self, to: &mut impl VisitMut) {
        level::each(to, |expr| {
            if let Expr::Identifier(column) = expr
                && let Some((_, meant)) = self.0.iter().find(|(own, _)| same(own, column))
            {
                *expr = meant.clone();
            }
        });
    }
}
