//! What the tests of the gate's files share.

pub(super) mod world;
