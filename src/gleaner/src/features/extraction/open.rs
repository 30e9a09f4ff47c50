//! What the slice opens at a start: stored pages, the extractor, the search index and what feeds it.

use super::site::fill_domains;
use super::stored::PageLinks;
use super::texts::Texts;
use super::turns::ReadingTurns;
use super::{Extractor, SearchFeed, adopt_pages};
use crate::features::wiring::{Folder, StartTest, Wiring};
use base::ids::OrgId;
use base::{Error, Result};
use blob::BlobStore;
use futures::future::BoxFuture;
use secrets::link::Links;
use serde_json::{Value, json};
use server::task::Consumer;
use server::{Metrics, Services};
use std::time::{Duration, Instant};

// The page crate stands alone and has the number of its own.
const _: () = assert!(page::extract::URL_BYTES_MAX == base::web::URL_BYTES_MAX);

/// The time between two commits of the search index at least (data/docs/engines.md, "Search").
const FEED_PERIOD: Duration = Duration::from_millis(250);

const PAGES: &str = "pages";
const SEARCH: &str = "search";

pub(super) const FOLDERS: &[Folder] =
    &[Folder { name: PAGES, is_needed: true }, Folder { name: SEARCH, is_needed: true }];

/// Opens the slice's parts.
pub(super) fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        adopt_pages(&wiring.system()).await?;
        fill_domains(&wiring.system()).await?;
        let blobs = BlobStore::open_local(wiring.data(PAGES))
            .map_err(|e| Error::internal("open the page store", e))?;
        let blobs = wiring.hang::<BlobStore>(blobs);
        let health = wiring.part::<base::health::Health>().as_ref().clone();
        wiring.hang::<Extractor>(Extractor::new(wiring.store().clone(), blobs, health));
        wiring.hang::<Texts>(Texts::default());
        wiring.hang::<ReadingTurns>(ReadingTurns::default());
        wiring.hang::<PageLinks>(PageLinks::new(wiring.part::<Links>(), wiring.url));
        wiring.hang::<SearchFeed>(SearchFeed::open(wiring.data(SEARCH), wiring.system())?);
        Ok(())
    })
}

impl Consumer for SearchFeed {
    fn name(&self) -> &'static str {
        SEARCH
    }

    fn durable(&self) -> u64 {
        self.durable_position()
    }

    fn reached(&self) -> u64 {
        self.committed()
    }

    fn refilled(&self) -> u64 {
        self.filled()
    }

    fn pause(&self, _: Instant, ended: Instant) -> Duration {
        FEED_PERIOD.saturating_sub(ended.elapsed())
    }

    /// What failed in a search is looked at, and the writer's memory is given back, although nothing changes.
    fn rest(&self) -> Option<Duration> {
        Some(FEED_PERIOD)
    }

    fn take(&self, stop: &dyn Fn() -> bool) -> Result<bool> {
        self.catch_up(stop).map(|()| false)
    }

    fn forget(&self, org: OrgId) -> Result<u64> {
        self.remove_org(org)
    }

    fn recall(&self, org: OrgId) -> Result<()> {
        self.recall_org(org)
    }
}

/// A document into the index and back. Searches of an index that is being filled anew find what is in it, so nobody is
/// kept waiting for that.
pub(super) const START_TEST: StartTest = StartTest {
    name: SEARCH,
    run: |services| {
        Box::pin(async move {
            let feed = services.service::<SearchFeed>();
            let tried = tokio::task::spawn_blocking(move || feed.self_test()).await;
            tried.map_err(|e| Error::internal("try the search index", e))?
        })
    },
    partly: |services| {
        let rows = services.service::<SearchFeed>().filled();
        (rows > 0).then(|| {
            format!("the index is being filled anew, {rows} results so far; searches find those only")
        })
    },
};

pub(super) fn status(services: &Services) -> Vec<(&'static str, Value)> {
    vec![("searchPosition", json!(services.service::<SearchFeed>().committed()))]
}

pub(super) fn gauges(metrics: &Metrics, services: &Services) {
    let feed = services.service::<SearchFeed>();
    let help = "Change record up to which results can be found.";
    metrics.gauge_of("gleaner_search_position", help, &[], move || feed.committed() as f64);
}
