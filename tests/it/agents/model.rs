//! A conversation beside a plain model of it: whatever is asked, clicked, typed, repeated or deleted in whatever order, with
//! restarts between, nothing is saved without a click, nothing twice, and no receipt is lost.

use super::{SAVED, agent, history, saved, say};
use crate::harness::random::Random;
use crate::harness::{Appliance, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeMap;

const STEPS: usize = 90;

struct Offer {
    id: String,
    name: String,
    resolved: Option<(String, String)>,
}

/// What there must be.
#[derive(Default)]
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

    /// Holds what the box says against what must be.
    fn hold(&self, history: &Value, saved: &[Value], step: &str) {
        let mut names: Vec<&str> = saved.iter().map(|one| text(one, "name")).collect();
        names.sort_unstable();
        let expected: Vec<&str> = self.saved.keys().map(String::as_str).collect();
        assert_eq!(names, expected, "{step}");
        let receipts = history["saveReceipts"].as_array().unwrap();
        let told: Vec<(&str, Option<&str>)> =
            receipts.iter().map(|one| (text(one, "cardId"), one["savedQueryId"].as_str())).collect();
        let expected: Vec<(&str, Option<&str>)> = self
            .receipts
            .iter()
            .map(|(card, id)| {
                (card.as_str(), Some(id.as_str()).filter(|id| self.saved.values().any(|own| own == id)))
            })
            .collect();
        assert_eq!(told, expected, "{step}");
        let resolutions = history["resolutions"].as_array().unwrap();
        assert_eq!(
            resolutions.len(),
            self.offers.iter().filter(|offer| offer.resolved.is_some()).count(),
            "{step}"
        );
        for offer in &self.offers {
            let told = resolutions.iter().find(|one| one["cardId"] == offer.id.as_str());
            let told = told.map(|one| (text(one, "actionId").to_owned(), text(one, "source").to_owned()));
            assert_eq!(told, offer.resolved, "{step}");
        }
        let outcomes = history["saveOutcomes"].as_array().unwrap();
        let told: Vec<&str> = outcomes.iter().map(|one| text(one, "cardId")).collect();
        assert_eq!(told, self.conflicts, "{step}");
    }
}

/// Clicks an action of an offer, or does it once more.
async fn click(api: &Client, agent: &str, model: &mut Model, at: usize, action: &str) {
    let body = json!({ "cardId": model.offers[at].id, "actionId": action });
    let reply = post(api, &format!("{agent}/messages"), &body).await;
    let offer = &mut model.offers[at];
    if offer.resolved.is_some() {
        assert_eq!(reply.status, 409, "{}", reply.text());
        return;
    }
    assert_eq!(reply.status, 201, "{}", reply.text());
    if action == "save" && model.saved.contains_key(&offer.name) {
        model.conflicts.push(offer.id.clone());
        return;
    }
    offer.resolved = Some((action.to_owned(), "click".to_owned()));
    if action == "save" {
        let history = history(api, agent).await;
        let receipt = history["saveReceipts"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(receipt["cardId"], offer.id.as_str());
        let id = text(&receipt, "savedQueryId").to_owned();
        model.saved.insert(offer.name.clone(), id.clone());
        model.receipts.push((offer.id.clone(), id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_as_its_model_says() {
    let mut at = Appliance::start().await;
    let member = at.member("ada").await;
    let mut api = member.api.clone();
    let one = agent(&api).await;
    let (mut model, mut random) = (Model::default(), Random(17));
    for step in 0..STEPS {
        let offers = model.offers.len();
        let what = random.below(12);
        match what {
            _ if offers == 0 || what < 2 => {
                say(&api, &one, &format!("SELECT {} AS one", random.below(2))).await;
            }
            2..=6 => {
                let chosen = random.below(offers);
                let action = if random.below(4) == 0 { "dismiss" } else { "save" };
                click(&api, &one, &mut model, chosen, action).await;
            }
            7 | 8 => {
                let word = ["save", "Dismiss."][random.below(2)];
                say(&api, &one, word).await;
                let newest = model.offers.last_mut().unwrap();
                let action = word.trim_end_matches('.').to_lowercase();
                newest.resolved.get_or_insert((action, "typed".to_owned()));
            }
            9 | 10 => {
                let name = model.saved.keys().next().cloned();
                if let Some(id) = name.and_then(|name| model.saved.remove(&name)) {
                    assert_eq!(api.delete(&format!("{SAVED}/{id}")).await.unwrap().status, 204);
                }
            }
            _ => {
                if step % 3 == 0 {
                    at.restart().await;
                    api = at.client().bearer(&member.key);
                }
            }
        }
        let told = history(&api, &one).await;
        model.learn(&told);
        model.hold(&told, &saved(&api).await, &format!("step {step}, {what}"));
    }
    assert!(model.receipts.len() > 3 && !model.conflicts.is_empty());
    at.stop().await;
}
