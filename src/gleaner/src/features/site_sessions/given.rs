//! What people hand over, read: cookies as a list, as the text of a `Cookie` header, as the file that browsers and their
//! extensions write; headers as an object or as lines. A refusal names the place and never the value.

use super::sealed::{KeptCookie, KeptValues};
use base::clock::Timestamp;
use base::limits::{SITE_SESSION_BYTES_MAX, SITE_SESSION_COOKIES_MAX, SITE_SESSION_HEADERS_MAX};
use base::web::{Domain, WebUrl, is_address};
use base::{Error, Result};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Bytes of a cookie's path.
const PATH_BYTES_MAX: usize = 1_024;
/// Fields of a line of a cookies.txt (Netscape's format, as curl and wget write it).
const NETSCAPE_FIELDS: usize = 7;
/// How such a line begins whose cookie scripts do not see.
const HTTP_ONLY_PREFIX: &str = "#HttpOnly_";
/// A number of seconds beyond this counts milliseconds.
const SECONDS_MAX: f64 = 1e11;

/// What was handed over.
#[derive(Debug)]
pub(super) struct GivenSession {
    pub values: KeptValues,
    pub names: Vec<String>,
    /// The first and the last end of the cookies; no last one where one has none.
    pub expires_at: Option<Timestamp>,
    pub ends_at: Option<Timestamp>,
    /// Cookies that are not kept: of other domains, or over.
    pub left_out: usize,
}

fn refuse(field: &str, reason: impl std::fmt::Display) -> Error {
    Error::invalid(field, reason)
}

/// Headers of `values`.
pub(super) fn headers(values: &Value) -> Result<GivenSession> {
    let lines: Vec<(String, String)> = match values {
        Value::Object(members) => {
            let line = |(name, value): (&String, &Value)| match value {
                Value::String(text) => Ok((name.clone(), text.trim_ascii().to_owned())),
                _ => Err(refuse(&format!("values.{name}"), "must be a text")),
            };
            members.iter().map(line).collect::<Result<_>>()?
        }
        Value::String(text) => {
            let line = |(at, line): (usize, &str)| {
                let pair = line.split_once(':').ok_or_else(|| {
                    refuse("values", format!("line {} is no header: it has no colon", at + 1))
                })?;
                Ok((pair.0.trim_ascii().to_owned(), pair.1.trim_ascii().to_owned()))
            };
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            lines.map(line).collect::<Result<_>>()?
        }
        _ => return Err(refuse("values", "must be an object of headers, or their lines as a text")),
    };
    if !(1..=SITE_SESSION_HEADERS_MAX).contains(&lines.len()) {
        let reason = format!("must have 1 to {SITE_SESSION_HEADERS_MAX} headers, not {}", lines.len());
        return Err(refuse("values", reason));
    }
    let mut names = BTreeSet::new();
    for (name, value) in &lines {
        let refused = |reason: &str| Err(refuse(&format!("values.{name}"), reason));
        let Ok(parsed) = http::HeaderName::from_bytes(name.as_bytes()) else {
            return refused("is not a header's name");
        };
        if value.is_empty() || !value.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
            return refused("must have a value of visible characters of ASCII");
        }
        if parsed == http::header::COOKIE {
            return refused("belongs into a session of the kind cookies");
        }
        if let Some(reason) = fetch::headers::refusal(&parsed) {
            return refused(&reason);
        }
        if !names.insert(parsed.as_str().to_owned()) {
            return refused("is given twice; upper and lower case are one");
        }
    }
    bounded(lines.iter().map(|(name, value)| name.len() + value.len()).sum())?;
    let names = names.into_iter().collect();
    let values = KeptValues::Headers(lines);
    Ok(GivenSession { values, names, expires_at: None, ends_at: None, left_out: 0 })
}

fn bounded(bytes: usize) -> Result<()> {
    if bytes > SITE_SESSION_BYTES_MAX {
        return Err(refuse(
            "values",
            format!("take {bytes} bytes; at most {SITE_SESSION_BYTES_MAX} are kept"),
        ));
    }
    Ok(())
}

/// Cookies of `values` that a host of `domain` may be sent.
pub(super) fn cookies(values: &Value, domain: &Domain, now: Timestamp) -> Result<GivenSession> {
    let all = listed(values)?;
    let count = all.len();
    let mut kept: Vec<KeptCookie> = Vec::new();
    let (mut foreign, mut over) = (0, 0);
    for (field, cookie) in all {
        let Some(cookie) = cookie.placed(&field, domain)? else {
            foreign += 1;
            continue;
        };
        if cookie.expires_at.is_some_and(|end| end <= now) {
            over += 1;
            continue;
        }
        check(&field, &cookie)?;
        // Of two that mean the same one the later counts, as in a browser.
        kept.retain(|other| !other.is_same(&cookie));
        if kept.len() >= SITE_SESSION_COOKIES_MAX {
            let reason =
                format!("has {count} cookies; at most {SITE_SESSION_COOKIES_MAX} of {domain} are kept");
            return Err(refuse("values", reason));
        }
        kept.push(cookie);
    }
    if kept.is_empty() {
        let reason = match (foreign, over) {
            (0, 0) => "has no cookie".to_owned(),
            _ => format!("has no cookie for {domain}: {foreign} are of other domains, {over} are over"),
        };
        return Err(refuse("values", reason));
    }
    bounded(kept.iter().map(KeptCookie::bytes).sum())?;
    let names: BTreeSet<String> = kept.iter().map(|cookie| cookie.name.clone()).collect();
    let ends = || kept.iter().filter_map(|cookie| cookie.expires_at);
    let has_end = kept.iter().all(|cookie| cookie.expires_at.is_some());
    Ok(GivenSession {
        names: names.into_iter().collect(),
        expires_at: ends().min(),
        ends_at: ends().max().filter(|_| has_end),
        left_out: foreign + over,
        values: KeptValues::Cookies(kept),
    })
}

fn check(field: &str, cookie: &KeptCookie) -> Result<()> {
    let visible = |text: &str, without: &[u8]| {
        text.bytes().all(|byte| matches!(byte, 0x21..=0x7e) && !without.contains(&byte))
    };
    if cookie.name.is_empty() || !visible(&cookie.name, b"=;,") {
        let reason = "must be 1 or more visible characters of ASCII without =, ; and ,";
        return Err(refuse(&format!("{field}.name"), reason));
    }
    // Servers write spaces, quotes and commas into values, against the standard.
    if !cookie.value.bytes().all(|byte| matches!(byte, 0x20..=0x7e) && byte != b';') {
        let reason = format!("of {} must be visible characters of ASCII without ;", cookie.name);
        return Err(refuse(&format!("{field}.value"), reason));
    }
    let path = &cookie.path;
    if path.len() > PATH_BYTES_MAX || !path.starts_with('/') || !visible(path, b";") {
        let reason = format!("must begin with / and have at most {PATH_BYTES_MAX} visible characters");
        return Err(refuse(&format!("{field}.path"), reason));
    }
    Ok(())
}

/// A cookie as it was written down.
#[derive(Default)]
struct GivenCookie {
    name: String,
    value: String,
    /// With a dot in front for the hosts under it.
    domain: Option<String>,
    host_only: Option<bool>,
    path: Option<String>,
    secure: Option<bool>,
    http_only: bool,
    expires_at: Option<Timestamp>,
}

impl GivenCookie {
    /// The cookie with its host, if that is of `domain`.
    fn placed(self, field: &str, domain: &Domain) -> Result<Option<KeptCookie>> {
        let host = match self.domain.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => {
                let bare = text.trim_start_matches('.');
                let url = WebUrl::parse(&format!("http://{bare}/")).ok();
                let url = url.filter(|_| !bare.contains(['/', '?', '#', '@', ':']) || bare.starts_with('['));
                let url = url.ok_or_else(|| refuse(&format!("{field}.domain"), "is not a host"))?;
                if url.domain() != *domain {
                    return Ok(None);
                }
                let alone = self.host_only.unwrap_or(bare.len() == text.len()) || is_address(url.host());
                Some((url.host().to_owned(), alone))
            }
        };
        Ok(Some(KeptCookie {
            name: self.name.trim_ascii().to_owned(),
            value: self.value.trim_ascii().to_owned(),
            host,
            path: self.path.filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned()),
            secure: self.secure,
            http_only: self.http_only,
            expires_at: self.expires_at,
        }))
    }
}

/// The cookies of what was handed over, each with its place.
fn listed(values: &Value) -> Result<Vec<(String, GivenCookie)>> {
    match values {
        Value::Array(items) => {
            let one = |(at, item): (usize, &Value)| {
                let field = format!("values[{at}]");
                let Value::Object(members) = item else {
                    return Err(refuse(&field, "must be an object with name and value"));
                };
                of_members(&field, members).map(|cookie| (field, cookie))
            };
            items.iter().enumerate().map(one).collect()
        }
        Value::Object(members) => match members.get("cookies") {
            // As browser automation writes its state down.
            Some(Value::Array(_)) => listed(&members["cookies"]),
            _ => members.iter().map(of_pair).collect(),
        },
        Value::String(text) => of_text(text.trim()),
        _ => Err(refuse("values", "must be a list of cookies, or a text of them")),
    }
}

fn of_pair((name, value): (&String, &Value)) -> Result<(String, GivenCookie)> {
    let field = format!("values.{name}");
    let Value::String(value) = value else { return Err(refuse(&field, "must be a text")) };
    let cookie = GivenCookie { name: name.clone(), value: value.clone(), ..GivenCookie::default() };
    Ok((field, cookie))
}

fn of_members(field: &str, members: &Map<String, Value>) -> Result<GivenCookie> {
    let name = |part: &str| format!("{field}.{part}");
    let text = |part: &str| match members.get(part) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(refuse(&name(part), "must be a text")),
    };
    let flag = |part: &str| match members.get(part) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(refuse(&name(part), "must be true or false")),
    };
    let missing = |part: &str| refuse(&name(part), "is missing");
    let mut expires_at = None;
    for part in ["expires", "expirationDate", "expiry"] {
        let given = members.get(part).filter(|value| !value.is_null());
        expires_at = match given {
            None => expires_at,
            Some(value) => end(value).map_err(|reason| refuse(&name(part), reason))?,
        };
    }
    Ok(GivenCookie {
        name: text("name")?.ok_or_else(|| missing("name"))?,
        value: text("value")?.ok_or_else(|| missing("value"))?,
        domain: text("domain")?,
        host_only: flag("hostOnly")?,
        path: text("path")?,
        secure: flag("secure")?,
        http_only: flag("httpOnly")?.unwrap_or(false),
        expires_at,
    })
}

/// When a cookie is over: seconds since 1970 (or milliseconds), or a date; nothing for one that ends with its browser.
fn end(value: &Value) -> Result<Option<Timestamp>, String> {
    match value {
        Value::String(text) => text.parse().map(Some),
        Value::Number(number) => Ok(number.as_f64().and_then(end_of_number)),
        _ => Err("must be a number of seconds since 1970, or an RFC 3339 time".to_owned()),
    }
}

fn end_of_number(number: f64) -> Option<Timestamp> {
    let millis = if number > SECONDS_MAX { number } else { number * 1_000.0 };
    // A cast of a float saturates.
    (number > 0.0).then_some(Timestamp(millis as i64))
}

fn of_text(text: &str) -> Result<Vec<(String, GivenCookie)>> {
    if text.starts_with(['[', '{']) {
        let parsed: Value = serde_json::from_str(text).map_err(|e| {
            refuse("values", format!("is no JSON at line {}, column {} of it", e.line(), e.column()))
        })?;
        return listed(&parsed);
    }
    let is_file = text.starts_with("# ") || text.lines().any(|line| line.matches('\t').count() >= 5);
    if is_file { of_netscape(text) } else { of_header(text) }
}

/// A `Cookie` header, with its name or without.
fn of_header(text: &str) -> Result<Vec<(String, GivenCookie)>> {
    let name = "cookie:";
    let has_name = text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let text = if has_name { &text[name.len()..] } else { text };
    if text.chars().any(char::is_control) {
        return Err(refuse("values", "must be one line: name=value; name=value"));
    }
    let pairs = text.split(';').map(str::trim).filter(|pair| !pair.is_empty()).enumerate();
    let one = |(at, pair): (usize, &str)| {
        let reason = || format!("its cookie {} has no =: write name=value; name=value", at + 1);
        let (name, value) = pair.split_once('=').ok_or_else(|| refuse("values", reason()))?;
        let (name, value) = (name.to_owned(), value.to_owned());
        Ok((format!("values[{at}]"), GivenCookie { name, value, ..GivenCookie::default() }))
    };
    pairs.map(one).collect()
}

/// A cookies.txt.
fn of_netscape(text: &str) -> Result<Vec<(String, GivenCookie)>> {
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let http_only = line.starts_with(HTTP_ONLY_PREFIX);
        let line = line.strip_prefix(HTTP_ONLY_PREFIX).unwrap_or(line);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let is_whole = fields.len() == NETSCAPE_FIELDS || fields.len() + 1 == NETSCAPE_FIELDS;
        let [domain, under, path, secure, expires, name] = fields[..fields.len().min(6)] else {
            return Err(refuse("values", format!("line {} has not the fields of a cookies.txt", at + 1)));
        };
        let Some(expires) = expires.trim().parse::<f64>().ok().filter(|_| is_whole) else {
            return Err(refuse("values", format!("line {} has not the fields of a cookies.txt", at + 1)));
        };
        let is_true = |text: &str| text.eq_ignore_ascii_case("true");
        let cookie = GivenCookie {
            name: name.to_owned(),
            value: fields.get(NETSCAPE_FIELDS - 1).copied().unwrap_or_default().to_owned(),
            domain: Some(domain.to_owned()),
            host_only: Some(!is_true(under)),
            path: Some(path.to_owned()),
            secure: Some(is_true(secure)),
            http_only,
            expires_at: end_of_number(expires),
        };
        all.push((format!("values[{}]", all.len()), cookie));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
