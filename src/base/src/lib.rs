//! What everything stands on: ids, errors, codecs, limits, cursors, clocks, permissions.
//!
//! Invariant: nothing here imports another module of the crate, and nothing here does I/O.

pub mod audit;
pub mod clock;
pub mod codec;
pub mod digest;
pub mod error;
pub mod escape;
pub mod health;
pub mod ids;
pub mod labels;
pub mod limits;
pub mod line;
pub mod name;
pub mod network;
pub mod page;
pub mod permission;
pub mod printable;
pub mod similar;
pub mod terms;
pub mod trace;
pub mod web;
pub mod words;

pub use error::{Code, Error, Result};
