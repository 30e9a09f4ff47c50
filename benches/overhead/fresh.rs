//! How soon the SQL console shows what jobs read, and what that costs.
//!
//! Jobs are submitted in an open loop, 100,000 a minute unless said otherwise, for two minutes. Each goes through the
//! simulated provider, which gives a product page of the demo's shop with a name and a price of this visit; the demo's
//! schema makes typed values of it: 17 attributes, or with the word `lean` five of them. Each URL is read again and again, so that
//! `latest_readings` is replaced all the time. Beside that the console is asked without pause how much it shows, by one
//! statement over five tables that must agree with each other; a look at which they do not ends the run.
//!
//! The lag of a reading is the time from `extracted_at` in its row, which is before it is stored, to the answer that
//! counts it. A snapshot is a state of the store, so the n-th reading is counted by the first answer that says n or more.

use super::{CONCURRENCY, DOMAINS, owner, start, status};
use gleaner::admin;
use harness::Request;
use harness::process::Process;
use harness::vendors::{Asked, Reply, SCRAPINGBEE, Simulator, Told, Vendor};
use harness::{expect, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// What the kernel counts CPU time in (USER_HZ, 100 on every architecture that Rust's standard library builds for).
const TICK: Duration = Duration::from_millis(10);
/// What issue 6 asks for.
pub const JOBS_PER_MINUTE: usize = 100_000;
const LASTING: Duration = Duration::from_secs(120);
/// Jobs are submitted at each such step.
const STEP: Duration = Duration::from_millis(100);
const STEPS_PER_LINE: u128 = 100;
/// Different URLs: each is read ten times at the default rate.
const URLS: usize = 20_000;
/// Between an answer of the console and the next question.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How long it is waited for what was submitted to be shown.
const PATIENCE: Duration = Duration::from_secs(40);
/// One reading of so many is followed to the answer that counts it.
const SAMPLED: usize = 10;

const LEAN: [&str; 5] = ["name", "brand", "sku", "price", "currency"];

const PAGE: &str = include_str!("../../data/demo/pages/product/pocket-block-plane.html");
/// What the console is asked: tables that must agree, by their counts alone, which cost hardly anything.
const LOOK: &str = "SELECT (SELECT count(*) FROM readings) AS readings, (SELECT count(*) FROM products) AS products, \
    (SELECT count(*) FROM latest_readings) AS urls";
/// What it is asked in the place of that each time after so many: passes over whole tables.
const THOROUGH_EVERY: usize = 50;
const THOROUGH: &str = "SELECT (SELECT count(*) FROM readings) AS readings, \
    (SELECT count(*) FROM products WHERE price IS NOT NULL) AS products, \
    (SELECT count(*) FROM latest_readings) AS urls, (SELECT count(DISTINCT url) FROM readings) AS distinct, \
    (SELECT count(*) FROM reading_values WHERE attribute = 'price') AS prices, \
    (SELECT count(*) FROM jobs WHERE status = 'succeeded') AS jobs, \
    (SELECT max(scraped_at) FROM readings) = (SELECT max(scraped_at) FROM latest_readings) AS newest";

static VISITS: AtomicUsize = AtomicUsize::new(0);
/// Readings that the console shows.
static SHOWN: AtomicU64 = AtomicU64::new(0);

/// The demo's page, of the URL that was asked for and of this visit.
fn product(asked: &Asked) -> Told {
    let told = (SCRAPINGBEE.answer)(asked)?;
    let url = asked.param("url").unwrap_or_default();
    let visit = VISITS.fetch_add(1, Ordering::Relaxed);
    let price = format!("{}.{:02}", 10 + visit % 90, visit % 100);
    let body = PAGE.replace("79.50", &price).replace("Pocket Block Plane", &format!("Plane of {url}"));
    Some(Reply { body, ..told })
}

/// An answer of the console.
struct Look {
    at_ms: i64,
    readings: u64,
}

/// What was seen of the console.
#[derive(Default)]
struct Looks {
    shown: Vec<Look>,
    /// Answers that told to come back.
    refused: usize,
}

impl Looks {
    /// As many readings as are shown.
    fn readings(&self) -> u64 {
        self.shown.last().map_or(0, |look| look.readings)
    }
}

pub async fn fresh(jobs_per_minute: usize, is_lean: bool) {
    let simulator = Simulator::open(Vendor { answer: product, ..SCRAPINGBEE }).await;
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let process = start(dir.path(), &simulator, CONCURRENCY);
    let client = owner(&process, &simulator).await;
    prepare(&process, is_lean).await;
    let per_step = jobs_per_minute as f64 * STEP.as_secs_f64() / 60.0;
    let steps = LASTING.as_millis() / STEP.as_millis();
    let jobs = (per_step * steps as f64) as usize;
    println!("{jobs} jobs in {} s; the box is process {}", LASTING.as_secs(), process.id());

    // The typed columns come with the first reading.
    expect(post(&client, "/api/v1/jobs", &job(0)).await, 201);
    assert_eq!(look(client.clone(), 1, Instant::now() + PATIENCE).await.readings(), 1);
    let looking = tokio::spawn(look(client.clone(), jobs as u64, Instant::now() + LASTING + PATIENCE));
    let (begun, before, ours) = (Instant::now(), status(&process.socket()).await, cpu("self").0);
    let (box_before, workers_before) = box_cpu(process.id());
    let mut ticks = tokio::time::interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sent = 1;
    for step in 1..=steps {
        ticks.tick().await;
        let upto = ((per_step * step as f64) as usize).min(jobs);
        let batch: Vec<_> = (sent..upto).map(job).collect();
        expect(post(&client, "/api/v1/jobs/batch", &json!({ "jobs": batch })).await, 201);
        sent = upto;
        if step % STEPS_PER_LINE == 0 {
            println!(
                "{:5.1} s: {sent} submitted, {} shown",
                begun.elapsed().as_secs_f64(),
                SHOWN.load(Ordering::Relaxed)
            );
        }
    }
    let submitted = begun.elapsed();
    let looks = looking.await.expect("the looks");
    let took = begun.elapsed().as_secs_f64();
    let (box_after, workers_after) = box_cpu(process.id());
    println!("submitted in {:.1} s, {} shown after {took:.1} s", submitted.as_secs_f64(), looks.readings());
    report(&client, &looks).await;
    let after = status(&process.socket()).await;
    let share = |spent: Duration| spent.as_secs_f64() / took * 100.0;
    let counted = |field: &str| {
        let count = |status: &Value| status["sql"][field].as_u64().unwrap_or_default();
        share(Duration::from_millis(count(&after) - count(&before)))
    };
    let records =
        after["sequence"].as_u64().unwrap_or_default() - before["sequence"].as_u64().unwrap_or_default();
    println!(
        "parts of a core: the box {:.0} % (of it publishing {:.1} %, merging {:.1} %), its SQL workers {:.0} %, simulator \
         and questions {:.0} %; {:.1} change records a reading; {} MiB of memory at most",
        share(box_after - box_before),
        counted("publishingCpuMs"),
        counted("mergingCpuMs"),
        share(workers_after - workers_before),
        share(cpu("self").0 - ours),
        records as f64 / looks.readings() as f64,
        process.memory_most_bytes() >> 20,
    );
    simulator.assert_understood();
    process.terminate();
}

fn job(n: usize) -> Value {
    let url = n % URLS;
    json!({ "url": format!("http://page.d{}.test/item-{url}", url % DOMAINS), "pageType": "product" })
}

/// Schemas for all domains, and credits for all jobs.
async fn prepare(process: &Process, is_lean: bool) {
    let demo: Value = serde_json::from_str(gleaner::demo::SCHEMAS).expect("the demo's schemas");
    let product =
        demo["schemas"].as_array().expect("schemas").iter().find(|one| one["pageType"] == "product");
    let schema = |n| {
        let mut schema = product.expect("a schema of products").clone();
        if is_lean {
            let is_wanted = |attribute: &Value| LEAN.iter().any(|name| attribute["name"] == *name);
            schema["attributes"].as_array_mut().expect("attributes").retain(is_wanted);
        }
        schema["domain"] = format!("d{n}.test").into();
        schema
    };
    let json = json!({ "schemas": (0..DOMAINS).map(schema).collect::<Vec<_>>() }).to_string();
    let import = Request::SchemaImport { json, domain: None };
    admin::call(&process.socket(), &import).await.expect("the schemas");
    let grant = Request::CreditsGrant { org: "bench".to_owned(), amount: 100_000_000, note: None };
    admin::call(&process.socket(), &grant).await.expect("the credits");
}

/// Asks until all jobs are shown, or until it is over.
async fn look(client: Client, jobs: u64, over: Instant) -> Looks {
    let mut looks = Looks::default();
    while Instant::now() < over && looks.readings() < jobs {
        let is_thorough = looks.shown.len() % THOROUGH_EVERY == THOROUGH_EVERY - 1;
        let sql = if is_thorough { THOROUGH } else { LOOK };
        let question = json!({ "sql": sql, "waitMs": 10_000 });
        let reply = post(&client, "/api/v1/bi/queries", &question).await;
        // "Come back later", or not ready within ten seconds.
        if reply.status == 503 || reply.status == 202 {
            looks.refused += 1;
        } else {
            let row = &expect(reply, 200)["results"]["rows"][0];
            let number = |field: &str| row[field].as_u64().unwrap_or_else(|| panic!("no {field} in {row}"));
            let readings = number("readings");
            assert_eq!(readings, number("products"), "tables that must agree: {row}");
            assert!(number("urls") <= readings.min(URLS as u64), "more URLs than there are: {row}");
            assert!(readings >= looks.readings(), "there were {} before: {row}", looks.readings());
            if is_thorough {
                assert_eq!(readings, number("prices"), "tables that must agree: {row}");
                assert_eq!(readings, number("jobs"), "tables that must agree: {row}");
                assert_eq!(number("urls"), number("distinct"), "tables that must agree: {row}");
                assert_eq!(row["newest"], true, "the newest reading is not the newest: {row}");
            }
            SHOWN.store(readings, Ordering::Relaxed);
            looks.shown.push(Look { at_ms: jiff::Timestamp::now().as_millisecond(), readings });
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    looks
}

/// Follows every so many-th reading to the answer that counted it.
async fn report(client: &Client, looks: &Looks) {
    let readings = looks.readings();
    let sql = format!(
        "SELECT extracted_at, n FROM (SELECT extracted_at, row_number() OVER (ORDER BY extracted_at) AS n FROM \
         readings) x WHERE n % {SAMPLED} = 0 AND n <= {readings} ORDER BY n"
    );
    let question = json!({ "sql": sql, "waitMs": 10_000 });
    let query = expect(post(client, "/api/v1/bi/queries", &question).await, 200);
    let (mut lags, mut span) = (Vec::new(), (i64::MAX, i64::MIN));
    for page in 0.. {
        let path = format!("/api/v1/bi/queries/{}/results?page={page}&pageSize=1000", text(&query, "jobId"));
        let page = expect(client.get(&path).await.expect("an answer"), 200);
        for row in page["rows"].as_array().expect("rows") {
            let at: jiff::Timestamp = text(row, "extracted_at").parse().expect("a time");
            let (at_ms, n) = (at.as_millisecond(), row["n"].as_u64().expect("a number"));
            let first = looks.shown.partition_point(|look| look.readings < n);
            lags.push((looks.shown[first].at_ms - at_ms) as f64 / 1e3);
            span = (span.0.min(at_ms), span.1.max(at_ms));
        }
        if page["hasMore"] != true {
            break;
        }
    }
    lags.sort_by(f64::total_cmp);
    let of = |share: f64| lags[((lags.len() as f64 * share) as usize).min(lags.len() - 1)];
    println!(
        "{readings} readings in {:.1} s ({:.0} a minute), {} looks and {} refused: one is shown after {:.2} s (median), \
         {:.2} s (99th percentile), {:.2} s (longest of every {SAMPLED}th)",
        (span.1 - span.0) as f64 / 1e3,
        readings as f64 / (span.1 - span.0) as f64 * 60e3,
        looks.shown.len(),
        looks.refused,
        of(0.5),
        of(0.99),
        of(1.0)
    );
}

/// CPU time of the box, and of its SQL workers: those that have ended, and those that live.
fn box_cpu(id: u32) -> (Duration, Duration) {
    let (own, mut workers) = cpu(&id.to_string());
    for task in std::fs::read_dir(format!("/proc/{id}/task")).expect("it runs").flatten() {
        let living = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        workers += living.split_whitespace().map(|child| cpu(child).0).sum::<Duration>();
    }
    (own, workers)
}

/// CPU time of a process, and of its children that have ended; nothing of a process that is not there.
fn cpu(id: &str) -> (Duration, Duration) {
    // proc_pid_stat(5), fields 14 to 17; the name in the second may hold anything.
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
    (TICK * (ticks(14) + ticks(15)), TICK * (ticks(16) + ticks(17)))
}
