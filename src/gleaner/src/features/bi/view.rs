//! The console's shapes on the wire (data/docs/api.md, "The SQL console").

use super::rows::{CoverageV1, QueryFailureV1, QueryStatus, QueryV2, SamplesV1};
use super::service::{ResultPage, Submitted};
use base::clock::Timestamp;
use base::ids::{AgentId, QueryId, SavedQueryId};
use base::limits::{RESULT_PAGE_ROWS_DEFAULT, RESULT_PAGE_ROWS_MAX, STATEMENT_WAIT_MS_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sql::{PARAMETERS_MAX, STATEMENT_BYTES_MAX, Structured, TableStatus};

/// Characters of a statement that `sqlPreview` shows.
const PREVIEW_CHARS_MAX: usize = 1_000;

/// Whose rows a statement sees: the organization's, or those that belong to one agent.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "for the reference alone: a wrong one has an error of its own")]
pub(super) enum ScopeKind {
    Org,
    Agent,
}

/// A statement to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewQueryView {
    /// One SELECT; this or `structured` is needed.
    #[serde(default)]
    #[schemars(length(max = STATEMENT_BYTES_MAX))]
    pub(super) sql: Option<String>,
    #[serde(default)]
    pub(super) structured: Option<Structured>,
    /// The values of the parameters `$1`, `$2` … of `sql`: texts, numbers, truth values or null.
    #[serde(default)]
    #[schemars(length(max = PARAMETERS_MAX))]
    pub(super) params: Option<Vec<Value>>,
    /// `org` unless given; `agent` needs `scopeAgentId`.
    #[serde(default)]
    #[schemars(with = "Option<ScopeKind>")]
    pub(super) scope_kind: Option<String>,
    /// Only with the scope `agent`.
    #[serde(default)]
    #[schemars(with = "Option<AgentId>")]
    pub(super) scope_agent_id: Option<String>,
    /// Plan it and run nothing.
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
    /// How long to wait for the end, in milliseconds; 2,000 unless given.
    #[serde(default)]
    #[schemars(range(max = STATEMENT_WAIT_MS_MAX))]
    pub(super) wait_ms: Option<u64>,
}

/// A submitted statement.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecutionView {
    job_id: QueryId,
    /// Whether an earlier submission answered.
    replayed: bool,
    /// The Idempotency-Key of the run.
    #[schemars(extend("format" = "uuid"))]
    submission_key: Option<String>,
    pub(super) status: QueryStatus,
    /// What planning found out; its members are null until then.
    dry_run: Map<String, Value>,
    /// The beginning of the statement; of a structured query the one that it came to.
    sql_preview: Option<String>,
    /// The first page, when the statement ended in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) results: Option<ResultPageView>,
    /// The saved query that this is a run of; these three members are absent from any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_query_id: Option<SavedQueryId>,
    /// Its name when it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_query_name: Option<String>,
    /// The query that it was saved from, or null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-nullable" = true))]
    source_query_id: Option<Option<QueryId>>,
    #[schemars(with = "ScopeKind")]
    scope_kind: &'static str,
    #[schemars(with = "Option<AgentId>")]
    scope_agent_id: Option<String>,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<QueryFailureV1>,
}

impl From<QueryV2> for ExecutionView {
    fn from(query: QueryV2) -> ExecutionView {
        let dry_run = match query.plan.0 {
            Value::Object(plan) => plan,
            _ => ["statement", "tables", "columns", "estimatedRows", "estimatedBytes"]
                .map(|name| (name.to_owned(), Value::Null))
                .into_iter()
                .collect(),
        };
        let saved = query.saved.as_ref();
        ExecutionView {
            job_id: query.id,
            replayed: false,
            submission_key: query.submission_key.map(|key| key.to_string()),
            status: query.status,
            dry_run,
            sql_preview: Some(query.sql.chars().take(PREVIEW_CHARS_MAX).collect()),
            results: None,
            saved_query_id: saved.map(|saved| saved.id),
            saved_query_name: saved.map(|saved| saved.name.clone()),
            source_query_id: saved.map(|saved| saved.source),
            scope_kind: query.scope.name(),
            scope_agent_id: query.scope.agent().map(|id| id.to_string()),
            created_at: query.created_at,
            started_at: query.started_at,
            finished_at: query.finished_at,
            error: query.failure,
        }
    }
}

impl ExecutionView {
    /// The answer to a submission.
    pub(super) fn submitted(submitted: Submitted, results: Option<ResultPageView>) -> ExecutionView {
        let replayed = submitted.replayed;
        ExecutionView { replayed, results, ..ExecutionView::from(submitted.query) }
    }
}

/// A page of rows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResultPageView {
    rows: Vec<Map<String, Value>>,
    page: u64,
    /// As asked for; fewer in the answer to a submission whose rows are very large.
    #[schemars(range(min = 1, max = RESULT_PAGE_ROWS_MAX))]
    page_size: u64,
    /// Rows of the whole result, 0 after a dry run; -1 when unknown.
    #[schemars(range(min = -1))]
    total_rows: i64,
    has_more: bool,
    /// Present when a structured aggregate left out readings whose columns are not filled yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    history_coverage: Option<CoverageView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) export_eligibility: Option<EligibilityView>,
}

impl ResultPageView {
    /// A page of `query`'s result.
    pub(super) fn of(query: &QueryV2, page: ResultPage) -> ResultPageView {
        let end = page.page.saturating_add(1).saturating_mul(page.page_size);
        let total_rows = page.total_rows;
        ResultPageView {
            rows: page.rows,
            page: page.page,
            page_size: page.page_size,
            total_rows: total_rows.map_or(-1, |rows| i64::try_from(rows).unwrap_or(i64::MAX)),
            has_more: total_rows.is_some_and(|rows| end < rows),
            history_coverage: query.coverage.map(CoverageView::from),
            export_eligibility: None,
        }
    }
}

/// What an aggregate could not see.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CoverageView {
    /// Readings created before it may be missing.
    backfill_horizon: Timestamp,
    /// How many readings were left out.
    #[schemars(range(min = 1))]
    pre_horizon_rows: u64,
}

impl From<CoverageV1> for CoverageView {
    fn from(coverage: CoverageV1) -> CoverageView {
        CoverageView { backfill_horizon: coverage.horizon, pre_horizon_rows: coverage.rows }
    }
}

/// Whether the caller could export the result.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EligibilityView {
    eligible: bool,
    has_write_permission: bool,
    within_row_limit: bool,
    within_byte_limit: bool,
}

impl EligibilityView {
    /// From the caller's permission and the caps at which the result was cut. A dry run has nothing to export, nor has a
    /// query whose rows were given up.
    pub(super) fn of(query: &QueryV2, has_write_permission: bool) -> EligibilityView {
        let is_kept = query.result.is_some_and(|result| result.kept);
        let within_row_limit = query.result.is_some_and(|result| !result.cut_at_rows);
        let within_byte_limit = query.result.is_some_and(|result| !result.cut_at_bytes);
        EligibilityView {
            eligible: has_write_permission && within_row_limit && within_byte_limit && is_kept,
            has_write_permission,
            within_row_limit,
            within_byte_limit,
        }
    }
}

/// Which page of a result.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageQuery {
    /// Counted from 0.
    #[schemars(extend("default" = 0))]
    pub(super) page: Option<u64>,
    /// A larger number counts as 1,000.
    #[schemars(range(min = 1), extend("default" = RESULT_PAGE_ROWS_DEFAULT))]
    pub(super) page_size: Option<u64>,
}

/// How a result is paged when the manifest counts the pages.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageSizeQuery {
    /// A larger number counts as 1,000.
    #[schemars(range(min = 1), extend("default" = RESULT_PAGE_ROWS_DEFAULT))]
    pub(super) page_size: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ManifestEnvelope {
    pub(super) manifest: ManifestView,
}

/// What a result is; most of it null until the query has succeeded.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManifestView {
    job_id: QueryId,
    status: QueryStatus,
    row_count: Option<u64>,
    byte_size: Option<u64>,
    completed_at: Option<Timestamp>,
    /// What the pages are counted with.
    #[schemars(range(min = 1, max = RESULT_PAGE_ROWS_MAX))]
    page_size: u64,
    total_pages: Option<u64>,
    /// Whether rows beyond a cap were left out.
    truncated: Option<bool>,
    /// When the rows are removed; null when there are none (any more).
    expires_at: Option<Timestamp>,
    /// Upper bound in seconds on how stale the rows were when they were read; before that, on how stale they are now.
    freshness_sec: u64,
    /// The time limit that applied, in seconds.
    #[schemars(range(min = 1))]
    max_query_sec: u64,
}

impl ManifestView {
    /// How fresh the rows are is the caller's to say: a query that waits does not know it yet.
    pub(super) fn of(
        query: &QueryV2,
        page_size: u64,
        results_kept: std::time::Duration,
        freshness_sec: u64,
    ) -> ManifestView {
        let result = query.result.filter(|_| query.status == QueryStatus::Success);
        let completed_at = query.finished_at.filter(|_| result.is_some());
        ManifestView {
            job_id: query.id,
            status: query.status,
            row_count: result.map(|result| result.rows),
            byte_size: result.map(|result| result.bytes),
            completed_at,
            page_size,
            total_pages: result.map(|result| result.rows.div_ceil(page_size)),
            truncated: result.map(|result| result.cut_at_rows || result.cut_at_bytes),
            expires_at: completed_at
                .filter(|_| result.is_some_and(|result| result.kept))
                .map(|at| at.after(results_kept)),
            freshness_sec,
            max_query_sec: query.query_sec_max,
        }
    }
}

/// Which statements to list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct QueryFilter {
    status: Option<QueryStatus>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

impl QueryFilter {
    pub(super) fn accepts(&self, query: &QueryV2) -> bool {
        self.status.is_none_or(|status| query.status == status)
            && self.from.is_none_or(|from| query.created_at >= from)
            && self.to.is_none_or(|to| query.created_at < to)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CanceledView {
    pub(super) status: QueryStatus,
}

/// A table in the list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TableItemView {
    pub(super) name: String,
    description: String,
    /// Grows when the columns change.
    #[schemars(range(min = 1))]
    catalog_version: u64,
    row_count: u64,
    /// Upper bound in seconds on how stale the rows are.
    freshness_sec: u64,
}

impl TableItemView {
    pub(super) fn of(table: TableStatus, freshness_sec: u64) -> TableItemView {
        TableItemView {
            name: table.spec.name.to_string(),
            description: table.spec.description.clone(),
            catalog_version: table.spec.catalog_version,
            row_count: table.row_count,
            freshness_sec,
        }
    }
}

/// A table with its columns.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TableView {
    #[serde(flatten)]
    table: TableItemView,
    columns: Vec<ColumnView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ColumnView {
    name: String,
    #[serde(rename = "type")]
    type_name: &'static str,
    nullable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Up to 5 example values, refreshed daily. Absent when the column was not sampled yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Value>", length(max = 5))]
    sample_values: Option<Value>,
}

impl TableView {
    pub(super) fn of(table: TableStatus, freshness_sec: u64, samples: Option<SamplesV1>) -> TableView {
        let samples = samples.map(|samples| samples.columns).unwrap_or_default();
        let columns = table.spec.columns.iter().map(|column| ColumnView {
            name: column.name.clone(),
            type_name: column.kind.type_name(),
            nullable: column.nullable,
            description: column.description.clone(),
            sample_values: samples
                .iter()
                .find(|(name, _)| *name == column.name)
                .map(|(_, values)| values.0.clone()),
        });
        TableView { columns: columns.collect(), table: TableItemView::of(table, freshness_sec) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::bi::rows::{ResultV1, SavedRunV1, ScopeV1};
    use base::codec::Json;
    use base::ids::UserId;
    use serde_json::json;
    use std::time::Duration;

    fn query(status: QueryStatus, result: Option<ResultV1>) -> QueryV2 {
        QueryV2 {
            id: QueryId::new(),
            sql: "SELECT 1".into(),
            structured: None,
            scope: ScopeV1::Org,
            submitted_by: UserId::new(),
            saved: None,
            submission_key: None,
            status,
            dry: false,
            plan: Json::default(),
            result,
            coverage: None,
            failure: None,
            query_sec_max: 30,
            freshness_sec: Some(1),
            created_at: Timestamp(0),
            started_at: None,
            finished_at: Some(Timestamp(1_000)),
        }
    }

    #[test]
    fn a_run_of_a_saved_query_says_so_and_no_other_does() {
        let json = |query: QueryV2| {
            serde_json::to_value(ExecutionView::submitted(Submitted { query, replayed: true }, None)).unwrap()
        };
        let plain = json(query(QueryStatus::Success, None));
        let members = ["savedQueryId", "savedQueryName", "sourceQueryId"];
        assert!(members.iter().all(|name| plain.get(name).is_none()), "{plain}");
        let saved = SavedRunV1 { id: SavedQueryId::new(), name: "mine".into(), source: None };
        let run = json(QueryV2 { saved: Some(saved), ..query(QueryStatus::Success, None) });
        assert_eq!((&run["savedQueryName"], &run["replayed"]), (&json!("mine"), &json!(true)));
        assert_eq!(run.get("sourceQueryId"), Some(&json!(null)));
    }

    #[test]
    fn a_manifest_is_empty_until_success() {
        let week = Duration::from_secs(7 * 86_400);
        let failed =
            serde_json::to_value(ManifestView::of(&query(QueryStatus::Failed, None), 200, week, 1)).unwrap();
        for name in ["rowCount", "byteSize", "completedAt", "totalPages", "expiresAt"] {
            assert_eq!(failed[name], Value::Null, "{name}");
        }
        assert_eq!((&failed["maxQuerySec"], &failed["freshnessSec"]), (&json!(30), &json!(1)));
        let result = ResultV1 { rows: 401, bytes: 9_000, kept: true, ..ResultV1::default() };
        let done =
            serde_json::to_value(ManifestView::of(&query(QueryStatus::Success, Some(result)), 200, week, 1));
        let done = done.unwrap();
        assert_eq!((&done["totalPages"], &done["rowCount"]), (&json!(3), &json!(401)));
        assert_eq!(done["expiresAt"], "1970-01-08T00:00:01.000Z");
    }

    #[test]
    fn a_page_knows_whether_there_are_more() {
        let of = |page, total_rows| {
            let page = ResultPage { rows: Vec::new(), page, page_size: 200, total_rows };
            ResultPageView::of(&query(QueryStatus::Success, None), page)
        };
        let more = |page, total_rows| of(page, Some(total_rows)).has_more;
        assert!(more(0, 201) && !more(0, 200) && !more(1, 201) && !more(u64::MAX, 1));
        assert_eq!((of(0, None).total_rows, of(0, None).has_more), (-1, false));
    }

    #[test]
    fn what_was_cut_cannot_be_exported() {
        let result = ResultV1 { rows: 1, kept: true, cut_at_rows: true, ..ResultV1::default() };
        let cut = EligibilityView::of(&query(QueryStatus::Success, Some(result)), true);
        assert!(!cut.eligible && !cut.within_row_limit && cut.within_byte_limit && cut.has_write_permission);
        let whole = |kept| ResultV1 { rows: 1, kept, ..ResultV1::default() };
        let eligible =
            |kept| EligibilityView::of(&query(QueryStatus::Success, Some(whole(kept))), true).eligible;
        assert!(eligible(true) && !eligible(false), "nor what was given up");
    }
}
