//! SQL over an organization's data: snapshots, statements in processes of their own, results.
//!
//! The server's side: [`snapshot`] takes changes in and pins what a statement reads; [`pool`] gives a statement a worker
//! and ends it at its limit; [`spool`] pages the result. The worker's side (`worker`, `session`, `scan`, `gate`) is
//! DataFusion over exactly the pinned tables, behind the walls of [`sandbox`]. The two share the files and `protocol`,
//! nothing else: what a hostile statement can reach is one process that holds one organization's mapped segments.

mod agent;
pub mod catalog;
pub mod cells;
mod checked;
mod classified;
mod constants;
mod errors;
mod explain;
mod export;
mod extremes;
mod gate;
mod information;
mod logical;
mod mapped;
mod newest;
mod ordered;
mod parameters;
pub mod pool;
mod postgres;
mod protocol;
mod pushdown;
mod reasons;
pub mod sandbox;
mod scan;
mod segment;
mod selftest;
mod semi;
mod session;
pub mod snapshot;
pub mod spool;
mod statistics;
pub mod structured;
mod sum;
mod worker;

pub use self::catalog::{ColumnKind, ColumnSpec, InvalidTableName, NewestOf, TableName, TableSpec};
pub use self::cells::Cell;
pub use self::errors::{ErrorCode, QueryError};
pub use self::export::{ExportError, ExportFormat, Exported, Halt, export};
pub use self::gate::{STATEMENT_BYTES_MAX, check_form};
pub use self::parameters::{PARAMETERS_MAX, with_parameters};
pub use self::pool::{
    CancelHandle, Fingerprint, KillSwitches, QueryBackend, Running, RunningStatement, Statement,
    WorkerCounts, WorkerSettings, Workers, box_memory_bytes, own_program,
};
pub use self::protocol::{Cap, ColumnInfo, Outcome, PlanInfo};
pub use self::selftest::{Attempt, SelfTest, SelfTestReport};
pub use self::snapshot::manifest::FORMAT as SNAPSHOT_FORMAT;
pub use self::snapshot::{Applied, Changes, Key, Pin, SnapshotError, Snapshots, TableChange, TableStatus};
pub use self::spool::{ResultError, ResultFile};
pub use self::structured::{Compiled, Horizon, Structured};
pub use self::worker::worker_main;
