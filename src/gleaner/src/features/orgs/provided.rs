//! Memberships as the company's provider has them: where somebody's groups lead, whatever anybody here has decided.
//!
//! One thing is beyond it: an organization keeps an owner.

use super::MEMBERS_PER_ORG_MAX;
use super::invites;
use super::members::not_the_last_owner;
use super::roles::role_in;
use crate::features::api_keys;
use crate::features::auth::{USERS, USERS_BY_ORG, UserV1};
use base::Result;
use base::audit::Action;
use base::ids::OrgId;
use base::permission::Role;
use store::{Event, SysWrite};

/// What became of a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provided {
    Done,
    /// The organization has as many members as it may have.
    Full,
    /// The person is the last owner: they stay one, on paper where they are let in no more.
    LastOwner,
}

/// Makes the person a member of `org` with this role, or gives them the role there. Whoever is a member elsewhere is not (any
/// more) when this is asked.
pub fn provide(tx: &SysWrite<'_>, user: &mut UserV1, org: OrgId, role: Role) -> Result<Provided> {
    let own = tx.org(org);
    match role_in(user, org) {
        Some(present) if present == role => Ok(Provided::Done),
        Some(Role::Owner) if not_the_last_owner(tx, org, user.id).is_err() => Ok(Provided::LastOwner),
        Some(present) => {
            user.membership = Some((org, role));
            tx.put(&USERS, &user.id, user)?;
            invites::end_of(tx, org, user.id)?;
            let event = Event::new(Action::MemberRoleChanged).of(user.id).about(user.id);
            let event = event.with("from", present.name()).with("to", role.name());
            own.audit(event.with("by", "provider"))?;
            Ok(Provided::Done)
        }
        None if tx.count_index(&USERS_BY_ORG, org, MEMBERS_PER_ORG_MAX)? >= MEMBERS_PER_ORG_MAX => {
            Ok(Provided::Full)
        }
        None => {
            user.membership = Some((org, role));
            tx.put(&USERS, &user.id, user)?;
            let event = Event::new(Action::MemberJoined).of(user.id).by(user.id).with("role", role.name());
            own.audit(event.with("by", "provider"))?;
            Ok(Provided::Done)
        }
    }
}

/// Ends the person's membership with the keys and invitations that they made. The last owner's keys end as well.
pub fn withdraw(tx: &SysWrite<'_>, user: &mut UserV1) -> Result<Provided> {
    let Some((org, present)) = user.membership else { return Ok(Provided::Done) };
    let own = tx.org(org);
    let keys = api_keys::delete_made_by(&own, user.id)?;
    let is_last = present == Role::Owner && not_the_last_owner(tx, org, user.id).is_err();
    if is_last {
        for key in keys {
            own.audit(Event::new(Action::ApiKeyDeleted).of(key).with("by", "provider"))?;
        }
        return Ok(Provided::LastOwner);
    }
    user.membership = None;
    tx.put(&USERS, &user.id, user)?;
    let invites = invites::end_of(tx, org, user.id)?;
    let event = Event::new(Action::MemberRemoved).of(user.id).about(user.id).with("by", "provider");
    let event = if invites > 0 { event.with("invites", invites) } else { event };
    own.audit(event.with("role", present.name()).with("keys", keys.len()).ids("keyIds", keys))?;
    Ok(Provided::Done)
}
