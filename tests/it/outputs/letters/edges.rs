//! Addresses that bounce, mail servers that are away, organizations beside each other, and requests at their limits.

use super::{
    MINUTE, OUTPUTS, PATIENCE, agreed, asked, boxed, cause, delivered, deliveries, from_pypi, letter,
    letters, letters_to, recipients, shown,
};
use crate::audit::patch;
use crate::harness::smtp::{Act, MailServer};
use crate::harness::{Appliance, PASSWORD, eventually, expect, get, post, refused, text};
use http::Method;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_bounces_costs_the_others_nothing() {
    let server = MailServer::plain().await;
    let at = boxed(&server, &[]).await;
    let ada = at.member("ada").await;
    let (good, bad) = ("good@elsewhere.example", "gone@elsewhere.example");
    let made = letters_to(&ada.api, &[good, bad], json!({})).await;
    agreed(&at, &server, good).await;
    agreed(&at, &server, bad).await;
    server.behave(|manners| manners.rcpt = ("gone", Act::Answer("550 5.1.1 no such user")));
    for round in 1..=3 {
        cause(&ada.api, 1).await;
        letter(&server, good, round).await;
        let view = delivered(&ada.api, &made, round as u64).await;
        let of_bad = view["email"]["recipients"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["address"] == bad)
            .unwrap()
            .clone();
        assert_eq!(of_bad["refused"], round, "{of_bad}");
        assert!(text(&of_bad, "lastError").contains("550 5.1.1 no such user"), "{of_bad}");
        assert_eq!(of_bad["state"], if round < 3 { "active" } else { "bounced" });
        at.clock.advance(MINUTE);
    }
    let told = deliveries(&ada.api, &made).await[0]["attempts"][0]["told"].to_string();
    assert!(told.contains("taken: 1, refused: 1"), "{told}");
    server.behave(|manners| manners.rcpt = ("", Act::Accept));
    cause(&ada.api, 1).await;
    letter(&server, good, 4).await;
    delivered(&ada.api, &made, 4).await;
    assert_eq!(letters(&server, bad).len(), 0, "nothing more is sent there");
    // A refusal of the box is nobody's bounce, and an answer of "later" keeps the letter from nobody else.
    server.behave(|manners| manners.rcpt = ("gone", Act::Answer("451 try again")));
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    for named in [&[good][..], &[good, bad]] {
        expect(patch(&ada.api, &one, &json!({ "email": { "recipients": named } })).await, 200);
    }
    server.behave(|manners| manners.rcpt = ("", Act::Accept));
    at.clock.advance(Duration::from_secs(25 * 3_600));
    expect(patch(&ada.api, &one, &json!({ "email": { "recipients": [good, bad] } })).await, 200);
    let path = asked(&server, bad, 2).await.pop().unwrap();
    assert!(super::press(&at.client(), &path).await.text().contains("from now on"));
    server.behave(|manners| manners.rcpt = ("gone", Act::Answer("451 try again")));
    cause(&ada.api, 1).await;
    letter(&server, good, 5).await;
    let waiting = eventually("it is to be tried again", PATIENCE, || async {
        let row = deliveries(&ada.api, &made).await.remove(0);
        (row["tries"] == 1).then_some(row)
    })
    .await;
    assert_eq!(waiting["state"], "pending", "{waiting}");
    server.behave(|manners| manners.rcpt = ("", Act::Accept));
    at.clock.advance(Duration::from_secs(10));
    letter(&server, bad, 1).await;
    delivered(&ada.api, &made, 5).await;
    assert_eq!(letters(&server, good).len(), 5, "who has it does not get it twice");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_server_that_is_away_loses_no_letter() {
    let server = MailServer::plain().await;
    let mut at = boxed(&server, &[]).await;
    let ada = at.member("ada").await;
    let made = letters_to(&ada.api, &[&ada.email], json!({})).await;
    server.behave(|manners| manners.greeting = Act::Answer("554 go away"));
    cause(&ada.api, 3).await;
    let row = eventually("it was tried", PATIENCE, || async {
        let row = deliveries(&ada.api, &made).await.pop()?;
        row["attempts"].as_array().is_some_and(|all| !all.is_empty()).then_some(row)
    })
    .await;
    assert_eq!(
        (&row["state"], &row["tries"]),
        (&json!("pending"), &json!(0)),
        "the server's fault is not the letter's: {row}"
    );
    assert!(text(&row["attempts"][0], "told").contains("554 go away"), "{row}");
    at.restart().await;
    let api = at.client().bearer(&ada.key);
    server.behave(|manners| manners.greeting = Act::Accept);
    at.clock.advance(Duration::from_secs(600));
    letter(&server, &ada.email, 1).await;
    delivered(&api, &made, 1).await;
    // The box is refused as a sender: it is tried again, and nobody bounces.
    server.behave(|manners| manners.mail = Act::Answer("550 not you"));
    cause(&api, 1).await;
    eventually("it was refused", PATIENCE, || async {
        let row = deliveries(&api, &made).await.remove(0);
        (row["state"] == "pending" && row["tries"] == 1).then_some(())
    })
    .await;
    let view = shown(&api, &made).await;
    assert_eq!(
        (&view["email"]["recipients"][0]["refused"], &view["state"]),
        (&json!(0), &json!("failing")),
        "{view}"
    );
    server.behave(|manners| manners.mail = Act::Accept);
    at.clock.advance(Duration::from_secs(10));
    letter(&server, &ada.email, 2).await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_of_one_organization_delay_neither_another_nor_the_box() {
    let server = MailServer::plain().await;
    let at = boxed(&server, &[("OUTPUTS__LETTERS_PER_HOUR", "5")]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let mut hers = Vec::new();
    for n in 0..12 {
        hers.push(letters_to(&eve.api, &[&eve.email], json!({ "name": format!("flood {n}") })).await);
    }
    let mine = letters_to(&ada.api, &[&ada.email], json!({})).await;
    cause(&eve.api, 1).await;
    eventually("she has sent as many as she may", PATIENCE, || async {
        (letters(&server, &eve.email).len() >= 5).then_some(())
    })
    .await;
    let begun = Instant::now();
    cause(&ada.api, 1).await;
    letter(&server, &ada.email, 1).await;
    expect(post(&at.client(), "/api/v1/auth/forgot-password", &json!({ "email": eve.email })).await, 200);
    eventually("the box's own message comes", PATIENCE, || async {
        server
            .received()
            .iter()
            .any(|mail| mail.to == [eve.email.clone()] && mail.token("glp_").is_some())
            .then_some(())
    })
    .await;
    // What waits for her waits for an hour.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(letters(&server, &eve.email).len(), 5);
    assert_eq!(shown(&ada.api, &mine).await["email"]["fullUntil"], Value::Null);
    let full = shown(&eve.api, &hers[0]).await;
    assert!(full["email"]["fullUntil"].is_string() && full["state"] != "failing", "{full}");
    let tested = format!("{OUTPUTS}/{}/test", text(&hers[0], "id"));
    let tested = expect(post(&eve.api, &tested, &json!({})).await, 200);
    assert!(text(&tested["sent"], "told").contains("as many letters this hour"), "{tested}");
    // What is beyond comes in the hours after.
    for hour in [10, 12] {
        at.clock.advance(Duration::from_secs(3_601));
        eventually("more comes", PATIENCE, || async {
            (letters(&server, &eve.email).len() >= hour).then_some(())
        })
        .await;
    }
    assert_eq!(letters(&server, &eve.email).len(), 12, "each output's letter once");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_of_letters_has_its_limits() {
    let server = MailServer::plain().await;
    let at = boxed(&server, &[]).await;
    let ada = at.member("ada").await;
    let large = "x".repeat(900_000);
    let some: Vec<_> = (0..51).map(|n| format!("a{n}@elsewhere.example")).collect();
    let many: Vec<_> = (0..30_000).map(|n| format!("a{n}@elsewhere.example")).collect();
    for (email, named) in [
        (json!({}), "email.recipients"),
        (json!({ "recipients": [] }), "email.recipients"),
        (json!({ "recipients": some }), "email.recipients"),
        (json!({ "recipients": many }), "email.recipients"),
        (json!({ "recipients": [ada.email, large] }), "email.recipients[1]"),
        (json!({ "recipients": ["ada"] }), "email.recipients[0]"),
        (json!({ "recipients": ["a@b.example\r\nBcc: c@d.example"] }), "email.recipients[0]"),
        (json!({ "recipients": [ada.email], "when": "weekly" }), "email.when"),
        (json!({ "recipients": [ada.email], "hour": 3 }), "email.hour"),
        (json!({ "recipients": [ada.email], "when": "daily", "hour": 24 }), "email.hour"),
        (json!({ "recipients": [ada.email], "when": "daily", "timezone": "Mars/Utopia" }), "email.timezone"),
        (json!({ "recipients": [ada.email], "when": "daily", "timezone": large }), "email.timezone"),
        (json!({ "recipients": [ada.email], "when": "hourly", "timezone": "UTC" }), "email.timezone"),
    ] {
        let new = json!({ "kind": "email", "events": ["job.*"], "email": email });
        let (begun, reply) = (Instant::now(), post(&ada.api, OUTPUTS, &new).await);
        assert!(begun.elapsed() < Duration::from_secs(30), "{named}: {:?}", begun.elapsed());
        assert_eq!(reply.status, 400, "{named}: {}", reply.text());
        assert!(reply.text().contains(named) && reply.text().len() < 2_000, "{named}: {}", reply.text());
    }
    for (body, named) in [
        (json!({ "kind": "email", "events": ["job.*"] }), "email"),
        (
            json!({ "kind": "email", "events": ["job.*"], "url": "https://a.example/", "email": { "recipients": [ada.email] } }),
            "url",
        ),
        (json!({ "kind": "feed", "events": ["job.*"], "email": { "recipients": [ada.email] } }), "email"),
    ] {
        refused(&post(&ada.api, OUTPUTS, &body).await, 400, "Validation failed", named);
    }
    assert_eq!(expect(get(&ada.api, OUTPUTS).await, 200)["items"], json!([]));
    // As many strangers as may be asked in a day, and no more; a name that would be a link is none.
    let fifty = some[..50].to_vec();
    let name = json!({ "name": "https://evil.example/ now" });
    letters_to(&ada.api, &fifty.iter().map(String::as_str).collect::<Vec<_>>(), name).await;
    let others: Vec<_> = (0..50).map(|n| format!("b{n}@elsewhere.example")).collect();
    letters_to(&ada.api, &others.iter().map(String::as_str).collect::<Vec<_>>(), json!({})).await;
    let new =
        json!({ "kind": "email", "events": ["job.*"], "email": { "recipients": ["c@elsewhere.example"] } });
    let turned_away = post(&ada.api, OUTPUTS, &new).await;
    assert_eq!(turned_away.status, 429);
    assert!(turned_away.text().contains("100 people today"), "{}", turned_away.text());
    let link = asked(&server, &fifty[7], 1).await.remove(0);
    assert!(!link.contains("evil"));
    // One address is asked three times a day at most, however often outputs are made.
    let eve = at.member("eve").await;
    for _ in 0..5 {
        let made = letters_to(&eve.api, &["victim@elsewhere.example"], json!({})).await;
        eventually("what asks them is sent", PATIENCE, || async {
            let waiting = at.operator(crate::harness::Request::Outbox { limit: 200 }).await;
            waiting.as_array().unwrap().iter().all(|mail| mail["state"] == "sent").then_some(())
        })
        .await;
        assert_eq!(eve.api.delete(&format!("{OUTPUTS}/{}", text(&made, "id"))).await.unwrap().status, 204);
    }
    assert_eq!(asked(&server, "victim@elsewhere.example", 1).await.len(), 3);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recipients_and_what_waits_go_with_people_and_organizations() {
    let server = MailServer::plain().await;
    let at = boxed(&server, &[]).await;
    let (ada, eve, zoe) = (at.member("ada").await, at.member("eve").await, at.member("zoe").await);
    // Zoe has an account of her own, and gets letters of the two others.
    let mine =
        letters_to(&ada.api, &[&ada.email, &zoe.email], json!({ "email": { "when": "hourly" } })).await;
    letters_to(&eve.api, &[&eve.email, &zoe.email], json!({ "email": { "when": "hourly" } })).await;
    for path in asked(&server, &zoe.email, 2).await {
        assert!(super::press(&at.client(), &path).await.text().contains("from now on"));
    }
    cause(&eve.api, 3).await;
    cause(&ada.api, 2).await;
    // The organization first: its letters are never sent.
    let end = json!({ "confirmName": "eve" });
    expect(eve.browser.send(Method::DELETE, "/api/v1/orgs/current", Some(&end)).await.unwrap(), 202);
    let end = json!({ "confirmName": "zoe" });
    expect(zoe.browser.send(Method::DELETE, "/api/v1/orgs/current", Some(&end)).await.unwrap(), 202);
    let login = json!({ "email": zoe.email, "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &login).await, 200);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let gone = json!({ "password": PASSWORD });
    expect(browser.send(Method::DELETE, "/api/v1/account", Some(&gone)).await.unwrap(), 202);
    eventually("her address is gone", Duration::from_secs(60), || async {
        (recipients(&ada.api, &mine).await.len() == 1).then_some(())
    })
    .await;
    at.clock.advance(Duration::from_secs(3_700));
    letter(&server, &ada.email, 1).await;
    assert_eq!(letters(&server, &zoe.email).len(), 0);
    assert_eq!(letters(&server, &eve.email).len(), 0);
    at.stop().await;
}

/// A mail server that people use reads the letters: both parts, their headers, and nothing that it finds wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_server_that_people_use_takes_a_letter() {
    let Some(tools) = from_pypi(&["aiosmtpd==1.4.6"]) else { return };
    let folder = TempDir::new().unwrap();
    let script = "
import sys, email, email.policy, socket, time
from aiosmtpd.controller import Controller
class Keep:
    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.original_content, policy=email.policy.default)
        if mail['List-Unsubscribe']:
            text, html = mail.get_body(('plain',)).get_content(), mail.get_body(('html',)).get_content()
            said = [envelope.rcpt_tos[0], mail['List-Unsubscribe-Post'], str(len(mail.defects)), str('<html' in html), str('Queued' in text or 'queued' in text)]
            open(sys.argv[1] + '/letter', 'w').write('|'.join(said))
        return '250 OK'
probe = socket.socket()
probe.bind(('127.0.0.1', 0))
port = probe.getsockname()[1]
probe.close()
controller = Controller(Keep(), hostname='127.0.0.1', port=port)
controller.start()
open(sys.argv[1] + '/port', 'w').write(str(port))
time.sleep(300)
";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(folder.path()).env("PYTHONPATH", tools.path()).stdout(Stdio::null());
    let mut python = python.spawn().unwrap();
    let read =
        |name: &str| std::fs::read_to_string(folder.path().join(name)).ok().filter(|text| !text.is_empty());
    let port = eventually("it listens", PATIENCE, || async { read("port") }).await;
    let settings = [
        ("MAIL__HOST", "127.0.0.1"),
        ("MAIL__PORT", port.as_str()),
        ("MAIL__FROM", "Gleaner <box@example.com>"),
        ("MAIL__SECURITY", "none"),
    ];
    let at = Appliance::start_with(&settings).await;
    let ada = at.member("ada").await;
    letters_to(&ada.api, &[&ada.email], json!({})).await;
    cause(&ada.api, 1).await;
    let said = eventually("the letter comes", PATIENCE, || async { read("letter") }).await;
    assert_eq!(said, "ada@example.com|List-Unsubscribe=One-Click|0|True|True");
    at.stop().await;
    python.kill().unwrap();
    python.wait().unwrap();
}
