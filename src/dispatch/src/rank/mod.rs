//! Learning which provider to ask first.
//!
//! Pure: attempts go in, orders come out; who keeps the numbers and when is the optimization worker's.
//! - [`board`]: discounted sums for each provider at each domain and overall, and the notice of sudden change;
//! - [`estimate`]: rates shrunk from the domain towards the whole, with an interval, and the score of a strategy;
//! - [`plan`]: orders with hysteresis, and a bounded share of jobs that find out about the others.
//!
//! `benches/dispatch.rs` measures what it loses against an oracle in a world whose providers change.

pub mod board;
pub mod estimate;
pub mod plan;
#[cfg(test)]
mod tests;

pub use board::{Arm, Board, Sample};
pub use estimate::{Estimate, Strategy};
pub use plan::{DomainBoard, Evidence, Plan};
