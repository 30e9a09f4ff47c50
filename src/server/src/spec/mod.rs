//! What a route says of itself, as data: who may call it, where, and what holds below its mount.

pub(crate) mod captures;
pub(crate) mod mount;
pub mod permit;
pub(crate) mod route;
