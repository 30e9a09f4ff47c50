//! A connection in use by one request, and the request in the forms in which it goes over the wire.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body_util::Full;
use hyper::body::Incoming;

use super::Origin;
use super::connection::{H1, H2, Relay, Sender};
use super::pool::Pool;
use crate::FetchError;
use crate::proxy::{Login, Proxy};
use base::ids::OrgId;
use base::web::{UrlError, WebUrl};

/// One request, before it is known over which connection it goes.
#[derive(Debug, Clone)]
pub struct Outgoing<'a> {
    /// Names the place that is connected to.
    pub place: &'a WebUrl,
    /// Path and query at that place. Not always `place`'s own: the query of a hosted provider's request carries another
    /// URL, and may be longer than a [`WebUrl`] can be.
    pub path: &'a str,
    pub method: Method,
    /// Without `Host`, which is written here.
    pub headers: &'a HeaderMap,
    pub body: Bytes,
    /// The proxy that it goes through.
    pub via: Option<&'a Arc<Proxy>>,
    /// Whose request it is; see [`crate::FetchRequest::owner`].
    pub owner: Option<OrgId>,
}

impl<'a> Outgoing<'a> {
    /// A GET for `url`.
    pub fn get(url: &'a WebUrl, headers: &'a HeaderMap) -> Self {
        Self {
            place: url,
            path: url.path_and_query(),
            method: Method::GET,
            headers,
            body: Bytes::new(),
            via: None,
            owner: None,
        }
    }
}

/// A request in the forms in which it goes over the wire.
pub(super) struct Target {
    absolute_form: Uri,
    origin_form: Uri,
    host: HeaderValue,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Target {
    /// Fails for a URL that the WHATWG allows and `http` does not; none is known, and none is worth a wrong page.
    pub(super) fn of(outgoing: &Outgoing<'_>) -> Result<Self, FetchError> {
        let bad = |_| FetchError::BadTarget { source: UrlError::Malformed };
        let place = outgoing.place;
        Ok(Self {
            absolute_form: format!("{}{}", place.origin(), outgoing.path).parse().map_err(bad)?,
            origin_form: outgoing.path.parse().map_err(bad)?,
            host: HeaderValue::from_str(&place.authority())
                .map_err(|_| FetchError::BadTarget { source: UrlError::BadHost })?,
            method: outgoing.method.clone(),
            headers: outgoing.headers.clone(),
            body: outgoing.body.clone(),
        })
    }

    /// Whether sending it twice is as good as once (RFC 9110, section 9.2.2). A POST to a provider costs credits.
    pub(super) fn is_repeatable(&self) -> bool {
        self.method == Method::GET
    }
}

/// A connection in use by one request.
pub struct Lease {
    pub(super) origin: Origin,
    pub(super) sender: Option<Sender>,
    pub(super) peer: SocketAddr,
    pub(super) pool: Arc<Pool>,
}

impl Lease {
    /// One of the pool's connections to `origin`, if it has one.
    pub(super) fn of_pool(pool: &Arc<Pool>, origin: &Origin) -> Option<Lease> {
        let (sender, peer) = pool.checkout(origin)?;
        Some(Lease { origin: origin.clone(), sender: Some(sender), peer, pool: Arc::clone(pool) })
    }

    /// The address at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Gives the connection back, to be used again. Only after the body was read to its end.
    pub fn finish(mut self) {
        if let Some(Sender::H1(connection)) = self.sender.take() {
            self.pool.keep(self.origin.clone(), connection, self.peer);
        }
    }

    /// The same connection, over which `proxy` is told whole URLs.
    pub(super) fn relayed(mut self, proxy: &Arc<Proxy>) -> Self {
        if let Some(Sender::H1(h1)) = &mut self.sender {
            let login = proxy.login.as_ref().and_then(Login::basic);
            h1.relay = Some(Relay { proxy: Arc::clone(proxy), login });
        }
        self
    }

    pub(super) fn relay(&self) -> Option<&Relay> {
        match &self.sender {
            Some(Sender::H1(h1)) => h1.relay.as_ref(),
            _ => None,
        }
    }

    /// Whether a pooled connection is still alive.
    pub(super) async fn is_ready(&mut self) -> bool {
        match &mut self.sender {
            Some(Sender::H1(H1 { sender, .. })) => sender.ready().await.is_ok(),
            Some(Sender::H2(H2 { sender, .. })) => sender.ready().await.is_ok(),
            None => false,
        }
    }

    pub(super) async fn send(&mut self, target: &Target) -> Result<Response<Incoming>, Unsent> {
        let mut request = Request::new(Full::new(target.body.clone()));
        *request.method_mut() = target.method.clone();
        *request.headers_mut() = target.headers.clone();
        let answered = match self.sender.as_mut().expect("a lease holds its connection until it is finished")
        {
            Sender::H1(H1 { sender, relay, .. }) => {
                // A proxy wants the whole URL, a server its path (RFC 9112, sections 3.2.1 and 3.2.2).
                *request.uri_mut() = match relay {
                    Some(_) => target.absolute_form.clone(),
                    None => target.origin_form.clone(),
                };
                if let Some(login) = relay.as_ref().and_then(|relay| relay.login.clone()) {
                    request.headers_mut().insert(PROXY_AUTHORIZATION, login);
                }
                request.headers_mut().insert(HOST, target.host.clone());
                sender.try_send_request(request).await
            }
            // HTTP/2 carries the host in the URI's authority and wants no Host header (RFC 9113, section 8.3.1).
            Sender::H2(H2 { sender, .. }) => {
                *request.version_mut() = Version::HTTP_2;
                *request.uri_mut() = target.absolute_form.clone();
                sender.try_send_request(request).await
            }
        };
        answered.map_err(|mut error| Unsent {
            was_sent: error.take_message().is_none(),
            error: error.into_error(),
        })
    }
}

/// A request without an answer. hyper gives the request back as long as none of it can have reached the server.
pub(super) struct Unsent {
    pub(super) error: hyper::Error,
    pub(super) was_sent: bool,
}

impl Drop for Lease {
    /// A lease that was not finished failed, ran out of time or was not read to its end. An HTTP/1 connection closes by
    /// being dropped; a shared one is forgotten, because whatever stalled this stream may stall the next.
    fn drop(&mut self) {
        if let Some(Sender::H2(connection)) = self.sender.take() {
            self.pool.forget(&self.origin, connection.id);
        }
    }
}
