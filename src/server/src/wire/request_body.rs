//! The body of a request: as it comes from the connection, or bytes at hand where the box itself asks.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) enum RequestBody {
    /// From a client, part by part.
    Network(Incoming),
    /// Whole; none once it was read, or where it is empty.
    Held(Option<Bytes>),
}

impl RequestBody {
    /// Bytes at hand.
    pub(crate) fn held(bytes: Bytes) -> RequestBody {
        RequestBody::Held(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            RequestBody::Network(body) => Pin::new(body).poll_frame(cx),
            RequestBody::Held(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Network(body) => body.is_end_stream(),
            RequestBody::Held(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Network(body) => body.size_hint(),
            RequestBody::Held(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}
