//! The sections `network`, `dispatch`, `providers` and `browser`: how pages are fetched. The meaning of each key stands in
//! `appliance.toml`.

use crate::config::{Bounds, Config, Section, paths};
use base::{Error, Result};
use fetch::browser::launch::is_executable;
use fetch::{AllowRule, Templates};
use serde::Deserialize;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    pub allow: Vec<AllowRule>,
    pub resolving_proxies: Vec<AllowRule>,
    pub hosts: HashMap<String, Vec<IpAddr>>,
    pub contact: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DispatchConfig {
    pub concurrency: usize,
    pub per_domain_concurrency: u32,
    pub min_delay_ms: u64,
    pub pause_max_sec: u64,
    pub robots: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvidersConfig {
    #[serde(deserialize_with = "paths::absolute")]
    pub dir: PathBuf,
    pub lower_prices: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrowserConfig {
    #[serde(deserialize_with = "paths::program")]
    pub executable: PathBuf,
    pub sandbox: bool,
    pub pages: usize,
    pub memory_mb: u64,
}

impl Section for NetworkConfig {
    const NAME: &'static str = "network";
}

impl Section for DispatchConfig {
    const NAME: &'static str = "dispatch";
    const BOUNDS: Bounds = &[
        ("concurrency", 1..=10_000),
        ("per_domain_concurrency", 1..=1_000),
        ("min_delay_ms", 0..=3_600_000),
        ("pause_max_sec", 1..=86_400),
    ];
}

impl Section for ProvidersConfig {
    const NAME: &'static str = "providers";

    fn check_files(&self) -> Result<()> {
        self.templates().map(drop)
    }
}

impl ProvidersConfig {
    /// The hosted providers' templates. A wrong one keeps the box from starting: it would fail every job, one by one.
    pub(super) fn templates(&self) -> Result<Templates> {
        let folder = Some(self.dir.as_path()).filter(|folder| !folder.as_os_str().is_empty());
        Templates::load(folder).map_err(|e| Error::invalid("providers.dir", e))
    }
}

impl Section for BrowserConfig {
    const NAME: &'static str = "browser";
    const BOUNDS: Bounds = &[("pages", 0..=1_000), ("memory_mb", 256..=1 << 20)];

    fn check(&self, _: &Config) -> Result<()> {
        if !self.executable.as_os_str().is_empty() && !is_executable(&self.executable) {
            let reason = format!("{} is no program that can be run", self.executable.display());
            return Err(Error::invalid("browser.executable", reason));
        }
        Ok(())
    }
}
