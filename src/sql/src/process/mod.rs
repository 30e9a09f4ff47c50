//! The server's side of the workers: keeping them warm, talking to them, and ending them.
//!
//! A statement waits for its turn (`queue`), gets a worker that has served its organization or nobody yet (`idle`), and
//! is planned before `start` answers, so that a statement that cannot run is refused at once. Then it runs on its own
//! until it has finished, its time is up, it is canceled or switched off, or whoever waits for it goes away. After a
//! good end the worker rests and may serve the same organization again; in every other case, also when nobody waits for the
//! plan any more, the process is killed and reaped and its folder removed, and not before then its place is another's.
//! Time limits need nobody's cooperation: they are SIGKILL.
//!
//! [`QueryBackend`] is the boundary: what submits statements knows this trait, so that many boxes can come behind it.

mod child;
mod collect;
mod disk_watch;
mod idle;
mod kill_switch;
mod queue;
mod run;
mod settings;

use std::collections::HashMap;
use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin as StdPin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use self::child::{Binding, ResourceLease, WorkerProcess, WorkerSpawner};
use self::disk_watch::DiskWatch;
use self::idle::IdlePool;
pub use self::kill_switch::{Fingerprint, KillSwitches};
use self::queue::turned_away;
pub use self::queue::{QueueTicket, Turn};
use self::run::{PlanFailure, WorkerSession};
use self::settings::PLACES_KEPT;
pub use self::settings::{WorkerSettings, box_memory_bytes, own_program};
use super::errors::{ErrorCode, QueryError};
use super::gate;
use super::protocol::{BindRequest, DeletionsSource, Outcome, PlanInfo, SegmentSource, TableSource};
use super::sandbox::{self, SandboxSupport};
use super::snapshot::Pin;
use super::snapshot::manifest::SegmentEntry;
use super::snapshot::segments_of;
use base::line::{FairSemaphore, FairnessRules, OrganizationLimit};
use disk::{make_folder, make_scratch, open_folder};

/// Statements that may wait for a worker, per worker.
const WAITING_PER_WORKER_MAX: usize = 8;
/// How long a worker may take to lock itself in, which takes a millisecond on an idle box.
const BIND_WAIT: Duration = Duration::from_secs(10);
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
    /// Waits for its turn and plans only.
    fn plan(&self, statement: Statement) -> BoxFuture<'_, Result<PlanInfo, QueryError>>;
    /// Waits for its turn, plans, and lets the statement run if that went well.
    fn start(&self, statement: Statement) -> BoxFuture<'_, Result<(PlanInfo, StatementHandle), QueryError>>;
}

/// Cancels a running statement; may be cloned and used at any time, also after the end.
#[derive(Clone, Debug)]
pub struct CancelHandle(Arc<watch::Sender<bool>>);

impl CancelHandle {
    /// Asks for the end; `StatementHandle::wait` then gives `canceled`, unless the statement ended before.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

/// A statement that runs. Dropping it ends it.
pub struct StatementHandle {
    outcome: BoxFuture<'static, Result<Outcome, QueryError>>,
    cancel: CancelHandle,
}

impl std::fmt::Debug for StatementHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StatementHandle")
    }
}

impl StatementHandle {
    /// A handle that cancels it from elsewhere.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Waits for the end; the result file then stands at `Workers::result_path`, where [`Workers::sync_result`] makes it
    /// durable.
    pub async fn wait(self) -> Result<Outcome, QueryError> {
        self.await
    }
}

impl Future for StatementHandle {
    type Output = Result<Outcome, QueryError>;

    fn poll(mut self: StdPin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.outcome.as_mut().poll(context)
    }
}

/// A task that ends when nobody waits for it any more.
struct AbortingTask(JoinHandle<Result<Outcome, QueryError>>);

impl Future for AbortingTask {
    type Output = Result<Outcome, QueryError>;

    fn poll(mut self: StdPin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = std::task::ready!(StdPin::new(&mut self.0).poll(context));
        Poll::Ready(joined.unwrap_or_else(|error| Err(QueryError::internal(error))))
    }
}

impl Drop for AbortingTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A statement that is being planned or run, as the operator sees it.
#[derive(Clone, Debug)]
pub struct RunningStatement {
    pub organization: Uuid,
    pub query_id: Uuid,
    pub fingerprint: Fingerprint,
    pub since: SystemTime,
}

/// What the workers are at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Statements that are planned or run.
    pub running: usize,
    /// Statements that wait for their turn.
    pub waiting: usize,
    /// Workers that wait and belong to nobody.
    pub fresh: usize,
    /// Workers that wait for another statement of their organization.
    pub resting: usize,
}

type RunningList = Arc<Mutex<HashMap<Uuid, RunningStatement>>>;

/// An entry in the list of what runs; gone when dropped.
pub(super) struct RunningEntry {
    list: RunningList,
    query_id: Uuid,
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        self.list.lock().remove(&self.query_id);
    }
}

/// The workers of this box. Must be used inside a tokio runtime with I/O and time.
#[derive(Debug)]
pub struct Workers {
    settings: Arc<WorkerSettings>,
    queue: Arc<FairSemaphore<Uuid>>,
    idle: Arc<IdlePool>,
    disk: Arc<DiskWatch>,
    sandbox: SandboxSupport,
    switches: watch::Sender<Arc<KillSwitches>>,
    running: RunningList,
}

impl Workers {
    /// Prepares the folders and removes what a crash left of workers' folders.
    pub fn new(settings: WorkerSettings) -> io::Result<Self> {
        make_scratch(&settings.spill_dir)?;
        clear(&settings.spill_dir)?;
        open_folder(&settings.results_dir)?;
        let concurrency = settings.concurrency();
        if concurrency < settings.concurrency_box {
            tracing::warn!(
                concurrency,
                asked = settings.concurrency_box,
                memory_mb = settings.memory_bytes >> 20,
                share_mb = settings.memory_box_bytes >> 20,
                "fewer SQL statements run at once than asked for: their memory is more than the box's share"
            );
        }
        let spawner = WorkerSpawner::new(settings.exe.clone(), settings.spill_dir.clone())?;
        let folders = [settings.spill_dir.clone(), settings.results_dir.clone()];
        Ok(Self {
            disk: DiskWatch::new(folders, settings.reserve_bytes),
            sandbox: sandbox::support(),
            settings: Arc::new(settings),
            queue: FairSemaphore::new(FairnessRules {
                places: concurrency,
                kept: PLACES_KEPT,
                // Their short statements go past others' long ones at once.
                kept_after: Duration::ZERO,
                waiting_max: concurrency * WAITING_PER_WORKER_MAX,
            }),
            idle: IdlePool::new(spawner, concurrency),
            switches: watch::Sender::default(),
            running: RunningList::default(),
        })
    }

    /// Starts workers before anybody asks for one.
    pub fn warm(&self) {
        self.idle.restock();
    }

    /// The folder of all results: in it one folder an organization.
    pub fn results_dir(&self) -> &Path {
        &self.settings.results_dir
    }

    /// Where the result of a query stands once it has succeeded.
    pub fn result_path(&self, organization: Uuid, query_id: Uuid) -> PathBuf {
        self.settings.results_dir.join(organization.to_string()).join(format!("{query_id}.arrow"))
    }

    /// Brings a result to the disk, so that it outlives the machine's power. One that is gone meanwhile (it may be given up
    /// to make room) needs no disk.
    pub fn sync_result(
        &self,
        organization: Uuid,
        query_id: Uuid,
    ) -> impl Future<Output = io::Result<()>> + use<> {
        let path = self.result_path(organization, query_id);
        async move {
            match tokio::task::spawn_blocking(move || collect::sync(&path)).await {
                Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Ok(synced) => synced,
                Err(error) => Err(io::Error::other(error)),
            }
        }
    }

    /// The time limit of a statement.
    pub fn query_timeout(&self) -> Duration {
        self.settings.query_timeout
    }

    /// Statements that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// What the workers are at.
    pub fn counts(&self) -> WorkerCounts {
        let (fresh, resting) = self.idle.counts();
        WorkerCounts { running: self.queue.taken(), waiting: self.queue.waiting(), fresh, resting }
    }

    /// The statements that are planned or run, the longest first.
    pub fn running(&self) -> Vec<RunningStatement> {
        let mut running: Vec<_> = self.running.lock().values().cloned().collect();
        running.sort_by_key(|statement| statement.since);
        running
    }

    /// Switches statements off or on. What runs and is off now is ended.
    pub fn switch(&self, switches: KillSwitches) {
        self.switches.send_replace(Arc::new(switches));
    }

    /// Whether statements of an organization run or wait, or a worker has not let go of its last one.
    pub fn serves(&self, organization: Uuid) -> bool {
        self.queue.has(organization)
    }

    /// Ends the workers that rest for an organization, and returns when they are gone. For one that is being erased, once
    /// no statement of it is left.
    pub async fn forget(&self, organization: Uuid) {
        self.idle.forget(organization).await;
    }

    /// Refuses a statement that would be refused whenever its turn came.
    pub fn check(&self, organization: Uuid, sql: &str) -> Result<(), QueryError> {
        gate::check_length(sql)?;
        self.switches.borrow().check(organization, Fingerprint::of(sql))?;
        self.check_sandbox(self.sandbox)
    }

    /// A place in the queue for a statement of the organization, within its limit; an error when there is none.
    pub fn enqueue(&self, organization: Uuid, limit: OrganizationLimit) -> Result<QueueTicket, QueryError> {
        let joined = self.queue.join(organization, Some(limit));
        joined.map(QueueTicket).map_err(|why| turned_away(why, Some(limit)))
    }

    /// Plans only, in a turn that has come.
    pub async fn plan_in(&self, turn: &Turn, statement: Statement) -> Result<PlanInfo, QueryError> {
        let (info, session) = self.begin(turn, statement, false).await?;
        session.rest();
        Ok(info)
    }

    /// Plans, and lets the statement run if that went well, in a turn that has come.
    pub async fn start_in(
        &self,
        turn: &Turn,
        statement: Statement,
    ) -> Result<(PlanInfo, StatementHandle), QueryError> {
        let (info, session) = self.begin(turn, statement, true).await?;
        let (sender, canceled) = watch::channel(false);
        let cancel = CancelHandle(Arc::new(sender));
        // A task of its own, so that the time limit holds even while nobody polls.
        let task = AbortingTask(tokio::spawn(session.finish(canceled)));
        Ok((info, StatementHandle { outcome: Box::pin(task), cancel }))
    }

    /// The turn of a statement that no organization's limit counts.
    async fn own_turn(&self, statement: &Statement) -> Result<Turn, QueryError> {
        let organization = statement.pin.organization();
        self.check(organization, &statement.sql)?;
        let ticket = self.queue.join(organization, None).map_err(|why| turned_away(why, None))?;
        QueueTicket(ticket).turn().await
    }

    /// Gets a worker and lets it plan, and run what it has planned if `is_run`.
    async fn begin(
        &self,
        turn: &Turn,
        statement: Statement,
        is_run: bool,
    ) -> Result<(PlanInfo, WorkerSession), QueryError> {
        let Statement { pin, sql, query_id } = statement;
        let organization = pin.organization();
        let fingerprint = Fingerprint::of(&sql);
        let switches = self.switches.subscribe();
        self.check(organization, &sql)?;
        let lease: ResourceLease = Arc::new((turn.worker_slot().await?, pin.clone()));
        let listed = Arc::new(self.list(organization, query_id, fingerprint));
        let deadline = Instant::now() + self.settings.query_timeout;
        let result = self.result_path(organization, query_id);
        if let Some(folder) = result.parent() {
            make_folder(folder)?;
        }
        let mut is_second = false;
        loop {
            let mut off = switches.clone();
            let (worker, has_rested) = tokio::select! {
                worker = self.worker(&pin, &lease) => worker?,
                error = switched_off(&mut off, organization, fingerprint) => return Err(error),
                () = tokio::time::sleep_until(deadline) => {
                    return Err(QueryError::timed_out(self.settings.query_timeout));
                }
            };
            let session = WorkerSession {
                claim: self.disk.hold(query_id, worker.home()),
                disk: Arc::clone(&self.disk),
                worker,
                has_rested,
                idle: Arc::clone(&self.idle),
                settings: Arc::clone(&self.settings),
                deadline,
                organization,
                query_id,
                fingerprint,
                switches: switches.clone(),
                result: result.clone(),
                listed: Arc::clone(&listed),
            };
            match session.plan(sql.clone(), &pin, is_run).await {
                Ok(planned) => return Ok(planned),
                // A statement that makes the kernel kill its worker may do that twice, and not more.
                Err(PlanFailure::Killed(_)) if !is_second => is_second = true,
                Err(PlanFailure::Killed(error) | PlanFailure::Failed(error)) => return Err(error),
            }
        }
    }

    /// A worker that belongs to the organization, charged with what the statement holds, and whether it has rested.
    async fn worker(&self, pin: &Pin, lease: &ResourceLease) -> Result<(WorkerProcess, bool), QueryError> {
        let binding = Binding::of(pin.organization, &pin.folder, &pin.shared_folder);
        // Those that wait may all have died meanwhile; when more than those die, something is wrong with every one.
        for tries_left in (0..=self.idle.waiting_max()).rev() {
            let (mut worker, is_new) = self.idle.take(binding).await?;
            worker.hold(Arc::clone(lease));
            if worker.bound.is_some() {
                return Ok((worker, true));
            }
            let error = match self.bound(&mut worker, binding, pin).await {
                Ok(sandbox) => {
                    self.check_sandbox(sandbox)?;
                    return Ok((worker, false));
                }
                Err(error) => error,
            };
            let ended = worker.end().await;
            // One that waited has died meanwhile; one that was made for this statement should not have.
            if is_new || tries_left == 0 {
                tracing::error!(%error, ?ended, "a SQL worker could not be locked in");
                return Err(QueryError::internal(error));
            }
            tracing::warn!(%error, ?ended, "a SQL worker died while it waited");
        }
        Err(QueryError::internal("no SQL worker lives until it is locked in"))
    }

    /// Makes a fresh worker the organization's, and says what holds it.
    async fn bound(
        &self,
        worker: &mut WorkerProcess,
        binding: Binding,
        pin: &Pin,
    ) -> io::Result<SandboxSupport> {
        let request = BindRequest {
            segments: binding.has_folder().then(|| pin.folder.clone()),
            shared: binding.has_shared().then(|| pin.shared_folder.clone()),
            home: worker.home().to_owned(),
            memory_bytes: self.settings.memory_bytes,
            data_bytes_max: self.settings.data_bytes_max(),
            spill_bytes_max: self.settings.spill_bytes_max,
            result_bytes_max: self.settings.bytes_max,
        };
        let bound = tokio::time::timeout(BIND_WAIT, worker.bind(binding, request)).await;
        bound.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Refuses to run anything in a worker that is not held, where the operator wants it so.
    fn check_sandbox(&self, sandbox: SandboxSupport) -> Result<(), QueryError> {
        if !self.settings.require_sandbox || sandbox.isolates() {
            return Ok(());
        }
        let what = "The kernel of this box cannot isolate SQL statements, and its operator wants none to run without that.";
        Err(QueryError::new(ErrorCode::KillSwitched, what))
    }

    fn list(&self, organization: Uuid, query_id: Uuid, fingerprint: Fingerprint) -> RunningEntry {
        let entry = RunningStatement { organization, query_id, fingerprint, since: SystemTime::now() };
        self.running.lock().insert(query_id, entry);
        RunningEntry { list: Arc::clone(&self.running), query_id }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.idle.close();
    }
}

impl QueryBackend for Workers {
    fn plan(&self, statement: Statement) -> BoxFuture<'_, Result<PlanInfo, QueryError>> {
        Box::pin(async move {
            let turn = self.own_turn(&statement).await?;
            self.plan_in(&turn, statement).await
        })
    }

    fn start(&self, statement: Statement) -> BoxFuture<'_, Result<(PlanInfo, StatementHandle), QueryError>> {
        Box::pin(async move {
            let turn = self.own_turn(&statement).await?;
            self.start_in(&turn, statement).await
        })
    }
}

/// Waits until the statement is switched off.
async fn switched_off(
    switches: &mut watch::Receiver<Arc<KillSwitches>>,
    organization: Uuid,
    fingerprint: Fingerprint,
) -> QueryError {
    loop {
        let state = switches.borrow_and_update().clone();
        if let Err(error) = state.check(organization, fingerprint) {
            return error;
        }
        if switches.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Removes what a crash left of workers' folders. The folder itself may be a disk of its own, or a link to one, and stays;
/// so does what is not ours, as `lost+found`.
fn clear(spill_dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(spill_dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| Uuid::parse_str(name).is_ok()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

pub(super) fn sources(pin: &Pin) -> Vec<TableSource> {
    let segment = |entry: &SegmentEntry| SegmentSource {
        path: entry.file.path.clone(),
        rows: entry.rows,
        bytes: entry.bytes,
        deletions: entry.deletions.as_ref().map(|d| DeletionsSource {
            path: d.file.path.clone(),
            offset: d.offset,
            bytes: d.bytes,
            rows: d.rows,
            sum: d.sum,
        }),
    };
    let table = |spec: &Arc<super::catalog::TableSpec>| {
        let mut entries: Vec<&SegmentEntry> =
            segments_of(&pin.snapshot, &pin.shared, spec.name.as_str()).iter().collect();
        entries.sort_by_key(|entry| entry.max_key);
        TableSource { spec: spec.as_ref().clone(), segments: entries.into_iter().map(segment).collect() }
    };
    pin.tables.iter().map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clearing_takes_workers_folders_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (disk, link) = (root.path().join("disk"), root.path().join("spill"));
        let left = Uuid::now_v7().to_string();
        for folder in ["lost+found", &format!("{left}/datafusion-1")] {
            fs::create_dir_all(disk.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(&disk, &link).unwrap();
        clear(&link).unwrap();
        assert!(link.is_symlink() && disk.join("lost+found").exists() && !disk.join(&left).exists());
        make_folder(&link).unwrap();
    }
}
