//! A body that is read part by part, by the handler itself, and is never in memory whole.
//!
//! What the handler holds of it at a time is bounded, so room is taken for that much and not for the body's length
//! (`call/body_budget.rs`). How it is coded and what it is are told to the handler, which refuses what it does not read.

use super::{DRAIN_BYTES_MAX, Input, QUIET_TIME_MAX, content_length, media_type, spare_sent, too_large};
use crate::call::request::Call;
use crate::route::operation::Operation;
use crate::wire::activity::Activity;
use crate::wire::request_body::RequestBody;
use base::{Code, Error, Result};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use std::sync::Arc;
use std::time::Duration;

/// What a handler may hold of such a body: parts of it, and what it makes of them before it is written.
const HELD_BYTES: usize = 2 << 20;
/// Beside that, of a body in zstd: the window out of which it is unpacked (RFC 9659: at most 8 MiB).
const ZSTD_WINDOW_BYTES: usize = 8 << 20;
/// Small parts are put together up to this.
const PART_BYTES: usize = 64 << 10;

/// A body as it comes.
pub struct StreamBody {
    body: Option<RequestBody>,
    limit: usize,
    came: usize,
    /// Whether the client sends it without being asked to, and it is not too long to be thrown away.
    is_sparable: bool,
    activity: Arc<Activity>,
    /// The media type in lower case without its parameters, if the caller named one.
    pub content_type: Option<String>,
    /// The `charset` parameter of the media type, in lower case.
    pub charset: Option<String>,
    /// The coding of the content in lower case, other than `identity`.
    pub coding: Option<String>,
}

impl Input for StreamBody {
    async fn extract(call: &mut Call) -> Result<Self> {
        let limit = call.route().body_bytes_max;
        let coding = coding(call)?;
        let content_type = media_type(call.headers()).map(str::to_ascii_lowercase);
        let length = content_length(call.headers());
        let is_sparable = !call.headers().contains_key(EXPECT)
            && length.is_none_or(|bytes| bytes <= DRAIN_BYTES_MAX as u64);
        let body = call.body.take().filter(|body| !body.is_end_stream());
        let mut stream = StreamBody {
            body,
            limit,
            came: 0,
            is_sparable,
            activity: Arc::clone(&call.connection().activity),
            charset: charset(call),
            content_type,
            coding,
        };
        if length.is_some_and(|bytes| bytes > limit as u64) {
            stream.spare().await;
            return Err(too_large(limit));
        }
        if stream.body.is_some() {
            let zstd = |name: &Option<String>| name.as_deref().is_some_and(|name| name.contains("zstd"));
            let window =
                if zstd(&stream.coding) || zstd(&stream.content_type) { ZSTD_WINDOW_BYTES } else { 0 };
            let _waiting = stream.activity.wait();
            let room = call.state().body_budgets.take(call.fairness_key(), HELD_BYTES + window).await?;
            call.body_reservation = Some(room);
        }
        Ok(stream)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.raw_body();
    }
}

impl StreamBody {
    /// The next part; none at the end. An error is the end too: of a body that is too large, pauses for too long, or broke
    /// off.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let Some(body) = &mut self.body else { return Ok(None) };
        let _waiting = self.activity.wait();
        let mut part = BytesMut::new();
        while part.len() < PART_BYTES {
            let frame = match tokio::time::timeout(QUIET_TIME_MAX, body.frame()).await {
                Ok(None) => {
                    self.body = None;
                    break;
                }
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    self.body = None;
                    return Err(Error::new(Code::InvalidInput)
                        .message("The body broke off.")
                        .caused_by(error));
                }
                Err(_) => return Err(pauses(QUIET_TIME_MAX)),
            };
            let Some(bytes) = frame.data_ref() else { continue };
            self.came += bytes.len();
            if self.came > self.limit {
                return Err(too_large(self.limit));
            }
            // One that is large enough is passed on as it is.
            if part.is_empty() && bytes.len() >= PART_BYTES {
                return Ok(Some(bytes.clone()));
            }
            part.extend_from_slice(bytes);
        }
        Ok(Some(part.freeze()).filter(|part| !part.is_empty()))
    }

    /// Reads some of what still comes and throws it away, so that a caller who is still writing sees why it is refused.
    pub async fn spare(&mut self) {
        if let Some(body) = self.body.take()
            && self.is_sparable
        {
            spare_sent(body).await;
        }
    }
}

fn pauses(limit: Duration) -> Error {
    let secs = limit.as_secs();
    Error::new(Code::RequestTimeout).message(format!("For {secs} s nothing more came of the body."))
}

/// The one coding of the content.
fn coding(call: &Call) -> Result<Option<String>> {
    let mut given = call.headers().get_all(CONTENT_ENCODING).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or("unreadable").trim().to_ascii_lowercase();
    if given.next().is_some() {
        return Err(
            Error::new(Code::UnsupportedMediaType).message("Content-Encoding is given more than once.")
        );
    }
    Ok(Some(text).filter(|text| text != "identity"))
}

fn charset(call: &Call) -> Option<String> {
    let text = call.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    text.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case("charset");
        is_it.then(|| value.trim().trim_matches('"').to_ascii_lowercase())
    })
}
