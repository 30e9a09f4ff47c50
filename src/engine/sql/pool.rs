//! The server's side of the workers: starting, talking to, and ending them.
//!
//! Each statement gets a process of its own (5 ms from spawn to ready). It plans before `start` answers, so that a
//! statement that cannot run is refused at once; then it runs on its own until it has finished, its time is up, it
//! is canceled, or whoever waits for it goes away. In each of these cases the process is dead and reaped afterwards,
//! and its spill folder gone. Time limits need nobody's cooperation: they are SIGKILL.
//!
//! [`QueryBackend`] is the boundary: what submits statements knows this trait, so that warm workers, or many boxes,
//! can come behind it.

use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin as StdPin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use super::errors::{ErrorCode, QueryError};
use super::gate;
use super::protocol::{
    self, DeletionsSource, Outcome, PREFIX_BYTES, PlanInfo, PlanRequest, Reply, Request, RunRequest,
    SegmentSource, TableSource,
};
use super::snapshot::manifest::SegmentEntry;
use super::snapshot::{Pin, create_private};
use super::spool::PART_EXTENSION;

/// What is kept of a worker's standard error, for the log.
const STDERR_BYTES_MAX: usize = 8 << 10;
/// Statements that may wait for a worker, per worker.
const WAITING_PER_WORKER_MAX: usize = 8;
/// The command that makes the program a worker.
const WORKER_COMMAND: &str = "sql-worker";

/// How workers are run.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The program, usually `std::env::current_exe()`; it must call `worker_main` on the argument `sql-worker`.
    pub exe: PathBuf,
    /// Longest run of a statement, planning included.
    pub query_timeout: Duration,
    /// Memory pool of a statement; the process may take about four times as much.
    pub memory_bytes: u64,
    /// Disk a statement may spill to.
    pub spill_bytes_max: u64,
    /// Most rows of a result; the rest is cut off and said to be.
    pub rows_max: u64,
    /// Most bytes of a result, likewise.
    pub bytes_max: u64,
    /// Where statements spill; emptied at the start.
    pub spill_dir: PathBuf,
    /// Where results are kept, one folder an organization.
    pub results_dir: PathBuf,
    /// Statements that run at once.
    pub concurrency_box: usize,
}

/// A statement to run.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The snapshot it reads, and the tables it may see.
    pub pin: Pin,
    /// Its text.
    pub sql: String,
    /// Its identifier, which names the result.
    pub query_id: Uuid,
}

/// Where statements are planned and run.
pub trait QueryBackend: Send + Sync {
    /// Plans only.
    fn plan(&self, statement: Statement) -> BoxFuture<'_, Result<PlanInfo, QueryError>>;
    /// Plans, and lets the statement run if that went well.
    fn start(&self, statement: Statement) -> BoxFuture<'_, Result<(PlanInfo, Running), QueryError>>;
}

/// Cancels a running statement; may be cloned and used at any time, also after the end.
#[derive(Clone, Debug)]
pub struct CancelHandle(Arc<watch::Sender<bool>>);

impl CancelHandle {
    /// Asks for the end; `Running::wait` then gives `canceled`, unless the statement ended before.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

/// A statement that runs. Dropping it ends it.
pub struct Running {
    outcome: BoxFuture<'static, Result<Outcome, QueryError>>,
    cancel: CancelHandle,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Running")
    }
}

impl Running {
    /// A handle that cancels it from elsewhere.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Waits for the end; the result file then stands at `Workers::result_path`.
    pub async fn wait(self) -> Result<Outcome, QueryError> {
        self.await
    }
}

impl Future for Running {
    type Output = Result<Outcome, QueryError>;

    fn poll(mut self: StdPin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.outcome.as_mut().poll(context)
    }
}

/// A task that ends when nobody waits for it any more.
struct Task(JoinHandle<Result<Outcome, QueryError>>);

impl Future for Task {
    type Output = Result<Outcome, QueryError>;

    fn poll(mut self: StdPin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = std::task::ready!(StdPin::new(&mut self.0).poll(context));
        Poll::Ready(joined.unwrap_or_else(|error| Err(QueryError::internal(error))))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The workers of this box. Must be used inside a tokio runtime with I/O and time.
#[derive(Debug)]
pub struct Workers {
    settings: Arc<WorkerSettings>,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    spawner: Spawner,
}

impl Workers {
    /// Prepares the folders and removes what a crash left: spilled data and unfinished results.
    pub fn new(settings: WorkerSettings) -> io::Result<Self> {
        match fs::remove_dir_all(&settings.spill_dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => create_private(&settings.spill_dir)?,
        }
        create_private(&settings.results_dir)?;
        for organization in fs::read_dir(&settings.results_dir)? {
            let organization = organization?.path();
            for result in fs::read_dir(&organization).into_iter().flatten() {
                let result = result?.path();
                if result.extension().is_some_and(|extension| extension == PART_EXTENSION) {
                    fs::remove_file(result)?;
                }
            }
        }
        let slots = Arc::new(Semaphore::new(settings.concurrency_box.max(1)));
        Ok(Self {
            settings: Arc::new(settings),
            slots,
            waiting: AtomicUsize::new(0),
            spawner: Spawner::start()?,
        })
    }

    /// The folder of all results: in it one folder an organization.
    pub fn results_dir(&self) -> &Path {
        &self.settings.results_dir
    }

    /// Where the result of a query stands once it has succeeded.
    pub fn result_path(&self, organization: Uuid, query_id: Uuid) -> PathBuf {
        self.settings.results_dir.join(organization.to_string()).join(format!("{query_id}.arrow"))
    }

    /// The time limit of a statement.
    pub fn query_timeout(&self) -> Duration {
        self.settings.query_timeout
    }

    /// Statements that wait for a free worker.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for a free worker; the line is bounded.
    async fn slot(&self) -> Result<OwnedSemaphorePermit, QueryError> {
        let _place =
            Place::take(&self.waiting, self.settings.concurrency_box.max(1) * WAITING_PER_WORKER_MAX)?;
        Arc::clone(&self.slots).acquire_owned().await.map_err(QueryError::internal)
    }

    /// Starts a worker and lets it plan.
    async fn begin(&self, statement: Statement) -> Result<(PlanInfo, Session), QueryError> {
        gate::check_length(&statement.sql)?;
        let slot = self.slot().await?;
        let deadline = Instant::now() + self.settings.query_timeout;
        let result = self.result_path(statement.pin.organization(), statement.query_id);
        if let Some(folder) = result.parent() {
            create_private(folder)?;
        }
        let files = Files::create(self.settings.spill_dir.join(statement.query_id.to_string()), &result)?;
        let request = Request::Plan(PlanRequest {
            sql: statement.sql,
            tables: sources(&statement.pin),
            memory_bytes: self.settings.memory_bytes,
            spill_folder: files.spill.clone(),
            spill_bytes_max: self.settings.spill_bytes_max,
        });
        let process = self.spawner.spawn(worker_command(&self.settings.exe, &files.spill)).await?;
        let mut session = Session {
            process: Process::new(process)?,
            limit: self.settings.query_timeout,
            deadline,
            files,
            pin: statement.pin,
            slot,
        };
        let planned = tokio::time::timeout_at(deadline, session.process.ask(&request)).await;
        match planned {
            Ok(Ok(Reply::Planned(info))) => Ok((info, session)),
            Ok(reply) => Err(session.end(Some(reply)).await),
            Err(_) => Err(session.end(None).await),
        }
    }
}

impl QueryBackend for Workers {
    fn plan(&self, statement: Statement) -> BoxFuture<'_, Result<PlanInfo, QueryError>> {
        Box::pin(async move {
            let (info, session) = self.begin(statement).await?;
            session.close().await;
            Ok(info)
        })
    }

    fn start(&self, statement: Statement) -> BoxFuture<'_, Result<(PlanInfo, Running), QueryError>> {
        Box::pin(async move {
            let (info, mut session) = self.begin(statement).await?;
            let run = Request::Run(RunRequest {
                result: session.files.result.clone(),
                rows_max: self.settings.rows_max,
                bytes_max: self.settings.bytes_max,
            });
            session.process.send(&run).await.map_err(QueryError::internal)?;
            let (sender, canceled) = watch::channel(false);
            let cancel = CancelHandle(Arc::new(sender));
            // A task of its own, so that the time limit holds even while nobody polls.
            let task = Task(tokio::spawn(session.finish(canceled)));
            Ok((info, Running { outcome: Box::pin(task), cancel }))
        })
    }
}

/// A place in the line for a worker.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, most: usize) -> Result<Self, QueryError> {
        let place = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(QueryError {
                retriable: true,
                ..QueryError::new(
                    ErrorCode::TooManyQueries,
                    "Too many statements wait for their turn; send it later.",
                )
            });
        }
        Ok(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A statement's files that must not outlive it: what it spilled, and a result that was not finished.
#[derive(Debug)]
struct Files {
    spill: PathBuf,
    result: PathBuf,
}

impl Files {
    fn create(spill: PathBuf, result: &Path) -> io::Result<Self> {
        create_private(&spill)?;
        Ok(Self { spill, result: result.to_owned() })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What stays is removed at the next start.
        let _ = fs::remove_dir_all(&self.spill);
        let _ = fs::remove_file(self.result.with_extension(PART_EXTENSION));
    }
}

fn sources(pin: &Pin) -> Vec<TableSource> {
    let segment = |entry: &SegmentEntry| SegmentSource {
        path: entry.file.path.clone(),
        rows: entry.rows,
        bytes: entry.bytes,
        deletions: entry.deletions.as_ref().map(|d| DeletionsSource {
            path: d.file.path.clone(),
            offset: d.offset,
            bytes: d.bytes,
            rows: d.rows,
        }),
    };
    let table = |spec: &Arc<super::catalog::TableSpec>| {
        let mut entries: Vec<&SegmentEntry> =
            pin.snapshot.tables.get(spec.name.as_str()).into_iter().flatten().collect();
        entries.sort_by_key(|entry| entry.max_key);
        TableSource { spec: spec.as_ref().clone(), segments: entries.into_iter().map(segment).collect() }
    };
    pin.tables.iter().map(table).collect()
}

fn worker_command(exe: &Path, folder: &Path) -> Command {
    let mut command = Command::new(exe);
    command
        .arg(WORKER_COMMAND)
        .env_clear()
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A thread that does nothing but start workers. A worker asks the kernel to be killed when the *thread* that started
/// it ends (prctl(2), PR_SET_PDEATHSIG), and threads of a runtime may end while the program lives on.
#[derive(Debug)]
struct Spawner(Sender<Order>);

type Order = (Command, Handle, oneshot::Sender<io::Result<Child>>);

impl Spawner {
    fn start() -> io::Result<Self> {
        let (orders, received) = channel::<Order>();
        std::thread::Builder::new().name("sql-spawner".to_owned()).spawn(move || {
            for (mut command, runtime, answer) in received {
                let _entered = runtime.enter();
                // If nobody waits any more, the child is dropped here, which kills it.
                let _ = answer.send(command.spawn());
            }
        })?;
        Ok(Self(orders))
    }

    async fn spawn(&self, command: Command) -> Result<Child, QueryError> {
        let (answer, spawned) = oneshot::channel();
        self.0.send((command, Handle::current(), answer)).map_err(|_| QueryError::internal("no spawner"))?;
        Ok(spawned.await.map_err(QueryError::internal)??)
    }
}

/// A worker's process and its pipes.
#[derive(Debug)]
struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    stderr: JoinHandle<Vec<u8>>,
}

impl Process {
    fn new(mut child: Child) -> Result<Self, QueryError> {
        let (Some(input), Some(output), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(QueryError::internal("a worker without pipes"));
        };
        let stderr = tokio::spawn(async move {
            let mut kept = Vec::new();
            // Read to the end whatever comes, or the worker would block on a full pipe.
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
                let room = STDERR_BYTES_MAX - kept.len();
                kept.extend_from_slice(&buffer[..count.min(room)]);
            }
            kept
        });
        Ok(Self { child, input, output, stderr })
    }

    async fn send(&mut self, request: &Request) -> io::Result<()> {
        self.input.write_all(&protocol::frame(request)?).await?;
        self.input.flush().await
    }

    async fn receive(&mut self) -> io::Result<Reply> {
        let mut prefix = [0; PREFIX_BYTES];
        self.output.read_exact(&mut prefix).await?;
        let mut bytes = vec![0; protocol::frame_length(prefix)?];
        self.output.read_exact(&mut bytes).await?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    async fn ask(&mut self, request: &Request) -> io::Result<Reply> {
        self.send(request).await?;
        self.receive().await
    }

    /// Ends the process if it still lives, reaps it, and gives how it ended and what it said on standard error.
    async fn end(mut self) -> (io::Result<ExitStatus>, String) {
        // Fails only when it is dead already.
        let _ = self.child.start_kill();
        let status = self.child.wait().await;
        let stderr = self.stderr.await.unwrap_or_default();
        (status, String::from_utf8_lossy(&stderr).into_owned())
    }
}

/// A worker that has begun with a statement, and everything that must be held meanwhile.
struct Session {
    process: Process,
    limit: Duration,
    deadline: Instant,
    files: Files,
    pin: Pin,
    slot: OwnedSemaphorePermit,
}

impl Session {
    async fn close(self) {
        let Self { process, files, pin, slot, .. } = self;
        let _ = process.end().await;
        drop((files, pin, slot));
    }

    /// Waits for the end of the run, whichever comes first.
    async fn finish(mut self, mut canceled: watch::Receiver<bool>) -> Result<Outcome, QueryError> {
        enum End {
            Reply(io::Result<Reply>),
            Canceled,
            Timeout,
        }
        let end = tokio::select! {
            biased;
            reply = self.process.receive() => End::Reply(reply),
            () = told(&mut canceled) => End::Canceled,
            () = tokio::time::sleep_until(self.deadline) => End::Timeout,
        };
        let reply = match end {
            End::Reply(reply) => Some(reply),
            End::Timeout => None,
            End::Canceled => {
                self.close().await;
                return Err(QueryError::canceled());
            }
        };
        match reply {
            Some(Ok(Reply::Finished(outcome))) => {
                self.close().await;
                Ok(outcome)
            }
            other => Err(self.end(other).await),
        }
    }

    /// Ends the worker and says why there is nothing more to expect of it; `None` when its time is up.
    async fn end(self, reply: Option<io::Result<Reply>>) -> QueryError {
        let Self { mut process, limit, files, pin, slot, .. } = self;
        let error = match reply {
            None => QueryError::timed_out(limit),
            Some(Ok(Reply::Failed(error))) => error,
            Some(Ok(_)) => QueryError::internal("a worker answered out of turn"),
            Some(Err(broken)) => {
                // It is dying or dead; let it end on its own, so that its status tells why.
                let grace = tokio::time::timeout(Duration::from_secs(1), process.child.wait()).await;
                let (status, stderr) = process.end().await;
                let status = grace.unwrap_or(status);
                tracing::warn!(?status, stderr, "a SQL worker died");
                drop((files, pin, slot));
                return death(status.ok(), &stderr).with_detail(format!("{broken}; {stderr}"));
            }
        };
        let (_, stderr) = process.end().await;
        if error.code == ErrorCode::Internal {
            tracing::error!(detail = error.detail, stderr, "a SQL statement failed inside");
        }
        drop((files, pin, slot));
        error
    }
}

/// Ends when the statement is canceled; never, when everybody who could do that is gone.
async fn told(canceled: &mut watch::Receiver<bool>) {
    if canceled.wait_for(|canceled| *canceled).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What a worker's death says about its statement.
fn death(status: Option<ExitStatus>, stderr: &str) -> QueryError {
    use std::os::unix::process::ExitStatusExt;
    if stderr.contains("overflowed its stack") {
        return QueryError::failed("The statement is nested too deeply.");
    }
    if stderr.contains("memory allocation of") || stderr.contains("Cannot allocate memory") {
        return QueryError::out_of_memory();
    }
    match status.and_then(|status| status.signal()) {
        // The kernel's own killer, when the box runs out of memory; our kills never come here.
        Some(9) => QueryError::out_of_memory(),
        _ => QueryError::failed("The statement could not be run."),
    }
}
