//! Traces for the operator: what requests, jobs, statements and commits of the box took, to a collector that the operator names.
//!
//! The trunk hangs up the [`Tracer`], which takes nothing while nobody listens; with an endpoint in the section `telemetry` this
//! slice has it hand over its spans. No span has a URL, a text of a statement or a person in it: ids, routes, names and numbers.

mod config;

pub use config::TelemetryConfig;

use super::Feature;
use super::wiring::Wiring;
use crate::config::SectionSpec;
use base::trace::Tracer;
use base::{Error, Result};
use futures::future::BoxFuture;
use server::{Metrics, Services};
use std::sync::Arc;
use std::time::Duration;
use telemetry::{ExportCounts, Exporter, Settings};

pub static FEATURE: Feature = Feature {
    name: "telemetry",
    sections: &[SectionSpec::of::<TelemetryConfig>()],
    open: Some(open),
    gauges: Some(gauges),
    close: Some(|services| Box::pin(close(services))),
    ..Feature::NONE
};

fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let config = wiring.config.section::<TelemetryConfig>();
        let Some(endpoint) = config.traces()? else { return Ok(()) };
        let settings = Settings {
            endpoint,
            headers: config.header_map()?,
            ca_file: Some(config.ca_file.clone()).filter(|file| !file.as_os_str().is_empty()),
            timeout: Duration::from_secs(config.timeout_sec),
            resource: vec![
                ("service.name", config.service_name.clone()),
                ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
                ("service.instance.id", wiring.url.to_owned()),
            ],
        };
        let ratio = config.sample_per_mille;
        let exporter = Exporter::start(settings).map_err(|e| Error::invalid("telemetry.ca_file", e))?;
        let exporter = wiring.hang::<Exporter>(exporter);
        wiring.part::<Tracer>().wire(exporter, ratio);
        Ok(())
    })
}

fn gauges(metrics: &Metrics, services: &Services) {
    let exporter = services.find::<Exporter>();
    let counts = exporter.as_ref().map_or_else(Arc::default, |exporter| Arc::clone(exporter.counts()));
    let counter = |name, help, labels, read: fn(&ExportCounts) -> u64| {
        let counts = Arc::clone(&counts);
        metrics.counter_of(name, help, labels, move || read(&counts));
    };
    let help = "Spans that the collector of traces has taken.";
    counter("gleaner_trace_spans_sent_total", help, &[], ExportCounts::sent);
    let (name, help) = (
        "gleaner_trace_spans_dropped_total",
        "Spans that were given up: too many waited, or the collector did not take them.",
    );
    counter(name, help, &[("why", "queue_full")], ExportCounts::dropped_full);
    counter(name, help, &[("why", "collector")], ExportCounts::dropped_by_collector);
    let help = "Spans that wait to be sent.";
    metrics.gauge_of("gleaner_trace_spans_waiting", help, &[], move || {
        exporter.as_ref().map_or(0.0, |exporter| exporter.waiting() as f64)
    });
}

async fn close(services: Arc<Services>) {
    if let Some(exporter) = services.find::<Exporter>() {
        exporter.flush().await;
    }
}
