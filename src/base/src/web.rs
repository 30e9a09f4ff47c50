//! Web addresses as types: a [`WebUrl`] can be fetched, a [`Domain`] can be routed, counted and rated.
//!
//! The idea: text is parsed once, at the door, and what passes carries the proof. Invariants:
//! - a `WebUrl` is an absolute `http` or `https` URL in the WHATWG normal form, with a host, without user name,
//!   password, fragment or default port, and at most [`URL_BYTES_MAX`] bytes long; two texts that mean the same
//!   page become equal values, so one row per normalized URL is one row per page;
//! - a `Domain` is the registrable domain by the public suffix list (`www.shop.co.uk` is `shop.co.uk`), lower case
//!   and in its ASCII form, or the host itself where there is no such thing (an IP address, `localhost`, a name
//!   that is itself a public suffix).
//!
//! Nothing here does I/O. Sources: the WHATWG URL Standard (crate `url`), publicsuffix.org (crate `psl`), and the
//! interface's page on URLs (fragment and default port dropped).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use url::{Host, Url};

/// The longest URL that is accepted, in bytes, before and after normalization.
pub const URL_BYTES_MAX: usize = 2048;

/// The longest host name that DNS can carry, in bytes (RFC 1035, section 2.3.4, without the final dot).
const HOST_BYTES_MAX: usize = 253;

/// Why a text is not a [`WebUrl`] or not a [`Domain`]. `Display` completes a sentence that begins with "the URL".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlError {
    Empty,
    TooLong,
    NotAbsolute,
    Scheme,
    NoHost,
    BadHost,
    BadPort,
    Credentials,
    Malformed,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::TooLong => write!(f, "is longer than {URL_BYTES_MAX} bytes"),
            Self::NotAbsolute => f.write_str("is not absolute (it must begin with http:// or https://)"),
            Self::Scheme => f.write_str("scheme must be http or https"),
            Self::NoHost => f.write_str("has no host"),
            Self::BadHost => f.write_str("has an invalid host"),
            Self::BadPort => f.write_str("has an invalid port"),
            Self::Credentials => f.write_str("must not contain a user name or password"),
            Self::Malformed => f.write_str("is malformed"),
        }
    }
}

impl std::error::Error for UrlError {}

impl From<url::ParseError> for UrlError {
    fn from(error: url::ParseError) -> Self {
        use url::ParseError as E;
        match error {
            E::EmptyHost => Self::NoHost,
            E::InvalidPort => Self::BadPort,
            E::IdnaError | E::InvalidIpv4Address | E::InvalidIpv6Address | E::InvalidDomainCharacter => {
                Self::BadHost
            }
            E::RelativeUrlWithoutBase | E::RelativeUrlWithCannotBeABaseBase => Self::NotAbsolute,
            E::Overflow => Self::TooLong,
            _ => Self::Malformed,
        }
    }
}

/// Whether a host has an empty label before its last one: the URL Standard lets `a..com` through, DNS cannot ask for it.
fn has_empty_label(host: &str) -> bool {
    host.split('.').rev().skip(1).any(str::is_empty)
}

/// Whether a host in its normal form is an IP address and no name.
pub fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

/// The host in a URL's normal form, as [`WebUrl::host`] gives it, without parsing it anew
/// at each change of a row. What is no such URL has no host.
pub fn host_of(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else { return "" };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // No URL of ours has a login. A port stands behind the last colon, unless that is one of an IPv6 address in brackets.
    match authority.rsplit_once(':') {
        Some((host, _)) if !host.starts_with('[') || host.ends_with(']') => host,
        _ => authority,
    }
}

/// An absolute, normalized http(s) URL that the box may try to fetch. See the module page for what it promises.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebUrl(Url);

impl WebUrl {
    /// Parses and normalizes `text`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        Self::from_url(Url::parse(text)?)
    }

    /// Resolves `reference` (a `Location` header, an `href`) against this URL.
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        // A reference adds to the base at most its own length, so a long one is refused before it is copied.
        if reference.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        Self::from_url(self.0.join(reference.trim())?)
    }

    /// Checks and normalizes a URL that is already parsed.
    fn from_url(mut url: Url) -> Result<Self, UrlError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme);
        }
        let host = url.host_str().unwrap_or_default();
        if host.is_empty() || host == "." {
            return Err(UrlError::NoHost);
        }
        if host.trim_end_matches('.').len() > HOST_BYTES_MAX || has_empty_label(host) {
            return Err(UrlError::BadHost);
        }
        if url.port() == Some(0) {
            return Err(UrlError::BadPort);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        url.set_fragment(None);
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        Ok(Self(url))
    }

    /// Its text, which was parsed and normalized.
    pub fn into_string(self) -> String {
        self.0.into()
    }

    /// The normalized text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The parsed URL.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// The host as it stands in the URL: lower case, ASCII, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        self.0.host_str().expect("a WebUrl is built with a host")
    }

    /// The host, told apart into a name or an address.
    pub fn host_kind(&self) -> Host<&str> {
        self.0.host().expect("a WebUrl is built with a host")
    }

    /// The port to connect to: the one that is written, or the scheme's own.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().expect("http and https have a default port")
    }

    /// Whether the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The `Host` header's value: the host, and the port unless it is the scheme's own.
    pub fn authority(&self) -> Cow<'_, str> {
        match self.0.port() {
            None => Cow::Borrowed(self.host()),
            Some(port) => Cow::Owned(format!("{}:{port}", self.host())),
        }
    }

    /// Path and query, as they stand in a request line.
    pub fn path_and_query(&self) -> &str {
        &self.0[url::Position::BeforePath..url::Position::AfterQuery]
    }

    /// Scheme, host and port as text (`https://example.com`, `http://example.com:8080`), without a final slash.
    pub fn origin(&self) -> &str {
        &self.0[..url::Position::BeforePath]
    }

    /// The registrable domain of the host.
    pub fn domain(&self) -> Domain {
        Domain::of_host(self.host())
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebUrl({})", self.as_str())
    }
}

impl FromStr for WebUrl {
    type Err = UrlError;
    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl Serialize for WebUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for WebUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(|e| de::Error::custom(format_args!("the URL {e}")))
    }
}

impl JsonSchema for WebUrl {
    fn schema_name() -> Cow<'static, str> {
        "WebUrl".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "uri", "maxLength": URL_BYTES_MAX, "pattern": "^[Hh][Tt][Tt][Pp][Ss]?:" })
    }
}

/// A registrable domain, or a host that has none. See the module page for what it promises.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Box<str>);

impl Domain {
    /// Parses a host name, an IPv4 address or a bracketed IPv6 address, and reduces it to its registrable domain:
    /// `WWW.Example.com` becomes `example.com`, `münchen.de` becomes `xn--mnchen-3ya.de`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        if text.is_empty() || text == "." {
            return Err(UrlError::Empty);
        }
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let host = Host::parse(text)?.to_string();
        if host.trim_end_matches('.').len() > HOST_BYTES_MAX || has_empty_label(&host) {
            return Err(UrlError::BadHost);
        }
        Ok(Self::of_host(&host))
    }

    /// What a filter by domain looks for: any host of a domain finds the domain, whatever its case; a text that is no
    /// host is left as it is and finds nothing.
    pub fn of_filter(text: String) -> String {
        Self::parse(&text).map_or(text, |domain| domain.to_string())
    }

    /// The domain of a host that the URL parser has already brought into its normal form.
    fn of_host(host: &str) -> Self {
        let is_address = is_address(host);
        let host = host.strip_suffix('.').unwrap_or(host);
        let registrable = if is_address { None } else { psl::domain_str(host) };
        Self(registrable.unwrap_or(host).into())
    }

    /// Whether it is a name under which the public registers (`com`, `co.uk`, `github.io`): nobody's own, and shared by
    /// many.
    pub fn is_public_suffix(&self) -> bool {
        let suffix = psl::suffix(self.0.as_bytes()).filter(|_| !is_address(&self.0));
        suffix.is_some_and(|suffix| suffix.is_known() && suffix.as_bytes() == self.0.as_bytes())
    }

    /// The domain's text: lower case, ASCII, without a final dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({})", self.0)
    }
}

impl FromStr for Domain {
    type Err = UrlError;
    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl Serialize for Domain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Domain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(|e| de::Error::custom(format_args!("the domain {e}")))
    }
}

impl JsonSchema for Domain {
    fn schema_name() -> Cow<'static, str> {
        "Domain".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "hostname", "maxLength": HOST_BYTES_MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizes_what_means_the_same_page() {
        for (text, normal) in [
            ("HTTP://Example.COM", "http://example.com/"),
            ("http://example.com:80/a", "http://example.com/a"),
            ("https://example.com:443/a#part", "https://example.com/a"),
            ("https://example.com:8443/a/../b?q=1#x", "https://example.com:8443/b?q=1"),
            ("  http://example.com/a b ", "http://example.com/a%20b"),
            ("http://münchen.de/ß", "http://xn--mnchen-3ya.de/%C3%9F"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("http://[::FFFF:169.254.169.254]/", "http://[::ffff:a9fe:a9fe]/"),
        ] {
            assert_eq!(WebUrl::parse(text).unwrap().as_str(), normal, "{text}");
        }
    }

    #[test]
    fn refuses_with_a_reason() {
        let long = format!("http://example.com/{}", "a".repeat(URL_BYTES_MAX));
        // Short enough as written, too long once every character is percent-encoded.
        let grows = format!("http://example.com/{}", "ß".repeat(900));
        for (text, error) in [
            ("", UrlError::Empty),
            ("example.com/a", UrlError::NotAbsolute),
            ("/a", UrlError::NotAbsolute),
            ("file:///etc/passwd", UrlError::Scheme),
            ("ftp://example.com/", UrlError::Scheme),
            ("javascript:alert(1)", UrlError::Scheme),
            ("data:text/html,x", UrlError::Scheme),
            ("http://", UrlError::NoHost),
            ("http://exa mple.com/", UrlError::BadHost),
            ("http://256.256.256.256/", UrlError::BadHost),
            ("http://a..com/", UrlError::BadHost),
            ("http://.com/", UrlError::BadHost),
            ("http://example.com:99999/", UrlError::BadPort),
            ("http://example.com:0/", UrlError::BadPort),
            ("http://user@example.com/", UrlError::Credentials),
            ("http://user:secret@example.com/", UrlError::Credentials),
            (&long, UrlError::TooLong),
            (&grows, UrlError::TooLong),
        ] {
            assert_eq!(WebUrl::parse(text), Err(error), "{text}");
        }
        assert_eq!(UrlError::Scheme.to_string(), "scheme must be http or https");
        assert_eq!(UrlError::NoHost.to_string(), "has no host");
    }

    #[test]
    fn joins_references_and_splits_into_parts() {
        let base = WebUrl::parse("https://shop.example.com:8443/a/b?x=1").unwrap();
        assert_eq!(base.join("../c#f").unwrap().as_str(), "https://shop.example.com:8443/c");
        assert_eq!(base.join("//other.org/").unwrap().as_str(), "https://other.org/");
        assert_eq!(base.join("mailto:a@b.c"), Err(UrlError::Scheme));
        assert_eq!(base.join("http://u:p@other.org/"), Err(UrlError::Credentials));
        assert_eq!(base.authority(), "shop.example.com:8443");
        assert_eq!(base.path_and_query(), "/a/b?x=1");
        assert_eq!(base.origin(), "https://shop.example.com:8443");
        assert_eq!((base.port(), base.is_https()), (8443, true));
    }

    #[test]
    fn finds_the_registrable_domain() {
        for (url, domain) in [
            ("http://www.example.com/", "example.com"),
            ("http://a.b.example.co.uk/", "example.co.uk"),
            ("http://someone.github.io/", "someone.github.io"),
            ("http://example.com./", "example.com"),
            ("http://localhost:8080/", "localhost"),
            ("http://127.0.0.1:8080/", "127.0.0.1"),
            ("http://[::1]/", "[::1]"),
            ("http://co.uk/", "co.uk"),
            ("http://shop.corp.internal/", "corp.internal"),
            ("http://www.bücher.de/", "xn--bcher-kva.de"),
        ] {
            assert_eq!(WebUrl::parse(url).unwrap().domain().as_str(), domain, "{url}");
        }
    }

    #[test]
    fn parses_domains() {
        for (text, domain) in [
            ("Example.COM", "example.com"),
            ("www.example.com.", "example.com"),
            ("[::1]", "[::1]"),
            ("MÜNCHEN.de", "xn--mnchen-3ya.de"),
        ] {
            let parsed = Domain::parse(text).unwrap();
            assert_eq!(parsed.as_str(), domain);
            assert_eq!(Domain::parse(parsed.as_str()).unwrap(), parsed, "parsing is idempotent");
        }
        for text in ["", " ", "a b.com", "exa/mple.com", "a..com", "user@example.com"] {
            assert!(Domain::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_filter_finds_the_domain_of_a_host() {
        for (text, sought) in
            [("WWW.Example.com", "example.com"), ("example.com", "example.com"), ("a b", "a b")]
        {
            assert_eq!(Domain::of_filter(text.to_owned()), sought);
        }
    }

    #[test]
    fn the_domain_of_every_url_is_one_that_parses() {
        for text in
            ["http://a..com/", "http://.com/", "http://.a.com/", "http://a.com../", "http://a_b.example.com/"]
        {
            if let Ok(url) = WebUrl::parse(text) {
                assert_eq!(Domain::parse(url.domain().as_str()), Ok(url.domain()), "{text}");
            }
        }
    }

    #[test]
    fn travels_as_a_string() {
        let url: WebUrl = serde_json::from_str("\"HTTP://Example.com:80/#x\"").unwrap();
        assert_eq!(serde_json::to_string(&url).unwrap(), "\"http://example.com/\"");
        let error = serde_json::from_str::<WebUrl>("\"file:///x\"").unwrap_err().to_string();
        assert!(error.contains("scheme must be http or https"), "{error}");
        let domain: Domain = serde_json::from_str("\"WWW.example.com\"").unwrap();
        assert_eq!(serde_json::to_string(&domain).unwrap(), "\"example.com\"");
        assert_eq!(schemars::schema_for!(WebUrl).get("type").unwrap(), "string");
    }

    #[test]
    fn the_host_is_the_urls() {
        for text in [
            "http://a.test",
            "https://WWW.Example.com:8443/x?y=http://other.test/#z",
            "http://a.test:81?x@y:80",
            "http://127.0.0.1:8080/a",
            "http://[::1]:8080/a",
            "http://[2001:db8::7]/",
            "https://münchen.de./ü",
        ] {
            let url = WebUrl::parse(text).unwrap();
            assert_eq!(host_of(url.as_str()), url.host(), "{text}");
        }
        assert_eq!(host_of("nothing"), "");
    }
}
