//! One request as the operator sees it: its line in the log, another one where it was slow, and its span.

use crate::call::state::ApiState;
use crate::wire::body::Response;
use base::ids::{OrgId, RequestId};
use base::trace::{self, Span, SpanKind, TraceId, TraceParent};
use http::request::Parts;
use http::{HeaderMap, Method};
use std::time::Instant;

/// A request under way.
pub(super) struct WatchedRequest {
    started: Instant,
    method: Method,
    route: &'static str,
    span: Span,
    /// The trace that it is of: its caller's, or the span's.
    trace: Option<TraceId>,
    org: Option<OrgId>,
    /// Whether it takes as long as its caller wants.
    may_wait: bool,
}

impl WatchedRequest {
    /// It has come. `is_inner`: the box asks it of itself.
    pub(super) fn begin(state: &ApiState, parts: &Parts, is_inner: bool) -> WatchedRequest {
        let (started, given, method) = (Instant::now(), parent(&parts.headers), parts.method.clone());
        let span = match is_inner {
            true => trace::child("", SpanKind::Internal),
            false => state.tracer.begin("", SpanKind::Server, given),
        };
        let trace = given.map(|given| given.trace).or_else(|| span.trace());
        WatchedRequest { started, method, route: "-", span, trace, org: None, may_wait: false }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// It goes to this route. What `work` does is within its span.
    pub(super) fn at<F: Future>(
        &mut self,
        route: &'static str,
        may_wait: bool,
        work: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        (self.route, self.may_wait) = (route, may_wait);
        self.span.scope(work)
    }

    /// Whose it is.
    pub(super) fn of(&mut self, org: Option<OrgId>) {
        self.org = org;
    }

    pub(super) fn route(&self) -> &'static str {
        self.route
    }

    /// It is answered.
    pub(super) fn end(self, state: &ApiState, response: &Response, request_id: &RequestId) {
        let WatchedRequest { started, method, route, mut span, trace, org, may_wait } = self;
        let (took, status) = (started.elapsed(), response.status());
        let (method, request_id) = (method.as_str(), request_id.as_str());
        let (ms, trace) = (took.as_secs_f64() * 1e3, trace.map(|trace| trace.to_string()));
        let trace_id = trace.as_deref();
        tracing::info!(
            target: "gleaner::request",
            method, route, status = status.as_u16(), ms, request_id, trace_id,
        );
        let slow = state.slow.as_ref().filter(|_| !may_wait).and_then(|slow| slow.took(took, org));
        if let Some(line) = slow {
            let (org, left_out) = (org.map(|org| org.to_string()), line.left_out);
            tracing::warn!(
                target: "gleaner::slow",
                method, route, status = status.as_u16(), ms, request_id, trace_id, org, left_out,
                "a request was slow"
            );
        }
        if span.trace().is_none() {
            return;
        }
        span.rename(|| if route == "-" { method.to_owned() } else { format!("{method} {route}") });
        span.set("http.request.method", method);
        span.set("http.route", route);
        span.set("http.response.status_code", i64::from(status.as_u16()));
        span.set("gleaner.request_id", request_id);
        if let Some(org) = org {
            span.set("gleaner.org_id", org.to_string());
        }
        if status.is_server_error() {
            span.fail(status.as_u16());
        }
    }
}

/// Where the caller's trace stands. Several headers are none (W3C Trace Context, 3.2).
fn parent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut all = headers.get_all(TraceParent::HEADER).iter();
    match (all.next(), all.next()) {
        (Some(only), None) => TraceParent::parse(only.to_str().ok()?.trim()),
        _ => None,
    }
}
