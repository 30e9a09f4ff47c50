//! Fetching pages: the built-in provider `direct`, and what every provider shares.
//!
//! A provider turns a [`FetchRequest`] into a [`FetchReport`] and never into an error: whatever happens is an
//! [`Outcome`], because the dispatcher's next step depends on nothing else. The pieces, from the wire up:
//! - [`guard`]: which addresses may be connected to, in any notation, whatever the name said;
//! - [`connect`]: resolve once, check every address, connect to a checked one, TLS, HTTP/1.1 and HTTP/2, and a bounded
//!   pool of idle connections;
//! - [`body`]: reading and inflating under limits; [`cookies`]: the jar of one redirect chain;
//! - [`session`]: what a site knows somebody by, and where it goes;
//! - [`direct`]: one page: redirects, credentials, the time limit over all of it; [`robots`]: RFC 9309;
//! - [`outcome`]: the one place that says what an answer or a failure means;
//! - [`proxies`]: the same through somebody else's proxies, in turn;
//! - [`browser`]: pages as Chromium on the box shows them;
//! - [`provider`]: what the dispatcher sees of any of them: a request goes in, an attempt comes out; [`stage`]: whether a
//!   request waits for a place still;
//! - [`templates`]: the hosted providers, described in `data/providers`; [`fields`]: what their accounts are asked for;
//! - [`breaker`]: which account, and which provider at which domain, is left alone for a while;
//! - [`politeness`]: how often a registrable domain and its hosts may be visited, kept by the dispatcher around any
//!   provider.
//!
//! Invariants: no byte is sent to an address the guard has not passed; no environment variable names a proxy; bodies
//! come back as bytes (charsets are the HTML engine's); every buffer, count and wait has a limit; and dropping the
//! future of a fetch closes its connection.

pub mod body;
pub mod breaker;
pub mod browser;
pub mod connect;
pub mod cookies;
pub mod direct;
pub mod error;
pub mod fields;
pub mod guard;
pub mod headers;
pub mod outcome;
pub mod politeness;
mod post;
pub mod provider;
pub mod proxies;
pub mod proxy;
pub mod retry_after;
pub mod robots;
pub mod session;
pub mod stage;
pub mod templates;

#[cfg(test)]
mod tests;
pub mod tls;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use tokio_rustls::rustls::pki_types::CertificateDer;

use base::health::Part;
use base::ids::OrgId;
use base::web::WebUrl;

pub use breaker::{Admission, BreakerReport, Breakers};
pub use browser::{BrowserProvider, BrowserSettings, Browsers, PageSettings, Until};
pub use connect::Connector;
pub use direct::{Direct, Download, DownloadBody, FetchRoute};
pub use error::FetchError;
pub use fields::{Field, FieldError, Values};
pub use guard::{AddressGuard, AllowRule, Refused};
pub use outcome::{AnswerMeaning, Detector, Fault, Outcome, Verdict};
pub use politeness::{PauseReason, Permit, Politeness, VisitLimits, VisitWait, VisitorKind};
pub use post::{JsonPost, ServiceAnswer, ServiceRequest};
pub use provider::{
    Attempt, CostSource, CreditMatrix, DirectProvider, LEFT_ALONE, NOT_ASKED, Page, Provider, TierPrice,
};
pub use proxies::{ProxyList, ProxyProvider, Rotation};
pub use proxy::Proxy;
pub use session::{SessionCookie, SessionValues, SiteSession};
pub use stage::Stage;
pub use templates::{Hosted, Template, Templates};

/// What a page may weigh on the wire, and again once inflated. The HTML engine's budgets are made for this size.
pub const BODY_BYTES_MAX: usize = 5_000_000;
/// How many redirects are followed. Browsers stop at 20, search engines at 5 to 10.
pub const REDIRECTS_MAX: u32 = 10;
/// How long one address may take to accept a connection before the next is tried.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A fetch's whole time unless the job says otherwise.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request waits for a place (the browser's), before its own time, unless somebody says otherwise. Pages take
/// two minutes at most, so by then many have had their turn.
pub const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// What the operator decides about fetching.
#[derive(Debug, Clone)]
pub struct FetchSettings {
    /// The `User-Agent` sent unless the request carries one. Its first word is the name looked up in robots.txt.
    pub user_agent: String,
    /// `network.hosts`: names answered from here and not from DNS.
    pub hosts: HashMap<String, Vec<IpAddr>>,
    /// Certificate authorities trusted beside the machine's own, for webs behind a company's own authority.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Proxies inside the box's own network that may resolve names themselves; see [`proxies`].
    pub resolving_proxies: Vec<AllowRule>,
    /// The time one address may take to accept a connection and finish TLS.
    pub connect_timeout: Duration,
    /// The largest body on the wire, in bytes.
    pub body_bytes_max: usize,
    /// The largest body once inflated, in bytes.
    pub inflated_bytes_max: usize,
    /// How many redirects are followed.
    pub redirects_max: u32,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            user_agent: user_agent(None),
            hosts: HashMap::new(),
            extra_roots: Vec::new(),
            resolving_proxies: Vec::new(),
            connect_timeout: CONNECT_TIMEOUT,
            body_bytes_max: BODY_BYTES_MAX,
            inflated_bytes_max: BODY_BYTES_MAX,
            redirects_max: REDIRECTS_MAX,
        }
    }
}

/// The box's own `User-Agent`: `Gleaner/<version>`, and `(+<contact>)` when the operator gives a page or an address
/// at which the owner of a site can complain.
pub fn user_agent(contact: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match contact {
        Some(contact) => format!("Gleaner/{version} (+{contact})"),
        None => format!("Gleaner/{version}"),
    }
}

/// One page to fetch, by GET.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    pub url: WebUrl,
    /// Whose request it is: connections are kept and used again for the same organization only, so that nobody's request
    /// goes out on a connection that somebody else has opened (and a server has taken for somebody). None: the box's own.
    pub owner: Option<OrgId>,
    /// The caller's own headers, credentials among them. They go to the host of `url` only, never to another host
    /// that a redirect names. Those that are not the caller's to write ([`headers`]) are left out.
    pub headers: HeaderMap,
    /// As whom the site is asked. Only what fetches from the box itself sends it: no hosted provider does.
    pub session: Option<Arc<SiteSession>>,
    /// The whole time: robots.txt, DNS, connecting, redirects, the body and inflating it.
    pub timeout: Duration,
    /// Whether robots.txt is obeyed. A hosted provider has rules of its own.
    pub robots: bool,
    /// Whether the page's scripts are run before it is handed over.
    pub render: bool,
    /// From where the page is visited: an ISO 3166-1 alpha-2 code in upper case.
    pub country: Option<String>,
    /// Whether a better (and dearer) way is asked for than the provider's usual one.
    pub premium: bool,
    /// How long it may wait for a place where the box has few, as the browser has; `timeout` begins when it has one.
    pub patience: Duration,
    /// Tells whoever asks how far it is.
    pub stage: Stage,
}

impl FetchRequest {
    /// A request without headers and wishes that obeys robots.txt and may take [`FETCH_TIMEOUT`].
    pub fn new(url: WebUrl) -> Self {
        Self {
            url,
            owner: None,
            headers: HeaderMap::new(),
            session: None,
            timeout: FETCH_TIMEOUT,
            robots: true,
            render: false,
            country: None,
            premium: false,
            patience: PATIENCE,
            stage: Stage::default(),
        }
    }
}

/// What came of a fetch.
#[derive(Debug, Clone)]
pub struct FetchReport {
    pub outcome: Outcome,
    /// The detection rule that called it blocked.
    pub rule: Option<String>,
    /// The status of the last answer, when there was one.
    pub status: Option<u16>,
    /// The URL that answered last; the requested one when nothing did.
    pub final_url: WebUrl,
    pub headers: PageHeaders,
    /// The body after content decoding, in its own charset. Empty unless an answer was read to its end.
    pub body: Bytes,
    /// Body bytes on the wire, over all hops, also of bodies that were given up.
    pub bytes_received: u64,
    pub duration: Duration,
    /// What went wrong, in words fit for a customer. None on success.
    pub error: Option<String>,
    /// How long the host that answered last asked to be left alone, from now (`Retry-After`, RFC 9110).
    pub retry_after: Option<Duration>,
    /// The least pauses between two visits that the hosts of the chain ask for in their robots.txt, zero where one asks
    /// for none; hosts whose robots.txt was not read are not in it.
    pub crawl_delays: CrawlDelays,
    /// The answers that led elsewhere, in their order: as many as redirects were followed.
    pub redirects: Vec<Hop>,
    /// What was wrong with the proxy that it went through.
    pub trouble: Option<proxy::ProxyFailure>,
    /// Whether the page is beyond what this way of fetching takes: another one may take it.
    pub is_beyond_limits: bool,
    /// What the box itself had none of, which says nothing about anybody else.
    pub lack: Option<Part>,
    /// A redirect led to a host that is not to be visited before this moment; it was not.
    pub left_alone_until: Option<Instant>,
}

/// An answer that led elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The URL that answered so.
    pub url: WebUrl,
    pub status: u16,
}

/// Hosts, and the pause that the robots.txt of each asks for.
pub type CrawlDelays = Vec<(String, Duration)>;

/// The headers of a page that later stages read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageHeaders {
    pub content_type: Option<String>,
    pub content_language: Option<String>,
    pub last_modified: Option<String>,
    pub etag: Option<String>,
}

impl PageHeaders {
    fn from_map(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
        Self {
            content_type: text(http::header::CONTENT_TYPE),
            content_language: text(http::header::CONTENT_LANGUAGE),
            last_modified: text(http::header::LAST_MODIFIED),
            etag: text(http::header::ETAG),
        }
    }
}
