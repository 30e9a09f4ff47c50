//! Sign-in with the company's accounts: OpenID Connect, authorization code with PKCE.
//!
//! A browser is sent to the provider that the configuration names and comes back with a code, which the box turns into what the
//! provider says of the person (`oidc`, the crate, checks it). Whom that lets in, and as what, is in [`people`]; the login that
//! begins is one like any other, but it ends after a while however often it is refreshed, so that the provider is asked again.
//! The console's pages use these routes; the command line is approved on one of those pages by whoever is signed in.

mod attempt;
mod bounds;
mod config;
mod pages;
mod people;
mod provider;
mod rows;

pub use config::OidcConfig;

use crate::config::SectionSpec;
use crate::features::Feature;
use crate::features::auth::{Auth, NewLogin, REFRESH_TOKEN_TIME, end_by_provider};
use crate::features::providers::NetworkConfig;
use crate::features::wiring::Wiring;
use attempt::{ATTEMPT_TIME, Begun, COOKIE, Once};
use base::audit::Action;
use base::clock::{Moment, Now};
use base::{Code, Error, Result};
use bounds::Failures;
use fetch::AddressGuard;
use futures::future::BoxFuture;
use http::header::{CACHE_CONTROL, HeaderValue, SET_COOKIE};
use oidc::flow::Answer;
use oidc::{Arrived, Claims};
use pages::{Answered, Trouble};
use people::{Arrival, Decision};
use provider::{Failure, Provider, Ways};
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use serde::{Deserialize, Serialize};
use server::{
    Anonymous, Body, BrowserSession, BrowserVisit, ClientIp, Handler, Need, Query, RawBody, Route, Text,
    WithHeaders,
};
use std::net::IpAddr;
use std::sync::Arc;
use store::Event;

/// Where the provider leads browsers back to.
const CALLBACK: &str = "/console/session/oidc/callback";
/// Below this the cookie of a sign-in comes back.
const PLACE: &str = "/console/session/oidc";
const CONSOLE: &str = "/console";

pub static FEATURE: Feature = Feature {
    name: "oidc",
    uses: &["auth", "orgs", "providers"],
    sections: &[SectionSpec::of::<OidcConfig>()],
    open: Some(open),
    tables: &[&rows::GOVERNED_ORGS],
    pages: &[
        Route::get(PLACE, "aboutProvider", &Handler::new(about)),
        Route::delete(PLACE, "endProviderSession", &Handler::new(end)).secret(),
        Route::get("/console/session/oidc/begin", "beginProviderSignIn", &Handler::new(begin)).secret(),
        Route::get(CALLBACK, "finishProviderSignIn", &Handler::new(arrive)).secret(),
        Route::post("/console/session/oidc/ended", "providerSessionEnded", &Handler::new(ended)).secret(),
    ],
    needs: &[Need::of::<SignIn>(), Need::of::<Auth>()],
    ..Feature::NONE
};

/// Sign-in through the provider, if the box has one.
pub struct SignIn(Option<Ready>);

struct Ready {
    provider: Provider,
    keyring: Arc<Keyring>,
    auth: Arc<Auth>,
    /// The hash of a password that nobody knows.
    nobodys_password: String,
    used: Once,
    failures: Failures,
}

fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let config: &OidcConfig = wiring.config.section();
        if !config.is_on() {
            wiring.hang::<SignIn>(SignIn(None));
            return Ok(());
        }
        let network: &NetworkConfig = wiring.config.section();
        let ways = Ways {
            hosts: &network.hosts,
            local: wiring.listening,
            guard: wiring.part::<AddressGuard>().as_ref().clone(),
            public_url: wiring.url,
        };
        let provider = Provider::new(config, &ways)?;
        let auth = wiring.part::<Auth>();
        auth.trust_provider();
        // What the names mean now they mean from now on.
        let names: Vec<_> = people::governed(config).into_iter().map(str::to_owned).collect();
        auth.system()
            .write(move |tx| names.iter().try_for_each(|name| rows::organization(tx, name).map(|_| ())))
            .await?;
        let ready = Ready {
            provider,
            keyring: wiring.part(),
            nobodys_password: auth.nobodys_password().await?,
            auth,
            used: Once::default(),
            failures: Failures::default(),
        };
        wiring.hang::<SignIn>(SignIn(Some(ready)));
        Ok(())
    })
}

/// What the sign-in page shows.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ProviderView {
    /// What stands on the button; null where there is none.
    label: Option<String>,
    /// Whether the page shows the button alone at first.
    hides_passwords: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EndedView {
    /// Where the browser goes to end the provider's session as well; null where there is no need.
    lead_to: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct BeginQuery {
    /// Where in the console one comes back to: what stands behind its `#`.
    to: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ArrivalQuery {
    state: Option<String>,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

async fn about(caller: Anonymous) -> Result<Body<ProviderView>> {
    let sign_in = caller.service::<SignIn>();
    let config = sign_in.0.as_ref().map(|ready| &ready.provider.config);
    Ok(Body(ProviderView {
        label: config.map(|config| config.label.clone()),
        hides_passwords: config.is_some_and(|config| config.hide_passwords),
    }))
}

async fn end(caller: Anonymous, session: BrowserSession) -> Result<WithHeaders<Body<EndedView>>> {
    let was_by_provider = match session.secret() {
        Some(secret) => caller.service::<Auth>().end_login(secret).await?,
        None => false,
    };
    let lead_to = match &caller.service::<SignIn>().0 {
        Some(ready) if was_by_provider => {
            let back_to = format!("{}{CONSOLE}", ready.auth.public_url());
            ready.provider.logout(&back_to).await
        }
        _ => None,
    };
    let cookie = session.set(None, REFRESH_TOKEN_TIME)?;
    Ok(WithHeaders::new(Body(EndedView { lead_to })).header(SET_COOKIE, cookie))
}

async fn begin(caller: Anonymous, visit: BrowserVisit, Query(query): Query<BeginQuery>) -> Result<Answered> {
    let (sign_in, console) = (caller.service::<SignIn>(), visit.path(CONSOLE));
    let Some(ready) = &sign_in.0 else { return Ok(Answered::trouble(Trouble::Off, console)) };
    let begun = Begun::new(query.to.as_deref(), visit.session(), caller.moment())?;
    match ready.provider.begin(&begun.attempt()).await {
        Ok(place) => {
            let sealed = begun.seal(&ready.keyring)?;
            Ok(Answered::lead(place).cookie(visit.keep(COOKIE, Some(&sealed), PLACE, ATTEMPT_TIME)?))
        }
        Err(failure) => Ok(Answered::trouble(told(&failure), console)),
    }
}

/// Says in the log why the provider gave nothing, and what the person is told.
fn told(failure: &Failure) -> Trouble {
    match failure {
        Failure::Away(why) => {
            tracing::warn!(why, "the sign-in provider does not answer");
            Trouble::Away
        }
        Failure::Wrong(fault) => {
            tracing::warn!(%fault, "the sign-in provider said something that does not hold");
            Trouble::Wrong
        }
        Failure::Busy => Trouble::TooMany,
    }
}

async fn arrive(
    caller: Anonymous,
    visit: BrowserVisit,
    ClientIp(ip): ClientIp,
    Query(query): Query<ArrivalQuery>,
) -> Result<Answered> {
    let (sign_in, console) = (caller.service::<SignIn>(), visit.path(CONSOLE));
    let Some(ready) = &sign_in.0 else { return Ok(Answered::trouble(Trouble::Off, console)) };
    let now = caller.look();
    // Whatever comes of it, this sign-in is over.
    let forget = visit.keep(COOKIE, None, PLACE, ATTEMPT_TIME)?;
    let trouble = match ready.finish(&visit, query, ip, &now).await? {
        Ok((begun, secret)) => {
            if let Some(before) = &begun.before {
                ready.auth.logout(before).await?;
            }
            let session = visit.begin_session(&secret, ready.provider.config.session_time())?;
            return Ok(Answered::lead(format!("{console}#{}", begun.to)).cookie(forget).cookie(session));
        }
        Err(trouble) => trouble,
    };
    let reason = match trouble {
        Trouble::NotBegun => Some("not_begun"),
        Trouble::Wrong => Some("provider_wrong"),
        Trouble::Away => Some("provider_away"),
        Trouble::TurnedBack => Some("turned_back"),
        // Has a row already, or needs none.
        Trouble::Refused(_) | Trouble::Off | Trouble::TooMany => None,
    };
    if let Some(reason) = reason {
        let event = Event::new(Action::AuthLoginRefused).with("by", "provider").with("reason", reason);
        ready.auth.system().refused(None, event).await;
    }
    Ok(Answered::trouble(trouble, console).cookie(forget))
}

type Finished = std::result::Result<(Begun, String), Trouble>;

impl Ready {
    /// Lets in whom the provider sends: gives the sign-in that this ends and the refresh token of the login that begins.
    async fn finish(
        &self,
        visit: &BrowserVisit,
        query: ArrivalQuery,
        ip: IpAddr,
        now: &Now,
    ) -> Result<Finished> {
        if self.failures.are_too_many(ip, now.moment) {
            self.auth.system().refused(None, Event::new(Action::AuthLoginThrottled)).await;
            return Ok(Err(Trouble::TooMany));
        }
        let (begun, claims) = match self.claims(visit, query, now).await {
            Ok(found) => found,
            Err(trouble) => {
                // Of what comes of the person's own provider nobody is to blame here.
                if matches!(trouble, Trouble::NotBegun | Trouble::Wrong) {
                    self.failures.count(ip, now.moment);
                }
                return Ok(Err(trouble));
            }
        };
        let config = self.provider.config.clone();
        let arrival = match Arrival::read(&config, &claims, self.nobodys_password.clone(), ip) {
            Ok(arrival) => arrival,
            Err(refusal) => {
                let event = Event::new(Action::AuthLoginRefused).with("by", "provider");
                self.auth.system().refused(None, event.with("reason", refusal.name())).await;
                return Ok(Err(Trouble::Refused(refusal)));
            }
        };
        let login = NewLogin::prepare()?;
        let (decision, login) = self
            .auth
            .system()
            .write(move |tx| {
                let decision = people::let_in(tx, &config, arrival, &login)?;
                Ok((decision, login))
            })
            .await?;
        Ok(match decision {
            Decision::In(stored) => Ok((begun, self.auth.tokens(stored, &login).refresh)),
            Decision::Refused(refusal) => Err(Trouble::Refused(refusal)),
        })
    }

    /// What the provider says of whoever came back with this answer.
    async fn claims(
        &self,
        visit: &BrowserVisit,
        query: ArrivalQuery,
        now: &Now,
    ) -> std::result::Result<(Begun, Claims), Trouble> {
        let begun = Begun::open(visit.cookie(COOKIE), query.state.as_deref(), &self.keyring, now.moment);
        let begun =
            begun.filter(|begun| self.used.is_first_use(begun, now.moment)).ok_or(Trouble::NotBegun)?;
        let answer = Answer { state: query.state, code: query.code, iss: query.iss, error: query.error };
        let metadata = self.provider.metadata().await.map_err(|failure| told(&failure))?;
        let code = match answer.read(&metadata) {
            Ok(Arrived::Code(code)) => code,
            Ok(Arrived::Refused(error)) => {
                tracing::info!(error, "the sign-in provider let somebody not through");
                return Err(Trouble::TurnedBack);
            }
            Err(fault) => return Err(told(&fault.into())),
        };
        let seconds = now.date.millis() / 1_000;
        let exchanged = self.provider.exchange(&metadata, &begun.attempt(), &code, seconds).await;
        exchanged.map(|claims| (begun, claims)).map_err(|failure| told(&failure))
    }
}

/// The provider says that sessions have ended (OpenID Connect Back-Channel Logout 1.0).
async fn ended(caller: Anonymous, ClientIp(ip): ClientIp, body: RawBody) -> Result<WithHeaders<Text>> {
    let sign_in = caller.service::<SignIn>();
    let Some(ready) = &sign_in.0 else { return Err(Error::not_found("Provider")) };
    let now = caller.look();
    if ready.failures.are_too_many(ip, now.moment) {
        return Err(Error::new(Code::RateLimited).message("Too many tokens from there did not hold."));
    }
    let refused = |why: &str| Err(Error::invalid("logout_token", why));
    let token = url::form_urlencoded::parse(&body.bytes).find(|(name, _)| name == "logout_token");
    let Some((_, token)) = token else { return refused("is missing from the form") };
    let logout = match ready.provider.logout_of(&token, now.date.millis() / 1_000).await {
        Ok(logout) => logout,
        Err(failure) => {
            told(&failure);
            if matches!(failure, Failure::Wrong(_)) {
                ready.failures.count(ip, now.moment);
            }
            return refused("does not hold");
        }
    };
    let secs = u64::try_from(logout.expires - now.date.millis() / 1_000).unwrap_or_default().min(86_400);
    let until: Moment = now.moment.after(std::time::Duration::from_secs(secs));
    if !ready.used.is_first(&format!("logout:{}", logout.id), now.moment, until) {
        return refused("has been used before");
    }
    let issuer = ready.provider.config.issuer.clone();
    let ending = ready
        .auth
        .system()
        .write(move |tx| end_by_provider(tx, &issuer, logout.subject.as_deref(), logout.session.as_deref()));
    ending.await?;
    let nothing = Text("text/plain; charset=utf-8", String::new());
    Ok(WithHeaders::new(nothing).header(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}
