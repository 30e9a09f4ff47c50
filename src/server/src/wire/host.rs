//! The `Host` of a request (RFC 9112, 3.2): whoever sends two, none or a broken one wants two servers to disagree about it.
//!
//! Nothing of the box depends on the host, but a proxy or a cache before it may; so such a request is refused. The same
//! goes for a body in a coding that is not read here: its length is known to one of two readers only.

use base::{Code, Error};
use http::header::{HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Version};

/// Why the request is refused whatever it asks for; none for nearly all.
pub(crate) fn refusal(parts: &Parts) -> Option<Error> {
    let refused = |why: &str| Some(Error::new(Code::InvalidInput).message(why));
    if !is_sound(parts) {
        return refused("Host: must be one valid host name.");
    }
    if !is_read(&parts.headers) {
        return refused("Transfer-Encoding: must be \"chunked\" and nothing else.");
    }
    None
}

/// Whether the body comes as it is or in chunks, and not compressed on the way: hyper finds the end of any body whose last
/// coding is `chunked`, and hands over what the others made of it (RFC 9112, 6.1).
fn is_read(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match codings.next() {
        None => true,
        Some(coding) => coding.as_bytes().eq_ignore_ascii_case(b"chunked") && codings.next().is_none(),
    }
}

/// Whether the request names at most one host, and in HTTP/1.1 exactly one, that can be one. HTTP/2 names it as its
/// `:authority`, and HTTP/1.0 need not.
fn is_sound(parts: &Parts) -> bool {
    match count(&parts.headers) {
        0 => parts.version != Version::HTTP_11,
        1 => parts.headers.get(HOST).is_some_and(|host| is_host(host.as_bytes())),
        _ => false,
    }
}

fn count(headers: &HeaderMap) -> usize {
    headers.get_all(HOST).iter().count()
}

/// Empty, or a host with perhaps a port; never with a user before it.
fn is_host(text: &[u8]) -> bool {
    text.is_empty() || (!text.contains(&b'@') && Authority::try_from(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound(version: Version, hosts: &[&'static str]) -> bool {
        let mut request = http::Request::builder().version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        is_sound(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn chunks_and_no_other_coding() {
        let read = |codings: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(TRANSFER_ENCODING, coding.parse().unwrap());
            }
            is_read(&headers)
        };
        assert!(read(&[]) && read(&["chunked"]) && read(&["Chunked"]));
        for odd in
            [&["gzip, chunked"][..], &["gzip", "chunked"], &["chunked", "chunked"], &["chunked;q=1"], &[""]]
        {
            assert!(!read(odd), "{odd:?}");
        }
    }

    #[test]
    fn one_host_that_can_be_one() {
        for host in ["box", "box:8080", "127.0.0.1", "[::1]:80", "xn--bcher-kva.example", ""] {
            assert!(sound(Version::HTTP_11, &[host]), "{host}");
        }
        for host in ["a b", "a/b", "user@a", "<a>", "[::1", "a:b:c"] {
            assert!(!sound(Version::HTTP_11, &[host]), "{host}");
        }
        assert!(!sound(Version::HTTP_11, &[]) && !sound(Version::HTTP_11, &["a", "a"]));
        assert!(sound(Version::HTTP_10, &[]) && sound(Version::HTTP_2, &[]));
        assert!(!sound(Version::HTTP_2, &["a", "b"]));
    }
}
