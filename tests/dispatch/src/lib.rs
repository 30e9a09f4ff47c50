//! What the tests of the dispatch crate (`tests/dispatch/it`), of a box at work (`tests/it/graphs.rs`) and
//! `benches/dispatch.rs` share: random drawings, a second reading of the rules, and worlds whose providers change.
//!
//! It sees of the dispatch crate what everybody sees.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use base::ids::ProviderId;
use uuid::Uuid;

pub mod generate;
pub mod reference;
pub mod simulate;

/// The provider of this number.
pub fn provider(n: u8) -> ProviderId {
    ProviderId(Uuid::from_bytes([n; 16]))
}
