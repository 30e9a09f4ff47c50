//! Full-text search over extraction results: one tantivy index for the box behind [`OrgSearch`].
//!
//! **One index, an organization's term in every query.** Separate indexes cost gigabytes and threads by the
//! hundred (data/docs/engines.md, "Search"). [`SearchIndex::org`] is the only way to a query, and
//! it adds the term itself.
//!
//! **The index is a cache of redb.** It is fed from the outbox: each change deletes the document by
//! (organization, id) and adds it anew, so applying a change twice does no harm. The outbox position is
//! written into the payload of the very commit that holds the documents, so index and position cannot
//! disagree: whatever happens, the caller reads [`SearchIndex::position`] and applies what comes after.
//! An index of another schema version, or one that cannot be opened, is wiped: [`SearchIndex::opening`] says
//! so, the position is 0, and the caller feeds all rows again. One that turns out to be damaged later is
//! emptied by the caller ([`SearchIndex::clear`]) and fed anew as well.
//!
//! **Threads.** Everything here blocks (files, locks): call it from a blocking thread. Searches never wait
//! for the writer.
//!
//! Files: `schema.rs` fields and documents, `analyze.rs` text to terms, `writer.rs` changes and commits,
//! `parse.rs` what people type, `query.rs` [`OrgSearch`], `collect.rs` the pass over the matches,
//! `snippet.rs` highlights.

mod analyze;
mod collect;
mod parse;
mod query;
mod schema;
mod snippet;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tantivy::directory::MmapDirectory;
use tantivy::directory::error::{OpenDirectoryError, OpenReadError, OpenWriteError};
use tantivy::store::Compressor;
use tantivy::{Index, IndexReader, IndexSettings, ReloadPolicy, Searcher, TantivyError};
use uuid::Uuid;

pub use collect::{FACET_VALUES_MAX, Sort};
pub use parse::{PREFIX_CHARS_MIN, Q_CHARS_MAX, Q_TERMS_MAX};
pub use query::{Facets, Hit, OrgSearch, PAGE_HITS_MAX, ResultPage, ResultQuery, SEARCH_TIME_MAX, SortKey};
pub use schema::{KEYWORD_BYTES_MAX, SearchChange, SearchDocument, TAGS_MAX, TEXT_BYTES_MAX};
pub use snippet::{FRAGMENT_CHARS_MAX, FRAGMENTS_MAX, highlights};
pub use writer::OrgRemoval;

use schema::{Fields, SCHEMA_VERSION};
use writer::WriterState;

/// The folder inside ours that tantivy owns, so that wiping removes nothing else.
const INDEX_FOLDER: &str = "index";
/// The file that names the schema version; written last, so a creation that was cut off starts over.
const VERSION_FILE: &str = "schema-version";

/// The index of the box. Cheap to clone; all clones are one index.
#[derive(Clone)]
pub struct SearchIndex {
    inner: Arc<Inner>,
}

struct Inner {
    index: Index,
    reader: IndexReader,
    fields: Fields,
    writer: Mutex<WriterState>,
    /// The outbox position of the commit that searches see.
    position: AtomicU64,
    opening: OpenOutcome,
}

/// What was found when the index was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenOutcome {
    /// An index of this version: continue behind its position.
    Existing,
    /// No index yet: feed all rows.
    Created,
    /// An index that could not be used, for this reason, and was wiped: feed all rows.
    Rebuilt { why: String },
}

impl SearchIndex {
    /// Opens the index in `dir`, creating folder and index as needed. One process at a time may write to it.
    /// Errors: the folder cannot be read or written, or the disk is full. Unusable content is no error, see
    /// [`OpenOutcome`].
    pub fn open(dir: PathBuf) -> Result<SearchIndex, SearchError> {
        disk::open_folder(&dir).map_err(SearchError::from_io)?;
        let folder = dir.join(INDEX_FOLDER);
        let version = version_in(&dir)?;
        let (opened, opening) = match version.as_deref() {
            Some(version) if version == SCHEMA_VERSION.to_string() => match open_index(&folder) {
                Ok(opened) => (opened, OpenOutcome::Existing),
                Err(error) if is_damage(&error) => (
                    create_index(&dir)?,
                    OpenOutcome::Rebuilt { why: format!("the index cannot be read: {error}") },
                ),
                Err(error) => return Err(SearchError::from_tantivy(error)),
            },
            None if !folder.exists() => (create_index(&dir)?, OpenOutcome::Created),
            version => {
                let found = version.unwrap_or("unfinished");
                let why = format!("schema version {SCHEMA_VERSION} replaces {found}");
                (create_index(&dir)?, OpenOutcome::Rebuilt { why })
            }
        };
        let OpenedIndex { index, reader, fields, position } = opened;
        Ok(SearchIndex {
            inner: Arc::new(Inner {
                index,
                reader,
                fields,
                writer: Mutex::new(WriterState::default()),
                position: AtomicU64::new(position),
                opening,
            }),
        })
    }

    /// What was found at [`SearchIndex::open`].
    pub fn opening(&self) -> &OpenOutcome {
        &self.inner.opening
    }

    /// Whether the index started empty, so that all rows must be fed, not only the outbox.
    pub fn rebuilt(&self) -> bool {
        self.inner.opening != OpenOutcome::Existing
    }

    /// The outbox position up to which searches see every change; 0 before the first commit.
    pub fn position(&self) -> u64 {
        self.inner.position.load(Ordering::Acquire)
    }

    /// Documents that searches see, over all organizations; for the operator's status.
    pub fn documents(&self) -> u64 {
        self.searcher().num_docs()
    }

    /// Compares every file of the index with its checksum: the names of those that are not what was written. A missing one
    /// is [`SearchError::Damaged`]. Reads all of it, a file at a time, while searches and commits go on; none when `stop`
    /// ended it.
    pub fn verify(&self, stop: &dyn Fn() -> bool) -> Result<Option<Vec<String>>, SearchError> {
        let mut damaged = Vec::new();
        for file in self.files()? {
            if stop() {
                return Ok(None);
            }
            let sound = self.inner.index.directory().validate_checksum(&file);
            match sound {
                Ok(true) => {}
                // A merge has replaced it meanwhile.
                _ if !self.files()?.contains(&file) => {}
                Ok(false) => damaged.push(file.display().to_string()),
                Err(error) => return Err(SearchError::from_tantivy(error.into())),
            }
        }
        Ok(Some(damaged))
    }

    /// The files of the last commit.
    fn files(&self) -> Result<BTreeSet<PathBuf>, SearchError> {
        let index = &self.inner.index;
        let there = index.directory().list_managed_files();
        let metas = index.load_metas().map_err(SearchError::from_tantivy)?;
        Ok(metas.list_segment_files().into_iter().filter(|file| there.contains(file)).collect())
    }

    /// Documents of one organization that searches see.
    pub fn documents_of(&self, org: Uuid) -> Result<u64, SearchError> {
        self.visible_with(&self.fields().org_term(org)).map_err(SearchError::from_tantivy)
    }

    /// Whether an index of this release stands there, without a look into it.
    pub fn is_of_this_release(dir: &Path) -> Result<bool, SearchError> {
        let is_named = version_in(dir)?.as_deref() == Some(SCHEMA_VERSION.to_string().as_str());
        Ok(is_named && dir.join(INDEX_FOLDER).exists())
    }

    /// Looks at an index that nobody serves; none where there is none of this release.
    pub fn inspect(dir: &Path) -> Result<Option<InspectedIndex>, SearchError> {
        let folder = dir.join(INDEX_FOLDER);
        if version_in(dir)?.as_deref() != Some(SCHEMA_VERSION.to_string().as_str()) || !folder.exists() {
            return Ok(None);
        }
        let opened = open_index(&folder).map_err(SearchError::from_tantivy)?;
        let damaged = opened.index.validate_checksum().map_err(SearchError::from_tantivy)?;
        let documents = opened.reader.searcher().num_docs();
        let damaged = damaged.iter().map(|file| file.display().to_string()).collect();
        Ok(Some(InspectedIndex { damaged, documents, position: opened.position }))
    }

    fn fields(&self) -> &Fields {
        &self.inner.fields
    }

    fn searcher(&self) -> Searcher {
        self.inner.reader.searcher()
    }
}

/// What a look at an index that nobody serves says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedIndex {
    /// Files that are not what was written.
    pub damaged: Vec<String>,
    pub documents: u64,
    /// The outbox position of its last commit.
    pub position: u64,
}

/// An index and what belongs to it.
struct OpenedIndex {
    index: Index,
    reader: IndexReader,
    fields: Fields,
    position: u64,
}

/// The version that the folder claims to hold; `None` when it claims nothing.
fn version_in(dir: &Path) -> Result<Option<String>, SearchError> {
    match fs::read(dir.join(VERSION_FILE)) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SearchError::from_io(error)),
    }
}

fn open_index(folder: &Path) -> Result<OpenedIndex, TantivyError> {
    let index = Index::open(MmapDirectory::open(folder)?)?;
    let (expected, fields) = Fields::build();
    if index.schema() != expected {
        return Err(TantivyError::SchemaError("other fields than this version's".to_owned()));
    }
    opened(index, fields)
}

/// Wipes what is there and makes an empty index; the version file comes last.
fn create_index(dir: &Path) -> Result<OpenedIndex, SearchError> {
    let folder = dir.join(INDEX_FOLDER);
    remove_if_there(fs::remove_file(dir.join(VERSION_FILE)))?;
    remove_if_there(fs::remove_dir_all(&folder))?;
    disk::make_folder(&folder).map_err(SearchError::from_io)?;
    let created = (|| {
        let (schema, fields) = Fields::build();
        // Nothing is stored, so the document store needs neither compression nor the thread it has by
        // default.
        let settings = IndexSettings {
            docstore_compression: Compressor::None,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let index = Index::create(MmapDirectory::open(&folder)?, schema, settings)?;
        opened(index, fields)
    })()
    .map_err(SearchError::from_tantivy)?;
    write_version(dir).map_err(SearchError::from_io)?;
    Ok(created)
}

fn write_version(dir: &Path) -> io::Result<()> {
    disk::write_synced(&dir.join(VERSION_FILE), SCHEMA_VERSION.to_string().as_bytes(), true)?;
    disk::sync_folder(dir)
}

fn opened(index: Index, fields: Fields) -> Result<OpenedIndex, TantivyError> {
    schema::register_analyzer(&index);
    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    let position = writer::committed_position(&index)?;
    Ok(OpenedIndex { index, reader, fields, position })
}

fn remove_if_there(removed: io::Result<()>) -> Result<(), SearchError> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SearchError::from_io(error)),
        _ => Ok(()),
    }
}

/// Whether an index with this error can only be thrown away. An error of the machine (no permission, disk
/// full, too many open files) is not: the index may be fine.
fn is_damage(error: &TantivyError) -> bool {
    let damaged_file =
        |kind: io::ErrorKind| matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData);
    match error {
        TantivyError::DataCorruption(_)
        | TantivyError::IncompatibleIndex(_)
        | TantivyError::SchemaError(_)
        | TantivyError::DeserializeError(_)
        | TantivyError::FieldNotFound(_)
        | TantivyError::MissingPlugin(_)
        | TantivyError::InternalError(_) => true,
        TantivyError::OpenReadError(
            OpenReadError::FileDoesNotExist(_) | OpenReadError::IncompatibleIndex(_),
        ) => true,
        TantivyError::OpenDirectoryError(OpenDirectoryError::DoesNotExist(_)) => true,
        other => io_error(other).is_some_and(|error| damaged_file(error.kind())),
    }
}

/// The system's error inside tantivy's, where it keeps one.
fn io_error(error: &TantivyError) -> Option<&io::Error> {
    match error {
        TantivyError::IoError(error) => Some(error),
        TantivyError::OpenReadError(OpenReadError::IoError { io_error, .. }) => Some(io_error),
        TantivyError::OpenWriteError(OpenWriteError::IoError { io_error, .. }) => Some(io_error),
        TantivyError::OpenDirectoryError(OpenDirectoryError::IoError { io_error, .. }) => Some(io_error),
        _ => None,
    }
}

/// Why the index could not do what was asked.
#[derive(Debug)]
pub enum SearchError {
    /// The disk is full. Nothing that was committed is lost; apply again from [`SearchIndex::position`]
    /// later.
    NoSpace(Box<dyn Error + Send + Sync>),
    /// The index cannot be read any more: the caller empties it ([`SearchIndex::clear`]), or the next
    /// [`SearchIndex::open`] does.
    Damaged(TantivyError),
    /// The cursor comes from a page in another order: the caller's mistake.
    CursorOfOtherSort,
    /// The query had more to look through than [`SEARCH_TIME_MAX`] allows.
    TooSlow,
    /// Documents of an organization are still in the files after its removal, because a search holds on to
    /// them: repeat.
    NotErased { segments: usize },
    /// Another failure of the machine or of tantivy.
    Failed(Box<dyn Error + Send + Sync>),
}

impl SearchError {
    fn from_io(error: io::Error) -> SearchError {
        if is_no_space(&error) {
            SearchError::NoSpace(Box::new(error))
        } else {
            SearchError::Failed(Box::new(error))
        }
    }

    fn from_tantivy(error: TantivyError) -> SearchError {
        // Between tantivy's error and the system's lie wrappers without a `source` (its term dictionaries')
        // and plain texts (an error in a thread), so the full disk is looked for in the text that all of them
        // carry on.
        let text = format!("{error:?}");
        if text.contains("StorageFull") || text.contains("QuotaExceeded") {
            SearchError::NoSpace(Box::new(error))
        } else if is_damage(&error) {
            SearchError::Damaged(error)
        } else {
            SearchError::Failed(Box::new(error))
        }
    }
}

fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchError::NoSpace(_) => f.write_str("the search index has no space left on its disk"),
            SearchError::Damaged(_) => f.write_str("the search index is damaged and will be rebuilt"),
            SearchError::CursorOfOtherSort => f.write_str("the cursor belongs to a list in another order"),
            SearchError::TooSlow => f.write_str("the search took too long"),
            SearchError::NotErased { segments } => {
                write!(f, "{segments} segments of the search index still hold removed documents")
            }
            SearchError::Failed(_) => f.write_str("the search index could not do its work"),
        }
    }
}

impl Error for SearchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SearchError::NoSpace(error) | SearchError::Failed(error) => Some(error.as_ref()),
            SearchError::Damaged(error) => Some(error),
            SearchError::CursorOfOtherSort | SearchError::TooSlow | SearchError::NotErased { .. } => None,
        }
    }
}
