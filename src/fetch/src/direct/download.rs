//! A document whose body is taken as it comes, for readers that need no more of it at a time.
//!
//! The same way as a page's: the guard, robots.txt, redirects and politeness hold. What differs is that its size is bounded by
//! whoever reads, that no more than gzip is asked for (readers undo that themselves), and that it is not judged what the
//! answer means: its status is told.

use super::{ChainRules, ChainTrace, Direct, FetchRoute, VisitPermits, callers_own};
use crate::body::{self, BodyError, BodyLimits, Encoding, Overflow};
use crate::connect::Lease;
use crate::politeness::Permit;
use crate::retry_after::retry_after;
use crate::{CrawlDelays, FetchError, FetchRequest, PageHeaders};
use base::web::WebUrl;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::{Duration, Instant, SystemTime};
use tokio::time::timeout_at;

const ACCEPT_GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// What answered, its body still to come.
pub struct Download {
    /// The status of the last answer, when there was one.
    pub status: Option<u16>,
    pub headers: PageHeaders,
    /// The URL that answered last.
    pub final_url: WebUrl,
    /// How long that host asked to be left alone.
    pub retry_after: Option<Duration>,
    pub crawl_delays: CrawlDelays,
    /// The body of an answer of 200.
    pub body: Option<DownloadBody>,
    /// Why there is none, in words fit for a customer.
    pub error: Option<String>,
    /// A redirect led to a host that is not to be visited before this moment; it was not.
    pub left_alone_until: Option<Instant>,
}

/// A body that comes. Dropping it closes its connection.
pub struct DownloadBody {
    incoming: Incoming,
    lease: Option<Lease>,
    /// The visit of another domain, where a redirect led.
    #[allow(dead_code, reason = "held until dropped")]
    visit: Option<Permit>,
    /// Whether the end of the connection is the body's.
    until_close: bool,
    is_gzip: bool,
    received: u64,
    deadline: Instant,
    timeout: Duration,
}

impl Direct {
    /// Asks for a document. `request.timeout` is the time for all of it, its body included.
    pub async fn download(&self, request: FetchRequest) -> Download {
        let deadline = Instant::now() + request.timeout;
        let mut trace = ChainTrace::new(&request.url);
        let caller_headers = callers_own(&request.headers);
        let course = ChainRules {
            way: FetchRoute { owner: request.owner, ..FetchRoute::default() },
            caller_headers: &caller_headers,
            session: request.session.as_deref(),
            limits: BodyLimits { received_bytes_max: 0, inflated_bytes_max: 0, overflow: Overflow::Refuse },
            redirects_max: self.settings.redirects_max,
            robots: request.robots,
            polite: self.polite.as_ref(),
            encodings: ACCEPT_GZIP,
        };
        let first = request.url.clone();
        let mut leave = VisitPermits::new(&first);
        let chain = Box::pin(self.answer(&course, &mut trace, &mut leave));
        let answered = match timeout_at(deadline.into(), chain).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(FetchError::TimedOut { timeout: request.timeout }),
        };
        let body = answered.and_then(|(status, incoming, lease)| {
            if status != http::StatusCode::OK {
                return Ok(None);
            }
            let is_gzip = match body::encodings(&trace.headers)?.as_slice() {
                [] => false,
                [Encoding::Gzip] => true,
                [other, ..] => return Err(BodyError::UnknownEncoding(other.to_string()).into()),
            };
            let has = |name| trace.headers.contains_key(name);
            let until_close = !has(CONTENT_LENGTH) && !has(TRANSFER_ENCODING);
            let (lease, timeout) = (Some(lease), request.timeout);
            let visit = leave.visit.take();
            Ok(Some(DownloadBody {
                incoming,
                lease,
                visit,
                until_close,
                is_gzip,
                received: 0,
                deadline,
                timeout,
            }))
        });
        let error = body.as_ref().err();
        Download {
            status: trace.status,
            headers: PageHeaders::from_map(&trace.headers),
            retry_after: retry_after(&trace.headers, SystemTime::now()),
            error: error.map(|error| trace.describe(error)),
            left_alone_until: error.and_then(FetchError::left_alone_until),
            crawl_delays: trace.crawl_delays,
            final_url: trace.answered,
            body: body.unwrap_or_default(),
        }
    }
}

impl DownloadBody {
    /// Whether the sender has packed it with gzip.
    pub fn is_gzip(&self) -> bool {
        self.is_gzip
    }

    /// Bytes that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes; none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        loop {
            let frame = timeout_at(self.deadline.into(), self.incoming.frame()).await;
            let frame = frame.map_err(|_| FetchError::TimedOut { timeout: self.timeout })?;
            match frame {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.received += data.len() as u64;
                    return Ok(Some(data));
                }
                Some(Err(error))
                    if self.until_close && self.received > 0 && body::is_unexpected_eof(&error) =>
                {
                    return Ok(None);
                }
                Some(Err(error)) => return Err(BodyError::Interrupted(error).into()),
                None => {
                    if let Some(lease) = self.lease.take() {
                        lease.finish();
                    }
                    return Ok(None);
                }
            }
        }
    }
}
