//! From what was learned to a better ranking: proposing, suggesting, applying.

use super::rows::{BY_WORKFLOW, EvidenceV1, OPEN, SUGGESTIONS, SuggestionStatus, SuggestionV1};
use crate::features::events::{EventKind, NewEvent};
use crate::features::workflows::{
    self, Current, Learned, Mode, PlanV1, ProviderDirectory, SmartV1, WORKFLOWS, WORKFLOWS_MAX,
    WorkflowStatus, WorkflowV1, plan_of, write_plan, write_version,
};
use base::audit::Action;
use base::ids::{ProviderId, SuggestionId, UserId, WorkflowId};
use base::permission::Permission;
use base::{Error, Result};
use dispatch::dag::Dag;
use dispatch::rank::{Estimate, Plan};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use store::{Event, Order, OrgRead, OrgWrite, readable};

/// Time between two versions that the worker writes of one workflow, when somewhere another provider is to be asked first.
const VERSION_EVERY: Duration = Duration::from_secs(10);
/// The same when only the order behind the first, or the shares of finding out, have changed.
const DETAILS_EVERY: Duration = Duration::from_secs(10 * 60);
/// A suggestion is worth somebody's time from this gain on.
const GAIN_MIN: f64 = 0.01;
/// Domains whose evidence a suggestion shows; those with most traffic.
const EVIDENCE_DOMAINS_MAX: usize = 20;

/// Another plan for a workflow.
pub struct Proposal {
    pub workflow: WorkflowV1,
    pub current: Plan,
    pub plan: Plan,
    pub dag: Dag,
    evidence: Vec<EvidenceV1>,
    gain: f64,
}

impl Proposal {
    fn moves_orders(&self) -> bool {
        self.current.overall != self.plan.overall || self.current.domains != self.plan.domains
    }

    /// Whether another provider is to be asked first somewhere, or the providers are others.
    fn moves_firsts(&self) -> bool {
        let firsts = |plan: &Plan| {
            let domains = plan.domains.iter().filter(|(_, order)| order.first() != plan.overall.first());
            let domains = domains.map(|(domain, order)| (domain.clone(), order.first().copied()));
            (plan.overall.first().copied(), domains.collect::<Vec<_>>())
        };
        firsts(&self.current) != firsts(&self.plan) || self.moves_providers()
    }

    /// Whether a provider came or went.
    fn moves_providers(&self) -> bool {
        let all = |plan: &Plan| plan.overall.iter().copied().collect::<BTreeSet<_>>();
        all(&self.current) != all(&self.plan)
    }
}

/// The plan that would follow a smart workflow's present one, if it is another.
pub fn propose(
    tx: &OrgRead<'_>,
    directory: &ProviderDirectory,
    learned: &Learned,
    workflow: WorkflowV1,
    smart: SmartV1,
) -> Result<Option<Proposal>> {
    let connected = directory.connected(tx)?;
    if connected.is_empty() {
        // Nothing could be drawn; the graph stays, and its jobs say what is missing.
        return Ok(None);
    }
    let current = plan_of(tx, workflow.workflow_id)?;
    let ranked = workflows::rank(learned, &connected, smart, &current);
    if ranked.plan == current {
        return Ok(None);
    }
    let gain = gain(&connected, learned, smart, &current, &ranked.plan);
    let evidence = evidence(&connected, learned, smart, &current, &ranked.plan);
    Ok(Some(Proposal { workflow, current, plan: ranked.plan, dag: ranked.dag, evidence, gain }))
}

fn first<'e>(estimates: &'e [Estimate], order: &[ProviderId]) -> Option<&'e Estimate> {
    estimates.iter().find(|estimate| order.first() == Some(&estimate.provider))
}

/// How much better the first provider's score is under the proposed plan, weighed by traffic.
fn gain(
    connected: &[workflows::Connected],
    learned: &Learned,
    smart: SmartV1,
    current: &Plan,
    proposed: &Plan,
) -> f64 {
    let of = |estimates: &[Estimate], plan: &Plan, domain: Option<&str>| {
        let order = domain.and_then(|domain| plan.of(domain)).unwrap_or(&plan.overall);
        first(estimates, order).map_or(0.0, |estimate| estimate.score)
    };
    let (mut sum, mut weight) = (0.0, 0.0);
    for (domain, board) in &learned.domains {
        let estimates = workflows::estimates(learned, connected, smart, Some(board));
        let better =
            of(&estimates, proposed, Some(domain.as_str())) - of(&estimates, current, Some(domain.as_str()));
        sum += better * board.count as f64;
        weight += board.count as f64;
    }
    if weight == 0.0 {
        let estimates = workflows::estimates(learned, connected, smart, None);
        return of(&estimates, proposed, None) - of(&estimates, current, None);
    }
    sum / weight
}

/// What is known where the plans differ, and over all.
fn evidence(
    connected: &[workflows::Connected],
    learned: &Learned,
    smart: SmartV1,
    current: &Plan,
    proposed: &Plan,
) -> Vec<EvidenceV1> {
    let mut domains: Vec<_> =
        learned.domains.iter().filter(|(domain, _)| current.of(domain) != proposed.of(domain)).collect();
    domains.sort_by_key(|(_, board)| std::cmp::Reverse(board.count));
    domains.truncate(EVIDENCE_DOMAINS_MAX);
    let places = std::iter::once((None, None))
        .chain(domains.into_iter().map(|(domain, board)| (Some(domain.clone()), Some(board))));
    places
        .flat_map(|(domain, board)| {
            let estimates = workflows::estimates(learned, connected, smart, board);
            estimates.into_iter().map(move |estimate| EvidenceV1 {
                provider: estimate.provider,
                domain: domain.clone(),
                samples: estimate.samples,
                success_rate: estimate.success_rate,
                p50_ms: estimate.p50_ms,
                p95_ms: estimate.p95_ms,
                avg_credits: estimate.avg_credits,
                score: estimate.score,
                low: estimate.interval.0,
                high: estimate.interval.1,
            })
        })
        .collect()
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new version is live.
    Written,
    /// A suggestion waits.
    Suggested,
    /// Not now, or not worth it.
    Left,
}

/// Writes a new version or a suggestion, as the workflow's mode has it; unless somebody changed the workflow meanwhile.
pub fn act(tx: &OrgWrite<'_>, proposal: Proposal) -> Result<Outcome> {
    let id = proposal.workflow.workflow_id;
    let present = tx.get(&WORKFLOWS, &id)?.filter(|present| *present == proposal.workflow);
    let (Some(workflow), Some(smart)) = (present, proposal.workflow.smart) else { return Ok(Outcome::Left) };
    match smart.mode {
        Mode::Auto => {
            let pause = if proposal.moves_firsts() { VERSION_EVERY } else { DETAILS_EVERY };
            if workflow.version > 1 && tx.age(workflow.updated_at) < pause {
                return Ok(Outcome::Left);
            }
            // What was suggested about the version before speaks of no ranking that is.
            supersede(tx, id)?;
            let current = write_version(tx, workflow, &proposal.dag, None)?;
            write_plan(tx, id, &proposal.plan)?;
            let event = Event::new(Action::WorkflowOptimized).of(id);
            tx.audit(event.with("version", current.version.version))?;
            Ok(Outcome::Written)
        }
        Mode::Suggest => suggest(tx, &workflow, proposal),
    }
}

fn suggest(tx: &OrgWrite<'_>, workflow: &WorkflowV1, proposal: Proposal) -> Result<Outcome> {
    // A provider that came or went is worth a word whatever is known of it.
    if !proposal.moves_orders() || proposal.gain < GAIN_MIN && !proposal.moves_providers() {
        return Ok(Outcome::Left);
    }
    let proposed = PlanV1::from(&proposal.plan);
    let same = |row: &SuggestionV1| {
        row.proposed.overall == proposed.overall && row.proposed.domains == proposed.domains
    };
    let newest = tx.scan_index(&SUGGESTIONS, &BY_WORKFLOW, workflow.workflow_id, Order::Descending, 1)?.pop();
    // What is open already, or was turned down, is not said again.
    let said = |row: &SuggestionV1| {
        same(row) && matches!(row.status, SuggestionStatus::Open | SuggestionStatus::Dismissed)
    };
    if newest.as_ref().is_some_and(said) {
        return Ok(Outcome::Left);
    }
    // One that somebody may be reading is not replaced for a hair, and one that somebody has just turned down does not come
    // back for one.
    let is_fresh = |row: &SuggestionV1| {
        let since = match row.status {
            SuggestionStatus::Open => row.created_at,
            SuggestionStatus::Dismissed => row.resolved_at.unwrap_or(row.created_at),
            SuggestionStatus::Applied | SuggestionStatus::Superseded => return false,
        };
        tx.age(since) < DETAILS_EVERY && proposal.gain < row.expected_gain + GAIN_MIN
    };
    if newest.as_ref().is_some_and(is_fresh) && !proposal.moves_providers() {
        return Ok(Outcome::Left);
    }
    supersede(tx, workflow.workflow_id)?;
    let row = SuggestionV1 {
        id: SuggestionId::new(),
        workflow_id: workflow.workflow_id,
        version_id: workflow.version_id,
        status: SuggestionStatus::Open,
        current: PlanV1::from(&proposal.current),
        proposed,
        evidence: proposal.evidence,
        expected_gain: proposal.gain,
        created_at: tx.now(),
        resolved_at: None,
        resolved_by: None,
    };
    tx.insert(&SUGGESTIONS, &row.id, &row)?;
    let data = json!({ "workflowId": row.workflow_id, "expectedGain": row.expected_gain });
    NewEvent::of(&CREATED, row.id).data(data).write(tx)?;
    Ok(Outcome::Suggested)
}

pub(super) static CREATED: EventKind = EventKind::new(
    "suggestion.created",
    Permission::WorkflowsRead,
    "A better ranking is suggested for a smart workflow (`workflowId`, `expectedGain`).",
);

/// Takes the open suggestion of a workflow back, if there is one; whether there was.
fn supersede(tx: &OrgWrite<'_>, workflow: WorkflowId) -> Result<bool> {
    let Some(mut open) = tx.lookup(&SUGGESTIONS, &OPEN, workflow)? else { return Ok(false) };
    open.status = SuggestionStatus::Superseded;
    open.resolved_at = Some(tx.now());
    tx.put(&SUGGESTIONS, &open.id, &open)?;
    Ok(true)
}

/// The open suggestions that have nothing to say any more: their workflow has another version, is archived, or is ranked by
/// the worker itself; or what was learned since speaks for the order that is, and somebody had the time to read them.
pub fn stale(tx: &OrgRead<'_>, proposals: &[Proposal]) -> Result<Vec<SuggestionId>> {
    let is_said_again = |row: &SuggestionV1| {
        let proposal = proposals.iter().find(|proposal| proposal.workflow.workflow_id == row.workflow_id);
        proposal.is_some_and(Proposal::moves_orders)
    };
    let mut stale = Vec::new();
    for (id, row) in tx.readable_by(&SUGGESTIONS, &OPEN, (), None, None, WORKFLOWS_MAX)?.rows {
        let workflow = tx.get(&WORKFLOWS, &row.workflow_id);
        let Some(workflow) = readable("a workflow", row.workflow_id, workflow)? else { continue };
        let is_about = workflow.as_ref().is_some_and(|workflow| is_about(&row, workflow));
        let is_looked_at = workflow.is_some_and(|workflow| workflow.is_published());
        let was_read = tx.age(row.created_at) >= DETAILS_EVERY;
        if !is_about || is_looked_at && was_read && !is_said_again(&row) {
            stale.push(id);
        }
    }
    Ok(stale)
}

/// Whether a suggestion speaks of the workflow as it is now.
fn is_about(row: &SuggestionV1, workflow: &WorkflowV1) -> bool {
    let is_asked_for = workflow.smart.is_some_and(|smart| smart.mode == Mode::Suggest);
    is_asked_for && workflow.status != WorkflowStatus::Archived && workflow.version_id == row.version_id
}

/// Takes those of these suggestions back that are still open; gives how many there were.
pub fn withdraw(tx: &OrgWrite<'_>, ids: &[SuggestionId]) -> Result<usize> {
    let mut count = 0;
    for id in ids {
        let open = tx.get(&SUGGESTIONS, id)?.filter(|row| row.status == SuggestionStatus::Open);
        if let Some(row) = open {
            count += usize::from(supersede(tx, row.workflow_id)?);
        }
    }
    Ok(count)
}

fn open(tx: &OrgRead<'_>, id: SuggestionId) -> Result<SuggestionV1> {
    let row = tx.require(&SUGGESTIONS, &id)?;
    if row.status != SuggestionStatus::Open {
        return Err(Error::conflict(format!(
            "The suggestion is {}; only an open one can be answered.",
            row.status.name()
        )));
    }
    Ok(row)
}

fn resolve(
    tx: &OrgWrite<'_>,
    mut row: SuggestionV1,
    status: SuggestionStatus,
    by: UserId,
) -> Result<SuggestionV1> {
    row.status = status;
    row.resolved_at = Some(tx.now());
    row.resolved_by = Some(by);
    tx.put(&SUGGESTIONS, &row.id, &row)?;
    Ok(row)
}

/// The workflow of a suggestion that can be applied to it as it is now.
fn applicable(tx: &OrgRead<'_>, row: &SuggestionV1) -> Result<WorkflowV1> {
    let workflow = tx.require(&WORKFLOWS, &row.workflow_id)?;
    if workflow.status == WorkflowStatus::Archived {
        return Err(Error::conflict("The workflow is archived, so its ranking cannot change."));
    }
    if workflow.version_id != row.version_id {
        return Err(Error::conflict(format!(
            "The suggestion is out of date: it was made for an earlier version, and the workflow is at version {} now. \
             Dismiss it; a better ranking than the present one is suggested anew.",
            workflow.version
        )));
    }
    Ok(workflow)
}

/// Makes the proposed ranking the workflow's new version.
pub fn apply(
    tx: &OrgWrite<'_>,
    directory: &ProviderDirectory,
    id: SuggestionId,
    by: UserId,
) -> Result<(SuggestionV1, Current)> {
    let row = open(tx, id)?;
    let workflow = applicable(tx, &row)?;
    let connected = directory.connected(tx)?;
    // Who was disconnected since the suggestion was made is left out.
    let here = |id: &ProviderId| connected.iter().any(|provider| provider.id == *id);
    let mut plan: Plan = row.proposed.clone().into();
    plan.overall.retain(here);
    plan.domains.iter_mut().for_each(|(_, order)| order.retain(here));
    plan.explore.retain(|(id, _)| here(id));
    if plan.overall.is_empty() {
        return Err(Error::conflict("No provider of the suggestion is connected any more."));
    }
    let dag = workflows::draw(&Learned::load(tx)?, &plan);
    let current = write_version(tx, workflow, &dag, Some(by))?;
    write_plan(tx, row.workflow_id, &plan)?;
    Ok((resolve(tx, row, SuggestionStatus::Applied, by)?, current))
}

pub fn dismiss(tx: &OrgWrite<'_>, id: SuggestionId, by: UserId) -> Result<SuggestionV1> {
    resolve(tx, open(tx, id)?, SuggestionStatus::Dismissed, by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::workflows::Strategy;
    use base::clock::Clock;
    use base::ids::{OrgId, WorkflowVersionId};
    use store::fault::FaultyDisk;
    use store::{MIGRATIONS, OrgStore, Store};
    use uuid::Uuid;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A smart workflow in suggest mode whose plan is 1, 2, 3.
    struct Lab {
        org: OrgStore,
        clock: Clock,
        workflow: WorkflowV1,
    }

    fn plan(order: [u128; 3]) -> Plan {
        Plan { overall: order.map(|n| ProviderId(Uuid::from_u128(n))).to_vec(), ..Plan::default() }
    }

    impl Lab {
        async fn new() -> Lab {
            let (disk, clock) = (FaultyDisk::new(), Clock::system());
            let store = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap();
            let workflow = WorkflowV1 {
                workflow_id: WorkflowId::new(),
                version: 1,
                version_id: WorkflowVersionId::new(),
                name: "smart".to_owned(),
                status: WorkflowStatus::Published,
                route: None,
                smart: Some(SmartV1 { strategy: Strategy::default(), mode: Mode::Suggest }),
                created_at: clock.now(),
                updated_at: clock.now(),
                created_by: UserId::new(),
                published_at: Some(clock.now()),
            };
            let (org, row) = (store.system().org(OrgId::new()), workflow.clone());
            org.write(move |tx| tx.insert(&WORKFLOWS, &row.workflow_id, &row)).await.unwrap();
            Lab { org, clock, workflow }
        }

        fn proposal(&self, order: [u128; 3], gain: f64) -> Proposal {
            Proposal {
                workflow: self.workflow.clone(),
                current: plan([1, 2, 3]),
                plan: plan(order),
                dag: Dag::default(),
                evidence: Vec::new(),
                gain,
            }
        }

        /// What the worker makes of this order.
        async fn found(&self, order: [u128; 3], gain: f64) -> Outcome {
            let proposal = self.proposal(order, gain);
            self.org.write(move |tx| act(tx, proposal)).await.unwrap()
        }

        fn newest(&self) -> SuggestionV1 {
            let id = self.workflow.workflow_id;
            let newest =
                self.org.read(|tx| tx.scan_index(&SUGGESTIONS, &BY_WORKFLOW, id, Order::Descending, 1));
            newest.unwrap().pop().unwrap()
        }
    }

    #[tokio::test]
    async fn an_open_suggestion_is_not_replaced_for_a_hair() {
        let lab = Lab::new().await;
        assert_eq!(lab.found([2, 1, 3], GAIN_MIN / 2.0).await, Outcome::Left, "not worth somebody's time");
        assert_eq!(lab.found([2, 1, 3], 0.10).await, Outcome::Suggested);
        let first = lab.newest();
        assert_eq!(lab.found([2, 1, 3], 0.50).await, Outcome::Left, "it is said already");
        assert_eq!(
            lab.found([2, 3, 1], 0.10 + GAIN_MIN / 2.0).await,
            Outcome::Left,
            "somebody may be reading it"
        );
        assert_eq!(lab.newest(), first);
        assert_eq!(
            lab.found([2, 3, 1], 0.10 + 2.0 * GAIN_MIN).await,
            Outcome::Suggested,
            "worth interrupting"
        );
        lab.clock.advance(DETAILS_EVERY + MINUTE);
        assert_eq!(lab.found([3, 2, 1], 0.05).await, Outcome::Suggested, "it has been there for long enough");
        let all = lab.org.read(|tx| tx.scan(&SUGGESTIONS, None, Order::Ascending, 10)).unwrap();
        let open = all.iter().filter(|(_, row)| row.status == SuggestionStatus::Open);
        assert_eq!((all.len(), open.count()), (3, 1));
    }

    /// What the worker does with open suggestions when it has found these orders.
    async fn withdrawn(lab: &Lab, found: &[[u128; 3]]) -> usize {
        let proposals: Vec<_> = found.iter().map(|order| lab.proposal(*order, 0.1)).collect();
        let ids = lab.org.read(|tx| stale(tx, &proposals)).unwrap();
        lab.org.write(move |tx| withdraw(tx, &ids)).await.unwrap()
    }

    #[tokio::test]
    async fn a_suggestion_about_an_earlier_version_is_not_applied_and_goes() {
        let mut lab = Lab::new().await;
        assert_eq!(lab.found([2, 1, 3], 0.10).await, Outcome::Suggested);
        assert_eq!(withdrawn(&lab, &[[2, 1, 3]]).await, 0, "it holds");
        let (mut changed, row) = (lab.workflow.clone(), lab.newest());
        assert!(lab.org.read(|tx| applicable(tx, &row)).is_ok());
        changed.version_id = WorkflowVersionId::new();
        let stored = changed.clone();
        lab.org.write(move |tx| tx.put(&WORKFLOWS, &stored.workflow_id, &stored)).await.unwrap();
        let refused = lab.org.read(|tx| applicable(tx, &row)).unwrap_err();
        assert!(refused.detail().unwrap().starts_with("The suggestion is out of date"), "{refused}");
        assert_eq!(withdrawn(&lab, &[[2, 1, 3]]).await, 1);
        assert_eq!(
            lab.newest(),
            SuggestionV1 {
                status: SuggestionStatus::Superseded,
                resolved_at: lab.newest().resolved_at,
                ..row
            }
        );
        assert_eq!(withdrawn(&lab, &[]).await, 0);

        // The worker's own version takes it back at once.
        lab.workflow = changed;
        assert_eq!(lab.found([3, 2, 1], 0.10).await, Outcome::Suggested);
        let smart = SmartV1 { strategy: Strategy::default(), mode: Mode::Auto };
        lab.workflow.smart = Some(smart);
        let stored = lab.workflow.clone();
        lab.org.write(move |tx| tx.put(&WORKFLOWS, &stored.workflow_id, &stored)).await.unwrap();
        assert_eq!(lab.found([2, 3, 1], 0.10).await, Outcome::Written);
        assert_eq!(lab.newest().status, SuggestionStatus::Superseded);
    }

    #[tokio::test]
    async fn a_suggestion_that_nothing_speaks_for_any_more_goes_when_it_could_be_read() {
        let lab = Lab::new().await;
        assert_eq!(lab.found([2, 1, 3], 0.10).await, Outcome::Suggested);
        assert_eq!(withdrawn(&lab, &[]).await, 0, "somebody may be reading it");
        lab.clock.advance(DETAILS_EVERY + MINUTE);
        assert_eq!(withdrawn(&lab, &[[3, 1, 2]]).await, 0, "another change is worth making");
        assert_eq!(withdrawn(&lab, &[[1, 2, 3]]).await, 1, "the order that is");
    }

    #[tokio::test]
    async fn what_was_turned_down_does_not_come_back_at_once() {
        let lab = Lab::new().await;
        assert_eq!(lab.found([2, 1, 3], 0.10).await, Outcome::Suggested);
        let id = lab.newest().id;
        lab.org.write(move |tx| dismiss(tx, id, UserId::new())).await.unwrap();
        assert_eq!(lab.found([2, 1, 3], 0.50).await, Outcome::Left, "the same order");
        assert_eq!(lab.found([2, 3, 1], 0.10).await, Outcome::Left, "as good as the same");
        assert_eq!(lab.found([2, 3, 1], 0.10 + 2.0 * GAIN_MIN).await, Outcome::Suggested, "a better one");
        let id = lab.newest().id;
        lab.org.write(move |tx| dismiss(tx, id, UserId::new())).await.unwrap();
        lab.clock.advance(DETAILS_EVERY + MINUTE);
        assert_eq!(lab.found([2, 3, 1], 0.10).await, Outcome::Left, "the same order, later");
        assert_eq!(lab.found([3, 2, 1], 0.10).await, Outcome::Suggested, "another one, later");
    }
}
