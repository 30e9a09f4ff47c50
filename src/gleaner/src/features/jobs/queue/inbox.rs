//! What others tell the dispatcher between two rounds: that a job was queued, and that a run has ended.

use crate::features::jobs::rows::{JobV2, rank};
use base::clock::Moment;
use base::ids::{JobId, OrgId};
use base::web::Domain;
use base::web::host_of;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Jobs that are told of between two rounds; with more, the queue is looked through instead.
const TOLD_MAX: usize = 65_536;

/// A job that waits, as far as its place in the queue hangs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::features::jobs) struct QueuedJob {
    pub org: OrgId,
    pub domain: String,
    pub host: String,
    pub rank: u8,
    pub run_at: Moment,
}

impl QueuedJob {
    pub fn of(org: OrgId, job: &JobV2) -> QueuedJob {
        QueuedJob {
            org,
            domain: job.domain.clone(),
            host: host_of(&job.url).to_owned(),
            rank: rank(job.priority),
            run_at: job.run_at,
        }
    }
}

#[derive(Default)]
pub(super) struct InboxBatch {
    pub queued: Vec<QueuedJob>,
    pub ended: Vec<(OrgId, Domain)>,
    /// The queue is to be looked through soon: more was told than is kept, or jobs may wait that nobody told of.
    pub has_more: bool,
    /// Jobs whose rows cannot be read: they keep nobody else waiting.
    pub unreadable: Vec<JobId>,
    /// Jobs that were passed over and are not from now on; told before those that are.
    pub readable: Vec<JobId>,
}

/// Where it is told.
#[derive(Default)]
pub(in crate::features::jobs) struct Inbox {
    told: Mutex<InboxBatch>,
    wake: Notify,
}

impl Inbox {
    /// Says that jobs stand in the queue; after the commit that put them there.
    pub fn queued(&self, jobs: impl IntoIterator<Item = QueuedJob>) {
        // Before the lock: what stands behind the iterator may need it, as a slot does that is given back.
        let mut jobs: Vec<_> = jobs.into_iter().take(TOLD_MAX + 1).collect();
        {
            let mut told = self.told.lock();
            let room = TOLD_MAX.saturating_sub(told.queued.len());
            told.has_more |= jobs.len() > room;
            jobs.truncate(room);
            told.queued.append(&mut jobs);
        }
        self.wake();
    }

    /// Says that jobs may stand in the queue of which nobody knows: a commit that was said to have failed may stand.
    pub fn look_again(&self) {
        self.told.lock().has_more = true;
        self.wake();
    }

    /// Says that the row of a job in the queue cannot be read; the queue passes it over from now on.
    pub fn unreadable(&self, job: JobId) {
        self.told.lock().unreadable.push(job);
    }

    /// Says that a job that was passed over waits again.
    pub fn readable(&self, job: JobId) {
        let mut told = self.told.lock();
        told.unreadable.retain(|other| *other != job);
        told.readable.push(job);
    }

    /// Says that there may be something to do.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until something is said.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(super) fn take(&self) -> InboxBatch {
        std::mem::take(&mut self.told.lock())
    }
}

/// A slot of the box that a run has; dropping it gives it back.
pub(in crate::features::jobs) struct RunSlot {
    inbox: Arc<Inbox>,
    place: Option<(OrgId, Domain)>,
}

impl RunSlot {
    pub(super) fn new(inbox: Arc<Inbox>, org: OrgId, domain: Domain) -> RunSlot {
        RunSlot { inbox, place: Some((org, domain)) }
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.inbox.told.lock().ended.extend(self.place.take());
        self.inbox.wake();
    }
}
