//! The races of the device flow on a real store with a clock that moves: what HTTP cannot time.

use super::*;
use crate::features::api_keys::API_KEYS;
use crate::features::auth::{ORG, OrgV1, USERS, UserV1};
use base::clock::Clock;
use base::ids::UserId;
use base::permission::Role;
use secrets::sha256;
use std::sync::Arc;
use store::fault::FaultyDisk;
use store::{MIGRATIONS, Store, SysRead, System};

struct TestBox {
    clock: Clock,
    system: System,
    keyring: Arc<Keyring>,
    org: OrgId,
    user: UserId,
    device: DeviceCode,
    typed: String,
}

async fn place() -> TestBox {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Arc::new(Keyring::load_or_create(&folder.path().join("keys.toml")).unwrap());
    let (disk, clock) = (FaultyDisk::new(), Clock::system());
    let system = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap().system();
    let (org, user) = (OrgId::new(), UserId::new());
    let (code, device) = system
        .write(move |tx| {
            let row = UserV1 {
                id: user,
                email: "ada@example.com".to_owned(),
                name: "Ada".to_owned(),
                password_hash: String::new(),
                email_verified_at: None,
                membership: Some((org, Role::Editor)),
                created_at: tx.now(),
                sessions_valid_from: tx.moment(),
            };
            tx.put(&USERS, &user, &row)?;
            tx.org(org).put(&ORG, &(), &OrgV1 { id: org, name: "Acme".to_owned(), created_at: tx.now() })?;
            let device = DeviceCode::generate()?;
            Ok((flow::start(tx, &device, "laptop".to_owned(), sha256(b"net"))?, device))
        })
        .await
        .unwrap();
    TestBox { clock, system, keyring, org, user, device, typed: code.shown() }
}

impl TestBox {
    /// An approval that has passed the pre-check.
    fn checked(&self) -> Approval {
        let row = self.system.read(|tx| pending(tx, &self.typed)).unwrap();
        let permissions = Role::Editor.permissions();
        Approval::prepare(&row, self.org, self.user, permissions, &self.keyring).unwrap()
    }

    async fn carry_out(&self, approval: Approval) -> Result<()> {
        self.system.write(move |tx| approval.carry_out(tx)).await?
    }

    async fn poll(&self) -> Result<Polled> {
        let (device, keyring) = (DeviceCode::digest_of(self.device.as_str()), self.keyring.clone());
        self.system.write(move |tx| flow::poll(tx, &device, &keyring)).await
    }

    fn keys(&self) -> usize {
        self.system.org(self.org).read(|tx| tx.count(&API_KEYS, 100)).unwrap()
    }

    fn stored(&self) -> rows::DeviceCodeV1 {
        let device = DeviceCode::digest_of(self.device.as_str());
        self.system.read(|tx| tx.require(&DEVICE_CODES, &device)).unwrap()
    }
}

/// The pre-check.
fn pending(tx: &SysRead<'_>, typed: &str) -> Result<rows::DeviceCodeV1> {
    let row = flow::find(tx, typed)?;
    flow::refuse_ended(&row, tx.moment()).map(|()| row)
}

fn code<T>(result: Result<T>) -> Code {
    result.err().expect("this must be refused").code()
}

#[tokio::test]
async fn of_two_approvals_that_passed_the_check_one_wins_and_both_keys_are_kept() {
    let at = place().await;
    let (first, second) = (at.checked(), at.checked());
    at.carry_out(first).await.unwrap();
    let winner = at.stored().approval.unwrap().key;
    assert_eq!(code(at.carry_out(second).await), Code::AuthCodeConsumed);
    assert_eq!(at.keys(), 2);
    assert_eq!(at.stored().approval.unwrap().key, winner, "the code is unchanged");
    assert_eq!(code(at.system.read(|tx| pending(tx, &at.typed))), Code::AuthCodeConsumed);
    let Polled::Delivered { secret, org, org_name } = at.poll().await.unwrap() else { panic!("pending") };
    assert_eq!((org, org_name.as_str()), (at.org, "Acme"));
    let key = at.system.org(at.org).read(|tx| tx.require(&API_KEYS, &winner)).unwrap();
    assert_eq!(key.secret, sha256(secret.as_bytes()));
    assert_eq!((key.name.as_str(), key.permissions), ("CLI on laptop", Role::Editor.permissions()));
}

#[tokio::test]
async fn an_expiry_after_the_check_wins_and_the_key_is_kept() {
    let at = place().await;
    let approval = at.checked();
    at.clock.advance(CODE_TIME);
    assert_eq!(code(at.carry_out(approval).await), Code::AuthCodeExpired);
    assert_eq!(at.keys(), 1);
    assert!(at.stored().approval.is_none());
    assert_eq!(code(at.poll().await), Code::AuthCodeExpired);
    assert_eq!(code(at.system.read(|tx| pending(tx, &at.typed))), Code::AuthCodeExpired);
    assert_eq!(at.keys(), 1, "who fails the check mints nothing");
}

#[tokio::test]
async fn who_left_after_the_check_mints_nothing() {
    let at = place().await;
    let approval = at.checked();
    let user = at.user;
    at.system
        .write(move |tx| {
            let mut row = tx.require(&USERS, &user)?;
            row.membership = None;
            tx.put(&USERS, &user, &row)
        })
        .await
        .unwrap();
    assert_eq!(code(at.carry_out(approval).await), Code::OrgNotFound);
    assert_eq!(at.keys(), 0);
}

#[tokio::test]
async fn a_secret_waits_sealed_and_is_gone_once_delivered() {
    let at = place().await;
    assert!(matches!(at.poll().await.unwrap(), Polled::Pending));
    at.carry_out(at.checked()).await.unwrap();
    let sealed = at.stored().approval.unwrap().sealed;
    assert!(!sealed.windows(4).any(|part| part == b"glk_"));
    assert_eq!(code(at.poll().await), Code::RateLimited);
    at.clock.advance(POLL_INTERVAL);
    let Polled::Delivered { secret, .. } = at.poll().await.unwrap() else { panic!("pending") };
    assert!(secret.starts_with("glk_"));
    assert!(at.stored().approval.unwrap().sealed.is_empty());
    at.clock.advance(POLL_INTERVAL);
    assert_eq!(code(at.poll().await), Code::AuthCodeConsumed);
}

#[tokio::test]
async fn a_key_that_was_deleted_before_its_delivery_is_not_delivered() {
    let at = place().await;
    at.carry_out(at.checked()).await.unwrap();
    let key = at.stored().approval.unwrap().key;
    at.system.org(at.org).write(move |tx| tx.delete(&API_KEYS, &key)).await.unwrap();
    assert_eq!(code(at.poll().await), Code::AuthCodeExpired);
}

#[tokio::test]
async fn codes_of_a_network_are_bounded_and_ended_ones_are_swept() {
    let at = place().await;
    let start = async |net: &'static [u8]| {
        at.system
            .write(move |tx| flow::start(tx, &DeviceCode::generate()?, "host".to_owned(), sha256(net)))
            .await
    };
    for _ in 1..100 {
        start(b"net").await.unwrap();
    }
    assert_eq!(code(start(b"net").await), Code::RateLimited);
    start(b"another").await.unwrap();
    at.clock.advance(CODE_TIME);
    start(b"net").await.unwrap();
    let sweep = async || flow::sweep_all(&at.system, || false).await.unwrap();
    assert_eq!(sweep().await, 0, "an ended code answers 410 for a while");
    at.clock.advance(Duration::from_secs(3600));
    assert_eq!(sweep().await, 101);
    assert_eq!(at.system.read(|tx| tx.count(&DEVICE_CODES, 1_000)).unwrap(), 1);
    assert_eq!(code(at.poll().await), Code::NotFound);
}
