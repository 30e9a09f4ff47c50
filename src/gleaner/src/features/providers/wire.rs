//! Providers on the wire (data/docs/api.md, "Providers").

use super::accounts::Providers;
use super::adapters::{Adapter, AdapterKind};
use super::rows::ProviderV1;
use base::clock::Timestamp;
use base::ids::{OrgId, ProviderId};
use base::limits::NAME_CHARS_MAX;
use fetch::{Attempt, CostSource, CreditMatrix, Fault, Outcome, TierPrice, fields};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Requests at once that a provider may be given.
pub(super) const CONCURRENCY_MAX: u32 = 1_000;
/// Credits that one delivery may be said to cost.
pub(super) const PRICE_MAX: u64 = 1_000_000;

/// Proxies in trouble that a provider's view names.
const PROXY_TROUBLES_SHOWN_MAX: usize = 20;

/// What a delivery costs, by tier.
pub type CreditsView = BTreeMap<String, PriceView>;

/// What a delivery costs in one tier.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct PriceView {
    /// Without rendering.
    pub plain: u64,
    pub render: u64,
}

fn credits_view(matrix: &CreditMatrix) -> CreditsView {
    let price = |row: &TierPrice| (row.tier.clone(), PriceView { plain: row.plain, render: row.render });
    matrix.tiers().iter().map(price).collect()
}

/// An adapter in the catalog.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdapterView {
    /// What `adapter` of a new provider names.
    pub adapter: String,
    name: String,
    about: String,
    /// The vendor's documentation.
    docs: Option<String>,
    /// The vendor's address, which `baseUrl` can replace; null where there is none.
    base_url: Option<String>,
    /// JSON Schema of `credentials`.
    credentials: Map<String, Value>,
    /// JSON Schema of `settings`.
    settings: Map<String, Value>,
    credits: CreditsView,
    /// Why it cannot be connected on this box; null when it can.
    unavailable: Option<String>,
}

impl AdapterView {
    pub fn new(adapter: &Adapter, unavailable: Option<String>) -> AdapterView {
        let schema = |list| match fields::schema(list) {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        AdapterView {
            adapter: adapter.id.clone(),
            name: adapter.name.clone(),
            about: adapter.about.clone(),
            docs: adapter.docs.clone(),
            base_url: adapter.base_url.as_ref().map(|url| url.to_string()),
            credentials: schema(&adapter.credentials),
            settings: schema(&adapter.settings),
            credits: credits_view(&adapter.credits),
            unavailable,
        }
    }
}

/// A connected provider. Its credentials are never shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderView {
    id: ProviderId,
    adapter: String,
    name: String,
    base_url: Option<String>,
    settings: Map<String, Value>,
    /// Whether credentials are kept for it.
    credentials_set: bool,
    /// What a delivery costs, by tier.
    credits: CreditsView,
    max_concurrency: Option<u32>,
    is_enabled: bool,
    /// Why it is left alone at the moment; null when it is not.
    trouble: Option<TroubleView>,
    /// How its proxies are; null for other adapters.
    proxies: Option<ProxiesView>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TroubleView {
    fault: Fault,
    error: String,
    since: Timestamp,
    /// When it is tried again.
    until: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProxiesView {
    /// Entries of the list.
    count: usize,
    /// How many of them are left alone at the moment.
    cooling: usize,
    /// The first of those.
    troubles: Vec<ProxyTroubleView>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProxyTroubleView {
    /// Without its login.
    proxy: String,
    error: String,
    /// When it is tried again.
    until: Timestamp,
}

impl ProviderView {
    pub fn new(providers: &Providers, org: OrgId, row: ProviderV1) -> ProviderView {
        let adapter = providers.adapters().get(&row.adapter);
        let over = adapter.map(|adapter| providers.prices(adapter, &row)).unwrap_or_default();
        let settings = match adapter {
            Some(adapter) => super::accounts::settings_of(adapter, &row),
            None => row.settings.0.as_object().cloned().unwrap_or_default(),
        };
        let trouble = providers.trouble(org, row.id).map(|(trouble, until)| TroubleView {
            fault: trouble.fault,
            error: trouble.error,
            since: trouble.at,
            until,
        });
        let proxies = providers.proxies(org, &row).map(|(count, cooling)| ProxiesView {
            count,
            cooling: cooling.len(),
            troubles: cooling
                .into_iter()
                .take(PROXY_TROUBLES_SHOWN_MAX)
                .map(|(cooling, until)| ProxyTroubleView {
                    proxy: cooling.proxy,
                    error: cooling.error,
                    until,
                })
                .collect(),
        });
        ProviderView {
            id: row.id,
            adapter: row.adapter,
            name: row.name,
            base_url: row.base_url,
            settings,
            credentials_set: !row.credentials.is_empty(),
            credits: adapter.map(|a| credits_view(&a.credits.overlaid(&over))).unwrap_or_default(),
            max_concurrency: row.max_concurrency,
            is_enabled: row.is_enabled,
            trouble,
            proxies,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// A provider to be connected.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewProvider {
    /// One of the catalog.
    pub adapter: String,
    /// What to call it; the adapter's name when left out.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    pub name: Option<String>,
    pub credentials: Option<Map<String, Value>>,
    pub settings: Option<Map<String, Value>>,
    /// Where a hosted provider is asked instead of at its vendor's address.
    pub base_url: Option<String>,
    /// Prices that replace the adapter's own, by tier.
    pub credits: Option<BTreeMap<String, NewPrice>>,
    /// Requests at once; as many as jobs run when left out.
    #[schemars(range(min = 1, max = CONCURRENCY_MAX))]
    pub max_concurrency: Option<u32>,
    /// True unless said otherwise.
    pub is_enabled: Option<bool>,
}

/// A price; what is left out stays the adapter's own.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub struct NewPrice {
    #[schemars(range(max = PRICE_MAX))]
    pub plain: Option<u64>,
    #[schemars(range(max = PRICE_MAX))]
    pub render: Option<u64>,
}

/// What to change of a provider; what is left out stays. Settings and credentials are merged, field by field.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderPatch {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    pub name: Option<String>,
    pub credentials: Option<Map<String, Value>>,
    pub settings: Option<Map<String, Value>>,
    /// Empty: the vendor's own again.
    pub base_url: Option<String>,
    /// Replaces all earlier ones; empty: the adapter's own again.
    pub credits: Option<BTreeMap<String, NewPrice>>,
    /// 0: no bound of its own again.
    #[schemars(range(max = CONCURRENCY_MAX))]
    pub max_concurrency: Option<u32>,
    pub is_enabled: Option<bool>,
}

impl ProviderPatch {
    pub fn is_empty(&self) -> bool {
        let ProviderPatch { name, credentials, settings, base_url, credits, max_concurrency, is_enabled } =
            self;
        let texts = name.is_none() && base_url.is_none();
        let fields = credentials.is_none() && settings.is_none() && credits.is_none();
        texts && fields && max_concurrency.is_none() && is_enabled.is_none()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct TestRequest {
    /// The page to fetch.
    pub url: String,
}

/// How a test went. It is no job: nothing is kept and nothing is charged, though the vendor may bill it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestView {
    outcome: Outcome,
    /// What is wrong with the account, when the outcome is provider_error.
    fault: Option<Fault>,
    http_status: Option<u16>,
    duration_ms: u64,
    bytes: u64,
    credits: u64,
    cost_source: CostSource,
    rule: Option<String>,
    error: Option<String>,
    final_url: Option<String>,
    /// Bytes of the page.
    page_bytes: Option<usize>,
}

impl From<Attempt> for TestView {
    fn from(attempt: Attempt) -> TestView {
        TestView {
            outcome: attempt.outcome,
            fault: attempt.fault,
            http_status: attempt.http_status,
            duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
            bytes: attempt.bytes,
            credits: attempt.credits,
            cost_source: attempt.cost_source,
            rule: attempt.rule,
            error: attempt.error,
            final_url: attempt.page.as_ref().map(|page| page.url.to_string()),
            page_bytes: attempt.page.map(|page| page.body.len()),
        }
    }
}

impl Adapter {
    /// Whether it is asked at an address that can be replaced.
    pub fn is_hosted(&self) -> bool {
        matches!(self.kind, AdapterKind::Hosted(_))
    }

    /// Whether its credentials are a list of proxies.
    pub fn is_proxy(&self) -> bool {
        matches!(self.kind, AdapterKind::Proxy)
    }
}
