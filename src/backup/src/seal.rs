//! What is sealed with a passphrase: the key file, and the configuration.
//!
//! Argon2id makes a key of the passphrase and a salt of its own for each sealed thing; AES-256-GCM seals. The numbers of
//! Argon2id stand in front, so they can grow.

use crate::object::Reader;
use argon2::{Algorithm, Argon2, Params, Version};
use base::{Error, Result};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;

/// RFC 9106's second choice: 64 MiB, three passes, four lanes.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const LANES: u32 = 4;
/// What a backup of others may ask for at most, so that reading one does not take the machine.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 64;
const LANES_MAX: u32 = 16;
const SALT_BYTES: usize = 16;
const HEAD: &[u8] = b"gleaner-sealed-1";
/// A passphrase, bytes: it is the last thing between a stolen backup and the box's keys.
const PASSPHRASE_BYTES_MIN: usize = 12;
const PASSPHRASE_BYTES_MAX: usize = 1_024;

/// What the key file is sealed with. Not printable, on purpose.
#[derive(Clone)]
pub struct Passphrase(String);

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

impl Passphrase {
    /// The passphrase in the text of a file; a line's end behind it is not of it.
    pub fn parse(text: &str) -> Result<Passphrase> {
        let text = text.trim_end_matches(['\r', '\n']);
        if !(PASSPHRASE_BYTES_MIN..=PASSPHRASE_BYTES_MAX).contains(&text.len()) {
            let reason =
                format!("the passphrase must have {PASSPHRASE_BYTES_MIN} to {PASSPHRASE_BYTES_MAX} bytes");
            return Err(Error::invalid("passphrase", reason));
        }
        Ok(Passphrase(text.to_owned()))
    }

    fn key(&self, salt: &[u8], memory: u32, passes: u32, lanes: u32) -> Result<LessSafeKey> {
        let failed = |e: argon2::Error| Error::internal("make a key of the passphrase", e.to_string());
        let params = Params::new(memory, passes, lanes, Some(32)).map_err(failed)?;
        let mut key = [0; 32];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password_into(self.0.as_bytes(), salt, &mut key).map_err(failed)?;
        let key = UnboundKey::new(&AES_256_GCM, &key);
        key.map(LessSafeKey::new).map_err(|_| Error::internal("make a key of the passphrase", "its length"))
    }

    /// Seals bytes; `what` they are must be said again to open them.
    pub(crate) fn seal(&self, what: &str, plain: &[u8]) -> Result<Vec<u8>> {
        let (mut salt, mut nonce) = ([0; SALT_BYTES], [0; NONCE_LEN]);
        let random = SystemRandom::new();
        let filled = random.fill(&mut salt).and_then(|()| random.fill(&mut nonce));
        filled.map_err(|_| Error::internal("seal a part of a backup", "no randomness"))?;
        let mut sealed = HEAD.to_vec();
        for number in [MEMORY_KIB, PASSES, LANES] {
            sealed.extend_from_slice(&number.to_be_bytes());
        }
        sealed.extend_from_slice(&salt);
        sealed.extend_from_slice(&nonce);
        let key = self.key(&salt, MEMORY_KIB, PASSES, LANES)?;
        let mut text = plain.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(what.as_bytes()), &mut text)
            .map_err(|_| Error::internal("seal a part of a backup", "it is too long"))?;
        sealed.append(&mut text);
        Ok(sealed)
    }

    /// What was sealed. Its bytes were checked, so what does not open was sealed with another passphrase.
    pub(crate) fn open(&self, what: &str, sealed: &[u8]) -> Result<Vec<u8>> {
        let mut reader = Reader(sealed);
        if reader.bytes(HEAD.len())? != HEAD {
            return Err(Error::conflict(format!(
                "{what} is sealed in a way that this release does not know"
            )));
        }
        let (memory, passes, lanes) = (reader.u32()?, reader.u32()?, reader.u32()?);
        if memory > MEMORY_KIB_MAX || passes > PASSES_MAX || lanes > LANES_MAX {
            return Err(Error::conflict(format!(
                "{what} asks for more memory or time than any release does"
            )));
        }
        let salt: [u8; SALT_BYTES] = reader.array()?;
        let nonce: [u8; NONCE_LEN] = reader.array()?;
        let key = self.key(&salt, memory, passes, lanes)?;
        let mut text = reader.0.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain = key.open_in_place(nonce, Aad::from(what.as_bytes()), &mut text).map_err(|_| {
            Error::conflict(format!("the passphrase is wrong: {what} was sealed with another one"))
        })?;
        Ok(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_with_the_same_passphrase_and_no_other() {
        let one = Passphrase::parse("correct horse battery\n").unwrap();
        let sealed = one.seal("the key file", b"secret").unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_eq!(one.open("the key file", &sealed).unwrap(), b"secret");
        assert!(one.open("the configuration", &sealed).is_err());
        let other = Passphrase::parse("correct horse batterz").unwrap();
        let refused = other.open("the key file", &sealed).unwrap_err().for_operator();
        assert_eq!(refused, "the passphrase is wrong: the key file was sealed with another one");
        for cut in [0, 5, 20, 40, sealed.len() - 1] {
            assert!(one.open("the key file", &sealed[..cut]).is_err(), "{cut}");
        }
        let mut greedy = sealed.clone();
        greedy[HEAD.len()] = 0xff;
        assert!(one.open("the key file", &greedy).unwrap_err().for_operator().contains("more memory"));
        assert!(Passphrase::parse("short\n").is_err());
        assert_eq!(format!("{one:?}"), "Passphrase(..)");
    }
}
