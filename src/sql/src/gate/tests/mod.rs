//! What the tests of the gate and of the rules share.

pub(crate) mod world;
