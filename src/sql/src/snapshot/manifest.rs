//! The manifest: which files are an organization's snapshot, and at which outbox position.
//!
//! One manifest names the files of all tables, so that two tables always agree. It is replaced by writing a new file
//! beside it, syncing, and renaming over it: a reader sees the old one or the new one. Everything it names is
//! immutable and was synced before. Files that it does not name are leftovers of a crash and go when it is loaded.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::buffer::Buffer;
use serde::{Deserialize, Serialize};

use crate::segment::{KEY_BYTES, Key, Segment, SegmentError};

pub(super) const MANIFEST_FILE: &str = "manifest.json";
const MANIFEST_NEW_FILE: &str = "manifest.new";
/// The form of manifests, segments and deletion bitmaps. It grows with any change that makes files of an earlier release
/// unreadable or wrong: they are then made anew from the store.
pub const FORMAT: u32 = 2;

/// A file that is deleted when nobody holds it any more, once it is retired.
///
/// A file begins retired, so that a failed change leaves nothing behind; the manifest that names it keeps it.
#[derive(Debug)]
pub(crate) struct StoredFile {
    pub(crate) path: PathBuf,
    retired: AtomicBool,
}

impl StoredFile {
    pub(super) fn unpublished(path: PathBuf) -> Arc<Self> {
        Arc::new(Self { path, retired: AtomicBool::new(true) })
    }

    fn kept(path: PathBuf) -> Arc<Self> {
        Arc::new(Self { path, retired: AtomicBool::new(false) })
    }

    pub(super) fn set_retired(&self, retired: bool) {
        self.retired.store(retired, Ordering::Release);
    }

    fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire) {
            // Nothing depends on it: a file that stays is removed when the manifest is next loaded.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Which rows of a segment are deleted: a range of a bitmap file, least significant bit first, as Arrow has it.
#[derive(Clone, Debug)]
pub(crate) struct Deletions {
    pub(crate) file: Arc<StoredFile>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) rows: usize,
    /// CRC-32 of these bytes.
    pub(crate) sum: u32,
}

/// One segment of a snapshot, with the deletions that apply to it there.
#[derive(Clone, Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) file: Arc<StoredFile>,
    pub(crate) rows: usize,
    pub(crate) bytes: u64,
    pub(crate) min_key: Key,
    pub(crate) max_key: Key,
    pub(crate) deletions: Option<Deletions>,
    pub(super) opened: Arc<OnceLock<Segment>>,
}

impl SegmentEntry {
    /// Rows that are not deleted.
    pub(crate) fn live_rows(&self) -> usize {
        self.rows - self.deletions.as_ref().map_or(0, |deletions| deletions.rows)
    }

    pub(super) fn open(&self) -> Result<&Segment, SegmentError> {
        if let Some(segment) = self.opened.get() {
            return Ok(segment);
        }
        let segment = Segment::open(&self.file.path)?;
        if segment.rows() != self.rows {
            return Err(SegmentError::Damaged("it has another number of rows"));
        }
        Ok(self.opened.get_or_init(|| segment))
    }

    /// The deletion bitmap, one bit a row; all zero when nothing is deleted.
    pub(super) fn deleted_bits(&self) -> Result<Vec<u8>, SegmentError> {
        let bytes = self.rows.div_ceil(8);
        match &self.deletions {
            None => Ok(vec![0; bytes]),
            Some(d) if d.rows >= self.rows => Ok(vec![0xff; bytes]),
            Some(d) => Ok(read_bits(&d.file.path, (d.offset, d.bytes, d.sum), self.rows)?.to_vec()),
        }
    }
}

/// Reads the deletion bitmap of a segment of `rows` rows: where it begins, its bytes, and their checksum.
pub(crate) fn read_bits(
    path: &Path,
    (offset, bytes, sum): (u64, u64, u32),
    rows: usize,
) -> Result<Buffer, SegmentError> {
    use std::os::unix::fs::FileExt;
    if bytes != rows.div_ceil(8) as u64 {
        return Err(SegmentError::Damaged("its deletions have another number of rows"));
    }
    let mut bits = vec![0; rows.div_ceil(8)];
    File::open(path)?.read_exact_at(&mut bits, offset)?;
    if crc32fast::hash(&bits) != sum {
        return Err(SegmentError::Damaged("its deletions are not what was written"));
    }
    Ok(Buffer::from_vec(bits))
}

/// One consistent state of all tables of an organization.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) position: u64,
    pub(crate) committed_at_ms: i64,
    pub(crate) tables: BTreeMap<String, Vec<SegmentEntry>>,
}

impl Snapshot {
    /// Every file that this snapshot needs.
    pub(super) fn files(&self) -> impl Iterator<Item = &Arc<StoredFile>> {
        self.tables
            .values()
            .flatten()
            .flat_map(|entry| std::iter::once(&entry.file).chain(entry.deletions.as_ref().map(|d| &d.file)))
    }
}

#[derive(Serialize, Deserialize)]
struct ManifestV2 {
    format: u32,
    position: u64,
    committed_at_ms: i64,
    next_file: u64,
    tables: BTreeMap<String, Vec<SegmentV2>>,
}

#[derive(Serialize, Deserialize)]
struct SegmentV2 {
    file: String,
    rows: usize,
    bytes: u64,
    min_key: String,
    max_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deletions: Option<DeletionsV2>,
}

#[derive(Serialize, Deserialize)]
struct DeletionsV2 {
    file: String,
    offset: u64,
    bytes: u64,
    rows: usize,
    sum: u32,
}

fn key_text(key: &Key) -> String {
    uuid::Uuid::from_bytes(*key).simple().to_string()
}

fn key_from(text: &str) -> Result<Key, SegmentError> {
    let parsed = uuid::Uuid::try_parse(text).map(uuid::Uuid::into_bytes);
    parsed.map_err(|_| SegmentError::Damaged("the manifest holds an impossible key"))
}

/// Loads a folder's snapshot and the number of its next file, and removes the files that it does not name; an empty one
/// when there is no manifest.
pub(super) fn load(folder: &Path) -> Result<(Snapshot, u64), SegmentError> {
    let (snapshot, next_file) = read(folder)?.unwrap_or_else(|| (Snapshot::default(), 1));
    let named = snapshot.files().map(|file| file.name()).collect();
    remove_unnamed(folder, &named)?;
    Ok((snapshot, next_file))
}

/// The same without removing anything; none when there is no manifest.
pub(super) fn read(folder: &Path) -> Result<Option<(Snapshot, u64)>, SegmentError> {
    let bytes = match fs::read(folder.join(MANIFEST_FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let text = unsealed(&bytes)?;
    let manifest: ManifestV2 =
        serde_json::from_slice(text).map_err(|_| SegmentError::Damaged("the manifest cannot be read"))?;
    if manifest.format != FORMAT {
        return Err(SegmentError::Damaged("the manifest is of another form"));
    }
    let mut files: BTreeMap<String, Arc<StoredFile>> = BTreeMap::new();
    let mut file = |name: &str| -> Result<Arc<StoredFile>, SegmentError> {
        if name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(SegmentError::Damaged("the manifest names an impossible file"));
        }
        let slot = files.entry(name.to_owned()).or_insert_with(|| StoredFile::kept(folder.join(name)));
        Ok(Arc::clone(slot))
    };
    let mut tables = BTreeMap::new();
    for (table, stored) in &manifest.tables {
        let mut entries = Vec::with_capacity(stored.len());
        for segment in stored {
            let deletions = segment.deletions.as_ref().map(|d| {
                let (offset, bytes, rows, sum) = (d.offset, d.bytes, d.rows, d.sum);
                file(&d.file).map(|file| Deletions { file, offset, bytes, rows, sum })
            });
            entries.push(SegmentEntry {
                file: file(&segment.file)?,
                rows: segment.rows,
                bytes: segment.bytes,
                min_key: key_from(&segment.min_key)?,
                max_key: key_from(&segment.max_key)?,
                deletions: deletions.transpose()?.filter(|d| d.rows <= segment.rows),
                opened: Arc::default(),
            });
        }
        tables.insert(table.clone(), entries);
    }
    let (position, committed_at_ms) = (manifest.position, manifest.committed_at_ms);
    Ok(Some((Snapshot { position, committed_at_ms, tables }, manifest.next_file.max(1))))
}

/// A manifest with the checksum of its text in a line of its own.
fn sealed(mut text: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&text);
    text.extend(format!("\n{sum:08x}\n").bytes());
    text
}

/// The text of a manifest that is what was written.
fn unsealed(bytes: &[u8]) -> Result<&[u8], SegmentError> {
    let damaged = SegmentError::Damaged("the manifest is not what was written");
    let Some((text, sum)) = bytes.split_last_chunk::<10>() else { return Err(damaged) };
    if *sum == *format!("\n{:08x}\n", crc32fast::hash(text)).as_bytes() { Ok(text) } else { Err(damaged) }
}

fn remove_unnamed(folder: &Path, named: &HashSet<String>) -> Result<(), SegmentError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != MANIFEST_FILE && !named.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A manifest that is written and synced, but does not count yet.
pub(super) struct PreparedManifest<'a> {
    folder: &'a Path,
    parent: File,
}

impl PreparedManifest<'_> {
    /// Makes it the folder's manifest.
    pub(super) fn rename(&self) -> io::Result<()> {
        fs::rename(self.folder.join(MANIFEST_NEW_FILE), self.folder.join(MANIFEST_FILE))
    }

    /// Makes the renaming durable; only then may the files of the old manifest go.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.parent.sync_all()
    }
}

/// Writes the manifest of `snapshot` beside the current one. All files it names must have been synced.
pub(super) fn prepare<'a>(
    folder: &'a Path,
    snapshot: &Snapshot,
    next_file: u64,
) -> Result<PreparedManifest<'a>, SegmentError> {
    let segment = |entry: &SegmentEntry| SegmentV2 {
        file: entry.file.name(),
        rows: entry.rows,
        bytes: entry.bytes,
        min_key: key_text(&entry.min_key),
        max_key: key_text(&entry.max_key),
        deletions: entry.deletions.as_ref().map(|d| DeletionsV2 {
            file: d.file.name(),
            offset: d.offset,
            bytes: d.bytes,
            rows: d.rows,
            sum: d.sum,
        }),
    };
    let manifest = ManifestV2 {
        format: FORMAT,
        position: snapshot.position,
        committed_at_ms: snapshot.committed_at_ms,
        next_file,
        tables: snapshot
            .tables
            .iter()
            .map(|(name, entries)| (name.clone(), entries.iter().map(segment).collect()))
            .collect(),
    };
    let text = serde_json::to_vec(&manifest).map_err(io::Error::other)?;
    disk::write_synced(&folder.join(MANIFEST_NEW_FILE), &sealed(text), true)?;
    // The names of the new files must be durable before the manifest that relies on them.
    let parent = File::open(folder)?;
    parent.sync_all()?;
    Ok(PreparedManifest { folder, parent })
}

const _: () = assert!(KEY_BYTES == 16, "keys are written as UUIDs in the manifest");
