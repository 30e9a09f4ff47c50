//! Which header lines a caller may add to a request: all but those that the box writes itself.
//!
//! Whoever takes headers from a person refuses the others by [`refusal`], so that nothing is dropped in silence; what comes
//! all the same (a job that was queued in an earlier release) is left out of the request by [`callers_own`].

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName};

const OF_THE_URL: &str = "it names the host of the URL";
const OF_THE_MESSAGE: &str = "it says how the request is framed";
const OF_THE_CONNECTION: &str = "it belongs to one connection and not to the request";
const OF_THE_PROXY: &str =
    "it is between the box and a proxy; a login for a proxy belongs into its provider's credentials";
const OF_THE_BODY: &str = "it says how answers are compressed, and the box has to read them";

/// What is not the caller's to write (RFC 9110, sections 7.2, 7.6.1, 8.6, 10.1.1, 11.7 and 12.5.3; RFC 9112, section 6), and why.
static NOT_THE_CALLERS: [(HeaderName, &str); 14] = [
    (HOST, OF_THE_URL),
    (CONTENT_LENGTH, OF_THE_MESSAGE),
    (TRANSFER_ENCODING, OF_THE_MESSAGE),
    (TRAILER, OF_THE_MESSAGE),
    (EXPECT, OF_THE_MESSAGE),
    (CONNECTION, OF_THE_CONNECTION),
    (HeaderName::from_static("keep-alive"), OF_THE_CONNECTION),
    (HeaderName::from_static("proxy-connection"), OF_THE_CONNECTION),
    (HeaderName::from_static("http2-settings"), OF_THE_CONNECTION),
    (TE, OF_THE_CONNECTION),
    (UPGRADE, OF_THE_CONNECTION),
    (PROXY_AUTHENTICATE, OF_THE_PROXY),
    (PROXY_AUTHORIZATION, OF_THE_PROXY),
    (ACCEPT_ENCODING, OF_THE_BODY),
];

/// Why a header is not a caller's to write; none when it is.
pub fn refusal(name: &HeaderName) -> Option<String> {
    let (_, why) = NOT_THE_CALLERS.iter().find(|(own, _)| own == name)?;
    Some(format!("is written by the box itself: {why}"))
}

/// The caller's headers without those that are not the caller's to write.
pub(super) fn callers_own(headers: &HeaderMap) -> HeaderMap {
    let mut own = headers.clone();
    for (name, _) in &NOT_THE_CALLERS {
        own.remove(name);
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::AUTHORIZATION;

    #[test]
    fn what_is_not_the_callers_is_refused_and_left_out() {
        let of = ["host", "connection", "content-length", "transfer-encoding", "authorization"];
        let names = of.map(HeaderName::from_static);
        let callers = HeaderMap::from_iter(names.map(|name| (name, HeaderValue::from_static("x"))));
        for name in callers.keys() {
            assert_eq!(refusal(name).is_none(), *name == AUTHORIZATION, "{name}");
        }
        assert_eq!(callers_own(&callers).keys().collect::<Vec<_>>(), [AUTHORIZATION]);
    }
}
