//! From a structured query to SQL.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::coverage::{self, Horizon};
use super::literal::{self, NAME_BYTES_MAX, identifier};
use super::{Bucket, Dimension, Direction, Filter, FilterOp, Measure, MeasureFn, Structured};
use crate::catalog::{ColumnKind, ColumnSpec, TableSpec};
use crate::errors::QueryError;
use crate::gate::STATEMENT_BYTES_MAX;
use crate::names::{nearest_name, quoted};

pub(super) const MEASURES_MAX: usize = 50;
pub(super) const DIMENSIONS_MAX: usize = 20;
pub(super) const FILTERS_MAX: usize = 100;
/// Values of one `in`.
const VALUES_MAX: usize = 1_000;

/// A structured query as SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The statement, in a form that the console and PostgreSQL both take.
    pub sql: String,
    /// A statement that counts the readings it leaves out, when there may be such.
    pub coverage: Option<String>,
}

/// Compiles `query` against the organization's tables. A table that is none of them is `rls_denied`, as it is in SQL;
/// everything else that does not fit is `invalid_sql`, with a message that begins with the field's path. `horizons`
/// are those of the table it reads.
pub fn compile(
    query: &Structured,
    tables: &[Arc<TableSpec>],
    horizons: &[Horizon],
) -> Result<Compiled, QueryError> {
    let table = tables.iter().find(|table| table.name.as_str() == query.table);
    let table = table.ok_or_else(|| QueryError::denied(&query.table))?;
    counts(query)?;
    let mut columns = Columns::default();
    for (at, dimension) in query.dimensions.iter().enumerate() {
        let path = format!("dimensions[{at}]");
        let sql = dimension_sql(table, dimension, &path)?;
        columns.add(dimension.alias.as_deref(), default_name(dimension), sql, &path)?;
    }
    for (at, measure) in query.measures.iter().enumerate() {
        let path = format!("measures[{at}]");
        let sql = measure_sql(table, measure, &path)?;
        columns.add(measure.alias.as_deref(), measure_name(measure), sql, &path)?;
    }
    let conditions = query.filters.iter().enumerate();
    let conditions = conditions.map(|(at, filter)| condition(table, filter, &format!("filters[{at}]")));
    let conditions: Vec<String> = conditions.collect::<Result<_, _>>()?;

    let mut sql = format!("SELECT {}\nFROM {}", columns.select.join(",\n  "), identifier(&query.table));
    if !conditions.is_empty() {
        sql.push_str(&format!("\nWHERE {}", conditions.join("\n  AND ")));
    }
    let places: Vec<String> = (1..=query.dimensions.len()).map(|place| place.to_string()).collect();
    if !places.is_empty() {
        sql.push_str(&format!("\nGROUP BY {}", places.join(", ")));
    }
    let order = order(query, &columns.names)?;
    if !order.is_empty() {
        sql.push_str(&format!("\nORDER BY {}", order.join(", ")));
    }
    if let Some(limit) = query.limit {
        sql.push_str(&format!("\nLIMIT {limit}"));
    }
    let coverage = coverage::statement(query, &conditions, horizons);
    if sql.len().max(coverage.as_ref().map_or(0, String::len)) > STATEMENT_BYTES_MAX {
        let kib = STATEMENT_BYTES_MAX >> 10;
        return Err(wrong("filters", format!("come to more than {kib} KiB of SQL")));
    }
    Ok(Compiled { sql, coverage })
}

/// `structured.<field>: <what>`.
fn wrong(field: &str, what: impl std::fmt::Display) -> QueryError {
    QueryError::invalid(format!("structured.{field}: {what}"))
}

fn counts(query: &Structured) -> Result<(), QueryError> {
    if query.measures.is_empty() && query.dimensions.is_empty() {
        return Err(wrong("measures", "at least one measure or dimension is needed"));
    }
    for (field, count, most) in [
        ("measures", query.measures.len(), MEASURES_MAX),
        ("dimensions", query.dimensions.len(), DIMENSIONS_MAX),
        ("filters", query.filters.len(), FILTERS_MAX),
        ("orderBy", query.order_by.len(), MEASURES_MAX + DIMENSIONS_MAX),
    ] {
        if count > most {
            return Err(wrong(field, format!("{count} are given; at most {most} are taken")));
        }
    }
    match query.limit {
        Some(0) => Err(wrong("limit", "must be at least 1")),
        Some(limit) if i64::try_from(limit).is_err() => Err(wrong("limit", "is too large")),
        _ => Ok(()),
    }
}

/// The result's columns so far.
#[derive(Default)]
struct Columns {
    select: Vec<String>,
    names: Vec<String>,
    taken: HashSet<String>,
}

impl Columns {
    fn add(
        &mut self,
        alias: Option<&str>,
        default: String,
        sql: String,
        path: &str,
    ) -> Result<(), QueryError> {
        let name = match alias {
            Some(alias) => checked_alias(alias, path)?.to_owned(),
            None => default[..default.floor_char_boundary(NAME_BYTES_MAX)].to_owned(),
        };
        if !self.taken.insert(name.clone()) {
            let what = format!("the name \"{}\" is taken; give another one", quoted(&name));
            return Err(wrong(&format!("{path}.as"), what));
        }
        self.select.push(format!("{sql} AS {}", identifier(&name)));
        self.names.push(name);
        Ok(())
    }
}

fn checked_alias<'a>(alias: &'a str, path: &str) -> Result<&'a str, QueryError> {
    let refused = |what: String| Err(wrong(&format!("{path}.as"), what));
    if alias.trim().is_empty() {
        return refused("must not be empty".to_owned());
    }
    if alias.len() > NAME_BYTES_MAX {
        return refused(format!("has {} bytes; at most {NAME_BYTES_MAX} are allowed", alias.len()));
    }
    if alias.chars().any(char::is_control) {
        return refused("must not contain control characters".to_owned());
    }
    Ok(alias)
}

fn default_name(dimension: &Dimension) -> String {
    match dimension.bucket {
        Some(bucket) => format!("{}_{}", dimension.column, bucket.name()),
        None => dimension.column.clone(),
    }
}

fn measure_name(measure: &Measure) -> String {
    match &measure.column {
        Some(column) => format!("{}_{column}", measure.function.name()),
        None => measure.function.name().to_owned(),
    }
}

fn column<'a>(table: &'a TableSpec, name: &str, path: &str) -> Result<&'a ColumnSpec, QueryError> {
    if let Some(found) = table.columns.iter().find(|column| column.name == name) {
        return Ok(found);
    }
    let near = nearest_name(name, table.columns.iter().map(|column| column.name.as_str()));
    let near = near.map_or_else(String::new, |near| format!("; did you mean \"{}\"?", quoted(near)));
    let what = format!("there is no column \"{}\" in {}{near}", quoted(name), table.name);
    Err(wrong(&format!("{path}.column"), what))
}

/// A column as a value to compare or group by: JSON, which PostgreSQL does not compare, by its text.
fn operand(column: &ColumnSpec) -> String {
    let name = identifier(&column.name);
    if column.kind == ColumnKind::Json { format!("CAST({name} AS text)") } else { name }
}

fn dimension_sql(table: &TableSpec, dimension: &Dimension, path: &str) -> Result<String, QueryError> {
    let column = column(table, &dimension.column, path)?;
    match dimension.bucket {
        Some(_) if column.kind != ColumnKind::Timestamp => {
            let what =
                format!("\"{}\" is of the type {}; only times have buckets", column.name, type_name(column));
            Err(wrong(&format!("{path}.bucket"), what))
        }
        Some(bucket) => Ok(format!("date_trunc('{}', {})", bucket.name(), operand(column))),
        None => Ok(operand(column)),
    }
}

fn measure_sql(table: &TableSpec, measure: &Measure, path: &str) -> Result<String, QueryError> {
    let function = measure.function;
    let Some(name) = &measure.column else {
        return match function {
            MeasureFn::Count => Ok("count(*)".to_owned()),
            _ => Err(wrong(&format!("{path}.column"), format!("is needed for {}", function.name()))),
        };
    };
    let column = column(table, name, path)?;
    let numeric = matches!(column.kind, ColumnKind::Int64 | ColumnKind::Float64);
    let ordered = numeric || matches!(column.kind, ColumnKind::Text | ColumnKind::Timestamp);
    let fits = match function {
        MeasureFn::Count | MeasureFn::CountDistinct => true,
        MeasureFn::Min | MeasureFn::Max => ordered,
        _ => numeric,
    };
    if !fits {
        let what = format!(
            "\"{}\" is of the type {}, of which there is no {}",
            column.name,
            type_name(column),
            function.name()
        );
        return Err(wrong(&format!("{path}.column"), what));
    }
    let value = operand(column);
    let percentile = |share: &str| format!("percentile_cont({share}) WITHIN GROUP (ORDER BY {value})");
    Ok(match function {
        MeasureFn::CountDistinct => format!("count(DISTINCT {value})"),
        MeasureFn::Median => percentile("0.5"),
        MeasureFn::P90 => percentile("0.9"),
        MeasureFn::P95 => percentile("0.95"),
        plain => format!("{}({value})", plain.name()),
    })
}

fn type_name(column: &ColumnSpec) -> &'static str {
    column.kind.type_name()
}

fn condition(table: &TableSpec, filter: &Filter, path: &str) -> Result<String, QueryError> {
    let column = column(table, &filter.column, path)?;
    check_operator(column, filter.op, path)?;
    let value_path = format!("{path}.value");
    let operand = operand(column);
    if let FilterOp::IsNull | FilterOp::NotNull = filter.op {
        if filter.value.is_some() {
            return Err(wrong(&value_path, format!("{} takes none", filter.op.name())));
        }
        let not = if filter.op == FilterOp::NotNull { " NOT" } else { "" };
        // The column itself: a cast of NULL is NULL, but it would hide the column from whoever skips segments by it.
        return Ok(format!("({} IS{not} NULL)", identifier(&column.name)));
    }
    let given = filter.value.as_ref();
    let given = given.ok_or_else(|| wrong(&value_path, format!("is needed for {}", filter.op.name())))?;
    let literal =
        |value: &Value, path: &str| literal::value(column.kind, value).map_err(|what| wrong(path, what));
    Ok(match filter.op {
        FilterOp::In | FilterOp::NotIn => {
            let values = list(given, &value_path, 1, VALUES_MAX)?;
            let values = values.iter().enumerate();
            let values = values.map(|(at, value)| literal(value, &format!("{value_path}[{at}]")));
            let values: Vec<String> = values.collect::<Result<_, _>>()?;
            let not = if filter.op == FilterOp::NotIn { "NOT " } else { "" };
            format!("({operand} {not}IN ({}))", values.join(", "))
        }
        FilterOp::Between => {
            let values = list(given, &value_path, 2, 2)?;
            let (low, high) = (&values[0], &values[1]);
            let low = literal(low, &format!("{value_path}[0]"))?;
            let high = literal(high, &format!("{value_path}[1]"))?;
            format!("({operand} BETWEEN {low} AND {high})")
        }
        FilterOp::Contains => format!("(strpos({operand}, {}) > 0)", literal(given, &value_path)?),
        FilterOp::StartsWith => format!("starts_with({operand}, {})", literal(given, &value_path)?),
        op => format!("({operand} {} {})", op.sign(), literal(given, &value_path)?),
    })
}

fn check_operator(column: &ColumnSpec, op: FilterOp, path: &str) -> Result<(), QueryError> {
    use FilterOp::{Contains, Eq, In, IsNull, Ne, NotIn, NotNull, StartsWith};
    let fits = match column.kind {
        ColumnKind::Text => true,
        ColumnKind::Int64 | ColumnKind::Float64 | ColumnKind::Timestamp => {
            !matches!(op, Contains | StartsWith)
        }
        ColumnKind::Bool => matches!(op, Eq | Ne | In | NotIn | IsNull | NotNull),
        // Two texts of one JSON value may differ in blanks and in the order of members.
        ColumnKind::Json => matches!(op, Contains | IsNull | NotNull),
    };
    if fits {
        return Ok(());
    }
    let what = format!(
        "\"{}\" is of the type {}, which cannot be asked for {}",
        column.name,
        type_name(column),
        op.name()
    );
    Err(wrong(&format!("{path}.op"), what))
}

fn list<'a>(value: &'a Value, path: &str, least: usize, most: usize) -> Result<&'a [Value], QueryError> {
    let items = value.as_array().ok_or_else(|| wrong(path, format!("must be a list, not {value}")))?;
    if (least..=most).contains(&items.len()) {
        return Ok(items);
    }
    let wanted = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    Err(wrong(path, format!("has {} values; {wanted} are needed", items.len())))
}

/// The order by the places of the result's columns: what was asked for, else the dimensions, so that the same query
/// over the same rows gives its rows in the same order.
fn order(query: &Structured, names: &[String]) -> Result<Vec<String>, QueryError> {
    if query.order_by.is_empty() {
        return Ok((1..=query.dimensions.len()).map(|place| format!("{place} ASC NULLS LAST")).collect());
    }
    let part = |(at, by): (usize, &super::OrderBy)| {
        let place = names.iter().position(|name| *name == by.reference).ok_or_else(|| {
            let known: Vec<String> = names.iter().map(|name| format!("\"{}\"", quoted(name))).collect();
            let what = format!("names no column of the result, which are {}", known.join(", "));
            wrong(&format!("orderBy[{at}].ref"), what)
        })?;
        let direction = if by.dir == Some(Direction::Desc) { "DESC" } else { "ASC" };
        Ok(format!("{} {direction} NULLS LAST", place + 1))
    };
    query.order_by.iter().enumerate().map(part).collect()
}

impl MeasureFn {
    fn name(self) -> &'static str {
        match self {
            MeasureFn::Count => "count",
            MeasureFn::CountDistinct => "count_distinct",
            MeasureFn::Sum => "sum",
            MeasureFn::Avg => "avg",
            MeasureFn::Min => "min",
            MeasureFn::Max => "max",
            MeasureFn::Median => "median",
            MeasureFn::P90 => "p90",
            MeasureFn::P95 => "p95",
        }
    }
}

impl Bucket {
    fn name(self) -> &'static str {
        match self {
            Bucket::Hour => "hour",
            Bucket::Day => "day",
            Bucket::Week => "week",
            Bucket::Month => "month",
            Bucket::Year => "year",
        }
    }
}

impl FilterOp {
    fn name(self) -> &'static str {
        match self {
            FilterOp::Eq => "eq",
            FilterOp::Ne => "ne",
            FilterOp::Lt => "lt",
            FilterOp::Lte => "lte",
            FilterOp::Gt => "gt",
            FilterOp::Gte => "gte",
            FilterOp::In => "in",
            FilterOp::NotIn => "not_in",
            FilterOp::Contains => "contains",
            FilterOp::StartsWith => "starts_with",
            FilterOp::Between => "between",
            FilterOp::IsNull => "is_null",
            FilterOp::NotNull => "not_null",
        }
    }

    /// The operator of a comparison with one value.
    fn sign(self) -> &'static str {
        match self {
            FilterOp::Ne => "<>",
            FilterOp::Lt => "<",
            FilterOp::Lte => "<=",
            FilterOp::Gt => ">",
            FilterOp::Gte => ">=",
            _ => "=",
        }
    }
}
