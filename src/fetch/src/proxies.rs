//! Pages through proxies: an account is a list of them, and each page goes out through one.
//!
//! A page is fetched as [`Direct`] does it (redirects, cookies, robots.txt, limits), over connections that a proxy made
//! ([`tunnel`](super::proxy::tunnel); `https` targets in a tunnel, `http` ones as the proxy's own requests). One chain of redirects stays with
//! one proxy, since to the target it is one visitor.
//!
//! **Rotation.** Each page takes the next proxy in turn, or always the same one for a domain ([`Rotation`]). A proxy with a
//! trouble of its own (dead, wrong login, not paid, asked too often) is left alone for a while, by the same breakers as
//! accounts are, and the page goes to the next one at once, at most [`PROXIES_TRIED_MAX`] times: nothing has reached the
//! target yet. Troubles that may be the target's ([`ProxyFailure::Unreachable`], [`ProxyFailure::Silent`]) end the attempt; only many
//! of them in a row, without a success between, speak against the proxy, and they never leave an account without any.
//!
//! **Addresses.** The guard judges the proxy's own address like any other. What the target's name leads to is judged as
//! well, as far as the box can know it: a proxy inside the box's own network sees the same private addresses as the box,
//! so there the name is resolved here and the proxy is told the checked address, never the name; otherwise it would be
//! the proxy's answer that counts, and a name that answers differently twice would pass (DNS rebinding). What a proxy out
//! in the internet resolves is that network's, not ours; a name that leads to a closed address *here* is refused all the
//! same. The operator can trust inner proxies with names (`network.resolving_proxies`).

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::breaker::{Admission, Breaker, BreakerReport};
use super::direct::{Direct, FetchRoute};
use super::outcome::{Fault, Outcome};
use super::provider::{Attempt, CreditMatrix, Provider, TIER_STANDARD};
use super::proxy::{Proxy, ProxyFailure};
use super::{FetchReport, FetchRequest};

/// Proxies that one page tries before its attempt has failed.
pub const PROXIES_TRIED_MAX: usize = 3;
/// How long a proxy is left alone after failures in a row that may be its own, the first time and at most.
const DOUBT_PAUSE: Duration = Duration::from_secs(30);
const DOUBT_PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// What it says to the proxy's breaker.
fn breaker_report(failure: ProxyFailure, retry_after: Option<Duration>) -> BreakerReport {
    match failure {
        ProxyFailure::Unsupported => BreakerReport::Neutral,
        ProxyFailure::Unreachable | ProxyFailure::Silent => {
            BreakerReport::Bad { at_once: false, pause: DOUBT_PAUSE, pause_max: DOUBT_PAUSE_MAX }
        }
        _ => BreakerReport::on_account(failure.fault(), retry_after),
    }
}

/// Which proxy a page takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// Each page the next one.
    EachPage,
    /// All pages of a domain the same one, as long as it works.
    PerDomain,
}

/// The proxies of one account, and how they are.
#[derive(Debug)]
pub struct ProxyList {
    proxies: Vec<Arc<Proxy>>,
    rotation: Rotation,
    state: Mutex<ListState>,
}

#[derive(Debug)]
struct ListState {
    health: Vec<ProxyHealth>,
    turn: usize,
}

#[derive(Debug, Clone, Default)]
struct ProxyHealth {
    breaker: Breaker,
    last: Option<(ProxyFailure, String)>,
}

/// A proxy that is left alone for a while.
#[derive(Debug, Clone)]
pub struct CoolingProxy {
    /// Without its login.
    pub proxy: String,
    pub until: Instant,
    pub error: String,
}

/// Which proxy comes next.
enum NextProxy {
    Try(usize),
    /// All are left alone for troubles of their own; the first of them until then.
    None {
        until: Instant,
        fault: Fault,
        error: String,
    },
}

impl ProxyList {
    /// A list of at least one proxy.
    pub fn new(proxies: Vec<Proxy>, rotation: Rotation) -> Self {
        let health = vec![ProxyHealth::default(); proxies.len()];
        let proxies = proxies.into_iter().map(Arc::new).collect();
        Self { proxies, rotation, state: Mutex::new(ListState { health, turn: 0 }) }
    }

    pub fn len(&self) -> usize {
        self.proxies.len()
    }

    pub fn is_empty(&self) -> bool {
        self.proxies.is_empty()
    }

    /// Those that are left alone at the moment, in the order of the list.
    pub fn cooling(&self) -> Vec<CoolingProxy> {
        let now = Instant::now();
        let state = self.state.lock();
        let look =
            |(proxy, health): (&Arc<Proxy>, &ProxyHealth)| match (health.breaker.look(now), &health.last) {
                (Admission::NotBefore(until), Some((_, error))) => {
                    Some(CoolingProxy { proxy: proxy.to_string(), until, error: error.clone() })
                }
                _ => None,
            };
        self.proxies.iter().zip(&state.health).filter_map(look).collect()
    }

    /// The order in which the list is gone through for a page of `domain`.
    fn order(&self, domain: &str, state: &mut ListState) -> Vec<usize> {
        let count = self.proxies.len();
        match self.rotation {
            Rotation::EachPage => {
                let first = state.turn % count.max(1);
                state.turn = first + 1;
                (first..count).chain(0..first).collect()
            }
            // Highest hash first: when one proxy goes or comes, only its own domains move.
            Rotation::PerDomain => {
                let weight = |index: &usize| {
                    let mut hasher = DefaultHasher::new();
                    (domain, &self.proxies[*index]).hash(&mut hasher);
                    std::cmp::Reverse(hasher.finish())
                };
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by_cached_key(weight);
                order
            }
        }
    }

    fn next(&self, order: &[usize], tried: &[usize]) -> NextProxy {
        let now = Instant::now();
        let mut state = self.state.lock();
        let left = || order.iter().copied().filter(|index| !tried.contains(index));
        if let Some(index) = left().find(|index| state.health[*index].breaker.look(now) == Admission::Go) {
            state.health[index].breaker.ask(now);
            return NextProxy::Try(index);
        }
        let until = |index: usize| match state.health[index].breaker.look(now) {
            Admission::Go => now,
            Admission::NotBefore(until) => until,
        };
        // Doubts alone never leave an account without a proxy.
        let doubted = |index: &usize| {
            state.health[*index].last.as_ref().is_none_or(|(trouble, _)| !trouble.is_its_own())
        };
        if let Some(index) = left().filter(doubted).min_by_key(|index| until(*index)) {
            return NextProxy::Try(index);
        }
        let first = order.iter().copied().min_by_key(|index| until(*index));
        let Some(first) = first else {
            return NextProxy::None {
                until: now,
                fault: Fault::Down,
                error: "the list of proxies is empty".into(),
            };
        };
        let faults: Vec<Fault> =
            state.health.iter().filter_map(|health| health.last.as_ref()?.0.fault()).collect();
        // One that may come back by itself is enough to hope.
        let fault = faults.iter().copied().find(|fault| !fault.needs_somebody());
        let fault = fault.or(faults.first().copied()).unwrap_or(Fault::Down);
        let error = state.health[first].last.as_ref().map_or(String::new(), |(_, error)| error.clone());
        NextProxy::None { until: until(first), fault, error }
    }

    fn report(&self, index: usize, report: &FetchReport) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let health = &mut state.health[index];
        match report.trouble {
            Some(trouble) => {
                health.breaker.report(breaker_report(trouble, report.retry_after), now);
                let error = report.error.clone().unwrap_or_default();
                if trouble != ProxyFailure::Unsupported {
                    health.last = Some((trouble, error));
                }
            }
            // The target answered, so the proxy works, whatever the answer is worth.
            None if report.status.is_some() => *health = ProxyHealth::default(),
            None => health.breaker.report(BreakerReport::Neutral, now),
        }
    }
}

/// One account's proxies as a provider.
pub struct ProxyProvider {
    direct: Arc<Direct>,
    list: Arc<ProxyList>,
    /// What tells this account from others: what its proxies say of a robots.txt is believed for nobody else.
    scope: String,
    credits: CreditMatrix,
}

impl ProxyProvider {
    pub fn new(direct: Arc<Direct>, list: Arc<ProxyList>, scope: String, credits: CreditMatrix) -> Self {
        Self { direct, list, scope, credits }
    }

    async fn attempt(&self, request: &FetchRequest) -> Attempt {
        let begun = Instant::now();
        let domain = request.url.domain().to_string();
        let order = self.list.order(&domain, &mut self.list.state.lock());
        let mut tried = Vec::with_capacity(PROXIES_TRIED_MAX);
        let mut bytes = 0;
        let mut last: Option<Attempt> = None;
        while tried.len() < PROXIES_TRIED_MAX {
            let left = match tried.is_empty() {
                true => request.timeout,
                false => request.timeout.saturating_sub(begun.elapsed()),
            };
            if left.is_zero() {
                break;
            }
            let index = match self.list.next(&order, &tried) {
                NextProxy::Try(index) => index,
                // What was tried just now says more than that there is nothing else.
                NextProxy::None { .. } if last.is_some() => break,
                NextProxy::None { until, fault, error } => {
                    let pause = until.saturating_duration_since(Instant::now());
                    let error = format!(
                        "every proxy of the list is left alone for a while; the last one said: {error}"
                    );
                    return Attempt { retry_after: Some(pause), ..Attempt::faulty(fault, error) };
                }
            };
            tried.push(index);
            let way = FetchRoute {
                proxy: Some(&self.list.proxies[index]),
                scope: &self.scope,
                owner: request.owner,
            };
            let report = self.direct.fetch_by(FetchRequest { timeout: left, ..request.clone() }, way).await;
            self.list.report(index, &report);
            bytes += report.bytes_received;
            let trouble = report.trouble;
            last = Some(Attempt::from(report));
            if !trouble.is_some_and(ProxyFailure::is_its_own) {
                break;
            }
        }
        let last = last.unwrap_or_else(|| Attempt::failed(Outcome::Timeout, "no time was left for a proxy"));
        let at_fault = last.fault.is_some_and(|fault| fault != Fault::Unsupported);
        if at_fault && self.has_another(&order, &tried) {
            // While other proxies of the list stand, the troubles of some are not the account's.
            let pause = Some(Duration::from_secs(1));
            return Attempt { bytes, fault: Some(Fault::Down), retry_after: pause, ..last };
        }
        Attempt { bytes, ..last }
    }

    fn has_another(&self, order: &[usize], tried: &[usize]) -> bool {
        let (now, state) = (Instant::now(), self.list.state.lock());
        let ready = |index: &&usize| state.health[**index].breaker.look(now) == Admission::Go;
        order.iter().filter(ready).any(|index| !tried.contains(index))
    }
}

impl Provider for ProxyProvider {
    fn fetch<'a>(&'a self, request: &'a FetchRequest) -> BoxFuture<'a, Attempt> {
        async move {
            let begun = Instant::now();
            let mut attempt = self.attempt(request).await;
            attempt.duration = begun.elapsed();
            attempt.priced(self.credits.price(TIER_STANDARD, request.render), None)
        }
        .boxed()
    }
}
