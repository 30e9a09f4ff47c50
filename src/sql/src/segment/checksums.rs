//! Checksums of a segment's parts: what a disk has altered is an error, and never a value.
//!
//! They stand behind the Arrow file, in a section of their own: one CRC-32 for the head of each batch, one for what each
//! column has of it, one for each dictionary, then how many there are, one over the footer and all of them, and a mark.
//! The footer's is compared when the file is opened; each other one when its part is first read, and not again, because
//! the file does not change under a mapping. So a statement pays for what it reads, once, and nothing is served that was
//! not compared.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::SegmentError;

/// The file's last bytes.
const MAGIC: [u8; 8] = *b"GLNSEG2\n";
/// The number of checksums, the checksum of footer and list, and the mark.
const TAIL_BYTES: usize = 4 + 4 + MAGIC.len();
const CHECKSUM_BYTES: usize = 4;

/// The checksums of one open segment.
#[derive(Debug)]
pub(super) struct Checksums {
    sums: Bytes,
    columns: usize,
    batches: usize,
    /// What was compared and found equal.
    seen: Vec<AtomicBool>,
}

/// A part that has a checksum of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Head { batch: usize },
    Column { batch: usize, column: usize },
    Dictionary { column: usize },
}

/// How many checksums a segment has.
fn count(batches: usize, columns: usize) -> Option<usize> {
    batches.checked_mul(columns.checked_add(1)?)?.checked_add(columns)
}

/// A file without its checksums: the Arrow file, the list, and the checksum of the footer and the list.
pub(super) fn split(bytes: &Bytes) -> Result<(Bytes, Bytes, u32), SegmentError> {
    let without = SegmentError::Damaged("it has no checksums");
    let Some(tail_at) = bytes.len().checked_sub(TAIL_BYTES) else { return Err(without) };
    let tail = &bytes[tail_at..];
    let number = |at: usize| u32::from_le_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]);
    if tail[8..] != MAGIC {
        return Err(without);
    }
    let list = (number(0) as usize).checked_mul(CHECKSUM_BYTES).and_then(|bytes| tail_at.checked_sub(bytes));
    let Some(list_at) = list else { return Err(without) };
    Ok((bytes.slice(..list_at), bytes.slice(list_at..tail_at + CHECKSUM_BYTES), number(4)))
}

/// Compares the checksum of the footer and the list.
pub(super) fn is_whole(footer: &[u8], list: &[u8], sum: u32) -> bool {
    let mut found = crc32fast::Hasher::new();
    found.update(footer);
    found.update(list);
    found.finalize() == sum
}

/// What stands behind the Arrow file whose footer is given.
pub(super) fn tail(footer: &[u8], sums: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    bytes.extend(u32::try_from(sums.len()).unwrap_or(u32::MAX).to_le_bytes());
    let mut sum = crc32fast::Hasher::new();
    sum.update(footer);
    sum.update(&bytes);
    bytes.extend(sum.finalize().to_le_bytes());
    bytes.extend(MAGIC);
    bytes
}

impl Checksums {
    /// The checksums of `list` for a segment of so many batches and columns.
    pub(super) fn new(list: Bytes, batches: usize, columns: usize) -> Result<Self, SegmentError> {
        let sums = list.slice(..list.len().saturating_sub(CHECKSUM_BYTES));
        let expected = count(batches, columns).filter(|count| count * CHECKSUM_BYTES == sums.len());
        let count = expected.ok_or(SegmentError::Damaged("its checksums are another segment's"))?;
        let seen = (0..count).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { sums, columns, batches, seen })
    }

    fn place(&self, part: Part) -> usize {
        match part {
            Part::Head { batch } => batch * (self.columns + 1),
            Part::Column { batch, column } => batch * (self.columns + 1) + 1 + column,
            Part::Dictionary { column } => self.batches * (self.columns + 1) + column,
        }
    }

    /// Compares a part with its checksum, unless that was done. `read` hands over the part's bytes, piece by piece.
    pub(super) fn compare<'b>(
        &self,
        part: Part,
        pieces: impl FnOnce() -> Result<Vec<&'b [u8]>, SegmentError>,
    ) -> Result<(), SegmentError> {
        let place = self.place(part);
        let missing = || SegmentError::Damaged("a checksum is missing");
        let seen = self.seen.get(place).ok_or_else(missing)?;
        if seen.load(Ordering::Relaxed) {
            return Ok(());
        }
        let due = self.sums.get(place * CHECKSUM_BYTES..(place + 1) * CHECKSUM_BYTES).ok_or_else(missing)?;
        if checksum(&pieces()?).to_le_bytes() != *due {
            return Err(SegmentError::Damaged("a part of it is not what was written"));
        }
        seen.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The checksum of a part.
pub(super) fn checksum(pieces: &[&[u8]]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    pieces.iter().for_each(|piece| sum.update(piece));
    sum.finalize()
}
