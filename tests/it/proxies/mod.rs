//! A box behind a reverse proxy, as the shipped examples have it (packaging/proxies): Debian's nginx and Caddy, in front of the
//! real binary, with TLS, below a path or on a host of its own. Where one of them is not installed its test says "skipped".

mod front;

use crate::clients::{run, skipped};
use crate::console::browser;
use crate::harness::web::{Answer as PageAnswer, Web};
use crate::harness::{PASSWORD, binary, eventually, text};
use crate::shipped::{Place, Served, ready};
use crate::tidy::root;
use front::{Front, Site, Way};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Lines of the file that is uploaded: megabytes, and not much to do for a box.
const UPLOADED: u32 = 3_200;
/// How long a box is busy with something else.
const BUSY_TIME: Duration = Duration::from_secs(8);
/// What a page of the box sends along.
const PAGE: &str = "x-gleaner-session: 1";

/// A box with a proxy in front of it.
struct Stand {
    front: Front,
    served: Served,
    place: Place,
    web: Web,
    folder: TempDir,
}

impl Stand {
    /// None where the proxy is not installed.
    async fn of(way: Way) -> Option<Stand> {
        let Some(site) = Site::of(way) else {
            skipped(way.program(), "it, or curl, is not installed");
            return None;
        };
        let web =
            Web::open(|path| Some(PageAnswer::html(format!("<title>{path}</title><h1>Of {path}</h1>"))))
                .await;
        let folder = TempDir::new().unwrap();
        let mut place = Place::at(folder.path())
            .with("GLEANER_SERVER__PUBLIC_URL", &site.url)
            .with("GLEANER_SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
            .with("GLEANER_NETWORK__ALLOW", web.allow());
        if way.is_socket() {
            place = place.with("GLEANER_SERVER__LISTEN", "127.0.0.1:0, unix:http.sock");
        }
        let served = place.serve();
        ready(&served).await;
        let box_at = match way.is_socket() {
            true => folder.path().join("http.sock").display().to_string(),
            false => served.url.strip_prefix("http://").unwrap().to_owned(),
        };
        let front = site.open(&box_at).await;
        Some(Stand { front, served, place, web, folder })
    }

    fn base(&self) -> &str {
        &self.front.site.url
    }

    /// Registers somebody with an organization; gives an access token.
    fn member(&self, name: &str) -> (String, String) {
        let email = format!("{name}@example.com");
        let person = json!({ "email": email, "password": PASSWORD, "name": name });
        let login = self.front.post("/api/v1/auth/register", "", &person, 201);
        let org = json!({ "name": name });
        let org = self.front.post("/api/v1/orgs", text(&login, "accessToken"), &org, 201);
        self.place.done(&["admin", "user", "verify", &email]);
        (email, text(&org, "accessToken").to_owned())
    }

    fn end(self) {
        drop(self.front);
        assert_eq!(self.served.terminate(), Some(0));
    }
}

/// Everything that a box does for people, through the proxy and with its addresses.
async fn everything(way: Way) {
    let Some(stand) = Stand::of(way).await else { return };
    let (email, token) = stand.member("ada");
    pages(&stand);
    session(&stand, &email);
    collecting(&stand, &token).await;
    upload(&stand, &token);
    callers(&stand, &token);
    links(&stand, &token);
    agents(&stand, &token);
    command_line(&stand, &token);
    stand.end();
}

/// The pages for people: every link and every file is below the path.
fn pages(stand: &Stand) {
    let front = &stand.front;
    let docs = front.curl("/docs", &[]);
    let path = front.site.way.path();
    assert!(
        docs.status == 200 && docs.body.contains(&format!("href=\"{path}/api/v1/openapi.json\"")),
        "{}",
        docs.body
    );
    assert_eq!(
        front.get("/api/v1/openapi.json", "")["servers"][0]["url"],
        json!(if path.is_empty() { "/" } else { path })
    );
    assert_eq!(front.curl("/api/v1/urls", &[]).status, 401);
    if webui::shell().is_none() {
        return skipped("the console", "this box was built without it");
    }
    let led = front.curl("/", &["-H", "accept: text/html"]);
    let to = led.header("location").strip_prefix(front.site.origin()).unwrap_or(led.header("location"));
    assert_eq!((led.status, to), (303, &*format!("{path}/console")));
    let shell = front.curl("/console", &["--compressed"]);
    assert_eq!((shell.status, shell.header("content-type")), (200, "text/html; charset=utf-8"));
    let named = |part: &str| {
        let rest = shell.body.split(part).skip(1);
        rest.map(|rest| rest.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let files: Vec<_> = named("href=\"").into_iter().chain(named("src=\"")).collect();
    assert!(files.len() > 3, "{}", shell.body);
    for file in files.iter().filter(|file| file.as_str() != "docs") {
        // As a browser takes it: beside the page.
        let answer = front.curl(&format!("/{file}"), &["--compressed"]);
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.header("cache-control").ends_with("immutable"), "{file}");
    }
}

/// A person's session in a browser: the cookie is for the box's path, by https alone, and counts.
fn session(stand: &Stand, email: &str) {
    let front = &stand.front;
    let jar = stand.folder.path().join("jar").display().to_string();
    let origin = format!("origin: {}", front.site.origin());
    let shown = json!({ "email": email, "password": PASSWORD }).to_string();
    let json = "content-type: application/json";
    let begun =
        front.curl("/console/session", &["-c", &jar, "-H", PAGE, "-H", &origin, "-H", json, "-d", &shown]);
    assert_eq!(begun.status, 204, "{}", begun.body);
    let cookie = begun.header("set-cookie");
    let path = format!("Path={}/;", front.site.way.path());
    assert!(cookie.contains(&path) && cookie.ends_with("Secure"), "{cookie}");
    let me = front.curl("/api/v1/auth/me", &["-b", &jar, "-H", PAGE]);
    assert_eq!((me.status, &me.json()["user"]["email"]), (200, &json!(email)), "{}", me.body);
    let urls = json!({ "urls": ["https://example.com/"] }).to_string();
    let write = |origin: &str| {
        front.curl("/api/v1/urls", &["-b", &jar, "-H", PAGE, "-H", origin, "-H", json, "-d", &urls]).status
    };
    assert_eq!((write(&origin), write("origin: https://evil.example")), (200, 401));
    let ended =
        front.curl("/console/session", &["-X", "DELETE", "-b", &jar, "-c", &jar, "-H", PAGE, "-H", &origin]);
    assert_eq!(ended.status, 204, "{}", ended.body);
    assert_eq!(front.curl("/api/v1/auth/me", &["-b", &jar, "-H", PAGE]).status, 401);
}

/// A job, told of by a stream that the proxy does not hold back; and the link to its page.
async fn collecting(stand: &Stand, token: &str) {
    let front = &stand.front;
    let mut stream = front.stream("/api/v1/events?kind=job.*", token);
    let job = front.post("/api/v1/jobs", token, &json!({ "url": stand.web.url("/article") }), 201);
    let id = text(&job, "id").to_owned();
    // While the stream goes on: one that was gathered on the way would come when it ends, in hours.
    eventually("the stream tells of the job", Duration::from_secs(60), || async {
        let told = stream.text();
        (told.contains(&id) && told.contains("job.succeeded")).then_some(())
    })
    .await;
    assert!(stream.goes_on(), "{}", stream.text());
    let job = front.get(&format!("/api/v1/jobs/{id}"), token);
    assert_eq!(job["status"], "succeeded", "{job}");
    let result = eventually("the result is found", Duration::from_secs(120), || async {
        let results = front.get("/api/v1/extraction/results?limit=1", token);
        results["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let link = front.get(&format!("/api/v1/extraction/results/by-id/{result}/html"), token);
    let link = text(&link, "url");
    assert!(link.starts_with(&format!("{}/api/v1/raw/", stand.base())), "{link}");
    let page = front.curl(link, &[]);
    assert!(
        page.status == 200 && page.body.contains("<h1>Of /article</h1>"),
        "{} {}",
        page.status,
        page.body
    );
}

/// Megabytes go through, and one too many is refused by the box in its own words.
fn upload(stand: &Stand, token: &str) {
    let mut file = "url,tags\n".to_owned();
    for number in 0..UPLOADED {
        writeln!(file, "https://shop.example/{}/{number},up", "long".repeat(450)).unwrap();
    }
    assert!(file.len() > 5 << 20);
    let path = stand.folder.path().join("urls.csv");
    let bearer = format!("authorization: Bearer {token}");
    let send = |text: &str, to: &str, media: &str| {
        std::fs::write(&path, text).unwrap();
        let data = format!("@{}", path.display());
        let media = format!("content-type: {media}");
        stand.front.curl(to, &["-H", &bearer, "-H", &media, "-H", "expect:", "--data-binary", &data])
    };
    let sent = send(&file, "/api/v1/urls/upload", "text/csv");
    assert_eq!((sent.status, &sent.json()["created"]), (200, &json!(UPLOADED)), "{}", sent.body);
    let large = json!({ "name": "x".repeat(2 << 20) }).to_string();
    let refused = send(&large, "/api/v1/jobs", "application/json");
    assert!(refused.status == 413 && refused.body.contains("1 MiB"), "{} {}", refused.status, refused.body);
}

/// Who asks is whoever the proxy has seen, whatever they say themselves.
fn callers(stand: &Stand, token: &str) {
    let asked = json!({ "name": "from afar" }).to_string();
    let bearer = format!("authorization: Bearer {token}");
    let json = "content-type: application/json";
    for (from, claim) in [("127.0.0.9", "198.51.100.7"), ("127.0.0.8", "127.0.0.1")] {
        let claim = format!("x-forwarded-for: {claim}");
        let arguments = ["--interface", from, "-H", &claim, "-H", &bearer, "-H", json, "-d", &asked];
        assert_eq!(stand.front.curl("/api/v1/api-keys", &arguments).status, 201);
        let rows = stand.front.get("/api/v1/audit-logs?limit=1", token);
        assert_eq!(rows["items"][0]["ip"], from, "{rows}");
        let claimed = ["--interface", from, "-H", &claim];
        assert_eq!(stand.front.curl("/metrics", &claimed).status, 403, "what the box does is its operator's");
    }
}

/// Links that the box makes lead through the proxy.
fn links(stand: &Stand, token: &str) {
    let front = &stand.front;
    let started = front.post("/api/v1/cli-auth/start", "", &json!({ "hostname": "laptop" }), 200);
    let link = text(&started, "verification_uri_complete");
    assert!(link.starts_with(&format!("{}/docs/cli-auth?", stand.base())), "{link}");
    let page = front.curl(link, &[]);
    assert!(page.status == 200 && page.body.contains("Approve a command line"), "{}", page.body);
    // What the page's script asks, beside the page.
    let approved = json!({ "user_code": started["user_code"] });
    front.post("/api/v1/cli-auth/approve", token, &approved, 200);
    let bearer = format!("authorization: Bearer {token}");
    let refused = front.curl("/api/v1/bi/queries/nothing", &["-H", &bearer]);
    let docs = format!("{}/docs/errors/", stand.base());
    assert!(refused.status >= 400 && refused.body.contains(&docs), "{}", refused.body);
    let made = stand.place.done(&["admin", "user", "create", "grace@example.com"]);
    let link = text(&made, "link");
    assert!(link.starts_with(&format!("{}/reset-password#", stand.base())), "{link}");
    assert_eq!(front.curl(link.split('#').next().unwrap(), &[]).status, 200);
}

/// An agent greets the box and asks for its tools.
fn agents(stand: &Stand, token: &str) {
    let key = stand.front.post("/api/v1/api-keys", token, &json!({ "name": "agent" }), 201);
    let bearer = format!("authorization: Bearer {}", text(&key, "secret"));
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "tests", "version": "1" },
    } });
    let accept = "accept: application/json, text/event-stream";
    let json = "content-type: application/json";
    let greeted =
        stand.front.curl("/mcp", &["-H", &bearer, "-H", accept, "-H", json, "-d", &list.to_string()]);
    assert_eq!((greeted.status, &greeted.json()["result"]["serverInfo"]["name"]), (200, &json!("gleaner")));
}

/// The command line finds a box below a path. It speaks to the box itself here, which takes the path as well as none: the proxy's
/// certificate is nobody's.
fn command_line(stand: &Stand, token: &str) {
    let key = stand.front.post("/api/v1/api-keys", token, &json!({ "name": "shell" }), 201);
    let url = format!("{}{}", stand.served.url, stand.front.site.way.path());
    let home = stand.folder.path();
    let mut command = Command::new(binary());
    command.args(["api", "GET", "/api/v1/auth/me"]).env_clear().current_dir(home).env("HOME", home);
    command.env("GLEANER_URL", url).env("GLEANER_API_KEY", text(&key, "secret"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && serde_json::from_str::<Value>(&said).is_ok(), "{said}{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_serves_the_box_below_a_path() {
    everything(Way::NginxPath).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_may_strip_the_path() {
    everything(Way::NginxStripped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_reaches_the_box_at_a_unix_socket() {
    everything(Way::NginxSocket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_serves_the_box_on_a_host_of_its_own() {
    everything(Way::NginxHost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_serves_the_box_below_a_path() {
    everything(Way::CaddyPath).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_may_strip_the_path() {
    everything(Way::CaddyStripped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_reaches_the_box_at_a_unix_socket() {
    everything(Way::CaddySocket).await;
}

/// A box that is busy with the first turns of a file takes no more of it meanwhile, and nobody gives it up for that.
async fn busy(way: Way) {
    let Some(stand) = Stand::of(way).await else { return };
    let (_, token) = stand.member("ada");
    // More than what lies between the two takes by itself; one URL, so that there is little to do.
    let file = format!("https://shop.example/{}\n", "long".repeat(400)).repeat(UPLOADED as usize * 4);
    let path = stand.folder.path().join("urls.txt");
    std::fs::write(&path, &file).unwrap();
    let (bearer, data) = (format!("authorization: Bearer {token}"), format!("@{}", path.display()));
    stand.served.signal(Signal::STOP);
    let headers = ["-H", &bearer, "-H", "content-type: text/csv", "-H", "expect:", "--data-binary", &data];
    let sent = std::thread::scope(|scope| {
        let sent = scope.spawn(|| stand.front.try_curl("/api/v1/urls/upload", &headers));
        // Longer than a proxy waits that was not told to.
        std::thread::sleep(BUSY_TIME);
        stand.served.signal(Signal::CONT);
        sent.join().unwrap()
    });
    let sent = sent.unwrap_or_else(|why| panic!("{way:?}: {why}"));
    assert_eq!((sent.status, &sent.json()["lines"]), (200, &json!(UPLOADED * 4)), "{way:?}: {}", sent.body);
    stand.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_waits_for_a_box_that_takes_its_time() {
    busy(Way::NginxPath).await;
    busy(Way::NginxHost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_waits_for_a_box_that_takes_its_time() {
    busy(Way::CaddyPath).await;
}

/// All of it by somebody in a browser.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_works_below_a_path() {
    let Some((chromium, tools)) = browser().await else { return };
    for way in [Way::NginxPath, Way::CaddyStripped] {
        let Some(stand) = Stand::of(way).await else { continue };
        let (email, token) = stand.member("ada");
        let urls = json!({ "urls": [stand.web.url("/p/1"), stand.web.url("/p/2")] });
        stand.front.post("/api/v1/urls", &token, &urls, 200);
        let said = browse(&stand, &chromium, &tools, &email).await;
        assert!(said.is_ok(), "{way:?}: {}", said.unwrap_err());
        stand.end();
    }
}

async fn browse(stand: &Stand, chromium: &Path, tools: &Path, email: &str) -> Result<String, String> {
    let mut node = tokio::process::Command::new("node");
    node.args(["--test", "--test-reporter=spec"]).arg(root().join("tests/it/proxies/console.test.mjs"));
    node.env("GLEANER_URL", stand.base()).env("GLEANER_EMAIL", email).env("GLEANER_PASSWORD", PASSWORD);
    node.env("GLEANER_SHOP", stand.web.url("")).env("GLEANER_TOOLS", tools).env("GLEANER_CHROMIUM", chromium);
    let host = stand.front.site.way.host();
    let arguments =
        format!("--ignore-certificate-errors --host-resolver-rules=MAP\u{a0}{host}\u{a0}127.0.0.1");
    node.env("GLEANER_CHROMIUM_ARGUMENTS", arguments);
    run(&mut node, Duration::from_secs(300)).await
}
