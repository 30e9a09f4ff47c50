//! Pages through proxies of the organization's own, from the catalog to the job's attempt.

use super::{connect, direct_id, patch};
use crate::harness::proxy::{ProxyServer, Temper};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, ended, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use std::time::Duration;

const PAGE: &str = "<h1>Hello</h1>";

fn answer(path: &str) -> Option<Answer> {
    Some(match path {
        "/page" | "/other" => Answer::html(PAGE),
        "/moved" => Answer::redirect("/page"),
        "/forbidden" => Answer::status(403),
        "/robots.txt" => {
            Answer { headers: Vec::new(), ..Answer::html("User-agent: *\nDisallow: /private\n") }
        }
        _ => return None,
    })
}

/// A target, some proxies, and a member of a box that may connect to all of them and to nothing else.
struct Lab {
    _appliance: Appliance,
    web: Web,
    proxies: Vec<ProxyServer>,
    member: Member,
}

impl Lab {
    /// `resolving`: the proxies may be told names.
    async fn open(tempers: &[Temper], resolving: bool) -> Lab {
        let web = Web::open(answer).await;
        let mut proxies = Vec::new();
        for temper in tempers {
            proxies.push(ProxyServer::open(temper.clone()).await);
        }
        let rules: Vec<String> =
            proxies.iter().map(|proxy| format!("127.0.0.1/32:{}", proxy.address.port())).collect();
        let mut open = rules.clone();
        open.push(format!("127.0.0.1/32:{}", web.address.port()));
        let resolving = if resolving { json!(rules).to_string() } else { "[]".to_owned() };
        let settings = [
            ("NETWORK__ALLOW", json!(open).to_string()),
            ("NETWORK__RESOLVING_PROXIES", resolving),
            ("NETWORK__HOSTS", r#"{ "shop.test" = ["127.0.0.1"], "inner.test" = ["10.0.0.8"] }"#.to_owned()),
        ];
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let appliance = Appliance::start_with(&settings).await;
        let member = appliance.member("proxied").await;
        let direct = direct_id(&member).await;
        expect(patch(&member, &direct, &json!({ "isEnabled": false })).await, 200);
        Lab { _appliance: appliance, web, proxies, member }
    }

    fn shop(&self, path: &str) -> String {
        format!("http://shop.test:{}{path}", self.web.address.port())
    }

    /// Connects proxies as `scheme://[login@]address`.
    async fn connect(&self, schemes: &[&str]) -> String {
        let entry = |(scheme, proxy): (&&str, &ProxyServer)| format!("{scheme}{}", proxy.address);
        let list: Vec<String> = schemes.iter().zip(&self.proxies).map(entry).collect();
        let new = json!({ "adapter": "proxy", "credentials": { "proxies": list } });
        text(&connect(&self.member, &new).await, "id").to_owned()
    }

    async fn provider(&self, id: &str) -> Value {
        expect(get(&self.member.api, &format!("/api/v1/providers/{id}")).await, 200)
    }

    async fn job(&self, url: &str) -> Value {
        self.job_with(url, json!({})).await
    }

    async fn job_with(&self, url: &str, options: Value) -> Value {
        let job = json!({ "url": url, "options": options });
        let job = expect(post(&self.member.api, "/api/v1/jobs", &job).await, 201);
        ended(&self.member.api, text(&job, "id")).await
    }
}

#[track_caller]
fn went(job: &Value, outcome: &str, status: Option<u16>, error: &str) {
    let attempt = &job["attempts"][0];
    assert_eq!((&attempt["outcome"], &attempt["httpStatus"]), (&json!(outcome), &json!(status)), "{job}");
    let said = attempt["error"].as_str().unwrap_or_default();
    assert!(said.contains(error) && error.is_empty() == said.is_empty(), "\"{error}\" is not in \"{said}\"");
    assert!(!job.to_string().contains("pa55"), "a password is shown: {job}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_go_out_as_the_requests_of_an_http_proxy() {
    let lab = Lab::open(&[Temper::Locked("me", "pa55")], true).await;
    let id = lab.connect(&["http://me:pa55@"]).await;
    let job = lab.job(&lab.shop("/moved")).await;
    went(&job, "success", Some(200), "");
    assert_eq!((&job["attempts"][0]["providerId"], &job["creditsCharged"]), (&json!(id), &json!(1)));
    let gets = ["/moved", "/page"].map(|path| format!("GET {}", lab.shop(path)));
    assert_eq!(lab.proxies[0].pages(), gets, "a redirect goes the same way");
    went(&lab.job(&lab.shop("/none")).await, "target_error", Some(404), "404");
    went(&lab.job(&lab.shop("/forbidden")).await, "blocked", Some(403), "403");
    went(&lab.job(&lab.shop("/private/x")).await, "target_error", None, "robots.txt of shop.test disallows");
    let robots = lab.proxies[0].told().iter().filter(|line| line.ends_with("/robots.txt")).count();
    assert_eq!(robots, 1, "robots.txt comes through the proxy too, and once");
    expect(patch(&lab.member, &id, &json!({ "settings": { "obeyRobots": false } })).await, 200);
    went(&lab.job(&lab.shop("/private/x")).await, "target_error", Some(404), "404");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_inside_is_told_addresses_and_never_names() {
    let lab = Lab::open(&[Temper::Good], false).await;
    let id = lab.connect(&["http://"]).await;
    went(&lab.job(&lab.shop("/page")).await, "success", Some(200), "");
    let target = lab.web.address;
    assert!(lab.proxies[0].told().iter().all(|line| *line == format!("CONNECT {target}")));
    went(
        &lab.job("http://inner.test/").await,
        "network_error",
        None,
        "inner.test has no address to fetch from",
    );
    for (scheme, login) in [("socks5://", ""), ("socks5h://", "me:pa55@")] {
        let list = json!([format!("{scheme}{login}{}", lab.proxies[0].address)]);
        expect(patch(&lab.member, &id, &json!({ "credentials": { "proxies": list } })).await, 200);
        went(&lab.job(&lab.shop("/moved")).await, "success", Some(200), "");
        assert_eq!(lab.proxies[0].told().last(), Some(&format!("SOCKS {target}")));
        went(
            &lab.job("http://inner.test/").await,
            "network_error",
            None,
            "inner.test has no address to fetch from",
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socks_proxies_take_names_and_logins() {
    let lab = Lab::open(&[Temper::Locked("me", "pa55")], true).await;
    let id = lab.connect(&["socks5h://me:pa55@"]).await;
    went(&lab.job(&lab.shop("/page")).await, "success", Some(200), "");
    let told = format!("SOCKS shop.test:{}", lab.web.address.port());
    assert_eq!(lab.proxies[0].told().last(), Some(&told));
    // The login can stand apart from the list, and a wrong one is the account's fault.
    let plain = json!([format!("socks5h://{}", lab.proxies[0].address)]);
    for (password, outcome) in [("pa55", "success"), ("wrong-pa55", "provider_error")] {
        let credentials = json!({ "proxies": plain, "username": "me", "password": password });
        expect(patch(&lab.member, &id, &json!({ "credentials": credentials })).await, 200);
        let job = lab.job(&lab.shop("/page")).await;
        let error = if outcome == "success" { "" } else { "does not accept its user name and password" };
        let status = (outcome == "success").then_some(200);
        went(&job, outcome, status, error);
    }
    let shown = lab.provider(&id).await;
    assert_eq!(shown["trouble"]["fault"], "bad_key", "{shown}");
    assert_eq!((&shown["proxies"]["count"], &shown["proxies"]["cooling"]), (&json!(1), &json!(1)), "{shown}");
    assert!(!shown.to_string().contains("pa55") && shown["credentialsSet"] == true, "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_proxy_costs_nobody_a_page() {
    let tempers = [Temper::Dead, Temper::Good, Temper::Refusing(407, 2)];
    let lab = Lab::open(&tempers, true).await;
    let id = lab.connect(&["http://", "http://", "http://x:pa55@"]).await;
    // A dead one is tried again after a while, so that a slow machine may look when it is not left alone just now.
    let shown = eventually("both are seen to be in trouble", Duration::from_secs(120), || async {
        went(&lab.job(&lab.shop("/page")).await, "success", Some(200), "");
        let shown = lab.provider(&id).await;
        assert_eq!((&shown["proxies"]["count"], &shown["trouble"]), (&json!(3), &Value::Null), "{shown}");
        let troubles = shown["proxies"]["troubles"].as_array().unwrap();
        let named = |index: usize, part: &str| {
            let address = format!("http://{}", lab.proxies[index].address);
            troubles.iter().any(|t| t["proxy"] == address.as_str() && text(t, "error").contains(part))
        };
        (named(2, "407") && named(0, "refused the connection")).then_some(shown)
    })
    .await;
    assert!(!shown.to_string().contains("pa55"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_which_nothing_works_is_the_accounts_trouble() {
    let lab = Lab::open(&[Temper::Refusing(407, 2), Temper::Refusing(407, 2)], true).await;
    let id = lab.connect(&["http://", "http://"]).await;
    went(
        &lab.job(&lab.shop("/page")).await,
        "provider_error",
        None,
        "does not accept its user name and password (407)",
    );
    let shown = lab.provider(&id).await;
    assert_eq!(
        (&shown["trouble"]["fault"], &shown["proxies"]["cooling"]),
        (&json!("bad_key"), &json!(2)),
        "{shown}"
    );
    // Nobody is asked until somebody does something.
    let job = lab.job(&lab.shop("/page")).await;
    assert_eq!((&job["status"], &job["attempts"]), (&json!("failed"), &json!([])), "{job}");
    let asked = lab.proxies.iter().map(|proxy| proxy.told().len()).sum::<usize>();
    assert_eq!(asked, 2, "each was asked once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_proxy_says_of_the_target_is_the_targets() {
    let lab = Lab::open(&[Temper::Refusing(502, 4)], false).await;
    let id = lab.connect(&["http://"]).await;
    went(&lab.job(&lab.shop("/page")).await, "network_error", None, "could not reach the target (502)");
    let list = json!([format!("socks5://{}", lab.proxies[0].address)]);
    expect(patch(&lab.member, &id, &json!({ "credentials": { "proxies": list } })).await, 200);
    went(&lab.job(&lab.shop("/page")).await, "network_error", None, "cannot reach the target");
    let shown = lab.provider(&id).await;
    assert_eq!((&shown["trouble"], &shown["proxies"]["cooling"]), (&Value::Null, &json!(0)), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_proxy_takes_no_more_than_the_jobs_time() {
    let lab = Lab::open(&[Temper::Hanging], true).await;
    for scheme in ["http://", "socks5h://"] {
        let id = lab.connect(&[scheme]).await;
        let job = lab.job_with(&lab.shop("/page"), json!({ "timeoutMs": 600 })).await;
        went(&job, "timeout", None, "600 ms");
        expect(patch(&lab.member, &id, &json!({ "isEnabled": false })).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_rotate_or_a_domain_keeps_its_proxy() {
    let lab = Lab::open(&[Temper::Good, Temper::Good, Temper::Good], true).await;
    let id = lab.connect(&["http://", "http://", "http://"]).await;
    expect(patch(&lab.member, &id, &json!({ "settings": { "obeyRobots": false } })).await, 200);
    for _ in 0..6 {
        went(&lab.job(&lab.shop("/page")).await, "success", Some(200), "");
    }
    let counts: Vec<usize> = lab.proxies.iter().map(|proxy| proxy.pages().len()).collect();
    assert_eq!(counts, [2, 2, 2]);
    expect(patch(&lab.member, &id, &json!({ "settings": { "rotation": "per_domain" } })).await, 200);
    for _ in 0..6 {
        went(&lab.job(&lab.shop("/page")).await, "success", Some(200), "");
    }
    let mut counts: Vec<usize> = lab.proxies.iter().map(|proxy| proxy.pages().len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [2, 2, 8]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_list_is_refused_by_the_entry() {
    let appliance = Appliance::start().await;
    let member = appliance.member("entries").await;
    for (credentials, sentence, part) in [
        (json!({}), "Validation failed", "credentials.proxies: is missing"),
        (json!({ "proxies": [] }), "Validation failed", "credentials.proxies: must have 1 to 1000 entries"),
        (
            json!({ "proxies": ["http://a.test:1", "ftp://me:pa55@a.test:1"] }),
            "Validation failed",
            "credentials.proxies: [1] must begin with http://, https://, socks5:// or socks5h://",
        ),
        (json!({ "proxies": ["a.test"] }), "Validation failed", "[0] must have a port"),
        (
            json!({ "proxies": ["http://10.0.0.1:3128"] }),
            "Validation failed",
            "[0] the address 10.0.0.1 (private) is not allowed by network.allow",
        ),
        (
            json!({ "proxies": ["socks5://169.254.169.254:80"] }),
            "Validation failed",
            "(cloud metadata) is never allowed",
        ),
        (
            json!({ "proxies": ["a.test:1"], "user": "me" }),
            "Validation failed",
            "credentials.user: is not a field",
        ),
    ] {
        let new = json!({ "adapter": "proxy", "credentials": credentials });
        let reply = post(&member.api, "/api/v1/providers", &new).await;
        refused(&reply, 400, sentence, part);
        assert!(!reply.text().contains("pa55"), "{}", reply.text());
    }
    let new = json!({ "adapter": "proxy", "credentials": { "proxies": ["proxy.example:1:me:pa55"] } });
    let made = expect(post(&member.api, "/api/v1/providers", &new).await, 201);
    assert_eq!(made["settings"], json!({ "obeyRobots": true, "rotation": "each_page" }));
    assert_eq!(made["proxies"], json!({ "count": 1, "cooling": 0, "troubles": [] }));
    let change = json!({ "credentials": { "proxies": ["proxy.example"] } });
    refused(
        &patch(&member, text(&made, "id"), &change).await,
        400,
        "Validation failed",
        "[0] must have a port",
    );
    let store = std::fs::read(appliance.data_dir().join("gleaner.redb")).unwrap();
    assert!(!store.windows(4).any(|bytes| bytes == b"pa55"), "a password lies open in the store");
}
