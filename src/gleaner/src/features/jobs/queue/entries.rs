//! The durable queue as the fair queue reads it: entries of `jobs.queue`.

use crate::features::jobs::rows::{JOBS, QUEUE, QueueKey};
use base::Result;
use base::clock::Moment;
use base::ids::{JobId, OrgId};
use base::web::Domain;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use store::{Seek, SysRead};

/// What the entries of one host of one domain begin with, within an organization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostPrefix(Arc<(Box<str>, Box<str>)>);

impl HostPrefix {
    pub fn new(domain: &str, host: &str) -> HostPrefix {
        HostPrefix(Arc::new((domain.into(), host.into())))
    }

    pub fn host(&self) -> &str {
        &self.0.1
    }

    /// Domain and host.
    fn parts(&self) -> (&str, &str) {
        (&self.0.0, &self.0.1)
    }
}

/// The first entry of a host.
pub(super) struct FirstEntry {
    pub head: HostPrefix,
    pub domain: Domain,
    pub rank: u8,
    pub run_at: Moment,
}

/// A look for the first entry at or behind a place.
pub(super) struct FirstLook {
    /// None in a row that is damaged.
    pub found: Option<FirstEntry>,
    /// Where the next host's entries begin, at the earliest.
    pub behind: Seek<QueueKey>,
}

/// The first entry at or behind `from`; none where there is nothing any more.
pub(super) fn first(tx: &SysRead<'_>, org: OrgId, from: &Seek<QueueKey>) -> Result<Option<FirstLook>> {
    let look = tx.org(org).index_entries(&JOBS, &QUEUE, (), from, 1)?;
    let Some(entry) = look.entries.into_iter().next() else {
        return Ok((!look.is_last).then_some(FirstLook { found: None, behind: look.next }));
    };
    // One damaged row must not keep everybody else waiting.
    let damaged = || tracing::error!(job = %entry.key, "a job in the queue has no domain; it is passed over");
    let Some((domain, host, rank, run_at)) = entry.rest else {
        damaged();
        return Ok(Some(FirstLook { found: None, behind: look.next }));
    };
    let head = HostPrefix::new(&domain, &host);
    let domain = Domain::parse(&domain).ok();
    if domain.is_none() {
        damaged();
    }
    let behind = Seek::behind(&head.parts());
    Ok(Some(FirstLook { found: domain.map(|domain| FirstEntry { head, domain, rank, run_at }), behind }))
}

/// What one look at a host found.
pub(super) struct HostScan {
    /// Jobs that are due, with their ranks, in their order.
    pub due: VecDeque<(u8, JobId)>,
    /// When the first one is due that is not yet, as far as that was seen.
    pub next_at: Option<Moment>,
    /// Whether there is nothing else.
    pub is_all: bool,
    /// Where to go on.
    pub from: Seek<QueueKey>,
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
    let from = Seek::start();
    let begun = HostScan { due: VecDeque::new(), next_at: None, is_all: false, from, looks: 0 };
    let mut found = HostScan { looks: 0, ..before.unwrap_or(begun) };
    let (now, (domain, host)) = (tx.moment(), head.parts());
    while found.due.len() < limit && !found.is_all {
        let wanted = limit - found.due.len();
        let look = tx.org(org).index_entries(&JOBS, &QUEUE, (domain, host), &found.from, wanted)?;
        found.looks += 1;
        (found.is_all, found.from) = (look.is_last, look.next);
        for entry in look.entries {
            // What is damaged in its key is passed over as what is damaged in its row is.
            let Some((rank, run_at)) = entry.rest else { continue };
            if run_at > now {
                // Times grow within a rank, so nothing more of this one is due: on to the next.
                found.next_at = Some(found.next_at.map_or(run_at, |at| at.min(run_at)));
                match rank.checked_add(1) {
                    Some(next) => (found.from, found.is_all) = (Seek::at(&(domain, host, next)), false),
                    // No rank is behind the last one, which only a damaged entry has.
                    None => found.is_all = true,
                }
                break;
            }
            if !passed_over.contains(&entry.key) {
                found.due.push_back((rank, entry.key));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::clock::Clock;
    use std::sync::mpsc;
    use std::time::Duration;
    use store::fault::{FaultyDisk, stray_entry};
    use store::{MIGRATIONS, Store};

    #[tokio::test]
    async fn a_damaged_entry_of_the_last_rank_ends_the_look() {
        let disk = FaultyDisk::new();
        let store = Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap();
        let org = OrgId::new();
        let damaged = |tx: &store::OrgWrite<'_>| {
            stray_entry(tx, &QUEUE, ("a.test", "a.test", u8::MAX, Moment(i64::MAX)), &JobId::new());
            Ok(())
        };
        store.system().org(org).write(damaged).await.unwrap();
        let (told, ended) = mpsc::channel();
        let system = store.system();
        // On a thread of its own, which a look without an end would keep.
        std::thread::spawn(move || {
            let head = HostPrefix::new("a.test", "a.test");
            let found = system.read(|tx| look(tx, (org, &head), &HashSet::new(), None, 10));
            let _ = told.send(found.map(|found| (found.due.len(), found.next_at, found.is_all)));
        });
        let found = ended.recv_timeout(Duration::from_secs(20)).expect("it ends").unwrap();
        assert_eq!(found, (0, Some(Moment(i64::MAX)), true));
    }
}
