//! Passwords that are replaced.

use super::super::rows::RESETS;
use super::*;

const NEW_PASSWORD: &str = "copper-lantern-walks-9";

#[tokio::test]
async fn a_reset_replaces_the_password_once_and_ends_every_session() {
    let at = TestBox::start(Registration::Open);
    let first = at.register("ada@example.com").await.unwrap().tokens;
    let second = at.login("ada@example.com", PASSWORD).await.unwrap().tokens;
    at.forgot(" ADA@example.com").await.unwrap();
    let token = at.reset_token("ada@example.com").unwrap();
    for (weak, part) in [("short", "at least 12"), ("ada@example.com", "email address"), ("", "empty")] {
        let (code, said) = refusal(at.auth.reset_password(&token, weak, ELSEWHERE).await);
        assert!(code == Code::InvalidInput && said.contains(part), "{said}");
    }
    at.auth.reset_password(&token, NEW_PASSWORD, ELSEWHERE).await.unwrap();
    let (code, said) = refusal(at.auth.reset_password(&token, NEW_PASSWORD, ELSEWHERE).await);
    assert!(code == Code::InvalidInput && said.contains("token: "), "{said}");
    assert!(at.reset_token("ada@example.com").is_none(), "the message is used up with its token");
    for old in [first, second] {
        assert_eq!(refusal(at.auth.user_of_access_token(&old.access)).0, Code::AuthInvalid);
        assert_eq!(refusal(at.auth.refresh(&old.refresh, ELSEWHERE).await).0, Code::AuthInvalid);
    }
    assert_eq!(refusal(at.login("ada@example.com", PASSWORD).await).0, Code::AuthInvalid);
    let fresh = at.login("ada@example.com", NEW_PASSWORD).await.unwrap().tokens;
    assert!(at.auth.user_of_access_token(&fresh.access).is_ok(), "also a login of the same millisecond");
}

#[tokio::test]
async fn reset_tokens_live_an_hour_and_are_swept() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    at.forgot("ada@example.com").await.unwrap();
    let first = at.reset_token("ada@example.com").unwrap();
    at.forgot("ada@example.com").await.unwrap();
    let second = at.reset_token("ada@example.com").unwrap();
    assert_ne!(first, second);
    at.advance(3600);
    for token in [first, second] {
        let late = at.auth.reset_password(&token, NEW_PASSWORD, ELSEWHERE).await;
        assert_eq!(refusal(late).0, Code::InvalidInput);
    }
    assert!(at.login("ada@example.com", PASSWORD).await.is_ok());
    assert_eq!(task::sweep_all(at.system(), || false).await.unwrap(), 4, "two requests and two counters");
    assert_eq!(at.system().read(|tx| tx.count(&RESETS, 10)).unwrap(), 0);
}

#[tokio::test]
async fn asking_for_a_reset_writes_the_same_for_an_unknown_address() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    let count = || {
        let resets = at.system().read(|tx| tx.count(&RESETS, 100)).unwrap();
        (resets, at.rows()[3])
    };
    at.forgot("ada@example.com").await.unwrap();
    let known = count();
    at.forgot("eve@example.com").await.unwrap();
    let unknown = count();
    assert_eq!((known, unknown), ((1, 2), (2, 3)), "a request and the account's counter each, one network");
    assert!(at.reset_token("eve@example.com").is_none());
    assert_eq!(refusal(at.forgot("eve").await).0, Code::InvalidInput);
}

#[tokio::test]
async fn a_mailbox_gets_three_resets_at_most_and_a_network_asks_thirty_times() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    for _ in 0..3 {
        at.forgot("ada@example.com").await.unwrap();
    }
    let third = at.reset_token("ada@example.com").unwrap();
    at.forgot("ada@example.com").await.unwrap();
    assert_eq!(
        at.reset_token("ada@example.com").unwrap(),
        third,
        "the fourth sends nothing, and says nothing"
    );
    for n in 0..26 {
        at.forgot(&format!("eve{n}@example.com")).await.unwrap();
    }
    let refused = at.forgot("ada@example.com").await.unwrap_err();
    assert!(refused.status() == 429 && refused.headers().iter().any(|(name, _)| *name == "retry-after"));
    let other: IpAddr = "203.0.113.5".parse().unwrap();
    at.auth.forgot_password("ada@example.com", other).await.unwrap();
    at.auth.reset_password(&third, NEW_PASSWORD, ELSEWHERE).await.unwrap();
    at.advance(15 * 60);
    at.forgot("ada@example.com").await.unwrap();
    assert_ne!(at.reset_token("ada@example.com").unwrap(), third);
}

#[tokio::test]
async fn a_reset_lets_a_locked_account_in_again_and_keeps_it_open_from_there() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    let away = IpAddr::from([203, 0, 113, 1]);
    strangers_fail(&at, 10).await;
    assert_eq!(refusal(at.auth.login("ada@example.com", PASSWORD, away).await).0, Code::RateLimited);
    at.forgot("ada@example.com").await.unwrap();
    let token = at.reset_token("ada@example.com").unwrap();
    at.auth.reset_password(&token, NEW_PASSWORD, away).await.unwrap();
    strangers_fail(&at, 10).await;
    at.auth.login("ada@example.com", NEW_PASSWORD, away).await.unwrap();
}

/// Whoever knew the old password may have logged in with it from a network of his own.
#[tokio::test]
async fn a_reset_forgets_the_networks_of_before() {
    let at = TestBox::start(Registration::Open);
    let ada = at.register("ada@example.com").await.unwrap().user.id;
    let (thief, away) = (IpAddr::from([198, 51, 100, 1]), IpAddr::from([203, 0, 113, 1]));
    at.auth.login("ada@example.com", PASSWORD, thief).await.unwrap();
    at.forgot("ada@example.com").await.unwrap();
    let token = at.reset_token("ada@example.com").unwrap();
    at.auth.reset_password(&token, NEW_PASSWORD, away).await.unwrap();
    let knows = |ip| at.system().read(|tx| networks::knows(tx, ada, ip)).unwrap();
    assert_eq!([thief, ELSEWHERE, away].map(knows), [false, false, true]);
}

#[tokio::test]
async fn a_strangers_requests_for_a_reset_leave_the_owners_link_alone() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    at.forgot("ada@example.com").await.unwrap();
    let own = at.reset_token("ada@example.com").unwrap();
    let mut all = vec![own.clone()];
    // For most of the hour, as often as messages are sent at all.
    for n in 1..=11u8 {
        if n % 3 == 0 {
            at.advance(15 * 60);
        }
        at.auth.forgot_password("ada@example.com", IpAddr::from([198, 51, 100, n])).await.unwrap();
        all.push(at.reset_token("ada@example.com").unwrap());
    }
    all.dedup();
    assert_eq!(all.len(), 12);
    let count = || at.system().read(|tx| tx.count(&RESETS, 100)).unwrap();
    assert_eq!(count(), 12);
    at.auth.reset_password(&own, NEW_PASSWORD, ELSEWHERE).await.unwrap();
    assert_eq!(count(), 0);
    for token in all {
        let used = at.auth.reset_password(&token, PASSWORD, ELSEWHERE).await;
        assert_eq!(refusal(used).0, Code::InvalidInput, "using one ends all");
    }
    at.login("ada@example.com", NEW_PASSWORD).await.unwrap();
}

#[tokio::test]
async fn of_two_resets_at_once_one_wins() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    at.forgot("ada@example.com").await.unwrap();
    let token = at.reset_token("ada@example.com").unwrap();
    let other = "another-lantern-sleeps-4";
    let (a, b) = tokio::join!(
        at.auth.reset_password(&token, NEW_PASSWORD, ELSEWHERE),
        at.auth.reset_password(&token, other, ELSEWHERE)
    );
    assert!(a.is_ok() != b.is_ok());
    let (good, bad) = if a.is_ok() { (NEW_PASSWORD, other) } else { (other, NEW_PASSWORD) };
    assert!(
        at.login("ada@example.com", good).await.is_ok() && at.login("ada@example.com", bad).await.is_err()
    );
}
