//! Traces by OTLP, decoded with OpenTelemetry's own messages (`opentelemetry-proto` from PyPI) by a collector on loopback.

use super::{LoggedBox, PATIENCE, has, root};
use crate::harness::web::{Answer, Web};
use crate::harness::{collect, eventually, expect, get, member, post, text};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Instant;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Where OpenTelemetry's messages for Python are; none, and a message, where they cannot be had.
fn messages() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        if !has("python3") {
            return None;
        }
        let folder = std::env::temp_dir().join(format!("gleaner-otlp-{}", std::process::id()));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
        pip.arg(&folder).arg("opentelemetry-proto==1.38.0").stderr(Stdio::null());
        if pip.status().is_ok_and(|status| status.success()) {
            return Some(folder);
        }
        println!("skipped: opentelemetry-proto cannot be had from PyPI");
        None
    });
    folder.clone()
}

/// A collector under way.
struct Collector {
    child: Child,
    port: u16,
    batches: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start(statuses: &str) -> Option<Collector> {
        let mut child = Command::new("python3")
            .arg(root().join("tests/it/watching/collector.py"))
            .arg(statuses)
            .env("PYTHONPATH", messages()?)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().expect("it says its port").unwrap().parse().unwrap();
        let batches = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&batches);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().push(serde_json::from_str(&line).unwrap());
            }
        });
        Some(Collector { child, port, batches })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The spans of batches that were taken.
    fn spans(&self) -> Vec<Value> {
        let batches = self.batches.lock();
        let taken = batches.iter().filter(|batch| batch["answered"] == 200);
        taken.flat_map(|batch| batch["spans"].as_array().unwrap().clone()).collect()
    }

    /// Waits for a span that is like this.
    async fn span(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(what, PATIENCE, || async { self.spans().into_iter().find(|span| is(span)) }).await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_a_statement_and_a_job_are_traces_of_their_own() {
    let Some(collector) = Collector::start("503,-") else { return };
    let web = Web::open(|_| Some(Answer::html("<h1>A lamp</h1><p>geheim-4711 stands here</p>"))).await;
    let (allow, url) = (web.allow(), collector.url());
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("TELEMETRY__ENDPOINT", &url),
        ("TELEMETRY__HEADERS", "[\"x-key: geheim-key\"]"),
        ("TELEMETRY__SERVICE_NAME", "box-7"),
    ];
    let at = LoggedBox::start(&settings);
    let client = at.process.client();
    let ada = member(&client, &at.process.socket(), "ada").await;
    let eve = member(&client, &at.process.socket(), "eve").await;
    let traced = ada.api.header("traceparent", PARENT).header("x-request-id", "ada-asks");
    let sql = json!({ "sql": "SELECT count(*) AS n, 'geheim-4712' AS x FROM urls", "waitMs": 10_000 });
    let query = expect(post(&traced, "/api/v1/bi/queries", &sql).await, 200)["jobId"].clone();
    // The caller's trace goes on in the box.
    let is_of = |name: &'static str| move |span: &Value| span["name"] == name && span["trace"] == TRACE;
    let request = collector.span("the request", is_of("POST /api/v1/bi/queries")).await;
    assert_eq!((&request["parent"], &request["kind"]), (&json!("00f067aa0ba902b7"), &json!(2)));
    let is = &request["is"];
    assert_eq!(
        (&is["gleaner.request_id"], &is["http.response.status_code"]),
        (&json!("ada-asks"), &json!(200))
    );
    assert_eq!(
        (&is["gleaner.org_id"], &is["http.route"]),
        (&json!(ada.org_id), &json!("/api/v1/bi/queries"))
    );
    let statement = collector.span("the statement", is_of("sql.statement")).await;
    assert_eq!((&statement["parent"], &statement["is"]["gleaner.query_id"]), (&request["id"], &query));
    assert_eq!(statement["is"]["gleaner.tables"], "urls");
    let wait = collector.span("its wait", is_of("sql.wait")).await;
    assert_eq!(wait["parent"], statement["id"]);
    collector.span("a commit", is_of("store.commit")).await;
    let (begin, end) = (request["begin"].as_u64().unwrap(), request["end"].as_u64().unwrap());
    assert!(begin < end && begin <= statement["begin"].as_u64().unwrap(), "{request} {statement}");
    let resource = &request["resource"];
    assert_eq!((&resource["service.name"], &request["scope"]), (&json!("box-7"), &json!("gleaner")));
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
    // The log names the trace.
    let line = at.line("gleaner::request", |line| line["fields"]["request_id"] == "ada-asks").await;
    assert_eq!(line["fields"]["trace_id"], TRACE);

    // A job is a trace of its own, of its organization's.
    let job = collect(&eve.api, &web.url("/lamp?geheim-4713")).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let run = collector
        .span("the run", |span| span["name"] == "job.run" && span["is"]["gleaner.job_id"] == job["id"])
        .await;
    assert_eq!((&run["parent"], &run["is"]["gleaner.org_id"]), (&json!(""), &json!(eve.org_id)));
    for (name, kind) in [("job.attempt", 3), ("job.extract", 1), ("store.commit", 1)] {
        let span = collector.span(name, |span| span["name"] == name && span["trace"] == run["trace"]).await;
        assert_eq!(span["kind"], kind, "{span}");
        if name == "job.attempt" {
            let is = &span["is"];
            assert_eq!(
                (&is["gleaner.outcome"], &is["http.response.status_code"]),
                (&json!("success"), &json!(200))
            );
        }
    }
    let missing = get(&eve.api.header("x-request-id", "lost"), "/api/v1/nothing").await;
    assert_eq!(missing.status, 404);
    collector.span("what has no route", |span| span["is"]["gleaner.request_id"] == "lost").await;
    {
        let batches = collector.batches.lock();
        let all = serde_json::to_string(&*batches).unwrap();
        assert_eq!(batches[0]["answered"], 503, "the first batch was sent again: {}", batches[0]);
        for batch in batches.iter() {
            assert_eq!((&batch["path"], &batch["key"]), (&json!("/v1/traces"), &json!("geheim-key")));
            assert_eq!(batch["type"], "application/x-protobuf");
        }
        for secret in ["geheim-47", "lamp", &ada.key, &eve.key, &ada.email, crate::harness::PASSWORD] {
            assert!(!all.contains(secret), "{secret} is in a span");
        }
        assert!(!at.log().contains("geheim-key"));
    }
    let page = get(&client, "/metrics").await.text();
    assert!(page.contains("gleaner_trace_spans_dropped_total{why=\"collector\"} 0\n"), "{page}");
    // What is on its way goes out with the box.
    get(&ada.api.header("x-request-id", "the-last"), "/api/v1/urls").await;
    let LoggedBox { process, folder: _folder } = at;
    assert_eq!(process.terminate(), Some(0));
    collector.span("the last one", |span| span["is"]["gleaner.request_id"] == "the-last").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_decide_that_they_are_not_sampled_and_little_else() {
    let Some(collector) = Collector::start("-") else { return };
    let url = collector.url();
    // One in a thousand by itself: what callers ask for is beyond it.
    let settings = [("TELEMETRY__ENDPOINT", url.as_str()), ("TELEMETRY__SAMPLE_PER_MILLE", "1")];
    let at = LoggedBox::start(&settings);
    let client = at.process.client();
    // Ids that the ratio does not take: it goes by their last seven bytes.
    let id = |n: u32| format!("{:032x}", 0x00ff_ffff_0000_0000_u128 + u128::from(n));
    let as_trace = |n: u32, flags: &str| format!("00-{}-00f067aa0ba902b7-{flags}", id(n));
    let asked = client.header("traceparent", &as_trace(7, "01")).header("x-request-id", "sampled");
    get(&asked, "/healthz").await;
    collector.span("the sampled one", |span| span["is"]["gleaner.request_id"] == "sampled").await;
    let not = client.header("traceparent", &as_trace(1, "00")).header("x-request-id", "unsampled");
    get(&not, "/healthz").await;
    let line = at.line("gleaner::request", |line| line["fields"]["request_id"] == "unsampled").await;
    assert_eq!(line["fields"]["trace_id"], id(1), "it is told nevertheless");
    for (n, wrong) in [
        "",
        "00",
        "nonsense",
        "00-0-0-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        &"f".repeat(4_000),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("wrong-{n}");
        let reply = get(&client.header("traceparent", wrong).header("x-request-id", &id), "/healthz").await;
        assert_eq!(reply.status, 200, "{wrong}");
        let line = at.line("gleaner::request", |line| line["fields"]["request_id"] == id.as_str()).await;
        assert_ne!(line["fields"]["trace_id"], wrong);
    }
    // A flood of callers that want to be sampled: each is answered, a part is taken.
    let (flood, begun) = (1_000..1_400, Instant::now());
    for n in flood.clone() {
        let reply = get(&client.header("traceparent", &as_trace(n, "01")), "/healthz").await;
        assert_eq!(reply.status, 200);
    }
    let of_flood: HashSet<String> = flood.map(id).collect();
    let taken_max = 20 * (begun.elapsed().as_secs() as usize + 2);
    let marked = client.header("traceparent", &as_trace(2, "00")).header("x-request-id", "the-last");
    get(&marked, "/healthz").await;
    at.logged("the-last").await;
    let taken = collector.spans().iter().filter(|span| of_flood.contains(text(span, "trace"))).count();
    assert!(taken <= taken_max, "{taken} of at most {taken_max}");
    assert!(!collector.spans().iter().any(|span| span["is"]["gleaner.request_id"] == "unsampled"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_or_says_nothing_delays_nobody_and_is_counted() {
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let settings = [
        ("TELEMETRY__ENDPOINT", url.as_str()),
        ("TELEMETRY__TIMEOUT_SEC", "1"),
        ("LOG__LEVEL", "warn"),
        ("SERVER__SHUTDOWN_SEC", "5"),
    ];
    let at = LoggedBox::start(&settings);
    let client = at.process.client();
    let ada = member(&client, &at.process.socket(), "ada").await;
    let dropped = |why: &str| {
        let name = format!("gleaner_trace_spans_dropped_total{{why=\"{why}\"}} ");
        let client = client.clone();
        async move {
            let page = get(&client, "/metrics").await.text();
            let line = page.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned));
            line.expect("it is counted").parse::<u64>().unwrap()
        }
    };
    // More than may wait: 8,192, and a batch that is under way.
    for round in 1.. {
        let asked = (0..8).map(|_| {
            let api = ada.api.clone();
            tokio::spawn(async move {
                for _ in 0..600 {
                    assert_eq!(get(&api, "/healthz").await.status, 200);
                }
            })
        });
        for task in asked.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        if dropped("queue_full").await > 0 {
            break;
        }
        assert!(round < 20, "the queue is never full");
    }
    eventually("a batch is given up", PATIENCE, || async { (dropped("collector").await > 0).then_some(()) })
        .await;
    let line = at.line("gleaner::telemetry", |line| line["level"] == "WARN").await;
    assert!(text(&line["fields"], "reason").contains("no answer within 1 s"), "{line}");
    let LoggedBox { process, folder: _folder } = at;
    assert_eq!(process.terminate(), Some(0), "nor does it keep the box from ending");
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_collector_refuses_is_counted_and_not_sent_again() {
    let Some(collector) = Collector::start("400,206") else { return };
    let url = format!("{}/v1/traces", collector.url());
    let at = LoggedBox::start(&[("TELEMETRY__ENDPOINT", url.as_str())]);
    let client = at.process.client();
    let lost = async || {
        let page = get(&client, "/metrics").await.text();
        let name = "gleaner_trace_spans_dropped_total{why=\"collector\"} ";
        let line = page.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.expect("it is counted").parse::<usize>().unwrap()
    };
    get(&client, "/healthz").await;
    eventually("two batches were answered", PATIENCE, || async {
        get(&client, "/healthz").await;
        (collector.batches.lock().len() >= 3).then_some(())
    })
    .await;
    let (refused, count) = {
        let batches = collector.batches.lock();
        let ids = |batch: &Value| -> Vec<Value> {
            batch["spans"].as_array().unwrap().iter().map(|span| span["id"].clone()).collect()
        };
        let refused = ids(&batches[0]);
        let later: Vec<Value> = batches[1..].iter().flat_map(ids).collect();
        assert!(refused.iter().all(|id| !later.contains(id)), "it was sent again");
        (refused.len(), batches.len())
    };
    assert!(count >= 3);
    // All of the first, and one of the second.
    eventually("they are counted", PATIENCE, || async { (lost().await == refused + 1).then_some(()) }).await;
}
