//! What a person is in an organization at this moment, and whom they may therefore change.

use crate::features::auth::{USERS, UserV1};
use base::ids::{OrgId, UserId};
use base::permission::{Permission, Permissions, Role};
use base::{Code, Error, Result};
use store::{AuthMethod, Principal, SysRead};

/// What a person is in the organization, if they are in it.
pub(super) fn role_in(user: &UserV1, org: OrgId) -> Option<Role> {
    user.membership.filter(|(member_of, _)| *member_of == org).map(|(_, role)| role)
}

/// What the caller is in the organization at this moment.
pub(super) fn callers_role(tx: &SysRead<'_>, org: OrgId, caller: UserId) -> Result<Role> {
    let user = tx.get(&USERS, &caller)?;
    user.and_then(|user| role_in(&user, org)).ok_or_else(|| Error::new(Code::OrgNotFound))
}

/// Who changes who is in an organization, and what with: a person's own session may do what they may, a key no more than its
/// own permissions, and nothing about owners, which is a matter between people.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    pub user: UserId,
    pub permissions: Permissions,
    pub is_person: bool,
}

impl Caller {
    pub fn of(principal: &Principal) -> Caller {
        let is_person = principal.method() == AuthMethod::Jwt;
        Caller { user: principal.user(), permissions: principal.permissions(), is_person }
    }

    /// Refuses who may not take `present` from somebody, or give them `given`. Asked of the rows as they are now: of two
    /// administrators who demote each other at once, the second is none any more.
    pub fn may_change(
        &self,
        tx: &SysRead<'_>,
        org: OrgId,
        present: Option<Role>,
        given: Option<Role>,
    ) -> Result<()> {
        let role = callers_role(tx, org, self.user)?;
        let held = role.permissions().and(self.permissions);
        let refused = |why: &str| Err(Error::new(Code::AuthForbidden).message(why));
        if !held.contains(Permission::OrgWrite) {
            return refused("This needs the permission org:write.");
        }
        let owners = [present, given].contains(&Some(Role::Owner));
        if owners && (role != Role::Owner || !self.is_person) {
            return refused(
                "Only an owner makes or unmakes owners, in a session of their own: an API key does not.",
            );
        }
        if given.is_some_and(|role| !role.permissions().within(held)) {
            return refused("An API key gives nobody a role that may do more than the key.");
        }
        Ok(())
    }
}
