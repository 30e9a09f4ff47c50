//! `kill -9` while segments are written and merged.

use super::{Box_, OURS, table};
use serde_json::{Value, json};
use sql::{
    Cell, Changes, ColumnKind, QueryBackend, ResultFile, Snapshots, Statement, TableChange, TableSpec,
};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Not a test of its own: the process that the next test kills. Applies one change after the other, each of which
/// moves a unit between two tables, and says on its standard output how far it is.
#[test]
#[ignore = "run by kill_nine_at_any_moment_loses_and_doubles_nothing"]
fn crash_child() {
    let Ok(folder) = std::env::var("GLEANER_TEST_SNAPSHOTS") else { return };
    let snapshots = Snapshots::open(folder.into()).expect("open");
    let (a, b) = balances();
    let merging = Arc::new(snapshots);
    let snapshots = Arc::clone(&merging);
    // The kill may come while a merge is written, or put in place.
    std::thread::spawn(move || {
        loop {
            if !merging.merge_next().expect("merge") {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    for position in snapshots.position(OURS).expect("position") + 1.. {
        snapshots.apply(OURS, transfer(&a, &b, position)).expect("apply");
        println!("applied {position}");
    }
}

fn balances() -> (Arc<TableSpec>, Arc<TableSpec>) {
    (table("a", &[("n", ColumnKind::Int64)]), table("b", &[("n", ColumnKind::Int64)]))
}

/// Key k of both tables always sums to the position at which it was last written; some keys are deleted from both.
fn transfer(a: &Arc<TableSpec>, b: &Arc<TableSpec>, position: u64) -> Changes {
    let key = |n: u64| u128::from(n % 40).to_be_bytes();
    let mut changes = Vec::new();
    for n in position..position + 5 {
        let gone = n % 7 == 0;
        for (table, value) in [(a, n as i64), (b, position as i64 - n as i64)] {
            let rows = if gone { Vec::new() } else { vec![vec![Cell::Int(value)]] };
            changes.push(TableChange { table: Arc::clone(table), key: key(n), rows });
        }
    }
    Changes { position, committed_at_ms: position as i64, changes }
}

#[tokio::test]
async fn kill_nine_at_any_moment_loses_and_doubles_nothing() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let it = Box_::new(|_| {});
    let folder = it.folder.path().join("crash");
    let child = format!("{}::crash_child", module_path!().split_once("::").map_or("", |(_, path)| path));
    let (a, b) = balances();
    let mut pause = 7_u64;
    let mut reached = 0;
    for round in 0..30 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--ignored", "--nocapture", &child])
            .env("GLEANER_TEST_SNAPSHOTS", &folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (begun, begins) = std::sync::mpsc::channel();
        let said = std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            let applied = lines.filter_map(|line| line.strip_prefix("applied ")?.parse::<u64>().ok());
            // Nobody listens any more after the first, and that is well.
            applied.inspect(|position| begun.send(*position).unwrap_or_default()).last()
        });
        begins.recv_timeout(Duration::from_secs(60)).expect("it applies something");
        pause = pause * 31 % 97;
        std::thread::sleep(Duration::from_millis(2 * pause));
        child.kill().expect("it dies");
        child.wait().expect("it is reaped");
        let said = said.join().expect("a reader").unwrap_or(0).max(reached);
        let snapshots = Snapshots::open(folder.clone()).expect("open");
        let position = snapshots.position(OURS).expect("the manifest is whole");
        assert!(position >= said, "round {round}: {said} was reported, {position} is there");
        reached = position;
        // What is there equals what applying everything up to the position gives.
        let mut model = std::collections::BTreeMap::new();
        for p in 1..=position {
            for n in p..p + 5 {
                model.insert(n % 40, (n % 7 != 0).then_some((n as i64, p as i64 - n as i64)));
            }
        }
        let expected = model.values().flatten().fold((0, 0, 0), |(c, x, y), (a, b)| (c + 1, x + a, y + b));
        let statement = Statement {
            pin: snapshots.pin(OURS, vec![Arc::clone(&a), Arc::clone(&b)]).expect("pin"),
            sql: "SELECT (SELECT count(*) FROM a) AS c, (SELECT count(*) FROM b) AS d, \
                  coalesce((SELECT sum(n) FROM a), 0) AS x, coalesce((SELECT sum(n) FROM b), 0) AS y"
                .to_owned(),
            query_id: Uuid::now_v7(),
        };
        let path = it.workers.result_path(OURS, statement.query_id);
        let (_, running) = it.workers.start(statement).await.expect("it starts");
        running.wait().await.expect("it runs");
        let row = ResultFile::open(&path).expect("open").page(0, 1).expect("a page").remove(0);
        let (count, x, y) = expected;
        assert_eq!(Value::Object(row), json!({"c": count, "d": count, "x": x, "y": y}), "at {position}");
    }
    println!("position {reached} after 30 kills");
    assert!(reached >= 30);
}
