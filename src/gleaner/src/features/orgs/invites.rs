//! Invitations: a message to an address with a token that is good once and for a week.
//!
//! Only the account of the address can accept, so a token that went astray lets nobody in; and whoever shows it has read
//! mail to the address, which is thereby verified. The token is in the message alone: not in an answer, and in the store
//! as a hash.
//!
//! Each is a message to somebody who did not ask for it, so an organization sends a bounded number a day, counted whether
//! or not the invitation is taken back.

use super::roles::Caller;
use super::{MEMBERS_PER_ORG_MAX, OrgLoginView, Orgs};
use crate::features::auth::{
    Auth, Email, INVITES, INVITES_BY_EMAIL, INVITES_BY_END, InviteV1, MailToken, NewLogin, ORG, OrgView,
    USERS, USERS_BY_EMAIL, USERS_BY_ORG, UserV1, good_invite, inviter_stands, mark_verified, permissions_of,
};
use crate::features::mail::{self, Letter, MailKind, NewMail};
use base::audit::Action;
use base::clock::{Moment, Now, Timestamp};
use base::codec::Record;
use base::ids::{InviteId, OrgId, UserId};
use base::page::{Page, PageRequest};
use base::permission::Role;
use base::{Code, Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{self, OrgRead, Verified};
use server::task::TaskContext;
use server::{Body, Browser, Created, NoContent, Org, Path};
use std::time::Duration;
use store::{Event, Order, OrgTable, OrgWrite, SysWrite, System};
use uuid::Uuid;

/// How long an invitation can be accepted.
const INVITE_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Invitations of one organization that wait.
const INVITES_PER_ORG_MAX: usize = 1_000;
const SWEEP_ROWS_MAX: usize = 256;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// How many invitations an organization has sent on one day.
#[derive(Clone, Serialize, Deserialize)]
pub struct InvitesSentV1 {
    /// Days since 1970-01-01 UTC.
    day: i64,
    sent: u32,
}

impl Record for InvitesSentV1 {}

/// The organization's only row of this table.
pub(super) static INVITES_SENT: OrgTable<(), InvitesSentV1> =
    OrgTable::new("invites_sent", "Invite").uncounted();

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

impl InviteView {
    fn new(row: InviteV1, now: &Now) -> InviteView {
        InviteView {
            id: row.id,
            email: row.email,
            role: row.role,
            invited_by: row.invited_by,
            created_at: row.created_at,
            expires_at: now.date_of(row.expires_at),
        }
    }
}

pub(super) async fn list(org: Org<OrgRead>, page: PageRequest) -> Result<Body<Page<InviteView>>> {
    let rows = org.read(|tx| tx.page(&INVITES, &page, |invite| invite.expires_at > tx.moment()))?;
    let now = org.look();
    Ok(Body(rows.map(|row| InviteView::new(row, &now))))
}

pub(super) async fn create(
    org: Org<Verified<permit::OrgWrite>>,
    Body(request): Body<NewInviteRequest>,
) -> Result<Created<InviteView>> {
    let email = Email::parse(&request.email)?;
    let (auth, orgs) = (org.service::<Auth>(), org.service::<Orgs>());
    let token = auth.mail_token(MailKind::Invite)?;
    let new = NewInvite {
        org: org.id(),
        by: Caller::of(org.principal()),
        email,
        role: request.role,
        token,
        public_url: auth.public_url().to_owned(),
        takes_new: auth.takes_invited(),
        per_day_max: orgs.invites_per_day,
    };
    let row = auth.system().write(move |tx| new.send(tx)).await?;
    Ok(Created(InviteView::new(row, &org.look())))
}

pub(super) async fn delete(org: Org<permit::OrgWrite>, Path(id): Path<InviteId>) -> Result<NoContent> {
    let own = org.id();
    org.service::<Auth>()
        .system()
        .write(move |tx| {
            let invite = tx.org(own).require(&INVITES, &id)?;
            forget(tx, own, &invite)?;
            tx.org(own).audit(Event::new(Action::InviteDeleted).of(id))
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
    by: Caller,
    email: Email,
    role: Role,
    token: MailToken,
    public_url: String,
    /// Whether who has no account can make one with the invitation.
    takes_new: bool,
    per_day_max: u32,
}

impl NewInvite {
    fn send(self, tx: &SysWrite<'_>) -> Result<InviteV1> {
        self.by.may_change(tx, self.org, None, Some(self.role))?;
        let invited = tx.lookup(&USERS, &USERS_BY_EMAIL, self.email.as_str())?;
        // Of an account elsewhere nothing is told: it may be invited, and sees itself that it cannot accept.
        if invited.and_then(|user| user.membership).is_some_and(|(org, _)| org == self.org) {
            return Err(Error::new(Code::AlreadyExists).title("Already a member of this organization"));
        }
        let own = tx.org(self.org);
        if let Some(earlier) = own.lookup(&INVITES, &INVITES_BY_EMAIL, self.email.as_str())? {
            forget(tx, self.org, &earlier)?;
        }
        if own.count(&INVITES, INVITES_PER_ORG_MAX)? >= INVITES_PER_ORG_MAX {
            return Err(Error::conflict(format!(
                "An organization has at most {INVITES_PER_ORG_MAX} invitations waiting; delete one first."
            )));
        }
        count(&own, self.per_day_max)?;
        let row = InviteV1 {
            id: InviteId::new(),
            token: self.token.digest(),
            email: self.email.as_str().to_owned(),
            role: self.role,
            invited_by: self.by.user,
            created_at: tx.now(),
            expires_at: tx.moment().after(INVITE_TIME),
        };
        own.insert(&INVITES, &row.id, &row)?;
        let inviter = tx.require(&USERS, &self.by.user)?;
        NewMail {
            about: row.id.into(),
            org: Some(self.org),
            to: &row.email,
            letter: Letter::Invite {
                inviter: &inviter.name,
                inviter_email: &inviter.email,
                org: &own.require(&ORG, &())?.name,
                role: self.role.name(),
                url: &self.public_url,
                takes_new: self.takes_new,
            },
            token: self.token.sealed(),
            good_until: Some(row.expires_at),
        }
        .send(tx)?;
        let event = Event::new(Action::InviteCreated).of(row.id).with("role", row.role.name());
        own.audit(event.personal("email", row.email.clone()))?;
        Ok(row)
    }
}

/// Counts an invitation of today (UTC, by the box's own time: who sets the clock gets no day for it); 429 when the organization has sent as many as it may.
fn count(own: &OrgWrite<'_>, per_day_max: u32) -> Result<()> {
    let today = own.moment().millis().div_euclid(DAY_MS);
    let sent = own.get(&INVITES_SENT, &())?.filter(|row| row.day == today).map_or(0, |row| row.sent);
    if sent >= per_day_max {
        let midnight = Moment((today + 1) * DAY_MS);
        let wait = midnight.since(own.moment()).as_millis().div_ceil(1000);
        return Err(Error::new(Code::RateLimited)
            .title("Too many invitations")
            .message(format!(
                "auth.invites_per_day: limit {per_day_max}, today {sent}. The count begins anew when the box's own day (UTC) is \
                 over: see Retry-After."
            ))
            .header("retry-after", wait.to_string()));
    }
    own.put(&INVITES_SENT, &(), &InvitesSentV1 { day: today, sent: sent + 1 })
}

pub(super) fn forget(tx: &SysWrite<'_>, org: OrgId, invite: &InviteV1) -> Result<()> {
    tx.org(org).delete(&INVITES, &invite.id)?;
    mail::forget(tx, invite.id, MailKind::Invite)
}

/// Ends the invitations of somebody who could not make them (any more) as they are now: who is out of the organization, is no
/// administrator, or no owner where an owner was invited. Gives how many.
pub(super) fn end_of(tx: &SysWrite<'_>, org: OrgId, inviter: UserId) -> Result<usize> {
    let own = tx.org(org);
    let mut ended = 0;
    for (_, invite) in own.readable(&INVITES, None, INVITES_PER_ORG_MAX)?.rows {
        if invite.invited_by == inviter && !inviter_stands(tx, org, &invite)? {
            forget(tx, org, &invite)?;
            ended += 1;
        }
    }
    Ok(ended)
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
    let members = tx.scan_index(&USERS, &USERS_BY_ORG, org, Order::Ascending, MEMBERS_PER_ORG_MAX)?;
    if members.len() >= MEMBERS_PER_ORG_MAX {
        return Err(Error::conflict(format!("An organization has at most {MEMBERS_PER_ORG_MAX} members.")));
    }
    forget(tx, org, &invite)?;
    user.membership = Some((org, invite.role));
    tx.put(&USERS, &id, &user)?;
    mark_verified(tx, &mut user)?;
    let event = Event::new(Action::MemberJoined).of(id).with("role", invite.role.name());
    tx.org(org).audit(event.with("inviteId", Uuid::from(invite.id)))?;
    Ok((org, user))
}

/// Removes invitations that have expired, with their messages.
pub(super) async fn sweep(context: TaskContext) -> Result<()> {
    sweep_all(context.system(), || context.stopping()).await.map(drop)
}

/// The same, a bounded number of rows a write; gives how many invitations went.
pub(super) async fn sweep_all(system: &System, stopping: impl Fn() -> bool) -> Result<usize> {
    let (now, mut after, mut swept) = (system.clock().moment(), None::<Vec<u8>>, 0);
    loop {
        let ended = system.read(|tx| {
            tx.readable_global(&INVITES, &INVITES_BY_END, Some(now), after.as_deref(), SWEEP_ROWS_MAX)
        })?;
        after = ended.more();
        let over = ended.rows.into_iter().map(|(org, id, _)| (org, id)).collect();
        let forgotten = system.write_each_freeing("an invitation", over, move |tx, (org, id)| {
            // It may have been accepted meanwhile.
            let invite = tx.org(*org).get(&INVITES, id)?.filter(|invite| invite.expires_at <= now);
            invite.as_ref().map(|invite| forget(tx, *org, invite)).transpose()
        });
        swept += forgotten.await?.into_iter().flatten().flatten().count();
        if after.is_none() || stopping() {
            return Ok(swept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::auth::OrgV1;
    use crate::features::mail::MAIL;
    use base::clock::Clock;
    use secrets::keyring::Keyring;
    use store::fault::FaultyDisk;
    use store::{MIGRATIONS, Store};

    #[tokio::test]
    async fn expired_invitations_are_swept_with_their_messages() {
        let (disk, clock) = (FaultyDisk::new(), Clock::system());
        let store = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let keyring = Keyring::load_or_create(&folder.path().join("keys.toml")).unwrap();
        let (system, org, owner) = (store.system(), OrgId::new(), UserId::new());
        let invite = |email: &str| NewInvite {
            org,
            by: Caller { user: owner, permissions: Role::Owner.permissions(), is_person: true },
            email: Email::parse(email).unwrap(),
            role: Role::Viewer,
            token: MailToken::generate(MailKind::Invite, &keyring).unwrap(),
            public_url: "http://box.test".to_owned(),
            takes_new: true,
            per_day_max: 2,
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
                    sessions_valid_from: tx.moment(),
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
            let mails = system.read(|tx| tx.scan(&MAIL, None, Order::Descending, 10)).unwrap();
            let mails: Vec<_> = mails.into_iter().map(|(_, mail)| mail.to).collect();
            (system.org(org).read(|tx| tx.count(&INVITES, 10)).unwrap(), mails)
        };
        assert_eq!(sweep_all(&system, || false).await.unwrap(), 0);
        assert_eq!(left().0, 2);
        clock.advance(Duration::from_secs(60));
        assert_eq!(sweep_all(&system, || false).await.unwrap(), 1);
        assert_eq!(left(), (1, vec!["bob@example.com".to_owned()]));
    }
}
