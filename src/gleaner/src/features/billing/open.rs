//! What the slice opens at a start: the plans, what holds organizations to them, and how long things are kept.

use super::{Plans, Retention, Terms, open_account_of, room};
use crate::features::wiring::{OrgSeed, Wiring};
use base::Result;
use futures::future::BoxFuture;
use secrets::keyring::{Keyring, Purpose};
use serde_json::{Map, Value, json};
use server::{Metrics, Services};

/// Opens the slice's parts.
pub(super) fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let plans = wiring.hang::<Plans>(Plans::built_in()?);
        wiring.store().limit_room(room(plans.clone()));
        wiring.hang::<Retention>(Retention::new(*wiring.config.section::<Terms>(), plans));
        Ok(())
    })
}

/// An account with the default plan's credits, less what its owner has used in this period elsewhere.
pub(super) fn seed(services: &Services) -> OrgSeed {
    let (plans, keyring) = (services.service::<Plans>(), services.service::<Keyring>());
    Box::new(move |tx, new, email| {
        let (_, person) = keyring.sign(Purpose::PastUse, email.as_bytes());
        open_account_of(tx, new.id, plans.default_plan(), &person)
    })
}

/// What was removed because its time was over, since the box started.
pub(super) fn status(services: &Services) -> Vec<(&'static str, Value)> {
    let removed = services.service::<Retention>().removed.all();
    let removed: Map<_, _> =
        removed.into_iter().map(|(what, count)| (what.to_owned(), json!(count))).collect();
    vec![("retention", removed.into())]
}

pub(super) fn gauges(metrics: &Metrics, services: &Services) {
    let retention = services.service::<Retention>();
    for (what, _) in retention.removed.all() {
        let retention = retention.clone();
        let read = move || {
            let all = retention.removed.all();
            all.iter().find(|(name, _)| *name == what).map_or(0.0, |(_, count)| *count as f64)
        };
        let help = "What was removed because its time was over, since the start.";
        metrics.gauge_of("gleaner_retention_removed", help, &[("what", what)], read);
    }
}
