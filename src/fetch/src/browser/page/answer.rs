//! What the browser's protocol tells of an answer: its headers, its bytes, and whether it is a page.

use super::super::launch::text;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// Whether an answer is a page that a browser runs.
pub(super) fn is_page(status: u16, headers: &HeaderMap) -> bool {
    if matches!(status, 204 | 205 | 304) {
        return false;
    }
    let lower = |name| headers.get(name).map(|value| value.as_bytes().to_ascii_lowercase());
    if lower(CONTENT_DISPOSITION).is_some_and(|value| value.starts_with(b"attachment")) {
        return false;
    }
    let kind = lower(CONTENT_TYPE).unwrap_or_default();
    // Without a type the browser guesses, mostly right.
    kind.is_empty() || [&b"text/html"[..], b"application/xhtml+xml"].iter().any(|page| kind.starts_with(page))
}

pub(super) fn headers_of(list: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for entry in list.as_array().map(Vec::as_slice).unwrap_or_default() {
        let name = HeaderName::from_bytes(text(entry, "name").as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&text(entry, "value"))) {
            headers.append(name, value);
        }
    }
    headers
}

pub(super) fn data_of(chunk: &Value) -> Vec<u8> {
    let data = chunk["data"].as_str().unwrap_or_default();
    match chunk["base64Encoded"].as_bool() {
        Some(true) => STANDARD.decode(data).unwrap_or_default(),
        _ => data.as_bytes().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let entries: Vec<Value> =
            list.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        headers_of(&Value::Array(entries))
    }

    #[test]
    fn only_html_is_run() {
        for (status, list, run) in [
            (200, &[("Content-Type", "text/html; charset=utf-8")][..], true),
            (404, &[("content-type", "Text/HTML")], true),
            (200, &[("content-type", "application/xhtml+xml")], true),
            (200, &[], true),
            (200, &[("content-type", "application/json")], false),
            (200, &[("content-type", "application/pdf")], false),
            (200, &[("content-type", "text/html"), ("content-disposition", "Attachment; filename=x")], false),
            (204, &[("content-type", "text/html")], false),
        ] {
            assert_eq!(is_page(status, &headers(list)), run, "{status} {list:?}");
        }
    }

    #[test]
    fn reads_headers_and_bodies_as_the_protocol_writes_them() {
        let read = headers(&[("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("bad name", "x"), ("x", "a\nb")]);
        assert_eq!(read.get_all("set-cookie").iter().count(), 2);
        assert_eq!(read.len(), 2, "what cannot be a header is left out");
        assert_eq!(data_of(&json!({ "data": "eyJhIjoxfQ==", "base64Encoded": true })), b"{\"a\":1}");
        assert_eq!(data_of(&json!({ "data": "plain", "base64Encoded": false })), b"plain");
    }
}
