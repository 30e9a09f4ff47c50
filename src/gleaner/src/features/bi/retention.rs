//! What ended statements leave on the disk: results, and the exports that were made of them.
//!
//! Both are bounded for an organization and for the box. What is beyond a bound is given up, the oldest first: of the
//! organization whose own bound it is, or, when it is the box's, of the one that keeps most. Rows can be had again by
//! submitting the statement again, so nothing is lost but time. A result that was given up keeps its row (`kept` is
//! false then, and its pages are `transient`); an export is gone as if it had expired.
//!
//! What counts is what the disk says that files take. It is counted once at the start; from then on whoever puts a file
//! there or removes one tells. The count may be behind the disk by what is being written, never for long: when nothing
//! is left to give up, the organization is counted anew.

use super::export_rows::{self, EXPORTS};
use super::rows::{QUERIES, QueryV2};
use base::ids::{BiExportId, OrgId, QueryId};
use base::{Error, Result};
use parking_lot::Mutex;
use sql::Workers;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::{SysRead, System};

/// Rows of one look for the oldest result.
const CHUNK_ROWS: usize = 100;
const BLOCK_BYTES: u64 = 512;
/// A statement's row is written within this time of its submission: at once, but for a disk that hangs.
const YOUNG: Duration = Duration::from_secs(60);

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub struct RetentionBounds {
    /// Of one organization, bytes.
    pub org_bytes_max: u64,
    /// Of all, bytes.
    pub box_bytes_max: u64,
}

/// The files of results and exports.
pub struct ResultRetention {
    system: System,
    workers: Arc<Workers>,
    exports_folder: PathBuf,
    bounds: RetentionBounds,
    held: Mutex<RetainedBytes>,
    /// Held while room is made, so that two do not give up twice as much as is needed.
    making: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct RetainedBytes {
    orgs: HashMap<OrgId, OrgRetained>,
    bytes: u64,
}

#[derive(Default)]
struct OrgRetained {
    bytes: u64,
    /// No query up to this one has rows any more.
    bare_to: Option<QueryId>,
}

impl RetainedBytes {
    fn add(&mut self, org: OrgId, bytes: u64) {
        self.orgs.entry(org).or_default().bytes += bytes;
        self.bytes += bytes;
    }

    fn subtract(&mut self, org: OrgId, bytes: u64) {
        let Some(own) = self.orgs.get_mut(&org) else { return };
        let bytes = bytes.min(own.bytes);
        own.bytes -= bytes;
        self.bytes -= bytes;
        if own.bytes == 0 {
            self.orgs.remove(&org);
        }
    }

    /// Who has to give something up, now that `org` has got more.
    fn over(&self, org: OrgId, bounds: RetentionBounds) -> Option<OrgId> {
        if self.orgs.get(&org).is_some_and(|own| own.bytes > bounds.org_bytes_max) {
            return Some(org);
        }
        let largest = || self.orgs.iter().max_by_key(|(_, held)| held.bytes).map(|(org, _)| *org);
        (self.bytes > bounds.box_bytes_max).then(largest).flatten()
    }
}

/// A file that a row says is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedFile {
    pub path: PathBuf,
    pub bytes: u64,
    /// The CRC-32 of an export, where its release noted one; a result carries its own.
    pub sum: Option<u32>,
    pub of: RetainedOf,
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainedOf {
    Result(OrgId, QueryId),
    Export(OrgId, BiExportId),
}

/// Notes that a file is gone: a result is then one whose rows were given up, and an export is none any more.
pub async fn give_up(system: &System, of: RetainedOf) -> Result<()> {
    match of {
        RetainedOf::Result(org, id) => forget_rows(system, org, id).await,
        RetainedOf::Export(org, id) => {
            let removed = system.org(org).write_freeing(move |tx| {
                tx.unaudited("an export whose file is lost goes by itself, as those do that are too old");
                tx.delete(&EXPORTS, &id)
            });
            removed.await.map(drop)
        }
    }
}

/// The result's row keeps standing, and says that its rows are not kept.
async fn forget_rows(system: &System, org: OrgId, id: QueryId) -> Result<()> {
    let gave_up = move |tx: &store::OrgWrite<'_>| {
        if let Some(mut query) = tx.get(&QUERIES, &id)?
            && let Some(result) = &mut query.result
        {
            result.kept = false;
            tx.put(&QUERIES, &id, &query)?;
        }
        tx.unaudited("rows that make room go by themselves, as those do that are too old");
        Ok(())
    };
    system.org(org).write(gave_up).await
}

/// Every file of a result or an export that its row says is there, in the folders of results and exports.
pub fn retained_files(tx: &SysRead<'_>, results: &Path, exports: &Path) -> Result<Vec<RetainedFile>> {
    let mut files = Vec::new();
    let mut after = None;
    loop {
        let step = tx.readable_all(&QUERIES, after.as_deref(), ROWS_PER_LOOK)?;
        let Some(next) = step.next else { break };
        after = Some(next);
        for (org, id, row) in &step.rows {
            if let Some(result) = row.result.filter(|result| result.kept && !row.dry && !tx.is_fenced(*org)) {
                let path = results.join(org.to_string()).join(format!("{id}.arrow"));
                let of = RetainedOf::Result(*org, *id);
                files.push(RetainedFile { path, bytes: result.bytes, sum: None, of });
            }
        }
    }
    let mut after = None;
    loop {
        let step = tx.readable_all(&EXPORTS, after.as_deref(), ROWS_PER_LOOK)?;
        let Some(next) = step.next else { break };
        after = Some(next);
        for (org, id, row) in step.rows.iter().filter(|(org, ..)| !tx.is_fenced(*org)) {
            if let Some(bytes) = row.bytes {
                let (path, of) = (export_rows::path(exports, *org, row), RetainedOf::Export(*org, *id));
                files.push(RetainedFile { path, bytes, sum: row.sum, of });
            }
        }
    }
    Ok(files)
}

/// Rows of one look into the store.
const ROWS_PER_LOOK: usize = 200;

impl ResultRetention {
    /// Counts what is there. Blocking: every file is looked at.
    pub fn open(
        system: System,
        workers: Arc<Workers>,
        exports_folder: PathBuf,
        bounds: RetentionBounds,
    ) -> io::Result<ResultRetention> {
        let (held, making) = Default::default();
        let kept = ResultRetention { system, workers, exports_folder, bounds, held, making };
        for root in [kept.workers.results_dir(), &kept.exports_folder] {
            for folder in fs::read_dir(root).into_iter().flatten() {
                let folder = folder?;
                let Ok(org) = folder.file_name().to_string_lossy().parse::<OrgId>() else { continue };
                let bytes = folder_bytes(&folder.path());
                kept.held.lock().add(org, bytes);
            }
        }
        Ok(kept)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.held.lock().bytes
    }

    /// A file was put there. Room has to be made afterwards.
    pub(super) fn add_file(&self, org: OrgId, path: &Path) {
        let bytes = fs::symlink_metadata(path).map_or(0, |metadata| file_bytes(&metadata));
        self.held.lock().add(org, bytes);
    }

    /// Removes a file, if it is there.
    pub(super) fn remove_file(&self, org: OrgId, path: &Path) -> io::Result<()> {
        let gone = fs::symlink_metadata(path).and_then(|metadata| {
            fs::remove_file(path)?;
            Ok(file_bytes(&metadata))
        });
        match gone {
            Ok(bytes) => {
                self.held.lock().subtract(org, bytes);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Counts anew what an organization has. Blocking.
    pub(super) fn recount(&self, org: OrgId) {
        let folders = [self.workers.results_dir(), &self.exports_folder];
        let bytes = folders.into_iter().map(|folder| folder_bytes(&folder.join(org.to_string()))).sum();
        let mut held = self.held.lock();
        held.subtract(org, u64::MAX);
        if bytes > 0 {
            held.add(org, bytes);
        }
    }

    /// Gives up what is beyond the bounds, now that `org` has got a file. What cannot be given up is said in the log.
    pub(super) async fn make_room(&self, org: OrgId) {
        if self.over(org).is_none() {
            return;
        }
        let _alone = self.making.lock().await;
        let mut counted = None;
        while let Some(from) = self.over(org) {
            match self.give_up_oldest(from).await {
                Ok(true) => {}
                Ok(false) if counted != Some(from) => {
                    self.recount(from);
                    counted = Some(from);
                }
                Ok(false) => {
                    tracing::warn!(org = %from, "its files are beyond the bound, and nothing is left to give up");
                    return;
                }
                Err(error) => {
                    tracing::error!(org = %from, %error, "no room could be made for results");
                    return;
                }
            }
        }
    }

    fn over(&self, org: OrgId) -> Option<OrgId> {
        self.held.lock().over(org, self.bounds)
    }

    /// Gives up the oldest result or export of an organization; false when there is none.
    async fn give_up_oldest(&self, org: OrgId) -> Result<bool> {
        let result = self.oldest_result(org)?;
        let export = export_rows::oldest(&self.system.org(org))?;
        let result_at = result.as_ref().and_then(|query| query.finished_at);
        let export_at = export.as_ref().and_then(|export| export.finished_at);
        match (result, export) {
            (Some(query), None) => self.give_up_result(org, query.id).await?,
            (Some(query), Some(_)) if result_at <= export_at => self.give_up_result(org, query.id).await?,
            (_, Some(export)) => {
                let path = export_rows::path(&self.exports_folder, org, &export);
                self.remove_file(org, &path).map_err(|e| Error::internal("give up an export", e))?;
                export_rows::expire(&self.system.org(org), export.id).await?;
            }
            (None, None) => return Ok(false),
        }
        Ok(true)
    }

    async fn give_up_result(&self, org: OrgId, id: QueryId) -> Result<()> {
        // The file first: a row whose file is missing answers like one that was given up.
        let path = self.workers.result_path(org.0, id.0);
        self.remove_file(org, &path).map_err(|e| Error::internal("give up a result", e))?;
        tracing::info!(%org, query = %id, "its rows were given up to make room for newer ones");
        forget_rows(&self.system, org, id).await
    }

    /// The oldest query that has rows. Ids grow with time, and those that were looked at before are not looked at again.
    fn oldest_result(&self, org: OrgId) -> Result<Option<QueryV2>> {
        let store = self.system.org(org);
        let mut seen = self.held.lock().orgs.get(&org).and_then(|own| own.bare_to);
        let mut after = None::<Vec<u8>>;
        loop {
            let step = store.read(|tx| {
                let from = after.take().or_else(|| seen.map(|id| tx.place(&id)));
                tx.readable(&QUERIES, from.as_deref(), CHUNK_ROWS)
            })?;
            after = step.more();
            let rows = step.rows;
            // One that runs may yet get rows, and a young one may yet be followed by the row of an older one: what comes
            // after it is looked at, but it will be again.
            let now = store.clock().look();
            let is_bare = |query: &QueryV2| {
                query.status.has_ended()
                    && now.age(query.created_at) > YOUNG
                    && query.result.is_none_or(|result| !result.kept)
            };
            let bare = rows.iter().take_while(|(_, query)| is_bare(query)).last().map(|(id, _)| *id);
            let all_before = self.held.lock().orgs.get(&org).and_then(|own| own.bare_to) == seen;
            if let Some(bare) = bare.filter(|_| all_before)
                && let Some(own) = self.held.lock().orgs.get_mut(&org)
            {
                own.bare_to = Some(bare);
            }
            seen = rows.last().map(|(id, _)| *id).or(seen);
            let kept = |query: &QueryV2| query.result.is_some_and(|result| result.kept);
            let oldest = rows.into_iter().find(|(_, query)| kept(query));
            if oldest.is_some() || after.is_none() {
                return Ok(oldest.map(|(_, query)| query));
            }
        }
    }
}

fn file_bytes(metadata: &fs::Metadata) -> u64 {
    metadata.blocks().saturating_mul(BLOCK_BYTES)
}

/// What the files in a folder take. What goes meanwhile takes nothing.
fn folder_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|metadata| file_bytes(&metadata)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_over_gives_up() {
        let bounds = RetentionBounds { org_bytes_max: 100, box_bytes_max: 150 };
        let (small, large) = (OrgId::new(), OrgId::new());
        let mut held = RetainedBytes::default();
        held.add(large, 100);
        assert_eq!(held.over(large, bounds), None);
        held.add(small, 51);
        // The box's bound, whoever came to it last, concerns the one that keeps most.
        assert_eq!((held.over(small, bounds), held.over(large, bounds)), (Some(large), Some(large)));
        held.subtract(large, 1);
        assert_eq!(held.over(small, bounds), None);
        held.add(small, 60);
        assert_eq!(held.over(small, bounds), Some(small));
        held.subtract(small, u64::MAX);
        held.subtract(small, 5);
        assert_eq!((held.bytes, held.orgs.len()), (99, 1));
    }
}
