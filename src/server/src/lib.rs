//! The way of a request, from the socket to the envelope. Knows no resource.
//!
//! [`Server`] accepts connections and drains them; [`Api`] answers one request: request id, route, then the handler
//! behind its gate, all of it under a time limit and a panic guard, then one log line and the metrics. A slice meets
//! only data and types: a [`Route`] table, a gate as a handler's first argument, inputs, an output.
//!
//! Folders, each of which needs only those above it:
//!
//! ```text
//! wire     connections and bytes: their limit, TLS, framing, envelopes of errors
//! spec     what a route says of itself, as data: path, limits, mount, permissions
//! call     one request: what it carries, and the parts of the box that it finds
//! route    gates, inputs, outputs, handlers, the table and the look-up of a path
//! api      the interface: answers a request; the OpenAPI document; the trunk's own routes
//! server   the accept loop and the life of a connection
//! ```
//!
//! Beside them stand `task` (background work) and leaves that all may use (`metrics`, `services`, `settings`, `docs`).
//!
//! Invariants:
//! - a handler cannot run before its gate admitted the caller, because the gate is an argument of it;
//! - a 401 comes from [`gate`] and nowhere else, except a login that refuses a password;
//! - an error becomes bytes in [`wire::envelope`] and nowhere else;
//! - the OpenAPI document is made from the table that routes, and every gate, input and output describes itself, so it
//!   cannot differ from what is served.

mod apart;
mod api;
mod call;
pub mod chosen;
pub mod client;
mod docs;
pub mod metrics;
mod panics;
mod route;
mod server;
mod services;
mod settings;
mod slow;
mod spec;
pub mod task;
pub mod turns;
mod wire;

pub use apart::{apart, apart_if, on_own_task};
pub use api::{Api, PUBLIC_ROUTES, ServedRoutes, openapi};
pub use call::access::{Authenticator, Gatekeeper};
pub use call::readiness::{Readiness, ReadinessIssue};
pub use call::request::{Call, Context};
pub use call::session::SESSION_HEADER;
pub use docs::pages::find as error_guide;
pub use metrics::Metrics;
pub use panics::panic_text;
pub use route::body::Body;
pub use route::file::FileDownload;
pub use route::gate::{Anonymous, Browser, Gate, Org, OrgContext, OwnOr, User};
pub use route::input::header::{Accept, IdempotencyKey, IfMatch, WebhookSignature};
pub use route::input::path::{Path, PathParam};
pub use route::input::query::Query;
pub use route::input::session::{BrowserSession, BrowserVisit};
pub use route::input::stream::StreamBody;
pub use route::input::{ClientIp, Input, RawBody, VerbatimBody};
pub use route::operation::Operation;
pub use route::output::{
    Accepted, Created, Document, Download, Either, Html, NoContent, Output, SeeOther, Text, WithHeaders,
    WithStatus,
};
pub use route::page::WebPage;
pub use route::stream::{EVENT_STREAM, Standing, event_stream};
pub use route::table::{Endpoint, Handler, Route, RouteGroup};
pub use route::{gate, input};
pub use server::{Drained, Inherited, Listeners, Server};
pub use services::{Need, Services};
pub use settings::{ApiSettings, ListenAddress, ServerSettings, TlsSettings};
pub use slow::{SlowLine, SlowLines};
pub use spec::mount::{Mount, RefusalCodes};
pub use spec::permit::{self, Entitlement};
pub use spec::route::{RouteSpec, Verb};
pub use wire::body::{BoxError, Response, ResponseBody};
pub use wire::etag::Etag;
pub use wire::tls::{Certificates, Look, TlsError};
