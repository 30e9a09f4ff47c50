//! The way through a proxy: what it is told, and what is said inside the tunnel.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::site::{Site, assert_fails, page, request, settings};
use super::tls::{acceptor, tls_site};
use crate::direct::FetchRoute;
use crate::proxy::ProxyFailure;
use crate::*;

/// A proxy that connects to `target` whatever it is told, and remembers the first line of each request.
async fn tunnel_to(
    target: SocketAddr,
    tls: Option<tokio_rustls::TlsAcceptor>,
) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let told = Arc::<Mutex<Vec<String>>>::default();
    let log = told.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (log, tls) = (log.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => relay(stream, target, &log).await,
                    Some(tls) => relay(tls.accept(stream).await.unwrap(), target, &log).await,
                }
            });
        }
    });
    (addr, told)
}

async fn relay<S>(mut stream: S, target: SocketAddr, log: &Mutex<Vec<String>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8(head).unwrap();
    log.lock().push(head.lines().next().unwrap().to_owned());
    let mut onward = TcpStream::connect(target).await.unwrap();
    match head.starts_with("CONNECT ") {
        true => stream.write_all(b"HTTP/1.1 200 Yes\r\n\r\n").await.unwrap(),
        false => onward.write_all(head.as_bytes()).await.unwrap(),
    }
    tokio::io::copy_bidirectional(&mut stream, &mut onward).await.ok();
}

/// A fetcher that may connect to these ports, with proxies there that may resolve names or not.
fn direct_via(ports: &[SocketAddr], more: FetchSettings, resolving: bool) -> Direct {
    let rule = |addr: &SocketAddr| format!("127.0.0.1/32:{}", addr.port()).parse().unwrap();
    let allow: Vec<AllowRule> = ports.iter().map(rule).collect();
    let resolving_proxies = if resolving { allow.clone() } else { Vec::new() };
    Direct::new(FetchSettings { resolving_proxies, ..more }, AddressGuard::new(&allow, &[]))
}

async fn through(direct: &Direct, entry: &str, url: &str) -> FetchReport {
    let proxy = Arc::new(Proxy::parse(entry, None).unwrap());
    let url = WebUrl::parse(url).unwrap();
    direct.fetch_by(request(url), FetchRoute { proxy: Some(&proxy), scope: "test ", owner: None }).await
}

#[tokio::test]
async fn tls_goes_through_a_tunnel_and_http2_inside_it() {
    let (target, certificate, _) = tls_site(&["shop.test", "localhost"], &[b"h2", b"http/1.1"]).await;
    let (proxy, told) = tunnel_to(target, None).await;
    let trusting = FetchSettings { extra_roots: vec![certificate], ..settings() };
    let direct = direct_via(&[proxy, target], trusting, false);
    let url = format!("https://shop.test:{}/page", target.port());
    for _ in 0..2 {
        let report = through(&direct, &format!("http://{proxy}"), &url).await;
        assert_eq!(report.error, None);
        assert_eq!(report.body, format!("HTTP/2.0 shop.test:{} /page", target.port()));
    }
    // The inner proxy is told the checked address, and the second page shares the first one's connection.
    assert_eq!(*told.lock(), [format!("CONNECT {target} HTTP/1.1")]);
    let straight = direct.fetch(request(WebUrl::parse(&url).unwrap())).await;
    assert_eq!(straight.error, None);
    assert_eq!(told.lock().len(), 1, "a connection through a proxy serves nobody who goes straight");
}

#[tokio::test]
async fn an_https_proxy_is_spoken_to_under_tls() {
    let (tls, certificate) = acceptor(&["127.0.0.1"], &[b"http/1.1"]);
    let site = Site::start(|head| page(head.lines().next().unwrap())).await;
    let (proxy, told) = tunnel_to(site.addr, Some(tls)).await;
    let trusting = FetchSettings { extra_roots: vec![certificate], ..settings() };
    let direct = direct_via(&[proxy, site.addr], trusting, true);
    let url = site.named("shop.test", "/x").to_string();
    let report = through(&direct, &format!("https://{proxy}"), &url).await;
    assert_eq!(report.error, None);
    // Its own requests are whole URLs.
    assert_eq!(report.body, format!("GET {url} HTTP/1.1"));
    assert_eq!(*told.lock(), [format!("GET {url} HTTP/1.1")]);
    let untrusting = direct_via(&[proxy, site.addr], settings(), true);
    let report = through(&untrusting, &format!("https://{proxy}"), &url).await;
    assert_eq!((report.outcome, report.trouble), (Outcome::ProviderError, Some(ProxyFailure::Down)));
    assert!(report.error.unwrap().contains("failed in its TLS handshake"));
}

#[tokio::test]
async fn what_a_name_means_here_is_judged_before_a_proxy_hears_of_it() {
    let site = Site::start(|_| page("secret")).await;
    let (proxy, told) = tunnel_to(site.addr, None).await;
    let direct = direct_via(&[proxy, site.addr], settings(), false);
    for scheme in ["http", "socks5", "socks5h"] {
        let entry = format!("{scheme}://{proxy}");
        for (url, error) in [
            ("http://metadata.test/", "the name metadata.test has no address to fetch from"),
            ("http://inner.test/", "the name inner.test has no address to fetch from"),
            // One of its addresses is open, but nobody knows which one a proxy would take.
            ("http://mixed.test/", "the name mixed.test has no address to fetch from"),
            ("http://10.0.0.7/", "the address 10.0.0.7 (private)"),
            ("http://[::ffff:169.254.169.254]/", "is never allowed"),
        ] {
            let report = through(&direct, &entry, url).await;
            let is_name = error.starts_with("the name ");
            let outcome = if is_name { Outcome::NetworkError } else { Outcome::TargetError };
            assert_fails(&report, outcome, error);
        }
        let report = through(&direct, &entry, "http://nowhere.invalid/").await;
        assert_fails(&report, Outcome::NetworkError, "has no address to fetch from");
    }
    assert!(told.lock().is_empty(), "no proxy was told anything: {:?}", told.lock());
    // Also plain http is a tunnel where the proxy must not resolve.
    let report = through(&direct, &format!("http://{proxy}"), site.named("shop.test", "/").as_str()).await;
    assert_eq!((report.error, &report.body[..]), (None, &b"secret"[..]));
    assert_eq!(*told.lock(), [format!("CONNECT {} HTTP/1.1", site.addr)]);
}

#[tokio::test]
async fn a_proxy_at_a_closed_address_is_not_connected_to() {
    let site = Site::start(|_| page("secret")).await;
    let direct = direct_via(&[], settings(), false);
    for entry in [format!("http://{}", site.addr), format!("socks5://shop.test:{}", site.addr.port())] {
        let report = through(&direct, &entry, "http://93.184.215.14/").await;
        assert_eq!((report.outcome, report.trouble), (Outcome::ProviderError, Some(ProxyFailure::Down)));
        let error = report.error.unwrap();
        assert!(error.contains("cannot be used") && error.contains("network.allow"), "{error}");
    }
    assert_eq!(site.connections(), 0);
}
