//! Compression of what is text and large enough, and how much of it there is at once.
//!
//! A compressor holds memory (brotli 4 MB, zstd 2 MB) for as long as its answer is under way, and that is for the client to
//! say: 1,900 answers over HTTP/2 that nobody read took 4.4 GB, and none of them needed a credential. So a connection has a
//! few at once, those who have shown no credential have a few together, and an answer for which none is left goes out as it
//! is, which costs nobody anything but its length.

use http::header::{ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{Extensions, HeaderMap, HeaderValue, Response, StatusCode, Version};
use http_body::Body;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_http::CompressionLevel;
use tower_http::compression::Compression;
use tower_http::compression::predicate::Predicate;

/// Smaller responses are not worth compressing (data/docs/api.md, "Conventions").
const COMPRESS_BYTES_MIN: u64 = 1024;
/// Level 4 of gzip, brotli and zstd: about the ratio of their defaults, at a fraction of brotli's time.
const COMPRESS_LEVEL: i32 = 4;
/// Answers that are compressed at once for connections on which nobody has shown a credential: at most 64 MB.
const STRANGERS_MAX: usize = 16;
/// The same for all others.
const KNOWN_MAX: usize = 48;
/// Of one connection.
const CONNECTION_MAX: usize = 4;
/// Of a trusted proxy's, on which many people are.
const PROXY_CONNECTION_MAX: usize = 32;

/// The compressors of a server.
pub(super) struct Compressors {
    strangers: Arc<Semaphore>,
    known: Arc<Semaphore>,
}

impl Compressors {
    pub(super) fn new() -> Compressors {
        let of = |most| Arc::new(Semaphore::new(most));
        Compressors { strangers: of(STRANGERS_MAX), known: of(KNOWN_MAX) }
    }

    /// Those that one connection may have at once.
    pub(super) fn of_connection(is_proxy: bool) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(if is_proxy { PROXY_CONNECTION_MAX } else { CONNECTION_MAX }))
    }

    /// One for an answer on this connection; none when all that it may have are taken.
    pub(super) fn take(&self, own: &Arc<Semaphore>, is_known: bool) -> Option<CompressorPermit> {
        let all = if is_known { &self.known } else { &self.strangers };
        let own = Arc::clone(own).try_acquire_owned().ok()?;
        let all = Arc::clone(all).try_acquire_owned().ok()?;
        Some(CompressorPermit(Arc::new((own, all))))
    }
}

/// One answer's compressor, held until the answer has ended.
#[derive(Clone)]
pub(crate) struct CompressorPermit(
    #[allow(dead_code, reason = "held until dropped")] Arc<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
);

/// Compresses the answers that [`mark`] has found a compressor for.
pub(crate) fn layer<S>(service: S) -> Compression<S, impl Predicate> {
    Compression::new(service).quality(CompressionLevel::Precise(COMPRESS_LEVEL)).compress_when(
        |_: StatusCode, _: Version, _: &HeaderMap, extensions: &Extensions| {
            extensions.get::<CompressorPermit>().is_some()
        },
    )
}

/// Takes a compressor for an answer that is worth one, if there is one left.
pub(crate) fn mark<B: Body>(
    mut response: Response<B>,
    compressor: impl FnOnce() -> Option<CompressorPermit>,
) -> Response<B> {
    let hint = response.body().size_hint();
    let is_small = hint.upper().is_some_and(|most| most < COMPRESS_BYTES_MIN);
    if is_small || !is_text(response.headers()) {
        return response;
    }
    // Also where it goes out as it is this time.
    response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(permit) = compressor() {
        response.extensions_mut().insert(permit);
    }
    response
}

/// The compressor of an answer that came out compressed; one that did not gives its own back.
pub(crate) fn taken<B>(response: &mut Response<B>) -> Option<CompressorPermit> {
    let permit = response.extensions_mut().remove::<CompressorPermit>();
    permit.filter(|_| response.headers().contains_key(CONTENT_ENCODING))
}

/// What is text; a download that is compressed already is left alone.
fn is_text(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let media = media.split(';').next().unwrap_or(media).trim();
    // What goes on for ever would wait in the compressor for more.
    let is_text = media != "text/event-stream" && media.starts_with("text/")
        || media.ends_with("json")
        || media.ends_with("xml")
        || media.ends_with("javascript");
    // Ranges are of the file as it is.
    is_text && !headers.contains_key(ACCEPT_RANGES)
}

/// Takes refusals of the plain form (`*;q=0`, `identity;q=0`) out of what codings a client wants. RFC 9110 (12.5.3) leaves it
/// to the server whether to answer 406 then, and the answer to a request that has taken effect must not be that.
pub(crate) fn allow_plain(headers: &mut HeaderMap) {
    let refuses_plain = |coding: &str| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or("");
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let is_none = weight.and_then(|weight| weight.trim().parse::<f32>().ok()) == Some(0.0);
        is_none && (name == "*" || name.eq_ignore_ascii_case("identity"))
    };
    let given = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let given: Vec<&str> = given.flat_map(|value| value.split(',')).collect();
    if !given.iter().any(|coding| refuses_plain(coding)) {
        return;
    }
    let left: Vec<_> = given.into_iter().filter(|coding| !refuses_plain(coding)).map(str::trim).collect();
    let left = HeaderValue::from_str(&left.join(", ")).ok().filter(|left| !left.is_empty());
    headers.remove(ACCEPT_ENCODING);
    if let Some(left) = left {
        headers.insert(ACCEPT_ENCODING, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_and_one_connection_have_few_compressors() {
        let all = Compressors::new();
        let mut held = Vec::new();
        for _ in 0..STRANGERS_MAX / CONNECTION_MAX {
            let own = Compressors::of_connection(false);
            held.extend((0..CONNECTION_MAX).map(|_| all.take(&own, false).expect("one of its own")));
            assert!(all.take(&own, false).is_none(), "no more on one connection");
        }
        let another = Compressors::of_connection(false);
        assert!(all.take(&another, false).is_none(), "all of the strangers' are taken");
        assert!(all.take(&another, true).is_some(), "who is known has others");
        held.pop();
        assert!(all.take(&another, false).is_some(), "one came back");
    }

    #[test]
    fn who_refuses_the_plain_form_is_not_refused() {
        for (given, left) in [
            ("*;q=0", None),
            ("identity;q=0", None),
            ("gzip, *;q=0", Some("gzip")),
            ("br;q=0.5, identity; q=0.0, zstd", Some("br;q=0.5, zstd")),
            ("gzip;q=0, br", Some("gzip;q=0, br")),
            ("gzip", Some("gzip")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(given));
            allow_plain(&mut headers);
            assert_eq!(headers.get(ACCEPT_ENCODING).map(|value| value.to_str().unwrap()), left, "{given}");
        }
    }
}
