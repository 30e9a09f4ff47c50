//! The trunk's own routes: health, metrics, the reference and its error pages, and the pages that mailed links lead to.

use crate::base::{Error, Result};
use crate::http::docs;
use crate::http::gate::Anonymous;
use crate::http::input::path::Path;
use crate::http::output::{Either, Html, JsonBytes, Text, WithHeaders};
use crate::http::route::{Handler, Route};
use crate::http::{Body, WithStatus, pages};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Under the prefix, and so part of the document.
pub static PUBLIC_ROUTES: &[Route] =
    &[Route::get("/api/v1/openapi.json", "getOpenApi", &Handler::new(openapi)).about("This document.")];

/// Outside the prefix.
pub static ROUTES: &[Route] = &[
    Route::get("/healthz", "healthz", &Handler::new(healthz)),
    Route::get("/readyz", "readyz", &Handler::new(readyz)),
    Route::get("/metrics", "metrics", &Handler::new(metrics)),
    Route::get("/verify-email", "verifyEmailPage", &Handler::new(verify_email_page)),
    Route::get("/reset-password", "resetPasswordPage", &Handler::new(reset_password_page)),
    Route::get("/invite", "invitePage", &Handler::new(invite_page)),
    Route::get("/docs", "docs", &Handler::new(reference)),
    Route::get("/docs/cli-auth", "cliAuthPage", &Handler::new(cli_auth_page)),
    Route::get("/docs/errors", "errorPages", &Handler::new(error_index)),
    Route::get("/docs/errors/{code}", "errorPage", &Handler::new(error_page)),
];

async fn openapi(gate: Anonymous) -> Result<JsonBytes> {
    Ok(JsonBytes(gate.api().openapi()))
}

async fn healthz(_: Anonymous) -> Result<Text> {
    Ok(Text("text/plain; charset=utf-8", "ok\n".to_owned()))
}

/// What `/readyz` answers: every check with `ok` or what it lacks.
#[derive(Debug, Serialize, JsonSchema)]
struct ReadyView {
    status: &'static str,
    checks: BTreeMap<&'static str, String>,
}

async fn readyz(gate: Anonymous) -> Result<Either<Body<ReadyView>, WithStatus<503, ReadyView>>> {
    let api = gate.api();
    let mut ready = !api.is_draining();
    let mut checks = BTreeMap::new();
    for (name, result) in api.readiness().results() {
        ready &= result.is_ok();
        checks.insert(name, result.err().unwrap_or_else(|| "ok".to_owned()));
    }
    let status = match (ready, api.is_draining()) {
        (true, _) => "ready",
        (false, true) => "draining",
        (false, false) => "starting",
    };
    let view = ReadyView { status, checks };
    Ok(if ready { Either::Left(Body(view)) } else { Either::Right(WithStatus(view)) })
}

async fn metrics(gate: Anonymous) -> Result<Text> {
    Ok(Text("text/plain; version=0.0.4; charset=utf-8", gate.api().metrics().render()))
}

async fn reference(gate: Anonymous) -> Result<Html> {
    Ok(Html(gate.api().reference()))
}

async fn cli_auth_page(_: Anonymous) -> Result<Html> {
    Ok(Html(docs::cli_auth_page().into()))
}

async fn verify_email_page(_: Anonymous) -> Result<WithHeaders<Html>> {
    Ok(link_page(docs::VERIFY_EMAIL))
}

async fn reset_password_page(_: Anonymous) -> Result<WithHeaders<Html>> {
    Ok(link_page(docs::RESET_PASSWORD))
}

async fn invite_page(_: Anonymous) -> Result<WithHeaders<Html>> {
    Ok(link_page(docs::INVITE))
}

fn link_page(content: docs::LinkPage) -> WithHeaders<Html> {
    WithHeaders::new(Html(docs::link_page(&content).into()))
        .header(CONTENT_SECURITY_POLICY, docs::LINK_POLICY.clone())
        .header(CACHE_CONTROL, HeaderValue::from_static("no-store"))
        .header(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
}

async fn error_index(_: Anonymous) -> Result<Html> {
    Ok(Html(docs::error_index().into()))
}

async fn error_page(_: Anonymous, Path(code): Path<String>) -> Result<Html> {
    let text = pages::find(&code).ok_or_else(|| Error::not_found("Page"))?;
    Ok(Html(docs::error_page(&code, text).into()))
}
