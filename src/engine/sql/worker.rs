//! The worker: one process, one statement. `gleaner sql-worker`, started by the server and by nobody else.
//!
//! In one process DataFusion cannot be held: joins went on 15 s after being aborted, `repeat` took 7 GB with the
//! memory pool at zero, a chain of operators overflowed the stack and took the process with it. Here that ends a
//! child: the server kills it at the time limit, `RLIMIT_DATA` (which leaves file mappings alone) ends it when it
//! allocates too much, and end of input or the parent's death ends it too. It starts with an empty environment in
//! an empty folder and gets everything it may know as its first message.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use rustix::process::{Resource, Rlimit, Signal};

use super::errors::{ErrorCode, QueryError};
use super::gate;
use super::protocol::{self, ColumnInfo, Outcome, PlanInfo, PlanRequest, Reply, Request, RunRequest};
use super::session;
use super::spool::{self, Spool};

/// What a process may allocate, in multiples of the memory pool: the pool does not see everything.
const DATA_LIMIT_POOLS: u64 = 4;
/// And this much besides, for stacks and the program itself.
const DATA_LIMIT_BASE_BYTES: u64 = 256 << 20;
/// Stack of the thread that plans; untouched pages cost nothing.
const PLAN_STACK_BYTES: usize = 64 << 20;
/// Stack of the threads that execute.
const RUN_STACK_BYTES: usize = 16 << 20;

/// Runs one statement as standard input says; the program's hidden command `sql-worker`.
///
/// Call it first thing in `main`: no other thread may be running and no configuration needs to be read.
pub fn worker_main() -> ExitCode {
    // The server may be gone already; then the end of input says so.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let mut input = io::stdin().lock();
    let Ok(Some(Request::Plan(plan))) = protocol::read(&mut input) else { return ExitCode::FAILURE };
    if let Err(error) = limit_resources(&plan) {
        eprintln!("the worker's limits cannot be set: {error}");
        return ExitCode::FAILURE;
    }
    let (runs, next) = channel();
    let engine = std::thread::Builder::new().stack_size(PLAN_STACK_BYTES).spawn(move || {
        let code = if serve(plan, &next).is_ok() { 0 } else { 1 };
        std::process::exit(code)
    });
    if let Err(error) = engine {
        eprintln!("the worker's thread cannot be started: {error}");
        return ExitCode::FAILURE;
    }
    while let Ok(Some(Request::Run(run))) = protocol::read(&mut input) {
        if runs.send(run).is_err() {
            break;
        }
    }
    // The server wants nothing more, or is gone: whatever the engine is doing, it is done.
    ExitCode::SUCCESS
}

fn limit_resources(plan: &PlanRequest) -> io::Result<()> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, none)?;
    let data = plan.memory_bytes.saturating_mul(DATA_LIMIT_POOLS).saturating_add(DATA_LIMIT_BASE_BYTES);
    rustix::process::setrlimit(Resource::Data, Rlimit { current: Some(data), maximum: Some(data) })?;
    Ok(())
}

/// Plans, answers, and runs if asked to. An error means that the server does not listen any more.
fn serve(request: PlanRequest, runs: &Receiver<RunRequest>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(session::PARTITIONS)
        .thread_stack_size(RUN_STACK_BYTES)
        .enable_time()
        .build()?;
    let planned = match caught(|| runtime.block_on(plan(request))) {
        Ok(planned) => planned,
        Err(error) => return answer(&Reply::Failed(error)),
    };
    answer(&Reply::Planned(planned.info.clone()))?;
    let Ok(run) = runs.recv() else { return Ok(()) };
    let reply = match caught(|| runtime.block_on(execute(planned, &run))) {
        Ok(outcome) => Reply::Finished(outcome),
        Err(error) => Reply::Failed(error),
    };
    answer(&reply)
}

/// A panic inside DataFusion is one failed statement; its text goes to standard error by the panic hook.
fn caught<T>(work: impl FnOnce() -> Result<T, QueryError>) -> Result<T, QueryError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(QueryError::internal("the worker panicked")))
}

fn answer(reply: &Reply) -> io::Result<()> {
    let mut output = io::stdout().lock();
    protocol::write(&mut output, reply)?;
    output.flush()
}

struct Planned {
    state: SessionState,
    plan: Arc<dyn ExecutionPlan>,
    info: PlanInfo,
}

async fn plan(request: PlanRequest) -> Result<Planned, QueryError> {
    let sql = request.sql.clone();
    let tables: BTreeSet<String> = request.tables.iter().map(|table| table.spec.name.to_string()).collect();
    let mut state = session::session(request)?;
    // What `now()` means for the whole statement.
    state.mark_start_execution();
    let admitted = gate::admit(&state, &sql, &tables).await?;
    // Constants are folded here, so a division by zero shows already; it is still the query that fails.
    let plan = state.create_physical_plan(&admitted.plan).await?;
    let (estimated_rows, estimated_bytes) = estimates(plan.as_ref());
    let columns = spool::columns(&plan.schema());
    let columns = columns.into_iter().map(|(name, type_name)| ColumnInfo { name, type_name }).collect();
    let info = PlanInfo {
        statement: "SELECT".to_owned(),
        tables: admitted.tables,
        columns,
        estimated_rows,
        estimated_bytes,
    };
    Ok(Planned { state, plan, info })
}

/// Rows that come out, and bytes that the scans read.
fn estimates(plan: &dyn ExecutionPlan) -> (Option<u64>, Option<u64>) {
    let compute =
        |plan: &dyn ExecutionPlan| StatisticsContext::new().compute(plan, &StatisticsArgs::new()).ok();
    let rows = compute(plan).and_then(|statistics| statistics.num_rows.get_value().copied());
    let mut bytes = 0_u64;
    let mut stack: Vec<&dyn ExecutionPlan> = vec![plan];
    while let Some(node) = stack.pop() {
        let children = node.children();
        if children.is_empty() {
            let own = compute(node).and_then(|statistics| statistics.total_byte_size.get_value().copied());
            bytes = bytes.saturating_add(own.unwrap_or(0) as u64);
        }
        stack.extend(children.into_iter().map(AsRef::as_ref));
    }
    (rows.map(|rows| rows as u64), Some(bytes))
}

async fn execute(planned: Planned, run: &RunRequest) -> Result<Outcome, QueryError> {
    let mut stream = execute_stream(planned.plan, planned.state.task_ctx())?;
    let mut spool = Spool::create(&run.result, &stream.schema(), run.rows_max, run.bytes_max)?;
    while let Some(batch) = stream.next().await {
        let more = spool.push(&batch?)?;
        if !more {
            break;
        }
    }
    drop(stream);
    spool.finish()
}

impl From<io::Error> for QueryError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::StorageFull {
            return Self::new(ErrorCode::Transient, "There is no disk space for the result.")
                .with_detail(error);
        }
        Self::internal(error)
    }
}
