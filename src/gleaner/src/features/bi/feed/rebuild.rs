//! Snapshots made anew from the rows themselves.
//!
//! An organization's rows are read page by page, each page in a transaction of its own, and put into a fresh snapshot
//! that stands at position 0 until the last page is in it; then it gets the position at which the rebuild began. Rows
//! that changed meanwhile have change records after that position, so following from there makes the snapshot whole.
//! A rebuild that a crash cut short is found by its position 0 and begun anew.

use super::SnapshotFeed;
use base::ids::OrgId;
use base::{Error, Result};
use sql::{Changes, SnapshotError, TableChange};
use std::collections::BTreeSet;
use std::fs;
use std::io;

/// Stored rows of one page.
const PAGE_ROWS: usize = 1_000;

impl SnapshotFeed {
    /// Rebuilds every organization, as of `newest`.
    pub(super) fn rebuild_all(&self, newest: u64) -> Result<()> {
        self.doubt_all();
        let organizations = self.organizations()?;
        tracing::info!(organizations = organizations.len(), "the SQL tables are made anew from the store");
        for folder in self.folders()? {
            if !organizations.contains(&folder) {
                self.reset(folder)?;
            }
        }
        organizations.into_iter().try_for_each(|org| self.rebuild(org, newest))
    }

    /// Rebuilds the organizations whose snapshot is missing, damaged, or of a store that is not this one.
    pub(super) fn rebuild_missing(&self, newest: u64) -> Result<()> {
        for org in self.organizations()? {
            match self.snapshots.position(org.0) {
                Ok(position) if (1..=newest).contains(&position) => {}
                found => {
                    self.doubt_all();
                    tracing::warn!(%org, ?found, "an organization's SQL tables are made anew from the store");
                    self.rebuild(org, newest)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the tables of an organization that a backup brings back, before its fence goes. Blocking.
    pub(crate) fn recall_org(&self, org: OrgId) -> Result<()> {
        let _feeding = self.feeding.lock();
        if !self.progress.lock().begun {
            return Err(Error::unavailable(
                "the SQL tables of the box are not ready yet; try again in a moment",
            ));
        }
        self.rebuild(org, self.applied())
    }

    pub(super) fn rebuild(&self, org: OrgId, newest: u64) -> Result<()> {
        let committed_at_ms = self.system.clock().now().millis();
        self.reset(org)?;
        let sources: BTreeSet<&'static str> = self.views.iter().map(|view| view.source).collect();
        for source in sources {
            let mut after: Option<Vec<u8>> = None;
            loop {
                let (rows, last) = self.page(org, source, after.as_deref())?;
                // Behind a fence nothing is written; a description that is too old is with the next change.
                if !self.system.read(|tx| Ok(tx.is_fenced(org)))? {
                    self.keep_tables(org, &rows)?;
                }
                if !rows.is_empty() {
                    self.snapshots.fill(org.0, rows).map_err(failed)?;
                }
                if last.is_none() {
                    break;
                }
                after = last;
            }
        }
        let done = Changes { position: newest, committed_at_ms, changes: Vec::new() };
        self.snapshots.apply(org.0, done).map_err(failed)?;
        Ok(())
    }

    /// The console rows of one page of a table, and the key after which to go on.
    fn page(
        &self,
        org: OrgId,
        source: &'static str,
        after: Option<&[u8]>,
    ) -> Result<(Vec<TableChange>, Option<Vec<u8>>)> {
        self.system.read(|tx| {
            // Whoever may not come back is not rebuilt; one that a backup brings back is still behind its fence.
            let tx = &tx.behind_fence(org);
            let keys = tx.keys(source, after, PAGE_ROWS)?;
            let mut rows = Vec::new();
            for key in &keys {
                self.reader().rows_of(tx, source, key, &mut rows);
            }
            let more = keys.len() == PAGE_ROWS;
            Ok((rows, keys.into_iter().next_back().filter(|_| more)))
        })
    }

    /// Every organization that has a row in any followed table.
    fn organizations(&self) -> Result<BTreeSet<OrgId>> {
        let sources: BTreeSet<&'static str> = self.views.iter().map(|view| view.source).collect();
        self.system.read(|tx| {
            let mut found = BTreeSet::new();
            for source in &sources {
                let mut after = None;
                while let Some(org) = tx.next_org(source, after)? {
                    // One that is being erased must not come back.
                    if !tx.is_fenced(org) {
                        found.insert(org);
                    }
                    after = Some(org);
                }
            }
            Ok(found)
        })
    }

    /// The organizations that have a folder.
    pub(super) fn folders(&self) -> Result<Vec<OrgId>> {
        let list = || -> io::Result<Vec<OrgId>> {
            let mut found = Vec::new();
            for entry in fs::read_dir(self.snapshots.root())? {
                found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<OrgId>().ok()));
            }
            Ok(found)
        };
        list().map_err(|e| Error::internal("list the snapshots", e))
    }

    /// Leaves the organization with an empty snapshot.
    pub(super) fn reset(&self, org: OrgId) -> Result<()> {
        if self.snapshots.remove(org.0).is_ok() {
            return Ok(());
        }
        // It cannot even be loaded: take the files away and let it begin empty.
        match fs::remove_dir_all(self.snapshots.root().join(org.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::internal("remove a damaged snapshot", error))
            }
            _ => Ok(()),
        }
    }
}

fn failed(error: SnapshotError) -> Error {
    Error::internal("rebuild a snapshot", error)
}
