//! An organization never ends without an owner, whatever its owners do to each other at once; and who has just lost the
//! right to do something has lost it also for the request that is under way.

use super::{statuses, together};
use crate::harness::{Appliance, Joined, Member, expect, get, join};
use http::Method;
use serde_json::json;
use server::client::{Client, Reply};

const MEMBERS: &str = "/api/v1/orgs/current/members";
const ME: &str = "/api/v1/auth/me";
const ROUNDS: usize = 6;

async fn set_role(client: &Client, user: &str, role: &str) -> Reply {
    client.send(Method::PATCH, &format!("{MEMBERS}/{user}"), Some(&json!({ "role": role }))).await.unwrap()
}

async fn remove(client: &Client, user: &str) -> Reply {
    client.delete(&format!("{MEMBERS}/{user}")).await.unwrap()
}

/// Two owners of a fresh organization.
async fn two_owners(at: &Appliance, round: usize) -> (Member, Joined) {
    let ada = at.member(&format!("ada{round}")).await;
    let bob = join(at, &ada.browser, &format!("bob{round}"), "owner").await;
    (ada, bob)
}

/// Exactly one is an owner now.
async fn one_owner_is_left(ada: &Member, bob: &Joined) {
    let mut owners = 0;
    for client in [&ada.browser, &bob.browser] {
        owners += usize::from(expect(get(client, ME).await, 200)["role"] == "owner");
    }
    assert_eq!(owners, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_owners_who_leave_one_stays() {
    let at = Appliance::start().await;
    for round in 0..ROUNDS {
        let (ada, bob) = two_owners(&at, round).await;
        let replies = together([remove(&ada.browser, &ada.user_id), remove(&bob.browser, &bob.id)]).await;
        assert_eq!(statuses(&replies), [(204, 1), (409, 1)]);
        one_owner_is_left(&ada, &bob).await;
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_owners_who_remove_each_other_one_stays() {
    let at = Appliance::start().await;
    for round in 0..ROUNDS {
        let (ada, bob) = two_owners(&at, round).await;
        let replies = together([remove(&ada.browser, &bob.id), remove(&bob.browser, &ada.user_id)]).await;
        assert_eq!(statuses(&replies), [(204, 1), (403, 1)]);
        one_owner_is_left(&ada, &bob).await;
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_owner_who_steps_down_and_one_who_leaves_one_stays() {
    let at = Appliance::start().await;
    for round in 0..ROUNDS {
        let (ada, bob) = two_owners(&at, round).await;
        let (down, gone) =
            tokio::join!(set_role(&ada.browser, &ada.user_id, "viewer"), remove(&bob.browser, &bob.id));
        let answers = [down.status.as_u16(), gone.status.as_u16()];
        assert!(answers == [200, 409] || answers == [409, 204], "{answers:?}");
        one_owner_is_left(&ada, &bob).await;
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_administrators_who_demote_each_other_one_stays() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let bob = join(&at, &ada.browser, "bob", "admin").await;
    let eve = join(&at, &ada.browser, "eve", "admin").await;
    for _ in 0..ROUNDS {
        let replies =
            together([set_role(&bob.browser, &eve.id, "viewer"), set_role(&eve.browser, &bob.id, "viewer")])
                .await;
        assert_eq!(statuses(&replies), [(200, 1), (403, 1)]);
        for id in [&bob.id, &eve.id] {
            expect(set_role(&ada.browser, id, "admin").await, 200);
        }
    }
    at.stop().await;
}
