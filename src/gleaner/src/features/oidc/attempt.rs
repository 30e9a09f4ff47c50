//! A sign-in that was begun: what its answer is bound to lies sealed in a cookie of the browser that began it, and nowhere in the
//! box, so that nobody can fill it with sign-ins that never come back. It is good once, for ten minutes.

use base::clock::Moment;
use base::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oidc::Attempt;
use parking_lot::Mutex;
use secrets::keyring::{Keyring, SealContext};
use secrets::{Digest, random_bytes, sha256};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;

/// The cookie.
pub const COOKIE: &str = "gleaner_signin";
/// How long somebody may take at the provider.
pub const ATTEMPT_TIME: Duration = Duration::from_secs(600);
/// Characters of the place in the console that one comes back to.
const PLACE_CHARS_MAX: usize = 500;
/// Sign-ins of the last ten minutes that are known to have been used.
const USED_MAX: usize = 100_000;

const PLACE: SealContext<'static> =
    SealContext { org: b"", table: "oidc_sign_ins", id: b"", field: "attempt" };

#[derive(Serialize, Deserialize)]
pub struct Begun {
    state: String,
    nonce: String,
    verifier: String,
    begun_at: i64,
    /// Where in the console one comes back to, as what stands behind its `#`.
    pub to: String,
    /// The session that this browser had, which ends when the next begins.
    pub before: Option<String>,
}

impl Begun {
    pub fn new(to: Option<&str>, before: Option<&str>, now: Moment) -> Result<Begun> {
        let text = || -> Result<String> {
            let bytes = random_bytes::<32>().map_err(|e| Error::internal("begin a sign-in", e))?;
            Ok(URL_SAFE_NO_PAD.encode(bytes))
        };
        Ok(Begun {
            state: text()?,
            nonce: text()?,
            verifier: text()?,
            begun_at: now.millis(),
            to: to.filter(|to| is_place(to)).unwrap_or("/").to_owned(),
            before: before.map(str::to_owned),
        })
    }

    pub fn attempt(&self) -> Attempt<'_> {
        Attempt { state: &self.state, nonce: &self.nonce, verifier: &self.verifier }
    }

    /// As it lies in the cookie.
    pub fn seal(&self, keyring: &Keyring) -> Result<String> {
        let json = serde_json::to_vec(self).map_err(|e| Error::internal("write a sign-in", e))?;
        let sealed = keyring.seal(&PLACE, &json).map_err(|e| Error::internal("seal a sign-in", e))?;
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// The sign-in of this browser that came back with this `state`, if it is one and its time is not over.
    pub fn open(cookie: Option<&str>, state: Option<&str>, keyring: &Keyring, now: Moment) -> Option<Begun> {
        let sealed = URL_SAFE_NO_PAD.decode(cookie?).ok()?;
        let begun: Begun = serde_json::from_slice(&keyring.open(&PLACE, &sealed).ok()?).ok()?;
        // By their hashes, so that how long it takes tells nothing of the text.
        if sha256(begun.state.as_bytes()) != sha256(state?.as_bytes()) {
            return None;
        }
        let begun_at = Moment(begun.begun_at);
        (begun_at <= now.after(Duration::from_secs(60)) && now.since(begun_at) < ATTEMPT_TIME)
            .then_some(begun)
    }
}

/// A place in the console: it stands behind `#`, so it leads nowhere else whatever it is.
fn is_place(to: &str) -> bool {
    to.starts_with('/')
        && to.chars().count() <= PLACE_CHARS_MAX
        && to.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '#'))
}

/// Names that count once, for a while.
#[derive(Default)]
pub struct Once(Mutex<HashMap<Digest, Moment>>);

impl Once {
    /// Whether this is the first time; then it is none until that moment.
    pub fn is_first(&self, name: &str, now: Moment, until: Moment) -> bool {
        let mut used = self.0.lock();
        if used.len() >= USED_MAX {
            used.retain(|_, until| *until > now);
        }
        // Of more than there can be in the time none is taken: a second use would not be found.
        if used.len() >= USED_MAX {
            return false;
        }
        let key = sha256(name.as_bytes());
        let is_known = used.get(&key).is_some_and(|until| *until > now);
        if !is_known {
            used.insert(key, until);
        }
        !is_known
    }

    pub fn is_first_use(&self, begun: &Begun, now: Moment) -> bool {
        self.is_first(&begun.state, now, Moment(begun.begun_at).after(ATTEMPT_TIME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_of_the_console() {
        for good in ["/", "/device?user_code=BCDF-GHJK", "/urls/%C3%A4"] {
            assert!(is_place(good), "{good}");
        }
        for bad in
            ["", "x", "https://evil.example", "/a\r\nSet-Cookie: x", "/a#b", "/<script>", &"/a".repeat(300)]
        {
            assert!(!is_place(bad), "{bad}");
        }
    }

    #[test]
    fn a_name_counts_once_until_its_time_is_over() {
        let (once, now) = (Once::default(), Moment(1_000));
        assert!(once.is_first("a", now, Moment(2_000)) && once.is_first("b", now, Moment(2_000)));
        assert!(!once.is_first("a", Moment(1_999), Moment(3_000)));
        assert!(once.is_first("a", Moment(2_000), Moment(3_000)));
    }
}
