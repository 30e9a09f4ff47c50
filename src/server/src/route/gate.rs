//! Who may call: the gates, and the order in which they ask.
//!
//! organization → entitlement → verified e-mail → permission → quota. A mount ([`Mount`]) keeps the order and may have
//! codes of its own, an entitlement for all that is below it, and want a verified e-mail always. A gate is the first
//! argument of a handler and the only way to an [`OrgContext`], so what a handler can reach is what its caller may reach.

use crate::call::access::Credential;
use crate::call::request::{Call, Context};
use crate::call::session;
use crate::route::operation::Operation;
use crate::spec::mount::Mount;
use crate::spec::permit::{Needs, QuotaNeed, Requirement};
use base::ids::OrgId;
use base::permission::Permission;
use base::{Code, Error, Result};
use http::header::AUTHORIZATION;
use std::marker::PhantomData;
use std::ops::Deref;
use store::{AuthMethod, OrgRead, OrgStore, OrgWrite, Principal, System};

/// The first argument of a handler.
pub trait Gate: Sized + Send {
    /// Lets the caller in, or says why not.
    fn admit(call: &Call) -> Result<Self>;
    /// Says in the reference who is let in.
    fn describe(operation: &mut Operation<'_>);
}

/// Anybody, without a credential.
pub struct Anonymous(Context);

impl Gate for Anonymous {
    fn admit(call: &Call) -> Result<Self> {
        Ok(Anonymous(call.context.clone()))
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.anonymous();
    }
}

impl Anonymous {
    /// Rows that belong to no organization.
    pub fn system(&self) -> &System {
        self.0.services().system()
    }
}

impl Deref for Anonymous {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.0
    }
}

/// Any caller with a credential, with or without an organization.
pub struct User {
    context: Context,
    principal: Principal,
}

impl User {
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Rows that belong to no organization.
    pub fn system(&self) -> &System {
        self.context.services().system()
    }

    /// The caller's organization; without one `org_not_found`.
    pub fn org(self) -> Result<OrgContext> {
        let store = self.context.services().store().org(&self.principal)?;
        Ok(OrgContext { context: self.context, principal: self.principal, store })
    }
}

impl Deref for User {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Gate for User {
    fn admit(call: &Call) -> Result<Self> {
        Ok(User { context: call.context.clone(), principal: authenticate(call)? })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.authenticated("Any logged-in user or API key.");
    }
}

/// A person's own session: an access token, never an API key.
pub struct Browser(User);

impl Browser {
    /// As [`User::org`].
    pub fn org(self) -> Result<OrgContext> {
        self.0.org()
    }
}

impl Deref for Browser {
    type Target = User;

    fn deref(&self) -> &User {
        &self.0
    }
}

impl Gate for Browser {
    fn admit(call: &Call) -> Result<Self> {
        let user = User::admit(call)?;
        refuse_api_key(&user.principal)?;
        Ok(Browser(user))
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.authenticated("A user's access token; API keys are refused.");
        operation.error(Code::AuthForbidden);
    }
}

/// A caller inside an organization: the way to its rows and engines.
pub struct OrgContext {
    context: Context,
    principal: Principal,
    store: OrgStore,
}

impl OrgContext {
    pub fn id(&self) -> OrgId {
        self.store.id()
    }

    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The organization's rows, for engines that keep them.
    pub fn store(&self) -> &OrgStore {
        &self.store
    }

    /// Looks at one state of the organization's rows.
    pub fn read<T>(&self, look: impl FnOnce(&OrgRead<'_>) -> Result<T>) -> Result<T> {
        self.store.read(look)
    }

    /// Decides and changes in one commit; an error leaves nothing behind.
    pub async fn write<T: Send + 'static>(
        &self,
        decide: impl FnOnce(&OrgWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.store.write(decide).await
    }

    /// The same for what removes rows: it is taken also while the disk has no more than its reserve.
    pub async fn write_freeing<T: Send + 'static>(
        &self,
        decide: impl FnOnce(&OrgWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.store.write_freeing(decide).await
    }

    /// Whether the caller also has another permission than the gate asked for.
    pub fn may(&self, permission: Permission) -> bool {
        self.principal.permissions().contains(permission)
    }
}

impl Deref for OrgContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

/// A member of an organization who fulfils `G`.
pub struct Org<G> {
    inner: OrgContext,
    gate: PhantomData<fn() -> G>,
}

impl<G> Org<G> {
    /// The context without the proof, for code that several gates share.
    pub fn into_inner(self) -> OrgContext {
        self.inner
    }
}

impl<G> Deref for Org<G> {
    type Target = OrgContext;

    fn deref(&self) -> &OrgContext {
        &self.inner
    }
}

impl<G: Requirement> Gate for Org<G> {
    fn admit(call: &Call) -> Result<Self> {
        Ok(Org { inner: admit(call, &G::NEEDS)?, gate: PhantomData })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.organization(&G::NEEDS);
    }
}

/// Makes the caller known to the connection, if there is a good credential; what is wrong with one is for the gate to say.
pub(crate) fn introduce(call: &Call) {
    if credential(call).and_then(|shown| shown.caller(&*call.context.state().authenticator)).is_ok() {
        call.context.connection().introduce();
    }
}

/// A member who fulfils `G`; or any member who is signed in, for what is their own: the handler looks whether it is. A key
/// without `G`'s permission is refused.
pub struct OwnOr<G> {
    inner: OrgContext,
    gate: PhantomData<fn() -> G>,
}

impl<G> Deref for OwnOr<G> {
    type Target = OrgContext;

    fn deref(&self) -> &OrgContext {
        &self.inner
    }
}

impl<G: Requirement> Gate for OwnOr<G> {
    fn admit(call: &Call) -> Result<Self> {
        let inner = admit(call, &Needs { permission: None, ..G::NEEDS })?;
        if let Some(permission) = G::NEEDS.permission
            && !inner.may(permission)
            && inner.principal().method() != AuthMethod::Jwt
        {
            let message = format!("This needs the permission {}.", permission.name());
            return Err(Error::new(Code::AuthForbidden).message(message));
        }
        Ok(OwnOr { inner, gate: PhantomData })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.organization(&G::NEEDS);
    }
}

/// The caller behind the `Authorization` header.
fn authenticate(call: &Call) -> Result<Principal> {
    let principal = credential(call)?.caller(&*call.context.state().authenticator)?;
    call.context.origin().identify(&principal);
    call.context.connection().introduce();
    Ok(principal)
}

/// What the caller shows: a bearer, or else the cookie of a session in a browser, where that counts.
pub(crate) fn credential(call: &Call) -> Result<Credential> {
    let missing =
        || Error::new(Code::AuthMissing).message("Send \"Authorization: Bearer <token or API key>\".");
    let mut headers = call.headers().get_all(AUTHORIZATION).iter();
    let Some(header) = headers.next() else {
        return session::secret(call).map(Credential::Session).ok_or_else(missing);
    };
    if headers.next().is_some() {
        // A proxy before the box could have checked the other one.
        return Err(Error::new(Code::AuthInvalid).message("Authorization is given more than once."));
    }
    let text = header.to_str().map_err(|_| Error::new(Code::AuthInvalid))?;
    let (scheme, credential) = text.split_once(' ').unwrap_or((text, ""));
    let credential = credential.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || credential.is_empty() {
        return Err(missing());
    }
    Ok(Credential::Bearer(credential.to_owned()))
}

fn refuse_api_key(principal: &Principal) -> Result<()> {
    match principal.method() {
        AuthMethod::Jwt => Ok(()),
        AuthMethod::ApiKey(_) => Err(Error::new(Code::AuthForbidden)
            .message("This needs a user's access token; an API key will not do.")),
    }
}

/// The gates of an organization's routes, in their order.
fn admit(call: &Call, needs: &Needs) -> Result<OrgContext> {
    let principal = authenticate(call)?;
    let mount = call.mount();
    let gatekeeper = &call.context.state().gatekeeper;
    if needs.browser {
        refuse_api_key(&principal)?;
    }
    let store = call.services().store().org(&principal).map_err(|e| by_mount(e, mount))?;
    if let Some(feature) = call.route().plan.or(mount.plan) {
        gatekeeper.entitled(&store, feature).map_err(|e| by_mount(e, mount))?;
    }
    if (needs.verified || mount.verified) && !principal.email_verified() {
        let error = match mount.refusals.unverified {
            Code::AuthForbidden => Error::new(Code::AuthForbidden).title("Email address is not verified"),
            code => Error::new(code),
        };
        return Err(error.message(if call.context.state().settings.sends_mail {
            "Verify your email address first: follow the link that was sent to it, or ask the operator of this box to run \
             `gleaner admin user verify` with your address."
        } else {
            "Your email address is not verified, and this box sends no mail: ask its operator to run `gleaner admin user \
             verify` with your address."
        }));
    }
    if let Some(permission) = needs.permission
        && !principal.permissions().contains(permission)
    {
        let code = mount.refusals.permission;
        return Err(Error::new(code).message(format!("This needs the permission {}.", permission.name())));
    }
    match needs.quota {
        QuotaNeed::None => {}
        QuotaNeed::Credits => gatekeeper.quota(&store)?,
        QuotaNeed::Priced => gatekeeper.trial(&store)?,
    }
    Ok(OrgContext { context: call.context.clone(), principal, store })
}

/// A refusal under the mount's own code.
fn by_mount(error: Error, mount: &Mount) -> Error {
    let code = match error.code() {
        Code::OrgNotFound => mount.refusals.org,
        Code::PlanRequired => mount.refusals.plan,
        _ => return error,
    };
    if code == error.code() {
        return error;
    }
    match error.detail() {
        Some(detail) => Error::new(code).message(detail),
        None => Error::new(code),
    }
}
