//! The session that a page of the box begins and ends for its reader.

use crate::call::request::Call;
use crate::call::session::{COOKIE_NAME, cookie, is_own_page, named_cookie, origin};
use crate::route::input::Input;
use crate::route::operation::Operation;
use base::{Code, Error, Result};
use http::{HeaderMap, HeaderValue};
use std::time::Duration;

/// The session that a page of this box has or is to have.
pub struct BrowserSession {
    /// The text of its cookie.
    secret: Option<String>,
    is_https: bool,
    prefix: String,
}

impl BrowserSession {
    /// What the cookie says now.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// The `Set-Cookie` that begins a session of this length, or ends it with none.
    pub fn set(&self, secret: Option<&str>, lives: Duration) -> Result<HeaderValue> {
        let path = format!("{}/", self.prefix);
        set_cookie(COOKIE_NAME, secret, &path, lives, SameSite::Strict, self.is_https)
    }
}

impl Input for BrowserSession {
    async fn extract(call: &mut Call) -> Result<Self> {
        if !is_own_page(call) {
            return Err(Error::new(Code::AuthForbidden)
                .message("A session in a browser is begun and ended by the box's own pages only."));
        }
        let is_https = origin(call.headers()).is_some_and(|origin| origin.starts_with("https:"));
        let secret = cookie(call.headers()).map(str::to_owned);
        Ok(BrowserSession { secret, is_https, prefix: call.prefix().to_owned() })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.error(Code::AuthForbidden);
    }
}

/// With which requests of other sites' making a browser sends a cookie.
#[derive(Clone, Copy)]
enum SameSite {
    /// With none.
    Strict,
    /// With those that lead the whole window here.
    Lax,
}

fn set_cookie(
    name: &str,
    value: Option<&str>,
    path: &str,
    lives: Duration,
    same_site: SameSite,
    is_https: bool,
) -> Result<HeaderValue> {
    let secs = if value.is_some() { lives.as_secs() } else { 0 };
    let secure = if is_https { "; Secure" } else { "" };
    let same_site = match same_site {
        SameSite::Strict => "Strict",
        SameSite::Lax => "Lax",
    };
    let value = value.unwrap_or_default();
    let text = format!("{name}={value}; Path={path}; Max-Age={secs}; HttpOnly; SameSite={same_site}{secure}");
    HeaderValue::try_from(text).map_err(|e| Error::internal("write the cookie", e))
}

/// A browser that a link leads here, perhaps of another site: what it shows proves nothing but that it is the same browser. Whoever
/// takes it decides by something else whether a session begins.
pub struct BrowserVisit {
    headers: HeaderMap,
    is_https: bool,
    prefix: String,
}

impl BrowserVisit {
    /// The text of a cookie of this name; none when two have it.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        named_cookie(&self.headers, name)
    }

    /// The text of the session's cookie, as far as the browser sends it with this visit.
    pub fn session(&self) -> Option<&str> {
        cookie(&self.headers)
    }

    /// The path by which people reach `place` of the box.
    pub fn path(&self, place: &str) -> String {
        format!("{}{place}", self.prefix)
    }

    /// The `Set-Cookie` that begins a session of this length.
    pub fn begin_session(&self, secret: &str, lives: Duration) -> Result<HeaderValue> {
        let path = format!("{}/", self.prefix);
        set_cookie(COOKIE_NAME, Some(secret), &path, lives, SameSite::Strict, self.is_https)
    }

    /// The `Set-Cookie` of something that is to come back with the next visit below `place`, whatever site that comes from; none
    /// forgets it.
    pub fn keep(&self, name: &str, value: Option<&str>, place: &str, lives: Duration) -> Result<HeaderValue> {
        set_cookie(name, value, &self.path(place), lives, SameSite::Lax, self.is_https)
    }
}

impl Input for BrowserVisit {
    async fn extract(call: &mut Call) -> Result<Self> {
        // A visit names no origin; the address by which people reach the box tells.
        let is_https = call.context.docs_base().starts_with("https:");
        Ok(BrowserVisit { headers: call.headers().clone(), is_https, prefix: call.prefix().to_owned() })
    }

    fn describe(_: &mut Operation<'_>) {}
}
