//! Pages as a browser shows them: Chromium on the box, over the DevTools protocol.
//!
//! The pieces, from the wire up: [`launch`] finds and starts a browser, [`protocol`] talks to it over a pipe, [`pool`]
//! shares few browsers among many pages, [`gate`] is the only way out of one and where the address guard holds, [`page`]
//! loads one page.
//!
//! Each fetch waits for a place, which counts against none of its bounds but the request's patience. Then it has a fresh
//! context, a gate of its own, and four bounds: the request's time, the size of its document, [`WEIGHT_BYTES_MAX`] for
//! everything that the page loads, and the memory of the browser (the operator's, [`BrowserSettings`]), in which the
//! scripts of one page have a heap of their own. A page that crashes its browser's tab, or is none for a browser, is a
//! fault of the kind "unsupported": another provider may still bring it. So is one that brings down the whole browser,
//! but only when nobody else was in it: with others, each is tried again apart. The document's status, final URL and
//! headers are those of its last answer, and the detection rules read the page as it stands in the end.

pub mod gate;
pub mod launch;
pub mod page;
pub mod pool;
pub mod protocol;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::timeout;

use super::direct::Direct;
use super::outcome::{Detector, Fault, Outcome};
use super::provider::{Attempt, CreditMatrix, LEFT_ALONE, NOT_ASKED, Provider, TIER_STANDARD};
use super::retry_after::retry_after;
use super::{BODY_BYTES_MAX, FetchError, FetchReport, FetchRequest, PageHeaders};
use base::health::Part;
use gate::EgressProxy;
use page::{PageError, PageTrace, Rendered};
pub use pool::Browsers;
use pool::{BrowserEnd, PageLease};

/// What a page and everything that it loads may weigh on the wire. Heavy pages without their pictures stay under 10 MB.
pub const WEIGHT_BYTES_MAX: u64 = 50_000_000;
/// How often a page is opened: once beside others, and when the browser was lost with them, apart. A second time apart
/// only where the browser was lost before it had the page.
const TRIES: [bool; 3] = [false, true, true];

/// What the operator decides about browsers.
#[derive(Debug, Clone)]
pub struct BrowserSettings {
    /// The program; empty: the first that is found in `PATH`.
    pub executable: PathBuf,
    /// Whether it runs in its own sandbox, as it should.
    pub sandbox: bool,
    /// Pages at once, and for every four of them one more for an organization that others keep out. 0: none at all.
    pub pages: usize,
    /// What one browser may take, with all its pages.
    pub memory_bytes_max: u64,
    /// Where browsers keep their profiles while they run. What is there at the start is removed.
    pub profiles: PathBuf,
    /// Pages after which a browser is replaced: what leaks in it, leaks for so long.
    pub pages_served_max: usize,
    /// How long a browser is kept that nobody uses.
    pub idle_timeout: Duration,
}

/// No browser at all.
impl Default for BrowserSettings {
    fn default() -> Self {
        Self {
            executable: PathBuf::new(),
            sandbox: true,
            pages: 0,
            memory_bytes_max: 2 << 30,
            profiles: PathBuf::new(),
            pages_served_max: 500,
            idle_timeout: Duration::from_secs(60),
        }
    }
}

/// When a page has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Its HTML has been read.
    Parsed,
    /// What it names has been loaded.
    Loaded,
    /// And nothing has been under way for half a second.
    Idle,
}

/// What an account decides about its pages.
#[derive(Debug, Clone, Copy)]
pub struct PageSettings {
    pub until: Until,
    /// How long a page may take to settle once its HTML has been read; then it is taken as it is.
    pub wait_ms: u32,
    /// Whether pictures, films and fonts are loaded.
    pub load_media: bool,
    /// The largest page, in bytes, and in characters of its text.
    pub bytes_max: usize,
}

impl Default for PageSettings {
    fn default() -> Self {
        Self { until: Until::Idle, wait_ms: 5_000, load_media: false, bytes_max: BODY_BYTES_MAX }
    }
}

/// The box's browsers as a provider.
pub struct BrowserProvider {
    browsers: Arc<Browsers>,
    direct: Arc<Direct>,
    settings: PageSettings,
    credits: CreditMatrix,
}

/// What a fetch leaves behind, however it ends.
#[derive(Default)]
struct FetchTrace {
    trace: PageTrace,
    bytes: u64,
}

impl BrowserProvider {
    pub fn new(
        browsers: Arc<Browsers>,
        direct: Arc<Direct>,
        settings: PageSettings,
        credits: CreditMatrix,
    ) -> Self {
        Self { browsers, direct, settings, credits }
    }

    async fn fetch(&self, request: &FetchRequest) -> Attempt {
        if let Some(lack) = self.browsers.lack() {
            return Attempt::faulty(Fault::Down, lack);
        }
        for is_apart in TRIES {
            let turn = match self.turn(request, is_apart).await {
                Ok(turn) => turn,
                Err(attempt) => return attempt,
            };
            if let Some(attempt) = self.try_in(turn, request).await {
                return attempt;
            }
        }
        Attempt::faulty(Fault::Down, "the browser ended again and again before it had the page")
    }

    /// A place in a browser, or what becomes of the request without one.
    async fn turn(&self, request: &FetchRequest, is_apart: bool) -> Result<PageLease, Attempt> {
        let waiting = request.stage.wait();
        let down = |error| Attempt::faulty(Fault::Down, error);
        let place = match timeout(request.patience, self.browsers.place(request.owner)).await {
            Ok(place) => place.map_err(down)?,
            Err(_elapsed) => {
                let seconds = request.patience.as_secs();
                let error = format!("no place in the box's browser became free within {seconds} s");
                // The box's own bound, which says nothing about the account.
                let rule = Some(NOT_ASKED.to_owned());
                return Err(Attempt { rule, ..Attempt::faulty(Fault::Throttled, error) });
            }
        };
        let turn = self.browsers.open(request.owner, place, is_apart).await.map_err(down)?;
        request.stage.begin();
        drop(waiting);
        Ok(turn)
    }

    /// What becomes of the page in this browser; none where the browser was lost and nobody can tell by whose fault.
    async fn try_in(&self, turn: PageLease, request: &FetchRequest) -> Option<Attempt> {
        let begun = Instant::now();
        let mut left = FetchTrace::default();
        // Boxed: its state is some kilobytes, too much to carry inside every caller's future.
        let rendering = Box::pin(self.render(&turn, request, &mut left));
        let result = match timeout(request.timeout, rendering).await {
            Ok(result) => result,
            Err(_elapsed) => {
                Err(RenderFailure::Page(FetchError::TimedOut { timeout: request.timeout }.into()))
            }
        };
        let attempt = match result {
            Ok(rendered) => Attempt::from(delivered(rendered, &left, begun.elapsed())),
            Err(RenderFailure::Start(error)) => Attempt::faulty(Fault::Down, error),
            Err(RenderFailure::Lack(part, error)) => {
                Attempt { lack: Some(part), ..Attempt::failed(Outcome::NetworkError, error) }
            }
            Err(RenderFailure::Lost(BrowserEnd::Stopped, _)) => {
                Attempt::faulty(Fault::Down, "the box has ended its browser")
            }
            Err(RenderFailure::Lost(end, pages)) => {
                if !left.trace.has_begun {
                    return None;
                }
                self.browsers.suspect(request.owner);
                if pages > 1 {
                    return None;
                }
                let error = match end {
                    BrowserEnd::TooBig => "the page took more memory than the browser may have, and ended it",
                    _ => "the page brought the browser down",
                };
                Attempt::faulty(Fault::Unsupported, error)
            }
            Err(RenderFailure::Page(error)) => failed(error, left.trace.status),
        };
        let crawl_delays = left.trace.crawl_delays;
        Some(Attempt { crawl_delays, bytes: left.bytes, duration: begun.elapsed(), ..attempt })
    }

    async fn render(
        &self,
        turn: &PageLease,
        request: &FetchRequest,
        left: &mut FetchTrace,
    ) -> Result<Rendered, RenderFailure> {
        let gate = EgressProxy::new(self.direct.connector().clone(), request.owner, WEIGHT_BYTES_MAX).await;
        let gate = gate.map_err(|e| match Part::lacking(&e) {
            Some(part) => RenderFailure::Lack(part, e.to_string()),
            None => RenderFailure::Start(format!("the browser has no way out: {e}")),
        })?;
        let counted = CountedEgress { gate, bytes: &mut left.bytes };
        let browser = &turn.browser;
        let rendered =
            page::render(browser, &counted.gate, &self.direct, request, &self.settings, &mut left.trace)
                .await;
        rendered.map_err(|error| {
            let end = match &error {
                PageError::Fetch(_) => None,
                PageError::Gone => Some(browser.note_end(BrowserEnd::ByItself)),
                // A browser that is being ended refuses, breaks off, and is gone in the end.
                _ => browser.end(),
            };
            match end {
                Some((end, pages)) => RenderFailure::Lost(end, pages),
                None => RenderFailure::Page(error),
            }
        })
    }
}

/// Carries a gate's count out, also when the time is over.
struct CountedEgress<'a> {
    gate: EgressProxy,
    bytes: &'a mut u64,
}

impl Drop for CountedEgress<'_> {
    fn drop(&mut self) {
        *self.bytes = self.gate.bytes();
    }
}

enum RenderFailure {
    /// No browser could be had.
    Start(String),
    /// The box has none of this left.
    Lack(Part, String),
    /// The browser ended, when so many pages were open in it.
    Lost(BrowserEnd, usize),
    Page(PageError),
}

fn delivered(rendered: Rendered, left: &FetchTrace, duration: Duration) -> FetchReport {
    let Rendered { url, status, headers, body } = rendered;
    let verdict = Detector::builtin().classify(status, &headers, &body);
    FetchReport {
        outcome: verdict.outcome,
        error: verdict.message(status),
        rule: verdict.rule,
        status: Some(status),
        final_url: url,
        retry_after: retry_after(&headers, std::time::SystemTime::now()),
        headers: PageHeaders::from_map(&headers),
        body,
        bytes_received: left.bytes,
        duration,
        crawl_delays: Vec::new(),
        redirects: left.trace.redirects.clone(),
        trouble: None,
        is_beyond_limits: false,
        lack: None,
        left_alone_until: None,
    }
}

fn failed(error: PageError, status: Option<u16>) -> Attempt {
    let attempt = match error {
        PageError::Fetch(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "a page was not rendered");
            let fault = error.is_beyond_limits().then_some(Fault::Unsupported);
            Attempt {
                lack: error.lack(),
                left_alone_until: error.left_alone_until(),
                rule: error.left_alone_until().map(|_| LEFT_ALONE.to_owned()),
                fault,
                ..Attempt::failed(Outcome::of_error(&error), error.to_string())
            }
        }
        PageError::Load(outcome, error) => Attempt::failed(outcome, error),
        PageError::Unsupported(error) => Attempt::faulty(Fault::Unsupported, error),
        PageError::Gone => Attempt::faulty(Fault::Unsupported, "the page brought the browser down"),
    };
    Attempt { http_status: status, ..attempt }
}

impl Provider for BrowserProvider {
    fn fetch<'a>(&'a self, request: &'a FetchRequest) -> BoxFuture<'a, Attempt> {
        async move {
            let attempt = self.fetch(request).await;
            // It renders whether it is asked to or not.
            attempt.priced(self.credits.price(TIER_STANDARD, true), None)
        }
        .boxed()
    }
}
