//! What handlers give back: each says its status and its shape, to the caller and to the reference.

use crate::call::request::Call;
use crate::route::body::Body;
use crate::route::file::{FileDownload, attachment};
use crate::route::operation::{OCTETS, Operation};
use crate::spec::route::Verb;
use crate::wire::body::{BoxError, Response, ResponseBody};
use crate::wire::etag::Etag;
use base::{Error, Result};
use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, LOCATION, RETRY_AFTER, VARY,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a handler returns.
pub trait Output: Sized + Send {
    /// Makes the response.
    fn respond(self, call: &Call) -> Result<Response>;
    /// Says in the reference what it gives.
    fn describe(operation: &mut Operation<'_>);
}

impl<T: Serialize + JsonSchema + Send> Output for Body<T> {
    fn respond(self, call: &Call) -> Result<Response> {
        let bytes = to_json(&self.0)?;
        Ok(if call.route().verb() == Verb::Get { tagged(bytes, call) } else { json(StatusCode::OK, bytes) })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.json_response::<T>(StatusCode::OK);
        operation.tagged();
    }
}

/// A 201 with the new resource.
#[derive(Clone, Copy, Debug)]
pub struct Created<T>(pub T);

impl<T: Serialize + JsonSchema + Send> Output for Created<T> {
    fn respond(self, _: &Call) -> Result<Response> {
        Ok(json(StatusCode::CREATED, to_json(&self.0)?))
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.json_response::<T>(StatusCode::CREATED);
    }
}

/// A 202: it is under way. With [`Accepted::retry_after`] it says when to look again.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<T> {
    body: T,
    retry_after_secs: Option<u32>,
}

impl<T> Accepted<T> {
    pub fn new(body: T) -> Accepted<T> {
        Accepted { body, retry_after_secs: None }
    }

    /// Adds `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(mut self, secs: u32) -> Accepted<T> {
        self.retry_after_secs = Some(secs);
        self
    }
}

impl<T: Serialize + JsonSchema + Send> Output for Accepted<T> {
    fn respond(self, _: &Call) -> Result<Response> {
        let mut response = json(StatusCode::ACCEPTED, to_json(&self.body)?);
        if let Some(secs) = self.retry_after_secs {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.json_response::<T>(StatusCode::ACCEPTED);
    }
}

/// A 204.
#[derive(Clone, Copy, Debug)]
pub struct NoContent;

impl Output for NoContent {
    fn respond(self, _: &Call) -> Result<Response> {
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.empty_response(StatusCode::NO_CONTENT);
    }
}

/// A 303: what was asked for is elsewhere.
#[derive(Clone, Debug)]
pub struct SeeOther(pub String);

impl Output for SeeOther {
    fn respond(self, _: &Call) -> Result<Response> {
        let place = HeaderValue::try_from(self.0).map_err(|e| Error::internal("lead elsewhere", e))?;
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(LOCATION, place);
        // The same address is something else to a program.
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.empty_response(StatusCode::SEE_OTHER);
    }
}

/// JSON under a status that has no type of its own.
#[derive(Clone, Copy, Debug)]
pub struct WithStatus<const STATUS: u16, T>(pub T);

impl<const STATUS: u16, T: Serialize + JsonSchema + Send> Output for WithStatus<STATUS, T> {
    fn respond(self, _: &Call) -> Result<Response> {
        let status = StatusCode::from_u16(STATUS).map_err(|e| Error::internal("set the status", e))?;
        Ok(json(status, to_json(&self.0)?))
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.json_response::<T>(StatusCode::from_u16(STATUS).expect("a route's status is a status"));
    }
}

/// One of two outputs, such as a 200 with the result or a 202 without.
#[derive(Clone, Copy, Debug)]
pub enum Either<A, B> {
    Left(A),
    Right(B),
}

impl<A: Output, B: Output> Output for Either<A, B> {
    fn respond(self, call: &Call) -> Result<Response> {
        match self {
            Either::Left(output) => output.respond(call),
            Either::Right(output) => output.respond(call),
        }
    }

    fn describe(operation: &mut Operation<'_>) {
        A::describe(operation);
        B::describe(operation);
    }
}

/// An output with more headers.
#[derive(Debug)]
pub struct WithHeaders<O> {
    output: O,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl<O> WithHeaders<O> {
    pub fn new(output: O) -> WithHeaders<O> {
        WithHeaders { output, headers: Vec::new() }
    }

    /// Adds a header, replacing what the output itself would have set.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> WithHeaders<O> {
        self.headers.push((name, value));
        self
    }
}

impl<O: Output> Output for WithHeaders<O> {
    fn respond(self, call: &Call) -> Result<Response> {
        let mut response = self.output.respond(call)?;
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        O::describe(operation);
    }
}

/// Something to save: bytes at hand or a stream, with its media type and, perhaps, the name to save it under; or a file
/// on the disk.
pub struct Download(DownloadSource);

enum DownloadSource {
    Body { content_type: Cow<'static, str>, file_name: Option<String>, body: ResponseBody },
    File(FileDownload),
}

impl Download {
    pub fn bytes(content_type: impl Into<Cow<'static, str>>, bytes: impl Into<Bytes>) -> Download {
        Download::body(content_type.into(), ResponseBody::full(bytes))
    }

    /// A body that is produced while it is sent. An error in it breaks the connection, so the caller cannot take a
    /// part for the whole.
    pub fn stream<B>(content_type: impl Into<Cow<'static, str>>, body: B) -> Download
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Download::body(content_type.into(), ResponseBody::stream(body))
    }

    fn body(content_type: Cow<'static, str>, body: ResponseBody) -> Download {
        Download(DownloadSource::Body { content_type, file_name: None, body })
    }

    /// The name to save it under. Characters that a header cannot carry are left out.
    #[must_use]
    pub fn file_name(mut self, name: &str) -> Download {
        match &mut self.0 {
            DownloadSource::Body { file_name, .. } => *file_name = Some(name.to_owned()),
            DownloadSource::File(file) => file.rename(name),
        }
        self
    }
}

impl From<FileDownload> for Download {
    fn from(file: FileDownload) -> Download {
        Download(DownloadSource::File(file))
    }
}

impl Output for Download {
    fn respond(self, call: &Call) -> Result<Response> {
        match self.0 {
            DownloadSource::Body { content_type, file_name, body } => {
                let mut response = Response::new(body);
                attachment(response.headers_mut(), &content_type, file_name.as_deref())?;
                Ok(response)
            }
            DownloadSource::File(file) => file.respond(call),
        }
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.binary_response(&[OCTETS]);
    }
}

/// A page of ours for a browser.
#[derive(Debug)]
pub struct Html(pub Bytes);

impl Output for Html {
    fn respond(self, _: &Call) -> Result<Response> {
        let mut response = Response::new(ResponseBody::full(self.0));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        headers.insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(
                "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; \
                 frame-ancestors 'none'",
            ),
        );
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.binary_response(&["text/html"]);
    }
}

/// Plain text of a given media type.
#[derive(Debug)]
pub struct Text(pub &'static str, pub String);

impl Output for Text {
    fn respond(self, _: &Call) -> Result<Response> {
        let mut response = Response::new(ResponseBody::full(self.1));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.0));
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.binary_response(&["text/plain"]);
    }
}

/// A text of a media type that callers fetch again and again: with its entity tag and the time of its last change, and a 304
/// for who has it already (RFC 9110, 13.2.2).
#[derive(Debug)]
pub struct Document {
    media_type: &'static str,
    text: Bytes,
    modified: Option<SystemTime>,
}

impl Document {
    pub fn new(media_type: &'static str, text: impl Into<Bytes>, modified: Option<SystemTime>) -> Document {
        Document { media_type, text: text.into(), modified }
    }
}

impl Output for Document {
    fn respond(self, call: &Call) -> Result<Response> {
        let mut response = tagged(self.text, call);
        // The tag goes before the date, which knows whole seconds alone.
        let since =
            call.headers().get(IF_MODIFIED_SINCE).filter(|_| !call.headers().contains_key(IF_NONE_MATCH));
        let since = since.and_then(|since| httpdate::parse_http_date(since.to_str().ok()?).ok());
        if let Some(modified) = self.modified {
            let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            if since.is_some_and(|since| seconds(modified) <= seconds(since)) {
                *response.status_mut() = StatusCode::NOT_MODIFIED;
            }
            let date = HeaderValue::from_str(&httpdate::fmt_http_date(modified));
            response.headers_mut().extend(date.ok().map(|date| (LAST_MODIFIED, date)));
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.binary_response(&["application/rss+xml", "application/atom+xml"]);
        operation.tagged();
    }
}

/// JSON that is already text, answered like [`Body`].
#[derive(Debug)]
pub struct JsonBytes(pub Bytes);

impl Output for JsonBytes {
    fn respond(self, call: &Call) -> Result<Response> {
        Ok(tagged(self.0, call))
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.json_response::<serde_json::Map<String, serde_json::Value>>(StatusCode::OK);
        operation.tagged();
    }
}

fn to_json<T: Serialize>(value: &T) -> Result<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|e| Error::internal("write the response", e))
}

fn json(status: StatusCode, bytes: Bytes) -> Response {
    let mut response = Response::new(ResponseBody::full(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A 200 with its entity tag, or a 304 when the caller's `If-None-Match` names it (RFC 9110, 13.1.2). Its body is taken off
/// where the connection is, as that of an answer to HEAD.
fn tagged(bytes: Bytes, call: &Call) -> Response {
    let tag = Etag::of_bytes(&bytes);
    let known = call
        .headers()
        .get_all(IF_NONE_MATCH)
        .iter()
        .any(|value| value.to_str().is_ok_and(|list| tag.is_in(list, true)));
    let mut response = json(if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK }, bytes);
    response.headers_mut().insert(ETAG, tag.header());
    response
}
