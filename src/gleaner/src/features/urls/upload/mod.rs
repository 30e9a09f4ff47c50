//! Uploads: files of URLs, as CSV or NDJSON, read as they come.
//!
//! A body is read part by part ([`intake`]), its lines are judged apart from the threads that answer, and what may become
//! rows is registered some hundred at a time, in turns with the uploads of other organizations ([`turns`]). So memory and
//! others' waits do not depend on how large a file is. Each write is whole lines. An upload that breaks off leaves what was
//! written by then, and the same file again changes nothing of that.

mod charset;
mod csv;
mod file;
mod intake;
mod line;
mod ndjson;
#[cfg(test)]
mod tests;
mod turns;
mod unpack;

pub use file::CsvFile;
pub use line::{Line, WrongLine};
pub(super) use turns::UploadTurns;

use super::register::{EntryJudge, Registered, UrlCandidate, WriteSize, fill, no_room};
use base::limits::UPLOAD_LINES_MAX;
use base::{Code, Error, Result};
use fetch::AddressGuard;
use intake::{Declared, Format, Intake};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{Quota, UrlsWrite};
use server::{Body, Org, Query, StreamBody, apart};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::OrgStore;

/// How long an upload may take: a body at its largest over a line of a megabit a second.
pub(super) const TIME_MAX_SECS: u64 = 600;
/// When it ends itself, before it is ended: so the answer can say how far it came.
const READ_TIME_MAX: Duration = Duration::from_secs(TIME_MAX_SECS - 30);
/// Lines that are read in one turn.
const LINES_PER_TURN: usize = 2_000;
/// Wrong lines that are named.
const WRONG_LINES_MAX: usize = 1_000;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UploadQuery {
    /// What the body is, where its media type does not say.
    format: Option<Format>,
    /// Lines before this one are passed over, but for a header: to go on with an upload that broke off.
    #[schemars(range(min = 1))]
    from_line: Option<usize>,
}

/// What became of an upload.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Uploaded {
    /// New rows.
    created: usize,
    /// Known URLs that gained a tag, metadata, a page type or a workflow.
    updated: usize,
    /// Known URLs that did not change, and repetitions within the upload.
    duplicates: usize,
    /// Lines, or records of CSV, that were read: those above and the invalid ones.
    lines: usize,
    /// How many lines are invalid.
    invalid_total: usize,
    /// The first 1,000 of them.
    invalid: Vec<InvalidLine>,
    /// The first line that was not registered for want of room; null when all were looked at. Go on there with fromLine.
    next_line: Option<usize>,
    format: Option<Format>,
    /// How the letters were read: utf-8, utf-16le, windows-1252 and so on.
    charset: String,
    /// What separates the fields of a CSV file.
    delimiter: Option<char>,
    /// Columns of a CSV file that became members of the metadata.
    metadata_columns: Vec<String>,
    /// Members of NDJSON objects that mean nothing here (the first 20).
    ignored_members: Vec<String>,
    /// What else is to be known of how the file was read, in words.
    notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InvalidLine {
    /// On which it begins, from 1.
    line: usize,
    /// What was read as the URL: its first 200 characters.
    url: String,
    reason: String,
}

pub(super) async fn upload(
    org: Org<Quota<UrlsWrite>>,
    Query(query): Query<UploadQuery>,
    mut body: StreamBody,
) -> Result<Body<Uploaded>> {
    let begun = Upload::begin(&org, query, &body);
    let done = match begun {
        Ok(mut upload) => {
            upload.run(&org, &mut body).await.map_err(|error| upload.broken(error)).map(|()| upload)
        }
        Err(error) => Err(error),
    };
    match done.and_then(Upload::answer) {
        Ok(answer) => Ok(Body(answer)),
        Err(error) => {
            body.spare().await;
            Err(error)
        }
    }
}

/// An upload that is under way.
struct Upload {
    begun: Instant,
    /// None while it is on another thread.
    reading: Option<Reading>,
    turns: Arc<UploadTurns>,
    done: Registered,
    wrong: Vec<WrongLine>,
    wrong_total: usize,
    /// The last line that is done with.
    until: usize,
    /// Why there is no room for more, and from which line on.
    full: Option<(usize, String)>,
}

impl Upload {
    fn begin(org: &Org<Quota<UrlsWrite>>, query: UploadQuery, body: &StreamBody) -> Result<Upload> {
        if query.from_line == Some(0) {
            return Err(Error::invalid("fromLine", "must be 1 or more"));
        }
        let declared = Declared::of(body.content_type.as_deref(), body.coding.as_deref(), query.format)?;
        let intake = Intake::new(declared, body.charset.as_deref())?;
        let from_line = query.from_line.unwrap_or(1);
        let (store, guard) = (org.store().clone(), org.service::<AddressGuard>());
        Ok(Upload {
            begun: Instant::now(),
            reading: Some(Reading::new(intake, store, guard, from_line)),
            turns: org.service::<UploadTurns>(),
            done: Registered::default(),
            wrong: Vec::new(),
            wrong_total: 0,
            until: 0,
            full: None,
        })
    }

    /// Reads and registers all that comes.
    async fn run(&mut self, org: &Org<Quota<UrlsWrite>>, body: &mut StreamBody) -> Result<()> {
        loop {
            let part = body.next().await?;
            let is_last = part.is_none();
            if let Some(reading) = &mut self.reading {
                match part {
                    Some(part) => reading.intake.push(part),
                    None => reading.intake.end(),
                }
            }
            loop {
                self.in_time()?;
                let turn = self.turns.next(org.id()).await?;
                let state = self.step().await?;
                if state != TurnEnd::Starved {
                    self.write(org.store()).await?;
                }
                drop(turn);
                match state {
                    TurnEnd::Starved => break,
                    TurnEnd::Full => {}
                    TurnEnd::Over => return Ok(()),
                }
            }
            if is_last {
                return Err(Error::internal("read an upload", "its end was not found"));
            }
        }
    }

    fn in_time(&self) -> Result<()> {
        if self.begun.elapsed() < READ_TIME_MAX {
            return Ok(());
        }
        let secs = READ_TIME_MAX.as_secs();
        Err(Error::new(Code::RequestTimeout).message(format!("The file did not come within {secs} s.")))
    }

    /// Reads some lines, on another thread.
    async fn step(&mut self) -> Result<TurnEnd> {
        let taken = || Error::internal("read an upload", "it is being read already");
        let mut reading = self.reading.take().ok_or_else(taken)?;
        let (reading, end) = apart(move || {
            let end = reading.read_some();
            (reading, end)
        })
        .await?;
        self.reading = Some(reading);
        end
    }

    /// Registers what was read.
    async fn write(&mut self, org: &OrgStore) -> Result<()> {
        let Some(reading) = &mut self.reading else { return Ok(()) };
        let batch = std::mem::take(&mut reading.batch);
        let (mut wrong, mut total) = (batch.wrong, batch.wrong_total);
        let left = self.register(org, batch.candidates).await?;
        total += left.len();
        wrong.extend(left);
        // The parts come from two looks at the lines.
        wrong.sort_by_key(|wrong| wrong.line);
        wrong.truncate(WRONG_LINES_MAX - self.wrong.len());
        self.wrong.append(&mut wrong);
        self.wrong_total += total;
        self.until = batch.until;
        Ok(())
    }

    /// Registers candidates up to the end of the room; those that were not, and why.
    async fn register(&mut self, org: &OrgStore, candidates: Vec<UrlCandidate>) -> Result<Vec<WrongLine>> {
        if let Some((_, reason)) = &self.full {
            let wrong = |entry: UrlCandidate| WrongLine::new(entry.index, &entry.text, reason.clone());
            return Ok(candidates.into_iter().map(wrong).collect());
        }
        let full = fill(org, candidates, &mut self.done).await?;
        let invalid = std::mem::take(&mut self.done.invalid).into_iter();
        let mut left: Vec<_> =
            invalid.map(|entry| WrongLine::new(entry.index, &entry.url, entry.reason)).collect();
        if let Some(full) = full {
            if self.done.created + self.done.updated == 0 {
                return Err(full.error);
            }
            // What was registered by then stays, so the answer tells of both.
            let reason = no_room(&full.error);
            left.extend(full.left.iter().map(|(line, url)| WrongLine::new(*line, url, reason.clone())));
            self.full = full.left.first().map(|(line, _)| (*line, reason));
        }
        Ok(left)
    }

    /// A failure half way: it says what was done, and how to go on.
    fn broken(&self, error: Error) -> Error {
        let said = error.detail().unwrap_or(error.sentence());
        let stop = if said.ends_with('.') { "" } else { "." };
        let Registered { created, updated, .. } = &self.done;
        if self.until == 0 || error.status() == 500 {
            return error;
        }
        let next = self.full.as_ref().map_or(self.until + 1, |(line, _)| *line);
        // Lines that are passed over are a part of the body all the same: one that is too large stays so.
        let advice = match error.code() {
            Code::PayloadTooLarge => format!(
                "Send the lines from {next} on as a file of their own, and a header, if there is one, again before them."
            ),
            _ => format!(
                "Send the file again whole, which changes nothing of that, or from there on with ?fromLine={next}."
            ),
        };
        let message = format!(
            "{said}{stop} Before line {next} all that is right is registered ({created} new, {updated} changed). {advice}"
        );
        error.message(message)
    }

    fn answer(self) -> Result<Uploaded> {
        let Some(reading) = self.reading else {
            return Err(Error::internal("answer an upload", "it is still being read"));
        };
        let Registered { created, updated, duplicates, .. } = self.done;
        let known = created + updated + duplicates;
        if known == 0 {
            return Err(match self.wrong.first() {
                None => Error::invalid("body", "has no URLs"),
                Some(first) => Error::new(Code::InvalidUrl).message(format!(
                    "None of {} lines is right. Line {}: {}",
                    self.wrong_total, first.line, first.reason
                )),
            });
        }
        let intake = reading.intake;
        let invalid =
            |wrong: WrongLine| InvalidLine { line: wrong.line, url: wrong.url, reason: wrong.reason };
        Ok(Uploaded {
            created,
            updated,
            duplicates,
            lines: known + self.wrong_total,
            invalid_total: self.wrong_total,
            invalid: self.wrong.into_iter().map(invalid).collect(),
            next_line: self.full.map(|(line, _)| line),
            format: intake.format(),
            charset: intake.charset(),
            delimiter: intake.delimiter(),
            metadata_columns: intake.metadata_columns(),
            ignored_members: intake.ignored_members(),
            notes: intake.notes(),
        })
    }
}

/// Where a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnEnd {
    /// All that came was read.
    Starved,
    /// There is enough to be written.
    Full,
    /// The last line was read.
    Over,
}

/// Lines that were read and are not registered yet.
#[derive(Default)]
struct Batch {
    candidates: Vec<UrlCandidate>,
    size: WriteSize,
    /// The first of them; more would not be named.
    wrong: Vec<WrongLine>,
    wrong_total: usize,
    lines: usize,
    /// The last line of it.
    until: usize,
}

/// What reads and judges an upload's lines, apart from the threads that answer.
struct Reading {
    intake: Intake,
    judge: EntryJudge,
    guard: Arc<AddressGuard>,
    from_line: usize,
    lines: usize,
    batch: Batch,
}

impl Reading {
    fn new(intake: Intake, org: OrgStore, guard: Arc<AddressGuard>, from_line: usize) -> Reading {
        Reading { intake, judge: EntryJudge::new(org), guard, from_line, lines: 0, batch: Batch::default() }
    }

    /// Reads lines until there are enough to be written, or no more.
    fn read_some(&mut self) -> Result<TurnEnd> {
        while !self.batch.size.is_full() && self.batch.lines < LINES_PER_TURN {
            let Some(line) = self.intake.next()? else {
                return Ok(if self.intake.is_over() { TurnEnd::Over } else { TurnEnd::Starved });
            };
            self.batch.lines += 1;
            // What is passed over does not count, so that the rest of a longer file can be sent after its beginning.
            if line.number() < self.from_line {
                continue;
            }
            self.lines += 1;
            if self.lines > UPLOAD_LINES_MAX {
                let reason = format!("An upload has {UPLOAD_LINES_MAX} lines at most.");
                return Err(Error::new(Code::PayloadTooLarge).message(reason));
            }
            self.batch.until = line.number();
            self.judge(line)?;
        }
        Ok(TurnEnd::Full)
    }

    fn judge(&mut self, line: Line) -> Result<()> {
        let wrong = match line {
            Line::Wrong(wrong) => wrong,
            Line::Entry { line, entry } => {
                let url = entry.url.clone();
                match self.judge.judge(line, "", entry, &self.guard)? {
                    Ok(candidate) => {
                        self.batch.size.add(&candidate);
                        self.batch.candidates.push(candidate);
                        return Ok(());
                    }
                    Err(reason) => WrongLine::new(line, &url, reason),
                }
            }
        };
        self.batch.wrong_total += 1;
        if self.batch.wrong.len() < WRONG_LINES_MAX {
            self.batch.wrong.push(wrong);
        }
        Ok(())
    }
}
