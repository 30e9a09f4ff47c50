//! One connection, watched until it ends.
//!
//! A connection without a running request is closed after a while, whatever it is doing (never having sent a byte,
//! dripping a header, keeping alive, idling in HTTP/2), and so is one whose client stopped reading a response. One
//! watchdog per connection does both, instead of a timer per request: it looks a few times per limit, so limits hold to
//! within a quarter.

use crate::api::Api;
use crate::settings::ServerSettings;
use crate::wire::activity::{Activity, RunningRequest};
use crate::wire::body::{BoxError, Response};
use crate::wire::compression::{self, CompressorPermit};
use crate::wire::etag;
use crate::wire::limiter::{ClientConnection, STREAMS_MAX};
use crate::wire::refusal::RefusalIo;
use bytes::{Buf, Bytes};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::ServiceExt;

/// [`STREAMS_MAX`] for a trusted proxy, on whose connection many people are.
const PROXY_STREAMS_MAX: u32 = 256;
/// Bytes of bodies that one HTTP/2 connection may send ahead of being read, for all of its requests and for one.
const WINDOW_BYTES: u32 = 256 << 10;
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
const PROXY_WINDOW_BYTES: u32 = 4 << 20;
/// The head of one of so many requests on an HTTP/2 connection; one on HTTP/1.1 may be larger.
const STREAM_HEAD_BYTES_MAX: u32 = 32 << 10;
/// How long one that has just connected when the drain begins may take to ask: it did not know.
const NEWCOMER_TIME_MAX: Duration = Duration::from_millis(250);
/// How often it is looked at meanwhile.
const NEWCOMER_LOOK: Duration = Duration::from_millis(10);
/// A response that its client does not read for this long ends the connection.
const STALL_TIME_MAX: Duration = Duration::from_secs(120);

/// What connections are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServingPhase {
    Serving,
    /// Finish what runs, take nothing new.
    Draining,
    /// End now.
    Ended,
}

/// hyper's side of the settings: what both protocols are held to, for a connection of anybody or of a trusted proxy.
pub(crate) fn builder(settings: &ServerSettings, is_proxy: bool) -> auto::Builder<TokioExecutor> {
    let (streams, window) =
        if is_proxy { (PROXY_STREAMS_MAX, PROXY_WINDOW_BYTES) } else { (STREAMS_MAX, WINDOW_BYTES) };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The watchdog stands in for hyper's own header timer, which would cost every request a timer.
    builder
        .http1()
        .header_read_timeout(None)
        .max_buf_size(base::limits::HEAD_BYTES_MAX)
        .max_headers(base::limits::HEAD_LINES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(settings.idle_max)
        .keep_alive_timeout(Duration::from_secs(20))
        .max_header_list_size(STREAM_HEAD_BYTES_MAX)
        .initial_connection_window_size(window)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .max_concurrent_streams(streams);
    builder
}

/// What answers the requests of a connection, in a coding that its client takes.
fn answering(
    api: Arc<Api>,
    client: Arc<ClientConnection>,
) -> impl Service<
    Request<Incoming>,
    Response = http::Response<
        impl Body<Data = impl Buf + Send + 'static, Error = impl Into<BoxError>> + Send + 'static,
    >,
    Error = Infallible,
    Future: Send + 'static,
> {
    let (watched, asking) = (Arc::clone(&client.activity), client);
    let compressed = compression::layer(tower::service_fn(move |request: Request<Incoming>| {
        let (api, client) = (Arc::clone(&api), Arc::clone(&asking));
        async move {
            let response = api.answer(request, Arc::clone(&client)).await;
            Ok::<Response, Infallible>(compression::mark(response, |share| client.compressor(share)))
        }
    }));
    service_fn(move |mut request: Request<Incoming>| {
        compression::allow_plain(request.headers_mut());
        let running = watched.begin();
        let compressed = compressed.clone();
        let is_head = request.method() == Method::HEAD;
        async move {
            let Ok(mut response) = compressed.oneshot(request).await;
            etag::mark_coding(response.headers_mut());
            let compressor = compression::taken(&mut response);
            let response = without_body(is_head, response);
            Ok::<_, Infallible>(response.map(|body| TrackedBody { body, running, compressor }))
        }
    })
}

/// Serves one connection until it ends, is told to, or idles too long.
pub(crate) async fn serve<I>(
    io: I,
    client: Arc<ClientConnection>,
    api: Arc<Api>,
    builder: Arc<auto::Builder<TokioExecutor>>,
    settings: Arc<ServerSettings>,
    mut phase: watch::Receiver<ServingPhase>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = answering(api, Arc::clone(&client));
    let io = RefusalIo::new(io, Arc::clone(&client.activity));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let (mut next_look, mut leaving) = (settings.head_time_max, None::<Instant>);
    let mut draining = None::<Instant>;
    loop {
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(target: "gleaner::connection", peer = %client.ip(), %error, "connection ended");
                }
                return;
            }
            changed = phase.changed() => match (changed, *phase.borrow_and_update()) {
                (Ok(()), ServingPhase::Serving) => {}
                (Ok(()), ServingPhase::Draining) if client.activity.has_asked() => {
                    connection.as_mut().graceful_shutdown();
                }
                (Ok(()), ServingPhase::Draining) => draining = Some(Instant::now()),
                (_, ServingPhase::Ended) | (Err(_), _) => return,
            },
            // Another one is let in instead: a silent stranger's at once, any other as HTTP has it.
            () = client.is_dismissed() => {
                if client.may_be_cut() {
                    return;
                }
                leaving.get_or_insert_with(Instant::now);
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep(NEWCOMER_LOOK), if draining.is_some() => {
                let is_over = draining.is_some_and(|since| since.elapsed() >= NEWCOMER_TIME_MAX);
                if client.activity.has_asked() || is_over {
                    draining = None;
                    connection.as_mut().graceful_shutdown();
                }
            }
            () = tokio::time::sleep(next_look) => {
                next_look = settings.idle_max / 4;
                match verdict(&client.activity, &settings, leaving) {
                    WatchdogVerdict::Cut => return,
                    // Politely first: what is already written still goes out.
                    WatchdogVerdict::Idle if leaving.is_none() => {
                        leaving = Some(Instant::now());
                        connection.as_mut().graceful_shutdown();
                    }
                    WatchdogVerdict::Idle | WatchdogVerdict::Fine => {}
                }
            }
        }
    }
}

/// Takes the body off the answer to HEAD and off a 304. Here, behind the compression, because their headers are those of
/// the answer with its body: the entity tag of the coding, and what it varies by (RFC 9110, 9.3.2 and 15.4.5).
fn without_body<B: Body>(is_head: bool, response: http::Response<B>) -> http::Response<Option<B>> {
    let status = response.status();
    if !is_head && status != StatusCode::NOT_MODIFIED {
        return response.map(Some);
    }
    let length = response.body().size_hint().exact();
    let mut response = response.map(|_| None);
    let headers = response.headers_mut();
    match status {
        StatusCode::NOT_MODIFIED => {
            for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING] {
                headers.remove(name);
            }
        }
        StatusCode::NO_CONTENT => {}
        _ => {
            if let Some(length) = length {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
        }
    }
    response
}

/// What becomes of a connection.
enum WatchdogVerdict {
    Fine,
    /// Nothing runs and nothing has happened for too long.
    Idle,
    /// Never a request, or a client that does not read.
    Cut,
}

/// What becomes of a connection that does this; `leaving` since it was asked to end.
fn verdict(activity: &Activity, settings: &ServerSettings, leaving: Option<Instant>) -> WatchdogVerdict {
    let quiet = activity.quiet();
    if !activity.has_asked() {
        return if quiet >= settings.head_time_max { WatchdogVerdict::Cut } else { WatchdogVerdict::Fine };
    }
    if activity.is_idle() {
        return match leaving {
            _ if quiet < settings.idle_max => WatchdogVerdict::Fine,
            Some(since) if since.elapsed() > STALL_TIME_MAX => WatchdogVerdict::Cut,
            _ => WatchdogVerdict::Idle,
        };
    }
    if activity.is_stalled() && quiet >= STALL_TIME_MAX {
        WatchdogVerdict::Cut
    } else {
        WatchdogVerdict::Fine
    }
}

/// A response body, if it has one, that keeps its request counted and notes when it moves.
struct TrackedBody<B> {
    body: Option<B>,
    running: RunningRequest,
    #[allow(dead_code, reason = "held until dropped")]
    compressor: Option<CompressorPermit>,
}

impl<B> Body for TrackedBody<B>
where
    B: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        };
        self.running.touch();
        self.running.set_sending(polled.is_ready());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        // Of a body that was taken off the headers say what there is to say.
        self.body.as_ref().map_or_else(SizeHint::new, Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::access::{Authenticator, Gatekeeper};
    use crate::metrics::{Counter, Metrics};
    use crate::route::gate::Anonymous;
    use crate::spec::permit::Entitlement;
    use crate::wire::limiter::ConnectionLimiter;
    use crate::{ApiSettings, Handler, NoContent, Readiness, Route, RouteGroup, ServedRoutes, Services};
    use base::clock::Clock;
    use base::{Code, Error, Result};
    use store::fault::FaultyDisk;
    use store::{MIGRATIONS, OrgStore, Principal, Store};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    struct Nobody;

    impl Authenticator for Nobody {
        fn authenticate(&self, _: &str) -> Result<Principal> {
            Err(Error::new(Code::AuthInvalid))
        }
    }

    impl Gatekeeper for Nobody {
        fn entitled(&self, _: &OrgStore, _: Entitlement) -> Result<()> {
            Ok(())
        }

        fn trial(&self, _: &OrgStore) -> Result<()> {
            Ok(())
        }

        fn quota(&self, _: &OrgStore) -> Result<()> {
            Ok(())
        }
    }

    /// What a request tells when it is at work, and waits for.
    #[derive(Default)]
    struct Work {
        begun: Notify,
        end: Notify,
    }

    async fn work(gate: Anonymous) -> Result<NoContent> {
        let work = gate.service::<Work>();
        work.begun.notify_one();
        work.end.notified().await;
        Ok(NoContent)
    }

    static ROUTES: &[Route] = &[Route::get("/api/v1/work", "work", &Handler::new(work))];

    #[tokio::test]
    async fn a_request_that_begins_as_its_connection_is_sent_away_is_answered() {
        let store = Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS).unwrap();
        let asked = Arc::new(Work::default());
        let services = Arc::new(Services::new(store).with(asked.clone()));
        let served = ServedRoutes::new(vec![RouteGroup::new("work", ROUTES)]);
        let (settings, metrics) = (ApiSettings::default(), Metrics::new());
        let api = Api::new(services, &served, Nobody, Nobody, settings, metrics, Readiness::default());
        let limiter = ConnectionLimiter::new(10, 10, Counter::default(), Counter::default());
        let permit = limiter.admit([192, 0, 2, 1].into(), false).unwrap();
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let settings = Arc::new(ServerSettings::default());
        let (_phase, watching) = watch::channel(ServingPhase::Serving);
        let serving = tokio::spawn(serve(
            server,
            permit.0.clone(),
            api,
            Arc::new(builder(&settings, false)),
            settings,
            watching,
        ));
        client.write_all(b"GET /api/v1/work HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        asked.begun.notified().await;
        // The limiter had found it silent, a moment before.
        permit.0.tell_to_leave();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        asked.end.notify_one();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer:?}");
        serving.await.unwrap();
    }
}
