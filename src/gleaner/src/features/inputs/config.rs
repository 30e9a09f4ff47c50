//! The section `inputs`. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Section};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputsConfig {
    pub max_documents_per_run: usize,
    pub max_urls_per_run: usize,
    pub max_pages_per_crawl: u32,
}

impl Section for InputsConfig {
    const NAME: &'static str = "inputs";
    // A run remembers sixteen bytes of each URL while it goes on.
    const BOUNDS: Bounds = &[
        ("max_documents_per_run", 1..=100_000),
        ("max_urls_per_run", 1..=10_000_000),
        ("max_pages_per_crawl", 1..=10_000_000),
    ];
}
