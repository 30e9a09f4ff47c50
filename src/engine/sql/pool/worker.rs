//! A worker process as the server sees it: how it is started, bound, asked, and ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::engine::sql::errors::QueryError;
use crate::engine::sql::protocol::{self, BindRequest, PREFIX_BYTES, Reply, Request};
use crate::engine::sql::snapshot::create_private;

/// What is kept of a worker's standard error, for the log.
const STDERR_BYTES_MAX: usize = 8 << 10;
/// How long the end of its standard error is waited for: a process of its own could hold it open.
const STDERR_WAIT: Duration = Duration::from_secs(1);
/// The command that makes the program a worker.
const WORKER_COMMAND: &str = "sql-worker";
/// How long a worker may take to come to rest after a statement; it gives up by itself before.
const REST_WAIT: Duration = Duration::from_secs(5);
/// Memory of its own with which a worker may rest. One that grew beyond gives it back by ending.
const RESTING_BYTES_MAX: u64 = 128 << 20;
/// Statements after which a worker is replaced, so that nothing can pile up in it for ever.
const STATEMENTS_MAX: u32 = 1_000;

/// Starts workers.
#[derive(Debug)]
pub(super) struct Nursery {
    exe: PathBuf,
    spill_dir: PathBuf,
    spawner: Spawner,
}

impl Nursery {
    pub(super) fn new(exe: PathBuf, spill_dir: PathBuf) -> io::Result<Self> {
        Ok(Self { exe, spill_dir, spawner: Spawner::start()? })
    }

    /// A worker that belongs to nobody yet.
    pub(super) async fn spawn(&self) -> Result<Worker, QueryError> {
        let home = Home::create(self.spill_dir.join(Uuid::now_v7().to_string()))?;
        let child = self.spawner.spawn(worker_command(&self.exe, &home.0)).await?;
        Ok(Worker { process: Process::new(child)?, home, bound: None, statements: 0 })
    }
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

/// A worker's own folder; gone when this is dropped.
#[derive(Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    fn create(path: PathBuf) -> io::Result<Self> {
        create_private(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).is_ok_and(|mut entries| entries.next().is_none())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What stays is removed at the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// To whom a worker belongs: the organization, and the very folder that it may read. (A folder that was removed and
/// made anew is another one to the kernel.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bond {
    pub(super) organization: Uuid,
    folder: Option<(u64, u64)>,
}

impl Bond {
    /// Of an organization with the folder that it has now.
    pub(super) fn of(organization: Uuid, folder: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(folder).ok();
        Self { organization, folder: found.map(|metadata| (metadata.dev(), metadata.ino())) }
    }

    /// Whether the organization had a folder.
    pub(super) fn has_folder(&self) -> bool {
        self.folder.is_some()
    }
}

/// A worker process with its folder.
#[derive(Debug)]
pub(super) struct Worker {
    // Dropped, and thereby killed, before its folder goes.
    pub(super) process: Process,
    pub(super) home: Home,
    pub(super) bound: Option<Bond>,
    statements: u32,
}

impl Worker {
    /// Makes it an organization's, for good.
    pub(super) async fn bind(&mut self, bond: Bond, request: BindRequest) -> io::Result<()> {
        match self.process.ask(&Request::Bind(request)).await? {
            Reply::Bound(_) => {
                self.bound = Some(bond);
                Ok(())
            }
            _ => Err(io::Error::other("a worker answered out of turn")),
        }
    }

    /// Whether it still answers.
    pub(super) async fn answers(&mut self) -> bool {
        let resting = tokio::time::timeout(REST_WAIT, self.process.ask(&Request::Rest)).await;
        matches!(resting, Ok(Ok(Reply::Resting)))
    }

    /// Whether the process still lives, as far as the kernel has said.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.process.child.try_wait(), Ok(None))
    }

    /// Lets it forget its statement; whether it may serve another one.
    pub(super) async fn rest(&mut self) -> bool {
        self.statements += 1;
        self.answers().await
            && self.statements < STATEMENTS_MAX
            && self.home.is_empty()
            && self.process.own_bytes().is_some_and(|bytes| bytes <= RESTING_BYTES_MAX)
    }
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
pub(super) struct Process {
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

    pub(super) async fn ask(&mut self, request: &Request) -> io::Result<Reply> {
        self.send(request).await?;
        self.receive().await
    }

    /// Waits a little for the process to end by itself.
    pub(super) async fn ended(&mut self, grace: Duration) -> Option<io::Result<ExitStatus>> {
        tokio::time::timeout(grace, self.child.wait()).await.ok()
    }

    /// Tells the kernel to end the process.
    pub(super) fn kill(&mut self) {
        // Fails only when it is dead already.
        let _ = self.child.start_kill();
    }

    /// Ends the process if it still lives, reaps it, and gives how it ended and what it said on standard error.
    pub(super) async fn end(mut self) -> (io::Result<ExitStatus>, String) {
        self.kill();
        let status = self.child.wait().await;
        let stderr = match tokio::time::timeout(STDERR_WAIT, &mut self.stderr).await {
            Ok(stderr) => stderr.unwrap_or_default(),
            Err(_) => {
                self.stderr.abort();
                Vec::new()
            }
        };
        (status, String::from_utf8_lossy(&stderr).into_owned())
    }

    /// Memory that is the process's own, as the kernel counts it; mapped segments are not.
    fn own_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    }
}

/// Ends a worker and takes its folder away, in this order.
pub(super) async fn end(worker: Worker) -> (io::Result<ExitStatus>, String) {
    let Worker { process, home, .. } = worker;
    let ended = process.end().await;
    drop(home);
    ended
}
