//! What is remembered of one organization's part of the queue: its lanes, and how far the part was looked through.

use super::super::rows::QueueKey;
use super::entries::HostPrefix;
use base::clock::Moment;
use base::ids::OrgId;
use base::web::Domain;
use std::collections::{BTreeSet, HashMap};
use store::Seek;

/// What an organization has queued for one host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaneId {
    pub(super) org: OrgId,
    pub(super) head: HostPrefix,
}

/// Why a lane is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadyReason {
    /// Its domain's gate keeps a visit for it.
    Called,
    /// It may have a job that is due.
    Hopes,
}

pub(super) type ReadyKey = (ReadyReason, u8, u64, HostPrefix);

pub(super) struct Lane {
    pub(super) domain: Domain,
    pub(super) host: Box<str>,
    /// The best rank that it may have a job of.
    pub(super) rank: u8,
    /// Under which key it stands among its organization's ready lanes.
    pub(super) ready: Option<ReadyKey>,
    /// It waits at its domain's gate.
    pub(super) waits: bool,
    /// It has nothing due before this moment.
    pub(super) asleep: Option<Moment>,
}

/// How far an organization's part of the index was looked through.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScanProgress {
    Done,
    /// From this key on; and once more from the beginning, if something came behind it.
    At {
        from: Seek<QueueKey>,
        again: bool,
    },
}

pub(super) struct OrgQueue {
    pub(super) lanes: HashMap<HostPrefix, Lane>,
    pub(super) ready: BTreeSet<ReadyKey>,
    pub(super) walk: ScanProgress,
    /// When the first of the lanes is due that are not remembered.
    pub(super) walk_at: Option<Moment>,
    pub(super) running: usize,
    /// Looks of this round that found nothing.
    pub(super) misses: usize,
    pub(super) turn: u64,
    /// Under which key it stands among those that have something to look at.
    pub(super) listed: Option<(usize, u64)>,
}

impl OrgQueue {
    pub(super) fn new() -> OrgQueue {
        OrgQueue {
            lanes: HashMap::new(),
            ready: BTreeSet::new(),
            walk: ScanProgress::Done,
            walk_at: None,
            running: 0,
            misses: 0,
            turn: 0,
            listed: None,
        }
    }

    pub(super) fn has_hope(&self) -> bool {
        !self.ready.is_empty() || self.walk != ScanProgress::Done
    }

    /// Looks through everything, also what is behind the walk that is going on.
    pub(super) fn walk_again(&mut self) {
        match &mut self.walk {
            ScanProgress::Done => self.walk = ScanProgress::At { from: Seek::start(), again: false },
            ScanProgress::At { again, .. } => *again = true,
        }
    }
}
