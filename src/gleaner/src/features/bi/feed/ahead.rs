//! Looking ahead at what a start does with the snapshots, for `gleaner upgrade check`.

use super::batch::Reader;
use super::{position, shape_of};
use crate::console::View;
use crate::features::ALL;
use crate::features::bi::tables::Tables;
use base::ids::OrgId;
use base::{Error, Result};
use sql::Snapshots;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Instant;
use store::SysRead;
use uuid::Uuid;

/// Rows of one look.
const ROWS_PER_LOOK: usize = 200;

fn views() -> Vec<&'static View> {
    ALL.iter().flat_map(|feature| feature.views).collect()
}

/// The tables whose rows are shown.
pub fn sources() -> BTreeSet<&'static str> {
    views().iter().map(|view| view.source).collect()
}

/// Whether the snapshots in `root` are those of this release and of this store, as they stood at a change record between these.
pub fn fits(root: &Path, store: Uuid, (oldest, newest): (u64, u64)) -> Result<bool> {
    let views = views();
    let shared: Vec<_> = ALL.iter().flat_map(|feature| feature.shared_views).collect();
    let shape = shape_of(&Tables::new(&views, &shared), &views, store);
    let stored = position::load(root).map_err(|e| Error::internal("read the feed's position", e))?;
    Ok(stored.is_some_and(|stored| {
        stored.shape == shape && stored.position <= newest && stored.position + 1 >= oldest
    }))
}

/// Makes the tables of up to `rows_max` stored rows in the folder `scratch`, and gives of how many. Blocks, until then at most.
pub fn try_rebuild(tx: &SysRead<'_>, scratch: &Path, rows_max: u64, until: Instant) -> Result<u64> {
    let failed = |e| Error::internal("try to make SQL tables", e);
    let snapshots = Snapshots::open(scratch.to_owned()).map_err(failed)?;
    let (views, quarantined) = (views(), AtomicU64::new(0));
    let reader = Reader { views: &views, quarantined: &quarantined };
    let mut tried = 0;
    for source in sources() {
        let mut org = None::<OrgId>;
        while let Some(next) = tx.next_org(source, org)? {
            org = Some(next);
            let (own, mut after) = (tx.org(next), None::<Vec<u8>>);
            loop {
                if tried >= rows_max || Instant::now() >= until {
                    return Ok(tried);
                }
                let keys = own.keys(source, after.as_deref(), ROWS_PER_LOOK)?;
                let Some(last) = keys.last() else { break };
                after = Some(last.clone());
                let mut rows = Vec::new();
                for key in &keys {
                    reader.rows_of(&own, source, key, &mut rows);
                }
                tried += keys.len() as u64;
                snapshots.fill(next.0, rows).map_err(failed)?;
            }
        }
    }
    Ok(tried)
}
