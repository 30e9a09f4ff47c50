//! What the SQL console stores: submitted and saved statements, the tables an organization's rows brought, sampled
//! values.
//!
//! None of these tables is fed: the console does not look at itself.

use base::Error;
use base::clock::Timestamp;
use base::codec::{CodecError, Json, Record, decode_body};
use base::ids::{AgentId, QueryId, SavedQueryId, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sql::{ColumnKind, ColumnSpec, TableName, TableSpec};
use store::{Index, OrgTable, OrgWrite};
use uuid::Uuid;

base::words! {
    /// Where a submitted statement stands: it waits, runs, or has ended in one of three ways for good.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum QueryStatus {
        Queued "queued",
        Running "running",
        Success "success",
        Failed "failed",
        Canceled "canceled",
    }
}

impl QueryStatus {
    /// Whether nothing will change any more.
    pub fn has_ended(self) -> bool {
        !matches!(self, QueryStatus::Queued | QueryStatus::Running)
    }
}

/// Whose rows a statement sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScopeV1 {
    /// All of the organization's.
    Org,
    /// What belongs to an agent.
    Agent(AgentId),
}

/// Why a statement has no result, in the words of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "QueryFailure")]
pub struct QueryFailureV1 {
    /// Stable and machine-readable.
    #[schemars(extend("enum" = [
        "syntax_error", "statement_timeout", "rls_denied", "too_many_queries", "kill_switched", "canceled", "transient",
    ]))]
    pub code: String,
    /// A sentence for the customer.
    pub message: String,
    /// Whether the same statement may succeed when it is sent again.
    pub retriable: bool,
}

/// What became of a successful statement's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultV1 {
    pub rows: u64,
    pub bytes: u64,
    pub cut_at_rows: bool,
    pub cut_at_bytes: bool,
    /// A file holds the rows. False for a dry run, and after they were given up to make room.
    pub kept: bool,
}

/// A submitted statement as the first release stored it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryV1 {
    pub id: QueryId,
    pub sql: String,
    pub scope: ScopeV1,
    pub submitted_by: UserId,
    pub status: QueryStatus,
    pub dry: bool,
    pub plan: Json,
    pub result: Option<ResultV1>,
    pub failure: Option<QueryFailureV1>,
    pub query_sec_max: u64,
    pub freshness_sec: Option<u64>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

/// The saved statement that a submission ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRunV1 {
    pub id: SavedQueryId,
    /// Its name when it was run.
    pub name: String,
    /// The submission that it was saved from.
    pub source: Option<QueryId>,
}

/// Readings that an aggregate left out because their columns are not filled yet (data/docs/api.md, "The SQL console").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageV1 {
    /// Readings made before may be missing.
    pub horizon: Timestamp,
    /// How many of those that match are; at least one.
    pub rows: u64,
}

/// A submitted statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryV2 {
    pub id: QueryId,
    /// What is run; of a structured query what it came to.
    pub sql: String,
    /// The structured query as it was submitted.
    pub structured: Option<Json>,
    pub scope: ScopeV1,
    pub submitted_by: UserId,
    /// The saved statement that this is a run of.
    pub saved: Option<SavedRunV1>,
    /// The caller's Idempotency-Key.
    pub submission_key: Option<Uuid>,
    pub status: QueryStatus,
    /// Only planned, never run.
    pub dry: bool,
    /// What planning found out (`engine::sql::PlanInfo` as JSON); null before that.
    pub plan: Json,
    pub result: Option<ResultV1>,
    pub coverage: Option<CoverageV1>,
    pub failure: Option<QueryFailureV1>,
    /// The time limit that applied.
    pub query_sec_max: u64,
    /// How stale the rows may have been that it read; known when it has its snapshot.
    pub freshness_sec: Option<u64>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl Record for QueryV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<QueryV1>(body).map(QueryV2::from),
            _ => Err(CodecError(format!("a query of version {version} is unknown to this release"))),
        }
    }
}

impl From<QueryV1> for QueryV2 {
    fn from(old: QueryV1) -> QueryV2 {
        QueryV2 {
            id: old.id,
            sql: old.sql,
            structured: None,
            scope: old.scope,
            submitted_by: old.submitted_by,
            saved: None,
            submission_key: None,
            status: old.status,
            dry: old.dry,
            plan: old.plan,
            result: old.result,
            coverage: None,
            failure: old.failure,
            query_sec_max: old.query_sec_max,
            freshness_sec: old.freshness_sec,
            created_at: old.created_at,
            started_at: old.started_at,
            finished_at: old.finished_at,
        }
    }
}

/// Statements that have not ended: after a crash those that nobody runs any more are found here.
pub static LIVE: Index<Timestamp, QueryV2> = Index::global("bi_queries.live", |query, keys| {
    if !query.status.has_ended() {
        keys.add(query.created_at);
    }
});

/// By age: ids grow with time.
pub static QUERIES: OrgTable<QueryId, QueryV2> = OrgTable::new("bi_queries", "Query").indexed(&[&LIVE]);

/// What a saved statement runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContentV1 {
    Sql(String),
    /// A structured query as it was saved; what it comes to is found out at each run.
    Structured(Json),
}

/// A statement that was saved under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedQueryV1 {
    pub id: SavedQueryId,
    pub name: String,
    pub description: Option<String>,
    pub content: ContentV1,
    /// Never changes.
    pub scope: ScopeV1,
    /// The submission that it was saved from.
    pub source: Option<QueryId>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Record for SavedQueryV1 {}

/// A name stands for one statement in each scope.
pub static BY_NAME: Index<(Option<AgentId>, String), SavedQueryV1> =
    Index::unique("bi_saved_queries.name", |saved, keys| {
        keys.add((saved.scope.agent(), &saved.name));
    });

pub static SAVED_QUERIES: OrgTable<SavedQueryId, SavedQueryV1> =
    OrgTable::new("bi_saved_queries", "Saved query").indexed(&[&BY_NAME]);

/// Saved queries of one organization.
const SAVED_QUERIES_PER_ORG_MAX: usize = 10_000;

/// Refuses where the organization has as many as it may have.
pub(super) fn saved_query_room(tx: &OrgWrite<'_>) -> base::Result<()> {
    if tx.count(&SAVED_QUERIES, SAVED_QUERIES_PER_ORG_MAX)? >= SAVED_QUERIES_PER_ORG_MAX {
        return Err(Error::conflict(format!(
            "An organization has at most {SAVED_QUERIES_PER_ORG_MAX} saved queries; delete one first."
        )));
    }
    Ok(())
}

/// What an Idempotency-Key was used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionV1 {
    pub query: QueryId,
    /// A digest of the request.
    pub request: [u8; 32],
    pub created_at: Timestamp,
}

impl Record for SubmissionV1 {}

/// Keys by age, for removing those that are too old.
pub static SUBMISSIONS_BY_AGE: Index<Timestamp, SubmissionV1> =
    Index::global("bi_submissions.by_age", |row, keys| {
        keys.add(row.created_at);
    });

/// By the Idempotency-Key.
pub static SUBMISSIONS: OrgTable<Uuid, SubmissionV1> =
    OrgTable::new("bi_submissions", "Idempotency-Key").uncounted().indexed(&[&SUBMISSIONS_BY_AGE]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CatalogKindV1 {
    Text,
    Int64,
    Float64,
    Bool,
    Timestamp,
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogColumnV1 {
    pub name: String,
    pub kind: CatalogKindV1,
    pub nullable: bool,
    pub description: Option<String>,
}

/// A console table as an organization's own rows made it: with more columns than the release gives everybody, or new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogTableV1 {
    pub description: String,
    pub version: u64,
    pub columns: Vec<CatalogColumnV1>,
}

impl Record for CatalogTableV1 {}

/// By the table's name.
pub static CATALOG: OrgTable<String, CatalogTableV1> = OrgTable::new("bi_catalog", "Table").uncounted();

impl From<&TableSpec> for CatalogTableV1 {
    fn from(spec: &TableSpec) -> CatalogTableV1 {
        let column = |column: &ColumnSpec| CatalogColumnV1 {
            name: column.name.clone(),
            kind: column.kind.into(),
            nullable: column.nullable,
            description: column.description.clone(),
        };
        CatalogTableV1 {
            description: spec.description.clone(),
            version: spec.catalog_version,
            columns: spec.columns.iter().map(column).collect(),
        }
    }
}

impl CatalogTableV1 {
    /// The table under its name.
    pub fn spec(self, name: TableName) -> TableSpec {
        let column = |column: CatalogColumnV1| ColumnSpec {
            name: column.name,
            kind: column.kind.into(),
            nullable: column.nullable,
            description: column.description,
        };
        TableSpec {
            name,
            description: self.description,
            columns: self.columns.into_iter().map(column).collect(),
            catalog_version: self.version,
            newest: None,
            agent_rows: None,
            joined: None,
        }
    }
}

macro_rules! kinds {
    ($($kind:ident)*) => {
        impl From<ColumnKind> for CatalogKindV1 {
            fn from(kind: ColumnKind) -> CatalogKindV1 {
                match kind { $(ColumnKind::$kind => CatalogKindV1::$kind),* }
            }
        }

        impl From<CatalogKindV1> for ColumnKind {
            fn from(kind: CatalogKindV1) -> ColumnKind {
                match kind { $(CatalogKindV1::$kind => ColumnKind::$kind),* }
            }
        }
    };
}

kinds! { Text Int64 Float64 Bool Timestamp Json }

/// Example values of one table's columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplesV1 {
    pub sampled_at: Timestamp,
    /// Column and array of values; a column without any is there too, with an empty one.
    pub columns: Vec<(String, Json)>,
}

impl Record for SamplesV1 {}

/// By the table's name.
pub static SAMPLES: OrgTable<String, SamplesV1> = OrgTable::new("bi_samples", "Table").uncounted();

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec::{decode, encode};

    impl Record for QueryV1 {}

    #[test]
    fn a_statement_of_the_first_release_is_read() {
        let old = QueryV1 {
            id: QueryId::new(),
            sql: "SELECT 1".into(),
            scope: ScopeV1::Org,
            submitted_by: UserId::new(),
            status: QueryStatus::Success,
            dry: false,
            plan: Json(serde_json::json!({"tables": []})),
            result: Some(ResultV1 { rows: 3, kept: true, ..ResultV1::default() }),
            failure: None,
            query_sec_max: 30,
            freshness_sec: Some(2),
            created_at: Timestamp(1),
            started_at: Some(Timestamp(2)),
            finished_at: Some(Timestamp(3)),
        };
        let read: QueryV2 = decode(&encode(&old).unwrap()).unwrap();
        assert_eq!(read, QueryV2::from(old));
        assert_eq!((read.result.unwrap().rows, read.saved, read.submission_key), (3, None, None));
    }

    #[test]
    fn a_table_survives_its_row() {
        let spec = TableSpec {
            name: TableName::parse("products").unwrap(),
            description: "Products".into(),
            columns: vec![
                ColumnSpec::new("id", ColumnKind::Text).required(),
                ColumnSpec::new("price", ColumnKind::Float64).describe("What it costs"),
                ColumnSpec::new("seen_at", ColumnKind::Timestamp),
            ],
            catalog_version: 7,
            newest: None,
            agent_rows: None,
            joined: None,
        };
        let bytes = encode(&CatalogTableV1::from(&spec)).unwrap();
        assert_eq!(decode::<CatalogTableV1>(&bytes).unwrap().spec(spec.name.clone()), spec);
    }
}
