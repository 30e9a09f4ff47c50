//! Signed webhooks, as the Standard Webhooks specification has them.
//!
//! What is signed is `id.timestamp.body`. A symmetric key (`whsec_…`) signs with HMAC-SHA256 (`v1`), an asymmetric one
//! (`whsk_…`, whose public half is `whpk_…`) with ed25519 (`v1a`). The header names every signature that holds, with spaces
//! between: while a key is replaced the old one signs too, so that no receiver has to change at the same moment.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;

/// The headers of a webhook.
pub const ID_HEADER: &str = "webhook-id";
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
pub const SIGNATURE_HEADER: &str = "webhook-signature";

const SECRET_PREFIX: &str = "whsec_";
const SIGNING_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";
/// Bytes of a symmetric key: at least, at most, and of one that the box makes.
const SECRET_BYTES_MIN: usize = 24;
const SECRET_BYTES_MAX: usize = 64;
pub const SECRET_BYTES: usize = 32;
/// Bytes of the seed of an ed25519 key.
pub const SEED_BYTES: usize = 32;

/// Why a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    NoPrefix,
    NoBase64,
    WrongLength,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyError::NoPrefix => "does not begin with whsec_",
            KeyError::NoBase64 => "is not base64 behind whsec_",
            KeyError::WrongLength => "has not 24 to 64 bytes",
        })
    }
}

impl std::error::Error for KeyError {}

/// A key that signs. It has no `Debug` that shows it.
#[derive(Clone, PartialEq, Eq)]
pub enum Key {
    /// `v1`.
    Secret(Vec<u8>),
    /// `v1a`: the seed of an ed25519 key.
    Seed([u8; SEED_BYTES]),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Key::Secret(_) => "Key::Secret",
            Key::Seed(_) => "Key::Seed",
        })
    }
}

impl Key {
    /// A symmetric key in its written form. The prefix may be missing nowhere: what is not marked as a secret is none.
    pub fn parse_secret(text: &str) -> Result<Key, KeyError> {
        let encoded = text.trim().strip_prefix(SECRET_PREFIX).ok_or(KeyError::NoPrefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| KeyError::NoBase64)?;
        match (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            true => Ok(Key::Secret(bytes)),
            false => Err(KeyError::WrongLength),
        }
    }

    /// What who verifies must hold: the symmetric key itself, or the public half of an asymmetric one.
    pub fn verifying(&self) -> Option<String> {
        match self {
            Key::Secret(bytes) => Some(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes))),
            Key::Seed(seed) => {
                let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
                Some(format!("{PUBLIC_PREFIX}{}", STANDARD.encode(pair.public_key().as_ref())))
            }
        }
    }

    /// Its written form, as it is kept under seal.
    pub fn written(&self) -> String {
        match self {
            Key::Secret(bytes) => format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)),
            Key::Seed(seed) => format!("{SIGNING_PREFIX}{}", STANDARD.encode(seed)),
        }
    }

    /// One that was kept.
    pub fn of_written(text: &str) -> Result<Key, KeyError> {
        match text.strip_prefix(SIGNING_PREFIX) {
            Some(encoded) => {
                let bytes = STANDARD.decode(encoded).map_err(|_| KeyError::NoBase64)?;
                bytes.try_into().map(Key::Seed).map_err(|_| KeyError::WrongLength)
            }
            None => Key::parse_secret(text),
        }
    }

    fn sign(&self, content: &[u8]) -> Option<String> {
        match self {
            Key::Secret(bytes) => {
                let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), content);
                Some(format!("v1,{}", STANDARD.encode(tag)))
            }
            Key::Seed(seed) => {
                let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
                Some(format!("v1a,{}", STANDARD.encode(pair.sign(content))))
            }
        }
    }
}

/// The value of `webhook-signature`: one signature a key. `id` has no point in it, `timestamp` is that of the try, in seconds.
pub fn signature(id: &str, timestamp: i64, body: &[u8], keys: &[Key]) -> String {
    let mut content = format!("{id}.{timestamp}.").into_bytes();
    content.extend_from_slice(body);
    keys.iter().filter_map(|key| key.sign(&content)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ED25519, UnparsedPublicKey};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The example that the libraries of the specification test themselves with.
    #[test]
    fn the_known_example_has_the_known_signature() {
        let key = Key::parse_secret(SECRET).unwrap();
        let signed =
            signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#, &[key]);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn two_keys_make_two_signatures_and_either_verifies() {
        let (old, new) = (Key::parse_secret(SECRET).unwrap(), Key::Seed([7; SEED_BYTES]));
        let signed = signature("msg_1", 5, b"{}", &[new.clone(), old.clone()]);
        let parts: Vec<_> = signed.split(' ').collect();
        assert_eq!(parts[1], signature("msg_1", 5, b"{}", &[old]));
        let public = new.verifying().unwrap();
        let public = STANDARD.decode(public.strip_prefix("whpk_").unwrap()).unwrap();
        let by_key = STANDARD.decode(parts[0].strip_prefix("v1a,").unwrap()).unwrap();
        UnparsedPublicKey::new(&ED25519, public).verify(b"msg_1.5.{}", &by_key).unwrap();
    }

    #[test]
    fn keys_are_read_strictly_and_never_shown() {
        for (text, error) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", KeyError::NoPrefix),
            ("whsec_!!!", KeyError::NoBase64),
            ("whsec_c2hvcnQ=", KeyError::WrongLength),
            ("", KeyError::NoPrefix),
        ] {
            assert_eq!(Key::parse_secret(text), Err(error), "{text}");
        }
        let long = format!("whsec_{}", STANDARD.encode([0; 65]));
        assert_eq!(Key::parse_secret(&long), Err(KeyError::WrongLength));
        for key in [Key::parse_secret(SECRET).unwrap(), Key::Seed([9; SEED_BYTES])] {
            assert_eq!(Key::of_written(&key.written()), Ok(key.clone()));
            assert!(!format!("{key:?}").contains("MfKQ") && !format!("{key:?}").contains('9'));
        }
        assert_eq!(Key::parse_secret(SECRET).unwrap().verifying().unwrap(), SECRET);
        assert_ne!(Key::Seed([9; 32]).verifying().unwrap(), Key::Seed([9; 32]).written());
    }
}
