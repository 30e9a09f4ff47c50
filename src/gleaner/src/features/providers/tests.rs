//! The rules around accounts: what is sealed, what moves a provider in the path, what a job is priced.

use super::accounts::{Availability, ProviderParts, Providers};
use super::path::Path;
use super::rows::ProviderV1;
use super::wire::{NewProvider, ProviderPatch};
use super::{enabled, seed, seed_all, service};
use base::Code;
use base::clock::Clock;
use base::ids::OrgId;
use base::web::WebUrl;
use fetch::{
    AddressGuard, BrowserSettings, Browsers, Direct, Fault, FetchRequest, FetchSettings, Outcome, Politeness,
    Templates, VisitLimits,
};
use secrets::keyring::Keyring;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use store::fault::FaultyDisk;
use store::{MIGRATIONS, OrgStore, Store, System};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A store, one organization, and the box's providers.
struct Lab {
    system: System,
    org: OrgStore,
    providers: Providers,
    guard: AddressGuard,
    _dir: tempfile::TempDir,
}

impl Lab {
    fn new(allow: &str) -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let store = Store::open_backend(move || disk.backend(), Clock::system(), MIGRATIONS).unwrap();
        let guard = AddressGuard::new(&[allow.parse().unwrap()], &[]);
        let providers = Providers::new(ProviderParts {
            templates: Templates::load(None).unwrap(),
            politeness: Politeness::new(VisitLimits::new(2, Duration::ZERO)),
            lower_prices: false,
            direct: Arc::new(Direct::new(FetchSettings::default(), guard.clone())),
            browsers: Browsers::new(BrowserSettings::default()),
            keyring: Arc::new(Keyring::load_or_create(&dir.path().join("keys.toml")).unwrap()),
            robots: true,
            clock: Clock::system(),
        });
        let system = store.system();
        let org = system.org(OrgId::new());
        Lab { system, org, providers, guard, _dir: dir }
    }

    async fn connect(&self, new: Value) -> ProviderV1 {
        let new: NewProvider = serde_json::from_value(new).unwrap();
        let row = self.providers.new_row(self.org.id(), new, &self.guard).unwrap();
        let stored = row.clone();
        self.org.write(move |tx| service::connect(tx, &stored)).await.unwrap();
        row
    }

    /// The names of the providers that a request would try, in order.
    fn path(&self, wishes: impl FnOnce(&mut FetchRequest)) -> Result<Vec<String>, String> {
        let mut request = FetchRequest::new(WebUrl::parse("http://127.0.0.1:9/").unwrap());
        wishes(&mut request);
        let rows = self.org.read(enabled).unwrap();
        match self.providers.path(self.org.id(), &rows, &request, &request.url.domain()) {
            Path::Try(accounts) => Ok(accounts.iter().map(|account| account.name.clone()).collect()),
            Path::Later { reason, .. } => Err(format!("later: {reason}")),
            Path::Nobody { reason } => Err(reason),
        }
    }
}

#[tokio::test]
async fn every_organization_has_the_built_in_provider_once() {
    let lab = Lab::new("127.0.0.0/8");
    let older = lab.system.org(OrgId::new());
    lab.org.write(seed).await.unwrap();
    for _ in 0..2 {
        seed_all(&lab.system, vec![lab.org.id(), older.id()]).await.unwrap();
        for org in [&lab.org, &older] {
            let rows = org.read(enabled).unwrap();
            assert_eq!(rows.iter().map(|row| row.adapter.as_str()).collect::<Vec<_>>(), ["direct"]);
        }
    }
    let id = older.read(enabled).unwrap()[0].id;
    older.write(move |tx| tx.delete(&super::PROVIDERS, &id)).await.unwrap();
    seed_all(&lab.system, vec![older.id()]).await.unwrap();
    assert!(older.read(enabled).unwrap().is_empty(), "what was disconnected does not come back");
}

#[tokio::test]
async fn credentials_are_sealed_for_their_own_row() {
    let lab = Lab::new("127.0.0.0/8");
    let new = json!({ "adapter": "oxylabs", "credentials": { "username": "me", "password": "very secret" } });
    let (one, mut other) = (lab.connect(new.clone()).await, lab.connect(new).await);
    let stored = base::codec::encode(&one).unwrap();
    assert!(!stored.windows(6).any(|bytes| bytes == b"secret"), "in the clear");
    let opened = lab.providers.open_credentials(lab.org.id(), &one).unwrap();
    assert_eq!(Value::Object(opened), json!({ "username": "me", "password": "very secret" }));
    assert!(lab.providers.open_credentials(OrgId::new(), &one).is_err(), "another organization's");
    other.credentials.clone_from(&one.credentials);
    assert!(lab.providers.open_credentials(lab.org.id(), &other).is_err(), "another row's");
    let mut swapped = one.clone();
    swapped.credentials[0].0 = "password".to_owned();
    assert!(lab.providers.open_credentials(lab.org.id(), &swapped).is_err(), "another field's");
    let patch: ProviderPatch =
        serde_json::from_value(json!({ "credentials": { "password": "new" } })).unwrap();
    let patched = lab.providers.patched(lab.org.id(), one, patch, &lab.guard).unwrap();
    let opened = lab.providers.open_credentials(lab.org.id(), &patched).unwrap();
    assert_eq!(Value::Object(opened), json!({ "username": "me", "password": "new" }), "merged");
}

#[tokio::test]
async fn the_path_leaves_out_who_cannot() {
    let lab = Lab::new("127.0.0.0/8");
    assert_eq!(lab.path(|_| ()).unwrap_err(), "no provider is connected and enabled");
    lab.org.write(seed).await.unwrap();
    let key = json!({ "apiKey": "key" });
    lab.connect(json!({ "adapter": "scrapingbee", "name": "Bee", "credentials": key })).await;
    lab.connect(json!({ "adapter": "zyte", "name": "Zyte", "credentials": key })).await;
    lab.connect(json!({ "adapter": "zyte", "name": "Off", "credentials": key, "isEnabled": false })).await;
    assert_eq!(lab.path(|_| ()).unwrap(), ["Direct", "Bee", "Zyte"]);
    assert_eq!(lab.path(|r| r.render = true).unwrap(), ["Bee", "Zyte"]);
    assert_eq!(
        lab.path(|r| r.country = Some("DE".into())).unwrap(),
        ["Zyte"],
        "Bee takes none without premium"
    );
    // A list of proxies takes jobs for the country that it stands in, and those that ask for none.
    let proxies = json!({ "proxies": ["http://proxy.example:3128"] });
    let list = |country: &str| json!({ "adapter": "proxy", "name": country, "credentials": proxies, "settings": { "country": country } });
    lab.connect(list("DE")).await;
    lab.connect(list("FR")).await;
    assert_eq!(lab.path(|r| r.country = Some("DE".into())).unwrap(), ["Zyte", "DE"]);
    assert_eq!(lab.path(|r| r.country = Some("FR".into())).unwrap(), ["Zyte", "FR"]);
    assert_eq!(lab.path(|r| r.country = Some("IT".into())).unwrap(), ["Zyte"]);
    assert_eq!(lab.path(|_| ()).unwrap(), ["Direct", "Bee", "Zyte", "DE", "FR"]);
    let both = |r: &mut FetchRequest| (r.country, r.premium) = (Some("DE".into()), true);
    assert_eq!(lab.path(both).unwrap(), ["Bee", "Zyte"]);
}

#[tokio::test]
async fn the_path_leaves_alone_who_is_broken() {
    // Nothing listens at this port, and nobody may connect to the discard port of another one.
    let lab = Lab::new("127.0.0.1/32:9");
    lab.org.write(seed).await.unwrap();
    let dead = json!({ "adapter": "zyte", "name": "Dead", "baseUrl": "http://127.0.0.1:9/", "credentials": { "apiKey": "k" } });
    let dead = lab.connect(dead).await;
    let request = || {
        let url = WebUrl::parse("http://127.0.0.1:9/").unwrap();
        FetchRequest { timeout: Duration::from_secs(5), robots: false, ..FetchRequest::new(url) }
    };
    let rows = lab.org.read(enabled).unwrap();
    let direct = lab.providers.account(lab.org.id(), &rows[0]).unwrap();
    let account = lab.providers.account(lab.org.id(), &dead).unwrap();
    assert_eq!(lab.path(|_| ()).unwrap(), ["Direct", "Dead"]);
    for _ in 0..5 {
        let attempt = lab.providers.fetch(&direct, request()).await;
        assert_eq!(attempt.outcome, Outcome::NetworkError, "{attempt:?}");
    }
    assert_eq!(lab.path(|_| ()).unwrap(), ["Dead", "Direct"], "weak here, and better than nobody");
    let attempt = lab.providers.fetch(&account, request()).await;
    assert_eq!(attempt.outcome, Outcome::ProviderError, "{attempt:?}");
    assert_eq!(lab.path(|_| ()).unwrap(), ["Direct"]);
    let later = lab.path(|r| r.render = true).unwrap_err();
    assert!(
        later.starts_with("later: Dead is left alone for a while (Zyte API: 127.0.0.1:9 refused"),
        "{later}"
    );
    assert!(lab.providers.trouble(lab.org.id(), dead.id).is_some());
    lab.providers.forgive(lab.org.id(), dead.id);
    assert_eq!(lab.path(|r| r.render = true).unwrap(), ["Dead"]);
}

/// Whether somebody can be asked, as soon as that is so; a pause of a second ends in a second on any machine.
async fn until_ready(lab: &Lab, row: &ProviderV1) {
    let url = WebUrl::parse("http://a.test/").unwrap();
    for _ in 0..6_000 {
        if matches!(lab.providers.standing(lab.org.id(), row.id, &url.domain()), Availability::Ready) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the account is left alone for ever");
}

#[tokio::test]
async fn a_trial_that_is_given_up_lets_another_begin() {
    // A vendor that is too busy the first time, and says nothing afterwards.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let vendor = tokio::spawn(async move {
        let mut silent = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).await;
            if count.fetch_add(1, SeqCst) == 0 {
                let busy =
                    "HTTP/1.1 429 X\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(busy.as_bytes()).await;
            } else {
                silent.push(stream);
            }
        }
    });
    let lab = Lab::new(&format!("127.0.0.1/32:{port}"));
    let base = format!("http://127.0.0.1:{port}/");
    let row = json!({ "adapter": "zyte", "baseUrl": base, "credentials": { "apiKey": "k" } });
    let row = lab.connect(row).await;
    let account = lab.providers.account(lab.org.id(), &row).unwrap();
    let request = FetchRequest::new(WebUrl::parse("http://a.test/").unwrap());
    let busy = lab.providers.fetch(&account, request.clone()).await;
    assert_eq!(busy.fault, Some(Fault::Throttled), "{busy:?}");
    for trial in 1..=2 {
        until_ready(&lab, &row).await;
        let mut asking = Box::pin(lab.providers.fetch(&account, request.clone()));
        while asked.load(SeqCst) <= trial {
            let silent = tokio::time::timeout(Duration::from_millis(10), &mut asking).await;
            assert!(silent.is_err(), "{silent:?}");
        }
        let standing = lab.providers.standing(lab.org.id(), row.id, &request.url.domain());
        assert!(matches!(standing, Availability::Cooling { .. }), "others wait for the trial: {standing:?}");
        // Its job is canceled, or it loses a race.
        drop(asking);
        let standing = lab.providers.standing(lab.org.id(), row.id, &request.url.domain());
        assert!(
            matches!(standing, Availability::Ready),
            "trial {trial} blocks nobody any more: {standing:?}"
        );
    }
    vendor.abort();
}

#[tokio::test]
async fn a_price_is_the_tiers_or_the_organizations_own() {
    let lab = Lab::new("127.0.0.0/8");
    let over = json!({
        "adapter": "scraperapi", "credentials": { "apiKey": "k" }, "settings": { "premiumTier": "ultra" },
        "credits": { "standard": { "plain": 2 } },
    });
    let row = lab.connect(over).await;
    let price = |render, premium| lab.providers.price(&row, render, premium);
    assert_eq!(
        [price(false, false), price(true, false), price(false, true), price(true, true)],
        [2, 10, 30, 75]
    );
    for (new, part) in [
        (json!({ "adapter": "nobody" }), "adapter: must be one of direct"),
        (json!({ "adapter": "browser" }), "adapter: browser cannot be used: this box renders no pages"),
        (json!({ "adapter": "zyte" }), "credentials.apiKey: is missing"),
        (json!({ "adapter": "direct", "baseUrl": "https://x.test" }), "baseUrl: the adapter direct"),
        (json!({ "adapter": "direct", "credits": { "gold": {} } }), "credits.gold: is no tier"),
        (
            json!({ "adapter": "direct", "credits": { "standard": { "plain": 1_000_001 } } }),
            "credits.standard",
        ),
        (json!({ "adapter": "direct", "maxConcurrency": 1_001 }), "maxConcurrency: must be 1 to 1000"),
        (json!({ "adapter": "direct", "maxConcurrency": 0 }), "maxConcurrency: must be 1 to 1000"),
        (json!({ "adapter": "direct", "settings": { "robots": true } }), "settings.robots: is not a field"),
        (json!({ "adapter": "direct", "name": " " }), "name: must not be empty"),
    ] {
        let new: NewProvider = serde_json::from_value(new).unwrap();
        let refused = lab.providers.new_row(lab.org.id(), new, &lab.guard).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidInput);
        assert!(refused.detail().unwrap().starts_with(part), "{refused}");
    }
}
