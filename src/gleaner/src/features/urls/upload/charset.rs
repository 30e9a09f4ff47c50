//! The letters of an upload: which bytes stand for which.
//!
//! A mark at the beginning says it, then the `charset` of the media type, then a look: UTF-16 has a byte 0 beside each Latin
//! letter. Else it is UTF-8; and a row that is not UTF-8 is taken for Windows-1252, of which Latin-1 is a part. That is decided
//! for each row, because nobody has seen the end when the first row is due, and because files are put together of both.

use base::{Code, Error, Result};
use encoding_rs::{CoderResult, Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use std::borrow::Cow;

/// As many bytes tell a mark, and UTF-16 without one.
const LOOK_BYTES: usize = 4;
/// What stands where something could not be read.
const UNREADABLE: char = '\u{FFFD}';

/// How letters are written.
pub(super) struct Charset {
    state: CharsetState,
    /// A row was not UTF-8.
    had_others: bool,
}

enum CharsetState {
    /// What came before it was known.
    Unknown {
        declared: Option<&'static Encoding>,
        begun: Vec<u8>,
    },
    /// UTF-8, because somebody said so.
    Utf8,
    /// UTF-8, or row by row Windows-1252.
    Guessed,
    Other {
        encoding: &'static Encoding,
        decoder: Box<Decoder>,
    },
}

impl Charset {
    /// `declared` is the name in the media type.
    pub(super) fn new(declared: Option<&str>) -> Result<Charset> {
        let declared = match declared {
            None => None,
            Some(name) => Some(Encoding::for_label_no_replacement(name.as_bytes()).ok_or_else(|| {
                Error::new(Code::UnsupportedMediaType)
                    .message("The charset that Content-Type names is not known; UTF-8 is best.")
            })?),
        };
        Ok(Charset { state: CharsetState::Unknown { declared, begun: Vec::new() }, had_others: false })
    }

    /// Its name, once it is known.
    pub(super) fn name(&self) -> String {
        match &self.state {
            CharsetState::Other { encoding, .. } => encoding.name().to_ascii_lowercase(),
            _ if self.had_others => "windows-1252".to_owned(),
            _ => "utf-8".to_owned(),
        }
    }

    /// Adds what came to `text`: as UTF-8, or as bytes of which [`Charset::row`] makes letters.
    pub(super) fn decode(&mut self, bytes: &[u8], is_last: bool, text: &mut Vec<u8>) -> Result<()> {
        match &mut self.state {
            CharsetState::Unknown { declared, begun } => {
                begun.extend_from_slice(bytes);
                if begun.len() < LOOK_BYTES && !is_last {
                    return Ok(());
                }
                let (state, mark) = found(begun, *declared)?;
                let rest = begun.split_off(mark);
                self.state = state;
                self.decode(&rest, is_last, text)
            }
            CharsetState::Utf8 | CharsetState::Guessed => {
                text.extend_from_slice(bytes);
                Ok(())
            }
            CharsetState::Other { decoder, .. } => {
                transcode(decoder, bytes, is_last, text);
                Ok(())
            }
        }
    }

    /// The letters of a row, or of a cell.
    pub(super) fn row<'b>(&mut self, bytes: &'b [u8]) -> Result<Cow<'b, str>, &'static str> {
        match (std::str::from_utf8(bytes), &self.state) {
            (Ok(text), CharsetState::Other { .. }) if text.contains(UNREADABLE) => {
                Err("has bytes that are none of its charset")
            }
            (Ok(text), _) => Ok(Cow::Borrowed(text)),
            (Err(_), CharsetState::Guessed) => {
                self.had_others = true;
                Ok(WINDOWS_1252.decode_without_bom_handling(bytes).0)
            }
            (Err(_), _) => Err("is not UTF-8, which it says to be"),
        }
    }
}

/// What the beginning tells, and how many bytes are its mark.
fn found(begun: &[u8], declared: Option<&'static Encoding>) -> Result<(CharsetState, usize)> {
    let other = |encoding: &'static Encoding| {
        let decoder = Box::new(encoding.new_decoder_without_bom_handling());
        CharsetState::Other { encoding, decoder }
    };
    Ok(match begun {
        [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] => {
            return Err(Error::invalid("body", "is UTF-32; send UTF-8"));
        }
        [0xEF, 0xBB, 0xBF, ..] => (CharsetState::Utf8, 3),
        [0xFF, 0xFE, ..] => (other(UTF_16LE), 2),
        [0xFE, 0xFF, ..] => (other(UTF_16BE), 2),
        _ => match (declared, begun) {
            (Some(encoding), _) if encoding == UTF_8 => (CharsetState::Utf8, 0),
            (Some(encoding), _) => (other(encoding), 0),
            (None, [1..=255, 0, 1..=255, 0, ..]) => (other(UTF_16LE), 0),
            (None, [0, 1..=255, 0, 1..=255, ..]) => (other(UTF_16BE), 0),
            (None, _) => (CharsetState::Guessed, 0),
        },
    })
}

fn transcode(decoder: &mut Decoder, mut bytes: &[u8], is_last: bool, text: &mut Vec<u8>) {
    loop {
        let begun = text.len();
        // Three bytes of UTF-8 for one of anything is the most there is.
        text.resize(begun + bytes.len() * 3 + 16, 0);
        let (result, read, written, _) = decoder.decode_to_utf8(bytes, &mut text[begun..], is_last);
        text.truncate(begun + written);
        bytes = &bytes[read..];
        if result == CoderResult::InputEmpty {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it is read as, in parts of `size`.
    fn read(bytes: &[u8], declared: Option<&str>, size: usize) -> Result<(String, String)> {
        let mut charset = Charset::new(declared)?;
        let mut text = Vec::new();
        for part in bytes.chunks(size) {
            charset.decode(part, false, &mut text)?;
        }
        charset.decode(&[], true, &mut text)?;
        let row = charset.row(&text).map(Cow::into_owned).unwrap_or_else(|reason| format!("! {reason}"));
        Ok((row, charset.name()))
    }

    #[test]
    fn letters_are_found_by_mark_by_name_and_by_a_look() {
        let utf16 = |text: &str, big: bool| -> Vec<u8> {
            let to = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
            text.encode_utf16().flat_map(to).collect()
        };
        let (le, be) = (utf16("url\né€😀", false), utf16("url\né€😀", true));
        let marked = |mark: &[u8], rest: &[u8]| [mark, rest].concat();
        let whole = "url\né€😀";
        for size in [1, 2, 3, 5, 1_000] {
            for (bytes, declared, text, name) in [
                (whole.as_bytes().to_vec(), None, whole, "utf-8"),
                (marked(b"\xEF\xBB\xBF", whole.as_bytes()), None, whole, "utf-8"),
                (marked(b"\xEF\xBB\xBF", whole.as_bytes()), Some("latin1"), whole, "utf-8"),
                (marked(b"\xFF\xFE", &le), None, whole, "utf-16le"),
                (marked(b"\xFE\xFF", &be), None, whole, "utf-16be"),
                (le.clone(), None, whole, "utf-16le"),
                (be.clone(), None, whole, "utf-16be"),
                (be.clone(), Some("utf-16be"), whole, "utf-16be"),
                (b"url\ncaf\xE9 \x80".to_vec(), None, "url\ncafé €", "windows-1252"),
                (b"url\ncaf\xE9".to_vec(), Some("iso-8859-1"), "url\ncafé", "windows-1252"),
                (b"url\n\xE9\xF4".to_vec(), Some("koi8-r"), "url\nИТ", "koi8-r"),
                (b"".to_vec(), None, "", "utf-8"),
                (b"u".to_vec(), None, "u", "utf-8"),
            ] {
                let expected = (text.to_owned(), name.to_owned());
                assert_eq!(read(&bytes, declared, size).unwrap(), expected, "{bytes:?} by {size}");
            }
        }
    }

    #[test]
    fn what_is_not_what_it_says_is_told() {
        for (bytes, declared) in [
            (b"url\ncaf\xE9".to_vec(), Some("utf-8")),
            (b"\xEF\xBB\xBFurl\ncaf\xE9".to_vec(), None),
            (b"\xFF\xFEu\0r\0l\0\x00\xD8x\0".to_vec(), None),
            (b"\xFF\xFEu\0r\0l\0\n".to_vec(), None),
        ] {
            assert!(read(&bytes, declared, 3).unwrap().0.starts_with("! "), "{bytes:?}");
        }
        for (bytes, declared) in [
            (b"\xFF\xFE\0\0u\0\0\0".as_slice(), None),
            (b"\0\0\xFE\xFF\0\0\0u", None),
            (b"url", Some("ebcdic")),
        ] {
            assert!(read(bytes, declared, 3).is_err(), "{bytes:?}");
        }
    }
}
