//! The section `llm`. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Config, Section};
use base::web::WebUrl;
use base::{Error, Result};
use serde::Deserialize;
use std::fmt;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmConfig {
    pub url: String,
    pub model: String,
    pub key: Key,
    pub timeout_sec: u64,
    pub concurrency: u32,
}

/// What the endpoint knows the box by.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Key(pub String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "***" })
    }
}

impl LlmConfig {
    /// Where completions are asked for; none where no endpoint is set.
    pub fn endpoint(&self) -> Result<Option<WebUrl>> {
        if self.url.is_empty() {
            return Ok(None);
        }
        let url = format!("{}/chat/completions", self.url.trim_end_matches('/'));
        WebUrl::parse(&url).map(Some).map_err(|e| Error::invalid("llm.url", e))
    }
}

impl Section for LlmConfig {
    const NAME: &'static str = "llm";
    const BOUNDS: Bounds = &[("timeout_sec", 1..=600), ("concurrency", 1..=64)];

    fn check(&self, _: &Config) -> Result<()> {
        let is_on = self.endpoint()?.is_some();
        if is_on && self.model.is_empty() {
            return Err(Error::invalid("llm.model", "must be set where there is an endpoint"));
        }
        if self.key.0.chars().any(|c| !c.is_ascii_graphic()) {
            return Err(Error::invalid("llm.key", "must be letters, digits and signs of ASCII"));
        }
        Ok(())
    }
}
