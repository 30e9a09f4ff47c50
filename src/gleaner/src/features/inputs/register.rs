//! What a document has, registered: compared with what the input said before, in parts, each with its jobs in one operation.

use super::patterns::wants;
use super::read::{FoundEntry, ReadDocument, plain_note};
use super::rows::{InputKind, InputV1};
use super::runs::{INPUT_URLS, InputRunV1, InputUrlV1, RUNS, RunNoteV1};
use super::service;
use super::state::{Place, Todo, Walk};
use super::stepping::Stepping;
use crate::features::jobs::{self, BatchSource, NewOptions, RunJobs, SubmitContext, submit_part};
use crate::features::urls::{EntryJudge, UrlCandidate, UrlDefaults, WriteSize, no_room, register_each};
use base::clock::Timestamp;
use base::digest::sha256;
use base::web::{Domain, WebUrl};
use base::{Code, Result};
use fetch::AddressGuard;
use server::apart;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use store::{OrgRead, OrgStore, OrgWrite};

/// URLs of one operation that may each become a job: others' writes do not wait for a large run.
const JOBS_PER_WRITE: usize = 100;
/// Entries that are judged at a time.
const JUDGED_AT_ONCE: usize = 1_000;
/// Refused entries of a document that are noted one by one.
const REFUSED_NOTES_MAX: usize = 20;
/// So many URLs that have all changed are rather a program that writes the time of the request.
const ALL_CHANGED_MIN: u64 = 1_000;

/// What entries are judged by.
struct Rules {
    org: OrgStore,
    guard: Arc<AddressGuard>,
    include: Vec<String>,
    exclude: Vec<String>,
    /// URLs of other domains are refused.
    domain: Option<Domain>,
    defaults: UrlDefaults,
    urls_max: usize,
    now: Timestamp,
    document: String,
}

/// Entries that are to be registered, and what became of the others.
#[derive(Default)]
struct Judged {
    entries: Vec<(UrlCandidate, Option<Timestamp>)>,
    /// URLs that the run has found so far.
    found: HashSet<[u8; 16]>,
    duplicates: u64,
    filtered: u64,
    refused: u64,
    truncated: u64,
    notes: Vec<RunNoteV1>,
}

/// Registers what a document has, and notes it; whether something was new or had changed.
pub(super) async fn take_in(
    at: &Stepping<'_>,
    walk: &mut Walk,
    read: ReadDocument,
    todo: &Todo,
) -> Result<bool> {
    let input = at.input;
    let is_own_domain = input.kind == InputKind::Sitemap && !input.any_domain;
    let home = input.url.as_deref().and_then(|url| WebUrl::parse(url).ok());
    let rules = Arc::new(Rules {
        org: at.own.clone(),
        guard: Arc::clone(&at.runner.guard),
        include: input.include.clone(),
        exclude: input.exclude.clone(),
        domain: home.filter(|_| is_own_domain).map(|url| url.domain()),
        defaults: UrlDefaults { keeps_known: true, ..at.own.read(|tx| defaults(tx, input))? },
        urls_max: at.runner.max_urls,
        now: at.own.clock().now(),
        document: todo.url.as_str().to_owned(),
    });
    let mut sum = Judged { found: std::mem::take(&mut walk.found), ..Judged::default() };
    let mut entries = read.entries.into_iter().enumerate();
    let (mut total, mut added, mut changed) = (0, 0, 0);
    loop {
        // Some at a time: judged ones are thrice as large.
        let some: Vec<_> = entries.by_ref().take(JUDGED_AT_ONCE).collect();
        if some.is_empty() {
            break;
        }
        let shared = Arc::clone(&rules);
        sum = apart(move || judge(&shared, some, sum)).await??;
        let wanted = std::mem::take(&mut sum.entries);
        total += wanted.len() as u64;
        let done = register_all(at, walk, wanted).await?;
        added += done.added;
        changed += done.changed;
        if !done.has_room {
            let left = entries.len() as u64;
            at.note(walk, move |run| run.found.truncated += left).await?;
            break;
        }
    }
    walk.found = sum.found;
    walk.is_whole &= sum.truncated == 0;
    walk.notes.extend(sum.notes);
    if changed == total && total >= ALL_CHANGED_MIN {
        let message =
            "all URLs are said to have changed since the last run: the dates may be those of the request";
        walk.notes.push(plain_note(todo.url.as_str(), message));
    }
    let is_root = todo.place == Place::Root;
    let (counts, format) = ((sum.duplicates, sum.filtered), read.format);
    let (refused, truncated) = (sum.refused + read.refused, sum.truncated + read.truncated);
    let (bytes, is_incomplete) = (read.bytes, !read.is_complete);
    at.note(walk, move |run| {
        run.found.documents += 1;
        run.found.bytes += bytes;
        run.found.duplicates += counts.0;
        run.found.filtered += counts.1;
        run.found.refused += refused;
        run.found.truncated += truncated;
        run.is_incomplete |= is_incomplete;
        if is_root {
            run.format = Some(format);
        }
    })
    .await?;
    Ok(added + changed > 0)
}

/// What an input's URLs are registered with. A workflow that is gone is none.
pub(super) fn defaults(tx: &OrgRead<'_>, input: &InputV1) -> Result<UrlDefaults> {
    let workflow_id = match input.workflow_id {
        Some(id) if crate::features::urls::is_usable(tx, id)? => Some(id),
        _ => None,
    };
    let (tags, page_type) = (input.tags.clone(), input.page_type);
    Ok(UrlDefaults { tags, page_type, workflow_id, keeps_known: false })
}

/// Judges entries in their order, apart from the threads that answer, and adds to what became of those before.
fn judge(rules: &Rules, entries: Vec<(usize, FoundEntry)>, mut judged: Judged) -> Result<Judged> {
    let mut judge = EntryJudge::new(rules.org.clone());
    for (index, FoundEntry { line, entry, updated }) in entries {
        let shown: String = entry.url.chars().take(200).collect();
        if let Ok(url) = WebUrl::parse(&entry.url) {
            let digest = sha256(url.as_str().as_bytes());
            let mut short = [0; 16];
            short.copy_from_slice(&digest[..16]);
            if judged.found.contains(&short) {
                judged.duplicates += 1;
                continue;
            }
            if judged.found.len() >= rules.urls_max {
                judged.truncated += 1;
                continue;
            }
            judged.found.insert(short);
            if !wants(&rules.include, &rules.exclude, url.as_str()) {
                judged.filtered += 1;
                continue;
            }
        }
        let candidate = judge.judge(index, "", entry, &rules.guard)?;
        let own = candidate.and_then(|candidate| match &rules.domain {
            Some(domain) if candidate.url().domain() != *domain => {
                Err(format!("is not of {}, whose sitemap it is; anyDomain allows it", domain.as_str()))
            }
            _ => candidate.with(&rules.defaults),
        });
        match own {
            // Whose clock is ahead has not changed the page later than now.
            Ok(candidate) => judged.entries.push((candidate, updated.map(|at| at.min(rules.now)))),
            Err(reason) => {
                judged.refused += 1;
                if judged.notes.len() < REFUSED_NOTES_MAX {
                    let note = plain_note(&rules.document, format!("{shown}: {reason}"));
                    judged.notes.push(RunNoteV1 { line: line as u64, ..note });
                }
            }
        }
    }
    Ok(judged)
}

/// How many of some URLs are new and have changed.
struct RegisteredUrls {
    added: u64,
    changed: u64,
    /// Whether there was room for all.
    has_room: bool,
}

/// Registers all of them part by part. Room is asked for a part as a whole, so one that is refused is done again in halves.
async fn register_all(
    at: &Stepping<'_>,
    walk: &mut Walk,
    entries: Vec<(UrlCandidate, Option<Timestamp>)>,
) -> Result<RegisteredUrls> {
    let entries: Arc<[_]> = entries.into();
    let (mut begin, mut most) = (0, usize::MAX);
    let mut sum = RegisteredUrls { added: 0, changed: 0, has_room: true };
    while begin < entries.len() {
        let sizes = entries[begin..].iter().map(|(entry, _)| entry);
        let end = begin + next_part(sizes, at.input.submit_jobs).min(most);
        let (context, input, run) = (Arc::clone(&at.runner.submit), at.input.clone(), at.run.id);
        let (submits, shared) = (walk.stopped.is_none(), Arc::clone(&entries));
        let done = at.own.write(move |tx| {
            let Some(run) = service::open_run(tx, run)? else { return Ok(PartDone::default()) };
            register_part(tx, &context, &input, run, &shared[begin..end], submits)
        });
        match done.await {
            Ok(done) => {
                begin = end;
                sum.added += done.added;
                sum.changed += done.changed;
                walk.stopped = walk.stopped.take().or(done.stopped);
                walk.message = walk.message.take().or(done.refusal);
            }
            Err(full) if full.code() == Code::QuotaExceeded && end - begin > 1 => most = (end - begin) / 2,
            // There is no room for more: the run says so, and what is in stays.
            Err(full) if full.code() == Code::QuotaExceeded => {
                let left = (entries.len() - begin) as u64;
                walk.is_whole = false;
                walk.todo.clear();
                walk.message = Some(no_room(&full));
                at.note(walk, move |run| run.found.truncated += left).await?;
                sum.has_room = false;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

/// How many of these one operation takes in, at least one.
pub(super) fn next_part<'c>(entries: impl Iterator<Item = &'c UrlCandidate>, submits: bool) -> usize {
    let mut size = WriteSize::default();
    let fits = entries.enumerate().take_while(|(count, entry)| {
        let has_room = !size.is_full() && (!submits || *count < JOBS_PER_WRITE);
        size.add(entry);
        has_room
    });
    fits.count()
}

/// What came of a part.
#[derive(Default)]
struct PartDone {
    added: u64,
    changed: u64,
    /// Why no more jobs can be made, or why one could not.
    stopped: Option<String>,
    refusal: Option<String>,
}

/// Registers a part, compares it with what the input said before, and makes jobs of what is new or has changed: one operation
/// with the run's counts.
fn register_part(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    input: &InputV1,
    mut run: InputRunV1,
    part: &[(UrlCandidate, Option<Timestamp>)],
    submits: bool,
) -> Result<PartDone> {
    let updated: HashMap<usize, Option<Timestamp>> =
        part.iter().map(|(entry, updated)| (entry.index, *updated)).collect();
    let (mut done, mut unchanged, mut wanted) = (PartDone::default(), 0, Vec::new());
    let registered = register_each(tx, part.iter().map(|(entry, _)| entry), |index, id, is_new| {
        let (key, updated) = ((input.id, id), updated.get(&index).copied().flatten());
        let known = tx.get(&INPUT_URLS, &key)?;
        let before = known.as_ref().and_then(|known| known.updated);
        if known.as_ref().is_some_and(|known| known.run == Some(run.id)) {
            return Ok(());
        }
        let has_changed = !is_new && before.zip(updated).is_some_and(|(before, now)| now > before);
        if is_new || has_changed {
            done.added += u64::from(is_new);
            done.changed += u64::from(has_changed);
            wanted.push(id);
            return tx.put(&INPUT_URLS, &key, &InputUrlV1 { updated: updated.or(before), run: Some(run.id) });
        }
        unchanged += 1;
        match (before, updated) {
            (None, Some(_)) => tx.put(&INPUT_URLS, &key, &InputUrlV1 { updated, run: None }),
            _ => Ok(()),
        }
    })?;
    run.found.added += done.added;
    run.found.changed += done.changed;
    run.found.unchanged += unchanged;
    run.found.refused += registered.invalid.len() as u64;
    if input.submit_jobs && !wanted.is_empty() {
        let mut made = 0;
        if submits {
            let options = jobs::options("options", NewOptions::default())?;
            let batch = run.batch();
            let jobs = RunJobs {
                batch,
                source: BatchSource::Input,
                schedule: None,
                workflow_id: None,
                options,
                session: None,
            };
            let submitted = submit_part(tx, context, &jobs, &wanted)?;
            made = u64::from(submitted.made);
            done.stopped = submitted.stopped.map(|why| why.detail().unwrap_or(why.sentence()).to_owned());
            done.refusal = submitted.refusal;
        }
        run.jobs_created += made;
        run.jobs_missing += wanted.len() as u64 - made;
    }
    tx.put(&RUNS, &run.id, &run)?;
    Ok(done)
}
