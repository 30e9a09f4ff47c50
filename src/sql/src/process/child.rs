//! A worker process as the server sees it: how it is started, bound, asked, and ended.
//!
//! A process belongs to its supervisor, a task that waits for its end; everybody else has a [`WorkerProcess`], which speaks to it.
//! When that is dropped, at whatever point of a statement, the supervisor kills the process, and only when it is gone it
//! removes the worker's folder and lets go of what the statement was charged with: its place in the line above all.

use std::any::Any;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use super::sources;
use crate::catalog::TableSpec;
use crate::errors::QueryError;
use crate::protocol::{self, BindRequest, PREFIX_BYTES, Reply, Request, TableSource};
use crate::sandbox::SandboxSupport;
use crate::snapshot::Pin;
use crate::snapshot::manifest::Snapshot;

/// What is kept of a worker's standard error, for the log.
const STDERR_BYTES_MAX: usize = 8 << 10;
/// How long the end of its standard error is waited for: a process of its own could hold it open.
const STDERR_WAIT: Duration = Duration::from_secs(1);
/// The command that makes the program a worker.
const WORKER_COMMAND: &str = "sql-worker";
/// What a worker is called in a list of processes, whatever the path that it was started by.
const WORKER_NAME: &str = "gleaner";
/// How long a worker may take to come to rest after a statement; it gives up by itself before.
const REST_WAIT: Duration = Duration::from_secs(5);
/// Memory of its own with which a worker may rest. One that grew beyond gives it back by ending.
const RESTING_BYTES_MAX: u64 = 128 << 20;
/// Statements after which a worker is replaced, so that nothing can pile up in it for ever.
const STATEMENTS_MAX: u32 = 1_000;

/// Starts workers.
#[derive(Debug)]
pub(super) struct WorkerSpawner {
    exe: PathBuf,
    spill_dir: PathBuf,
    thread: SpawnThread,
}

impl WorkerSpawner {
    pub(super) fn new(exe: PathBuf, spill_dir: PathBuf) -> io::Result<Self> {
        Ok(Self { exe, spill_dir, thread: SpawnThread::start()? })
    }

    /// A worker that belongs to nobody yet.
    pub(super) async fn spawn(&self) -> Result<WorkerProcess, QueryError> {
        let home = ScratchFolder::create(self.spill_dir.join(Uuid::now_v7().to_string()))?;
        let child = self.thread.spawn(worker_command(&self.exe, &home.0)).await?;
        WorkerProcess::of(child, home)
    }
}

fn worker_command(exe: &Path, folder: &Path) -> Command {
    let mut command = Command::new(exe);
    command
        .arg0(WORKER_NAME)
        .arg(WORKER_COMMAND)
        // For whoever looks at the list of processes.
        .arg(folder)
        .env_clear()
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A worker's own folder; gone when this is dropped.
#[derive(Debug)]
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn create(path: PathBuf) -> io::Result<Self> {
        disk::make_scratch(&path)?;
        Ok(Self(path))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What stays is removed at the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// To whom a worker belongs: the organization, and the very folder that it may read. (A folder that was removed and
/// made anew is another one to the kernel.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) organization: Uuid,
    folder: Option<(u64, u64)>,
    /// The folder of what is the same for every organization.
    shared: Option<(u64, u64)>,
}

impl Binding {
    /// Of an organization with the folder that it has now.
    pub(super) fn of(organization: Uuid, folder: &Path, shared: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let found = |folder: &Path| {
            let metadata = fs::metadata(folder).ok();
            metadata.map(|metadata| (metadata.dev(), metadata.ino()))
        };
        Self { organization, folder: found(folder), shared: found(shared) }
    }

    /// Whether the organization had a folder.
    pub(super) fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// Whether there is anything that all organizations share.
    pub(super) fn has_shared(&self) -> bool {
        self.shared.is_some()
    }
}

/// What a statement is charged with for as long as the process that ran it may do anything.
pub(super) type ResourceLease = Arc<dyn Any + Send + Sync>;

/// How a process ended.
#[derive(Clone, Debug)]
pub(super) struct ProcessExit {
    /// None when the kernel did not tell.
    pub(super) status: Option<ExitStatus>,
    /// The beginning of what it said on standard error.
    pub(super) stderr: String,
}

impl ProcessExit {
    /// The signal that ended it.
    pub(super) fn signal(&self) -> Option<i32> {
        self.status.as_ref().and_then(ExitStatus::signal)
    }

    /// Whether it was killed; none of our own kills is ever asked about.
    pub(super) fn was_killed(&self) -> bool {
        self.signal() == Some(libc::SIGKILL)
    }
}

/// A worker process. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    pub(super) bound: Option<Binding>,
    input: ChildStdin,
    output: ChildStdout,
    home: PathBuf,
    process_id: Option<u32>,
    statements: u32,
    known: Option<KnownTables>,
    lease: Arc<Mutex<Option<ResourceLease>>>,
    /// Tells the supervisor to kill; so does dropping it.
    kill: watch::Sender<bool>,
    ended: watch::Receiver<Option<ProcessExit>>,
}

impl WorkerProcess {
    fn of(mut child: Child, home: ScratchFolder) -> Result<Self, QueryError> {
        let (Some(input), Some(output), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(QueryError::internal("a worker without pipes"));
        };
        let (kill, killed) = watch::channel(false);
        let (tell, ended) = watch::channel(None);
        let (path, process_id) = (home.0.clone(), child.id());
        let lease = Arc::<Mutex<Option<ResourceLease>>>::default();
        tokio::spawn(supervise(Supervised { child, home, lease: Arc::clone(&lease) }, stderr, killed, tell));
        let (bound, known, statements) = (None, None, 0);
        Ok(Self { bound, input, output, home: path, process_id, statements, known, lease, kill, ended })
    }

    /// Its own folder.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Charges it with what nobody else may have until it has come to rest or is gone.
    pub(super) fn hold(&self, lease: ResourceLease) {
        *self.lease.lock() = Some(lease);
    }

    /// What it was charged with; its statement has come to rest.
    pub(super) fn release(&self) -> Option<ResourceLease> {
        self.lease.lock().take()
    }

    /// Makes it an organization's, for good; gives what holds it.
    pub(super) async fn bind(
        &mut self,
        binding: Binding,
        request: BindRequest,
    ) -> io::Result<SandboxSupport> {
        match self.ask(&Request::Bind(request)).await? {
            Reply::Bound(sandbox) => {
                self.bound = Some(binding);
                Ok(sandbox)
            }
            _ => Err(io::Error::other("a worker answered out of turn")),
        }
    }

    /// What of a snapshot's tables it has to be told: nothing when it was told the same for the statement before.
    pub(super) fn tell(&mut self, pin: &Pin) -> Option<Vec<TableSource>> {
        // The weak one lets go of the snapshot's files, and yet no other snapshot can have its place.
        let told = KnownTables {
            snapshot: Arc::downgrade(&pin.snapshot),
            shared: Arc::downgrade(&pin.shared),
            tables: Arc::clone(&pin.tables),
        };
        if self.known.as_ref().is_some_and(|known| known.is(&told)) {
            return None;
        }
        self.known = Some(told);
        Some(sources(pin))
    }

    /// Whether the process still lives.
    pub(super) fn is_alive(&self) -> bool {
        // The supervisor may not have been told yet; the kernel knows. It is only looked at: the supervisor reaps it.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let id = self.process_id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        self.ended.borrow().is_none()
            && id.is_some_and(|id| matches!(waitid(WaitId::Pid(id), look), Ok(None)))
    }

    /// Lets it forget its statement; whether it may serve another one.
    pub(super) async fn rest(&mut self) -> bool {
        self.statements += 1;
        let resting = tokio::time::timeout(REST_WAIT, self.ask(&Request::Rest)).await;
        matches!(resting, Ok(Ok(Reply::Resting)))
            && self.statements < STATEMENTS_MAX
            && has_no_files(&self.home)
            && self.own_bytes().is_some_and(|bytes| bytes <= RESTING_BYTES_MAX)
    }

    pub(super) async fn send(&mut self, request: &Request) -> io::Result<()> {
        self.input.write_all(&protocol::frame(request)?).await?;
        self.input.flush().await
    }

    pub(super) async fn receive(&mut self) -> io::Result<Reply> {
        let mut prefix = [0; PREFIX_BYTES];
        self.output.read_exact(&mut prefix).await?;
        let mut bytes = vec![0; protocol::reply_length(prefix)?];
        self.output.read_exact(&mut bytes).await?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    async fn ask(&mut self, request: &Request) -> io::Result<Reply> {
        self.send(request).await?;
        self.receive().await
    }

    /// Waits a little for the process to end by itself.
    pub(super) async fn ended(&mut self, grace: Duration) -> Option<ProcessExit> {
        let ended = tokio::time::timeout(grace, self.ended.wait_for(Option::is_some)).await;
        ended.ok()?.ok()?.clone()
    }

    /// Ends the process if it still lives, and waits until it is gone; none when nobody can tell how it ended.
    pub(super) async fn end(mut self) -> Option<ProcessExit> {
        self.kill.send_replace(true);
        self.ended.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Memory that is the process's own, as the kernel counts it; mapped segments are not.
    fn own_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process_id?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    }
}

/// The tables that a worker knows.
#[derive(Debug)]
struct KnownTables {
    snapshot: Weak<Snapshot>,
    shared: Weak<Snapshot>,
    tables: Arc<Vec<Arc<TableSpec>>>,
}

impl KnownTables {
    fn is(&self, other: &KnownTables) -> bool {
        self.snapshot.ptr_eq(&other.snapshot)
            && self.shared.ptr_eq(&other.shared)
            && self.tables == other.tables
    }
}

/// Whether there is nothing in a worker's folder but empty folders (DataFusion's, for what it spills).
fn has_no_files(home: &Path) -> bool {
    let is_empty = |folder: &Path| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    fs::read_dir(home)
        .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| is_empty(&entry.path()))))
}

/// What its supervisor has of a worker, in the order in which it goes: the process, its folder, what it was charged with.
struct Supervised {
    child: Child,
    home: ScratchFolder,
    lease: Arc<Mutex<Option<ResourceLease>>>,
}

/// Waits for the end of a process, which it brings about when it is told to, and clears away.
async fn supervise(
    mut supervised: Supervised,
    stderr: ChildStderr,
    mut told: watch::Receiver<bool>,
    tell: watch::Sender<Option<ProcessExit>>,
) {
    let mut said = tokio::spawn(beginning(stderr));
    // An error means that nobody speaks to it any more.
    let told = async move { drop(told.wait_for(|kill| *kill).await) };
    let status = tokio::select! {
        status = supervised.child.wait() => status,
        () = told => {
            // Fails only when it is dead already.
            let _ = supervised.child.start_kill();
            supervised.child.wait().await
        }
    };
    let stderr = match tokio::time::timeout(STDERR_WAIT, &mut said).await {
        Ok(stderr) => stderr.unwrap_or_default(),
        Err(_) => {
            said.abort();
            String::new()
        }
    };
    tell.send_replace(Some(ProcessExit { status: status.ok(), stderr }));
    let Supervised { child, home, lease } = supervised;
    drop(child);
    // Gigabytes that were spilled take a while to be unlinked. (When the runtime ends, they are dropped here.)
    let _ = tokio::task::spawn_blocking(move || drop(home)).await;
    drop(lease.lock().take());
}

/// The beginning of what a process says on standard error. It is read to the end whatever comes, or the process would
/// block on a full pipe.
async fn beginning(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let room = STDERR_BYTES_MAX - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// A thread that does nothing but start workers. A worker asks the kernel to be killed when the *thread* that started
/// it ends (prctl(2), PR_SET_PDEATHSIG), and threads of a runtime may end while the program lives on.
#[derive(Debug)]
struct SpawnThread(Sender<SpawnRequest>);

type SpawnRequest = (Command, Handle, oneshot::Sender<io::Result<Child>>);

impl SpawnThread {
    fn start() -> io::Result<Self> {
        let (orders, received) = channel::<SpawnRequest>();
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
