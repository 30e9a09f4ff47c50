//! Workflows: versioned graphs that decide how a job goes out.
//!
//! [`rows`]: what is stored; [`service`]: the rules; [`graphs`]: graphs that were read once; [`smart`]: graphs that the box
//! draws from what it has learned, which is kept in [`boards`].

mod boards;
mod graphs;
mod route;
mod rows;
mod service;
mod smart;
mod view;
mod views;

pub use boards::{Learned, OVERALL, learn, next_to_learn, teach};
pub use graphs::Graphs;
pub use rows::{Mode, SmartV1, Strategy, VERSIONS, VersionV1, WORKFLOWS, WorkflowStatus, WorkflowV1};
pub use service::{
    Current, NewWorkflow, WORKFLOWS_MAX, asking, bind, dispatchable, forget_versions, routed, write_version,
};
pub use smart::{
    PlanV1, Ranked, draw, estimates, make_smart, next_with_plans, plan_of, rank, smart_workflows, write_plan,
};
pub use view::{StrategyView, WorkflowView};

use super::Feature;
use crate::features::providers::{self, ProviderUsers, ProviderV1, Providers};
use crate::features::wiring::Wiring;
use base::audit::Action;
use base::ids::{OutputId, ProviderId, WorkflowId};
use base::limits::NAME_CHARS_MAX;
use base::name::Name;
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use dispatch::dag::{Dag, Tariff};
use futures::future::BoxFuture;
use route::Route as JobRoute;
use rows::BY_NUMBER;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::permit::{WorkflowsRead, WorkflowsWrite};
use server::{Body, Created, Etag, Handler, IfMatch, Need, NoContent, Org, Path, Query, Route, apart_if};
use service::Drawn;
use std::borrow::Cow;
use std::sync::Arc;
use store::{Event, OrgRead};
use uuid::Uuid;
use view::ValidationView;

/// Opens the slice's parts.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        // No slice keeps outputs yet, so no graph can name one.
        let directory = ProviderDirectory::new(wiring.part(), |_, _| Ok(false));
        wiring.hang::<ProviderDirectory>(directory);
        let graphs = wiring.hang::<Graphs>(Graphs::default());
        let users = ProviderUsers::new(move |org, provider| asking(org, &graphs, provider));
        wiring.hang::<ProviderUsers>(users);
        Ok(())
    })
}

pub static FEATURE: Feature = Feature {
    name: "workflows",
    uses: &["providers"],
    open: Some(open),
    tables: &[
        &WORKFLOWS,
        &VERSIONS,
        &rows::VERSION_USES,
        &smart::PLANS,
        &boards::BOARDS,
        &boards::BOARD_USES,
        &boards::LESSONS,
    ],
    routes: &[
        Route::get("/api/v1/workflows", "listWorkflows", &Handler::new(list))
            .about("The organization's workflows, newest first; archived ones only when asked for."),
        Route::post("/api/v1/workflows", "createWorkflow", &Handler::new(create))
            .about("Makes a draft. The other operations take its workflowId; its id is that of this version.")
            .fails(&[Code::InvalidWorkflow, Code::NodeTypeUnknown, Code::Conflict]),
        Route::post("/api/v1/workflows/smart", "createSmartWorkflow", &Handler::new(create_smart))
            .about(
                "Makes and publishes a workflow whose ranking of the connected providers is kept up to date.",
            )
            .fails(&[Code::InvalidInput, Code::Conflict]),
        Route::post("/api/v1/workflows/validate", "validateWorkflow", &Handler::new(validate))
            .about("Everything that is wrong with a graph, without keeping it."),
        Route::get("/api/v1/workflows/{id}", "getWorkflow", &Handler::new(get))
            .about("A workflow with its newest graph, by its workflowId."),
        Route::put("/api/v1/workflows/{id}", "updateWorkflow", &Handler::new(update))
            .about("Makes a new version; on a published workflow it is live at once.")
            .fails(&[Code::InvalidWorkflow, Code::NodeTypeUnknown, Code::Conflict]),
        Route::delete("/api/v1/workflows/{id}", "deleteWorkflow", &Handler::new(archive))
            .about("Archives a workflow; its versions stay readable.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/workflows/{id}/clone", "cloneWorkflow", &Handler::new(clone))
            .about("A new draft with the same graph, its own history and no route.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/workflows/{id}/publish", "publishWorkflow", &Handler::new(publish))
            .about("Makes a workflow live. Its route must be free.")
            .fails(&[Code::NotFound, Code::InvalidWorkflow, Code::Conflict]),
        Route::post("/api/v1/workflows/{id}/unpublish", "unpublishWorkflow", &Handler::new(unpublish))
            .about("Back to a draft; jobs in flight finish on their version.")
            .fails(&[Code::NotFound, Code::Conflict]),
        Route::put("/api/v1/workflows/{id}/routing", "setWorkflowRoute", &Handler::new(set_route))
            .about("For which jobs the workflow stands in.")
            .fails(&[Code::NotFound, Code::Conflict]),
        Route::get("/api/v1/workflows/{id}/versions", "listWorkflowVersions", &Handler::new(versions))
            .about("Every version of a workflow, newest first."),
        Route::get("/api/v1/workflows/{id}/versions/{version}", "getWorkflowVersion", &Handler::new(version))
            .about("One version of a workflow by its number."),
        Route::put("/api/v1/workflows/{id}/smart/mode", "setSmartMode", &Handler::new(set_mode))
            .about("Whether a better ranking is applied or suggested; from the next look of the worker on.")
            .fails(&[Code::InvalidInput, Code::NotFound]),
    ],
    needs: &[Need::of::<ProviderDirectory>(), Need::of::<Graphs>()],
    views: &[views::VIEW],
    ..Feature::NONE
};

/// A provider that an organization has connected and enabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    pub id: ProviderId,
    pub name: String,
    /// What a delivery costs: by `premium`, then by `render`.
    pub prices: [[u64; 2]; 2],
    /// Whether it may be sent site sessions: it fetches from the box itself.
    pub sends_sessions: bool,
}

impl Connected {
    pub fn price(&self, tariff: Tariff) -> u64 {
        self.prices[usize::from(tariff.premium)][usize::from(tariff.render)]
    }
}

type OutputFn = Box<dyn Fn(&OrgRead<'_>, OutputId) -> Result<bool> + Send + Sync>;

/// Which providers and outputs an organization has, and what providers cost. Hung up in the services.
pub struct ProviderDirectory {
    providers: Arc<Providers>,
    has_output: OutputFn,
}

impl ProviderDirectory {
    /// `has_output` is the outputs slice's, which stands above this one.
    pub fn new(
        providers: Arc<Providers>,
        has_output: impl Fn(&OrgRead<'_>, OutputId) -> Result<bool> + Send + Sync + 'static,
    ) -> ProviderDirectory {
        ProviderDirectory { providers, has_output: Box::new(has_output) }
    }

    /// The enabled providers in the order of their creation.
    pub fn connected(&self, tx: &OrgRead<'_>) -> Result<Vec<Connected>> {
        let connected = |row: ProviderV1| {
            let price = |render, premium| self.providers.price(&row, render, premium);
            let prices = [[price(false, false), price(true, false)], [price(false, true), price(true, true)]];
            let adapter = self.providers.adapters().get(&row.adapter);
            let sends_sessions = adapter.is_some_and(|adapter| adapter.sends_sessions());
            Connected { id: row.id, prices, sends_sessions, name: row.name }
        };
        Ok(providers::enabled(tx)?.into_iter().map(connected).collect())
    }

    pub fn has_output(&self, tx: &OrgRead<'_>, id: OutputId) -> Result<bool> {
        (self.has_output)(tx, id)
    }
}

/// What the audit log is told of a workflow.
fn note(action: Action, current: &Current) -> Event {
    Event::new(action).of(current.workflow.workflow_id).with("version", current.version.version)
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct WorkflowFilter {
    status: Option<WorkflowStatus>,
}

async fn list(
    org: Org<WorkflowsRead>,
    Query(filter): Query<WorkflowFilter>,
    page: PageRequest,
) -> Result<Body<Page<WorkflowView>>> {
    let wanted = |row: &WorkflowV1| match filter.status {
        Some(status) => row.status == status,
        None => row.status != WorkflowStatus::Archived,
    };
    let page = org.read(|tx| {
        let rows = tx.page(&WORKFLOWS, &page, wanted)?;
        let views = rows.items.into_iter().map(|workflow| {
            let version = service::version_of(tx, &workflow)?;
            Ok(WorkflowView::from(Current { workflow, version }))
        });
        Ok(Page { items: views.collect::<Result<_>>()?, next_cursor: rows.next_cursor })
    })?;
    Ok(Body(page))
}

/// Nodes of a graph that is read on the spot: each may be a regular expression, which takes a millisecond.
const NODES_AT_ONCE: usize = 8;

async fn drawn(dag: Dag) -> Result<Drawn> {
    apart_if(dag.nodes.len() > NODES_AT_ONCE, move || Drawn::new(dag)).await
}

#[derive(Debug, Deserialize, JsonSchema)]
struct NewWorkflowRequest {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
    dag: Dag,
    /// `*` (every job), `domain:<domain>`, or null: only jobs that name the workflow.
    #[serde(default)]
    route: Option<String>,
}

async fn create(
    org: Org<WorkflowsWrite>,
    Body(request): Body<NewWorkflowRequest>,
) -> Result<Created<WorkflowView>> {
    let new = NewWorkflow {
        name: Name::parse("name", &request.name)?.into_string(),
        route: request.route.as_deref().map(JobRoute::parse).transpose()?,
        smart: None,
        author: org.principal().user(),
        publish: false,
    };
    let (drawn, directory) = (drawn(request.dag).await?, org.service::<ProviderDirectory>());
    let made = org.write(move |tx| {
        let made = service::create(tx, &directory, new, &drawn)?;
        tx.audit(note(Action::WorkflowCreated, &made))?;
        Ok(made)
    });
    Ok(Created(made.await?.into()))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct NewSmartRequest {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: Option<String>,
    strategy: Option<Strategy>,
    mode: Option<Mode>,
    route: Option<String>,
}

async fn create_smart(
    org: Org<WorkflowsWrite>,
    request: Option<Body<NewSmartRequest>>,
) -> Result<Created<WorkflowView>> {
    let request = request.map(|Body(request)| request).unwrap_or_default();
    let smart =
        SmartV1 { strategy: request.strategy.unwrap_or_default(), mode: request.mode.unwrap_or_default() };
    let name = request.name.unwrap_or_else(|| format!("Smart ({})", smart.strategy.name()));
    let new = NewWorkflow {
        name: Name::parse("name", &name)?.into_string(),
        route: request.route.as_deref().map(JobRoute::parse).transpose()?,
        smart: Some(smart),
        author: org.principal().user(),
        publish: true,
    };
    let directory = org.service::<ProviderDirectory>();
    let made = org.write(move |tx| {
        let made = make_smart(tx, &directory, new, smart, None)?;
        tx.audit(note(Action::WorkflowCreated, &made).with("strategy", smart.strategy.name()))?;
        Ok(made)
    });
    Ok(Created(made.await?.into()))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ValidationRequest {
    dag: Dag,
}

async fn validate(
    org: Org<WorkflowsRead>,
    Body(request): Body<ValidationRequest>,
) -> Result<Body<ValidationView>> {
    let (drawn, directory) = (drawn(request.dag).await?, org.service::<ProviderDirectory>());
    org.read(|tx| {
        let problems = drawn.problems(tx, &directory)?;
        Ok(ValidationView::new(&drawn.reading, problems, &directory.connected(tx)?))
    })
    .map(Body)
}

async fn get(org: Org<WorkflowsRead>, Path(id): Path<WorkflowId>) -> Result<Body<WorkflowView>> {
    Ok(Body(org.read(|tx| service::current(tx, id))?.into()))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct UpdateWorkflowRequest {
    #[serde(default)]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: Option<String>,
    #[serde(default)]
    dag: Option<Dag>,
}

async fn update(
    org: Org<WorkflowsWrite>,
    Path(id): Path<WorkflowId>,
    condition: IfMatch,
    Body(request): Body<UpdateWorkflowRequest>,
) -> Result<Body<WorkflowView>> {
    if request.name.is_none() && request.dag.is_none() {
        return Err(Error::invalid("name", "give a name, a dag or both; there is nothing to change"));
    }
    let name = request.name.map(|name| Name::parse("name", &name)).transpose()?.map(Name::into_string);
    let directory = org.service::<ProviderDirectory>();
    let drawn = match request.dag {
        Some(dag) => Some(drawn(dag).await?),
        None => None,
    };
    let author = org.principal().user();
    let updated = org.write(move |tx| {
        let present = service::current(tx, id)?;
        condition.check(&Etag::of(&WorkflowView::from(present.clone()))?)?;
        let updated = service::update(tx, &directory, present, name, drawn.as_ref(), author)?;
        tx.audit(note(Action::WorkflowUpdated, &updated))?;
        Ok(updated)
    });
    Ok(Body(updated.await?.into()))
}

async fn archive(org: Org<WorkflowsWrite>, Path(id): Path<WorkflowId>) -> Result<NoContent> {
    org.write(move |tx| {
        if service::archive(tx, id)? {
            tx.audit(Event::new(Action::WorkflowArchived).of(id))?;
        }
        Ok(())
    })
    .await?;
    Ok(NoContent)
}

async fn clone(org: Org<WorkflowsWrite>, Path(id): Path<WorkflowId>) -> Result<Created<WorkflowView>> {
    let author = org.principal().user();
    let made = org.write(move |tx| {
        let made = service::clone(tx, id, author)?;
        tx.audit(note(Action::WorkflowCloned, &made).with("source", Uuid::from(id)))?;
        Ok(made)
    });
    Ok(Created(made.await?.into()))
}

async fn publish(org: Org<WorkflowsWrite>, Path(id): Path<WorkflowId>) -> Result<Body<WorkflowView>> {
    let directory = org.service::<ProviderDirectory>();
    let present = org.read(|tx| service::current(tx, id))?.version;
    let read = (present.id, drawn(present.dag.into()).await?);
    let live = org.write(move |tx| {
        let (live, changed) = service::publish(tx, &directory, id, read)?;
        if changed {
            tx.audit(note(Action::WorkflowPublished, &live))?;
        }
        Ok(live)
    });
    Ok(Body(live.await?.into()))
}

async fn unpublish(org: Org<WorkflowsWrite>, Path(id): Path<WorkflowId>) -> Result<Body<WorkflowView>> {
    let draft = org.write(move |tx| {
        let (draft, changed) = service::unpublish(tx, id)?;
        if changed {
            tx.audit(note(Action::WorkflowUnpublished, &draft))?;
        }
        Ok(draft)
    });
    Ok(Body(draft.await?.into()))
}

/// The body of `PUT …/routing`: `null` clears the route, and so must be told apart from a member that is left out, which
/// is mostly a name that was typed wrong.
#[derive(Debug)]
struct RouteRequest(Option<Value>);

impl<'de> Deserialize<'de> for RouteRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // In a free-form object `null` stays what it is.
        Ok(RouteRequest(Map::<String, Value>::deserialize(deserializer)?.remove("route")))
    }
}

impl RouteRequest {
    fn checked(self) -> Result<Option<JobRoute>> {
        match self.0 {
            None => Err(Error::invalid("route", "is required; null clears it")),
            Some(Value::Null) => Ok(None),
            Some(Value::String(route)) => JobRoute::parse(&route).map(Some),
            Some(_) => Err(Error::invalid("route", "is neither text nor null")),
        }
    }
}

impl JsonSchema for RouteRequest {
    fn schema_name() -> Cow<'static, str> {
        "RouteRequest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "route": {
                    "type": ["string", "null"],
                    "description": "`*` (every job), `domain:<domain>`, or null to clear it. Must be there."
                }
            }
        })
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RouteView {
    workflow_id: WorkflowId,
    route: Option<String>,
}

async fn set_route(
    org: Org<WorkflowsWrite>,
    Path(id): Path<WorkflowId>,
    Body(request): Body<RouteRequest>,
) -> Result<Body<RouteView>> {
    let route = request.checked()?;
    let routed = org.write(move |tx| {
        let row = service::set_route(tx, id, route)?;
        tx.audit(
            Event::new(Action::WorkflowRouted).of(id).with("route", row.route.clone().unwrap_or_default()),
        )?;
        Ok(row)
    });
    let row = routed.await?;
    Ok(Body(RouteView { workflow_id: row.workflow_id, route: row.route }))
}

async fn versions(
    org: Org<WorkflowsRead>,
    Path(id): Path<WorkflowId>,
    page: PageRequest,
) -> Result<Body<Page<WorkflowView>>> {
    let page = org.read(|tx| {
        let workflow = tx.require(&WORKFLOWS, &id)?;
        let rows = tx.page_by(&VERSIONS, &BY_NUMBER, id, &page, |_| true)?;
        Ok(rows.map(|version| Current { workflow: workflow.clone(), version }))
    })?;
    Ok(Body(page.map(WorkflowView::of_version)))
}

async fn version(
    org: Org<WorkflowsRead>,
    Path((id, number)): Path<(WorkflowId, String)>,
) -> Result<Body<WorkflowView>> {
    Ok(Body(WorkflowView::of_version(org.read(|tx| service::numbered(tx, id, &number))?)))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ModeRequest {
    mode: Mode,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ModeView {
    mode: Mode,
}

async fn set_mode(
    org: Org<WorkflowsWrite>,
    Path(id): Path<WorkflowId>,
    Body(request): Body<ModeRequest>,
) -> Result<Body<ModeView>> {
    let mode = request.mode;
    org.write(move |tx| {
        smart::set_mode(tx, id, mode)?;
        tx.audit(Event::new(Action::WorkflowModeSet).of(id).with("mode", mode.name()))
    })
    .await?;
    Ok(Body(ModeView { mode }))
}
