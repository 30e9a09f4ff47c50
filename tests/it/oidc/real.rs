//! A real provider: npm's `oidc-provider` on loopback, with a browser that follows redirects and keeps cookies. Where Node.js or the
//! registry is not there the test says so and does nothing.

use super::{ME, PLACE, made, page};
use crate::clients::skipped;
use crate::harness::{Appliance, eventually, expect, get, post};
use base::permission::Role;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use url::Url;

const PROVIDER: &str = "oidc-provider@8.8.1";
const INSTALL_TIME_MAX: Duration = Duration::from_secs(240);
const SECRET: &str = "a secret: of the tests & more";
const STEPS_MAX: usize = 12;

/// A provider in a process of its own, which ends with this.
pub(crate) struct Real {
    issuer: String,
    client: Client,
    _process: Child,
    _folder: TempDir,
}

impl Real {
    /// None where it cannot be had.
    pub(crate) async fn open() -> Option<Real> {
        let folder = TempDir::new().unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
        npm.arg(folder.path()).arg(PROVIDER).stdin(Stdio::null()).kill_on_drop(true);
        let installed = tokio::time::timeout(INSTALL_TIME_MAX, npm.output()).await;
        if !installed.is_ok_and(|ended| ended.is_ok_and(|output| output.status.success())) {
            skipped("a real provider of sign-ins", "npm cannot install oidc-provider");
            return None;
        }
        let script = folder.path().join("provider.mjs");
        std::fs::write(&script, include_str!("provider.mjs")).unwrap();
        let mut node = Command::new("node");
        node.arg(&script)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut process = node.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap().expect("the provider says its port");
            if let Ok(port) = line.trim().parse::<u16>() {
                break port;
            }
        };
        // What it says later is of no interest, but must go somewhere.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let issuer = format!("http://127.0.0.1:{port}");
        Some(Real { client: Client::new(&issuer), issuer, _process: process, _folder: folder })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(crate) async fn told(&self, what: Value) {
        assert_eq!(self.client.post("/control", &what).await.unwrap().status, 200);
    }
}

/// What follows redirects and keeps cookies, of each host apart.
#[derive(Default)]
struct Wanderer {
    jars: BTreeMap<String, BTreeMap<String, String>>,
}

impl Wanderer {
    /// Goes to an address and on from there, to where it is led no more; gives that address and its answer.
    async fn visit(&mut self, start: &str) -> (Url, Reply) {
        let mut url = Url::parse(start).unwrap();
        for _ in 0..STEPS_MAX {
            let origin = url.origin().ascii_serialization();
            let jar = self.jars.entry(origin.clone()).or_default();
            let cookies: Vec<_> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let mut client = Client::new(&origin);
            if !cookies.is_empty() {
                client = client.header("cookie", &cookies.join("; "));
            }
            let place = &url[url::Position::BeforePath..url::Position::AfterQuery];
            let reply = get(&client, place).await;
            for set in reply.headers.get_all("set-cookie") {
                let (pair, rest) = set.to_str().unwrap().split_once(';').unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                let is_over = value.is_empty() || rest.contains("Max-Age=0");
                match is_over {
                    true => jar.remove(name),
                    false => jar.insert(name.to_owned(), value.to_owned()),
                };
            }
            let next = reply.header("location").to_owned();
            if next.is_empty() {
                return (url, reply);
            }
            url = url.join(&next).unwrap();
        }
        panic!("led on without end: {url}");
    }

    /// Goes to the provider's page that asks whether one wants to sign out, and says yes.
    async fn confirm(&mut self, start: &str) -> Reply {
        let (page, asked) = self.visit(start).await;
        let asked = asked.text();
        let of = |before: &str| {
            let (_, rest) = asked.split_once(before).unwrap_or_else(|| panic!("{before}: {asked}"));
            rest.split('"').next().unwrap().to_owned()
        };
        let (xsrf, action) = (of("name=\"xsrf\" value=\""), page.join(&of("action=\"")).unwrap());
        let origin = page.origin().ascii_serialization();
        let cookies: Vec<_> =
            self.jars[&origin].iter().map(|(name, value)| format!("{name}={value}")).collect();
        let form = format!("xsrf={xsrf}&logout=yes");
        let client = Client::new(&origin).header("cookie", &cookies.join("; "));
        let media = Some("application/x-www-form-urlencoded");
        let reply = client.send_bytes(http::Method::POST, action.path(), media, form).await.unwrap();
        assert!(reply.status.is_redirection(), "{}", reply.text());
        reply
    }

    fn session(&self, at: &Appliance) -> Option<String> {
        let jar = self.jars.get(at.app().url())?;
        jar.get("gleaner_session").map(|value| format!("gleaner_session={value}"))
    }
}

/// A box whose people come from this provider, with these keys more.
pub(super) async fn governed(provider: &Real, more: &[(&str, &str)]) -> Appliance {
    let mut settings = vec![
        ("OIDC__ISSUER", provider.issuer()),
        ("OIDC__CLIENT_ID", "gleaner"),
        ("OIDC__CLIENT_SECRET", SECRET),
        ("OIDC__ORGANIZATION", "Acme"),
        ("OIDC__GROUPS", r#"{ admins = "admin", staff = "viewer" }"#),
    ];
    settings.extend(more);
    let at = Appliance::start_with(&settings).await;
    made(&at, "owner@acme.example", Some(("Acme", Role::Owner))).await;
    at
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_of_a_real_provider_come_and_go() {
    let Some(provider) = Real::open().await else { return };
    for (alg, auth) in [
        ("RS256", "client_secret_basic"),
        ("PS256", "client_secret_post"),
        ("ES256", "client_secret_basic"),
        ("EdDSA", "client_secret_post"),
    ] {
        let at = governed(&provider, &[]).await;
        let begin = format!("{}{PLACE}/begin?to=/start", at.app().url());
        provider.told(json!({ "box": at.app().url(), "alg": alg, "auth": auth })).await;
        provider.told(json!({ "account": { "sub": "ada", "groups": ["staff"] } })).await;
        let mut browser = Wanderer::default();
        let (url, reply) = browser.visit(&begin).await;
        assert_eq!((url.path(), url.fragment()), ("/console", Some("/start")), "{alg}: {}", reply.text());
        let ada = page(&at, &browser.session(&at).expect("a session"));
        let me = expect(get(&ada, ME).await, 200);
        assert_eq!((&me["role"], &me["user"]["name"]), (&json!("viewer"), &json!("Person ada")), "{alg}");
        // The provider knows the browser still: nobody is asked, and groups are read anew.
        provider.told(json!({ "account": { "sub": "ada", "groups": ["admins"] } })).await;
        browser.visit(&begin).await;
        assert_eq!(get(&ada, ME).await.status, 401, "one session a browser");
        let ada = page(&at, &browser.session(&at).unwrap());
        assert_eq!(expect(get(&ada, ME).await, 200)["role"], "admin");
        provider.told(json!({ "account": { "sub": "ada", "groups": [] } })).await;
        let (_, reply) = browser.visit(&begin).await;
        assert_eq!(reply.status, 403, "{}", reply.text());
        assert_eq!(get(&ada, ME).await.status, 401);
        // Who is refused there.
        provider.told(json!({ "account": { "sub": "bob", "groups": ["staff"], "refused": true } })).await;
        let (_, reply) = Wanderer::default().visit(&begin).await;
        assert_eq!(reply.status, 403, "{}", reply.text());
        assert!(reply.text().contains("did not let you through"), "{}", reply.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_out_at_a_real_provider_ends_both_sessions() {
    let Some(provider) = Real::open().await else { return };
    let at = governed(&provider, &[]).await;
    provider.told(json!({ "box": at.app().url(), "alg": "RS256", "auth": "client_secret_basic" })).await;
    provider.told(json!({ "account": { "sub": "ada", "groups": ["staff"] } })).await;
    let begin = format!("{}{PLACE}/begin", at.app().url());
    let (mut one, mut other) = (Wanderer::default(), Wanderer::default());
    one.visit(&begin).await;
    other.visit(&begin).await;
    let [first, second] = [&one, &other].map(|browser| page(&at, &browser.session(&at).unwrap()));
    let ended = expect(first.delete(PLACE).await.unwrap(), 200);
    assert_eq!(get(&first, ME).await.status, 401);
    let confirmed = one.confirm(ended["leadTo"].as_str().unwrap()).await;
    assert_eq!(confirmed.header("location"), format!("{}/console", at.app().url()));
    // It was the session of the one browser only.
    expect(get(&second, ME).await, 200);
    // From the provider's own page: it tells the box, which has not heard of it from the browser.
    other.confirm(&format!("{}/session/end", provider.issuer())).await;
    eventually("the provider has told the box", Duration::from_secs(30), || async {
        (get(&second, ME).await.status == 401).then_some(())
    })
    .await;
    let refresh = json!({ "refreshToken": other.session(&at).unwrap().split_once('=').unwrap().1 });
    assert_eq!(post(&at.client(), "/api/v1/auth/refresh", &refresh).await.status, 401);
}
