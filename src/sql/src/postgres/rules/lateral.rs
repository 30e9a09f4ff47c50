//! LATERAL: a subquery in FROM that names columns of what stands before it.
//!
//! DataFusion joins by equality where the subquery is tied to the outside by nothing else. Two kinds it cannot plan are rewritten
//! here, on the plan:
//!
//! - A subquery of no table, as functions that give rows are (`readings r, jsonb_each(r."values") AS e`): its steps are taken over
//!   the rows outside themselves, and bring along their columns.
//! - The first rows of each (`… WHERE r.url = u.url ORDER BY r.scraped_at DESC LIMIT 3`): the rows are numbered for each value
//!   of what ties them to the outside, and those of small numbers are joined.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, DataFusionError, JoinType, NullHandling, Result, ScalarValue, TableReference,
};
use datafusion::functions_nested::expr_fn::cardinality;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{Case, Sort as SortExpr};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprFunctionExt, FetchType, Filter, Join, LogicalPlan, LogicalPlanBuilder, Operator,
    Projection, SkipType, Subquery, SubqueryAlias, Unnest, lit,
};

/// Rewrites what of LATERAL the planner cannot run, in the plan and its subqueries.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut made = 0;
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
        let Some((subquery, alias)) = lateral(&join.right) else { return Ok(Transformed::no(node)) };
        made += 1;
        let other = match over_rows(join, &subquery.subquery, alias.as_ref(), made)? {
            None => first_rows(join, &subquery.subquery, alias.as_ref(), made)?,
            other => other,
        };
        Ok(match other {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(node),
        })
    });
    let rewritten = rewritten?;
    if !rewritten.transformed {
        return Ok(rewritten.data);
    }
    // Whether a column can be NULL is told anew by all that stands above.
    rewritten.data.transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes)).data()
}

/// The subquery that is on the right side of a join, and its name.
fn lateral(right: &LogicalPlan) -> Option<(&Subquery, Option<TableReference>)> {
    match right {
        LogicalPlan::Subquery(subquery) => Some((subquery, None)),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some((subquery, Some(alias.alias.clone()))),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression names a column from outside.
fn is_outer(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::OuterReferenceColumn(..)))).unwrap_or(true)
}

/// An expression with what a column from outside is now.
fn resolved(expr: Expr, column: &impl Fn(&Column) -> Option<Column>) -> Result<Option<Expr>> {
    let mut is_known = true;
    let expr = expr
        .transform(|part| match &part {
            Expr::OuterReferenceColumn(_, outer) => match column(outer) {
                Some(own) => Ok(Transformed::yes(Expr::Column(own))),
                None => {
                    is_known = false;
                    Ok(Transformed::no(part))
                }
            },
            _ => Ok(Transformed::no(part)),
        })
        .data()?;
    Ok(is_known.then_some(expr))
}

/// The columns of a schema as expressions.
fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

// A subquery of no table.

/// The rows outside on their way through a subquery's steps: each of their columns under a name of its own.
struct Outside<'a> {
    plan: &'a LogicalPlan,
    names: Vec<String>,
    /// A row outside stays also when the subquery has none for it.
    keeps: bool,
    /// What the column is called that tells whether it has one, where rows are kept.
    member: String,
}

/// A step over the rows outside.
struct Lifted {
    plan: LogicalPlan,
    /// It has the column that tells whether the row is one of the subquery.
    has_member: bool,
}

/// A join with a subquery of no table as that subquery's steps over the rows outside.
fn over_rows(
    join: &Join,
    subquery: &LogicalPlan,
    alias: Option<&TableReference>,
    number: usize,
) -> Result<Option<LogicalPlan>> {
    let condition = conjunction(join.filter.clone().into_iter().filter(|filter| !is_true(filter)));
    let keeps = match join.join_type {
        JoinType::Inner => false,
        // A condition would have to leave the row outside.
        JoinType::Left if condition.is_none() && join.on.is_empty() => true,
        _ => return Ok(None),
    };
    let left = join.left.schema();
    let names = (0..left.fields().len()).map(|place| format!("__outside_{number}_{place}")).collect();
    let outside = Outside { plan: &join.left, names, keeps, member: format!("__member_{number}") };
    let Some(Lifted { plan: lifted, has_member }) = outside.lift(subquery)? else { return Ok(None) };
    // The columns have their own names again.
    let before = left.iter().zip(&outside.names).map(|((table, field), name)| {
        Expr::Column(Column::from_name(name)).alias_qualified(table.cloned(), field.name())
    });
    let inner = subquery.schema().iter().map(|(table, field)| {
        let own = Expr::Column(Column::new(table.cloned(), field.name()));
        let own = match has_member {
            // All of a row that is none of the subquery is NULL, what is written out too.
            true => Expr::Case(Case::new(
                None,
                vec![(Box::new(Expr::Column(Column::from_name(&outside.member))), Box::new(own))],
                None,
            )),
            false => own,
        };
        own.alias_qualified(alias.cloned().or(table.cloned()), field.name())
    });
    let projection = Projection::try_new(before.chain(inner).collect(), Arc::new(lifted))?;
    let mut plan = LogicalPlan::Projection(projection);
    let on = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    if let Some(condition) = conjunction(on.chain(condition)) {
        plan = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?);
    }
    Ok(Some(plan))
}

fn is_true(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Boolean(Some(true)), _))
}

impl Outside<'_> {
    /// A step of the subquery over the rows outside; none when it is one that cannot be taken so.
    fn lift(&self, step: &LogicalPlan) -> Result<Option<Lifted>> {
        let mut has_member = false;
        // What is below a step, and whether it tells of members.
        let mut below = |input: &LogicalPlan| {
            Ok::<_, DataFusionError>(self.lift(input)?.map(|lifted| {
                has_member = lifted.has_member;
                lifted.plan
            }))
        };
        let plan = match step {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                let named = columns(self.plan.schema()).into_iter().zip(&self.names);
                let named = named.map(|(column, name)| column.alias(name)).collect();
                LogicalPlan::Projection(Projection::try_new(named, Arc::new(self.plan.clone()))?)
            }
            LogicalPlan::Projection(projection) => {
                let Some(input) = below(&projection.input)? else { return Ok(None) };
                let mut exprs = self.own(has_member);
                for expr in &projection.expr {
                    let Some(expr) = self.resolved(expr.clone())? else { return Ok(None) };
                    exprs.push(expr);
                }
                LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)
            }
            LogicalPlan::Filter(filter) if !self.keeps => {
                let Some(input) = below(&filter.input)? else { return Ok(None) };
                let Some(predicate) = self.resolved(filter.predicate.clone())? else { return Ok(None) };
                LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)
            }
            LogicalPlan::Unnest(unnest) => {
                let Some(mut input) = below(&unnest.input)? else { return Ok(None) };
                if self.keeps {
                    let is_flat = unnest.list_type_columns.iter().all(|(_, list)| list.depth == 1);
                    // Members of members would be told by more columns than one.
                    if has_member || !is_flat || unnest.list_type_columns.is_empty() {
                        return Ok(None);
                    }
                    input = self.told(input, unnest)?;
                    has_member = true;
                }
                let mut options = unnest.options.clone();
                // A row outside without members stays, as one of NULLs.
                options.null_handling =
                    if self.keeps { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop };
                LogicalPlan::Unnest(Unnest::try_new(Arc::new(input), unnest.exec_columns.clone(), options)?)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = below(&alias.input)? else { return Ok(None) };
                let renamed = alias.input.schema().columns().into_iter().map(|column| {
                    let name = column.name.clone();
                    Expr::Column(column).alias_qualified(Some(alias.alias.clone()), name)
                });
                let exprs = self.own(has_member).into_iter().chain(renamed).collect();
                LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)
            }
            // A function in FROM that names columns of what stands before the subquery.
            LogicalPlan::Subquery(subquery) => {
                let Some(input) = below(&subquery.subquery)? else { return Ok(None) };
                input
            }
            _ => return Ok(None),
        };
        Ok(Some(Lifted { plan, has_member }))
    }

    /// With a column that tells whether there is a member in any of the lists that rows are made of.
    fn told(&self, input: LogicalPlan, unnest: &Unnest) -> Result<LogicalPlan> {
        let schema = unnest.input.schema();
        let lists = unnest.list_type_columns.iter().map(|(place, _)| {
            let (table, field) = schema.qualified_field(*place);
            let list = Expr::Column(Column::new(table.cloned(), field.name()));
            Expr::IsTrue(Box::new(cardinality(list).gt(lit(0_u64))))
        });
        let any = lists.reduce(Expr::or).unwrap_or_else(|| lit(false)).alias(&self.member);
        let exprs = columns(input.schema()).into_iter().chain([any]).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
    }

    fn own(&self, has_member: bool) -> Vec<Expr> {
        let member = has_member.then_some(&self.member);
        self.names.iter().chain(member).map(|name| Expr::Column(Column::from_name(name))).collect()
    }

    fn resolved(&self, expr: Expr) -> Result<Option<Expr>> {
        resolved(expr, &|outer| {
            let place = self.plan.schema().maybe_index_of_column(outer)?;
            self.names.get(place).map(Column::from_name)
        })
    }
}

// The first rows of each.

/// What ties rows to the outside: a column of them, and what it is equal to there.
type Ties = Vec<(Column, Expr)>;

/// A join with the first rows of a subquery as one with its numbered rows.
fn first_rows(
    join: &Join,
    subquery: &LogicalPlan,
    alias: Option<&TableReference>,
    number: usize,
) -> Result<Option<LogicalPlan>> {
    let is_kind = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    let has_limit = subquery.exists(|node| Ok(matches!(node, LogicalPlan::Limit(_))))?;
    if !is_kind || !has_limit {
        return Ok(None);
    }
    let mut untying = Untying { number, made: 0 };
    let Some((plan, ties)) = untying.untie(subquery)? else { return Ok(None) };
    let (plan, ties) = match alias {
        None => (plan, ties),
        Some(alias) => renamed(plan, ties, alias)?,
    };
    let mut conditions = Vec::new();
    for (column, outer) in ties {
        let Some(outer) = resolved(outer, &|outer| Some(outer.clone()))? else { return Ok(None) };
        // What is further outside cannot be joined with here.
        let left = join.left.schema();
        if outer.column_refs().iter().any(|column| !left.has_column(column)) {
            return Ok(None);
        }
        conditions.push(outer.eq(Expr::Column(column)));
    }
    let on = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let filter = join.filter.clone().into_iter().filter(|filter| !is_true(filter));
    conditions.extend(on.chain(filter));
    let joined =
        LogicalPlanBuilder::from(join.left.as_ref().clone()).join_on(plan, join.join_type, conditions)?;
    let joined = joined.build()?;
    let projection = Projection::try_new(columns(&join.schema), Arc::new(joined))?;
    Ok(Some(LogicalPlan::Projection(projection)))
}

/// The plan under another name.
fn renamed(plan: LogicalPlan, ties: Ties, alias: &TableReference) -> Result<(LogicalPlan, Ties)> {
    let plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(plan), alias.clone())?);
    let ties = ties.into_iter().map(|(column, outer)| (Column::new(Some(alias.clone()), column.name), outer));
    Ok((plan, ties.collect()))
}

struct Untying {
    number: usize,
    /// Columns that were made.
    made: usize,
}

impl Untying {
    fn name(&mut self) -> String {
        self.made += 1;
        format!("__tie_{}_{}", self.number, self.made)
    }

    /// A plan that names nothing outside, with a column for each thing that it was tied by; none when it is tied otherwise.
    fn untie(&mut self, plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Ties)>> {
        if !names_outside(plan)? {
            return Ok(Some((plan.clone(), Vec::new())));
        }
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => {
                let Some((input, ties)) = self.untie(&projection.input)? else { return Ok(None) };
                if projection.expr.iter().any(is_outer) {
                    return Ok(None);
                }
                let tied = ties.iter().map(|(column, _)| Expr::Column(column.clone()));
                let exprs = projection.expr.iter().cloned().chain(tied).collect();
                let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?);
                Ok(Some((plan, ties)))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some((input, ties)) = self.untie(&alias.input)? else { return Ok(None) };
                renamed(input, ties, &alias.alias).map(Some)
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let Some((input, ties)) = self.untie(&sort.input)? else { return Ok(None) };
                let sorted = LogicalPlanBuilder::from(input).sort(sort.expr.clone())?.build()?;
                Ok(Some((sorted, ties)))
            }
            LogicalPlan::Limit(limit) => {
                let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(fetch))) =
                    (limit.get_skip_type(), limit.get_fetch_type())
                else {
                    return Ok(None);
                };
                self.first(&limit.input, skip, fetch)
            }
            _ => Ok(None),
        }
    }

    fn filter(&mut self, filter: &Filter) -> Result<Option<(LogicalPlan, Ties)>> {
        let Some((input, mut ties)) = self.untie(&filter.input)? else { return Ok(None) };
        let (tied, own): (Vec<_>, Vec<_>) =
            split_conjunction(&filter.predicate).into_iter().cloned().partition(is_outer);
        let mut exprs = columns(input.schema());
        for condition in tied {
            let Some((own, outer)) = equality(condition) else { return Ok(None) };
            let name = self.name();
            exprs.push(own.alias(&name));
            ties.push((Column::from_name(name), outer));
        }
        let mut plan = input;
        if let Some(own) = conjunction(own) {
            plan = LogicalPlan::Filter(Filter::try_new(own, Arc::new(plan))?);
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        Ok(Some((plan, ties)))
    }

    /// The rows of each value of the ties from one number to another, in the order in which they come.
    fn first(
        &mut self,
        input: &LogicalPlan,
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Option<(LogicalPlan, Ties)>> {
        // Above a sort there may be a step that only takes columns away again.
        if let LogicalPlan::Projection(projection) = input {
            if projection.expr.iter().any(is_outer) {
                return Ok(None);
            }
            let Some((first, ties)) = self.first(&projection.input, skip, fetch)? else { return Ok(None) };
            let tied = ties.iter().map(|(column, _)| Expr::Column(column.clone()));
            let exprs = projection.expr.iter().cloned().chain(tied).collect();
            return Ok(Some((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(first))?), ties)));
        }
        let (input, order): (&LogicalPlan, Vec<SortExpr>) = match input {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (&sort.input, sort.expr.clone()),
            other => (other, Vec::new()),
        };
        let Some((plan, ties)) = self.untie(input)? else { return Ok(None) };
        let shown = columns(plan.schema());
        let partition = ties.iter().map(|(column, _)| Expr::Column(column.clone())).collect();
        let numbered = row_number().partition_by(partition).order_by(order).build()?;
        let numbers = Expr::Column(Column::from_name(numbered.schema_name().to_string()));
        let plan = LogicalPlanBuilder::from(plan).window([numbered])?;
        let number = |rows: usize| lit(ScalarValue::UInt64(Some(rows as u64)));
        let mut condition = numbers.clone().gt(number(skip));
        if let Some(fetch) = fetch {
            condition = condition.and(numbers.lt_eq(number(skip.saturating_add(fetch))));
        }
        let plan = plan.filter(condition)?.project(shown)?.build()?;
        Ok(Some((plan, ties)))
    }
}

/// Whether anything in a plan names a column outside of it.
pub(crate) fn names_outside(plan: &LogicalPlan) -> Result<bool> {
    let found = plan.apply_with_subqueries(|node| {
        Ok(if node.contains_outer_reference() {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found == TreeNodeRecursion::Stop)
}

/// `own = outer`, in either order: the part that names nothing outside, and the one that names nothing else.
fn equality(condition: Expr) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let (own, outer) = if is_outer(&left) { (*right, *left) } else { (*left, *right) };
    let is_clear = !is_outer(&own) && outer.column_refs().is_empty();
    is_clear.then_some((own, outer))
}
