//! What the slice opens at a start: the address guard, politeness, direct fetching, browsers and the vendors' templates.

use super::{
    BrowserConfig, DispatchConfig, NetworkConfig, ProviderParts, Providers, ProvidersConfig, seed_all,
};
use crate::config::Config;
use crate::features::auth::list_orgs;
use crate::features::wiring::Wiring;
use base::Result;
use fetch::{
    AddressGuard, BrowserSettings, Browsers, Direct, FetchSettings, Politeness, VisitLimits, user_agent,
};
use futures::future::BoxFuture;
use server::Services;
use std::sync::Arc;
use std::time::Duration;

/// Opens the slice's parts.
pub(super) fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let config = wiring.config;
        let network: &NetworkConfig = config.section();
        let guard = AddressGuard::new(&network.allow, wiring.listening)
            .answering(network.hosts.keys().map(String::as_str));
        let guard = wiring.hang::<AddressGuard>(guard);
        let politeness = Politeness::new(pace(config));
        wiring.hang::<Politeness>(politeness.clone());
        let direct = Direct::new(fetch_settings(config), guard.as_ref().clone());
        let browsers = wiring.hang::<Browsers>(Browsers::new(browser_settings(config)));
        let providers = Providers::new(ProviderParts {
            templates: config.section::<ProvidersConfig>().templates()?,
            direct: wiring.hang::<Direct>(direct.asking(politeness.clone())),
            browsers,
            keyring: wiring.part(),
            politeness,
            robots: config.section::<DispatchConfig>().robots,
            lower_prices: config.section::<ProvidersConfig>().lower_prices,
            clock: wiring.store().clock().clone(),
        });
        wiring.hang::<Providers>(providers);
        let system = wiring.system();
        let orgs = system.read(list_orgs)?;
        seed_all(&system, orgs.iter().map(|org| org.id).collect()).await?;
        Ok(())
    })
}

/// Sockets and pipes of a page in the browser.
const OF_PAGE: u64 = 8;

/// What the browser's pages take of the open files.
pub(super) fn descriptors(config: &Config) -> u64 {
    config.section::<BrowserConfig>().pages as u64 * OF_PAGE
}

fn pace(config: &Config) -> VisitLimits {
    let dispatch: &DispatchConfig = config.section();
    VisitLimits {
        per_domain_concurrency: dispatch.per_domain_concurrency,
        min_delay: Duration::from_millis(dispatch.min_delay_ms),
        pause_max: Duration::from_secs(dispatch.pause_max_sec),
    }
}

fn fetch_settings(config: &Config) -> FetchSettings {
    let network: &NetworkConfig = config.section();
    let contact = Some(network.contact.as_str()).filter(|contact| !contact.is_empty());
    FetchSettings {
        user_agent: user_agent(contact),
        hosts: network.hosts.clone(),
        resolving_proxies: network.resolving_proxies.clone(),
        ..FetchSettings::default()
    }
}

fn browser_settings(config: &Config) -> BrowserSettings {
    let BrowserConfig { executable, sandbox, pages, memory_mb } = config.section();
    BrowserSettings {
        executable: executable.clone(),
        sandbox: *sandbox,
        pages: *pages,
        memory_bytes_max: memory_mb << 20,
        profiles: config.storage.data_dir.join("browser"),
        ..BrowserSettings::default()
    }
}

pub(super) fn close(services: Arc<Services>) -> BoxFuture<'static, ()> {
    Box::pin(async move { services.service::<Browsers>().close().await })
}
