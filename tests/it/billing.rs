//! Plans, credits and requests for more over HTTP, with the operator on the other side.

use crate::harness::Request;
use crate::harness::smtp::MailServer;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, PASSWORD, ended, eventually, expect, get, post, refused, text};
use gleaner::admin;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;
use tempfile::TempDir;

const RECHARGES: &str = "/api/v1/plans/recharge-requests"; // listRechargeRequests, createRechargeRequest
const CURRENT: &str = "/api/v1/plans/current"; // getCurrentPlan
const TRANSACTIONS: &str = "/api/v1/plans/transactions"; // listTransactions
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn ask(client: &Client, credits: u64) -> Reply {
    post(client, RECHARGES, &json!({ "credits": credits })).await
}

async fn decide(at: &Appliance, id: &str, approve: bool, note: Option<&str>) -> Value {
    let note = note.map(str::to_owned);
    at.operator(Request::RechargeDecide { id: id.parse().unwrap(), approve, note }).await
}

async fn plan(at: &Appliance, org: &str, plan: &str) -> Value {
    at.operator(Request::OrgPlan { org: org.to_owned(), plan: plan.to_owned() }).await
}

/// What is left, of it what was recharged, and what was used.
async fn stands(client: &Client) -> [u64; 3] {
    let plan = expect(get(client, CURRENT).await, 200);
    ["remainingCredits", "rechargedCredits", "usedThisPeriod"].map(|field| plan[field].as_u64().unwrap())
}

/// The ledger, oldest first, and that the balance is its sum.
async fn ledger(client: &Client) -> Vec<(String, i64, Value)> {
    let rows = expect(get(client, &format!("{TRANSACTIONS}?limit=200")).await, 200);
    let rows: Vec<_> = rows["items"].as_array().unwrap().iter().rev().cloned().collect();
    let all: Vec<_> = rows
        .iter()
        .map(|row| (text(row, "kind").to_owned(), row["amount"].as_i64().unwrap(), row["note"].clone()))
        .collect();
    let sum: i64 = all.iter().map(|(_, amount, _)| amount).sum();
    assert_eq!(rows.last().unwrap()["balanceAfter"].as_i64(), Some(sum));
    all
}

async fn refused_by_operator(at: &Appliance, request: Request, part: &str) {
    let error = admin::call(&at.app().socket(), &request).await.unwrap_err().to_string();
    assert!(error.contains(part), "\"{part}\" is not in \"{error}\"");
}

#[tokio::test]
async fn a_request_is_approved_and_its_credits_are_there_at_once() {
    let server = MailServer::plain().await;
    let folder = TempDir::new().unwrap();
    let settings = server.settings(folder.path());
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let at = Appliance::start_with(&settings).await;
    let ada = at.member("ada").await;
    assert_eq!(expect(get(&ada.api, RECHARGES).await, 200), json!({ "items": [], "nextCursor": null }));
    let body = json!({ "credits": 5_000, "note": "  for the spring catalogue " });
    let made = expect(post(&ada.api, RECHARGES, &body).await, 201);
    assert_eq!((&made["credits"], &made["note"]), (&json!(5_000), &json!("for the spring catalogue")));
    assert_eq!((text(&made, "status"), text(&made, "requestedBy")), ("pending", ada.user_id.as_str()));
    assert!(made["decidedAt"].is_null() && made["answer"].is_null() && made["createdAt"].is_string());
    assert_eq!(stands(&ada.api).await, [1_000_000, 0, 0], "asking changes nothing");

    let listed = at.operator(Request::RechargeList).await;
    assert_eq!((&listed[0]["id"], &listed[0]["orgName"]), (&made["id"], &json!("ada")));
    assert_eq!(
        (text(&listed[0], "requestedBy"), listed[0]["credits"].as_u64()),
        ("ada@example.com", Some(5_000))
    );
    let decided = decide(&at, text(&made, "id"), true, Some("Until <March>")).await;
    assert_eq!((text(&decided, "status"), text(&decided, "answer")), ("approved", "Until <March>"));
    assert_eq!(stands(&ada.api).await, [1_005_000, 5_000, 0]);
    let rows = ledger(&ada.api).await;
    let note = json!(format!("recharge request {}", text(&made, "id")));
    assert_eq!(rows.last(), Some(&("recharge".to_owned(), 5_000, note)));
    let kept = expect(get(&ada.api, RECHARGES).await, 200)["items"][0].clone();
    assert_eq!((text(&kept, "status"), text(&kept, "answer")), ("approved", "Until <March>"));
    assert!(kept["decidedAt"].is_string());
    assert_eq!(at.operator(Request::RechargeList).await, json!([]));
    for approve in [true, false] {
        let id = text(&made, "id").parse().unwrap();
        let again = Request::RechargeDecide { id, approve, note: None };
        refused_by_operator(&at, again, "this request was approved at ").await;
    }
    assert_eq!(stands(&ada.api).await, [1_005_000, 5_000, 0], "once");

    let mail = eventually("the owner is told", Duration::from_secs(20), || async {
        let subject = "Your request for 5000 credits was approved";
        server.received().into_iter().find(|mail| mail.header("subject").as_deref() == Some(subject))
    })
    .await;
    assert_eq!(mail.to, ["ada@example.com"]);
    assert!(mail.parts()[0].contains("The operator writes: Until <March>"), "{}", mail.data);
    at.stop().await;
}

#[tokio::test]
async fn a_denied_request_changes_nothing_and_owners_alone_are_told() {
    let mut at = Appliance::start().await;
    let ada = at.member("ada").await;
    let invite = json!({ "email": "ed@example.com", "role": "editor" });
    expect(post(&ada.api, "/api/v1/orgs/current/invites", &invite).await, 201);
    let token = at.mailed_token("gli_").await;
    let person = json!({ "email": "ed@example.com", "password": PASSWORD, "name": "Ed" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let ed = at.client().bearer(text(&login, "accessToken"));
    let joined = expect(post(&ed, "/api/v1/invites/accept", &json!({ "token": token })).await, 200);
    let ed = at.client().bearer(text(&joined, "accessToken"));
    refused(&ask(&ed, 10).await, 403, "Insufficient permissions", "billing:write");
    assert_eq!(expect(get(&ed, RECHARGES).await, 200)["items"], json!([]), "an editor may look");

    let made = expect(ask(&ada.browser, 10).await, 201);
    assert!(made["note"].is_null());
    at.restart().await;
    decide(&at, text(&made, "id"), false, None).await;
    let api = at.client().bearer(&ada.key);
    assert_eq!(stands(&api).await, [1_000_000, 0, 0]);
    assert_eq!(ledger(&api).await.len(), 1);
    let denied = expect(get(&api, &format!("{RECHARGES}?status=denied")).await, 200);
    assert_eq!(denied["items"][0]["id"], made["id"]);
    assert_eq!(expect(get(&api, &format!("{RECHARGES}?status=approved")).await, 200)["items"], json!([]));
    refused(&get(&api, &format!("{RECHARGES}?status=maybe")).await, 400, "Validation failed", "status: ");
    let outbox = at.operator(Request::Outbox { limit: 20 }).await;
    let told: Vec<&Value> =
        outbox.as_array().unwrap().iter().filter(|mail| mail["kind"] == "recharge_decided").collect();
    let [mail] = told[..] else { panic!("{outbox}") };
    assert_eq!(
        (text(mail, "to"), text(mail, "subject")),
        ("ada@example.com", "Your request for 10 credits was denied")
    );
    assert!(!text(mail, "text").contains("writes"), "{mail}");
    at.stop().await;
}

#[tokio::test]
async fn requests_are_checked_bounded_and_ones_own() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    for (body, part) in [
        (json!({}), "credits: is required"),
        (json!({ "credits": 0 }), "credits: must be 1 to 1000000000"),
        (json!({ "credits": 1_000_000_001 }), "credits: must be 1 to 1000000000"),
        (json!({ "credits": -5 }), "credits: "),
        (json!({ "credits": 1.5 }), "credits: "),
        (json!({ "credits": "many" }), "credits: "),
        (json!({ "credits": 1, "note": 7 }), "note: "),
        (json!({ "credits": 1, "note": "x".repeat(501) }), "note: has 501 characters"),
        (json!({ "credits": 1, "note": "a\nb" }), "note: must not contain control characters"),
    ] {
        refused(&post(&ada.api, RECHARGES, &body).await, 400, "Validation failed", part);
    }
    refused(&ask(&at.client(), 1).await, 401, "Authentication required", "");
    refused(&get(&at.client(), RECHARGES).await, 401, "Authentication required", "");
    for n in 1..=10 {
        expect(ask(&ada.api, n).await, 201);
    }
    refused(&ask(&ada.api, 11).await, 409, "Conflict", "10 requests wait");
    expect(ask(&eve.api, 1).await, 201);
    let page = expect(get(&ada.api, &format!("{RECHARGES}?limit=4")).await, 200);
    let credits: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|row| row["credits"].clone()).collect();
    assert_eq!(credits, [10, 9, 8, 7], "newest first");
    let next = format!("{RECHARGES}?limit=200&cursor={}", text(&page, "nextCursor"));
    assert_eq!(expect(get(&ada.api, &next).await, 200)["items"].as_array().unwrap().len(), 6);
    let theirs = expect(get(&eve.api, RECHARGES).await, 200);
    assert_eq!(theirs["items"].as_array().unwrap().len(), 1, "{theirs}");
    let listed = at.operator(Request::RechargeList).await;
    let orgs: Vec<&str> = listed.as_array().unwrap().iter().map(|row| text(row, "orgName")).collect();
    assert_eq!(orgs, [vec!["ada"; 10], vec!["eve"]].concat(), "oldest first");
    decide(&at, text(&listed[0], "id"), false, None).await;
    expect(ask(&ada.api, 11).await, 201);
    at.stop().await;
}

/// Jobs that cost credits, without a page to fetch: what they reserve is what counts here.
async fn submit(client: &Client, jobs: usize) -> Reply {
    let jobs: Vec<_> = (0..jobs).map(|n| json!({ "url": format!("https://shop.example/{n}") })).collect();
    post(client, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await
}

#[tokio::test]
async fn another_plan_begins_at_once_and_recharged_credits_stay() {
    let at = Appliance::start().await;
    let ada: Member = at.member("ada").await;
    at.operator(Request::CreditsGrant { org: "ada".into(), amount: 70, note: Some("a gift".into()) }).await;
    let changed = plan(&at, "ADA", "trial").await;
    assert_eq!((text(&changed, "from"), text(&changed, "to")), ("appliance", "trial"));
    assert_eq!((&changed["lapsedCredits"], &changed["remainingCredits"]), (&json!(1_000_000), &json!(1_070)));
    assert_eq!(stands(&ada.api).await, [1_070, 70, 0]);
    let kinds: Vec<_> = ledger(&ada.api).await;
    let expected = [
        ("grant", 1_000_000, json!("plan appliance")),
        ("recharge", 70, json!("a gift")),
        ("adjust", -1_000_000, json!("lapsed with the plan appliance")),
        ("grant", 1_000, json!("plan trial")),
    ];
    assert_eq!(kinds, expected.map(|(kind, amount, note)| (kind.to_owned(), amount, note)));
    let current = expect(get(&ada.api, CURRENT).await, 200);
    assert!(current["trialEndsAt"].is_string() && current["isTrialExpired"] == false, "{current}");
    assert_eq!(expect(get(&ada.api, "/api/v1/orgs/current").await, 200)["plan"], "trial");
    let sql = json!({ "sql": "SELECT 1" });
    let bi = post(&ada.api, "/api/v1/bi/queries", &sql).await;
    assert_eq!((bi.status.as_u16(), &bi.json["error"]["code"]), (403, &json!("feature_disabled")));

    at.clock.advance(14 * DAY);
    let over = submit(&ada.api, 1).await;
    assert_eq!((over.status.as_u16(), &over.json["isTrialExpired"]), (402, &json!(true)));
    assert!(text(&over.json, "message").contains("trial has ended"), "{}", over.text());
    let granted = at.operator(Request::CreditsGrant { org: ada.org_id.clone(), amount: 5, note: None }).await;
    assert!(text(&granted, "warning").contains("gleaner admin org plan"), "{granted}");
    assert_eq!(submit(&ada.api, 1).await.status, 402, "credits do not prolong a trial");
    plan(&at, &ada.org_id, "team").await;
    assert_eq!(stands(&ada.api).await, [100_075, 75, 0]);
    expect(submit(&ada.api, 3).await, 201);
    at.stop().await;
}

#[tokio::test]
async fn a_period_renews_by_itself_and_says_so() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    at.operator(Request::CreditsGrant { org: "ada".into(), amount: 70, note: None }).await;
    let first = expect(get(&ada.api, CURRENT).await, 200);
    at.clock.advance(65 * DAY);
    let renewed = expect(get(&ada.api, CURRENT).await, 200);
    assert_eq!((&renewed["remainingCredits"], &renewed["rechargedCredits"]), (&json!(1_000_070), &json!(70)));
    assert!(ledger(&ada.api).await.len() >= 2);
    // Whoever reserves credits renews at once; the task does for all others within a minute.
    expect(submit(&ada.api, 1).await, 201);
    let rows = ledger(&ada.api).await;
    let kinds: Vec<(&str, i64)> = rows.iter().map(|(kind, amount, _)| (kind.as_str(), *amount)).collect();
    let begun = [("grant", 1_000_000), ("recharge", 70), ("adjust", -1_000_000), ("grant", 1_000_000)];
    assert_eq!(kinds[..4], begun, "once for two months");
    let now = expect(get(&ada.api, CURRENT).await, 200);
    assert!(text(&now, "periodEndsAt") > text(&first, "periodEndsAt"));
    at.stop().await;
}

#[tokio::test]
async fn an_idle_organization_has_its_month_too() {
    let mut at = Appliance::start().await;
    let ada = at.member("ada").await;
    at.clock.advance(31 * DAY);
    // The task looks at start.
    at.restart().await;
    let api = at.client().bearer(&ada.key);
    let rows = eventually("the month begins", Duration::from_secs(20), || async {
        let rows = ledger(&api).await;
        (rows.len() == 3).then_some(rows)
    })
    .await;
    let kinds: Vec<&str> = rows.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["grant", "adjust", "grant"]);
    assert_eq!(rows[1].2, "lapsed with its period");
    at.stop().await;
}

/// Every row of the ledger, oldest first: each balance is the sum so far and never below zero.
async fn whole_ledger(client: &Client) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(get(client, &format!("{TRANSACTIONS}?limit=200{cursor}")).await, 200);
        rows.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    rows.reverse();
    let mut balance = 0;
    for row in &rows {
        balance += row["amount"].as_i64().unwrap();
        assert_eq!(row["balanceAfter"].as_i64(), Some(balance));
        assert!(balance >= 0, "{row}");
    }
    rows
}

/// Half of what is asked for can be paid: exactly that much is taken, whatever comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_never_spend_more_than_there_is() {
    let at = Appliance::start_with(&[("DISPATCH__CONCURRENCY", "1")]).await;
    let ada = at.member("ada").await;
    plan(&at, "ada", "trial").await;
    let callers: Vec<_> = (0..40)
        .map(|_| {
            let api = ada.api.clone();
            tokio::spawn(async move { submit(&api, 50).await.status.as_u16() })
        })
        .collect();
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.unwrap());
    }
    // A job of these can end before another is submitted, and returns its credit: nothing is there to be fetched.
    let taken = answers.iter().filter(|status| **status == 201).count();
    assert!(answers.iter().all(|status| matches!(status, 201 | 402)), "{answers:?}");
    assert!(taken >= 20, "{taken}");
    let rows = whole_ledger(&ada.api).await;
    let reserved = rows.iter().filter(|row| row["kind"] == "reserve").count();
    assert_eq!(reserved, taken * 50, "one reserve for each job");
    at.stop().await;
}

/// 64 callers submit and cancel at once while jobs end in every way, with a balance for half of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submitting_and_canceling_at_once_leaves_no_hold() {
    const CALLERS: usize = 64;
    const PRICE: u64 = 31;
    let web = Web::open(|path| {
        Some(match path.split('/').nth(1).unwrap_or_default() {
            "page" => Answer::html("<title>a page</title>"),
            "gone" => Answer::status(404),
            "slow" => Answer::html("<title>late</title>").after_ms(100),
            _ => Answer::status(503),
        })
    })
    .await;
    let at = Appliance::start_with(&[
        ("NETWORK__ALLOW", &web.allow()),
        ("DISPATCH__ROBOTS", "false"),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "16"),
    ])
    .await;
    let ada = at.member("ada").await;
    plan(&at, "ada", "trial").await;
    let own = expect(get(&ada.api, "/api/v1/providers").await, 200);
    let own = format!("/api/v1/providers/{}", text(&own["items"][0], "id"));
    let price = json!({ "credits": { "standard": { "plain": PRICE, "render": PRICE } } });
    let priced = ada.api.send(http::Method::PATCH, &own, Some(&price)).await.unwrap();
    assert_eq!(priced.status, 200, "{}", priced.text());
    // What is there is enough for 32 of them at once.
    let callers = (0..CALLERS).map(|caller| {
        let (api, web) = (ada.api.clone(), web.url(""));
        tokio::spawn(async move {
            let mut jobs = Vec::new();
            for round in 0..4 {
                let path = ["page", "gone", "slow", "broken"][(caller + round) % 4];
                let job = json!({ "url": format!("{web}/{path}/{caller}/{round}") });
                let reply = post(&api, "/api/v1/jobs", &job).await;
                assert!(matches!(reply.status.as_u16(), 201 | 402), "{}", reply.text());
                if reply.status != 201 {
                    continue;
                }
                let id = text(&reply.json, "id").to_owned();
                if (caller + round) % 3 == 0 {
                    let reply = post(&api, &format!("/api/v1/jobs/{id}/cancel"), &json!({})).await;
                    assert!(matches!(reply.status.as_u16(), 200 | 409), "{}", reply.text());
                }
                jobs.push(id);
            }
            jobs
        })
    });
    let mut jobs = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        jobs.extend(caller.await.unwrap());
    }
    let mut charged = 0;
    for id in &jobs {
        let job = ended(&ada.api, id).await;
        let costs = job["creditsCharged"].as_u64().unwrap();
        let delivered = job["attempts"].as_array().unwrap().last();
        let is_answer = |attempt: &Value| {
            attempt["outcome"] == "target_error"
                && attempt["httpStatus"].as_u64().is_some_and(|status| status < 500)
        };
        let expected = match text(&job, "status") {
            "succeeded" => PRICE,
            // The target's own 404 is an answer, and vendors bill it; its 503 is none.
            "failed" if delivered.is_some_and(is_answer) => PRICE,
            _ => 0,
        };
        assert_eq!(costs, expected, "{job}");
        charged += costs;
    }
    let rows = whole_ledger(&ada.api).await;
    let reserves = rows.iter().filter(|row| row["kind"] == "reserve").count();
    assert_eq!(reserves, jobs.len(), "one for each job");
    let [remaining, _, used] = stands(&ada.api).await;
    assert_eq!((remaining, used), (1_000 - charged, charged), "no hold is left");
    assert_eq!(rows.last().unwrap()["balanceAfter"].as_u64(), Some(remaining));
    at.stop().await;
}
