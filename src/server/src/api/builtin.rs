//! The trunk's own routes: health, metrics, the reference, its guides and its error pages.

use crate::call::readiness::ReadinessIssue;
use crate::call::request::{Call, Context};
use crate::docs::{self, pages};
use crate::route::body::Body;
use crate::route::gate::{Anonymous, Gate};
use crate::route::input::header::Accept;
use crate::route::input::path::Path;
use crate::route::operation::Operation;
use crate::route::output::{Either, Html, JsonBytes, SeeOther, Text, WithStatus};
use crate::route::table::{Handler, Route};
use base::digest::sha256;
use base::{Code, Error, Result};
use http::header::AUTHORIZATION;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Under the prefix, and so part of the document.
pub static PUBLIC_ROUTES: &[Route] =
    &[Route::get("/api/v1/openapi.json", "getOpenApi", &Handler::new(openapi)).about("This document.")];

/// Outside the prefix.
pub static ROUTES: &[Route] = &[
    Route::get("/", "home", &Handler::new(home)),
    Route::get("/healthz", "healthz", &Handler::new(healthz)).unscheduled(),
    Route::get("/readyz", "readyz", &Handler::new(readyz)).unscheduled(),
    Route::get("/metrics", "metrics", &Handler::new(metrics)).unscheduled(),
    Route::get("/docs", "docs", &Handler::new(reference)),
    Route::get("/docs/errors", "errorPages", &Handler::new(error_index)),
    Route::get("/docs/errors/{code}", "errorPage", &Handler::new(error_page)),
    Route::get("/docs/{guide}", "guidePage", &Handler::new(guide)),
];

async fn openapi(gate: Anonymous) -> Result<JsonBytes> {
    Ok(JsonBytes(gate.state().openapi().clone()))
}

async fn healthz(_: Anonymous) -> Result<Text> {
    Ok(Text("text/plain; charset=utf-8", "ok\n".to_owned()))
}

/// What `/readyz` answers: every check with `ok` or what it lacks; a box may be ready although a part is not at its best.
#[derive(Debug, Serialize, JsonSchema)]
struct ReadyView {
    /// `ready`, `starting` (that comes by itself), `failing` (something is wrong: `reason`), or `draining`.
    status: &'static str,
    /// What fails, and why; else, while the box starts, what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    checks: BTreeMap<&'static str, String>,
}

async fn readyz(gate: Anonymous) -> Result<Either<Body<ReadyView>, WithStatus<503, ReadyView>>> {
    let state = gate.state();
    let mut checks = BTreeMap::new();
    let (mut starting, mut failing) = (Vec::new(), Vec::new());
    for (name, result) in state.readiness.results() {
        let (told, text) = match result {
            Ok(()) => (None, "ok".to_owned()),
            Err(ReadinessIssue::Starting(text)) => (Some(&mut starting), text),
            Err(ReadinessIssue::Partly(text)) => (None, text),
            Err(ReadinessIssue::Failing(text)) => (Some(&mut failing), text),
        };
        if let Some(told) = told {
            told.push(format!("{name}: {text}"));
        }
        checks.insert(name, text);
    }
    let (status, reason) = match (state.is_draining(), failing.is_empty(), starting.is_empty()) {
        (true, ..) => ("draining", Vec::new()),
        (_, false, _) => ("failing", failing),
        (_, _, false) => ("starting", starting),
        _ => ("ready", Vec::new()),
    };
    let ready = status == "ready";
    let view = ReadyView { status, reason: (!reason.is_empty()).then(|| reason.join("; ")), checks };
    Ok(if ready { Either::Left(Body(view)) } else { Either::Right(WithStatus(view)) })
}

async fn metrics(gate: MetricsGate) -> Result<Text> {
    Ok(Text("text/plain; version=0.0.4; charset=utf-8", gate.0.state().metrics.render()))
}

/// Who may see the box's numbers: a caller at one of the operator's addresses, or with the operator's token. They tell how
/// much every organization does, so they are for nobody else.
struct MetricsGate(Context);

impl Gate for MetricsGate {
    fn admit(call: &Call) -> Result<Self> {
        let settings = &call.state().settings;
        let address = call.client_ip();
        // A proxy that nobody told the box of makes everybody look like the machine itself.
        let is_passed_on = FORWARDING.iter().any(|name| call.headers().contains_key(*name));
        let is_near = settings.metrics_from.iter().any(|network| network.contains(&address))
            && !(address.is_loopback() && is_passed_on);
        let bearer = call.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        // Digests are compared, so that how far two texts agree shows in no time that it takes.
        let knows =
            |token: &String| bearer.is_some_and(|text| sha256(text.as_bytes()) == sha256(token.as_bytes()));
        if is_near || settings.metrics_token.as_ref().is_some_and(knows) {
            return Ok(MetricsGate(call.context.clone()));
        }
        Err(Error::new(Code::AuthForbidden).message(
            "Metrics are for the operator: from the networks in server.metrics_from, or with the token in \
             server.metrics_token.",
        ))
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.anonymous();
    }
}

/// Headers that only a proxy sends.
const FORWARDING: &[&str] = &["x-forwarded-for", "forwarded", "x-real-ip", "via"];

async fn reference(gate: Anonymous) -> Result<Html> {
    Ok(Html(gate.state().reference().clone()))
}

/// Leads a browser to where people begin, if there is such a page; shows all others what there is.
async fn home(gate: Anonymous, accept: Accept) -> Result<Either<SeeOther, Html>> {
    match gate.state().settings.start {
        Some(start) if accept.media_types().any(|media| media == "text/html") => {
            Ok(Either::Left(SeeOther(format!("{}{start}", gate.prefix()))))
        }
        _ => Ok(Either::Right(Html(docs::home(gate.prefix()).into()))),
    }
}

async fn error_index(gate: Anonymous) -> Result<Html> {
    Ok(Html(docs::error_index(gate.prefix()).into()))
}

async fn error_page(gate: Anonymous, Path(code): Path<String>) -> Result<Html> {
    let text = pages::find(&code).ok_or_else(|| Error::not_found("Page"))?;
    Ok(Html(docs::error_page(gate.prefix(), &code, text).into()))
}

async fn guide(gate: Anonymous, Path(name): Path<String>) -> Result<Html> {
    let guide = pages::guide(&name).ok_or_else(|| Error::not_found("Page"))?;
    Ok(Html(docs::guide(gate.prefix(), guide).into()))
}
