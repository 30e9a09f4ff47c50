//! Statements: what they read, how it is joined, grouped, windowed, set together and ordered.

use sql::ColumnKind;

use super::Random;
use super::expressions::Kind::{self, Bool, Date, Float, Int, Json, Num, Span, Text, Time};
use super::expressions::{ORDERED, SHOWN};
use super::worlds::TABLES;

/// Subqueries within subqueries.
pub(super) const NESTING_MAX: usize = 2;

/// A statement, and whether its rows come in one order only.
pub(super) struct Asked {
    pub(super) sql: String,
    pub(super) is_ordered: bool,
}

/// A column that an expression may name.
#[derive(Clone)]
pub(super) struct Column {
    pub(super) sql: String,
    pub(super) kind: Kind,
}

pub(super) struct Generator {
    pub(super) random: Random,
    pub(super) scope: Vec<Column>,
    pub(super) nesting: usize,
    aliases: usize,
    /// Whether a text was put together in an order, which the engine does by one order a SELECT.
    has_ordered: bool,
}

/// A SELECT with the kinds of what comes out.
pub(super) struct Made {
    pub(super) sql: String,
    pub(super) kinds: Vec<Kind>,
}

pub(super) fn kind_of(kind: ColumnKind) -> Kind {
    match kind {
        ColumnKind::Text => Text,
        ColumnKind::Int64 => Int,
        ColumnKind::Float64 => Float,
        ColumnKind::Bool => Bool,
        ColumnKind::Timestamp => Time,
        ColumnKind::Json => Json,
    }
}

pub(super) fn quoted(name: &str) -> String {
    if name == "values" { "\"values\"".to_owned() } else { name.to_owned() }
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), scope: Vec::new(), nesting: 0, aliases: 0, has_ordered: false }
    }

    pub(super) fn columns(&self, kind: Kind) -> Vec<String> {
        self.scope.iter().filter(|column| column.kind == kind).map(|column| column.sql.clone()).collect()
    }

    pub(super) fn may_nest(&self) -> bool {
        self.nesting < NESTING_MAX
    }

    pub(super) fn statement(&mut self) -> Asked {
        self.scope.clear();
        self.aliases = 0;
        if self.random.one_of(20) {
            return self.shadowed();
        }
        let made = match self.random.below(25) {
            23 => self.few_groups(),
            0..=4 => self.plain(4),
            5..=9 => self.joined(),
            10..=13 => self.grouped(),
            14..=16 => self.windowed(),
            17..=18 => self.set_operation(),
            19 => self.of_nothing(),
            20 => self.distinct_on(),
            21 => self.with(),
            22 => self.exists_count(),
            _ => self.outer(),
        };
        self.ordered(made)
    }

    /// Result columns with the names of others, ordered by expressions that name the others.
    fn shadowed(&mut self) -> Asked {
        let (name, columns) = self.random.pick(TABLES);
        let columns: Vec<(String, Kind)> =
            columns.iter().map(|(column, kind)| (quoted(column), kind_of(*kind))).collect();
        let columns: Vec<(String, Kind)> = columns.into_iter().filter(|(_, kind)| *kind != Json).collect();
        self.scope =
            columns.iter().map(|(column, kind)| Column { sql: column.clone(), kind: *kind }).collect();
        let filter = self.filter();
        let kept = std::mem::replace(&mut self.nesting, NESTING_MAX);
        let shown = [&columns[0], &columns[columns.len() - 1]];
        let items: Vec<String> =
            shown.iter().map(|(column, kind)| format!("{} AS {column}", self.expression(*kind, 1))).collect();
        let kind = self.random.pick(ORDERED);
        let mut key = self.expression(kind, 2);
        // A constant is no key.
        if !columns.iter().any(|(column, _)| key.contains(column.as_str())) {
            key = format!("{} IS NULL", shown[0].0);
        }
        self.nesting = kept;
        let how = self.random.pick(&["", " DESC"]);
        let few = if self.random.one_of(2) { " LIMIT 5" } else { "" };
        let sql = format!("SELECT {} FROM {name}{filter} ORDER BY {key}{how}, 1, 2{few}", items.join(", "));
        Asked { sql, is_ordered: true }
    }

    /// The statement in a total order, or in none.
    fn ordered(&mut self, made: Made) -> Asked {
        let may = made.kinds.iter().all(|kind| *kind != Json) && !made.kinds.is_empty();
        if made.sql.contains("DISTINCT ON") || !may || self.random.one_of(2) {
            return Asked { sql: made.sql, is_ordered: false };
        }
        let by: Vec<String> = (1..=made.kinds.len())
            .map(|place| {
                let how = self.random.pick(&["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
                format!("{place}{how}")
            })
            .collect();
        // PostgreSQL 15 takes keys that are alike below grouping sets for alike above, and does not sort by the second one. So it is
        // given what to sort as a table.
        let has_sets = ["ROLLUP (", "CUBE (", "GROUPING SETS ("].iter().any(|sets| made.sql.contains(sets));
        let whole = if has_sets { format!("SELECT * FROM ({}) AS whole", made.sql) } else { made.sql };
        let mut sql = format!("{whole} ORDER BY {}", by.join(", "));
        if self.random.one_of(3) {
            sql.push_str(&format!(" LIMIT {}", self.random.below(12)));
            if self.random.one_of(2) {
                sql.push_str(&format!(" OFFSET {}", self.random.below(6)));
            }
        }
        Asked { sql, is_ordered: true }
    }

    pub(super) fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("t{}", self.aliases)
    }

    /// A table, or a subquery, with its columns put in scope.
    fn source(&mut self) -> (String, Vec<Column>) {
        let alias = self.alias();
        if self.may_nest() && self.random.one_of(7) {
            let outside = std::mem::take(&mut self.scope);
            self.nesting += 1;
            let made = if self.random.one_of(2) { self.grouped() } else { self.plain(3) };
            self.nesting -= 1;
            self.scope = outside;
            let names: Vec<String> = (0..made.kinds.len()).map(|n| format!("c{n}")).collect();
            let columns = names.iter().zip(&made.kinds);
            let columns =
                columns.map(|(name, kind)| Column { sql: format!("{alias}.{name}"), kind: *kind }).collect();
            return (format!("({}) AS {alias}({})", made.sql, names.join(", ")), columns);
        }
        let (name, columns) = self.random.pick(TABLES);
        let columns = columns
            .iter()
            .map(|(column, kind)| Column { sql: format!("{alias}.{}", quoted(column)), kind: kind_of(*kind) })
            .collect();
        (format!("{name} {alias}"), columns)
    }

    /// What two tables are joined by.
    fn join_condition(&mut self, left: &[Column], right: &[Column]) -> String {
        let kind = self.random.pick(&[Text, Text, Int, Text, Int, Time]);
        let of = |columns: &[Column], name: Option<&str>| -> Vec<String> {
            let alike = columns.iter().filter(|column| column.kind == kind);
            let alike = alike.filter(|column| name.is_none_or(|name| column.sql.ends_with(name)));
            alike.map(|column| column.sql.clone()).collect()
        };
        // Mostly by the name that both have.
        let name = match kind {
            Text if !self.random.one_of(5) => Some(".url"),
            Int if !self.random.one_of(3) => Some("id"),
            _ => None,
        };
        let (a, b) = (of(left, name), of(right, name));
        if a.is_empty() || b.is_empty() {
            return "true".to_owned();
        }
        let mut condition = format!("{} = {}", self.one(&a), self.one(&b));
        if self.random.one_of(3) {
            let more = self.expression(Bool, 2);
            condition = format!("{condition} AND {more}");
        }
        condition
    }

    pub(super) fn one(&mut self, of: &[String]) -> String {
        of[self.random.below(of.len())].clone()
    }

    /// FROM of several tables, in scope afterwards.
    pub(super) fn from(&mut self, joins: usize) -> String {
        let (mut sql, mut all) = self.source();
        for _ in 0..joins {
            let (right, columns) = self.source();
            self.scope = all.iter().chain(&columns).cloned().collect();
            let how = self.random.pick(&[
                "JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "CROSS JOIN",
            ]);
            let kept = self.nesting;
            self.nesting = NESTING_MAX;
            let condition = match how {
                "CROSS JOIN" => None,
                // PostgreSQL has no FULL JOIN by anything but equality.
                "FULL JOIN" => Some(self.equality(&all, &columns)),
                _ => Some(self.join_condition(&all, &columns)),
            };
            self.nesting = kept;
            match condition {
                Some(condition) if condition != "true" => sql = format!("{sql} {how} {right} ON {condition}"),
                _ => sql = format!("{sql} CROSS JOIN {right}"),
            }
            all.extend(columns);
        }
        self.scope = all;
        sql
    }

    fn equality(&mut self, left: &[Column], right: &[Column]) -> String {
        let condition = self.join_condition(left, right);
        condition.split(" AND ").next().unwrap_or("true").to_owned()
    }

    pub(super) fn filter(&mut self) -> String {
        if self.random.one_of(4) {
            return String::new();
        }
        // A column by its name alone, where sides of a join are told apart by it.
        if self.random.one_of(3) && !self.scope.is_empty() {
            let place = self.random.below(self.scope.len());
            let column = self.scope[place].clone();
            let test = match self.random.below(3) {
                0 => format!("{} IS NULL", column.sql),
                1 => format!("{} IS NOT NULL", column.sql),
                _ if column.kind != Json => format!("{} = {}", column.sql, self.expression(column.kind, 0)),
                _ => format!("{} IS NULL", column.sql),
            };
            return format!(" WHERE {test}");
        }
        format!(" WHERE {}", self.expression(Bool, 3))
    }

    fn items(&mut self, most: usize, depth: usize) -> (String, Vec<Kind>) {
        let mut items = Vec::new();
        let mut kinds = Vec::new();
        for _ in 0..1 + self.random.below(most) {
            let kind = self.random.pick(SHOWN);
            items.push(self.expression(kind, depth));
            kinds.push(kind);
        }
        (items.join(", "), kinds)
    }

    fn plain(&mut self, depth: usize) -> Made {
        let from = self.from(0);
        let filter = self.filter();
        let (mut items, mut kinds) = self.items(3, depth);
        if self.nesting == 0 && self.random.one_of(4) {
            let more = if self.random.one_of(2) { self.part_of_time() } else { self.list() };
            items = format!("{items}, {more}");
            // Of a kind by which is not ordered.
            kinds.push(Json);
        }
        let distinct = if kinds.contains(&Json) || !self.random.one_of(5) { "" } else { "DISTINCT " };
        Made { sql: format!("SELECT {distinct}{items} FROM {from}{filter}"), kinds }
    }

    /// The columns of several tables, and conditions on them.
    fn joined(&mut self) -> Made {
        let joins = 1 + self.random.below(2);
        let from = self.from(joins);
        let filter = self.filter();
        // More rows than are compared.
        if self.random.one_of(2) || joins > 1 && from.contains("CROSS JOIN") {
            return Made { sql: format!("SELECT count(*) FROM {from}{filter}"), kinds: vec![Int] };
        }
        let mut items = Vec::new();
        let mut kinds = Vec::new();
        for _ in 0..2 + self.random.below(3) {
            let place = self.random.below(self.scope.len());
            let column = self.scope[place].clone();
            items.push(column.sql);
            kinds.push(column.kind);
        }
        Made { sql: format!("SELECT {} FROM {from}{filter}", items.join(", ")), kinds }
    }

    /// An outer join with one table's rows that have none, and its like.
    fn outer(&mut self) -> Made {
        let (left, of_left) = self.source();
        let (right, of_right) = self.source();
        self.scope = of_left.iter().chain(&of_right).cloned().collect();
        let condition = self.equality(&of_left, &of_right);
        if condition == "true" {
            return self.plain(2);
        }
        let how = self.random.pick(&["LEFT", "RIGHT", "FULL"]);
        let (a, b) = condition.split_once(" = ").expect("an equality");
        let test = match self.random.below(6) {
            0 => format!("{a} IS NULL"),
            1 => format!("{b} IS NULL"),
            2 => format!("{a} IS NULL OR {b} IS NULL"),
            3 => format!("coalesce({a}, {b}) = {a}"),
            4 => format!("{a} IS DISTINCT FROM {b}"),
            _ => self.expression(Bool, 2),
        };
        let from = format!("{left} {how} JOIN {right} ON {condition}");
        let item = match self.random.below(3) {
            0 => ("count(*)".to_owned(), vec![Int]),
            1 => (format!("count({a}), count({b})"), vec![Int, Int]),
            _ => (format!("{a} IS NULL, {b} IS NULL, {a} = {b}"), vec![Bool, Bool, Bool]),
        };
        Made { sql: format!("SELECT {} FROM {from} WHERE {test}", item.0), kinds: item.1 }
    }

    /// A double to add up. The order in which doubles are added is nobody's promise and decides on the last digit, so no
    /// written one is here that binary fractions cannot say: `HAVING avg('0.1'::float8) > '0.1'::float8` has no answer.
    fn summed_float(&mut self) -> String {
        self.expression(Float, 0).replace("'0.1'", "'0.25'")
    }

    fn aggregate(&mut self) -> (String, Kind) {
        let (call, kind) = match self.random.below(18) {
            16 => {
                let which = self.random.pick(&["sum", "avg"]);
                (format!("{which}({})", self.expression(Span, 1)), Span)
            }
            0 | 1 => ("count(*)".to_owned(), Int),
            2 => {
                let kind = self.random.pick(ORDERED);
                (format!("count({})", self.expression(kind, 1)), Int)
            }
            3 => {
                let kind = self.random.pick(ORDERED);
                (format!("count(DISTINCT {})", self.expression(kind, 1)), Int)
            }
            // Of bigint: that of int is a bigint.
            4 => (format!("sum(({})::bigint)", self.expression(Int, 1)), Num),
            5 => (format!("avg({})", self.expression(Int, 1)), Num),
            6 => (format!("sum({})", self.summed_float()), Float),
            7 => (format!("avg({})", self.summed_float()), Float),
            8..=11 => {
                let kind = self.random.pick(&[Int, Float, Text, Time, Date, Num]);
                let which = self.random.pick(&["min", "max"]);
                (format!("{which}({})", self.expression(kind, 1)), kind)
            }
            12 => {
                let which = self.random.pick(&["bool_and", "bool_or"]);
                (format!("{which}({})", self.expression(Bool, 1)), Bool)
            }
            13 if self.may_order() => {
                let text = self.expression(Text, 1);
                (format!("string_agg({text}, ',' ORDER BY {text})"), Text)
            }
            14 => (format!("sum(DISTINCT ({})::bigint)", self.expression(Int, 1)), Num),
            15 if self.may_order() => {
                let text = self.typed(Text);
                (format!("string_agg(DISTINCT {text}, ',' ORDER BY {text})"), Text)
            }
            _ => (format!("sum({})", self.expression(Num, 1)), Num),
        };
        match self.random.one_of(5) {
            true => (format!("{call} FILTER (WHERE {})", self.expression(Bool, 1)), kind),
            false => (call, kind),
        }
    }

    /// Two orders in one SELECT are refused by name; some are asked for nevertheless.
    fn may_order(&mut self) -> bool {
        !std::mem::replace(&mut self.has_ordered, true) || self.random.one_of(8)
    }

    fn grouped(&mut self) -> Made {
        let joins = self.random.below(2);
        let from = self.from(joins);
        let kept = self.nesting;
        let filter = self.filter();
        // PostgreSQL wants what is grouped by word for word; a subquery in it is another one each time.
        self.nesting = NESTING_MAX;
        let mut keys = Vec::new();
        let mut kinds = Vec::new();
        for _ in 0..self.random.below(3) {
            let kind = self.random.pick(ORDERED);
            let columns = self.columns(kind);
            if columns.is_empty() {
                continue;
            }
            let key = if self.random.one_of(2) { self.one(&columns) } else { self.expression(kind, 2) };
            // A key that is written out is a place of a column, or one group.
            let is_plain = columns.iter().any(|column| key.contains(column.as_str()));
            if is_plain && !keys.contains(&key) {
                keys.push(key);
                kinds.push(kind);
            }
        }
        self.has_ordered = false;
        let mut items = keys.clone();
        for _ in 0..1 + self.random.below(3) {
            let (call, kind) = self.aggregate();
            items.push(call);
            kinds.push(kind);
        }
        let group = match keys.len() {
            0 => String::new(),
            2 if self.random.one_of(3) => {
                let (a, b) = (&keys[0], &keys[1]);
                items.push(format!("grouping({a}, {b})"));
                kinds.push(Int);
                match self.random.below(3) {
                    0 => format!(" GROUP BY ROLLUP ({a}, {b})"),
                    1 => format!(" GROUP BY CUBE ({a}, {b})"),
                    _ => format!(" GROUP BY GROUPING SETS (({a}, {b}), ({b}), ())"),
                }
            }
            1 if self.random.one_of(3) => " GROUP BY 1".to_owned(),
            _ => format!(" GROUP BY {}", keys.join(", ")),
        };
        let having = match self.random.below(4) {
            0 => {
                let (call, kind) = self.aggregate();
                format!(" HAVING {call} > {}", self.leaf_without_columns(kind))
            }
            1 => " HAVING count(*) > 1".to_owned(),
            _ => String::new(),
        };
        self.nesting = kept;
        Made { sql: format!("SELECT {} FROM {from}{filter}{group}{having}", items.join(", ")), kinds }
    }

    /// The groups with the least or the greatest values, told by these values alone: of several alike any may come.
    fn few_groups(&mut self) -> Made {
        let joins = self.random.below(2);
        let from = self.from(joins);
        let filter = self.filter();
        self.nesting = NESTING_MAX;
        let of = self.random.pick(ORDERED);
        let columns = self.columns(of);
        if columns.is_empty() {
            self.nesting = 0;
            return self.plain(2);
        }
        let mut key = self.expression(of, 1);
        if !columns.iter().any(|column| key.contains(column.as_str())) {
            key = self.one(&columns);
        }
        let kind = self.random.pick(&[Int, Float, Float, Text, Time]);
        let value = self.expression(kind, 1);
        self.nesting = 0;
        let which = self.random.pick(&["min", "max"]);
        let how = self.random.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        let few = 1 + self.random.below(6);
        let groups = format!(
            "SELECT ({key}) AS k, {which}({value}) AS m FROM {from}{filter} GROUP BY ({key}) ORDER BY m{how} LIMIT {few}"
        );
        Made { sql: format!("SELECT m FROM ({groups}) AS q"), kinds: vec![kind] }
    }

    fn leaf_without_columns(&mut self, kind: Kind) -> String {
        let scope = std::mem::take(&mut self.scope);
        let leaf = self.expression(kind, 0);
        self.scope = scope;
        leaf
    }

    fn set_operation(&mut self) -> Made {
        let mut kinds = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            kinds.push(self.random.pick(&[Int, Text, Bool, Time, Date, Float, Text]));
        }
        let mut sql = self.part_of_set(&kinds);
        for _ in 0..1 + self.random.below(2) {
            let op = self.random.pick(&[
                "UNION",
                "UNION ALL",
                "INTERSECT",
                "EXCEPT",
                "UNION ALL",
                "INTERSECT ALL",
                "EXCEPT ALL",
            ]);
            let next = self.part_of_set(&kinds);
            sql = format!("({sql}) {op} ({next})");
        }
        if self.random.one_of(3) {
            let alias = self.alias();
            let names: Vec<String> = (0..kinds.len()).map(|n| format!("c{n}")).collect();
            self.scope = names
                .iter()
                .zip(&kinds)
                .map(|(name, kind)| Column { sql: format!("{alias}.{name}"), kind: *kind })
                .collect();
            let condition = self.expression(Bool, 2);
            sql = format!("SELECT * FROM ({sql}) AS {alias}({}) WHERE {condition}", names.join(", "));
        }
        Made { sql, kinds }
    }

    fn part_of_set(&mut self, kinds: &[Kind]) -> String {
        let joins = if self.random.one_of(4) { 1 } else { 0 };
        let from = self.from(joins);
        let filter = self.filter();
        let items: Vec<String> = kinds.iter().map(|kind| self.expression(*kind, 1)).collect();
        // A text alone has no type in PostgreSQL before it stands beside another.
        let items: Vec<String> = items
            .into_iter()
            .zip(kinds)
            .map(|(item, kind)| if *kind == Text { format!("({item})::text") } else { item })
            .collect();
        format!("SELECT {} FROM {from}{filter}", items.join(", "))
    }

    fn of_nothing(&mut self) -> Made {
        self.scope.clear();
        let (items, mut kinds) = self.items(4, 4);
        let more = if self.random.one_of(2) { self.part_of_time() } else { self.list() };
        kinds.push(Json);
        Made { sql: format!("SELECT {items}, {more}"), kinds }
    }

    fn distinct_on(&mut self) -> Made {
        let (name, columns) = self.random.pick(TABLES);
        let alias = self.alias();
        self.scope = columns
            .iter()
            .map(|(column, kind)| Column { sql: format!("{alias}.{}", quoted(column)), kind: kind_of(*kind) })
            .collect();
        let filter = self.filter();
        let kind = self.random.pick(&[Text, Int, Text]);
        let keys = self.columns(kind);
        let key = self.one(&keys);
        let other = self.random.pick(&[Text, Int]);
        let value = self.expression(other, 1);
        let how = self.random.pick(&["", " DESC"]);
        let sql = format!(
            "SELECT DISTINCT ON ({key}) {key}, {alias}.id, {value} FROM {name} {alias}{filter} ORDER BY {key}, {alias}.id{how}"
        );
        Made { sql, kinds: vec![kind, Int, other] }
    }

    fn with(&mut self) -> Made {
        self.nesting += 1;
        let made = match self.random.below(3) {
            0 => self.grouped(),
            1 => self.joined(),
            _ => self.set_operation(),
        };
        let names: Vec<String> = (0..made.kinds.len()).map(|n| format!("c{n}")).collect();
        let alias = self.alias();
        self.scope = names
            .iter()
            .zip(&made.kinds)
            .map(|(name, kind)| Column { sql: format!("{alias}.{name}"), kind: *kind })
            .collect();
        let (items, kinds) = self.items(3, 2);
        let filter = self.filter();
        self.nesting -= 1;
        let sql =
            format!("WITH q({}) AS ({}) SELECT {items} FROM q {alias}{filter}", names.join(", "), made.sql);
        Made { sql, kinds }
    }
}
