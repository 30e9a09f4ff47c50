//! The gate: what a text must pass before it is run.
//!
//! In order: limits on the text itself (`limits`), one statement that is a query, forms that are refused because they
//! would be wrong in silence or reach outside (`refuse`), the rules that write a statement as DataFusion means it
//! (`postgres/rules`), every table resolved against the organization's list, DataFusion's plan, `verify_plan`, a walk over the
//! plan with its subqueries that lets only reading nodes through, the rules that rest on types, and last of all which values
//! are JSON. What functions and operators mean is no matter of the gate: that is `postgres`. Whoever comes this far can still
//! be slow or large; time and memory are held by killing the process.

mod dialect;
mod limits;
mod places;
mod refuse;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;

use datafusion::common::TableReference;
use datafusion::common::format::ExplainStatementOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::Statement;

use super::catalog::SCHEMA;
use super::errors::{ErrorCode, QueryError};
use super::information;
use super::limits::NESTING_MAX;
use super::names::nearest_name;
use super::postgres::rules;

pub use self::limits::STATEMENT_BYTES_MAX;
pub(super) use self::limits::check_length;
pub(super) use self::places::placed;
pub(super) use super::postgres::rules::names_outside;

/// Stack for a parser in the server's process: memory is taken only as deep as a statement goes.
const PARSE_STACK_BYTES: usize = 32 << 20;

/// A plan that may be run, and what it reads.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) plan: LogicalPlan,
    pub(super) tables: Vec<String>,
    /// For each column of the result whether it is JSON.
    pub(super) json: Vec<bool>,
    /// Only the plan is asked for (`EXPLAIN`).
    pub(super) explained: bool,
}

/// Lets a statement through or says why not, and where. `tables` are the names of the organization's tables.
pub(super) async fn admit(
    state: &SessionState,
    sql: &str,
    tables: &BTreeSet<String>,
) -> Result<Admitted, QueryError> {
    admitted(state, sql, tables).await.map_err(|error| places::placed(error, sql))
}

async fn admitted(
    state: &SessionState,
    sql: &str,
    tables: &BTreeSet<String>,
) -> Result<Admitted, QueryError> {
    limits::check(sql)?;
    let limit = state.config_options().sql_parser.recursion_limit.get();
    let (mut statement, explained) = asked(parse(sql, limit)?)?;
    let inner = query(&mut statement)?;
    rules::regroup(inner);
    refuse::check(inner)?;
    rules::statement(inner)?;
    let mut read = BTreeSet::new();
    for reference in state.resolve_table_references(&statement)? {
        read.insert(resolve(&reference, tables)?);
    }
    let plan = state.statement_to_plan(statement).await?;
    let reading = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reading.verify_plan(&plan).map_err(|error| only_queries().with_detail(error))?;
    check_plan(&plan)?;
    let (plan, json) = rules::json_columns(rules::plan(plan)?)?;
    Ok(Admitted { plan, tables: read.into_iter().collect(), json, explained })
}

/// Whether a text is one statement of a form that is run here, whatever tables there are: what is not will never be. It
/// may have parameters. For the server, which keeps statements that it does not run at once; it blocks. The parser calls
/// itself for what is nested, so it has a stack of its own that is large enough.
pub fn check_form(sql: &str) -> Result<(), QueryError> {
    limits::check(sql).map_err(|error| places::placed(error, sql))?;
    let text = sql.to_owned();
    let parse = move || {
        let (mut statement, _) = asked(parse(&text, NESTING_MAX)?)?;
        refuse::check_kept(query(&mut statement)?)
    };
    let parsing = std::thread::Builder::new().stack_size(PARSE_STACK_BYTES).spawn(parse);
    let parsed = parsing.map_err(|_| QueryError::out_of_breath())?.join();
    parsed
        .unwrap_or_else(|_panic| Err(QueryError::internal("the parser panicked")))
        .map_err(|error| places::placed(error, sql))
}

fn query(statement: &mut ParsedStatement) -> Result<&mut Statement, QueryError> {
    match statement {
        ParsedStatement::Statement(inner) if matches!(**inner, Statement::Query(_)) => Ok(inner),
        _ => Err(only_queries()),
    }
}

/// The statement itself, and whether only its plan is asked for.
fn asked(statement: ParsedStatement) -> Result<(ParsedStatement, bool), QueryError> {
    let ParsedStatement::Explain(explain) = statement else { return Ok((statement, false)) };
    let ExplainStatementOptions { analyze, format, .. } = &explain.options;
    if *analyze {
        let message = "EXPLAIN ANALYZE is not available here: EXPLAIN shows the plan and runs nothing. Run the statement \
            itself, and its execution says how long it took.";
        return Err(QueryError::invalid(message).about("ANALYZE"));
    }
    if format.is_some() {
        let message = "EXPLAIN has one form here, lines of text: leave FORMAT out.";
        return Err(QueryError::invalid(message).about("FORMAT"));
    }
    match *explain.statement {
        ParsedStatement::Explain(_) => Err(only_queries()),
        inner => Ok((inner, true)),
    }
}

fn only_queries() -> QueryError {
    QueryError::invalid("Only queries are run here: a SELECT, optionally with WITH or EXPLAIN in front.")
}

fn parse(sql: &str, limit: usize) -> Result<ParsedStatement, QueryError> {
    use datafusion::sql::parser::DFParserBuilder;
    let tokens =
        rules::tokens(sql).map_err(|error| QueryError::new(ErrorCode::SyntaxError, error.to_string()))?;
    let mut parser =
        DFParserBuilder::new(tokens).with_dialect(&dialect::Postgres).with_recursion_limit(limit).build()?;
    let mut statements = parser.parse_statements()?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err(QueryError::invalid("Only one statement is run at a time.")),
        (None, _) => Err(QueryError::invalid("There is no statement in the text.")),
    }
}

/// Whether it is one of the tables that tell about the organization's tables.
fn is_information(schema: &str, table: &str) -> bool {
    schema == information::INFORMATION && matches!(table, information::TABLES | information::COLUMNS)
}

/// The organization's table that a reference names. Missing, foreign, system and file names all get one answer.
fn resolve(reference: &TableReference, tables: &BTreeSet<String>) -> Result<String, QueryError> {
    let name = match reference {
        TableReference::Bare { table } => table,
        TableReference::Partial { schema, table } if &**schema == SCHEMA => table,
        TableReference::Partial { schema, table } if is_information(schema, table) => {
            return Ok(reference.to_string());
        }
        _ => return Err(QueryError::denied(&reference.to_string())),
    };
    if tables.contains(&**name) {
        Ok(name.to_string())
    } else {
        // Only what the caller may read is ever meant.
        let mut denied = QueryError::denied(&reference.to_string());
        if let Some(near) = nearest_name(name, tables.iter().map(String::as_str)) {
            denied.message.push_str(&format!(" Did you mean \"{near}\"?"));
        }
        Err(denied.about(name))
    }
}

/// Only nodes that read and compute, in the plan and in every subquery of it.
fn check_plan(plan: &LogicalPlan) -> Result<(), QueryError> {
    let mut refused = false;
    plan.apply_with_subqueries(|node| {
        // Listed node by node, so that a new kind of node is refused until somebody has looked at it.
        let reads = matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Repartition(_)
                | LogicalPlan::Union(_)
                | LogicalPlan::TableScan(_)
                | LogicalPlan::EmptyRelation(_)
                | LogicalPlan::Subquery(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::Unnest(_)
                | LogicalPlan::RecursiveQuery(_)
        );
        refused |= !reads;
        Ok(if reads { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    if refused { Err(only_queries()) } else { Ok(()) }
}
