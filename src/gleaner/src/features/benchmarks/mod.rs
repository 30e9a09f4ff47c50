//! Benchmarks: every connected provider fetches a set of URLs, and what came of it ranks them.
//!
//! A benchmark is a row and its probes, and a probe is a job that asks one provider for one page: it stands in the same
//! queue, is held to the same politeness, costs the same credits and is accounted for in the same way. So a benchmark goes
//! on after a crash without doing anything for it, and a probe counts once because a job ends once. The task here only
//! looks which of them have ended.

mod results;
mod rows;
mod task;
mod views;

pub use results::learned;
pub use rows::{BENCHMARKS, BenchmarkStatus, BenchmarkV1};

use super::Feature;
use crate::features::jobs::{self, SubmitContext, cancel_job};
use crate::features::workflows::{
    Mode, NewWorkflow, ProviderDirectory, SmartV1, Strategy, WorkflowView, make_smart,
};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{BenchmarkId, ProviderId};
use base::limits::{NAME_CHARS_MAX, URLS_PER_BENCHMARK_MAX};
use base::name::Name;
use base::page::{Page, PageRequest};
use base::web::WebUrl;
use base::{Code, Error, Result};
use fetch::AddressGuard;
use results::{PROBES_MAX, ProbeDetail, Rollup, probes};
use rows::OPEN;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{WorkflowsRead, WorkflowsWrite};
use server::task::TaskSpec;
use server::{Body, Created, Entitlement, Handler, Need, Org, Path, Route};
use std::time::Duration;
use store::{Event, Order, OrgRead, OrgWrite};
use uuid::Uuid;

/// How often open benchmarks are looked at.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

pub static FEATURE: Feature = Feature {
    name: "benchmarks",
    uses: &["events", "jobs", "workflows"],
    events: &[&task::COMPLETED],
    tables: &[&BENCHMARKS],
    routes: &[
        Route::get("/api/v1/benchmarks", "listBenchmarks", &Handler::new(list))
            .about("The organization's benchmarks, newest first."),
        Route::post("/api/v1/benchmarks", "startBenchmark", &Handler::new(start))
            .about("Lets every connected provider fetch up to 20 URLs. One benchmark at a time.")
            .plan(Entitlement("benchmarks"))
            .fails(&[Code::InvalidInput, Code::Conflict, Code::PaymentRequired, Code::QuotaExceeded]),
        Route::get("/api/v1/benchmarks/latest", "getLatestBenchmark", &Handler::new(latest))
            .about("The newest benchmark.")
            .fails(&[Code::NotFound]),
        Route::get("/api/v1/benchmarks/{id}", "getBenchmark", &Handler::new(get))
            .about("Where a benchmark stands."),
        Route::get("/api/v1/benchmarks/{id}/results", "getBenchmarkResults", &Handler::new(results))
            .about("What the probes say so far: by domain, over all, and one by one."),
        Route::post("/api/v1/benchmarks/{id}/cancel", "cancelBenchmark", &Handler::new(cancel))
            .about("Ends a benchmark; probes that have not ended cost nothing.")
            .fails(&[Code::NotFound, Code::Conflict]),
        Route::post(
            "/api/v1/benchmarks/{id}/generate-workflow",
            "generateWorkflow",
            &Handler::new(generate),
        )
        .about("Makes a smart workflow from a completed benchmark, with an order of its own for each domain.")
        .fails(&[Code::NotFound, Code::Conflict]),
    ],
    tasks: &[TaskSpec::new("benchmarks.follow", FOLLOW_EVERY, |context| Box::pin(task::follow_all(context)))],
    needs: &[
        Need::of::<SubmitContext>(),
        Need::of::<ProviderDirectory>(),
        Need::of::<AddressGuard>(),
    ],
    views: &[views::BENCHMARK_VIEW, views::PROBE_VIEW],
    ..Feature::NONE
};

/// A benchmark: every provider that takes part fetches every URL, one probe each.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BenchmarkView {
    id: BenchmarkId,
    status: BenchmarkStatus,
    urls: Vec<String>,
    provider_ids: Vec<ProviderId>,
    total_probes: u32,
    /// Probes that have ended, however.
    completed_probes: u32,
    /// Those among them that brought no page.
    failed_probes: u32,
    /// Providers without a probe that brought a page; known when the benchmark has ended.
    skipped_providers: Vec<ProviderId>,
    error: Option<String>,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl From<BenchmarkV1> for BenchmarkView {
    fn from(row: BenchmarkV1) -> BenchmarkView {
        BenchmarkView {
            id: row.id,
            status: row.status,
            urls: row.urls,
            provider_ids: row.providers.into_iter().map(|(id, _)| id).collect(),
            total_probes: row.total_probes,
            completed_probes: row.completed_probes,
            failed_probes: row.failed_probes,
            skipped_providers: row.skipped_providers,
            error: row.error,
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
        }
    }
}

/// The row with what its probes have come to by now; the task writes it down a moment later.
fn fresh(tx: &OrgRead<'_>, mut row: BenchmarkV1) -> Result<BenchmarkV1> {
    if row.status.is_open() {
        let jobs = probes(tx, row.id)?;
        results::follow(&mut row, &jobs);
    }
    Ok(row)
}

async fn list(org: Org<WorkflowsRead>, page: PageRequest) -> Result<Body<Page<BenchmarkView>>> {
    let page = org.read(|tx| {
        let rows = tx.page(&BENCHMARKS, &page, |_| true)?;
        let items = rows.items.into_iter().map(|row| fresh(tx, row)).collect::<Result<Vec<_>>>()?;
        Ok(Page { items, next_cursor: rows.next_cursor })
    })?;
    Ok(Body(page.map(BenchmarkView::from)))
}

async fn get(org: Org<WorkflowsRead>, Path(id): Path<BenchmarkId>) -> Result<Body<BenchmarkView>> {
    Ok(Body(org.read(|tx| fresh(tx, tx.require(&BENCHMARKS, &id)?))?.into()))
}

async fn latest(org: Org<WorkflowsRead>) -> Result<Body<BenchmarkView>> {
    let newest = org.read(|tx| {
        let row = tx.scan(&BENCHMARKS, None, Order::Descending, 1)?.pop().map(|(_, row)| row);
        fresh(tx, row.ok_or_else(|| Error::not_found(BENCHMARKS.noun()))?)
    })?;
    Ok(Body(newest.into()))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct NewBenchmark {
    /// Those that are no URLs are left out.
    #[schemars(length(min = 1, max = URLS_PER_BENCHMARK_MAX))]
    urls: Vec<String>,
}

async fn start(
    org: Org<WorkflowsWrite>,
    Body(request): Body<NewBenchmark>,
) -> Result<Created<BenchmarkView>> {
    let urls = checked_urls(&request.urls, &org.service::<AddressGuard>())?;
    let context = org.service::<SubmitContext>();
    let begun = org.write(move |tx| {
        let row = begin(tx, &context, urls)?;
        tx.audit(Event::new(Action::BenchmarkStarted).of(row.id).with("probes", row.total_probes))?;
        Ok(row)
    });
    Ok(Created(begun.await?.into()))
}

/// The URLs that can be fetched, each once.
fn checked_urls(given: &[String], guard: &AddressGuard) -> Result<Vec<WebUrl>> {
    if !(1..=URLS_PER_BENCHMARK_MAX).contains(&given.len()) {
        let reason = format!("must have 1 to {URLS_PER_BENCHMARK_MAX} entries, not {}", given.len());
        return Err(Error::invalid("urls", reason));
    }
    let (mut urls, mut first_reason) = (Vec::<WebUrl>::new(), None);
    for text in given {
        let url = WebUrl::parse(text).map_err(|e| e.to_string());
        let url = url.and_then(|url| guard.check_literal(&url).map(|()| url).map_err(|e| e.to_string()));
        match url {
            Ok(url) if urls.iter().any(|known| known.as_str() == url.as_str()) => {}
            Ok(url) => urls.push(url),
            Err(reason) => first_reason = first_reason.or(Some(reason)),
        }
    }
    if urls.is_empty() {
        let reason = format!("none can be fetched; the first {}", first_reason.unwrap_or_default());
        return Err(Error::invalid("urls", reason));
    }
    Ok(urls)
}

/// Writes the benchmark and all its probes, and reserves what they cost: everything or nothing.
fn begin(tx: &OrgWrite<'_>, context: &SubmitContext, urls: Vec<WebUrl>) -> Result<BenchmarkV1> {
    let open = tx.lookup(&BENCHMARKS, &OPEN, 1_u8)?;
    if let Some(open) = open.map(|row| fresh(tx, row)).transpose()? {
        // What has ended a moment ago stands in the way only until it is written down.
        if !open.status.is_open() {
            tx.put(&BENCHMARKS, &open.id, &open)?;
            return begin(tx, context, urls);
        }
        let message = format!(
            "The benchmark {} has not ended. Wait for it, or cancel it with POST /api/v1/benchmarks/{}/cancel.",
            open.id, open.id
        );
        return Err(Error::conflict(message).title("Benchmark already running"));
    }
    let connected = context.directory.connected(tx)?;
    if connected.is_empty() {
        return Err(Error::invalid("providers", "no provider is connected and enabled; connect one first"));
    }
    let total = urls.len() * connected.len();
    if total > PROBES_MAX {
        let reason = format!(
            "{} URLs and {} providers are {total} probes; at most {PROBES_MAX} are made",
            urls.len(),
            connected.len()
        );
        return Err(Error::invalid("urls", reason));
    }
    let row = BenchmarkV1 {
        id: BenchmarkId::new(),
        status: BenchmarkStatus::Pending,
        urls: urls.iter().map(|url| url.as_str().to_owned()).collect(),
        providers: connected.iter().map(|provider| (provider.id, provider.name.clone())).collect(),
        total_probes: u32::try_from(total).unwrap_or(u32::MAX),
        completed_probes: 0,
        failed_probes: 0,
        skipped_providers: Vec::new(),
        error: None,
        created_at: tx.now(),
        started_at: None,
        finished_at: None,
    };
    tx.insert(&BENCHMARKS, &row.id, &row)?;
    jobs::probe(tx, context, row.id, &urls, &connected)?;
    Ok(row)
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResultsView {
    benchmark_id: BenchmarkId,
    status: BenchmarkStatus,
    skipped_providers: Vec<ProviderId>,
    /// Over all domains, then domain by domain; the best provider first in each.
    results: Vec<Rollup>,
    /// Probes that have ended, in the order in which they were made.
    probe_details: Vec<ProbeDetail>,
}

async fn results(org: Org<WorkflowsRead>, Path(id): Path<BenchmarkId>) -> Result<Body<ResultsView>> {
    org.read(|tx| {
        let mut row = tx.require(&BENCHMARKS, &id)?;
        let jobs = probes(tx, id)?;
        results::follow(&mut row, &jobs);
        Ok(Body(ResultsView {
            benchmark_id: id,
            status: row.status,
            results: results::rollups(&row, &jobs),
            probe_details: results::details(&jobs),
            skipped_providers: row.skipped_providers,
        }))
    })
}

async fn cancel(org: Org<WorkflowsWrite>, Path(id): Path<BenchmarkId>) -> Result<Body<BenchmarkView>> {
    let context = org.service::<SubmitContext>();
    let stopped = org.write(move |tx| {
        let row = stop(tx, &context, id)?;
        tx.audit(Event::new(Action::BenchmarkCanceled).of(id))?;
        Ok(row)
    });
    Ok(Body(stopped.await?.into()))
}

/// Ends a benchmark and its probes.
fn stop(tx: &OrgWrite<'_>, context: &SubmitContext, id: BenchmarkId) -> Result<BenchmarkV1> {
    let mut row = fresh(tx, tx.require(&BENCHMARKS, &id)?)?;
    if !row.status.is_open() {
        return Err(Error::conflict(format!("The benchmark has ended: it is {}.", row.status.name())));
    }
    let mut canceled = 0;
    for job in probes(tx, id)?.into_iter().filter(|job| !job.status.has_ended()) {
        cancel_job(tx, context, job.id)?;
        canceled += 1;
    }
    let jobs = probes(tx, id)?;
    let count = results::count(&row, &jobs);
    // A probe that was taken back is neither completed nor failed.
    row.completed_probes = count.completed - canceled;
    row.failed_probes = count.failed - canceled;
    row.status = BenchmarkStatus::Canceled;
    row.finished_at = Some(tx.now());
    tx.put(&BENCHMARKS, &id, &row)?;
    Ok(row)
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct GenerateRequest {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: Option<String>,
    strategy: Option<Strategy>,
    mode: Option<Mode>,
}

async fn generate(
    org: Org<WorkflowsWrite>,
    Path(id): Path<BenchmarkId>,
    request: Option<Body<GenerateRequest>>,
) -> Result<Created<WorkflowView>> {
    let request = request.map(|Body(request)| request).unwrap_or_default();
    let smart =
        SmartV1 { strategy: request.strategy.unwrap_or_default(), mode: request.mode.unwrap_or_default() };
    let name = request.name.unwrap_or_else(|| "From a benchmark".to_owned());
    let new = NewWorkflow {
        name: Name::parse("name", &name)?.into_string(),
        route: None,
        smart: Some(smart),
        author: org.principal().user(),
        publish: true,
    };
    let directory = org.service::<ProviderDirectory>();
    let made = org.write(move |tx| {
        let row = fresh(tx, tx.require(&BENCHMARKS, &id)?)?;
        if row.status != BenchmarkStatus::Completed {
            return Err(Error::conflict(format!(
                "The benchmark is {}; a workflow is made from a completed one.",
                row.status.name()
            )));
        }
        let learned = learned(&probes(tx, id)?);
        let made = make_smart(tx, &directory, new, smart, Some(learned))?;
        let event = Event::new(Action::WorkflowCreated).of(made.workflow.workflow_id);
        tx.audit(event.with("strategy", smart.strategy.name()).with("benchmarkId", Uuid::from(id)))?;
        Ok(made)
    });
    Ok(Created(made.await?.into()))
}
