//! A webhook takes in what it is sent: a message of URLs, whose credential is the token in the path.
//!
//! A message is registered part by part, each with its jobs in one operation. With an id of its own (Standard Webhooks) it is
//! taken in once: how far it came stands in a row, in the transaction of each part, so that one that breaks off and is sent
//! again goes on there, and one that is done is not taken in twice.

use super::register::{defaults, next_part};
use super::rows::{
    BY_TOKEN, INPUTS, InputV1, MESSAGES, MESSAGES_BY_TIME, WEBHOOK_DAY, WebhookDayV1, WebhookMessageV1,
};
use super::token::{GivenToken, is_signed, unknown_webhook};
use super::{changes, place};
use crate::features::billing;
use crate::features::jobs::{self, BatchSource, NewOptions, RunJobs, SubmitContext, submit_part};
use crate::features::urls::{
    EntryJudge, InvalidUrl, NewUrl, UrlCandidate, UrlDefaults, UrlEntry, no_room, register_each,
};
use base::clock::Timestamp;
use base::digest::sha256;
use base::ids::{BatchId, OrgId};
use base::limits::URLS_PER_REQUEST_MAX;
use base::{Code, Error, Result};
use fetch::AddressGuard;
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use serde::{Deserialize, Serialize};
use server::task::TaskContext;
use server::{Accepted, Anonymous, Path, VerbatimBody, WebhookSignature, apart_if};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use store::{OrgStore, OrgWrite, Seek};

/// How far a message's time may be from the box's (Standard Webhooks, "Verifying").
const TOLERANCE: Duration = Duration::from_secs(300);
/// How long a message's id is known: what is sent again behind it is too old for its signature.
const KNOWN_FOR: Duration = Duration::from_secs(900);
/// Entries that are judged on the spot; more are judged apart from the threads that answer.
const ENTRIES_AT_ONCE: usize = 100;
/// Messages that are forgotten in one operation.
const FORGOTTEN_PER_WRITE: usize = 500;
const DAY_MS: i64 = 86_400_000;

/// A message of URLs: `url` or `urls`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NewMessage {
    #[serde(default)]
    url: Option<UrlEntry>,
    #[serde(default)]
    #[schemars(length(min = 1, max = URLS_PER_REQUEST_MAX))]
    urls: Option<Vec<UrlEntry>>,
}

impl NewMessage {
    fn entries(self) -> Result<Vec<UrlEntry>> {
        let entries = match (self.url, self.urls) {
            (Some(one), None) => return Ok(vec![one]),
            (None, Some(many)) => many,
            (Some(_), Some(_)) => return Err(Error::invalid("url", "give either url or urls, not both")),
            (None, None) => return Err(Error::invalid("urls", "is missing; give url or urls")),
        };
        if (1..=URLS_PER_REQUEST_MAX).contains(&entries.len()) {
            return Ok(entries);
        }
        let reason = format!("must have 1 to {URLS_PER_REQUEST_MAX} entries, not {}", entries.len());
        Err(Error::invalid("urls", reason))
    }
}

/// What became of a message.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct IngestView {
    /// URLs that are new, or known ones that gained something.
    accepted: usize,
    /// Known URLs that did not change, and repetitions within the message.
    duplicates: usize,
    invalid: Vec<InvalidUrl>,
    jobs_created: usize,
    /// Jobs that could not be made, and why the first of them could not.
    jobs_missing: usize,
    message: Option<String>,
    /// The batch of the jobs.
    batch_id: Option<BatchId>,
}

pub(super) async fn ingest(
    caller: Anonymous,
    Path(token): Path<GivenToken>,
    signature: WebhookSignature,
    VerbatimBody { value, bytes }: VerbatimBody<NewMessage>,
) -> Result<Accepted<IngestView>> {
    let entries = value.entries()?;
    let (org, input) = webhook(&caller, token)?;
    check_signature(&caller, org, &input, &signature, &bytes)?;
    if !input.is_enabled {
        return Err(Error::conflict("The webhook is switched off."));
    }
    let count = entries.len();
    let own = caller.system().org(org);
    let (judged, guard) = (own.clone(), caller.service::<AddressGuard>());
    let defaults = own.read(|tx| defaults(tx, &input))?;
    let judged = apart_if(count > ENTRIES_AT_ONCE, move || judge(&judged, entries, &defaults, &guard));
    let Judged { candidates, invalid } = judged.await??;
    if let Some(first) = invalid.first().filter(|_| candidates.is_empty()) {
        let place = if first.reason.starts_with("urls[") { "" } else { "urls[0]: " };
        return Err(Error::new(Code::InvalidUrl).message(format!("{place}{}", first.reason)));
    }
    let message = Message::of(&input, &signature, &bytes);
    let context = caller.service::<SubmitContext>();
    let (plans, begun) = (Arc::clone(&context), message.clone());
    let Some((from, batch)) = own.write(move |tx| begin(tx, &plans, &begun, count)).await? else {
        let (duplicates, message) = (candidates.len(), Some("the message was taken in before".to_owned()));
        return Ok(Accepted::new(IngestView { duplicates, invalid, message, ..IngestView::default() }));
    };
    let taking = Taking {
        own,
        context,
        input,
        message,
        batch,
        answer: IngestView { invalid, ..IngestView::default() },
    };
    Ok(Accepted::new(taking.take_in(candidates, from).await?))
}

/// The webhook behind a token. An unknown one is answered like one that cannot be.
fn webhook(caller: &Anonymous, GivenToken(digest): GivenToken) -> Result<(OrgId, InputV1)> {
    caller.system().read(|tx| {
        let (org, input) = tx.lookup_global(&INPUTS, &BY_TOKEN, digest)?.ok_or_else(unknown_webhook)?;
        if tx.is_fenced(org) { Err(unknown_webhook()) } else { Ok((org, input)) }
    })
}

/// Refuses a message whose signature is missing, wrong or old, where the webhook wants one.
fn check_signature(
    caller: &Anonymous,
    org: OrgId,
    input: &InputV1,
    given: &WebhookSignature,
    body: &[u8],
) -> Result<()> {
    let Some(sealed) = &input.signing_secret else { return Ok(()) };
    let refused = |reason: &str| Error::new(Code::AuthInvalid).message(reason.to_owned());
    let (Some(id), Some(timestamp), Some(signature)) = (&given.id, &given.timestamp, &given.signature) else {
        let wanted =
            "This webhook's messages are signed: send webhook-id, webhook-timestamp and webhook-signature.";
        return Err(refused(wanted));
    };
    let sent = timestamp.parse::<i64>().ok().and_then(|secs| secs.checked_mul(1_000)).map(Timestamp);
    let sent = sent.ok_or_else(|| refused("webhook-timestamp: is not a number of seconds since 1970"))?;
    let now = caller.now();
    if now.since(sent).max(sent.since(now)) > TOLERANCE {
        let secs = TOLERANCE.as_secs();
        return Err(refused(&format!("webhook-timestamp: is more than {secs} s from now")));
    }
    let secret = caller.service::<Keyring>().open(&place(&org, &input.id), sealed);
    let secret = secret.map_err(|e| Error::internal("open a webhook's secret", e))?;
    match is_signed(&secret, id, timestamp, body, signature) {
        true => Ok(()),
        false => Err(refused("webhook-signature: is none of this message by the webhook's secret")),
    }
}

/// A message's entries, judged.
struct Judged {
    /// Those that may become rows, each with whether it is the first with its URL.
    candidates: Vec<(UrlCandidate, bool)>,
    invalid: Vec<InvalidUrl>,
}

fn judge(
    org: &OrgStore,
    entries: Vec<UrlEntry>,
    defaults: &UrlDefaults,
    guard: &AddressGuard,
) -> Result<Judged> {
    let mut judge = EntryJudge::new(org.clone());
    let (mut candidates, mut invalid) = (Vec::with_capacity(entries.len()), Vec::new());
    let mut known = HashSet::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let entry = NewUrl::from(entry);
        let url = entry.url.clone();
        let judged = judge.judge(index, &format!("urls[{index}]."), entry, guard)?;
        match judged.and_then(|candidate| candidate.with(defaults)) {
            Ok(candidate) => {
                let is_first = known.insert(candidate.url().as_str().to_owned());
                candidates.push((candidate, is_first));
            }
            Err(reason) => invalid.push(InvalidUrl { index, url, reason }),
        }
    }
    Ok(Judged { candidates, invalid })
}

/// A message with an id of its own.
#[derive(Clone)]
struct Message {
    /// None where the sender gives it none: then each request is another message.
    key: Option<[u8; 32]>,
    row: WebhookMessageV1,
}

impl Message {
    fn of(input: &InputV1, given: &WebhookSignature, body: &[u8]) -> Message {
        let key = |id: &String| sha256(&[input.id.0.as_bytes().as_slice(), id.as_bytes()].concat());
        let row = WebhookMessageV1 {
            input_id: input.id,
            body: sha256(body),
            batch_id: BatchId::new(),
            position: 0,
            is_done: false,
            at: Timestamp(0),
        };
        Message { key: given.id.as_ref().map(key), row }
    }
}

/// Counts a new message against the day; where it goes on, and its jobs' batch. None for one that was taken in whole: its
/// sender did not hear of it and sends it again, as Standard Webhooks wants, so it must not fail.
fn begin(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    message: &Message,
    count: usize,
) -> Result<Option<(usize, BatchId)>> {
    tx.unaudited("the parts of the message have rows");
    let known = match &message.key {
        Some(key) => tx.get(&MESSAGES, key)?,
        None => None,
    };
    match known {
        Some(known) if known.body != message.row.body => {
            return Err(Error::conflict("webhook-id: belongs to a message with another body"));
        }
        Some(known) if known.is_done => return Ok(None),
        Some(known) => return Ok(Some((known.position as usize, known.batch_id))),
        None => {}
    }
    let plan = billing::account(tx)?;
    let limit = billing::plan_of(&context.plans, &plan)?.limits.webhook_urls_per_day;
    let day = tx.now().millis().div_euclid(DAY_MS);
    let today = tx.get(&WEBHOOK_DAY, &())?.filter(|known| known.day == day).map_or(0, |known| known.urls);
    let urls = today.saturating_add(count as u64);
    if urls > limit {
        return Err(
            Error::new(Code::RateLimited).message(format!("limit {limit}, today {today}, requested {count}"))
        );
    }
    tx.put(&WEBHOOK_DAY, &(), &WebhookDayV1 { day, urls })?;
    if let Some(key) = &message.key {
        tx.insert(&MESSAGES, key, &WebhookMessageV1 { at: tx.now(), ..message.row.clone() })?;
    }
    Ok(Some((0, message.row.batch_id)))
}

/// A message that is being taken in.
struct Taking {
    own: OrgStore,
    context: Arc<SubmitContext>,
    input: InputV1,
    message: Message,
    batch: BatchId,
    answer: IngestView,
}

/// Some entries of a message.
struct Part {
    /// Those of the whole message that may become rows, and which of them are meant.
    candidates: Arc<[(UrlCandidate, bool)]>,
    range: Range<usize>,
    /// From which entry of the message on, and up to which.
    from: usize,
    until: usize,
}

impl Part {
    fn is_last(&self) -> bool {
        self.range.end == self.candidates.len()
    }
}

/// What came of a part.
#[derive(Default)]
struct TakenPart {
    accepted: usize,
    duplicates: usize,
    invalid: Vec<InvalidUrl>,
    jobs: usize,
    missing: usize,
    message: Option<String>,
}

impl Taking {
    /// Registers the entries from this one on, part by part. Room is asked for a part as a whole, so one that is refused is
    /// done again in halves.
    async fn take_in(mut self, candidates: Vec<(UrlCandidate, bool)>, from: usize) -> Result<IngestView> {
        let candidates: Arc<[_]> = candidates.into();
        let (mut from, mut most) = (from, usize::MAX);
        let mut begin = candidates.partition_point(|(entry, _)| entry.index < from);
        loop {
            let sizes = candidates[begin..].iter().map(|(entry, _)| entry);
            let end = begin + next_part(sizes, self.input.submit_jobs).min(most);
            let until = candidates[begin..end].last().map_or(from, |(entry, _)| entry.index + 1);
            let part = Part { candidates: Arc::clone(&candidates), range: begin..end, from, until };
            let is_last = part.is_last();
            match self.take_part(part).await {
                Ok(()) => (from, begin) = (until, end),
                Err(full) if full.code() == Code::QuotaExceeded && end - begin > 1 => {
                    most = (end - begin) / 2;
                    continue;
                }
                // What was registered by then stays, so the answer tells of both.
                Err(full) if full.code() == Code::QuotaExceeded && self.answer.accepted > 0 => {
                    let reason = no_room(&full);
                    let left = candidates[begin..].iter().map(|(entry, _)| (entry.index, entry.text.clone()));
                    let left = left.map(|(index, url)| InvalidUrl { index, url, reason: reason.clone() });
                    self.answer.invalid.extend(left);
                    break;
                }
                Err(error) => return Err(error),
            }
            if is_last {
                break;
            }
        }
        self.answer.invalid.sort_by_key(|invalid| invalid.index);
        self.answer.batch_id = (self.answer.jobs_created > 0).then_some(self.batch);
        Ok(self.answer)
    }

    async fn take_part(&mut self, part: Part) -> Result<()> {
        let (context, input) = (Arc::clone(&self.context), self.input.clone());
        let (message, batch) = (self.message.clone(), self.batch);
        let before = [
            self.answer.accepted,
            self.answer.duplicates,
            self.answer.invalid.len(),
            self.answer.jobs_created,
        ];
        let taken = self.own.write(move |tx| {
            let taken = take_part(tx, &context, &input, &message, batch, &part)?;
            if part.is_last() {
                let [accepted, duplicates, invalid, jobs] = before;
                let invalid = invalid + taken.invalid.len();
                let counts =
                    [accepted + taken.accepted, duplicates + taken.duplicates, invalid, jobs + taken.jobs];
                changes::ingested(tx, &input, counts)?;
            }
            Ok(taken)
        });
        let taken = taken.await?;
        self.answer.accepted += taken.accepted;
        self.answer.duplicates += taken.duplicates;
        self.answer.jobs_created += taken.jobs;
        self.answer.jobs_missing += taken.missing;
        self.answer.invalid.extend(taken.invalid);
        self.answer.message = self.answer.message.take().or(taken.message);
        Ok(())
    }
}

/// Registers a part and submits its jobs, and notes how far the message came: one operation.
fn take_part(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    input: &InputV1,
    message: &Message,
    batch: BatchId,
    part: &Part,
) -> Result<TakenPart> {
    tx.unaudited("rows that are new or changed are told of where they are written");
    if let Some(key) = &message.key {
        let mut row = tx.require(&MESSAGES, key)?;
        if row.is_done || row.position as usize != part.from {
            return Err(Error::conflict("webhook-id: the message is being taken in by another request"));
        }
        row.position = u32::try_from(part.until).unwrap_or(u32::MAX);
        row.is_done = part.is_last();
        tx.put(&MESSAGES, key, &row)?;
    }
    let entries = &part.candidates[part.range.clone()];
    let firsts: HashSet<usize> =
        entries.iter().filter(|(_, is_first)| *is_first).map(|(entry, _)| entry.index).collect();
    let mut wanted = Vec::new();
    let done = register_each(tx, entries.iter().map(|(entry, _)| entry), |at, id, _| {
        if firsts.contains(&at) {
            wanted.push(id);
        }
        Ok(())
    })?;
    let mut taken = TakenPart {
        accepted: done.created + done.updated,
        duplicates: done.duplicates,
        invalid: done.invalid,
        ..TakenPart::default()
    };
    if input.submit_jobs && !wanted.is_empty() {
        let options = jobs::options("options", NewOptions::default())?;
        let run = RunJobs {
            batch,
            source: BatchSource::Input,
            schedule: None,
            workflow_id: None,
            options,
            session: None,
        };
        let submitted = submit_part(tx, context, &run, &wanted)?;
        taken.jobs = submitted.made as usize;
        taken.missing = wanted.len() - taken.jobs;
        let stopped = submitted.stopped.and_then(|why| why.detail().map(str::to_owned));
        taken.message = submitted.refusal.or(stopped);
        // With each part: a message that breaks off leaves no batch that waits for jobs.
        jobs::close_run(tx, batch)?;
    }
    Ok(taken)
}

/// Forgets messages whose ids count no more.
pub(super) async fn forget_messages(context: TaskContext) -> Result<()> {
    while !context.stopping() {
        let before = context.now().before(KNOWN_FOR);
        let forgotten = context.system().write_freeing(move |tx| {
            let step = tx.scan_global(
                &MESSAGES,
                &MESSAGES_BY_TIME,
                &Seek::start(),
                Some(before),
                FORGOTTEN_PER_WRITE,
            )?;
            for entry in &step.entries {
                tx.org(entry.org).delete(&MESSAGES, &entry.key)?;
            }
            Ok(step.entries.len())
        });
        if forgotten.await? < FORGOTTEN_PER_WRITE {
            break;
        }
    }
    Ok(())
}
