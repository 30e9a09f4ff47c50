//! Items put together: goes through those of a question and gathers what they say of one table.

use crate::dates::Unit;
use crate::fragment::{Fragment, Ranking};
use crate::items::{Item, Placed};
use crate::plan::{Condition, Function, Group, Measure};
use crate::table::{Kind, Table};
use serde_json::{Value, json};

/// Rows of "the top" and "the cheapest" where no number is said.
const TOP_DEFAULT: u64 = 10;
/// The largest number of rows that is asked for in words.
const LIMIT_MAX: f64 = 10_000.0;

/// Goes through the items of a question.
pub(crate) struct Interpreter<'a> {
    table: &'a Table,
    items: &'a [Placed],
    /// Which of the columns that an unsure word could be is taken.
    pick: usize,
    at: usize,
    out: Fragment,
    pending: Option<Function>,
    distinct: bool,
    negated: bool,
    /// The column that was spoken of just now.
    near: Option<usize>,
}

impl<'a> Interpreter<'a> {
    pub(crate) fn new(table: &'a Table, items: &'a [Placed], pick: usize) -> Interpreter<'a> {
        Interpreter {
            table,
            items,
            pick,
            at: 0,
            out: Fragment::default(),
            pending: None,
            distinct: false,
            negated: false,
            near: None,
        }
    }

    pub(crate) fn read(mut self) -> Fragment {
        while let Some(placed) = self.items.get(self.at) {
            self.at += 1;
            let near = self.near;
            self.step(&placed.item, placed);
            // What was near stays so over words that say nothing.
            if self.near == near && !matches!(placed.item, Item::Noise | Item::Has | Item::Not) {
                self.near = None;
            }
        }
        self.out.bare_function = self.pending;
        self.out
    }

    fn step(&mut self, item: &Item, placed: &Placed) {
        match item {
            Item::Noise | Item::And => {}
            Item::Table => self.table_named(placed),
            Item::Function(function) => self.function(*function),
            Item::Count => self.count(),
            Item::Distinct => self.distinct = true,
            Item::By => self.by(),
            Item::Top => {
                self.out.top = true;
                self.out.limit.get_or_insert(TOP_DEFAULT);
            }
            Item::Most(descending) => self.most(*descending),
            Item::Common => {
                self.out.most.get_or_insert(true);
            }
            Item::Superlative(columns, descending) => self.superlative(columns, *descending, placed),
            Item::Newest(newest) => self.out.newest = Some(*newest),
            Item::Compare(op) => self.compare(op, placed),
            Item::Between => self.between(placed),
            Item::Not => self.negated = true,
            Item::Null => self.null(placed),
            Item::Has => self.has(),
            Item::Contains(op) => self.contains(op, placed),
            Item::Versus => self.out.versus = true,
            Item::Sort => self.sort(placed),
            Item::Direction(descending) => self.out.direction = Some(*descending),
            Item::Which => self.which(),
            Item::When => self.out.when = true,
            Item::Follow => self.out.follows = true,
            Item::Number(number) => self.number(*number, placed),
            Item::Scale(_) => self.lost(placed),
            Item::Span(window, unit) => self.out.windows.push((*window, *unit)),
            Item::Unit(unit) => self.unit(*unit, placed),
            Item::Column(columns, exact) => self.column(columns, *exact, placed),
            Item::Value(column, value) => self.value(*column, value.clone(), placed),
            Item::Event(column) => {
                self.out.time = Some(*column);
                self.out.score += 1;
            }
            Item::Site(site) => self.site(site, placed),
            Item::Quoted(text) => self.quoted(text, placed),
            Item::Unknown => self.lost(placed),
        }
    }

    /// The next item that says something, and its place.
    fn peek(&self) -> Option<(usize, &'a Placed)> {
        self.peek_from(self.at)
    }

    fn peek_from(&self, from: usize) -> Option<(usize, &'a Placed)> {
        let items = self.items;
        (from..items.len()).map(|at| (at, &items[at])).find(|(_, placed)| placed.item != Item::Noise)
    }

    fn kind(&self, column: usize) -> Kind {
        self.table.columns[column].kind
    }

    fn is_number(&self, column: usize) -> bool {
        matches!(self.kind(column), Kind::Integer | Kind::Float)
    }

    fn name(&self, column: usize) -> String {
        self.table.columns[column].name.clone()
    }

    /// One of the columns that a word may be.
    fn picked(&mut self, columns: &[usize], exact: bool) -> usize {
        if columns.len() > 1 && self.out.unsure.is_empty() {
            self.out.unsure = columns.to_vec();
        }
        self.out.score += if exact { 2 } else { 1 };
        let pick = if columns == self.out.unsure.as_slice() { self.pick } else { 0 };
        let column = columns[pick.min(columns.len() - 1)];
        self.near = Some(column);
        column
    }

    fn lost(&mut self, placed: &Placed) {
        self.out.unknown.push(placed.text.clone());
    }

    fn table_named(&mut self, placed: &Placed) {
        if !self.out.has_table {
            self.out.score += 2 + 2 * placed.words as i32;
            if self.out.which.is_none() {
                self.out.singular = !placed.plural;
            }
        }
        self.out.has_table = true;
    }

    fn function(&mut self, function: Function) {
        // "The highest average": the order of the second.
        if let Some((_, next)) = self.peek()
            && matches!(next.item, Item::Function(_) | Item::Count)
            && let Function::Max | Function::Min = function
        {
            self.out.extreme = Some(function == Function::Max);
            return;
        }
        self.pending = Some(function);
    }

    fn count(&mut self) {
        let Some((mut at, mut next)) = self.peek() else {
            self.out.counted = true;
            return;
        };
        if next.item == Item::Distinct {
            self.distinct = true;
            match self.peek_from(at + 1) {
                Some((behind, placed)) => (at, next) = (behind, placed),
                None => return,
            }
        }
        let Item::Column(columns, exact) = &next.item else {
            self.out.counted = true;
            return;
        };
        self.at = at + 1;
        let column = self.picked(columns, *exact);
        self.out.singular = !next.plural;
        let name = self.name(column);
        // A row of url_tags is a URL, so to say; of any other table's ids there are as many as are different.
        let is_own =
            name.strip_suffix("_id").is_some_and(|owner| self.table.name.starts_with(&format!("{owner}_")));
        if is_own && !self.distinct {
            self.out.counted = true;
            return;
        }
        let function =
            if self.is_number(column) && !self.distinct { Function::Sum } else { Function::CountDistinct };
        self.distinct = false;
        self.out.measures.push(Measure { function, column: Some(name) });
    }

    /// Columns and units behind "by", as many as there are.
    fn by(&mut self) {
        let mut any = false;
        while let Some((at, next)) = self.peek() {
            match &next.item {
                Item::And if any && self.is_of_groups(at + 1) => {}
                Item::Unit(unit) => {
                    self.out.bucket = Some(*unit);
                    any = true;
                }
                Item::Column(columns, exact) => {
                    let column = self.picked(columns, *exact);
                    self.grouped(column);
                    any = true;
                    self.at = at + 1;
                    if !self.is_of_groups(self.at)
                        && !self.peek().is_some_and(|(_, next)| next.item == Item::And)
                    {
                        return;
                    }
                    continue;
                }
                Item::Count => {
                    self.at = at + 1;
                    self.out.counted = true;
                    return;
                }
                _ => return,
            }
            self.at = at + 1;
        }
    }

    fn is_of_groups(&self, from: usize) -> bool {
        self.peek_from(from)
            .is_some_and(|(_, placed)| matches!(placed.item, Item::Unit(_) | Item::Column(..)))
    }

    fn grouped(&mut self, column: usize) {
        let ranks = self.out.top || self.out.ranking.is_some() || self.out.newest.is_some();
        if ranks && self.is_number(column) {
            let descending = self.out.ranking.as_ref().is_none_or(|ranking| ranking.descending);
            self.out.ranking = Some(Ranking { column, descending });
            return;
        }
        if self.kind(column) == Kind::Time {
            self.out.time = Some(column);
            self.out.bucket.get_or_insert(Unit::Day);
            return;
        }
        self.group(column);
    }

    fn group(&mut self, column: usize) {
        let group = Group { column: self.name(column), bucket: None };
        if !self.out.groups.contains(&group) {
            self.out.groups.push(group);
        }
    }

    fn most(&mut self, descending: bool) {
        let Some((at, next)) = self.peek() else {
            self.out.most = Some(descending);
            return;
        };
        match &next.item {
            Item::Superlative(columns, natural) => {
                self.at = at + 1;
                self.superlative(columns, *natural == descending, next);
            }
            Item::Column(columns, exact) if self.is_number(columns[0]) => {
                self.at = at + 1;
                let column = self.picked(columns, *exact);
                self.out.ranking = Some(Ranking { column, descending });
            }
            _ => self.out.most = Some(descending),
        }
    }

    fn superlative(&mut self, columns: &[&str], descending: bool, placed: &Placed) {
        // "The longest duration": the largest of what follows.
        if let Some((_, next)) = self.peek()
            && let Item::Column(next, _) = &next.item
            && self.is_number(next[0])
        {
            self.pending = Some(if descending { Function::Max } else { Function::Min });
            return;
        }
        match columns.iter().find_map(|name| self.table.position(name)) {
            Some(column) => {
                self.out.score += 1;
                self.out.ranking = Some(Ranking { column, descending });
            }
            None => self.lost(placed),
        }
    }

    /// A number, with its unit where it has one.
    fn amount(&mut self) -> Option<(f64, bool)> {
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

    fn compare(&mut self, op: &str, placed: &Placed) {
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
    fn compared(&mut self, scaled: bool) -> Option<usize> {
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

    fn between(&mut self, placed: &Placed) {
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

    fn written(&self, column: usize, number: f64) -> Value {
        let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
        if is_whole && self.kind(column) == Kind::Integer { json!(number as i64) } else { json!(number) }
    }

    fn condition(&mut self, column: usize, op: &str, value: Value) {
        let name = self.name(column);
        self.mention(column);
        let negated = std::mem::take(&mut self.negated);
        let op = match (op, negated) {
            ("eq", true) => "ne",
            (op, _) => op,
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

    fn mention(&mut self, column: usize) {
        if !self.out.mentioned.contains(&column) {
            self.out.mentioned.push(column);
        }
    }

    fn null(&mut self, placed: &Placed) {
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
    fn has(&mut self) {
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

    fn contains(&mut self, op: &str, placed: &Placed) {
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

    fn sort(&mut self, placed: &Placed) {
        match self.peek() {
            Some((at, Placed { item: Item::Column(columns, exact), .. })) => {
                self.at = at + 1;
                let column = self.picked(columns, *exact);
                self.out.ranking = Some(Ranking { column, descending: false });
            }
            Some((at, Placed { item: Item::Count, .. })) => {
                self.at = at + 1;
                self.out.most = Some(true);
            }
            _ => self.lost(placed),
        }
    }

    fn which(&mut self) {
        let Some((at, next)) = self.peek() else { return };
        if let Item::Column(columns, exact) = &next.item
            && self.kind(columns[0]) == Kind::Text
        {
            self.at = at + 1;
            self.out.singular = !next.plural;
            let column = self.picked(columns, *exact);
            self.out.which = Some(column);
        }
    }

    fn number(&mut self, number: f64, placed: &Placed) {
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
        let is_alone = next.is_none() && (self.out.top || self.out.follows || self.out.newest.is_some());
        if is_limit && (leads || is_alone || self.out.top || matches!(next, Some(Item::Value(..)))) {
            self.out.limit = Some(number as u64);
            self.out.top = self.out.top || matches!(next, Some(Item::Column(..)));
            return;
        }
        self.lost(placed);
    }

    fn unit(&mut self, unit: Unit, placed: &Placed) {
        if placed.text.to_lowercase().ends_with("ly") {
            self.out.bucket = Some(unit);
        } else {
            self.lost(placed);
        }
    }

    fn column(&mut self, columns: &[usize], exact: bool, placed: &Placed) {
        let column = self.picked(columns, exact);
        if let Some(function) = self.pending {
            let fits = match function {
                Function::Min | Function::Max => !matches!(self.kind(column), Kind::Bool | Kind::Json),
                _ => self.is_number(column),
            };
            if fits {
                self.pending = None;
                let measure = Measure { function, column: Some(self.name(column)) };
                self.out.measures.push(measure);
                return;
            }
        }
        if self.distinct {
            self.distinct = false;
            let column = Some(self.name(column));
            self.out.measures.push(Measure { function: Function::CountDistinct, column });
            return;
        }
        if self.kind(column) == Kind::Time {
            self.out.time = Some(column);
            return;
        }
        if self.given_value(column) {
            return;
        }
        let ranked = self.out.top || self.out.most.is_some();
        if ranked && !self.is_number(column) && self.out.groups.is_empty() {
            self.out.singular = !placed.plural;
            return self.group(column);
        }
        self.mention(column);
    }

    /// "Brand Foo": a value that nobody knew, said right behind its column.
    fn given_value(&mut self, column: usize) -> bool {
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

    fn value(&mut self, column: usize, value: Value, placed: &Placed) {
        self.out.score += 1 + placed.words as i32;
        if self.kind(column) == Kind::Bool {
            let negated = std::mem::take(&mut self.negated);
            let value = json!(value.as_bool().unwrap_or(true) != negated);
            return self.condition(column, "eq", value);
        }
        self.condition(column, "eq", value);
    }

    fn site(&mut self, site: &str, placed: &Placed) {
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

    fn quoted(&mut self, text: &str, placed: &Placed) {
        let near = self.near.filter(|column| self.kind(*column) == Kind::Text);
        match near.map(|column| (column, "eq")).or(self.table.label().map(|column| (column, "contains"))) {
            Some((column, op)) => self.condition(column, op, json!(text)),
            None => self.lost(placed),
        }
    }
}

fn same_sense(known: &str, op: &str) -> bool {
    matches!((known, op), ("eq" | "in", "eq") | ("ne" | "not_in", "ne"))
}
