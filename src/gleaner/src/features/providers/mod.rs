//! Providers: connecting the ways to a page, trying them, and using them.
//!
//! An organization connects providers of the catalog's adapters; jobs go out through them. What a provider knows about
//! itself (its row) is here, how it fetches is the engine's, and which one a job tries next is the dispatcher's; between
//! them stands [`Providers`], which makes rows into accounts that fetch and remembers who is to be left alone.

mod accounts;
mod adapters;
mod config;
mod open;
mod path;
mod proxies;
mod rows;
mod service;
mod test_limits;
#[cfg(test)]
mod tests;
mod trials;
mod views;
mod vouched;
mod wire;

pub use accounts::{
    Account, AccountTrouble, Availability, PROVIDERS_PER_ORG_MAX, ProviderParts, Providers, enabled,
};
pub use adapters::{Adapter, Adapters, PROXY, visits_itself};
pub use config::{BrowserConfig, DispatchConfig, NetworkConfig, ProvidersConfig};
pub use path::Path;
pub use rows::{PROVIDERS, ProviderV1};
pub use service::{seed, seed_all};
pub use vouched::is_vouched_for;

pub use fetch::NOT_ASKED;

use super::Feature;
use crate::config::SectionSpec;
use base::audit::Action;
use base::ids::ProviderId;
use base::page::{Page, PageRequest};
use base::web::WebUrl;
use base::{Code, Error, Result};
use fetch::{AddressGuard, FetchRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use server::permit::{ProvidersRead, ProvidersWrite};
use server::{self, Body, Created, Handler, Need, NoContent, Org, OrgContext, Query, Route};
use std::sync::Arc;
use std::time::Duration;
use store::{Event, OrgStore};
use wire::{AdapterView, NewProvider, ProviderPatch, ProviderView, TestRequest, TestView};

/// How long a test may take, seconds; its request is answered a little later at most.
const TEST_SECS: u64 = 60;

pub static FEATURE: Feature = Feature {
    name: "providers",
    uses: &["auth"],
    sections: &[
        SectionSpec::of::<NetworkConfig>(),
        SectionSpec::of::<DispatchConfig>(),
        SectionSpec::of::<ProvidersConfig>(),
        SectionSpec::of::<BrowserConfig>(),
    ],
    open: Some(open::open),
    descriptors: Some(open::descriptors),
    seed: Some(|_| Box::new(|tx, new, _| seed(&tx.org(new.id)))),
    close: Some(open::close),
    tables: &[&PROVIDERS, &rows::SEEDED],
    routes: &[
        Route::get("/api/v1/providers/catalog", "listProviderCatalog", &Handler::new(catalog))
            .about("Every adapter that can be connected, with what it wants to know."),
        Route::get("/api/v1/providers", "listProviders", &Handler::new(list))
            .about("The connected providers, newest first; never their credentials."),
        Route::post("/api/v1/providers", "connectProvider", &Handler::new(connect))
            .about("Connects a provider. Its credentials are sealed and never shown again.")
            .fails(&[Code::InvalidUrl, Code::Conflict]),
        Route::get("/api/v1/providers/{id}", "getProvider", &Handler::new(get))
            .about("One connected provider."),
        Route::patch("/api/v1/providers/{id}", "updateProvider", &Handler::new(update))
            .about("Changes a provider. What is left out stays; settings and credentials are merged.")
            .fails(&[Code::InvalidUrl, Code::Conflict]),
        Route::delete("/api/v1/providers/{id}", "disconnectProvider", &Handler::new(disconnect))
            .about("Disconnects a provider and forgets its credentials; one that a published workflow asks, only by force.")
            .fails(&[Code::Conflict]),
        Route::post("/api/v1/providers/{id}/test", "testProvider", &Handler::new(test))
            .about(
                "Fetches one page through a provider and says how it went; ten times a minute. Nothing is kept or charged.",
            )
            .fails(&[Code::InvalidUrl, Code::RateLimited])
            .time_max_secs(TEST_SECS + 15),
    ],
    needs: &[Need::of::<Providers>(), Need::of::<ProviderUsers>(), Need::of::<AddressGuard>()],
    views: &[views::VIEW],
    ..Feature::NONE
};

async fn catalog(org: Org<ProvidersRead>, page: PageRequest) -> Result<Body<Page<AdapterView>>> {
    let providers = org.service::<Providers>();
    let view = |adapter: &Arc<Adapter>| AdapterView::new(adapter, providers.unavailable(adapter));
    let adapters: Vec<AdapterView> = providers.adapters().iter().map(view).collect();
    Ok(Body(page.of_whole("adapters", adapters, |view| &view.adapter)?))
}

async fn list(org: Org<ProvidersRead>, page: PageRequest) -> Result<Body<Page<ProviderView>>> {
    let providers = org.service::<Providers>();
    let rows = org.read(|tx| tx.page(&PROVIDERS, &page, |_| true))?;
    let id = org.id();
    Ok(Body(rows.map(|row| ProviderView::new(&providers, id, row))))
}

async fn get(
    org: Org<ProvidersRead>,
    server::Path(id): server::Path<ProviderId>,
) -> Result<Body<ProviderView>> {
    let row = org.read(|tx| tx.require(&PROVIDERS, &id))?;
    Ok(Body(ProviderView::new(&org.service::<Providers>(), org.id(), row)))
}

async fn connect(org: Org<ProvidersWrite>, Body(new): Body<NewProvider>) -> Result<Created<ProviderView>> {
    let providers = org.service::<Providers>();
    let row = providers.new_row(org.id(), new, &org.service::<AddressGuard>())?;
    let stored = row.clone();
    org.write(move |tx| {
        service::connect(tx, &stored)?;
        let event = Event::new(Action::ProviderConnected).of(stored.id);
        tx.audit(event.with("adapter", stored.adapter.as_str()))
    })
    .await?;
    Ok(Created(ProviderView::new(&providers, org.id(), row)))
}

async fn update(
    org: Org<ProvidersWrite>,
    server::Path(id): server::Path<ProviderId>,
    Body(patch): Body<ProviderPatch>,
) -> Result<Body<ProviderView>> {
    if patch.is_empty() {
        return Err(Error::new(Code::InvalidInput).message("The body names nothing that can be changed."));
    }
    service::concurrency(patch.max_concurrency.filter(|max| *max != 0))?;
    let (providers, guard) = (org.service::<Providers>(), org.service::<AddressGuard>());
    let (org_id, patching, forgiving) = (org.id(), providers.clone(), providers.clone());
    let row = org
        .write(move |tx| {
            let row = tx.require(&PROVIDERS, &id)?;
            let row = patching.patched(org_id, row, patch, &guard)?;
            tx.put(&PROVIDERS, &id, &row)?;
            // Whatever was wrong may be mended by this.
            tx.after_commit(move |_| forgiving.forgive(org_id, id));
            tx.audit(Event::new(Action::ProviderUpdated).of(id).with("isEnabled", row.is_enabled))?;
            Ok(row)
        })
        .await?;
    Ok(Body(ProviderView::new(&providers, org_id, row)))
}

type UsersFn = Box<dyn Fn(&OrgStore, ProviderId) -> Result<Vec<String>> + Send + Sync>;

/// Who relies on a provider. Hung up in the services.
pub struct ProviderUsers(UsersFn);

impl ProviderUsers {
    /// `find` gives the published workflows that ask a provider, each as a person knows it. It is the workflows slice's, which
    /// stands above this one, and may take a while.
    pub fn new(find: impl Fn(&OrgStore, ProviderId) -> Result<Vec<String>> + Send + Sync + 'static) -> Self {
        ProviderUsers(Box::new(find))
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct DisconnectQuery {
    /// Also when published workflows ask it; their jobs then take the failure edge there.
    force: bool,
}

/// Workflows that a refusal names.
const USERS_NAMED_MAX: usize = 5;

/// Refuses with 409 when published workflows ask the provider.
async fn refuse_in_use(org: &OrgContext, id: ProviderId) -> Result<()> {
    let (users, store) = (org.service::<ProviderUsers>(), org.store().clone());
    let found = tokio::task::spawn_blocking(move || users.0(&store, id)).await;
    let found = found.map_err(|e| Error::internal("look for a provider's workflows", e))??;
    if found.is_empty() {
        return Ok(());
    }
    let named = found.iter().take(USERS_NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match found.len().saturating_sub(USERS_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Error::conflict(format!(
        "Published workflows ask this provider: {named}{more}. Take it out of them or unpublish them first; with \
         ?force=true it is disconnected nevertheless, and their jobs take the failure edge there."
    )))
}

async fn disconnect(
    org: Org<ProvidersWrite>,
    server::Path(id): server::Path<ProviderId>,
    Query(how): Query<DisconnectQuery>,
) -> Result<NoContent> {
    org.read(|tx| tx.require(&PROVIDERS, &id))?;
    if !how.force {
        refuse_in_use(&org, id).await?;
    }
    let (org_id, providers) = (org.id(), org.service::<Providers>());
    org.write(move |tx| {
        tx.require(&PROVIDERS, &id)?;
        tx.delete(&PROVIDERS, &id)?;
        tx.after_commit(move |_| providers.forgive(org_id, id));
        tx.audit(Event::new(Action::ProviderDisconnected).of(id))
    })
    .await?;
    Ok(NoContent)
}

async fn test(
    org: Org<ProvidersWrite>,
    server::Path(id): server::Path<ProviderId>,
    Body(request): Body<TestRequest>,
) -> Result<Body<TestView>> {
    let row = org.read(|tx| tx.require(&PROVIDERS, &id))?;
    let refuse = |reason: String| Error::new(Code::InvalidUrl).message(format!("url: {reason}"));
    let url = WebUrl::parse(&request.url).map_err(|e| refuse(e.to_string()))?;
    let guard = org.service::<AddressGuard>();
    guard.check_literal(&url).map_err(|refused| refuse(refused.to_string()))?;
    let providers = org.service::<Providers>();
    let account = providers.account(org.id(), &row)?;
    let timeout = Duration::from_secs(TEST_SECS);
    let request = FetchRequest { timeout, ..FetchRequest::new(url) };
    let attempt = providers.try_page(org.id(), &account, request).await?;
    if attempt.is_final() {
        providers.forgive(org.id(), id);
    }
    Ok(Body(attempt.into()))
}
