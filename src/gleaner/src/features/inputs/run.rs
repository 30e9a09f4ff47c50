//! One step of a run: a document is asked for, read, and its URLs registered.
//!
//! Where a run is stands in memory ([`Walk`]); what it has done stands in its row. After a crash it begins anew: what was
//! registered by then is known by the mark of the run at the URL, so it is neither counted nor made a job of twice.

use super::crawl;
use super::read::{ReadDocument, Wanted, plain_note, read};
use super::register::take_in;
use super::rows::{INPUTS, InputKind};
use super::runs::{DOCUMENTS, InputDocumentV1};
use super::service::{self, Ending};
use super::state::{Place, Runner, Todo, Walk};
use super::stepping::{Step, Stepping};
use base::Result;
use base::digest::sha256;
use base::ids::InputRunId;
use base::web::WebUrl;
use fetch::{Download, FetchRequest, Permit, VisitWait, VisitorKind};
use http::header::{ACCEPT, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{OrgStore, OrgWrite};

/// How long a run may go on.
const RUN_TIME_MAX: Duration = Duration::from_secs(3_600);
/// How long one document may take.
const DOCUMENT_TIME_MAX: Duration = Duration::from_secs(120);
/// How long a run waits for a host that wants a pause; a longer one ends it.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// How soon it is looked again whether a visit of a busy domain has ended, and after how many looks a run comes beside them.
const BUSY_PAUSE: Duration = Duration::from_millis(200);
const BUSY_MAX: u32 = 25;
/// Entries of a document.
const ENTRIES_MAX: usize = 50_000;
/// Further pages of a feed.
const PAGES_MAX: usize = 10;
/// What is remembered of a document's validators.
const VALIDATOR_BYTES_MAX: usize = 1_000;

/// Takes a run one document further.
pub(super) async fn step(runner: &Runner, own: &OrgStore, id: InputRunId) -> Result<Step> {
    let known = own.read(|tx| {
        let Some(run) = service::open_run(tx, id)? else { return Ok(None) };
        Ok(tx.get(&INPUTS, &run.input_id)?.map(|input| (run, input)))
    })?;
    let Some((run, input)) = known else {
        runner.take(id);
        let submit = Arc::clone(&runner.submit);
        let ending = own.write(move |tx| {
            crawl::cancel_pages(tx, &submit, id)?;
            end_orphan(tx, id)
        });
        ending.await?;
        return Ok(Step::Over);
    };
    if input.kind == InputKind::Crawl {
        return crawl::step(runner, own, run, input).await;
    }
    let mut walk = match runner.take(id) {
        Some(walk) => walk,
        None => {
            let Some(url) = input.url.as_deref().and_then(|url| WebUrl::parse(url).ok()) else {
                let ending = Ending::failed("the input's URL cannot be read".to_owned());
                own.write(move |tx| end(tx, id, ending)).await?;
                return Ok(Step::Over);
            };
            if own.write(move |tx| service::begin(tx, id)).await?.is_none() {
                return Ok(Step::Over);
            }
            Walk::new(url)
        }
    };
    let step = walk_on(&Stepping { runner, own, run: &run, input: &input }, &mut walk).await?;
    if !matches!(step, Step::Over) {
        runner.put(own.id(), id, walk);
    }
    Ok(step)
}

/// A run whose input is gone has nobody to tell.
fn end_orphan(tx: &OrgWrite<'_>, id: InputRunId) -> Result<()> {
    match service::open_run(tx, id)? {
        Some(run) => service::end(tx, run, Ending::failed("the input was deleted".to_owned())),
        None => Ok(()),
    }
}

fn end(tx: &OrgWrite<'_>, id: InputRunId, ending: Ending) -> Result<()> {
    match service::open_run(tx, id)? {
        Some(run) => service::end(tx, run, ending),
        None => Ok(()),
    }
}

/// Why a document came to nothing.
struct Failure {
    message: String,
    status: Option<u16>,
    retry_after: Option<Duration>,
}

async fn walk_on(at: &Stepping<'_>, walk: &mut Walk) -> Result<Step> {
    let Some(todo) = walk.todo.pop_front() else {
        at.end(walk, None).await?;
        return Ok(Step::Over);
    };
    if walk.begun.elapsed() > RUN_TIME_MAX {
        let left = walk.todo.len() as u64 + 1;
        walk.todo.clear();
        walk.is_whole = false;
        walk.message = Some(format!("the hour of a run was over; {left} documents had no turn"));
        at.note(walk, move |run| run.found.truncated += left).await?;
        return Ok(Step::More);
    }
    let permit = match at.visit(&todo) {
        Ok(permit) => permit,
        Err(pause) if pause <= PAUSE_MAX => {
            let busy = todo.busy + 1;
            walk.todo.push_front(Todo { busy, ..todo });
            return Ok(Step::Later(pause));
        }
        Err(pause) => {
            let message = format!("{} asks to be left alone for {} s", todo.url.host(), pause.as_secs());
            return at.failed(walk, &todo, Failure { message, status: None, retry_after: Some(pause) }).await;
        }
    };
    match at.ask(walk, &todo, permit).await? {
        Ok(()) if walk.todo.is_empty() => {
            at.end(walk, None).await?;
            Ok(Step::Over)
        }
        Ok(()) => Ok(Step::More),
        Err(failure) => at.failed(walk, &todo, failure).await,
    }
}

impl Stepping<'_> {
    /// A visit of the document's host, or for how long there is none.
    fn visit(&self, todo: &Todo) -> Result<Permit, Duration> {
        let now = Instant::now();
        let who = if todo.busy > BUSY_MAX { VisitorKind::KeptOut } else { VisitorKind::Usual };
        let visit = self.runner.politeness.try_acquire_as(who, &todo.url.domain(), todo.url.host(), now);
        visit.map_err(|wait| match wait {
            VisitWait::NotBefore(at) | VisitWait::HostNotBefore(at) => at.saturating_duration_since(now),
            VisitWait::Busy => BUSY_PAUSE,
        })
    }

    /// The document's request, with what is remembered of it.
    fn request(&self, todo: &Todo, known: Option<&InputDocumentV1>) -> FetchRequest {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(match self.input.kind {
            InputKind::Csv => "text/csv, text/plain;q=0.9, */*;q=0.5",
            _ => "application/xml, application/rss+xml, application/atom+xml, application/feed+json, text/xml, */*;q=0.5",
        }));
        for (name, value) in [
            (IF_NONE_MATCH, known.and_then(|known| known.etag.as_deref())),
            (IF_MODIFIED_SINCE, known.and_then(|known| known.last_modified.as_deref())),
        ] {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        }
        FetchRequest {
            owner: Some(self.own.id()),
            headers,
            timeout: DOCUMENT_TIME_MAX,
            robots: self.runner.robots,
            ..FetchRequest::new(todo.url.clone())
        }
    }

    /// Asks for a document and takes in what it has.
    async fn ask(&self, walk: &mut Walk, todo: &Todo, permit: Permit) -> Result<Result<(), Failure>> {
        let key = sha256(todo.url.as_str().as_bytes());
        let is_remembered = todo.place != Place::Page && !self.run.is_full;
        let known = match is_remembered {
            true => self.own.read(|tx| tx.get(&DOCUMENTS, &(self.input.id, key)))?,
            false => None,
        };
        let known = known.filter(|known| known.terms == self.input.terms);
        let begun = self.own.clock().now();
        let answer = self.runner.direct.download(self.request(todo, known.as_ref())).await;
        self.tell(&answer);
        let status = answer.status;
        if todo.place == Place::Root {
            let (place, last) = (todo.url.as_str(), answer.final_url.as_str());
            let last = (place != last).then(|| last.to_owned());
            self.note(walk, move |run| (run.http_status, run.final_url) = (status, last)).await?;
        }
        if status == Some(304) && known.is_some() {
            drop(permit);
            self.note(walk, |run| run.found.not_modified += 1).await?;
            return Ok(Ok(()));
        }
        let Some(body) = answer.body else { return Ok(Err(self.failure(todo, &answer))) };
        let left = self.runner.max_urls.saturating_sub(walk.found.len());
        let wanted = Wanted {
            kind: self.input.kind,
            url: answer.final_url.clone(),
            charset: answer.headers.content_type.as_deref().and_then(charset_of),
            entries_max: ENTRIES_MAX.min(left.max(1)),
        };
        let read = read(body, wanted).await?;
        drop(permit);
        let read = match read {
            Ok(read) => read,
            Err(message) => return Ok(Err(Failure { message, status, retry_after: None })),
        };
        if known.as_ref().is_some_and(|known| read.is_complete && read.digest == Some(known.body)) {
            let bytes = read.bytes;
            self.note(walk, move |run| {
                run.found.not_modified += 1;
                run.found.bytes += bytes;
            })
            .await?;
            return Ok(Ok(()));
        }
        let short = |value: &Option<String>| value.clone().filter(|value| value.len() <= VALIDATOR_BYTES_MAX);
        let remembered =
            read.digest.filter(|_| read.is_complete && read.truncated == 0).map(|body| InputDocumentV1 {
                terms: self.input.terms,
                etag: short(&answer.headers.etag),
                last_modified: short(&answer.headers.last_modified),
                body,
                read_at: begun,
            });
        self.take(walk, todo, read, &answer.final_url, (key, remembered)).await?;
        Ok(Ok(()))
    }

    /// Tells what hosts said about the pace.
    fn tell(&self, answer: &Download) {
        let now = Instant::now();
        if let (Some(_), Some(pause)) = (answer.status, answer.retry_after) {
            self.runner.politeness.hold(answer.final_url.host(), now, now + pause);
        }
        for (host, delay) in &answer.crawl_delays {
            self.runner.politeness.set_crawl_delay(host, now, *delay);
        }
    }

    fn failure(&self, todo: &Todo, answer: &Download) -> Failure {
        let message = match (&answer.error, answer.status) {
            (Some(error), _) => error.clone(),
            (None, Some(status)) => format!("{} answered {status}", todo.url.host()),
            (None, None) => "there was no answer".to_owned(),
        };
        let left_alone = answer.left_alone_until.map(|at| at.saturating_duration_since(Instant::now()));
        Failure { message, status: answer.status, retry_after: answer.retry_after.or(left_alone) }
    }

    /// Takes in what a document has, and where it leads.
    async fn take(
        &self,
        walk: &mut Walk,
        todo: &Todo,
        mut read: ReadDocument,
        base: &WebUrl,
        (key, remembered): ([u8; 32], Option<InputDocumentV1>),
    ) -> Result<()> {
        walk.is_whole &= read.is_complete && read.truncated == 0;
        walk.notes.append(&mut read.notes);
        if !read.sitemaps.is_empty() {
            self.follow_index(walk, todo, std::mem::take(&mut read.sitemaps), base)?;
        }
        let (next, archive) = (read.next.take(), read.archive.take());
        let has_news = take_in(self, walk, read, todo).await?;
        if let Some(next) = next.filter(|_| has_news) {
            walk_to_page(walk, next);
        }
        if let Some(archive) = archive.filter(|_| self.run.is_full) {
            walk_to_page(walk, archive);
        }
        let Some(remembered) = remembered else { return Ok(()) };
        match todo.place {
            Place::Root => walk.root = vec![(key, remembered)],
            Place::Sitemap => {
                let at = (self.input.id, key);
                self.own.write(move |tx| tx.put(&DOCUMENTS, &at, &remembered)).await?;
            }
            Place::Page => {}
        }
        Ok(())
    }

    /// Notes which sitemaps of an index are to be asked for.
    fn follow_index(
        &self,
        walk: &mut Walk,
        todo: &Todo,
        sitemaps: Vec<(WebUrl, Option<base::clock::Timestamp>)>,
        base: &WebUrl,
    ) -> Result<()> {
        if todo.place != Place::Root {
            walk.notes.push(plain_note(base.as_str(), "an index in an index is not read"));
            return Ok(());
        }
        let domain = todo.url.domain();
        let (mut foreign, mut over) = (0_u64, 0_u64);
        for (url, updated) in sitemaps {
            if !self.input.any_domain && url.domain() != domain {
                foreign += 1;
                continue;
            }
            if walk.asked.contains(url.as_str()) {
                continue;
            }
            let key = (self.input.id, sha256(url.as_str().as_bytes()));
            let known = self.own.read(|tx| tx.get(&DOCUMENTS, &key))?;
            let known = known.filter(|known| known.terms == self.input.terms && !self.run.is_full);
            let is_old = known.zip(updated).is_some_and(|(known, updated)| updated < known.read_at);
            if is_old {
                continue;
            }
            if walk.asked.len() > self.runner.max_documents {
                over += 1;
                continue;
            }
            walk.asked.insert(url.as_str().to_owned());
            walk.todo.push_back(Todo { url, place: Place::Sitemap, busy: 0 });
        }
        if foreign > 0 {
            let message = format!("{foreign} sitemaps of other domains are not read; anyDomain allows them");
            walk.notes.push(plain_note(base.as_str(), message));
        }
        if over > 0 {
            walk.is_whole = false;
            let message = format!("{over} sitemaps have their turn in the next run");
            walk.notes.push(plain_note(base.as_str(), message));
        }
        Ok(())
    }

    /// A document came to nothing: the first one ends the run, of another it is noted.
    async fn failed(&self, walk: &mut Walk, todo: &Todo, failure: Failure) -> Result<Step> {
        walk.is_whole = false;
        if todo.place == Place::Root {
            self.end(walk, Some(failure)).await?;
            return Ok(Step::Over);
        }
        walk.notes.push(plain_note(todo.url.as_str(), failure.message));
        self.note(walk, |run| run.is_incomplete = true).await?;
        Ok(Step::More)
    }

    async fn end(&self, walk: &mut Walk, failure: Option<Failure>) -> Result<()> {
        self.note(walk, |_| ()).await?;
        let documents = if walk.is_whole { std::mem::take(&mut walk.root) } else { Vec::new() };
        let ending = match failure {
            None => Ending::whole(walk.message.take().or(walk.stopped.take()), documents),
            Some(failure) => Ending {
                not_before: failure.retry_after,
                is_gone: failure.status == Some(410),
                ..Ending::failed(failure.message)
            },
        };
        let id = self.run.id;
        self.own.write(move |tx| end(tx, id, ending)).await
    }
}

/// A further page of a feed, unless it was read or there were enough.
fn walk_to_page(walk: &mut Walk, url: WebUrl) {
    if walk.pages < PAGES_MAX && walk.asked.insert(url.as_str().to_owned()) {
        walk.pages += 1;
        walk.todo.push_back(Todo { url, place: Place::Page, busy: 0 });
    }
}

/// The charset that a `Content-Type` names.
fn charset_of(content_type: &str) -> Option<String> {
    let parameters = content_type.split(';').skip(1);
    let named = parameters.filter_map(|parameter| parameter.split_once('='));
    let (_, value) = named.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches('"').to_owned())
}
