//! The text of a webhook's token, and secrets that sign its messages.
//!
//! A token has 256 random bits and is kept as its SHA-256: it is looked up by that, so how long an answer takes tells nothing
//! of how much of a guess was right.

use base::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::hmac;
use secrets::{Digest, random_bytes, sha256};
use serde_json::{Value, json};
use server::PathParam;

const PREFIX: &str = "glw_";
const RANDOM_BYTES: usize = 32;
/// Characters of the random part.
const RANDOM_CHARS: usize = 43;
/// Characters that a list shows.
const SHOWN_CHARS: usize = 8;

/// A webhook's token. Not printable, on purpose.
pub(super) struct Token(String);

impl Token {
    pub fn generate() -> Result<Token> {
        let bytes: [u8; RANDOM_BYTES] =
            random_bytes().map_err(|e| Error::internal("make a webhook's token", e))?;
        Ok(Token(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn shown(&self) -> &str {
        &self.0[..SHOWN_CHARS]
    }

    pub fn digest(&self) -> Digest {
        sha256(self.0.as_bytes())
    }
}

/// What stands in a path in the place of a token: the digest of a text that may be one. Any other is answered like a token
/// that nobody has, before the body is looked at.
pub(super) struct GivenToken(pub Digest);

pub(super) fn unknown_webhook() -> Error {
    Error::not_found("Webhook")
}

impl PathParam for GivenToken {
    fn parse(text: &str) -> Result<GivenToken> {
        let is_one = text.len() == PREFIX.len() + RANDOM_CHARS && text.starts_with(PREFIX);
        if is_one { Ok(GivenToken(sha256(text.as_bytes()))) } else { Err(unknown_webhook()) }
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

/// What a signing secret begins with (Standard Webhooks, "Symmetric").
const SECRET_PREFIX: &str = "whsec_";
/// Bytes of one: what the standard allows.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// With padding or without: both are written.
const SECRETS: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The bytes of a signing secret as people write it.
pub(super) fn secret(field: &str, text: &str) -> Result<Vec<u8>> {
    let refused = || {
        let (least, most) = (SECRET_BYTES.start(), SECRET_BYTES.end());
        Error::invalid(field, format!("must be {SECRET_PREFIX} and {least} to {most} bytes in base64"))
    };
    let encoded = text.trim().strip_prefix(SECRET_PREFIX).ok_or_else(refused)?;
    let bytes = SECRETS.decode(encoded).map_err(|_| refused())?;
    if SECRET_BYTES.contains(&bytes.len()) { Ok(bytes) } else { Err(refused()) }
}

/// Whether one of the signatures in the header is that of the message. Signatures of other kinds are passed over; several
/// stand there while a sender changes its secret.
pub(super) fn is_signed(secret: &[u8], id: &str, timestamp: &str, body: &[u8], header: &str) -> bool {
    let message = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let given = header.split_ascii_whitespace().filter_map(|part| part.strip_prefix("v1,"));
    // As many as a header can have would be as many times the body's length to hash.
    given.take(SIGNATURES_MAX).any(|text| {
        let tag = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text));
        tag.is_ok_and(|tag| hmac::verify(&key, &message, &tag).is_ok())
    })
}

/// Signatures of one message that are looked at.
const SIGNATURES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification's reference libraries.
    const EXAMPLE: (&str, &str, &str, &str, &str) = (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        r#"{"test": 2432232314}"#,
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    );

    #[test]
    fn the_standards_own_example_is_right_and_nothing_else() {
        let (secret_text, id, timestamp, body, signature) = EXAMPLE;
        let key = secret("signingSecret", secret_text).unwrap();
        let is_right =
            |id, timestamp, body: &str, header: &str| is_signed(&key, id, timestamp, body.as_bytes(), header);
        assert!(is_right(id, timestamp, body, signature));
        assert!(is_right(id, timestamp, body, &format!("v1a,AAAA v1,AAAA {signature}")));
        assert!(!is_right("msg_other", timestamp, body, signature));
        assert!(!is_right(id, "1614265331", body, signature));
        assert!(!is_right(id, timestamp, "{}", signature));
        for wrong in ["", "v1,", "v2,g0hM", &signature[3..]] {
            assert!(!is_right(id, timestamp, body, wrong), "{wrong}");
        }
        let late = format!("{} {signature}", "v1,AAAA ".repeat(SIGNATURES_MAX));
        assert!(!is_right(id, timestamp, body, &late), "more than a sender has are not looked at");
    }

    #[test]
    fn a_secret_is_what_the_standard_says() {
        for wrong in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", "whsec_***"] {
            let error = secret("signingSecret", wrong).unwrap_err();
            assert!(error.detail().unwrap().starts_with("signingSecret: must be whsec_"), "{wrong}");
        }
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        assert!(secret("signingSecret", &long).is_err());
        assert_eq!(secret("s", &format!("whsec_{}", STANDARD_NO_PAD.encode([7; 25]))).unwrap(), [7; 25]);
    }

    #[test]
    fn a_token_is_known_by_its_form() {
        let token = Token::generate().unwrap();
        let given = GivenToken::parse(token.as_str()).unwrap();
        assert_eq!(given.0, token.digest());
        assert!(token.as_str().starts_with(token.shown()));
        for wrong in ["", "glw_", &token.as_str()[1..], &format!("{}x", token.as_str())] {
            assert!(GivenToken::parse(wrong).is_err(), "{wrong}");
        }
    }
}
