//! What is sent: an event as JSON, with the values of its result where they have room.

use crate::features::events::{EventV1, sort_of};
use crate::features::extraction::ResultV4;
use base::clock::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Bytes of a message: receivers take 20 KB.
pub(super) const BODY_BYTES_MAX: usize = 20_000;
/// Bytes that the number of a message takes at most, with its name.
const SEQUENCE_BYTES: usize = 34;

/// A message but for its number, which it has when it is stored.
#[derive(Clone, Debug)]
pub(super) struct Unnumbered(String);

impl Unnumbered {
    /// The message as it is sent, the same at every try.
    pub fn numbered(&self, sequence: u64) -> String {
        format!("{{\"sequence\":{sequence},{}", &self.0[1..])
    }
}

/// Makes a message shorter.
type Shorten<'s> = dyn Fn(&mut Map<String, Value>) + 's;

/// The message of an event. `base` is the box's address without a slash at the end.
pub(super) fn of_event(base: &str, event: &EventV1, result: Option<&ResultV4>) -> Unnumbered {
    let sort = sort_of(&event.kind);
    let mut message = Map::new();
    message.insert("type".to_owned(), event.kind.clone().into());
    message.insert("timestamp".to_owned(), event.at.to_string().into());
    message.insert("eventId".to_owned(), Uuid::from(event.id).to_string().into());
    message.insert("seq".to_owned(), event.seq.into());
    message.insert("subject".to_owned(), json!({ "type": sort, "id": event.subject.to_string() }));
    message.insert("domain".to_owned(), event.domain.clone().into());
    message.insert("tags".to_owned(), event.tags.clone().into());
    message.insert("link".to_owned(), link(base, sort, event).into());
    message.insert("data".to_owned(), event.data.0.clone());
    let values = result.map(|result| result.values.0.clone());
    // What has no room is left out, the largest first; the link leads to it.
    let short: [&Shorten<'_>; 3] = [
        &|message| {
            if let (Some(values), Some(data)) = (&values, message["data"].as_object_mut()) {
                data.insert("values".to_owned(), values.clone());
            }
        },
        &|message| {
            message.insert("truncated".to_owned(), true.into());
        },
        &|message| {
            message.insert("truncated".to_owned(), true.into());
            message.insert("data".to_owned(), json!({}));
            message.insert("tags".to_owned(), json!([]));
        },
    ];
    let mut text = String::new();
    for shorten in short {
        let mut tried = message.clone();
        shorten(&mut tried);
        text = Value::Object(tried).to_string();
        if text.len() + SEQUENCE_BYTES <= BODY_BYTES_MAX {
            break;
        }
    }
    Unnumbered(text)
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

/// Where all of it is.
fn link(base: &str, sort: &str, event: &EventV1) -> String {
    let id = event.subject;
    match sort {
        "job" => format!("{base}/api/v1/jobs/{id}"),
        "result" => format!("{base}/api/v1/extraction/results/by-id/{id}"),
        "schedule" => format!("{base}/api/v1/schedules/{id}"),
        "input" => format!("{base}/api/v1/inputs/{id}"),
        "output" => format!("{base}/api/v1/outputs/{id}"),
        _ => format!("{base}/api/v1/events?subject={id}&after={}", event.seq.saturating_sub(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec::Json;
    use base::ids::EventId;

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
