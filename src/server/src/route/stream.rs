//! Answers that go on: Server-Sent Events, and the caller's standing while they do.
//!
//! A gate asks once, and such an answer may go on for days. So whoever makes one asks again before each part, and ends it when
//! the credential has ended, the caller may do something else than at the beginning, or the box drains.

use crate::call::access::Credential;
use crate::call::body_budget::FairnessKey;
use crate::call::request::Call;
use crate::call::state::ApiState;
use crate::route::gate;
use crate::route::input::Input;
use crate::route::operation::Operation;
use crate::wire::body::{Response, ResponseBody};
use base::ids::OrgId;
use base::permission::Permissions;
use base::{Code, Error, Result};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::json;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

/// The media type of Server-Sent Events.
pub const EVENT_STREAM: &str = "text/event-stream";

/// Server-Sent Events as a response. They go out as they come: uncompressed, kept by nobody on the way.
pub fn event_stream(parts: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let frames = parts.map(|part| Ok::<_, Infallible>(Frame::data(part)));
    let mut response = Response::new(ResponseBody::stream(StreamBody::new(frames)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // What nginx and those that follow it go by.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

const LAST_EVENT_ID: &str = "Last-Event-ID";

/// Who the caller of a stream is, to be asked again while it goes on, and where they had been.
pub struct Standing {
    state: Arc<ApiState>,
    credential: Credential,
    key: FairnessKey,
    org: Option<OrgId>,
    permissions: Permissions,
    last_event_id: Option<u64>,
}

impl Standing {
    /// Whether the credential is still good, of the same organization, and for the same things.
    pub fn holds(&self) -> bool {
        let caller = self.credential.caller(&*self.state.authenticator);
        caller.is_ok_and(|caller| caller.org() == self.org && caller.permissions() == self.permissions)
    }

    /// The `id` of the last event that a caller who comes back was told of.
    pub fn last_event_id(&self) -> Option<u64> {
        self.last_event_id
    }

    /// Waits until the box drains.
    pub async fn drained(&self) {
        self.state.drained().await;
    }

    /// Runs `work`, one part of many, as a part of the caller's requests: in turns, where they take more than their share.
    pub async fn in_turn<T>(&self, work: impl Future<Output = T>) -> T {
        self.state.scheduler.run_part(self.key, pin!(work)).await
    }
}

impl Input for Standing {
    async fn extract(call: &mut Call) -> Result<Self> {
        let credential = gate::credential(call)?;
        let last_event_id = last_event_id(call)?;
        let (state, key) = (call.context.state_shared(), call.context.fairness_key());
        let caller = credential.caller(&*state.authenticator)?;
        let (org, permissions) = (caller.org(), caller.permissions());
        Ok(Standing { org, permissions, state, credential, key, last_event_id })
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.header_parameter(
            LAST_EVENT_ID,
            "The id of the last event that a stream brought: it goes on behind that one.",
            json!({ "type": "integer", "minimum": 0 }),
        );
        operation.error(Code::InvalidInput);
    }
}

fn last_event_id(call: &Call) -> Result<Option<u64>> {
    let Some(value) = call.headers().get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().unwrap_or("?").trim();
    if text.is_empty() {
        return Ok(None);
    }
    let refused = || Error::invalid(LAST_EVENT_ID, "must be the id of an event, a whole number");
    text.parse().map(Some).map_err(|_| refused())
}
