//! What server and worker say to each other: length-prefixed JSON over the worker's standard input and output.
//!
//! A worker is started before anybody needs it and waits. Its first message is `Bind`: from then on it belongs to one
//! organization, locks itself in and answers `Bound`. Then, for each statement, it gets `Plan`, answers `Planned` or
//! `Failed`, and if it is to run what it has planned, `Finished` or `Failed` after that; then `Rest`, upon which it
//! forgets the statement and answers `Resting` when nothing of it is left. End of input means that the server wants nothing
//! more, and the worker leaves; a server that is gone takes it along (`worker`).

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::catalog::TableSpec;
use super::errors::QueryError;
use super::sandbox::SandboxSupport;

/// Largest message: 2,000 segments take about 500 KB.
pub(super) const FRAME_BYTES_MAX: usize = 64 << 20;
/// Largest message of a worker: the columns of a plan take 300 KB.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Bytes of the length before a message.
pub(super) const PREFIX_BYTES: usize = 4;

/// From the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Bind(BindRequest),
    Plan(PlanRequest),
    Rest,
}

/// To whom a worker belongs, and its walls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BindRequest {
    /// The organization's segments; none when it has no folder yet.
    pub(super) segments: Option<PathBuf>,
    /// The segments of tables that are the same for every organization, if there are any.
    pub(super) shared: Option<PathBuf>,
    /// The worker's own folder: what it spills, and results until the server takes them.
    pub(super) home: PathBuf,
    /// The memory pool of a statement.
    pub(super) memory_bytes: u64,
    /// What the process may allocate.
    pub(super) data_bytes_max: u64,
    pub(super) spill_bytes_max: u64,
    pub(super) result_bytes_max: u64,
}

/// Everything a worker may know of a statement.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlanRequest {
    pub(super) sql: String,
    /// None: those of the statement before. They take more to say and to understand than most statements do.
    pub(super) tables: Option<Vec<TableSource>>,
    /// Only what belongs to this agent.
    pub(super) agent: Option<Uuid>,
    /// What `now()` is; none: the machine's time.
    pub(super) now_ms: Option<i64>,
    /// None: it is only planned.
    pub(super) run: Option<RunRequest>,
}

/// A table and the files it is read from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TableSource {
    pub(super) spec: TableSpec,
    pub(super) segments: Vec<SegmentSource>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SegmentSource {
    pub(super) path: PathBuf,
    pub(super) rows: usize,
    pub(super) bytes: u64,
    pub(super) deletions: Option<DeletionsSource>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DeletionsSource {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) rows: usize,
    pub(super) sum: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunRequest {
    /// A file in the worker's own folder.
    pub(super) result: PathBuf,
    pub(super) rows_max: u64,
}

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Bound(SandboxSupport),
    Resting,
    Planned(PlanInfo),
    Finished(Outcome),
    Failed(QueryError),
}

/// What planning found out; on the wire it is the `dryRun` object of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanInfo {
    /// The kind of statement: `SELECT` or `EXPLAIN`.
    pub statement: String,
    /// The tables it reads, sorted.
    pub tables: Vec<String>,
    /// The columns of its result.
    pub columns: Vec<ColumnInfo>,
    /// Rows of the result, if they can be estimated.
    pub estimated_rows: Option<u64>,
    /// Bytes that will be read, estimated from the columns and segments concerned.
    pub estimated_bytes: Option<u64>,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnInfo {
    /// Its name, unique in the result.
    pub name: String,
    /// Its type, by PostgreSQL's name.
    #[serde(rename = "type")]
    pub type_name: String,
}

/// What running gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Rows in the result file.
    pub rows: u64,
    /// Bytes of the result file.
    pub bytes: u64,
    /// The cap at which the result was cut, if it was.
    pub truncated: Option<Cap>,
}

/// A cap on results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// The number of rows.
    Rows,
    /// The size in bytes.
    Bytes,
}

/// A message with its length in front.
pub(super) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PREFIX_BYTES];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - PREFIX_BYTES;
    let prefix = u32::try_from(length).ok().filter(|_| length <= FRAME_BYTES_MAX);
    let prefix = prefix.ok_or_else(|| io::Error::other("a message to a worker is too long"))?;
    bytes[..PREFIX_BYTES].copy_from_slice(&prefix.to_be_bytes());
    Ok(bytes)
}

/// Checks the length of a message to a worker.
fn frame_length(prefix: [u8; PREFIX_BYTES]) -> io::Result<usize> {
    length_within(prefix, FRAME_BYTES_MAX)
}

/// Checks the length of a message from a worker, who may say anything.
pub(super) fn reply_length(prefix: [u8; PREFIX_BYTES]) -> io::Result<usize> {
    length_within(prefix, REPLY_BYTES_MAX)
}

fn length_within(prefix: [u8; PREFIX_BYTES], max: usize) -> io::Result<usize> {
    match usize::try_from(u32::from_be_bytes(prefix)) {
        Ok(length) if length <= max => Ok(length),
        _ => Err(io::Error::other("a message is too long")),
    }
}

/// Reads one message; `None` at the end of input.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut prefix = [0; PREFIX_BYTES];
    match from.read_exact(&mut prefix) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut bytes = vec![0; frame_length(prefix)?];
    from.read_exact(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Writes one message.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&frame(message)?)?;
    to.flush()
}
