//! Compression of what is text and large enough, and how much of it there is at once.
//!
//! A compressor holds memory (brotli 4 MB, zstd 2 MB) for as long as its answer is under way, and that is for the client to
//! say: 1,900 answers over HTTP/2 that nobody read took 4.4 GB, and none of them needed a credential. So a connection has a
//! few at once, and the requests that showed no credential have a few together; whoever they came through, for a proxy's
//! connection is that of many. Of those and of the others each organization, or address, has a share: who has as many as
//! are left gets no more, so one of them alone has half, and there is one for whoever comes. An answer for which none is
//! left goes out as it is, which costs nobody anything but its length.

use http::header::{ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{Extensions, HeaderMap, HeaderValue, Response, StatusCode, Version};
use http_body::Body;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_http::CompressionLevel;
use tower_http::compression::Compression;
use tower_http::compression::predicate::Predicate;
use uuid::Uuid;

/// Smaller responses are not worth compressing (data/docs/api.md, "Conventions").
const COMPRESS_BYTES_MIN: u64 = 1024;
/// Level 4 of gzip, brotli and zstd: about the ratio of their defaults, at a fraction of brotli's time.
const COMPRESS_LEVEL: i32 = 4;
/// Answers that are compressed at once for requests without a credential: at most 64 MB.
const STRANGERS_MAX: usize = 16;
/// The same for all others.
const KNOWN_MAX: usize = 48;
/// Of one connection.
const CONNECTION_MAX: usize = 4;
/// Of a trusted proxy's, on which many people are.
const PROXY_CONNECTION_MAX: usize = 32;

/// Whose share of the compressors an answer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CompressorShare {
    /// A request without a good credential, by where it came from.
    Address(IpAddr),
    /// The caller's organization, or the person who has none.
    Known(Uuid),
}

/// The compressors of a server.
pub(super) struct Compressors {
    strangers: Arc<SharedCompressors>,
    known: Arc<SharedCompressors>,
}

/// Compressors that many have shares of.
struct SharedCompressors {
    all: usize,
    held: Mutex<HashMap<CompressorShare, usize>>,
}

impl SharedCompressors {
    fn of(all: usize) -> Arc<SharedCompressors> {
        Arc::new(SharedCompressors { all, held: Mutex::default() })
    }

    /// One more for this share, unless it has as many as are left.
    fn take(self: &Arc<Self>, share: CompressorShare) -> Option<SharedPermit> {
        let mut held = self.held.lock();
        let left = self.all.saturating_sub(held.values().sum());
        if held.get(&share).copied().unwrap_or(0) >= left {
            return None;
        }
        *held.entry(share).or_default() += 1;
        Some(SharedPermit { all: Arc::clone(self), share })
    }
}

/// One of them.
struct SharedPermit {
    all: Arc<SharedCompressors>,
    share: CompressorShare,
}

impl Drop for SharedPermit {
    fn drop(&mut self) {
        let mut held = self.all.held.lock();
        if let Some(count) = held.get_mut(&self.share) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.share);
            }
        }
    }
}

impl Compressors {
    pub(super) fn new() -> Compressors {
        Compressors {
            strangers: SharedCompressors::of(STRANGERS_MAX),
            known: SharedCompressors::of(KNOWN_MAX),
        }
    }

    /// Those that one connection may have at once.
    pub(super) fn of_connection(is_proxy: bool) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(if is_proxy { PROXY_CONNECTION_MAX } else { CONNECTION_MAX }))
    }

    /// One for an answer on this connection; none when all that it may have are taken.
    pub(super) fn take(&self, own: &Arc<Semaphore>, share: CompressorShare) -> Option<CompressorPermit> {
        let all = match share {
            CompressorShare::Address(_) => &self.strangers,
            CompressorShare::Known(_) => &self.known,
        };
        let own = Arc::clone(own).try_acquire_owned().ok()?;
        Some(CompressorPermit(Arc::new((own, all.take(share)?))))
    }
}

/// One answer's compressor, held until the answer has ended.
#[derive(Clone)]
pub(crate) struct CompressorPermit(
    #[allow(dead_code, reason = "held until dropped")] Arc<(OwnedSemaphorePermit, SharedPermit)>,
);

/// Compresses the answers that [`mark`] has found a compressor for.
pub(crate) fn layer<S>(service: S) -> Compression<S, impl Predicate> {
    Compression::new(service).quality(CompressionLevel::Precise(COMPRESS_LEVEL)).compress_when(
        |_: StatusCode, _: Version, _: &HeaderMap, extensions: &Extensions| {
            extensions.get::<CompressorPermit>().is_some()
        },
    )
}

/// Takes a compressor for an answer that is worth one, if there is one left; of the share that the answer says it is of.
pub(crate) fn mark<B: Body>(
    mut response: Response<B>,
    compressor: impl FnOnce(Option<CompressorShare>) -> Option<CompressorPermit>,
) -> Response<B> {
    let share = response.extensions_mut().remove::<CompressorShare>();
    let hint = response.body().size_hint();
    let is_small = hint.upper().is_some_and(|most| most < COMPRESS_BYTES_MIN);
    if is_small || !is_text(response.headers()) {
        return response;
    }
    // Also where it goes out as it is this time.
    response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(permit) = compressor(share) {
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

    fn address(last: u8) -> CompressorShare {
        CompressorShare::Address(IpAddr::from([192, 0, 2, last]))
    }

    /// As many as it gets on connections of its own.
    fn hoard(all: &Compressors, share: CompressorShare) -> Vec<CompressorPermit> {
        let connections = (0..KNOWN_MAX).map(|_| Compressors::of_connection(false));
        connections.filter_map(|own| all.take(&own, share)).collect()
    }

    #[test]
    fn strangers_and_one_connection_have_few_compressors() {
        let all = Compressors::new();
        let own = Compressors::of_connection(false);
        let of_one: Vec<_> =
            (0..CONNECTION_MAX).map(|_| all.take(&own, address(1)).expect("its own")).collect();
        assert!(all.take(&own, address(1)).is_none(), "no more on one connection");
        drop(of_one);
        let strangers: Vec<_> = (0..=u8::MAX).map(|last| hoard(&all, address(last))).collect();
        assert_eq!(strangers.iter().map(Vec::len).sum::<usize>(), STRANGERS_MAX);
        let another = Compressors::of_connection(false);
        assert!(all.take(&another, address(7)).is_none(), "all of the strangers' are taken");
        assert!(all.take(&another, CompressorShare::Known(Uuid::nil())).is_some(), "who is known has others");
        drop(strangers);
        assert!(all.take(&another, address(7)).is_some(), "they came back");
    }

    #[test]
    fn strangers_behind_a_proxy_take_nothing_from_those_who_are_known() {
        let all = Compressors::new();
        let proxy = Compressors::of_connection(true);
        let strangers: Vec<_> = (0..32).filter_map(|last| all.take(&proxy, address(last))).collect();
        assert_eq!(strangers.len(), STRANGERS_MAX);
        let known = hoard(&all, CompressorShare::Known(Uuid::nil()));
        assert_eq!(known.len(), KNOWN_MAX / 2);
        assert!(all.take(&proxy, CompressorShare::Known(Uuid::max())).is_some());
    }

    #[test]
    fn one_organization_leaves_compressors_to_the_others() {
        let all = Compressors::new();
        let shares = [1, 2, 3].map(|n| CompressorShare::Known(Uuid::from_u128(n)));
        let held = shares.map(|share| hoard(&all, share));
        assert_eq!(held.each_ref().map(Vec::len), [24, 12, 6]);
        let [first, second, third] = held;
        drop(first);
        assert_eq!(hoard(&all, shares[2]).len(), 12, "it has 18 then, and 18 are left");
        drop((second, third));
        assert!(all.known.held.lock().is_empty());
        // One address of strangers neither.
        assert_eq!(hoard(&all, address(1)).len(), STRANGERS_MAX / 2);
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
