//! What the operator sees and does: the kill switch, and the walls in `admin status`.

use crate::harness::{Appliance, eventually, expect, get, post, text};
use gleaner::admin::{self, Request};
use gleaner::engine::sql::Fingerprint;
use gleaner::features::bi::{KillSwitchOrder, KillTarget};
use gleaner::http::client::Client;
use serde_json::json;
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

    // It survives a restart.
    appliance.restart().await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_says_what_holds_the_workers() {
    let appliance = Appliance::start().await;
    let status = appliance.operator(Request::Status).await;
    let support = gleaner::engine::sql::sandbox::support();
    assert_eq!(status["sql"]["sandbox"], json!(support), "{status}");
    assert_eq!(status["sql"]["sandboxWarning"], json!(support.warning()));
    assert_eq!((&status["sql"]["running"], &status["sql"]["rowsLeftOut"]), (&json!(0), &json!(0)));
}
