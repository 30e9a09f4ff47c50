//! What the operator of the box does with people.

use super::directory::{OrgEntryV1, list_orgs};
use super::email::Email;
use super::mail::{self, MailToken};
use super::password::NewPassword;
use super::provider;
use super::reset;
use super::rows::member_of;
use super::rows::{USERS, USERS_BY_EMAIL, USERS_BY_ORG, UserV1};
use super::service::Auth;
use crate::features::mail::{MailKind, link};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{OrgId, UserId};
use base::name::Name;
use base::permission::Role;
use base::similar::{did_you_mean, nearest};
use base::{Code, Error, Result};
use serde::Serialize;
use std::time::Duration;
use store::{Event, Order, SysRead, SysWrite, System};

/// People that are looked through for an address like the one that was typed, newest first.
const SEARCHED_ROWS_MAX: usize = 20_000;
const SEARCHED_CHUNK_ROWS: usize = 1_000;
/// Addresses or organizations that are named in the place of one that there is not.
const NAMED_MAX: usize = 3;

/// A person as the operator reads of them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserEntry {
    pub id: UserId,
    pub email: String,
    pub name: String,
    pub email_verified_at: Option<Timestamp>,
    pub org_id: Option<OrgId>,
    pub role: Option<Role>,
    pub created_at: Timestamp,
}

impl From<UserV1> for UserEntry {
    fn from(user: UserV1) -> UserEntry {
        UserEntry {
            id: user.id,
            email: user.email,
            name: user.name,
            email_verified_at: user.email_verified_at,
            org_id: user.membership.map(|(org, _)| org),
            role: user.membership.map(|(_, role)| role),
            created_at: user.created_at,
        }
    }
}

/// People, newest first: of an organization, or all.
pub fn list_users(tx: &SysRead<'_>, org: Option<OrgId>, limit: usize) -> Result<Vec<UserEntry>> {
    let rows = match org {
        Some(org) => tx.scan_index(&USERS, &USERS_BY_ORG, org, Order::Descending, limit)?,
        None => {
            let rows = tx.scan(&USERS, None, Order::Descending, limit)?;
            rows.into_iter().map(|(_, user)| user).collect()
        }
    };
    Ok(rows.into_iter().map(UserEntry::from).collect())
}

/// The account of an address; one that does not exist is refused with those that are like it.
fn find(tx: &SysRead<'_>, email: &str) -> Result<UserV1> {
    let email = Email::parse(email)?;
    if let Some(user) = tx.lookup(&USERS, &USERS_BY_EMAIL, email.as_str())? {
        return Ok(user);
    }
    let like = nearest(email.as_str(), addresses(tx)?, NAMED_MAX);
    let message = format!("User not found: nobody has the address {email}{}", did_you_mean(&like));
    Err(Error::not_found("User").message(message))
}

fn addresses(tx: &SysRead<'_>) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    let mut after: Option<UserId> = None;
    while all.len() < SEARCHED_ROWS_MAX {
        let chunk = tx.scan(&USERS, after.as_ref(), Order::Descending, SEARCHED_CHUNK_ROWS)?;
        after = chunk.last().map(|(id, _)| *id);
        let is_last = chunk.len() < SEARCHED_CHUNK_ROWS;
        all.extend(chunk.into_iter().map(|(_, user)| user.email));
        if is_last {
            break;
        }
    }
    Ok(all)
}

/// Marks an address as verified on the operator's word (`gleaner admin user verify`).
pub async fn verify_by_operator(system: &System, email: &str) -> Result<UserId> {
    let email = email.to_owned();
    system
        .write(move |tx| {
            let mut user = find(tx, &email)?;
            mail::mark_verified(tx, &mut user)?;
            let event = Event::new(Action::UserVerified).of(user.id).about(user.id);
            tx.audit_in(member_of(&user), event.with("by", "operator"))?;
            Ok(user.id)
        })
        .await
}

/// How long the link of an account that the operator made lives: as long as an invitation.
const FIRST_LINK_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// An account that the operator makes, with what it takes before the transaction.
pub struct NewAccount {
    email: Email,
    name: Name,
    password_hash: String,
    token: MailToken,
    public_url: String,
}

impl NewAccount {
    /// Hashes a password that nobody knows. Without a name the person is called by what stands before the @.
    pub async fn prepare(auth: &Auth, email: &str, name: Option<&str>) -> Result<NewAccount> {
        let email = Email::parse(email)?;
        let name = Name::parse("name", name.unwrap_or(email.local()))?;
        Ok(NewAccount {
            password_hash: auth.passwords.hash(NewPassword::nobodys()?).await?,
            token: auth.mail_token(MailKind::ResetPassword)?,
            public_url: auth.public_url().to_owned(),
            email,
            name,
        })
    }

    /// Makes the account, whoever else may register. Its address counts as verified on the operator's word, who passes the
    /// link on.
    pub fn create(&self, tx: &SysWrite<'_>) -> Result<(UserV1, ResetLink)> {
        let email = self.email.as_str();
        if tx.exists(&USERS_BY_EMAIL, email)? {
            return Err(Error::new(Code::AlreadyExists).message(format!(
                "{email} has an account already; `gleaner admin user reset-link {email}` gives a link to it"
            )));
        }
        let user = UserV1 {
            id: UserId::new(),
            email: email.to_owned(),
            name: self.name.as_str().to_owned(),
            password_hash: self.password_hash.clone(),
            email_verified_at: Some(tx.now()),
            membership: None,
            created_at: tx.now(),
            sessions_valid_from: tx.moment(),
        };
        tx.insert(&USERS, &user.id, &user)?;
        let row = reset::begin_afresh(tx, &user, &self.token, FIRST_LINK_TIME)?;
        tx.audit(Event::new(Action::UserRegistered).of(user.id).about(user.id).with("by", "operator"))?;
        let link = ResetLink {
            email: email.to_owned(),
            link: link(&self.public_url, "reset-password", self.token.as_str()),
            token: self.token.as_str().to_owned(),
            expires_at: tx.date_of(row.expires_at),
        };
        Ok((user, link))
    }
}

/// A link with which a person chooses a new password.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResetLink {
    pub email: String,
    pub link: String,
    /// What stands behind the # of the link, for `POST /auth/reset-password`.
    pub token: String,
    pub expires_at: Timestamp,
}

/// Makes such a link for the operator to pass on (`gleaner admin user reset-link`); earlier ones end, and nothing is sent.
/// `public_url` is the box's address without a slash at the end.
pub async fn reset_link_by_operator(auth: &Auth, public_url: &str, email: &str) -> Result<ResetLink> {
    let (email, token) = (email.to_owned(), auth.mail_token(MailKind::ResetPassword)?);
    let (link, bars) = (link(public_url, "reset-password", token.as_str()), auth.bars_password());
    auth.system()
        .write(move |tx| {
            let user = find(tx, &email)?;
            if bars && provider::bars(tx, &user)? {
                return Err(Error::conflict(format!(
                    "{email} signs in through the company's provider, and a password would not count. For a way in when the \
                     provider is away make an account of another address: `gleaner admin user create ADDRESS --org NAME --role owner`"
                )));
            }
            let row = reset::begin_afresh(tx, &user, &token, reset::RESET_TIME)?;
            let event = Event::new(Action::AuthResetLinkMade).of(user.id).about(user.id);
            tx.audit_in(member_of(&user), event)?;
            Ok(ResetLink {
                email: user.email,
                link,
                token: token.as_str().to_owned(),
                expires_at: tx.date_of(row.expires_at),
            })
        })
        .await
}

/// The organization of this id or name; letters' case does not count in a name. A refusal names what may have been meant.
pub fn find_org(tx: &SysRead<'_>, text: &str) -> Result<OrgEntryV1> {
    let text = text.trim();
    let all = list_orgs(tx)?;
    let id = text.parse::<OrgId>().ok();
    if let Some(entry) = all.iter().find(|entry| Some(entry.id) == id) {
        return Ok(entry.clone());
    }
    let name = text.to_lowercase();
    let mut named = all.iter().filter(|entry| entry.name.to_lowercase() == name);
    match (named.next(), named.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(first), Some(second)) => {
            let ids: Vec<String> =
                [first, second].into_iter().chain(named).map(|entry| entry.id.to_string()).collect();
            Err(Error::conflict(format!(
                "{} organizations are named \"{text}\"; give the id: {}",
                ids.len(),
                ids.join(", ")
            )))
        }
        (None, _) => {
            let like = nearest(text, all.into_iter().map(|entry| entry.name), NAMED_MAX);
            let like: Vec<String> = like.into_iter().map(|name| format!("\"{name}\"")).collect();
            let message = format!(
                "Organization not found: none has the id or the name \"{text}\"{}",
                did_you_mean(&like)
            );
            Err(Error::not_found("Organization").message(message))
        }
    }
}
