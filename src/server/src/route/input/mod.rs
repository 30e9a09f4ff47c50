//! What handlers take: parts of a request, parsed into types before the handler runs.
//!
//! [`Path`](path::Path), [`Query`](query::Query), [`Body`], [`RawBody`], [`StreamBody`](stream::StreamBody), [`PageRequest`],
//! [`ClientIp`], and the headers of `header.rs`. What cannot be parsed is refused here, naming the field, so a handler sees only values that hold.

pub mod header;
mod json;
pub mod path;
pub mod query;
pub mod session;
pub mod stream;

pub use json::typed;

use crate::apart::apart_if;
use crate::call::known_fields;
use crate::call::request::{Call, RequestStage};
use crate::route::body::Body;
use crate::route::operation::Operation;
use crate::wire::request_body::RequestBody;
use base::limits::BODY_BYTES_AT_ONCE;
use base::page::PageRequest;
use base::{Code, Error, Result};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

/// How much of a body that is too large, or that a refused request brought along, is read and thrown away, so that a
/// caller still writing it gets to see the answer instead of a broken connection.
const DRAIN_BYTES_MAX: usize = 16 << 20;
/// How long that may take.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);

/// An argument of a handler after its gate.
pub trait Input: Sized + Send {
    /// Reads it from the request, or says what is wrong with it.
    fn extract(call: &mut Call) -> impl Future<Output = Result<Self>> + Send;
    /// Says in the reference what it takes.
    fn describe(operation: &mut Operation<'_>);
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Input for Body<T> {
    async fn extract(call: &mut Call) -> Result<Self> {
        let bytes = json_bytes(call).await?;
        if bytes.is_empty() {
            return Err(Error::new(Code::InvalidInput).message("The body is empty; JSON is expected."));
        }
        from_json(call, bytes).await.map(Body)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.json_body::<T>(true);
    }
}

/// A body that may be left out.
impl<T: DeserializeOwned + JsonSchema + Send + 'static> Input for Option<Body<T>> {
    async fn extract(call: &mut Call) -> Result<Self> {
        let bytes = json_bytes(call).await?;
        if bytes.is_empty() { Ok(None) } else { from_json(call, bytes).await.map(|value| Some(Body(value))) }
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.json_body::<T>(false);
    }
}

/// A body as JSON, with its bytes as they came: what a signature is over.
#[derive(Debug)]
pub struct VerbatimBody<T> {
    pub value: T,
    pub bytes: Bytes,
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Input for VerbatimBody<T> {
    async fn extract(call: &mut Call) -> Result<Self> {
        let bytes = json_bytes(call).await?;
        if bytes.is_empty() {
            return Err(Error::new(Code::InvalidInput).message("The body is empty; JSON is expected."));
        }
        let value = from_json(call, bytes.clone()).await?;
        Ok(VerbatimBody { value, bytes })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.json_body::<T>(true);
    }
}

/// A body of any kind, as it came.
#[derive(Debug)]
pub struct RawBody {
    pub bytes: Bytes,
    /// The media type in lower case without its parameters, if the caller named one.
    pub content_type: Option<String>,
}

impl Input for RawBody {
    async fn extract(call: &mut Call) -> Result<Self> {
        refuse_coding(call)?;
        let content_type = media_type(call.headers()).map(|media| media.to_ascii_lowercase());
        Ok(RawBody { bytes: read_body(call).await?, content_type })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.raw_body();
    }
}

/// The two parameters of every list.
impl Input for PageRequest {
    async fn extract(call: &mut Call) -> Result<Self> {
        let mut limit = None;
        let mut cursor = None;
        for (name, value) in url::form_urlencoded::parse(call.query().as_bytes()) {
            let given = match &*name {
                "limit" => &mut limit,
                "cursor" => &mut cursor,
                _ => continue,
            };
            // Nobody could say which one counts.
            if given.replace(value).is_some() {
                return Err(Error::invalid(&name, "is given more than once"));
            }
        }
        PageRequest::parse(limit.as_deref(), cursor.as_deref())
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.page_parameters();
    }
}

/// The caller's address; see [`Context::client_ip`](crate::Context::client_ip).
#[derive(Clone, Copy, Debug)]
pub struct ClientIp(pub IpAddr);

impl Input for ClientIp {
    async fn extract(call: &mut Call) -> Result<Self> {
        Ok(ClientIp(call.client_ip()))
    }

    fn describe(_: &mut Operation<'_>) {}
}

/// The media type of the body without parameters.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or(text).trim())
}

/// The body where JSON is due. A caller who names no type is taken at the body's word; one who names another is refused.
async fn json_bytes(call: &mut Call) -> Result<Bytes> {
    refuse_coding(call)?;
    if call.headers().contains_key(CONTENT_TYPE) {
        let media = media_type(call.headers()).map(str::to_ascii_lowercase).unwrap_or_default();
        if media != "application/json" && !(media.starts_with("application/") && media.ends_with("+json")) {
            // A body-less request may carry a type by habit; only a body of the wrong type is wrong.
            let bytes = read_body(call).await?;
            if bytes.is_empty() {
                return Ok(bytes);
            }
            let media = if media.is_empty() { "of a type that cannot be read" } else { &media };
            return Err(Error::new(Code::UnsupportedMediaType)
                .message(format!("The body is {media}; application/json is expected.")));
        }
    }
    read_body(call).await
}

/// A compressed request body is not read: a few bytes of it could stand for gigabytes.
fn refuse_coding(call: &Call) -> Result<()> {
    match call.headers().get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("unreadable")) {
        None | Some("identity") => Ok(()),
        Some(coding) => Err(Error::new(Code::UnsupportedMediaType)
            .message(format!("Content-Encoding {coding} is not read; send the body as it is."))
            .header("accept-encoding", "identity")),
    }
}

/// A body as `T`; a large one is read apart from the threads that answer.
async fn from_json<T: DeserializeOwned + Send + 'static>(call: &mut Call, bytes: Bytes) -> Result<T> {
    call.progress.reach(RequestStage::Reading);
    let (names, operation, is_strict) = (call.known_fields(), call.route().id(), call.is_strict());
    let mut ignored = std::mem::take(&mut call.ignored);
    let is_large = bytes.len() > BODY_BYTES_AT_ONCE;
    let read = move || {
        let typed = json::read(&bytes).and_then(|value| {
            names.check_body(operation, &value, &mut ignored);
            known_fields::refuse(&ignored, is_strict)?;
            json::typed(&value)
        });
        (typed, ignored)
    };
    let (typed, ignored) = apart_if(is_large, read).await?;
    call.ignored = ignored;
    typed
}

/// How long a body may pause.
const QUIET_TIME_MAX: Duration = Duration::from_secs(10);
/// How much of a body is made room for before it comes.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// The whole body, up to the route's limit, however it is framed. It has its room before it is read; see `call/body_budget.rs`.
async fn read_body(call: &mut Call) -> Result<Bytes> {
    let limit = call.route().body_bytes_max;
    let Some(mut body) = call.body.take() else { return Ok(Bytes::new()) };
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let length = body.size_hint().exact().map_or(limit, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if length > limit {
        spare_body(body, call.headers()).await;
        return Err(too_large(limit));
    }
    if let RequestBody::Held(bytes) = &mut body {
        return Ok(bytes.take().unwrap_or_default());
    }
    let _waiting = call.connection().activity.wait();
    call.body_reservation = Some(call.state().body_budgets.take(call.fairness_key(), length).await?);
    call.progress.reach(RequestStage::Sending);
    let mut whole = BytesMut::with_capacity(length.min(AHEAD_BYTES_MAX));
    loop {
        let frame = match tokio::time::timeout(QUIET_TIME_MAX, body.frame()).await {
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                return Err(Error::new(Code::InvalidInput).message("The body broke off.").caused_by(error));
            }
            Err(_) => return Err(never_came(QUIET_TIME_MAX)),
        };
        let Some(part) = frame.data_ref() else { continue };
        if whole.len() + part.len() > limit {
            drop(whole);
            call.body_reservation = None;
            spare_body(body, call.headers()).await;
            return Err(too_large(limit));
        }
        whole.extend_from_slice(part);
    }
}

/// The refusal of a body that did not come in time.
pub(crate) fn never_came(limit: Duration) -> Error {
    let secs = limit.as_secs();
    Error::new(Code::RequestTimeout)
        .message(format!("The body was announced, and for {secs} s it did not come. Nothing was done."))
}

/// Reads a body that nobody wants and throws it away.
pub(crate) async fn spare_body(body: RequestBody, headers: &HeaderMap) {
    // A caller that waits for "100 Continue" has not sent anything yet and must not be asked to.
    let is_coming = !body.is_end_stream() && !headers.contains_key(EXPECT);
    if is_coming && content_length(headers).is_none_or(|bytes| bytes <= DRAIN_BYTES_MAX as u64) {
        spare_sent(body).await;
    }
}

/// The same for one that comes without being asked for.
async fn spare_sent(mut body: RequestBody) {
    let _ = tokio::time::timeout(DRAIN_TIME_MAX, drain(&mut body)).await;
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn drain(body: &mut RequestBody) {
    let mut left = DRAIN_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}

fn too_large(limit: usize) -> Error {
    let mib = limit >> 20;
    let size: Cow<'static, str> =
        if mib > 0 { format!("{mib} MiB").into() } else { format!("{limit} bytes").into() };
    Error::new(Code::PayloadTooLarge).message(format!("The body is larger than {size}."))
}
