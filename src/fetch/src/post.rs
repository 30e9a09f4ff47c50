//! One request of the box's own to a service that the operator has named: through an address guard like any other, straight, and
//! without following redirects, so that its key goes to that place and nowhere else.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method};
use tokio::time::timeout;

use crate::body::{self, BodyLimits, Overflow};
use crate::connect::{Connector, Outgoing};
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

/// A request of any kind.
pub struct ServiceRequest<'a> {
    pub url: &'a WebUrl,
    pub method: Method,
    /// Without `Host`, which is written on the way.
    pub headers: &'a HeaderMap,
    pub body: Bytes,
    /// For all of it: connecting, and the answer to its end.
    pub timeout: Duration,
    /// The largest answer, on the wire and once inflated.
    pub answer_bytes_max: usize,
}

/// What came back, of whatever status.
pub struct ServiceAnswer {
    pub status: u16,
    pub body: Bytes,
}

impl Direct {
    pub async fn post_json(&self, post: JsonPost<'_>) -> Result<ServiceAnswer, FetchError> {
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
        let request = ServiceRequest {
            url: post.url,
            method: Method::POST,
            headers: &headers,
            body: post.body,
            timeout: post.timeout,
            answer_bytes_max: post.answer_bytes_max,
        };
        self.connector().ask(&request).await
    }
}

impl Connector {
    /// Sends a request and reads its answer to the end, of whatever status; a redirect is an answer like any other.
    pub async fn ask(&self, request: &ServiceRequest<'_>) -> Result<ServiceAnswer, FetchError> {
        match timeout(request.timeout, Box::pin(self.exchange(request))).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(FetchError::TimedOut { timeout: request.timeout }),
        }
    }

    async fn exchange(&self, request: &ServiceRequest<'_>) -> Result<ServiceAnswer, FetchError> {
        let outgoing = Outgoing {
            method: request.method.clone(),
            body: request.body.clone(),
            ..Outgoing::get(request.url, request.headers)
        };
        let (response, lease) = self.send(&outgoing).await?;
        let (head, body) = response.into_parts();
        let limits = BodyLimits {
            received_bytes_max: request.answer_bytes_max,
            inflated_bytes_max: request.answer_bytes_max,
            overflow: Overflow::Refuse,
        };
        let encodings = body::encodings(&head.headers)?;
        let body = body::receive(body, &head.headers, limits, &mut 0).await?;
        lease.finish();
        let body = inflate(body, encodings, limits).await?;
        Ok(ServiceAnswer { status: head.status.as_u16(), body })
    }
}
