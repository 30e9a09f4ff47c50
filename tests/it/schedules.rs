//! Schedules through HTTP: createSchedule, listSchedules, getSchedule, updateSchedule, deleteSchedule, previewSchedule,
//! triggerSchedule, toggleSchedule, listScheduleRuns.

use crate::audit::patch;
use crate::harness::Request;
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, eventually, expect, get, member, post, refused, text};
use crate::workflows::{chain, direct, put};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeSet;
use std::time::Duration;
use tempfile::TempDir;

const SCHEDULES: &str = "/api/v1/schedules";
const PATIENCE: Duration = Duration::from_secs(120);
const MINUTE: Duration = Duration::from_secs(60);

fn page(path: &str) -> Option<Answer> {
    Some(Answer::html(format!("<title>{path}</title>")))
}

async fn register(api: &Client, web: &Web, tag: &str, count: usize) {
    let urls: Vec<_> =
        (0..count).map(|n| json!({ "url": web.url(&format!("/{tag}/{n}")), "tags": [tag] })).collect();
    expect(post(api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
}

async fn make(api: &Client, new: &Value) -> String {
    text(&expect(post(api, SCHEDULES, new).await, 201), "id").to_owned()
}

/// The runs that a query finds.
async fn runs(api: &Client, query: &str) -> Vec<Value> {
    let listed = expect(get(api, &format!("{SCHEDULES}/runs?limit=200&{query}")).await, 200);
    listed["items"].as_array().unwrap().clone()
}

/// The newest run of a schedule, once it has ended.
async fn ended(api: &Client, schedule: &str) -> Value {
    eventually("the run ends", PATIENCE, || async {
        let newest = runs(api, &format!("scheduleId={schedule}")).await.into_iter().next()?;
        (!matches!(text(&newest, "status"), "running" | "queued")).then_some(newest)
    })
    .await
}

async fn at_work(settings: &[(&str, &str)]) -> (Web, Appliance, Member) {
    let web = Web::open(page).await;
    let allow = web.allow();
    let base = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64")];
    let settings: Vec<_> = base.iter().chain(settings).copied().collect();
    let at = Appliance::start_with(&settings).await;
    let member = at.member("standing").await;
    (web, at, member)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_kept_changed_foreseen_and_removed() {
    let (web, at, member) = at_work(&[]).await;
    let api = &member.api;
    register(api, &web, "news", 2).await;
    let url = text(&expect(get(api, "/api/v1/urls").await, 200)["items"][0], "id").to_owned();
    let new = json!({
        "name": "Every morning", "cron": " 30  6 * * mon-FRI ", "timezone": "europe/berlin", "tagFilters": ["news"],
        "urlIds": [url, url], "options": { "headers": { "X-Login": "secret" }, "timeoutMs": 5_000 },
        "overlap": "queue", "misfire": "skip", "catchUpSeconds": 60, "jitterSeconds": 5, "isEnabled": false,
    });
    let made = expect(post(api, SCHEDULES, &new).await, 201);
    let one = format!("{SCHEDULES}/{}", text(&made, "id"));
    for (field, value) in [
        ("cron", json!("30 6 * * mon-FRI")),
        ("timezone", json!("Europe/Berlin")),
        ("urlIds", json!([url])),
        ("isEnabled", json!(false)),
        ("nextFireAt", Value::Null),
        ("lastRunAt", Value::Null),
        ("disabledReason", Value::Null),
        ("catchUpSeconds", json!(60)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_eq!(made["options"]["headers"], json!({ "X-Login": "***" }), "a login is not shown again");
    let read = get(api, &one).await;
    let tag = read.header("etag").to_owned();
    assert_eq!(expect(read, 200), made);
    // What was shown goes back as it is: hidden values stay what they are.
    assert_eq!(expect(put(api, &one, &made).await, 200), made);
    let strange = json!({ "name": "x", "cron": "@daily", "options": { "headers": { "X-New": "***" } } });
    refused(&put(api, &one, &strange).await, 400, "Validation failed", "options.headers.X-New: is ***");
    let on = json!({ "name": "x", "cron": "@daily", "isEnabled": true });
    refused(&put(api, &one, &on).await, 400, "Validation failed", "/toggle changes it");
    let plain = json!({ "name": "Hourly", "cron": "@hourly" });
    let stale = api.header("if-match", "\"0123456789abcdef01234567\"");
    assert_eq!(put(&stale, &one, &plain).await.status, 412);
    let changed = expect(put(&api.header("if-match", &tag), &one, &plain).await, 200);
    assert_eq!(
        (&changed["urlIds"], &changed["tagFilters"], &changed["overlap"]),
        (&Value::Null, &json!([]), &json!("skip"))
    );
    assert_eq!((&changed["timezone"], &changed["catchUpSeconds"]), (&json!("UTC"), &json!(31_536_000)));

    let foreseen = expect(get(api, &format!("{one}/preview?count=3")).await, 200);
    let fires: Vec<_> = foreseen["fires"].as_array().unwrap().iter().map(|at| at.as_str().unwrap()).collect();
    assert!(
        fires.len() == 3 && fires.is_sorted() && fires.iter().all(|at| at.ends_with(":00:00.000Z")),
        "{fires:?}"
    );
    assert_eq!(expect(get(api, &format!("{one}/preview")).await, 200)["fires"].as_array().unwrap().len(), 10);
    for count in ["0", "101", "-1", "x"] {
        assert_eq!(get(api, &format!("{one}/preview?count={count}")).await.status, 400, "{count}");
    }
    let toggled = expect(patch(api, &format!("{one}/toggle"), &json!({ "isEnabled": true })).await, 200);
    assert_eq!(toggled, json!({ "id": made["id"], "isEnabled": true }));
    assert_eq!(expect(get(api, &one).await, 200)["nextFireAt"], fires[0]);
    assert_eq!(patch(api, &format!("{one}/toggle"), &json!({})).await.status, 400);
    for (query, count) in [("isEnabled=true", 1), ("isEnabled=false", 0), ("", 1)] {
        let listed = expect(get(api, &format!("{SCHEDULES}?{query}")).await, 200);
        assert_eq!(listed["items"].as_array().unwrap().len(), count, "{query}");
    }
    assert_eq!(api.delete(&one).await.unwrap().status, 204);
    for reply in [get(api, &one).await, api.delete(&one).await.unwrap(), put(api, &one, &plain).await] {
        refused(&reply, 404, "Schedule not found", "");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_named_and_what_is_allowed_has_room() {
    let (web, at, member) = at_work(&[]).await;
    let api = &member.api;
    let with = |members: Value| {
        let mut new = json!({ "name": "one", "cron": "@daily" });
        new.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        new
    };
    let tags = |count: usize| (0..count).map(|n| format!("{n:0>64}")).collect::<Vec<_>>();
    let ids = |count: usize| vec!["01890a5d-ac96-774b-bcce-b302099a8057"; count];
    for (members, part) in [
        (json!({ "name": "" }), "name: "),
        (json!({ "name": "n".repeat(201) }), "name: "),
        (json!({ "cron": "* * * *" }), "cron: has 4 fields"),
        (json!({ "cron": "0 25 * * *" }), "cron: the hour \"25\" is not within 0 to 23"),
        (json!({ "cron": "0 0 30 2 *" }), "cron: names no time"),
        (json!({ "cron": "1,".repeat(10_000) }), "cron: must be at most 200"),
        (json!({ "timezone": "Mars/Utopia" }), "timezone: \"Mars/Utopia\" is no IANA time zone"),
        (json!({ "timezone": "x".repeat(100_000) }), "timezone: "),
        (json!({ "overlap": "both" }), "overlap: "),
        (json!({ "misfire": 1 }), "misfire: "),
        (json!({ "catchUpSeconds": -1 }), "catchUpSeconds: "),
        (json!({ "catchUpSeconds": 400_000_000 }), "catchUpSeconds: must be at most"),
        (json!({ "jitterSeconds": 3_601 }), "jitterSeconds: must be at most 3600"),
        (json!({ "tagFilters": tags(33) }), "tagFilters: at most 32"),
        (json!({ "tagFilters": ["x".repeat(65)] }), "tagFilters[0]: "),
        (json!({ "urlIds": [] }), "urlIds: must have 1 to 1000"),
        (json!({ "urlIds": ids(1_001) }), "urlIds: must have 1 to 1000 entries, not 1001"),
        (json!({ "urlIds": ids(25_000) }), "urlIds: must have 1 to 1000"),
        (json!({ "urlIds": ["x"] }), "urlIds[0]: "),
        (json!({ "options": { "timeoutMs": 1 } }), "options.timeoutMs: "),
        (json!({ "options": { "headers": { "Host": "x" } } }), "options.headers.Host: "),
    ] {
        let reply = post(api, SCHEDULES, &with(members)).await;
        let message = reply.json["message"].as_str().unwrap_or_default();
        assert!(reply.status == 400 && message.contains(part), "{part}: {}", reply.text());
    }
    assert_eq!(expect(get(api, SCHEDULES).await, 200)["items"], json!([]));
    // Everything at its bound, together.
    let upload: Vec<_> = (0..1_000).map(|n| web.url(&format!("/full/{n}"))).collect();
    expect(post(api, "/api/v1/urls", &json!({ "urls": upload })).await, 200);
    let mut all = Vec::new();
    let mut path = "/api/v1/urls?limit=200".to_owned();
    loop {
        let listed = expect(get(api, &path).await, 200);
        all.extend(listed["items"].as_array().unwrap().iter().map(|url| text(url, "id").to_owned()));
        match listed["nextCursor"].as_str() {
            Some(next) => path = format!("/api/v1/urls?limit=200&cursor={next}"),
            None => break,
        }
    }
    let cron = format!("{} 0 1 1 *", (0..60).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let full = with(json!({
        "name": "n".repeat(200), "cron": cron, "tagFilters": tags(32), "urlIds": all, "jitterSeconds": 3_600,
        "catchUpSeconds": 315_360_000, "options": { "headers": { "X-Long": "x".repeat(4_096) } },
    }));
    let made = expect(post(api, SCHEDULES, &full).await, 201);
    assert_eq!(made["urlIds"].as_array().unwrap().len(), 1_000);
    let again = expect(get(api, &format!("{SCHEDULES}/{}", text(&made, "id"))).await, 200);
    assert_eq!(again, made);
    // A plan bounds how many there are.
    at.operator(Request::OrgPlan { org: member.org_id.clone(), plan: "trial".to_owned() }).await;
    for _ in 1..20 {
        make(api, &with(json!({ "isEnabled": false }))).await;
    }
    let over = post(api, SCHEDULES, &with(json!({}))).await;
    refused(&over, 402, "QUOTA_EXCEEDED", "20 schedules (schedules)");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_fires_at_its_minute_and_sql_tells_of_it() {
    let (web, at, owner) = at_work(&[]).await;
    let api = &owner.api;
    let other = at.member("busy").await;
    register(api, &web, "a", 3).await;
    register(api, &web, "b", 2).await;
    register(&other.api, &web, "c", 4).await;
    // A minute that ends between making and asking would be told of as the one after it.
    let left = 60_000 - at.clock.now().millis().rem_euclid(60_000);
    at.clock.advance(Duration::from_millis(left.unsigned_abs()));
    let new = json!({ "name": "minutely", "cron": "* * * * *", "tagFilters": ["a", "nobody's"] });
    let (mine, empty) =
        (make(api, &new).await, json!({ "name": "x", "cron": "* * * * *", "tagFilters": ["none"] }));
    let empty = make(api, &empty).await;
    let theirs = make(&other.api, &json!({ "name": "all", "cron": "* * * * *" })).await;
    let due = text(&expect(get(api, &format!("{SCHEDULES}/{mine}")).await, 200), "nextFireAt").to_owned();
    at.clock.advance(MINUTE);
    let run = ended(api, &mine).await;
    assert_eq!(
        (&run["trigger"], &run["status"], &run["scheduledFor"]),
        (&json!("cron"), &json!("completed"), &json!(due))
    );
    assert_eq!(
        (&run["jobsCreated"], &run["succeeded"], &run["failed"]),
        (&json!(3), &json!(3), &json!(0)),
        "{run}"
    );
    assert_eq!((&run["truncated"], &run["message"]), (&json!(false), &Value::Null));
    assert!(run["firedAt"].as_str().unwrap() >= due.as_str() && run["finishedAt"].is_string());
    let nothing = ended(api, &empty).await;
    assert_eq!((&nothing["status"], &nothing["jobsCreated"]), (&json!("no_urls"), &json!(0)));
    assert_eq!(nothing["message"], "no registered URL matched");
    assert_eq!(ended(&other.api, &theirs).await["jobsCreated"], 4);
    // A slow machine comes to another minute below, which would have runs of its own.
    for id in [&mine, &empty] {
        expect(patch(api, &format!("{SCHEDULES}/{id}/toggle"), &json!({ "isEnabled": false })).await, 200);
    }
    // Jobs say whose they are, and the list finds them.
    let jobs = expect(get(api, &format!("/api/v1/jobs?scheduleRunId={}", text(&run, "id"))).await, 200);
    let jobs = jobs["items"].as_array().unwrap();
    assert_eq!(jobs.len(), 3);
    assert!(jobs.iter().all(|job| job["scheduleId"] == mine.as_str() && job["urlId"].is_string()));
    // Nobody sees another one's.
    let run_id = text(&run, "id");
    assert_eq!(runs(api, &format!("runId={run_id}")).await, std::slice::from_ref(&run));
    for query in [format!("runId={run_id}"), format!("scheduleId={mine}")] {
        assert!(runs(&other.api, &query).await.is_empty());
    }
    for (query, count) in [("status=no_urls", 1), ("status=completed", 1), ("status=failed", 0)] {
        assert_eq!(runs(api, query).await.len(), count, "{query}");
    }
    assert_eq!(get(api, &format!("{SCHEDULES}/runs?status=gone")).await.status, 400);
    // A stretch of time has its own: from a tick on, and before one.
    let tick = text(&run, "scheduledFor");
    for (query, count) in [
        (format!("scheduleId={mine}&from={tick}"), 1),
        (format!("scheduleId={mine}&to={tick}"), 0),
        (format!("from={tick}&to=2100-01-01T00:00:00Z"), 2),
        ("from=2100-01-01T00:00:00Z".to_owned(), 0),
    ] {
        let found = expect(get(api, &format!("{SCHEDULES}/runs?{query}")).await, 200);
        assert_eq!(found["items"].as_array().unwrap().len(), count, "{query}: {found}");
        assert_eq!(found["nextCursor"], Value::Null, "{query}: {found}");
    }
    refused(
        &get(api, &format!("{SCHEDULES}/runs?from={tick}&to={tick}")).await,
        400,
        "Validation failed",
        "to: is not after `from`",
    );
    let sql = "SELECT s.name, r.status, r.jobs_created FROM schedules s JOIN schedule_runs r ON r.schedule_id = s.id \
               ORDER BY s.name";
    eventually("SQL has the runs", PATIENCE, || async {
        let asked = json!({ "sql": sql, "waitMs": 10_000 });
        let answer = post(api, "/api/v1/bi/queries", &asked).await;
        // 202 of a busy machine, 503 of tables that are behind: asked again.
        assert!(matches!(answer.status.as_u16(), 200 | 202 | 503), "{}", answer.text());
        let expected = json!([
            { "name": "minutely", "status": "completed", "jobs_created": 3 },
            { "name": "x", "status": "no_urls", "jobs_created": 0 },
        ]);
        (answer.json["results"]["rows"] == expected).then_some(())
    })
    .await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_goes_the_way_of_a_tick() {
    let web = Web::open(|path| {
        let answer = Answer::html("<title>page</title>");
        Some(if path.starts_with("/held") { answer.held("page") } else { answer })
    })
    .await;
    let allow = web.allow();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow), ("SCHEDULES__MAX_URLS_PER_RUN", "3")]).await;
    let member = at.member("trigger").await;
    let api = &member.api;
    register(api, &web, "held", 2).await;
    register(api, &web, "many", 5).await;
    let held = json!({ "name": "held", "cron": "@yearly", "tagFilters": ["held"], "isEnabled": false });
    let held = make(api, &held).await;
    let trigger = |id: &str| format!("{SCHEDULES}/{id}/trigger");
    let fired = expect(post(api, &trigger(&held), &json!({})).await, 200);
    assert_eq!((&fired["jobsCreated"], &fired["message"]), (&json!(2), &Value::Null), "also one that is off");
    let run = &runs(api, &format!("runId={}", text(&fired, "scheduleRunId"))).await[0];
    assert_eq!((&run["trigger"], &run["status"]), (&json!("manual"), &json!("running")));
    // The run before has not ended.
    let skipped = expect(post(api, &trigger(&held), &json!({})).await, 200);
    assert_eq!(skipped["jobsCreated"], 0);
    assert!(text(&skipped, "message").contains("overlap is skip"), "{skipped}");
    web.release("page");
    eventually("the run ends", PATIENCE, || async {
        let run = runs(api, &format!("runId={}", text(&fired, "scheduleRunId"))).await;
        (run[0]["status"] == "completed" && run[0]["succeeded"] == 2).then_some(())
    })
    .await;
    assert_eq!(runs(api, "status=skipped_overlap").await.len(), 1);
    // No URL: no error, no run to follow, and a row all the same.
    let none = make(api, &json!({ "name": "none", "cron": "@yearly", "tagFilters": ["none"] })).await;
    let answer = expect(post(api, &trigger(&none), &json!({})).await, 200);
    assert_eq!(answer, json!({ "jobsCreated": 0, "message": "no registered URL matched" }));
    assert_eq!(runs(api, "status=no_urls").await.len(), 1);
    // More than a run may have.
    let many = make(api, &json!({ "name": "many", "cron": "@yearly", "tagFilters": ["many"] })).await;
    assert_eq!(expect(post(api, &trigger(&many), &json!({})).await, 200)["jobsCreated"], 3);
    let run = ended(api, &many).await;
    assert_eq!((&run["truncated"], &run["status"]), (&json!(true), &json!("completed")));
    // The oldest of all its tags, whichever tag comes first.
    for (n, tag) in ["second", "first", "second", "first"].iter().enumerate() {
        let url = json!({ "url": web.url(&format!("/mixed/{n}")), "tags": [tag, "mixed"] });
        expect(post(api, "/api/v1/urls", &json!({ "urls": [url] })).await, 200);
    }
    let tags = json!({ "name": "mixed", "cron": "@yearly", "tagFilters": ["first", "second", "mixed"] });
    let mixed = make(api, &tags).await;
    expect(post(api, &trigger(&mixed), &json!({})).await, 200);
    let run = ended(api, &mixed).await;
    let jobs = format!("/api/v1/jobs?scheduleRunId={}", text(&run, "id"));
    let jobs = expect(get(api, &jobs).await, 200)["items"].as_array().unwrap().clone();
    let urls: BTreeSet<_> = jobs.iter().map(|job| text(job, "url").to_owned()).collect();
    assert_eq!(urls, (0..3).map(|n| web.url(&format!("/mixed/{n}"))).collect());
    // A workflow that is a draft lets nothing through, and says so.
    let graph = chain(&[&direct(&member).await]);
    let draft = post(api, "/api/v1/workflows", &json!({ "name": "draft", "dag": graph })).await;
    let draft = expect(draft, 201);
    let id = text(&draft, "workflowId");
    let bound = json!({ "name": "bound", "cron": "@yearly", "tagFilters": ["many"], "workflowId": id });
    let bound = make(api, &bound).await;
    let refusal = expect(post(api, &trigger(&bound), &json!({})).await, 200);
    assert_eq!(refusal["jobsCreated"], 0);
    assert!(text(&refusal, "message").contains("3 of 3 URLs could not be submitted"), "{refusal}");
    assert_eq!(ended(api, &bound).await["status"], "failed");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stops_where_credits_end_and_says_how_far_it_came() {
    let web =
        Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")).after_ms(3_600_000))).await;
    let allow = web.allow();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow), ("DISPATCH__ROBOTS", "false")]).await;
    let member = at.member("poor").await;
    let api = &member.api;
    at.operator(Request::OrgPlan { org: member.org_id.clone(), plan: "trial".to_owned() }).await;
    register(api, &web, "u", 300).await;
    // They hang for longer than a slow machine takes here: one that ends gives its credit back.
    let hangs = json!({ "timeoutMs": 120_000 });
    let jobs: Vec<_> =
        (0..850).map(|n| json!({ "url": web.url(&format!("/{n}")), "options": hangs })).collect();
    expect(post(api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    let left = expect(get(api, "/api/v1/plans/current").await, 200)["remainingCredits"].as_u64().unwrap();
    assert_eq!(left, 150, "what hangs costs one credit each");
    let id = make(api, &json!({ "name": "all", "cron": "@yearly", "overlap": "queue" })).await;
    let trigger = format!("{SCHEDULES}/{id}/trigger");
    let fired = expect(post(api, &trigger, &json!({})).await, 200);
    assert_eq!(fired["jobsCreated"], 150);
    let run = &runs(api, &format!("runId={}", text(&fired, "scheduleRunId"))).await[0];
    assert!(text(run, "message").starts_with("stopped after 150 of 300 jobs: "), "{run}");
    assert_eq!(run["status"], "running", "its jobs are under way");
    assert_eq!(expect(get(api, "/api/v1/plans/current").await, 200)["remainingCredits"], 0);
    let gated = post(api, &trigger, &json!({})).await;
    assert_eq!((gated.status.as_u16(), &gated.json["error"]), (402, &json!("QUOTA_EXCEEDED")));
    at.stop().await;
}

/// Ticks that wait when somebody switches the schedule off, or lets none wait any more, do not come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_goes_with_the_switch() {
    let web =
        Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")).after_ms(3_600_000))).await;
    let allow = web.allow();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow)]).await;
    let member = at.member("switch").await;
    let api = &member.api;
    register(api, &web, "slow", 1).await;
    let each_second = json!({ "name": "each second", "cron": "* * * * * *", "overlap": "queue" });
    let ids = [make(api, &each_second).await, make(api, &each_second).await];
    let waiting = async |id: &str| runs(api, &format!("scheduleId={id}&status=queued")).await.len();
    for id in &ids {
        eventually("two wait", PATIENCE, || async { (waiting(id).await >= 2).then_some(()) }).await;
    }
    expect(patch(api, &format!("{SCHEDULES}/{}/toggle", ids[0]), &json!({ "isEnabled": false })).await, 200);
    let skip = json!({ "name": "each second", "cron": "* * * * * *", "overlap": "skip" });
    expect(put(api, &format!("{SCHEDULES}/{}", ids[1]), &skip).await, 200);
    for (id, why) in ids.iter().zip(["was switched off while", "overlap was made skip"]) {
        assert_eq!(waiting(id).await, 0);
        let left_out = runs(api, &format!("scheduleId={id}&status=skipped_overlap")).await;
        let said = left_out.iter().filter(|run| text(run, "message").contains(why)).count();
        assert!(said >= 2, "{left_out:?}");
    }
    at.stop().await;
}

/// `kill -9` between the parts of a large run: it goes on where it was, and every URL has one job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_run_goes_on_and_doubles_no_job() {
    const URLS: usize = 2_000;
    let web = Web::open(page).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    // One at a time: what is submitted waits, and the test does not wait for pages.
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("SCHEDULES__MAX_URLS_PER_RUN", "50000"),
        ("DISPATCH__MIN_DELAY_MS", "3600000"),
    ];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "killed").await;
    let api = process.client().bearer(&owner.key);
    register(&api, &web, "u", URLS).await;
    let id = make(&api, &json!({ "name": "all", "cron": "@yearly" })).await;
    let (firing, path) = (api.clone(), format!("{SCHEDULES}/{id}/trigger"));
    let fired = tokio::spawn(async move { firing.post(&path, &json!({})).await });
    let mut kills = 0;
    for most in [100, 600, 1_200] {
        let client = process.client().bearer(&owner.key);
        let so_far = eventually("some parts are submitted", PATIENCE, || async {
            let run = runs(&client, &format!("scheduleId={id}")).await.into_iter().next()?;
            run["jobsCreated"].as_u64().filter(|made| *made >= most)
        })
        .await;
        kills += u32::from(so_far < URLS as u64);
        process.kill();
        process = Process::start(&data, &settings);
    }
    assert!(kills > 0, "every kill came after the last part");
    let _ = fired.await.unwrap();
    let client = process.client().bearer(&owner.key);
    eventually("everything is submitted", PATIENCE, || async {
        let all = runs(&client, &format!("scheduleId={id}")).await;
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0]["jobsCreated"] == URLS).then_some(())
    })
    .await;
    let mut urls = BTreeSet::new();
    let (mut count, mut cursor) = (0, String::new());
    let run = text(&runs(&client, "").await[0], "id").to_owned();
    loop {
        let listed = format!("/api/v1/jobs?scheduleRunId={run}&limit=200{cursor}");
        let listed = expect(get(&client, &listed).await, 200);
        for job in listed["items"].as_array().unwrap() {
            count += 1;
            urls.insert(text(job, "urlId").to_owned());
        }
        match listed["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((count, urls.len()), (URLS, URLS), "one job for each URL");
    process.kill();
}
