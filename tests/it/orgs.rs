//! Organizations over HTTP: making and naming one, its members, its invitations.

use crate::harness::{Appliance, Member, PASSWORD, expect, get, invite, join, post, refused, text};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;

const ORGS: &str = "/api/v1/orgs"; // createOrg
const CURRENT: &str = "/api/v1/orgs/current"; // getOrg, updateOrg
const MEMBERS: &str = "/api/v1/orgs/current/members"; // listMembers
const INVITES: &str = "/api/v1/orgs/current/invites"; // listInvites, createInvite
const ACCEPT: &str = "/api/v1/invites/accept"; // acceptInvite
const REGISTER: &str = "/api/v1/auth/register";
const ME: &str = "/api/v1/auth/me";

async fn patch(client: &Client, path: &str, body: &Value) -> Reply {
    client.send(Method::PATCH, path, Some(body)).await.unwrap()
}

/// updateMember
async fn set_role(client: &Client, user: &str, role: &str) -> Reply {
    patch(client, &format!("{MEMBERS}/{user}"), &json!({ "role": role })).await
}

/// removeMember
async fn remove(client: &Client, user: &str) -> Reply {
    client.delete(&format!("{MEMBERS}/{user}")).await.unwrap()
}

async fn members(client: &Client) -> Vec<(String, String)> {
    let page = expect(get(client, MEMBERS).await, 200);
    let items = page["items"].as_array().unwrap();
    items.iter().map(|item| (text(item, "name").to_owned(), text(item, "role").to_owned())).collect()
}

async fn key_of(client: &Client, at: &Appliance) -> Client {
    let made = expect(post(client, "/api/v1/api-keys", &json!({ "name": "mine" })).await, 201);
    at.client().bearer(text(&made, "secret"))
}

#[tokio::test]
async fn a_person_makes_an_organization_and_owns_it() {
    let at = Appliance::start().await;
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let before = at.client().bearer(text(&login, "accessToken"));
    refused(&get(&before, CURRENT).await, 403, "No organization exists for this user", "");

    let made = expect(post(&before, ORGS, &json!({ "name": " Acme " })).await, 201);
    let organization = &made["organization"];
    assert_eq!((text(organization, "name"), text(organization, "plan")), ("Acme", "appliance"));
    assert_eq!(made["expiresIn"], 900);
    let permissions = made["permissions"].as_array().unwrap();
    assert!(permissions.contains(&json!("org:write")) && permissions.contains(&json!("bi:write")));

    // Membership is read at each request, so the old token knows of it as well as the new one.
    for token in [text(&login, "accessToken"), text(&made, "accessToken")] {
        let owner = at.client().bearer(token);
        assert_eq!(expect(get(&owner, CURRENT).await, 200), *organization);
        let me = expect(get(&owner, "/api/v1/auth/me").await, 200);
        assert_eq!((&me["organization"], text(&me, "role")), (organization, "owner"));
        assert_eq!(me["permissions"], made["permissions"]);
        assert_eq!((&me["user"]["orgId"], &me["user"]["orgName"]), (&organization["id"], &json!("Acme")));
    }
    let refresh = json!({ "refreshToken": made["refreshToken"] });
    expect(post(&at.client(), "/api/v1/auth/refresh", &refresh).await, 200);
    let credentials = json!({ "email": "ada@example.com", "password": PASSWORD });
    let again = expect(post(&at.client(), "/api/v1/auth/login", &credentials).await, 200);
    assert_eq!((&again["user"]["orgName"], &again["permissions"]), (&json!("Acme"), &made["permissions"]));
    at.stop().await;
}

#[tokio::test]
async fn a_new_organization_has_its_plan_s_credits() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let plan = expect(get(&owner.browser, "/api/v1/plans/current").await, 200);
    assert_eq!((&plan["remainingCredits"], &plan["plan"]["id"]), (&json!(1_000_000), &json!("appliance")));
    at.stop().await;
}

#[tokio::test]
async fn one_person_has_one_organization() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let second = post(&owner.browser, ORGS, &json!({ "name": "Another" })).await;
    refused(&second, 409, "Conflict", "in an organization already");
    assert_eq!(text(&expect(get(&owner.browser, CURRENT).await, 200), "id"), owner.org_id);
    at.stop().await;
}

#[tokio::test]
async fn bad_input_and_wrong_credentials() {
    let at = Appliance::start().await;
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let long = "x".repeat(201);
    for body in [json!({}), json!({ "name": "" }), json!({ "name": 7 }), json!({ "name": long })] {
        refused(&post(&browser, ORGS, &body).await, 400, "Validation failed", "name: ");
    }
    refused(&post(&at.client(), ORGS, &json!({ "name": "A" })).await, 401, "Authentication required", "");
    refused(&get(&at.client(), CURRENT).await, 401, "Authentication required", "");
    let owner = at.member("eve").await;
    let by_key = post(&owner.api, ORGS, &json!({ "name": "A" })).await;
    refused(&by_key, 403, "Insufficient permissions", "API key");
    assert_eq!(text(&expect(get(&owner.api, CURRENT).await, 200), "id"), owner.org_id);
    at.stop().await;
}

#[tokio::test]
async fn an_organization_is_renamed_everywhere() {
    let mut at = Appliance::start().await;
    let owner = at.member("ada").await;
    let named = expect(patch(&owner.browser, CURRENT, &json!({ "name": " Engines " })).await, 200);
    assert_eq!((text(&named, "name"), text(&named, "id")), ("Engines", owner.org_id.as_str()));
    assert_eq!(expect(get(&owner.browser, CURRENT).await, 200), named);
    assert_eq!(expect(get(&owner.browser, ME).await, 200)["user"]["orgName"], "Engines");
    at.restart().await;
    let api = at.client().bearer(&owner.key);
    assert_eq!(expect(get(&api, CURRENT).await, 200), named);
    for body in [json!({}), json!({ "name": " " }), json!({ "name": 7 })] {
        refused(&patch(&api, CURRENT, &body).await, 400, "Validation failed", "name: ");
    }
    let editor = join(&at, &api, "eve", "editor").await;
    let refusal = patch(&editor.browser, CURRENT, &json!({ "name": "Hers" })).await;
    refused(&refusal, 403, "Insufficient permissions", "org:write");
    at.stop().await;
}

#[tokio::test]
async fn who_is_invited_joins_with_the_role_and_a_verified_address() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let body = json!({ "email": " Eve@Example.com", "role": "analyst" });
    let reply = post(&owner.browser, INVITES, &body).await;
    assert!(!reply.text().contains("gli_"), "the token goes to the address alone");
    let made = expect(reply, 201);
    assert_eq!((text(&made, "email"), text(&made, "role")), ("eve@example.com", "analyst"));
    assert_eq!(text(&made, "invitedBy"), owner.user_id);
    assert_eq!(expect(get(&owner.browser, INVITES).await, 200)["items"], json!([made]));
    let token = at.mailed_token("gli_").await;

    let person = json!({ "email": "eve@example.com", "password": PASSWORD, "name": "Eve" });
    let login = expect(post(&at.client(), REGISTER, &person).await, 201);
    let eve = at.client().bearer(text(&login, "accessToken"));
    let joined = expect(post(&eve, ACCEPT, &json!({ "token": token })).await, 200);
    assert_eq!(
        (text(&joined["organization"], "id"), &joined["expiresIn"]),
        (owner.org_id.as_str(), &json!(900))
    );
    let me = expect(get(&at.client().bearer(text(&joined, "accessToken")), ME).await, 200);
    assert_eq!((text(&me, "role"), &me["permissions"]), ("analyst", &joined["permissions"]));
    assert!(me["user"]["emailVerifiedAt"].is_string(), "the token was read from mail to the address");
    assert_eq!(
        members(&owner.browser).await,
        [("Eve".to_owned(), "analyst".to_owned()), ("ada".to_owned(), "owner".to_owned())]
    );
    assert_eq!(expect(get(&owner.browser, INVITES).await, 200)["items"], json!([]));
    refused(&post(&eve, ACCEPT, &json!({ "token": token })).await, 409, "Conflict", "in an organization");
    let page = expect(get(&owner.browser, &format!("{MEMBERS}?limit=1")).await, 200);
    let next = format!("{MEMBERS}?limit=1&cursor={}", text(&page, "nextCursor"));
    assert_eq!(expect(get(&owner.browser, &next).await, 200)["items"][0]["name"], "ada");
    at.stop().await;
}

#[tokio::test]
async fn an_invitation_is_for_its_address_once_and_for_a_week() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let register = async |name: &str| {
        let person = json!({ "email": format!("{name}@example.com"), "password": PASSWORD, "name": name });
        let login = expect(post(&at.client(), REGISTER, &person).await, 201);
        at.client().bearer(text(&login, "accessToken"))
    };
    let (eve, bob) = (register("eve").await, register("bob").await);
    let accept = async |who: &Client, token: &str| post(who, ACCEPT, &json!({ "token": token })).await;

    let first = invite(&at, &owner.browser, "eve@example.com", "viewer").await;
    refused(&accept(&bob, &first).await, 403, "Invitation is for another address", "");
    let second = invite(&at, &owner.browser, "eve@example.com", "editor").await;
    refused(&accept(&eve, &first).await, 400, "Validation failed", "token: ");
    let listed = expect(get(&owner.browser, INVITES).await, 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "the second took the place of the first");

    // deleteInvite
    let path = format!("{INVITES}/{}", text(&listed["items"][0], "id"));
    assert_eq!(owner.browser.delete(&path).await.unwrap().status, 204);
    refused(&owner.browser.delete(&path).await.unwrap(), 404, "Invite not found", "");
    refused(&accept(&eve, &second).await, 400, "Validation failed", "token: ");
    let outbox = at.operator(crate::harness::Request::Outbox { limit: 20 }).await;
    assert!(!outbox.to_string().contains("gli_"), "messages go with their invitations: {outbox}");

    let third = invite(&at, &owner.browser, "eve@example.com", "editor").await;
    at.clock.advance(Duration::from_secs(7 * 24 * 3600));
    let login = json!({ "email": "eve@example.com", "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &login).await, 200);
    let eve = at.client().bearer(text(&login, "accessToken"));
    refused(&accept(&eve, &third).await, 400, "Validation failed", "token: ");
    assert_eq!(expect(get(&owner.api, INVITES).await, 200)["items"], json!([]));
    let again = invite(&at, &owner.api, "eve@example.com", "editor").await;
    expect(accept(&eve, &again).await, 200);
    let member = post(&owner.api, INVITES, &json!({ "email": "eve@example.com", "role": "viewer" })).await;
    refused(&member, 409, "Already a member of this organization", "");
    refused(&accept(&owner.api, &again).await, 403, "Insufficient permissions", "API key");
    refused(&accept(&at.client(), &again).await, 401, "Authentication required", "");
    at.stop().await;
}

#[tokio::test]
async fn registration_with_an_invitation_is_verified_and_ends_with_it() {
    let mut at = Appliance::start().await;
    let owner = at.member("ada").await;
    at.set("AUTH__REGISTRATION", "invite");
    at.restart().await;
    let api = at.client().bearer(&owner.key);
    let person = |email: &str, token: &str| json!({ "email": email, "password": PASSWORD, "name": "New", "inviteToken": token });
    let token = invite(&at, &api, "eve@example.com", "viewer").await;
    for (email, token) in [("eve@example.com", "gli_unknown"), ("bob@example.com", token.as_str())] {
        let refusal = post(&at.client(), REGISTER, &person(email, token)).await;
        refused(&refusal, 403, "Registration is closed", "by invitation");
    }
    let login = expect(post(&at.client(), REGISTER, &person("Eve@example.com", &token)).await, 201);
    assert!(login["user"]["orgId"].is_null() && login["user"]["emailVerifiedAt"].is_string(), "{login}");
    let eve = at.client().bearer(text(&login, "accessToken"));
    expect(post(&eve, ACCEPT, &json!({ "token": token })).await, 200);
    let used = post(&at.client(), REGISTER, &person("eve@example.com", &token)).await;
    refused(&used, 403, "Registration is closed", "by invitation");
    at.stop().await;
}

#[tokio::test]
async fn only_owners_make_owners_and_the_last_one_stays() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let admin = join(&at, &ada.browser, "bob", "admin").await;
    let by_admin = post(&admin.browser, INVITES, &json!({ "email": "x@example.com", "role": "owner" })).await;
    refused(&by_admin, 403, "Insufficient permissions", "Only an owner");
    refused(
        &set_role(&admin.browser, &admin.id, "owner").await,
        403,
        "Insufficient permissions",
        "Only an owner",
    );
    refused(
        &set_role(&admin.browser, &ada.user_id, "viewer").await,
        403,
        "Insufficient permissions",
        "owner",
    );
    refused(&remove(&admin.browser, &ada.user_id).await, 403, "Insufficient permissions", "owner");
    refused(&set_role(&ada.browser, &ada.user_id, "admin").await, 409, "Conflict", "needs an owner");
    refused(&remove(&ada.browser, &ada.user_id).await, 409, "Conflict", "needs an owner");
    expect(set_role(&ada.browser, &ada.user_id, "owner").await, 200);

    let made = expect(set_role(&ada.browser, &admin.id, "owner").await, 200);
    assert_eq!((text(&made, "role"), text(&made, "userId")), ("owner", admin.id.as_str()));
    assert_eq!(expect(get(&admin.browser, ME).await, 200)["role"], "owner", "with the next request");
    expect(set_role(&admin.browser, &ada.user_id, "viewer").await, 200);
    refused(&get(&ada.browser, MEMBERS).await, 403, "Insufficient permissions", "org:read");
    refused(&get(&ada.api, MEMBERS).await, 403, "Insufficient permissions", "org:read");
    refused(&remove(&admin.browser, &admin.id).await, 409, "Conflict", "needs an owner");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_owners_who_demote_each_other_leave_one() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let bob = join(&at, &ada.browser, "bob", "owner").await;
    for round in 0..10 {
        let (a, b) = tokio::join!(
            set_role(&ada.browser, &bob.id, "admin"),
            set_role(&bob.browser, &ada.user_id, "admin")
        );
        let won = [a.status.as_u16(), b.status.as_u16()];
        assert!(won == [200, 403] || won == [403, 200], "round {round}: {won:?}");
        let (winner, loser) =
            if won[0] == 200 { (&ada.browser, &bob.id) } else { (&bob.browser, &ada.user_id) };
        expect(set_role(winner, loser, "owner").await, 200);
    }
    at.stop().await;
}

#[tokio::test]
async fn a_removed_member_is_out_at_once_with_their_keys() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let bob = join(&at, &ada.browser, "bob", "admin").await;
    let key = key_of(&bob.browser, &at).await;
    let started =
        expect(post(&at.client(), "/api/v1/cli-auth/start", &json!({ "hostname": "bobs" })).await, 200);
    let code = json!({ "user_code": started["user_code"] });
    expect(post(&bob.browser, "/api/v1/cli-auth/approve", &code).await, 200);
    expect(get(&key, CURRENT).await, 200);

    assert_eq!(remove(&ada.browser, &bob.id).await.status, 204);
    refused(&get(&bob.browser, CURRENT).await, 403, "No organization exists for this user", "");
    refused(&get(&key, CURRENT).await, 401, "Invalid API key", "");
    let device = json!({ "device_code": started["device_code"] });
    refused(&post(&at.client(), "/api/v1/cli-auth/poll", &device).await, 410, "Code expired", "deleted");
    assert!(expect(get(&bob.browser, ME).await, 200)["organization"].is_null(), "the account stays");
    refused(&remove(&ada.browser, &bob.id).await, 404, "Member not found", "");
    let keys = expect(get(&ada.browser, "/api/v1/api-keys").await, 200);
    assert_eq!(keys["items"].as_array().unwrap().len(), 1, "{keys}");

    let token = invite(&at, &ada.browser, "bob@example.com", "viewer").await;
    expect(post(&bob.browser, ACCEPT, &json!({ "token": token })).await, 200);
    refused(&get(&key, CURRENT).await, 401, "Invalid API key", "");
    at.stop().await;
}

#[tokio::test]
async fn a_member_may_leave_and_nobody_else_without_permission_removes() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let (viewer, editor) =
        (join(&at, &ada.browser, "vic", "viewer").await, join(&at, &ada.browser, "ed", "editor").await);
    refused(&remove(&viewer.browser, &editor.id).await, 403, "Insufficient permissions", "org:write");
    refused(
        &set_role(&editor.browser, &viewer.id, "admin").await,
        403,
        "Insufficient permissions",
        "org:write",
    );
    refused(&get(&editor.browser, INVITES).await, 403, "Insufficient permissions", "org:read");
    assert_eq!(remove(&viewer.browser, &viewer.id).await.status, 204);
    refused(&get(&viewer.browser, CURRENT).await, 403, "No organization exists for this user", "");
    expect(post(&viewer.browser, ORGS, &json!({ "name": "Vic's own" })).await, 201);
    refused(&set_role(&ada.browser, &viewer.id, "admin").await, 404, "Member not found", "");
    refused(&set_role(&ada.browser, &editor.id, "king").await, 400, "Validation failed", "role: ");
    at.stop().await;
}

#[tokio::test]
async fn invitations_need_a_verified_address_and_sound_input() {
    let at = Appliance::start().await;
    let owner: Member = at.member("ada").await;
    for (body, part) in [
        (json!({}), "email: is required"),
        (json!({ "email": "eve", "role": "viewer" }), "email: "),
        (json!({ "email": "eve@example.com" }), "role: is required"),
        (json!({ "email": "eve@example.com", "role": "king" }), "role: "),
    ] {
        refused(&post(&owner.browser, INVITES, &body).await, 400, "Validation failed", part);
    }
    let person = json!({ "email": "eve@example.com", "password": PASSWORD, "name": "Eve" });
    let login = expect(post(&at.client(), REGISTER, &person).await, 201);
    let eve = at.client().bearer(text(&login, "accessToken"));
    expect(post(&eve, ORGS, &json!({ "name": "Eve's" })).await, 201);
    let unverified = post(&eve, INVITES, &json!({ "email": "x@example.com", "role": "viewer" })).await;
    refused(&unverified, 403, "Email address is not verified", "");
    // Of an account in another organization nothing is told.
    expect(
        post(&owner.browser, INVITES, &json!({ "email": "eve@example.com", "role": "viewer" })).await,
        201,
    );
    at.stop().await;
}
