//! Pages: packed into large objects, and lists that say where each lies.
//!
//! The box keeps a page in a file of its own, named by the content: a page of a name never changes. So what the last backup's
//! lists name is not looked at again, and a new page is appended to a pack. A list is a run of shelves, each the pages of one
//! of an organization's 256 folders, in the order of the folders.

use crate::manifest::Manifest;
use crate::object::{ObjectId, ObjectRef, Reader, malformed};
use crate::repository::Repository;
use crate::rows::deflate;
use base::{Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A pack is closed when it has so many bytes.
pub(crate) const PACK_BYTES: usize = 16 << 20;
/// A list is closed when it has so many bytes, before it is compressed.
pub(crate) const LIST_BYTES: usize = 2 << 20;
/// The end of a page's file name.
const SUFFIX: &str = ".zst";

/// A page's own hash, which its file is named by.
pub(crate) type PageHash = [u8; 32];

/// One of the folders that pages lie in: an organization's, by the first byte of their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shelf {
    pub org: Uuid,
    pub first: u8,
}

impl Shelf {
    pub fn folder(&self, root: &Path) -> PathBuf {
        root.join(self.org.to_string()).join(format!("{:02x}", self.first))
    }

    pub fn file(&self, root: &Path, hash: &PageHash) -> PathBuf {
        self.folder(root).join(format!("{}{SUFFIX}", ObjectId(*hash)))
    }
}

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lies {
    pub pack: ObjectRef,
    pub at: u32,
    pub bytes: u32,
}

/// The pages of a shelf.
pub(crate) type Shelved = BTreeMap<PageHash, Lies>;

/// Writes lists.
#[derive(Default)]
pub(crate) struct ListWriter {
    packs: Vec<ObjectRef>,
    numbers: HashMap<ObjectId, u32>,
    shelves: Vec<u8>,
}

impl ListWriter {
    pub fn add(&mut self, shelf: Shelf, pages: &Shelved) {
        if pages.is_empty() {
            return;
        }
        self.shelves.extend_from_slice(shelf.org.as_bytes());
        self.shelves.push(shelf.first);
        self.shelves.extend_from_slice(&u32::try_from(pages.len()).unwrap_or(u32::MAX).to_be_bytes());
        for (hash, lies) in pages {
            let next = u32::try_from(self.packs.len()).unwrap_or(u32::MAX);
            let number = *self.numbers.entry(lies.pack.id).or_insert_with(|| {
                self.packs.push(lies.pack);
                next
            });
            self.shelves.extend_from_slice(hash);
            for part in [number, lies.at, lies.bytes] {
                self.shelves.extend_from_slice(&part.to_be_bytes());
            }
        }
    }

    /// The list, compressed, unless it is empty; the writer begins another one.
    pub fn end(&mut self) -> Result<Option<Vec<u8>>> {
        if self.shelves.is_empty() {
            return Ok(None);
        }
        let ListWriter { packs, shelves, .. } = std::mem::take(self);
        let mut bytes = u32::try_from(packs.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        for pack in packs {
            bytes.extend_from_slice(&pack.id.0);
            bytes.extend_from_slice(&pack.bytes.to_be_bytes());
        }
        bytes.extend_from_slice(&shelves);
        deflate(&bytes).map(Some)
    }
}

/// A list that was read.
pub(crate) struct List {
    pub packs: Vec<ObjectRef>,
    pub shelves: Vec<(Shelf, Shelved)>,
}

impl List {
    pub fn read(bytes: &[u8]) -> Result<List> {
        let mut reader = Reader(bytes);
        let mut packs = Vec::new();
        for _ in 0..reader.u32()? {
            packs.push(ObjectRef { id: ObjectId(reader.array()?), bytes: reader.u64()? });
        }
        let mut shelves = Vec::new();
        while !reader.is_done() {
            let shelf = Shelf { org: Uuid::from_bytes(reader.array()?), first: reader.array::<1>()?[0] };
            let mut pages = Shelved::new();
            for _ in 0..reader.u32()? {
                let hash: PageHash = reader.array()?;
                let pack = *packs.get(reader.u32()? as usize).ok_or_else(malformed)?;
                let (at, bytes) = (reader.u32()?, reader.u32()?);
                if u64::from(at) + u64::from(bytes) > pack.bytes || hash[0] != shelf.first {
                    return Err(malformed());
                }
                pages.insert(hash, Lies { pack, at, bytes });
            }
            shelves.push((shelf, pages));
        }
        Ok(List { packs, shelves })
    }

    pub fn of(repository: &Repository, object: &ObjectRef) -> Result<List> {
        let bytes = repository.inflated(object)?;
        List::read(&bytes).map_err(|error| repository.named(&object.id.key(), &error))
    }
}

/// The shelves of lists, one after another in their order, a list at a time in memory.
pub(crate) struct Shelves<'r> {
    repository: &'r Repository,
    lists: VecDeque<ObjectRef>,
    read: VecDeque<(Shelf, Shelved)>,
}

impl<'r> Shelves<'r> {
    pub fn of(repository: &'r Repository, lists: &[ObjectRef]) -> Shelves<'r> {
        Shelves { repository, lists: lists.iter().copied().collect(), read: VecDeque::new() }
    }

    /// The pages of this shelf; shelves are asked for in their order.
    pub fn take(&mut self, shelf: Shelf) -> Result<Shelved> {
        loop {
            while let Some((next, _)) = self.read.front() {
                if *next > shelf {
                    return Ok(Shelved::new());
                }
                if let Some((found, pages)) = self.read.pop_front()
                    && found == shelf
                {
                    return Ok(pages);
                }
            }
            match self.lists.pop_front() {
                Some(list) => self.read.extend(List::of(self.repository, &list)?.shelves),
                None => return Ok(Shelved::new()),
            }
        }
    }
}

/// What the last backup has of each shelf. Its lists are two runs, each in the order of shelves: what it found first, and what
/// came while it was made.
pub(crate) struct Known<'r> {
    runs: Vec<Shelves<'r>>,
    stale: HashSet<ObjectId>,
}

impl<'r> Known<'r> {
    pub fn of(repository: &'r Repository, last: Option<&Manifest>) -> Known<'r> {
        let Some(last) = last else { return Known { runs: Vec::new(), stale: HashSet::new() } };
        let at = usize::try_from(last.late_lists_from).unwrap_or(usize::MAX).min(last.pages.len());
        let (first, late) = last.pages.split_at(at);
        let runs = [first, late].map(|lists| Shelves::of(repository, lists)).into();
        Known { runs, stale: last.stale_packs.iter().copied().collect() }
    }

    /// What it has of a shelf in packs that `are_there`; shelves are asked for in their order.
    pub fn take(&mut self, shelf: Shelf, are_there: impl Fn(&ObjectRef) -> bool) -> Result<Shelved> {
        let mut known = Shelved::new();
        for run in &mut self.runs {
            known.extend(run.take(shelf)?);
        }
        known.retain(|_, lies| !self.stale.contains(&lies.pack.id) && are_there(&lies.pack));
        Ok(known)
    }
}

/// The shelves that a folder of pages has, in their order.
pub(crate) fn shelves(root: &Path) -> Result<Vec<Shelf>> {
    let mut orgs = Vec::new();
    each_name(root, &mut |name| {
        // Names of other forms are nobody's pages.
        orgs.extend(name.parse::<Uuid>().ok().filter(|org| org.to_string() == name));
    })?;
    let mut found = Vec::new();
    for org in orgs {
        each_name(&root.join(org.to_string()), &mut |name| {
            let first = (name.len() == 2).then(|| u8::from_str_radix(name, 16).ok()).flatten();
            found.extend(first.map(|first| Shelf { org, first }));
        })?;
    }
    found.sort();
    Ok(found)
}

/// The pages in a shelf's folder, in their order.
pub(crate) fn pages(root: &Path, shelf: Shelf) -> Result<Vec<PageHash>> {
    let mut found = Vec::new();
    each_name(&shelf.folder(root), &mut |name| {
        let hash = name.strip_suffix(SUFFIX).and_then(|hex| hex.parse::<ObjectId>().ok());
        found.extend(hash.map(|hash| hash.0).filter(|hash| hash[0] == shelf.first));
    })?;
    found.sort_unstable();
    Ok(found)
}

/// A folder that has gone meanwhile has nothing.
fn each_name(folder: &Path, each: &mut dyn FnMut(&str)) -> Result<()> {
    let failed = |e: io::Error| Error::unavailable(format!("{} cannot be listed: {e}", folder.display()));
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        if let Some(name) = entry.map_err(failed)?.file_name().to_str() {
            each(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written_and_never_beyond_its_packs() {
        let pack = ObjectRef { id: ObjectId::of(b"pack"), bytes: 100 };
        let org = Uuid::now_v7();
        let page = |first: u8, at: u32| ([first; 32], Lies { pack, at, bytes: 10 });
        let mut writer = ListWriter::default();
        writer.add(Shelf { org, first: 3 }, &Shelved::from([page(3, 0)]));
        writer.add(Shelf { org, first: 4 }, &Shelved::new());
        writer.add(Shelf { org, first: 5 }, &Shelved::from([page(5, 90)]));
        let bytes = zstd::stream::decode_all(&*writer.end().unwrap().unwrap()).unwrap();
        assert!(writer.end().unwrap().is_none());
        let list = List::read(&bytes).unwrap();
        assert_eq!((list.packs.len(), list.shelves.len()), (1, 2));
        assert_eq!(list.shelves[1], (Shelf { org, first: 5 }, Shelved::from([page(5, 90)])));
        writer.add(Shelf { org, first: 5 }, &Shelved::from([page(5, 91)]));
        let beyond = zstd::stream::decode_all(&*writer.end().unwrap().unwrap()).unwrap();
        assert!(List::read(&beyond).is_err());
        for cut in 0..bytes.len() {
            // Between two shelves it ends well; that one lacks is for the digest to find.
            if let Ok(list) = List::read(&bytes[..cut]) {
                assert!(list.shelves.len() < 2);
            }
        }
    }
}
