//! Runs of inputs, and what an input remembers of documents and URLs, as they are stored.

use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{BatchId, InputId, InputRunId, UrlId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// Who let a run begin.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum InputTrigger {
        Cron "cron",
        Manual "manual",
    }
}

base::words! {
    /// Where a run stands.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum InputRunStatus {
        Running "running",
        /// Something was new or had changed.
        Completed "completed",
        /// Nothing was.
        Unchanged "unchanged",
        /// It came to nothing, or not to its end: `message` says why.
        Failed "failed",
        /// The run before had not ended.
        SkippedOverlap "skipped_overlap",
        /// The tick was missed.
        SkippedMisfire "skipped_misfire",
    }
}

/// Something that was noticed in a document. Line and column are from 1, or 0 where there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InputRunNote")]
pub struct RunNoteV1 {
    pub document: String,
    pub line: u64,
    pub column: u64,
    pub message: String,
}

/// What a run has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundV1 {
    pub documents: u64,
    pub not_modified: u64,
    pub bytes: u64,
    pub added: u64,
    pub changed: u64,
    pub unchanged: u64,
    pub duplicates: u64,
    pub filtered: u64,
    pub refused: u64,
    pub truncated: u64,
}

/// One run of an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputRunV1 {
    pub id: InputRunId,
    pub input_id: InputId,
    pub trigger: InputTrigger,
    /// Whether what is remembered of the documents does not count.
    pub is_full: bool,
    pub scheduled_for: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub status: InputRunStatus,
    pub message: Option<String>,
    pub http_status: Option<u16>,
    pub final_url: Option<String>,
    pub format: Option<String>,
    pub found: FoundV1,
    pub is_incomplete: bool,
    pub jobs_created: u64,
    pub jobs_missing: u64,
    pub notes: Vec<RunNoteV1>,
    /// How often it was begun: a box that is ended in the middle of it begins it anew.
    pub attempts: u32,
}

impl Record for InputRunV1 {}

impl InputRunV1 {
    /// The batch of its jobs.
    pub fn batch(&self) -> BatchId {
        BatchId(self.id.0)
    }
}

/// The runs of an input, oldest first.
pub static BY_INPUT: Index<InputId, InputRunV1> =
    Index::new("input_runs.by_input", |run, keys| keys.add(run.input_id));

/// Inputs with a run that has not ended.
pub static OPEN: Index<InputId, InputRunV1> = Index::new("input_runs.open", |run, keys| {
    if run.status == InputRunStatus::Running {
        keys.add(run.input_id);
    }
});

/// Runs of all organizations that have not ended.
pub static TO_RUN: Index<Timestamp, InputRunV1> = Index::global("input_runs.to_run", |run, keys| {
    if run.status == InputRunStatus::Running {
        keys.add(run.scheduled_for);
    }
});

/// Those that have, of all organizations.
pub static ENDED: Index<Timestamp, InputRunV1> = Index::global("input_runs.ended", |run, keys| {
    if let Some(at) = run.finished_at {
        keys.add(at);
    }
});

pub static RUNS: OrgTable<InputRunId, InputRunV1> =
    OrgTable::new("input_runs", "Input run").indexed(&[&BY_INPUT, &OPEN, &TO_RUN, &ENDED]).fed();

/// What is remembered of a document that was read to its end and whose URLs are registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputDocumentV1 {
    /// The input's terms that it was read under.
    pub terms: u32,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub body: [u8; 32],
    /// When its last complete reading began.
    pub read_at: Timestamp,
}

impl Record for InputDocumentV1 {}

/// By input and the SHA-256 of the document's URL.
pub static DOCUMENTS: OrgTable<(InputId, [u8; 32]), InputDocumentV1> =
    OrgTable::new("input_documents", "Document");

/// What an input has said of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputUrlV1 {
    /// The latest change that it told of.
    pub updated: Option<Timestamp>,
    /// The run that counted it as added or changed last: it does not count it once more when it is begun anew.
    pub run: Option<InputRunId>,
}

impl Record for InputUrlV1 {}

pub static INPUT_URLS: OrgTable<(InputId, UrlId), InputUrlV1> =
    OrgTable::new("input_urls", "URL of an input");

/// An input that was deleted and of which there is something left to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoneV1 {
    pub at: Timestamp,
}

impl Record for GoneV1 {}

pub static GONE: OrgTable<InputId, GoneV1> = OrgTable::new("input_gone", "Deleted input").uncounted();
