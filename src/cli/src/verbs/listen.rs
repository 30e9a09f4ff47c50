//! What an output would send, sent to a program on this machine: for whoever writes a receiver of webhooks.
//!
//! The log of events is followed and the output's own filter asked, with the same code that the box asks it with; so it
//! works for an output that is switched off, and for a box that cannot reach the receiver.

use super::events::{Follow, joined};
use crate::commands::OutputsCommand;
use crate::failure::{Exit, Failure, Outcome};
use crate::http::{Payload, Remote, escaped, with_query};
use crate::output::{Sink, say, visible};
use crate::session::{Session, read_text};
use base::web::WebUrl;
use bytes::Bytes;
use http::Method;
use jiff::Timestamp;
use outputs::message::{self, Happened, OfResult};
use outputs::webhook::{ID_HEADER, Key, SIGNATURE_HEADER, TIMESTAMP_HEADER, signature};
use outputs::{Answer, Condition, Facts};
use serde_json::{Map, Value, json};
use std::time::Duration;

const SECRET_BYTES_MAX: u64 = 1 << 10;
/// How long a receiver may take, as with the box.
const RECEIVER_TIME: Duration = Duration::from_secs(15);

/// An output's filter, as far as the box's stream of events does not filter already.
struct Filter {
    page_types: Vec<String>,
    condition: Option<Condition>,
}

/// The receiver.
struct Receiver {
    remote: Remote,
    path: String,
    keys: Vec<Key>,
}

pub async fn listen(session: &Session, given: OutputsCommand) -> Outcome<()> {
    let OutputsCommand::Listen { id, forward_to, secret_file, after, count, timeout } = given else {
        return Ok(());
    };
    let receiver = Receiver {
        keys: secret(secret_file.as_deref()).await?.into_iter().collect(),
        ..Receiver::of(&forward_to)?
    };
    let output = session.remote.get(&format!("/api/v1/outputs/{}", escaped(&id))).await?;
    let filter = Filter::of(&output)?;
    let mut follow = Follow::new(session, path_of(&output, after), timeout);
    say(&format!(
        "gleaner: messages of {} go to {forward_to}",
        visible(output["name"].as_str().unwrap_or(&id))
    ));
    let mut sink = Sink::open(None)?;
    let (mut sequence, mut refused) = (0, 0);
    while count.is_none_or(|count| sequence < count) {
        let event = follow.next().await?;
        let result = result_of(session, &event).await?;
        if !filter.lets_through(&event, result.as_ref())? {
            continue;
        }
        sequence += 1;
        let body = body(session.remote.place(), &event, result.as_ref(), sequence)?;
        let told = receiver.send(&event, &body).await;
        refused += u64::from(told.is_err());
        tell(session, &mut sink, &event, &told)?;
    }
    sink.end()?;
    match refused {
        0 => Ok(()),
        refused => Err(Failure::failed(format!("{refused} of {sequence} messages were not taken"))),
    }
}

/// The key of a file, else of the environment, so that it stands in no list of processes.
async fn secret(file: Option<&std::path::Path>) -> Outcome<Option<Key>> {
    let (what, text) = match file {
        Some(file) => ("--secret-file", read_text("--secret-file", file, SECRET_BYTES_MAX).await?),
        None => match std::env::var("GLEANER_WEBHOOK_SECRET") {
            Ok(text) => ("GLEANER_WEBHOOK_SECRET", text),
            Err(_) => return Ok(None),
        },
    };
    Key::parse_secret(&text).map(Some).map_err(|e| Failure::usage(what, e))
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// The stream of what may be an output's: its kinds, its tags and its domain.
fn path_of(output: &Value, after: Option<u64>) -> String {
    let mut query = vec![
        ("kind", joined(&texts(&output["events"]))),
        ("domain", output["domain"].as_str().map(str::to_owned)),
        ("after", after.map(|after| after.to_string())),
    ];
    query.extend(texts(&output["tags"]).into_iter().map(|tag| ("tag", Some(tag))));
    with_query("/api/v1/events", &query)
}

/// Hands an event over as a message needs it.
fn with_happened<T>(event: &Value, then: impl FnOnce(&Happened<'_>) -> T) -> Outcome<T> {
    let text = |place: &str| event.pointer(place).and_then(Value::as_str);
    let (Some(kind), Some(at), Some(id), Some(sort), Some(subject), Some(seq)) = (
        text("/kind"),
        text("/at"),
        text("/id"),
        text("/subject/type"),
        text("/subject/id"),
        event["seq"].as_u64(),
    ) else {
        return Err(Failure::failed("the stream has something in it that is no event"));
    };
    let tags = texts(&event["tags"]);
    let data = &event["data"];
    Ok(then(&Happened { kind, at, id, seq, sort, subject, domain: text("/domain"), tags: &tags, data }))
}

/// The result that an event is of, if there is one and it is still there.
async fn result_of(session: &Session, event: &Value) -> Outcome<Option<Value>> {
    let id = match event["subject"]["type"].as_str() {
        Some("result") => event["subject"]["id"].as_str(),
        _ => event["data"]["resultId"].as_str(),
    };
    let Some(id) = id else { return Ok(None) };
    match session.remote.get(&format!("/api/v1/extraction/results/by-id/{}", escaped(id))).await {
        Err(failure) if failure.exit() == Exit::NotFound => Ok(None),
        found => found.map(Some),
    }
}

impl Filter {
    fn of(output: &Value) -> Outcome<Filter> {
        let condition = output["condition"].as_str().map(Condition::parse).transpose();
        let condition = condition.map_err(|_| Failure::failed("the output's condition is not understood"))?;
        Ok(Filter { page_types: texts(&output["pageTypes"]), condition })
    }

    fn lets_through(&self, event: &Value, result: Option<&Value>) -> Outcome<bool> {
        let page_type = result.and_then(|result| result["pageType"].as_str());
        if !self.page_types.is_empty()
            && !self.page_types.iter().any(|known| page_type == Some(known.as_str()))
        {
            return Ok(false);
        }
        let Some(condition) = &self.condition else { return Ok(true) };
        let changed = result.map(|result| texts(&result["changed"])).unwrap_or_default();
        let of = result.map(|result| OfResult {
            url: result["url"].as_str().unwrap_or_default(),
            page_type,
            changed: &changed,
        });
        let none = Map::new();
        let values = result.and_then(|result| result["values"].as_object()).unwrap_or(&none);
        with_happened(event, |happened| {
            let facts = Facts {
                values,
                event: &message::said_of(happened, of),
                changes: &message::changes(happened, of),
                has_previous: happened.kind == "result.changed",
            };
            condition.ask(&facts) == Answer::Yes
        })
    }
}

fn body(place: &str, event: &Value, result: Option<&Value>, sequence: u64) -> Outcome<String> {
    let values = result.map(|result| &result["values"]);
    with_happened(event, |happened| message::numbered(&message::of_event(place, happened, values), sequence))
}

impl Receiver {
    fn of(address: &str) -> Outcome<Receiver> {
        let url = WebUrl::parse(address)
            .map_err(|e| Failure::usage("--forward-to", format!("\"{address}\" is no address: {e}")))?;
        let remote = Remote::new(url.origin(), None, None)?;
        Ok(Receiver { remote, path: url.path_and_query().to_owned(), keys: Vec::new() })
    }

    /// Sends a message; gives the status of an answer that takes it, else why it was not taken.
    async fn send(&self, event: &Value, body: &str) -> Result<u16, String> {
        let id = format!("msg_{}", event["id"].as_str().unwrap_or_default().replace('-', ""));
        let now = Timestamp::now().as_second();
        let mut headers =
            vec![("accept", "*/*".to_owned()), (ID_HEADER, id.clone()), (TIMESTAMP_HEADER, now.to_string())];
        if !self.keys.is_empty() {
            headers.push((SIGNATURE_HEADER, signature(&id, now, body.as_bytes(), &self.keys)));
        }
        let payload = Payload::Bytes("application/json", Bytes::copy_from_slice(body.as_bytes()));
        let sent = async {
            let answer = self.remote.send(Method::POST, &self.path, &headers, payload).await?;
            let status = answer.status;
            // So that the connection can be used again.
            answer.bytes().await?;
            Ok::<_, Failure>(status)
        };
        let answered = tokio::time::timeout(RECEIVER_TIME, sent).await;
        let answered =
            answered.map_err(|_| format!("did not answer within {} s", RECEIVER_TIME.as_secs()))?;
        match answered.map_err(|failure| failure.to_string())? {
            status if status.is_success() => Ok(status.as_u16()),
            status => Err(format!("answered {}", status.as_u16())),
        }
    }
}

fn tell(session: &Session, sink: &mut Sink, event: &Value, told: &Result<u16, String>) -> Outcome<()> {
    let line = match session.json {
        true => json!({
            "seq": event["seq"], "kind": event["kind"], "status": told.as_ref().ok(), "error": told.as_ref().err(),
        })
        .to_string(),
        false => {
            let answer = told.as_ref().map_or_else(Clone::clone, u16::to_string);
            format!("{}  {}  {}", event["seq"], visible(event["kind"].as_str().unwrap_or_default()), visible(&answer))
        }
    };
    sink.line(&line)?;
    sink.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_asked_for_what_may_be_the_outputs() {
        let output =
            json!({ "events": ["job.*", "result.new"], "tags": ["a", "b c"], "domain": "shop.example" });
        assert_eq!(
            path_of(&output, Some(0)),
            "/api/v1/events?kind=job.%2A%2Cresult.new&domain=shop.example&after=0&tag=a&tag=b%20c"
        );
    }

    #[test]
    fn the_outputs_own_filter_is_asked() {
        let event = json!({
            "id": "0-1", "seq": 9, "at": "2026-01-01T00:00:00Z", "kind": "result.new", "domain": "shop.example",
            "subject": { "type": "result", "id": "r" }, "tags": [], "data": {},
        });
        let result =
            json!({ "url": "https://a/", "pageType": "product", "changed": [], "values": { "price": 90 } });
        let asks = |output: Value, result: Option<&Value>| {
            Filter::of(&output).unwrap().lets_through(&event, result).unwrap()
        };
        assert!(asks(json!({ "pageTypes": [] }), None));
        assert!(asks(json!({ "pageTypes": ["product"], "condition": "price < 100" }), Some(&result)));
        assert!(!asks(json!({ "condition": "price < 10" }), Some(&result)));
        assert!(!asks(json!({ "pageTypes": ["article"] }), Some(&result)));
        assert!(!asks(json!({ "pageTypes": ["product"] }), None));
        let sent: Value =
            serde_json::from_str(&body("https://box", &event, Some(&result), 1).unwrap()).unwrap();
        assert_eq!((&sent["sequence"], &sent["data"]["values"]["price"]), (&json!(1), &json!(90)));
        assert!(body("https://box", &json!({}), None, 1).is_err());
    }

    #[test]
    fn what_is_no_receiver_is_wrong_usage() {
        assert_eq!(Receiver::of("localhost:3000").err().unwrap().exit(), Exit::Usage);
        assert_eq!(Receiver::of("http://127.0.0.1:3000/a?b=c").unwrap().path, "/a?b=c");
    }
}
