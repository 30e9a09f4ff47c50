//! Entity tags: strong, from the bytes of the answer (RFC 9110, 8.8.3).
//!
//! A strong tag may not be shared by two encodings of one answer, so the tag of a compressed response carries the
//! coding's name as a suffix. A condition is compared without it: it speaks of the resource, whichever way it travelled.

use base::{Error, Result};
use http::header::{CONTENT_ENCODING, ETAG, HeaderMap, HeaderValue};
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// Bytes of the hash that a tag keeps: 96 bits, more than chance can meet.
const TAG_BYTES: usize = 12;

/// A strong entity tag, with its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etag(String);

impl Etag {
    /// The tag of an answer with this body.
    pub fn of_bytes(body: &[u8]) -> Etag {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(TAG_BYTES * 2 + 2);
        text.push('"');
        for byte in &digest(&SHA256, body).as_ref()[..TAG_BYTES] {
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
        text.push('"');
        Etag(text)
    }

    /// The tag that `GET` answers with for this view: what `If-Match` is compared with.
    pub fn of<T: Serialize>(view: &T) -> Result<Etag> {
        let bytes = serde_json::to_vec(view).map_err(|e| Error::internal("write the view", e))?;
        Ok(Etag::of_bytes(&bytes))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("a tag is quotes and hexadecimal digits")
    }

    /// Whether a list such as `"a", W/"b"` or `*` names this tag. `weak` also lets weak tags match, as `If-None-Match`
    /// does and `If-Match` does not (RFC 9110, 13.1).
    pub fn is_in(&self, list: &str, weak: bool) -> bool {
        list.split(',').map(str::trim).any(|tag| {
            tag == "*"
                || match tag.strip_prefix("W/") {
                    Some(tag) => weak && without_coding(tag) == self.0,
                    None => without_coding(tag) == self.0,
                }
        })
    }
}

/// A tag as it was before the answer was compressed.
fn without_coding(tag: &str) -> String {
    let inner = tag.trim_matches('"');
    let plain = inner.split_once('-').map_or(inner, |(plain, _)| plain);
    format!("\"{plain}\"")
}

/// Makes the tag of a compressed response its own.
pub(crate) fn mark_coding(headers: &mut HeaderMap) {
    let Some(coding) = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()) else { return };
    let Some(tag) = headers.get(ETAG).and_then(|value| value.to_str().ok()) else { return };
    if let Some(open) = tag.strip_suffix('"')
        && let Ok(marked) = HeaderValue::from_str(&format!("{open}-{coding}\""))
    {
        headers.insert(ETAG, marked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_in_lists_with_or_without_coding() {
        let tag = Etag::of_bytes(b"{}");
        let inner = tag.as_str().trim_matches('"');
        assert_eq!(inner.len(), 24);
        assert!(tag.is_in("*", false) && tag.is_in(tag.as_str(), false));
        assert!(tag.is_in(&format!("\"x\", \"{inner}-br\""), false));
        assert!(tag.is_in(&format!("W/\"{inner}\""), true) && !tag.is_in(&format!("W/\"{inner}\""), false));
        assert!(!tag.is_in("\"x\"", true) && !tag.is_in("", true));
    }

    #[test]
    fn a_compressed_answer_has_its_own_tag() {
        let mut headers = HeaderMap::new();
        headers.insert(ETAG, HeaderValue::from_static("\"abc\""));
        mark_coding(&mut headers);
        assert_eq!(headers[ETAG], "\"abc\"");
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
        mark_coding(&mut headers);
        assert_eq!(headers[ETAG], "\"abc-zstd\"");
    }
}
