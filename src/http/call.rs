//! One request between the router and its handler.

use crate::base::clock::Timestamp;
use crate::base::ids::RequestId;
use crate::http::api::Api;
use crate::http::route::Route;
use crate::http::router::{Captures, Matched};
use crate::http::services::Services;
use crate::store::Origin;
use http::request::Parts;
use http::{HeaderMap, Method};
use hyper::body::Incoming;
use std::any::Any;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

/// What every handler may know of the request, whoever calls. Every gate dereferences to it.
#[derive(Clone)]
pub struct Context {
    api: Arc<Api>,
    request_id: RequestId,
    client_ip: IpAddr,
    origin: Arc<Origin>,
}

impl Context {
    pub(super) fn new(api: Arc<Api>, request_id: RequestId, client_ip: IpAddr) -> Context {
        let origin = Origin::request(client_ip, request_id.clone());
        Context { api, request_id, client_ip, origin }
    }

    pub fn request_id(&self) -> &RequestId {
        &self.request_id
    }

    /// The caller's address; behind a trusted proxy the one it vouches for.
    pub fn client_ip(&self) -> IpAddr {
        self.client_ip
    }

    /// Who acts, as audit rows will say; it stands around the handler already.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// The box's time, which tests may have moved.
    pub fn now(&self) -> Timestamp {
        self.services().clock().now()
    }

    pub fn services(&self) -> &Services {
        self.api.services()
    }

    /// The slice's own part; see [`Services::service`].
    pub fn service<T: Any + Send + Sync>(&self) -> Arc<T> {
        self.services().service::<T>()
    }

    /// Where error pages are, without a slash at the end.
    /// The path under which people reach the box, as in `/gleaner`; empty where it has a host of its own.
    pub fn prefix(&self) -> &str {
        &self.api.settings().prefix
    }

    pub fn docs_base(&self) -> &str {
        &self.api.settings().docs_base
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }
}

/// One request: what gates and inputs are made from.
pub struct Call {
    pub(super) context: Context,
    pub(super) parts: Parts,
    /// Taken by the first input that reads it.
    pub(super) body: Option<Incoming>,
    pub(super) matched: Matched,
}

impl Call {
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The method as it came, so HEAD where a GET handler runs for it.
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    pub fn route(&self) -> &'static Route {
        self.matched.route
    }

    /// The query string, empty without one.
    pub fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or("")
    }

    pub(super) fn captures(&self) -> &Captures {
        &self.matched.captures
    }
}

impl Deref for Call {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}
