//! What follows a failure: pauses, endpoints that want to be left alone, and those that are given up.

use super::{OUTPUTS, PATIENCE, Receiver, Said, boxed, cause, deliveries, output, received, shown};
use crate::audit::patch;
use crate::harness::smtp::MailServer;
use crate::harness::{Appliance, Request, eventually, expect, get, post, refused, text};
use base::clock::Timestamp;
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

/// The pauses that the documentation states, in seconds.
const PAUSES: [u64; 7] = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000];
/// Time in which a try that is due has come.
const SOON: Duration = Duration::from_millis(500);

async fn settled(api: &Client, made: &Value, tries: u64) -> Value {
    eventually(&format!("{tries} tries are written down"), PATIENCE, || async {
        let first = deliveries(api, made).await.pop()?;
        (first["tries"] == tries).then_some(first)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_tries_with_the_stated_pauses_and_then_by_hand() {
    let receiver = Receiver::open(|_| Said::status(500)).await;
    let at = boxed(&[receiver.address]).await;
    let ada = at.member("ada").await;
    let made = output(&ada.api, &receiver.url("/"), json!({})).await;
    cause(&ada.api, 1).await;
    received(&receiver, 1).await;
    for (tried, pause) in PAUSES.iter().enumerate() {
        let tries = tried + 1;
        settled(&ada.api, &made, tries as u64).await;
        // The shortest pause is not gone into: on a slow machine what would be left of it is over by then.
        let early = if *pause < 60 { 0.0 } else { 0.7 };
        at.clock.advance(Duration::from_secs(*pause).mul_f64(early));
        tokio::time::sleep(SOON).await;
        assert_eq!(receiver.count(), tries, "too soon after try {tries}");
        at.clock.advance(Duration::from_secs(*pause).mul_f64(1.15 - early));
        received(&receiver, tries + 1).await;
    }
    let failed = settled(&ada.api, &made, 8).await;
    assert_eq!((&failed["state"], &failed["nextTryAt"]), (&json!("failed"), &Value::Null));
    let attempts = failed["attempts"].as_array().unwrap();
    assert_eq!(
        (attempts.len(), &attempts[0]["status"], &attempts[0]["told"]),
        (8, &json!(500), &json!("it is 500"))
    );
    // None came sooner than it may by the ledger, either.
    for (pair, pause) in attempts.windows(2).zip(PAUSES) {
        let [before, after] = [&pair[0], &pair[1]].map(|one| text(one, "at").parse::<Timestamp>().unwrap());
        assert!(after.since(before) >= Duration::from_secs(pause).mul_f64(0.89), "{failed}");
    }
    at.clock.advance(Duration::from_secs(24 * 3_600));
    tokio::time::sleep(SOON).await;
    assert_eq!(receiver.count(), 8, "it is given up");
    let failing = shown(&ada.api, &made).await;
    assert_eq!((&failing["state"], &failing["failed"]), (&json!("failing"), &json!(1)));
    // By hand, once the endpoint works: the same id and the same body.
    receiver.behave(|_| Said::status(200));
    let again = format!("/api/v1/deliveries/{}/redeliver", text(&failed, "id"));
    assert_eq!(expect(post(&ada.api, &again, &json!({})).await, 202)["state"], "pending");
    let all = received(&receiver, 9).await;
    let ids: std::collections::BTreeSet<_> = all.iter().map(|message| message.header("webhook-id")).collect();
    assert!(ids.len() == 1 && all.iter().all(|message| message.body == all[0].body));
    let times: Vec<i64> =
        all.iter().map(|message| message.header("webhook-timestamp").parse().unwrap()).collect();
    assert!(times.is_sorted() && times[8] - times[0] > 100_000, "the time is that of the try: {times:?}");
    let well = settled(&ada.api, &made, 1).await;
    assert_eq!(well["state"], "delivered");
    assert_eq!(shown(&ada.api, &made).await["state"], "ok");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_asks_for_a_pause_gets_it() {
    let receiver =
        Receiver::open(|_| Said { headers: vec![("retry-after", "3600".to_owned())], ..Said::status(429) })
            .await;
    let at = boxed(&[receiver.address]).await;
    let ada = at.member("ada").await;
    let made = output(&ada.api, &receiver.url("/"), json!({})).await;
    cause(&ada.api, 1).await;
    settled(&ada.api, &made, 1).await;
    cause(&ada.api, 3).await;
    at.clock.advance(Duration::from_secs(1_800));
    // What has happened is followed behind it.
    eventually("all four wait", PATIENCE, || async {
        let view = shown(&ada.api, &made).await;
        (view["state"] == "throttled" && view["pending"] == 4).then_some(())
    })
    .await;
    tokio::time::sleep(SOON).await;
    assert_eq!(receiver.count(), 1, "nothing else is sent there either");
    receiver.behave(|_| Said::status(200));
    at.clock.advance(Duration::from_secs(1_900));
    received(&receiver, 5).await;
    // A redirect is a failure, and nobody follows it.
    receiver.behave(|_| Said { headers: vec![("location", "/elsewhere".to_owned())], ..Said::status(307) });
    cause(&ada.api, 1).await;
    received(&receiver, 6).await;
    tokio::time::sleep(SOON).await;
    // On a slow machine it may have been tried again by now: there, and not elsewhere.
    assert!(receiver.received().iter().all(|message| message.path == "/"));
    at.stop().await;
}

async fn disabled(api: &Client, made: &Value, reason: &str) {
    eventually("the output is switched off", PATIENCE, || async {
        let view = shown(api, made).await;
        (view["state"] == "disabled" && view["disabledReason"] == reason).then_some(())
    })
    .await;
    let events = expect(get(api, "/api/v1/events?kind=output.disabled").await, 200);
    assert_eq!(events["items"][0]["data"]["reason"], reason);
    assert_eq!(events["items"][0]["subject"], json!({ "type": "output", "id": made["id"] }));
    let rows = expect(get(api, "/api/v1/audit-logs?action=output.disabled").await, 200);
    assert_eq!(rows["items"][0]["resourceId"], made["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_gone_or_dead_is_said_by_event_audit_row_and_mail() {
    let receiver =
        Receiver::open(|message| Said::status(if message.path == "/gone" { 410 } else { 503 })).await;
    let at = boxed(&[receiver.address]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let gone = output(&ada.api, &receiver.url("/gone"), json!({ "name": "Gone" })).await;
    cause(&ada.api, 3).await;
    disabled(&ada.api, &gone, "gone").await;
    assert_eq!(receiver.count(), 1, "nothing more is sent");
    let delivery = &deliveries(&ada.api, &gone).await[0];
    let again = format!("/api/v1/deliveries/{}/redeliver", text(delivery, "id"));
    assert_eq!(post(&ada.api, &again, &json!({})).await.status, 409);
    // Five days of failures, of another organization's output.
    let dead = output(&eve.api, &receiver.url("/dead"), json!({ "name": "Dead" })).await;
    cause(&eve.api, 1).await;
    settled(&eve.api, &dead, 1).await;
    for _ in 0..5 {
        at.clock.advance(Duration::from_secs(23 * 3_600));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(shown(&eve.api, &dead).await["state"], "failing", "not yet");
    at.clock.advance(Duration::from_secs(6 * 3_600));
    cause(&eve.api, 1).await;
    disabled(&eve.api, &dead, "failing").await;
    let outbox = at.operator(Request::Outbox { limit: 50 }).await;
    for (to, name) in [("ada@example.com", "Gone"), ("eve@example.com", "Dead")] {
        let told = outbox
            .as_array()
            .unwrap()
            .iter()
            .find(|mail| mail["kind"] == "output_disabled" && mail["to"] == to);
        assert!(told.is_some_and(|mail| text(mail, "text").contains(name)), "{outbox}");
    }
    // Switched on again, it goes on; what came while it was off is recovered by whoever asks.
    cause(&ada.api, 2).await;
    receiver.behave(|_| Said::status(200));
    let one = format!("{OUTPUTS}/{}", text(&gone, "id"));
    let since = at.clock.now().before(Duration::from_secs(6 * 86_400));
    let recover = json!({ "since": since.to_string() });
    assert_eq!(post(&ada.api, &format!("{one}/recover"), &recover).await.status, 409, "it is off");
    assert_eq!(expect(patch(&ada.api, &one, &json!({ "isEnabled": true })).await, 200)["state"], "ok");
    let ahead = json!({ "since": at.clock.now().after(Duration::from_secs(60)).to_string() });
    refused(&post(&ada.api, &format!("{one}/recover"), &ahead).await, 400, "Validation failed", "since");
    expect(post(&ada.api, &format!("{one}/recover"), &recover).await, 202);
    eventually("every event was delivered", PATIENCE, || async {
        let all = deliveries(&ada.api, &gone).await;
        (all.len() == 5 && all.iter().all(|row| row["state"] == "delivered")).then_some(())
    })
    .await;
    // Nothing is delivered twice by recovering once more.
    let before = receiver.count();
    expect(post(&ada.api, &format!("{one}/recover"), &recover).await, 202);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((receiver.count(), deliveries(&ada.api, &gone).await.len()), (before, 5));
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mail_goes_through_the_boxs_mail_server() {
    let receiver = Receiver::open(|_| Said::status(410)).await;
    let (server, folder) = (MailServer::plain().await, tempfile::TempDir::new().unwrap());
    let rule = json!([format!("127.0.0.1/32:{}", receiver.address.port())]).to_string();
    let mut settings = server.settings(folder.path());
    settings.push(("NETWORK__ALLOW", rule));
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let at = Appliance::start_with(&settings).await;
    let ada = at.member("ada").await;
    output(&ada.api, &receiver.url("/"), json!({ "name": "Shop <b>" })).await;
    cause(&ada.api, 1).await;
    let mail = eventually("the mail arrives", PATIENCE, || async {
        let all = server.received();
        all.into_iter()
            .find(|mail| mail.header("subject").is_some_and(|subject| subject.contains("have stopped")))
    })
    .await;
    let parts = mail.parts();
    assert!(parts.iter().any(|part| part.contains("410")), "{parts:?}");
    assert!(parts.iter().any(|part| part.contains("Shop &lt;b&gt;")), "{parts:?}");
    at.stop().await;
}
