//! Random statements over random tables: with our rules over segments, and with DataFusion's alone over the same rows in
//! memory. Whatever the one answers the other must, and no statement may fail with us that does not fail there.
//!
//! The worlds are those of the seeds 1 to [`WORLDS`]; `GLEANER_RANDOM_SEEDS=100..200` runs others. A failure names its seed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use tempfile::TempDir;

use super::{ORG, answer, bound, change, readings_newest, spec};
use crate::catalog::{ColumnKind, TableSpec};
use crate::cells::{self, Cell};
use crate::process;
use crate::snapshot::Snapshots;
use crate::worker::session;

/// Worlds of an ordinary run.
const WORLDS: u64 = 4;
const STATEMENTS_PER_WORLD: usize = 60;

/// splitmix64 (Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_of(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    /// Some of them, at most `most`, none twice.
    fn some<'a>(&mut self, of: &[&'a str], most: u64) -> Vec<&'a str> {
        let mut left = of.to_vec();
        let count = self.below(most + 1).min(left.len() as u64);
        (0..count).map(|_| left.remove(self.below(left.len() as u64) as usize)).collect()
    }
}

/// What the world looks like.
struct Shape {
    rows: u64,
    few: u64,
    many: u64,
    nulls_one_of: u64,
    portion: u64,
    /// Rows of the first portions lack the last column.
    early: u64,
    /// There is a table of the newest row of each value. It keeps none of NULL, which its column then never is.
    newest: bool,
}

fn shape(random: &mut Random) -> Shape {
    Shape {
        rows: 5_000 + random.below(7_000),
        few: 1 + random.below(14),
        many: 20 + random.below(900),
        nulls_one_of: 3 + random.below(30),
        portion: 300 + random.below(1_200),
        early: random.below(4_000),
        newest: !random.one_of(3),
    }
}

fn facts(early: bool, newest: bool) -> Arc<TableSpec> {
    use ColumnKind::{Float64, Int64, Text, Timestamp};
    let mut columns = vec![("id", Text), ("many", Text), ("few", Text), ("n", Int64), ("price", Float64)];
    columns.extend([("at", Timestamp), ("late", Text)]);
    if early {
        columns.pop();
    }
    let mut table = spec("facts", &columns);
    table.newest = newest.then(|| readings_newest("latest_facts", "many"));
    Arc::new(table)
}

fn tags() -> Arc<TableSpec> {
    let columns = [("many", ColumnKind::Text), ("tag", ColumnKind::Text), ("weight", ColumnKind::Int64)];
    Arc::new(spec("tags", &columns))
}

fn fact(random: &mut Random, shape: &Shape, n: u64, version: u64) -> Vec<Cell> {
    let null = |cell: Cell, random: &mut Random| {
        if random.one_of(shape.nulls_one_of) { Cell::Null } else { cell }
    };
    let number = match random.below(40) {
        0 => i64::MAX,
        1 => i64::MIN,
        _ => random.below(20) as i64 - 5,
    };
    let (many, few) = (random.below(shape.many), random.below(shape.few));
    let quarters = random.below(900) as f64 / 4.0 - 20.0;
    let url = Cell::from(format!("https://shop.example/{many}"));
    let late = ["12", "7", "x", "y", ""][random.below(5) as usize];
    vec![
        Cell::from(format!("id {n}.{version}")),
        if shape.newest { url } else { null(url, random) },
        null(Cell::from(format!("few {few}")), random),
        null(Cell::Int(number), random),
        null(Cell::Float(quarters), random),
        // No two are alike, and the newest of a value is one row.
        Cell::Time(1_700_000_000_000 + (n * 8 + version) as i64 * 97_000),
        null(Cell::from(late), random),
    ]
}

struct World {
    _folder: TempDir,
    ours: SessionState,
    plain: SessionState,
}

/// Rows by their keys, as they are in the end.
type Rows = BTreeMap<u64, Vec<Vec<Cell>>>;

fn world(random: &mut Random) -> World {
    let shape = shape(random);
    let folder = tempfile::tempdir().expect("a folder");
    let snapshots = Snapshots::open(folder.path().join("snapshots")).expect("open");
    let mut rows = Rows::new();
    let mut begin = 0;
    while begin < shape.rows {
        let end = (begin + shape.portion).min(shape.rows);
        let early = begin < shape.early;
        let mut changes = Vec::new();
        for n in begin..end {
            let mut row = fact(random, &shape, n, 0);
            if early {
                row.pop();
            }
            changes.push(change(&facts(early, shape.newest), n, vec![row.clone()]));
            row.resize(7, Cell::Null);
            rows.insert(n, vec![row]);
        }
        snapshots.fill(ORG, changes).expect("fill");
        while !random.one_of(3) && snapshots.merge_next().expect("merge") {}
        begin = end;
    }
    // Some are deleted, some replaced.
    for version in 1..=random.below(3) {
        let mut changes = BTreeMap::new();
        for _ in 0..random.below(300) {
            let n = random.below(shape.rows);
            let new = if random.one_of(2) { Vec::new() } else { vec![fact(random, &shape, n, version)] };
            changes.insert(n, new);
        }
        rows.extend(changes.clone());
        let changes =
            changes.into_iter().map(|(n, new)| change(&facts(false, shape.newest), n, new)).collect();
        snapshots.fill(ORG, changes).expect("fill");
        while random.one_of(2) && snapshots.merge_next().expect("merge") {}
    }
    let mut tagged = Rows::new();
    for n in 0..shape.many {
        let tag = |random: &mut Random| {
            vec![
                Cell::from(format!("https://shop.example/{n}")),
                Cell::from(format!("tag {}", random.below(7))),
                Cell::Int(random.below(5) as i64),
            ]
        };
        tagged.insert(n, (0..random.below(3)).map(|_| tag(random)).collect());
    }
    let changes = tagged.iter().map(|(n, new)| change(&tags(), *n, new.clone())).collect();
    snapshots.fill(ORG, changes).expect("fill");
    let table = facts(false, shape.newest);
    let mut tables = vec![Arc::clone(&table), tags()];
    tables.extend(table.newest_table().map(Arc::new));
    let pin = snapshots.pin(ORG, tables).expect("pin");
    let bound = bound(folder.path());
    let ours =
        session::Session::of(&bound, session::segment_tables(process::sources(&pin))).expect("a session");
    let memory = [(facts(false, shape.newest), rows), (tags(), tagged)]
        .map(|(table, rows)| (table.name.to_string(), in_memory(&table, &rows)));
    let plain = session::Session::of(&bound, memory.into_iter().collect()).expect("a session");
    let plain = SessionStateBuilder::new_from_existing(plain)
        .with_physical_optimizer_rules(PhysicalOptimizer::new().rules)
        .build();
    World { _folder: folder, ours, plain }
}

fn in_memory(table: &TableSpec, rows: &Rows) -> Arc<dyn TableProvider> {
    let schema = table.shown_schema();
    let column = |index: usize| -> ArrayRef {
        let cells = rows.values().flatten().map(|row| &row[index]);
        let stored = cells::column(&table.columns[index], cells);
        cast(&stored, schema.field(index).data_type()).expect("text is text")
    };
    let columns = (0..table.columns.len()).map(column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    Arc::new(MemTable::try_new(schema, vec![vec![batch]]).expect("a table"))
}

const CONDITIONS: &[&str] = &[
    "f.few = 'few 1'",
    "f.few <> 'few 0'",
    "f.few IS NULL",
    "f.many LIKE '%/1%'",
    "f.many IN ('https://shop.example/3', 'https://shop.example/4', 'https://shop.example/5', 'x')",
    "f.n > 3",
    "f.n IS NOT NULL",
    "f.n BETWEEN -2 AND 9",
    "f.price < 30.25::double",
    "f.late IN ('12', '7')",
    "f.late IS NULL",
    "f.late IN ('12', '7') AND f.late::bigint > 8",
    "f.at >= '2023-11-20T00:00:00'::timestamp",
    "f.at < '2023-11-18T00:00:00'::timestamp",
    "length(f.few) = 5",
    "f.at::time BETWEEN '09:00:00' AND '17:00:00'",
    "f.at::date = '2023-11-16'",
    "(f.n % 3)::boolean",
    "f.n > 10000",
];
const KEYS: &[&str] = &[
    "f.few",
    "f.many",
    "f.late",
    "f.n",
    "upper(f.few)",
    "length(f.late)",
    "coalesce(f.late, '?')",
    "date_trunc('day', f.at)",
    "date_trunc('hour', f.at)",
    "f.few IS NULL",
];
const JOINED_KEYS: &[&str] = &["t.tag", "t.tag", "upper(t.tag)", "t.weight"];
const AGGREGATES: &[&str] = &[
    "count(*)",
    "count(f.n)",
    "count(f.late)",
    "sum(f.n)",
    "sum(f.price)",
    "avg(f.price)",
    "min(f.price)",
    "max(f.price)",
    "min(f.few)",
    "max(f.many)",
    "max(f.late)",
    "max(f.id)",
    "min(f.at)",
    "max(f.at)",
    "count(DISTINCT f.few)",
    "count(DISTINCT f.many)",
    "count(DISTINCT upper(f.late))",
    "count(*) FILTER (WHERE f.n > 2)",
    "sum(f.n) FILTER (WHERE f.few = 'few 2')",
    "median(f.price)",
    "sum(f.late::bigint)",
    "bool_and(f.n > 0)",
];
/// What only the different values matter to.
const SEEN: &[&str] = &[
    "count(DISTINCT f.few)",
    "count(DISTINCT f.many)",
    "count(DISTINCT f.late)",
    "count(DISTINCT upper(f.few))",
    "max(f.few)",
    "min(f.late)",
    "min(coalesce(f.late, 'zz'))",
];

fn statement(random: &mut Random) -> String {
    let mut conditions = random.some(CONDITIONS, 2);
    let clause = |conditions: &[&str]| match conditions {
        [] => String::new(),
        some => format!(" WHERE {}", some.join(" AND ")),
    };
    match random.below(12) {
        0 | 1 => {
            format!("SELECT {} FROM facts f{}", list(&at_least_one(random, SEEN, 3)), clause(&conditions))
        }
        2 => {
            let keys = at_least_one(random, KEYS, 3);
            format!("SELECT DISTINCT {} FROM facts f{}", list(&keys), clause(&conditions))
        }
        3 => {
            // The newest row of each value, of those values that a condition leaves.
            conditions.retain(|condition| condition.starts_with("f.many"));
            let within = clause(&conditions);
            let outside = random.pick(&["", " AND s.few IS NOT NULL", " AND s.n > 3"]);
            format!(
                "SELECT s.id, s.many, s.few, s.r FROM (SELECT *, row_number() OVER (PARTITION BY f.many ORDER BY f.at DESC) AS r FROM facts f{within}) s WHERE s.r = 1{outside}"
            )
        }
        4 => {
            let newest = [
                "SELECT DISTINCT ON (f.many) f.many, f.id, f.n FROM facts f ORDER BY f.many, f.at DESC",
                "SELECT f.many, max(f.at) FROM facts f GROUP BY f.many",
                "SELECT count(*), max(m) FROM (SELECT f.many, max(f.at) AS m FROM facts f GROUP BY f.many) s",
            ];
            random.pick(&newest).to_owned()
        }
        5 => {
            let order =
                random.pick(&["f.id", "f.price DESC, f.id", "f.few, f.id DESC", "f.at DESC", "f.n, f.id"]);
            let (limit, offset) = (1 + random.below(300), random.below(50));
            format!(
                "SELECT f.id, f.few, f.price FROM facts f{} ORDER BY {order} LIMIT {limit} OFFSET {offset}",
                clause(&conditions)
            )
        }
        6..=8 => {
            let mut keys = at_least_one(random, JOINED_KEYS, 1);
            keys.extend(random.some(KEYS, 1));
            let tables = random.pick(&[
                "facts f JOIN tags t ON f.many = t.many",
                "tags t JOIN facts f ON t.many = f.many",
                "facts f JOIN tags t ON f.many = t.many AND t.weight > 2",
                "facts f LEFT JOIN tags t ON f.many = t.many",
            ]);
            grouped(random, tables, &keys, &clause(&conditions))
        }
        _ => {
            let keys = random.some(KEYS, 3);
            grouped(random, "facts f", &keys, &clause(&conditions))
        }
    }
}

fn at_least_one<'a>(random: &mut Random, of: &[&'a str], most: u64) -> Vec<&'a str> {
    let mut some = random.some(of, most);
    if some.is_empty() {
        some.push(random.pick(of));
    }
    some
}

fn list(exprs: &[&str]) -> String {
    exprs.iter().enumerate().map(|(n, expr)| format!("{expr} AS c{n}")).collect::<Vec<_>>().join(", ")
}

fn grouped(random: &mut Random, tables: &str, keys: &[&str], clause: &str) -> String {
    let mut columns = keys.to_vec();
    columns.extend(at_least_one(random, AGGREGATES, 3));
    let groups = match keys {
        [] => String::new(),
        keys => format!(" GROUP BY {}", keys.join(", ")),
    };
    let having = if !keys.is_empty() && random.one_of(5) { " HAVING count(*) > 20" } else { "" };
    format!("SELECT {} FROM {tables}{clause}{groups}{having}", list(&columns))
}

fn seeds() -> Range<u64> {
    let asked = std::env::var("GLEANER_RANDOM_SEEDS").ok();
    let asked = asked.as_deref().and_then(|range| range.split_once(".."));
    let asked = asked.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    asked.unwrap_or(1..1 + WORLDS)
}

#[tokio::test]
async fn random_statements_give_what_datafusion_alone_gives() {
    let (mut asked, mut failed, mut ours_used) = (0, 0, BTreeMap::<&str, usize>::new());
    for seed in seeds() {
        let mut random = Random(seed);
        let world = world(&mut random);
        for _ in 0..STATEMENTS_PER_WORLD {
            let sql = statement(&mut random);
            let (ours, expected) =
                (answer(&world.ours, &sql, true).await, answer(&world.plain, &sql, false).await);
            asked += 1;
            match (ours, expected) {
                (Ok((plan, ours)), Ok((_, expected))) => {
                    assert_eq!(ours, expected, "seed {seed}: {sql}\n{plan}");
                    for node in ["DictionaryAggregate", "DistinctScan", "PartialReduce"] {
                        *ours_used.entry(node).or_default() += usize::from(plan.contains(node));
                    }
                    let exchanged = sql.contains("row_number") && !plan.contains("Window");
                    *ours_used.entry("newest").or_default() += usize::from(exchanged);
                }
                // A row that fails may be one that we need not look at.
                (_, Err(_)) => failed += 1,
                (Err(error), Ok(_)) => panic!("seed {seed}: {sql}\nfails only with us: {error}"),
            }
        }
    }
    // Else it would test nothing.
    assert!(failed < asked / 3, "{failed} of {asked} failed");
    for (node, used) in &ours_used {
        assert!(*used > 0 || asked < 200, "{node} was never used by {asked} statements");
    }
    println!("{asked} statements, {failed} failed with DataFusion alone, {ours_used:?}");
}
