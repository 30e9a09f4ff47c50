//! A disk as it may be after the power went: built from the journal of everything that the box did to its files.
//!
//! What a file holds is what was synced; of the rest each 512-byte sector may or may not be there. A name is there when its
//! folder was synced after it was given; of the later ones a folder keeps the first few. That is less than most file
//! systems keep, and as much as they promise.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

const SECTOR: usize = 512;

/// One thing that was done.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where it ends in the journal.
    pub end: u64,
    pub kind: u8,
    file: u64,
    number: u64,
    one: Vec<u8>,
    two: Vec<u8>,
}

impl Record {
    /// Whether a file is meant whose path has `part` in it; for what names files.
    pub fn names(&self, part: &str) -> bool {
        memchr::memmem::find(&self.one, part.as_bytes()).is_some()
    }
}

/// Reads a journal (shim.c says what is in it).
pub fn read(journal: &Path) -> Vec<Record> {
    let bytes = fs::read(journal).unwrap();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    let number = |rest: &mut &[u8], length: usize| {
        let (taken, left) = rest.split_at(length);
        *rest = left;
        let mut whole = [0; 8];
        whole[..length].copy_from_slice(taken);
        u64::from_le_bytes(whole)
    };
    let text = |rest: &mut &[u8]| {
        let length = number(rest, 4) as usize;
        let (taken, left) = rest.split_at(length);
        *rest = left;
        taken.to_vec()
    };
    // A record that was being written when the process was killed is cut off.
    while rest.len() >= 25 {
        let before = rest;
        let kind = number(&mut rest, 1) as u8;
        let (file, at) = (number(&mut rest, 8), number(&mut rest, 8));
        let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        if rest.len() < 4 + length + 4 {
            break;
        }
        let second = u32::from_le_bytes(rest[4 + length..][..4].try_into().unwrap()) as usize;
        if rest.len() < 8 + length + second {
            break;
        }
        let (one, two) = (text(&mut rest), text(&mut rest));
        let end = (bytes.len() - rest.len()) as u64;
        debug_assert!(before.len() > rest.len());
        records.push(Record { end, kind, file, number: at, one, two });
    }
    records
}

#[derive(Clone, Default)]
struct File {
    written: Vec<u8>,
    synced: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl File {
    fn resize(&mut self, length: usize) {
        self.written.resize(length, 0);
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if self.written.len() < at + bytes.len() {
            self.resize(at + bytes.len());
        }
        self.written[at..at + bytes.len()].copy_from_slice(bytes);
        self.dirty.extend(at / SECTOR..(at + bytes.len()).div_ceil(SECTOR));
    }

    fn sync(&mut self) {
        self.synced.resize(self.written.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let end = ((sector + 1) * SECTOR).min(self.written.len());
            if sector * SECTOR < end {
                self.synced[sector * SECTOR..end].copy_from_slice(&self.written[sector * SECTOR..end]);
            }
        }
    }

    fn after_power_cut(&self, keep: &mut impl FnMut() -> bool) -> Vec<u8> {
        let mut image = self.synced.clone();
        // The length is kept or not as anything else is.
        if self.synced.len() != self.written.len() && keep() {
            image.resize(self.written.len(), 0);
        }
        for &sector in &self.dirty {
            let end = ((sector + 1) * SECTOR).min(self.written.len()).min(image.len());
            if sector * SECTOR < end && keep() {
                image[sector * SECTOR..end].copy_from_slice(&self.written[sector * SECTOR..end]);
            }
        }
        image
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    File(u64),
    Folder(u64),
}

#[derive(Clone, Default)]
struct Folder {
    now: BTreeMap<String, Node>,
    synced: BTreeMap<String, Node>,
    /// Names given and taken since.
    pending: Vec<(String, Option<Node>)>,
}

impl Folder {
    fn set(&mut self, name: &str, node: Option<Node>) {
        match node {
            Some(node) => self.now.insert(name.to_owned(), node),
            None => self.now.remove(name),
        };
        self.pending.push((name.to_owned(), node));
    }
}

/// The disk, from the folder that is watched down.
#[derive(Clone, Default)]
pub struct Disk {
    root: PathBuf,
    files: HashMap<u64, File>,
    folders: HashMap<u64, Folder>,
    /// The folders that stand under an inode number now; numbers are used again.
    numbers: HashMap<u64, Node>,
    next: u64,
}

const ROOT: u64 = 0;

impl Disk {
    /// A disk that holds what stands under `root`, all of it durable.
    pub fn of(root: &Path) -> Disk {
        let mut disk = Disk { root: root.to_owned(), next: 1, ..Disk::default() };
        disk.folders.insert(ROOT, Folder::default());
        disk.numbers.insert(inode(root), Node::Folder(ROOT));
        disk.take_in(root, ROOT);
        disk
    }

    fn take_in(&mut self, at: &Path, folder: u64) {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            let id = self.fresh();
            let kind = entry.file_type().unwrap();
            let node = if kind.is_dir() {
                self.folders.insert(id, Folder::default());
                self.take_in(&entry.path(), id);
                Node::Folder(id)
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).unwrap();
                self.files.insert(id, File { written: bytes.clone(), synced: bytes, dirty: BTreeSet::new() });
                Node::File(id)
            } else {
                continue;
            };
            self.numbers.insert(inode(&entry.path()), node);
            let folder = self.folders.get_mut(&folder).unwrap();
            folder.now.insert(name.clone(), node);
            folder.synced.insert(name, node);
        }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The folder that holds `path`, and the name in it.
    fn place(&self, path: &[u8]) -> Option<(u64, String)> {
        let path = Path::new(std::str::from_utf8(path).unwrap());
        let below = path.strip_prefix(&self.root).ok()?;
        let mut at = ROOT;
        for part in below.parent()? {
            match self.folders[&at].now.get(part.to_str().unwrap()) {
                Some(Node::Folder(folder)) => at = *folder,
                _ => return None,
            }
        }
        Some((at, below.file_name()?.to_str().unwrap().to_owned()))
    }

    fn set(&mut self, path: &[u8], node: Option<Node>) {
        if let Some((folder, name)) = self.place(path) {
            self.folders.get_mut(&folder).unwrap().set(&name, node);
        }
    }

    fn node(&self, path: &[u8]) -> Option<Node> {
        let (folder, name) = self.place(path)?;
        self.folders[&folder].now.get(&name).copied()
    }

    /// Does what a record says.
    pub fn apply(&mut self, record: &Record) {
        match record.kind {
            b'C' => {
                let id = self.fresh();
                self.files.insert(id, File::default());
                self.numbers.insert(record.file, Node::File(id));
                self.set(&record.one, Some(Node::File(id)));
            }
            b'M' => {
                let id = self.fresh();
                self.folders.insert(id, Folder::default());
                self.numbers.insert(record.file, Node::Folder(id));
                self.set(&record.one, Some(Node::Folder(id)));
            }
            b'W' | b'T' => {
                let Some(Node::File(id)) = self.numbers.get(&record.file) else { return };
                let file = self.files.get_mut(id).unwrap();
                if record.kind == b'W' {
                    file.write(record.number as usize, &record.one);
                } else {
                    file.resize(record.number as usize);
                }
            }
            b'S' => match self.numbers.get(&record.file) {
                Some(Node::File(id)) => self.files.get_mut(id).unwrap().sync(),
                Some(Node::Folder(id)) => {
                    let folder = self.folders.get_mut(id).unwrap();
                    folder.pending.clear();
                    folder.synced = folder.now.clone();
                }
                None => {}
            },
            b'R' => {
                let node = self.node(&record.one);
                self.set(&record.one, None);
                self.set(&record.two, node);
            }
            b'L' => {
                let node = self.node(&record.one);
                self.set(&record.two, node);
            }
            b'U' | b'D' => self.set(&record.one, None),
            kind => panic!("a record of kind {kind}"),
        }
    }

    /// Writes what is left after a power cut now into the folder `to`; `dice` says of each thing that was not synced whether
    /// it is there.
    pub fn after_power_cut(&self, to: &Path, dice: &mut impl FnMut() -> u64) {
        self.write_folder(ROOT, to, dice);
    }

    /// Writes what stands now into the folder `to`: what a process finds after another was killed, when nothing that was
    /// written is lost.
    pub fn as_it_stands(&self, to: &Path) {
        self.write_all(ROOT, to);
    }

    fn write_all(&self, id: u64, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for (name, node) in &self.folders[&id].now {
            match node {
                Node::Folder(id) => self.write_all(*id, &to.join(name)),
                Node::File(id) => write_private(&to.join(name), &self.files[id].written),
            }
        }
    }

    fn write_folder(&self, id: u64, to: &Path, dice: &mut impl FnMut() -> u64) {
        fs::create_dir_all(to).unwrap();
        let folder = &self.folders[&id];
        let mut names = folder.synced.clone();
        let kept = dice() as usize % (folder.pending.len() + 1);
        for (name, node) in &folder.pending[..kept] {
            match node {
                Some(node) => names.insert(name.clone(), *node),
                None => names.remove(name),
            };
        }
        for (name, node) in names {
            match node {
                Node::Folder(id) => self.write_folder(id, &to.join(name), dice),
                Node::File(id) => {
                    let bytes = self.files[&id].after_power_cut(&mut || dice().is_multiple_of(2));
                    write_private(&to.join(name), &bytes);
                }
            }
        }
    }
}

/// Writes a file for its owner alone; where it has one byte after another of zeros it has a hole, as the box left it.
fn write_private(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (at, part) in bytes.chunks(HOLE).enumerate().filter(|(_, part)| part.iter().any(|byte| *byte != 0)) {
        file.write_all_at(part, (at * HOLE) as u64).unwrap();
    }
}

/// Zeros of a file that are not written.
const HOLE: usize = 64 << 10;

fn inode(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).unwrap().ino()
}
