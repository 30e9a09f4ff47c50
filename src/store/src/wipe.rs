//! Files that go for good: overwritten, then removed; what is left beside the store's file; and the room that a second copy of a file needs.
//!
//! Overwriting is a best effort, removing is not: a file whose bytes cannot be overwritten goes all the same, or it would
//! hold the disk and every later start. Only blocks that the file has are written. redb makes its file longer than it is
//! full, by whole regions, and zeros into the holes would claim a disk that may have no room for them.

use disk::{folder_of, free_bytes, remove};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The share of its time for which overwriting rests, so that others get at the disk.
const REST_SHARE: f64 = 0.25;
/// One write of zeros.
const WIPE_BYTES: usize = 1 << 20;
/// Zeros between two rests.
const WIPE_BYTES_IN_ROW: u64 = 16 << 20;

/// Overwrites a file and removes it; nothing when there is none. When `stop` says so, the file stays for the next start.
pub(super) fn discard(path: &Path, stop: &dyn Fn() -> bool) -> io::Result<()> {
    let file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            tracing::warn!(%error, file = %path.display(), "a file cannot be overwritten, only removed");
            return remove(path);
        }
    };
    match overwrite(&file, stop) {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(error) => tracing::warn!(%error, file = %path.display(), "a file is removed as it is"),
    }
    remove(path)
}

/// Writes zeros over everything that the file has blocks for; whether it came to the end.
fn overwrite(file: &File, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    let zeros = vec![0; WIPE_BYTES];
    let length = file.metadata()?.len();
    let mut at = 0;
    while let Some((from, to)) = blocks(file, at, length)? {
        at = from;
        while at < to {
            if stop() {
                return Ok(false);
            }
            let begun = Instant::now();
            let row = to.min(at + WIPE_BYTES_IN_ROW);
            while at < row {
                let bytes = (row - at).min(WIPE_BYTES as u64);
                file.write_all_at(&zeros[..bytes as usize], at)?;
                at += bytes;
            }
            file.sync_data()?;
            std::thread::sleep(begun.elapsed().mul_f64(REST_SHARE));
        }
    }
    Ok(true)
}

/// The next bytes at or behind `at` that the file has blocks for.
fn blocks(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    let from = match seek(file, SeekFrom::Data(at)) {
        Ok(from) => from,
        // Nothing but a hole from here on.
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows of no holes: everything.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok((at < length).then_some((at, length))),
        Err(error) => return Err(error.into()),
    };
    Ok(Some((from, seek(file, SeekFrom::Hole(from))?)))
}

/// Whether both names lead to one file.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    matches!((inode(one), inode(other)), (Ok(one), Ok(other)) if one == other)
}

/// The bytes of disk that a file takes: fewer than its length where it has holes.
pub(super) fn allocated_bytes(path: &Path) -> io::Result<u64> {
    // st_blocks counts in units of 512 bytes whatever the file system's own are (stat(2)).
    fs::metadata(path).map(|meta| meta.blocks() * 512)
}

/// Free bytes of the disk that the file at `path` stands on.
pub(super) fn free_bytes_beside(path: &Path) -> io::Result<u64> {
    free_bytes(folder_of(path))
}

pub(super) fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    PathBuf::from(name)
}

/// What a rewriting that was cut off has left beside the file, by name.
pub(super) fn leftovers(path: &Path) -> Vec<PathBuf> {
    ["new", "old"].map(|what| beside(path, what)).into_iter().filter(|left| left.exists()).collect()
}

/// Removes what a crash has left beside the file. Only for whoever has the file open. What cannot be removed is said in the
/// log: it must not keep the box from starting.
pub(super) fn discard_leftovers(path: &Path) {
    for left in ["new", "old"].map(|what| beside(path, what)) {
        // A second name of the file itself, when it was cut off before the renaming.
        let done = if is_same(&left, path) { remove(&left) } else { discard(&left, &|| false) };
        if let Err(error) = done {
            tracing::warn!(%error, file = %left.display(), "what was left beside the store could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_stay_holes_and_data_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = File::create(&path).unwrap();
        // A length that no disk has room for.
        file.set_len(1 << 40).unwrap();
        file.write_all_at(b"the secret", 1 << 30).unwrap();
        file.sync_all().unwrap();
        let reader = File::open(&path).unwrap();
        let before = allocated_bytes(&path).unwrap();
        assert!(before < 1 << 20, "the folder's file system keeps holes");
        assert!(overwrite(&file, &|| false).unwrap());
        assert!(allocated_bytes(&path).unwrap() <= before + 4_096);
        let mut bytes = [1; 10];
        reader.read_exact_at(&mut bytes, 1 << 30).unwrap();
        assert_eq!(bytes, [0; 10]);
        discard(&path, &|| false).unwrap();
        assert!(!path.exists());
        discard(&path, &|| false).unwrap();
    }

    #[test]
    fn one_that_is_stopped_stays_and_one_that_cannot_be_written_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "the secret").unwrap();
        discard(&path, &|| true).unwrap();
        assert!(path.exists());
        discard(&path, &|| false).unwrap();
        assert!(!path.exists());
        // No file can be opened for writing behind a link that leads nowhere; the name goes.
        fs::create_dir(folder.path().join("gone")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("gone"), &path).unwrap();
        discard(&path, &|| false).unwrap();
        assert!(fs::symlink_metadata(&path).is_err());
    }
}
