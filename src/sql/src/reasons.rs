//! Why a statement cannot be planned, in sentences for whoever wrote it.
//!
//! DataFusion's own texts speak of its types, its rules and names that the rules have given things. What they tell is kept: which
//! column, which function, which types, how many. While a statement is planned no row has been read, so a value that such
//! a text holds is one of the statement's own.

use std::sync::LazyLock;

use datafusion::common::{Column, SchemaError};
use regex::{Captures, Regex};

use super::names::{nearest_name, quoted};
use super::postgres::table::{self, Answer, Row};

/// A sentence, and the piece of the statement that it is about.
pub(super) struct Reason {
    pub(super) sentence: String,
    pub(super) about: Option<String>,
}

impl Reason {
    fn new(sentence: impl Into<String>) -> Reason {
        Reason { sentence: sentence.into(), about: None }
    }

    fn about(mut self, piece: &str) -> Reason {
        self.about = Some(piece.to_owned());
        self
    }
}

/// Why a column cannot be told.
pub(super) fn schema_reason(error: &SchemaError) -> Reason {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => missing_column(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            let name = quoted(&field.name);
            Reason::new(format!("The column \"{name}\" is ambiguous: write it with its table's name."))
                .about(&field.name)
        }
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => Reason::new(format!(
            "The column \"{}\" appears twice: give one of them another name.",
            quoted(name)
        ))
        .about(name),
    }
}

fn missing_column(field: &Column, valid: &[Column]) -> Reason {
    let name = quoted(&field.name);
    let Some(table) = field.relation.as_ref().map(|table| table.table().to_owned()) else {
        let near = nearest_name(&field.name, valid.iter().map(Column::name));
        let near = near.and_then(|near| valid.iter().find(|column| column.name == near));
        return Reason::new(match near {
            Some(near) => format!("There is no column \"{name}\"; did you mean \"{}\"?", quoted(&near.name)),
            None => format!("There is no column \"{name}\"."),
        })
        .about(&field.name);
    };
    // A name that the planner gave a subquery.
    if table.starts_with("__") {
        return Reason::new(CORRELATED);
    }
    let of_table = |column: &&Column| column.relation.as_ref().is_some_and(|own| own.table() == table);
    let about = format!("{table}.{}", field.name);
    let shown = quoted(&table);
    if valid.iter().any(|column| of_table(&column)) {
        let near = nearest_name(&field.name, valid.iter().filter(of_table).map(Column::name));
        return Reason::new(match near {
            Some(near) => {
                format!(
                    "There is no column \"{name}\" in \"{shown}\"; did you mean \"{shown}.{}\"?",
                    quoted(near)
                )
            }
            None => format!("There is no column \"{name}\" in \"{shown}\"."),
        })
        .about(&about);
    }
    // The name in front is none of FROM. Either it is misspelled, or the table has been given another name there.
    let tables: Vec<&str> =
        valid.iter().filter_map(|column| column.relation.as_ref().map(|table| table.table())).collect();
    let has_it =
        valid.iter().find(|column| column.name == field.name).and_then(|column| column.relation.as_ref());
    let near = nearest_name(&table, tables.iter().copied()).or(has_it.map(|table| table.table()));
    Reason::new(match near {
        Some(near) => {
            format!("FROM has no table or alias \"{shown}\" here; did you mean \"{}.{name}\"?", quoted(near))
        }
        None => format!("FROM has no table or alias \"{shown}\" here."),
    })
    .about(&about)
}

/// What a text of a known form says.
type Tell = fn(&Captures<'_>) -> Reason;

/// Texts of DataFusion's planner, and what they say.
static TEXTS: LazyLock<Vec<(Regex, Tell)>> = LazyLock::new(|| {
    let known: &[(&str, Tell)] = &[
        (r#"^Invalid function '([^']*)'"#, |found| missing_function(&found[1])),
        (r#"column "(.+?)" must appear in the GROUP BY"#, |found| ungrouped(&found[1])),
        (r"HAVING clause references: (.+) must appear in the GROUP BY", |found| ungrouped(&found[1])),
        (r"argument types '(?s:(.+?))\((?s:(.*?))\)'\. You might", |found| arguments(&found[1], &found[2])),
        (r"(?i)function '?([a-z_0-9]+)'? (?:expected|expects|requires|does not|could not)", |found| {
            let name = own_name(&found[1]);
            Reason::new(format!("The function {name} does not take the arguments that it is given here: look at their number and types."))
                .about(&name)
        }),
        (
            r"Cannot infer common (?:argument |string )?type for (?:[a-zA-Z]+ )*operation (.+) (\S+|IS (?:NOT )?DISTINCT FROM|NOT LIKE|NOT ILIKE) (.+)$",
            |found| operands(&found[1], &found[2], &found[3]),
        ),
        (r"Cannot coerce arithmetic expression (.+) ([-+*/%]) (.+) to valid types", |found| {
            operands(&found[1], &found[2], &found[3])
        }),
        (
            r"Cannot get result type for (?:arithmetic|temporal|decimal) operation (.+) ([-+*/%]) (.+?): ",
            |found| operands(&found[1], &found[2], &found[3]),
        ),
        (r"isn't a common type to coerce (.+) and (.+) in (\w+) expression", |found| {
            operands(&found[1], &found[3], &found[2])
        }),
        (r"expr type (.+) can't cast to (.+) in (?:InSubquery|SetComparison)", |found| {
            operands(&found[1], "IN", &found[2])
        }),
        (r"Can not find compatible types to compare (.+) with \[(.+)\]", |found| {
            operands(&found[1], "IN", &found[2])
        }),
        (r"Failed to coerce (?:then|case) .* to common types in CASE WHEN", |_| {
            Reason::new("The values of a CASE have types that do not go together: cast them to one.")
                .about("CASE")
        }),
        (r"Cannot find column with position (\d+) in SELECT clause\. Valid columns: 1 to (\d+)", |found| {
            Reason::new(format!("The column number {} is not among the {} of SELECT.", &found[1], &found[2]))
                .about(&found[1])
        }),
        (r"Order by column out of bounds, specified: (\d+), max: (\d+)", |found| {
            Reason::new(format!("The column number {} is not among the {} of SELECT.", &found[1], &found[2]))
                .about(&found[1])
        }),
        (r#"WITH query name "?(.+?)"? specified more than once"#, |found| {
            Reason::new(format!("WITH has two queries of the name \"{}\".", quoted(&found[1])))
                .about(&found[1])
        }),
        (r"The window (.+) is not defined", |found| {
            Reason::new(format!("There is no window \"{}\": define it with WINDOW.", quoted(&found[1])))
                .about(&found[1])
        }),
        (r"DISTINCT ON expressions must match initial ORDER BY", |_| {
            Reason::new("ORDER BY must begin with what DISTINCT ON names.").about("ORDER")
        }),
        (r"For SELECT DISTINCT, ORDER BY expressions (.+) must appear in select list", |found| {
            let about = written(&found[1]);
            Reason::new(format!(
                "With SELECT DISTINCT, ORDER BY can only name what is selected, and {about} is not."
            ))
            .about(&about)
        }),
        (r"SELECT \* with no tables", |_| Reason::new("SELECT * needs a FROM.").about("SELECT")),
        (r"Expected (LIMIT|OFFSET) to be an integer", |found| {
            Reason::new(format!("{} must be a whole number.", &found[1])).about(&found[1])
        }),
        (
            r"(?:(\w+(?: \w+)?) must be boolean type|non-boolean predicate '.*'), (?:but got|returning) (.+)$",
            |found| {
                Reason::new(format!(
                    "A condition must be true or false, and one is {}.",
                    article(&type_name(&found[2]))
                ))
            },
        ),
        (r"non-boolean predicate '(?s:.*)' returning (.+)$", |found| {
            Reason::new(format!(
                "A condition must be true or false, and one is {}.",
                article(&type_name(&found[1]))
            ))
        }),
        (
            r"have the same number of columns|have different number of (?:fields|columns)|different number of fields",
            |_| Reason::new("The parts of a UNION, INTERSECT or EXCEPT have different numbers of columns."),
        ),
        (r#"require unique expression names but the expression "(.+?)" at position"#, |found| {
            let name = written(&found[1]);
            Reason::new(format!("Two result columns have the name \"{name}\": give one of them another."))
                .about(&name)
        }),
        (r"(?:Unsupported CAST from|Cannot automatically convert) (.+) to (.+)$", |found| {
            Reason::new(format!(
                "{} cannot be made {}.",
                capital(&article(&type_name(&found[1]))),
                article(&type_name(&found[2]))
            ))
        }),
        (r"Unsupported ast node in sqltorel: (\w+)", |found| {
            let form = found[1].to_ascii_uppercase();
            Reason::new(format!("The form {form} is not available here.")).about(&form)
        }),
        (r"Conflicting ordering requirements", |_| {
            Reason::new(
                "Aggregates of one SELECT that have an ORDER BY (string_agg, array_agg) must have the same one: put the other \
                 into a subquery.",
            )
            .about("ORDER BY")
        }),
        (r"Unsupported Value '?(\w+)", |_| Reason::new("A literal of this form is not available here.")),
        (r"Unsupported SQL type (.+)$", |found| {
            Reason::new(format!("The type {} is not available here.", quoted(&found[1]))).about(&found[1])
        }),
        (
            r"should return only one column|must return exactly one column|must have one column|Too many columns",
            |_| Reason::new("A subquery that is used as a value must have one column."),
        ),
        (r"Aggregate functions are not allowed in the WHERE", |_| {
            Reason::new("An aggregate function cannot stand in WHERE: use HAVING.").about("WHERE")
        }),
        (r"NOT cannot be used|Negation only supports|Unary operator", |_| {
            Reason::new("The operator NOT, - or + stands before a value of a type that it does not take.")
        }),
        (r"No field named (\S+?)\.", |found| {
            let name = written(&found[1]);
            Reason::new(format!("There is no column \"{name}\".")).about(&name)
        }),
        (
            r"Date part '(.+?)' not supported|Unsupported date part '(.+?)'|unsupported (?:date_part|date part)[^']*'(.+?)'",
            |found| {
                let part = found.iter().skip(1).flatten().next().map_or("", |part| part.as_str());
                Reason::new(format!("A time has no part \"{}\" here.", quoted(part))).about(part)
            },
        ),
        (r"(?i)interval", |_| {
            Reason::new("An interval cannot be understood: write one like INTERVAL '1 day 2 hours'.")
                .about("INTERVAL")
        }),
    ];
    let compiled = known.iter().filter_map(|(pattern, tell)| Some((Regex::new(pattern).ok()?, *tell)));
    compiled.collect()
});

/// What a text of the planner says.
pub(super) fn plan_reason(text: &str) -> Reason {
    known_reason(text, "The statement cannot be planned")
}

/// What is known of a text, or the text itself behind what it is about.
fn known_reason(text: &str, about: &str) -> Reason {
    let known = TEXTS.iter().find_map(|(pattern, tell)| pattern.captures(text).map(|found| tell(&found)));
    known.unwrap_or_else(|| {
        if is_internal(text) {
            return Reason::new(UNPLANNABLE);
        }
        let first = text.lines().next().unwrap_or_default();
        Reason::new(format!("{about}: {}.", in_own_types(&quoted(first)).trim_end_matches('.')))
    })
}

/// What is said of a statement whose forms are known one by one, and not together.
pub(super) const UNPLANNABLE: &str = "The forms of this statement cannot be run together here. \
    Take it apart: put the subquery, the expression in GROUP BY or the window into a WITH, and select from that.";

/// Whether a text shows how a plan is made up inside, which says nothing to who wrote the statement.
fn is_internal(text: &str) -> bool {
    ["Exec:", "Exec(", "<pending>", "Plan:"].iter().any(|mark| text.contains(mark))
}

/// What a text about a form says that is not there.
pub(super) fn form_reason(text: &str) -> Reason {
    let lower = text.to_ascii_lowercase();
    let is_correlated =
        ["outerreference", "outer_ref", "correlated", "lateral"].iter().any(|mark| lower.contains(mark));
    if is_correlated {
        return Reason::new(CORRELATED);
    }
    if lower.contains("subquery") || lower.contains("exists(") {
        return Reason::new(
            "A subquery stands in a place where none can be run here: put it into WITH or FROM, and join with it.",
        );
    }
    known_reason(text, "The statement uses a form that is not available here")
}

pub(super) const CORRELATED: &str = "A subquery, or LATERAL, that names a column from outside may tie itself to it by equality only \
    (a.x = b.x): join and group instead, or use DISTINCT ON or row_number().";

fn missing_function(name: &str) -> Reason {
    let shown = quoted(name);
    let instead = match table::of(&name.to_ascii_lowercase()).map(|row| row.answer) {
        Some(Answer::Absent(instead)) => Some(format!(" {instead}")),
        _ => {
            let names = table::all().filter(|row| row.is_shown()).map(|row| row.name);
            nearest_name(name, names).map(|near| format!(" Did you mean {near}?"))
        }
    };
    let instead = instead.unwrap_or_default();
    Reason::new(format!("There is no function \"{shown}\" here.{instead}")).about(name)
}

fn ungrouped(expr: &str) -> Reason {
    let shown = written(expr);
    let is_column = shown.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '"'));
    let sentence = match is_column {
        true => format!("The column \"{shown}\" must appear in GROUP BY or inside an aggregate function."),
        false => format!("{shown} must appear in GROUP BY, or its columns inside an aggregate function."),
    };
    Reason::new(sentence).about(&shown)
}

fn arguments(name: &str, types: &str) -> Reason {
    let own = own_name(name);
    let types = in_own_types(types);
    let takes = table::of(&name.to_ascii_lowercase()).filter(|row| row.is_shown() && row.said.is_none());
    let takes = takes.map(|row| format!(" It is {}.", forms(row))).unwrap_or_default();
    Reason::new(match types.is_empty() {
        true => format!("The function {own} needs arguments.{takes}"),
        false => format!(
            "There is no function {own}({types}): cast the arguments to types that it takes, or look at their number.{takes}"
        ),
    })
    .about(&own)
}

/// The forms of a function, `round(number) or round(number, bigint)`.
fn forms(row: &Row) -> String {
    let forms = row.signatures.split("; ").filter_map(|form| form.split_once('→'));
    let forms: Vec<String> = forms
        .map(|(takes, _)| match takes.trim().split_once("WITHIN GROUP") {
            Some((share, of)) => {
                format!("{}({}) WITHIN GROUP (ORDER BY {})", row.name, share.trim(), of.trim())
            }
            None => format!("{}({})", row.name, takes.trim()),
        })
        .collect();
    forms.join(" or ")
}

fn operands(left: &str, operator: &str, right: &str) -> Reason {
    let (left, right) = (in_own_types(left), in_own_types(right));
    Reason::new(format!(
        "{operator} does not take {} and {}: cast one of them.",
        article(&left),
        article(&right)
    ))
}

/// The name under which people know a function that the rules have given another.
fn own_name(name: &str) -> String {
    match table::of(&name.to_ascii_lowercase()).and_then(|row| row.said) {
        Some(said) => said.to_owned(),
        None => quoted(name),
    }
}

/// An expression as it was written, nearly: without the calls that the rules put around things.
pub(super) fn written(expr: &str) -> String {
    static OWN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let inside: Vec<&str> = table::all().filter(|row| row.is_put_around).map(|row| row.name).collect();
        Regex::new(&format!(r"\b(?:{})\(([^()]*)\)", inside.join("|"))).ok()
    });
    static TEXT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"\b(?:Utf8View|LargeUtf8|Utf8)\("([^"]*)"\)"#).ok());
    static LITERAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"\b(?:U?Int(?:8|16|32|64)|Float(?:32|64)|Boolean|Utf8View|Utf8)\(([^()]*)\)").ok()
    });
    let mut text = expr.replace("count(Int64(1))", "count(*)").replace("count(1)", "count(*)");
    for (pattern, own) in [(&*TEXT, "'$1'"), (&*OWN, "$1"), (&*LITERAL, "$1")] {
        if let Some(pattern) = pattern {
            text = pattern.replace_all(&text, own).into_owned();
        }
    }
    quoted(&text)
}

/// PostgreSQL's name of a type that is given by Arrow's.
fn type_name(arrow: &str) -> String {
    let arrow = arrow.trim();
    let plain = arrow.split('(').next().unwrap_or(arrow);
    match plain {
        "Utf8" | "Utf8View" | "LargeUtf8" | "String" => "text",
        "Int8" | "Int16" | "Int32" | "Int64" | "UInt8" | "UInt16" | "UInt32" | "UInt64" | "Integer" => {
            "bigint"
        }
        "Float16" | "Float32" | "Float64" | "Float" => "double precision",
        "Decimal" | "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => "numeric",
        "Numeric" => "number",
        "Boolean" => "boolean",
        "Timestamp" if arrow.contains("Some(") || arrow.contains('"') => "timestamptz",
        "Timestamp" => "timestamp",
        "Date32" | "Date64" | "Date" => "date",
        "Time32" | "Time64" | "Time" => "time",
        "Interval" | "Duration" => "interval",
        "Binary" | "LargeBinary" | "BinaryView" | "FixedSizeBinary" => "bytea",
        "Null" => "NULL",
        "List" | "LargeList" | "FixedSizeList" => "array",
        "Struct" => "record",
        _ => return quoted(arrow),
    }
    .to_owned()
}

/// A text with PostgreSQL's names for Arrow's types.
fn in_own_types(text: &str) -> String {
    static TYPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        // With what stands behind it in parentheses, two deep.
        Regex::new(
            r"\b(?:Utf8View|LargeUtf8|Utf8|U?Int(?:8|16|32|64)|Float(?:16|32|64)|Decimal(?:32|64|128|256)|Boolean|Timestamp|Date(?:32|64)|Time(?:32|64)|Interval|Duration|LargeBinary|BinaryView|Binary|Null|LargeList|List|Struct)\b(?:\((?:[^()]|\([^()]*\))*\))?",
        )
        .ok()
    });
    match &*TYPES {
        Some(types) => quoted(&types.replace_all(text, |found: &Captures<'_>| type_name(&found[0]))),
        None => quoted(text),
    }
}

/// A type with its article.
fn article(name: &str) -> String {
    match name.chars().next() {
        Some('a' | 'e' | 'i' | 'o' | 'u') => format!("an {name}"),
        Some('N') | None => name.to_owned(),
        _ => format!("a {name}"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

/// What a text of a function that runs says of the statement alone.
pub(super) fn part_reason(text: &str) -> Option<Reason> {
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)date part '?([a-z_]{1,30})'? (?:is )?not supported").ok());
    if ["indexed field", "get_field", "access field"].iter().any(|said| text.contains(said)) {
        return Some(Reason::new(
            "What stands before a point is neither a table of FROM nor a value with members: of JSON write column -> 'name'.",
        ));
    }
    let part = PART.as_ref()?.captures(text)?.get(1)?.as_str();
    Some(Reason::new(format!("A time has no part \"{part}\" here.")).about(part))
}

/// What is wrong with a regular expression, if a text is about one; nothing of the expression itself is in it.
pub(super) fn regex_reason(text: &str) -> Option<Reason> {
    let is_about = text.contains("regex parse error") || text.contains("Compiled regex exceeds");
    let why = text.lines().rev().find_map(|line| line.trim().strip_prefix("error: "));
    let why = why.filter(|why| why.len() < 200 && !why.contains('\''));
    is_about.then(|| {
        Reason::new(match why {
            Some(why) => format!("A regular expression cannot be understood: {}.", quoted(why)),
            None => "A regular expression cannot be understood.".to_owned(),
        })
    })
}

/// What a value that is written in the statement cannot be made, if a text of Arrow says so.
pub(super) fn written_value(text: &str) -> Option<Reason> {
    static CAST: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?s)(?:Cannot cast string|Error parsing (?:timestamp|date) from|Invalid input syntax for type \S+:?|Cannot cast to [^.]+\. Overflowing on|Invalid timezone|Parser error: Invalid timezone) ['\x22](.*?)['\x22](?: to value of (\w+))?").ok()
    });
    let found = CAST.as_ref()?.captures(text)?;
    let value = quoted(&found[1]);
    Some(
        match found.get(2) {
            Some(kind) => Reason::new(format!("'{value}' is not {}.", article(&type_name(kind.as_str())))),
            None => Reason::new(format!("'{value}' is not a value of the type that it is used as.")),
        }
        .about(&format!("'{}'", &found[1])),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_planner_name_what_they_are_about() {
        for (text, sentence, about) in [
            ("Plan: [\"SortPreservingMergeExec: [scalar_subquery(<pending>) > 0]\"]", UNPLANNABLE, None),
            (
                "Invalid function 'lenght'.\nDid you mean 'length'?",
                "There is no function \"lenght\" here. Did you mean length?",
                Some("lenght"),
            ),
            (
                "Invalid function 'isnull'.",
                "There is no function \"isnull\" here. Use coalesce, or IS NULL.",
                Some("isnull"),
            ),
            (
                "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \"products.price\" must appear in the GROUP BY clause or must be part of an aggregate function, currently only \"a, b\" appears in the SELECT clause satisfies this requirement",
                "The column \"products.price\" must appear in GROUP BY or inside an aggregate function.",
                Some("products.price"),
            ),
            (
                "Failed to coerce arguments to satisfy a call to 'abs' function: coercion from Utf8 to the signature Numeric(1) failed. No function matches the given name and argument types 'abs(Utf8)'. You might need to add explicit type casts.\n\tCandidate functions:\n\tabs(Numeric)",
                "There is no function abs(text): cast the arguments to types that it takes, or look at their number. It is abs(number).",
                Some("abs"),
            ),
            (
                "x. No function matches the given name and argument types 'round(Decimal128(38, 10), Timestamp(Millisecond, None))'. You might need to add explicit type casts.",
                "There is no function round(numeric, timestamp): cast the arguments to types that it takes, or look at their number. It is round(number) or round(number, bigint).",
                Some("round"),
            ),
            (
                "Cannot infer common argument type for comparison operation Int64 = Boolean",
                "= does not take a bigint and a boolean: cast one of them.",
                None,
            ),
            (
                "Cannot coerce arithmetic expression Utf8View + Timestamp(Millisecond, None) to valid types",
                "+ does not take a text and a timestamp: cast one of them.",
                None,
            ),
            (
                "Cannot find column with position 5 in SELECT clause. Valid columns: 1 to 2",
                "The column number 5 is not among the 2 of SELECT.",
                Some("5"),
            ),
            ("Unsupported SQL type HSTORE", "The type HSTORE is not available here.", Some("HSTORE")),
        ] {
            let reason = plan_reason(text);
            assert_eq!((reason.sentence.as_str(), reason.about.as_deref()), (sentence, about));
        }
        let general = plan_reason("Something odd with Utf8View happened\nand more of it").sentence;
        assert_eq!(general, "The statement cannot be planned: Something odd with text happened.");
    }

    #[test]
    fn a_missing_column_is_told_with_its_table() {
        let column = |table: &str, name: &str| Column::new(Some(table), name);
        let valid = [column("r", "url"), column("r", "price"), column("jobs", "id")];
        let told = |field: Column| missing_column(&field, &valid).sentence;
        assert_eq!(
            told(column("r", "prise")),
            "There is no column \"prise\" in \"r\"; did you mean \"r.price\"?"
        );
        assert_eq!(
            told(column("readings", "url")),
            "FROM has no table or alias \"readings\" here; did you mean \"r.url\"?"
        );
        assert_eq!(
            told(column("job", "id")),
            "FROM has no table or alias \"job\" here; did you mean \"jobs.id\"?"
        );
        assert_eq!(told(column("r", "zzz")), "There is no column \"zzz\" in \"r\".");
        assert_eq!(told(Column::from_name("prize")), "There is no column \"prize\"; did you mean \"price\"?");
    }

    #[test]
    fn expressions_are_shown_as_they_are_written() {
        for (expr, expected) in [
            ("urls.url LIKE Utf8View(\"%1%\")", "urls.url LIKE '%1%'"),
            ("count(Int64(1))", "count(*)"),
            ("to_text(a.b) = Utf8(\"x\") AND a.n > Int64(5)", "a.b = 'x' AND a.n > 5"),
            ("x IS NOT Boolean(true)", "x IS NOT true"),
            ("to_json(json_value(urls.metadata)) IS NULL", "to_json(urls.metadata) IS NULL"),
        ] {
            assert_eq!(written(expr), expected);
        }
    }

    #[test]
    fn a_value_of_the_statement_is_told() {
        let reason = written_value("Cannot cast string 'abc' to value of Int64 type").expect("a value");
        assert_eq!(
            (reason.sentence.as_str(), reason.about.as_deref()),
            ("'abc' is not a bigint.", Some("'abc'"))
        );
        assert!(written_value("something else").is_none());
    }
}
