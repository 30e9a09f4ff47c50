//! Snapshots while rows arrive, change and go: what must agree inside one statement always does, and what a statement
//! has given never changes.

use super::{Box_, OURS, table};
use serde_json::{Map, Value, json};
use sql::{Cell, Changes, ColumnKind, QueryBackend, ResultFile, Statement, TableChange, TableSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// What the two halves of a key always sum to.
const WHOLE: i64 = 1_000;
/// Keys that are written at once, twenty times a second: about a thousand rows in each of two tables.
const KEYS_AT_ONCE: u64 = 50;
const PAUSE: Duration = Duration::from_millis(50);
/// Keys there are; each is written again and again, and every third time it goes.
const KEYS: u64 = 5_000;
const STATEMENTS: usize = 40;

fn halves() -> (Arc<TableSpec>, Arc<TableSpec>) {
    let columns = [("k", ColumnKind::Int64), ("n", ColumnKind::Int64), ("name", ColumnKind::Text)];
    (table("ours_half", &columns), table("other_half", &columns))
}

/// The `step`-th change: some keys get new halves in both tables, some go from both.
fn step(a: &Arc<TableSpec>, b: &Arc<TableSpec>, step: u64) -> Changes {
    let mut changes = Vec::new();
    for place in 0..KEYS_AT_ONCE {
        let k = (step * 7_919 + place * 101) % KEYS;
        let gone = (step + place).is_multiple_of(3);
        let half = ((step * 31 + k) % 997) as i64;
        for (table, n) in [(a, half), (b, WHOLE - half)] {
            let row = vec![Cell::Int(k as i64), Cell::Int(n), Cell::from(format!("key {}", k % 20))];
            let rows = if gone { Vec::new() } else { vec![row] };
            changes.push(TableChange { table: Arc::clone(table), key: u128::from(k).to_be_bytes(), rows });
        }
    }
    Changes { position: 1_000 + step, committed_at_ms: step as i64, changes }
}

async fn run(it: &Box_, a: &Arc<TableSpec>, b: &Arc<TableSpec>, sql: &str) -> ResultFile {
    let statement = Statement {
        pin: it.snapshots.pin(OURS, vec![Arc::clone(a), Arc::clone(b)]).expect("pin"),
        sql: sql.to_owned(),
        query_id: Uuid::now_v7(),
    };
    let path = it.workers.result_path(OURS, statement.query_id);
    let (_, running) = it.workers.start(statement).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    running.wait().await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    ResultFile::open(&path).expect("open")
}

fn pages(result: &ResultFile) -> Vec<Map<String, Value>> {
    (0..result.row_count().div_ceil(200)).flat_map(|page| result.page(page, 200).expect("a page")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_agree_and_pages_stay_while_rows_come_change_and_go() {
    let it = Box_::new(|_| {});
    let (a, b) = halves();
    it.apply(OURS, 1_000, step(&a, &b, 0).changes);
    let (stop, steps, merges) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let first = run(&it, &a, &b, "SELECT k, n, name FROM ours_half ORDER BY k").await;
    let first_pages = pages(&first);
    let mut differences: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let next = steps.fetch_add(1, Ordering::Relaxed) + 1;
                it.snapshots.apply(OURS, step(&a, &b, next)).expect("apply");
                std::thread::sleep(PAUSE);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                match it.snapshots.merge_next().expect("merge") {
                    true => drop(merges.fetch_add(1, Ordering::Relaxed)),
                    false => std::thread::sleep(PAUSE),
                }
            }
        });
        let statements = async {
            for _ in 0..STATEMENTS {
                let sums = "SELECT (SELECT count(*) FROM ours_half) AS a, (SELECT count(*) FROM other_half) AS b, \
                            (SELECT sum(n) FROM ours_half) + (SELECT sum(n) FROM other_half) AS sum, \
                            (SELECT count(*) FROM ours_half x JOIN other_half y ON x.k = y.k AND x.n + y.n = 1000) AS whole";
                let row = run(&it, &a, &b, sums).await.page(0, 1).expect("a page").remove(0);
                let count = row["a"].as_i64().unwrap_or(-1);
                let expected = json!({ "a": count, "b": count, "sum": count * WHOLE, "whole": count });
                if Value::Object(row.clone()) != expected {
                    differences.push(format!("{row:?}"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(statements));
        stop.store(true, Ordering::Relaxed);
    });
    assert!(differences.is_empty(), "{differences:#?}");
    let (steps, merges) = (steps.into_inner(), merges.into_inner());
    println!(
        "{steps} changes of {KEYS_AT_ONCE} keys in two tables, {merges} merges, {STATEMENTS} statements"
    );
    assert!(steps > 10 && merges > 1, "rows came and were merged meanwhile: {steps}, {merges}");
    assert_eq!(pages(&first), first_pages, "pages of a finished statement");
    it.assert_clean().await;
}
