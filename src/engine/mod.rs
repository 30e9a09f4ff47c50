//! Work that knows no HTTP and no resource: fetching, parsing, extracting, searching, querying, keeping bytes,
//! sending mail.
//!
//! An engine has its own error type, in words a customer may read; the slices turn it into the API's.

pub mod blob;
pub mod dag;
pub mod extract;
pub mod fetch;
pub mod html;
pub mod keyring;
pub mod link;
pub mod mail;
pub mod rank;
pub mod search;
pub mod secret;
pub mod sql;
pub mod tls;
pub mod xpath;
