//! SIGHUP: certificates and the log's level are read again, and nothing ends.

use super::{Place, Served, ready};
use crate::harness::{eventually, get};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

type Sender = hyper::client::conn::http1::SendRequest<Empty<Bytes>>;

/// Writes a fresh certificate and its key, and gives the certificate.
fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// A connection on which this certificate is shown; none when another one is.
async fn connect(served: &Served, trusted: &CertificateDer<'static>) -> Option<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = served.url.strip_prefix("https://").unwrap().to_owned();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()
}

async fn sender(stream: TlsStream<TcpStream>) -> Sender {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn health(sender: &mut Sender) -> Bytes {
    let request = http::Request::get("/healthz").header("host", "localhost").body(Empty::new()).unwrap();
    sender.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes()
}

/// Waits until the log has a line with these words.
async fn logged(served: &Served, words: &str) {
    eventually(words, Duration::from_secs(30), || async { served.log().contains(words).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_reads_certificates_again_and_ends_no_connection() {
    let folder = TempDir::new().unwrap();
    let first = write_certificate(folder.path());
    let place = Place::at(folder.path())
        .with("GLEANER_SERVER__TLS__CERT", "cert.pem")
        .with("GLEANER_SERVER__TLS__KEY", "key.pem");
    let served = place.serve();
    let mut open = sender(connect(&served, &first).await.expect("the first certificate")).await;
    assert_eq!(health(&mut open).await, "ok\n");

    let second = write_certificate(folder.path());
    assert!(connect(&served, &second).await.is_none(), "nothing is read before it is asked for");
    served.signal(Signal::HUP);
    logged(&served, "new connections are shown the certificates as they are now").await;
    assert!(connect(&served, &second).await.is_some() && connect(&served, &first).await.is_none());
    assert_eq!(health(&mut open).await, "ok\n", "a connection that was open goes on");

    std::fs::write(folder.path().join("cert.pem"), "no certificate").unwrap();
    served.signal(Signal::HUP);
    logged(&served, "the certificates stay as they were").await;
    assert!(served.log().contains("cert.pem"), "{}", served.log());
    assert!(connect(&served, &second).await.is_some(), "the one before goes on");
    assert_eq!(health(&mut open).await, "ok\n");
    assert_eq!(served.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_reads_the_logs_level_again() {
    let folder = TempDir::new().unwrap();
    let write = |level: &str| {
        std::fs::write(folder.path().join("appliance.toml"), format!("[log]\nlevel = \"{level}\"\n"))
            .unwrap();
    };
    write("info,gleaner::request=off");
    let served = Place::at(folder.path()).serve();
    ready(&served).await;
    let client = served.client();
    get(&client, "/healthz").await;
    assert!(!served.log().contains("route=\"/healthz\""), "{}", served.log());
    write("info");
    served.signal(Signal::HUP);
    logged(&served, "the log's level was read again").await;
    get(&client, "/healthz").await;
    logged(&served, "route=\"/healthz\"").await;

    write("gleaner=nonsense");
    served.signal(Signal::HUP);
    logged(&served, "the log's level stays as it was").await;
    // What only a start can do is said.
    write_certificate(folder.path());
    let tls = "[server.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
    std::fs::write(folder.path().join("appliance.toml"), tls).unwrap();
    served.signal(Signal::HUP);
    logged(&served, "TLS is off and stays so; switching it on (server.tls) needs a restart").await;
    std::fs::write(folder.path().join("appliance.toml"), "[lug]\n").unwrap();
    served.signal(Signal::HUP);
    logged(&served, "the configuration cannot be read; nothing is changed").await;
    assert_eq!(get(&client, "/healthz").await.status, 200);
    assert_eq!(served.terminate(), Some(0));
}
