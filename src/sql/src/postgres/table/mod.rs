//! What is known of a function: a row for each, from which everything else is made.
//!
//! What a session registers, what a call is written as before it is planned, which values are JSON, what is refused and what
//! is said then, the nearest name to one that is misspelled, the list of functions in `data/docs/sql.md`: all of it is read
//! from here. A function that a new DataFusion brings along must be looked at, and given a row, before it exists.
//!
//! Left out on purpose: `version`, `input_file_name`, `file_row_index`, `arrow_metadata`, `with_metadata`, `arrow_field`
//! (they tell about the box and its files), and the casts and inspections by Arrow's own types.

mod absent;
mod aggregates;
mod dates;
mod inside;
mod json;
mod lists;
mod numbers;
mod registered;
#[cfg(test)]
mod tests;
mod text;
mod windows;

use std::collections::HashMap;
use std::sync::LazyLock;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub(crate) use self::registered::registered;

/// What is known of a function.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name by which it is called, in lower case.
    pub(crate) name: &'static str,
    /// Other names of the same function, which are the engine's.
    pub(crate) also: &'static [&'static str],
    pub(crate) kind: Kind,
    /// What it takes and gives in PostgreSQL's words, `text, bigint → text`; several forms are kept apart by a semicolon.
    pub(crate) signatures: &'static str,
    pub(crate) answer: Answer,
    /// The function that is called in its stead, before the rule.
    pub(crate) calls: Option<&'static str>,
    /// How a call is written otherwise before it is planned.
    pub(crate) rule: Option<Rule>,
    /// The function that is put around a call that no rule has replaced.
    pub(crate) around: Option<&'static str>,
    /// What is refused of its arguments by how they are written.
    pub(crate) check: Option<Check>,
    pub(crate) rows: Option<Rows>,
    pub(crate) json: Json,
    /// What it is given it puts into JSON.
    pub(crate) takes_json: bool,
    /// Its arguments are made of one type, which is that of the result: `coalesce(price, 0.5)` is a double.
    pub(crate) is_uniform: bool,
    /// Any argument but the first may be a date where a time is meant.
    pub(crate) takes_dates: bool,
    /// It takes the difference of two times as it is: it tells the same of it as of the span.
    pub(crate) takes_differences: bool,
    /// What an aggregate is over spans; of one that takes values of any type it has to be told.
    pub(crate) spans: Option<Spans>,
    /// The engine's numbers have no sign. They stay as they are where they stand alone: the first row of each is found by
    /// them (`newest`).
    pub(crate) is_unsigned: bool,
    /// The engine has a function of windows by the same name.
    pub(crate) is_windowed: bool,
    /// It is no function of PostgreSQL.
    pub(crate) is_extra: bool,
    /// The rules put it around what was written: messages leave it out.
    pub(crate) is_put_around: bool,
    /// How a message names it, where that is not by its name.
    pub(crate) said: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of one row.
    Scalar,
    /// Of many rows.
    Aggregate,
    Window,
    /// Gives several rows.
    Set,
    /// A form of the syntax that looks like a call.
    Form,
    /// An operator that is planned as a function.
    Operator,
    /// Nobody writes it: the rules do.
    Inside,
}

/// Who answers a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// DataFusion's function of that name.
    Engine,
    /// The same with other results: zeros and NaN without a sign, counts with one.
    Adapted,
    Own(fn() -> ScalarUDF),
    OwnAggregate(fn() -> AggregateUDF),
    /// The parser, the planner of operators, or what a rule writes in its stead.
    Written,
    /// It is not here; what to write instead.
    Absent(&'static str),
}

/// How calls are written otherwise before they are planned; each is in `rules/calls.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Age,
    ArrayLength,
    Averaged,
    Chr,
    DatePart,
    DateTrunc,
    Div,
    Format,
    Gathered,
    LocalNow,
    MakeInterval,
    MakeTimestamp,
    Mod,
    Neighbour,
    Now,
    Padded,
    Pairs,
    RegexpSubstr,
    Regular,
    Round,
    Series,
    Shares,
    Shown,
    Signed,
    Texts,
    TimePattern,
    Uniform,
}

/// What is refused of a call by how its arguments are written; each is in `rules/refusals.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The second argument is a regular expression, and the first text from this place on its flags.
    Regular { flags: usize, takes_global: bool },
    /// The second argument is a pattern of times or of numbers.
    ToChar,
    /// Pairs cannot be told apart.
    DistinctPairs,
    /// The first argument is a share of the rows, or a list of such.
    Share,
}

/// How a function that gives several rows is made of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The rows are the elements of this function's list.
    Elements(&'static str),
    /// Rows of two columns: an object's names, and its members by this function.
    Members(&'static str),
    /// Of the list that it is given.
    Given,
}

/// What an aggregate does with spans, which are alike when their lengths are: 24 hours and a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spans {
    /// It hands them on, and compares none of them.
    Kept,
    /// It counts them, with DISTINCT by their lengths.
    Counted,
    /// It gives the one that is first by length.
    Least,
    Greatest,
    /// It adds them up.
    Summed,
    Averaged,
    /// What comes out would be one of several of one length.
    Refused,
}

/// What the result is as far as JSON goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    /// None.
    Never,
    /// JSON, or lists of it.
    Always,
    /// What the first argument is, or what is in it.
    OfFirst,
    /// Any of the arguments, or a list of them.
    OfAny,
    /// The first argument in another row, or the third where there is none.
    OfNeighbour,
}

const fn row(kind: Kind, name: &'static str, signatures: &'static str, answer: Answer) -> Row {
    Row {
        name,
        also: &[],
        kind,
        signatures,
        answer,
        calls: None,
        rule: None,
        around: None,
        check: None,
        rows: None,
        json: Json::Never,
        takes_json: false,
        is_uniform: false,
        takes_dates: false,
        takes_differences: false,
        spans: None,
        is_unsigned: false,
        is_windowed: false,
        is_extra: false,
        is_put_around: false,
        said: None,
    }
}

const fn scalar(name: &'static str, signatures: &'static str) -> Row {
    row(Kind::Scalar, name, signatures, Answer::Engine)
}

const fn aggregate(name: &'static str, signatures: &'static str) -> Row {
    row(Kind::Aggregate, name, signatures, Answer::Engine)
}

const fn window(name: &'static str, signatures: &'static str) -> Row {
    row(Kind::Window, name, signatures, Answer::Engine)
}

const fn set(name: &'static str, signatures: &'static str, rows: Rows) -> Row {
    let mut row = row(Kind::Set, name, signatures, Answer::Written);
    row.rows = Some(rows);
    row
}

const fn form(name: &'static str, signatures: &'static str) -> Row {
    row(Kind::Form, name, signatures, Answer::Written)
}

const fn operator(name: &'static str, signatures: &'static str) -> Row {
    row(Kind::Operator, name, signatures, Answer::Written)
}

const fn inside(name: &'static str, signatures: &'static str, make: fn() -> ScalarUDF) -> Row {
    row(Kind::Inside, name, signatures, Answer::Own(make))
}

const fn absent(name: &'static str, instead: &'static str) -> Row {
    row(Kind::Scalar, name, "", Answer::Absent(instead))
}

impl Row {
    const fn also(mut self, names: &'static [&'static str]) -> Row {
        self.also = names;
        self
    }

    const fn adapted(mut self) -> Row {
        self.answer = Answer::Adapted;
        self
    }

    /// The engine has a function of the name that the form is.
    const fn engine(mut self) -> Row {
        self.answer = Answer::Engine;
        self
    }

    const fn own(mut self, make: fn() -> ScalarUDF) -> Row {
        self.answer = Answer::Own(make);
        self
    }

    const fn own_aggregate(mut self, make: fn() -> AggregateUDF) -> Row {
        self.answer = Answer::OwnAggregate(make);
        self
    }

    /// No function has this name: the rule, or the function that is called in its stead, answers.
    const fn written(mut self) -> Row {
        self.answer = Answer::Written;
        self
    }

    const fn calls(mut self, name: &'static str) -> Row {
        self.calls = Some(name);
        self
    }

    const fn rule(mut self, rule: Rule) -> Row {
        self.rule = Some(rule);
        self
    }

    const fn around(mut self, name: &'static str) -> Row {
        self.around = Some(name);
        self
    }

    const fn check(mut self, check: Check) -> Row {
        self.check = Some(check);
        self
    }

    const fn json(mut self, json: Json) -> Row {
        self.json = json;
        self
    }

    const fn takes_json(mut self) -> Row {
        self.takes_json = true;
        self
    }

    const fn uniform(mut self) -> Row {
        self.is_uniform = true;
        self
    }

    const fn takes_dates(mut self) -> Row {
        self.takes_dates = true;
        self
    }

    const fn takes_differences(mut self) -> Row {
        self.takes_differences = true;
        self
    }

    const fn spans(mut self, spans: Spans) -> Row {
        self.spans = Some(spans);
        self
    }

    const fn unsigned(mut self) -> Row {
        self.is_unsigned = true;
        self
    }

    const fn windowed(mut self) -> Row {
        self.is_windowed = true;
        self
    }

    const fn extra(mut self) -> Row {
        self.is_extra = true;
        self
    }

    const fn put_around(mut self) -> Row {
        self.is_put_around = true;
        self
    }

    const fn said(mut self, name: &'static str) -> Row {
        self.said = Some(name);
        self
    }

    /// Whether people call it.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.kind, Kind::Inside | Kind::Operator) && !matches!(self.answer, Answer::Absent(_))
    }
}

/// The rows by families.
static FAMILIES: [&[Row]; 9] = [
    text::ROWS,
    numbers::ROWS,
    dates::ROWS,
    json::ROWS,
    lists::ROWS,
    aggregates::ROWS,
    windows::ROWS,
    inside::ROWS,
    absent::ROWS,
];

pub(crate) fn all() -> impl Iterator<Item = &'static Row> {
    FAMILIES.into_iter().flatten()
}

/// The row of a function, by any of its names in lower case.
pub(crate) fn of(name: &str) -> Option<&'static Row> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static Row>> = LazyLock::new(|| {
        let names = |row: &'static Row| row.also.iter().chain([&row.name]).map(move |name| (*name, row));
        all().flat_map(names).collect()
    });
    BY_NAME.get(name).copied()
}

/// Whether a function's arguments are made of one type, which is that of the result.
pub(crate) fn is_uniform(name: &str) -> bool {
    of(name).is_some_and(|row| row.is_uniform)
}
