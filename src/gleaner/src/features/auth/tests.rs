//! Accounts on a real store with a clock that moves.

mod resets;

use super::limits::{LOGIN_FAILURES, LoginCounters};
use super::rows::{REFRESH_TOKENS, VERIFICATIONS};
use super::service::Registrant;
use super::*;
use crate::features::mail::{KeptMail, MAIL, Mailer, outbox};
use base::clock::Clock;
use secrets::keyring::Keyring;
use std::net::IpAddr;
use std::sync::Arc;
use store::fault::FaultyDisk;
use store::{MIGRATIONS, Store, System};

const PASSWORD: &str = "violet-anvil-reads-7";
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

struct TestBox {
    disk: FaultyDisk,
    clock: Clock,
    keyring: Arc<Keyring>,
    auth: Auth,
}

impl TestBox {
    fn start(registration: Registration) -> TestBox {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Arc::new(Keyring::load_or_create(&folder.path().join("keys.toml")).unwrap());
        TestBox::boot(FaultyDisk::new(), Clock::system(), keyring, registration)
    }

    fn boot(disk: FaultyDisk, clock: Clock, keyring: Arc<Keyring>, registration: Registration) -> TestBox {
        let backend = disk.clone();
        let store = Store::open_backend(move || backend.backend(), clock.clone(), MIGRATIONS).unwrap();
        let settings = AuthSettings {
            registration,
            registrations_per_hour: 50,
            public_url: "http://box.test".to_owned(),
        };
        let auth = Auth::new(store.system(), keyring.clone(), settings).unwrap();
        TestBox { disk, clock, keyring, auth }
    }

    fn restart(self) -> TestBox {
        self.auth.system().store().close();
        TestBox::boot(self.disk, self.clock, self.keyring, Registration::Open)
    }

    fn system(&self) -> &System {
        self.auth.system()
    }

    fn mailer(&self) -> Mailer {
        Mailer::new(None, self.keyring.clone(), "http://box.test")
    }

    fn advance(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
    }

    async fn register(&self, email: &str) -> Result<LoggedIn> {
        let new = Registrant { email, password: PASSWORD, name: "Ada", invite_token: None, ip: ELSEWHERE };
        self.auth.register(&new).await
    }

    async fn login(&self, email: &str, password: &str) -> Result<LoggedIn> {
        self.auth.login(email, password, ELSEWHERE).await
    }

    /// The token in the only message to `email`.
    fn mailed_token(&self, email: &str) -> String {
        let mail = self.system().read(|tx| outbox(tx, &self.mailer(), 100)).unwrap();
        let to: Vec<_> = mail.iter().filter(|mail| mail.to == email).collect();
        assert_eq!(to.len(), 1, "only the latest message works, so only it is kept");
        token_in(to[0], "glv_").unwrap()
    }

    /// The reset token in the newest message to `email`.
    fn reset_token(&self, email: &str) -> Option<String> {
        let mail = self.system().read(|tx| outbox(tx, &self.mailer(), 100)).unwrap();
        mail.iter().filter(|mail| mail.to == email).find_map(|mail| token_in(mail, "glp_"))
    }

    async fn forgot(&self, email: &str) -> Result<()> {
        self.auth.forgot_password(email, ELSEWHERE).await
    }

    fn rows(&self) -> [usize; 4] {
        self.system()
            .read(|tx| {
                Ok([
                    tx.count(&REFRESH_TOKENS, 10_000)?,
                    tx.count(&VERIFICATIONS, 10_000)?,
                    tx.count(&MAIL, 10_000)?,
                    tx.count(&LOGIN_FAILURES, 10_000)?,
                ])
            })
            .unwrap()
    }
}

/// The token in a message: what stands behind the # of its link.
fn token_in(mail: &KeptMail, prefix: &str) -> Option<String> {
    let text = mail.text.as_deref()?;
    let (_, rest) = text.split_once(&format!("#{prefix}"))?;
    Some(format!("{prefix}{}", rest.split_whitespace().next()?))
}

fn refusal<T>(result: Result<T>) -> (Code, String) {
    match result {
        Ok(_) => panic!("this must be refused"),
        Err(error) => (error.code(), error.to_string()),
    }
}

#[tokio::test]
async fn a_person_registers_logs_in_and_is_known_by_the_token() {
    let at = TestBox::start(Registration::Open);
    let made = at.register(" Ada@Example.com ").await.unwrap();
    assert_eq!(made.user.email, "ada@example.com");
    assert!(made.user.password_hash.starts_with("$argon2id$"));
    let (user, _) = at.auth.user_of_access_token(&made.tokens.access).unwrap();
    assert_eq!((user.id, user.membership, user.email_verified_at), (made.user.id, None, None));

    let again = at.login("ADA@example.com", PASSWORD).await.unwrap();
    assert_eq!(again.user.id, made.user.id);
    assert_ne!(again.tokens.refresh, made.tokens.refresh);
    assert_eq!(refusal(at.register("ada@example.COM").await).0, Code::AlreadyExists);
    at.advance(ACCESS_TOKEN_SECS);
    let (code, said) = refusal(at.auth.user_of_access_token(&again.tokens.access));
    assert!(code == Code::AuthInvalid && said.contains("expired"), "{said}");
}

#[tokio::test]
async fn bad_registrations_name_the_field() {
    let at = TestBox::start(Registration::Open);
    for (email, password, name, field) in [
        ("nobody", PASSWORD, "Ada", "email: "),
        ("ada@example.com", "short", "Ada", "password: "),
        ("ada@example.com", "password1234", "Ada", "password: "),
        ("ada@example.com", PASSWORD, " ", "name: "),
    ] {
        let (code, said) = refusal(
            at.auth
                .register(&Registrant {
                    email,
                    password,
                    name,
                    invite_token: Some("gli_unknown"),
                    ip: ELSEWHERE,
                })
                .await,
        );
        assert!(code == Code::InvalidInput && said.contains(field), "{said}");
    }
    assert_eq!(at.rows(), [0; 4]);
}

#[tokio::test]
async fn a_closed_box_takes_nobody() {
    for registration in [Registration::Closed, Registration::Invite] {
        let at = TestBox::start(registration);
        assert_eq!(refusal(at.register("ada@example.com").await).0, Code::AuthForbidden);
        assert_eq!(at.system().read(|tx| tx.count(&USERS, 10)).unwrap(), 0);
    }
}

#[tokio::test]
async fn of_two_registrations_at_once_one_wins() {
    let at = TestBox::start(Registration::Open);
    let (a, b) = tokio::join!(at.register("ada@example.com"), at.register("ada@example.com"));
    assert!(a.is_ok() != b.is_ok());
    assert_eq!(refusal(if a.is_ok() { b } else { a }).0, Code::AlreadyExists);
    assert_eq!(at.rows()[0], 1, "the loser has no login");
}

#[tokio::test]
async fn an_unknown_address_and_a_wrong_password_are_the_same_refusal() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    let wrong = refusal(at.login("ada@example.com", "something else 12").await);
    let unknown = refusal(at.login("eve@example.com", "something else 12").await);
    assert_eq!(wrong, unknown);
    assert_eq!(wrong.0, Code::AuthInvalid);
    assert_eq!(at.rows()[3], 3, "one address of the network and two accounts: both failures are counted");
    assert_eq!(refusal(at.login("ada@example.com", &"x".repeat(300)).await).0, Code::InvalidInput);
}

#[tokio::test]
async fn ten_failures_lock_an_account_until_the_window_slides_also_over_a_restart() {
    // A network from which its owner has never logged in.
    let away = async |at: &TestBox, password: &str| {
        at.auth.login("ada@example.com", password, IpAddr::from([203, 0, 113, 1])).await
    };
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    for n in 0..10u8 {
        // From ten networks, so that only the account's count is full.
        let ip = IpAddr::from([198, 51, 100, n]);
        assert_eq!(
            refusal(at.auth.login("ada@example.com", "wrong password", ip).await).0,
            Code::AuthInvalid
        );
        // Far enough apart that on a busy machine, whose time goes on, no second failure leaves the window.
        at.advance(30);
    }
    assert_eq!(refusal(away(&at, PASSWORD).await).0, Code::RateLimited);
    let at = at.restart();
    let refused = away(&at, PASSWORD).await.err().unwrap();
    assert_eq!((refused.code(), refused.status()), (Code::RateLimited, 429));
    let wait: u64 =
        refused.headers().iter().find(|(name, _)| *name == "retry-after").unwrap().1.parse().unwrap();
    assert!((540..=600).contains(&wait), "{wait}");
    assert_eq!(
        refusal(at.login("eve@example.com", "wrong password").await).0,
        Code::AuthInvalid,
        "others may try"
    );

    at.advance(wait);
    assert_eq!(refusal(away(&at, "wrong password").await).0, Code::AuthInvalid, "one has left the window");
    assert_eq!(refusal(away(&at, PASSWORD).await).0, Code::RateLimited, "ten again");
}

#[tokio::test]
async fn ten_failures_lock_an_address_and_successes_do_not_count() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    for _ in 0..12 {
        at.login("ada@example.com", PASSWORD).await.unwrap();
    }
    for n in 0..10 {
        let email = format!("eve{n}@example.com");
        assert_eq!(refusal(at.login(&email, "wrong password").await).0, Code::AuthInvalid);
    }
    assert_eq!(refusal(at.login("ada@example.com", PASSWORD).await).0, Code::RateLimited);
    let other: IpAddr = "203.0.113.5".parse().unwrap();
    assert!(at.auth.login("ada@example.com", PASSWORD, other).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_at_the_same_time_do_not_slip_past_the_limit() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    let at = Arc::new(at);
    let tasks: Vec<_> = (0..24)
        .map(|_| {
            let at = at.clone();
            tokio::spawn(async move {
                // A machine that cannot check so many passwords at once says 503, which is no try.
                let mut code = Code::ServiceUnavailable;
                for _ in 0..100 {
                    code = refusal(at.login("ada@example.com", "wrong password").await).0;
                    if code != Code::ServiceUnavailable {
                        break;
                    }
                }
                code
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    assert_eq!(answers.iter().filter(|code| **code == Code::AuthInvalid).count(), 10);
    assert_eq!(answers.iter().filter(|code| **code == Code::RateLimited).count(), 14);
}

#[tokio::test]
async fn a_refresh_token_is_good_once_and_its_second_use_ends_the_family() {
    let at = TestBox::start(Registration::Open);
    let first = at.register("ada@example.com").await.unwrap().tokens;
    let other = at.login("ada@example.com", PASSWORD).await.unwrap().tokens;
    let second = at.auth.refresh(&first.refresh, ELSEWHERE).await.unwrap();
    let third = at.auth.refresh(&second.refresh, ELSEWHERE).await.unwrap();
    assert!(at.auth.user_of_access_token(&third.access).is_ok());
    assert_eq!(refusal(at.auth.refresh(&first.refresh, ELSEWHERE).await).0, Code::AuthInvalid);
    assert_eq!(
        refusal(at.auth.refresh(&third.refresh, ELSEWHERE).await).0,
        Code::AuthInvalid,
        "the family has ended"
    );
    assert_eq!(refusal(at.auth.refresh(&second.refresh, ELSEWHERE).await).0, Code::AuthInvalid);
    assert!(at.auth.refresh(&other.refresh, ELSEWHERE).await.is_ok(), "the other login is not concerned");
    for junk in ["", "glr_", "x", &third.refresh[..60], &third.access] {
        assert_eq!(refusal(at.auth.refresh(junk, ELSEWHERE).await).0, Code::AuthInvalid);
    }
}

#[tokio::test]
async fn of_two_uses_at_once_one_is_the_second() {
    let at = TestBox::start(Registration::Open);
    let tokens = at.register("ada@example.com").await.unwrap().tokens;
    let (a, b) = tokio::join!(
        at.auth.refresh(&tokens.refresh, ELSEWHERE),
        at.auth.refresh(&tokens.refresh, ELSEWHERE)
    );
    assert!(a.is_ok() != b.is_ok());
    let survivor = a.or(b).ok().unwrap();
    assert_eq!(refusal(at.auth.refresh(&survivor.refresh, ELSEWHERE).await).0, Code::AuthInvalid);
}

#[tokio::test]
async fn a_refresh_token_lives_seven_days_from_its_own_making() {
    let at = TestBox::start(Registration::Open);
    let first = at.register("ada@example.com").await.unwrap().tokens;
    at.advance(7 * 86_400 - 60);
    let second = at.auth.refresh(&first.refresh, ELSEWHERE).await.unwrap();
    at.advance(7 * 86_400 - 60);
    let third = at.auth.refresh(&second.refresh, ELSEWHERE).await.unwrap();
    at.advance(7 * 86_400);
    assert_eq!(refusal(at.auth.refresh(&third.refresh, ELSEWHERE).await).0, Code::AuthInvalid);
    assert_eq!(at.rows()[0], 0);
}

#[tokio::test]
async fn logging_out_ends_the_login_also_by_an_older_token() {
    let at = TestBox::start(Registration::Open);
    let first = at.register("ada@example.com").await.unwrap().tokens;
    at.auth.logout("unknown").await.unwrap();
    let second = at.auth.refresh(&first.refresh, ELSEWHERE).await.unwrap();
    at.auth.logout(&first.refresh).await.unwrap();
    assert_eq!(refusal(at.auth.refresh(&second.refresh, ELSEWHERE).await).0, Code::AuthInvalid);
    at.auth.logout(&second.refresh).await.unwrap();
}

#[tokio::test]
async fn logins_of_one_person_are_bounded() {
    let at = TestBox::start(Registration::Open);
    let first = at.register("ada@example.com").await.unwrap();
    let id = first.user.id;
    at.advance(1);
    at.system()
        .write(move |tx| {
            let user = tx.require(&USERS, &id)?;
            for _ in 0..120 {
                NewLogin::prepare()?.store(tx, &user)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(at.rows()[0], 100);
    assert_eq!(
        refusal(at.auth.refresh(&first.tokens.refresh, ELSEWHERE).await).0,
        Code::AuthInvalid,
        "the oldest went"
    );
}

#[tokio::test]
async fn tokens_from_before_the_end_of_all_sessions_are_refused() {
    let at = TestBox::start(Registration::Open);
    let made = at.register("ada@example.com").await.unwrap();
    let id = made.user.id;
    at.advance(1);
    at.system()
        .write(move |tx| {
            let mut user = tx.require(&USERS, &id)?;
            user.sessions_valid_from = tx.moment();
            tx.put(&USERS, &id, &user)
        })
        .await
        .unwrap();
    assert_eq!(refusal(at.auth.user_of_access_token(&made.tokens.access)).0, Code::AuthInvalid);
    let fresh = at.login("ada@example.com", PASSWORD).await.unwrap().tokens;
    assert!(at.auth.user_of_access_token(&fresh.access).is_ok());
    // Also when the clock was set back behind that moment.
    at.system()
        .write(move |tx| {
            let mut user = tx.require(&USERS, &id)?;
            user.sessions_valid_from = tx.moment().after(Duration::from_secs(60));
            tx.put(&USERS, &id, &user)
        })
        .await
        .unwrap();
    assert_eq!(refusal(at.auth.user_of_access_token(&fresh.access)).0, Code::AuthInvalid);
    let later = at.auth.refresh(&fresh.refresh, ELSEWHERE).await.unwrap();
    assert!(at.auth.user_of_access_token(&later.access).is_ok());
    at.system().write(move |tx| tx.delete(&USERS, &id)).await.unwrap();
    assert_eq!(refusal(at.auth.user_of_access_token(&later.access)).0, Code::AuthInvalid);
    assert_eq!(refusal(at.auth.refresh(&later.refresh, ELSEWHERE).await).0, Code::AuthInvalid);
}

#[tokio::test]
async fn only_the_latest_verification_token_works_and_once() {
    let at = TestBox::start(Registration::Open);
    let user = at.register("ada@example.com").await.unwrap().user.id;
    let first = at.mailed_token("ada@example.com");
    at.auth.resend_verification(user).await.unwrap();
    let second = at.mailed_token("ada@example.com");
    assert_ne!(first, second);
    assert_eq!(refusal(at.auth.verify_email(first).await).0, Code::InvalidInput);
    at.auth.verify_email(second.clone()).await.unwrap();
    let verified = at.system().read(|tx| tx.require(&USERS, &user)).unwrap().email_verified_at;
    assert!(verified.is_some());
    assert_eq!(refusal(at.auth.verify_email(second).await).0, Code::InvalidInput);
    assert_eq!(refusal(at.auth.verify_email(String::new()).await).0, Code::InvalidInput);
    let (code, said) = refusal(at.auth.resend_verification(user).await);
    assert!(code == Code::InvalidInput && said.contains("already verified"), "{said}");
    assert_eq!(refusal(at.auth.resend_verification(UserId::new()).await).0, Code::NotFound);
    assert_eq!(at.rows()[1..3], [0, 0]);
}

#[tokio::test]
async fn a_verification_token_lives_a_day() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    let token = at.mailed_token("ada@example.com");
    at.advance(24 * 3600);
    assert_eq!(refusal(at.auth.verify_email(token.clone()).await).0, Code::InvalidInput);
    assert_eq!(refusal(at.auth.verify_email(token).await).0, Code::InvalidInput);
}

#[tokio::test]
async fn the_operator_verifies_by_address() {
    let at = TestBox::start(Registration::Open);
    let user = at.register("ada@example.com").await.unwrap().user.id;
    let token = at.mailed_token("ada@example.com");
    assert_eq!(verify_by_operator(at.system(), " ADA@example.com").await.unwrap(), user);
    assert!(at.system().read(|tx| tx.require(&USERS, &user)).unwrap().email_verified_at.is_some());
    assert_eq!(refusal(at.auth.verify_email(token).await).0, Code::InvalidInput, "it is not needed any more");
    assert_eq!(refusal(verify_by_operator(at.system(), "eve@example.com").await).0, Code::NotFound);
    assert_eq!(refusal(verify_by_operator(at.system(), "nobody").await).0, Code::InvalidInput);
}

#[tokio::test]
async fn what_has_expired_is_swept_and_nothing_else() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    refusal(at.login("ada@example.com", "wrong password").await);
    let sweep = async || task::sweep_all(at.system(), || false).await.unwrap();
    assert_eq!((sweep().await, at.rows()), (0, [1, 1, 1, 2]));
    at.advance(15 * 60);
    assert_eq!((sweep().await, at.rows()), (2, [1, 1, 1, 0]));
    at.advance(24 * 3600);
    assert_eq!((sweep().await, at.rows()), (1, [1, 0, 1, 0]));
    at.advance(6 * 24 * 3600);
    assert_eq!((sweep().await, at.rows()), (1, [0, 0, 1, 0]));
}

#[tokio::test]
async fn a_counter_keeps_ten_failures_at_most() {
    let at = TestBox::start(Registration::Open);
    let email = super::email::Email::parse("ada@example.com").unwrap();
    let counters = LoginCounters::of(ELSEWHERE, &email);
    at.system()
        .write(move |tx| {
            for _ in 0..50 {
                counters.record(tx)?;
            }
            let rows = tx.scan(&LOGIN_FAILURES, None, store::Order::Ascending, 10)?;
            assert!(rows.len() == 2 && rows.iter().all(|(_, row)| row.at.len() == 10));
            Ok(())
        })
        .await
        .unwrap();
}

/// What is no count of failures, in the place of one.
#[derive(serde::Serialize, serde::Deserialize)]
struct UnknownV9;

impl base::codec::Record for UnknownV9 {
    const VERSION: u8 = 9;
}

#[tokio::test]
async fn only_a_login_that_was_throttled_is_told_to_be() {
    let at = TestBox::start(Registration::Open);
    at.register("ada@example.com").await.unwrap();
    let throttled = || {
        let filter = store::AuditFilter {
            action: Some(base::audit::Action::AuthLoginThrottled),
            ..store::AuditFilter::default()
        };
        let page = base::page::PageRequest { limit: 100, cursor: None };
        at.system().read(|tx| tx.audit_page(&filter, &page)).unwrap().items.len()
    };
    at.login("ada@example.com", "wrong password").await.err().unwrap();
    let good = at.system().read(|tx| tx.scan(&LOGIN_FAILURES, None, store::Order::Ascending, 10)).unwrap();
    static DAMAGED: store::SysTable<secrets::Digest, UnknownV9> =
        store::SysTable::new("login_failures", "Login failures");
    let keys: Vec<_> = good.iter().map(|(key, _)| *key).collect();
    assert!(!keys.is_empty());
    let damage =
        at.system().write(move |tx| keys.iter().try_for_each(|key| tx.put(&DAMAGED, key, &UnknownV9)));
    damage.await.unwrap();
    // Counters that cannot be read throttle nobody, and say so to nobody.
    at.login("ada@example.com", PASSWORD).await.unwrap();
    at.system().flush_refusals(true).await.unwrap();
    assert_eq!(throttled(), 0);
    // Nor does it stand in the way of the first one that is: that has its row at once.
    for n in 0..11 {
        let email = format!("nobody{n}@example.com");
        refusal(at.auth.login(&email, PASSWORD, IpAddr::from([203, 0, 113, 1])).await);
    }
    assert_eq!(throttled(), 1);
}

/// So many failures at one person's login, each from another network.
async fn strangers_fail(at: &TestBox, failures: u8) {
    for n in 0..failures {
        let ip = IpAddr::from([198, 51, 100, n]);
        refusal(at.auth.login("ada@example.com", "wrong password", ip).await);
    }
}

#[tokio::test]
async fn strangers_lock_nobody_out_of_their_own_networks_and_sessions() {
    let at = TestBox::start(Registration::Open);
    let ada = at.register("ada@example.com").await.unwrap();
    strangers_fail(&at, 30).await;
    let at = at.restart();
    at.login("ada@example.com", PASSWORD).await.unwrap();
    let away = IpAddr::from([203, 0, 113, 1]);
    assert_eq!(refusal(at.auth.login("ada@example.com", PASSWORD, away).await).0, Code::RateLimited);
    at.auth.confirm_password(ada.user.id, PASSWORD, away).await.unwrap();
    // A session that goes on somewhere else makes that place one of the person's.
    at.auth.refresh(&ada.tokens.refresh, away).await.unwrap();
    at.auth.login("ada@example.com", PASSWORD, away).await.unwrap();
    // Whoever sits in the person's own network has ten guesses there.
    for _ in 0..10 {
        assert_eq!(refusal(at.login("ada@example.com", "wrong password").await).0, Code::AuthInvalid);
    }
    assert_eq!(refusal(at.login("ada@example.com", PASSWORD).await).0, Code::RateLimited);
    at.auth.login("ada@example.com", PASSWORD, away).await.unwrap();
    // So has whoever found a token.
    for _ in 0..10 {
        let wrong = at.auth.confirm_password(ada.user.id, "wrong password", away).await;
        assert_eq!(refusal(wrong).0, Code::AuthForbidden);
    }
    assert_eq!(refusal(at.auth.confirm_password(ada.user.id, PASSWORD, away).await).0, Code::RateLimited);
    // A network is forgotten three months after the last login from there.
    at.advance(90 * 86_400);
    strangers_fail(&at, 10).await;
    assert_eq!(refusal(at.login("ada@example.com", PASSWORD).await).0, Code::RateLimited);
}

#[tokio::test]
async fn an_access_token_ends_with_its_login() {
    let at = TestBox::start(Registration::Open);
    let first = at.register("ada@example.com").await.unwrap().tokens;
    let other = at.login("ada@example.com", PASSWORD).await.unwrap().tokens;
    let is_good = |tokens: &TokenPair| at.auth.user_of_access_token(&tokens.access).is_ok();
    let second = at.auth.refresh(&first.refresh, ELSEWHERE).await.unwrap();
    assert!(is_good(&first) && is_good(&second) && is_good(&other), "a refresh ends no access token");
    at.auth.logout(&second.refresh).await.unwrap();
    let (code, said) = refusal(at.auth.user_of_access_token(&second.access));
    assert!(code == Code::AuthInvalid && said.contains("session has ended"), "{said}");
    assert!(!is_good(&first) && is_good(&other));
    let next = at.auth.refresh(&other.refresh, ELSEWHERE).await.unwrap();
    refusal(at.auth.refresh(&other.refresh, ELSEWHERE).await);
    assert!(!is_good(&other) && !is_good(&next), "a refresh token that was used twice ends them, too");
}
