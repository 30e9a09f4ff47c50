//! Spans of traces to a collector, by OTLP over HTTP.
//!
//! Spans come through a bounded queue and leave in batches, from a task of their own: whoever ends a span never waits, whatever the
//! collector does. A batch that it does not take is tried again for a while, and then given up; what is lost so is counted, and so is
//! what finds the queue full. [`encode`] has the bytes (`opentelemetry.proto.collector.trace.v1`), [`post`] the request.
//!
//! The protocol needs one message of a handful of fields, so it is written here: the crates `opentelemetry`, `opentelemetry_sdk`,
//! `opentelemetry-proto` and `opentelemetry-otlp` bring prost, tonic's types and another HTTP client along.

mod encode;
mod export;
mod post;
mod settings;

pub use export::{ExportCounts, Exporter};
pub use settings::Settings;
