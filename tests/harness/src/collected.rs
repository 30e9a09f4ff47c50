//! Jobs of long ago, or of many: their rows as the SQL console and analytics read them, put into an organization's snapshot
//! through the function through which the feed makes it anew from the store. (Two million jobs through the API would take
//! an hour; what a statement reads is the same.) The box must not run meanwhile.

use base::ids::JobId;
use sql::{Cell, ColumnKind, Snapshots, TableChange, TableSpec};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// Rows of one portion.
const PORTION: usize = 20_000;

/// A job, with the attempts and the result that it had.
#[derive(Clone, Debug)]
pub struct CollectedJob {
    pub created_ms: i64,
    pub domain: String,
    /// Of its URL in the domain.
    pub page: u64,
    pub status: &'static str,
    /// Of its last run and of its last attempt.
    pub duration_ms: i64,
    pub provider: Uuid,
    /// Whether another provider was blocked before.
    pub was_blocked: bool,
    pub bytes: i64,
    pub credits: i64,
    pub composite: f64,
    pub is_changed: bool,
    pub tag: &'static str,
}

/// A number that looks random and is the same each time (splitmix64, Steele et al. 2014).
pub fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The provider of this number, in every organization.
pub fn provider(n: u64) -> Uuid {
    Uuid::from_u128(u128::from(n) << 64 | 7 << 76 | 2 << 62)
}

impl CollectedJob {
    /// The n-th job, submitted then, for one of so many domains.
    pub fn new(n: u64, created_ms: i64, domains: u64) -> CollectedJob {
        let r = mixed(n);
        // Some shops are large.
        let domain = ((mixed(n ^ 0x51) % (domains * domains)) as f64).sqrt() as u64;
        CollectedJob {
            created_ms,
            domain: format!("shop{domain}.example"),
            page: mixed(n ^ 0x77) % 100,
            status: match r % 20 {
                0 => "failed",
                1 => "canceled",
                2 if r.is_multiple_of(11) => "queued",
                _ => "succeeded",
            },
            // A long tail, as latency has it.
            duration_ms: 80 + (r >> 8 & 0xff) as i64 + ((r >> 16 & 0x3ff) as f64).powi(2) as i64 / 300,
            provider: provider(r >> 40 & 3),
            was_blocked: (r >> 44).is_multiple_of(9),
            bytes: 2_000 + (r >> 24 & 0xffff) as i64,
            credits: (r >> 50 & 3) as i64,
            composite: (r >> 30 & 0x3ff) as f64 / 1_024.0,
            is_changed: r.is_multiple_of(3),
            tag: ["red", "green", "a\"b, c"][(r >> 33) as usize % 3],
        }
    }

    pub fn has_succeeded(&self) -> bool {
        self.status == "succeeded"
    }

    /// What it was charged.
    pub fn charged(&self) -> i64 {
        if self.has_succeeded() { self.credits } else { 0 }
    }

    fn url(&self) -> String {
        format!("https://www.{}/item-{}/details.html", self.domain, self.page)
    }
}

/// An id as the box makes them: a time, then what looks random.
fn id_at(at_ms: i64, n: u64) -> Uuid {
    let random = u128::from(mixed(n)) << 16 | u128::from(mixed(n ^ 0xabcd) & 0xffff);
    let random = random & !(0xf << 76 | 0x3 << 62) & ((1 << 80) - 1);
    Uuid::from_u128(u128::from(at_ms as u64) << 80 | 7 << 76 | 2 << 62 | random)
}

/// A row of the table with these cells; what is not named is NULL, or nothing of its kind.
fn row(table: &TableSpec, cells: Vec<(&str, Cell)>) -> Vec<Cell> {
    let known = |name: &str| table.columns.iter().any(|column| column.name == name);
    assert!(cells.iter().all(|(name, _)| known(name)), "{} has no such column", table.name);
    let cell = |column: &sql::ColumnSpec| match cells.iter().find(|(name, _)| *name == column.name) {
        Some((_, cell)) => cell.clone(),
        None if column.nullable => Cell::Null,
        None => match column.kind {
            ColumnKind::Text => Cell::from(""),
            ColumnKind::Json => Cell::from("{}"),
            ColumnKind::Int64 => Cell::Int(0),
            ColumnKind::Float64 => Cell::Float(0.0),
            ColumnKind::Bool => Cell::Bool(false),
            ColumnKind::Timestamp => Cell::Time(0),
        },
    };
    table.columns.iter().map(cell).collect()
}

/// The tables that a job leaves rows in, as this release has them.
struct Tables {
    jobs: Arc<TableSpec>,
    attempts: Arc<TableSpec>,
    readings: Arc<TableSpec>,
    values: Arc<TableSpec>,
    ledger: Arc<TableSpec>,
}

impl Tables {
    fn new() -> Tables {
        let of = |name: &str| {
            let views = gleaner::features::ALL.iter().flat_map(|feature| feature.views);
            let mut tables = views.flat_map(|view| (view.tables)());
            Arc::new(tables.find(|table| table.name.as_str() == name).expect("a table of the console"))
        };
        Tables {
            jobs: of("jobs"),
            attempts: of("job_attempts"),
            readings: of("readings"),
            values: of("reading_values"),
            ledger: of("credit_transactions"),
        }
    }

    fn changes(&self, n: u64, job: &CollectedJob) -> Vec<TableChange> {
        let key = id_at(job.created_ms, n);
        let id = JobId::from(key).to_string();
        let (begin, end) = (job.created_ms + 5, job.created_ms + 5 + job.duration_ms);
        let has_ended = matches!(job.status, "succeeded" | "failed");
        let change = |table: &Arc<TableSpec>, rows| TableChange {
            table: Arc::clone(table),
            key: key.into_bytes(),
            rows,
        };
        let when = |ended: bool, cell: Cell| if ended { cell } else { Cell::Null };
        let own = row(
            &self.jobs,
            vec![
                ("id", Cell::from(id.as_str())),
                ("url", Cell::from(job.url())),
                ("domain", Cell::from(job.domain.as_str())),
                ("status", Cell::from(job.status)),
                ("page_type", Cell::from("product")),
                ("tags", Cell::from(serde_json::json!(["all", job.tag]).to_string())),
                ("attempt_count", Cell::Int(1)),
                ("provider_id", when(job.has_succeeded(), Cell::from(job.provider.to_string()))),
                ("credits_charged", Cell::Int(job.charged())),
                ("created_at", Cell::Time(job.created_ms)),
                ("started_at", when(has_ended, Cell::Time(begin))),
                ("finished_at", when(has_ended, Cell::Time(end))),
                ("duration_ms", when(has_ended, Cell::Int(job.duration_ms))),
            ],
        );
        let attempt = |at, provider: Uuid, outcome, bytes| {
            row(
                &self.attempts,
                vec![
                    ("job_id", Cell::from(id.as_str())),
                    ("domain", Cell::from(job.domain.as_str())),
                    ("page_type", Cell::from("product")),
                    ("n", Cell::Int(1)),
                    ("provider_id", Cell::from(provider.to_string())),
                    ("started_at", Cell::Time(at)),
                    ("duration_ms", Cell::Int(job.duration_ms)),
                    ("outcome", Cell::from(outcome)),
                    ("bytes", Cell::Int(bytes)),
                    ("credits", Cell::Int(job.credits)),
                ],
            )
        };
        let mut attempts = Vec::new();
        if has_ended && job.was_blocked {
            attempts.push(attempt(begin, provider(9), "blocked", 500));
        }
        if has_ended {
            let outcome = if job.has_succeeded() { "success" } else { "timeout" };
            attempts.push(attempt(begin, job.provider, outcome, job.bytes));
        }
        let mut changes = vec![change(&self.jobs, vec![own]), change(&self.attempts, attempts)];
        if job.has_succeeded() {
            changes.extend(self.result(n, job, &id, key));
        }
        changes.extend(self.transactions(n, job, &id));
        changes
    }

    fn result(&self, n: u64, job: &CollectedJob, id: &str, key: Uuid) -> [TableChange; 2] {
        let (at, changed) = (job.created_ms + 5, if job.is_changed { "[\"price\"]" } else { "[]" });
        let result = id_at(at, n ^ 0x2222).to_string();
        let shared = || {
            vec![
                ("result_id", Cell::from(result.as_str())),
                ("job_id", Cell::from(id)),
                ("url", Cell::from(job.url())),
                ("domain", Cell::from(job.domain.as_str())),
                ("page_type", Cell::from("product")),
                ("scraped_at", Cell::Time(at)),
            ]
        };
        let mut cells = shared();
        cells.extend([
            ("quality_composite", Cell::Float(job.composite)),
            ("quality_completeness", Cell::Float(job.composite / 2.0)),
            ("quality_validation", Cell::Float(1.0)),
            ("changed", Cell::from(changed)),
        ]);
        let reading = row(&self.readings, cells);
        // The price is not on every page.
        let attributes: &[&str] = if job.page.is_multiple_of(4) { &["title"] } else { &["title", "price"] };
        let values = attributes.iter().map(|attribute| {
            let mut cells = shared();
            cells.extend([("attribute", Cell::from(*attribute)), ("value_text", Cell::from("x"))]);
            row(&self.values, cells)
        });
        let change = |table: &Arc<TableSpec>, rows| TableChange {
            table: Arc::clone(table),
            key: key.into_bytes(),
            rows,
        };
        [change(&self.readings, vec![reading]), change(&self.values, values.collect())]
    }

    /// What it reserved, and what of that came back.
    fn transactions(&self, n: u64, job: &CollectedJob, id: &str) -> [TableChange; 2] {
        let reserved = job.credits + 1;
        let returned = reserved - job.charged();
        let kind = if job.charged() == 0 { "refund" } else { "settle" };
        let of = |at: i64, salt: u64, kind: &str, amount: i64| {
            let key = id_at(at, n ^ salt);
            let cells = vec![
                ("id", Cell::from(key.to_string())),
                ("at", Cell::Time(at)),
                ("kind", Cell::from(kind)),
                ("amount", Cell::Int(amount)),
                ("job_id", Cell::from(id)),
            ];
            TableChange {
                table: Arc::clone(&self.ledger),
                key: key.into_bytes(),
                rows: vec![row(&self.ledger, cells)],
            }
        };
        [
            of(job.created_ms, 0x3333, "reserve", -reserved),
            of(job.created_ms + 5 + job.duration_ms, 0x4444, kind, returned),
        ]
    }
}

/// Puts jobs into the snapshot of an organization, below the folder `snapshots` of a box that does not run.
pub fn fill(snapshots: &Path, organization: Uuid, jobs: impl Iterator<Item = CollectedJob>) {
    let snapshots = Snapshots::open(snapshots.to_owned()).expect("the snapshots open");
    let (tables, mut portion) = (Tables::new(), Vec::new());
    let put = |portion: &mut Vec<TableChange>| {
        snapshots.fill(organization, std::mem::take(portion)).expect("the rows are taken in");
        while snapshots.merge_next().expect("the segments are merged") {}
    };
    for (n, job) in jobs.enumerate() {
        portion.extend(tables.changes(n as u64, &job));
        if portion.len() >= PORTION {
            put(&mut portion);
        }
    }
    put(&mut portion);
}
