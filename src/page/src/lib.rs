//! Pages as values: HTML as browsers read it ([`html`]), XPath over it ([`xpath`]), and typed values out of it
//! ([`extract`]).
//!
//! Work on bytes in memory: no runtime, no store, no network, and nothing of the rest of the box. An error is in words a
//! customer may read; the slices turn it into the API's.

pub mod extract;
pub mod html;
pub mod xpath;
