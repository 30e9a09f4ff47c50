//! Pages of a table or of an index, newest first unless said otherwise, with a cursor that goes on behind the last row that was looked at.
//!
//! A filter may pass over many rows; a page looks at [`PAGE_SCAN_ROWS_MAX`] of them at most and then ends early, with fewer
//! rows than were asked for and a cursor. So it does when its rows come to [`LIST_BYTES_MAX`], or those that it looked at
//! to [`LIST_SCAN_BYTES_MAX`]: a row may take a megabyte.

use super::index_key::{IndexKey, Prefix};
use super::key::Key;
use super::scope::Scope;
use super::table::{Index, Table};
use super::tx::{Order, ReadTx, decoded};
use base::codec::Record;
use base::limits::{LIST_BYTES_MAX, LIST_SCAN_BYTES_MAX, PAGE_SCAN_ROWS_MAX};
use base::page::{Page, PageRequest, encode_cursor};
use base::{Error, Result};

impl<S: Scope> ReadTx<'_, S> {
    /// One page of the table, newest first, of the rows that `keep` accepts.
    pub fn page<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        request: &PageRequest,
        keep: impl FnMut(&V) -> bool,
    ) -> Result<Page<V>> {
        let newest = Order::Descending;
        self.page_of(table.name, self.scope.prefix(), newest, request, keep, |_, value| {
            Ok(Some((decoded(value)?, value.len())))
        })
    }

    /// The same, first key first.
    pub fn page_oldest<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        request: &PageRequest,
        keep: impl FnMut(&V) -> bool,
    ) -> Result<Page<V>> {
        let oldest = Order::Ascending;
        self.page_of(table.name, self.scope.prefix(), oldest, request, keep, |_, value| {
            Ok(Some((decoded(value)?, value.len())))
        })
    }

    /// One page of the rows under an index prefix, last key first, of the rows that `keep` accepts.
    pub fn page_by<K: Key, V: Record, I: IndexKey>(
        &self,
        table: &Table<S, K, V>,
        index: &Index<I, V>,
        prefix: impl Prefix<I>,
        request: &PageRequest,
        keep: impl FnMut(&V) -> bool,
    ) -> Result<Page<V>> {
        let (prefix, newest) = (self.index_prefix(index, &prefix), Order::Descending);
        self.page_of(index.name(), prefix, newest, request, keep, |_, key| self.by_primary_sized(table, key))
    }

    /// The same, first key first.
    pub fn page_by_oldest<K: Key, V: Record, I: IndexKey>(
        &self,
        table: &Table<S, K, V>,
        index: &Index<I, V>,
        prefix: impl Prefix<I>,
        request: &PageRequest,
        keep: impl FnMut(&V) -> bool,
    ) -> Result<Page<V>> {
        let (prefix, oldest) = (self.index_prefix(index, &prefix), Order::Ascending);
        self.page_of(index.name(), prefix, oldest, request, keep, |_, key| self.by_primary_sized(table, key))
    }

    fn page_of<V>(
        &self,
        list: &'static str,
        prefix: Vec<u8>,
        order: Order,
        request: &PageRequest,
        mut keep: impl FnMut(&V) -> bool,
        row: impl Fn(&[u8], &[u8]) -> Result<Option<(V, usize)>>,
    ) -> Result<Page<V>> {
        let scope = self.scope.prefix();
        let mut after = request.position(list)?.map(|tail| [scope.as_slice(), &tail].concat());
        if after.as_ref().is_some_and(|after| !after.starts_with(&prefix)) {
            return Err(Error::invalid("cursor", "belongs to a list with another filter"));
        }
        let (mut items, mut seen) = (Vec::new(), 0);
        let (mut bytes, mut seen_bytes) = (0, 0);
        let cursor = |key: &[u8]| Some(encode_cursor(list, &key[scope.len()..]));
        loop {
            let chunk = (request.limit - items.len() + 1).max(64);
            let max = (chunk, LIST_BYTES_MAX);
            let entries = self.scan_raw_within(list, &prefix, after.as_deref(), order, max)?;
            let read: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
            let ended = entries.len() < chunk && read < LIST_BYTES_MAX;
            for (key, value) in entries {
                if items.len() == request.limit
                    || bytes >= LIST_BYTES_MAX
                    || seen_bytes >= LIST_SCAN_BYTES_MAX
                {
                    // There is at least one entry more: the page ends after the last one that was looked at.
                    return Ok(Page { items, next_cursor: after.as_deref().and_then(cursor) });
                }
                seen += 1;
                if let Some((item, size)) = row(&key, &value)? {
                    seen_bytes += size;
                    if keep(&item) {
                        bytes += size;
                        items.push(item);
                    }
                }
                after = Some(key);
            }
            if ended {
                return Ok(Page { items, next_cursor: None });
            }
            if seen >= PAGE_SCAN_ROWS_MAX {
                return Ok(Page { items, next_cursor: after.as_deref().and_then(cursor) });
            }
        }
    }
}
