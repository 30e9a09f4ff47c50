//! Drift: noticing that a site has changed, finding out what of it is broken, and mending that.
//!
//! [`feed`] counts how attributes are found, [`window`] compares with their past, [`task`] looks at stored pages ([`sample`]) and
//! mends by what they say ([`lesson`]), [`outcome`] tells; what was read badly for long ([`low`]) or could not be mended is discovered anew. Platform schemas are everybody's, what is counted is the organization's:
//! nobody's numbers, states or events depend on another's pages.

mod feed;
mod lesson;
mod low;
mod outcome;
mod rows;
mod sample;
mod shape;
mod task;
mod views;
mod window;
mod wire;

use super::Feature;
use crate::features::extraction::ReadingTurns;
use crate::features::urls;
use crate::features::wiring::{ConsumerSpec, Wiring};
use base::Result;
use base::page::{Page, PageRequest};
use base::web::Domain;
use feed::DriftFeed;
use futures::future::BoxFuture;
use rows::{BY_DOMAIN, DRIFT, DriftV1, FETCHES, LOW, POSITION};
use server::permit::WorkflowsRead;
use server::task::TaskSpec;
use server::{Body, Handler, Need, Org, Query, Route};
use std::time::Duration;
use store::readable;
use wire::{DriftFilter, DriftView};

/// How soon what is due is looked at, and results are read again.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The longest pause of a feed that fails.
const FEED_RETRY_MAX: Duration = Duration::from_secs(30);

pub static FEATURE: Feature = Feature {
    name: "drift",
    uses: &["discovery", "events", "extraction", "jobs", "urls"],
    open: Some(open),
    tables: &[&DRIFT, &FETCHES, &LOW, &POSITION],
    views: &[views::DRIFT_VIEW, views::FETCHES_VIEW],
    routes: &[Route::get("/api/v1/extraction/drift", "listDrift", &Handler::new(list)).about(
        "How well attributes are found beside their past, and what was mended where a site has changed, by domain and page type.",
    )],
    tasks: &[
        TaskSpec::new("drift.repair", LOOK_EVERY, |context| Box::pin(task::repair_due(context))),
        TaskSpec::new("drift.reread", LOOK_EVERY, |context| Box::pin(task::reread_due(context))),
    ],
    needs: &[Need::of::<DriftFeed>(), Need::of::<ReadingTurns>()],
    consumer: Some(ConsumerSpec::of::<DriftFeed>("drift.feed", FEED_RETRY_MAX, "drift")),
    events: outcome::EVENTS,
    ..Feature::NONE
};

fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        wiring.hang::<DriftFeed>(DriftFeed::open(wiring.system())?);
        Ok(())
    })
}

async fn list(
    org: Org<WorkflowsRead>,
    Query(filter): Query<DriftFilter>,
    page: PageRequest,
) -> Result<Body<Page<DriftView>>> {
    org.read(|tx| urls::check_page_type(tx, "pageType", filter.page_type))?;
    let domain = filter.domain.map(Domain::of_filter);
    let is_wanted = |row: &DriftV1| filter.page_type.is_none_or(|wanted| row.page_type == wanted);
    let found = org.read(|tx| {
        let found = match &domain {
            Some(domain) => tx.page_by_oldest(&DRIFT, &BY_DOMAIN, domain, &page, is_wanted)?,
            None => tx.page_oldest(&DRIFT, &page, is_wanted)?,
        };
        let with_fetches = found.items.into_iter().map(|row| {
            let fetches = tx.get(&FETCHES, &row.registrable());
            let fetches =
                readable("how fetches of a domain end", &row.domain, fetches)?.flatten().unwrap_or_default();
            Ok((row, fetches))
        });
        Ok(Page { items: with_fetches.collect::<Result<Vec<_>>>()?, next_cursor: found.next_cursor })
    })?;
    Ok(Body(found.map(|(row, fetches)| DriftView::new(row, &fetches))))
}
