//! When each key was last used, without a write per request: kept in memory, written at most once a minute and once
//! more when the box drains. A crash forgets a minute.

use super::rows::API_KEYS;
use base::Result;
use base::clock::Timestamp;
use base::ids::{ApiKeyId, OrgId};
use parking_lot::Mutex;
use server::task::TaskContext;
use std::collections::HashMap;
use store::System;

/// Rows of one flush's commit.
const FLUSH_ROWS_MAX: usize = 256;

type Use = ((OrgId, ApiKeyId), Timestamp);

/// The uses that are not written yet. Only keys that exist get in, so it is as small as their number.
#[derive(Default)]
pub struct KeyUsage {
    recent: Mutex<HashMap<(OrgId, ApiKeyId), Timestamp>>,
}

impl KeyUsage {
    /// The key was used at `at`.
    pub fn note(&self, org: OrgId, key: ApiKeyId, at: Timestamp) {
        self.recent.lock().insert((org, key), at);
    }

    /// The last use that is not written yet.
    pub fn last(&self, org: OrgId, key: ApiKeyId) -> Option<Timestamp> {
        self.recent.lock().get(&(org, key)).copied()
    }

    /// Forgets an organization that is being erased; how many keys that were.
    pub fn forget(&self, org: OrgId) -> u64 {
        let mut recent = self.recent.lock();
        let before = recent.len();
        recent.retain(|(owner, _), _| *owner != org);
        (before - recent.len()) as u64
    }

    /// Writes what was noted. What is noted meanwhile, or could not be written, is kept for the next time.
    pub async fn flush(&self, system: &System) -> Result<()> {
        let noted: Vec<Use> = self.recent.lock().iter().map(|(&key, &at)| (key, at)).collect();
        for chunk in noted.chunks(FLUSH_ROWS_MAX) {
            let written = system.write_each("an API key", chunk.to_vec(), |tx, ((org, id), at)| {
                let rows = tx.org(*org);
                // A key that was deleted meanwhile stays deleted.
                if let Some(mut row) = rows.get(&API_KEYS, id)?
                    && row.last_used_at < Some(*at)
                {
                    row.last_used_at = Some(*at);
                    rows.put(&API_KEYS, id, &row)?;
                }
                Ok(())
            });
            written.await?;
            let mut recent = self.recent.lock();
            for (key, at) in chunk {
                if recent.get(key) == Some(at) {
                    recent.remove(key);
                }
            }
        }
        Ok(())
    }
}

/// The task that flushes.
pub async fn flush(context: TaskContext) -> Result<()> {
    context.service::<KeyUsage>().flush(context.system()).await
}
