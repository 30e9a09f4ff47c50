//! What the SQL console stores: submitted statements, the tables an organization's rows brought, sampled values.
//!
//! None of these tables is fed: the console does not look at itself.

use crate::base::clock::Timestamp;
use crate::base::codec::{Json, Record};
use crate::base::ids::{QueryId, UserId};
use crate::engine::sql::{ColumnKind, ColumnSpec, TableName, TableSpec};
use crate::store::{Index, OrgTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a submitted statement stands (interface spec, "BI execution").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryStatus {
    Queued,
    Running,
    Success,
    Failed,
    Canceled,
}

impl QueryStatus {
    pub fn name(self) -> &'static str {
        match self {
            QueryStatus::Queued => "queued",
            QueryStatus::Running => "running",
            QueryStatus::Success => "success",
            QueryStatus::Failed => "failed",
            QueryStatus::Canceled => "canceled",
        }
    }

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
}

/// Why a statement has no result, in the words of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryFailureV1 {
    /// `syntax_error`, `statement_timeout`, `rls_denied`, `too_many_queries`, `kill_switched`, `canceled` or
    /// `transient`.
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
    /// A file holds the rows. False for a dry run, and once the result is too old.
    pub kept: bool,
}

/// A submitted statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryV1 {
    pub id: QueryId,
    pub sql: String,
    pub scope: ScopeV1,
    pub submitted_by: UserId,
    pub status: QueryStatus,
    /// Only planned, never run.
    pub dry: bool,
    /// What planning found out (`engine::sql::PlanInfo` as JSON); null before that.
    pub plan: Json,
    pub result: Option<ResultV1>,
    pub failure: Option<QueryFailureV1>,
    /// The time limit that applied.
    pub query_sec_max: u64,
    /// How stale the rows may have been that it read; known when it has its snapshot.
    pub freshness_sec: Option<u64>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl Record for QueryV1 {}

/// Statements that have not ended: after a crash those that nobody runs any more are found here.
pub static LIVE: Index<QueryV1> = Index::global("bi_queries.live", |query, keys| {
    if !query.status.has_ended() {
        keys.add(|key| key.time(query.created_at));
    }
});

/// Statements with a result file, oldest first.
pub static KEPT: Index<QueryV1> = Index::global("bi_queries.kept", |query, keys| {
    if let (Some(finished_at), Some(ResultV1 { kept: true, .. })) = (query.finished_at, query.result) {
        keys.add(|key| key.time(finished_at));
    }
});

pub static QUERIES: OrgTable<QueryId, QueryV1> =
    OrgTable::new("bi_queries", "Query").indexed(&[&LIVE, &KEPT]);

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
pub static CATALOG: OrgTable<String, CatalogTableV1> = OrgTable::new("bi_catalog", "Table");

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
pub static SAMPLES: OrgTable<String, SamplesV1> = OrgTable::new("bi_samples", "Table");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codec::{decode, encode};

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
        };
        let bytes = encode(&CatalogTableV1::from(&spec)).unwrap();
        assert_eq!(decode::<CatalogTableV1>(&bytes).unwrap().spec(spec.name.clone()), spec);
    }
}
