//! Organizations over HTTP.

use crate::harness::{Appliance, PASSWORD, expect, get, post, refused, text};
use serde_json::json;

const ORGS: &str = "/api/v1/orgs"; // createOrg
const CURRENT: &str = "/api/v1/orgs/current"; // getOrg

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
