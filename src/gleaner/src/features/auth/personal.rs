//! What this slice holds on a person: shown in their export, erased with them.
//!
//! [`erase_account`] is what ends at once, in the transaction of the request.

use super::rows::{REFRESH_BY_USER, REFRESH_TOKENS, USERS, UserV1, VERIFICATIONS, VERIFICATIONS_BY_USER};
use super::{limits, networks, provider, reset};
use crate::features::{Erased, Person, Personal, Shown, mail};
use base::Result;
use serde_json::{Value, json};
use store::{Order, SysWrite};

/// More sessions or tokens of one kind than a person can have.
const ROWS_MAX: usize = 1_000;

pub(super) static KINDS: &[Personal] = &[
    Personal {
        name: "account",
        about: "Your account: address, name, and the organization you are a member of. Your password is kept as a hash.",
        show: |tx, person, _| Ok(Shown::all(tx.get(&USERS, &person.id)?.iter().map(account))),
        // Gone with the request.
        erase: |_, _, _| Ok(Erased::default()),
    },
    Personal {
        name: "sessions",
        about: "Your logins that have not ended: when they began, were last used, and will end.",
        show: |tx, person, _| {
            let rows =
                tx.scan_index(&REFRESH_TOKENS, &REFRESH_BY_USER, person.id, Order::Ascending, ROWS_MAX)?;
            Ok(Shown::all(rows.iter().map(|row| {
                json!({ "createdAt": row.created_at, "refreshedAt": row.refreshed_at, "expiresAt": tx.date_of(row.expires_at) })
            })))
        },
        // A login that was let in while the account went.
        erase: |tx, person, _| end_sessions(tx, person),
    },
    Personal {
        name: "login-failures",
        about: "When logins or password resets with your address failed or were asked for in the last 15 minutes.",
        show: |tx, person, _| {
            let times = limits::times_of(tx, &person.email)?;
            Ok(Shown::all(times.iter().map(|(what, at)| json!({ "what": what, "at": at }))))
        },
        erase: |tx, person, _| limits::forget(tx, person),
    },
    Personal {
        name: "login-networks",
        about: "When you last logged in from each of the networks from which you cannot be locked out. Of the network itself a hash is kept.",
        show: |tx, person, _| {
            let times = networks::times_of(tx, person.id)?;
            Ok(Shown::all(times.iter().map(|at| json!({ "lastLoginAt": at }))))
        },
        // A login that was let in while the account went.
        erase: |tx, person, _| Ok(Erased { removed: networks::forget(tx, person.id)?, ..Erased::default() }),
    },
    provider::KIND,
];

fn account(user: &UserV1) -> Value {
    json!({
        "id": user.id,
        "email": user.email,
        "name": user.name,
        "emailVerifiedAt": user.email_verified_at,
        "organizationId": user.membership.map(|(org, _)| org),
        "role": user.membership.map(|(_, role)| role),
        "createdAt": user.created_at,
    })
}

/// A session that cannot be read is good for nothing; it is counted all the same.
fn end_sessions(tx: &SysWrite<'_>, person: &Person) -> Result<Erased> {
    let of = person.id;
    let own = tx.readable_by(&REFRESH_TOKENS, &REFRESH_BY_USER, of, None, None, ROWS_MAX)?;
    let mut ended = Erased { left: own.passed_over, ..Erased::default() };
    for (family, _) in &own.rows {
        ended.removed += u64::from(tx.delete(&REFRESH_TOKENS, family)?);
    }
    Ok(ended)
}

/// Removes an account with its sessions, tokens and messages; whoever asks has ended the membership. Gives what was
/// removed by name. From this commit on no credential of the person is good.
pub fn erase_account(tx: &SysWrite<'_>, user: &UserV1) -> Result<Vec<(&'static str, u64)>> {
    let person = Person { id: user.id, email: user.email.clone(), org: None, asked_at: tx.now() };
    // What cannot be read is counted by the erasure behind this, which goes through all of it again.
    let sessions = end_sessions(tx, &person)?.removed;
    let mut tokens = 0;
    let of = user.id;
    let own = tx.readable_by(&VERIFICATIONS, &VERIFICATIONS_BY_USER, of, None, None, ROWS_MAX)?;
    for (token, _) in &own.rows {
        tokens += u64::from(tx.delete(&VERIFICATIONS, token)?);
    }
    tokens += reset::end_all(tx, &user.email)?;
    let messages = mail::erase_to(tx, &user.email)? as u64;
    let failures = limits::forget(tx, &person)?.removed;
    let networks = networks::forget(tx, user.id)?;
    let account = u64::from(tx.delete(&USERS, &user.id)?);
    Ok(vec![
        ("account", account),
        ("sessions", sessions),
        ("tokens", tokens),
        ("messages", messages),
        ("login-failures", failures),
        ("login-networks", networks),
    ])
}
