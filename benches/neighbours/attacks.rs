//! What a hostile organization, or strangers without a credential, do to a box. All go on until the measuring is over, with a
//! bounded number of requests under way.

use crate::harness::{expect, get, post, text};
use crate::{SLOTS, Stage};
use bytes::Bytes;
use gleaner::admin::{self, Request};
use http::Method;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use server::client::Client;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

type Done = Pin<Box<dyn Future<Output = String> + Send>>;

/// What the neighbour's jobs are meanwhile.
pub enum Work {
    /// Four a second, to sites that answer at once.
    Trickle,
    /// So many at once, to a path at a site each (or at one, `host:path`), with the time after which the n-th would begin with a fair
    /// share.
    Heap { jobs: usize, path: &'static str, fair: fn(usize) -> Duration },
}

pub struct Attack {
    pub name: &'static str,
    pub what: &'static str,
    pub work: Work,
    /// Gives what it did, for the report.
    pub begin: fn(Arc<Stage>) -> Done,
}

pub static ALL: &[Attack] = &[
    Attack {
        name: "calm",
        what: "nobody else",
        work: Work::Trickle,
        begin: |_| Box::pin(async { "nothing".to_owned() }),
    },
    Attack {
        name: "tags",
        what: "jobs with 60,000 distinct tags, four at a time (7)",
        work: Work::Trickle,
        begin: |stage| Box::pin(flood(stage, 4, tags)),
    },
    Attack {
        name: "bodies",
        what: "strangers: 10 HTTP/2 connections with 250 bodies each that never end (8)",
        work: Work::Trickle,
        begin: |stage| Box::pin(bodies(stage)),
    },
    Attack {
        name: "connections",
        what: "strangers: 1,000 connections that say nothing, opened again when they are closed (8)",
        work: Work::Trickle,
        begin: |stage| Box::pin(connections(stage)),
    },
    Attack {
        name: "redirect",
        what: "a redirect from the neighbour's site to one that asks for an hour of rest (9)",
        work: Work::Heap { jobs: 10, path: "b1:/quick", fair: |_| Duration::from_secs(1) },
        begin: |stage| Box::pin(redirect(stage)),
    },
    Attack {
        name: "probes",
        what: "tests of a provider at the neighbour's site, 26 at a time (10)",
        work: Work::Heap { jobs: 10, path: "b1:/half", fair: |n| Duration::from_millis(500) * n as u32 },
        begin: |stage| Box::pin(probes(stage)),
    },
    Attack {
        name: "base",
        what: "pages with a base of a megabyte and 10,000 links (12)",
        work: Work::Trickle,
        begin: |stage| Box::pin(bases(stage)),
    },
    Attack {
        name: "site",
        what: "120 jobs of a second each at one site, where the neighbour has ten (13)",
        work: Work::Heap { jobs: 10, path: "b1:/second", fair: |n| Duration::from_secs(n as u64) },
        begin: |stage| Box::pin(site(stage)),
    },
    Attack {
        name: "silent",
        what: "1,000 jobs at sites that never answer, while the neighbour has 64 of half a second (13)",
        work: Work::Heap {
            jobs: 64,
            path: "/half",
            fair: |n| Duration::from_millis(500) * (n / (SLOTS / 2)) as u32,
        },
        begin: |stage| Box::pin(silent(stage)),
    },
    Attack {
        name: "domains",
        what: "40,000 jobs that wait, each at a domain of its own (13)",
        work: Work::Trickle,
        begin: |stage| Box::pin(domains(stage)),
    },
    Attack {
        name: "statements",
        what: "SQL statements that take their whole time, as many as may wait (14)",
        work: Work::Trickle,
        begin: |stage| Box::pin(flood(stage, 8, statement)),
    },
    Attack {
        name: "storage",
        what: "jobs with 128 KB of headers that fail, eight at a time (15)",
        work: Work::Trickle,
        begin: |stage| Box::pin(flood(stage, 8, heavy)),
    },
    Attack {
        name: "lists",
        what: "lists of 200 heavy jobs, 40 at a time (15)",
        work: Work::Trickle,
        begin: |stage| Box::pin(lists(stage)),
    },
];

/// One request after the other in so many hands, until it is over; gives what was answered how often.
async fn flood<F: Future<Output = u16> + Send + 'static>(
    stage: Arc<Stage>,
    hands: usize,
    one: fn(Arc<Stage>, usize) -> F,
) -> String {
    let mut all = JoinSet::new();
    for hand in 0..hands {
        let stage = stage.clone();
        all.spawn(async move {
            let mut answers = std::collections::BTreeMap::new();
            for n in 0.. {
                if stage.is_over() {
                    break;
                }
                let status = one(stage.clone(), n * hands + hand).await;
                *answers.entry(status).or_insert(0u32) += 1;
                if matches!(status, 402 | 409 | 429 | 503) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            answers
        });
    }
    let mut sum = std::collections::BTreeMap::new();
    while let Some(answers) = all.join_next().await {
        for (status, count) in answers.expect("a hand") {
            *sum.entry(status).or_insert(0u32) += count;
        }
    }
    format!("answers {sum:?}")
}

/// The status, or 0 where none came.
async fn status(client: &Client, path: &str, body: &Value) -> u16 {
    client.post(path, body).await.map_or(0, |reply| reply.status.as_u16())
}

async fn tags(stage: Arc<Stage>, n: usize) -> u16 {
    let tags: Vec<_> = (0..60_000).map(|tag| format!("tag{tag}")).collect();
    let url = stage.page("a1", &format!("/quick/{n}"));
    status(&stage.hostile.api, "/api/v1/jobs", &json!({ "url": url, "tags": tags })).await
}

async fn statement(stage: Arc<Stage>, n: usize) -> u16 {
    let sql =
        format!("SELECT count(*) FROM generate_series(1, 100000000{n}) a, generate_series(1, 1000000) b");
    status(&stage.hostile.api, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await
}

async fn heavy(stage: Arc<Stage>, n: usize) -> u16 {
    let headers: serde_json::Map<_, _> =
        (0..16).map(|h| (format!("x-heavy-{h}"), "v".repeat(8_000).into())).collect();
    let job = json!({ "url": format!("http://nowhere{n}.invalid/"), "options": { "headers": headers } });
    status(&stage.hostile.api, "/api/v1/jobs", &job).await
}

async fn lists(stage: Arc<Stage>) -> String {
    for n in 0..200 {
        heavy(stage.clone(), n).await;
    }
    async fn list(stage: Arc<Stage>, _: usize) -> u16 {
        let raw = stage.hostile.api.get_raw("/api/v1/jobs?limit=200").await;
        raw.map_or(0, |(status, _)| status.as_u16())
    }
    flood(stage, 40, list).await
}

async fn bases(stage: Arc<Stage>) -> String {
    let attributes = json!([{ "name": "links", "type": "url[]", "xpaths": ["//a/@href"] }]);
    let schemas = json!({ "schemas": [{ "pageType": "article", "attributes": attributes }] });
    for n in 0..8 {
        let request = Request::SchemaImport { domain: Some(format!("a{n}.test")), json: schemas.to_string() };
        admin::call(&stage.process.socket(), &request).await.expect("the schema is imported");
    }
    async fn one(stage: Arc<Stage>, n: usize) -> u16 {
        let url = stage.page(&format!("a{}", n % 8), &format!("/base/{n}"));
        let job = json!({ "url": url, "pageType": "article" });
        let status = status(&stage.hostile.api, "/api/v1/jobs", &job).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        status
    }
    flood(stage, 4, one).await
}

async fn batch(client: &Client, urls: Vec<String>, options: Value) {
    for urls in urls.chunks(1_000) {
        let jobs: Vec<_> = urls.iter().map(|url| json!({ "url": url, "options": options })).collect();
        expect(post(client, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    }
}

async fn site(stage: Arc<Stage>) -> String {
    batch(
        &stage.hostile.api,
        (0..120).map(|n| stage.page("b1", &format!("/second/h{n}"))).collect(),
        json!({}),
    )
    .await;
    "120 jobs".to_owned()
}

async fn silent(stage: Arc<Stage>) -> String {
    let urls = (0..1_000).map(|n| stage.page(&format!("a{}", n % 200), &format!("/silent/{n}")));
    batch(&stage.hostile.api, urls.collect(), json!({ "timeoutMs": 10_000 })).await;
    "1,000 jobs".to_owned()
}

async fn domains(stage: Arc<Stage>) -> String {
    let client = &stage.hostile.api;
    let own = expect(get(client, "/api/v1/providers").await, 200);
    let own = format!("/api/v1/providers/{}", text(&own["items"][0], "id"));
    client.delete(&own).await.expect("an answer");
    let provider = json!({
        "adapter": "scrapingbee", "name": "Simulated", "baseUrl": stage.simulator.url(),
        "credentials": { "apiKey": "good-key" },
    });
    expect(post(client, "/api/v1/providers", &provider).await, 201);
    batch(client, (0..40_000).map(|n| format!("http://hang.d{n}.test/")).collect(), json!({})).await;
    while !stage.is_over() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    format!("40,000 jobs, {} asked for", stage.simulator.asked())
}

async fn redirect(stage: Arc<Stage>) -> String {
    // The neighbour's site has a path that leads wherever it is told, as many sites have.
    let mut asked = 0;
    while !stage.is_over() {
        let url = stage.page("b1", &format!("/away/{asked}"));
        asked += u32::from(status(&stage.hostile.api, "/api/v1/jobs", &json!({ "url": url })).await == 201);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    format!("{asked} jobs")
}

async fn probes(stage: Arc<Stage>) -> String {
    async fn one(stage: Arc<Stage>, n: usize) -> u16 {
        let own = expect(get(&stage.hostile.api, "/api/v1/providers").await, 200);
        let path = format!("/api/v1/providers/{}/test", text(&own["items"][0], "id"));
        status(&stage.hostile.api, &path, &json!({ "url": stage.page("b1", &format!("/half/h{n}")) })).await
    }
    flood(stage, 26, one).await
}

async fn connections(stage: Arc<Stage>) -> String {
    let address = stage.process.url.trim_start_matches("http://").to_owned();
    let (mut open, mut opened) = (Vec::new(), 0u32);
    while !stage.is_over() {
        open.retain(|stream: &TcpStream| {
            let mut byte = [0];
            // A closed one says so at once; one that waits would block.
            !matches!(stream.try_read(&mut byte), Ok(0))
                && !matches!(stream.try_read(&mut byte), Err(e) if e.kind() != std::io::ErrorKind::WouldBlock)
        });
        while open.len() < 1_000 {
            let connecting = TcpStream::connect(&address);
            let Ok(Ok(mut stream)) = tokio::time::timeout(Duration::from_millis(200), connecting).await
            else {
                break;
            };
            if stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-").await.is_ok() {
                open.push(stream);
                opened += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    format!("{opened} connections, {} of them open in the end", open.len())
}

async fn bodies(stage: Arc<Stage>) -> String {
    let mut all = JoinSet::new();
    for _ in 0..10 {
        all.spawn(unfinished(stage.clone()));
    }
    let mut sum = 0;
    while let Some(sent) = all.join_next().await {
        sum += sent.expect("a stranger");
    }
    format!("{} MiB sent", sum >> 20)
}

/// One connection whose streams send all but the end of a body; gives the bytes that it could send.
async fn unfinished(stage: Arc<Stage>) -> usize {
    let address = stage.process.url.trim_start_matches("http://").to_owned();
    let mut bytes = 0;
    while !stage.is_over() {
        let Ok(stream) = TcpStream::connect(&address).await else { continue };
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let Ok((mut sender, connection)) = handshake else { continue };
        let connection = tokio::spawn(connection);
        let mut streams = JoinSet::new();
        for _ in 0..250 {
            let (feed, body) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
            let body = StreamBody::new(futures::stream::unfold(body, |mut body| async {
                body.recv().await.map(|frame| (frame, body))
            }));
            let request = http::Request::builder()
                .method(Method::POST)
                .uri(format!("{}/api/v1/auth/login", stage.process.url))
                .header("content-type", "application/json")
                .body(Box::pin(body))
                .expect("a request");
            if sender.ready().await.is_err() {
                break;
            }
            let answer = sender.send_request(request);
            let stage = stage.clone();
            streams.spawn(async move {
                let sending = async {
                    let mut sent = 0;
                    for _ in 0..60 {
                        let chunk = Bytes::from(vec![b' '; 16 << 10]);
                        if feed.send(Ok(Frame::data(chunk))).await.is_err() {
                            break;
                        }
                        sent += 16 << 10;
                    }
                    while !stage.is_over() && !feed.is_closed() {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    sent
                };
                tokio::select! {
                    sent = sending => sent,
                    _ = answer => 0,
                }
            });
        }
        let limit = tokio::time::sleep(Duration::from_secs(20));
        tokio::pin!(limit);
        loop {
            tokio::select! {
                sent = streams.join_next() => match sent {
                    Some(sent) => bytes += sent.unwrap_or_default(),
                    None => break,
                },
                () = &mut limit => break,
            }
        }
        connection.abort();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bytes
}
