//! What was fetched, as schemas read it: a page, or JSON.

use base::web::WebUrl;
use page::extract::{AttributeTrace, Extraction, Reason, Schema, page_base};
use page::html::Document;
use page::xpath::Fuel;
use serde_json::Value;
use url::Url;

/// Bytes of JSON that are looked through for known values.
pub const JSON_LOOKED_AT_BYTES_MAX: usize = induce::SCRIPT_BYTES_MAX;

/// A body that schemas can read.
pub enum PageBody {
    /// With what its links are resolved against.
    Html(Box<(Document, Url)>),
    Json(Value, Url),
    /// JSON by its media type that could not be read, and why.
    Unreadable {
        reason: Reason,
        detail: String,
        url: Url,
    },
}

impl PageBody {
    /// None for what is neither a page nor JSON.
    pub fn read(bytes: &[u8], content_type: Option<&str>, url: &WebUrl, fuel: &mut Fuel) -> Option<PageBody> {
        if is_document(content_type) {
            let document = Document::parse_bytes(bytes, content_type);
            let base = page_base(&document, url.as_url());
            return Some(PageBody::Html(Box::new((document, base))));
        }
        let bytes = bare_json(bytes);
        if !is_json(content_type) {
            return None;
        }
        let url = url.as_url().clone();
        if fuel.spend(bytes.len() as u64 / 8).is_err() {
            let detail = "the JSON asks for more work than is allowed".to_owned();
            return Some(PageBody::Unreadable { reason: Reason::Budget, detail, url });
        }
        Some(match serde_json::from_slice(bytes) {
            Ok(json) => PageBody::Json(json, url),
            Err(error) => {
                let detail = format!("the body is no JSON that could be read: {error}");
                PageBody::Unreadable { reason: Reason::Unreadable, detail, url }
            }
        })
    }

    /// Whether it is not what it says it is, so that nothing can be said of any attribute.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, PageBody::Unreadable { .. })
    }

    pub fn title(&self) -> Option<String> {
        match self {
            PageBody::Html(page) => page.0.title(),
            PageBody::Json(..) | PageBody::Unreadable { .. } => None,
        }
    }

    /// What a schema finds.
    pub fn extract(&self, schema: &Schema, fuel: &mut Fuel) -> Extraction {
        match self {
            PageBody::Html(page) => schema.extract(&page.0, &page.1, fuel),
            PageBody::Json(json, url) => schema.extract_json(json, url, fuel),
            PageBody::Unreadable { reason, detail, .. } => schema.extract_nothing(*reason, detail),
        }
    }

    /// What each of its XPaths and JSONPaths finds, by itself.
    pub fn trace(&self, schema: &Schema, fuel: &mut Fuel) -> Vec<AttributeTrace> {
        match self {
            PageBody::Html(page) => schema.trace(&page.0, &page.1, fuel),
            PageBody::Json(json, url) => schema.trace_json(json, url, fuel),
            PageBody::Unreadable { url, .. } => schema.trace_json(&Value::Null, url, fuel),
        }
    }
}

/// A body as a page, for what learns from pages: JSON is the only script of one, where JSONPaths find what they find in the body
/// itself. None for what is neither, and for JSON of which less than all would be looked at.
pub fn page_of(bytes: &[u8], content_type: Option<&str>) -> Option<Document> {
    if is_document(content_type) {
        return Some(Document::parse_bytes(bytes, content_type));
    }
    let json = std::str::from_utf8(bare_json(bytes)).ok().filter(|_| is_json(content_type))?;
    // Within JSON it stands in texts alone, and unescaped it could end the script.
    let json = json.replace('<', "\\u003c");
    if json.len() > JSON_LOOKED_AT_BYTES_MAX {
        return None;
    }
    Some(Document::parse(format!("<script type=\"application/json\">{json}</script>")))
}

/// JSON without the byte order mark that servers put before it, which is no part of it.
fn bare_json(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Whether schemas can read what is of this media type.
pub fn is_readable(content_type: Option<&str>) -> bool {
    is_document(content_type) || is_json(content_type)
}

fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|content_type| media_type(content_type).ends_with("json"))
}

/// Whether a body of this media type is read as a page. Servers that name none mostly send HTML.
pub fn is_document(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else { return true };
    let media = media_type(content_type);
    media.is_empty() || media == "text/plain" || media.contains("html") || media.ends_with("xml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use page::extract::Attribute;

    #[test]
    fn a_byte_order_mark_is_no_part_of_json() {
        let url = WebUrl::parse("http://shop.example/api").unwrap();
        let read = |bytes: &[u8]| {
            PageBody::read(bytes, Some("application/json; charset=utf-8"), &url, &mut Fuel::for_page())
        };
        for (bytes, is_read) in
            [(&b"\xef\xbb\xbf{\"a\":1}"[..], true), (b"{\"a\":1}", true), (b"\xef\xbb\xbf{", false)]
        {
            assert_eq!(matches!(read(bytes), Some(PageBody::Json(..))), is_read, "{bytes:?}");
        }
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        for broken in ["", "{\"a\":", &deep] {
            let Some(PageBody::Unreadable { reason: Reason::Unreadable, detail: why, .. }) =
                read(broken.as_bytes())
            else {
                panic!("{broken} was read")
            };
            assert!(why.contains("at line 1 column"), "{why}");
        }
    }

    #[test]
    fn json_is_read_as_a_page_as_it_is_by_itself() {
        let (url, media) = (WebUrl::parse("http://shop.example/api").unwrap(), Some("application/json"));
        let body = "\u{feff}{\"a\": \"</script><p>1\", \"b\": [\"<!--\"], \"c\": 2}".as_bytes();
        let attributes = serde_json::json!([
            { "name": "a", "jsonPaths": ["$.a"], "type": "text" },
            { "name": "b", "jsonPaths": ["$.b"], "type": "text[]" },
            { "name": "c", "jsonPaths": ["ld+json $.c"], "type": "number" },
        ]);
        let attributes: Vec<Attribute> = serde_json::from_value(attributes).unwrap();
        let schema = Schema::compile(&attributes).unwrap();
        let page = page_of(body, media).unwrap();
        let of_page = schema.extract(&page, url.as_url(), &mut Fuel::for_page());
        let body = PageBody::read(body, media, &url, &mut Fuel::for_page()).unwrap();
        assert_eq!(of_page.values, body.extract(&schema, &mut Fuel::for_page()).values);
        assert_eq!(of_page.values["a"], "</script><p>1");
        assert!(page_of(b"{}", Some("image/png")).is_none());
    }
}
