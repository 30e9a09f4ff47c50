//! The proxies of an account: its list as a person gave it, read and judged.

use super::adapters::{PASSWORD, PROXIES, ROTATION, ROTATION_PER_DOMAIN, USERNAME};
use fetch::proxy::Login;
use fetch::{AddressGuard, FieldError, Proxy, ProxyList, Rotation, Values};
use serde_json::Value;
use std::collections::HashSet;

/// The proxies that `credentials` name; the first that is none is the error.
pub fn read(credentials: &Values) -> Result<Vec<Proxy>, FieldError> {
    let text = |name: &str| credentials.get(name).and_then(Value::as_str).map(str::to_owned);
    let login = text(USERNAME).map(|user| Login { user, password: text(PASSWORD).unwrap_or_default() });
    let entries = credentials.get(PROXIES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let read = |(at, entry): (usize, &Value)| {
        Proxy::parse(entry.as_str().unwrap_or_default(), login.as_ref()).map_err(|reason| error(at, reason))
    };
    entries.iter().enumerate().map(read).collect()
}

/// Checks what a person gave: every entry is a proxy, and none is at an address that is closed.
pub fn check(credentials: &Values, guard: &AddressGuard) -> Result<(), FieldError> {
    for (at, proxy) in read(credentials)?.iter().enumerate() {
        guard.check_literal(proxy.place()).map_err(|refused| error(at, refused.to_string()))?;
    }
    Ok(())
}

/// Refuses a list of `new` credentials that would have a stored login sent to a proxy to which it was not given: whoever
/// changes the list has not seen the login, and may have put their own proxy into it. `given` is what the change brings.
pub fn check_login_stays(old: &Values, given: &Values, new: &Values) -> Result<(), FieldError> {
    let is_stored = |name: &str| !given.contains_key(name) && new.contains_key(name);
    if !is_stored(USERNAME) && !is_stored(PASSWORD) {
        return Ok(());
    }
    // Only entries without a login of their own are sent the stored one.
    let bare = Values::from_iter(new.get(PROXIES).map(|list| (PROXIES.to_owned(), list.clone())));
    let told = Values::from_iter(old.get(PROXIES).map(|list| (PROXIES.to_owned(), list.clone())));
    let known: HashSet<String> =
        read(&told)?.iter().filter(|proxy| proxy.login.is_none()).map(whereto).collect();
    for (at, proxy) in read(&bare)?.iter().enumerate() {
        if proxy.login.is_none() && !known.contains(&whereto(proxy)) {
            let reason =
                "is another proxy: give username and password again, stored ones are not sent elsewhere";
            return Err(error(at, reason.to_owned()));
        }
    }
    Ok(())
}

/// What a login is told to: host, port and whether the way there is encrypted.
fn whereto(proxy: &Proxy) -> String {
    format!("{:?} {}", proxy.scheme, proxy.place())
}

/// The list, ready to be used.
pub fn list(credentials: &Values, settings: &Values) -> Result<ProxyList, FieldError> {
    let rotation = match settings.get(ROTATION).and_then(Value::as_str) {
        Some(ROTATION_PER_DOMAIN) => Rotation::PerDomain,
        _ => Rotation::EachPage,
    };
    Ok(ProxyList::new(read(credentials)?, rotation))
}

/// The entry's number and never its text, which has a password in it.
fn error(at: usize, reason: String) -> FieldError {
    FieldError { field: format!("credentials.{PROXIES}"), reason: format!("[{at}] {reason}") }
}
