//! Links that carry their own credential: whoever has one can fetch one thing, for a short while.
//!
//! A token is `<key>.<content>.<signature>`, all of it safe in a path: the content says what kind of thing, which one, and
//! until when; the signature (HMAC-SHA256 under a key for links alone, see `keyring.rs`) covers it. Nothing is stored, so
//! a link ends by its time, or with the thing it leads to.

use crate::keyring::{KeyId, Keyring, Purpose};
use base::clock::Moment;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::sync::Arc;

/// Longer texts are not tokens of this box.
const TOKEN_BYTES_MAX: usize = 1024;

/// Makes and checks tokens.
pub struct Links {
    keyring: Arc<Keyring>,
}

/// What a good token leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    pub kind: String,
    pub subject: Vec<u8>,
}

impl Links {
    pub fn new(keyring: Arc<Keyring>) -> Links {
        Links { keyring }
    }

    /// A token for the thing `subject` of a kind, good until before `ends_at`.
    pub fn sign(&self, kind: &str, subject: &[u8], ends_at: Moment) -> String {
        let length = u8::try_from(kind.len()).expect("the kind of a link is a short literal");
        let content = [&ends_at.0.to_be_bytes(), [length].as_slice(), kind.as_bytes(), subject].concat();
        let (key, tag) = self.keyring.sign(Purpose::Link, &content);
        format!("{key}.{}.{}", URL_SAFE_NO_PAD.encode(content), URL_SAFE_NO_PAD.encode(tag))
    }

    /// What `token` leads to, if this box signed it and its time is not over.
    pub fn open(&self, token: &str, now: Moment) -> Option<LinkTarget> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let mut parts = token.split('.');
        let (key, content, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let content = URL_SAFE_NO_PAD.decode(content).ok().filter(|_| parts.next().is_none())?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        if !self.keyring.verify(Purpose::Link, KeyId::parse(key)?, &content, &tag) {
            return None;
        }
        let (ends_at, rest) = content.split_first_chunk::<8>()?;
        let (&length, rest) = rest.split_first()?;
        let (kind, subject) = rest.split_at_checked(usize::from(length))?;
        let target = LinkTarget { kind: String::from_utf8(kind.to_vec()).ok()?, subject: subject.to_vec() };
        (now < Moment(i64::from_be_bytes(*ends_at))).then_some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn links() -> Links {
        let folder = tempfile::tempdir().unwrap();
        Links::new(Arc::new(Keyring::load_or_create(&folder.path().join("keys.toml")).unwrap()))
    }

    #[test]
    fn a_token_leads_to_its_thing_until_its_time_is_over_and_nowhere_else() {
        let (links, now) = (links(), Moment(1_000_000));
        let ends_at = now.after(Duration::from_secs(60));
        let token = links.sign("export", b"subject", ends_at);
        let target = LinkTarget { kind: "export".to_owned(), subject: b"subject".to_vec() };
        assert_eq!(links.open(&token, now), Some(target.clone()));
        assert_eq!(links.open(&token, Moment(ends_at.0 - 1)), Some(target));
        assert_eq!(links.open(&token, ends_at), None);
        assert_eq!(self::links().open(&token, now), None, "another box");
        assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{token}");
        for at in 0..token.len() {
            let mut other = token.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).unwrap();
            // The last character of base64 may stand for bits that are not used; a decoder refuses those.
            assert_eq!(links.open(&other, now), None, "{at}: {other}");
        }
        for bad in ["", ".", "..", "a.b.c", &token[1..], &format!("{token}.x"), &"a".repeat(5_000)] {
            assert_eq!(links.open(bad, now), None, "{bad}");
        }
    }
}
