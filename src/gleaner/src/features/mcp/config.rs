//! The section `mcp`. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Section};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    pub hosts: Vec<String>,
    pub origins: Vec<String>,
}

impl Section for McpConfig {
    const NAME: &'static str = "mcp";
    const BOUNDS: Bounds = &[];
}
