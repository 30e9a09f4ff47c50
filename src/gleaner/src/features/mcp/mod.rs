//! The box as a tool of other people's agents: the Model Context Protocol at `POST /mcp` (streamable HTTP).
//!
//! Everything a tool does it asks of the box as its caller would ([`on_behalf`]): the same routes, key, permissions, quotas and
//! audit rows, so that this slice has no power of its own and names no other slice. [`protocol`] is the only file that knows the
//! crate of the protocol; [`tools`], [`resources`] and [`prompts`] are what it offers, [`bounds`] how much of it at a time.

mod arguments;
mod bounds;
mod config;
mod given;
mod on_behalf;
mod pages;
mod prompts;
mod protocol;
mod queries;
mod resources;
mod submissions;
mod tools;
mod visitors;

pub use config::McpConfig;

use super::Feature;
use crate::config::SectionSpec;
use crate::features::wiring::Wiring;
use base::{Code, Result};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use on_behalf::OnBehalf;
use server::input::Input;
use server::{Call, Handler, Need, Operation, Output, RawBody, Response, Route, User};
use visitors::Visitors;

/// How long one call may take: a statement is waited for, and the answer says how to go on if it takes longer.
const TIME_MAX_SECS: u64 = 45;

pub static FEATURE: Feature = Feature {
    name: "mcp",
    sections: &[SectionSpec::of::<McpConfig>()],
    open: Some(open),
    pages: &[Route::post("/mcp", "modelContextProtocol", &Handler::new(answer))
        .about(
            "One message of the Model Context Protocol (revisions 2026-07-28, 2025-11-25 and 2025-06-18), with an API key as \
             bearer: the tools, resources and prompts through which agents use the box.",
        )
        .time_max_secs(TIME_MAX_SECS)
        .waits()
        .fails(&[Code::AuthForbidden])],
    needs: &[Need::of::<Visitors>()],
    ..Feature::NONE
};

/// Opens the slice's part.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let visitors = Visitors::new(wiring.config.section::<McpConfig>(), wiring.url)?;
        wiring.hang::<Visitors>(visitors);
        Ok(())
    })
}

/// A message as it came. Its headers repeat what its body says, and the protocol wants both to agree.
struct Message {
    headers: HeaderMap,
    bytes: Bytes,
}

impl Input for Message {
    async fn extract(call: &mut Call) -> Result<Self> {
        call.service::<Visitors>().check(call.headers())?;
        let RawBody { bytes, .. } = RawBody::extract(call).await?;
        Ok(Message { headers: call.headers().clone(), bytes })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.raw_body();
    }
}

/// What the protocol answers.
struct Answer(Response);

impl Output for Answer {
    fn respond(self, _: &Call) -> Result<Response> {
        Ok(self.0)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.binary_response(&["application/json", "text/event-stream"]);
    }
}

async fn answer(user: User, message: Message) -> Result<Answer> {
    // The gate has read it.
    let key = message.headers.get(AUTHORIZATION).cloned().unwrap_or(HeaderValue::from_static(""));
    let on_behalf = OnBehalf::new((*user).clone(), key);
    Ok(Answer(protocol::answer(on_behalf, message.headers, message.bytes).await))
}
