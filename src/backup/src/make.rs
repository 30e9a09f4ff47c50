//! Making a backup.
//!
//! Pages are copied first, then every row at one moment, then what came into the folders of pages and files meanwhile. From
//! before the rows are taken until the last page is copied no page is removed (`Plan::hold`). A page that a row of that moment
//! names was there when copying began, and then it was copied, or came later, and then it is there still: whatever was
//! removed before the moment, no row of it names any more. So the backup has every page that its rows name, and may have a few
//! more. Files (results, exports) are copied before and behind the moment, too, and go only when their time is over.

use crate::files;
use crate::manifest::{BackupId, FileOf, Manifest, Sealing, SmallFile, Summary};
use crate::object::{ObjectId, ObjectRef};
use crate::pages::{self, Known, Lies, ListWriter, PACK_BYTES, PageHash, Shelf, Shelved, Shelves};
use crate::repository::{OBJECTS, Repository};
use crate::rows::{RowsOf, RowsWriter};
use crate::seal::Passphrase;
use base::clock::Timestamp;
use base::{Error, Result};
use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The share of its time for which copying rests, so that others get at the disk.
const REST_SHARE: f64 = 0.25;
/// The longest such rest.
const REST_MAX: Duration = Duration::from_secs(1);

/// What goes into a backup, and how.
pub struct Plan<'p> {
    /// The release that makes it.
    pub version: &'p str,
    /// The store's id.
    pub store: Uuid,
    pub now: &'p (dyn Fn() -> Timestamp + Sync),
    /// The data folder.
    pub data: &'p Path,
    /// The folder of pages in it.
    pub pages: &'p str,
    /// Other folders in it whose files are kept.
    pub folders: &'p [&'p str],
    /// What the key file and the configuration are sealed with; none leaves the key file out.
    pub passphrase: Option<&'p Passphrase>,
    /// The key file.
    pub key_file: &'p Path,
    /// The text of the configuration, if there is one; without a passphrase it is kept open.
    pub config: Option<String>,
    /// Write every object anew, whatever is there.
    pub anew: bool,
    /// Keeps pages from being removed until what it gives is dropped.
    pub hold: &'p dyn Fn() -> Box<dyn Any>,
    pub stop: &'p (dyn Fn() -> bool + Sync),
    pub progress: &'p Progress,
}

/// How far it is, for whoever looks.
#[derive(Debug, Default)]
pub struct Progress {
    pub pages: AtomicU64,
    pub new_pages: AtomicU64,
    pub rows: AtomicU64,
    pub written_bytes: AtomicU64,
}

/// What came of it.
pub type Made = Manifest;

/// Takes rows.
type TakeRowsOf<'t> = &'t mut dyn FnMut(RowsOf) -> Result<()>;

/// Makes a backup in a repository that is held. `export` gives every row as it is at one moment, some again when they changed
/// meanwhile, and how long writes waited for it. What was written is read again and checked before the backup counts; when it
/// fails, what it wrote is removed.
pub fn make(
    repository: &Repository,
    plan: &Plan<'_>,
    export: &mut dyn FnMut(TakeRowsOf<'_>) -> Result<Duration>,
) -> Result<Made> {
    let began_at = (plan.now)();
    let listing = repository.list()?;
    // One that cannot be read lends nothing; what it names stays where it is.
    let last = listing.backups.last();
    if let Some(other) = listing.backups.iter().find(|backup| backup.store != plan.store) {
        return Err(Error::conflict(format!(
            "{} has backups of another box (store {}); give each box a place of its own",
            repository.name(),
            other.store
        )));
    }
    let mut objects = Objects::of(repository, plan)?;
    let done = Making {
        repository,
        plan,
        objects: &mut objects,
        summary: Summary::default(),
        packs: HashMap::new(),
    }
    .run(began_at, last, export);
    if done.is_err() {
        objects.take_back();
    }
    done
}

/// Objects that are there, and those that are written.
struct Objects<'m> {
    repository: &'m Repository,
    plan: &'m Plan<'m>,
    /// What was there before.
    there: HashMap<ObjectId, u64>,
    written: HashSet<ObjectRef>,
}

impl<'m> Objects<'m> {
    fn of(repository: &'m Repository, plan: &'m Plan<'m>) -> Result<Objects<'m>> {
        let listed = repository.target().list(OBJECTS)?;
        let there =
            listed.iter().filter_map(|file| Some((ObjectId::of_key(&file.key)?, file.bytes))).collect();
        Ok(Objects { repository, plan, there, written: HashSet::new() })
    }

    /// Whether it need not be written.
    fn has(&self, of: &ObjectRef) -> bool {
        !self.plan.anew && self.there.get(&of.id) == Some(&of.bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<ObjectRef> {
        self.check()?;
        let of = ObjectRef { id: ObjectId::of(bytes), bytes: bytes.len() as u64 };
        if self.has(&of) || self.written.contains(&of) {
            return Ok(of);
        }
        let begun = Instant::now();
        self.repository.target().put(&of.id.key(), bytes)?;
        self.written.insert(of);
        self.plan.progress.written_bytes.fetch_add(of.bytes, Ordering::Relaxed);
        std::thread::sleep(begun.elapsed().mul_f64(REST_SHARE).min(REST_MAX));
        Ok(of)
    }

    fn check(&self) -> Result<()> {
        if (self.plan.stop)() { Err(Error::unavailable("the backup was stopped")) } else { Ok(()) }
    }

    /// Removes what was written and nobody names: a target that is full gets its room back.
    fn take_back(&self) {
        for of in self.written.iter().filter(|of| !self.there.contains_key(&of.id)) {
            if let Err(error) = self.repository.target().remove(&of.id.key()) {
                let error = error.for_operator();
                tracing::warn!(
                    error,
                    "an object of a backup that failed stays until old backups are removed"
                );
                return;
            }
        }
    }
}

/// A pack with how much of it is wanted, bytes.
struct Pack {
    of: ObjectRef,
    wanted: u64,
}

struct Making<'m, 'o> {
    repository: &'m Repository,
    plan: &'m Plan<'m>,
    objects: &'o mut Objects<'m>,
    summary: Summary,
    packs: HashMap<ObjectId, Pack>,
}

impl Making<'_, '_> {
    fn run(
        mut self,
        began_at: Timestamp,
        last: Option<&Manifest>,
        export: &mut dyn FnMut(TakeRowsOf<'_>) -> Result<Duration>,
    ) -> Result<Manifest> {
        // Before anything long: whoever lacks it is told at once.
        let (key, config) = (self.key()?, self.config()?);
        let last = last.filter(|_| !self.plan.anew);
        let mut lists = self.first_pages(last)?;
        let mut kept = BTreeMap::new();
        self.files(&mut kept)?;
        let held = (self.plan.hold)();
        let rows = self.rows(export)?;
        let moment = (self.plan.now)();
        let late_lists_from = lists.len() as u64;
        let late = self.late_pages(&lists)?;
        drop(held);
        lists.extend(late);
        self.files(&mut kept)?;
        self.repository.target().settle()?;
        self.look_again()?;
        self.summary.files = kept.len() as u64;
        self.summary.new_objects = self.objects.written.len() as u64;
        self.summary.new_bytes = self.objects.written.iter().map(|of| of.bytes).sum();
        let mut packs: Vec<_> = self.packs.values().map(|pack| pack.of).collect();
        packs.sort_by_key(|pack| pack.id);
        let is_stale = |pack: &&Pack| pack.wanted < pack.of.bytes / 2;
        let mut stale_packs: Vec<_> = self.packs.values().filter(is_stale).map(|pack| pack.of.id).collect();
        stale_packs.sort();
        let manifest = Manifest {
            format: Manifest::FORMAT,
            id: BackupId::fresh(),
            version: self.plan.version.to_owned(),
            store: self.plan.store,
            began_at,
            moment,
            ended_at: (self.plan.now)(),
            summary: self.summary,
            rows,
            pages: lists,
            late_lists_from,
            packs,
            stale_packs,
            files: kept.into_values().collect(),
            key,
            config,
        };
        self.objects.check()?;
        self.repository.put_manifest(&manifest)?;
        let written = self.repository.manifest(&manifest.id)?;
        debug_assert_eq!(written, manifest);
        Ok(written)
    }

    fn key(&mut self) -> Result<Option<SmallFile>> {
        let Some(passphrase) = self.plan.passphrase else { return Ok(None) };
        let file = self.plan.key_file;
        let plain = fs::read(file).map_err(|e| {
            Error::invalid("storage.key_file", format!("{} cannot be read: {e}", file.display()))
        })?;
        let object = self.objects.put(&passphrase.seal(KEY, &plain)?)?;
        Ok(Some(SmallFile { object, sealing: Sealing::Passphrase }))
    }

    fn config(&mut self) -> Result<Option<SmallFile>> {
        let Some(text) = &self.plan.config else { return Ok(None) };
        let (bytes, sealing) = match self.plan.passphrase {
            Some(passphrase) => (passphrase.seal(CONFIG, text.as_bytes())?, Sealing::Passphrase),
            None => (text.clone().into_bytes(), Sealing::Open),
        };
        Ok(Some(SmallFile { object: self.objects.put(&bytes)?, sealing }))
    }

    fn root(&self) -> std::path::PathBuf {
        self.plan.data.join(self.plan.pages)
    }

    /// Every page that is there: those that the last backup has by what it says of them, the others in new packs.
    fn first_pages(&mut self, last: Option<&Manifest>) -> Result<Vec<ObjectRef>> {
        let root = self.root();
        let mut known = Known::of(self.repository, last);
        let mut shelving = Shelving::default();
        for shelf in pages::shelves(&root)? {
            self.objects.check()?;
            let objects = &*self.objects;
            let mut had = known.take(shelf, |pack| objects.has(pack))?;
            let mut found = Shelved::new();
            for hash in pages::pages(&root, shelf)? {
                match had.remove(&hash) {
                    Some(lies) => {
                        self.want(&lies);
                        found.insert(hash, lies);
                    }
                    None => self.copy(&root, shelf, hash, &mut shelving)?,
                }
            }
            self.plan.progress.pages.fetch_add(found.len() as u64, Ordering::Relaxed);
            shelving.shelve(shelf, found);
            if shelving.is_full() {
                self.end_list(&mut shelving)?;
            }
        }
        self.end_list(&mut shelving)?;
        Ok(shelving.lists)
    }

    /// Pages that came since.
    fn late_pages(&mut self, lists: &[ObjectRef]) -> Result<Vec<ObjectRef>> {
        let root = self.root();
        let mut known = Shelves::of(self.repository, lists);
        let mut shelving = Shelving::default();
        for shelf in pages::shelves(&root)? {
            self.objects.check()?;
            let had = known.take(shelf)?;
            for hash in pages::pages(&root, shelf)? {
                if !had.contains_key(&hash) {
                    self.copy(&root, shelf, hash, &mut shelving)?;
                }
            }
            shelving.shelve(shelf, Shelved::new());
            if shelving.is_full() {
                self.end_list(&mut shelving)?;
            }
        }
        self.end_list(&mut shelving)?;
        Ok(shelving.lists)
    }

    /// Puts a page into the pack; one that has gone meanwhile is passed over.
    fn copy(&mut self, root: &Path, shelf: Shelf, hash: PageHash, shelving: &mut Shelving) -> Result<()> {
        let file = shelf.file(root, &hash);
        let stored = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            stored => {
                stored.map_err(|e| Error::unavailable(format!("{} cannot be read: {e}", file.display())))?
            }
        };
        if !shelving.pack.is_empty() && shelving.pack.len() + stored.len() > PACK_BYTES {
            self.end_pack(shelving)?;
        }
        let at = |bytes: usize| u32::try_from(bytes).map_err(|_| Error::internal("pack a page", "its size"));
        shelving.packed.push((shelf, hash, at(shelving.pack.len())?, at(stored.len())?));
        shelving.pack.extend_from_slice(&stored);
        shelving.count += 1;
        self.summary.new_pages += 1;
        self.plan.progress.pages.fetch_add(1, Ordering::Relaxed);
        self.plan.progress.new_pages.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn want(&mut self, lies: &Lies) {
        self.summary.pages += 1;
        self.summary.page_bytes += u64::from(lies.bytes);
        let pack = self.packs.entry(lies.pack.id).or_insert(Pack { of: lies.pack, wanted: 0 });
        pack.wanted += u64::from(lies.bytes);
    }

    /// Writes the pack, so that the pages in it lie somewhere.
    fn end_pack(&mut self, shelving: &mut Shelving) -> Result<()> {
        if shelving.packed.is_empty() {
            return Ok(());
        }
        let pack = self.objects.put(&shelving.pack)?;
        shelving.pack.clear();
        for (shelf, hash, at, bytes) in std::mem::take(&mut shelving.packed) {
            let lies = Lies { pack, at, bytes };
            self.want(&lies);
            shelving.waiting.entry(shelf).or_default().insert(hash, lies);
        }
        Ok(())
    }

    fn end_list(&mut self, shelving: &mut Shelving) -> Result<()> {
        self.end_pack(shelving)?;
        let mut list = ListWriter::default();
        for (shelf, pages) in std::mem::take(&mut shelving.waiting) {
            list.add(shelf, &pages);
        }
        shelving.count = 0;
        if let Some(bytes) = list.end()? {
            shelving.lists.push(self.objects.put(&bytes)?);
        }
        Ok(())
    }

    /// Files as they are now, those that have gone since as they were.
    fn files(&mut self, kept: &mut BTreeMap<String, FileOf>) -> Result<()> {
        for folder in self.plan.folders {
            for path in files::below(self.plan.data, folder)? {
                let mut file = FileOf { path: path.clone(), bytes: 0, parts: Vec::new() };
                let is_there = files::parts(&self.plan.data.join(&path), &mut |part| {
                    file.bytes += part.len() as u64;
                    file.parts.push(self.objects.put(part)?);
                    Ok(())
                })?;
                if is_there {
                    kept.insert(path, file);
                }
            }
        }
        Ok(())
    }

    fn rows(&mut self, export: &mut dyn FnMut(TakeRowsOf<'_>) -> Result<Duration>) -> Result<Vec<ObjectRef>> {
        let (mut writer, mut runs) = (RowsWriter::default(), Vec::new());
        let mut count = 0;
        let pause = export(&mut |part: RowsOf| {
            count += part.rows.len() as u64;
            self.plan.progress.rows.store(count, Ordering::Relaxed);
            for row in &part.rows {
                if let Some(run) = writer.add(&part.table, row)? {
                    runs.push(self.objects.put(&run)?);
                }
            }
            Ok(())
        })?;
        if let Some(run) = writer.end()? {
            runs.push(self.objects.put(&run)?);
        }
        self.summary.rows = count;
        self.summary.pause_us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        Ok(runs)
    }

    /// Reads again what was written: a disk that did not keep it is found out now and not when it is needed.
    fn look_again(&self) -> Result<()> {
        for of in &self.objects.written {
            self.objects.check()?;
            let begun = Instant::now();
            self.repository.object(of)?;
            std::thread::sleep(begun.elapsed().mul_f64(REST_SHARE).min(REST_MAX));
        }
        Ok(())
    }
}

/// What the key file is called where it is sealed.
pub(crate) const KEY: &str = "the key file";
/// The same of the configuration.
pub(crate) const CONFIG: &str = "the configuration";
/// Pages of one list.
const LIST_PAGES: usize = crate::pages::LIST_BYTES / 44;

/// Pages on their way into packs and lists.
#[derive(Default)]
struct Shelving {
    pack: Vec<u8>,
    packed: Vec<(Shelf, PageHash, u32, u32)>,
    /// Pages whose place is known, for the next list.
    waiting: BTreeMap<Shelf, Shelved>,
    /// Pages of that list, those in the pack too.
    count: usize,
    lists: Vec<ObjectRef>,
}

impl Shelving {
    fn shelve(&mut self, shelf: Shelf, pages: Shelved) {
        self.count += pages.len();
        if !pages.is_empty() {
            self.waiting.entry(shelf).or_default().extend(pages);
        }
    }

    fn is_full(&self) -> bool {
        self.count >= LIST_PAGES
    }
}
