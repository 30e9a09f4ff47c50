//! What leaves the box by itself, as far as it is bytes in memory: which events an output lets through, how a webhook is
//! signed, and when a delivery is tried again.
//!
//! - [`condition`]: the small language in which an output says which values it is about;
//! - [`webhook`]: signatures as the Standard Webhooks specification (1.0.0) has them;
//! - [`message`]: what a webhook says of an event;
//! - [`told`]: what a message tells people; [`chat`], [`feed`] and [`letter`] show it in chats, feeds and mails;
//! - [`retry`]: what an endpoint's answer means, and when the next try is.
//!
//! Nothing here waits, reads a clock or draws random numbers: callers hand over the time and the dice.

pub mod chat;
pub mod condition;
pub mod feed;
pub mod letter;
mod markup;
pub mod message;
pub mod retry;
pub mod told;
pub mod webhook;

pub use condition::{Answer, Change, Condition, Facts, Fault};
pub use told::Told;
