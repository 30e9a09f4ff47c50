//! Letters through a real dialogue with a mail server of the harness: who gets them, when, and how one gets no more.

mod edges;
mod kills;
mod times;

use super::{OUTPUTS, PATIENCE, cause, deliveries, falling_prices, from_pypi, reads_prices, shown, visit};
use crate::audit::patch;
use crate::harness::smtp::{MailServer, Received};
use crate::harness::{Appliance, Member, PASSWORD, eventually, expect, get, post, refused, text};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;
use tempfile::TempDir;

const MINUTE: Duration = Duration::from_secs(61);
const FORM: &str = "application/x-www-form-urlencoded";

/// A box that sends through the server.
async fn boxed(server: &MailServer, more: &[(&str, &str)]) -> Appliance {
    let folder = TempDir::new().unwrap();
    let settings = server.settings(folder.path());
    let mut all: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    all.extend_from_slice(more);
    Appliance::start_with(&all).await
}

async fn letters_to(api: &Client, recipients: &[&str], more: Value) -> Value {
    let mut new = json!({ "kind": "email", "events": ["job.queued"], "email": { "recipients": recipients } });
    for (name, value) in more.as_object().unwrap() {
        match value.as_object() {
            Some(inner) => new[name].as_object_mut().unwrap().extend(inner.clone()),
            None => new[name] = value.clone(),
        }
    }
    expect(post(api, OUTPUTS, &new).await, 201)
}

/// The letters of outputs that were taken for somebody, the oldest first.
fn letters(server: &MailServer, to: &str) -> Vec<Received> {
    let all = server.received().into_iter();
    all.filter(|mail| mail.is_taken && mail.to == [to] && mail.header("list-unsubscribe").is_some()).collect()
}

async fn letter(server: &MailServer, to: &str, count: usize) -> Received {
    let mut all = eventually(&format!("letter {count} to {to} comes"), PATIENCE, || async {
        Some(letters(server, to)).filter(|all| all.len() >= count)
    })
    .await;
    assert_eq!(all.len(), count, "letters to {to}");
    all.remove(count - 1)
}

/// The path of a link in a letter.
fn path_of(address: &str) -> String {
    address[address.find("/mail/").unwrap()..].trim_end_matches(['>', ')']).to_owned()
}

fn unsubscribe_path(letter: &Received) -> String {
    path_of(&letter.header("list-unsubscribe").unwrap())
}

/// The paths in the messages that ask somebody, the oldest first.
async fn asked(server: &MailServer, to: &str, count: usize) -> Vec<String> {
    eventually(&format!("{to} is asked"), PATIENCE, || async {
        let all = server.received().into_iter().filter(|mail| mail.is_taken && mail.to == [to]);
        let link = |mail: Received| {
            let text = mail.parts()[0].clone();
            text.split_whitespace().find(|word| word.contains("/mail/confirm/")).map(path_of)
        };
        Some(all.filter_map(link).collect::<Vec<_>>()).filter(|all| all.len() >= count)
    })
    .await
}

async fn press(client: &Client, path: &str) -> Reply {
    client.send_bytes(Method::POST, path, Some(FORM), "List-Unsubscribe=One-Click").await.unwrap()
}

/// Somebody outside of the organization who has agreed.
async fn agreed(at: &Appliance, server: &MailServer, to: &str) {
    let path = asked(server, to, 1).await.pop().unwrap();
    assert!(press(&at.client(), &path).await.text().contains("from now on"));
}

async fn recipients(api: &Client, output: &Value) -> Vec<(String, String)> {
    let view = shown(api, output).await;
    let one = |row: &Value| (text(row, "address").to_owned(), text(row, "state").to_owned());
    view["email"]["recipients"].as_array().unwrap().iter().map(one).collect()
}

async fn delivered(api: &Client, output: &Value, count: u64) -> Value {
    eventually(&format!("{count} letters are delivered"), PATIENCE, || async {
        let view = shown(api, output).await;
        (view["delivered"] == count).then_some(view)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_shows_what_was_and_what_is_and_one_click_ends_it() {
    let server = MailServer::plain().await;
    let web = falling_prices().await;
    let at = boxed(&server, &[("NETWORK__ALLOW", &web.allow())]).await;
    reads_prices(&at).await;
    let ada = at.member("ada").await;
    let terms = json!({ "name": "Shoes <sale>", "events": ["result.changed"] });
    let made = letters_to(&ada.api, &["Ada@Example.com", "ada@example.com"], terms).await;
    assert_eq!((&made["kind"], &made["email"]["when"]), (&json!("email"), &json!("immediately")));
    assert_eq!(recipients(&ada.api, &made).await, [("ada@example.com".to_owned(), "active".to_owned())]);
    for _ in 0..2 {
        assert_eq!(visit(&ada, &web.url("/shoe?a=1&b=<x>")).await["status"], "succeeded");
    }
    let first = letter(&server, "ada@example.com", 1).await;
    let [plain, html] = &first.parts()[..] else { panic!("{}", first.data) };
    assert!(plain.contains("price: 200 → 190") && plain.contains(&web.url("/shoe")), "{plain}");
    assert!(
        html.contains(">200</span> → ") && html.contains(">190</span>") && !html.contains("<x>"),
        "{html}"
    );
    assert!(first.header("subject").unwrap().starts_with("Changed: http"), "{first:?}");
    assert_eq!(first.header("list-unsubscribe-post").as_deref(), Some("List-Unsubscribe=One-Click"));
    let path = unsubscribe_path(&first);
    assert!(plain.contains(&path) && html.contains(&path) && html.contains("Shoes &lt;sale&gt;"), "{plain}");
    // What happens within a minute of a letter comes together.
    for page in 0..3 {
        for _ in 0..2 {
            visit(&ada, &web.url(&format!("/shoe/{page}"))).await;
        }
    }
    eventually("they wait", PATIENCE, || async {
        (shown(&ada.api, &made).await["email"]["waiting"] == 3).then_some(())
    })
    .await;
    assert_eq!(letters(&server, "ada@example.com").len(), 1);
    at.clock.advance(MINUTE);
    let second = letter(&server, "ada@example.com", 2).await;
    assert!(second.header("subject").unwrap().contains("3 events"), "{:?}", second.header("subject"));
    assert_eq!(second.parts()[0].matches("price: ").count(), 3);
    let view = delivered(&ada.api, &made, 2).await;
    assert_eq!((&view["pending"], &view["failed"], &view["lastError"]), (&json!(0), &json!(0), &Value::Null));
    in_files(&[("one", &first), ("many", &second)]);
    // Tried anew it is the same letter; a test says how it went.
    let rows = deliveries(&ada.api, &made).await;
    assert!(text(&rows[0]["attempts"][0], "told").contains("taken: 1"), "{rows:?}");
    let again = format!("/api/v1/deliveries/{}/redeliver", text(&rows[0], "id"));
    expect(post(&ada.api, &again, &json!({})).await, 202);
    let third = letter(&server, "ada@example.com", 3).await;
    assert_eq!((third.header("message-id"), &third.data), (second.header("message-id"), &second.data));
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    let tested = expect(post(&ada.api, &format!("{one}/test"), &json!({})).await, 200);
    assert_eq!((&tested["sent"]["isDelivered"], text(&tested["sent"], "told")), (&json!(true), "taken: 1"));
    letter(&server, "ada@example.com", 4).await;
    // A page that is opened does nothing; the button, or the mail program, does.
    let stranger = at.client();
    let page = get(&stranger, &path).await;
    assert!(page.text().contains("<form method=\"post\">") && page.header("cache-control") == "no-store");
    assert!(!page.text().contains("Shoes") && !page.text().contains("ada"), "{}", page.text());
    assert!(page.header("content-security-policy").contains("form-action 'self'"));
    assert_eq!(recipients(&ada.api, &made).await[0].1, "active");
    assert_eq!(press(&stranger, &path).await.status, 200);
    assert_eq!(press(&stranger, &path).await.status, 200, "twice does no harm");
    assert_eq!(recipients(&ada.api, &made).await[0].1, "unsubscribed");
    at.clock.advance(MINUTE);
    visit(&ada, &web.url("/shoe/0")).await;
    let off = eventually("nobody is left", PATIENCE, || async {
        let view = shown(&ada.api, &made).await;
        (view["isEnabled"] == false).then_some(view)
    })
    .await;
    assert_eq!(off["disabledReason"], "no_recipients");
    assert_eq!(letters(&server, "ada@example.com").len(), 4);
    at.stop().await;
}

/// A member who came by invitation; their id.
async fn join(at: &Appliance, server: &MailServer, owner: &Member, name: &str) -> String {
    let email = format!("{name}@example.com");
    let invite = json!({ "email": email, "role": "viewer" });
    expect(post(&owner.browser, "/api/v1/orgs/current/invites", &invite).await, 201);
    let token = eventually("they are invited", PATIENCE, || async {
        let all = server.received();
        all.iter().filter(|mail| mail.to == [email.clone()]).find_map(|mail| mail.token("gli_"))
    })
    .await;
    let person = json!({ "email": email, "password": PASSWORD, "name": name });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let browser = at.client().bearer(text(&login, "accessToken"));
    expect(post(&browser, "/api/v1/invites/accept", &json!({ "token": token })).await, 200);
    text(&login["user"], "id").to_owned()
}

/// Where `GLEANER_LETTERS` names a folder the letters' HTML is put there, to be looked at.
fn in_files(all: &[(&str, &Received)]) {
    let Some(folder) = std::env::var_os("GLEANER_LETTERS") else { return };
    for (name, letter) in all {
        let [plain, html] = &letter.parts()[..] else { continue };
        let place = std::path::Path::new(&folder);
        std::fs::write(place.join(format!("{name}.html")), html).unwrap();
        std::fs::write(place.join(format!("{name}.txt")), plain).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_outside_gets_nothing_until_they_agree() {
    let server = MailServer::plain().await;
    let at = boxed(&server, &[]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let (guest, stranger) = ("guest@elsewhere.example", at.client());
    // Whose address another organization's member has is outside, too; and that there is one is not told.
    let made =
        letters_to(&ada.api, &[guest, &eve.email, &ada.email], json!({ "name": "Secret plans" })).await;
    let states = |view: Vec<(String, String)>| view.into_iter().map(|(_, state)| state).collect::<Vec<_>>();
    assert_eq!(states(recipients(&ada.api, &made).await), ["active", "pending", "pending"]);
    cause(&ada.api, 1).await;
    letter(&server, &ada.email, 1).await;
    let path = asked(&server, guest, 1).await.remove(0);
    let page = get(&stranger, &path).await.text();
    assert!(page.contains("Yes, write to me") && !page.contains("Secret"), "{page}");
    assert_eq!(
        states(recipients(&ada.api, &made).await),
        ["active", "pending", "pending"],
        "it was only looked at"
    );
    for wrong in [
        format!("{}x", &path[..path.len() - 1]),
        path.replace("confirm", "unsubscribe"),
        "/mail/confirm/x".to_owned(),
    ] {
        let reply = press(&stranger, &wrong).await;
        assert!(reply.text().contains("leads nowhere"), "{wrong}: {}", reply.text());
    }
    agreed(&at, &server, guest).await;
    assert!(press(&stranger, &path).await.text().contains("leads nowhere"), "it is good once");
    assert_eq!(states(recipients(&ada.api, &made).await), ["active", "pending", "active"]);
    at.clock.advance(MINUTE);
    cause(&ada.api, 1).await;
    let first = letter(&server, guest, 1).await;
    assert!(first.parts()[0].contains("Secret plans"), "who has agreed may know whose it is");
    assert_eq!(letters(&server, &eve.email).len(), 0);
    // Named again within a day they are not asked again; later they are, and the first link is worth nothing then.
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    let again = json!({ "email": { "recipients": [guest, eve.email] } });
    expect(patch(&ada.api, &one, &again).await, 200);
    at.clock.advance(Duration::from_secs(25 * 3_600));
    expect(patch(&ada.api, &one, &again).await, 200);
    let links = asked(&server, &eve.email, 2).await;
    assert_eq!(links.len(), 2);
    assert!(press(&stranger, &links[0]).await.text().contains("leads nowhere"));
    // A link ends.
    at.clock.advance(Duration::from_secs(7 * 86_400));
    assert!(press(&stranger, &links[1]).await.text().contains("leads nowhere"));
    // Who wanted no more is asked before anything is sent, also when they are named anew, and members as well.
    press(&stranger, &unsubscribe_path(&first)).await;
    let without = json!({ "email": { "recipients": [ada.email] } });
    expect(patch(&ada.api, &one, &without).await, 200);
    expect(patch(&ada.api, &one, &json!({ "email": { "recipients": [guest] } })).await, 200);
    assert_eq!(recipients(&ada.api, &made).await, [(guest.to_owned(), "pending".to_owned())]);
    // Of another's output nothing is seen, and nothing can be changed.
    assert_eq!(get(&eve.api, &one).await.status, 404);
    assert_eq!(patch(&eve.api, &one, &again).await.status, 404);
    let audit = expect(get(&ada.api, "/api/v1/audit-logs?limit=200").await, 200).to_string();
    assert!(audit.contains("\"confirmed\"") && audit.contains("\"unsubscribed\""), "{audit}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_no_member_any_more_gets_no_more() {
    let server = MailServer::plain().await;
    let at = boxed(&server, &[]).await;
    let ada = at.member("ada").await;
    let (bob, browser, api) = (join(&at, &server, &ada, "bob").await, &ada.browser, &ada.api);
    // Who came by an invitation has shown that the address is theirs.
    let made = letters_to(api, &["ada@example.com", "bob@example.com"], json!({})).await;
    assert_eq!(recipients(api, &made).await[1].1, "active");
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    for named in [&["ada@example.com"][..], &["ada@example.com", "bob@example.com"]] {
        expect(patch(api, &one, &json!({ "email": { "recipients": named } })).await, 200);
    }
    assert_eq!(recipients(api, &made).await[1].1, "active");
    cause(api, 1).await;
    letter(&server, "bob@example.com", 1).await;
    let path = format!("/api/v1/orgs/current/members/{bob}");
    assert_eq!(browser.delete(&path).await.unwrap().status, 204);
    at.clock.advance(MINUTE);
    cause(api, 1).await;
    letter(&server, "ada@example.com", 2).await;
    delivered(api, &made, 2).await;
    assert_eq!(letters(&server, "bob@example.com").len(), 1);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_mail_server_no_such_output_is_made() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let new = json!({ "kind": "email", "events": ["job.*"], "email": { "recipients": [ada.email] } });
    refused(&post(&ada.api, OUTPUTS, &new).await, 409, "Conflict", "no mail server");
    for path in ["/mail/unsubscribe/x", "/mail/confirm/x.y.z", "/mail/confirm/%00"] {
        let page = get(&at.client(), path).await;
        assert!(page.status == 404 || page.text().contains("leads nowhere"), "{path}: {}", page.text());
    }
    at.stop().await;
}
