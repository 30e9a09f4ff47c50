pub mod base;
pub mod store;
