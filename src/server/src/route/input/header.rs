//! Request headers that handlers read, each a type of its own.
//!
//! There is no input with all of the headers: a handler that reads one takes its type, and the reference then says that the
//! operation has it.

use crate::call::request::Call;
use crate::route::input::Input;
use crate::route::operation::Operation;
use crate::wire::etag::Etag;
use base::{Code, Error, Result};
use http::HeaderMap;
use http::header::{ACCEPT, IF_MATCH};
use serde_json::json;
use uuid::Uuid;

const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// The caller's name for one request, so that it is carried out once however often it is sent. What it stands for, and for
/// how long, is the operation's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(pub Option<Uuid>);

impl IdempotencyKey {
    fn parse(headers: &HeaderMap) -> Result<IdempotencyKey> {
        let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = given.next() else { return Ok(IdempotencyKey(None)) };
        let refused = |message: &str| Error::new(Code::InvalidIdempotencyKey).message(message);
        if given.next().is_some() {
            return Err(refused("Idempotency-Key is given more than once."));
        }
        let text = value.to_str().unwrap_or_default().trim();
        let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
        let key = Uuid::parse_str(text).ok().filter(|_| hyphenated).ok_or_else(|| {
            refused("Idempotency-Key must be a UUID such as 4f9d6a2e-1f57-4c0b-9a55-0d0f6c1f7c21.")
        })?;
        Ok(IdempotencyKey(Some(key)))
    }
}

impl Input for IdempotencyKey {
    async fn extract(call: &mut Call) -> Result<Self> {
        IdempotencyKey::parse(call.headers())
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.header_parameter(
            IDEMPOTENCY_KEY,
            "A UUID of the caller's choice. The same request under it is carried out once; later ones get the first one's \
             answer.",
            json!({ "type": "string", "format": "uuid" }),
        );
        operation.error(Code::InvalidIdempotencyKey);
        operation.error(Code::IdempotencyConflict);
    }
}

/// The media types that the caller takes, as they came and without their parameters. The output that comes in several
/// forms describes it ([`Operation::also_as`]).
#[derive(Debug, Default)]
pub struct Accept(Vec<String>);

impl Accept {
    /// From the header's lines.
    pub fn of(headers: &HeaderMap) -> Accept {
        let lines = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let media = |range: &str| range.split(';').next().unwrap_or_default().trim().to_owned();
        Accept(lines.flat_map(|line| line.split(',')).map(media).collect())
    }

    /// The media types, in the caller's order.
    pub fn media_types(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl Input for Accept {
    async fn extract(call: &mut Call) -> Result<Self> {
        Ok(Accept::of(call.headers()))
    }

    fn describe(_: &mut Operation<'_>) {}
}

/// What a sender says of its message, and signs (Standard Webhooks, "Webhook metadata"). Whether it must be there is the
/// operation's affair.
#[derive(Clone, Debug, Default)]
pub struct WebhookSignature {
    pub id: Option<String>,
    /// Seconds since 1970, as they came.
    pub timestamp: Option<String>,
    pub signature: Option<String>,
}

const WEBHOOK_ID: &str = "webhook-id";
const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// Bytes of a message's id.
const WEBHOOK_ID_BYTES_MAX: usize = 256;

impl WebhookSignature {
    fn of(headers: &HeaderMap) -> Result<WebhookSignature> {
        let one = |name: &'static str| {
            let mut given = headers.get_all(name).iter();
            let Some(value) = given.next() else { return Ok(None) };
            if given.next().is_some() {
                return Err(Error::invalid(name, "is given more than once"));
            }
            let text = value.to_str().map_err(|_| Error::invalid(name, "is not visible ASCII"))?.trim();
            Ok((!text.is_empty()).then(|| text.to_owned()))
        };
        let found = WebhookSignature {
            id: one(WEBHOOK_ID)?,
            timestamp: one(WEBHOOK_TIMESTAMP)?,
            signature: one(WEBHOOK_SIGNATURE)?,
        };
        match &found.id {
            Some(id) if id.len() > WEBHOOK_ID_BYTES_MAX => {
                Err(Error::invalid(WEBHOOK_ID, format!("has more than {WEBHOOK_ID_BYTES_MAX} characters")))
            }
            _ => Ok(found),
        }
    }
}

impl Input for WebhookSignature {
    async fn extract(call: &mut Call) -> Result<Self> {
        WebhookSignature::of(call.headers())
    }

    fn describe(operation: &mut Operation<'_>) {
        let text = || json!({ "type": "string" });
        let about = "The message's own id, the same when it is sent again. What was taken in under it is not taken in again.";
        operation.header_parameter(WEBHOOK_ID, about, text());
        operation.header_parameter(WEBHOOK_TIMESTAMP, "When it was sent, in seconds since 1970.", text());
        operation.header_parameter(
            WEBHOOK_SIGNATURE,
            "`v1,` and the HMAC-SHA256 of the message, in base64.",
            text(),
        );
        operation.error(Code::InvalidInput);
    }
}

/// The condition of a change: only if the caller has seen the present state (RFC 9110, 13.1.1).
#[derive(Debug)]
pub struct IfMatch(Option<String>);

impl IfMatch {
    /// Refuses with 412 when there is a condition and `current` does not meet it.
    pub fn check(&self, current: &Etag) -> Result<()> {
        match &self.0 {
            Some(list) if !current.is_in(list, false) => Err(Error::new(Code::PreconditionFailed)
                .message("It has changed since you read it: read it again and repeat the change.")),
            _ => Ok(()),
        }
    }

    /// Whether the caller set a condition at all.
    pub fn is_given(&self) -> bool {
        self.0.is_some()
    }
}

impl Input for IfMatch {
    async fn extract(call: &mut Call) -> Result<Self> {
        let lines: Vec<_> = call
            .headers()
            .get_all(IF_MATCH)
            .iter()
            .map(|value| {
                value.to_str().map_err(|_| Error::invalid("If-Match", "is not a list of entity tags"))
            })
            .collect::<Result<_>>()?;
        Ok(IfMatch((!lines.is_empty()).then(|| lines.join(","))))
    }

    fn describe(operation: &mut Operation<'_>) {
        let text = json!({ "type": "string" });
        operation.header_parameter(
            "If-Match",
            "Entity tags of the state that the change is meant for.",
            text,
        );
        operation.error(Code::PreconditionFailed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_key_is_one_hyphenated_uuid() {
        const KEY: &str = "4F9D6A2E-1f57-4c0b-9a55-0d0f6c1f7c21";
        let parse = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("idempotency-key", HeaderValue::from_static(value));
            }
            IdempotencyKey::parse(&headers)
        };
        assert_eq!(parse(&[]).unwrap(), IdempotencyKey(None));
        assert_eq!(parse(&[KEY]).unwrap(), IdempotencyKey(Some(KEY.parse().unwrap())));
        for bad in [
            &[""][..],
            &["x"],
            &["4f9d6a2e1f574c0b9a550d0f6c1f7c21"],
            &["{4f9d6a2e-1f57-4c0b-9a55-0d0f6c1f7c21}"],
            &["urn:uuid:4f9d6a2e-1f57-4c0b-9a55-0d0f6c1f7c21"],
            &[KEY, KEY],
        ] {
            assert_eq!(parse(bad).unwrap_err().code(), Code::InvalidIdempotencyKey, "{bad:?}");
        }
    }
}
