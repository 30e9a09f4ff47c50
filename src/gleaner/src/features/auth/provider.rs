//! Accounts of the company's provider, as far as they are people here: whom one lets in, and what becomes of their password.
//!
//! A person whom the provider lets in has no password that counts, nor can they get one by mail: who has left the company would
//! come in by it. Owners are excepted, so that there is a way in when the provider is away.

use super::rows::{
    PROVIDER_ACCOUNTS, PROVIDER_ACCOUNTS_BY_USER, ProviderAccountV1, USERS, UserV1, member_of,
};
use super::{mail, session};
use crate::features::{Erased, Personal, Shown};
use base::Result;
use base::audit::Action;
use base::ids::UserId;
use base::permission::Role;
use secrets::{Digest, sha256};
use serde_json::json;
use store::{Event, SysRead, SysWrite};

/// Both names under one hash; the length keeps them apart.
fn digest(what: &str, issuer: &str, name: &str) -> Digest {
    sha256(format!("{what}:{}:{issuer}:{name}", issuer.len()).as_bytes())
}

/// By what the logins of one session at a provider are found.
pub fn session_of(issuer: &str, session: &str) -> Digest {
    digest("session", issuer, session)
}

/// Whether a password of this person's counts for nothing.
pub(super) fn bars(tx: &SysRead<'_>, user: &UserV1) -> Result<bool> {
    let is_owner = matches!(user.membership, Some((_, Role::Owner)));
    Ok(!is_owner && tx.exists(&PROVIDER_ACCOUNTS_BY_USER, user.id)?)
}

/// The person whom an account of the provider's lets in, if they have been here before and have not erased their account.
pub fn known(tx: &SysRead<'_>, issuer: &str, subject: &str) -> Result<Option<UserV1>> {
    let account = tx.get(&PROVIDER_ACCOUNTS, &digest("account", issuer, subject))?;
    account.map_or(Ok(None), |account| tx.get(&USERS, &account.user))
}

/// The provider an account of which lets this person in, if there is one.
pub fn joined_issuer(tx: &SysRead<'_>, user: UserId) -> Result<Option<String>> {
    let row = tx.lookup(&PROVIDER_ACCOUNTS, &PROVIDER_ACCOUNTS_BY_USER, user)?;
    Ok(row.map(|row| row.issuer))
}

/// From now on this account of the provider's lets in `user`, whose address it vouches for. If nobody had shown before that the
/// address is theirs, whoever registered it may have been somebody else: their password and sessions end.
pub fn join(
    tx: &SysWrite<'_>,
    user: &mut UserV1,
    issuer: &str,
    subject: &str,
    nobodys_password: String,
) -> Result<()> {
    if user.email_verified_at.is_none() {
        user.password_hash = nobodys_password;
        session::end_all(tx, user)?;
        mail::mark_verified(tx, user)?;
        tx.put(&USERS, &user.id, user)?;
    }
    // Of a provider that the box had before this one.
    if let Some(former) = tx.lookup(&PROVIDER_ACCOUNTS, &PROVIDER_ACCOUNTS_BY_USER, user.id)? {
        tx.delete(&PROVIDER_ACCOUNTS, &former.key)?;
    }
    let row = ProviderAccountV1 {
        key: digest("account", issuer, subject),
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
        user: user.id,
        joined_at: tx.now(),
        signed_in_at: tx.now(),
    };
    tx.put(&PROVIDER_ACCOUNTS, &row.key, &row)?;
    tx.audit_in(member_of(user), Event::new(Action::AuthProviderJoined).of(user.id).by(user.id))
}

/// The person has come by it again.
pub fn note_sign_in(tx: &SysWrite<'_>, issuer: &str, subject: &str) -> Result<()> {
    let key = digest("account", issuer, subject);
    let Some(row) = tx.get(&PROVIDER_ACCOUNTS, &key)? else { return Ok(()) };
    tx.put(&PROVIDER_ACCOUNTS, &key, &ProviderAccountV1 { signed_in_at: tx.now(), ..row })
}

/// Ends every login of a person, as the provider wants it.
pub fn end_sessions(tx: &SysWrite<'_>, user: &mut UserV1) -> Result<()> {
    session::end_all(tx, user)?;
    tx.put(&USERS, &user.id, user)
}

/// Ends what the provider says has ended: the logins of one of its sessions, or all of a person's. Gives how many people that
/// concerned.
pub fn end_by_provider(
    tx: &SysWrite<'_>,
    issuer: &str,
    subject: Option<&str>,
    session: Option<&str>,
) -> Result<usize> {
    let ended = match (session, subject) {
        (Some(session), _) => session::finish_all_of(tx, session_of(issuer, session))?,
        (None, Some(subject)) => match known(tx, issuer, subject)? {
            Some(mut user) => {
                end_sessions(tx, &mut user)?;
                vec![user.id]
            }
            None => Vec::new(),
        },
        (None, None) => Vec::new(),
    };
    for id in &ended {
        let org = tx.get(&USERS, id)?.as_ref().and_then(member_of);
        tx.audit_in(org, Event::new(Action::AuthLogout).of(*id).about(*id).with("by", "provider"))?;
    }
    if ended.is_empty() {
        tx.unaudited("nobody was logged in by that session");
    }
    Ok(ended.len())
}

pub(super) const KIND: Personal = Personal {
    name: "provider-accounts",
    about: "The account at your company's provider that lets you in: the provider, your name there, and when you came by it.",
    show: |tx, person, _| {
        let row = tx.lookup(&PROVIDER_ACCOUNTS, &PROVIDER_ACCOUNTS_BY_USER, person.id)?;
        Ok(Shown::all(row.iter().map(|row| {
            json!({
                "issuer": row.issuer,
                "subject": row.subject,
                "joinedAt": row.joined_at,
                "signedInAt": row.signed_in_at,
            })
        })))
    },
    erase: |tx, person, _| {
        let row = tx.lookup(&PROVIDER_ACCOUNTS, &PROVIDER_ACCOUNTS_BY_USER, person.id)?;
        let Some(row) = row else { return Ok(Erased::default()) };
        tx.delete(&PROVIDER_ACCOUNTS, &row.key)?;
        Ok(Erased { removed: 1, ..Erased::default() })
    },
};
