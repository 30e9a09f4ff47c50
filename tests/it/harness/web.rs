//! A web server on loopback whose answers a test decides.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What a path answers.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Time to wait before the answer, ms.
    pub delay_ms: u64,
}

impl Answer {
    pub fn html(body: impl Into<String>) -> Answer {
        Answer {
            status: 200,
            headers: vec![("content-type".into(), "text/html; charset=utf-8".into())],
            body: Bytes::from(body.into()),
            delay_ms: 0,
        }
    }

    pub fn status(status: u16) -> Answer {
        Answer { status, ..Answer::html(format!("<title>{status}</title>")) }
    }

    pub fn redirect(to: &str) -> Answer {
        let mut answer = Answer::status(302);
        answer.headers.push(("location".into(), to.to_owned()));
        answer
    }

    pub fn after_ms(mut self, delay_ms: u64) -> Answer {
        self.delay_ms = delay_ms;
        self
    }
}

/// A running web server; it ends when this is dropped.
pub struct Web {
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Web {
    /// Serves what `answer` says for each path; `/robots.txt` is 404 unless it says otherwise.
    pub async fn open(answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let answer = Arc::new(answer);
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let answer = answer.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let answer = answer(request.uri().path()).unwrap_or_else(|| Answer::status(404));
                        async move {
                            tokio::time::sleep(std::time::Duration::from_millis(answer.delay_ms)).await;
                            let mut response = Response::builder().status(answer.status);
                            for (name, value) in &answer.headers {
                                response = response.header(name, value);
                            }
                            Ok::<_, Infallible>(
                                response.body(Full::new(answer.body)).expect("a valid answer"),
                            )
                        }
                    });
                    let http = hyper::server::conn::http1::Builder::new()
                        .timer(TokioTimer::new())
                        .serve_connection(TokioIo::new(stream), service);
                    let _ = http.await;
                });
            }
        });
        Web { address, accepting }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The rule of `network.allow` that opens it.
    pub fn allow(&self) -> String {
        format!("[\"127.0.0.1/32:{}\"]", self.address.port())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
