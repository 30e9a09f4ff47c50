//! Outputs: events leave by themselves, as signed webhooks.
//!
//! [`wire`]: what an output may be; [`kinds`]: by which ways events leave, a file each; [`filter`]: which events it lets through (the language of its conditions is the crate
//! `outputs`); [`follow`]: how events become deliveries; [`payload`]: what is sent; [`turns`] and [`send`]: when, and what
//! becomes of it; [`mod@attempt`]: one try through the address guard; [`mod@disable`]: what is said when an endpoint is dead;
//! [`ledger`]: what people see and repeat of deliveries; [`letters`]: events as letters to people; [`letter_places`]: their way out;
//! [`batches`]: rows of results, in batches; [`room`]: where files go, and how many; [`sweep`]: what is over goes; [`keys`]: with what messages are signed.

mod attempt;
mod batches;
mod config;
mod disable;
mod filter;
mod follow;
mod keys;
mod kinds;
mod ledger;
mod letter_places;
mod letters;
mod payload;
mod places;
mod preview;
mod room;
mod rows;
mod send;
mod service;
mod sweep;
mod turns;
mod views;
mod wire;

pub use config::OutputsConfig;

use super::{Comeback, Feature, Holding};
use crate::config::SectionSpec;
use crate::features::auth::Auth;
use crate::features::events::log_ends;
use crate::features::mail::Mailer;
use crate::features::wiring::{Folder, Wiring};
use base::audit::Action;
use base::ids::OutputId;
use base::limits::{DELIVERIES_PENDING_MAX, OUTPUTS_PER_ORG_MAX};
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use fetch::AddressGuard;
use futures::future::BoxFuture;
use kinds::Within;
use room::Room;
use rows::{
    DELIVERIES, FEED_ITEMS, FEED_ITEMS_MAX, GONE, GoneOutputV1, OUTPUTS, OutputKind, OutputStateV1, OutputV2,
    STATES, TO_SEND,
};
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use secrets::link::Links;
use serde::Deserialize;
use serde_json::{Value, json};
use server::permit::{IntegrationsRead, IntegrationsWrite, Verified};
use server::task::TaskSpec;
use server::{
    Body, Created, Handler, Metrics, Need, NoContent, Org, OrgContext, Path, Query, Route, Services, apart_if,
};
use service::{Deliverer, DelivererParts};
use std::sync::Arc;
use std::time::Duration;
use store::{Event, OrgRead, OrgWrite};
use wire::{NewOutput, OutputUpdate, OutputView};

/// How soon following goes on where it ended.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// How soon sending goes on where it ended.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// Where files go, unless the operator says otherwise.
const FOLDER: &str = "outputs";
/// How often all outputs are looked for anew.
const FIND_EVERY: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3_600);

pub static FEATURE: Feature = Feature {
    name: "outputs",
    uses: &["auth", "events", "extraction", "mail", "providers", "schedules"],
    sections: &[SectionSpec::of::<OutputsConfig>()],
    events: &[&disable::DISABLED],
    open: Some(open),
    status: Some(status),
    gauges: Some(gauges),
    descriptors: Some(|_| turns::SOCKETS_MAX + letter_places::CONNECTIONS_MAX as u64),
    tables: &[
        &OUTPUTS,
        &STATES,
        &DELIVERIES,
        &GONE,
        &FEED_ITEMS,
        &batches::CHUNKS,
        &batches::OPEN,
        &letters::RECIPIENTS,
        &letters::DIGESTS,
        &letters::ITEMS,
        &letters::TAKEN,
        &letters::HOURS,
    ],
    pages: &[
        Route::get("/mail/unsubscribe/{token}", "unsubscribePage", &Handler::new(letters::pages::unsubscribe_page)),
        Route::post("/mail/unsubscribe/{token}", "unsubscribe", &Handler::new(letters::pages::unsubscribe)),
        Route::get("/mail/confirm/{token}", "confirmLettersPage", &Handler::new(letters::pages::confirm_page)),
        Route::post("/mail/confirm/{token}", "confirmLetters", &Handler::new(letters::pages::confirm)),
    ],
    personal: letters::personal::KINDS,
    routes: &[
        Route::get("/api/v1/outputs", "listOutputs", &Handler::new(list))
            .about("The organization's outputs, newest first."),
        Route::post("/api/v1/outputs", "createOutput", &Handler::new(create))
            .secret()
            .about("Makes an output: events are delivered by themselves. The answer has its key, which is not shown again.")
            .fails(&[Code::InvalidInput, Code::InvalidUrl, Code::AuthForbidden, Code::Conflict]),
        Route::post("/api/v1/outputs/preview", "previewOutput", &Handler::new(preview::preview))
            .about("Says which of the last 100 events an output of these terms would have delivered; nothing is saved or sent.")
            .fails(&[Code::InvalidInput]),
        Route::get("/api/v1/outputs/{id}", "getOutput", &Handler::new(get)).about("One output."),
        Route::patch("/api/v1/outputs/{id}", "updateOutput", &Handler::new(update))
            .secret()
            .about("Gives an output other terms, or other keys; what is left out stays.")
            .fails(&[Code::InvalidInput, Code::InvalidUrl, Code::AuthForbidden, Code::NotFound]),
        Route::delete("/api/v1/outputs/{id}", "deleteOutput", &Handler::new(delete))
            .about("Removes an output with its deliveries and the batches that wait; nothing more is sent. What it has written stays: files, objects and tables are the organization's own.")
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
        Route::get("/api/v1/feeds/{token}", "readFeed", &Handler::new(kinds::feed::read))
            .about("A feed's newest 100 events, as RSS 2.0 or Atom. The token in the address is the credential.")
            .fails(&[Code::NotFound]),
    ],
    tasks: &[
        TaskSpec::new("outputs.find", FIND_EVERY, |context| Box::pin(follow::find_all(context))),
        TaskSpec::new("outputs.follow", FOLLOW_EVERY, |context| Box::pin(follow::follow_all(context))),
        TaskSpec::new("outputs.send", SEND_EVERY, |context| Box::pin(send::send_all(context))),
        TaskSpec::new("outputs.sweep", SWEEP_EVERY, |context| Box::pin(sweep::sweep(context))),
    ],
    views: &[views::OUTPUT_VIEW, views::DELIVERY_VIEW],
    folders: &[Folder { name: FOLDER, is_needed: false }],
    comeback: Comeback {
        open: Some(("outputsSwitchedOff", disable::after_comeback)),
        files: Some(|services, org| services.service::<Deliverer>().room.recount(org)),
        ..Comeback::NONE
    },
    holdings: &[Holding {
        name: "files of outputs",
        remove: |context, org| {
            Box::pin(async move {
                let room = Arc::clone(&context.service::<Deliverer>().room);
                let erased = tokio::task::spawn_blocking(move || room.erase(org)).await;
                let erased = erased.map_err(|e| Error::internal("remove the files of outputs", e))?;
                erased.map_err(|e| Error::internal("remove the files of outputs", e))?;
                Ok(0)
            })
        },
    }, Holding {
        name: "outputs that are sent to",
        remove: |context, org| {
            Box::pin(async move {
                context.service::<Deliverer>().forget(org);
                Ok(0)
            })
        },
    }],
    needs: &[
        Need::of::<Deliverer>(),
        Need::of::<AddressGuard>(),
        Need::of::<Keyring>(),
        Need::of::<Mailer>(),
        Need::of::<Links>(),
    ],
    ..Feature::NONE
};

/// Opens the slice's part.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        outputs::chat::products().map_err(|reason| Error::internal("read data/outputs", reason))?;
        let config = wiring.config.section::<OutputsConfig>();
        let root = match config.folder.as_os_str().is_empty() {
            true => wiring.data(FOLDER),
            false => config.folder.clone(),
        };
        let room = Room::new(root, config.folder_mb_per_org << 20, wiring.config.storage.reserve_mb << 20);
        let deliverer = Deliverer::new(DelivererParts {
            direct: wiring.part(),
            keyring: wiring.part(),
            mailer: wiring.part(),
            links: wiring.part(),
            url: wiring.url,
            kept_for: DAY * config.retention_days,
            rows_max: config.deliveries_per_org,
            letters_per_hour: config.letters_per_hour,
            room,
        });
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
fn viewed(tx: &OrgRead<'_>, row: OutputV2, letters_per_hour: u32) -> Result<OutputView> {
    let email = letters::view(tx, &row, letters_per_hour)?;
    let state = tx.get(&STATES, &row.id)?.unwrap_or_default();
    let pending = tx.count_index(&TO_SEND, row.id, DELIVERIES_PENDING_MAX)?;
    Ok(OutputView::new(row, state, pending, tx.clock()).with_email(email))
}

async fn list(
    org: Org<IntegrationsRead>,
    Query(filter): Query<OutputFilter>,
    page: PageRequest,
) -> Result<Body<Page<OutputView>>> {
    let wanted = |row: &OutputV2| {
        filter.kind.is_none_or(|kind| row.target.kind() == kind)
            && filter.is_enabled.is_none_or(|is_enabled| row.is_enabled == is_enabled)
    };
    let per_hour = org.service::<Deliverer>().letters_per_hour;
    let rows = org.read(|tx| {
        let Page { items, next_cursor } = tx.page(&OUTPUTS, &page, wanted)?;
        let items = items.into_iter().map(|row| viewed(tx, row, per_hour)).collect::<Result<_>>()?;
        Ok(Page { items, next_cursor })
    })?;
    Ok(Body(rows))
}

async fn get(org: Org<IntegrationsRead>, Path(id): Path<OutputId>) -> Result<Body<OutputView>> {
    let per_hour = org.service::<Deliverer>().letters_per_hour;
    Ok(Body(org.read(|tx| viewed(tx, tx.require(&OUTPUTS, &id)?, per_hour))?))
}

/// With what people are asked whether they want letters.
fn asking(deliverer: &Deliverer) -> letters::Asking<'_> {
    letters::Asking { links: &deliverer.links, keyring: &deliverer.keyring, url: &deliverer.url }
}

/// Checks a request apart from the threads that answer.
async fn within<T: Send + 'static>(
    org: &OrgContext,
    check: impl FnOnce(&Within<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (guard, keyring) = (org.service::<AddressGuard>(), org.service::<Keyring>());
    let deliverer = org.service::<Deliverer>();
    let (id, permissions, now) = (org.id(), org.principal().permissions(), org.store().clock().look());
    let checked = apart_if(true, move || {
        let (base, has_mail) = (&deliverer.url, deliverer.mailer.smtp().is_some());
        check(&Within { org: id, guard: &guard, keyring: &keyring, base, has_mail, permissions, now })
    });
    checked.await?
}

async fn create(
    org: Org<Verified<IntegrationsWrite>>,
    Body(new): Body<NewOutput>,
) -> Result<Created<OutputView>> {
    // A condition's patterns are compiled to be checked.
    let recipients = new.recipients()?.unwrap_or_default();
    let (mut row, secrets) = within(&org, move |within| new.checked(within)).await?;
    let (own, deliverer) = (org.id(), org.service::<Deliverer>());
    let auth = org.service::<Auth>();
    let view = auth.system().write(move |all| {
        let tx = &all.org(own);
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
        if row.target.kind() == OutputKind::Email {
            letters::list(all, own, &row, &recipients, &asking(&deliverer))?;
        }
        tx.audit(Event::new(Action::OutputCreated).of(row.id).with("kind", row.target.kind().name()))?;
        viewed(tx, row, deliverer.letters_per_hour)
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
    let before = org.read(|tx| tx.require(&OUTPUTS, &id))?;
    let (old, recipients) = (before.clone(), update.recipients()?);
    let (mut row, secrets) = within(&org, move |within| update.applied(old, within)).await?;
    let (own, deliverer) = (org.id(), org.service::<Deliverer>());
    let parts = Arc::clone(&deliverer);
    let auth = org.service::<Auth>();
    let view = auth.system().write(move |all| {
        let (tx, per_hour) = (&all.org(own), parts.letters_per_hour);
        if tx.require(&OUTPUTS, &id)? != before {
            return Err(Error::conflict("The output was changed meanwhile: ask for it and change it again."));
        }
        if row == before && recipients.is_none() {
            tx.unaudited("nothing is changed");
            return viewed(tx, row, per_hour);
        }
        store_changed(tx, &before, &mut row)?;
        if let Some(recipients) = recipients {
            letters::list(all, own, &row, &recipients, &asking(&parts))?;
        }
        tx.audit(Event::new(Action::OutputUpdated).of(id))?;
        viewed(tx, row, per_hour)
    });
    let view = view.await?;
    deliverer.turns.set_due(org.id(), id, org.store().clock().moment());
    deliverer.look_again(org.id());
    Ok(Body(view.with_secrets(secrets)))
}

/// Stores an output's new terms. One that is switched on goes on at the log's end, and its endpoint is given another chance.
fn store_changed(tx: &OrgWrite<'_>, before: &OutputV2, row: &mut OutputV2) -> Result<()> {
    (row.updated_at, row.revision) = (tx.now(), before.revision + 1);
    tx.put(&OUTPUTS, &row.id, row)?;
    let mut state = tx.get(&STATES, &row.id)?.unwrap_or_default();
    if row.is_enabled && !before.is_enabled {
        (state.place, state.recover_until) = (log_ends(tx)?.last, 0);
        (state.failing_since, state.not_before) = (None, None);
    }
    if row.target.is_elsewhere(&before.target) {
        (state.failing_since, state.not_before, state.last_error) = (None, None, None);
    }
    tx.put(&STATES, &row.id, &state)
}

async fn delete(org: Org<IntegrationsWrite>, Path(id): Path<OutputId>) -> Result<NoContent> {
    let own = org.id();
    let auth = org.service::<Auth>();
    let deleted = auth.system().write_freeing(move |all| {
        let tx = &all.org(own);
        tx.require(&OUTPUTS, &id)?;
        letters::remove(all, own, id)?;
        tx.delete(&OUTPUTS, &id)?;
        tx.delete(&STATES, &id)?;
        for place in 0..FEED_ITEMS_MAX {
            tx.delete(&FEED_ITEMS, &(id, place))?;
        }
        // Its deliveries may be many; they go behind it.
        tx.put(&GONE, &id, &GoneOutputV1 { at: tx.now() })?;
        tx.audit(Event::new(Action::OutputDeleted).of(id))
    });
    deleted.await?;
    Ok(NoContent)
}
