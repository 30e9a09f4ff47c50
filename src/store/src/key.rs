//! Keys as bytes whose order is the order of what they mean.

use uuid::Uuid;

use base::clock::{Moment, Timestamp};
use base::ids::*;

/// A primary key: bytes that sort like the value, and back.
pub trait Key: Sized {
    fn encode(&self, out: &mut Vec<u8>);

    /// `None` when the bytes are not such a key.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

impl Key for Uuid {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Uuid::from_slice(bytes).ok()
    }
}

macro_rules! id_keys {
    ($($id:ident)*) => {$(
        impl Key for $id {
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                Uuid::decode(bytes).map($id)
            }
        }
    )*};
}

id_keys! {
    OrgId UserId ApiKeyId UrlId JobId ResultId QueryId WorkflowId WorkflowVersionId ScheduleId ScheduleRunId
    BenchmarkId ProviderId TransactionId RechargeId SchemaId AuditId MailId InviteId SavedQueryId BiExportId ErasureId
    AccountExportId OutputId SuggestionId
}

impl Key for String {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl Key for u64 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(u64::from_be_bytes)
    }
}

/// A digest, such as the SHA-256 under which a secret is kept.
impl Key for [u8; 32] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
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

/// Composes index keys. Every part is self-delimiting, so a key made of the first parts is a prefix of exactly the
/// entries that agree in them.
#[derive(Default)]
pub struct KeyWriter(pub(super) Vec<u8>);

impl KeyWriter {
    /// A string: 0x00 is escaped and the end is marked, so "a" does not lead to "ab".
    pub fn str(&mut self, text: &str) -> &mut Self {
        for &byte in text.as_bytes() {
            self.0.push(byte);
            if byte == 0 {
                self.0.push(0xFF);
            }
        }
        self.0.extend_from_slice(&[0, 1]);
        self
    }

    pub fn u8(&mut self, n: u8) -> &mut Self {
        self.0.push(n);
        self
    }

    pub fn u64(&mut self, n: u64) -> &mut Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }

    /// Earlier times first.
    pub fn time(&mut self, time: Timestamp) -> &mut Self {
        self.fixed(&time_key(Moment(time.0)))
    }

    /// Earlier moments first.
    pub fn moment(&mut self, moment: Moment) -> &mut Self {
        self.time(Timestamp(moment.0))
    }

    pub fn id(&mut self, id: impl Into<Uuid>) -> &mut Self {
        self.0.extend_from_slice(id.into().as_bytes());
        self
    }

    /// The key as far as it was written: a prefix of the entries that agree in its parts.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Bytes of a length that every key of the index shares.
    pub fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// A moment, or a date, as it stands in a key: earlier ones first.
pub fn time_key(time: Moment) -> [u8; 8] {
    ((time.0 as u64) ^ (1 << 63)).to_be_bytes()
}

/// The keys under which one row stands in an index.
#[derive(Default)]
pub struct IndexKeys(pub(super) Vec<Vec<u8>>);

impl IndexKeys {
    /// Adds one key.
    pub fn add(&mut self, write: impl FnOnce(&mut KeyWriter) -> &mut KeyWriter) {
        let mut key = KeyWriter::default();
        write(&mut key);
        self.0.push(key.0);
    }
}

/// The smallest byte string greater than every one that starts with `prefix`; `None` when there is none.
pub(super) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_bytes_is_order_of_values() {
        let key = |text: &str, time: i64| {
            let mut writer = KeyWriter::default();
            writer.str(text).time(Timestamp(time));
            writer.0
        };
        let mut keys =
            vec![key("b", -5), key("a\0b", 1), key("a", 9), key("ab", 0), key("b", 7), key("a", -9)];
        keys.sort();
        let expected =
            vec![key("a", -9), key("a", 9), key("a\0b", 1), key("ab", 0), key("b", -5), key("b", 7)];
        assert_eq!(keys, expected);
    }

    #[test]
    fn prefix_ends() {
        assert_eq!(after_prefix(&[1, 0xFF]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xFF, 0xFF]), None);
        assert_eq!(after_prefix(&[]), None);
    }
}
