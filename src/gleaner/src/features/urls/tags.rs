//! Which tags there are, and how many URLs have each. The counts are kept with the URLs: whoever changes a URL's tags changes
//! them in the same operation ([`DerivedChanges`](super::derived::DerivedChanges)).

use super::rows::BY_TAG;
use base::Result;
use base::codec::Record;
use base::page::{Page, PageRequest, encode_cursor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::UrlsRead;
use server::{Body, Org, Query};
use store::{Key, Order, OrgRead, OrgTable, OrgWrite, readable};

/// How many URLs have a tag; the key is the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagCountV1 {
    pub(super) urls: u64,
}

impl Record for TagCountV1 {}

pub static TAG_COUNTS: OrgTable<String, TagCountV1> = OrgTable::new("url_tag_counts", "Tag").uncounted();

/// How many URLs have a tag.
pub(super) fn urls_with(tx: &OrgRead<'_>, tag: &String) -> Result<u64> {
    Ok(tx.get(&TAG_COUNTS, tag)?.map_or(0, |row| row.urls))
}

/// Changes how many URLs have a tag.
pub(super) fn count(tx: &OrgWrite<'_>, tag: &String, by: i64) -> Result<()> {
    let urls = match readable("the count of a tag", tag, urls_with(tx, tag))? {
        Some(urls) => urls.saturating_add_signed(by),
        // What a disk has altered is counted anew; the index has this operation's rows already.
        None => tx.count_index(&BY_TAG, tag, usize::MAX)? as u64,
    };
    if urls == 0 {
        return tx.delete(&TAG_COUNTS, tag).map(|_| ());
    }
    tx.put_over(&TAG_COUNTS, tag, &TagCountV1 { urls })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct TagFilter {
    /// What the tag begins with, in the same case.
    prefix: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "UrlTag")]
pub(super) struct TagView {
    tag: String,
    /// URLs that have it.
    count: u64,
}

pub(super) async fn list(
    org: Org<UrlsRead>,
    Query(filter): Query<TagFilter>,
    page: PageRequest,
) -> Result<Body<Page<TagView>>> {
    let prefix = filter.prefix.unwrap_or_default();
    Ok(Body(org.read(|tx| tags(tx, &prefix, &page))?))
}

fn tags(tx: &OrgRead<'_>, prefix: &String, page: &PageRequest) -> Result<Page<TagView>> {
    let list = TAG_COUNTS.name();
    let view = |(tag, row): (String, TagCountV1)| TagView { tag, count: row.urls };
    let mut items = Vec::new();
    let after = match page.position(list)? {
        Some(position) => String::decode(&position).unwrap_or_default(),
        None => {
            let own = if prefix.is_empty() { None } else { tx.get(&TAG_COUNTS, prefix)? };
            items.extend(own.map(|row| view((prefix.clone(), row))));
            prefix.clone()
        }
    };
    // No key is smaller than one of no characters, and none has that.
    let found = tx.scan(&TAG_COUNTS, Some(&after), Order::Ascending, page.limit + 1)?;
    items.extend(found.into_iter().take_while(|(tag, _)| tag.starts_with(prefix.as_str())).map(view));
    let has_more = items.len() > page.limit;
    items.truncate(page.limit);
    let last = items.last().filter(|_| has_more);
    let next_cursor = last.map(|last| encode_cursor(list, last.tag.as_bytes()));
    Ok(Page { items, next_cursor })
}
