//! People: accounts, logins, e-mail verification, password resets, and who is a member of which organization.
//!
//! Organizations and API keys build on this slice, and it on none: what a login shows of an organization is in
//! [`directory`], whose rows the orgs slice writes.
//!
//! Invariants:
//! - membership and permissions are read from the store at each request, so a removed member is out at once;
//! - a secret that was handed out is stored as its SHA-256, a password as its Argon2id hash;
//! - a refusal that must leave a trace (a failed login, a refresh token used twice) commits it before it answers.

mod config;
mod directory;
mod email;
mod hashers;
mod limits;
mod mail;
mod networks;
mod operator;
mod password;
mod personal;
mod provider;
mod registrations;
mod reset;
mod rows;
mod service;
mod session;
mod sessions;
mod task;
mod token;

pub use config::AuthConfig;
pub use directory::{
    INVITES, INVITES_BY_EMAIL, INVITES_BY_END, InviteV1, ORG, ORGS, OrgEntryV1, OrgV1, good_invite,
    inviter_stands, list_orgs,
};
pub use email::Email;
pub use limits::CodeGuesses;
pub use mail::{MailToken, mark_verified};
pub use networks::{learn as learn_network, network};
pub use operator::{
    NewAccount, ResetLink, UserEntry, find_org, list_users, reset_link_by_operator, verify_by_operator,
};
pub use personal::erase_account;
pub use provider::{
    end_by_provider, end_sessions, join as join_provider, joined_issuer, known as known_by_provider,
    note_sign_in, session_of as session_of_provider,
};
pub use rows::{ProviderLoginV1, USERS, USERS_BY_EMAIL, USERS_BY_ORG, UserV1};
pub use service::{
    ACCESS_TOKEN_SECS, Auth, AuthSettings, LoginStored, NewLogin, Registration, TokenPair, permissions_of,
};
pub use session::REFRESH_TOKEN_TIME;

use crate::config::SectionSpec;
use crate::features::wiring::Wiring;
use crate::features::{Feature, billing};
use base::clock::Timestamp;
use base::ids::{OrgId, UserId};
use base::limits::NAME_CHARS_MAX;
use base::permission::Role;
use base::{Code, Error, Result};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::task::TaskSpec;
use server::{Anonymous, Body, ClientIp, Created, Handler, Need, Route, User, WebPage};
use service::{LoggedIn, Registrant};
use std::time::Duration;
use store::{AuthMethod, OrgRead};

/// Expired rows do no harm; they only take room.
const SWEEP_EVERY: Duration = Duration::from_secs(10 * 60);

/// Opens the slice's parts.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let config: &AuthConfig = wiring.config.section();
        let settings = AuthSettings {
            registration: config.registration,
            registrations_per_hour: config.registrations_per_hour,
            public_url: wiring.url.to_owned(),
        };
        let auth = Auth::new(wiring.system(), wiring.part(), settings)?;
        wiring.hang::<Auth>(auth);
        Ok(())
    })
}

/// The one script of the pages that mailed links lead to.
pub const LINK_SCRIPT: &str = include_str!("../../../../../data/pages/link.js");

static VERIFY_PAGE: WebPage = WebPage::linked(
    "Verify your email address",
    include_str!("../../../../../data/pages/verify-email.html"),
    LINK_SCRIPT,
);
static RESET_PAGE: WebPage = WebPage::linked(
    "Choose a new password",
    include_str!("../../../../../data/pages/reset-password.html"),
    LINK_SCRIPT,
);

pub static FEATURE: Feature = Feature {
    name: "auth",
    uses: &["billing", "mail"],
    sections: &[SectionSpec::of::<AuthConfig>()],
    open: Some(open),
    tables: &[
        &ORG,
        &ORGS,
        &INVITES,
        &USERS,
        &rows::REFRESH_TOKENS,
        &rows::PROVIDER_ACCOUNTS,
        &rows::VERIFICATIONS,
        &rows::RESETS,
        &limits::LOGIN_FAILURES,
        &networks::LOGIN_NETWORKS,
    ],
    routes: &[
        Route::post("/api/v1/auth/register", "register", &Handler::new(register))
            .secret()
            .about("Makes an account and logs its owner in.")
            .fails(&[Code::AuthForbidden, Code::AlreadyExists, Code::ServiceUnavailable]),
        Route::post("/api/v1/auth/login", "login", &Handler::new(login))
            .secret()
            .about("Logs in with email address and password.")
            .fails(&[Code::AuthInvalid, Code::RateLimited, Code::ServiceUnavailable]),
        Route::post("/api/v1/auth/refresh", "refreshTokens", &Handler::new(refresh))
            .secret()
            .about("Replaces a refresh token, which is good once, by a new pair of tokens.")
            .fails(&[Code::AuthInvalid]),
        Route::post("/api/v1/auth/logout", "logout", &Handler::new(logout))
            .about("Ends the login that a refresh token belongs to."),
        Route::post("/api/v1/auth/forgot-password", "forgotPassword", &Handler::new(forgot_password))
            .secret()
            .about("Sends a message with which a forgotten password can be replaced.")
            .fails(&[Code::RateLimited]),
        Route::post("/api/v1/auth/reset-password", "resetPassword", &Handler::new(reset_password))
            .secret()
            .about("Replaces a password with the token that was sent; ends every session of the person.")
            .fails(&[Code::ServiceUnavailable]),
        Route::post("/api/v1/auth/verify-email", "verifyEmail", &Handler::new(verify_email))
            .secret()
            .about("Verifies an email address with the token that was sent to it."),
        Route::post(
            "/api/v1/auth/resend-verification",
            "resendVerification",
            &Handler::new(resend_verification),
        )
        .about("Sends a new verification message; earlier ones stop working.")
        .fails(&[Code::InvalidInput, Code::NotFound, Code::RateLimited]),
        Route::get("/api/v1/auth/me", "getMe", &Handler::new(me))
            .about("Says who is calling and what they may do."),
        sessions::LIST,
        sessions::END_OTHERS,
        sessions::END,
    ],
    pages: &[
        Route::get("/verify-email", "verifyEmailPage", &VERIFY_PAGE),
        Route::get("/reset-password", "resetPasswordPage", &RESET_PAGE),
    ],
    needs: &[Need::of::<Auth>()],
    personal: personal::KINDS,
    tasks: &[TaskSpec::new("auth.sweep", SWEEP_EVERY, |context| Box::pin(task::sweep(context)))],
    ..Feature::NONE
};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RegisterRequest {
    #[schemars(email)]
    email: String,
    /// 12 to 256 characters, not the email address, not a common password.
    #[schemars(length(min = 12, max = 256))]
    password: String,
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
    /// From an invitation to this address; asked for where registration is by invitation.
    invite_token: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LoginRequest {
    #[schemars(email)]
    email: String,
    password: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RefreshTokenRequest {
    refresh_token: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VerifyEmailRequest {
    token: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ForgotPasswordRequest {
    #[schemars(email)]
    email: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResetPasswordRequest {
    /// From the message.
    token: String,
    /// 12 to 256 characters, not the email address, not a common password.
    #[schemars(length(min = 12, max = 256))]
    password: String,
}

/// What a person sees of their account.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UserView {
    id: UserId,
    email: String,
    name: String,
    email_verified_at: Option<Timestamp>,
    /// Null before the person has made or joined an organization.
    org_id: Option<OrgId>,
    org_name: Option<String>,
}

impl UserView {
    fn new(user: UserV1, org_name: Option<String>) -> UserView {
        UserView {
            id: user.id,
            email: user.email,
            name: user.name,
            email_verified_at: user.email_verified_at,
            org_id: user.membership.map(|(id, _)| id),
            org_name,
        }
    }
}

/// Who logged in, what they may do, and the tokens of the login.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LoginView {
    user: UserView,
    permissions: Vec<String>,
    #[serde(flatten)]
    tokens: TokensView,
}

impl From<LoggedIn> for LoginView {
    fn from(login: LoggedIn) -> LoginView {
        LoginView {
            permissions: permissions_of(&login.user).names(),
            user: UserView::new(login.user, login.org.map(|org| org.name)),
            tokens: login.tokens.into(),
        }
    }
}

/// The tokens of a login.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokensView {
    access_token: String,
    /// Good once: a refresh answers with the next one.
    refresh_token: String,
    /// Seconds until the access token ends.
    expires_in: u64,
}

impl From<TokenPair> for TokensView {
    fn from(tokens: TokenPair) -> TokensView {
        TokensView {
            access_token: tokens.access,
            refresh_token: tokens.refresh,
            expires_in: ACCESS_TOKEN_SECS,
        }
    }
}

/// An organization as everybody in it sees it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrgView {
    id: OrgId,
    name: String,
    /// The plan's id.
    plan: String,
}

impl OrgView {
    /// The organization whose rows `tx` reads.
    pub fn read(tx: &OrgRead<'_>) -> Result<OrgView> {
        let OrgV1 { id, name, .. } = tx.require(&ORG, &())?;
        Ok(OrgView { id, name, plan: billing::account(tx)?.plan })
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AuthMethodView {
    Jwt,
    ApiKey,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MeView {
    user: UserView,
    role: Option<Role>,
    /// What this credential allows: for an API key perhaps less than its maker may do.
    permissions: Vec<String>,
    organization: Option<OrgView>,
    auth_method: AuthMethodView,
}

#[derive(Serialize, JsonSchema)]
struct MessageView {
    message: &'static str,
}

async fn register(
    caller: Anonymous,
    ClientIp(ip): ClientIp,
    Body(new): Body<RegisterRequest>,
) -> Result<Created<LoginView>> {
    let registrant = Registrant {
        email: &new.email,
        password: &new.password,
        name: &new.name,
        invite_token: new.invite_token.as_deref(),
        ip,
    };
    let login = caller.service::<Auth>().register(&registrant).await?;
    Ok(Created(login.into()))
}

async fn login(
    caller: Anonymous,
    ClientIp(ip): ClientIp,
    Body(request): Body<LoginRequest>,
) -> Result<Body<LoginView>> {
    let login = caller.service::<Auth>().login(&request.email, &request.password, ip).await?;
    Ok(Body(login.into()))
}

async fn refresh(
    caller: Anonymous,
    ClientIp(ip): ClientIp,
    Body(request): Body<RefreshTokenRequest>,
) -> Result<Body<TokensView>> {
    let tokens = caller.service::<Auth>().refresh(&request.refresh_token, ip).await?;
    Ok(Body(tokens.into()))
}

async fn logout(caller: Anonymous, Body(request): Body<RefreshTokenRequest>) -> Result<Body<MessageView>> {
    caller.service::<Auth>().logout(&request.refresh_token).await?;
    Ok(Body(MessageView { message: "You are logged out." }))
}

async fn forgot_password(
    caller: Anonymous,
    ClientIp(ip): ClientIp,
    Body(request): Body<ForgotPasswordRequest>,
) -> Result<Body<MessageView>> {
    caller.service::<Auth>().forgot_password(&request.email, ip).await?;
    Ok(Body(MessageView {
        message: "If the address has an account, a message to it is on its way. Its link is good once and for an hour.",
    }))
}

async fn reset_password(
    caller: Anonymous,
    ClientIp(ip): ClientIp,
    Body(request): Body<ResetPasswordRequest>,
) -> Result<Body<MessageView>> {
    caller.service::<Auth>().reset_password(&request.token, &request.password, ip).await?;
    Ok(Body(MessageView {
        message: "Your password is changed. Log in with it; every earlier login has ended.",
    }))
}

async fn verify_email(
    caller: Anonymous,
    Body(request): Body<VerifyEmailRequest>,
) -> Result<Body<MessageView>> {
    caller.service::<Auth>().verify_email(request.token).await?;
    Ok(Body(MessageView { message: "Your email address is verified." }))
}

async fn resend_verification(caller: User) -> Result<Body<MessageView>> {
    caller.service::<Auth>().resend_verification(caller.principal().user()).await?;
    Ok(Body(MessageView {
        message: "A verification message is on its way; earlier ones do not work any more.",
    }))
}

async fn me(caller: User) -> Result<Body<MeView>> {
    let principal = caller.principal();
    let (user, organization) = caller.system().read(|tx| {
        // The account can go between the gate and here; then its credential is no good either.
        let user = tx.get(&USERS, &principal.user())?.ok_or_else(|| Error::new(Code::AuthInvalid))?;
        let organization = user.membership.map(|(org, _)| OrgView::read(&tx.org(org))).transpose()?;
        Ok((user, organization))
    })?;
    Ok(Body(MeView {
        role: principal.role(),
        permissions: principal.permissions().names(),
        user: UserView::new(user, organization.as_ref().map(|org| org.name.clone())),
        organization,
        auth_method: match principal.method() {
            AuthMethod::Jwt => AuthMethodView::Jwt,
            AuthMethod::ApiKey(_) => AuthMethodView::ApiKey,
        },
    }))
}

#[cfg(test)]
mod tests;
