//! API keys, and who a credential belongs to.
//!
//! A key is the organization's, or a member's own (`personal`): any member makes one of those for themselves, sees and ends
//! it, and so do those who look after all keys. A personal key is made by a person and never with another key, so that no
//! key outlives the one that it came from.
//!
//! A key acts for its maker in the organization it was made in: it grants what it was given, as far as its maker's role
//! still holds it, and nothing once its maker has left. Both are asked at each request, in one transaction of three
//! point reads.

mod personal;
mod rows;
mod secret;
mod usage;

pub use rows::{API_KEYS, ApiKeyV2, KeyKind};
pub use secret::KeySecret;
pub use usage::KeyUsage;

use crate::features::Feature;
use crate::features::auth::{Auth, USERS, UserV1, permissions_of};
use crate::features::wiring::Wiring;
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{ApiKeyId, OrgId, SessionId, UserId};
use base::limits::NAME_CHARS_MAX;
use base::name::Name;
use base::page::{Page, PageRequest};
use base::permission::{Permission, Permissions};
use base::{Code, Error, Result};
use futures::future::BoxFuture;
use rows::BY_SECRET;
use schemars::JsonSchema;
use secrets::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::permit::{OrgRead, OrgWrite};
use server::task::{Stage, TaskSpec};
use server::{Authenticator, Body, Created, Handler, Need, NoContent, OwnOr, Path, Route};
use std::sync::Arc;
use std::time::Duration;
use store::{self, AuthMethod, Event, Identity, Order, Principal, SysWrite};

/// Keys of one organization.
const KEYS_PER_ORG_MAX: usize = 1_000;
/// Personal keys of one member: nobody takes all of the organization's.
const PERSONAL_KEYS_MAX: usize = 20;

/// Opens the slice's parts.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        wiring.hang::<KeyUsage>(KeyUsage::default());
        Ok(())
    })
}

pub static FEATURE: Feature = Feature {
    name: "api-keys",
    uses: &["auth"],
    open: Some(open),
    tables: &[&API_KEYS],
    routes: &[
        Route::get("/api/v1/api-keys", "listApiKeys", &Handler::new(list))
            .about(
                "The organization's keys, newest first; never their secrets. Who does not hold org:read sees their own \
                 personal ones.",
            ),
        Route::post("/api/v1/api-keys", "createApiKey", &Handler::new(create))
            .secret()
            .about(
                "Makes a key. Its secret is in this answer and nowhere else. The organization's needs org:write; a personal \
                 one any member makes for themselves, signed in.",
            )
            .fails(&[Code::AuthForbidden, Code::Conflict]),
        Route::delete("/api/v1/api-keys/{id}", "deleteApiKey", &Handler::new(delete))
            .about("Ends a key at once. Another's, or the organization's, needs org:write.")
            .fails(&[Code::AuthForbidden, Code::NotFound]),
    ],
    tasks: &[TaskSpec::new("api-keys.flush-usage", Duration::from_secs(60), |context| {
        Box::pin(usage::flush(context))
    })
    .stage(Stage::Derive)],
    needs: &[Need::of::<Auth>(), Need::of::<KeyUsage>()],
    personal: personal::KINDS,
    holdings: personal::HOLDINGS,
    ..Feature::NONE
};

/// Turns credentials into callers: access tokens of people, and API keys.
pub struct Callers {
    auth: Arc<Auth>,
    usage: Arc<KeyUsage>,
}

impl Callers {
    pub fn new(auth: Arc<Auth>, usage: Arc<KeyUsage>) -> Callers {
        Callers { auth, usage }
    }

    /// A person who is signed in.
    fn person(&self, (user, session): (UserV1, Option<SessionId>)) -> Principal {
        let principal = self.auth.system().principal(Identity {
            user: user.id,
            allowed: permissions_of(&user),
            membership: user.membership,
            email_verified: user.email_verified_at.is_some(),
            name: user.name,
            method: AuthMethod::Jwt,
        });
        principal.in_session(session)
    }

    fn key(&self, text: &str) -> Result<Principal> {
        let refused = || Error::new(Code::AuthInvalid).title("Invalid API key");
        let secret = KeySecret::parse(text).ok_or_else(refused)?.digest();
        let system = self.auth.system();
        let (org, key, maker, now) = system.read(|tx| {
            let (org, key) = tx.lookup_global(&API_KEYS, &BY_SECRET, secret)?.ok_or_else(refused)?;
            let maker = tx.get(&USERS, &key.maker)?.ok_or_else(refused)?;
            Ok((org, key, maker, tx.now()))
        })?;
        if key.expires_at.is_some_and(|end| end <= now) {
            return Err(refused().message("The API key has expired."));
        }
        if maker.membership.is_none_or(|(member_of, _)| member_of != org) {
            return Err(refused().message("Whoever made this API key has left the organization."));
        }
        self.usage.note(org, key.id, now);
        Ok(system.principal(Identity {
            user: maker.id,
            name: maker.name,
            membership: maker.membership,
            allowed: key.permissions,
            email_verified: maker.email_verified_at.is_some(),
            method: AuthMethod::ApiKey(key.id),
        }))
    }
}

impl Authenticator for Callers {
    fn authenticate(&self, bearer: &str) -> Result<Principal> {
        if bearer.starts_with(secret::PREFIX) {
            return self.key(bearer);
        }
        self.auth.user_of_access_token(bearer).map(|user| self.person(user))
    }

    fn authenticate_session(&self, secret: &str) -> Result<Principal> {
        self.auth.user_of_browser(secret).map(|user| self.person(user))
    }
}

/// A key that is being made.
pub struct NewKey {
    name: String,
    digest: Digest,
    prefix: String,
    maker: UserId,
    kind: KeyKind,
    permissions: Permissions,
    expires_at: Option<Timestamp>,
}

impl NewKey {
    /// A key without an end; `permissions` must be within what its maker holds.
    pub fn new(name: String, secret: &KeySecret, maker: UserId, permissions: Permissions) -> NewKey {
        let prefix = secret.shown().to_owned();
        let kind = KeyKind::Organization;
        NewKey { name, digest: secret.digest(), prefix, maker, kind, permissions, expires_at: None }
    }
}

/// Stores a key of a member of `org`; `org_not_found` for a maker who is none (any more), `conflict` when the
/// organization has as many keys as it may.
///
/// Asked here and not at the gate: a key that a member's last request made after the membership ended would come to
/// life when they are invited again.
pub fn mint(tx: &SysWrite<'_>, org: OrgId, key: NewKey) -> Result<ApiKeyV2> {
    let membership = tx.get(&USERS, &key.maker)?.and_then(|maker| maker.membership);
    if membership.is_none_or(|(member_of, _)| member_of != org) {
        return Err(Error::new(Code::OrgNotFound));
    }
    let tx = tx.org(org);
    if tx.count(&API_KEYS, KEYS_PER_ORG_MAX)? >= KEYS_PER_ORG_MAX {
        return Err(Error::conflict(format!(
            "An organization has at most {KEYS_PER_ORG_MAX} API keys; delete one first."
        )));
    }
    if key.kind == KeyKind::Personal {
        let own = |(_, row): &(ApiKeyId, ApiKeyV2)| row.maker == key.maker && row.kind == KeyKind::Personal;
        let keys = tx.scan(&API_KEYS, None, Order::Ascending, KEYS_PER_ORG_MAX)?;
        if keys.iter().filter(|key| own(key)).count() >= PERSONAL_KEYS_MAX {
            return Err(Error::conflict(format!(
                "You have {PERSONAL_KEYS_MAX} personal API keys, as many as one may; delete one first."
            )));
        }
    }
    let row = ApiKeyV2 {
        id: ApiKeyId::new(),
        name: key.name,
        secret: key.digest,
        prefix: key.prefix,
        maker: key.maker,
        kind: key.kind,
        permissions: key.permissions,
        created_at: tx.now(),
        expires_at: key.expires_at,
        last_used_at: None,
    };
    tx.insert(&API_KEYS, &row.id, &row)?;
    Ok(row)
}

/// Ends every key that `maker` has made here, and gives their ids: they go with their maker's membership, and do not come
/// back with it.
pub fn delete_made_by(tx: &store::OrgWrite<'_>, maker: UserId) -> Result<Vec<ApiKeyId>> {
    let mut ended = Vec::new();
    // One that cannot be read opens nothing.
    for (id, key) in tx.readable(&API_KEYS, None, KEYS_PER_ORG_MAX)?.rows {
        if key.maker == maker {
            tx.delete(&API_KEYS, &id)?;
            ended.push(id);
        }
    }
    Ok(ended)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewApiKeyRequest {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
    /// `organization` unless said otherwise; `personal`: the caller's own.
    kind: Option<KeyKind>,
    /// What the key allows; all that the caller may do when left out.
    #[schemars(extend("items" = permission_schema()))]
    permissions: Option<Vec<String>>,
    /// When it ends; never when left out.
    expires_at: Option<Timestamp>,
}

fn permission_schema() -> Value {
    let names: Vec<_> = Permission::ALL.iter().map(|permission| permission.name()).collect();
    json!({ "type": "string", "enum": names })
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ApiKeyView {
    id: ApiKeyId,
    name: String,
    /// The first 8 characters of the secret.
    prefix: String,
    kind: KeyKind,
    permissions: Vec<String>,
    created_by: UserId,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

impl ApiKeyView {
    fn new(row: ApiKeyV2, used: Option<Timestamp>) -> ApiKeyView {
        ApiKeyView {
            id: row.id,
            name: row.name,
            prefix: row.prefix,
            kind: row.kind,
            permissions: row.permissions.names(),
            created_by: row.maker,
            created_at: row.created_at,
            expires_at: row.expires_at,
            last_used_at: row.last_used_at.max(used),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewApiKeyView {
    api_key: ApiKeyView,
    /// The key itself, shown once.
    secret: String,
}

/// Whether the key is the caller's own, to see and to end without looking after the organization's keys.
fn is_own(row: &ApiKeyV2, caller: UserId) -> bool {
    row.kind == KeyKind::Personal && row.maker == caller
}

async fn list(org: OwnOr<OrgRead>, page: PageRequest) -> Result<Body<Page<ApiKeyView>>> {
    let usage = org.service::<KeyUsage>();
    let (sees_all, caller) = (org.may(Permission::OrgRead), org.principal().user());
    let rows = org.read(|tx| tx.page(&API_KEYS, &page, |row| sees_all || is_own(row, caller)))?;
    Ok(Body(rows.map(|row| {
        let used = usage.last(org.id(), row.id);
        ApiKeyView::new(row, used)
    })))
}

/// Whether the caller may make a key of this kind.
fn check_maker(caller: &Principal, kind: KeyKind) -> Result<()> {
    let refused = |reason: &str| Err(Error::new(Code::AuthForbidden).message(reason));
    match kind {
        KeyKind::Organization if !caller.permissions().contains(Permission::OrgWrite) => refused(
            "This needs the permission org:write; a key of your own is made with \"kind\": \"personal\".",
        ),
        KeyKind::Personal if caller.method() != AuthMethod::Jwt => {
            refused("A personal key is made by a person who is signed in; an API key will not do.")
        }
        _ => Ok(()),
    }
}

async fn create(
    org: OwnOr<OrgWrite>,
    Body(request): Body<NewApiKeyRequest>,
) -> Result<Created<NewApiKeyView>> {
    let caller = org.principal();
    let kind = request.kind.unwrap_or_default();
    check_maker(caller, kind)?;
    let name = Name::parse("name", &request.name)?.into_string();
    let permissions = asked_permissions(request.permissions.as_deref(), caller.permissions())?;
    if request.expires_at.is_some_and(|end| end <= org.now()) {
        return Err(Error::invalid("expiresAt", "must be in the future"));
    }
    let secret = KeySecret::generate()?;
    let mut key = NewKey::new(name, &secret, caller.user(), permissions);
    key.expires_at = request.expires_at;
    key.kind = kind;
    let (own, auth) = (org.id(), org.service::<Auth>());
    let row = auth.system().write(move |tx| {
        let row = mint(tx, own, key)?;
        let event = Event::new(Action::ApiKeyCreated).of(row.id);
        tx.org(own).audit(event.with("permissions", words(row.permissions)))?;
        Ok(row)
    });
    let row = row.await?;
    Ok(Created(NewApiKeyView { api_key: ApiKeyView::new(row, None), secret: secret.as_str().to_owned() }))
}

/// Permissions as one detail of an audit row.
fn words(permissions: Permissions) -> String {
    let all = Permissions::of(Permission::ALL.iter().copied());
    if permissions == all { "all".to_owned() } else { permissions.names().join(" ") }
}

/// The permissions of a new key: `held` unless fewer are asked for, never more.
fn asked_permissions(asked: Option<&[String]>, held: Permissions) -> Result<Permissions> {
    let Some(names) = asked else { return Ok(held) };
    if names.is_empty() {
        return Err(Error::invalid(
            "permissions",
            "must name at least one; leave it out for all that you may do",
        ));
    }
    let mut all = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        let permission: Permission =
            name.parse().map_err(|reason: String| Error::invalid(&format!("permissions[{i}]"), reason))?;
        if !held.contains(permission) {
            return Err(Error::new(Code::AuthForbidden)
                .message(format!("You do not hold {name}, so a key of yours cannot either.")));
        }
        all.push(permission);
    }
    Ok(Permissions::of(all))
}

async fn delete(org: OwnOr<OrgWrite>, Path(id): Path<ApiKeyId>) -> Result<NoContent> {
    let (ends_all, caller) = (org.may(Permission::OrgWrite), org.principal().user());
    let is_person = org.principal().method() == AuthMethod::Jwt;
    let deleted = org.write(move |tx| {
        let row = tx.get(&API_KEYS, &id)?;
        if !ends_all && !row.as_ref().is_some_and(|row| is_person && is_own(row, caller)) {
            // The same whether there is such a key: who may not see it does not learn of it.
            return Err(Error::new(Code::AuthForbidden)
                .message("This needs the permission org:write; without it you end your own personal keys."));
        }
        if !tx.delete(&API_KEYS, &id)? {
            return Err(Error::not_found(API_KEYS.noun()));
        }
        tx.audit(Event::new(Action::ApiKeyDeleted).of(id))
    });
    deleted.await.map(|()| NoContent)
}

#[cfg(test)]
mod tests;
