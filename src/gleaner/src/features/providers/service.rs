//! Connecting and changing providers: what is checked, what is sealed.

use super::accounts::{PROVIDERS_PER_ORG_MAX, Providers, place};
use super::adapters::{Adapter, DIRECT};
use super::proxies;
use super::rows::{PROVIDERS, PriceV1, ProviderV1, SEEDED, SeededV1};
use super::wire::{CONCURRENCY_MAX, NewPrice, NewProvider, PRICE_MAX, ProviderPatch};
use base::codec::Json;
use base::ids::{OrgId, ProviderId};
use base::name::Name;
use base::web::WebUrl;
use base::{Code, Error, Result};
use fetch::{AddressGuard, FieldError, Values, fields};
use serde_json::Value;
use std::collections::BTreeMap;
use store::{OrgWrite, System, readable};

fn field_error(error: FieldError) -> Error {
    Error::invalid(&error.field, error.reason)
}

impl Providers {
    /// The row of a new provider; everything is checked and sealed that can be without the store.
    pub(super) fn new_row(&self, org: OrgId, new: NewProvider, guard: &AddressGuard) -> Result<ProviderV1> {
        let adapter = self.adapters().get(&new.adapter).ok_or_else(|| {
            let known: Vec<_> = self.adapters().iter().map(|adapter| adapter.id.as_str()).collect();
            Error::invalid("adapter", format!("must be one of {}", known.join(", ")))
        })?;
        if let Some(reason) = self.unavailable(adapter) {
            return Err(Error::invalid("adapter", format!("{} cannot be used: {reason}", adapter.id)));
        }
        let id = ProviderId::new();
        let name = Name::parse("name", new.name.as_deref().unwrap_or(&adapter.name))?;
        let settings = fields::check("settings", &adapter.settings, &new.settings.unwrap_or_default())
            .map_err(field_error)?;
        let credentials =
            fields::check("credentials", &adapter.credentials, &new.credentials.unwrap_or_default())
                .map_err(field_error)?;
        if adapter.is_proxy() {
            proxies::check(&credentials, guard).map_err(field_error)?;
        }
        let now = self.now();
        Ok(ProviderV1 {
            id,
            name: name.into_string(),
            base_url: base_url(adapter, new.base_url.as_deref().unwrap_or_default(), guard)?,
            settings: Json(Value::Object(settings)),
            credentials: self.seal(org, id, &credentials)?,
            credits: prices(adapter, &new.credits.unwrap_or_default(), self.lower_prices())?,
            max_concurrency: concurrency(new.max_concurrency)?,
            is_enabled: new.is_enabled.unwrap_or(true),
            created_at: now,
            updated_at: now,
            revision: 0,
            adapter: adapter.id.clone(),
        })
    }

    /// The row as the patch leaves it.
    pub(super) fn patched(
        &self,
        org: OrgId,
        row: ProviderV1,
        patch: ProviderPatch,
        guard: &AddressGuard,
    ) -> Result<ProviderV1> {
        let adapter = self
            .adapters()
            .get(&row.adapter)
            .ok_or_else(|| Error::conflict(format!("This box has no adapter {} (any more).", row.adapter)))?;
        let mut new = row.clone();
        if let Some(name) = &patch.name {
            new.name = Name::parse("name", name)?.into_string();
        }
        if let Some(given) = patch.settings {
            let mut settings = super::accounts::settings_of(adapter, &row);
            settings.extend(given);
            let settings = fields::check("settings", &adapter.settings, &settings).map_err(field_error)?;
            new.settings = Json(Value::Object(settings));
        }
        if let Some(url) = &patch.base_url {
            new.base_url = base_url(adapter, url, guard)?;
            let given = |(name, _): &(String, Vec<u8>)| {
                patch.credentials.as_ref().is_some_and(|given| given.contains_key(name))
            };
            // Stored credentials are never shown, so they are not sent to wherever somebody likes either. Back to the
            // vendor's own address they may go.
            let is_elsewhere = new.base_url.is_some() && new.base_url != row.base_url;
            if is_elsewhere && !row.credentials.iter().all(given) {
                let reason = "must be given again when baseUrl changes: stored ones are not sent elsewhere";
                return Err(Error::invalid("credentials", reason));
            }
        }
        if let Some(given) = patch.credentials {
            let old = self.open_credentials(org, &row)?;
            let mut credentials = old.clone();
            credentials.extend(given.clone());
            let credentials =
                fields::check("credentials", &adapter.credentials, &credentials).map_err(field_error)?;
            if adapter.is_proxy() {
                proxies::check(&credentials, guard).map_err(field_error)?;
                proxies::check_login_stays(&old, &given, &credentials).map_err(field_error)?;
            }
            new.credentials = self.seal(org, row.id, &credentials)?;
        }
        if let Some(credits) = &patch.credits {
            new.credits = prices(adapter, credits, self.lower_prices())?;
        }
        if let Some(max) = patch.max_concurrency {
            new.max_concurrency = concurrency(Some(max).filter(|max| *max != 0))?;
        }
        new.is_enabled = patch.is_enabled.unwrap_or(new.is_enabled);
        new.updated_at = self.now();
        new.revision = row.revision.wrapping_add(1);
        Ok(new)
    }

    fn seal(&self, org: OrgId, id: ProviderId, credentials: &Values) -> Result<Vec<(String, Vec<u8>)>> {
        let seal = |(name, value): (&String, &Value)| {
            let sealed = self
                .keyring()
                .seal(&place(&org, &id, name), value.to_string().as_bytes())
                .map_err(|e| Error::internal("seal a provider's credentials", e))?;
            Ok((name.clone(), sealed))
        };
        credentials.iter().map(seal).collect()
    }
}

/// Where the provider is asked; none for the vendor's own address. What a name resolves to is judged when it is
/// connected to.
fn base_url(adapter: &Adapter, text: &str, guard: &AddressGuard) -> Result<Option<String>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    if !adapter.is_hosted() {
        let reason = format!("the adapter {} is not asked at an address", adapter.id);
        return Err(Error::invalid("baseUrl", reason));
    }
    let refuse = |reason: String| Error::new(Code::InvalidUrl).message(format!("baseUrl: {reason}"));
    let url = WebUrl::parse(text).map_err(|e| refuse(e.to_string()))?;
    guard.check_literal(&url).map_err(|refused| refuse(refused.to_string()))?;
    if url.as_url().query().is_some() {
        return Err(refuse("must not have a query".to_owned()));
    }
    Ok(Some(url.to_string()))
}

/// A bound that somebody gives, checked.
pub(super) fn concurrency(max: Option<u32>) -> Result<Option<u32>> {
    match max {
        Some(max) if !(1..=CONCURRENCY_MAX).contains(&max) => {
            Err(Error::invalid("maxConcurrency", format!("must be 1 to {CONCURRENCY_MAX}")))
        }
        max => Ok(max),
    }
}

/// The prices that replace the adapter's own; lower ones need the operator's leave.
fn prices(adapter: &Adapter, given: &BTreeMap<String, NewPrice>, lower: bool) -> Result<Vec<PriceV1>> {
    let price = |(tier, price): (&String, &NewPrice)| {
        let field = format!("credits.{tier}");
        let Some(own) = adapter.credits.tiers().iter().find(|row| row.tier == *tier) else {
            let known: Vec<_> = adapter.credits.tiers().iter().map(|row| row.tier.as_str()).collect();
            let reason = format!("is no tier of this adapter; its tiers are: {}", known.join(", "));
            return Err(Error::invalid(&field, reason));
        };
        let (plain, render) = (price.plain.unwrap_or(own.plain), price.render.unwrap_or(own.render));
        if plain.max(render) > PRICE_MAX {
            return Err(Error::invalid(&field, format!("must be at most {PRICE_MAX}")));
        }
        for (kind, given, own) in [("plain", plain, own.plain), ("render", render, own.render)] {
            if given < own && !lower {
                let reason = format!(
                    "must be at least {own}, what the adapter costs; only the operator of this box can allow less \
                     (providers.lower_prices)"
                );
                return Err(Error::invalid(&format!("{field}.{kind}"), reason));
            }
        }
        Ok(PriceV1 { tier: tier.clone(), plain, render })
    };
    given.iter().map(price).collect()
}

/// Stores a new provider; `conflict` when the organization has as many as it may.
pub(super) fn connect(tx: &OrgWrite<'_>, row: &ProviderV1) -> Result<()> {
    if tx.count(&PROVIDERS, PROVIDERS_PER_ORG_MAX)? >= PROVIDERS_PER_ORG_MAX {
        return Err(Error::conflict(format!(
            "An organization has at most {PROVIDERS_PER_ORG_MAX} providers; disconnect one first."
        )));
    }
    tx.insert(&PROVIDERS, &row.id, row)
}

/// Gives an organization the built-in provider, once.
pub fn seed(tx: &OrgWrite<'_>) -> Result<()> {
    if tx.get(&SEEDED, &())?.is_some() {
        return Ok(());
    }
    let id = ProviderId::new();
    let row = ProviderV1 {
        id,
        adapter: DIRECT.to_owned(),
        name: "Direct".to_owned(),
        base_url: None,
        settings: Json(Value::Object(Values::new())),
        credentials: Vec::new(),
        credits: Vec::new(),
        max_concurrency: None,
        is_enabled: true,
        created_at: tx.now(),
        updated_at: tx.now(),
        revision: 0,
    };
    tx.insert(&PROVIDERS, &id, &row)?;
    tx.put(&SEEDED, &(), &SeededV1 { at: tx.now() })
}

/// Gives the built-in provider to organizations that were made before there were providers.
pub async fn seed_all(system: &System, orgs: Vec<OrgId>) -> Result<()> {
    for org in orgs {
        let org = system.org(org);
        let seeded = org.read(|tx| tx.get(&SEEDED, &()));
        // Where it cannot be read, there is one.
        if readable("whether an organization has its provider", org.id(), seeded)?
            .is_some_and(|row| row.is_none())
        {
            let seeding = org.write(seed).await;
            readable("the provider of an organization", org.id(), seeding)?;
        }
    }
    Ok(())
}
