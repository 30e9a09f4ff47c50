//! What a tool answers with when it is not refused.

use serde_json::Value;

/// What a tool gives.
#[derive(Debug)]
pub(super) enum Given {
    /// Data, which goes out as JSON.
    Data(Value),
    /// A text for people and models.
    Text(String),
}
