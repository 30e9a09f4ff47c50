//! Tables that are the same for every organization.
//!
//! Their rows are the platform's and have no change records, so they do not come the way of an organization's rows: a table
//! says its version, which grows with every change of its rows, and all of them are read again when that has grown. The
//! sum of the versions is the position of the snapshot that all statements read beside their organization's own.

use super::SnapshotFeed;
use crate::console::SharedView;
use base::ids::OrgId;
use base::{Error, Result};
use sql::{Changes, SHARED, TableChange};
use std::sync::Arc;
use store::SysRead;

impl SnapshotFeed {
    /// Brings the shared tables up to date; whether they were not. Blocking.
    pub(in crate::features::bi) fn refresh_shared(&self) -> Result<bool> {
        let _feeding = self.sharing.lock();
        let version =
            |tx: &SysRead<'_>| self.shared.iter().map(|view| (view.version)(tx)).sum::<Result<u64>>();
        let wanted = self.system.read(version)?;
        match self.snapshots.position(SHARED) {
            Ok(position) if position == wanted => return Ok(false),
            Ok(position) if position < wanted => {}
            // Of another life of the store, or damaged.
            _ => self.reset(OrgId(SHARED))?,
        }
        let (position, changes) = self.system.read(|tx| {
            let mut changes = Vec::new();
            for view in &self.shared {
                rows_of(view, tx, &mut changes)?;
            }
            Ok((version(tx)?, changes))
        })?;
        let committed_at_ms = self.system.clock().now().millis();
        let changes = Changes { position, committed_at_ms, changes };
        if let Err(error) = self.snapshots.apply(SHARED, changes) {
            if error.is_damage() {
                self.reset(OrgId(SHARED))?;
            }
            return Err(Error::internal("apply changes to the shared tables", error));
        }
        Ok(true)
    }

    /// Looks at all files of the shared tables; makes them anew where one is damaged. Whether one was.
    pub(super) fn heal_shared(&self) -> Result<bool> {
        let Err(error) = self.snapshots.verify(SHARED) else { return Ok(false) };
        tracing::error!(%error, "the shared SQL tables are damaged, and made anew from the store");
        self.reset(OrgId(SHARED))?;
        self.refresh_shared()
    }
}

fn rows_of(view: &SharedView, tx: &SysRead<'_>, changes: &mut Vec<TableChange>) -> Result<()> {
    let table = Arc::new((view.table)());
    for (key, row) in (view.rows)(tx)? {
        changes.push(TableChange { table: Arc::clone(&table), key, rows: vec![row] });
    }
    Ok(())
}
