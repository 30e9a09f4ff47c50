//! Conditions by what another table has.

use super::expressions::Kind::{Bool, Int, Text};
use super::generate::{Column, Generator, Made, NESTING_MAX, kind_of, quoted};
use super::worlds::TABLES;

impl Generator {
    /// Conditions by what another table has.
    pub(super) fn exists_count(&mut self) -> Made {
        let from = self.from(0);
        let condition = self.subquery_condition();
        let more = match self.random.below(3) {
            0 => format!(" OR {}", self.subquery_condition()),
            1 => format!(" AND {}", self.expression(Bool, 1)),
            _ => String::new(),
        };
        match self.random.below(3) {
            0 => {
                let id = self.scope[0].clone();
                let sql = format!("SELECT {}, {condition} FROM {from}", id.sql);
                Made { sql, kinds: vec![id.kind, Bool] }
            }
            _ => {
                Made { sql: format!("SELECT count(*) FROM {from} WHERE {condition}{more}"), kinds: vec![Int] }
            }
        }
    }

    pub(super) fn subquery_condition(&mut self) -> String {
        let kind = self.random.pick(&[Text, Int, Text]);
        let outer = self.expression(kind, 0);
        let outside = std::mem::take(&mut self.scope);
        self.nesting += 1;
        let (name, columns) = self.random.pick(TABLES);
        let alias = self.alias();
        let inner: Vec<Column> = columns
            .iter()
            .map(|(column, kind)| Column { sql: format!("{alias}.{}", quoted(column)), kind: kind_of(*kind) })
            .collect();
        self.scope = inner;
        let own = self.columns(kind);
        let own = self.one(&own);
        let kept = self.nesting;
        self.nesting = NESTING_MAX;
        let more =
            if self.random.one_of(2) { format!(" AND {}", self.expression(Bool, 1)) } else { String::new() };
        self.nesting = kept;
        let own_numbers = self.columns(Int);
        let own_number = self.one(&own_numbers);
        self.nesting -= 1;
        self.scope = outside;
        let not = self.random.pick(&["", "NOT "]);
        let condition = more.trim_start_matches(" AND ").to_owned();
        let whole = if condition.is_empty() { String::new() } else { format!(" WHERE {condition}") };
        let outer_numbers = self.columns(Int);
        match self.random.below(9) {
            7 => format!("(NOT ({outer} {not}IN (SELECT {own} FROM {name} {alias}{whole})))"),
            8 if !outer_numbers.is_empty() => {
                let number = self.one(&outer_numbers);
                format!(
                    "(({outer}, {number}) {not}IN (SELECT {own}, {own_number} FROM {name} {alias}{whole}))"
                )
            }
            0 | 1 => format!("({outer} {not}IN (SELECT {own} FROM {name} {alias}{whole}))"),
            2 => format!("({not}EXISTS (SELECT 1 FROM {name} {alias} WHERE {own} = {outer}{more}))"),
            3 if !outer_numbers.is_empty() => {
                let op = self.random.pick(&["<>", "<", ">="]);
                let number = self.one(&outer_numbers);
                format!(
                    "({not}EXISTS (SELECT 1 FROM {name} {alias} WHERE {own} = {outer} AND {own_number} {op} {number}))"
                )
            }
            4 => {
                let (op, which) = (self.random.pick(&["=", "<", ">="]), self.random.pick(&["ANY", "ALL"]));
                format!("({outer} {op} {which} (SELECT {own} FROM {name} {alias}{whole}))")
            }
            5 => format!("({outer} = (SELECT min({own}) FROM {name} {alias}{whole}))"),
            _ => format!("({not}EXISTS (SELECT * FROM {name} {alias}{whole}))"),
        }
    }
}
