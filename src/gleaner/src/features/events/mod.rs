//! The log of what happened in an organization, and the stream of it.
//!
//! [`kind`]: kinds, declared by the slices that write them; [`log`]: the log inside a transaction; [`stream`]: Server-Sent
//! Events; [`wire`]: what is asked and answered; [`follow`]: for slices that follow the log; [`blocks`]: the log in the SQL console. What follows the log keeps a place in it (`seq`) and reads on from there: a
//! stream in its client's memory, others in a row of their own.

mod blocks;
mod config;
mod follow;
mod kind;
mod log;
mod rows;
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod wire;

pub use config::EventsConfig;
pub use follow::{LogEnds, events_behind, kinds_named, log_ends, place_before, sort_of};
pub use kind::EventKind;
pub use log::NewEvent;
pub use rows::EventV1;

use super::Feature;
use crate::config::SectionSpec;
use crate::features::wiring::Wiring;
use base::Result;
use base::clock::Moment;
use base::page::{Page, PageRequest};
use futures::future::BoxFuture;
use rows::{BLOCKS, EVENTS, LOGS};
use serde_json::{Value, json};
use server::permit::Member;
use server::task::{TaskContext, TaskSpec};
use server::{Accept, Body, Either, Handler, Metrics, Need, Org, Query, Route, Services, Standing};
use std::time::Duration;
use store::OrgWrite;
use stream::{EventStream, wants_stream};
use streams::Streams;
use wire::{EventFilter, EventQuery, EventView};

/// How soon what is over goes.
const TRIM_EVERY: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 3_600);

pub static FEATURE: Feature = Feature {
    name: "events",
    sections: &[SectionSpec::of::<EventsConfig>()],
    open: Some(open),
    status: Some(status),
    gauges: Some(gauges),
    tables: &[&EVENTS, &LOGS, &BLOCKS],
    routes: &[Route::get("/api/v1/events", "streamEvents", &Handler::new(events)).about(
        "What happened in the organization: a stream of Server-Sent Events, or a list of what is kept, newest first.",
    )
    .fails(&[base::Code::AuthForbidden, base::Code::RateLimited])],
    tasks: &[
        TaskSpec::new("events.trim", TRIM_EVERY, |context| Box::pin(trim_all(context))),
        TaskSpec::new("events.blocks", blocks::BLOCKS_EVERY, |context| Box::pin(blocks::gather_all(context))),
    ],
    views: &[blocks::VIEW],
    needs: &[Need::of::<Streams>()],
    ..Feature::NONE
};

/// How much of each log is kept. Hung up in the services.
struct LogTerms {
    kept_for: Duration,
    rows_max: u64,
}

/// Opens the slice's parts.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let config = wiring.config.section::<EventsConfig>();
        let (streams_per_org, streams) = (config.streams_per_org, config.streams);
        let terms = LogTerms { kept_for: DAY * config.retention_days, rows_max: config.rows_per_org };
        wiring.hang::<Streams>(Streams::new(streams_per_org, streams));
        wiring.hang::<LogTerms>(terms);
        Ok(())
    })
}

fn status(services: &Services) -> Vec<(&'static str, Value)> {
    vec![("eventStreams", json!(services.service::<Streams>().count()))]
}

fn gauges(metrics: &Metrics, services: &Services) {
    let streams = services.service::<Streams>();
    metrics.gauge_of("gleaner_event_streams", "Listeners to the streams of events.", &[], move || {
        streams.count() as f64
    });
}

async fn events(
    org: Org<Member>,
    Query(query): Query<EventQuery>,
    page: PageRequest,
    accept: Accept,
    standing: Standing,
) -> Result<Either<Body<Page<EventView>>, EventStream>> {
    let filter = EventFilter::of(query, org.principal().permissions())?;
    if wants_stream(&accept) {
        let place = org.service::<Streams>().open(org.id())?;
        return Ok(Either::Right(EventStream::open(org.store().clone(), standing, filter, place)?));
    }
    let wanted =
        |event: &EventV1| filter.after.is_none_or(|after| event.seq > after) && filter.accepts(event);
    let rows = org.read(|tx| tx.page(&EVENTS, &page, wanted))?;
    Ok(Either::Left(Body(rows.map(EventView::from))))
}

/// Removes some of the oldest events, with what the SQL console has of them; whether there may be more.
///
/// What the console does not have yet it is told of first: else a log that goes faster than it is put together would have
/// an empty table for a moment.
fn trim(tx: &OrgWrite<'_>, before: Moment, rows_max: u64) -> Result<bool> {
    let is_more = log::trim(tx, before, rows_max)?;
    blocks::gather(tx)?;
    blocks::trim(tx, log::log(tx)?.trimmed)?;
    Ok(is_more)
}

/// Removes what is older than the log's time, and what is beyond its rows.
async fn trim_all(context: TaskContext) -> Result<()> {
    let (terms, system, mut last) = (context.service::<LogTerms>(), context.system(), None);
    while let Some(org) = system.read(|tx| tx.next_org(LOGS.name(), last))? {
        last = Some(org);
        let (own, before, rows_max) =
            (system.org(org), context.moment().before(terms.kept_for), terms.rows_max);
        while !context.stopping() {
            match own.write_freeing(move |tx| trim(tx, before, rows_max)).await {
                Ok(true) => {}
                Ok(false) => break,
                // What fails of one organization keeps no other's.
                Err(error) => {
                    tracing::warn!(%org, %error, "a log of events could not be trimmed");
                    break;
                }
            }
        }
        if context.stopping() {
            break;
        }
    }
    Ok(())
}
