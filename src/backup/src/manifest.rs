//! Manifests: what a backup is made of, in JSON, with the digest of all of it in the last line.

use crate::object::{ObjectId, ObjectRef};
use base::clock::Timestamp;
use base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// The shape of repositories; a release that changes it reads the older ones.
const FORMAT: u32 = 1;
/// Stands before the digest.
const DIGEST: &str = "sha256 ";

/// A backup's name: an id that is newer than those of older backups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BackupId(String);

impl BackupId {
    /// A name for a new backup.
    pub fn fresh() -> BackupId {
        BackupId(Uuid::now_v7().to_string())
    }

    pub(crate) fn key(&self) -> String {
        format!("backups/{}.json", self.0)
    }

    pub(crate) fn of_key(key: &str) -> Option<BackupId> {
        key.strip_prefix("backups/")?.strip_suffix(".json")?.parse().ok()
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BackupId {
    type Err = Error;

    fn from_str(text: &str) -> Result<BackupId> {
        let id = text.parse::<Uuid>().ok().map(|id| id.to_string());
        match id {
            Some(id) if id == text => Ok(BackupId(id)),
            _ => Err(Error::invalid("backup", "is no id of a backup; `gleaner backup list` shows them")),
        }
    }
}

/// What is sealed, and whether.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sealing {
    /// With the passphrase.
    Passphrase,
    Open,
}

/// A small file of the box's: the key file, the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SmallFile {
    pub object: ObjectRef,
    pub sealing: Sealing,
}

/// A file of the data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileOf {
    /// Names with `/` between, below the data folder.
    pub path: String,
    pub bytes: u64,
    /// Its content, part after part.
    pub parts: Vec<ObjectRef>,
}

/// How much a backup holds and what of it was new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Rows and index entries of the store.
    pub rows: u64,
    pub pages: u64,
    /// Bytes of pages, compressed as the box keeps them.
    pub page_bytes: u64,
    pub files: u64,
    /// Pages that no earlier backup had.
    pub new_pages: u64,
    /// Objects that were written for it, and their bytes.
    pub new_objects: u64,
    pub new_bytes: u64,
    /// How long writes waited for its moment, microseconds.
    pub pause_us: u64,
}

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub(crate) format: u32,
    pub id: BackupId,
    /// The release that made it.
    pub version: String,
    /// The store that it is of.
    pub store: Uuid,
    pub began_at: Timestamp,
    /// The moment that it holds the box at.
    pub moment: Timestamp,
    pub ended_at: Timestamp,
    pub summary: Summary,
    /// Objects with rows, in the order in which they are put in.
    pub(crate) rows: Vec<ObjectRef>,
    /// Lists of pages, each page once.
    pub(crate) pages: Vec<ObjectRef>,
    /// Those from here on are of pages that came while the backup was made.
    pub(crate) late_lists_from: u64,
    /// Every pack that those lists name.
    pub(crate) packs: Vec<ObjectRef>,
    /// Packs less than half of which is still wanted: the next backup writes their pages anew.
    pub(crate) stale_packs: Vec<ObjectId>,
    pub(crate) files: Vec<FileOf>,
    /// The key file, where it was not left out.
    pub(crate) key: Option<SmallFile>,
    pub(crate) config: Option<SmallFile>,
}

/// Only the form, to tell a newer one by.
#[derive(Deserialize)]
struct Form {
    format: u32,
}

impl Manifest {
    pub(crate) const FORMAT: u32 = FORMAT;

    /// Whether the key file is in it.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Every object of the backup, some more than once.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectRef> {
        let small = self.key.iter().chain(&self.config).map(|file| &file.object);
        let files = self.files.iter().flat_map(|file| &file.parts);
        self.rows.iter().chain(&self.pages).chain(&self.packs).chain(files).chain(small)
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_string(self).map_err(|e| Error::internal("write a manifest", e))?;
        text.push('\n');
        let digest = ObjectId::of(text.as_bytes());
        text.push_str(&format!("{DIGEST}{digest}\n"));
        Ok(text.into_bytes())
    }

    /// Reads the manifest of the backup `id`; the reason says what is wrong with it.
    pub(crate) fn read(id: &BackupId, bytes: &[u8]) -> Result<Manifest> {
        let damaged = || Error::conflict("its checksum is not that of its content: it is damaged or cut off");
        let end = DIGEST.len() + 64 + 1;
        let (text, last) = bytes.len().checked_sub(end).map(|at| bytes.split_at(at)).ok_or_else(damaged)?;
        let last = std::str::from_utf8(last).ok().and_then(|last| last.strip_prefix(DIGEST));
        let digest = last.and_then(|last| last.strip_suffix('\n')).ok_or_else(damaged)?;
        if ObjectId::of(text).to_string() != digest {
            return Err(damaged());
        }
        let form: Form = serde_json::from_slice(text).map_err(|_| damaged())?;
        if form.format > FORMAT {
            return Err(Error::conflict(format!(
                "it has format {}, this release knows up to {FORMAT}: a newer one made it",
                form.format
            )));
        }
        let manifest: Manifest =
            serde_json::from_slice(text).map_err(|e| Error::conflict(format!("it cannot be read: {e}")))?;
        if manifest.id != *id {
            return Err(Error::conflict("it is another backup's, under this one's name"));
        }
        Ok(manifest)
    }
}
