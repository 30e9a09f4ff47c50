//! Protocols, compression, limits and the drain: what happens at the socket.

use super::shop::Running;
use crate::harness::eventually;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use server::TlsSettings;
use server::client::Client;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Sends bytes as they are and reads until the server closes.
async fn raw(app: &Running, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn http_1_and_2_share_the_socket() {
    let app = Running::start().await;
    let h2 = Client::new_h2c(&app.base).bearer("editor");
    let calls = (0..100).map(|_| h2.get("/api/v1/wait?ms=200"));
    let replies = futures::future::join_all(calls).await;
    assert!(replies.iter().all(|reply| reply.as_ref().unwrap().json == 200));
    assert!(app.shelf.slow_most.load(Ordering::SeqCst) > 1, "streams of one connection run side by side");
    let metrics = h2.get("/metrics").await.unwrap().text();
    assert!(metrics.contains("gleaner_http_connections 1\n"));
    let head = h2.send(http::Method::HEAD, "/api/v1/files/text", None).await.unwrap();
    assert_eq!((head.bytes.len(), head.header("content-length")), (0, "18890"));
    let big = "x".repeat(3 << 20);
    let reply =
        h2.send_bytes(http::Method::POST, "/api/v1/widgets", Some("application/json"), big).await.unwrap();
    assert_eq!(reply.status, 413);
    assert_eq!(app.anonymous().get("/healthz").await.unwrap().status, 200);
}

#[tokio::test]
async fn tls_speaks_both_protocols() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let app = Running::with(|server, _| server.tls = Some(TlsSettings { cert, key })).await;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    for protocol in ["h2", "http/1.1"] {
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(app.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        let request = http::Request::get("https://localhost/healthz")
            .header("host", "localhost")
            .body(Empty::<Bytes>::new())
            .unwrap();
        let response = if protocol == "h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        };
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok\n");
    }
}

#[tokio::test]
async fn tls_files_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let cert = folder.path().join("cert.pem");
    std::fs::write(&cert, "not a certificate").unwrap();
    let settings = server::ServerSettings {
        tls: Some(TlsSettings { cert: cert.clone(), key: folder.path().join("none.pem") }),
        ..Default::default()
    };
    let error = super::shop::bind_error(settings).await;
    assert!(error.contains("none.pem") || error.contains("cert.pem"), "{error}");
}

#[tokio::test]
async fn chunked_bodies_are_limited_too() {
    let app = Running::start().await;
    let mut request =
        b"POST /api/v1/widgets HTTP/1.1\r\nhost: x\r\nauthorization: Bearer editor\r\nconnection: close\r\n\
        content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    for _ in 0..40 {
        request.extend_from_slice(b"10000\r\n");
        request.extend(std::iter::repeat_n(b' ', 0x10000));
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let answer = raw(&app, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("The body is larger than 1 MiB."));
    let small =
        b"POST /api/v1/maybe HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
        c\r\n{\"name\":\"a\"}\r\n0\r\n\r\n";
    assert!(raw(&app, small).await.ends_with("true"));
}

#[tokio::test]
async fn broken_requests_do_not_hurt() {
    let app = Running::start().await;
    for request in [
        b"GET / HTTP/9.9\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET /api/v1/widgets/%ZZ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"POST /api/v1/maybe HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4"),
            "{answer}"
        );
    }
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100 << 10));
    let answer = raw(&app, long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(app.anonymous().get("/healthz").await.unwrap().status, 200);
}

#[tokio::test]
async fn large_text_is_compressed_and_small_or_packed_is_not() {
    let app = Running::start().await;
    let client = app.anonymous();
    for coding in ["gzip", "br", "zstd"] {
        let reply = client.header("accept-encoding", coding).get("/api/v1/files/text").await.unwrap();
        assert_eq!(reply.header("content-encoding"), coding);
        assert!(reply.bytes.len() < 9_000, "{coding}: {}", reply.bytes.len());
        let zip = client.header("accept-encoding", coding).get("/api/v1/files/zip").await.unwrap();
        assert_eq!((zip.header("content-encoding"), zip.bytes.len()), ("", 18_890));
        let small = client.header("accept-encoding", coding).get("/api/v1/whoami").await.unwrap();
        assert_eq!(small.header("content-encoding"), "");
        let json = client.header("accept-encoding", coding).get("/api/v1/openapi.json").await.unwrap();
        assert_eq!(json.header("content-encoding"), coding);
        let tag = json.header("etag");
        assert!(tag.ends_with(&format!("-{coding}\"")), "{tag}");
        let again = client.header("accept-encoding", coding).header("if-none-match", tag);
        assert_eq!(again.get("/api/v1/openapi.json").await.unwrap().status, 304);
    }
    heads_and_matches_say_what_the_answer_says(&app).await;
    let plain = client.get("/api/v1/files/text").await.unwrap();
    assert_eq!(plain.header("content-encoding"), "");
    assert_eq!(plain.header("content-disposition"), "attachment; filename=\"lines.txt\"");
    assert_eq!(plain.header("content-security-policy"), "sandbox; frame-ancestors 'none'");
}

/// HEAD and 304 carry the headers of the 200 that the same request would get, whatever codings the caller takes.
async fn heads_and_matches_say_what_the_answer_says(app: &Running) {
    let codings = ["", "gzip", "br", "zstd", "gzip, br;q=0.5", "gzip;q=0, zstd", "identity", "*", "deflate"];
    for new in [Client::new, Client::new_h2c] {
        for (coding, path) in codings
            .into_iter()
            .flat_map(|coding| ["/api/v1/openapi.json", "/api/v1/whoami", "/docs"].map(|path| (coding, path)))
        {
            let client = match coding {
                "" => new(&app.base),
                coding => new(&app.base).header("accept-encoding", coding),
            };
            let place = format!("{path} {coding}");
            let whole = client.get(path).await.unwrap();
            let head = client.send(http::Method::HEAD, path, None).await.unwrap();
            assert_eq!((head.status.as_u16(), head.bytes.len()), (200, 0), "{place}");
            let is_tagged = !whole.header("etag").is_empty();
            for name in ["etag", "vary", "content-type", "content-encoding", "content-length"] {
                // What is made while it is sent has no length, and whoami tells each request its id.
                if path != "/api/v1/whoami" || name != "etag" {
                    assert_eq!(head.header(name), whole.header(name), "{place}: {name}");
                }
            }
            if is_tagged && path != "/api/v1/whoami" {
                let known = client.header("if-none-match", whole.header("etag"));
                for method in [http::Method::GET, http::Method::HEAD] {
                    let known = known.send(method, path, None).await.unwrap();
                    assert_eq!((known.status.as_u16(), known.bytes.len()), (304, 0), "{place}");
                    assert_eq!(known.header("etag"), whole.header("etag"), "{place}");
                    assert_eq!(known.header("vary"), whole.header("vary"), "{place}");
                    assert_eq!((known.header("content-encoding"), known.header("content-type")), ("", ""));
                }
            }
        }
    }
}

#[tokio::test]
async fn streams_arrive_whole_or_break() {
    let app = Running::start().await;
    assert_eq!(app.anonymous().get("/api/v1/files/stream").await.unwrap().text(), "0,1,2,3,4,5,6,7,8,9,");
    assert!(app.anonymous().get("/api/v1/files/broken").await.is_err());
    assert_eq!(app.anonymous().get("/healthz").await.unwrap().status, 200);
}

#[tokio::test]
async fn silent_dripping_and_idle_connections_are_closed() {
    let app = Running::with(|server, _| {
        server.head_time_max = Duration::from_millis(300);
        server.idle_max = Duration::from_millis(600);
    })
    .await;
    for begin in [b"".as_slice(), b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-drip: 1\r\n"] {
        let begun = Instant::now();
        raw(&app, begin).await;
        assert!(begun.elapsed() < Duration::from_secs(9), "sooner than by the usual limit");
    }
    let begun = Instant::now();
    let answer = raw(&app, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"));
    assert!(begun.elapsed() >= Duration::from_millis(500), "a kept connection outlives its request");
    // A request that runs longer than the idle limit is not idle.
    let reply = app.anonymous().get("/api/v1/wait?ms=1500").await.unwrap();
    assert_eq!(reply.json, 1500);
}

#[tokio::test]
async fn connections_are_capped() {
    let app = Running::with(|server, _| (server.connections_max, server.per_address_max) = (4, 100)).await;
    let busy = || async {
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(b"GET /api/v1/wait?ms=600000 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stream
    };
    let kept = [busy().await, busy().await];
    app.until_waiting(2).await;
    // Half of the box is one address's, and all of that is at work.
    let answer = raw(&app, b"").await;
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("Too many connections"), "{answer}");
    drop(kept);
    eventually("they are gone", Duration::from_secs(60), || async {
        (app.anonymous().get("/healthz").await.ok()?.status == 200).then_some(())
    })
    .await;
    // A connection that says nothing gives its place to one that speaks.
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(TcpStream::connect(app.address).await.unwrap());
        assert_eq!(app.anonymous().get("/healthz").await.unwrap().status, 200);
    }
    let metrics = app.anonymous().get("/metrics").await.unwrap().text();
    assert!(metrics.contains("gleaner_http_connections_ended_total{why=\"silent\"}"), "{metrics}");
}

#[tokio::test]
async fn a_drain_lets_requests_finish() {
    let mut app = Running::start().await;
    let client = app.anonymous();
    client.get("/healthz").await.unwrap();
    let idle = TcpStream::connect(app.address).await.unwrap();
    let busy = client.clone();
    let running = tokio::spawn(async move { busy.get("/api/v1/wait?ms=3000").await });
    app.until_waiting(1).await;
    app.stop.take().unwrap().send(()).unwrap();
    let mut tries = 0;
    while TcpStream::connect(app.address).await.is_ok() {
        tries += 1;
        assert!(tries < 6_000, "nothing new is accepted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(running.await.unwrap().unwrap().json, 3000);
    assert_eq!(app.shelf.slow_ended.load(Ordering::SeqCst), 1);
    let drained = tokio::time::timeout(Duration::from_secs(60), &mut app.drained).await.unwrap().unwrap();
    assert!(drained.unfinished.is_empty());
    drop(idle);
}

#[tokio::test]
async fn a_drain_names_what_does_not_finish() {
    let mut app = Running::with(|server, _| server.drain_max = Duration::from_millis(300)).await;
    let client = app.anonymous();
    let running = tokio::spawn(async move { client.get("/api/v1/wait?ms=600000").await });
    app.until_waiting(1).await;
    app.stop.take().unwrap().send(()).unwrap();
    let drained = tokio::time::timeout(Duration::from_secs(60), &mut app.drained).await.unwrap().unwrap();
    assert_eq!(drained.unfinished, [("GET /api/v1/wait".to_owned(), 1)]);
    assert!(running.await.unwrap().is_err());
    assert_eq!(app.shelf.slow_ended.load(Ordering::SeqCst), 0);
}
