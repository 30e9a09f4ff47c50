//! Lists in pages: a limit, and an opaque cursor that says where the last page ended.
//!
//! A cursor holds the key after which to go on, the list it belongs to and a checksum, so that one that was damaged
//! or taken from another list is refused rather than misread. It is not a secret: keys are looked up inside the
//! caller's organization whatever it says.

use crate::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use crate::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Serialize;

/// A page of a list on the wire.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Without a name of its own each would be told from the others by a number that moves.
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Hand it back as `cursor` for the next page; null on the last.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// The page with every item changed.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(change).collect(), next_cursor: self.next_cursor }
    }
}

/// How much of a list, and from where.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// 1 to [`PAGE_ROWS_MAX`].
    pub limit: usize,
    /// The text of a cursor, not yet checked: the list that reads it knows its name.
    pub cursor: Option<String>,
}

impl Default for PageRequest {
    fn default() -> Self {
        PageRequest { limit: PAGE_ROWS_DEFAULT, cursor: None }
    }
}

impl PageRequest {
    /// Reads the two query parameters. A limit above the maximum is clamped, one below 1 or not a number is refused.
    pub fn parse(limit: Option<&str>, cursor: Option<&str>) -> Result<PageRequest> {
        let limit = match limit {
            None | Some("") => PAGE_ROWS_DEFAULT,
            Some(text) => match text.parse::<u64>() {
                Ok(0) => return Err(Error::invalid("limit", "must be at least 1")),
                Ok(n) => usize::try_from(n).unwrap_or(PAGE_ROWS_MAX).min(PAGE_ROWS_MAX),
                Err(_) if text.bytes().all(|b| b.is_ascii_digit()) => PAGE_ROWS_MAX,
                Err(_) => {
                    let reason = format!("must be a whole number from 1 to {PAGE_ROWS_MAX}");
                    return Err(Error::invalid("limit", reason));
                }
            },
        };
        Ok(PageRequest { limit, cursor: cursor.filter(|text| !text.is_empty()).map(str::to_owned) })
    }

    /// The position in `list`, if there is a cursor; a damaged one or another list's is refused.
    pub fn position(&self, list: &str) -> Result<Option<Vec<u8>>> {
        self.cursor.as_deref().map(|text| decode_cursor(list, text)).transpose()
    }

    /// A page of a list that is at hand whole and keeps its order. `key` is what tells an item from the others.
    pub fn of_whole<T>(&self, list: &str, items: Vec<T>, key: impl Fn(&T) -> &str) -> Result<Page<T>> {
        let after = self.position(list)?;
        let begin = match &after {
            None => 0,
            // What is gone has nothing behind it that could be told.
            Some(last) => items
                .iter()
                .position(|item| key(item).as_bytes() == last.as_slice())
                .map_or(items.len(), |at| at + 1),
        };
        let has_more = items.len() - begin > self.limit;
        let items: Vec<T> = items.into_iter().skip(begin).take(self.limit).collect();
        let last = items.last().filter(|_| has_more);
        let next_cursor = last.map(|item| encode_cursor(list, key(item).as_bytes()));
        Ok(Page { items, next_cursor })
    }
}

/// A cursor of `list` that goes on after `position`.
pub fn encode_cursor(list: &str, position: &[u8]) -> String {
    let mut bytes = checksum(list, position).to_be_bytes().to_vec();
    bytes.extend_from_slice(position);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The position inside a cursor of `list`.
pub fn decode_cursor(list: &str, text: &str) -> Result<Vec<u8>> {
    let damaged = || Error::invalid("cursor", "is damaged or belongs to another list");
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| damaged())?;
    let (sum, position) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
    if u32::from_be_bytes(*sum) != checksum(list, position) {
        return Err(damaged());
    }
    Ok(position.to_vec())
}

fn checksum(list: &str, position: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(list.as_bytes());
    hasher.update(&[0]);
    hasher.update(position);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_list_and_notices_damage() {
        let cursor = encode_cursor("jobs", b"key");
        assert_eq!(decode_cursor("jobs", &cursor).unwrap(), b"key");
        assert!(decode_cursor("urls", &cursor).is_err());
        for i in 0..cursor.len() {
            let mut bytes = cursor.clone().into_bytes();
            bytes[i] = if bytes[i] == b'A' { b'B' } else { b'A' };
            assert!(decode_cursor("jobs", std::str::from_utf8(&bytes).unwrap()).is_err(), "position {i}");
        }
        assert!(decode_cursor("jobs", "").is_err());
        assert!(decode_cursor("jobs", "%%%").is_err());
    }

    #[test]
    fn a_list_at_hand_comes_in_pages() {
        let all = || vec!["b", "a", "c", "d"];
        let mut page = PageRequest { limit: 3, cursor: None };
        let first = page.of_whole("letters", all(), |item| item).unwrap();
        assert_eq!(first.items, ["b", "a", "c"]);
        page.cursor = first.next_cursor;
        let second = page.of_whole("letters", all(), |item| item).unwrap();
        assert_eq!((second.items, second.next_cursor), (vec!["d"], None));
        assert!(page.of_whole("others", all(), |item| item).is_err());
        let whole = PageRequest { limit: 4, cursor: None }.of_whole("letters", all(), |item| item).unwrap();
        assert_eq!((whole.items.len(), whole.next_cursor), (4, None));
    }

    #[test]
    fn limits_are_clamped_above_and_refused_below() {
        assert_eq!(PageRequest::parse(None, None).unwrap().limit, 50);
        assert_eq!(PageRequest::parse(Some("1000000"), None).unwrap().limit, 200);
        assert_eq!(PageRequest::parse(Some(&"9".repeat(40)), None).unwrap().limit, 200);
        for bad in ["0", "-1", "ten", "1.5"] {
            assert!(PageRequest::parse(Some(bad), None).is_err(), "{bad}");
        }
    }
}
