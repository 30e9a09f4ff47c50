//! What the operator sees and does: the kill switch, and the walls in `admin status`.

use crate::harness::Request;
use crate::harness::process::Process;
use crate::harness::{Appliance, eventually, expect, get, post, ready, text};
use gleaner::admin;
use gleaner::features::bi::{KillSwitchOrder, KillTarget};
use serde_json::json;
use server::client::Client;
use sql::Fingerprint;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(30);

fn set(target: KillTarget) -> Request {
    Request::BiKillSwitch { order: KillSwitchOrder::Set { target, reason: "a test".into() } }
}

fn clear(target: KillTarget) -> Request {
    Request::BiKillSwitch { order: KillSwitchOrder::Clear { target } }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kill_switch_holds_until_it_is_lifted() {
    let mut appliance = Appliance::start().await;
    let (mut first, mut second) = (appliance.member("switched").await, appliance.member("other").await);
    let submit = |client: &Client, sql: &str| {
        let (client, body) = (client.clone(), json!({ "sql": sql, "waitMs": 10_000 }));
        async move { post(&client, "/api/v1/bi/queries", &body).await }
    };
    expect(submit(&first.api, "SELECT 1 AS one").await, 200);
    let shown = appliance.operator(set(KillTarget::Org(first.org_id.clone()))).await;
    assert_eq!(shown["switches"][0]["value"], first.org_id.as_str(), "{shown}");
    let refused = expect(submit(&first.api, "SELECT 1 AS one").await, 403);
    assert_eq!(refused["error"]["code"], "kill_switched", "{refused}");
    let queries = expect(get(&first.api, "/api/v1/bi/queries").await, 200);
    assert_eq!(queries["items"].as_array().map(Vec::len), Some(1), "what is refused was never submitted");
    expect(submit(&second.api, "SELECT 1 AS one").await, 200);

    // It survives a restart. A box that has just started may ask to come again.
    appliance.restart().await;
    ready(&appliance.client()).await;
    first.api = appliance.client().bearer(&first.key);
    second.api = appliance.client().bearer(&second.key);
    expect(submit(&first.api, "SELECT 1 AS one").await, 403);
    appliance.operator(clear(KillTarget::Org(first.org_id.clone()))).await;
    expect(submit(&first.api, "SELECT 1 AS one").await, 200);

    // One form of a statement, also of one that runs.
    let endless =
        "SELECT count(*) FROM (VALUES (1)) v(n), unnest(range(0, 1000000)) a, unnest(range(0, 1000000)) b";
    let slow = json!({ "sql": endless, "waitMs": 0 });
    let running = expect(post(&first.api, "/api/v1/bi/queries", &slow).await, 202);
    let path = format!("/api/v1/bi/queries/{}", text(&running, "jobId"));
    let list = Request::BiKillSwitch { order: KillSwitchOrder::List };
    let seen = eventually("it runs", WAIT, || async {
        let listed = admin::call(&appliance.app().socket(), &list).await.expect("a list");
        listed["running"].get(0).cloned()
    })
    .await;
    assert_eq!(seen["statement"], Fingerprint::of(endless).to_string(), "{seen}");
    assert_eq!(seen["org"], first.org_id.as_str());
    let form = KillTarget::Statement(text(&seen, "statement").to_owned());
    appliance.operator(set(form)).await;
    let execution = eventually("it is ended", WAIT, || async {
        let execution = expect(get(&first.api, &path).await, 200);
        (execution["status"] == "failed").then_some(execution)
    })
    .await;
    assert_eq!(execution["error"]["code"], "kill_switched", "{execution}");
    // The statement is at fault here, and not who sends it.
    let refused = expect(submit(&second.api, endless).await, 400);
    assert_eq!(refused["error"]["code"], "kill_switched", "{refused}");
    expect(submit(&first.api, "SELECT 2 AS two").await, 200);

    appliance.operator(set(KillTarget::Box)).await;
    expect(submit(&second.api, "SELECT 2 AS two").await, 403);
    appliance.operator(clear(KillTarget::Box)).await;
    expect(submit(&second.api, "SELECT 2 AS two").await, 200);
    for (order, part) in [
        (clear(KillTarget::Box), "not switched off"),
        (set(KillTarget::Org("no such organization".into())), "no such organization"),
        (set(KillTarget::Statement("xyz".into())), "16 hexadecimal digits"),
    ] {
        let refused = admin::call(&appliance.app().socket(), &order).await.expect_err("refused");
        assert!(refused.to_string().contains(part), "{refused}");
    }
}

/// Each of two operators reads what is stored and hands it on; neither may hand on what it read before the other wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_operators_at_once_set_both_switches() {
    let appliance = Appliance::start().await;
    let (first, second) = (appliance.member("one").await, appliance.member("two").await);
    let submit = |client: &Client| {
        let (client, body) = (client.clone(), json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 }));
        async move { post(&client, "/api/v1/bi/queries", &body).await.status.as_u16() }
    };
    let orgs = [&first, &second].map(|member| KillTarget::Org(member.org_id.clone()));
    for _ in 0..10 {
        let [a, b] = orgs.clone();
        tokio::join!(appliance.operator(set(a)), appliance.operator(set(b)));
        assert_eq!((submit(&first.api).await, submit(&second.api).await), (403, 403));
        let [a, b] = orgs.clone();
        tokio::join!(appliance.operator(clear(a)), appliance.operator(clear(b)));
        assert_eq!((submit(&first.api).await, submit(&second.api).await), (200, 200));
    }
}

/// An upgrade puts another file in the place of the one that runs, or removes it; what runs goes on with itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_whose_binary_was_replaced_still_answers() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let own = folder.path().join("gleaner");
    std::fs::copy(crate::harness::binary(), &own).expect("copied");
    let settings = [("BI__CONCURRENCY", "1")];
    let process = Process::start_binary(&own, &folder.path().join("data"), &settings);
    let member = crate::harness::member(&process.client(), &process.socket(), "upgraded").await;
    std::fs::remove_file(&own).expect("removed");
    std::fs::write(&own, "another release").expect("written");
    let other = crate::harness::member(&process.client(), &process.socket(), "neighbour").await;
    // Workers are made anew for each: one organization's rests at most, and is ended for the other's.
    for _ in 0..3 {
        for client in [&member.api, &other.api] {
            let body = json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 });
            let execution = expect(post(client, "/api/v1/bi/queries", &body).await, 200);
            assert_eq!(execution["status"], "success", "{execution}");
        }
    }
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_says_what_holds_the_workers() {
    let appliance = Appliance::start().await;
    let status = appliance.operator(Request::Status).await;
    let support = sql::sandbox::support();
    assert_eq!(status["sql"]["sandbox"], json!(support), "{status}");
    assert_eq!(status["sql"]["sandboxWarning"], json!(support.warning()));
    assert_eq!((&status["sql"]["running"], &status["sql"]["rowsLeftOut"]), (&json!(0), &json!(0)));
}
