//! Reading parts of a backup: the rows, one organization's pages, some files. Nothing is put anywhere here.
//!
//! Objects are checked as they are read, so what is damaged is an error that names the object.

use crate::files;
use crate::make::KEY;
use crate::manifest::{Manifest, Sealing};
use crate::object::ObjectRef;
use crate::pages::{List, PageHash, Shelf};
use crate::repository::Repository;
use crate::rows::{self, RowsOf};
use crate::seal::Passphrase;
use base::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A backup that is read in parts.
pub struct Parts<'p> {
    pub repository: &'p Repository,
    pub backup: &'p Manifest,
    /// Asked between two objects; ends the reading with an error.
    pub stop: &'p dyn Fn() -> bool,
}

/// A page in a pack: where it begins, and its bytes.
type Piece = (PageHash, u32, u32);

/// Where an organization's pages lie, by pack.
#[derive(Default)]
pub struct PagesOf {
    packs: BTreeMap<[u8; 32], (ObjectRef, Vec<Piece>)>,
    pub pages: u64,
}

/// A file of the data folder, as a backup has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartFile {
    /// Names with `/` between, below the data folder.
    pub path: String,
    pub bytes: u64,
    parts: Vec<ObjectRef>,
}

impl Parts<'_> {
    fn check(&self) -> Result<()> {
        if (self.stop)() { Err(Error::unavailable("the restore was stopped")) } else { Ok(()) }
    }

    /// Says whether the passphrase is the one that the key file was sealed with; of a backup without one nothing is said.
    pub fn try_passphrase(&self, passphrase: &Passphrase) -> Result<()> {
        match self.backup.key.as_ref().filter(|key| key.sealing == Sealing::Passphrase) {
            Some(key) => passphrase.open(KEY, &self.repository.object(&key.object)?).map(drop),
            None => Ok(()),
        }
    }

    /// Gives every row of the store, in the order in which a later one takes the place of an earlier one.
    pub fn rows(&self, take: &mut dyn FnMut(RowsOf) -> Result<()>) -> Result<()> {
        for run in &self.backup.rows {
            self.check()?;
            let parts = rows::read(&self.repository.inflated(run)?);
            let parts = parts.map_err(|error| self.repository.named(&run.id.key(), &error))?;
            parts.into_iter().try_for_each(&mut *take)?;
        }
        Ok(())
    }

    /// Where the pages of an organization lie.
    pub fn pages_of(&self, org: Uuid) -> Result<PagesOf> {
        let mut found = PagesOf::default();
        for list in &self.backup.pages {
            self.check()?;
            for (Shelf { org: whose, .. }, shelved) in List::of(self.repository, list)?.shelves {
                if whose != org {
                    continue;
                }
                found.pages += shelved.len() as u64;
                for (hash, lies) in shelved {
                    let (_, pages) = found.packs.entry(lies.pack.id.0).or_insert((lies.pack, Vec::new()));
                    pages.push((hash, lies.at, lies.bytes));
                }
            }
        }
        Ok(found)
    }

    /// Gives these pages, compressed as the box keeps them, a pack's at a time.
    pub fn pages(
        &self,
        of: &PagesOf,
        take: &mut dyn FnMut(Vec<(PageHash, Vec<u8>)>) -> Result<()>,
    ) -> Result<()> {
        for (pack, pages) in of.packs.values() {
            self.check()?;
            let bytes = self.repository.object(pack)?;
            let page = |(hash, at, length): &Piece| {
                let of_pack = bytes.get(*at as usize..).and_then(|rest| rest.get(..*length as usize));
                let of_pack = of_pack.ok_or_else(|| {
                    let short = Error::conflict("it is shorter than the list of its pages says");
                    self.repository.named(&pack.id.key(), &short)
                });
                Ok((*hash, of_pack?.to_vec()))
            };
            take(pages.iter().map(page).collect::<Result<_>>()?)?;
        }
        Ok(())
    }

    /// The files whose path is wanted.
    pub fn files(&self, wanted: &dyn Fn(&Path) -> bool) -> Vec<PartFile> {
        let files = self.backup.files.iter().filter(|file| wanted(Path::new(&file.path)));
        let part = |file: &crate::manifest::FileOf| PartFile {
            path: file.path.clone(),
            bytes: file.bytes,
            parts: file.parts.clone(),
        };
        files.map(part).collect()
    }

    /// Gives a file's bytes, part after part.
    pub fn file(&self, file: &PartFile, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for part in &file.parts {
            self.check()?;
            take(&self.repository.object(part)?)?;
        }
        Ok(())
    }
}

impl PartFile {
    /// Where it goes below `data`; an error for one that would lead out of it.
    pub fn below(&self, data: &Path) -> Result<PathBuf> {
        files::inside(data, &self.path)
            .ok_or_else(|| Error::conflict(format!("{:?} is no path of a file in a data folder", self.path)))
    }
}
