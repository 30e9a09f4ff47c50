//! Our side of `sql.py`: readings, and a box that serves them.
//!
//! ```text
//! sql csv ROWS                    the readings as CSV on standard output, for the peers
//! sql tags ROWS                   the tags of their URLs, likewise
//! sql box ROWS FOLDER GLEANER     a box under FOLDER with an organization that has these rows; its API key on standard output
//! sql merging ROWS FOLDER         what merging costs when ROWS readings a minute come
//! ```
//!
//! The box is made as anybody makes one: the program is started, a person registers, founds an organization and takes a
//! key. Then it is stopped, and the rows go into the organization's snapshots through the function through which the feed
//! rebuilds them from the store, in portions of what a few seconds bring, merged in between as the box merges them. (Ten
//! million results through jobs would take hours; what a statement reads is the same.) What the box serves from then on is
//! its own tables `readings`, `latest_readings` and `url_tags`, with all their columns.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use gleaner::admin;
use harness::Request;
use serde_json::json;
use server::client::Client;
use sql::{Cell, Snapshots, TableChange, TableSpec};
use uuid::Uuid;

type Failure = Box<dyn std::error::Error>;

/// 2026-01-01T00:00:00Z.
const BEGIN_MS: i64 = 1_767_225_600_000;
/// How long the readings were collected.
const SPAN_MS: i64 = 100 * 86_400_000;
/// How often each URL was read.
const READINGS_PER_URL: u64 = 100;
const DOMAINS: u64 = 200;
/// Rows of one portion.
const ROWS_PER_PORTION: u64 = 20_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["csv", rows] => csv(rows.parse()?, reading),
        ["tags", rows] => csv(rows.parse::<u64>()? / READINGS_PER_URL, tag),
        ["box", rows, folder, gleaner] => {
            let folder = Path::new(folder);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (organization, key) = runtime.block_on(found(folder, gleaner))?;
            fill(rows.parse()?, &folder.join("snapshots"), organization)?;
            println!("{key}");
            Ok(())
        }
        ["merging", rows, folder] => merging(rows.parse()?, Path::new(folder)),
        _ => Err("usage: sql csv ROWS | tags ROWS | box ROWS FOLDER GLEANER | merging ROWS FOLDER".into()),
    }
}

/// A number that looks random and is the same each time (splitmix64, Steele et al. 2014).
fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn domain_of(url: u64) -> u64 {
    // Some shops are large.
    let r = mixed(url * 3 + 1) % (DOMAINS * DOMAINS);
    (r as f64).sqrt() as u64
}

/// An id as the box makes them: a time, then what looks random.
fn id_at(at: i64, n: u64) -> Uuid {
    let random = u128::from(mixed(n)) << 16 | u128::from(mixed(n ^ 0xabcd) & 0xffff);
    let random = random & !(0xf << 76 | 0x3 << 62);
    Uuid::from_u128(u128::from(at as u64) << 80 | 7 << 76 | 2 << 62 | random)
}

fn url_id(url: u64) -> Uuid {
    id_at(BEGIN_MS - 1_000_000_000 + url as i64, url * 5 + 3)
}

/// The n-th of `rows` readings: the key of its row, and the row, in the columns' order.
fn reading(n: u64, rows: u64) -> (Uuid, Vec<Cell>) {
    let urls = (rows / READINGS_PER_URL).max(1);
    let r = mixed(n);
    // Each sweep reads all URLs, in an order of its own.
    let sweep = n / urls;
    let url = (n % urls).wrapping_mul(7_919).wrapping_add(sweep * 31) % urls;
    let at = BEGIN_MS + (i128::from(n) * i128::from(SPAN_MS) / i128::from(rows.max(1))) as i64;
    let (job, result) = (id_at(at - 1_500, n ^ 0x1111), id_at(at + 20, n ^ 0x2222));
    let kind = ["product", "product", "product", "product_list", "article"][(mixed(url) % 5) as usize];
    let base = 0.2 + (mixed(url ^ 9) % 80_000) as f64 / 100_000.0;
    let completeness = (base * (0.9 + (r % 100) as f64 / 1_000.0) * 1e6).round() / 1e6;
    let validation = (0.5 + (r >> 8) as u32 as f64 / f64::from(u32::MAX) / 2.0 * 1e6).round() / 1e6;
    let composite = ((0.6 * completeness + 0.4 * validation) * 1e6).round() / 1e6;
    let price = 5.0 + (mixed(url) % 150_000) as f64 / 100.0 + (r % 20) as f64;
    let title = format!("Item {url} Model {} Pro {}", mixed(url) % 900, r % 97);
    let values = json!({ "title": title, "price": price, "currency": "EUR", "sku": format!("S{url:08}") });
    let changed = if r.is_multiple_of(3) { "[\"price\"]" } else { "[]" };
    let hash = format!("{:016x}{:016x}{:016x}{:016x}", mixed(r), mixed(r ^ 1), mixed(r ^ 2), mixed(r ^ 3));
    let domain = domain_of(url);
    let row = vec![
        Cell::from(result.to_string()),
        Cell::from(job.to_string()),
        Cell::from(url_id(url).to_string()),
        Cell::from(format!("https://shop{domain}.example/catalogue/item-{url}/details.html")),
        Cell::from(format!("shop{domain}.example")),
        Cell::from(kind),
        Cell::Int((sweep / 40) as i64 + 1),
        Cell::from(values.to_string()),
        Cell::Float(composite),
        if r.is_multiple_of(10) { Cell::Null } else { Cell::Float(completeness) },
        Cell::Float(validation),
        Cell::from(["direct", "proxy", "browser"][(r % 3) as usize]),
        Cell::Int(if r.is_multiple_of(50) { 404 } else { 200 }),
        Cell::from(hash),
        Cell::from(changed),
        Cell::from(title),
        Cell::Time(at),
        Cell::Time(at + 20),
    ];
    (job, row)
}

fn tag(n: u64, _: u64) -> (Uuid, Vec<Cell>) {
    let row = vec![Cell::from(url_id(n).to_string()), Cell::from(format!("tag{}", mixed(n * 11) % 25))];
    (url_id(n), row)
}

fn csv(rows: u64, row: fn(u64, u64) -> (Uuid, Vec<Cell>)) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    for n in 0..rows {
        for (index, cell) in row(n, rows).1.iter().enumerate() {
            if index > 0 {
                out.write_all(b",")?;
            }
            match cell {
                Cell::Null => {}
                Cell::Bool(value) => write!(out, "{value}")?,
                Cell::Int(value) => write!(out, "{value}")?,
                Cell::Float(value) => write!(out, "{value}")?,
                Cell::Time(ms) => {
                    let at = jiff::Timestamp::from_millisecond(*ms)?;
                    write!(out, "{}", at.strftime("%Y-%m-%d %H:%M:%S%.3f"))?;
                }
                Cell::Text(text) => write!(out, "\"{}\"", text.replace('"', "\"\""))?,
            }
        }
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// A box with a person, an organization and an API key; it is stopped again.
async fn found(folder: &Path, gleaner: &str) -> Result<(Uuid, String), Failure> {
    let (child, url) = start(folder, gleaner)?;
    let anonymous = Client::new(url);
    let email = "bench@example.com".to_owned();
    let person = json!({ "email": email, "password": "a long enough passphrase", "name": "Bench" });
    let login = anonymous.post("/api/v1/auth/register", &person).await?.json;
    let browser = anonymous.bearer(login["accessToken"].as_str().ok_or("no token")?);
    let org = browser.post("/api/v1/orgs", &json!({ "name": "Bench" })).await?.json;
    admin::call(&folder.join("admin.sock"), &Request::UserVerify { email }).await?;
    let browser = anonymous.bearer(org["accessToken"].as_str().ok_or("no token")?);
    let key = browser.post("/api/v1/api-keys", &json!({ "name": "bench" })).await?.json;
    let client = anonymous.bearer(key["secret"].as_str().ok_or("no key")?);
    // Once the console knows of the organization, its snapshot stands at a position of the store.
    let sql = json!({ "sql": "SELECT count(*) AS n FROM providers", "waitMs": 10_000 });
    for _ in 0..100 {
        let reply = client.post("/api/v1/bi/queries", &sql).await?;
        if reply.json["results"]["rows"][0]["n"].as_u64().is_some_and(|n| n > 0) {
            stop(child)?;
            let id = org["organization"]["id"].as_str();
            let secret = key["secret"].as_str().unwrap_or_default().to_owned();
            return Ok((id.ok_or("no organization")?.parse()?, secret));
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    stop(child)?;
    Err("the console does not show the organization's first rows".into())
}

fn start(folder: &Path, gleaner: &str) -> Result<(Child, String), Failure> {
    let mut child = Command::new(gleaner)
        .arg("serve")
        .current_dir(folder.parent().ok_or("no folder")?)
        .env("GLEANER_SERVER__LISTEN", "127.0.0.1:0")
        .env("GLEANER_STORAGE__DATA_DIR", folder)
        .env("GLEANER_LOG__LEVEL", "warn")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let line = lines.next().ok_or("it does not say where it listens")??;
    let url = line.strip_prefix("Gleaner listens at ").ok_or("it does not say where it listens")?;
    Ok((child, url.to_owned()))
}

/// Ends the box in an orderly way.
fn stop(mut child: Child) -> Result<(), Failure> {
    Command::new("kill").arg(child.id().to_string()).status()?;
    child.wait()?;
    Ok(())
}

/// The description that this release has of one of its tables.
fn table(name: &str) -> Result<Arc<TableSpec>, Failure> {
    let views = gleaner::features::ALL.iter().flat_map(|feature| feature.views);
    let found = views.flat_map(|view| (view.tables)()).find(|table| table.name.as_str() == name);
    Ok(Arc::new(found.ok_or("a table is missing")?))
}

fn fill(rows: u64, folder: &Path, organization: Uuid) -> Result<(), Failure> {
    let snapshots = Snapshots::open(folder.to_owned())?;
    let began = Instant::now();
    for (name, rows, row) in
        [("readings", rows, reading as fn(u64, u64) -> _), ("url_tags", rows / READINGS_PER_URL, tag)]
    {
        let table = table(name)?;
        let mut at = 0;
        while at < rows {
            let end = (at + ROWS_PER_PORTION).min(rows);
            let change = |n: u64| {
                let (key, row) = row(n, rows);
                TableChange { table: Arc::clone(&table), key: key.into_bytes(), rows: vec![row] }
            };
            snapshots.fill(organization, (at..end).map(change).collect())?;
            while snapshots.merge_next()? {}
            at = end;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{rows} readings in {seconds:.1} s, {:.0} a second", rows as f64 / seconds);
    Ok(())
}

/// How often the feed publishes, at most (`bi.freshness_ms`).
const PUBLISHED_A_MINUTE: u64 = 120;
/// How long readings come, in minutes of the world's time; the work is done as fast as it can be.
const MINUTES: u64 = 10;

/// Takes readings in as the feed does at that rate, merges when a merge is due, and counts the CPU time of both. The
/// readings are of as many URLs as `csv` has for them, so that `latest_readings` is replaced all the time.
fn merging(rows_per_minute: u64, folder: &Path) -> Result<(), Failure> {
    let snapshots = Snapshots::open(folder.to_owned())?;
    let (organization, table) = (Uuid::from_u128(1), table("readings")?);
    let (mut applied, mut merged, mut merges, mut longest) = (0, 0, 0, 0);
    let portion = rows_per_minute / PUBLISHED_A_MINUTE;
    for at in 0..MINUTES * PUBLISHED_A_MINUTE {
        let change = |n: u64| {
            let (key, row) = reading(n, rows_per_minute * MINUTES);
            TableChange { table: Arc::clone(&table), key: key.into_bytes(), rows: vec![row] }
        };
        let changes: Vec<TableChange> = (at * portion..(at + 1) * portion).map(change).collect();
        let before = thread_cpu_ns()?;
        snapshots.fill(organization, changes)?;
        applied += thread_cpu_ns()? - before;
        loop {
            let before = thread_cpu_ns()?;
            if !snapshots.merge_next()? {
                break;
            }
            let took = thread_cpu_ns()? - before;
            (merged, merges, longest) = (merged + took, merges + 1, longest.max(took));
        }
    }
    let share = |ns: u64| ns as f64 / (MINUTES * 60) as f64 / 1e9 * 100.0;
    println!(
        "{rows_per_minute} readings a minute for {MINUTES} minutes: publishing takes {:.1} % of a core, merging {:.1} % \
         ({merges} merges, the longest {:.0} ms of CPU)",
        share(applied),
        share(merged),
        longest as f64 / 1e6
    );
    Ok(())
}

/// CPU time of this thread, in nanoseconds (proc(5), `schedstat`).
fn thread_cpu_ns() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("the kernel does not count CPU time")?.parse()?)
}
