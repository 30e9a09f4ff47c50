//! The demo shop's web server: loopback only, HTTP/1.1, the pages as they were written.
//!
//! It has two states, the first visit and the second; on the second some prices, lists and an article differ. Charsets
//! and broken markup are served as the files have them, because that is what the appliance is for.

use super::files::{FILES, SITE};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// `data/demo/site.json`.
#[derive(Debug, Deserialize)]
struct Site {
    name: String,
    robots: String,
    pages: Vec<SitePage>,
}

/// One page of the shop.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SitePage {
    pub path: String,
    file: String,
    content_type: String,
    pub page_type: String,
    /// Whether the second visit finds something else.
    pub changed: bool,
}

struct Served {
    content_type: String,
    first: &'static [u8],
    second: &'static [u8],
}

struct Shared {
    robots: String,
    pages: HashMap<String, Served>,
    second_visit: AtomicBool,
    served: AtomicU64,
}

/// The running shop; it ends when this is dropped.
pub struct Shop {
    pub name: String,
    pub pages: Vec<SitePage>,
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Shop {
    /// Opens the shop on a free loopback port.
    pub async fn open() -> io::Result<Shop> {
        let site: Site = serde_json::from_str(SITE).map_err(io::Error::other)?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr()?;
        let pages = site.pages.iter().map(|page| Ok((page.path.clone(), served(page)?)));
        let shared = Arc::new(Shared {
            robots: site.robots,
            pages: pages.collect::<io::Result<_>>()?,
            second_visit: AtomicBool::new(false),
            served: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Shop { name: site.name, pages: site.pages, address, shared, accepting })
    }

    /// From now on the pages are those of the second visit.
    pub fn change(&self) {
        self.shared.second_visit.store(true, Ordering::Relaxed);
    }

    /// The address under which the pages stand, without a slash at the end.
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many pages were served.
    pub fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn file(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(path, _)| *path == name).map(|(_, bytes)| *bytes)
}

fn served(page: &SitePage) -> io::Result<Served> {
    let first = file(&format!("pages/{}", page.file))
        .ok_or_else(|| io::Error::other(format!("the demo has no file {}", page.file)))?;
    let second = file(&format!("changed/{}", page.file)).unwrap_or(first);
    Ok(Served { content_type: page.content_type.clone(), first, second })
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let shared = shared.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(&shared, request.uri().path());
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            // A visitor that hangs up is no news.
            let _ = connection.await;
        });
    }
}

fn answer(shared: &Shared, path: &str) -> Response<Full<Bytes>> {
    let (status, content_type, body) = match shared.pages.get(path) {
        Some(page) => {
            shared.served.fetch_add(1, Ordering::Relaxed);
            let second = shared.second_visit.load(Ordering::Relaxed);
            let bytes = if second { page.second } else { page.first };
            (StatusCode::OK, page.content_type.as_str(), Bytes::from_static(bytes))
        }
        None if path == "/robots.txt" => {
            (StatusCode::OK, "text/plain; charset=utf-8", Bytes::from(shared.robots.clone()))
        }
        None => (
            StatusCode::NOT_FOUND,
            "text/plain",
            Bytes::from_static(b"There is no such page in this shop.\n"),
        ),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    if let Ok(value) = content_type.parse() {
        response.headers_mut().insert(http::header::CONTENT_TYPE, value);
    }
    response
}
