//! Pages as values: HTML as browsers read it ([`html`]), XPath over it ([`xpath`]), JSONPath over the JSON that pages carry
//! ([`jsonpath`]), and typed values out of both ([`extract`]).
//!
//! Work on bytes in memory: no runtime, no store, no network, and nothing of the rest of the box. An error is in words a
//! customer may read; the slices turn it into the API's.

pub mod extract;
pub mod html;
pub mod jsonpath;
pub mod xpath;
