//! The durable queue as the fair queue reads it: entries of `jobs.queue`.

use crate::features::jobs::rows::QUEUE;
use base::clock::Moment;
use base::ids::{JobId, OrgId};
use base::web::Domain;
use base::{Error, Result};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use store::{KeyWriter, SysRead};

/// What the entries of one host of one domain begin with, within an organization.
pub(super) type HostPrefix = Arc<[u8]>;

/// What follows the head in an entry: rank and time.
const TAIL_BYTES: usize = 9;
/// How a part of a key ends, raised by one: greater than every key that begins with the part.
const BEYOND: u8 = 2;

pub(super) fn head(domain: &str, host: &str) -> HostPrefix {
    let mut key = KeyWriter::default();
    key.str(domain).str(host);
    key.into_bytes().into()
}

/// The smallest key behind those that begin with `head`.
fn end_of(head: &[u8]) -> Vec<u8> {
    let mut end = head.to_vec();
    if let Some(last) = end.last_mut() {
        *last = BEYOND;
    }
    end
}

/// The first entry of a host.
pub(super) struct FirstEntry {
    pub head: HostPrefix,
    /// None in a row that is damaged.
    pub place: Option<(Domain, Box<str>)>,
    pub rank: u8,
    pub run_at: Moment,
    /// Where the next host's entries begin, at the earliest.
    pub behind: Vec<u8>,
}

/// The first entry at or behind `from`.
pub(super) fn first(tx: &SysRead<'_>, org: OrgId, from: &[u8]) -> Result<Option<FirstEntry>> {
    let entries = tx.org(org).index_entries::<JobId, _>(&QUEUE, from, None, 1)?;
    let Some(entry) = entries.into_iter().next() else { return Ok(None) };
    let (head, rank, run_at) = split(&entry.index_key)?;
    let mut parts = head.split(|byte| *byte == 0).map(|part| part.strip_prefix(&[1]).unwrap_or(part));
    let mut text = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let place = text().and_then(|domain| Domain::parse(domain).ok()).zip(text().map(Box::from));
    if place.is_none() {
        // One damaged row must not keep everybody else waiting.
        tracing::error!(job = %entry.key, "a job in the queue has no domain; it is passed over");
    }
    Ok(Some(FirstEntry { behind: end_of(head), head: head.into(), place, rank, run_at }))
}

/// What one look at a host found.
#[derive(Default)]
pub(super) struct HostScan {
    /// Jobs that are due, with their ranks, in their order.
    pub due: VecDeque<(u8, JobId)>,
    /// When the first one is due that is not yet, as far as that was seen.
    pub next_at: Option<Moment>,
    /// Whether there is nothing else.
    pub is_all: bool,
    /// Where to go on.
    pub from: Vec<u8>,
    /// How often the store was asked.
    pub looks: usize,
}

/// Up to `limit` due jobs of a host without those `passed_over`, by rank and then by time; further ones than `before` found,
/// when it is given.
pub(super) fn look(
    tx: &SysRead<'_>,
    (org, head): (OrgId, &HostPrefix),
    passed_over: &HashSet<JobId>,
    before: Option<HostScan>,
    limit: usize,
) -> Result<HostScan> {
    let end = end_of(head);
    let mut found = before.unwrap_or_else(|| HostScan { from: head.to_vec(), ..HostScan::default() });
    found.looks = 0;
    let now = tx.moment();
    while found.due.len() < limit && !found.is_all {
        let wanted = limit - found.due.len();
        let entries = tx.org(org).index_entries::<JobId, _>(&QUEUE, &found.from, Some(&end), wanted)?;
        found.looks += 1;
        found.is_all = entries.len() < wanted;
        for entry in entries {
            let (_, rank, run_at) = split(&entry.index_key)?;
            if run_at > now {
                // Times grow within a rank, so nothing more of this one is due: on to the next.
                found.next_at = Some(found.next_at.map_or(run_at, |at| at.min(run_at)));
                found.from = [head.as_ref(), &[rank.saturating_add(1)]].concat();
                found.is_all = false;
                break;
            }
            found.from = [entry.index_key.as_slice(), entry.key.0.as_bytes(), &[0]].concat();
            if !passed_over.contains(&entry.key) {
                found.due.push_back((rank, entry.key));
            }
        }
    }
    Ok(found)
}

/// An entry's head, rank and time.
fn split(key: &[u8]) -> Result<(&[u8], u8, Moment)> {
    let (head, tail) = key
        .len()
        .checked_sub(TAIL_BYTES)
        .and_then(|at| key.split_at_checked(at))
        .ok_or_else(|| Error::internal("read the queue", "a key is too short"))?;
    let (rank, time) = tail.split_first().ok_or_else(|| Error::internal("read the queue", "no rank"))?;
    let time = <[u8; 8]>::try_from(time).map_err(|e| Error::internal("read the queue", e))?;
    Ok((head, *rank, Moment((u64::from_be_bytes(time) ^ (1 << 63)) as i64)))
}
