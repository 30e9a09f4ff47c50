//! Which URLs a schedule means.

use super::rows::{BY_TAG, URLS};
use base::Result;
use base::ids::UrlId;
use store::{Key, OrgRead};

/// Rows that are looked at in one step.
const STEP_ROWS: usize = 256;

/// Up to `max` URLs with any of these tags, each once, and whether there are more; every URL where no tag is given. A damaged
/// row is passed over.
pub fn select(tx: &OrgRead<'_>, tags: &[String], max: usize) -> Result<(Vec<UrlId>, bool)> {
    let mut found = Vec::new();
    if tags.is_empty() {
        let mut after = None::<Vec<u8>>;
        loop {
            let keys = tx.keys(URLS.name(), after.as_deref(), STEP_ROWS)?;
            let is_end = keys.len() < STEP_ROWS;
            found.extend(keys.iter().filter_map(|key| UrlId::decode(key)));
            if is_end || found.len() > max {
                return Ok(within(found, max));
            }
            after = keys.into_iter().next_back();
        }
    }
    for (at, tag) in tags.iter().enumerate() {
        let mut after = None::<Vec<u8>>;
        loop {
            let step = tx.readable_by(&URLS, &BY_TAG, tag, None, after.as_deref(), STEP_ROWS)?;
            after = step.more();
            // One with an earlier tag of the list was found by that.
            let is_new = |of_url: &[String]| !tags[..at].iter().any(|earlier| of_url.contains(earlier));
            found.extend(step.rows.into_iter().filter(|(_, row)| is_new(&row.tags)).map(|(id, _)| id));
            if found.len() > max {
                return Ok(within(found, max));
            }
            if after.is_none() {
                break;
            }
        }
    }
    Ok(within(found, max))
}

fn within(mut found: Vec<UrlId>, max: usize) -> (Vec<UrlId>, bool) {
    let more = found.len() > max;
    found.truncate(max);
    (found, more)
}
