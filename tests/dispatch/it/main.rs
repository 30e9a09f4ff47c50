//! The dispatch crate against its oracles.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod learning;
mod property;
