//! The console's files on the wire: in the coding that the browser takes, and kept as long as they may be.

use base::Result;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY,
};
use http::{HeaderName, StatusCode};
use server::{Call, Etag, Html, Operation, Output, Response, ResponseBody};
use webui::File;

/// What the console's pages may do: load what the box itself serves, call the box, and nothing else. Frames hold stored
/// pages as blobs, which have this policy, too, and a sandbox without scripts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src blob:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const CROSS_ORIGIN_OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// A file of the console.
pub struct ConsoleFile {
    file: &'static File,
    kept: &'static str,
}

impl ConsoleFile {
    /// Whose name has the hash of its bytes: it never changes.
    pub fn immutable(file: &'static File) -> ConsoleFile {
        ConsoleFile { file, kept: "public, max-age=31536000, immutable" }
    }

    /// Asked for again each time, and sent only when it has changed.
    pub fn revalidated(file: &'static File) -> ConsoleFile {
        ConsoleFile { file, kept: "no-cache" }
    }
}

impl Output for ConsoleFile {
    fn respond(self, call: &Call) -> Result<Response> {
        let tag = Etag::of_bytes(self.file.plain);
        let conditions = call.headers().get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let is_known = conditions.into_iter().any(|list| tag.is_in(list, true));
        let (coding, bytes) = coded(self.file, call.headers());
        let mut response = Response::new(ResponseBody::full(Bytes::from_static(bytes)));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        if let Some(coding) = coding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        if let Ok(tag) = HeaderValue::from_str(tag.as_str()) {
            headers.insert(ETAG, tag);
        }
        for (name, value) in [
            (CONTENT_TYPE, self.file.media_type()),
            (CACHE_CONTROL, self.kept),
            (VARY, "accept-encoding"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (REFERRER_POLICY, "no-referrer"),
            (CROSS_ORIGIN_OPENER, "same-origin"),
            (CROSS_ORIGIN_RESOURCE, "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.binary_response(&["text/html"]);
    }
}

/// The smallest coding that the caller takes, and the file in it.
fn coded(file: &'static File, headers: &HeaderMap) -> (Option<&'static str>, &'static [u8]) {
    let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let taken: Vec<_> = lines.flat_map(|line| line.split(',')).filter_map(wanted).collect();
    let takes = |coding: &str| taken.iter().any(|known| known.eq_ignore_ascii_case(coding));
    match () {
        () if takes("br") => (Some("br"), file.brotli),
        () if takes("gzip") => (Some("gzip"), file.gzip),
        () => (None, file.plain),
    }
}

/// The coding of one part of `Accept-Encoding`; none when it is refused there.
fn wanted(part: &str) -> Option<&str> {
    let (coding, weight) = part.split_once(';').unwrap_or((part, ""));
    let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
    (weight != Some(0.0)).then(|| coding.trim())
}

/// What stands in the console's place in a box that was built without one.
pub struct Missing;

impl Output for Missing {
    fn respond(self, call: &Call) -> Result<Response> {
        Html(Bytes::from_static(include_bytes!("../../../../../data/pages/no-console.html"))).respond(call)
    }

    fn describe(operation: &mut Operation<'_>) {
        Html::describe(operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FILE: File = File { name: "a.js", plain: b"plain", gzip: b"gzip", brotli: b"br" };

    #[test]
    fn the_smallest_coding_that_is_taken_is_sent() {
        for (given, coding) in [
            ("", None),
            ("zstd", None),
            ("gzip, deflate, br, zstd", Some("br")),
            ("gzip;q=1.0, br;q=0", Some("gzip")),
            ("GZIP", Some("gzip")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(given));
            assert_eq!(coded(&FILE, &headers).0, coding, "{given}");
        }
    }
}
