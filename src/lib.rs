pub mod base;
pub mod engine;
pub mod features;
pub mod http;
pub mod store;
pub mod task;
