//! The export of personal data.

use super::*;
use crate::harness::refused;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use zip::ZipArchive;

/// Waits until an export is made, and gives it.
pub(super) async fn made(client: &Client, id: &str) -> Value {
    eventually("the export is made", Duration::from_secs(20), || async {
        let export = expect(get(client, &format!("{EXPORTS}/{id}")).await, 200);
        assert_ne!(export["status"], "failed");
        (export["status"] == "success").then_some(export)
    })
    .await
}

pub(super) async fn request(client: &Client) -> String {
    text(&expect(client.send(Method::POST, EXPORT, None).await.unwrap(), 202), "id").to_owned()
}

/// The path of a link to this box.
fn path_of<'a>(at: &Appliance, export: &'a Value) -> &'a str {
    text(export, "downloadUrl").strip_prefix(at.app().url()).expect("a link to this box")
}

async fn log_in(at: &Appliance, email: &str) -> Client {
    let login = json!({ "email": email, "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &login).await, 200);
    at.client().bearer(text(&login, "accessToken"))
}

/// Every file of a zip by its name.
pub(super) fn unzip(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut files = BTreeMap::new();
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        files.insert(file.name().unwrap().into_owned(), text);
    }
    files
}

fn items(files: &BTreeMap<String, String>, name: &str) -> Vec<Value> {
    let file: Value =
        serde_json::from_str(&files[name]).unwrap_or_else(|e| panic!("{name}: {e}: {}", files[name]));
    assert_eq!(file["truncated"], false, "{name}");
    assert!(file["about"].as_str().is_some_and(|about| about.ends_with('.')), "{name}");
    file["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_held_on_a_person_is_in_the_zip_and_no_secret() {
    let at = Appliance::start().await;
    let owner = at.member("owner").await;
    let ada = join(&at, &owner.browser, "ada", "admin").await;
    let key = expect(post(&ada.browser, "/api/v1/api-keys", &json!({ "name": "mine" })).await, 201);
    expect(
        post(&ada.browser, INVITES, &json!({ "email": "guest@example.com", "role": "viewer" })).await,
        201,
    );
    let credentials = json!({ "email": ada.email, "password": "not the password" });
    assert_eq!(post(&at.client(), "/api/v1/auth/login", &credentials).await.status, 401);
    expect(post(&at.client(), "/api/v1/auth/forgot-password", &json!({ "email": ada.email })).await, 200);
    let reset = at.mailed_token("glp_").await;
    let statement = json!({ "sql": "SELECT 42 AS answer", "waitMs": 10_000 });
    let api = at.client().bearer(text(&key, "secret"));
    expect(post(&api, "/api/v1/bi/queries", &statement).await, 200);
    let other = json!({ "sql": "SELECT 'of the owner'", "waitMs": 10_000 });
    expect(post(&owner.api, "/api/v1/bi/queries", &other).await, 200);

    let id = request(&ada.browser).await;
    let export = made(&ada.browser, &id).await;
    assert_eq!(text(&export, "id"), id);
    assert!(text(&export, "expiresAt") > text(&export, "finishedAt"));
    // downloadRaw: the link is the credential.
    let reply = get(&at.client(), path_of(&at, &export)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "application/zip");
    assert!(reply.header("content-disposition").starts_with("attachment; filename=\"gleaner-account-20"));
    assert_eq!(reply.bytes.len() as u64, export["byteSize"].as_u64().unwrap());
    let files = unzip(&reply.bytes);
    let account = items(&files, "account.json");
    assert_eq!((&account[0]["email"], &account[0]["name"]), (&json!(ada.email), &json!("ada")));
    assert_eq!((&account[0]["organizationId"], &account[0]["role"]), (&json!(owner.org_id), &json!("admin")));
    assert_eq!(items(&files, "sessions.json").len(), 2, "of registering and of joining");
    assert_eq!(items(&files, "api-keys.json")[0]["name"], "mine");
    let invitations = items(&files, "invitations.json");
    assert_eq!(invitations.len(), 1);
    assert_eq!(
        (&invitations[0]["sentByYou"], &invitations[0]["email"]),
        (&json!(true), &json!("guest@example.com"))
    );
    assert_eq!(items(&files, "login-failures.json").len(), 2);
    let statements = items(&files, "statements.json");
    assert_eq!(statements.len(), 1, "and not the owner's");
    assert_eq!(statements[0]["sql"], "SELECT 42 AS answer");
    let messages = items(&files, "messages.json");
    assert!(!messages.is_empty() && messages.iter().all(|mail| mail["to"] == ada.email), "{messages:?}");
    let activity = items(&files, "activity.json");
    let done = |action: &str| {
        activity.iter().find(|row| row["action"] == action).unwrap_or_else(|| panic!("no {action}"))
    };
    assert_eq!(done("member.joined")["organizationId"], owner.org_id);
    assert_eq!(
        (&done("auth.login_refused")["ip"], &done("api_key.created")["ip"]),
        (&json!("127.0.0.1"), &json!("127.0.0.1"))
    );
    assert_eq!(done("user.registered")["organizationId"], Value::Null, "before they were in any");
    assert!(activity.iter().all(|row| row["action"] != "org.created"), "others' are not in it");
    // Every file is named in the README, and holds what it is.
    for name in files.keys().filter(|name| *name != "README.txt") {
        assert!(files["README.txt"].contains(&format!("{name}: ")), "{name}");
        items(&files, name);
    }
    let everything: String = files.values().cloned().collect();
    for secret in [text(&key, "secret"), &reset, PASSWORD, "$argon2", &ada.refresh] {
        assert!(!everything.contains(secret), "{secret}");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_is_its_owners_alone_and_ends() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let id = request(&ada.browser).await;
    let export = made(&ada.browser, &id).await;
    // Somebody else's is none at all.
    let seen = |reply: Reply| (reply.status, reply.text().replace(reply.header("x-request-id"), "ID"));
    let foreign = seen(get(&eve.browser, &format!("{EXPORTS}/{id}")).await);
    for other in [uuid::Uuid::now_v7().to_string(), "not-an-id".to_owned()] {
        assert_eq!(seen(get(&eve.browser, &format!("{EXPORTS}/{other}")).await), foreign);
    }
    assert_eq!(foreign.0, 404);
    for (client, status) in [(&ada.api, 403), (&at.client(), 401)] {
        assert_eq!(get(client, &format!("{EXPORTS}/{id}")).await.status, status);
        assert_eq!(post(client, EXPORT, &json!({})).await.status, status);
    }
    // One at a time, and not all the time.
    refused(&post(&ada.browser, EXPORT, &json!({})).await, 429, "Too many exports", "");
    at.clock.advance(Duration::from_secs(61));
    let mut ids = vec![id.clone()];
    for _ in 0..3 {
        let id = request(&ada.browser).await;
        made(&ada.browser, &id).await;
        ids.push(id);
        at.clock.advance(Duration::from_secs(61));
    }
    assert_eq!(get(&ada.browser, &format!("{EXPORTS}/{}", ids[0])).await.status, 404, "three are kept");
    expect(get(&ada.browser, &format!("{EXPORTS}/{}", ids[1])).await, 200);

    // A link is good for a while, as it is, and as long as there is something behind it.
    let newest = &ids[3];
    let gone = |reply: &Reply| refused(reply, 404, "File not found", "ask for a new one");
    gone(&get(&at.client(), path_of(&at, &export)).await);
    let export = expect(get(&ada.browser, &format!("{EXPORTS}/{newest}")).await, 200);
    let link = path_of(&at, &export).to_owned();
    assert_eq!(get(&at.client(), &link).await.status, 200);
    for other in
        [link.replace("raw/", "raw/x"), link[..link.len() - 1].to_owned(), "/api/v1/raw/nonsense".to_owned()]
    {
        gone(&get(&at.client(), &other).await);
    }
    at.clock.advance(Duration::from_secs(15 * 60));
    gone(&get(&at.client(), &link).await);
    let browser = log_in(&at, &ada.email).await;
    let again = expect(get(&browser, &format!("{EXPORTS}/{newest}")).await, 200);
    assert_eq!(get(&at.client(), path_of(&at, &again)).await.status, 200);
    let folder = at.data_dir().join("account-exports");
    assert!(!files(&folder).is_empty());
    at.clock.advance(Duration::from_secs(7 * 24 * 3600));
    let browser = log_in(&at, &ada.email).await;
    for id in &ids {
        assert_eq!(get(&browser, &format!("{EXPORTS}/{id}")).await.status, 404);
    }
    // The next request wakes the task, which clears up.
    let id = request(&browser).await;
    made(&browser, &id).await;
    eventually("old files go", Duration::from_secs(10), || async {
        (files(&folder).len() == 1).then_some(())
    })
    .await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_survive_a_restart_and_go_with_the_person() {
    let mut at = Appliance::start().await;
    let owner = at.member("owner").await;
    let ada = join(&at, &owner.browser, "ada", "viewer").await;
    // Asked for and not made before the box went down, or made: either way it is there afterwards.
    let id = request(&ada.browser).await;
    at.restart().await;
    let browser = log_in(&at, &ada.email).await;
    let export = made(&browser, &id).await;
    let link = path_of(&at, &export).to_owned();
    assert!(unzip(&get(&at.client(), &link).await.bytes).contains_key("account.json"));
    let started = expect(delete(&browser, ACCOUNT, &json!({ "password": PASSWORD })).await, 202);
    receipt(&at, text(&started, "erasureId")).await;
    refused(&get(&at.client(), &link).await, 404, "File not found", "");
    assert_eq!(files(&at.data_dir().join("account-exports")), Vec::<PathBuf>::new());
    at.stop().await;
}
