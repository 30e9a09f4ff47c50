//! Forms that are refused by their syntax: those that write or reach outside, and those that DataFusion accepts and
//! then answers wrongly. Each was seen to be wrong against PostgreSQL 15; a refusal is better than a false number.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Query, Select, SelectFlavor, SetExpr, SetQuantifier, Spanned, Statement, TableFactor,
    Value, ValueWithSpan, Visit, Visitor,
};

use super::places;
use crate::errors::{ErrorCode, QueryError, quoted};
use crate::postgres::rules::{forms, joins, multisets, predicates, refusals, sets, tuples};

/// Most tables and subqueries in all FROM clauses together: a FROM list becomes a join tree as deep as it is long.
const RELATIONS_MAX: usize = 100;

/// Longest series of numbers that is written out.
const SERIES_MAX: u128 = 1_000_000;

const UNBOUND: &str = "JOIN without ON or USING (say what joins the two, or write CROSS JOIN)";
const OPEN: &str = "IN, ANY or ALL with a subquery below NOT, IS, CASE or a comparison, or NOT IN below OR (where a NULL among its \
                    rows leaves it open: write EXISTS or NOT EXISTS with the condition that is meant)";
const OPEN_VALUE: &str = "ANY or ALL with a subquery where its truth is a value, but = ANY and <> ALL of one column, or IN of several \
                          (where a NULL leaves it open: write EXISTS or NOT EXISTS with the condition that is meant)";
const UNCLEAR: &str = "RIGHT or FULL JOIN with USING or NATURAL, of more than two tables, in parentheses or with * (write \
                       ON a.x = b.x, and coalesce(a.x, b.x) for the column)";

/// Walks the whole statement, subqueries included. All parameters have their values by now.
pub(super) fn check(statement: &Statement) -> Result<(), QueryError> {
    walk(statement, false)
}

/// The same of a statement that is kept: it may have parameters.
pub(super) fn check_kept(statement: &Statement) -> Result<(), QueryError> {
    walk(statement, true)
}

fn walk(statement: &Statement, takes_parameters: bool) -> Result<(), QueryError> {
    match statement.visit(&mut Refusals { relations: 0, takes_parameters }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Refusals {
    relations: usize,
    takes_parameters: bool,
}

type Flow = ControlFlow<QueryError>;

fn refuse(what: &str) -> Flow {
    ControlFlow::Break(QueryError::invalid(format!("{what} is not available here.")))
}

fn refuse_if(condition: bool, what: &str) -> Flow {
    if condition { refuse(what) } else { ControlFlow::Continue(()) }
}

impl Visitor for Refusals {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        at(query_forms(query), query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        at(select_forms(select), select)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        self.relations += 1;
        if self.relations > RELATIONS_MAX {
            let text = format!("The statement reads from more than {RELATIONS_MAX} tables and subqueries.");
            return ControlFlow::Break(QueryError::invalid(text));
        }
        at(table_forms(factor), factor)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        at(expr_forms(expr), expr)
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> Flow {
        let is_parameter = !self.takes_parameters && matches!(value.value, Value::Placeholder(_));
        at(refuse_if(is_parameter, "A parameter ($1) without a value (send its value in params)"), value)
    }
}

/// A refusal with the place of what is refused.
fn at(flow: Flow, what: &impl Spanned) -> Flow {
    flow.map_break(|error| places::placed_at(error, what.span()))
}

fn query_forms(query: &Query) -> Flow {
    refuse_if(!query.locks.is_empty(), "FOR UPDATE and FOR SHARE")?;
    refuse_if(query.for_clause.is_some(), "FOR XML, JSON and BROWSE")?;
    refuse_if(query.settings.is_some() || query.format_clause.is_some(), "SETTINGS and FORMAT")?;
    refuse_if(!query.pipe_operators.is_empty(), "The pipe syntax")?;
    let exact = query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties || fetch.percent);
    refuse_if(exact, "FETCH FIRST with PERCENT or TIES")?;
    refuse_if(query.order_by.as_ref().is_some_and(predicates::asks_without_value), OPEN_VALUE)?;
    set_expressions(&query.body)
}

fn select_forms(select: &Select) -> Flow {
    refuse_if(select.into.is_some(), "SELECT … INTO")?;
    refuse_if(select.top.is_some(), "TOP")?;
    refuse_if(!select.lateral_views.is_empty() || select.prewhere.is_some(), "LATERAL VIEW and PREWHERE")?;
    refuse_if(!select.connect_by.is_empty(), "CONNECT BY")?;
    let hive = [select.cluster_by.is_empty(), select.distribute_by.is_empty(), select.sort_by.is_empty()];
    refuse_if(hive.contains(&false), "CLUSTER, DISTRIBUTE and SORT BY")?;
    let joined = select.from.iter().flat_map(|from| &from.joins).map(|join| &join.join_operator);
    refuse_if(joined.clone().any(joins::is_unbound), UNBOUND)?;
    refuse_if(joined.filter_map(joins::condition).any(forms::asks_openly), OPEN)?;
    refuse_if(joins::is_unclear(select), UNCLEAR)?;
    if let Some(condition) = &select.selection {
        refuse_if(
            forms::windows(condition),
            "A window function in WHERE (put the query in a subquery, and the condition around it)",
        )?;
        refuse_if(forms::aggregates(condition), "An aggregate function in WHERE (use HAVING)")?;
        refuse_if(forms::asks_openly(condition), OPEN)?;
    }
    refuse_if(select.having.as_ref().is_some_and(forms::asks_openly), OPEN)?;
    refuse_if(predicates::values_of(select).any(predicates::asks_without_value), OPEN_VALUE)?;
    refuse_if(select.value_table_mode.is_some(), "AS STRUCT and AS VALUE")?;
    refuse_if(!matches!(select.flavor, SelectFlavor::Standard), "A query that begins with FROM")
}

fn table_forms(factor: &TableFactor) -> Flow {
    if let Some(word) = reserved(factor) {
        let text = format!("syntax error at or near \"{word}\"");
        return ControlFlow::Break(QueryError::new(ErrorCode::SyntaxError, text).about(word));
    }
    match factor {
        factor if sets::in_from(factor).is_some() => series_is_short(factor),
        TableFactor::Table { with_ordinality: true, .. }
        | TableFactor::Function { with_ordinality: true, .. } => refuse("WITH ORDINALITY"),
        TableFactor::NestedJoin { table_with_joins, .. } => {
            let mut operators = table_with_joins.joins.iter().map(|join| &join.join_operator);
            refuse_if(operators.clone().any(joins::is_unbound), UNBOUND)?;
            refuse_if(operators.any(joins::merges), UNCLEAR)
        }
        TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
            let name = quoted(&name.to_string());
            refuse(&format!(
                "The table function \"{name}\" (in FROM there are generate_series, unnest, json_array_elements, json_each, \
                     json_object_keys, string_to_table and regexp_split_to_table)"
            ))
        }
        TableFactor::Table {
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
            ..
        } => {
            refuse_if(sample.is_some(), "TABLESAMPLE")?;
            refuse_if(*with_ordinality, "WITH ORDINALITY")?;
            refuse_if(version.is_some(), "A table's earlier version")?;
            let hints = !with_hints.is_empty() || !index_hints.is_empty();
            refuse_if(hints || !partitions.is_empty() || json_path.is_some(), "A table hint")
        }
        TableFactor::Derived { sample, .. } => refuse_if(sample.is_some(), "TABLESAMPLE"),
        TableFactor::UNNEST { with_ordinality, with_offset, .. } => {
            refuse_if(*with_ordinality || *with_offset, "WITH ORDINALITY")
        }
        _ => refuse("This form of FROM"),
    }
}

/// Words that are no names unless they stand in quotes, where the parser takes them for a table's.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "both", "case", "cast", "check", "collate",
    "column", "constraint", "create", "cross", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except",
    "false", "fetch", "for", "foreign", "from", "full", "grant", "group", "having", "ilike", "in", "initially", "inner",
    "intersect", "into", "is", "isnull", "join", "lateral", "leading", "left", "like", "limit", "natural", "not", "notnull",
    "null", "offset", "on", "only", "or", "order", "outer", "overlaps", "placing", "primary", "references", "returning",
    "right", "select", "similar", "some", "symmetric", "table", "tablesample", "then", "to", "trailing", "true", "union",
    "unique", "using", "variadic", "when", "where", "window", "with",
];

/// The reserved word that is given as a table's name.
fn reserved(factor: &TableFactor) -> Option<&str> {
    let TableFactor::Table { name, args: None, .. } = factor else { return None };
    let [only] = name.0.as_slice() else { return None };
    let word = only.as_ident().filter(|word| word.quote_style.is_none())?.value.as_str();
    RESERVED.binary_search(&word.to_ascii_lowercase().as_str()).is_ok().then_some(word)
}

fn expr_forms(expr: &Expr) -> Flow {
    match expr {
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if is_cut(right) => {
            refuse("ANY and ALL over a subquery with ORDER BY and LIMIT (compare with the subquery itself)")
        }
        Expr::InList { .. } if tuples::is_too_long(expr) => refuse(&format!(
            "IN over more than {} rows (join with a list of them: JOIN (VALUES …) AS v(a, b) ON …)",
            tuples::ROWS_MAX
        )),
        Expr::RLike { .. } | Expr::MatchAgainst { .. } => refuse("RLIKE and MATCH"),
        Expr::Cast { data_type, .. } if is_padded(data_type) => refuse("The type char(n) (use text)"),
        _ => match refusals::of(expr) {
            Some(what) => refuse(&what),
            None => ControlFlow::Continue(()),
        },
    }
}

/// Whether it is a subquery of the first rows: one of no rows is NULL when it is made one value, where ALL is true.
fn is_cut(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(query) if query.order_by.is_some() && query.limit_clause.is_some())
}

/// The parts of a UNION and its like; by an own stack, for a chain of them is as deep as it is long.
fn set_expressions(body: &SetExpr) -> Flow {
    let mut stack = vec![body];
    while let Some(part) = stack.pop() {
        match part {
            SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => {}
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let multi = multisets::is_one(*op, *set_quantifier);
                refuse_if(
                    multi && !multisets::is_counted(left),
                    "INTERSECT ALL or EXCEPT ALL of * or VALUES (name the columns)",
                )?;
                let plain = matches!(
                    set_quantifier,
                    SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None
                );
                refuse_if(!plain, "UNION BY NAME")?;
                stack.extend([&**left, &**right]);
            }
            SetExpr::Table(_) => return refuse("TABLE (use SELECT * FROM)"),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                return refuse("A statement that writes");
            }
        }
    }
    ControlFlow::Continue(())
}

/// `char(n)` pads with blanks in PostgreSQL and cuts nothing in DataFusion.
fn is_padded(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Char(_) | DataType::Character(_) | DataType::Nvarchar(_))
}

/// A series of whole numbers is a list in memory.
fn series_is_short(factor: &TableFactor) -> Flow {
    let Some(rows) = sets::in_from(factor) else { return ControlFlow::Continue(()) };
    if !rows.is_small() {
        return refuse("A function in FROM over so long an expression");
    }
    let Some(call @ Expr::Function(_)) = rows.only() else { return ControlFlow::Continue(()) };
    let text = call.to_string();
    let inner = text.split_once('(').map_or("", |(_, inner)| inner.trim_end_matches(')'));
    let numbers: Vec<i128> = inner.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    let length = match numbers.as_slice() {
        [first, last] => last.abs_diff(*first),
        [first, last, step] => last.abs_diff(*first) / step.unsigned_abs().max(1),
        _ => 0,
    };
    refuse_if(length > SERIES_MAX, "A generate_series of more than 1,000,000 numbers")
}
