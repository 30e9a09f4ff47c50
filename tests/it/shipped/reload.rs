//! SIGHUP: certificates and the log's level are read again, and nothing ends. Certificates are read by themselves, too, when their
//! files have changed.

use super::{Place, Served, ready};
use crate::harness::{eventually, get, text};
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
    ask(sender, "/healthz").await.1
}

async fn ask(sender: &mut Sender, path: &str) -> (u16, Bytes) {
    let request = http::Request::get(path).header("host", "localhost").body(Empty::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.into_body().collect().await.unwrap().to_bytes())
}

/// What `/readyz` says of the certificates, once the box is ready, to somebody who knows this one.
async fn certificates(served: &Served, known: &CertificateDer<'static>) -> Option<String> {
    let mut sender = sender(connect(served, known).await?).await;
    let (status, body) = ask(&mut sender, "/readyz").await;
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    (status == 200).then(|| json["checks"]["certificates"].as_str().unwrap().to_owned())
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

/// As certbot leaves them: links that lead elsewhere after a renewal, and nobody told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_have_changed_are_shown_and_broken_ones_are_told() {
    let folder = TempDir::new().unwrap();
    let live = folder.path().join("live");
    std::fs::create_dir(&live).unwrap();
    // Writes the certificate of this number, and has the links lead there, one after the other.
    let renew = |number: u32| {
        let archive = folder.path().join(number.to_string());
        std::fs::create_dir(&archive).unwrap();
        let made = write_certificate(&archive);
        for name in ["cert.pem", "key.pem"] {
            let link = live.join(format!("{name}.new"));
            std::os::unix::fs::symlink(archive.join(name), &link).unwrap();
            std::fs::rename(link, live.join(name)).unwrap();
        }
        made
    };
    let shown = async |served: &Served, certificate: &CertificateDer<'static>| {
        eventually("the certificate is shown", Duration::from_secs(60), || async {
            connect(served, certificate).await
        })
        .await
    };
    let first = renew(1);
    let place = Place::at(folder.path())
        .with("GLEANER_SERVER__TLS__CERT", "live/cert.pem")
        .with("GLEANER_SERVER__TLS__KEY", "live/key.pem");
    let served = place.serve();
    let mut open = sender(shown(&served, &first).await).await;
    let second = renew(2);
    drop(shown(&served, &second).await);
    assert_eq!(health(&mut open).await, "ok\n", "a connection that was open goes on");
    let said =
        eventually("the box is ready", Duration::from_secs(60), || certificates(&served, &second)).await;
    assert_eq!(said, "ok");

    // The key of one with the chain of another; then no certificate at all; then none that can be read.
    std::fs::copy(folder.path().join("1/key.pem"), folder.path().join("2/key.pem")).unwrap();
    for (file, broken, word) in [
        ("other", "", "cannot serve the certificates in "),
        ("key.pem", "no key", "cannot read the private key in "),
        ("cert.pem", "-----BEGIN CERTIFICATE-----\n????", "cannot read the certificates in "),
    ] {
        std::fs::write(folder.path().join("2").join(file), broken).unwrap();
        let told = eventually("readiness tells of it", Duration::from_secs(60), || async {
            certificates(&served, &second).await.filter(|told| told.contains(word))
        })
        .await;
        assert!(told.contains("live/") && told.contains("read before are shown"), "{told}");
        let status = place.done(&["admin", "status"]);
        assert!(text(&status["certificates"], "trouble").contains(word), "{status}");
    }
    logged(&served, "the certificates' files have changed and cannot be used").await;
    let third = renew(3);
    shown(&served, &third).await;
    assert_eq!(certificates(&served, &third).await.as_deref(), Some("ok"));
    let status = place.done(&["admin", "status"]);
    assert!(status["certificates"]["trouble"].is_null(), "{status}");
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
