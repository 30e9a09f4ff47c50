//! What an output would say of what has happened, before it is relied upon.

use super::filter::{Results, Said, Selector};
use super::rows::OutputV2;
use super::wire::{self, OutputPreviewRequest};
use crate::features::events::{EventV1, events_behind, kinds_named, log_ends, sort_of};
use base::Result;
use base::clock::Timestamp;
use base::ids::EventId;
use base::permission::Permissions;
use outputs::Answer;
use schemars::JsonSchema;
use serde::Serialize;
use server::permit::IntegrationsWrite;
use server::{Body, Org, OrgContext, apart_if};
use store::OrgRead;
use uuid::Uuid;

/// Events that a dry run looks at.
const DRY_EVENTS: u64 = 100;

base::words! {
    /// What an output says of an event.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    enum DryVerdict {
        /// It would be delivered.
        Delivered "delivered",
        /// It is of another kind, or of other pages.
        Other "other",
        /// The condition does not hold.
        No "no",
        /// A value that the condition needs is missing, or of another sort.
        Unknown "unknown",
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DryEventView {
    seq: u64,
    id: EventId,
    kind: String,
    at: Timestamp,
    domain: Option<String>,
    subject_type: String,
    #[schemars(with = "EventId")]
    subject_id: Uuid,
    verdict: DryVerdict,
}

/// What would have been delivered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DryRunView {
    /// Of the events below.
    delivered: usize,
    /// The last 100 of the log at most, newest first.
    events: Vec<DryEventView>,
}

/// What an output of these terms would have said.
pub(super) async fn preview(
    org: Org<IntegrationsWrite>,
    Body(request): Body<OutputPreviewRequest>,
) -> Result<Body<DryRunView>> {
    // A long condition takes its time to be read.
    let permissions = org.principal().permissions();
    let selector = apart_if(true, move || request.selector(permissions)).await??;
    run(&org, selector).await.map(Body)
}

/// What an output says, with `condition` in place of its own where one is given.
pub(super) async fn with_condition(
    org: &OrgContext,
    mut row: OutputV2,
    condition: Option<String>,
) -> Result<DryRunView> {
    let selector = apart_if(true, move || {
        if let Some(condition) = condition {
            row.condition = Some(wire::condition(condition)?);
        }
        Ok::<_, base::Error>(Selector::of(&row))
    });
    run(org, selector.await??).await
}

async fn run(org: &OrgContext, selector: Selector) -> Result<DryRunView> {
    let (store, permissions) = (org.store().clone(), org.principal().permissions());
    let looked = apart_if(true, move || store.read(|tx| said_of_last(tx, &selector, permissions)));
    let events = looked.await??;
    let delivered = events.iter().filter(|event| event.verdict == DryVerdict::Delivered).count();
    Ok(DryRunView { delivered, events })
}

/// Of the last events, those that who asks may be told of.
fn said_of_last(
    tx: &OrgRead<'_>,
    selector: &Selector,
    permissions: Permissions,
) -> Result<Vec<DryEventView>> {
    let last = log_ends(tx)?.last;
    let (events, _) = events_behind(tx, last.saturating_sub(DRY_EVENTS), DRY_EVENTS as usize)?;
    let is_theirs =
        |event: &EventV1| kinds_named("events", std::slice::from_ref(&event.kind), permissions).is_ok();
    let mut results = Results::default();
    let view = |event: EventV1| {
        let said = selector.ask(tx, &mut results, &event)?;
        Ok(DryEventView {
            verdict: match said {
                Said::Other => DryVerdict::Other,
                Said::Condition(Answer::Yes) => DryVerdict::Delivered,
                Said::Condition(Answer::No) => DryVerdict::No,
                Said::Condition(Answer::Unknown) => DryVerdict::Unknown,
            },
            seq: event.seq,
            id: event.id,
            at: event.at,
            domain: event.domain,
            subject_type: sort_of(&event.kind).to_owned(),
            subject_id: event.subject,
            kind: event.kind,
        })
    };
    events.into_iter().rev().filter(is_theirs).map(view).collect()
}
