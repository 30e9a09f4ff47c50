//! The statements: SQL as an analyst would write it over the console's tables, with parameters for whatever a caller says.
//!
//! Jobs count by when they were submitted, attempts by when they began, results by when their page was fetched, changes of
//! the balance by when they were made.

use super::parameters::{DomainSort, Metric, SortOrder};
use super::period::{Buckets, Period};

use base::ids::ProviderId;
use base::terms::PageType;
use base::{Error, Result};
use serde_json::Value;

/// Which rows count, beside their time.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) domain: Option<String>,
    pub(super) page_type: Option<PageType>,
    pub(super) tag: Option<String>,
    pub(super) provider_id: Option<ProviderId>,
}

/// A table that is counted, and the column of its rows' times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Jobs,
    Attempts,
    Results,
}

impl Source {
    fn table(self) -> &'static str {
        match self {
            Source::Jobs => "jobs",
            Source::Attempts => "job_attempts",
            Source::Results => "readings",
        }
    }

    fn time(self) -> &'static str {
        match self {
            Source::Jobs => "created_at",
            Source::Attempts => "started_at",
            Source::Results => "scraped_at",
        }
    }
}

/// A statement in the making: its parameters' values, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Values(pub(super) Vec<Value>);

impl Values {
    /// A parameter with this value.
    fn add(&mut self, value: impl Into<Value>) -> String {
        self.0.push(value.into());
        format!("${}", self.0.len())
    }

    fn within(&mut self, column: &str, period: &Period) -> String {
        let (from, to) = (self.add(period.from.to_string()), self.add(period.to.to_string()));
        format!("{column} >= {from} AND {column} < {to}")
    }

    /// The condition on a table's rows.
    fn rows(&mut self, source: Source, period: &Period, filter: &Filter) -> String {
        let mut text = self.within(source.time(), period);
        if let Some(domain) = &filter.domain {
            text = format!("{text} AND domain = {}", self.add(domain.clone()));
        }
        if let Some(kind) = filter.page_type {
            text = format!("{text} AND page_type = {}", self.add(kind.name()));
        }
        if let Some(provider) = filter.provider_id {
            text = format!("{text} AND provider_id = {}", self.add(provider.to_string()));
        }
        if let Some(tag) = &filter.tag {
            text = format!("{text} AND {}", self.has_tag(tag));
        }
        text
    }

    /// Whether the list of tags has this one, as it stands in JSON's text: behind a bracket or comma, between quotes. That is
    /// asked once for each different list. Only a tag that begins with a comma could be taken for the comma between two.
    fn has_tag(&mut self, tag: &str) -> String {
        if tag.starts_with(',') {
            let tag = self.add(tag);
            return format!(
                "id IN (SELECT j.id FROM jobs j, jsonb_array_elements_text(j.tags) AS t (tag) WHERE t.tag = {tag})"
            );
        }
        let quoted = Value::from(tag).to_string();
        let (first, other) = (self.add(format!("[{quoted}")), self.add(format!(",{quoted}")));
        format!("(starts_with(tags::text, {first}) OR strpos(tags::text, {other}) > 0)")
    }
}

const CHANGED: &str = "changed::text <> '[]'";

fn percentiles(column: &str) -> String {
    format!(
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY {column}) AS p50, \
         percentile_cont(0.95) WITHIN GROUP (ORDER BY {column}) AS p95"
    )
}

/// How many succeeded jobs there are among these, and their percentiles, behind other columns. Times are whole milliseconds and
/// few are different: each is counted once, and the percentiles are found among the counts. They are those of
/// `percentile_cont`, to the digit, for less than half of what that takes over every job.
fn latency(columns: &str, jobs: &str) -> String {
    let percentile = |part: f64| {
        let place = format!("{part}::float8 * (total - 1)");
        let (below, above) = (
            format!("min(v) FILTER (WHERE upto > floor({place}))"),
            format!("min(v) FILTER (WHERE upto > ceil({place}))"),
        );
        format!("{below} + ({above} - {below}) * (max({place}) - floor(max({place})))")
    };
    format!(
        "SELECT {columns}, sum(n)::int8, 0, {}, {} FROM (SELECT v, n, sum(n) OVER (ORDER BY v) AS upto, \
         sum(n) OVER () AS total FROM (SELECT duration_ms AS v, count(*) AS n FROM jobs WHERE {jobs} \
         AND status = 'succeeded' AND duration_ms IS NOT NULL GROUP BY duration_ms) t) c",
        percentile(0.5),
        percentile(0.95)
    )
}

/// Columns `part` (0: the period, 1: the one before), `what`, the counts `a` and `b`, the numbers `x` and `y`.
pub(super) fn overview(values: &mut Values, period: &Period, filter: &Filter) -> String {
    let mut arms = Vec::new();
    for (part, period) in [period.clone(), period.before()].iter().enumerate() {
        let jobs = values.rows(Source::Jobs, period, filter);
        arms.push(format!(
            "SELECT {part} AS part, status AS what, count(*) AS a, sum(credits_charged) AS b, NULL::float8 AS x, \
             NULL::float8 AS y FROM jobs WHERE {jobs} GROUP BY status"
        ));
        arms.push(latency(&format!("{part}, 'latency'"), &jobs));
        for (what, column) in [("urls", "url"), ("domains", "domain")] {
            arms.push(format!(
                "SELECT {part}, '{what}', count(DISTINCT {column}), 0, NULL::float8, NULL::float8 FROM jobs WHERE {jobs}"
            ));
        }
        // Results and attempts have no tags.
        if filter.tag.is_some() {
            continue;
        }
        let results = values.rows(Source::Results, period, filter);
        arms.push(format!(
            "SELECT {part}, 'results', count(*), count(*) FILTER (WHERE {CHANGED}), avg(quality_composite), NULL::float8 \
             FROM readings WHERE {results}"
        ));
        let attempts = values.rows(Source::Attempts, period, filter);
        arms.push(format!(
            "SELECT {part}, 'attempts', count(*), sum(bytes), NULL::float8, NULL::float8 FROM job_attempts \
             WHERE {attempts}"
        ));
    }
    arms.join(" UNION ALL ")
}

/// Columns `bucket`, `n` (what it was made of), and `value`.
pub(super) fn timeseries(
    values: &mut Values,
    metric: Metric,
    period: &Period,
    buckets: &Buckets,
    filter: &Filter,
) -> Result<String> {
    use Source::{Attempts, Jobs, Results};
    let (source, only, n, value) = match metric {
        Metric::Jobs => (Jobs, "", "count(*)", "count(*)"),
        Metric::Succeeded => (Jobs, "status = 'succeeded'", "count(*)", "count(*)"),
        Metric::Failed => (Jobs, "status = 'failed'", "count(*)", "count(*)"),
        Metric::SuccessRate => (
            Jobs,
            "status IN ('succeeded', 'failed')",
            "count(*)",
            "avg(CASE WHEN status = 'succeeded' THEN 1.0::float8 ELSE 0.0::float8 END)",
        ),
        Metric::Credits => (Jobs, "", "count(*)", "sum(credits_charged)"),
        Metric::LatencyP50 => (
            Jobs,
            "status = 'succeeded'",
            "count(duration_ms)",
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms)",
        ),
        Metric::LatencyP95 => (
            Jobs,
            "status = 'succeeded'",
            "count(duration_ms)",
            "percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms)",
        ),
        Metric::Results => (Results, "", "count(*)", "count(*)"),
        Metric::Changed => (Results, CHANGED, "count(*)", "count(*)"),
        Metric::Quality => (Results, "", "count(quality_composite)", "avg(quality_composite)"),
        Metric::Attempts => (Attempts, "", "count(*)", "count(*)"),
        Metric::Blocked => (Attempts, "outcome = 'blocked'", "count(*)", "count(*)"),
        Metric::Bytes => (Attempts, "", "count(*)", "sum(bytes)"),
    };
    if filter.tag.is_some() && source != Jobs {
        return Err(no_filter("tag", metric, "jobs, succeeded, failed, successRate, credits or a latency"));
    }
    if filter.provider_id.is_some() && source == Results {
        return Err(no_filter("providerId", metric, "a metric of jobs or of attempts"));
    }
    let rows = values.rows(source, period, filter);
    let only = if only.is_empty() { String::new() } else { format!(" AND {only}") };
    let (place, table) = (buckets.place(source.time()), source.table());
    Ok(format!(
        "SELECT {place} AS bucket, {n} AS n, {value} AS value FROM {table} WHERE {rows}{only} GROUP BY 1 ORDER BY 1"
    ))
}

fn no_filter(field: &str, metric: Metric, others: &str) -> Error {
    Error::invalid(field, format!("\"{}\" cannot be told apart by it; {others} can", metric.name()))
}

/// One row a provider that was asked.
pub(super) fn providers(values: &mut Values, period: &Period, filter: &Filter, rows_max: usize) -> String {
    let attempts = values.rows(Source::Attempts, period, filter);
    let jobs = values.rows(Source::Jobs, period, filter);
    let duration = "CASE WHEN outcome = 'success' THEN duration_ms END";
    let p50_p95 = percentiles(duration);
    format!(
        "WITH a AS (SELECT provider_id, count(*) AS attempts, \
         count(*) FILTER (WHERE outcome = 'success') AS succeeded, \
         count(*) FILTER (WHERE outcome = 'blocked') AS blocked, \
         count(*) FILTER (WHERE outcome = 'timeout') AS timeouts, \
         count(*) FILTER (WHERE outcome = 'target_error') AS target_errors, \
         sum(bytes) AS bytes, sum(credits) AS billed, {p50_p95} \
         FROM job_attempts WHERE {attempts} GROUP BY provider_id), \
         c AS (SELECT provider_id, count(*) AS jobs, sum(credits_charged) AS credits FROM jobs \
         WHERE {jobs} AND provider_id IS NOT NULL GROUP BY provider_id) \
         SELECT a.*, c.jobs, c.credits, p.name, p.adapter FROM a LEFT JOIN c ON c.provider_id = a.provider_id \
         LEFT JOIN providers p ON p.id = a.provider_id ORDER BY a.attempts DESC, a.provider_id LIMIT {rows_max}"
    )
}

/// One row a domain that jobs were for, with `total`, the number of all of them.
pub(super) fn domains(
    values: &mut Values,
    period: &Period,
    filter: &Filter,
    (sort, order): (DomainSort, SortOrder),
    (offset, rows_max): (u64, usize),
) -> String {
    let jobs = values.rows(Source::Jobs, period, filter);
    let results = values.rows(Source::Results, period, &Filter { tag: None, ..filter.clone() });
    let p50_p95 = percentiles("CASE WHEN status = 'succeeded' THEN duration_ms END");
    let by = match sort {
        DomainSort::Jobs => "jobs",
        DomainSort::Failed => "failed",
        DomainSort::SuccessRate => "success_rate",
        DomainSort::LatencyP95 => "p95",
        DomainSort::Credits => "credits",
        DomainSort::Results => "results",
        DomainSort::Quality => "quality",
        DomainSort::Domain => "domain",
    };
    let direction = match order {
        SortOrder::Asc => "ASC",
        SortOrder::Desc => "DESC",
    };
    format!(
        "WITH j AS (SELECT domain, count(*) AS jobs, count(*) FILTER (WHERE status = 'succeeded') AS succeeded, \
         count(*) FILTER (WHERE status = 'failed') AS failed, \
         avg(CASE status WHEN 'succeeded' THEN 1.0::float8 WHEN 'failed' THEN 0.0::float8 END) AS success_rate, \
         sum(credits_charged) AS credits, {p50_p95} FROM jobs WHERE {jobs} GROUP BY domain), \
         r AS (SELECT domain, count(*) AS results, count(*) FILTER (WHERE {CHANGED}) AS changed, \
         avg(quality_composite) AS quality FROM readings WHERE {results} GROUP BY domain) \
         SELECT j.*, coalesce(r.results, 0) AS results, coalesce(r.changed, 0) AS changed, r.quality AS quality, \
         count(*) OVER () AS total FROM j LEFT JOIN r ON r.domain = j.domain \
         ORDER BY {by} {direction} NULLS LAST, domain LIMIT {rows_max} OFFSET {offset}"
    )
}

/// Changes of the balance: columns `bucket`, `kind`, `amount`. What jobs reserve, settle and get back is one kind, `used`.
pub(super) fn ledger(values: &mut Values, period: &Period, buckets: &Buckets) -> String {
    let (rows, place) = (values.within("at", period), buckets.place("at"));
    format!(
        "SELECT {place} AS bucket, 'used' AS kind, sum(amount) AS amount FROM credit_transactions \
         WHERE {rows} AND kind IN ('reserve', 'settle', 'refund') GROUP BY 1 \
         UNION ALL SELECT {place} AS bucket, kind, sum(amount) AS amount FROM credit_transactions \
         WHERE {rows} AND kind NOT IN ('reserve', 'settle', 'refund') GROUP BY 1, 2"
    )
}

/// What jobs that ended in the period were charged, by `column`: columns `key`, `jobs`, `credits`, `name`.
pub(super) fn charges(values: &mut Values, period: &Period, column: &str, rows_max: usize) -> String {
    let rows = values.within("finished_at", period);
    let charged = format!(
        "SELECT {column} AS key, count(*) AS jobs, sum(credits_charged) AS credits FROM jobs \
         WHERE {rows} AND credits_charged > 0 GROUP BY {column}"
    );
    let order = format!("ORDER BY c.credits DESC, c.key LIMIT {rows_max}");
    match column {
        "provider_id" => {
            format!("SELECT c.*, p.name FROM ({charged}) c LEFT JOIN providers p ON p.id = c.key {order}")
        }
        _ => format!("SELECT c.*, c.key AS name FROM ({charged}) c {order}"),
    }
}

/// The quality of results, by domain and page type or by page type alone.
pub(super) fn quality(
    values: &mut Values,
    period: &Period,
    filter: &Filter,
    with_domain: bool,
    rows_max: usize,
) -> String {
    let rows = values.rows(Source::Results, period, filter);
    let domain = if with_domain { "domain, " } else { "" };
    format!(
        "SELECT {domain}page_type, count(*) AS results, count(quality_composite) AS scored, \
         avg(quality_composite) AS composite, avg(quality_completeness) AS completeness, \
         avg(quality_validation) AS validation, count(*) FILTER (WHERE {CHANGED}) AS changed \
         FROM readings WHERE {rows} GROUP BY {domain}page_type ORDER BY results DESC, {domain}page_type LIMIT {rows_max}"
    )
}

/// In how many results each attribute has a value, in the period (`found`) and in the one before (`found_before`), beside the
/// page type's results with a schema (`results`, `results_before`).
pub(super) fn coverage(values: &mut Values, period: &Period, filter: &Filter, rows_max: usize) -> String {
    let rows = values.rows(Source::Results, &period.with_before(), filter);
    let from = values.add(period.from.to_string());
    let counted = |what: &str| {
        format!(
            "count(*) FILTER (WHERE scraped_at >= {from}) AS {what}, \
             count(*) FILTER (WHERE scraped_at < {from}) AS {what}_before"
        )
    };
    let (results, found) = (counted("results"), counted("found"));
    format!(
        "WITH r AS (SELECT page_type, {results} FROM readings WHERE {rows} AND quality_composite IS NOT NULL \
         GROUP BY page_type), \
         v AS (SELECT page_type, attribute, {found}, \
         count(*) FILTER (WHERE is_changed AND scraped_at >= {from}) AS changed FROM reading_values \
         WHERE {rows} AND position = 0 GROUP BY page_type, attribute) \
         SELECT v.*, r.results, r.results_before FROM v JOIN r ON r.page_type = v.page_type \
         ORDER BY v.page_type, v.attribute LIMIT {rows_max}"
    )
}
