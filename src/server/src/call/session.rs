//! The cookie of a person's session in a browser, and when it counts.
//!
//! A browser sends a cookie with whatever a page of anybody makes it ask for, so a cookie alone proves nothing. It counts
//! only in a request with a header that a page of another site cannot set without asking first (a preflight, which the box
//! never grants), and that does not come from another origin as the browser itself tells it. `SameSite=Strict` is the third
//! fence, in the browser.

use crate::call::request::Call;
use http::header::{COOKIE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method};

/// What a page of the box sends with each request that its cookie is to count in.
pub const SESSION_HEADER: HeaderName = HeaderName::from_static("x-gleaner-session");
pub(crate) const COOKIE_NAME: &str = "gleaner_session";

/// The text of the session's cookie; none when there is none, or the request does not show that a page of this box sent it.
pub(crate) fn secret(call: &Call) -> Option<String> {
    let secret = cookie(call.headers())?.to_owned();
    is_own_page(call).then_some(secret)
}

/// The text of the cookie, whoever sent the request.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    named_cookie(headers, COOKIE_NAME)
}

/// The text of the only cookie of this name.
pub(crate) fn named_cookie<'h>(headers: &'h HeaderMap, wanted: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut own = lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == wanted);
    let (_, value) = own.next()?;
    // Two of one name: one of them is not from here.
    own.next().is_none().then_some(value)
}

/// Whether a page of this box sent the request, as far as headers tell.
pub(crate) fn is_own_page(call: &Call) -> bool {
    let headers = call.headers();
    if !headers.contains_key(SESSION_HEADER) {
        return false;
    }
    if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin") {
        return false;
    }
    match origin(headers) {
        Some(origin) => is_here(call, origin),
        // Browsers name none when a page reads from its own origin.
        None => !headers.contains_key(ORIGIN) && matches!(*call.method(), Method::GET | Method::HEAD),
    }
}

/// The one origin that the browser names.
pub(crate) fn origin(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(ORIGIN).iter();
    let origin = given.next()?.to_str().ok()?;
    given.next().is_none().then_some(origin)
}

/// Whether an origin is this box: the host that was asked, or the address that people reach it by through a proxy.
fn is_here(call: &Call, origin: &str) -> bool {
    let host = call.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| call.parts.uri.authority().map(|authority| authority.as_str()));
    let own = origin
        .split_once("://")
        .zip(host)
        .is_some_and(|((_, authority), host)| authority.eq_ignore_ascii_case(host));
    own || call.context.docs_base().strip_prefix(origin).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn one_cookie_of_the_name_is_taken_and_two_are_not() {
        let of = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, HeaderValue::from_static(line));
            }
            cookie(&headers).map(str::to_owned)
        };
        assert_eq!(of(&["a=1; gleaner_session=x; b=2"]).as_deref(), Some("x"));
        assert_eq!(of(&["a=1", "gleaner_session=x"]).as_deref(), Some("x"));
        for none in [&[][..], &["a=1"], &["gleaner_session2=x"], &["gleaner_session=x; gleaner_session=y"]] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }
}
