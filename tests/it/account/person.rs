//! The erasure of a person.

use super::*;
use crate::harness::refused;
use store::fault::damage_first;

const NAME: &str = "zqpersonmarker";

fn with(password: &str) -> Value {
    json!({ "password": password })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_end_at_once_and_no_trace_of_the_person_is_left() {
    let mut at = Appliance::start().await;
    let owner = at.member("owner").await;
    let person = join(&at, &owner.browser, NAME, "admin").await;
    // Their traces: keys, an invitation they sent, one to them elsewhere, a device code, failures, statements, mails.
    let key = expect(post(&person.browser, "/api/v1/api-keys", &json!({ "name": "mine" })).await, 201);
    let api = at.client().bearer(text(&key, "secret"));
    let guest = json!({ "email": "guest@example.com", "role": "viewer" });
    expect(post(&person.browser, INVITES, &guest).await, 201);
    let elsewhere = at.member("elsewhere").await;
    let to_them = json!({ "email": person.email, "role": "viewer" });
    expect(post(&elsewhere.browser, INVITES, &to_them).await, 201);
    let device = expect(
        post(&at.client(), "/api/v1/cli-auth/start", &json!({ "hostname": format!("laptop-{NAME}") })).await,
        200,
    );
    let code = json!({ "user_code": device["user_code"] });
    let approved = post(&person.browser, "/api/v1/cli-auth/approve", &code).await;
    assert!(approved.status.is_success(), "{}", approved.text());
    let credentials = json!({ "email": person.email, "password": "not the password" });
    assert_eq!(post(&at.client(), "/api/v1/auth/login", &credentials).await.status, 401);
    expect(post(&at.client(), "/api/v1/auth/forgot-password", &json!({ "email": person.email })).await, 200);
    let statement = json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 });
    let statement = expect(post(&api, "/api/v1/bi/queries", &statement).await, 200);
    // What they asked an agent stands in its answer as well: as a word that it does not know, and in a name that it proposes.
    let agent = expect(post(&person.browser, "/api/v1/agents", &json!({})).await, 201);
    let agent = format!("/api/v1/agents/{}", text(&agent, "id"));
    for words in [format!("what does {NAME} want"), "how many jobs are there".to_owned()] {
        expect(post(&person.browser, &format!("{agent}/messages"), &json!({ "text": words })).await, 201);
    }
    let theirs = json!({ "text": "how many urls are registered" });
    expect(post(&owner.api, &format!("{agent}/messages"), &theirs).await, 201);
    expect(post(&person.browser, EXPORT, &json!({})).await, 202);
    let data = at.data_dir();
    assert!(!traces(&data, &[NAME]).is_empty(), "the test can fail");

    let wrong = delete(&person.browser, ACCOUNT, &with("some other passphrase")).await;
    refused(&wrong, 403, "Wrong password", "");
    let started = expect(delete(&person.browser, ACCOUNT, &with(PASSWORD)).await, 202);
    refused(&get(&person.browser, ME).await, 401, "Invalid authentication token", "session has ended");
    refused(&get(&api, CURRENT).await, 401, "Invalid API key", "");
    let refresh = json!({ "refreshToken": person.refresh });
    refused(&post(&at.client(), "/api/v1/auth/refresh", &refresh).await, 401, "Invalid refresh token", "");
    let login = json!({ "email": person.email, "password": PASSWORD });
    refused(&post(&at.client(), "/api/v1/auth/login", &login).await, 401, "Invalid email or password", "");
    let members = expect(get(&owner.browser, "/api/v1/orgs/current/members").await, 200);
    assert_eq!(members["items"].as_array().unwrap().len(), 1);

    let receipt = receipt(&at, text(&started, "erasureId")).await;
    let id = text(&receipt["erased"], "id").to_owned();
    assert_eq!((&receipt["erased"]["type"], &receipt["requestedBy"]), (&json!("person"), &json!(id)));
    for name in
        ["account", "sessions", "messages", "invitations", "command-lines", "login-failures", "exports"]
    {
        assert!(receipt["removed"][name].as_u64() > Some(0), "{name}: {receipt}");
    }
    assert_eq!(traces(&data, &[NAME]), Vec::<String>::new());
    // What they did stays, under a pseudonym; invitations that name them do not.
    let path = format!("/api/v1/bi/queries/{}", text(&statement, "jobId"));
    expect(get(&owner.api, &path).await, 200);
    let said = expect(get(&owner.api, &format!("{agent}/messages?limit=200")).await, 200);
    let texts: Vec<&str> = said["items"].as_array().unwrap().iter().map(|one| text(one, "text")).collect();
    assert_eq!(texts.iter().filter(|text| text.contains("erased with its author")).count(), 2, "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains(NAME) || text.contains("in jobs")), "{texts:?}");
    assert!(texts.contains(&"how many urls are registered"), "{texts:?}");
    let cards = expect(get(&owner.api, &format!("{agent}/cards")).await, 200);
    let offers: Vec<&Value> = cards["cards"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["card"]["type"] == "save_query_offer")
        .collect();
    let names: Vec<&str> = offers.iter().map(|one| text(&one["card"]["payload"], "proposedName")).collect();
    assert_eq!(names, ["Query of an agent", "Number of urls"]);
    for browser in [&owner.browser, &elsewhere.browser] {
        assert_eq!(expect(get(browser, INVITES).await, 200)["items"], json!([]));
    }
    at.restart().await;
    assert_eq!(traces(&data, &[NAME]), Vec::<String>::new());
    assert_eq!(erasures(&at).await[0]["id"], started["erasureId"]);
    // The address is free again, and whoever has it now is somebody else.
    let again = json!({ "email": person.email, "password": PASSWORD, "name": "New" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &again).await, 201);
    assert_ne!(text(&login["user"], "id"), id);
    at.stop().await;
}

/// An erasure goes on for a while after its answer, and whoever has the address by then is somebody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_registers_the_address_again_keeps_what_is_theirs() {
    let at = Appliance::start().await;
    let owner = at.member("owner").await;
    let person = join(&at, &owner.browser, NAME, "viewer").await;
    let started = expect(delete(&person.browser, ACCOUNT, &with(PASSWORD)).await, 202);
    let again = json!({ "email": person.email, "password": PASSWORD, "name": "New" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &again).await, 201);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let invite = json!({ "email": person.email, "role": "viewer" });
    let invited = expect(post(&owner.browser, INVITES, &invite).await, 201);
    receipt(&at, text(&started, "erasureId")).await;

    let outbox = at.operator(Request::Outbox { limit: 50 }).await;
    let to_them = |kind: &str| {
        let mails = outbox.as_array().unwrap().iter();
        mails.filter(|mail| mail["to"] == person.email.as_str() && mail["kind"] == kind).count()
    };
    assert_eq!((to_them("verify_email"), to_them("invite")), (1, 1), "{outbox}");
    let invites = expect(get(&owner.browser, INVITES).await, 200);
    assert_eq!(invites["items"][0]["id"], invited["id"]);
    let rows = expect(get(&owner.browser, "/api/v1/audit-logs?action=invite.created").await, 200);
    let of_invite = rows["items"].as_array().unwrap().iter().find(|row| row["resourceId"] == invited["id"]);
    assert_eq!(of_invite.unwrap()["details"]["email"], person.email.as_str());
    let token = at.mailed_token("gli_").await;
    let verify = json!({ "token": at.mailed_token("glv_").await });
    expect(post(&at.client(), "/api/v1/auth/verify-email", &verify).await, 200);
    expect(post(&browser, "/api/v1/invites/accept", &json!({ "token": token })).await, 200);
    at.stop().await;
}

/// Refusals are counted in memory for up to a minute before they are rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_that_were_only_counted_do_not_come_back() {
    let mut at = Appliance::start().await;
    let owner = at.member("owner").await;
    let person = join(&at, &owner.browser, NAME, "viewer").await;
    for _ in 0..3 {
        let wrong = delete(&person.browser, ACCOUNT, &with("some other passphrase")).await;
        refused(&wrong, 403, "Wrong password", "");
    }
    let started = expect(delete(&person.browser, ACCOUNT, &with(PASSWORD)).await, 202);
    let receipt = receipt(&at, text(&started, "erasureId")).await;
    // A drain writes whatever is still counted.
    at.restart().await;
    let login = json!({ "email": owner.email, "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &login).await, 200);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let path = format!("/api/v1/audit-logs?limit=200&actor={}", text(&receipt["erased"], "id"));
    let rows = expect(get(&browser, &path).await, 200);
    let rows = rows["items"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["details"]["repeated"] == 2), "the test can fail: {rows:?}");
    for row in rows {
        assert_eq!((&row["ip"], &row["requestId"]), (&Value::Null, &Value::Null), "{row}");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_an_organization_in_their_hands_gives_it_away_or_erases_it_first() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    refused(
        &delete(&owner.browser, ACCOUNT, &with(PASSWORD)).await,
        409,
        "Conflict",
        "only member of your organization",
    );
    let eve = join(&at, &owner.browser, "eve", "editor").await;
    refused(
        &delete(&owner.browser, ACCOUNT, &with(PASSWORD)).await,
        409,
        "Conflict",
        "last owner of your organization",
    );
    // A refusal ends nothing.
    expect(get(&owner.api, CURRENT).await, 200);
    let eve_id = text(&expect(get(&eve.browser, ME).await, 200)["user"], "id").to_owned();
    let path = format!("/api/v1/orgs/current/members/{eve_id}");
    let role = json!({ "role": "owner" });
    expect(owner.browser.send(Method::PATCH, &path, Some(&role)).await.unwrap(), 200);
    let started = expect(delete(&owner.browser, ACCOUNT, &with(PASSWORD)).await, 202);
    receipt(&at, text(&started, "erasureId")).await;
    assert_eq!(text(&expect(get(&eve.browser, CURRENT).await, 200), "id"), owner.org_id);
    // Alone now: the organization first, then the account.
    refused(&delete(&eve.browser, ACCOUNT, &with(PASSWORD)).await, 409, "Conflict", "only member");
    expect(delete(&eve.browser, CURRENT, &json!({ "confirmName": "ada" })).await, 202);
    let started = expect(delete(&eve.browser, ACCOUNT, &with(PASSWORD)).await, 202);
    receipt(&at, text(&started, "erasureId")).await;
    assert_eq!(traces(&at.data_dir(), &["ada@example.com", "eve@example.com"]), Vec::<String>::new());
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_alone_erases_nobody() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    refused(&delete(&owner.api, ACCOUNT, &with(PASSWORD)).await, 403, "Insufficient permissions", "API key");
    refused(&delete(&at.client(), ACCOUNT, &with(PASSWORD)).await, 401, "Authentication required", "");
    for (body, part) in [
        (json!({}), "password"),
        (with(""), "password: must not be empty"),
        (json!({ "password": 1 }), "password"),
    ] {
        refused(&delete(&owner.browser, ACCOUNT, &body).await, 400, "Validation failed", part);
    }
    // Guessing with a found token is limited like guessing at the login, and counts there too.
    for _ in 0..10 {
        refused(
            &delete(&owner.browser, ACCOUNT, &with("a wrong passphrase")).await,
            403,
            "Wrong password",
            "",
        );
    }
    let limited = delete(&owner.browser, ACCOUNT, &with(PASSWORD)).await;
    refused(&limited, 429, "Too many failed logins", "");
    assert!(limited.header("retry-after").parse::<u64>().unwrap() > 0);
    let login = json!({ "email": owner.email, "password": PASSWORD });
    assert_eq!(post(&at.client(), "/api/v1/auth/login", &login).await.status, 429);
    expect(get(&owner.browser, ME).await, 200);
    assert_eq!(erasures(&at).await, Vec::<Value>::new());
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_in_the_receipt_and_keeps_nothing_else() {
    let at = Appliance::start().await;
    let owner = at.member("owner").await;
    let person = join(&at, &owner.browser, NAME, "viewer").await;
    expect(
        post(&owner.browser, INVITES, &json!({ "email": "guest@example.com", "role": "viewer" })).await,
        201,
    );
    // Nobody can say whom these concern.
    let system = at.app().services().system().clone();
    for table in ["invites", "mail", "audit_system"] {
        assert!(system.write(move |tx| damage_first(tx, table)).await.unwrap(), "{table}");
    }
    let started = expect(delete(&person.browser, ACCOUNT, &with(PASSWORD)).await, 202);
    let receipt = receipt(&at, text(&started, "erasureId")).await;
    assert_eq!(
        (&receipt["left"]["invitations"], &receipt["left"]["messages"]),
        (&json!(1), &json!(1)),
        "{receipt}"
    );
    assert_eq!((&receipt["failures"], &receipt["removed"]["account"]), (&json!(0), &json!(1)), "{receipt}");
    at.stop().await;
}
