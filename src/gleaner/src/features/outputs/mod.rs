//! Outputs: events leave by themselves, as signed webhooks.
//!
//! [`wire`]: what an output may be; [`filter`]: which events it lets through (the language of its conditions is the crate
//! `outputs`); [`follow`]: how events become deliveries; [`payload`]: what is sent; [`turns`] and [`send`]: when, and what
//! becomes of it; [`mod@attempt`]: one try through the address guard; [`mod@disable`]: what is said when an endpoint is dead;
//! [`ledger`]: what people see and repeat of deliveries; [`sweep`]: what is over goes; [`keys`]: with what messages are signed.

mod attempt;
mod config;
mod disable;
mod filter;
mod follow;
mod keys;
mod ledger;
mod payload;
mod rows;
mod send;
mod service;
mod sweep;
mod turns;
mod views;
mod wire;

pub use config::OutputsConfig;

use super::{Feature, Holding};
use crate::config::SectionSpec;
use crate::features::events::log_ends;
use crate::features::wiring::Wiring;
use base::audit::Action;
use base::ids::OutputId;
use base::limits::{DELIVERIES_PENDING_MAX, OUTPUTS_PER_ORG_MAX};
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use fetch::AddressGuard;
use futures::future::BoxFuture;
use outputs::webhook::Key;
use rows::{
    DELIVERIES, GONE, GoneOutputV1, OUTPUTS, OutputKind, OutputStateV1, OutputV1, STATES, SignatureScheme,
    TO_SEND,
};
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use serde::Deserialize;
use serde_json::{Value, json};
use server::permit::{IntegrationsRead, IntegrationsWrite, Verified};
use server::task::TaskSpec;
use server::{
    Body, Created, Handler, Metrics, Need, NoContent, Org, OrgContext, Path, Query, Route, Services, apart_if,
};
use service::Deliverer;
use std::time::Duration;
use store::{Event, OrgRead, OrgWrite};
use wire::{NewOutput, OutputUpdate, OutputView, Within};

/// How soon it is seen that a log has grown.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// How soon sending goes on where it ended.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// How often all outputs are looked for anew.
const FIND_EVERY: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How long a key that was replaced signs beside the new one.
const OLD_KEYS_SIGN: Duration = Duration::from_secs(24 * 3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

pub static FEATURE: Feature = Feature {
    name: "outputs",
    uses: &["auth", "events", "extraction", "mail", "providers"],
    sections: &[SectionSpec::of::<OutputsConfig>()],
    events: &[&disable::DISABLED],
    open: Some(open),
    status: Some(status),
    gauges: Some(gauges),
    descriptors: Some(|_| turns::SOCKETS_MAX),
    tables: &[&OUTPUTS, &STATES, &DELIVERIES, &GONE],
    routes: &[
        Route::get("/api/v1/outputs", "listOutputs", &Handler::new(list))
            .about("The organization's outputs, newest first."),
        Route::post("/api/v1/outputs", "createOutput", &Handler::new(create))
            .secret()
            .about("Makes an output: events are delivered by themselves. The answer has its key, which is not shown again.")
            .fails(&[Code::InvalidInput, Code::InvalidUrl, Code::AuthForbidden, Code::Conflict]),
        Route::get("/api/v1/outputs/{id}", "getOutput", &Handler::new(get)).about("One output."),
        Route::patch("/api/v1/outputs/{id}", "updateOutput", &Handler::new(update))
            .secret()
            .about("Gives an output other terms, or other keys; what is left out stays.")
            .fails(&[Code::InvalidInput, Code::InvalidUrl, Code::AuthForbidden, Code::NotFound]),
        Route::delete("/api/v1/outputs/{id}", "deleteOutput", &Handler::new(delete))
            .about("Removes an output with its deliveries; nothing more is sent.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/outputs/{id}/test", "testOutput", &Handler::new(ledger::test))
            .about("Sends a message to see what the endpoint answers; or says which of the last events would be delivered.")
            .fails(&[Code::InvalidInput, Code::NotFound, Code::RateLimited]),
        Route::get("/api/v1/outputs/{id}/deliveries", "listDeliveries", &Handler::new(ledger::list))
            .about("What became of an output's deliveries, newest first."),
        Route::post("/api/v1/deliveries/{id}/redeliver", "redeliver", &Handler::new(ledger::redeliver))
            .about("Tries a delivery anew, under the same id.")
            .fails(&[Code::NotFound, Code::Conflict]),
        Route::post("/api/v1/outputs/{id}/recover", "recoverDeliveries", &Handler::new(ledger::recover))
            .about("Delivers what happened since a time and was not delivered: it failed, or the output was off.")
            .fails(&[Code::InvalidInput, Code::NotFound, Code::Conflict]),
    ],
    tasks: &[
        TaskSpec::new("outputs.find", FIND_EVERY, |context| Box::pin(follow::find_all(context))),
        TaskSpec::new("outputs.follow", FOLLOW_EVERY, |context| Box::pin(follow::follow_all(context))),
        TaskSpec::new("outputs.send", SEND_EVERY, |context| Box::pin(send::send_all(context))),
        TaskSpec::new("outputs.sweep", SWEEP_EVERY, |context| Box::pin(sweep::sweep(context))),
    ],
    views: &[views::OUTPUT_VIEW, views::DELIVERY_VIEW],
    holdings: &[Holding {
        name: "outputs that are sent to",
        remove: |context, org| {
            Box::pin(async move {
                context.service::<Deliverer>().forget(org);
                Ok(0)
            })
        },
    }],
    needs: &[Need::of::<Deliverer>(), Need::of::<AddressGuard>(), Need::of::<Keyring>()],
    ..Feature::NONE
};

/// Opens the slice's part.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let config = wiring.config.section::<OutputsConfig>();
        let kept = (DAY * config.retention_days, config.deliveries_per_org);
        let deliverer = Deliverer::new(wiring.part(), wiring.part(), wiring.url, kept);
        wiring.hang::<Deliverer>(deliverer);
        Ok(())
    })
}

fn status(services: &Services) -> Vec<(&'static str, Value)> {
    vec![("outputTurns", json!(services.service::<Deliverer>().turns.running()))]
}

fn gauges(metrics: &Metrics, services: &Services) {
    let deliverer = services.service::<Deliverer>();
    metrics.gauge_of("gleaner_output_turns", "Outputs that are being sent to.", &[], move || {
        deliverer.turns.running() as f64
    });
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct OutputFilter {
    kind: Option<OutputKind>,
    is_enabled: Option<bool>,
}

/// How a row is shown.
fn viewed(tx: &OrgRead<'_>, row: OutputV1) -> Result<OutputView> {
    let state = tx.get(&STATES, &row.id)?.unwrap_or_default();
    let pending = tx.count_index(&TO_SEND, row.id, DELIVERIES_PENDING_MAX)?;
    Ok(OutputView::new(row, state, pending, tx.clock()))
}

async fn list(
    org: Org<IntegrationsRead>,
    Query(filter): Query<OutputFilter>,
    page: PageRequest,
) -> Result<Body<Page<OutputView>>> {
    let wanted = |row: &OutputV1| {
        filter.kind.is_none_or(|kind| row.kind == kind)
            && filter.is_enabled.is_none_or(|is_enabled| row.is_enabled == is_enabled)
    };
    let rows = org.read(|tx| {
        let Page { items, next_cursor } = tx.page(&OUTPUTS, &page, wanted)?;
        let items = items.into_iter().map(|row| viewed(tx, row)).collect::<Result<_>>()?;
        Ok(Page { items, next_cursor })
    })?;
    Ok(Body(rows))
}

async fn get(org: Org<IntegrationsRead>, Path(id): Path<OutputId>) -> Result<Body<OutputView>> {
    Ok(Body(org.read(|tx| viewed(tx, tx.require(&OUTPUTS, &id)?))?))
}

/// Gives an output these keys in front of those that it has, which sign for a while beside them. What verifies them.
fn give_keys(org: &OrgContext, row: &mut OutputV1, made: Vec<Key>) -> Result<Vec<String>> {
    let (keyring, now) = (org.service::<Keyring>(), org.store().clock().moment());
    let end = now.after(OLD_KEYS_SIGN);
    let old = if row.keys.is_empty() { Vec::new() } else { keys::open(&keyring, org.id(), row)? };
    // Of each scheme the newest alone goes on: who rotates twice in a day wants the oldest gone.
    let going_on = old.into_iter().zip(row.keys.drain(..)).filter(|(_, info)| info.until.is_none());
    let (mut all, mut infos): (Vec<_>, Vec<_>) =
        made.iter().map(|key| (key.clone(), keys::info(key))).unzip();
    for (key, mut info) in going_on {
        info.until = Some(end);
        all.push(key);
        infos.push(info);
    }
    row.sealed_keys = keys::seal(&keyring, org.id(), row.id, &all)?;
    row.keys = infos;
    Ok(made.iter().filter_map(Key::verifying).collect())
}

async fn create(
    org: Org<Verified<IntegrationsWrite>>,
    Body(new): Body<NewOutput>,
) -> Result<Created<OutputView>> {
    let (guard, permissions) = (org.service::<AddressGuard>(), org.principal().permissions());
    // A condition's patterns are compiled to be checked.
    let check = move || new.checked(&Within { guard: &guard, permissions });
    let (mut row, schemes, given) = apart_if(true, check).await??;
    let of_scheme = |scheme: &SignatureScheme| match (&given, scheme) {
        (Some(given), SignatureScheme::V1) => Ok(given.clone()),
        _ => keys::make(*scheme),
    };
    let made = schemes.iter().map(of_scheme).collect::<Result<Vec<_>>>()?;
    let secrets = give_keys(&org, &mut row, made)?;
    let view = org.write(move |tx| {
        if tx.count(&OUTPUTS, OUTPUTS_PER_ORG_MAX)? >= OUTPUTS_PER_ORG_MAX {
            return Err(Error::conflict(format!(
                "An organization has at most {OUTPUTS_PER_ORG_MAX} outputs; delete one first."
            )));
        }
        (row.created_at, row.updated_at) = (tx.now(), tx.now());
        tx.insert(&OUTPUTS, &row.id, &row)?;
        // What happens from now on.
        let state = OutputStateV1 { place: log_ends(tx)?.last, ..OutputStateV1::default() };
        tx.insert(&STATES, &row.id, &state)?;
        tx.audit(Event::new(Action::OutputCreated).of(row.id).with("kind", row.kind.name()))?;
        viewed(tx, row)
    });
    let view = view.await?;
    org.service::<Deliverer>().look_again(org.id());
    Ok(Created(view.with_secrets(Some(secrets))))
}

async fn update(
    org: Org<IntegrationsWrite>,
    Path(id): Path<OutputId>,
    Body(update): Body<OutputUpdate>,
) -> Result<Body<OutputView>> {
    let (guard, permissions) = (org.service::<AddressGuard>(), org.principal().permissions());
    let check = move || update.checked(&Within { guard: &guard, permissions });
    let update = apart_if(true, check).await??;
    let before = org.read(|tx| tx.require(&OUTPUTS, &id))?;
    if update.is_redirecting() {
        wire::events(before.events.clone(), permissions)?;
    }
    let (mut row, rotates) = (before.clone(), update.rotate_secret == Some(true));
    update.apply(&mut row);
    let secrets = match rotates {
        true => {
            let schemes = before.keys.iter().filter(|info| info.until.is_none()).map(|info| info.scheme);
            let made = schemes.map(keys::make).collect::<Result<Vec<_>>>()?;
            Some(give_keys(&org, &mut row, made)?)
        }
        false => None,
    };
    let view = org.write(move |tx| {
        if tx.require(&OUTPUTS, &id)? != before {
            return Err(Error::conflict("The output was changed meanwhile: ask for it and change it again."));
        }
        if row == before {
            tx.unaudited("nothing is changed");
            return viewed(tx, row);
        }
        store_changed(tx, &before, &mut row)?;
        tx.audit(Event::new(Action::OutputUpdated).of(id))?;
        viewed(tx, row)
    });
    let view = view.await?;
    let deliverer = org.service::<Deliverer>();
    deliverer.turns.set_due(org.id(), id, org.store().clock().moment());
    deliverer.look_again(org.id());
    Ok(Body(view.with_secrets(secrets)))
}

/// Stores an output's new terms. One that is switched on goes on at the log's end, and its endpoint is given another chance.
fn store_changed(tx: &OrgWrite<'_>, before: &OutputV1, row: &mut OutputV1) -> Result<()> {
    (row.updated_at, row.revision) = (tx.now(), before.revision + 1);
    tx.put(&OUTPUTS, &row.id, row)?;
    let mut state = tx.get(&STATES, &row.id)?.unwrap_or_default();
    if row.is_enabled && !before.is_enabled {
        (state.place, state.recover_until) = (log_ends(tx)?.last, 0);
        (state.failing_since, state.not_before) = (None, None);
    }
    if row.url != before.url {
        (state.failing_since, state.not_before, state.last_error) = (None, None, None);
    }
    tx.put(&STATES, &row.id, &state)
}

async fn delete(org: Org<IntegrationsWrite>, Path(id): Path<OutputId>) -> Result<NoContent> {
    let deleted = org.write_freeing(move |tx| {
        tx.require(&OUTPUTS, &id)?;
        tx.delete(&OUTPUTS, &id)?;
        tx.delete(&STATES, &id)?;
        // Its deliveries may be many; they go behind it.
        tx.put(&GONE, &id, &GoneOutputV1 { at: tx.now() })?;
        tx.audit(Event::new(Action::OutputDeleted).of(id))
    });
    deleted.await?;
    Ok(NoContent)
}
