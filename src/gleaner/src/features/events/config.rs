//! The section `events`. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Section};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsConfig {
    pub retention_days: u32,
    pub rows_per_org: u64,
    pub streams_per_org: usize,
    pub streams: usize,
}

impl Section for EventsConfig {
    const NAME: &'static str = "events";
    const BOUNDS: Bounds = &[
        ("retention_days", 1..=90),
        ("rows_per_org", 1_000..=100_000_000),
        ("streams_per_org", 1..=100_000),
        ("streams", 1..=100_000),
    ];
}
