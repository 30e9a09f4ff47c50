//! The worker: `gleaner sql-worker`, started by the server and by nobody else; one statement at a time, and those of
//! one organization only.
//!
//! In one process DataFusion cannot be held: joins went on 15 s after being aborted, `repeat` took 7 GB with the
//! memory pool at zero, a chain of operators overflowed the stack and took the process with it. Here that ends a
//! child: the server kills it at the time limit, `RLIMIT_DATA` (which leaves file mappings alone) ends it when it
//! allocates too much, and the parent's death ends it too. It starts with an empty environment in an empty folder of its
//! own, waits until it is bound to an organization, and locks itself in (`sandbox`) before it has a second thread.
//!
//! What does not change from one statement to the next is kept: the session with its hundreds of functions, and the tables
//! while the server says that they are the same. Of a small statement that was a good part.

pub(crate) mod agent;
mod constants;
mod explain;
pub(crate) mod joined;
mod logical;
mod pushdown;
pub(crate) mod selftest;
mod semi;
pub(crate) mod session;
mod statistics;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use rustix::process::Signal;
use tokio::runtime::Runtime;
use uuid::Uuid;

use self::session::Session;
use crate::catalog::TableMap;
use crate::errors::QueryError;
use crate::gate;
use crate::protocol::{
    self, BindRequest, ColumnInfo, Outcome, PlanInfo, PlanRequest, Reply, Request, RunRequest,
};
use crate::sandbox::{self, Confinement};
use crate::scan::forget_others;
use crate::spool::{self, Spool};

/// What a worker is called in lists of processes, which would show the path's last part otherwise.
const PROCESS_NAME: &str = "gleaner-sql";
/// Stack of the thread that plans; untouched pages cost nothing.
pub(crate) const PLAN_STACK_BYTES: usize = 64 << 20;
/// Stack of the threads that execute.
const RUN_STACK_BYTES: usize = 16 << 20;
/// How long what a statement leaves behind (tasks that were told to stop) may take to end; then the worker does.
const REST_WAIT: Duration = Duration::from_millis(200);
/// How often that is looked at.
const REST_LOOK: Duration = Duration::from_millis(1);
/// How often a worker whose kernel does not tell looks whether its server lives.
const ORPHAN_LOOK: Duration = Duration::from_secs(1);
/// What a result file may hold beyond its cap: the batch that crossed it, and the footer.
const RESULT_SLACK_BYTES: u64 = 64 << 20;

/// Serves statements as standard input says; the program's hidden command `sql-worker`.
///
/// Call it first thing in `main`: no other thread may be running and no configuration needs to be read.
pub fn worker_main() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    if let (Some("--self-test"), Some(order)) = (arguments.next().as_deref(), arguments.next()) {
        return selftest::run(&order);
    }
    let _ = std::fs::write("/proc/self/comm", PROCESS_NAME);
    // When the box runs out of memory, it is a statement that the kernel ends and never the server. (proc(5); raising it
    // needs no right, and a kernel that does not let us is no reason not to work.)
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    sandbox::give_way();
    // The server may be gone already; then the end of input says so.
    let server = rustix::process::getppid();
    let dies_with_it = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    let mut input = io::stdin().lock();
    let Ok(Some(Request::Bind(bound))) = protocol::read(&mut input) else { return ExitCode::SUCCESS };
    let confinement = Confinement {
        read: [bound.segments.as_deref(), bound.shared.as_deref()],
        write: &bound.home,
        data_bytes_max: bound.data_bytes_max,
        file_bytes_max: bound.spill_bytes_max.max(bound.result_bytes_max + RESULT_SLACK_BYTES),
    };
    match sandbox::enter(&confinement) {
        Ok(sandbox) => {
            if answer(&Reply::Bound(sandbox)).is_err() {
                return ExitCode::SUCCESS;
            }
        }
        Err(error) => {
            eprintln!("the worker cannot be locked in: {error}");
            return ExitCode::FAILURE;
        }
    }
    drop(input);
    let engine = std::thread::Builder::new().stack_size(PLAN_STACK_BYTES).spawn(move || {
        let code = match Engine::new(bound).and_then(|mut engine| engine.serve()) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("the worker leaves: {error}");
                1
            }
        };
        // Without waiting for what a statement may have left behind.
        std::process::exit(code)
    });
    let engine = match engine {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("the worker's thread cannot be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Where the kernel does not end it with its server, it has to look.
    while !dies_with_it && !engine.is_finished() && rustix::process::getppid() == server {
        std::thread::sleep(ORPHAN_LOOK);
    }
    if dies_with_it {
        let _: Result<(), _> = engine.join();
    }
    ExitCode::FAILURE
}

/// What serves one statement after the other.
struct Engine {
    bound: BindRequest,
    runtime: ManuallyDrop<Runtime>,
    session: Session,
    /// Of the last statement.
    tables: TableMap,
}

/// A statement that can be run.
struct PlannedStatement {
    plan: Arc<dyn ExecutionPlan>,
    info: PlanInfo,
}

impl Engine {
    fn new(bound: BindRequest) -> io::Result<Self> {
        note_panics();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(session::PARTITIONS)
            .thread_stack_size(RUN_STACK_BYTES)
            .enable_time()
            .build()?;
        let session = Session::new(&bound).map_err(io::Error::other)?;
        Ok(Self { bound, runtime: ManuallyDrop::new(runtime), session, tables: TableMap::new() })
    }

    /// Takes statements until the input ends. An error means that the server does not listen any more, or that a statement
    /// left something behind.
    fn serve(&mut self) -> io::Result<()> {
        let mut input = io::stdin().lock();
        while let Some(request) = protocol::read(&mut input)? {
            match request {
                Request::Bind(_) => return Err(io::Error::other("bound twice")),
                Request::Plan(request) => self.statement(request)?,
                Request::Rest => {
                    self.rest()?;
                    answer(&Reply::Resting)?;
                }
            }
        }
        Ok(())
    }

    fn statement(&mut self, mut request: PlanRequest) -> io::Result<()> {
        let run = request.run.take();
        let planned = match caught(|| self.plan(request)) {
            Ok(planned) => planned,
            Err(error) => return answer(&Reply::Failed(error)),
        };
        answer(&Reply::Planned(planned.info))?;
        let Some(run) = run else { return Ok(()) };
        let plan = planned.plan;
        let ran = caught(|| self.execute(Arc::clone(&plan), &run));
        answer(&ran.map_or_else(Reply::Failed, Reply::Finished))?;
        // The server goes on while what belonged to the statement is dropped.
        drop(plan);
        Ok(())
    }

    fn plan(&mut self, request: PlanRequest) -> Result<PlannedStatement, QueryError> {
        if let Some(sources) = request.tables {
            forget_others(&sources);
            self.tables = session::segment_tables(sources);
        }
        self.session.set_now(request.now_ms);
        self.runtime.block_on(plan(&mut self.session, self.tables.clone(), &request.sql, request.agent))
    }

    fn execute(&self, plan: Arc<dyn ExecutionPlan>, run: &RunRequest) -> Result<Outcome, QueryError> {
        let context = self.session.task_context();
        self.runtime.block_on(execute(plan, context, run, self.bound.result_bytes_max))
    }

    /// Waits until no task of a statement runs any more. One that does not yield is not waited for.
    fn rest(&self) -> io::Result<()> {
        let began = Instant::now();
        while self.runtime.metrics().num_alive_tasks() > 0 {
            if began.elapsed() > REST_WAIT {
                return Err(io::Error::other("a statement does not end"));
            }
            std::thread::sleep(REST_LOOK);
        }
        if !self.session.is_clear() {
            return Err(io::Error::other("a statement holds memory or disk beyond its end"));
        }
        Ok(())
    }
}

/// Where the last panic of any thread was, for whoever reads the log: a message such as "index out of bounds" does not say
/// in which crate. No backtrace: behind its walls a worker cannot read its own symbols.
static PANICKED_AT: Mutex<Option<String>> = Mutex::new(None);

/// Has [`caught`] know where a panic was. Standard error goes on to hear of it, too.
fn note_panics() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        *PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner) =
            panic.location().map(ToString::to_string);
        say(panic);
    }));
}

/// A panic inside DataFusion is one failed statement; its text and its place go to the log.
fn caught<T>(work: impl FnOnce() -> Result<T, QueryError>) -> Result<T, QueryError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        let place = PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner).take();
        let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
        // How Arrow says it, where an array is built and not asked whether it can be.
        if text.contains("offset overflow") {
            return Err(QueryError::out_of_offsets().with_detail(format!("{text}{place}")));
        }
        Err(QueryError::internal(format!("the worker panicked{place}: {text}")))
    })
}

fn answer(reply: &Reply) -> io::Result<()> {
    let mut output = io::stdout().lock();
    protocol::write(&mut output, reply)?;
    output.flush()
}

async fn plan(
    session: &mut Session,
    all: TableMap,
    sql: &str,
    of_agent: Option<Uuid>,
) -> Result<PlannedStatement, QueryError> {
    let mut tables: BTreeSet<String> = all.keys().cloned().collect();
    let in_scope = of_agent.map(|id| agent::conditions(&all, id));
    let joined = joined::queries(&all, sql);
    let mut state = if joined.is_empty() {
        session.begin(all)
    } else {
        let views = joined::views(session.begin(all.clone()), joined).await?;
        session.begin(all.into_iter().chain(views).collect())
    };
    if let Some(conditions) = in_scope {
        let own = agent::tables(state, conditions).await?;
        tables = own.keys().cloned().collect();
        state = session.begin(own);
    }
    let admitted = gate::admit(state, sql, &tables).await.map_err(QueryError::while_planned)?;
    let plan = state.create_physical_plan(&admitted.plan).await;
    let plan = plan.map_err(|error| {
        let names_outside = gate::names_outside(&admitted.plan).unwrap_or(false);
        gate::placed(QueryError::while_optimized(error, names_outside), sql)
    })?;
    let json = if admitted.explained { Vec::new() } else { admitted.json };
    let (plan, statement) = match admitted.explained {
        false => (plan, "SELECT"),
        // An agent sees some of a table's rows, and is not told how many others there are.
        true => (explained(state, &admitted.plan, of_agent.is_none()).await?, "EXPLAIN"),
    };
    try_constants(&plan, state.task_ctx()).await.map_err(|error| gate::placed(error, sql))?;
    // Neither is it told by an estimate.
    let (estimated_rows, estimated_bytes) =
        if of_agent.is_none() { estimates(plan.as_ref()) } else { (None, None) };
    spool::check_columns(&plan.schema())?;
    let columns = spool::columns(&plan.schema());
    let json = json.into_iter().chain(std::iter::repeat(false));
    let columns = columns.into_iter().zip(json).map(|((name, type_name), is_json)| {
        // A list of it ends with the brackets of one.
        let type_name = if is_json { type_name.replacen("text", "json", 1) } else { type_name };
        ColumnInfo { name, type_name }
    });
    let info = PlanInfo {
        statement: statement.to_owned(),
        tables: admitted.tables,
        columns: columns.collect(),
        estimated_rows,
        estimated_bytes,
    };
    Ok(PlannedStatement { plan, info })
}

/// A plan that gives the lines of another one.
async fn explained(
    state: &SessionState,
    plan: &LogicalPlan,
    counts: bool,
) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
    let table = explain::table(&state.optimize(plan)?, counts)?;
    Ok(table.scan(state, None, &[], None).await?)
}

/// Works out a statement that is of one row and reads no table: where that fails, it fails whenever it is sent, and is
/// refused like any other that cannot be run.
async fn try_constants(plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<(), QueryError> {
    let mut node = plan;
    loop {
        match node.children().as_slice() {
            [below] if makes_something(node) => node = *below,
            [] if node.is::<PlaceholderRowExec>() => break,
            _ => return Ok(()),
        }
    }
    let tried = datafusion::physical_plan::collect(Arc::clone(plan), context).await;
    tried.map(drop).map_err(|error| QueryError::from(error).while_planned())
}

/// Whether a step works something out; what was folded into a value has been worked out already.
fn makes_something(step: &Arc<dyn ExecutionPlan>) -> bool {
    let projection = step.downcast_ref::<ProjectionExec>();
    projection.is_some_and(|projection| projection.expr().iter().any(|own| !own.expr.is::<Literal>()))
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

async fn execute(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    run: &RunRequest,
    bytes_max: u64,
) -> Result<Outcome, QueryError> {
    let mut stream = execute_stream(plan, context)?;
    let mut spool = Spool::create(&run.result, &stream.schema(), run.rows_max, bytes_max)?;
    while let Some(batch) = stream.next().await {
        let more = spool.push(&batch?)?;
        if !more {
            break;
        }
    }
    drop(stream);
    spool.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::ErrorCode;

    #[test]
    fn arrays_that_overflow_are_said_in_words_and_other_panics_are_ours() {
        let failed =
            |text: &'static str| caught(|| -> Result<(), QueryError> { panic!("{text}") }).unwrap_err();
        let overflown = failed("byte array offset overflow");
        assert!(overflown.message.contains("2 GiB") && !overflown.retriable, "{overflown:?}");
        assert_eq!(failed("index out of bounds").code, ErrorCode::Internal);
    }
}
