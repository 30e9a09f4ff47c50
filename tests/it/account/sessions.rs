//! A person's own sessions: listed, and ended from elsewhere.

use super::{EXPORT, EXPORTS, ME};
use crate::harness::{Appliance, PASSWORD, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const SESSIONS: &str = "/api/v1/account/sessions"; // listSessions, endOtherSessions, endSession
const REFRESH: &str = "/api/v1/auth/refresh";
const CONSOLE: &str = "/console/session";

async fn login(at: &Appliance, email: &str) -> Value {
    let credentials = json!({ "email": email, "password": PASSWORD });
    expect(post(&at.client(), "/api/v1/auth/login", &credentials).await, 200)
}

fn bearer(at: &Appliance, tokens: &Value) -> Client {
    at.client().bearer(text(tokens, "accessToken"))
}

async fn refresh(at: &Appliance, tokens: &Value) -> server::client::Reply {
    post(&at.client(), REFRESH, &json!({ "refreshToken": tokens["refreshToken"] })).await
}

async fn listed(client: &Client) -> Vec<Value> {
    let list = expect(get(client, SESSIONS).await, 200);
    assert_eq!(list["nextCursor"], Value::Null, "{list}");
    list["items"].as_array().unwrap().clone()
}

/// The id of the session that asks.
async fn own(client: &Client) -> String {
    let items = listed(client).await;
    let own: Vec<_> = items.iter().filter(|one| one["isCurrent"] == true).collect();
    assert_eq!(own.len(), 1, "{items:?}");
    text(own[0], "id").to_owned()
}

/// A page of the box, signed in.
async fn browser(at: &Appliance, email: &str) -> Client {
    let page = at.client().header("origin", at.app().url()).header("x-gleaner-session", "1");
    let begun = post(&page, CONSOLE, &json!({ "email": email, "password": PASSWORD })).await;
    assert_eq!(begun.status, 204, "{}", begun.text());
    page.header("cookie", begun.header("set-cookie").split(';').next().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_listed_to_their_person_and_each_can_be_ended() {
    let at = Appliance::start().await;
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    // Somebody without an organization has sessions, too.
    let laptop = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let phone = login(&at, "ada@example.com").await;
    let desk = browser(&at, "ada@example.com").await;
    let (laptop_is, phone_is) = (bearer(&at, &laptop), bearer(&at, &phone));
    let ids = [own(&laptop_is).await, own(&phone_is).await, own(&desk).await];
    let items = listed(&desk).await;
    let mut found: Vec<_> = items.iter().map(|one| text(one, "id").to_owned()).collect();
    found.sort();
    let mut expected = ids.to_vec();
    expected.sort();
    assert_eq!(found, expected);
    for one in &items {
        assert!(one["isByProvider"] == false && one["createdAt"] == one["refreshedAt"], "{one}");
        assert!(text(one, "expiresAt") > text(one, "createdAt"), "{one}");
        assert_eq!(one.as_object().unwrap().len(), 6, "nothing of its secret: {one}");
    }
    let dates: Vec<_> = items.iter().map(|one| text(one, "createdAt").to_owned()).collect();
    assert!(dates.is_sorted_by(|a, b| a >= b), "the newest first: {dates:?}");

    // One that is refreshed stays the one that it is.
    at.clock.advance(Duration::from_secs(60));
    let laptop = expect(refresh(&at, &laptop).await, 200);
    let laptop_is = bearer(&at, &laptop);
    let items = listed(&laptop_is).await;
    let own_row = items.iter().find(|one| one["isCurrent"] == true).unwrap();
    assert_eq!(own_row["id"], ids[0]);
    assert!(text(own_row, "refreshedAt") > text(own_row, "createdAt"), "{own_row}");

    let path = format!("{SESSIONS}/{}", ids[1]);
    assert_eq!(laptop_is.delete(&path).await.unwrap().status, 204);
    refused(&get(&phone_is, ME).await, 401, "Invalid authentication token", "session has ended");
    refused(&refresh(&at, &phone).await, 401, "Invalid refresh token", "");
    refused(&laptop_is.delete(&path).await.unwrap(), 404, "Session not found", "");
    // A browser's ends as well, and one's own by its id.
    for (id, gone) in [(&ids[2], &desk), (&ids[0], &laptop_is)] {
        expect(get(gone, ME).await, 200);
        assert_eq!(laptop_is.delete(&format!("{SESSIONS}/{id}")).await.unwrap().status, 204);
        assert_eq!(get(gone, ME).await.status, 401);
    }
    refused(&refresh(&at, &laptop).await, 401, "Invalid refresh token", "");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_or_ends_another_s_and_no_key_does() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let id = own(&ada.browser).await;
    assert!(listed(&eve.browser).await.iter().all(|one| one["id"] != id.as_str()));
    let theirs = eve.browser.delete(&format!("{SESSIONS}/{id}")).await.unwrap();
    let nobodys = format!("{SESSIONS}/{}", uuid::Uuid::new_v4());
    let missing = eve.browser.delete(&nobodys).await.unwrap();
    assert_eq!((theirs.status, theirs.text()), (missing.status, missing.text()));
    refused(&theirs, 404, "Session not found", "");
    expect(eve.browser.delete(SESSIONS).await.unwrap(), 200);
    expect(get(&ada.browser, ME).await, 200);
    // A key may be lost: it neither tells where its maker is signed in nor ends that.
    for reply in [
        get(&ada.api, SESSIONS).await,
        ada.api.delete(SESSIONS).await.unwrap(),
        ada.api.delete(&format!("{SESSIONS}/{id}")).await.unwrap(),
    ] {
        assert_eq!(
            (reply.status.as_u16(), reply.text().contains("API key")),
            (403, true),
            "{}",
            reply.text()
        );
    }
    assert_eq!(get(&at.client(), SESSIONS).await.status, 401);
    expect(get(&ada.browser, ME).await, 200);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_others_end_with_what_they_were_given_and_the_one_that_asks_goes_on() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let (thief, own_login) = (login(&at, &ada.email).await, login(&at, &ada.email).await);
    let (thief_is, own_is) = (bearer(&at, &thief), bearer(&at, &own_login));
    // A link that whoever else was signed in took away.
    let asked = expect(post(&thief_is, EXPORT, &json!({})).await, 202);
    let export = format!("{EXPORTS}/{}", text(&asked, "id"));
    let link = eventually("the export is made", Duration::from_secs(30), || async {
        let export = expect(get(&thief_is, &export).await, 200);
        export["downloadUrl"].as_str().map(|url| url.strip_prefix(at.client().base()).unwrap().to_owned())
    })
    .await;
    assert_eq!(get(&at.client(), &link).await.status, 200);
    let before = listed(&own_is).await.len();

    let ended = expect(own_is.delete(SESSIONS).await.unwrap(), 200);
    assert_eq!(ended, json!({ "ended": before - 1 }));
    assert_eq!(get(&thief_is, ME).await.status, 401);
    refused(&refresh(&at, &thief).await, 401, "Invalid refresh token", "");
    assert_eq!(get(&at.client(), &link).await.status, 404, "the link has ended with it");
    // Access tokens of before count no more, whoever has them; the login itself goes on.
    assert_eq!(get(&own_is, ME).await.status, 401);
    let fresh = expect(refresh(&at, &own_login).await, 200);
    let own_is = bearer(&at, &fresh);
    assert_eq!(listed(&own_is).await.len(), 1);
    expect(get(&ada.api, ME).await, 200);

    // A page of the console goes on without a step of its own.
    let desk = browser(&at, &ada.email).await;
    assert_eq!(expect(desk.delete(SESSIONS).await.unwrap(), 200), json!({ "ended": 1 }));
    assert_eq!(get(&own_is, ME).await.status, 401);
    assert_eq!(expect(desk.delete(SESSIONS).await.unwrap(), 200), json!({ "ended": 0 }));
    expect(get(&desk, ME).await, 200);
    at.stop().await;
}
