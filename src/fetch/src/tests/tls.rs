//! TLS, and what is spoken over it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::site::{assert_fails, direct_to, request, settings};
use crate::*;
use base::web::WebUrl;

/// A server's side of TLS with a certificate of its own.
pub(super) fn acceptor(
    names: &[&str],
    alpn: &[&[u8]],
) -> (tokio_rustls::TlsAcceptor, CertificateDer<'static>) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    (tokio_rustls::TlsAcceptor::from(Arc::new(config)), certificate)
}

/// A TLS server that speaks HTTP/2 and HTTP/1.1, whichever the client prefers among `alpn`.
pub(super) async fn tls_site(
    names: &[&str],
    alpn: &[&[u8]],
) -> (SocketAddr, CertificateDer<'static>, Arc<AtomicU32>) {
    let (acceptor, certificate) = acceptor(names, alpn);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicU32::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service =
                    hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                        let host = match request.uri().authority() {
                            Some(authority) => authority.to_string(),
                            None => request.headers()["host"].to_str().unwrap().to_owned(),
                        };
                        let text = format!("{:?} {} {}", request.version(), host, request.uri().path());
                        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(text))))
                    });
                let io = hyper_util::rt::TokioIo::new(stream);
                let executor = hyper_util::rt::TokioExecutor::new();
                hyper_util::server::conn::auto::Builder::new(executor)
                    .serve_connection(io, service)
                    .await
                    .ok();
            });
        }
    });
    (addr, certificate, connections)
}

#[tokio::test]
async fn speaks_http2_over_tls_and_shares_the_connection() {
    let (addr, root, connections) = tls_site(&["shop.test"], &[b"h2", b"http/1.1"]).await;
    let direct = direct_to(&[addr], FetchSettings { extra_roots: vec![root], ..settings() });
    let url = |name: &str| WebUrl::parse(&format!("https://{name}:{}/page", addr.port())).unwrap();
    let report = direct.fetch(request(url("shop.test"))).await;
    assert_eq!(report.body, format!("HTTP/2.0 shop.test:{} /page", addr.port()), "{:?}", report.error);
    let all = (0..10).map(|_| direct.fetch(request(url("shop.test"))));
    assert!(futures::future::join_all(all).await.iter().all(|report| report.outcome == Outcome::Success));
    assert_eq!(connections.load(Ordering::SeqCst), 1);

    // The certificate is for another name, and for nobody this machine knows.
    let report = direct.fetch(request(url("other.test"))).await;
    assert_fails(&report, Outcome::NetworkError, "the TLS handshake with other.test failed");
    let stranger = direct_to(&[addr], settings());
    let report = stranger.fetch(request(url("shop.test"))).await;
    assert_fails(&report, Outcome::NetworkError, "UnknownIssuer");
}

#[tokio::test]
async fn speaks_http1_over_tls_where_http2_is_not_offered() {
    let (addr, root, _) = tls_site(&["shop.test"], &[b"http/1.1"]).await;
    let direct = direct_to(&[addr], FetchSettings { extra_roots: vec![root], ..settings() });
    let url = WebUrl::parse(&format!("https://shop.test:{}/page", addr.port())).unwrap();
    for _ in 0..2 {
        let report = direct.fetch(request(url.clone())).await;
        assert_eq!(report.body, format!("HTTP/1.1 shop.test:{} /page", addr.port()), "{:?}", report.error);
    }
}
