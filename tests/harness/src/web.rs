//! A web server on loopback whose answers a test decides, and when.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a path answers.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Time to wait before the answer, ms.
    pub delay_ms: u64,
    /// It is kept back until this key is let go of.
    pub held: Option<String>,
}

impl Answer {
    pub fn html(body: impl Into<String>) -> Answer {
        Answer {
            status: 200,
            headers: vec![("content-type".into(), "text/html; charset=utf-8".into())],
            body: Bytes::from(body.into()),
            delay_ms: 0,
            held: None,
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

    /// Kept back until [`Web::release`] is told the key.
    pub fn held(mut self, key: impl Into<String>) -> Answer {
        self.held = Some(key.into());
        self
    }
}

/// The keys that were let go of.
#[derive(Default)]
struct Released {
    keys: HashSet<String>,
    all: bool,
}

/// A running web server; it ends when this is dropped.
pub struct Web {
    pub address: SocketAddr,
    released: Arc<watch::Sender<Released>>,
    accepting: JoinHandle<()>,
}

impl Web {
    /// Serves what `answer` says for each path; `/robots.txt` is 404 unless it says otherwise.
    pub async fn open(answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static) -> Web {
        Web::asked(move |request| answer(request.uri().path())).await
    }

    /// The same for each host, as requests name it, and path with its query.
    pub async fn open_hosts(answer: impl Fn(&str, &str) -> Option<Answer> + Send + Sync + 'static) -> Web {
        Web::asked(move |request| {
            let host = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
            let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
            answer(host.unwrap_or_default(), target)
        })
        .await
    }

    /// The same for a site that looks at its visitors: `answer` sees the whole head.
    pub async fn asked(answer: impl Fn(&Request<Incoming>) -> Option<Answer> + Send + Sync + 'static) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let answer = Arc::new(answer);
        let released = Arc::new(watch::Sender::new(Released::default()));
        let freed = released.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (answer, freed) = (answer.clone(), freed.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let answer = answer(&request).unwrap_or_else(|| Answer::status(404));
                        let mut freed = freed.subscribe();
                        async move {
                            if let Some(key) = &answer.held {
                                let is_free = |freed: &Released| freed.all || freed.keys.contains(key);
                                drop(freed.wait_for(is_free).await);
                            }
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
        Web { address, released, accepting }
    }

    /// Lets go of the answers that are held under the key, now and from now on.
    pub fn release(&self, key: impl Into<String>) {
        self.released.send_modify(|freed| freed.keys.extend([key.into()]));
    }

    /// Lets go of everything.
    pub fn release_all(&self) {
        self.released.send_modify(|freed| freed.all = true);
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
