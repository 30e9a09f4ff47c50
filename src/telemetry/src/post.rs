//! One batch to the collector: a connection, a request, the answer.
//!
//! The operator has named the collector, mostly one on this machine, so it is not asked of the address guard, as a mail server is
//! not: what organizations may have fetched is not opened by it. Nothing is followed elsewhere.

use crate::encode;
use crate::settings::Settings;
use bytes::Bytes;
use fetch::tls::client_config;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What came of a try.
pub(crate) enum Posted {
    /// The collector has it, but for so many spans.
    Taken { rejected: u64 },
    /// It may take it later, and says when, if it does.
    Later { reason: String, after: Option<Duration> },
    /// It never will.
    Refused { reason: String },
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What sends batches.
pub(crate) struct Post {
    settings: Settings,
    tls: Option<TlsConnector>,
}

impl Post {
    /// Reads certificates where the endpoint is spoken to by TLS; an error says what is wrong with them.
    pub(crate) fn new(settings: Settings) -> Result<Post, String> {
        let tls = match settings.endpoint.is_https() {
            false => None,
            true => {
                let own = settings.ca_file.as_deref().map(authorities).transpose()?.unwrap_or_default();
                Some(TlsConnector::from(Arc::new(client_config(&own, &[b"http/1.1"]))))
            }
        };
        Ok(Post { settings, tls })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sends one batch.
    pub(crate) async fn send(&self, body: Bytes) -> Posted {
        let sent = tokio::time::timeout(self.settings.timeout, self.exchange(body));
        let reason = match sent.await {
            Ok(Ok(posted)) => return posted,
            Ok(Err(reason)) => reason,
            Err(_elapsed) => format!("no answer within {} s", self.settings.timeout.as_secs()),
        };
        Posted::Later { reason, after: None }
    }

    async fn exchange(&self, body: Bytes) -> Result<Posted, String> {
        let request = self.request(body)?;
        let stream = self.connect().await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(told)?;
        let asking = async move {
            let answer = sender.send_request(request).await.map_err(told)?;
            let (head, body) = answer.into_parts();
            // What else it says does not change what became of the batch.
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            // The connection ends with its sender.
            drop(sender);
            Ok::<_, String>((head, body.map(|body| body.to_bytes()).unwrap_or_default()))
        };
        let (answered, _) = tokio::join!(asking, connection);
        let (head, body) = answered?;
        let reason = format!("it answered {}", head.status);
        Ok(match head.status {
            status if status.is_success() => Posted::Taken { rejected: encode::rejected(&body) },
            // Those that the protocol says may be sent again.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                let after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                Posted::Later { reason, after: after.map(Duration::from_secs) }
            }
            _ => Posted::Refused { reason },
        })
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let url = self.settings.endpoint.as_url();
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let host = url.host_str().unwrap_or_default();
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut request = Request::post(path).body(Full::new(body)).map_err(told)?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::try_from(authority).map_err(told)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let agent = concat!("Gleaner/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        for (name, value) in &self.settings.headers {
            headers.insert(name.clone(), value.clone());
        }
        Ok(request)
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, String> {
        let url = &self.settings.endpoint;
        let host = url.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream = TcpStream::connect((host.as_str(), url.port())).await.map_err(told)?;
        // One request on a connection: nothing is gained by waiting to fill a packet.
        stream.set_nodelay(true).ok();
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host).map_err(told)?;
        Ok(Box::new(tls.connect(name, stream).await.map_err(told)?))
    }
}

/// The certificates of a PEM file.
fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |reason: &dyn Display| format!("{}: {reason}", file.display());
    let pem = std::fs::read(file).map_err(|e| failed(&e))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|e| failed(&e))?;
    if all.is_empty() {
        return Err(failed(&"it has no certificate"));
    }
    Ok(all)
}

fn told(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
