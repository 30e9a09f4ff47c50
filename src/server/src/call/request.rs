//! One request between the router and its handler.

use crate::call::body_budget::{BodyReservation, FairnessKey};
use crate::call::inner::Outer;
use crate::call::known_fields::{self, IgnoredFields, KnownFields};
use crate::call::state::ApiState;
use crate::services::Services;
use crate::spec::captures::Captures;
use crate::spec::mount::Mount;
use crate::spec::route::RouteSpec;
use crate::wire::body::Response;
use crate::wire::limiter::{ADDRESS_V4_BITS, ClientConnection};
use crate::wire::request_body::RequestBody;
use base::clock::{Moment, Now, Timestamp};
use base::ids::RequestId;
use base::network::network_of;
use base::{Error, Result};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use std::any::Any;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use store::{Actor, Origin};

/// What every handler may know of the request, whoever calls. Every gate dereferences to it.
#[derive(Clone)]
pub struct Context {
    state: Arc<ApiState>,
    request_id: RequestId,
    client_ip: IpAddr,
    origin: Arc<Origin>,
    connection: Arc<ClientConnection>,
}

impl Context {
    pub(crate) fn new(
        state: Arc<ApiState>,
        request_id: RequestId,
        client_ip: IpAddr,
        connection: Arc<ClientConnection>,
    ) -> Context {
        let origin = Origin::request(client_ip, request_id.clone());
        Context { state, request_id, client_ip, origin, connection }
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

    /// Where the box's own time stands: for what lasts or ends after a while.
    pub fn moment(&self) -> Moment {
        self.services().clock().moment()
    }

    /// Both of them at once.
    pub fn look(&self) -> Now {
        self.services().clock().look()
    }

    pub fn services(&self) -> &Services {
        &self.state.services
    }

    /// The slice's own part; see [`Services::service`].
    pub fn service<T: Any + Send + Sync>(&self) -> Arc<T> {
        self.services().service::<T>()
    }

    /// The path under which people reach the box, as in `/gleaner`; empty where it has a host of its own.
    pub fn prefix(&self) -> &str {
        &self.state.settings.prefix
    }

    /// Where error pages are, without a slash at the end.
    pub fn docs_base(&self) -> &str {
        &self.state.settings.docs_base
    }

    /// Puts a request to the box itself as its caller would, who is in the request's `Authorization`; see `call/inner.rs`. It has a
    /// time limit, a line of the log and audit rows of its own, under this request's id.
    pub async fn ask(&self, request: Request<Bytes>) -> Result<Response> {
        let api = self.state.inner.get().and_then(Weak::upgrade);
        let api = api.ok_or_else(|| Error::unavailable("The box stops."))?;
        let outer = Outer {
            connection: Arc::clone(&self.connection),
            client_ip: self.client_ip,
            request_id: self.request_id.clone(),
        };
        Ok(api.ask(request, outer).await)
    }

    pub(crate) fn state(&self) -> &ApiState {
        &self.state
    }

    /// The same, for what outlives the request.
    pub(crate) fn state_shared(&self) -> Arc<ApiState> {
        Arc::clone(&self.state)
    }

    /// The connection that the request came on.
    pub(crate) fn connection(&self) -> &Arc<ClientConnection> {
        &self.connection
    }

    /// Whose the bytes of the request's body are.
    pub(crate) fn fairness_key(&self) -> FairnessKey {
        match (self.origin.org(), self.origin.actor()) {
            (Some(org), _) => FairnessKey::Org(org),
            (None, Actor::User(user) | Actor::ApiKey { maker: user, .. }) => FairnessKey::User(user),
            _ => FairnessKey::Address(network_of(self.client_ip, ADDRESS_V4_BITS)),
        }
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RequestStage {
    /// It waits for its turn, or for room.
    Waiting,
    /// Its body is being sent.
    Sending,
    /// Its body is here and is read into values.
    Reading,
    /// Its handler runs: something may have come of it.
    Begun,
}

/// The stage of a request, which outlives it: who gives it up looks how far it came.
#[derive(Clone, Debug)]
pub(crate) struct RequestProgress(Arc<AtomicU8>);

impl RequestProgress {
    pub(crate) fn new() -> RequestProgress {
        RequestProgress(Arc::new(AtomicU8::new(RequestStage::Waiting as u8)))
    }

    pub(crate) fn reach(&self, stage: RequestStage) {
        self.0.store(stage as u8, Ordering::Relaxed);
    }

    pub(crate) fn is(&self, stage: RequestStage) -> bool {
        self.0.load(Ordering::Relaxed) == stage as u8
    }
}

/// One request: what gates and inputs are made from.
pub struct Call {
    pub(crate) context: Context,
    pub(crate) parts: Parts,
    /// Taken by the first input that reads it.
    pub(crate) body: Option<RequestBody>,
    pub(crate) route: &'static RouteSpec,
    pub(crate) mount: &'static Mount,
    pub(crate) captures: Captures,
    pub(crate) progress: RequestProgress,
    /// Whether the box itself asks: what the request of its caller holds is not taken again.
    pub(crate) is_inner: bool,
    /// The room of the body, until the request is answered.
    pub(crate) body_reservation: Option<BodyReservation>,
    /// What the caller sent and the operation does not know.
    pub(crate) ignored: IgnoredFields,
}

impl Call {
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The method as it came, so HEAD where a GET handler runs for it.
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    pub fn route(&self) -> &'static RouteSpec {
        self.route
    }

    /// What holds for the path that was called.
    pub(crate) fn mount(&self) -> &'static Mount {
        self.mount
    }

    /// The query string, empty without one.
    pub fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or("")
    }

    /// Notes the parameters that the operation does not have; refuses them to a caller who wants that.
    pub(crate) fn check_query(&mut self) -> Result<()> {
        let query = self.parts.uri.query().unwrap_or("");
        if !query.is_empty() {
            self.context.state.description.known_fields().check_query(
                self.route.id(),
                query,
                &mut self.ignored,
            );
        }
        known_fields::refuse(&self.ignored, self.is_strict())
    }

    /// What every operation knows of a request.
    pub(crate) fn known_fields(&self) -> Arc<KnownFields> {
        Arc::clone(self.context.state.description.known_fields())
    }

    /// Whether the caller wants unknown names to be refused.
    pub(crate) fn is_strict(&self) -> bool {
        known_fields::is_strict(&self.parts.headers)
    }

    pub(crate) fn captures(&self) -> &Captures {
        &self.captures
    }
}

impl Deref for Call {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}
