//! Rows as bytes: a version byte, bincode, a checksum. The only file that names bincode (2.0 is frozen upstream).
//!
//! bincode reads almost any bytes as something, so a bit that a disk has flipped would be another value. Therefore the
//! last four bytes of a row are the CRC-32 of those before them, which the version byte says with its highest bit; rows
//! of releases that wrote none are read as they are, and get one when they are next put.
//!
//! A stored struct is frozen once shipped. A new shape is a new struct with a higher [`Record::VERSION`] whose
//! [`Record::upgrade`] reads the older ones; rows are rewritten when they are next put.
//!
//! bincode does not describe itself: no `#[serde(flatten)]`, `untagged`, `skip_serializing_if` or
//! `serde_json::Value` in a record. [`Json`] holds free-form values.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use uuid::Uuid;

/// A struct that is stored.
pub trait Record: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The version byte in front of the row.
    const VERSION: u8 = 1;

    /// Reads a row of an older version (`body` without the version byte).
    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        let _ = body;
        Err(CodecError(format!("row version {version} is unknown to this release")))
    }
}

/// A row that cannot be written or read.
#[derive(Debug)]
pub struct CodecError(pub String);

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CodecError {}

/// Set in the version byte of a row that ends with its checksum.
const SUMMED: u8 = 0x80;
const SUM_BYTES: usize = 4;

/// Writes `record` with its version byte and its checksum.
pub fn encode<R: Record>(record: &R) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(256);
    const { assert!(R::VERSION < SUMMED) };
    bytes.push(R::VERSION | SUMMED);
    bincode::serde::encode_into_std_write(record, &mut bytes, bincode::config::standard())
        .map_err(|e| CodecError(e.to_string()))?;
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    Ok(bytes)
}

/// Reads a row, upgrading an older version.
pub fn decode<R: Record>(bytes: &[u8]) -> Result<R, CodecError> {
    let (&version, body) = bytes.split_first().ok_or_else(|| CodecError("row is empty".to_owned()))?;
    let (version, body) = if version & SUMMED == 0 {
        // Of an older release, or of this one with a damaged version byte: then there is more behind it.
        if version == R::VERSION {
            let (value, read) = bincode::serde::decode_from_slice(body, bincode::config::standard())
                .map_err(|e| CodecError(e.to_string()))?;
            let whole = read == body.len();
            return if whole {
                Ok(value)
            } else {
                Err(CodecError("row is damaged: it is too long".to_owned()))
            };
        }
        (version, body)
    } else {
        let damaged = || CodecError("row is damaged: it is not what was written".to_owned());
        let (body, sum) = body.split_last_chunk::<SUM_BYTES>().ok_or_else(damaged)?;
        if crc32fast::hash(&bytes[..bytes.len() - SUM_BYTES]).to_le_bytes() != *sum {
            return Err(damaged());
        }
        (version & !SUMMED, body)
    };
    if version == R::VERSION { decode_body(body) } else { R::upgrade(version, body) }
}

/// Reads a row's body; what [`Record::upgrade`] calls for the older struct.
pub fn decode_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    bincode::serde::decode_from_slice(body, bincode::config::standard())
        .map(|(value, _)| value)
        .map_err(|e| CodecError(e.to_string()))
}

/// A row in which other ids stand in the place of these, in their binary form and as text: for rows whose struct the caller
/// does not know. The ids are random enough that nothing else in a row has their bytes, and keep their length.
pub fn with_ids(row: &[u8], ids: &[(Uuid, Uuid)]) -> Vec<u8> {
    let mut bytes = with_ids_in_key(row, ids);
    if bytes.first().is_some_and(|version| version & SUMMED != 0)
        && bytes != row
        && let Some((body, sum)) = bytes.split_last_chunk_mut::<SUM_BYTES>()
    {
        *sum = crc32fast::hash(body).to_le_bytes();
    }
    bytes
}

/// The same for the key of a row, which has no checksum.
pub fn with_ids_in_key(key: &[u8], ids: &[(Uuid, Uuid)]) -> Vec<u8> {
    let mut bytes = key.to_vec();
    for (old, new) in ids {
        replace(&mut bytes, old.as_bytes(), new.as_bytes());
        replace(&mut bytes, old.to_string().as_bytes(), new.to_string().as_bytes());
    }
    bytes
}

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + old.len()) {
        let is_it = window == old;
        if is_it {
            bytes[at..at + old.len()].copy_from_slice(new);
        }
        at += if is_it { old.len() } else { 1 };
    }
}

/// A free-form JSON value: itself on the wire, its text in a row.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Json(pub serde_json::Value);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serializer.serialize_str(&self.0.to_string())
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            serde_json::Value::deserialize(deserializer).map(Json)
        } else {
            let text = String::deserialize(deserializer)?;
            serde_json::from_str(&text).map(Json).map_err(de::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct NoteV1 {
        name: String,
    }

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct NoteV2 {
        name: String,
        notes: Json,
    }

    impl Record for NoteV1 {}

    impl Record for NoteV2 {
        const VERSION: u8 = 2;

        fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
            match version {
                1 => decode_body::<NoteV1>(body).map(|old| NoteV2 { name: old.name, notes: Json::default() }),
                _ => Err(CodecError(format!("unknown {version}"))),
            }
        }
    }

    #[test]
    fn an_id_is_replaced_wherever_it_stands() {
        let (old, new) = (Uuid::now_v7(), Uuid::now_v7());
        let row = NoteV2 { name: format!("by {old}"), notes: Json(serde_json::json!([old, 7])) };
        let moved = with_ids(&encode(&row).unwrap(), &[(old, new)]);
        let read: NoteV2 = decode(&moved).unwrap();
        let expected = NoteV2 { name: format!("by {new}"), notes: Json(serde_json::json!([new, 7])) };
        assert_eq!(read, expected);
        assert_eq!(with_ids(&moved, &[(old, new)]), moved);
    }

    #[test]
    fn an_old_row_is_read_as_the_new_struct() {
        let bytes = encode(&NoteV1 { name: "shelf".into() }).unwrap();
        assert_eq!(
            decode::<NoteV2>(&bytes).unwrap(),
            NoteV2 { name: "shelf".into(), notes: Json::default() }
        );
    }

    #[test]
    fn a_flipped_bit_is_an_error_and_a_row_without_a_checksum_is_read() {
        let place = NoteV2 { name: "shelf".into(), notes: Json(serde_json::json!([1])) };
        let bytes = encode(&place).unwrap();
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(decode::<NoteV2>(&flipped).is_err(), "bit {at}");
        }
        // As releases before checksums wrote it.
        let mut old = bytes[..bytes.len() - SUM_BYTES].to_vec();
        old[0] &= !SUMMED;
        assert_eq!(decode::<NoteV2>(&old).unwrap(), place);
    }

    #[test]
    fn json_survives_a_row() {
        let place = NoteV2 { name: "a".into(), notes: Json(serde_json::json!({"x": [1, 2.5, null]})) };
        assert_eq!(decode::<NoteV2>(&encode(&place).unwrap()).unwrap(), place);
        assert!(decode::<NoteV2>(&[9, 0]).is_err());
        assert!(decode::<NoteV2>(&[]).is_err());
    }
}
