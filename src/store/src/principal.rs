//! Who is calling. The only thing an `OrgStore` is minted from, besides the supervisor's own loop.

use base::ids::{ApiKeyId, OrgId, SessionId, UserId};
use base::permission::{Permissions, Role};

/// What the caller showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// A user access token: a person at a browser.
    Jwt,
    /// A long-lived key of an organization.
    ApiKey(ApiKeyId),
}

/// A caller whose credential was checked.
#[derive(Clone, Debug)]
pub struct Principal {
    pub(super) user: UserId,
    pub(super) name: String,
    pub(super) org: Option<OrgId>,
    pub(super) role: Option<Role>,
    pub(super) permissions: Permissions,
    pub(super) email_verified: bool,
    pub(super) method: AuthMethod,
    pub(super) session: Option<SessionId>,
}

/// What the auth slice found out about a caller.
#[derive(Clone, Debug)]
pub struct Identity {
    pub user: UserId,
    pub name: String,
    /// The organization and the role in it; none before onboarding.
    pub membership: Option<(OrgId, Role)>,
    /// What the credential allows; the role's own permissions are applied on top.
    pub allowed: Permissions,
    pub email_verified: bool,
    pub method: AuthMethod,
}

impl Principal {
    pub(super) fn new(identity: Identity) -> Principal {
        let (org, role) = identity.membership.unzip();
        let permissions = role.map_or(Permissions::NONE, |role| role.permissions().and(identity.allowed));
        Principal {
            user: identity.user,
            name: identity.name,
            org,
            role,
            permissions,
            email_verified: identity.email_verified,
            method: identity.method,
            session: None,
        }
    }

    /// The same caller, whose credential is of this login.
    pub fn in_session(self, session: Option<SessionId>) -> Principal {
        Principal { session, ..self }
    }

    /// The person: for a key, its maker.
    pub fn user(&self) -> UserId {
        self.user
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn org(&self) -> Option<OrgId> {
        self.org
    }

    pub fn role(&self) -> Option<Role> {
        self.role
    }

    pub fn permissions(&self) -> Permissions {
        self.permissions
    }

    pub fn email_verified(&self) -> bool {
        self.email_verified
    }

    pub fn method(&self) -> AuthMethod {
        self.method
    }

    /// The login that the credential is of; none for a key.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }
}
