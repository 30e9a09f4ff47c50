//! What a crawl makes of a page, from bytes in memory: its links and which part of the page they stand in ([`links`], with
//! regions as XPath or as CSS selectors, [`css`]), which addresses are one page ([`spelling`]), and what is a trap
//! ([`shape`]). No I/O: who asks for pages and keeps what was found is the box's.

pub mod css;
pub mod links;
pub mod shape;
pub mod spelling;
