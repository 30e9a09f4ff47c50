//! Conditions: what a question says of values, amounts and what is missing.

use super::{Interpreter, LIMIT_MAX};
use crate::items::{Item, Placed};
use crate::plan::Condition;
use crate::table::Kind;
use serde_json::{Value, json};

impl Interpreter<'_> {
    /// A number, with its unit where it has one.
    pub(super) fn amount(&mut self) -> Option<(f64, bool)> {
        let (at, next) = self.peek()?;
        let Item::Number(number) = next.item else { return None };
        self.at = at + 1;
        match self.peek() {
            Some((at, Placed { item: Item::Scale(scale), .. })) => {
                self.at = at + 1;
                Some((number * scale, true))
            }
            _ => Some((number, false)),
        }
    }

    pub(super) fn compare(&mut self, op: &str, placed: &Placed) {
        let before = self.near.filter(|column| self.is_number(*column));
        let Some((number, scaled)) = self.amount() else {
            if placed.text.eq_ignore_ascii_case("over") || op == "eq" {
                return;
            }
            return self.lost(placed);
        };
        match before.or_else(|| self.compared(scaled)) {
            Some(column) => self.condition(column, op, self.written(column, number)),
            None => self.lost(placed),
        }
    }

    /// What a number without a column before it is about: the column behind it, a duration, or a price.
    pub(super) fn compared(&mut self, scaled: bool) -> Option<usize> {
        if scaled {
            return self.table.position("duration_ms");
        }
        if let Some((at, next)) = self.peek()
            && let Item::Column(columns, exact) = &next.item
            && self.is_number(columns[0])
        {
            self.at = at + 1;
            return Some(self.picked(columns, *exact));
        }
        self.table.position("price")
    }

    pub(super) fn between(&mut self, placed: &Placed) {
        let before = self.near.filter(|column| self.is_number(*column));
        let Some((low, _)) = self.amount() else { return self.lost(placed) };
        if let Some((at, Placed { item: Item::And, .. })) = self.peek() {
            self.at = at + 1;
        }
        let Some((high, scaled)) = self.amount() else { return self.lost(placed) };
        let Some(column) = before.or_else(|| self.compared(scaled)) else { return self.lost(placed) };
        let (low, high) = (low.min(high), low.max(high));
        let value = json!([self.written(column, low), self.written(column, high)]);
        self.condition(column, "between", value);
    }

    pub(super) fn written(&self, column: usize, number: f64) -> Value {
        let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
        if is_whole && self.kind(column) == Kind::Integer { json!(number as i64) } else { json!(number) }
    }

    pub(super) fn condition(&mut self, column: usize, op: &str, value: Value) {
        let name = self.name(column);
        self.mention(column);
        let negated = std::mem::take(&mut self.negated);
        let op = match negated.then(|| opposite(op)) {
            None => op,
            Some(Some(opposite)) => opposite,
            Some(None) => {
                self.out.unknown.push("not".to_owned());
                return;
            }
        };
        let same =
            self.out.conditions.iter_mut().find(|known| known.column == name && same_sense(&known.op, op));
        match same {
            Some(known) => {
                let mut values = match known.value.take() {
                    Value::Array(values) => values,
                    one => vec![one],
                };
                if !values.contains(&value) {
                    values.push(value);
                }
                known.op = if op == "eq" { "in" } else { "not_in" }.to_owned();
                if values.len() == 1 {
                    known.op = op.to_owned();
                    known.value = values.remove(0);
                } else {
                    known.value = Value::Array(values);
                }
            }
            None => self.out.conditions.push(Condition { column: name, op: op.to_owned(), value }),
        }
    }

    pub(super) fn mention(&mut self, column: usize) {
        if !self.out.mentioned.contains(&column) {
            self.out.mentioned.push(column);
        }
    }

    pub(super) fn null(&mut self, placed: &Placed) {
        match self.peek() {
            Some((at, next)) => match &next.item {
                Item::Column(columns, exact) => {
                    self.at = at + 1;
                    let column = self.picked(columns, *exact);
                    self.condition(column, "is_null", Value::Null);
                }
                Item::Event(column) => {
                    self.at = at + 1;
                    self.out.score += 1;
                    self.condition(*column, "is_null", Value::Null);
                }
                Item::Value(..) => self.negated = true,
                _ => self.lost(placed),
            },
            None => self.lost(placed),
        }
    }

    /// "With an error" asks for one; "with a price above 5" does not say more than what follows.
    pub(super) fn has(&mut self) {
        let Some((at, Placed { item: Item::Column(columns, exact), .. })) = self.peek() else { return };
        let more = self.peek_from(at + 1).map(|(_, placed)| &placed.item);
        let says_more = matches!(
            more,
            Some(
                Item::Compare(_)
                    | Item::Between
                    | Item::Number(_)
                    | Item::Contains(_)
                    | Item::Quoted(_)
                    | Item::Value(..)
                    | Item::Not
                    | Item::Unknown
            )
        );
        if !says_more && self.table.columns[columns[0]].nullable {
            self.at = at + 1;
            let column = self.picked(columns, *exact);
            let op = if std::mem::take(&mut self.negated) { "is_null" } else { "not_null" };
            self.condition(column, op, Value::Null);
        }
    }

    pub(super) fn contains(&mut self, op: &str, placed: &Placed) {
        let is_text = |column: &usize| self.kind(*column) == Kind::Text;
        let column = self.near.filter(is_text).or_else(|| self.table.label());
        match (column, self.peek()) {
            (Some(column), Some((at, next))) => {
                self.at = at + 1;
                self.condition(column, op, json!(next.text));
            }
            _ => self.lost(placed),
        }
    }

    pub(super) fn site(&mut self, site: &str, placed: &Placed) {
        let is_url = site.contains('/');
        let column = if is_url { self.table.position("url") } else { self.table.position("domain") };
        match column {
            Some(column) => {
                self.out.score += 2;
                self.condition(column, "eq", json!(if is_url { placed.text.as_str() } else { site }));
            }
            None => self.lost(placed),
        }
    }

    pub(super) fn quoted(&mut self, text: &str, placed: &Placed) {
        let near = self.near.filter(|column| self.kind(*column) == Kind::Text);
        match near.map(|column| (column, "eq")).or(self.table.label().map(|column| (column, "contains"))) {
            Some((column, op)) => self.condition(column, op, json!(text)),
            None => self.lost(placed),
        }
    }

    pub(super) fn number(&mut self, number: f64, placed: &Placed) {
        let is_limit = number.fract() == 0.0 && (1.0..=LIMIT_MAX).contains(&number);
        if let Some(column) = self.near.filter(|column| self.is_number(*column)) {
            return self.condition(column, "eq", self.written(column, number));
        }
        let next = self.peek().map(|(_, next)| &next.item);
        let leads = matches!(
            next,
            Some(
                Item::Most(_)
                    | Item::Superlative(..)
                    | Item::Newest(_)
                    | Item::Table
                    | Item::Common
                    | Item::Column(..)
                    | Item::Function(_)
            )
        );
        let ranks = self.out.top || self.out.ranking.is_some() || self.out.most.is_some();
        let is_alone = next.is_none() && (ranks || self.out.follows || self.out.newest.is_some());
        if is_limit
            && !self.out.limit_said
            && (leads || is_alone || self.out.top || matches!(next, Some(Item::Value(..))))
        {
            self.out.limit = Some(number as u64);
            self.out.limit_said = true;
            self.out.top = self.out.top || matches!(next, Some(Item::Column(..)));
            return;
        }
        self.lost(placed);
    }

    /// "Brand Foo": a value that nobody knew, said right behind its column.
    pub(super) fn given_value(&mut self, column: usize) -> bool {
        let Some(next) = self.items.get(self.at) else { return false };
        let is_proper = next.text.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
        let is_value = match &next.item {
            Item::Quoted(_) => true,
            Item::Unknown => is_proper,
            _ => false,
        };
        if !is_value || self.kind(column) != Kind::Text {
            return false;
        }
        self.at += 1;
        self.condition(column, "eq", json!(next.text));
        true
    }

    pub(super) fn value(&mut self, column: usize, value: Value, placed: &Placed) {
        self.out.score += 1 + placed.words as i32;
        if self.kind(column) == Kind::Bool {
            let negated = std::mem::take(&mut self.negated);
            let value = json!(value.as_bool().unwrap_or(true) != negated);
            return self.condition(column, "eq", value);
        }
        self.condition(column, "eq", value);
    }
}

/// What is not so.
fn opposite(op: &str) -> Option<&'static str> {
    Some(match op {
        "eq" => "ne",
        "gt" => "lte",
        "gte" => "lt",
        "lt" => "gte",
        "lte" => "gt",
        "is_null" => "not_null",
        "not_null" => "is_null",
        _ => return None,
    })
}

fn same_sense(known: &str, op: &str) -> bool {
    matches!((known, op), ("eq" | "in", "eq") | ("ne" | "not_in", "ne"))
}
