//! Working off discoveries: in turns over the organizations, one of each at a time.
//!
//! What is to be done stands in rows, so a discovery that the process did not live to end is begun again. Pages are parsed and
//! learned from on threads apart, by half of the cores: learning takes seconds where pages are hostile, and what users wait for
//! goes first.

use super::check::Proposal;
use super::lesson::{Class, Decision, Lesson, Refusal};
use super::rows::{DISCOVERIES, DiscoveryStatus, DiscoveryV1, ENDED, OPEN};
use super::sample::{HELD_BACK_PAGES_MAX, choose, read_pages};
use super::teacher::Teacher;
use super::wire::{NotSaved, Outcome, SchemaVersion};
use crate::features::extraction::{
    Adoption, DiscoveredBy, PlatformSchemaV1, ProposedSchema, SchemaRefV1, Site, adopt_schema, schema_to_beat,
};
use crate::features::llm::LanguageModel;
use crate::features::schedules::entries;
use base::codec::Json;
use base::ids::{DiscoveryId, OrgId};
use base::{Code, Error, Result};
use blob::BlobStore;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use server::task::TaskContext;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use store::{OrgStore, Seek, SysWrite, readable};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(super) const RUN: &str = "discovery.run";

/// Organizations whose discoveries are under way at once.
const AT_ONCE: usize = 4;
/// How often it is looked who has something to do meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a discovery is begun: one that ends the process, or fails, each time is given up.
const RUNS_MAX: u32 = 5;
/// How often a proposal is held against a schema that has changed meanwhile.
const COMPARED_MAX: usize = 3;
/// How long discoveries that have ended are kept.
const KEPT_FOR: Duration = Duration::from_secs(90 * 86_400);
/// Rows of one operation of removing.
const REMOVED_PER_STEP: usize = 200;

/// Takes what is open, until there is nothing more.
pub(super) async fn run_all(context: TaskContext) -> Result<()> {
    let cores = available_parallelism().map_or(2, usize::from);
    let cpu = Arc::new(Semaphore::new((cores / 2).max(1)));
    let (mut last, mut busy, mut resting) = (None, HashSet::new(), HashSet::new());
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < AT_ONCE && !context.stopping() {
            let Some((org, id)) = next(&context, last, &busy, &resting)? else { break };
            last = Some(org);
            busy.insert(org);
            let (context, cpu) = (context.clone(), Arc::clone(&cpu));
            running.push(async move { (org, id, run(&context, &cpu, org, id).await) });
        }
        if running.is_empty() {
            return Ok(());
        }
        let ended = tokio::time::timeout(LOOK_EVERY, running.next()).await;
        let Ok(Some((org, id, ended))) = ended else { continue };
        busy.remove(&org);
        if let Err(error) = ended {
            // It is begun again with the next activation.
            resting.insert(id);
            if error.code() != Code::OrgNotFound {
                tracing::warn!(%org, discovery = %id, %error, "a discovery could not be worked off");
            }
        }
    }
}

/// The oldest of the organization whose turn it is: the next one behind the last that has anything.
fn next(
    context: &TaskContext,
    last: Option<OrgId>,
    busy: &HashSet<OrgId>,
    resting: &HashSet<DiscoveryId>,
) -> Result<Option<(OrgId, DiscoveryId)>> {
    let open = context.system().read(|tx| entries(tx, &DISCOVERIES, &OPEN, None))?;
    let mut oldest: BTreeMap<OrgId, DiscoveryId> = BTreeMap::new();
    for (org, id, _) in open {
        if !busy.contains(&org) && !resting.contains(&id) {
            oldest.entry(org).or_insert(id);
        }
    }
    let behind = oldest.iter().find(|(org, _)| last.is_none_or(|last| **org > last));
    Ok(behind.or_else(|| oldest.iter().next()).map(|(org, id)| (*org, *id)))
}

async fn run(context: &TaskContext, cpu: &Semaphore, org: OrgId, id: DiscoveryId) -> Result<()> {
    let own = context.system().org(org);
    let begun = own.write(move |tx| {
        tx.needs_no_room();
        let row = readable("a discovery", id, tx.get(&DISCOVERIES, &id))?.flatten();
        let Some(mut row) = row.filter(|row| row.status.is_open()) else { return Ok(None) };
        row.runs += 1;
        row.status = DiscoveryStatus::Running;
        row.started_at = row.started_at.or(Some(tx.now()));
        tx.put(&DISCOVERIES, &id, &row)?;
        Ok(Some(row))
    });
    let Some(row) = begun.await? else { return Ok(()) };
    let outcome = match row.runs > RUNS_MAX {
        true => Outcome { error: Some("It could not be worked off.".to_owned()), ..Outcome::default() },
        false => discover(context, cpu, &own, &row).await?,
    };
    end(&own, id, outcome).await
}

async fn end(own: &OrgStore, id: DiscoveryId, outcome: Outcome) -> Result<()> {
    let status = match outcome.error {
        Some(_) => DiscoveryStatus::Failed,
        None => DiscoveryStatus::Succeeded,
    };
    let outcome =
        serde_json::to_value(outcome).map_err(|e| Error::internal("write what came of a discovery", e))?;
    let ended = own.write(move |tx| {
        tx.needs_no_room();
        let Some(row) = tx.get(&DISCOVERIES, &id)? else { return Ok(()) };
        let (finished_at, ended) = (Some(tx.now()), Some(tx.moment()));
        let outcome = Some(Json(outcome));
        tx.put(&DISCOVERIES, &id, &DiscoveryV1 { status, finished_at, ended, outcome, ..row })
    });
    ended.await
}

/// Reads the pages, learns, and proposes what was learned.
async fn discover(
    context: &TaskContext,
    cpu: &Semaphore,
    own: &OrgStore,
    row: &DiscoveryV1,
) -> Result<Outcome> {
    let site =
        Site::named(&row.domain).ok_or_else(|| Error::internal("read a discovery", "its domain is none"))?;
    let place = || async { cpu.acquire().await.map_err(|e| Error::internal("wait for a core", e)) };
    let at_work = place().await?;
    let sample_size = row.sample_size as usize;
    // Of the newest pages some may be of another type.
    let count = if row.jobs.is_empty() { 2 * sample_size } else { row.jobs.len() } + HELD_BACK_PAGES_MAX;
    let chosen = own.read(|tx| choose(tx, &site, &row.jobs, count))?;
    let pages = read_pages(&context.service::<BlobStore>().org(own.id().0), chosen.rows).await?;
    let (left_out, asked) = (chosen.left_out, row.page_type);
    let model = context.service::<LanguageModel>();
    let has_model = model.is_on();
    let taught = apart(move || {
        let class = Class::of(pages, left_out, asked, (sample_size, has_model))?;
        let lesson = class.teach();
        Ok::<_, Refusal>((class, lesson))
    });
    let (class, lesson) = match taught.await? {
        Ok(taught) => taught,
        Err(Refusal { error, page_type, sample }) => {
            return Ok(Outcome { error: Some(error), page_type, sample, ..Outcome::default() });
        }
    };
    if !has_model {
        return propose(context, &site, class, lesson, Vec::new()).await;
    }
    // Others go on while a model thinks.
    drop(at_work);
    let teacher = Teacher { model: &model, org: own.id() };
    let asked = tokio::select! {
        asked = ask(&teacher, class, &place) => asked?,
        () = context.stopped() => return Err(Error::unavailable("the box stops; it is begun again")),
    };
    let (class, proposed, notes) = asked;
    let _at_work = place().await?;
    let lesson = match proposed {
        Some(proposed) => lesson.with(proposed),
        None => lesson,
    };
    propose(context, &site, class, lesson, notes).await
}

/// Asks the language model what the pages are read by, and checks what it says; why nothing came of it is in the notes.
async fn ask<'c, P, F>(
    teacher: &Teacher<'_>,
    mut class: Class,
    place: &P,
) -> Result<(Class, Option<Lesson>, Vec<String>)>
where
    P: Fn() -> F,
    F: Future<Output = Result<SemaphorePermit<'c>>>,
{
    let shown = class.shown();
    let (outlined, outlines) = apart(move || (class.outlines(0, shown), class)).await.map(|(o, c)| (c, o))?;
    class = outlined;
    let Some(proposed) = teacher.propose(&outlines, class.page_type, &class.names()).await else {
        let note = "The language model gave no answer that can be used; the pages alone have taught.";
        return Ok((class, None, vec![note.to_owned()]));
    };
    class.page_type = class.page_type.or(Some(proposed.page_type));
    let unknown = class.unknown(&proposed.attributes, shown);
    if !unknown.is_empty() {
        let (outlined, outlines) =
            apart(move || (class.outlines(shown, shown.max(2)), class)).await.map(|(o, c)| (c, o))?;
        class = outlined;
        let read = teacher.read(&outlines, &unknown).await.unwrap_or_default();
        let _at_work = place().await?;
        class = apart(move || {
            class.tell(shown, read, &unknown);
            class
        })
        .await?;
    }
    let discovered_by = if shown == 1 { DiscoveredBy::Llm } else { DiscoveredBy::LlmMultiSample };
    let proposal = |attribute| Proposal { attribute, right: 0.0, of: 0, is_firm: false };
    let proposals: Vec<Proposal> = proposed.attributes.into_iter().map(proposal).collect();
    let _at_work = place().await?;
    let checked = apart(move || (class.checked(proposals, shown, discovered_by), class)).await?;
    let (lesson, class) = checked;
    let note =
        "Nothing that the language model proposed holds on held-back pages; the pages alone have taught.";
    let notes = if lesson.kept.is_empty() { vec![note.to_owned()] } else { Vec::new() };
    Ok((class, Some(lesson), notes))
}

/// Holds what was learned against the schema that holds, and makes it the next version if it is better.
async fn propose(
    context: &TaskContext,
    site: &Site,
    class: Class,
    lesson: Lesson,
    notes: Vec<String>,
) -> Result<Outcome> {
    let mut outcome = class.outcome(&lesson);
    outcome.notes.extend(notes);
    let Some(page_type) = class.page_type.filter(|_| outcome.error.is_none()) else { return Ok(outcome) };
    let discovered_by = lesson.discovered_by;
    let sample_count = u32::try_from(class.page_count()).unwrap_or(u32::MAX);
    let class = Arc::new((class, lesson));
    outcome.not_saved = Some(NotSaved::Overtaken);
    for _ in 0..COMPARED_MAX {
        let holds = context.system().read(|tx| schema_to_beat(tx, &site.host, page_type))?;
        outcome.schema = holds.as_ref().map(version_of);
        let beaten = holds.as_ref().map(|row| SchemaRefV1 { id: row.id, version: row.version });
        let class = Arc::clone(&class);
        let decision = apart(move || class.0.decide(&class.1, holds.as_ref())).await?;
        let (attributes, confidence) = match decision {
            Decision::Keep(why) => {
                outcome.not_saved = Some(why);
                return Ok(outcome);
            }
            Decision::Propose { attributes, confidence } => (attributes, confidence),
        };
        let domain = site.host.clone();
        let proposed =
            ProposedSchema { domain, page_type, attributes, confidence, discovered_by, sample_count, beaten };
        outcome.not_saved = match adopt_schema(context.system(), proposed).await? {
            Adoption::Current(SchemaRefV1 { id, version }) => {
                let domain = site.host.clone();
                outcome.schema = Some(SchemaVersion { id, domain, page_type, version });
                None
            }
            Adoption::Same(_) => Some(NotSaved::Same),
            Adoption::Manual(_) => Some(NotSaved::Manual),
            Adoption::TooOften => Some(NotSaved::TooOften),
            Adoption::Overtaken => continue,
        };
        return Ok(outcome);
    }
    Ok(outcome)
}

fn version_of(row: &PlatformSchemaV1) -> SchemaVersion {
    let (domain, page_type) = (row.domain.clone(), row.page_type);
    SchemaVersion { id: row.id, domain, page_type, version: row.version }
}

async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|e| Error::internal("learn from pages", e))
}

/// Removes discoveries whose time is over.
pub(super) async fn remove_old(context: TaskContext) -> Result<()> {
    while context.system().write_freeing(remove_some).await? == REMOVED_PER_STEP && !context.stopping() {}
    Ok(())
}

fn remove_some(tx: &SysWrite<'_>) -> Result<usize> {
    let before = tx.moment().before(KEPT_FOR);
    let over = tx.scan_global(&DISCOVERIES, &ENDED, &Seek::start(), Some(before), REMOVED_PER_STEP)?;
    for entry in &over.entries {
        tx.org(entry.org).delete(&DISCOVERIES, &entry.key)?;
    }
    Ok(over.entries.len())
}
