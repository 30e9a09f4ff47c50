//! One try of a delivery: a request through the address guard, and what came of it.

use base::ids::OrgId;
use base::web::WebUrl;
use bytes::Bytes;
use fetch::connect::Outgoing;
use fetch::retry_after::retry_after;
use fetch::{Connector, FetchError};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use outputs::retry::{TIMEOUT, Verdict, verdict};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::{timeout, timeout_at};

/// Bytes of an answer that are read at most, and characters of it that are kept.
const ANSWER_BYTES_MAX: usize = 4_096;
const TOLD_CHARS_MAX: usize = 500;
/// How long the body of an answer is waited for: what counts is its status.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// What is sent to whom.
pub(super) struct Request<'r> {
    pub org: OrgId,
    pub url: &'r WebUrl,
    /// Those that the kind adds.
    pub headers: HeaderMap,
    /// JSON.
    pub body: &'r str,
}

/// What came of a try.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub verdict: Verdict,
    pub status: Option<u16>,
    /// The beginning of the answer, or why there was none.
    pub told: String,
    pub retry_after: Option<Duration>,
    pub duration: Duration,
}

/// Sends a message and waits for the answer, within the time that the specification gives endpoints.
pub(super) async fn send(connector: &Connector, mut request: Request<'_>) -> Tried {
    let (begun, deadline) = (Instant::now(), Instant::now() + TIMEOUT);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    if let Ok(agent) = HeaderValue::from_str(&fetch::user_agent(None)) {
        request.headers.insert(USER_AGENT, agent);
    }
    let answered = timeout_at(deadline.into(), answer(connector, &request)).await;
    let (status, told, retry_after) = match answered {
        Ok(Ok((status, told, retry_after))) => (Some(status), told, retry_after),
        Ok(Err(reason)) => (None, reason, None),
        Err(_elapsed) => (None, format!("did not answer within {} s", TIMEOUT.as_secs()), None),
    };
    Tried { verdict: verdict(status), status, told: shown(&told), retry_after, duration: begun.elapsed() }
}

type Answered = (u16, String, Option<Duration>);

async fn answer(connector: &Connector, request: &Request<'_>) -> Result<Answered, String> {
    let outgoing = Outgoing {
        place: request.url,
        path: request.url.path_and_query(),
        method: Method::POST,
        headers: &request.headers,
        body: Bytes::copy_from_slice(request.body.as_bytes()),
        via: None,
        owner: Some(request.org),
    };
    let sent = match connector.send(&outgoing).await {
        // A connection that was kept may have ended just then. The message has an id, so sending it twice does no harm.
        Err(FetchError::Exchange { source, .. }) if !source.is_parse() => connector.send(&outgoing).await,
        sent => sent,
    };
    let (response, lease) = sent.map_err(|error| error.to_string())?;
    let (status, asked) = (response.status().as_u16(), retry_after(response.headers(), SystemTime::now()));
    let (told, is_whole) = read(response.into_body()).await;
    if is_whole {
        lease.finish();
    }
    Ok((status, told, asked))
}

/// The beginning of a body, and whether that is all of it.
async fn read(mut body: Incoming) -> (String, bool) {
    let mut bytes = Vec::new();
    let whole = timeout(ANSWER_TIME, async {
        loop {
            match body.frame().await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let room = ANSWER_BYTES_MAX - bytes.len();
                    bytes.extend_from_slice(&data[..data.len().min(room)]);
                    if data.len() > room {
                        return false;
                    }
                }
            }
        }
    });
    let is_whole = whole.await.unwrap_or(false);
    (String::from_utf8_lossy(&bytes).into_owned(), is_whole)
}

/// A text of somebody else's: short, on one line, without characters that steer a terminal.
pub(super) fn shown(text: &str) -> String {
    let text: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TOLD_CHARS_MAX).collect();
    text.trim().to_owned()
}
