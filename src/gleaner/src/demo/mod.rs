//! `gleaner demo`: the appliance doing its main job, on a shop of its own, through its own HTTP API.
//!
//! Everything goes the way a user's program would go: register, make an organization, register URLs, submit jobs,
//! poll, read results, search, query. Only two things are the operator's: verifying the e-mail address (there is no
//! mail server) and importing the extraction schemas; both go through the operator's socket.

mod files;
mod people;
mod report;
pub mod shop;

pub use files::SCHEMAS;

use crate::admin;
use crate::app::App;
use crate::config::Config;
use base::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use report::Visit;
use serde_json::{Value, json};
use server::client::{Client, ClientError, Reply};
use shop::{Shop, SitePage};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Who the demo is signed in as.
const EMAIL: &str = "demo@gleaner.example";
const PASSWORD: &str = "a demo, nothing to hide";
/// Share of the truth's attributes that a visit must extract, in percent.
const TRUTH_PERCENT_MIN: f64 = 95.0;
/// Longest time for one collection; the whole shop takes seconds.
const COLLECT_TIME_MAX: Duration = Duration::from_secs(60);
/// Longest time until search and SQL have caught up.
const CATCH_UP_TIME_MAX: Duration = Duration::from_secs(20);
/// How often progress is looked at.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Runs the demo. With `once` it ends after the report; otherwise it serves until `stop` resolves.
pub async fn run(once: bool, stop: impl Future<Output = ()>) -> Result<()> {
    let shop = Shop::open().await.map_err(|e| Error::internal("open the demo shop", e))?;
    let folder = Folder::new()?;
    let app = App::start(config(&shop, &folder)?).await?;
    let outcome = present(&app, &shop, once).await;
    if outcome.is_ok() && !once {
        stop.await;
        println!("\nStopping; the demo's data folder is removed.");
    }
    app.stop().await;
    outcome
}

/// A data folder that is gone when the demo is.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("gleaner-demo-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&path).map_err(|e| Error::internal("make the demo's data folder", e))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("The demo's data folder {} could not be removed: {error}", self.0.display());
        }
    }
}

fn config(shop: &Shop, folder: &Folder) -> Result<Config> {
    let data = folder.0.join("data");
    let set = |key: &str, value: String| (format!("GLEANER_{key}"), value);
    Config::load(
        None,
        [
            set("SERVER__LISTEN", "127.0.0.1:0".to_owned()),
            set("STORAGE__DATA_DIR", data.display().to_string()),
            set("NETWORK__ALLOW", format!("[\"127.0.0.1/32:{}\"]", shop.address.port())),
            set("DISPATCH__PER_DOMAIN_CONCURRENCY", "8".to_owned()),
        ],
    )
}

async fn present(app: &App, shop: &Shop, once: bool) -> Result<()> {
    println!("Gleaner demo: {} ({} pages) at {}", shop.name, shop.pages.len(), shop.base());
    println!("Appliance at {} with its data in {}\n", app.url(), app.data_dir().display());
    let (client, key) = settle_in(app).await?;
    let schemas = admin::call(
        &app.socket(),
        &json!({ "command": "schema_import", "json": files::SCHEMAS, "domain": domain(shop) }),
    )
    .await?;
    println!("Schemas: {schemas}");
    let urls: Vec<_> = shop.pages.iter().map(|page| shop_url(shop, page)).collect();
    let registered = expect(client.post("/api/v1/urls", &json!({ "urls": urls })).await, 200)?;
    println!("URLs:    {} registered\n", registered["created"]);

    let first = collect(&client, shop, "first visit ", "visit1").await?;
    shop.change();
    let second = collect(&client, shop, "second visit", "visit2").await?;
    report::throughput(&[&first, &second]);
    report::results(&second);
    report::changes(&second);
    search(&client).await?;
    query(&client, 2 * shop.pages.len()).await?;
    if once {
        println!("This box ends now; `gleaner demo` without --once stays, for you to go on with its API.");
    } else {
        people::leave(&client, shop).await?;
        println!("Go on with it:\n  address  {}\n  API key  {key}", app.url());
        println!("  console  {} (this link signs you in, once)", console_link(app).await?);
        println!("  curl -s -H 'Authorization: Bearer {key}' {}/api/v1/jobs?limit=3", app.url());
        println!("  reference of all operations: {}/docs", app.url());
        println!("\nCtrl-C ends the demo and removes its data.");
    }
    for visit in [&first, &second] {
        if visit.score.percent() < TRUTH_PERCENT_MIN {
            let found =
                format!("{:.1} % of the truth was extracted at the {}", visit.score.percent(), visit.name);
            return Err(Error::internal("check the demo against its truth", found));
        }
    }
    Ok(())
}

/// A page of the shop as a URL to register.
fn shop_url(shop: &Shop, page: &SitePage) -> Value {
    json!({ "url": format!("{}{}", shop.base(), page.path), "pageType": page.page_type, "tags": ["demo"] })
}

/// A link that opens the console signed in: a refresh token, which is good once.
async fn console_link(app: &App) -> Result<String> {
    let person = json!({ "email": EMAIL, "password": PASSWORD });
    let login = expect(Client::new(app.url()).post("/api/v1/auth/login", &person).await, 200)?;
    Ok(format!("{}/console#/welcome?token={}", app.url(), text(&login, "refreshToken")?))
}

fn domain(shop: &Shop) -> String {
    shop.address.ip().to_string()
}

/// A person, an organization and a key: what every newcomer does first.
async fn settle_in(app: &App) -> Result<(Client, String)> {
    let anonymous = Client::new(app.url());
    let person = json!({ "email": EMAIL, "password": PASSWORD, "name": "Demo" });
    let login = expect(anonymous.post("/api/v1/auth/register", &person).await, 201)?;
    let browser = anonymous.bearer(text(&login, "accessToken")?);
    let made = expect(browser.post("/api/v1/orgs", &json!({ "name": "Demo Ltd" })).await, 201)?;
    admin::call(&app.socket(), &json!({ "command": "user_verify", "email": EMAIL })).await?;
    let owner = anonymous.bearer(text(&made, "accessToken")?);
    let made = expect(owner.post("/api/v1/api-keys", &json!({ "name": "demo" })).await, 201)?;
    let secret = text(&made, "secret")?.to_owned();
    Ok((anonymous.bearer(&secret), secret))
}

/// Submits every page as a job, waits for all of them, reads the results and compares them with the truth.
async fn collect(client: &Client, shop: &Shop, name: &str, visit: &str) -> Result<Visit> {
    let begun = Instant::now();
    let jobs: Vec<_> =
        shop.pages.iter().map(|page| json!({ "url": format!("{}{}", shop.base(), page.path) })).collect();
    let batch = expect(client.post("/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201)?;
    let ids: Vec<_> = items(&batch, "jobs").iter().map(|job| job["id"].clone()).collect();
    let bar = ProgressBar::new(ids.len() as u64);
    if let Ok(style) =
        ProgressStyle::with_template("Collecting, {prefix} [{bar:40}] {pos}/{len} pages, {per_sec}")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(name.to_owned());
    loop {
        let polled = expect(client.post("/api/v1/jobs/poll", &json!({ "ids": ids })).await, 200)?;
        let ended = |job: &&Value| !matches!(job["status"].as_str(), Some("queued" | "running"));
        let done = items(&polled, "items").iter().filter(ended).count();
        bar.set_position(done as u64);
        if done == ids.len() {
            break;
        }
        if begun.elapsed() > COLLECT_TIME_MAX {
            return Err(Error::internal(
                "collect the demo shop",
                format!("{done} of {} pages ended in time", ids.len()),
            ));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    let took = begun.elapsed();
    bar.finish_and_clear();
    let mut results = Vec::new();
    for id in &ids {
        results.push(result(client, id.as_str().unwrap_or_default()).await?);
    }
    let score = report::score(files::TRUTH, visit, &shop.base(), &results)?;
    println!(
        "Collected, {name}: {} pages in {:.2} s; {} of {} attributes of the truth extracted ({:.1} %)",
        ids.len(),
        took.as_secs_f64(),
        score.right,
        score.expected,
        score.percent()
    );
    Ok(Visit { name: name.trim().to_owned(), took, results, score })
}

/// The result of a job, waiting while it is not indexed yet.
async fn result(client: &Client, job: &str) -> Result<Value> {
    let begun = Instant::now();
    loop {
        let reply = sent(client.get(&format!("/api/v1/extraction/results/{job}")).await)?;
        match reply.status.as_u16() {
            200 => return Ok(reply.json),
            202 if begun.elapsed() < CATCH_UP_TIME_MAX => tokio::time::sleep(POLL_EVERY).await,
            404 => {
                let job = expect(client.get(&format!("/api/v1/jobs/{job}")).await, 200)?;
                return Err(Error::internal(
                    "collect a page",
                    format!("{} failed: {}", job["url"], job["error"]),
                ));
            }
            _ => return Err(unexpected(&reply)),
        }
    }
}

async fn search(client: &Client) -> Result<()> {
    let path = "/api/v1/extraction/results?q=plane&pageType=product&sort=relevance&limit=5";
    let found = expect(client.get(path).await, 200)?;
    report::search("plane", &found);
    Ok(())
}

const STATEMENT: &str = "SELECT currency, count(*) AS products, round(avg(price), 2) AS average, max(price) AS dearest \
     FROM products WHERE price IS NOT NULL GROUP BY currency ORDER BY products DESC";

/// Asks once the SQL tables hold every page of both visits.
async fn query(client: &Client, pages: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let counted = json!({ "sql": "SELECT count(*) AS n FROM readings", "waitMs": 10_000 });
        let answer = expect(client.post("/api/v1/bi/queries", &counted).await, 200)?;
        if answer["results"]["rows"][0]["n"].as_u64() == Some(pages as u64) {
            break;
        }
        if begun.elapsed() > CATCH_UP_TIME_MAX {
            return Err(Error::internal(
                "query the demo's readings",
                format!("not all rows arrived: {answer}"),
            ));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    let begun = Instant::now();
    let asked = json!({ "sql": STATEMENT, "waitMs": 10_000 });
    let answer = expect(client.post("/api/v1/bi/queries", &asked).await, 200)?;
    report::query(STATEMENT, &answer, begun.elapsed());
    Ok(())
}

fn sent(reply: Result<Reply, ClientError>) -> Result<Reply> {
    reply.map_err(|e| Error::internal("call the appliance", e))
}

fn expect(reply: Result<Reply, ClientError>, status: u16) -> Result<Value> {
    let reply = sent(reply)?;
    if reply.status.as_u16() == status { Ok(reply.json) } else { Err(unexpected(&reply)) }
}

fn unexpected(reply: &Reply) -> Error {
    Error::internal("call the appliance", format!("it answered {}: {}", reply.status, reply.text()))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field]
        .as_str()
        .ok_or_else(|| Error::internal("call the appliance", format!("the answer has no {field}")))
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}
