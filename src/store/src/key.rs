//! Keys as bytes whose order is the order of what they mean. This file alone knows the bytes: tables and indexes are declared
//! with types, and slices write and read those.
//!
//! A table's key ([`Key`]) is all of what stands behind its scope. Keys of several parts, as most indexes have, are made of
//! [`KeyPart`]s, each of which tells where it ends.

use uuid::Uuid;

use base::clock::{Moment, Timestamp};
use base::ids::*;

/// A primary key: bytes that sort like the value, and back.
pub trait Key: Sized {
    fn encode(&self, out: &mut Vec<u8>);

    /// `None` when the bytes are not such a key.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// A part of a key. Its bytes sort like its values and tell where they end, so that a key of the first parts is a prefix of
/// exactly the keys that agree in them.
pub trait KeyPart: Sized {
    fn write_part(&self, out: &mut Vec<u8>);

    /// The part in front and what follows it; `None` when the bytes begin with no such part.
    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])>;
}

/// What can be written as a part, without being made the part's own type first.
pub trait AsPart {
    type Of: KeyPart;

    fn write_as(&self, out: &mut Vec<u8>);
}

impl<P: KeyPart> AsPart for P {
    type Of = P;

    fn write_as(&self, out: &mut Vec<u8>) {
        self.write_part(out);
    }
}

/// In the order of time, as ids are.
impl KeyPart for Uuid {
    fn write_part(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (id, rest) = bytes.split_first_chunk()?;
        Some((Uuid::from_bytes(*id), rest))
    }
}

macro_rules! id_keys {
    ($($(#[$doc:meta])* $id:ident $($noun:literal)?;)*) => {
        $(
            impl KeyPart for $id {
                fn write_part(&self, out: &mut Vec<u8>) {
                    self.0.write_part(out);
                }

                fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
                    Uuid::read_part(bytes).map(|(id, rest)| ($id(id), rest))
                }
            }
        )*

        one_part_keys! { $($id)* }
    };
}

/// Keys of one part.
macro_rules! one_part_keys {
    ($($part:ty)*) => {$(
        impl Key for $part {
            fn encode(&self, out: &mut Vec<u8>) {
                self.write_part(out);
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                whole(bytes)
            }
        }
    )*};
}

/// The part that is all of the bytes.
pub(super) fn whole<P: KeyPart>(bytes: &[u8]) -> Option<P> {
    P::read_part(bytes).and_then(|(part, rest)| rest.is_empty().then_some(part))
}

base::each_id!(id_keys);

// A digest, such as the SHA-256 under which a secret is kept.
one_part_keys! { Uuid u64 [u8; 32] }

macro_rules! integer_parts {
    ($($int:ty)*) => {$(
        /// Smaller ones first.
        impl KeyPart for $int {
            fn write_part(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
                let (int, rest) = bytes.split_first_chunk()?;
                Some((<$int>::from_be_bytes(*int), rest))
            }
        }
    )*};
}

integer_parts! { u8 u32 u64 }

/// Bytes of a length that every key has.
impl<const N: usize> KeyPart for [u8; N] {
    fn write_part(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
        bytes.split_first_chunk().map(|(part, rest)| (*part, rest))
    }
}

impl<const N: usize> AsPart for &[u8; N] {
    type Of = [u8; N];

    fn write_as(&self, out: &mut Vec<u8>) {
        self.write_part(out);
    }
}

/// The sign turned, so that what was before 1970 comes first.
const SIGN: u64 = 1 << 63;

/// Earlier ones first.
impl KeyPart for Moment {
    fn write_part(&self, out: &mut Vec<u8>) {
        ((self.0 as u64) ^ SIGN).write_part(out);
    }

    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
        u64::read_part(bytes).map(|(time, rest)| (Moment((time ^ SIGN) as i64), rest))
    }
}

/// Earlier ones first; as a moment.
impl KeyPart for Timestamp {
    fn write_part(&self, out: &mut Vec<u8>) {
        Moment(self.0).write_part(out);
    }

    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
        Moment::read_part(bytes).map(|(time, rest)| (Timestamp(time.0), rest))
    }
}

/// None before all that there is.
impl<P: KeyPart> KeyPart for Option<P> {
    fn write_part(&self, out: &mut Vec<u8>) {
        u8::from(self.is_some()).write_part(out);
        if let Some(part) = self {
            part.write_part(out);
        }
    }

    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
        match u8::read_part(bytes)? {
            (0, rest) => Some((None, rest)),
            (1, rest) => P::read_part(rest).map(|(part, rest)| (Some(part), rest)),
            _ => None,
        }
    }
}

/// How a zero byte within a text goes on, and how the text's end does: "a" does not lead to "ab", and comes before it.
const ZERO_WITHIN: u8 = 0xFF;
const ZERO_AT_END: u8 = 1;

impl AsPart for &str {
    type Of = String;

    fn write_as(&self, out: &mut Vec<u8>) {
        for &byte in self.as_bytes() {
            out.push(byte);
            if byte == 0 {
                out.push(ZERO_WITHIN);
            }
        }
        out.extend_from_slice(&[0, ZERO_AT_END]);
    }
}

impl AsPart for &String {
    type Of = String;

    fn write_as(&self, out: &mut Vec<u8>) {
        self.as_str().write_as(out);
    }
}

impl KeyPart for String {
    fn write_part(&self, out: &mut Vec<u8>) {
        self.as_str().write_as(out);
    }

    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (mut text, mut rest) = (Vec::new(), bytes);
        loop {
            let (before, from) = rest.split_at(rest.iter().position(|byte| *byte == 0)?);
            text.extend_from_slice(before);
            match *from.get(1)? {
                ZERO_WITHIN => text.push(0),
                ZERO_AT_END => return Some((String::from_utf8(text).ok()?, &from[2..])),
                _ => return None,
            }
            rest = &from[2..];
        }
    }
}

/// A text alone: it ends where the key does.
impl Key for String {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// A name in front of other parts of a table's key: a text without the byte 0, which ends it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub String);

impl KeyPart for Name {
    fn write_part(&self, out: &mut Vec<u8>) {
        debug_assert!(!self.0.contains('\0'), "one name's keys would be inside another's");
        out.extend_from_slice(self.0.as_bytes());
        out.push(0);
    }

    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (name, end) = bytes.split_at(bytes.iter().position(|byte| *byte == 0)?);
        Some((Name(String::from_utf8(name.to_vec()).ok()?), &end[1..]))
    }
}

/// A text that is the last part of a table's key and ends where that does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastText(pub String);

impl KeyPart for LastText {
    fn write_part(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn read_part(bytes: &[u8]) -> Option<(Self, &[u8])> {
        String::decode(bytes).map(|text| (LastText(text), &bytes[bytes.len()..]))
    }
}

impl<A: KeyPart, B: KeyPart> Key for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.write_part(out);
        self.1.write_part(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = A::read_part(bytes)?;
        Some((first, whole(rest)?))
    }
}

impl<A: KeyPart, B: KeyPart, C: KeyPart> Key for (A, B, C) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.write_part(out);
        self.1.write_part(out);
        self.2.write_part(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = A::read_part(bytes)?;
        let (second, third) = <(B, C)>::decode(rest)?;
        Some((first, second, third))
    }
}

/// The only row of a table that has one.
impl Key for () {
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

pub(super) fn encoded<K: Key>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    key.encode(&mut bytes);
    bytes
}

/// The smallest byte string greater than every one that starts with `prefix`; `None` when there is none.
pub(super) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests;
