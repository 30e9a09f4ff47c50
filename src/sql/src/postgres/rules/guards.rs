//! `x <> 0 AND 10 / x > 1`: what stands behind AND and OR is worked out where what stands before it leaves that open.
//!
//! DataFusion works both sides out for all rows of a batch, and a quotient by zero fails the statement. So a divisor, or a text
//! that is cast, is NULL for the rows whose answer the other side has given already: there the answer does not change by it.

use std::collections::HashMap;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit};

/// Most expressions of the conditions that are written before what they guard.
const GUARD_NODES_MAX: usize = 100;
/// Most expressions of what is guarded: conditions within conditions would grow with every level.
const OPERAND_NODES_MAX: usize = 300;
/// Most conditions that are looked at for one operand.
const GUARDS_LOOKED_AT: usize = 100;
/// Most conditions of subqueries that are looked at.
const FACTS_MAX: usize = 50;

/// One AND or OR: what stands behind it, by what stands before it. NULL before it leaves it open.
pub(super) fn both(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &mut expr else {
        return Ok(Transformed::no(expr));
    };
    if !matches!(op, Operator::And | Operator::Or) || !can_fail(right, schema) {
        return Ok(Transformed::no(expr));
    }
    let before = split_binary(left, *op);
    let op = *op;
    let guarded = guard(std::mem::take(right.as_mut()), schema, &|operand| {
        let guards = chosen(before.iter().copied(), operand, schema);
        // Where the answer is there already.
        match op {
            Operator::And => conjunction(guards).map(|all| Expr::IsFalse(Box::new(all))),
            _ => disjunction(guards).map(|any| Expr::IsTrue(Box::new(any))),
        }
    })?;
    **right = guarded.data;
    Ok(Transformed::new_transformed(expr, guarded.transformed))
}

/// The conditions of a WHERE, in whatever order they are written: each by those that cannot fail. A row of which one is not true
/// is left out anyway.
pub(super) fn all(condition: Expr, facts: &[Expr], schema: &DFSchema) -> Result<Transformed<Expr>> {
    let parts = split_conjunction(&condition);
    if parts.len() + facts.len() < 2 || !parts.iter().any(|part| can_fail(part, schema)) {
        return Ok(Transformed::no(condition));
    }
    let mut changed = false;
    let guarded = parts.iter().enumerate().map(|(place, part)| {
        let others = || {
            let others = parts.iter().enumerate().filter(|(other, _)| *other != place);
            others.map(|(_, other)| *other).chain(facts)
        };
        let part = guard((*part).clone(), schema, &|operand| {
            conjunction(chosen(others(), operand, schema)).map(|all| Expr::IsNotTrue(Box::new(all)))
        })?;
        changed |= part.transformed;
        Ok(part.data)
    });
    let guarded = guarded.collect::<Result<Vec<_>>>()?;
    Ok(match conjunction(guarded) {
        Some(condition) if changed => Transformed::yes(condition),
        _ => Transformed::no(condition),
    })
}

/// What holds of all rows that a WHERE is asked of, by the conditions of subqueries in its FROM: DataFusion asks all of them at
/// once. None for a step that is no WHERE.
pub(super) fn facts(node: &LogicalPlan) -> Option<Vec<Expr>> {
    match node {
        LogicalPlan::Filter(filter) => {
            let mut left = FACTS_MAX;
            Some(holding(&filter.input, &mut left))
        }
        _ => None,
    }
}

/// What holds of the rows of a plan, by their columns' names outside.
fn holding(plan: &LogicalPlan, left: &mut usize) -> Vec<Expr> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let mut facts = holding(&filter.input, left);
            let own = split_conjunction(&filter.predicate).into_iter();
            let own: Vec<Expr> =
                own.filter(|fact| nodes(fact, GUARD_NODES_MAX).is_some()).take(*left).cloned().collect();
            *left -= own.len();
            facts.extend(own);
            facts
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = alias.input.schema().columns();
            let outer = inner.iter().cloned().zip(alias.schema.columns()).collect();
            renamed(holding(&alias.input, left), &outer)
        }
        LogicalPlan::Projection(projection) => {
            let shown = projection.expr.iter().zip(projection.schema.columns());
            let outer = shown.filter_map(|(expr, outer)| match expr {
                Expr::Column(inner) => Some((inner.clone(), outer)),
                Expr::Alias(alias) => match alias.expr.as_ref() {
                    Expr::Column(inner) => Some((inner.clone(), outer)),
                    _ => None,
                },
                _ => None,
            });
            renamed(holding(&projection.input, left), &outer.collect())
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let mut facts = holding(&join.left, left);
            facts.extend(holding(&join.right, left));
            facts
        }
        LogicalPlan::Sort(sort) => holding(&sort.input, left),
        _ => Vec::new(),
    }
}

/// Those of which every column is to be seen outside.
fn renamed(facts: Vec<Expr>, outer: &HashMap<Column, Column>) -> Vec<Expr> {
    let seen =
        facts.into_iter().filter(|fact| fact.column_refs().iter().all(|column| outer.contains_key(*column)));
    let renamed = seen.filter_map(|fact| {
        let named = fact.transform(|part| {
            Ok(match &part {
                Expr::Column(inner) => match outer.get(inner) {
                    Some(outer) => Transformed::yes(Expr::Column(outer.clone())),
                    None => Transformed::no(part),
                },
                _ => Transformed::no(part),
            })
        });
        named.data().ok()
    });
    renamed.collect()
}

/// The conditions that say of which rows an operand is worked out: such as cannot fail themselves, and name a column of it. No more
/// than may be written once for each operand.
fn chosen<'a>(conditions: impl Iterator<Item = &'a Expr>, operand: &Expr, schema: &DFSchema) -> Vec<Expr> {
    let named = operand.column_refs();
    let is_subquery =
        |part: &Expr| matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
    let mut left = GUARD_NODES_MAX;
    let guards = |condition: &&Expr| {
        let Some(nodes) = nodes(condition, left) else { return false };
        let guards = condition.column_refs().iter().any(|column| named.contains(column))
            && !condition.is_volatile()
            && !condition.exists(|part| Ok(is_subquery(part))).unwrap_or(true)
            && !can_fail(condition, schema);
        left -= if guards { nodes } else { 0 };
        guards
    };
    conditions.take(GUARDS_LOOKED_AT).filter(guards).cloned().collect()
}

/// Makes operands that can fail NULL where `is_known` says.
fn guard(
    expr: Expr,
    schema: &DFSchema,
    is_known: &dyn Fn(&Expr) -> Option<Expr>,
) -> Result<Transformed<Expr>> {
    expr.transform_down(|mut part| {
        let Some(operand) =
            failing(&part, schema).filter(|operand| nodes(operand, OPERAND_NODES_MAX).is_some())
        else {
            return Ok(Transformed::no(part));
        };
        let Some(known) = is_known(operand) else { return Ok(Transformed::no(part)) };
        let own = match &mut part {
            Expr::BinaryExpr(binary) => binary.right.as_mut(),
            Expr::ScalarFunction(call) => &mut call.args[1],
            Expr::Cast(cast) => cast.expr.as_mut(),
            _ => return Ok(Transformed::no(part)),
        };
        let null = Box::new(lit(ScalarValue::Null));
        let operand = Box::new(std::mem::take(own));
        *own = Expr::Case(Case::new(None, vec![(Box::new(known), null)], Some(operand)));
        Ok(Transformed::yes(part))
    })
}

/// What makes an expression fail: the divisor of exact numbers, or a text that is made something else.
fn failing<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<&'a Expr> {
    let is_text = |kind: &DataType| kind.is_string();
    let operand = match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => right.as_ref(),
        Expr::ScalarFunction(call) if call.name() == "/" => call.args.get(1)?,
        Expr::Cast(cast) if !is_text(cast.field.data_type()) => {
            let kind = cast.expr.get_type(schema).ok();
            kind.is_some_and(|kind| is_text(&kind)).then_some(cast.expr.as_ref())?
        }
        _ => return None,
    };
    (!operand.column_refs().is_empty()).then_some(operand)
}

fn can_fail(expr: &Expr, schema: &DFSchema) -> bool {
    expr.exists(|part| Ok(failing(part, schema).is_some())).unwrap_or(true)
}

/// How many expressions there are in one; none if there are more than so many.
fn nodes(expr: &Expr, most: usize) -> Option<usize> {
    let mut nodes = 0;
    let counted = expr.apply(|_| {
        nodes += 1;
        Ok(if nodes > most { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    counted.is_ok_and(|_| nodes <= most).then_some(nodes)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::prelude::col;

    use super::*;

    fn schema() -> DFSchema {
        let fields = [("x", DataType::Int64), ("y", DataType::Int64), ("t", DataType::Utf8)];
        let fields = fields.map(|(name, kind)| Field::new(name, kind, true));
        DFSchema::try_from(Schema::new(fields.to_vec())).expect("a schema")
    }

    fn quotient() -> Expr {
        (lit(10_i64) / col("x")).gt(lit(1_i64))
    }

    #[test]
    fn what_can_fail_is_guarded_by_what_names_its_columns() {
        let schema = schema();
        let is_not_zero = || col("x").not_eq(lit(0_i64));
        for (condition, expected) in [
            (
                is_not_zero().and(quotient()),
                "x != Int64(0) AND Int64(10) / CASE WHEN x != Int64(0) IS FALSE THEN NULL ELSE x END > Int64(1)",
            ),
            (
                col("x").eq(lit(0_i64)).or(quotient()),
                "x = Int64(0) OR Int64(10) / CASE WHEN x = Int64(0) IS TRUE THEN NULL ELSE x END > Int64(1)",
            ),
            (col("y").gt(lit(0_i64)).and(quotient()), "y > Int64(0) AND Int64(10) / x > Int64(1)"),
            (quotient().and(is_not_zero()), "Int64(10) / x > Int64(1) AND x != Int64(0)"),
        ] {
            assert_eq!(both(condition, &schema).expect("rewritten").data.to_string(), expected);
        }
        let where_ = all(quotient().and(is_not_zero()), &[], &schema).expect("rewritten").data.to_string();
        let guarded = "Int64(10) / CASE WHEN x != Int64(0) IS NOT TRUE THEN NULL ELSE x END > Int64(1)";
        assert_eq!(where_, format!("{guarded} AND x != Int64(0)"));
        let fact = all(quotient(), &[is_not_zero()], &schema).expect("rewritten").data.to_string();
        assert_eq!(fact, guarded);
    }

    #[test]
    fn many_conditions_do_not_multiply() {
        let schema = schema();
        let conditions = (0..400_i64).flat_map(|n| [col("x").not_eq(lit(n)), quotient()]);
        let condition = conjunction(conditions).expect("some");
        let guarded = all(condition, &[], &schema).expect("rewritten").data;
        let mut nested = quotient();
        for n in 0..60_i64 {
            nested = both(col("x").not_eq(lit(n)).and(nested), &schema).expect("rewritten").data;
        }
        for (expr, most) in [(guarded, 400 * 200), (nested, 2_000)] {
            assert!(nodes(&expr, most).is_some(), "more than {most}");
        }
    }
}
