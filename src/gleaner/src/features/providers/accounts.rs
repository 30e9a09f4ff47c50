//! Providers that are ready to fetch, and which of them is left alone for the moment.
//!
//! A row becomes an [`Account`] when it is first needed, and anew when the row has changed: its credentials are opened
//! once and not for every request. The breakers live beside the accounts, in memory only: after a restart everybody is
//! trusted again, and who is broken says so at the first request.

use super::adapters::{
    Adapter, AdapterKind, Adapters, LOAD_MEDIA, OBEY_ROBOTS, PROXY, WAIT_MS, WAIT_UNTIL, WAIT_UNTIL_LOADED,
    WAIT_UNTIL_PARSED,
};
use super::proxies;
use super::rows::{PROVIDERS, PriceV1, ProviderV1};
use super::test_limits::ProviderTests;
use base::clock::{Clock, Timestamp};
use base::ids::{OrgId, ProviderId};
use base::web::{Domain, WebUrl};
use base::{Error, Result};
use fetch::proxies::CoolingProxy;
use fetch::templates::Account as HostedAccount;
use fetch::{
    Admission, Attempt, BreakerReport, Breakers, BrowserProvider, Browsers, Direct, DirectProvider, Fault,
    FetchRequest, Hosted, NOT_ASKED, Outcome, PageSettings, Politeness, Provider, ProxyList, ProxyProvider,
    Templates, TierPrice, Until, Values, fields,
};
use parking_lot::Mutex;
use secrets::keyring::{Keyring, SealContext};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use store::OrgRead;
use tokio::sync::Semaphore;

/// Providers of one organization.
pub const PROVIDERS_PER_ORG_MAX: usize = 100;
/// Accounts kept ready. One more and all are let go; each is made again when it is needed.
const LIVE_MAX: usize = 4_096;

/// What the box gives to its providers.
pub struct ProviderParts {
    pub templates: Templates,
    pub direct: Arc<Direct>,
    pub browsers: Arc<Browsers>,
    pub keyring: Arc<Keyring>,
    /// What jobs visit by; tests of providers visit by it, too.
    pub politeness: Politeness,
    /// `providers.lower_prices`: whether an organization's prices may be below the adapter's.
    pub lower_prices: bool,
    /// `dispatch.robots`: false lets nobody obey.
    pub robots: bool,
    pub clock: Clock,
}

/// Every organization's providers.
pub struct Providers {
    adapters: Adapters,
    parts: ProviderParts,
    state: Mutex<AccountsState>,
    trials: ProviderTests,
}

#[derive(Default)]
struct AccountsState {
    live: HashMap<(OrgId, ProviderId), Arc<Account>>,
    accounts: Breakers<(OrgId, ProviderId)>,
    domains: Breakers<(OrgId, ProviderId, Domain)>,
    troubles: HashMap<(OrgId, ProviderId), AccountTrouble>,
}

/// A provider that is ready to fetch.
pub struct Account {
    pub id: ProviderId,
    pub name: String,
    pub adapter: Arc<Adapter>,
    org: OrgId,
    settings: Values,
    credits: Vec<TierPrice>,
    obeys_robots: bool,
    provider: Arc<dyn Provider>,
    /// The list that it goes through, of the adapter `proxy`.
    proxies: Option<Arc<ProxyList>>,
    slots: Option<Arc<Semaphore>>,
    revision: u32,
}

/// Why an account is left alone.
#[derive(Clone, Debug)]
pub struct AccountTrouble {
    pub fault: Fault,
    pub error: String,
    pub at: Timestamp,
}

/// Whether a provider may be asked now.
#[derive(Clone, Debug)]
pub enum Availability {
    Ready,
    /// It has failed in a row at this domain; others should be tried first.
    WeakHere,
    /// The account is left alone until then.
    Cooling {
        until: Instant,
        trouble: Option<AccountTrouble>,
    },
}

impl Providers {
    pub fn new(parts: ProviderParts) -> Providers {
        let adapters = Adapters::new(&parts.templates);
        Providers { adapters, parts, state: Mutex::default(), trials: ProviderTests::default() }
    }

    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// Why this box has no use for an adapter, in words for a customer; none when it has.
    pub fn unavailable(&self, adapter: &Adapter) -> Option<String> {
        match adapter.kind {
            AdapterKind::Browser => self.parts.browsers.lack(),
            _ => None,
        }
    }

    pub(super) fn keyring(&self) -> &Keyring {
        &self.parts.keyring
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// The account of a row, ready to fetch. Fails when the row's adapter is gone, or its credentials cannot be opened.
    pub fn account(&self, org: OrgId, row: &ProviderV1) -> Result<Arc<Account>> {
        let key = (org, row.id);
        if let Some(live) = self.state.lock().live.get(&key).filter(|live| live.revision == row.revision) {
            return Ok(live.clone());
        }
        let account = Arc::new(self.open(org, row)?);
        let mut state = self.state.lock();
        if state.live.len() >= LIVE_MAX {
            state.live.clear();
        }
        state.live.insert(key, account.clone());
        Ok(account)
    }

    fn open(&self, org: OrgId, row: &ProviderV1) -> Result<Account> {
        let adapter = self.adapter_of(row)?;
        let settings = settings_of(&adapter, row);
        let credits = self.prices(&adapter, row);
        let matrix = adapter.credits.overlaid(&credits);
        let obeys_robots =
            self.parts.robots && settings.get(OBEY_ROBOTS).and_then(Value::as_bool).unwrap_or(true);
        let direct = &self.parts.direct;
        let mut proxies = None;
        let provider: Arc<dyn Provider> = match &adapter.kind {
            AdapterKind::Direct => Arc::new(DirectProvider::new(direct.clone(), matrix)),
            AdapterKind::Proxy => {
                let list = proxies::list(&self.open_credentials(org, row)?, &settings)
                    .map_err(|e| Error::internal("read a provider's proxies", e))?;
                let list = Arc::new(list);
                proxies = Some(list.clone());
                // What one account's proxies say is believed for that account only, and not after a change of its list.
                let scope = format!("{}/{} ", row.id, row.revision);
                Arc::new(ProxyProvider::new(direct.clone(), list, scope, matrix))
            }
            AdapterKind::Browser => {
                let browsers = self.parts.browsers.clone();
                Arc::new(BrowserProvider::new(browsers, direct.clone(), page_settings(&settings), matrix))
            }
            AdapterKind::Hosted(template) => {
                let base_url = row.base_url.as_deref().map(WebUrl::parse).transpose();
                let account = HostedAccount {
                    base_url: base_url.map_err(|e| Error::internal("read a provider's address", e))?,
                    credentials: self.open_credentials(org, row)?,
                    settings: settings.clone(),
                    credits: matrix,
                };
                Arc::new(Hosted::new(template.clone(), account, direct.connector().clone()))
            }
        };
        let slots = row.max_concurrency.map(|max| Arc::new(Semaphore::new(max as usize)));
        let (id, name, revision) = (row.id, row.name.clone(), row.revision);
        Ok(Account {
            id,
            name,
            adapter,
            org,
            settings,
            credits,
            obeys_robots,
            provider,
            proxies,
            slots,
            revision,
        })
    }

    fn adapter_of(&self, row: &ProviderV1) -> Result<Arc<Adapter>> {
        self.adapters
            .get(&row.adapter)
            .cloned()
            .ok_or_else(|| Error::unavailable(format!("This box has no adapter {} (any more).", row.adapter)))
    }

    /// The row's credentials, opened.
    pub(super) fn open_credentials(&self, org: OrgId, row: &ProviderV1) -> Result<Values> {
        let open = |(name, sealed): &(String, Vec<u8>)| {
            let opened = self
                .parts
                .keyring
                .open(&place(&org, &row.id, name), sealed)
                .map_err(|e| Error::internal("open a provider's credentials", e))?;
            let value = serde_json::from_slice(&opened)
                .map_err(|e| Error::internal("read a provider's credentials", e))?;
            Ok((name.clone(), value))
        };
        row.credentials.iter().map(open).collect()
    }

    /// What a delivery through this provider costs; nothing when its adapter is gone.
    pub fn price(&self, row: &ProviderV1, render: bool, premium: bool) -> u64 {
        let Some(adapter) = self.adapters.get(&row.adapter) else { return 0 };
        adapter.price(&settings_of(adapter, row), &self.prices(adapter, row), render, premium)
    }

    /// The prices that replace the adapter's own. One below it (from before that needed leave) is the adapter's own again
    /// where the operator does not let organizations have them.
    pub(super) fn prices(&self, adapter: &Adapter, row: &ProviderV1) -> Vec<TierPrice> {
        let own = |tier: &str, render| {
            if self.parts.lower_prices { 0 } else { adapter.credits.price(tier, render) }
        };
        let price = |price: &PriceV1| TierPrice {
            tier: price.tier.clone(),
            plain: price.plain.max(own(&price.tier, false)),
            render: price.render.max(own(&price.tier, true)),
        };
        row.credits.iter().map(price).collect()
    }

    pub(super) fn trials(&self) -> &ProviderTests {
        &self.trials
    }

    pub(super) fn politeness(&self) -> &Politeness {
        &self.parts.politeness
    }

    pub(super) fn lower_prices(&self) -> bool {
        self.parts.lower_prices
    }

    /// Whether a provider may be asked now, without taking the one trial that a broken one has.
    pub fn standing(&self, org: OrgId, id: ProviderId, domain: &Domain) -> Availability {
        let now = Instant::now();
        let state = self.state.lock();
        match state.accounts.look(&(org, id), now) {
            Admission::NotBefore(until) => {
                return Availability::Cooling { until, trouble: state.troubles.get(&(org, id)).cloned() };
            }
            Admission::Go => {}
        }
        match state.domains.look(&(org, id, domain.clone()), now) {
            Admission::NotBefore(_) => Availability::WeakHere,
            Admission::Go => Availability::Ready,
        }
    }

    /// Fetches a page through an account, whatever its standing, and remembers what that says about it. Waits for one
    /// of the account's slots as long as the request may take.
    pub async fn fetch(&self, account: &Account, request: FetchRequest) -> Attempt {
        let domain = request.url.domain();
        let robots = request.robots && account.obeys_robots;
        let request = FetchRequest { robots, owner: Some(account.org), ..request };
        let _slot = match &account.slots {
            None => None,
            Some(slots) => match tokio::time::timeout(request.timeout, slots.acquire()).await {
                Ok(Ok(slot)) => Some(slot),
                // Our own bound and not the provider's word, so it says nothing about the account.
                _ => {
                    let error = "maxConcurrency is used up by other requests";
                    let rule = Some(NOT_ASKED.to_owned());
                    return Attempt { rule, ..Attempt::faulty(Fault::Throttled, error) };
                }
            },
        };
        let trial = BreakerTrial::begin(self, account, domain.clone());
        let attempt = account.provider.fetch(&request).await;
        if attempt.lack.is_some() || attempt.rule.as_deref() == Some(NOT_ASKED) {
            // What the box itself has too little of says nothing about the account; the trial is let go.
            return attempt;
        }
        trial.end();
        self.note(account, domain, &attempt);
        attempt
    }

    /// Whether an account has as many requests under way as it may have.
    pub fn is_crowded(&self, org: OrgId, id: ProviderId) -> bool {
        let state = self.state.lock();
        let slots = state.live.get(&(org, id)).and_then(|account| account.slots.as_ref());
        slots.is_some_and(|slots| slots.available_permits() == 0)
    }

    /// Takes the trial of a breaker that is half open, so that others wait for it.
    fn begin(&self, account: &Account, domain: &Domain) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.accounts.ask(&(account.org, account.id), now);
        state.domains.ask(&(account.org, account.id, domain.clone()), now);
    }

    /// A request was given up before its answer: if it was the trial, another one may be made.
    fn let_go(&self, account: &Account, domain: Domain) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.accounts.report(&(account.org, account.id), BreakerReport::Neutral, now);
        state.domains.report(&(account.org, account.id, domain), BreakerReport::Neutral, now);
    }

    /// What an attempt says of an account, for tests of who waits for it.
    #[cfg(test)]
    pub fn hear(&self, account: &Account, domain: Domain, attempt: &Attempt) {
        self.note(account, domain, attempt);
    }

    fn note(&self, account: &Account, domain: Domain, attempt: &Attempt) {
        let now = Instant::now();
        let key = (account.org, account.id);
        let on_account = match attempt.outcome {
            // Nobody knows whose silence it is.
            Outcome::Timeout => BreakerReport::Neutral,
            _ => BreakerReport::on_account(attempt.fault, attempt.retry_after),
        };
        let mut state = self.state.lock();
        let on_account = match on_account {
            // It was under way when the pause began, and does not end it.
            BreakerReport::Good if state.accounts.is_open(&key, now) => BreakerReport::Neutral,
            report => report,
        };
        match (on_account, attempt.fault) {
            (BreakerReport::Bad { .. }, Some(fault)) => {
                let error = attempt.error.clone().unwrap_or_default();
                tracing::info!(provider = %account.id, fault = fault.as_str(), %error, "a provider is left alone for a while");
                state.troubles.insert(key, AccountTrouble { fault, error, at: self.parts.clock.now() });
            }
            (BreakerReport::Good, _) => {
                state.troubles.remove(&key);
            }
            _ => {}
        }
        state.accounts.report(&key, on_account, now);
        let at_domain = match attempt.left_alone_until {
            Some(_) => BreakerReport::Neutral,
            None => BreakerReport::at_domain(attempt.outcome, attempt.http_status),
        };
        state.domains.report(&(key.0, key.1, domain), at_domain, now);
    }

    /// What keeps an account from being asked now, and until when.
    pub(super) fn trouble(&self, org: OrgId, id: ProviderId) -> Option<(AccountTrouble, Timestamp)> {
        let now = Instant::now();
        let state = self.state.lock();
        match state.accounts.look(&(org, id), now) {
            Admission::Go => None,
            Admission::NotBefore(until) => {
                let trouble = state.troubles.get(&(org, id)).cloned()?;
                Some((trouble, self.parts.clock.now().after(until.duration_since(now))))
            }
        }
    }

    /// How many proxies an account has, and which of them are left alone until when; none for other accounts.
    pub(super) fn proxies(
        &self,
        org: OrgId,
        row: &ProviderV1,
    ) -> Option<(usize, Vec<(CoolingProxy, Timestamp)>)> {
        if row.adapter != PROXY {
            return None;
        }
        let account = self.account(org, row).ok()?;
        let list = account.proxies.as_ref()?;
        let (instant, now) = (Instant::now(), self.parts.clock.now());
        let until = |cooling: CoolingProxy| {
            let until = now.after(cooling.until.saturating_duration_since(instant));
            (cooling, until)
        };
        Some((list.len(), list.cooling().into_iter().map(until).collect()))
    }

    /// Forgets what went wrong with an account: it was changed, or somebody has seen it work.
    pub(super) fn forgive(&self, org: OrgId, id: ProviderId) {
        let mut state = self.state.lock();
        state.accounts.reset(|key| *key == (org, id));
        state.domains.reset(|key| (key.0, key.1) == (org, id));
        state.troubles.remove(&(org, id));
        state.live.remove(&(org, id));
    }
}

impl Account {
    /// What of a request it cannot do, in words; none when it can do everything.
    pub fn lacks(&self, request: &FetchRequest) -> Option<String> {
        self.adapter.lacks(&self.settings, request)
    }

    /// What a delivery through it costs.
    pub fn price(&self, render: bool, premium: bool) -> u64 {
        self.adapter.price(&self.settings, &self.credits, render, premium)
    }
}

fn page_settings(settings: &Values) -> PageSettings {
    let default = PageSettings::default();
    PageSettings {
        until: match settings.get(WAIT_UNTIL).and_then(Value::as_str) {
            Some(WAIT_UNTIL_PARSED) => Until::Parsed,
            Some(WAIT_UNTIL_LOADED) => Until::Loaded,
            _ => Until::Idle,
        },
        wait_ms: settings.get(WAIT_MS).and_then(Value::as_u64).map_or(default.wait_ms, |ms| ms as u32),
        load_media: settings.get(LOAD_MEDIA).and_then(Value::as_bool).unwrap_or(default.load_media),
        ..default
    }
}

/// A request under way, which may be the one trial of a broken provider. A run that is canceled, or loses a race, drops it.
struct BreakerTrial<'a> {
    providers: &'a Providers,
    account: &'a Account,
    domain: Option<Domain>,
}

impl<'a> BreakerTrial<'a> {
    fn begin(providers: &'a Providers, account: &'a Account, domain: Domain) -> BreakerTrial<'a> {
        providers.begin(account, &domain);
        BreakerTrial { providers, account, domain: Some(domain) }
    }

    /// There is an answer.
    fn end(mut self) {
        self.domain = None;
    }
}

impl Drop for BreakerTrial<'_> {
    fn drop(&mut self) {
        if let Some(domain) = self.domain.take() {
            self.providers.let_go(self.account, domain);
        }
    }
}

/// Where a credential is sealed.
pub(super) fn place<'a>(org: &'a OrgId, id: &'a ProviderId, field: &'a str) -> SealContext<'a> {
    SealContext { org: org.0.as_bytes(), table: PROVIDERS.name(), id: id.0.as_bytes(), field }
}

/// The row's settings with the adapter's defaults. What the adapter no longer takes falls back to the default, so that
/// an upgrade never stops a provider that worked.
pub(super) fn settings_of(adapter: &Adapter, row: &ProviderV1) -> Values {
    let mut given = row.settings.0.as_object().cloned().unwrap_or_default();
    given.retain(|name, value| {
        adapter.settings.iter().any(|field| field.name == *name && field.refuse(value).is_none())
    });
    fields::check("settings", &adapter.settings, &given).unwrap_or(given)
}

/// The organization's enabled providers, in the order of creation.
pub fn enabled(tx: &OrgRead<'_>) -> Result<Vec<ProviderV1>> {
    let rows = tx.readable(&PROVIDERS, None, PROVIDERS_PER_ORG_MAX)?.rows;
    Ok(rows.into_iter().map(|(_, row)| row).filter(|row| row.is_enabled).collect())
}
