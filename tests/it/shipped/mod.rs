//! The binary as somebody has it who just installed it: a fresh working directory, nothing in the environment that is not
//! said here, no configuration file, the README's commands as typed. Other tests have absolute folders and keys set, which
//! is how a box whose default configuration had no SQL went unseen.

mod folders;
mod reload;
mod selftest;

use crate::harness::{binary, eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Where the binary is started, and with what.
#[derive(Clone)]
pub struct Place {
    folder: PathBuf,
    /// The whole environment.
    env: Vec<(OsString, OsString)>,
    /// `--config FILE`, if anything.
    config: Vec<String>,
}

impl Place {
    /// A free port is all that is set: the shipped one may be taken on the machine of the test.
    pub fn at(folder: &Path) -> Place {
        let place = Place { folder: folder.to_owned(), env: Vec::new(), config: Vec::new() };
        place.with("GLEANER_SERVER__LISTEN", "127.0.0.1:0")
    }

    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Place {
        self.env.push((name.into(), value.into()));
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        let (first, rest) = arguments.split_first().expect("a command");
        command.arg(first).args(&self.config).args(rest);
        command
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end: exit code, output, errors.
    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// What a command that succeeds prints, as JSON.
    pub fn done(&self, arguments: &[&str]) -> Value {
        let (status, printed, errors) = self.run(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {errors}");
        serde_json::from_str(&printed).unwrap()
    }

    /// `gleaner serve`; returns when it says where it listens.
    pub fn serve(&self) -> Served {
        let mut child =
            self.command(&["serve"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().and_then(Result::ok).unwrap_or_default();
        let Some(url) = line.strip_prefix("Gleaner listens at ").map(str::to_owned) else {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            child.wait().unwrap();
            panic!("it did not start: {line}{said}");
        };
        let log = std::sync::Arc::<parking_lot::Mutex<String>>::default();
        let (errors, kept) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                kept.lock().push_str(&format!("{line}\n"));
            }
        });
        Served { child, url, log }
    }
}

/// A running box.
pub struct Served {
    child: Child,
    pub url: String,
    log: std::sync::Arc<parking_lot::Mutex<String>>,
}

impl Served {
    pub fn client(&self) -> Client {
        Client::new(self.url.clone())
    }

    pub fn log(&self) -> String {
        self.log.lock().clone()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process is ours");
    }

    /// SIGTERM, and the exit code after the drain.
    pub fn terminate(mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already answers with an error, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PASSWORD: &str = "correct horse battery";

/// Waits until the box calls itself ready, which it does not before it has tried itself.
pub async fn ready(served: &Served) -> Value {
    let client = served.client();
    eventually("the box is ready", Duration::from_secs(60), || async {
        let reply = get(&client, "/readyz").await;
        assert!(matches!(reply.json["status"].as_str(), Some("starting" | "ready")), "{}", reply.text());
        (reply.status == 200).then_some(reply.json)
    })
    .await
}

/// Asks the console until it answers; a statement that fails fails the test.
async fn one(client: &Client) {
    let sql = json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 });
    let answer = expect(post(client, "/api/v1/bi/queries", &sql).await, 200);
    assert_eq!(answer["results"]["rows"][0]["one"], 1, "{answer}");
}

/// What a new user does first, and what an operator looks at.
async fn first_steps(place: &Place, served: &Served) {
    assert_eq!(ready(served).await["checks"]["selfTest"], "ok");
    let client = served.client();
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    let login = expect(post(&client, "/api/v1/auth/register", &person).await, 201);
    let org = json!({ "name": "Analytical Engines" });
    let org = expect(post(&client.bearer(text(&login, "accessToken")), "/api/v1/orgs", &org).await, 201);
    place.done(&["admin", "user", "verify", "ada@example.com"]);
    one(&client.bearer(text(&org, "accessToken"))).await;
    let status = place.done(&["admin", "status"]);
    for part in ["store", "search", "sql"] {
        assert_eq!(status["selfTest"][part]["state"], "passed", "{status}");
        let line = format!("gleaner_self_test_passed{{part=\"{part}\"}} 1\n");
        assert!(get(&client, "/metrics").await.text().contains(&line), "{line}");
    }
    let home = get(&client, "/").await;
    assert_eq!((home.status.as_u16(), home.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(home.text().contains("href=\"/docs\""), "{}", home.text());
    assert_eq!(get(&client, "/docs").await.status, 200);
}

/// The same person after a restart.
async fn next_steps(served: &Served) {
    ready(served).await;
    let client = served.client();
    let person = json!({ "email": "ada@example.com", "password": PASSWORD });
    let login = expect(post(&client, "/api/v1/auth/login", &person).await, 200);
    one(&client.bearer(text(&login, "accessToken"))).await;
}

/// Serves, uses, stops, serves again, uses again, stops, and looks at what lies there.
async fn whole_life(place: &Place) {
    let served = place.serve();
    first_steps(place, &served).await;
    assert_eq!(served.terminate(), Some(0));
    let served = place.serve();
    next_steps(&served).await;
    assert_eq!(served.terminate(), Some(0));
    let (status, printed, errors) = place.run(&["doctor"]);
    assert_eq!(status, Some(0), "{printed}{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_configuration_works_in_an_empty_folder() {
    let folder = TempDir::new().unwrap();
    whole_life(&Place::at(folder.path())).await;
    assert!(
        folder.path().join("data/var/gleaner.redb").exists() && folder.path().join("data/var.key").exists()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_and_relative_paths_and_folders_with_spaces_work() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("a folder with spaces, \"quotes\" and größe");
    std::fs::create_dir(&folder).unwrap();
    // Longer than a Unix socket's path may be, and relative.
    let long = format!("./{}/var", vec!["x".repeat(40); 6].join("/"));
    whole_life(&Place::at(&folder).with("GLEANER_STORAGE__DATA_DIR", long)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_file_with_relative_paths_works() {
    let root = TempDir::new().unwrap();
    for folder in ["conf", "work", "templates"] {
        std::fs::create_dir(root.path().join(folder)).unwrap();
    }
    let file = "[storage]\ndata_dir = \"../store\"\nkey_file = \"../conf/box.key\"\n[providers]\ndir = \"../templates\"\n";
    std::fs::write(root.path().join("conf/box.toml"), file).unwrap();
    let mut place = Place::at(&root.path().join("work"));
    place.config = vec!["--config".to_owned(), "../conf/box.toml".to_owned()];
    whole_life(&place).await;
    assert!(root.path().join("store/gleaner.redb").exists() && root.path().join("conf/box.key").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_working_directory_that_cannot_be_written_is_no_matter() {
    // Even root writes nothing there.
    let nowhere = Path::new("/proc");
    let (status, _, errors) = Place::at(nowhere).run(&["serve"]);
    assert_eq!(status, Some(1), "{errors}");
    assert!(
        errors.starts_with("gleaner: ") && errors.contains("storage.data_dir: /proc/data/var"),
        "{errors}"
    );
    let root = TempDir::new().unwrap();
    whole_life(&Place::at(nowhere).with("GLEANER_STORAGE__DATA_DIR", root.path().join("var"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_that_are_not_utf8_are_no_panic() {
    let odd = || OsString::from_vec(b"caf\xe9".to_vec());
    let folder = TempDir::new().unwrap();
    let (status, _, errors) =
        Place::at(folder.path()).with("GLEANER_NETWORK__CONTACT", odd()).run(&["serve"]);
    assert_eq!(
        (status, errors.trim()),
        (Some(1), "gleaner: GLEANER_NETWORK__CONTACT: the value is not UTF-8")
    );
    let place = Place::at(folder.path()).with("LC_OWNER", odd()).with("GLEANER_HOME", odd());
    let served = place.serve();
    first_steps(&place, &served).await;
    assert_eq!(served.terminate(), Some(0));
}

/// A folder whose own name is not UTF-8 cannot be told to workers, so the start says so.
#[test]
fn a_folder_that_is_not_utf8_is_refused_by_name() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join(OsString::from_vec(b"caf\xe9".to_vec()));
    std::fs::create_dir(&folder).unwrap();
    let (status, _, errors) = Place::at(&folder).run(&["serve"]);
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("storage.data_dir") && errors.contains("is not UTF-8"), "{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_nobody_may_register_at_is_opened_by_its_operator() {
    for registration in ["closed", "invite"] {
        let folder = TempDir::new().unwrap();
        let place = Place::at(folder.path()).with("GLEANER_AUTH__REGISTRATION", registration);
        let served = place.serve();
        let client = served.client();
        let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
        expect(post(&client, "/api/v1/auth/register", &person).await, 403);
        let org = "Analytical Engines";
        let ada = place.done(&["admin", "user", "create", "Ada@example.com", "--org", org, "--name", "Ada"]);
        assert_eq!((text(&ada, "role"), &ada["orgFounded"]), ("owner", &json!(true)), "{ada}");
        let link = text(&ada, "link");
        assert!(link.starts_with(&format!("{}/reset-password#glp_", served.url)), "{link}");
        let page = get(&client, link.strip_prefix(&served.url).unwrap().split('#').next().unwrap()).await;
        assert_eq!(page.status, 200);
        let login = json!({ "email": "ada@example.com", "password": PASSWORD });
        expect(post(&client, "/api/v1/auth/login", &login).await, 401);
        let chosen = json!({ "token": link.split_once('#').unwrap().1, "password": PASSWORD });
        expect(post(&client, "/api/v1/auth/reset-password", &chosen).await, 200);
        expect(post(&client, "/api/v1/auth/reset-password", &chosen).await, 400);
        let login = expect(post(&client, "/api/v1/auth/login", &login).await, 200);
        // The address counts as verified, and the organization has credits and a provider: SQL works at once.
        ready(&served).await;
        one(&client.bearer(text(&login, "accessToken"))).await;

        let bob = ["admin", "user", "create", "bob@example.com", "--org"];
        let refused = |arguments: &[&str], part: &str| {
            let (status, _, errors) = place.run(&[&bob[..], arguments].concat());
            assert_eq!(status, Some(if part.contains("must be one of") { 2 } else { 1 }), "{errors}");
            assert!(errors.contains(part), "{errors}");
        };
        refused(&["Analytical Engine"], "did you mean");
        refused(&["Analytical Engine"], "--role owner");
        refused(&["Another", "--role", "editor"], "Organization not found");
        refused(&[org, "--role", "king"], "must be one of owner");
        let joined = place.done(&[&bob[..], &["analytical engines", "--role", "editor"]].concat());
        assert_eq!((text(&joined, "role"), &joined["orgFounded"]), ("editor", &json!(false)), "{joined}");
        refused(&[org], "has an account already");
        let carol = place.done(&["admin", "user", "create", "carol@example.com"]);
        assert_eq!((text(&carol, "name"), &carol["orgId"]), ("carol", &Value::Null));
        let listed = place.done(&["admin", "user", "list"]);
        assert!(
            listed.as_array().unwrap().iter().all(|user| user["emailVerifiedAt"].is_string()),
            "{listed}"
        );
        assert_eq!(served.terminate(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_without_mail_says_who_verifies() {
    let folder = TempDir::new().unwrap();
    let served = Place::at(folder.path()).serve();
    let client = served.client();
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    let login = expect(post(&client, "/api/v1/auth/register", &person).await, 201);
    let org = json!({ "name": "Analytical Engines" });
    let org = expect(post(&client.bearer(text(&login, "accessToken")), "/api/v1/orgs", &org).await, 201);
    let client = client.bearer(text(&org, "accessToken"));
    let refused = expect(post(&client, "/api/v1/bi/queries", &json!({ "sql": "SELECT 1" })).await, 403);
    assert_eq!(refused["error"]["code"], "email_not_verified");
    assert!(text(&refused["error"], "message").contains("gleaner admin user verify"), "{refused}");
}

/// Behind a reverse proxy that serves the box below a path: one that keeps the path, and one that strips it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_path_is_heeded() {
    let folder = TempDir::new().unwrap();
    let url = "https://tools.example/gleaner/";
    let place = Place::at(folder.path()).with("GLEANER_SERVER__PUBLIC_URL", url);
    let served = place.serve();
    let client = served.client();
    for path in ["", "/gleaner"] {
        let page = async |name: &str| {
            let reply = get(&client, &format!("{path}{name}")).await;
            assert_eq!(reply.status, 200, "{path}{name}");
            reply
        };
        for (name, link) in [
            ("/", "/gleaner/docs"),
            ("/docs", "/gleaner/api/v1/openapi.json"),
            ("/docs/errors", "/gleaner/docs/errors/not_found"),
            ("/docs/errors/not_found", "/gleaner/docs/errors"),
            ("/docs/errors/bi", "/gleaner/docs/errors"),
            ("/docs/cli-auth", "/gleaner/docs"),
        ] {
            let html = page(name).await.text();
            assert!(html.contains(&format!("href=\"{link}\"")), "{name}: {html}");
            let outside = html.matches("href=\"/").count() - html.matches("href=\"/gleaner/").count();
            assert_eq!(outside, 0, "{name} links beside the prefix: {html}");
        }
        assert_eq!(page("/api/v1/openapi.json").await.json["servers"], json!([{ "url": "/gleaner" }]));
        // The script asks beside its page, whatever stands before it.
        let html = page("/verify-email").await.text();
        assert!(html.contains("fetch(\"api/v1\" + path") && !html.contains("fetch(\"/"), "{html}");
        let missing = get(&client, &format!("{path}/api/v1/urls?limit=1")).await;
        assert_eq!((missing.status.as_u16(), missing.json["error"].is_string()), (401, true));
        assert_eq!(get(&client, &format!("{path}/nothing/here")).await.status, 404);
    }
    assert_eq!(get(&client, "/gleaner").await.status, 200);
    assert_eq!(get(&client, "/gleanerdocs").await.status, 404);
    let made = place.done(&["admin", "user", "create", "ada@example.com"]);
    assert!(text(&made, "link").starts_with("https://tools.example/gleaner/reset-password#"), "{made}");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn little_address_space_is_said_at_the_start() {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -v 900000 && exec \"$0\" serve"]).arg(binary());
    let output =
        command.current_dir(folder.path()).env("GLEANER_SERVER__LISTEN", "127.0.0.1:0").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("limited to 878 MiB") && errors.contains("ulimit -v unlimited"), "{errors}");
}

/// Every argument and option of every command says what it is.
#[test]
fn every_argument_has_a_word_of_help() {
    let folder = TempDir::new().unwrap();
    let place = Place::at(folder.path());
    let mut left = vec![Vec::<String>::new()];
    let (mut commands, mut bare) = (0, Vec::new());
    while let Some(command) = left.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let (status, help, errors) = place.run(&arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {errors}");
        commands += 1;
        let mut section = "";
        let lines: Vec<&str> = help.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if !line.starts_with(' ') && line.ends_with(':') {
                section = line;
                continue;
            }
            let entry = line.trim_start();
            let indent = line.len() - entry.len();
            let name = entry.split_whitespace().next().unwrap_or_default();
            // An entry begins at the section's margin; what goes on below it stands deeper.
            let begins = (1..=6).contains(&indent) && !entry.is_empty();
            if section == "Commands:" && begins && name != "help" {
                left.push(command.iter().cloned().chain([name.to_owned()]).collect());
            }
            if !matches!(section, "Commands:" | "Arguments:" | "Options:") || !begins {
                continue;
            }
            let below = lines.get(at + 1).is_some_and(|next| next.len() - next.trim_start().len() >= 8);
            if !entry.contains("  ") && !below {
                bare.push(format!("{} {entry}", command.join(" ")));
            }
        }
    }
    assert!(commands > 25, "only {commands} commands were found");
    assert_eq!(bare, Vec::<String>::new(), "without help");
}
