//! An organization's tables, for tests of what becomes of statements over them.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use tempfile::TempDir;
use uuid::Uuid;

use crate::catalog::{ColumnKind, ColumnSpec, NewestOf, TableMap, TableName, TableSpec};
use crate::gate::Admitted;
use crate::process;
use crate::protocol::BindRequest;
use crate::snapshot::Snapshots;
use crate::worker::agent;
use crate::worker::session::{Session, segment_tables};

const TABLES: [&str; 4] = ["jobs", "latest_readings", "readings", "urls"];

/// A session over `jobs` and `urls`, whose columns `tags` and `metadata` are JSON, and `readings` with the newest of each URL.
pub(crate) struct World {
    pub(crate) state: SessionState,
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        use ColumnKind::{Json, Text, Timestamp};
        let folder = tempfile::tempdir().expect("a folder");
        let snapshots = Snapshots::open(folder.path().join("snapshots")).expect("open");
        let labelled = &[("id", Text), ("url_id", Text), ("tags", Json), ("metadata", Json)];
        let mut readings = table("readings", &[("url", Text), ("at", Timestamp)]);
        let newest = NewestOf {
            table: TableName::parse("latest_readings").expect("a name"),
            description: String::new(),
            by: "url".to_owned(),
            at: "at".to_owned(),
        };
        readings.newest = Some(newest);
        let latest = readings.newest_table().expect("one");
        let tables = [table("jobs", labelled), table("urls", labelled), readings, latest];
        let pin = snapshots.pin(Uuid::from_u128(1), tables.map(Arc::new).to_vec()).expect("pin");
        let tables = segment_tables(process::sources(&pin));
        Self { state: session(&folder, tables), folder }
    }

    /// A session over what an agent sees of `jobs` and `urls`.
    pub(crate) async fn of_agent(&self) -> SessionState {
        let rows = |name: &str| (name.to_owned(), "metadata ->> 'agentId' = 'one'".to_owned());
        let own = agent::tables(&self.state, ["jobs", "urls"].map(rows).into());
        session(&self.folder, own.await.expect("views"))
    }
}

fn session(folder: &TempDir, tables: TableMap) -> SessionState {
    let bound = BindRequest {
        segments: None,
        shared: None,
        home: folder.path().to_owned(),
        memory_bytes: 64 << 20,
        data_bytes_max: 1 << 20,
        spill_bytes_max: 1 << 20,
        result_bytes_max: 1 << 20,
    };
    Session::of(&bound, tables).expect("a session")
}

fn table(name: &str, columns: &[(&str, ColumnKind)]) -> TableSpec {
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

/// The statement, let through.
pub(crate) async fn admitted(state: &SessionState, sql: &str) -> Admitted {
    let tables = BTreeSet::from(TABLES.map(str::to_owned));
    crate::gate::admit(state, sql, &tables).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}
