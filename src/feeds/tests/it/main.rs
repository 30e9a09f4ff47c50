//! The reader of feeds against documents, another implementation, and harm.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod corpus;
mod facts;
mod hostile;
mod w3c;
