//! Many callers who want the same thing: an address, an organization of one's own, the end of a key or of a member.

use super::{statuses, together};
use crate::harness::{Appliance, PASSWORD, expect, get, join, post, text};
use serde_json::{Value, json};

const CALLERS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_registered_once() {
    let at = Appliance::start().await;
    // The same address in different spellings.
    let spellings = ["ada@example.com", "ADA@example.com", " ada@EXAMPLE.com"];
    let people: Vec<_> = (0..CALLERS)
        .map(|n| json!({ "email": spellings[n % 3], "password": PASSWORD, "name": format!("Ada {n}") }))
        .collect();
    let client = at.client();
    let replies = together(people.iter().map(|person| post(&client, "/api/v1/auth/register", person))).await;
    assert_eq!(statuses(&replies), [(201, 1), (409, CALLERS - 1)]);
    let winner = replies.into_iter().find(|reply| reply.status == 201).unwrap().json;
    let me = expect(get(&at.client().bearer(text(&winner, "accessToken")), "/api/v1/auth/me").await, 200);
    assert_eq!(me["user"], winner["user"]);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_makes_one_organization() {
    let at = Appliance::start().await;
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let ada = at.client().bearer(text(&login, "accessToken"));
    let names: Vec<Value> = (0..CALLERS).map(|n| json!({ "name": format!("Acme {n}") })).collect();
    let replies = together(names.iter().map(|name| post(&ada, "/api/v1/orgs", name))).await;
    assert_eq!(statuses(&replies), [(201, 1), (409, CALLERS - 1)]);
    let winner = replies.into_iter().find(|reply| reply.status == 201).unwrap().json;
    assert_eq!(expect(get(&ada, "/api/v1/orgs/current").await, 200), winner["organization"]);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_and_a_membership_end_once() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let bob = join(&at, &ada.browser, "bob", "viewer").await;
    let key = expect(post(&ada.browser, "/api/v1/api-keys", &json!({ "name": "gone" })).await, 201);
    for path in [
        format!("/api/v1/api-keys/{}", text(&key["apiKey"], "id")),
        format!("/api/v1/orgs/current/members/{}", bob.id),
    ] {
        let replies =
            together((0..CALLERS).map(|_| async { ada.browser.delete(&path).await.unwrap() })).await;
        assert_eq!(statuses(&replies), [(204, 1), (404, CALLERS - 1)], "{path}");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_invitations_to_one_address_the_last_is_left() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let invite = json!({ "email": "eve@example.com", "role": "viewer" });
    let replies =
        together((0..CALLERS).map(|_| post(&ada.browser, "/api/v1/orgs/current/invites", &invite))).await;
    assert_eq!(statuses(&replies), [(201, CALLERS)]);
    let list = expect(get(&ada.browser, "/api/v1/orgs/current/invites").await, 200);
    let items = list["items"].as_array().unwrap();
    assert!(items.len() == 1 && replies.iter().any(|reply| reply.json == items[0]), "{list}");
    let token = at.mailed_token("gli_").await;
    let person = json!({ "email": "eve@example.com", "password": PASSWORD, "name": "Eve" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let eve = at.client().bearer(text(&login, "accessToken"));
    expect(post(&eve, "/api/v1/invites/accept", &json!({ "token": token })).await, 200);
    at.stop().await;
}
