//! Requests for completions, and what of an answer is read. Endpoints differ in how they are made to answer with JSON of a schema: most
//! take `response_format`, some only tools; the arguments of a tool come as text or as an object, and content as text or in parts.

use super::Question;
use serde::Deserialize;
use serde_json::{Value, json};

/// How an endpoint is made to answer with JSON of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// `response_format` with the schema.
    Format,
    /// One tool, whose arguments are of the schema.
    Tool,
}

impl Way {
    pub(super) fn other(self) -> Way {
        match self {
            Way::Format => Way::Tool,
            Way::Tool => Way::Format,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Format => "response_format",
            Way::Tool => "tool",
        }
    }
}

/// What an answer has to be.
pub struct Shape {
    /// Letters, digits and `_`.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// An object's JSON schema.
    pub schema: Value,
}

/// One message of those that a model is asked with.
pub fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

/// The schema of an object that has exactly these members.
pub fn object(properties: Value) -> Value {
    let required: Vec<String> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The body of a request.
pub(super) fn request(way: Way, model: &str, question: &Question<'_>) -> Value {
    let Question { messages, shape, tokens_max } = question;
    let mut body = json!({
        "model": model, "messages": messages, "temperature": 0, "max_tokens": tokens_max, "stream": false,
    });
    match way {
        Way::Format => {
            body["response_format"] = json!({
                "type": "json_schema",
                "json_schema": { "name": shape.name, "strict": true, "schema": shape.schema },
            });
        }
        Way::Tool => {
            body["tools"] = json!([{
                "type": "function",
                "function": { "name": shape.name, "description": shape.about, "parameters": shape.schema },
            }]);
            // Not by its name: there is only one, and not every server knows more than this word.
            body["tool_choice"] = json!("required");
        }
    }
    body
}

/// What a model said.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) text: String,
    /// The way that it was made to say JSON; none where it has talked instead.
    pub(super) way: Option<Way>,
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    function: Call,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    arguments: Value,
}

/// What a completion says: the arguments of its first call, else its content.
pub(super) fn said(body: &[u8]) -> Option<Said> {
    let completion: Completion = serde_json::from_slice(body).ok()?;
    let message = completion.choices.into_iter().next()?.message;
    let call = message.tool_calls.and_then(|calls| calls.into_iter().next());
    if let Some(call) = call {
        let text = match call.function.arguments {
            Value::String(text) => text,
            arguments => arguments.to_string(),
        };
        let way = is_object(&text).then_some(Way::Tool);
        return Some(Said { text, way });
    }
    let text = match message.content {
        Value::String(text) => text,
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().concat()
        }
        _ => return None,
    };
    let text = unfenced(text);
    let way = is_object(&text).then_some(Way::Format);
    Some(Said { text, way })
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object())
}

/// JSON as chats write it has a fence around it.
fn unfenced(text: String) -> String {
    let inner = text.trim().strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner {
        Some(inner) => inner.strip_prefix("json").unwrap_or(inner).trim().to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: Value) -> Option<Said> {
        said(json!({ "choices": [{ "message": message }] }).to_string().as_bytes())
    }

    #[test]
    fn answers_of_every_server_are_taken_for_what_they_are() {
        let format = |text: &str| Some(Said { text: text.to_owned(), way: Some(Way::Format) });
        let tool = |text: &str| Some(Said { text: text.to_owned(), way: Some(Way::Tool) });
        let call = |arguments: Value| {
            json!({ "content": null, "tool_calls": [{ "id": "1", "type": "function",
            "function": { "name": "x", "arguments": arguments } }] })
        };
        assert_eq!(of(json!({ "role": "assistant", "content": "{\"a\":1}" })), format("{\"a\":1}"));
        assert_eq!(of(json!({ "content": [{ "type": "text", "text": "{}" }] })), format("{}"));
        assert_eq!(of(json!({ "content": "```json\n{}\n```", "tool_calls": null })), format("{}"));
        assert_eq!(of(call(json!("{\"a\":1}"))), tool("{\"a\":1}"));
        assert_eq!(of(call(json!({ "a": 1 }))), tool("{\"a\":1}"));
        for talk in [json!({ "content": "Sure!" }), json!({ "content": "[1]" }), call(json!("no"))] {
            assert_eq!(of(talk).and_then(|said| said.way), None);
        }
        for none in [json!({}), json!({ "content": null }), json!({ "content": 5 })] {
            assert_eq!(of(none), None);
        }
        assert!(said(b"{}").is_none() && said(b"\xff").is_none() && said(b"{\"choices\":[]}").is_none());
        assert!(said("[".repeat(100_000).as_bytes()).is_none());
    }

    #[test]
    fn a_request_asks_in_one_way_only() {
        let shape = Shape { name: "ready", about: "x", schema: object(json!({ "a": { "type": "string" } })) };
        let question = Question { messages: &[message("user", "q")], shape: &shape, tokens_max: 9 };
        let body = request(Way::Format, "small", &question);
        assert_eq!(body["response_format"]["json_schema"]["schema"]["required"], json!(["a"]));
        assert!(body.get("tools").is_none());
        let body = request(Way::Tool, "small", &question);
        assert_eq!(body["tools"][0]["function"]["parameters"]["additionalProperties"], json!(false));
        assert!(body.get("response_format").is_none());
    }
}
