//! The optimization worker: takes in what jobs have taught, and holds every smart workflow against it.
//!
//! One activation takes in all lessons that wait, organization by organization, and then looks at the smart workflows of
//! those organizations. Once a minute it looks at all of them, because providers come and go without a job.

use super::service::{Outcome, Proposal, act, propose, stale, withdraw};
use crate::features::workflows::{
    Learned, ProviderDirectory, learn, next_to_learn, next_with_plans, smart_workflows,
};
use base::ids::{OrgId, SuggestionId};
use base::{Error, Result};
use server::task::TaskContext;
use std::sync::Arc;
use store::{OrgStore, SysRead, readable};

/// Lessons taken in by one write operation.
const LESSONS_PER_WRITE: usize = 200;
/// Writes for one organization before the next one has its turn.
const WRITES_PER_TURN: usize = 50;

/// Takes in what waits, and looks at the workflows that it may concern.
pub(super) async fn learn_and_look(context: TaskContext) -> Result<()> {
    let directory = context.service::<ProviderDirectory>();
    let mut after = None;
    while let Some((id, is_fenced)) = next(&context, after, next_to_learn)? {
        after = Some(id);
        if context.stopping() {
            return Ok(());
        }
        if is_fenced {
            continue;
        }
        let org = context.system().org(id);
        // What fails in one organization keeps no other from its turn.
        if let Err(error) = learn_in(&org).await {
            tracing::warn!(org = %id, %error, "what jobs have taught could not be taken in");
        }
        look_or_say(&org, &directory).await;
    }
    Ok(())
}

/// Takes in an organization's lessons, as many as belong to a turn.
async fn learn_in(org: &OrgStore) -> Result<()> {
    let mut after = None;
    for _ in 0..WRITES_PER_TURN {
        after = org.write(move |tx| learn(tx, after.as_deref(), LESSONS_PER_WRITE)).await?;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

/// The next organization, and whether it is being erased, in which case nothing is written to it.
fn next(
    context: &TaskContext,
    after: Option<OrgId>,
    find: fn(&SysRead<'_>, Option<OrgId>) -> Result<Option<OrgId>>,
) -> Result<Option<(OrgId, bool)>> {
    context.system().read(|tx| Ok(find(tx, after)?.map(|id| (id, tx.is_fenced(id)))))
}

/// Looks at every smart workflow of the box.
pub(super) async fn look_at_all(context: TaskContext) -> Result<()> {
    let directory = context.service::<ProviderDirectory>();
    let mut after = None;
    while let Some((id, is_fenced)) = next(&context, after, next_with_plans)? {
        after = Some(id);
        if context.stopping() {
            return Ok(());
        }
        if !is_fenced {
            look_or_say(&context.system().org(id), &directory).await;
        }
    }
    Ok(())
}

/// What fails in one organization keeps no other from its turn.
async fn look_or_say(org: &OrgStore, directory: &Arc<ProviderDirectory>) {
    if let Err(error) = look(org, directory).await {
        tracing::warn!(org = %org.id(), %error, "the smart workflows of an organization could not be looked at");
    }
}

async fn look(org: &OrgStore, directory: &Arc<ProviderDirectory>) -> Result<()> {
    let (own, directory) = (org.clone(), Arc::clone(directory));
    // Ranking many domains takes its time.
    let looked = tokio::task::spawn_blocking(move || proposals(&own, &directory)).await;
    let (proposed, stale) = looked.map_err(|e| Error::internal("rank providers", e))??;
    if !stale.is_empty() {
        let count = org.write(move |tx| withdraw(tx, &stale)).await?;
        tracing::info!(org = %org.id(), count, "suggestions that no longer hold were taken back");
    }
    for proposal in proposed {
        let (id, name) = (proposal.workflow.workflow_id, proposal.workflow.name.clone());
        let acted = org.write(move |tx| act(tx, proposal)).await;
        match readable("a smart workflow", id, acted)?.unwrap_or(Outcome::Left) {
            Outcome::Written => tracing::info!(workflow = %id, name, "a smart workflow has a new ranking"),
            Outcome::Suggested => tracing::info!(workflow = %id, name, "a better ranking is suggested"),
            Outcome::Left => {}
        }
    }
    Ok(())
}

/// What would be better, and the open suggestions that are no longer.
fn proposals(org: &OrgStore, directory: &ProviderDirectory) -> Result<(Vec<Proposal>, Vec<SuggestionId>)> {
    org.read(|tx| {
        let smart = smart_workflows(tx)?;
        if smart.is_empty() {
            return Ok((Vec::new(), stale(tx, &[])?));
        }
        let learned = Learned::load(tx)?;
        let proposals = smart
            .into_iter()
            .map(|(workflow, smart)| {
                let id = workflow.workflow_id;
                let proposed = propose(tx, directory, &learned, workflow, smart);
                Ok(readable("the plan of a smart workflow", id, proposed)?.flatten())
            })
            .collect::<Result<Vec<_>>>()?;
        let proposals: Vec<_> = proposals.into_iter().flatten().collect();
        let stale = stale(tx, &proposals)?;
        Ok((proposals, stale))
    })
}
