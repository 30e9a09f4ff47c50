//! The proxies of an account: its list as a person gave it, read and judged.

use super::adapters::{ROTATION, ROTATION_PER_DOMAIN};
use crate::engine::fetch::proxy::Login;
use crate::engine::fetch::{AddressGuard, FieldError, Proxy, ProxyList, Rotation, Values};
use serde_json::Value;

/// The credential that is the list.
pub const PROXIES: &str = "proxies";
/// The login of those entries that have none of their own.
pub const USERNAME: &str = "username";
pub const PASSWORD: &str = "password";

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
