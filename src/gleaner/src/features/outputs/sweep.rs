//! What is over goes: deliveries that ended long ago, those beyond an organization's number, and those of removed outputs.

use super::batches;
use super::letters;
use super::rows::{BY_OUTPUT, DELIVERIES, DeliveryState, ENDED, GONE, OUTPUTS};
use super::service::Deliverer;
use base::Result;
use base::clock::Moment;
use base::ids::OutputId;
use server::task::TaskContext;
use store::{Key, OrgWrite, Seek, SysWrite, readable};

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
    let mut last = None;
    while let Some(org) = context.system().read(|tx| tx.next_org(GONE.name(), last))? {
        last = Some(org);
        let own = context.system().org(org);
        let keys = own.read(|tx| tx.keys(GONE.name(), None, REMOVED_PER_STEP))?;
        for id in keys.iter().filter_map(|key| OutputId::decode(key)) {
            while !context.stopping() && !own.write_freeing(move |tx| remove_of(tx, id)).await? {}
        }
    }
    let (rows_max, mut last) = (deliverer.rows_max, None);
    while let Some(org) = context.system().read(|tx| tx.next_org(OUTPUTS.name(), last))? {
        last = Some(org);
        let own = context.system().org(org);
        for _ in 0..STEPS_PER_ORG {
            let used = own.read(|tx| tx.used(DELIVERIES.name()))?.rows;
            if used <= rows_max || context.stopping() {
                break;
            }
            let beyond = usize::try_from(used - rows_max).unwrap_or(usize::MAX).min(REMOVED_PER_STEP);
            if own.write_freeing(move |tx| remove_oldest(tx, beyond)).await? == 0 {
                break;
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

/// Removes some of the oldest that have ended; how many. What waits for a try stays.
fn remove_oldest(tx: &OrgWrite<'_>, most: usize) -> Result<usize> {
    let rows = tx.readable(&DELIVERIES, None, REMOVED_PER_STEP * 4)?.rows;
    let ended = rows.iter().filter(|(_, row)| row.state != DeliveryState::Pending).take(most);
    let mut removed = 0;
    for (key, row) in ended {
        batches::forget(tx, row)?;
        letters::forget(tx, row)?;
        tx.delete(&DELIVERIES, key)?;
        removed += 1;
    }
    Ok(removed)
}
