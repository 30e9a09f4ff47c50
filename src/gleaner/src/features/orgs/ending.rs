//! How memberships and organizations end for good.
//!
//! [`dissolve`] is the moment from which nobody is in an organization any more: its members have none, the registry has
//! forgotten it, and the store puts it behind a fence. Removing what it kept is the account slice's erasure.

use super::MEMBERS_PER_ORG_MAX;
use super::invites::forget;
use super::members::not_the_last_owner;
use super::roles::callers_role;
use crate::features::auth::{INVITES, ORG, ORGS, USERS, USERS_BY_ORG, UserV1};
use crate::features::{Erased, Person, Personal, Shown, api_keys, billing};
use base::ids::{ApiKeyId, InviteId, OrgId, UserId};
use base::permission::Role;
use base::{Code, Error, Result};
use serde_json::{Value, json};
use store::{Order, SysRead, SysWrite};

/// Invitations that one step of a walk looks at.
const INVITES_PER_STEP: usize = 500;

/// Ends the membership of somebody whose account goes, with the keys they made. 409 for the last owner: what others work
/// with, and what nobody could reach any more, does not go by the way. Gives the keys that went.
pub fn end_membership(tx: &SysWrite<'_>, user: &UserV1) -> Result<Vec<ApiKeyId>> {
    let Some((org, role)) = user.membership else { return Ok(Vec::new()) };
    if role == Role::Owner && not_the_last_owner(tx, org, user.id).is_err() {
        let members = tx.scan_index(&USERS, &USERS_BY_ORG, |key| key.id(org), Order::Ascending, 2)?;
        return Err(Error::conflict(if members.len() > 1 {
            "You are the last owner of your organization: make another member an owner, or erase the organization with \
             DELETE /api/v1/orgs/current first."
        } else {
            "You are the only member of your organization: erase it with DELETE /api/v1/orgs/current first."
        }));
    }
    api_keys::delete_made_by(&tx.org(org), user.id)
}

/// Puts an organization out of everybody's reach, on behalf of `caller`, who must own it and know its name.
pub fn dissolve(tx: &SysWrite<'_>, org: OrgId, caller: UserId, confirm_name: &str) -> Result<()> {
    if callers_role(tx, org, caller)? != Role::Owner {
        return Err(Error::new(Code::AuthForbidden).message("Only an owner erases the organization."));
    }
    if tx.org(org).require(&ORG, &())?.name != confirm_name {
        return Err(Error::invalid(
            "confirmName",
            "is not the organization's name; it must be the same, letter by letter",
        ));
    }
    // A member whose row is damaged cannot log in, and leads behind the fence.
    let members =
        tx.readable_by(&USERS, &USERS_BY_ORG, |key| key.id(org), None, None, MEMBERS_PER_ORG_MAX)?;
    for (id, mut member) in members.rows {
        member.membership = None;
        tx.put(&USERS, &id, &member)?;
    }
    tx.delete(&ORGS, &org)?;
    billing::leave_account(tx, org)?;
    tx.fence(org);
    Ok(())
}

pub(super) static KINDS: &[Personal] = &[Personal {
    name: "invitations",
    about: "Invitations to your address, and those that you sent, as far as they wait for an answer.",
    show: |tx, person, place| {
        let (found, next, _) = concerning(tx, person, place)?;
        Ok(Shown { rows: found.into_iter().map(|(_, _, row)| row).collect(), next })
    },
    // They name the person in their messages, or in themselves.
    erase: |tx, person, place| {
        let (found, next, left) = concerning(tx, person, place)?;
        let removed = found.len() as u64;
        for (org, id, _) in found {
            let invite = tx.org(org).require(&INVITES, &id)?;
            forget(tx, org, &invite)?;
        }
        Ok(Erased { removed, left, next })
    },
}];

type Concerning = (Vec<(OrgId, InviteId, Value)>, Option<Vec<u8>>, u64);

/// Invitations to or by the person among the next ones of all organizations, where the next step goes on, and how many could
/// not be read: they may concern the person.
fn concerning(tx: &SysRead<'_>, person: &Person, place: &[u8]) -> Result<Concerning> {
    let after = (!place.is_empty()).then_some(place);
    let step = tx.readable_all(&INVITES, after, INVITES_PER_STEP)?;
    let (next, left) = (step.next, step.passed_over);
    let found = step
        .rows
        .into_iter()
        .filter(|(org, _, _)| !tx.is_fenced(*org))
        .filter(|(_, _, invite)| {
            let is_to_them = invite.email == person.email && invite.created_at <= person.asked_at;
            is_to_them || invite.invited_by == person.id
        })
        .map(|(org, id, invite)| {
            let row = json!({
                "organizationId": org,
                "email": invite.email,
                "role": invite.role,
                "sentByYou": invite.invited_by == person.id,
                "createdAt": invite.created_at,
                "expiresAt": tx.date_of(invite.expires_at),
            });
            (org, id, row)
        });
    Ok((found.collect(), next, left))
}
