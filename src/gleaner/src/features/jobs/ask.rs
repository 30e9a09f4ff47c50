//! One request of a job through one provider, and what a node and a job make of it together.

use super::rows::{AttemptV1, JobV2};
use crate::features::providers::{Availability, NOT_ASKED, PROVIDERS, ProviderV1, Providers};
use crate::features::site_sessions::{self, SessionVerdict};
use base::Result;
use base::clock::Timestamp;
use base::ids::ProviderId;
use base::trace::{self, Span, SpanKind};
use base::web::WebUrl;
use dispatch::dag::Overrides;
use fetch::session::hidden;
use fetch::{Attempt, FetchRequest, Outcome, PATIENCE, Stage};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use store::OrgStore;

/// An attempt, and who made it.
pub(super) struct MadeAttempt {
    pub provider: ProviderId,
    pub adapter: String,
    pub started_at: Timestamp,
    pub attempt: Attempt,
    /// What the answer says of the site session that was sent.
    pub verdict: Option<SessionVerdict>,
}

/// A request that went out, or waits for a place to do so.
pub(super) struct OpenRequest {
    adapter: String,
    started_at: Timestamp,
    at: Instant,
    stage: Stage,
}

impl OpenRequest {
    /// Whether it waits for a place in the browser and has asked nobody.
    pub fn only_waits(&self) -> bool {
        self.stage.has_only_waited()
    }

    /// The request, given up because another provider had answered; none where nobody was asked.
    pub fn lost(&self, provider: ProviderId) -> Option<MadeAttempt> {
        self.given_up(
            provider,
            "another provider of the race had answered; what this one has billed is not known",
        )
    }

    /// The request, given up with its job.
    fn canceled(&self, provider: ProviderId) -> Option<MadeAttempt> {
        self.given_up(provider, "the job was canceled; what the provider has billed is not known")
    }

    fn given_up(&self, provider: ProviderId, error: &str) -> Option<MadeAttempt> {
        if self.only_waits() {
            return None;
        }
        let duration = self.at.elapsed().saturating_sub(self.stage.waited(self.at));
        let attempt = Attempt { duration, ..Attempt::failed(Outcome::Canceled, error) };
        let (adapter, started_at) = (self.adapter.clone(), self.started_at());
        Some(MadeAttempt { provider, adapter, started_at, attempt, verdict: None })
    }

    /// When its time began, without the wait for a place.
    fn started_at(&self) -> Timestamp {
        self.started_at.after(self.stage.waited(self.at))
    }
}

/// What a run has done that its job's row may not say yet. It outlives the run, so that a job which is canceled under way
/// says what was asked for it.
#[derive(Default)]
pub(super) struct AttemptLog(Mutex<LoggedAttempts>);

#[derive(Default)]
struct LoggedAttempts {
    made: Vec<AttemptV1>,
    asked: Vec<PendingRequest>,
}

struct PendingRequest {
    node_id: Option<String>,
    provider: ProviderId,
    begun: Arc<OnceLock<OpenRequest>>,
}

impl AttemptLog {
    /// Somebody is about to be asked, and tells when its request goes out.
    pub fn ask(&self, node_id: Option<&str>, provider: ProviderId, begun: &Arc<OnceLock<OpenRequest>>) {
        let node_id = node_id.map(str::to_owned);
        self.0.lock().asked.push(PendingRequest { node_id, provider, begun: begun.clone() });
    }

    /// Whoever was asked and has not answered is not asked any more.
    pub fn none_open(&self) {
        self.0.lock().asked.clear();
    }

    /// An attempt came to its end.
    pub fn made(&self, begun: &Arc<OnceLock<OpenRequest>>, attempt: Option<&AttemptV1>) {
        let mut trailed = self.0.lock();
        trailed.asked.retain(|asked| !Arc::ptr_eq(&asked.begun, begun));
        trailed.made.extend(attempt.cloned());
    }

    /// The attempts of the run, those under way as canceled ones behind the others; their numbers go on from what was made
    /// before the run, `before`.
    pub fn canceled(&self, before: usize) -> Vec<AttemptV1> {
        let mut trailed = self.0.lock();
        let mut attempts = std::mem::take(&mut trailed.made);
        for asked in std::mem::take(&mut trailed.asked) {
            let canceled = asked.begun.get().and_then(|begun| begun.canceled(asked.provider));
            let Some(canceled) = canceled else { continue };
            let n = u32::try_from(before + attempts.len() + 1).unwrap_or(u32::MAX);
            attempts.push(attempt_row(n, asked.node_id, canceled));
        }
        attempts
    }

    /// Whether all that is under way is a wait for a place in the browser.
    pub fn waits_for_place(&self) -> bool {
        let trailed = self.0.lock();
        let waits = |asked: &PendingRequest| asked.begun.get().is_some_and(|begun| begun.stage.is_waiting());
        !trailed.asked.is_empty() && trailed.asked.iter().all(waits)
    }
}

/// An attempt as it is kept.
pub(super) fn attempt_row(n: u32, node_id: Option<String>, made: MadeAttempt) -> AttemptV1 {
    let MadeAttempt { provider, started_at, attempt, .. } = made;
    AttemptV1 {
        n,
        node_id,
        provider_id: provider.to_string(),
        started_at,
        duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        outcome: attempt.outcome,
        http_status: attempt.http_status,
        bytes: attempt.bytes,
        credits: attempt.credits,
        cost_source: attempt.cost_source,
        rule: attempt.rule,
        error: attempt.error,
    }
}

/// The provider, if it is connected and enabled.
pub(super) fn connected(org: &OrgStore, provider: ProviderId) -> Result<Option<ProviderV1>> {
    Ok(org.read(|tx| tx.get(&PROVIDERS, &provider))?.filter(|row| row.is_enabled))
}

/// One request through one provider, unless it cannot or must not be asked, which is its failure; or unless it rests.
pub(super) async fn ask_one(
    providers: &Providers,
    org: &OrgStore,
    (provider, rests): (ProviderId, bool),
    request: &FetchRequest,
    begun: &OnceLock<OpenRequest>,
) -> Result<MadeAttempt> {
    let started_at = org.clock().now();
    let account = match connected(org, provider)? {
        Some(row) => providers.account(org.id(), &row).map_err(|e| e.for_operator()),
        None => Err("the provider is not connected, or not enabled".to_owned()),
    };
    let adapter = account.as_ref().map(|account| account.adapter.id.clone()).unwrap_or_default();
    let not_asked = |error: String| Attempt {
        rule: Some(NOT_ASKED.to_owned()),
        ..Attempt::failed(Outcome::ProviderError, error)
    };
    let mut verdict = None;
    let attempt = match account {
        Err(error) => not_asked(error),
        Ok(account) => match providers.standing(org.id(), provider, &request.url.domain()) {
            Availability::Cooling { trouble, .. } => {
                let why = trouble.map_or(String::new(), |trouble| format!(" ({})", trouble.error));
                not_asked(format!("{} is left alone for a while{why}", account.name))
            }
            Availability::WeakHere if rests => {
                let domain = request.url.domain();
                not_asked(format!("{} rests for a while: it has failed in a row at {domain}", account.name))
            }
            _ => match account.lacks(request) {
                Some(lack) => not_asked(lack),
                None => {
                    let (adapter, stage) = (adapter.clone(), Stage::default());
                    let request = FetchRequest { stage: stage.clone(), ..request.clone() };
                    begun.get_or_init(|| OpenRequest { adapter, started_at, at: Instant::now(), stage });
                    let span = trace::child("job.attempt", SpanKind::Client);
                    let attempt = span.scope(providers.fetch(&account, request.clone())).await;
                    describe(span, &account.adapter.id, &attempt);
                    let judged = site_sessions::judge(&request, attempt).await;
                    verdict = judged.1;
                    judged.0
                }
            },
        },
    };
    let started_at = begun.get().map_or(started_at, OpenRequest::started_at);
    Ok(MadeAttempt { provider, adapter, started_at, attempt, verdict })
}

/// Says of an attempt's span what came of it, and ends it.
fn describe(mut span: Span, adapter: &str, attempt: &Attempt) {
    span.set("gleaner.adapter", adapter);
    span.set("gleaner.outcome", attempt.outcome.as_str());
    span.set("gleaner.bytes", i64::try_from(attempt.bytes).unwrap_or(i64::MAX));
    if let Some(status) = attempt.http_status {
        span.set("http.response.status_code", i64::from(status));
    }
    if attempt.outcome != Outcome::Success {
        span.fail(attempt.outcome.as_str());
    }
}

/// What a provider is asked: the job's own wishes, and what the node says instead; as nobody.
pub(super) fn request(job: &JobV2, url: &WebUrl, options: &Overrides) -> FetchRequest {
    let asked = &job.options;
    let mut headers = http::HeaderMap::new();
    for (name, value) in &asked.headers {
        // Both were checked when the job was submitted.
        if let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), value.parse()) {
            headers.insert(name, value);
        }
    }
    FetchRequest {
        owner: None,
        url: url.clone(),
        // Whatever they are, they may be a login.
        headers: hidden(headers),
        session: None,
        timeout: Duration::from_millis(options.timeout_ms.unwrap_or(asked.timeout_ms).into()),
        robots: options.robots.unwrap_or(true),
        render: options.render.unwrap_or(asked.render),
        country: options.country.clone().or_else(|| asked.country.clone()),
        premium: options.premium.unwrap_or(asked.premium),
        patience: PATIENCE,
        stage: Stage::default(),
    }
}
