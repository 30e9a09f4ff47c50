//! One proxy as a person writes it, and as it is connected to.
//!
//! Vendors hand out lists in two forms, and both are read: a URL (`http://user:password@host:port`, with `https`,
//! `socks5` and `socks5h` beside `http`, which is meant where no scheme stands), and four parts with colons between
//! them (`host:port:user:password`).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;

use base::web::WebUrl;

/// The longest user name and the longest password that SOCKS5 can carry, in bytes (RFC 1929, section 2).
const SOCKS_LOGIN_BYTES_MAX: usize = 255;

/// What is spoken to a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP (RFC 9110, sections 7.3 and 9.3.6).
    Http,
    /// The same under TLS.
    Https,
    /// SOCKS5 (RFC 1928). The box resolves names.
    Socks5,
    /// SOCKS5. The proxy resolves names, as far as it is allowed to (see the module above).
    Socks5h,
}

impl Scheme {
    const ALL: [(&'static str, Scheme); 4] = [
        ("http", Scheme::Http),
        ("https", Scheme::Https),
        ("socks5", Scheme::Socks5),
        ("socks5h", Scheme::Socks5h),
    ];

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, scheme)| *scheme == self).map_or("", |(name, _)| name)
    }
}

/// Who one is at a proxy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Login {
    /// The value of `Proxy-Authorization` (RFC 7617).
    pub fn basic(&self) -> Option<HeaderValue> {
        let pair = STANDARD.encode(format!("{}:{}", self.user, self.password));
        let mut value = HeaderValue::from_str(&format!("Basic {pair}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// One proxy. Two that differ in their login are two.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    pub scheme: Scheme,
    /// Where it is, as the URL whose host and port are connected to.
    place: WebUrl,
    pub login: Option<Login>,
}

impl Proxy {
    /// Reads one entry of a list; the error completes a sentence that begins with the entry. `login` is for an entry
    /// without one of its own.
    pub fn parse(text: &str, login: Option<&Login>) -> Result<Self, String> {
        let text = text.trim();
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Http, text),
            Some((name, rest)) => {
                let known = Scheme::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                let Some((_, scheme)) = known else {
                    return Err("must begin with http://, https://, socks5:// or socks5h://".to_owned());
                };
                (*scheme, rest)
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (own, place) = match rest.rsplit_once('@') {
            Some((own, place)) => {
                let (user, password) = own.split_once(':').unwrap_or((own, ""));
                (Some(Login { user: decoded(user)?, password: decoded(password)? }), place)
            }
            None => four_parts(rest),
        };
        let Some(port) = port_of(place) else {
            let reason = match place.contains('/') {
                true => "must be a host and a port without a path, as in http://proxy.example:3128",
                false => "must have a port, as in http://proxy.example:3128",
            };
            return Err(reason.to_owned());
        };
        // The place is only ever connected to, so the URL's scheme is free to say whether there is TLS on the way.
        let web = if scheme == Scheme::Https { "https" } else { "http" };
        let place = WebUrl::parse(&format!("{web}://{place}/")).map_err(|_| "has no valid host and port")?;
        if place.as_url().path() != "/" || place.as_url().query().is_some() || place.port() != port {
            return Err("must end with its port".to_owned());
        }
        let proxy = Self { scheme, place, login: own.or_else(|| login.cloned()) };
        match &proxy.login {
            Some(login) if !proxy.is_http() && !fits_socks(login) => {
                Err("has a user name or password that SOCKS5 cannot carry: each is 1 to 255 bytes".to_owned())
            }
            _ => Ok(proxy),
        }
    }

    /// Where it is.
    pub fn place(&self) -> &WebUrl {
        &self.place
    }

    /// Whether HTTP is spoken to it, and not SOCKS.
    pub fn is_http(&self) -> bool {
        matches!(self.scheme, Scheme::Http | Scheme::Https)
    }
}

/// Without its login: for people, and for logs.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.as_str(), self.place.host(), self.place.port())
    }
}

fn fits_socks(login: &Login) -> bool {
    [&login.user, &login.password].iter().all(|text| (1..=SOCKS_LOGIN_BYTES_MAX).contains(&text.len()))
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "has a user name or password that is not UTF-8".to_owned())?;
    // It goes into a header, or into a field of bytes that nobody escapes.
    match decoded.chars().any(char::is_control) {
        true => Err("has control characters in its user name or password".to_owned()),
        false => Ok(decoded.into_owned()),
    }
}

/// `host:port:user:password`; the password may hold colons. An IPv6 address is in brackets, or it is no address.
fn four_parts(text: &str) -> (Option<Login>, &str) {
    let host_end = match text.strip_prefix('[') {
        Some(inner) => inner.find(']').map(|at| at + 2),
        None => text.find(':'),
    };
    let login = host_end.and_then(|host_end| {
        let port_end = text.get(host_end + 1..)?.find(':')? + host_end + 1;
        let (user, password) = text.get(port_end + 1..)?.split_once(':')?;
        Some((Login { user: user.to_owned(), password: password.to_owned() }, &text[..port_end]))
    });
    match login {
        Some((login, place)) => (Some(login), place),
        None => (None, text),
    }
}

fn port_of(place: &str) -> Option<u16> {
    let (host, port) = place.rsplit_once(':')?;
    let whole = !host.is_empty() && (!host.starts_with('[') || host.ends_with(']'));
    port.parse().ok().filter(|port| whole && *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(String, Option<(String, String)>), String> {
        let shared = Login { user: "shared".into(), password: "pw".into() };
        let proxy = Proxy::parse(text, Some(&shared))?;
        let own = proxy.login.clone().filter(|login| *login != shared);
        Ok((proxy.to_string(), own.map(|login| (login.user, login.password))))
    }

    #[test]
    fn reads_both_forms() {
        let login = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        for (text, shown, own) in [
            ("http://proxy.example:3128", "http://proxy.example:3128", None),
            (" HTTPS://Proxy.Example:443/ ", "https://proxy.example:443", None),
            ("http://proxy.example:80", "http://proxy.example:80", None),
            ("proxy.example:8080", "http://proxy.example:8080", None),
            ("socks5://10.0.0.1:1080", "socks5://10.0.0.1:1080", None),
            ("socks5h://[2001:db8::1]:1080", "socks5h://[2001:db8::1]:1080", None),
            ("http://me:p%40ss@proxy.example:1", "http://proxy.example:1", login("me", "p@ss")),
            ("me:a:b@proxy.example:1", "http://proxy.example:1", login("me", "a:b")),
            ("http://me@proxy.example:1", "http://proxy.example:1", login("me", "")),
            ("proxy.example:8080:me:pa:ss", "http://proxy.example:8080", login("me", "pa:ss")),
            ("socks5://[::1]:1080:me:pass", "socks5://[::1]:1080", login("me", "pass")),
        ] {
            assert_eq!(parse(text), Ok((shown.to_owned(), own)), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, error) in [
            ("", "must have a port"),
            ("http://proxy.example", "must have a port"),
            ("http://proxy.example:3128/path", "without a path"),
            ("http://proxy.example:0", "must have a port"),
            ("http://proxy.example:99999", "must have a port"),
            ("::1", "has no valid host"),
            ("ftp://proxy.example:21", "must begin with http://"),
            ("http://proxy example:80", "has no valid host"),
            ("http://:80", "must have a port"),
            ("socks5://me@proxy.example:1080", "SOCKS5 cannot carry"),
            ("http://a%00b:x@proxy.example:1", "control characters"),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.contains(error), "{text}: {said}");
        }
    }

    #[test]
    fn a_login_is_never_shown() {
        let proxy = Proxy::parse("http://me:secret@proxy.example:1", None).unwrap();
        assert!(!format!("{proxy} {proxy:?}").contains("secret"));
        let basic = proxy.login.unwrap().basic().unwrap();
        assert_eq!(basic, "Basic bWU6c2VjcmV0");
        assert!(!format!("{basic:?}").contains("bWU6"));
    }
}
