//! The section `auth`: who may register, and how much of it at once. The meaning of each key stands in `appliance.toml`.

use super::Registration;
use crate::config::{Bounds, Section};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    pub registration: Registration,
    pub invites_per_day: u32,
    pub registrations_per_hour: u32,
}

impl Section for AuthConfig {
    const NAME: &'static str = "auth";
    const BOUNDS: Bounds = &[("invites_per_day", 1..=1_000_000), ("registrations_per_hour", 1..=1_000_000)];
}
