//! Paths in the configuration: made absolute the moment they are read, from the working directory.
//!
//! The box hands its paths on to processes that stand in other folders (SQL workers, the browser), so a path that stayed
//! relative would mean another file there. A test holds every path of the configuration to one of these functions.

use serde::{Deserialize, Deserializer, de};
use std::path::{Component, Path, PathBuf};

/// An absolute path, or an empty one, which means "none" or "the default".
pub(crate) fn absolute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    make_absolute(&path).map_err(de::Error::custom)
}

/// The same for a program: a name without a slash is looked for in `PATH`, as a shell does.
pub(crate) fn program<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    let mut parts = path.components();
    let named = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if named && !path.as_os_str().as_encoded_bytes().contains(&b'/') {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let found =
            std::env::split_paths(&folders).map(|folder| folder.join(&path)).find(|file| file.is_file());
        return make_absolute(&found.unwrap_or(path)).map_err(de::Error::custom);
    }
    make_absolute(&path).map_err(de::Error::custom)
}

pub(super) fn make_absolute(path: &Path) -> Result<PathBuf, String> {
    if path.as_os_str().is_empty() {
        return Ok(PathBuf::new());
    }
    let absolute = std::path::absolute(path).map_err(|e| {
        format!("{} is relative, and the working directory is not known: {e}", path.display())
    })?;
    // Workers are told paths in JSON.
    match absolute.to_str() {
        Some(_) => Ok(absolute),
        None => Err(format!("{} is not UTF-8; give the path of another folder", absolute.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_the_working_directorys() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(make_absolute(Path::new("data/var")).unwrap(), here.join("data/var"));
        assert_eq!(make_absolute(Path::new("./a b")).unwrap(), here.join("a b"));
        assert_eq!(make_absolute(Path::new("/srv/gleaner")).unwrap(), Path::new("/srv/gleaner"));
        assert_eq!(make_absolute(Path::new("")).unwrap(), Path::new(""));
        let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"/srv/\xff");
        assert!(make_absolute(Path::new(odd)).unwrap_err().contains("is not UTF-8"));
    }

    /// A new path key without one of the two functions would bring relative paths back.
    #[test]
    fn every_path_of_the_configuration_is_read_here() {
        let sources = [
            include_str!("../config.rs"),
            include_str!("../features/auth/config.rs"),
            include_str!("../features/audit/config.rs"),
            include_str!("../features/backups/config.rs"),
            include_str!("../features/bi/config.rs"),
            include_str!("../features/mail/config.rs"),
            include_str!("../features/providers/config.rs"),
        ];
        let mut paths = 0;
        for source in sources {
            let lines: Vec<&str> = source.lines().map(str::trim).collect();
            for (at, line) in lines
                .iter()
                .enumerate()
                .filter(|(_, line)| line.starts_with("pub ") && line.ends_with(": PathBuf,"))
            {
                paths += 1;
                assert!(at > 0 && lines[at - 1].contains("deserialize_with = \"paths::"), "{line}");
            }
        }
        assert_eq!(paths, 10, "the paths that there are");
    }
}
