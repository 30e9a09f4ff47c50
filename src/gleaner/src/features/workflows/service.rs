//! The rules of workflows, each inside the caller's transaction.
//!
//! A workflow's graph may be walked by jobs only when the workflow is published, and it is published only with a graph
//! that holds and whose providers are connected; so a job that finds a published workflow finds a graph it can walk. A
//! provider that is disconnected later is met by the job as an attempt that fails.

use super::ProviderDirectory;
use super::graphs::Graphs;
use super::route::Route;
use super::rows::{
    BY_NUMBER, BY_ROUTE, DagV1, SmartV1, VERSION_USES, VERSIONS, VersionUseV1, VersionV1, WORKFLOWS,
    WorkflowStatus, WorkflowV1,
};
use base::clock::Moment;
use base::ids::{OutputId, ProviderId, UserId, WorkflowId, WorkflowVersionId};
use base::web::WebUrl;
use base::{Code, Error, Result};
use dispatch::dag::{Dag, Fault, Graph, ParsedDag, Problem};
use store::{Key, Order, OrgRead, OrgStore, OrgWrite, readable};

/// Workflows of one organization that are not archived.
pub const WORKFLOWS_MAX: usize = 1_000;

/// Versions of a smart workflow that the optimization worker wrote and no job was bound to: so many of the newest are kept.
const UNUSED_VERSIONS_KEPT: u32 = 50;

/// A workflow and the version that counts.
#[derive(Clone, Debug)]
pub struct Current {
    pub workflow: WorkflowV1,
    pub version: VersionV1,
}

/// A graph that was read outside of the transaction, with its drawing.
pub struct Drawn {
    pub dag: Dag,
    pub reading: ParsedDag,
}

impl Drawn {
    pub fn new(dag: Dag) -> Drawn {
        Drawn { reading: Graph::read(&dag), dag }
    }

    /// Everything that is wrong with it in this organization.
    pub fn problems(&self, tx: &OrgRead<'_>, directory: &ProviderDirectory) -> Result<Vec<Problem>> {
        let connected = directory.connected(tx)?;
        let has_output = |id: OutputId| directory.has_output(tx, id);
        let missing = self.reading.missing(
            |id: ProviderId| connected.iter().any(|provider| provider.id == id),
            |id| has_output(id).unwrap_or(false),
        );
        Ok(self.reading.errors.iter().cloned().chain(missing).collect())
    }

    /// Refuses a graph that may not be kept; one that is only kept may name providers that are not connected.
    fn check(&self, tx: &OrgRead<'_>, directory: &ProviderDirectory, publishing: bool) -> Result<()> {
        let problems = self.problems(tx, directory)?;
        let tolerated = |problem: &&Problem| !publishing && problem.fault == Fault::ProviderNotConnected;
        let mut counted = problems.iter().filter(|problem| !tolerated(problem));
        let Some(first) = counted.next() else { return Ok(()) };
        let code = match first.fault {
            Fault::NodeTypeUnknown => Code::NodeTypeUnknown,
            _ => Code::InvalidWorkflow,
        };
        let more = match counted.count() {
            0 => String::new(),
            more => format!(" (and {more} more; POST /api/v1/workflows/validate lists them)"),
        };
        let message = format!("{}: {}: {}{more}", first.path, first.fault.name(), first.message);
        Err(Error::new(code).message(message))
    }
}

/// A workflow that is being made.
pub struct NewWorkflow {
    pub name: String,
    pub route: Option<Route>,
    pub smart: Option<SmartV1>,
    pub author: UserId,
    /// Published at once, or a draft.
    pub publish: bool,
}

fn refuse_too_many(tx: &OrgWrite<'_>) -> Result<()> {
    if tx.count(&WORKFLOWS, WORKFLOWS_MAX)? < WORKFLOWS_MAX {
        return Ok(());
    }
    // Archived ones are kept for their jobs; only those that can still run count.
    let live = live_count(tx)?;
    if live < WORKFLOWS_MAX {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "The organization has {live} workflows; at most {WORKFLOWS_MAX} that are not archived are kept."
    )))
}

pub fn create(
    tx: &OrgWrite<'_>,
    directory: &ProviderDirectory,
    new: NewWorkflow,
    drawn: &Drawn,
) -> Result<Current> {
    drawn.check(tx, directory, new.publish)?;
    refuse_too_many(tx)?;
    let now = tx.now();
    let mut workflow = WorkflowV1 {
        workflow_id: WorkflowId::new(),
        version: 0,
        version_id: WorkflowVersionId::new(),
        name: new.name,
        status: WorkflowStatus::Draft,
        route: new.route.map(Route::into_string),
        smart: new.smart,
        created_at: now,
        updated_at: now,
        created_by: new.author,
        published_at: None,
    };
    if new.publish {
        take_route(tx, &workflow)?;
        workflow.status = WorkflowStatus::Published;
        workflow.published_at = Some(now);
    }
    write_version(tx, workflow, &drawn.dag, Some(new.author))
}

fn live_count(tx: &OrgRead<'_>) -> Result<usize> {
    let (mut live, mut after) = (0, None);
    loop {
        let rows = tx.scan(&WORKFLOWS, after.as_ref(), Order::Ascending, 500)?;
        live += rows.iter().filter(|(_, row)| row.status != WorkflowStatus::Archived).count();
        match rows.last() {
            Some((last, _)) if rows.len() == 500 => after = Some(*last),
            _ => return Ok(live),
        }
    }
}

/// Writes the next version of a workflow, and the workflow as it then is. `author` is none for the optimization worker.
pub fn write_version(
    tx: &OrgWrite<'_>,
    mut workflow: WorkflowV1,
    dag: &Dag,
    author: Option<UserId>,
) -> Result<Current> {
    let version = VersionV1 {
        id: WorkflowVersionId::new(),
        workflow_id: workflow.workflow_id,
        version: workflow.version + 1,
        name: workflow.name.clone(),
        dag: DagV1::from(dag),
        smart: workflow.smart,
        created_at: tx.now(),
        created_by: author,
    };
    workflow.version = version.version;
    workflow.version_id = version.id;
    workflow.updated_at = tx.now();
    tx.insert(&VERSIONS, &version.id, &version)?;
    tx.put(&WORKFLOWS, &workflow.workflow_id, &workflow)?;
    if author.is_none() {
        forget_unused(tx, &workflow)?;
    }
    Ok(Current { workflow, version })
}

/// Lets go of the version that has just become too old to be kept for itself: the worker's own work, which no job refers to.
/// Every version that it writes comes by here, so there are never more of them.
fn forget_unused(tx: &OrgWrite<'_>, workflow: &WorkflowV1) -> Result<()> {
    let Some(number) = workflow.version.checked_sub(UNUSED_VERSIONS_KEPT) else { return Ok(()) };
    let id = workflow.workflow_id;
    let old = tx.lookup(&VERSIONS, &BY_NUMBER, (id, u64::from(number)))?;
    let Some(old) = old else { return Ok(()) };
    if old.created_by.is_none() && tx.get(&VERSION_USES, &old.id)?.is_none() {
        tx.delete(&VERSIONS, &old.id)?;
    }
    Ok(())
}

/// Versions of one workflow that one operation removes.
const FORGOTTEN_PER_STEP: usize = 64;

/// Lets go of versions whose jobs are all gone: those that a newer version took the place of before that moment, from when
/// on no job was bound to them, when every job from before it is removed. The newest ones of each workflow stay whatever
/// their age. Goes from workflow to workflow: how many went, and behind which workflow to go on.
pub fn forget_versions(
    tx: &OrgWrite<'_>,
    before: Moment,
    after: Option<WorkflowId>,
) -> Result<(u64, Option<WorkflowId>)> {
    let from = after.map(|id| id.0.into_bytes());
    let Some(id) = tx
        .keys(WORKFLOWS.name(), from.as_ref().map(|id| id.as_slice()), 1)?
        .first()
        .and_then(|key| WorkflowId::decode(key))
    else {
        return Ok((0, None));
    };
    // Of one that cannot be read every version stays.
    let workflow = readable("a workflow", id, tx.get(&WORKFLOWS, &id))?.flatten();
    let Some(workflow) = workflow else { return Ok((0, Some(id))) };
    let most = FORGOTTEN_PER_STEP + 1;
    let oldest = tx.readable_by(&VERSIONS, &BY_NUMBER, id, None, None, most)?.rows;
    let oldest: Vec<_> = oldest.into_iter().map(|(_, version)| version).collect();
    let kept_from = match workflow.status {
        WorkflowStatus::Archived => workflow.version,
        _ => workflow.version.saturating_sub(UNUSED_VERSIONS_KEPT),
    };
    let superseded = oldest.windows(2).filter_map(|pair| match pair {
        [old, newer] if tx.clock().moment_of(newer.created_at) < before && old.version < kept_from => {
            Some(old)
        }
        _ => None,
    });
    let mut gone = 0;
    for version in superseded {
        tx.delete(&VERSIONS, &version.id)?;
        tx.delete(&VERSION_USES, &version.id)?;
        gone += 1;
    }
    // There may be more of the same workflow: it is looked at once more.
    let again = gone == FORGOTTEN_PER_STEP as u64;
    Ok((gone, if again { after.or(Some(WorkflowId(uuid::Uuid::nil()))) } else { Some(id) }))
}

/// Notes that a job is bound to the workflow's present version, which must stay readable from now on.
pub fn bind(tx: &OrgWrite<'_>, workflow: &WorkflowV1) -> Result<()> {
    if workflow.smart.is_some() && tx.get(&VERSION_USES, &workflow.version_id)?.is_none() {
        tx.put(&VERSION_USES, &workflow.version_id, &VersionUseV1 { since: tx.now() })?;
    }
    Ok(())
}

/// A workflow as it is now; 404 when the organization has none of this id.
pub fn current(tx: &OrgRead<'_>, id: WorkflowId) -> Result<Current> {
    let workflow = tx.require(&WORKFLOWS, &id)?;
    let version = version_of(tx, &workflow)?;
    Ok(Current { workflow, version })
}

pub fn version_of(tx: &OrgRead<'_>, workflow: &WorkflowV1) -> Result<VersionV1> {
    tx.get(&VERSIONS, &workflow.version_id)?
        .ok_or_else(|| Error::internal("read a workflow", "its version is gone"))
}

/// One version of a workflow by its number.
pub fn numbered(tx: &OrgRead<'_>, id: WorkflowId, number: &str) -> Result<Current> {
    let workflow = tx.require(&WORKFLOWS, &id)?;
    let missing = || Error::not_found(VERSIONS.noun());
    let number: u32 = number.parse().map_err(|_| missing())?;
    let version = tx.lookup(&VERSIONS, &BY_NUMBER, (id, u64::from(number)))?;
    Ok(Current { workflow, version: version.ok_or_else(missing)? })
}

/// A change of name or graph: a new version, which is live at once when the workflow is.
pub fn update(
    tx: &OrgWrite<'_>,
    directory: &ProviderDirectory,
    present: Current,
    name: Option<String>,
    drawn: Option<&Drawn>,
    author: UserId,
) -> Result<Current> {
    let mut workflow = present.workflow;
    refuse_archived(&workflow)?;
    if workflow.smart.is_some() {
        return Err(Error::conflict(
            "A smart workflow is read-only: its graph is kept by the optimization worker. Clone it to edit it.",
        ));
    }
    if let Some(drawn) = drawn {
        drawn.check(tx, directory, workflow.is_published())?;
    }
    workflow.name = name.unwrap_or(workflow.name);
    let dag = drawn.map_or_else(|| present.version.dag.into(), |drawn| drawn.dag.clone());
    write_version(tx, workflow, &dag, Some(author))
}

fn refuse_archived(workflow: &WorkflowV1) -> Result<()> {
    if workflow.status == WorkflowStatus::Archived {
        return Err(Error::conflict("The workflow is archived; clone it to go on with its graph."));
    }
    Ok(())
}

/// A draft with the same graph, new ids, a history of its own and no route. What the optimization worker keeps up to date
/// is the original: the copy is there to be edited.
pub fn clone(tx: &OrgWrite<'_>, id: WorkflowId, author: UserId) -> Result<Current> {
    let source = current(tx, id)?;
    refuse_too_many(tx)?;
    let now = tx.now();
    let workflow = WorkflowV1 {
        workflow_id: WorkflowId::new(),
        version: 0,
        status: WorkflowStatus::Draft,
        route: None,
        smart: None,
        created_at: now,
        created_by: author,
        published_at: None,
        ..source.workflow
    };
    write_version(tx, workflow, &source.version.dag.into(), Some(author))
}

/// Makes the workflow live. Doing it twice is doing it once; whether it did something is the second of what it gives. `read` is
/// the graph of its newest version as it was read outside of the transaction, which reading one would hold up.
pub fn publish(
    tx: &OrgWrite<'_>,
    directory: &ProviderDirectory,
    id: WorkflowId,
    read: (WorkflowVersionId, Drawn),
) -> Result<(Current, bool)> {
    let Current { mut workflow, version } = current(tx, id)?;
    refuse_archived(&workflow)?;
    if workflow.is_published() {
        return Ok((Current { workflow, version }, false));
    }
    let drawn = match read {
        (of, drawn) if of == version.id => drawn,
        // It was edited meanwhile.
        _ => Drawn::new(version.dag.clone().into()),
    };
    drawn.check(tx, directory, true)?;
    take_route(tx, &workflow)?;
    workflow.status = WorkflowStatus::Published;
    workflow.published_at = Some(tx.now());
    workflow.updated_at = tx.now();
    tx.put(&WORKFLOWS, &id, &workflow)?;
    Ok((Current { workflow, version }, true))
}

/// Refuses a route that another published workflow has, and names that one.
fn take_route(tx: &OrgRead<'_>, workflow: &WorkflowV1) -> Result<()> {
    let Some(route) = &workflow.route else { return Ok(()) };
    match tx.lookup(&WORKFLOWS, &BY_ROUTE, route)? {
        Some(holder) if holder.workflow_id != workflow.workflow_id => Err(Error::conflict(format!(
            "The route {route} belongs to the published workflow \"{}\" ({}). Unpublish it or give one of them another route.",
            holder.name, holder.workflow_id
        ))),
        _ => Ok(()),
    }
}

/// Takes the workflow out of service; its route stays with it and is free for others.
pub fn unpublish(tx: &OrgWrite<'_>, id: WorkflowId) -> Result<(Current, bool)> {
    let Current { mut workflow, version } = current(tx, id)?;
    refuse_archived(&workflow)?;
    if !workflow.is_published() {
        return Ok((Current { workflow, version }, false));
    }
    workflow.status = WorkflowStatus::Draft;
    workflow.updated_at = tx.now();
    tx.put(&WORKFLOWS, &id, &workflow)?;
    Ok((Current { workflow, version }, true))
}

/// Takes the workflow away; its versions stay for the jobs that used them.
pub fn archive(tx: &OrgWrite<'_>, id: WorkflowId) -> Result<bool> {
    let mut workflow = tx.require(&WORKFLOWS, &id)?;
    if workflow.status == WorkflowStatus::Archived {
        return Ok(false);
    }
    workflow.status = WorkflowStatus::Archived;
    workflow.updated_at = tx.now();
    tx.put(&WORKFLOWS, &id, &workflow)?;
    Ok(true)
}

pub fn set_route(tx: &OrgWrite<'_>, id: WorkflowId, route: Option<Route>) -> Result<WorkflowV1> {
    let mut workflow = tx.require(&WORKFLOWS, &id)?;
    refuse_archived(&workflow)?;
    workflow.route = route.map(Route::into_string);
    if workflow.is_published() {
        take_route(tx, &workflow)?;
    }
    workflow.updated_at = tx.now();
    tx.put(&WORKFLOWS, &id, &workflow)?;
    Ok(workflow)
}

/// The workflow that a job is to take when it names one. 409 for one that is not published.
pub fn dispatchable(tx: &OrgRead<'_>, id: WorkflowId) -> Result<Option<WorkflowV1>> {
    let Some(workflow) = tx.get(&WORKFLOWS, &id)? else { return Ok(None) };
    if !workflow.is_published() {
        return Err(Error::new(Code::WorkflowDisabled).message(format!(
            "the workflow \"{}\" is {}. Publish it with POST /api/v1/workflows/{id}/publish, or leave workflowId out.",
            workflow.name,
            match workflow.status {
                WorkflowStatus::Archived => "archived",
                _ => "a draft",
            }
        )));
    }
    Ok(Some(workflow))
}

/// The published workflows whose graphs ask a provider, each by its name and id. Smart ones are not among them: the box draws
/// their graphs and leaves out who is gone.
pub fn asking(org: &OrgStore, graphs: &Graphs, provider: ProviderId) -> Result<Vec<String>> {
    let (mut named, mut after) = (Vec::new(), None);
    loop {
        let rows = org.read(|tx| tx.scan(&WORKFLOWS, after.as_ref(), Order::Ascending, 500))?;
        let ended = rows.len() < 500;
        after = rows.last().map(|(id, _)| *id);
        for (id, row) in rows.into_iter().filter(|(_, row)| row.is_published() && row.smart.is_none()) {
            // One look at a time: a graph that was not read yet takes its while.
            let graph = org.read(|tx| graphs.of(tx, row.version_id))?;
            if graph.providers().contains(&provider) {
                named.push(format!("\"{}\" ({id})", row.name));
            }
        }
        if ended {
            return Ok(named);
        }
    }
}

/// The published workflow whose route takes a job for `url`, if there is one.
pub fn routed(tx: &OrgRead<'_>, url: &WebUrl) -> Result<Option<WorkflowV1>> {
    for route in Route::of_url(url) {
        if let Some(workflow) = tx.lookup(&WORKFLOWS, &BY_ROUTE, &route)? {
            return Ok(Some(workflow));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::workflows::Mode;
    use base::clock::Clock;
    use base::ids::OrgId;
    use dispatch::dag::draw;
    use store::fault::FaultyDisk;
    use store::{MIGRATIONS, Store};

    #[tokio::test]
    async fn versions_that_no_job_was_bound_to_are_not_kept_for_ever() {
        let disk = FaultyDisk::new();
        let store = Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap();
        let org = store.system().org(OrgId::new());
        let dag = draw::chain(&[ProviderId::new()]);
        let now = org.clock().now();
        let workflow = WorkflowV1 {
            workflow_id: WorkflowId::new(),
            version: 0,
            version_id: WorkflowVersionId::new(),
            name: "smart".to_owned(),
            status: WorkflowStatus::Published,
            route: None,
            smart: Some(SmartV1 { strategy: Default::default(), mode: Mode::Auto }),
            created_at: now,
            updated_at: now,
            created_by: UserId::new(),
            published_at: Some(now),
        };
        let id = workflow.workflow_id;
        let numbers = move |tx: &OrgRead<'_>| {
            let numbers = (1..=200u32).filter(|number| numbered(tx, id, &number.to_string()).is_ok());
            Ok(numbers.collect::<Vec<_>>())
        };
        let written = org.write(move |tx| {
            // The first is somebody's own; a job takes the seventh.
            let mut current = write_version(tx, workflow, &dag, Some(UserId::new()))?;
            for _ in 2..=UNUSED_VERSIONS_KEPT + 10 {
                current = write_version(tx, current.workflow, &dag, None)?;
                if current.version.version == 7 {
                    bind(tx, &current.workflow)?;
                    bind(tx, &current.workflow)?;
                }
            }
            Ok((numbers(tx)?, current))
        });
        let (kept, current) = written.await.unwrap();
        let newest = 11..=UNUSED_VERSIONS_KEPT + 10;
        assert_eq!(kept, [1, 7].into_iter().chain(newest).collect::<Vec<_>>());
        assert_eq!(org.read(|tx| version_of(tx, &current.workflow)).unwrap(), current.version);
    }
}
