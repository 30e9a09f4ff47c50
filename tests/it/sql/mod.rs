//! The SQL engine with real worker processes.

mod agent;
mod consistency;
mod corpus;
mod crash;
mod hostile;
mod isolation;
mod operator;
mod random;
mod scans;
mod values;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use sql::{
    Cell, Changes, ColumnKind, ColumnSpec, Outcome, PlanInfo, QueryBackend, QueryError, ResultFile,
    Snapshots, Statement, TableChange, TableName, TableSpec, WorkerSettings, Workers,
};
use uuid::Uuid;

const OURS: Uuid = Uuid::from_u128(1);
const THEIRS: Uuid = Uuid::from_u128(2);
/// 2026-01-01T00:00:00Z.
const NEW_YEAR_MS: i64 = 1_767_225_600_000;
const DAY_MS: i64 = 86_400_000;
const MARKER: &str = "MARKER-of-another-organization";

struct Box_ {
    folder: tempfile::TempDir,
    snapshots: Snapshots,
    workers: Workers,
}

fn table(name: &str, columns: &[(&str, ColumnKind)]) -> Arc<TableSpec> {
    Arc::new(TableSpec {
        name: TableName::parse(name).expect("a name"),
        description: "a table of the test".to_owned(),
        columns: columns.iter().map(|(name, kind)| ColumnSpec::new(*name, *kind)).collect(),
        catalog_version: 1,
        newest: None,
        agent_rows: None,
        joined: None,
    })
}

fn readings() -> Arc<TableSpec> {
    table(
        "readings",
        &[
            ("url", ColumnKind::Text),
            ("price", ColumnKind::Float64),
            ("stock", ColumnKind::Int64),
            ("ok", ColumnKind::Bool),
            ("at", ColumnKind::Timestamp),
            ("data", ColumnKind::Json),
        ],
    )
}

fn jobs() -> Arc<TableSpec> {
    table(
        "jobs",
        &[("url", ColumnKind::Text), ("started", ColumnKind::Timestamp), ("ended", ColumnKind::Timestamp)],
    )
}

fn reading(n: u128, url: &str) -> TableChange {
    let row = vec![
        Cell::from(url),
        Cell::Float(n as f64 / 4.0),
        if n % 10 == 9 { Cell::Null } else { Cell::Int(n as i64) },
        Cell::Bool(n.is_multiple_of(2)),
        Cell::Time(NEW_YEAR_MS + n as i64 * 3_600_000),
        Cell::from(format!("{{\"n\":{n}}}")),
    ];
    TableChange { table: readings(), key: n.to_be_bytes(), rows: vec![row] }
}

impl Box_ {
    fn new(change: impl FnOnce(&mut WorkerSettings)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = WorkerSettings {
            exe: crate::harness::binary(),
            query_timeout: Duration::from_secs(20),
            memory_bytes: 64 << 20,
            memory_box_bytes: 8 << 30,
            spill_bytes_max: 256 << 20,
            rows_max: 100_000,
            bytes_max: 64 << 20,
            spill_dir: folder.path().join("spill"),
            results_dir: folder.path().join("results"),
            reserve_bytes: 0,
            require_sandbox: false,
            concurrency_box: 2,
        };
        change(&mut settings);
        let snapshots = Snapshots::open(folder.path().join("snapshots")).expect("open");
        let workers = Workers::new(settings).expect("workers");
        let this = Self { folder, snapshots, workers };
        this.seed();
        this
    }

    /// Ours: 2,500 readings of 50 URLs and three jobs. Theirs: one marked reading and a table of their own.
    fn seed(&self) {
        let mut changes: Vec<TableChange> =
            (0..2500).map(|n| reading(n, &format!("https://shop.example/{}", n % 50))).collect();
        for (n, days) in [(1_u8, 31), (2, 1), (3, 0)] {
            let (start, end) = (Cell::Time(NEW_YEAR_MS), Cell::Time(NEW_YEAR_MS + days * DAY_MS));
            let row = vec![Cell::from(format!("job {n}")), start, end];
            changes.push(TableChange { table: jobs(), key: [n; 16], rows: vec![row] });
        }
        self.apply(OURS, 1, changes);
        let secret = table("their_secrets", &[("secret", ColumnKind::Text)]);
        let secret = TableChange { table: secret, key: [1; 16], rows: vec![vec![Cell::from(MARKER)]] };
        self.apply(THEIRS, 1, vec![reading(7, MARKER), secret]);
    }

    fn apply(&self, organization: Uuid, position: u64, changes: Vec<TableChange>) {
        let changes = Changes { position, committed_at_ms: NEW_YEAR_MS, changes };
        self.snapshots.apply(organization, changes).expect("apply");
    }

    fn statement(&self, organization: Uuid, sql: &str) -> Statement {
        let pin = self.snapshots.pin(organization, vec![readings(), jobs()]).expect("pin");
        Statement { pin, sql: sql.to_owned(), query_id: Uuid::now_v7() }
    }

    async fn run(&self, sql: &str) -> Result<(PlanInfo, Outcome, ResultFile), QueryError> {
        self.run_as(OURS, sql).await
    }

    async fn run_as(
        &self,
        organization: Uuid,
        sql: &str,
    ) -> Result<(PlanInfo, Outcome, ResultFile), QueryError> {
        let statement = self.statement(organization, sql);
        let path = self.workers.result_path(organization, statement.query_id);
        let (info, running) = self.workers.start(statement).await?;
        let outcome = running.wait().await?;
        let result = ResultFile::open(&path).expect("the result opens");
        assert_eq!(result.row_count(), outcome.rows);
        Ok((info, outcome, result))
    }

    async fn rows(&self, sql: &str) -> Vec<Map<String, Value>> {
        let (.., result) = self.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        result.page(0, 1000).expect("a page")
    }

    async fn first(&self, sql: &str) -> Value {
        Value::Object(self.rows(sql).await.remove(0))
    }

    /// Waits until no worker has anything of a statement, and checks that nothing of one is left but its result.
    async fn assert_clean(&self) {
        workers::until("the workers come to rest", || self.workers.counts().running == 0).await;
        let list = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        for home in list(self.folder.path().join("spill")) {
            // A worker keeps its folder for what it spills, and nothing in it.
            let left: Vec<_> = list(home.path())
                .filter(|entry| !entry.path().is_dir() || list(entry.path()).count() > 0)
                .collect();
            assert!(left.is_empty(), "something is left: {left:?}");
        }
        let parts = list(self.folder.path().join("results").join(OURS.to_string()));
        let part = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|e| e == "part");
        assert_eq!(parts.filter(part).count(), 0, "unfinished results");
    }
}
