//! Thrift's compact protocol, as much of it as Parquet's footer needs (Apache Thrift, "Thrift compact protocol").

/// Types of fields and of members of lists.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Writes one struct; its fields come in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    pub(super) fn new() -> Struct {
        Struct::default()
    }

    fn field(&mut self, number: u8, kind: u8) {
        debug_assert!(number > self.last && number - self.last < 16);
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    pub(super) fn bool(mut self, number: u8, value: bool) -> Struct {
        self.field(number, if value { TRUE } else { FALSE });
        self
    }

    pub(super) fn byte(mut self, number: u8, value: u8) -> Struct {
        self.field(number, BYTE);
        self.bytes.push(value);
        self
    }

    pub(super) fn i32(mut self, number: u8, value: i32) -> Struct {
        self.field(number, I32);
        varint(&mut self.bytes, zigzag(value.into()));
        self
    }

    pub(super) fn i64(mut self, number: u8, value: i64) -> Struct {
        self.field(number, I64);
        varint(&mut self.bytes, zigzag(value));
        self
    }

    pub(super) fn text(mut self, number: u8, value: &str) -> Struct {
        self.field(number, BINARY);
        text(&mut self.bytes, value);
        self
    }

    pub(super) fn inner(mut self, number: u8, value: Struct) -> Struct {
        self.field(number, STRUCT);
        self.bytes.extend_from_slice(&value.end());
        self
    }

    pub(super) fn structs(mut self, number: u8, values: Vec<Struct>) -> Struct {
        self.list(number, STRUCT, values.len());
        for value in values {
            self.bytes.extend_from_slice(&value.end());
        }
        self
    }

    pub(super) fn i32s(mut self, number: u8, values: &[i32]) -> Struct {
        self.list(number, I32, values.len());
        for value in values {
            varint(&mut self.bytes, zigzag((*value).into()));
        }
        self
    }

    pub(super) fn texts(mut self, number: u8, values: &[&str]) -> Struct {
        self.list(number, BINARY, values.len());
        for value in values {
            text(&mut self.bytes, value);
        }
        self
    }

    fn list(&mut self, number: u8, kind: u8, count: usize) {
        self.field(number, LIST);
        match u8::try_from(count) {
            Ok(few @ 0..15) => self.bytes.push(few << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                varint(&mut self.bytes, count as u64);
            }
        }
    }

    /// The whole struct.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Seven bits a byte, the low ones first.
pub(super) fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn text(bytes: &mut Vec<u8>, value: &str) {
    varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_protocol_says() {
        let inner = Struct::new().bool(1, true).bool(2, false);
        let bytes = Struct::new().i32(1, -1).i64(3, 300).text(4, "ab").inner(8, inner).i32s(9, &[1, 2]).end();
        let expected =
            [0x15, 1, 0x26, 0xd8, 0x04, 0x18, 2, b'a', b'b', 0x4c, 0x11, 0x12, 0, 0x19, 0x25, 2, 4, 0];
        assert_eq!(bytes, expected);
        let many = Struct::new().i32s(1, &[0; 20]).end();
        assert_eq!(many[..3], [0x19, 0xf5, 20]);
        assert_eq!(
            (zigzag(0), zigzag(-1), zigzag(i64::MAX), zigzag(i64::MIN)),
            (0, 1, u64::MAX - 1, u64::MAX)
        );
    }
}
