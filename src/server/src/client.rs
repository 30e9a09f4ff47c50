//! A small JSON client for the demo, the benches and the tests: speaks to a running box as a user's program would.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::fmt;

/// A client of one box. Clones share the connections; calls may run side by side.
#[derive(Clone)]
pub struct Client {
    base: String,
    headers: HeaderMap,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Bytes,
    /// The body as JSON; null when it is none.
    pub json: Value,
}

impl Reply {
    /// A header's text, empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Why nothing came back.
#[derive(Debug)]
pub struct ClientError {
    what: String,
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl ClientError {
    fn new(what: String, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError { what, cause: cause.into() }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.cause)
    }
}

impl Client {
    /// `base` such as `http://127.0.0.1:8080`, without a slash at the end.
    pub fn new(base: impl Into<String>) -> Client {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Client {
            base: base.into(),
            headers: HeaderMap::new(),
            pool: Pool::builder(TokioExecutor::new()).build(connector),
        }
    }

    /// The same, speaking HTTP/2 in the clear.
    pub fn new_h2c(base: impl Into<String>) -> Client {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Client {
            base: base.into(),
            headers: HeaderMap::new(),
            pool: Pool::builder(TokioExecutor::new()).http2_only(true).build(connector),
        }
    }

    /// Sends this credential with every request.
    #[must_use]
    pub fn bearer(&self, credential: &str) -> Client {
        self.header("authorization", &format!("Bearer {credential}"))
    }

    /// Sends this header with every request.
    ///
    /// # Panics
    /// When name or value cannot stand in a header.
    #[must_use]
    pub fn header(&self, name: &str, value: &str) -> Client {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header's name");
        let value = HeaderValue::from_str(value).expect("a header's value");
        let mut more = self.clone();
        more.headers.insert(name, value);
        more
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub async fn get(&self, path: &str) -> Result<Reply, ClientError> {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply, ClientError> {
        self.send(Method::POST, path, Some(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Reply, ClientError> {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Reply, ClientError> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Reply, ClientError> {
        self.send(Method::DELETE, path, None).await
    }

    /// Any method, with a JSON body or none.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Reply, ClientError> {
        match body {
            Some(body) => self.send_bytes(method, path, Some("application/json"), body.to_string()).await,
            None => self.send_bytes(method, path, None, Bytes::new()).await,
        }
    }

    /// Any method and any body.
    pub async fn send_bytes(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<Reply, ClientError> {
        let (parts, bytes) = self.exchange(method, path, content_type, body.into()).await?;
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Reply { status: parts.status, headers: parts.headers, bytes, json })
    }

    /// Status and body as they came: what a bench asks for, so that it does not measure this client's reading of JSON.
    pub async fn get_raw(&self, path: &str) -> Result<(StatusCode, Bytes), ClientError> {
        let (parts, bytes) = self.exchange(Method::GET, path, None, Bytes::new()).await?;
        Ok((parts.status, bytes))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Bytes,
    ) -> Result<(http::response::Parts, Bytes), ClientError> {
        let what = || format!("{method} {}{path}", self.base);
        let mut request = Request::builder().method(&method).uri(format!("{}{path}", self.base));
        if let Some(content_type) = content_type {
            request = request.header(http::header::CONTENT_TYPE, content_type);
        }
        let mut request = request.body(Full::new(body)).map_err(|e| ClientError::new(what(), e))?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        let response = self.pool.request(request).await.map_err(|e| ClientError::new(what(), e))?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.map_err(|e| ClientError::new(what(), e))?.to_bytes();
        Ok((parts, bytes))
    }
}
