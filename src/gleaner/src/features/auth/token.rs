//! Access tokens: JSON Web Tokens (RFC 7519, profile of RFC 9068) signed with HMAC-SHA256, valid 15 minutes.
//!
//! The box reads no tokens but its own, so the header is not interpreted at all: it must be, byte for byte, one that
//! this box writes under one of its keys. Algorithm, type and key id are thereby fixed before anything is parsed, and
//! the attacks on flexible verifiers (`alg: none`, a changed algorithm, a key from the header) have no place to begin.
//! `iat` and `exp` are dates, for whoever reads the token (numbers of seconds with milliseconds, as RFC 7519, "NumericDate",
//! allows). The box goes by `box`, which has the same two as moments of its own time, in milliseconds: a token lives fifteen
//! minutes of those, however the machine's clock is set meanwhile. Tokens of a release that wrote no `box` had dates and
//! moments that were the same.
//!
//! A token whose end lies further ahead than one can be given was made before the data folder was put back to an earlier
//! state. It is refused until its fifteen minutes have come.

use base::clock::{Moment, Now, Timestamp};
use base::ids::UserId;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrets::keyring::{KeyId, Keyring, Purpose};
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long an access token lives (data/docs/api.md, "People, organizations and keys").
pub const ACCESS_TOKEN_TIME: Duration = Duration::from_secs(15 * 60);
/// Who issues them. The same on every box: the signing key tells boxes apart, and a box keeps its key when its address
/// changes.
const ISSUER: &str = "gleaner";
/// Whom the tokens are for: this box's API.
const AUDIENCE: &str = "gleaner-api";
/// By how much the box's time may be earlier than when it issued a token: after a crash the newest moments are lost.
const SET_BACK_MAX: Duration = Duration::from_secs(60);
/// Longer texts are not tokens of this box.
const TOKEN_BYTES_MAX: usize = 4096;

/// Makes and checks access tokens.
pub struct AccessTokens {
    keyring: Arc<Keyring>,
    /// The header of each signing key in its base64 form, the newest key first.
    headers: Vec<(KeyId, String)>,
}

/// What a good token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    pub user: UserId,
    /// The login that it was given for.
    pub session: Option<Uuid>,
    pub issued_at: Moment,
}

/// Why a token is no good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// Not a token of this box, or changed.
    Invalid,
    /// It was good once.
    Expired,
    /// It will be good once.
    TooEarly,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    iss: Cow<'a, str>,
    #[serde(borrow)]
    aud: Cow<'a, str>,
    sub: Uuid,
    sid: Option<Uuid>,
    iat: f64,
    exp: f64,
    /// Issued, and end.
    #[serde(rename = "box")]
    moments: Option<(i64, i64)>,
    /// The box writes none; whoever adds one with the box's key means it.
    nbf: Option<f64>,
}

impl AccessTokens {
    pub fn new(keyring: Arc<Keyring>) -> AccessTokens {
        let header =
            |id: KeyId| URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","typ":"at+jwt","kid":"{id}"}}"#));
        let headers = keyring.signing_ids().map(|id| (id, header(id))).collect();
        AccessTokens { keyring, headers }
    }

    /// A token for a login of `user` that ends fifteen minutes after `now`. It counts as issued at `issued_at`, which is that
    /// moment except where the person's sessions are valid only from one just after it.
    pub fn issue(&self, user: UserId, session: Uuid, issued_at: Moment, now: &Now) -> String {
        let end = now.moment.after(ACCESS_TOKEN_TIME);
        let payload = format!(
            r#"{{"iss":"{ISSUER}","aud":"{AUDIENCE}","sub":"{user}","sid":"{session}","iat":{},"exp":{},"box":[{},{}]}}"#,
            numeric_date(now.date_of(issued_at)),
            numeric_date(now.date_of(end)),
            issued_at.millis(),
            end.millis(),
        );
        let mut token = format!("{}.{}", self.headers[0].1, URL_SAFE_NO_PAD.encode(payload));
        let (_, tag) = self.keyring.sign(Purpose::AccessToken, token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(tag, &mut token);
        token
    }

    /// What `token` says, if this box signed it and it is still good at `now`.
    pub fn check(&self, token: &str, now: Moment) -> Result<Claims, TokenFault> {
        const INVALID: TokenFault = TokenFault::Invalid;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(INVALID);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(INVALID)?;
        let (header, payload) = signed.split_once('.').ok_or(INVALID)?;
        let (key, _) = self.headers.iter().find(|(_, own)| own == header).ok_or(INVALID)?;
        let mut tag = [0; 33];
        let length = URL_SAFE_NO_PAD.decode_slice(signature, &mut tag).map_err(|_| INVALID)?;
        if !self.keyring.verify(Purpose::AccessToken, *key, signed.as_bytes(), &tag[..length]) {
            return Err(INVALID);
        }
        let json = URL_SAFE_NO_PAD.decode(payload).map_err(|_| INVALID)?;
        let payload: Payload<'_> = serde_json::from_slice(&json).map_err(|_| INVALID)?;
        if payload.iss != ISSUER || payload.aud != AUDIENCE {
            return Err(INVALID);
        }
        let (issued_at, end) = match payload.moments {
            Some((issued_at, end)) => {
                // Both tell of one length; whoever changed one of them with the box's key meant something else.
                let told = ((payload.exp - payload.iat) * 1000.0).round() as i64;
                if end.checked_sub(issued_at) != Some(told) {
                    return Err(INVALID);
                }
                (Moment(issued_at), Moment(end))
            }
            None => (moment(payload.iat), moment(payload.exp)),
        };
        if now >= end {
            return Err(TokenFault::Expired);
        }
        let begins_later = payload.nbf.is_some_and(|begin| now < moment(begin));
        if begins_later || end > now.after(ACCESS_TOKEN_TIME).after(SET_BACK_MAX) {
            return Err(TokenFault::TooEarly);
        }
        Ok(Claims { user: UserId(payload.sub), session: payload.sid, issued_at })
    }
}

fn numeric_date(at: Timestamp) -> String {
    format!("{}.{:03}", at.0.div_euclid(1000), at.0.rem_euclid(1000))
}

fn moment(seconds: f64) -> Moment {
    // A millisecond of any year a token can name is exact in 53 bits; `as` saturates what is not.
    Moment((seconds * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::hmac;

    const NOW: Moment = Moment(1_795_167_000_123);
    const SESSION: Uuid = Uuid::from_u128(7);

    fn at(moment: Moment) -> Now {
        Timestamp(moment.0).into()
    }

    fn new_box() -> AccessTokens {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Keyring::load_or_create(&folder.path().join("keys.toml")).unwrap();
        AccessTokens::new(Arc::new(keyring))
    }

    fn part(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    /// A token over any header and payload, signed with the box's own key.
    fn signed(tokens: &AccessTokens, header: &str, payload: &str) -> String {
        let text = format!("{}.{}", part(header), part(payload));
        let (_, tag) = tokens.keyring.sign(Purpose::AccessToken, text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    #[test]
    fn a_token_says_who_and_since_when_for_fifteen_minutes() {
        let tokens = new_box();
        let user = UserId::new();
        let token = tokens.issue(user, SESSION, NOW, &at(NOW));
        assert_eq!(tokens.check(&token, NOW), Ok(Claims { user, session: Some(SESSION), issued_at: NOW }));
        assert!(tokens.check(&token, Moment(NOW.0 + 899_999)).is_ok());
        assert_eq!(tokens.check(&token, Moment(NOW.0 + 900_000)), Err(TokenFault::Expired));
    }

    #[test]
    fn a_token_of_a_clock_that_ran_ahead_is_not_good_yet() {
        let tokens = new_box();
        let (user, ahead) = (UserId::new(), Moment(NOW.0 + 3_600_000));
        let token = tokens.issue(user, SESSION, ahead, &at(ahead));
        assert_eq!(tokens.check(&token, NOW), Err(TokenFault::TooEarly));
        assert!(tokens.check(&token, Moment(ahead.0 - 60_000)).is_ok(), "a minute is forgiven");
        assert_eq!(tokens.check(&token, Moment(ahead.0 - 60_001)), Err(TokenFault::TooEarly));
        // Sessions that are valid from a moment ahead do not make longer tokens.
        let token = tokens.issue(user, SESSION, ahead, &at(NOW));
        assert_eq!(tokens.check(&token, NOW), Ok(Claims { user, session: Some(SESSION), issued_at: ahead }));
        assert_eq!(tokens.check(&token, Moment(NOW.0 + 900_000)), Err(TokenFault::Expired));
    }

    #[test]
    fn only_the_own_header_passes() {
        let tokens = new_box();
        let good = tokens.issue(UserId::new(), SESSION, NOW, &at(NOW));
        let [header, payload, _] = good.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
        let decoded = |text: &str| String::from_utf8(URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        let (header, payload) = (decoded(header), decoded(payload));
        assert!(tokens.check(&signed(&tokens, &header, &payload), NOW).is_ok());
        for other in [
            header.replace("HS256", "none"),
            header.replace("HS256", "HS512"),
            header.replace("HS256", "RS256"),
            header.replace("at+jwt", "JWT"),
            header.replace("kid", "jku"),
            header.replace(&tokens.headers[0].0.to_string(), "00000000"),
            format!("{header} "),
        ] {
            let token = signed(&tokens, &other, &payload);
            assert_eq!(tokens.check(&token, NOW), Err(TokenFault::Invalid), "{other}");
        }
        let unsigned = format!("{}.{}.", part(&header.replace("HS256", "none")), part(&payload));
        assert_eq!(tokens.check(&unsigned, NOW), Err(TokenFault::Invalid));
        let unsigned = format!("{}.{}.", part(&header), part(&payload));
        assert_eq!(tokens.check(&unsigned, NOW), Err(TokenFault::Invalid));
    }

    #[test]
    fn a_foreign_signature_or_purpose_is_refused() {
        let (tokens, other) = (new_box(), new_box());
        let foreign = other.issue(UserId::new(), SESSION, NOW, &at(NOW));
        assert_eq!(tokens.check(&foreign, NOW), Err(TokenFault::Invalid));
        // The own header in front of a payload that another key signed.
        let payload = foreign.split('.').nth(1).unwrap();
        let text = format!("{}.{payload}", tokens.headers[0].1);
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"guess");
        let tags = [
            hmac::sign(&key, text.as_bytes()).as_ref().to_vec(),
            other.keyring.sign(Purpose::AccessToken, text.as_bytes()).1.to_vec(),
            tokens.keyring.sign(Purpose::Link, text.as_bytes()).1.to_vec(),
        ];
        for tag in tags {
            let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag));
            assert_eq!(tokens.check(&token, NOW), Err(TokenFault::Invalid));
        }
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let tokens = new_box();
        let token = tokens.issue(UserId::new(), SESSION, NOW, &at(NOW));
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(tokens.check(&changed, NOW), Err(TokenFault::Invalid), "position {at}");
            assert_eq!(tokens.check(&token[..at], NOW), Err(TokenFault::Invalid), "cut at {at}");
        }
        for junk in ["", ".", "..", "...", "a.b.c", &"a".repeat(5000), &format!("{token}A"), "ü.ü.ü"] {
            assert_eq!(tokens.check(junk, NOW), Err(TokenFault::Invalid), "{junk}");
        }
    }

    #[test]
    fn issuer_audience_and_claims_must_be_there() {
        let tokens = new_box();
        let header = format!(r#"{{"alg":"HS256","typ":"at+jwt","kid":"{}"}}"#, tokens.headers[0].0);
        let sub = UserId::new();
        let good = format!(
            r#"{{"iss":"gleaner","aud":"gleaner-api","sub":"{sub}","iat":1795167000,"exp":1795167100}}"#
        );
        assert!(tokens.check(&signed(&tokens, &header, &good), NOW).is_ok());
        for (begin, verdict) in [(1_795_167_000, Ok(())), (1_795_167_001, Err(TokenFault::TooEarly))] {
            let token = signed(&tokens, &header, &good.replace('{', &format!(r#"{{"nbf":{begin},"#)));
            assert_eq!(tokens.check(&token, NOW).map(drop), verdict, "{begin}");
        }
        for bad in [
            good.replace("\"gleaner\"", "\"other\""),
            good.replace("gleaner-api", "other-api"),
            good.replace("\"exp\"", "\"ex\""),
            good.replace("\"iat\"", "\"ia\""),
            good.replace(&sub.to_string(), "somebody"),
            good.replace("1795167100", "\"1795167100\""),
            good.replace('{', r#"{"nbf":"now","#),
            good.replace('{', r#"{"box":[1],"#),
            good.replace('{', &format!(r#"{{"sub":"{}","#, UserId::new())),
            good.replace('{', "["),
        ] {
            let token = signed(&tokens, &header, &bad);
            assert_eq!(tokens.check(&token, NOW), Err(TokenFault::Invalid), "{bad}");
        }
    }
}
