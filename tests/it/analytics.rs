//! Analytics through HTTP: getAnalyticsOverview, getAnalyticsTimeseries, getAnalyticsProviders, getAnalyticsDomains,
//! getAnalyticsCredits, getAnalyticsQuality. Every number is held against what the SQL console says.

use crate::harness::collected::{CollectedJob, fill};
use crate::harness::web::{Answer, Web};
use crate::harness::{
    Appliance, Member, Request, collect, ended, eventually, expect, get, post, refused, text,
};
use gleaner::features::bi::{KillSwitchOrder, KillTarget};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const ROOT: &str = "/api/v1/analytics";
const EVERY: [&str; 6] =
    ["overview", "timeseries?metric=jobs", "providers", "domains", "credits", "quality?groupBy=attribute"];

async fn asked(client: &Client, question: &str) -> Value {
    expect(get(client, &format!("{ROOT}/{question}")).await, 200)
}

/// The rows of a statement of the console.
async fn rows(client: &Client, sql: &str) -> Vec<Value> {
    let asked = json!({ "sql": sql, "waitMs": 10_000 });
    let answer = expect(post(client, "/api/v1/bi/queries", &asked).await, 200);
    assert_eq!(answer["status"], "success", "{answer}");
    assert_eq!(answer["results"]["hasMore"], false);
    answer["results"]["rows"].as_array().unwrap().clone()
}

async fn row(client: &Client, sql: &str) -> Value {
    let rows = rows(client, sql).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

/// Whether two numbers are one, but for the last digits of a mean; nothing is like nothing only.
fn like(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() < 2e-6,
        (None, None) => one == other,
        _ => false,
    }
}

/// The members of an answer that a row of the console has, under their names there.
fn agree(answer: &Value, row: &Value, names: &[(&str, &str)]) {
    for (field, column) in names {
        let (one, other) = (answer.pointer(&format!("/{field}")).unwrap(), &row[column]);
        assert!(like(one, other), "{field}: {one} and {other} in {answer} and {row}");
    }
}

/// A box whose organization has collected so many jobs, `step_ms` apart from `begin_ms` on.
async fn filled(
    at: &mut Appliance,
    person: &Member,
    begin_ms: i64,
    step_ms: i64,
    count: u64,
) -> Vec<CollectedJob> {
    eventually("the console knows the organization", Duration::from_secs(30), || async {
        (!rows(&person.api, "SELECT id FROM providers").await.is_empty()).then_some(())
    })
    .await;
    at.pause().await;
    let jobs: Vec<_> = (0..count).map(|n| CollectedJob::new(n, begin_ms + n as i64 * step_ms, 12)).collect();
    fill(&at.data_dir().join("snapshots"), person.org_id.parse().unwrap(), jobs.iter().cloned());
    at.restart().await;
    jobs
}

fn millis(time: &str) -> i64 {
    time.parse::<base::clock::Timestamp>().unwrap().millis()
}

/// A shop, one page of which is not there.
async fn shop() -> Web {
    Web::open(|path| {
        let number: u32 = path.strip_prefix("/item/")?.parse().ok()?;
        let price = if number == 3 { String::new() } else { format!("<b>{number}.50 €</b>") };
        Some(Answer::html(format!("<h1>Item {number}</h1>{price}")))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_collected_is_what_is_counted() {
    let web = shop().await;
    let allow = web.allow();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow), ("DISPATCH__ROBOTS", "false")]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let attribute =
        |name: &str, xpath: &str, kind: &str| json!({ "name": name, "xpaths": [xpath], "type": kind });
    let schema = json!({ "schemas": [{ "pageType": "product", "attributes": [
        attribute("title", "//h1", "text"), attribute("price", "//b", "number"),
    ]}]});
    let order = Request::SchemaImport { json: schema.to_string(), domain: Some("127.0.0.1".to_owned()) };
    at.operator(order).await;
    for item in 1..=4 {
        let job =
            json!({ "url": web.url(&format!("/item/{item}")), "pageType": "product", "tags": ["spring"] });
        let job = expect(post(&ada.api, "/api/v1/jobs", &job).await, 201);
        assert_eq!(ended(&ada.api, text(&job, "id")).await["status"], "succeeded");
    }
    let gone = collect(&ada.api, &web.url("/gone")).await;
    assert_eq!(gone["status"], "failed", "{gone}");
    // Somebody else's are nobody's business.
    for item in 1..=3 {
        collect(&eve.api, &web.url(&format!("/item/{item}"))).await;
    }
    eventually("analytics has the jobs", Duration::from_secs(30), || async {
        let totals = asked(&ada.api, "overview").await["totals"].clone();
        let theirs = asked(&eve.api, "overview").await["totals"]["byStatus"]["succeeded"].clone();
        let is_mine = totals["jobs"] == 5 && totals["byStatus"]["failed"] == 1 && totals["results"] == 4;
        (is_mine && theirs == 3).then_some(())
    })
    .await;

    let overview = asked(&ada.api, "overview").await;
    let totals = &overview["totals"];
    assert_eq!(
        totals["byStatus"],
        json!({ "queued": 0, "running": 0, "succeeded": 4, "failed": 1, "canceled": 0 })
    );
    assert_eq!(
        (&totals["successRate"], &totals["urls"], &totals["domains"]),
        (&json!(0.8), &json!(5), &json!(1))
    );
    assert_eq!((&totals["attempts"], &totals["changed"]), (&json!(5), &json!(0)));
    assert!(
        totals["latencyP50Ms"].as_f64() <= totals["latencyP95Ms"].as_f64()
            && totals["bytes"].as_u64() > Some(100)
    );
    assert_eq!((&overview["previous"]["jobs"], &overview["change"]["jobs"]), (&json!(0), &Value::Null));
    let tagged = asked(&ada.api, "overview?tag=spring").await;
    assert_eq!((&tagged["totals"]["jobs"], &tagged["totals"]["results"]), (&json!(4), &Value::Null));
    assert_eq!(asked(&ada.api, "overview?tag=sprin").await["totals"]["jobs"], 0);
    assert_eq!(asked(&ada.api, "overview?domain=127.0.0.1").await["totals"]["jobs"], 5);
    assert_eq!(asked(&ada.api, "overview?domain=other.example").await["totals"]["jobs"], 0);
    let products = asked(&ada.api, "overview?pageType=product").await;
    assert_eq!((&products["totals"]["jobs"], &products["totals"]["attempts"]), (&json!(4), &json!(4)));

    // The jobs themselves and the plan say the same.
    let jobs = expect(get(&ada.api, "/api/v1/jobs").await, 200);
    let jobs = jobs["items"].as_array().unwrap();
    let charged: u64 = jobs.iter().map(|job| job["creditsCharged"].as_u64().unwrap()).sum();
    let plan = expect(get(&ada.api, "/api/v1/plans/current").await, 200);
    let credits = asked(&ada.api, "credits").await;
    assert!(charged > 0);
    assert_eq!((&totals["credits"], &plan["usedThisPeriod"]), (&json!(charged), &json!(charged)));
    assert_eq!(
        (&credits["totals"]["used"], &credits["totals"]["granted"]),
        (&json!(charged), &json!(1_000_000))
    );
    let provider = jobs[0]["attempts"][0]["providerId"].as_str().unwrap();
    for (by, key) in [("provider", provider), ("domain", "127.0.0.1")] {
        let items = &asked(&ada.api, &format!("credits?groupBy={by}")).await["items"];
        assert_eq!(items.as_array().unwrap().len(), 1);
        assert_eq!((&items[0]["key"], &items[0]["credits"]), (&json!(key), &json!(charged)), "{by}");
    }
    let direct = &asked(&ada.api, "providers").await["items"][0];
    assert_eq!((text(direct, "providerId"), text(direct, "adapter")), (provider, "direct"));
    let counts =
        ["attempts", "succeeded", "targetErrors", "blocked", "credits"].map(|field| direct[field].clone());
    assert_eq!(counts, [json!(5), json!(4), json!(1), json!(0), json!(charged)]);
    assert_eq!((&direct["successRate"], &direct["blockRate"]), (&json!(1.0), &json!(0.0)));

    let quality = asked(&ada.api, "quality").await["items"].clone();
    let products = quality.as_array().unwrap().iter().find(|item| item["pageType"] == "product").unwrap();
    assert_eq!(
        (&products["results"], &products["scored"], &products["completeness"]),
        (&json!(4), &json!(4), &json!(0.875))
    );
    let coverage = asked(&ada.api, "quality?groupBy=attribute").await["attributes"].clone();
    let coverage: Vec<_> = coverage
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (text(of, "attribute"), of["coverage"].as_f64()))
        .collect();
    assert_eq!(coverage, [("price", Some(0.75)), ("title", Some(1.0))]);
    let theirs = asked(&eve.api, "overview").await;
    assert_eq!(
        (&theirs["totals"]["jobs"], &theirs["totals"]["latencyP95Ms"].is_number()),
        (&json!(3), &true)
    );
    at.stop().await;
}

/// 2026-03-01T00:00:00Z, so that summer time begins in between (in Berlin on the 29th).
const MARCH_MS: i64 = 1_772_323_200_000;
const JOBS: u64 = 3_000;
/// 3,000 of them are some 45 days.
const STEP_MS: i64 = 1_296_000;
const PERIOD: &str = "from=2026-03-10T05:00:00Z&to=2026-04-09T07:30:00Z";
const WITHIN: &str = ">= '2026-03-10T05:00:00Z' AND";
const END: &str = "< '2026-04-09T07:30:00Z'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chart_and_analyst_agree() {
    let mut at = Appliance::start().await;
    let ada = at.member("ada").await;
    let jobs = filled(&mut at, &ada, MARCH_MS, STEP_MS, JOBS).await;
    let api = at.client().bearer(&ada.key);
    let (begin, end) = (millis("2026-03-10T05:00:00Z"), millis("2026-04-09T07:30:00Z"));
    let own: Vec<_> = jobs.iter().filter(|job| (begin..end).contains(&job.created_ms)).collect();

    let overview = asked(&api, &format!("overview?{PERIOD}")).await;
    let said = row(&api, &format!(
        "SELECT count(*) AS jobs, sum(credits_charged) AS credits, count(DISTINCT url) AS urls, \
         count(DISTINCT domain) AS domains, median(duration_ms) FILTER (WHERE status = 'succeeded') AS p50, \
         percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE status = 'succeeded') AS p95, \
         (SELECT count(*) FROM readings WHERE scraped_at {WITHIN} scraped_at {END}) AS results, \
         (SELECT avg(quality_composite) FROM readings WHERE scraped_at {WITHIN} scraped_at {END}) AS quality, \
         (SELECT sum(bytes) FROM job_attempts WHERE started_at {WITHIN} started_at {END}) AS bytes \
         FROM jobs WHERE created_at {WITHIN} created_at {END}"
    )).await;
    let names =
        ["jobs", "credits", "urls", "domains", "results", "quality", "bytes"].map(|name| (name, name));
    agree(&overview["totals"], &said, &names);
    agree(&overview["totals"], &said, &[("latencyP50Ms", "p50"), ("latencyP95Ms", "p95")]);
    // And what was put in.
    assert_eq!(overview["totals"]["jobs"], own.len());
    assert_eq!(overview["totals"]["credits"], own.iter().map(|job| job.charged()).sum::<i64>());
    let succeeded = own.iter().filter(|job| job.has_succeeded()).count();
    let failed = own.iter().filter(|job| job.status == "failed").count();
    assert_eq!(overview["totals"]["byStatus"]["succeeded"], succeeded);
    assert!(like(&overview["totals"]["successRate"], &json!(succeeded as f64 / (succeeded + failed) as f64)));
    let before = asked(&api, "overview?from=2026-02-08T02:30:00Z&to=2026-03-10T05:00:00Z").await;
    assert_eq!((&before["totals"], &before["period"]), (&overview["previous"], &overview["previousPeriod"]));
    let change = (own.len() as f64 - before["totals"]["jobs"].as_f64().unwrap())
        / before["totals"]["jobs"].as_f64().unwrap();
    assert!(like(&overview["change"]["jobs"], &json!(change)), "{}", overview["change"]);
    for tag in ["red", "a\"b, c", "all", ", c", ","] {
        let counted = jobs.iter().filter(|job| job.tag == tag || tag == "all");
        let counted = counted.filter(|job| (begin..end).contains(&job.created_ms)).count();
        let encoded: String = url::form_urlencoded::byte_serialize(tag.as_bytes()).collect();
        let tagged = asked(&api, &format!("overview?{PERIOD}&tag={encoded}")).await;
        assert_eq!(tagged["totals"]["jobs"], counted, "{tag}");
    }

    let providers = asked(&api, &format!("providers?{PERIOD}&domain=www.shop7.example")).await;
    let said = rows(&api, &format!(
        "SELECT provider_id, count(*) AS attempts, count(*) FILTER (WHERE outcome = 'blocked') AS blocked, \
         count(*) FILTER (WHERE outcome = 'success') AS succeeded, sum(credits) AS billed, sum(bytes) AS bytes, \
         percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE outcome = 'success') AS p95, \
         (SELECT sum(credits_charged) FROM jobs j WHERE j.provider_id = a.provider_id AND created_at {WITHIN} created_at {END} \
         AND domain = 'shop7.example') AS credits FROM job_attempts a WHERE started_at {WITHIN} started_at {END} \
         AND domain = 'shop7.example' GROUP BY provider_id ORDER BY 2 DESC, 1"
    )).await;
    let items = providers["items"].as_array().unwrap();
    assert!(items.len() == said.len() && items.len() == 5, "{items:?}");
    for (item, said) in items.iter().zip(&said) {
        assert_eq!((&item["providerId"], &item["name"]), (&said["provider_id"], &Value::Null));
        let names = ["attempts", "blocked", "succeeded", "billed", "bytes"].map(|name| (name, name));
        agree(item, said, &names);
        agree(item, said, &[("latencyP95Ms", "p95")]);
        assert_eq!(item["credits"].as_i64(), Some(said["credits"].as_i64().unwrap_or(0)));
    }
    credits_and_quality(&api, &own).await;
    at.stop().await;
}

async fn credits_and_quality(api: &Client, own: &[&CollectedJob]) {
    let zone = "timezone=America/New_York";
    let credits = asked(api, &format!("credits?{PERIOD}&{zone}&groupBy=week")).await;
    let said = row(api, &format!(
        "SELECT -sum(amount) AS used FROM credit_transactions WHERE kind <> 'grant' AND at {WITHIN} at {END}"
    )).await;
    agree(&credits["totals"], &said, &[("used", "used")]);
    let sum: i64 =
        credits["buckets"].as_array().unwrap().iter().map(|week| week["used"].as_i64().unwrap()).sum();
    assert_eq!(json!(sum), credits["totals"]["used"]);
    let weeks: Vec<_> = credits["buckets"].as_array().unwrap().iter().map(|week| text(week, "at")).collect();
    let mondays = ["2026-03-09", "2026-03-16", "2026-03-23", "2026-03-30", "2026-04-06"];
    assert_eq!(weeks, mondays.map(|monday| format!("{monday}T04:00:00.000Z")), "Mondays in New York");
    for by in ["domain", "provider"] {
        let items = asked(api, &format!("credits?{PERIOD}&groupBy={by}")).await;
        let column = if by == "domain" { "domain" } else { "provider_id" };
        let said = rows(api, &format!(
            "SELECT {column} AS key, sum(credits_charged) AS credits, count(*) AS jobs FROM jobs WHERE credits_charged > 0 \
             AND finished_at {WITHIN} finished_at {END} GROUP BY 1 ORDER BY 2 DESC, 1"
        )).await;
        let items = items["items"].as_array().unwrap();
        assert!(items.len() == said.len() && items.len() > 3);
        for (item, said) in items.iter().zip(&said) {
            assert_eq!(item["key"], said["key"]);
            agree(item, said, &[("credits", "credits"), ("jobs", "jobs")]);
        }
    }
    let quality = asked(api, &format!("quality?{PERIOD}&groupBy=pageType")).await["items"][0].clone();
    let said = row(api, &format!(
        "SELECT count(*) AS results, avg(quality_composite) AS composite, avg(quality_completeness) AS completeness, \
         sum(CASE WHEN changed = '[]' THEN 0 ELSE 1 END) AS changed FROM readings WHERE scraped_at {WITHIN} scraped_at {END}"
    )).await;
    agree(&quality, &said, &["results", "composite", "completeness", "changed"].map(|name| (name, name)));
    let coverage = asked(api, &format!("quality?{PERIOD}&groupBy=attribute&domain=shop3.example")).await;
    let there = own.iter().filter(|job| job.has_succeeded() && job.domain == "shop3.example");
    let (all, priced) =
        there.fold((0, 0), |(all, priced), job| (all + 1, priced + u32::from(job.page % 4 != 0)));
    let price = &coverage["attributes"][0];
    assert_eq!(
        (text(price, "attribute"), &price["results"], &price["found"]),
        ("price", &json!(all), &json!(priced))
    );
    assert!(like(&price["coverage"], &json!(f64::from(priced) / f64::from(all))), "{price}");
    assert!(price["previousCoverage"].is_number());

    // Domains come in pages that together are what the console lists.
    let said = rows(api, &format!(
        "SELECT domain, count(*) AS jobs, max(r.n) AS results, percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) \
         FILTER (WHERE status = 'succeeded') AS p95 FROM jobs LEFT JOIN (SELECT domain AS d, count(*) AS n FROM readings \
         WHERE scraped_at {WITHIN} scraped_at {END} GROUP BY domain) r ON d = domain \
         WHERE created_at {WITHIN} created_at {END} GROUP BY domain ORDER BY p95, domain"
    )).await;
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = asked(api, &format!("domains?{PERIOD}&sort=latencyP95&order=asc&limit=5{cursor}")).await;
        assert_eq!(page["total"], said.len());
        all.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(all.len(), said.len());
    for (item, said) in all.iter().zip(&said) {
        assert_eq!(item["domain"], said["domain"]);
        agree(item, said, &[("jobs", "jobs"), ("results", "results"), ("latencyP95Ms", "p95")]);
    }
}

/// Each metric in each interval over the beginning of summer time, against the console's own arithmetic of zones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_follow_clocks_and_calendars() {
    let mut at = Appliance::start().await;
    let ada = at.member("ada").await;
    let jobs = filled(&mut at, &ada, MARCH_MS, STEP_MS, JOBS).await;
    let api = at.client().bearer(&ada.key);
    let rate = "avg(CASE WHEN status = 'succeeded' THEN 1.0::float8 ELSE 0.0::float8 END)";
    let p95 = "percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms)";
    for (metric, interval, zone, table, time, value, only) in [
        ("jobs", "day", "Europe/Berlin", "jobs", "created_at", "count(*)", "true"),
        ("jobs", "hour", "Europe/Berlin", "jobs", "created_at", "count(*)", "true"),
        ("succeeded", "day", "America/New_York", "jobs", "created_at", "count(*)", "status = 'succeeded'"),
        ("failed", "week", "Europe/Berlin", "jobs", "created_at", "count(*)", "status = 'failed'"),
        (
            "successRate",
            "month",
            "Asia/Kathmandu",
            "jobs",
            "created_at",
            rate,
            "status IN ('succeeded', 'failed')",
        ),
        ("credits", "week", "America/New_York", "jobs", "created_at", "sum(credits_charged)", "true"),
        ("latencyP50", "day", "UTC", "jobs", "created_at", "median(duration_ms)", "status = 'succeeded'"),
        ("latencyP95", "day", "Europe/Berlin", "jobs", "created_at", p95, "status = 'succeeded'"),
        ("results", "day", "Europe/Berlin", "readings", "scraped_at", "count(*)", "true"),
        ("changed", "month", "Europe/Berlin", "readings", "scraped_at", "count(*)", "changed <> '[]'"),
        ("quality", "day", "Europe/Berlin", "readings", "scraped_at", "avg(quality_composite)", "true"),
        ("attempts", "day", "Australia/Lord_Howe", "job_attempts", "started_at", "count(*)", "true"),
        ("blocked", "day", "Europe/Berlin", "job_attempts", "started_at", "count(*)", "outcome = 'blocked'"),
        ("bytes", "week", "Europe/Berlin", "job_attempts", "started_at", "sum(bytes)", "true"),
    ] {
        let question = format!("timeseries?metric={metric}&interval={interval}&timezone={zone}&{PERIOD}");
        let answer = asked(&api, &question).await;
        let points = answer["points"].as_array().unwrap();
        let utc = "AT TIME ZONE 'UTC' AT TIME ZONE";
        // An hour of clocks that comes twice is two: so hours are of points in time here, whose minutes are the zone's.
        let cut = match interval {
            "hour" => format!("date_trunc('hour', {time})"),
            _ => format!("(date_trunc('{interval}', {time} {utc} '{zone}')) AT TIME ZONE '{zone}'"),
        };
        let said = rows(&api, &format!(
            "SELECT {cut} AS at, {value} AS value FROM {table} WHERE {time} {WITHIN} {time} {END} AND {only} \
             GROUP BY 1 ORDER BY 1 LIMIT 200"
        )).await;
        let filled: Vec<&Value> = points.iter().filter(|point| point["count"] != 0).take(200).collect();
        assert_eq!(filled.len(), said.len(), "{question}");
        for (point, said) in filled.iter().zip(&said) {
            assert_eq!(point["at"], said["at"], "{question}");
            assert!(like(&point["value"], &said["value"]), "{question}: {point} {said}");
        }
        for pair in points.windows(2) {
            assert_eq!(pair[0]["endsAt"], pair[1]["at"]);
        }
    }
    let days = |zone: &str, period: &str| format!("timeseries?metric=jobs&timezone={zone}&{period}");
    let spring = asked(&api, &days("Europe/Berlin", "from=2026-03-28&to=2026-03-31")).await;
    let spans = |answer: &Value| -> Vec<(String, u64)> {
        let points = answer["points"].as_array().unwrap().iter();
        points.map(|point| (text(point, "at").to_owned(), point["count"].as_u64().unwrap())).collect()
    };
    let of = |from: &str, to: &str| {
        jobs.iter().filter(|job| (millis(from)..millis(to)).contains(&job.created_ms)).count() as u64
    };
    let [first, short, last, end] = [
        "2026-03-27T23:00:00.000Z",
        "2026-03-28T23:00:00.000Z",
        "2026-03-29T22:00:00.000Z",
        "2026-03-30T22:00:00.000Z",
    ];
    let expected = [(first, of(first, short)), (short, of(short, last)), (last, of(last, end))];
    assert_eq!(spans(&spring), expected.map(|(at, count)| (at.to_owned(), count)), "a day of 23 hours");
    // New York's autumn: a day of 25 hours, and nothing in it.
    let autumn = asked(&api, &days("America/New_York", "from=2026-10-31&to=2026-11-03")).await;
    let empty = ["2026-10-31T04", "2026-11-01T04", "2026-11-02T05"].map(|at| (format!("{at}:00:00.000Z"), 0));
    assert_eq!(spans(&autumn), empty);
    assert!(autumn["points"].as_array().unwrap().iter().all(|point| point["value"] == 0.0));
    let rates = asked(&api, "timeseries?metric=successRate&from=2026-10-31&to=2026-11-03").await;
    assert!(rates["points"].as_array().unwrap().iter().all(|point| point["value"].is_null()));
    let of_provider = format!("timeseries?metric=jobs&{PERIOD}&providerId={}", jobs[0].provider);
    let counted: u64 = spans(&asked(&api, &of_provider).await).iter().map(|(_, count)| count).sum();
    let (begin, end) = (millis("2026-03-10T05:00:00Z"), millis("2026-04-09T07:30:00Z"));
    let theirs = jobs.iter().filter(|job| job.has_succeeded() && job.provider == jobs[0].provider);
    assert_eq!(counted, theirs.filter(|job| (begin..end).contains(&job.created_ms)).count() as u64);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_organization_without_anything_has_zeros() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let overview = asked(&ada.api, "overview").await;
    let totals = &overview["totals"];
    for field in ["jobs", "credits", "urls", "domains", "results", "changed", "attempts", "bytes"] {
        assert_eq!(totals[field], 0, "{field}");
    }
    for field in ["successRate", "latencyP50Ms", "latencyP95Ms", "quality"] {
        assert_eq!(totals[field], Value::Null, "{field}");
    }
    assert!(overview["change"].as_object().unwrap().values().all(Value::is_null));
    let points = asked(&ada.api, "timeseries?metric=bytes").await["points"].clone();
    assert!(points.as_array().unwrap().len() >= 30);
    assert!(points.as_array().unwrap().iter().all(|point| point["value"] == 0.0 && point["count"] == 0));
    assert_eq!(asked(&ada.api, "providers").await["items"], json!([]));
    let domains = asked(&ada.api, "domains").await;
    assert_eq!(
        (&domains["items"], &domains["total"], &domains["nextCursor"]),
        (&json!([]), &json!(0), &Value::Null)
    );
    assert_eq!(asked(&ada.api, "credits?groupBy=domain").await["items"], json!([]));
    assert_eq!(asked(&ada.api, "quality?groupBy=attribute").await["attributes"], json!([]));
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused_by_its_name() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let long = format!("overview?tag={}", "x".repeat(513));
    for (question, part) in [
        ("timeseries?metric=price", "metric: "),
        ("timeseries?metric=jobs'; DROP TABLE jobs", "metric: "),
        ("timeseries?metric=jobs&interval=minute", "interval: \"minute\" makes more than 1000 buckets"),
        (
            "timeseries?metric=jobs&interval=minute&from=2020-01-01&to=2026-01-01",
            "interval: \"minute\" makes more than 1000",
        ),
        (
            "timeseries?metric=jobs&interval=day&from=2017-01-01&to=2026-01-01",
            "interval: \"day\" makes more than 1000",
        ),
        ("timeseries?metric=jobs&interval=year", "interval: "),
        ("timeseries?metric=jobs&from=1970-01-01&to=2026-01-01", "from: must be at most 3660 days before to"),
        ("timeseries?metric=results&tag=x", "tag: \"results\" cannot be told apart by it"),
        (
            "timeseries?metric=quality&providerId=01890a5d-ac96-774b-bcce-b302099a8057",
            "providerId: \"quality\"",
        ),
        ("timeseries?metric=jobs&providerId=direct", "providerId: "),
        ("overview?from=2026-01-02&to=2026-01-01", "from: must be before to"),
        ("overview?from=2026-01-01&to=2026-01-01", "from: must be before to"),
        ("overview?from=soon", "from: is not an RFC 3339 time"),
        ("overview?to=9999-12-31T23:59:59Z", "to: must be from 1970-01-01"),
        ("overview?from=0001-01-01", "from: must be from 1970-01-01"),
        ("overview?timezone=Mars/Olympus", "timezone: \"Mars/Olympus\" is no IANA time zone"),
        ("overview?timezone=../../etc/passwd", "timezone: "),
        ("overview?timezone=%2B02:00", "timezone: "),
        ("overview?pageType=Pamphlet", "pageType: "),
        ("overview?domain=%00", "domain: must not contain a zero byte"),
        (&*long, "tag: must be at most 512 characters"),
        ("domains?sort=price", "sort: "),
        ("domains?order=up", "order: "),
        ("domains?limit=0", "limit: must be at least 1"),
        ("domains?cursor=abc", "cursor: is damaged"),
        ("credits?groupBy=hour", "groupBy: "),
        ("quality?groupBy=url", "groupBy: "),
    ] {
        let reply = get(&ada.api, &format!("{ROOT}/{}", question.replace(' ', "%20"))).await;
        refused(&reply, 400, "Validation failed", part);
    }
    // What would be SQL elsewhere is a text here.
    for text in ["x' OR '1'='1", "'; DROP TABLE jobs; --", "$1", "\\", "%", "\u{1f600}"] {
        let text: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        for question in [format!("overview?domain={text}"), format!("overview?tag={text}")] {
            assert_eq!(asked(&ada.api, &question).await["totals"]["jobs"], 0);
        }
    }
    at.stop().await;
}

/// Statements that do not end by themselves, over rows that a few URLs make.
const ENDLESS: &str =
    "SELECT count(*) FROM urls a, urls b, urls c, urls d WHERE a.url || b.url < c.url || d.url";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_and_the_console_go_on_and_a_switch_says_so() {
    let at = Appliance::start_with(&[("BI__CONCURRENCY_PER_ORG", "1"), ("BI__QUEUE_PER_ORG", "0")]).await;
    let (ada, busy) = (at.member("ada").await, at.member("busy").await);
    let urls: Vec<_> = (0..400).map(|n| format!("https://shop.example/{n}")).collect();
    expect(post(&busy.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    eventually("the console has the URLs", Duration::from_secs(30), || async {
        (row(&busy.api, "SELECT count(*) AS n FROM urls").await["n"] == 400).then_some(())
    })
    .await;
    let endless = json!({ "sql": ENDLESS, "waitMs": 200 });
    let running = expect(post(&busy.api, "/api/v1/bi/queries", &endless).await, 202);
    // The other organization sends more than it may have wait, too.
    let storm = (0..40).map(|n| {
        let client = busy.api.clone();
        tokio::spawn(async move {
            get(&client, &format!("{ROOT}/{}", EVERY[n % EVERY.len()])).await.status.as_u16()
        })
    });
    let storm: Vec<_> = storm.collect();
    for question in EVERY {
        asked(&ada.api, question).await;
    }
    for answered in storm {
        let status = answered.await.unwrap();
        assert!(matches!(status, 200 | 429 | 503), "{status}");
    }
    let id = text(&running, "jobId");
    expect(post(&busy.api, &format!("/api/v1/bi/queries/{id}/cancel"), &json!({})).await, 200);

    // Who may ask one statement at a time may ask it beside its charts.
    let charts = (0..12).map(|n| {
        let client = ada.api.clone();
        tokio::spawn(async move {
            get(&client, &format!("{ROOT}/{}", EVERY[n % EVERY.len()])).await.status.as_u16()
        })
    });
    let charts: Vec<_> = charts.collect();
    assert_eq!(rows(&ada.api, "SELECT 1 AS one").await, [json!({ "one": 1 })]);
    for chart in charts {
        assert_eq!(chart.await.unwrap(), 200);
    }

    let order = KillSwitchOrder::Set { target: KillTarget::Box, reason: "a test".into() };
    at.operator(Request::BiKillSwitch { order }).await;
    for question in EVERY {
        let reply = get(&ada.api, &format!("{ROOT}/{question}")).await;
        refused(&reply, 503, "Service unavailable", "The operator has switched the SQL console off.");
    }
    at.operator(Request::BiKillSwitch { order: KillSwitchOrder::Clear { target: KillTarget::Box } }).await;
    asked(&ada.api, "overview").await;
    at.stop().await;
}
