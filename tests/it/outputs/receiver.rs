//! An endpoint on loopback that writes down what it is sent, and answers as a test says.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A message that came.
#[derive(Clone, Debug)]
pub struct Message {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub at: SystemTime,
}

impl Message {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a message is JSON")
    }
}

/// How a message is answered.
#[derive(Clone, Debug)]
pub struct Said {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    pub after: Duration,
}

impl Said {
    pub fn status(status: u16) -> Said {
        Said { status, headers: Vec::new(), body: format!("it is {status}"), after: Duration::ZERO }
    }
}

type Manners = Arc<dyn Fn(&Message) -> Said + Send + Sync>;

pub struct Receiver {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Message>>>,
    manners: Arc<Mutex<Manners>>,
    accepting: JoinHandle<()>,
}

impl Receiver {
    pub async fn open(manners: impl Fn(&Message) -> Said + Send + Sync + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let manners: Arc<Mutex<Manners>> = Arc::new(Mutex::new(Arc::new(manners)));
        let (kept, asked) = (Arc::clone(&received), Arc::clone(&manners));
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (kept, asked) = (Arc::clone(&kept), Arc::clone(&asked));
                tokio::spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (kept, asked) = (Arc::clone(&kept), Arc::clone(&asked));
                        async move { answer(request, &kept, &asked).await }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Receiver { address, received, manners, accepting }
    }

    /// Answers otherwise from now on.
    pub fn behave(&self, manners: impl Fn(&Message) -> Said + Send + Sync + 'static) {
        *self.manners.lock() = Arc::new(manners);
    }

    pub fn received(&self) -> Vec<Message> {
        self.received.lock().clone()
    }

    pub fn count(&self) -> usize {
        self.received.lock().len()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn answer(
    request: Request<Incoming>,
    kept: &Mutex<Vec<Message>>,
    asked: &Mutex<Manners>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let message =
        Message { path: head.uri.path().to_owned(), headers: head.headers, body, at: SystemTime::now() };
    let manners = Arc::clone(&asked.lock());
    let said = manners(&message);
    kept.lock().push(message);
    tokio::time::sleep(said.after).await;
    let mut response = Response::builder().status(said.status);
    for (name, value) in &said.headers {
        response = response.header(*name, value);
    }
    Ok(response.body(Full::new(Bytes::from(said.body))).expect("a valid answer"))
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
