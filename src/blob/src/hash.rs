//! A page's name: the SHA-256 of its bytes.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// SHA-256 of a page's own bytes. As text: 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> BlobHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
        BlobHash(hash)
    }

    /// The hash that was kept as bytes.
    pub const fn from_bytes(hash: [u8; 32]) -> BlobHash {
        BlobHash(hash)
    }

    /// The hash as bytes, to be kept.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobHash({self})")
    }
}

/// The text is not 64 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobHashError;

impl fmt::Display for BlobHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page's hash is 64 lower-case hex digits")
    }
}

impl Error for BlobHashError {}

impl FromStr for BlobHash {
    type Err = BlobHashError;

    /// Reads exactly what `Display` writes, so that one hash has one name.
    fn from_str(text: &str) -> Result<BlobHash, BlobHashError> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(BlobHashError),
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(BlobHashError) };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().map_err(|_| BlobHashError)?;
        let mut hash = [0; 32];
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(BlobHash(hash))
    }
}

impl Serialize for BlobHash {
    /// Hex where people read it (JSON), 32 bytes where rows are stored.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for BlobHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BlobHash, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
        } else {
            <[u8; 32]>::deserialize(deserializer).map(BlobHash)
        }
    }
}
