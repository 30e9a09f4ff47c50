//! One page: a context of its own, the navigation, the wait, and what stands there in the end.
//!
//! The document's requests and answers are stopped on their way (`Fetch.requestPaused`): there the box asks robots.txt,
//! counts redirects, adds the caller's own headers (to the caller's own host only) and those of a site session (to its
//! domain only; its cookies are the context's), and learns status and headers. A
//! document that is no HTML is taken as it came; no viewer of the browser's gets to dress it up. HTML runs, until it
//! has settled as the account wants it ([`Until`]) or the wait is over; then the page's tree is written out. That, and
//! the look at where the page is, happen in a world of scripts that the page's own cannot touch.
//!
//! A document larger than a page may be is given up while it comes: HTML by the browser's count of what it has
//! decompressed, anything else because no more of it is read. What scripts have made of a page is measured before it is
//! written out. So neither the browser nor the box has a multiple of that size in hand.

mod answer;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until};

use self::answer::{data_of, headers_of, is_page};
use super::gate::EgressProxy;
use super::launch::text;
use super::pool::RunningBrowser;
use super::protocol::{CallError, Client, Event, TOLD_WHEN_OVER};
use super::{PageSettings, Until};
use crate::body::BodyError;
use crate::direct::{Direct, HARMLESS, VisitPermits, is_same_place};
use crate::headers::callers_own;
use crate::{CrawlDelays, FetchError, FetchRequest, Hop, Outcome, REDIRECTS_MAX};
use base::web::WebUrl;
use std::sync::Arc;

/// How often the page is looked at anew when it goes somewhere else at the very moment of the look.
const LOOKS_MAX: usize = 3;
/// How long a context may take to be thrown away.
const DISPOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of a document that is no page is read at once.
const READ_BYTES: usize = 256 << 10;
/// Writes the page out.
const LOOK: &str = include_str!("look.js");

/// A document that arrived.
#[derive(Debug)]
pub struct Rendered {
    pub url: WebUrl,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no page.
#[derive(Debug)]
pub enum PageError {
    /// As it could happen to the box itself.
    Fetch(FetchError),
    /// The document's host, or the way there.
    Load(Outcome, String),
    /// The page is not one for a browser.
    Unsupported(String),
    /// The browser is gone.
    Gone,
}

/// What stands where the page was expected.
enum LookResult {
    Page(Box<Rendered>),
    /// Another document is on its way there.
    Elsewhere,
    TooLarge,
}

impl From<FetchError> for PageError {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

impl From<CallError> for PageError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Gone => Self::Gone,
            CallError::Refused(_) => Self::Unsupported(error.to_string()),
        }
    }
}

/// What happens on the way, kept outside the future that makes it, so that it outlives a timeout.
#[derive(Debug, Default)]
pub struct PageTrace {
    /// The page was let out: from here on what happens may be its own doing.
    pub has_begun: bool,
    pub status: Option<u16>,
    pub redirects: Vec<Hop>,
    pub crawl_delays: CrawlDelays,
}

/// A context, thrown away with everything in it when this is dropped.
struct BrowsingContext {
    browser: Arc<RunningBrowser>,
    id: String,
}

impl Drop for BrowsingContext {
    fn drop(&mut self) {
        let (browser, id) = (self.browser.clone(), std::mem::take(&mut self.id));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let params = json!({ "browserContextId": id });
            let disposed = browser.client.call(None, "Target.disposeBrowserContext", params);
            // A browser that cannot let go of a page gets no other one.
            if !matches!(tokio::time::timeout(DISPOSE_TIMEOUT, disposed).await, Ok(Ok(_))) {
                browser.retire();
            }
        });
    }
}

/// Unregisters a page's events.
struct EventSubscription<'a>(&'a Client, &'a str);

impl Drop for EventSubscription<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

/// Loads a page and gives what stands there once it has settled.
pub async fn render(
    browser: &Arc<RunningBrowser>,
    gate: &EgressProxy,
    direct: &Direct,
    request: &FetchRequest,
    settings: &PageSettings,
    trace: &mut PageTrace,
) -> Result<Rendered, PageError> {
    let client = &browser.client;
    let params = json!({
        "disposeOnDetach": true,
        "proxyServer": format!("http://{}", gate.address),
        // Not even loopback goes past the gate.
        "proxyBypassList": "<-loopback>",
    });
    let made = client.call(None, "Target.createBrowserContext", params).await?;
    let context = BrowsingContext { browser: browser.clone(), id: text(&made, "browserContextId") };
    set_cookies(client, &context, request).await?;
    let params = json!({ "url": "about:blank", "browserContextId": context.id });
    let target = text(&client.call(None, "Target.createTarget", params).await?, "targetId");
    let attached =
        client.call(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true })).await?;
    let session = text(&attached, "sessionId");
    let events = client.listen(&session);
    let _listening = EventSubscription(client, &session);
    let page = Page {
        client,
        gate,
        direct,
        request,
        settings,
        trace,
        session: &session,
        frame: &target,
        callers: callers_own(&request.headers),
        leave: VisitPermits::new(&request.url),
        asked: request.url.clone(),
        pending: None,
        current: None,
    };
    page.run(events, &browser.user_agent).await
}

/// Puts the cookies of the request's site session into the context, where the browser's own rules keep them to their hosts.
async fn set_cookies(
    client: &Client,
    context: &BrowsingContext,
    request: &FetchRequest,
) -> Result<(), CallError> {
    let session = request.session.iter();
    let cookies = session.flat_map(|session| session.cookies(&request.url)).map(|placed| {
        let cookie = placed.cookie;
        let mut param = json!({
            "name": cookie.name, "value": cookie.value, "path": cookie.path, "secure": placed.secure,
            "httpOnly": cookie.http_only,
        });
        // One for its host alone is told by a URL; `domain` is for the hosts under it, too.
        if placed.host_only || base::web::is_address(placed.host) {
            let scheme = if placed.secure { "https" } else { "http" };
            param["url"] = format!("{scheme}://{}/", placed.host).into();
        } else {
            param["domain"] = placed.host.into();
        }
        param
    });
    let cookies: Vec<Value> = cookies.collect();
    if cookies.is_empty() {
        return Ok(());
    }
    let params = json!({ "cookies": cookies, "browserContextId": context.id });
    client.call(None, "Storage.setCookies", params).await.map(drop)
}

/// A document whose answer has come, and how far its page is.
struct Document {
    url: WebUrl,
    status: u16,
    headers: HeaderMap,
    loader: String,
    is_parsed: bool,
    is_loaded: bool,
    is_idle: bool,
    /// Whether the page is on its way to another one.
    is_leaving: bool,
    /// When the wait for the rest is over; begins when it is parsed.
    settles_at: Option<Instant>,
}

struct Page<'a> {
    client: &'a Client,
    gate: &'a EgressProxy,
    direct: &'a Direct,
    request: &'a FetchRequest,
    settings: &'a PageSettings,
    trace: &'a mut PageTrace,
    session: &'a str,
    /// The main frame. Its id is the target's.
    frame: &'a str,
    callers: HeaderMap,
    leave: VisitPermits<'a>,
    /// The URL that the main frame asked for last.
    asked: WebUrl,
    /// The document that is about to be shown, and the one that is.
    pending: Option<Document>,
    current: Option<Document>,
}

impl Page<'_> {
    async fn call(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.client.call(Some(self.session), method, params).await
    }

    async fn run(mut self, mut events: Receiver<Event>, user_agent: &str) -> Result<Rendered, PageError> {
        self.call("Inspector.enable", json!({})).await?;
        self.call("Page.enable", json!({})).await?;
        self.call("Page.setLifecycleEventsEnabled", json!({ "enabled": true })).await?;
        let mut patterns = vec![
            json!({ "resourceType": "Document", "requestStage": "Request" }),
            json!({ "resourceType": "Document", "requestStage": "Response" }),
        ];
        if !self.settings.load_media {
            patterns.extend(["Image", "Media", "Font"].map(|kind| json!({ "resourceType": kind })));
        }
        self.call("Fetch.enable", json!({ "patterns": patterns })).await?;
        // For its counts only: it keeps nothing of what comes.
        self.call("Network.enable", json!({ "maxTotalBufferSize": 0, "maxResourceBufferSize": 0 })).await?;
        let own_agent = self.callers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
        let user_agent =
            own_agent.map_or_else(|| format!("{user_agent} {}", self.direct.user_agent()), str::to_owned);
        self.call("Emulation.setUserAgentOverride", json!({ "userAgent": user_agent })).await?;
        self.gate.open();
        self.trace.has_begun = true;
        let client = self.client;
        let navigation =
            client.call(Some(self.session), "Page.navigate", json!({ "url": self.request.url.as_str() }));
        let mut navigation = std::pin::pin!(navigation);
        let mut is_under_way = true;
        let mut looks = 0;
        loop {
            let settles_at = self.current.as_ref().and_then(|document| document.settles_at);
            let is_over = tokio::select! {
                event = events.recv() => match event {
                    None => return Err(self.lost()),
                    Some(event) => {
                        if let Some(rendered) = self.on(event).await? {
                            return Ok(rendered);
                        }
                        false
                    }
                },
                navigated = &mut navigation, if is_under_way => {
                    is_under_way = false;
                    let navigated = navigated?;
                    if let Some(error) = navigated["errorText"].as_str().filter(|error| !error.is_empty()) {
                        return Err(self.unloaded(error));
                    }
                    false
                }
                () = sleep_until(settles_at.unwrap_or_else(Instant::now)), if settles_at.is_some() => true,
            };
            if !(is_over || self.has_settled()) {
                continue;
            }
            match self.look().await {
                Ok(LookResult::Page(rendered)) => return Ok(*rendered),
                Ok(LookResult::TooLarge) => return Err(self.too_large()),
                // The page went elsewhere meanwhile: what comes there is the page.
                Ok(LookResult::Elsewhere) | Err(CallError::Refused(_)) if looks < LOOKS_MAX => {
                    looks += 1;
                    self.wait_again();
                }
                Ok(LookResult::Elsewhere) => {
                    return Err(PageError::Unsupported("the page does not come to rest".to_owned()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn has_settled(&self) -> bool {
        let resting = self.current.as_ref().filter(|document| !document.is_leaving);
        resting.is_some_and(|document| match self.settings.until {
            Until::Parsed => document.is_parsed,
            Until::Loaded => document.is_loaded,
            Until::Idle => document.is_loaded && document.is_idle,
        })
    }

    fn wait_again(&mut self) {
        if let Some(document) = &mut self.current {
            document.is_idle = false;
            document.settles_at = Some(Instant::now() + Duration::from_millis(500));
            document.is_loaded &= self.settings.until != Until::Loaded;
            document.is_parsed &= self.settings.until != Until::Parsed;
        }
    }

    /// The session has ended without being asked to.
    fn lost(&self) -> PageError {
        match self.client.is_gone() {
            true => PageError::Gone,
            false => PageError::Unsupported("the page crashed in the browser".to_owned()),
        }
    }

    /// Why the document did not come, in the gate's words where it knows more than the browser.
    fn unloaded(&self, error: &str) -> PageError {
        if self.gate.is_over() {
            return too_heavy(self.gate);
        }
        if let Some(failure) = self.gate.failure(&self.asked) {
            return PageError::Load(failure.outcome, failure.error);
        }
        let host = self.asked.host();
        match error {
            "net::ERR_TIMED_OUT" | "net::ERR_CONNECTION_TIMED_OUT" => {
                PageError::Load(Outcome::Timeout, format!("{host} did not answer in time"))
            }
            "net::ERR_ABORTED" => PageError::Unsupported(format!("the browser shows no page at {host}")),
            error if error.contains("CERT") || error.contains("SSL") => PageError::Load(
                Outcome::NetworkError,
                format!("the TLS handshake with {host} failed: {error}"),
            ),
            error => {
                PageError::Load(Outcome::NetworkError, format!("the browser could not load {host}: {error}"))
            }
        }
    }

    /// What an event means; a document that needs no running is the page at once.
    async fn on(&mut self, event: Event) -> Result<Option<Rendered>, PageError> {
        let Event { method, params } = event;
        match method.as_str() {
            "Fetch.requestPaused" => return self.on_paused(&params).await,
            "Page.frameNavigated" if params["frame"]["id"] == self.frame => {
                let frame = &params["frame"];
                if text(frame, "url").starts_with("chrome-error:") {
                    return Err(self.unloaded("net::ERR_FAILED"));
                }
                if let Some(mut document) = self.pending.take() {
                    document.loader = text(frame, "loaderId");
                    self.current = Some(document);
                }
            }
            "Page.lifecycleEvent" if params["frameId"] == self.frame => self.on_progress(&params),
            "Page.javascriptDialogOpening" => {
                self.client
                    .tell(self.session, "Page.handleJavaScriptDialog", json!({ "accept": true }))
                    .await;
            }
            "Inspector.targetCrashed" => return Err(self.lost()),
            TOLD_WHEN_OVER => return Err(self.too_large()),
            _ => {}
        }
        if self.gate.is_over() {
            return Err(too_heavy(self.gate));
        }
        Ok(None)
    }

    fn on_progress(&mut self, params: &Value) {
        let wait = Duration::from_millis(self.settings.wait_ms.into());
        let Some(document) =
            self.current.as_mut().filter(|document| params["loaderId"] == document.loader.as_str())
        else {
            return;
        };
        match params["name"].as_str() {
            Some("DOMContentLoaded") => {
                document.is_parsed = true;
                document.settles_at = Some(Instant::now() + wait);
            }
            Some("load") => document.is_loaded = true,
            Some("networkIdle") => document.is_idle = true,
            _ => {}
        }
    }

    async fn resume(&self, id: &str) {
        self.client.tell(self.session, "Fetch.continueRequest", json!({ "requestId": id })).await;
    }

    async fn on_paused(&mut self, params: &Value) -> Result<Option<Rendered>, PageError> {
        let id = text(params, "requestId");
        if params["resourceType"] != "Document" {
            let params = json!({ "requestId": id, "errorReason": "BlockedByClient" });
            self.client.tell(self.session, "Fetch.failRequest", params).await;
            return Ok(None);
        }
        let has_answer =
            params.get("responseStatusCode").is_some() || params.get("responseErrorReason").is_some();
        if params["frameId"] != self.frame {
            self.resume(&id).await;
            return Ok(None);
        }
        match has_answer {
            true => self.on_answer(&id, params).await,
            false => self.on_request(&id, params).await.map(|()| None),
        }
    }

    /// The main frame wants a document.
    async fn on_request(&mut self, id: &str, params: &Value) -> Result<(), PageError> {
        let url = WebUrl::parse(&text(&params["request"], "url"));
        let url = url.map_err(|source| FetchError::BadRedirect { source })?;
        if params.get("redirectedRequestId").is_some() || self.current.is_some() {
            if self.trace.redirects.len() >= REDIRECTS_MAX as usize {
                return Err(FetchError::TooManyRedirects { max: REDIRECTS_MAX }.into());
            }
            let status = self.trace.status.unwrap_or_default();
            self.trace.redirects.push(Hop { url: self.asked.clone(), status });
        }
        let connector = self.direct.connector();
        connector.guard().check_literal(&url).map_err(|refused| FetchError::Refused {
            host: url.host().to_owned(),
            literal: true,
            refused,
        })?;
        if !self.trace.redirects.is_empty() {
            self.direct.ask_leave(&mut self.leave, &url).await?;
        }
        if self.request.robots {
            self.direct.obey(&url, &mut self.trace.crawl_delays).await?;
        }
        let mut resumed = json!({ "requestId": id });
        let first = &self.request.url;
        let trusted = is_same_place(first, &url);
        let session = self.request.session.as_ref().and_then(|session| session.headers(first, &url));
        let callers = self.callers.iter().filter(|(name, _)| trusted || HARMLESS.contains(name));
        let is_callers = |name| self.callers.contains_key(name) && (trusted || HARMLESS.contains(name));
        let session = session.into_iter().flatten().filter(|(name, _)| !is_callers(name));
        let ours = callers.chain(session);
        let ours: Vec<(&HeaderName, String)> =
            ours.filter_map(|(name, value)| Some((name, value.to_str().ok()?.to_owned()))).collect();
        if !ours.is_empty() {
            let its = params["request"]["headers"].as_object().cloned().unwrap_or_default();
            let its = its
                .iter()
                .filter(|(name, _)| !ours.iter().any(|(own, _)| own.as_str().eq_ignore_ascii_case(name)));
            let its = its.map(|(name, value)| json!({ "name": name, "value": value }));
            let ours = ours.iter().map(|(name, value)| json!({ "name": name.as_str(), "value": value }));
            resumed["headers"] = its.chain(ours).collect();
        }
        self.asked = url;
        if let Some(document) = &mut self.current {
            // The page has gone on by itself; where it goes has the same time to come as this one had to settle.
            document.is_leaving = true;
            let wait = Duration::from_millis(self.settings.wait_ms.into());
            document.settles_at = Some(Instant::now() + wait);
        }
        self.client.tell(self.session, "Fetch.continueRequest", resumed).await;
        Ok(())
    }

    /// The main frame's document has been answered.
    async fn on_answer(&mut self, id: &str, params: &Value) -> Result<Option<Rendered>, PageError> {
        let status = params["responseStatusCode"].as_u64().and_then(|status| u16::try_from(status).ok());
        let Some(status) = status else {
            self.resume(id).await;
            return Ok(None);
        };
        let headers = headers_of(&params["responseHeaders"]);
        if (300..400).contains(&status) && headers.contains_key(LOCATION) {
            self.trace.status = Some(status);
            self.resume(id).await;
            return Ok(None);
        }
        self.trace.status = Some(status);
        let url = self.asked.clone();
        let max = self.settings.bytes_max;
        let announced =
            headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|bytes| bytes > max) {
            return Err(self.too_large());
        }
        if is_page(status, &headers) {
            self.client.watch(self.session, &text(params, "networkId"), max);
            let document = Document {
                url,
                status,
                headers,
                loader: String::new(),
                is_parsed: false,
                is_loaded: false,
                is_idle: false,
                is_leaving: false,
                settles_at: None,
            };
            self.pending = Some(document);
            self.resume(id).await;
            return Ok(None);
        }
        let body = match matches!(status, 204 | 205 | 304) {
            true => Bytes::new(),
            false => self.read(id).await?.ok_or_else(|| self.too_large())?,
        };
        let is_encoded = headers.contains_key(CONTENT_ENCODING);
        if !is_encoded && announced.is_some_and(|bytes| body.len() < bytes) && !body.is_empty() {
            let error = format!("{} closed the connection before the end of its answer", url.host());
            return Err(PageError::Load(Outcome::NetworkError, error));
        }
        Ok(Some(Rendered { url, status, headers, body }))
    }

    /// Reads a document that is no page, as far as it is no larger than a page may be.
    async fn read(&self, id: &str) -> Result<Option<Bytes>, CallError> {
        let taken = self.call("Fetch.takeResponseBodyAsStream", json!({ "requestId": id })).await?;
        let params = json!({ "handle": taken["stream"], "size": READ_BYTES });
        let mut body = BytesMut::new();
        loop {
            let chunk = self.call("IO.read", params.clone()).await?;
            body.extend_from_slice(&data_of(&chunk));
            if body.len() > self.settings.bytes_max {
                return Ok(None);
            }
            if chunk["eof"] == true {
                return Ok(Some(body.freeze()));
            }
        }
    }

    fn too_large(&self) -> PageError {
        FetchError::Body(BodyError::TooLarge { max: self.settings.bytes_max }).into()
    }

    /// Writes the page out, if it is the document that was expected there.
    async fn look(&mut self) -> Result<LookResult, CallError> {
        let params = json!({ "frameId": self.frame, "worldName": "gleaner" });
        let world = self.call("Page.createIsolatedWorld", params).await?;
        let expression = LOOK.replace("BYTES_MAX", &self.settings.bytes_max.to_string());
        let params = json!({
            "expression": expression, "contextId": world["executionContextId"], "returnByValue": true,
        });
        let mut looked = self.call("Runtime.evaluate", params).await?;
        let seen = &mut looked["result"]["value"];
        if self.pending.is_some() || text(seen, "at").starts_with("chrome-error:") {
            return Ok(LookResult::Elsewhere);
        }
        // Taken out and not copied: it may be large.
        let html = match seen.as_object_mut().and_then(|seen| seen.remove("html")) {
            Some(Value::String(html)) if html.len() > self.settings.bytes_max => {
                return Ok(LookResult::TooLarge);
            }
            Some(Value::String(html)) if !html.is_empty() => html,
            Some(Value::Null) => return Ok(LookResult::TooLarge),
            _ => return Err(CallError::Refused("the page could not be written out".to_owned())),
        };
        let Some(Document { url, status, mut headers, .. }) = self.current.take() else {
            return Ok(LookResult::Elsewhere);
        };
        // What is handed on was written out anew, in this charset.
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        Ok(LookResult::Page(Box::new(Rendered { url, status, headers, body: Bytes::from(html) })))
    }
}

fn too_heavy(gate: &EgressProxy) -> PageError {
    let error = format!("the page and what it loads weigh more than {} MB", gate.bytes_max() / 1_000_000);
    PageError::Load(Outcome::TargetError, error)
}
