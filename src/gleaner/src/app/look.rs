//! What a live view (`gleaner admin top`) shows: one look at everything, cheap enough to be asked every second.

use super::process;
use super::watch::Watch;
use crate::admin::StatusFn;
use crate::config::Config;
use crate::features;
use crate::features::wiring::consumers;
use base::health::Health;
use serde_json::{Value, json};
use server::{Metrics, Services};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Takes looks at the box.
pub(super) fn look(
    config: &Config,
    url: String,
    services: &Arc<Services>,
    metrics: Metrics,
    watch: Arc<Watch>,
) -> StatusFn {
    let (services, begun) = (Arc::clone(services), Instant::now());
    let reserve_bytes = config.storage.reserve_mb << 20;
    Arc::new(move || {
        let (store, requests) = (services.store(), metrics.requests());
        let (stats, room) = (store.stats(), watch.room());
        let feeds = consumers(&services).into_iter().map(|consumer| consumer.name());
        let feeds = feeds.map(|name| json!({ "name": name, "lagSec": watch.lag_sec(name) }));
        let mut look = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "url": url,
            "at": services.clock().now(),
            "uptimeMs": begun.elapsed().as_millis() as u64,
            "trouble": trouble(&services, &watch),
            "requests": {
                "answered": requests.answered,
                "failed": requests.failed,
                "running": requests.running,
                "connections": metrics.value("gleaner_http_connections"),
            },
            "memory": {
                "ownBytes": number(process::status_bytes("RssAnon")),
                "residentBytes": number(process::status_bytes("VmRSS")),
                "othersBytes": number(process::descendants_bytes()),
                "machineFreeBytes": number(process::machine_bytes("MemAvailable")),
                "machineBytes": number(process::machine_bytes("MemTotal")),
            },
            "disk": {
                "freeBytes": room.map(|room| room.bytes),
                "reserveBytes": reserve_bytes,
                "storeBytes": store.file_bytes(),
            },
            "store": {
                "operations": stats.operations.load(Ordering::Relaxed),
                "commits": stats.commits.load(Ordering::Relaxed),
            },
            "feeds": feeds.collect::<Vec<_>>(),
        });
        for (name, value) in
            features::ALL.iter().filter_map(|feature| feature.look).flat_map(|of| of(&services))
        {
            look[name] = value;
        }
        features::name_orgs(&services, &mut look);
        look
    })
}

/// What is wrong with the box, in words.
fn trouble(services: &Services, watch: &Watch) -> Vec<String> {
    let feeds = consumers(services).into_iter().map(|consumer| watch.feed(consumer.name()).err());
    let parts = [
        services.service::<Health>().describe(),
        services.store().writer().trouble(),
        watch.disk().err(),
        watch.upkeep().err(),
    ];
    feeds.chain(parts).flatten().collect()
}

/// What the kernel did not tell is null.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value as u64) } else { Value::Null }
}
