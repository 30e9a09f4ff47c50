//! Figures of data/docs/benchmarks.md: durable submits, point reads, parse and extract, a group-by over a million rows.
//!
//! `cargo bench` runs all; `cargo bench -- submit` those whose name has the word. Server and clients share the machine, so
//! the figures of the first two are a floor. Settings come from the environment as for the appliance itself:
//! `GLEANER_STORAGE__CACHE_MB=128 cargo bench -- submit`. Ratios are to be taken within one run. The extraction kernel
//! alone is in `kernel` (`cargo bench -- kernel`).

mod kernel;

use base::clock::Clock;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gleaner::app::App;
use gleaner::config::Config;
use page::extract::{Attribute, Schema};
use page::html::Document;
use page::xpath::{Fuel, PAGE_FUEL_MAX};
use serde_json::{Value, json};
use server::client::Client;
use sql::{
    Cell, Changes, ColumnKind, ColumnSpec, QueryBackend, Snapshots, Statement, TableChange, TableName,
    TableSpec, WorkerSettings, Workers,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use harness::{binary, member};

/// An appliance with one organization; its jobs wait, because the one domain they name may be visited once an hour.
struct Bench {
    runtime: Runtime,
    app: Option<App>,
    client: Client,
    _dir: TempDir,
}

impl Bench {
    fn start() -> Bench {
        let runtime = Runtime::new().expect("a runtime");
        let dir = TempDir::new().expect("a temporary folder");
        let data = dir.path().join("data").display().to_string();
        let settings = [
            ("SERVER__LISTEN", "127.0.0.1:0"),
            ("STORAGE__DATA_DIR", &data),
            ("DISPATCH__MIN_DELAY_MS", "3600000"),
            ("DISPATCH__PER_DOMAIN_CONCURRENCY", "1"),
        ];
        let given = std::env::vars().filter(|(key, _)| key.starts_with("GLEANER_"));
        let env = given.chain(settings.map(|(key, value)| (format!("GLEANER_{key}"), value.to_owned())));
        let (app, client) = runtime.block_on(async {
            let config = Config::load(None, env).expect("a valid configuration");
            let app = App::start_with(config, Clock::system(), binary()).await.expect("the appliance starts");
            let client = member(&Client::new(app.url()), &app.socket(), "bench").await.api;
            (app, client)
        });
        Bench { runtime, app: Some(app), client, _dir: dir }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(app) = self.app.take() {
            self.runtime.block_on(app.stop());
        }
    }
}

/// Runs `count` calls on `callers` tasks and gives the time that all took.
async fn together<F>(callers: u64, count: u64, call: impl Fn(u64) -> F) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let begun = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let calls: Vec<_> = (caller..count).step_by(callers as usize).map(&call).collect();
            tokio::spawn(async move {
                for call in calls {
                    call.await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a caller ends");
    }
    begun.elapsed()
}

/// `POST /api/v1/jobs`: job, credits, indexes, change records, fsync, answer.
fn submit(c: &mut Criterion) {
    let server = Bench::start();
    let mut group = c.benchmark_group("submit");
    group.sample_size(10).measurement_time(Duration::from_secs(8)).throughput(Throughput::Elements(1));
    for callers in [1u64, 16, 64, 256] {
        group.bench_function(BenchmarkId::from_parameter(callers), |b| {
            b.iter_custom(|count| {
                let body = json!({ "url": "https://bench.invalid/page" });
                server.runtime.block_on(together(callers, count, |_| {
                    let (client, body) = (server.client.clone(), body.clone());
                    async move {
                        let reply = client.post("/api/v1/jobs", &body).await.expect("an answer");
                        assert_eq!(reply.status, 201, "{}", reply.text());
                    }
                }))
            });
        });
    }
    group.finish();
}

/// `GET /api/v1/jobs/{id}` with an API key, beside the empty route of the same server.
fn read(c: &mut Criterion) {
    let server = Bench::start();
    let body = json!({ "url": "https://bench.invalid/page" });
    let job = server.runtime.block_on(server.client.post("/api/v1/jobs", &body)).expect("an answer").json;
    let job = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
    let mut group = c.benchmark_group("read");
    group.sample_size(10).measurement_time(Duration::from_secs(5)).throughput(Throughput::Elements(1));
    for (name, path) in [("job by id", job.as_str()), ("empty route", "/healthz")] {
        group.bench_function(name, |b| {
            b.iter_custom(|count| {
                server.runtime.block_on(together(64, count, |_| {
                    let (client, path) = (server.client.clone(), path.to_owned());
                    async move {
                        assert_eq!(client.get_raw(&path).await.expect("an answer").0, 200);
                    }
                }))
            });
        });
    }
    group.finish();
}

/// Parse and extract every page of the demo shop, one thread.
fn extract(c: &mut Criterion) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("data/demo");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("a demo file");
    let site: Value = serde_json::from_str(&read("site.json")).expect("the site");
    let schemas: Value = serde_json::from_str(&read("schemas.json")).expect("the schemas");
    let schema = |page_type: &Value| {
        let all = schemas["schemas"].as_array().expect("a list");
        let found = all.iter().find(|schema| schema["pageType"] == *page_type).expect("its schema");
        let attributes: Vec<Attribute> =
            serde_json::from_value(found["attributes"].clone()).expect("attributes");
        Schema::compile(&attributes).expect("a valid schema")
    };
    let pages: Vec<_> = site["pages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|page| {
            let file = page["file"].as_str().expect("a file");
            let bytes = std::fs::read(root.join("pages").join(file)).expect("a page");
            (bytes, page["contentType"].as_str().expect("a type").to_owned(), schema(&page["pageType"]))
        })
        .collect();
    let base = url::Url::parse("http://127.0.0.1/").expect("a URL");
    let bytes = pages.iter().map(|(bytes, ..)| bytes.len() as u64).sum();
    let mut group = c.benchmark_group("extract");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("parse the demo's pages", |b| {
        b.iter(|| {
            for (bytes, content_type, _) in &pages {
                std::hint::black_box(Document::parse_bytes(bytes, Some(content_type)));
            }
        });
    });
    group.throughput(Throughput::Elements(pages.len() as u64));
    group.bench_function("parse and extract the demo's pages", |b| {
        b.iter(|| {
            for (bytes, content_type, schema) in &pages {
                let document = Document::parse_bytes(bytes, Some(content_type));
                let mut fuel = Fuel::new(PAGE_FUEL_MAX);
                std::hint::black_box(schema.extract(&document, &base, &mut fuel));
            }
        });
    });
    group.finish();
}

const READINGS: u32 = 1_000_000;

/// A group-by over a million readings, in a worker process as the API runs it, its start included.
fn group_by(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let dir = TempDir::new().expect("a temporary folder");
    let snapshots = Snapshots::open(dir.path().join("snapshots")).expect("a snapshot folder");
    let workers = Workers::new(WorkerSettings {
        exe: binary(),
        query_timeout: Duration::from_secs(60),
        memory_bytes: 512 << 20,
        memory_box_bytes: 8 << 30,
        spill_bytes_max: 1 << 30,
        rows_max: 1_000_000,
        bytes_max: 1 << 30,
        spill_dir: dir.path().join("spill"),
        results_dir: dir.path().join("results"),
        reserve_bytes: 0,
        require_sandbox: false,
        concurrency_box: 2,
    })
    .expect("workers");
    let org = Uuid::now_v7();
    let table = fill(&snapshots, org);
    let mut group = c.benchmark_group("sql");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(10))
        .throughput(Throughput::Elements(READINGS.into()));
    let statements = [
        (
            "group by domain, 1 million readings",
            "SELECT domain, count(*), avg(price) FROM readings GROUP BY domain",
        ),
        ("first 200 rows", "SELECT * FROM readings LIMIT 200"),
    ];
    for (name, sql) in statements {
        group.bench_function(name, |b| {
            b.iter(|| {
                let pin = snapshots.pin(org, vec![table.clone()]).expect("a pin");
                let statement = Statement { pin, sql: sql.to_owned(), query_id: Uuid::now_v7() };
                runtime.block_on(async {
                    let (_, running) = workers.start(statement).await.expect("it plans");
                    running.wait().await.expect("it runs")
                })
            });
        });
    }
    group.finish();
}

fn fill(snapshots: &Snapshots, org: Uuid) -> Arc<TableSpec> {
    let table = Arc::new(TableSpec {
        name: TableName::parse("readings").expect("a name"),
        description: String::new(),
        columns: vec![
            ColumnSpec::new("id", ColumnKind::Text),
            ColumnSpec::new("domain", ColumnKind::Text),
            ColumnSpec::new("price", ColumnKind::Float64),
            ColumnSpec::new("scraped_at", ColumnKind::Timestamp),
        ],
        catalog_version: 1,
        newest: None,
        agent_rows: None,
        joined: None,
    });
    const BATCH: u32 = 100_000;
    for batch in 0..READINGS / BATCH {
        let changes = (0..BATCH).map(|i| {
            let n = batch * BATCH + i;
            let id = Uuid::now_v7();
            let row = vec![
                Cell::from(id.to_string()),
                Cell::from(format!("shop{}.example", n.wrapping_mul(2_654_435_761) % 500)),
                Cell::Float(f64::from(n % 9_973) / 10.0),
                Cell::Time(1_790_000_000_000 + i64::from(n)),
            ];
            TableChange { table: table.clone(), key: *id.as_bytes(), rows: vec![row] }
        });
        let changes =
            Changes { position: u64::from(batch) + 1, committed_at_ms: 0, changes: changes.collect() };
        snapshots.apply(org, changes).expect("the rows are applied");
    }
    table
}

criterion_group!(benches, submit, read, extract, kernel::parse, kernel::xpath, kernel::whole, group_by);
criterion_main!(benches);
