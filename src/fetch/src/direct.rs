//! The built-in provider: the box fetches the page itself.
//!
//! One fetch is a chain of at most [`FetchSettings::redirects_max`] + 1 exchanges under one time limit. At each hop the
//! guard judges the address anew, robots.txt of that origin is asked (when it is obeyed at all), and what the caller's
//! headers carry is handed on only while the chain stays with the host that the caller named: credentials are meant
//! for whom they were given. A site session goes as far as its domain does ([`session`](super::session)). Leave to visit the first host is the caller's to have; where a redirect leads to another one,
//! the chain asks for leave itself, waits for it a little ([`LEAVE_WAIT_MAX`]), and ends where it would be long: the caller
//! is told until when, and may come again. Cookies live in a jar of the chain's own. A step down from https to http is followed, as
//! browsers do, but counts as another host.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::body::{self, BodyError, BodyLimits, Overflow};
use super::connect::{Connector, Lease, Outgoing, Resolver};
use super::cookies::CookieJar;
use super::error::FetchError;
use super::guard::AddressGuard;
use super::headers::callers_own;
use super::outcome::{Detector, Outcome};
use super::politeness::{Permit, Politeness, VisitWait};
use super::proxy::Proxy;
use super::retry_after::retry_after;
mod download;

pub use download::{Download, DownloadBody};

use super::robots::{self, Robots, RobotsAnswer, RobotsCache};
use super::session::{SiteSession, is_step_down};
use super::{CrawlDelays, FetchReport, FetchRequest, FetchSettings, Hop, PageHeaders};
use base::ids::OrgId;
use base::web::WebUrl;

/// What a page is asked for as, unless the caller says otherwise.
const ACCEPT_PAGE: HeaderValue =
    HeaderValue::from_static("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
/// The caller's headers that say something about the visitor's taste and nothing about who it is; only these go on to
/// a host that the caller did not name.
pub(super) const HARMLESS: [HeaderName; 3] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT];
/// A redirect's own body is read, for the connection's sake, when it is this small and comes this fast.
const REDIRECT_BODY_BYTES_MAX: usize = 16 * 1024;
const REDIRECT_BODY_TIMEOUT: Duration = Duration::from_millis(250);
/// A compressed body beyond this is inflated on the blocking pool: below it, inflating takes a few milliseconds.
const INLINE_BYTES_MAX: usize = 16 * 1024;
/// How long a chain waits on its way for a host that wants a pause, or whose domain has visits enough.
pub const LEAVE_WAIT_MAX: Duration = Duration::from_secs(3);
/// How soon it is looked again whether a visit of a busy domain has ended.
const LEAVE_LOOK: Duration = Duration::from_millis(20);
/// How long a host is left alone whose domain stays busy for [`LEAVE_WAIT_MAX`].
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Fetches pages from the box itself. One for the box: it owns the connection pool and the robots.txt cache.
pub struct Direct {
    connector: Arc<Connector>,
    robots: RobotsCache,
    user_agent: HeaderValue,
    robots_agent: String,
    settings: FetchSettings,
    polite: Option<Politeness>,
}

/// A chain's progress, kept outside the future that makes it, so that it outlives a timeout.
struct ChainTrace {
    /// The URL that is being asked.
    current: WebUrl,
    /// The URL that answered last.
    answered: WebUrl,
    status: Option<u16>,
    headers: HeaderMap,
    bytes_received: u64,
    redirects: Vec<Hop>,
    crawl_delays: CrawlDelays,
}

impl ChainTrace {
    fn new(url: &WebUrl) -> Self {
        Self {
            current: url.clone(),
            answered: url.clone(),
            status: None,
            headers: HeaderMap::new(),
            bytes_received: 0,
            redirects: Vec::new(),
            crawl_delays: CrawlDelays::new(),
        }
    }

    /// The failure in words; which hop it was belongs to them.
    fn describe(&self, error: &FetchError) -> String {
        let of_the_chain = matches!(
            error,
            FetchError::TooManyRedirects { .. }
                | FetchError::BadRedirect { .. }
                | FetchError::TimedOut { .. }
        );
        if self.redirects.is_empty() || of_the_chain {
            error.to_string()
        } else {
            format!("after a redirect to {}: {error}", self.current.origin())
        }
    }
}

/// Which way a chain goes.
#[derive(Clone, Copy, Default)]
pub struct FetchRoute<'a> {
    /// None: straight.
    pub proxy: Option<&'a Arc<Proxy>>,
    /// Whose word about robots.txt it is: answers that came by one way are not believed on another. Empty: the box's.
    pub scope: &'a str,
    /// Whose connections may be used again.
    pub owner: Option<OrgId>,
}

/// How a chain is followed.
struct ChainRules<'a> {
    way: FetchRoute<'a>,
    caller_headers: &'a HeaderMap,
    /// As whom the site is asked.
    session: Option<&'a SiteSession>,
    limits: BodyLimits,
    redirects_max: u32,
    robots: bool,
    /// Who is asked for leave to visit further hosts.
    polite: Option<&'a Politeness>,
    /// The content encodings that are asked for.
    encodings: HeaderValue,
}

const ACCEPT_ALL: HeaderValue = HeaderValue::from_static(body::ACCEPT_ENCODING);

impl Direct {
    /// Loads the machine's trusted certificates (file reads, some ten milliseconds).
    pub fn new(settings: FetchSettings, guard: AddressGuard) -> Self {
        let resolver = Resolver::new(&settings.hosts);
        let connector = Connector::new(guard, resolver, &settings);
        // A configured text that cannot be a header would fail every request; the box's own cannot.
        let user_agent = HeaderValue::from_str(&settings.user_agent).unwrap_or_else(|_| {
            tracing::warn!(user_agent = %settings.user_agent, "the configured user agent cannot be sent; using the default");
            HeaderValue::from_static(concat!("Gleaner/", env!("CARGO_PKG_VERSION")))
        });
        let robots_agent = robots::agent_token(user_agent.to_str().unwrap_or("Gleaner")).to_owned();
        let connector = Arc::new(connector);
        Self { connector, robots: RobotsCache::default(), user_agent, robots_agent, settings, polite: None }
    }

    /// Asks `polite` for leave where a redirect leads to another host than the caller named.
    #[must_use]
    pub fn asking(mut self, polite: Politeness) -> Self {
        self.polite = Some(polite);
        self
    }

    /// What makes its connections, for the other providers to share.
    pub fn connector(&self) -> &Arc<Connector> {
        &self.connector
    }

    /// Fetches one page. Never fails: a failure is a report. Dropping the future cancels the fetch and closes its
    /// connection.
    pub async fn fetch(&self, request: FetchRequest) -> FetchReport {
        self.fetch_by(request, FetchRoute::default()).await
    }

    /// The same by another way.
    pub async fn fetch_by(&self, request: FetchRequest, way: FetchRoute<'_>) -> FetchReport {
        let started = Instant::now();
        let mut trace = ChainTrace::new(&request.url);
        let caller_headers = callers_own(&request.headers);
        let course = ChainRules {
            way: FetchRoute { owner: request.owner, ..way },
            caller_headers: &caller_headers,
            session: request.session.as_deref(),
            limits: BodyLimits {
                received_bytes_max: self.settings.body_bytes_max,
                inflated_bytes_max: self.settings.inflated_bytes_max,
                overflow: Overflow::Refuse,
            },
            redirects_max: self.settings.redirects_max,
            robots: request.robots,
            polite: self.polite.as_ref(),
            encodings: ACCEPT_ALL,
        };
        // Boxed: the chain's state is some kilobytes, too much to carry inside every caller's future.
        let chain = Box::pin(self.follow(&course, &mut trace));
        let result = match timeout(request.timeout, chain).await {
            Ok(result) => result,
            Err(_elapsed) => Err(FetchError::TimedOut { timeout: request.timeout }),
        };
        let (trouble, asked) = match &result {
            Err(FetchError::Proxy { trouble, retry_after, .. }) => (Some(*trouble), *retry_after),
            _ => (None, None),
        };
        let failure = result.as_ref().err();
        let is_beyond_limits = failure.is_some_and(FetchError::is_beyond_limits);
        let lack = failure.and_then(FetchError::lack);
        let left_alone_until = failure.and_then(FetchError::left_alone_until);
        let (outcome, rule, error, body) = match (result, trace.status) {
            (Ok(body), Some(status)) => {
                let verdict = Detector::builtin().classify(status, &trace.headers, &body);
                let error = verdict.message(status);
                (verdict.outcome, verdict.rule, error, body)
            }
            (Ok(body), None) => (Outcome::NetworkError, None, Some("no answer".to_owned()), body),
            (Err(error), _) => {
                tracing::debug!(url = %trace.current, error = &error as &dyn std::error::Error, "fetch failed");
                (Outcome::of_error(&error), None, Some(trace.describe(&error)), Bytes::new())
            }
        };
        FetchReport {
            outcome,
            rule,
            status: trace.status,
            headers: PageHeaders::from_map(&trace.headers),
            body,
            bytes_received: trace.bytes_received,
            duration: started.elapsed(),
            error,
            retry_after: asked.or_else(|| retry_after(&trace.headers, SystemTime::now())),
            crawl_delays: trace.crawl_delays,
            redirects: trace.redirects,
            final_url: trace.answered,
            trouble,
            is_beyond_limits,
            lack,
            left_alone_until,
        }
    }

    /// Follows a chain to an answer that is no redirect, and gives that answer's body.
    async fn follow(&self, course: &ChainRules<'_>, trace: &mut ChainTrace) -> Result<Bytes, FetchError> {
        let first = trace.current.clone();
        let mut leave = VisitPermits::new(&first);
        let (status, body, lease) = self.answer(course, trace, &mut leave).await?;
        self.read_body(status, body, lease, course.limits, trace).await
    }

    /// The same with the body still to come. `leave` holds the visits of its way.
    async fn answer(
        &self,
        course: &ChainRules<'_>,
        trace: &mut ChainTrace,
        leave: &mut VisitPermits<'_>,
    ) -> Result<(StatusCode, Incoming, Lease), FetchError> {
        let first = trace.current.clone();
        let mut jar = CookieJar::of_session(course.session, &first);
        loop {
            if course.robots {
                self.obey_robots(course.way, trace).await?;
            }
            let headers = self.headers_for(&trace.current, &first, course, &jar);
            let outgoing = Outgoing {
                via: course.way.proxy,
                owner: course.way.owner,
                ..Outgoing::get(&trace.current, &headers)
            };
            let (response, lease) = self.connector.send(&outgoing).await?;
            let (head, body) = response.into_parts();
            jar.take(&trace.current, &head.headers);
            trace.answered = trace.current.clone();
            trace.status = Some(head.status.as_u16());
            trace.headers = head.headers;
            let Some(location) = redirect_target(head.status.as_u16(), &trace.headers) else {
                return Ok((head.status, body, lease));
            };
            if trace.redirects.len() >= course.redirects_max as usize {
                return Err(FetchError::TooManyRedirects { max: course.redirects_max });
            }
            let next = trace.current.join(&location).map_err(|source| FetchError::BadRedirect { source })?;
            finish_redirect(body, lease, trace).await;
            let from = std::mem::replace(&mut trace.current, next);
            trace.redirects.push(Hop { url: from, status: head.status.as_u16() });
            if let Some(polite) = course.polite {
                leave.ask(polite, &trace.current).await?;
            }
        }
    }

    async fn read_body(
        &self,
        status: StatusCode,
        body: Incoming,
        lease: Lease,
        limits: BodyLimits,
        trace: &mut ChainTrace,
    ) -> Result<Bytes, FetchError> {
        let body = match body::encodings(&trace.headers) {
            Err(error) => Err(error),
            Ok(encodings) => {
                match body::receive(body, &trace.headers, limits, &mut trace.bytes_received).await {
                    Err(error) => Err(error),
                    Ok(body) => {
                        // A truncated body leaves bytes in the connection.
                        if body.len() < limits.received_bytes_max {
                            lease.finish();
                        }
                        inflate(body, encodings, limits).await
                    }
                }
            }
        };
        match body {
            Ok(body) => Ok(body),
            // What an error page says is worth less than its status.
            Err(_) if !status.is_success() => Ok(Bytes::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// The headers of one request of the chain. `first` is the URL that the caller named.
    fn headers_for(
        &self,
        url: &WebUrl,
        first: &WebUrl,
        course: &ChainRules<'_>,
        jar: &CookieJar,
    ) -> HeaderMap {
        let callers = course.caller_headers;
        let mut headers = HeaderMap::with_capacity(callers.len() + 4);
        headers.insert(USER_AGENT, self.user_agent.clone());
        headers.insert(ACCEPT, ACCEPT_PAGE);
        for (name, value) in
            course.session.and_then(|session| session.headers(first, url)).into_iter().flatten()
        {
            headers.insert(name.clone(), value.clone());
        }
        let trusted = is_same_place(first, url);
        for name in callers.keys().filter(|name| trusted || HARMLESS.contains(name)) {
            headers.remove(name);
            for value in callers.get_all(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        headers.insert(ACCEPT_ENCODING, course.encodings.clone());
        if let Some(cookies) = jar.header_for(url) {
            let joined = match headers.get(COOKIE) {
                None => Some(cookies),
                Some(callers) => {
                    HeaderValue::from_bytes(&[callers.as_bytes(), b"; ", cookies.as_bytes()].concat()).ok()
                }
            };
            joined.and_then(|mut value| {
                value.set_sensitive(true);
                headers.insert(COOKIE, value)
            });
        }
        headers
    }

    /// Waits until a chain of redirects may go to `url`; fails where that would be long.
    pub(super) async fn ask_leave(
        &self,
        leave: &mut VisitPermits<'_>,
        url: &WebUrl,
    ) -> Result<(), FetchError> {
        match &self.polite {
            Some(polite) => leave.ask(polite, url).await,
            None => Ok(()),
        }
    }

    /// What the box calls itself.
    pub(super) fn user_agent(&self) -> &str {
        self.user_agent.to_str().unwrap_or_default()
    }

    /// Fails unless robots.txt lets the box fetch the URL; notes the pause that it asks for.
    pub(super) async fn obey(&self, url: &WebUrl, delays: &mut CrawlDelays) -> Result<(), FetchError> {
        let mut trace = ChainTrace { crawl_delays: std::mem::take(delays), ..ChainTrace::new(url) };
        let obeyed = self.obey_robots(FetchRoute::default(), &mut trace).await;
        *delays = trace.crawl_delays;
        obeyed
    }

    /// Fails unless robots.txt of the current URL's origin allows its path.
    async fn obey_robots(&self, way: FetchRoute<'_>, trace: &mut ChainTrace) -> Result<(), FetchError> {
        let url = trace.current.clone();
        let host = || url.host().to_owned();
        let key = format!("{}{}", way.scope, url.origin());
        match self.robots.get(&key, self.ask_robots(&url, way)).await? {
            RobotsAnswer::Rules(rules) => {
                note_delay(&mut trace.crawl_delays, &url, rules.crawl_delay().unwrap_or_default());
                match rules.allows(url.path_and_query()) {
                    true => Ok(()),
                    false => Err(FetchError::RobotsDisallow { host: host() }),
                }
            }
            RobotsAnswer::Unreachable { reason, outcome } => {
                Err(FetchError::RobotsUnreachable { host: host(), reason, outcome })
            }
        }
    }

    /// Fetches an origin's robots.txt. See [`robots`] for what each answer means. A refusal by the guard is an error
    /// of the page itself, and said so.
    async fn ask_robots(&self, url: &WebUrl, way: FetchRoute<'_>) -> Result<RobotsAnswer, FetchError> {
        let limits = BodyLimits {
            received_bytes_max: robots::ROBOTS_BYTES_MAX,
            inflated_bytes_max: robots::ROBOTS_BYTES_MAX,
            overflow: Overflow::Truncate,
        };
        let course = ChainRules {
            way,
            caller_headers: &HeaderMap::new(),
            // What it says is kept for everybody.
            session: None,
            limits,
            redirects_max: robots::ROBOTS_REDIRECTS_MAX,
            robots: false,
            // A robots.txt is asked for once in hours, and belongs to the visit of its host.
            polite: None,
            encodings: ACCEPT_ALL,
        };
        let url = url.join("/robots.txt").map_err(|source| FetchError::BadTarget { source })?;
        let mut trace = ChainTrace::new(&url);
        // Boxed, because a chain asks for robots.txt by another chain.
        let chain = Box::pin(self.follow(&course, &mut trace));
        let result = match timeout(robots::ROBOTS_TIMEOUT, chain).await {
            Ok(result) => result,
            Err(_elapsed) => Err(FetchError::TimedOut { timeout: robots::ROBOTS_TIMEOUT }),
        };
        let allow_all = || RobotsAnswer::Rules(Arc::new(Robots::allow_all()));
        Ok(match (result, trace.status) {
            (Ok(body), Some(200..=299)) => {
                RobotsAnswer::Rules(Arc::new(Robots::parse(&body, &self.robots_agent)))
            }
            (Ok(_), Some(status @ (429 | 500..))) => RobotsAnswer::Unreachable {
                reason: format!("it answered {status}"),
                outcome: Outcome::NetworkError,
            },
            (Ok(_), _) => allow_all(),
            (Err(FetchError::TooManyRedirects { .. } | FetchError::BadRedirect { .. }), _) => allow_all(),
            (Err(error @ FetchError::Refused { .. }), _) if trace.redirects.is_empty() => return Err(error),
            // It says nothing about the site; the next proxy may bring the answer.
            (Err(error @ FetchError::Proxy { .. }), _) => return Err(error),
            (Err(error), _) => RobotsAnswer::Unreachable {
                reason: trace.describe(&error),
                outcome: match Outcome::of_error(&error) {
                    Outcome::Timeout => Outcome::Timeout,
                    _ => Outcome::NetworkError,
                },
            },
        })
    }

    #[cfg(test)]
    pub(super) fn idle_count(&self) -> usize {
        self.connector.idle_count()
    }
}

/// Leave to visit the hosts of a chain.
pub(super) struct VisitPermits<'a> {
    first: &'a WebUrl,
    /// Hosts that the chain has leave for: going to and fro between them is one visit.
    hosts: Vec<String>,
    /// A visit of another domain than the first host's.
    visit: Option<Permit>,
}

impl<'a> VisitPermits<'a> {
    pub(super) fn new(first: &'a WebUrl) -> Self {
        Self { first, hosts: vec![first.host().to_owned()], visit: None }
    }

    /// Waits until the chain may go to `url`, or says for how long it may not.
    async fn ask(&mut self, polite: &Politeness, url: &WebUrl) -> Result<(), FetchError> {
        let (host, domain) = (url.host(), url.domain());
        if self.hosts.iter().any(|known| known == host) {
            return Ok(());
        }
        let is_visited = domain == self.first.domain()
            || self.visit.as_ref().is_some_and(|visit| *visit.domain() == domain);
        if !is_visited {
            self.visit = None;
        }
        let deadline = Instant::now() + LEAVE_WAIT_MAX;
        loop {
            let now = Instant::now();
            let asked = match is_visited {
                true => polite.enter(host, now),
                false => polite.try_acquire(&domain, host, now).map(|visit| self.visit = Some(visit)),
            };
            let until = match asked {
                Ok(()) => {
                    self.hosts.push(host.to_owned());
                    return Ok(());
                }
                Err(VisitWait::NotBefore(at) | VisitWait::HostNotBefore(at)) if at > deadline => at,
                Err(VisitWait::Busy) if now > deadline => now + BUSY_PAUSE,
                Err(VisitWait::NotBefore(at) | VisitWait::HostNotBefore(at)) => {
                    tokio::time::sleep_until(at.into()).await;
                    continue;
                }
                Err(VisitWait::Busy) => {
                    tokio::time::sleep(LEAVE_LOOK).await;
                    continue;
                }
            };
            return Err(FetchError::LeftAlone { host: host.to_owned(), until });
        }
    }
}

/// Notes what a host asks for. Of two origins of one host (http and https) the longer pause holds.
fn note_delay(delays: &mut CrawlDelays, url: &WebUrl, delay: Duration) {
    match delays.iter_mut().find(|(host, _)| host == url.host()) {
        Some((_, noted)) => *noted = delay.max(*noted),
        None => delays.push((url.host().to_owned(), delay)),
    }
}

/// Whether what the caller gave for `named` may go to `url`: the same host and port, without a step down to http. The
/// usual step up (http to https, each on its own port) stays in the same place.
pub(super) fn is_same_place(named: &WebUrl, url: &WebUrl) -> bool {
    let same_port = named.port() == url.port();
    let step_up = !named.is_https() && url.is_https() && named.port() == 80 && url.port() == 443;
    named.host() == url.host() && (same_port || step_up) && !is_step_down(named, url)
}

/// Where an answer redirects to, as written. A redirect without a place to go is an answer like any other.
fn redirect_target(status: u16, headers: &HeaderMap) -> Option<String> {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    // Servers write raw UTF-8 here, which browsers read as such.
    headers.get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Reads a redirect's body away when that is cheap, so that the connection can serve the next hop.
async fn finish_redirect(body: Incoming, lease: Lease, trace: &mut ChainTrace) {
    if body.size_hint().exact().is_none_or(|bytes| bytes > REDIRECT_BODY_BYTES_MAX as u64) {
        return;
    }
    let limits = BodyLimits {
        received_bytes_max: REDIRECT_BODY_BYTES_MAX,
        inflated_bytes_max: REDIRECT_BODY_BYTES_MAX,
        overflow: Overflow::Refuse,
    };
    let read = body::receive(body, &trace.headers, limits, &mut trace.bytes_received);
    if let Ok(Ok(_)) = timeout(REDIRECT_BODY_TIMEOUT, read).await {
        lease.finish();
    }
}

pub(super) async fn inflate(
    body: Bytes,
    encodings: Vec<body::Encoding>,
    limits: BodyLimits,
) -> Result<Bytes, BodyError> {
    let Some(&outermost) = encodings.last() else {
        return body::inflate(body, &encodings, limits);
    };
    if body.len() <= INLINE_BYTES_MAX {
        return body::inflate(body, &encodings, limits);
    }
    let task = tokio::task::spawn_blocking(move || body::inflate(body, &encodings, limits));
    // A decoder that panics on hostile input is a body that cannot be read.
    task.await.unwrap_or_else(|panic| {
        Err(BodyError::Corrupt { encoding: outermost, source: std::io::Error::other(panic) })
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).unwrap()
    }

    #[test]
    fn knows_where_credentials_belong() {
        for (named, other, same) in [
            ("http://a.com/x", "http://a.com/y", true),
            ("http://a.com/", "https://a.com/", true),
            ("https://a.com/", "http://a.com/", false),
            ("https://a.com/", "https://a.com:8443/", false),
            ("http://a.com:8080/", "https://a.com/", false),
            ("http://a.com/", "http://www.a.com/", false),
            ("http://a.com/", "http://b.com/", false),
        ] {
            assert_eq!(is_same_place(&url(named), &url(other)), same, "{named} {other}");
        }
    }
}
