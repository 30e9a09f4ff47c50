//! The three shapes in which an error travels. The only file that knows them.
//!
//! - flat, `{ error, message? }`, plus what the error adds beside them (the 402's `plan`): wherever no mount says otherwise,
//!   and every 401 anywhere;
//! - structured, `{ error: { code, message, docs_url, request_id } }`: there for a caller whose `Accept` names [`STRUCTURED`];
//! - a mount's, which is the structured one, always.
//!
//! data/docs/api.md, "Errors", says when each is used.

use crate::wire::body::{Response, ResponseBody};
use base::Error;
use base::ids::RequestId;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The media type that asks for structured errors.
pub const STRUCTURED: &str = "application/vnd.service.v1+json";

/// Bytes of a message.
const MESSAGE_BYTES_MAX: usize = 1_000;

/// Which envelope a request's errors wear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorShape {
    Flat,
    Structured,
    Mounted,
}

/// The envelope where errors are structured always or not, and for what the caller accepts.
pub fn shape(is_structured: bool, headers: &HeaderMap) -> ErrorShape {
    if is_structured {
        return ErrorShape::Mounted;
    }
    let asked = headers
        .get_all(http::header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(accepts_structured);
    if asked { ErrorShape::Structured } else { ErrorShape::Flat }
}

/// Whether one element of `Accept` names the media type and does not refuse it by `q=0` (RFC 9110, 12.4.2).
fn accepts_structured(element: &str) -> bool {
    let mut parts = element.split(';').map(str::trim);
    let named = parts.next().is_some_and(|media| media.eq_ignore_ascii_case(STRUCTURED));
    let refused = |parameter: &str| {
        let weight = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="));
        weight.and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
    };
    named && !parts.any(refused)
}

/// A message without the most of a value that it repeats and that somebody made very long.
fn shortened(message: &str) -> Cow<'_, str> {
    match message.len() {
        0..=MESSAGE_BYTES_MAX => message.into(),
        _ => format!("{}…", &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]).into(),
    }
}

/// The members of an error's body; the structured shapes name the request and the base of the error pages.
fn body(error: &Error, shape: ErrorShape, place: Option<(&RequestId, &str)>) -> Map<String, Value> {
    let detail = error.detail().map(shortened);
    let mut body = Map::new();
    match (shape, place) {
        (ErrorShape::Structured | ErrorShape::Mounted, Some((request_id, docs_base))) => {
            let code = error.code().name();
            let inner = json!({
                "code": code,
                "message": detail.as_deref().unwrap_or(error.sentence()),
                "docs_url": format!("{docs_base}/errors/{code}"),
                "request_id": request_id.as_str(),
            });
            body.insert("error".into(), inner);
        }
        _ => {
            body.insert("error".into(), error.sentence().into());
            if let Some(detail) = detail {
                body.insert("message".into(), detail.into());
            }
        }
    }
    for (name, value) in error.fields() {
        body.insert((*name).into(), value.clone());
    }
    body
}

/// The flat shape as text, for what is refused before there is a request.
pub fn flat(error: &Error) -> String {
    Value::Object(body(error, ErrorShape::Flat, None)).to_string()
}

/// The response for `error`.
pub fn render(error: &Error, shape: ErrorShape, request_id: &RequestId, docs_base: &str) -> Response {
    let shape = if error.status() == 401 { ErrorShape::Flat } else { shape };
    let body = body(error, shape, Some((request_id, docs_base)));
    let mut response = Response::new(ResponseBody::full(Value::Object(body).to_string()));
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let media = if shape == ErrorShape::Structured { STRUCTURED } else { "application/json" };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    if error.status() == 401 {
        // RFC 9110, 11.6.1: a 401 names the scheme it wants.
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    for (name, value) in error.headers() {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_errors_are_asked_for_by_media_type() {
        let ask = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("accept", HeaderValue::from_static(accept));
            shape(false, &headers)
        };
        assert_eq!(ask("application/json"), ErrorShape::Flat);
        assert_eq!(ask("text/html, application/vnd.service.v1+json;q=0.9"), ErrorShape::Structured);
        assert_eq!(ask("Application/Vnd.Service.V1+JSON"), ErrorShape::Structured);
        assert_eq!(ask("application/vnd.service.v1+json; q=0"), ErrorShape::Flat);
        assert_eq!(ask("application/vnd.service.v2+json"), ErrorShape::Flat);
        assert_eq!(shape(true, &HeaderMap::new()), ErrorShape::Mounted);
    }
}
