//! Objects: bytes named by their SHA-256.

use base::{Error, Result};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Largest object, bytes: a pack with one page of the largest kind, or rows with a value of the largest kind.
pub const OBJECT_BYTES_MAX: u64 = 256 << 20;

/// An object's name: the SHA-256 of its bytes. As text 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub(crate) [u8; 32]);

/// An object with its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    pub id: ObjectId,
    pub bytes: u64,
}

impl ObjectId {
    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> ObjectId {
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, bytes).as_ref());
        ObjectId(id)
    }

    /// The key of its file.
    pub fn key(&self) -> String {
        let hex = self.to_string();
        format!("objects/{}/{hex}", &hex[..2])
    }

    /// Of the key of a file; none where it is no object's.
    pub(crate) fn of_key(key: &str) -> Option<ObjectId> {
        let hex = key.rsplit('/').next()?;
        let id: ObjectId = hex.parse().ok()?;
        (id.key() == key).then_some(id)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    fn from_str(text: &str) -> Result<ObjectId> {
        let wrong = || Error::conflict(format!("{text:?} is no name of an object"));
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(is_hex) {
            return Err(wrong());
        }
        let mut id = [0; 32];
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| wrong())?;
        }
        Ok(ObjectId(id))
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ObjectId, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom("not the name of an object"))
    }
}

/// Reads numbers and bytes one after another; what is cut short is an error.
pub(crate) struct Reader<'b>(pub &'b [u8]);

impl<'b> Reader<'b> {
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'b [u8]> {
        let (head, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.bytes(N)?.try_into().map_err(|_| malformed())
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes behind their length.
    pub fn sized(&mut self) -> Result<&'b [u8]> {
        let count = self.u32()?;
        self.bytes(count as usize)
    }
}

/// Writes bytes behind their length.
pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    // No row and no name comes near 4 GiB: redb takes less, and a page 64 MiB.
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Of bytes whose digest is right: whoever wrote them wrote something else.
pub(crate) fn malformed() -> Error {
    Error::conflict("it is not what this release writes; a newer one may have made it")
}
