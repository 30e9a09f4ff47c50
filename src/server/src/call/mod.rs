//! One request on its way: what it carries, and what of the box is within its reach.

pub(crate) mod access;
pub(crate) mod body_budget;
pub(crate) mod description;
pub(crate) mod inner;
pub(crate) mod known_fields;
pub(crate) mod readiness;
pub(crate) mod request;
pub(crate) mod scheduler;
pub(crate) mod session;
pub(crate) mod state;
