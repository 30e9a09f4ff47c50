//! Erasures, from the request to the receipt.
//!
//! The request's own transaction ends what must end at once: the person's account and sessions, or every membership of
//! the organization, which stands behind the store's fence from then on. What follows is a chain of small steps, each of
//! which writes where the next one goes on, and each of which may be done twice: a process that dies in any of them goes
//! on at its next start. When everything is removed the store's file is written anew, once for all erasures that wait for
//! that, and then the row that led through all of it says "done" and what went: it is the receipt.
//!
//! A step that fails (a full disk, a search that holds a file) is tried again for as long as it takes; other erasures go
//! on meanwhile. So does everything else while the file is written anew: that is a task of its own.

use super::rows::{ERASURES, ERASURES_OPEN, ErasureV1, PhaseV1, SubjectV1};
use super::{Accounts, export};
use crate::features::wiring::holdings;
use crate::features::{self, Person, Personal};
use base::clock::Timestamp;
use base::ids::{ErasureId, OrgId, UserId};
use base::{Error, Result};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};
use server::task::{Signals, TaskContext};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::{ErasedRows, Order, SysRead, SysWrite, System, readable};
use uuid::Uuid;

/// What one write operation removes, as the store counts costs: some 4,000 rows, or a look at 32,000.
const COST_PER_WRITE: usize = 32_768;
/// Erasures that one activation looks at.
const OPEN_MAX: usize = 1_000;
/// Writing the file anew takes at most one part in this many of the box's time.
const SCRUB_REST: u32 = 10;
/// Characters of an error that a row keeps.
const ERROR_CHARS_MAX: usize = 300;

/// Time from a step that failed to the next try of that erasure.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Which erasures are left alone for a moment because a step of theirs failed, until when.
#[derive(Default)]
pub(super) struct ErasureRetries {
    until: Mutex<HashMap<ErasureId, Instant>>,
    /// Whether this process has begun the phases anew that another left: their parts are counted in an order that an
    /// upgrade may have changed, and each may be done twice.
    begun: AtomicBool,
}

impl ErasureRetries {
    fn is_due(&self, id: ErasureId) -> bool {
        self.until.lock().get(&id).is_none_or(|until| Instant::now() >= *until)
    }

    fn put_off(&self, id: ErasureId) {
        let mut until = self.until.lock();
        until.retain(|_, until| Instant::now() < *until);
        until.insert(id, Instant::now() + RETRY_PAUSE);
    }
}

/// How often the rows of an erasure are walked again because some still named it.
const REPEATS_MAX: u32 = 3;

/// When the store's file was written anew last, and how long that took.
#[derive(Default)]
pub(super) struct RewriteTimes(Mutex<Option<(Instant, Duration)>>, Mutex<HashMap<ErasureId, u32>>);

impl RewriteTimes {
    fn is_due(&self) -> bool {
        self.0.lock().is_none_or(|(ended, took)| ended.elapsed() >= took * SCRUB_REST)
    }

    fn may_repeat(&self, id: ErasureId) -> bool {
        let mut repeats = self.1.lock();
        let count = repeats.entry(id).or_default();
        *count += 1;
        *count <= REPEATS_MAX
    }

    fn note(&self, took: Duration) {
        *self.0.lock() = Some((Instant::now(), took));
    }
}

/// The task: carries every open erasure on as far as it goes. One that fails is put off, and holds up no other.
pub(super) async fn run(context: TaskContext) -> Result<()> {
    let accounts = context.service::<Accounts>();
    let retries = &accounts.retries;
    if !retries.begun.load(Ordering::Relaxed) {
        let begun = open(context.system(), |row| row.phase != PhaseV1::Scrub)?;
        let anew = |tx: &SysWrite<'_>, id: &ErasureId| {
            let Some(mut row) = tx.get(&ERASURES, id)? else { return Ok(()) };
            row.enter(row.phase);
            tx.put(&ERASURES, id, &row)
        };
        context.system().write_each_freeing("an erasure", begun, anew).await?;
        retries.begun.store(true, Ordering::Relaxed);
    }
    // Out of the queues first: what stands there is in the way of others.
    for phases in [&[PhaseV1::Queues][..], &[PhaseV1::Outside, PhaseV1::Rows, PhaseV1::Sweep]] {
        for id in open(context.system(), |row| phases.contains(&row.phase))? {
            if !retries.is_due(id) {
                continue;
            }
            if let Err(error) = advance(&context, id, phases).await {
                tracing::warn!(erasure = %id, %error, "a step of an erasure failed; it is tried again");
                retries.put_off(id);
                let noted = note_failure(context.system(), id, &error).await;
                readable("an erasure", id, noted)?;
            }
        }
    }
    if !open(context.system(), |row| row.phase == PhaseV1::Scrub)?.is_empty() {
        context.service::<Signals>().wake(super::SCRUB);
    }
    Ok(())
}

fn open(system: &System, wanted: impl Fn(&ErasureV1) -> bool) -> Result<Vec<ErasureId>> {
    let open = system.read(|tx| tx.readable_by(&ERASURES, &ERASURES_OPEN, (), None, None, OPEN_MAX))?;
    // A damaged entry may lead to one that is done.
    let open = open.rows.into_iter().filter(|(_, row)| row.phase != PhaseV1::Done && wanted(row));
    Ok(open.map(|(id, _)| id).collect())
}

/// Changes an erasure's row together with what `change` does.
async fn step(
    system: &System,
    id: ErasureId,
    change: impl FnOnce(&SysWrite<'_>, &mut ErasureV1) -> Result<()> + Send + 'static,
) -> Result<()> {
    system
        .write_freeing(move |tx| {
            let mut row = tx.require(&ERASURES, &id)?;
            row.error = None;
            change(tx, &mut row)?;
            tx.put(&ERASURES, &id, &row)
        })
        .await
}

async fn note_failure(system: &System, id: ErasureId, error: &Error) -> Result<()> {
    let text: String = error.for_operator().chars().take(ERROR_CHARS_MAX).collect();
    step(system, id, move |_, row| {
        row.failures += 1;
        row.error = Some(text);
        Ok(())
    })
    .await
}

/// Goes through these phases, as far as the erasure is in one of them.
async fn advance(context: &TaskContext, id: ErasureId, phases: &[PhaseV1]) -> Result<()> {
    while !context.stopping() {
        let row = context.system().read(|tx| tx.require(&ERASURES, &id))?;
        if !phases.contains(&row.phase) {
            return Ok(());
        }
        match (&row.subject, row.phase) {
            (SubjectV1::Organization { id: org }, phase) => org_step(context, &row, *org, phase).await?,
            (SubjectV1::Person { .. }, _) => person_step(context, &row).await?,
        }
    }
    Ok(())
}

async fn org_step(context: &TaskContext, row: &ErasureV1, org: OrgId, phase: PhaseV1) -> Result<()> {
    let system = context.system();
    let holding = holdings().nth(row.part as usize);
    match (phase, holding) {
        (PhaseV1::Queues, _) => {
            step(system, row.id, move |tx, row| {
                let removed = tx.erase_queues(org, &row.place, COST_PER_WRITE)?;
                removed_rows(row, removed, PhaseV1::Outside);
                Ok(())
            })
            .await
        }
        (PhaseV1::Outside | PhaseV1::Sweep, Some(holding)) => {
            // In a data folder that went away there is nothing to remove, and nothing would have been.
            system.store().check_place()?;
            let removed = (holding.remove)(context.clone(), org).await?;
            step(system, row.id, move |_, row| {
                row.count(holding.name, removed);
                row.part += 1;
                Ok(())
            })
            .await
        }
        (PhaseV1::Outside, None) => {
            step(system, row.id, |_, row| {
                row.enter(PhaseV1::Rows);
                Ok(())
            })
            .await
        }
        _ => {
            let next = if phase == PhaseV1::Rows { PhaseV1::Sweep } else { PhaseV1::Scrub };
            step(system, row.id, move |tx, row| {
                let removed = tx.erase_rows(org, &row.place, COST_PER_WRITE)?;
                removed_rows(row, removed, next);
                Ok(())
            })
            .await
        }
    }
}

/// Counts what a step of the store removed, and goes on there or with the next phase.
fn removed_rows(row: &mut ErasureV1, step: ErasedRows, next_phase: PhaseV1) {
    step.removed.iter().for_each(|(table, count)| row.count(table, *count));
    match step.next {
        Some(place) => row.place = place,
        None => row.enter(next_phase),
    }
}

async fn person_step(context: &TaskContext, row: &ErasureV1) -> Result<()> {
    let SubjectV1::Person { id, email, org } = &row.subject else { return Ok(()) };
    let person = Person { id: *id, email: email.clone(), org: *org, asked_at: row.requested_at };
    if row.part == 0 {
        return person_outside(context, row.id, &person).await;
    }
    let kinds: Vec<&'static Personal> = features::ALL.iter().flat_map(|feature| feature.personal).collect();
    let Some(kind) = kinds.get(row.part as usize - 1).copied() else {
        return step(context.system(), row.id, |_, row| {
            if row.phase == PhaseV1::Rows {
                row.enter(PhaseV1::Sweep);
            } else {
                forget_address(&mut row.subject);
                row.enter(PhaseV1::Scrub);
            }
            Ok(())
        })
        .await;
    };
    step(context.system(), row.id, move |tx, row| {
        let erased = (kind.erase)(tx, &person, &row.place)?;
        row.count(kind.name, erased.removed);
        row.count_left(kind.name, erased.left);
        match erased.next {
            Some(place) => row.place = place,
            None => {
                row.part += 1;
                row.place.clear();
            }
        }
        Ok(())
    })
    .await
}

/// The first part of a person's phases: files, while the rows say which are theirs, and what audit rows tell of them. The
/// chains are the store's; of an audit row the personal part goes and the rest stays.
async fn person_outside(context: &TaskContext, id: ErasureId, person: &Person) -> Result<()> {
    let system = context.system();
    system.store().check_place()?;
    export::remove_files_of(&context.service::<Accounts>(), system, person.id)?;
    // Refusals that were counted and are no rows yet name the person too; from here on nobody is refused in their name.
    system.flush_refusals(true).await?;
    let mut parts = system.erase_personal(person.id).await?;
    parts += system.erase_address(&person.email, person.asked_at).await?;
    step(system, id, move |_, row| {
        row.count("personal parts of audit rows", parts.erased);
        row.count_left("personal parts of audit rows", parts.left);
        row.part += 1;
        Ok(())
    })
    .await
}

fn forget_address(subject: &mut SubjectV1) {
    if let SubjectV1::Person { email, .. } = subject {
        email.clear();
    }
}

/// The task: writes the store's file anew for all erasures that wait for it, and ends them.
pub(super) async fn scrub(context: TaskContext) -> Result<()> {
    let waiting = open(context.system(), |row| row.phase == PhaseV1::Scrub)?;
    let accounts = context.service::<Accounts>();
    if waiting.is_empty() || context.stopping() || !accounts.scrubs.is_due() {
        return Ok(());
    }
    let rows = context.system().read(|tx| {
        let rows = waiting.iter().map(|id| readable("an erasure", id, tx.require(&ERASURES, id)));
        Ok(rows.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect::<Vec<_>>())
    })?;
    let orgs: Vec<OrgId> = rows
        .iter()
        .filter_map(|row| match &row.subject {
            SubjectV1::Organization { id } => Some(*id),
            SubjectV1::Person { .. } => None,
        })
        .collect();
    let begun = Instant::now();
    let (store, stop) = (context.system().store().clone(), context.clone());
    let rewritten = tokio::task::spawn_blocking(move || store.rewrite(&orgs, &|| stop.stopping()))
        .await
        .map_err(|e| Error::internal("write the store anew", e))?;
    accounts.scrubs.note(begun.elapsed());
    let rewritten = match rewritten {
        Ok(rewritten) => rewritten,
        Err(_) if context.stopping() => return Ok(()),
        Err(error) => {
            for row in rows {
                note_failure(context.system(), row.id, &error).await?;
            }
            return Err(error);
        }
    };
    tracing::info!(
        target: "gleaner::erasure",
        rows = rewritten.rows,
        bytes_before = rewritten.bytes_before,
        bytes_after = rewritten.bytes_after,
        pause_ms = rewritten.pause.as_millis() as u64,
        seconds = begun.elapsed().as_secs_f64(),
        "the store was written anew"
    );
    // The receipts name them, and the box's own audit rows say that they were erased.
    let may_name = |table: &str| table == ERASURES.name() || table.starts_with("audit_system");
    let left: Vec<_> = rewritten.naming.into_iter().filter(|(table, _)| !may_name(table)).collect();
    for row in rows {
        // What was copied is in the new file, also when it went a moment later. So whatever came behind the walk, the rows
        // are walked and the file written once more before anybody is told that it is done.
        let is_org = matches!(row.subject, SubjectV1::Organization { .. });
        if is_org && !left.is_empty() && accounts.scrubs.may_repeat(row.id) {
            tracing::warn!(erasure = %row.id, ?left, "rows still name what is being erased; they are removed once more");
            step(context.system(), row.id, |_, row| {
                row.enter(PhaseV1::Rows);
                Ok(())
            })
            .await?;
            context.service::<Signals>().wake(super::ERASE);
        } else {
            finish(context.system(), row.id, left.clone()).await?;
        }
    }
    Ok(())
}

async fn finish(system: &System, id: ErasureId, left: Vec<(String, u64)>) -> Result<()> {
    step(system, id, move |tx, row| {
        if matches!(row.subject, SubjectV1::Organization { .. }) {
            row.left = left;
        }
        row.enter(PhaseV1::Done);
        row.finished_at = Some(tx.now());
        Ok(())
    })
    .await?;
    let receipt = ErasureView::from(system.read(|tx| tx.require(&ERASURES, &id))?);
    let text = serde_json::to_string(&receipt).map_err(|e| Error::internal("write a receipt", e))?;
    if receipt.left.is_empty() {
        tracing::info!(target: "gleaner::erasure", receipt = text, "an erasure is done");
    } else {
        tracing::error!(target: "gleaner::erasure", receipt = text, "an erasure is done, but rows are left that name it or may");
    }
    Ok(())
}

/// Whose traces go, as the operator sees it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErasedView {
    #[serde(rename = "type")]
    kind: &'static str,
    id: Uuid,
}

/// An erasure as the operator sees it; the receipt when its state is `done`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErasureView {
    id: ErasureId,
    erased: ErasedView,
    state: &'static str,
    requested_by: UserId,
    requested_at: Timestamp,
    finished_at: Option<Timestamp>,
    removed: Map<String, Value>,
    left: Map<String, Value>,
    failures: u32,
    error: Option<String>,
}

impl From<ErasureV1> for ErasureView {
    fn from(row: ErasureV1) -> ErasureView {
        let counts = |counts: Vec<(String, u64)>| {
            counts.into_iter().map(|(name, count)| (name, Value::from(count))).collect::<Map<_, _>>()
        };
        let (kind, id) = match row.subject {
            SubjectV1::Organization { id } => ("organization", id.0),
            SubjectV1::Person { id, .. } => ("person", id.0),
        };
        ErasureView {
            id: row.id,
            erased: ErasedView { kind, id },
            state: row.phase.name(),
            requested_by: row.requested_by,
            requested_at: row.requested_at,
            finished_at: row.finished_at,
            removed: counts(row.removed),
            left: counts(row.left),
            failures: row.failures,
            error: row.error,
        }
    }
}

/// Erasures of one look.
const ERASURES_PER_LOOK: usize = 1_000;

/// Looks through every erasure, oldest first, until one is found.
fn find_erasure<T>(tx: &SysRead<'_>, mut found: impl FnMut(&ErasureV1) -> Option<T>) -> Result<Option<T>> {
    let mut after = None;
    loop {
        let rows = tx.scan(&ERASURES, after.as_ref(), Order::Ascending, ERASURES_PER_LOOK)?;
        if let Some(it) = rows.iter().find_map(|(_, row)| found(row)) {
            return Ok(Some(it));
        }
        match rows.last() {
            Some((last, _)) => after = Some(*last),
            None => return Ok(None),
        }
    }
}

/// The erasure of an organization that still goes on.
pub fn open_erasure(tx: &SysRead<'_>, org: OrgId) -> Result<Option<ErasureId>> {
    find_erasure(tx, |row| {
        let is_its_own = matches!(row.subject, SubjectV1::Organization { id } if id == org);
        (is_its_own && row.phase != PhaseV1::Done).then_some(row.id)
    })
}

/// Who of these people had their account erased: whoever did does not come back with a backup. One look through all erasures.
pub fn who_left(tx: &SysRead<'_>, among: &BTreeSet<UserId>) -> Result<BTreeSet<UserId>> {
    let mut left = BTreeSet::new();
    if !among.is_empty() {
        find_erasure(tx, |row| {
            if let SubjectV1::Person { id, .. } = row.subject {
                left.extend(among.get(&id));
            }
            None::<()>
        })?;
    }
    Ok(left)
}

/// The newest erasures, done or not; what `gleaner admin erasures` prints.
pub fn list_erasures(tx: &SysRead<'_>, limit: usize) -> Result<Vec<ErasureView>> {
    let rows = tx.scan(&ERASURES, None, Order::Descending, limit)?;
    Ok(rows.into_iter().map(|(_, row)| row.into()).collect())
}
