//! The two codes of the device flow: one that a person types, one that the command line keeps to itself.
//!
//! A user code is eight letters of an alphabet without vowels, so that it spells no word, and without digits, so that no
//! letter is taken for one (RFC 8628, 6.1): 34 bits, asked for by logged-in people only and good for ten minutes. Case,
//! spaces and hyphens do not count when it is typed.

use base::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrets::{Digest, random_bytes, sha256};

const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const LETTERS_MAX: usize = 8;
const DEVICE_PREFIX: &str = "gld_";

/// What the person types: eight letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserCode(String);

impl UserCode {
    pub fn generate() -> Result<UserCode> {
        let mut text = String::with_capacity(LETTERS_MAX);
        while text.len() < LETTERS_MAX {
            let bytes: [u8; 16] = random_bytes().map_err(|e| Error::internal("make a user code", e))?;
            // 240 is the last multiple of 20 in a byte: what lies beyond would favour the first letters.
            let fair = bytes.into_iter().filter(|byte| *byte < 240);
            let missing = LETTERS_MAX - text.len();
            text.extend(
                fair.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).take(missing),
            );
        }
        Ok(UserCode(text))
    }

    /// Reads what was typed; none when it cannot be a code.
    pub fn parse(text: &str) -> Option<UserCode> {
        let mut letters = String::with_capacity(LETTERS_MAX);
        for c in text.chars().filter(|c| !matches!(c, ' ' | '-')) {
            let letter = c.to_ascii_uppercase();
            if letters.len() == LETTERS_MAX || !letter.is_ascii() || !LETTERS.contains(&(letter as u8)) {
                return None;
            }
            letters.push(letter);
        }
        (letters.len() == LETTERS_MAX).then_some(UserCode(letters))
    }

    /// The letters alone, as they are stored.
    pub fn letters(&self) -> &str {
        &self.0
    }

    /// As people read it: `BCDF-GHJK`.
    pub fn shown(&self) -> String {
        let (first, second) = self.0.split_at(LETTERS_MAX / 2);
        format!("{first}-{second}")
    }
}

/// What the command line polls with. Not printable, on purpose.
pub struct DeviceCode(String);

impl DeviceCode {
    pub fn generate() -> Result<DeviceCode> {
        let bytes: [u8; 32] = random_bytes().map_err(|e| Error::internal("make a device code", e))?;
        Ok(DeviceCode(format!("{DEVICE_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Under which the code is stored, whatever was sent as one.
    pub fn digest_of(text: &str) -> Digest {
        sha256(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_code_is_read_back_however_it_is_typed() {
        let code = UserCode::generate().unwrap();
        let shown = code.shown();
        assert!(shown.len() == 9 && shown.as_bytes()[4] == b'-', "{shown}");
        assert!(code.letters().bytes().all(|letter| LETTERS.contains(&letter)));
        for typed in [shown.clone(), shown.to_lowercase(), format!(" {} ", shown.replace('-', " "))] {
            assert_eq!(UserCode::parse(&typed), Some(code.clone()), "{typed}");
        }
        for bad in ["", "BCDF-GHJ", "BCDF-GHJKL", "BCDF-GHJA", "BCDF-GHJ1", "BCDF_GHJK", "BCDF-GHJЖ"] {
            assert_eq!(UserCode::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn letters_are_drawn_evenly() {
        let mut counts = [0u32; 20];
        for _ in 0..2_000 {
            for letter in UserCode::generate().unwrap().letters().bytes() {
                counts[LETTERS.iter().position(|known| *known == letter).unwrap()] += 1;
            }
        }
        // 16,000 draws over 20: 800 each, with a deviation of 28.
        assert!(counts.iter().all(|count| (600..1_000).contains(count)), "{counts:?}");
    }
}
