//! The work of inputs: ticks, runs, and removing what is over.
//!
//! Runs go in turns over the organizations: one document of one run of each that has any, so many organizations at once. One
//! with a thousand inputs due does not come before another's one, and a slow site holds one turn of its own organization.

use super::crawl;
use super::crawl_rows::{CRAWL_RUNS, CRAWL_SEEN, FRONTIERS_GONE};
use super::rows::{DUE, INPUTS};
use super::run::step;
use super::runs::{BY_INPUT, DOCUMENTS, ENDED, GONE, INPUT_URLS, RUNS, TO_RUN};
use super::service;
use super::state::Runner;
use super::stepping::Step;
use crate::features::schedules::{entries, next_turn, reconcile_each, turns};
use base::ids::{InputId, InputRunId, OrgId, UrlId};
use base::{Code, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use server::task::{Signals, TaskContext};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Key, OrgStore, OrgWrite, Seek, is_unreadable};
use uuid::Uuid;

pub(super) const RUN: &str = "inputs.run";

/// Inputs of one organization that are decided in one operation.
const TICKS_PER_TURN: usize = 20;
/// Organizations whose documents are asked for at once.
const TURNS_AT_ONCE: usize = 16;
/// How often it is looked who has something to do meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a run rests that could not be taken further.
const REST: Duration = Duration::from_secs(10);
/// How long ended runs are kept.
const KEPT_FOR: Duration = Duration::from_secs(90 * 86_400);
/// Rows of one operation of removing.
const REMOVED_PER_STEP: usize = 500;

/// Decides every tick that is due.
pub(super) async fn tick_all(context: TaskContext) -> Result<()> {
    let now = context.now();
    let runner = context.service::<Runner>();
    if runner.seen.is_new(now) && !reconcile_all(&context).await {
        runner.seen.forget();
    }
    let due = context.system().read(|tx| entries(tx, &INPUTS, &DUE, Some(now)))?;
    let mut turns = turns(due);
    while !turns.is_empty() && !context.stopping() {
        for (org, ids) in next_turn(&mut turns, TICKS_PER_TURN) {
            tick_some(&context.system().org(org), ids).await;
        }
        context.service::<Signals>().wake(RUN);
    }
    Ok(())
}

/// Decides about these inputs in one operation; where a row of them is damaged, about each by itself.
async fn decide(
    org: &OrgStore,
    ids: Vec<InputId>,
    change: fn(&OrgWrite<'_>, InputId) -> Result<()>,
) -> Result<()> {
    let all = ids.clone();
    match org.write(move |tx| all.iter().try_for_each(|id| change(tx, *id))).await {
        Err(error) if is_unreadable(&error) => {
            for id in ids {
                if let Err(error) = org.write(move |tx| change(tx, id)).await {
                    tracing::warn!(org = %org.id(), input = %id, %error, "an input could not be decided about");
                }
            }
            Ok(())
        }
        decided => decided,
    }
}

async fn tick_some(org: &OrgStore, ids: Vec<InputId>) {
    if let Err(error) = decide(org, ids, service::tick).await
        && error.code() != Code::OrgNotFound
    {
        tracing::warn!(org = %org.id(), %error, "ticks of inputs could not be decided, and are tried again");
    }
}

/// Looks at every input anew: the box has started, or its clock went back, and ticks come again that were decided ahead. Whether
/// all of them could be looked at; where one organization's cannot, the others' go on.
async fn reconcile_all(context: &TaskContext) -> bool {
    reconcile_each(context.system(), INPUTS.name(), async |own: OrgStore| {
        let keys = own.read(|tx| tx.keys(INPUTS.name(), None, super::INPUTS_PER_ORG_MAX))?;
        decide(&own, keys.iter().filter_map(|key| InputId::decode(key)).collect(), reconcile).await
    })
    .await
}

fn reconcile(tx: &OrgWrite<'_>, id: InputId) -> Result<()> {
    let Some(mut row) = tx.get(&INPUTS, &id)?.filter(|row| row.decided_until > tx.now()) else {
        return Ok(());
    };
    row.decided_until = tx.now();
    row.next_at = row.cron.is_some().then(|| tx.now());
    tx.put(&INPUTS, &id, &row)
}

/// Runs that wait for their turns, by organization, oldest first.
#[derive(Default)]
struct Waiting {
    runs: BTreeMap<OrgId, VecDeque<InputRunId>>,
    /// Organizations in the order of their turns.
    order: VecDeque<OrgId>,
}

impl Waiting {
    /// Takes in which runs may be taken further.
    fn look(&mut self, found: Vec<(OrgId, InputRunId)>) {
        self.runs.clear();
        for (org, run) in found {
            self.runs.entry(org).or_default().push_back(run);
        }
        let (runs, order) = (&self.runs, &mut self.order);
        order.retain(|org| runs.contains_key(org));
        let known: HashSet<_> = order.iter().copied().collect();
        order.extend(runs.keys().filter(|org| !known.contains(org)));
    }

    /// The next turn of an organization that has none at the moment.
    fn next(&mut self, busy: &HashSet<OrgId>) -> Option<(OrgId, InputRunId)> {
        let at = self.order.iter().position(|org| !busy.contains(org))?;
        let org = self.order.remove(at)?;
        let run = self.runs.get_mut(&org)?.pop_front()?;
        self.order.push_back(org);
        if self.runs.get(&org).is_some_and(VecDeque::is_empty) {
            self.runs.remove(&org);
            self.order.pop_back();
        }
        Some((org, run))
    }
}

/// Takes runs further, in turns, until none has anything to do.
pub(super) async fn run_all(context: TaskContext) -> Result<()> {
    let runner = context.service::<Runner>();
    let (mut waiting, mut busy) = (Waiting::default(), HashSet::new());
    let mut steps = FuturesUnordered::new();
    let mut looked = None::<Instant>;
    while !context.stopping() {
        if looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) || waiting.runs.is_empty() {
            let found = context.system().read(|tx| entries(tx, &RUNS, &TO_RUN, None))?;
            let found = found.into_iter().map(|(org, run, _)| (org, run));
            waiting.look(runner.awake(found.filter(|(org, _)| !busy.contains(org)).collect()));
            looked = Some(Instant::now());
        }
        while steps.len() < TURNS_AT_ONCE
            && let Some((org, run)) = waiting.next(&busy)
        {
            busy.insert(org);
            let (runner, own) = (Arc::clone(&runner), context.system().org(org));
            steps.push(async move { (org, run, step(&runner, &own, run).await) });
        }
        if steps.is_empty() {
            // What is due within the next look is waited for here.
            let Some(pause) = runner.next_rested().filter(|pause| *pause < LOOK_EVERY) else { return Ok(()) };
            tokio::time::sleep(pause).await;
            continue;
        }
        let done = tokio::time::timeout(LOOK_EVERY, steps.next()).await;
        let Ok(Some((org, run, done))) = done else { continue };
        busy.remove(&org);
        match done {
            // It goes on behind the others; a look finds it again.
            Ok(Step::More) => waiting.look_again(org, run),
            Ok(Step::Over) => {}
            Ok(Step::Later(pause)) => runner.rest(run, pause),
            Err(error) if error.code() == Code::OrgNotFound => runner.forget(org),
            Err(error) => {
                tracing::warn!(%org, %run, %error, "a run of an input could not be taken further");
                runner.rest(run, REST);
                if is_unreadable(&error) {
                    runner.give_up(run);
                }
            }
        }
    }
    Ok(())
}

impl Waiting {
    fn look_again(&mut self, org: OrgId, run: InputRunId) {
        if !self.runs.contains_key(&org) {
            self.order.push_back(org);
        }
        self.runs.entry(org).or_default().push_front(run);
    }
}

/// Removes runs whose time is over, and what deleted inputs left.
pub(super) async fn remove_old(context: TaskContext) -> Result<()> {
    while !context.stopping() {
        let before = context.now().before(KEPT_FOR);
        let removed = context.system().write_freeing(move |tx| {
            let step = tx.scan_global(&RUNS, &ENDED, &Seek::start(), Some(before), REMOVED_PER_STEP)?;
            for entry in &step.entries {
                let own = tx.org(entry.org);
                own.delete(&RUNS, &entry.key)?;
                own.delete(&CRAWL_RUNS, &entry.key)?;
            }
            Ok(step.entries.len())
        });
        if removed.await? < REMOVED_PER_STEP {
            break;
        }
    }
    let mut last = None;
    while let Some(org) = context.system().read(|tx| tx.next_org(FRONTIERS_GONE.name(), last))? {
        last = Some(org);
        let own = context.system().org(org);
        let keys = own.read(|tx| tx.keys(FRONTIERS_GONE.name(), None, REMOVED_PER_STEP))?;
        for id in keys.iter().filter_map(|key| InputRunId::decode(key)) {
            while !context.stopping() && !own.write_freeing(move |tx| crawl::remove_some(tx, id)).await? {}
        }
    }
    let mut last = None;
    while let Some(org) = context.system().read(|tx| tx.next_org(GONE.name(), last))? {
        last = Some(org);
        let own = context.system().org(org);
        let keys = own.read(|tx| tx.keys(GONE.name(), None, REMOVED_PER_STEP))?;
        for id in keys.iter().filter_map(|key| InputId::decode(key)) {
            while !context.stopping() && !own.write_freeing(move |tx| remove_some(tx, id)).await? {}
        }
    }
    Ok(())
}

/// Removes some of what a deleted input left; whether nothing is left.
fn remove_some(tx: &OrgWrite<'_>, id: InputId) -> Result<bool> {
    let runs = tx.readable_by(&RUNS, &BY_INPUT, id, None, None, REMOVED_PER_STEP)?;
    for (run, _) in &runs.rows {
        tx.delete(&RUNS, run)?;
        tx.delete(&CRAWL_RUNS, run)?;
    }
    let from = tx.place(&(id, UrlId(Uuid::nil())));
    let urls = tx.readable(&INPUT_URLS, Some(&from), REMOVED_PER_STEP)?;
    let urls: Vec<_> = urls.rows.into_iter().map(|(key, _)| key).take_while(|key| key.0 == id).collect();
    for key in &urls {
        tx.delete(&INPUT_URLS, key)?;
    }
    let from = tx.place(&(id, [0; 32]));
    let documents = tx.readable(&DOCUMENTS, Some(&from), REMOVED_PER_STEP)?;
    let documents: Vec<_> =
        documents.rows.into_iter().map(|(key, _)| key).take_while(|key| key.0 == id).collect();
    for key in &documents {
        tx.delete(&DOCUMENTS, key)?;
    }
    let from = tx.place(&(id, [0; 16]));
    let seen = tx.readable(&CRAWL_SEEN, Some(&from), REMOVED_PER_STEP)?;
    let seen: Vec<_> = seen.rows.into_iter().map(|(key, _)| key).take_while(|key| key.0 == id).collect();
    for key in &seen {
        tx.delete(&CRAWL_SEEN, key)?;
    }
    let is_over = runs.rows.is_empty() && urls.is_empty() && documents.is_empty() && seen.is_empty();
    if is_over {
        tx.delete(&GONE, &id)?;
    }
    Ok(is_over)
}
