//! What is settled once the types are known: spans (`intervals`), doubles (`floats`), and times that are written as text.
//!
//! PostgreSQL takes `2026-02-01 10:00`, `2026-2-1` and `today` for times; Arrow wants all digits, and seconds. So a written
//! time is spelled out before it is cast to one, or compared with one.

use std::sync::LazyLock;
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast, lit};
use regex::Regex;

use super::{floats, guards, in_lists, intervals};
use crate::checked;
use crate::postgres::{plain, table};
use base::clock::Timestamp;

/// Rewrites all expressions of the plan and its subqueries.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewrite_node = |node: LogicalPlan| {
        intervals::check(&node)?;
        let node = intervals::united(intervals::first_of_each(node))?;
        let has_keys = intervals::has_keys(&node);
        let facts = guards::facts(&node);
        let inputs = node.inputs();
        // A leaf's own expressions (a VALUES list, say) see no columns but its own.
        let schema = if inputs.is_empty() { node.schema().as_ref().clone() } else { merge_schema(&inputs) };
        let names = NamePreserver::new(&node);
        let rewritten = node.map_expressions(|expr| {
            // One that is changed would be given its former name, and is no grouping set under a name.
            if matches!(expr, Expr::GroupingSet(_)) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|expr| {
                moments(expr, &schema)
                    .transform_data(|expr| Ok(intervals::alike(expr, &schema)))?
                    .transform_data(|expr| Ok(intervals::spelled_out(expr, &schema)))?
                    .transform_data(|expr| Ok(opposite(expr, &schema)))?
                    .transform_data(|expr| Ok(signed(expr, &schema)))?
                    .transform_data(|expr| intervals::comparison(expr, &schema))?
                    .transform_data(|expr| intervals::ordered(expr, &schema))?
                    .transform_data(|expr| Ok(floats::comparison(expr, &schema)))?
                    .transform_data(|expr| Ok(in_lists::marked(expr)))?
                    .transform_data(|expr| guards::both(expr, &schema))
            })?;
            let rewritten = match has_keys {
                true => rewritten.transform_data(|expr| Ok(intervals::key(expr, &schema)))?,
                false => rewritten,
            };
            let rewritten = match &facts {
                Some(facts) => rewritten.transform_data(|expr| guards::all(expr, facts, &schema))?,
                None => rewritten,
            };
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        })?;
        // A decimal that became a double gives the column another type, here and in all nodes above.
        rewritten.map_data(LogicalPlan::recompute_schema)
    };
    plan.transform_up_with_subqueries(rewrite_node).data()
}

/// The opposite of a double that is none of a written number, without a sign where it means nothing; that of a whole number, which
/// DataFusion gives the least one as its own.
fn opposite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match &expr {
        Expr::Negative(inner)
            if !matches!(**inner, Expr::Literal(..))
                && inner.get_type(schema).is_ok_and(|kind| kind.is_signed_integer()) =>
        {
            Transformed::yes(checked::opposite(inner.as_ref().clone()))
        }
        Expr::Negative(inner)
            if !matches!(**inner, Expr::Literal(..))
                && inner.get_type(schema).is_ok_and(|kind| kind.is_floating()) =>
        {
            Transformed::yes(plain(expr))
        }
        _ => Transformed::no(expr),
    }
}

/// Where a count without a sign (`rank`, `row_number`) and others stand in each other's stead, it is a whole number like any
/// other: DataFusion makes an exact one of both.
fn signed(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::ScalarFunction(call) if table::is_uniform(call.name()) => call.args.iter_mut().collect(),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            results.chain(case.else_expr.as_deref_mut()).collect()
        }
        _ => return Transformed::no(expr),
    };
    let mut changed = false;
    for side in sides {
        if side.get_type(schema).is_ok_and(|kind| kind.is_unsigned_integer()) {
            *side = cast(std::mem::take(side), DataType::Int64);
            changed = true;
        }
    }
    Transformed::new_transformed(expr, changed)
}

/// Spells out the times in a cast; where times are compared, or stand in each other's stead, makes them of one type.
///
/// DataFusion makes nanoseconds of a written time, and of a date beside a time, which end in the year 2262.
fn moments(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let target = expr.get_type(schema).ok();
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::Cast(cast) => {
            let changed = match target.filter(is_time).and_then(|kind| spelled(&cast.expr, &kind)) {
                Some(spelled) => {
                    *cast.expr = spelled;
                    true
                }
                None => false,
            };
            return if changed { Transformed::yes(expr) } else { Transformed::no(expr) };
        }
        Expr::BinaryExpr(binary) if intervals::compares(binary.op) => {
            vec![&mut binary.left, &mut binary.right]
        }
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::InList(list) => std::iter::once(list.expr.as_mut()).chain(&mut list.list).collect(),
        Expr::ScalarFunction(call) if table::is_uniform(call.name()) => call.args.iter_mut().collect(),
        Expr::ScalarFunction(call) if table::of(call.name()).is_some_and(|row| row.takes_dates) => {
            // Every side is made into one, also behind one that was.
            let mut changed = false;
            for side in call.args.iter_mut().skip(1) {
                changed |= made(side, &DataType::Timestamp(TimeUnit::Microsecond, None), schema);
            }
            return Transformed::new_transformed(expr, changed);
        }
        Expr::ScalarFunction(call) if call.name() == "timezone" => {
            let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
            let time = call.args.last_mut().filter(|time| is_text(time, schema));
            let changed = time.is_some_and(|time| made(time, &kind, schema));
            return Transformed::new_transformed(expr, changed);
        }
        Expr::Case(case) => {
            let compared = case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
            let compared = case.expr.as_deref_mut().map(|of| std::iter::once(of).chain(compared).collect());
            let changed = compared.is_some_and(|sides| alike(sides, schema));
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            let changed = alike(results.chain(case.else_expr.as_deref_mut()).collect(), schema) || changed;
            return Transformed::new_transformed(expr, changed);
        }
        _ => return Transformed::no(expr),
    };
    let changed = alike(sides, schema);
    Transformed::new_transformed(expr, changed)
}

/// Makes what is compared of one type, if there is a time among it.
fn alike(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let kinds = sides.iter().filter_map(|side| side.get_type(schema).ok().filter(is_time));
    // A timestamp goes before a date.
    let kind = kinds.reduce(|kind, other| match (&kind, &other) {
        (DataType::Date32, DataType::Timestamp(..)) => other,
        _ => kind,
    });
    let Some(kind) = kind else { return false };
    let mut changed = false;
    for side in sides {
        changed |= made(side, &kind, schema);
    }
    changed
}

fn is_text(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|kind| kind.is_string())
}

/// Makes a written time one of this kind, and a date a timestamp; whether there was something to do.
fn made(side: &mut Expr, kind: &DataType, schema: &DFSchema) -> bool {
    if let Some(spelled) = spelled(side, kind) {
        *side = literal(&spelled, kind).unwrap_or(spelled);
        return true;
    }
    if let Some(written) = literal(side, kind) {
        *side = written;
        return true;
    }
    if matches!(kind, DataType::Timestamp(..)) && matches!(side.get_type(schema), Ok(DataType::Date32)) {
        *side = cast(std::mem::take(side), kind.clone());
        return true;
    }
    false
}

/// A written timestamp as a value, to the unit that it is compared with or, if it has more digits, to the microsecond. None
/// where it is no such time: the cast tells that.
fn literal(expr: &Expr, kind: &DataType) -> Option<Expr> {
    let (Expr::Literal(text @ ScalarValue::Utf8(Some(_)), _), DataType::Timestamp(unit, zone)) = (expr, kind)
    else {
        return None;
    };
    let of = |unit: TimeUnit| text.cast_to(&DataType::Timestamp(unit, zone.clone())).ok();
    let micros = of(TimeUnit::Microsecond)?;
    let ScalarValue::TimestampMicrosecond(Some(count), _) = micros else { return None };
    let fits = *unit == TimeUnit::Millisecond && count % 1000 == 0;
    Some(lit(fits.then(|| of(TimeUnit::Millisecond)).flatten().unwrap_or(micros)))
}

fn is_time(kind: &DataType) -> bool {
    matches!(kind, DataType::Timestamp(..) | DataType::Date32 | DataType::Time32(_) | DataType::Time64(_))
}

fn spelled(expr: &Expr, kind: &DataType) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => {
            let spelled = spell(text, kind, Timestamp::by_machine())?;
            (spelled != *text).then(|| lit(spelled))
        }
        _ => None,
    }
}

/// Year, month, day; hours, minutes, seconds; zone.
static MOMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"(?ix)^ ([0-9]{4}) [-/] ([0-9]{1,2}) [-/] ([0-9]{1,2})
        (?: [\ T]+ ([0-9]{1,2}) : ([0-9]{2}) (?: : ([0-9]{2} (?:\.[0-9]+)?) )? \s* (Z|UTC|[+-][0-9]{1,2} (?: :? [0-9]{2} )?)? )? $";
    Regex::new(pattern).ok()
});

/// A time with all its digits, as Arrow reads it; none when it is no time in a form that is known, which the cast tells then.
fn spell(text: &str, kind: &DataType, now: Timestamp) -> Option<String> {
    let text = text.trim();
    if matches!(kind, DataType::Time32(_) | DataType::Time64(_)) {
        let (hour, minute) = text.split_once(':')?;
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let short = matches!(hour.len(), 1 | 2) && minute.len() == 2 && digits(hour) && digits(minute);
        return short.then(|| format!("{hour:0>2}:{minute}:00"));
    }
    const DAY: Duration = Duration::from_secs(86_400);
    let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
    let named = match text.to_ascii_lowercase().as_str() {
        "now" => Some(now.to_string()),
        "today" => Some(day(now)),
        "yesterday" => Some(day(now.before(DAY))),
        "tomorrow" => Some(day(now.after(DAY))),
        "epoch" => Some("1970-01-01".to_owned()),
        _ => None,
    };
    let is_date = *kind == DataType::Date32;
    if let Some(named) = named {
        return Some(if is_date { named.chars().take(10).collect() } else { named });
    }
    if text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]));
    }
    let found = MOMENT.as_ref()?.captures(text)?;
    let part = |n: usize| found.get(n).map(|part| part.as_str());
    let date = format!("{}-{:0>2}-{:0>2}", part(1)?, part(2)?, part(3)?);
    let Some(hour) = part(4).filter(|_| !is_date) else { return Some(date) };
    let zone = match part(7) {
        None => String::new(),
        Some(zone) if zone.starts_with(['+', '-']) => {
            let (sign, digits) = (&zone[..1], zone[1..].replace(':', ""));
            let (hours, minutes) =
                if digits.len() > 2 { digits.split_at(digits.len() - 2) } else { (&*digits, "00") };
            format!("{sign}{hours:0>2}:{minutes}")
        }
        Some(_) => "Z".to_owned(),
    };
    Some(format!("{date}T{hour:0>2}:{}:{}{zone}", part(5)?, part(6).unwrap_or("00")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spelled_out() {
        let now = Timestamp(1_772_366_400_000);
        let moment = DataType::Timestamp(TimeUnit::Millisecond, None);
        for (text, expected) in [
            ("2026-02-01 10:00", Some("2026-02-01T10:00:00")),
            ("2026-2-1", Some("2026-02-01")),
            ("20260201", Some("2026-02-01")),
            ("2026/02/01 9:05:06.25", Some("2026-02-01T09:05:06.25")),
            ("2026-02-01T10:00Z", Some("2026-02-01T10:00:00Z")),
            ("2026-02-01 10:00:00+02", Some("2026-02-01T10:00:00+02:00")),
            ("2026-02-01 10:00:00 -0530", Some("2026-02-01T10:00:00-05:30")),
            ("yesterday", Some("2026-02-28")),
            ("epoch", Some("1970-01-01")),
            ("noon", None),
            ("1 day", None),
        ] {
            assert_eq!(spell(text, &moment, now).as_deref(), expected, "{text}");
        }
        assert_eq!(spell("2026-02-01 10:00", &DataType::Date32, now).as_deref(), Some("2026-02-01"));
        assert_eq!(spell("now", &DataType::Date32, now).as_deref(), Some("2026-03-01"));
        let time = DataType::Time64(TimeUnit::Nanosecond);
        assert_eq!(spell("7:30", &time, now).as_deref(), Some("07:30:00"));
    }
}
