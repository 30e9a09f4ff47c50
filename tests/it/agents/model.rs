//! A conversation beside a plain model of it: whatever is asked, clicked, typed, repeated or deleted in whatever order, by one or by
//! two at once, with restarts and kill -9 between and amid, nothing is saved without a click, nothing twice, and no receipt is
//! lost. Every answer on the way is held against the reference and against the contract's own shapes.

use super::{AGENTS, SAVED};
use crate::harness::process::Process;
use crate::harness::random::Random;
use crate::harness::reference::Reference;
use crate::harness::{expect, member, text};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

const STEPS: usize = 110;
/// Times that the process is killed amid a request.
const KILLS_MIN: usize = 6;

#[derive(Clone)]
struct Offer {
    id: String,
    name: String,
    resolved: Option<(String, String)>,
}

/// What there must be.
#[derive(Clone, Default)]
struct Model {
    /// In the order of the conversation.
    offers: Vec<Offer>,
    /// Saved queries that are there, by name.
    saved: BTreeMap<String, String>,
    /// The cards that saved something, with its id.
    receipts: Vec<(String, String)>,
    conflicts: Vec<String>,
}

impl Model {
    /// Takes in offers that the box has made since.
    fn learn(&mut self, history: &Value) {
        for entry in history["cards"].as_array().unwrap() {
            let card = &entry["card"];
            let known = self.offers.iter().any(|offer| card["id"] == offer.id.as_str());
            if card["type"] == "save_query_offer" && !known {
                let name = text(&card["payload"], "proposedName").to_owned();
                self.offers.push(Offer { id: text(card, "id").to_owned(), name, resolved: None });
            }
        }
    }

    /// What must be after an offer's action was clicked; the id of what was saved is the box's.
    fn clicked(&mut self, at: usize, action: &str, history: &Value) {
        let Offer { id, name, .. } = self.offers[at].clone();
        if action == "save" && self.saved.contains_key(&name) {
            return self.conflicts.push(id);
        }
        self.offers[at].resolved = Some((action.to_owned(), "click".to_owned()));
        if action == "save" {
            let receipts = history["saveReceipts"].as_array().unwrap();
            let saved = receipts.iter().find(|one| one["cardId"] == id.as_str());
            let saved = saved.and_then(|one| one["savedQueryId"].as_str()).unwrap_or_default().to_owned();
            self.saved.insert(name, saved.clone());
            self.receipts.push((id, saved));
        }
    }

    /// What differs between what the box says and what must be.
    fn differs(&self, history: &Value, saved: &[Value]) -> Option<String> {
        let mut names: Vec<&str> = saved.iter().map(|one| text(one, "name")).collect();
        names.sort_unstable();
        let expected: Vec<&str> = self.saved.keys().map(String::as_str).collect();
        if names != expected {
            return Some(format!("saved {names:?} for {expected:?}"));
        }
        let receipts = history["saveReceipts"].as_array().unwrap();
        let told: Vec<(&str, Option<&str>)> =
            receipts.iter().map(|one| (text(one, "cardId"), one["savedQueryId"].as_str())).collect();
        let is_there = |id: &&str| self.saved.values().any(|own| own == id);
        let expected: Vec<(&str, Option<&str>)> = self
            .receipts
            .iter()
            .map(|(card, id)| (card.as_str(), Some(id.as_str()).filter(is_there)))
            .collect();
        if told != expected {
            return Some(format!("receipts {told:?} for {expected:?}"));
        }
        let resolutions = history["resolutions"].as_array().unwrap();
        let resolved = self.offers.iter().filter(|offer| offer.resolved.is_some()).count();
        if resolutions.len() != resolved {
            return Some(format!("{} resolutions for {resolved}", resolutions.len()));
        }
        for offer in &self.offers {
            let told = resolutions.iter().find(|one| one["cardId"] == offer.id.as_str());
            let told = told.map(|one| (text(one, "actionId").to_owned(), text(one, "source").to_owned()));
            if told != offer.resolved {
                return Some(format!("{told:?} for {:?}", offer.resolved));
            }
        }
        let outcomes = history["saveOutcomes"].as_array().unwrap();
        let told: Vec<&str> = outcomes.iter().map(|one| text(one, "cardId")).collect();
        (told != self.conflicts).then(|| format!("outcomes {told:?} for {:?}", self.conflicts))
    }
}

/// The box as a process of its own, and its answers held against the reference.
struct Served {
    process: Process,
    data: std::path::PathBuf,
    key: String,
    api: Client,
    reference: Reference,
    agent: String,
    kills: usize,
}

impl Served {
    async fn start(data: std::path::PathBuf) -> Served {
        let process = Process::start(&data, &[]);
        let owner = member(&process.client(), &process.socket(), "ada").await;
        let api = process.client().bearer(&owner.key);
        let document = serde_json::from_str(include_str!("../../../data/openapi.json")).unwrap();
        let mut reference = Reference::new(document);
        let made = reference.call(&api, Method::POST, AGENTS, "", Some(&json!({}))).await;
        let agent = text(&expect(made, 201), "id").to_owned();
        Served { process, data, key: owner.key, api, reference, agent, kills: 0 }
    }

    fn again(self, kill: bool) -> Served {
        match kill {
            true => self.process.kill(),
            false => assert_eq!(self.process.terminate(), Some(0)),
        }
        let process = Process::start(&self.data, &[]);
        let api = process.client().bearer(&self.key);
        Served { process, api, kills: self.kills + usize::from(kill), ..self }
    }

    fn messages(&self) -> String {
        format!("{AGENTS}/{}/messages", self.agent)
    }

    async fn send(&mut self, body: &Value) -> Reply {
        let path = format!("{AGENTS}/{{id}}/messages");
        self.reference.call(&self.api, Method::POST, &path, &self.agent, Some(body)).await
    }

    async fn history(&mut self) -> Value {
        let path = format!("{AGENTS}/{{id}}/cards");
        let history =
            expect(self.reference.call(&self.api, Method::GET, &path, &self.agent, None).await, 200);
        is_of_the_contract(&history);
        history
    }

    async fn saved(&mut self) -> Vec<Value> {
        let path = format!("{SAVED}?limit=200");
        let saved = expect(self.reference.call(&self.api, Method::GET, &path, "", None).await, 200);
        saved["items"].as_array().unwrap().clone()
    }

    /// Two send the same at once, over connections of their own.
    async fn twice(&mut self, body: &Value) -> [u16; 2] {
        let path = self.messages();
        let (one, two) = (self.api.clone(), self.process.client().bearer(&self.key));
        let (one, two) = tokio::join!(
            one.send(Method::POST, &path, Some(body)),
            two.send(Method::POST, &path, Some(body))
        );
        let mut statuses = [one, two].map(|reply| reply.expect("an answer").status.as_u16());
        statuses.sort_unstable();
        statuses
    }

    /// Sends something and kills the process some time after; gives whether it was answered before that.
    async fn killed_amid(mut self, body: Value, after: Duration) -> (Served, bool) {
        let (api, path) = (self.process.client().bearer(&self.key), self.messages());
        let sent = tokio::spawn(async move { api.send(Method::POST, &path, Some(&body)).await });
        tokio::time::sleep(after).await;
        self = self.again(true);
        let answered = sent.await.expect("it does not panic");
        let answered = answered.is_ok_and(|reply| reply.status == 201);
        (self, answered)
    }
}

/// The members that an object of the contract has: exactly these, and those that may be left out.
fn members(value: &Value, must: &[&str], may: &[&str]) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    assert!(must.iter().all(|name| object.contains_key(*name)), "{must:?} in {value}");
    let known = |name: &String| must.contains(&name.as_str()) || may.contains(&name.as_str());
    assert!(object.keys().all(known), "{must:?} and nothing else in {value}");
}

fn is_uuid(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<Uuid>().is_ok())
}

/// The contract's shapes, to the letter ("Agent card history").
fn is_of_the_contract(history: &Value) {
    members(history, &["cards", "resolutions", "saveReceipts", "saveOutcomes"], &[]);
    let mut seq = 0;
    for entry in history["cards"].as_array().unwrap() {
        members(entry, &["seq", "turnId", "card"], &[]);
        assert!(entry["seq"].as_u64() > Some(seq) && is_uuid(&entry["turnId"]), "{entry}");
        seq = entry["seq"].as_u64().unwrap();
        let card = &entry["card"];
        members(card, &["id", "type", "version", "payload", "actions"], &[]);
        assert!(is_uuid(&card["id"]) && card["version"] == 1, "{card}");
        for action in card["actions"].as_array().unwrap() {
            members(action, &["id", "label", "value"], &["repeatable"]);
            assert!(action["id"].is_string() && action["label"].is_string(), "{action}");
        }
        if card["type"] == "save_query_offer" {
            let payload = &card["payload"];
            let names = ["sourceQueryId", "proposedName", "proposedDescription", "scopeKind", "scopeAgentId"];
            members(payload, &names, &[]);
            assert!(is_uuid(&payload["sourceQueryId"]) && is_uuid(&payload["scopeAgentId"]), "{payload}");
            assert!(payload["proposedName"].is_string() && payload["scopeKind"] == "agent", "{payload}");
            let description = &payload["proposedDescription"];
            assert!(description.is_string() || description.is_null(), "{payload}");
            assert_eq!(card["actions"].as_array().unwrap().len(), 2, "{card}");
        }
    }
    for one in history["resolutions"].as_array().unwrap() {
        let names = ["cardId", "cardType", "actionId", "value", "source", "sourceMessageId", "resolvedAt"];
        members(one, &names, &[]);
        assert!(is_uuid(&one["cardId"]) && is_uuid(&one["sourceMessageId"]), "{one}");
        assert!(["click", "typed", "legacy"].contains(&text(one, "source")), "{one}");
        assert!(one["cardType"].is_string() && one["actionId"].is_string(), "{one}");
        assert!(text(one, "resolvedAt").ends_with('Z'), "{one}");
    }
    for one in history["saveReceipts"].as_array().unwrap() {
        members(one, &["cardId", "sourceQueryId", "savedQueryId", "toolCallId"], &[]);
        assert!(is_uuid(&one["cardId"]) && is_uuid(&one["sourceQueryId"]), "{one}");
        assert!(is_uuid(&one["savedQueryId"]) || one["savedQueryId"].is_null(), "{one}");
        assert!(one["toolCallId"].is_string(), "{one}");
    }
    for one in history["saveOutcomes"].as_array().unwrap() {
        members(one, &["cardId", "status", "proposedName", "toolCallId"], &[]);
        assert!(is_uuid(&one["cardId"]) && one["status"] == "name_conflict", "{one}");
        assert!(one["proposedName"].is_string() || one["proposedName"].is_null(), "{one}");
    }
}

fn clicking(offer: &Offer, action: &str) -> Value {
    json!({ "cardId": offer.id, "actionId": action, "value": action })
}

/// Clicks Save and kills the process amid that: it has happened whole or not at all, and if it was answered it has.
async fn click_and_kill(at: Served, model: &mut Model, chosen: usize, after: Duration) -> Served {
    let was_open = model.offers[chosen].resolved.is_none();
    let (mut at, answered) = at.killed_amid(clicking(&model.offers[chosen], "save"), after).await;
    let (told, saved) = (at.history().await, at.saved().await);
    let mut done = model.clone();
    if was_open {
        done.clicked(chosen, "save", &told);
    }
    done.learn(&told);
    model.learn(&told);
    let (with, without) = (done.differs(&told, &saved), model.differs(&told, &saved));
    match with {
        None => *model = done,
        Some(with) => assert!(without.is_none() && !(answered && was_open), "{with}; {without:?}"),
    }
    at
}

/// One step; the model says what must be after it.
async fn step(mut at: Served, model: &mut Model, random: &mut Random) -> Served {
    let offers = model.offers.len();
    match random.below(16) {
        _ if offers == 0 => {
            expect(at.send(&json!({ "text": "SELECT 1 AS one" })).await, 201);
        }
        0 | 1 => {
            let said =
                ["SELECT 0 AS one", "SELECT 1 AS one", "how many jobs", "jobs by status", "what is it"];
            expect(at.send(&json!({ "text": said[random.below(said.len())] })).await, 201);
        }
        2..=5 => {
            let (chosen, action) = (random.below(offers), ["save", "save", "dismiss"][random.below(3)]);
            let was_open = model.offers[chosen].resolved.is_none();
            let reply = at.send(&clicking(&model.offers[chosen], action)).await;
            assert_eq!(reply.status, if was_open { 201 } else { 409 }, "{}", reply.text());
            if was_open {
                model.clicked(chosen, action, &at.history().await);
            }
        }
        6 | 7 => {
            let chosen = random.below(offers);
            let was_open = model.offers[chosen].resolved.is_none();
            let is_taken = model.saved.contains_key(&model.offers[chosen].name);
            let statuses = at.twice(&clicking(&model.offers[chosen], "save")).await;
            let expected = match (was_open, is_taken) {
                (false, _) => [409, 409],
                (true, true) => [201, 201],
                (true, false) => [201, 409],
            };
            assert_eq!(statuses, expected);
            for _ in statuses.iter().filter(|status| **status == 201) {
                model.clicked(chosen, "save", &at.history().await);
            }
        }
        8 | 9 => {
            let word = ["save", "Dismiss."][random.below(2)];
            expect(at.send(&json!({ "text": word })).await, 201);
            let newest = model.offers.last_mut().unwrap();
            newest.resolved.get_or_insert((word.trim_end_matches('.').to_lowercase(), "typed".to_owned()));
        }
        10 | 11 => {
            let name = model.saved.keys().next().cloned();
            if let Some(id) = name.and_then(|name| model.saved.remove(&name)) {
                assert_eq!(at.api.delete(&format!("{SAVED}/{id}")).await.unwrap().status, 204);
            }
        }
        12 => at = at.again(false),
        13 => at = at.again(true),
        _ => {
            let chosen = random.below(offers);
            let after = Duration::from_micros(random.below(12_000) as u64);
            at = click_and_kill(at, model, chosen, after).await;
        }
    }
    at
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_as_its_model_says_over_kills_and_two_clicks_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut at = Served::start(folder.path().join("data")).await;
    let seed = std::env::var("GLEANER_RANDOM_SEEDS").ok().and_then(|seed| seed.parse().ok()).unwrap_or(17);
    let (mut model, mut random) = (Model::default(), Random(seed));
    for number in 0..STEPS {
        at = step(at, &mut model, &mut random).await;
        let (told, saved) = (at.history().await, at.saved().await);
        model.learn(&told);
        let differs = model.differs(&told, &saved);
        assert_eq!(differs, None, "step {number}, seed {seed}");
    }
    let path = format!("{AGENTS}/{{id}}/messages?limit=200");
    let agent = at.agent.clone();
    expect(at.reference.call(&at.api, Method::GET, &path, &agent, None).await, 200);
    at.reference.assert_kept();
    assert!(model.receipts.len() > 3 && !model.conflicts.is_empty(), "{}", model.receipts.len());
    assert!(at.kills >= KILLS_MIN, "{} kills", at.kills);
    assert_eq!(at.process.terminate(), Some(0));
}
