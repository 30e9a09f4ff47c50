//! Looking why attributes are not found, mending what is broken, and reading again what a mend concerns.
//!
//! One domain of each organization in a turn, one look of the whole box at a time. What is due stays due until what came of it is
//! stored, so a crash costs a look and never one; a look that ends the process each time is given up.

use super::lesson::{Found, Mended, StoredPage, StoredVisit, look};
use super::outcome::{Change, Looked, write_outcome};
use super::rows::{DRIFT, DUE, DriftState, DriftV1, REREADING};
use super::sample::{Sample, Wanted, choose};
use crate::features::extraction::{
    Adoption, ProposedSchema, ReadBy, ReadingTurns, ResultV4, SchemaPair, SchemaRefV1, Site, adopt_repair,
    has_page, mend_own, place_of_result, read_again_named, read_by, read_stored, results_of_site,
};
use base::clock::Moment;
use base::ids::{OrgId, ResultId};
use base::page::PageRequest;
use base::{Error, Result};
use blob::BlobStore;
use page::extract::Attribute;
use server::task::TaskContext;
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Index, OrgStore, Seek, System, readable};

/// How often a look is begun that does not come to an end.
const RUNS_MAX: u32 = 3;
/// How long a site rests at which a look has failed: its pages lie in a storage that is away, say.
const FAILED_LOOK_REST: Duration = Duration::from_secs(300);
/// URLs with known values that a look needs: others read their pages by a platform schema.
const SHARED_VISITS_MIN: usize = 3;
const OWN_VISITS_MIN: usize = 2;
/// Entries of an index that are read at once.
const ENTRIES_MAX: usize = 16;
/// Results of one step of reading again, and of all of one mend.
const STEP_ROWS: usize = 20;
const REREAD_MAX: u32 = 2_000;

/// One look of each organization that is to have one.
pub(super) async fn repair_due(context: TaskContext) -> Result<()> {
    let mut at = Seek::start();
    while let Some((org, pair)) = next(context.system(), &DUE, &at, |row, now| !row.is_put_off(now))? {
        at = Seek::behind_org(&1_u8, org);
        if context.stopping() {
            return Ok(());
        }
        // What fails in one organization keeps no other from its turn.
        if let Err(error) = repair_one(&context, org, &pair).await {
            tracing::warn!(%org, domain = pair.domain, %error, "a site that has changed could not be looked at");
        }
    }
    Ok(())
}

/// One step of reading again for each organization that has any.
pub(super) async fn reread_due(context: TaskContext) -> Result<()> {
    let mut at = Seek::start();
    while let Some((org, pair)) = next(context.system(), &REREADING, &at, |_, _| true)? {
        at = Seek::behind_org(&1_u8, org);
        if context.stopping() {
            return Ok(());
        }
        if let Err(error) = reread_step(&context, org, &pair).await {
            tracing::warn!(%org, domain = pair.domain, %error, "results could not be read again");
        }
    }
    Ok(())
}

/// The next organization that has something in an index whose turn it is, and the first thing that it has; one that is being
/// erased has nothing.
fn next(
    system: &System,
    index: &'static Index<u8, DriftV1>,
    from: &Seek<u8>,
    is_ready: fn(&DriftV1, Moment) -> bool,
) -> Result<Option<(OrgId, SchemaPair)>> {
    system.read(|tx| {
        let mut at = from.clone();
        loop {
            let step = tx.scan_global(&DRIFT, index, &at, None, ENTRIES_MAX)?;
            for entry in step.entries {
                // A damaged row keeps nobody's others, nor those of its own organization, from their turn.
                let row = tx.org(entry.org).get(&DRIFT, &entry.key);
                let row = readable("how pages are read", &entry.key.domain, row)?.flatten();
                if !tx.is_fenced(entry.org) && row.is_some_and(|row| is_ready(&row, tx.moment())) {
                    return Ok(Some((entry.org, entry.key)));
                }
            }
            if step.is_last {
                return Ok(None);
            }
            at = step.next;
        }
    })
}

async fn repair_one(context: &TaskContext, org: OrgId, pair: &SchemaPair) -> Result<()> {
    let store = context.system().org(org);
    let Some(row) = begin(&store, pair).await? else { return Ok(()) };
    let names: Vec<String> =
        row.attributes.iter().filter(|one| one.is_suspect()).map(|one| one.name.clone()).collect();
    let looked = match row.runs > RUNS_MAX {
        true => Looked { found: given_up(&names), ..Looked::default() },
        false => match look_at(context, &store, pair, &row, &names).await {
            Ok(Some(looked)) => looked,
            // Somebody else was quicker: it is looked at again by what holds now.
            Ok(None) => return Ok(()),
            Err(error) => {
                put_off(&store, pair).await?;
                return Err(error);
            }
        },
    };
    let (pair, found) = (pair.clone(), looked.found.clone());
    store.write(move |tx| write_outcome(tx, &pair, looked)).await?;
    tracing::info!(%org, domain = row.domain, ?found, "a site that has changed was looked at");
    Ok(())
}

fn given_up(names: &[String]) -> BTreeMap<String, Found> {
    names.iter().map(|name| (name.clone(), Found::Refused("interrupted"))).collect()
}

/// Notes that a look begins; none where there is nothing to look at any more.
async fn begin(store: &OrgStore, pair: &SchemaPair) -> Result<Option<DriftV1>> {
    let pair = pair.clone();
    let begun = store.write(move |tx| {
        tx.unaudited("that pages are looked at");
        let Some(mut row) = tx.get(&DRIFT, &pair)?.filter(|row| row.is_due) else { return Ok(None) };
        let now = tx.now();
        let suspects: Vec<usize> =
            (0..row.attributes.len()).filter(|at| row.attributes[*at].is_suspect()).collect();
        row.is_due = !suspects.is_empty();
        row.runs = if row.is_due { row.runs + 1 } else { 0 };
        for at in suspects {
            row.attributes[at].enter(DriftState::Repairing, now);
        }
        tx.put(&DRIFT, &pair, &row)?;
        Ok(row.is_due.then_some(row))
    });
    begun.await
}

/// Takes back that a look was begun that failed and did not end the process: it is tried again for as long as it fails, and what
/// else is due in its organization has its turn in between.
async fn put_off(store: &OrgStore, pair: &SchemaPair) -> Result<()> {
    let pair = pair.clone();
    let write = store.write(move |tx| {
        tx.unaudited("that a look is put off");
        let Some(mut row) = tx.get(&DRIFT, &pair)? else { return Ok(()) };
        row.runs = row.runs.saturating_sub(1);
        row.not_before = Some(tx.moment().after(FAILED_LOOK_REST));
        tx.put(&DRIFT, &pair, &row)
    });
    write.await
}

/// Looks at the platform's attributes and at the own ones, each on the pages that may be used for them. None where what reads
/// the pages was changed meanwhile.
async fn look_at(
    context: &TaskContext,
    store: &OrgStore,
    pair: &SchemaPair,
    row: &DriftV1,
    names: &[String],
) -> Result<Option<Looked>> {
    let site =
        Site::named(&pair.domain).ok_or_else(|| Error::internal("look at a site", "it is no domain"))?;
    let read_by = read_by(context.system(), store, &site, pair.page_type)?;
    let Some(read_by) = read_by else {
        return Ok(Some(Looked { found: given_up(names), ..Looked::default() }));
    };
    let mut looked = Looked { change: Change::of(row, &read_by), ..Looked::default() };
    for is_shared in [true, false] {
        let is_of_these = |name: &String| read_by.is_own(name) != is_shared;
        let own: Vec<String> = names.iter().filter(|name| is_of_these(name)).cloned().collect();
        if own.is_empty() {
            continue;
        }
        let booleans: Vec<String> = own.iter().filter(|name| read_by.is_boolean(name)).cloned().collect();
        let wanted =
            Wanted { site: &site, page_type: pair.page_type, names: &own, booleans: &booleans, is_shared };
        let sample = store.read(|tx| choose(tx, &wanted))?;
        let (mut found, pages) = look_on(context, store, &read_by, sample, is_shared).await?;
        looked.pages += pages;
        // What still gives something may give what is wrong: it is mended with the others, and told of only then.
        found.retain(|name, found| is_of_these(name) && (own.contains(name) || mended(found).is_some()));
        let mended: Vec<Mended> = found.values().filter_map(mended).cloned().collect();
        let is_broken = |(name, found): (&String, &Found)| is_refused(found) && !read_by.is_boolean(name);
        looked.is_beyond_repair |= is_shared && read_by.platform.is_some() && found.iter().any(is_broken);
        looked.found.extend(found);
        if mended.is_empty() {
            continue;
        }
        let is_written = match is_shared {
            true => put_shared(context, &read_by, pair, mended, pages, &mut looked).await?,
            false => put_own(store, &read_by, mended, &mut looked).await?,
        };
        if !is_written {
            return Ok(None);
        }
    }
    // What is gone from every schema is asked for no more.
    for name in names.iter().filter(|name| !looked.found.contains_key(*name)).collect::<Vec<_>>() {
        looked.found.insert(name.clone(), Found::Refused("no_attribute"));
    }
    Ok(Some(looked))
}

/// Whether something is broken and its last known values taught nothing that could be trusted: other values may.
fn is_refused(found: &Found) -> bool {
    matches!(found, Found::Refused(reason) if *reason != "unsupported")
}

fn mended(found: &Found) -> Option<&Mended> {
    match found {
        Found::Mended(mended) => Some(mended),
        _ => None,
    }
}

/// Reads the pages of a sample and looks at them; gives how many there were.
async fn look_on(
    context: &TaskContext,
    store: &OrgStore,
    read_by: &ReadBy,
    sample: Sample,
    is_shared: bool,
) -> Result<(BTreeMap<String, Found>, usize)> {
    let pages = context.service::<BlobStore>().org(store.id().0);
    let stored = async |row: ResultV4| -> Result<Option<StoredPage>> {
        let bytes = read_stored(&pages, &row.page).await?;
        Ok(bytes.map(|bytes| StoredPage { row, bytes }))
    };
    let (mut visits, mut others) = (Vec::new(), Vec::new());
    for (now, known) in sample.visits {
        let Some(now) = stored(now).await? else { continue };
        visits.push(StoredVisit { now, before: stored(known.clone()).await?, known });
    }
    for row in sample.others {
        others.extend(stored(row).await?);
    }
    let count = visits.len() + others.len();
    let attributes = read_by.attributes.clone();
    let visits_min = if is_shared { SHARED_VISITS_MIN } else { OWN_VISITS_MIN };
    let turn = context.service::<ReadingTurns>().next(store.id()).await?;
    let looking = tokio::task::spawn_blocking(move || {
        let found = look(&attributes, &visits, &others, visits_min);
        drop(turn);
        found
    });
    let found = looking.await.map_err(|e| Error::internal("look at stored pages", e))?;
    Ok((found, count))
}

/// Makes the platform's schema with mended attributes its next version; false where another one holds by now.
async fn put_shared(
    context: &TaskContext,
    read_by: &ReadBy,
    pair: &SchemaPair,
    mended: Vec<Mended>,
    pages: usize,
    looked: &mut Looked,
) -> Result<bool> {
    let Some(row) = &read_by.platform else { return Ok(true) };
    let mut attributes = crate::features::extraction::attributes_of(row)
        .map_err(|e| Error::internal("read a stored schema", e))?;
    // What was not mended is trusted as before.
    let mut trust = Vec::new();
    for attribute in &mut attributes {
        let new = mended.iter().find(|new| new.attribute.name == attribute.name);
        trust.push(new.map_or(row.confidence, |new| new.confidence));
        if let Some(new) = new {
            attribute.clone_from(&new.attribute);
        }
    }
    let confidence = trust.iter().sum::<f64>() / trust.len().max(1) as f64;
    let proposed = ProposedSchema {
        domain: row.domain.clone(),
        page_type: pair.page_type,
        attributes,
        confidence: (confidence * 1_000.0).round() / 1_000.0,
        discovered_by: row.discovered_by,
        sample_count: u32::try_from(pages).unwrap_or(u32::MAX),
        beaten: Some(SchemaRefV1 { id: row.id, version: row.version }),
    };
    let refuse = |looked: &mut Looked, reason| {
        for new in &mended {
            looked.found.insert(new.attribute.name.clone(), Found::Refused(reason));
        }
    };
    match adopt_repair(context.system(), proposed).await? {
        Adoption::Current(now) | Adoption::Same(now) => looked.change.to = Some(now),
        Adoption::Overtaken => return Ok(false),
        Adoption::TooOften => refuse(looked, "too_often"),
        Adoption::Manual(_) => refuse(looked, "manual"),
    }
    Ok(true)
}

/// Gives own attributes their new expressions; false where somebody has changed them meanwhile.
async fn put_own(
    store: &OrgStore,
    read_by: &ReadBy,
    mended: Vec<Mended>,
    looked: &mut Looked,
) -> Result<bool> {
    let mended: Vec<Attribute> = mended.into_iter().map(|new| new.attribute).collect();
    let Some((site, version, _)) = read_by.own.clone() else { return Ok(true) };
    let version = store.write(move |tx| {
        tx.unaudited("that own attributes were changed meanwhile");
        mend_own(tx, &site, version, &mended)
    });
    let version = version.await?;
    looked.change.own_to = version.or(looked.change.own_to);
    Ok(version.is_some())
}

/// Reads the next results again that lack what was mended.
async fn reread_step(context: &TaskContext, org: OrgId, pair: &SchemaPair) -> Result<()> {
    let store: OrgStore = context.system().org(org);
    let row = store.read(|tx| tx.get(&DRIFT, pair))?;
    let Some((site, row)) = Site::named(&pair.domain).zip(row) else { return Ok(()) };
    let Some(rereading) = row.rereading else { return Ok(()) };
    let repaired: Vec<String> = row.last.iter().flat_map(|last| last.repaired()).cloned().collect();
    let (due, next, looked) = store.read(|tx| {
        let page = PageRequest { limit: STEP_ROWS, cursor: rereading.cursor.clone() };
        let found =
            results_of_site(tx, &site, &page, |row| row.page_type.is_none_or(|own| own == pair.page_type))?;
        let lacks = |row: &&ResultV4| repaired.iter().any(|name| row.values.0.get(name).is_none());
        let is_kept = |row: &&ResultV4| has_page(tx, row).is_ok_and(|is_kept| is_kept);
        let due: Vec<ResultId> = found.items.iter().filter(lacks).filter(is_kept).map(|row| row.id).collect();
        let last = found.items.last().map(place_of_result);
        // Where a long stretch has none of the type it goes on behind that.
        let next = found.next_cursor.map(|behind| last.unwrap_or(behind));
        Ok((due, next, found.items.len()))
    })?;
    let count = match due.is_empty() {
        true => 0,
        false => read_again_named(context.services(), &store, site, pair.page_type, &due).await?,
    };
    let (pair, before) = (pair.clone(), rereading);
    let written = store.write(move |tx| {
        tx.unaudited("how far results were read again");
        // A later mend begins from the newest again.
        let row = tx.get(&DRIFT, &pair)?.filter(|row| row.rereading.as_ref() == Some(&before));
        let Some(mut row) = row else { return Ok(()) };
        let looked = before.looked.saturating_add(u32::try_from(looked).unwrap_or(u32::MAX));
        let goes_on = next.is_some() && looked < REREAD_MAX;
        row.rereading = goes_on.then_some(super::rows::RereadingV1 { cursor: next, looked });
        if let Some(last) = &mut row.last {
            last.reread = last.reread.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
        tx.put(&DRIFT, &pair, &row)
    });
    written.await
}

#[cfg(test)]
mod tests {
    use super::super::feed::new_row;
    use super::*;
    use base::clock::Clock;
    use base::terms::PageType;
    use store::Store;

    /// A look that failed waits, and what else is due in its organization does not.
    #[tokio::test]
    async fn a_look_that_fails_keeps_no_other_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let store = Store::open(&folder.path().join("store.redb"), 16 << 20, clock.clone()).unwrap();
        let system = store.system();
        let org = system.org(OrgId::new());
        // More than are read at once, before the last in order.
        let pair = |number: usize| SchemaPair::new(&format!("a{number:02}.example"), PageType::Product);
        for number in 0..ENTRIES_MAX + 5 {
            let row = DriftV1 { is_due: true, ..new_row(&pair(number)) };
            org.write(move |tx| {
                tx.unaudited("a test");
                tx.put(&DRIFT, &pair(number), &row)
            })
            .await
            .unwrap();
        }
        let turn = || next(&system, &DUE, &Seek::start(), |row, now| !row.is_put_off(now)).unwrap();
        for number in 0..ENTRIES_MAX + 5 {
            assert_eq!(turn(), Some((org.id(), pair(number))));
            put_off(&org, &pair(number)).await.unwrap();
        }
        assert_eq!(turn(), None);
        clock.advance(FAILED_LOOK_REST + Duration::from_secs(1));
        assert_eq!(turn(), Some((org.id(), pair(0))));
        let all = next(&system, &DUE, &Seek::behind_org(&1_u8, org.id()), |_, _| true).unwrap();
        assert_eq!(all, None);
    }
}
