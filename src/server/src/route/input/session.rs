//! The session that a page of the box begins and ends for its reader.

use crate::call::request::Call;
use crate::call::session::{COOKIE_NAME, cookie, is_own_page, origin};
use crate::route::input::Input;
use crate::route::operation::Operation;
use base::{Code, Error, Result};
use http::HeaderValue;
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
        let secs = if secret.is_some() { lives.as_secs() } else { 0 };
        let secure = if self.is_https { "; Secure" } else { "" };
        let text = format!(
            "{COOKIE_NAME}={}; Path={}/; Max-Age={secs}; HttpOnly; SameSite=Strict{secure}",
            secret.unwrap_or_default(),
            self.prefix
        );
        HeaderValue::try_from(text).map_err(|e| Error::internal("write the cookie", e))
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
