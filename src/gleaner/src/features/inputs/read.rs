//! Reading a document while it comes: on a thread of its own, which waits for the bytes, so that no more of them is held than
//! is on the way.

use super::rows::InputKind;
use super::runs::RunNoteV1;
use crate::features::urls::{CsvFile, Line, NewUrl};
use base::clock::Timestamp;
use base::web::WebUrl;
use base::{Error, Result};
use bytes::{Buf, Bytes};
use feeds::{Document, Format, Limits};
use fetch::DownloadBody;
use flate2::read::MultiGzDecoder;
use ring::digest::{Context, SHA256};
use std::io::{self, Read};
use tokio::sync::mpsc;

/// Parts of a body that are on the way to its reader.
const PARTS_WAITING: usize = 8;
/// Bytes of a document on the wire: those of an unpacked one, since packing makes none larger.
const BYTES_MAX: u64 = 52_428_800;
/// How gzip begins.
const GZIP: &[u8] = b"\x1f\x8b";
/// Lines of a CSV file that are looked at.
const LINES_MAX: usize = 1_000_000;
/// Notes of one document.
const NOTES_MAX: usize = 100;

/// An entry of a document.
pub(super) struct FoundEntry {
    /// Where it stands: its line, or its place among the others.
    pub line: usize,
    pub entry: NewUrl,
    /// When it changed last, as the document says.
    pub updated: Option<Timestamp>,
}

/// What a document came to.
#[derive(Default)]
pub(super) struct ReadDocument {
    pub format: String,
    pub entries: Vec<FoundEntry>,
    /// The sitemaps of an index, each with the last instant at which it can have changed.
    pub sitemaps: Vec<(WebUrl, Option<Timestamp>)>,
    pub next: Option<WebUrl>,
    pub archive: Option<WebUrl>,
    pub refused: u64,
    pub truncated: u64,
    /// Whether it was read to its end.
    pub is_complete: bool,
    pub notes: Vec<RunNoteV1>,
    /// Of the body on the wire, where all of it came.
    pub digest: Option<[u8; 32]>,
    pub bytes: u64,
}

/// What is to be read.
pub(super) struct Wanted {
    pub kind: InputKind,
    pub url: WebUrl,
    pub charset: Option<String>,
    /// Entries at most.
    pub entries_max: usize,
}

/// Reads a body; or why it is no document, in words.
pub(super) async fn read(mut body: DownloadBody, wanted: Wanted) -> Result<Result<ReadDocument, String>> {
    let (parts, coming) = mpsc::channel(PARTS_WAITING);
    let is_gzip = body.is_gzip();
    let reading = tokio::task::spawn_blocking(move || {
        let mut bytes = Coming::new(coming);
        let read = match wanted.kind {
            InputKind::Csv => read_csv(&mut bytes, &wanted, is_gzip),
            _ => read_feed(&mut bytes, &wanted, is_gzip),
        };
        read.map(|read| ReadDocument { digest: bytes.digest(), ..read })
    });
    loop {
        let part = match body.next().await {
            Ok(None) => break,
            Ok(Some(_)) if body.received() > BYTES_MAX => Err("it is longer than 50 MB".to_owned()),
            Ok(Some(part)) => Ok(part),
            Err(error) => Err(error.to_string()),
        };
        let is_end = part.is_err();
        // A reader that has enough takes no more.
        if parts.send(part).await.is_err() || is_end {
            break;
        }
    }
    drop(parts);
    let bytes = body.received();
    drop(body);
    let read = reading.await.map_err(|e| Error::internal("read a document", e))?;
    Ok(read.map(|read| ReadDocument { bytes, ..read }))
}

/// Bytes that come from another task.
struct Coming {
    parts: mpsc::Receiver<Result<Bytes, String>>,
    part: Bytes,
    digest: Context,
    /// Whether the last byte has come.
    has_ended: bool,
}

impl Coming {
    fn new(parts: mpsc::Receiver<Result<Bytes, String>>) -> Coming {
        Coming { parts, part: Bytes::new(), digest: Context::new(&SHA256), has_ended: false }
    }

    /// The next part; none at the end.
    fn next_part(&mut self) -> Result<Option<Bytes>, String> {
        match self.parts.blocking_recv() {
            None => {
                self.has_ended = true;
                Ok(None)
            }
            Some(Ok(part)) => {
                self.digest.update(&part);
                Ok(Some(part))
            }
            Some(Err(broken)) => Err(broken),
        }
    }

    /// Whether what comes is packed, whatever its head says of it.
    fn starts_with_gzip(&mut self) -> Result<bool, String> {
        while self.part.len() < GZIP.len()
            && let Some(part) = self.next_part()?
        {
            self.part = [self.part.as_ref(), &part].concat().into();
        }
        Ok(self.part.starts_with(GZIP))
    }

    fn digest(&self) -> Option<[u8; 32]> {
        let digest = self.has_ended.then(|| self.digest.clone().finish())?;
        digest.as_ref().try_into().ok()
    }
}

impl Read for Coming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.next_part() {
                Ok(Some(part)) => self.part = part,
                Ok(None) => return Ok(0),
                Err(broken) => return Err(io::Error::other(broken)),
            }
        }
        let count = into.len().min(self.part.len());
        self.part.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}

fn entry(line: usize, url: WebUrl, updated: Option<Timestamp>) -> FoundEntry {
    let entry =
        NewUrl { url: url.into_string(), tags: None, metadata: None, page_type: None, workflow_id: None };
    FoundEntry { line, entry, updated }
}

fn read_feed(bytes: &mut Coming, wanted: &Wanted, is_gzip: bool) -> Result<ReadDocument, String> {
    let limits = Limits { entries: wanted.entries_max, ..Limits::default() };
    let charset = wanted.charset.as_deref();
    // A packed file that its server has packed once more; the reader undoes the inner one.
    let document = if is_gzip && bytes.starts_with_gzip()? {
        let unpacked = MultiGzDecoder::new(bytes).take(BYTES_MAX);
        feeds::read(unpacked, &wanted.url, charset, &limits)
    } else {
        feeds::read(bytes, &wanted.url, charset, &limits)
    };
    let document = document.map_err(|error| format!("the document {error}"))?;
    let is_sitemap = wanted.kind == InputKind::Sitemap;
    if document.format.is_sitemap() != is_sitemap {
        let kind = if is_sitemap { "feed" } else { "sitemap" };
        return Err(format!(
            "the document is {}, which an input of the kind {kind} reads",
            document.format.name()
        ));
    }
    let place = wanted.url.as_str();
    let mut notes: Vec<_> = document
        .notes
        .iter()
        .take(NOTES_MAX)
        .map(|note| RunNoteV1 {
            document: place.to_owned(),
            line: note.line,
            column: note.column,
            message: note.problem.to_string(),
        })
        .collect();
    if document.notes_left_out > 0 {
        notes.push(plain_note(place, format!("{} more remarks are left out", document.notes_left_out)));
    }
    let Document { format, entries, refused, truncated, next, previous_archive, complete, .. } = document;
    let mut read = ReadDocument {
        format: format.name().to_owned(),
        next,
        archive: previous_archive,
        refused,
        truncated,
        is_complete: complete,
        notes,
        ..ReadDocument::default()
    };
    let updated = |entry: &feeds::Entry| entry.updated.map(feeds::Date::latest);
    if format == Format::SitemapIndex {
        read.sitemaps = entries
            .into_iter()
            .map(|entry| (updated(&entry), entry.url))
            .map(|(at, url)| (url, at))
            .collect();
    } else {
        let found = entries.into_iter().map(|entry| (updated(&entry), entry.url)).enumerate();
        read.entries = found.map(|(at, (updated, url))| entry(at + 1, url, updated)).collect();
    }
    Ok(read)
}

/// A remark on a whole document.
pub(super) fn plain_note(document: &str, message: impl Into<String>) -> RunNoteV1 {
    RunNoteV1 { document: document.to_owned(), line: 0, column: 0, message: message.into() }
}

fn read_csv(bytes: &mut Coming, wanted: &Wanted, is_gzip: bool) -> Result<ReadDocument, String> {
    let words = |error: Error| {
        let said = error.detail().unwrap_or(error.sentence()).to_owned();
        said.strip_prefix("body: ").unwrap_or(&said).to_owned()
    };
    let first = bytes.next_part()?.unwrap_or_default();
    let file = CsvFile::new(&first, is_gzip, wanted.charset.as_deref()).map_err(words);
    let mut file = file.map_err(|reason| format!("the document {reason}"))?;
    file.push(first);
    let place = wanted.url.as_str();
    let mut read = ReadDocument { format: "CSV".to_owned(), is_complete: true, ..ReadDocument::default() };
    for _ in 0..LINES_MAX {
        let line = match next_line(&mut file, bytes).map_err(|error| error.unwrap_or_else(words)) {
            Ok(line) => line,
            Err(broken) if read.entries.is_empty() && read.refused == 0 => {
                return Err(format!("the document cannot be read: {broken}"));
            }
            Err(broken) => {
                read.notes.push(plain_note(place, format!("the document breaks off: {broken}")));
                read.is_complete = false;
                return Ok(read);
            }
        };
        match line {
            None if read.entries.is_empty() && read.refused == 0 => {
                return Err("the document has no URLs".to_owned());
            }
            None => return Ok(read),
            Some(Line::Wrong(wrong)) => {
                read.refused += 1;
                if read.notes.len() < NOTES_MAX {
                    let line = wrong.line as u64;
                    read.notes.push(RunNoteV1 { line, ..plain_note(place, wrong.reason) });
                }
            }
            Some(Line::Entry { line, entry }) if read.entries.len() < wanted.entries_max => {
                read.entries.push(FoundEntry { line, entry, updated: None });
            }
            Some(Line::Entry { .. }) => read.truncated += 1,
        }
    }
    read.is_complete = false;
    read.notes.push(plain_note(place, format!("more than {LINES_MAX} lines")));
    Ok(read)
}

/// What kept a line from being read: an error of the file's, or of the way to it in words.
enum Broken {
    File(Error),
    Way(String),
}

impl Broken {
    fn unwrap_or_else(self, words: impl Fn(Error) -> String) -> String {
        match self {
            Broken::File(error) => words(error),
            Broken::Way(said) => said,
        }
    }
}

fn next_line(file: &mut CsvFile, bytes: &mut Coming) -> Result<Option<Line>, Broken> {
    loop {
        match file.next_line().map_err(Broken::File)? {
            Some(line) => return Ok(Some(line)),
            None if bytes.has_ended => return Ok(None),
            None => match bytes.next_part().map_err(Broken::Way)? {
                Some(part) => file.push(part),
                None => file.end(),
            },
        }
    }
}
