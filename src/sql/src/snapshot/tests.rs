use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, Int64Array, StringArray, TimestampMillisecondArray};
use uuid::Uuid;

use super::*;
use crate::catalog::{ColumnKind, ColumnSpec, NewestOf, TableName};
use crate::cells::Cell;

const ORG: Uuid = Uuid::from_u128(7);

fn table(name: &str, version: u64, columns: &[&str]) -> Arc<TableSpec> {
    Arc::new(TableSpec {
        name: TableName::parse(name).expect("a name"),
        description: String::new(),
        columns: columns.iter().map(|column| ColumnSpec::new(*column, ColumnKind::Int64)).collect(),
        catalog_version: version,
        newest: None,
        agent_rows: None,
        joined: None,
    })
}

fn key(n: u64) -> Key {
    u128::from(n).to_be_bytes()
}

fn change(table: &Arc<TableSpec>, n: u64, values: &[i64]) -> TableChange {
    let rows = values.iter().map(|value| vec![Cell::Int(*value); table.columns.len()]).collect();
    TableChange { table: Arc::clone(table), key: key(n), rows }
}

fn changes(position: u64, changes: Vec<TableChange>) -> Changes {
    Changes { position, committed_at_ms: position as i64, changes }
}

/// Every live row, read from the files: key → the values of `column`, in stored order.
fn rows(snapshot: &Snapshot, table: &str, column: &str) -> BTreeMap<u64, Vec<Option<i64>>> {
    let mut found: BTreeMap<u64, Vec<Option<i64>>> = BTreeMap::new();
    for entry in snapshot.tables.get(table).into_iter().flatten() {
        let segment = entry.open().expect("open");
        let deleted = entry.deleted_bits().expect("bits");
        let column = segment.schema().index_of(column).ok();
        let mut last = [0; 16];
        for batch in 0..segment.batches() {
            let (first, count) = segment.batch_range(batch);
            let values = column.map(|column| segment.read(batch, &[column]).expect("read").remove(0));
            for row in 0..count {
                let own = segment.key(first + row).expect("key");
                assert!(last <= own && (entry.min_key..=entry.max_key).contains(&own), "keys are sorted");
                last = own;
                if deleted[(first + row) / 8] >> ((first + row) % 8) & 1 == 1 {
                    continue;
                }
                let values = values.as_ref().and_then(|values| values.as_any().downcast_ref::<Int64Array>());
                let value = values.filter(|values| values.is_valid(row)).map(|values| values.value(row));
                found.entry(u128::from_be_bytes(own) as u64).or_default().push(value);
            }
        }
    }
    found
}

fn current(snapshots: &Snapshots) -> Arc<Snapshot> {
    snapshots.pin(ORG, Vec::new()).expect("pin").snapshot
}

fn files(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder.join(ORG.to_string())).expect("a folder").count()
}

#[test]
fn rows_are_replaced_deleted_and_survive_reopening() {
    let folder = tempfile::tempdir().expect("a folder");
    let t = table("t", 1, &["a"]);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    snapshots.apply(ORG, changes(1, vec![change(&t, 1, &[10]), change(&t, 2, &[20, 21])])).expect("apply");
    snapshots
        .apply(ORG, changes(2, vec![change(&t, 2, &[99]), change(&t, 2, &[22, 23, 24]), change(&t, 1, &[])]))
        .expect("apply");
    let expected = BTreeMap::from([(2, vec![Some(22), Some(23), Some(24)])]);
    assert_eq!(rows(&current(&snapshots), "t", "a"), expected);
    let status = snapshots.tables(ORG, &[Arc::clone(&t), table("empty", 1, &["x"])]).expect("tables");
    assert_eq!(status.iter().map(|s| s.row_count).collect::<Vec<_>>(), [3, 0]);
    drop(snapshots);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open again");
    assert_eq!(snapshots.position(ORG).expect("position"), 2);
    assert_eq!(rows(&current(&snapshots), "t", "a"), expected);
}

#[test]
fn a_replay_is_skipped_and_a_bad_row_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let t = table("t", 1, &["a"]);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    let first = changes(5, vec![change(&t, 1, &[1])]);
    assert_eq!(snapshots.apply(ORG, first.clone()).expect("apply"), Applied::Published);
    assert_eq!(snapshots.apply(ORG, first).expect("apply"), Applied::Skipped);
    let mut bad = change(&t, 2, &[2]);
    bad.rows[0][0] = Cell::from("text");
    let refused = snapshots.apply(ORG, changes(6, vec![change(&t, 1, &[7]), bad]));
    assert!(matches!(refused, Err(SnapshotError::Shape { .. })));
    assert_eq!(rows(&current(&snapshots), "t", "a"), BTreeMap::from([(1, vec![Some(1)])]));
    assert_eq!((snapshots.position(ORG).expect("position"), files(folder.path())), (5, 2));
}

#[test]
fn many_changes_merge_and_agree_with_a_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let t = table("t", 1, &["a"]);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    let mut model: BTreeMap<u64, Vec<Option<i64>>> = BTreeMap::new();
    let mut random = 12345_u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for position in 1..=150 {
        let mut batch = Vec::new();
        for _ in 0..20 {
            let n = next(400);
            let values: Vec<i64> = (0..next(4)).map(|_| next(1000) as i64).collect();
            batch.push(change(&t, n, &values));
            if values.is_empty() {
                model.remove(&n);
            } else {
                model.insert(n, values.into_iter().map(Some).collect());
            }
        }
        snapshots.apply(ORG, changes(position, batch)).expect("apply");
        // In the first half nobody merges, and the feed does so itself when it must.
        while position > 75 && snapshots.merge_next().expect("merge") {}
        let segments = current(&snapshots).tables["t"].len();
        assert!(segments < if position > 75 { 16 } else { 80 }, "{segments} segments at {position}");
        if position % 10 == 0 {
            assert_eq!(rows(&current(&snapshots), "t", "a"), model, "at {position}");
        }
    }
    assert!(files(folder.path()) < 40, "old files are gone");
    snapshots.compact(ORG).expect("compact");
    assert!(current(&snapshots).tables["t"].iter().all(|entry| entry.deletions.is_none()));
    assert_eq!(rows(&current(&snapshots), "t", "a"), model);
}

#[test]
fn a_pin_keeps_its_files_and_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let t = table("t", 1, &["a"]);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    snapshots.apply(ORG, changes(1, vec![change(&t, 1, &[1]), change(&t, 2, &[2])])).expect("apply");
    let pin = snapshots.pin(ORG, vec![Arc::clone(&t)]).expect("pin");
    for position in 2..60 {
        snapshots
            .apply(ORG, changes(position, vec![change(&t, 1, &[position as i64]), change(&t, 2, &[])]))
            .expect("apply");
    }
    assert_eq!(rows(&pin.snapshot, "t", "a"), BTreeMap::from([(1, vec![Some(1)]), (2, vec![Some(2)])]));
    let held = files(folder.path());
    drop(pin);
    assert!(files(folder.path()) < held, "the pin's files went with it");
    assert_eq!(rows(&current(&snapshots), "t", "a")[&1], vec![Some(59)]);
}

#[test]
fn a_new_column_reads_as_null_in_old_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (table("t", 1, &["a"]), table("t", 2, &["a", "b"]));
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    for position in 1..=7 {
        snapshots.apply(ORG, changes(position, vec![change(&old, position, &[1])])).expect("apply");
    }
    snapshots.apply(ORG, changes(8, vec![change(&new, 8, &[5])])).expect("apply");
    assert!(snapshots.merge_next().expect("merge") && !snapshots.merge_next().expect("merge"));
    let snapshot = current(&snapshots);
    assert_eq!(snapshot.tables["t"].len(), 1, "they were merged");
    let found = rows(&snapshot, "t", "b");
    assert_eq!((found[&1].as_slice(), found[&8].as_slice()), ([None].as_slice(), [Some(5)].as_slice()));
}

#[test]
fn what_changes_during_a_merge_is_not_undone_by_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let t = table("t", 1, &["a"]);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    for position in 1..=8 {
        let rows = [change(&t, position, &[1, 2]), change(&t, position + 100, &[3])];
        snapshots.apply(ORG, changes(position, rows.into())).expect("apply");
    }
    let state = snapshots.organization(ORG).expect("it is there");
    let (of, inputs) = merge::next_due(&current(&snapshots)).expect("a merge is due");
    let merged = merge::merge(&state.names(), &inputs).expect("merge");
    // Before the merge is in place one row is replaced, another goes.
    let meanwhile = vec![change(&t, 3, &[9]), change(&t, 104, &[])];
    snapshots.apply(ORG, changes(9, meanwhile)).expect("apply");
    let expected = rows(&current(&snapshots), "t", "a");
    let old = current(&snapshots);
    let new = merge::put_in_place(&state.names(), &old, &of, &inputs, merged).expect("in place");
    state.replace(&old, new.expect("its inputs are there")).expect("publish");
    drop(old);
    assert_eq!(rows(&current(&snapshots), "t", "a"), expected);
    assert_eq!((expected[&3].as_slice(), expected.contains_key(&104)), ([Some(9)].as_slice(), false));
    // A merge whose inputs are gone is thrown away.
    let late = merge::merge(&state.names(), &inputs).expect("merge");
    let in_place = merge::put_in_place(&state.names(), &current(&snapshots), &of, &inputs, late);
    assert!(in_place.expect("no error").is_none());
    drop(inputs);
    let held: usize = current(&snapshots).files().map(|file| &file.path).collect::<BTreeSet<_>>().len();
    assert_eq!(files(folder.path()), held + 1, "the manifest and what it names");
}

#[test]
fn the_newest_row_of_each_value_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut t = table("t", 1, &["by", "at"]).as_ref().clone();
    t.columns = vec![ColumnSpec::new("by", ColumnKind::Text), ColumnSpec::new("at", ColumnKind::Timestamp)];
    t.newest = Some(NewestOf {
        table: TableName::parse("latest").expect("a name"),
        description: String::new(),
        by: "by".to_owned(),
        at: "at".to_owned(),
    });
    let t = Arc::new(t);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    let mut model: BTreeMap<u64, (u64, i64)> = BTreeMap::new();
    let mut random = 99_u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for position in 1..=120 {
        let mut batch = Vec::new();
        for _ in 0..8 {
            let n = next(150);
            let put = (next(4) > 0).then(|| (next(12), next(50) as i64));
            match put {
                Some(row) => model.insert(n, row),
                None => model.remove(&n),
            };
            let cells = put.map(|(by, at)| vec![Cell::from(format!("v{by}")), Cell::Time(at)]);
            batch.push(TableChange { table: Arc::clone(&t), key: key(n), rows: cells.into_iter().collect() });
        }
        snapshots.apply(ORG, changes(position, batch)).expect("apply");
        while position % 3 == 0 && snapshots.merge_next().expect("merge") {}
        let mut expected: BTreeMap<String, i64> = BTreeMap::new();
        for (by, at) in model.values() {
            let newest = expected.entry(format!("v{by}")).or_insert(*at);
            *newest = (*newest).max(*at);
        }
        assert_eq!(newest_times(&current(&snapshots)), expected, "at {position}");
    }
}

/// The rows of `latest`: the time of each value.
fn newest_times(snapshot: &Snapshot) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for entry in snapshot.tables.get("latest").into_iter().flatten() {
        let segment = entry.open().expect("open");
        let deleted = entry.deleted_bits().expect("bits");
        for batch in 0..segment.batches() {
            let first = segment.batch_range(batch).0;
            let read = segment.read(batch, &[1, 2]).expect("read");
            let by = read[0].as_any().downcast_ref::<StringArray>().expect("text");
            let at = read[1].as_any().downcast_ref::<TimestampMillisecondArray>().expect("times");
            for row in (0..by.len()).filter(|row| !coding::is_set(&deleted, first + row)) {
                let twice = found.insert(by.value(row).to_owned(), at.value(row));
                assert_eq!(twice, None, "one row a value");
            }
        }
    }
    found
}

#[test]
fn leftovers_of_a_crash_are_removed_and_a_removed_organization_starts_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let t = table("t", 1, &["a"]);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    snapshots.apply(ORG, changes(9, vec![change(&t, 1, &[1])])).expect("apply");
    drop(snapshots);
    let own = folder.path().join(ORG.to_string());
    for name in ["s0000000002.arrow", "d0000000003.bits", "manifest.new"] {
        std::fs::write(own.join(name), b"half").expect("write");
    }
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    assert_eq!(rows(&current(&snapshots), "t", "a").len(), 1);
    assert_eq!(files(folder.path()), 2);
    snapshots.remove(ORG).expect("remove");
    assert!(!own.exists());
    assert_eq!(snapshots.position(ORG).expect("position"), 0);
    snapshots.apply(ORG, changes(1, vec![change(&t, 1, &[3])])).expect("apply");
    assert_eq!(rows(&current(&snapshots), "t", "a"), BTreeMap::from([(1, vec![Some(3)])]));
}

#[test]
fn freshness_is_an_upper_bound_in_whole_seconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let t = table("t", 1, &["a"]);
    let snapshots = Snapshots::open(folder.path().to_owned()).expect("open");
    snapshots
        .apply(ORG, Changes { committed_at_ms: 10_000, ..changes(1, vec![change(&t, 1, &[1])]) })
        .expect("apply");
    let pin = snapshots.pin(ORG, vec![Arc::clone(&t)]).expect("pin");
    assert_eq!(snapshots.freshness_sec(&pin, 10_000), 0);
    assert_eq!(snapshots.freshness_sec(&pin, 12_001), 3);
    snapshots.set_caught_up(11_900);
    assert_eq!(snapshots.freshness_sec(&pin, 12_001), 1, "nothing was to be applied until then");
    snapshots
        .apply(ORG, Changes { committed_at_ms: 11_950, ..changes(2, vec![change(&t, 1, &[2])]) })
        .expect("apply");
    assert_eq!(snapshots.freshness_sec(&pin, 12_001), 3, "the pin is behind now");
}
