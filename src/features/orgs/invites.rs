//! Invitations: a message to an address with a token that is good once and for a week.
//!
//! Only the account of the address can accept, so a token that went astray lets nobody in; and whoever shows it has read
//! mail to the address, which is thereby verified. The token is in the message alone: not in an answer, and in the store
//! as a hash.

use super::members::{callers_role, owners_alone};
use super::{MEMBERS_PER_ORG_MAX, OrgLoginView};
use crate::base::clock::Timestamp;
use crate::base::ids::{InviteId, OrgId, UserId};
use crate::base::page::{Page, PageRequest};
use crate::base::permission::Role;
use crate::base::{Code, Error, Result};
use crate::features::auth::{
    Auth, Email, INVITES, INVITES_BY_EMAIL, INVITES_BY_END, InviteV1, MailKind, MailToken, NewLogin, NewMail,
    ORG, OrgView, USERS, USERS_BY_EMAIL, USERS_BY_ORG, UserV1, forget_mail, good_invite, mark_verified,
    permissions_of,
};
use crate::http::permit::{OrgRead, OrgWrite, Verified};
use crate::http::{Body, Browser, Created, NoContent, Org, Path};
use crate::store::{Order, SysWrite};
use crate::task::TaskContext;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long an invitation can be accepted.
const INVITE_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Invitations of one organization that wait.
const INVITES_PER_ORG_MAX: usize = 1_000;
const SWEEP_ROWS_MAX: usize = 256;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewInviteRequest {
    #[schemars(email)]
    email: String,
    role: Role,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AcceptInviteRequest {
    /// From the message.
    token: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InviteView {
    id: InviteId,
    email: String,
    role: Role,
    invited_by: UserId,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl From<InviteV1> for InviteView {
    fn from(row: InviteV1) -> InviteView {
        InviteView {
            id: row.id,
            email: row.email,
            role: row.role,
            invited_by: row.invited_by,
            created_at: row.created_at,
            expires_at: row.expires_at,
        }
    }
}

pub(super) async fn list(org: Org<OrgRead>, page: PageRequest) -> Result<Body<Page<InviteView>>> {
    let rows = org.read(|tx| tx.page(&INVITES, &page, |invite| invite.expires_at > tx.now()))?;
    Ok(Body(rows.map(InviteView::from)))
}

pub(super) async fn create(
    org: Org<Verified<OrgWrite>>,
    Body(request): Body<NewInviteRequest>,
) -> Result<Created<InviteView>> {
    let email = Email::parse(&request.email)?;
    let token = MailToken::generate(MailKind::Invite)?;
    let auth = org.service::<Auth>();
    let new = NewInvite {
        org: org.id(),
        invited_by: org.principal().user(),
        email,
        role: request.role,
        token,
        public_url: auth.public_url().to_owned(),
    };
    let row = auth.system().write(move |tx| new.send(tx)).await?;
    Ok(Created(row.into()))
}

pub(super) async fn delete(org: Org<OrgWrite>, Path(id): Path<InviteId>) -> Result<NoContent> {
    let own = org.id();
    org.service::<Auth>()
        .system()
        .write(move |tx| {
            let invite = tx.org(own).require(&INVITES, &id)?;
            forget(tx, own, &invite)
        })
        .await?;
    Ok(NoContent)
}

pub(super) async fn accept(
    caller: Browser,
    Body(request): Body<AcceptInviteRequest>,
) -> Result<Body<OrgLoginView>> {
    let auth = caller.service::<Auth>();
    let id = caller.principal().user();
    let login = NewLogin::prepare()?;
    let (organization, user, stored, login) = caller
        .system()
        .write(move |tx| {
            let (org, user) = join(tx, id, &request.token)?;
            let organization = OrgView::read(&tx.org(org))?;
            let stored = login.store(tx, &user)?;
            Ok((organization, user, stored, login))
        })
        .await?;
    Ok(Body(OrgLoginView {
        organization,
        tokens: auth.tokens(stored, &login).into(),
        permissions: permissions_of(&user).names(),
    }))
}

/// An invitation that is being sent.
struct NewInvite {
    org: OrgId,
    invited_by: UserId,
    email: Email,
    role: Role,
    token: MailToken,
    public_url: String,
}

impl NewInvite {
    fn send(self, tx: &SysWrite<'_>) -> Result<InviteV1> {
        owners_alone(callers_role(tx, self.org, self.invited_by)?, &[self.role])?;
        let invited = tx.lookup(&USERS, &USERS_BY_EMAIL, |key| key.str(self.email.as_str()))?;
        // Of an account elsewhere nothing is told: it may be invited, and sees itself that it cannot accept.
        if invited.and_then(|user| user.membership).is_some_and(|(org, _)| org == self.org) {
            return Err(Error::new(Code::AlreadyExists).title("Already a member of this organization"));
        }
        let own = tx.org(self.org);
        if let Some(earlier) = own.lookup(&INVITES, &INVITES_BY_EMAIL, |key| key.str(self.email.as_str()))? {
            forget(tx, self.org, &earlier)?;
        }
        if own.count(&INVITES, INVITES_PER_ORG_MAX)? >= INVITES_PER_ORG_MAX {
            return Err(Error::conflict(format!(
                "An organization has at most {INVITES_PER_ORG_MAX} invitations waiting; delete one first."
            )));
        }
        let row = InviteV1 {
            id: InviteId::new(),
            token: self.token.digest(),
            email: self.email.as_str().to_owned(),
            role: self.role,
            invited_by: self.invited_by,
            created_at: tx.now(),
            expires_at: tx.now().after(INVITE_TIME),
        };
        own.insert(&INVITES, &row.id, &row)?;
        let inviter = tx.require(&USERS, &self.invited_by)?.name;
        let name = own.require(&ORG, &())?.name;
        NewMail {
            about: row.id.into(),
            kind: MailKind::Invite,
            to: row.email.clone(),
            subject: format!("{inviter} invites you to {name}"),
            text: self.text(&inviter, &name),
        }
        .send(tx)?;
        Ok(row)
    }

    fn text(&self, inviter: &str, org: &str) -> String {
        format!(
            "Hello,\n\n\
             {inviter} invites you to join {org} at {url} as {role}. If you have no account there yet, register with \
             this address; the token below is the inviteToken, if one is asked for. Then log in, and accept within \
             seven days:\n\n\
             curl -X POST {url}/api/v1/invites/accept -H \"Authorization: Bearer $TOKEN\" \
             -H 'Content-Type: application/json' -d '{{\"token\":\"{token}\"}}'\n\n\
             If you do not know them, do nothing.\n",
            url = self.public_url,
            role = self.role,
            token = self.token.as_str(),
        )
    }
}

fn forget(tx: &SysWrite<'_>, org: OrgId, invite: &InviteV1) -> Result<()> {
    tx.org(org).delete(&INVITES, &invite.id)?;
    forget_mail(tx, invite.id, MailKind::Invite)
}

/// Makes the person a member of the organization that sent them `token`, which is used up.
fn join(tx: &SysWrite<'_>, id: UserId, token: &str) -> Result<(OrgId, UserV1)> {
    let mut user = tx.require(&USERS, &id)?;
    if user.membership.is_some() {
        return Err(Error::conflict("You are in an organization already; a user belongs to one."));
    }
    let invite = good_invite(tx, token)?;
    let (org, invite) =
        invite.ok_or_else(|| Error::invalid("token", "is not valid any more; ask for a new invitation"))?;
    if invite.email != user.email {
        return Err(Error::new(Code::AuthForbidden)
            .title("Invitation is for another address")
            .message("Log in with the account of the address that the invitation was sent to."));
    }
    let members =
        tx.scan_index(&USERS, &USERS_BY_ORG, |key| key.id(org), Order::Ascending, MEMBERS_PER_ORG_MAX)?;
    if members.len() >= MEMBERS_PER_ORG_MAX {
        return Err(Error::conflict(format!("An organization has at most {MEMBERS_PER_ORG_MAX} members.")));
    }
    forget(tx, org, &invite)?;
    user.membership = Some((org, invite.role));
    tx.put(&USERS, &id, &user)?;
    mark_verified(tx, &mut user)?;
    Ok((org, user))
}

/// Removes invitations that have expired, with their messages.
pub(super) async fn sweep(context: TaskContext) -> Result<()> {
    while context.system().write(sweep_some).await? == SWEEP_ROWS_MAX && !context.stopping() {}
    Ok(())
}

/// Removes a bounded number of rows; returns how many.
pub(super) fn sweep_some(tx: &SysWrite<'_>) -> Result<usize> {
    let mut swept = 0;
    for entry in tx.scan_global(&INVITES, &INVITES_BY_END, &[], None, SWEEP_ROWS_MAX)? {
        let invite = tx.org(entry.org).require(&INVITES, &entry.key)?;
        if invite.expires_at > tx.now() {
            break;
        }
        forget(tx, entry.org, &invite)?;
        swept += 1;
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::features::auth::{OrgV1, kept_mail};
    use crate::store::fault::FaultyDisk;
    use crate::store::{MIGRATIONS, Store};

    #[tokio::test]
    async fn expired_invitations_are_swept_with_their_messages() {
        let (disk, clock) = (FaultyDisk::new(), Clock::system());
        let store = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap();
        let (system, org, owner) = (store.system(), OrgId::new(), UserId::new());
        let invite = |email: &str| NewInvite {
            org,
            invited_by: owner,
            email: Email::parse(email).unwrap(),
            role: Role::Viewer,
            token: MailToken::generate(MailKind::Invite).unwrap(),
            public_url: "http://box.test".to_owned(),
        };
        let (first, second) = (invite("eve@example.com"), invite("bob@example.com"));
        system
            .write(move |tx| {
                let user = UserV1 {
                    id: owner,
                    email: "ada@example.com".to_owned(),
                    name: "Ada".to_owned(),
                    password_hash: String::new(),
                    email_verified_at: None,
                    membership: Some((org, Role::Owner)),
                    created_at: tx.now(),
                    sessions_valid_from: tx.now(),
                };
                tx.put(&USERS, &owner, &user)?;
                let row = OrgV1 { id: org, name: "Acme".to_owned(), created_at: tx.now() };
                tx.org(org).put(&ORG, &(), &row)?;
                first.send(tx)
            })
            .await
            .unwrap();
        clock.advance(INVITE_TIME - Duration::from_secs(60));
        system.write(move |tx| second.send(tx)).await.unwrap();
        let left = || {
            let mails: Vec<_> =
                system.read(|tx| kept_mail(tx, 10)).unwrap().into_iter().map(|mail| mail.to).collect();
            (system.org(org).read(|tx| tx.count(&INVITES, 10)).unwrap(), mails)
        };
        assert_eq!(system.write(sweep_some).await.unwrap(), 0);
        assert_eq!(left().0, 2);
        clock.advance(Duration::from_secs(60));
        assert_eq!(system.write(sweep_some).await.unwrap(), 1);
        assert_eq!(left(), (1, vec!["bob@example.com".to_owned()]));
    }
}
