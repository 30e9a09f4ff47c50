//! Statements as the operator sees them: a line in the log of one that was slow, and the spans of a trace.
//!
//! A line has no text of a statement unless `bi.slow_text` wants it, because texts hold values: it has the fingerprint, by which the
//! kill switch knows statements of the same form, and the tables that were read.

use super::state::StatementState;
use base::ids::{OrgId, QueryId};
use base::trace::Span;
use serde_json::Value;
use server::{Metrics, SlowLines};
use sql::{Fingerprint, PlanInfo, QueryError};
use std::time::Duration;
use store::Origin;

/// Characters of a statement's text, and of the names of its tables, in a line.
const TEXT_CHARS_MAX: usize = 1_000;
const TABLES_CHARS_MAX: usize = 300;

/// What the operator is told of statements.
pub struct StatementWatcher {
    lines: SlowLines,
    shows_text: bool,
}

/// A statement that has ended.
pub(super) struct EndedStatement<'s> {
    pub org: OrgId,
    /// None of one that the box ran for an answer of its own.
    pub query: Option<QueryId>,
    pub sql: &'s str,
    /// From when its turn came.
    pub took: Duration,
    /// Until then.
    pub waited: Duration,
    pub ending: Ending,
}

/// How a statement has ended.
pub(super) struct Ending {
    status: &'static str,
    rows: Option<u64>,
    tables: String,
    failure: Option<String>,
}

impl Ending {
    /// How one of the console's own has ended; none of one that was never a statement.
    pub fn of(state: &StatementState) -> Option<Ending> {
        let (status, run, rows, failure) = match state {
            StatementState::Finished { run, result, .. } => ("success", Some(run), Some(result.rows), None),
            StatementState::Failed { run, failure, .. } => {
                ("failed", run.as_ref(), None, Some(failure.code.clone()))
            }
            StatementState::Canceled { run, .. } => ("canceled", run.as_ref(), None, None),
            _ => return None,
        };
        let tables = run.and_then(|run| run.plan.0["tables"].as_array());
        let tables: Vec<_> = tables.into_iter().flatten().filter_map(Value::as_str).collect();
        Some(Ending { status, rows, tables: tables.join(","), failure })
    }

    /// How one of the box's has ended.
    pub fn of_rows(ended: Result<(&PlanInfo, u64), &QueryError>) -> Ending {
        match ended {
            Ok((plan, rows)) => {
                Ending { status: "success", rows: Some(rows), tables: plan.tables.join(","), failure: None }
            }
            Err(error) => Ending {
                status: "failed",
                rows: None,
                tables: String::new(),
                failure: Some(error.code.wire_name().to_owned()),
            },
        }
    }
}

impl StatementWatcher {
    /// A statement that takes `over` is slow; zero: none is. Its text is shown where `shows_text`.
    pub fn new(metrics: &Metrics, over: Duration, shows_text: bool) -> StatementWatcher {
        let (name, help) = ("gleaner_slow_statements_total", "Statements that took as long as bi.slow_ms.");
        StatementWatcher { lines: SlowLines::new(metrics, name, help, over), shows_text }
    }

    /// A statement has ended: tells of it if it was slow, and says of its span what it was.
    pub(super) fn tell(&self, ended: &EndedStatement<'_>, span: &mut Span) {
        if let Some(line) = self.lines.took(ended.took, Some(ended.org)) {
            self.write(ended, span, line.left_out);
        }
        let EndedStatement { org, query, sql, ending, .. } = ended;
        if span.trace().is_none() {
            return;
        }
        span.set("gleaner.org_id", org.to_string());
        span.set("gleaner.statement", Fingerprint::of(sql).to_string());
        span.set("gleaner.status", ending.status);
        span.set("gleaner.tables", ending.tables.as_str());
        if let Some(query) = query {
            span.set("gleaner.query_id", query.to_string());
        }
        if let Some(rows) = ending.rows {
            span.set("db.response.returned_rows", i64::try_from(rows).unwrap_or(i64::MAX));
        }
        if let Some(failure) = &ending.failure {
            span.fail(failure);
        }
    }

    fn write(&self, ended: &EndedStatement<'_>, span: &Span, left_out: u64) {
        let EndedStatement { org, query, sql, took, waited, ending } = ended;
        let origin = Origin::current();
        let cut = |text: &str, chars: usize| text.chars().take(chars).collect::<String>();
        tracing::warn!(
            target: "gleaner::slow",
            org = %org,
            query = query.map(|query| query.to_string()),
            statement = %Fingerprint::of(sql),
            tables = cut(&ending.tables, TABLES_CHARS_MAX),
            status = ending.status,
            failure = ending.failure,
            rows = ending.rows,
            ms = took.as_secs_f64() * 1e3,
            waited_ms = waited.as_secs_f64() * 1e3,
            request_id = origin.request_id().map(|id| id.as_str()),
            trace_id = span.trace().map(|trace| trace.to_string()),
            sql = self.shows_text.then(|| cut(sql, TEXT_CHARS_MAX)),
            left_out,
            "a statement was slow"
        );
    }
}
