//! The tokens of links, as messages keep them: sealed with the box's key, so that a copy of the data folder opens no account.
//!
//! A text has [`TOKEN_PLACE`] where its token belongs; the token is put there when the message goes out and when the operator
//! reads it. A person who calls themselves like the place gets the token of their own message into their name.

use super::rows::{MAIL, MailState, MailV3, SealedTokenV1};
use base::ids::MailId;
use base::{Error, Result};
use secrets::keyring::{Keyring, SealContext};
use secrets::{Digest, sha256};
use store::{SysWrite, System};

/// What stands in a text where its token belongs.
pub const TOKEN_PLACE: &str = "gl-token-goes-here";
/// How tokens begin: of verifications, of new passwords, of invitations.
const PREFIXES: [&str; 3] = ["glv_", "glp_", "gli_"];
/// Characters of a token behind that.
const TOKEN_CHARS: usize = 43;
const SEALED_AT_ONCE: usize = 256;

fn place(digest: &Digest) -> SealContext<'_> {
    SealContext { org: &[], table: MAIL.name(), id: digest, field: "token" }
}

/// Seals a token for the row of its message.
pub fn seal(keyring: &Keyring, token: &str) -> Result<SealedTokenV1> {
    let digest = sha256(token.as_bytes());
    let sealed = keyring.seal(&place(&digest), token.as_bytes());
    let sealed = sealed.map_err(|e| Error::internal("seal a token", e))?;
    Ok(SealedTokenV1 { digest, sealed })
}

/// The message with its token in its place.
pub fn open(keyring: &Keyring, mut mail: MailV3) -> Result<MailV3> {
    let Some(token) = &mail.token else { return Ok(mail) };
    let opened = keyring.open(&place(&token.digest), &token.sealed);
    let opened = opened.map_err(|e| Error::internal("open a message's token", e))?;
    let text = String::from_utf8(opened).map_err(|e| Error::internal("read a message's token", e))?;
    for part in [&mut mail.subject, &mut mail.text, &mut mail.html] {
        *part = part.replace(TOKEN_PLACE, &text);
    }
    Ok(mail)
}

/// Seals the tokens of messages that an earlier release has written. Done at each start, for it takes no time once it is done.
/// A message that cannot be read keeps nobody from starting.
pub async fn seal_old(system: &System, keyring: &Keyring) -> Result<()> {
    let mut after = None;
    loop {
        let step = system.read(|tx| tx.readable(&MAIL, after.as_deref(), SEALED_AT_ONCE))?;
        let Some(next) = step.next else { return Ok(()) };
        after = Some(next);
        let mut old = Vec::new();
        for (id, mail) in step.rows {
            if mail.token.is_none()
                && mail.state != MailState::Sent
                && let Some(token) = find(&mail.text)
            {
                old.push((id, token.to_owned(), seal(keyring, token)?));
            }
        }
        if !old.is_empty() {
            system.write(move |tx| old.into_iter().try_for_each(|one| replace(tx, one))).await?;
        }
    }
}

fn replace(tx: &SysWrite<'_>, (id, token, sealed): (MailId, String, SealedTokenV1)) -> Result<()> {
    let Some(mut mail) = tx.get(&MAIL, &id)? else { return Ok(()) };
    for part in [&mut mail.subject, &mut mail.text, &mut mail.html] {
        *part = part.replace(&token, TOKEN_PLACE);
    }
    mail.token = Some(sealed);
    tx.put(&MAIL, &id, &mail)
}

/// The first token that stands in a text.
fn find(text: &str) -> Option<&str> {
    let begin = PREFIXES.iter().filter_map(|prefix| text.find(&format!("#{prefix}"))).min()? + 1;
    let rest = &text[begin..];
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(rest.len());
    (end == PREFIXES[0].len() + TOKEN_CHARS).then(|| &rest[..end])
}
