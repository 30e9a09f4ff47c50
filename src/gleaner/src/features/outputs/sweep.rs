//! What is over goes: deliveries that ended long ago, those beyond an organization's number, and those of removed outputs.

use super::batches;
use super::letters;
use super::rows::{BY_OUTPUT, DELIVERIES, DeliveryState, ENDED, GONE, OUTPUTS};
use super::service::Deliverer;
use base::clock::Moment;
use base::ids::{DeliveryId, OutputId};
use base::{Code, Error, Result};
use server::task::TaskContext;
use store::{Key, OrgRead, OrgStore, OrgWrite, Seek, SysWrite, readable};

/// Rows that one operation removes.
const REMOVED_PER_STEP: usize = 256;
/// Operations for one organization in a round.
const STEPS_PER_ORG: usize = 50;

pub(super) async fn sweep(context: TaskContext) -> Result<()> {
    let deliverer = context.service::<Deliverer>();
    let before = context.moment().before(deliverer.kept_for);
    while !context.stopping() {
        let swept = context.system().write_freeing(move |tx| sweep_ended(tx, before));
        if swept.await? < REMOVED_PER_STEP {
            break;
        }
    }
    for table in [GONE.name(), OUTPUTS.name()] {
        let mut last = None;
        while let Some(org) = context.system().read(|tx| tx.next_org(table, last))? {
            last = Some(org);
            let own = context.system().org(org);
            let swept = match table == GONE.name() {
                true => remove_gone(&context, &own).await,
                false => keep_within(&context, &own, deliverer.rows_max).await,
            };
            // What fails of one organization keeps no other's.
            if let Some(error) = swept.err().filter(|error| error.code() != Code::OrgNotFound) {
                tracing::warn!(%org, %error, "deliveries of an organization could not be swept");
            }
        }
    }
    Ok(())
}

/// Removes what removed outputs have left.
async fn remove_gone(context: &TaskContext, own: &OrgStore) -> Result<()> {
    let keys = own.read(|tx| tx.keys(GONE.name(), None, REMOVED_PER_STEP))?;
    for id in keys.iter().filter_map(|key| OutputId::decode(key)) {
        while !context.stopping() && !own.write_freeing(move |tx| remove_of(tx, id)).await? {}
    }
    Ok(())
}

/// Removes the oldest deliveries that have ended, of an organization that has more than it may.
async fn keep_within(context: &TaskContext, own: &OrgStore, rows_max: u64) -> Result<()> {
    let (mut after, mut steps) = (None::<Vec<u8>>, 0);
    while steps < STEPS_PER_ORG && !context.stopping() {
        let used = own.read(|tx| tx.used(DELIVERIES.name()))?.rows;
        if used <= rows_max {
            break;
        }
        let beyond = usize::try_from(used - rows_max).unwrap_or(usize::MAX).min(REMOVED_PER_STEP);
        let (store, place) = (own.clone(), after.clone());
        let looked =
            tokio::task::spawn_blocking(move || store.read(|tx| oldest_ended(tx, place.as_deref(), beyond)));
        let looked = looked.await.map_err(|e| Error::internal("look at deliveries that have ended", e))?;
        let (ended, next) = looked?;
        let is_enough = ended.len() >= beyond;
        if !ended.is_empty() {
            own.write_freeing(move |tx| ended.into_iter().try_for_each(|id| remove_ended(tx, id))).await?;
            steps += 1;
        }
        if !is_enough {
            // The others of this step wait for a try, as those of outputs that are off do: they are passed by.
            match next {
                Some(place) => after = Some(place),
                None => break,
            }
        }
    }
    Ok(())
}

/// Removes some that ended before a moment; how many.
fn sweep_ended(tx: &SysWrite<'_>, before: Moment) -> Result<usize> {
    let step = tx.scan_global(&DELIVERIES, &ENDED, &Seek::start(), Some(before), REMOVED_PER_STEP)?;
    for entry in &step.entries {
        let own = tx.org(entry.org);
        if let Some(row) = readable("a delivery", entry.key, own.get(&DELIVERIES, &entry.key))?.flatten() {
            batches::forget(&own, &row)?;
            letters::forget(&own, &row)?;
        }
        own.delete(&DELIVERIES, &entry.key)?;
    }
    Ok(step.entries.len())
}

/// Removes some deliveries of a removed output; whether none is left.
fn remove_of(tx: &OrgWrite<'_>, id: OutputId) -> Result<bool> {
    let rows = tx.readable_by(&DELIVERIES, &BY_OUTPUT, id, None, None, REMOVED_PER_STEP)?.rows;
    for (key, _) in &rows {
        letters::forget_taken(tx, *key)?;
        tx.delete(&DELIVERIES, key)?;
    }
    let is_over = rows.len() < REMOVED_PER_STEP
        && batches::forget_all(tx, id, REMOVED_PER_STEP)?
        && letters::forget_all(tx, id, REMOVED_PER_STEP)?;
    if is_over {
        tx.delete(&GONE, &id)?;
    }
    Ok(is_over)
}

/// Some of the oldest that have ended, of those behind a place; and where to go on.
fn oldest_ended(
    tx: &OrgRead<'_>,
    after: Option<&[u8]>,
    most: usize,
) -> Result<(Vec<DeliveryId>, Option<Vec<u8>>)> {
    let step = tx.readable(&DELIVERIES, after, REMOVED_PER_STEP * 4)?;
    let ended = step.rows.iter().filter(|(_, row)| row.state != DeliveryState::Pending);
    Ok((ended.map(|(id, _)| *id).take(most).collect(), step.more()))
}

/// Removes one, unless it is tried anew meanwhile. What waits for a try stays.
fn remove_ended(tx: &OrgWrite<'_>, id: DeliveryId) -> Result<()> {
    let Some(row) = tx.get(&DELIVERIES, &id)?.filter(|row| row.state != DeliveryState::Pending) else {
        return Ok(());
    };
    batches::forget(tx, &row)?;
    letters::forget(tx, &row)?;
    tx.delete(&DELIVERIES, &id).map(drop)
}
