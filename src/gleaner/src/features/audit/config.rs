//! The section `audit`: how long the log is kept. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Section};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    pub retention_days: u32,
}

impl Section for AuditConfig {
    const NAME: &'static str = "audit";
    const BOUNDS: Bounds = &[("retention_days", 0..=36_500)];
}
