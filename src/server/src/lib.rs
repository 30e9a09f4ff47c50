//! The way of a request, from the socket to the envelope. Knows no resource.
//!
//! [`Server`] accepts connections and drains them; [`Api`] answers one request: request id, route, then the handler
//! behind its gate, all of it under a time limit and a panic guard, then one log line and the metrics. A slice meets
//! only data and types: a [`Route`] table, a gate as a handler's first argument, inputs, an output.
//!
//! Invariants:
//! - a handler cannot run before its gate admitted the caller, because the gate is an argument of it;
//! - a 401 comes from [`gate`] and nowhere else, except a login that refuses a password;
//! - an error becomes bytes in [`envelope`] and nowhere else;
//! - the OpenAPI document is made from the table that routes, and every gate, input and output describes itself, so it
//!   cannot differ from what is served.

mod apart;
mod api;
mod body;
mod builtin;
mod call;
pub mod client;
mod connection;
mod docs;
mod door;
mod envelope;
mod etag;
mod file;
mod forwarded;
mod framing;
pub mod gate;
mod host;
pub mod input;
mod known;
mod markdown;
pub mod metrics;
mod mount;
pub mod openapi;
mod output;
mod page;
mod pages;
pub mod permit;
mod refusal;
pub mod removal;
mod room;
mod route;
mod router;
mod server;
mod services;
pub mod task;
mod tls;
mod turns;

pub use apart::{apart, apart_if, on_own_task};
pub use api::panic_text;
pub use api::{Api, ApiSettings, Lack, Readiness};
pub use body::{BoxError, Response, ResponseBody};
pub use builtin::PUBLIC_ROUTES;
pub use call::{Call, Context};
pub use etag::Etag;
pub use file::FileDownload;
pub use gate::{Anonymous, Authenticator, Browser, Gate, Gatekeeper, Org, OrgContext, OwnOr, User};
pub use input::header::{Accept, IdempotencyKey, IfMatch};
pub use input::path::{Path, PathParam};
pub use input::query::Query;
pub use input::{ClientIp, Input, RawBody};
pub use metrics::Metrics;
pub use mount::{Mount, Refusals};
pub use openapi::Operation;
pub use output::{
    Accepted, Body, Created, Download, Either, Html, NoContent, Output, Text, WithHeaders, WithStatus,
};
pub use page::WebPage;
pub use permit::Entitlement;
pub use route::{Endpoint, Handler, Route, RouteGroup};
pub use server::{Drained, Listeners, Server, ServerSettings, TlsSettings};
pub use services::{Need, Services};
pub use tls::Certificates;
