//! Requests that a handler puts to the box itself, on behalf of its caller.
//!
//! A protocol that wraps others' operations (MCP, say) must not have ways of its own around gates, quotas, limits and audit. So it
//! asks as the caller would: the same route, the same credential, the same answer. What such a request does not take a second time
//! is what the outer one holds already: a turn of the connection and of the scheduler, and room for its body.

use crate::wire::body::Response;
use crate::wire::limiter::ClientConnection;
use base::ids::RequestId;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;
use std::net::IpAddr;
use std::sync::Arc;

/// What an inner request has of the one that it is put for.
pub(crate) struct Outer {
    pub connection: Arc<ClientConnection>,
    pub client_ip: IpAddr,
    pub request_id: RequestId,
}

/// Whoever knows the routes; plugged in by `api`.
pub(crate) trait InnerApi: Send + Sync {
    fn ask(self: Arc<Self>, request: Request<Bytes>, outer: Outer) -> BoxFuture<'static, Response>;
}
