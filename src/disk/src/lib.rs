//! Files and folders that outlive a power cut: the one place where such are made, renamed and removed.
//!
//! A file's content is on the disk when the file was synced, and its name when the folder was that holds it (fsync(2)).
//! A folder that was just made is a name in its parent, and so on upwards: whoever makes folders on the way syncs
//! every parent from the new ones up to one that was there before. What was there before was made by somebody who did
//! the same, or by the operator, whose folders get one more sync at the start ([`hold`]).
//!
//! Nothing here knows what the files are for.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Folders above the given one whose names [`hold`] makes durable.
const HELD_ABOVE: usize = 16;

/// What a folder may be entered by: its owner alone.
const PRIVATE: u32 = 0o700;

/// Makes a folder and those above it that lack, for their owner alone, and their names durable. One that is there keeps
/// what it is.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut at = folder;
    // A link that leads nowhere is no folder that lacks: making it fails below, with the right reason.
    while fs::symlink_metadata(at).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        missing.push(at);
        at = folder_of(at);
    }
    for lacking in missing.iter().rev() {
        match DirBuilder::new().mode(PRIVATE).create(lacking) {
            // Somebody else made it meanwhile, and may not have come to the sync.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    for made in missing {
        sync_folder(folder_of(made))?;
    }
    // What stands under the name may be a file, or a link to one.
    if fs::metadata(folder)?.is_dir() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
}

/// A folder that the box finds or makes at its start, and whose folders and files an earlier process may have made and
/// not come to syncing: they are durable afterwards.
pub fn open_folder(folder: &Path) -> io::Result<()> {
    make_folder(folder)?;
    sync_folder(folder)?;
    sync_name(folder)
}

/// A folder for what need not outlive this process.
pub fn make_scratch(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(folder)
}

/// Like [`make_folder`] for the folder of all of the box's data, entered by its owner alone whoever made it; also the names of the folders above it
/// are durable then, as far as this user may open them: a release before this one, or an operator's `mkdir` a moment ago,
/// may have left them to the kernel.
pub fn hold(folder: &Path) -> io::Result<()> {
    make_folder(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(PRIVATE))?;
    let whole = folder.canonicalize()?;
    sync_folder(&whole)?;
    for above in whole.ancestors().skip(1).take(HELD_ABOVE) {
        match sync_folder(above) {
            Ok(()) => {}
            // Somebody else's, or of a file system that is mounted without writing: it was there long before.
            Err(error) if is_foreign(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_foreign(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), PermissionDenied | InvalidInput | ReadOnlyFilesystem | Unsupported)
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes the name at `path` durable: syncs the folder that holds it.
pub fn sync_name(path: &Path) -> io::Result<()> {
    sync_folder(folder_of(path))
}

/// Makes what a file holds and its name durable.
pub fn sync_file(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    sync_name(path)
}

/// The folder that holds `path`.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives a file its name, durably; what stood there is replaced. Its content must have been synced.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_name(to)
}

/// Removes a file, durably; nothing when there is none.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_name(path),
    }
}

/// Puts `bytes` under `path`, durably, whole or not at all: written and synced under the other name `draft` in the same
/// folder, then renamed. Only its owner reads it. A draft that was left by a crash is written over; one that failed is
/// removed, and what stood under the name stays.
pub fn put(path: &Path, draft: &Path, bytes: &[u8]) -> io::Result<()> {
    let written = write_synced(draft, bytes, true).and_then(|()| rename(draft, path));
    if written.is_err() {
        let _ = fs::remove_file(draft);
    }
    written
}

/// Writes a file for its owner alone and syncs its content, not yet its name. `anew`: what stood there is written over,
/// else there must be none.
pub fn write_synced(path: &Path, bytes: &[u8], anew: bool) -> io::Result<()> {
    let mut open = OpenOptions::new();
    open.write(true).mode(0o600);
    let mut file =
        if anew { open.create(true).truncate(true).open(path)? } else { open.create_new(true).open(path)? };
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}

/// Whether a file can be made, written, synced and removed in this folder now: how the end of a disk's trouble is found
/// out. Two calls for one folder at a time are fine.
pub fn probe(folder: &Path) -> io::Result<()> {
    let nth = PROBES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path: PathBuf = folder.join(format!(".probe-{}-{nth}", std::process::id()));
    let written = write_synced(&path, b"can be written\n", true);
    let removed = fs::remove_file(&path);
    written.and(removed)
}

static PROBES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Room on a disk for a process without privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub bytes: u64,
    /// How many more files; none where the file system does not count them (btrfs).
    pub files: Option<u64>,
}

/// The room on the disk of `folder`.
pub fn room(folder: &Path) -> io::Result<Room> {
    let stat = rustix::fs::statvfs(folder)?;
    let files = (stat.f_files > 0).then_some(stat.f_favail);
    Ok(Room { bytes: stat.f_bavail.saturating_mul(stat.f_frsize), files })
}

/// Which folder a path leads to: another one after it was moved away, removed and made anew, or unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// The folder (or file) that `path` leads to now.
pub fn identity(path: &Path) -> io::Result<Identity> {
    let found = fs::metadata(path)?;
    Ok(Identity { device: found.dev(), inode: found.ino() })
}

/// A folder or file as it was found once, to be told later from what stands under its name then.
#[derive(Clone, Debug)]
pub struct Found {
    path: PathBuf,
    identity: Identity,
}

impl Found {
    /// What stands at `path` now.
    pub fn at(path: &Path) -> io::Result<Found> {
        Ok(Found { path: path.to_owned(), identity: identity(path)? })
    }

    /// The same under the name that it was given.
    pub fn named(self, path: &Path) -> Found {
        Found { path: path.to_owned(), ..self }
    }

    /// That it stands there still. Files that are open go on to be written wherever they are; what is opened by a name below
    /// it would come to lie elsewhere.
    pub fn check(&self) -> io::Result<()> {
        let moved = |why: &str| format!("{} was moved, removed or unmounted: {why}", self.path.display());
        match identity(&self.path) {
            Ok(now) if now == self.identity => Ok(()),
            Ok(_) => {
                Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, moved("another is there now")))
            }
            Err(error) => Err(io::Error::new(error.kind(), moved(&error.to_string()))),
        }
    }
}

/// What is free on the disk of `folder` for a process without privileges, bytes.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    room(folder).map(|room| room.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_for_their_owner_and_kept_as_they_are() {
        let temp = tempfile::tempdir().unwrap();
        let deep = temp.path().join("a/b/c");
        make_folder(&deep).unwrap();
        make_folder(&deep).unwrap();
        assert_eq!(fs::metadata(&deep).unwrap().permissions().mode() & 0o777, PRIVATE);
        fs::set_permissions(&deep, Permissions::from_mode(0o755)).unwrap();
        make_folder(&deep).unwrap();
        assert_eq!(fs::metadata(&deep).unwrap().permissions().mode() & 0o777, 0o755);
        hold(&deep).unwrap();
        assert_eq!(fs::metadata(&deep).unwrap().permissions().mode() & 0o777, PRIVATE);
        fs::write(temp.path().join("file"), "").unwrap();
        assert!(make_folder(&temp.path().join("file")).is_err());
        assert!(make_folder(&temp.path().join("file/under")).is_err());
        std::os::unix::fs::symlink(&deep, temp.path().join("link")).unwrap();
        make_folder(&temp.path().join("link/d")).unwrap();
        assert!(deep.join("d").is_dir());
    }

    #[test]
    fn what_was_moved_is_told_from_what_stands_there_now() {
        let temp = tempfile::tempdir().unwrap();
        let (folder, aside) = (temp.path().join("data"), temp.path().join("aside"));
        fs::create_dir(&folder).unwrap();
        let found = Found::at(&folder).unwrap();
        found.check().unwrap();
        fs::rename(&folder, &aside).unwrap();
        assert_eq!(found.check().unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&folder).unwrap();
        let error = found.check().unwrap_err().to_string();
        assert!(error.contains("data was moved") && error.contains("another is there now"), "{error}");
        fs::remove_dir(&folder).unwrap();
        fs::rename(&aside, &folder).unwrap();
        found.check().unwrap();
    }

    #[test]
    fn a_file_is_put_whole_or_not_at_all() {
        let temp = tempfile::tempdir().unwrap();
        let (path, draft) = (temp.path().join("file"), temp.path().join("file.new"));
        fs::write(&draft, "left by a crash, and longer than what comes").unwrap();
        put(&path, &draft, b"one").unwrap();
        put(&path, &draft, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        fs::create_dir(&draft).unwrap();
        put(&path, &draft, b"three").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        remove(&path).unwrap();
        remove(&path).unwrap();
        probe(temp.path()).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
        assert!(probe(&path).is_err());
        assert!(room(temp.path()).unwrap().bytes > 0);
    }
}
