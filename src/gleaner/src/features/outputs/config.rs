//! The section `outputs`. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Section};
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputsConfig {
    pub retention_days: u32,
    pub deliveries_per_org: u64,
    pub folder: PathBuf,
    pub folder_mb_per_org: u64,
    pub letters_per_hour: u32,
}

impl Section for OutputsConfig {
    const NAME: &'static str = "outputs";
    const BOUNDS: Bounds = &[
        ("retention_days", 1..=90),
        ("deliveries_per_org", 1_000..=10_000_000),
        ("folder_mb_per_org", 1..=10_000_000),
        ("letters_per_hour", 1..=100_000),
    ];
}
