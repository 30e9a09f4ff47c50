//! What the tests (`tests/page/html`) and the fuzzers (`tests/fuzz`) of the page crate share: random pages, another
//! parser's trees to hold ours against, and a clock that a busy machine does not disturb.
//!
//! A crate of its own beside the page crate, so that both are built without the rest of Gleaner.

pub mod clock;
pub mod notation;
pub mod oracle;
pub mod soup;
