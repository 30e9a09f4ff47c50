//! Statements that a conversation with an agent has run, and queries that it saves: as the console does both, and never
//! outside of the agent's scope, which is an argument here and no choice of a caller.

use super::content::{Content, content_of};
use super::rows::{
    BY_NAME, QUERIES, QueryStatus, QueryV2, SAVED_QUERIES, SavedQueryV1, ScopeV1, saved_query_room,
};
use super::service::{NewQuery, Queries, Submitted};
use base::audit::Action;
use base::ids::{AgentId, QueryId, SavedQueryId, UserId};
use base::{Code, Error, Result};
use serde_json::{Map, Value};
use sql::TableSpec;
use sql::structured::Structured;
use std::sync::Arc;
use std::time::Duration;
use store::{Event, OrgRead, OrgStore, OrgWrite};

/// What a conversation asks.
#[derive(Clone, Debug)]
pub enum Asked {
    Sql(String),
    Structured(Box<Structured>),
}

/// Who asks it, and how long they wait.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    pub agent: AgentId,
    pub by: UserId,
    pub wait: Duration,
    /// Rows that are wanted at most.
    pub rows_max: u64,
}

/// What became of it.
#[derive(Debug)]
pub struct Answered {
    pub query: QueryId,
    /// The statement that was run.
    pub sql: String,
    /// Why there are no rows; none as well while it runs.
    pub failure: Option<String>,
    /// The columns with the names of their types; none until it has succeeded.
    pub columns: Vec<(String, String)>,
    pub rows: Vec<Map<String, Value>>,
    /// Rows of the whole result; none until it has succeeded.
    pub total_rows: Option<u64>,
}

/// Whether an error is the statement's own: another statement would do, and nothing else is wrong.
pub fn is_of_statement(error: &Error) -> bool {
    matches!(error.code(), Code::InvalidSql | Code::SyntaxError | Code::RlsDenied)
        || (error.code() == Code::KillSwitched && error.status() == 400)
}

/// A table, and example values of its columns by their names.
pub type DescribedTable = (Arc<TableSpec>, Vec<(String, Value)>);

impl Queries {
    /// Runs a statement in the scope of an agent, as one that its asker submitted.
    pub async fn ask(self: &Arc<Self>, org: &OrgStore, asking: Asking, asked: Asked) -> Result<Answered> {
        let content = match asked {
            Asked::Sql(sql) => Content::required(Some(sql), None)?,
            Asked::Structured(structured) => Content::required(None, Some(*structured))?,
        };
        let new = NewQuery {
            content: self.runnable(org, content)?,
            scope: ScopeV1::Agent(asking.agent),
            submitted_by: asking.by,
            saved: None,
            key: None,
            dry: false,
            wait: asking.wait,
        };
        let submitted = self.submit(org, new).await?;
        let succeeded = submitted.query.status == QueryStatus::Success;
        let (rows, total_rows) = match succeeded {
            true => self.shown_rows(org, &submitted, asking.rows_max).await?,
            false => (Vec::new(), None),
        };
        let query = submitted.query;
        let failure = query.failure.as_ref().map(|failure| failure.message.clone());
        let canceled = query.status == QueryStatus::Canceled;
        Ok(Answered {
            query: query.id,
            columns: if succeeded { columns(&query) } else { Vec::new() },
            failure: failure.or_else(|| canceled.then(|| "It was canceled.".to_owned())),
            sql: query.sql,
            rows,
            total_rows,
        })
    }

    async fn shown_rows(
        &self,
        org: &OrgStore,
        submitted: &Submitted,
        rows_max: u64,
    ) -> Result<(Vec<Map<String, Value>>, Option<u64>)> {
        match self.first_page(org.id(), submitted, rows_max).await {
            Ok(page) => Ok((page.rows, page.total_rows)),
            // They made room for others already; the answer says so by having none.
            Err(error) if error.code() == Code::Transient => Ok((Vec::new(), None)),
            Err(error) => Err(error),
        }
    }

    /// The organization's tables, with example values of the rows that belong to the agent, as far as they are known.
    pub async fn described(self: &Arc<Self>, org: &OrgStore, agent: AgentId) -> Result<Vec<DescribedTable>> {
        let tables = self.feed.specs(org)?;
        let known = self.samples_of_agent(org, agent).await;
        let with_values = |table: Arc<TableSpec>| {
            let values = known.get(&table.name).cloned().unwrap_or_default();
            (table, values)
        };
        Ok(tables.into_iter().map(with_values).collect())
    }
}

fn columns(query: &QueryV2) -> Vec<(String, String)> {
    let columns = query.plan.0.get("columns").and_then(Value::as_array);
    let text = |column: &Value, name: &str| column.get(name)?.as_str().map(str::to_owned);
    let pair = |column: &Value| Some((text(column, "name")?, text(column, "type")?));
    columns.into_iter().flatten().filter_map(pair).collect()
}

/// A query that a conversation saves.
#[derive(Debug)]
pub struct AgentSave {
    pub agent: AgentId,
    /// What it was submitted as.
    pub source: QueryId,
    pub name: String,
    pub description: Option<String>,
    pub by: UserId,
}

/// Saves a query in the scope of its agent; none when the scope has the name already. Nothing is written then.
pub fn save_for_agent(tx: &OrgWrite<'_>, save: AgentSave) -> Result<Option<SavedQueryId>> {
    let scope = ScopeV1::Agent(save.agent);
    if is_name_taken(tx, save.agent, &save.name)? {
        return Ok(None);
    }
    let gone =
        || Error::conflict("The query of this card has gone with its results. Ask again, and save that.");
    let source = tx.get(&QUERIES, &save.source)?.filter(|query| query.scope == scope).ok_or_else(gone)?;
    saved_query_room(tx)?;
    let saved = SavedQueryV1 {
        id: SavedQueryId::new(),
        name: save.name,
        description: save.description,
        content: content_of(&source),
        scope,
        source: Some(source.id),
        created_by: save.by,
        created_at: tx.now(),
        updated_at: tx.now(),
    };
    tx.insert(&SAVED_QUERIES, &saved.id, &saved)?;
    tx.audit(Event::new(Action::SavedQueryCreated).of(saved.id).with("agentId", save.agent.to_string()))?;
    Ok(Some(saved.id))
}

/// Whether a saved query of this agent has the name.
pub fn is_name_taken(tx: &OrgRead<'_>, agent: AgentId, name: &str) -> Result<bool> {
    Ok(tx.lookup(&SAVED_QUERIES, &BY_NAME, (Some(agent), name))?.is_some())
}

/// Whether a query that was saved is there (still).
pub fn is_saved(tx: &OrgRead<'_>, id: SavedQueryId) -> Result<bool> {
    Ok(tx.get(&SAVED_QUERIES, &id)?.is_some())
}
