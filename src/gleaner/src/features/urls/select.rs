//! Which URLs a schedule means.

use super::rows::{BY_TAG, URLS};
use base::Result;
use base::ids::UrlId;
use std::collections::VecDeque;
use store::{Key, OrgRead};

/// Rows that are looked at in one step.
const STEP_ROWS: usize = 256;

/// Up to `max` URLs with any of these tags, each once, the oldest first, and whether there are more; every URL where no tag is given. A damaged
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
    let mut walks: Vec<_> = tags.iter().map(|tag| Walk::of(tag)).collect();
    while found.len() <= max {
        // The oldest of those that come next, whichever of the tags it has.
        let mut next = None::<UrlId>;
        for walk in &mut walks {
            let id = walk.peek(tx)?;
            next = next.into_iter().chain(id).min();
        }
        let Some(next) = next else { break };
        walks.iter_mut().for_each(|walk| walk.pass(next));
        found.push(next);
    }
    Ok(within(found, max))
}

/// The URLs of one tag, oldest first.
struct Walk<'t> {
    tag: &'t str,
    ahead: VecDeque<UrlId>,
    /// Where looking goes on; none at the end.
    after: Option<Option<Vec<u8>>>,
}

impl<'t> Walk<'t> {
    fn of(tag: &'t str) -> Walk<'t> {
        Walk { tag, ahead: VecDeque::new(), after: Some(None) }
    }

    fn peek(&mut self, tx: &OrgRead<'_>) -> Result<Option<UrlId>> {
        while self.ahead.is_empty()
            && let Some(after) = self.after.take()
        {
            let step = tx.readable_by(&URLS, &BY_TAG, self.tag, None, after.as_deref(), STEP_ROWS)?;
            self.after = step.more().map(Some);
            self.ahead.extend(step.rows.into_iter().map(|(id, _)| id));
        }
        Ok(self.ahead.front().copied())
    }

    fn pass(&mut self, id: UrlId) {
        self.ahead.pop_front_if(|front| *front == id);
    }
}

fn within(mut found: Vec<UrlId>, max: usize) -> (Vec<UrlId>, bool) {
    let more = found.len() > max;
    found.truncate(max);
    (found, more)
}
