//! Hostile SQL statements, and what a box does while they are sent to it: for the tests (`tests/it/sql/corpus.rs`) and for
//! `cargo bench --bench hostile`.

mod attack;
mod statements;

pub use attack::{Figures, attack};
