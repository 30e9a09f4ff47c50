//! The text of an API key: `glk_<22 base62>_<6 base62 CRC-32>`.
//!
//! 22 characters are 131 random bits. The checksum lets a mistyped or cut-off key be refused without a look-up, and lets
//! tools that scan for leaked secrets tell a key from a random word; it is no protection and need not be.

use base::{Error, Result};
use secrets::{Digest, random_bytes, sha256};

/// What every key begins with.
pub const PREFIX: &str = "glk_";
const RANDOM_CHARS: usize = 22;
const SUM_CHARS: usize = 6;
const TEXT_CHARS: usize = PREFIX.len() + RANDOM_CHARS + 1 + SUM_CHARS;
/// Characters that a list shows.
const SHOWN_CHARS: usize = 8;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A well-formed key: its checksum is right. Not printable, on purpose.
pub struct KeySecret(String);

impl KeySecret {
    pub fn generate() -> Result<KeySecret> {
        let mut text = String::with_capacity(TEXT_CHARS);
        text.push_str(PREFIX);
        while text.len() < PREFIX.len() + RANDOM_CHARS {
            let bytes: [u8; 32] = random_bytes().map_err(|e| Error::internal("make an API key", e))?;
            // 248 is the last multiple of 62 in a byte: what lies beyond would favour the first characters.
            let fair = bytes.into_iter().filter(|byte| *byte < 248);
            text.extend(
                fair.map(|byte| char::from(BASE62[usize::from(byte) % 62]))
                    .take(PREFIX.len() + RANDOM_CHARS - text.len()),
            );
        }
        let sum = checksum(&text);
        text.push('_');
        text.extend(sum.map(char::from));
        Ok(KeySecret(text))
    }

    /// Reads a key; none when it cannot be one.
    pub fn parse(text: &str) -> Option<KeySecret> {
        if text.len() != TEXT_CHARS || !text.starts_with(PREFIX) {
            return None;
        }
        let (body, sum) = text.as_bytes().split_at_checked(PREFIX.len() + RANDOM_CHARS)?;
        let well_formed = body[PREFIX.len()..].iter().all(u8::is_ascii_alphanumeric);
        let body = std::str::from_utf8(body).ok().filter(|_| well_formed)?;
        (sum[0] == b'_' && sum[1..] == checksum(body)).then(|| KeySecret(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first characters, for lists.
    pub fn shown(&self) -> &str {
        &self.0[..SHOWN_CHARS]
    }

    pub fn digest(&self) -> Digest {
        sha256(self.0.as_bytes())
    }
}

/// The CRC-32 of `body` in base 62, most significant digit first.
fn checksum(body: &str) -> [u8; SUM_CHARS] {
    let mut rest = crc32fast::hash(body.as_bytes());
    let mut digits = [b'0'; SUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_format_is_the_api_pages() {
        let key = KeySecret::generate().unwrap();
        let parts: Vec<_> = key.as_str().split('_').collect();
        assert_eq!((parts.len(), parts[0], parts[1].len(), parts[2].len()), (3, "glk", 22, 6));
        assert!(parts[1..].iter().all(|part| part.bytes().all(|b| b.is_ascii_alphanumeric())));
        assert_eq!(key.shown(), &key.as_str()[..8]);
        assert_eq!(KeySecret::parse(key.as_str()).unwrap().digest(), key.digest());
    }

    #[test]
    fn the_checksum_is_crc_32_in_base_62() {
        // The check value that every description of CRC-32 gives.
        let digits = checksum("123456789");
        let value = digits.iter().fold(0u64, |sum, digit| {
            sum * 62 + BASE62.iter().position(|known| known == digit).unwrap() as u64
        });
        assert_eq!(value, 0xCBF4_3926);
        assert_eq!(checksum("")[..], *b"000000");
    }

    #[test]
    fn a_mistyped_key_is_noticed() {
        let key = KeySecret::generate().unwrap();
        let text = key.as_str();
        for at in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
            assert!(KeySecret::parse(std::str::from_utf8(&bytes).unwrap()).is_none(), "position {at}");
            assert!(KeySecret::parse(&text[..at]).is_none());
        }
        let swapped = format!("{}{}{}{}", &text[..5], &text[6..7], &text[5..6], &text[7..]);
        assert!(swapped == text || KeySecret::parse(&swapped).is_none());
        for junk in ["", "glk_", &format!("{text} "), &"ü".repeat(17), &format!("glk_ü{}", &text[6..])] {
            assert!(KeySecret::parse(junk).is_none(), "{junk}");
        }
    }

    #[test]
    fn keys_use_the_whole_alphabet_evenly() {
        let mut counts = [0u32; 62];
        let mut seen = HashSet::new();
        for _ in 0..2_000 {
            let key = KeySecret::generate().unwrap();
            for byte in key.as_str()[4..26].bytes() {
                counts[BASE62.iter().position(|known| *known == byte).unwrap()] += 1;
            }
            assert!(seen.insert(key.0));
        }
        // 44,000 draws over 62: 710 each, with a deviation of 26.
        assert!(counts.iter().all(|count| (500..920).contains(count)), "{counts:?}");
    }
}
