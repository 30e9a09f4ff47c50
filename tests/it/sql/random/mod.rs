//! Random statements of the console and of PostgreSQL over the same rows.
//!
//! A world is a handful of the console's tables with rows of its own, full of what goes wrong: NULLs, NaN, -0.0, texts with
//! line ends, times in a clock's gap and beyond 2262, sides of a join that are now the larger and now the smaller. Statements
//! over it are made by [`generate`], asked of the engine (in its worker processes) and of a PostgreSQL that the test starts, and
//! their rows compared by type, in order where the statement orders all of it and else as a multiset.
//!
//! A statement that the gate refuses by name counts as refused, one that fails as it runs is a fault, and so is any difference.
//! What is different (data/docs/sql.md, "What differs") is not generated. The worlds are those of the seeds 1 to [`WORLDS`];
//! `GLEANER_RANDOM_SEEDS=100..200` runs others, with `GLEANER_RANDOM_STATEMENTS` a world. A failure names its seed. With
//! `GLEANER_RANDOM_FILE=f` the statements of a file (one a line) run over the world of the first seed, or of their own where they
//! begin with it as a failure's line does (`seed 7: SELECT …`); with `ordered ` in front rows are compared in order.

mod expressions;
mod generate;
mod subqueries;
mod windowed;
mod worlds;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sql::{ErrorCode, QueryBackend, ResultFile, Statement};
use uuid::Uuid;

use self::generate::{Asked, Generator};
use self::worlds::World;
use super::Box_;
use crate::bi::differential::as_theirs;
use crate::harness::postgres::{Connection, Postgres, Table};

/// Worlds of an ordinary run.
const WORLDS: u64 = 3;
/// Statements of each.
const STATEMENTS: usize = 100;
/// More faults than these are not shown.
const SHOWN_MAX: usize = 12;
/// Rows of each side that are shown from the first on that differs.
const SHOWN_ROWS_MAX: usize = 4;
/// Rows that are compared; a statement with more is not.
const ROWS_MAX: u64 = 20_000;

/// splitmix64 (Steele et al. 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(super) fn one_of(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What became of the statements.
#[derive(Default)]
struct Tally {
    asked: usize,
    alike: usize,
    /// How often, and the first statement.
    refused: BTreeMap<String, (usize, String)>,
    /// PostgreSQL does not answer them either: divided by zero, out of range.
    void: usize,
    /// They have more rows than are compared.
    large: usize,
    faults: Vec<String>,
}

impl Tally {
    fn show(&self, what: &str) {
        let refused: usize = self.refused.values().map(|(count, _)| count).sum();
        println!(
            "{what}: {} asked, {} alike, {refused} refused by name, {} PostgreSQL refuses, {} too large, {} faults",
            self.asked,
            self.alike,
            self.void,
            self.large,
            self.faults.len()
        );
    }
}

fn seeds() -> Range<u64> {
    let given = std::env::var("GLEANER_RANDOM_SEEDS").ok();
    let range = given.as_deref().and_then(|range| range.split_once(".."));
    match range.map(|(first, last)| (first.parse(), last.parse())) {
        Some((Ok(first), Ok(last))) => first..last,
        _ => 1..WORLDS + 1,
    }
}

fn per_world() -> usize {
    let given = std::env::var("GLEANER_RANDOM_STATEMENTS").ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(STATEMENTS)
}

/// What the engine gives: rows in order, or why not, and whether it was refused by name.
async fn ours(it: &Box_, world: &World, sql: &str) -> Result<Vec<Map<String, Value>>, (bool, String)> {
    let pin = it.snapshots.pin(world.organization, worlds::tables()).expect("pin");
    let statement = Statement { pin, sql: sql.to_owned(), query_id: Uuid::now_v7() };
    let path = it.workers.result_path(world.organization, statement.query_id);
    let error = match it.workers.start(statement).await {
        Ok((_, running)) => match running.wait().await {
            Ok(_) => {
                let rows = ResultFile::open(&path).and_then(|result| result.page(0, ROWS_MAX));
                let _ = std::fs::remove_file(&path);
                return Ok(rows.expect("a page"));
            }
            Err(error) => error,
        },
        Err(error) => error,
    };
    let by_name = matches!(error.code, ErrorCode::InvalidSql | ErrorCode::SyntaxError)
        && !GENERAL.iter().any(|general| error.message.contains(general));
    Err((by_name, format!("{:?}: {} ({})", error.code, error.message, error.detail.unwrap_or_default())))
}

/// Sentences that do not say what is wrong.
const GENERAL: &[&str] = &[
    "cannot be planned",
    "could not be run",
    "could not be computed",
    "uses a form that is not available here",
];

fn is_close(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(a), Value::String(b)) => match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a == b || (a - b).abs() <= 1e-10 * a.abs().max(b.abs()).max(1e-3),
            _ => false,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || is_close(a, b))
        }
        _ => false,
    }
}

/// None when the two are alike, else how they differ.
fn difference(asked: &Asked, ours: &[Map<String, Value>], theirs: &Table) -> Option<String> {
    let typed = |row: &Map<String, Value>| {
        let cells = row.values().zip(&theirs.columns);
        cells.map(|(value, (_, kind))| as_theirs(value, *kind)).collect::<Vec<Value>>()
    };
    let mut left: Vec<Vec<Value>> = ours.iter().map(typed).collect();
    let mut right = theirs.values();
    if !asked.is_ordered {
        left.sort_by_cached_key(|row| json!(row).to_string());
        right.sort_by_cached_key(|row| json!(row).to_string());
    }
    let same = |a: &Vec<Value>, b: &Vec<Value>| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || is_close(a, b))
    };
    let first = left.iter().zip(&right).position(|(a, b)| !same(a, b));
    if first.is_none() && left.len() == right.len() {
        return None;
    }
    let at = first.unwrap_or(left.len().min(right.len()));
    let show = |rows: &[Vec<Value>]| {
        let shown = rows.iter().skip(at).take(SHOWN_ROWS_MAX).map(|row| json!(row).to_string());
        Some(shown.collect::<Vec<_>>().join(" ")).filter(|shown| !shown.is_empty())
    };
    Some(format!(
        "rows {:?}, row {at}:\n  ours   {}\n  theirs {}",
        (left.len(), right.len()),
        show(&left).unwrap_or_default(),
        show(&right).unwrap_or_default()
    ))
}

async fn ask(it: &Box_, world: &World, postgres: &mut Connection, asked: &Asked, tally: &mut Tally) {
    tally.asked += 1;
    let theirs = postgres.query(&asked.sql);
    let ours = ours(it, world, &asked.sql).await;
    let fault = match (ours, theirs) {
        (_, Err(error)) if !error.starts_with("42") && !error.starts_with("0A") => {
            tally.void += 1;
            return;
        }
        // A statement that PostgreSQL does not understand is none that an analyst asks: the generator is to be mended.
        (_, Err(error)) => format!("PostgreSQL: {error}"),
        (Ok(_), Ok(theirs)) if theirs.rows.len() as u64 > ROWS_MAX => {
            tally.large += 1;
            return;
        }
        (Ok(ours), Ok(theirs)) => match difference(asked, &ours, &theirs) {
            None => {
                tally.alike += 1;
                return;
            }
            Some(difference) => difference,
        },
        (Err((true, text)), Ok(_)) => {
            let reason = text.split(" (").next().unwrap_or_default().to_owned();
            let entry = tally.refused.entry(reason).or_insert_with(|| (0, asked.sql.clone()));
            entry.0 += 1;
            return;
        }
        (Err((false, text)), Ok(_)) => format!("we: {text}"),
    };
    let fault = format!("seed {}: {}\n  {fault}", world.seed, asked.sql);
    println!("{fault}");
    tally.faults.push(fault);
}

fn box_of_random() -> Box_ {
    Box_::new(|settings| {
        if let Ok(program) = std::env::var("GLEANER_RANDOM_PROGRAM") {
            settings.exe = program.into();
        }
        settings.query_timeout = Duration::from_secs(240);
        settings.memory_bytes = 256 << 20;
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_statements_are_answered_as_postgresql_answers_them() {
    let Some(server) = Postgres::start() else { return };
    let it = box_of_random();
    let mut postgres = server.connect();
    let mut all = Tally::default();
    if let Ok(file) = std::env::var("GLEANER_RANDOM_FILE") {
        let mut world = World::new(seeds().start, &it, &mut postgres);
        for line in std::fs::read_to_string(file).expect("a file").lines().filter(|line| !line.is_empty()) {
            let (is_ordered, line) = line.strip_prefix("ordered ").map_or((false, line), |line| (true, line));
            let of_world = line.strip_prefix("seed ").and_then(|line| line.split_once(": "));
            let (seed, sql) = of_world.unwrap_or(("", line));
            if let Some(seed) = seed.parse().ok().filter(|seed| *seed != world.seed) {
                world.forget(&it);
                world = World::new(seed, &it, &mut postgres);
            }
            let asked = Asked { sql: sql.trim_end_matches(';').to_owned(), is_ordered };
            ask(&it, &world, &mut postgres, &asked, &mut all).await;
        }
    } else {
        for seed in seeds() {
            let world = World::new(seed, &it, &mut postgres);
            let mut generator = Generator::new(seed);
            for _ in 0..per_world() {
                let asked = generator.statement();
                ask(&it, &world, &mut postgres, &asked, &mut all).await;
            }
            world.forget(&it);
            println!("seed {seed}: {} asked, {} alike, {} faults", all.asked, all.alike, all.faults.len());
            if all.faults.len() > 20 * SHOWN_MAX {
                break;
            }
        }
    }
    all.show(&format!("seeds {:?}", seeds()));
    for (reason, (count, first)) in &all.refused {
        println!("refused {count} times: {reason}\n  {first}");
    }
    let shown = std::env::var("GLEANER_RANDOM_SHOWN").ok().and_then(|count| count.parse().ok());
    let shown = all.faults.iter().take(shown.unwrap_or(SHOWN_MAX)).cloned().collect::<Vec<_>>().join("\n");
    assert!(all.faults.is_empty(), "{} faults of {}:\n{shown}", all.faults.len(), all.asked);
    assert!(all.alike * 2 > all.asked, "half of what is asked is answered");
}
