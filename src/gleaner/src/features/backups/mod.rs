//! Backups: asked for by the operator (`gleaner backup`) or made by themselves (`[backup]`), while the box runs.
//!
//! What a backup is made of is the crate `backup`'s; this slice says what of a box goes into it, keeps to one at a time, and
//! tells how the last one went. The trunk's `crate::backups` has the commands that work without a running box.

mod bucket;
mod commands;
mod config;
mod organization;
mod place;
mod rows;
mod service;
mod task;

pub use commands::{BackupStart, BackupState};
pub use config::{BackupConfig, read_passphrase};
use organization::Returns;
pub use organization::{OrganizationRestoreStart, OrganizationRestoreState};
pub use place::{Done, Means, PAGES, Place, Wanted};
pub use service::{Backups, about, show};

use crate::config::SectionSpec;
use crate::features::Feature;
use crate::features::wiring::Wiring;
use base::Result;
use base::clock::Timestamp;
use blob::BlobStore;
use futures::future::BoxFuture;
use serde_json::Value;
use server::task::TaskSpec;
use server::{Metrics, Need, Services};
use std::sync::Arc;
use std::time::Duration;

/// How soon it is seen that a backup is due.
const DUE_EVERY: Duration = Duration::from_secs(5);

pub static FEATURE: Feature = Feature {
    name: "backups",
    uses: &["account", "api_keys", "auth", "mail", "schedules"],
    sections: &[SectionSpec::of::<BackupConfig>()],
    open: Some(open),
    status: Some(status),
    gauges: Some(gauges),
    commands: Some(commands::COMMANDS),
    tables: &[&rows::BACKUPS, &rows::COMING],
    needs: &[Need::of::<Backups>(), Need::of::<Returns>(), Need::of::<BlobStore>()],
    tasks: &[
        TaskSpec::new("backups.due", DUE_EVERY, |context| Box::pin(task::begin_due(context))),
        TaskSpec::new(organization::TASK, DUE_EVERY, |context| Box::pin(organization::carry(context))),
    ],
    close: Some(close),
    ..Feature::NONE
};

fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let place = Place::of(wiring.config);
        // A passphrase that cannot be read is found out now and not in the night.
        if !place.backup.schedule.is_empty() {
            place.backup.passphrase()?;
        }
        wiring.hang::<Backups>(Backups::new(place));
        wiring.hang::<Returns>(Returns::default());
        Ok(())
    })
}

fn close(services: Arc<Services>) -> BoxFuture<'static, ()> {
    Box::pin(async move { services.service::<Backups>().close().await })
}

fn status(services: &Services) -> Vec<(&'static str, Value)> {
    let state = services.service::<Backups>().state(services.system(), None);
    vec![("backup", state.unwrap_or_default())]
}

fn gauges(metrics: &Metrics, services: &Services) {
    let backups = services.service::<Backups>();
    metrics.gauge_of("gleaner_backup_running", "1 while a backup is being made.", &[], move || {
        f64::from(u8::from(backups.is_running()))
    });
    let system = services.system().clone();
    // A store that is closing answers nothing; the next look at the page is another box's.
    let age = move || {
        let good = service::last(&system).ok().and_then(|last| last.good);
        good.map_or(-1.0, |good| Timestamp::by_machine().since(good.moment).as_secs_f64())
    };
    let help =
        "Seconds since the moment that the newest good backup holds the box at; -1 where there is none.";
    metrics.gauge_of("gleaner_backup_age_seconds", help, &[], age);
    let system = services.system().clone();
    let failed = move || f64::from(u8::from(service::last(&system).is_ok_and(|last| last.failure.is_some())));
    metrics.gauge_of("gleaner_backup_failed", "1 where the last backup failed.", &[], failed);
}
