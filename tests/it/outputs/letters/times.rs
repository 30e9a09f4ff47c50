//! Digests: hourly, and daily over the days on which clocks are set.

use super::{MINUTE, boxed, cause, letter, letters, letters_to};
use crate::harness::smtp::MailServer;
use crate::harness::{Appliance, eventually};
use serde_json::json;
use server::client::Client;
use std::time::Duration;

const ADA: &str = "ada@example.com";

/// Sets the date of the machine under the box.
fn set(at: &Appliance, date: &str) {
    let date: base::clock::Timestamp = date.parse().unwrap();
    at.clock.set_wall(date.millis() - at.clock.now().millis());
}

/// Lets time pass up to a date.
fn go_on(at: &Appliance, date: &str) {
    let date: base::clock::Timestamp = date.parse().unwrap();
    at.clock.advance(date.since(at.clock.now()));
}

async fn waits(api: &Client, made: &serde_json::Value, count: u64) {
    eventually(&format!("{count} events wait"), super::PATIENCE, || async {
        (super::shown(api, made).await["email"]["waiting"] == count).then_some(())
    })
    .await;
}

/// The looks that there are within some seconds find nothing to send.
async fn stays(server: &MailServer, count: usize) {
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(letters(server, ADA).len(), count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daily_letter_comes_once_a_day_also_when_clocks_are_set() {
    let server = MailServer::plain().await;
    let at = boxed(&server, &[]).await;
    let ada = at.member("ada").await;
    set(&at, "2027-03-27T12:00:00Z");
    // In Berlin there is no 02:30 on the 28th of March, and on the 31st of October it is twice.
    let daily = json!({ "email": { "when": "daily", "hour": 2, "timezone": "europe/berlin" } });
    let made = letters_to(&ada.api, &[ADA], daily).await;
    assert_eq!(made["email"]["timezone"], "Europe/Berlin");
    cause(&ada.api, 2).await;
    waits(&ada.api, &made, 2).await;
    go_on(&at, "2027-03-28T00:58:00Z");
    stays(&server, 0).await;
    cause(&ada.api, 1).await;
    waits(&ada.api, &made, 3).await;
    at.clock.advance(3 * MINUTE);
    let first = letter(&server, ADA, 1).await;
    assert!(first.header("subject").unwrap().contains("3 events"));
    // The next day at two of the new time, which is an hour earlier.
    cause(&ada.api, 1).await;
    waits(&ada.api, &made, 1).await;
    go_on(&at, "2027-03-29T00:01:00Z");
    letter(&server, ADA, 2).await;
    set(&at, "2027-10-30T20:00:00Z");
    cause(&ada.api, 1).await;
    waits(&ada.api, &made, 1).await;
    go_on(&at, "2027-10-31T00:01:00Z");
    letter(&server, ADA, 3).await;
    // The second two o'clock of that day is not a day later.
    cause(&ada.api, 1).await;
    waits(&ada.api, &made, 1).await;
    go_on(&at, "2027-10-31T01:01:00Z");
    stays(&server, 3).await;
    go_on(&at, "2027-11-01T01:01:00Z");
    letter(&server, ADA, 4).await;
    // Nothing has happened: no letter.
    go_on(&at, "2027-11-03T12:00:00Z");
    stays(&server, 4).await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hourly_letter_comes_an_hour_after_what_it_begins_with_and_outlives_a_restart() {
    let server = MailServer::plain().await;
    let mut at = boxed(&server, &[]).await;
    let ada = at.member("ada").await;
    let made = letters_to(&ada.api, &[ADA], json!({ "email": { "when": "hourly" } })).await;
    cause(&ada.api, 70).await;
    waits(&ada.api, &made, 70).await;
    at.restart().await;
    let api = at.client().bearer(&ada.key);
    at.clock.advance(Duration::from_secs(3_500));
    stays(&server, 0).await;
    cause(&api, 5).await;
    waits(&api, &made, 75).await;
    at.clock.advance(2 * MINUTE);
    let digest = letter(&server, ADA, 1).await;
    let text = &digest.parts()[0];
    assert!(digest.header("subject").unwrap().contains("75 events"));
    assert!(text.matches("nobody.invalid").count() >= 50, "{text}");
    assert!(text.contains("and 25 more: ") && text.contains("/console#/outputs"), "{text}");
    // What the letter has counted is not delivered again; what happened while the output was off is.
    let one = format!("{}/{}", super::OUTPUTS, super::text(&made, "id"));
    let since = json!({ "since": "2020-01-01T00:00:00Z" });
    super::expect(super::patch(&api, &one, &json!({ "isEnabled": false })).await, 200);
    cause(&api, 4).await;
    super::expect(super::patch(&api, &one, &json!({ "isEnabled": true })).await, 200);
    super::expect(super::post(&api, &format!("{one}/recover"), &since).await, 202);
    waits(&api, &made, 4).await;
    at.clock.advance(Duration::from_secs(3_601));
    let recovered = letter(&server, ADA, 2).await;
    assert!(recovered.header("subject").unwrap().contains("4 events"), "{:?}", recovered.header("subject"));
    at.stop().await;
}
