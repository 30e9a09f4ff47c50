//! The section `bi`: how much a statement may take, and what is kept of it. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Section};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BiConfig {
    pub max_query_sec: u64,
    pub concurrency_per_org: usize,
    pub queue_per_org: usize,
    pub concurrency: usize,
    pub memory_mb: u64,
    pub memory_box_mb: u64,
    pub spill_mb: u64,
    pub max_rows: u64,
    pub max_mb: u64,
    pub results_org_mb: u64,
    pub results_box_mb: u64,
    pub results_days: u64,
    pub require_sandbox: bool,
    pub freshness_ms: u64,
    pub slow_ms: u64,
    pub slow_text: bool,
}

impl BiConfig {
    /// The largest result: one that has room among those that are kept.
    pub fn result_bytes_max(&self) -> u64 {
        self.max_mb.min(self.results_org_mb).min(self.results_box_mb) << 20
    }
}

impl Section for BiConfig {
    const NAME: &'static str = "bi";
    const BOUNDS: Bounds = &[
        ("max_query_sec", 1..=86_400),
        ("concurrency_per_org", 1..=1_000),
        ("queue_per_org", 0..=10_000),
        ("concurrency", 0..=1_000),
        ("memory_mb", 64..=1 << 20),
        ("memory_box_mb", 0..=67_108_864),
        ("spill_mb", 0..=1 << 24),
        ("max_rows", 1..=1_000_000_000),
        ("max_mb", 1..=1 << 20),
        ("results_org_mb", 1..=1 << 30),
        ("results_box_mb", 1..=1 << 30),
        ("results_days", 1..=3_650),
        ("freshness_ms", 1..=3_600_000),
        ("slow_ms", 0..=86_400_000),
    ];
}
