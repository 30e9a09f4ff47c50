//! Keys and credentials on a real store with a clock that moves.

use super::*;
use crate::features::auth::{AuthSettings, NewLogin, Registration, UserV1};
use base::clock::{Clock, Moment};
use base::ids::OrgId;
use base::permission::Role;
use secrets::keyring::Keyring;
use store::fault::FaultyDisk;
use store::{MIGRATIONS, Store, System};

struct TestBox {
    clock: Clock,
    system: System,
    auth: Arc<Auth>,
    usage: Arc<KeyUsage>,
    callers: Callers,
    org: OrgId,
}

fn place() -> TestBox {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Arc::new(Keyring::load_or_create(&folder.path().join("keys.toml")).unwrap());
    let (disk, clock) = (FaultyDisk::new(), Clock::system());
    let system = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap().system();
    let settings = AuthSettings {
        registration: Registration::Open,
        registrations_per_hour: 50,
        public_url: "http://box.test".to_owned(),
    };
    let auth = Arc::new(Auth::new(system.clone(), keyring, settings).unwrap());
    let usage = Arc::new(KeyUsage::default());
    let callers = Callers::new(auth.clone(), usage.clone());
    TestBox { clock, system, auth, usage, callers, org: OrgId::new() }
}

impl TestBox {
    async fn set_user(&self, id: UserId, membership: Option<(OrgId, Role)>) {
        self.system
            .write(move |tx| {
                let user = UserV1 {
                    id,
                    email: format!("{id}@example.com"),
                    name: "Ada".to_owned(),
                    password_hash: String::new(),
                    email_verified_at: Some(tx.now()),
                    membership,
                    created_at: tx.now(),
                    sessions_valid_from: Moment(0),
                };
                tx.put(&USERS, &id, &user)
            })
            .await
            .unwrap();
    }

    async fn key(&self, maker: UserId, allowed: Permissions, end: Option<Timestamp>) -> (ApiKeyId, String) {
        let secret = KeySecret::generate().unwrap();
        let (digest, prefix) = (secret.digest(), secret.shown().to_owned());
        let id = self
            .system
            .org(self.org)
            .write(move |tx| {
                let row = ApiKeyV2 {
                    id: ApiKeyId::new(),
                    name: "CI".to_owned(),
                    secret: digest,
                    prefix,
                    maker,
                    kind: KeyKind::Organization,
                    permissions: allowed,
                    created_at: tx.now(),
                    expires_at: end,
                    last_used_at: None,
                };
                tx.insert(&API_KEYS, &row.id, &row)?;
                Ok(row.id)
            })
            .await
            .unwrap();
        (id, secret.as_str().to_owned())
    }

    fn refusal(&self, bearer: &str) -> Code {
        self.callers.authenticate(bearer).map(|_| ()).expect_err(bearer).code()
    }
}

#[tokio::test]
async fn a_key_grants_what_it_was_given_as_far_as_its_maker_still_holds_it() {
    let at = place();
    let maker = UserId::new();
    at.set_user(maker, Some((at.org, Role::Admin))).await;
    let allowed = Permissions::of([Permission::JobsWrite, Permission::JobsRead, Permission::OrgWrite]);
    let (id, key) = at.key(maker, allowed, None).await;
    let caller = at.callers.authenticate(&key).unwrap();
    assert_eq!((caller.user(), caller.org(), caller.method()), (maker, Some(at.org), AuthMethod::ApiKey(id)));
    assert_eq!(caller.permissions(), allowed);
    assert!(caller.email_verified());

    at.set_user(maker, Some((at.org, Role::Viewer))).await;
    let caller = at.callers.authenticate(&key).unwrap();
    assert_eq!(caller.permissions(), Permissions::of([Permission::JobsRead]));
    // Removed, in another organization, or gone: the key is nothing.
    at.set_user(maker, None).await;
    assert_eq!(at.refusal(&key), Code::AuthInvalid);
    at.set_user(maker, Some((OrgId::new(), Role::Owner))).await;
    assert_eq!(at.refusal(&key), Code::AuthInvalid);
    at.system.write(move |tx| tx.delete(&USERS, &maker)).await.unwrap();
    assert_eq!(at.refusal(&key), Code::AuthInvalid);
}

#[tokio::test]
async fn an_expired_deleted_or_unknown_key_is_refused() {
    let at = place();
    let maker = UserId::new();
    at.set_user(maker, Some((at.org, Role::Owner))).await;
    let all = Role::Owner.permissions();
    let soon = at.clock.now().after(Duration::from_secs(60));
    let (_, short) = at.key(maker, all, Some(soon)).await;
    let (id, lasting) = at.key(maker, all, None).await;
    assert!(at.callers.authenticate(&short).is_ok());
    at.clock.advance(Duration::from_secs(60));
    assert_eq!(at.refusal(&short), Code::AuthInvalid);
    assert!(at.callers.authenticate(&lasting).is_ok());
    at.system.org(at.org).write(move |tx| tx.delete(&API_KEYS, &id)).await.unwrap();
    assert_eq!(at.refusal(&lasting), Code::AuthInvalid);
    for unknown in [KeySecret::generate().unwrap().as_str(), "glk_", "glk", "", "Bearer", &lasting[..32]] {
        assert_eq!(at.refusal(unknown), Code::AuthInvalid, "{unknown}");
    }
}

#[tokio::test]
async fn a_token_s_caller_is_the_person_as_they_are_now() {
    let at = place();
    let user = UserId::new();
    at.set_user(user, None).await;
    let login = NewLogin::prepare().unwrap();
    let (stored, login) =
        at.system.write(move |tx| Ok((login.store(tx, &tx.require(&USERS, &user)?)?, login))).await.unwrap();
    let token = at.auth.tokens(stored, &login).access;
    let caller = at.callers.authenticate(&token).unwrap();
    assert_eq!((caller.user(), caller.org(), caller.method()), (user, None, AuthMethod::Jwt));
    assert_eq!(caller.permissions(), Permissions::NONE);
    at.set_user(user, Some((at.org, Role::Editor))).await;
    let caller = at.callers.authenticate(&token).unwrap();
    assert_eq!((caller.org(), caller.role()), (Some(at.org), Some(Role::Editor)));
    assert_eq!(caller.permissions(), Role::Editor.permissions());
}

#[tokio::test]
async fn uses_are_written_by_the_flush_only() {
    let at = place();
    let maker = UserId::new();
    at.set_user(maker, Some((at.org, Role::Owner))).await;
    let (id, key) = at.key(maker, Role::Owner.permissions(), None).await;
    let (gone, dead) = at.key(maker, Role::Owner.permissions(), None).await;
    let stored = || at.system.org(at.org).read(|tx| tx.require(&API_KEYS, &id)).unwrap().last_used_at;
    at.callers.authenticate(&key).unwrap();
    at.callers.authenticate(&dead).unwrap();
    assert_eq!(stored(), None);
    let noted = at.usage.last(at.org, id).unwrap();
    at.system.org(at.org).write(move |tx| tx.delete(&API_KEYS, &gone)).await.unwrap();
    at.usage.flush(&at.system).await.unwrap();
    assert_eq!(stored(), Some(noted));
    assert_eq!(at.usage.last(at.org, id), None);
    assert_eq!(
        at.system.org(at.org).read(|tx| tx.count(&API_KEYS, 10)).unwrap(),
        1,
        "a deleted key came back"
    );
    // An older use never replaces a newer one.
    at.usage.note(at.org, id, Timestamp(1));
    at.usage.flush(&at.system).await.unwrap();
    assert_eq!(stored(), Some(noted));
}

#[tokio::test]
async fn who_left_after_the_gate_makes_no_key() {
    let at = place();
    let maker = UserId::new();
    let new =
        || NewKey::new("CI".to_owned(), &KeySecret::generate().unwrap(), maker, Role::Admin.permissions());
    let make = async || {
        let (org, key) = (at.org, new());
        at.system.write(move |tx| mint(tx, org, key)).await
    };
    at.set_user(maker, Some((at.org, Role::Admin))).await;
    make().await.unwrap();
    for elsewhere in [None, Some((OrgId::new(), Role::Owner))] {
        at.set_user(maker, elsewhere).await;
        assert_eq!(make().await.unwrap_err().code(), Code::OrgNotFound);
    }
    assert_eq!(at.system.org(at.org).read(|tx| tx.count(&API_KEYS, 10)).unwrap(), 1);
}

#[tokio::test]
async fn an_organization_has_a_thousand_keys_at_most() {
    let at = place();
    let (maker, org) = (UserId::new(), at.org);
    at.set_user(maker, Some((org, Role::Owner))).await;
    let make = move |tx: &SysWrite<'_>| {
        let key = NewKey::new("CI".to_owned(), &KeySecret::generate()?, maker, Role::Owner.permissions());
        mint(tx, org, key)
    };
    at.system.write(move |tx| (0..KEYS_PER_ORG_MAX).try_for_each(|_| make(tx).map(drop))).await.unwrap();
    let refused = at.system.write(make).await.unwrap_err();
    assert!(refused.code() == Code::Conflict && refused.detail().unwrap().contains("1000"), "{refused}");
    at.system.write(move |tx| delete_made_by(&tx.org(org), maker)).await.unwrap();
    assert_eq!(at.system.org(org).read(|tx| tx.count(&API_KEYS, 10)).unwrap(), 0, "all of them go");
    at.system.write(make).await.unwrap();
}

#[test]
fn asked_permissions_are_held_ones() {
    let held = Role::Editor.permissions();
    let ask = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        asked_permissions(Some(&names), held)
    };
    assert_eq!(asked_permissions(None, held).unwrap(), held);
    assert_eq!(ask(&["jobs:write", "jobs:write"]).unwrap(), Permissions::of([Permission::JobsWrite]));
    let refused = ask(&["jobs:read", "org:write"]).unwrap_err();
    assert_eq!(refused.code(), Code::AuthForbidden);
    assert!(refused.detail().unwrap().contains("org:write"));
    let refused = ask(&["jobs:read", "jobs:delete"]).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidInput);
    assert!(refused.detail().unwrap().starts_with("permissions[1]: "));
    assert_eq!(ask(&[]).unwrap_err().code(), Code::InvalidInput);
}
