//! Functions that give several rows, which DataFusion has as functions that give a list.
//!
//! `SELECT generate_series(1, 3)` is three rows in PostgreSQL and one list in DataFusion. So a list is made rows of by
//! `unnest`, in SELECT as in FROM. In FROM one that names columns of what stands before it is a LATERAL subquery
//! (`lateral`).

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TimezoneInfo,
};

use super::forms::is_small;
use super::level;
use super::written::{call, is, literal, number, taken, template};
use crate::postgres::table;

/// What gives several rows, by a name that is not in quotes.
fn rows_of(name: &Ident) -> Option<table::Rows> {
    let row = name.quote_style.is_none().then(|| table::of(&name.value.to_ascii_lowercase()))?;
    row?.rows
}

/// The function whose list has the rows of another.
fn list_of(name: &ObjectName) -> Option<&'static str> {
    let [part] = name.0.as_slice() else { return None };
    match rows_of(part.as_ident()?)? {
        table::Rows::Elements(list) => Some(list),
        table::Rows::Members(_) | table::Rows::Given => None,
    }
}

/// Rows in FROM that are the members of lists.
pub(crate) struct Rows {
    /// The lists, each with its column's name.
    lists: Vec<(Expr, Ident)>,
    alias: TableAlias,
    /// A column of numbers from 1 on goes with them.
    numbered: bool,
    /// A list is made of columns of what stands before it.
    lateral: bool,
}

/// What a function in FROM gives; none when it is not one of these, or needs nothing to be done.
pub(crate) fn in_from(factor: &TableFactor) -> Option<Rows> {
    let (name, args, alias, numbered) = match factor {
        TableFactor::Table {
            name,
            args: Some(TableFunctionArgs { args, settings: None }),
            alias,
            with_ordinality,
            ..
        } => (name, args, alias, *with_ordinality),
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (name, args, alias, *with_ordinality)
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
            return unnested(array_exprs, alias.as_ref(), *with_ordinality);
        }
        _ => return None,
    };
    let own = name.0.last()?.as_ident()?;
    let arguments: Option<Vec<Expr>> = args
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect();
    let arguments = arguments?;
    let lateral = names_columns(&arguments);
    let members = match rows_of(own) {
        Some(table::Rows::Members(members)) => Some(members),
        _ => None,
    };
    let given = alias.clone();
    let alias = given.clone().unwrap_or_else(|| named(own.clone()));
    let lists = match (members, list_of(name)) {
        (Some(members), _) => {
            let keys = call("json_keys", arguments.clone());
            vec![(keys, Ident::new("key")), (call(members, arguments), Ident::new("value"))]
        }
        (None, Some(list)) => {
            if list == "generate_series" && !matches!(arguments.len(), 2 | 3) {
                return None;
            }
            // PostgreSQL calls the elements of JSON so when nobody gives them a name.
            let is_element = given.is_none() && list.starts_with("json_elements");
            let column = if is_element { Ident::new("value") } else { alias.name.clone() };
            vec![(call(list, arguments), column)]
        }
        (None, None) => return None,
    };
    Some(Rows { lists, alias, numbered, lateral })
}

/// `unnest(lists)` over columns, or numbered; any other is left to the engine.
fn unnested(lists: &[Expr], alias: Option<&TableAlias>, numbered: bool) -> Option<Rows> {
    let lateral = names_columns(lists);
    if !lateral && !numbered {
        return None;
    }
    let alias = alias.cloned().unwrap_or_else(|| named(Ident::new("unnest")));
    let only = lists.len() == 1;
    let column = if only { alias.name.clone() } else { Ident::new("unnest") };
    Some(Rows {
        lists: lists.iter().map(|list| (list.clone(), column.clone())).collect(),
        alias,
        numbered,
        lateral,
    })
}

fn named(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

impl Rows {
    /// Whether the lists can be written more than once.
    pub(crate) fn is_small(&self) -> bool {
        self.lists.iter().all(|(list, _)| is_small(list))
    }

    /// The one list, if that is all that there is, for a look at it.
    pub(crate) fn only(&self) -> Option<&Expr> {
        match self.lists.as_slice() {
            [(list, _)] => Some(list),
            _ => None,
        }
    }

    /// What stands in FROM in its stead.
    pub(super) fn factor(self) -> TableFactor {
        let Rows { mut lists, mut alias, numbered, lateral } = self;
        if !lateral && !numbered && lists.len() == 1 {
            let (list, column) = lists.remove(0);
            if alias.columns.is_empty() {
                alias.columns.push(TableAliasColumnDef { name: column, data_type: None });
            }
            return TableFactor::UNNEST {
                alias: Some(alias),
                array_exprs: vec![list],
                with_offset: false,
                with_offset_alias: None,
                with_ordinality: false,
            };
        }
        let mut query = template();
        if let SetExpr::Select(select) = query.body.as_mut() {
            let counts: Vec<Expr> =
                lists.iter().map(|(list, _)| call("cardinality", vec![list.clone()])).collect();
            let count =
                if counts.len() > 1 { Some(call("greatest", counts)) } else { counts.into_iter().next() };
            let numbers = count
                .filter(|_| numbered)
                .map(|count| (call("generate_series", vec![number("1"), count]), Ident::new("ordinality")));
            // Columns that are not given names would have one and the same.
            for place in 1..lists.len() {
                let (before, rest) = lists.split_at_mut(place);
                if let Some((_, own)) = rest.first_mut()
                    && before.iter().any(|(_, name)| name == own)
                {
                    own.value = format!("{}_{}", own.value, place + 1);
                }
            }
            if !alias.columns.is_empty() {
                let names = lists.iter().map(|(_, name)| name.clone());
                let names = names.chain(numbers.iter().map(|(_, name)| name.clone()));
                let missing = names.skip(alias.columns.len());
                let missing: Vec<_> =
                    missing.map(|name| TableAliasColumnDef { name, data_type: None }).collect();
                alias.columns.extend(missing);
            }
            let item = |(list, alias)| SelectItem::ExprWithAlias { expr: call("unnest", vec![list]), alias };
            select.projection = lists.into_iter().chain(numbers).map(item).collect();
            select.from.clear();
        }
        TableFactor::Derived { lateral, subquery: Box::new(query), alias: Some(alias), sample: None }
    }
}

/// Whether any of the expressions names a column, outside of subqueries.
pub(super) fn names_columns(exprs: &[Expr]) -> bool {
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    exprs.iter().any(|expr| level::any(expr, is_column))
}

/// Whether a SELECT gives a row for each member of something, none where there is none.
pub(super) fn has_sets(select: &Select) -> bool {
    let gives_rows = |name: &ObjectName| {
        let last = name.0.last().and_then(|part| part.as_ident());
        list_of(name).is_some() || last.and_then(rows_of) == Some(table::Rows::Given)
    };
    let is_set = |expr: &Expr| matches!(expr, Expr::Function(function) if gives_rows(&function.name));
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => level::any(expr, is_set),
        _ => false,
    })
}

/// Makes rows of the lists in SELECT.
pub(super) fn in_projection(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            level::each(expr, unnested_list);
        }
    }
}

fn unnested_list(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    if let Some(list) = list_of(&function.name) {
        function.name = ObjectName::from(vec![Ident::new(list)]);
        *expr = call("unnest", vec![taken(expr)]);
    } else if takes_lists(&function.name) {
        arguments(&mut function.args).into_iter().for_each(listed_again);
    }
}

/// Whether a function takes lists: `unnest(generate_series(1, 3))` is what people write who know the engine.
fn takes_lists(name: &ObjectName) -> bool {
    let name = name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_ascii_lowercase());
    name.is_some_and(|name| name == "unnest" || name == "cardinality" || name.starts_with("array_"))
}

/// Gives back the list that rows were made of.
fn listed_again(argument: &mut Expr) {
    if let Expr::Function(rows) = argument
        && rows.name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| is(name, "unnest"))
        && let Some(list) = arguments(&mut rows.args).into_iter().next().map(taken)
    {
        *argument = list;
    }
}

fn arguments(arguments: &mut FunctionArguments) -> Vec<&mut Expr> {
    let FunctionArguments::List(list) = arguments else { return Vec::new() };
    let plain = list.args.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    plain.collect()
}

/// `generate_series(day, day, '1 day')`: a step in words makes it one of times, also from days.
pub(super) fn times(given: &mut FunctionArguments) {
    let mut arguments = arguments(given);
    let [first, last, step] = arguments.as_mut_slice() else { return };
    let cast = |expr: &mut Expr, data_type: DataType| {
        let inner = Box::new(taken(expr));
        *expr =
            Expr::Cast { kind: CastKind::DoubleColon, expr: inner, data_type, array: false, format: None };
    };
    if let Some(digits) = literal(step).filter(|text| text.trim().parse::<i64>().is_ok()) {
        // Without a unit it is a number like the others.
        **step = number(digits.trim());
    } else if literal(step).is_some() {
        cast(step, DataType::Interval { fields: None, precision: None });
    }
    let is_span = match &**step {
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        _ => false,
    };
    if is_span {
        cast(first, DataType::Timestamp(None, TimezoneInfo::None));
        cast(last, DataType::Timestamp(None, TimezoneInfo::None));
    }
}
