//! A repository: objects that are checked as they are read, and the manifests.

use crate::manifest::{BackupId, Manifest};
use crate::object::{OBJECT_BYTES_MAX, ObjectId, ObjectRef};
use crate::target::{Held, Target};
use base::{Error, Result};

/// Where manifests lie.
const BACKUPS: &str = "backups";
/// Where objects lie.
pub(crate) const OBJECTS: &str = "objects";
/// Largest manifest, bytes.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// A repository at some place.
pub struct Repository {
    target: Box<dyn Target>,
}

/// The backups of a repository.
#[derive(Debug, Default)]
pub struct Listing {
    /// Oldest first.
    pub backups: Vec<Manifest>,
    /// Manifests that cannot be read, with why.
    pub damaged: Vec<String>,
}

impl Repository {
    pub fn at(target: Box<dyn Target>) -> Repository {
        Repository { target }
    }

    /// What the place is called.
    pub fn name(&self) -> String {
        self.target.name()
    }

    /// Keeps others from writing to it.
    pub fn hold(&self) -> Result<Box<dyn Held>> {
        self.target.hold()
    }

    pub(crate) fn target(&self) -> &dyn Target {
        &*self.target
    }

    /// Every backup, oldest first; what cannot be read is told beside them.
    pub fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for file in self.target.list(BACKUPS)? {
            // What is on its way to its name is no backup yet.
            let Some(id) = BackupId::of_key(&file.key) else { continue };
            match self.manifest(&id) {
                Ok(manifest) => listing.backups.push(manifest),
                Err(error) => listing.damaged.push(error.for_operator()),
            }
        }
        listing.backups.sort_by(|one, other| (one.began_at, &one.id).cmp(&(other.began_at, &other.id)));
        listing.damaged.sort();
        Ok(listing)
    }

    /// The manifest of a backup, checked.
    pub fn manifest(&self, id: &BackupId) -> Result<Manifest> {
        let key = id.key();
        let bytes = self.target.get(&key, MANIFEST_BYTES_MAX)?.ok_or_else(|| {
            Error::conflict(format!("{} has no backup {id}; `gleaner backup list` shows which", self.name()))
        })?;
        Manifest::read(id, &bytes).map_err(|error| self.named(&key, &error))
    }

    /// The newest backup; an error where there is none, or a manifest cannot be read that may be a newer one.
    pub fn newest(&self) -> Result<Manifest> {
        let listing = self.list()?;
        if let Some(damaged) = listing.damaged.first() {
            return Err(Error::conflict(format!("{damaged}. Name a backup that is whole with --backup ID")));
        }
        listing
            .backups
            .into_iter()
            .next_back()
            .ok_or_else(|| Error::conflict(format!("{} has no backup", self.name())))
    }

    /// Writes a manifest, which makes the backup.
    pub(crate) fn put_manifest(&self, manifest: &Manifest) -> Result<()> {
        self.target.put(&manifest.id.key(), &manifest.write()?)?;
        self.target.settle()
    }

    pub(crate) fn remove_manifest(&self, id: &BackupId) -> Result<()> {
        self.target.remove(&id.key())
    }

    /// An object, checked against its name and size.
    pub(crate) fn object(&self, of: &ObjectRef) -> Result<Vec<u8>> {
        let key = of.id.key();
        let wrong = |reason: &str| Error::conflict(format!("{}/{key}: {reason}", self.name()));
        if of.bytes > OBJECT_BYTES_MAX {
            return Err(wrong("it is larger than any object"));
        }
        let bytes = self.target.get(&key, of.bytes)?.ok_or_else(|| wrong("it is missing"))?;
        if bytes.len() as u64 != of.bytes {
            return Err(wrong(&format!("it has {} bytes instead of {}", bytes.len(), of.bytes)));
        }
        if ObjectId::of(&bytes) != of.id {
            return Err(wrong("its content has another checksum than its name: it is damaged"));
        }
        Ok(bytes)
    }

    /// An object that is compressed.
    pub(crate) fn inflated(&self, of: &ObjectRef) -> Result<Vec<u8>> {
        let bytes = self.object(of)?;
        let inflated = zstd::stream::decode_all(&*bytes);
        inflated.map_err(|error| self.named(&of.id.key(), &Error::conflict(error.to_string())))
    }

    /// An error with the file that it is about.
    pub(crate) fn named(&self, key: &str, error: &Error) -> Error {
        Error::conflict(format!("{}/{key}: {}", self.name(), error.for_operator()))
    }
}
