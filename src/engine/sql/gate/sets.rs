//! Functions that give several rows, which DataFusion has as functions that give a list.
//!
//! `SELECT generate_series(1, 3)` is three rows in PostgreSQL and one list in DataFusion. So a list is made rows of by
//! `unnest`, in SELECT as in FROM. In FROM such a function may not name another table there.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query,
    Select, SelectItem, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TimezoneInfo,
    VisitMut, VisitorMut,
};

use super::dialect::{call, is, literal, taken};

/// PostgreSQL's functions and ours that give their rows as a list.
const SETS: &[(&str, &str)] = &[
    ("generate_series", "generate_series"),
    ("json_array_elements", "json_elements"),
    ("json_array_elements_text", "json_elements_text"),
    ("json_object_keys", "json_keys"),
    ("jsonb_array_elements", "json_elements"),
    ("jsonb_array_elements_text", "json_elements_text"),
    ("jsonb_object_keys", "json_keys"),
    ("regexp_split_to_table", "regexp_split_to_array"),
    ("string_to_table", "string_to_array"),
];

fn list_of(name: &ObjectName) -> Option<&'static str> {
    let [part] = name.0.as_slice() else { return None };
    let name = part.as_ident()?;
    SETS.iter().find(|(set, _)| is(name, set)).map(|(_, list)| *list)
}

/// A function in FROM as the list that it is, and its alias.
pub(super) fn in_from(factor: &TableFactor) -> Option<(Expr, TableAlias)> {
    let (name, args, alias) = match factor {
        TableFactor::Table {
            name, args: Some(TableFunctionArgs { args, settings: None }), alias, ..
        } => (name, args, alias),
        TableFactor::Function { name, args, alias, lateral: false, .. } => (name, args, alias),
        _ => return None,
    };
    let list = list_of(name)?;
    let arguments: Option<Vec<Expr>> = args
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect();
    let arguments = arguments.filter(|all| list != "generate_series" || matches!(all.len(), 2 | 3))?;
    let own = || TableAlias {
        explicit: true,
        name: name.0[0].as_ident().cloned().unwrap_or_else(|| Ident::new(list)),
        columns: Vec::new(),
        at: None,
    };
    let mut alias = alias.clone().unwrap_or_else(own);
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    Some((call(list, arguments), alias))
}

/// Makes rows of the lists in SELECT.
pub(super) fn in_projection(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            // The visitor never breaks.
            let _ = expr.visit(&mut Sets { depth: 0 });
        }
    }
}

struct Sets {
    depth: usize,
}

impl VisitorMut for Sets {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        if let Some(list) = list_of(&function.name) {
            function.name = ObjectName::from(vec![Ident::new(list)]);
            *expr = call("unnest", vec![taken(expr)]);
        } else if takes_lists(&function.name) {
            arguments(&mut function.args).into_iter().for_each(listed_again);
        }
        ControlFlow::Continue(())
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
    if literal(step).is_some() {
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
