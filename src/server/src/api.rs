//! Answers one request: id, route, guard against panics and slowness, envelope, one log line, metrics.
//!
//! Panics and the time limit are caught here and not in a tower layer, because both answers need the request id and the
//! envelope of the path; compression, which needs neither, is tower-http's and stands around this.

use crate::body::{Response, ResponseBody};
use crate::call::{Call, Context, Progress, Stage};
use crate::door::Guest;
use crate::gate::{self, Authenticator, Gatekeeper};
use crate::input::{self, spare_body};
use crate::known::{IGNORED_FIELDS, Ignored, Known, PREFERENCE_APPLIED, STRICT};
use crate::metrics::Metrics;
use crate::room::Rooms;
use crate::route::RouteGroup;
use crate::router::{Found, Matched, Router};
use crate::services::Services;
use crate::turns::Turns;
use crate::{builtin, docs, envelope, forwarded, host, openapi};
use base::audit::Action;
use base::ids::RequestId;
use base::{Code, Error, Result};
use bytes::Bytes;
use futures::FutureExt;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, ETAG, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, StatusCode, Uri, Version};
use hyper::body::Incoming;
use ipnet::IpNet;
use serde_json::json;
use std::any::Any;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::Event;

/// What the trunk is told by the configuration.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Where error pages are, such as `http://box:8080/docs`, without a slash at the end.
    pub docs_base: String,
    /// The path under which people reach the box, as in `/gleaner`; empty where it has a host of its own. Requests come
    /// with it or without: some proxies strip it.
    pub prefix: String,
    /// Whether people get the messages that the box writes to them.
    pub sends_mail: bool,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Bytes of bodies that callers with a credential may have under way together.
    pub bodies_bytes_max: usize,
    /// Networks from which `/metrics` is shown.
    pub metrics_from: Vec<IpNet>,
    /// The token with which it is shown to anybody.
    pub metrics_token: Option<String>,
}

impl Default for ApiSettings {
    fn default() -> Self {
        ApiSettings {
            docs_base: "/docs".to_owned(),
            prefix: String::new(),
            sends_mail: true,
            trusted_proxies: Vec::new(),
            bodies_bytes_max: 128 << 20,
            metrics_from: vec![
                IpNet::new_assert(Ipv4Addr::LOCALHOST.into(), 8),
                IpNet::new_assert(Ipv6Addr::LOCALHOST.into(), 128),
            ],
            metrics_token: None,
        }
    }
}

type Check = Box<dyn Fn() -> Result<(), Lack> + Send + Sync>;

/// Why a check of readiness does not hold, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It comes by itself: the box is still starting.
    Starting(String),
    /// It works, and not as well as it will: the box is ready all the same.
    Partly(String),
    /// Something is wrong.
    Failing(String),
}

/// What must hold before the box calls itself ready: named checks that app plugs in.
#[derive(Default)]
pub struct Readiness {
    checks: Vec<(&'static str, Check)>,
}

impl Readiness {
    /// Adds a check; its error says in words what is missing.
    #[must_use]
    pub fn with(
        self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Readiness {
        self.with_start(name, move || check().map_err(Lack::Failing))
    }

    /// The same for a check that can tell a start from a failure.
    #[must_use]
    pub fn with_start(
        mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), Lack> + Send + Sync + 'static,
    ) -> Readiness {
        self.checks.push((name, Box::new(check)));
        self
    }

    pub(super) fn results(&self) -> impl Iterator<Item = (&'static str, Result<(), Lack>)> {
        self.checks.iter().map(|(name, check)| (*name, check()))
    }
}

/// Everything that answers requests.
pub struct Api {
    services: Arc<Services>,
    authenticator: Box<dyn Authenticator>,
    gatekeeper: Box<dyn Gatekeeper>,
    router: Router,
    settings: ApiSettings,
    metrics: Metrics,
    readiness: Readiness,
    draining: AtomicBool,
    rooms: Rooms,
    turns: Arc<Turns>,
    openapi: Bytes,
    known: Arc<Known>,
    reference: Bytes,
}

impl Api {
    /// Puts the parts together; `groups` are the slices' routes, to which the trunk adds its own.
    ///
    /// # Panics
    /// On a route table that contradicts itself, which is an error of the program.
    pub fn new(
        services: Arc<Services>,
        groups: &[RouteGroup],
        authenticator: impl Authenticator + 'static,
        gatekeeper: impl Gatekeeper + 'static,
        settings: ApiSettings,
        metrics: Metrics,
        readiness: Readiness,
    ) -> Arc<Api> {
        let mut document = openapi::document(groups);
        if !settings.prefix.is_empty() {
            document["servers"] = json!([{ "url": settings.prefix }]);
        }
        let reference = docs::reference(&settings.prefix, &document).into();
        let mut all = groups.to_vec();
        all.extend([
            RouteGroup::new("reference", builtin::PUBLIC_ROUTES),
            RouteGroup::new("trunk", builtin::ROUTES),
        ]);
        Arc::new(Api {
            services,
            authenticator: Box::new(authenticator),
            gatekeeper: Box::new(gatekeeper),
            router: Router::build(&all, &metrics),
            rooms: Rooms::new(settings.bodies_bytes_max, &metrics),
            turns: Turns::new(),
            settings,
            metrics,
            readiness,
            draining: AtomicBool::new(false),
            known: Arc::new(Known::of(&document)),
            reference,
            openapi: document.to_string().into(),
        })
    }

    pub fn services(&self) -> &Services {
        &self.services
    }

    pub fn settings(&self) -> &ApiSettings {
        &self.settings
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) fn authenticator(&self) -> &dyn Authenticator {
        &*self.authenticator
    }

    pub(super) fn gatekeeper(&self) -> &dyn Gatekeeper {
        &*self.gatekeeper
    }

    pub(super) fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    pub(super) fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    pub(super) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// Whether connections from there are a trusted proxy's.
    pub(super) fn trusts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.settings.trusted_proxies.iter().any(|network| network.contains(&ip))
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// From now on the box calls itself not ready.
    pub(super) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(super) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    pub(super) fn openapi(&self) -> Bytes {
        self.openapi.clone()
    }

    pub(super) fn reference(&self) -> Bytes {
        self.reference.clone()
    }

    /// Takes the prefix from the path of a request, if it came with it. A path of the box's own is left as it is, whatever
    /// the prefix: a proxy that strips it leaves such a one.
    fn strip_prefix(&self, parts: &mut Parts) {
        let path = parts.uri.path();
        let rest =
            path.strip_prefix(self.settings.prefix.as_str()).filter(|_| !self.settings.prefix.is_empty());
        let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else { return };
        if !matches!(self.router.find(&parts.method, path), Found::Nothing) {
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

    /// Answers one request on the connection `guest`. Never fails: whatever happens becomes a response. The answer to HEAD,
    /// and a 304, still have the body that they will be sent without.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>, guest: Arc<Guest>) -> Response {
        let started = Instant::now();
        let (mut parts, body) = request.into_parts();
        self.strip_prefix(&mut parts);
        let given = parts.headers.get("x-request-id").and_then(|value| value.to_str().ok());
        let request_id = RequestId::accept(given);
        let mut shape = envelope::shape(self.router.mount(parts.uri.path()), &parts.headers);
        let (method, version, refused) = (parts.method.clone(), parts.version, host::refusal(&parts));
        let mut is_secret = false;
        let (route, mut result) = match self.router.find(&parts.method, parts.uri.path()) {
            _ if refused.is_some() => {
                spare_body(body, &parts.headers).await;
                ("-", Err(refused.unwrap_or_else(|| Error::new(Code::InvalidInput))))
            }
            Found::Route(matched) => {
                let route = matched.route;
                is_secret = route.secret;
                // The route's own path: a percent-encoded letter must not change the envelope.
                shape = envelope::shape(matched.mount, &parts.headers);
                let metrics = Arc::clone(&matched.metrics);
                let client_ip =
                    forwarded::client_ip(guest.ip(), &parts.headers, &self.settings.trusted_proxies);
                let context = Context::new(Arc::clone(&self), request_id.clone(), client_ip, guest);
                let running = metrics.begin();
                let (progress, ignored) = (Progress::new(), Ignored::default());
                let call = Call { context, parts, body: Some(body), matched, progress, room: None, ignored };
                let result = run(call).await;
                drop(running);
                let status =
                    result.as_ref().map_or_else(Error::status, |response| response.status().as_u16());
                metrics.end(status, started.elapsed());
                (route.path(), result)
            }
            Found::OtherMethod { allow } => {
                spare_body(body, &parts.headers).await;
                ("-", other_method(&parts.method, allow))
            }
            Found::Nothing => {
                spare_body(body, &parts.headers).await;
                ("-", Err(Error::new(Code::NotFound).message("There is nothing at this path.")))
            }
        };
        if let Err(error) = &result {
            log_failure(error, &method, route, &request_id);
        }
        if is_secret && let Ok(response) = &mut result {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        let mut response = result
            .unwrap_or_else(|error| envelope::render(&error, shape, &request_id, &self.settings.docs_base));
        finish(&mut response, version, &request_id);
        tracing::info!(
            target: "gleaner::request",
            method = method.as_str(),
            route,
            status = response.status().as_u16(),
            ms = started.elapsed().as_secs_f64() * 1e3,
            request_id = request_id.as_str(),
        );
        response
    }
}

/// Runs the handler as its caller and under its time limit; a panic is an internal error and the server lives.
async fn run(mut call: Call) -> Result<Response> {
    let Matched { route, .. } = call.matched;
    let (context, origin) = (call.context.clone(), Arc::clone(call.context.origin()));
    let progress = call.progress.clone();
    let acted = origin.scope(async {
        // Who shows a good credential with the first request has it from the first request on.
        if !context.guest().is_known() {
            gate::introduce(&call);
        }
        let turn = context.guest().turn().await?;
        let result = route.endpoint.call(&mut call).await;
        drop(turn);
        if let Err(error) = &result
            && is_denial(error.code())
        {
            let event = Event::new(Action::AccessDenied).named(route.id()).with("code", error.code().name());
            context.services().system().refused(context.origin().org(), event).await;
        }
        result
    });
    let guarded = AssertUnwindSafe(acted).catch_unwind();
    let result = match tokio::time::timeout(route.time_max, guarded).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(Error::internal("run the handler", PanicText(panic_text(&*panic).to_owned()))),
        Err(_) => Err(too_slow(route.time_max, &progress)),
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

fn too_slow(limit: Duration, progress: &Progress) -> Error {
    let secs = limit.as_secs();
    if progress.is(Stage::Sending) {
        return input::never_came(limit);
    }
    if !progress.is(Stage::Begun) {
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
        response.headers_mut().insert("x-request-id", value);
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

/// What a panic said, as the cause of an error.
#[derive(Debug)]
struct PanicText(String);

impl std::fmt::Display for PanicText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

impl std::error::Error for PanicText {}

/// The text of a panic's payload.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
