//! Site sessions: cookies and headers with which a site knows somebody, and where they go.
//!
//! A session belongs to one registrable domain and is sent to hosts of that domain alone, also on a chain of redirects.
//! Cookies follow RFC 6265 (host, path, `Secure`); one of which nobody said whether it is `Secure` is so as soon as the
//! chain began with https. Headers go to hosts of the domain on the port of the chain's first URL, and not down from https
//! to http. Nothing of a session is ever printed: its `Debug` shows names.

use std::fmt;

use http::{HeaderMap, HeaderValue};

use base::web::{Domain, WebUrl};

/// The prefix of cookies that belong to the host that set them, and the one of such as are `Secure` (RFC 6265bis, 4.1.3).
const HOST_PREFIX: &str = "__Host-";
const SECURE_PREFIX: &str = "__Secure-";

/// A cookie that somebody handed over.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionCookie {
    pub name: String,
    pub value: String,
    /// The host that it belongs to, and whether to that one alone; none where nobody said, which is the whole domain of the
    /// session.
    pub host: Option<(String, bool)>,
    pub path: String,
    /// None where nobody said.
    pub secure: Option<bool>,
    pub http_only: bool,
}

impl fmt::Debug for SessionCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=***", self.name)
    }
}

/// What a session consists of.
#[derive(Clone)]
pub enum SessionValues {
    Cookies(Vec<SessionCookie>),
    Headers(HeaderMap),
}

/// A session that requests are sent with.
#[derive(Clone)]
pub struct SiteSession {
    domain: Domain,
    values: SessionValues,
}

impl fmt::Debug for SiteSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SiteSession");
        shown.field("domain", &self.domain);
        match &self.values {
            SessionValues::Cookies(cookies) => shown.field("cookies", cookies),
            SessionValues::Headers(headers) => shown.field("headers", &headers.keys().collect::<Vec<_>>()),
        };
        shown.finish()
    }
}

/// A cookie of a session, as the chain that begins at a URL takes it along.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedCookie<'s> {
    pub cookie: &'s SessionCookie,
    pub host: &'s str,
    pub host_only: bool,
    pub secure: bool,
}

impl SiteSession {
    /// A session of `domain`. What its headers carry is marked as not to be shown.
    pub fn new(domain: Domain, values: SessionValues) -> Self {
        let values = match values {
            SessionValues::Headers(headers) => SessionValues::Headers(hidden(headers)),
            cookies => cookies,
        };
        Self { domain, values }
    }

    /// Its cookies for a chain that begins at `first`; none where that is not of its domain.
    pub(super) fn cookies<'s>(&'s self, first: &'s WebUrl) -> impl Iterator<Item = PlacedCookie<'s>> {
        let cookies = match &self.values {
            SessionValues::Cookies(cookies) if first.domain() == self.domain => cookies.as_slice(),
            _ => &[],
        };
        cookies.iter().filter_map(|cookie| self.placed(cookie, first))
    }

    fn placed<'s>(&'s self, cookie: &'s SessionCookie, first: &'s WebUrl) -> Option<PlacedCookie<'s>> {
        let is_bound = starts_with_prefix(&cookie.name, HOST_PREFIX);
        let (host, host_only) = match &cookie.host {
            Some((host, host_only)) => (host.as_str(), *host_only || is_bound),
            None if is_bound => (first.host(), true),
            None => (self.domain.as_str(), false),
        };
        // Not sent beyond the domain, whoever wrote it down there.
        let is_inside = Domain::parse(host).is_ok_and(|domain| domain == self.domain);
        let must = is_bound || starts_with_prefix(&cookie.name, SECURE_PREFIX);
        let secure = must || cookie.secure.unwrap_or(first.is_https());
        is_inside.then_some(PlacedCookie { cookie, host, host_only, secure })
    }

    /// Its headers for a request to `url` of a chain that began at `first`.
    pub(super) fn headers(&self, first: &WebUrl, url: &WebUrl) -> Option<&HeaderMap> {
        let SessionValues::Headers(headers) = &self.values else { return None };
        let is_inside = first.domain() == self.domain && url.domain() == self.domain;
        (is_inside && is_same_way(first, url)).then_some(headers)
    }
}

/// Whether `url` is asked on the port and as safely as `first` was; the usual step up to https is.
fn is_same_way(first: &WebUrl, url: &WebUrl) -> bool {
    let step_up = !first.is_https() && url.is_https() && first.port() == 80 && url.port() == 443;
    (first.port() == url.port() || step_up) && !is_step_down(first, url)
}

/// Whether the way goes down from https to http.
pub(super) fn is_step_down(from: &WebUrl, to: &WebUrl) -> bool {
    from.is_https() && !to.is_https()
}

/// Browsers compare the prefixes of names in any case.
fn starts_with_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The same headers, whose values nothing prints and no connection keeps for compression.
pub fn hidden(mut headers: HeaderMap) -> HeaderMap {
    headers.values_mut().for_each(|value: &mut HeaderValue| value.set_sensitive(true));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::AUTHORIZATION;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).unwrap()
    }

    fn cookie(name: &str) -> SessionCookie {
        let (name, value) = (name.to_owned(), "opensesame".to_owned());
        SessionCookie { name, value, host: None, path: "/".to_owned(), secure: None, http_only: false }
    }

    fn of(domain: &str, values: SessionValues) -> SiteSession {
        SiteSession::new(Domain::parse(domain).unwrap(), values)
    }

    fn signed() -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer opensesame"))])
    }

    #[test]
    fn headers_stay_in_their_domain_and_do_not_step_down() {
        let session = of("shop.test", SessionValues::Headers(signed()));
        for (first, next, sent) in [
            ("https://shop.test/", "https://shop.test/", true),
            ("https://shop.test/", "https://www.shop.test/a", true),
            ("http://shop.test/", "https://shop.test/", true),
            ("http://shop.test:8080/", "http://www.shop.test:8080/", true),
            ("https://shop.test/", "http://shop.test/", false),
            ("https://shop.test/", "https://shop.test:8443/", false),
            ("https://shop.test/", "https://shop.test.evil.test/", false),
            ("https://shop.test/", "https://notshop.test/", false),
            ("https://other.test/", "https://shop.test/", false),
        ] {
            assert_eq!(session.headers(&url(first), &url(next)).is_some(), sent, "{first} {next}");
        }
    }

    #[test]
    fn cookies_are_placed_where_they_belong() {
        let host = |host: &str, alone| Some((host.to_owned(), alone));
        let place = |cookie: SessionCookie, first: &str| {
            let session = of("shop.test", SessionValues::Cookies(vec![cookie]));
            let first = url(first);
            let placed = session.cookies(&first).next();
            placed.map(|placed| (placed.host.to_owned(), placed.host_only, placed.secure))
        };
        let first = "http://www.shop.test/";
        assert_eq!(place(cookie("a"), first), Some(("shop.test".into(), false, false)));
        assert_eq!(place(cookie("a"), "https://shop.test/"), Some(("shop.test".into(), false, true)));
        let told = SessionCookie { secure: Some(false), ..cookie("a") };
        assert_eq!(place(told, "https://shop.test/"), Some(("shop.test".into(), false, false)));
        assert_eq!(place(cookie("__Host-a"), first), Some(("www.shop.test".into(), true, true)));
        assert_eq!(place(cookie("__SECURE-a"), first), Some(("shop.test".into(), false, true)));
        let alone = SessionCookie { host: host("api.shop.test", true), ..cookie("a") };
        assert_eq!(place(alone, first), Some(("api.shop.test".into(), true, false)));
        let foreign = SessionCookie { host: host("other.test", false), ..cookie("a") };
        assert_eq!(place(foreign, first), None, "written down there by whoever");
        assert_eq!(place(cookie("a"), "https://other.test/"), None);
    }

    #[test]
    fn nothing_of_it_is_printed() {
        for values in [SessionValues::Cookies(vec![cookie("sid")]), SessionValues::Headers(signed())] {
            let session = of("shop.test", values);
            let asked = crate::FetchRequest {
                headers: hidden(signed()),
                session: Some(std::sync::Arc::new(session)),
                ..crate::FetchRequest::new(url("https://shop.test/"))
            };
            let text = format!("{asked:?}");
            assert!(text.contains("shop.test") && !text.contains("opensesame"), "{text}");
        }
    }
}
