//! Tables and rows of the random statements, the same in both.

use std::sync::Arc;

use sql::{Cell, Changes, ColumnKind, TableChange, TableSpec};
use uuid::Uuid;

use super::super::{Box_, NEW_YEAR_MS, table};
use super::Random;
use crate::harness::postgres::Connection;

use ColumnKind::{Bool, Float64, Int64, Json, Text, Timestamp};

/// The tables' names and columns. Every one has a `url`, some an `id` of the same name, so that names meet in joins.
pub(super) const TABLES: &[(&str, &[(&str, ColumnKind)])] = &[
    (
        "urls",
        &[
            ("id", Int64),
            ("url", Text),
            ("domain", Text),
            ("priority", Int64),
            ("paused", Bool),
            ("created_at", Timestamp),
            ("last_scraped_at", Timestamp),
        ],
    ),
    (
        "jobs",
        &[
            ("id", Int64),
            ("url_id", Int64),
            ("url", Text),
            ("status", Text),
            ("priority", Int64),
            ("credits_charged", Float64),
            ("created_at", Timestamp),
            ("finished_at", Timestamp),
        ],
    ),
    (
        "readings",
        &[
            ("id", Int64),
            ("job_id", Int64),
            ("url", Text),
            ("domain", Text),
            ("price", Float64),
            ("title", Text),
            ("scraped_at", Timestamp),
            ("values", Json),
        ],
    ),
    (
        "reading_values",
        &[
            ("id", Int64),
            ("reading_id", Int64),
            ("url", Text),
            ("attribute", Text),
            ("value_number", Float64),
            ("value_text", Text),
            ("value_bool", Bool),
        ],
    ),
    ("url_tags", &[("id", Int64), ("url_id", Int64), ("url", Text), ("tag", Text)]),
];

pub(super) fn tables() -> Vec<Arc<TableSpec>> {
    TABLES.iter().map(|(name, columns)| table(name, columns)).collect()
}

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) organization: Uuid,
}

impl World {
    /// Fills the tables of both.
    pub(super) fn new(seed: u64, it: &Box_, postgres: &mut Connection) -> World {
        let mut random = Random::new(seed ^ 0x5eed);
        let world = World { seed, organization: Uuid::from_u128(0x1000 + u128::from(seed)) };
        let mut changes = Vec::new();
        for (spec, (name, columns)) in tables().into_iter().zip(TABLES) {
            let rows = rows(&mut random, columns);
            let kinds = columns.iter().map(|(name, kind)| format!("\"{name}\" {}", kind_name(*kind)));
            let kinds: Vec<String> = kinds.collect();
            let made = format!("DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({})", kinds.join(", "));
            postgres.query(&made).expect("a table");
            if !rows.is_empty() {
                let texts: Vec<String> = rows.iter().map(|row| literal_row(row)).collect();
                postgres.query(&format!("INSERT INTO {name} VALUES {}", texts.join(", "))).expect("rows");
            }
            for (n, row) in rows.into_iter().enumerate() {
                let key = (n as u128).to_be_bytes();
                changes.push(TableChange { table: Arc::clone(&spec), key, rows: vec![row] });
            }
        }
        postgres.query("ANALYZE").expect("statistics");
        let changes = Changes { position: 1, committed_at_ms: NEW_YEAR_MS, changes };
        it.snapshots.apply(world.organization, changes).expect("apply");
        world
    }

    /// Removes what its statements left.
    pub(super) fn forget(&self, it: &Box_) {
        let folder = it.folder.path().join("results").join(self.organization.to_string());
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn kind_name(kind: ColumnKind) -> &'static str {
    kind.type_name()
}

const TEXTS: &[&str] = &[
    "",
    "a",
    "A",
    "b",
    "ab",
    "abc",
    "a b",
    "Zebra",
    "x%y",
    "x_y",
    "it's",
    "é",
    "ü ß",
    "line\nend",
    "tab\tbed",
    "a,b,c",
    "10",
    "-3",
    "2.5",
    "\\",
    "a\\b",
    "(x)",
    "[y]",
    "a.c",
    "日本",
    "null",
    "NULL",
    "\"q\"",
    "a  b ",
    "ABC",
];
const DOMAINS: &[&str] = &["a.example", "b.example", "shop.example", "Z.example", "ä.example"];
const STATUSES: &[&str] = &["succeeded", "failed", "waiting", "canceled"];
const TAGS: &[&str] = &["even", "odd", "six", "new", "ü"];
const ATTRIBUTES: &[&str] = &["name", "price", "stock", "even", "maker"];
/// All of them binary fractions, so that a sum is the same in any order, to the last digit.
const FLOATS: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    3.5,
    -2.5,
    0.125,
    0.375,
    100.0,
    1e6,
    0.0009765625,
    12.25,
    99.75,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];
/// In Berlin the clocks go on at the first and back at the second; then times beyond 1677 to 2262, and ordinary ones.
const TIMES: &[i64] = &[
    1_774_751_400_000,
    1_792_895_400_000,
    1_774_747_800_000,
    1_792_890_000_000,
    1_767_225_599_999,
    1_767_225_600_000,
    -62_135_596_800_000,
    253_402_300_799_000,
    253_370_764_800_000,
    -12_219_292_800_000,
    0,
    -1,
    951_782_400_000,
    1_709_164_800_000,
    1_798_761_599_500,
];
const VALUES: &[&str] = &[
    r#"{"name": "a", "price": 1.5, "stock": 3}"#,
    r#"{"name": "b", "price": 20, "even": true, "tags": ["x", "y"]}"#,
    r#"{"name": null, "price": 1.50, "of": {"a": [1, 2, {"b": "c"}]}}"#,
    r#"{}"#,
    r#"{"price": 0.1, "name": "it's \"q\" é", "stock": null}"#,
    r#"{"name": "a\nb", "price": 1e3, "stock": -7}"#,
    r#"{"price": 12345678901234567890, "name": ""}"#,
];

fn rows(random: &mut Random, columns: &[(&str, ColumnKind)]) -> Vec<Vec<Cell>> {
    // Sizes that differ much, so that every side of a join is sometimes the larger one.
    let count = match random.below(6) {
        0 => random.below(3),
        1 | 2 => 3 + random.below(12),
        3 | 4 => 15 + random.below(40),
        _ => 60 + random.below(90),
    };
    let nulls = 3 + random.below(12);
    let urls = 2 + random.below(40);
    (0..count)
        .map(|n| columns.iter().map(|(name, kind)| cell(random, name, *kind, n, nulls, urls)).collect())
        .collect()
}

fn cell(random: &mut Random, name: &str, kind: ColumnKind, n: usize, nulls: usize, urls: usize) -> Cell {
    if name == "id" {
        return Cell::Int(n as i64 + 1);
    }
    if random.one_of(nulls) {
        return Cell::Null;
    }
    match (name, kind) {
        ("url", _) => Cell::from(format!("https://shop.example/{}", random.below(urls))),
        ("domain", _) => Cell::from(random.pick(DOMAINS)),
        ("status", _) => Cell::from(random.pick(STATUSES)),
        ("tag", _) => Cell::from(random.pick(TAGS)),
        ("attribute", _) => Cell::from(random.pick(ATTRIBUTES)),
        ("priority", _) => Cell::Int(random.below(7) as i64 - 2),
        (_, Int64) => Cell::Int(random.below(40) as i64 + 1),
        (_, Float64) if random.one_of(3) => Cell::Float(random.pick(FLOATS)),
        (_, Float64) => Cell::Float(random.below(400) as f64 / 4.0 - 20.0),
        (_, Bool) => Cell::Bool(random.one_of(2)),
        (_, Timestamp) if random.one_of(4) => Cell::Time(random.pick(TIMES)),
        (_, Timestamp) => Cell::Time(NEW_YEAR_MS + random.below(400 * 24 * 4) as i64 * 900_000),
        (_, Json) => Cell::from(random.pick(VALUES)),
        (_, Text) => Cell::from(random.pick(TEXTS)),
    }
}

fn literal_row(row: &[Cell]) -> String {
    let cells: Vec<String> = row.iter().map(literal).collect();
    format!("({})", cells.join(", "))
}

fn literal(cell: &Cell) -> String {
    match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Bool(value) => value.to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::Float(value) if value.is_nan() => "'NaN'".to_owned(),
        Cell::Float(value) if value.is_infinite() => {
            if *value > 0.0 { "'Infinity'" } else { "'-Infinity'" }.to_owned()
        }
        Cell::Float(value) => format!("'{value:e}'"),
        Cell::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Cell::Time(ms) => {
            format!(
                "TIMESTAMP '1970-01-01' + INTERVAL '1 second' * {} + INTERVAL '{} ms'",
                ms.div_euclid(1000),
                ms.rem_euclid(1000)
            )
        }
    }
}
