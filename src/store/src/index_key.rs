//! What the keys of indexes are made of, and the beginnings of keys that scans are given.
//!
//! A key is one part, or a tuple of up to four. A *prefix* is some of its first parts: `()`, one value, or a tuple. Its type
//! says what follows it ([`Prefix::Rest`]), so that a bound or an entry's rest is of the right type too.

use super::key::{AsPart, KeyPart, after_prefix, whole};
use base::ids::OrgId;
use std::marker::PhantomData;

/// The key of an index: parts in the order in which they sort.
pub trait IndexKey: Sized {
    /// The part in front.
    type First: KeyPart;

    /// `None` when the bytes are not such a key.
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// What there is none of: the first part of what has no parts.
#[derive(Clone, Copy, Debug)]
pub enum NoPart {}

impl KeyPart for NoPart {
    fn write_part(&self, _: &mut Vec<u8>) {
        match *self {}
    }

    fn read_part(_: &[u8]) -> Option<(Self, &[u8])> {
        None
    }
}

/// What follows a whole key.
impl IndexKey for () {
    type First = NoPart;

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

impl<A: KeyPart> IndexKey for A {
    type First = A;

    fn read(bytes: &[u8]) -> Option<Self> {
        whole(bytes)
    }
}

impl<A: KeyPart, B: KeyPart> IndexKey for (A, B) {
    type First = A;

    fn read(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = A::read_part(bytes)?;
        Some((first, whole(rest)?))
    }
}

impl<A: KeyPart, B: KeyPart, C: KeyPart> IndexKey for (A, B, C) {
    type First = A;

    fn read(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = A::read_part(bytes)?;
        let (second, third) = <(B, C)>::read(rest)?;
        Some((first, second, third))
    }
}

impl<A: KeyPart, B: KeyPart, C: KeyPart, D: KeyPart> IndexKey for (A, B, C, D) {
    type First = A;

    fn read(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = A::read_part(bytes)?;
        let (second, third, fourth) = <(B, C, D)>::read(rest)?;
        Some((first, second, third, fourth))
    }
}

/// The first parts of keys `K`. With nothing left ([`Prefix::Rest`] is `()`) it is a whole key.
pub trait Prefix<K: IndexKey> {
    /// What follows it in a key.
    type Rest: IndexKey;

    fn write(&self, out: &mut Vec<u8>);
}

/// Every key.
impl<K: IndexKey> Prefix<K> for () {
    type Rest = K;

    fn write(&self, _: &mut Vec<u8>) {}
}

macro_rules! prefixes {
    ($([$($part:ident $given:ident $at:tt),+] of [$($key:ident),+] then [$($rest:ident),*];)*) => {$(
        impl<$($key: KeyPart,)+ $($given: AsPart<Of = $part>),+> Prefix<prefixes!(@tuple $($key),+)> for prefixes!(@tuple $($given),+) {
            type Rest = prefixes!(@tuple $($rest),*);

            fn write(&self, out: &mut Vec<u8>) {
                $(prefixes!(@part self $at).write_as(out);)+
            }
        }
    )*};
    (@tuple $one:ident) => { $one };
    (@tuple $($many:ident),*) => { ($($many),*) };
    (@part $of:ident whole) => { $of };
    (@part $of:ident $at:tt) => { $of.$at };
}

prefixes! {
    [A P whole] of [A] then [];
    [A P whole] of [A, B] then [B];
    [A P 0, B Q 1] of [A, B] then [];
    [A P whole] of [A, B, C] then [B, C];
    [A P 0, B Q 1] of [A, B, C] then [C];
    [A P 0, B Q 1, C R 2] of [A, B, C] then [];
    [A P whole] of [A, B, C, D] then [B, C, D];
    [A P 0, B Q 1] of [A, B, C, D] then [C, D];
    [A P 0, B Q 1, C R 2] of [A, B, C, D] then [D];
    [A P 0, B Q 1, C R 2, D S 3] of [A, B, C, D] then [];
}

/// What stands in an index of all keys that begin so, in the scope of these bytes.
pub(super) fn prefix_bytes<K: IndexKey>(scope: Vec<u8>, prefix: &impl Prefix<K>) -> Vec<u8> {
    let mut bytes = scope;
    prefix.write(&mut bytes);
    bytes
}

pub(super) fn part_bytes(part: &impl KeyPart) -> Vec<u8> {
    let mut bytes = Vec::new();
    part.write_part(&mut bytes);
    bytes
}

/// The keys under which one row stands in an index.
pub struct IndexKeys<K> {
    pub(super) keys: Vec<Vec<u8>>,
    marker: PhantomData<fn(K)>,
}

impl<K: IndexKey> IndexKeys<K> {
    pub(super) fn new() -> IndexKeys<K> {
        IndexKeys { keys: Vec::new(), marker: PhantomData }
    }

    /// Adds one key.
    pub fn add(&mut self, key: impl Prefix<K, Rest = ()>) {
        self.keys.push(prefix_bytes(Vec::new(), &key));
    }
}

/// A place in an index from which a walk goes on.
#[derive(Debug)]
pub struct Seek<K> {
    /// The smallest entry that may follow; none behind the last one.
    pub(super) from: Option<Vec<u8>>,
    marker: PhantomData<fn(K)>,
}

impl<K> Clone for Seek<K> {
    fn clone(&self) -> Self {
        Seek::new(self.from.clone())
    }
}

impl<K> PartialEq for Seek<K> {
    fn eq(&self, other: &Self) -> bool {
        self.from == other.from
    }
}

impl<K> Eq for Seek<K> {}

impl<K> Seek<K> {
    pub(super) fn new(from: Option<Vec<u8>>) -> Seek<K> {
        Seek { from, marker: PhantomData }
    }

    /// Right behind one entry.
    pub(super) fn behind_entry(mut entry: Vec<u8>) -> Seek<K> {
        entry.push(0);
        Seek::new(Some(entry))
    }
}

impl<K: IndexKey> Seek<K> {
    /// The first entry of all.
    pub fn start() -> Seek<K> {
        Seek::new(Some(Vec::new()))
    }

    /// The first entry that begins so, or the next one behind where it would be.
    pub fn at(prefix: &impl Prefix<K>) -> Seek<K> {
        Seek::new(Some(prefix_bytes(Vec::new(), prefix)))
    }

    /// Behind the last entry of a global index that has this whole key and is this organization's.
    pub fn behind_org(key: &impl Prefix<K, Rest = ()>, org: OrgId) -> Seek<K> {
        Seek::new(after_prefix(
            &prefix_bytes(Vec::new(), key).into_iter().chain(*org.0.as_bytes()).collect::<Vec<_>>(),
        ))
    }

    /// Behind the last entry that begins so.
    pub fn behind(prefix: &impl Prefix<K>) -> Seek<K> {
        Seek::new(after_prefix(&prefix_bytes(Vec::new(), prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::clock::Moment;
    use base::ids::UserId;
    use uuid::Uuid;

    fn bytes<K: IndexKey>(prefix: impl Prefix<K>) -> Vec<u8> {
        prefix_bytes(Vec::new(), &prefix)
    }

    /// What stands in data folders that were written before.
    #[test]
    fn a_key_is_its_parts_in_their_order() {
        type QueueKey = (String, String, u8, Moment);
        let whole = bytes::<QueueKey>(("a.test", "www.a.test", 5, Moment(3)));
        let mut due = b"a.test\x00\x01www.a.test\x00\x01\x05".to_vec();
        due.extend([0x80, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(whole, due);
        assert_eq!(
            QueueKey::read(&whole),
            Some(("a.test".to_owned(), "www.a.test".to_owned(), 5, Moment(3)))
        );
        for prefix in [
            bytes::<QueueKey>(()),
            bytes::<QueueKey>("a.test"),
            bytes::<QueueKey>(("a.test", "www.a.test")),
            bytes::<QueueKey>(("a.test", "www.a.test", 5)),
        ] {
            assert_eq!(prefix, due[..prefix.len()]);
        }
        assert!(!whole.starts_with(&bytes::<QueueKey>("a.tes")));
        // An organization's statements and an agent's.
        let agent = UserId(Uuid::from_u128(1));
        assert_eq!(bytes::<(Option<UserId>, String)>((None, "n")), [0, b'n', 0, 1]);
        let of_agent = [&[1], agent.0.as_bytes().as_slice(), &[b'n', 0, 1]].concat();
        assert_eq!(bytes::<(Option<UserId>, String)>((Some(agent), "n")), of_agent);
        assert_eq!(bytes::<[u8; 2]>(&[8, 9]), [8, 9]);
        assert_eq!(bytes::<(u8, u64, u8)>((1, 2, 3)), [1, 0, 0, 0, 0, 0, 0, 0, 2, 3]);
        assert_eq!(bytes::<(u8, u64, u8)>((1, 2)), bytes::<(u8, u64)>((1, 2)));
    }

    #[test]
    fn what_is_no_such_key_is_none() {
        assert_eq!(<(u8, Moment)>::read(&[1, 2]), None);
        assert_eq!(<(u8, u8)>::read(&[1, 2, 3]), None);
        assert_eq!(<(String, u8, u8)>::read(&[b'a', 1, 1]), None);
        assert_eq!(<()>::read(&[1]), None);
        assert_eq!(<()>::read(&[]), Some(()));
        assert!(NoPart::read_part(&[1]).is_none());
    }

    #[test]
    fn places_to_go_on_from() {
        type Pair = (String, u8);
        let behind = Seek::<Pair>::behind(&"a").from.unwrap();
        assert!(behind > bytes::<Pair>(("a", 255)) && behind < bytes::<Pair>(("a\0", 0)));
        assert!(behind < bytes::<Pair>(("b", 0)));
        assert_eq!(Seek::<Pair>::at(&("a", 7)).from.unwrap(), bytes::<Pair>(("a", 7)));
        assert_eq!(Seek::<u8>::behind(&255).from, None);
        assert_eq!(Seek::<u8>::start().from, Some(Vec::new()));
        let entry = bytes::<u8>(4);
        let next = Seek::<u8>::behind_entry(entry.clone()).from.unwrap();
        assert!(next > entry && next < [entry.as_slice(), &[0, 0]].concat());
    }
}
