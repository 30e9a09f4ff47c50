//! SQL over an organization's data: snapshots, statements in processes of their own, results.
//!
//! What runs in the server: [`snapshot`] takes changes in and pins what a statement reads; [`process`] gives a statement
//! its turn and a worker, and ends it at its limit; [`spool`] pages the result. What runs in the child stands in `worker`:
//! DataFusion over exactly the pinned tables, behind the walls of [`sandbox`], with what it plans (`gate`, `postgres`) and
//! reads (`scan`). The two share the files and `protocol`, nothing else: what a hostile statement can reach is one process
//! that holds one organization's mapped segments.

pub mod catalog;
pub mod cells;
mod checked;
mod classified;
mod dates;
mod errors;
mod export;
mod extremes;
mod gate;
mod information;
mod limits;
mod mapped;
mod names;
mod newest;
mod ordered;
mod parameters;
mod postgres;
pub mod process;
mod protocol;
mod reasons;
pub mod sandbox;
mod scan;
mod segment;
pub mod snapshot;
pub mod spool;
pub mod structured;
mod sum;
mod worker;

pub use self::catalog::{
    ColumnKind, ColumnSpec, InvalidTableName, JoinedColumns, NewestOf, TableName, TableSpec,
};
pub use self::cells::Cell;
pub use self::errors::{ErrorCode, QueryError};
pub use self::export::{ExportError, ExportFormat, Exported, Halt, export, write_rows};
pub use self::gate::{STATEMENT_BYTES_MAX, check_form};
pub use self::parameters::{PARAMETERS_MAX, with_parameters};
pub use self::process::{
    CancelHandle, Fingerprint, KillSwitches, QueryBackend, QueueTicket, RunningStatement, Statement,
    StatementHandle, Turn, WorkerCounts, WorkerSettings, Workers, box_memory_bytes, own_program,
};
pub use self::protocol::{Cap, ColumnInfo, Outcome, PlanInfo};
pub use self::snapshot::manifest::FORMAT as SNAPSHOT_FORMAT;
pub use self::snapshot::{
    Applied, Changes, Key, Pin, SHARED, SnapshotError, Snapshots, TableChange, TableStatus,
};
pub use self::spool::{ResultError, ResultFile};
pub use self::structured::{Compiled, Horizon, Structured};
pub use self::worker::selftest::{Attempt, SelfTest, SelfTestReport};
pub use self::worker::worker_main;
