//! Bytes to characters: byte order mark, HTTP header, `<meta>`, then detection.
//!
//! The order and the prescan are the WHATWG's (13.2.3.2, "determining the character encoding"); where a page says nothing,
//! valid UTF-8 is taken as such and anything else is left to `chardetng`, Firefox's detector. Decoding never fails: what is
//! malformed becomes U+FFFD, also half of a UTF-16 pair.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

/// How far into a page a `<meta>` is looked for. The standard asks for at least 1,024 bytes; pages put scripts before it.
pub const PRESCAN_BYTES_MAX: usize = 16 * 1024;
/// How much of an undeclared page the detector reads.
const DETECT_BYTES_MAX: usize = 64 * 1024;

/// What told the encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Bom,
    Header,
    Meta,
    Detected,
}

/// A page's text, without byte order mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    pub text: String,
    /// The encoding's name in the Encoding Standard.
    pub encoding: &'static str,
    pub source: Source,
}

/// Decodes a page; `content_type` is the value of its HTTP header, if it had one.
pub fn decode(bytes: &[u8], content_type: Option<&str>) -> Decoded {
    let (encoding, source) = choose(bytes, content_type);
    let (text, encoding, _) = encoding.decode(bytes);
    let text = match text {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    };
    Decoded { text, encoding: encoding.name(), source }
}

fn choose(bytes: &[u8], content_type: Option<&str>) -> (&'static Encoding, Source) {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return (encoding, Source::Bom);
    }
    let label = content_type.and_then(|value| charset_of(value.as_bytes()));
    if let Some(encoding) = label.and_then(Encoding::for_label) {
        return (encoding, Source::Header);
    }
    if let Some(encoding) = prescan(&bytes[..bytes.len().min(PRESCAN_BYTES_MAX)]) {
        return (encoding, Source::Meta);
    }
    (detect(bytes), Source::Detected)
}

fn detect(bytes: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let sample = &bytes[..bytes.len().min(DETECT_BYTES_MAX)];
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(sample, sample.len() == bytes.len());
    detector.guess(None, Utf8Detection::Allow)
}

/// "Extracting a character encoding from a meta element": the label after `charset=`.
fn charset_of(value: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        let offset = value[at..].windows(7).position(|word| word.eq_ignore_ascii_case(b"charset"))?;
        at = skip_space(value, at + offset + 7);
        if value.get(at) == Some(&b'=') {
            break;
        }
    }
    at = skip_space(value, at + 1);
    let rest = value.get(at..)?;
    match rest.first()? {
        quote @ (b'"' | b'\'') => {
            let end = rest[1..].iter().position(|byte| byte == quote)?;
            Some(&rest[1..=end])
        }
        _ => {
            let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b';');
            Some(&rest[..end.unwrap_or(rest.len())])
        }
    }
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// "Prescan a byte stream to determine its encoding".
fn prescan(bytes: &[u8]) -> Option<&'static Encoding> {
    // An XML declaration in UTF-16 without a mark.
    if bytes.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if bytes.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    let mut at = 0;
    loop {
        at += memchr::memchr(b'<', &bytes[at..])?;
        let rest = &bytes[at..];
        if rest.starts_with(b"<!--") {
            // The dashes that open may also close.
            at += 2 + memchr::memmem::find(&rest[2..], b"-->")? + 3;
        } else if is_meta(rest) {
            let (encoding, after) = meta_encoding(bytes, at + 5)?;
            if encoding.is_some() {
                return encoding;
            }
            at = after;
        } else if rest.get(1).is_some_and(u8::is_ascii_alphabetic)
            || (rest.get(1) == Some(&b'/') && rest.get(2).is_some_and(u8::is_ascii_alphabetic))
        {
            at = skip_tag(bytes, at + 1)?;
        } else if rest.get(1).is_some_and(|next| matches!(next, b'!' | b'/' | b'?')) {
            at += memchr::memchr(b'>', rest)? + 1;
        } else {
            at += 1;
        }
    }
}

fn is_meta(rest: &[u8]) -> bool {
    rest.len() > 5
        && rest[1..5].eq_ignore_ascii_case(b"meta")
        && (rest[5].is_ascii_whitespace() || rest[5] == b'/')
}

/// Steps over a tag with its attributes; gives the position after it.
fn skip_tag(bytes: &[u8], mut at: usize) -> Option<usize> {
    while !matches!(bytes.get(at)?, b'>' | b' ' | b'\t' | b'\n' | b'\x0C' | b'\r') {
        at += 1;
    }
    loop {
        match attribute(bytes, at)? {
            (Some(_), after) => at = after,
            (None, after) => return Some(after),
        }
    }
}

struct Attribute {
    name: Vec<u8>,
    value: Vec<u8>,
}

/// "Get an attribute": the next one of the tag, or `None` at its end, with the position after it.
fn attribute(bytes: &[u8], mut at: usize) -> Option<(Option<Attribute>, usize)> {
    while bytes.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'/') {
        at += 1;
    }
    if *bytes.get(at)? == b'>' {
        return Some((None, at + 1));
    }
    let start = at;
    while !(matches!(bytes.get(at)?, b'/' | b'>')
        || bytes[at].is_ascii_whitespace()
        || (bytes[at] == b'=' && at > start))
    {
        at += 1;
    }
    let name = bytes[start..at].to_ascii_lowercase();
    at = skip_space(bytes, at);
    if *bytes.get(at)? != b'=' {
        return Some((Some(Attribute { name, value: Vec::new() }), at));
    }
    at = skip_space(bytes, at + 1);
    let (start, end) = match *bytes.get(at)? {
        quote @ (b'"' | b'\'') => {
            let length = memchr::memchr(quote, &bytes[at + 1..])?;
            let start = at + 1;
            at = start + length + 1;
            (start, start + length)
        }
        _ => {
            let start = at;
            while !(*bytes.get(at)? == b'>' || bytes[at].is_ascii_whitespace()) {
                at += 1;
            }
            (start, at)
        }
    };
    Some((Some(Attribute { name, value: bytes[start..end].to_ascii_lowercase() }), at))
}

/// What a `<meta>` declares, if anything, and the position after it; `None` where the bytes end inside.
fn meta_encoding(bytes: &[u8], mut at: usize) -> Option<(Option<&'static Encoding>, usize)> {
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let (mut got_pragma, mut need_pragma) = (false, None);
    let mut encoding = None;
    while let (Some(Attribute { name, value }), after) = attribute(bytes, at)? {
        at = after;
        if seen.contains(&name) {
            continue;
        }
        match name.as_slice() {
            b"http-equiv" => got_pragma |= value == b"content-type",
            b"content" if encoding.is_none() => {
                encoding = charset_of(&value).and_then(Encoding::for_label);
                if encoding.is_some() {
                    need_pragma = Some(true);
                }
            }
            b"charset" => {
                encoding = Encoding::for_label(&value);
                need_pragma = Some(false);
            }
            _ => continue,
        }
        seen.push(name);
    }
    let declared = need_pragma.is_some_and(|needed| !needed || got_pragma);
    let found = encoding.filter(|_| declared).map(as_declared);
    Some((found, (at + 1).min(bytes.len())))
}

/// A `<meta>` that was read as bytes cannot be UTF-16, and nobody means x-user-defined.
fn as_declared(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16BE || encoding == UTF_16LE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(bytes: &[u8], content_type: Option<&str>) -> (&'static str, Source) {
        let decoded = decode(bytes, content_type);
        (decoded.encoding, decoded.source)
    }

    #[test]
    fn the_order_is_bom_header_meta_detection() {
        let page = b"\xEF\xBB\xBF<meta charset=koi8-r>";
        assert_eq!(chosen(page, Some("text/html; charset=iso-8859-2")), ("UTF-8", Source::Bom));
        assert_eq!(decode(page, None).text, "<meta charset=koi8-r>", "the mark is no text");
        let page = b"<meta charset=koi8-r>\xC1";
        assert_eq!(chosen(page, Some("text/html; charset=\"ISO-8859-2\"")), ("ISO-8859-2", Source::Header));
        assert_eq!(chosen(page, Some("text/html; charset=nonsense")), ("KOI8-R", Source::Meta));
        assert_eq!(decode(page, None).text, "<meta charset=koi8-r>а");
        assert_eq!(chosen("schön".as_bytes(), None), ("UTF-8", Source::Detected));
        assert_eq!(decode(b"sch\xF6n, f\xFCr M\xE4nner", None).text, "schön, für Männer");
    }

    #[test]
    fn prescan_finds_what_a_browser_finds() {
        for (page, wanted) in [
            ("<meta charset=shift_jis>", Some("Shift_JIS")),
            ("<META  http-equiv='Content-Type' content='text/html;charset=euc-kr'>", Some("EUC-KR")),
            ("<meta content='text/html;charset=euc-kr' http-equiv=content-type>", Some("EUC-KR")),
            ("<meta content='text/html;charset=euc-kr'>", None),
            ("<!-- <meta charset=big5> --><meta charset=gbk>", Some("GBK")),
            ("<!--><meta charset=gbk>", Some("GBK")),
            ("<title x='<meta charset=big5>'></title><meta charset=gbk>", Some("GBK")),
            ("<metal charset=big5>", None),
            ("<meta charset=utf-16le>", Some("UTF-8")),
            ("<meta charset=x-user-defined>", Some("windows-1252")),
            ("<meta charset=nothing><meta charset=gbk>", Some("GBK")),
            ("<meta charset=gbk charset=big5>", Some("GBK")),
            ("<?xml version='1.0' encoding='big5'?><meta charset=gbk/>", None),
            ("<meta charset=\"gbk\"/>", Some("GBK")),
            ("a < b <meta charset=gbk>", Some("GBK")),
            ("<meta charset=gbk", None),
        ] {
            assert_eq!(prescan(page.as_bytes()).map(Encoding::name), wanted, "{page}");
        }
    }

    #[test]
    fn utf_16_in_any_state_is_text() {
        let page: Vec<u8> = "\u{FEFF}<p>a😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decode(&page, None).text, "<p>a😀");
        for length in 0..page.len() {
            let _ = decode(&page[..length], None);
        }
        assert_eq!(decode(&page[..page.len() - 1], None).text, "<p>a\u{FFFD}");
        let plain: Vec<u8> = "<?xml a?>ü".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(chosen(&plain, None), ("UTF-16BE", Source::Meta));
    }
}
