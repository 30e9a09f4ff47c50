//! What a webhook says of an event, and what an output's condition is asked about: the same for the box and for the command
//! line, which shows receivers on a developer's machine what the box would send.

use crate::condition::Change;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Bytes of a message: receivers take 20 KB.
pub const BODY_BYTES_MAX: usize = 20_000;
/// Bytes that the number of a message takes at most, with its name.
const SEQUENCE_BYTES: usize = 34;

/// An event, in the words of the API.
#[derive(Clone, Copy, Debug)]
pub struct Happened<'e> {
    pub kind: &'e str,
    /// When, as the API writes it.
    pub at: &'e str,
    pub id: &'e str,
    pub seq: u64,
    /// What it happened to: `job`, and its id.
    pub sort: &'e str,
    pub subject: &'e str,
    pub domain: Option<&'e str>,
    pub tags: &'e [String],
    pub data: &'e Value,
}

/// The result that an event is of.
#[derive(Clone, Copy, Debug)]
pub struct OfResult<'e> {
    pub url: &'e str,
    pub page_type: Option<&'e str>,
    /// Names of the values that are others than the time before.
    pub changed: &'e [String],
}

/// Makes a message shorter.
type Shorten<'s> = dyn Fn(&mut Map<String, Value>) + 's;

/// The message of an event but for its number, with the values of its result where they have room. `base` is the box's
/// address without a slash at the end.
pub fn of_event(base: &str, event: &Happened<'_>, values: Option<&Value>) -> String {
    let mut message = Map::new();
    message.insert("type".to_owned(), event.kind.into());
    message.insert("timestamp".to_owned(), event.at.into());
    message.insert("eventId".to_owned(), event.id.into());
    message.insert("seq".to_owned(), event.seq.into());
    message.insert("subject".to_owned(), json!({ "type": event.sort, "id": event.subject }));
    message.insert("domain".to_owned(), event.domain.into());
    message.insert("tags".to_owned(), event.tags.into());
    message.insert("link".to_owned(), link(base, event).into());
    message.insert("data".to_owned(), event.data.clone());
    // What has no room is left out, the largest first; the link leads to it.
    let short: [&Shorten<'_>; 3] = [
        &|message| {
            if let (Some(values), Some(data)) = (values, message["data"].as_object_mut()) {
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
    text
}

/// A message as it is sent, the same at every try; `message` is an object that is not empty.
pub fn numbered(message: &str, sequence: u64) -> String {
    format!("{{\"sequence\":{sequence},{}", &message[1..])
}

/// Where all of it is.
fn link(base: &str, event: &Happened<'_>) -> String {
    let id = event.subject;
    match event.sort {
        "job" => format!("{base}/api/v1/jobs/{id}"),
        "result" => format!("{base}/api/v1/extraction/results/by-id/{id}"),
        "schedule" => format!("{base}/api/v1/schedules/{id}"),
        "input" => format!("{base}/api/v1/inputs/{id}"),
        "output" => format!("{base}/api/v1/outputs/{id}"),
        _ => format!("{base}/api/v1/events?subject={id}&after={}", event.seq.saturating_sub(1)),
    }
}

/// What names with a `$` mean in a condition: what the event's data say, and what it is.
pub fn said_of(event: &Happened<'_>, result: Option<OfResult<'_>>) -> Map<String, Value> {
    let mut said = event.data.as_object().cloned().unwrap_or_default();
    said.remove("changes");
    said.insert("kind".to_owned(), event.kind.into());
    said.insert("domain".to_owned(), event.domain.into());
    said.insert("tags".to_owned(), event.tags.into());
    if let Some(result) = result {
        said.insert("url".to_owned(), result.url.into());
        said.insert("pageType".to_owned(), result.page_type.into());
    }
    said
}

/// What an event says of changes; of those that had no room in it, that they are.
pub fn changes(event: &Happened<'_>, result: Option<OfResult<'_>>) -> Vec<Change> {
    let Some(told) = event.data["changes"].as_array() else { return Vec::new() };
    let change = |told: &Value| {
        Some(Change {
            name: told["name"].as_str()?.to_owned(),
            from: told.get("from").cloned(),
            to: told.get("to").cloned(),
        })
    };
    let mut changes: Vec<_> = told.iter().filter_map(change).collect();
    let known: BTreeSet<_> = changes.iter().map(|change| change.name.clone()).collect();
    let changed = result.map_or(&[][..], |result| result.changed);
    let more = changed.iter().filter(|name| !known.contains(*name));
    changes.extend(more.map(|name| Change { name: name.clone(), from: None, to: None }));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event<'e>(data: &'e Value, tags: &'e [String]) -> Happened<'e> {
        Happened {
            kind: "result.new",
            at: "2023-11-14T22:13:20Z",
            id: "e",
            seq: 7,
            sort: "result",
            subject: "s",
            domain: Some("shop.example"),
            tags,
            data,
        }
    }

    #[test]
    fn a_message_is_small_whatever_happened() {
        let data = json!({ "url": "https://a/" });
        let small = numbered(&of_event("https://box", &event(&data, &[]), Some(&json!({ "price": 1 }))), 3);
        let small: Value = serde_json::from_str(&small).unwrap();
        assert_eq!(
            (&small["sequence"], &small["seq"], &small["data"]["url"], &small["data"]["values"]["price"]),
            (&json!(3), &json!(7), &json!("https://a/"), &json!(1))
        );
        assert_eq!(small["link"], "https://box/api/v1/extraction/results/by-id/s");
        assert!(small.get("truncated").is_none());
        let tags = vec!["😀".repeat(64); 32];
        for (data, tags) in [
            (json!({ "text": "x".repeat(16 << 10) }), &tags[..]),
            (json!({ "text": "\u{1}".repeat(16 << 10) }), &[]),
            (json!({}), &tags[..]),
        ] {
            let values = json!({ "all": "x".repeat(30_000) });
            let body = numbered(&of_event("https://box", &event(&data, tags), Some(&values)), u64::MAX);
            assert!(body.len() <= BODY_BYTES_MAX, "{} bytes", body.len());
            let message: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((&message["sequence"], &message["type"]), (&json!(u64::MAX), &json!("result.new")));
        }
    }

    #[test]
    fn changes_without_room_are_known_by_their_names() {
        let data = json!({ "changes": [{ "name": "price", "from": 1, "to": 2 }], "url": "https://a/" });
        let changed = ["price".to_owned(), "text".to_owned()];
        let result = OfResult { url: "https://b/", page_type: Some("product"), changed: &changed };
        let found = changes(&event(&data, &[]), Some(result));
        let names: Vec<_> = found.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["price", "text"]);
        assert!(found[0].to == Some(json!(2)) && found[1].to.is_none());
        let said = said_of(&event(&data, &[]), Some(result));
        assert_eq!((&said["url"], &said["pageType"]), (&json!("https://b/"), &json!("product")));
        assert!(!said.contains_key("changes") && said["kind"] == "result.new");
    }
}
