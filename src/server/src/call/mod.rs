//! One request on its way: what it carries, and what of the box is within its reach.

pub(crate) mod access;
pub(crate) mod known;
pub(crate) mod readiness;
pub(crate) mod request;
pub(crate) mod room;
pub(crate) mod state;
pub(crate) mod turns;
