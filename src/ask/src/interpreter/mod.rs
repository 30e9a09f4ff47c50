//! Items put together: goes through those of a question and gathers what they say of one table.

mod conditions;

use crate::dates::Unit;
use crate::fragment::{Fragment, Ranking};
use crate::items::{Item, Placed};
use crate::plan::{Function, Group, Measure};
use crate::table::{Kind, Table};

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
        if self.negated {
            self.out.unknown.push("not".to_owned());
        }
        self.out.bare_function = self.pending;
        self.out
    }

    fn step(&mut self, item: &Item, placed: &Placed) {
        match item {
            Item::Noise | Item::And => {}
            Item::Table => self.table_named(placed),
            Item::Function(function) => self.function(*function, placed),
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
            Item::Newest(newest) if self.out.newest.is_none_or(|known| known == *newest) => {
                self.out.newest = Some(*newest);
            }
            Item::Newest(_) => self.lost(placed),
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
            Item::Event(column) => self.event(*column, placed),
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

    fn function(&mut self, function: Function, placed: &Placed) {
        let next = self.peek().map(|(_, next)| &next.item);
        // "The highest average": the order of the second.
        if let (Some(Item::Function(_) | Item::Count), Function::Max | Function::Min) = (next, function) {
            self.out.extreme = Some(function == Function::Max);
            return;
        }
        // "The total number" is the number.
        if function == Function::Sum && matches!(next, Some(Item::Count)) {
            return;
        }
        // "Price average by brand": what it is of stands before it.
        let before = self.near.filter(|column| self.is_number(*column) && self.is_bare(*column));
        if let Some(column) = before.filter(|_| !matches!(next, Some(Item::Column(..)))) {
            let measure = Measure { function, column: Some(self.name(column)) };
            self.out.measures.push(measure);
            return;
        }
        if self.pending.is_some() {
            return self.lost(placed);
        }
        self.pending = Some(function);
    }

    /// Whether a column was named, and nothing was said of it.
    fn is_bare(&self, column: usize) -> bool {
        let name = &self.table.columns[column].name;
        self.out.mentioned.contains(&column) && !self.out.conditions.iter().any(|known| known.column == *name)
    }

    /// "Registered" says which of the times is meant. Two of them are one too many.
    fn event(&mut self, column: usize, placed: &Placed) {
        if self.out.time.is_some_and(|known| known != column) {
            return self.lost(placed);
        }
        self.out.time = Some(column);
        self.out.happened = Some(column);
        self.out.score += 1;
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
                // "Per job status": the status of a job.
                Item::Table if !any && self.is_of_groups(at + 1) => self.table_named(next),
                Item::Unit(unit) => {
                    self.bucket(*unit, next);
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

    fn bucket(&mut self, unit: Unit, placed: &Placed) {
        if self.out.bucket.is_some_and(|known| known != unit) {
            return self.lost(placed);
        }
        self.out.bucket = Some(unit);
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
            Some(column) if self.out.ranking.is_none() => {
                self.out.score += 1;
                self.out.ranking = Some(Ranking { column, descending });
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
            match self.out.which {
                None => self.out.which = Some(column),
                Some(_) => self.group(column),
            }
        }
    }

    fn unit(&mut self, unit: Unit, placed: &Placed) {
        if placed.text.to_lowercase().ends_with("ly") {
            self.bucket(unit, placed);
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
            if self.out.time.is_some_and(|known| known != column) {
                return self.lost(placed);
            }
            self.out.time = Some(column);
            return self.mention(column);
        }
        if self.given_value(column) {
            return;
        }
        let ranked = self.out.top || self.out.most.is_some();
        if ranked && !self.is_number(column) && self.out.groups.is_empty() {
            self.out.singular = !placed.plural;
            return self.group(column);
        }
        if !placed.plural {
            self.out.single.push(column);
        }
        self.mention(column);
    }
}
