//! What a hostile organization, or strangers without a credential, do to a box. All go on until the measuring is over, with a
//! bounded number of requests under way.

use crate::aim::{Answers, Outcome, answer, label};
use crate::streams::streams;
use crate::{SLOTS, Stage, strangers};
use harness::Request;
use harness::{Member, expect, get, member, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

type Done = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// How long a preparation may take.
pub const PREPARED_WITHIN: Duration = Duration::from_secs(180);
/// Jobs that wait, each at a domain of its own.
const DOMAINS: usize = 40_000;
/// How full the organization is before the attack on its quota is measured, in parts of a hundred.
const FILLED_PERCENT: u64 = 99;
/// So large is a page of a list that ends by the bytes of its rows and not by their number.
const HEAVY_PAGE_BYTES: usize = 300_000;

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
    /// Is measured from when it says that it is prepared, or ends.
    pub begin: fn(Arc<Stage>) -> Done,
}

pub static ALL: &[Attack] = &[
    Attack {
        name: "calm",
        what: "nobody else",
        work: Work::Trickle,
        begin: |_| Box::pin(async { Outcome::did("nothing") }),
    },
    Attack {
        name: "tags",
        what: "jobs with 60,000 distinct tags, four at a time (7)",
        work: Work::Trickle,
        begin: |stage| Box::pin(tags(stage)),
    },
    Attack {
        name: "bodies",
        what: "strangers: 10 HTTP/2 connections with 250 bodies each that never end (8)",
        work: Work::Trickle,
        begin: |stage| Box::pin(strangers::bodies(stage)),
    },
    Attack {
        name: "connections",
        what: "strangers: 1,000 connections that say nothing, opened again when they are closed (8)",
        work: Work::Trickle,
        begin: |stage| Box::pin(strangers::connections(stage)),
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
        what: "jobs at sites that never answer hold all slots; the neighbour has 64 of half a second (13)",
        work: Work::Heap {
            jobs: 64,
            path: "/half",
            fair: |n| Duration::from_millis(500) * (n / (SLOTS / 2)) as u32,
        },
        begin: |stage| Box::pin(silent(stage)),
    },
    Attack {
        name: "hoarders",
        what: "the same by two organizations, one after the other (13)",
        work: Work::Heap {
            jobs: 64,
            path: "/half",
            fair: |n| Duration::from_millis(500) * 3 * n as u32 / SLOTS as u32,
        },
        begin: |stage| Box::pin(hoarders(stage)),
    },
    Attack {
        name: "domains",
        what: "40,000 jobs in the queue, each at a domain of its own, at a provider that never answers (13)",
        work: Work::Trickle,
        begin: |stage| Box::pin(domains(stage)),
    },
    Attack {
        name: "statements",
        what: "SQL statements that take their whole time, as many as may wait (14)",
        work: Work::Trickle,
        begin: |stage| Box::pin(statements(stage)),
    },
    Attack {
        name: "storage",
        what: "jobs with 32 KB of headers and metadata that fail, eight at a time, until the quota and beyond (15)",
        work: Work::Trickle,
        begin: |stage| Box::pin(storage(stage)),
    },
    Attack {
        name: "lists",
        what: "pages of 200 such jobs, 40 at a time (15)",
        work: Work::Trickle,
        begin: |stage| Box::pin(lists(stage)),
    },
    Attack {
        name: "streams",
        what: "200 streams of events at a time that are told a whole log and take nothing of it",
        work: Work::Trickle,
        begin: |stage| Box::pin(streams(stage)),
    },
];

/// One request after the other in so many hands, until it is over; gives what was answered how often.
async fn flood<F: Future<Output = String> + Send + 'static>(
    stage: Arc<Stage>,
    hands: usize,
    one: fn(Arc<Stage>, usize) -> F,
) -> Answers {
    let mut all = JoinSet::new();
    for hand in 0..hands {
        let stage = stage.clone();
        all.spawn(async move {
            let mut answers = Answers::default();
            for n in 0.. {
                if stage.is_over() {
                    break;
                }
                let answer = one(stage.clone(), n * hands + hand).await;
                if ["402", "409", "429", "503", "none"].iter().any(|status| answer.starts_with(status)) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answers.add(answer);
            }
            answers
        });
    }
    let mut sum = Answers::default();
    while let Some(answers) = all.join_next().await {
        sum.extend(answers.expect("a hand"));
    }
    sum
}

async fn tags(stage: Arc<Stage>) -> Outcome {
    async fn one(stage: Arc<Stage>, n: usize) -> String {
        let tags: Vec<_> = (0..60_000).map(|tag| format!("tag{tag}")).collect();
        let job = json!({ "url": stage.page("a1", &format!("/quick/{n}")), "tags": tags });
        answer(&stage.hostile.api, "/api/v1/jobs", &job).await
    }
    stage.prepared();
    flood(stage, 4, one).await.meant(&["400 Validation failed"])
}

async fn statements(stage: Arc<Stage>) -> Outcome {
    async fn one(stage: Arc<Stage>, n: usize) -> String {
        // Row by row, in little memory: what takes much of that is ended at once.
        let hashed =
            (0..24).fold(format!("(a.n + {n})::text"), |inner, _| format!("md5(repeat({inner}, 20))"));
        let sql = format!("SELECT count(*) FROM generate_series(1, 1000000) a(n) WHERE {hashed} = 'x'");
        let asked = json!({ "sql": sql, "waitMs": 10_000 });
        let reply = stage.hostile.api.post("/api/v1/bi/queries", &asked).await;
        let ended = reply.as_ref().ok().and_then(|reply| reply.json["error"]["code"].as_str());
        let takes_all = ended == Some("statement_timeout") || reply.as_ref().is_ok_and(|it| it.status == 202);
        if takes_all { "all its time".to_owned() } else { label(reply) }
    }
    // Ended by the limit or under way still after ten seconds, or one too many in the line: none is done, and none refused for
    // what it says.
    stage.prepared();
    flood(stage, 13, one).await.meant(&["all its time", "429"])
}

/// A job that weighs as much as one may. Its page cannot be had: at that port nothing may be visited.
fn heavy(n: usize) -> Value {
    let filler = |bytes: usize| "v".repeat(bytes);
    let headers: serde_json::Map<_, _> =
        (0..4).map(|h| (format!("x-heavy-{h}"), filler(4_000).into())).collect();
    json!({
        "url": format!("http://a{}.test:1/{n}", n % 200),
        "options": { "headers": headers },
        "metadata": { "padding": filler(16_000) },
    })
}

async fn submit_heavy(stage: Arc<Stage>, n: usize) -> String {
    answer(&stage.hostile.api, "/api/v1/jobs", &heavy(n)).await
}

async fn storage(stage: Arc<Stage>) -> Outcome {
    // The smallest plan that there is, with credits that last.
    let org = stage.hostile.org_id.clone();
    stage.operator(Request::OrgPlan { org: org.clone(), plan: "trial".to_owned() }).await;
    stage.operator(Request::CreditsGrant { org, amount: 1_000_000, note: None }).await;
    let (mut filled, mut is_refused) = (0, false);
    while !is_refused {
        let plan = expect(get(&stage.hostile.api, "/api/v1/plans/current").await, 200);
        let bytes = |value: &Value| value["storageBytes"].as_u64().expect("bytes");
        filled = filled.max(bytes(&plan["stored"]));
        if filled * 100 >= bytes(&plan["plan"]["limits"]) * FILLED_PERCENT {
            break;
        }
        let mut all = JoinSet::new();
        for _ in 0..8 {
            let stage = stage.clone();
            all.spawn(async move {
                let jobs: Vec<_> = (0..30).map(heavy).collect();
                post(&stage.hostile.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await
            });
        }
        while let Some(done) = all.join_next().await {
            // The last batch may be one too many already.
            let reply = done.expect("an answer");
            is_refused |= reply.status == 402;
            assert!(reply.status == 201 || reply.status == 402, "{}", reply.text());
        }
    }
    stage.prepared();
    let mut outcome = flood(stage, 8, submit_heavy).await.meant(&["201", "402 QUOTA_EXCEEDED"]);
    outcome.did = format!("{} MB stored before; {}", filled / 1_000_000, outcome.did);
    outcome
}

async fn lists(stage: Arc<Stage>) -> Outcome {
    for batch in 0..8 {
        let jobs: Vec<_> = (0..30).map(|n| heavy(batch * 30 + n)).collect();
        expect(post(&stage.hostile.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    }
    stage.prepared();
    async fn list(stage: Arc<Stage>, _: usize) -> String {
        match stage.hostile.api.get_raw("/api/v1/jobs?limit=200").await {
            Ok((status, bytes)) if bytes.len() >= HEAVY_PAGE_BYTES => {
                format!("{} a heavy page", status.as_u16())
            }
            Ok((status, _)) => format!("{} a light page", status.as_u16()),
            Err(_) => "none".to_owned(),
        }
    }
    flood(stage, 40, list).await.meant(&["200 a heavy page"])
}

async fn bases(stage: Arc<Stage>) -> Outcome {
    let attributes = json!([{ "name": "links", "type": "url[]", "xpaths": ["//a/@href"] }]);
    let schemas = json!({ "schemas": [{ "pageType": "article", "attributes": attributes }] });
    for n in 0..8 {
        let domain = Some(format!("a{n}.test"));
        stage.operator(Request::SchemaImport { domain, json: schemas.to_string() }).await;
    }
    stage.prepared();
    async fn one(stage: Arc<Stage>, n: usize) -> String {
        let url = stage.page(&format!("a{}", n % 8), &format!("/base/{n}"));
        let job = json!({ "url": url, "pageType": "article" });
        let answer = answer(&stage.hostile.api, "/api/v1/jobs", &job).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        answer
    }
    let answers = flood(stage.clone(), 4, one).await;
    let visits = stage.visits("/base/");
    let ended = expect(get(&stage.hostile.api, "/api/v1/jobs?status=succeeded&limit=200").await, 200);
    let ended = ended["items"].as_array().map_or(0, Vec::len);
    let mut outcome =
        answers.meant(&["201"]).must(ended >= 8, "fewer than 8 such pages were read to their end");
    outcome.did = format!("{}; {visits} visits, {ended} jobs succeeded", outcome.did);
    outcome
}

async fn batch(client: &Client, urls: Vec<String>, options: Value) {
    for urls in urls.chunks(1_000) {
        let jobs: Vec<_> = urls.iter().map(|url| json!({ "url": url, "options": options })).collect();
        expect(post(client, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    }
}

async fn site(stage: Arc<Stage>) -> Outcome {
    let urls = (0..120).map(|n| stage.page("b1", &format!("/second/h{n}")));
    batch(&stage.hostile.api, urls.collect(), json!({})).await;
    stage.prepared();
    stage.until_over().await;
    let visits = stage.visits("/second/h");
    Outcome::did(format!("{visits} visits"))
        .must(visits > 2, "its jobs took no turns")
        .must(visits < 120, "its jobs were over before the neighbour's")
}

/// Jobs of a member that never end while they are measured, until so many pages are asked for in all.
async fn hold_slots(stage: &Stage, by: &Member, visits: usize) {
    let urls = (0..400).map(|n| stage.page(&format!("a{}", n % 200), &format!("/silent/{n}")));
    batch(&by.api, urls.collect(), json!({ "timeoutMs": 60_000 })).await;
    stage.until_visited("/silent/", visits).await;
}

async fn silent(stage: Arc<Stage>) -> Outcome {
    hold_slots(&stage, &stage.hostile, SLOTS).await;
    held(stage, SLOTS).await
}

async fn hoarders(stage: Arc<Stage>) -> Outcome {
    hold_slots(&stage, &stage.hostile, SLOTS).await;
    let other = member(&stage.process.client(), &stage.process.socket(), "other").await;
    hold_slots(&stage, &other, SLOTS + SLOTS / 2).await;
    held(stage, SLOTS + SLOTS / 2).await
}

async fn held(stage: Arc<Stage>, slots: usize) -> Outcome {
    let before = stage.visits("/silent/");
    stage.prepared();
    stage.until_over().await;
    let after = stage.visits("/silent/");
    Outcome::did(format!("{before} pages that never answer, {after} in the end"))
        .must(before >= slots, format!("fewer than {slots} slots were held"))
}

async fn domains(stage: Arc<Stage>) -> Outcome {
    let client = &stage.hostile.api;
    let own = expect(get(client, "/api/v1/providers").await, 200);
    let own = format!("/api/v1/providers/{}", text(&own["items"][0], "id"));
    client.delete(&own).await.expect("an answer");
    let provider = json!({
        "adapter": "scrapingbee", "name": "Simulated", "baseUrl": stage.simulator.url(),
        "credentials": { "apiKey": "good-key" },
    });
    expect(post(client, "/api/v1/providers", &provider).await, 201);
    batch(client, (0..DOMAINS).map(|n| format!("http://hang.d{n}.test/")).collect(), json!({})).await;
    stage.prepared();
    stage.until_over().await;
    let asked = stage.simulator.asked();
    Outcome::did(format!("{DOMAINS} jobs, {asked} asked for"))
        .must(asked >= SLOTS / 2, "the provider was hardly asked")
        .must(asked < DOMAINS / 2, "most of its jobs did not wait")
}

async fn redirect(stage: Arc<Stage>) -> Outcome {
    // The neighbour's site has a path that leads wherever it is told, as many sites have.
    async fn one(stage: Arc<Stage>, n: usize) -> String {
        let job = json!({ "url": stage.page("b1", &format!("/away/{n}")) });
        let answer = answer(&stage.hostile.api, "/api/v1/jobs", &job).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        answer
    }
    stage.prepared();
    let answers = flood(stage.clone(), 1, one).await;
    let (away, rest) = (stage.visits("/away/"), stage.visits("/rest"));
    let mut outcome = answers.meant(&["201"]).must(rest > 0, "nobody was led to the host that wants to rest");
    outcome.did = format!("{}; {away} led away, {rest} of them told to rest", outcome.did);
    outcome
}

async fn probes(stage: Arc<Stage>) -> Outcome {
    async fn one(stage: Arc<Stage>, n: usize) -> String {
        let own = expect(get(&stage.hostile.api, "/api/v1/providers").await, 200);
        let path = format!("/api/v1/providers/{}/test", text(&own["items"][0], "id"));
        let place = json!({ "url": stage.page("b1", &format!("/half/h{n}")) });
        answer(&stage.hostile.api, &path, &place).await
    }
    stage.prepared();
    let answers = flood(stage.clone(), 26, one).await;
    let visits = stage.visits("/half/h");
    let mut outcome = answers.meant(&["200", "429"]).must(visits > 0, "no test visited the site");
    outcome.did = format!("{}; {visits} visits", outcome.did);
    outcome
}
