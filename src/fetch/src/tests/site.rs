//! Small servers on loopback, written on raw TCP so that they can misbehave in any way.

use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::*;
use base::web::WebUrl;

/// What a server answers with: raw bytes, then perhaps a drip or an end.
pub(crate) enum Reply {
    /// The bytes; the connection stays open for the next request.
    Raw(Vec<u8>),
    /// The bytes, and the connection closes.
    Close(Vec<u8>),
    /// The bytes, and then one more byte every few milliseconds, without end.
    Drip(Vec<u8>),
    /// Nothing at all, for ever.
    Silence,
}

pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut raw = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        write!(raw, "{name}: {value}\r\n").unwrap();
    }
    raw.extend_from_slice(b"\r\n");
    raw.extend_from_slice(body);
    Reply::Raw(raw)
}

pub(crate) fn page(body: impl AsRef<[u8]>) -> Reply {
    answer(200, &[("content-type", "text/html")], body)
}

pub(crate) fn redirect(to: impl AsRef<str>) -> Reply {
    answer(302, &[("location", to.as_ref())], "moved")
}

/// A server whose handler sees a request's head (as text) and gives a reply.
pub(crate) struct Site {
    pub(crate) addr: SocketAddr,
    connections: Arc<AtomicU32>,
    open: Arc<AtomicU32>,
    requests: Arc<AtomicU32>,
    task: tokio::task::JoinHandle<()>,
}

impl Site {
    pub(crate) async fn start(handler: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let [connections, open, requests] = [0; 3].map(|n| Arc::new(AtomicU32::new(n)));
        let handler = Arc::new(handler);
        let counts = (connections.clone(), open.clone(), requests.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counts.0.fetch_add(1, Ordering::SeqCst);
                let (handler, open, requests) = (handler.clone(), counts.1.clone(), counts.2.clone());
                open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    serve(stream, &*handler, &requests).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { addr, connections, open, requests, task }
    }

    pub(crate) fn url(&self, path: &str) -> WebUrl {
        WebUrl::parse(&format!("http://{}{path}", self.addr)).unwrap()
    }

    /// The same place under a name; the fetcher must be given the name.
    pub(crate) fn named(&self, name: &str, path: &str) -> WebUrl {
        WebUrl::parse(&format!("http://{name}:{}{path}", self.addr.port())).unwrap()
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Connections that the fetcher has not closed yet.
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, handler: &(dyn Fn(&str) -> Reply + Send + Sync), requests: &AtomicU32) {
    let mut head = Vec::new();
    while stream.read_buf(&mut head).await.is_ok_and(|n| n > 0) {
        if !is_whole(&head) {
            continue;
        }
        requests.fetch_add(1, Ordering::SeqCst);
        match handler(&String::from_utf8_lossy(&head)) {
            Reply::Raw(raw) => {
                if stream.write_all(&raw).await.is_err() {
                    return;
                }
            }
            Reply::Close(raw) => {
                stream.write_all(&raw).await.ok();
                stream.shutdown().await.ok();
                return;
            }
            Reply::Drip(raw) => {
                stream.write_all(&raw).await.ok();
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                return;
            }
            Reply::Silence => {
                while stream.read_buf(&mut head).await.is_ok_and(|n| n > 0) {}
                return;
            }
        }
        head.clear();
    }
}

/// Whether a request has arrived with its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    body.len() >= sent(head, "content-length").map_or(0, |bytes| bytes.parse().unwrap())
}

/// A header's value in a request's head.
pub(crate) fn sent<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v))
}

pub(crate) fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

const NAMES: &[(&str, &str)] = &[
    ("shop.test", "127.0.0.1"),
    ("www.shop.test", "127.0.0.1"),
    ("other.test", "127.0.0.1"),
    ("metadata.test", "169.254.169.254"),
    ("mapped.test", "::ffff:169.254.169.254"),
    ("inner.test", "10.1.2.3"),
];

pub(crate) fn settings() -> FetchSettings {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for (name, ip) in NAMES {
        hosts.entry((*name).into()).or_default().push(ip.parse().unwrap());
    }
    hosts.insert("mixed.test".into(), vec!["10.0.0.1".parse().unwrap(), "127.0.0.1".parse().unwrap()]);
    // Whatever the machine's resolver says.
    hosts.insert("no-such-name.invalid".into(), Vec::new());
    FetchSettings { hosts, connect_timeout: Duration::from_secs(2), ..FetchSettings::default() }
}

pub(crate) fn direct_to(ports: &[SocketAddr], settings: FetchSettings) -> Direct {
    let allow: Vec<AllowRule> =
        ports.iter().map(|addr| format!("127.0.0.1/32:{}", addr.port()).parse().unwrap()).collect();
    Direct::new(settings, AddressGuard::new(&allow, &[]))
}

/// A fetcher that may reach `site` and nothing else on this machine.
pub(crate) fn direct(site: &Site) -> Direct {
    direct_to(&[site.addr], settings())
}

pub(crate) fn request(url: WebUrl) -> FetchRequest {
    FetchRequest { robots: false, timeout: Duration::from_secs(10), ..FetchRequest::new(url) }
}

#[track_caller]
pub(crate) fn assert_fails(report: &FetchReport, outcome: Outcome, error: &str) {
    let said = report.error.as_deref().unwrap_or_default();
    assert!(report.outcome == outcome && said.contains(error), "{:?}: {said}", report.outcome);
    assert!(report.body.is_empty());
}

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}
