//! A language model on loopback: speaks the protocol of completions as servers differ in it, and says what a test tells it to.

use crate::web::Answer;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The key that it wants.
pub const KEY: &str = "model-key-7d1";

/// How it is made to answer with JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// By `response_format`; tools are refused.
    Format,
    /// By a tool, whose arguments come as text; `response_format` is refused.
    ToolText,
    /// The same with arguments as an object; `response_format` is passed over, and talked past.
    ToolObject,
}

/// What it says to a request.
type Says = dyn Fn(&Value) -> Answer + Send + Sync;

struct Shared {
    dialect: Dialect,
    says: Box<Says>,
    /// The bodies of requests that it had, those of probes apart.
    asked: Mutex<Vec<Value>>,
    probes: Mutex<usize>,
}

/// A running model; it ends when this is dropped.
pub struct Model {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Model {
    /// Serves what `says` says to the body of a request: [`completion`] for most.
    pub async fn open(dialect: Dialect, says: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            dialect,
            says: Box::new(says),
            asked: Mutex::default(),
            probes: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let shared = Arc::clone(&own);
                tokio::spawn(async move {
                    let service = service_fn(move |request| answered(Arc::clone(&shared), request));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Model { address, shared, accepting }
    }

    /// The settings of a box that asks it; `network.allow` is its own rule.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("NETWORK__ALLOW", format!("[\"127.0.0.1/32:{}\"]", self.address.port())),
            ("LLM__URL", format!("http://{}/v1", self.address)),
            ("LLM__MODEL", "small".to_owned()),
            ("LLM__KEY", KEY.to_owned()),
            ("LLM__TIMEOUT_SEC", "3".to_owned()),
        ]
    }

    /// The bodies of the requests since the last call, those of probes apart.
    pub fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut *self.shared.asked.lock())
    }

    /// How often it was tried how it answers.
    pub fn probes(&self) -> usize {
        *self.shared.probes.lock()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// An answer that says this, in the dialect of the server.
pub fn completion(content: &str) -> Answer {
    raw(&json!({ "choices": [{ "message": { "role": "assistant", "content": content } }] }).to_string())
}

/// An answer of these bytes.
pub fn raw(body: &str) -> Answer {
    let mut answer = Answer::html(body);
    answer.headers = vec![("content-type".into(), "application/json".into())];
    answer
}

/// What was asked of a question's request: the JSON of the user's first message.
pub fn told(body: &Value) -> Value {
    let content = body["messages"][1]["content"].as_str().unwrap_or_default();
    serde_json::from_str(content).unwrap_or(Value::Null)
}

async fn answered(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let key = request.headers().get("authorization").and_then(|key| key.to_str().ok());
    let is_known = key == Some(format!("Bearer {KEY}").as_str());
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let answer = match (is_known, path.as_str()) {
        (false, _) => Answer::status(401),
        (true, "/v1/chat/completions") => said(&shared, body),
        _ => Answer::status(404),
    };
    tokio::time::sleep(std::time::Duration::from_millis(answer.delay_ms)).await;
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(answer.body)).expect("a valid answer"))
}

fn said(shared: &Shared, body: Value) -> Answer {
    let has_tool = body.get("tools").is_some();
    let name = match has_tool {
        true => body["tools"][0]["function"]["name"].clone(),
        false => body["response_format"]["json_schema"]["name"].clone(),
    };
    let is_probe = name == "ready";
    if is_probe {
        *shared.probes.lock() += 1;
    }
    match (shared.dialect, has_tool) {
        (Dialect::Format, true) | (Dialect::ToolText, false) => {
            return Answer { status: 400, ..raw("{\"error\":{\"message\":\"not supported\"}}") };
        }
        (Dialect::ToolObject, false) => return completion("Sure, here it comes!"),
        _ => {}
    }
    let answer = if is_probe {
        completion("{\"ready\":true}")
    } else {
        shared.asked.lock().push(body.clone());
        (shared.says)(&body)
    };
    match shared.dialect {
        Dialect::Format => answer,
        Dialect::ToolText => called(answer, |text| json!(text)),
        Dialect::ToolObject => {
            called(answer, |text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
        }
    }
}

/// The same as the call of a tool.
fn called(answer: Answer, arguments: impl Fn(&str) -> Value) -> Answer {
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else { return answer };
    let Some(content) = body["choices"][0]["message"]["content"].as_str() else { return answer };
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "x", "arguments": arguments(content) } });
    let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    Answer { body: json!({ "choices": [{ "message": message }] }).to_string().into(), ..answer }
}
