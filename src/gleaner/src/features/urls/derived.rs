//! What is kept beside the rows of URLs and follows from them: the index of their texts ([`trigrams`]) and the counts of
//! their tags ([`tags`]). Both change in the operation that changes the rows.
//!
//! A data folder of an older release has neither. They are made when such a folder is opened, before anything is answered;
//! which organizations have them stands in a row of each.

use super::rows::{URLS, UrlV1};
use super::{tags, trigrams};
use base::Result;
use base::codec::Record;
use base::ids::{OrgId, UrlId};
use serde::{Deserialize, Serialize};
use server::task::TaskContext;
use std::collections::BTreeMap;
use store::{Key, OrgRead, OrgTable, OrgWrite, SysRead, SysWrite, System, readable};

/// URLs of one operation while the rows of an older release are gone through.
const BUILT_PER_WRITE: usize = 500;

/// How far an organization's URLs are in what is derived of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivedV1 {
    /// All, and from then on each with its change.
    is_whole: bool,
    /// Else: those up to here.
    until: Option<UrlId>,
}

impl Record for DerivedV1 {}

pub static DERIVED: OrgTable<(), DerivedV1> = OrgTable::new("url_derived", "State of URLs").uncounted();

/// What an operation changes of URLs.
#[derive(Debug, Default)]
pub(super) struct DerivedChanges {
    /// In the order of their ids.
    added: Vec<(UrlId, String)>,
    removed: Vec<UrlId>,
    tags: BTreeMap<String, i64>,
}

impl DerivedChanges {
    /// A row that was changed, made or removed.
    pub(super) fn note(&mut self, before: Option<&UrlV1>, after: Option<&UrlV1>) {
        match (before, after) {
            (None, Some(row)) => self.added.push((row.id, row.url.clone())),
            (Some(row), None) => self.removed.push(row.id),
            _ => {}
        }
        for (row, by) in [(before, -1), (after, 1)] {
            for tag in row.into_iter().flat_map(|row| &row.tags) {
                *self.tags.entry(tag.clone()).or_default() += by;
            }
        }
    }

    pub(super) fn write(self, tx: &OrgWrite<'_>) -> Result<()> {
        if !self.added.is_empty() {
            // One that cannot be read was written all the same.
            if readable("the state of URLs", tx.org_id(), tx.get(&DERIVED, &()))?
                .is_some_and(|row| row.is_none())
            {
                tx.put(&DERIVED, &(), &DerivedV1 { is_whole: true, until: None })?;
            }
            trigrams::add(tx, &self.added)?;
        }
        for id in self.removed {
            trigrams::remove(tx, id)?;
        }
        for (tag, by) in self.tags.into_iter().filter(|(_, by)| *by != 0) {
            tags::count(tx, &tag, by)?;
        }
        Ok(())
    }
}

/// Makes what is derived for organizations whose URLs an older release has registered.
pub(super) async fn build_missing(system: &System) -> Result<()> {
    let mut after = None;
    while let Some(org) = system.read(|tx| tx.next_org(URLS.name(), after))? {
        after = Some(org);
        let is_due = |tx: &OrgRead<'_>| {
            let state = readable("the state of URLs", org, tx.get(&DERIVED, &()))?;
            Ok(state.is_some_and(|row| row.is_none_or(|row| !row.is_whole)))
        };
        if system.read(|tx| if tx.is_fenced(org) { Ok(false) } else { is_due(&tx.org(org)) })? {
            tracing::info!(%org, "indexing the URLs of an organization, once");
            while !system.write(move |tx| build_some(tx, org)).await? {}
        }
    }
    Ok(())
}

/// Goes through some more of an organization's URLs; whether that was the end.
fn build_some(tx: &SysWrite<'_>, org: OrgId) -> Result<bool> {
    let own = tx.org(org);
    if own.is_behind_fence() {
        return Ok(true);
    }
    let until = own.get(&DERIVED, &())?.and_then(|row| row.until);
    let place = until.map(|until| own.place(&until));
    let step = own.readable(&URLS, place.as_deref(), BUILT_PER_WRITE)?;
    let mut changes = DerivedChanges::default();
    for (_, row) in &step.rows {
        changes.note(None, Some(row));
    }
    let more = step.more();
    let until =
        more.as_deref().and_then(|place| place.get(place.len().checked_sub(16)?..)).and_then(UrlId::decode);
    own.put(&DERIVED, &(), &DerivedV1 { is_whole: more.is_none(), until })?;
    changes.write(&own)?;
    Ok(more.is_none())
}

/// Clears up after URLs that were removed, organization by organization.
pub(super) async fn sweep(context: TaskContext) -> Result<()> {
    let mut after = None;
    while let Some(org) = context.system().read(|tx| tx.next_org(trigrams::TRIGRAMS.name(), after))? {
        after = Some(org);
        let mut chunk = None;
        loop {
            let dead = |tx: &SysRead<'_>| trigrams::dead_chunk(&tx.org(org), chunk);
            let Some(dead) = context.system().read(dead)? else { break };
            let step = move |tx: &SysWrite<'_>| trigrams::drop_chunk(&tx.org(org), dead);
            while !context.stopping() && !context.system().write(step).await? {}
            if context.stopping() {
                return Ok(());
            }
            chunk = Some(dead);
        }
    }
    Ok(())
}
