//! Conversations: listAgents, createAgent, getAgent, deleteAgent, listMessages, sendMessage, getAgentCards.

mod llm;
mod model;

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Request, ended, eventually, expect, get, join, post, refused, text};
use crate::workflows::{chain, direct, draft};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;
use uuid::Uuid;

const AGENTS: &str = "/api/v1/agents";
const SAVED: &str = "/api/v1/bi/saved-queries";

async fn agent(api: &Client) -> String {
    let made = expect(post(api, AGENTS, &json!({})).await, 201);
    format!("{AGENTS}/{}", text(&made, "id"))
}

async fn say(api: &Client, agent: &str, words: &str) -> Value {
    expect(post(api, &format!("{agent}/messages"), &json!({ "text": words })).await, 201)
}

async fn history(api: &Client, agent: &str) -> Value {
    expect(get(api, &format!("{agent}/cards")).await, 200)
}

/// The newest card of a type.
async fn card(api: &Client, agent: &str, kind: &str) -> Value {
    let history = history(api, agent).await;
    let cards = history["cards"].as_array().unwrap();
    let found = cards.iter().rev().find(|entry| entry["card"]["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {history}"))["card"].clone()
}

fn click(card: &Value, action: &str) -> Value {
    let actions = card["actions"].as_array().unwrap();
    let action = actions.iter().find(|one| one["id"] == action).unwrap();
    json!({ "cardId": card["id"], "actionId": action["id"], "value": action["value"] })
}

async fn saved(api: &Client) -> Vec<Value> {
    expect(get(api, SAVED).await, 200)["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_click_saves_once_and_its_receipt_outlives_what_was_saved() {
    let mut at = Appliance::start().await;
    let member = at.member("ada").await;
    let api = &member.api;
    let one = agent(api).await;
    let turn = say(api, &one, "SELECT 1 AS one, 'x' AS word").await;
    let replies = turn["replies"].as_array().unwrap();
    assert!(text(&replies[0], "text").contains("SELECT 1 AS one"), "{turn}");
    let table = card(api, &one, "table").await;
    assert_eq!((&table["version"], &table["actions"]), (&json!(1), &json!([])));
    assert_eq!(table["payload"]["rows"], json!([[1, "x"]]));
    let offer = card(api, &one, "save_query_offer").await;
    let payload = &offer["payload"];
    assert_eq!(offer["actions"].as_array().unwrap().len(), 2);
    assert_eq!((&offer["version"], &payload["scopeKind"]), (&json!(1), &json!("agent")));
    assert!(one.ends_with(text(payload, "scopeAgentId")));
    assert_eq!(payload["sourceQueryId"], replies[0]["queryId"]);

    // What is no action of the card's is refused and resolves nothing.
    let messages = format!("{one}/messages");
    let mut odd = click(&offer, "save");
    odd["value"] = json!("dismiss");
    refused(&post(api, &messages, &odd).await, 400, "Validation failed", "value");
    let other = json!({ "cardId": offer["id"], "actionId": "publish" });
    refused(&post(api, &messages, &other).await, 400, "Validation failed", "actionId");
    let nobodys = json!({ "cardId": Uuid::now_v7(), "actionId": "save" });
    refused(&post(api, &messages, &nobodys).await, 400, "Validation failed", "cardId");
    assert_eq!(history(api, &one).await["resolutions"], json!([]));

    // Two clicks at once: one wins.
    let body = click(&offer, "save");
    let (first, second) = tokio::join!(post(api, &messages, &body), post(api, &messages, &body));
    let mut statuses = [first.status.as_u16(), second.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409], "{} {}", first.text(), second.text());
    assert_eq!(saved(api).await.len(), 1);
    at.restart().await;
    let api = &at.client().bearer(&member.key);
    assert_eq!(post(api, &messages, &body).await.status, 409);
    let kept = saved(api).await;
    assert_eq!((kept.len(), &kept[0]["scopeKind"]), (1, &json!("agent")));
    let before = history(api, &one).await;
    let resolution = &before["resolutions"][0];
    assert_eq!(
        (&resolution["source"], &resolution["cardType"]),
        (&json!("click"), &json!("save_query_offer"))
    );
    assert_eq!(before["saveReceipts"][0]["savedQueryId"], kept[0]["id"]);

    // The saved query goes; the receipt stays, and nothing saves again.
    let path = format!("{SAVED}/{}", text(&kept[0], "id"));
    assert_eq!(api.delete(&path).await.unwrap().status, 204);
    let after = history(api, &one).await;
    assert_eq!(after["saveReceipts"][0]["savedQueryId"], json!(null));
    assert_eq!(after["saveReceipts"][0]["sourceQueryId"], payload["sourceQueryId"]);
    assert_eq!(post(api, &messages, &body).await.status, 409);
    assert!(saved(api).await.is_empty());
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_name_saves_nothing_but_the_outcome_and_words_never_save() {
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    let api = &member.api;
    let one = agent(api).await;
    let messages = format!("{one}/messages");
    for _ in 0..2 {
        say(api, &one, "SELECT 1 AS one").await;
    }
    let shown = history(api, &one).await;
    let offers: Vec<&Value> = shown["cards"].as_array().unwrap().iter().map(|entry| &entry["card"]).collect();
    let offers: Vec<&&Value> = offers.iter().filter(|card| card["type"] == "save_query_offer").collect();
    expect(post(api, &messages, &click(offers[0], "save")).await, 201);
    expect(post(api, &messages, &click(offers[1], "save")).await, 201);
    let shown = history(api, &one).await;
    assert_eq!((shown["resolutions"].as_array().unwrap().len(), saved(api).await.len()), (1, 1));
    let outcome = &shown["saveOutcomes"][0];
    assert_eq!((&outcome["cardId"], &outcome["status"]), (&offers[1]["id"], &json!("name_conflict")));
    assert_eq!(outcome["proposedName"], offers[1]["payload"]["proposedName"]);

    // The same is offered under a name that is free; words only offer it again.
    let renamed = card(api, &one, "save_query_offer").await;
    assert_ne!(renamed["payload"]["proposedName"], offers[1]["payload"]["proposedName"]);
    say(api, &one, "Save").await;
    let shown = history(api, &one).await;
    let typed = shown["resolutions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&typed["source"], &typed["actionId"]), (&json!("typed"), &json!("save")));
    assert_eq!((shown["saveReceipts"].as_array().unwrap().len(), saved(api).await.len()), (1, 1));

    // Once the name is free, the card that met it can be answered again.
    let path = format!("{SAVED}/{}", text(&saved(api).await[0], "id"));
    assert_eq!(api.delete(&path).await.unwrap().status, 204);
    expect(post(api, &messages, &click(offers[1], "save")).await, 201);
    assert_eq!(saved(api).await.len(), 1);
    say(api, &one, "dismiss").await;
    let shown = history(api, &one).await;
    let last = shown["resolutions"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["source"], &last["actionId"]), (&json!("typed"), &json!("dismiss")));
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_are_answered_asked_back_or_declined() {
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    let (api, one) = (&member.api, agent(&member.api).await);
    let id = one.rsplit('/').next().unwrap().to_owned();
    let urls = json!({ "urls": [
        { "url": "https://shop.example/a", "metadata": { "agentId": id } },
        { "url": "https://shop.example/b", "metadata": { "agentId": id } },
        { "url": "https://other.example/c" },
    ] });
    expect(post(api, "/api/v1/urls", &urls).await, 200);
    eventually("the agent sees its own URLs and no other", Duration::from_secs(30), || async {
        let turn = say(api, &one, "how many urls are registered").await;
        text(&turn["replies"][0], "text").ends_with("count: 2").then_some(())
    })
    .await;
    let turn = say(api, &one, "by domain").await;
    assert!(text(&turn["replies"][0], "text").contains("GROUP BY"), "{turn}");
    assert_eq!(card(api, &one, "table").await["payload"]["rows"], json!([["shop.example", 2]]));

    // What is beyond its scope is refused, however it is asked.
    let turn = say(api, &one, "SELECT count(*) FROM providers").await;
    assert!(text(&turn["replies"][0], "text").contains("rls_denied"), "{turn}");
    let turn = say(api, &one, "how many providers are enabled").await;
    assert!(text(&turn["replies"][0], "text").contains("providers is outside"), "{turn}");
    let turn = say(api, &one, "DROP TABLE jobs").await;
    assert!(text(&turn["replies"][0], "text").contains("cannot be run"), "{turn}");

    // What nobody can read is declined with three examples, and asked back where it is unclear.
    let turn = say(api, &one, "what is the weather in Paris").await;
    let declined = text(&turn["replies"][0], "text");
    assert_eq!(declined.matches("\n- ").count(), 3, "{declined}");
    assert!(turn["replies"][0].get("cardId").is_none());
    let listed = expect(get(api, &format!("{one}/messages?limit=200")).await, 200);
    let seqs: Vec<u64> =
        listed["items"].as_array().unwrap().iter().map(|one| one["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_is_refused_and_strangers_see_nothing() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let one = agent(&ada.api).await;
    say(&ada.api, &one, "SELECT 1 AS one").await;
    let offer = card(&ada.api, &one, "save_query_offer").await;
    let theirs = agent(&eve.api).await;
    for path in [one.clone(), format!("{one}/messages"), format!("{one}/cards")] {
        assert_eq!(get(&eve.api, &path).await.status, 404, "{path}");
    }
    // A card of somebody else's is as one that is missing.
    let messages = format!("{theirs}/messages");
    let stolen = click(&offer, "save");
    refused(&post(&eve.api, &messages, &stolen).await, 400, "Validation failed", "cardId");
    assert_eq!(post(&eve.api, &format!("{one}/messages"), &stolen).await.status, 404);
    assert!(saved(&ada.api).await.is_empty() && saved(&eve.api).await.is_empty());

    let viewer = join(&at, &ada.browser, "vera", "viewer").await;
    assert_eq!(get(&viewer.browser, &format!("{one}/cards")).await.status, 200);
    let said = post(&viewer.browser, &format!("{one}/messages"), &json!({ "text": "how many jobs" })).await;
    assert_eq!(said.status, 403);
    // A key that may ask and not read the console, or read it and not save, does no more than that.
    for (permissions, body) in [
        (json!(["agents:write"]), json!({ "text": "SELECT 1 AS one" })),
        (json!(["agents:write", "bi:read"]), click(&offer, "save")),
    ] {
        let new = json!({ "name": "small", "permissions": permissions });
        let key = expect(post(&ada.browser, "/api/v1/api-keys", &new).await, 201);
        let small = at.client().bearer(text(&key, "secret"));
        let reply = post(&small, &format!("{one}/messages"), &body).await;
        assert_eq!(reply.status, 403, "{}", reply.text());
    }
    assert!(saved(&ada.api).await.is_empty());
    at.operator(Request::OrgPlan { org: ada.org_id.clone(), plan: "trial".to_owned() }).await;
    refused(&get(&ada.api, AGENTS).await, 403, "Not included in the plan", "agents");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_text_and_list_has_its_bound() {
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    let (api, one) = (&member.api, agent(&member.api).await);
    let messages = format!("{one}/messages");
    for (body, field) in [
        (json!({}), "text"),
        (json!({ "text": "  " }), "text"),
        (json!({ "text": "x".repeat(16_001) }), "text"),
        (json!({ "text": "a\u{0}b" }), "text"),
        (json!({ "text": "x", "cardId": Uuid::now_v7(), "actionId": "save" }), "text"),
        (json!({ "cardId": Uuid::now_v7() }), "actionId"),
        (json!({ "actionId": "save" }), "cardId"),
        (json!({ "text": "x", "value": 1 }), "value"),
    ] {
        refused(&post(api, &messages, &body).await, 400, "Validation failed", field);
    }
    refused(&post(api, AGENTS, &json!({ "name": "x".repeat(201) })).await, 400, "Validation failed", "name");
    // Long and odd ones are read within bounds and answered.
    for words in ["jobs by ".repeat(2_000), "ä".repeat(16_000), "'\"`“<>=".repeat(2_000)] {
        let turn = say(api, &one, words.trim()).await;
        assert_eq!(turn["replies"].as_array().unwrap().len(), 1, "{turn}");
    }
    assert_eq!(api.delete(&one).await.unwrap().status, 204);
    assert_eq!(get(api, &format!("{one}/cards")).await.status, 404);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_binds_its_jobs_to_an_agent() {
    let web = Web::open(|_| Some(Answer::html("<title>x</title><p>A page of some words.</p>"))).await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let (one, other) = (agent(api).await, agent(api).await);
    let id = one.rsplit('/').next().unwrap();
    let mut dag = chain(&[&direct(&member).await]);
    dag["nodes"][0]["config"] = json!({ "agentId": "nobody" });
    let wrong = expect(post(api, "/api/v1/workflows/validate", &json!({ "dag": dag })).await, 200);
    assert_eq!(
        (&wrong["valid"], &wrong["errors"][0]["path"]),
        (&json!(false), &json!("dag.nodes[0].config.agentId"))
    );
    dag["nodes"][0]["config"] = json!({ "agentId": id });
    let bound = draft(&member, "bound", &dag).await;
    expect(post(api, &format!("/api/v1/workflows/{bound}/publish"), &json!({})).await, 200);
    // Somebody else's workflow that names the agent binds nothing of anybody's.
    let mut theirs = chain(&[&direct(&stranger).await]);
    theirs["nodes"][0]["config"] = json!({ "agentId": id });
    let theirs = draft(&stranger, "theirs", &theirs).await;
    expect(post(&stranger.api, &format!("/api/v1/workflows/{theirs}/publish"), &json!({})).await, 200);
    for (api, workflow, path) in
        [(api, Some(&bound), "/mine"), (api, None, "/free"), (&stranger.api, Some(&theirs), "/theirs")]
    {
        let job = json!({ "url": web.url(path), "workflowId": workflow });
        let job = expect(post(api, "/api/v1/jobs", &job).await, 201);
        ended(api, text(&job, "id")).await;
    }
    eventually("the agent sees the jobs of its workflow", Duration::from_secs(60), || async {
        let turn = say(api, &one, "SELECT url, (SELECT count(*) FROM readings) AS read FROM jobs").await;
        let cards = history(api, &one).await;
        let rows = &cards["cards"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .find(|entry| entry["card"]["type"] == "table")?["card"]["payload"]["rows"];
        assert!(!turn.to_string().contains("/free") && !turn.to_string().contains("/theirs"), "{turn}");
        (*rows == json!([[web.url("/mine"), 1]])).then_some(())
    })
    .await;
    let turn = say(api, &other, "how many jobs are there").await;
    assert!(text(&turn["replies"][0], "text").ends_with("count: 0"), "{turn}");
    at.stop().await;
}
