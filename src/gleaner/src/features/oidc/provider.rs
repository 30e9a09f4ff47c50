//! The provider as the box asks it: its document and its keys, each kept for a while, and codes turned into what they say of a
//! person.
//!
//! The operator names the provider, so it may be at a private address, and its own origin is asked wherever it is. What its document
//! names elsewhere goes through the same address guard as everybody's fetches, unless the operator has named that origin, too; no
//! redirect is followed.

use super::config::OidcConfig;
use base::web::WebUrl;
use base::{Error, Result};
use bytes::Bytes;
use fetch::connect::{Connector, Resolver};
use fetch::{AddressGuard, AllowRule, FetchError, FetchSettings, ServiceRequest, user_agent};
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use oidc::{Attempt, Claims, Client, Expected, Fault, Keys, Logout, Metadata, TokenAnswer, flow};
use parking_lot::Mutex as Lock;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};

/// How long document and keys are taken for what they were.
const FRESH_FOR: Duration = Duration::from_secs(3_600);
/// How long an old document is used where a new one cannot be had.
const STALE_FOR: Duration = Duration::from_secs(86_400);
/// How long nobody asks again where the provider did not answer.
const REST: Duration = Duration::from_secs(3);
/// How long one answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Bytes of one answer.
const ANSWER_BYTES_MAX: usize = 512 << 10;
/// Codes that are turned into tokens at once, and how long somebody waits for a turn.
const EXCHANGES_MAX: usize = 16;
const TURN_TIME: Duration = Duration::from_secs(10);
/// How often keys are asked for anew in a minute because a token named one that is not there.
const NEW_KEYS_PER_MINUTE: usize = 10;

/// Why the provider gave nothing.
#[derive(Debug)]
pub enum Failure {
    /// It cannot be reached, is too slow, or says too much.
    Away(String),
    /// What it says does not hold.
    Wrong(Fault),
    /// Others are being let in; there is no turn.
    Busy,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::Wrong(fault)
    }
}

type Got<T> = std::result::Result<T, Failure>;

/// The parts of the box's own that the provider is asked with.
pub struct Ways<'a> {
    pub hosts: &'a HashMap<String, Vec<IpAddr>>,
    /// Where the box listens: no answer of a provider leads there.
    pub local: &'a [SocketAddr],
    /// What everybody's fetches go through.
    pub guard: AddressGuard,
    /// The box's address as people reach it, without a slash at the end.
    pub public_url: &'a str,
}

/// The provider of this box.
pub struct Provider {
    pub config: OidcConfig,
    secret: String,
    redirect_uri: String,
    /// For the origins that the operator has named.
    named: Connector,
    origins: Vec<String>,
    /// For all others.
    others: Connector,
    metadata: Mutex<Kept<Arc<Metadata>>>,
    keys: Mutex<Kept<Arc<Keys>>>,
    new_keys: Lock<Vec<Instant>>,
    exchanges: Semaphore,
}

/// Something of the provider's, and since when it is known; or since when it could not be had.
struct Kept<T> {
    value: Option<(T, Instant)>,
    failed: Option<(Instant, String)>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept { value: None, failed: None }
    }
}

impl<T: Clone> Kept<T> {
    fn within(&self, time: Duration) -> Option<T> {
        let (value, since) = self.value.as_ref()?;
        (since.elapsed() < time).then(|| value.clone())
    }

    /// Why it was not there a moment ago.
    fn rests(&self) -> Option<Failure> {
        let (since, why) = self.failed.as_ref()?;
        (since.elapsed() < REST).then(|| Failure::Away(why.clone()))
    }

    fn put(&mut self, value: T) -> T {
        *self = Kept { value: Some((value.clone(), Instant::now())), failed: None };
        value
    }

    /// What is used in the place of something new that could not be had.
    fn or_stale(&mut self, failure: Failure) -> Got<T> {
        if let Failure::Away(why) = &failure {
            self.failed = Some((Instant::now(), why.clone()));
        }
        self.within(STALE_FOR).ok_or(failure)
    }
}

impl Provider {
    /// Reads the files that the section names; makes no connection.
    pub fn new(config: &OidcConfig, ways: &Ways<'_>) -> Result<Provider> {
        let settings = FetchSettings { extra_roots: config.roots()?, ..FetchSettings::default() };
        let everywhere = ["0.0.0.0/0", "::/0"].map(|network| network.parse::<AllowRule>());
        let everywhere = everywhere.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        let everywhere = everywhere.map_err(|e| Error::internal("open the provider's address", e))?;
        let resolver = Resolver::new(ways.hosts);
        let issuer = WebUrl::parse(&config.issuer).map_err(|e| Error::invalid("oidc.issuer", e))?;
        let mut origins = vec![issuer.origin().to_owned()];
        for origin in &config.trusted_origins {
            let url = WebUrl::parse(origin).map_err(|e| Error::invalid("oidc.trusted_origins", e))?;
            origins.push(url.origin().to_owned());
        }
        Ok(Provider {
            secret: config.secret()?,
            redirect_uri: format!("{}{}", ways.public_url, super::CALLBACK),
            named: Connector::new(AddressGuard::new(&everywhere, ways.local), resolver.clone(), &settings),
            others: Connector::new(ways.guard.clone(), resolver, &settings),
            origins,
            metadata: Mutex::default(),
            keys: Mutex::default(),
            new_keys: Lock::default(),
            exchanges: Semaphore::new(EXCHANGES_MAX),
            config: config.clone(),
        })
    }

    fn client(&self) -> Client<'_> {
        Client { id: &self.config.client_id, secret: &self.secret, redirect_uri: &self.redirect_uri }
    }

    /// The provider's document. It is asked for by one at a time; the others wait for what that one gets.
    pub async fn metadata(&self) -> Got<Arc<Metadata>> {
        let mut kept = self.metadata.lock().await;
        if let Some(known) = kept.within(FRESH_FOR) {
            return Ok(known);
        }
        if let Some(rest) = kept.rests() {
            return kept.within(STALE_FOR).ok_or(rest);
        }
        let place = Metadata::place(&self.config.issuer);
        let read = async {
            let json = self.get(&place, None).await?;
            Ok(Metadata::parse(&self.config.issuer, &json)?)
        };
        match read.await {
            Ok(metadata) => Ok(kept.put(Arc::new(metadata))),
            Err(failure) => kept.or_stale(failure),
        }
    }

    /// The provider's keys; `anew` where a token names one that is not among those that are known.
    async fn keys(&self, metadata: &Metadata, anew: bool) -> Got<Arc<Keys>> {
        let asked = Instant::now();
        let mut kept = self.keys.lock().await;
        // Somebody else may have got new ones while this one waited.
        let newer =
            kept.value.as_ref().filter(|(_, since)| *since >= asked).map(|(keys, _)| Arc::clone(keys));
        let known = if anew {
            newer.or_else(|| self.may_not_ask().then(|| kept.within(STALE_FOR)).flatten())
        } else {
            kept.within(FRESH_FOR)
        };
        if let Some(known) = known {
            return Ok(known);
        }
        if let Some(rest) = kept.rests() {
            return kept.within(STALE_FOR).ok_or(rest);
        }
        let read = async {
            let json = self.get(metadata.jwks_uri.as_str(), None).await?;
            Ok(Keys::parse(&json)?)
        };
        match read.await {
            Ok(keys) => Ok(kept.put(Arc::new(keys))),
            Err(failure) => kept.or_stale(failure),
        }
    }

    /// Whether keys were asked for anew as often as may be. Counts this time.
    fn may_not_ask(&self) -> bool {
        let mut times = self.new_keys.lock();
        times.retain(|at| at.elapsed() < Duration::from_secs(60));
        if times.len() >= NEW_KEYS_PER_MINUTE {
            return true;
        }
        times.push(Instant::now());
        false
    }

    /// Where a browser is sent to sign in.
    pub async fn begin(&self, attempt: &Attempt<'_>) -> Got<String> {
        let metadata = self.metadata().await?;
        let scopes = self.config.scopes.join(" ");
        Ok(flow::authorization_url(&metadata, &self.client(), attempt, &scopes))
    }

    /// Where a browser is sent to end the provider's session as well; none where that is not known or there is no such place.
    pub async fn logout(&self, back_to: &str) -> Option<String> {
        let metadata = self.metadata().await.ok()?;
        flow::logout_url(&metadata, &self.client(), back_to)
    }

    /// Turns a code into what the provider says of the person. `now`: seconds since 1970.
    pub async fn exchange(
        &self,
        metadata: &Metadata,
        attempt: &Attempt<'_>,
        code: &str,
        now: i64,
    ) -> Got<Claims> {
        let turn = tokio::time::timeout(TURN_TIME, self.exchanges.acquire()).await;
        let _turn = turn.map_err(|_elapsed| Failure::Busy)?.map_err(|_closed| Failure::Busy)?;
        let (form, login) = flow::token_request(metadata, &self.client(), attempt, code);
        let (status, json) = self.post(metadata.token_endpoint.as_str(), form, login).await?;
        if status >= 500 {
            return Err(Failure::Away(format!("its token endpoint answers {status}")));
        }
        let answer = TokenAnswer::parse(status, &json)?;
        let access = answer.access_token.as_deref();
        let check =
            |keys: &Keys| Claims::check(keys, &answer.id_token, &self.expected(now), attempt.nonce, access);
        let claims = match check(&*self.keys(metadata, false).await?) {
            Err(Fault::UnknownKey) => check(&*self.keys(metadata, true).await?)?,
            checked => checked?,
        };
        let lacks = claims.text("email").is_none()
            || (!self.config.groups.is_empty() && claims.get(&self.config.groups_claim).is_none());
        match (&metadata.userinfo_endpoint, access) {
            (Some(place), Some(access)) if lacks => {
                Ok(claims.with_userinfo(&self.get(place.as_str(), Some(access)).await?)?)
            }
            _ => Ok(claims),
        }
    }

    /// Reads a logout token that the provider sends.
    pub async fn logout_of(&self, token: &str, now: i64) -> Got<Logout> {
        let metadata = self.metadata().await?;
        let check = |keys: &Keys| Logout::check(keys, token, &self.expected(now));
        match check(&*self.keys(&metadata, false).await?) {
            Err(Fault::UnknownKey) => Ok(check(&*self.keys(&metadata, true).await?)?),
            checked => Ok(checked?),
        }
    }

    fn expected(&self, now: i64) -> Expected<'_> {
        Expected { issuer: &self.config.issuer, client_id: &self.config.client_id, now }
    }

    async fn get(&self, place: &str, bearer: Option<&str>) -> Got<Bytes> {
        let login = bearer.map(|token| format!("Bearer {token}"));
        let (status, body) = self.ask(Method::GET, place, Bytes::new(), login).await?;
        if status == 200 { Ok(body) } else { Err(Failure::Away(format!("{place} answers {status}"))) }
    }

    async fn post(&self, place: &str, form: String, login: Option<String>) -> Got<(u16, Bytes)> {
        self.ask(Method::POST, place, form.into(), login).await
    }

    async fn ask(
        &self,
        method: Method,
        place: &str,
        body: Bytes,
        login: Option<String>,
    ) -> Got<(u16, Bytes)> {
        let url = WebUrl::parse(place).map_err(|e| Failure::Away(format!("{place}: {e}")))?;
        if !self.config.is_private_way(&url) {
            return Err(Failure::Away(format!("{place} is plain http")));
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Ok(agent) = HeaderValue::try_from(user_agent(None)) {
            headers.insert(USER_AGENT, agent);
        }
        if method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        }
        if let Some(login) = login {
            let mut value = HeaderValue::try_from(login)
                .map_err(|_| Failure::Away("it gave a token that no header can carry".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let request = ServiceRequest {
            url: &url,
            method,
            headers: &headers,
            body,
            timeout: ANSWER_TIME,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let is_named = self.origins.iter().any(|origin| origin == url.origin());
        let connector = if is_named { &self.named } else { &self.others };
        let answer = connector.ask(&request).await.map_err(|error| Failure::Away(told(place, &error)))?;
        Ok((answer.status, answer.body))
    }
}

/// What the operator reads in the log: with what an address was refused for.
fn told(place: &str, error: &FetchError) -> String {
    let mut text = format!("{place}: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
