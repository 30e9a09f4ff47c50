//! Making, canceling and repeating jobs: the rules, inside the caller's transaction.

use super::batch::{self, BATCHES};
use super::changes::put;
use super::dispatch::Dispatcher;
use super::rows::{BY_EXTERNAL_ID, JOBS, JobV2, OptionsV1};
use super::signed_in;
use super::walks::{self, WALKS, WalkV3};
use crate::features::billing::{self, Plans};
use crate::features::site_sessions;
use crate::features::urls;
use crate::features::workflows::{self, Connected, Graphs, ProviderDirectory, WorkflowV1};
use base::codec::Json;
use base::ids::{BatchId, BenchmarkId, JobId, ProviderId, SiteSessionId, UrlId, WorkflowId};
use base::limits::{JOB_HEADERS_BYTES_MAX, TAG_CHARS_MAX, TAGS_MAX};
use base::name::Name;
use base::printable::has_hidden;
use base::terms::{JobStatus, PageType};
use base::web::{URL_BYTES_MAX, WebUrl};
use base::{Code, Error, Result, labels};
use dispatch::dag::Tariff;
use fetch::AddressGuard;
use ring::digest::{SHA256, digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use store::{OrgRead, OrgWrite};

/// A fetch may take at least this long, ms.
const TIMEOUT_MS_MIN: u32 = 100;
/// A fetch may take at most this long, ms.
const TIMEOUT_MS_MAX: u32 = 120_000;
/// Unless the job says otherwise, ms.
const TIMEOUT_MS_DEFAULT: u32 = 30_000;
/// Header lines a job may add.
const HEADERS_MAX: usize = 32;
/// Bytes of one header's value.
const HEADER_BYTES_MAX: usize = 4_096;
/// Characters of an external id (data/docs/api.md, "Idempotency").
const EXTERNAL_ID_CHARS_MAX: usize = 128;
const PRIORITY_DEFAULT: u8 = 5;

/// What submitting and canceling need beside the transaction: prices, plans, graphs, and who runs jobs. Hung up in the
/// services.
pub struct SubmitContext {
    pub plans: Arc<Plans>,
    pub directory: Arc<ProviderDirectory>,
    pub graphs: Arc<Graphs>,
    pub dispatcher: Arc<Dispatcher>,
}

/// A job as a caller asks for it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewJob {
    /// The page; or name a registered one by `urlId`.
    #[serde(default)]
    #[schemars(length(min = 1, max = URL_BYTES_MAX))]
    pub url: Option<String>,
    #[serde(default)]
    pub url_id: Option<UrlId>,
    #[serde(default)]
    pub workflow_id: Option<WorkflowId>,
    #[serde(default)]
    pub page_type: Option<PageType>,
    /// 0 (last) to 9 (first); 5 unless said otherwise.
    #[serde(default)]
    #[schemars(range(max = 9))]
    pub priority: Option<u8>,
    #[serde(default)]
    pub options: Option<NewOptions>,
    #[serde(default)]
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// At most 16 KiB of JSON.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// Unique in the organization: makes a retry safe.
    #[serde(default)]
    #[schemars(length(min = 1, max = EXTERNAL_ID_CHARS_MAX))]
    pub external_id: Option<String>,
}

/// How the page is to be fetched.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewOptions {
    #[serde(default)]
    pub render: Option<bool>,
    /// ISO 3166-1 alpha-2.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[A-Za-z]{2}$"))]
    pub country: Option<String>,
    #[serde(default)]
    pub premium: Option<bool>,
    /// Header lines to send: at most 32, of 4,096 bytes each and 16 KiB together. Those that the box writes itself are
    /// refused: `Host`, `Content-Length`, `Transfer-Encoding`, `Trailer`, `Expect`, `Connection`, `Keep-Alive`,
    /// `Proxy-Connection`, `HTTP2-Settings`, `TE`, `Upgrade`, `Proxy-Authenticate`, `Proxy-Authorization`, `Accept-Encoding`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = HEADERS_MAX))]
    pub headers: Option<BTreeMap<String, String>>,
    /// 30,000 unless said otherwise.
    #[serde(default)]
    #[schemars(range(min = TIMEOUT_MS_MIN, max = TIMEOUT_MS_MAX))]
    pub timeout_ms: Option<u32>,
    /// The site session that the page is asked for with, of the URL's domain; the URL's own unless said otherwise.
    // Left out where there is none: it stands in the hashes of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_session_id: Option<SiteSessionId>,
}

impl fmt::Debug for NewOptions {
    /// Of the headers the names: what a job is sent with may be a login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.iter().flat_map(BTreeMap::keys).collect();
        let timeout_ms = &self.timeout_ms;
        f.debug_struct("NewOptions")
            .field("headers", &names)
            .field("timeout_ms", timeout_ms)
            .finish_non_exhaustive()
    }
}

/// A job whose own values were checked; what it refers to is checked when it is written.
pub struct CheckedJob {
    target: JobTarget,
    request: NewJob,
    options: OptionsV1,
    tags: Vec<String>,
    metadata: Json,
    request_hash: Option<[u8; 32]>,
    field: String,
}

enum JobTarget {
    Url(WebUrl),
    Registered(UrlId),
}

/// Checks everything that can be told without the store. `field` is what stands before a field's name in an error:
/// empty, or `jobs[3].`.
pub fn check(field: &str, request: NewJob, guard: &AddressGuard) -> Result<CheckedJob> {
    let name = |part: &str| format!("{field}{part}");
    if request.priority.is_some_and(|priority| priority > 9) {
        return Err(Error::invalid(&name("priority"), "must be 0 to 9"));
    }
    let target = match (&request.url, request.url_id) {
        (Some(_), Some(_)) => return Err(Error::invalid(&name("url"), "give either url or urlId, not both")),
        (None, None) => return Err(Error::invalid(&name("url"), "is missing; give url or urlId")),
        (None, Some(id)) => JobTarget::Registered(id),
        (Some(text), None) => JobTarget::Url(checked_url(&name("url"), text, guard)?),
    };
    if let Some(id) = &request.external_id
        && (id.is_empty() || id.chars().count() > EXTERNAL_ID_CHARS_MAX || has_hidden(id))
    {
        let reason = format!(
            "must be 1 to {EXTERNAL_ID_CHARS_MAX} characters without control characters, and such as turn the direction of text"
        );
        return Err(Error::invalid(&name("externalId"), reason));
    }
    let request_hash = match &request.external_id {
        None => None,
        Some(_) => Some(hash(&request)?),
    };
    Ok(CheckedJob {
        target,
        options: options(&name("options"), request.options.clone().unwrap_or_default())?,
        tags: labels::tags(&name("tags"), request.tags.clone().unwrap_or_default())?,
        metadata: labels::metadata(&name("metadata"), request.metadata.clone())?,
        request_hash,
        request,
        field: field.to_owned(),
    })
}

/// A URL that may be fetched as far as its text tells. What a name resolves to is checked when it is connected to.
fn checked_url(field: &str, text: &str, guard: &AddressGuard) -> Result<WebUrl> {
    let refuse = |reason: String| Error::new(Code::InvalidUrl).message(format!("{field}: {reason}"));
    let url = WebUrl::parse(text).map_err(|e| refuse(e.to_string()))?;
    guard.check_literal(&url).map_err(|refused| refuse(refused.to_string()))?;
    Ok(url)
}

/// Checked options; `field` is what they are called in an error.
pub fn options(field: &str, given: NewOptions) -> Result<OptionsV1> {
    let name = |part: &str| format!("{field}.{part}");
    let timeout_ms = given.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
    if !(TIMEOUT_MS_MIN..=TIMEOUT_MS_MAX).contains(&timeout_ms) {
        return Err(Error::invalid(
            &name("timeoutMs"),
            format!("must be {TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX}"),
        ));
    }
    let country = given.country.map(|code| code.to_ascii_uppercase());
    if country.as_ref().is_some_and(|code| code.len() != 2 || !code.bytes().all(|b| b.is_ascii_uppercase())) {
        return Err(Error::invalid(&name("country"), "must be a country code of two letters, such as DE"));
    }
    let headers = given.headers.unwrap_or_default();
    if headers.len() > HEADERS_MAX {
        return Err(Error::invalid(&name("headers"), format!("at most {HEADERS_MAX} are sent")));
    }
    let bytes: usize = headers.iter().map(|(header, value)| header.len() + value.len()).sum();
    if bytes > JOB_HEADERS_BYTES_MAX {
        let reason = format!("take {bytes} bytes together; at most {JOB_HEADERS_BYTES_MAX} are sent");
        return Err(Error::invalid(&name("headers"), reason));
    }
    let mut names = HashSet::new();
    for (header, value) in &headers {
        let refused = |reason: String| Err(Error::invalid(&name(&format!("headers.{header}")), reason));
        let Ok(parsed) = http::HeaderName::from_bytes(header.as_bytes()) else {
            return refused("is not a valid header line: this is no header's name".to_owned());
        };
        if value.len() > HEADER_BYTES_MAX {
            return refused(format!("is not a valid header line: at most {HEADER_BYTES_MAX} bytes are sent"));
        }
        if http::HeaderValue::from_str(value).is_err() {
            return refused(
                "is not a valid header line: only visible characters of ASCII are sent".to_owned(),
            );
        }
        if let Some(reason) = fetch::headers::refusal(&parsed) {
            return refused(reason);
        }
        // Of two the first would be gone without a word: a request has one line of each name here.
        if !names.insert(parsed) {
            return refused("is given twice; upper and lower case are one".to_owned());
        }
    }
    Ok(OptionsV1 {
        render: given.render.unwrap_or(false),
        country,
        premium: given.premium.unwrap_or(false),
        headers: headers.into_iter().collect(),
        timeout_ms,
    })
}

/// The same for all spellings of one request: the order of an object's members says nothing (RFC 8259, 4), and a client
/// that builds the metadata of a retry anew may well give another one.
fn hash(request: &NewJob) -> Result<[u8; 32]> {
    let mut value = serde_json::to_value(request).map_err(|e| Error::internal("hash a request", e))?;
    value.sort_all_objects();
    Ok(sha256(value.to_string().as_bytes()))
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// A job, and whether this request made it.
pub struct Submitted {
    pub job: JobV2,
    pub is_new: bool,
}

/// Writes the jobs, reserves their credits and puts them into the queue: one operation, durable when it returns, all or
/// none. A job that its external id knows already is given back as it is; the others are the batch, if one is wanted.
pub fn submit(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    all: Vec<CheckedJob>,
    batch: Option<(BatchId, Option<Name>)>,
) -> Result<Vec<Submitted>> {
    refuse_rivals(&all)?;
    let mut id = None;
    if let Some((batch, name)) = batch
        && has_new(tx, &all)?
    {
        batch::make(tx, batch, name.map(Name::into_string))?;
        id = Some(batch);
    }
    let all = all.into_iter().map(|new| write(tx, context, new, id)).collect::<Result<Vec<_>>>()?;
    pay(tx, context, all.iter().filter(|one| one.is_new).map(|one| &one.job))?;
    Ok(all)
}

/// Whether any of them was not submitted before.
fn has_new(tx: &OrgRead<'_>, all: &[CheckedJob]) -> Result<bool> {
    for new in all {
        match &new.request.external_id {
            Some(id) if tx.exists(&BY_EXTERNAL_ID, id)? => {}
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Of two in one request that share an external id and ask for different things neither has a job that could be named.
fn refuse_rivals(all: &[CheckedJob]) -> Result<()> {
    let mut known: HashMap<&str, &CheckedJob> = HashMap::new();
    for new in all {
        let Some(id) = &new.request.external_id else { continue };
        let first = *known.entry(id).or_insert(new);
        if first.request_hash != new.request_hash {
            return Err(Error::conflict(format!(
                "{}externalId: {} has the same one and another body",
                new.field,
                first.field.trim_end_matches('.')
            )));
        }
    }
    Ok(())
}

/// Reserves what these jobs may be charged, together: a refusal tells the balance as it was before the first of them. The
/// dispatcher hears of them when they are durable, whoever waits for the answer.
fn pay<'j>(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    jobs: impl Iterator<Item = &'j JobV2> + Clone,
) -> Result<()> {
    let wanted: Vec<_> = jobs.clone().map(|job| (job.id, job.credits_reserved)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let account = billing::account(tx)?;
    billing::reserve(tx, billing::plan_of(&context.plans, &account)?, &wanted)?;
    context.dispatcher.queued_after(tx, jobs);
    Ok(())
}

/// Writes one job; its credits are the caller's to reserve.
fn write(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    new: CheckedJob,
    batch: Option<BatchId>,
) -> Result<Submitted> {
    if let (Some(id), Some(hash)) = (&new.request.external_id, new.request_hash)
        && let Some(first) = tx.lookup(&JOBS, &BY_EXTERNAL_ID, id)?
    {
        if first.request_hash == Some(hash) {
            return Ok(Submitted { job: first, is_new: false });
        }
        return Err(Error::conflict(format!(
            "{}externalId: belongs to job {} with another body",
            new.field, first.id
        )));
    }
    urls::check_page_type(tx, &format!("{}pageType", new.field), new.request.page_type)?;
    let (url, registered) = match new.target {
        JobTarget::Url(url) => {
            let row = urls::find(tx, &url)?;
            (url, row)
        }
        JobTarget::Registered(id) => {
            let missing = || {
                let reason = format!("{}urlId: is not a registered URL", new.field);
                Error::not_found(urls::URLS.noun()).message(reason)
            };
            let row = tx.get(&urls::URLS, &id)?.ok_or_else(missing)?;
            let url = WebUrl::parse(&row.url).map_err(|e| Error::internal("read a registered URL", e))?;
            (url, Some(row))
        }
    };
    let named = new.request.workflow_id.or(registered.as_ref().and_then(|row| row.workflow_id));
    let workflow = match named {
        None => workflows::routed(tx, &url)?,
        Some(id) => Some(named_workflow(tx, &new.field, id)?),
    };
    let field = format!("{}options.siteSessionId", new.field);
    let given = new.request.options.and_then(|options| options.site_session_id);
    let of_url = registered.as_ref().map(|row| row.id);
    let session = site_sessions::wanted(tx, &field, (given, of_url), url.domain().as_str())?;
    let job = JobV2 {
        url_id: of_url,
        priority: new.request.priority.unwrap_or(PRIORITY_DEFAULT),
        page_type: new.request.page_type.or(registered.and_then(|row| row.page_type)),
        tags: new.tags,
        metadata: new.metadata,
        external_id: new.request.external_id,
        request_hash: new.request_hash,
        batch_id: batch,
        ..new_job(tx, &url, new.options)
    };
    let job = priced(tx, context, job, (workflow, session))?;
    signed_in::put_new(tx, &job, session)?;
    Ok(Submitted { job, is_new: true })
}

/// The workflow that a job names, or that its URL does; `place` is where the job stands in the request.
fn named_workflow(tx: &OrgRead<'_>, place: &str, id: WorkflowId) -> Result<WorkflowV1> {
    let field = format!("{place}workflowId");
    let found = workflows::dispatchable(tx, id).map_err(|refused| match refused.code() {
        Code::WorkflowDisabled => {
            let reason = refused.detail().unwrap_or_default().to_owned();
            refused.message(format!("{field}: {reason}"))
        }
        _ => refused,
    });
    let missing = || {
        let reason = format!("{field}: is no workflow of this organization");
        Error::not_found(workflows::WORKFLOWS.noun()).message(reason)
    };
    found?.ok_or_else(missing)
}

/// The job, bound to the version of `workflow` that is live now, or to the built-in path, with the most that it can be
/// charged there.
pub(super) fn priced(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    mut job: JobV2,
    (workflow, session): (Option<WorkflowV1>, Option<SiteSessionId>),
) -> Result<JobV2> {
    job.workflow_id = workflow.as_ref().map(|workflow| workflow.workflow_id);
    job.workflow_version_id = workflow.as_ref().map(|workflow| workflow.version_id);
    let connected = context.directory.connected(tx)?;
    let tariff = Tariff { render: job.options.render, premium: job.options.premium };
    let most = match workflow {
        Some(workflow) => {
            workflows::bind(tx, &workflow)?;
            let price = |id: ProviderId, tariff| price_of(&connected, id, tariff);
            let graph = context.graphs.of(tx, workflow.version_id)?;
            if session.is_some() {
                let asked = graph.providers();
                signed_in::refuse_without_sender(&connected, |id| asked.contains(&id))?;
            }
            graph.credits_max(Some(tariff), price)
        }
        None if connected.is_empty() => {
            return Err(Error::conflict(
                "No provider is connected and enabled, so nothing could fetch the page. Connect one first.",
            ));
        }
        None => {
            if session.is_some() {
                signed_in::refuse_without_sender(&connected, |_| true)?;
            }
            connected.iter().map(|provider| provider.price(tariff)).max().unwrap_or(0)
        }
    };
    job.credits_reserved = most;
    Ok(job)
}

fn price_of(connected: &[Connected], id: ProviderId, tariff: Tariff) -> u64 {
    // One that was disconnected delivers nothing, so it charges nothing.
    connected.iter().find(|provider| provider.id == id).map_or(0, |provider| provider.price(tariff))
}

/// Jobs that each ask one provider for one page and make no result: a benchmark's probes.
pub fn probe(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    benchmark: BenchmarkId,
    urls: &[WebUrl],
    providers: &[Connected],
) -> Result<()> {
    let options = options("options", NewOptions::default())?;
    let tariff = Tariff { render: options.render, premium: options.premium };
    let mut jobs = Vec::with_capacity(urls.len() * providers.len());
    for url in urls {
        for provider in providers {
            let job = JobV2 {
                benchmark_id: Some(benchmark),
                credits_reserved: provider.price(tariff),
                ..new_job(tx, url, options.clone())
            };
            let row = WalkV3 { chain: Some(vec![provider.id]), ..WalkV3::default() };
            tx.put(&WALKS, &job.id, &row)?;
            put(tx, &job, None)?;
            jobs.push(job);
        }
    }
    pay(tx, context, jobs.iter())
}

pub(super) fn new_job(tx: &OrgRead<'_>, url: &WebUrl, options: OptionsV1) -> JobV2 {
    JobV2 {
        id: JobId::new(),
        domain: url.domain().as_str().to_owned(),
        url: url.as_str().to_owned(),
        url_id: None,
        workflow_id: None,
        workflow_version_id: None,
        schedule_id: None,
        schedule_run_id: None,
        benchmark_id: None,
        status: JobStatus::Queued,
        priority: PRIORITY_DEFAULT,
        page_type: None,
        options,
        tags: Vec::new(),
        metadata: Json(Value::Object(Map::new())),
        external_id: None,
        request_hash: None,
        attempts: Vec::new(),
        result_id: None,
        credits_reserved: 0,
        credits_charged: 0,
        error: None,
        created_at: tx.now(),
        started_at: None,
        finished_at: None,
        run_at: tx.moment(),
        run: 0,
        lease_until: None,
        batch_id: None,
        retried_as: None,
    }
}

/// Ends a job that has not ended, and its run as soon as that is durable, whoever waits for the answer.
pub fn cancel_job(tx: &OrgWrite<'_>, context: &SubmitContext, id: JobId) -> Result<JobV2> {
    let job = cancel(tx, id)?;
    context.dispatcher.abandon_after(tx, id);
    Ok(job)
}

/// Ends a job that has not ended; its reserve returns. A run that is under way finds out when it wants to finish.
pub(super) fn cancel(tx: &OrgWrite<'_>, id: JobId) -> Result<JobV2> {
    let mut job = tx.require(&JOBS, &id)?;
    if job.status.has_ended() {
        return Err(Error::new(Code::JobTerminal).message(format!("The job has {}.", job.status)));
    }
    let was = std::mem::replace(&mut job.status, JobStatus::Canceled);
    job.finished_at = Some(tx.now());
    job.lease_until = None;
    walks::forget(tx, id)?;
    billing::settle(tx, job.id, job.made(tx.clock()), job.credits_reserved, 0)?;
    if let Some(url) = job.url_id.filter(|_| job.benchmark_id.is_none()) {
        urls::note_job(tx, url, job.id, job.status, None)?;
    }
    put(tx, &job, Some(was))?;
    Ok(job)
}

/// A new job that asks for what an ended one asked for.
pub fn retry(tx: &OrgWrite<'_>, context: &SubmitContext, id: JobId) -> Result<JobV2> {
    let old = tx.require(&JOBS, &id)?;
    if !old.status.has_ended() {
        return Err(Error::conflict(format!(
            "The job is {}; only one that has ended is run again.",
            old.status
        )));
    }
    if old.benchmark_id.is_some() {
        return Err(Error::conflict("The job is a benchmark's probe; start another benchmark instead."));
    }
    let (mut job, session) = repeated(tx, context, &old)?;
    // What is asked for again outside of a batch that was canceled is no part of it.
    let batch = job.batch_id.map(|batch| tx.get(&BATCHES, &batch)).transpose()?.flatten();
    let is_open = batch.is_some_and(|batch| batch.check_open().is_ok());
    job.batch_id = job.batch_id.filter(|_| is_open);
    signed_in::put_new(tx, &job, session)?;
    if is_open && old.status == JobStatus::Failed && old.retried_as.is_none() {
        batch::note_retried(tx, &old)?;
        tx.put(&JOBS, &id, &JobV2 { retried_as: Some(job.id), ..old })?;
    }
    pay(tx, context, std::iter::once(&job))?;
    Ok(job)
}

/// A new job that asks for what `old` asked for, not written yet, with the most that it can be charged; and as whom.
pub(super) fn repeated(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    old: &JobV2,
) -> Result<(JobV2, Option<SiteSessionId>)> {
    let url = WebUrl::parse(&old.url).map_err(|e| Error::internal("read a job's URL", e))?;
    // The workflow that it walked, as it is now; one that was taken out of service is not asked for again.
    let walked = match old.workflow_id {
        Some(id) => tx.get(&workflows::WORKFLOWS, &id)?.filter(WorkflowV1::is_published),
        None => None,
    };
    let workflow = match walked {
        Some(workflow) => Some(workflow),
        None => workflows::routed(tx, &url)?,
    };
    let session = signed_in::of_old(tx, old)?;
    let job = JobV2 {
        id: JobId::new(),
        status: JobStatus::Queued,
        external_id: None,
        request_hash: None,
        attempts: Vec::new(),
        result_id: None,
        credits_reserved: 0,
        credits_charged: 0,
        error: None,
        created_at: tx.now(),
        started_at: None,
        finished_at: None,
        run_at: tx.moment(),
        run: 0,
        lease_until: None,
        retried_as: None,
        ..old.clone()
    };
    Ok((priced(tx, context, job, (workflow, session))?, session))
}
