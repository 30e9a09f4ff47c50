//! The one integration binary: the real server on port 0 with a temporary folder, and real pages on loopback.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod harness;
mod html;
mod http;
mod sql;
mod tidy;
