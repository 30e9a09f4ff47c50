//! Simulators of hosted scraping services: real servers on loopback that answer as those vendors' documents say, with
//! their odd ways.
//!
//! They are written from the documents and not from `data/providers`, so that a template which misreads a document
//! fails against them. What the "target" does is told by the host of the page that is asked for ([`Target`]), who asks by
//! the credential: `good-key`, `bad-key`, `spent-key`, `busy-key`.

mod by_get;
mod by_post;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

pub const PAGE: &str = "<html><meta charset=iso-8859-1><title>Café</title><h1>Hello</h1></html>";
pub const CAPTCHA: &str = "<html><title>Robot Check</title><p>Type the letters.</p></html>";
pub const WALL: &str = "<html><h1>Access Denied</h1><p>You shall not pass.</p></html>";

/// What the page that is asked for does when a vendor goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// 200 with a page.
    Page,
    /// 404.
    Missing,
    /// 429, wanting to be left alone for a while.
    Busy,
    /// 408: the target says itself that the time is used up.
    Late,
    /// 403 with a page that says no.
    Walled,
    /// 200 with a captcha.
    Captcha,
    /// 500.
    Broken,
    /// No such host.
    Dead,
    /// Nothing at all.
    Hang,
}

impl Target {
    /// `http://missing.test/` is missing.
    pub fn of(url: &str) -> Target {
        let url = Url::parse(url).unwrap_or_else(|e| panic!("a vendor was given {url:?} as the URL: {e}"));
        match url.host_str().unwrap_or_default().split('.').next().unwrap_or_default() {
            "page" => Target::Page,
            "missing" => Target::Missing,
            "busy" => Target::Busy,
            "late" => Target::Late,
            "walled" => Target::Walled,
            "captcha" => Target::Captcha,
            "broken" => Target::Broken,
            "dead" => Target::Dead,
            "hang" => Target::Hang,
            other => panic!("a vendor was sent to an unknown target {other}"),
        }
    }

    /// The name under which [`Target::of`] knows it.
    pub fn name(self) -> String {
        format!("{self:?}").to_ascii_lowercase()
    }

    /// Status and body, when it answers.
    pub fn answer(self) -> Option<(u16, &'static str)> {
        Some(match self {
            Target::Page => (200, PAGE),
            Target::Missing => (404, "<title>Not here</title>"),
            Target::Busy => (429, "<title>Slow down</title>"),
            Target::Late => (408, "<title>Too late</title>"),
            Target::Walled => (403, WALL),
            Target::Captcha => (200, CAPTCHA),
            Target::Broken => (500, "<title>Oops</title>"),
            Target::Dead | Target::Hang => return None,
        })
    }
}

/// A request as a vendor sees it.
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Asked {
    /// A parameter of the query.
    pub fn param(&self, name: &str) -> Option<&str> {
        let mut found = self.query.iter().filter(|(own, _)| own == name);
        let first = found.next();
        assert!(found.next().is_none(), "{name} is given twice");
        first.map(|(_, value)| value.as_str())
    }

    /// A parameter that is `true`; one that is neither true nor false is a mistake.
    pub fn is(&self, name: &str) -> bool {
        match self.param(name) {
            Some("true" | "1") => true,
            None | Some("false" | "0") => false,
            Some(other) => panic!("{name}={other}"),
        }
    }

    /// Puts the page of the target that the script has chosen in the place of the one that was asked for.
    fn play(&mut self, script: &Script) {
        let country = ["country", "country_code", "geoCode"].iter().find_map(|name| self.param(name));
        let country = country.or(self.body["geolocation"].as_str());
        let Some(url) = self.param("url").or(self.body["url"].as_str()) else { return };
        let played = format!("http://{}.test/", script(url, country).name());
        if let Some((_, url)) = self.query.iter_mut().find(|(name, _)| name == "url") {
            *url = played;
        } else {
            self.body["url"] = played.into();
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The user and password of `Authorization: Basic`.
    pub fn basic(&self) -> (String, String) {
        use base64::Engine;
        let text = self.header("authorization").and_then(|v| v.strip_prefix("Basic ")).unwrap_or_default();
        let text = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
        let text = String::from_utf8(text).unwrap_or_default();
        text.split_once(':')
            .map(|(user, password)| (user.to_owned(), password.to_owned()))
            .unwrap_or_default()
    }

    /// The token of `Authorization: Bearer`.
    pub fn bearer(&self) -> &str {
        self.header("authorization").and_then(|v| v.strip_prefix("Bearer ")).unwrap_or_default()
    }
}

/// Decides what a vendor meets, from the page that it is asked for and the country that it is to come from.
pub type Script = Box<dyn Fn(&str, Option<&str>) -> Target + Send + Sync>;

/// What a vendor answers; none: nothing, for ever.
pub type Told = Option<Reply>;

pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<String>) -> Reply {
        Reply { status, headers: Vec::new(), body: body.into() }
    }

    pub fn html(status: u16, body: &str) -> Reply {
        Reply::new(status, body).with("content-type", "text/html; charset=utf-8")
    }

    pub fn json(status: u16, body: Value) -> Reply {
        Reply::new(status, body.to_string()).with("content-type", "application/json")
    }

    pub fn with(mut self, name: &str, value: impl ToString) -> Reply {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }
}

/// One vendor.
#[derive(Clone, Copy)]
pub struct Vendor {
    /// The adapter's id.
    pub id: &'static str,
    pub answer: fn(&Asked) -> Told,
}

pub const SCRAPERAPI: Vendor = Vendor { id: "scraperapi", answer: by_get::scraperapi };
pub const SCRAPINGBEE: Vendor = Vendor { id: "scrapingbee", answer: by_get::scrapingbee };
pub const SCRAPFLY: Vendor = Vendor { id: "scrapfly", answer: by_get::scrapfly };
pub const ZENROWS: Vendor = Vendor { id: "zenrows", answer: by_get::zenrows };
pub const SCRAPEOPS: Vendor = Vendor { id: "scrapeops", answer: by_get::scrapeops };
pub const SCRAPEDO: Vendor = Vendor { id: "scrapedo", answer: by_get::scrapedo };
pub const BRIGHTDATA: Vendor = Vendor { id: "brightdata", answer: by_post::brightdata };
pub const ZYTE: Vendor = Vendor { id: "zyte", answer: by_post::zyte };
pub const OXYLABS: Vendor = Vendor { id: "oxylabs", answer: by_post::oxylabs };
pub const FIRECRAWL: Vendor = Vendor { id: "firecrawl", answer: by_post::firecrawl };

/// A vendor at work; it ends when this is dropped.
pub struct Simulator {
    pub address: SocketAddr,
    /// What could not have been meant: a request that no such vendor would understand.
    mistakes: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<usize>>,
    accepting: JoinHandle<()>,
}

impl Simulator {
    pub async fn open(vendor: Vendor) -> Simulator {
        Simulator::start(vendor, None).await
    }

    /// A vendor whose targets behave by a script, and not by their names.
    pub async fn playing(vendor: Vendor, script: Script) -> Simulator {
        Simulator::start(vendor, Some(script)).await
    }

    async fn start(vendor: Vendor, script: Option<Script>) -> Simulator {
        let script = Arc::new(script);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let (mistakes, asked): (Arc<Mutex<Vec<String>>>, Arc<Mutex<usize>>) = Default::default();
        let (noted, counted) = (mistakes.clone(), asked.clone());
        let accepting = tokio::spawn(async move {
            // Connections end with the vendor.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (noted, counted, script) = (noted.clone(), counted.clone(), script.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        *counted.lock().unwrap() += 1;
                        answer(vendor, request, noted.clone(), script.clone())
                    });
                    let http = hyper::server::conn::http1::Builder::new()
                        .timer(TokioTimer::new())
                        .serve_connection(TokioIo::new(stream), service);
                    let _ = http.await;
                });
            }
        });
        Simulator { address, mistakes, asked, accepting }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests came.
    pub fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }

    /// Fails the test when a request came that the vendor would not have understood.
    pub fn assert_understood(&self) {
        let mistakes = self.mistakes.lock().unwrap();
        assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(
    vendor: Vendor,
    request: Request<Incoming>,
    mistakes: Arc<Mutex<Vec<String>>>,
    script: Arc<Option<Script>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut asked = Asked {
        query: url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect(),
        path: head.uri.path().to_owned(),
        method: head.method,
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    if let Some(script) = script.as_ref() {
        asked.play(script);
    }
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (vendor.answer)(&asked)));
    let reply = match said {
        Ok(Some(reply)) => reply,
        Ok(None) => std::future::pending().await,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            mistakes.lock().unwrap().push(format!("{}: {}", vendor.id, text.unwrap_or_default()));
            Reply::new(400, "the simulator does not understand this")
        }
    };
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(reply.body))).expect("a valid answer"))
}
