//! What people see and repeat of deliveries, and trying an output before it is relied upon.

use super::batches;
use super::follow::try_anew;
use super::kinds::{self, Outgoing};
use super::letters;
use super::rows::{BY_OUTPUT, DELIVERIES, DeliveryState, DeliveryV1, OUTPUTS, OutputKind, STATES};
use super::send::message_id;
use super::service::Deliverer;
use super::wire::DeliveryView;
use super::{payload, preview};
use crate::features::auth::Auth;
use crate::features::events::{log_ends, place_before};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{DeliveryId, OutputId};
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use outputs::condition::TEXT_CHARS_MAX;
use outputs::retry::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{IntegrationsRead, IntegrationsWrite};
use server::{Accepted, Body, Org, Path, Query, apart_if};
use store::{Event, OrgRead};
use uuid::Uuid;

/// Deliveries that one step looks at to find those that failed.
const ROWS_PER_STEP: usize = 500;
/// Seconds after which who was turned away may test again.
const RETRY_AFTER: &str = "15";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeliveryFilter {
    state: Option<DeliveryState>,
}

pub(super) async fn list(
    org: Org<IntegrationsRead>,
    Path(id): Path<OutputId>,
    Query(filter): Query<DeliveryFilter>,
    page: PageRequest,
) -> Result<Body<Page<DeliveryView>>> {
    let wanted = |row: &DeliveryV1| filter.state.is_none_or(|state| row.state == state);
    let rows = org.read(|tx| {
        tx.require(&OUTPUTS, &id)?;
        let rows = tx.page_by(&DELIVERIES, &BY_OUTPUT, id, &page, wanted)?;
        Ok(rows.map(|row| DeliveryView::new(row, tx.clock())))
    })?;
    Ok(Body(rows))
}

pub(super) async fn redeliver(
    org: Org<IntegrationsWrite>,
    Path(id): Path<DeliveryId>,
) -> Result<Accepted<DeliveryView>> {
    let row = org.write(move |tx| {
        let row = tx.require(&DELIVERIES, &id)?;
        let output = tx.get(&OUTPUTS, &row.output)?.ok_or_else(|| Error::not_found(DELIVERIES.noun()))?;
        if !output.is_enabled {
            return Err(Error::conflict("The output is switched off; switch it on first."));
        }
        let row = try_anew(tx, row)?;
        tx.audit(Event::new(Action::DeliveryRepeated).of(id).with("outputId", Uuid::from(row.output)))?;
        Ok((row.output, DeliveryView::new(row, tx.clock())))
    });
    let (output, view) = row.await?;
    let moment = org.store().clock().moment();
    org.service::<Deliverer>().turns.set_due(org.id(), output, moment);
    Ok(Accepted::new(view))
}

/// From when on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecoverRequest {
    since: Timestamp,
}

/// What is looked at anew.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecoverView {
    output_id: OutputId,
    /// Events behind this place of the log …
    from: u64,
    /// … up to this one.
    to: u64,
    /// The time that was asked for is before the oldest event that is kept.
    is_incomplete: bool,
}

pub(super) async fn recover(
    org: Org<IntegrationsWrite>,
    Path(id): Path<OutputId>,
    Body(request): Body<RecoverRequest>,
) -> Result<Accepted<RecoverView>> {
    let (store, since) = (org.store().clone(), request.since);
    let failed = apart_if(true, move || store.read(|tx| failed_since(tx, id, since))).await??;
    let view = org.write(move |tx| {
        let output = tx.require(&OUTPUTS, &id)?;
        if output.target.kind() == OutputKind::Feed {
            return Err(Error::conflict("A feed delivers nothing: it shows what happens while it is on."));
        }
        if !output.is_enabled {
            return Err(Error::conflict("The output is switched off; switch it on first."));
        }
        if request.since > tx.now() {
            return Err(Error::invalid("since", "is in the future"));
        }
        let ends = log_ends(tx)?;
        let from = place_before(tx, request.since)?;
        let is_incomplete = from == ends.trimmed && ends.trimmed > 0;
        let mut state = tx.get(&STATES, &id)?.unwrap_or_default();
        for failed in failed {
            let row = tx.get(&DELIVERIES, &failed)?.filter(|row| row.state == DeliveryState::Failed);
            row.map(|row| try_anew(tx, row)).transpose()?;
        }
        let to = state.place.max(state.recover_until);
        (state.place, state.recover_until) = (from.min(state.place), to);
        tx.put(&STATES, &id, &state)?;
        tx.audit(Event::new(Action::OutputRecovered).of(id).with("from", from).with("to", to))?;
        Ok(RecoverView { output_id: id, from, to, is_incomplete })
    });
    let view = view.await?;
    let deliverer = org.service::<Deliverer>();
    deliverer.turns.set_due(org.id(), id, org.store().clock().moment());
    deliverer.look_again(org.id());
    Ok(Accepted::new(view))
}

/// Batches and letters that failed are tried anew, those with something from then on. What happened while the output was off
/// becomes others of its own. A delivery of one event is found by its event instead.
fn failed_since(tx: &OrgRead<'_>, output: OutputId, since: Timestamp) -> Result<Vec<DeliveryId>> {
    let target = tx.require(&OUTPUTS, &output)?.target;
    let (mut failed, mut after) = (Vec::new(), None::<Vec<u8>>);
    if target.batches().is_none() && target.kind() != OutputKind::Email {
        return Ok(failed);
    }
    loop {
        let step = tx.readable_by(&DELIVERIES, &BY_OUTPUT, output, None, after.as_deref(), ROWS_PER_STEP)?;
        let is_meant = |row: &DeliveryV1| row.state == DeliveryState::Failed && row.event_at >= since;
        failed.extend(step.rows.iter().filter(|(_, row)| is_meant(row)).map(|(id, _)| *id));
        after = step.more();
        if after.is_none() {
            return Ok(failed);
        }
    }
}

/// How an output is tried.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OutputTestRequest {
    /// True: nothing is sent; the answer says which of the last 100 events would be delivered.
    dry_run: bool,
    /// A dry run's: with this condition in place of the output's.
    #[schemars(length(min = 1, max = TEXT_CHARS_MAX))]
    condition: Option<String>,
}

/// What came of a test: one of the two.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputTestView {
    sent: Option<TestMessageView>,
    dry_run: Option<preview::DryRunView>,
}

/// What the endpoint answered to a message that tells nothing (`output.test`).
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TestMessageView {
    is_delivered: bool,
    webhook_id: String,
    status: Option<u16>,
    /// The beginning of the answer, or why there was none.
    told: String,
    duration_ms: u64,
}

pub(super) async fn test(
    org: Org<IntegrationsWrite>,
    Path(id): Path<OutputId>,
    request: Option<Body<OutputTestRequest>>,
) -> Result<Body<OutputTestView>> {
    let request = request.map(|Body(request)| request).unwrap_or_default();
    let row = org.read(|tx| tx.require(&OUTPUTS, &id))?;
    if request.dry_run {
        let view = preview::with_condition(&org, row, request.condition).await?;
        return Ok(Body(OutputTestView { sent: None, dry_run: Some(view) }));
    }
    if request.condition.is_some() {
        return Err(Error::invalid("condition", "is for a dry run"));
    }
    if row.target.kind() == OutputKind::Feed {
        return Err(Error::conflict(
            "A feed sends nothing; it is read at its address. A dry run says what would be in it.",
        ));
    }
    let deliverer = org.service::<Deliverer>();
    let Some(_place) = deliverer.test_place(org.id()) else {
        let message = "Your organization has as many tests under way as it may.";
        return Err(Error::new(Code::RateLimited).message(message).header("retry-after", RETRY_AFTER));
    };
    org.write(move |tx| tx.audit(Event::new(Action::OutputTested).of(id))).await?;
    let now = org.store().clock().look();
    let body = payload::of_test(now.date, id.into(), &row.name).numbered(0);
    let webhook_id = message_id(DeliveryId::new());
    let message = Outgoing { id: webhook_id.clone(), body: &body };
    let mut tried = match row.target.batches() {
        Some(_) => batches::test(&deliverer, org.store(), &row).await?,
        None if row.target.kind() == OutputKind::Email => {
            let system = org.service::<Auth>().system().clone();
            vec![letters::test(&deliverer, &system, (org.id(), &row), (&body, now)).await?]
        }
        None => kinds::send(&deliverer, (org.id(), &row), &[message], now).await?,
    };
    let tried =
        tried.pop().ok_or_else(|| Error::internal("test an output", "nothing was tried".to_owned()))?;
    let sent = TestMessageView {
        is_delivered: tried.verdict == Verdict::Delivered,
        webhook_id,
        status: tried.status,
        told: tried.told,
        duration_ms: u64::try_from(tried.duration.as_millis()).unwrap_or(u64::MAX),
    };
    Ok(Body(OutputTestView { sent: Some(sent), dry_run: None }))
}
