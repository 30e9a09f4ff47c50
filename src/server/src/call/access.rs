//! Who a caller is and what their organization may do: asked of whoever keeps that.

use crate::spec::permit::Entitlement;
use base::{Code, Error, Result};
use store::{OrgStore, Principal};

/// Turns a credential into a caller; plugged in by app.
pub trait Authenticator: Send + Sync {
    /// The caller behind the text after `Bearer `. A credential that is no good is [`Code::AuthInvalid`].
    fn authenticate(&self, bearer: &str) -> Result<Principal>;

    /// The person behind the secret of a session in a browser. Where nobody keeps such, none is good.
    fn authenticate_session(&self, _secret: &str) -> Result<Principal> {
        Err(Error::new(Code::AuthInvalid))
    }
}

/// What a caller shows.
pub(crate) enum Credential {
    /// The text after `Bearer `.
    Bearer(String),
    /// The secret of a session in a browser.
    Session(String),
}

impl Credential {
    /// The caller behind it.
    pub(crate) fn caller(&self, authenticator: &dyn Authenticator) -> Result<Principal> {
        match self {
            Credential::Bearer(text) => authenticator.authenticate(text),
            Credential::Session(secret) => authenticator.authenticate_session(secret),
        }
    }
}

/// What an organization's plan allows and what it has left; plugged in by app.
pub trait Gatekeeper: Send + Sync {
    /// Refuses with [`Code::PlanRequired`].
    fn entitled(&self, org: &OrgStore, feature: Entitlement) -> Result<()>;
    /// Refuses with [`Code::PaymentRequired`] (trial over).
    fn trial(&self, org: &OrgStore) -> Result<()>;
    /// Refuses with [`Code::PaymentRequired`] (trial over) or [`Code::QuotaExceeded`] (credits gone).
    fn quota(&self, org: &OrgStore) -> Result<()>;
}
