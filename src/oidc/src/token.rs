//! ID tokens and logout tokens: which hold, and what they say.

use crate::keys::{Algorithm, Keys};
use crate::{Fault, refused};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::digest;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Longer texts are no tokens of people.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// How far the provider's clock and the box's may be apart, in seconds.
pub const SKEW_SECS: i64 = 120;
/// How old a token may be when it comes, in seconds: it was made for this very sign-in.
const AGE_SECS_MAX: i64 = 600;
/// Bytes of a subject (OpenID Connect Core 1.0, section 2).
const SUBJECT_BYTES_MAX: usize = 255;
/// What makes a token one that ends sessions.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// What a token must say.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    /// Seconds since 1970.
    pub now: i64,
}

/// What an ID token says, or it together with the provider's answer about the person.
#[derive(Clone, Debug)]
pub struct Claims {
    pub subject: String,
    /// The provider's session, where it has names for those.
    pub session: Option<String>,
    all: Map<String, Value>,
}

/// Whose sessions are to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logout {
    pub subject: Option<String>,
    pub session: Option<String>,
    /// The token's own name, by which a second use of it is found.
    pub id: String,
    /// When it ends, in seconds since 1970.
    pub expires: i64,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    All(Vec<String>),
}

#[derive(Deserialize)]
struct Registered {
    iss: String,
    sub: Option<String>,
    aud: Audience,
    azp: Option<String>,
    exp: Option<f64>,
    iat: f64,
    nbf: Option<f64>,
    nonce: Option<String>,
    at_hash: Option<String>,
    sid: Option<String>,
    jti: Option<String>,
    events: Option<Map<String, Value>>,
}

impl Claims {
    /// Checks an ID token that came with `access_token` for the sign-in of this `nonce`.
    pub fn check(
        keys: &Keys,
        token: &str,
        expected: &Expected<'_>,
        nonce: &str,
        access_token: Option<&str>,
    ) -> Result<Claims, Fault> {
        let (algorithm, said, all) = signed(keys, token)?;
        common(&said, expected)?;
        let now = expected.now as f64;
        let end = said.exp.ok_or_else(|| refused("it has no end (exp)"))?;
        if now >= end + SKEW_SECS as f64 {
            return Err(refused("it has expired"));
        }
        if said.nonce.as_deref() != Some(nonce) {
            return Err(refused("its nonce is not the one of this sign-in"));
        }
        if let Some((hash, access)) = said.at_hash.as_deref().zip(access_token) {
            let whole = digest(algorithm.digest(), access.as_bytes());
            let half = &whole.as_ref()[..whole.as_ref().len() / 2];
            if URL_SAFE_NO_PAD.encode(half) != hash {
                return Err(refused("its at_hash is not of the access token that came with it"));
            }
        }
        let subject = said.sub.filter(|sub| !sub.is_empty() && sub.len() <= SUBJECT_BYTES_MAX);
        let subject = subject.ok_or_else(|| refused("it names nobody (sub)"))?;
        Ok(Claims { subject, session: said.sid, all })
    }

    /// Adds what the provider's `userinfo` says where the token says nothing. An answer about somebody else is refused.
    pub fn with_userinfo(mut self, json: &[u8]) -> Result<Claims, Fault> {
        let more: Map<String, Value> = serde_json::from_slice(json).map_err(crate::malformed)?;
        if more.get("sub").and_then(Value::as_str) != Some(&self.subject) {
            return Err(refused("the provider's userinfo is about somebody else"));
        }
        for (name, value) in more {
            let told = self.all.entry(name).or_insert(Value::Null);
            if told.is_null() {
                *told = value;
            }
        }
        Ok(self)
    }

    /// The claim at a path with dots, such as `groups` or `realm_access.roles`. One whose own name has dots goes first; null says
    /// nothing, as if it were not there.
    pub fn get(&self, path: &str) -> Option<&Value> {
        let at_path = || {
            let mut parts = path.split('.');
            let first = self.all.get(parts.next()?)?;
            parts.try_fold(first, |value, part| value.get(part))
        };
        self.all.get(path).or_else(at_path).filter(|value| !value.is_null())
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path).and_then(Value::as_str)
    }

    /// Whether a claim says yes. Some providers write it as a text.
    pub fn flag(&self, path: &str) -> Option<bool> {
        match self.get(path)? {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The texts of a claim that is a list, or one text; none where it is not there.
    pub fn list(&self, path: &str) -> Option<Vec<&str>> {
        match self.get(path)? {
            Value::Array(all) => Some(all.iter().filter_map(Value::as_str).collect()),
            Value::String(one) => Some(vec![one]),
            _ => None,
        }
    }

    /// Whether the provider says that the claim is elsewhere, because it is too long for a token (OpenID Connect Core 1.0, section
    /// 5.6.2; Entra's "groups overage").
    pub fn is_elsewhere(&self, path: &str) -> bool {
        self.all.get("_claim_names").is_some_and(|names| names.get(path).is_some())
    }
}

impl Logout {
    /// Checks a logout token.
    pub fn check(keys: &Keys, token: &str, expected: &Expected<'_>) -> Result<Logout, Fault> {
        let (_, said, _) = signed(keys, token)?;
        common(&said, expected)?;
        let end = said.exp.unwrap_or(said.iat + AGE_SECS_MAX as f64);
        if expected.now as f64 >= end + SKEW_SECS as f64 {
            return Err(refused("it has expired"));
        }
        if !said.events.is_some_and(|events| events.contains_key(LOGOUT_EVENT)) {
            return Err(refused("it is no logout token (events)"));
        }
        if said.nonce.is_some() {
            return Err(refused("it has a nonce, which logout tokens have not"));
        }
        if said.sub.is_none() && said.sid.is_none() {
            return Err(refused("it names neither a person nor a session"));
        }
        let id = said.jti.filter(|id| !id.is_empty() && id.len() <= SUBJECT_BYTES_MAX);
        let id = id.ok_or_else(|| refused("it has no name of its own (jti)"))?;
        Ok(Logout { subject: said.sub, session: said.sid, id, expires: end as i64 + SKEW_SECS })
    }
}

/// What a token says that is signed by one of the keys. Its header is a stranger's word: it chooses among the keys of the provider,
/// each of which is for one kind of signature.
fn signed(keys: &Keys, token: &str) -> Result<(Algorithm, Registered, Map<String, Value>), Fault> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(refused(format!("it is longer than {TOKEN_BYTES_MAX} bytes")));
    }
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else {
        return Err(refused("it is not three parts with dots between them"));
    };
    let bytes = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| refused("it is not base64url"));
    let read: Header =
        serde_json::from_slice(&bytes(header)?).map_err(|_| refused("its header is no JSON of one"))?;
    if read.crit.is_some() {
        return Err(refused("its header has extensions that must be understood (crit)"));
    }
    let algorithm = Algorithm::named(&read.alg)
        .ok_or_else(|| refused("it is not signed with a public key's signature (alg)"))?;
    let message = &token.as_bytes()[..header.len() + 1 + payload.len()];
    keys.verify(algorithm, read.kid.as_deref(), message, &bytes(signature)?)?;
    let payload = bytes(payload)?;
    let said = serde_json::from_slice(&payload)
        .map_err(|error| refused(format!("its claims are malformed: {error}")))?;
    let all = serde_json::from_slice(&payload)
        .map_err(|error| refused(format!("its claims are malformed: {error}")))?;
    Ok((algorithm, said, all))
}

/// What holds for tokens of either kind.
fn common(said: &Registered, expected: &Expected<'_>) -> Result<(), Fault> {
    if said.iss != expected.issuer {
        return Err(refused("it is of another issuer (iss)"));
    }
    let (is_ours, is_only) = match &said.aud {
        Audience::One(one) => (one == expected.client_id, true),
        Audience::All(all) => (all.iter().any(|one| one == expected.client_id), all.len() == 1),
    };
    if !is_ours {
        return Err(refused("it is for somebody else (aud)"));
    }
    match &said.azp {
        Some(party) if party != expected.client_id => {
            return Err(refused("it was given to somebody else (azp)"));
        }
        None if !is_only => return Err(refused("it is for several and does not say who asked for it (azp)")),
        _ => {}
    }
    let (now, skew) = (expected.now as f64, SKEW_SECS as f64);
    if said.iat > now + skew || said.nbf.is_some_and(|begin| begin > now + skew) {
        return Err(refused("it is from a time to come; compare the clocks of the box and of the provider"));
    }
    // A number that is none is no time either.
    if !said.iat.is_finite() || now - said.iat > AGE_SECS_MAX as f64 + skew {
        return Err(refused("it is too old; compare the clocks of the box and of the provider"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
