//! Answers one request: id, route, guard against panics and slowness, envelope, one log line, metrics.
//!
//! Panics and the time limit are caught here and not in a tower layer, because both answers need the request id and the
//! envelope of the path; compression, which needs neither, is tower-http's and stands around this.

mod builtin;
pub mod openapi;
mod watched;

pub use builtin::PUBLIC_ROUTES;

use crate::call::access::{Authenticator, Gatekeeper};
use crate::call::description::Description;
use crate::call::inner::{InnerApi, Outer};
use crate::call::known_fields::{IGNORED_FIELDS, IgnoredFields, PREFERENCE_APPLIED, STRICT};
use crate::call::readiness::Readiness;
use crate::call::request::{Call, Context, RequestProgress, RequestStage};
use crate::call::state::{ApiState, Parts as StateParts};
use crate::metrics::Metrics;
use crate::panics::PanicText;
use crate::route::gate;
use crate::route::input::{self, spare_body};
use crate::route::router::{MatchedRoute, RouteLookup, Router};
use crate::route::table::{Route, RouteGroup};
use crate::services::Services;
use crate::settings::ApiSettings;
use crate::slow::SlowLines;
use crate::wire::body::{Response, ResponseBody};
use crate::wire::compression::CompressorShare;
use crate::wire::limiter::{ADDRESS_V4_BITS, ClientConnection};
use crate::wire::request_body::RequestBody;
use crate::wire::{envelope, forwarded, host};
use base::audit::Action;
use base::ids::RequestId;
use base::network::network_of;
use base::trace::Tracer;
use base::{Code, Error, Result};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, ETAG, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, StatusCode, Uri, Version};
use hyper::body::Incoming;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use store::{Event, Origin};
use watched::WatchedRequest;

const REQUEST_ID: &str = "x-request-id";

/// The routes of slices, and what they are told to be. Boxes of one process share it.
pub struct ServedRoutes {
    groups: Vec<RouteGroup>,
    description: Arc<Description>,
}

impl ServedRoutes {
    pub fn new(groups: Vec<RouteGroup>) -> ServedRoutes {
        let described = groups.clone();
        let description = Arc::new(Description::new(move || openapi::document(&described)));
        ServedRoutes { groups, description }
    }
}

/// Everything that answers requests.
pub struct Api {
    state: Arc<ApiState>,
    router: Router,
}

impl Api {
    /// Puts the parts together; `served` are the slices' routes, to which the trunk adds its own.
    ///
    /// # Panics
    /// On a route table that contradicts itself, which is an error of the program.
    pub fn new(
        services: Arc<Services>,
        served: &ServedRoutes,
        authenticator: impl Authenticator + 'static,
        gatekeeper: impl Gatekeeper + 'static,
        settings: ApiSettings,
        metrics: Metrics,
        readiness: Readiness,
    ) -> Arc<Api> {
        let mut all = served.groups.clone();
        all.extend([
            RouteGroup::new("reference", builtin::PUBLIC_ROUTES),
            RouteGroup::new("trunk", builtin::ROUTES),
        ]);
        let router = Router::build(&all, &metrics);
        let state = ApiState::new(StateParts {
            tracer: services.find::<Tracer>().map(|tracer| Tracer::clone(&tracer)).unwrap_or_default(),
            slow: services.find::<SlowLines>(),
            services,
            authenticator: Box::new(authenticator),
            gatekeeper: Box::new(gatekeeper),
            description: Arc::clone(&served.description),
            settings,
            metrics,
            readiness,
        });
        let api = Arc::new(Api { state, router });
        let inner: Weak<dyn InnerApi> = Arc::downgrade(&api) as _;
        assert!(api.state.inner.set(inner).is_ok(), "the state is new");
        api
    }

    pub fn services(&self) -> &Services {
        &self.state.services
    }

    pub fn settings(&self) -> &ApiSettings {
        &self.state.settings
    }

    pub fn metrics(&self) -> &Metrics {
        &self.state.metrics
    }

    /// From now on the box calls itself not ready.
    pub(crate) fn start_draining(&self) {
        self.state.start_draining();
    }

    /// Takes the prefix from the path of a request, if it came with it. A path of the box's own is left as it is, whatever
    /// the prefix: a proxy that strips it leaves such a one.
    fn strip_prefix(&self, parts: &mut Parts) {
        let path = parts.uri.path();
        let rest =
            path.strip_prefix(self.settings().prefix.as_str()).filter(|_| !self.settings().prefix.is_empty());
        let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else { return };
        if !matches!(self.router.find(&parts.method, path), RouteLookup::Nothing) {
            return;
        }
        let mut text = if rest.is_empty() { "/".to_owned() } else { rest.to_owned() };
        if let Some(query) = parts.uri.query() {
            text.push('?');
            text.push_str(query);
        }
        let mut uri = parts.uri.clone().into_parts();
        uri.path_and_query = PathAndQuery::try_from(text).ok();
        if let Ok(uri) = Uri::from_parts(uri) {
            parts.uri = uri;
        }
    }

    /// Answers one request on the connection `connection`. Never fails: whatever happens becomes a response. The answer to HEAD,
    /// and a 304, still have the body that they will be sent without.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<ClientConnection>,
    ) -> Response {
        let (mut parts, body) = request.into_parts();
        self.strip_prefix(&mut parts);
        let client_ip = match connection.is_proxy() {
            true => forwarded::client_ip(connection.ip(), &parts.headers, &self.settings().trusted_proxies),
            false => connection.ip().to_canonical(),
        };
        let from = Caller { connection, client_ip, is_inner: false };
        self.respond(parts, RequestBody::Network(body), from).await
    }

    /// Answers a request of a client's, or one that the box puts to itself for a client.
    async fn respond(self: Arc<Self>, parts: Parts, body: RequestBody, from: Caller) -> Response {
        let mut watched = WatchedRequest::begin(&self.state, &parts, from.is_inner);
        let given = parts.headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        let request_id = RequestId::accept(given);
        let mut shape = envelope::shape(self.router.mount(parts.uri.path()).structured, &parts.headers);
        let (method, version, refused) = (parts.method.clone(), parts.version, host::refusal(&parts));
        let (mut is_secret, mut share) = (false, None);
        let mut result = match self.router.find(&parts.method, parts.uri.path()) {
            _ if refused.is_some() => {
                spare_body(body, &parts.headers).await;
                Err(refused.unwrap_or_else(|| Error::new(Code::InvalidInput)))
            }
            RouteLookup::Route(matched) => {
                let route = matched.route;
                is_secret = route.spec().secret;
                // The route's own path: a percent-encoded letter must not change the envelope.
                shape = envelope::shape(matched.mount.structured, &parts.headers);
                let Caller { connection, client_ip, is_inner } = from;
                let context =
                    Context::new(Arc::clone(&self.state), request_id.clone(), client_ip, connection);
                let origin = Arc::clone(context.origin());
                let call = call_at(&matched, context, parts, body, is_inner);
                let answered = answer_at(matched, call, watched.started());
                let result = watched.at(route.path(), route.spec().may_wait, answered).await;
                watched.of(origin.org());
                share = Some(compressor_share(&origin, client_ip));
                result
            }
            RouteLookup::OtherMethod { allow } => {
                spare_body(body, &parts.headers).await;
                other_method(&parts.method, allow)
            }
            RouteLookup::Nothing => {
                spare_body(body, &parts.headers).await;
                Err(Error::new(Code::NotFound).message("There is nothing at this path."))
            }
        };
        if let Err(error) = &result {
            log_failure(error, &method, watched.route(), &request_id);
        }
        if is_secret && let Ok(response) = &mut result {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        let mut response = result
            .unwrap_or_else(|error| envelope::render(&error, shape, &request_id, &self.settings().docs_base));
        finish(&mut response, version, &request_id);
        if let Some(share) = share {
            response.extensions_mut().insert(share);
        }
        watched.end(&self.state, &response, &request_id);
        response
    }
}

impl InnerApi for Api {
    fn ask(self: Arc<Self>, request: Request<Bytes>, outer: Outer) -> BoxFuture<'static, Response> {
        let (mut parts, bytes) = request.into_parts();
        if let Ok(id) = HeaderValue::from_str(outer.request_id.as_str()) {
            parts.headers.insert(REQUEST_ID, id);
        }
        // No connection carries it, so nothing but the path says whose it is.
        parts.version = Version::HTTP_2;
        let from = Caller { connection: outer.connection, client_ip: outer.client_ip, is_inner: true };
        Box::pin(self.respond(parts, RequestBody::held(bytes), from))
    }
}

/// Where a request is from.
struct Caller {
    connection: Arc<ClientConnection>,
    client_ip: IpAddr,
    /// Whether the box asks for a request of that client's which it answers.
    is_inner: bool,
}

/// Whose share of the compressors the answer to a request is of.
fn compressor_share(origin: &Origin, client_ip: IpAddr) -> CompressorShare {
    let org = origin.org().map(|org| org.0);
    match org.or_else(|| origin.actor().person().map(|user| user.0)) {
        Some(known) => CompressorShare::Known(known),
        None => CompressorShare::Address(network_of(client_ip, ADDRESS_V4_BITS)),
    }
}

/// A request at the route that was found for it.
fn call_at(
    matched: &MatchedRoute,
    context: Context,
    parts: Parts,
    body: RequestBody,
    is_inner: bool,
) -> Call {
    Call {
        context,
        parts,
        body: Some(body),
        route: matched.route.spec(),
        mount: matched.mount,
        captures: matched.captures,
        progress: RequestProgress::new(),
        is_inner,
        body_reservation: None,
        ignored: IgnoredFields::default(),
    }
}

/// Answers a request at its route, and counts it there.
async fn answer_at(matched: MatchedRoute, call: Call, started: Instant) -> Result<Response> {
    let MatchedRoute { route, metrics, .. } = matched;
    let running = metrics.begin();
    let result = run(route, call).await;
    drop(running);
    let status = result.as_ref().map_or_else(Error::status, |response| response.status().as_u16());
    metrics.end(status, started.elapsed());
    result
}

/// Runs the handler as its caller and under its time limit; a panic is an internal error and the server lives.
async fn run(route: &'static Route, mut call: Call) -> Result<Response> {
    let (context, origin) = (call.context.clone(), Arc::clone(call.context.origin()));
    let (progress, time_max) = (call.progress.clone(), route.spec().time_max);
    let acted = origin.scope(async {
        // Who shows a good credential with the first request has it from the first request on.
        if !context.connection().is_known() {
            gate::introduce(&call);
        }
        let permit = match call.is_inner {
            true => None,
            false => context.connection().request_permit().await?,
        };
        let result = route.endpoint().call(&mut call).await;
        drop(permit);
        if let Err(error) = &result
            && is_denial(error.code())
        {
            let event = Event::new(Action::AccessDenied).named(route.id()).with("code", error.code().name());
            context.services().system().refused(context.origin().org(), event).await;
        }
        result
    });
    let guarded = AssertUnwindSafe(acted).catch_unwind();
    let result = match tokio::time::timeout(time_max, guarded).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(Error::internal("run the handler", PanicText::of(&*panic))),
        Err(_) => Err(too_slow(time_max, &progress)),
    };
    let result = told(result, &call);
    // A gate refused before the body was read, or the operation takes none.
    if let Some(body) = call.body.take() {
        spare_body(body, &call.parts.headers).await;
    }
    result
}

/// The answer with what was ignored of the request, and with the preference that it was made by.
fn told(mut result: Result<Response>, call: &Call) -> Result<Response> {
    let is_strict = call.is_strict();
    if let Ok(response) = &mut result
        && is_strict
    {
        response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static(STRICT));
    }
    if call.ignored.is_empty() || is_strict {
        return result;
    }
    match (result, HeaderValue::try_from(call.ignored.header())) {
        (Ok(mut response), Ok(names)) => {
            response.headers_mut().insert(IGNORED_FIELDS, names);
            Ok(response)
        }
        // What was wrong may well be the name that was not known.
        (Err(error), _) => Err(error.header(IGNORED_FIELDS, call.ignored.header())),
        (result, Err(_)) => result,
    }
}

/// Whether a caller was refused because of who they are. A missing or worn-out credential is not among them: nobody knows
/// whose it is, and every session ends in one.
fn is_denial(code: Code) -> bool {
    matches!(
        code,
        Code::AuthForbidden
            | Code::AuthOrgMismatch
            | Code::InsufficientPermissions
            | Code::EmailNotVerified
            | Code::RlsDenied
    )
}

fn too_slow(limit: Duration, progress: &RequestProgress) -> Error {
    let secs = limit.as_secs();
    if progress.is(RequestStage::Sending) {
        return input::never_came(limit);
    }
    if !progress.is(RequestStage::Begun) {
        return Error::unavailable(format!(
            "The request had not begun after {secs} s, because the box has much to do. Nothing was done."
        ));
    }
    Error::new(Code::ServiceUnavailable).message(format!(
        "The request did not end within {secs} s. It may have taken effect nevertheless: look before you repeat it."
    ))
}

/// OPTIONS is answered wherever there is a route; any other method without one is refused.
fn other_method(method: &Method, allow: &HeaderValue) -> Result<Response> {
    if method == Method::OPTIONS {
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(ALLOW, allow.clone());
        return Ok(response);
    }
    let allow = allow.to_str().unwrap_or_default();
    Err(Error::new(Code::MethodNotAllowed)
        .message(format!("This path takes {allow}."))
        .header("allow", allow))
}

/// What every response has: the request id. After a body that did not come the connection ends (RFC 9110, 15.5.9).
///
/// Nobody keeps what has no rule of its own: most answers are for one caller, and many of the others carry a token. No
/// browser takes an answer for something that it is not, runs anything in it, or shows it inside another's page.
fn finish(response: &mut Response, version: Version, request_id: &RequestId) {
    let headers = response.headers_mut();
    if !headers.contains_key(CACHE_CONTROL) {
        let kept = if headers.contains_key(ETAG) { "private, no-cache" } else { "no-store" };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(CONTENT_SECURITY_POLICY) {
        headers.insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
        );
    }
    if response.status() == StatusCode::REQUEST_TIMEOUT && version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if let Ok(value) = HeaderValue::from_str(request_id.as_str()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
}

/// Logs once why a request failed: with its cause when the failure is ours.
fn log_failure(error: &Error, method: &Method, route: &str, request_id: &RequestId) {
    if error.code() == Code::ServiceUnavailable {
        // Told to come back: what the box lacks is logged where it is noticed, and a flood must not fill the log.
        tracing::warn!(
            target: "gleaner::request",
            method = method.as_str(), route, request_id = request_id.as_str(), %error,
            "request refused for now"
        );
    } else if error.status() >= 500 {
        tracing::error!(
            target: "gleaner::request",
            method = method.as_str(), route, code = error.code().name(), request_id = request_id.as_str(), %error,
            "request failed"
        );
    } else {
        tracing::debug!(
            target: "gleaner::request",
            method = method.as_str(), route, code = error.code().name(), request_id = request_id.as_str(), %error,
            "request refused"
        );
    }
}
