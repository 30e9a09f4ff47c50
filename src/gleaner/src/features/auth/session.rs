//! Refresh tokens: a login is a family of tokens, each good once, the newest for seven days.
//!
//! A token is the family's random id and a random secret. The family is one row that knows the newest secret only. A
//! token that names a living family with another secret is therefore an older one of it, used a second time (nobody else
//! ever saw the id): either the thief or the robbed comes second, so the whole family ends (RFC 9700, 4.14.2). One row
//! per login, however often it was refreshed.

use super::networks;
use super::rows::{
    ProviderLoginV1, REFRESH_BY_PROVIDER, REFRESH_BY_USER, REFRESH_TOKENS, RefreshFamilyV2, USERS, UserV1,
};
use base::clock::Moment;
use base::ids::{SessionId, UserId};
use base::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrets::{Digest, random_bytes, sha256};
use std::time::Duration;
use store::{Order, SysRead, SysWrite};
use uuid::Uuid;

/// How long a refresh token lives (data/docs/api.md, "People, organizations and keys").
pub const REFRESH_TOKEN_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Logins of one person at a time; one more ends the one that would end first.
const SESSIONS_PER_USER_MAX: usize = 100;
const PREFIX: &str = "glr_";

/// A refresh token in the clear, on its way out or in.
pub struct RefreshToken {
    family: Uuid,
    secret: [u8; 32],
}

impl RefreshToken {
    /// The first token of a new family.
    pub fn generate() -> Result<RefreshToken> {
        RefreshToken::in_family(Uuid::new_v4())
    }

    fn in_family(family: Uuid) -> Result<RefreshToken> {
        let secret = random_bytes().map_err(|e| Error::internal("make a refresh token", e))?;
        Ok(RefreshToken { family, secret })
    }

    /// The token that replaces this one.
    pub fn successor(&self) -> Result<RefreshToken> {
        RefreshToken::in_family(self.family)
    }

    pub fn family(&self) -> Uuid {
        self.family
    }

    pub fn parse(text: &str) -> Option<RefreshToken> {
        let bytes =
            URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX).filter(|rest| rest.len() == 64)?).ok()?;
        let (family, secret) = bytes.split_first_chunk::<16>()?;
        Some(RefreshToken { family: Uuid::from_bytes(*family), secret: secret.try_into().ok()? })
    }

    pub fn text(&self) -> String {
        let bytes = [self.family.as_bytes().as_slice(), &self.secret].concat();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    fn digest(&self) -> Digest {
        sha256(&self.secret)
    }
}

/// Begins a login of `user` whose first token is `token`; one through the company's provider ends when that says.
pub fn start(
    tx: &SysWrite<'_>,
    user: UserId,
    token: &RefreshToken,
    provider: Option<ProviderLoginV1>,
) -> Result<()> {
    let rows =
        tx.scan_index(&REFRESH_TOKENS, &REFRESH_BY_USER, user, Order::Ascending, SESSIONS_PER_USER_MAX)?;
    if let (SESSIONS_PER_USER_MAX, Some(first)) = (rows.len(), rows.first()) {
        tx.delete(&REFRESH_TOKENS, &first.family)?;
    }
    let row = RefreshFamilyV2 {
        family: token.family,
        user,
        secret: token.digest(),
        created_at: tx.now(),
        refreshed_at: tx.now(),
        expires_at: end(tx, provider),
        provider,
    };
    tx.insert(&REFRESH_TOKENS, &row.family, &row)
}

/// Until when the newest token of a login is good.
fn end(tx: &SysRead<'_>, provider: Option<ProviderLoginV1>) -> Moment {
    let usual = tx.moment().after(REFRESH_TOKEN_TIME);
    provider.map_or(usual, |login| usual.min(login.ends_at))
}

/// What became of a refresh token that was shown.
pub enum Refreshed {
    /// It was good and is used up; the successor is good now.
    Rotated(UserV1),
    /// It was used before: its family has ended.
    Reused(UserId),
    /// No such login, or it is over.
    Unknown,
}

/// Replaces `shown` by `next`, of the same family.
pub fn rotate(tx: &SysWrite<'_>, shown: &RefreshToken, next: &RefreshToken) -> Result<Refreshed> {
    let Some(mut row) = tx.get(&REFRESH_TOKENS, &shown.family)? else { return Ok(Refreshed::Unknown) };
    if row.expires_at <= tx.moment() {
        tx.delete(&REFRESH_TOKENS, &row.family)?;
        return Ok(Refreshed::Unknown);
    }
    if row.secret != shown.digest() {
        tx.delete(&REFRESH_TOKENS, &row.family)?;
        return Ok(Refreshed::Reused(row.user));
    }
    let Some(user) = tx.get(&USERS, &row.user)? else {
        tx.delete(&REFRESH_TOKENS, &row.family)?;
        return Ok(Refreshed::Unknown);
    };
    row.secret = next.digest();
    row.refreshed_at = tx.now();
    row.expires_at = end(tx, row.provider);
    tx.put(&REFRESH_TOKENS, &row.family, &row)?;
    Ok(Refreshed::Rotated(user))
}

/// The login whose newest token is `shown`, which is not used up by that.
pub fn find(tx: &SysRead<'_>, shown: &RefreshToken) -> Result<Option<RefreshFamilyV2>> {
    let row = tx.get(&REFRESH_TOKENS, &shown.family)?;
    Ok(row.filter(|row| row.expires_at > tx.moment() && row.secret == shown.digest()))
}

/// Ends the login that `shown` belongs to, also when it is an older token of it. Gives the login that it was.
pub fn finish(tx: &SysWrite<'_>, shown: &RefreshToken) -> Result<Option<RefreshFamilyV2>> {
    let row = tx.get(&REFRESH_TOKENS, &shown.family)?;
    if row.is_some() {
        tx.delete(&REFRESH_TOKENS, &shown.family)?;
    }
    Ok(row)
}

/// Ends the logins through one session at the provider; gives whose they were, each once.
pub fn finish_all_of(tx: &SysWrite<'_>, session: Digest) -> Result<Vec<UserId>> {
    let all = tx.scan_index(
        &REFRESH_TOKENS,
        &REFRESH_BY_PROVIDER,
        session,
        Order::Ascending,
        SESSIONS_PER_USER_MAX,
    )?;
    let mut users = Vec::new();
    for row in all {
        tx.delete(&REFRESH_TOKENS, &row.family)?;
        if !users.contains(&row.user) {
            users.push(row.user);
        }
    }
    Ok(users)
}

/// Ends every login of a person and refuses every access token that was issued to them so far; and nobody's network is theirs
/// any more, for whoever had a login had made his own one of them. The caller stores `user`.
pub fn end_all(tx: &SysWrite<'_>, user: &mut UserV1) -> Result<()> {
    let all =
        tx.scan_index(&REFRESH_TOKENS, &REFRESH_BY_USER, user.id, Order::Ascending, SESSIONS_PER_USER_MAX)?;
    for row in all {
        tx.delete(&REFRESH_TOKENS, &row.family)?;
    }
    networks::forget(tx, user.id)?;
    // A millisecond on, because a token of this very moment is good from this moment on.
    user.sessions_valid_from = tx.moment().max(user.sessions_valid_from).after(Duration::from_millis(1));
    Ok(())
}

/// The logins of a person that have not ended, the newest first.
pub fn all_of(tx: &SysRead<'_>, user: UserId) -> Result<Vec<RefreshFamilyV2>> {
    let mut rows =
        tx.scan_index(&REFRESH_TOKENS, &REFRESH_BY_USER, user, Order::Ascending, SESSIONS_PER_USER_MAX)?;
    rows.retain(|row| row.expires_at > tx.moment());
    rows.sort_by_key(|row| std::cmp::Reverse(row.created_at));
    Ok(rows)
}

/// Ends one login of a person, whose access tokens end with it; `not_found` where it is over, or another's.
pub fn finish_one(tx: &SysWrite<'_>, user: UserId, session: SessionId) -> Result<()> {
    let row = tx.get(&REFRESH_TOKENS, &session.0)?;
    let is_theirs = row.is_some_and(|row| row.user == user && row.expires_at > tx.moment());
    if !is_theirs {
        return Err(Error::not_found("Session"));
    }
    tx.delete(&REFRESH_TOKENS, &session.0)?;
    Ok(())
}

/// As [`end_all`], but the login `kept` goes on, by its refresh token. Gives how many others have ended.
pub fn end_others(tx: &SysWrite<'_>, user: &mut UserV1, kept: Option<SessionId>) -> Result<usize> {
    let all = all_of(tx, user.id)?;
    let (own, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|row| Some(SessionId(row.family)) == kept);
    end_all(tx, user)?;
    for row in own {
        tx.insert(&REFRESH_TOKENS, &row.family, &row)?;
    }
    Ok(others.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_nothing_else_is() {
        let token = RefreshToken::generate().unwrap();
        let text = token.text();
        let read = RefreshToken::parse(&text).unwrap();
        assert!(read.family == token.family && read.secret == token.secret);
        for bad in ["", "glr_", &text[1..], &text[..60], &format!("{text}A"), &text.replace("glr_", "glv_")] {
            assert!(RefreshToken::parse(bad).is_none(), "{bad}");
        }
        assert_ne!(token.successor().unwrap().text(), text);
        assert_eq!(token.successor().unwrap().family, token.family);
    }
}
