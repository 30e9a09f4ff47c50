//! A provider that lies, is slow, says too much, or leads into the box's network; and one that changes its keys.

use super::{governed, people, person, session_in, sign_in, turned_away};
use crate::harness::identity::{Identity, Signed, now};
use crate::harness::web::{Answer, Web};
use crate::harness::{get, ready};
use serde_json::{Value, json};

const WRONG: &str = "does not hold";
const AWAY: &str = "does not answer";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_that_does_not_hold_lets_anybody_in() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    let ada = person("ada", &["admins"]);
    for signed in [Signed::Changed, Signed::Not, Signed::ByPublicKey, Signed::ByAnother] {
        provider.signs(signed);
        turned_away(&sign_in(&at, &provider, &ada).await, 502, WRONG);
    }
    provider.signs(Signed::Well);
    for (name, value) in [
        ("iss", json!("https://id.example")),
        ("iss", json!(format!("{}/", provider.issuer()))),
        ("aud", json!("another")),
        ("aud", json!(["gleaner", "another"])),
        ("azp", json!("another")),
        ("nonce", json!("another")),
        ("nonce", json!(false)),
        ("exp", json!(now() - 600)),
        ("iat", json!(now() - 3_600)),
        ("iat", json!(now() + 3_600)),
        ("nbf", json!(now() + 3_600)),
        ("sub", json!("")),
        ("sub", Value::Null),
        ("at_hash", json!("AAAAAAAAAAAAAAAAAAAAAA")),
    ] {
        let mut claims = ada.clone();
        claims[name] = value.clone();
        let reply = sign_in(&at, &provider, &claims).await;
        assert!(reply.text().contains(WRONG), "{name}: {value}");
        turned_away(&reply, 502, WRONG);
    }
    assert_eq!(people(&at).await.len(), 1, "nobody but the owner");
    session_in(&sign_in(&at, &provider, &ada).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_change_are_asked_for_anew_and_not_without_end() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    let ada = person("ada", &["staff"]);
    for _ in 0..3 {
        session_in(&sign_in(&at, &provider, &ada).await);
    }
    assert_eq!(provider.times_asked("/keys"), 1, "kept");
    assert_eq!(provider.times_asked("/.well-known/openid-configuration"), 1, "kept");
    provider.rotate();
    session_in(&sign_in(&at, &provider, &ada).await);
    assert_eq!(provider.times_asked("/keys"), 2);
    // Keys that are not the ones that sign, again and again.
    provider.answers("/keys", Some(Answer::html(r#"{"keys":[]}"#)));
    provider.rotate();
    for _ in 0..20 {
        turned_away(&sign_in(&at, &provider, &ada).await, 502, WRONG);
    }
    let asked = provider.times_asked("/keys");
    assert!(asked <= 12, "{asked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_provider_answers_is_bounded_and_leads_nowhere() {
    let inner = Web::open(|_| Some(Answer::html(r#"{"keys":[]}"#))).await;
    let huge = || Answer::html(format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(1 << 20)));
    let document = "/.well-known/openid-configuration";
    for answer in [
        Answer::redirect(&inner.url("/x")),
        Answer::status(500),
        Answer::status(404),
        huge(),
        Answer::html("<html>"),
        Answer::html("{}"),
    ] {
        let provider = Identity::open().await;
        let (at, _) = governed(&provider, &[]).await;
        provider.answers(document, Some(answer));
        let reply = get(&at.client(), "/console/session/oidc/begin").await;
        assert_eq!(reply.status, 502, "{}", reply.text());
        assert!(reply.text().contains(AWAY) || reply.text().contains(WRONG), "{}", reply.text());
    }
    // Tokens and keys at the redirect's end, too large, or of another provider's.
    for (path, answer) in [
        ("/token", Answer::redirect(&inner.url("/token"))),
        ("/token", Answer::status(503)),
        ("/token", Answer::html(r#"{"error":"invalid_grant"}"#)),
        ("/token", huge()),
        ("/keys", Answer::redirect(&inner.url("/keys"))),
        ("/keys", huge()),
        ("/keys", Answer::html("[]")),
    ] {
        let provider = Identity::open().await;
        let (at, _) = governed(&provider, &[]).await;
        provider.answers(path, Some(answer));
        let reply = sign_in(&at, &provider, &person("ada", &["staff"])).await;
        assert_eq!(reply.status, 502, "{path}: {}", reply.text());
        assert_eq!(people(&at).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_the_operator_named_may_be_inside() {
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let noted = seen.clone();
    let provider = Identity::open().await;
    let keys = json!({ "keys": [] }).to_string();
    let inner = Web::open(move |path| {
        noted.lock().push(path.to_owned());
        Some(Answer::html(keys.clone()))
    })
    .await;
    provider.documents("jwks_uri", json!(inner.url("/keys")));
    let (at, _) = governed(&provider, &[]).await;
    let ada = person("ada", &["staff"]);
    turned_away(&sign_in(&at, &provider, &ada).await, 502, AWAY);
    assert_eq!(*seen.lock(), Vec::<String>::new(), "no byte went there");
    let origins = format!("[\"{}\"]", inner.url("").trim_end_matches('/'));
    let (at, _) = governed(&provider, &[("OIDC__TRUSTED_ORIGINS", &origins)]).await;
    turned_away(&sign_in(&at, &provider, &ada).await, 502, WRONG);
    assert!(!seen.lock().is_empty(), "the operator has named it");
    // The box itself is no provider, and neither is a cloud's metadata.
    for place in [format!("{}/keys", at.app().url()), "http://169.254.169.254/keys".to_owned()] {
        let provider = Identity::open().await;
        provider.documents("jwks_uri", json!(place));
        let origin = format!("[\"{}\"]", place.trim_end_matches("/keys"));
        let more = [("OIDC__TRUSTED_ORIGINS", origin.as_str()), ("OIDC__ALLOW_PLAINTEXT", "true")];
        let (at, _) = governed(&provider, &more).await;
        if !place.contains("169.254") {
            provider.documents("jwks_uri", json!(format!("{}/keys", at.app().url())));
        }
        turned_away(&sign_in(&at, &provider, &ada).await, 502, AWAY);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_away_is_told_and_comes_back() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    let ada = person("ada", &["staff"]);
    session_in(&sign_in(&at, &provider, &ada).await);
    let begun = super::begin(&at, "/").await;
    let mut claims = ada.clone();
    claims["nonce"] = json!(begun.nonce);
    provider.says(claims);
    // It hangs: the answer comes when its time is over, and the box is asked other things meanwhile.
    provider.answers("/token", Some(Answer::html("{}").held("never")));
    let query = format!("code=c&state={}", begun.state);
    let client = at.client();
    let (reply, _) = tokio::join!(super::arrive(&at, &begun.cookie, &query), ready(&client));
    turned_away(&reply, 502, AWAY);
    provider.answers("/token", None);
    session_in(&sign_in(&at, &provider, &ada).await);
}
