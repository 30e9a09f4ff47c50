//! Smart workflows: graphs that are drawn from what was learned.
//!
//! Beside a smart workflow stands its [`PlanV1`]: the orders that its newest graph was drawn from, which the next plan is
//! held against so that it changes only for a reason.

use super::boards::Learned;
use super::rows::{Mode, SmartV1, WORKFLOWS, WorkflowV1};
use super::service::{self, Current, Drawn, NewWorkflow};
use super::{Connected, ProviderDirectory};
use base::codec::Record;
use base::ids::{OrgId, ProviderId, WorkflowId};
use base::{Error, Result};
use dispatch::dag::{Dag, Tariff, draw};
use dispatch::rank::{Board, DomainBoard, Estimate, Evidence, Plan};
use serde::{Deserialize, Serialize};
use store::{OrgRead, OrgTable, OrgWrite, SysRead};

/// What a smart workflow's newest graph was drawn from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanV1 {
    pub overall: Vec<ProviderId>,
    pub domains: Vec<(String, Vec<ProviderId>)>,
    pub explore: Vec<(ProviderId, u32)>,
}

impl Record for PlanV1 {}

impl From<&Plan> for PlanV1 {
    fn from(plan: &Plan) -> PlanV1 {
        PlanV1 { overall: plan.overall.clone(), domains: plan.domains.clone(), explore: plan.explore.clone() }
    }
}

impl From<PlanV1> for Plan {
    fn from(row: PlanV1) -> Plan {
        Plan { overall: row.overall, domains: row.domains, explore: row.explore }
    }
}

pub static PLANS: OrgTable<WorkflowId, PlanV1> = OrgTable::new("smart_plans", "Plan");

/// A plan, and the graph that it is drawn as.
#[derive(Clone, Debug)]
pub struct Ranked {
    pub plan: Plan,
    pub dag: Dag,
}

/// What is believed of every connected provider at a domain's board, or anywhere, in the order of their creation.
pub fn estimates(
    learned: &Learned,
    connected: &[Connected],
    smart: SmartV1,
    place: Option<&Board>,
) -> Vec<Estimate> {
    with_evidence(learned, connected, smart, |evidence| evidence.estimates(place))
}

/// The plan that follows `current` from what was learned.
pub fn rank(learned: &Learned, connected: &[Connected], smart: SmartV1, current: &Plan) -> Ranked {
    let plan = with_evidence(learned, connected, smart, |evidence| evidence.plan(current));
    Ranked { dag: draw(learned, &plan), plan }
}

/// A plan as a graph.
pub fn draw(learned: &Learned, plan: &Plan) -> Dag {
    draw::ranked(plan, |domain| learned.domains.get(domain).map_or(0, |board| board.count))
}

fn with_evidence<T>(
    learned: &Learned,
    connected: &[Connected],
    smart: SmartV1,
    run: impl FnOnce(&Evidence<'_>) -> T,
) -> T {
    let tariff = Tariff { render: false, premium: false };
    let providers: Vec<_> = connected.iter().map(|provider| (provider.id, provider.price(tariff))).collect();
    let places: Vec<_> =
        learned.domains.iter().map(|(domain, board)| DomainBoard { domain, board }).collect();
    run(&Evidence {
        providers: &providers,
        overall: &learned.overall,
        places: &places,
        strategy: smart.strategy.into(),
        domain_samples_min: learned.domain_samples_min,
    })
}

/// Makes a smart workflow and publishes it. `learned` is what its first ranking is made from: a benchmark's, say, or
/// everything that the organization has learned.
pub fn make_smart(
    tx: &OrgWrite<'_>,
    directory: &ProviderDirectory,
    new: NewWorkflow,
    smart: SmartV1,
    learned: Option<Learned>,
) -> Result<Current> {
    let connected = directory.connected(tx)?;
    if connected.is_empty() {
        return Err(Error::invalid("providers", "no provider is connected; connect one first"));
    }
    let learned = match learned {
        Some(learned) => learned,
        None => Learned::load(tx)?,
    };
    let ranked = rank(&learned, &connected, smart, &Plan::default());
    let made = service::create(tx, directory, new, &Drawn::new(ranked.dag))?;
    write_plan(tx, made.workflow.workflow_id, &ranked.plan)?;
    Ok(made)
}

/// The plan of a smart workflow's newest graph.
pub fn plan_of(tx: &OrgRead<'_>, id: WorkflowId) -> Result<Plan> {
    Ok(tx.get(&PLANS, &id)?.unwrap_or_default().into())
}

pub fn write_plan(tx: &OrgWrite<'_>, id: WorkflowId, plan: &Plan) -> Result<()> {
    tx.put(&PLANS, &id, &PlanV1::from(plan))
}

/// The first organization after `after` that has smart workflows.
pub fn next_with_plans(tx: &SysRead<'_>, after: Option<OrgId>) -> Result<Option<OrgId>> {
    tx.next_org(PLANS.name(), after)
}

/// The smart workflows that are published.
pub fn smart_workflows(tx: &OrgRead<'_>) -> Result<Vec<(WorkflowV1, SmartV1)>> {
    let (mut found, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let step = tx.readable(&WORKFLOWS, after.as_deref(), 500)?;
        after = step.more();
        let smart = step.rows.into_iter().filter(|(_, row)| row.is_published());
        found.extend(smart.filter_map(|(_, row)| row.smart.map(|smart| (row, smart))));
        if after.is_none() {
            return Ok(found);
        }
    }
}

pub(super) fn set_mode(tx: &OrgWrite<'_>, id: WorkflowId, mode: Mode) -> Result<()> {
    let mut workflow = tx.require(&WORKFLOWS, &id)?;
    let smart = workflow
        .smart
        .as_mut()
        .ok_or_else(|| Error::invalid("workflowId", "is not a smart workflow; only those have a mode"))?;
    smart.mode = mode;
    workflow.updated_at = tx.now();
    tx.put(&WORKFLOWS, &id, &workflow)
}
