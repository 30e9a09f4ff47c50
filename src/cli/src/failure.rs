//! How a command ends: its exit codes, and what is said on standard error when it did not end well.

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use std::fmt;
use std::io;

/// The result of whatever a command does.
pub type Outcome<T> = Result<T, Failure>;

macro_rules! exits {
    ($($(#[doc = $doc:literal])* $variant:ident $code:literal $about:literal;)*) => {
        /// Exit codes; data/docs/command-line.md lists them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Exit { $($(#[doc = $doc])* $variant),* }

        impl Exit {
            pub const ALL: &'static [Exit] = &[$(Exit::$variant),*];

            /// What the process ends with.
            pub const fn code(self) -> u8 {
                match self { $(Exit::$variant => $code),* }
            }

            /// When it ends so, as the documentation says it.
            pub const fn about(self) -> &'static str {
                match self { $(Exit::$variant => $about),* }
            }
        }
    };
}

exits! {
    /// Whoever read the output has read enough.
    Quiet 0 "It went well, or whoever read the output wanted no more of it.";
    Failed 1 "It failed: the box refused it, or a job, a statement or a test ended badly.";
    Usage 2 "It was typed wrong; nothing was asked of the box.";
    Forbidden 3 "Not signed in, or not allowed.";
    NotFound 4 "There is no such thing.";
    Away 5 "The box cannot be reached, or cannot answer now.";
    InVain 6 "It waited as long as it was told to, and in vain.";
    Interrupted 130 "Ctrl-C.";
}

/// Why a command did not end well.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    /// What went wrong in a few words.
    title: String,
    /// The field and the reason, where there is more to say.
    message: Option<String>,
    /// Of an answer of the box.
    status: Option<u16>,
    request_id: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, title: impl Into<String>) -> Failure {
        Failure { exit, title: title.into(), message: None, status: None, request_id: None }
    }

    /// What was typed is wrong: `what` names the argument.
    pub fn usage(what: &str, reason: impl fmt::Display) -> Failure {
        Failure::new(Exit::Usage, format!("{what}: {reason}"))
    }

    pub fn failed(title: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, title)
    }

    /// Nothing more can be written to standard output.
    pub fn of_output(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Exit::Quiet, ""),
            _ => Failure::failed(format!("the output cannot be written: {error}")),
        }
    }

    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Failure {
        self.message = Some(message.into());
        self
    }

    /// What the box answered: its title, the field and the reason, and the id under which its log has it.
    pub fn of_answer(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
        let exit = match status.as_u16() {
            401 | 403 => Exit::Forbidden,
            404 => Exit::NotFound,
            502..=504 => Exit::Away,
            _ => Exit::Failed,
        };
        let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        // Flat, or structured as the SQL console has it.
        let (title, message) = match &body["error"] {
            Value::Object(error) => (error.get("code").and_then(text), error.get("message").and_then(text)),
            flat => (text(flat), text(&body["message"])),
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let message = match (message, header("location")) {
            (None, Some(place)) if status.is_redirection() => Some(format!("It is at {place}.")),
            (message, _) => message,
        };
        Failure {
            exit,
            title: title.unwrap_or_else(|| format!("the answer is {status}")),
            message,
            status: Some(status.as_u16()),
            request_id: header("x-request-id"),
        }
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// For a program: one line of JSON.
    pub fn json(&self) -> Value {
        json!({
            "error": self.title,
            "message": self.message,
            "status": self.status,
            "requestId": self.request_id,
            "exitCode": self.exit.code(),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        if let Some(message) = &self.message {
            write!(f, ": {message}")?;
        }
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_with_title_field_and_request() {
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", "req_7".parse().unwrap());
        let flat = br#"{"error":"Validation failed","message":"urls[0].url: is no URL"}"#;
        let told = Failure::of_answer(StatusCode::BAD_REQUEST, &headers, flat);
        assert_eq!(told.to_string(), "Validation failed: urls[0].url: is no URL (request req_7)");
        assert_eq!((told.exit(), told.json()["status"].clone()), (Exit::Failed, json!(400)));
        let structured = br#"{"error":{"code":"invalid_sql","message":"no table x"}}"#;
        let told = Failure::of_answer(StatusCode::BAD_REQUEST, &HeaderMap::new(), structured);
        assert_eq!(told.to_string(), "invalid_sql: no table x");
        let page = Failure::of_answer(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>");
        assert_eq!((page.to_string().as_str(), page.exit()), ("the answer is 502 Bad Gateway", Exit::Away));
        for (status, exit) in [(401, Exit::Forbidden), (403, Exit::Forbidden), (404, Exit::NotFound)] {
            let told = Failure::of_answer(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), b"");
            assert_eq!(told.exit(), exit);
        }
    }

    #[test]
    fn codes_are_all_different() {
        let codes: std::collections::BTreeSet<_> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes.len(), Exit::ALL.len());
    }
}
