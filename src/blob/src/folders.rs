//! What stands in the folders of pages: measured, listed, and swept of what was never finished.

use super::{BlobHash, BlobUsage, SUFFIX, is_past};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What stands in an organization's folder, unfinished files left out.
pub(super) fn measure(folder: &Path) -> io::Result<BlobUsage> {
    let mut usage = BlobUsage::default();
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let shards = match folders(folder) {
        Err(error) if is_gone(&error) => return Ok(usage),
        shards => shards?,
    };
    for shard in shards {
        for file in fs::read_dir(shard)? {
            let file = file?;
            match file.metadata() {
                Ok(found) if file.file_name().to_string_lossy().ends_with(SUFFIX) => {
                    usage.objects += 1;
                    usage.stored_bytes += found.len();
                }
                // One that was deleted, or renamed to its own name, meanwhile.
                Err(error) if !is_gone(&error) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(usage)
}

/// Removes `<root>/<org>/<two digits>/<name>#<n>` files older than `age`.
pub(super) fn sweep(root: &Path, age: Duration) -> io::Result<u64> {
    let mut removed = 0;
    for org in folders(root)? {
        for shard in folders(&org)? {
            for file in fs::read_dir(shard)? {
                let file = file?;
                if file.file_name().to_string_lossy().contains('#') && is_older(&file, age)? {
                    fs::remove_file(file.path())?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

fn folders(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

fn is_older(file: &fs::DirEntry, age: Duration) -> io::Result<bool> {
    Ok(is_past(file.metadata()?.modified()?, age))
}

/// Objects of a folder that are older than `age`, with their sizes.
pub(super) fn older(folder: &Path, age: Duration) -> io::Result<Vec<(BlobHash, u64)>> {
    let files = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let mut found = Vec::new();
    for file in files {
        let file = file?;
        let name = file.file_name();
        let hash = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).and_then(|hex| hex.parse().ok());
        if let (Some(hash), Ok(data)) = (hash, file.metadata())
            && is_past(data.modified()?, age)
        {
            found.push((hash, data.len()));
        }
    }
    Ok(found)
}
