//! The real server on port 0 over a temporary folder, real web servers on loopback, and people who use it.
//!
//! Nothing of the appliance is replaced: an [`App`] in this process under a clock that can be moved, or the binary in a
//! process of its own ([`process`]) that can be killed. SQL statements run in workers of the real binary either way.
//!
//! The integration tests and the benches of `gleaner` are built on it; it is compiled once for all of them.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

pub mod collected;
pub mod hostile;
pub mod identity;
pub mod model;
mod operator;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod random;
pub mod reference;
pub mod smtp;
pub mod vendors;
pub mod web;

use base::clock::Clock;
use gleaner::admin;
use gleaner::app::App;
use gleaner::config::Config;
pub use operator::Request;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use server::task::Signals;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const PASSWORD: &str = "a long enough passphrase";

/// The binary that SQL workers are started from. Cargo names it to tests and benches that it runs; for one that is run by
/// hand it lies where Cargo puts it: beside the folder of the running program.
pub fn binary() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_gleaner").map(PathBuf::from).unwrap_or_else(|| {
        let running = std::env::current_exe().expect("a program knows where it is");
        let built = running.ancestors().nth(2).expect("target/PROFILE/deps/PROGRAM").join("gleaner");
        assert!(built.exists(), "{} is not there: run `cargo build` first", built.display());
        built
    })
}

/// An appliance of one test.
pub struct Appliance {
    app: Option<App>,
    pub clock: Clock,
    env: Vec<(String, String)>,
    dir: TempDir,
}

/// A member of an organization.
#[derive(Clone)]
pub struct Member {
    pub email: String,
    pub user_id: String,
    pub org_id: String,
    /// Calls with the access token.
    pub browser: Client,
    /// Calls with an API key that may do everything its maker may.
    pub api: Client,
    pub key: String,
}

impl Appliance {
    /// An appliance with the default configuration.
    pub async fn start() -> Appliance {
        Appliance::start_with(&[]).await
    }

    /// An appliance with some keys set, as in `("DISPATCH__ROBOTS", "false")`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Appliance {
        let dir = TempDir::new().expect("a temporary folder");
        let data = dir.path().join("data").display().to_string();
        let base = [
            ("SERVER__LISTEN", "127.0.0.1:0"),
            ("STORAGE__DATA_DIR", &data),
            ("SERVER__SHUTDOWN_SEC", "5"),
            ("STORAGE__RESERVE_MB", "0"),
        ];
        let env =
            base.iter().chain(settings).map(|(key, value)| (format!("GLEANER_{key}"), (*value).to_owned()));
        let mut appliance = Appliance { app: None, clock: Clock::system(), env: env.collect(), dir };
        appliance.open().await;
        appliance
    }

    async fn open(&mut self) {
        let config = Config::load(None, self.env.clone()).expect("a valid configuration");
        let app = App::start_with(config, self.clock.clone(), binary()).await.expect("the appliance starts");
        self.app = Some(app);
    }

    /// Sets one key of the configuration from the next restart on.
    pub fn set(&mut self, key: &str, value: &str) {
        self.env.push((format!("GLEANER_{key}"), value.to_owned()));
    }

    /// Drains, closes and starts again over the same folder.
    pub async fn restart(&mut self) {
        if let Some(app) = self.app.take() {
            app.stop().await;
        }
        self.open().await;
    }

    /// Drains and closes; [`Appliance::restart`] opens it again.
    pub async fn pause(&mut self) {
        if let Some(app) = self.app.take() {
            app.stop().await;
        }
    }

    /// Drains and ends now; otherwise that happens when it is dropped.
    pub async fn stop(mut self) {
        if let Some(app) = self.app.take() {
            app.stop().await;
        }
    }

    pub fn app(&self) -> &App {
        self.app.as_ref().expect("the appliance runs")
    }

    /// A client without a credential; at the box itself, whatever people reach it through.
    pub fn client(&self) -> Client {
        Client::new(&self.app().local_urls()[0])
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// One command on the operator's socket.
    pub async fn operator(&self, request: Request) -> Value {
        admin::call(&self.app().socket(), &request).await.expect("the operator's command")
    }

    /// The token that begins with `prefix` in the newest message that carries one.
    pub async fn mailed_token(&self, prefix: &str) -> String {
        let outbox = self.operator(Request::Outbox { limit: 20 }).await;
        let mails = outbox.as_array().expect("a list of messages").iter();
        let mut texts = mails.filter_map(|mail| mail["text"].as_str());
        texts.find_map(|mail| token_in(mail, prefix)).expect("a message with such a token")
    }

    /// Registers a person with a verified address, an organization and a key.
    pub async fn member(&self, name: &str) -> Member {
        member(&self.client(), &self.app().socket(), name).await
    }
}

/// The token that begins with `prefix` in the text of a message: it stands behind the # of its link.
pub fn token_in(text: &str, prefix: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("#{prefix}"))?;
    Some(format!("{prefix}{}", rest.split_whitespace().next()?))
}

impl Drop for Appliance {
    /// Drains before the folder goes, so that every test is also one of the drain.
    fn drop(&mut self) {
        if let Some(app) = self.app.take()
            && !std::thread::panicking()
        {
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(app.stop()));
        }
    }
}

/// Registers a person with a verified address, an organization and a key, at any running appliance.
pub async fn member(client: &Client, socket: &std::path::Path, name: &str) -> Member {
    let email = format!("{name}@example.com");
    let person = json!({ "email": email, "password": PASSWORD, "name": name });
    let login = post(client, "/api/v1/auth/register", &person).await;
    assert_eq!(login.status, 201, "{}", login.text());
    let org =
        post(&client.bearer(text(&login.json, "accessToken")), "/api/v1/orgs", &json!({ "name": name }))
            .await;
    assert_eq!(org.status, 201, "{}", org.text());
    admin::call(socket, &Request::UserVerify { email: email.clone() })
        .await
        .expect("the address is verified");
    let browser = client.bearer(text(&org.json, "accessToken"));
    let key = post(&browser, "/api/v1/api-keys", &json!({ "name": "tests" })).await;
    assert_eq!(key.status, 201, "{}", key.text());
    let secret = text(&key.json, "secret").to_owned();
    Member {
        email,
        user_id: text(&login.json["user"], "id").to_owned(),
        org_id: text(&org.json["organization"], "id").to_owned(),
        api: client.bearer(&secret),
        key: secret,
        browser,
    }
}

/// Invites an address and gives the token that was sent to it.
pub async fn invite(at: &Appliance, by: &Client, email: &str, role: &str) -> String {
    let invite = json!({ "email": email, "role": role });
    expect(post(by, "/api/v1/orgs/current/invites", &invite).await, 201);
    at.mailed_token("gli_").await
}

/// A person who came by invitation.
pub struct Joined {
    pub id: String,
    /// The access token that `browser` calls with.
    pub token: String,
    pub browser: Client,
}

/// Registers a person who joins the organization of `by` with a role.
pub async fn join(at: &Appliance, by: &Client, name: &str, role: &str) -> Joined {
    let email = format!("{name}@example.com");
    let token = invite(at, by, &email, role).await;
    let person = json!({ "email": email, "password": PASSWORD, "name": name });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let joined = expect(post(&browser, "/api/v1/invites/accept", &json!({ "token": token })).await, 200);
    let token = text(&joined, "accessToken").to_owned();
    Joined { id: text(&login["user"], "id").to_owned(), browser: at.client().bearer(&token), token }
}

pub async fn post(client: &Client, path: &str, body: &Value) -> Reply {
    client.post(path, body).await.expect("an answer")
}

pub async fn get(client: &Client, path: &str) -> Reply {
    client.get(path).await.expect("an answer")
}

/// A field that must be text.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value}"))
}

/// Asserts a status and gives the body.
pub fn expect(reply: Reply, status: u16) -> Value {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
    reply.json
}

/// Asserts a flat error: its status, its sentence and a part of its message.
pub fn refused(reply: &Reply, status: u16, sentence: &str, part: &str) {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
    assert_eq!(reply.json["error"], sentence, "{}", reply.text());
    let message = reply.json["message"].as_str().unwrap_or_default();
    assert!(message.contains(part), "\"{part}\" is not in \"{message}\"");
}

/// How long anything is waited for at least.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `look` gives something; fails the test after `time_max`.
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    time_max: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    // A busy machine is no failure: what must come is waited for at least this long.
    let time_max = time_max.max(PATIENCE);
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < time_max, "{what}: not within {time_max:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the box says that it is ready, and gives what it says: a box that has just started, or meets something of its
/// own for a moment, is not.
pub async fn ready(client: &Client) -> Value {
    eventually("the box is ready", PATIENCE, || async {
        let reply = get(client, "/readyz").await;
        (reply.status == 200).then_some(reply.json)
    })
    .await
}

/// A metric of each task, by its name.
pub async fn by_task(at: &Appliance, metric: &str) -> BTreeMap<String, u64> {
    let text = get(&at.client(), "/metrics").await.text();
    let lines = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix("{task=\""));
    let counts = lines.filter_map(|line| line.split_once("\"} "));
    counts.map(|(task, count)| (task.to_owned(), count.parse::<f64>().expect("a number") as u64)).collect()
}

/// Has a task look, and waits until an activation of it has ended that began after this was called.
pub async fn looks_anew(at: &Appliance, task: &str) {
    let runs = async || by_task(at, "gleaner_task_runs_total").await.get(task).copied().unwrap_or_default();
    let before = runs().await;
    let signals = at.app().services().service::<Signals>();
    eventually(&format!("{task} looks"), Duration::from_secs(120), || async {
        signals.wake(task);
        // What is under way began before; the one that follows did not.
        (runs().await >= before + 2).then_some(())
    })
    .await;
}

/// Waits until a job has ended, and gives it.
pub async fn ended(client: &Client, id: &str) -> Value {
    eventually("the job ends", Duration::from_secs(120), || async {
        let job = expect(get(client, &format!("/api/v1/jobs/{id}")).await, 200);
        (!matches!(text(&job, "status"), "queued" | "running")).then_some(job)
    })
    .await
}

/// Submits a job for a URL and waits until it has ended.
pub async fn collect(client: &Client, url: &str) -> Value {
    let job = expect(post(client, "/api/v1/jobs", &json!({ "url": url })).await, 201);
    ended(client, text(&job, "id")).await
}
