//! What runs need beside the store, and where those that go on are. Hung up in the services.

use super::runs::{InputDocumentV1, RunNoteV1};
use crate::features::jobs::SubmitContext;
use crate::features::schedules::SeenTime;
use base::ids::{InputRunId, OrgId};
use base::web::WebUrl;
use blob::BlobStore;
use fetch::{AddressGuard, Direct, Politeness};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How soon it is looked again whether a page of a crawl has come: in the midst of it, and where nothing has come for long.
const PATIENCE_MIN: Duration = Duration::from_millis(50);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// The runs of a box.
pub(super) struct Runner {
    pub direct: Arc<Direct>,
    pub politeness: Politeness,
    pub guard: Arc<AddressGuard>,
    pub submit: Arc<SubmitContext>,
    pub blobs: Arc<BlobStore>,
    pub robots: bool,
    pub max_documents: usize,
    pub max_urls: usize,
    /// Where runs are that have begun; a run that is not here begins anew.
    walks: Mutex<HashMap<InputRunId, (OrgId, Walk)>>,
    /// Runs that are not to be taken further before.
    resting: Mutex<HashMap<InputRunId, Instant>>,
    /// Runs that cannot be read: nothing is tried with them until the box starts anew.
    broken: Mutex<HashSet<InputRunId>>,
    /// How long it was last waited for the pages of crawls.
    patience: Mutex<HashMap<InputRunId, Duration>>,
    /// The latest time at which ticks were looked for.
    pub seen: SeenTime,
}

/// What of the box runs need.
pub(super) struct RunnerParts {
    pub direct: Arc<Direct>,
    pub politeness: Politeness,
    pub guard: Arc<AddressGuard>,
    pub submit: Arc<SubmitContext>,
    pub blobs: Arc<BlobStore>,
    pub robots: bool,
    pub max_documents: usize,
    pub max_urls: usize,
}

impl Runner {
    pub fn new(parts: RunnerParts) -> Runner {
        let RunnerParts { direct, politeness, guard, submit, blobs, robots, max_documents, max_urls } = parts;
        Runner {
            direct,
            politeness,
            guard,
            submit,
            blobs,
            robots,
            max_documents,
            max_urls,
            walks: Mutex::default(),
            resting: Mutex::default(),
            broken: Mutex::default(),
            patience: Mutex::default(),
            seen: SeenTime::default(),
        }
    }

    /// Takes the place of a run, to go on there.
    pub fn take(&self, run: InputRunId) -> Option<Walk> {
        self.walks.lock().remove(&run).map(|(_, walk)| walk)
    }

    pub fn put(&self, org: OrgId, run: InputRunId, walk: Walk) {
        self.walks.lock().insert(run, (org, walk));
    }

    /// Everything of the organization is gone.
    pub fn forget(&self, org: OrgId) {
        self.walks.lock().retain(|_, (owner, _)| *owner != org);
    }

    /// Leaves a run alone for so long.
    pub fn rest(&self, run: InputRunId, pause: Duration) {
        self.resting.lock().insert(run, Instant::now() + pause);
    }

    /// Leaves it alone until the box starts anew.
    pub fn give_up(&self, run: InputRunId) {
        self.broken.lock().insert(run);
    }

    /// How long it is until the first of those that rest may be taken further.
    pub fn next_rested(&self) -> Option<Duration> {
        let soonest = self.resting.lock().values().min().copied()?;
        Some(soonest.saturating_duration_since(Instant::now()))
    }

    /// Whether it was waited for a crawl's pages as long as it ever is.
    pub fn is_patient(&self, run: InputRunId) -> bool {
        self.patience.lock().get(&run).is_some_and(|last| *last >= PATIENCE_MAX)
    }

    /// Looks in vain at a crawl's pages grow apart; how long to wait for the next one.
    pub fn patience(&self, run: InputRunId, has_news: bool) -> Duration {
        let mut patience = self.patience.lock();
        if has_news {
            patience.remove(&run);
            return PATIENCE_MIN;
        }
        let next = patience.get(&run).map_or(PATIENCE_MIN, |last| (*last * 2).min(PATIENCE_MAX));
        patience.insert(run, next);
        next
    }

    /// Those of these runs that may be taken further.
    pub fn awake(&self, mut runs: Vec<(OrgId, InputRunId)>) -> Vec<(OrgId, InputRunId)> {
        let now = Instant::now();
        let (mut resting, broken) = (self.resting.lock(), self.broken.lock());
        resting.retain(|_, until| *until > now);
        runs.retain(|(_, run)| !resting.contains_key(run) && !broken.contains(run));
        runs
    }
}

/// Which document of a run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The input's own.
    Root,
    /// One of an index.
    Sitemap,
    /// A further page of a feed.
    Page,
}

/// A document that is to be asked for.
#[derive(Clone, Debug)]
pub(super) struct Todo {
    pub url: WebUrl,
    pub place: Place,
    /// How often its domain had no visit free.
    pub busy: u32,
}

/// Where a run is.
pub(super) struct Walk {
    pub begun: Instant,
    pub todo: VecDeque<Todo>,
    /// URLs of documents that were asked for, or are to be.
    pub asked: HashSet<String>,
    /// The beginnings of the SHA-256 of URLs that were found.
    pub found: HashSet<[u8; 16]>,
    /// Further pages of a feed.
    pub pages: usize,
    /// Whether every document was read that should have been.
    pub is_whole: bool,
    /// What is remembered of the first document when the run has come to its end.
    pub root: Vec<([u8; 32], InputDocumentV1)>,
    /// Why no more jobs are made.
    pub stopped: Option<String>,
    pub message: Option<String>,
    /// What is not written down yet.
    pub notes: Vec<RunNoteV1>,
}

impl Walk {
    pub fn new(url: WebUrl) -> Walk {
        let asked = HashSet::from([url.as_str().to_owned()]);
        Walk {
            begun: Instant::now(),
            todo: VecDeque::from([Todo { url, place: Place::Root, busy: 0 }]),
            asked,
            found: HashSet::new(),
            pages: 0,
            is_whole: true,
            root: Vec::new(),
            stopped: None,
            message: None,
            notes: Vec::new(),
        }
    }
}
