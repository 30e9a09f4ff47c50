//! A connection: what requests are sent over, and the task that carries it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};

use crate::proxy::Proxy;

/// Ends a connection's task with the connection's owner.
pub(super) struct AbortOnDrop(pub(super) tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One request after the other.
pub(super) struct H1 {
    pub(super) sender: http1::SendRequest<Full<Bytes>>,
    pub(super) relay: Option<Relay>,
    pub(super) _driver: AbortOnDrop,
}

/// That an HTTP proxy at the other end makes the requests itself, and who it is told to be.
pub(super) struct Relay {
    pub(super) proxy: Arc<Proxy>,
    pub(super) login: Option<HeaderValue>,
}

/// As many requests at once as the other end takes.
#[derive(Clone)]
pub(super) struct H2 {
    pub(super) sender: http2::SendRequest<Full<Bytes>>,
    pub(super) id: u64,
    pub(super) peer: SocketAddr,
}

/// What requests are sent over.
pub(super) enum Sender {
    H1(H1),
    H2(H2),
}
