//! Requests to the box's own operations, with the key of whoever speaks the protocol.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use server::Context;
use std::fmt;
use url::form_urlencoded;

/// Bytes of an answer of the box's that are read: more than any of those operations gives.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Somebody in whose name the box is asked.
#[derive(Clone)]
pub(super) struct OnBehalf {
    context: Context,
    key: HeaderValue,
}

/// Why there is no answer, in words for a model and for the person before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The status of the box's answer.
    pub status: u16,
    pub told: String,
}

impl Refused {
    /// Something is wrong with what the tool was called with.
    pub fn argument(name: &str, reason: impl fmt::Display) -> Refused {
        Refused { status: 400, told: format!("{name}: {reason}") }
    }

    fn internal(told: &str) -> Refused {
        Refused { status: 503, told: told.to_owned() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

pub(super) type Asked<T = Value> = Result<T, Refused>;

impl OnBehalf {
    /// `key` is what the caller's `Authorization` says.
    pub fn new(context: Context, key: HeaderValue) -> OnBehalf {
        OnBehalf { context, key }
    }

    /// The box's answer to a GET of this path, which begins behind `/api/v1`.
    pub async fn get(&self, path: &str) -> Asked {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// The same with parameters; those without a value are left out.
    pub async fn find(&self, path: &str, parameters: &[(&str, Option<String>)]) -> Asked {
        let given = parameters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
        self.get(&format!("{path}?{query}")).await
    }

    /// The box's answer to a POST.
    pub async fn post(&self, path: &str, body: &Value) -> Asked {
        self.ask(Method::POST, path, Bytes::from(body.to_string())).await
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Asked {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        request = request.header(AUTHORIZATION, &self.key).header(ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(body).map_err(|_| Refused::internal("The request cannot be written."))?;
        let answer = self.context.ask(request).await.map_err(|e| Refused::internal(&e.to_string()))?;
        let (parts, body) = answer.into_parts();
        let bytes = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let bytes = bytes.map_err(|_| Refused::internal("The answer is too large."))?.to_bytes();
        let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        match parts.status.is_success() {
            true => Ok(value),
            false => Err(refusal(parts.status.as_u16(), &value)),
        }
    }
}

/// What an error of the box's says, in either of its shapes.
fn refusal(status: u16, value: &Value) -> Refused {
    let error = &value["error"];
    let told = match (error["code"].as_str(), error["message"].as_str(), error.as_str()) {
        (Some(code), message, _) => format!("{} ({code})", message.unwrap_or("The box refuses.")),
        (None, _, Some(sentence)) => match value["message"].as_str() {
            Some(message) => format!("{sentence}: {message}"),
            None => sentence.to_owned(),
        },
        _ => format!("The box answers {status}."),
    };
    Refused { status, told }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_shapes_of_errors_are_read() {
        let told = |value: Value| refusal(400, &value).told;
        assert_eq!(told(json!({ "error": "Invalid input" })), "Invalid input");
        assert_eq!(told(json!({ "error": "Invalid input", "message": "url: no" })), "Invalid input: url: no");
        let structured = json!({ "error": { "code": "rls_denied", "message": "Not yours." } });
        assert_eq!(told(structured), "Not yours. (rls_denied)");
        assert_eq!(told(Value::Null), "The box answers 400.");
    }
}
