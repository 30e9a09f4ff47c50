//! Why there are no keys, for the operator.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why the keys cannot be had or used. The text is for the operator, at start.
#[derive(Debug)]
pub enum KeyringError {
    /// The file system refused.
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    /// Somebody else than its owner may read the file.
    Exposed { path: PathBuf, mode: u32 },
    /// The file is not a key file of this release.
    Malformed { path: PathBuf, reason: String },
    /// The file stands where backups of the data would take it along.
    InsideData { path: PathBuf, folder: PathBuf },
    /// The machine gave no random bytes.
    NoRandomness,
    /// A sealed value was damaged, moved to another place, or sealed by a key that is gone.
    CannotOpen,
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, source } if source.kind() == io::ErrorKind::NotFound => write!(
                f,
                "cannot {doing} {}: {source}. Put it back from where it is kept apart from the data; it cannot be made anew, \
                 and without it nothing opens what it has sealed",
                path.display()
            ),
            Self::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            Self::Exposed { path, mode } => write!(
                f,
                "the key file {0} may be read by others (mode {mode:04o}); run: chmod 600 {0}",
                path.display()
            ),
            Self::Malformed { path, reason } => write!(
                f,
                "the key file {} is damaged ({reason}); restore it from a backup, it cannot be made anew",
                path.display()
            ),
            Self::InsideData { path, folder } => write!(
                f,
                "the key file {} lies inside the data folder {}; name a place beside it in storage.key_file",
                path.display(),
                folder.display()
            ),
            Self::NoRandomness => f.write_str("the machine's random number generator failed"),
            Self::CannotOpen => f.write_str("a sealed value cannot be opened with this box's keys"),
        }
    }
}

impl std::error::Error for KeyringError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
