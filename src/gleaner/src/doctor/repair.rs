//! Mending what is derived.
//!
//! Each round looks, puts right what it found, and looks again: only what the second look does not find is called mended. What
//! a first round has uncovered (a store that can be read again) is put right by the next. Files go before anything is written,
//! so that a full disk has room.

use super::report::{Diagnosis, Finding, Mend};
use super::{all_tables, examine, failed, kept, newer, opened};
use crate::config::Config;
use base::clock::Clock;
use base::{Error, Result};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;
use store::Store;

/// Rounds at most: modes, the store's file, what is in it, and one that finds nothing.
const ROUNDS_MAX: usize = 4;

/// Checks the data folder of `config`, which no process may have open, and mends what is made of something else.
pub fn repair(config: &Config) -> Result<Diagnosis> {
    let mut seen = Vec::<Finding>::new();
    let mut diagnosis = examine(config)?;
    for _ in 0..ROUNDS_MAX {
        let found: Vec<_> =
            diagnosis.findings.iter().filter(|one| one.mend != Mend::Nothing).cloned().collect();
        if found.is_empty() {
            break;
        }
        let tried = put_right(config, found);
        let next = examine(config)?;
        let progress = tried.iter().any(|one| !next.findings.iter().any(|left| is_same(left, one)));
        for one in tried {
            match seen.iter_mut().find(|before| is_same(before, &one)) {
                Some(before) => *before = one,
                None => seen.push(one),
            }
        }
        diagnosis = next;
        if !progress {
            break;
        }
    }
    for left in &mut diagnosis.findings {
        if let Some(tried) = seen.iter().find(|tried| is_same(tried, left)) {
            left.not_mended.clone_from(&tried.not_mended);
        }
    }
    let still: Vec<_> = diagnosis.findings.clone();
    let mended = seen.into_iter().filter(|one| !still.iter().any(|left| is_same(left, one)));
    diagnosis.findings.extend(mended.map(|one| Finding { is_mended: true, not_mended: None, ..one }));
    Ok(diagnosis)
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.part, &one.what) == (other.part, &other.what)
}

/// Tries to put right what was found; each says why not, where it was not.
fn put_right(config: &Config, mut found: Vec<Finding>) -> Vec<Finding> {
    for one in &mut found {
        let done = match &one.mend {
            Mend::Remove(path) => remove(path),
            Mend::Mode(path, mode) => {
                fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(|e| failed(path, &e))
            }
            Mend::Owner(path, uid, gid) => lchown(path, Some(*uid), Some(*gid)).map_err(|e| {
                Error::unavailable(format!("{}: {e}; root may change whose it is", path.display()))
            }),
            Mend::Nothing | Mend::Derived | Mend::Salvage | Mend::GiveUp(_) => Ok(()),
        };
        note(one, done);
    }
    if found.iter().any(|one| one.mend == Mend::Salvage) {
        let done = salvage(config);
        let done = done.as_ref().map_or_else(|e| Err(e.for_operator()), |()| Ok(()));
        found
            .iter_mut()
            .filter(|one| one.mend == Mend::Salvage)
            .for_each(|one| one.not_mended = done.clone().err());
    }
    let in_store = |one: &Finding| matches!(one.mend, Mend::Derived | Mend::GiveUp(_));
    if found.iter().any(in_store) {
        let done = within_store(config, &found).map_err(|e| e.for_operator());
        found.iter_mut().filter(|one| in_store(one)).for_each(|one| one.not_mended = done.clone().err());
    }
    found
}

fn note(one: &mut Finding, done: Result<()>) {
    if let Err(error) = done {
        one.not_mended = Some(error.for_operator());
    }
}

/// Removes a file, or a folder with all that is in it.
fn remove(path: &Path) -> Result<()> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|about| about.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
        _ => disk::sync_name(path).map_err(|e| failed(path, &e)),
    }
}

/// Makes the store's file anew without what is damaged.
fn salvage(config: &Config) -> Result<()> {
    let file = config.store_file();
    let owner = fs::metadata(&file).map_err(|e| failed(&file, &e))?;
    let (cache, reserve) = (config.storage.cache_mb << 20, config.storage.reserve_mb << 20);
    let salvaged = store::salvage(&file, &all_tables(), cache, reserve, Clock::system())?;
    tracing::info!(
        rows = salvaged.rows,
        derived = salvaged.derived,
        kept_as = %salvaged.kept_as.display(),
        "the store's file was made anew"
    );
    keep_owner(&file, &owner)
}

/// A file that root has made anew belongs to whom the old one did.
fn keep_owner(file: &Path, owner: &fs::Metadata) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let made = fs::metadata(file).map_err(|e| failed(file, &e))?;
    if (made.uid(), made.gid()) == (owner.uid(), owner.gid()) {
        return Ok(());
    }
    lchown(file, Some(owner.uid()), Some(owner.gid())).map_err(|e| failed(file, &e))
}

/// Puts right what is in the store: what is made of rows, and rows whose files are lost.
fn within_store(config: &Config, found: &[Finding]) -> Result<()> {
    let (store, layout) =
        opened(config)?.map_err(|reason| Error::unavailable(format!("the store: {reason}")))?;
    drop(store);
    if layout.0 > layout.1 {
        return Err(newer(layout));
    }
    // A repair is no upgrade.
    if layout.0 < layout.1 {
        return Err(Error::unavailable(
            "the folder is of an earlier release: repair it with that one, or start this one first, which upgrades it",
        ));
    }
    let store = Store::open(&config.store_file(), config.storage.cache_mb << 20, Clock::system())?;
    let mended = within_open(&store, found);
    store.close();
    mended
}

fn within_open(store: &Store, found: &[Finding]) -> Result<()> {
    if found.iter().any(|one| one.mend == Mend::Derived) {
        store.mend(&all_tables())?;
    }
    let lost = found.iter().filter_map(|one| match &one.mend {
        Mend::GiveUp(lost) => Some(lost),
        _ => None,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::internal("start the runtime", e))?;
    let system = store.system();
    lost.into_iter().try_for_each(|lost| runtime.block_on(kept::give_up(&system, lost)))
}
