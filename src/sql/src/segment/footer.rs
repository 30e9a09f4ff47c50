//! The footer of an Arrow file: where its batches and dictionaries lie, and the schema that they have.

use bytes::Bytes;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::arrow::ipc::{self, reader::read_footer_length};

use super::{KEY_BYTES, SegmentError, dictionary_type};

/// The file's last bytes: the footer's length and the magic.
const TRAILER_BYTES: usize = 10;
/// A message starts with a continuation mark and its length.
const MESSAGE_PREFIX_BYTES: usize = 8;

/// Where one batch lies in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) offset: usize,
    pub(super) metadata_bytes: usize,
    pub(super) body_bytes: usize,
    /// Rows of all batches before this one.
    pub(super) first_row: usize,
    pub(super) rows: usize,
}

impl Block {
    /// The place that a footer gives, if it lies before the footer.
    pub(super) fn of(block: &ipc::Block, footer_at: usize) -> Option<Self> {
        let offset = usize::try_from(block.offset()).ok()?;
        let metadata_bytes = usize::try_from(block.metaDataLength()).ok()?;
        let body_bytes = usize::try_from(block.bodyLength()).ok()?;
        let end = offset.checked_add(metadata_bytes)?.checked_add(body_bytes)?;
        (end <= footer_at && metadata_bytes >= MESSAGE_PREFIX_BYTES).then_some(Self {
            offset,
            metadata_bytes,
            body_bytes,
            first_row: 0,
            rows: 0,
        })
    }

    /// All bytes before the body.
    pub(super) fn head<'a>(&self, bytes: &'a Bytes) -> &'a [u8] {
        &bytes[self.offset..self.offset + self.metadata_bytes]
    }

    pub(super) fn whole<'a>(&self, bytes: &'a Bytes) -> &'a [u8] {
        &bytes[self.offset..self.offset + self.metadata_bytes + self.body_bytes]
    }

    pub(super) fn message<'a>(&self, bytes: &'a Bytes) -> Option<ipc::Message<'a>> {
        let head = self.offset + MESSAGE_PREFIX_BYTES..self.offset + self.metadata_bytes;
        ipc::root_as_message(&bytes[head]).ok()
    }

    pub(super) fn body(&self, bytes: &Bytes) -> Bytes {
        let at = self.offset + self.metadata_bytes;
        bytes.slice(at..at + self.body_bytes)
    }

    pub(super) fn dictionary_id(&self, bytes: &Bytes) -> Option<i64> {
        Some(self.message(bytes)?.header_as_dictionary_batch()?.id())
    }
}

/// Where the footer of an Arrow file lies.
pub(super) fn footer_of(bytes: &Bytes) -> Result<std::ops::Range<usize>, SegmentError> {
    let damaged = SegmentError::Damaged;
    let trailer_at = bytes.len().checked_sub(TRAILER_BYTES).ok_or(damaged("it is too short"))?;
    let trailer: [u8; TRAILER_BYTES] =
        bytes[trailer_at..].try_into().map_err(|_| damaged("it is too short"))?;
    let footer_bytes = read_footer_length(trailer).map_err(|_| damaged("it has no footer"))?;
    let footer_at = trailer_at.checked_sub(footer_bytes).ok_or(damaged("its footer is cut"))?;
    Ok(footer_at..trailer_at)
}

/// The schema's fields, if all have types that segments have, and of each dictionary-encoded one the id of its dictionary. (arrow's
/// own conversion panics on a damaged file.)
pub(super) fn fields(schema: ipc::Schema<'_>) -> Option<(Vec<Field>, Vec<Option<i64>>)> {
    let field = |field: ipc::Field<'_>| {
        let dictionary = field.dictionary();
        let data_type = match field.type_type() {
            ipc::Type::Utf8 if dictionary.is_some() => {
                let codes = dictionary?.indexType()?;
                (codes.bitWidth() == 32 && codes.is_signed()).then(dictionary_type)?
            }
            ipc::Type::Utf8 => DataType::Utf8,
            ipc::Type::Bool => DataType::Boolean,
            ipc::Type::Int => {
                let int = field.type_as_int()?;
                (int.bitWidth() == 64 && int.is_signed()).then_some(DataType::Int64)?
            }
            ipc::Type::FloatingPoint => {
                let float = field.type_as_floating_point()?;
                (float.precision() == ipc::Precision::DOUBLE).then_some(DataType::Float64)?
            }
            ipc::Type::Timestamp => {
                let time = field.type_as_timestamp()?;
                let plain = time.unit() == ipc::TimeUnit::MILLISECOND && time.timezone().is_none();
                plain.then_some(DataType::Timestamp(TimeUnit::Millisecond, None))?
            }
            ipc::Type::FixedSizeBinary => {
                let width = field.type_as_fixed_size_binary()?.byteWidth();
                (width == KEY_BYTES as i32).then_some(DataType::FixedSizeBinary(width))?
            }
            _ => return None,
        };
        Some((Field::new(field.name()?, data_type, field.nullable()), dictionary.map(|own| own.id())))
    };
    schema.fields()?.iter().map(field).collect()
}

/// For each column the index of its first buffer, and one more entry with the number of all buffers.
pub(super) fn first_buffers(schema: &Schema) -> Vec<usize> {
    let mut at = 0;
    let mut firsts = Vec::with_capacity(schema.fields().len() + 1);
    for field in schema.fields() {
        firsts.push(at);
        at += if *field.data_type() == DataType::Utf8 { 3 } else { 2 };
    }
    firsts.push(at);
    firsts
}
