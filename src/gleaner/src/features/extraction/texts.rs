//! The main text of pages as a column of the SQL console, so that `LIKE` and regular expressions go over what pages say.
//!
//! Finding a page's content takes milliseconds where a job's end takes a fraction of one, so it is not done when a page comes,
//! nor when its row is fed to the snapshots: a task of its own does it afterwards, for a third of one core at most, the
//! newest results first and the organizations in turns. Nothing tells it what is new. It walks from the newest result down to
//! where an earlier walk began, and a row here says that a result was looked at; so jobs that end pay nothing, a crash
//! loses nothing, and results from before there were texts get theirs as well.
//!
//! Bounded twice: [`TEXT_BYTES_MAX`] a text, and [`ORG_BYTES_MAX`] for an organization, beyond which the oldest go. A text
//! goes with the page that it is made of.

use super::body::is_document;
use super::main_content::main_text;
use super::rows::{RESULTS, RESULTS_BY_ID, ResultV4};
use super::service::read_stored;
use super::site::has_page;
use super::text_rows::{ResultTextV1, TEXT_SUMS, TEXTS, TextSumV1, forget, sum, weight};
use base::Result;
use base::ids::{JobId, OrgId, ResultId};
use base::limits::HTML_BYTES_MAX;
use base::page::PageRequest;
use blob::BlobStore;
use parking_lot::Mutex;
use server::task::TaskContext;
use std::collections::{HashMap, HashSet};
use std::time::Instant;
use store::{Key, OrgRead, OrgWrite, readable};

/// Bytes of a text in the console; what is longer is cut.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;
/// Bytes of all texts of an organization.
const ORG_BYTES_MAX: u64 = 256 << 20;
/// Results of one turn.
const TURN_ROWS: usize = 16;
/// Results behind the beginning of an earlier walk that are looked at again: jobs do not end in the order of their results' ids.
const SLACK_ROWS: usize = 256;
/// Texts that make room at once.
const EVICTED_ROWS: usize = 32;
/// How much longer it rests than it works.
const REST_FACTOR: u32 = 2;

/// Where the walks through the organizations' results stand. Hung up in the services.
#[derive(Default)]
pub struct Texts(Mutex<HashMap<OrgId, Walk>>);

/// A walk through an organization's results, the newest first.
#[derive(Clone, Debug, Default)]
struct Walk {
    /// Where the last one that came to its end began.
    head: Option<ResultId>,
    /// Where this one began; none between walks.
    began: Option<ResultId>,
    cursor: Option<String>,
    /// Results behind `head` that were looked at.
    beyond: usize,
}

impl Walk {
    /// The next results without a text that are to have one; none between walks.
    fn step(&mut self, tx: &OrgRead<'_>) -> Result<Option<Vec<ResultV4>>> {
        let newest_first = |limit: usize, cursor: Option<String>| {
            tx.page_by(&RESULTS, &RESULTS_BY_ID, (), &PageRequest { limit, cursor }, |_| true)
        };
        if self.began.is_none() {
            let newest = newest_first(1, None)?.items.pop().map(|row| row.id);
            if newest == self.head {
                return Ok(None);
            }
            *self = Walk { head: self.head, began: newest, cursor: None, beyond: 0 };
        }
        let page = newest_first(TURN_ROWS, self.cursor.take())?;
        let oldest = match sum(tx)?.bytes < ORG_BYTES_MAX {
            true => None,
            false => tx.keys(TEXTS.name(), None, 1)?.first().and_then(|key| JobId::decode(key)),
        };
        let (mut due, mut is_over) = (Vec::new(), page.next_cursor.is_none());
        for row in page.items {
            self.beyond += usize::from(self.head.is_some_and(|head| row.id <= head));
            // What is older than all that there is room for would only make the others go.
            if self.beyond > SLACK_ROWS || oldest.is_some_and(|oldest| row.job < oldest) {
                is_over = true;
                break;
            }
            if is_due(tx, &row)? {
                due.push(row);
            }
        }
        self.cursor = page.next_cursor;
        if is_over {
            self.end();
        }
        Ok(Some(due))
    }

    fn end(&mut self) {
        *self = Walk { head: self.began.or(self.head), ..Walk::default() };
    }
}

fn is_due(tx: &OrgRead<'_>, row: &ResultV4) -> Result<bool> {
    let is_text = is_document(row.content_type.as_deref()) && row.page.byte_size <= HTML_BYTES_MAX as u64;
    // One that cannot be read is there.
    let is_known =
        readable("the text of a page", row.job, tx.get(&TEXTS, &row.job))?.is_none_or(|row| row.is_some());
    Ok(is_text && !is_known && has_page(tx, row)?)
}

/// Makes texts until there is none left to make.
pub(super) async fn fill(context: TaskContext) -> Result<()> {
    let texts = context.service::<Texts>();
    loop {
        let (mut goes_on, mut last, mut seen) = (false, None, HashSet::new());
        while let Some(org) = context.system().read(|tx| tx.next_org(RESULTS.name(), last))? {
            last = Some(org);
            if context.stopping() {
                return Ok(());
            }
            if context.system().read(|tx| Ok(tx.is_fenced(org)))? {
                continue;
            }
            seen.insert(org);
            let began = Instant::now();
            let turn = turn(&context, &texts, org).await;
            // What fails of one organization keeps no other's; it goes on behind what failed when there is something new.
            goes_on |= turn.unwrap_or_else(|error| {
                tracing::warn!(%org, %error, "texts of pages could not be made for the SQL tables");
                texts.0.lock().entry(org).or_default().end();
                false
            });
            tokio::select! {
                () = context.stopped() => return Ok(()),
                () = tokio::time::sleep(began.elapsed() * REST_FACTOR) => {}
            }
        }
        texts.0.lock().retain(|org, _| seen.contains(org));
        if !goes_on {
            return Ok(());
        }
    }
}

/// One organization's turn; whether there is more of it to look at.
async fn turn(context: &TaskContext, texts: &Texts, org: OrgId) -> Result<bool> {
    let rows = context.system().org(org);
    let mut walk = texts.0.lock().get(&org).cloned().unwrap_or_default();
    let Some(due) = rows.read(|tx| walk.step(tx))? else { return Ok(false) };
    let pages = context.service::<BlobStore>().org(org.0);
    let mut made = Vec::with_capacity(due.len());
    for row in due {
        if context.stopping() {
            return Ok(false);
        }
        let page = read_stored(&pages, &row.page).await?;
        let (job, hash) = (row.job, row.page.hash);
        let work = move || page.and_then(|page| main_text(&row, &page, TEXT_BYTES_MAX).ok());
        // A page that ends the work on it has no text, and must not be tried for ever.
        let text = tokio::task::spawn_blocking(work).await.ok().flatten();
        made.push((job, hash, ResultTextV1 { text: text.map(|written| written.text) }));
    }
    if !made.is_empty() {
        rows.write(move |tx| put_all(tx, made, ORG_BYTES_MAX)).await?;
    }
    texts.0.lock().insert(org, walk);
    Ok(true)
}

/// A text of a job's result, and the page that it is made of.
pub(super) type MadeText = (JobId, [u8; 32], ResultTextV1);

/// Keeps texts, unless their pages are gone by now, and makes room for them: the oldest go.
pub(super) fn put_all(tx: &OrgWrite<'_>, made: Vec<MadeText>, bytes_max: u64) -> Result<()> {
    tx.unaudited("texts of pages");
    for (job, hash, text) in made {
        let row = readable("a result", job, tx.get(&RESULTS, &job))?.flatten();
        let is_there = match row.filter(|row| row.page.hash == hash) {
            Some(row) => has_page(tx, &row)?,
            None => false,
        };
        if is_there {
            forget(tx, job)?;
            let bytes = sum(tx)?.bytes + weight(&text);
            tx.put(&TEXT_SUMS, &(), &TextSumV1 { bytes })?;
            tx.put(&TEXTS, &job, &text)?;
        }
    }
    for key in tx.keys(TEXTS.name(), None, EVICTED_ROWS)? {
        if sum(tx)?.bytes <= bytes_max {
            break;
        }
        JobId::decode(&key).map_or(Ok(()), |job| forget(tx, job))?;
    }
    Ok(())
}
