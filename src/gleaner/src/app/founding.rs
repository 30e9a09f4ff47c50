//! Whether a box begins or goes on: a store that is gone must not look like a new box.
//!
//! A disk that was not mounted, a folder that was restored in part, a file that was cut to nothing: each leaves something of
//! an earlier life beside a store that is not there. Beginning anew would lose nothing at once, and everything a moment
//! later, when index and snapshots are made to fit a store without rows and people register again. So it is refused by
//! name.
//!
//! A first start makes the store before the key, each durably before the next thing, so a start that is cut off anywhere
//! leaves what the next one goes on with: a store without rows needs no key of its own.

use crate::config::Config;
use crate::features;
use crate::trunk::check_seal;
use base::{Error, Result};
use secrets::keyring::{Keyring, refuse_inside};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use store::Store;

/// Makes the data folder ready and the store's file, if this is a new box; refuses a box that has lost its store.
pub(super) fn prepare(config: &Config) -> Result<()> {
    let data = &config.storage.data_dir;
    refuse_inside(&config.key_file(), data).map_err(|e| Error::invalid("storage.key_file", e))?;
    let store = config.store_file();
    let lack = match fs::metadata(&store) {
        Ok(about) if about.len() > 0 => return hold(data),
        Ok(_) => "is empty (0 bytes)",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "is missing",
        Err(error) => {
            let reason = format!("{} cannot be looked at: {error}", store.display());
            return Err(Error::invalid("storage.data_dir", reason));
        }
    };
    let left = left_of_an_earlier_life(config);
    if !left.is_empty() && !config.storage.begin_anew {
        return Err(lost(&store, lack, &left));
    }
    hold(data)?;
    Store::found(&store)
}

fn hold(data: &Path) -> Result<()> {
    let failed = |e| Error::invalid("storage.data_dir", format!("{} cannot be used: {e}", data.display()));
    disk::hold(data).map_err(failed)
}

fn lost(store: &Path, lack: &str, left: &[PathBuf]) -> Error {
    let left: Vec<_> = left.iter().map(|path| path.display().to_string()).collect();
    Error::unavailable(format!(
        "the store {} {lack}, but {} of an earlier life of this box {} there. Mount the disk that it is on, or restore it \
         from a backup. If nothing of it is wanted, `gleaner serve --new` begins a new, empty box.",
        store.display(),
        left.join(", "),
        if left.len() == 1 { "is" } else { "are" },
    ))
}

/// What says that this box has had a store. What cannot be looked at counts: it is there.
fn left_of_an_earlier_life(config: &Config) -> Vec<PathBuf> {
    let is_there =
        |path: &Path| !fs::symlink_metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    let is_filled = |path: &PathBuf| match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    let key = Some(config.key_file()).filter(|key| is_there(key));
    // Only a box with rows fills the slices' folders.
    let folders = features::ALL.iter().flat_map(|feature| feature.folders);
    let folders = folders.map(|folder| config.storage.data_dir.join(folder.name)).filter(is_filled);
    key.into_iter().chain(folders).collect()
}

/// Seals the ends of audit chains with the newest key where an older one has, so that the operator can take that out.
pub(super) async fn renew_seals(store: &Store) {
    match store.system().renew_audit_seals().await {
        Ok(0) => {}
        Ok(chains) => tracing::info!(chains, "ends of audit chains were sealed with the newest signing key"),
        Err(error) => {
            let error = error.for_operator();
            tracing::warn!(
                error,
                "ends of audit chains could not be sealed with the newest signing key; keep the older one"
            );
        }
    }
}

/// The box's secrets. Fresh keys cannot open what lost ones have sealed, so only a store without rows gets some.
pub(super) fn keyring(config: &Config, store: &Store) -> Result<Keyring> {
    let load = if store.is_blank()? { Keyring::load_or_create } else { Keyring::load };
    let keyring = load(&config.key_file()).map_err(|e| Error::invalid("storage.key_file", e))?;
    // With another box's keys this one would start, seal its audit chains anew, and open nothing that the right ones sealed.
    let is_own = |head: &[u8], seal: &[u8]| check_seal(&keyring, head, seal);
    if !store.system().read(|tx| tx.knows_audit_seals(&is_own))? {
        let reason = format!(
            "the keys in {} are not those that {} was written with: put the key file back that belongs to it",
            config.key_file().display(),
            config.store_file().display()
        );
        return Err(Error::invalid("storage.key_file", reason));
    }
    Ok(keyring)
}
