//! Files of the data folder beside pages: results, exports, what is on its way to outputs.

use base::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// A file is kept in parts of so many bytes.
pub(crate) const PART_BYTES: usize = 8 << 20;

/// The files below a folder of the data folder, by their paths from there, sorted. No links are followed.
pub(crate) fn below(data: &Path, folder: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    walk(data, &data.join(folder), &mut found)
        .map_err(|e| Error::unavailable(format!("{} cannot be listed: {e}", data.join(folder).display())))?;
    found.sort();
    Ok(found)
}

fn walk(data: &Path, folder: &Path, found: &mut Vec<String>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = match entry.file_type() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            kind => kind?,
        };
        if kind.is_dir() {
            walk(data, &entry.path(), found)?;
        } else if kind.is_file()
            && let Some(path) = entry.path().strip_prefix(data).ok().and_then(Path::to_str)
        {
            found.push(path.to_owned());
        }
    }
    Ok(())
}

/// Gives a file part after part; false where there is none (any more).
pub(crate) fn parts(path: &Path, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
    let failed = |e: io::Error| Error::unavailable(format!("{} cannot be read: {e}", path.display()));
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(failed)?,
    };
    loop {
        let mut part = Vec::new();
        (&mut file).take(PART_BYTES as u64).read_to_end(&mut part).map_err(failed)?;
        if part.is_empty() {
            return Ok(true);
        }
        each(&part)?;
    }
}

/// The path of a file of a backup below `data`; none of one that would lead out of it.
pub(crate) fn inside(data: &Path, path: &str) -> Option<PathBuf> {
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && !path.is_empty()).then(|| data.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_is_none() {
        let data = Path::new("/data");
        assert_eq!(inside(data, "results/a"), Some(PathBuf::from("/data/results/a")));
        for out in ["../a", "/etc/passwd", "results/../../a", "", "."] {
            assert_eq!(inside(data, out), None, "{out}");
        }
    }
}
