//! The rules of accounts: register, log in, refresh, log out, verify. Resetting a password is in `reset.rs`.
//!
//! Each is one write operation around at most one password hash. Whatever a caller could learn an account's existence
//! from is the same for an unknown address and a wrong password: work, rows written, answer. The one exception is
//! registration, which says that an address is taken (data/docs/api.md, "People, organizations and keys").

use super::directory::{ORG, OrgV1, good_invite};
use super::email::Email;
use super::limits::{self, LoginCounters, PasswordCounters};
use super::mail::{self, MailToken};
use super::networks;
use super::password::{self, NewPassword, Passwords};
use super::provider;
use super::registrations::Registrations;
use super::rows::member_of;
use super::rows::{ProviderLoginV1, REFRESH_TOKENS, USERS, USERS_BY_EMAIL, UserV1};
use super::session::{self, RefreshToken, Refreshed};
use super::token::{ACCESS_TOKEN_TIME, AccessTokens, TokenFault};
use crate::features::mail::MailKind;
use base::audit::Action;
use base::clock::{Moment, Now};
use base::ids::{OrgId, SessionId, UserId};
use base::name::Name;
use base::permission::Permissions;
use base::{Code, Error, Result};
use secrets::keyring::Keyring;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{Event, SysRead, SysWrite, System};
use uuid::Uuid;

/// How long after a login through the company's provider it stands for the password that nobody knows. What the provider asked at that
/// login is the provider's to say.
const FRESH_LOGIN: Duration = Duration::from_secs(600);

/// Who may make an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registration {
    /// Anybody who reaches the box.
    #[default]
    Open,
    /// Whoever was invited into an organization.
    Invite,
    /// Nobody.
    Closed,
}

/// What app fills from the configuration.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    pub registration: Registration,
    /// Of one network, without an invitation.
    pub registrations_per_hour: u32,
    /// The box's address as people reach it, such as `https://gleaner.example.com`; in messages. Without a slash at
    /// the end.
    pub public_url: String,
}

/// Accounts and logins; one for the box.
pub struct Auth {
    pub(super) system: System,
    tokens: AccessTokens,
    keyring: Arc<Keyring>,
    pub(super) passwords: Passwords,
    pub(super) settings: AuthSettings,
    registrations: Registrations,
    /// Whether people sign in through the company's provider.
    has_provider: AtomicBool,
}

/// A registration as it comes in.
pub struct Registrant<'a> {
    pub email: &'a str,
    pub password: &'a str,
    pub name: &'a str,
    /// From an invitation to the address; asked for where registration is by invitation.
    pub invite_token: Option<&'a str>,
    /// Where it comes from.
    pub ip: IpAddr,
}

/// The two tokens of a login.
pub struct TokenPair {
    pub access: String,
    pub refresh: String,
}

/// Somebody who is logged in.
pub struct LoggedIn {
    pub user: UserV1,
    pub org: Option<OrgV1>,
    pub tokens: TokenPair,
}

/// A login that is being made: store it in the transaction that lets the person in, then turn it into tokens.
pub struct NewLogin {
    refresh: RefreshToken,
}

/// Proof that a login was stored, and when: access tokens are dated by the transaction, so that what ends all sessions
/// later also ends this one.
#[derive(Clone)]
pub struct LoginStored {
    user: UserId,
    /// The login, which its access tokens name: they end with it.
    session: Uuid,
    /// Not before the person's sessions are valid.
    issued_at: Moment,
    now: Now,
}

impl NewLogin {
    pub fn prepare() -> Result<NewLogin> {
        RefreshToken::generate().map(|refresh| NewLogin { refresh })
    }

    /// Begins the login of `user`.
    pub fn store(&self, tx: &SysWrite<'_>, user: &UserV1) -> Result<LoginStored> {
        session::start(tx, user.id, &self.refresh, None)?;
        Ok(LoginStored::of(tx, user, self.refresh.family()))
    }

    /// Begins the login of `user` through the company's provider.
    pub fn store_of_provider(
        &self,
        tx: &SysWrite<'_>,
        user: &UserV1,
        login: ProviderLoginV1,
    ) -> Result<LoginStored> {
        session::start(tx, user.id, &self.refresh, Some(login))?;
        Ok(LoginStored::of(tx, user, self.refresh.family()))
    }
}

impl LoginStored {
    fn of(tx: &SysRead<'_>, user: &UserV1, session: Uuid) -> LoginStored {
        let issued_at = tx.moment().max(user.sessions_valid_from);
        LoginStored { user: user.id, session, issued_at, now: tx.clock().clone() }
    }
}

impl Auth {
    /// Hashes once, to have a hash to compare with where there is no account (some 20 ms).
    pub fn new(system: System, keyring: Arc<Keyring>, settings: AuthSettings) -> Result<Auth> {
        let tokens = AccessTokens::new(keyring.clone());
        let registrations = Registrations::new(settings.registrations_per_hour);
        let has_provider = AtomicBool::new(false);
        Ok(Auth {
            system,
            tokens,
            keyring,
            passwords: Passwords::new()?,
            settings,
            registrations,
            has_provider,
        })
    }

    /// From now on people sign in through the company's provider: passwords of accounts that it lets in do not count, but for
    /// owners'.
    pub fn trust_provider(&self) {
        self.has_provider.store(true, Ordering::Relaxed);
    }

    /// Whether a password of this person's counts for nothing, because the provider lets them in.
    pub(super) fn bars_password(&self) -> bool {
        self.has_provider.load(Ordering::Relaxed)
    }

    /// The hash of a password that nobody knows.
    pub async fn nobodys_password(&self) -> Result<String> {
        self.passwords.hash(NewPassword::nobodys()?).await
    }

    /// A new token for a message of this kind.
    pub fn mail_token(&self, kind: MailKind) -> Result<MailToken> {
        MailToken::generate(kind, &self.keyring)
    }

    /// Makes an account and logs its owner in. 409 `already_exists` for a taken address.
    pub async fn register(&self, new: &Registrant<'_>) -> Result<LoggedIn> {
        let registration = self.settings.registration;
        if registration == Registration::Closed {
            return Err(closed("This box takes no new accounts. Ask its operator."));
        }
        let email = Email::parse(new.email)?;
        let name = Name::parse("name", new.name)?;
        let password = NewPassword::parse(new.password, &email)?;
        // Asked before the hash, too: the index refuses a taken address anyway, and invitations are looked up again.
        let invite_token = new.invite_token.map(str::to_owned);
        let was_invited =
            self.system.read(|tx| check_invite(tx, registration, invite_token.as_deref(), &email))?;
        if !was_invited {
            self.registrations.count(new.ip, self.system.clock().moment())?;
        }
        if self.system.read(|tx| tx.exists(&USERS_BY_EMAIL, email.as_str()))? {
            return Err(taken());
        }
        let password_hash = self.passwords.hash(password).await?;
        let (login, token) = (NewLogin::prepare()?, self.mail_token(MailKind::VerifyEmail)?);
        let (public_url, ip) = (self.settings.public_url.clone(), new.ip);
        let (user, stored, login) = self
            .system
            .write(move |tx| {
                let was_invited = check_invite(tx, registration, invite_token.as_deref(), &email)?;
                let user = UserV1 {
                    id: UserId::new(),
                    email: email.as_str().to_owned(),
                    name: name.into_string(),
                    password_hash,
                    // The token came with a message to this address.
                    email_verified_at: was_invited.then(|| tx.now()),
                    membership: None,
                    created_at: tx.now(),
                    sessions_valid_from: tx.moment(),
                };
                tx.insert(&USERS, &user.id, &user)?;
                if !was_invited {
                    mail::send_verification(tx, &user, &token, &public_url)?;
                }
                let stored = login.store(tx, &user)?;
                networks::learn(tx, user.id, ip)?;
                tx.audit(
                    Event::new(Action::UserRegistered).of(user.id).by(user.id).with("invited", was_invited),
                )?;
                Ok((user, stored, login))
            })
            .await
            .map_err(|e| if e.code() == Code::AlreadyExists { taken() } else { e })?;
        Ok(LoggedIn { user, org: None, tokens: self.tokens(stored, &login) })
    }

    /// Logs in. The same 401 for an unknown address and a wrong password; 429 after too many failures.
    pub async fn login(&self, email: &str, password: &str, ip: IpAddr) -> Result<LoggedIn> {
        let email = Email::parse(email)?;
        password::check_length(password)?;
        let counters = LoginCounters::of(ip, &email);
        if let Err(throttled) = self.system.read(|tx| counters.check(tx)) {
            // A count that could not be read is no refusal.
            if throttled.code() == Code::RateLimited {
                self.system.refused(None, Event::new(Action::AuthLoginThrottled)).await;
            }
            return Err(throttled);
        }
        let user = self.system.read(|tx| tx.lookup(&USERS, &USERS_BY_EMAIL, email.as_str()))?;
        let account = user.as_ref().map(|user| (user.id, member_of(user)));
        let hash = user.as_ref().map(|user| user.password_hash.clone());
        let matches = self.passwords.verify(password.to_owned(), hash.clone()).await?;
        let candidate = user.filter(|_| matches).map(|user| user.id);
        let login = NewLogin::prepare()?;
        let bars = self.bars_password();
        let let_in = self
            .system
            .write_reserved(move |tx| {
                // Asked again: of tries that were checked at the same time, only those within the limit count, right
                // or wrong.
                counters.check(tx)?;
                // The account as it is now: a password that was changed meanwhile is a wrong one.
                let user = candidate.map(|id| tx.get(&USERS, &id)).transpose()?.flatten();
                let user = user.filter(|user| Some(&user.password_hash) == hash.as_ref());
                // Whom the provider lets in has no password here: a right one is as good as a wrong one.
                let is_barred = match &user {
                    Some(user) => bars && provider::bars(tx, user)?,
                    None => false,
                };
                let Some(user) = user.filter(|_| !is_barred) else {
                    // The failure must be kept, so to the store this is no error.
                    counters.record(tx)?;
                    refused_login(tx, account)?;
                    return Ok(None);
                };
                let stored = login.store(tx, &user)?;
                networks::learn(tx, user.id, ip)?;
                let org = org_of(tx, &user)?;
                tx.audit_in(member_of(&user), Event::new(Action::AuthLogin).of(user.id).by(user.id))?;
                Ok(Some((user, org, stored, login)))
            })
            .await?;
        let (user, org, stored, login) =
            let_in.ok_or_else(|| Error::new(Code::AuthInvalid).title("Invalid email or password"))?;
        Ok(LoggedIn { user, org, tokens: self.tokens(stored, &login) })
    }

    /// Asks somebody who is logged in for their password once more. 403 for a wrong one, which counts as a failed login;
    /// 429 after too many of those, however many failed logins of others there are.
    pub async fn confirm_password(&self, id: UserId, password: &str, ip: IpAddr) -> Result<()> {
        password::check_length(password)?;
        let user =
            self.system.read(|tx| tx.get(&USERS, &id))?.ok_or_else(|| Error::new(Code::AuthInvalid))?;
        if self.bars_password() && self.system.read(|tx| provider::bars(tx, &user))? {
            return Err(Error::new(Code::AuthForbidden).title("There is no password to confirm with").message(
                "Sign in through your company's provider, and ask again without a password within ten minutes.",
            ));
        }
        let counters = PasswordCounters::of(ip, &Email::parse(&user.email)?);
        self.system.read(|tx| counters.check(tx))?;
        let matches = self.passwords.verify(password.to_owned(), Some(user.password_hash)).await?;
        // Asked again: of tries that were checked at the same time, only those within the limit count, right or wrong.
        if matches {
            return self.system.read(|tx| counters.check(tx));
        }
        self.system
            .write_reserved(move |tx| {
                counters.check(tx)?;
                tx.unaudited("the refusal of the operation has a row");
                counters.record(tx)
            })
            .await?;
        Err(Error::new(Code::AuthForbidden)
            .title("Wrong password")
            .message("Send the password of your account."))
    }

    /// Asks somebody who is logged in to show once more that it is them: by their password, or, where the session that asks came
    /// through the company's provider, by having begun in the last minutes. 400 where the password is missing, 403 for what
    /// shows nothing.
    pub async fn confirm(
        &self,
        (id, session): (UserId, Option<SessionId>),
        password: Option<&str>,
        ip: IpAddr,
    ) -> Result<()> {
        if let Some(password) = password {
            return self.confirm_password(id, password, ip).await;
        }
        let age = self.system.read(|tx| {
            let own = session::all_of(tx, id)?.into_iter().find(|row| session == Some(SessionId(row.family)));
            Ok::<_, Error>(own.filter(|row| row.provider.is_some()).map(|row| tx.age(row.created_at)))
        })?;
        match age {
            None => Err(Error::invalid("password", "is required")),
            Some(age) if age <= FRESH_LOGIN => Ok(()),
            Some(_) => Err(Error::new(Code::AuthForbidden).title("Your login is too old for this").message(
                "Sign in through your company's provider once more, and ask again within ten minutes.",
            )),
        }
    }

    /// Replaces a refresh token. One that was used before ends its whole family; both are a 401.
    pub async fn refresh(&self, text: &str, ip: IpAddr) -> Result<TokenPair> {
        let refused =
            || Error::new(Code::AuthInvalid).title("Invalid refresh token").message("Log in again.");
        let shown = RefreshToken::parse(text).ok_or_else(refused)?;
        // Junk is refused without a commit.
        if self.system.read(|tx| tx.get(&REFRESH_TOKENS, &shown.family()))?.is_none() {
            return Err(refused());
        }
        let next = shown.successor()?;
        let (outcome, next) = self
            .system
            .write_reserved(move |tx| {
                let outcome = match session::rotate(tx, &shown, &next)? {
                    Refreshed::Rotated(user) => {
                        tx.unaudited("a login goes on; its beginning and its end have rows");
                        networks::learn(tx, user.id, ip)?;
                        Some(LoginStored::of(tx, &user, next.family()))
                    }
                    Refreshed::Reused(user) => {
                        tracing::warn!(%user, "a refresh token was used twice; its login has ended");
                        let org = tx.get(&USERS, &user)?.as_ref().and_then(member_of);
                        tx.audit_in(org, Event::new(Action::AuthTokenReused).of(user).about(user))?;
                        None
                    }
                    Refreshed::Unknown => {
                        tx.unaudited("a login that was over is swept");
                        None
                    }
                };
                Ok((outcome, next))
            })
            .await?;
        let stored = outcome.ok_or_else(refused)?;
        Ok(self.tokens(stored, &NewLogin { refresh: next }))
    }

    /// Ends the login that a refresh token belongs to; nothing happens for an unknown one.
    pub async fn logout(&self, text: &str) -> Result<()> {
        self.end_login(text).await.map(|_| ())
    }

    /// The same; whether it was a login through the company's provider.
    pub async fn end_login(&self, text: &str) -> Result<bool> {
        let Some(shown) = RefreshToken::parse(text) else { return Ok(false) };
        if self.system.read(|tx| tx.get(&REFRESH_TOKENS, &shown.family()))?.is_none() {
            return Ok(false);
        }
        self.system
            .write_reserved(move |tx| {
                let Some(login) = session::finish(tx, &shown)? else { return Ok(false) };
                let user = login.user;
                let org = tx.get(&USERS, &user)?.as_ref().and_then(member_of);
                tx.audit_in(org, Event::new(Action::AuthLogout).of(user).by(user))?;
                Ok(login.provider.is_some())
            })
            .await
    }

    /// Uses up a verification token; 400 when it is bad, used or old.
    pub async fn verify_email(&self, token: String) -> Result<()> {
        let verified = self.system.write(move |tx| {
            let user = mail::verify(tx, &token)?;
            match &user {
                Some(user) => {
                    let event = Event::new(Action::UserVerified).of(user.id).by(user.id);
                    tx.audit_in(member_of(user), event.with("by", "token"))?;
                }
                None => tx.unaudited("a token that was over is swept"),
            }
            Ok(user.is_some())
        });
        if verified.await? {
            Ok(())
        } else {
            Err(Error::invalid("token", "is not valid any more; ask for a new verification message"))
        }
    }

    /// Sends a fresh verification token, which ends the earlier ones. 400 when the address is verified, 429 when the
    /// address has got too many already.
    pub async fn resend_verification(&self, user: UserId) -> Result<()> {
        let token = self.mail_token(MailKind::VerifyEmail)?;
        let public_url = self.settings.public_url.clone();
        self.system
            .write(move |tx| {
                let user = tx.require(&USERS, &user)?;
                if user.email_verified_at.is_some() {
                    return Err(Error::new(Code::InvalidInput).title("Email address is already verified"));
                }
                limits::count_verification(tx, &user.email)?;
                mail::send_verification(tx, &user, &token, &public_url)?;
                tx.audit_in(member_of(&user), Event::new(Action::AuthVerificationSent).of(user.id))
            })
            .await
    }

    /// The person behind an access token, as they are now, and the login that it is of. One whose login has ended (logged out,
    /// ended by a refresh token that was used twice) is refused at once.
    pub fn user_of_access_token(&self, token: &str) -> Result<(UserV1, Option<SessionId>)> {
        self.system.read(|tx| {
            let claims = self.tokens.check(token, tx.moment()).map_err(|fault| match fault {
                TokenFault::Invalid => Error::new(Code::AuthInvalid),
                TokenFault::Expired => Error::new(Code::AuthInvalid).message("The access token has expired."),
                TokenFault::TooEarly => {
                    Error::new(Code::AuthInvalid).message("The access token is not valid yet; log in again.")
                }
            })?;
            let ended = || Error::new(Code::AuthInvalid).message("The session has ended.");
            // Tokens of releases before this one name no login; the last of them ended fifteen minutes after the upgrade.
            if let Some(session) = claims.session {
                tx.get(&REFRESH_TOKENS, &session)?.filter(|row| row.user == claims.user).ok_or_else(ended)?;
            }
            let user = tx.get(&USERS, &claims.user)?;
            let user = user.filter(|user| claims.issued_at >= user.sessions_valid_from).ok_or_else(ended)?;
            Ok((user, claims.session.map(SessionId)))
        })
    }

    /// The person behind a refresh token that a browser keeps in a cookie of the box's, and the login that it is of: it is shown
    /// with each request, and not used up by that.
    pub fn user_of_browser(&self, token: &str) -> Result<(UserV1, Option<SessionId>)> {
        let shown = RefreshToken::parse(token).ok_or_else(|| Error::new(Code::AuthInvalid))?;
        let ended = || Error::new(Code::AuthInvalid).message("The session has ended.");
        self.system.read(|tx| {
            let login = session::find(tx, &shown)?.ok_or_else(ended)?;
            let user = tx.get(&USERS, &login.user)?.ok_or_else(ended)?;
            Ok((user, Some(SessionId(login.family))))
        })
    }

    /// The tokens of a login that was stored.
    pub fn tokens(&self, stored: LoginStored, login: &NewLogin) -> TokenPair {
        let access = self.tokens.issue(stored.user, stored.session, stored.issued_at, &stored.now);
        TokenPair { access, refresh: login.refresh.text() }
    }

    pub fn system(&self) -> &System {
        &self.system
    }

    /// Whether who was invited can make an account; if not, accounts are the operator's to make.
    pub fn takes_invited(&self) -> bool {
        self.settings.registration != Registration::Closed
    }

    /// The box's address as people reach it, without a slash at the end.
    pub fn public_url(&self) -> &str {
        &self.settings.public_url
    }
}

fn closed(message: &str) -> Error {
    Error::new(Code::AuthForbidden).title("Registration is closed").message(message)
}

/// Whether the address was invited with this token. A refusal where registration asks for that and it was not.
fn check_invite(
    tx: &SysRead<'_>,
    registration: Registration,
    token: Option<&str>,
    email: &Email,
) -> Result<bool> {
    let invite = token.map(|token| good_invite(tx, token)).transpose()?.flatten();
    let was_invited = invite.is_some_and(|(_, invite)| invite.email == email.as_str());
    if registration == Registration::Invite && !was_invited {
        return Err(closed(
            "This box takes new accounts by invitation only, and nobody has invited this address with this token. Ask \
             the administrator of your organization.",
        ));
    }
    Ok(was_invited)
}

/// How long access tokens live, in seconds.
pub const ACCESS_TOKEN_SECS: u64 = ACCESS_TOKEN_TIME.as_secs();

fn taken() -> Error {
    Error::new(Code::AlreadyExists)
        .title("Email address is already registered")
        .message("Log in, or register another address.")
}

/// The organization that a person is a member of.
fn org_of(tx: &SysRead<'_>, user: &UserV1) -> Result<Option<OrgV1>> {
    match user.membership {
        Some((org, _)) => tx.org(org).get(&ORG, &()),
        None => Ok(None),
    }
}

/// Writes down a login that was refused: with the organization of the account, if there is one. As much is written for an
/// address without an account, and the address that was typed is not.
fn refused_login(tx: &SysWrite<'_>, account: Option<(UserId, Option<OrgId>)>) -> Result<()> {
    let event = Event::new(Action::AuthLoginRefused);
    match account {
        Some((user, org)) => tx.audit_refusal(org, event.of(user).about(user).with("reason", "password")),
        None => tx.audit_refusal(None, event.with("reason", "unknown_account")),
    }
}

/// Everything that a person may do.
pub fn permissions_of(user: &UserV1) -> Permissions {
    user.membership.map_or(Permissions::NONE, |(_, role)| role.permissions())
}
