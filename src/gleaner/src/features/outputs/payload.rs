//! What is sent: an event as JSON, with the values of its result where they have room.

use crate::features::events::{EventV1, sort_of};
use crate::features::extraction::ResultV4;
use base::clock::Timestamp;
use outputs::message::{self, Happened};
use serde_json::json;
use uuid::Uuid;

/// A message but for its number, which it has when it is stored.
#[derive(Clone, Debug)]
pub(super) struct Unnumbered(String);

impl Unnumbered {
    /// How many it has, but for those of its number.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The message as it is sent, the same at every try.
    pub fn numbered(&self, sequence: u64) -> String {
        message::numbered(&self.0, sequence)
    }
}

/// Hands an event over in the words of the API.
pub(super) fn with_happened<T>(event: &EventV1, then: impl FnOnce(&Happened<'_>) -> T) -> T {
    let (at, id) = (event.at.to_string(), Uuid::from(event.id).to_string());
    let subject = event.subject.to_string();
    then(&Happened {
        kind: &event.kind,
        at: &at,
        id: &id,
        seq: event.seq,
        sort: sort_of(&event.kind),
        subject: &subject,
        domain: event.domain.as_deref(),
        tags: &event.tags,
        data: &event.data.0,
    })
}

/// The message of an event. `base` is the box's address without a slash at the end.
pub(super) fn of_event(base: &str, event: &EventV1, result: Option<&ResultV4>) -> Unnumbered {
    let values = result.map(|result| &result.values.0);
    Unnumbered(with_happened(event, |happened| message::of_event(base, happened, values)))
}

/// A message that tells nothing but that messages arrive.
pub(super) fn of_test(now: Timestamp, output: Uuid, name: &str) -> Unnumbered {
    let message = json!({
        "type": "output.test",
        "timestamp": now.to_string(),
        "subject": { "type": "output", "id": output.to_string() },
        "data": { "name": name },
    });
    Unnumbered(message.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec::Json;
    use base::ids::EventId;
    use outputs::message::BODY_BYTES_MAX;
    use serde_json::Value;

    fn event(data: Value, tags: Vec<String>) -> EventV1 {
        EventV1 {
            seq: 7,
            id: EventId::new(),
            kind: "result.new".to_owned(),
            at: Timestamp(1_700_000_000_000),
            subject: Uuid::nil(),
            domain: Some("shop.example".to_owned()),
            tags,
            data: Json(data),
        }
    }

    #[test]
    fn a_message_is_small_whatever_happened() {
        let small =
            of_event("https://box", &event(json!({ "url": "https://a/" }), Vec::new()), None).numbered(3);
        let small: Value = serde_json::from_str(&small).unwrap();
        assert_eq!(
            (&small["sequence"], &small["seq"], &small["data"]["url"]),
            (&json!(3), &json!(7), &json!("https://a/"))
        );
        assert_eq!(
            small["link"],
            "https://box/api/v1/extraction/results/by-id/00000000-0000-0000-0000-000000000000"
        );
        assert!(small.get("truncated").is_none());
        let tags = vec!["😀".repeat(64); 32];
        for (data, tags) in [
            (json!({ "text": "x".repeat(16 << 10) }), tags.clone()),
            (json!({ "text": "\u{1}".repeat(16 << 10) }), Vec::new()),
            (json!({}), tags),
        ] {
            let body = of_event("https://box", &event(data, tags), None).numbered(u64::MAX);
            assert!(body.len() <= BODY_BYTES_MAX, "{} bytes", body.len());
            let message: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((&message["sequence"], &message["type"]), (&json!(u64::MAX), &json!("result.new")));
        }
    }
}
