//! The way of object_store's requests: the box's own connections, and what is heard on them.
//!
//! object_store's errors keep what a server said as text only. What it said is therefore noted here, in a place that the
//! operation which asks has laid out for its own task ([`heard`]).

use crate::OBJECT_BYTES_MAX;
use crate::error::{S3Error, S3Fault, fault_of_answer};
use base::ids::OrgId;
use base::web::WebUrl;
use fetch::body::{self, BodyLimits, Overflow};
use fetch::connect::Outgoing;
use fetch::{Connector, FetchError};
use futures::future::BoxFuture;
use http::header::{HOST, HeaderValue, USER_AGENT};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// An attempt may take this much longer for each byte that goes out or may come in: 256 kB a second.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;
/// How much of an error's answer is looked at for its code.
const ERROR_BYTES: usize = 8 << 10;
/// The longest code that is believed.
const CODE_BYTES_MAX: usize = 64;

tokio::task_local! {
    /// The last thing that went wrong in the operation that runs.
    static HEARD: RefCell<Option<S3Error>>;
}

/// Runs an operation, and gives with its end what went wrong last on the wire.
pub(crate) async fn heard<T>(operation: impl Future<Output = T>) -> (T, Option<S3Error>) {
    HEARD
        .scope(RefCell::new(None), async {
            let done = operation.await;
            (done, HEARD.with(RefCell::take))
        })
        .await
}

fn note(error: Option<S3Error>) {
    // Outside of an operation nobody asks.
    let _ = HEARD.try_with(|heard| heard.replace(error));
}

/// Sends one storage's requests.
#[derive(Clone)]
pub(crate) struct Wire {
    pub connector: Arc<Connector>,
    pub owner: Option<OrgId>,
    pub attempt: Duration,
    pub user_agent: HeaderValue,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl HttpConnector for Wire {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Wire {
    fn call<'this, 'call>(
        &'this self,
        request: HttpRequest,
    ) -> BoxFuture<'call, Result<HttpResponse, HttpError>>
    where
        'this: 'call,
        Self: 'call,
    {
        Box::pin(self.exchange(request))
    }
}

impl Wire {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let out = request.body().content_length() as u64;
        let time = self.attempt + Duration::from_secs(out / BYTES_PER_SECOND_MIN);
        let answered = match timeout(time, self.send(request)).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(FetchError::TimedOut { timeout: time }),
        };
        match answered {
            Ok(answer) => {
                note(error_of(&answer));
                Ok(answer.map(HttpResponseBody::from))
            }
            Err(error) => {
                note(Some(S3Error::new(fault_of(&error), error.to_string())));
                Err(HttpError::new(kind_of(&error), error))
            }
        }
    }

    /// One request and its answer to the end.
    async fn send(&self, request: HttpRequest) -> Result<http::Response<bytes::Bytes>, FetchError> {
        let (mut head, body) = request.into_parts();
        // It is written where the connection is known.
        head.headers.remove(HOST);
        head.headers.insert(USER_AGENT, self.user_agent.clone());
        let place =
            WebUrl::parse(&head.uri.to_string()).map_err(|source| FetchError::BadTarget { source })?;
        // A payload in memory cannot fail to be collected.
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let outgoing = Outgoing {
            place: &place,
            path,
            method: head.method.clone(),
            headers: &head.headers,
            body,
            via: None,
            owner: self.owner,
        };
        let (answer, lease) = self.connector.send(&outgoing).await?;
        let (head, body) = answer.into_parts();
        let limits = BodyLimits {
            received_bytes_max: OBJECT_BYTES_MAX,
            inflated_bytes_max: OBJECT_BYTES_MAX,
            overflow: Overflow::Refuse,
        };
        let body = body::receive(body, &head.headers, limits, &mut 0).await?;
        lease.finish();
        Ok(http::Response::from_parts(head, body))
    }
}

/// What an answer that is no success says.
fn error_of(answer: &http::Response<bytes::Bytes>) -> Option<S3Error> {
    let status = answer.status();
    if status.is_success() || status == http::StatusCode::NOT_MODIFIED {
        return None;
    }
    let body = answer.body();
    let text = String::from_utf8_lossy(&body[..body.len().min(ERROR_BYTES)]);
    let code = code_of(&text);
    // What an answer without a body means depends on what was asked: the caller knows.
    let fault = match (code, body.is_empty()) {
        ("", true) if status == http::StatusCode::NOT_FOUND => S3Fault::Refused,
        _ => fault_of_answer(status.as_u16(), code),
    };
    let shown = if code.is_empty() { format!("status {}", status.as_u16()) } else { code.to_owned() };
    Some(S3Error::new(fault, shown))
}

/// What stands between `<Code>` and its end.
fn code_of(text: &str) -> &str {
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"))
        .map_or("", |found| found.0);
    let is_code = code.len() <= CODE_BYTES_MAX && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_code { code } else { "" }
}

fn fault_of(error: &FetchError) -> S3Fault {
    match error {
        FetchError::Refused { .. } | FetchError::Resolve { .. } | FetchError::BadTarget { .. } => {
            S3Fault::Closed
        }
        FetchError::TimedOut { .. } | FetchError::ConnectTimeout { .. } => S3Fault::TimedOut,
        FetchError::Exchange { source, .. } if source.is_parse() => S3Fault::NotS3,
        error if error.is_beyond_limits() => S3Fault::TooLarge,
        _ => S3Fault::Unreachable,
    }
}

/// What object_store decides by whether it tries again.
fn kind_of(error: &FetchError) -> HttpErrorKind {
    match error {
        FetchError::Connect { .. } | FetchError::ConnectTimeout { .. } => HttpErrorKind::Connect,
        FetchError::TimedOut { .. } => HttpErrorKind::Timeout,
        FetchError::Exchange { source, .. } if !source.is_parse() => HttpErrorKind::Interrupted,
        FetchError::Body(body::BodyError::Interrupted(_)) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_code_of_an_error() {
        assert_eq!(code_of("<Error><Code>NoSuchBucket</Code><Message>m</Message></Error>"), "NoSuchBucket");
        assert_eq!(code_of("<Code>not a code</Code>"), "");
        assert_eq!(code_of("<html>"), "");
    }
}
