//! Which addresses are one page.
//!
//! Three forms of an address, from the text to the meaning: what is *asked for* has no parameters that only tell where a
//! visitor came from; what is *kept* has no session of a visitor and no needless escape either; the *identity*, by which doubles are known, leaves out
//! whatever two spellings of one page differ in. The normal form of `WebUrl` (case of the host, default port, dots, no
//! fragment) comes before all of them.

use crate::shape::is_token;
use base::web::WebUrl;

/// Parameters that tell where a visitor came from: Google, Meta, Microsoft, Yandex, X, TikTok, Mailchimp, HubSpot, Adobe,
/// Matomo, as their own pages name them.
const TRACKING: &[&str] = &[
    "gclid",
    "gclsrc",
    "gbraid",
    "wbraid",
    "dclid",
    "gad_source",
    "fbclid",
    "msclkid",
    "yclid",
    "ysclid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "igshid",
    "igsh",
    "mc_cid",
    "mc_eid",
    "_ga",
    "_gl",
    "mkt_tok",
    "vero_id",
    "oly_anon_id",
    "oly_enc_id",
    "_hsenc",
    "_hsmi",
    "__hssc",
    "__hstc",
    "__hsfp",
    "hsctatracking",
    "s_cid",
    "wickedid",
    "srsltid",
];
const TRACKING_PREFIXES: &[&str] = &["utm_", "hsa_", "mtm_", "pk_", "matomo_"];

/// Parameters that name a visitor's session.
const SESSION: &[&str] = &[
    "phpsessid",
    "jsessionid",
    "jsession_id",
    "sessionid",
    "session_id",
    "cfid",
    "cftoken",
    "zenid",
    "oscsid",
    "osadcid",
    "xtcsid",
    "asp.net_sessionid",
];
const SESSION_PREFIXES: &[&str] = &["aspsessionid"];
/// Those that do so only where their value is a token: a `sid` may as well be the number of a story.
const SESSION_IF_TOKEN: &[&str] = &["sid", "s", "session", "sess", "sessid"];

fn is_tracking(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TRACKING.contains(&name.as_str()) || TRACKING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn is_session(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SESSION.contains(&name.as_str())
        || SESSION_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SESSION_IF_TOKEN.contains(&name.as_str()) && is_token(value)
}

/// The parameters of a query as they are written, in their order.
fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// The address with those parameters only that are wanted, and with this path.
fn with(url: &WebUrl, path: &str, wanted: impl Fn(&str, &str) -> bool) -> WebUrl {
    let query = url.as_url().query();
    let left: Vec<&str> = query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            !pair.is_empty() && wanted(name, value)
        })
        .collect();
    if path == url.as_url().path() && query.is_none_or(|query| query == left.join("&")) && query != Some("") {
        return url.clone();
    }
    let mut text = format!("{}{path}", url.origin());
    if !left.is_empty() {
        text.push('?');
        text.push_str(&left.join("&"));
    }
    WebUrl::parse(&text).unwrap_or_else(|_| url.clone())
}

/// What is asked for.
pub fn asked(url: &WebUrl) -> WebUrl {
    with(url, url.as_url().path(), |name, _| !is_tracking(name))
}

/// What is kept.
pub fn kept(url: &WebUrl) -> WebUrl {
    with(url, &unescaped(&path_without_session(url.as_url().path())), |name, value| {
        !is_tracking(name) && !is_session(name, value)
    })
}

/// A path without `;jsessionid=…` behind a segment, and without the `(S(…))` of ASP.NET.
fn path_without_session(path: &str) -> String {
    let is_aspnet = |segment: &&str| {
        let inside = segment.strip_prefix("(S(").and_then(|rest| rest.strip_suffix("))"));
        !inside.is_some_and(is_token)
    };
    let without = |segment: &str| {
        let mut parts = segment.split(';');
        let mut left = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !is_session(name, value) {
                left.push(';');
                left.push_str(part);
            }
        }
        left
    };
    path.split('/').filter(is_aspnet).map(without).collect::<Vec<_>>().join("/")
}

/// By what a page is known: two addresses with the same identity are one page. It is no address.
pub fn identity(url: &WebUrl) -> String {
    let kept = kept(url);
    let (path, query) = (kept.as_url().path(), kept.as_url().query().unwrap_or_default());
    let mut pairs: Vec<_> =
        parameters(query).map(|(name, value)| (unescaped(name), unescaped(value))).collect();
    // Stable: of several with one name the order may mean something.
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    // Whether a page comes by TLS says nothing of which one it is.
    let mut text = match kept.as_url().port() {
        None => kept.host().to_owned(),
        Some(port) => format!("{}:{port}", kept.host()),
    };
    text.push_str(path);
    for (at, (name, value)) in pairs.iter().enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        text.push_str(value);
    }
    text
}

/// Escapes that need not be ones (RFC 3986, 6.2.2.2) as what they stand for, the others in capitals.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = match bytes[at] {
            b'%' => text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()),
            _ => None,
        };
        match code {
            Some(code) => {
                let is_free = code.is_ascii_alphanumeric() || matches!(code, b'-' | b'.' | b'_' | b'~');
                if is_free {
                    out.push(char::from(code));
                } else {
                    out.push_str(&text[at..at + 3].to_ascii_uppercase());
                }
                at += 3;
            }
            None => {
                let c = text[at..].chars().next().unwrap_or('%');
                out.push(c);
                at += c.len_utf8();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).unwrap()
    }

    #[test]
    fn spellings_of_one_page_are_one() {
        let one = identity(&url("https://shop.example/a/b?x=1&y=2"));
        for same in [
            "HTTPS://SHOP.example:443/a/b?x=1&y=2#part",
            "http://shop.example/a/./c/../b?y=2&x=1",
            "https://shop.example/a/b?utm_source=mail&x=1&y=2&GCLID=abc",
            "https://shop.example/a/b;jsessionid=A1B2?x=1&y=2",
            "https://shop.example/a/b?PHPSESSID=0123456789abcdef&x=1&y=2",
            "https://shop.example/(S(lit3py55t21z5v55vlm25s55))/a/b?x=1&y=2",
            "https://shop.example/%61/b?x=1&&y=2&",
            "https://shop.example/a/b?x=1&y=2&sid=9f86d081884c7d659a2feaa0c55ad015",
        ] {
            assert_eq!(identity(&url(same)), one, "{same}");
        }
        for other in [
            "https://shop.example/a/b/?x=1&y=2",
            "https://shop.example/A/b?x=1&y=2",
            "https://shop.example:8443/a/b?x=1&y=2",
            "https://shop.example/a/b?x=2&y=1",
            "https://shop.example/a/b?x=1&y=2&sid=17",
            "https://shop.example/a/b;v=2?x=1&y=2",
            "https://www.shop.example/a/b?x=1&y=2",
            "https://shop.example/a%2Fb?x=1&y=2",
        ] {
            assert_ne!(identity(&url(other)), one, "{other}");
        }
        assert_eq!(identity(&url("https://a.example/?")), identity(&url("https://a.example")));
        assert_ne!(
            identity(&url("https://a.example/?a=1&a=2")),
            identity(&url("https://a.example/?a=2&a=1"))
        );
    }

    #[test]
    fn what_is_asked_for_and_kept_says_no_more_than_it_must() {
        let text = "https://shop.example/%61;jsessionid=1?b=%20x&utm_source=m&PHPSESSID=7";
        assert_eq!(asked(&url(text)).as_str(), "https://shop.example/%61;jsessionid=1?b=%20x&PHPSESSID=7");
        assert_eq!(kept(&url(text)).as_str(), "https://shop.example/a?b=%20x");
        for same in ["https://a.example/?b=1&c", "https://a.example/x//y;z"] {
            assert_eq!(kept(&url(same)).as_str(), same);
        }
        assert_eq!(asked(&url("https://a.example/?utm_id=1")).as_str(), "https://a.example/");
    }

    #[test]
    fn an_identity_has_one_form_whatever_is_escaped() {
        assert_eq!(unescaped("a%7eb%2fc%zz%"), "a~b%2Fc%zz%");
        assert_eq!(unescaped("%e2%82%ac"), "%E2%82%AC");
    }
}
