//! What the box writes is its owner's alone, also what an earlier release has written.
//!
//! Nobody else can enter the data folder, so modes inside it matter where a copy of it is unpacked, or moved, or made readable
//! by hand.

use rustix::fs::Mode;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What the group and others could do.
const OTHERS: u32 = 0o077;

/// From now on no file of this process or of those that it starts can be read by others.
pub(super) fn keep_private() {
    rustix::process::umask(Mode::from_raw_mode(OTHERS));
}

/// Takes the modes of others from files and folders in `data`, on a thread of its own: of pages there may be millions.
pub(super) fn tighten(data: PathBuf) {
    tokio::task::spawn_blocking(move || {
        let mut changed = 0_u64;
        if let Err(error) = walk(&data, &mut changed) {
            tracing::warn!(folder = %data.display(), %error, "the modes of files could not all be looked at");
        }
        if changed > 0 {
            tracing::info!(
                changed,
                "files and folders of the data folder were readable by others and are not any more"
            );
        }
    });
}

fn walk(folder: &Path, changed: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Not what a link leads to, and no sockets; what has gone meanwhile needs nothing.
        let Ok(about) = entry.metadata() else { continue };
        if !(about.is_dir() || about.is_file()) {
            continue;
        }
        let mode = about.permissions().mode();
        if mode & OTHERS != 0 {
            *changed += u64::from(close(&entry.path(), mode)?);
        }
        if about.is_dir() {
            match walk(&entry.path(), changed) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Takes others' rights from what has this mode. Whether it did: what has gone meanwhile needs nothing.
fn close(path: &Path, mode: u32) -> io::Result<bool> {
    match fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OTHERS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        changed => changed.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_could_read_they_cannot_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("pages/ab");
        fs::create_dir_all(&inner).unwrap();
        let file = inner.join("page");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
        let mut changed = 0;
        walk(folder.path(), &mut changed).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&file), mode(&inner)), (0o600, 0o700));
        assert!(changed >= 2);
    }

    #[test]
    fn what_has_gone_meanwhile_ends_no_walk() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!close(&folder.path().join("gone"), 0o644).unwrap());
    }
}
