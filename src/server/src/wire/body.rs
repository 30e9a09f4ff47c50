//! The body of a response: bytes at hand, or a stream.
//!
//! Two variants instead of a boxed trait object, because nearly every response is JSON at hand and should not pay for
//! a stream's indirection.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Whatever a stream of ours can fail with; it ends the connection, so the client notices.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A response on its way out.
pub type Response = http::Response<ResponseBody>;

/// The body of a [`Response`].
pub struct ResponseBody(BodyKind);

enum BodyKind {
    Full(Option<Bytes>),
    Stream(UnsyncBoxBody<Bytes, BoxError>),
}

impl ResponseBody {
    pub fn empty() -> ResponseBody {
        ResponseBody(BodyKind::Full(None))
    }

    /// Bytes at hand; their number becomes `content-length`.
    pub fn full(bytes: impl Into<Bytes>) -> ResponseBody {
        let bytes = bytes.into();
        ResponseBody(BodyKind::Full(if bytes.is_empty() { None } else { Some(bytes) }))
    }

    /// A stream of frames.
    pub fn stream<B>(body: B) -> ResponseBody
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        ResponseBody(BodyKind::Stream(body.map_err(Into::into).boxed_unsync()))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            BodyKind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Stream(stream) => Pin::new(stream).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Full(bytes) => bytes.is_none(),
            BodyKind::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            BodyKind::Stream(stream) => stream.size_hint(),
        }
    }
}
