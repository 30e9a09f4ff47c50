//! One JSON request of the box's own to a service that the operator has named: through the address guard like any other, straight,
//! and without following redirects, so that its key goes to that place and nowhere else.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method};
use tokio::time::timeout;

use crate::body::{self, BodyLimits, Overflow};
use crate::connect::Outgoing;
use crate::direct::{Direct, inflate};
use crate::error::FetchError;
use base::web::WebUrl;

/// A request with a JSON body.
pub struct JsonPost<'a> {
    pub url: &'a WebUrl,
    /// Sent as `Authorization: Bearer`; none where it is empty.
    pub key: &'a str,
    pub body: Bytes,
    /// For all of it: connecting, and the answer to its end.
    pub timeout: Duration,
    /// The largest answer.
    pub answer_bytes_max: usize,
}

/// What came back, of whatever status.
pub struct JsonAnswer {
    pub status: u16,
    pub body: Bytes,
}

impl Direct {
    pub async fn post_json(&self, post: JsonPost<'_>) -> Result<JsonAnswer, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Ok(agent) = HeaderValue::from_str(self.user_agent()) {
            headers.insert(USER_AGENT, agent);
        }
        if let Ok(mut bearer) = HeaderValue::from_str(&format!("Bearer {}", post.key))
            && !post.key.is_empty()
        {
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let exchange = Box::pin(self.exchange(&post, &headers));
        match timeout(post.timeout, exchange).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(FetchError::TimedOut { timeout: post.timeout }),
        }
    }

    async fn exchange(&self, post: &JsonPost<'_>, headers: &HeaderMap) -> Result<JsonAnswer, FetchError> {
        let outgoing =
            Outgoing { method: Method::POST, body: post.body.clone(), ..Outgoing::get(post.url, headers) };
        let (response, lease) = self.connector().send(&outgoing).await?;
        let (head, body) = response.into_parts();
        let limits = BodyLimits {
            received_bytes_max: post.answer_bytes_max,
            inflated_bytes_max: post.answer_bytes_max,
            overflow: Overflow::Refuse,
        };
        let encodings = body::encodings(&head.headers)?;
        let body = body::receive(body, &head.headers, limits, &mut 0).await?;
        lease.finish();
        let body = inflate(body, encodings, limits).await?;
        Ok(JsonAnswer { status: head.status.as_u16(), body })
    }
}
