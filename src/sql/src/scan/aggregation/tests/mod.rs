//! Every statement gives the same with the rules of this folder as without them, on segments of all kinds: dictionary-encoded, plain,
//! with rows deleted, with NULLs, and with a column that older segments lack.

mod random;

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{Result, resources_err};
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{collect, displayable};
use tempfile::TempDir;
use uuid::Uuid;

use crate::catalog::{ColumnKind, ColumnSpec, NewestOf, TableName, TableSpec};
use crate::cells::Cell;
use crate::protocol::BindRequest;
use crate::segment::BATCH_ROWS_MAX;
use crate::snapshot::{Snapshots, TableChange};
use crate::worker::session;
use crate::{newest, process};

const ORG: Uuid = Uuid::from_u128(7);
const ROWS: u64 = 30_000;
const URLS: u64 = 600;

fn spec(name: &str, columns: &[(&str, ColumnKind)]) -> TableSpec {
    TableSpec {
        name: TableName::parse(name).expect("a name"),
        description: String::new(),
        columns: columns.iter().map(|(name, kind)| ColumnSpec::new(*name, *kind)).collect(),
        catalog_version: 1,
        newest: None,
        agent_rows: None,
        joined: None,
    }
}

/// The table; what was collected early has no `kind`.
fn readings(early: bool) -> Arc<TableSpec> {
    use ColumnKind::{Float64, Int64, Text, Timestamp};
    let mut columns = vec![("id", Text), ("url", Text), ("domain", Text), ("n", Int64), ("price", Float64)];
    columns.extend([("at", Timestamp), ("kind", Text)]);
    if early {
        columns.pop();
    }
    let mut table = spec("readings", &columns);
    table.newest = Some(readings_newest("latest_readings", "url"));
    Arc::new(table)
}

/// A table that keeps the newest row by a column, by their times `at`.
fn readings_newest(table: &str, by: &str) -> NewestOf {
    NewestOf {
        table: TableName::parse(table).expect("a name"),
        description: String::new(),
        by: by.to_owned(),
        at: "at".to_owned(),
    }
}

/// What sessions of the tests may use.
fn bound(folder: &Path) -> BindRequest {
    BindRequest {
        segments: None,
        shared: None,
        home: folder.to_owned(),
        memory_bytes: 256 << 20,
        data_bytes_max: 1 << 30,
        spill_bytes_max: 1 << 30,
        result_bytes_max: 1 << 30,
    }
}

fn row(n: u64, early: bool) -> Vec<Cell> {
    let url = n * 7 % URLS;
    let mut row = vec![
        Cell::from(format!("an id that is {n}")),
        Cell::from(format!("https://shop{}.example/item/{url}", url % 9)),
        if url % 9 == 4 { Cell::Null } else { Cell::from(format!("shop{}.example", url % 9)) },
        if n.is_multiple_of(11) { Cell::Null } else { Cell::Int((n % 13) as i64) },
        if n.is_multiple_of(17) { Cell::Null } else { Cell::Float((n * 31 % 997) as f64 / 4.0) },
        Cell::Time(n as i64 * 60_000),
        ["a", "b", "12", "7"].get(n as usize % 5).map_or(Cell::Null, |kind| Cell::from(*kind)),
    ];
    if early {
        row.pop();
    }
    row
}

fn change(table: &Arc<TableSpec>, n: u64, rows: Vec<Vec<Cell>>) -> TableChange {
    TableChange { table: Arc::clone(table), key: u128::from(n + 1).to_be_bytes(), rows }
}

struct World {
    _folder: TempDir,
    ours: SessionState,
    plain: SessionState,
}

fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshots = Snapshots::open(folder.path().join("snapshots")).expect("open");
    let tags = Arc::new(spec("tags", &[("url", ColumnKind::Text), ("tag", ColumnKind::Text)]));
    for begin in (0..ROWS).step_by(1_500) {
        let early = begin < ROWS / 3;
        let table = readings(early);
        let changes = (begin..begin + 1_500).map(|n| change(&table, n, vec![row(n, early)])).collect();
        snapshots.fill(ORG, changes).expect("fill");
        while begin < ROWS - 4_000 && snapshots.merge_next().expect("merge") {}
    }
    // Some are deleted, some replaced.
    let table = readings(false);
    let changes = (0..ROWS)
        .step_by(97)
        .map(|n| change(&table, n, if n.is_multiple_of(2) { Vec::new() } else { vec![row(n + 5, false)] }));
    snapshots.fill(ORG, changes.collect()).expect("fill");
    // A URL has two tags, one or none.
    let tag = |url: u64, tag: u64| {
        vec![
            Cell::from(format!("https://shop{}.example/item/{url}", url % 9)),
            Cell::from(format!("tag{tag}")),
        ]
    };
    let tagged = (0..URLS).map(|url| match url % 3 {
        0 => change(&tags, url, vec![tag(url, url % 5), tag(url, 5 + url % 4)]),
        1 => change(&tags, url, vec![tag(url, url % 5)]),
        _ => change(&tags, url, Vec::new()),
    });
    snapshots.fill(ORG, tagged.collect()).expect("fill");
    let table = readings(false);
    let tables = vec![Arc::clone(&table), Arc::new(table.newest_table().expect("one")), tags];
    let pin = snapshots.pin(ORG, tables).expect("pin");
    let bound = bound(folder.path());
    let session =
        || session::Session::of(&bound, session::segment_tables(process::sources(&pin))).expect("a session");
    let plain = SessionStateBuilder::new_from_existing(session())
        .with_physical_optimizer_rules(PhysicalOptimizer::new().rules)
        .build();
    World { _folder: folder, ours: session(), plain }
}

/// The plan's text, and the rows' text, sorted.
async fn run(state: &SessionState, sql: &str, exchanged: bool) -> (String, Vec<String>) {
    answer(state, sql, exchanged).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The same, or why there is none.
pub(super) async fn answer(
    state: &SessionState,
    sql: &str,
    exchanged: bool,
) -> Result<(String, Vec<String>)> {
    let plan = state.create_logical_plan(sql).await?;
    let plan = if exchanged { newest::rewrite(plan)? } else { plan };
    let plan = state.create_physical_plan(&plan).await?;
    let text = displayable(plan.as_ref()).indent(true).to_string();
    let schema = plan.schema();
    let mut batches: Vec<RecordBatch> = collect(plan, state.task_ctx()).await?;
    batches.push(RecordBatch::new_empty(schema));
    let rows = pretty_format_batches(&batches)?.to_string();
    let mut rows: Vec<String> = rows.lines().map(str::to_owned).collect();
    rows.sort_unstable();
    Ok((text, rows))
}

#[tokio::test]
async fn codes_give_what_text_gives() {
    let world = world();
    for (node, sql) in [
        (
            "DictionaryAggregate",
            "SELECT domain, count(*), sum(n), min(price), max(id) FROM readings GROUP BY domain",
        ),
        (
            "DictionaryAggregate",
            "SELECT url, domain, count(n), max(price) FROM readings GROUP BY url, domain",
        ),
        (
            "DictionaryAggregate",
            "SELECT url, kind, domain, count(*) FROM readings GROUP BY url, kind, domain",
        ),
        ("DictionaryAggregate", "SELECT kind, count(*) FROM readings GROUP BY kind"),
        (
            "DictionaryAggregate",
            "SELECT upper(domain) AS d, length(kind), count(*) FROM readings GROUP BY 1, 2",
        ),
        (
            "DictionaryAggregate",
            "SELECT coalesce(domain, kind, '?'), count(*) FROM readings GROUP BY domain, kind",
        ),
        ("DictionaryAggregate", "SELECT DISTINCT domain, kind FROM readings"),
        (
            "DictionaryAggregate",
            "SELECT domain, count(*) FILTER (WHERE n > 4), sum(n + 1) FROM readings GROUP BY domain",
        ),
        (
            "DictionaryAggregate",
            "SELECT url, count(*) FROM readings WHERE n > 5 AND kind <> 'a' GROUP BY url",
        ),
        ("DictionaryAggregate", "SELECT domain, count(DISTINCT url) FROM readings GROUP BY domain"),
        ("DictionaryAggregate", "SELECT domain, median(price) FROM readings GROUP BY domain"),
        ("DictionaryAggregate", "SELECT domain, count(*) FROM readings WHERE n > 99 GROUP BY domain"),
        ("DictionaryAggregate", "SELECT count(DISTINCT url) FROM readings WHERE price > 100"),
        (
            "DictionaryAggregate",
            "SELECT c, count(*) FROM (SELECT url, count(*) AS c FROM readings GROUP BY url) x GROUP BY c",
        ),
        (
            "DictionaryAggregate",
            "SELECT date_trunc('day', at) AS d, count(*), avg(price) FROM readings GROUP BY 1",
        ),
        (
            "DictionaryAggregate",
            "SELECT date_trunc('month', at), max(n) FROM readings WHERE kind = 'a' GROUP BY 1",
        ),
        ("DistinctScan", "SELECT count(DISTINCT domain), count(DISTINCT kind) FROM readings"),
        (
            "DistinctScan",
            "SELECT count(DISTINCT upper(domain)), count(DISTINCT kind), min(coalesce(kind, 'zz')) FROM readings",
        ),
        (
            "DistinctScan",
            "SELECT count(DISTINCT url), count(DISTINCT domain), min(kind) FROM readings WHERE n = 3 AND kind = 'b'",
        ),
        (
            "DistinctScan",
            "SELECT count(DISTINCT url), count(DISTINCT domain), min(kind) FROM readings WHERE n > 99",
        ),
        (
            "PartialReduce",
            "SELECT tag, avg(to_averaged(price)) FROM readings r JOIN tags t ON r.url = t.url GROUP BY tag",
        ),
        (
            "PartialReduce",
            "SELECT tag, count(*), avg(price), min(n) FROM readings r JOIN tags t ON r.url = t.url GROUP BY tag",
        ),
        (
            "PartialReduce",
            "SELECT tag, domain, count(*), sum(r.n) FROM tags t JOIN readings r ON r.url = t.url GROUP BY 1, 2",
        ),
        (
            "PartialReduce",
            "SELECT upper(tag), count(price) FROM readings r JOIN tags t ON r.url = t.url WHERE n > 3 AND tag < 'tag7' GROUP BY 1",
        ),
        (
            "PartialReduce",
            "SELECT tag, length(domain), max(price) FROM readings r JOIN tags t USING (url) GROUP BY 1, 2",
        ),
    ] {
        let (ours, rows) = run(&world.ours, sql, false).await;
        let (plain, expected) = run(&world.plain, sql, false).await;
        assert!(ours.contains(node), "{sql}\n{ours}");
        assert!(!plain.contains(node), "{sql}\n{plain}");
        assert_eq!(rows, expected, "{sql}\n{ours}");
    }
}

#[tokio::test]
async fn what_codes_cannot_answer_is_left_alone() {
    let world = world();
    for sql in [
        "SELECT n, count(*) FROM readings GROUP BY n",
        "SELECT id, count(*) FROM readings GROUP BY id",
        "SELECT domain, n, count(*) FROM readings GROUP BY domain, n",
        "SELECT domain, kind, count(*) FROM readings GROUP BY ROLLUP (domain, kind)",
        "SELECT count(DISTINCT domain), count(*) FROM readings",
        "SELECT count(DISTINCT domain) FILTER (WHERE n > 3), min(kind) FROM readings",
        "SELECT count(DISTINCT domain), count(DISTINCT n) FROM readings",
        "SELECT t.tag, max(r.price - length(t.tag)) FROM readings r JOIN tags t ON r.url = t.url GROUP BY t.tag",
        "SELECT t.tag, count(DISTINCT r.n) FROM readings r JOIN tags t ON r.url = t.url GROUP BY t.tag",
        "SELECT t.tag, median(r.price) FROM readings r JOIN tags t ON r.url = t.url GROUP BY t.tag",
        "SELECT t.tag, count(r.n) FROM tags t LEFT JOIN readings r ON r.url = t.url GROUP BY t.tag",
        "SELECT domain, string_agg(kind, ',' ORDER BY at) FROM readings WHERE n = 1 GROUP BY domain",
        "SELECT kind::bigint AS k, count(*) FROM readings WHERE kind IN ('12', '7') GROUP BY 1",
        "SELECT price > 0.5, count(*) FROM readings GROUP BY ROLLUP (price > 0.5)",
        "SELECT domain, min(x) = max(x) FROM (SELECT domain, random() AS x FROM readings WHERE n = 1 LIMIT 1) s GROUP BY 1",
        // Not every kind is a number; those of the URLs that are asked for are.
        "SELECT t.tag, sum(r.kind::bigint) FROM readings r JOIN (SELECT url, max(tag) AS tag FROM tags GROUP BY url) t ON r.url = t.url AND r.kind = '12' GROUP BY 1",
    ] {
        let (ours, rows) = run(&world.ours, sql, false).await;
        let (_, expected) = run(&world.plain, sql, false).await;
        assert_eq!(rows, expected, "{sql}\n{ours}");
    }
}

#[tokio::test]
async fn a_value_drawn_for_a_row_is_drawn_once() {
    let world = world();
    let sql = "SELECT domain, max(x) FROM (SELECT domain, random() AS x, random() AS y FROM readings) s WHERE x >= 0 GROUP BY domain";
    let both =
        "SELECT domain, min(x), max(x) FROM (SELECT domain, random() AS x FROM readings) s GROUP BY domain";
    for sql in [sql, both] {
        let (ours, _) = run(&world.ours, sql, false).await;
        assert!(!ours.contains("Dictionary"), "{sql}\n{ours}");
    }
    let sql =
        "SELECT t.tag, random() < 0.5, count(r.n) FROM readings r JOIN tags t ON r.url = t.url GROUP BY 1, 2";
    let (ours, _) = run(&world.ours, sql, false).await;
    assert!(!ours.contains("PartialReduce"), "{sql}\n{ours}");
}

#[tokio::test]
async fn what_may_fail_stays_above_a_join() {
    let world = world();
    for argument in ["r.kind::bigint", "100 / (r.n - 3)", "r.n * 1000000000"] {
        let sql =
            format!("SELECT tag, sum({argument}) FROM readings r JOIN tags t ON r.url = t.url GROUP BY tag");
        let plan = world.ours.create_logical_plan(&sql).await.expect(&sql);
        let plan = world.ours.create_physical_plan(&plan).await.expect(&sql);
        let plan = displayable(plan.as_ref()).indent(true).to_string();
        assert!(!plan.contains("PartialReduce"), "{sql}\n{plan}");
    }
}

/// Has no memory for groups by codes, ever.
#[derive(Debug, Default)]
struct Grudging(UnboundedMemoryPool);

impl std::fmt::Display for Grudging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("grudging")
    }
}

impl MemoryPool for Grudging {
    fn name(&self) -> &str {
        "grudging"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.0.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if reservation.consumer().name() == "DictionaryAggregate" {
            return resources_err!("there is none");
        }
        self.0.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }
}

#[tokio::test]
async fn groups_that_find_no_memory_are_given_out_in_parts() {
    let world = world();
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(Grudging::default()));
    let narrow = SessionStateBuilder::new_from_existing(world.ours.clone())
        .with_runtime_env(runtime.build_arc().expect("an environment"))
        .build();
    for sql in [
        "SELECT domain, count(*), sum(n) FROM readings GROUP BY domain",
        "SELECT url, domain, count(n), max(price) FROM readings GROUP BY url, domain",
        "SELECT url, kind, domain, count(*), count(DISTINCT n) FROM readings GROUP BY url, kind, domain",
        "SELECT date_trunc('day', at) AS d, count(*), max(id) FROM readings GROUP BY 1",
    ] {
        let (ours, rows) = run(&narrow, sql, false).await;
        let (_, expected) = run(&world.plain, sql, false).await;
        assert!(ours.contains("DictionaryAggregate"), "{sql}\n{ours}");
        assert_eq!(rows, expected, "{sql}\n{ours}");
    }
}

#[tokio::test]
async fn the_newest_row_of_each_value_needs_no_sorting() {
    let world = world();
    for sql in [
        "SELECT count(*), sum(n) FROM (SELECT n, row_number() OVER (PARTITION BY url ORDER BY at DESC) AS r FROM readings) x WHERE r = 1",
        "SELECT url, at, r FROM (SELECT *, row_number() OVER (PARTITION BY url ORDER BY at DESC) AS r FROM readings) x WHERE r < 2 AND domain IS NULL",
    ] {
        let (ours, rows) = run(&world.ours, sql, true).await;
        let (plain, expected) = run(&world.plain, sql, false).await;
        assert!(!ours.contains("Window") && plain.contains("Window"), "{sql}\n{ours}");
        assert_eq!(rows, expected, "{sql}\n{ours}");
    }
    let sql = "SELECT count(*) FROM (SELECT n, row_number() OVER (PARTITION BY url ORDER BY at DESC) AS r FROM readings) x WHERE r < 2.5";
    let (ours, rows) = run(&world.ours, sql, true).await;
    let (_, expected) = run(&world.plain, sql, false).await;
    assert!(ours.contains("Window"), "two of each\n{ours}");
    assert_eq!(rows, expected, "{ours}");
}

#[tokio::test]
async fn conditions_select_the_same_in_any_order() {
    let world = world();
    for (condition, equal) in [
        ("n > 5 AND domain = 'shop3.example'", "domain = 'shop3.example' AND (n + 0) > 5"),
        ("kind IN ('12', '7') AND kind::bigint > 8", "kind = '12'"),
        ("n IS NULL AND price BETWEEN 10 AND 100", "price >= 10 AND price <= 100 AND coalesce(n, -1) = -1"),
        (
            "url LIKE '%item/1%' AND n <> 3 AND id LIKE '%5'",
            "id LIKE '%5' AND (n + 0) <> 3 AND url LIKE '%item/1%'",
        ),
        ("domain IS NULL AND id LIKE '%77%'", "coalesce(domain, '-') = '-' AND strpos(id, '77') > 0"),
    ] {
        let select = |condition: &str| {
            format!("SELECT id, url, domain, kind, n, price FROM readings WHERE {condition}")
        };
        let (_, rows) = run(&world.ours, &select(condition), false).await;
        let (_, expected) = run(&world.ours, &select(equal), false).await;
        assert!(rows.len() > 5, "{condition}");
        assert_eq!(rows, expected, "{condition}");
    }
}

#[tokio::test]
async fn a_sum_below_a_join_does_not_overflow_for_rows_that_the_join_leaves_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshots = Snapshots::open(folder.path().join("snapshots")).expect("open");
    let numbers = Arc::new(spec("numbers", &[("url", ColumnKind::Text), ("n", ColumnKind::Int64)]));
    let tags = Arc::new(spec("tags", &[("url", ColumnKind::Text), ("tag", ColumnKind::Text)]));
    // Nine of ten URLs have no tag, and numbers whose sum is far beyond 64 bits.
    for begin in (0..9_600).step_by(1_200) {
        let row = |n: u64| {
            let url = n % 100;
            let number = if url.is_multiple_of(10) { n as i64 } else { i64::MAX };
            vec![Cell::from(format!("https://shop.example/{url}")), Cell::Int(number)]
        };
        let changes = (begin..begin + 1_200).map(|n| change(&numbers, n, vec![row(n)])).collect();
        snapshots.fill(ORG, changes).expect("fill");
    }
    while snapshots.merge_next().expect("merge") {}
    let tag = |url: u64| vec![Cell::from(format!("https://shop.example/{url}")), Cell::from("tag")];
    let changes = (0..100).step_by(10).map(|url| change(&tags, url, vec![tag(url)])).collect();
    snapshots.fill(ORG, changes).expect("fill");
    let pin = snapshots.pin(ORG, vec![numbers, tags]).expect("pin");
    let tables = session::segment_tables(process::sources(&pin));
    let ours = session::Session::of(&bound(folder.path()), tables).expect("a session");
    let sql = "SELECT t.tag, sum(x.n), count(*) FROM numbers x JOIN tags t ON x.url = t.url GROUP BY t.tag";
    let (plan, rows) = run(&ours, sql, false).await;
    assert!(plan.contains("PartialReduce"), "{plan}");
    let expected: u64 = (0..9_600).filter(|n| n % 10 == 0).sum();
    assert!(rows.iter().any(|row| row.contains(&format!("{expected} ")) && row.contains("960")), "{rows:?}");
    let all = "SELECT x.url, sum(x.n) FROM numbers x GROUP BY x.url";
    answer(&ours, all, false).await.expect_err("the sums of the others are beyond 64 bits");
}

/// A partition looks at `BATCHES_PER_TURN` batches in a turn, also at those that are the other's.
#[tokio::test]
async fn a_segment_of_more_batches_than_a_turn_has_is_read_to_its_end() {
    const BATCHES: usize = super::super::rows::BATCHES_PER_TURN + 3;
    let folder = tempfile::tempdir().expect("a folder");
    let snapshots = Snapshots::open(folder.path().join("snapshots")).expect("open");
    let table = Arc::new(spec("long", &[("few", ColumnKind::Text), ("n", ColumnKind::Int64)]));
    let rows = (BATCHES * BATCH_ROWS_MAX) as u64;
    let parts = 8;
    for part in 0..parts {
        let of = |n: u64| {
            change(&table, n, vec![vec![Cell::from(format!("few {}", n * 13 / rows)), Cell::Int(1)]])
        };
        snapshots
            .fill(ORG, (rows * part / parts..rows * (part + 1) / parts).map(of).collect())
            .expect("fill");
    }
    while snapshots.merge_next().expect("merge") {}
    let pin = snapshots.pin(ORG, vec![table]).expect("pin");
    let sources = process::sources(&pin);
    assert_eq!(sources[0].segments.len(), 1, "one segment of {BATCHES} batches");
    let ours =
        session::Session::of(&bound(folder.path()), session::segment_tables(sources)).expect("a session");
    for (node, sql, expected) in [
        ("DistinctScan", "SELECT count(DISTINCT few), count(DISTINCT upper(few)) FROM long", 13),
        (
            "DistinctScan",
            "SELECT count(DISTINCT upper(few)), count(DISTINCT few) FROM long WHERE few <> 'few 4'",
            12,
        ),
        (
            "DictionaryAggregate",
            "SELECT sum(c) FROM (SELECT few, count(*) AS c FROM long GROUP BY few) s",
            rows,
        ),
        ("DictionaryAggregate", "SELECT count(*) FROM (SELECT DISTINCT few FROM long) s", 13),
        ("SegmentScan", "SELECT sum(n) FROM long WHERE n + length(few) > 0", rows),
    ] {
        let (plan, answered) = run(&ours, sql, false).await;
        assert!(node == "SegmentScan" || plan.contains(node), "{sql}\n{plan}");
        assert!(
            answered.iter().any(|row| row.contains(&format!(" {expected} "))),
            "{sql}: {answered:?}\n{plan}"
        );
    }
}
