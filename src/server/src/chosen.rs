//! Changing or deleting many things with one request: by their ids, or by a filter for as long as a request may go on.

use base::limits::PAGE_ROWS_MAX;
use base::page::{Page, PageRequest};
use base::{Error, Result};
use std::time::{Duration, Instant};

/// How long one request goes on by a filter before it hands out a cursor. A choice.
const GO_ON_MAX: Duration = Duration::from_secs(2);

/// What is meant.
#[derive(Debug)]
pub enum Chosen<I, F> {
    Ids(Vec<I>),
    Filter(F),
}

impl<I: Ord, F> Chosen<I, F> {
    /// From a request that names one of the two: 1 to `ids_max` ids, which come back sorted and once each, or a filter that
    /// `is_empty` does not find to be none.
    pub fn of(
        ids: Option<Vec<I>>,
        filter: Option<F>,
        ids_max: usize,
        is_empty: impl FnOnce(&F) -> bool,
    ) -> Result<Chosen<I, F>> {
        match (ids, filter) {
            (Some(ids), None) if !(1..=ids_max).contains(&ids.len()) => {
                let reason = format!("must have 1 to {ids_max} entries, not {}", ids.len());
                Err(Error::invalid("ids", reason))
            }
            (Some(mut ids), None) => {
                ids.sort_unstable();
                ids.dedup();
                Ok(Chosen::Ids(ids))
            }
            (None, Some(filter)) if is_empty(&filter) => {
                Err(Error::invalid("filter", "must have at least one member"))
            }
            (None, Some(filter)) => Ok(Chosen::Filter(filter)),
            (Some(_), Some(_)) => Err(Error::invalid("filter", "give either ids or filter, not both")),
            (None, None) => Err(Error::invalid("ids", "is missing; give ids or filter")),
        }
    }
}

/// Gives what `find` finds to `does`, page by page, which says how many it was done for. Gives how many that were, and a cursor
/// when the time was over before all of them were through.
pub async fn page_by_page<T, Fut: Future<Output = Result<u64>>>(
    cursor: Option<String>,
    find: impl Fn(&PageRequest) -> Result<Page<T>>,
    does: impl Fn(Vec<T>) -> Fut,
) -> Result<(u64, Option<String>)> {
    let begun = Instant::now();
    let mut page = PageRequest { limit: PAGE_ROWS_MAX, cursor };
    let mut done = 0;
    loop {
        let found = find(&page)?;
        if !found.items.is_empty() {
            done += does(found.items).await?;
        }
        match found.next_cursor {
            None => return Ok((done, None)),
            next if begun.elapsed() >= GO_ON_MAX => return Ok((done, next)),
            next => page.cursor = next,
        }
    }
}
