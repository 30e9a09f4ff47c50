//! Expressions of each type, over the columns that are in scope.

use super::generate::Generator;

/// What a column or an expression holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    /// Exact numbers: a sum of whole ones, a written number with a point.
    Num,
    Float,
    Text,
    Bool,
    /// A timestamp without a zone.
    Time,
    /// One with.
    Instant,
    Date,
    Span,
    Json,
}

use Kind::{Bool, Date, Float, Instant, Int, Json, Num, Span, Text, Time};

/// Kinds that are grouped, compared and ordered by.
pub(super) const ORDERED: &[Kind] = &[Int, Float, Text, Bool, Time, Int, Text, Date];
/// Kinds that may be selected.
pub(super) const SHOWN: &[Kind] =
    &[Int, Num, Float, Text, Bool, Time, Instant, Date, Span, Text, Time, Json, Bool];

const ZONES: &[&str] = &[
    "Europe/Berlin",
    "America/New_York",
    "UTC",
    "Asia/Tokyo",
    "Australia/Sydney",
    "+02:00",
    "-05:30",
    "CET",
    "EST",
    "america/los_angeles",
    "UTC+3",
    "Asia/Kolkata",
];
const TIMES: &[&str] = &[
    "2026-03-29 02:30:00",
    "2026-10-25 02:30:00",
    "2026-01-31 10:00:00.25",
    "9999-12-31 00:00:00",
    "0001-01-01 00:00:00",
    "1582-10-15 12:00:00",
    "2026-06-30 23:59:59",
    "1969-12-31 23:59:59.999",
    "2024-02-29 00:00:00",
];
const DATES: &[&str] =
    &["2026-03-29", "9999-12-31", "0001-01-01", "2024-02-29", "2026-12-31", "1970-01-01", "2300-07-04"];
const SPANS: &[&str] = &[
    "1 day",
    "2 hours",
    "1 month",
    "-1 day",
    "90 minutes",
    "1 year 2 months 3 days",
    "36:00",
    "00:00:01.5",
    "1 day -02:00",
    "-1 month 2 days",
    "7 days",
];
const LITERALS: &[&str] = &[
    "a",
    "A",
    "",
    "b%",
    "ab",
    "x_y",
    "it''s",
    "é",
    "10",
    "shop.example",
    "succeeded",
    "even",
    "name",
    "\\",
    "Ü 9",
];
const PATTERNS: &[&str] =
    &["a%", "%b%", "_b%", "%", "x\\_y", "%\\%%", "", "%é%", "A%", "%.example", "%e_d", "a\\\\b"];
const REGULAR: &[&str] = &[
    "^a",
    "b$",
    "a.c",
    "^[a-z]+$",
    "[0-9]+",
    "line.end",
    "(a)(b)?",
    "\\.",
    "x[%_]y",
    "^$",
    "e$",
    "[^a-z]",
    "\\d",
    "\\s",
    "a|b",
    "[\\\\]",
    "\\w+",
    "^.{3}$",
    "(?i)ABC",
    "[[:alpha:]]+",
    "[^[:alnum:]]",
    "^[[:upper:]]",
    "[[:punct:]]",
    "\\W",
    "(?n)a[^b]",
];
const CHARS: &[&str] = &["a", "e", "%", "/", ".", " ", "b"];
const UNITS: &[&str] = &["hour", "day", "week", "month", "quarter", "year", "minute", "second"];
const FIELDS: &[&str] = &[
    "year", "month", "day", "hour", "minute", "second", "dow", "isodow", "doy", "week", "quarter", "epoch",
    "isoyear",
];
const FORMATS: &[&str] = &[
    "YYYY-MM-DD",
    "HH24:MI:SS",
    "YYYY-MM-DD HH24:MI:SS.MS",
    "DD.MM.YY",
    "IYYY-IW",
    "HH12:MI AM",
    "DDD Mon Dy",
    "FMDD FMMonth YYYY",
    "Day, DD-MON-YYYY",
    "month Q",
    "ID",
    "WW W D",
    "FMWW/D",
];

impl Generator {
    /// An expression of this kind.
    pub(super) fn expression(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.random.one_of(4) {
            return self.leaf(kind);
        }
        if self.random.one_of(9) {
            return self.any_kind(kind, depth - 1);
        }
        match kind {
            Int => self.int(depth - 1),
            Num => self.num(depth - 1),
            Float => self.float(depth - 1),
            Text => self.text(depth - 1),
            Bool => self.condition(depth - 1),
            Time => self.time(depth - 1),
            Instant => self.instant(depth - 1),
            Date => self.date(depth - 1),
            Span => self.span(depth - 1),
            Json => self.json(depth - 1),
        }
    }

    /// A column, or a value that is written.
    fn leaf(&mut self, kind: Kind) -> String {
        let columns = self.columns(kind);
        if !columns.is_empty() && !self.random.one_of(4) {
            return columns[self.random.below(columns.len())].clone();
        }
        match kind {
            Int => format!("{}", self.random.below(9) as i64 - 1).replace("-1", "(-1)"),
            Num => self.random.pick(&["0.5", "2.25", "10.0", "0.1", "1.50", "1e1", "25e-2"]).to_owned(),
            Float => {
                let text = self.random.pick(&["0.5", "1", "0", "NaN", "Infinity", "2.5", "-3", "0.1", "-0"]);
                format!("'{text}'::float8")
            }
            Text => format!("'{}'", self.random.pick(LITERALS)),
            Bool => self.random.pick(&["true", "false", "true", "NULL::boolean"]).to_owned(),
            Time => format!("TIMESTAMP '{}'", self.random.pick(TIMES)),
            Instant => format!("TIMESTAMPTZ '{}+00'", self.random.pick(TIMES)),
            Date => format!("DATE '{}'", self.random.pick(DATES)),
            Span => format!("INTERVAL '{}'", self.random.pick(SPANS)),
            Json => r#"'{"a": [1, 2.50], "name": "x", "b": {"c": null}}'::json"#.to_owned(),
        }
    }

    /// What there is for every kind.
    fn any_kind(&mut self, kind: Kind, depth: usize) -> String {
        let (a, b) = (self.expression(kind, depth), self.expression(kind, depth));
        let condition = self.expression(Bool, depth);
        match self.random.below(5) {
            0 => format!("coalesce({a}, {b})"),
            1 => format!("CASE WHEN {condition} THEN {a} ELSE {b} END"),
            2 => format!("CASE WHEN {condition} THEN {a} END"),
            3 if !matches!(kind, Json) => format!("nullif({a}, {b})"),
            4 if !matches!(kind, Json | Bool) => {
                let which = self.random.pick(&["greatest", "least"]);
                format!("{which}({a}, {b})")
            }
            _ => format!("coalesce({a}, {b}, {a})"),
        }
    }

    fn int(&mut self, depth: usize) -> String {
        let a = self.expression(Int, depth);
        let b = self.expression(Int, depth);
        match self.random.below(16) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - {b})"),
            2 => format!("({a} * {b})"),
            3 => format!("({a} / nullif({b}, 0))"),
            4 => format!("({a} % nullif({b}, 0))"),
            5 => format!("({}{a})", self.random.pick(&["-", "~", "-"])),
            6 => format!("abs({a})"),
            7 => format!("length({})", self.expression(Text, depth)),
            8 => format!("({})::int", self.expression(Bool, depth)),
            9 => format!("position('{}' IN {})", self.random.pick(CHARS), self.expression(Text, depth)),
            10 => format!(
                "extract({} FROM {})::int",
                self.random.pick(&[
                    "year", "month", "day", "dow", "doy", "hour", "week", "isodow", "quarter", "isoyear"
                ]),
                self.expression(Time, depth)
            ),
            11 => format!("mod({a}, 7)"),
            12 => format!("sign({a})::int"),
            13 => format!(
                "cardinality(string_to_array({}, '{}'))",
                self.expression(Text, depth),
                self.random.pick(CHARS)
            ),
            14 => format!("({} - {})", self.expression(Date, depth), self.expression(Date, depth)),
            _ => format!("({})::bigint", self.expression(Num, depth)),
        }
    }

    fn num(&mut self, depth: usize) -> String {
        let a = self.expression(Num, depth);
        let b = self.expression(Num, 0);
        match self.random.below(12) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - {b})"),
            2 => format!("({a} * 2.5)"),
            3 => format!("round({a}, {})", self.random.below(3)),
            4 => format!("ceil({a})"),
            5 => format!("floor({a})"),
            6 => format!("trunc({a})"),
            7 => format!("abs({a})"),
            8 if self.random.one_of(2) => {
                let double = self.leaf(Float);
                format!("least(greatest(nullif({double}, 'NaN'::float8), -1000), 1000)::numeric(10, 2)")
            }
            8 => format!("({})::numeric(12, 2)", self.expression(Int, depth)),
            9 => format!("({} / 4.0)", self.expression(Int, depth)),
            10 => format!("(-{a})"),
            _ => format!("({} * {b})", self.expression(Int, depth)),
        }
    }

    fn float(&mut self, depth: usize) -> String {
        let a = self.expression(Float, depth);
        let b = self.expression(Float, depth);
        match self.random.below(14) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - {b})"),
            2 => format!("({a} * {b})"),
            3 => format!("({a} / 4)"),
            4 => format!("(-{a})"),
            5 => format!("abs({a})"),
            6 => format!("round({a})"),
            7 => format!("floor({a})"),
            8 => format!("ceil({a})"),
            9 => format!("sqrt(abs({a}))"),
            10 => format!("({})::float8", self.expression(Int, depth)),
            11 => format!("({a} + {})", self.expression(Num, 0)),
            12 => format!("(-{} ^ 2)", self.expression(Int, 0)),
            _ => format!("trunc({a})"),
        }
    }

    fn text(&mut self, depth: usize) -> String {
        let a = self.expression(Text, depth);
        let n = self.random.below(5);
        match self.random.below(26) {
            0 => format!("upper({a})"),
            1 => format!("lower({a})"),
            2 => format!("({a} || {})", self.expression(Text, depth)),
            3 => format!("substr({a}, {}, {n})", self.random.below(4)),
            4 => format!("left({a}, {})", n as i64 - 2),
            5 => format!("right({a}, {})", n as i64 - 2),
            6 => format!("replace({a}, '{}', '-')", self.random.pick(CHARS)),
            7 => {
                let side =
                    self.random.pick(&["", "LEADING FROM ", "TRAILING FROM ", "BOTH 'a' FROM ", "FROM "]);
                format!("trim({side}{a})")
            }
            8 => format!("lpad({a}, {n}, '*')"),
            9 => format!("rpad({a}, {n}, 'ab')"),
            10 => format!("split_part({a}, '{}', {})", self.random.pick(CHARS), 1 + n.min(2)),
            11 => format!("reverse({a})"),
            12 => format!("repeat({a}, {})", n.min(2)),
            13 => format!("({})::text", self.expression(Int, depth)),
            // A zero has no sign here.
            14 => format!("({} + 0)::text", self.expression(Float, depth)),
            15 => format!("({})::text", self.expression(Bool, depth)),
            16 => format!("({})::text", self.expression(Time, depth)),
            // It is for the years 1 to 9999.
            17 => format!(
                "to_char(least(greatest({}, TIMESTAMP '0001-01-01'), TIMESTAMP '9999-12-31'), '{}')",
                self.expression(Time, depth),
                self.random.pick(FORMATS)
            ),
            18 => format!(
                "regexp_replace({a}, '{}', '<\\&>')",
                self.random.pick(&["a", "[ab]", "b$", ".", "e"])
            ),
            19 => format!("concat({a}, {}, {})", self.expression(Int, depth), self.expression(Bool, depth)),
            20 => format!("concat_ws('-', {a}, {})", self.expression(Text, depth)),
            21 => format!("({})::text", self.expression(Date, depth)),
            22 => format!("initcap({a})"),
            23 => format!("translate({a}, 'abc', 'xy')"),
            24 => format!(
                "({} ->> '{}')",
                self.expression(Json, 0),
                self.random.pick(&["name", "price", "none"])
            ),
            _ => format!("array_to_string(string_to_array({a}, '{}'), ',', '*')", self.random.pick(CHARS)),
        }
    }

    /// Two values of one kind compared.
    fn comparison(&mut self, depth: usize) -> String {
        let kind =
            self.random.pick(&[Int, Float, Text, Time, Date, Num, Span, Instant, Bool, Int, Text, Time]);
        let (a, b) = (self.expression(kind, depth), self.expression(kind, depth));
        let op = self.random.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match self.random.below(9) {
            0 => format!("({a} IS DISTINCT FROM {b})"),
            1 => format!("({a} IS NOT DISTINCT FROM {b})"),
            2 => format!("({a} BETWEEN {b} AND {})", self.expression(kind, 0)),
            3 => {
                let not = self.random.pick(&["", "NOT "]);
                format!("({a} {not}IN ({b}, {}, {}))", self.expression(kind, 0), self.leaf(kind))
            }
            4 if matches!(kind, Int | Text) => {
                let which = self.random.pick(&["ANY", "ALL"]);
                format!("({a} {op} {which} (ARRAY[{b}, {}]))", self.leaf(kind))
            }
            5 if kind == Time => format!("({a} {op} '{}')", self.random.pick(TIMES)),
            6 if kind == Time => format!("({a} {op} {})", self.expression(Date, 0)),
            7 if kind == Float => format!("({a} {op} {})", self.expression(Num, 0)),
            _ => format!("({a} {op} {b})"),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let a = self.expression(Bool, depth);
        let text = self.expression(Text, depth);
        match self.random.below(20) {
            0 => format!("({a} AND {})", self.expression(Bool, depth)),
            1 => format!("({a} OR {})", self.expression(Bool, depth)),
            2 => format!("(NOT {a})"),
            3 => {
                let what =
                    self.random.pick(&["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN"]);
                format!("({a} IS {what})")
            }
            4 | 5 => {
                let kind = self.random.pick(&[Int, Float, Text, Time, Json]);
                let not = self.random.pick(&["", "NOT "]);
                format!("({} IS {not}NULL)", self.expression(kind, depth))
            }
            6 => format!("({text} LIKE '{}')", self.random.pick(PATTERNS)),
            7 => format!("({text} NOT LIKE '{}')", self.random.pick(PATTERNS)),
            8 => format!("({text} ILIKE '{}')", self.random.pick(PATTERNS)),
            9 | 10 => {
                let op = self.random.pick(&["~", "!~", "~*", "!~*"]);
                format!("({text} {op} '{}')", self.random.pick(REGULAR))
            }
            11 => format!("starts_with({text}, '{}')", self.random.pick(&["a", "", "https", "A"])),
            12 if self.may_nest() => self.subquery_condition(),
            13 if self.may_nest() => self.subquery_condition(),
            _ => self.comparison(depth),
        }
    }

    fn time(&mut self, depth: usize) -> String {
        let a = self.expression(Time, depth);
        match self.random.below(10) {
            0 | 1 => format!("date_trunc('{}', {a})", self.random.pick(UNITS)),
            2 => format!("({a} + {})", self.expression(Span, 0)),
            3 => format!("({a} - {})", self.expression(Span, 0)),
            4 => format!("({})::timestamp", self.expression(Date, depth)),
            5 | 6 => {
                format!("({} AT TIME ZONE '{}')", self.expression(Instant, depth), self.random.pick(ZONES))
            }
            7 => format!("({} + {})", self.expression(Date, 0), self.expression(Span, 0)),
            8 => format!("date_bin('15 minutes', {}, TIMESTAMP '2026-01-01')", self.leaf(Time)),
            _ => format!("({a} AT TIME ZONE 'UTC' AT TIME ZONE '{}')", self.random.pick(ZONES)),
        }
    }

    fn instant(&mut self, depth: usize) -> String {
        match self.random.below(4) {
            0 | 1 => format!("({} AT TIME ZONE '{}')", self.expression(Time, depth), self.random.pick(ZONES)),
            2 => {
                let unit = self.random.pick(UNITS);
                format!("date_trunc('{unit}', {})", self.expression(Instant, depth))
            }
            _ => format!("({} + {})", self.expression(Instant, depth), self.expression(Span, 0)),
        }
    }

    fn date(&mut self, depth: usize) -> String {
        match self.random.below(4) {
            0 | 1 => format!("({})::date", self.expression(Time, depth)),
            2 => format!("({} + {})", self.expression(Date, depth), self.random.below(40)),
            _ => format!("({} - {})", self.expression(Date, depth), self.random.below(40)),
        }
    }

    fn span(&mut self, depth: usize) -> String {
        match self.random.below(9) {
            0 | 1 => self.difference(depth),
            6 => format!("({} * {})", self.difference(0), self.random.below(3)),
            7 => format!("({} + {})", self.difference(0), self.leaf_span()),
            8 => {
                let unit = self.random.pick(&["day", "hour", "minute"]);
                format!("date_trunc('{unit}', {})", self.difference(0))
            }
            2 => format!("({} * {})", self.leaf_span(), self.random.below(5)),
            3 => format!("({} + {})", self.leaf_span(), self.leaf_span()),
            4 => format!("({} / 2)", self.leaf_span()),
            _ => format!("(-{})", self.leaf_span()),
        }
    }

    fn difference(&mut self, depth: usize) -> String {
        format!("({} - {})", self.expression(Time, depth), self.expression(Time, depth))
    }

    fn leaf_span(&mut self) -> String {
        format!("INTERVAL '{}'", self.random.pick(SPANS))
    }

    fn json(&mut self, depth: usize) -> String {
        let a = self.expression(Json, 0);
        match self.random.below(6) {
            0 => format!("({a} -> '{}')", self.random.pick(&["name", "a", "b", "of", "tags", "none"])),
            1 => format!("({a} -> 'a' -> {})", self.random.below(3)),
            2 => format!("({a} #> '{{of,a}}')"),
            3 => format!(
                "json_build_object('k', {}, 'n', {})",
                self.expression(Text, depth),
                self.expression(Int, depth)
            ),
            4 => format!("to_json(({})::text)", self.expression(Text, depth)),
            _ => format!(
                "json_build_array({}, {}, NULL)",
                self.expression(Int, depth),
                self.expression(Bool, depth)
            ),
        }
    }

    /// A number that a function of dates gives, to be shown only.
    pub(super) fn part_of_time(&mut self) -> String {
        let field = self.random.pick(FIELDS);
        match self.random.below(4) {
            0 => {
                let field = self.random.pick(&["epoch", "day", "hour", "minute", "month", "year", "second"]);
                format!("extract({field} FROM {})", self.expression(Span, 1))
            }
            1 => format!("extract({field} FROM {})", self.expression(Instant, 1)),
            2 => format!("date_part('{field}', {})", self.expression(Time, 1)),
            _ => format!("extract({field} FROM {})", self.expression(Time, 2)),
        }
    }

    /// A list, to be shown only.
    pub(super) fn list(&mut self) -> String {
        match self.random.below(6) {
            0 => format!("string_to_array({}, '{}')", self.expression(Text, 1), self.random.pick(CHARS)),
            1 => format!("ARRAY[{}, {}]", self.expression(Int, 1), self.expression(Int, 1)),
            2 => format!("(ARRAY[{}, {}])::text", self.expression(Text, 1), self.expression(Text, 1)),
            3 => format!("array_length(string_to_array({}, '/'), 1)", self.expression(Text, 1)),
            4 => format!(
                "regexp_split_to_array({}, '{}')",
                self.expression(Text, 1),
                self.random.pick(&["a", "[ /]", "\\.", "x*"])
            ),
            _ => format!(
                "regexp_match({}, '{}')",
                self.expression(Text, 1),
                self.random.pick(&["(a)(b)?", "[0-9]+", "^.", "(e.)"])
            ),
        }
    }
}
