//! Connections and bytes: who may connect, how long a connection lives, what stands around a request before it is one.
//! Knows no route.

pub(crate) mod activity;
pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod envelope;
pub(crate) mod etag;
pub(crate) mod forwarded;
mod framing;
pub(crate) mod host;
pub(crate) mod limiter;
pub(crate) mod refusal;
pub(crate) mod request_body;
pub(crate) mod tls;
