//! Why a page could not be kept or read.

use super::PAGE_BYTES_MAX;
use super::hash::BlobHash;
use std::error::Error;
use std::fmt;
use std::io;

/// Why a page could not be kept or read.
#[derive(Debug)]
pub enum BlobError {
    /// The disk, or the quota on it, is full. Nothing was kept; it can be tried again when there is space.
    NoSpace { doing: &'static str, source: Box<dyn Error + Send + Sync> },
    /// The page has this many bytes, more than [`PAGE_BYTES_MAX`].
    TooLarge { bytes: u64 },
    /// All pages of the organization were removed, and no more are taken.
    Emptied,
    /// Pages are not removed while a backup is being made; to be tried again.
    Held,
    /// What is kept under this hash is not the page.
    Corrupt { hash: BlobHash, why: &'static str },
    /// It lies in another place, which does not give it at the moment; says why, in words for whoever set that place up.
    Away { why: String },
    /// Another failure of the machine.
    Failed { doing: &'static str, source: Box<dyn Error + Send + Sync> },
}

impl BlobError {
    pub(crate) fn from_io(doing: &'static str, error: io::Error) -> BlobError {
        let source = Box::new(error);
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::NoSpace { doing, source },
            _ => BlobError::Failed { doing, source },
        }
    }

    /// Whether the process had no descriptor or no memory left, which says nothing about the disk.
    pub(crate) fn is_of_the_process(&self) -> bool {
        let BlobError::Failed { source, .. } = self else { return false };
        let number = source.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        // The numbers of Linux (errno(3)): ENOMEM, ENFILE, EMFILE, ENOBUFS.
        matches!(number, Some(12 | 23 | 24 | 105))
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlobError::NoSpace { doing, .. } => write!(f, "could not {doing}: no space left on the disk"),
            BlobError::TooLarge { bytes } => {
                write!(f, "the page has {bytes} bytes, more than the {PAGE_BYTES_MAX} that are kept")
            }
            BlobError::Emptied => f.write_str("the organization keeps no pages any more"),
            BlobError::Held => f.write_str("no pages are removed while a backup is being made"),
            BlobError::Corrupt { hash, why } => write!(f, "the stored page {hash} is damaged: {why}"),
            BlobError::Away { why } => write!(f, "the page lies in another storage: {why}"),
            BlobError::Failed { doing, .. } => write!(f, "could not {doing}"),
        }
    }
}

impl Error for BlobError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BlobError::NoSpace { source, .. } | BlobError::Failed { source, .. } => Some(source.as_ref()),
            BlobError::TooLarge { .. }
            | BlobError::Corrupt { .. }
            | BlobError::Away { .. }
            | BlobError::Emptied
            | BlobError::Held => None,
        }
    }
}
