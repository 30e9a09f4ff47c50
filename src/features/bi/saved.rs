//! Saved queries: a statement under a name, to be run again (interface spec, "Endpoints", BI; API page, section 7).
//!
//! - The scope is chosen when a query is saved and never changes; a run takes it from there, also with `sql` of its own.
//! - A name is unique in its scope.
//! - What is saved is not planned: the tables may be filled later. A run finds out, and content that names a table its
//!   scope does not have is not executable, which is another fault than a wrong request.

use super::rows::{ContentV1, QUERIES, SAVED_QUERIES, SavedQueryV1, SavedRunV1, ScopeV1};
use super::service::NewQuery;
use super::submissions::SubmissionKey;
use super::view::ExecutionView;
use super::{answer, checked_sql, scope, wait};
use crate::base::audit::Action;
use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, SavedQueryId, UserId};
use crate::base::name::Name;
use crate::base::page::{Page, PageRequest};
use crate::base::{Code, Error, Result};
use crate::http::permit::{BiRead, BiWrite};
use crate::http::{Accepted, Body, Created, Either, Headers, NoContent, Org, Path};
use crate::store::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Saved queries of one organization.
const SAVED_QUERIES_PER_ORG_MAX: usize = 10_000;
/// Characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 2_000;

/// A query to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSavedQueryView {
    /// Unique in the scope.
    name: String,
    #[serde(default)]
    description: Option<String>,
    /// One SELECT; this or `sourceQueryId` is needed.
    #[serde(default)]
    sql: Option<String>,
    /// A query that was submitted, whose statement is saved unless `sql` is given.
    #[serde(default)]
    source_query_id: Option<QueryId>,
    /// `org` (the default), or `agent` with `scopeAgentId`.
    #[serde(default)]
    scope_kind: Option<String>,
    #[serde(default)]
    scope_agent_id: Option<String>,
}

/// What changes; what is left out stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedQueryChangeView {
    #[serde(default)]
    name: Option<String>,
    /// An empty text removes it.
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    sql: Option<String>,
    /// Cannot change: only what it is already.
    #[serde(default)]
    scope_kind: Option<String>,
    /// Cannot change: only what it is already.
    #[serde(default)]
    scope_agent_id: Option<String>,
}

/// How a saved query is run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RunView {
    /// Another statement to run in its place, in the same scope.
    sql: Option<String>,
    /// How long to wait for the end, 0 to 10,000 milliseconds.
    wait_ms: Option<u64>,
}

/// A saved query.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedQueryView {
    id: SavedQueryId,
    name: String,
    description: Option<String>,
    sql: Option<String>,
    scope_kind: &'static str,
    scope_agent_id: Option<String>,
    /// The query that it was saved from.
    source_query_id: Option<QueryId>,
    created_by: UserId,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<SavedQueryV1> for SavedQueryView {
    fn from(saved: SavedQueryV1) -> SavedQueryView {
        let sql = match saved.content {
            ContentV1::Sql(sql) => Some(sql),
            ContentV1::Structured(_) => None,
        };
        SavedQueryView {
            id: saved.id,
            name: saved.name,
            description: saved.description,
            sql,
            scope_kind: saved.scope.name(),
            scope_agent_id: None,
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
    let scope = scope::parse(new.scope_kind.as_deref(), new.scope_agent_id.as_deref())?;
    let name = Name::parse("name", &new.name)?.into_string();
    let description = new.description.as_deref().map(description).transpose()?.flatten();
    let given = new.sql.map(checked_content).transpose()?;
    let created_by = org.principal().user();
    let saved = org
        .write(move |tx| {
            let source = new.source_query_id.map(|id| {
                let missing = || Error::invalid("sourceQueryId", "there is no such query");
                tx.get(&QUERIES, &id)?.ok_or_else(missing)
            });
            let source = source.transpose()?;
            let from_source = || source.as_ref().map(|query| ContentV1::Sql(query.sql.clone()));
            let content = given.or_else(from_source).ok_or_else(|| invalid("sql: is required"))?;
            if tx.count(&SAVED_QUERIES, SAVED_QUERIES_PER_ORG_MAX)? >= SAVED_QUERIES_PER_ORG_MAX {
                return Err(Error::conflict(format!(
                    "An organization has at most {SAVED_QUERIES_PER_ORG_MAX} saved queries; delete one first."
                )));
            }
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
    let saved = org
        .write(move |tx| {
            let mut saved = tx.require(&SAVED_QUERIES, &id)?;
            keep_scope(&saved, &change)?;
            if let Some(name) = &change.name {
                saved.name = Name::parse("name", name)?.into_string();
            }
            if let Some(text) = &change.description {
                saved.description = description(text)?;
            }
            if let Some(sql) = change.sql {
                saved.content = checked_content(sql)?;
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
    Headers(headers): Headers,
    body: Option<Body<RunView>>,
) -> Result<Either<Body<ExecutionView>, Accepted<ExecutionView>>> {
    let saved = org.read(|tx| tx.require(&SAVED_QUERIES, &id))?;
    let body = body.map(|Body(body)| body).unwrap_or_default();
    let key = SubmissionKey::parse(&headers, &request(id, body.sql.as_deref()))?;
    let is_override = body.sql.is_some();
    let sql = match (body.sql, saved.content) {
        (Some(sql), _) => checked_sql(sql)?,
        (None, ContentV1::Sql(sql)) => sql,
        (None, ContentV1::Structured(_)) => return Err(not_executable("It is a structured query.")),
    };
    let new = NewQuery {
        sql,
        scope: saved.scope,
        submitted_by: org.principal().user(),
        saved: Some(SavedRunV1 { id, name: saved.name, source: saved.source }),
        key,
        dry: false,
        wait: wait(body.wait_ms)?,
    };
    let answered = answer(&org, new).await;
    answered.map_err(|error| match error.code() {
        // The request is as it should be; what was saved is not.
        Code::RlsDenied if !is_override => not_executable(error.detail().unwrap_or_default()),
        _ => error,
    })
}

/// What makes one run another than the next.
fn request(id: SavedQueryId, sql: Option<&str>) -> Vec<u8> {
    let mut bytes = id.0.as_bytes().to_vec();
    if let Some(sql) = sql {
        bytes.push(1);
        bytes.extend_from_slice(sql.as_bytes());
    }
    bytes
}

fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidSql).message(message)
}

fn not_executable(why: &str) -> Error {
    Error::new(Code::SavedQueryNotExecutable)
        .message(format!("The saved query is not proven to stay in its scope: {why}"))
}

fn checked_content(sql: String) -> Result<ContentV1> {
    if sql.trim().is_empty() {
        return Err(invalid("sql: must not be empty"));
    }
    checked_sql(sql).map(ContentV1::Sql)
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

/// A change may repeat the scope, as a client does that sends back what it read.
fn keep_scope(saved: &SavedQueryV1, change: &SavedQueryChangeView) -> Result<()> {
    let same = match saved.scope {
        ScopeV1::Org => {
            change.scope_kind.as_deref().is_none_or(|kind| kind == "org") && change.scope_agent_id.is_none()
        }
    };
    if same {
        return Ok(());
    }
    let field = if change.scope_kind.as_deref().is_some_and(|kind| kind != saved.scope.name()) {
        "scopeKind"
    } else {
        "scopeAgentId"
    };
    Err(Error::new(Code::InvalidExecutionContext)
        .message(format!("{field}: a saved query keeps the scope it was made with")))
}
