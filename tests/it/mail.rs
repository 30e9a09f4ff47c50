//! Mail through a real dialogue with a mail server of the harness: what arrives, what is tried again, what is given up, and
//! that no request waits for it.

use crate::harness::Request;
use crate::harness::process::Process;
use crate::harness::smtp::{Act, MailServer, Received};
use crate::harness::{Appliance, PASSWORD, eventually, expect, get, post, refused, text};
use gleaner::admin;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const REGISTER: &str = "/api/v1/auth/register";
const FORGOT: &str = "/api/v1/auth/forgot-password";
const INVITES: &str = "/api/v1/orgs/current/invites";
/// Longer than the first pause with its jitter.
const FIRST_PAUSE: Duration = Duration::from_secs(80);
const SOON: Duration = Duration::from_secs(20);

async fn start(server: &MailServer, more: &[(&str, &str)]) -> (Appliance, TempDir) {
    let folder = TempDir::new().unwrap();
    let settings = server.settings(folder.path());
    let mut all: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    all.extend_from_slice(more);
    (Appliance::start_with(&all).await, folder)
}

async fn register(at: &Appliance, name: &str) -> Value {
    let person = json!({ "email": format!("{name}@example.com"), "password": PASSWORD, "name": name });
    expect(post(&at.client(), REGISTER, &person).await, 201)
}

async fn outbox(at: &Appliance) -> Vec<Value> {
    at.operator(Request::Outbox { limit: 100 }).await.as_array().unwrap().clone()
}

/// Waits until the only message to `to` is in a state that `is_so` accepts, and gives it.
async fn message(at: &Appliance, to: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("the message to {to} {what}"), SOON, || async {
        let mails = outbox(at).await;
        let mail = mails.into_iter().find(|mail| mail["to"] == format!("{to}@example.com"));
        mail.filter(|mail| is_so(mail))
    })
    .await
}

async fn sent(at: &Appliance, to: &str) -> Value {
    message(at, to, "is sent", |mail| mail["state"] == "sent").await
}

/// Waits until the message waits after a failed try.
async fn waits(at: &Appliance, to: &str) -> Value {
    message(at, to, "waits", |mail| mail["state"] == "queued" && mail["lastError"].is_string()).await
}

fn to<'a>(received: &'a [Received], name: &str) -> Vec<&'a Received> {
    received.iter().filter(|mail| mail.to == [format!("{name}@example.com")]).collect()
}

/// A head field with its encoded words read (RFC 2047).
fn read(field: &str) -> String {
    use base64::Engine;
    let words = field.split_whitespace().map(|word| {
        let inner = word.strip_prefix("=?utf-8?b?").and_then(|word| word.strip_suffix("?="));
        match inner {
            Some(inner) => (
                String::from_utf8(base64::engine::general_purpose::STANDARD.decode(inner).unwrap()).unwrap(),
                true,
            ),
            None => (word.to_owned(), false),
        }
    });
    let (mut line, mut was_encoded) = (String::new(), true);
    for (word, is_encoded) in words {
        // The space between two encoded words is not shown.
        let is_shown = !(was_encoded && is_encoded);
        if is_shown && !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
        was_encoded = is_encoded;
    }
    line
}

#[tokio::test]
async fn a_message_arrives_and_what_it_carried_is_forgotten() {
    let server = MailServer::plain().await;
    let (at, _folder) = start(&server, &[("MAIL__REPLY_TO", "help@example.com")]).await;
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada Łovelace <b> 👋" });
    let login = expect(post(&at.client(), REGISTER, &person).await, 201);
    let row = sent(&at, "ada").await;
    assert!(row["text"].is_null() && row["subject"].is_null() && row["lastError"].is_null(), "{row}");
    assert_eq!((&row["kind"], &row["attempts"]), (&json!("verify_email"), &json!(1)));

    let received = server.received();
    let [mail] = &received[..] else { panic!("{} messages", received.len()) };
    assert_eq!((mail.from.as_str(), &mail.to), ("box@example.com", &vec!["ada@example.com".to_owned()]));
    for (field, value) in [
        ("from", "Gleaner <box@example.com>"),
        ("to", "ada@example.com"),
        ("reply-to", "help@example.com"),
        ("subject", "Verify your email address"),
        ("auto-submitted", "auto-generated"),
        ("mime-version", "1.0"),
    ] {
        assert_eq!(mail.header(field).as_deref(), Some(value), "{field}");
    }
    assert_eq!(mail.header("message-id"), Some(format!("<{}@example.com>", text(&row, "id"))));
    let [plain, html] = &mail.parts()[..] else { panic!("{}", mail.data) };
    assert!(plain.contains("Hello Ada Łovelace <b> 👋,"), "{plain}");
    assert!(html.contains("Hello Ada Łovelace &lt;b&gt; 👋,"), "{html}");
    let token = mail.token("glv_").unwrap();
    assert!(html.contains(&format!("href=\"{}/verify-email#{token}\"", at.app().url())), "{html}");
    expect(post(&at.client(), "/api/v1/auth/verify-email", &json!({ "token": token })).await, 200);
    let me = at.client().bearer(text(&login, "accessToken"));
    assert!(expect(get(&me, "/api/v1/auth/me").await, 200)["user"]["emailVerifiedAt"].is_string());
    let metrics = get(&at.client(), "/metrics").await.text();
    assert!(metrics.contains("gleaner_mail_waiting 0\n") && metrics.contains("gleaner_mail_failed 0\n"));
    at.stop().await;
}

#[tokio::test]
async fn mail_goes_through_tls_with_a_login() {
    for (is_wrapped, mechanisms) in [(false, "PLAIN LOGIN"), (true, "LOGIN CRAM-MD5")] {
        let server = MailServer::tls(is_wrapped).await;
        server.behave(|manners| manners.mechanisms = mechanisms);
        let (at, _folder) =
            start(&server, &[("MAIL__USERNAME", "box"), ("MAIL__PASSWORD", "open sesame")]).await;
        register(&at, "ada").await;
        sent(&at, "ada").await;
        let mail = server.received().remove(0);
        assert_eq!((mail.is_encrypted, mail.login.as_deref()), (true, Some("box open sesame")));
        at.stop().await;
    }
}

#[tokio::test]
async fn without_sound_tls_nothing_is_said() {
    // No STARTTLS at all, a certificate that nobody vouches for, and words slipped in before TLS.
    let bare = MailServer::plain().await;
    let unknown = MailServer::tls(false).await;
    let slipped = MailServer::tls(false).await;
    slipped.behave(|manners| manners.injected = "250-evil\r\n250 AUTH LOGIN\r\n");
    let elsewhere = MailServer::tls(false).await;
    elsewhere.behave(|manners| manners.mechanisms = "GSSAPI NTLM");
    for (server, ca, reason) in [
        (&bare, None, "does not offer STARTTLS"),
        (&unknown, Some(""), "see mail.ca_file"),
        (&slipped, None, "before TLS"),
        (&elsewhere, None, "offers no login with a user name and a password"),
    ] {
        let mut more =
            vec![("MAIL__SECURITY", "starttls"), ("MAIL__USERNAME", "box"), ("MAIL__PASSWORD", "x")];
        more.extend(ca.map(|ca| ("MAIL__CA_FILE", ca)));
        let (at, _folder) = start(server, &more).await;
        register(&at, "ada").await;
        let row = waits(&at, "ada").await;
        assert!(text(&row, "lastError").contains(reason), "{row}");
        assert!(text(&row, "lastError").contains(&server.address.to_string()), "{row}");
        assert!(server.received().is_empty());
        at.stop().await;
    }
}

#[tokio::test]
async fn what_is_refused_for_now_is_tried_again_as_the_same_message() {
    let server = MailServer::plain().await;
    server.behave(|manners| manners.message = Act::Answer("451 4.7.1 greylisted, come back"));
    let (at, _folder) = start(&server, &[]).await;
    register(&at, "ada").await;
    let row = waits(&at, "ada").await;
    assert!(text(&row, "lastError").contains("451 4.7.1 greylisted"), "{row}");
    assert!(text(&row, "text").contains("glv_"), "the operator can still pass it on: {row}");
    let metrics = get(&at.client(), "/metrics").await.text();
    assert!(metrics.contains("gleaner_mail_waiting 1\n"));

    at.clock.advance(FIRST_PAUSE);
    eventually("it is tried again", SOON, || async { (server.received().len() == 2).then_some(()) }).await;
    server.behave(|manners| manners.message = Act::Accept);
    at.clock.advance(2 * FIRST_PAUSE);
    assert_eq!(sent(&at, "ada").await["attempts"], 3);
    let received = server.received();
    assert_eq!(received.iter().filter(|mail| mail.is_taken).count(), 1);
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|mail| mail.data == received[0].data), "byte for byte the same");
    at.stop().await;
}

#[tokio::test]
async fn what_is_refused_for_good_fails_at_once_and_holds_up_nobody() {
    let server = MailServer::plain().await;
    server.behave(|manners| manners.rcpt = ("eve", Act::Answer("550 5.1.1 no such user here")));
    let (at, _folder) = start(&server, &[]).await;
    for name in ["eve", "ada"] {
        register(&at, name).await;
    }
    sent(&at, "ada").await;
    let failed = message(&at, "eve", "has failed", |mail| mail["state"] == "failed").await;
    assert!(text(&failed, "lastError").contains("550 5.1.1 no such user here"), "{failed}");
    assert_eq!((&failed["attempts"], &failed["nextTryAt"]), (&json!(1), &Value::Null));
    assert!(text(&failed, "endedAt").ends_with('Z') && text(&failed, "text").contains("glv_"));
    assert!(get(&at.client(), "/metrics").await.text().contains("gleaner_mail_failed 1\n"));
    at.clock.advance(Duration::from_secs(5 * 3600));
    register(&at, "bob").await;
    sent(&at, "bob").await;
    assert!(to(&server.received(), "eve").is_empty(), "it is not tried again by itself");

    let socket = at.app().socket();
    for (id, part) in
        [(sent(&at, "ada").await["id"].clone(), "was sent already"), (json!(uuid()), "not found")]
    {
        let retry = Request::OutboxRetry { id: Some(text(&json!({ "id": id }), "id").parse().unwrap()) };
        let error = admin::call(&socket, &retry).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    server.behave(|manners| manners.rcpt = ("", Act::Accept));
    assert_eq!(at.operator(Request::OutboxRetry { id: None }).await, json!({ "queued": 1, "expired": 0 }));
    assert_eq!(sent(&at, "eve").await["attempts"], 2);
    assert_eq!(to(&server.received(), "eve").len(), 1);
    at.stop().await;
}

fn uuid() -> String {
    uuid::Uuid::now_v7().to_string()
}

#[tokio::test]
async fn a_refused_login_is_a_matter_of_the_settings_and_fails_no_message() {
    let server = MailServer::tls(false).await;
    server.behave(|manners| manners.auth = Act::Answer("535 5.7.8 bad credentials"));
    let (at, _folder) = start(&server, &[("MAIL__USERNAME", "box"), ("MAIL__PASSWORD", "wrong")]).await;
    register(&at, "ada").await;
    let row = waits(&at, "ada").await;
    assert!(text(&row, "lastError").contains("refuses the login: 535 5.7.8"), "{row}");
    assert!(!row.to_string().contains("wrong"), "{row}");
    server.behave(|manners| {
        manners.auth = Act::Accept;
        manners.mail = Act::Answer("530 5.7.0 authentication required");
    });
    at.clock.advance(FIRST_PAUSE);
    let asked = |mail: &Value| mail["lastError"].as_str().is_some_and(|why| why.contains("530 5.7.0"));
    let row = message(&at, "ada", "waits for a login", asked).await;
    assert_eq!(row["state"], "queued");
    server.behave(|manners| manners.mail = Act::Accept);
    at.clock.advance(2 * FIRST_PAUSE);
    sent(&at, "ada").await;
    at.stop().await;
}

#[tokio::test]
async fn a_server_that_says_nothing_holds_up_no_request_and_no_drain() {
    let server = MailServer::plain().await;
    server.behave(|manners| manners.greeting = Act::Hang);
    let (mut at, _folder) = start(&server, &[]).await;
    register(&at, "ada").await;
    eventually("the server is asked", SOON, || async { (server.connections() == 1).then_some(()) }).await;
    // It has not said a word, and gets a minute to. Meanwhile the box answers, and ends.
    register(&at, "eve").await;
    let rows = outbox(&at).await;
    assert!(rows.iter().all(|mail| mail["state"] == "queued" && mail["lastError"].is_null()), "{rows:?}");
    assert_eq!((rows.len(), server.connections()), (2, 1));
    at.pause().await;
    // Before it is there again: eve's message was never tried, and is tried at once.
    server.behave(|manners| manners.greeting = Act::Accept);
    at.restart().await;
    at.clock.advance(FIRST_PAUSE);
    for name in ["ada", "eve"] {
        sent(&at, name).await;
        assert_eq!(to(&server.received(), name).len(), 1);
    }
    at.stop().await;
}

#[tokio::test]
async fn when_the_server_cannot_be_used_every_message_waits_and_says_why() {
    let server = MailServer::plain().await;
    server.behave(|manners| manners.greeting = Act::Hang);
    let (at, _folder) = start(&server, &[("MAIL__TIMEOUT_SEC", "4")]).await;
    for name in ["ada", "eve", "bob"] {
        register(&at, name).await;
    }
    for name in ["ada", "eve", "bob"] {
        let row = waits(&at, name).await;
        assert!(text(&row, "lastError").contains("no answer to the greeting within 4 seconds"), "{row}");
    }
    for (greeting, part) in [
        (Act::Drop, "broke off at the greeting"),
        (Act::Answer("554 no mail from you"), "refuses the greeting: 554 no mail from you"),
        (Act::Answer("421 too busy"), "closes at the greeting: 421 too busy"),
        (Act::Answer("SSH-2.0-OpenSSH_9.6"), "does not speak SMTP"),
    ] {
        server.behave(|manners| manners.greeting = greeting);
        at.operator(Request::OutboxRetry { id: None }).await;
        for name in ["ada", "eve", "bob"] {
            message(&at, name, part, |mail| mail["lastError"].as_str().is_some_and(|why| why.contains(part)))
                .await;
        }
    }
    server.behave(|manners| manners.greeting = Act::Accept);
    at.operator(Request::OutboxRetry { id: None }).await;
    for name in ["ada", "eve", "bob"] {
        sent(&at, name).await;
        assert_eq!(to(&server.received(), name).len(), 1);
    }
    at.stop().await;
}

#[tokio::test]
async fn a_message_that_nobody_takes_ends_with_its_link() {
    let server = MailServer::plain().await;
    server.behave(|manners| manners.rcpt = ("example", Act::Answer("450 mailbox busy")));
    let (at, _folder) = start(&server, &[]).await;
    register(&at, "ada").await;
    waits(&at, "ada").await;
    expect(post(&at.client(), FORGOT, &json!({ "email": "ada@example.com" })).await, 200);
    let find = async |kind: &str| outbox(&at).await.into_iter().find(|mail| mail["kind"] == kind).unwrap();
    eventually("the reset is tried", SOON, || async {
        (find("reset_password").await["lastError"].is_string()).then_some(())
    })
    .await;
    at.clock.advance(Duration::from_secs(3600));
    let reset = eventually("the reset is given up", SOON, || async {
        let mail = find("reset_password").await;
        (mail["state"] == "failed").then_some(mail)
    })
    .await;
    let why = text(&reset, "lastError");
    assert!(
        why.starts_with("given up, it has waited too long: ") && why.contains("450 mailbox busy"),
        "{why}"
    );
    assert_eq!(find("verify_email").await["state"], "queued", "its link is good for a day");
    server.behave(|manners| manners.rcpt = ("", Act::Accept));
    let retried = at.operator(Request::OutboxRetry { id: None }).await;
    // The other one may be on its way just now.
    assert_eq!(retried["expired"], 1, "a dead link is not sent: {retried}");
    eventually("the other one is sent", SOON, || async {
        (find("verify_email").await["state"] == "sent").then_some(())
    })
    .await;
    at.stop().await;
}

#[tokio::test]
async fn a_link_that_is_not_needed_any_more_is_not_sent() {
    let server = MailServer::plain().await;
    server.behave(|manners| manners.mail = Act::Answer("451 later"));
    let (at, _folder) = start(&server, &[]).await;
    register(&at, "ada").await;
    waits(&at, "ada").await;
    at.operator(Request::UserVerify { email: "ada@example.com".into() }).await;
    assert!(outbox(&at).await.is_empty());
    server.behave(|manners| manners.mail = Act::Accept);
    at.clock.advance(FIRST_PAUSE);
    register(&at, "eve").await;
    sent(&at, "eve").await;
    assert!(to(&server.received(), "ada").is_empty());
    at.stop().await;
}

/// `kill -9` between the server's reading and the row: the message is sent again, and is the same one. After the row
/// says that it was sent, it is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_box_sends_a_message_again_only_when_it_could_not_know() {
    let server = MailServer::plain().await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let settings = server.settings(dir.path());
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    server.behave(|manners| manners.message = Act::Hang);
    let process = Process::start(&data, &settings);
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    expect(post(&process.client(), REGISTER, &person).await, 201);
    eventually("the server has read it", SOON, || async { (server.received().len() == 1).then_some(()) })
        .await;
    process.kill();

    server.behave(|manners| manners.message = Act::Accept);
    let process = Process::start(&data, &settings);
    let states = async |process: &Process| {
        let rows = admin::call(&process.socket(), &Request::Outbox { limit: 10 }).await.unwrap();
        rows.as_array().unwrap().iter().map(|mail| text(mail, "state").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(&process).await, ["queued"]);
    admin::call(&process.socket(), &Request::OutboxRetry { id: None }).await.unwrap();
    eventually("it is sent", SOON, || async { (states(&process).await == ["sent"]).then_some(()) }).await;
    process.kill();

    let process = Process::start(&data, &settings);
    let runs = async || {
        let page = get(&process.client(), "/metrics").await.text();
        let line = page.lines().find(|line| line.starts_with("gleaner_task_runs_total{task=\"mail.send\"}"));
        line.and_then(|line| line.rsplit(' ').next()).map_or(0, |count| count.parse::<u32>().unwrap())
    };
    eventually("the box looked for mail again", SOON, || async { (runs().await >= 2).then_some(()) }).await;
    assert_eq!(states(&process).await, ["sent"]);
    let received = server.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].data, received[1].data, "the same Message-ID, and everything else");
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test]
async fn names_make_no_head_fields_no_markup_and_no_links() {
    let server = MailServer::plain().await;
    let (at, _folder) = start(&server, &[]).await;
    let owner = at.member("ada").await;
    for name in ["Acme\r\nBcc: eve@example.com", "Acme\nX: 1", "a\u{0}b"] {
        let path = "/api/v1/orgs/current";
        let reply =
            owner.browser.send(http::Method::PATCH, path, Some(&json!({ "name": name }))).await.unwrap();
        refused(&reply, 400, "Validation failed", "name: ");
        for email in [format!("eve@example.com{name}"), format!("{name}@example.com")] {
            let invite = json!({ "email": email, "role": "viewer" });
            refused(&post(&owner.browser, INVITES, &invite).await, 400, "Validation failed", "email: ");
        }
    }
    let name = "<script>alert(1)</script> \"Ünïcode\" 東京 👋 http://evil.example/x.";
    let renamed = json!({ "name": name });
    let path = "/api/v1/orgs/current";
    expect(owner.browser.send(http::Method::PATCH, path, Some(&renamed)).await.unwrap(), 200);
    let invite = json!({ "email": "guest@bücher.example", "role": "viewer" });
    expect(post(&owner.browser, INVITES, &invite).await, 201);
    let mail = eventually("the invitation arrives", SOON, || async {
        server.received().into_iter().find(|mail| mail.to == ["guest@xn--bcher-kva.example"])
    })
    .await;
    let shown = "<script>alert(1)</ script> \"Ünïcode\" 東京 👋 http: / / evil. example/ x.";
    assert_eq!(read(&mail.header("subject").unwrap()), format!("ada invites you to {shown}"));
    let head = mail.data.split("\r\n\r\n").next().unwrap();
    assert!(head.is_ascii());
    let fields: Vec<String> = head
        .lines()
        .filter(|line| !line.starts_with([' ', '\t']))
        .map(|line| line.split(':').next().unwrap().to_ascii_lowercase())
        .collect();
    for field in &fields {
        let known =
            ["from", "to", "subject", "date", "message-id", "auto-submitted", "mime-version", "content-type"];
        assert!(known.contains(&field.as_str()), "{field} in {head}");
    }
    let [plain, html] = &mail.parts()[..] else { panic!("{}", mail.data) };
    assert!(plain.contains(shown) && plain.contains("(ada@example.com)"), "{plain}");
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;alert(1)&lt;/ script&gt;"), "{html}");
    let remote = html.replace("http: / / evil", "").matches("http").count();
    assert!(!html.contains("src=") && remote == html.matches(at.app().url()).count(), "{html}");
    at.stop().await;
}

#[tokio::test]
async fn an_organization_sends_a_bounded_number_of_invitations_a_day() {
    let mut at = Appliance::start_with(&[("AUTH__INVITES_PER_DAY", "2")]).await;
    let (ada, bob) = (at.member("ada").await, at.member("bob").await);
    // Away from midnight, so that the day does not end during the test.
    let into_day = at.clock.now().millis().rem_euclid(86_400_000);
    at.clock.advance(
        Duration::from_millis(u64::try_from(86_400_000 - into_day).unwrap()) + Duration::from_secs(3600),
    );
    let invite = async |member: &server::client::Client, n: u32| {
        let body = json!({ "email": format!("guest{n}@example.com"), "role": "viewer" });
        post(member, INVITES, &body).await
    };
    let first = expect(invite(&ada.api, 1).await, 201);
    assert_eq!(ada.api.delete(&format!("{INVITES}/{}", text(&first, "id"))).await.unwrap().status, 204);
    expect(invite(&ada.api, 2).await, 201);
    let third = invite(&ada.api, 3).await;
    refused(&third, 429, "Too many invitations", "auth.invites_per_day: limit 2, today 2");
    let wait: u64 = third.header("retry-after").parse().unwrap();
    assert!((1..=23 * 3600).contains(&wait), "{wait}");
    expect(invite(&bob.api, 1).await, 201);
    at.restart().await;
    let ada = at.client().bearer(&ada.key);
    expect(invite(&ada, 3).await, 429);
    assert_eq!(expect(get(&ada, INVITES).await, 200)["items"].as_array().unwrap().len(), 1);
    at.clock.advance(Duration::from_secs(wait));
    expect(invite(&ada, 3).await, 201);
    at.stop().await;
}

/// What the links lead to: a page with its own script and nothing else.
#[tokio::test]
async fn links_lead_to_pages_that_may_run_their_own_script_only() {
    use base64::Engine;
    let at = Appliance::start().await;
    for page in ["verify-email", "reset-password", "invite"] {
        let reply = get(&at.client(), &format!("/{page}")).await;
        assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, "text/html; charset=utf-8"));
        let html = reply.text();
        assert!(html.contains(&format!("<form id=\"{page}\"")), "{html}");
        let script = html.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
        assert!(script.contains(&format!("\"/{}", page.split('-').next().unwrap())) || script.contains(page));
        let hash = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
        let hash = base64::engine::general_purpose::STANDARD.encode(hash);
        let policy = reply.header("content-security-policy");
        assert!(policy.contains(&format!("script-src 'sha256-{hash}'")), "{policy}");
        assert_eq!(
            (reply.header("cache-control"), reply.header("referrer-policy")),
            ("no-store", "no-referrer")
        );
    }
    at.stop().await;
}

#[tokio::test]
async fn the_operator_sees_whether_mail_arrives() {
    let server = MailServer::plain().await;
    let (at, _folder) = start(&server, &[("MAIL__TIMEOUT_SEC", "4")]).await;
    let test = Request::MailTest { to: "ada@example.com".into() };
    let told = at.operator(test).await;
    assert_eq!(told, json!({ "sent": "ada@example.com", "server": server.address.to_string() }));
    let mail = server.received().remove(0);
    assert_eq!(mail.to, ["ada@example.com"]);
    assert_eq!(mail.header("subject"), Some(format!("Mail of {} arrives", at.app().url())));
    let status = at.operator(Request::Status).await;
    assert_eq!(status["mail"], json!({ "server": server.address.to_string(), "waiting": 0, "failed": 0 }));
    let failing = async |to: &str, part: &str| {
        let test = Request::MailTest { to: to.into() };
        let error = admin::call(&at.app().socket(), &test).await.unwrap_err().to_string();
        assert!(error.contains(part), "\"{part}\" is not in \"{error}\"");
    };
    failing("ada", "\"ada\" is no address").await;
    failing("ada@example.com\r\nRCPT TO:<eve@example.com>", "is no address").await;
    server.behave(|manners| manners.rcpt = ("eve", Act::Answer("550 5.1.1 unknown")));
    failing("eve@example.com", "refuses the address: 550 5.1.1 unknown").await;
    server.behave(|manners| manners.greeting = Act::Hang);
    failing("ada@example.com", "no answer to the greeting").await;
    at.stop().await;
    let bare = Appliance::start().await;
    let test = Request::MailTest { to: "ada@example.com".into() };
    let error = admin::call(&bare.app().socket(), &test).await.unwrap_err();
    assert!(error.to_string().contains("set mail.host"), "{error}");
    bare.stop().await;
}

#[tokio::test]
async fn without_a_mail_server_messages_wait_for_the_operator() {
    let at = Appliance::start().await;
    register(&at, "ada").await;
    let rows = outbox(&at).await;
    assert_eq!((&rows[0]["state"], &rows[0]["attempts"]), (&json!("queued"), &json!(0)));
    assert!(text(&rows[0], "text").contains("/verify-email#glv_"), "{rows:?}");
    let error = admin::call(&at.app().socket(), &Request::OutboxRetry { id: None }).await.unwrap_err();
    assert!(error.to_string().contains("set mail.host"), "{error}");
    at.stop().await;
}

#[test]
fn a_mistake_in_the_settings_is_named_at_start() {
    let dir = TempDir::new().unwrap();
    let serve = |settings: &[(&str, &str)]| {
        let mut command = std::process::Command::new(crate::harness::binary());
        command.arg("serve").current_dir(dir.path()).env("GLEANER_SERVER__LISTEN", "127.0.0.1:0");
        command.env("GLEANER_MAIL__HOST", "mail.example.com").env("GLEANER_MAIL__FROM", "box@example.com");
        for (key, value) in settings {
            command.env(format!("GLEANER_MAIL__{key}"), value);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    for (settings, part) in [
        (&[("FROM", "")][..], "mail.from: must be set"),
        (&[("SECURITY", "none")], "mail.security: is \"none\""),
        (&[("USERNAME", "box"), ("PASSWORD_FILE", "nope")], "/nope cannot be read"),
        (&[("CA_FILE", "nope.pem")], "/nope.pem cannot be read"),
    ] {
        let errors = serve(settings);
        assert!(errors.contains(part), "{errors}");
    }
    assert!(!Path::new(&dir.path().join("nope")).exists());
}
