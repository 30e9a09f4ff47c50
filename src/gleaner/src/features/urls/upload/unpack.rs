//! The bytes of an upload unpacked as they come: gzip, zstd, or as they are. What a body may become is bounded, and so is what
//! it takes to unpack it.

use base::limits::{UPLOAD_RATIO_FROM_BYTES, UPLOAD_RATIO_MAX, UPLOAD_UNPACKED_BYTES_MAX};
use base::{Code, Error, Result};
use bytes::{Buf, Bytes};
use flate2::bufread::GzDecoder;
use std::collections::VecDeque;
use std::io::{self, BufRead, ErrorKind, Read};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// The largest window of zstd, as a power of two: what RFC 9659 lets a sender use.
const ZSTD_WINDOW_LOG: u32 = 23;

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
    Zstd,
}

impl Coding {
    /// By the name of a content coding, or of a media type behind `application/`.
    pub(super) fn named(name: &str) -> Option<Coding> {
        match name {
            "gzip" | "x-gzip" => Some(Coding::Gzip),
            "zstd" | "x-zstd" => Some(Coding::Zstd),
            _ => None,
        }
    }

    /// By what bytes begin with.
    pub(super) fn of_magic(bytes: &[u8]) -> Option<Coding> {
        match bytes {
            [0x1F, 0x8B, ..] => Some(Coding::Gzip),
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Coding::Zstd),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Coding::Plain => "identity",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
        }
    }
}

/// Parts that came and were not used yet. Reading on where there are none, and more may come, would block.
#[derive(Debug, Default)]
struct Parts {
    parts: VecDeque<Bytes>,
    has_ended: bool,
}

impl Read for Parts {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Parts {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.parts.front().is_some_and(Bytes::is_empty) {
            self.parts.pop_front();
        }
        match self.parts.front() {
            Some(part) => Ok(part),
            None if self.has_ended => Ok(&[]),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn consume(&mut self, count: usize) {
        if let Some(part) = self.parts.front_mut() {
            part.advance(count.min(part.len()));
        }
    }
}

impl Parts {
    /// Whether the bytes that come begin so.
    fn begin_with(&self, wanted: [u8; 2]) -> io::Result<bool> {
        let mut bytes = self.parts.iter().flatten();
        for wanted in wanted {
            match bytes.next() {
                Some(byte) if *byte == wanted => {}
                None if !self.has_ended => return Err(ErrorKind::WouldBlock.into()),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// What a look for more found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    Bytes(usize),
    /// Nothing before more has come.
    Starved,
    End,
}

/// A body that is being unpacked.
pub(super) struct Unpacker {
    by: Algorithm,
    came: u64,
    became: u64,
}

enum Algorithm {
    Plain(Parts),
    Gzip(Box<GzipMembers>),
    Zstd(Box<ZstdFrames>),
}

struct GzipMembers {
    decoder: GzDecoder<Parts>,
    /// A member has ended.
    is_between: bool,
    /// Bytes behind the last member that are of none.
    ignored: u64,
}

struct ZstdFrames {
    parts: Parts,
    decoder: Decoder<'static>,
    /// A frame has begun and not ended.
    is_open: bool,
    /// The decoder may hold more than there was room for.
    may_hold: bool,
}

impl Unpacker {
    pub(super) fn new(coding: Coding) -> Result<Unpacker> {
        let parts = Parts::default();
        let by = match coding {
            Coding::Plain => Algorithm::Plain(parts),
            Coding::Gzip => {
                let decoder = GzDecoder::new(parts);
                Algorithm::Gzip(Box::new(GzipMembers { decoder, is_between: false, ignored: 0 }))
            }
            Coding::Zstd => {
                let begin = |e| Error::internal("begin to unpack zstd", e);
                let mut decoder = Decoder::new().map_err(begin)?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(begin)?;
                Algorithm::Zstd(Box::new(ZstdFrames { parts, decoder, is_open: false, may_hold: false }))
            }
        };
        Ok(Unpacker { by, came: 0, became: 0 })
    }

    fn parts(&mut self) -> &mut Parts {
        match &mut self.by {
            Algorithm::Plain(parts) => parts,
            Algorithm::Gzip(members) => members.decoder.get_mut(),
            Algorithm::Zstd(frames) => &mut frames.parts,
        }
    }

    pub(super) fn push(&mut self, part: Bytes) {
        self.came += part.len() as u64;
        self.parts().parts.push_back(part);
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        self.parts().has_ended = true;
    }

    /// Bytes behind a whole body that are none of it and were passed over.
    pub(super) fn ignored(&self) -> u64 {
        if let Algorithm::Gzip(members) = &self.by { members.ignored } else { 0 }
    }

    /// Some more of what the body says.
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<Unpacked> {
        let (read, coding) = match &mut self.by {
            Algorithm::Plain(parts) => (parts.read(out), Coding::Plain),
            Algorithm::Gzip(members) => (members.read(out), Coding::Gzip),
            Algorithm::Zstd(frames) => (frames.read(out), Coding::Zstd),
        };
        match read {
            Ok(0) => Ok(Unpacked::End),
            Ok(count) => {
                self.became += count as u64;
                self.check_size(coding)?;
                Ok(Unpacked::Bytes(count))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Unpacked::Starved),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(Error::invalid("body", format!("the {} ends before its end", coding.name())))
            }
            Err(error) => Err(Error::invalid("body", format!("is not {}: {error}", coding.name()))),
        }
    }

    fn check_size(&self, coding: Coding) -> Result<()> {
        let too_large = |what: String| Err(Error::new(Code::PayloadTooLarge).message(what));
        if self.became > UPLOAD_UNPACKED_BYTES_MAX {
            return too_large(format!(
                "Unpacked the body is larger than {} MiB.",
                UPLOAD_UNPACKED_BYTES_MAX >> 20
            ));
        }
        if coding != Coding::Plain
            && self.became > UPLOAD_RATIO_FROM_BYTES
            && self.became / UPLOAD_RATIO_MAX > self.came
        {
            return too_large(format!("Unpacked the body is more than {UPLOAD_RATIO_MAX} times as large."));
        }
        Ok(())
    }
}

impl GzipMembers {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_between && !self.begins_again()? {
                return Ok(0);
            }
            match self.decoder.read(out)? {
                0 => self.is_between = true,
                count => return Ok(count),
            }
        }
    }

    /// Whether another member follows. Zeros, which fill up blocks, and what else is none are passed over, as `gzip` does it.
    fn begins_again(&mut self) -> io::Result<bool> {
        let parts = self.decoder.get_mut();
        loop {
            let bytes = parts.fill_buf()?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            if bytes.is_empty() {
                return Ok(false);
            } else if self.ignored > 0 {
                let count = bytes.len();
                self.ignored += count as u64;
                parts.consume(count);
            } else if zeros > 0 {
                parts.consume(zeros);
            } else if parts.begin_with([0x1F, 0x8B])? {
                let parts = std::mem::take(parts);
                self.decoder.reset(parts);
                self.is_between = false;
                return Ok(true);
            } else {
                self.ignored = 1;
                parts.consume(1);
            }
        }
    }
}

impl ZstdFrames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let input = match self.parts.fill_buf() {
                Ok(input) => input,
                Err(_) if self.may_hold => &[],
                Err(error) => return Err(error),
            };
            if input.is_empty() && !self.may_hold {
                return if self.is_open { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(0) };
            }
            let (mut input, mut output) = (InBuffer::around(input), OutBuffer::around(&mut *out));
            let hint = self.decoder.run(&mut input, &mut output)?;
            let (used, made) = (input.pos(), output.pos());
            self.parts.consume(used);
            self.may_hold = made == out.len();
            self.is_open = hint != 0;
            if hint == 0 {
                self.decoder.reinit()?;
                self.may_hold = false;
            }
            if made > 0 {
                return Ok(made);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Unpacks what comes in parts of `size`, with little room for what it becomes.
    fn unpack(coding: Coding, body: &[u8], size: usize) -> Result<Vec<u8>> {
        Ok(unpack_with(coding, body, size)?.0)
    }

    fn unpack_with(coding: Coding, body: &[u8], size: usize) -> Result<(Vec<u8>, Unpacker)> {
        let mut unpacker = Unpacker::new(coding)?;
        let (mut whole, mut out) = (Vec::new(), [0; 7]);
        let mut parts = body.chunks(size);
        loop {
            match unpacker.read(&mut out)? {
                Unpacked::Bytes(count) => whole.extend_from_slice(&out[..count]),
                Unpacked::Starved => match parts.next() {
                    Some(part) => unpacker.push(Bytes::copy_from_slice(part)),
                    None => unpacker.end(),
                },
                Unpacked::End => return Ok((whole, unpacker)),
            }
        }
    }

    #[test]
    fn what_comes_in_parts_of_any_size_is_unpacked_whole() {
        let text = b"https://a.example/1\nhttps://a.example/2\n".repeat(40);
        let zstd = |text: &[u8]| zstd::encode_all(text, 3).unwrap();
        for size in [1, 2, 3, 10, 64, 100_000] {
            assert_eq!(unpack(Coding::Plain, &text, size).unwrap(), text);
            assert_eq!(unpack(Coding::Gzip, &gzip(&text), size).unwrap(), text, "gzip by {size}");
            assert_eq!(unpack(Coding::Zstd, &zstd(&text), size).unwrap(), text, "zstd by {size}");
            // Members and frames one behind the other are one text.
            let twice = [text.as_slice(), &text].concat();
            assert_eq!(unpack(Coding::Gzip, &[gzip(&text), gzip(&text)].concat(), size).unwrap(), twice);
            assert_eq!(unpack(Coding::Zstd, &[zstd(&text), zstd(&text)].concat(), size).unwrap(), twice);
        }
    }

    #[test]
    fn what_stands_behind_a_whole_gzip_is_passed_over() {
        let (text, more) = (b"https://a.example/1\n".as_slice(), b"https://a.example/2\n".as_slice());
        let (one, two) = (gzip(text), gzip(more));
        let (one, two) = (one.as_slice(), two.as_slice());
        let both = [text, more].concat();
        let both = both.as_slice();
        let zeros = [0; 600].as_slice();
        let cases = [
            ([one, b"\n".as_slice()].concat(), text, 1),
            ([one, zeros].concat(), text, 0),
            ([one, zeros, two, zeros].concat(), both, 0),
            ([one, zeros, b"x", zeros].concat(), text, 601),
            ([one, b"\x1F".as_slice()].concat(), text, 1),
            ([one, b"\x1F\x1F\x8B".as_slice()].concat(), text, 3),
            ([one, b"x".as_slice(), two].concat(), text, 1 + two.len() as u64),
            ([one, gzip(b"").as_slice(), two].concat(), both, 0),
        ];
        for (body, expected, ignored) in cases {
            for size in [1, 2, 3, 10, 100_000] {
                let (found, unpacker) = unpack_with(Coding::Gzip, &body, size).unwrap();
                assert_eq!((found.as_slice(), unpacker.ignored()), (expected, ignored), "{body:?} by {size}");
            }
        }
        // A second member that breaks off is missing.
        assert!(unpack(Coding::Gzip, &[one, &two[..two.len() - 1]].concat(), 10).is_err());
        assert!(unpack(Coding::Gzip, &[one, &two[..3]].concat(), 10).is_err());
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_refused() {
        let text = b"https://a.example/1\n".repeat(100);
        let zstd = zstd::encode_all(text.as_slice(), 3).unwrap();
        let packed = gzip(&text);
        for (coding, body) in [
            (Coding::Gzip, &packed[..packed.len() - 1]),
            (Coding::Gzip, &packed[..5]),
            (Coding::Zstd, &zstd[..zstd.len() - 1]),
            (Coding::Zstd, &zstd[..5]),
            (Coding::Gzip, b"https://a.example/1"),
            (Coding::Zstd, b"https://a.example/1"),
            (Coding::Gzip, &zstd),
        ] {
            let error = unpack(coding, body, 10).unwrap_err();
            assert!(error.detail().unwrap().starts_with("body: "), "{error}");
        }
        let mut flipped = packed;
        let at = flipped.len() - 6;
        flipped[at] ^= 1;
        assert!(unpack(Coding::Gzip, &flipped, 10).is_err(), "the checksum is looked at");
    }

    #[test]
    fn a_few_bytes_that_stand_for_very_many_are_refused() {
        let zeros = vec![0; 16 << 20];
        for (coding, body) in
            [(Coding::Gzip, gzip(&zeros)), (Coding::Zstd, zstd::encode_all(&*zeros, 3).unwrap())]
        {
            let mut unpacker = Unpacker::new(coding).unwrap();
            unpacker.push(Bytes::from(body));
            unpacker.end();
            let (mut out, mut became) = (vec![0; 64 << 10], 0);
            let error = loop {
                match unpacker.read(&mut out) {
                    Ok(Unpacked::Bytes(count)) => became += count,
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.code(), Code::PayloadTooLarge);
            assert!(became <= UPLOAD_RATIO_FROM_BYTES as usize + out.len());
        }
    }
}
