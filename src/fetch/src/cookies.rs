//! The cookies of one redirect chain.
//!
//! Many sites set a cookie, redirect, and show the page only to who brings it back; that much a fetch must do. The jar
//! lives as long as the fetch, so it needs no persistence, no eviction and no expiry beyond "deleted". A signed-in page's
//! jar begins with the cookies of its site session; what the site sets anew is the chain's, and the session stays as it is.
//! Rules from RFC 6265, kept to the safe side: a `Domain` attribute counts only when the host lies under it and it is
//! no public suffix; a `Secure` cookie goes over https only; a malformed one is ignored.

use std::time::SystemTime;

use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue};

use super::session::SiteSession;
use base::web::WebUrl;

/// Cookies in the jar, and the size of one (RFC 6265, section 6.1 asks browsers for 50 a domain of 4,096 bytes).
const COOKIES_MAX: usize = 50;
const COOKIE_BYTES_MAX: usize = 4096;
/// The whole `Cookie` header. Common servers refuse heads beyond 8 KiB.
const HEADER_BYTES_MAX: usize = 8192;

#[derive(Debug)]
struct Cookie {
    name: Box<str>,
    value: Box<str>,
    domain: Box<str>,
    /// The cookie goes to `domain` alone, not to the hosts under it.
    host_only: bool,
    path: Box<str>,
    secure: bool,
    /// It was handed over without a word about its host: one that the site sets under this name takes its place.
    loose: bool,
}

/// The jar of one fetch.
#[derive(Debug, Default)]
pub struct CookieJar {
    cookies: Vec<Cookie>,
    /// Of those, how many a session brought, and their bytes: they are bounded where sessions are made.
    seeded: usize,
    seeded_bytes: usize,
}

impl CookieJar {
    /// The jar of a chain that begins at `first`, with the cookies that a session has for it.
    pub(super) fn of_session(session: Option<&SiteSession>, first: &WebUrl) -> Self {
        let placed = session.into_iter().flat_map(|session| session.cookies(first));
        let cookies = placed.map(|placed| Cookie {
            name: placed.cookie.name.as_str().into(),
            value: placed.cookie.value.as_str().into(),
            domain: placed.host.into(),
            host_only: placed.host_only,
            path: placed.cookie.path.as_str().into(),
            secure: placed.secure,
            loose: placed.cookie.host.is_none(),
        });
        let cookies: Vec<_> = cookies.collect();
        let seeded_bytes = cookies.iter().map(|cookie| cookie.name.len() + cookie.value.len() + 3).sum();
        Self { seeded: cookies.len(), cookies, seeded_bytes }
    }

    /// Takes the cookies that `url` sets by its answer's headers.
    pub fn take(&mut self, url: &WebUrl, headers: &HeaderMap) {
        for value in headers.get_all(SET_COOKIE) {
            if let Ok(text) = value.to_str() {
                self.set(url, text);
            }
        }
    }

    fn set(&mut self, url: &WebUrl, text: &str) {
        let mut parts = text.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.len() + value.len() > COOKIE_BYTES_MAX {
            return;
        }
        let mut cookie = Cookie {
            name: name.into(),
            value: value.into(),
            domain: url.host().into(),
            host_only: true,
            path: default_path(url).into(),
            secure: false,
            loose: false,
        };
        let mut deleted = false;
        for attribute in parts {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "domain" => {
                    let domain = value.trim_start_matches('.').to_ascii_lowercase();
                    if domain.is_empty() || domain == url.host() {
                        cookie.host_only &= domain.is_empty();
                    } else if may_set_for(url, &domain) {
                        (cookie.domain, cookie.host_only) = (domain.into(), false);
                    } else {
                        return;
                    }
                }
                "path" if value.starts_with('/') => cookie.path = value.into(),
                "secure" => cookie.secure = true,
                "max-age" => deleted |= value.parse::<i64>().is_ok_and(|seconds| seconds <= 0),
                "expires" => {
                    deleted |= httpdate::parse_http_date(value).is_ok_and(|at| at <= SystemTime::now())
                }
                _ => {}
            }
        }
        if cookie.secure && !url.is_https() {
            return;
        }
        self.cookies.retain(|c| {
            let is_same = (&c.domain, &c.path) == (&cookie.domain, &cookie.path);
            // A host speaks for the cookies that it is sent, and for no others.
            c.name != cookie.name || !(is_same || (c.loose && c.fits(url)))
        });
        if !deleted && self.cookies.len() < COOKIES_MAX + self.seeded {
            self.cookies.push(cookie);
        }
    }

    /// The `Cookie` header for a request to `url`; longer paths first (RFC 6265, section 5.4).
    pub fn header_for(&self, url: &WebUrl) -> Option<HeaderValue> {
        let mut fitting: Vec<&Cookie> = self.cookies.iter().filter(|cookie| cookie.fits(url)).collect();
        fitting.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let mut text = String::new();
        for cookie in fitting {
            if text.len() + cookie.name.len() + cookie.value.len() + 3 > HEADER_BYTES_MAX + self.seeded_bytes
            {
                break;
            }
            let separator = if text.is_empty() { "" } else { "; " };
            text.extend([separator, &cookie.name, "=", &cookie.value]);
        }
        let mut value = if text.is_empty() { None } else { HeaderValue::from_str(&text).ok() };
        // What lets somebody in is not for a log.
        value.iter_mut().for_each(|value| value.set_sensitive(true));
        value
    }
}

impl SiteSession {
    /// Whether a request for `url` that begins a chain carries something of it.
    pub fn is_sent_to(&self, url: &WebUrl) -> bool {
        self.headers(url, url).is_some() || CookieJar::of_session(Some(self), url).header_for(url).is_some()
    }
}

impl Cookie {
    fn fits(&self, url: &WebUrl) -> bool {
        let host = url.host();
        let host_fits = host == &*self.domain || (!self.host_only && is_under(host, &self.domain));
        let path = url.as_url().path();
        let path_fits = path
            .strip_prefix(&*self.path)
            .is_some_and(|rest| rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/'));
        host_fits && path_fits && (!self.secure || url.is_https())
    }
}

/// Whether `host` may set cookies for `domain`: it lies under it, and the domain belongs to one registrant.
fn may_set_for(url: &WebUrl, domain: &str) -> bool {
    let registrable = url.domain();
    let owned = domain == registrable.as_str() || is_under(domain, registrable.as_str());
    matches!(url.host_kind(), url::Host::Domain(_)) && is_under(url.host(), domain) && owned
}

fn is_under(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// The directory of the URL's path (RFC 6265, section 5.1.4).
fn default_path(url: &WebUrl) -> &str {
    let path = url.as_url().path();
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).unwrap()
    }

    fn jar(from: &str, set: &[&str]) -> CookieJar {
        let mut jar = CookieJar::default();
        let headers = set.iter().map(|v| (SET_COOKIE, HeaderValue::from_str(v).unwrap())).collect();
        jar.take(&url(from), &headers);
        jar
    }

    fn sent(jar: &CookieJar, to: &str) -> String {
        jar.header_for(&url(to)).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    #[test]
    fn sends_cookies_where_they_belong() {
        for (from, set, to, expected) in [
            ("http://www.a.com/x/y", "s=1", "http://www.a.com/x/z", "s=1"),
            ("http://www.a.com/x/y", "s=1", "http://www.a.com/", ""),
            ("http://www.a.com/x/y", "s=1; Path=/", "http://www.a.com/", "s=1"),
            ("http://www.a.com/", "s=1; path=/shop", "http://www.a.com/shopping", ""),
            ("http://www.a.com/", "s=1; path=/shop", "http://www.a.com/shop/1", "s=1"),
            ("http://www.a.com/", "s=1", "http://a.com/", ""),
            ("http://www.a.com/", "s=1; Domain=.a.com", "http://shop.a.com/", "s=1"),
            ("http://www.a.com/", "s=1; Domain=A.com", "http://b.com/", ""),
            ("http://www.a.com/", "s=1; Domain=b.com", "http://b.com/", ""),
            ("http://www.a.com/", "s=1; Domain=com", "http://b.com/", ""),
            ("http://x.co.uk/", "s=1; Domain=co.uk", "http://y.co.uk/", ""),
            ("http://a.github.io/", "s=1; Domain=github.io", "http://b.github.io/", ""),
            ("http://www.a.com/", "s=1; Domain=w.a.com", "http://w.a.com/", ""),
            ("http://127.0.0.1/", "s=1; Domain=0.0.1", "http://127.0.0.1/", ""),
            ("https://a.com/", "s=1; Secure", "https://a.com/", "s=1"),
            ("https://a.com/", "s=1; Secure", "http://a.com/", ""),
            ("http://a.com/", "s=1; Secure", "https://a.com/", ""),
            ("http://a.com/", "s=1; Max-Age=0", "http://a.com/", ""),
            ("http://a.com/", "s=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "http://a.com/", ""),
            ("http://a.com/", "=1", "http://a.com/", ""),
            ("http://a.com/", "nothing", "http://a.com/", ""),
            ("http://a.com/", "s=a=b", "http://a.com/", "s=a=b"),
        ] {
            assert_eq!(sent(&jar(from, &[set]), to), expected, "{from} sets {set}, {to}");
        }
    }

    #[test]
    fn replaces_deletes_and_orders() {
        let mut jar = jar("http://a.com/x/", &["a=1; path=/", "a=2; path=/", "b=3; path=/x"]);
        assert_eq!(sent(&jar, "http://a.com/x/"), "b=3; a=2");
        jar.set(&url("http://a.com/x/"), "b=; path=/x; max-age=-1");
        assert_eq!(sent(&jar, "http://a.com/x/"), "a=2");
    }

    #[test]
    fn stays_small() {
        let mut jar = CookieJar::default();
        for n in 0..200 {
            jar.set(&url("http://a.com/"), &format!("c{n}={}", "x".repeat(1000)));
        }
        jar.set(&url("http://a.com/"), &format!("big={}", "x".repeat(5000)));
        assert_eq!(jar.cookies.len(), COOKIES_MAX);
        assert!(sent(&jar, "http://a.com/").len() <= HEADER_BYTES_MAX);
    }
}
