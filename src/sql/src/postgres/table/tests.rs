//! That the table is true: each row is registered or written as it says, its signatures are what a call plans to, it has a
//! statement that runs, and the documentation lists it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::physical_plan::collect;

use super::*;
use crate::gate::admit;
use crate::gate::tests::world::{World, admitted};

/// What analysts ask, which is compared with PostgreSQL's answers (`tests/it/bi/differential.rs`).
const ANALYST: &str = include_str!("../../../../../tests/it/bi/analyst.sql");

/// A statement for each function that PostgreSQL has not, or has with a result that changes, and what it gives.
const EXAMPLES: &[(&str, &str)] = &[
    ("SELECT any_value(x) FROM (VALUES (3), (3)) t(x)", "3"),
    ("SELECT approx_distinct(x) FROM (VALUES (3), (3), (4)) t(x)", "2"),
    ("SELECT approx_median(x) FROM (VALUES (1), (3), (5)) t(x)", "3.0"),
    ("SELECT approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (3), (5)) t(x)", "3.0"),
    (
        "SELECT approx_percentile_cont_with_weight(1, 0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (3), (5)) t(x)",
        "3.0",
    ),
    ("SELECT array_add(ARRAY[1, 2], ARRAY[3, 4])", "[4.0, 6.0]"),
    ("SELECT array_any_value(ARRAY[NULL, 2])", "2"),
    ("SELECT array_avg(ARRAY[1, 2])", "1.5"),
    ("SELECT array_compact(ARRAY[1, NULL, 2])", "[1, 2]"),
    ("SELECT array_concat(ARRAY[1], ARRAY[2])", "[1, 2]"),
    ("SELECT array_dims(ARRAY[1, 2])", "[2]"),
    ("SELECT array_distance(ARRAY[0.0::float8], ARRAY[2.0::float8])", "2.0"),
    ("SELECT array_distinct(ARRAY[1, 1])", "[1]"),
    ("SELECT array_element(ARRAY[1, 2], 2)", "2"),
    ("SELECT array_except(ARRAY[1, 2], ARRAY[2])", "[1]"),
    ("SELECT array_has(ARRAY[1, 2], 2)", "true"),
    ("SELECT array_has_all(ARRAY[1, 2], ARRAY[2, 3])", "false"),
    ("SELECT array_has_any(ARRAY[1, 2], ARRAY[2, 3])", "true"),
    ("SELECT array_intersect(ARRAY[1, 2], ARRAY[2, 3])", "[2]"),
    ("SELECT array_max(ARRAY[1, 2])", "2"),
    ("SELECT array_min(ARRAY[1, 2])", "1"),
    ("SELECT array_normalize(ARRAY[3.0::float8, 4.0::float8])", "[0.6, 0.8]"),
    ("SELECT array_pop_back(ARRAY[1, 2])", "[1]"),
    ("SELECT array_pop_front(ARRAY[1, 2])", "[2]"),
    ("SELECT array_product(ARRAY[2, 3])", "6.0"),
    ("SELECT array_remove_all(ARRAY[1, 2, 1], 1)", "[2]"),
    ("SELECT array_remove_n(ARRAY[1, 2, 1], 1, 1)", "[2, 1]"),
    ("SELECT array_repeat(1, 2)", "[1, 1]"),
    ("SELECT array_replace_all(ARRAY[1, 2, 1], 1, 5)", "[5, 2, 5]"),
    ("SELECT array_replace_n(ARRAY[1, 2, 1], 1, 5, 1)", "[5, 2, 1]"),
    ("SELECT array_resize(ARRAY[1], 2, 7)", "[1, 7]"),
    ("SELECT array_reverse(ARRAY[1, 2])", "[2, 1]"),
    ("SELECT array_scale(ARRAY[1.0::float8], 2.0::float8)", "[2.0]"),
    ("SELECT array_slice(ARRAY[1, 2, 3], 2, 3)", "[2, 3]"),
    ("SELECT array_sort(ARRAY[2, 1])", "[1, 2]"),
    ("SELECT array_subtract(ARRAY[3, 4], ARRAY[1, 1])", "[2.0, 3.0]"),
    ("SELECT array_sum(ARRAY[1, 2])", "3.0"),
    ("SELECT array_union(ARRAY[1], ARRAY[2])", "[1, 2]"),
    ("SELECT arrays_zip(ARRAY[1], ARRAY[2])", "[{1: 1, 2: 2}]"),
    ("SELECT contains('abc', 'b')", "true"),
    ("SELECT cosine_distance(ARRAY[1.0::float8, 0.0::float8], ARRAY[1.0::float8, 0.0::float8])", "0.0"),
    ("SELECT current_date = now()::date", "true"),
    ("SELECT current_time IS NOT NULL", "true"),
    ("SELECT current_timestamp = now()", "true"),
    ("SELECT date_format('2026-02-01'::timestamp, 'YYYY/MM')", "2026/02"),
    ("SELECT empty(ARRAY[1])", "false"),
    ("SELECT ends_with('abc', 'bc')", "true"),
    ("SELECT find_in_set('b', 'a,b')", "2"),
    ("SELECT flatten(ARRAY[ARRAY[1], ARRAY[2]])", "[1, 2]"),
    ("SELECT from_unixtime(0)", "1970-01-01T00:00:00"),
    ("SELECT get_field(struct(5), 'c0')", "5"),
    ("SELECT gen_random_uuid() IS NOT NULL", "true"),
    ("SELECT inner_product(ARRAY[1.0::float8, 2.0::float8], ARRAY[3.0::float8, 4.0::float8])", "11.0"),
    ("SELECT isnan('NaN'::float8)", "true"),
    ("SELECT iszero(0)", "true"),
    ("SELECT levenshtein('kitten', 'sitting')", "3"),
    ("SELECT localtimestamp IS NOT NULL", "true"),
    ("SELECT log2(8)", "3.0"),
    ("SELECT make_array(1, 2)", "[1, 2]"),
    ("SELECT map(ARRAY['a'], ARRAY[1])", "{a: 1}"),
    ("SELECT map_entries(map(ARRAY['a'], ARRAY[1]))", "[{key: a, value: 1}]"),
    ("SELECT map_extract(map(ARRAY['a'], ARRAY[1]), 'a')", "[1]"),
    ("SELECT map_keys(map(ARRAY['a'], ARRAY[1]))", "[a]"),
    ("SELECT map_values(map(ARRAY['a'], ARRAY[1]))", "[1]"),
    ("SELECT median(x) FROM (VALUES (1.0::float8), (3), (5)) t(x)", "3.0"),
    ("SELECT named_struct('a', 1)", "{a: 1}"),
    ("SELECT nanvl('NaN'::float8, 2.0::float8)", "2.0"),
    ("SELECT nvl(NULL, 2)", "2"),
    ("SELECT nvl2(NULL, 1, 2)", "2"),
    ("SELECT range(1, 3)", "[1, 2]"),
    ("SELECT signum(-5)", "-1.0"),
    ("SELECT statement_timestamp() = now()", "true"),
    ("SELECT struct(1, 2)", "{c0: 1, c1: 2}"),
    ("SELECT substr_index('a.b.c', '.', 2)", "a.b"),
    ("SELECT to_local_time('2026-02-01 10:00'::timestamp)", "2026-02-01T10:00:00"),
    ("SELECT to_time('10:20:30')", "10:20:30"),
    ("SELECT to_timestamp_micros(1000000)", "1970-01-01T00:00:01"),
    ("SELECT to_timestamp_millis(1000)", "1970-01-01T00:00:01"),
    ("SELECT to_timestamp_nanos(1000000000)", "1970-01-01T00:00:01"),
    ("SELECT to_timestamp_seconds(1)", "1970-01-01T00:00:01"),
    ("SELECT to_unixtime('1970-01-01 00:00:05'::timestamp)", "5"),
    ("SELECT transaction_timestamp() = now()", "true"),
    ("SELECT uuid() IS NOT NULL", "true"),
    ("SELECT var(x) FROM (VALUES (1), (3)) t(x)", "2.0"),
];

#[test]
fn of_every_aggregate_that_takes_any_value_it_is_told_what_it_does_with_spans() {
    let is_planned = |row: &&Row| row.kind == Kind::Aggregate && !matches!(row.answer, Answer::Written);
    for row in all().filter(is_planned) {
        let taken = row.signatures.split(';').filter_map(|signature| signature.split('→').next());
        let takes_spans = taken.clone().any(|taken| taken.contains("any") || taken.contains("interval"));
        assert_eq!(row.spans.is_some(), takes_spans, "{}", row.name);
    }
}

#[test]
fn every_name_is_one_functions_and_what_a_row_names_is_there() {
    let mut names = BTreeSet::new();
    for row in all() {
        for name in row.also.iter().chain([&row.name]) {
            assert!(names.insert(*name), "{name} has two rows");
            assert_eq!(*name, name.to_ascii_lowercase());
        }
        let elements = match row.rows {
            Some(Rows::Elements(name) | Rows::Members(name)) => Some(name),
            _ => None,
        };
        for other in [row.calls, row.around, elements].into_iter().flatten() {
            let other =
                of(other).unwrap_or_else(|| panic!("{} rests on {other}, which has no row", row.name));
            assert!(!matches!(other.answer, Answer::Written | Answer::Absent(_)), "{}", row.name);
        }
        let rests = row.calls.is_some() || row.rule.is_some() || row.rows.is_some();
        let is_syntax = matches!(row.kind, Kind::Form | Kind::Operator);
        assert!(!matches!(row.answer, Answer::Written) || rests || is_syntax, "nobody answers {}", row.name);
    }
}

#[test]
fn what_is_registered_is_in_the_table_and_what_is_in_the_table_is_registered() {
    let registered = registered();
    let mut names = BTreeSet::new();
    for function in &registered.scalars {
        names.extend(function.aliases().iter().map(String::as_str).chain([function.name()]));
    }
    for function in &registered.aggregates {
        names.extend(function.aliases().iter().map(String::as_str).chain([function.name()]));
    }
    for function in &registered.windows {
        names.extend(function.aliases().iter().map(String::as_str).chain([function.name()]));
    }
    for name in &names {
        let row = of(name).unwrap_or_else(|| panic!("{name} is registered and has no row"));
        assert!(!matches!(row.answer, Answer::Absent(_)), "{name} is there");
    }
    for row in all().filter(|row| !matches!(row.answer, Answer::Written | Answer::Absent(_))) {
        let made = match row.answer {
            Answer::Own(make) => make().name().to_owned(),
            Answer::OwnAggregate(make) => make().name().to_owned(),
            _ => row.name.to_owned(),
        };
        assert_eq!(made, row.name);
        for name in row.also.iter().chain([&row.name]) {
            assert!(names.contains(name), "{name} is not registered");
        }
    }
}

/// A value of a type or of a role, as it is written.
fn sample(word: &str) -> &'static str {
    match word {
        "any" | "bigint" | "number" => "2",
        "numeric" => "2.5",
        "double precision" => "0.5::float8",
        "share" => "0.5",
        "text" => "'a'",
        "boolean" => "true",
        "timestamp" => "'2026-01-02 03:04:05'::timestamp",
        "timestamptz" => "'2026-01-02 03:04:05'::timestamptz",
        "date" => "'2026-01-02'::date",
        "time" => "make_time(1, 2, 3)",
        "interval" => "INTERVAL '1 day'",
        "json" => "'{\"a\": [1]}'::json",
        "bytea" => r"'\x00'::bytea",
        "any[]" => "ARRAY[1, 2]",
        "any[][]" => "ARRAY[ARRAY[1], ARRAY[2]]",
        "number[]" => "ARRAY[1.5::float8, 2]",
        "text[]" => "ARRAY['a', 'b']",
        "map" => "map(ARRAY['a'], ARRAY[1])",
        "record" => "named_struct('a', 1)",
        "encoding" => "'hex'",
        "field" => "'day'",
        "flags" => "'i'",
        "format" => "'YYYY-MM-DD'",
        "picture" => "'999'",
        "regexp" => "'a'",
        "zone" => "'UTC'",
        other => panic!("no type is called {other}"),
    }
}

/// Whether a value of this type is one that a signature calls so.
fn is_called(kind: &DataType, is_json: bool, word: &str) -> bool {
    match word {
        "any" => true,
        "bigint" => kind.is_integer(),
        "number" => kind.is_numeric(),
        "numeric" => matches!(kind, DataType::Decimal128(..)),
        "double precision" => kind.is_floating(),
        "text" => kind.is_string() && !is_json,
        "json" => kind.is_string() && is_json,
        "boolean" => *kind == DataType::Boolean,
        "timestamp" => matches!(kind, DataType::Timestamp(_, None)),
        "timestamptz" => matches!(kind, DataType::Timestamp(_, Some(_))),
        "date" => *kind == DataType::Date32,
        "time" => matches!(kind, DataType::Time32(_) | DataType::Time64(_)),
        "interval" => matches!(kind, DataType::Interval(_) | DataType::Duration(_)),
        "bytea" => kind.is_binary(),
        "map" => matches!(kind, DataType::Map(..)),
        "record" => matches!(kind, DataType::Struct(_)),
        list => match (list.strip_suffix("[]"), kind) {
            (
                Some(word),
                DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _),
            ) => is_called(item.data_type(), is_json, word),
            _ => false,
        },
    }
}

/// A call with values of the types that a signature names.
fn call_of(row: &Row, takes: &str) -> String {
    let samples = |words: &str| {
        let words =
            words.split(", ").map(|word| word.trim().trim_end_matches('…')).filter(|word| !word.is_empty());
        words.map(sample).collect::<Vec<_>>().join(", ")
    };
    match takes.split_once("WITHIN GROUP") {
        Some((share, of)) => {
            format!("{}({}) WITHIN GROUP (ORDER BY {})", row.name, samples(share), samples(of))
        }
        None if row.kind == Kind::Window => format!("{}({}) OVER (ORDER BY id)", row.name, samples(takes)),
        None => format!("{}({})", row.name, samples(takes)),
    }
}

#[tokio::test]
async fn signatures_are_what_calls_plan_to() {
    let world = World::new();
    let (mut wrong, mut planned) = (Vec::new(), 0);
    // A form is written in the manner of its own; what the rules write is called by its name like others.
    let called =
        all().filter(|row| !matches!(row.kind, Kind::Form | Kind::Operator) && row.name != "make_interval");
    for row in called.filter(|row| !matches!(row.answer, Answer::Absent(_))) {
        assert!(!row.signatures.is_empty(), "{} has no signature", row.name);
        for signature in row.signatures.split("; ") {
            let (takes, gives) = signature.split_once('→').expect("what it takes → what it gives");
            let (call, gives) = (call_of(row, takes), gives.trim());
            let (sql, gives) = match gives.strip_prefix("setof (key text, value ") {
                Some(value) => (format!("SELECT value FROM {call}"), value.trim_end_matches(')')),
                None => (format!("SELECT {call} FROM jobs"), gives.trim_start_matches("setof ")),
            };
            // Which columns it groups by is asked of grouping.
            let sql =
                if row.name == "grouping" { "SELECT grouping(id) FROM jobs GROUP BY id".into() } else { sql };
            let tables = BTreeSet::from(["jobs".to_owned()]);
            planned += 1;
            match admit(&world.state, &sql, &tables).await {
                Ok(admitted) => {
                    let kind = admitted.plan.schema().field(0).data_type().clone();
                    if !is_called(&kind, admitted.json[0], gives) {
                        wrong.push(format!("{sql} gives {kind}, not {gives}"));
                    }
                }
                Err(error) => wrong.push(format!("{sql}: {}", error.message)),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {planned} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(planned > 300, "{planned} signatures were planned");
}

/// Whether a statement calls a function, or has a form of its name.
fn has(statements: &str, row: &Row) -> bool {
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    statements.match_indices(row.name).any(|(at, name)| {
        let before = statements[..at].chars().next_back();
        let behind = statements[at + name.len()..].chars().next();
        let ends = match row.kind {
            Kind::Form => !behind.is_some_and(is_word),
            Kind::Operator => true,
            _ => behind == Some('('),
        };
        ends && (row.kind == Kind::Operator || !before.is_some_and(is_word))
    })
}

#[test]
fn every_function_has_a_statement_that_runs() {
    let mut asked = String::new();
    let mut is_refused = false;
    for line in ANALYST.lines() {
        match line.strip_prefix("--") {
            Some(note) => is_refused |= note.trim().starts_with("refused: "),
            None => {
                if !is_refused {
                    asked.push_str(&line.to_ascii_lowercase());
                }
                is_refused &= !line.trim_end().ends_with(';');
            }
        }
    }
    let examples: String = EXAMPLES.iter().map(|(sql, _)| sql.to_ascii_lowercase()).collect();
    let people = all().filter(|row| row.is_shown() || row.kind == Kind::Operator);
    let without: Vec<&str> =
        people.filter(|row| !has(&asked, row) && !has(&examples, row)).map(|row| row.name).collect();
    assert!(without.is_empty(), "no statement in analyst.sql or among the examples: {without:?}");
}

#[tokio::test]
async fn examples_give_what_stands_beside_them() {
    let world = World::new();
    let mut wrong = Vec::new();
    for (sql, expected) in EXAMPLES {
        let plan = admitted(&world.state, sql).await.plan;
        let physical = world.state.create_physical_plan(&plan).await;
        let physical = physical.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let batches = collect(physical, world.state.task_ctx()).await;
        let batches = batches.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let batch = batches.iter().find(|batch| batch.num_rows() > 0).expect("a row");
        let given = array_value_to_string(batch.column(0), 0).expect("a text");
        if given != *expected {
            wrong.push(format!("{sql}: {given}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn what_is_not_here_is_refused_with_what_to_write_instead() {
    let world = World::new();
    for row in all() {
        let Answer::Absent(instead) = row.answer else { continue };
        let sql = format!("SELECT \"{}\"(1)", row.name);
        let refused = admit(&world.state, &sql, &BTreeSet::new()).await.expect_err(row.name);
        assert!(refused.message.contains(instead), "{sql}: {}", refused.message);
    }
}

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/docs/sql.md")
}

const BEGIN: &str = "<!-- The lists below are made from the table of functions: UPDATE_GOLDEN=1 cargo test -p gleaner-sql -->\n";
const END: &str = "<!-- The end of the lists -->\n";

/// What the families that people call are about.
const HEADINGS: [&str; 7] = [
    "Texts",
    "Numbers",
    "Times",
    "JSON, as `json` and as `jsonb`, which is one type",
    "Lists, structures, and values of any type",
    "Aggregates",
    "Windows",
];

/// The functions by families, as the documentation lists them.
fn listed() -> String {
    let mut text = String::new();
    for (heading, family) in HEADINGS.into_iter().zip(FAMILIES) {
        let shown = || family.iter().filter(|row| row.is_shown());
        text.push_str(&format!("\n**{heading}.**"));
        for row in shown().filter(|row| !row.is_extra) {
            let forms = row.signatures.split("; ").map(|signature| match row.kind {
                Kind::Form => format!("`{signature}`"),
                _ => {
                    let (takes, gives) = signature.split_once('→').unwrap_or_default();
                    let call = match takes.trim().split_once("WITHIN GROUP") {
                        Some((share, of)) => {
                            format!("{}({}) within group ({})", row.name, share.trim(), of.trim())
                        }
                        None => format!("{}({})", row.name, takes.trim()),
                    };
                    format!("`{call} → {}`", gives.trim())
                }
            });
            text.push_str(&format!("\n{} ·", forms.collect::<Vec<_>>().join(" · ")));
        }
        text = text.trim_end_matches(" ·").to_owned();
        let extras: Vec<String> =
            shown().filter(|row| row.is_extra).map(|row| format!("`{}`", row.name)).collect();
        if !extras.is_empty() {
            text.push_str(&format!("\nThe engine's own beside them: {}.", extras.join(", ")));
        }
        text.push('\n');
    }
    text.push_str("\n**Not here.** ");
    let absent = all().filter_map(|row| match row.answer {
        Answer::Absent(instead) => Some(format!("`{}`: {instead}", row.name)),
        _ => None,
    });
    text.push_str(&absent.collect::<Vec<_>>().join("\n"));
    text + "\n\n"
}

#[test]
fn the_documentation_lists_the_functions() {
    let kept = std::fs::read_to_string(page()).expect("the page");
    let (before, rest) = kept.split_once(BEGIN).expect("where the lists begin");
    let (lists, behind) = rest.split_once(END).expect("where they end");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(page(), format!("{before}{BEGIN}{}{END}{behind}", listed())).expect("written");
    } else {
        assert!(lists == listed(), "run UPDATE_GOLDEN=1 cargo test -p gleaner-sql the_documentation_lists");
    }
}
