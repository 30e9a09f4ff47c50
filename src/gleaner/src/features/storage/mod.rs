//! Where an organization's pages lie: in the box's own folder, or in S3-compatible storage of its own.
//!
//! [`wire`]: what is asked and shown; [`rows`]: storages, and which page lies where; [`places`]: changing that; [`service`]:
//! who reads pages from storages; [`touched`]: which of them were kept again; [`moving`], [`mod@turn`] and [`bring`]: the task that
//! moves them; [`mod@probe`]: the test; [`tell`]: what is said; [`erase`]: what goes with an organization.

mod bring;
mod erase;
mod moving;
mod places;
mod probe;
mod rows;
mod service;
mod tell;
mod touched;
mod turn;
mod wire;

pub use rows::REMOTE;

use super::Feature;
use crate::features::wiring::Wiring;
use base::audit::Action;
use base::limits::PAGE_STORAGES_MAX;
use base::{Code, Error, Result};
use blob::{BlobStore, Elsewhere};
use fetch::{AddressGuard, Direct};
use futures::future::BoxFuture;
use probe::{ProbeView, probe};
use rows::{OBJECTS_TO_GO, STORAGE_SUMS, STORAGES, StorageV1};
use secrets::keyring::Keyring;
use serde_json::{Value, json};
use server::permit::{IntegrationsRead, IntegrationsWrite};
use server::task::TaskSpec;
use server::{Body, Handler, Metrics, Need, NoContent, Org, OrgContext, Route, Services};
use service::Storages;
use std::sync::Arc;
use std::time::Duration;
use store::{Event, OrgWrite};
use wire::{Checked, NewStorage, StorageView};

/// How soon the task begins again that moves pages; while it runs it looks itself.
const MOVE_EVERY: Duration = Duration::from_secs(1);
/// Seconds after which somebody comes again who has as many tests as they may.
const RETRY_AFTER: &str = "5";

pub static FEATURE: Feature = Feature {
    name: "storage",
    uses: &["events", "extraction", "providers"],
    open: Some(open),
    status: Some(status),
    gauges: Some(gauges),
    events: tell::KINDS,
    tables: &[&STORAGES, &REMOTE, &OBJECTS_TO_GO, &STORAGE_SUMS],
    routes: &[
        Route::get("/api/v1/storage", "getStorage", &Handler::new(get))
            .about("Where the organization's pages lie, how much that is, and how a move of them stands."),
        Route::put("/api/v1/storage", "putStorage", &Handler::new(put))
            .about("Pages are to lie in this storage; those that there are move there by themselves, and can be read meanwhile.")
            .fails(&[Code::InvalidInput, Code::InvalidUrl, Code::Conflict]),
        Route::delete("/api/v1/storage", "deleteStorage", &Handler::new(delete))
            .about("Pages are to lie in the box's own folder again; they come back by themselves."),
        Route::post("/api/v1/storage/test", "testStorage", &Handler::new(test))
            .about("Puts, reads, lists and removes an object in a storage, and says which step failed and why: the one given, or the one in use.")
            .fails(&[Code::InvalidInput, Code::InvalidUrl, Code::NotFound, Code::RateLimited]),
    ],
    tasks: &[TaskSpec::new("storage.move", MOVE_EVERY, |context| Box::pin(moving::move_all(context)))],
    holdings: erase::HOLDINGS,
    needs: &[Need::of::<Storages>(), Need::of::<AddressGuard>(), Need::of::<Keyring>()],
    ..Feature::NONE
};

/// Opens the slice's part.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let connector = Arc::clone(wiring.part::<Direct>().connector());
        let wait = Duration::from_secs(wiring.config.storage.upload_after_sec);
        let storages = Storages::new(wiring.system(), connector, wiring.part(), wait);
        let storages = wiring.hang::<Storages>(storages);
        wiring.part::<BlobStore>().look_elsewhere(storages as Arc<dyn Elsewhere>);
        Ok(())
    })
}

fn status(services: &Services) -> Vec<(&'static str, Value)> {
    let (failing, turns) = services.service::<Storages>().numbers();
    vec![("storagesFailing", json!(failing)), ("storageTurns", json!(turns))]
}

fn gauges(metrics: &Metrics, services: &Services) {
    let storages = services.service::<Storages>();
    let help = "Storages of organizations that do not work at the moment.";
    metrics.gauge_of("gleaner_storages_failing", help, &[], move || storages.numbers().0 as f64);
}

async fn get(org: Org<IntegrationsRead>) -> Result<Body<StorageView>> {
    let storages = org.service::<Storages>();
    Ok(Body(org.read(|tx| StorageView::of(tx, &storages))?))
}

/// The secret of a storage that comes without one: of the row that it goes on with.
fn secret_before(org: &OrgContext, asked: &StorageV1) -> Result<String> {
    let rows = org.read(places::storages)?;
    let before = rows.iter().find(|row| row.is_same_place(asked) && row.access_key_id == asked.access_key_id);
    let before = before.ok_or_else(|| {
        Error::invalid("secretAccessKey", "is missing: there is no storage of this bucket and access key yet")
    })?;
    org.service::<Storages>().open(org.id(), before)
}

async fn put(org: Org<IntegrationsWrite>, Body(new): Body<NewStorage>) -> Result<Body<StorageView>> {
    let storages = org.service::<Storages>();
    let Some(mut checked) = new.checked(&org.service::<AddressGuard>())? else {
        back(&org).await?;
        return Ok(Body(org.read(|tx| StorageView::of(tx, &storages))?));
    };
    let mut row = checked.row();
    if checked.lacks_secret {
        checked.settings.secret_access_key = secret_before(&org, &row)?;
    }
    // The number is in what the secret is sealed for, so it is chosen first, and looked at again when it is written.
    let known = org.read(places::storages)?;
    let same = known.iter().find(|known| known.is_same_place(&row)).cloned();
    row.number = match &same {
        Some(same) => same.number,
        None => storages.next_number(&known),
    };
    row.sealed_secret = storages.seal(org.id(), row.number, &checked.settings.secret_access_key)?;
    let parts = Arc::clone(&storages);
    let view = org.write(move |tx| {
        if places::storages(tx)? != known {
            return Err(Error::conflict("The storage was changed meanwhile: look at it and ask again."));
        }
        keep(tx, row, same, &known)?;
        StorageView::of(tx, &parts)
    });
    let view = view.await?;
    storages.look_again(org.id());
    Ok(Body(view))
}

/// Keeps a storage as the one that pages are to lie in.
fn keep(tx: &OrgWrite<'_>, mut row: StorageV1, same: Option<StorageV1>, known: &[StorageV1]) -> Result<()> {
    if same.is_none() && known.len() >= PAGE_STORAGES_MAX {
        return Err(Error::conflict(format!(
            "Pages still lie in {PAGE_STORAGES_MAX} storages: wait until they have left one of them, or go on with one."
        )));
    }
    (row.created_at, row.updated_at) = (tx.now(), tx.now());
    if let Some(same) = same {
        (row.created_at, row.revision) = (same.created_at, same.revision + 1);
    }
    leave_targets(tx, known, row.number)?;
    tx.put(&STORAGES, &row.number, &row)?;
    let event = Event::new(Action::StorageChanged).of(tx.org_id());
    tx.audit(event.with("bucket", row.bucket.as_str()).with("prefix", row.prefix.as_str()))
}

/// New pages go to no storage but this one.
fn leave_targets(tx: &OrgWrite<'_>, known: &[StorageV1], but: u64) -> Result<()> {
    for other in known.iter().filter(|other| other.is_target && other.number != but) {
        let left = StorageV1 { is_target: false, updated_at: tx.now(), ..other.clone() };
        tx.put(&STORAGES, &left.number, &left)?;
    }
    Ok(())
}

/// Pages are to lie in the box's own folder.
async fn back(org: &OrgContext) -> Result<()> {
    let back = org.write_freeing(move |tx| {
        let known = places::storages(tx)?;
        if !known.iter().any(|row| row.is_target) {
            tx.unaudited("nothing is changed");
            return Ok(());
        }
        leave_targets(tx, &known, u64::MAX)?;
        tx.audit(Event::new(Action::StorageRemoved).of(tx.org_id()))
    });
    back.await?;
    org.service::<Storages>().look_again(org.id());
    Ok(())
}

async fn delete(org: Org<IntegrationsWrite>) -> Result<NoContent> {
    back(&org).await?;
    Ok(NoContent)
}

async fn test(org: Org<IntegrationsWrite>, asked: Option<Body<NewStorage>>) -> Result<Body<ProbeView>> {
    let storages = org.service::<Storages>();
    let checked = match asked {
        Some(Body(asked)) => asked.checked(&org.service::<AddressGuard>())?,
        None => None,
    };
    let settings = match checked {
        Some(Checked { lacks_secret: false, settings, .. }) => settings,
        Some(mut checked) => {
            checked.settings.secret_access_key = secret_before(&org, &checked.row())?;
            checked.settings
        }
        None => {
            let rows = org.read(places::storages)?;
            let target = rows.into_iter().find(|row| row.is_target);
            let target = target.ok_or_else(|| Error::not_found(STORAGES.noun()))?;
            service::settings(&target, storages.open(org.id(), &target)?)?
        }
    };
    let Some(_place) = storages.test_place(org.id()) else {
        let message = "Your organization has as many tests under way as it may.";
        return Err(Error::new(Code::RateLimited).message(message).header("retry-after", RETRY_AFTER));
    };
    let (id, bucket) = (org.id(), settings.bucket.clone());
    org.write(move |tx| tx.audit(Event::new(Action::StorageTested).of(id).with("bucket", bucket))).await?;
    let client = storages.client_of(org.id(), &settings);
    let client = client.map_err(|error| Error::invalid("bucket", error.to_string()))?;
    Ok(Body(Box::pin(probe(&client, org.id(), settings.conditional_puts)).await))
}
