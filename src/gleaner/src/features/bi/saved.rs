//! Saved queries: a statement under a name, to be run again (data/docs/api.md, "The SQL console").
//!
//! - The scope is chosen when a query is saved and never changes; a run takes it from there, also with `sql` of its own.
//! - A name is unique in its scope.
//! - A structured query must fit the tables when it is saved. SQL must be one query that can be read; it is not planned
//!   then, since its tables and columns may come later: a run finds out. Content that is found beyond its scope's tables is
//!   not executable, which is another fault than a wrong request.

use super::content::{Content, content_of};
use super::refusals::refusal;
use super::rows::{ContentV1, QUERIES, SAVED_QUERIES, SavedQueryV1, SavedRunV1, saved_query_room};
use super::scope;
use super::service::{NewQuery, Queries};
use super::submissions::SubmissionKey;
use super::view::{ExecutionView, ScopeKind};
use super::{answer, shown, wait};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{AgentId, QueryId, SavedQueryId, UserId};
use base::limits::{NAME_CHARS_MAX, STATEMENT_WAIT_MS_MAX};
use base::name::Name;
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::permit::{BiRead, BiWrite};
use server::{
    Accepted, Body, Created, Either, IdempotencyKey, NoContent, Org, OrgContext, Path, WithStatus, apart,
};
use sql::{PARAMETERS_MAX, STATEMENT_BYTES_MAX, Structured, check_form};
use store::Event;

/// Characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 2_000;

/// A query to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSavedQueryView {
    /// Unique in the scope.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
    #[serde(default)]
    #[schemars(length(max = DESCRIPTION_CHARS_MAX))]
    description: Option<String>,
    /// One SELECT; this, `structured` or `sourceQueryId` is needed. One that cannot be read is refused; whether there are
    /// its tables and columns is asked when it is run.
    #[serde(default)]
    #[schemars(length(max = STATEMENT_BYTES_MAX))]
    sql: Option<String>,
    #[serde(default)]
    structured: Option<Structured>,
    /// A query that was submitted, which is saved unless another one is given.
    #[serde(default)]
    source_query_id: Option<QueryId>,
    /// `org` unless given; `agent` needs `scopeAgentId`.
    #[serde(default)]
    #[schemars(with = "Option<ScopeKind>")]
    scope_kind: Option<String>,
    /// Only with the scope `agent`.
    #[serde(default)]
    #[schemars(with = "Option<AgentId>")]
    scope_agent_id: Option<String>,
}

/// What changes; what is left out stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedQueryChangeView {
    #[serde(default)]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: Option<String>,
    /// An empty text removes it.
    #[serde(default)]
    #[schemars(length(max = DESCRIPTION_CHARS_MAX))]
    description: Option<String>,
    #[serde(default)]
    #[schemars(length(max = STATEMENT_BYTES_MAX))]
    sql: Option<String>,
    #[serde(default)]
    structured: Option<Structured>,
    /// Cannot change: only what it is already.
    #[serde(default)]
    #[schemars(with = "Option<ScopeKind>")]
    scope_kind: Option<String>,
    /// Cannot change: only what it is already.
    #[serde(default)]
    #[schemars(with = "Option<AgentId>")]
    scope_agent_id: Option<String>,
}

/// How a saved query is run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RunView {
    /// Another statement to run in its place, in the same scope.
    #[schemars(length(max = STATEMENT_BYTES_MAX))]
    sql: Option<String>,
    /// The values of the statement's parameters `$1`, `$2` …: texts, numbers, truth values or null.
    #[schemars(length(max = PARAMETERS_MAX))]
    params: Option<Vec<Value>>,
    /// How long to wait for the end, in milliseconds; 2,000 unless given.
    #[schemars(range(max = STATEMENT_WAIT_MS_MAX))]
    wait_ms: Option<u64>,
    /// Cannot be chosen: only what the saved query has.
    #[schemars(with = "Option<ScopeKind>")]
    scope_kind: Option<String>,
    /// Cannot be chosen: only what the saved query has.
    #[schemars(with = "Option<AgentId>")]
    scope_agent_id: Option<String>,
}

/// A saved query.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedQueryView {
    id: SavedQueryId,
    name: String,
    description: Option<String>,
    /// Null for a structured query.
    sql: Option<String>,
    /// Null for SQL.
    #[schemars(with = "Option<Structured>")]
    structured: Option<Value>,
    #[schemars(with = "ScopeKind")]
    scope_kind: &'static str,
    #[schemars(with = "Option<AgentId>")]
    scope_agent_id: Option<String>,
    /// The query that it was saved from.
    source_query_id: Option<QueryId>,
    created_by: UserId,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<SavedQueryV1> for SavedQueryView {
    fn from(saved: SavedQueryV1) -> SavedQueryView {
        let (sql, structured) = match saved.content {
            ContentV1::Sql(sql) => (Some(sql), None),
            ContentV1::Structured(structured) => (None, Some(structured.0)),
        };
        SavedQueryView {
            id: saved.id,
            name: saved.name,
            description: saved.description,
            sql,
            structured,
            scope_kind: saved.scope.name(),
            scope_agent_id: saved.scope.agent().map(|id| id.to_string()),
            source_query_id: saved.source,
            created_by: saved.created_by,
            created_at: saved.created_at,
            updated_at: saved.updated_at,
        }
    }
}

pub(super) async fn list(org: Org<BiRead>, page: PageRequest) -> Result<Body<Page<SavedQueryView>>> {
    let rows = org.read(|tx| tx.page(&SAVED_QUERIES, &page, |_| true))?;
    Ok(Body(rows.map(SavedQueryView::from)))
}

pub(super) async fn get(org: Org<BiRead>, Path(id): Path<SavedQueryId>) -> Result<Body<SavedQueryView>> {
    Ok(Body(org.read(|tx| tx.require(&SAVED_QUERIES, &id))?.into()))
}

pub(super) async fn create(
    org: Org<BiWrite>,
    Body(new): Body<NewSavedQueryView>,
) -> Result<Created<SavedQueryView>> {
    let queries = org.service::<Queries>();
    let scope = queries.scope(org.store(), new.scope_kind.as_deref(), new.scope_agent_id.as_deref())?;
    let name = Name::parse("name", &new.name)?.into_string();
    let description = new.description.as_deref().map(description).transpose()?.flatten();
    let given = storable(&org, new.sql, new.structured).await?;
    let created_by = org.principal().user();
    let saved = org
        .write(move |tx| {
            let source = new.source_query_id.map(|id| {
                let missing = || Error::invalid("sourceQueryId", "there is no such query");
                tx.get(&QUERIES, &id)?.ok_or_else(missing)
            });
            let source = source.transpose()?;
            let content = given.or_else(|| source.as_ref().map(content_of));
            let content =
                content.ok_or_else(|| invalid("sql: is required, or structured, or sourceQueryId"))?;
            saved_query_room(tx)?;
            let saved = SavedQueryV1 {
                id: SavedQueryId::new(),
                name,
                description,
                content,
                scope,
                source: source.map(|query| query.id),
                created_by,
                created_at: tx.now(),
                updated_at: tx.now(),
            };
            tx.insert(&SAVED_QUERIES, &saved.id, &saved).map_err(name_taken)?;
            tx.audit(Event::new(Action::SavedQueryCreated).of(saved.id))?;
            Ok(saved)
        })
        .await?;
    Ok(Created(saved.into()))
}

pub(super) async fn update(
    org: Org<BiWrite>,
    Path(id): Path<SavedQueryId>,
    Body(change): Body<SavedQueryChangeView>,
) -> Result<Body<SavedQueryView>> {
    scope::check_form(change.scope_kind.as_deref(), change.scope_agent_id.as_deref())?;
    // Whoever's it is comes before what is wrong with the content.
    org.read(|tx| tx.require(&SAVED_QUERIES, &id))?;
    let content = storable(&org, change.sql.clone(), change.structured.clone()).await?;
    let saved = org
        .write(move |tx| {
            let mut saved = tx.require(&SAVED_QUERIES, &id)?;
            keep_scope(&saved, change.scope_kind.as_deref(), change.scope_agent_id.as_deref())?;
            if let Some(name) = &change.name {
                saved.name = Name::parse("name", name)?.into_string();
            }
            if let Some(text) = &change.description {
                saved.description = description(text)?;
            }
            if let Some(content) = content {
                saved.content = content;
            }
            saved.updated_at = tx.now();
            tx.put(&SAVED_QUERIES, &id, &saved).map_err(name_taken)?;
            tx.audit(Event::new(Action::SavedQueryUpdated).of(id))?;
            Ok(saved)
        })
        .await?;
    Ok(Body(saved.into()))
}

pub(super) async fn delete(org: Org<BiWrite>, Path(id): Path<SavedQueryId>) -> Result<NoContent> {
    org.write(move |tx| {
        tx.require(&SAVED_QUERIES, &id)?;
        tx.delete(&SAVED_QUERIES, &id)?;
        tx.audit(Event::new(Action::SavedQueryDeleted).of(id))
    })
    .await?;
    Ok(NoContent)
}

pub(super) async fn run(
    org: Org<BiRead>,
    Path(id): Path<SavedQueryId>,
    IdempotencyKey(key): IdempotencyKey,
    body: Option<Body<RunView>>,
) -> Result<Either<Body<ExecutionView>, Accepted<ExecutionView>>> {
    let body = body.map(|Body(body)| body).unwrap_or_default();
    let wait = wait(body.wait_ms)?;
    scope::check_form(body.scope_kind.as_deref(), body.scope_agent_id.as_deref())?;
    let saved = org.read(|tx| tx.require(&SAVED_QUERIES, &id))?;
    keep_scope(&saved, body.scope_kind.as_deref(), body.scope_agent_id.as_deref())?;
    let key =
        key.map(|key| SubmissionKey::of(key, &request(id, body.sql.as_deref(), body.params.as_deref())));
    // What was run under the key is the answer, whatever has become of the saved query since.
    if let Some(submitted) = org.service::<Queries>().replayed(org.store(), key.as_ref(), wait).await? {
        return shown(&org, submitted).await;
    }
    let given = Content::given(body.sql, None)?;
    let is_override = given.is_some();
    let content = given.map_or_else(|| Content::read(&saved.content), Ok)?.with_parameters(body.params)?;
    let queries = org.service::<Queries>();
    if let Some(agent) = saved.scope.agent()
        && !queries.has_agent(org.store(), agent)?
    {
        let gone = Error::new(Code::InvalidExecutionContext).message("its agent is gone.");
        return Err(not_executable(&gone));
    }
    let by_content = |error: Error| match error.code() {
        // The request is as it should be; what was saved is not.
        Code::RlsDenied if !is_override => not_executable(&error),
        Code::InvalidSql if matches!(saved.content, ContentV1::Structured(_)) && !is_override => {
            not_executable(&error)
        }
        _ => error,
    };
    let new = NewQuery {
        content: queries.runnable(org.store(), content).map_err(by_content)?,
        scope: saved.scope,
        submitted_by: org.principal().user(),
        saved: Some(SavedRunV1 { id, name: saved.name, source: saved.source }),
        key,
        dry: false,
        wait,
    };
    answer(&org, new).await.map_err(by_content)
}

/// A structured query as PostgreSQL's SQL.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ConvertedView {
    sql: String,
    #[schemars(extend("const" = "postgresql"))]
    dialect: &'static str,
}

pub(super) async fn convert(
    org: Org<BiRead>,
    Path(id): Path<SavedQueryId>,
) -> Result<WithStatus<200, ConvertedView>> {
    let saved = org.read(|tx| tx.require(&SAVED_QUERIES, &id))?;
    let Content::Structured(structured) = Content::read(&saved.content)? else {
        return Err(invalid("The saved query is SQL already; only a structured one can be converted."));
    };
    let compiled = org.service::<Queries>().compiled(org.store(), &structured)?;
    let compiled = compiled.map_err(|error| not_executable(&refusal(error)))?;
    Ok(WithStatus(ConvertedView { sql: compiled.sql, dialect: "postgresql" }))
}

/// What makes one run another than the next.
fn request(id: SavedQueryId, sql: Option<&str>, params: Option<&[Value]>) -> Vec<u8> {
    let mut bytes = id.0.as_bytes().to_vec();
    if let Some(sql) = sql {
        bytes.push(1);
        bytes.extend_from_slice(sql.as_bytes());
    }
    // A zero byte is in no statement.
    for value in params.unwrap_or_default() {
        bytes.push(0);
        bytes.extend_from_slice(value.to_string().as_bytes());
    }
    bytes
}

fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidSql).message(message)
}

fn not_executable(why: &Error) -> Error {
    let why = why.detail().unwrap_or_else(|| why.sentence());
    Error::new(Code::SavedQueryNotExecutable)
        .message(format!("The saved query is not proven to stay in its scope: {why}"))
}

/// What a request gives to be saved, if it does. What can never be run is refused: nobody would find out before a run.
async fn storable(
    org: &OrgContext,
    sql: Option<String>,
    structured: Option<Structured>,
) -> Result<Option<ContentV1>> {
    if sql.as_ref().is_some_and(|sql| sql.trim().is_empty()) {
        return Err(invalid("sql: must not be empty"));
    }
    let Some(content) = Content::given(sql, structured)? else { return Ok(None) };
    match &content {
        Content::Sql(sql) => {
            let sql = sql.clone();
            let checked = apart(move || check_form(&sql)).await?;
            checked.map_err(|error| match error.code.is_refusal() {
                true => refusal(error),
                false => Error::unavailable(error.message),
            })?;
        }
        Content::Structured(structured) => {
            org.service::<Queries>().compiled(org.store(), structured)?.map_err(refusal)?;
        }
    }
    content.stored().map(Some)
}

/// A description without space around it; none when nothing is left.
fn description(text: &str) -> Result<Option<String>> {
    let text = text.trim();
    let chars = text.chars().count();
    if chars > DESCRIPTION_CHARS_MAX {
        let reason = format!("has {chars} characters; at most {DESCRIPTION_CHARS_MAX} are allowed");
        return Err(Error::invalid("description", reason));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn name_taken(error: Error) -> Error {
    match error.code() {
        Code::AlreadyExists => error.message("name: another saved query of this scope has it"),
        _ => error,
    }
}

/// A request may repeat the scope, as a client does that sends back what it read. Another one is refused and not passed
/// over: who asks for an agent's rows must not be given the organization's.
fn keep_scope(saved: &SavedQueryV1, kind: Option<&str>, agent: Option<&str>) -> Result<()> {
    let is_own =
        |id: &str| saved.scope.agent().is_some_and(|own| id.parse().is_ok_and(|id: AgentId| id == own));
    let same = kind.is_none_or(|kind| kind == saved.scope.name()) && agent.is_none_or(is_own);
    if same {
        return Ok(());
    }
    let is_other_kind = kind.is_some_and(|kind| kind != saved.scope.name());
    let field = if is_other_kind { "scopeKind" } else { "scopeAgentId" };
    Err(Error::new(Code::InvalidExecutionContext)
        .message(format!("{field}: a saved query keeps the scope it was made with")))
}
