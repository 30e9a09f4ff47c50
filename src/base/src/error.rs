//! The one table of error codes, and the error every layer above the engines returns.
//!
//! A code has a wire name, a status and a sentence; its page is `data/errors/<name>.md`. The three shapes in which an
//! error travels are known to `server/src/wire/envelope.rs` alone. An [`Error`] carries its cause for the log and never for the
//! client: what a client may read is `title`, `message` and `fields`.

use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// The result of everything that can fail towards a client.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Cause = Box<dyn std::error::Error + Send + Sync>;

macro_rules! error_codes {
    ($($variant:ident $name:literal $status:literal $sentence:literal;)*) => {
        /// A stable, machine-readable reason (data/docs/api.md, "Errors").
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($variant),* }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// The name on the wire, and the name of the code's page.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name),* }
            }

            /// The HTTP status it travels under unless [`Error::with_status`] says otherwise.
            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status),* }
            }

            /// The short human sentence of the flat envelope.
            pub fn sentence(self) -> &'static str {
                match self { $(Code::$variant => $sentence),* }
            }
        }
    };
}

/// Hands every code to another macro, for what is made of all of them elsewhere, as their pages are.
#[macro_export]
macro_rules! each_code {
    ($then:ident) => {
        $then! {
            InvalidInput "invalid_input" 400 "Validation failed";
            InvalidUrl "invalid_url" 400 "Invalid URL";
            InvalidWorkflow "invalid_workflow" 400 "Invalid workflow";
            NodeTypeUnknown "node_type_unknown" 400 "Unknown node type";
            AuthMissing "auth_missing" 401 "Authentication required";
            AuthInvalid "auth_invalid" 401 "Invalid authentication token";
            PaymentRequired "payment_required" 402 "QUOTA_EXCEEDED";
            QuotaExceeded "quota_exceeded" 402 "QUOTA_EXCEEDED";
            AuthForbidden "auth_forbidden" 403 "Insufficient permissions";
            AuthOrgMismatch "auth_org_mismatch" 403 "Not a member of this organization";
            OrgNotFound "org_not_found" 403 "No organization exists for this user";
            PlanRequired "plan_required" 403 "Not included in the plan";
            NotFound "not_found" 404 "Not found";
            MethodNotAllowed "method_not_allowed" 405 "Method not allowed";
            RequestTimeout "request_timeout" 408 "The body did not come";
            AlreadyExists "already_exists" 409 "Already exists";
            Conflict "conflict" 409 "Conflict";
            JobTerminal "job_terminal" 409 "Job has already ended";
            WorkflowDisabled "workflow_disabled" 409 "Workflow is not published";
            AuthCodeExpired "auth_code_expired" 410 "Code expired";
            AuthCodeConsumed "auth_code_consumed" 410 "Code already used";
            PreconditionFailed "precondition_failed" 412 "Precondition failed";
            PayloadTooLarge "payload_too_large" 413 "Body too large";
            UnsupportedMediaType "unsupported_media_type" 415 "Unsupported content type";
            RateLimited "rate_limited" 429 "Too many requests";
            InternalError "internal_error" 500 "Internal server error";
            ProviderUnavailable "provider_unavailable" 502 "Provider unavailable";
            ServiceUnavailable "service_unavailable" 503 "Service unavailable";
            // The SQL console's own (data/docs/api.md, "The SQL console").
            InvalidIdempotencyKey "invalid_idempotency_key" 400 "Invalid Idempotency-Key";
            InvalidExecutionContext "invalid_execution_context" 400 "Invalid execution context";
            InvalidSql "invalid_sql" 400 "Invalid SQL";
            SyntaxError "syntax_error" 400 "Syntax error";
            InvalidTableName "invalid_table_name" 400 "Invalid table name";
            KillSwitched "kill_switched" 403 "Switched off by the operator";
            NoOrg "no_org" 403 "No organization exists for this user";
            FeatureDisabled "feature_disabled" 403 "The SQL console is not enabled";
            InsufficientPermissions "insufficient_permissions" 403 "Insufficient permissions";
            EmailNotVerified "email_not_verified" 403 "Email address is not verified";
            AuthenticationRequired "authentication_required" 403 "Authentication required";
            UserNotFound "user_not_found" 403 "User not found";
            RlsDenied "rls_denied" 403 "Table not available";
            SavedQueryNotExecutable "saved_query_not_executable" 409 "Saved query cannot be executed";
            IdempotencyConflict "idempotency_conflict" 409 "Idempotency-Key belongs to another request";
            NotReady "not_ready" 409 "Result is not ready";
            Transient "transient" 409 "The query failed";
            Canceled "canceled" 409 "The query was canceled";
            StatementTimeout "statement_timeout" 409 "The statement took too long";
            TooManyQueries "too_many_queries" 429 "Too many queries";
        }
    };
}

each_code!(error_codes);

/// A failure on its way to a client.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    status: u16,
    title: Cow<'static, str>,
    message: Option<String>,
    fields: Vec<(&'static str, Value)>,
    headers: Vec<(&'static str, String)>,
    cause: Option<Cause>,
}

impl Error {
    /// An error with the table's own sentence and nothing more.
    pub fn new(code: Code) -> Error {
        Error(Box::new(Inner {
            code,
            status: code.status(),
            title: Cow::Borrowed(code.sentence()),
            message: None,
            fields: Vec::new(),
            headers: Vec::new(),
            cause: None,
        }))
    }

    /// A value the caller sent is wrong: names the field (a path such as `attributes[2].xpaths[0]`) and the reason.
    pub fn invalid(field: &str, reason: impl fmt::Display) -> Error {
        Error::new(Code::InvalidInput).message(format!("{field}: {reason}"))
    }

    /// A row that is missing or somebody else's; `noun` as in "Workflow". The same answer for both, always.
    pub fn not_found(noun: &str) -> Error {
        Error::new(Code::NotFound).title(format!("{noun} not found"))
    }

    /// The request contradicts the present state; `reason` says how.
    pub fn conflict(reason: impl Into<String>) -> Error {
        Error::new(Code::Conflict).message(reason)
    }

    /// Something of ours failed. `doing` says what was being done ("read the snapshot manifest"); the client sees
    /// neither it nor the cause, the log sees both.
    pub fn internal(doing: &'static str, cause: impl Into<Cause>) -> Error {
        let mut error = Error::new(Code::InternalError);
        error.0.cause = Some(format!("{doing}: {}", chain(&*cause.into())).into());
        error
    }

    /// The box cannot do it now and says why; a caller may try again.
    pub fn unavailable(reason: impl Into<String>) -> Error {
        Error::new(Code::ServiceUnavailable).message(reason).header("retry-after", "1")
    }

    /// Replaces the short sentence.
    pub fn title(mut self, title: impl Into<Cow<'static, str>>) -> Error {
        self.0.title = title.into();
        self
    }

    /// Says more than the short sentence does.
    pub fn message(mut self, message: impl Into<String>) -> Error {
        self.0.message = Some(message.into());
        self
    }

    /// Adds a member beside `error` in the body (the 402's `plan`, the 409's `status`).
    pub fn field(mut self, name: &'static str, value: impl Into<Value>) -> Error {
        self.0.fields.push((name, value.into()));
        self
    }

    /// Adds a response header; `name` in lower case.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Error {
        self.0.headers.push((name, value.into()));
        self
    }

    /// Travels under another status than its code's usual one.
    pub fn with_status(mut self, status: u16) -> Error {
        self.0.status = status;
        self
    }

    /// Keeps a cause for the log.
    pub fn caused_by(mut self, cause: impl Into<Cause>) -> Error {
        self.0.cause = Some(cause.into());
        self
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// The short sentence (flat envelope's `error`).
    pub fn sentence(&self) -> &str {
        &self.0.title
    }

    /// The longer text, if there is one.
    pub fn detail(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// What an operator at a terminal is told: the longer text or the sentence, and the cause, which is theirs to see.
    pub fn for_operator(&self) -> String {
        match (self.detail(), self.cause()) {
            (Some(detail), Some(cause)) => format!("{detail} ({cause})"),
            (Some(detail), None) => detail.to_owned(),
            (None, Some(cause)) => cause.to_string(),
            (None, None) => self.sentence().to_owned(),
        }
    }

    /// Members beside `error`.
    pub fn fields(&self) -> &[(&'static str, Value)] {
        &self.0.fields
    }

    /// Headers that travel with it.
    pub fn headers(&self) -> &[(&'static str, String)] {
        &self.0.headers
    }

    /// What the log should say beyond the client's text.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync)> {
        self.0.cause.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.message {
            // A message that begins with the sentence says it for both.
            Some(message) if message.starts_with(&*self.0.title) => f.write_str(message)?,
            Some(message) => write!(f, "{}: {message}", self.0.title)?,
            None => f.write_str(&self.0.title)?,
        }
        if let Some(cause) = &self.0.cause {
            write!(f, " ({cause})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// An error and its sources in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_statuses_are_errors() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| (400..600).contains(&code.status())));
    }

    #[test]
    fn what_the_message_says_is_not_said_twice() {
        let told =
            Error::not_found("Organization").message("Organization not found: none has the name \"x\"");
        assert_eq!(told.to_string(), "Organization not found: none has the name \"x\"");
        assert_eq!(Error::conflict("it has ended").to_string(), "Conflict: it has ended");
    }

    #[test]
    fn a_cause_is_for_the_log_only() {
        let error = Error::internal("read the manifest", std::io::Error::other("sector 7"));
        assert_eq!(error.sentence(), "Internal server error");
        assert_eq!(error.detail(), None);
        assert!(error.to_string().contains("read the manifest: sector 7"));
    }
}
