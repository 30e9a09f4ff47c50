//! What of a box goes into a backup and where it comes from: the same whether the box runs or is off.

use super::bucket::BucketTarget;
use super::config::{BackupConfig, S3};
use crate::config::{Config, explain};
use crate::features::wiring;
use backup::{FolderTarget, Keep, Manifest, Passphrase, Plan, Progress, Removed, Repository, RowsOf};
use base::clock::Timestamp;
use base::{Error, Result};
use std::any::Any;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{Exported, ExportedRows, TakeRows};
use tokio::runtime::Handle;
use uuid::Uuid;

/// Folders of the data folder that are made anew from the store.
pub(super) const DERIVED: [&str; 2] = ["search", "snapshots"];
/// The folder of pages, which are kept one by one.
pub const PAGES: &str = "pages";

/// A box as its backups see it.
#[derive(Clone, Debug)]
pub struct Place {
    pub data: PathBuf,
    pub key_file: PathBuf,
    /// The file of the configuration, if there is one.
    pub config_file: Option<PathBuf>,
    pub backup: BackupConfig,
}

/// What is wanted of one backup.
pub struct Wanted {
    pub target: String,
    /// What key file and configuration are sealed with; none leaves the key file out.
    pub passphrase: Option<Passphrase>,
    /// Write all of it anew, whatever is there.
    pub full: bool,
}

/// A backup that was made, and what went after it.
pub struct Done {
    pub manifest: Manifest,
    /// None where old ones are not looked after: in a place that the operator named by hand.
    pub removed: Option<Removed>,
    /// Why old ones could not be removed.
    pub not_removed: Option<String>,
}

/// What a backup is made with.
pub struct Means<'m> {
    /// Keeps pages from being removed until what it gives is dropped.
    pub hold: &'m dyn Fn() -> Box<dyn Any>,
    pub stop: &'m (dyn Fn() -> bool + Sync),
    pub progress: &'m Progress,
    pub runtime: &'m Handle,
}

/// Gives every row of the store at one moment.
pub type Export<'e> = &'e mut dyn FnMut(TakeRows<'_>) -> Result<Exported>;

impl Place {
    pub fn of(config: &Config) -> Place {
        Place {
            data: config.storage.data_dir.clone(),
            key_file: config.key_file(),
            config_file: config.file().map(Path::to_owned),
            backup: config.section::<BackupConfig>().clone(),
        }
    }

    /// The repository at a place that was named: a folder, or `s3://BUCKET/PREFIX` with the keys of the configuration.
    pub fn repository(&self, target: &str, runtime: &Handle) -> Result<Repository> {
        if target.starts_with(S3) {
            let settings = self.backup.s3(target)?;
            return Ok(Repository::at(Box::new(BucketTarget::new(target, &settings, runtime.clone())?)));
        }
        let folder = Path::new(target);
        if !folder.is_absolute() {
            return Err(Error::invalid("target", "must be an absolute path or s3://BUCKET/PREFIX"));
        }
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if real.starts_with(self.data.canonicalize().unwrap_or_else(|_| self.data.clone())) {
            let reason =
                format!("{target} lies in the data folder; a backup lies elsewhere, best on another disk");
            return Err(Error::invalid("target", reason));
        }
        Ok(Repository::at(Box::new(FolderTarget::at(folder))))
    }

    /// Makes a backup. Blocks for as long as it takes.
    pub fn back_up(
        &self,
        wanted: &Wanted,
        store: Uuid,
        export: Export<'_>,
        means: &Means<'_>,
    ) -> Result<Done> {
        let repository = self.repository(&wanted.target, means.runtime)?;
        let _held = repository.hold()?;
        let folders: Vec<_> = wiring::folders()
            .map(|folder| folder.name)
            .filter(|name| *name != PAGES && !DERIVED.contains(name))
            .collect();
        let plan = Plan {
            version: env!("CARGO_PKG_VERSION"),
            store,
            now: &Timestamp::by_machine,
            data: &self.data,
            pages: PAGES,
            folders: &folders,
            passphrase: wanted.passphrase.as_ref(),
            key_file: &self.key_file,
            config: self.config_text(wanted.passphrase.is_some())?,
            anew: wanted.full,
            hold: means.hold,
            stop: means.stop,
            progress: means.progress,
        };
        let manifest = backup::make(&repository, &plan, &mut |take| {
            let exported = export(&mut |part: ExportedRows| {
                take(RowsOf { table: part.table.to_owned(), rows: part.rows })
            })?;
            Ok(exported.pause)
        })?;
        let is_own = self.backup.target.trim_end_matches('/') == wanted.target.trim_end_matches('/');
        let mut done = Done { manifest, removed: None, not_removed: None };
        // Only where the configuration says which ones stay.
        if is_own {
            match backup::remove_old(&repository, &self.keep(), Timestamp::by_machine()) {
                Ok(removed) => done.removed = Some(removed),
                Err(error) => done.not_removed = Some(error.for_operator()),
            }
        }
        Ok(done)
    }

    fn keep(&self) -> Keep {
        self.backup.keep()
    }

    /// The configuration's text. One with a secret in it is kept sealed or not at all.
    fn config_text(&self, sealed: bool) -> Result<Option<String>> {
        let Some(file) = &self.config_file else { return Ok(None) };
        let text = std::fs::read_to_string(file).map_err(|e| {
            Error::unavailable(format!("the configuration {} cannot be read: {e}", file.display()))
        })?;
        if !sealed && explain::has_secrets(&text) {
            tracing::warn!(
                file = %file.display(),
                "the configuration has secrets and is left out of a backup that is not sealed with a passphrase"
            );
            return Ok(None);
        }
        Ok(Some(text))
    }
}

/// How long something took, in milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
