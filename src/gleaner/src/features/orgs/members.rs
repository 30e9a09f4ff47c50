//! Who is in an organization, and what they are in it.
//!
//! A membership is one field of the person's row, read at each request: who is removed is out with the next one. The
//! rules are asked inside the transaction that changes it, of the rows as they are then, so that two owners who demote
//! each other at once do not leave an organization without one.

use super::roles::{Caller, callers_role, role_in};
use super::{MEMBERS_PER_ORG_MAX, invites};
use crate::features::api_keys;
use crate::features::auth::{Auth, USERS, USERS_BY_ORG, UserV1};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{OrgId, UserId};
use base::page::{Page, PageRequest};
use base::permission::{Permission, Role};
use base::{Code, Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{Member, OrgRead, OrgWrite};
use server::{Body, NoContent, Org, Path};
use store::{AuthMethod, Event, Order, SysRead, SysWrite};

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemberView {
    user_id: UserId,
    email: String,
    name: String,
    role: Role,
    email_verified_at: Option<Timestamp>,
}

impl MemberView {
    fn new(user: UserV1, role: Role) -> MemberView {
        MemberView {
            user_id: user.id,
            email: user.email,
            name: user.name,
            role,
            email_verified_at: user.email_verified_at,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpdateMemberRequest {
    role: Role,
}

pub(super) async fn list(org: Org<OrgRead>, page: PageRequest) -> Result<Body<Page<MemberView>>> {
    let id = org.id();
    let rows = org.service::<Auth>().system().read(|tx| {
        tx.page_by(&USERS, &USERS_BY_ORG, |key| key.id(id), &page, |user| role_in(user, id).is_some())
    })?;
    Ok(Body(Page {
        items: rows
            .items
            .into_iter()
            .filter_map(|user| role_in(&user, id).map(|role| MemberView::new(user, role)))
            .collect(),
        next_cursor: rows.next_cursor,
    }))
}

pub(super) async fn update(
    org: Org<OrgWrite>,
    Path(target): Path<UserId>,
    Body(request): Body<UpdateMemberRequest>,
) -> Result<Body<MemberView>> {
    let (id, caller) = (org.id(), Caller::of(org.principal()));
    let changed = org
        .service::<Auth>()
        .system()
        .write(move |tx| set_role(tx, id, caller, target, request.role))
        .await?;
    Ok(Body(MemberView::new(changed, request.role)))
}

pub(super) async fn remove(org: Org<Member>, Path(target): Path<UserId>) -> Result<NoContent> {
    let (id, caller) = (org.id(), org.principal().user());
    // Leaving is one's own affair, but not that of a key which was not made for such things.
    let leaves = target == caller && org.principal().method() == AuthMethod::Jwt;
    if !leaves && !org.may(Permission::OrgWrite) {
        return Err(Error::new(Code::AuthForbidden).message("This needs the permission org:write."));
    }
    let caller = Caller::of(org.principal());
    org.service::<Auth>().system().write(move |tx| end(tx, id, caller, target)).await?;
    Ok(NoContent)
}

fn member(tx: &SysRead<'_>, org: OrgId, id: UserId) -> Result<(UserV1, Role)> {
    let user = tx.get(&USERS, &id)?;
    user.and_then(|user| role_in(&user, org).map(|role| (user, role)))
        .ok_or_else(|| Error::not_found("Member"))
}

pub(super) fn not_the_last_owner(tx: &SysRead<'_>, org: OrgId, owner: UserId) -> Result<()> {
    let all =
        tx.scan_index(&USERS, &USERS_BY_ORG, |key| key.id(org), Order::Ascending, MEMBERS_PER_ORG_MAX)?;
    if all.iter().any(|user| user.id != owner && role_in(user, org) == Some(Role::Owner)) {
        return Ok(());
    }
    Err(Error::conflict("The organization needs an owner: make another member one first."))
}

/// Gives `target` another role on behalf of `caller`.
pub(super) fn set_role(
    tx: &SysWrite<'_>,
    org: OrgId,
    caller: Caller,
    target: UserId,
    role: Role,
) -> Result<UserV1> {
    caller.may_change(tx, org, None, None)?;
    let (mut user, present) = member(tx, org, target)?;
    caller.may_change(tx, org, Some(present), Some(role))?;
    if present == Role::Owner && role != Role::Owner {
        not_the_last_owner(tx, org, target)?;
    }
    user.membership = Some((org, role));
    tx.put(&USERS, &target, &user)?;
    invites::end_of(tx, org, target)?;
    let event = Event::new(Action::MemberRoleChanged).of(target);
    tx.org(org).audit(event.with("from", present.name()).with("to", role.name()))?;
    Ok(user)
}

/// Ends the membership of `target` on behalf of `caller`.
pub(super) fn end(tx: &SysWrite<'_>, org: OrgId, caller: Caller, target: UserId) -> Result<()> {
    // Leaving takes no permission.
    if target == caller.user && caller.is_person {
        callers_role(tx, org, caller.user)?;
    } else {
        caller.may_change(tx, org, None, None)?;
    }
    let (mut user, present) = member(tx, org, target)?;
    if target != caller.user || !caller.is_person {
        caller.may_change(tx, org, Some(present), None)?;
    }
    if present == Role::Owner {
        not_the_last_owner(tx, org, target)?;
    }
    user.membership = None;
    tx.put(&USERS, &target, &user)?;
    let own = tx.org(org);
    let keys = api_keys::delete_made_by(&own, target)?;
    let invites = invites::end_of(tx, org, target)?;
    let event = Event::new(Action::MemberRemoved).of(target).with("left", target == caller.user);
    let event = if invites > 0 { event.with("invites", invites) } else { event };
    own.audit(event.with("role", present.name()).with("keys", keys.len()).ids("keyIds", keys))
}
