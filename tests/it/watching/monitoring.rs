//! The rules and the dashboard that are shipped: Prometheus takes them, and they name nothing that is not there.

use super::{PATIENCE, has, root};
use crate::harness::{Appliance, eventually, get, ready};
use serde_json::Value;
use server::client::Client;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const RULES: &str = "data/monitoring/gleaner.rules.yml";
const DASHBOARD: &str = "data/monitoring/gleaner-dashboard.json";

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The queries of the dashboard, with what Grafana puts in for its variables.
fn queries() -> Vec<String> {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("expr").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&serde_json::from_str(&read(DASHBOARD)).unwrap(), &mut found);
    found
        .into_iter()
        .map(|query| query.replace("$__rate_interval", "1m").replace("$instance", ".*"))
        .collect()
}

/// The names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("gleaner_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_rules_and_dashboard_name_is_there() {
    let at = Appliance::start().await;
    ready(&at.client()).await;
    let page = get(&at.client(), "/metrics").await.text();
    let mut known: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let series: BTreeSet<&str> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split([' ', '{']).next())
        .collect();
    known.extend(series);
    let (rules, queries) = (read(RULES), queries());
    assert!(queries.len() > 20, "{queries:?}");
    for (place, text) in [(RULES, rules), (DASHBOARD, queries.join("\n"))] {
        let named = named(&text);
        assert!(named.len() > 12, "{place}: {named:?}");
        for name in named {
            assert!(known.contains(name.as_str()), "{place} names {name}, which the box does not print");
        }
    }
    at.stop().await;
}

#[test]
fn the_dashboard_is_what_its_script_makes() {
    if !has("python3") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("dashboard.py");
    std::fs::copy(root().join("data/monitoring/dashboard.py"), &script).unwrap();
    let made = Command::new("python3").arg(&script).status().unwrap();
    assert!(made.success());
    let made = std::fs::read_to_string(folder.path().join("gleaner-dashboard.json")).unwrap();
    assert_eq!(made, read(DASHBOARD), "run python3 data/monitoring/dashboard.py");
}

/// A package has them.
#[test]
fn rules_and_dashboard_are_shipped() {
    let build = read("packaging/build");
    let files = std::fs::read_dir(root().join("data/monitoring")).unwrap();
    for file in files.map(|file| file.unwrap().file_name().into_string().unwrap()) {
        assert_eq!(build.contains(&file), !file.ends_with(".py"), "{file}");
    }
}

fn promtool(arguments: &[&str], input: &str) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promtool_finds_nothing_wrong() {
    if !has("promtool") {
        return;
    }
    let rules = root().join(RULES);
    promtool(&["check", "rules", "--lint-fatal", rules.to_str().unwrap()], "");
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("prometheus.yml");
    std::fs::write(&config, read("data/monitoring/prometheus.yml")).unwrap();
    std::fs::copy(&rules, folder.path().join("gleaner.rules.yml")).unwrap();
    promtool(&["check", "config", config.to_str().unwrap()], "");
    promtool(&["test", "rules", root().join("tests/it/watching/rules.test.yml").to_str().unwrap()], "");
    let at = Appliance::start().await;
    ready(&at.client()).await;
    let page = get(&at.client(), "/metrics").await.text();
    promtool(&["check", "metrics"], &page);
    at.stop().await;
}

/// Prometheus itself, with a token, over a box.
struct Prometheus {
    child: Child,
    client: Client,
    _folder: TempDir,
}

impl Prometheus {
    fn start(target: &str, token: &str) -> Prometheus {
        let folder = TempDir::new().unwrap();
        let place = folder.path();
        std::fs::write(place.join("token"), token).unwrap();
        std::fs::copy(root().join(RULES), place.join("gleaner.rules.yml")).unwrap();
        let config = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: [gleaner.rules.yml]\nscrape_configs:\n  \
             - job_name: gleaner\n    authorization: {{ credentials_file: token }}\n    static_configs: [{{ targets: [\"{target}\"] }}]\n"
        );
        std::fs::write(place.join("prometheus.yml"), config).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("prometheus")
            .current_dir(place)
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Prometheus { child, client: Client::new(format!("http://127.0.0.1:{port}")), _folder: folder }
    }

    async fn ask(&self, query: &str) -> Option<Value> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        Some(self.client.get(&format!("/api/v1/query?query={query}")).await.ok()?.json)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_reads_the_box_and_answers_every_panel() {
    if !has("prometheus") {
        return;
    }
    let token = "0123456789abcdef-of-prometheus";
    let settings = [("SERVER__METRICS_FROM", "[]"), ("SERVER__METRICS_TOKEN", token)];
    let at = Appliance::start_with(&settings).await;
    ready(&at.client()).await;
    let target = at.client().base().trim_start_matches("http://").to_owned();
    let prometheus = Prometheus::start(&target, token);
    let is = |answer: &Value, value: &str| answer["data"]["result"][0]["value"][1] == value;
    eventually("Prometheus reads the box", PATIENCE, || async {
        let up = prometheus.ask("up{job=\"gleaner\"}").await?;
        is(&up, "1").then_some(())
    })
    .await;
    for query in queries() {
        let answer = prometheus.ask(&query).await.unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
    }
    let version = prometheus.ask("gleaner_build_info").await.unwrap();
    assert_eq!(version["data"]["result"][0]["metric"]["version"], env!("CARGO_PKG_VERSION"));
    // No rule fails to be evaluated.
    eventually("Prometheus evaluates the rules", PATIENCE, || async {
        let rules = prometheus.client.get("/api/v1/rules").await.ok()?.json;
        let rules = rules["data"]["groups"][0]["rules"].as_array()?.clone();
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
        (rules.len() > 15 && rules.iter().all(|rule| rule["health"] == "ok")).then_some(())
    })
    .await;
    at.stop().await;
}

#[test]
fn the_files_say_where_they_belong() {
    let operating = read("data/docs/operating.md");
    for name in ["gleaner.rules.yml", "gleaner-dashboard.json", "prometheus.yml"] {
        assert!(Path::new(&root().join("data/monitoring").join(name)).exists() && operating.contains(name));
    }
}
