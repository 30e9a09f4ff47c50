//! How a finished result leaves its worker: it becomes a file of the server's, under its name, or it is refused. Then it is
//! brought to the disk.
//!
//! The worker has told how large it is, and runs hostile statements: what is taken is the file that was looked at, and it
//! is looked at without following links. From then on it lies where no worker may reach it by name; nor is it ever mapped,
//! so that a worker which still had it open could spoil its own organization's rows and nothing else (`spool`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::spool::PART_EXTENSION;

/// Makes the worker's finished file `own` of `bytes` bytes the file `result`. Blocking. It need not be on the disk
/// afterwards: see [`sync`].
pub(super) fn take(own: &Path, result: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(own)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() != bytes {
        return Err(io::Error::other("the result is not what the worker said"));
    }
    match fs::rename(own, result) {
        // The folders of workers and of results are on two disks.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy(&file, result, bytes)?,
        Err(error) => return Err(error),
        Ok(()) => {
            let taken = fs::symlink_metadata(result)?;
            if (taken.dev(), taken.ino()) != (found.dev(), found.ino()) {
                fs::remove_file(result)?;
                return Err(io::Error::other("the result is not the one that was looked at"));
            }
        }
    }
    Ok(())
}

/// Brings a file and its name to the disk. Blocking.
pub(super) fn sync(result: &Path) -> io::Result<()> {
    // One commit of the file system's journal takes both, if the file comes first.
    disk::sync_file(result)
}

/// Copies what was looked at, and not more. The name appears when all of it is there.
fn copy(file: &File, result: &Path, bytes: u64) -> io::Result<()> {
    let part = result.with_extension(PART_EXTENSION);
    let written = File::create(&part).and_then(|mut target| {
        let copied = io::copy(&mut io::Read::take(file, bytes), &mut target)?;
        if copied != bytes {
            return Err(io::Error::other("the result became shorter"));
        }
        fs::rename(&part, result)
    });
    if written.is_err() {
        // What stays is removed with the folder's other leftovers.
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_that_was_told_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let [own, result, other] = ["own", "r.arrow", "other"].map(|name| folder.path().join(name));
        fs::write(&own, b"rows").expect("written");
        assert!(take(&own, &result, 5).is_err(), "another size");
        fs::write(&other, b"rows").expect("written");
        std::os::unix::fs::symlink(&other, folder.path().join("link")).expect("a link");
        assert!(take(&folder.path().join("link"), &result, 4).is_err(), "a link");
        assert!(take(folder.path(), &result, 4).is_err(), "a folder");
        assert!(!result.exists());
        take(&own, &result, 4).expect("taken");
        assert_eq!((fs::read(&result).expect("read"), own.exists()), (b"rows".to_vec(), false));
    }

    #[test]
    fn a_copy_is_whole_or_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let [own, result] = ["own", "r.arrow"].map(|name| folder.path().join(name));
        fs::write(&own, b"rows").expect("written");
        assert!(copy(&File::open(&own).expect("open"), &result, 5).is_err(), "it became shorter");
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
        copy(&File::open(&own).expect("open"), &result, 3).expect("copied");
        assert_eq!(fs::read(&result).expect("read"), b"row");
    }
}
