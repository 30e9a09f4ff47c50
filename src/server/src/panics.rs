//! What a panic said.

use std::any::Any;

/// What a panic said, as the cause of an error.
#[derive(Debug)]
pub(crate) struct PanicText(String);

impl PanicText {
    pub(crate) fn of(payload: &(dyn Any + Send)) -> PanicText {
        PanicText(panic_text(payload).to_owned())
    }
}

impl std::fmt::Display for PanicText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

impl std::error::Error for PanicText {}

/// The text of a panic's payload.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
