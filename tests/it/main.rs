//! The one integration binary: the real server on port 0 with a temporary folder, and real pages on loopback.

mod harness;
mod tidy;
