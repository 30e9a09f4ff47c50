//! The section `schedules`. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Section};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulesConfig {
    pub max_urls_per_run: usize,
}

impl Section for SchedulesConfig {
    const NAME: &'static str = "schedules";
    // The ids of a run's URLs are one stored value.
    const BOUNDS: Bounds = &[("max_urls_per_run", 1..=50_000)];
}
