//! The data folder and the key file as files: whose they are, and who may read them.
//!
//! The box can do nothing with a file that is somebody else's, and what others can read is not private any more. Whose the
//! files should be says the folder itself.

use super::report::{Finding, Findings, Mend, Remedy};
use super::{Part, failed};
use crate::config::Config;
use base::Result;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

const PART: &str = "folder";
/// What the group and others could do.
const OTHERS: u32 = 0o077;
/// What the owner must be able to do with a file, and with a folder.
const OF_FILE: u32 = 0o400;
const OF_FOLDER: u32 = 0o700;

/// Looks at every name in the data folder, and at the key file.
pub(super) fn look(config: &Config) -> Result<Part> {
    let data = &config.storage.data_dir;
    let about = fs::metadata(data).map_err(|e| failed(data, &e))?;
    let mut walk = Walk { owner: (about.uid(), about.gid()), seen: 0, findings: Findings::of(PART) };
    walk.judge(data, &about);
    walk.folder(data)?;
    let key = config.key_file();
    if let Ok(about) = fs::metadata(&key) {
        walk.judge(&key, &about);
    }
    Ok((format!("{} files and folders", walk.seen), walk.findings.take()))
}

struct Walk {
    owner: (u32, u32),
    seen: u64,
    findings: Findings,
}

impl Walk {
    fn folder(&mut self, folder: &Path) -> Result<()> {
        let entries = match fs::read_dir(folder) {
            // Gone meanwhile, or nobody may look into it, which was said of it.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                return Ok(());
            }
            entries => entries.map_err(|e| failed(folder, &e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| failed(folder, &e))?;
            let path = entry.path();
            // Not what a link leads to: where an operator has put a part elsewhere, it is theirs to look after.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_symlink() {
                continue;
            }
            self.judge(&path, &about);
            if about.is_dir() {
                self.folder(&path)?;
            }
        }
        Ok(())
    }

    fn judge(&mut self, path: &Path, about: &Metadata) {
        self.seen += 1;
        let kind = about.file_type();
        if !(kind.is_file() || kind.is_dir() || kind.is_socket()) {
            let what = format!("{} is neither a file nor a folder; remove it", path.display());
            return self.findings.add(Finding::new(PART, Remedy::Operator, what));
        }
        let (uid, gid) = self.owner;
        if about.uid() != uid {
            let what = format!(
                "{} belongs to the user {} and not to {uid} as the folder does: the box cannot use it",
                path.display(),
                about.uid()
            );
            let mend = Mend::Owner(path.to_owned(), uid, gid);
            self.findings.add(Finding::derived(PART, what, mend));
        }
        if kind.is_socket() {
            return;
        }
        let (mode, own) =
            (about.permissions().mode() & 0o7777, if kind.is_dir() { OF_FOLDER } else { OF_FILE });
        let wanted = mode & !OTHERS | own;
        if mode & OTHERS != 0 {
            let what = format!("others may use {} (mode {mode:03o})", path.display());
            self.findings.add(Finding::derived(PART, what, Mend::Mode(path.to_owned(), wanted)));
        } else if mode & own != own {
            let what = format!("the box itself may not use {} (mode {mode:03o})", path.display());
            self.findings.add(Finding::derived(PART, what, Mend::Mode(path.to_owned(), wanted)));
        }
    }
}
